"""Where chains begin. A start is a word, an array of solutions, or any callable ``request → solutions``.

=============== ======================================================================================================
word            the chain begins at
=============== ======================================================================================================
``"random"``    a draw from the set (uniform, unless the problem says otherwise), or the problem's own solution
``"greedy"``    what the problem's ``greedy`` builds for θ, else as ``"random"``
``"target"``    the observation of its example (the default of conditional learning)
``"heuristic"`` that observation, improved for θ by the problem's own local search (``improve``); see :class:`Heuristic`
``"data"``      a uniformly drawn observation (contrastive divergence)
``"persistent"`` where the chain of the same example and number ended in the call before; at first a uniform draw
=============== ======================================================================================================
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from movegrad._device import on_device
from movegrad._kernel import NOT_BUILT, NOT_DRAWN, NOT_LOADED, TO_IMPROVE
from movegrad._rng import stream_keys
from movegrad._validate import array_of, listed, shown, takes
from movegrad.problem import Problem, encoded


class Request(NamedTuple):
    """What a start may look at. Solutions are wanted for E examples with ``chains`` chains each."""

    problems: Sequence[Problem]  # one for each example; many may be the same
    chains: int
    keys: np.ndarray  # (E,) of the examples
    targets: Sequence[np.ndarray] | None  # observed solutions: one for each example, or many for one θ; None where y is a mean
    seed: int
    call: int
    shape: tuple[int, ...] | None = None  # leading axes of θ; None for a list


class Improve(NamedTuple):
    """A start of one example, which the kernel is to improve for θ before chains begin."""

    solutions: Any  # (C, size), or DRAW (or None) or BUILD


Solutions = np.ndarray | Improve | int | None  # (C, size) of one example, as given or to be improved; DRAW (or None) or BUILD
Start = Callable[[Request], Sequence[Solutions]]
WORDS = ("random", "greedy", "target", "heuristic", "data", "persistent")
DRAW, BUILD = NOT_DRAWN, NOT_BUILT  # let the kernel draw the start, or build it for θ


def greedy(request: Request) -> list[Solutions]:
    """What the problem builds for θ."""
    if request.problems[0].functions.greedy is None:
        return random(request)
    return [BUILD] * len(request.problems)


def random(request: Request) -> list[Solutions]:
    """A draw, or the problem's own solution."""
    own = request.problems[0].functions.random is None
    return [np.broadcast_to(p.solution, (request.chains, len(p.solution))) if own else DRAW for p in request.problems]


def target(request: Request) -> list[np.ndarray]:
    """The observation of each example."""
    targets = _needed(request, "target")
    if len(targets) != len(request.problems):
        raise ValueError(
            f"start must not be 'target' where {len(targets)} observations meet {len(request.problems)} rows of theta."
        )
    return [_for_all_chains(y, request.chains) for y in targets]


class Heuristic:
    """Solutions of another start, by default the target, improved for θ by the problem's own local search.

    ``Heuristic("persistent")`` improves where each chain ended in the call before.
    """

    def __init__(self, first: Any = target) -> None:
        self.first = resolve(first, lasting=True)

    def __call__(self, request: Request) -> list[Solutions]:
        self.check(request)
        first = listed(asked(self.first, request), "start", len(request.problems), "examples")
        return [s if isinstance(s, Improve) else Improve(s) for s in first]

    def check(self, request: Request) -> None:
        """Complain of a problem that cannot improve."""
        for problem in request.problems:
            if problem.functions.improve is None:
                raise ValueError(f"start must not be 'heuristic' where the problem has no improve, got {problem.name}.")


def looks_at_targets(start: Any) -> bool:
    """Does a start need observed solutions?"""
    return start is target or start is data or (isinstance(start, (Heuristic, Persistent)) and looks_at_targets(start.first))


def memory(start: Any) -> Any:
    """What is to be told where chains ended (it has a method ``remember``): the start, or the one that it improves; else None."""
    while isinstance(start, Heuristic):
        start = start.first
    return start if hasattr(start, "remember") else None


