"""The checker's questions along a walk, for sets too large to list: a test, not a proof.

At solutions that a walk meets, draws are followed, and what they claim is compared with recomputation from scratch. For the ratio,
the draws that lead back are looked for; where there are too many to list them all, among those whose choices have to do with the
entries that changed, and a mismatch counts only if a full listing confirms it.
"""

from time import monotonic
from typing import Any

import numpy as np

from movegrad._calls import observe
from movegrad.engine import layout_of
from movegrad.problem import Problem
from movegrad.proof.compiled import FALSE_ALARMS, Pair, divergence, independent
from movegrad.proof.follow import Follower, Outcome
from movegrad.proof.laws import expect_finite, note_short_floats
from movegrad.proof.pure import GARBAGE, LOST, Dice, PureProblem, TooManyDraws, paths, proposal
from movegrad.proof.report import Report, show
from movegrad.sampling import Sample, sample

_SECONDS = 15.0  # for each part of the test, about
_DRAWS = 800  # that are followed
_LISTED = 3_000  # draws of a move from one solution that are listed without hesitation
_LISTED_IN_DOUBT = 200_000  # to confirm a mismatch
_HINTED = 2_000  # draws tried among those that have to do with the change
_DOUBTS = 10  # such listings, at most
_LONGEST = 1.0  # second that a listing may take
_TYPICAL = 10_000  # compiled steps to solutions far from the first
_RANDOM = 20  # draws of random for each θ
_EVERY = 12  # a ratio is tested for one draw in so many
_CHAINS, _STEPS = 4, 400  # of the compiled run
_ONE_STEP = 20_000  # compiled chains that make one step from the same solution, at most
_MEMORY = 1 << 26  # bytes of their states, at most
_ROUNDING = 1e-6


