"""Routing: the law on sets of routes is exact, by enumeration and brute force; gains and feasibility are those of recomputation."""

from itertools import pairwise, product

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import HOST, Begin, Settings, shared_batch
from movegrad.exact import Enumeration
from movegrad.problems.routing import Instance, PrizeCollectingVRPTW, proximity
from movegrad.problems.routing.instance import alias_table, neighbor_weights
from movegrad.proof.pure import Dice, PureProblem
from tests.routing_instances import (
    Plan,
    all_plans,
    array,
    assert_same_state,
    cost,
    feasible,
    instance,
    neighbors,
    plan_of,
    reached,
    served,
)
from tests.slow import slow_but_for


def problem_of(n, seed=0, beta=0.5, arcs=False, **what):
    return PrizeCollectingVRPTW(instance(n, seed, **what), beta=beta, arcs=arcs)


def cases():
    """n = 2: all combinations; n = 3: half of them; n = 4 and 5: some, where sets are small."""
    every = list(product((False, True), (False, True), (False, True), ("none", "some", "all"), (None, 2)))
    for number, (binding, triangle, capacity, must, fleet) in enumerate(every):
        what = {"binding": binding, "triangle": triangle, "capacity": capacity, "must": must, "fleet": fleet}
        small = binding + triangle + capacity + ("none", "some", "all").index(must) + (fleet is None)
        yield from [(2, number, what)] + [(3, number, what)] * (small % 2)
    for n, seed, binding, triangle, capacity, must, fleet in [
        (4, 1, True, True, True, "none", None),
        (4, 4, True, False, True, "some", None),
        (4, 3, True, True, True, "all", None),
        (4, 3, True, False, True, "none", 2),
        (4, 6, True, False, False, "some", 2),
        (4, 0, False, False, True, "all", 2),
        (4, 2, False, False, False, "all", 1),
        (5, 0, True, False, True, "some", None),
        (5, 2, True, True, False, "all", None),
    ]:
        yield n, seed, {"binding": binding, "triangle": triangle, "capacity": capacity, "must": must, "fleet": fleet}


def name_of(case):
    n, seed, what = case
    words = [("loose", "binding")[what["binding"]], ("any", "triangle")[what["triangle"]], "capacity" * what["capacity"]]
    return "-".join(filter(None, [f"{n}", *words, f"must {what['must']}", f"fleet {what['fleet']}", f"{seed}"]))


# --- the law, by enumeration ----------------------------------------------------------------------


FAST = {  # and all with n = 2
    "3-loose-any-must none-fleet None-0", "3-loose-triangle-capacity-must some-fleet 2-21",
    "3-binding-any-capacity-must all-fleet None-34", "3-binding-triangle-capacity-must all-fleet 2-47",
    "4-binding-any-capacity-must some-fleet None-4", "5-binding-triangle-must all-fleet None-2",
}  # fmt: skip


@pytest.mark.parametrize("case", slow_but_for(lambda case: case[0] == 2 or name_of(case) in FAST, cases()), ids=name_of)
def test_moves_are_exact(case):
    """With few vehicles some sets are not connected, whatever the moves: then that is the one finding, as brute force says."""
    n, seed, what = case
    problem = problem_of(n, seed, **what)
    plans = all_plans(problem.instance)
    assert plans, "choose another seed"
    report = mg.check(problem, compiled=n == 3)
    assert report.solutions == len(plans)
    assert report.self_loops == 0
    first = plan_of(next(problem.states()))
    lost = 0 if what["fleet"] is None else len(plans) - len(reached(problem.instance, first))
    assert set(report.findings) == ({"unreachable"} if lost else set()), report
    for sentence in report.findings.get("unreachable", []):
        assert sentence.startswith(f"{lost} of {len(plans)} solutions")


