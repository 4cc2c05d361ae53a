"""PyVRP on waves and days, features, policies, evaluation."""

from itertools import combinations, permutations

import numpy as np
import pytest

pytest.importorskip("pyvrp")

from experiments.dvrptw import features as feature_module
from experiments.dvrptw import synthetic
from experiments.dvrptw.data import Source, find_folder
from experiments.dvrptw.engine import Engine
from experiments.dvrptw.environment import Environment, Wave, make_wave, replay
from experiments.dvrptw.evaluate import Judge, evaluate, play
from experiments.dvrptw.features import NAMES, arcs, features
from experiments.dvrptw.labels import Labeling, anticipative, examples, hindsight
from experiments.dvrptw.policies import Policy, prizes_of, published_network
from experiments.dvrptw.solver import Budget, WaveSolver, plan, repaired, restricted, served, solve_day, without_losses

DATA = find_folder()
needs_data = pytest.mark.skipif(DATA is None, reason="the competition's data are not here (MOVEGRAD_DATA, or ../shared/data)")
SOURCE = Source(None, 10, 30)


def a_wave(seed: int, size: int, epoch: int = 2) -> Wave:
    """A wave with the first requests that could be open in it."""
    environment = Environment(synthetic.generate(25, seed), seed, 12)
    environment.reset()
    requests = environment.requests
    whole = make_wave(environment.instance, requests, np.flatnonzero(requests.epochs <= epoch), epoch)
    fine = np.array([whole.complaint([i]) is None for i in range(1, len(whole) + 1)])
    return make_wave(environment.instance, requests, np.flatnonzero(requests.epochs <= epoch)[fine][:size], epoch)


def best_by_enumeration(wave: Wave, prizes: np.ndarray) -> float:
    """Max Σ prizes − driving over all sets of routes that serve what must go: best route of each set, then partitions."""
    n = len(wave)
    cheapest: dict[frozenset, float] = {}
    for size in range(1, n + 1):
        for subset in combinations(range(1, n + 1), size):
            costs = [wave.drive(p) for p in permutations(subset) if wave.complaint(p) is None]
            if costs:
                cheapest[frozenset(subset)] = min(costs)

    def best(left: frozenset) -> float:
        if not left:
            return 0.0
        first = min(left)
        options = [] if wave.must[first] else [best(left - {first})]
        for group, cost in cheapest.items():
            if first in group and group <= left:
                options.append(sum(prizes[i - 1] for i in group) - cost + best(left - group))
        return max(options)

    return best(frozenset(range(1, n + 1)))


@pytest.mark.parametrize("seed", range(6))
def test_waves_are_solved_to_the_optimum_of_enumeration(seed):
    wave = a_wave(seed, 5, epoch=2 + seed % 2)
    prizes = np.rint(np.random.default_rng(seed).normal(1500, 1500, len(wave)))
    expected = best_by_enumeration(wave, prizes)
    for found in (plan(wave, prizes, Budget(iterations=300)), WaveSolver(wave).solve(prizes, Budget(iterations=300))):
        wave.check(found.routes)
        assert found.cost == wave.cost(found.routes)
        assert found.objective == prizes @ served(found.routes, len(wave)) - found.cost
        assert found.objective == expected


def test_infinite_prizes_require_and_negative_ones_leave_out():
    wave = a_wave(1, 8)
    greedy = plan(wave, np.full(len(wave), np.inf), Budget(iterations=50))
    assert served(greedy.routes, len(wave)).all()
    lazy = plan(wave, np.full(len(wave), -np.inf), Budget(iterations=50))
    assert (served(lazy.routes, len(wave)) == wave.must[1:]).all()
    assert plan(restricted(wave, np.arange(len(wave) + 1) == 0, wave.must), np.zeros(0), Budget(iterations=1)).routes == []


def test_same_seed_and_iterations_give_the_same_routes():
    wave = a_wave(2, 20)
    prizes = np.full(len(wave), 900.0)
    one, two = (WaveSolver(wave).solve(prizes, Budget(iterations=40), seed=3) for _ in range(2))
    assert one.routes == two.routes
    assert one.iterations == 40


