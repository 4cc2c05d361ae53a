"""What a 0/1 program lower ≤ A y ≤ upper is made of.

``reduced`` brings it to the rows that matter: coefficients on a grid, bounds with the tolerance of solvers, variables that have one
value in every solution set aside, rows and sides that always hold left out, rows that are the same joined. ``recognized`` then sees

* kinds of rows: exactly one, cardinality, other equations, packing, cover, knapsack, general;
* *classes* of variables that enter all equations alike: a one and a zero of a class can change places without touching an equation;
* *ends*: variables that lie between two rows like edges between two nodes. Of two of them that are one, (a, b) and (c, d), make
  (a, d) and (c, b): each row keeps its number of ones. In an assignment problem that exchanges two columns.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import MOST, array_of, doubles, shown

LARGEST = 1e15  # of a coefficient or a bound that is no infinity
KINDS = ("exactly one", "cardinality", "equation", "packing", "cover", "knapsack", "general")
EQUATIONS = KINDS[:3]


class Infeasible(ValueError):
    """A program that has no solution."""


class Rows(NamedTuple):
    """m rows over n variables; entries are sorted by row, then by variable."""

    n: int
    row: np.ndarray  # (entries,)
    variable: np.ndarray  # (entries,)
    value: np.ndarray  # (entries,)
    lower: np.ndarray  # (m,)
    upper: np.ndarray  # (m,)

    def starts(self) -> np.ndarray:
        """(m+1,): where the entries of each row begin."""
        return np.searchsorted(self.row, np.arange(len(self.lower) + 1))

    def activity(self, y: np.ndarray) -> np.ndarray:
        """A y."""
        return np.bincount(self.row, self.value * y[self.variable], len(self.lower))

    def keep(self, entries: np.ndarray, rows: np.ndarray) -> "Rows":
        """The entries and rows that are marked; rows are numbered anew."""
        entries = entries & rows[self.row]
        number = np.cumsum(rows) - 1
        return Rows(
            self.n, number[self.row[entries]], self.variable[entries], self.value[entries], self.lower[rows], self.upper[rows]
        )


class Reduced(NamedTuple):
    """Rows over variables that are not fixed."""

    rows: Rows
    equal: np.ndarray  # (m,) whether it is an equation
    value: np.ndarray  # (n,) of variables that are fixed, else −1
    origin: np.ndarray  # (m,) where the row stood in the program
    redundant: int  # rows that always hold


# --- reading ---------------------------------------------------------------------------------------------------------


def matrix(a: Arrays) -> Rows:
    """The entries of a dense array or of a sparse matrix of SciPy."""
    sparse: Any = a
    if hasattr(sparse, "tocoo"):
        coo = sparse.tocoo()
        shape, row, variable, value = coo.shape, np.asarray(coo.row), np.asarray(coo.col), np.asarray(coo.data)
    else:
        table = array_of(a, "A")
        shape = table.shape
        if table.ndim == 2:
            row, variable = np.nonzero(table)
            value = table[row, variable]
    if len(shape) != 2 or shape[1] == 0 or max(shape) > MOST:
        raise ValueError(f"A must be a matrix with a column for each of one or more variables, got shape {tuple(shape)}.")
    if value.dtype.kind not in "biuf":
        raise ValueError(f"A must be a matrix of numbers, got {value.dtype}.")
    value = doubles(value)
    if not (np.abs(value) <= LARGEST).all():
        raise ValueError(
            f"A must have entries of at most {LARGEST:g} in absolute value, got {value[~(np.abs(value) <= LARGEST)][0]}."
        )
    key, place = np.unique(row.astype(np.int64) * shape[1] + variable, return_inverse=True)  # sorted, and entries given twice added
    value = np.bincount(place, value, len(key)) if len(key) else np.zeros(0)
    there = value != 0.0
    key, value, none = key[there], value[there], np.zeros(shape[0])
    return Rows(shape[1], key // shape[1], key % shape[1], value, none - np.inf, none + np.inf)


def bounds(value: Arrays | None, name: str, m: int, default: float) -> np.ndarray:
    """A bound for each row: an array, a number for all, or None."""
    if value is None:
        return np.full(m, default)
    array = array_of(value, name)
    if array.shape not in ((), (m,)):
        raise ValueError(f"{name} must be a number or hold one for each of the {m} rows of A, got shape {array.shape}.")
    out = np.broadcast_to(doubles(array), (m,)).copy()
    bad = np.isnan(out) | (out == -default) | ((np.abs(out) > LARGEST) & np.isfinite(out))
    if bad.any():
        wanted = f"at most {LARGEST:g} in absolute value or {default:g} where there is none"
        raise ValueError(f"{name} must be {wanted}, got {shown(float(out[bad][0]))} among its entries.")
    return out


# --- reducing --------------------------------------------------------------------------------------------------------


def reduced(rows: Rows, tolerance: float, names: "Names") -> Reduced:
    """The rows that matter, and the variables that have one value in every solution."""
    equal = rows.lower == rows.upper
    rows = _with_tolerance(_on_grid(rows), tolerance)
    value = _propagated(rows, names)
    free, fixed = value[rows.variable] < 0, np.maximum(value, 0)
    held = rows.activity(fixed)
    least, most = _range(rows, value)
    lower = np.where(least >= rows.lower, -np.inf, rows.lower - held)
    upper = np.where(most <= rows.upper, np.inf, rows.upper - held)
    needed = np.isfinite(lower) | np.isfinite(upper)
    origin, equal = np.flatnonzero(needed), (equal & np.isfinite(lower) & np.isfinite(upper))[needed]
    rows = _in_units(rows._replace(lower=lower, upper=upper).keep(free, needed))
    rows, equal, first = _joined(_with_tolerance(rows, 0.0), equal)
    if (rows.lower > rows.upper).any():
        worst = origin[first[int(np.flatnonzero(rows.lower > rows.upper)[0])]]
        raise Infeasible(f"A y must be between lower and upper for some binary y, but {names.row(int(worst))} cannot be.")
    return Reduced(rows, equal, value, origin[first], int((~needed).sum()))


def _on_grid(rows: Rows) -> Rows:
    """Rows of equal coefficients in units of it, others on a grid of a power of two so fine that all sums of entries are exact."""
    rows = _in_units(rows)
    total = np.bincount(rows.row, np.abs(rows.value), len(rows.lower))
    exponent = np.frexp(total)[1] - 52
    unit = np.ldexp(1.0, np.maximum(exponent, -1000))[rows.row]
    value = np.rint(rows.value / unit) * unit
    return rows._replace(value=value).keep(value != 0.0, np.ones(len(rows.lower), bool))


def _in_units(rows: Rows) -> Rows:
    """Rows whose coefficients are all the same are divided by it."""
    start = rows.starts()
    some = np.flatnonzero(np.diff(start) > 0)
    if not len(some):
        return rows
    unit = np.ones(len(rows.lower))
    unit[some] = rows.value[start[some]]
    same = np.ones(len(rows.lower), bool)
    np.logical_and.at(same, rows.row, rows.value == unit[rows.row])
    unit[~same] = 1.0
    low, high = rows.lower / unit, rows.upper / unit
    negative = unit < 0
    return rows._replace(
        value=rows.value / unit[rows.row], lower=np.where(negative, high, low), upper=np.where(negative, low, high)
    )


def _with_tolerance(rows: Rows, tolerance: float) -> Rows:
    """Bounds as solvers take them; of sums of integers the next integer inside."""
    whole = np.ones(len(rows.lower), bool)
    np.logical_and.at(whole, rows.row, rows.value == np.rint(rows.value))
    low, high = (tolerance * np.maximum(1.0, np.abs(np.nan_to_num(b, posinf=0.0, neginf=0.0))) for b in (rows.lower, rows.upper))
    lower = np.where(whole, np.ceil(rows.lower - tolerance), rows.lower - low)
    upper = np.where(whole, np.floor(rows.upper + tolerance), rows.upper + high)
    return rows._replace(lower=lower, upper=upper)


def _range(rows: Rows, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest activity of each row, given what is fixed; exact, as all sums are."""
    state = value[rows.variable]
    low = np.where(state < 0, np.minimum(rows.value, 0.0), rows.value * state)
    high = np.where(state < 0, np.maximum(rows.value, 0.0), rows.value * state)
    return np.bincount(rows.row, low, len(rows.lower)), np.bincount(rows.row, high, len(rows.lower))


