"""One step, followed as the kernel makes it: every question in its order, and what each way out leaves behind."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf, isnan
from typing import Any, NamedTuple

import numpy as np

from movegrad.proof.numbers import ENOUGH, refuel
from movegrad.proof.pure import MAX_PATHS, PureMove, PureProblem, Replay, TooManyDraws, paths, place_of, proposal
from movegrad.proof.report import Report, show

_SAME = 1e-9  # relative difference up to which two numbers that a move claims are the same


class Outcome(NamedTuple):
    """One draw of one move. States are saved ones."""

    move: int
    choices: tuple[int, ...]  # of its draws
    probability: float
    slack: float  # bounds the relative error of the probability
    log_ratio: float  # −inf: the draw does not apply
    target: bytes  # y'; empty where the chain stays whatever the coin says
    gain: float
    score: float  # change of ⟨θ, T(y)⟩; 0 where the move leaves it to the changes
    change: dict[int, float]  # of the entries of T
    mask: int  # what applicable_after says
    refused: tuple[bytes, ...]  # states that the chain may be left in if it stays
    applied: bytes  # the state at y'


class Law(NamedTuple):
    """All that the next step can do from a state."""

    mask: int  # of the moves that apply
    outcomes: list[Outcome]
    error: str  # a function raised; empty otherwise

    def without_states(self) -> "Law":
        """To be kept: what draws do, not what they leave behind."""
        return self._replace(outcomes=[o._replace(refused=(), applied=b"") for o in self.outcomes])


class Follower:
    """Follows draws from saved states of one problem. With ``look``, what is wrong goes to the report."""

    def __init__(self, pure: PureProblem, report: Report) -> None:
        self.pure, self.report = pure, report
        self._look = self._again = False
        self.fuel, self.burnt = ENOUGH, 0  # for each draw, and the most that one took
        self.at_once: list[tuple[int, bytes]] = []  # moves, and states that they leave if nothing was asked before

    def law(self, saved: bytes, look: bool = False, again: bool = False, max_paths: int = MAX_PATHS) -> Law:
        """Every draw of every move that applies; ``again``: ask once more, in another order."""
        self._look, self._again, self.at_once = look, again, []
        outcomes: list[Outcome] = []
        mask, error, y = -1, "", self._show(saved)
        refuel(self.fuel)
        with np.errstate(all="ignore"):
            try:
                mask, saved = self.applicable(saved)
                for s in self.moves(mask):
                    outcomes += self.draws(saved, s, max_paths)
            except TooManyDraws as limit:
                error = str(limit)
                self._found("draws", f"propose of {self.pure.moves[s].name!r} at {y} {limit}.")
            except OverflowError as overflow:
                error = str(overflow)
                self._found("overflow", f"{overflow}{place_of(overflow)}, at {y}.")
            except Exception as raised:  # whatever the user's function raises is the finding
                error = f"{type(raised).__name__}: {raised}"
                self._found("error", f"{error}{place_of(raised)}, at {y}.")
            finally:
                refuel()
        return Law(mask, outcomes, error)

    def applicable(self, saved: bytes) -> tuple[int, bytes]:
        """The mask of moves that apply, and the state after that question."""
        state = self.pure.desk.put(saved)
        mask = int(self.pure.applicable(self.pure.data, state))
        if not self.moves(mask):
            self._found("applicable", f"no move applies at {self._show(saved)}.")
        return mask, self.pure.desk.save()

    def moves(self, mask: int) -> list[int]:
        return [s for s in range(len(self.pure.moves)) if mask >> s & 1]

    def draws(self, saved: bytes, s: int, max_paths: int = MAX_PATHS) -> Iterator[Outcome]:
        """Every draw of one move."""
        desk, data, propose = self.pure.desk, self.pure.data, self.pure.moves[s].propose

        def run(rng: Any) -> tuple[Any, float]:
            refuel(self.fuel)
            return proposal(propose(data, desk.put(saved), rng))

        for rng, (move, log_ratio) in paths(run, max_paths=max_paths):
            yield self.outcome(saved, s, move, log_ratio, rng)
            self.burnt = max(self.burnt, self.fuel - refuel())

    def draw(self, saved: bytes, s: int, rng: Any, look: bool) -> Outcome:
        """One draw of one move, as the generator has it."""
        self._look = self._again = look
        with np.errstate(all="ignore"):
            move, log_ratio = proposal(self.pure.moves[s].propose(self.pure.data, self.pure.desk.put(saved), rng))
            return self.outcome(saved, s, move, log_ratio, rng)

    def outcome(self, saved: bytes, s: int, drawn: Any, log_ratio: float, rng: Any) -> Outcome:
        """What follows from a draw from a saved state; on the desk lies the state as ``propose`` left it."""
        desk, move, data = self.pure.desk, self.pure.moves[s], self.pure.data
        head, y = (s, tuple(rng.choices), rng.probability, rng.slack), desk.solution(saved)
        after = desk.save()
        if desk.solution(after) != y:
            self._found("proposal", f"propose of {move.name!r} changed the solution {self._show(saved)} to {self._show(after)}.")
        if isnan(log_ratio) or log_ratio == inf:
            self._found("wrong ratio", f"{move.name!r} at {self._show(saved)}, move {drawn}: claimed log ratio is {log_ratio}.")
        if log_ratio == -inf or isnan(log_ratio):
            return Outcome(*head, -inf, b"", 0.0, 0.0, {}, 0, (after,), b"")
        change, gain, score, mask = self._questions(move, desk.state, drawn)
        before_feasible = desk.save()
        feasible = bool(move.feasible(data, desk.state, drawn))
        asked = desk.save()
        if desk.solution(before_feasible) != y or desk.solution(asked) != y:
            self._found("proposal", f"gain, score, change or feasible of {move.name!r} changed the solution {self._show(saved)}.")
        if self._again:
            self._ask_in_another_order(saved, s, rng.choices, drawn, (change, gain, score, mask, feasible))
            desk.put(asked)
        refused = (before_feasible, asked)
        if not feasible:
            self._expect_outside(move, drawn, saved)
            return Outcome(*head, log_ratio, b"", gain, score, change, mask, refused, b"")
        if self._changes(move, desk.state, drawn) != change and not any(isnan(v) for v in change.values()):
            self._found("order", f"change of {move.name!r} at {self._show(saved)} answers otherwise after feasible was asked.")
        move.follow(data, self.pure.theta, desk.state, drawn)
        followed = desk.save()
        if desk.solution(followed) != y:
            self._found("proposal", f"follow of {move.name!r} changed the solution {self._show(saved)}, which is for apply to do.")
        move.apply(data, desk.state, drawn)
        applied = desk.save()
        if move.apply_if is not None:
            self._apply_without_branch(followed, move, drawn, applied)
        if self._again:
            self._apply_at_once(saved, s, rng.choices, drawn, applied)
        return Outcome(*head, log_ratio, desk.solution(applied), gain, score, change, mask, refused, applied)

    def _questions(self, move: PureMove, state: Any, drawn: Any) -> tuple[dict[int, float], float, float, int]:
        """In the order of the kernel's step."""
        n = move.changes(self.pure.data, state, drawn)
        gain = move.gain(self.pure.data, state, drawn)
        if gain is None:
            raise TypeError(f"gain of {move.name!r} must return φ(y') − φ(y), got None")
        score = self._score(move, state, drawn)
        change = self._changes(move, state, drawn, n)
        self._compare_score(move, state, drawn, score, change)
        return change, float(gain), score, int(move.applicable_after(self.pure.data, state, drawn))

    def _score(self, move: PureMove, state: Any, drawn: Any) -> float:
        if move.score is None:
            return 0.0
        score = move.score(self.pure.data, self.pure.theta, state, drawn)
        if score is None:
            raise TypeError(f"score of {move.name!r} must return ⟨θ, T(y') − T(y)⟩, got None")
        return float(score)

    def _compare_score(self, move: PureMove, state: Any, drawn: Any, score: float, change: dict[int, float]) -> None:
        """``score`` is the sum over the changes, up to rounding."""
        if move.score is None:
            return
        terms = [float(self.pure.theta[i]) * delta for i, delta in change.items()]
        allowed = 1e-9 * max(1.0, sum(map(abs, terms))) + 1e-13 * float(np.abs(self.pure.theta).sum())
        if not abs(score - sum(terms)) <= allowed:
            what = f"score says {score:.9g}, θ times the changes of T is {sum(terms):.9g}"
            self._found("wrong score", f"{move.name!r} at {show(state[0])}, move {drawn}: {what}.")

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

    # --- what must not matter --------------------------------------------------------------------------------------------

    def _once_more(self, saved: bytes, s: int, choices: Sequence[int]) -> Any:
        """The state after the same draw once more, on the desk."""
        state = self.pure.desk.put(saved)
        self.pure.moves[s].propose(self.pure.data, state, Replay(choices))
        return state

    def _ask_in_another_order(self, saved: bytes, s: int, choices: Sequence[int], drawn: Any, answers: tuple) -> None:
        """The exact one-step loss asks ``feasible`` first; answers must not depend on what was asked before."""
        move, data, state = self.pure.moves[s], self.pure.data, self._once_more(saved, s, choices)
        feasible = bool(move.feasible(data, state, drawn))
        mask = int(move.applicable_after(data, state, drawn))
        gain = float(move.gain(data, state, drawn))
        change = self._changes(move, state, drawn)
        score = self._score(move, state, drawn)
        numbers = (gain, score, *answers[1:3], *change.values())
        if (change, gain, score, mask, feasible) != answers and not any(isnan(v) for v in numbers):
            self._found("order", f"{move.name!r} at {self._show(saved)} answers otherwise if it is asked in another order.")

    def _apply_at_once(self, saved: bytes, s: int, choices: Sequence[int], drawn: Any, applied: bytes) -> None:
        """``apply`` must not rely on questions that were asked before it."""
        state = self._once_more(saved, s, choices)
        self.pure.moves[s].follow(self.pure.data, self.pure.theta, state, drawn)
        self.pure.moves[s].apply(self.pure.data, state, drawn)
        left = self.pure.desk.save()
        self.at_once.append((s, left))
        if self.pure.desk.solution(left) != self.pure.desk.solution(applied):
            name = self.pure.moves[s].name
            self._found("order", f"apply of {name!r} at {self._show(saved)} leads elsewhere if nothing was asked before it.")

    def _apply_without_branch(self, followed: bytes, move: PureMove, drawn: Any, applied: bytes) -> None:
        """``apply_if`` of 1 is ``apply``, and of 0 nothing."""
        for accepted, wanted in ((0, followed), (1, applied)):
            move.apply_if(self.pure.data, self.pure.desk.put(followed), drawn, accepted)  # type: ignore[misc]
            if self.pure.desk.save() != wanted:
                as_ = "changes the state if it is not accepted" if accepted == 0 else "is not apply if it is accepted"
                self._found("apply_if", f"apply_if of {move.name!r} at {self._show(followed)}, move {drawn}, {as_}.")
        self.pure.desk.put(applied)

    def _expect_outside(self, move: PureMove, drawn: Any, saved: bytes) -> None:
        """A proposal that is not feasible leads out of the set, or nowhere."""
        if not self._look:
            return
        state = self.pure.desk.state
        try:
            move.apply(self.pure.data, state, drawn)
            contained = self.pure.contains(state[0])
        except Exception:  # the kernel never applies what is not feasible
            return
        after = self.pure.desk.save()
        if contained and self.pure.desk.solution(after) != self.pure.desk.solution(saved):
            what = f"{move.name!r} from {self._show(saved)} to {self._show(after)}"
            self._found("feasible", f"{what}: feasible says False, contains says True.")

    def _show(self, saved: bytes) -> str:
        return show(self.pure.desk.field(saved, 0))

    def _found(self, kind: str, sentence: str) -> None:
        if self._look:
            self.report.found(kind, sentence)