def data(request: Request) -> list[np.ndarray]:
    """A uniformly drawn observation for each chain."""
    targets = _needed(request, "data")
    if len({len(p.solution) for p in request.problems}) > 1:
        raise ValueError("start must not be 'data' where problems have different sizes.")
    rows = stream_keys(request.seed, request.call, request.keys, request.chains) % np.uint64(len(targets))
    return [np.asarray(targets)[r] for r in rows.astype(np.int64)]


class Given:
    """Given solutions: (size,) for all, (…, size) for all chains of each example, or (…, C, size); "…" as in θ. They are copied."""

    def __init__(self, solutions: Any, name: str = "start") -> None:
        self.solutions, self.name = _copied(solutions), name

    def __call__(self, request: Request) -> list[np.ndarray]:
        return self.read(self._encoded(request.problems), request)

    def read(self, given: Any, request: Request) -> list[np.ndarray]:
        """(C, size) of each example, out of arrays of any of these shapes."""
        sizes = {len(p.solution) for p in request.problems}
        rows = self._rows(given, request, sizes.pop()) if len(sizes) == 1 else self._ragged(given, request)
        return [_for_all_chains(row, request.chains) for row in rows]

    def _encoded(self, problems: Sequence[Problem]) -> Any:
        """Routes and the like as arrays."""
        if all(p is problems[0] for p in problems):
            return encoded(problems[0], self.solutions, self.name)
        if isinstance(self.solutions, (list, tuple)) and len(self.solutions) == len(problems):
            return [encoded(p, s, self.name) for p, s in zip(problems, self.solutions, strict=True)]
        return self.solutions

    def _rows(self, given: Any, request: Request, size: int) -> np.ndarray:
        examples, chains, array = len(request.problems), request.chains, array_of(given, self.name)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ValueError(f"{self.name} must have a last axis of {size} entries, got shape {array.shape}.")
        rows, shape = array.size // size, (examples,) if request.shape is None else request.shape
        if array.ndim == 1:
            return np.broadcast_to(array, (examples, 1, size))
        if array.ndim > 2 and array.shape[:-1] not in (shape, (*shape, chains), (examples, chains)):
            rows = -1  # such as the axes of θ in another order
        if rows == examples * chains and array.shape[-2] == chains and (array.ndim > 2 or examples == 1):
            return array.reshape(examples, chains, size)
        if rows == examples and (array.ndim == 2 or array.shape[-2] != chains or chains == 1):
            return array.reshape(examples, 1, size)
        raise ValueError(
            f"{self.name} must hold one solution, one for each example, or one for each of the {chains} chains of "
            f"{examples} examples, got {array.size // size} of shape {array.shape}."
        )

    def _ragged(self, given: Any, request: Request) -> list[np.ndarray]:
        rows = listed(given, self.name, len(request.problems), "examples")
        out = [array_of(row, self.name) for row in rows]
        for row, problem in zip(out, request.problems, strict=True):
            n = len(problem.solution)
            if row.shape not in ((n,), (request.chains, n)):
                raise ValueError(
                    f"{self.name} must have shape ({n},) or ({request.chains}, {n}) for each problem, got {row.shape}."
                )
        return out


class Persistent:
    """Continue each chain where it ended; chains are told apart by the key of their example and their number."""

    def __init__(self, first: Any = random) -> None:
        self.first = resolve(first)
        self.ends: dict[int, Any] = {}  # key of an example → (C, size), read-only

    def __call__(self, request: Request) -> list[Solutions]:
        known = [self.ends.get(key) for key in request.keys.tolist()]
        if len(set(request.keys.tolist())) < len(known):
            raise ValueError(f"index must hold different keys where chains are persistent, got {request.keys.tolist()}.")
        for rows in known:
            if rows is not None and len(rows) != request.chains:
                raise ValueError(f"chains must be {len(rows)} as in the calls before, got {request.chains}.")
        first = listed(asked(self.first, request), "start", len(known), "examples")
        return [new if rows is None else rows for new, rows in zip(first, known, strict=True)]

    def remember(self, keys: np.ndarray, solutions: Sequence[np.ndarray]) -> None:
        """Keep where chains ended."""
        for key, rows in zip(keys.tolist(), solutions, strict=True):
            self.ends[key] = _copied(rows) if isinstance(rows, np.ndarray) else rows  # on a GPU they are never written again
            if isinstance(rows, np.ndarray):
                self.ends[key].setflags(write=False)


