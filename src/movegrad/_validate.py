"""Checks of arguments: one sentence that names the argument, what was expected and what came.

Values may be anything, also objects whose own methods raise: what they raise is told in the sentence.
"""

import inspect
from collections.abc import Callable, Mapping, Set
from itertools import islice
from typing import Any

import numpy as np

_SHOWN = 60  # characters of a value in a sentence
_BITS = 200  # integers above so many bits are not written out
_NUMBERS = (int, float, np.integer, np.floating)
LARGEST = 1e300  # of an entry of θ: sums of many of them, with entries of T, are finite
GREATEST = 2**63 - 1  # of an integer: beyond it no kernel can count
MOST = 2**31 - 1  # of things that lie in memory: numbers of items have 32 bits


def shown(value: Any) -> str:
    """A value as it stands in a sentence: one line, not long, whatever it is."""
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"{'-' * (value < 0)}10^{int(value.bit_length() * 0.30103)}"
    try:
        text = " ".join((str(value) if isinstance(value, _NUMBERS) else repr(value)).split())
    except Exception:  # of the value's own
        return f"an object of {type(value).__name__} without a repr"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def why(error: BaseException) -> str:
    """The first sentence of an error of another library, to stand in brackets."""
    try:
        text = next(iter(str(error).strip().splitlines()), "").split(". ")[0].rstrip(".")
    except Exception:  # of the error's own
        text = ""
    return text[:100] or type(error).__name__


def array_of(value: Any, name: str, where: str = "") -> np.ndarray:
    """Anything that NumPy takes for an array of numbers; ``where`` it lies ends the sentence about one that is not."""
    unmasked(value, name)
    try:
        array = np.asarray(value)
    except Exception as error:  # also what the object itself raises
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__} ({why(error)}){where}.") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got {_kind(array)}{where}.")
    return array


def unmasked(value: Any, name: str) -> Any:
    """Not a masked array, or a list of them: its mask would be lost."""
    parts = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value) if isinstance(value, tuple) else (value,)
    for part in parts:
        if isinstance(part, np.ma.MaskedArray):
            raise ValueError(f"{name} must not be a masked array, whose mask has no meaning here, got {type(part).__name__}.")
    return value


def _kind(array: np.ndarray) -> str:
    """What an array that holds no numbers holds."""
    if array.dtype.kind != "O" or array.ndim > 0:
        return str(array.dtype)
    return shown(array.item())


def integer_in(value: Any, name: str, low: int, high: int | None = None) -> int:
    """An integer in [low, high]; below 2⁶³ in any case."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {shown(value)}.")
    limit = GREATEST if high is None else high
    if value < low or value > limit:
        technical = high is None or high == MOST  # a bound of kernels and memory, nobody thinks of it
        span = f"in {low}..{limit}" if not technical else f"≥ {low}" if value < low else f"< 2**{limit.bit_length()}"
        raise ValueError(f"{name} must be {span}, got {shown(value)}.")
    return int(value)


def whole(value: Any) -> Any:
    """A float without a fraction as an integer, so that 1e6 is a number of steps; everything else as it is."""
    return int(value) if isinstance(value, (float, np.floating)) and float(value).is_integer() else value


def seed_in(value: Any, name: str = "seed") -> int:
    """An integer that fits the key of a generator."""
    return integer_in(value, name, 0, GREATEST)


def positive(value: Any, name: str) -> float:
    """A finite number > 0 whose inverse is finite too: not below 1e-300."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, _NUMBERS):
        raise ValueError(f"{name} must be a number > 0, got {shown(value)}.")
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = np.inf
    if not 0 < number < np.inf:
        raise ValueError(f"{name} must be finite and > 0, got {shown(value)}.")
    if number < 1e-300:
        raise ValueError(f"{name} must be finite and ≥ 1e-300, got {shown(value)}.")
    return number


def positives(value: Any, name: str) -> Any:
    """A number as in :func:`positive`, or a flat array of them."""
    if not isinstance(value, _NUMBERS):
        entries = _entries(unmasked(value, name))
        if entries is not None:
            return np.array([positive(entry, name) for entry in entries])
        value = value.item() if isinstance(value, np.ndarray) else value
    return positive(value, name)


def _entries(value: Any) -> list | None:
    """The entries of an array or nested list; None for a single object."""
    try:
        array = np.asarray(value, object)
        return array.reshape(-1).tolist() if array.ndim else None
    except Exception:  # of the value's own
        return None


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)) and not (isinstance(value, (int, np.integer)) and value in (0, 1)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}.")
    return value


def choices(value: Any, name: str, options: tuple[str, ...]) -> list[str]:
    """A sequence of such words."""
    if isinstance(value, str):
        raise ValueError(f"{name} must be a sequence of some of {', '.join(map(repr, options))}, got the word {shown(value)}.")
    return [choice(word, name, options) for word in sequence(value, name, "words")]


