"""Where chains begin. A start is a word, an array of solutions, or any callable ``request → solutions``.

================ ======================================================================================================
word             the chain begins at
================ ======================================================================================================
``"random"``     a draw from the set (uniform, unless the problem says otherwise), or the problem's own solution
``"greedy"``     what the problem's ``greedy`` builds for θ, else as ``"random"``
``"target"``     the observation of its example (the default of conditional learning)
``"heuristic"``  that observation, improved for θ by the problem's own local search (``improve``); see :class:`Heuristic`
``"data"``       a uniformly drawn observation (contrastive divergence)
``"persistent"`` where the chain of the same example and number ended in the call before; at first a uniform draw
================ ======================================================================================================
"""

import warnings
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._types import Start as AnyStart
from movegrad._validate import array_of, encoded, listed, shown, takes
from movegrad.engine import BUILD, DRAW, IMPROVE, Begin, on_gpu, place_of, stream_keys
from movegrad.problem import Problem

__all__ = ["BUILD", "DRAW", "Given", "Heuristic", "Improve", "Make", "Persistent", "Request", "data", "greedy", "random", "target"]


class Request(NamedTuple):
    """What a start may look at. Solutions are wanted for E examples with ``chains`` chains each.

    Attributes
    ----------
    problems : sequence of Problem
        One for each example; many may be the same.
    chains : int
        C, of each example.
    indices : (E,) integers
        Of the examples.
    targets : sequence of solutions or None
        Observed solutions: one for each example, or many for one θ; None where y is a mean, or nothing was observed.
    seed, call : int
        What draws of this call depend on.
    shape : tuple of int or None
        Leading axes of θ; None for a list of problems.

    Examples
    --------
    A start of your own is a function of a request:

    >>> import numpy as np
    >>> import movegrad as mg
    >>> def own(request):
    ...     return [problem.solution[None] for problem in request.problems]
    >>> mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=10, start=own).mean.shape
    (5,)
    """

    problems: Sequence[Problem]
    chains: int
    indices: np.ndarray
    targets: Sequence[np.ndarray] | None
    seed: int
    call: int
    shape: tuple[int, ...] | None = None

    @property
    def keys(self) -> np.ndarray:
        """The old name of ``indices``."""
        warnings.warn("keys of a Request are called indices now.", DeprecationWarning, stacklevel=2)
        return self.indices


class Make(NamedTuple):
    """Starts of all examples, to be drawn or to be built: what a start may return instead of solutions.

    Attributes
    ----------
    task : int
        ``DRAW`` or ``BUILD``.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> drawn = lambda request: mg.start.Make(mg.start.DRAW)
    >>> mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=10, start=drawn).solutions.sum().item()
    2
    """

    task: int  # DRAW or BUILD


class Improve(NamedTuple):
    """A start of one example, or the starts of all, to be improved for θ before chains begin.

    Attributes
    ----------
    solutions : solutions, or what else a start may give
        What to improve, by the problem's ``improve``.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.start.Improve(np.zeros((1, 3), np.uint8)).solutions.shape
    (1, 3)
    """

    solutions: "Arrays | Make | Improve | int | None"


Solutions = np.ndarray | Improve | int | None  # (C, size) of one example, as given or to be improved; DRAW (or None) or BUILD
Start = Callable[[Request], Any]  # → Solutions of each example; all at once as (E, C, size), (E, 1, size), Make or Improve
WORDS = ("random", "greedy", "target", "heuristic", "data", "persistent")


def greedy(request: Request) -> Any:
    """What the problem builds for θ.

    Parameters
    ----------
    request : Request
        What a start may look at.

    Returns
    -------
    Make, or solutions
        As :func:`random` where the problem has no ``greedy``.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=10, start=mg.start.greedy).mean.shape  # as start="greedy"
    (5,)
    """
    if request.problems[0].functions.greedy is None:
        return random(request)
    return Make(BUILD)


def random(request: Request) -> Any:
    """A draw, or the problem's own solution where it has no ``random``.

    Parameters
    ----------
    request : Request
        What a start may look at.

    Returns
    -------
    Make, or solutions
        What chains begin with.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=10, start=mg.start.random).mean.shape  # as start="random"
    (5,)
    """
    if request.problems[0].functions.random is not None:
        return Make(DRAW)
    return [p.solution[None] for p in request.problems]


def target(request: Request) -> Any:
    """The observation of each example.

    Parameters
    ----------
    request : Request
        With as many targets as examples.

    Returns
    -------
    solutions
        One for all chains of each example.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.TopK(5, 2)
    >>> mg.start.target(mg.start.Request([problem], 1, np.arange(1), problem.solution[None], 0, 0)).tolist()
    [[[1, 1, 0, 0, 0]]]
    """
    targets = _needed(request, "target")
    if len(targets) != len(request.problems):
        raise ValueError(
            f"start must not be 'target' where {len(targets)} observations meet {len(request.problems)} rows of theta."
        )
    return [y[None] for y in targets] if isinstance(targets, list) else targets[:, None]


