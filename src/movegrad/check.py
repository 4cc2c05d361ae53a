"""Prove that a problem's moves are right, on a small instance.

A wrong correction ratio does not crash and hardly shows in experiments. Since moves draw only through finite choices, their laws
can be computed exactly: :func:`check` runs the same source in pure Python under every outcome of every draw, from every solution.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from movegrad._enumerate import PureProblem, solutions
from movegrad._specialise import pure
from movegrad._validate import instance_of, integer_in, positive, seed_in
from movegrad.problem import Problem

_SHOWN = 3  # examples of each kind of finding
_DENSE = 2_000  # up to so many solutions the stationary law is solved for
_DRAWS = 50  # starts that are made
_SPREAD = 50.0  # of the objective over t, at most: beyond it most probabilities vanish
_IMPROVED = 10  # solutions that are improved
_WALK = 60  # applied moves after which derived fields are compared with fresh ones


class WrongProblem(AssertionError):
    """Raised by :meth:`Report.raise_if_wrong`."""


@dataclass
class Report:
    """What :func:`check` found. ``findings`` maps a kind of error to sentences; it is empty if the problem is right."""

    problem: str
    solutions: int = 0
    draws: int = 0
    self_loops: int = 0
    complete: bool = False  # the set was listed independently of the moves
    depends_on_theta: list[str] = field(default_factory=list)
    worst_balance: float = 0.0  # largest |π(y)P(y,y') − π(y')P(y',y)| over the largest flow
    worst_law: float = 0.0  # largest total variation between the stationary law and π
    findings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def ok(self) -> bool:
        return not self.findings

    def raise_if_wrong(self) -> "Report":
        """Raise :class:`WrongProblem` with the findings, or return the report."""
        if not self.ok:
            raise WrongProblem(str(self))
        return self

    def __str__(self) -> str:
        head = f"{self.problem}: {'right' if self.ok else 'WRONG'} on {self.solutions} solutions, {self.draws} draws"
        lines = [head, f"  detailed balance to {self.worst_balance:.1e}, stationary law to {self.worst_law:.1e}"]
        lines.append(
            f"  proposals that return the same solution: {self.self_loops}; "
            f"moves that depend on θ: {', '.join(self.depends_on_theta) or 'none'}"
        )
        if not self.complete:
            lines.append("  the problem lists no states: solutions that moves never reach would not be noticed")
        for kind, sentences in self.findings.items():
            lines.append(f"  {kind} ({len(sentences)}):")
            lines += [f"    {s}" for s in sentences[:_SHOWN]]
        return "\n".join(lines)

    __repr__ = __str__


def check(
    problem: Problem,
    *,
    temperatures: tuple[float, ...] = (0.5, 1.0, 3.0),
    max_states: int = 5_000,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> Report:
    """Compute the exact law of every move on every solution, and compare it with what the moves claim.

    Reported: one-way moves; ratios that differ from q(y', y)/q(y, y') (claimed and exact); gains and changes of T that differ from
    recomputation; ``feasible`` that disagrees with ``contains``; derived fields that ``apply`` left stale; a proposal that
    changes the solution; starts outside the set; ``improve`` that does not; solutions that are never reached; detailed
    balance and the stationary law against the Gibbs law, for θ of both signs and several temperatures; proposals that depend on θ
    without saying so.

    Parameters
    ----------
    problem : Problem
        A small instance: the work grows with solutions × draws.
    temperatures : sequence of float
        Raised where the objective differs by more than 50 t, lest most probabilities vanish.
    max_states : int
        Refuse larger sets.
    tolerance : float
        On ratios, balance and law; exact up to rounding is about 1e-15.
    """
    instance_of(problem, "problem", Problem)
    if np.ndim(temperatures) != 1 or not len(temperatures):
        raise ValueError(f"temperatures must be a sequence of numbers > 0, got {temperatures!r}.")
    for t in temperatures:
        positive(t, "temperatures")
    integer_in(max_states, "max_states", 1)
    positive(tolerance, "tolerance")
    seed_in(seed)
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=problem.size)
    thetas = [theta, -theta, 2.0 * rng.normal(size=problem.size)]
    inspector = _Inspector(problem, max_states, tolerance)
    for number, guide in enumerate(thetas):
        for t in temperatures:
            if problem.guided or (number, t) in ((0, temperatures[0]), (1, temperatures[-1])):
                inspector.tabulate(guide, t)
            inspector.compare_with_gibbs(guide, t)
    inspector.walk(thetas[0], temperatures[0], rng)
    inspector.draw(rng)
    inspector.improve(thetas[0], temperatures[0], rng)
    return inspector.report


def stationary_law(rates: np.ndarray) -> np.ndarray:
    """π with π_i Σ_j r_ij = Σ_j π_j r_ji for rates r ≥ 0 between states, which are overwritten; nan where there is more than one.

    States are taken out one after another and their traffic is led past them (Grassmann, Taksar and Heyman, 1985). Nothing is
    subtracted, so that the rarest state is as exact as the most common one.
    """
    n = len(rates)
    for k in range(n - 1, 0, -1):
        back = rates[k, :k]
        total = back.sum()
        rates[:k, k] /= total if total > 0 else np.nan
        rates[:k, :k] += rates[:k, k, None] * back
    law = np.ones(n)
    for k in range(1, n):
        law[k] = law[:k] @ rates[:k, k]
    return law / law.sum()


@dataclass(frozen=True)
class _Table:
    """All draws of all moves from all solutions, one row each."""

    source: np.ndarray
    move: np.ndarray
    target: np.ndarray  # -1: the chain stays
    probability: np.ndarray
    log_ratio: np.ndarray
    masks: np.ndarray  # (solutions,)


class _Inspector:
    def __init__(self, problem: Problem, max_states: int, tolerance: float) -> None:
        self.problem, self.tolerance = problem, tolerance
        self.report = Report(problem.name, complete=problem.states is not None)
        self.pure = PureProblem(problem)
        if not self.pure.contains(problem.solution):
            self._found("wrong start", f"contains is False for the problem's own solution {_show(problem.solution)}.")
        self.solutions = [np.asarray(y).astype(np.int64) for y in solutions(problem, max_states)]
        self.number = {y.tobytes(): i for i, y in enumerate(self.solutions)}
        self.statistics = np.array([self.pure.statistic(y) for y in self.solutions])
        self.phi = np.array([self.pure.phi(y) for y in self.solutions])
        self.report.solutions = len(self.solutions)
        weights = np.array([m.weight for m in problem.moves])
        self.weights = weights / weights.sum()
        self.table = _Table(*[np.zeros(0, np.int64)] * 6)
        self.tabulated = False
        for y in self.solutions:
            if not self.pure.contains(y):
                self._found("set", f"contains is False for the listed solution {_show(y)}.")

    def _found(self, kind: str, sentence: str) -> None:
        if sentence not in self.report.findings[kind]:
            self.report.findings[kind].append(sentence)

    # --- the law of every move ---------------------------------------------------------------------------------------

    def tabulate(self, guide: np.ndarray, temperature: float) -> None:
        """Enumerate all draws; on the first call test everything that θ has no part in."""
        rows: list[tuple] = []
        masks, before = [], self.table
        for i, y in enumerate(self.solutions):
            state = self.pure.state(y, guide, temperature)
            masks.append(int(self.pure.applicable(self.pure.data, state)))
            for s in range(len(self.pure.moves)):
                try:
                    rows += [(i, s, *row) for row in self._draws(state, s, i, first=not self.tabulated)]
                except Exception as error:  # whatever the user's function raises is the finding
                    self._found("error", f"move {self.pure.moves[s].name!r} raised {type(error).__name__} at {_show(y)}: {error}")
        source, move, target, probability, log_ratio = (
            (np.array(c) for c in zip(*rows, strict=True)) if rows else [np.zeros(0, int)] * 5
        )
        self.table = _Table(source, move, target, probability.astype(float), log_ratio.astype(float), np.array(masks))
        self.report.draws = len(rows)
        if self.tabulated:
            self._test_dependence(before)
        else:
            self._test_reach()
        self.tabulated = True
        self._test_ratios()

    def _draws(self, state: Any, s: int, i: int, first: bool) -> list[tuple[int, float, float]]:
        rows = []
        for probability, after, move, log_ratio in self.pure.draws(state, s):
            name, y = self.pure.moves[s].name, self.solutions[i]
            if not np.array_equal(after[0], y):
                self._found("proposal", f"propose of {name!r} changed the solution {_show(y)} to {_show(after[0])}.")
            if np.isnan(log_ratio) or log_ratio == np.inf:
                self._found("wrong ratio", f"{name!r} at {_show(y)}, move {move}: claimed log ratio is {log_ratio}.")
            if log_ratio == -np.inf:
                rows.append((-1, probability, -np.inf))
                continue
            rows.append((self._land(after, s, i, move, first), probability, float(log_ratio)))
        return rows

    def _land(self, after: Any, s: int, i: int, drawn: Any, first: bool) -> int:
        """Number of y', −1 if it is not feasible. ``after`` is the state as propose left it."""
        move, data, y = self.pure.moves[s], self.pure.data, self.solutions[i]
        feasible = bool(move.feasible(data, after, drawn))
        claimed = np.zeros(self.problem.size)
        for m in range(move.changes(data, after, drawn)):
            index, delta = move.change(data, after, drawn, m)
            claimed[index] += delta
        gain, mask = move.gain(data, after, drawn), move.applicable_after(data, after, drawn)
        if first and not np.array_equal(after[0], y):
            self._found("wrong gain", f"gain, change or feasible of {move.name!r} changed the solution {_show(y)}.")
        move.apply(data, after, drawn)
        what = f"{move.name!r} from {_show(y)} to {_show(after[0])}"
        if feasible != self.pure.contains(after[0]):
            self._found("feasible", f"{what}: feasible says {feasible}, contains says {not feasible}.")
            return -1
        if not feasible:
            return -1
        j = self.number.get(after[0].tobytes())
        if j is None:
            self._found("leaves the set", f"{what}, which is not among the states.")
            return -1
        if first:
            self._test_difference(what, claimed, gain, i, j)
            self.report.self_loops += i == j
        if mask != self.pure.applicable(data, after):
            self._found(
                "applicable", f"{what}: applicable_after says {mask:b}, applicable says {self.pure.applicable(data, after):b}."
            )
        return j

    def _test_difference(self, what: str, claimed: np.ndarray, gain: float, i: int, j: int) -> None:
        exact = self.statistics[j] - self.statistics[i]
        if not np.allclose(claimed, exact, rtol=1e-9, atol=1e-9):
            entry = int(np.argmax(np.abs(claimed - exact)))
            self._found("wrong change", f"{what}: entry {entry} of T changes by {exact[entry]:g}, claimed {claimed[entry]:g}.")
        difference = self.phi[j] - self.phi[i]
        if not np.isclose(gain, difference, rtol=1e-9, atol=1e-9):
            self._found("wrong gain", f"{what}: φ changes by {difference:.12g}, claimed {gain:.12g}.")

    # --- tests on the table ------------------------------------------------------------------------------------------

    def _test_ratios(self) -> None:
        """For each move and pair, draws that claim ρ and have mass f need draws back that claim 1/ρ and have mass ρ·f.

        This holds for all pairs if and only if detailed balance holds for every objective and temperature, whatever the signs.
        """
        table = self.table
        mass: dict[tuple, dict[float, float]] = defaultdict(lambda: defaultdict(float))
        for row in np.flatnonzero((table.target >= 0) & (table.target != table.source)):
            key = (table.move[row], table.source[row], table.target[row])
            mass[key][round(table.log_ratio[row], 9)] += table.probability[row]
        for (s, i, j), forward in mass.items():
            backward = mass.get((s, j, i))
            name, pair = self.problem.moves[s].name, f"{_show(self.solutions[i])} → {_show(self.solutions[j])}"
            if backward is None:
                self._found("one-way move", f"{name!r} goes {pair} and never back.")
                continue
            exact = sum(backward.values()) / sum(forward.values())
            for log_ratio in forward:  # equal ratios may differ in their last bits
                f = sum(p for r, p in forward.items() if abs(r - log_ratio) < 1e-8)
                b = sum(p for r, p in backward.items() if abs(r + log_ratio) < 1e-8)
                wanted = np.exp(log_ratio) * f
                if abs(b - wanted) > max(self.tolerance, 1e-8) * max(b, wanted):
                    self._found("wrong ratio", f"{name!r} {pair}: claimed {np.exp(log_ratio):.8g}, exact {exact:.8g}.")
                    break

    def _test_reach(self) -> None:
        table, n = self.table, len(self.solutions)
        edges = table.target >= 0
        neighbors = defaultdict(set)
        for i, j in zip(table.source[edges].tolist(), table.target[edges].tolist(), strict=True):
            neighbors[i].add(j)
        seen, queue = {0}, [0]
        while queue:
            for j in neighbors[queue.pop()] - seen:
                seen.add(j)
                queue.append(j)
        for i in sorted(set(range(n)) - seen)[:_SHOWN] if len(seen) < n else ():
            self._found(
                "unreachable",
                f"{n - len(seen)} of {n} solutions cannot be reached from {_show(self.solutions[0])}, "
                f"such as {_show(self.solutions[i])}.",
            )

    def _test_dependence(self, before: _Table) -> None:
        for s, move in enumerate(self.problem.moves):
            then, now = (self._law_of(table, s) for table in (before, self.table))
            if then.keys() == now.keys() and all(abs(then[k] - now[k]) < 1e-12 for k in then):
                continue
            if move.name not in self.report.depends_on_theta:
                self.report.depends_on_theta.append(move.name)
            if not self.problem.guided:
                self._found("depends on θ", f"the law of {move.name!r} changes with θ, but the problem is not declared guided.")

    @staticmethod
    def _law_of(table: _Table, s: int) -> dict[tuple, float]:
        law: dict[tuple, float] = defaultdict(float)
        for row in np.flatnonzero(table.move == s):
            law[int(table.source[row]), int(table.target[row]), round(table.log_ratio[row], 9)] += table.probability[row]
        return law

    # --- the chain ---------------------------------------------------------------------------------------------------

    def compare_with_gibbs(self, theta: np.ndarray, temperature: float) -> None:
        """Detailed balance and the stationary law of Algorithm 2 for one θ and t."""
        table, n = self.table, len(self.solutions)
        values = self.statistics @ theta + self.phi
        temperature = temperature * max(1.0, float(np.ptp(values)) / _SPREAD)
        logits = values / temperature
        gibbs = np.exp(logits - np.logaddexp.reduce(logits))
        in_mask = (table.masks[:, None] >> np.arange(len(self.weights))) & 1
        total = in_mask @ self.weights
        use = (table.target >= 0) & (table.target != table.source) & (in_mask[table.source, table.move] == 1)
        i, j, s = table.source[use], table.target[use], table.move[use]
        log_p = table.log_ratio[use] + logits[j] - logits[i] + np.log(total[i] / total[j])
        rate = table.probability[use] * self.weights[s] / total[i] * np.exp(np.minimum(log_p, 0.0))
        flow: dict[tuple, float] = defaultdict(float)
        for a, b, f in zip(i.tolist(), j.tolist(), (gibbs[i] * rate).tolist(), strict=True):
            flow[a, b] += f
        largest = max(flow.values(), default=1.0)
        for (a, b), f in flow.items():
            error = abs(f - flow.get((b, a), 0.0)) / largest
            if error > self.tolerance and a < b:
                self._found(
                    "detailed balance",
                    f"{_show(self.solutions[a])} ↔ {_show(self.solutions[b])} at t={temperature}: relative error {error:.2g}.",
                )
            self.report.worst_balance = max(self.report.worst_balance, error)
        if n <= _DENSE and not self.report.findings.get("unreachable"):
            kernel = np.zeros((n, n))
            np.add.at(kernel, (i, j), rate)
            self._test_law(kernel, gibbs, temperature)

    def _test_law(self, kernel: np.ndarray, gibbs: np.ndarray, temperature: float) -> None:
        distance = 0.5 * np.abs(stationary_law(kernel) - gibbs).sum()
        self.report.worst_law = max(self.report.worst_law, distance)
        if not distance <= self.tolerance:
            self._found("stationary law", f"total variation to the Gibbs law is {distance:.3g} at t={temperature}.")

    def walk(self, guide: np.ndarray, temperature: float, rng: np.random.Generator) -> None:
        """Apply moves in a row; where derived fields go stale, the law of some move differs from that at a fresh state."""
        state = self.pure.state(self.solutions[0], guide, temperature)
        if "error" in self.report.findings or "leaves the set" in self.report.findings:
            return
        for _ in range(_WALK):
            s = int(rng.integers(len(self.pure.moves)))
            options = [(p, a, m) for p, a, m, r in self.pure.draws(state, s) if r > -np.inf]
            options = [(p, a, m) for p, a, m in options if self.pure.moves[s].feasible(self.pure.data, a, m)]
            if not options:
                continue
            _, state, drawn = options[int(rng.integers(len(options)))]
            self.pure.moves[s].apply(self.pure.data, state, drawn)
            if self._is_stale(state, guide, temperature, repr(self.pure.moves[s].name)):
                return

    def _is_stale(self, state: Any, guide: np.ndarray, temperature: float, cause: str) -> bool:
        fresh = self.pure.state(state[0], guide, temperature)
        for other, move in enumerate(self.pure.moves):
            if not _same_law(self._local_law(state, other), self._local_law(fresh, other)):
                self._found(
                    "stale state",
                    f"after {cause} led to {_show(state[0])}, {move.name!r} draws otherwise than from a fresh state there.",
                )
                return True
        return False

    def improve(self, guide: np.ndarray, temperature: float, rng: np.random.Generator) -> None:
        """``improve`` stays in the set, never lowers the objective and leaves no field stale."""
        if self.problem.functions.improve is None:
            return
        for i in rng.integers(len(self.solutions), size=_IMPROVED).tolist():
            state = self.pure.state(self.solutions[i], guide, temperature)
            pure(self.problem.functions.improve)(self.pure.data, guide, state)
            path = f"{_show(self.solutions[i])} → {_show(state[0])}"
            if not self.pure.contains(state[0]):
                self._found("improve", f"{path}, which is not in the set.")
                return
            before, after = (float(guide @ self.pure.statistic(y) + self.pure.phi(y)) for y in (self.solutions[i], state[0]))
            if after < before - 1e-9 * max(1.0, abs(before)):
                self._found("improve", f"{path} lowers the objective from {before:.9g} to {after:.9g}.")
            if self._is_stale(state, guide, temperature, "improve"):
                return

    def draw(self, rng: np.random.Generator) -> None:
        """Starts that ``random`` draws and ``greedy`` builds are in the set."""
        for _ in range(_DRAWS):
            for name in ("random", "greedy"):
                solution = self.pure.make(name, rng)
                if solution is not None and not self.pure.contains(solution):
                    self._found(name, f"{name} made {_show(solution)}, which is not in the set.")

    def _local_law(self, state: Any, s: int) -> dict[tuple, float]:
        law: dict[tuple, float] = defaultdict(float)
        move = self.pure.moves[s]
        for probability, after, drawn, log_ratio in self.pure.draws(state, s):
            if log_ratio == -np.inf or not move.feasible(self.pure.data, after, drawn):
                law[b"", 0.0, 0.0] += probability
                continue
            gain = move.gain(self.pure.data, after, drawn)
            move.apply(self.pure.data, after, drawn)
            law[after[0].tobytes(), round(float(log_ratio), 7), round(float(gain), 7)] += probability
        return law


def _same_law(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(abs(one[k] - other[k]) < 1e-9 for k in one)


def _show(solution: np.ndarray) -> str:
    return "[" + " ".join(str(v) for v in np.asarray(solution).tolist()) + "]"