def test_a_fleet_too_small_may_cut_the_set_in_two_and_nothing_else_is_found():
    """One vehicle, all must be served, and only the tours 1234 and 2413 are short enough: no move leads from one to the other."""
    durations = np.full((5, 5), 100.0)
    for a, b in [(1, 2), (2, 3), (3, 4), (2, 4), (4, 1), (1, 3)]:
        durations[a, b] = 1
    durations[0] = (0, 5, 5, 6, 6)
    durations[:, 0] = (0, 6, 6, 5, 5)
    problem = PrizeCollectingVRPTW(Instance(durations, np.zeros(5), np.zeros(5), [[0, 13]] * 5, 1, np.ones(5), 1), beta=0.5)
    assert all_plans(problem.instance) == {Plan([(1, 2, 3, 4)]), Plan([(2, 4, 1, 3)])}
    report = mg.check(problem)
    assert set(report.findings) - {"random", "greedy"} == {"unreachable"}  # no way of building finds room for sure
    assert report.findings["unreachable"][0].startswith("1 of 2 solutions")


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("must", ["none", "some", "all"])
@pytest.mark.parametrize("fleet", [None, 2])
def test_law_is_that_of_brute_force_on_sets_of_routes(n, must, fleet):
    problem = problem_of(n, 7, binding=n % 2 == 0, triangle=False, must=must, fleet=fleet)
    theta, t = np.random.default_rng(n).normal(5, 10, size=n), 7.0
    law = {p: sum(theta[i - 1] for i in served(p)) - cost(problem.instance, p) for p in all_plans(problem.instance)}
    weights = np.exp((np.array(list(law.values())) - max(law.values())) / t)
    law = dict(zip(law, weights / weights.sum(), strict=True))
    table = Enumeration(problem)
    found = [plan_of(y) for y in table.solutions]
    assert len(found) == len(set(found)) == len(law)
    np.testing.assert_allclose(table.probabilities(theta, t), [law[p] for p in found], rtol=1e-12)
    for plan, probability in law.items():
        assert (array(plan, n) == table.solutions).all(1).sum() == 1
        assert probability > 0


def test_two_routes_are_one_solution_in_any_order():
    """n = 2 without costs: six plans with 1/6 each. With labels on routes {[1],[2]} would have 2/7."""
    free = np.zeros((3, 3))
    problem = PrizeCollectingVRPTW(Instance(free, [0, 1, 1], np.zeros(3), [[0, 9]] * 3, 9))
    np.testing.assert_array_equal(problem.encode([[1], [2]]), problem.encode([[2], [1]]))
    report = mg.check(problem).raise_if_wrong()
    assert report.solutions == 6
    np.testing.assert_allclose(mg.exact.marginals(problem, np.zeros(2)), 4 / 6)
    ends = mg.sample(problem, np.zeros((12_000, 2)), steps=60, trace=0).solutions[:, 0]
    two_routes = (ends == [0, 0, 0]).all(1).mean()
    assert abs(two_routes - 1 / 6) < 5 * np.sqrt(5 / 36 / 12_000)  # 6e-7; 2/7 is 35 standard errors away


