"""Paths from corner to corner of a grid, by steps to the east and to the south.

A solution is the order of the steps, of which h − 1 go south and w − 1 east. Two moves exchange a step east and one south:

* *corner*: two steps that follow each other, so that the path goes around a cell on its other side; four arcs change, in O(1);
* *swap*: any two, so that all between them is shifted; O(length of what is shifted).

Both draw places without looking at the path, and drawing the same places leads back: the ratio is 1. Corners alone connect the set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import MOST, array_of, choices, integer_in, sequence
from movegrad.engine import integer, jit
from movegrad.problem import Move, Problem, stay
from movegrad.problems._binary import extra, weighted


class Data(NamedTuple):
    """A grid of h rows and w columns."""

    h: int
    w: int


class State(NamedTuple):
    """``row[k]`` is the row in which step k begins, ``row[0]`` = 0."""

    y: np.ndarray  # (h+w−2,) 0: east, 1: south
    row: np.ndarray


@jit
def arc(data, row, step, south):
    """Entry of θ and T for step number ``step``, which begins in this row: arcs east of each row, then those south of it."""
    return row * (2 * data.w - 1) + (data.w - 1) * south + step - row


# --- corner ----------------------------------------------------------------------------------------------------------


@jit
def propose_corner(data, state, rng):
    k = integer(rng, len(state.y) - 1)
    return k, 0.0 if state.y[k] != state.y[k + 1] else -np.inf


@jit
def change_corner(data, state, k, m):
    """Two arcs are left, then two are taken."""
    row, first = np.int64(state.row[k]), np.int64(state.y[k])
    if m < 2:
        return arc(data, row + m * first, k + m, first if m == 0 else 1 - first), -1
    return arc(data, row + (m - 2) * (1 - first), k + m - 2, 1 - first if m == 2 else first), 1


@jit
def apply_corner(data, state, k):
    state.y[k], state.y[k + 1] = state.y[k + 1], state.y[k]
    state.row[k + 1] = state.row[k] + state.y[k]


# --- swap ------------------------------------------------------------------------------------------------------------


@jit
def propose_swap(data, state, rng):
    p, q = integer(rng, len(state.y)), integer(rng, len(state.y) - 1)
    q += q >= p
    return (min(p, q), max(p, q)), 0.0 if state.y[p] != state.y[q] else -np.inf


@jit
def changes_swap(data, state, move):
    return 2 * (move[1] - move[0] + 1)


@jit
def change_swap(data, state, move, m):
    """The arcs from place p to place q are left, then those of the shifted stretch are taken."""
    p, q = move
    length = q - p + 1
    if m < length:
        return arc(data, np.int64(state.row[p + m]), p + m, np.int64(state.y[p + m])), -1
    k = p + m - length
    step, shift = np.int64(state.y[k]), 1 - 2 * np.int64(state.y[p])
    if (k == p) | (k == q):
        step = 1 - step
    return arc(data, np.int64(state.row[k]) + (shift if k > p else 0), k, step), 1


@jit
def apply_swap(data, state, move):
    p, q = move
    shift = 1 - 2 * np.int64(state.y[p])
    state.y[p], state.y[q] = state.y[q], state.y[p]
    for k in range(p + 1, q + 1):
        state.row[k] += shift


MOVES = {
    "corner": Move("corner", propose_corner, change_corner, apply_corner, changes=4),
    "swap": Move("swap", propose_swap, change_swap, apply_swap, changes_swap),
}


# --- the set ---------------------------------------------------------------------------------------------------------


@jit
def statistic(data, y, out):
    row = 0
    for k in range(len(y)):
        out[arc(data, row, k, np.int64(y[k]))] = 1.0
        row += y[k]


@jit
def contains(data, y):
    south = 0
    for k in range(len(y)):
        if y[k] > 1:
            return False
        south += y[k]
    return south == data.h - 1


@jit
def random(data, rng, y):
    """A step goes south with probability (rows still to go) / (steps left)."""
    left = data.h - 1
    for k in range(len(y)):
        y[k] = integer(rng, len(y) - k) < left
        left -= y[k]


@jit
def prepare(data, guide, temperature, state):
    row = 0
    for k in range(len(state.y)):
        state.row[k] = row
        row += state.y[k]


@dataclass(frozen=True, eq=False)
class AllPaths:
    """Lists all orders of steps."""

    h: int
    w: int

    def __call__(self) -> Iterator[np.ndarray]:
        steps = self.h + self.w - 2
        for south in combinations(range(steps), self.h - 1):
            y = np.zeros(steps, np.uint8)
            y[list(south)] = 1
            yield y

    @property
    def at_least(self) -> int:
        return comb(self.h + self.w - 2, self.h - 1)


class ShortestPath(Problem):
    """Paths from the northwest to the southeast corner of a grid by steps east and south; T(y) says which arcs are used.

    θ has an entry for each arc: for each row of the grid its arcs to the east, then those to the south, as in PyEPO. With
    θ = −costs the best path is the shortest. Solutions are arrays (h+w−2,) of steps, 0 for east and 1 for south.

    Parameters
    ----------
    grid : (int, int)
        Rows h and columns w of nodes, h·w > 1.
    moves : sequence of str
        From "corner", which exchanges two steps that follow each other, and "swap", which exchanges any two.
    weights : sequence of float, optional
        Shares of these moves; equal by default.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.ShortestPath((3, 3))
    >>> problem
    ShortestPath(3 × 3)(d=12, moves=['corner', 'swap'])
    >>> cost = np.arange(12.0)
    >>> found = mg.solve(problem, -cost, steps=500)
    >>> float(found.objective), found.nodes
    (-14.0, [0, 1, 2, 5, 8])
    """

    def __init__(
        self,
        grid: Arrays,
        *,
        moves: Sequence[str] = ("corner", "swap"),
        weights: Sequence[float] | None = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        size = sequence(grid, "grid", "two numbers, rows and columns")
        if len(size) != 2:
            raise ValueError(f"grid must be a sequence of two numbers, rows and columns, got {len(size)}.")
        h, w = (integer_in(n, "grid", 1, 2**15) for n in size)
        if h * w < 2:
            raise ValueError(f"grid must have two nodes or more, got {h} × {w}.")
        chosen = choices(moves, "moves", tuple(MOVES))
        if not chosen:
            raise ValueError("moves must name one move or more, got none.")
        steps, alone = h + w - 2, min(h, w) == 1  # one path
        super().__init__(
            Data(h, w),
            State((np.arange(steps) < h - 1).astype(np.uint8), np.zeros(steps, np.int32)),
            [*weighted([stay()] if alone else [MOVES[m] for m in chosen], None if alone else weights), *extra(extra_moves)],
            integer_in((h - 1) * w + h * (w - 1), "number of arcs", 1, MOST),
            prepare=prepare,
            statistic=statistic,
            contains=contains,
            random=random,
            states=AllPaths(h, w),
            oracle=Paths(h, w),
            name=f"ShortestPath({h} × {w})",
        )
        self.grid = (h, w)

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        """The path.

        Parameters
        ----------
        solution : (h+w−2,)
            In the set.

        Returns
        -------
        dict
            ``nodes``: those that it visits, numbered row by row.
        """
        return {"nodes": np.cumsum([0, *np.where(solution, self.grid[1], 1)]).tolist()}

    def from_arcs(self, arcs: Arrays) -> np.ndarray:
        """Paths given by their arcs, as solutions.

        Parameters
        ----------
        arcs : array (…, d)
            T(y): 1 for arcs that are used, 0 for others.

        Returns
        -------
        array (…, h+w−2)
            y.
        """
        used = array_of(arcs, "arcs")
        if used.ndim == 0 or used.shape[-1] != self.size:
            raise ValueError(f"arcs must have a last axis of {self.size} entries, got shape {used.shape}.")
        flat = used.reshape(-1, self.size)
        out = np.zeros((len(flat), len(self.solution)), np.uint8)
        for n, row in enumerate(flat):
            self._follow(row, out[n], f" in row {n}" if used.ndim > 1 else "")
        return out.reshape(*used.shape[:-1], -1)

    def _follow(self, used: np.ndarray, y: np.ndarray, where: str) -> None:
        """Go from node to node along the arcs that are used."""
        (h, w), row = self.grid, 0
        taken = 0
        for k in range(len(y)):
            column = k - row
            east = column < w - 1 and used[row * (2 * w - 1) + column] == 1
            south = row < h - 1 and used[row * (2 * w - 1) + w - 1 + column] == 1
            if east == south:
                node, ways = row * w + column, "two arcs" if east else "no arc"
                raise ValueError(f"arcs must be those of a path, got {ways} from node {node}{where}.")
            y[k] = south
            row += int(south)
            taken += 1
        if np.count_nonzero(used) != taken:
            raise ValueError(f"arcs must be those of a path, got {np.count_nonzero(used) - taken} beside it{where}.")


class Paths(NamedTuple):
    """Exact law by a dynamic program over nodes: F[v] is the log of the total weight of paths to v, B[v] of those from v on."""

    h: int
    w: int

    def _tables(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (…, d) by the node where an arc begins, (…, h, w): to the east, and to the south."""
        h, w = self.h, self.w
        east, south = np.full((*scores.shape[:-1], h, w), -np.inf), np.full((*scores.shape[:-1], h, w), -np.inf)
        for i in range(h):
            at = i * (2 * w - 1)
            east[..., i, : w - 1] = scores[..., at : at + w - 1]
            if i < h - 1:
                south[..., i, :] = scores[..., at + w - 1 : at + 2 * w - 1]
        return east, south

    def _forward(self, east: np.ndarray, south: np.ndarray) -> np.ndarray:
        total = np.full(east.shape, -np.inf)
        total[..., 0, 0] = 0.0
        for i in range(self.h):
            for j in range(self.w):
                if i > 0:
                    total[..., i, j] = np.logaddexp(total[..., i, j], total[..., i - 1, j] + south[..., i - 1, j])
                if j > 0:
                    total[..., i, j] = np.logaddexp(total[..., i, j], total[..., i, j - 1] + east[..., i, j - 1])
        return total

    def _backward(self, east: np.ndarray, south: np.ndarray) -> np.ndarray:
        total = np.full(east.shape, -np.inf)
        total[..., -1, -1] = 0.0
        for i in reversed(range(self.h)):
            for j in reversed(range(self.w)):
                if i < self.h - 1:
                    total[..., i, j] = np.logaddexp(total[..., i, j], total[..., i + 1, j] + south[..., i, j])
                if j < self.w - 1:
                    total[..., i, j] = np.logaddexp(total[..., i, j], total[..., i, j + 1] + east[..., i, j])
        return total

    def log_partition(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        return self._forward(*self._tables(theta / temperature))[..., -1, -1]

    def marginals(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        east, south = self._tables(theta / temperature)
        to, on = self._forward(east, south), self._backward(east, south)
        out, w, total = np.zeros(theta.shape), self.w, to[..., -1, -1, None]
        for i in range(self.h):
            at = i * (2 * w - 1)
            out[..., at : at + w - 1] = np.exp(to[..., i, :-1] + east[..., i, :-1] + on[..., i, 1:] - total)
            if i < self.h - 1:
                out[..., at + w - 1 : at + 2 * w - 1] = np.exp(to[..., i, :] + south[..., i, :] + on[..., i + 1, :] - total)
        return out

    def sample(self, theta: np.ndarray, temperature: float, n: int, rng: np.random.Generator) -> np.ndarray:
        """Backward from the end: a step came from the north with the probability of all paths that do."""
        east, south = self._tables(theta / temperature)
        to, steps = self._forward(east, south), self.h + self.w - 2
        shape = (n, *theta.shape[:-1])
        y = np.zeros((*shape, steps), np.uint8)
        for index in np.ndindex(*shape):
            at, i, j = index[1:], self.h - 1, self.w - 1
            for k in reversed(range(steps)):
                north = i > 0 and rng.random() < np.exp(to[at][i - 1, j] + south[at][i - 1, j] - to[at][i, j])
                y[(*index, k)] = north or j == 0
                i, j = (i - 1, j) if y[(*index, k)] else (i, j - 1)
        return y