def instance_of(value: Any, name: str, kind: type) -> Any:
    """An object of a class."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {shown(value)}.")
    return value


def function_of(value: Any, name: str, count: int, what: str) -> Any:
    """A callable that takes so many arguments; what does not tell its signature is believed."""
    if not callable(value) or isinstance(value, type):
        raise ValueError(f"{name} must be callable with {what}, got {shown(value)}.")
    if not takes(value, count):
        raise ValueError(f"{name} must be callable with {what}, got {shown(value)}, which takes other arguments.")
    return value


def takes(function: Callable, count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have none
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def finite_vectors(value: Any, name: str, size: int) -> np.ndarray:
    """A float64 array of shape (…, size) of finite numbers, not empty; integers are refused, as they have no gradient."""
    array = array_of(value, name)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must be of a floating dtype, got {array.dtype}.")
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}.")
    out = doubles(array)
    if not (np.abs(out) <= LARGEST).all():
        raise too_large(out, name)
    return out


def too_large(array: np.ndarray, name: str) -> ValueError:
    """The error for entries of a vector that are not finite, or so large that sums of them would not be."""
    bad = array[~(np.abs(array) <= LARGEST)][0]
    wanted = f"at most {LARGEST:g} in absolute value" if np.isfinite(bad) else "finite"
    return ValueError(f"{name} must be {wanted}, got {bad} among its entries.")


def doubles(array: np.ndarray) -> np.ndarray:
    """A copy in float64, on which what the caller does to its own later has no effect; what is beyond float64 is infinite."""
    if array.dtype.itemsize <= 8:
        return np.array(array, np.float64, order="C")
    with np.errstate(over="ignore"):
        return np.array(array, np.float64, order="C")


def native(array: np.ndarray) -> np.ndarray:
    """The same numbers as compiled code and JAX know them: in the byte order of this machine, in 64 bits at most."""
    if array.dtype.itemsize > 8:
        return doubles(array)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def sequence(value: Any, name: str, what: str) -> list:
    """The entries of a list, a tuple or the like: what has a length and an order, and can be read twice."""
    ordered = hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__")
    if not ordered or isinstance(value, (str, bytes, bytearray, Mapping)):
        raise ValueError(f"{name} must be a sequence of {what}, got {shown(value)}.")
    try:
        return list(value)
    except Exception as error:  # of the value's own
        raise ValueError(f"{name} must be a sequence of {what}, got {type(value).__name__} ({why(error)}).") from None


def listed(value: Any, name: str, length: int, what: str) -> list:
    """A sequence of so many entries; what is read once may be an iterator, but not what has no order."""
    try:
        entries = list(value) if isinstance(value, (list, tuple, np.ndarray)) else list(islice(value, length + 1))
    except Exception:  # of the value's own
        entries = None
    if entries is None or isinstance(value, (str, bytes, bytearray, Mapping, Set)):
        raise ValueError(f"{name} must hold one entry for each of the {length} {what}, got {type(value).__name__}.") from None
    if len(entries) != length:
        raise ValueError(f"{name} must hold one entry for each of the {length} {what}, got {len(entries)}.")
    return entries


# --- solutions -----------------------------------------------------------------------------------------------------------


class NotInSet(ValueError):
    """A solution that is not in the set."""


def outside(problem: Any, name: str, solution: Any, where: str = "") -> NotInSet:
    """The error for a solution that is not in the set, with the problem's reason."""
    reason = problem.complaint(np.asarray(solution))
    return NotInSet(f"{name} must be in the set, got {solution}{where}{reason and f': {reason}'}.")


def encoded(problem: Any, value: Any, name: str) -> Any:
    """``problem.encode`` of what is no array yet; an error also tells which argument was to be read."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return problem.encode(value)
    except ValueError as error:
        raise ValueError(f"{name} must be in the set, but {error}") from None


def as_solutions(values: Any, problem: Any, name: str) -> np.ndarray:
    """Cast to the dtype of a solution; a value that this would change is not in the set."""
    values, dtype = array_of(values, name), problem.solution.dtype
    if values.dtype == dtype:
        return values
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
    if not np.array_equal(cast, values):
        raise NotInSet(f"{name} must be in the set, got the entry {values[cast != values].flat[0]}.")
    return cast


_SETTINGS = frozenset(("steps", "temperature", "time_limit", "schedule", "burn_in", "chains", "seed"))


def must_be_free(layer: Any, name: str) -> None:
    """Refuse to set what a layer was made with: nothing would change."""
    if name in _SETTINGS or (name in ("estimator", "settings") and name in vars(layer)):
        raise AttributeError(f"{name} of a layer must stay what it is: make another one, which has no weights to lose.")
