"""All that knows of CUDA, with the same door as the host: :class:`Device` is a place, see :mod:`movegrad.engine`.

Imported when an array on a GPU first arrives. θ and results stay there, in arrays of the library that θ came from
(``arrays.py``), and all work goes to its current stream. ``kernel.py`` and ``source.py`` have the kernels, ``memory.py`` says where
arrays of a run lie, ``launch.py`` compiles and launches, ``lowering.py`` is what Numba is told.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from movegrad._validate import NotInSet
from movegrad.cuda.arrays import Arrays, arrays_of
from movegrad.engine import Batch, Begin, Run, Settings

__all__ = ["Device", "device_of"]


def device_of(value: Any) -> "Device":
    """The device that an array is on, with the library that it comes from."""
    return _device(arrays_of(value))


@lru_cache(maxsize=64)
def _device(arrays: Arrays) -> "Device":
    return Device(arrays)


class Device:
    """A GPU and arrays of PyTorch or CuPy."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._solutions: WeakKeyDictionary = WeakKeyDictionary()  # problem → its own solution
        self.own, self.numpy, self.joined, self.stacked = arrays.own, arrays.numpy, arrays.concatenate, arrays.stack

    def vectors(self, value: Any, name: str, size: int) -> Any:
        """A float64 copy of shape (…, size), not empty; whether its entries are finite is seen where they are used."""
        array = self.own(value)
        if self.arrays.dtype(array).kind != "f":
            raise ValueError(f"{name} must be of a floating dtype, got {self.arrays.dtype(array)}.")
        if array.ndim == 0 or array.shape[-1] != size:
            raise ValueError(f"{name} must have a last axis of {size} entries, got shape {tuple(array.shape)}.")
        if 0 in array.shape:
            raise ValueError(f"{name} must not be empty, got shape {tuple(array.shape)}.")
        return self.arrays.copy(array, np.float64)

    def solutions(self, values: Any, problem: Any, name: str) -> Any:
        """As :func:`movegrad._validate.as_solutions`; the host waits only where the dtype is not that of solutions."""
        arrays, dtype = self.arrays, problem.solution.dtype
        values = self.own(np.array(values) if isinstance(values, np.ndarray) else values)
        cast = arrays.copy(values, dtype)
        if arrays.dtype(values) != dtype and bool((cast != values).any()):
            raise NotInSet(f"{name} must be in the set, got the entry {self.numpy(values[cast != values])[0]}.")
        return cast

    def own_solutions(self, problems: Sequence[Any]) -> Any:
        """The problems' own solutions, flat; that of one problem is copied once."""
        first = problems[0]
        if list(problems).count(first) < len(problems):
            return self.own(np.concatenate([p.solution for p in problems]))
        if first not in self._solutions:
            self._solutions[first] = self.own(np.array(first.solution))
        return self._solutions[first]

    def chains_on_host(self, chains: Any) -> Any:
        """The chains with all arrays on the host, each copied when it is first looked at; counts are those of all together."""
        return _HostChains(self, chains)

    def side_by_side(self, examples: int) -> int:
        """Examples that run at once."""
        return examples

    def observe(self, problem: Any, solutions: Any, name: str) -> Any:
        """T(y) of solutions (n, size), which must be in the set: (n, d)."""
        from movegrad.cuda import launch

        return launch.observe(self.arrays, problem, solutions, name)

    def execute(
        self,
        batch: Batch,
        settings: Settings,
        begin: Begin,
        indices: np.ndarray,
        guide: Any = None,
        direction: Any = None,
        progress: Callable[[float], None] | None = None,
    ) -> Run:
        """As :meth:`movegrad.engine.host.Host.execute`."""
        from movegrad.cuda import launch

        return launch.execute(self.arrays, batch, settings, begin, indices, guide, direction, progress)


class _HostChains:
    def __init__(self, device: Device, chains: Any) -> None:
        self._device, self._chains = device, chains

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._chains, name)
        if name == "counts":
            value = value.sum(-1)[None]
        if value is not None and not isinstance(value, np.ndarray):
            value = self._device.numpy(value)
        setattr(self, name, value)
        return value
