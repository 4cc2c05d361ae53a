"""What compiled code depends on: the names that functions read, a hash of what stands behind them, and whether it has changed.

Numba takes globals, attributes of modules and closures as constants when it compiles. A kernel is therefore known by a fingerprint
of all that its functions reach, and before each use :meth:`Reach.unchanged` compares what stands there now.
"""

import dis
import enum
import hashlib
import pickle
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.core import config
from numba.core.registry import CPUDispatcher

LARGEST_CONSTANT = 10**6  # bytes of a global array that Numba copies into code; it reads larger ones where they lie
_KNOWN = ("numpy", "numba", "llvmlite", "math", "builtins")  # packages whose contents do not change
_ENGINE = tuple(f"movegrad.{name}" for name in ("engine.loop", "engine.bind", "engine.draws", "engine.compile", "cuda.kernel"))
# These are reached by ways of Numba's that globals do not show, and compiler options are set in one of them.
_SOURCES = [
    Path(__file__).with_name(name).read_bytes() for name in ("draws.py", "compile.py", "clock.py", "bits.py", "reference.py")
]
_SETTINGS = " ".join(str(vars(config)[name]) for name in ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")).encode()
_ABSENT = object()


def is_jitted(function: object) -> bool:
    return isinstance(function, CPUDispatcher)


def is_user_module(value: object) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__.split(".")[0] not in _KNOWN


# --- names -----------------------------------------------------------------------------------------------------------


class Reads(NamedTuple):
    """Names that code reads, with the attributes taken from them: ``a.b.C`` is {"a": {"b": {"C": {None: {}}}}}.

    ``None`` says that the value itself is used, which may be a module that goes by another name from there on: then ``names``,
    all attributes in the code, may be its own.
    """

    globals: dict
    free: dict
    names: frozenset


@cache
def reads_of(code: types.CodeType) -> Reads:
    """What code reads, inner functions included."""
    reads = Reads({}, {}, frozenset(_names(code)))
    for is_global, path in _paths(code):
        node = reads.globals if is_global else reads.free
        for name in path:
            node = node.setdefault(name, {})
        node[None] = {}
    return reads


def _paths(code: types.CodeType) -> Iterator[tuple[bool, list[str]]]:
    """Whether a name is global, and the name with the attributes that follow it: ["helpers", "costs", "SCALE"]."""
    is_global = True
    path: list[str] = []
    for instruction in dis.get_instructions(code):
        operation = instruction.opname
        if operation in ("LOAD_ATTR", "LOAD_METHOD") and path:
            path.append(instruction.argval)
        elif operation != "EXTENDED_ARG":
            if path:
                yield is_global, path
            is_global = operation in ("LOAD_GLOBAL", "LOAD_NAME")
            path = [instruction.argval] if is_global or operation == "LOAD_DEREF" else []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _paths(constant)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
        elif isinstance(constant, str):  # of getattr
            yield constant


def attributes(module: types.ModuleType, below: dict, names: frozenset) -> Iterator[tuple[str, Any, dict]]:
    """(name, value, what is read below it) of the attributes of a module that code reads."""
    for name in below.keys() - {None}:
        value = vars(module).get(name, _ABSENT)
        if value is _ABSENT:  # made by the module when asked
            value = getattr(module, name, _ABSENT)
        if value is not _ABSENT:
            yield name, value, below[name]
    if None in below:
        for name in names & vars(module).keys() - below.keys():
            yield name, vars(module)[name], {None: {}}


def contents(cell: types.CellType) -> Any:
    """What a closure's cell holds; a mark of its own while it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


# --- values ----------------------------------------------------------------------------------------------------------


class Reach:
    """Everything that compiled code of some functions depends on.

    Arrays count by their content, also when they are edited in place, unless they are too large to be copied into code: then
    compiled code reads them where they lie, and which array it is counts. ``largest`` is that size.

    Parameters
    ----------
    functions : what is compiled
    """

    def __init__(self, *functions: Any, largest: float = LARGEST_CONSTANT) -> None:
        self._largest, self._seen = largest, dict[Any, int]()
        self._cells: dict[tuple[int, str], tuple[Mapping, str, Any]] = {}  # names in modules
        self._closures: list[tuple[types.CellType, Any]] = []
        self._arrays: list[tuple[np.ndarray, bytes]] = []
        self._hash = hashlib.sha256(b"".join([*_SOURCES, _SETTINGS]))
        for function in functions:
            self._add(function)
        self.fingerprint = self._hash.hexdigest()[:16]
        self._sort()

    def unchanged(self) -> bool:
        """Does all of it still stand there? Takes some ten nanoseconds for each name, and a comparison of each array."""
        try:
            for read, scope, values in self._groups:
                if read(scope) != values:
                    return False
            for scope, name, value in self._constants:
                if scope[name] is not value:
                    return False
            for scope, names in self._absent:
                if not scope.keys().isdisjoint(names):
                    return False
            for cell, value in self._closures:
                if cell.cell_contents is not value:
                    return False
            for array, content in self._arrays:
                if array.tobytes() != content:
                    return False
        except Exception:  # a name that is gone, or a value that cannot be compared with the old one
            return False
        return True

    def _sort(self) -> None:
        """Make comparing cheap: functions and modules of a scope at once, since they are equal only if they are the same."""
        scopes = {id(scope): scope for scope, _, _ in self._cells.values()}
        cells = [(key, name, value) for (key, name), (_, _, value) in self._cells.items()]
        self._constants = [(scopes[k], name, v) for k, name, v in cells if v is not _ABSENT and not isinstance(v, _SINGLE)]
        self._groups, self._absent = [], []
        for key, scope in scopes.items():
            single = [(name, v) for k, name, v in cells if k == key and isinstance(v, _SINGLE)]
            absent = [name for k, name, v in cells if k == key and v is _ABSENT]
            if single:
                names, values = zip(*single, strict=True)
                self._groups.append((itemgetter(*names), scope, values if len(values) > 1 else values[0]))
            if absent:
                self._absent.append((scope, frozenset(absent)))

    # --- what is reached -----------------------------------------------------------------------------------------------

    def _text(self, *texts: object) -> None:
        for text in texts:
            self._hash.update(str(text).encode(errors="surrogatepass") + b"\0")

    def _known(self, value: Any) -> bool:
        """Was a function or class met before? Its number says which it was: others may have its name."""
        known = value in self._seen
        self._text(value.__qualname__, self._seen.setdefault(value, len(self._seen)))
        return known

    def _add(self, value: Any) -> None:
        if is_jitted(value):
            self._add_function(value)
        elif isinstance(value, types.FunctionType):  # not compiled: stands for what is registered for it
            self._text(value.__module__, value.__qualname__)
            self._add_code(value.__code__)
        elif isinstance(value, types.ModuleType):
            self._text(value.__name__)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, enum.Enum):
            self._text(type(value).__qualname__, value.name)
            self._add(value.value)
        elif isinstance(value, (list, tuple)):
            self._text(type(value).__qualname__, len(value), getattr(value, "_fields", ""))
            for item in value:
                self._add(item)
        elif isinstance(value, dict):
            self._add([part for item in value.items() for part in item])
        elif isinstance(value, (set, frozenset)):
            self._text(type(value).__qualname__, sorted(map(repr, value)))
        elif isinstance(value, (np.ndarray, np.generic)):
            self._add_array(value)
        elif isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
            self._text(type(value).__qualname__, repr(value))
        elif is_dataclass(value):
            self._text(type(value).__qualname__)
            self._add([getattr(value, f.name) for f in fields(value)])
        else:
            self._text(_opaque(value))

    def _add_function(self, function: Any) -> None:
        source = function.py_func
        if self._known(source):
            return
        self._text(sorted(function.targetoptions.items()))
        self._add_code(source.__code__)
        self._add([source.__defaults__, source.__kwdefaults__])
        reads, watched = reads_of(source.__code__), source.__module__ not in _ENGINE
        for name in sorted(reads.globals):
            value = source.__globals__.get(name, _ABSENT)
            if watched:
                self._cells[id(source.__globals__), name] = source.__globals__, name, value
            self._add_read(name, value, reads.globals[name], reads.names, watched)
        for name, cell in zip(source.__code__.co_freevars, source.__closure__ or (), strict=True):
            value = contents(cell)
            if watched and value is not _ABSENT:
                self._closures.append((cell, value))
            self._add_read(name, value, reads.free.get(name, {}), reads.names, watched)

    def _add_read(self, name: str, value: Any, below: dict, names: frozenset, watched: bool) -> None:
        """A value that code reads, or reads attributes of."""
        if value is _ABSENT:
            return
        self._text(name)
        self._add(value)
        if not is_user_module(value) or (id(value), names) in self._seen:
            return
        if None in below:  # by another name, the module may be asked for itself again
            self._seen[id(value), names] = len(self._seen)
        for attribute, found, lower in sorted(attributes(value, below, names), key=itemgetter(0)):
            if watched and attribute in vars(value):
                self._cells[id(vars(value)), attribute] = vars(value), attribute, found
            self._add_read(attribute, found, lower, names, watched)

    def _add_class(self, value: type) -> None:
        self._text(value.__module__, getattr(value, "_fields", ""))
        if self._known(value) or value.__module__.split(".")[0] in _KNOWN:
            return
        if issubclass(value, enum.Enum):
            self._add(list(value.__members__.values()))
        for name, constant in sorted(vars(value).items()):
            if not name.startswith("_") and isinstance(constant, _PLAIN):
                self._text(name)
                self._add(constant)
        self._add(getattr(value, "_field_defaults", None))

    def _add_array(self, array: Any) -> None:
        self._text(array.dtype, array.shape, array.strides)
        if array.nbytes > self._largest or not (array.flags.c_contiguous or array.flags.f_contiguous):
            self._text(id(array))
            return
        content = array.tobytes()
        self._text(hashlib.sha256(content).hexdigest())
        if isinstance(array, np.ndarray) and id(array) not in self._seen:
            self._seen[id(array)] = len(self._seen)
            self._arrays.append((array, content))

    def _add_code(self, code: types.CodeType) -> None:
        self._text((code.co_code, code.co_names, code.co_varnames, code.co_freevars))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant)
            else:
                self._add(constant)


_SINGLE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, CPUDispatcher)  # equal only to themselves
_PLAIN = (bool, int, float, complex, str, bytes, tuple, enum.Enum, np.ndarray, np.generic)


def _opaque(value: Any) -> str:
    """An object of another kind: its pickle, or an identity of this process alone (no cache hit, never a stale one)."""
    if isinstance(getattr(value, "_defn", None), types.FunctionType):  # an intrinsic of Numba
        return repr(value._defn.__code__.co_code)
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # pickle raises whatever the object's own hooks raise
        return f"{type(value).__qualname__} {id(value)}"


def while_unchanged(make: Callable[..., tuple[Any, Reach]]) -> Callable:
    """Remember what ``make`` gives for its arguments, as long as nothing has changed that the compiled code depends on."""
    known: dict[tuple, tuple[Any, Reach]] = {}

    def remembered(*key: Any) -> Any:
        found = known.get(key)
        if found is None or not found[1].unchanged():
            found = known[key] = make(*key)
        return found[0]

    return remembered
