"""One step, followed as the kernel makes it: every question in its order, and what each way out leaves behind."""

from collections import defaultdict
from collections.abc import Iterator
from math import inf, isnan
from typing import Any, NamedTuple

import numpy as np

from movegrad.proof.numbers import same
from movegrad.proof.pure import MAX_PATHS, PureMove, PureProblem, Replay, TooManyDraws, place_of
from movegrad.proof.report import Report, show

_SAME = 1e-9  # relative difference up to which two numbers that a move claims are the same


class Outcome(NamedTuple):
    """One draw of one move."""

    move: int
    choices: tuple[int, ...]  # of its draws
    probability: float
    slack: float  # bounds the relative error of the probability
    log_ratio: float  # −inf: the draw does not apply
    target: np.ndarray | None  # y'; None where the chain stays whatever the coin says
    gain: float
    change: dict[int, float]  # of the entries of T
    mask: int  # what applicable_after says
    refused: tuple  # states that the chain may be left in if it stays
    applied: Any  # the state at y'


class Law(NamedTuple):
    """All that the next step can do from a state."""

    mask: int  # of the moves that apply
    outcomes: list[Outcome]
    error: str  # a function raised; empty otherwise

    @property
    def draws(self) -> int:
        return len(self.outcomes)

    def without_states(self) -> "Law":
        """To be kept: what draws do, not what they leave behind."""
        return self._replace(outcomes=[o._replace(refused=(), applied=None) for o in self.outcomes])


class Follower:
    """Follows draws from states of one problem. Each finding goes to the report, unless it is asked not to look."""

    def __init__(self, pure: PureProblem, report: Report) -> None:
        self.pure, self.report = pure, report
        self._look = True

    def law(self, state: Any, look: bool = False, max_paths: int = MAX_PATHS) -> Law:
        """Every draw of every move that applies. With ``look``, what is wrong goes to the report."""
        self._look = look
        outcomes: list[Outcome] = []
        mask, error = -1, ""
        with np.errstate(all="ignore"):
            try:
                state = self.pure.copy(state)
                mask = int(self.pure.applicable(self.pure.data, state))
                for s in range(len(self.pure.moves)):
                    if mask >> s & 1:
                        outcomes += self.draws(state, s, max_paths)
                if not any(mask >> s & 1 for s in range(len(self.pure.moves))):
                    self._found("applicable", f"no move applies at {show(state[0])}.")
            except TooManyDraws as limit:
                error = str(limit)
                self._found("draws", f"propose of {self.pure.moves[s].name!r} at {show(state[0])} {limit}.")
            except OverflowError as overflow:
                error = str(overflow)
                self._found("overflow", f"{overflow}{place_of(overflow)}, at {show(state[0])}.")
            except Exception as raised:  # whatever the user's function raises is the finding
                error = f"{type(raised).__name__}: {raised}"
                self._found("error", f"{error}{place_of(raised)}, at {show(state[0])}.")
        return Law(mask, outcomes, error)

    def draws(self, state: Any, s: int, max_paths: int = MAX_PATHS) -> Iterator[Outcome]:
        """Every draw of one move."""
        for rng, after, drawn, log_ratio in self.pure.draws(state, s, max_paths):
            yield self.outcome(state, s, after, drawn, log_ratio, rng.choices, rng.probability, rng.slack)

    def outcome(
        self, state: Any, s: int, after: Any, drawn: Any, log_ratio: float, choices: Any, probability: float, slack: float = 0.0
    ) -> Outcome:
        """What follows from one draw; ``after`` is the state as ``propose`` left it."""
        move, data, y = self.pure.moves[s], self.pure.data, state[0]
        head = (s, tuple(choices), probability, slack)
        if not same(after[0], y):
            self._found("proposal", f"propose of {move.name!r} changed the solution {show(y)} to {show(after[0])}.")
        if isnan(log_ratio) or log_ratio == inf:
            self._found("wrong ratio", f"{move.name!r} at {show(y)}, move {drawn}: claimed log ratio is {log_ratio}.")
        if log_ratio == -inf or isnan(log_ratio):
            return Outcome(*head, -inf, None, 0.0, {}, 0, (after,), None)
        change, gain, mask = self._questions(move, after, drawn)
        before_feasible = self.pure.copy(after)
        feasible = bool(move.feasible(data, after, drawn))
        refused = (before_feasible, self.pure.copy(after))
        if not all(same(r[0], y) for r in refused):
            self._found("proposal", f"gain, change or feasible of {move.name!r} changed the solution {show(y)}.")
        if self._look:
            self._ask_in_another_order(state, s, choices, drawn, (change, gain, mask, feasible))
        if not feasible:
            self._expect_outside(move, after, drawn, y)
            return Outcome(*head, log_ratio, None, gain, change, mask, refused, None)
        if self._changes(move, after, drawn) != change:
            self._found("order", f"change of {move.name!r} at {show(y)} answers otherwise after feasible was asked.")
        move.apply(data, after, drawn)
        if self._look:
            self._apply_at_once(state, s, choices, drawn, after[0])
        return Outcome(*head, log_ratio, np.array(after[0]), gain, change, mask, refused, after)

    def _questions(self, move: PureMove, state: Any, drawn: Any) -> tuple[dict[int, float], float, int]:
        """In the order of the kernel's step."""
        n = move.changes(self.pure.data, state, drawn)
        gain = move.gain(self.pure.data, state, drawn)
        if gain is None:
            raise TypeError(f"gain of {move.name!r} must return φ(y') − φ(y), got None")
        change = self._changes(move, state, drawn, n)
        return change, float(gain), int(move.applicable_after(self.pure.data, state, drawn))

    def _changes(self, move: PureMove, state: Any, drawn: Any, n: Any = None) -> dict[int, float]:
        n = move.changes(self.pure.data, state, drawn) if n is None else n
        total: dict[int, float] = defaultdict(float)
        for m in range(n):
            pair = move.change(self.pure.data, state, drawn, m)
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise TypeError(f"change of {move.name!r} must return (index, difference), got {pair!r}")
            index, size = int(pair[0]), self.pure.problem.size
            if not 0 <= index < size:
                self._found("wrong change", f"change of {move.name!r} must return an index in 0..{size - 1}, got {index}.")
                continue
            total[index] += float(pair[1])
        return {i: v for i, v in total.items() if v != 0.0}

    def _ask_in_another_order(self, state: Any, s: int, choices: Any, drawn: Any, answers: tuple) -> None:
        """The exact one-step loss asks ``feasible`` first; answers must not depend on what was asked before."""
        move, data, copy = self.pure.moves[s], self.pure.data, self.pure.copy(state)
        move.propose(data, copy, Replay(choices))
        feasible = bool(move.feasible(data, copy, drawn))
        mask = int(move.applicable_after(data, copy, drawn))
        gain = float(move.gain(data, copy, drawn))
        change = self._changes(move, copy, drawn)
        if (change, gain, mask, feasible) != answers and not any(isnan(v) for v in (gain, answers[1], *change.values())):
            self._found("order", f"{move.name!r} at {show(state[0])} answers otherwise if it is asked in another order.")

    def _apply_at_once(self, state: Any, s: int, choices: Any, drawn: Any, target: Any) -> None:
        """``apply`` must not rely on questions that were asked before it."""
        copy = self.pure.copy(state)
        self.pure.moves[s].propose(self.pure.data, copy, Replay(choices))
        self.pure.moves[s].apply(self.pure.data, copy, drawn)
        if not same(copy[0], target):
            name, y = self.pure.moves[s].name, show(state[0])
            self._found("order", f"apply of {name!r} at {y} leads elsewhere if nothing was asked before it.")

    def _expect_outside(self, move: PureMove, after: Any, drawn: Any, y: Any) -> None:
        """A proposal that is not feasible leads out of the set, or nowhere."""
        if not self._look:
            return
        try:
            move.apply(self.pure.data, after, drawn)
            contained = self.pure.contains(after[0])
        except Exception:  # the kernel never applies what is not feasible
            return
        if contained and not same(after[0], y):
            what = f"{move.name!r} from {show(y)} to {show(after[0])}"
            self._found("feasible", f"{what}: feasible says False, contains says True.")

    def _found(self, kind: str, sentence: str) -> None:
        if self._look:
            self.report.found(kind, sentence)


