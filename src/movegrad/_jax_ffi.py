"""Python functions as XLA custom calls, for :mod:`movegrad.jax`: through ``jax.ffi`` and ctypes, without a C++ compiler.

XLA calls one handler with the address of a call frame, a C struct whose layout is public (``xla/ffi/api/c_api.h`` in
``jax.ffi.include_dir()``). The handler finds the function by a number in the frame, sees the operands as arrays and writes what
the function returns to the results. A jitted call so takes some 30 µs more than the function, where ``jax.pure_callback`` takes 200
(``jax_calls`` of benchmarks/engine.py). What a function raises ends the call as an error of JAX with the same sentence.

* A handler that does not understand what it is given would crash the process. It looks at the sizes of all structs and at the
  version of the interface first, and before its first use it must compute a known result (:func:`works`). Where that fails,
  functions go through ``jax.pure_callback``: slower, with the same numbers.
* ``MOVEGRAD_JAX_FFI`` names the platforms on which this is used, "cpu,cuda" by default; none for ``jax.pure_callback`` everywhere.
* Numbers of functions begin at random, lest an executable of another process (``jax_compilation_cache_dir``) find one here. A
  function lives as long as what calls it: the object that made it, or an executable (:func:`_kept`).
"""

import ctypes as c
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from math import prod
from secrets import randbits
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Function = Callable[..., Sequence[Any]]  # arrays → arrays

TARGET = "movegrad_call"
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}  # of a backend, and what it is called where targets are registered
SWITCH = "MOVEGRAD_JAX_FFI"

# --- the interface of XLA, as far as it is used ----------------------------------------------------------------------------

MAJOR = 0  # of its version; minor ones only add to it
METADATA, EXECUTE = 1, 3  # XLA_FFI_Extension_Metadata, XLA_FFI_ExecutionStage_EXECUTE
INVALID_ARGUMENT, INTERNAL, CANCELLED = 3, 13, 1  # XLA_FFI_Error_Code
_DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
    10: np.float16, 11: np.float32, 12: np.float64, 16: jnp.bfloat16,
}  # fmt: skip
DTYPES = {code: np.dtype(kind) for code, kind in _DTYPES.items()}  # XLA_FFI_DataType


class Extension(c.Structure):
    """XLA_FFI_Extension_Base"""


Extension._fields_ = [("struct_size", c.c_size_t), ("type", c.c_int), ("next", c.POINTER(Extension))]
_HEAD: list[Any] = [("struct_size", c.c_size_t), ("extension", c.POINTER(Extension))]


class Version(c.Structure):
    """XLA_FFI_Api_Version"""

    _fields_ = [*_HEAD, ("major", c.c_int), ("minor", c.c_int)]


class Metadata(c.Structure):
    """XLA_FFI_Metadata, without what later versions add"""

    _fields_ = [("struct_size", c.c_size_t), ("version", Version), ("traits", c.c_uint32)]


class MetadataExtension(c.Structure):
    """XLA_FFI_Metadata_Extension"""

    _fields_ = [("base", Extension), ("metadata", c.POINTER(Metadata))]


class ErrorArguments(c.Structure):
    """XLA_FFI_Error_Create_Args"""

    _fields_ = [*_HEAD, ("message", c.c_char_p), ("code", c.c_int)]


class StreamArguments(c.Structure):
    """XLA_FFI_Stream_Get_Args"""

    _fields_ = [*_HEAD, ("context", c.c_void_p), ("stream", c.c_void_p)]


class Api(c.Structure):
    """XLA_FFI_Api, as far as the last function that is used"""

    _fields_ = [
        *_HEAD,
        ("version", Version),
        ("internal", c.c_void_p),
        ("create_error", c.CFUNCTYPE(c.c_void_p, c.POINTER(ErrorArguments))),
        ("error_message", c.c_void_p),
        ("destroy_error", c.c_void_p),
        ("register_handler", c.c_void_p),
        ("stream", c.CFUNCTYPE(c.c_void_p, c.POINTER(StreamArguments))),
    ]


class Buffer(c.Structure):
    """XLA_FFI_Buffer"""

    _fields_ = [*_HEAD, ("dtype", c.c_int), ("data", c.c_void_p), ("rank", c.c_int64), ("dims", c.c_void_p)]


class Buffers(c.Structure):
    """XLA_FFI_Args and XLA_FFI_Rets"""

    _fields_ = [*_HEAD, ("size", c.c_int64), ("types", c.c_void_p), ("buffers", c.POINTER(c.POINTER(Buffer)))]