@pytest.mark.parametrize(
    ("n", "what"),
    [
        (2, {}),
        (3, {}),
        (3, {"binding": True, "triangle": False, "must": "some"}),
        (4, {"capacity": True, "triangle": False, "must": "all", "fleet": 2}),
        (5, {"binding": True, "must": "some"}),
    ],
)
def test_moves_lead_to_all_neighbors_and_to_no_others(n, what):
    """Each move by itself, against its definition on sets of routes."""
    problem = problem_of(n, 3, **what)
    pure, data = PureProblem(problem), problem.instance
    plans = sorted(all_plans(data), key=sorted)
    for plan in plans[:: max(1, len(plans) // 30)]:
        state, wanted = pure.state(array(plan, n), np.zeros(n), 1.0), neighbors(data, plan)
        for s, move in enumerate(pure.moves):
            found = set()
            for _, after, drawn, log_ratio in pure.draws(state, s):
                if log_ratio > -np.inf and move.feasible(pure.data, after, drawn):
                    move.apply(pure.data, after, drawn)
                    found.add(plan_of(after.next))
            assert found == {p for p in wanted[move.name] if feasible(data, p)}, (move.name, plan)


OTHER = {
    "fractions": {"integer": False, "triangle": False, "binding": True},
    "costs of their own, some negative": {"costs": np.random.default_rng(1).normal(0, 9, (4, 4)), "binding": True},
    "zero everywhere": {"costs": np.zeros((4, 4))},
}


@pytest.mark.parametrize("name", OTHER)
def test_other_numbers_are_exact_too(name):
    problem = problem_of(3, 8, **OTHER[name])
    mg.check(problem).raise_if_wrong()
    assert len(all_plans(problem.instance)) == len(list(problem.states()))


@pytest.mark.parametrize("end", [np.inf, 1e12])
def test_windows_without_end(end):
    """A window that is missed on the way is missed, though all later ones are open for ever; numbers stay as fine as they were."""
    durations = np.random.default_rng(2).uniform(0.2, 0.9, (4, 4))
    windows = [[0.0, end], [0.0, end], [0.1, 1.1], [0.0, 1.3]]
    problem = PrizeCollectingVRPTW(Instance(durations, [0, 1, 1, 1], [0, 0.3, 0.2, 0.1], windows, 9), beta=0.5)
    np.testing.assert_allclose(problem.instance.durations, durations, atol=1e-10)
    plans = all_plans(problem.instance)
    assert {plan_of(y) for y in problem.states()} == plans
    assert 8 < len(plans) < 26
    mg.check(problem).raise_if_wrong()


@pytest.mark.parametrize("beta", slow_but_for([1e-4], [1e-4, 0.02, 10.0]))
def test_any_beta_is_exact(beta):
    """However sharp: no draw is so rare that it could not be undone, and a request is never near itself."""
    problem = problem_of(3, 9, beta=beta, triangle=False)
    mg.check(problem).raise_if_wrong()
    assert all(i not in near for i, near in enumerate(problem.data.near[1:].tolist(), 1))


def test_a_stop_may_be_needed_on_the_way():
    """Without the triangle inequality 3 is late if 2 is left out between 1 and 3: no move may take it from there."""
    durations = np.full((5, 5), 10.0)
    durations[1, 2] = durations[2, 3] = 1
    durations[1, 3] = 50
    windows = [[0, 99], [0, 99], [0, 99], [0, 13], [0, 99]]
    data = Instance(durations, [0, 1, 1, 1, 1], np.zeros(5), windows, 3, [0, 1, 0, 1, 1], costs=durations / 20)
    plans = all_plans(data)
    assert Plan([(1, 2, 3), (4,)]) in plans
    assert not any((1, 3) in plan for plan in plans)
    assert mg.check(PrizeCollectingVRPTW(data, beta=0.5)).raise_if_wrong().solutions == len(plans)


# --- the law, by compiled chains ------------------------------------------------------------------


def test_ends_of_chains_follow_the_law():
    """n = 3, 26 plans: where 6000 independent chains end. χ² with k degrees exceeds k + 2√(kx) + 2x with probability < e⁻ˣ."""
    problem, chains, x = problem_of(3, 4, triangle=False), 6_000, np.log(1e6)
    theta, t = np.array([20.0, 35.0, 10.0]), 15.0
    ends = mg.sample(problem, np.broadcast_to(theta, (chains, 3)), steps=600, temperature=t, trace=0).solutions[:, 0]
    table = Enumeration(problem)
    expected = chains * table.probabilities(theta, t)
    counts = (ends[:, None] == table.solutions[None]).all(2).sum(0)
    assert counts.sum() == chains
    assert expected.min() > 5
    k = len(expected) - 1
    assert ((counts - expected) ** 2 / expected).sum() < k + 2 * np.sqrt(k * x) + 2 * x


@pytest.mark.parametrize("what", [{}, {"binding": True, "must": "some", "capacity": True}, {"must": "all", "fleet": 2}])
def test_chains_match_exact_marginals(what):
    problem = problem_of(5, 1, beta=0.2, triangle=False, **what)
    theta, chains, t = np.random.default_rng(1).normal(12, 8, size=5), 128, 6.0
    means = mg.sample(problem, np.broadcast_to(theta, (chains, 5)), steps=10_000, burn_in=1_000, temperature=t, trace=0).mean
    exact, optional = mg.exact.marginals(problem, theta, t), ~problem.instance.must_serve[1:]
    np.testing.assert_array_equal(means[:, ~optional], 1.0)
    error = means.std(0, ddof=1) / np.sqrt(chains)
    z = (means.mean(0) - exact)[optional] / error[optional]
    assert (np.abs(z) < 5.5).all()  # Student with 127 degrees of freedom: 1e-6 for 5 entries


def exact_step(problem, y, theta, t):
    """E[T(y⁽¹⁾)] − T(y) by all draws of all moves, in pure Python."""
    pure, out = PureProblem(problem), np.zeros(problem.size)
    state = pure.state(y, theta, t)
    before, value = pure.statistic(y), theta @ pure.statistic(y) + pure.phi(y)
    for s, move in enumerate(pure.moves):
        for path, after, drawn, log_ratio in pure.draws(state, s):
            if log_ratio == -np.inf or not move.feasible(pure.data, after, drawn):
                continue
            move.apply(pure.data, after, drawn)
            there = after[0].copy()
            gain = theta @ pure.statistic(there) + pure.phi(there) - value
            accepted = min(1.0, np.exp(gain / t + log_ratio))
            out += path.probability / len(pure.moves) * accepted * (pure.statistic(there) - before)
    return out


def test_one_step_loss_and_its_recycled_estimate_are_exact():
    """The recycled mean of chains of one step is unbiased for the same: z-test over 20,000 chains, 1e-6 for 4 entries."""
    problem, t, chains = problem_of(4, 1, binding=True, triangle=False, capacity=True), 6.0, 20_000
    theta = np.random.default_rng(0).normal(12, 8, size=4)
    plans = list(problem.states())
    wanted = np.array([exact_step(problem, y, theta, t) for y in plans])
    values, gradients = mg.one_step(problem, np.broadcast_to(theta, (len(plans), 4)), np.array(plans), temperature=t)
    np.testing.assert_allclose(gradients, wanted, atol=1e-12)
    assert (values > 0).all()
    y = max(plans, key=lambda plan: np.count_nonzero(plan[1:] > 0))
    start, served = np.broadcast_to(y, (chains, 5)), y[1:] != -1
    ones = mg.sample(
        problem, np.broadcast_to(theta, (chains, 4)), steps=1, temperature=t, start=start, estimator="recycled", trace=0
    )
    error = ones.mean.std(0, ddof=1) / np.sqrt(chains)
    z = (ones.mean.mean(0) - served - exact_step(problem, y, theta, t)) / np.maximum(error, 1e-12)
    assert (np.abs(z) < 5.5).all()


def test_routes_are_observations_in_every_front_end():
    problem = problem_of(4, 1)
    theta, plans = np.random.default_rng(0).normal(12, 8, size=(2, 4)), [[[1, 2], [3]], [[4, 1]]]
    arrays = problem.encode(plans)
    np.testing.assert_array_equal(
        mg.exact.fenchel_young(problem, theta, plans, 6.0), mg.exact.fenchel_young(problem, theta, arrays, 6.0)
    )
    jax = pytest.importorskip("jax")
    loss, key = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, 50, 6.0)), jax.random.key(1)
    given = jax.numpy.asarray(theta, "float32")
    assert loss(given, plans, key) == loss(given, jax.numpy.asarray(arrays), key)
    one = mg.jax.OneStepLoss(problem, 6.0)
    assert one(given, plans) == one(given, jax.numpy.asarray(arrays))


