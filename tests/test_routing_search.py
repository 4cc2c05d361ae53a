"""Routing: random starts, greedy and local search give plans in the set; solving, batches and front ends are right."""

import numpy as np
import pytest
import torch

import movegrad as mg
from movegrad import sampling
from movegrad.engine.compile import pure
from movegrad.problems.routing import Instance, PrizeCollectingVRPTW
from movegrad.proof.pure import PureProblem
from tests.routing_instances import all_plans, assert_same_state, cost, feasible, instance, neighbors, plan_of, reached, served


def objective(problem, theta, plan):
    return sum(theta[i - 1] for i in served(plan)) - cost(problem.instance, plan)


def without_ties(n, seed, **what):
    """Costs so many that no two plans cost the same."""
    costs = np.random.default_rng(seed).integers(1, 2**20, (n + 1, n + 1))
    return PrizeCollectingVRPTW(instance(n, seed, triangle=False, costs=costs, **what))


def run_pure(problem, name, theta, solution=None):
    """The state after ``greedy`` or ``improve``, in pure Python."""
    python = PureProblem(problem)
    state = python.state(problem.solution if solution is None else solution, theta, 1.0)
    pure(getattr(problem.functions, name))(python.data, theta, state)
    return state


# --- starts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("must", ["none", "some", "all"])
def test_random_starts_are_in_the_set(must):
    """n = 1…30, 40 starts each; the kernel itself refuses what is not in the set, but here by its own measure."""
    what = [{"binding": n % 2 == 0, "capacity": n % 3 == 0, "triangle": n % 5 == 0} for n in range(1, 31)]
    problems = [PrizeCollectingVRPTW(instance(n, 2, must=must, **w)) for n, w in enumerate(what, 1)]
    theta = [np.zeros(p.size) for p in problems]
    out = mg.sample(problems, theta, steps=1, chains=40, trace=0, seed=3)
    for problem, ends in zip(problems, out.solutions, strict=True):
        plans = [plan_of(y) for y in ends]
        assert all(feasible(problem.instance, p) for p in plans)
    assert len({tuple(y) for y in ends.tolist()}) == 40  # n = 30: all different
    if must == "none":
        assert 0.2 < np.mean(ends[:, 1:] != -1) < 0.8


def test_own_solution_and_random_starts_find_room_in_a_limited_fleet():
    problem = PrizeCollectingVRPTW(instance(8, 1, must="all", fleet=2))
    assert feasible(problem.instance, plan_of(problem.solution))
    ends = mg.sample(problem, np.zeros((30, 8)), steps=1, chains=200, trace=0).solutions.reshape(-1, *problem.solution.shape)
    assert all(feasible(problem.instance, plan_of(y)) for y in ends)
    assert {len(plan_of(y)) for y in ends} == {1, 2}  # one in 350 has two routes


TIGHT = {"binding": True, "triangle": False, "must": "all"}  # with few vehicles


@pytest.mark.parametrize(("n", "seed", "fleet"), [(5, 25, 2), (5, 545, 2), (5, 1405, 1)])
def test_random_starts_are_drawn_until_all_that_must_be_served_have_room(n, seed, fleet):
    """These have three or four plans, and most draws are none of them."""
    problem = PrizeCollectingVRPTW(instance(n, seed, fleet=fleet, **TIGHT))
    ends = mg.sample(problem, np.zeros(n), steps=1, chains=200, trace=0).solutions
    assert {plan_of(y) for y in ends} == all_plans(problem.instance)


@pytest.mark.parametrize(("n", "seed", "fleet"), [(4, 3, 1), (5, 0, 1), (5, 4, 1)])
def test_greedy_inserts_in_another_order_where_what_must_be_served_has_no_room(n, seed, fleet):
    problem = PrizeCollectingVRPTW(instance(n, seed, fleet=fleet, **TIGHT))
    assert feasible(problem.instance, plan_of(run_pure(problem, "greedy", np.zeros(n)).next))


def test_greedy_is_in_the_set_and_better_than_nothing():
    for n in (1, 2, 7, 20):
        for must in ("none", "some", "all"):
            problem = PrizeCollectingVRPTW(instance(n, n, binding=True, triangle=False, must=must))
            theta = np.random.default_rng(n).normal(15, 10, n)
            plan = plan_of(run_pure(problem, "greedy", theta).next)
            assert feasible(problem.instance, plan)
            assert objective(problem, theta, plan) >= objective(problem, theta, plan_of(problem.solution)) - 1e-9


