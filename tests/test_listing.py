"""Listing all solutions costs as much as there are solutions, and too many are refused before they are listed."""

from itertools import product

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import Hypercube, Knapsack, PrizeCollectingVRPTW, TopK
from movegrad.problems.knapsack import State
from movegrad.problems.routing import Instance
from movegrad.proof.pure import Dice, PureProblem
from tests.routing_instances import all_plans, instance


@mg.jit
def odd(y):
    return 1.0 * (y[0] % 2)


@pytest.mark.parametrize("seed", range(12))
def test_packings_are_those_of_brute_force_in_its_order(seed):
    rng = np.random.default_rng(seed)
    d, m = rng.integers(1, 9), rng.integers(1, 5)
    problem = Knapsack(rng.integers(0, 6, (m, d)), rng.integers(0, 14, m))
    weights, capacities = problem.weights_and_capacities
    wanted = [y for y in product((0, 1), repeat=d) if (weights @ y <= capacities).all()]
    np.testing.assert_array_equal(list(problem.states()), wanted)
    assert 1 <= problem.states.at_least <= len(wanted)


def test_one_item_of_forty_is_not_found_among_two_to_the_forty_vectors():
    problem = Knapsack(np.ones((1, 40)), [1.0])
    np.testing.assert_allclose(mg.exact.marginals(problem, np.zeros(40)), 1 / 41)
    assert mg.exact.log_partition(problem, np.zeros(40)) == pytest.approx(np.log(41))


def test_one_request_for_each_vehicle_is_not_found_among_all_orders_of_requests():
    n = 16
    windows, demands = np.tile([0.0, 100.0], (n + 1, 1)), np.r_[0, np.ones(n)]
    problem = PrizeCollectingVRPTW(Instance(np.ones((n + 1, n + 1)), demands, np.zeros(n + 1), windows, 1.0, np.ones(n + 1, bool)))
    (plan,) = problem.states()
    np.testing.assert_array_equal(plan, 0)  # every request is the last of its route


@pytest.mark.parametrize("fleet", [None, 1, 2])
@pytest.mark.parametrize("must", ["none", "some", "all"])
def test_plans_are_those_of_brute_force(must, fleet):
    """Times that break the triangle inequality: a stop more can make a route shorter."""
    problem = PrizeCollectingVRPTW(instance(4, 1, binding=True, triangle=False, capacity=True, must=must, fleet=fleet))
    plans = {frozenset(map(tuple, problem.routes(y))) for y in problem.states()}
    assert plans == all_plans(problem.instance)
    assert len(plans) == len(list(problem.states())) >= problem.states.at_least


MANY = {
    "hypercube": lambda: Hypercube(100_000, phi=odd),
    "top-k": lambda: TopK(100_000, k=50_000, phi=odd),
    "knapsack, small items": lambda: Knapsack(np.ones((2, 2000)), np.full(2, 1000.0)),
    "knapsack, two items": lambda: Knapsack(np.ones((1, 100_000)), [2.0]),
    "routing": lambda: PrizeCollectingVRPTW(instance(40)),
}


@pytest.mark.parametrize("name", MANY)
def test_too_many_solutions_are_refused_before_they_are_listed(name, monkeypatch):
    problem = MANY[name]()
    listed = []
    monkeypatch.setattr(type(problem.states), "__call__", lambda self: listed.append(self) or iter(()))
    with pytest.raises(ValueError, match=r"must have at most 100000 solutions to enumerate, got more: use a smaller instance\.$"):
        mg.exact.covariance(problem, np.zeros(problem.size))
    assert not listed


# --- starts of the knapsack --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_greedy_goes_by_value_for_weight(seed):
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 60)), 3
    weights, capacities = rng.integers(1, 9, (m, d)).astype(float), np.full(m, 2.0 * d)
    theta = rng.integers(-2, 6, d).astype(float)  # many are equal
    room, share, wanted = capacities * (1 + 1e-9), np.full(d, 1e-12), np.zeros(d)
    for row, capacity in zip(weights, room, strict=True):
        share += row / capacity
    for i in np.argsort(-theta / share, kind="stable"):
        if theta[i] > 0 and (weights[:, i] <= room).all():
            wanted[i] = 1
            room -= weights[:, i]
    problem = Knapsack(weights, capacities)
    run = PureProblem(problem)
    for greedy, data in ((problem.functions.greedy, problem.data._replace(beta=0.0)), (run.greedy, run.data)):
        state = run.memory()
        greedy(data, theta, State(*map(np.asarray, state)))
        np.testing.assert_array_equal(state.y, wanted)


@pytest.mark.parametrize("m", [1, 3, 4, 5, 11])
def test_random_packings_fit_and_every_one_can_come(m):
    """Also with more capacities than are looked at together. The rarest of at most 16 comes with probability 1/16 or more: one is
    missing in 600 draws with probability 16·(15/16)⁶⁰⁰ < 1e-15.
    """
    problem = Knapsack(np.random.default_rng(m).integers(1, 9, (m, 4)), np.full(m, 16.0))
    run, dice = PureProblem(problem), Dice(np.random.default_rng(0))
    seen = set()
    for _ in range(600):
        y = run.memory().y
        dice.start()
        run.random(run.data, dice, y)
        seen.add(tuple(np.asarray(y).tolist()))
    assert seen == {tuple(y.tolist()) for y in problem.states()}