# --- gains, feasibility, derived fields -----------------------------------------------------------


def large(n, seed, unit=1, **what):
    """An instance with many routes of several stops and windows that bind."""
    rng = np.random.default_rng(seed)
    opens = rng.integers(0, 300, n + 1)
    windows = np.stack([opens, opens + rng.integers(100, 400, n + 1)], 1)
    windows[0] = (0, 1000)
    durations = rng.integers(1, 60, (n + 1, n + 1)) + unit % 1
    costs = unit * rng.integers(-5, 60, (n + 1, n + 1))
    demands = np.r_[0, rng.integers(1, 9, n)]
    return Instance(durations, demands, rng.integers(0, 9, n + 1), windows, 40, rng.random(n + 1) < 0.3, costs=costs, **what)


def test_gains_are_differences_of_the_objective_at_every_step():
    """n = 100, all numbers integers: after each of 10⁵ moves the sum of gains is exactly the objective recomputed."""
    accepted = np.zeros(8)
    for seed, shift in enumerate([0, -3000, -4500] * 2):  # the lower, the more requests come and go
        unit = (1, 70_000)[seed % 2]  # costs up to 2²²
        problem = PrizeCollectingVRPTW(large(100, seed, unit), beta=0.3)
        theta = unit * (np.random.default_rng(seed).integers(-20, 20, 100) + float(shift))
        out = mg.sample(problem, theta, steps=100_000, temperature=1e3 * unit, trace=100_000, iterates=True, seed=seed)
        moved = np.flatnonzero((np.diff(out.iterates[0], axis=0, prepend=-2) != 0).any(1))
        y = out.iterates[0, moved].astype(np.int64)
        is_served, costs = y[:, 1:] != -1, problem.instance.costs
        driven = np.where(is_served, costs[np.arange(1, 101), np.maximum(y[:, 1:], 0)], 0.0).sum(1)
        firsts = np.where(is_served, costs[0, 1:], 0.0).sum(1) - np.where(y[:, 1:] > 0, costs[0][y[:, 1:]], 0.0).sum(1)
        np.testing.assert_array_equal(out.info.trace[0, 0, moved, 0], is_served @ theta - driven - firsts)
        accepted += out.info.accepted
        assert out.info.accepted.sum() - 1 <= len(moved) <= out.info.accepted.sum() + 1  # the first point may be no move
        assert all(feasible(problem.instance, plan_of(row)) for row in y[::200])
        assert cost(problem.instance, plan_of(y[-1])) == driven[-1] + firsts[-1]  # the formula is that of routes
    assert accepted.sum() > 1e5
    assert accepted.min() > 800


