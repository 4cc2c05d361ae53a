"""Capacitated routing on edges: the moves of routing keep their ratios, T counts edges, tight fleets have starts."""

import pickle
from itertools import pairwise, permutations

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import pure
from movegrad.problems import CVRP
from movegrad.problems._packing import pack
from movegrad.problems.cvrp import EDGE_MOVES
from tests.slow import slow_but_for


def distances(n: int, seed: int = 0) -> np.ndarray:
    places = np.random.default_rng(seed).random((n + 1, 2))
    return np.linalg.norm(places[:, None] - places, axis=-1)


SETTINGS = {
    "1 customer": CVRP([1.0], 1.0),
    "2 customers": CVRP([1, 1], 2),
    "3 customers": CVRP([1, 2, 3], 4),
    "3 customers, 1 vehicle": CVRP([1, 2, 1], 4, vehicles=1),
    "4 customers, 3 vehicles": CVRP([1, 2, 3, 1], 4, vehicles=3),
    "4 customers, near ones": CVRP([1, 2, 0, 1], 4, distances=distances(4), shares=[1, 2, 1, 1, 1, 1, 3]),
    "4 customers, no relocation": CVRP([1, 1, 1, 1], 3, moves=["swap", "2-opt", "2-opt*", "split/merge"]),
    "2 customers, nobody alone": CVRP([1, 1], 2, singles=False),
    "4 customers, nobody alone": CVRP([1, 2, 1, 1], 4, singles=False),
    "5 customers, nobody alone": CVRP([1, 2, 1, 1, 1], 5, singles=False),
}


def plans(demands: list[float], capacity: float, vehicles: int, least: int = 1) -> set[frozenset[tuple[int, ...]]]:
    """All sets of directed routes, each with so many customers at least: nothing of movegrad in it."""
    n, out = len(demands), set()
    for order in permutations(range(1, n + 1)):
        for cuts in range(1 << (n - 1)):
            routes, route = [], [order[0]]
            for k in range(1, n):
                if cuts >> (k - 1) & 1:
                    routes.append(tuple(route))
                    route = []
                route.append(order[k])
            routes.append(tuple(route))
            if min(map(len, routes)) < least:
                continue
            if len(routes) <= vehicles and all(sum(demands[i - 1] for i in r) <= capacity for r in routes):
                out.add(frozenset(routes))
    return out


def length(matrix: np.ndarray, plan: frozenset[tuple[int, ...]]) -> float:
    return float(sum(matrix[a, b] for route in plan for a, b in pairwise([0, *route, 0])))


@pytest.mark.parametrize("name", slow_but_for(lambda name: not name.startswith("4 customers, n"), SETTINGS))
def test_moves_are_proved(name):
    report = mg.check(SETTINGS[name], temperatures=(0.3, 2.0), compiled=False).raise_if_wrong()
    assert report.complete
    assert not report.depends_on_theta


@pytest.mark.slow
def test_the_compiled_chain_is_the_proved_one():
    mg.check(SETTINGS["4 customers, 3 vehicles"]).raise_if_wrong()


@pytest.mark.parametrize("singles", [True, False])
def test_the_law_is_that_of_all_plans(singles):
    demands, capacity, vehicles, t = [1.0, 2.0, 2.0, 1.0], 3.0, 3, 0.8
    problem, far = CVRP(demands, capacity, vehicles, singles=singles), distances(4)
    every = list(plans(demands, capacity, vehicles, 1 if singles else 2))
    law = np.exp([-length(far, plan) / t for plan in every])
    driven = np.zeros((5, 5))
    for plan, p in zip(every, law / law.sum(), strict=True):
        for route in plan:
            for a, b in pairwise([0, *route, 0]):
                driven[a, b] += p
                driven[b, a] += p
    exact = problem.matrix(mg.exact.marginals(problem, problem.theta(-far), t))
    np.testing.assert_allclose(exact, driven, atol=1e-12)


def test_a_customer_alone_drives_its_edge_twice():
    problem = CVRP([1, 1], 2)
    alone, together = np.zeros(3), np.zeros(3)  # edges 0–1, 0–2, 1–2
    pure(problem.functions.statistic)(problem.data, problem.encode([[1], [2]]), alone)
    pure(problem.functions.statistic)(problem.data, problem.encode([[2, 1]]), together)
    assert alone.tolist() == [2, 2, 0]
    assert together.tolist() == [1, 1, 1]


def test_solve_finds_the_shortest_plan():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        demands, far = rng.integers(1, 4, 5).astype(float), distances(5, seed)
        problem = CVRP(demands, 5, 4)
        found = mg.solve(problem, problem.theta(-far), steps=20_000)
        assert found.objective == pytest.approx(-min(length(far, plan) for plan in plans(demands.tolist(), 5, 4)))
        assert length(far, frozenset(map(tuple, found.routes))) == pytest.approx(-found.objective)