@pytest.mark.parametrize(("n", "must", "fleet"), [(6, "none", None), (9, "some", 2), (12, "some", None), (21, "all", 9)])
def test_improve_ends_in_a_local_optimum(n, must, fleet):
    """All requests are near up to n = 21: then no neighbor is better, but for pairs in a new route, which are not tried."""
    problem = without_ties(n, 3, binding=n > 6, must=must, fleet=fleet)
    theta, data = np.random.default_rng(n).normal(5e5, 3e5, n), problem.instance
    starts = mg.sample(problem, theta, steps=1, chains=12, seed=1).solutions
    ends = []
    for start in starts:
        state = run_pure(problem, "improve", theta, start.astype(np.int64))
        plan, before = plan_of(state.next), objective(problem, theta, plan_of(start))
        value = objective(problem, theta, plan)
        assert feasible(data, plan)
        assert value > before
        assert_same_state(state, PureProblem(problem).state(state.next, theta, 1.0))
        for move, plans in neighbors(data, plan).items():
            for other in plans:
                if objective(problem, theta, other) > value + 1e-8 and feasible(data, other):
                    assert move == "relocate pair", (move, other)
                    assert len(other) > len(plan)
        ends.append(state.next)
    # Compiled chains begin there: a step at temperature 0 finds nothing better, unless it is such a pair.
    out = mg.sample(problem, theta, steps=1, temperature=1e-9, chains=12, start=mg.start.Heuristic(starts))
    assert (out.solutions == ends).all(1).sum() >= 11


def test_improve_never_makes_worse_and_is_without_chance():
    rng = np.random.default_rng(4)
    problems = [without_ties(n, n, binding=n % 2 == 0) for n in (1, 2, 3, 30, 80)]
    thetas = [rng.uniform(-2e5, 1e6, p.size) for p in problems]
    starts = mg.sample(problems, thetas, steps=50, temperature=3e6, chains=5, seed=5).solutions
    ends = []
    for seed in range(2):  # one step at temperature 0 may only make it better still
        out = mg.sample(problems, thetas, steps=1, temperature=1e-9, chains=5, start=mg.start.Heuristic(starts), seed=seed)
        ends.append(out.solutions)
        for problem, theta, begin, end in zip(problems, thetas, starts, out.solutions, strict=True):
            before, after = (np.array([objective(problem, theta, plan_of(y)) for y in rows]) for rows in (begin, end))
            assert all(feasible(problem.instance, plan_of(y)) for y in end)
            assert (after >= before - 1e-9).all()
            assert problem.size < 30 or (after > before).all()
    assert all((one == other).all(1).mean() >= 0.6 for one, other in zip(*ends, strict=True))


# --- solving --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "what"),
    [
        (1, {}),
        (3, {"must": "some"}),
        (4, {"binding": True, "must": "all", "triangle": False}),
        (5, {"triangle": False}),
        (5, {"binding": True, "fleet": 2, "must": "some"}),
        (5, {"capacity": True, "triangle": False}),
    ],
)
def test_solve_finds_the_optimum(n, what):
    problem = PrizeCollectingVRPTW(instance(n, 6, **what))
    theta = np.random.default_rng(n).normal(20, 12, n)
    found = mg.solve(problem, theta, steps=20_000, chains=2)
    best = max(objective(problem, theta, p) for p in all_plans(problem.instance))
    plan = plan_of(found.solution)
    assert feasible(problem.instance, plan)
    assert objective(problem, theta, plan) == pytest.approx(best, abs=1e-9)
    assert found.objective == pytest.approx(best, abs=1e-9)
    assert {tuple(route) for route in found.routes} == plan
    assert found.cost == cost(problem.instance, plan)
    assert (np.flatnonzero(found.served) + 1).tolist() == sorted(served(plan))


def small(number):
    """A problem of 3 to 5 requests and its θ: windows, loads, vehicles, prizes and what must be served are all drawn."""
    rng = np.random.default_rng(number)
    drawn = {name: bool(rng.integers(2)) for name in ("binding", "triangle", "capacity")}
    must, fleet = ("none", "some", "all")[rng.integers(3)], (None, None, 1, 2, 3)[rng.integers(5)]
    problem = PrizeCollectingVRPTW(instance(int(rng.integers(3, 6)), number, must=must, fleet=fleet, **drawn))
    return problem, rng.normal(rng.choice([0, 10, 20, 40]), rng.choice([2, 12, 30]), problem.size)


@pytest.fixture(scope="module")
def many():
    """160 small problems that have solutions, with θ and the objective of the best."""
    problems, thetas, best = [], [], []
    for problem, theta in map(small, range(177)):
        solutions = np.array(list(problem.states()))
        if len(solutions):
            problems.append(problem)
            thetas.append(theta)
            best.append(((solutions[:, 1:] != -1) @ theta - [problem.cost(y) for y in solutions]).max())
    return problems, thetas, np.array(best)


