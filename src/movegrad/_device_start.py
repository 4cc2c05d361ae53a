"""Starts of chains on a GPU: what :mod:`movegrad.start` says, without a way through the host where solutions are on the device."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from movegrad import start as starts
from movegrad._device import Arrays, arrays_of, on_device
from movegrad._kernel import NOT_LOADED, TO_IMPROVE
from movegrad._rng import stream_keys
from movegrad._validate import listed
from movegrad.problem import Problem


def flatten(chosen: Any, request: starts.Request, name: str, arrays: Arrays) -> tuple[Any, np.ndarray]:
    """Solutions on the device (one for all, one for each example or one for each chain), and (E,) what the kernel is to do."""
    whole = _whole(chosen, request)
    if isinstance(chosen, starts.Heuristic):
        chosen.check(request)
    if whole is not None:
        kind = NOT_LOADED + TO_IMPROVE * isinstance(chosen, starts.Heuristic)
        return solutions(whole, request.problems[0], name).reshape(-1), np.full(len(request.problems), kind)
    return _joined(listed(starts.asked(chosen, request), name, len(request.problems), "examples"), request, name, arrays)


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
        rows = chosen.read(shape, request)
        return given.reshape(len(rows), -1, given.shape[-1])
    return None


_solutions: WeakKeyDictionary = WeakKeyDictionary()  # problem → {library and device: its own solution}


def _own_solution(arrays: Arrays, problem: Problem) -> Any:
    places = _solutions.setdefault(problem, {})
    if arrays not in places:
        places[arrays] = arrays.own(np.array(problem.solution))
    return places[arrays]


def _joined(given: Sequence[Any], request: starts.Request, name: str, arrays: Arrays) -> tuple[Any, np.ndarray]:
    """Starts example by example; where all are to be drawn or built, one solution of each problem is enough."""
    rows, kinds = zip(*map(starts.taken_apart, given), strict=True)
    if all(row is None for row in rows):
        alike = all(p is request.problems[0] for p in request.problems)
        if alike:
            return _own_solution(arrays, request.problems[0]), np.array(kinds)
        return arrays.own(np.concatenate([p.solution for p in request.problems])), np.array(kinds)
    if not any(on_device(row) for row in rows):
        flat, _ = starts.flatten(given, request, name)
        return arrays.own(np.ascontiguousarray(flat)), np.array(kinds)
    out = []
    for row, problem in zip(rows, request.problems, strict=True):
        start, size = problem.solution if row is None else row, len(problem.solution)
        start = solutions(arrays.own(np.array(start) if isinstance(start, np.ndarray) else start), problem, name).reshape(-1, size)
        if len(start) not in (1, request.chains):
            raise ValueError(f"{name} must give shape {(request.chains, size)} for each example, got {tuple(start.shape)}.")
        out += [start.reshape(-1)] * (request.chains // len(start))
    return arrays.concatenate(out), np.array(kinds)
