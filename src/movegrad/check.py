"""Prove that a problem's moves are right, on a small instance; test them on a large one.

A wrong correction ratio does not crash and hardly shows in experiments. Since moves draw only through finite choices, their laws
can be computed exactly: :func:`check` runs the same source in plain Python under every outcome of every draw, from every solution,
and then the compiled chain against these laws.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from movegrad._validate import flag, instance_of, integer_in, positive, seed_in, shown
from movegrad.problem import Problem
from movegrad.proof.balance import Balance, stationary_law
from movegrad.proof.compiled import FALSE_ALARMS, Compiled, Pair
from movegrad.proof.laws import Laws
from movegrad.proof.local import LocalTest
from movegrad.proof.pure import TooManyDraws, TooManySolutions, place_of, solutions
from movegrad.proof.report import Report, WrongProblem
from movegrad.proof.starts import Starts

__all__ = ["Report", "WrongProblem", "check", "stationary_law"]

_LARGE = 800.0  # of |θ|: e^θ overflows
_SMALL = 1e-3  # temperature
_RELEVANT = 1e3  # times the least temperature: below it, differences are compared more finely than to 10⁻⁹
_FATAL = {"draws", "error", "overflow", "proposal"}  # what else is found after these would only repeat them


def check(
    problem: Problem,
    *,
    temperatures: Sequence[float] = (0.5, 1.0, 3.0),
    max_states: int = 5_000,
    tolerance: float = 1e-10,
    seed: int = 0,
    local: bool | None = None,
    compiled: bool = True,
) -> Report:
    """Compute the exact law of every move on every solution, and compare it with what the moves claim and what the kernel does.

    Proved, by running every outcome of every draw from every solution: ratios against q(y', y)/q(y, y') (the condition that is
    necessary and sufficient for detailed balance under every objective); changes of T and gains of φ against recomputation;
    ``feasible`` and ``contains``; that ``apply_if`` does what ``apply`` does; that every solution is reached; that no proposal,
    accepted or refused, leaves a derived field behind; that answers do not depend on the order of questions or on what memory held;
    the law of ``random``; that ``greedy`` and ``improve`` stay in the set; detailed balance and the stationary law for θ of both
    signs, zero, tied and large.

    Tested, with at most one false alarm in a million checks: the compiled chain against these laws, after one step, six steps and
    along long runs; its means and objectives are compared exactly with the solutions it visits.

    Parameters
    ----------
    problem : Problem
        A small instance: the work grows with solutions × draws.
    temperatures : sequence of float
        Temperatures to try. Where the least is below 10⁻³, changes of T and φ are compared to 10⁻⁶ of it, else to 10⁻⁹.
    max_states : int
        Larger sets are tested locally.
    tolerance : float
        On ratios, balance and law; exact up to rounding is about 1e-15.
    seed : int
        Of the θ that are tried, and of the compiled chains.
    local : bool, optional
        True: walk on the instance and test the draws met there, whatever its size: no proof. False: refuse sets that are too large.
        By default, sets that are too large are tested locally, and the report says so.
    compiled : bool
        Whether to run the compiled chain, too.

    Returns
    -------
    Report
        ``print`` it, or call ``raise_if_wrong()``.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.check(mg.problems.Hypercube(3)).ok
    True
    """
    instance_of(problem, "problem", Problem)
    if np.ndim(temperatures) != 1 or not len(temperatures):
        raise ValueError(f"temperatures must be a sequence of numbers > 0, got {shown(temperatures)}.")
    for t in temperatures:
        positive(t, "temperatures")
    integer_in(max_states, "max_states", 1)
    positive(tolerance, "tolerance")
    seed_in(seed)
    local, compiled = None if local is None else flag(local, "local"), flag(compiled, "compiled")
    rng = np.random.default_rng(seed)
    pairs = _pairs(problem, [float(t) for t in temperatures], rng)
    unit = min(1.0, _RELEVANT * min(float(t) for t in temperatures))
    report = Report(problem.name, complete=problem.states is not None)
    if not report.complete:
        report.note("the problem lists no states: solutions that moves never reach would not be noticed")
    listed = None if local else _listed(problem, max_states, report, refuse=local is False)
    if not report.ok:
        return report
    with _findings(report):
        if listed is None:
            report.proved = False
            LocalTest(problem, report, tolerance, rng, unit).run(pairs, compiled)
        else:
            _prove(problem, listed, report, pairs, tolerance, rng, compiled, unit)
    return report


def _prove(
    problem: Problem, listed: list, report: Report, pairs: list[Pair], tolerance: float, rng: np.random.Generator, compiled: bool,
    unit: float,
) -> None:  # fmt: skip
    report.solutions = len(listed)
    for y in listed:
        if y.shape != problem.solution.shape:
            report.found("set", f"states lists an array of shape {y.shape}, but solutions have shape {problem.solution.shape}.")
            return
    laws = Laws(problem, listed, report, unit)
    if not report.ok:
        return
    balance, starts = Balance(laws, tolerance), Starts(laws)
    starts.test_set(listed, rng)
    if "set" in report.findings:
        return  # the rest would only repeat it
    runs = Compiled(laws, balance, len(pairs), rng)
    random_law: np.ndarray | None = None
    made, steps = [], []
    for number, pair in enumerate(pairs):
        before = laws.table
        if not number:
            laws.test_memory(*pair)
            if not report.ok:
                return
        changed = laws.tabulate(*pair)
        if report.findings.keys() & _FATAL:
            return
        if number and changed:
            balance.test_dependence(before)
        if changed:
            balance.test_ratios()
            balance.test_reach()
        if not number:
            random_law = starts.test_random(rng)
        made.append((starts.test_greedy(pair.theta), starts.test_improve(pair.theta, rng, first=not number)))
        laws.follow_histories(rng, first=not number)
        balance.compare_with_gibbs(*pair)
        steps.append(runs.steps(pair))
    if compiled:
        for pair, exact, starting in zip(pairs, steps, made, strict=True):
            runs.test(pair, exact)
            runs.test_starts(pair, exact, random_law if pair is pairs[0] else None, *starting)
    if runs.steps_made:
        report.tested.append(
            f"the compiled chain, {runs.steps_made:.1e} steps at {len(pairs)} pairs of θ and t, false alarms ≤ {FALSE_ALARMS:g}"
        )


def _pairs(problem: Problem, temperatures: list[float], rng: np.random.Generator) -> list[Pair]:
    """θ of both signs and of one sign throughout, zero, tied and large, at several temperatures and at a small one."""
    d, (first, last) = problem.size, (temperatures[0], temperatures[-1])
    theta, other = rng.normal(size=d), np.abs(rng.normal(size=d))
    tied = np.where(rng.random(d) < 0.5, 1.0, -1.0)
    pairs = [Pair(theta, t) for t in temperatures]
    pairs += [Pair(-theta, last), Pair(2.0 * other, first), Pair(-3.0 * other, last), Pair(np.zeros(d), last), Pair(tied, first)]
    pairs += [Pair(_LARGE * theta, first), Pair(-_LARGE * theta, first), Pair(theta, _SMALL)]
    for pair in pairs:
        pair.theta.setflags(write=False)  # a function that writes to θ is wrong
    return pairs


def _listed(problem: Problem, max_states: int, report: Report, refuse: bool) -> list[np.ndarray] | None:
    """All solutions; None if there are too many."""
    try:
        with _findings(report):
            return [np.asarray(y) for y in solutions(problem, max_states)]
    except TooManySolutions:
        if refuse:
            raise
    return None


@contextmanager
def _findings(report: Report) -> Iterator[None]:
    """What a user's function raises is a finding."""
    try:
        yield
    except TooManyDraws as limit:
        report.found("draws", f"a proposal {limit}.")
    except OverflowError as overflow:
        report.found("overflow", f"{overflow}{place_of(overflow)}.")
    except Exception as error:
        if not place_of(error):  # our own
            raise
        report.found("error", f"{type(error).__name__}: {error}{place_of(error)}.")
