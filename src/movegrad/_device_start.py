"""Starts of chains on a GPU: what :mod:`movegrad.start` says, without a way through the host where solutions are on the device."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from movegrad import start as starts
from movegrad._device import Arrays, arrays_of, on_device
from movegrad._kernel import NOT_IMPROVED, NOT_LOADED
from movegrad._rng import stream_keys
from movegrad.problem import Problem


def flatten(chosen: Any, request: starts.Request, name: str, arrays: Arrays) -> tuple[Any, np.ndarray]:
    """Solutions on the device (one for all, one for each example or one for each chain), and (E,) what the kernel is to do."""
    whole = _whole(chosen, request)
    if whole is not None:
        kind = NOT_IMPROVED if isinstance(chosen, starts.Heuristic) else NOT_LOADED
        return solutions(whole, request.problems[0], name).reshape(-1), np.full(len(request.problems), kind)
    return _joined(_each(chosen, request), request, name, arrays)


def solutions(values: Any, problem: Problem, name: str) -> Any:
    """As :func:`movegrad.start.as_solutions`; the host waits only where the dtype is not that of solutions."""
    arrays, dtype = arrays_of(values), problem.solution.dtype
    values = arrays.own(values)
    cast = arrays.copy(values, dtype)
    if arrays.dtype(values) != dtype and bool((cast != values).any()):
        raise ValueError(f"{name} must be in the set, got the entry {arrays.numpy(values[cast != values])[0]}.")
    return cast


def _whole(chosen: Any, request: starts.Request) -> Any:
    """The starts of all examples as one array, where they are on the device as one: (E, C, size), (E, 1, size) or (1, 1, size)."""
    targets: Any = request.targets
    chosen = chosen.first if isinstance(chosen, starts.Heuristic) else chosen
    if chosen is starts.target and on_device(targets) and len(targets) == len(request.problems):
        return targets[:, None]
    if chosen is starts.data and on_device(targets):
        keys = stream_keys(request.seed, request.call, request.keys, request.chains)
        return targets[arrays_of(targets).own((keys % np.uint64(len(targets))).astype(np.int64))]
    if isinstance(chosen, starts.Given) and on_device(chosen.solutions):
        given = chosen.solutions
        if given.ndim == 1 and len(given) == len(request.problems[0].solution):
            return given[None, None]
        shape = np.broadcast_to(np.uint8(0), tuple(given.shape))  # stands for it where shapes are checked
        rows = starts.Given(shape, chosen.name)(request)
        return given.reshape(len(rows), -1, given.shape[-1])
    return None


def _each(chosen: Any, request: starts.Request) -> Sequence[Any]:
    """The starts example by example; targets on the device are no arrays of NumPy, which the functions of starts expect."""
    first = chosen.first if isinstance(chosen, starts.Heuristic) else chosen
    if first is not starts.target or not any(on_device(y) for y in request.targets or ()):
        return chosen(request)
    rows = [y[None] for y in request.targets or ()]
    return [starts.Improve(r) for r in rows] if isinstance(chosen, starts.Heuristic) else rows


_solutions: WeakKeyDictionary = WeakKeyDictionary()  # problem → {library and device: its own solution}


def _own_solution(arrays: Arrays, problem: Problem) -> Any:
    places = _solutions.setdefault(problem, {})
    if arrays not in places:
        places[arrays] = arrays.own(np.array(problem.solution))
    return places[arrays]


def _joined(given: Sequence[Any], request: starts.Request, name: str, arrays: Arrays) -> tuple[Any, np.ndarray]:
    """Starts example by example; where all are to be drawn or built, one solution of each problem is enough."""
    drawn = [s is None or (isinstance(s, (int, np.integer))) for s in given]
    if all(drawn) and len(given) == len(request.problems):
        alike = all(p is request.problems[0] for p in request.problems)
        kinds = np.array([starts.DRAW if s is None else s for s in given])
        if alike:
            return _own_solution(arrays, request.problems[0]), kinds
        return arrays.own(np.concatenate([p.solution for p in request.problems])), kinds
    if not any(on_device(s.solutions if isinstance(s, starts.Improve) else s) for s in given):
        flat, kinds = starts.flatten(given, request, name)
        return arrays.own(np.ascontiguousarray(flat)), kinds
    rows, kinds = [], np.full(len(given), NOT_LOADED)
    for e, (start, problem) in enumerate(zip(given, request.problems, strict=True)):
        size = len(problem.solution)
        if drawn[e]:
            kinds[e], start = starts.DRAW if start is None else start, problem.solution
        elif isinstance(start, starts.Improve):
            kinds[e], start = NOT_IMPROVED, start.solutions
        row = solutions(arrays.own(np.array(start) if isinstance(start, np.ndarray) else start), problem, name).reshape(-1, size)
        if len(row) not in (1, request.chains):
            raise ValueError(f"{name} must give shape {(request.chains, size)} for each example, got {tuple(row.shape)}.")
        rows += [row.reshape(-1)] * (request.chains // len(row))
    return arrays.concatenate(rows), kinds
