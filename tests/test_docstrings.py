"""Docstrings of public names: sections of numpydoc, every parameter, what is returned, and examples that run."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

import movegrad as mg

MODULES = {  # and what they need
    "movegrad": "numba",
    "movegrad.check": "numba",
    "movegrad.diagnostics": "numba",
    "movegrad.exact": "numba",
    "movegrad.problem": "numba",
    "movegrad.problems": "numba",
    "movegrad.problems.routing": "numba",
    "movegrad.sampling": "numba",
    "movegrad.schedules": "numba",
    "movegrad.start": "numba",
    "movegrad.plot": "matplotlib",
    "movegrad.torch": "torch",
    "movegrad.jax": "jax",
    "movegrad.integrations.pyepo": "pyepo",
    "movegrad.integrations.pyvrp": "pyvrp",
}
SECTIONS = (
    "Parameters", "Attributes", "Returns", "Raises", "Warns", "See Also", "Notes", "References", "Examples",
)  # fmt: skip
CALLED = ("forward", "__call__")


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions and classes that a module offers."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value


def sections(docstring: str) -> dict[str, str]:
    """The parts of a docstring by their titles; what comes first has the title ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> Iterator[tuple[list[str], str]]:
    """Names of an entry and all that is said of them."""
    for entry in re.split(r"\n(?=\S)", section.strip("\n")):
        head, _, kind = entry.partition(" : ")
        yield [name.strip("* ") for name in head.split(",")], kind.strip()


def complaints(name: str, value: Any, *, needs_example: bool = True) -> Iterator[str]:
    """What is wrong with the docstring of a function, a class or a method."""
    own = value.__doc__ if not inspect.isclass(value) else vars(value).get("__doc__")
    if not own:
        yield f"{name} has no docstring"
        return
    parts = sections(own)
    titles = [title for title in parts if title]
    if unknown := [title for title in titles if title not in SECTIONS]:
        yield f"{name} has sections that numpydoc does not know: {unknown}"
    elif titles != sorted(titles, key=SECTIONS.index):
        yield f"{name} has its sections in another order than numpydoc: {titles}"
    told = {n: text for part in ("Parameters", "Attributes") for names, text in entries(parts.get(part, "")) for n in names if n}
    yield from (f"{name} says nothing of {n}" for n, text in told.items() if not text)
    unmade = inspect.isclass(value) and (issubclass(value, Exception) or getattr(value, "_is_protocol", False))
    taken = [] if unmade else [n for n in inspect.signature(value).parameters if not n.startswith("_") and n != "self"]
    yield from (f"{name} does not name its parameter {n}" for n in taken if n not in told)
    described = [n for names, _ in entries(parts.get("Parameters", "")) for n in names if n]
    yield from (f"{name} has no parameter {n}" for n in described if n not in taken)
    if not inspect.isclass(value) and "Returns" not in parts and inspect.signature(value).return_annotation is not None:
        yield f"{name} does not say what it returns"
    if needs_example and ">>>" not in parts.get("Examples", ""):
        yield f"{name} has no example"


def all_complaints(module: ModuleType) -> Iterator[str]:
    if not module.__doc__:
        yield f"{module.__name__} has no docstring"
    for name, value in public(module):
        yield from complaints(name, value)
        if not inspect.isclass(value):
            continue
        for method, found in vars(value).items():
            function = found.__func__ if isinstance(found, staticmethod) else found
            if _is_read_like_a_function(value, method, function):
                yield from complaints(f"{name}.{method}", function, needs_example=False)
            elif not method.startswith("_") and isinstance(function, (FunctionType, property)) and not _doc(value, method):
                yield f"{name}.{method} has no docstring"


def _is_read_like_a_function(owner: type, method: str, function: Any) -> bool:
    """Calls of layers and losses, and what problems offer by themselves."""
    if method in CALLED:
        return owner.__module__ not in ("movegrad.start", "movegrad.exact")
    return issubclass(owner, mg.Problem) and not method.startswith("_") and inspect.isfunction(function) and bool(function.__doc__)


def _doc(owner: type, method: str) -> str | None:
    """Its own, or that of what it stands for."""
    return inspect.getdoc(getattr(owner, method))


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    pytest.importorskip(MODULES[request.param])
    return importlib.import_module(request.param)


def test_docstrings_say_what_goes_in_and_what_comes_out(module: ModuleType) -> None:
    assert list(all_complaints(module)) == []


def test_examples_run(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name, value in [(module.__name__, module), *public(module)]:
        for test in finder.find(value, name, globs={}):
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


def test_fields_of_results_are_told() -> None:
    for record in (mg.Sample, mg.Solution):
        for field in record._fields:
            assert not getattr(record, field).__doc__.startswith("Alias for"), f"{record.__name__}.{field}"


def example(x: int, y: int) -> int:
    """Add.

    Parameters
    ----------
    x : int
    z : int
        Another one.

    Shape
    -----
    None.
    """
    return x + y


def test_the_checker_finds_what_is_missing() -> None:
    assert list(complaints("example", example)) == [
        "example has sections that numpydoc does not know: ['Shape']",
        "example does not name its parameter y",
        "example has no parameter z",
        "example does not say what it returns",
        "example has no example",
    ]
