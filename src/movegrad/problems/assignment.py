"""Assignments of n rows to n columns, with moves that exchange the columns of two or three rows.

A solution y is a permutation: row i has column y[i]. The draws of a swap of rows i and j and of a cycle of rows i, j, k are
uniform, and the same rows lead back: their ratios are 1. The guided swap draws a row and a column for it together, (i, c) with
probability w_ic ∝ e^(θ_ic/β) within each row; the owner j of c takes what i had. The same swap is drawn as (j, y[i]), so that its
probability is w_i,y[j] + w_j,y[i], and on the way back w_i,y[i] + w_j,y[j]: the ratio is theirs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from math import exp, factorial, log
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Array, Arrays
from movegrad._validate import array_of, choices, flag, integer_in, positive, shown
from movegrad.engine import categorical, integer, is_jitted, jit, outline
from movegrad.problem import Jitted, Move, Problem
from movegrad.problems._binary import extra, weighted
from movegrad.problems._edges import matrix_of

MOST_ROWS = 40_000  # n² entries have 31 bits
LARGEST_EXACT = 12  # rows: the oracle lists the subsets of columns
LEAST_LOG_WEIGHT = -20.0  # of a guided draw, against the likeliest of its row
ROUNDS = 50  # of local search over all pairs of rows, at most


class Data(NamedTuple):
    """Nothing but the temperature of the guided swap; 0 stands for 2t."""

    beta: float


class State(NamedTuple):
    """For the guided swap, ``owner`` is the inverse of y and ``cumulative`` sums up the weights of (row, column), row by row."""

    y: np.ndarray
    owner: np.ndarray
    cumulative: np.ndarray


# --- swap the columns of two rows -------------------------------------------------------------------------------------


@jit
def propose_swap(data, state, rng):
    n = len(state.y)
    i, j = integer(rng, n), integer(rng, n - 1)
    return (i, j + (j >= i)), 0.0


@jit
def change_swap(data, state, move, m):
    i, j = move
    row, other = (i, j)[m & 1], (i, j)[(m + (m >> 1)) & 1]
    return row * len(state.y) + state.y[other], -1 if m < 2 else 1


@jit
def apply_swap(data, state, move):
    i, j = move
    state.y[i], state.y[j] = state.y[j], state.y[i]


@jit
def apply_swap_if(data, state, move, accepted):
    i, j = move
    other = (state.y[i] ^ state.y[j]) & -accepted
    state.y[i] ^= other
    state.y[j] ^= other


# --- a cycle of three rows: i takes the column of j, j that of k, k that of i -----------------------------------------


@jit
def propose_cycle(data, state, rng):
    n = len(state.y)
    i, j, k = integer(rng, n), integer(rng, n - 1), integer(rng, n - 2)
    j += j >= i
    k += k >= min(i, j)
    k += k >= max(i, j)
    return (i, j, k), 0.0


@jit
def change_cycle(data, state, move, m):
    i, j, k = move
    if m < 3:
        return (i, j, k)[m] * len(state.y) + state.y[(i, j, k)[m]], -1
    return (i, j, k)[m - 3] * len(state.y) + state.y[(j, k, i)[m - 3]], 1


@jit
def apply_cycle(data, state, move):
    i, j, k = move
    state.y[i], state.y[j], state.y[k] = state.y[j], state.y[k], state.y[i]


@jit
def apply_cycle_if(data, state, move, accepted):
    i, j, k = move
    a, b, c = state.y[i], state.y[j], state.y[k]
    state.y[i] = a ^ ((a ^ b) & -accepted)
    state.y[j] = b ^ ((b ^ c) & -accepted)
    state.y[k] = c ^ ((c ^ a) & -accepted)


# --- a swap guided by θ -----------------------------------------------------------------------------------------------


@jit
def weight(state, i, c):
    """What the draw of row i and column c has, as it is drawn."""
    entry = i * len(state.y) + c
    return state.cumulative[entry] - (state.cumulative[entry - 1] if entry > 0 else 0.0)


@jit
def propose_guided(data, state, rng):
    n, drawn = len(state.y), np.int64(categorical(rng, state.cumulative))
    i = drawn // n
    j = np.int64(state.owner[drawn - i * n])
    if i == j:
        return (i, j), -np.inf
    a, b = np.int64(state.y[i]), np.int64(state.y[j])
    return (i, j), log((weight(state, i, a) + weight(state, j, b)) / (weight(state, i, b) + weight(state, j, a)))


@jit
def apply_swap_and_follow(data, state, move):
    apply_swap(data, state, move)
    for m in range(2):
        state.owner[state.y[move[m]]] = move[m]


@jit
def apply_cycle_and_follow(data, state, move):
    apply_cycle(data, state, move)
    for m in range(3):
        state.owner[state.y[move[m]]] = move[m]


@outline
def prepare_guided(data, guide, temperature, state):
    n, beta, total = len(state.y), data.beta if data.beta > 0.0 else 2.0 * temperature, 0.0
    for i in range(n):
        state.owner[state.y[i]] = i
        high, row = guide[i * n], 0.0
        for c in range(n):
            high = max(high, guide[i * n + c])
        for c in range(n):
            row += exp(max((guide[i * n + c] - high) / beta, LEAST_LOG_WEIGHT))
        for c in range(n):
            total += exp(max((guide[i * n + c] - high) / beta, LEAST_LOG_WEIGHT)) / row
            state.cumulative[i * n + c] = total


MOVES = {
    m.name: m
    for m in (
        Move("swap", propose_swap, change_swap, apply_swap, changes=4, apply_if=apply_swap_if),
        Move("3-cycle", propose_cycle, change_cycle, apply_cycle, changes=6, apply_if=apply_cycle_if),
    )
}
MOVES_BESIDE_GUIDED = {
    m.name: m
    for m in (
        replace(MOVES["swap"], apply=apply_swap_and_follow, apply_if=None),
        replace(MOVES["3-cycle"], apply=apply_cycle_and_follow, apply_if=None),
        Move("guided swap", propose_guided, change_swap, apply_swap_and_follow, changes=4),
    )
}


# --- the set ----------------------------------------------------------------------------------------------------------


@jit
def statistic(data, y, out):
    for i in range(len(y)):
        out[i * len(y) + y[i]] = 1.0


@outline
def contains(data, y):
    """Asked of every start: O(n²), since there is no scratch space here, in a loop that is vectorized."""
    for i in range(len(y)):
        if y[i] < 0 or y[i] >= len(y):
            return False
    for i in range(len(y)):
        same = 0
        for j in range(len(y)):
            same += y[j] == y[i]
        if same > 1:
            return False
    return True


@jit
def random(data, rng, y):
    for i in range(len(y)):
        y[i] = i
    for i in range(len(y) - 1, 0, -1):  # Fisher-Yates
        other = integer(rng, i + 1)
        y[i], y[other] = y[other], y[i]


# --- where chains begin -----------------------------------------------------------------------------------------------


@jit
def no_gain(data, state, move):
    return 0.0


@jit
def take_in_turn(guide, y):
    """Each row in turn takes the best column that is left."""
    n = len(y)
    for i in range(n):
        y[i] = i
    for i in range(n):
        best = i
        for j in range(i + 1, n):
            if guide[i * n + y[j]] > guide[i * n + y[best]]:
                best = j
        y[i], y[best] = y[best], y[i]


@cache
def search(gain: Jitted) -> Jitted:
    """First improvement over swaps of two rows, for a φ of which a swap gains so much."""

    @outline
    def improve(data, guide, state):
        y, n = state.y, len(state.y)
        for _ in range(ROUNDS):
            better = False
            for i in range(n):
                for j in range(i + 1, n):
                    new = guide[i * n + y[j]] + guide[j * n + y[i]]
                    old = guide[i * n + y[i]] + guide[j * n + y[j]]
                    of_phi = gain(data, state, (i, j))
                    if new - old + of_phi > 1e-10 * (abs(new) + abs(old) + abs(of_phi)):  # more than rounding
                        y[i], y[j] = y[j], y[i]
                        better = True
            if not better:
                break

    return improve


@cache
def search_and_follow(gain: Jitted) -> Jitted:
    plain = search(gain)

    @jit
    def improve(data, guide, state):
        plain(data, guide, state)
        for i in range(len(state.y)):
            state.owner[state.y[i]] = i

    return improve


@cache
def build(gain: Jitted) -> Jitted:
    improve = search(gain)

    @jit
    def greedy(data, guide, state):
        take_in_turn(guide, state.y)
        improve(data, guide, state)

    return greedy


# --- φ as a function of the permutation -------------------------------------------------------------------------------


@cache
def total_of(function: Jitted) -> Jitted:
    return jit(lambda data, y: function(y))


@cache
def gain_of(function: Jitted, apply: Jitted, back: Jitted) -> Jitted:
    """φ(y') − φ(y), evaluated before and after on the state itself."""

    @jit
    def gain(data, state, move):
        before = function(state.y)
        apply(data, state, move)
        after = function(state.y)
        back(data, state, move)
        return after - before

    return gain


@jit
def unapply_cycle(data, state, move):
    i, j, k = move
    apply_cycle(data, state, (i, k, j))


def _phi(phi: Any, moves: list[Move]) -> tuple[Jitted | None, list[Move], Jitted]:
    """The argument ``phi``: its function for the problem, the moves with its gain, and the gain of a swap."""
    if phi is None:
        return None, moves, no_gain
    if not is_jitted(phi) or phi.py_func.__code__.co_argcount != 1:
        raise ValueError(f"phi must be a function of one argument compiled with movegrad.jit, got {shown(phi)}.")
    swap, cycle = gain_of(phi, apply_swap, apply_swap), gain_of(phi, apply_cycle, unapply_cycle)
    return total_of(phi), [replace(m, gain=cycle if m.name == "3-cycle" else swap) for m in moves], swap


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Permutations:
    """Lists all permutations."""

    n: int

    def __call__(self) -> Iterator[np.ndarray]:
        return (np.array(y, np.int32) for y in permutations(range(self.n)))

    @property
    def at_least(self) -> int:
        return factorial(self.n)


class Permuting(Problem):
    """What :class:`Assignment` and :class:`QAP` share: how solutions are read, and θ as a matrix."""

    def theta(self, matrix: Arrays) -> Array:
        """θ of a matrix: its rows, one after another.

        Parameters
        ----------
        matrix : array or tensor (…, n, n)
            What it is worth that a row has a column.

        Returns
        -------
        array or tensor (…, n²)
            θ.
        """
        square, n = matrix_of(matrix, "matrix", len(self.solution)), len(self.solution)
        return square.reshape(*square.shape[:-2], n * n)

    def matrix(self, mean: Array) -> Array:
        """The matrix of θ, T(y) or E[T(Y)]; the last is doubly stochastic.

        Parameters
        ----------
        mean : array or tensor (…, n²)
            Such as ``Sample.mean``.

        Returns
        -------
        array or tensor (…, n, n)
            Rows and columns.
        """
        n = len(self.solution)
        if tuple(mean.shape[-1:]) != (n * n,):
            raise ValueError(f"mean must have a last axis of {n * n} entries, got shape {tuple(mean.shape)}.")
        return mean.reshape(*mean.shape[:-1], n, n)

    def decode(self, solution: Arrays) -> list[int]:
        """The column of each row.

        Parameters
        ----------
        solution : (n,)
            In the set.

        Returns
        -------
        list of int
            A permutation of 0..n−1.
        """
        array = array_of(solution, "solution")
        if array.shape != self.solution.shape:
            raise ValueError(f"solution must have {len(self.solution)} entries, got shape {array.shape}.")
        return [int(column) for column in array]

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        return {"columns": self.decode(solution)}

    def complaint(self, solution: np.ndarray) -> str:
        n, columns = len(self.solution), [int(column) for column in solution]
        for column in columns:
            if not 0 <= column < n:
                return f"columns must be in 0..{n - 1}, got {column}"
            if columns.count(column) > 1:
                return f"column {column} is taken {columns.count(column)} times"
        return ""


class Assignment(Permuting):
    """Permutations of n columns; T(y) is the permutation matrix, and θ says what each pair of a row and a column is worth.

    For the best assignment by a linear objective alone an exact solver is the better layer:
    ``scipy.optimize.linear_sum_assignment`` takes O(n³). A chain pays where there is more to it: a law on permutations and its
    marginals (permanents, for which no fast way is known), a term φ of the whole permutation, another T, moves of your own that
    keep more constraints.

    Parameters
    ----------
    n : int
        Number of rows and of columns, at least 2.
    moves : sequence of str, optional
        Any of "swap" and "3-cycle"; both by default, without "3-cycle" for n = 2. May be empty beside the guided swap.
    guided : bool
        Mix in a swap in which a row takes a column with probability ∝ e^(θ/β), and the former owner what the row had.
    beta : float, optional
        Temperature β of the guided swap; 2t by default.
    weights : sequence of float, optional
        Shares of these moves, the guided one last; equal by default.
    phi : jitted function ``phi(y)``, optional
        A term of the objective beside ⟨θ, T(y)⟩. It is evaluated twice at each step.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.Assignment(3)
    >>> problem
    Assignment(3)(d=9, moves=['swap', '3-cycle'])
    >>> theta = problem.theta(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]))
    >>> mg.solve(problem, theta, steps=100).columns
    [2, 1, 0]
    >>> problem.matrix(mg.exact.marginals(problem, theta)).sum(0).round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        n: int,
        *,
        moves: Sequence[str] | None = None,
        guided: bool = False,
        beta: float | None = None,
        weights: Sequence[float] | None = None,
        phi: Arrays | None = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        n, guided = integer_in(n, "n", 2, MOST_ROWS), flag(guided, "guided")
        kit = MOVES_BESIDE_GUIDED if guided else MOVES
        chosen = [*chosen_moves(moves, n, least=0 if guided else 1), *(["guided swap"] if guided else [])]
        term, own, gain = _phi(phi, [kit[m] for m in chosen])
        super().__init__(
            Data(0.0 if beta is None else positive(beta, "beta")),
            State(np.arange(n, dtype=np.int32), np.zeros(n if guided else 0, np.int32), np.zeros(n * n if guided else 0)),
            [*weighted(own, weights), *extra(extra_moves)],
            n * n,
            prepare=prepare_guided if guided else None,
            statistic=statistic,
            phi=term,
            contains=contains,
            random=random,
            greedy=build(gain),
            improve=search_and_follow(gain) if guided else search(gain),
            guided=guided,
            states=Permutations(n),
            oracle=Permanent(n) if term is None and n <= LARGEST_EXACT else None,
            name=f"Assignment({n})",
        )


def chosen_moves(moves: Sequence[str] | None, n: int, least: int = 1) -> list[str]:
    """The argument ``moves``: by default all that there are for so many rows."""
    chosen = [m for m in MOVES if n > 2 or m == "swap"] if moves is None else choices(moves, "moves", tuple(MOVES))
    if len(chosen) < least or (chosen and "swap" not in chosen and least):
        raise ValueError(f"moves must contain 'swap', since cycles of three reach only half of the permutations, got {moves!r}.")
    if "3-cycle" in chosen and n < 3:
        raise ValueError(f"moves must not contain '3-cycle' for fewer than 3 rows, got n = {n}.")
    return chosen


class Permanent(NamedTuple):
    """Exact law on permutations by a dynamic program over the subsets of columns, O(2ⁿ n).

    F[S] is the log of the total weight of the ways in which the first |S| rows take the columns S, B[S] that of the ways in which
    the other rows take the other columns: log Z = F[all], and P(y[i] = c) = Σ over S of i columns without c of
    e^(F[S] + θ_ic/t + B[S + c] − log Z).
    """

    n: int

    def _steps(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Row, column, and the subsets of as many columns as there are rows before it, without this column."""
        subsets = np.arange(1 << self.n)
        size = np.array([int(s).bit_count() for s in subsets])
        for i in range(self.n):
            for c in range(self.n):
                yield i, c, subsets[(size == i) & (subsets >> c & 1 == 0)]

    def _scores(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        """(n, n, …)"""
        scores = theta.reshape(*theta.shape[:-1], self.n, self.n) / temperature
        return np.moveaxis(scores, (-2, -1), (0, 1))

    def _tables(self, theta: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F and B (2ⁿ, …), and the scores."""
        scores, steps = self._scores(theta, temperature), list(self._steps())
        before = np.full((1 << self.n, *scores.shape[2:]), -np.inf)
        behind = before.copy()
        before[0] = behind[-1] = 0.0
        for i, c, subsets in steps:
            before[subsets | 1 << c] = np.logaddexp(before[subsets | 1 << c], before[subsets] + scores[i, c])
        for i, c, subsets in reversed(steps):
            behind[subsets] = np.logaddexp(behind[subsets], behind[subsets | 1 << c] + scores[i, c])
        return before, behind, scores

    def log_partition(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        return self._tables(theta, temperature)[0][-1]

    def marginals(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        before, behind, scores = self._tables(theta, temperature)
        out = np.zeros_like(scores)
        for i, c, subsets in self._steps():
            out[i, c] = np.exp(before[subsets] + scores[i, c] + behind[subsets | 1 << c] - before[-1]).sum(0)
        return np.moveaxis(out, (0, 1), (-2, -1)).reshape(theta.shape)

    def sample(self, theta: np.ndarray, temperature: float, n: int, rng: np.random.Generator) -> np.ndarray:
        _, behind, scores = self._tables(theta, temperature)
        shape = (n, *theta.shape[:-1])
        out, taken = np.zeros((*shape, self.n), np.int32), np.zeros(shape, np.int64)
        behind, examples = behind.reshape(1 << self.n, -1), np.arange(max(int(np.prod(shape[1:])), 1))
        taken, flat = taken.reshape(n, -1), scores.reshape(self.n, self.n, -1)
        for i in range(self.n):
            columns = np.arange(self.n)[:, None, None]
            after = behind[taken | 1 << columns, examples] + flat[i][:, None, :] - behind[taken, examples]
            shares = np.where(taken >> columns & 1, 0.0, np.exp(np.minimum(after, 0.0))).cumsum(0)
            drawn = (rng.random(taken.shape) * shares[-1] >= shares).sum(0)
            out.reshape(n, -1, self.n)[..., i] = drawn
            taken = taken | 1 << drawn
        return out