# --- the same law? -----------------------------------------------------------------------------------------------------


class Comparer:
    """Tells whether two states let the next step do the same, up to rounding."""

    def __init__(self, phi: dict[bytes, float]) -> None:
        self._phi = phi  # of the solutions: gains are rounded as these are

    def differ(self, one: Law, other: Law, at: bytes) -> bool:
        """Do two laws differ, of states whose solution is ``at``?"""
        if one.mask != other.mask or one.error != other.error:
            return True
        mine, theirs = self._grouped(one), self._grouped(other)
        return mine.keys() != theirs.keys() or any(
            self._masses_differ(mine[k], theirs[k], self.rounding(at, k[1] if len(k) > 1 else at)) for k in mine
        )

    def rounding(self, one: bytes, other: bytes) -> float:
        """About an ulp of φ."""
        return 1e-14 * max(abs(self._phi.get(one, 0.0)), abs(self._phi.get(other, 0.0)))

    @staticmethod
    def _grouped(law: Law) -> dict[tuple, list[tuple[tuple, float]]]:
        groups: dict[tuple, list[tuple[tuple, float]]] = defaultdict(list)
        for o in law.outcomes:
            if o.target:
                indices = tuple(sorted(o.change))
                numbers = (o.log_ratio, o.gain, o.score, *(o.change[i] for i in indices))
                groups[o.move, o.target, o.mask, indices].append((numbers, o.probability))
            else:
                groups[(o.move,)].append(((), o.probability))
        return groups

    def _masses_differ(self, mine: list, theirs: list, rounding: float) -> bool:
        clusters: list[list] = []  # numbers, mass of mine, mass of theirs
        for side, rows in ((1, mine), (2, theirs)):
            for numbers, probability in rows:
                cluster = next((c for c in clusters if _close(c[0], numbers, rounding)), None)
                if cluster is None:
                    cluster = [numbers, 0.0, 0.0]
                    clusters.append(cluster)
                cluster[side] += probability
        return any(abs(a - b) > _SAME for _, a, b in clusters)


def _close(one: tuple, other: tuple, rounding: float) -> bool:
    """Are log ratios, gains, scores and changes the same? Gains stand second."""
    return all(
        a == b or abs(a - b) <= _SAME * max(1.0, abs(a), abs(b)) + rounding * (k == 1) or (isnan(a) and isnan(b))
        for k, (a, b) in enumerate(zip(one, other, strict=True))
    )
