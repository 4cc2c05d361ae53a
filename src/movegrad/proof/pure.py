"""A problem run in plain Python, with every outcome of every draw: what the checker and exact enumeration stand on."""

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import inf, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from movegrad.engine import bind
from movegrad.engine.compile import remake, tell, told_after
from movegrad.problem import Move, Problem
from movegrad.proof.numbers import ENOUGH, MATH, Field, as_field, as_solution, quiet_math, refuel

PATIENCE = 10.0  # seconds of listing, after which that is said
MAX_DRAWS = 64  # on one path, as in the compiled enumeration
MAX_PATHS = 50_000  # of one function from one state
GARBAGE = (77, 0, -3)  # what memory may hold that nobody has written
_EPSILON = float(np.finfo(float).eps)
LOST = 4.0 * _EPSILON  # of probability: a draw this rare may be rounded away beside likely ones


class TooManyDraws(Exception):
    """A function draws without end, or has too many outcomes to list."""


class TooManySolutions(ValueError):
    """A set is too large to list."""


class Draws:
    """The draws of a move in plain Python; how an outcome is chosen is left to subclasses.

    ``probability`` is that of the outcomes since ``start``; ``slack`` bounds its relative error, which differences of cumulated
    weights bring. ``choices`` are their numbers among those that have a chance.
    """

    def __init__(self, max_draws: int = MAX_DRAWS) -> None:
        self._max_draws = max_draws
        self.start()

    def start(self) -> None:
        self.choices: list[int] = []
        self.probability, self.slack = 1.0, 0.0

    def integer(self, n: int) -> int:
        if n < 1:
            raise ValueError(f"integer(rng, n) needs n ≥ 1, got {n}")
        self.probability /= n
        return self._next(int(n))

    def coin(self, p: float) -> bool:
        if not -1e-9 <= p <= 1 + 1e-9:
            raise ValueError(f"coin(rng, p) needs p in [0, 1], got {p}")
        if p <= 0 or p >= 1:  # outcomes without a chance are not followed: a move may rely on that
            return p >= 1
        heads = self._next(2, (1.0 - p, p)) == 1
        self.probability *= p if heads else 1.0 - p
        self.slack += 0.0 if heads else 4.0 * _EPSILON * float(p / (1.0 - p))
        return heads

    def categorical(self, cumulative: np.ndarray) -> int:
        weights, total = _steps_of(cumulative)
        return self._weighted(weights, total, cumulative)

    def leaf(self, tree: np.ndarray) -> int:
        weights, total = _leaf_weights(tree)
        return self._weighted(weights, total, None)

    def _weighted(self, weights: np.ndarray, total: float, cumulative: Any) -> int:
        possible = np.flatnonzero(weights > 0)
        i = int(possible[self._next(len(possible), weights[possible], possible)])
        self.probability *= float(weights[i] / total)
        if cumulative is not None:
            self.slack += 4.0 * _EPSILON * float(cumulative[i] / weights[i])
        return i

    def _next(self, n: int, weights: Any = None, values: Any = None) -> int:
        if len(self.choices) >= self._max_draws:
            raise TooManyDraws(
                f"draws more than {self._max_draws} times. A loop that draws until something fits has no last outcome: count what "
                "fits and draw once among it, or return −inf as the ratio of a draw that does not fit"
            )
        self.choices.append(self._choose(n, weights, values))
        return self.choices[-1]

    def _choose(self, n: int, weights: Any, values: Any) -> int:
        """A number below n. ``weights`` are those of the outcomes, if not equal; ``values`` what they stand for, if not 0…n−1."""
        raise NotImplementedError


class Enumerator(Draws):
    """Goes through all outcomes, one path after the other; with ``hints``, through those alone where there are many."""

    def __init__(self, max_draws: int = MAX_DRAWS, max_paths: int = MAX_PATHS, hints: Any = None) -> None:
        self._path: list[list] = []  # of each draw: position among the options, options
        self._left, self._hints = max_paths, hints
        super().__init__(max_draws)

    def turn(self) -> bool:
        """Go to the next path; False after the last."""
        while self._path and self._path[-1][0] + 1 >= len(self._path[-1][1]):
            self._path.pop()
        if not self._path:
            return False
        self._left -= 1
        if self._left <= 0:
            raise TooManyDraws("has too many outcomes to list them")
        self._path[-1][0] += 1
        self.start()
        return True

    def _choose(self, n: int, weights: Any, values: Any) -> int:
        at = len(self.choices)
        if at == len(self._path):
            options = range(n) if self._hints is None else self._hints(n, values)
            self._path.append([0, options])
        position, options = self._path[at]
        return int(options[position])


