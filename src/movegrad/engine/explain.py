"""Why a kernel does not compile: which function of the user is to blame, on which line, and what it should return.

What Numba says of a whole kernel names the template, not the function that returned something else than the template takes. So
when a kernel does not compile, the problem's functions are compiled one by one for the types that a kernel gives them.
"""

import dis
import re
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, typeof
from numba.core import types as nb
from numba.core.errors import NumbaError

from movegrad.engine.compile import inner, remake

_LINE = re.compile(r'(?:at|File) "?(\S+?\.py)"?,? \(?(?:line )?(\d+)')  # as Numba tells a file and a line


@contextmanager
def readable_errors(problem: Any, target: str = "a kernel") -> Iterator[None]:
    """Turn what Numba raises into a sentence about a function of this problem; the whole text stays as its cause."""
    try:
        yield
    except Exception as error:  # Numba raises more than its own errors
        sentence = blame(problem, target)
        if sentence is None and not isinstance(error, NumbaError):
            raise
        raise ValueError(sentence or _unexplained(problem, str(error), target)) from error


def blame(problem: Any, target: str) -> str | None:
    """The sentence about the first function that does not compile or returns what it should not; None if all are right."""
    found: dict[str, Any] = {}  # what proposals return, by move
    for part in _parts(problem):
        function, owner = part.function, part.owner
        try:
            takes = tuple(_argument(name, problem, found.get(owner)) for name in ARGUMENTS[part.name])
            returned = _returned(function, takes)
        except Exception as error:  # Numba raises more than its own errors
            text, at = str(error), defined_at(function, _line(function, str(error)))
            return f"{part.name} of {owner} must compile for {target}, but {reason(text)} ({at})."
        wanted = RETURNS.get(part.name)
        if wanted is not None and not wanted.fits(returned):
            return f"{part.name} of {owner} must return {wanted.text}, got {_told(returned)} ({defined_at(function)})."
        if part.name == "propose":
            found[owner] = returned[0]
    return None


def _unexplained(problem: Any, text: str, target: str) -> str:
    """Where each function compiles by itself, or only CUDA refuses it: what Numba's text tells."""
    named = re.findall(r"(?:CPU|CUDA)Dispatcher\(<function (\w+) at", text) + re.findall(r">>> (\w+)\(", text)
    part = next((part for name in named for part in _parts(problem) if _reaches(part.function.py_func, name)), None)
    if part is None:
        return f"a function of {problem.name} must compile for {target}, but {reason(text)}."
    at = defined_at(part.function, _line(part.function, text))
    return f"{part.name} of {part.owner} must compile for {target}, but {reason(text)} ({at})."


def _reaches(function: Any, name: str) -> bool:
    """Is a function the one of this name, or does it read or call what has it?"""
    names = function.__code__.co_names
    known = (function.__globals__.get(called) for called in names)
    return name in (function.__name__, *names) or any(_reaches(f.py_func, name) for f in known if hasattr(f, "py_func"))


# --- what is to be returned --------------------------------------------------------------------------------------------


_TUPLES = (nb.Tuple, nb.UniTuple, nb.NamedTuple, nb.NamedUniTuple)


class Wanted(NamedTuple):
    text: str
    fits: Callable[[Any], bool]


def _is_real(kind: Any) -> bool:
    return isinstance(kind, (nb.Integer, nb.Float, nb.Boolean))


def _is_whole(kind: Any) -> bool:
    return isinstance(kind, (nb.Integer, nb.Boolean))


def _is_pair(kind: Any) -> bool:
    return isinstance(kind, _TUPLES) and len(kind) == 2


def _is_move(kind: Any) -> bool:
    """A number, or a tuple of them, of tuples of them, …"""
    return all(_is_move(k) for k in kind.types) if isinstance(kind, _TUPLES) else _is_real(kind)


_NUMBER, _TRUTH = Wanted("a number", _is_real), Wanted("True or False", _is_real)
_MASK = Wanted("an integer, a bit for each move", _is_whole)
RETURNS = {
    "propose": Wanted(
        "the pair (move, log q(y',y) − log q(y,y')), with 0.0 for a symmetric proposal",
        lambda kind: _is_pair(kind) and _is_move(kind[0]) and _is_real(kind[1]),
    ),
    "change": Wanted(
        "the pair (index, difference) of the m-th entry of T that changes",
        lambda kind: _is_pair(kind) and _is_whole(kind[0]) and _is_real(kind[1]),
    ),
    "changes": Wanted("how many entries of T change", _is_whole),
    "gain": _NUMBER,
    "score": _NUMBER,
    "phi": _NUMBER,
    "feasible": _TRUTH,
    "contains": _TRUTH,
    "applicable": _MASK,
    "applicable_after": _MASK,
}
ARGUMENTS = {
    "prepare": ("data", "guide", "temperature", "state"),
    "attach": ("data", "theta", "state"),
    "statistic": ("data", "solution", "out"),
    "phi": ("data", "solution"),
    "contains": ("data", "solution"),
    "random": ("data", "rng", "solution"),
    "greedy": ("data", "guide", "state"),
    "improve": ("data", "guide", "state"),
    "applicable": ("data", "state"),
    "propose": ("data", "state", "rng"),  # before those that take a move
    "changes": ("data", "state", "move"),
    "change": ("data", "state", "move", "m"),
    "gain": ("data", "state", "move"),
    "feasible": ("data", "state", "move"),
    "apply": ("data", "state", "move"),
    "applicable_after": ("data", "state", "move"),
    "apply_if": ("data", "state", "move", "accepted"),
    "score": ("data", "theta", "state", "move"),
    "follow": ("data", "theta", "state", "move"),
}


