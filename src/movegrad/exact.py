"""Exact quantities of π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t): closed form or dynamic program where there is one, else enumeration.

Every function takes θ of shape (…, d).
"""

from typing import Any, Protocol

import numpy as np

from movegrad._calls import like_solutions
from movegrad._types import Arrays
from movegrad._validate import MOST, as_solutions, encoded, finite_vectors, instance_of, integer_in, outside, positive, seed_in
from movegrad.engine import Reach, is_jitted
from movegrad.problem import Problem
from movegrad.proof.pure import PureProblem, solutions

__all__ = [
    "MAX_STATES",
    "Enumeration",
    "Oracle",
    "covariance",
    "enumeration",
    "fenchel_young",
    "log_partition",
    "marginals",
    "sample",
]

MAX_STATES = 100_000


class Oracle(Protocol):
    """Closed forms that a problem may bring: what :class:`Problem` takes as ``oracle``.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.problems.TopK(5, 2).oracle.marginals(np.zeros(5), 1.0).round(3).tolist()
    [0.4, 0.4, 0.4, 0.4, 0.4]
    """

    def log_partition(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(…, d) → (…): log Σ exp((⟨θ, T(y)⟩ + φ(y))/t)."""

    def marginals(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(…, d) → (…, d): E[T(Y)]."""

    def sample(self, theta: np.ndarray, temperature: float, n: int, rng: np.random.Generator) -> np.ndarray:
        """(…, d) → (n, …, size): independent solutions."""


def log_partition(problem: Problem, theta: Arrays, temperature: float = 1.0) -> np.ndarray:
    """log Z = log Σ_y exp((⟨θ, T(y)⟩ + φ(y))/t). The paper's cumulant is A_t(θ) = t·log Z.

    Parameters
    ----------
    problem : Problem
        With an ``oracle``, or small enough to be listed.
    theta : (…, d)
        θ.
    temperature : float
        t > 0.

    Returns
    -------
    array (…)
        log Z.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> round(float(np.exp(mg.exact.log_partition(mg.problems.TopK(5, 2), np.zeros(5)))), 6)
    10.0
    """
    theta, oracle = _oracle(problem, theta, temperature)
    return oracle.log_partition(theta, float(temperature))


def marginals(problem: Problem, theta: Arrays, temperature: float = 1.0) -> np.ndarray:
    """E[T(Y)].

    Parameters
    ----------
    problem, theta, temperature : as in :func:`log_partition`
        What the mean of chains tends to.

    Returns
    -------
    array (…, d)
        E[T(Y)].

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.exact.marginals(mg.problems.Hypercube(3), np.array([-1.0, 0.0, 1.0])).round(3).tolist()
    [0.269, 0.5, 0.731]
    """
    theta, oracle = _oracle(problem, theta, temperature)
    return oracle.marginals(theta, float(temperature))


def sample(problem: Problem, theta: Arrays, n: int, temperature: float = 1.0, seed: int = 0) -> np.ndarray:
    """Independent solutions for each θ.

    Parameters
    ----------
    problem, theta, temperature : as in :func:`log_partition`
        The law to draw from.
    n : int
        How many.
    seed : int
        Of NumPy's generator.

    Returns
    -------
    array (n, …, size)
        Solutions.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.exact.sample(mg.problems.TopK(5, 2), np.zeros(5), 1000).sum(1).mean().item()
    2.0
    """
    theta, oracle = _oracle(problem, theta, temperature)
    return oracle.sample(theta, float(temperature), integer_in(n, "n", 1, MOST), np.random.default_rng(seed_in(seed)))


def covariance(problem: Problem, theta: Arrays, temperature: float = 1.0) -> np.ndarray:
    """Cov(T(Y)), by enumeration. The Jacobian of the layer is Cov/t.

    Parameters
    ----------
    problem, theta, temperature : as in :func:`log_partition`
        The problem must be small enough to be listed.

    Returns
    -------
    array (…, d, d)
        Cov(T(Y)).

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.exact.covariance(mg.problems.Hypercube(2), np.zeros(2)).tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """
    theta = _checked(problem, theta, temperature)
    table = enumeration(problem)
    p = table.probabilities(theta, float(temperature))
    mean = p @ table.statistics
    second = np.einsum("...s,si,sj->...ij", p, table.statistics, table.statistics)
    return second - mean[..., :, None] * mean[..., None, :]


def fenchel_young(problem: Problem, theta: Arrays, y: Arrays, temperature: float = 1.0) -> np.ndarray:
    """ℓ_t(θ; y) = A_t(θ) − ⟨θ, T(y)⟩ − φ(y) = −t·log π(y) ≥ 0.

    Parameters
    ----------
    problem, theta, temperature : as in :func:`log_partition`
        The law.
    y : solutions (…, m)
        Observed; one for all θ will do.

    Returns
    -------
    array (…)
        The loss.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> round(float(mg.exact.fenchel_young(mg.problems.TopK(5, 2), np.zeros(5), [1, 1, 0, 0, 0])), 4)  # log 10
    2.3026
    """
    theta, oracle = _oracle(problem, theta, temperature)
    values = like_solutions(encoded(problem, y, "y"), "y", theta.shape[:-1], problem)
    pure, rows = PureProblem(problem), values.reshape(-1, values.shape[-1])
    for row in rows:
        if not pure.contains(as_solutions(row, problem, "y")):
            raise outside(problem, "y", row)
    statistics = np.stack([pure.statistic(row) for row in rows]).reshape(theta.shape)
    phi = np.array([pure.phi(row) for row in rows]).reshape(theta.shape[:-1])
    return temperature * oracle.log_partition(theta, float(temperature)) - (theta * statistics).sum(-1) - phi


class Enumeration:
    """All solutions of a small problem, with the methods of an :class:`Oracle`.

    Parameters
    ----------
    problem : Problem
        It lists its solutions (``states``), or they are found by its moves.
    limit : int
        Solutions, at most.

    Attributes
    ----------
    solutions : (n, size) array
        All of them.
    statistics : (n, d) array
        T of each.
    phi : (n,) array
        φ of each.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.exact.Enumeration(mg.problems.TopK(5, 2)).solutions.shape
    (10, 5)
    """

    def __init__(self, problem: Problem, limit: int = MAX_STATES) -> None:
        pure = PureProblem(instance_of(problem, "problem", Problem))
        self.solutions = np.array(solutions(problem, integer_in(limit, "limit", 1)))
        self.statistics = np.array([pure.statistic(y) for y in self.solutions])
        self.phi = np.array([pure.phi(y) for y in self.solutions])
        for array in (self.solutions, self.statistics, self.phi):  # kept with the problem
            array.setflags(write=False)

    def _logits(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(…, n) of (⟨θ, T(y)⟩ + φ(y))/t."""
        with np.errstate(over="ignore", invalid="ignore"):
            logits = (theta @ self.statistics.T + self.phi) / temperature
        if not np.isfinite(logits).all():
            raise ValueError(
                f"theta must give finite (⟨θ, T(y)⟩ + φ(y))/t, got {logits[~np.isfinite(logits)][0]} for t = {temperature}."
            )
        return logits

    def probabilities(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(…, d) → (…, n): π of each solution."""
        logits = self._logits(theta, temperature)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    def log_partition(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(…, d) → (…): log Z."""
        return np.logaddexp.reduce(self._logits(theta, temperature), axis=-1)

    def marginals(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(…, d) → (…, d): E[T(Y)]."""
        return self.probabilities(theta, temperature) @ self.statistics

    def sample(self, theta: np.ndarray, temperature: float, n: int, rng: np.random.Generator) -> np.ndarray:
        """(…, d) → (n, …, size): independent solutions."""
        cumulative = np.cumsum(self.probabilities(theta, temperature), -1)
        u = rng.random((n, *theta.shape[:-1], 1)) * cumulative[..., -1:]
        return self.solutions[(u >= cumulative).sum(-1)]


def enumeration(problem: Problem) -> Enumeration:
    """All solutions, found once for each problem, unless something changes that its functions read.

    Parameters
    ----------
    problem : Problem
        Of at most ``MAX_STATES`` solutions.

    Returns
    -------
    Enumeration
        Kept with the problem.

    Examples
    --------
    >>> import movegrad as mg
    >>> problem = mg.problems.TopK(5, 2)
    >>> mg.exact.enumeration(problem) is mg.exact.enumeration(problem)
    True
    """
    reach, table = vars(instance_of(problem, "problem", Problem)).get("_enumeration", (None, None))
    if reach is None or not reach.unchanged():
        reach, table = Reach(*_functions(problem)), Enumeration(problem)
        problem._enumeration = reach, table  # type: ignore[attr-defined]
    return table


def _functions(problem: Problem) -> list:
    """All jitted functions of a problem."""
    return [f for part in (problem.functions, *(vars(m).values() for m in problem.moves)) for f in part if is_jitted(f)]


def _checked(problem: Problem, theta: Any, temperature: float) -> np.ndarray:
    instance_of(problem, "problem", Problem)
    positive(temperature, "temperature")
    array = finite_vectors(theta, "theta", problem.size)
    with np.errstate(over="ignore"):
        largest = np.abs(array).sum(-1).max() / temperature
    if not np.isfinite(largest):
        raise ValueError(f"theta must be finite when it is divided by the temperature, got {np.abs(array).max()} / {temperature}.")
    return array


def _oracle(problem: Problem, theta: Any, temperature: float) -> tuple[np.ndarray, Oracle]:
    return _checked(problem, theta, temperature), problem.oracle or enumeration(problem)