def resolve(start: Any, lasting: bool = False) -> Start:
    """Turn a word or an array into a start. Only an object that lasts, such as a layer, can mean "persistent" by the word."""
    if isinstance(start, str):
        if start not in WORDS:
            raise ValueError(f"start must be one of {', '.join(map(repr, WORDS))}, an array or a callable, got {shown(start)}.")
        words: dict[str, Start] = {"random": random, "greedy": greedy, "target": target, "heuristic": Heuristic(), "data": data}
        if start == "persistent" and not lasting:
            raise ValueError("start must be a movegrad.start.Persistent kept from call to call, got 'persistent'.")
        return Persistent() if start == "persistent" else words[start]
    if isinstance(start, type):
        raise ValueError(f"start must be an object, got the class {start.__name__}.")
    return start if callable(start) else Given(start)


def asked(start: Start, request: Request) -> Any:
    """What a start says; a function with other arguments is refused, and not for an error of its own."""
    try:
        return start(request)
    except TypeError:
        if takes(start, 1):
            raise
        raise ValueError(f"start must be callable with a Request, got {shown(start)}, which takes other arguments.") from None


def flatten(starts: Any, request: Request, name: str = "start") -> tuple[np.ndarray, np.ndarray]:
    """Starts as one array of solutions, and (E,) what the kernel is to do with each."""
    starts = listed(starts, name, len(request.problems), "examples")
    rows, kinds = [], np.zeros(len(starts), np.int64)
    for e, (start, problem) in enumerate(zip(starts, request.problems, strict=True)):
        shape = (request.chains, len(problem.solution))
        start, kinds[e] = taken_apart(start)
        if start is None:
            rows.append(np.concatenate([problem.solution] * request.chains))  # what distances are measured to
            continue
        row = as_solutions(start, problem, name)
        if row.shape != shape:
            raise ValueError(f"{name} must give shape {shape} for each example, got {row.shape}.")
        rows.append(row)
    return np.concatenate([r.reshape(-1) for r in rows]), kinds  # a copy: chains may be run again from it


def taken_apart(start: Any) -> tuple[Any, int]:
    """Solutions, None where the kernel makes them, and what the kernel is to do."""
    if isinstance(start, Improve):
        solutions, kind = taken_apart(start.solutions)
        return solutions, kind + TO_IMPROVE
    if start is None:
        return None, DRAW
    if isinstance(start, (int, np.integer)) and start in (DRAW, BUILD):
        return None, int(start)
    return start, NOT_LOADED


def as_solutions(values: Any, problem: Problem, name: str) -> np.ndarray:
    """Cast to the dtype of a solution; a value that this would change is not in the set."""
    values = array_of(values, name)
    if values.dtype == problem.solution.dtype:
        return values
    with np.errstate(invalid="ignore"):
        cast = values.astype(problem.solution.dtype)
    if not np.array_equal(cast, values):
        raise ValueError(f"{name} must be in the set, got the entry {values[cast != values].flat[0]}.")
    return cast


def _copied(value: Any) -> Any:
    """Arrays, tensors and lists of them as they are now, whatever the caller does to them later."""
    try:
        if isinstance(value, (list, tuple)):
            return [_copied(v) for v in value]
        if hasattr(value, "detach"):  # a tensor
            return value.detach().clone()
        if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
            return value.copy()
        return np.array(value) if hasattr(value, "__array__") else value
    except Exception:  # of the value's own: it is refused where it is read
        return value


def _for_all_chains(row: np.ndarray, chains: int) -> np.ndarray:
    """(C, size) from (size,) or (C, size); one chain, the usual case, without the 5 µs of a broadcast for each example."""
    if row.ndim == 1 and (chains == 1 or on_device(row)):  # a device repeats it by itself
        return row[None]
    return np.broadcast_to(row, (chains, row.shape[-1]))


def _needed(request: Request, word: str) -> Sequence[np.ndarray]:
    if request.targets is None:
        raise ValueError(f"start must not be {word!r} where no observations are given.")
    return request.targets
