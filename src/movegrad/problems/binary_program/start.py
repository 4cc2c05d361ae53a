"""A first solution of a 0/1 program, and all of them if it is small."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from movegrad._validate import why
from movegrad.engine import coin, integer, jit
from movegrad.problems.binary_program.structure import Infeasible, Reduced, Rows

FLIPS = 200_000  # of a repair, or 200 for each variable
LISTED = 48  # free variables of a program whose solutions are listed at most
PATIENCE = 60.0  # seconds for HiGHS


def first_solution(program: Reduced) -> np.ndarray:
    """Trivial ones, then repair, then HiGHS if it is installed."""
    rows = program.rows
    for candidate in _trivial(program):
        if _feasible(rows, candidate):
            return candidate
    repaired = _repaired(program)
    if repaired is not None:
        return repaired
    found = _solved(program)
    if found is not None:
        return found
    raise ValueError(
        "start must be given, since no solution of the program was found by repairing random ones, got None: "
        'give one, or install HiGHS (pip install "movegrad[highs]").'
    )


def _feasible(rows: Rows, y: np.ndarray) -> bool:
    activity = rows.activity(y)
    return bool(((rows.lower <= activity) & (activity <= rows.upper)).all())


def _trivial(program: Reduced) -> Iterator[np.ndarray]:
    """Zeros, ones, and every variable where the fewest rows can mind."""
    down, up = locks(program.rows)
    for free in (np.zeros(program.rows.n), np.ones(program.rows.n), up < down):
        yield np.where(program.value < 0, free, program.value).astype(np.uint8)


def locks(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """For each variable, how many rows can break when it falls, and when it rises."""
    low, high = np.isfinite(rows.lower)[rows.row], np.isfinite(rows.upper)[rows.row]
    falls = ((rows.value > 0) & low) | ((rows.value < 0) & high)
    rises = ((rows.value > 0) & high) | ((rows.value < 0) & low)
    return np.bincount(rows.variable, falls, rows.n), np.bincount(rows.variable, rises, rows.n)


# --- repair ----------------------------------------------------------------------------------------------------------


def _repaired(program: Reduced) -> np.ndarray | None:
    """Flip variables of broken rows, mostly those that help most, until no row is broken; a few times anew."""
    rows, n = program.rows, program.rows.n
    order = np.lexsort((rows.row, rows.variable))
    column_at = np.searchsorted(rows.variable[order], np.arange(n + 1))
    m = len(rows.lower)
    rng = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], np.uint64)
    y = next(_trivial(program))
    for _ in range(4):
        activity, weight = rows.activity(y), np.ones(m)
        done = _repair(
            y, activity, weight, np.zeros(m, np.int64), np.zeros(m, np.int64), rows.starts(), rows.variable, rows.value,
            rows.lower, rows.upper, column_at, rows.row[order], rows.value[order], max(FLIPS, 200 * n) // 4, rng,
        )  # fmt: skip
        if done and _feasible(rows, y):
            return y
        free = program.value < 0
        y = np.where(free, np.random.default_rng(int(rng[0] >> np.uint64(1))).integers(0, 2, n), program.value).astype(np.uint8)
    return None


@jit
def excess(activity, low, high):
    return max(low - activity, activity - high, 0.0)


@jit
def benefit(y, j, activity, weight, lower, upper, column_at, column_row, column_value):
    """How much less rows are broken, weighted, when variable j is flipped."""
    sign, total = 1 - 2 * np.int64(y[j]), 0.0
    for e in range(column_at[j], column_at[j + 1]):
        r = column_row[e]
        after = activity[r] + sign * column_value[e]
        total += weight[r] * (excess(activity[r], lower[r], upper[r]) - excess(after, lower[r], upper[r]))
    return total


@jit
def _repair(
    y, activity, weight, broken, at, row_at, row_variable, row_value, lower, upper, column_at, column_row, column_value, flips, rng
):
    """Local search with weights on rows, which grow where it is stuck. ``broken`` lists broken rows, ``at`` where, plus one."""
    count = 0
    for r in range(len(lower)):
        if excess(activity[r], lower[r], upper[r]) > 0.0:
            broken[count] = r
            count += 1
            at[r] = count
    for _ in range(flips):
        if count == 0:
            return True
        r = broken[integer(rng, count)]
        first, size = row_at[r], row_at[r + 1] - row_at[r]
        best, chosen, random = -np.inf, -1, coin(rng, 0.02)
        shift = integer(rng, size)
        for n in range(min(size, 200)):
            e = first + (n + shift) % size
            j = row_variable[e]
            after = activity[r] + (1 - 2 * np.int64(y[j])) * row_value[e]
            if excess(after, lower[r], upper[r]) >= excess(activity[r], lower[r], upper[r]):
                continue
            gain = benefit(y, j, activity, weight, lower, upper, column_at, column_row, column_value)
            if gain > best:
                best, chosen = gain, j
            if random:
                break
        if best <= 0.0:
            for n in range(count):
                weight[broken[n]] += 1.0
        if chosen < 0:
            chosen = row_variable[first + shift]
        sign = 1 - 2 * np.int64(y[chosen])
        y[chosen] = 1 - y[chosen]
        for e in range(column_at[chosen], column_at[chosen + 1]):
            s = column_row[e]
            activity[s] += sign * column_value[e]
            bad = excess(activity[s], lower[s], upper[s]) > 0.0
            if bad and at[s] == 0:
                broken[count] = s
                count += 1
                at[s] = count
            elif not bad and at[s] > 0:
                last = broken[count - 1]
                broken[at[s] - 1], at[last] = last, at[s]
                at[s] = 0
                count -= 1
    return count == 0


# --- HiGHS -----------------------------------------------------------------------------------------------------------


def _solved(program: Reduced) -> np.ndarray | None:
    """A solution by HiGHS; None if it is not installed."""
    try:
        import highspy
    except ImportError:
        return None
    rows, n = program.rows, program.rows.n
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", PATIENCE)
    solver.setOptionValue("mip_max_improving_sols", 1)
    fixed, start = program.value, rows.starts().astype(np.int32)
    solver.addVars(n, np.where(fixed < 0, 0.0, fixed), np.where(fixed < 0, 1.0, fixed).astype(float))
    solver.changeColsIntegrality(n, np.arange(n, dtype=np.int32), np.array([highspy.HighsVarType.kInteger] * n))
    lower, upper = np.maximum(rows.lower, -highspy.kHighsInf), np.minimum(rows.upper, highspy.kHighsInf)
    solver.addRows(len(lower), lower, upper, len(rows.row), start[:-1], rows.variable.astype(np.int32), rows.value)
    try:
        solver.run()
    except Exception as error:
        raise ValueError(f"start must be given, since HiGHS ended with an error ({why(error)}), got None.") from None
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        raise Infeasible("A y must be between lower and upper for some binary y, but HiGHS proved that there is none.")
    values = np.rint(np.array(solver.getSolution().col_value))
    y = np.where(fixed < 0, values, fixed).astype(np.uint8) if len(values) == n else None
    if y is None or not _feasible(rows, y):
        raise ValueError(
            f"start must be given, since neither repairing random ones nor {PATIENCE:g} s of HiGHS found a solution of the "
            "program, got None."
        )
    return y


# --- all solutions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solutions:
    """Lists all solutions of a small program, in lexicographic order, without following what can no longer become one."""

    table: np.ndarray  # (m, free)
    lower: np.ndarray
    upper: np.ndarray
    value: np.ndarray  # (n,) what is fixed, or −1

    def __call__(self) -> Iterator[np.ndarray]:
        free, n = np.flatnonzero(self.value < 0), self.table.shape[1]
        rest_low, rest_high = (
            np.concatenate([np.cumsum(part[:, ::-1], 1)[:, ::-1], np.zeros((len(part), 1))], 1)
            for part in (np.minimum(self.table, 0.0), np.maximum(self.table, 0.0))
        )
        stack = [(0, np.zeros(n, np.uint8), np.zeros(len(self.table)))]
        while stack:
            k, head, load = stack.pop()
            if ((load + rest_low[:, k] > self.upper) | (load + rest_high[:, k] < self.lower)).any():
                continue
            if k == n:
                y = np.maximum(self.value, 0).astype(np.uint8)
                y[free] = head
                yield y
                continue
            one = head.copy()
            one[k] = 1
            stack.append((k + 1, one, load + self.table[:, k]))
            stack.append((k + 1, head, load))

    @property
    def at_least(self) -> int:
        """Variables without a row may be anything."""
        return 1 << int((self.table == 0.0).all(0).sum())


def listing(program: Reduced) -> Solutions | None:
    """What lists the solutions; None for a program that is not small."""
    rows, free = program.rows, np.flatnonzero(program.value < 0)
    if len(free) > LISTED:
        return None
    table = np.zeros((len(rows.lower), rows.n))
    table[rows.row, rows.variable] = rows.value
    return Solutions(table[:, free], rows.lower, rows.upper, program.value)
