"""Checks of arguments: one sentence that names the argument, what was expected and what came."""

from typing import Any

import numpy as np


def integer_in(value: Any, name: str, low: int, high: int | None = None) -> int:
    """An integer in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}.")
    if value < low or (high is not None and value > high):
        span = f"≥ {low}" if high is None else f"in {low}..{high}"
        raise ValueError(f"{name} must be {span}, got {value}.")
    return int(value)


def positive(value: Any, name: str) -> float:
    """A finite number > 0."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be a number > 0, got {value!r}.")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and > 0, got {value}.")
    return float(value)


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return value


def finite_vectors(value: Any, name: str, size: int) -> np.ndarray:
    """A float64 array of shape (…, size) without NaN or infinity, not empty; integers are refused, as they have no gradient."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must be of a floating dtype, got {array.dtype}.")
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}.")
    out = np.ascontiguousarray(array, np.float64)
    if not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite, got {out[~np.isfinite(out)][0]} among its entries.")
    return out