def _propagated(rows: Rows, names: "Names") -> np.ndarray:
    """Fix every variable of which one value breaks a row whatever the others are, until there is none."""
    value = np.full(rows.n, -1, np.int8)
    a, r = rows.value, rows.row
    while True:
        least, most = _range(rows, value)
        broken = (least > rows.upper) | (most < rows.lower)
        if broken.any():
            raise Infeasible(
                f"A y must be between lower and upper for some binary y, but {names.row(int(np.flatnonzero(broken)[0]))} cannot be."
            )
        free = value[rows.variable] < 0
        one_breaks = np.where(a > 0, least[r] + a > rows.upper[r], most[r] + a < rows.lower[r])
        zero_breaks = np.where(a > 0, most[r] - a < rows.lower[r], least[r] - a > rows.upper[r])
        zeros, ones = rows.variable[free & one_breaks], rows.variable[free & zero_breaks]
        if not len(zeros) and not len(ones):
            return value
        value[ones] = 1
        value[zeros] = 0  # where both: the row that wants a one is found to be broken in the next round


def _joined(rows: Rows, equal: np.ndarray) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows of the same entries are one, with the tighter bounds; the third is which row of them came first."""
    start, target = rows.starts(), np.zeros(len(rows.lower), np.int64)
    seen: dict[tuple[bytes, bytes], int] = {}
    for r in range(len(rows.lower)):
        part = slice(start[r], start[r + 1])
        target[r] = seen.setdefault((rows.variable[part].tobytes(), rows.value[part].tobytes()), r)
    first = target == np.arange(len(target))
    lower, upper, same = rows.lower.copy(), rows.upper.copy(), equal.copy()
    np.maximum.at(lower, target, rows.lower)
    np.minimum.at(upper, target, rows.upper)
    np.logical_or.at(same, target, equal)
    joined = rows._replace(lower=lower, upper=upper).keep(np.ones(len(rows.row), bool), first)
    whole = joined.lower == joined.upper
    return joined, same[first] | whole, np.flatnonzero(first)


@dataclass(frozen=True)
class Names:
    """How rows and variables are called in sentences."""

    rows: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def row(self, r: int) -> str:
        return f"row {self.rows[r]!r}" if self.rows else f"row {r}"

    def variable(self, j: int) -> str:
        return f"variable {self.variables[j]!r}" if self.variables else f"variable {j}"


# --- recognizing -----------------------------------------------------------------------------------------------------


class Ends(NamedTuple):
    """Variables that lie between two rows, called nodes; ``sides`` tells whether rows on the left only meet rows on the right."""

    variables: np.ndarray  # by component
    left: np.ndarray  # (n,) row, or −1
    right: np.ndarray  # (n,)
    component: np.ndarray  # (n,) or −1
    sides: bool


class Structure(NamedTuple):
    """What was recognized."""

    kinds: list[str]  # of rows
    classes: list[np.ndarray]  # of variables that enter equations alike, with two or more of them
    flips: np.ndarray  # variables in no equation
    ends: Ends
    stuck: np.ndarray  # variables that no flip, swap or exchange changes


def recognized(program: Reduced) -> Structure:
    """Kinds, classes and ends."""
    rows, start = program.rows, program.rows.starts()
    kinds = [_kind(rows, program.equal, start, r) for r in range(len(rows.lower))]
    equation = np.array([kind in EQUATIONS for kind in kinds], bool)
    free = program.value < 0
    of = _equations_of(rows, equation)
    in_rows = np.bincount(rows.variable, minlength=rows.n) > 0  # others can be flipped, whatever there is
    classes = _classes(rows, equation, free & in_rows)
    flips = np.flatnonzero(free & (of == 0))
    ends = _ends(rows, kinds, of, free)
    changed = np.zeros(rows.n, bool)
    changed[flips] = True
    for members in classes:
        changed[members] = True
    changed[ends.variables] = True
    return Structure(kinds, classes, flips, ends, np.flatnonzero(free & ~changed))


def _kind(rows: Rows, equal: np.ndarray, start: np.ndarray, r: int) -> str:
    value = rows.value[start[r] : start[r + 1]]
    if equal[r]:
        if (value != 1.0).any():
            return "equation"
        return "exactly one" if rows.upper[r] == 1.0 else "cardinality"
    at_most, at_least = np.isfinite(rows.upper[r]), np.isfinite(rows.lower[r])
    if (value == 1.0).all() and at_most != at_least:
        return "packing" if at_most else "cover"
    if at_most != at_least and ((value > 0) == at_most).all():
        return "knapsack"
    return "general"


def _equations_of(rows: Rows, equation: np.ndarray) -> np.ndarray:
    return np.bincount(rows.variable[equation[rows.row]], minlength=rows.n)


def _classes(rows: Rows, equation: np.ndarray, free: np.ndarray) -> list[np.ndarray]:
    """Variables with the same entries in all equations; a variable alone can change places with none."""
    inside = equation[rows.row]
    order = np.lexsort((rows.row[inside], rows.variable[inside]))
    variable, row, value = (x[inside][order] for x in (rows.variable, rows.row, rows.value))
    at = np.searchsorted(variable, np.arange(rows.n + 1))
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    for j in np.flatnonzero(free).tolist():
        part = slice(at[j], at[j + 1])
        groups.setdefault((row[part].tobytes(), value[part].tobytes()), []).append(j)
    return [np.array(members) for members in groups.values() if len(members) > 1]


def _ends(rows: Rows, kinds: list[str], of: np.ndarray, free: np.ndarray) -> Ends:
    """Both equations of a variable that has two; the equation of one that has one, and the longest of its other rows."""
    n, m = rows.n, len(rows.lower)
    even = np.array([kind in ("exactly one", "cardinality") for kind in kinds], bool)
    equation = np.array([kind in EQUATIONS for kind in kinds], bool)
    evens = np.bincount(rows.variable[even[rows.row]], minlength=n)
    two, one = free & (of == 2) & (evens == 2), free & (of == 1) & (evens == 1)
    length = np.bincount(rows.row[one[rows.variable]], minlength=m)
    nodes: list[list[int]] = [[] for _ in range(n)]
    other = np.full(n, -1)
    for r, j in zip(rows.row.tolist(), rows.variable.tolist(), strict=True):
        if even[r] and (two[j] or one[j]):
            nodes[j].append(r)
        elif one[j] and not equation[r] and length[r] > 1 and (other[j] < 0 or length[r] > length[other[j]]):
            other[j] = r
    for j in np.flatnonzero(other >= 0):
        nodes[j].append(int(other[j]))
    found = [j for j in range(n) if len(nodes[j]) == 2]
    return _oriented(n, m, found, nodes)


def _oriented(n: int, m: int, found: list[int], nodes: list[list[int]]) -> Ends:
    """Components of the graph with four variables or more, and its two sides if it has two."""
    at: list[list[int]] = [[] for _ in range(m)]
    for j in found:
        for r in nodes[j]:
            at[r].append(j)
    side, component, two_sides = np.full(m, -1), np.full(m, -1), True
    count = 0
    for root in range(m):
        if side[root] >= 0 or not at[root]:
            continue
        side[root], component[root], queue = 0, count, [root]
        while queue:
            r = queue.pop()
            for j in at[r]:
                s = nodes[j][0] if nodes[j][1] == r else nodes[j][1]
                if side[s] < 0:
                    side[s], component[s] = 1 - side[r], count
                    queue.append(s)
                two_sides &= bool(side[s] != side[r])
        count += 1
    left, right, group = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    size = np.zeros(count, np.int64)
    for j in found:
        size[component[nodes[j][0]]] += 1
    for j in found:
        a, b = nodes[j]
        if size[component[a]] >= 4:  # two are given up for two others
            left[j], right[j] = (b, a) if two_sides and side[a] == 1 else (a, b)
            group[j] = component[a]
    kept = np.flatnonzero(group >= 0)
    group[kept] = np.unique(group[kept], return_inverse=True)[1] if len(kept) else 0
    return Ends(kept[np.argsort(group[kept], kind="stable")], left, right, group, two_sides)
