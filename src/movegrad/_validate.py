"""Checks of arguments: one sentence that names the argument, what was expected and what came."""

from typing import Any

import numpy as np

LARGEST = 1e300  # of an entry of θ: sums of many of them, with entries of T, are finite
_INTEGERS = 2**63  # those of kernels are below


def array_of(value: Any, name: str) -> np.ndarray:
    """Anything that NumPy takes for an array of numbers."""
    unmasked(value, name)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__} ({str(error).split('.')[0]}).") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got {array.dtype}.")
    return array


def unmasked(value: Any, name: str) -> Any:
    """Not a masked array, or a list of them: its mask would be lost."""
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(part, np.ma.MaskedArray):
            raise ValueError(f"{name} must not be a masked array, whose mask has no meaning here, got {type(part).__name__}.")
    return value


def integer_in(value: Any, name: str, low: int, high: int | None = None) -> int:
    """An integer in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}.")
    if value < low or (high is not None and value > high):
        span = f"≥ {low}" if high is None else f"in {low}..{high}"
        raise ValueError(f"{name} must be {span}, got {value}.")
    if value >= _INTEGERS:
        raise ValueError(f"{name} must be < 2**63, got {value}.")
    return int(value)


def seed_in(value: Any, name: str = "seed") -> int:
    """An integer that fits the key of a generator."""
    return integer_in(value, name, 0, 2**63 - 1)


def positive(value: Any, name: str) -> float:
    """A finite number > 0 whose inverse is finite too: not below 1e-300."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be a number > 0, got {value!r}.")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and > 0, got {value}.")
    if value < 1e-300:
        raise ValueError(f"{name} must be finite and ≥ 1e-300, got {value}.")
    return float(value)


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return value


def instance_of(value: Any, name: str, kind: type) -> Any:
    """An object of a class."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {value!r:.60}.")
    return value


def finite_vectors(value: Any, name: str, size: int) -> np.ndarray:
    """A float64 array of shape (…, size) of finite numbers, not empty; integers are refused, as they have no gradient."""
    array = array_of(value, name)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must be of a floating dtype, got {array.dtype}.")
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}.")
    out = np.array(array, np.float64, order="C")  # a copy: what the caller does to its own later changes nothing here
    if not (np.abs(out) <= LARGEST).all():
        raise too_large(out, name)
    return out


def too_large(array: np.ndarray, name: str) -> ValueError:
    """The error for entries of a vector that are not finite, or so large that sums of them would not be."""
    bad = array[~(np.abs(array) <= LARGEST)][0]
    wanted = f"at most {LARGEST:g} in absolute value" if np.isfinite(bad) else "finite"
    return ValueError(f"{name} must be {wanted}, got {bad} among its entries.")


def listed(value: Any, name: str, length: int, what: str) -> list:
    """A sequence of so many entries."""
    try:
        entries = list(value)
    except TypeError:
        raise ValueError(f"{name} must hold one entry for each of the {length} {what}, got {type(value).__name__}.") from None
    if len(entries) != length:
        raise ValueError(f"{name} must hold one entry for each of the {length} {what}, got {len(entries)}.")
    return entries
