"""Bind a problem's functions into a kernel template, at full speed and with a disk cache that is never stale.

Numba caches a function by file, qualified name and signature, and does not look at what its globals hold. So each
specialization gets a name that ends in a hash of everything it can reach: byte code, captured constants, called functions,
compiler options and the source of the draws. An edited move is a new name; an old one is found again by the next process.
"""

import hashlib
import pickle
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.registry import CPUDispatcher

# Options of every compiled function. nogil: chains run on Python threads. numpy error model: no exceptions in a kernel.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Options inside a kernel: no reference counts, as on CUDA (a move that allocates does not compile); no wrappers for Python; all in
# one piece, since a call would pass the whole chain by value (3× on mixtures of moves).
_KERNEL_OPTIONS: dict[str, Any] = {**OPTIONS, "_nrt": False, "no_cfunc_wrapper": True}
_CALLED_OPTIONS: dict[str, Any] = {**_KERNEL_OPTIONS, "no_cpython_wrapper": True}
_INNER_OPTIONS: dict[str, Any] = {**_CALLED_OPTIONS, "forceinline": True}

_DRAWS = Path(__file__).with_name("_rng.py").read_bytes()  # reached through numba's overloads, which globals do not show
_DRAWS_MODULE = "movegrad._rng"
_compiled: dict[str, Callable] = {}
_outlined: set[types.CodeType] = set()


def jit(function: Callable) -> Callable:
    """Compile a function of a problem with movegrad's options (``numba.njit`` works as well)."""
    return njit(**OPTIONS)(function)


def outline(function: Callable) -> Callable:
    """Compile a function of a problem that kernels call rather than paste in: large, used at several places, seldom run.

    A call passes all of data and state, some tens of nanoseconds; pasted everywhere, routing took minutes to compile.
    """
    compiled = jit(function)
    _outlined.add(function.__code__)
    return compiled


def inner(function: Callable) -> Callable:
    """Compile a function that only kernels call."""
    return njit(**_INNER_OPTIONS)(function)


def inline(function: Callable) -> Callable:
    """The same, pasted into its callers before types are known: a part less to compile (1.1× faster start)."""
    return njit(inline="always", **_INNER_OPTIONS)(function)


def is_jitted(function: object) -> bool:
    return isinstance(function, CPUDispatcher)


def specialize(template: Callable, **bindings: Any) -> Callable:
    """A function with the global names in ``bindings`` bound to the given functions and constants, for use in a kernel."""
    bound = types.FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__)
    bound.__module__, bound.__doc__ = template.__module__, template.__doc__
    return inline(bound)


def generate(source: str, name: str, **names: Any) -> Callable:
    """A function of generated source. It claims to live in this file, since that is where Numba looks for a cache."""
    namespace: dict[str, Any] = {"__name__": __name__, **names}
    exec(compile(source, __file__, "exec"), namespace)
    return jit(namespace[name])


def kernel(function: Any) -> Callable:
    """Compile a whole kernel: all that it calls is compiled anew with a kernel's options; its name ends in its fingerprint."""
    name = f"{function.py_func.__name__}_{fingerprint(function)}"
    if name not in _compiled:
        body = remake(function, inner).py_func
        body.__name__ = body.__qualname__ = name
        _compiled[name] = njit(cache=True, **_KERNEL_OPTIONS)(body)
    return _compiled[name]


def pure(function: Any) -> Callable:
    """The same source as a plain Python function, and so for every jitted function that it calls."""
    return remake(function, lambda plain: plain)


def remake(function: Any, decorate: Callable, memo: dict | None = None) -> Any:
    """Copy a jitted function and all jitted functions that it reaches, and decorate the copies.

    ``inline`` functions stay so in a kernel.
    """
    memo = {} if memo is None else memo
    source = function.py_func
    if source in memo:
        return memo[source]
    if decorate is inner and source.__module__ == _DRAWS_MODULE:
        return function  # made for kernels already

    def new(value: Any) -> Any:
        return remake(value, decorate, memo) if is_jitted(value) else value

    scope = dict(source.__globals__)
    closure = tuple(types.CellType(new(c.cell_contents)) for c in source.__closure__ or ())
    copy = types.FunctionType(source.__code__, scope, source.__name__, source.__defaults__, closure)
    copy.__module__, copy.__qualname__, copy.__doc__ = source.__module__, source.__qualname__, source.__doc__
    pasted = decorate is inner and function.targetoptions.get("inline") == "always"
    if decorate is inner and source.__code__ in _outlined:
        memo[source] = njit(**_CALLED_OPTIONS)(copy)
    else:
        memo[source] = inline(copy) if pasted else decorate(copy)
    names = _names(source.__code__)
    for name in names & scope.keys():
        value = scope[name]
        scope[name] = _remade_module(value, names, new) if _is_user_module(value) else new(value)
    return memo[source]


def _remade_module(module: types.ModuleType, names: set[str], new: Callable) -> types.ModuleType:
    """Stands for a module of the user in remade code: ``helpers.cost`` is the remade function."""
    copy = types.ModuleType(module.__name__)
    vars(copy).update({n: new(getattr(module, n)) for n in names if hasattr(module, n)})
    return copy


# --- fingerprints ----------------------------------------------------------------------------------------------------


def fingerprint(function: Callable) -> str:
    """Hash of everything that the compiled function depends on."""
    digest = hashlib.sha256(_DRAWS)
    for text in _describe(function, set()):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _describe(value: Any, seen: set) -> Iterator[str]:
    if isinstance(value, types.FunctionType) or is_jitted(value):
        yield from _describe_function(value, seen)
    elif isinstance(value, types.ModuleType):
        yield value.__name__
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    elif isinstance(value, (list, tuple)):
        yield type(value).__name__
        for item in value:
            yield from _describe(item, seen)
    elif hasattr(value, "dtype"):
        yield f"{value.dtype}{getattr(value, 'shape', '')}{hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        yield f"{type(value).__name__} {value!r}"
    else:
        yield _opaque(value)


def _opaque(value: Any) -> str:
    """An object of another kind: its pickle, or an identity of this process alone (no cache hit, never a stale one)."""
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # pickle raises whatever the object's own hooks raise
        return f"{type(value).__qualname__} {id(value)}"


def _describe_function(function: Any, seen: set) -> Iterator[str]:
    source = getattr(function, "py_func", function)
    if source in seen:
        yield source.__qualname__
        return
    seen.add(source)
    yield repr(sorted(getattr(function, "targetoptions", {}).items()))
    yield from _describe_code(source.__code__, seen)
    yield from _describe(source.__defaults__, seen)
    for name, value in sorted(_globals(source), key=lambda item: item[0]):
        yield name
        yield from _describe(value, seen)
    for cell in source.__closure__ or ():
        yield from _describe(cell.cell_contents, seen)


def _describe_code(code: types.CodeType, seen: set) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _describe_code(constant, seen)
        else:
            yield repr(constant)


def _names(code: types.CodeType) -> set[str]:
    nested = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*(_names(c) for c in nested))


def _is_user_module(value: Any) -> bool:
    known = ("numpy", "numba", "math", "builtins")
    return isinstance(value, types.ModuleType) and value.__name__.split(".")[0] not in known


def _globals(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Global values that a function reads, and what it reads from modules of the user (``helpers.cost``)."""
    names = _names(function.__code__)
    found = [(n, function.__globals__[n]) for n in names if n in function.__globals__]
    for module_name, module in [(n, v) for n, v in found if _is_user_module(v)]:
        found += [(f"{module_name}.{n}", getattr(module, n)) for n in names if hasattr(module, n)]
    return found
