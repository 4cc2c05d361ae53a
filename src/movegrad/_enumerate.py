"""A problem run in pure Python, with every outcome of every draw: what the checker and exact enumeration stand on."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from movegrad import _build
from movegrad._specialise import pure
from movegrad.problem import Move, Problem

_GARBAGE = 77


class Enumerator:
    """A generator whose draws go through all their outcomes, one path after the other; ``probability`` is that of the path."""

    def __init__(self) -> None:
        self._path: list[list[int]] = []  # (choice, number of choices) of each draw
        self.start()

    def start(self) -> None:
        self._at, self.probability = 0, 1.0

    def turn(self) -> bool:
        """Go to the next path; False after the last."""
        while self._path and self._path[-1][0] + 1 >= self._path[-1][1]:
            self._path.pop()
        if not self._path:
            return False
        self._path[-1][0] += 1
        self.start()
        return True

    def _choose(self, n: int) -> int:
        if self._at == len(self._path):
            self._path.append([0, n])
        self._at += 1
        return self._path[self._at - 1][0]

    def integer(self, n: int) -> int:
        if n < 1:
            raise ValueError(f"integer(rng, n) needs n ≥ 1, got {n}")
        self.probability /= n
        return self._choose(int(n))

    def coin(self, p: float) -> bool:
        if not 0 <= p <= 1:
            raise ValueError(f"coin(rng, p) needs p in [0, 1], got {p}")
        if p in (0, 1):  # outcomes without a chance are not followed: a move may rely on that
            return bool(p)
        heads = self._choose(2) == 1
        self.probability *= p if heads else 1.0 - p
        return heads

    def categorical(self, cumulative: np.ndarray) -> int:
        weights = np.diff(cumulative, prepend=0.0)
        possible = np.flatnonzero(weights > 0)
        i = int(possible[self._choose(len(possible))])
        self.probability *= weights[i] / cumulative[-1]
        return i

    def leaf(self, tree: np.ndarray) -> int:
        return self.categorical(np.cumsum(tree[len(tree) // 2 :]))


class Dice:
    """The same draws at random."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def integer(self, n: int) -> int:
        return int(self._rng.integers(n))

    def coin(self, p: float) -> bool:
        return bool(self._rng.random() < p)

    def categorical(self, cumulative: np.ndarray) -> int:
        return int(np.searchsorted(cumulative, self._rng.random() * cumulative[-1], side="right"))

    def leaf(self, tree: np.ndarray) -> int:
        return self.categorical(np.cumsum(tree[len(tree) // 2 :]))


def paths(run: Callable[[Enumerator], Any]) -> Iterator[tuple[float, Any]]:
    """(probability, result) of ``run`` for every path of its draws that has a chance."""
    rng = Enumerator()
    while True:
        result = run(rng)
        if rng.probability > 0:
            yield rng.probability, result
        if not rng.turn():
            return


class PureMove(NamedTuple):
    """The functions of a move as plain Python, absent ones filled in."""

    name: str
    propose: Callable
    change: Callable
    apply: Callable
    changes: Callable
    gain: Callable
    feasible: Callable
    applicable_after: Callable


class PureProblem:
    """A problem in pure Python. Integers are kept as int64, as Numba computes with them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.data = type(problem.data)(*(_wide(f) for f in problem.data))
        functions = problem.functions
        self._prepare = pure(functions.prepare or _build.prepare_nothing)
        self._statistic = pure(functions.statistic or _build.identity)
        self._phi = pure(functions.phi or _build.zero)
        self._contains = pure(functions.contains or _build.anything)
        self.applicable = pure(functions.applicable or _build.all_moves)
        self.moves = [self._move(m) for m in problem.moves]

    @staticmethod
    def _move(move: Move) -> PureMove:
        bindings = _build.move_bindings(move)
        return PureMove(move.name, **{name: pure(function) for name, function in bindings.items()})

    def state(self, solution: np.ndarray, guide: np.ndarray, temperature: float) -> Any:
        """A fresh state at a solution."""
        state = self._garbage()
        state[0][:] = solution
        self._prepare(self.data, guide, temperature, state)
        return state

    def copy(self, state: Any) -> Any:
        return type(state)(*(a.copy() for a in state))

    def statistic(self, solution: np.ndarray) -> np.ndarray:
        out = np.zeros(self.problem.size)
        self._statistic(self.data, _wide(solution), out)
        return out

    def phi(self, solution: np.ndarray) -> float:
        return float(self._phi(self.data, _wide(solution)))

    def contains(self, solution: np.ndarray) -> bool:
        return bool(self._contains(self.data, _wide(solution)))

    def make(self, name: str, rng: np.random.Generator) -> np.ndarray | None:
        """A start that ``random`` or ``greedy`` makes; None if the problem has no such function."""
        function = getattr(self.problem.functions, name)
        if function is None:
            return None
        state = self._garbage()
        if name == "random":
            pure(function)(self.data, Dice(rng), state[0])
        else:
            pure(function)(self.data, rng.normal(size=self.problem.size), state)
        return state[0]

    def _garbage(self) -> Any:
        """A state as a kernel finds it: memory that is not clean."""
        return type(self.problem.state)(*(np.full_like(_wide(a), _GARBAGE) for a in self.problem.state))

    def draws(self, state: Any, s: int) -> Iterator[tuple[float, Any, Any, float]]:
        """(probability, state after the draw, move, log ratio) for every draw of move s."""

        def run(rng: Enumerator) -> tuple:
            copy = self.copy(state)
            return copy, *self.moves[s].propose(self.data, copy, rng)

        for probability, (after, move, log_ratio) in paths(run):
            yield probability, after, move, log_ratio


def _wide(array: Any) -> np.ndarray:
    array = np.asarray(array)
    wide = array.astype(np.int64) if array.dtype.kind in "iub" else array.copy()
    return wide if wide.ndim else wide[()]


def solutions(problem: Problem, limit: int) -> list[np.ndarray]:
    """All solutions: those that the problem lists, else those that moves reach from its own solution."""
    listed = _reached(problem) if problem.states is None else problem.states()
    found = list(islice(listed, limit + 1))
    if len(found) > limit:
        raise ValueError(f"{problem.name} must have at most {limit} solutions to enumerate, got more: use a smaller instance.")
    if not found:
        raise ValueError(f"states of {problem.name} must list at least one solution, got none.")
    return found


def _reached(problem: Problem) -> Iterator[np.ndarray]:
    pure_problem, guide = PureProblem(problem), np.zeros(problem.size)
    queue, seen = [_wide(problem.solution)], {_wide(problem.solution).tobytes()}
    while queue:
        solution = queue.pop()
        yield solution
        state = pure_problem.state(solution, guide, 1.0)
        for s, move in enumerate(pure_problem.moves):
            for _, after, drawn, log_ratio in pure_problem.draws(state, s):
                if log_ratio == -np.inf or not move.feasible(pure_problem.data, after, drawn):
                    continue
                move.apply(pure_problem.data, after, drawn)
                if after[0].tobytes() not in seen:
                    seen.add(after[0].tobytes())
                    queue.append(after[0].copy())
