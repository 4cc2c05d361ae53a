"""Lists of outcomes on the host: they are written by a problem's moves, and weighed for any θ without them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from movegrad._validate import outside
from movegrad.engine.batch import layout_of
from movegrad.engine.bind import list_kernel, weigh_kernel
from movegrad.engine.draws import ODOMETER_SIZE
from movegrad.engine.host import PAUSE_TICKS, compiling
from movegrad.engine.outcomes import ENTRIES, NO_OUTCOME, OUTCOMES, TOO_MANY, WHY, Lists
from movegrad.engine.threads import get_threads, parallel, split

_ROOM = 1024  # outcomes and entries at first
_SERIAL = 100_000  # entries below which another thread costs more than it saves
_STRETCH = 2_000_000  # entries that are weighed at once: how long Ctrl-C may wait


class Listing:
    """Every outcome of one step from solutions of a problem, which are rows in the order in which they were added.

    Whoever adds says how many rows there are: what an interrupted call has left behind them is overwritten.
    """

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self._first = np.zeros(1, np.int64)  # (n+1,) where the outcomes of each row begin
        self._lists = _empty(_ROOM, _ROOM)

    def outcomes(self, rows: int) -> int:
        """How many the first rows have."""
        return int(self._first[rows])

    @property
    def nbytes(self) -> int:
        return self._first.nbytes + sum(array.nbytes for array in self._lists)

    def add(self, rows: int, solutions: np.ndarray, name: str, places: Sequence[int]) -> None:
        """Behind the first rows, write the outcomes of solutions (n, size), which an error calls ``name`` and their ``places``."""
        self._first = self._first[: rows + 1]
        outcomes = self.outcomes(rows)
        self._lists.used[:] = outcomes, self._lists.ends[outcomes - 1] if outcomes else 0, 0
        try:
            self._first = np.concatenate([self._first, self._write(solutions, name, places)])
        except MemoryError:
            raise MemoryError(
                f"{name} must have neighborhoods that fit into memory, got {outcomes} outcomes of {rows} solutions "
                f"in {self.nbytes / 2**30:.2g} GiB, and no room for those of {len(solutions)} more."
            ) from None

    def _write(self, solutions: np.ndarray, name: str, places: Sequence[int]) -> np.ndarray:
        """Outcomes behind those that there are; where each solution's end."""
        problem, layout = self.problem, layout_of(self.problem)
        sizes = list(zip(layout.state_sizes, layout.state_dtypes, strict=True))
        states, kept = (tuple(np.zeros(size, dtype) for size, dtype in sizes) for _ in range(2))
        rest = np.zeros(problem.size), np.zeros(ODOMETER_SIZE), layout.weights
        kernel, last, first = list_kernel(layout.kind), np.zeros(len(solutions), np.int64), 0
        if not kernel.overloads:
            with compiling(problem):
                kernel(*layout.packed, states, kept, solutions[:0], *rest, self._lists, last, 0, PAUSE_TICKS)
        while first < len(solutions):  # again and again, lest Ctrl-C wait
            found = kernel(*layout.packed, states, kept, solutions, *rest, self._lists, last, first, PAUSE_TICKS)
            if found >= 0:
                raise outside(problem, name, solutions[found], f" in row {places[found]}")
            if self._lists.used[WHY] == TOO_MANY:
                raise too_many(problem)
            if self._lists.used[WHY]:
                self._lists = _grown(self._lists)
            first = len(solutions) if found == -1 else -2 - found
        return last

    def weigh(self, rows: np.ndarray, theta: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One-step losses (n,) at θ (n, d) and 1/t (n,) from the solutions of rows, and their gradients (n, d)."""
        values, gradients = np.zeros(len(theta)), np.zeros(theta.shape)
        kernel, arguments = weigh_kernel(), (self._first, self._lists, rows, theta, inverse, values, gradients)
        if not kernel.overloads:
            with compiling(self.problem):
                kernel(*arguments, 0, 0)
        entries = len(rows) * self._lists.used[ENTRIES] / max(len(self._first) - 1, 1)  # in the mean
        ranges = split(len(rows), get_threads() if entries > _SERIAL else 1)
        stretch, going = max(1, int(_STRETCH * len(rows) / max(entries, 1))), [True]

        def work(low: int, high: int) -> None:
            for begin in range(low, high, stretch):
                if going:
                    kernel(*arguments, begin, min(begin + stretch, high))

        parallel(work, ranges, going.clear)
        return values, gradients


def too_many(problem: Any) -> ValueError:
    """The error for proposals whose outcomes cannot be listed."""
    return ValueError(
        f"problem must propose with at most 64 draws and 2²⁶ outcomes to be listed, got more from {problem.name}: count "
        "what fits and draw once among it, rather than draw until something fits."
    )


def must_be_losses(values: Any, problem: Any, temperature: Any) -> None:
    """Refuse one-step losses, an array of any place, that are no numbers."""
    if (values == -np.inf).any():
        raise too_many(problem)
    if (values != values).any():
        raise ValueError(
            f"problem must have moves whose gain and correction ratio are numbers, got NaN from {problem.name}: "
            "movegrad.check says from which."
        )
    if (values == np.inf).any():
        raise ValueError(
            f"theta must be finite when it is divided by the temperature, got an infinite loss at temperature {temperature!s}."
        )


def _empty(outcomes: int, entries: int) -> Lists:
    ends = np.zeros(outcomes, np.int64)
    return Lists(np.zeros((outcomes, 3)), ends, np.zeros(entries, np.int32), np.zeros(entries), np.zeros(3, np.int64))


def _grown(lists: Lists) -> Lists:
    """The same with twice the room of what is full."""
    more = 2 if lists.used[WHY] == NO_OUTCOME else 1, 1 if lists.used[WHY] == NO_OUTCOME else 2
    made = _empty(more[0] * len(lists.ends), more[1] * len(lists.entries))
    outcomes, entries = lists.used[OUTCOMES], lists.used[ENTRIES]
    for new, old, count in zip(made, lists, (outcomes, outcomes, entries, entries, WHY), strict=True):
        new[:count] = old[:count]
    return made
