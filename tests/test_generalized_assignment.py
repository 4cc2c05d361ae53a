"""Generalized assignment: proved on small ones, held to brute force; starts fit, or a sentence asks for one."""

import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import HOST, Begin, Settings, shared_batch
from movegrad.problems import GeneralizedAssignment
from movegrad.problems.generalized_assignment import MOVES
from tests.slow import slow_but_for

FLOATS = np.random.default_rng(0).random((3, 4))
ARENA = Path(__file__).parents[2] / "shared" / "data" / "arena" / "gap"

PROBLEMS = {
    "small": lambda: GeneralizedAssignment([[2, 3, 4], [3, 2, 2]], [5, 5]),
    "reassign alone": lambda: GeneralizedAssignment([[2, 3, 4], [3, 2, 2]], [9, 9], moves=["reassign"]),
    "guided": lambda: GeneralizedAssignment([[2, 3, 4], [3, 2, 2]], [5, 5], moves=["guided reassign", "swap"]),
    "all moves": lambda: GeneralizedAssignment(
        [[2, 3, 4, 1], [3, 2, 2, 1], [1.1, 0.3, 0.7, 0]], [5, 5, 1.8], moves=tuple(MOVES), beta=0.5, shares=[1, 2, 3, 4]
    ),
    "floats": lambda: GeneralizedAssignment(FLOATS, np.full(3, 1.1)),
    "one job, one agent": lambda: GeneralizedAssignment([[1.0]], [1.0]),
    "one job": lambda: GeneralizedAssignment([[1.0], [2.0]], [1.0, 2.0]),
    "one agent": lambda: GeneralizedAssignment([[1.0, 2.0]], [3.0], moves=tuple(MOVES)),
    "weights of zero": lambda: GeneralizedAssignment(np.zeros((2, 3)), [0, 0]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_proved_right(name):
    report = mg.check(PROBLEMS[name](), temperatures=(0.3, 1.0, 5.0), compiled=False)
    assert report.ok, report


@pytest.mark.parametrize("name", slow_but_for(["all moves"], ["small", "all moves"]))
def test_the_compiled_chain_is_right(name):
    report = mg.check(PROBLEMS[name]())
    assert report.ok, report


def brute_force(weights, capacities):
    """All solutions, by trying all assignments."""
    agents, jobs = weights.shape
    every = np.array(list(product(range(agents), repeat=jobs)))
    loads = np.stack([(weights[a] * (every == a)).sum(1) for a in range(agents)], 1)
    return every[(loads <= capacities + 1e-9).all(1)]


@pytest.mark.parametrize("seed", range(4))
def test_laws_and_optima_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 9, size=(3, 5)) if seed % 2 else rng.random((3, 5))
    capacities = 0.75 * weights.sum(1)
    problem, theta = GeneralizedAssignment(weights, capacities), rng.normal(size=15)
    every = brute_force(weights, capacities)
    ones = (every[:, None] == np.arange(3)[:, None]).reshape(len(every), -1).astype(float)  # row by row: agents, then jobs
    p = np.exp(ones @ theta / 0.6)
    np.testing.assert_allclose(mg.exact.marginals(problem, theta, 0.6), p @ ones / p.sum(), rtol=1e-10, atol=1e-13)
    found = mg.solve(problem, theta, steps=4000)
    assert found.objective == pytest.approx((ones @ theta).max())


def test_loads_are_exact_after_many_steps():
    rng = np.random.default_rng(1)
    weights = rng.random((4, 12))
    problem, theta = GeneralizedAssignment(weights, 0.5 * weights.sum(1)), rng.normal(size=48)
    batch, begin = shared_batch(HOST, problem, theta[None]), Begin(problem.solution, np.zeros(1, np.int64))
    chains = HOST.execute(batch, Settings(steps=300_000, temperature=5.0), begin, np.arange(1)).chains
    assert chains.counts[0, :3, 1].min() > 100
    agent, room = chains.states[0], chains.states[1]
    loads = np.bincount(agent, problem.data.weights[np.arange(12), agent], 4)
    np.testing.assert_array_equal(room, problem.data.capacities - loads)


@pytest.mark.parametrize("weights", [FLOATS, np.arange(12).reshape(3, 4)])
def test_a_capacity_without_end_leaves_loads_exact(weights):
    problem = GeneralizedAssignment(weights, np.full(3, 1e300))
    np.testing.assert_allclose(problem.data.weights, weights.T, rtol=1e-12)
    assert mg.check(problem, compiled=False).ok


def test_tight_instances_get_a_start():
    """The optimum of each is to fill all agents to the brim."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        weights = rng.integers(5, 25, size=(5, 30))
        planted = rng.integers(0, 5, 30)
        loads = np.bincount(planted, weights[planted, np.arange(30)], 5)
        problem = GeneralizedAssignment(weights, loads + 3)
        assert mg.sample(problem, np.zeros(150), steps=10, chains=4).solutions.shape == (4, 30)
        mg.sample(problem, rng.normal(size=150), steps=10, start="greedy")


def test_known_optima_are_reached_and_all_instances_have_starts():
    if not ARENA.exists():
        pytest.skip("needs the instances of the OR-Library beside the repository")
    for path in sorted(ARENA.glob("*.txt")):
        v = np.array(path.read_text().split(), int)
        m, n = v[:2]
        cost, weights, capacities = v[2 : 2 + m * n], v[2 + m * n : 2 + 2 * m * n].reshape(m, n), v[2 + 2 * m * n :]
        problem = GeneralizedAssignment(weights, capacities)
        if path.stem in ("c0515_1", "a10100"):
            sign, best = (1, 336) if path.stem == "c0515_1" else (-1, 1360)
            assert sign * mg.solve(problem, sign * cost.astype(float), steps=1_000_000, seed=1).objective == best


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (([[1, 2]], [-1]), {}, r"capacities must be finite and ≥ 0, got -1\.0 among its entries\."),
        (([1, 2], [1]), {}, r"weights must be numbers with 2 axes, got shape \(2,\)"),
        (([[1, 2]], [1, 2]), {}, r"capacities must have one entry for each of the 1 agents, got 2\."),
        (([[1, 2]], [3]), {"moves": ["swap"]}, r"moves must contain a reassignment"),
        (
            ([[1, 2]], [3]),
            {"moves": ["jump"]},
            r"moves must be one of 'reassign', 'swap', 'chain', 'guided reassign', got 'jump'\.",
        ),
        (([[1, 2]], [3]), {"beta": 0}, r"beta must be finite and > 0, got 0\."),
        (([[2, 2], [2, 2]], [3, 1]), {}, r"start must be given, since no assignment of 2 jobs within capacities was found"),
        (([[2, 2], [2, 2]], [3, 3]), {"start": [0, 0]}, r"start must be within capacities, got load 4 > 3 of agent 0\."),
        (
            ([[2, 2], [2, 2]], [3, 3]),
            {"start": [0, 2]},
            r"start must be 2 integers in 0\.\.1, the agents of the jobs, got \[0, 2\]\.",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        GeneralizedAssignment(*arguments, **options)


def test_a_solution_that_does_not_fit_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"start must be in the set.*the load 9 of agent 0 is above its capacity 5"):
        mg.sample(PROBLEMS["small"](), np.zeros(6), steps=1, start=np.array([0, 0, 0]))


def test_jobs_of_agents_can_be_given_and_read():
    problem = PROBLEMS["small"]()
    np.testing.assert_array_equal(problem.encode([[0, 1], [2]]), [0, 0, 1])
    assert problem.describe(np.array([0, 0, 1]))["jobs"] == [[0, 1], [2]]
    np.testing.assert_array_equal(problem.describe(np.array([0, 0, 1]))["loads"], [5.0, 2.0])
    assert problem.encode([0, 0, 1]) == [0, 0, 1]
    with pytest.raises(ValueError, match=r"jobs must be 2 lists, one for each agent, that hold each of 0\.\.2 once"):
        problem.encode([[0, 1], [1]])


def test_problems_pickle():
    problem, theta = PROBLEMS["small"](), np.arange(6.0)
    copy = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(*(mg.sample(p, theta, steps=300).mean for p in (problem, copy)))


def test_a_loss_learns_from_a_label():
    torch = pytest.importorskip("torch")
    problem = PROBLEMS["small"]()
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=200))
    theta = torch.zeros(1, 6, dtype=torch.float64, requires_grad=True)
    loss(theta, torch.tensor([[0, 0, 1]])).backward()
    assert theta.grad is not None
    assert theta.grad.abs().sum() > 0


def test_jobs_of_agents_will_do_for_the_start_of_the_problem():
    problem = GeneralizedAssignment([[2, 3, 4], [3, 2, 2]], [5, 4], start=[[0, 1], [2]])
    np.testing.assert_array_equal(problem.solution, [0, 0, 1])
    with pytest.raises(ValueError, match=r"start must be 2 lists, one for each agent, that hold each of 0\.\.2 once"):
        GeneralizedAssignment([[2, 3, 4], [3, 2, 2]], [5, 4], start=[[0, 1], [1]])


def test_as_many_solutions_as_agents_are_no_lists_of_jobs():
    problem = PROBLEMS["small"]()
    np.testing.assert_array_equal(problem.statistic([[0, 0, 1], [0, 1, 1]]), problem.statistic(np.array([[0, 0, 1], [0, 1, 1]])))


@pytest.mark.parametrize("jobs", [[[0.0, 1.0], [2.0]], [[0, "a"], [2]], [[0, None], [2]]])
def test_jobs_that_are_no_integers_are_refused_in_one_sentence(jobs):
    with pytest.raises(ValueError, match=r"jobs must be 2 lists, one for each agent, that hold each of 0\.\.2 once, got"):
        PROBLEMS["small"]().encode(jobs)


def test_weights_that_are_too_large_are_told_so():
    with pytest.raises(ValueError, match=r"weights must be at most 1e\+300 in absolute value, got 1e\+308 among its entries\."):
        GeneralizedAssignment([[1e308]], [1.0])


@pytest.mark.parametrize("weights", [[[1e20, 1.0], [1.0, 1.0]], [[1e20, 0.5], [0.7, 0.7]]])
def test_a_huge_weight_forbids_its_pair_and_nothing_else(weights):
    problem = GeneralizedAssignment(weights, [1.0, 1.0])
    assert [y.tolist() for y in problem.states()] == [[1, 0]]


def test_weights_of_an_agent_do_not_round_those_of_another():
    problem = GeneralizedAssignment([[1e16, 1.0], [1.0, 1.0]], [2e16, 1.0])
    assert sorted(y.tolist() for y in problem.states()) == [[0, 0], [0, 1], [1, 0]]
