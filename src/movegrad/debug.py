"""The first steps of a chain in plain Python, on an instance of any size: where does a move go wrong?

Compiled code does not look at bounds: an index out of range reads what lies there, or ends the process. Here the same functions run
as Python, so that every index is looked at, integers that overflow are noticed, and a debugger stops where it is told to.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import finite_vectors, flag, instance_of, integer_in, positive, seed_in
from movegrad.engine import layout_of
from movegrad.problem import Problem
from movegrad.proof.follow import Follower, Outcome
from movegrad.proof.numbers import ENOUGH, refuel
from movegrad.proof.pure import Dice, PureProblem, place_of
from movegrad.proof.report import Report, WrongProblem, show

__all__ = ["Step", "debug"]

_MAX_DRAWS = 100_000  # of one proposal
_ROUNDING = 1e-6


class Step(NamedTuple):
    """One step of :func:`debug`; ``print`` it.

    Attributes
    ----------
    number : int
        0, 1, …
    move : str
        Its name.
    outcome : str
        "accepted", "refused", "infeasible" or "not applicable".
    log_ratio : float
        What ``propose`` claims.
    difference : float
        Δ of the objective.
    objective : float
        After the step, from scratch.
    solution : (m,) array
        After the step.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.debug(mg.problems.Hypercube(3), np.zeros(3), steps=1, quiet=True)[0].move
    'flip'
    """

    number: int
    move: str
    outcome: str
    log_ratio: float
    difference: float
    objective: float
    solution: np.ndarray

    def __str__(self) -> str:
        numbers = f"Δ = {self.difference:.6g}, log ratio {self.log_ratio:.6g}, objective {self.objective:.6g}"
        return f"step {self.number}: {self.move!r} {self.outcome}, {numbers}, at {show(self.solution)}"


def debug(
    problem: Problem,
    theta: Arrays,
    *,
    steps: int = 100,
    temperature: float = 1.0,
    start: Arrays | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> list[Step]:
    """Make the first steps of a chain in plain Python, with every index looked at, and say where they go wrong.

    Each step asks all questions that a chain and :func:`movegrad.check` ask of a draw; changes of T and gains of φ are
    compared with recomputation. Functions are the user's own lines: ``breakpoint()`` and debuggers stop in them.

    Parameters
    ----------
    problem : Problem
        Of any size; the work is that of Python.
    theta : (d,)
        θ, and the guide.
    steps : int
        How many.
    temperature : float
        t > 0.
    start : (m,), optional
        A solution; by default the problem's own.
    seed : int
        Of the draws, which are not those of a compiled chain.
    quiet : bool
        Print no steps.

    Returns
    -------
    list of Step
        What happened.

    Raises
    ------
    WrongProblem
        With the step, the move, the function and its line.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> walk = mg.debug(mg.problems.TopK(6, 2), np.arange(6.0), steps=20, quiet=True)
    >>> len(walk), {step.move for step in walk}
    (20, {'swap'})
    """
    instance_of(problem, "problem", Problem)
    walk = _Walk(
        problem,
        np.asarray(finite_vectors(theta, "theta", problem.size), float).reshape(problem.size),
        positive(temperature, "temperature"),
        problem.solution if start is None else np.asarray(problem.encode(start)),
        np.random.default_rng(seed_in(seed)),
    )
    quiet, made = flag(quiet, "quiet"), []
    for _ in range(integer_in(steps, "steps", 1)):
        made.append(walk.step())
        if not quiet:
            print(made[-1], file=sys.stdout)
    return made


class _Walk:
    """A chain in plain Python."""

    def __init__(self, problem: Problem, theta: np.ndarray, t: float, start: np.ndarray, rng: np.random.Generator) -> None:
        self._problem, self._theta, self._t, self._rng = problem, theta, t, rng
        self._pure, self._report, self._number, self._move = PureProblem(problem), Report(problem.name), 0, ""
        self._follower = Follower(self._pure, self._report)
        self._weights = layout_of(problem).weights
        with self._told("the start"):
            if not self._pure.contains(start):
                raise WrongProblem(f"the start {show(start)} is not in the set.")
            self._state = self._pure.fresh(start, theta, t)
            self._value = self._objective()

    def step(self) -> Step:
        with self._told(f"step {self._number}"):
            outcome = self._draw()
            if self._report.findings:
                self._wrong(next(iter(self._report.findings.values()))[0].rstrip("."))
            accepted, said = self._decide(outcome)
            difference = outcome.gain + sum(float(self._theta[i]) * v for i, v in outcome.change.items())
            self._state = outcome.applied if accepted else outcome.refused[-1]
            before, self._value = self._value, self._objective() if accepted else self._value
            wanted = self._value - before
            if accepted and not abs(difference - wanted) <= _ROUNDING * max(1.0, abs(self._value), abs(before)):
                self._wrong(f"the objective changes by {wanted:.9g}, but gain and change say {difference:.9g}")
        made = Step(self._number, self._move, said, outcome.log_ratio, difference, self._value, self._solution())
        self._number += 1
        return made

    def _draw(self) -> Outcome:
        mask, self._state = self._follower.applicable(self._state)
        moves = self._follower.moves(mask)
        if not moves:
            self._wrong("no move applies")
        weights = self._weights[moves]
        s = int(self._rng.choice(moves, p=weights / weights.sum()))
        self._move = self._pure.moves[s].name
        return self._follower.draw(self._state, s, Dice(self._rng, max_draws=_MAX_DRAWS), look=True)

    def _decide(self, outcome: Outcome) -> tuple[bool, str]:
        if outcome.log_ratio == -np.inf:
            return False, "not applicable"
        if not outcome.target:
            return False, "infeasible"
        difference = outcome.gain + sum(float(self._theta[i]) * v for i, v in outcome.change.items())
        accepted = self._rng.random() < np.exp(min(0.0, difference / self._t + outcome.log_ratio))
        return bool(accepted), "accepted" if accepted else "refused"

    def _solution(self) -> np.ndarray:
        return np.array(self._pure.desk.field(self._state, 0))

    def _objective(self) -> float:
        y = self._solution()
        return float(self._theta @ self._pure.statistic(y)) + self._pure.phi(y)

    def _wrong(self, sentence: str) -> None:
        raise WrongProblem(f"step {self._number}, move {self._move!r}: {sentence}, at {show(self._solution())}.")

    def _told(self, when: str) -> "_Told":
        return _Told(self, when)

    def where(self, when: str) -> str:
        return f"{when}, move {self._move!r}" if self._move else when


class _Told:
    """Whatever a function of the problem raises is told with the step, the move, the function and its line."""

    def __init__(self, walk: _Walk, when: str) -> None:
        self._walk, self._when = walk, when

    def __enter__(self) -> None:
        refuel(ENOUGH)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        refuel()
        if isinstance(error, Exception) and not isinstance(error, WrongProblem) and place_of(error):
            where, place = self._walk.where(self._when), place_of(error)
            raise WrongProblem(f"{where}: {type(error).__name__}: {error}{place}.") from error
