"""Quadratic assignment: the permutations of :mod:`movegrad.problems.assignment`, with φ(y) = −Σ flow[i, j]·distance[y[i], y[j]].

Where one of the matrices is symmetric, the other may as well be, and half of the sum says it all. A swap changes what two rows and
two columns say: O(n).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import array_of, doubles
from movegrad.engine import jit, outline
from movegrad.problem import Move
from movegrad.problems._binary import extra, weighted
from movegrad.problems.assignment import MOVES, Permutations, Permuting, build, chosen_moves, contains, random, search, statistic

_LARGEST = 1e100  # of an entry: sums of products of two are finite


class Data(NamedTuple):
    """The matrices, and their transposes: what is read along a row is near in memory."""

    flow: np.ndarray
    distance: np.ndarray
    flow_back: np.ndarray
    distance_back: np.ndarray
    symmetric: int


class State(NamedTuple):
    """Nothing is derived."""

    y: np.ndarray


@jit
def phi(data, y):
    total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            total += data.flow[i, j] * data.distance[y[i], y[j]]
    return -total


@jit
def along(flow, distance, y, i, j, first, stop):
    """What rows i and j say of the rows first…stop−1 once they have changed places."""
    a, b, total = y[i], y[j], 0.0
    for k in range(first, stop):
        total += (flow[i, k] - flow[j, k]) * (distance[b, y[k]] - distance[a, y[k]])
    return total


@jit
def along_all(flow, distance, y, i, j):
    total = along(flow, distance, y, i, j, 0, i) + along(flow, distance, y, i, j, i + 1, j)
    return total + along(flow, distance, y, i, j, j + 1, len(y))


@outline
def gain_swap(data, state, move):
    y, flow, distance = state.y, data.flow, data.distance
    i, j = min(move[0], move[1]), max(move[0], move[1])
    a, b = y[i], y[j]
    total = along_all(flow, distance, y, i, j)
    total += total if data.symmetric else along_all(data.flow_back, data.distance_back, y, i, j)
    total += (flow[i, i] - flow[j, j]) * (distance[b, b] - distance[a, a])
    return -total - (flow[i, j] - flow[j, i]) * (distance[b, a] - distance[a, b])


@outline
def gain_cycle(data, state, move):
    y, flow, distance = state.y, data.flow, data.distance
    i, j, k = move
    a, b, c, total = y[i], y[j], y[k], 0.0
    for m in range(len(y)):
        if m != i and m != j and m != k:
            d, back = y[m], data.distance_back
            total += flow[i, m] * (distance[b, d] - distance[a, d]) + data.flow_back[i, m] * (back[b, d] - back[a, d])
            total += flow[j, m] * (distance[c, d] - distance[b, d]) + data.flow_back[j, m] * (back[c, d] - back[b, d])
            total += flow[k, m] * (distance[a, d] - distance[c, d]) + data.flow_back[k, m] * (back[a, d] - back[c, d])
    total += flow[i, i] * (distance[b, b] - distance[a, a]) + flow[j, j] * (distance[c, c] - distance[b, b])
    total += flow[k, k] * (distance[a, a] - distance[c, c])
    total += flow[i, j] * (distance[b, c] - distance[a, b]) + flow[j, i] * (distance[c, b] - distance[b, a])
    total += flow[j, k] * (distance[c, a] - distance[b, c]) + flow[k, j] * (distance[a, c] - distance[c, b])
    total += flow[k, i] * (distance[a, b] - distance[c, a]) + flow[i, k] * (distance[b, a] - distance[a, c])
    return -total


QAP_MOVES = {"swap": replace(MOVES["swap"], gain=gain_swap), "3-cycle": replace(MOVES["3-cycle"], gain=gain_cycle)}


class QAP(Permuting):
    """Quadratic assignment: facility i goes to location y[i], and what flows between facilities travels.

    The objective is ⟨θ, T(y)⟩ − Σ flow[i, j]·distance[y[i], y[j]], where T(y) is the permutation matrix: θ has n² entries, row by
    row, and says what it is worth that a facility has a location; zeros for the problem as such.

    Parameters
    ----------
    flow, distance : (n, n)
        Any finite numbers; they may be asymmetric, and their diagonals count. n is at least 2.
    moves : sequence of str
        Any of "swap" and "3-cycle"; swaps by default.
    weights : sequence of float, optional
        Shares of the moves; equal by default.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    References
    ----------
    Koopmans, Beckmann (1957), "Assignment problems and the location of economic activities".

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> flow = np.array([[0, 5, 1], [5, 0, 2], [1, 2, 0]])
    >>> problem = mg.problems.QAP(flow, np.abs(np.subtract.outer(np.arange(3), np.arange(3))))
    >>> found = mg.solve(problem, np.zeros(9), steps=100)
    >>> float(found.objective), found.columns[1]
    (-18.0, 1)
    """

    cooling = (0.5, 0.01)

    def __init__(
        self,
        flow: Arrays,
        distance: Arrays,
        *,
        moves: Sequence[str] = ("swap",),
        weights: Sequence[float] | None = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        matrices = [_square(flow, "flow"), _square(distance, "distance")]
        n = len(matrices[0])
        if len(matrices[1]) != n:
            raise ValueError(f"distance must have shape {(n, n)}, as flow has, got {matrices[1].shape}.")
        symmetric = any((m == m.T).all() for m in matrices)
        if symmetric:
            matrices = [0.5 * (m + m.T) for m in matrices]
        super().__init__(
            Data(matrices[0], matrices[1], matrices[0].T.copy(), matrices[1].T.copy(), int(symmetric)),
            State(np.arange(n, dtype=np.int32)),
            [*weighted([QAP_MOVES[m] for m in chosen_moves(moves, n)], weights), *extra(extra_moves)],
            n * n,
            statistic=statistic,
            phi=phi,
            contains=contains,
            random=random,
            greedy=build(gain_swap),
            improve=search(gain_swap),
            states=Permutations(n),
            name=f"QAP({n})",
        )


def _square(value: Any, name: str) -> np.ndarray:
    array = array_of(value, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 2 or array.dtype.kind not in "iufb":
        raise ValueError(
            f"{name} must be a square matrix of numbers with at least 2 rows, got shape {array.shape} of {array.dtype}."
        )
    array = doubles(array)
    if not (np.abs(array) <= _LARGEST).all():
        bad = array[~(np.abs(array) <= _LARGEST)][0]
        raise ValueError(f"{name} must be finite and at most {_LARGEST:g} in absolute value, got {bad} among its entries.")
    return array