class Dice(Draws):
    """Chooses at random, as a chain does."""

    def __init__(self, rng: np.random.Generator, max_draws: int = 1_000_000) -> None:
        self._rng = rng
        super().__init__(max_draws)

    def _choose(self, n: int, weights: Any, values: Any) -> int:
        if weights is None:
            return int(self._rng.integers(n))
        return int(self._rng.choice(n, p=np.asarray(weights) / np.sum(weights)))


class Replay(Draws):
    """Repeats choices."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._given = choices
        super().__init__(len(choices))

    def _choose(self, n: int, weights: Any, values: Any) -> int:
        return self._given[len(self.choices)]


def _steps_of(cumulative: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights of cumulated weights, and their total."""
    if len(cumulative) == 0:
        raise ValueError("categorical(rng, cumulative) needs at least one entry, got none")
    weights, total = np.array(cumulative, float), float(cumulative[-1])
    weights[1:] -= weights[:-1].copy()
    if not (0 < total < inf) or (weights < 0).any():
        raise ValueError(f"categorical(rng, cumulative) needs sums that rise to a finite number > 0, got {_brief(cumulative)}")
    return weights, total


def _leaf_weights(tree: np.ndarray) -> tuple[np.ndarray, float]:
    """How much of [0, tree[1]) the descent leads to each leaf: the leaf itself, unless inner sums are out of date."""
    leaves, total = len(tree) // 2, float(tree[1])
    if not 0 < total < inf:
        raise ValueError(f"leaf(rng, tree) needs a total weight that is finite and > 0, got {total}")
    low, high = np.zeros(2 * leaves), np.zeros(2 * leaves)
    high[1] = total
    for n in range(1, leaves):
        left = tree[2 * n] if tree[2 * n + 1] > 0.0 else inf
        low[2 * n], high[2 * n] = low[n], min(high[n], left)
        low[2 * n + 1], high[2 * n + 1] = max(low[n], left) - left if left < inf else 0.0, max(high[n] - left, 0.0)
    reached = np.maximum(high[leaves:] - low[leaves:], 0.0)
    given = np.asarray(tree[leaves:], float)
    return np.where(np.abs(reached - given) <= 1e-12 * total, given, reached), total


def paths(
    run: Callable[[Enumerator], Any], max_draws: int = MAX_DRAWS, max_paths: int = MAX_PATHS, hints: Any = None
) -> Iterator[tuple]:
    """(generator, result) of ``run`` for every path of its draws that has a chance."""
    rng = Enumerator(max_draws, max_paths, hints)
    while True:
        result = run(rng)
        if rng.probability > 0:
            yield rng, result
        if not rng.turn():
            return


def plain(function: Any) -> Callable:
    """The source of a jitted function, and of all that it calls, as plain Python in which ``math`` does not raise."""

    def soften(copy: Any) -> Any:
        scope = copy.__globals__
        for name in scope.keys() & set(copy.__code__.co_names):
            if scope[name] is math:
                scope[name] = quiet_math
            elif getattr(scope[name], "__module__", None) == "math":
                scope[name] = MATH.get(scope[name], scope[name])
        return copy

    return remake(function, soften)


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
    follow: Callable
    apply_if: Callable | None = None
    score: Callable | None = None


