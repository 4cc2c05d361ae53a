"""Limits of the layer: the best solution as t → 0, the mean of all solutions as t → ∞; how smooth the loss of one step is."""

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import Hypercube, Knapsack, TopK

WEIGHTS, CAPACITIES = [[3, 2, 4, 5, 1], [1, 5, 2, 2, 3]], [8, 7]
PROBLEMS = {"hypercube": Hypercube(5), "top-κ": TopK(6, 2), "knapsack": Knapsack(WEIGHTS, CAPACITIES)}


def drawn(problem, count, seed):
    return np.random.default_rng(seed).normal(size=(count, problem.size))


def all_solutions(problem):
    return mg.exact.enumeration(problem).statistics


# --- exactly -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mean_is_the_best_solution_as_t_goes_to_0(name):
    """Faster than any power of t: what is left is of the size exp(−gap/t), gap the distance to the second best."""
    problem, solutions = PROBLEMS[name], all_solutions(PROBLEMS[name])
    for theta in drawn(problem, 5, 0):
        values = np.sort(solutions @ theta)
        gap, best = values[-1] - values[-2], solutions[np.argmax(solutions @ theta)]
        for t in gap / np.array([10.0, 20.0, 40.0]):
            assert np.abs(mg.exact.marginals(problem, theta, t) - best).max() <= len(solutions) * np.exp(-gap / t)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mean_is_that_of_all_solutions_as_t_goes_to_infinity(name):
    """As 1/t: ŷ_t(θ) = mean + Cov·θ/t + O(1/t²), with mean and covariance of the uniform law."""
    problem, solutions = PROBLEMS[name], all_solutions(PROBLEMS[name])
    mean, covariance = solutions.mean(0), np.cov(solutions.T, bias=True)
    for theta in drawn(problem, 5, 1):
        errors = [np.abs(mg.exact.marginals(problem, theta, t) - mean - covariance @ theta / t).max() for t in (1e2, 1e3)]
        assert errors[0] < 1e-2
        assert errors[1] < errors[0] / 50


@pytest.mark.parametrize("name", ["hypercube", "top-κ"])
def test_the_loss_is_the_regret_as_t_goes_to_0(name):
    """t·log Z − ⟨θ, y⟩ → max ⟨θ, ·⟩ − ⟨θ, y⟩, from above and by t·log |Y| at most."""
    problem, solutions = PROBLEMS[name], all_solutions(PROBLEMS[name])
    theta, y = drawn(problem, 1, 2)[0], solutions[3]
    for t in (1.0, 0.1, 1e-3):
        loss = t * mg.exact.log_partition(problem, theta, t) - theta @ y
        above = loss - ((solutions @ theta).max() - theta @ y)
        assert -1e-12 <= above <= t * np.log(len(solutions)) + 1e-12


# --- by chains ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hypercube", "top-κ"])
def test_a_cold_chain_climbs_to_the_best_solution_and_stays(name):
    """Single flips and swaps have no other peak there. In 600 steps every improving move is proposed, but for a share of 1e-9."""
    problem, solutions = PROBLEMS[name], all_solutions(PROBLEMS[name])
    theta = drawn(problem, 8, 3)
    out = mg.sample(problem, theta, steps=2000, burn_in=600, temperature=1e-6, seed=4)
    best = solutions[np.argmax(theta @ solutions.T, axis=1)]
    np.testing.assert_array_equal(out.mean, best)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_hot_chain_has_the_mean_of_all_solutions(name):
    """64 chains; 4.5 standard errors of the mean over chains (Student, 63 degrees): a false alarm in 5e-4 of all runs."""
    problem, solutions = PROBLEMS[name], all_solutions(PROBLEMS[name])
    theta = np.broadcast_to(drawn(problem, 1, 5), (64, problem.size))
    means = mg.sample(problem, theta, steps=4000, burn_in=500, temperature=1e9, seed=6).mean
    error = means.std(0, ddof=1) / 8
    assert (np.abs(means.mean(0) - solutions.mean(0)) <= 4.5 * error).all()


# --- one step ----------------------------------------------------------------------------------------------------------------


def neighborhood(problem, y):
    """Rows T(y') − T(y) of all neighbors of one flip or swap, and the chance of each."""
    if isinstance(problem, Hypercube):
        return np.diag(1.0 - 2.0 * y), 1 / problem.size
    rows = [np.eye(problem.size)[j] - np.eye(problem.size)[i] for i in np.flatnonzero(y) for j in np.flatnonzero(y == 0)]
    return np.array(rows), 1 / len(rows)


def constant(problem, y, temperature):
    """ℓ(θ; y) = t·Σ q f(⟨θ, d⟩/t) with 0 ≤ f'' ≤ 1: its gradient is Lipschitz with the largest eigenvalue of Σ q·d·dᵀ, over t."""
    d, q = neighborhood(problem, y)
    return np.linalg.eigvalsh(q * d.T @ d)[-1] / temperature


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("name", "y"), [("hypercube", [1, 0, 1, 1, 0]), ("top-κ", [1, 0, 0, 1, 0, 0])])
def test_the_loss_of_one_step_is_as_smooth_as_stated(name, y, temperature):
    problem, y, rng = PROBLEMS[name], np.array(y, np.uint8), np.random.default_rng(7)
    limit = constant(problem, y, temperature)
    for size in (1e-3, 0.1, 1.0, 10.0):
        first, step = rng.normal(size=(2, 200, problem.size))
        ends = first, first + size * step
        many = np.tile(y, (200, 1))
        gradients = [mg.one_step(problem, theta, many, temperature=temperature)[1] for theta in ends]
        change = np.linalg.norm(gradients[1] - gradients[0], axis=1)
        assert (change <= limit * np.linalg.norm(size * step, axis=1) * (1 + 1e-9)).all()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("name", "y"), [("hypercube", [1, 0, 1, 1, 0]), ("top-κ", [1, 0, 0, 1, 0, 0])])
def test_no_smaller_constant_would_do(name, y, temperature):
    """Just below 0, where every move loses a little, the second derivative of f is 1: the constant is reached."""
    problem, y = PROBLEMS[name], np.array(y, np.uint8)
    d, q = neighborhood(problem, y)
    values, vectors = np.linalg.eigh(q * d.T @ d)
    losing = temperature * 1e-3 * (2.0 * y - 1.0)  # ⟨θ, d⟩ < 0 for all d
    assert (d @ losing < 0).all()
    step = temperature * 1e-6 * vectors[:, -1]
    (_, one), (_, two) = (mg.one_step(problem, theta, y, temperature=temperature) for theta in (losing, losing + step))
    assert np.linalg.norm(two - one) == pytest.approx(values[-1] / temperature * np.linalg.norm(step), rel=0.01)
