"""Arrays on a GPU: whose they are (PyTorch's or CuPy's), and the few things that are asked of them.

Nothing here imports a GPU library before an array of it arrives. Everything else sees device arrays through :class:`Arrays`:
what is common to both libraries (``shape``, ``reshape``, ``mean``, arithmetic, slices) is used as it is.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np


def on_device(value: Any) -> bool:
    """Whether this is an array on a GPU."""
    if isinstance(value, (np.ndarray, float, int, list, tuple, type)):
        return False
    try:
        on_cuda = getattr(value, "is_cuda", None)  # a tensor of PyTorch, which refuses the interface below if it needs a gradient
        return bool(on_cuda) if on_cuda is not None else hasattr(value, "__cuda_array_interface__")
    except Exception:  # of the value's own
        return False


@cache
def _has(module: str) -> bool:
    return find_spec(module) is not None


def arrays_of(value: Any) -> "Arrays":
    """The library and device of an array on a GPU."""
    if not _has("numba_cuda"):
        raise ImportError("an array on a GPU needs numba-cuda: pip install 'movegrad[cuda]'.")
    if hasattr(value, "is_cuda"):
        return TorchArrays(value.device)
    if type(value).__module__.split(".")[0] == "cupy" or not _has("torch"):
        return CupyArrays()
    return TorchArrays.on_current()


def device_vectors(value: Any, name: str, size: int) -> Any:
    """A float64 copy of shape (…, size), not empty; whether its entries are finite is seen where they are used."""
    arrays = arrays_of(value)
    array = arrays.own(value)
    if arrays.dtype(array).kind != "f":
        raise ValueError(f"{name} must be of a floating dtype, got {arrays.dtype(array)}.")
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {tuple(array.shape)}.")
    if 0 in array.shape:
        raise ValueError(f"{name} must not be empty, got shape {tuple(array.shape)}.")
    return arrays.copy(array, np.float64)


def joined(parts: Sequence[Any]) -> Any:
    """Vectors end to end, on the host or on a device."""
    return arrays_of(parts[0]).concatenate(parts) if on_device(parts[0]) else np.concatenate(parts)


def highest(values: Any) -> Any:
    """Maximum of each row."""
    return values.amax(1) if hasattr(values, "amax") else values.max(1)


class Arrays:
    """What movegrad asks of a library of device arrays. Shapes are tuples, dtypes those of NumPy."""

    def own(self, value: Any) -> Any:
        """A contiguous array of this library, without a copy if it is one on this device already."""
        raise NotImplementedError

    def empty(self, shape: Any, dtype: Any) -> Any:
        raise NotImplementedError

    def copy(self, value: Any, dtype: Any) -> Any:
        """A contiguous copy of another dtype."""
        raise NotImplementedError

    def dtype(self, value: Any) -> np.dtype:
        raise NotImplementedError

    def address(self, value: Any) -> int:
        raise NotImplementedError

    def numpy(self, value: Any) -> np.ndarray:
        raise NotImplementedError

    def from_dlpack(self, value: Any) -> Any:
        """An array of this library for one of another; what wrote it is waited for."""
        raise NotImplementedError

    def wait(self) -> None:
        """Until the current stream has nothing to do."""
        raise NotImplementedError

    def concatenate(self, parts: Sequence[Any]) -> Any:
        raise NotImplementedError

    def stack(self, parts: Sequence[Any]) -> Any:
        raise NotImplementedError

    @property
    def index(self) -> int:
        """Number of the device."""
        raise NotImplementedError

    @property
    def stream(self) -> int:
        """Handle of the current stream."""
        raise NotImplementedError

    @property
    def free_bytes(self) -> int:
        raise NotImplementedError


class TorchArrays(Arrays):
    def __init__(self, device: Any) -> None:
        import torch

        self._torch, self.device = torch, device

    @classmethod
    def on_current(cls) -> "TorchArrays":
        import torch

        return cls(torch.device("cuda", torch.cuda.current_device()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchArrays) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def own(self, value: Any) -> Any:
        value = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
        return self._torch.as_tensor(value, device=self.device).contiguous()

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self._torch.empty(shape, dtype=_torch_dtype(dtype), device=self.device)

    def copy(self, value: Any, dtype: Any) -> Any:
        value = self.own(value).detach()
        return value.to(_torch_dtype(dtype), copy=True).contiguous()

    def dtype(self, value: Any) -> np.dtype:
        name = str(value.dtype).removeprefix("torch.")
        return np.dtype({"bfloat16": "float32"}.get(name, name))  # NumPy does not know it: any float will do

    def address(self, value: Any) -> int:
        return value.data_ptr()

    def numpy(self, value: Any) -> np.ndarray:
        return value.detach().cpu().numpy()

    def from_dlpack(self, value: Any) -> Any:
        return self._torch.from_dlpack(value)

    def wait(self) -> None:
        self._torch.cuda.current_stream(self.device).synchronize()

    def concatenate(self, parts: Sequence[Any]) -> Any:
        return self._torch.cat(list(parts))

    def stack(self, parts: Sequence[Any]) -> Any:
        return self._torch.stack(list(parts))

    @property
    def index(self) -> int:
        return self.device.index

    @property
    def stream(self) -> int:
        return self._torch.cuda.current_stream(self.device).cuda_stream

    @property
    def free_bytes(self) -> int:
        held = self._torch.cuda.memory_reserved(self.device) - self._torch.cuda.memory_allocated(self.device)
        return self._torch.cuda.mem_get_info(self.device)[0] + held


class CupyArrays(Arrays):
    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CupyArrays)

    def __hash__(self) -> int:
        return hash(CupyArrays)

    def own(self, value: Any) -> Any:
        return self._cupy.ascontiguousarray(self._cupy.asarray(value))

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self._cupy.empty(shape, dtype)

    def copy(self, value: Any, dtype: Any) -> Any:
        return self._cupy.array(value, dtype=dtype, order="C")

    def dtype(self, value: Any) -> np.dtype:
        return np.dtype(value.dtype)

    def address(self, value: Any) -> int:
        return value.data.ptr

    def numpy(self, value: Any) -> np.ndarray:
        return self._cupy.asnumpy(value)

    def from_dlpack(self, value: Any) -> Any:
        return self._cupy.from_dlpack(value)

    def wait(self) -> None:
        self._cupy.cuda.get_current_stream().synchronize()

    def concatenate(self, parts: Sequence[Any]) -> Any:
        return self._cupy.concatenate(list(parts))

    def stack(self, parts: Sequence[Any]) -> Any:
        return self._cupy.stack(list(parts))

    @property
    def index(self) -> int:
        return self._cupy.cuda.Device().id

    @property
    def stream(self) -> int:
        return self._cupy.cuda.get_current_stream().ptr

    @property
    def free_bytes(self) -> int:
        return self._cupy.cuda.Device().mem_info[0] + self._cupy.get_default_memory_pool().free_bytes()


@cache
def _torch_dtype(dtype: Any) -> Any:
    import torch

    return getattr(torch, np.dtype(dtype).name)