@pytest.mark.parametrize("start", ["greedy", "random"])
def test_solve_finds_the_optima_of_small_instances_from_any_start(many, start):
    problems, thetas, best = many
    assert len(problems) >= 150
    for seed in range(2):
        found = mg.solve(problems, thetas, steps=20_000, start=start, seed=seed)
        np.testing.assert_allclose(found.objective, best, atol=1e-9)


@pytest.mark.parametrize(("n", "seed", "fleet"), [(4, 130, 1), (5, 545, 2), (5, 1405, 1)])
def test_solve_finds_an_optimum_that_moves_do_not_reach_from_its_start(n, seed, fleet):
    """A limited fleet: no chain from the greedy plan comes to the best one."""
    problem, theta = PrizeCollectingVRPTW(instance(n, seed, fleet=fleet, **TIGHT)), np.zeros(n)
    best = max(all_plans(problem.instance), key=lambda plan: objective(problem, theta, plan))
    begin = run_pure(problem, "greedy", theta).next
    assert best not in reached(problem.instance, plan_of(begin))
    for start in ("greedy", np.array(begin)):
        assert plan_of(mg.solve(problem, theta, steps=2_000, start=start).solution) == best


def test_the_scale_of_annealing_is_that_of_the_objective_where_nothing_moves_from_the_start():
    scales, what = [], {"fleet": 1, **TIGHT}
    for unit in (1, 1024):
        problem = PrizeCollectingVRPTW(instance(5, 1405, costs=unit * instance(5, 1405, **what).durations, **what))
        start = next(y for y in problem.states() if len(reached(problem.instance, plan_of(y))) == 1)
        batch = sampling.make_batch(problem, np.zeros(5))
        settings = sampling.make_settings(steps=9, options=sampling.Options(best=True), schedule=mg.schedules.Annealing())
        scales.append(sampling._pilot(batch, problem, start, settings, None, None).scale)
    np.testing.assert_array_equal(scales[1], 1024 * scales[0])


def test_short_runs_are_the_same_alone_and_in_a_batch(many):
    """Which examples are small, and their generators, are of the example alone."""
    problems, thetas = [*many[0][:12], PrizeCollectingVRPTW(instance(9, 1))], [*many[1][:12], np.full(9, 12.0)]
    together = mg.solve(problems, thetas, steps=600, seed=3)
    for e, (problem, theta) in enumerate(zip(problems, thetas, strict=True)):
        alone = mg.solve(problem, theta, steps=600, seed=3, index=[e])
        np.testing.assert_array_equal(together.solution[e], alone.solution)
        assert together.objective[e] == alone.objective


def test_solutions_of_a_batch_can_be_read():
    problems = [PrizeCollectingVRPTW(instance(n, 1)) for n in (2, 4)]
    found = mg.solve(problems, [np.full(2, 100.0), np.full(4, -1.0)], steps=2_000)
    assert [len(y) for y in found.solution] == [3, 5]
    assert sorted(i for route in found.routes[0] for i in route) == [1, 2]
    assert found.routes[1] == []
    assert found.cost[1] == 0
    with pytest.raises(AttributeError, match="has no 'length', but routes, cost, served"):
        _ = found.length


# --- batches and front ends -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed():
    """Instances of several sizes, their θ, and a plan for each."""
    problems = [PrizeCollectingVRPTW(instance(n, 4, binding=n % 2 == 0, triangle=False)) for n in (1, 3, 6, 11)]
    thetas = [np.random.default_rng(p.size).normal(12, 8, p.size) for p in problems]
    plans = [[[1]], [[1], [2]], [[3]], [[i] for i in range(1, 12)]]
    return problems, thetas, plans


@pytest.fixture
def threads():
    before = mg.get_threads()
    yield mg.set_threads
    mg.set_threads(before)


def test_a_ragged_batch_is_the_same_as_one_by_one_for_any_number_of_threads(mixed, threads):
    problems, thetas, plans = mixed
    settings = {"steps": 12_000, "temperature": 5.0, "seed": 8}  # enough to be shared among threads
    runs = []
    for number in (1, 2, 3):
        threads(number)
        runs.append(mg.sample(problems, thetas, start=plans, **settings))
    for e, (problem, theta, plan) in enumerate(zip(problems, thetas, plans, strict=True)):
        alone = mg.sample(problem, theta, start=plan, index=[e], **settings)
        for out in runs:
            np.testing.assert_array_equal(out.mean[e], alone.mean)
            np.testing.assert_array_equal(out.solutions[e], alone.solutions)


