"""The set itself, and the solutions that ``random``, ``greedy`` and ``improve`` make."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from movegrad.proof.laws import Laws
from movegrad.proof.numbers import same
from movegrad.proof.pure import GARBAGE, Dice, TooManyDraws, paths, place_of
from movegrad.proof.report import show

_PERTURBED = 20_000  # vectors near listed solutions that are shown to ``contains``
_RANDOM_PATHS = 5_000  # outcomes of ``random`` that are listed
_RANDOM_DRAWS = 1_000  # else so many are drawn
_IMPROVED, _IMPROVED_AGAIN = 2_000, 50  # solutions that are improved for the first θ, and for the others


class Starts:
    """Tests of the functions that belong to no move; findings go to the report of the laws."""

    def __init__(self, laws: Laws) -> None:
        self.laws, self.pure, self.report, self.problem = laws, laws.pure, laws.report, laws.problem

    # --- the set -------------------------------------------------------------------------------------------------------

    def test_set(self, listed: list[np.ndarray], rng: np.random.Generator) -> None:
        """``contains`` is true of all listed solutions, and of nothing near them that is not listed."""
        if not self._contains(self.problem.solution):
            self.report.found("wrong start", f"contains is False for the problem's own solution {show(self.problem.solution)}.")
        if self.problem.solution.tobytes() not in self.laws.number:
            self.report.found("wrong start", f"the problem's own solution {show(self.problem.solution)} is not among the states.")
        seen = set()
        for given, y in zip(listed, self.laws.solutions, strict=True):
            if not np.array_equal(given, y):
                self.report.found("set", f"states lists {show(given)}, which is no solution of dtype {y.dtype}.")
            elif y.tobytes() in seen:
                self.report.found("set", f"states lists {show(y)} more than once.")
            seen.add(y.tobytes())
            if not self._contains(y):
                self.report.found("set", f"contains is False for the listed solution {show(y)}.")
        if self.problem.functions.contains is None:
            self.report.note("no contains: starts and observed solutions are taken as they come")
        elif self.report.complete:
            for y in self._near(rng):
                if y.tobytes() not in self.laws.number and self._contains(y):
                    self.report.found("contains", f"contains is True for {show(y)}, which is not among the states.")

    def _contains(self, y: np.ndarray) -> bool:
        try:
            return self.pure.contains(y)
        except Exception as error:  # a start may be anything
            self.report.found("contains", f"contains raised {type(error).__name__}: {error}{place_of(error)}, for {show(y)}.")
            return False

    def _near(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """All vectors of the values that occur and those next to them, or, where they are many, some that are near a solution."""
        solutions = np.array(self.laws.solutions)
        values = np.unique(solutions)
        if solutions.dtype.kind in "iu":
            limits = np.iinfo(solutions.dtype)
            beyond = [v for v in (int(values[0]) - 1, int(values[-1]) + 1) if limits.min <= v <= limits.max]
            values = np.unique(np.concatenate([values, np.array(beyond, solutions.dtype)]))
        n, size = solutions.shape
        if len(values) ** size <= _PERTURBED:  # then all that there are
            for entries in product(values, repeat=size):
                yield np.array(entries, solutions.dtype)
            return
        for _ in range(_PERTURBED // 4):
            y, (a, b) = solutions[rng.integers(n)], rng.integers(size, size=2)
            one, other = values[rng.integers(len(values), size=2)]
            yield _changed(_changed(y, a, y[b]), b, y[a])
            yield _changed(y, a, y[b])
            yield _changed(y, a, one)
            yield _changed(_changed(y, a, one), b, other)

    # --- random ----------------------------------------------------------------------------------------------------------

    def test_random(self, rng: np.random.Generator) -> np.ndarray | None:
        """``random`` stays in the set; its law is uniform where the problem says so. Returns the law, where it is known."""
        if self.pure.random is None:
            return None
        try:
            law, *others = (self._law_of_random(garbage) for garbage in range(len(GARBAGE)))
        except TooManyDraws:
            law, others = {}, []
        if any(law.keys() != other.keys() or any(abs(law[k] - other[k]) > 1e-12 for k in law) for other in others):
            self.report.found("random", "random depends on what memory held before.")
        if not law:
            self._sample_random(rng)
            return np.full(len(self.laws.number), 1.0 / len(self.laws.number)) if self.problem.uniform else None
        n = len(self.laws.number)
        inside = {key: p for key, p in law.items() if key in self.laws.number}
        for key in law.keys() - inside.keys():
            solution = np.frombuffer(key, self.problem.solution.dtype)
            self.report.found("random", f"random makes {show(solution)}, which is not in the set, with probability {law[key]:.3g}.")
        highest, lowest = max(inside.values(), default=0.0), min(inside.values(), default=0.0) if len(inside) == n else 0.0
        spread = f"between {lowest:.6g} and {highest:.6g} instead of {1 / n:.6g}"
        if max(highest - 1 / n, 1 / n - lowest) <= 1e-9:
            pass
        elif self.problem.uniform:
            self.report.found("random", f"random is not uniform: probabilities are {spread} (or say uniform=False).")
        else:
            self.report.note(f"random is not uniform, as the problem says: probabilities are {spread}")
        return np.array([inside.get(y.tobytes(), 0.0) for y in self.laws.solutions])

    def _law_of_random(self, garbage: int) -> dict[bytes, float]:
        """Probability of each solution that ``random`` makes."""
        memory = self.pure.memory(garbage)[0]

        def make(draws: Any) -> Any:
            solution = memory.copy()
            self.pure.random(self.pure.data, draws, solution)  # type: ignore[misc]
            return solution

        law: dict[bytes, float] = defaultdict(float)
        try:
            for draws, solution in paths(make, max_draws=4 * len(self.problem.solution) + 64, max_paths=_RANDOM_PATHS):
                law[solution.tobytes()] += draws.probability
        except TooManyDraws:
            raise
        except Exception as error:
            self.report.found("random", f"random raised {type(error).__name__}: {error}{place_of(error)}.")
        return law

    def _sample_random(self, rng: np.random.Generator) -> None:
        if "random" in self.report.findings:
            return
        for _ in range(_RANDOM_DRAWS):
            solution = self.pure.memory(int(rng.integers(len(GARBAGE))))[0]
            self.pure.random(self.pure.data, Dice(rng), solution)  # type: ignore[misc]
            if not self._contains(solution):
                self.report.found("random", f"random made {show(solution)}, which is not in the set.")
                return
        self.report.tested.append(f"random: {_RANDOM_DRAWS} draws are in the set (too many outcomes to list)")

    # --- greedy and improve ------------------------------------------------------------------------------------------------

    def test_greedy(self, theta: np.ndarray) -> int | None:
        """``greedy`` builds a solution, whatever memory held; returns its number."""
        if self.pure.greedy is None:
            return None
        built = []
        for garbage in range(len(GARBAGE)):
            state = self.pure.memory(garbage)
            try:
                self.pure.greedy(self.pure.data, theta, state)
            except Exception as error:
                kind = "overflow" if isinstance(error, OverflowError) else "greedy"
                self.report.found(kind, f"greedy raised {type(error).__name__}: {error}{place_of(error)}.")
                return None
            built.append(state[0])
            if not self._contains(state[0]):
                self.report.found("greedy", f"greedy made {show(state[0])}, which is not in the set.")
        for other in built[1:]:
            if not same(built[0], other):
                self.report.found("greedy", f"greedy made {show(built[0])} or {show(other)}, as memory was before.")
        return self.laws.number.get(built[0].tobytes())

    def test_improve(self, theta: np.ndarray, rng: np.random.Generator, first: bool) -> dict[int, int]:
        """``improve`` stays in the set, never lowers the objective, and its state goes on as a fresh one; returns what it makes."""
        made: dict[int, int] = {}
        if self.pure.improve is None:
            return made
        n = len(self.laws.solutions)
        most = _IMPROVED if first else _IMPROVED_AGAIN
        for i in range(n) if n <= most else rng.choice(n, most, replace=False).tolist():
            y, state = self.laws.solutions[i], self.pure.desk.put(self.laws.fresh[i])
            try:
                self.pure.improve(self.pure.data, theta, state)
                once = self.pure.desk.save()
                self.pure.improve(self.pure.data, theta, self.pure.desk.put(self.laws.fresh[i]))
            except Exception as error:
                self.report.found("improve", f"improve raised {type(error).__name__}: {error}{place_of(error)}, at {show(y)}.")
                return made
            if self.pure.desk.solution(once) != self.pure.desk.solution(self.pure.desk.save()):
                self.report.found("improve", f"improve from {show(y)} leads elsewhere the second time: it must be without chance.")
            path = f"{show(y)} → {show(state[0])}"
            j = self.laws.number.get(state[0].tobytes())
            if j is None:
                self.report.found("improve", f"{path}, which is not in the set.")
                continue
            made[i] = j
            before, after = (float(self.laws.statistics[k] @ theta + self.laws.phi[k]) for k in (i, j))
            if after < before - 1e-9 * max(1.0, abs(before)):
                self.report.found("improve", f"{path} lowers the objective from {before:.9g} to {after:.9g}.")
            self.pure.attach(self.pure.data, theta, state)  # as a chain does when it is loaded
            self.laws.add_history(self.pure.desk.save(), j, lambda path=path: f"after improve led {path}", "stale state")
        return made


def _changed(y: np.ndarray, k: int, value: Any) -> np.ndarray:
    out = y.copy()
    out[k] = value
    return out
