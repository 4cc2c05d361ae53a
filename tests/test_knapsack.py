"""The knapsack: speed tricks change no law, solutions fit, and the paper's normalized proposals have the same limit."""

import numpy as np
import pytest

import movegrad as mg
from movegrad.exact import Enumeration
from movegrad.problems import Knapsack
from movegrad.proof.pure import PureProblem
from tests.slow import slow_but_for

MIXTURES = [
    ("swap", "flip"),
    ("guided flip",),
    ("swap", "guided swap", "guided flip"),
    ("swap", "flip", "guided swap", "guided flip"),
]


def instance(d: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    weights = np.random.default_rng(seed).integers(1, 60, size=(m, d)).astype(float)
    return weights, 0.5 * weights.sum(1)


@pytest.mark.parametrize("moves", slow_but_for([MIXTURES[0], MIXTURES[3]], MIXTURES), ids=", ".join)
def test_chains_match_exact_marginals(moves):
    problem = Knapsack(*instance(10, 3), moves=moves)
    theta, chains, t = np.random.default_rng(1).normal(size=10), 128, 0.7
    means = mg.sample(problem, np.broadcast_to(theta, (chains, 10)), steps=20_000, burn_in=2_000, temperature=t, trace=0).mean
    error = means.std(0, ddof=1) / np.sqrt(chains)
    z = (means.mean(0) - mg.exact.marginals(problem, theta, t)) / error
    assert np.abs(z).max() < 5.5  # Student with 127 degrees of freedom: 2e-6 for 10 entries


def test_normalizers_do_not_drift_for_peaked_scores():
    """After a million steps with weights from e^−40 to 1, the trees are still the sums of their leaves."""
    weights, capacities = instance(40, 5)
    problem = Knapsack(weights, capacities, moves=["swap", "flip", "guided swap", "guided flip"], beta=1.0)
    theta = np.random.default_rng(2).normal(size=40) * 30
    from movegrad.engine import HOST, Begin, Settings, shared_batch

    begin = Begin(problem.solution, np.zeros(1, np.int64))
    result = HOST.execute(
        shared_batch(HOST, problem, theta[None]), Settings(steps=1_000_000, temperature=20.0), begin, np.arange(1)
    )
    state = dict(zip(problem.state._fields, result.chains.states, strict=True))
    for name, chosen in (("drop", 1), ("add", 0)):
        leaves = np.where(state["y"] == chosen, state[name], 0.0)
        tree = state[f"{name}_tree"]
        np.testing.assert_array_equal(tree[len(tree) // 2 :][:40], leaves)
        assert tree[1] == pytest.approx(leaves.sum(), rel=1e-14)
    assert result.chains.counts[0, :4, 1].min() > 1_000  # every move was accepted often
    np.testing.assert_allclose(state["room"], capacities * (1 + 1e-9) - weights @ state["y"], rtol=1e-9)


def test_proposals_normalized_over_feasible_neighbors_have_the_same_limit():
    """The paper's version of the guided swap and flip, by brute force: its stationary law is that of ours, the Gibbs law."""
    problem = Knapsack([[3, 2, 4, 5]], [7])
    theta, t, beta = np.array([0.5, -0.3, 0.8, 0.1]), 0.7, 1.0
    table = Enumeration(problem)
    solutions, logits = table.solutions.astype(int), (table.statistics @ theta) / t
    kernel = np.zeros((len(solutions), len(solutions)))
    for flips in (1, 2):  # neighbors at distance 1: flips; at distance 2 with as many items: swaps
        q = np.zeros_like(kernel)
        for i, y in enumerate(solutions):
            for j, z in enumerate(solutions):
                near = np.abs(y - z).sum() == flips and (flips == 1 or y.sum() == z.sum())
                q[i, j] = np.exp((z - y) @ theta / beta) if near else 0.0
        total = q.sum(1, keepdims=True)
        q = np.divide(q, total, out=np.zeros_like(q), where=total > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q > 0, q.T / q, 0.0) * np.exp(logits[None] - logits[:, None])
        kernel += 0.5 * q * np.minimum(1.0, ratio)
    np.fill_diagonal(kernel, np.diag(kernel) + 1.0 - kernel.sum(1))
    values, vectors = np.linalg.eig(kernel.T)
    law = np.real(vectors[:, np.argmax(np.real(values))])
    np.testing.assert_allclose(law / law.sum(), table.probabilities(theta, t), atol=1e-12)


@pytest.mark.parametrize("moves", slow_but_for([MIXTURES[0], MIXTURES[3]], [m for m in MIXTURES if "swap" in m]), ids=", ".join)
def test_solve_returns_what_fits_and_finds_the_optimum(moves):
    weights, capacities = instance(16, 4, seed=3)
    problem = Knapsack(weights, capacities, moves=moves)
    theta = np.random.default_rng(4).uniform(1, 10, size=(5, 16))
    found = mg.solve(problem, theta, steps=50_000)
    best = (theta @ Enumeration(problem).solutions.T).max(1)
    assert (weights @ found.solution.T <= capacities[:, None]).all()
    np.testing.assert_allclose(found.objective, best, rtol=1e-9)


def test_greedy_takes_what_fits_and_nothing_worthless():
    problem = Knapsack([[2.0, 2.0, 2.0, 1.0]], [5.0])
    start = mg.sample(problem, np.array([3.0, 2.0, 1.0, -1.0]), steps=1, start="greedy", temperature=1e-9).solutions[0]
    np.testing.assert_array_equal(start, [1, 1, 0, 0])


def test_each_example_may_bring_its_own_instance_of_its_own_size():
    problems = Knapsack.batch([[[1, 2, 3]], [[2, 2, 2, 2], [1, 2, 3, 4]]], [[3], [5, 6]])
    thetas = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 3.0, 2.0, 1.0])]
    out = mg.sample(problems, thetas, steps=20_000, chains=8)
    for mean, problem, theta in zip(out.mean, problems, thetas, strict=True):
        np.testing.assert_allclose(mean, mg.exact.marginals(problem, theta), atol=0.02)  # standard error about 3e-3