class LocalTest:
    """A walk on one instance; findings go to the report."""

    def __init__(self, problem: Problem, report: Report, tolerance: float, rng: np.random.Generator, unit: float = 1.0) -> None:
        """``unit`` as in :class:`Laws`."""
        self.problem, self.report, self.tolerance, self.rng, self.unit = problem, report, tolerance, rng, unit
        self.pure = PureProblem(problem)
        self.follower = Follower(self.pure, report)
        weights = layout_of(problem).weights
        self.weights = weights / weights.sum()
        self.confirmed = self.undecided = self._doubts = 0
        self._many = False  # draws from one solution, too many to list
        self._value: tuple[np.ndarray, float] = (np.zeros(0), 0.0)  # T and φ of the solution under the walk

    def run(self, pairs: list[Pair], compiled: bool) -> None:
        note_short_floats(self.report, self.problem.state)
        begins = self._begins(pairs[0].theta)
        walkers = begins + (self._typical(pairs) if compiled and self.report.ok else [])
        self._deadline = monotonic() + _SECONDS
        share = max(1, _DRAWS // (len(walkers) * len(pairs)))
        met = [(pairs[0], y) for y in walkers]
        for pair in pairs:
            walkers = [self._walk(y, pair, share) for y in walkers]  # farther and farther
            met += [(pair, y) for y in walkers]
        self._test_starts(met)
        self.report.histories = "tested along the walk"
        ratios = f"{self.confirmed} ratios against the draws that lead back"
        if self.undecided:
            ratios += f" ({self.undecided} more could not be listed)"
            if not self.confirmed:
                self.report.note("no ratio was tested: draws are too many to list those that lead back; check a smaller instance")
        self.report.tested.append(f"{self.report.draws} draws from {self.report.solutions} solutions of a walk; {ratios}")
        if compiled and self.report.ok:
            self._test_compiled(pairs[0], begins[-1])

    def _begins(self, theta: np.ndarray) -> list[np.ndarray]:
        """The problem's own solution, one that ``random`` draws and one that ``greedy`` builds."""
        found = {"wrong start": np.array(self.problem.solution)}
        if self.pure.random is not None:
            found["random"] = self._random()
        if self.pure.greedy is not None:
            found["greedy"] = self._greedy(theta)
        for name, y in found.items():
            self._expect_inside(name, y)
        return list(found.values())

    def _typical(self, pairs: list[Pair]) -> list[np.ndarray]:
        """Where compiled chains end for some θ and for the one that is positive: far from the problem's own solution."""
        some = [pairs[0], max(pairs, key=lambda pair: float(pair.theta.min()))]
        try:
            ends = [self._chain(pair, self.problem.solution, _TYPICAL, 1).solutions[0] for pair in some]
        except ValueError as error:
            self.report.found("compiled", f"the compiled chain was refused: {error}")
            return []
        for y in ends:
            if not self.pure.contains(y):
                self.report.found("compiled", f"the compiled chain visits {show(y)}, which contains says is not in the set.")
        return ends

    def _chain(self, pair: Pair, y: np.ndarray, steps: int, chains: int, **options: Any) -> Sample:
        seed = int(self.rng.integers(2**62))
        return sample(
            self.problem, pair.theta, steps=steps, chains=chains, start=y, temperature=pair.temperature, seed=seed, **options
        )

    # --- starts --------------------------------------------------------------------------------------------------------

    def _random(self) -> np.ndarray:
        y = self.pure.memory(int(self.rng.integers(len(GARBAGE))))[0]
        self.pure.random(self.pure.data, Dice(self.rng), y)  # type: ignore[misc]
        return np.array(y)

    def _greedy(self, theta: np.ndarray) -> np.ndarray:
        state = self.pure.memory(int(self.rng.integers(len(GARBAGE))))
        self.pure.greedy(self.pure.data, theta, state)  # type: ignore[misc]
        return np.array(state[0])

    def _improved(self, y: np.ndarray, pair: Pair) -> np.ndarray:
        state = self.pure.desk.put(self.pure.fresh(y, *pair))
        self.pure.improve(self.pure.data, pair.theta, state)  # type: ignore[misc]
        return np.array(state[0])

    def _expect_inside(self, name: str, y: np.ndarray) -> None:
        if not self.pure.contains(y):
            self.report.found(name, f"{show(y)} is where chains begin, but contains says it is not in the set.")

    def _test_starts(self, met: list[tuple[Pair, np.ndarray]]) -> None:
        """What makes starts, for every θ and from solutions that were met there, as far as time goes."""
        until = monotonic() + _SECONDS / 3
        for pair, y in met:
            for made, test in ((self.pure.random, self._test_random), (self.pure.greedy, self._test_greedy)):
                if made is not None:
                    test(pair)
            if self.pure.improve is not None:
                self._test_improve(y, pair)
            if not self.report.ok or monotonic() > until:
                return

    def _test_random(self, pair: Pair) -> None:
        for _ in range(_RANDOM):
            self._expect_inside("random", self._random())

    def _test_greedy(self, pair: Pair) -> None:
        one, other = self._greedy(pair.theta), self._greedy(pair.theta)
        self._expect_inside("greedy", one)
        if not np.array_equal(one, other):
            self.report.found("greedy", f"greedy made {show(one)} or {show(other)}, as memory was before.")

    def _test_improve(self, y: np.ndarray, pair: Pair) -> None:
        """It stays in the set, leads to the same solution again, and never to a worse one."""
        better, again = self._improved(y, pair), self._improved(y, pair)
        path = f"{show(y)} → {show(better)}"
        if not np.array_equal(better, again):
            self.report.found("improve", f"improve from {show(y)} leads elsewhere the second time: it must be without chance.")
        if not self.pure.contains(better):
            self.report.found("improve", f"{path}, which contains says is not in the set.")
            return
        before, after = (float(self.pure.statistic(x) @ pair.theta + self.pure.phi(x)) for x in (y, better))
        if after < before - 1e-9 * max(1.0, abs(before)):
            self.report.found("improve", f"{path} lowers the objective from {before:.9g} to {after:.9g}.")

    # --- the walk ------------------------------------------------------------------------------------------------------

    def _walk(self, y: np.ndarray, pair: Pair, draws: int) -> np.ndarray:
        """Follow draws from a state that has a history; some are applied, others refused. Returns where it ends."""
        self._test_memory(y, pair)
        state = self.pure.fresh(y, *pair)
        self._describe(y)
        self.report.solutions += 1
        for k in range(draws):
            outcome = self._draw(state, self.rng)
            if outcome is None or not self.report.ok or monotonic() > self._deadline:
                break
            self.report.draws += 1
            if not outcome.target:
                state = outcome.refused[-1]
                continue
            before, target = self._value, self._solution(outcome.applied)
            self._describe(target)
            self._test_claims(outcome, self._solution(state), target, before, pair)
            if k % _EVERY == 0 and self.report.ok and outcome.target != self.pure.desk.solution(state):
                self._test_ratio(outcome, state, pair)
            if self.rng.random() < 0.5:
                state = outcome.applied
                self.report.solutions += 1
            else:
                state, self._value = outcome.refused[int(self.rng.integers(2))], before
        return np.array(self._solution(state))

    def _solution(self, saved: bytes) -> np.ndarray:
        return self.pure.desk.field(saved, 0)

    def _describe(self, y: np.ndarray) -> None:
        """T and φ, from scratch."""
        self._value = (self.pure.statistic(y), self.pure.phi(y))

    def _draw(self, state: bytes, rng: np.random.Generator) -> Outcome | None:
        """A draw of a move that applies; None after a finding."""
        mask, state = self.follower.applicable(state)
        moves = self.follower.moves(mask)
        if not moves:
            self.report.found("applicable", f"no move applies at {show(self._solution(state))}.")
            return None
        return self.follower.draw(state, moves[int(rng.integers(len(moves)))], Dice(rng, max_draws=100_000), look=True)

    def _test_memory(self, y: np.ndarray, pair: Pair) -> None:
        """What ``prepare`` leaves as it found it must not decide what a draw does: the same draws from two memories."""
        states = {self.pure.fresh(y, *pair, garbage) for garbage in range(len(GARBAGE))}
        for seed in self.rng.integers(2**62, size=20 if len(states) > 1 else 0).tolist():
            outcomes = [self._draw(state, np.random.default_rng(seed)) for state in states]
            if any(o is None for o in outcomes):
                return
            if any(o[:10] != outcomes[0][:10] for o in outcomes):  # type: ignore[index]
                self.report.found("prepare", f"at {show(y)}, a draw depends on what memory held before prepare.")
                return

    def _test_claims(self, outcome: Outcome, y: np.ndarray, target: np.ndarray, before: tuple, pair: Pair) -> None:
        what = f"{self.pure.moves[outcome.move].name!r} from {show(y)} to {show(target)}"
        if not self.pure.contains(target):
            self.report.found("feasible", f"{what}: feasible says True, contains says False.")
            return
        expect_finite(self.report, target, *self._value)
        expect_finite(self.report, y, *before)
        if "objective" in self.report.findings:
            return
        exact = self._value[0] - before[0]
        claimed = np.zeros(self.problem.size)
        claimed[list(outcome.change)] = list(outcome.change.values())
        scale = 1e-9 * max(self.unit, float(np.abs(self._value[0]).max()))
        if not np.abs(claimed - exact).max() <= scale:
            k = int(np.argmax(np.abs(claimed - exact)))
            self.report.found("wrong change", f"{what}: entry {k} of T changes by {exact[k]:g}, claimed {claimed[k]:g}.")
        difference = self._value[1] - before[1]
        if not abs(outcome.gain - difference) <= 1e-9 * max(self.unit, abs(self._value[1]), abs(before[1])):
            self.report.found("wrong gain", f"{what}: φ changes by {difference:.12g}, claimed {outcome.gain:.12g}.")
        mask, _ = self.follower.applicable(self.pure.fresh(target, *pair))
        if mask != outcome.mask:
            self.report.found("applicable", f"{what}: applicable_after says {outcome.mask:b}, applicable says {mask:b}.")

    # --- ratios ------------------------------------------------------------------------------------------------------------

    def _test_ratio(self, outcome: Outcome, state: bytes, pair: Pair) -> None:
        """Mass there and back between y and y', for the ratio that a draw claims."""
        y, target = self._solution(state), self._solution(outcome.applied)
        fields = self._integers(state, outcome.applied, self.pure.fresh(target, *pair))
        found = None
        if not self._many:
            found = self._masses(outcome, state, _LISTED, None)
            self._many = found is None
        certain = found is not None
        for places in () if certain else (fields, []):  # a vector of bits has its entries everywhere
            if found is None:
                found = self._masses(outcome, state, _HINTED, _Hints(y, target, outcome, places))
        if found is not None and not certain and not self._balances(outcome, *found):
            self._doubts += 1
            sure = self._doubts <= _DOUBTS and monotonic() < self._deadline
            found = self._masses(outcome, state, _LISTED_IN_DOUBT, None) if sure else None
        if found is None:
            self.undecided += 1
        elif self._balances(outcome, *found):
            self.confirmed += 1
        else:
            there, back = found
            name, way = self.pure.moves[outcome.move].name, f"{show(y)} → {show(target)}"
            if back[2] == 0.0:
                self.report.found("one-way move", f"{name!r} goes {way} and never back.")
            else:
                ratios = f"claimed {np.exp(outcome.log_ratio):.8g}, exact {back[2] / there[2]:.8g}"
                self.report.found("wrong ratio", f"{name!r} {way}: {ratios}.")

    def _masses(self, outcome: Outcome, state: bytes, limit: int, hints: Any) -> tuple[tuple, tuple] | None:
        """Masses there and back; None if there are too many draws."""
        try:
            there = self._mass(state, outcome.target, outcome.log_ratio, limit, hints)
            return there, self._mass(outcome.applied, self.pure.desk.solution(state), -outcome.log_ratio, limit, hints)
        except TooManyDraws:
            return None

    def _balances(self, outcome: Outcome, there: tuple, back: tuple) -> bool:
        wanted = float(np.exp(min(outcome.log_ratio, 700.0))) * there[0]
        allowed = (self.tolerance + there[1] + back[1]) * max(back[0], wanted)
        return abs(back[0] - wanted) <= allowed or max(back[0], wanted) < (LOST if back[0] == 0.0 else 1e-280)

    def _integers(self, *states: bytes) -> list[np.ndarray]:
        """The fields that hold integers: they may say where an entry is found."""
        fields = [f for f, dtype in enumerate(self.pure.desk.dtypes) if dtype.kind in "iu"]
        return [self.pure.desk.field(state, f) for state in states for f in fields]

    def _mass(self, state: bytes, target: bytes, log_ratio: float, limit: int, hints: Any) -> tuple[float, float, float]:
        """Mass of the draws that lead to ``target`` and claim a ratio, its relative error, and the mass whatever they claim."""
        near = slack = total = 0.0
        until = monotonic() + _LONGEST
        desk, data = self.pure.desk, self.pure.data
        mask, state = self.follower.applicable(state)
        for s in self.follower.moves(mask):
            move = self.pure.moves[s]

            def propose(rng: Any, move: Any = move) -> tuple[Any, float]:
                return proposal(move.propose(data, desk.put(state), rng))

            with np.errstate(all="ignore"):
                for draws, (drawn, claimed) in paths(propose, max_paths=limit, hints=hints):
                    if monotonic() > until:
                        raise TooManyDraws("takes too long to list")
                    if claimed == -np.inf or not move.feasible(data, desk.state, drawn):
                        continue
                    move.apply(data, desk.state, drawn)
                    if desk.solution(desk.save()) == target:
                        p = draws.probability * self.weights[s]
                        total += p
                        if abs(claimed - log_ratio) <= self.tolerance * max(1.0, abs(log_ratio)) + draws.slack:
                            near, slack = near + p, max(slack, draws.slack)
        return near, slack, total

    # --- the compiled chain --------------------------------------------------------------------------------------------------

    def _test_compiled(self, pair: Pair, y: np.ndarray) -> None:
        """Means and objectives against the iterates, and one step against the exact probabilities where they can be listed."""
        theta = pair.theta
        try:
            out = self._chain(pair, y, _STEPS, _CHAINS, trace=_STEPS, iterates=True)
            visited = np.ascontiguousarray(out.iterates.reshape(-1, len(y)))
            statistics = observe(self.problem, visited).statistics
        except ValueError as error:
            self.report.found("compiled", f"the compiled chain was refused or left the set: {error}")
            return
        scale = _ROUNDING * max(1.0, float(np.abs(statistics).max()))
        apart = np.flatnonzero(~(np.abs(out.mean - statistics.mean(0)) <= scale))
        if len(apart):
            k = int(apart[0])
            self.report.found(
                "compiled",
                f"entry {k} of the compiled chain's mean is {out.mean[k]:.9g}, but T averages to {statistics.mean(0)[k]:.9g} over "
                "its iterates.",
            )
        objective = out.info.trace[0, ..., 0].ravel()
        for row in np.unique(np.linspace(0, len(visited) - 1, 40).astype(int)).tolist():
            exact = float(theta @ self.pure.statistic(visited[row]) + self.pure.phi(visited[row]))
            if not abs(objective[row] - exact) <= _ROUNDING * max(1.0, abs(exact), float(np.abs(theta).sum())):
                self.report.found(
                    "compiled",
                    f"after {row % _STEPS + 1} compiled steps the objective is {objective[row]:.9g}, but it should be {exact:.9g}.",
                )
                break
        self.report.tested.append(f"the compiled chain: its mean and objective over {_CHAINS * _STEPS} steps")
        if self.report.ok:
            self._test_one_step(pair, visited[-1])

    def _test_one_step(self, pair: Pair, y: np.ndarray) -> None:
        """Where the compiled chain goes from y, in many independent steps."""
        try:
            law = self._law(pair, y)
        except TooManyDraws:
            return
        chains = max(100, min(_ONE_STEP, _MEMORY // sum(a.nbytes for a in self.problem.state)))
        parts = [
            sample(
                self.problem, pair.theta, steps=1, chains=part.stop - part.start, start=y, temperature=pair.temperature, trace=0,
                seed=int(self.rng.integers(2**62)),
            ).solutions
            for part in independent(chains, len(self.problem.moves))
        ]  # fmt: skip
        rows = np.concatenate([p.reshape(-1, len(y)) for p in parts]).view(np.dtype((np.void, y.nbytes))).ravel()
        ends, counts = np.unique(rows, return_counts=True)
        seen = dict(zip((e.tobytes() for e in ends), counts.tolist(), strict=True))
        keys = list(law.keys() | seen.keys())
        p, c = np.array([law.get(k, 0.0) for k in keys]), np.array([seen.get(k, 0) for k in keys])
        excess = divergence(c, np.full(len(keys), chains), np.minimum(p, 1.0))
        worst = int(np.argmax(excess))
        if excess[worst] > np.log(2.0 * len(keys) / FALSE_ALARMS):
            end = np.frombuffer(keys[worst], y.dtype)
            self.report.found(
                "compiled",
                f"the compiled chain goes {show(y)} → {show(end)} in {c[worst]} of {chains} steps, exact probability "
                f"{p[worst]:.6g}.",
            )
        self.report.tested.append(f"{chains} compiled steps from one solution, false alarms ≤ {FALSE_ALARMS:g}")

    def _law(self, pair: Pair, y: np.ndarray) -> dict[bytes, float]:
        """Exact probabilities of one step from y."""
        law = self.follower.law(self.pure.fresh(y, *pair), max_paths=_LISTED)
        if law.error:
            raise TooManyDraws(law.error)
        total = self._weight(law.mask)
        out: dict[bytes, float] = {}
        here = np.ascontiguousarray(y).tobytes()
        for o in law.outcomes:
            if not o.target or o.target == here:
                continue
            delta = o.gain + sum(pair.theta[i] * v for i, v in o.change.items())
            log_p = delta / pair.temperature + o.log_ratio + np.log(total / self._weight(o.mask))
            p = o.probability * self.weights[o.move] / total * float(np.exp(min(log_p, 0.0)))
            out[o.target] = out.get(o.target, 0.0) + p
        out[here] = max(0.0, 1.0 - sum(out.values()))
        return out

    def _weight(self, mask: int) -> float:
        return float(sum(w for s, w in enumerate(self.weights) if mask >> s & 1))


class _Hints:
    """Choices that have to do with a change from y to y': where and what it is, where its entries are found, what was drawn."""

    def __init__(self, y: np.ndarray, target: np.ndarray, outcome: Outcome, fields: list[np.ndarray]) -> None:
        changed = np.flatnonzero(y != target)
        entries = {int(v) for k in changed for v in (k, y[k], target[k]) if float(v).is_integer()} | set(outcome.change)
        self._values = {v + shift for v in (*entries, *outcome.choices) for shift in (-1, 0, 1)}
        self._from_end: set[int] = set()
        for field in fields:
            at = np.flatnonzero(np.isin(field, list(entries)))[:64]
            self._values |= set(at.tolist())
            self._from_end |= {len(field) - int(k) for k in at}

    def __call__(self, n: int, values: Any) -> Any:
        if n <= 32:
            return range(n)
        if values is not None:
            found = np.flatnonzero(np.isin(values, list(self._values)))
        else:
            found = np.array(sorted({v for v in (*self._values, *(n - k for k in self._from_end)) if 0 <= v < n}), np.int64)
        return found if len(found) else np.zeros(1, np.int64)
