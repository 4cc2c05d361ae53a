"""What arguments may be, for type checkers; :mod:`movegrad._validate` says it to people."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

__all__ = ["Array", "Arrays", "Start"]


class HasShape(Protocol):
    """Arrays of NumPy, PyTorch, JAX, CuPy, on any device."""

    @property
    def shape(self) -> Any:
        """Its axes."""


Arrays: TypeAlias = ArrayLike | HasShape | Sequence[Any]
Start: TypeAlias = str | Arrays | Callable[[Any], Any]
Array: TypeAlias = Any
"""A result of the kind of what was given: an array of NumPy or CuPy, a tensor, or a list of these for a list of problems."""