class Desk:
    """One state in one piece of memory, so that a whole state is saved and put back at once.

    ``state`` is what functions work on; a saved state is bytes.
    """

    def __init__(self, problem: Problem) -> None:
        fields = [as_solution(problem.state[0]), *map(as_field, problem.state[1:])]
        self.spans = []  # of the fields, in bytes
        end = 0
        for a in fields:
            self.spans.append((end, end + a.nbytes))
            end += a.nbytes + -a.nbytes % 8
        self._memory = np.zeros(max(end, 1), np.uint8)
        self.dtypes = [a.dtype for a in fields]
        self.state = type(problem.state)(
            *(self._memory[low:high].view(a.dtype).view(type(a)) for a, (low, high) in zip(fields, self.spans, strict=True))
        )
        self._garbage = []
        for garbage in range(len(GARBAGE)):
            for f in range(len(self.state)):
                self.soil(f, garbage)
            self._garbage.append(self.save())

    def save(self) -> bytes:
        return self._memory.tobytes()

    def put(self, saved: bytes) -> Any:
        """Bring back a state that was saved."""
        self._memory[:] = np.frombuffer(saved, np.uint8)
        return self.state

    def spoil(self, garbage: int) -> Any:
        """Memory as a kernel finds it: not clean."""
        return self.put(self._garbage[garbage])

    def soil(self, f: int, garbage: int) -> None:
        """Put garbage into one field of the state."""
        self.state[f][:] = np.full(len(self.state[f]), GARBAGE[garbage]).astype(self.dtypes[f])

    def field(self, saved: bytes, f: int) -> np.ndarray:
        """One field of a saved state."""
        low, high = self.spans[f]
        return np.frombuffer(saved[low:high], self.dtypes[f])

    def solution(self, saved: bytes) -> bytes:
        return saved[: self.spans[0][1]]


class PureProblem:
    """A problem in plain Python. Integers behave as in a kernel; see :mod:`movegrad.proof.numbers`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.data = type(problem.data)(*(as_field(f) for f in problem.data))
        for array in self.data:
            if isinstance(array, np.ndarray):
                array.setflags(write=False)  # a function that writes to data is wrong
        functions = problem.functions
        self.prepare = plain(functions.prepare or bind.prepare_nothing)
        self.attach = plain(functions.attach or bind.attach_nothing)
        self.theta = np.zeros(problem.size)  # of the last fresh state
        self._statistic = plain(functions.statistic or bind.identity)
        self._phi = plain(functions.phi or bind.zero)
        self._contains = plain(functions.contains or bind.anything)
        self.applicable = plain(functions.applicable or bind.all_moves)
        self.random, self.greedy, self.improve = (
            None if f is None else plain(f) for f in (functions.random, functions.greedy, functions.improve)
        )
        self.moves = [self._move(m) for m in problem.moves]
        self.desk = Desk(problem)

    @staticmethod
    def _move(move: Move) -> PureMove:
        functions = {name: plain(function) for name, function in bind.move_bindings(move).items()}
        apply_if, score = (None if f is None else plain(f) for f in (move.apply_if, move.score))
        return PureMove(move.name, **functions, apply_if=apply_if, score=score)

    def state(self, solution: np.ndarray, guide: np.ndarray, temperature: float, garbage: int = 0) -> Any:
        """A fresh state at a solution, made in memory that holds garbage."""
        state = self.memory(garbage)
        state[0][:] = solution
        self._fill(state, guide, temperature)
        return state

    def fresh(self, solution: np.ndarray, guide: np.ndarray, temperature: float, garbage: int = 0) -> bytes:
        """The same, saved."""
        state = self.desk.spoil(garbage)
        state[0][:] = solution
        self._fill(state, guide, temperature)
        return self.desk.save()

    def _fill(self, state: Any, guide: np.ndarray, temperature: float) -> None:
        """As a chain is loaded, with a guide that is θ."""
        self.theta = guide
        with np.errstate(all="ignore"):
            self.prepare(self.data, guide, temperature, state)
            self.attach(self.data, guide, state)

    def memory(self, garbage: int = 0) -> Any:
        """A state as a kernel finds it: memory that is not clean."""
        solution, *others = (np.full(len(a), GARBAGE[garbage]).astype(a.dtype) for a in self.problem.state)
        return type(self.problem.state)(as_solution(solution), *map(as_field, others))

    @staticmethod
    def copy(state: Any) -> Any:
        return type(state)(*(a.copy() for a in state))

    def statistic(self, solution: np.ndarray) -> np.ndarray:
        out = np.zeros(self.problem.size)
        self._statistic(self.data, self.solution(solution), out)
        return out

    def phi(self, solution: np.ndarray) -> float:
        return float(self._phi(self.data, self.solution(solution)))

    def contains(self, solution: np.ndarray) -> bool:
        refuel(ENOUGH)  # a vector that is no solution may lead in circles
        try:
            return bool(self._contains(self.data, self.solution(solution)))
        finally:
            refuel()

    def solution(self, values: Any) -> Any:
        """A copy of a solution, in its dtype; read-only: functions that describe it must not change it."""
        copy = as_solution(np.asarray(values).astype(self.problem.solution.dtype))
        copy.setflags(write=False)
        return copy

    def draws(
        self, state: Any, s: int, max_paths: int = MAX_PATHS, hints: Any = None
    ) -> Iterator[tuple[Enumerator, Any, Any, float]]:
        """(generator, state after the draw, move, log ratio) for every draw of move s."""
        propose = self.moves[s].propose

        def run(rng: Enumerator) -> tuple:
            copy = self.copy(state)
            return copy, *proposal(propose(self.data, copy, rng))

        for rng, (after, move, log_ratio) in paths(run, max_paths=max_paths, hints=hints):
            yield rng, after, move, log_ratio


def proposal(returned: Any) -> tuple[Any, float]:
    """What ``propose`` returns: a move and a number."""
    if not (isinstance(returned, tuple) and len(returned) == 2 and np.ndim(returned[1]) == 0):
        raise TypeError(f"propose must return (move, log ratio), got {returned!r}")
    return returned[0], float(returned[1])


def place_of(error: BaseException) -> str:
    """The user's function and line where an error came up: `` in propose_flip (moves.py:12)``; empty if it is our own."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_of_a_problem(Path(f.filename))]
    return f" in {frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _is_of_a_problem(file: Path) -> bool:
    package = Path(__file__).parents[1]
    return package not in file.parents or package / "problems" in file.parents


