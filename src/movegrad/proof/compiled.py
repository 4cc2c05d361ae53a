"""The compiled chain against the exact laws: the same source, but other integers, other memory and another order of calls.

Two kinds of tests. Exact ones: averages and objectives that the kernel reports must be those of the iterates it visited, and
iterates must be solutions. Statistical ones, by bounds that hold for any number of draws (Chernoff for counts, Freedman for sums),
so that a right problem is called wrong with probability at most :data:`FALSE_ALARMS` for a whole check.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from movegrad.engine import GROUPS
from movegrad.proof.balance import Balance
from movegrad.proof.laws import Laws
from movegrad.proof.report import show
from movegrad.sampling import sample
from movegrad.start import Heuristic

FALSE_ALARMS = 1e-6
_LONG = (64, 2048)  # chains and steps of the run whose transitions are counted
_SHORT = (16_384, 6)  # of the run whose one- and six-step laws are compared
_KEPT = 4_000_000  # entries of iterates in one run, at most
_STARTS = 4  # solutions where short runs begin
_ROUNDING = 1e-6  # relative: gains may be sums of single precision


class Pair(NamedTuple):
    """A θ and a temperature to run at."""

    theta: np.ndarray
    temperature: float


class Steps(NamedTuple):
    """Exact transition probabilities: entry e leads from ``source[e]`` to ``target[e]``; staying is an entry of its own."""

    source: np.ndarray
    target: np.ndarray
    probability: np.ndarray
    size: int  # number of solutions

    def after(self, law: np.ndarray) -> np.ndarray:
        """The law one step later."""
        return np.bincount(self.target, law[self.source] * self.probability, self.size)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """(n,) expected value one step later."""
        return np.bincount(self.source, self.probability * values[self.target], self.size)


class Compiled:
    """Runs kernels on the instance that was tabulated; findings go to the report of the laws."""

    def __init__(self, laws: Laws, balance: Balance, runs: int, rng: np.random.Generator) -> None:
        self.laws, self.balance, self.report, self.problem = laws, balance, laws.report, laws.problem
        self.rng, self.steps_made = rng, 0
        # Four statistical tests in each of the runs share the rate of false alarms.
        self._level = FALSE_ALARMS / (4 * runs)

    def test(self, pair: Pair, steps: Steps) -> None:
        """One θ and t, whose exact steps are given."""
        if not self.report.ok:
            return
        n, solutions = len(self.laws.solutions), np.array(self.laws.solutions)
        chains, length = self._fitting(_LONG)
        begin = self.rng.integers(n, size=chains)
        visited = self._run(pair, lambda part: solutions[begin[part]], length, chains)
        if visited is None:
            return
        self._test_transitions(steps, np.concatenate([begin[:, None], visited], axis=1), pair)
        chains, length = self._fitting(_SHORT)
        begin = np.resize(self.rng.permutation(n)[:_STARTS], chains)
        visited = self._run(pair, lambda part: solutions[begin[part]], length, chains)
        if visited is not None:
            self._test_short(steps, begin, visited, pair)

    def test_starts(self, pair: Pair, steps: Steps, random: np.ndarray | None, built: int | None, improved: dict[int, int]) -> None:
        """One step from what the compiled ``random``, ``greedy`` and ``improve`` make, whose laws in plain Python are given."""
        chains = self._fitting(_SHORT)[0]
        if random is not None:
            self._test_start(pair, steps, lambda _: "random", np.zeros(chains, int), random[None], "random")
        if built is not None:
            self._test_start(pair, steps, lambda _: "greedy", np.zeros(chains, int), np.eye(steps.size)[[built]], "greedy")
        if improved:
            begin, ends = (np.resize(list(numbers), max(chains, len(improved))) for numbers in (improved.keys(), improved.values()))
            rows = np.array(self.laws.solutions)[begin]
            self._test_start(pair, steps, lambda part: Heuristic(rows[part]), ends, np.eye(steps.size), "improve")

    def _test_start(
        self, pair: Pair, steps: Steps, start: Callable[[slice], Any], groups: np.ndarray, laws: np.ndarray, name: str
    ) -> None:
        """Chains of group g begin with law g, and make one step."""
        if not self.report.ok:
            return
        visited = self._run(pair, start, 1, len(groups), name)
        if visited is None:
            return
        for g in np.unique(groups):
            counts = np.bincount(visited[groups == g, 0], minlength=steps.size)
            self._compare_counts(counts, steps.after(laws[g]), f"one step after {name}", pair, 3 * steps.size * len(laws))

    def steps(self, pair: Pair) -> Steps:
        """The exact law of a step at θ and t, for which the laws must be tabulated now."""
        n = len(self.laws.solutions)
        logits, gains = self.laws.statistics @ pair.theta / pair.temperature, self.laws.table.gain / pair.temperature
        i, j, rate = self.balance.rates(logits, gains)
        code, place = np.unique(i * n + j, return_inverse=True)
        p = np.bincount(place, rate, len(code))
        stay = np.maximum(1.0 - np.bincount(code // n, p, n), 0.0)
        stay[stay < 1e-13] = 0.0
        here = np.arange(n)
        return Steps(np.concatenate([code // n, here]), np.concatenate([code % n, here]), np.concatenate([p, stay]), n)

    def _fitting(self, shape: tuple[int, int]) -> tuple[int, int]:
        chains, steps = shape
        return max(16, min(chains, _KEPT // (steps * len(self.problem.solution)))), steps

    # --- runs and their exact tests --------------------------------------------------------------------------------------

    def _run(self, pair: Pair, start: Callable[[slice], Any], steps: int, chains: int, name: str = "compiled") -> np.ndarray | None:
        """(chains, steps) numbers of the solutions visited, where ``start`` gives the starts of some; None after a finding."""
        rows: list[np.ndarray] = []
        for part in independent(chains, len(self.problem.moves)):
            try:
                out = sample(
                    self.problem, pair.theta, steps=steps, chains=part.stop - part.start, start=start(part),
                    temperature=pair.temperature, trace=steps, iterates=True, seed=int(self.rng.integers(2**62)),
                )  # fmt: skip
            except ValueError as error:
                self.report.found(name, f"the compiled chain was refused: {error}")
                return None
            visited = self._numbers(out.iterates)
            if visited is None:
                return None
            self._test_averages(out, visited, pair)
            rows.append(visited)
        self.steps_made += chains * steps
        return np.concatenate(rows)

    def _numbers(self, iterates: np.ndarray) -> np.ndarray | None:
        rows = np.ascontiguousarray(iterates.reshape(-1, iterates.shape[-1]))
        keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        unique, place = np.unique(keys, return_inverse=True)
        numbers = np.array([self.laws.number.get(key.tobytes(), -1) for key in unique])
        if (numbers < 0).any():
            outside = np.frombuffer(unique[int(np.argmin(numbers))].tobytes(), rows.dtype)
            self.report.found("compiled", f"the compiled chain visits {show(outside)}, which is not in the set.")
            return None
        return numbers[place].reshape(iterates.shape[:-1])

    def _test_averages(self, out: Any, visited: np.ndarray, pair: Pair) -> None:
        """Means and objectives that the kernel keeps up to date step by step, against the iterates."""
        at = f"θ up to {np.abs(pair.theta).max():.3g}, t={pair.temperature:g}"
        hint = self._hint()
        exact = self.laws.statistics[visited].mean((0, 1))
        scale = _ROUNDING * max(1.0, float(np.abs(self.laws.statistics).max()))
        wrong = np.flatnonzero(~(np.abs(out.mean - exact) <= scale))
        if len(wrong):
            k = int(wrong[0])
            self.report.found(
                "compiled",
                f"entry {k} of the compiled chain's mean is {out.mean[k]:.9g}, but T averages to {exact[k]:.9g} over its iterates "
                f"({at}){hint}.",
            )
        values = self.laws.statistics @ pair.theta + self.laws.phi
        objective, wanted = out.info.trace[0, ..., 0], values[visited]
        apart = ~(np.abs(objective - wanted) <= _ROUNDING * max(1.0, float(np.abs(values).max())))
        if apart.any():
            chain, step = np.argwhere(apart)[0]
            y = show(self.laws.solutions[visited[chain, step]])
            self.report.found(
                "compiled",
                f"after {step + 1} compiled steps the objective at {y} is {objective[chain, step]:.9g}, but it should be "
                f"{wanted[chain, step]:.9g} ({at}){hint}.",
            )

    def _hint(self) -> str:
        unsigned = [name for name, a in zip(self.problem.state._fields, self.problem.state, strict=True) if a.dtype.kind == "u"]
        return f"; {unsigned[0]} is unsigned: a difference of unsigned integers wraps in compiled code" if unsigned else ""

    # --- statistical tests -------------------------------------------------------------------------------------------------

    def _test_transitions(self, steps: Steps, visited: np.ndarray, pair: Pair) -> None:
        """From each solution, the steps made are independent draws from the exact law."""
        n, before, after = steps.size, visited[:, :-1].ravel(), visited[:, 1:].ravel()
        codes, counts = np.unique(before * n + after, return_counts=True)
        visits = np.bincount(before, minlength=n)
        known = steps.source * n + steps.target
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], codes), len(known) - 1)
        p = np.where(known[order][place] == codes, steps.probability[order][place], 0.0)
        # Counts of zero matter as well.
        observed = np.zeros(len(known), np.int64)
        hit = known[order][place] == codes
        observed[order[place[hit]]] = counts[hit]
        limit = np.log(2.0 * len(known) * len(before) / self._level)  # the number of visits is random: for each it might be
        self._compare_cells(codes // n, codes % n, counts, visits[codes // n], p, limit, pair)
        self._compare_cells(steps.source, steps.target, observed, visits[steps.source], steps.probability, limit, pair)
        self._compare_sums(steps, codes, counts, visits, pair)

    def _compare_cells(self, i: Any, j: Any, counts: Any, visits: Any, p: Any, limit: float, pair: Pair) -> None:
        excess = divergence(counts, visits, p)
        worst = int(np.argmax(excess)) if len(excess) else 0
        if len(excess) and excess[worst] > limit:
            a, b = (show(self.laws.solutions[int(k[worst])]) for k in (i, j))
            self.report.found(
                "compiled",
                f"the compiled chain goes {a} → {b} in {counts[worst]} of {visits[worst]} steps, exact probability {p[worst]:.6g} "
                f"(θ up to {np.abs(pair.theta).max():.3g}, t={pair.temperature:g}){self._hint()}.",
            )

    def _compare_sums(self, steps: Steps, codes: np.ndarray, counts: np.ndarray, visits: np.ndarray, pair: Pair) -> None:
        """Each entry of T, and whether the chain moved: sums of differences from what was expected, by Freedman's inequality."""
        n, i, j = steps.size, codes // steps.size, codes % steps.size
        limit = np.log(128.0 * (self.problem.size + 1) / self._level)  # of 64 sizes of the variance, peeled
        for k in range(self.problem.size + 1):
            if k < self.problem.size:
                values = self.laws.statistics[:, k]
                expected, second, got = steps.mean(values), steps.mean(values**2), values[j]
            else:
                moves = (steps.source != steps.target).astype(float)
                expected = second = np.bincount(steps.source, steps.probability * moves, n)
                got = (i != j).astype(float)
            total = float(counts @ (got - expected[i]))
            variance = 2.0 * float(visits @ np.maximum(second - expected**2, 0.0))
            bound = float(np.ptp(self.laws.statistics[:, k])) if k < self.problem.size else 1.0
            most = bound * limit / 3 + np.sqrt((bound * limit / 3) ** 2 + 2 * limit * (variance + bound**2))
            if abs(total) > most:
                what = f"entry {k} of T" if k < self.problem.size else "the number of accepted moves"
                self.report.found(
                    "compiled",
                    f"{what} of the compiled chain is off by {total:.4g} in {int(counts.sum())} steps; chance explains {most:.4g} "
                    f"(θ up to {np.abs(pair.theta).max():.3g}, t={pair.temperature:g}).",
                )

    def _test_short(self, steps: Steps, begin: np.ndarray, visited: np.ndarray, pair: Pair) -> None:
        """The law after one and after six steps."""
        n = steps.size
        for first in np.unique(begin):
            law = np.zeros(n)
            law[first] = 1.0
            for k in range(visited.shape[1]):
                law = steps.after(law)
                if k in (0, visited.shape[1] - 1):
                    counts = np.bincount(visited[begin == first, k], minlength=n)
                    what = f"{k + 1} step{'s' * (k > 0)} from {show(self.laws.solutions[first])}"
                    self._compare_counts(counts, law, what, pair, 2 * _STARTS * n)

    def _compare_counts(self, counts: np.ndarray, law: np.ndarray, what: str, pair: Pair, cells: int) -> None:
        total = counts.sum()
        excess = divergence(counts, np.full(len(counts), total), np.minimum(law, 1.0))
        worst = int(np.argmax(excess))
        if excess[worst] > np.log(2.0 * cells / self._level):
            self.report.found(
                "compiled",
                f"{what}, the compiled chain is at {show(self.laws.solutions[worst])} in {counts[worst]} of {total} cases, exact "
                f"probability {law[worst]:.6g} (θ up to {np.abs(pair.theta).max():.3g}, t={pair.temperature:g}).",
            )


def independent(chains: int, moves: int) -> list[slice]:
    """Chains of one call, where there are several moves: no two of so many try the same sequence of them."""
    most = chains if moves == 1 else GROUPS
    return [slice(low, min(low + most, chains)) for low in range(0, chains, most)]


def divergence(counts: np.ndarray, visits: np.ndarray, p: np.ndarray) -> np.ndarray:
    """N·KL(c/N, p): by Chernoff's bound, e⁻ˣ bounds the probability that it exceeds x on one side."""
    q, p = counts / np.maximum(visits, 1), np.where(p > 1.0 - 1e-13, 1.0, p)
    with np.errstate(all="ignore"):
        hit = np.where(q > 0, q * np.log(q / p), 0.0)
        miss = np.where(q < 1, (1 - q) * np.log((1 - q) / (1 - p)), 0.0)
        return np.where(visits > 0, visits * (hit + miss), 0.0)
