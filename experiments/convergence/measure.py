"""Problems, instances, and the error of estimates of E[Y]."""

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import movegrad as mg
from experiments.statistics import Z95
from movegrad.problems import Hypercube, TopK

SMALL = ("Hypercube(10)", "TopK(10, k=3)")
MEDIUM = ("Hypercube(100)", "TopK(100, k=10)")
LARGE = ("Hypercube(1000, radius=10)", "TopK(1000, k=50, swaps=10)")
SINGLE = ("Hypercube(1000)", "TopK(1000, k=50)")  # large, but one flip or swap at a time

_PROBLEMS: dict[str, Callable[[], mg.Problem]] = {
    "Hypercube(10)": lambda: Hypercube(10),
    "TopK(10, k=3)": lambda: TopK(10, k=3),
    "Hypercube(100)": lambda: Hypercube(100),
    "TopK(100, k=10)": lambda: TopK(100, k=10),
    "Hypercube(1000, radius=10)": lambda: Hypercube(1000, radius=10),
    "TopK(1000, k=50, swaps=10)": lambda: TopK(1000, k=50, swaps=10),
    "Hypercube(1000)": lambda: Hypercube(1000),
    "TopK(1000, k=50)": lambda: TopK(1000, k=50),
}
_ROWS_AT_ONCE = 100  # of exact marginals: the dynamic program of TopK(1000, k=50) needs 0.4 MB for each
_COLD = 1e-6  # a temperature at which π is the maximizer


@cache
def problem_named(label: str) -> mg.Problem:
    return _PROBLEMS[label]()


def instances(seed: int, count: int, d: int) -> np.ndarray:
    """θ ~ N(0, 1) of shape (count, d); more instances begin with the same ones."""
    return np.random.default_rng([seed, d]).normal(size=(count, d))


def exact_means(problem: mg.Problem, theta: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """E[Y] of each row, a few rows at a time."""
    blocks = range(0, len(theta), _ROWS_AT_ONCE)
    return np.concatenate([mg.exact.marginals(problem, theta[b : b + _ROWS_AT_ONCE], temperature) for b in blocks])


def uniform_mean(problem: mg.Problem) -> np.ndarray:
    """E[Y] of a random start: π at θ = 0."""
    return mg.exact.marginals(problem, np.zeros(problem.size))


def total_variance(mean: np.ndarray) -> np.ndarray:
    """tr Cov(Y) = Σ μᵢ(1 − μᵢ) of a binary vector with E[Y] = μ: the error that one independent draw would have."""
    return (mean * (1.0 - mean)).sum(-1)


def worst_start(problem: mg.Problem, theta: np.ndarray) -> np.ndarray:
    """The solution that minimizes ⟨θ, y⟩."""
    return mg.exact.sample(problem, -theta, 1, temperature=_COLD)[0]


def squared_errors(problem: mg.Problem, theta: np.ndarray, exact: np.ndarray, steps: int, **options: Any) -> np.ndarray:
    """(M,) ‖Ẽ(θ, T) − E[Y]‖² at T = steps. With one seed, calls with different T see prefixes of the same chains."""
    return ((mg.sample(problem, theta, steps=steps, trace=0, **options).mean - exact) ** 2).sum(-1)


def log_grid(last: int, points: int, above: int = 0) -> list[int]:
    """About so many integers in (above, last], evenly spaced in log(T − above)."""
    return (above + np.unique(np.geomspace(1, last - above, points).round().astype(int))).tolist()


# --- replicates ------------------------------------------------------------------------------------------------------


def replicates(
    problem: mg.Problem, theta: np.ndarray, count: int, *, steps: int, start: Any = "random", **options: Any
) -> np.ndarray:
    """(instances, count, d) independent estimates of E[Y] for each row of θ; ``start`` is a word or one solution for each row."""
    rows = np.repeat(theta, count, axis=0)
    begin = start if isinstance(start, str) else np.repeat(start, count, axis=0)
    keys = np.arange(len(rows))
    out = mg.sample(problem, rows, steps=steps, start=begin, index=keys, trace=0, **options).mean
    return out.reshape(len(theta), count, -1)


class Moments(NamedTuple):
    """Of each instance: squared bias, variance and mean squared error of an estimate, summed over entries."""

    bias2: np.ndarray
    variance: np.ndarray
    mse: np.ndarray


def moments(estimates: np.ndarray, exact: np.ndarray) -> Moments:
    """From R replicates (instances, R, d): ‖mean − μ‖² − variance/R is unbiased for the squared bias (and may be negative)."""
    variance = estimates.var(1, ddof=1).sum(-1)
    bias2 = ((estimates.mean(1) - exact) ** 2).sum(-1) - variance / estimates.shape[1]
    return Moments(bias2, variance, ((estimates - exact[:, None]) ** 2).sum(-1).mean(1))


def ratio_interval(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Ratio of the means of paired samples and the half-width of its 95 % interval (delta method)."""
    ratio = a.mean() / b.mean()
    return float(ratio), float(Z95 * (a - ratio * b).std(ddof=1) / (np.sqrt(len(a)) * b.mean()))


# --- time ------------------------------------------------------------------------------------------------------------


def cost(problem: mg.Problem, theta: np.ndarray, steps: int, repeats: int = 5, **options: Any) -> tuple[float, float]:
    """A chain of K steps takes a + b·K seconds on one thread: (a, b) from chains of one step and of so many, the least of runs."""

    def least(k: int) -> float:
        times = []
        for _ in range(repeats):
            begin = perf_counter()
            mg.sample(problem, theta, steps=k, trace=0, **options)
            times.append(perf_counter() - begin)
        return min(times) / len(theta)

    threads = mg.get_threads()
    mg.set_threads(1)
    try:
        short, long = least(1), least(steps)
    finally:
        mg.set_threads(threads)
    slope = (long - short) / (steps - 1)
    return short - slope, slope