def test_the_layer_and_its_gradient_are_the_same_in_a_ragged_batch(mixed):
    problems, thetas, plans = mixed
    tensors = [torch.tensor(t, requires_grad=True) for t in thetas]
    directions = [torch.tensor(np.random.default_rng(e).normal(size=p.size)) for e, p in enumerate(problems)]
    settings = {"steps": 3_000, "temperature": 5.0}
    means = mg.torch.LocalSearchLayer(problems, start=plans, **settings)(tensors)
    sum((m * v).sum() for m, v in zip(means, directions, strict=True)).backward()
    for e, (problem, theta, plan) in enumerate(zip(problems, thetas, plans, strict=True)):
        alone = mg.sample(problem, theta, start=plan, index=[e], **settings)
        product = mg.jacobian_product(problem, theta, directions[e].numpy(), start=plan, index=[e], **settings)
        np.testing.assert_array_equal(means[e].detach().numpy(), alone.mean)
        np.testing.assert_array_equal(tensors[e].grad.numpy(), product)
    assert np.abs(tensors[2].grad.numpy()).max() > 1e-3


def test_the_jacobian_is_the_covariance():
    problem, theta, t = PrizeCollectingVRPTW(instance(4, 2, triangle=False)), np.array([14.0, 9.0, 20.0, 11.0]), 8.0
    v, chains = np.array([1.0, -2.0, 0.5, 1.0]), 128
    rows = np.broadcast_to(theta, (chains, 4))
    products = mg.jacobian_product(problem, rows, np.broadcast_to(v, (chains, 4)), steps=20_000, burn_in=1_000, temperature=t)
    error = products.std(0, ddof=1) / np.sqrt(chains)
    z = (products.mean(0) - mg.exact.covariance(problem, theta, t) @ v / t) / error
    assert np.abs(z).max() < 6.0  # 1e-7 for 4 entries; the bias of one chain's covariance is far below its error


@pytest.mark.parametrize("start", [None, "heuristic", "greedy"])
def test_loss_takes_routes_and_is_the_same_in_a_ragged_batch(mixed, start):
    problems, thetas, plans = mixed
    tensors = [torch.tensor(t, requires_grad=True) for t in thetas]
    settings = {"steps": 2_000, "temperature": 5.0}
    layer = mg.torch.LocalSearchLayer(problems, **settings)
    mg.torch.FenchelYoungLoss(layer, start=start, reduction="sum")(tensors, plans).backward()
    for e, (problem, theta, plan) in enumerate(zip(problems, thetas, plans, strict=True)):
        y = problem.encode(plan)
        begin = {None: y, "heuristic": mg.start.Heuristic(y), "greedy": "greedy"}[start]
        mean = mg.sample(problem, theta, start=begin, index=[e], **settings).mean
        np.testing.assert_allclose(tensors[e].grad.numpy(), mean - (y[1:] != -1), atol=1e-12)


def test_loss_of_one_instance_takes_routes_for_each_theta():
    problem = PrizeCollectingVRPTW(instance(5, 1))
    plans, theta = [[[1, 2], [3]], [[5]], []], np.random.default_rng(1).normal(10, 5, (3, 5))
    gradients = []
    for y in (plans, np.stack([problem.encode(p) for p in plans])):
        tensor = torch.tensor(theta, requires_grad=True)
        layer = mg.torch.LocalSearchLayer(problem, steps=500, temperature=5.0)
        mg.torch.FenchelYoungLoss(layer, reduction="sum")(tensor, y).backward()
        gradients.append(tensor.grad.numpy())
    np.testing.assert_array_equal(*gradients)
    mean = mg.sample(problem, theta, start=plans, steps=500, temperature=5.0).mean
    np.testing.assert_allclose(gradients[0], mean - [[1, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0] * 5], atol=1e-12)


def test_loss_refuses_routes_that_are_not_in_the_set(mixed):
    problems, thetas, plans = mixed
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problems, steps=10))
    with pytest.raises(ValueError, match="routes must hold each request once, got 3 twice"):
        loss([torch.tensor(t) for t in thetas], [*plans[:2], [[3], [3]], plans[3]])
    late = Instance(np.full((2, 2), 1.0), [0, 1], [0, 0], [[0, 9], [0, 9]], 1, [0, 1])
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(PrizeCollectingVRPTW(late), steps=10))
    with pytest.raises(ValueError, match=r"y must be in the set, got \[ 0 -1\]"):
        loss(torch.zeros(1), [])


def test_jax_gives_the_same_gradient():
    jax = pytest.importorskip("jax")
    problem, theta = PrizeCollectingVRPTW(instance(5, 1)), np.random.default_rng(2).normal(10, 5, 5).astype(np.float32)
    y = problem.encode([[1, 2], [3]])
    loss = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, steps=500, temperature=5.0))
    gradient = jax.grad(loss)(jax.numpy.array(theta), jax.numpy.array(y), jax.random.key(3))
    mean = mg.sample(problem, theta, start=y, steps=500, temperature=5.0, seed=3).mean
    np.testing.assert_allclose(gradient, mean - (y[1:] != -1), atol=1e-6)
