"""Routing: bad input is one sentence that says what and where; routes and arrays are two ways to write the same."""

from itertools import product

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import CVRP
from movegrad.problems._loads import on_grid
from movegrad.problems.routing import Instance, PrizeCollectingVRPTW
from tests.routing_instances import all_plans, array, cost, instance, plan_of

GOOD = {
    "durations": [[0.0, 2.0, 3.0], [2.0, 0.0, 4.0], [3.0, 4.0, 0.0]],
    "demands": [0, 1, 2],
    "service": [0, 1, 1],
    "windows": [[0, 20], [3, 9], [0, 15]],
    "capacity": 3,
}


def but(name, value, at=None):
    """Good arguments with one entry, or all of an argument, replaced."""
    if at is not None:
        changed = np.array(GOOD[name], float)
        changed[at] = value
        value = changed
    return {**GOOD, name: value}


BAD = {
    "negative duration": (but("durations", -1.0, (1, 2)), r"durations must be ≥ 0, got -1 at index \(1, 2\)\."),
    "NaN duration": (but("durations", np.nan, (2, 1)), r"durations must be finite, got nan at index \(2, 1\)\."),
    "infinite duration": (but("durations", np.inf, (0, 1)), r"durations must be finite, got inf at index \(0, 1\)\."),
    "durations not square": (but("durations", [[0.0, 1.0]]), r"durations must be square .* got shape \(1, 2\)\."),
    "no request": (but("durations", [[0.0]]), r"durations must be square with at least 2 rows"),
    "durations of words": (but("durations", [["a"]]), "durations must be an array of numbers"),
    "demand over capacity": (but("demands", 5, 2), r"demands must be at most the capacity 3, got 5 for request 2\."),
    "negative demand": (but("demands", -2, 1), r"demands must be ≥ 0, got -2 at index 1\."),
    "demand of the depot": (but("demands", 1, 0), r"demands must be 0 for the depot, got 1\."),
    "too few demands": (but("demands", [0, 1]), r"demands must have 3 rows, one for the depot and each request, got 2\."),
    "negative service": (but("service", -3, 2), r"service must be ≥ 0, got -3 at index 2\."),
    "NaN service": (but("service", np.nan, 1), r"service must be finite, got nan at index 1\."),
    "window reversed": (but("windows", 1, (1, 1)), r"windows must not end before they begin, got \[3, 1\] at index 1\."),
    "NaN window": (but("windows", np.nan, (2, 0)), r"windows must be numbers, got nan at index \(2, 0\)\."),
    "window that never begins": (but("windows", -np.inf, (2, 0)), r"windows must begin at a finite time, got -inf at index 2\."),
    "windows of three": (but("windows", np.zeros((3, 3))), r"windows must have shape \(3, 2\), got \(3, 3\)\."),
    "no capacity": (but("capacity", 0), r"capacity must be > 0, got 0\."),
    "infinite capacity": (but("capacity", np.inf), r"capacity must be finite, got inf"),
    "out of reach": (but("windows", 1, (2, 1)), r"durations must let a vehicle reach request 2 before 1, got 3\."),
    "no way back": (but("windows", 6, (0, 1)), r"durations must let a vehicle serve request 2 alone and be back before 6, got 7\."),
    "flags": (but("must_serve", [0, 2, 0]), r"must_serve must be 3 truth values"),
    "too few flags": (but("must_serve", [True]), r"must_serve must be 3 truth values, got shape \(1,\)"),
    "no vehicle": (but("max_vehicles", 0), r"max_vehicles must be ≥ 1, got 0\."),
    "half a vehicle": (but("max_vehicles", 1.5), r"max_vehicles must be an integer, got 1\.5\."),
    "shape of costs": (but("costs", np.zeros((3, 2))), r"costs must have shape \(3, 3\), got \(3, 2\)\."),
    "NaN cost": (but("costs", np.full((3, 3), np.nan)), r"costs must be finite, got nan at index \(0, 0\)\."),
    "cost that takes the digits of others": (
        but("costs", np.where(np.eye(3, k=1) > 0, 0.3, 1e12)),  # most edges are forbidden
        r"costs must keep their digits beside the largest of their kind, got 0\.3, which would become 0:",
    ),
    "service that vanishes where nobody drives": (
        {**but("durations", np.zeros((3, 3))), "service": [0, 0.3, 0.3], "windows": [[0, np.inf], [0, 9], [1e12, np.inf]]},
        r"service must keep their digits beside the largest of their kind, got 0\.3",
    ),
    "times that begin far from 0": (
        {**but("durations", 0.3 * np.ones((3, 3))), "windows": np.array([[0.0, 9.0]] * 3) + 1.7e12},
        r"durations must keep their digits beside the largest of their kind, got 0\.3",
    ),
    "shape of coordinates": (but("coordinates", np.zeros((3, 3))), r"coordinates must have shape \(3, 2\), got \(3, 3\)\."),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_instance_is_one_sentence(name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=f"^{message}"):
        Instance(**arguments)


PROBLEM = {
    "no instance": ({"instance": 3}, "instance must be a Instance"),
    "beta": ({"beta": 0.0}, "beta must be finite and > 0, got 0.0"),
    "unknown move": ({"moves": ["jump"]}, "moves must be one of .*got 'jump'"),
    "no move": ({"moves": []}, "moves of .* must be a sequence of one or more"),
    "shares": ({"shares": [1.0]}, "shares must hold one entry for each of the 8 moves, got 1"),
}


@pytest.mark.parametrize("name", PROBLEM)
def test_bad_problem_is_one_sentence(name):
    options, message = PROBLEM[name]
    with pytest.raises(ValueError, match=message):
        PrizeCollectingVRPTW(**{"instance": Instance(**GOOD), **options})


def test_an_instance_cannot_be_changed_and_owns_its_arrays():
    durations = np.array(GOOD["durations"])
    one = Instance(**{**GOOD, "durations": durations})
    durations[0, 1] = 77
    assert one.durations[0, 1] == 2
    with pytest.raises(ValueError, match="read-only"):
        one.windows[0] = 0


# --- starts and observations ----------------------------------------------------------------------

STARTS = {
    "twice": ([[1, 2], [2]], r"start must be in the set, but routes must hold each request once, got 2 twice\."),
    "twice in one route": ([[1, 1]], r"start must be in the set, but routes must hold each request once, got 1 twice\."),
    "no such request": ([[3]], r"start must be in the set, but routes must hold requests in 1\.\.2, got 3\."),
    "the depot": ([[0, 1]], r"start must be in the set, but routes must hold requests in 1\.\.2, got 0\."),
    "half a request": ([[1.5]], r"start must be in the set, but routes must hold requests in 1\.\.2, got 1\.5\."),
    "must be served": ([[1]], r"start must be in the set, got \[ 0  0 -1\] for chain 0 of example 0: request 2 must be served\."),
    "late": (
        [[2, 1]],
        r"start must be .* of example 0: route \[2, 1\] reaches request 1 at [\d.]+, after its window closes at 5\.",
    ),
    "array: two before one": (np.array([0, 2, 2]), r"start must be in the set, got \[0 2 2\].*: request 2 comes after 2 others\."),
    "array: a circle": (
        np.array([0, 2, 1]),
        r"start must be in the set, got \[0 2 1\].*: requests \[1, 2\] follow each other without the depot\.",
    ),
    "array: after itself": (
        np.array([0, 1, 0]),
        r"start must be in the set, got \[0 1 0\].*: requests \[1\] follow each other without the depot\.",
    ),
    "array: to one not served": (
        np.array([0, -1, 1]),
        r"start must be in the set, got \[ 0 -1  1\].*: request 1 comes after 2, but is not served\.",
    ),
    "array: too far": (np.array([0, 0, 9]), r"start must be in the set, got \[0 0 9\].*: entry 2 must be in -1\.\.2, .*got 9\."),
    "array: depot": (np.array([1, 0, 0]), r"start must be in the set, got \[1 0 0\].*: entry 0 .* must be 0, got 1\."),
    "array: length": (np.array([0, 0]), r"start must have a last axis of 3 entries, got shape \(2,\)\."),
}


@pytest.mark.parametrize("name", STARTS)
def test_bad_start_is_one_sentence(name):
    start, message = STARTS[name]
    windows = [[0, 20], [0, 5], [0, 15]]  # 1 after 2 is late
    problem = PrizeCollectingVRPTW(Instance(**{**GOOD, "windows": windows, "must_serve": [False, False, True]}))
    with pytest.raises(ValueError, match=f"^{message}"):
        mg.sample(problem, np.zeros(2), steps=1, start=start)
    assert not problem.is_feasible(start)
    assert problem.is_feasible([[1, 2]])
    assert problem.is_feasible([[2], [1]])


def test_too_many_vehicles_and_too_much_load_are_refused():
    problem = PrizeCollectingVRPTW(Instance(**{**GOOD, "max_vehicles": 1, "capacity": 2, "windows": [[0, 99]] * 3}))
    assert not problem.is_feasible([[1], [2]])
    assert problem.complaint(problem.encode([[1], [2]])) == "2 routes are more than the 1 vehicles"
    assert not problem.is_feasible([[1, 2]])
    assert problem.complaint(problem.encode([[1, 2]])) == "route [1, 2] has demand 3, above the capacity 2"
    assert problem.is_feasible([[2]])
    assert problem.is_feasible([])


@pytest.mark.parametrize("what", [{}, {"binding": True, "must": "some"}, {"capacity": True, "fleet": 2}])
def test_there_is_a_reason_for_exactly_those_arrays_that_are_no_solutions(what):
    problem = PrizeCollectingVRPTW(instance(3, 1, **what))
    refused = 0
    for entries in product(range(-2, 5), repeat=3):
        solution = np.array([0, *entries])
        assert bool(problem.complaint(solution)) != problem.is_feasible(solution)
        refused += not problem.is_feasible(solution)
    assert 0 < refused < 7**3


def test_a_list_of_solutions_is_no_list_of_routes():
    problem = PrizeCollectingVRPTW(instance(3, 1))
    plans = [[[1, 2], [3]], [[3]]]
    arrays = [problem.encode(plan) for plan in plans]
    assert np.array_equal(problem.encode(arrays), problem.encode(plans))
    assert problem.encode([np.array([1, 2]), np.array([3])]).tolist() == arrays[0].tolist()


def test_a_fleet_that_cannot_serve_what_it_must_is_said_when_chains_start():
    problem = PrizeCollectingVRPTW(
        Instance(**{**GOOD, "max_vehicles": 1, "capacity": 2, "windows": [[0, 99]] * 3, "must_serve": [0, 1, 1]})
    )
    for start in ("random", "greedy"):
        with pytest.raises(ValueError, match="start must be in the set"):
            mg.sample(problem, np.zeros(2), steps=1, start=start)


def test_rewards_of_arcs_are_refused_where_arcs_do_not_count():
    problem = PrizeCollectingVRPTW(Instance(**GOOD))
    with pytest.raises(ValueError, match="rewards must be given with arcs=True only"):
        problem.theta(np.zeros(2), np.zeros((3, 3)))
    with pytest.raises(ValueError, match="marginals of arcs must be asked for with arcs=True"):
        problem.marginals(np.zeros(2))


# --- routes ---------------------------------------------------------------------------------------


def test_routes_and_arrays_are_the_same_for_every_plan():
    problem = PrizeCollectingVRPTW(instance(4, 1, triangle=False))
    for plan in all_plans(problem.instance):
        routes = sorted(plan)
        solution = problem.encode([list(route) for route in routes])
        np.testing.assert_array_equal(solution, array(plan, 4))
        np.testing.assert_array_equal(solution, problem.encode(tuple(reversed(routes))))
        np.testing.assert_array_equal(solution, problem.encode([np.array(route) for route in routes]))
        assert solution.dtype == problem.solution.dtype
        assert plan_of(solution) == plan
        assert problem.routes(solution) == problem.routes(routes) == [list(route) for route in routes]
        assert problem.is_feasible(routes)
        assert problem.cost(routes) == problem.cost(solution) == cost(problem.instance, plan)


def test_several_plans_are_rows_and_arrays_stay_as_they_are():
    problem = PrizeCollectingVRPTW(instance(3))
    rows = problem.encode([[[1, 3], [2]], [], [[2]]])
    np.testing.assert_array_equal(rows, [[0, 3, 0, 0], [0, -1, -1, -1], [0, -1, 0, -1]])
    assert problem.encode(rows) is rows
    np.testing.assert_array_equal(np.asarray(problem.encode(rows[0].tolist())), rows[0])
    np.testing.assert_array_equal(problem.encode([]), rows[1])


def test_start_may_be_routes_for_all_or_for_each_example():
    problem = PrizeCollectingVRPTW(instance(3, triangle=False))
    theta = np.full((2, 3), 1e6)  # all want to be served, as they are: at this temperature one step changes little
    plans = [[[1, 2, 3]], [[3], [2, 1]]]

    def after_a_step(start):
        return mg.sample(problem, theta, steps=1, temperature=1e-6, start=start).solutions[:, 0]

    for start, wanted in ((plans[0], [plans[0]] * 2), (plans, plans), (plans[::-1], plans[::-1])):
        rows = np.stack([problem.encode(p) for p in wanted])
        np.testing.assert_array_equal(after_a_step(start), after_a_step(rows))
    assert not np.array_equal(after_a_step(plans), after_a_step(plans[::-1]))


def test_demands_that_are_no_integers_may_fill_a_vehicle():
    """Rounded demands sum exactly, and a capacity that is filled by them as they were given has room for them."""
    durations, windows = np.ones((5, 5)), [[0.0, 100.0]] * 5
    instance = Instance(durations, [0, 0.3, 0.3, 0.1, 0.2], np.zeros(5), windows, capacity=0.6)
    assert instance.capacity == pytest.approx(0.6, rel=1e-8)
    assert instance.demands[1] + instance.demands[2] <= instance.capacity
    assert instance.demands[1] + instance.demands[3] + instance.demands[4] <= instance.capacity
    whole = Instance(durations, [0, 3, 3, 1, 2], np.zeros(5), windows, capacity=6)
    assert whole.capacity == 6
    assert whole.demands.tolist() == [0, 3, 3, 1, 2]
    ours, theirs = (mg.problems.PrizeCollectingVRPTW(one) for one in (instance, whole))
    assert len(mg.exact.Enumeration(ours).solutions) == len(mg.exact.Enumeration(theirs).solutions)


def test_large_numbers_that_take_no_digits_are_fine():
    for large in (np.inf, 1e300, 1e12):  # windows without an end
        assert Instance(**but("windows", large, (1, 1))).windows[1, 1] > 1e11
    costs = np.array([[0, 10**12, 3], [4, 0, 5], [6, 7, 0]])  # integers
    np.testing.assert_array_equal(Instance(**but("costs", costs)).costs, costs)
    diagonal = np.array([[1e12, 0.3, 0.2], [0.3, 1e12, 0.5], [0.6, 0.7, 1e12]])
    np.testing.assert_allclose(Instance(**but("costs", diagonal)).costs, diagonal)
    noise = np.array([[0.0, 1e-14, 3.1], [4.0, 0.0, 5.0], [6.0, 7.0, 0.0]])  # what is lost is none of a usual cost
    np.testing.assert_allclose(Instance(**but("costs", noise)).costs, noise, atol=1e-11)


def test_capacities_that_miss_an_integer_by_rounding_are_that_integer():
    """0.29 · 100 is 28.999999999999996; and 0.1 + 0.2 is more than 0.3."""
    assert on_grid(np.array([10.0, 19.0]), np.array([0.29 * 100, 28.9999, 29.0, 1e10, 1e10 + 0.5]), 29e9)[1].tolist() == [
        29.0, 28.0, 29.0, 1e10, 1e10,
    ]  # fmt: skip
    for size in (100, 10**11, 10**14):
        assert CVRP([0.1 * size, 0.19 * size], 0.29 * size, vehicles=1).is_feasible([[1, 2]])
    assert not CVRP([10, 19], 28.9999, vehicles=2).is_feasible([[1, 2]])
    assert CVRP([0.1 + 0.2, 0.1], 0.3).is_feasible([[1], [2]])
    assert Instance(**{**but("demands", [0, 0.1 + 0.2, 0.1]), "capacity": 0.3}).capacity == pytest.approx(0.3)
    with pytest.raises(ValueError, match=r"demands must be at most the capacity 0\.3, got 0\.3001 for customer 1"):
        CVRP([0.3001, 0.1], 0.3)


@pytest.mark.parametrize("seed", range(8))
def test_plans_in_tenths_are_those_in_integers(seed):
    """Whether a plan fits depends on sums, many of which meet a window's end or the capacity exactly here."""
    rng = np.random.default_rng(seed)
    durations, service = rng.integers(1, 4, (4, 4)), rng.integers(0, 2, 4)
    windows = [[0, 9], *([0, int(rng.integers(4, 8))] for _ in range(3))]
    sizes = [0, *rng.integers(1, 4, 3).tolist()]
    whole, tenths = (
        PrizeCollectingVRPTW(Instance(durations * f, np.multiply(sizes, f), service * f, np.multiply(windows, f), capacity=5 * f))
        for f in (1, 0.1)
    )
    found = [{y.tobytes() for y in mg.exact.Enumeration(problem).solutions} for problem in (whole, tenths)]
    assert found[0] == found[1]
    assert len(found[0]) > 4