class Scalar(c.Structure):
    """XLA_FFI_Scalar"""

    _fields_ = [("dtype", c.c_int), ("value", c.POINTER(c.c_int64))]


class Attributes(c.Structure):
    """XLA_FFI_Attrs, all of which are scalars here"""

    _fields_ = [*_HEAD, ("size", c.c_int64), ("types", c.c_void_p), ("names", c.c_void_p), ("values", c.POINTER(c.POINTER(Scalar)))]


class Frame(c.Structure):
    """XLA_FFI_CallFrame"""

    _fields_ = [
        *_HEAD,
        ("api", c.POINTER(Api)),
        ("context", c.c_void_p),
        ("stage", c.c_int),
        ("operands", Buffers),
        ("results", Buffers),
        ("attributes", Attributes),
    ]


def understood(frame: Frame) -> bool:
    """Whether a frame, and the interface that it comes with, is at least what is declared above."""
    if frame.struct_size < c.sizeof(Frame) or not frame.api:
        return False
    api = frame.api.contents
    return api.struct_size >= c.sizeof(Api) and api.version.major == MAJOR


# --- the handler ---------------------------------------------------------------------------------------------------------

Run = Callable[[Frame, Function], None]  # lets a function read the operands of a frame and write its results


def handler(run: Run) -> Any:
    """The C function that XLA is given; whatever is raised in it is told to XLA."""

    def handle(pointer: Any) -> int | None:
        frame = pointer.contents
        if not understood(frame):
            return None  # there is no way to say so: `works` finds that nothing was written
        try:
            if frame.extension:
                _introduce(frame)
            elif frame.stage == EXECUTE:
                run(frame, _function_of(frame))
        except BaseException as error:  # also Ctrl-C: nothing may leave this function
            return _error(frame, error)
        return None

    return c.CFUNCTYPE(c.c_void_p, c.POINTER(Frame))(handle)


def _introduce(frame: Frame) -> None:
    """Tell XLA the version of the interface: its own, since all that is used of it has been there from the beginning."""
    extension = frame.extension
    while extension:
        if extension.contents.type == METADATA:
            metadata = c.cast(extension, c.POINTER(MetadataExtension)).contents.metadata.contents
            version = frame.api.contents.version
            metadata.version.major, metadata.version.minor, metadata.traits = version.major, version.minor, 0
        extension = extension.contents.next


def _function_of(frame: Frame) -> Function:
    number = frame.attributes.values[0].contents.value[0]
    found = _functions.get(number)
    if found is None:
        raise RuntimeError("a compiled function of JAX must be called in the process that compiled it, got one of another process.")
    return found


def _error(frame: Frame, error: BaseException) -> int:
    """An error that XLA owns."""
    known = isinstance(error, ValueError)
    text = str(error) if known or isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
    code = INVALID_ARGUMENT if known else CANCELLED if isinstance(error, KeyboardInterrupt) else INTERNAL
    arguments = ErrorArguments(c.sizeof(ErrorArguments), None, text.encode(), code)
    return frame.api.contents.create_error(c.byref(arguments))


def stream_of(frame: Frame) -> int:
    """Handle of the stream on which a call is to work; 0 is the default one."""
    arguments = StreamArguments(c.sizeof(StreamArguments), None, frame.context, None)
    if frame.api.contents.stream(c.byref(arguments)):
        raise RuntimeError("XLA must have a stream for a call on a GPU, got none.")
    return arguments.stream or 0


# --- on the CPU ------------------------------------------------------------------------------------------------------------


def array_at(buffer: Buffer) -> np.ndarray:
    """The buffer as an array that shares its memory."""
    dtype, shape = described(buffer)
    return np.ndarray(shape, dtype, _bytes(dtype.itemsize * prod(shape)).from_address(buffer.data))


def described(buffer: Buffer) -> tuple[np.dtype, tuple[int, ...]]:
    """dtype and shape."""
    if buffer.struct_size < c.sizeof(Buffer) or buffer.dtype not in DTYPES:
        raise ValueError(f"arrays must hold real numbers of a usual dtype, got number {buffer.dtype} of XLA.")
    return DTYPES[buffer.dtype], tuple((c.c_int64 * buffer.rank).from_address(buffer.dims)) if buffer.rank else ()


@lru_cache(maxsize=1024)
def _bytes(size: int) -> Any:
    return c.c_char * size


