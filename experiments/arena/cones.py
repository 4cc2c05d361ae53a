"""The geometry of a relaxation at a label: normals of what binds there, and vertices one pivot away."""

from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from experiments.arena.board import Board

TOLERANCE = 1e-7
ITERATIONS = 3  # of the interior-point solver, for a projection inside the cone


def binding_normals(board: Board, cuts: bool = True) -> list[np.ndarray]:
    """For each label the outward normals (K, d) of the constraints and bounds that bind there; of an equation, both signs.

    ``cuts``: where a solver would add some, all that bind, or none.
    """
    given = board.extra.get("normals")
    if given is not None:
        return given(cuts)
    relaxation = board.relaxation
    assert relaxation is not None
    rows, identity = [], np.eye(board.size)
    upper = None if relaxation.A is None else (relaxation.A.toarray(), np.asarray(relaxation.b))
    equal = np.empty((0, board.size)) if relaxation.E is None else relaxation.E.toarray()
    for y in board.labels:
        parts = [equal, -equal, -identity[y < TOLERANCE], identity[y > relaxation.upper - TOLERANCE]]
        if upper is not None:
            parts.append(upper[0][upper[1] - upper[0] @ y < TOLERANCE * np.maximum(1.0, np.abs(upper[1]))])
        rows.append(np.concatenate(parts))
    return rows


def project(normals: np.ndarray, y: np.ndarray, inner: bool) -> np.ndarray:
    """The point of the cone {λ A, λ ≥ 0} next to y; or one inside it, by an interior-point solver that is stopped early."""
    if not inner:
        return nnls(normals.T, y)[0] @ normals
    import clarabel
    from scipy.sparse import csc_matrix

    k, d = normals.shape
    quadratic = csc_matrix((np.ones(d), (np.arange(k, k + d), np.arange(k, k + d))), (k + d, k + d))  # ½‖p‖² − ⟨y, p⟩, p = λ A
    rows = csc_matrix(np.block([[normals.T, -np.eye(d)], [-np.eye(k), np.zeros((k, d))]]))
    settings: Any = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, ITERATIONS
    cones = [clarabel.ZeroConeT(d), clarabel.NonnegativeConeT(k)]
    found = clarabel.DefaultSolver(quadratic, np.concatenate([np.zeros(k), -y]), rows, np.zeros(d + k), cones, settings).solve()
    return np.array(found.x[k:])


def neighbors(board: Board) -> tuple[list[Tensor], np.ndarray]:
    """Vertices one pivot from the optimum of the relaxation at each training θ, and these optima."""
    vertices, best = board.extra["vertices"]()
    return [torch.from_numpy(np.ascontiguousarray(v, np.float32)) for v in vertices], best
