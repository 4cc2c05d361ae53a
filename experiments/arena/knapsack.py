"""Multi-dimensional knapsacks: those of DFL-LD (IJCAI 2026), and those of the solver-free paper with generated values."""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

import movegrad as mg
from experiments.arena.board import Board, Linear, Relaxation, divided, standardized
from experiments.arena.cache import kept
from experiments.arena.oracles import Annealer, Highs, exact_solver
from experiments.arena.pivots import adjacent

GUIDED = ("swap", "flip", "guided swap", "guided flip")
TESTED = 100  # test examples of the 1000


def decomposed(m: int, n: int, seed: int, cache: Path) -> Board:
    """The sets of DFL-LD, which PyEPO's generator makes bit for bit (seed 42); other seeds are further sets of the same kind.

    200 examples to train, 100 to validate, the first 100 of 1000 to test; features of each part are standardized by themselves, as
    the authors do it; one linear map from 12 features to n values, batches of 32, Adam with 10⁻³.
    """
    from pyepo.data.knapsack import genData

    weights, features, values = genData(1300, 12, n, m, deg=4, noise_width=0.5, seed=seed)
    weights, values = weights.astype(int), values.astype(int).astype(float)
    limits = (0.5 * weights.sum(1)).astype(int)
    relaxation = Relaxation(csr_matrix(weights.astype(float)), limits.astype(float))
    exact, problem = exact_solver(relaxation), mg.problems.Knapsack(weights, limits)
    rows = np.r_[0:300, 300 : 300 + TESTED]
    best = kept(cache / f"mkp-{m}-{n}-{seed}.npz", "x", values[rows], lambda: exact(values[rows]).astype(np.uint8))

    each = [standardized(features[a:b], slice(None)) for a, b in ((0, 200), (200, 300), (300, 300 + TESTED))]
    train, valid, test = divided(np.concatenate(each), values[rows], best, 200, 100, TESTED)
    return Board(
        name=f"knapsack {m} × {n}",
        train=train,
        valid=valid,
        test=test,
        labels=best[:200].astype(float),
        solutions=best[:200],
        problem=problem,
        guided=mg.problems.Knapsack(weights, limits, moves=GUIDED),
        model=lambda: Linear(12, n),
        decide=exact,
        validate=Annealer(problem, 20_000),
        oracles={"exact": exact, "lp": Highs(relaxation, integer=False)},
        rate=1e-3,
        relaxation=relaxation,
        extra={"weights": weights, "limits": limits, "vertices": lambda: adjacent(relaxation, train.theta)},
    )


def houses(seed: int, cache: Path) -> Board:
    """150 items, 5 capacities of a tenth of the weight, integer weights 1 to 9: as in the solver-free paper, values generated.

    The paper takes the items from California housing, which cannot be had here; values are a noisy nonlinear function of 8 features
    of an item instead. 500 examples to train, 100 to validate, 100 to test; one linear map of the features of an item.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 10, (5, 150))
    limits = (0.1 * weights.sum(1)).astype(int)
    features, slope = rng.standard_normal((700, 150, 8)), rng.standard_normal(8) / np.sqrt(8)
    values = np.exp(0.5 * features @ slope + 0.2 * rng.standard_normal((700, 150))) + 0.3 * np.abs(features[..., 0])
    relaxation = Relaxation(csr_matrix(weights.astype(float)), limits.astype(float))
    exact, problem = exact_solver(relaxation, 1e-4), mg.problems.Knapsack(weights, limits)
    best = kept(cache / f"houses-{seed}.npz", "x", values, lambda: exact(values).astype(np.uint8))

    train, valid, test = divided(features, values, best, 500, 100, 100)
    return Board(
        name="knapsack 5 × 150",
        train=train,
        valid=valid,
        test=test,
        labels=best[:500].astype(float),
        solutions=best[:500],
        problem=problem,
        guided=mg.problems.Knapsack(weights, limits, moves=GUIDED),
        model=lambda: Linear(8, 1),
        decide=exact,
        validate=Annealer(problem, 20_000),
        oracles={"exact": exact, "lp": Highs(relaxation, integer=False)},
        rate=1e-2,
        relaxation=relaxation,
        extra={"vertices": lambda: adjacent(relaxation, values[:500])},
    )