@pytest.mark.parametrize(("fleet", "unit"), [(None, 1), (12, np.pi)])
def test_proposals_are_judged_rightly_and_the_set_is_never_left(fleet, unit):
    """In pure Python: every proposal of a walk against recomputation, and all derived fields after every move that is made.

    Fractions are rounded so that sums are exact in any order: then gains are equal to the last bit, too.
    """
    problem = PrizeCollectingVRPTW(large(40, 5, unit, max_vehicles=fleet), beta=0.3)
    data, pure, rng = problem.instance, PureProblem(problem), np.random.default_rng(6)
    dice, made, refused = Dice(rng), np.zeros(8, int), np.zeros(8, int)
    state = pure.state(problem.solution, np.zeros(40), 1.0)
    assert feasible(data, plan_of(state.next))
    for _ in range(2_500):
        s = int(rng.integers(8))
        move, before = pure.moves[s], pure.copy(state)
        drawn, log_ratio = move.propose(pure.data, state, dice)
        if log_ratio == -np.inf:
            continue
        gain, fits = move.gain(pure.data, state, drawn), bool(move.feasible(pure.data, state, drawn))
        for name, one, other in zip(state._fields, state, before, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
        after = pure.copy(state)
        move.apply(pure.data, after, drawn)
        plan = plan_of(after.next)
        assert gain == cost(data, plan_of(state.next)) - cost(data, plan), move.name
        assert fits == feasible(data, plan), move.name
        made[s], refused[s] = made[s] + fits, refused[s] + (not fits)
        if fits:
            state = after
            assert_same_state(state, pure.state(state.next, np.zeros(40), 1.0))
    assert made.min() > 5
    assert refused.min() > 5


def test_derived_fields_are_fresh_after_many_compiled_steps():
    problem = PrizeCollectingVRPTW(large(60, 7), beta=0.3)
    begin = Begin(problem.solution, np.zeros(1, np.int64))
    result = HOST.execute(
        shared_batch(HOST, problem, np.full((1, 60), 10.0)), Settings(steps=300_000, temperature=30.0), begin, np.arange(1)
    )
    state = type(problem.state)(*result.chains.states)
    assert_same_state(state, PureProblem(problem).state(state.next.astype(np.int64), np.zeros(60), 1.0))
    assert result.chains.counts[0, :8, 1].min() > 200  # every move was made often
    data, loads = problem.instance, {}
    assert feasible(data, plan_of(state.next))
    for route in plan_of(state.next):
        time, slot = data.windows[0, 0], int(state.route[route[0]])
        for a, b in pairwise((0, *route)):
            time = max(time + data.service[a] + data.durations[a, b], data.windows[b, 0])
            assert state.begin[b] == time
        loads[slot] = data.demands[list(route)].sum()
        assert state.load[state.last[slot]] == loads[slot]
    assert sum(loads.values()) == data.demands[state.next != -1].sum()


# --- who is near ----------------------------------------------------------------------------------


def test_proximity_by_hand():
    """1 → 2: arrival at 10 + 2 + 4 = 16 at the earliest, 4 after the end 12; 2 → 1: at 12 + 1 + 6 = 19 at the latest, no wait.

    1 → 3: from 20 + 2 + 3 = 25 at the latest to 40, a wait of 15; 3 → 1: 40 + 5 + 3 − 20 = 28 too late.
    2 → 3: 12 + 1 + 7 = 20 at the latest, 20 before 40; 3 → 2: 40 + 5 + 8 − 12 = 41 too late.
    """
    durations = [[0, 1, 1, 1], [1, 0, 4, 3], [1, 6, 0, 7], [1, 3, 8, 0]]
    costs = [[0, 9, 9, 9], [9, 0, 40, 30], [9, 60, 0, 70], [9, 31, 80, 0]]
    one = Instance(durations, np.zeros(4), [0, 2, 1, 5], [[0, 99], [10, 20], [5, 12], [40, 50]], 1, costs=costs)
    there = {(1, 2): 40 + 4, (2, 1): 60, (1, 3): 30 + 0.2 * 15, (3, 1): 31 + 28, (2, 3): 70 + 0.2 * 20, (3, 2): 80 + 41}
    for (i, j), far in there.items():
        assert proximity(one)[i - 1, j - 1] == pytest.approx(min(far, there[j, i]), abs=1e-9)


def test_weights_are_the_formula():
    distance, beta = np.random.default_rng(3).uniform(1, 9, (6, 6)), 0.3
    weights = neighbor_weights(distance, beta)
    for i in range(6):
        others = [j for j in range(6) if j != i]
        most = max(distance[i, j] for j in others)
        wanted = {j + 1: np.exp(-distance[i, j] / (beta * most)) for j in others}
        wanted[0] = np.exp(-np.mean([distance[i, j] for j in others]) / (beta * most))
        total = sum(wanted.values())
        np.testing.assert_allclose(weights[i + 1], [wanted.get(j, 0.0) / total for j in range(7)], rtol=1e-12)


@pytest.mark.parametrize(("n", "beta"), [(1, 0.1), (2, 0.1), (5, 0.1), (5, 0.005), (60, 0.1), (300, 0.03)])
def test_alias_table_draws_by_the_weights_and_never_the_request_itself(n, beta):
    weights = neighbor_weights(np.random.default_rng(n).uniform(0, 9, (n, n)), beta)
    alias = alias_table(weights)
    whole = 1 << alias.bits
    kept, other, columns, units = alias.table & (whole - 1), alias.table >> alias.bits, np.arange(n + 1), (n + 1) * whole
    for i in range(1, n + 1):
        law = np.bincount(columns, kept[i], n + 1) + np.bincount(other[i], whole - kept[i], n + 1)
        np.testing.assert_array_equal(alias.weight[i], law)  # exactly, in units
        assert law.sum() == units
        assert law[i] == 0
        assert (np.delete(law, i) > 0).all()
        assert np.abs(law - weights[i] * units).max() <= n + 1


# --- arcs -----------------------------------------------------------------------------------------


def arc_counts(plan, n):
    """T of a plan, from its routes."""
    out, arcs = np.zeros(n), np.zeros((n + 1, n + 1))
    for route in plan:
        for a, b in pairwise((0, *route, 0)):
            arcs[a, b] += 1
        out[[i - 1 for i in route]] = 1
    return np.r_[out, arcs.reshape(-1)]


@pytest.mark.parametrize(
    ("n", "what"),
    [
        (2, {}),
        pytest.param(3, {"triangle": False}, marks=pytest.mark.slow),
        pytest.param(3, {"must": "all"}, marks=pytest.mark.slow),
        (4, {"binding": True, "capacity": True}),
    ],
)
def test_moves_are_exact_with_arcs(n, what):
    problem = problem_of(n, 1, arcs=True, **what)
    mg.check(problem).raise_if_wrong()
    table = Enumeration(problem)
    np.testing.assert_array_equal(table.statistics, [arc_counts(plan_of(y), n) for y in table.solutions])


def test_arc_marginals_are_means_over_iterates_and_match_the_exact_ones():
    problem, rng = problem_of(4, 2, arcs=True, triangle=False, binding=True, integer=False), np.random.default_rng(1)
    prizes, rewards, t, chains = rng.normal(15, 5, 4), rng.normal(0, 4, (5, 5)), 8.0, 128
    theta = problem.theta(prizes, rewards)
    one = mg.sample(problem, theta, steps=3_000, temperature=t, trace=3_000, iterates=True)
    counts = np.mean([arc_counts(plan_of(y), 4) for y in one.iterates[0]], axis=0)
    np.testing.assert_allclose(one.mean, counts, atol=1e-12)
    law = problem.marginals(one.mean)
    np.testing.assert_allclose(law.arcs[1:].sum(1), law.served)
    np.testing.assert_allclose(law.arcs.sum(0)[1:], law.served)
    means = mg.sample(problem, np.broadcast_to(theta, (chains, len(theta))), steps=8_000, burn_in=1_000, temperature=t).mean
    exact, error = mg.exact.marginals(problem, theta, t), means.std(0, ddof=1) / np.sqrt(chains)
    possible = exact > 0
    np.testing.assert_array_equal(means[:, ~possible], 0.0)
    assert (np.abs(means.mean(0) - exact)[possible] < 6.0 * error[possible] + 1e-12).all()  # 6e-7 for 29 entries