def test_infeasible_routes_are_split_and_losses_removed():
    wave = a_wave(3, 8)
    late = next(p for p in permutations(range(1, len(wave) + 1), 4) if wave.complaint(p) is not None)
    routes = repaired(wave, [list(late)])
    wave.check(routes)
    assert served(routes, len(wave))[np.array(late) - 1].all()
    optional = next(i for i in range(1, len(wave) + 1) if not wave.must[i])
    prizes = np.full(len(wave), 5000.0)
    prizes[optional - 1] = -10.0
    kept = without_losses(wave, [[i] for i in range(1, len(wave) + 1)], prizes)
    assert [optional] not in kept
    assert len(kept) == len(wave) - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "iterations or seconds"),
        ({"iterations": 1, "seconds": 1.0}, "iterations or seconds"),
        ({"iterations": -1}, "iterations must be ≥ 0, got -1"),
        ({"seconds": 0.0}, r"seconds must be > 0, got 0\.0"),
    ],
)
def test_budgets_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Budget(**arguments)


def test_prizes_are_checked():
    solver = WaveSolver(a_wave(0, 4))
    for wrong in (np.zeros(3), np.array([0.0, np.nan, 1.0, 2.0])):
        with pytest.raises(ValueError, match="prizes must be 4 finite numbers"):
            solver.solve(wrong, Budget(iterations=1))


# --- hindsight -----------------------------------------------------------------------------------------------------------


def test_days_in_hindsight_replay_and_beat_greedy(tmp_path):
    days = SOURCE.days("train", 2)
    found = hindsight(SOURCE, days, Labeling(Budget(iterations=300)), Engine(workers=0), tmp_path)
    for day in days:
        cost, _, _ = replay(SOURCE.environment(day), found[day.name].routes)
        assert cost == found[day.name].cost
        greedy = play(SOURCE, Policy("greedy"), day, Judge(iterations=100))
        assert cost < greedy["cost"]
        warm = [route for _, route in greedy["routes"]]
        environment = SOURCE.environment(day)
        environment.reset()
        started = solve_day(environment.instance, environment.requests, Budget(iterations=0), start=warm)
        assert started.cost == greedy["cost"], "a warm start begins at the given routes"
    learned = examples(SOURCE, days, anticipative(SOURCE, days, Labeling(Budget(iterations=300)), Engine(workers=0), tmp_path))
    assert all(not example.wave.is_last for example in learned)
    for example in learned:
        example.wave.check(example.routes)


def test_labels_whose_cost_is_wrong_are_refused(tmp_path):
    days = SOURCE.days("train", 1)
    found = hindsight(SOURCE, days, Labeling(Budget(iterations=20)), Engine(workers=0), tmp_path)
    wrong = {name: solution._replace(cost=solution.cost + 1) for name, solution in found.items()}
    with pytest.raises(ValueError, match="their label says"):
        examples(SOURCE, days, wrong)


# --- features --------------------------------------------------------------------------------------------------------------


def test_features_by_plain_loops():
    wave = a_wave(4, 7)
    instance, table = wave.instance, features(wave)
    assert table.shape == (len(wave) + 1, len(NAMES)) == (len(wave) + 1, 20)
    remaining = 3600 * wave.last_epoch + 3600 - wave.departure
    relu = lambda x: max(x, 0.0)  # noqa: E731
    for i in range(1, len(wave) + 1):
        c = wave.locations[i]
        low, high = wave.windows[i]
        depot, service = instance.durations[0, c], wave.service[i]
        own = [*instance.coordinates[c], wave.demands[i], service, low, high, depot, depot / (high - service)]
        own += [low / remaining, high / remaining, wave.must[i]]
        own += [np.quantile(instance.durations[c], q) for q in (0.01, 0.05, 0.1, 0.5)]
        slacks = []
        for k in range(1, instance.customers + 1):
            start, end = instance.windows[k]
            if end > wave.departure:
                after = relu(relu(relu(end - instance.windows[c, 0]) - service) - instance.durations[c].mean())
                before = relu(instance.windows[c, 1] - max(start, wave.departure))
                before = relu(relu(before - instance.service[1:].mean()) - instance.durations[:, c].mean())
                slacks.append(max(after, before))
        own += [np.quantile(slacks, q) for q in (0.0, 0.01, 0.05, 0.1, 0.5)]
        np.testing.assert_allclose(table[i], np.array(own, float), rtol=1e-12)


