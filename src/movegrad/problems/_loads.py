"""What problems with capacities share: numbers on a grid, so that loads kept by adding and subtracting are exact."""

from typing import Any

import numpy as np

from movegrad._validate import LARGEST, array_of, doubles, too_large

SLACK = 1e-9  # of a capacity: numbers that are not integers are rounded, also those of the user


def amounts(value: Any, name: str, axes: int) -> np.ndarray:
    """An array of finite numbers ≥ 0 with so many axes, in float64."""
    array = array_of(value, name)
    if array.dtype.kind not in "iuf" or array.ndim != axes or array.size == 0:
        raise ValueError(
            f"{name} must be numbers with {axes} {'axes' if axes > 1 else 'axis'}, got shape {array.shape} of {array.dtype}."
        )
    array = doubles(array)
    wrong = ~((array >= 0) & (array < np.inf))
    if wrong.any():
        raise ValueError(f"{name} must be finite and ≥ 0, got {array[wrong][0]} among its entries.")
    if (array > LARGEST).any():
        raise too_large(array, name)
    return array


def on_grid(weights: np.ndarray, capacities: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights as multiples of a power of two, fine enough that sums up to ``most`` are exact, and capacities with slack.

    Where all weights are integers (as far as sums of them are exact) nothing is rounded and there is no slack, but for capacities
    that miss an integer by rounding, such as 0.29 · 100. Capacities that no load can reach are cut, so that what is left of them is
    exact too.
    """
    if (weights == np.round(weights)).all() and most < 2.0**51:
        limits = np.minimum(capacities, 2.0 * most + 1.0)
        nearest = np.round(limits)
        missed = np.maximum(SLACK * np.minimum(limits, 1e6), 4.0 * np.spacing(limits))
        return weights, np.where(np.abs(limits - nearest) <= missed, nearest, np.floor(limits))
    grid = 1.5 * np.ldexp(1.0, min(int(np.frexp(most)[1]) + 2, 1022))
    limits = np.minimum(capacities * (1.0 + SLACK), 2.0 * most)
    return (weights + grid) - grid, (limits + grid) - grid


def exceeds(weights: np.ndarray, capacity: float) -> np.ndarray:
    """Which weights alone are more than the capacity."""
    rounded, limit = on_grid(weights, np.array(capacity), float(weights.sum()))
    return rounded > limit
