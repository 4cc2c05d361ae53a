"""What problems on binary vectors share: shares of moves, and a term φ given by the user."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from movegrad._validate import array_of, finite_vectors, instance_of, integer_in, listed, positive, sequence, shown
from movegrad.engine import is_jitted, jit
from movegrad.problem import Jitted, Move


def weighted(moves: Sequence[Move], weights: Sequence[float] | None, name: str = "weights") -> list[Move]:
    """The moves with these shares."""
    if weights is None:
        return list(moves)
    shares = listed(weights, name, len(moves), "moves")
    return [replace(m, weight=positive(w, name)) for m, w in zip(moves, shares, strict=True)]


def extra(moves: Any) -> list[Move]:
    """The argument ``extra_moves``."""
    return [instance_of(m, "extra_moves", Move) for m in sequence(moves, "extra_moves", "movegrad.Move")]


def integers_in(value: Any, name: str, low: int, high: int) -> list[int]:
    """One integer in [low, high], or a sequence of them."""
    entries = value if isinstance(value, (list, tuple)) else np.atleast_1d(array_of(value, name))
    return [integer_in(n, name, low, high) for n in entries]


class Phi(NamedTuple):
    """A term φ(y) of the objective: absent, linear (``linear`` has d entries), or any jitted function of y."""

    linear: np.ndarray
    function: Jitted | None

    @property
    def is_linear(self) -> bool:
        return self.function is None

    @property
    def total(self) -> Jitted | None:
        if self.function is not None:
            return _function_total(self.function)
        return _linear_total if len(self.linear) else None

    def add_to(self, moves: Sequence[Move]) -> list[Move]:
        """The moves with the gain of φ."""
        if self.function is None and not len(self.linear):
            return list(moves)
        return [m if m.gain else replace(m, gain=_gain(m.change, m.changes, self.function)) for m in moves]

    def plus(self, theta: np.ndarray) -> np.ndarray:
        """θ with a linear φ added."""
        return theta + self.linear if len(self.linear) else theta


def binary_phi(phi: Any, d: int) -> Phi:
    """Read the argument ``phi`` of a problem on binary vectors."""
    if phi is None:
        return Phi(np.zeros(0), None)
    if callable(phi):
        if not is_jitted(phi) or len(phi.py_func.__code__.co_varnames[: phi.py_func.__code__.co_argcount]) != 1:
            raise ValueError(f"phi must be an array or a function of one argument compiled with movegrad.jit, got {shown(phi)}.")
        return Phi(np.zeros(0), phi)
    array = finite_vectors(phi, "phi", d)
    if array.ndim != 1:
        raise ValueError(f"phi must have shape ({d},), got {array.shape}.")
    array.setflags(write=False)  # the closed form reads it
    return Phi(array, None)


@jit
def _linear_total(data, y):
    total = 0.0
    for i in range(len(y)):
        total += data.linear[i] * y[i]
    return total


@cache
def _function_total(function):
    return jit(lambda data, y: function(y))


@cache
def _gain(change, changes, function):
    """φ(y') − φ(y): a sum over changed entries if φ is linear, else φ evaluated before and after on the state itself."""
    if isinstance(changes, int):
        fixed = changes
        count = jit(lambda data, state, move: fixed)
    else:
        count = changes

    @jit
    def linear_gain(data, state, move):
        total = 0.0
        for m in range(count(data, state, move)):
            i, delta = change(data, state, move, m)
            total += data.linear[i] * delta
        return total

    @jit
    def flip(data, state, move):
        for m in range(count(data, state, move)):
            i, _ = change(data, state, move, m)
            state.y[i] = 1 - state.y[i]

    @jit
    def function_gain(data, state, move):
        before = function(state.y)
        flip(data, state, move)
        after = function(state.y)
        flip(data, state, move)
        return after - before

    return linear_gain if function is None else function_gain
