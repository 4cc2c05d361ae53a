"""The table of all draws from all solutions, and what histories leave in a state.

A state holds more than the solution: loads, positions, trees. A move may leave them stale, and so may a proposal that was refused.
So every state that a draw leaves behind is compared with a fresh one of the same solution: field by field, and where fields differ
(an order of items, scratch space) by all that the next step can do from both.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from movegrad.problem import Problem
from movegrad.proof.follow import Comparer, Follower, Law
from movegrad.proof.numbers import ENOUGH
from movegrad.proof.pure import GARBAGE, PureProblem
from movegrad.proof.report import Report, show

_HISTORY_DRAWS = 12_000  # draws that are followed from states that differ from fresh ones
_GARBAGE_DRAWS = 6_000  # draws that are followed to see whether garbage in a field matters
_FRONTIER = 20_000  # states that wait to be followed
_WALK = 300  # moves in a row, where those are not all


@dataclass(frozen=True)
class Table:
    """All draws of all moves that apply, from all solutions, one row each."""

    source: np.ndarray
    move: np.ndarray
    target: np.ndarray  # -1: the chain stays
    probability: np.ndarray
    slack: np.ndarray
    log_ratio: np.ndarray
    gain: np.ndarray
    masks: np.ndarray  # (solutions,)


class History(NamedTuple):
    """A state that some draw left behind, saved."""

    state: bytes
    solution: int
    cause: str  # for the sentence
    kind: str  # of the finding


def expect_finite(report: Report, y: np.ndarray, statistic: np.ndarray, phi: float) -> None:
    """An objective that is infinite has no law; one that is no number is never accepted."""
    for name, value in (("T", statistic), ("φ", phi)):
        if not np.isfinite(value).all():
            bad = np.atleast_1d(value)[~np.isfinite(np.atleast_1d(value))][0]
            report.found("objective", f"{name} at {show(y)} has {bad}: it must be finite, and what is forbidden not be in the set.")


def note_short_floats(report: Report, state: Any) -> None:
    """Say which derived fields a kernel rounds otherwise than this proof does."""
    for name, field in list(zip(state._fields, state, strict=True))[1:]:
        if field.dtype == np.float32:
            report.note(f"field {name!r} is float32, which a kernel rounds and check does not: sums that are kept in it drift")


class Laws:
    """The solutions of a problem and the exact law of a step from each."""

    def __init__(self, problem: Problem, solutions: list[np.ndarray], report: Report, unit: float = 1.0) -> None:
        """``unit``: differences of T and φ that are less than 10⁻⁹ of it count as rounding."""
        self.problem, self.report, self.unit = problem, report, unit
        self.pure = PureProblem(problem)
        self.solutions = [np.asarray(y).astype(problem.solution.dtype) for y in solutions]
        self.number = {y.tobytes(): i for i, y in enumerate(self.solutions)}
        self.statistics = np.array([self.pure.statistic(y) for y in self.solutions])
        self.phi = np.array([self.pure.phi(y) for y in self.solutions])
        note_short_floats(report, problem.state)
        for given in zip(self.solutions, self.statistics, self.phi, strict=True):
            expect_finite(report, *given)
        weights = np.array([m.weight for m in problem.moves])
        self.weights = weights / weights.sum()
        self.follower, self.comparer = (
            Follower(self.pure, report),
            Comparer({y.tobytes(): float(v) for y, v in zip(self.solutions, self.phi, strict=True)}),
        )
        self._scored = any(m.score is not None for m in problem.moves)  # what they say depends on θ, whatever is in the state
        self.table = Table(*[np.zeros(0, np.int64)] * 8)
        self.fresh: list[bytes] = []  # states
        self._laws: list[Law] = []
        self._frontier: list[History] = []  # states that differ from fresh ones
        self._later: list[tuple[int, bytes]] = []  # moves, and states that they leave if nothing was asked before
        self._seen: set[bytes] = set()
        self._keys: set[bytes] = set()  # apart from states: of arrays that fill whole words, a key is the state itself
        self._dropped = False  # there were more
        self._few = 0  # solutions at which garbage is tried; 0: not counted yet
        self._scratch: dict[int, bool] = {}  # fields, and whether they are always written before they are read

    # --- fresh states ------------------------------------------------------------------------------------------------

    def tabulate(self, guide: np.ndarray, temperature: float) -> bool:
        """Follow every draw from every solution; False if states are those of the last table, so that nothing can differ."""
        some = set(self._some())
        fresh = [self.pure.fresh(y, guide, temperature) for y in self.solutions]
        if self.fresh and not self._scored and all(self._equal(one, other) for one, other in zip(self.fresh, fresh, strict=True)):
            return False
        first, self.fresh = not self.fresh, fresh
        self._laws, self._frontier, self._later, self._dropped = [], [], [], False
        self._seen, self._keys = set(), set()
        rows: list[tuple] = []
        for i, state in enumerate(fresh):
            law = self.follower.law(state, look=True, again=first and i in some)
            rows += [(i, o.move, self._land(o, i, first), o.probability, o.slack, o.log_ratio, o.gain) for o in law.outcomes]
            self._enqueue(law, i)
            self._later += self.follower.at_once
            self._laws.append(law.without_states())
        source, move, target, *numbers = (np.array(c) for c in zip(*rows, strict=True)) if rows else [np.zeros(0, int)] * 7
        probability, slack, log_ratio, gain = (n.astype(float) for n in numbers)
        self._test_masks()
        masks = np.array([law.mask for law in self._laws])
        self.table = Table(source, move, target, probability, slack, log_ratio, gain, masks)
        self.report.draws = len(rows)
        return True

    def _land(self, outcome: Any, i: int, look: bool) -> int:
        """Number of y', −1 if the chain stays; tests what the draw claims of it."""
        if not outcome.target:
            return -1
        j = self.number.get(outcome.target)
        if j is None:
            y, target = self.solutions[i], np.frombuffer(outcome.target, self.problem.solution.dtype)
            what = f"{self._name(outcome)} from {show(y)} to {show(target)}"
            if self.pure.problem.functions.contains is not None and not self._contains(target):
                self.report.found("feasible", f"{what}: feasible says True, contains says False.")
            else:
                self.report.found("leaves the set", f"{what}, which is not among the states.")
            return -1
        self._test_difference(outcome, i, j)
        self.report.self_loops += look and i == j
        return j

    def _test_masks(self) -> None:
        """What ``applicable_after`` says of y' is what ``applicable`` says there."""
        for i, law in enumerate(self._laws):
            for o in law.outcomes:
                j = self.number.get(o.target, -1)
                if j >= 0 and o.mask != self._laws[j].mask:
                    says = f"applicable_after says {o.mask:b}, applicable says {self._laws[j].mask:b}"
                    self.report.found("applicable", f"{self._way(o, i, j)}: {says}.")

    def _way(self, outcome: Any, i: int, j: int) -> str:
        return f"{self._name(outcome)} from {show(self.solutions[i])} to {show(self.solutions[j])}"

    def _contains(self, y: np.ndarray) -> bool:
        try:
            return self.pure.contains(y)
        except Exception:  # reported where the set is tested
            return False

    def _test_difference(self, outcome: Any, i: int, j: int) -> None:
        exact = self.statistics[j] - self.statistics[i]
        claimed = np.zeros(self.problem.size)
        for entry, difference in outcome.change.items():
            claimed[entry] = difference
        apart = np.abs(claimed - exact)
        if not (apart <= 1e-9 * np.maximum(self.unit, np.abs(exact)) + 1e-14 * np.abs(self.statistics[j])).all():
            entry = int(np.argmax(apart))
            what = f"entry {entry} of T changes by {exact[entry]:g}, claimed {claimed[entry]:g}"
            self.report.found("wrong change", f"{self._way(outcome, i, j)}: {what}.")
        difference = float(self.phi[j] - self.phi[i])
        rounding = 1e-14 * max(abs(float(self.phi[i])), abs(float(self.phi[j])))
        if not abs(outcome.gain - difference) <= 1e-9 * max(self.unit, abs(difference)) + rounding:
            what = f"φ changes by {difference:.12g}, claimed {outcome.gain:.12g}"
            self.report.found("wrong gain", f"{self._way(outcome, i, j)}: {what}.")

    def test_memory(self, guide: np.ndarray, temperature: float) -> None:
        """What ``prepare`` leaves as it found it must never be read: states made in other memory have the same law."""
        some = self._some()
        for y in (self.solutions[i] for i in some):
            states = [self.pure.fresh(y, guide, temperature, garbage) for garbage in range(len(GARBAGE))]
            law = None
            for other in states[1:]:
                if self._equal(states[0], other):
                    continue
                law = self.follower.law(states[0]) if law is None else law
                if self.comparer.differ(law, self.follower.law(other), y.tobytes()):
                    apart = self._difference(states[0], other)
                    self.report.found("prepare", f"at {show(y)}, {apart} depends on what memory held before.")
                    return

    # --- histories -----------------------------------------------------------------------------------------------------

    def follow_histories(self, rng: np.random.Generator, first: bool) -> None:
        """Compare every state that a draw left behind with a fresh one, and so on from there; less thoroughly if not the first."""
        met, budget = 0, _HISTORY_DRAWS if first else _HISTORY_DRAWS // 10
        while self._frontier and budget > 0:
            at = int(rng.integers(len(self._frontier)))
            self._frontier[at], self._frontier[-1] = self._frontier[-1], self._frontier[at]
            history = self._frontier.pop()
            law = self._compare(history)
            if law is None:
                return
            met, budget = met + 1, budget - len(law.outcomes)
            self._enqueue(law, history.solution)
        if not first:
            return
        self._try_applied_at_once()
        sampled = any(self._scratch.values()) and self._few < len(self.solutions)
        if not self._frontier and not self._dropped and not sampled:
            met_some = f" ({met} states that differ from fresh ones go on as these do)" if met else ""
            self.report.histories = f"proved after every history{met_some}"
            return
        walked = self._walk(rng)
        self.report.histories = f"tested after every draw, on {met} histories and along {walked} moves"

    def _walk(self, rng: np.random.Generator) -> int:
        law, i = self.follower.law(self.fresh[0]), 0
        steps = min(_WALK, _HISTORY_DRAWS // 2 // max(1, len(law.outcomes)))
        for step in range(steps):
            options = [(o, self.number.get(o.target, -1)) for o in law.outcomes]
            options = [(o, j) for o, j in options if j >= 0]
            if not options:
                return step
            outcome, j = options[int(rng.integers(len(options)))]
            found = self._compare(History(outcome.applied, j, self._applied(outcome, i, j), "stale state"))
            if found is None:
                return step
            law, i = found, j
        return steps

    def _compare(self, history: History) -> Law | None:
        """The law from a state that a draw left behind; None after a finding."""
        fresh, law = self.fresh[history.solution], self.follower.law(history.state)
        if not self.comparer.differ(law, self._laws[history.solution], self.pure.desk.solution(fresh)):
            return law
        culprit = self._culprit(history.state, fresh, history.solution)
        error = f" ({law.error})" if law.error else ""
        self.report.found(
            history.kind,
            f"{history.cause}, {culprit}; the next step does otherwise than from a fresh state{error}.",
        )
        return None

    def _culprit(self, state: bytes, fresh: bytes, i: int) -> str:
        """The field that, set right, sets all right; else the first that differs."""
        for f in self._apart(state, fresh):
            low, high = self.pure.desk.spans[f]
            mended = state[:low] + fresh[low:high] + state[high:]
            if not self.comparer.differ(self.follower.law(mended), self._laws[i], self.pure.desk.solution(fresh)):
                return self._difference(state, fresh, f)
        return self._difference(state, fresh)

    def _apart(self, state: bytes, fresh: bytes) -> list[int]:
        """Fields in which two states differ."""
        return [f for f, (low, high) in enumerate(self.pure.desk.spans) if state[low:high] != fresh[low:high]]

    def _difference(self, state: bytes, fresh: bytes, f: int | None = None) -> str:
        for g in self._apart(state, fresh) if f is None else (f,):
            one, other = self.pure.desk.field(state, g), self.pure.desk.field(fresh, g)
            k = int(np.flatnonzero(one != other)[0])
            return f"{self.problem.state._fields[g]}[{k}] is {one[k]:.9g}, in a fresh state {other[k]:.9g}"
        return "the state"

    def _enqueue(self, law: Law, i: int) -> None:
        """Remember what draws from solution i leave behind, where it differs from a fresh state."""
        for o in law.outcomes:
            for state in o.refused:
                self.add_history(
                    state, i, lambda o=o: f"after {self._name(o)} was refused at {show(self.solutions[i])}", "rejected proposal"
                )
            j = self.number.get(o.target, -1)
            if j >= 0:
                self.add_history(o.applied, j, lambda o=o, j=j: self._applied(o, i, j), "stale state")

    def _try_applied_at_once(self) -> None:
        """What ``apply`` leaves must not depend on questions that were asked before it."""
        for s, left in self._later[: _HISTORY_DRAWS // 100]:
            j = self.number.get(self.pure.desk.solution(left), -1)
            cause = f"after {self.pure.moves[s].name!r} was applied with nothing asked before"
            if j >= 0 and left not in self._seen and self._compare(History(left, j, cause, "order")) is None:
                return

    def _name(self, outcome: Any) -> str:
        return repr(self.pure.moves[outcome.move].name)

    def _applied(self, outcome: Any, i: int, j: int) -> str:
        return f"after {self._name(outcome)} led from {show(self.solutions[i])} to {show(self.solutions[j])}"

    def add_history(self, state: bytes, i: int, cause: Any, kind: str) -> None:
        """A state at solution i, for :meth:`follow_histories`, unless it is as good as one that is known."""
        if state == self.fresh[i] or state in self._seen:
            return
        self._seen.add(state)
        if self.pure.desk.solution(state) != self.pure.desk.solution(self.fresh[i]):
            return  # a proposal that changes the solution is another finding
        if all(self.is_scratch(f) for f in self._apart(state, self.fresh[i])):
            return
        key = self._key(state)
        if key in self._keys:
            return
        if len(self._frontier) >= _FRONTIER:
            self._dropped = True
            return
        self._keys.add(key)
        self._frontier.append(History(state, i, cause(), kind))

    def _key(self, state: bytes) -> bytes:
        fields = (self.pure.desk.field(state, f) for f in range(len(self.problem.state)) if not self._scratch.get(f))
        return b"".join(_rounded(a) for a in fields)

    def _equal(self, one: bytes, other: bytes) -> bool:
        return one == other or all(self._scratch.get(f) for f in self._apart(one, other))

    def is_scratch(self, f: int) -> bool:
        """Is a field always written before it is read? Then what a draw leaves in it does not matter.

        Garbage in it changes nothing, from any solution: neither draws nor what they leave in any field, but for garbage itself.
        """
        if f not in self._scratch:
            self._scratch[f] = f > 0 and all(self._survives_garbage(i, f) for i in self._some())
        return self._scratch[f]

    def _some(self) -> list[int]:
        """All solutions, where draws are few; else some, spread over the list."""
        if not self._few:
            y = self.solutions[len(self.solutions) // 2]
            draws = max(1, len(self.follower.law(self.pure.fresh(y, np.zeros(self.problem.size), 1.0)).outcomes))
            self._few = max(1, min(len(self.solutions), _GARBAGE_DRAWS // draws))
        return np.linspace(0, len(self.solutions) - 1, self._few).astype(int).tolist()

    def _survives_garbage(self, i: int, f: int) -> bool:
        spoiled = []
        for garbage in range(len(GARBAGE)):
            self.pure.desk.put(self.fresh[i])
            self.pure.desk.soil(f, garbage)
            spoiled.append(self.pure.desk.save())
        self.follower.burnt = 0
        clean = self.follower.law(self.fresh[i])
        self.follower.fuel = 10 * self.follower.burnt + 1_000  # garbage may lead in circles
        others = [self.follower.law(state) for state in spoiled]
        self.follower.fuel = ENOUGH
        low, high = self.pure.desk.spans[f]
        return all(_same_but_for(clean, other, low, high) for other in others) and self._is_overwritten(f, i, clean, others)

    def _is_overwritten(self, f: int, i: int, clean: Law, others: list[Law]) -> bool:
        """Is every entry of field f, after every draw, either as it was before or written without regard to it?"""
        before, dtype = self.pure.desk.field(self.fresh[i], f), self.pure.desk.dtypes[f]
        garbage = np.array(GARBAGE).astype(dtype)[:, None]
        for draws in zip(clean.outcomes, *(law.outcomes for law in others), strict=True):
            for states in zip(*(_left(o) for o in draws), strict=True):
                now = np.array([self.pure.desk.field(state, f) for state in states])
                untouched = (now[0] == before) & (now[1:] == garbage).all(0)
                if not (untouched | (now == now[0]).all(0)).all():
                    return False
        return True


def _same_but_for(one: Law, other: Law, low: int, high: int) -> bool:
    """Are two laws the same to the last bit, and what they leave behind too, but for the bytes of one field?"""
    if one.mask != other.mask or one.error or other.error or len(one.outcomes) != len(other.outcomes):
        return False
    for a, b in zip(one.outcomes, other.outcomes, strict=True):
        if a[:10] != b[:10]:
            return False
        if any(x[:low] != y[:low] or x[high:] != y[high:] for x, y in zip(_left(a), _left(b), strict=True)):
            return False
    return True


def _left(outcome: Any) -> tuple[bytes, ...]:
    return outcome.refused if not outcome.target else (*outcome.refused, outcome.applied)


def _rounded(array: np.ndarray) -> bytes:
    """The bytes of a field; of floats without the last bits, which depend on the order of sums."""
    if array.dtype != np.float64:
        return array.tobytes()
    return ((array.view(np.int64) + 2048) & ~4095).tobytes()
