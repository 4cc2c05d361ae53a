"""The command ``movegrad``."""

import argparse
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from movegrad._doctor import main as doctor
from movegrad._validate import seed_in, shown, why
from movegrad._version import __version__
from movegrad.check import WrongProblem, check
from movegrad.debug import debug
from movegrad.problem import Problem


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 if a check failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="movegrad", description="Differentiable layers from local search.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("check", help="prove a problem's moves right on a small instance")
    checker.add_argument(
        "target", metavar="MODULE:OBJECT", help="a Problem or a function that returns one, in a module or a .py file"
    )
    checker.add_argument("--max-states", type=_integer, default=5_000, help="test larger sets locally (default: %(default)s)")
    checker.add_argument("--local", action="store_true", help="walk on the instance instead of listing its solutions: no proof")
    checker.add_argument("--no-compiled", action="store_true", help="leave out the compiled chain")
    checker.add_argument("--seed", type=_integer, default=0, help="of the θ that are tried (default: %(default)s)")
    debugger = commands.add_parser("debug", help="make the first steps in plain Python, with every index looked at")
    debugger.add_argument("target", metavar="MODULE:OBJECT", help="as for check; of any size")
    debugger.add_argument("--steps", type=_integer, default=20, help="default: %(default)s")
    debugger.add_argument("--seed", type=_integer, default=0, help="of θ and the draws (default: %(default)s)")
    commands.add_parser("doctor", help="print versions, threads, cache, GPU and a self-test, to paste into a bug report")
    commands.add_parser("version", help="print the version")
    options = parser.parse_args(arguments)
    if options.command == "version":
        print(__version__)
        return 0
    if options.command == "doctor":
        return doctor()
    try:
        if options.command == "debug":
            return _debug(load(options.target), options.steps, options.seed)
        report = check(
            load(options.target), max_states=options.max_states, seed=options.seed, local=options.local or None,
            compiled=not options.no_compiled,
        )  # fmt: skip
    except ValueError as error:
        print(f"movegrad {options.command}: {error}", file=sys.stderr)
        return 2
    print(report)
    return 0 if report.ok else 1


def _debug(problem: Problem, steps: int, seed: int) -> int:
    theta = np.random.default_rng(seed_in(seed)).normal(size=problem.size)
    try:
        debug(problem, theta, steps=steps, seed=seed)
    except WrongProblem as error:
        print(error)
        return 1
    return 0


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {shown(text)}.") from None


def load(target: str) -> Problem:
    """The problem named by ``module:object`` or ``file.py:object``; a function is called without arguments."""
    place, _, name = target.rpartition(":")
    if not place:
        raise ValueError(f"target must be MODULE:OBJECT, got {shown(target)}.")
    with _told(f"target must name a module that can be imported, got {shown(place)}"):
        module = _module(place)
    with _told(f"target must name an object of {place:.60}, got {shown(name)}"):
        found = getattr(module, name)
    with _told(f"target must be callable without arguments, got {shown(name)}"):
        problem = found() if callable(found) and not isinstance(found, Problem) else found
    if not isinstance(problem, Problem):
        raise ValueError(f"target must be a Problem or a function that returns one, got {type(problem).__name__}.")
    return problem


class _BadTarget(ValueError):
    """A target that was found wrong here, not by the user's code."""


@contextmanager
def _told(sentence: str) -> Iterator[None]:
    """Whatever the user's code raises, exits included, ends the sentence, with the line where it was raised."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, _BadTarget):
            raise
        line = traceback.extract_tb(error.__traceback__)[-1]
        place = "" if line.filename == __file__ else f" in {Path(line.filename).name}:{line.lineno}"
        raise ValueError(f"{sentence} ({type(error).__name__}: {why(error)}{place}).") from None


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(place)
    path = Path(place)
    if not path.is_file():
        raise _BadTarget(f"target must name a file, got {shown(place)}, which does not exist.")
    name = f"movegrad_checked_{path.stem}"  # not the stem alone: a file random.py would stand for Python's own
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module