class End(NamedTuple):
    """A return in the byte code of a function."""

    gives: bool  # something else than None
    line: int | None


def _ends(code: types.CodeType) -> list[End]:
    ends, loaded = [], True
    for step in dis.get_instructions(code):
        if step.opname.startswith("RETURN_"):
            gives = step.argval is not None if step.opname == "RETURN_CONST" else loaded
            ends.append(End(gives, step.positions.lineno if step.positions else None))
        loaded = not (step.opname == "LOAD_CONST" and step.argval is None)
    return ends


def returns_nothing(function: Any) -> bool:
    """Whether no way through a Python function returns a value."""
    ends = _ends(function.__code__)
    return bool(ends) and not any(end.gives for end in ends)


def ends_without_value(problem: Any) -> str | None:
    """The sentence about the first function that returns nothing at one of its ends; chains that come there stop."""
    for part in _parts(problem):
        lost = [end.line for end in _ends(part.function.py_func.__code__) if not end.gives]
        if part.name in RETURNS and lost:
            wanted, at = RETURNS[part.name].text, defined_at(part.function, lost[-1])
            return f"{part.name} of {part.owner} must always return {wanted}, got nothing at one of its ends ({at})."
    return None


# --- functions and their types -------------------------------------------------------------------------------------------


class Part(NamedTuple):
    name: str
    owner: str  # the problem or a move
    function: Any


def _parts(problem: Any) -> Iterator[Part]:
    """The functions that the user gave, those of which others need something first."""
    owners = [(problem.functions, problem.name), *((m, f"move {m.name!r} of {problem.name}") for m in problem.moves)]
    for of, owner in owners:
        for name in ARGUMENTS:
            function = getattr(of, name, None)
            if hasattr(function, "py_func"):
                yield Part(name, owner, function)


def _argument(name: str, problem: Any, move: Any) -> Any:
    """The type that a kernel gives to an argument of this name."""
    if name in ("data", "state"):
        record = getattr(problem, name)
        return typeof(type(record)(*(np.array(f) if np.ndim(f) else np.asarray(f)[()] for f in record)))
    solution, numbers, words = np.array(problem.solution), np.zeros(1), np.zeros(2, np.uint64)
    arrays = {"solution": solution, "guide": numbers, "out": numbers, "rng": words}
    return typeof(arrays[name]) if name in arrays else {"temperature": float64, "m": int64, "accepted": int64, "move": move}[name]


def _returned(function: Any, takes: tuple) -> Any:
    """The type that a function returns, compiled as in a kernel."""
    compiled = remake(function, inner)
    compiled.compile(takes)
    return _plain(compiled.overloads[takes].signature.return_type)


def _plain(kind: Any) -> Any:
    """A type without what is known of its value."""
    if isinstance(kind, _TUPLES):
        return nb.Tuple([_plain(k) for k in kind.types])
    return nb.unliteral(kind)


# --- words ---------------------------------------------------------------------------------------------------------------


def reason(text: str) -> str:
    """What Numba complains of, in a line."""
    if re.search(r"NRT required|_allocate|built-in function (zeros|ones|empty|full|array)>", text):
        return "it allocates memory"
    plain = re.search(r"Untyped global name '(\w+)'.*\n?.*<class 'function'>", text)
    if plain:
        return f"{plain[1]} is a plain Python function, which movegrad.jit would compile"
    missing = re.search(r"No implementation of function .* found for signature:\s*>>> (.*)", text)
    if missing:
        return f"there is no {missing[1].strip():.120}"
    lines = (line.strip() for line in text.splitlines())
    told = next((line for line in lines if line and not line.startswith("Failed in")), "Numba refuses it")
    return told.rstrip(".")[:160]


def _told(kind: Any) -> str:
    """A type as a user would call it."""
    if isinstance(kind, nb.Optional):
        return f"{_told(kind.type)} or nothing"
    if isinstance(kind, _TUPLES):
        return f"the tuple ({', '.join(map(_told, kind.types))})"
    return next((word for known, word in _WORDS.items() if isinstance(kind, known)), f"{kind!s:.80}")


_WORDS = {
    nb.NoneType: "nothing",
    nb.Boolean: "a truth value",
    nb.Integer: "an integer",
    nb.Float: "a float",
    nb.Complex: "a complex number",
    nb.UnicodeType: "text",
    nb.Array: "an array",
}


def defined_at(function: Any, line: int | None = None) -> str:
    """Name, file and line of a function, by default that of its first return."""
    code = function.py_func.__code__
    if line is None:
        line = next((end.line for end in _ends(code) if end.line), code.co_firstlineno)
    return f"{function.py_func.__name__}, {code.co_filename}:{line}"


def _line(function: Any, text: str) -> int | None:
    """The line of a function's file that an error tells."""
    file = Path(function.py_func.__code__.co_filename).name
    return next((int(line) for told, line in _LINE.findall(text) if Path(told).name == file), None)
