"""Arrays on a GPU: whose they are (PyTorch's or CuPy's), and the few things that are asked of them.

Nothing here imports a GPU library before an array of it arrives, or runs anything. Everything else sees device arrays through
:class:`Arrays`: what is common to both libraries (``shape``, ``reshape``, ``mean``, arithmetic, slices) is used as it is.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np


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
