"""Calls of XLA on a GPU, for :mod:`movegrad._jax_ffi`: buffers become tensors of PyTorch, or arrays of CuPy, on the same memory.

So chains run as those of PyTorch do, by the same kernels, on the stream that XLA gives: what is queued before and after keeps its
order, and θ, solutions and results never leave the device. The host reads keys and ``index``, and waits once at the end of each
call for what was wrong: an error ends the call that it belongs to. Workspace is memory of PyTorch or CuPy; where JAX takes nearly
all of a GPU in advance, ``XLA_PYTHON_CLIENT_MEM_FRACTION`` leaves some.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from movegrad._jax_ffi import Buffer, Frame, Function, described, stream_of
from movegrad.engine import place_of

# Words that PyTorch does not calculate with are seen as others of their size: keys are read as bits, and solutions are small.
_SEEN_AS = {"uint16": "int16", "uint32": "int32", "uint64": "int64", "bfloat16": "int16"}


class Memory:
    """A buffer, as GPU libraries exchange them."""

    def __init__(self, buffer: Buffer) -> None:
        self.dtype, shape = described(buffer)
        kind = np.dtype(_SEEN_AS.get(self.dtype.name, self.dtype))
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": kind.str,
            "data": (buffer.data or 0, False),
            "strides": None,
            "version": 3,
        }


def run_on_gpu(frame: Frame, function: Function) -> None:
    """Let a function read the operands of a frame and write its results, on the stream of the call."""
    operands, results = frame.operands, frame.results
    arrays = [_view(operands.buffers[n].contents) for n in range(operands.size)]
    place_of(arrays[0])  # says so if numba-cuda is missing
    with _stream(stream_of(frame), arrays[0]):
        for n, value in enumerate(function(*arrays)):
            _view(results.buffers[n].contents)[...] = value


@cache
def _torch() -> Any:
    """PyTorch, if it is there: as for arrays of JAX elsewhere (``cuda/arrays.py``)."""
    return import_module("torch") if find_spec("torch") is not None else None


def _view(buffer: Buffer) -> Any:
    memory, torch = Memory(buffer), _torch()
    if torch is not None:
        tensor = torch.as_tensor(memory)
        return tensor.view(torch.bfloat16) if memory.dtype.name == "bfloat16" else tensor
    import cupy

    return cupy.asarray(memory)


@contextmanager
def _stream(handle: int, array: Any) -> Iterator[None]:
    """Make it the current stream of the library."""
    torch = _torch()
    if torch is not None:
        with torch.cuda.device(array.device), torch.cuda.stream(torch.cuda.ExternalStream(handle, device=array.device)):
            yield
    else:
        import cupy

        with array.device, cupy.cuda.ExternalStream(handle):
            yield
