"""Vertices of {x: A x ≤ b, 0 ≤ x ≤ u}: those one pivot away from an optimum."""

import numpy as np

from experiments.arena.board import Relaxation

SMALL = 1e-9


def standard_form(relaxation: Relaxation) -> tuple[np.ndarray, np.ndarray]:
    """A and b with a slack for each row; finite upper bounds are rows."""
    assert relaxation.A is not None
    rows, limits = relaxation.A.toarray(), np.asarray(relaxation.b, float)
    if np.isfinite(relaxation.upper):
        n = rows.shape[1]
        rows, limits = np.concatenate([rows, np.eye(n)]), np.concatenate([limits, np.full(n, relaxation.upper)])
    return np.concatenate([rows, np.eye(len(rows))], axis=1), limits


def adjacent(relaxation: Relaxation, theta: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """For each θ the optimal vertex (N, d), and the vertices (K, d) one pivot away from it, without the vertex 0."""
    from experiments.arena.oracles import Highs

    solver, (rows, limits) = Highs(relaxation, integer=False), standard_form(relaxation)
    best = np.array([solver.solve(one) for one in theta])
    return [_neighbors(rows, limits, x, len(x)) for x in best], best


def basis_of(rows: np.ndarray, limits: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Columns that are positive at x, filled up to a basis where x is degenerate."""
    full = np.concatenate([x, limits - rows[:, : len(x)] @ x])
    order = np.argsort(-full, kind="stable")
    if full[order[len(rows) - 1]] > SMALL and (len(order) == len(rows) or full[order[len(rows)]] <= SMALL):
        return np.sort(order[: len(rows)])
    from scipy.linalg import qr

    positive, rest = order[full[order] > SMALL], order[full[order] <= SMALL]
    chosen = list(positive)
    residual = rows - (q := np.linalg.qr(rows[:, chosen])[0]) @ (q.T @ rows)
    missing = len(rows) - len(chosen)
    chosen += list(rest[qr(residual[:, rest], pivoting=True)[2][:missing]])
    return np.sort(np.array(chosen))


def _neighbors(rows: np.ndarray, limits: np.ndarray, x: np.ndarray, size: int) -> np.ndarray:
    basis = basis_of(rows, limits, x)
    beside = np.setdiff1d(np.arange(rows.shape[1]), basis)
    directions = np.linalg.solve(rows[:, basis], rows[:, beside])
    values = np.concatenate([x, limits - rows[:, :size] @ x])[basis]
    found = []
    for j, direction in zip(beside, directions.T, strict=True):
        falls = direction > SMALL
        step = np.min(values[falls] / direction[falls], initial=np.inf)
        if SMALL < step < np.inf:
            full = np.zeros(rows.shape[1])
            full[basis], full[j] = values - step * direction, step
            if np.any(full[:size] > SMALL):
                found.append(full[:size])
    return np.array(found).reshape(-1, size)
