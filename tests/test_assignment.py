"""Permutations: moves and gains are exact, permanents are the oracle, and annealing agrees with enumeration."""

import pickle
from itertools import permutations

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import pure
from movegrad.problems import QAP, Assignment
from tests.slow import slow_but_for

RNG = np.random.default_rng(0)
ANY = RNG.integers(-5, 9, (2, 4, 4)).astype(float)  # asymmetric, with diagonals
EVEN = ANY[0] + ANY[0].T


@mg.jit
def inversions(y):
    """A φ that is not linear."""
    total = 0.0
    for i in range(len(y)):
        for j in range(i):
            total -= 0.5 * (y[j] > y[i])
    return total


SETTINGS = {
    "2 rows": Assignment(2),
    "3 rows": Assignment(3),
    "4 rows": Assignment(4, weights=[2.0, 1.0]),
    "4 rows, swaps": Assignment(4, moves=["swap"]),
    "2 rows, guided": Assignment(2, moves=[], guided=True),
    "4 rows, guided alone": Assignment(4, moves=[], guided=True),
    "4 rows, guided, β given": Assignment(4, guided=True, beta=0.3),
    "4 rows with φ": Assignment(4, phi=inversions),
    "3 rows with φ, guided": Assignment(3, phi=inversions, guided=True),
    "quadratic": QAP(ANY[0], ANY[1], moves=["swap", "3-cycle"]),
    "quadratic, one matrix symmetric": QAP(EVEN, ANY[1], moves=["swap", "3-cycle"]),
    "quadratic, both symmetric": QAP(EVEN, ANY[1] + ANY[1].T),
    "quadratic, 2 rows": QAP(ANY[0, :2, :2], ANY[1, :2, :2]),
    "quadratic, no flow": QAP(np.zeros((3, 3)), ANY[1, :3, :3]),
}


