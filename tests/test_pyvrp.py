"""The PyVRP adapter: both evaluate any plan alike, round trips change nothing, and what one of them cannot hold is refused."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest

pyvrp = pytest.importorskip("pyvrp")

import movegrad as mg  # noqa: E402
from movegrad.integrations.pyvrp import ENDLESS, fleet, from_pyvrp, routes_of, to_pyvrp, to_solution  # noqa: E402
from movegrad.problems import PrizeCollectingVRPTW  # noqa: E402
from movegrad.problems.routing import Instance  # noqa: E402


def random_instance(seed: int, n: int = 7) -> Instance:
    """Asymmetric, costs unlike durations, service at the depot too, windows and loads that often bind, some without an end."""
    rng = np.random.default_rng(seed)
    durations, costs = rng.integers(1, 60, (2, n + 1, n + 1))
    service, opens = rng.integers(0, 20, n + 1), rng.integers(0, 120, n + 1)
    opens[0] = rng.integers(0, 10)
    closes = np.maximum(opens, opens[0] + service[0] + durations[0]) + rng.integers(0, 60, n + 1)
    back = np.maximum(opens[0] + service[0] + durations[0], opens) + service + durations[:, 0]
    windows = np.column_stack([opens, closes]).astype(float)
    windows[0, 1] = back[1:].max() + rng.integers(0, 60)
    windows[rng.integers(1, n + 1), 1] = np.inf
    if seed % 3 == 0:
        windows[0, 1] = np.inf
    return Instance(
        durations,
        np.r_[0, rng.integers(0, 6, n)],
        service,
        windows,
        capacity=int(rng.integers(6, 15)),
        must_serve=rng.random(n + 1) < 0.2,
        max_vehicles=None if seed % 2 else 3,
        costs=costs,
        coordinates=rng.normal(size=(n + 1, 2)),
    )


def random_plan(rng: np.random.Generator, n: int) -> list[list[int]]:
    order = rng.permutation(n)[: rng.integers(n + 1)] + 1
    cuts = np.sort(rng.integers(0, len(order) + 1, rng.integers(0, 4)))
    return [part.tolist() for part in np.split(order, cuts) if len(part)]


def test_both_evaluate_any_plan_alike():
    rng, feasible, plans = np.random.default_rng(0), 0, 0
    for seed in range(20):
        instance = random_instance(seed)
        problem, prizes = PrizeCollectingVRPTW(instance), rng.integers(0, 50, 7)
        data = to_pyvrp(instance, prizes)
        for _ in range(150):
            plan = random_plan(rng, 7)
            if len(plan) > data.num_vehicles:
                assert not problem.is_feasible(plan)
                continue
            solution = to_solution(data, plan)
            assert solution.is_feasible() == problem.is_feasible(plan)
            assert solution.distance_cost() == problem.cost(plan)
            assert solution.prizes() == sum(prizes[i - 1] for route in plan for i in route)
            assert routes_of(solution) == sorted(plan)
            feasible, plans = feasible + solution.is_feasible(), plans + 1
    assert min(feasible, plans - feasible) > 300, (feasible, plans)  # both kinds are there


@pytest.mark.parametrize("seed", range(6))
def test_instances_come_back_as_they_were(seed):
    instance = random_instance(seed)
    prizes = np.random.default_rng(seed).integers(0, 50, 7).astype(float)
    again, worth = from_pyvrp(to_pyvrp(instance, prizes))
    assert np.array_equal(worth, prizes)
    for name in ("demands", "service", "windows", "must_serve", "coordinates"):
        assert np.array_equal(getattr(again, name), getattr(instance, name)), name
    off = ~np.eye(8, dtype=bool)
    assert np.array_equal(again.durations[off], instance.durations[off])
    assert np.array_equal(again.costs[off], instance.costs[off])
    assert (again.capacity, again.max_vehicles) == (instance.capacity, instance.max_vehicles)
    assert to_pyvrp(again, worth) == to_pyvrp(instance, prizes)


def test_clients_may_share_a_location_and_vehicles_may_drive_less_than_the_depot_is_open():
    matrix = np.array([[0, 5, 9], [6, 0, 3], [8, 4, 0]])
    data = pyvrp.ProblemData(
        [pyvrp.Location(i, 2 * i) for i in range(3)],
        [pyvrp.Client(0, tw_late=90), pyvrp.Client(2, service_duration=4), pyvrp.Client(0, required=False, prize=7)],
        [pyvrp.Depot(1, tw_early=3, tw_late=90)],
        [pyvrp.VehicleType(2, tw_early=10, tw_late=80, unit_distance_cost=3)],
        [matrix],
        [2 * matrix],
    )
    instance, prizes = from_pyvrp(data)
    assert prizes.tolist() == [0, 0, 7]
    assert instance.must_serve.tolist() == [False, True, True, False]
    assert instance.windows.tolist() == [[10, 80], [0, 90], [0, np.inf], [0, np.inf]]
    assert instance.durations[[0, 1, 1, 2], [1, 2, 3, 0]].tolist() == [12, 18, 0, 8]
    assert instance.coordinates.tolist() == [[1, 2], [0, 0], [2, 4], [0, 0]]
    problem, plan = PrizeCollectingVRPTW(instance), [[1, 3, 2]]
    assert problem.is_feasible(plan) == to_solution(data, plan).is_feasible()
    assert problem.cost(plan) == to_solution(data, plan).distance_cost() == 3 * (6 + 0 + 9 + 4)


def test_what_pyvrp_finds_has_the_objective_that_pyvrp_says():
    instance = replace(random_instance(1), windows=np.tile((0.0, 900.0), (8, 1)))
    problem, prizes = PrizeCollectingVRPTW(instance), np.arange(10.0, 80.0, 10.0)
    data = to_pyvrp(instance, prizes)
    found = pyvrp.solve(data, pyvrp.stop.MaxIterations(200), collect_stats=False).best
    plan = routes_of(found)
    assert problem.is_feasible(plan)
    served = [i for route in plan for i in route]
    assert sum(prizes[i - 1] for i in served) - problem.cost(plan) == prizes.sum() - found.distance() - found.uncollected_prizes()
    assert mg.sample(problem, prizes, steps=3, start=plan).info.steps == 3  # a plan of PyVRP's is a start for chains


def test_negative_prizes_count_as_zero():
    instance = random_instance(1)
    assert [c.prize for c in to_pyvrp(instance, [-3, 2, 0, -1, 5, 4, -9]).clients()] == [0, 2, 0, 0, 5, 4, 0]
    assert all(c.prize == 0 for c in to_pyvrp(instance).clients())


def test_scale_multiplies_and_rounds():
    instance = replace(random_instance(1), durations=random_instance(1).durations / 8, capacity=10.5)
    data = to_pyvrp(instance, np.full(7, 0.0625), scale=8)
    off = ~np.eye(8, dtype=bool)
    assert np.array_equal(data.duration_matrix(0)[off], random_instance(1).durations[off])
    assert np.array_equal(data.distance_matrix(0)[off], 8 * instance.costs[off])
    assert data.vehicle_type(0).capacity == [84]
    assert data.client(0).delivery == [8 * instance.demands[1]]
    assert data.client(0).prize == 0  # 0.5 rounds to even


def test_fleet_is_enough_for_good_plans_and_never_more_than_allowed():
    instance = random_instance(1, 60)
    assert fleet(instance) == max(3 * int(np.ceil(instance.demands.sum() / instance.capacity)), 20) + 4
    assert fleet(random_instance(1, 5)) == 5
    assert fleet(replace(instance, max_vehicles=2)) == 2
    assert to_pyvrp(instance).num_vehicles == 60
    assert to_pyvrp(replace(instance, max_vehicles=2)).num_vehicles == 2
    assert to_pyvrp(instance, vehicles=9).num_vehicles == 9


SMALL = random_instance(1)
DATA = to_pyvrp(SMALL)
BAD = [
    ("instance", lambda: to_pyvrp(DATA), "instance must be a Instance"),
    ("prizes, too few", lambda: to_pyvrp(SMALL, [1.0]), r"prizes must have a last axis of 7 entries, got shape \(1,\)"),
    ("prizes, no number", lambda: to_pyvrp(SMALL, ["a"] * 7), "prizes must be an array of numbers"),
    ("prizes, infinite", lambda: to_pyvrp(SMALL, [np.inf] * 7), "prizes must be finite, got inf"),
    (
        "prizes, fractions",
        lambda: to_pyvrp(SMALL, np.full(7, 1.5)),
        r"prizes must be integers for PyVRP, got 1.5 at \[0\]: give a scale",
    ),
    ("durations", lambda: to_pyvrp(replace(SMALL, durations=SMALL.durations + 0.5)), r"durations must be integers.* at \[0, 0\]"),
    ("windows before 0", lambda: to_pyvrp(replace(SMALL, windows=SMALL.windows - [5, 0])), "windows must be ≥ 0 for PyVRP, got -"),
    ("vehicles", lambda: to_pyvrp(SMALL, vehicles=0), "vehicles must be ≥ 1, got 0"),
    ("scale", lambda: to_pyvrp(SMALL, scale=-1.0), "scale must be finite and > 0, got -1"),
    ("scale, too great", lambda: to_pyvrp(SMALL, scale=1e15), "must be at most 2⁴⁵ for PyVRP, got"),
    ("a request that is none", lambda: to_solution(DATA, [[1, 8]]), r"routes must hold requests in 1\.\.7, got 8"),
    ("a request twice", lambda: to_solution(DATA, [[1], [1]]), "routes must hold each request once, got 1 twice"),
    ("too many routes", lambda: to_solution(to_pyvrp(SMALL, vehicles=1), [[1], [2]]), "routes must be at most 1, .* got 2"),
]


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def _with_clients(**changes) -> pyvrp.ProblemData:
    return DATA.replace(clients=[pyvrp.Client(1, delivery=[0], **changes)])


def _with_vehicle(**changes) -> pyvrp.ProblemData:
    return DATA.replace(vehicle_types=[DATA.vehicle_type(0).replace(**changes)])


UNKNOWN = {
    "one depot": DATA.replace(depots=[pyvrp.Depot(0), pyvrp.Depot(1)]),
    "one type of vehicle": DATA.replace(vehicle_types=2 * DATA.vehicle_types()),
    "no pickups": _with_clients(pickup=[1]),
    "no release times": _with_clients(release_time=4),
    "no fixed cost of vehicles": _with_vehicle(fixed_cost=3),
    "no cost of duration": _with_vehicle(unit_duration_cost=1),
    "no overtime": _with_vehicle(max_overtime=1, shift_duration=9),
    "no limit of shifts": _with_vehicle(shift_duration=1000),
    "no limit of distances": _with_vehicle(max_distance=1000),
    "no latest start": _with_vehicle(start_late=10),
    "no load at the start": _with_vehicle(initial_load=[1]),
    "no reload depots": _with_vehicle(reload_depots=[0]),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_data_that_an_instance_cannot_hold_is_refused(what):
    with pytest.raises(ValueError, match=f"data must have {what} to become an Instance, got"):
        from_pyvrp(UNKNOWN[what])


def test_without_pyvrp_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvrp", None)
    monkeypatch.delitem(sys.modules, "movegrad.integrations.pyvrp")
    with pytest.raises(ImportError, match=r"movegrad\[pyvrp\]"):
        importlib.import_module("movegrad.integrations.pyvrp")


def test_endless_is_what_pyvrp_takes_for_no_end():
    assert pyvrp.Client(0).tw_late == ENDLESS
