"""Quadratic functions of binary variables: QUBO, Ising models and cuts of graphs, with flips of one variable.

Let vᵢ be two-valued, 0 and 1 or −1 and +1, and φ(v) = Σᵢ bᵢ vᵢ + Σ_{i<j} Aᵢⱼ vᵢ vⱼ. A flip of i changes vᵢ by d = low + high − 2vᵢ
and φ by d·hᵢ, where hᵢ = bᵢ + Σⱼ Aᵢⱼ vⱼ is the *local field*. Fields are kept: a flip is proposed and refused in O(1), and one
that is accepted adds d·Aᵢⱼ to the fields of the neighbors of i. All flips are equally likely, there and back: the ratio is 1.

θ is on variables, T(v) = v, or on pairs, T(v)ₑ = a·(vᵢ + vⱼ) + b·vᵢ·vⱼ: products (a = 0, b = 1), or cut edges (a = 1, b = −2 with
0 and 1). On pairs, ⟨θ, T⟩ has local fields of its own, which depend on θ: ``attach`` fills them, ``follow`` keeps them, ``score``
reads one.

Fields are sums that are updated without end. Their terms are rounded to a grid, a power of two about 2⁻⁵⁰ times the largest field
there can be: then every sum is exact, in any order, and fields never drift. Integers stay what they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import LARGEST, MOST, array_of, doubles, integer_in, shown
from movegrad.engine import coin, integer, jit
from movegrad.problem import Move, Problem
from movegrad.problems._binary import extra

DENSE = 0.25  # share of couplings from which rows of a matrix are faster than lists: those are read in stretches, without indices


class Data(NamedTuple):
    """Neighbors of i and their couplings are at ``first[i]`` … ``first[i+1]``, pairs with i at ``pair_first[i]`` … alike."""

    total: int  # low + high
    one: int  # a
    two: int  # b
    linear: np.ndarray  # (n,) bᵢ
    first: np.ndarray  # (n+1,)
    neighbor: np.ndarray
    coupling: np.ndarray  # Aᵢⱼ
    matrix: np.ndarray  # (n, n) the same in rows, where there are many; else (0, 0)
    pairs: np.ndarray  # (m, 2)
    pair_first: np.ndarray  # (n+1,)
    pair_neighbor: np.ndarray
    pair_entry: np.ndarray  # of θ and T


class State(NamedTuple):
    """Fields that nobody needs are empty."""

    v: np.ndarray
    field: np.ndarray  # (n,) of φ
    pair_field: np.ndarray  # (n,) of ⟨θ, T⟩, θ on pairs
    grid: np.ndarray  # (1,) what rounds θ when it is added and subtracted


# --- flip one variable -------------------------------------------------------------------------------------------------


@jit
def step_of(data, state, i):
    """What a flip adds to a variable."""
    return data.total - 2 * np.int64(state.v[i])


@jit
def propose_flip(data, state, rng):
    return integer(rng, len(state.v)), 0.0


@jit
def gain_flip(data, state, i):
    return step_of(data, state, i) * state.field[i]


@jit
def apply_flip(data, state, i):
    state.v[i] = data.total - state.v[i]


@jit
def apply_flip_coupled(data, state, i):
    """One function for rows and for lists, so that problems of a batch need not have the same density."""
    d = np.float64(step_of(data, state, i))
    if len(data.matrix) > 0:
        row = data.matrix[i]
        for j in range(len(state.field)):
            state.field[j] += d * row[j]
    else:
        for k in range(data.first[i], data.first[i + 1]):
            state.field[data.neighbor[k]] += d * data.coupling[k]
    apply_flip(data, state, i)


# θ on variables


@jit
def change_variable(data, state, i, m):
    return i, step_of(data, state, i)


@jit
def apply_flip_if(data, state, i, accepted):
    state.v[i] += accepted * step_of(data, state, i)


# θ on pairs


@jit
def changes_pairs(data, state, i):
    return data.pair_first[i + 1] - data.pair_first[i]


@jit
def change_pair(data, state, i, m):
    k = data.pair_first[i] + m
    return data.pair_entry[k], step_of(data, state, i) * (data.one + data.two * np.int64(state.v[data.pair_neighbor[k]]))


@jit
def score_pairs(data, theta, state, i):
    return step_of(data, state, i) * state.pair_field[i]


@jit
def follow_pairs(data, theta, state, i):
    d, grid = np.float64(step_of(data, state, i) * data.two), state.grid[0]
    for k in range(data.pair_first[i], data.pair_first[i + 1]):
        state.pair_field[data.pair_neighbor[k]] += d * ((theta[data.pair_entry[k]] + grid) - grid)


@jit
def attach_pairs(data, theta, state):
    """Fields of ⟨θ, T⟩: Σₑ θₑ·(a + b·vⱼ) over the pairs of i, with θ rounded to the grid that 3/2 of a power of two gives."""
    most, large = 0.0, 1.0
    for i in range(len(state.v)):
        total = 0.0
        for k in range(data.pair_first[i], data.pair_first[i + 1]):
            total += abs(theta[data.pair_entry[k]])
        most = max(most, total)
    while large < 4.0 * most:
        large *= 2.0
    while large > 8.0 * most and large > 1e-290:
        large *= 0.5
    grid = 1.5 * large
    state.grid[0] = grid
    for i in range(len(state.v)):
        total = 0.0
        for k in range(data.pair_first[i], data.pair_first[i + 1]):
            rounded = (theta[data.pair_entry[k]] + grid) - grid
            total += rounded * (data.one + data.two * np.int64(state.v[data.pair_neighbor[k]]))
        state.pair_field[i] = total


FLIP = Move("flip", propose_flip, change_variable, apply_flip, apply_if=apply_flip_if)
FLIP_ON_PAIRS = Move("flip", propose_flip, change_pair, apply_flip, changes_pairs, score=score_pairs, follow=follow_pairs)


# --- the set -----------------------------------------------------------------------------------------------------------


@jit
def contains(data, v):
    for i in range(len(v)):
        if v[i] > 1 or (v[i] < 1 and v[i] != data.total - 1):
            return False
    return True


@jit
def random(data, rng, v):
    for i in range(len(v)):
        v[i] = 1 if coin(rng, 0.5) else data.total - 1


@jit
def field_of(data, v, i):
    """hᵢ, anew."""
    total = data.linear[i]
    if len(data.matrix) > 0:
        for j in range(len(v)):
            total += data.matrix[i, j] * v[j]
    else:
        for k in range(data.first[i], data.first[i + 1]):
            total += data.coupling[k] * v[data.neighbor[k]]
    return total


@jit
def prepare(data, guide, temperature, state):
    for i in range(len(state.v)):
        state.field[i] = field_of(data, state.v, i)


@jit
def phi(data, v):
    """Σᵢ vᵢ·(bᵢ + hᵢ)/2."""
    total = 0.0
    for i in range(len(v)):
        total += 0.5 * v[i] * (data.linear[i] + field_of(data, v, i))
    return total


@jit
def statistic_pairs(data, v, out):
    for e in range(len(data.pairs)):
        a, b = np.int64(v[data.pairs[e, 0]]), np.int64(v[data.pairs[e, 1]])
        out[e] = data.one * (a + b) + data.two * a * b


@dataclass(frozen=True, eq=False)
class Configurations:
    """Lists all vectors of two values."""

    low: int
    first: np.ndarray  # one of them

    def __call__(self) -> Iterator[np.ndarray]:
        return (np.array(v, self.first.dtype) for v in product((self.low, 1), repeat=len(self.first)))

    @property
    def at_least(self) -> int:
        return 1 << len(self.first)


# --- problems ----------------------------------------------------------------------------------------------------------


class Quadratic(NamedTuple):
    """φ as the user gave it: n, bᵢ, and Aᵢⱼ as a list of i, of j and of numbers, each pair in both directions."""

    n: int
    linear: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    given: bool = True  # also where all of it is 0: problems of a batch have a φ or none


class _TwoValued(Problem):
    """What QUBO, Ising and MaxCut share."""

    cooling = (0.5, 0.08)  # the first: half of a local field at random; the last: a change of the least weight is rare

    def __init__(
        self, name: str, spins: bool, term: Quadratic, pairs: np.ndarray | None, a: int, b: int, extra_moves: Sequence[Move]
    ) -> None:
        n, m = term.n, 0 if pairs is None else len(pairs)
        lists, dense, has_phi = _lists(n, term.rows, term.columns), len(term.values) >= DENSE * n * n, term.given
        linear, values = _on_grid(term)
        matrix = np.zeros((n, n) if dense and has_phi else (0, 0))
        if len(matrix):
            matrix[term.rows, term.columns] = values
        some = np.zeros((0, 2), np.int32) if pairs is None else pairs
        ends = np.concatenate([some, some[:, ::-1]])
        at_pairs = _lists(n, ends[:, 0], ends[:, 1])
        flip = FLIP if pairs is None else FLIP_ON_PAIRS
        if has_phi:
            flip = replace(flip, gain=gain_flip, apply=apply_flip_coupled, apply_if=None)
        solution = np.full(n, -1, np.int8) if spins else np.zeros(n, np.uint8)
        super().__init__(
            Data(
                total=0 if spins else 1,
                one=a,
                two=b,
                linear=linear,
                first=lists.first,
                neighbor=lists.neighbor,
                coupling=values[lists.order],
                matrix=matrix,
                pairs=some.astype(np.int32),
                pair_first=at_pairs.first,
                pair_neighbor=at_pairs.neighbor,
                pair_entry=(at_pairs.order % max(m, 1)).astype(np.int32),
            ),
            State(solution, np.zeros(n if has_phi else 0), np.zeros(n if m else 0), np.zeros(1 if m else 0)),
            [flip, *extra(extra_moves)],
            m or n,
            prepare=prepare if has_phi else None,
            statistic=statistic_pairs if m else None,
            phi=phi if has_phi else None,
            contains=contains,
            random=random,
            attach=attach_pairs if m else None,
            states=Configurations(-1 if spins else 0, solution),
            name=name,
        )


class QUBO(_TwoValued):
    """Y = {0,1}ⁿ with φ(y) = yᵀQy: quadratic unconstrained binary optimization; T(y) = y, or products yᵢyⱼ.

    Parameters
    ----------
    Q : array (n, n), SciPy sparse matrix, or int
        Need not be symmetric; the diagonal is linear, as yᵢ² = yᵢ. An integer is n, without a φ.
    pairs : integers (m, 2), optional
        Then θ is on these couplings: T(y) holds yᵢyⱼ of each pair, d = m.
    extra_moves : sequence of Move, optional
        Moves mixed in beside the flip.

    Notes
    -----
    A flip is proposed and refused in O(1) and accepted in O(degree). Entries of Q are rounded to a grid of about 2⁻⁵⁰ times the
    largest sum of a row, so that local fields are exact however long a chain runs; integers with sums
    below 2⁵⁰ are not changed.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.QUBO([[1.0, -2.0, 0.0], [0.0, 1.0, -2.0], [0.0, 0.0, 1.0]])
    >>> found = mg.solve(problem, np.zeros(3), steps=100)
    >>> found.solution.tolist(), float(found.objective)
    ([1, 0, 1], 2.0)
    """

    def __init__(self, Q: Arrays, *, pairs: Arrays | None = None, extra_moves: Sequence[Move] = ()) -> None:
        term = _nothing(integer_in(Q, "Q", 1, MOST)) if isinstance(Q, (int, np.integer)) else _quadratic(Q, "Q")
        listed = None if pairs is None else _pairs(pairs, "pairs", term.n)
        super().__init__(f"QUBO({term.n})", False, term, listed, 0, 1, extra_moves)


class Ising(_TwoValued):
    """Spins s ∈ {−1,+1}ⁿ with φ(s) = sᵀJs + ⟨h, s⟩; T(s) = s, or products sᵢsⱼ.

    Parameters
    ----------
    couplings : array (n, n), SciPy sparse matrix, or int
        J; as in yᵀQy, Jᵢⱼ and Jⱼᵢ add up. The diagonal must be 0, since sᵢ² = 1. An integer is n, without couplings.
    fields : array (n,), optional
        h; 0 by default.
    pairs : integers (m, 2), optional
        Then θ is on these couplings: T(s) holds sᵢsⱼ of each pair, d = m.
    extra_moves : sequence of Move, optional
        Moves mixed in beside the flip.

    Notes
    -----
    Maximized, so positive couplings align spins. What is said of :class:`QUBO` about speed and rounding holds here.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> ring = np.roll(np.eye(5), 1, axis=1)
    >>> mg.solve(mg.problems.Ising(ring), np.full(5, -1.0), steps=200).solution.tolist()
    [-1, -1, -1, -1, -1]
    """

    def __init__(
        self, couplings: Arrays, fields: Arrays | None = None, *, pairs: Arrays | None = None, extra_moves: Sequence[Move] = ()
    ) -> None:
        if isinstance(couplings, (int, np.integer)):
            term = _nothing(integer_in(couplings, "couplings", 1, MOST))
        else:
            term = _quadratic(couplings, "couplings")
        if term.linear.any():
            bad = int(np.flatnonzero(term.linear)[0])
            raise ValueError(
                f"couplings must be 0 on the diagonal, since spins squared are 1, got {term.linear[bad]} for spin {bad}."
            )
        if fields is not None:
            term = term._replace(linear=_numbers(fields, "fields", term.n), given=True)
        listed = None if pairs is None else _pairs(pairs, "pairs", term.n)
        super().__init__(f"Ising({term.n})", True, term, listed, 0, 1, extra_moves)


class MaxCut(_TwoValued):
    """Sides y ∈ {0,1}ⁿ of the vertices of a graph; T(y) says of each edge whether its ends are on different sides.

    θ is on edges: with θ the weights, the best solution is a maximum cut. As y and 1 − y cut the same edges, every cut is there
    twice, and probabilities of cuts are what they should be.

    Parameters
    ----------
    n : int
        Number of vertices.
    edges : integers (m, 2)
        Ends of each edge, 0..n−1. An edge may be there twice.
    weights : array (m,), optional
        A part of the objective beside θ: φ(y) is their sum over the edges that are cut; 0 by default.
    extra_moves : sequence of Move, optional
        Moves mixed in beside the flip of a vertex.

    Notes
    -----
    A flip is proposed and refused in O(1) and accepted in O(degree). θ is rounded, where fields are summed, to a grid of about
    2⁻⁵⁰ times the largest sum at a vertex, so that they are exact however long a chain runs; integers with sums
    below 2⁵⁰ are not changed.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> square = mg.problems.MaxCut(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> found = mg.solve(square, np.ones(5), steps=200)
    >>> float(found.objective), found.cut.tolist()
    (4.0, [0, 1, 2, 3])
    """

    def __init__(self, n: int, edges: Arrays, weights: Arrays | None = None, *, extra_moves: Sequence[Move] = ()) -> None:
        n = integer_in(n, "n", 1, MOST)
        ends, term = _pairs(edges, "edges", n), _nothing(n)
        if weights is not None:
            w = _numbers(weights, "weights", len(ends))
            term = _symmetric(n, np.bincount(ends.ravel(), np.repeat(w, 2), n), ends[:, 0], ends[:, 1], -2.0 * w)
        super().__init__(f"MaxCut({n} vertices, {len(ends)} edges)", False, term, ends, 1, -2, extra_moves)

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        """Edges that are cut, and the vertices of both sides.

        Parameters
        ----------
        solution : (n,)
            In the set.

        Returns
        -------
        dict
            "cut": numbers of edges; "sides": two arrays of vertices.
        """
        y, pairs = np.asarray(solution), self.data.pairs
        return {"cut": np.flatnonzero(y[pairs[:, 0]] != y[pairs[:, 1]]), "sides": (np.flatnonzero(y == 0), np.flatnonzero(y == 1))}


# --- arguments ---------------------------------------------------------------------------------------------------------


class Lists(NamedTuple):
    """A list of neighbors for each variable, one after another; ``order`` says where each came from."""

    first: np.ndarray
    neighbor: np.ndarray
    order: np.ndarray


def _lists(n: int, rows: np.ndarray, columns: np.ndarray) -> Lists:
    order = np.lexsort((columns, rows))
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=first[1:])
    return Lists(first, columns[order].astype(np.int32), order)


def _nothing(n: int) -> Quadratic:
    none = np.zeros(0, np.int64)
    return Quadratic(n, np.zeros(n), none, none, np.zeros(0), given=False)


def _quadratic(value: Any, name: str) -> Quadratic:
    """xᵀMx for a square matrix, dense or sparse."""
    if callable(getattr(type(value), "tocoo", None)):
        sparse = value.tocoo()
        shape, rows, columns, values = sparse.shape, sparse.row, sparse.col, array_of(sparse.data, name)
        rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    else:
        dense = array_of(value, name)
        shape = dense.shape
        rows, columns = np.nonzero(dense) if dense.ndim == 2 else (np.zeros(0, np.int64),) * 2
        values = dense[rows, columns] if dense.ndim == 2 else dense
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix, or the number of variables, got shape {tuple(shape)}.")
    values, on = _finite(values, name), rows == columns
    linear = np.bincount(rows[on], values[on], shape[0])
    return _symmetric(shape[0], linear, rows[~on], columns[~on], values[~on])


def _symmetric(n: int, linear: np.ndarray, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Quadratic:
    """Each pair in both directions, once: what is there several times is added up."""
    rows, columns = np.concatenate([rows, columns]).astype(np.int64), np.concatenate([columns, rows]).astype(np.int64)
    keys, inverse = np.unique(rows * n + columns, return_inverse=True)
    sums = np.bincount(inverse, np.tile(values, 2), len(keys)) if len(keys) else np.zeros(0)
    some = sums != 0.0
    return Quadratic(n, linear, keys[some] // n, keys[some] % n, sums[some])


def _on_grid(term: Quadratic) -> tuple[np.ndarray, np.ndarray]:
    """bᵢ and Aᵢⱼ as multiples of a power of two, such that all fields are sums without rounding."""
    most = (np.abs(term.linear) + np.bincount(term.rows, np.abs(term.values), term.n)).max()
    if most == 0.0:
        return term.linear, term.values
    grid = 1.5 * np.ldexp(1.0, min(int(np.frexp(most)[1]) + 1, 1022))
    return (term.linear + grid) - grid, (term.values + grid) - grid


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    array = doubles(array)
    if not (np.abs(array) <= LARGEST).all():
        bad = array[~(np.abs(array) <= LARGEST)][0]
        raise ValueError(f"{name} must be finite and at most {LARGEST:g} in absolute value, got {bad} among its entries.")
    return array


def _numbers(value: Any, name: str, length: int) -> np.ndarray:
    array = array_of(value, name)
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {array.shape}.")
    return _finite(array, name)


def _pairs(value: Any, name: str, n: int) -> np.ndarray:
    array = array_of(value, name)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise ValueError(f"{name} must be integers of shape (m, 2) with m ≥ 1, got shape {array.shape} of {array.dtype}.")
    if len(array) > MOST or (array < 0).any() or (array >= n).any():
        bad = array[(array < 0) | (array >= n)][:1]
        raise ValueError(f"{name} must join two of 0..{n - 1}, got {shown(bad.tolist())}.")
    loops = array[:, 0] == array[:, 1]
    if loops.any():
        raise ValueError(f"{name} must join two different ones, got {array[loops][0].tolist()}.")
    return np.array(array, np.int64)
