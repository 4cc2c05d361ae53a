"""What learning should reach, computed exactly: minimizers of risks by Newton's method, and where they do not exist."""

import copy

import numpy as np

import movegrad as mg
from movegrad.exact import Enumeration


def interior(mean: np.ndarray) -> np.ndarray:
    """(…): whether every entry is strictly between 0 and 1.

    This is the (relative) interior of conv{0,1}^d and of the top-κ polytope. Outside of it A_t(θ) − ⟨θ, mean⟩ has no minimizer.
    """
    return ((mean > 0) & (mean < 1)).all(-1)


def minimizer(table: Enumeration, mean: np.ndarray, temperature: float, iterations: int = 100) -> np.ndarray:
    """(…, d): θ with E_θ[Y] = mean, by damped Newton steps θ ← θ + s·t·Cov⁺(mean − E_θ[Y]) from 0; NaN where it is not found.

    Means must be inside the hull of the solutions or outside of it; on its boundary θ runs away while the gradient vanishes.
    The pseudo-inverse Cov⁺ leaves directions alone in which the risk is flat.
    """
    rows = np.atleast_2d(mean)
    theta = np.zeros_like(rows)
    value, gradient, step = _newton(table, theta, rows, temperature)
    for _ in range(iterations):
        if np.abs(gradient).max() < 1e-11:
            break
        scale = np.ones(len(rows))
        for _ in range(40):  # halve steps that do not reduce the risk
            worse = _risk(table, theta + scale[:, None] * step, rows, temperature) > value + 1e-12
            if not worse.any():
                break
            scale[worse] /= 2
        theta = theta + scale[:, None] * step
        value, gradient, step = _newton(table, theta, rows, temperature)
    theta[np.abs(gradient).max(-1) > 1e-8] = np.nan
    return theta.reshape(np.shape(mean))


def parity_class(problem: mg.Problem, odd: bool) -> Enumeration:
    """The solutions with an odd (even) sum: what a chain that flips an even number of bits can reach."""
    table = copy.copy(mg.exact.enumeration(problem))
    chosen = table.statistics.sum(-1) % 2 == odd
    table.solutions, table.statistics, table.phi = table.solutions[chosen], table.statistics[chosen], table.phi[chosen]
    return table


def inside_parity_class(problem: mg.Problem, mean: np.ndarray, odd: bool) -> np.ndarray:
    """(M,): whether means (M, d) lie inside the hull of a class: farther than 1 in ℓ₁ from every vertex of the other one."""
    others = parity_class(problem, not odd).statistics
    return np.array([np.abs(others - row).sum(-1).min() > 1 for row in mean])


def _risk(table: Enumeration, theta: np.ndarray, mean: np.ndarray, t: float) -> np.ndarray:
    return t * table.log_partition(theta, t) - (theta * mean).sum(-1)


def _newton(table: Enumeration, theta: np.ndarray, mean: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, gradient and Newton step of the risk."""
    p = table.probabilities(theta, t)
    now = p @ table.statistics
    second = np.einsum("es,si,sj->eij", p, table.statistics, table.statistics, optimize=True)
    covariance = second - now[:, :, None] * now[:, None, :]
    step = t * np.einsum("eij,ej->ei", np.linalg.pinv(covariance, rcond=1e-9, hermitian=True), mean - now)
    return _risk(table, theta, mean, t), now - mean, step
