"""Where problems with a planted mistake, and unusual ones without any, are written down."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import movegrad as mg
from movegrad.problem import Functions


@dataclass(frozen=True)
class Case:
    """A problem for ``check``. ``kinds``: findings any of which is the right one; none for a problem that is right.

    ``hidden`` says why the law of the compiled chain cannot show the mistake; if it is empty, the law differs from the Gibbs law
    for some θ of standard deviation ``scale`` at temperature ``t``, which :mod:`tests.mutants.law` shows with so many chains.
    ``compiled``: only the compiled chain gives the mistake away.
    """

    name: str
    sentence: str
    build: Callable[[], mg.Problem]
    kinds: frozenset[str] = frozenset()
    hidden: str = ""
    scale: float = 1.0
    t: float = 1.0
    chains: int = 8_000
    compiled: bool = False


TOO_SMALL = "the law is off by a percent or less, which takes more chains to show than are run here"

WRONG: dict[str, Case] = {}
RIGHT: dict[str, Case] = {}


def wrong(*kinds: str, **options: Any) -> Callable:
    """Register a function that builds a wrong problem; its docstring says what is wrong with it."""

    def register(build: Callable[[], mg.Problem]) -> Callable[[], mg.Problem]:
        _add(WRONG, build, kinds=frozenset(kinds), **options)
        return build

    return register


def right(build: Callable | None = None, **options: Any) -> Callable:
    """Register a function that builds a right problem; its docstring says what is unusual about it."""
    if build is None:
        return lambda function: right(function, **options)
    _add(RIGHT, build, **options)
    return build


def _add(cases: dict[str, Case], build: Callable[[], mg.Problem], **options: Any) -> None:
    name = build.__name__
    if name in WRONG or name in RIGHT:
        raise ValueError(f"name must be new, got {name!r} a second time.")
    cases[name] = Case(name, " ".join((build.__doc__ or "").split()), build, **options)


_OF_MOVE = ("propose", "change", "apply", "changes", "gain", "feasible", "applicable_after", "weight")
_OF_PROBLEM = (*Functions._fields, "guided", "uniform", "states", "oracle")


def vary(problem: mg.Problem, which: int = 0, **changed: Any) -> mg.Problem:
    """The problem with some parts exchanged: functions of move number ``which``, functions of the problem, or its parts."""
    of_move = {k: changed.pop(k) for k in _OF_MOVE if k in changed}
    moves = list(changed.pop("moves", problem.moves))
    moves[which] = replace(moves[which], **of_move)
    parts = {**problem.functions._asdict(), "guided": problem.guided, "uniform": problem.uniform, "states": problem.states}
    parts |= {k: changed.pop(k) for k in _OF_PROBLEM if k in changed}
    data, state, size = (changed.pop(k, getattr(problem, k)) for k in ("data", "state", "size"))
    if changed:
        raise TypeError(f"parts must be of a problem or a move, got {sorted(changed)}.")
    return mg.Problem(data, state, moves, size, name=problem.name, **parts)
