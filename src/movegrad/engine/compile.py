"""Compiles: functions of users, templates with their open names filled in, and whole kernels with a disk cache that is never stale.

What is compiled is put together elsewhere (:mod:`movegrad.engine.bind`).

Numba caches a function by file, qualified name and signature, and does not look at what its globals hold. So each kernel gets a
name that ends in a hash of everything it can reach (:mod:`movegrad.engine.reach`): byte code, captured constants, called
functions, compiler options and the source of the draws. An edited move is a new name; an old one is found again by the next
process.
"""

import ast
import dis
import inspect
import operator
import os
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import RLock, Timer
from types import MappingProxyType
from typing import Any

from numba import njit
from numba.core import config
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import TargetConfig
from numba.core.types.functions import BaseFunction

from movegrad.engine.disk_cache import keep_on_disk
from movegrad.engine.reach import Reach, attributes, is_jitted, is_user_module, reads_of

if vars(config)["DISABLE_JIT"]:
    raise ImportError(
        "movegrad runs compiled code only: unset NUMBA_DISABLE_JIT (mg.check runs moves in plain Python, for a debugger)."
    )

# Options of every compiled function. nogil: chains run on Python threads. numpy error model: no exceptions in a kernel.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Options inside a kernel: no reference counts, as on CUDA (a move that allocates does not compile); no wrappers for Python; all in
# one piece, so that LLVM sees what a step reads and writes.
_KERNEL_OPTIONS: dict[str, Any] = {**OPTIONS, "_nrt": False, "no_cfunc_wrapper": True}
_CALLED_OPTIONS: dict[str, Any] = {**_KERNEL_OPTIONS, "no_cpython_wrapper": True}
_INNER_OPTIONS: dict[str, Any] = {**_CALLED_OPTIONS, "forceinline": True}

_DRAWS_MODULE = "movegrad.engine.draws"
_PATIENCE = 1.0  # seconds
_SMALL = 60  # bytes of byte code: to compile such a function by itself takes longer than to paste it (1.1×)
_announced: set[str] = set()
_compiled: dict[str, Callable] = {}
_shared: dict[str, Callable] = {}  # functions in kernels, by their fingerprint
_outlined: set[types.CodeType] = set()


def jit(function: Callable) -> Callable:
    """Compile a function of a problem with movegrad's options (``numba.njit`` works as well).

    Parameters
    ----------
    function : callable
        Numbers in, numbers out; it allocates nothing, raises nothing and draws only through movegrad's draws.

    Returns
    -------
    callable
        For :class:`movegrad.Move` and :class:`movegrad.Problem`.

    Examples
    --------
    >>> import movegrad as mg
    >>> @mg.jit
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """
    return njit(**OPTIONS)(function)


def outline(function: Callable) -> Callable:
    """Compile a function of a problem that kernels call rather than paste in: large, used at several places, seldom run.

    A call costs some time whenever it is made; pasted everywhere, routing took minutes to compile.

    Parameters
    ----------
    function : callable
        As for :func:`jit`.

    Returns
    -------
    callable
        As of :func:`jit`.

    Examples
    --------
    >>> import movegrad as mg
    >>> @mg.outline
    ... def large(x):
    ...     return 2 * x
    >>> large(21)
    42
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


def specialize(template: Callable, *, decorate: Callable = inline, **bindings: Any) -> Callable:
    """A function with the global names in ``bindings`` bound to the given functions and constants, for use in a kernel."""
    flags = tuple(sorted((name, value) for name, value in bindings.items() if isinstance(value, bool)))
    bound = types.FunctionType(_without_dead_code(template, flags), {**template.__globals__, **bindings}, template.__name__)
    bound.__module__, bound.__doc__ = template.__module__, template.__doc__
    return decorate(bound)


_PARSING = RLock()  # Python 3.11 may raise a SystemError where two threads make trees at the same time


@cache
def _without_dead_code(template: Any, flags: tuple[tuple[str, bool], ...]) -> types.CodeType:
    """The code of a template for given flags. Numba reads, types and lowers what stands behind one that is off; LLVM drops it."""
    if not flags:
        return template.__code__
    source = textwrap.dedent(inspect.getsource(template))
    with _PARSING:
        tree = _Fold(dict(flags)).visit(ast.parse(source))
    ast.increment_lineno(ast.fix_missing_locations(tree), template.__code__.co_firstlineno - 1)
    module = compile(tree, template.__code__.co_filename, "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))


class _Fold(ast.NodeTransformer):
    """Puts the values of flags in, and leaves out what depends on them."""

    def __init__(self, flags: dict[str, bool]) -> None:
        self._flags = flags

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._flags[node.id]) if node.id in self._flags else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)  # True decides an or, False an and
        if any(isinstance(part, ast.Constant) and part.value is decides for part in node.values):
            return ast.Constant(decides)
        node.values = [part for part in node.values if not isinstance(part, ast.Constant)]
        return node.values[0] if len(node.values) == 1 else node if node.values else ast.Constant(not decides)

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant):
            return node
        return node.body if node.test.value else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return node if not isinstance(node.test, ast.Constant) else node.body if node.test.value else node.orelse


def generate(source: str, name: str, **names: Any) -> Callable:
    """A function of generated source. It claims to live in this file, since that is where Numba looks for a cache.

    And it claims the lines of this function: Numba reads them for its annotations, and Python 3.13 cannot read just any.
    """
    namespace: dict[str, Any] = {"__name__": __name__, **names}
    exec(compile(source, __file__, "exec"), namespace)
    made = namespace[name]
    made.__code__ = made.__code__.replace(co_firstlineno=generate.__code__.co_firstlineno)
    return jit(made)


def kernel(function: Any) -> tuple[Callable, Reach]:
    """Compile a whole kernel: all that it calls is compiled anew with a kernel's options; its name ends in its fingerprint."""
    reach = Reach(function)
    name = f"{function.py_func.__name__}_{reach.fingerprint}"
    if name not in _compiled:
        body = remake(function, inner).py_func
        body.__name__ = body.__qualname__ = name
        _compiled[name] = keep_on_disk(njit(**_KERNEL_OPTIONS)(body))
    return _compiled[name], reach


