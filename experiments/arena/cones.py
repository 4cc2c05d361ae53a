"""The geometry of a relaxation at a label: normals of what binds there, and vertices one pivot away."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from scipy.sparse import csc_matrix, csr_matrix, identity, triu, vstack
from torch import Tensor

from experiments.arena.board import Board

TOLERANCE = 1e-7
ITERATIONS = 3  # of the interior-point solver, for a projection inside the cone


def binding_normals(board: Board, i: int, cuts: bool = True) -> csr_matrix:
    """At label i the outward normals (K, d) of the constraints and bounds that bind there; of an equation, both signs.

    ``cuts``: where a solver would add some, those that bind, or none.
    """
    given = board.extra.get("normals")
    if given is not None:
        return given(i, cuts)
    relaxation, y, unit = board.relaxation, board.labels[i], csr_matrix(identity(board.size))
    assert relaxation is not None
    parts = [-unit[y < TOLERANCE], unit[y > relaxation.upper - TOLERANCE]]
    if relaxation.E is not None:
        parts += [relaxation.E, -relaxation.E]
    if relaxation.A is not None and relaxation.b is not None:
        parts.append(relaxation.A[relaxation.b - relaxation.A @ y < TOLERANCE * np.maximum(1.0, np.abs(relaxation.b))])
    return csr_matrix(vstack(parts))


class Cone:
    """{λ A, λ ≥ 0}, to project on again and again."""

    def __init__(self, normals: csr_matrix) -> None:
        self.normals = normals

    @cached_property
    def quadratic(self) -> csc_matrix:
        """Of ‖λ A − y‖², the upper triangle."""
        return csc_matrix(triu(2.0 * self.normals @ self.normals.T))

    def project(self, y: np.ndarray, inner: bool) -> np.ndarray:
        """The point next to y; or one inside, by an interior-point solver that is stopped early, set up as PyEPO sets it up.

        Where it is after three iterations depends on how the program is written: with other variables it is no point to learn from.
        """
        if not inner:
            return self.normals.T @ nnls(self.normals.T.toarray(), y)[0]
        import clarabel

        k = self.normals.shape[0]
        settings: Any = clarabel.DefaultSettings()
        settings.verbose, settings.max_iter, settings.max_threads = False, ITERATIONS, 1
        settings.presolve_enable = settings.equilibrate_enable = False
        linear, positive = -2.0 * (self.normals @ y), [clarabel.NonnegativeConeT(k)]
        minus = csc_matrix(-identity(k))
        found = clarabel.DefaultSolver(self.quadratic, linear, minus, np.zeros(k), positive, settings).solve()
        return self.normals.T @ np.array(found.x)


def neighbors(board: Board) -> tuple[list[Tensor], np.ndarray]:
    """Vertices one pivot from the optimum of the relaxation at each training θ, and these optima."""
    vertices, best = board.extra["vertices"]()
    return [torch.from_numpy(np.ascontiguousarray(v, np.float32)) for v in vertices], best