@pytest.mark.parametrize("seed", range(3))
def test_where_nobody_may_be_alone_nobody_is(seed):
    """From every start, at a temperature at which all kinds of moves are made; and the best plan is the best of these."""
    rng = np.random.default_rng(seed)
    demands, far = rng.integers(1, 4, 6).astype(float), distances(6, seed)
    problem = CVRP(demands, 7, singles=False)
    theta = problem.theta(-far)
    for start in ("greedy", "random"):
        run = mg.sample(problem, np.tile(theta, (20, 1)), steps=300, temperature=2.0, start=start)
        assert all(len(route) > 1 for y in run.solutions.reshape(-1, 7) for route in problem.routes(y))
    best = min(length(far, plan) for plan in plans(demands.tolist(), 7, 3, least=2))
    assert mg.solve(problem, theta, steps=20_000).objective == pytest.approx(-best)


def test_first_routes_have_two_customers_where_they_must():
    demands = np.array([7.0, 6.0, 5.0, 2.0, 2.0, 2.0])  # first fit: 7+2, 6+2+2, 5, and 5 is alone
    assert [1] in [sorted(map(len, pack(demands, 10.0, 3)))[:1]]
    assert sorted(map(len, pack(demands, 10.0, 3, least=2))) == [2, 2, 2]
    problem = CVRP(demands, 10, 3, singles=False)
    apart = problem.theta(-np.ones((7, 7)) - 9.0 * (np.arange(7)[:, None] > 0) * (np.arange(7) > 0))  # greedy would have all alone
    for start in ("greedy", "random"):
        assert sorted(map(len, problem.routes(mg.sample(problem, apart, steps=1, start=start).solutions[0]))) == [2, 2, 2]


@pytest.mark.parametrize("seed", range(5))
def test_a_tight_fleet_has_starts(seed):
    """20 customers that fill 5 vehicles of capacity 30 to the last unit, none of which first fit may find."""
    rng = np.random.default_rng(seed)
    demands = np.concatenate([np.diff(np.sort([0, 30, *rng.choice(np.arange(1, 30), 3, replace=False)])) for _ in range(5)])
    problem = CVRP(rng.permutation(demands), 30, 5)
    theta = problem.theta(-distances(20, seed))
    for start in ("greedy", "random"):
        routes = problem.routes(mg.sample(problem, theta, steps=1, start=start).solutions[0])
        assert len(routes) == 5
        assert all(problem.instance.demands[route].sum() == 30 for route in routes)


def test_packing_goes_beyond_first_fit():
    demands = np.array([6.0, 5.0, 5.0, 4.0, 4.0, 3.0, 3.0])  # first fit: 6+4, 5+5, 4+3+3 is found; 7+… is not
    assert sorted(i for route in pack(demands, 10.0, 3) for i in route) == list(range(1, 8))
    hard = np.array([4.0, 4.0, 3.0, 3.0, 2.0, 2.0, 2.0])  # first fit: 4+4+2, 3+3+2+2; with room for 10 and 10 it is tight
    routes = pack(hard, 10.0, 2)
    assert all(sum(hard[i - 1] for i in route) == 10.0 for route in routes)
    harder = np.array([5.0, 4.0, 4.0, 3.0, 2.0, 2.0, 2.0, 2.0])  # first fit opens a third one after 5+4+3, 4+2+2+2+2
    routes = pack(harder, 12.0, 2)
    assert sorted(sum(harder[i - 1] for i in route) for route in routes) == [12.0, 12.0]
    beyond = np.array([6.0, 6.0, 5.0, 5.0, 4.0, 4.0])  # first fit puts 6+6 and cannot fill 15 twice
    routes = pack(beyond, 15.0, 2)
    assert sorted(sum(beyond[i - 1] for i in route) for route in routes) == [15.0, 15.0]


def test_local_search_does_not_lose():
    problem, far = CVRP(np.ones(15), 5), distances(15)
    theta = problem.theta(-far)
    start = mg.sample(problem, theta, steps=1).solutions[0]
    better = mg.sample(problem, theta, steps=1, temperature=1e-9, start="greedy").solutions[0]
    before, after = (length(far, frozenset(map(tuple, problem.routes(y)))) for y in (start, better))
    assert after < 0.8 * before
    cold = mg.sample(problem, theta, steps=50_000, temperature=1e-9, start=better[None]).solutions[0]
    assert length(far, frozenset(map(tuple, problem.routes(cold)))) == pytest.approx(after)


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ([[1, 2, 3]], r"route \[1, 2, 3\] has demand 6, above the capacity 4"),
        ([[1, 2]], "request 3 must be served"),
        ([[1], [2], [3]], "3 routes are more than the 2 vehicles"),
    ],
)
def test_what_is_no_plan_is_told(routes, reason):
    with pytest.raises(ValueError, match=reason):
        mg.sample(CVRP([1, 2, 3], 4, 2), np.zeros(6), steps=1, start=routes)


@pytest.mark.parametrize("singles", [True, False])
@pytest.mark.parametrize(
    ("demands", "capacity"), [([0.3] * 4, 0.6), ([0.1] * 4, 0.4), ([0.1, 0.2, 0.4, 0.5], 0.6), ([2, 2, 0, 0], 2)]
)
def test_demands_that_fill_a_vehicle_fit(demands, capacity, singles):
    """Whatever their fractions: the set is that of all plans in tenths, which are integers."""
    problem = CVRP(demands, capacity, singles=singles)
    tenths = [round(10 * demand) for demand in demands]
    every = plans(tenths, round(10 * capacity), 4 if singles else 2, 1 if singles else 2)
    assert {frozenset(map(tuple, problem.decode(y))) for y in mg.exact.Enumeration(problem).solutions} == every