@contextmanager
def announced(name: str) -> Iterator[None]:
    """While something compiles for longer than a second, say so in one line on stderr, once."""

    def say() -> None:
        if name not in _announced:
            _announced.add(name)
            tell(f"compiling {name} (once, kept on disk)")

    with told_after(_PATIENCE, say):
        yield


def tell(sentence: str) -> None:
    """A line about something that takes long, on stderr."""
    print(f"movegrad: {sentence} …", file=sys.stderr, flush=True)


@contextmanager
def told_after(seconds: float, say: Callable[[], object]) -> Iterator[None]:
    """Call ``say`` if the block takes longer, unless ``MOVEGRAD_QUIET`` is set."""
    if os.environ.get("MOVEGRAD_QUIET", "0") not in ("", "0"):
        yield
        return
    timer = Timer(seconds, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def lean() -> Iterator[None]:
    """Let LLVM optimize whole kernels only, and emit machine code for those alone (routing: 8 of 24 s).

    What is pasted into a kernel would be optimized twice; and what has no wrapper for Python is never called but from a kernel,
    which holds a copy of it. Numba has no option for that. While its lock is held, nobody else compiles; what was left as it is, is
    optimized wherever it is linked in.
    """
    with global_compiler_lock:
        usual = {name: getattr(owner, name) for owner, name in _LEAN}

        def optimize_functions(library: Any, module: Any) -> None:
            if _is_kernel(library):
                usual["_optimize_functions"](library, module)

        def optimize(library: Any) -> None:
            if _is_kernel(library):
                usual["_optimize_final_module"](library)

        def finalize(library: Any) -> None:
            names = [function.name for function in library.get_defined_functions()]
            if not names or any(name.startswith(_WRAPPERS) for name in names):  # none: its code comes from a file
                usual["_finalize_final_module"](library)
            else:
                library._finalize_dynamic_globals()
                library._finalized = True

        def set_env(codegen: Any, name: str, env: Any) -> None:
            if codegen._engine.get_global_value_address(name):
                usual["set_env"](codegen, name, env)

        def equal(flags: Any, other: Any) -> Any:
            return getattr(other, "_values", None) == flags._values or usual["__eq__"](flags, other)

        def hashed(flags: Any) -> int:
            return hashes[type(flags)]

        def resolve(function: Any, context: Any, args: Any, kws: Any) -> Any:
            if function.key[0] not in _RESOLVED or kws:
                return usual["get_call_type"](function, context, args, kws)
            key = function, args
            if key not in resolved:
                resolved[key] = usual["get_call_type"](function, context, args, kws)
            return resolved[key]

        resolved: dict[Any, Any] = {}
        hashes = _Hashes()
        instead = (optimize_functions, optimize, finalize, set_env, equal, hashed, resolve)
        for (owner, name), new in zip(_LEAN, instead, strict=True):
            setattr(owner, name, new)
        try:
            yield
        finally:
            for owner, name in _LEAN:
                setattr(owner, name, usual[name])


class _Hashes(dict):
    """Of Numba's flags, by their class: it hashes the names of all options anew whenever it looks for an implementation."""

    def __missing__(self, kind: type) -> int:
        self[kind] = hash(tuple(sorted(kind.options)))  # type: ignore[attr-defined]
        return self[kind]


_LEAN: tuple[tuple[Any, str], ...] = (
    (CPUCodeLibrary, "_optimize_functions"),
    (CPUCodeLibrary, "_optimize_final_module"),
    (CPUCodeLibrary, "_finalize_final_module"),
    (JITCPUCodegen, "set_env"),
    (TargetConfig, "__eq__"),
    (TargetConfig, "__hash__"),
    (BaseFunction, "get_call_type"),
)
_RESOLVED = frozenset((bool, *(f for f in vars(operator).values() if isinstance(f, types.BuiltinFunctionType))))
_WRAPPERS = ("_ZN7cpython", "cfunc.")  # how Numba names what Python or C may call


def _is_kernel(library: Any) -> bool:
    return any(library.name.startswith(name) for name in _compiled)


def pure(function: Any) -> Callable:
    """The same source as a plain Python function, and so for every jitted function that it calls."""
    return remake(function, lambda plain: plain)


def remake(function: Any, decorate: Callable, memo: dict | None = None, names: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Copy a jitted function and all jitted functions that it reaches, and decorate the copies.

    Copies see what globals hold now, whatever was compiled before. ``inline`` functions stay so in a kernel. ``names`` stand for
    built-in ones. What one kernel of the CPU had compiled serves the next: routing's four share most of their functions.
    """
    memo = {} if memo is None else memo
    source = function.py_func
    if source in memo:
        return memo[source]
    if decorate is inner and source.__module__ == _DRAWS_MODULE:
        return function  # made for kernels already
    fingerprint = Reach(function).fingerprint if decorate is inner and not names else ""
    if fingerprint in _shared:
        memo[source] = _shared[fingerprint]
        return memo[source]

    def new(value: Any, below: dict = _ITSELF) -> Any:
        return _remade(value, below, reads.names, lambda f: remake(f, decorate, memo, names), memo)

    reads, scope = reads_of(source.__code__), dict(source.__globals__)
    cells = [types.CellType() for _ in source.__closure__ or ()]
    code = source.__code__
    for name in names.keys() & reads.globals.keys() - scope.keys():
        code, scope[f"movegrad_{name}"] = _renamed(code, name, f"movegrad_{name}"), names[name]
    copy = types.FunctionType(code, scope, source.__name__, source.__defaults__, tuple(cells))
    copy.__module__, copy.__qualname__, copy.__doc__ = source.__module__, source.__qualname__, source.__doc__
    copy.__defaults__, copy.__kwdefaults__ = new(source.__defaults__), source.__kwdefaults__
    small = len(code.co_code) < _SMALL and not cells and not source.__defaults__ and not names
    pasted = decorate is inner and (small or function.targetoptions.get("inline") == "always")
    if decorate is inner and source.__code__ in _outlined:
        memo[source] = njit(**_CALLED_OPTIONS)(copy)
    else:
        memo[source] = inline(copy) if pasted else decorate(copy)
    for name in reads.globals.keys() & scope.keys():
        scope[name] = new(scope[name], reads.globals[name])
    for name, old, cell in zip(source.__code__.co_freevars, source.__closure__ or (), cells, strict=True):
        cell.cell_contents = new(old.cell_contents, reads.free.get(name, _ITSELF))
    if fingerprint:
        _shared[fingerprint] = memo[source]
    return memo[source]


def _renamed(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """Code that reads another global name, since Numba lets nobody else have the name of a built-in one."""
    if any(step.argval == old and step.opname != "LOAD_GLOBAL" for step in dis.get_instructions(code)):  # an attribute too
        return code
    return code.replace(co_names=tuple(new if name == old else name for name in code.co_names))


def _remade(value: Any, below: dict, names: frozenset, new: Callable, memo: dict) -> Any:
    """A value with the jitted functions in it remade: those in tuples, and those that are read from modules of the user."""
    if is_jitted(value):
        return new(value)
    if isinstance(value, tuple):
        items = [_remade(item, _ITSELF, names, new, memo) for item in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not is_user_module(value) or (id(value), names) in memo:
        return memo.get((id(value), names), value)
    copy = types.ModuleType(value.__name__)
    if None in below:  # by another name, the module may be asked for itself again
        memo[id(value), names] = copy
    for name, found, lower in attributes(value, below, names):
        setattr(copy, name, _remade(found, lower, names, new, memo))
    return copy


_ITSELF: dict = {None: {}}