def _brief(values: Any) -> str:
    shown = ", ".join(f"{v:.6g}" for v in np.asarray(values).ravel()[:6])
    return f"[{shown}{', …' if np.size(values) > 6 else ''}]"


# --- the set -----------------------------------------------------------------------------------------------------------


def solutions(problem: Problem, limit: int) -> list[np.ndarray]:
    """All solutions: those that the problem lists, else those that moves reach from its own solution."""
    if problem.states is not None and not callable(problem.states):
        raise ValueError(f"states of {problem.name} must be a function that lists solutions, got {type(problem.states).__name__}.")
    too_many = getattr(problem.states, "at_least", 0) > limit  # known before one is listed
    slow = f"still listing the solutions of {problem.name} (a smaller instance is listed sooner, check(…, local=True) lists none)"
    with told_after(PATIENCE, lambda: tell(slow)):
        found = [] if too_many else list(islice(_reached(problem) if problem.states is None else problem.states(), limit + 1))
    if too_many or len(found) > limit:
        raise TooManySolutions(
            f"{problem.name} must have at most {limit} solutions to enumerate, got more: use a smaller instance."
        )
    if not found:
        raise ValueError(f"states of {problem.name} must list at least one solution, got none.")
    return found


def _reached(problem: Problem) -> Iterator[np.ndarray]:
    run, guide = PureProblem(problem), np.zeros(problem.size)
    first = np.array(problem.solution)
    queue, seen = [first], {first.tobytes()}
    while queue:
        solution = queue.pop()
        yield solution
        state = run.state(solution, guide, 1.0)
        for y in successors(run, state):
            if y.tobytes() not in seen:
                seen.add(y.tobytes())
                queue.append(y)


def successors(run: PureProblem, state: Any) -> Iterator[np.ndarray]:
    """The solutions that one accepted move leads to."""
    mask = run.applicable(run.data, run.copy(state))
    for s, move in enumerate(run.moves):
        if not mask >> s & 1:
            continue
        for _, after, drawn, log_ratio in run.draws(state, s):
            if log_ratio > -inf and not isnan(log_ratio) and move.feasible(run.data, after, drawn):
                move.apply(run.data, after, drawn)
                yield np.array(after[0])


__all__ = [
    "GARBAGE",
    "MAX_PATHS",
    "Dice",
    "Enumerator",
    "Field",
    "PureMove",
    "PureProblem",
    "Replay",
    "TooManyDraws",
    "paths",
    "place_of",
    "plain",
    "proposal",
    "solutions",
    "successors",
]  # fmt: skip