def test_feasible_agrees_with_recomputation_on_a_long_walk():
    """d=30, M=6: 300 accepted moves in pure Python, each followed by a recomputation of everything that is derived."""
    problem = Knapsack(*instance(30, 6), moves=["swap", "flip"])
    pure, rng = PureProblem(problem), np.random.default_rng(5)
    state = pure.state(problem.solution, np.zeros(30), 1.0)
    accepted = 0
    while accepted < 300:
        s = int(rng.integers(2))
        draws = [(a, m) for _, a, m, r in pure.draws(state, s) if r > -np.inf]
        if not draws:
            continue
        after, move = draws[int(rng.integers(len(draws)))]
        fits = pure.moves[s].feasible(pure.data, after, move)
        pure.moves[s].apply(pure.data, after, move)
        assert fits == pure.contains(after[0])
        if fits:
            state, accepted = after, accepted + 1
            fresh = pure.state(state[0], np.zeros(30), 1.0)
            np.testing.assert_allclose(state.room, fresh.room, atol=1e-9)
            assert state.taken[0] == state.y.sum()
            np.testing.assert_array_equal(state.items[state.place], np.arange(30))


WEIGHTS, CAPACITIES = [[1.0, 2.0], [3.0, 4.0]], [2.0, 3.0]
BAD = {
    "negative weight": (([[-1.0, 2.0]], [3.0]), {}, "weights must be finite and ≥ 0, got -1.0"),
    "NaN weight": (([[np.nan, 2.0]], [3.0]), {}, "weights must be finite and ≥ 0, got nan"),
    "infinite capacity": (([[1.0, 2.0]], [np.inf]), {}, "capacities must be finite and ≥ 0, got inf"),
    "negative capacity": (([[1.0, 2.0]], [-1.0]), {}, "capacities must be finite and ≥ 0, got -1.0"),
    "shapes that disagree": ((WEIGHTS, [2.0]), {}, "weights must have one row for each of the 1 capacities, got 2"),
    "one axis": (([1.0, 2.0], [2.0]), {}, r"weights must be numbers with 2 axes, got shape \(2,\)"),
    "no items": ((np.zeros((1, 0)), [2.0]), {}, "weights must be numbers with 2 axes"),
    "words": (([["a"]], [2.0]), {}, "weights must be an array of numbers"),
    "unknown move": ((WEIGHTS, CAPACITIES), {"moves": ["jump"]}, "moves must be one of .*got 'jump'"),
    "no flip": ((WEIGHTS, CAPACITIES), {"moves": ["swap"]}, "moves must contain a flip"),
    "bad beta": ((WEIGHTS, CAPACITIES), {"beta": 0.0}, "beta must be finite and > 0, got 0.0"),
    "shares": ((WEIGHTS, CAPACITIES), {"shares": [1.0]}, "shares must hold one entry for each of the 2 moves, got 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_instance_is_one_sentence(name):
    arguments, options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        Knapsack(*arguments, **options)


def test_start_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"start must be in the set, got \[1 1\]"):
        mg.sample(Knapsack(WEIGHTS, CAPACITIES), np.zeros(2), steps=1, start=[1, 1])
