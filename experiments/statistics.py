"""Means with 95 % intervals, and rows of numbers as plain values."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

Z95 = 1.959963984540054  # quantile of a 95 % interval


def mean_and_half_width(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the first axis and the half-width of its 95 % interval (normal approximation)."""
    samples = np.asarray(samples, float)
    return samples.mean(0), Z95 * samples.std(0, ddof=1) / np.sqrt(len(samples))


def student_interval(values: Iterable[float | None]) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval by Student's t, for few values; NaN for a single one."""
    from scipy.special import stdtrit

    array = np.array([math.nan if v is None else v for v in values], float)
    n = len(array)
    half = stdtrit(n - 1, 0.975) * array.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
    return float(array.mean()), float(half)


def rounded(values: Any, digits: int = 5) -> Any:
    """Numbers with some significant digits, nested as given: files stay small."""
    if np.ndim(values) == 0:
        return float(f"{values:.{digits}g}")
    return [rounded(v, digits) for v in values]


def tidy(value: Any) -> Any:
    """NumPy values as plain ones, floats with seven digits, NaN as None."""
    if isinstance(value, dict):
        return {key: tidy(v) for key, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [tidy(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
