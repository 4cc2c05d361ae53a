"""Temperatures along a chain. A schedule is any callable ``k → t`` for the step k = 0, 1, …; these are the usual ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from movegrad._validate import positive, shown

__all__ = ["Annealing", "Schedule", "constant", "truncated_geometric"]

Schedule = Callable[[int], float]

_CONSTANT_SHIFT = 62  # k >> 62 is 0 for every step
_LEVELS = 256  # an annealing run is cut into so many temperatures, or fewer


class Heat(NamedTuple):
    """Inverse temperatures of a stretch of steps: that of step k is entry (k − first) >> shift."""

    inverse: np.ndarray
    first: int
    shift: int


def constant(temperature: float) -> Schedule:
    """t for every step.

    Parameters
    ----------
    temperature : float
        t > 0.

    Returns
    -------
    callable
        k → t.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.schedules.constant(2.0)(100)
    2.0
    """
    t = positive(temperature, "temperature")
    return partial(_constant, t)


def _constant(t: float, k: int) -> float:
    return t


def truncated_geometric(start: float, decay: float, final: float) -> Schedule:
    """max(decayᵏ·start, final): the schedule of the paper's burn-in study.

    Parameters
    ----------
    start, final : float
        Temperatures > 0 at the beginning and at the end.
    decay : float
        Between 0 and 1.

    Returns
    -------
    callable
        k → t.

    Examples
    --------
    >>> import movegrad as mg
    >>> schedule = mg.schedules.truncated_geometric(8.0, 0.5, 1.0)
    >>> [schedule(k) for k in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """
    start, decay, final = positive(start, "start"), positive(decay, "decay"), positive(final, "final")
    if decay >= 1.0:
        raise ValueError(f"decay must be in (0, 1), got {decay}.")
    return partial(_truncated_geometric, start, decay, final)


def _truncated_geometric(start: float, decay: float, final: float, k: int) -> float:
    return max(decay**k * start, final)


@dataclass(frozen=True)
class Annealing:
    """Geometric cooling over a whole run, whatever its length in steps or seconds: start·(end/start)^progress.

    Parameters
    ----------
    start, end : float
        Temperatures > 0 before the first step and after the last.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> cooling = mg.schedules.Annealing(2.0, 0.01)
    >>> mg.solve(mg.problems.TopK(5, 2), np.array([0.1, 3.0, 0.2, 2.0, 0.3]), steps=500, schedule=cooling).solution
    array([0, 1, 0, 1, 0], dtype=uint8)
    """

    start: float = 1.0
    end: float = 1e-3
    longest = 1 << 62  # steps of one Heat

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", positive(self.start, "start"))
        object.__setattr__(self, "end", positive(self.end, "end"))

    def steps(self, first: int, count: int, total: int) -> Heat:
        """By steps, the temperatures depend on the number of the step alone, not on how the run is cut into blocks."""
        shift = max(0, (total - 1).bit_length() - _LEVELS.bit_length() + 1)
        low = first >> shift
        levels = np.arange(low, ((first + count - 1) >> shift) + 1)
        return Heat(self._inverse(np.minimum(1.0, (levels + 0.5) * 2.0**shift / total)), low << shift, shift)

    def seconds(self, first: int, count: int, begin: float, end: float) -> Heat:
        """By time, progress is what the clock says before the block and what is expected after it."""
        shift = max(0, (count - 1).bit_length() - _LEVELS.bit_length() + 1)
        levels = ((count - 1) >> shift) + 1
        return Heat(self._inverse(begin + (end - begin) * (np.arange(levels) + 0.5) / levels), first, shift)

    def _inverse(self, progress: np.ndarray) -> np.ndarray:
        return 1.0 / (self.start * (self.end / self.start) ** progress)


class Hot:
    """Infinite temperature."""

    longest = 1 << 62

    def steps(self, first: int, count: int, total: int) -> Heat:
        return _HOT

    def seconds(self, first: int, count: int, begin: float, end: float) -> Heat:
        return _HOT


@dataclass(frozen=True)
class Custom:
    """Any callable k → t."""

    schedule: Schedule
    longest = 1 << 14  # steps for which it is asked at once: Python takes longer for that than a chain for the steps

    def steps(self, first: int, count: int, total: int) -> Heat:
        return Heat(np.array([self._inverse(k) for k in range(first, first + count)]), first, 0)

    def seconds(self, first: int, count: int, begin: float, end: float) -> Heat:
        return self.steps(first, count, 0)

    def _inverse(self, k: int) -> float:
        t = self.schedule(k)
        try:
            return 1.0 / positive(t, "temperature")
        except ValueError:
            raise ValueError(f"schedule must give numbers > 0, got {shown(t)} at step {k}.") from None


STEADY = Heat(np.ones(1), 0, _CONSTANT_SHIFT)  # a factor of 1
_HOT = Heat(np.zeros(1), 0, _CONSTANT_SHIFT)