def brute(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All permutations and their matrices, flat: nothing of movegrad in it."""
    all_of_them = np.array(list(permutations(range(n))))
    return all_of_them, np.eye(n)[all_of_them].reshape(len(all_of_them), -1)


def quadratic(flow: np.ndarray, distance: np.ndarray, y: np.ndarray) -> float:
    return float((flow * distance[np.ix_(y, y)]).sum())


@pytest.mark.parametrize("name", SETTINGS)
def test_moves_are_proved(name):
    problem = SETTINGS[name]
    report = mg.check(problem, temperatures=(0.3, 2.0), compiled=False).raise_if_wrong()
    assert report.complete
    assert bool(report.depends_on_theta) == problem.guided


COMPILED = ["4 rows, guided, β given", "4 rows", "quadratic"]


@pytest.mark.parametrize("name", slow_but_for(COMPILED[:1], COMPILED))
def test_the_compiled_chain_is_the_proved_one(name):
    mg.check(SETTINGS[name]).raise_if_wrong()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("n", [2, 5])
def test_permanents_are_the_sums_over_all_permutations(n, shape):
    oracle, t = Assignment(n).oracle, 0.6
    theta = np.random.default_rng(n).normal(size=(*shape, n * n))
    _, matrices = brute(n)
    weights = np.exp(theta @ matrices.T / t)
    np.testing.assert_allclose(oracle.log_partition(theta, t), np.log(weights.sum(-1)))
    np.testing.assert_allclose(oracle.marginals(theta, t), (weights / weights.sum(-1, keepdims=True)) @ matrices, atol=1e-12)


def test_permanents_of_peaked_scores_are_numbers():
    theta = np.array([[900.0, 0.0], [900.0, 0.0]]).reshape(-1)
    assert Assignment(2).oracle.log_partition(theta, 1.0) == pytest.approx(900.0 + np.log(2.0))
    np.testing.assert_allclose(Assignment(2).oracle.marginals(theta, 1.0), 0.5)


def test_samples_of_the_oracle_have_its_marginals():
    oracle, theta = Assignment(4).oracle, np.random.default_rng(1).normal(size=(2, 16))
    drawn = oracle.sample(theta, 0.5, 40_000, np.random.default_rng(2))
    assert drawn.shape == (40_000, 2, 4)
    seen = np.eye(4)[drawn].reshape(40_000, 2, 16).mean(0)
    exact = oracle.marginals(theta, 0.5)
    assert (np.abs(seen - exact) < 5.5 * np.sqrt(exact * (1 - exact) / 40_000) + 1e-4).all()  # normal: 2e-6 for 32 entries


@pytest.mark.parametrize("guided", slow_but_for([True], [False, True]))
def test_chains_match_permanents(guided):
    problem, chains, t = Assignment(6, guided=guided), 64, 0.5
    theta = np.random.default_rng(3).normal(size=36)
    means = mg.sample(problem, np.broadcast_to(theta, (chains, 36)), steps=20_000, temperature=t, trace=0).mean
    error = means.std(0, ddof=1) / np.sqrt(chains)
    exact = mg.exact.marginals(problem, theta, t)
    used = exact > 1e-3
    assert np.abs((means.mean(0) - exact)[used] / error[used]).max() < 6.0  # Student with 63 degrees of freedom: 4e-6 for 36


def test_solve_finds_the_best_assignment():
    linear_sum_assignment = pytest.importorskip("scipy.optimize").linear_sum_assignment
    for seed in range(3):
        worth = np.random.default_rng(seed).random((12, 12))
        problem = Assignment(12)
        found = mg.solve(problem, problem.theta(worth), steps=200_000)
        rows, columns = linear_sum_assignment(worth, maximize=True)
        assert found.objective == pytest.approx(worth[rows, columns].sum())
        assert found.columns == columns.tolist()


@pytest.mark.parametrize("symmetric", slow_but_for([False], [False, True]))
def test_solve_finds_the_best_quadratic_assignment(symmetric):
    rng = np.random.default_rng(5)
    flow, distance = rng.random((2, 6, 6))
    flow = flow + flow.T if symmetric else flow
    linear = rng.random((6, 6))
    problem = QAP(flow, distance)
    found = mg.solve(problem, problem.theta(linear), steps=20_000)
    best = max(linear[np.arange(6), y].sum() - quadratic(flow, distance, np.array(y)) for y in permutations(range(6)))
    assert found.objective == pytest.approx(best)


def test_greedy_takes_the_best_column_in_turn_and_then_improves():
    worth = np.array([[3.0, 2.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    problem = Assignment(3)
    state = problem.state._make(a.copy() for a in problem.state)
    pure(problem.functions.greedy)(problem.data, problem.theta(worth), state)
    assert state.y.tolist() == [1, 0, 2]  # row 0 first takes column 0, then swaps


def test_gains_of_large_instances_agree_with_recomputation():
    """At a size at which no proof runs."""
    rng = np.random.default_rng(6)
    flow, distance = rng.integers(-9, 9, (2, 25, 25)).astype(float)
    problem = QAP(flow, distance, moves=["swap", "3-cycle"])
    y = rng.permutation(25).astype(np.int32)
    state, before = problem.state._make([y]), quadratic(flow, distance, y)
    assert pure(problem.functions.phi)(problem.data, y) == -before
    for move, rows in zip(problem.moves, (2, 3), strict=True):
        for _ in range(50):
            drawn = tuple(rng.choice(25, rows, replace=False).tolist())
            gain = pure(move.gain)(problem.data, state, drawn)
            pure(move.apply)(problem.data, state, drawn)
            assert gain == before - quadratic(flow, distance, state.y)
            before = quadratic(flow, distance, state.y)


@pytest.mark.parametrize(
    ("start", "reason"), [([0, 1, 1], "column 1 is taken 2 times"), ([0, 1, 3], r"columns must be in 0\.\.2, got 3")]
)
def test_what_is_no_permutation_is_told(start, reason):
    with pytest.raises(ValueError, match=reason):
        mg.sample(Assignment(3), np.zeros(9), steps=1, start=start)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Assignment(1), r"n must be .*2.*, got 1\."),
        (lambda: Assignment(3, moves=[]), r"moves must contain 'swap', .*, got \[\]\."),
        (lambda: Assignment(3, moves=["3-cycle"]), r"moves must contain 'swap', .*, got \['3-cycle'\]\."),
        (lambda: Assignment(2, moves=["swap", "3-cycle"]), r"moves must not contain '3-cycle' for fewer than 3 rows, got n = 2\."),
        (lambda: Assignment(3, moves=["2-opt"]), r"moves must be one of 'swap', '3-cycle', got '2-opt'\."),
        (lambda: Assignment(3, beta=-1.0), r"beta must be .*> 0, got -1\.0\."),
        (lambda: Assignment(3, phi=max), r"phi must be a function of one argument compiled with movegrad\.jit, got"),
        (lambda: Assignment(3).theta(np.ones(9)), r"matrix must have two last axes of 3 entries, got shape \(9,\)\."),
        (lambda: Assignment(3).matrix(np.ones(8)), r"mean must have a last axis of 9 entries, got shape \(8,\)\."),
        (lambda: Assignment(3).decode([0, 1]), r"solution must have 3 entries, got shape \(2,\)\."),
        (lambda: QAP(np.ones((2, 3)), np.ones((2, 2))), r"flow must be a square matrix of numbers .*, got shape \(2, 3\)"),
        (lambda: QAP(np.ones((2, 2)), np.ones((3, 3))), r"distance must have shape \(2, 2\), as flow has, got \(3, 3\)\."),
        (lambda: QAP(np.ones((2, 2)), np.full((2, 2), np.inf)), r"distance must be finite .*, got inf among its entries\."),
    ],
)
def test_bad_input_is_told_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize("name", ["4 rows, guided, β given", "4 rows with φ", "quadratic"])
def test_problems_pickle(name):
    problem = SETTINGS[name]
    again = pickle.loads(pickle.dumps(problem))
    theta = np.random.default_rng(0).normal(size=16)
    np.testing.assert_array_equal(*(mg.sample(p, theta, steps=100).mean for p in (problem, again)))


def test_assignments_of_different_sizes_run_together():
    problems = [Assignment(n) for n in (2, 3)]
    with pytest.raises(ValueError, match="moves"):  # for two rows there is no cycle of three: other moves
        mg.solve(problems, [np.zeros(4), np.zeros(9)], steps=10)
    problems = [Assignment(n) for n in (3, 5)]
    worth = [np.random.default_rng(n).random((n, n)) for n in (3, 5)]
    found = mg.solve(problems, [w.reshape(-1) for w in worth], steps=5_000)
    for w, value in zip(worth, found.objective, strict=True):
        assert value == pytest.approx((brute(len(w))[1] @ w.reshape(-1)).max())


def test_a_loss_learns_from_a_permutation():
    torch = pytest.importorskip("torch")
    problem = Assignment(4)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=200))
    theta = torch.zeros(1, 16, dtype=torch.float64, requires_grad=True)
    loss(theta, np.array([[1, 0, 3, 2]])).backward()
    gradient = problem.matrix(theta.grad)[0]
    assert (gradient[[0, 1, 2, 3], [1, 0, 3, 2]] < 0).all()
    np.testing.assert_allclose(gradient.sum(0), 0.0, atol=1e-9)  # rows and columns of a mean sum to 1