class Heuristic:
    """Solutions of another start, by default the target, improved for θ by the problem's own local search.

    ``Heuristic("persistent")`` improves where each chain ended in the call before.

    Parameters
    ----------
    first : str, solutions or callable
        The other start.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.start.Heuristic("random").first is mg.start.random
    True
    """

    def __init__(self, first: AnyStart = target) -> None:
        self.first = resolve(first, lasting=True)

    def __call__(self, request: Request) -> Improve:
        for problem in request.problems:
            if problem.functions.improve is None:
                raise ValueError(f"start must not be 'heuristic' where the problem has no improve, got {problem.name}.")
        first = asked(self.first, request)
        return first if isinstance(first, Improve) else Improve(first)


def looks_at_targets(start: object) -> bool:
    """Does a start need observed solutions?"""
    return start is target or start is data or (isinstance(start, (Heuristic, Persistent)) and looks_at_targets(start.first))


def memory(start: object) -> Any:
    """What is to be told where chains ended (it has a method ``remember``): the start, or the one that it improves; else None."""
    while isinstance(start, Heuristic):
        start = start.first
    try:
        return start if hasattr(start, "remember") else None
    except Exception:  # of the start's own
        return None


def data(request: Request) -> Any:
    """A uniformly drawn observation for each chain.

    Parameters
    ----------
    request : Request
        With targets.

    Returns
    -------
    solutions
        One for each chain.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.TopK(5, 2)
    >>> mg.start.data(mg.start.Request([problem], 3, np.arange(1), np.array([[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]), 0, 0)).shape
    (1, 3, 5)
    """
    targets = _needed(request, "data")
    if len({len(p.solution) for p in request.problems}) > 1:
        raise ValueError("start must not be 'data' where problems have different sizes.")
    rows = (stream_keys(request.seed, request.call, request.indices, request.chains) % np.uint64(len(targets))).astype(np.int64)
    if not isinstance(targets, list):
        return targets[place_of(targets).own(rows)]
    return [np.stack([targets[r] for r in each]) for each in rows.tolist()]


