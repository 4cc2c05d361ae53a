"""Intervals over seeds and days."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit


class Interval(NamedTuple):
    """A mean with the half-width of its 95 % interval; infinite where one value cannot say."""

    mean: float
    half: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:.2f} ±{self.half:.2f}" if np.isfinite(self.half) else f"{self.mean:.2f}"


def crossed(values: Any) -> Interval:
    """Mean of values (seeds, days), both drawn at random: y_sd = μ + seed_s + day_d + error_sd.

    The variance of the mean is (MS_seed + MS_day − MS_error)/(S·D), at least its largest part; Student's t has Satterthwaite's
    degrees of freedom. With one seed it is the interval over days, and says nothing about other seeds.
    """
    y = np.atleast_2d(np.asarray(values, float))
    seeds, days = y.shape
    if seeds == 1 or days == 1:
        line = y.reshape(-1)
        if len(line) < 2:
            return Interval(float(line.mean()), float("inf"))
        return Interval(float(line.mean()), float(stdtrit(len(line) - 1, 0.975) * line.std(ddof=1) / np.sqrt(len(line))))
    mean, by_seed, by_day = y.mean(), y.mean(1, keepdims=True), y.mean(0, keepdims=True)
    rest = y - by_seed - by_day + mean
    squares = [days * ((by_seed - mean) ** 2).sum(), seeds * ((by_day - mean) ** 2).sum(), (rest**2).sum()]
    freedom = [seeds - 1, days - 1, (seeds - 1) * (days - 1)]
    ms = [s / f for s, f in zip(squares, freedom, strict=True)]
    total = max(ms[0] + ms[1] - ms[2], ms[0], ms[1])
    if total == 0:
        return Interval(float(mean), 0.0)
    effective = total**2 / sum(m**2 / f for m, f in zip(ms, freedom, strict=True))
    return Interval(float(mean), float(stdtrit(max(effective, 1.0), 0.975) * np.sqrt(total / y.size)))