def run_on_cpu(frame: Frame, function: Function) -> None:
    """Operands are copied: nobody may look at memory of XLA after the call."""
    operands, results = frame.operands, frame.results
    found = function(*[np.array(array_at(operands.buffers[n].contents)) for n in range(operands.size)])
    for n, value in enumerate(found):
        array_at(results.buffers[n].contents)[...] = value


# --- functions ---------------------------------------------------------------------------------------------------------------


_numbers = count(randbits(62))
_functions: WeakValueDictionary[int, Function] = WeakValueDictionary()
_number_of: WeakKeyDictionary[Function, int] = WeakKeyDictionary()


def number_of(function: Function) -> int:
    """Always the same for a function: what is compiled for it serves again."""
    found = _number_of.get(function)
    if found is None:
        found = _number_of[function] = next(_numbers)
        _functions[found] = function
    return found


_keep = Primitive("movegrad_keep")  # the identity: what is compiled with it holds an object
_keep.multiple_results = True
_keep.def_impl(lambda *arrays, what: list(arrays))
_keep.def_abstract_eval(lambda *arrays, what: list(arrays))
batching.primitive_batchers[_keep] = lambda arrays, axes, *, what: (_keep.bind(*arrays, what=what), axes)
_held: list[Any] = []


def _lower_keep(context: Any, *values: Any, what: Any) -> Any:
    getattr(context.module_context, "add_keepalive", _held.append)(what)
    return values


mlir.register_lowering(_keep, _lower_keep)


# --- calls ---------------------------------------------------------------------------------------------------------------


def call(function: Function, results: Sequence[Any], *operands: jax.Array) -> Sequence[jax.Array]:
    """Call ``function(*arrays) → arrays`` from a function that JAX traces.

    ``vmap`` puts axes in front of all operands and results: it is still one call.

    Parameters
    ----------
    function : callable
        Hashed by identity; it must be pure.
    results : sequence of jax.ShapeDtypeStruct
        What it returns.
    operands : arrays
        What it is given: arrays of NumPy, or of a GPU library where XLA runs on a GPU.
    """
    if not in_use():
        return jax.pure_callback(function, tuple(results), *operands, vmap_method="broadcast_all")
    number = np.int64(number_of(function))
    arrays = jax.ffi.ffi_call(TARGET, tuple(results), vmap_method="broadcast_all")(*operands, number=number)
    return _keep.bind(*arrays, what=function)


def in_use() -> bool:
    """Whether custom calls serve the backend that JAX uses; others have a callback of JAX."""
    platform = PLATFORMS.get(jax.default_backend())
    wanted = os.environ.get(SWITCH, ",".join(PLATFORMS.values())).split(",")
    if platform is None or platform not in wanted or not works(platform):
        return False
    works("cpu")  # what is compiled on a machine with a GPU may be for its CPU
    return True


_known: dict[str, bool] = {}
why_not: dict[str, str] = {}  # for a person to look at
_knowing = Lock()


def works(platform: str) -> bool:
    """Whether a handler is registered and computes what it should: tried once."""

    def probe() -> None:
        try:
            _known[platform] = _probe(platform)
        except Exception as error:  # whatever it is, there is another way
            _known[platform], why_not[platform] = False, f"{type(error).__name__}: {error}"

    with _knowing:
        if platform not in _known:
            thread = Thread(target=probe)  # in which nothing is traced
            thread.start()
            thread.join()
    return _known[platform]


_registered: list[Any] = []  # XLA has their addresses, and never forgets one


def _probe(platform: str) -> bool:
    if platform == "cpu":
        run, backend = run_on_cpu, "cpu"
    else:
        from movegrad._jax_gpu import run_on_gpu

        run, backend = run_on_gpu, "gpu"
    device = jax.local_devices(backend=backend)[0]
    _registered.append(handler(run))
    capsule = jax.ffi.pycapsule(c.cast(_registered[-1], c.c_void_p).value)
    jax.ffi.register_ffi_target(TARGET, capsule, platform="cpu" if platform == "cpu" else "CUDA")
    number, x = np.int64(number_of(_twice)), np.arange(6, dtype=np.float32).reshape(2, 3)
    shape = (jax.ShapeDtypeStruct(x.shape, x.dtype),)
    probe = jax.jit(lambda x: jax.ffi.ffi_call(TARGET, shape, vmap_method="broadcast_all")(x, number=number))
    with jax.default_device(device):
        return np.array_equal(probe(jax.device_put(x, device))[0], 2 * x)


def _twice(x: Any) -> Sequence[Any]:
    return (2 * x,)
