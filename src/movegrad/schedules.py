"""Temperatures along a chain. A schedule is any callable ``k → t`` for the step k = 0, 1, …; these are the usual ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from movegrad._validate import positive

Schedule = Callable[[int], float]

_CONSTANT_SHIFT = 62  # k >> 62 is 0 for every step
_LEVELS = 256  # an annealing run is cut into so many temperatures, or fewer


class Heat(NamedTuple):
    """Inverse temperatures of a stretch of steps: that of step k is entry (k − first) >> shift."""

    inverse: np.ndarray
    first: int
    shift: int


def constant(temperature: float) -> Schedule:
    """t for every step."""
    t = positive(temperature, "temperature")
    return lambda k: t


def truncated_geometric(start: float, decay: float, final: float) -> Schedule:
    """max(decayᵏ·start, final): the schedule of the paper's burn-in study."""
    start, final = positive(start, "start"), positive(final, "final")
    if not 0.0 < decay < 1.0:
        raise ValueError(f"decay must be in (0, 1), got {decay}.")
    return lambda k: max(decay**k * start, final)


class Annealing(NamedTuple):
    """Geometric cooling over a whole run, whatever its length in steps or seconds: start·(end/start)^progress."""

    start: float = 1.0
    end: float = 1e-3

    def heat(self, first: int, count: int, begin: float, end: float) -> Heat:
        """Temperatures for ``count`` steps from step ``first``, while the progress of the run goes from ``begin`` to ``end``."""
        shift = max(0, (max(count, 1) - 1).bit_length() - _LEVELS.bit_length() + 1)
        levels = ((count - 1) >> shift) + 1
        progress = begin + (end - begin) * (np.arange(levels) + 0.5) / levels
        return Heat(1.0 / (self.start * (self.end / self.start) ** progress), first, shift)


class Steady(NamedTuple):
    """A constant temperature of 1; examples scale it by their own."""

    def heat(self, first: int, count: int, begin: float, end: float) -> Heat:
        return _STEADY


class Custom(NamedTuple):
    """Any callable k → t."""

    schedule: Schedule

    def heat(self, first: int, count: int, begin: float, end: float) -> Heat:
        temperatures = np.fromiter((self.schedule(k) for k in range(first, first + count)), np.float64, count)
        bad = ~(np.isfinite(temperatures) & (temperatures > 0))
        if bad.any():
            k = int(np.argmax(bad))
            raise ValueError(f"schedule must give temperatures > 0, got {temperatures[k]} at step {first + k}.")
        return Heat(1.0 / temperatures, first, 0)


_STEADY = Heat(np.ones(1), 0, _CONSTANT_SHIFT)