# --- the same law? -----------------------------------------------------------------------------------------------------


class Comparer:
    """Tells whether two states let the next step do the same, up to rounding."""

    def __init__(self, resolution: float) -> None:
        self.resolution = resolution  # of φ and T: about an ulp of the largest

    def differ(self, one: Law, other: Law) -> bool:
        if one.mask != other.mask or one.error != other.error:
            return True
        mine, theirs = self._grouped(one), self._grouped(other)
        return mine.keys() != theirs.keys() or any(self._masses_differ(mine[k], theirs[k]) for k in mine)

    @staticmethod
    def _grouped(law: Law) -> dict[tuple, list[tuple[tuple, float]]]:
        groups: dict[tuple, list[tuple[tuple, float]]] = defaultdict(list)
        for o in law.outcomes:
            if o.target is None:
                groups[(o.move,)].append(((), o.probability))
            else:
                indices = tuple(sorted(o.change))
                numbers = (o.log_ratio, o.gain, *(o.change[i] for i in indices))
                groups[o.move, o.target.tobytes(), o.mask, indices].append((numbers, o.probability))
        return groups

    def _masses_differ(self, mine: list, theirs: list) -> bool:
        clusters: list[list] = []  # numbers, mass of mine, mass of theirs
        for sign, rows in ((1, mine), (2, theirs)):
            for numbers, probability in rows:
                cluster = next((c for c in clusters if self._close(c[0], numbers)), None)
                if cluster is None:
                    cluster = [numbers, 0.0, 0.0]
                    clusters.append(cluster)
                cluster[sign] += probability
        return any(abs(a - b) > _SAME for _, a, b in clusters)

    def _close(self, one: tuple, other: tuple) -> bool:
        return all(
            a == b or abs(a - b) <= _SAME * max(1.0, abs(a), abs(b)) + self.resolution or (isnan(a) and isnan(b))
            for a, b in zip(one, other, strict=True)
        )