@pytest.mark.parametrize(
    "demands", [[2, 2, 0, 0], [0, 0, 2, 3, 5, 5], [10] * 10 + [0] * 10, [10] * 3 + [1] * 7 + [3] * 5 + [7] * 5 + [0] * 3]
)
def test_customers_who_demand_nothing_are_company(demands):
    routes = pack(np.array(demands, float), max(demands), len(demands) // 2, 2)
    assert sorted(i for route in routes for i in route) == list(range(1, len(demands) + 1))
    assert all(len(route) > 1 and sum(demands[i - 1] for i in route) <= max(demands) for route in routes)


def test_a_single_customer_is_told():
    problem = CVRP([1, 2, 1, 1], 5, singles=False)
    assert problem.is_feasible([[1, 2], [4, 3]])
    assert not problem.is_feasible([[1, 2, 3], [4]])
    assert CVRP([1, 2, 1, 1], 5).is_feasible([[1, 2, 3], [4]])
    with pytest.raises(ValueError, match=r"route \[4\] has a single customer"):
        mg.sample(problem, np.zeros(10), steps=1, start=[[1, 2, 3], [4]])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: CVRP([], 1), r"demands must be numbers with 1 axis, .*, got shape \(0,\)"),
        (lambda: CVRP([[1.0]], 1), r"demands must be numbers with 1 axis, .*, got shape \(1, 1\)"),
        (lambda: CVRP([1, -2], 3), r"demands must be finite and ≥ 0, got -2\.0 among its entries\."),
        (lambda: CVRP([1, 5], 3), r"demands must be at most the capacity 3, got 5 for customer 2\."),
        (lambda: CVRP([1], 0), r"capacity must be .*> 0, got 0\."),
        (lambda: CVRP([2, 2, 2], 3, 1), r"demands must be at most 3 in all, the capacity of 1 vehicles, got 6\."),
        (lambda: CVRP([2, 2, 2], 3, 2), r"vehicles must be enough for a plan that serves all customers, got 2, for which none was"),
        (lambda: CVRP([1], 1, singles=False), r"singles must be True where there is a single customer, got False\."),
        (lambda: CVRP([3, 1, 1, 1], 3, singles=False), r"singles must be True .*, got False: no plan .* at most 2 routes"),
        (lambda: CVRP([1, 1], 3, singles="no"), r"singles must be"),
        (lambda: CVRP([3, 2, 4], 6, singles=False), r"the capacity of 1 vehicles with two customers or more each, got 9\."),
        (lambda: CVRP([1], 1, 0), r"vehicles must be .*1.*, got 0\."),
        (lambda: CVRP([1], 1, distances=np.ones((1, 1))), r"distances must have two last axes of 2 entries, got shape \(1, 1\)\."),
        (lambda: CVRP([1], 1, moves=["serve/remove"]), r"moves must be one of .*, got 'serve/remove'\."),
        (lambda: CVRP([1], 1).theta(np.array([[0, 1.0], [2.0, 0]])), "matrix must be symmetric, since edges have no direction"),
    ],
)
def test_bad_input_is_told_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_problems_pickle():
    problem = pickle.loads(pickle.dumps(SETTINGS["3 customers"]))
    np.testing.assert_array_equal(*(mg.sample(p, np.ones(6), steps=100).mean for p in (problem, SETTINGS["3 customers"])))


def test_instances_of_different_sizes_run_together():
    problems = [CVRP(np.ones(n), 2) for n in (3, 5)]
    found = mg.solve(problems, [p.theta(-distances(n)) for p, n in zip(problems, (3, 5), strict=True)], steps=5_000)
    for n, value in zip((3, 5), found.objective, strict=True):
        assert value == pytest.approx(-min(length(distances(n), plan) for plan in plans([1.0] * n, 2, n)))


def test_a_loss_learns_from_routes():
    torch = pytest.importorskip("torch")
    problem = CVRP([1, 1, 1], 2)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=200))
    theta = torch.zeros(1, 6, dtype=torch.float64, requires_grad=True)
    loss(theta, [[[1, 2], [3]]]).backward()
    assert problem.matrix(theta.grad)[0, 1, 2] < 0


def test_moves_are_those_of_routing_but_for_serving():
    from movegrad.problems.routing.moves import MOVES

    assert set(MOVES) - set(EDGE_MOVES) == {"serve/remove"}
    assert all(EDGE_MOVES[name].propose is MOVES[name].propose for name in EDGE_MOVES)


def test_decode_is_the_way_back_of_encode():
    problem = mg.problems.CVRP([3, 4, 2, 5], 9, 3)
    routes = [[1, 3], [2], [4]]
    assert problem.decode(problem.encode(routes)) == routes
    found = mg.solve(problem, -np.ones(problem.size), steps=100)
    assert problem.decode(found.solution) == found.routes