def test_arcs_can_be_driven():
    wave = a_wave(4, 7)
    ends, durations = arcs(wave)
    expected = {
        (i, j)
        for i in range(len(wave) + 1)
        for j in range(len(wave) + 1)
        if i != j and wave.windows[i, 0] + wave.durations[i, j] < wave.windows[j, 1]
    }
    assert {tuple(pair) for pair in ends.T.tolist()} == expected
    assert (durations == wave.durations[tuple(ends)]).all()
    assert feature_module.NAMES[10] == "must"


@needs_data
def test_published_network_is_the_stated_one():
    network = published_network(DATA)
    with np.load(DATA / "kleopatra_nn.npz") as saved:
        x = np.random.default_rng(0).normal(size=20)
        value = x
        for i in range(4):
            value = np.array([max(value @ saved[f"w{i}"][:, j] + saved[f"b{i}"][j], 0) for j in range(10)])
        expected = float(value @ saved["w4"][:, 0])
    np.testing.assert_allclose(network(x[None])[0], expected, rtol=1e-5)


@needs_data
def test_published_network_is_far_ahead_of_greedy():
    source = Source(DATA, 50)
    days, judge = source.days("train", 3), Judge(iterations=60)
    kleopatra, greedy = evaluate(source, [Policy("kleopatra"), Policy("greedy")], days, judge, Engine(workers=0), None)
    ratio = sum(d["cost"] for d in kleopatra) / sum(d["cost"] for d in greedy)
    assert ratio < 0.95  # 0.88 when it was written; with features in a wrong order it is above 1


# --- evaluation ------------------------------------------------------------------------------------------------------------


def test_policies_play_days_with_common_random_numbers(tmp_path):
    days, judge = SOURCE.days("test", 2), Judge(iterations=20)
    policies = [Policy(name) for name in ("greedy", "lazy", "random")]
    results = evaluate(SOURCE, policies, days, judge, Engine(workers=0), tmp_path)
    for found in results:
        for day, row in zip(days, found, strict=True):
            assert row["cost"] == sum(wave["cost"] for wave in row["waves"])
            assert replay(SOURCE.environment(day), row["routes"])[0] == row["cost"]
    greedy, lazy, _ = results
    assert all(wave["served"] == wave["open"] for day in greedy for wave in day["waves"])
    assert all(wave["served"] == wave["must"] for day in lazy for wave in day["waves"])
    assert evaluate(SOURCE, policies, days, judge, Engine(workers=0), None) == results
    kept = sorted(tmp_path.glob("*.json"))
    assert len(kept) == 6
    kept[0].write_text(kept[0].read_text().replace('"cost"', '"cost_"', 1))  # a kept result is read, not computed
    assert evaluate(SOURCE, policies, days, judge, Engine(workers=0), tmp_path) != results


def test_policies_and_judges_are_checked():
    with pytest.raises(ValueError, match="policy must be one of"):
        Policy("clever")
    with pytest.raises(ValueError, match="needs model"):
        Policy("network")
    with pytest.raises(ValueError, match="has no model"):
        Policy("greedy", "somewhere")
    with pytest.raises(ValueError, match="needs the competition's data"):
        prizes_of(Policy("kleopatra"), SOURCE)
    with pytest.raises(ValueError, match="solver must be one of"):
        Judge("magic")
    with pytest.raises(ValueError, match="iterations must be ≥ 1, got 0"):
        Judge(iterations=0)
