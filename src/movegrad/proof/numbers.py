"""Arrays and integers that behave in plain Python as they do in a kernel.

Compiled code computes with 64 bits: signed where any operand is signed, unsigned (and wrapping below zero) where all are unsigned.
What is stored must fit the dtype of its array. NumPy's own scalars follow other rules (``uint8`` wraps at 256), Python's integers
have no rules at all.
"""

import math
import types
from typing import Any

import numpy as np

_WORD = 1 << 64


def _signed(value: int) -> int:
    """An integer as 64 bits with a sign hold it."""
    return (value + (_WORD >> 1)) % _WORD - (_WORD >> 1)


class Unsigned(int):
    """An unsigned integer of a kernel: with its like it wraps at 2⁶⁴, with a signed one it is signed."""

    __slots__ = ()


def _like_a_kernel(name: str) -> Any:
    plain = getattr(int, name)

    def operation(self: Any, other: Any) -> Any:
        unsigned = isinstance(other, (Unsigned, np.unsignedinteger))
        result = plain(int(self), int(other) if unsigned else other)
        if result is NotImplemented:
            return result
        return Unsigned(result % _WORD) if unsigned else _signed(result)

    return operation


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(Unsigned, _operator, _like_a_kernel(_operator))
Unsigned.__neg__ = lambda self: Unsigned(-int(self) % _WORD)  # type: ignore[method-assign]

_READ = {"i": int, "u": Unsigned, "b": bool, "f": float}
_LIMITS = {c: (int(np.iinfo(c).min), int(np.iinfo(c).max)) for c in np.typecodes["AllInteger"]} | {"?": (0, 1)}


class Endless(Exception):
    """A function reads and writes so much that it seems to have no end."""


class _Fuel:
    """How many entries of fields may still be read or written: plain Python cannot be stopped otherwise."""

    left = 1 << 62


ENOUGH = 5_000_000  # entries that one step may read and write


def refuel(amount: int = 1 << 62) -> int:
    """Give new fuel, by default without limit; returns what was left of the old."""
    left, _Fuel.left = _Fuel.left, amount
    return left


def _burn() -> None:
    _Fuel.left -= 1
    if _Fuel.left < 0:
        raise Endless("reads and writes without end")


class Field(np.ndarray):
    """An array of integers or truth values as compiled code sees it. Storing what does not fit raises OverflowError."""

    def __getitem__(self, key: Any) -> Any:
        _burn()
        value = np.ndarray.__getitem__(self, key)
        return value if isinstance(value, np.ndarray) else _READ[self.dtype.kind](value)

    def __setitem__(self, key: Any, value: Any) -> None:
        _burn()
        if isinstance(value, np.integer):
            value = int(value)  # NumPy would let it wrap
        if isinstance(value, int) and self.dtype.kind != "f":
            low, high = _LIMITS[self.dtype.char]
            if not low <= value <= high:
                value = _signed(value) if type(value) is Unsigned else value
                if not low <= value <= high:
                    raise OverflowError(f"{value} does not fit an array of {self.dtype}")
        np.ndarray.__setitem__(self, key, value)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def as_field(array: Any) -> Any:
    """A copy for plain Python. Numbers of data come as numbers; floats are double, as accumulators in a kernel are."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        copy = array.astype(np.float64)
        return copy if copy.ndim else copy[()]
    if not array.ndim:
        return _READ[array.dtype.kind](array)
    return np.array(array).view(Field)


def as_solution(array: np.ndarray) -> np.ndarray:
    """The same for a solution, which keeps its dtype: short floats are read as double ones, and rounded where they are stored."""
    return np.array(array).view(Field) if array.dtype == np.float32 else as_field(array)


def same(one: Any, other: Any) -> bool:
    """Are two fields equal, bit by bit?"""
    return one.tobytes() == other.tobytes()


# --- functions of ``math``, which raise in Python where compiled code goes on ---------------------------------------------


def _quiet(function: Any) -> Any:
    def quiet(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OverflowError:
            return math.inf
        except ValueError:
            return -math.inf if function in (math.log, math.log2, math.log10) and arguments[0] == 0 else math.nan

    return quiet


_RAISING = (math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.sqrt, math.pow)
MATH = {function: _quiet(function) for function in _RAISING}
quiet_math = types.ModuleType("math")
vars(quiet_math).update({name: MATH.get(value, value) if callable(value) else value for name, value in vars(math).items()})