class Given:
    """Given solutions, which are copied; arrays given as ``start`` become this.

    Parameters
    ----------
    solutions : array, or lists of them
        (m,) for all, (…, m) for all chains of each example, or (…, C, m); "…" as in θ.
    name : str
        For messages.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> here = mg.start.Given([0, 0, 0, 1, 1])
    >>> mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=1, start=here).info.steps.tolist()
    [1]
    """

    def __init__(self, solutions: Arrays, name: str = "start") -> None:
        self.solutions, self.name = _copied(solutions), name

    def __call__(self, request: Request) -> Any:
        """(E, 1 or C, size), or a list of (1 or C, size) where sizes differ."""
        given, sizes = self._encoded(request.problems), {len(p.solution) for p in request.problems}
        if len(sizes) > 1:
            return self._ragged(given, request)
        return self._rows(given if on_gpu(given) else array_of(given, self.name), request, sizes.pop())

    def _encoded(self, problems: Sequence[Problem]) -> Any:
        """Routes and the like as arrays."""
        if on_gpu(self.solutions):
            return self.solutions
        if all(p is problems[0] for p in problems):
            return encoded(problems[0], self.solutions, self.name)
        if isinstance(self.solutions, (list, tuple)) and len(self.solutions) == len(problems):
            return [encoded(p, s, self.name) for p, s in zip(problems, self.solutions, strict=True)]
        return self.solutions

    def _rows(self, array: Any, request: Request, size: int) -> Any:
        examples, chains = len(request.problems), request.chains
        given = tuple(array.shape)
        if not given or given[-1] != size:
            raise ValueError(f"{self.name} must have a last axis of {size} entries, got shape {given}.")
        rows, shape = prod(given) // size, (examples,) if request.shape is None else request.shape
        if len(given) == 1:
            return array[None, None]
        if len(given) > 2 and given[:-1] not in (shape, (*shape, chains), (examples, chains)):
            rows = -1  # such as the axes of θ in another order
        if rows == examples * chains and given[-2] == chains and (len(given) > 2 or examples == 1):
            return array.reshape(examples, chains, size)
        if rows == examples and (len(given) == 2 or given[-2] != chains or chains == 1):
            return array.reshape(examples, 1, size)
        raise ValueError(
            f"{self.name} must hold one solution, one for each example, or one for each of the {chains} chains of "
            f"{examples} examples, got {prod(given) // size} of shape {given}."
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
        return [row.reshape(-1, row.shape[-1]) for row in out]


class Persistent:
    """Continue each chain where it ended; chains are told apart by the index of their example and their number.

    Parameters
    ----------
    first : str, solutions or callable
        Where chains begin that are not known yet.

    Attributes
    ----------
    ends : dict of int to (C, size)
        Where the chains of each example ended, by its index.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> start = mg.start.Persistent()
    >>> for _ in range(3):
    ...     out = mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=10, start=start)
    >>> bool((start.ends[0] == out.solutions).all())
    True
    """

    def __init__(self, first: AnyStart = random) -> None:
        self.first = resolve(first)
        self.ends: dict[int, Any] = {}  # key of an example → (C, size), read-only
        self.times: dict[int, int] = {}  # when it was kept: of the ends that two ranks know, the later one is right
        self.now = 0  # batches so far
        self.warned = False  # of batches without an index

    def __call__(self, request: Request) -> list[Solutions]:
        index = request.indices.tolist()
        known = [self.ends.get(key) for key in index]
        if len(set(index)) < len(known):
            raise ValueError(f"index must hold different keys where chains are persistent, got {index}.")
        for rows in known:
            if rows is not None and len(rows) != request.chains:
                raise ValueError(f"chains must be {len(rows)} as in the calls before, got {request.chains}.")
        first = each_of(asked(self.first, request), "start", len(known))
        return [new if rows is None else rows for new, rows in zip(first, known, strict=True)]

    def remember(self, indices: np.ndarray, solutions: Sequence[np.ndarray]) -> None:
        """Keep where chains ended."""
        self.now += 1
        for key, rows in zip(indices.tolist(), solutions, strict=True):
            self.keep(key, rows, self.now)

    def keep(self, index: int, rows: Arrays, time: int = 0) -> None:
        """The same for one example, at a time."""
        self.times[index] = time
        self.ends[index] = _copied(rows) if isinstance(rows, np.ndarray) else rows  # on a GPU they are never written again
        if isinstance(rows, np.ndarray):
            self.ends[index].setflags(write=False)

    def forget(self) -> None:
        """Begin anew."""
        self.ends.clear()
        self.times.clear()
        self.now = 0


def resolve(start: AnyStart, lasting: bool = False) -> Start:
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


def each_of(given: Any, name: str, examples: int) -> list[Solutions]:
    """What a start gives, example by example."""
    if isinstance(given, Improve):
        return [start if isinstance(start, Improve) else Improve(start) for start in each_of(given.solutions, name, examples)]
    if isinstance(given, Make):
        return [given.task] * examples
    if getattr(given, "ndim", 0) == 3:
        given = [given[0]] * examples if len(given) == 1 else [given[e] for e in range(len(given))]
    return listed(given, name, examples, "examples")


def flatten(given: Any, request: Request, place: Any, name: str = "start") -> Begin:
    """What a start gives as one array of solutions, and what is still to be done with each."""
    task, whole, problems = 0, given, request.problems
    if isinstance(given, Improve):
        task, whole = IMPROVE, given.solutions
    if isinstance(whole, Make):
        return Begin(place.own_solutions(problems), np.full(len(problems), whole.task | task))
    shape = tuple(getattr(whole, "shape", ()))
    at_once = len(shape) == 3 and shape[:2] in ((len(problems), request.chains), (len(problems), 1), (1, 1))
    if at_once and {len(p.solution) for p in problems} == {shape[2]}:
        return Begin(place.solutions(whole, problems[0], name).reshape(-1), np.full(len(problems), task))
    return _joined(each_of(given, name, len(problems)), request, place, name)


def _joined(given: list[Solutions], request: Request, place: Any, name: str) -> Begin:
    """The same for starts of each example."""
    rows, pending = [], np.zeros(len(given), np.int64)
    for e, (start, problem) in enumerate(zip(given, request.problems, strict=True)):
        solutions, pending[e] = _taken_apart(start)
        size = len(problem.solution)
        solutions = place.solutions(problem.solution[None] if solutions is None else solutions, problem, name)
        if solutions.ndim != 2 or solutions.shape[0] not in (1, request.chains) or solutions.shape[1] != size:
            raise ValueError(f"{name} must give shape {(request.chains, size)} for each example, got {tuple(solutions.shape)}.")
        rows.append(solutions.reshape(-1))
    if any(len(row) > len(p.solution) for row, p in zip(rows, request.problems, strict=True)):  # then all have one for each chain
        counts = [request.chains * len(p.solution) // len(row) for row, p in zip(rows, request.problems, strict=True)]
        rows = [part for row, count in zip(rows, counts, strict=True) for part in [row] * count]
    return Begin(place.joined(rows), pending)


def _taken_apart(start: Any) -> tuple[Any, int]:
    """Solutions, None where they are made, and what is to be done."""
    if isinstance(start, Improve):
        solutions, task = _taken_apart(start.solutions)
        return solutions, task | IMPROVE
    if start is None:
        return None, DRAW
    if isinstance(start, (int, np.integer)) and start in (DRAW, BUILD):
        return None, int(start)
    return start, 0


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


def _needed(request: Request, word: str) -> Any:
    if request.targets is None:
        raise ValueError(f"start must not be {word!r} where no observations are given.")
    return request.targets
