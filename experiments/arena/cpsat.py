"""Exact schedules by CP-SAT, in a process of its own: OR-Tools and highspy carry different versions of the same library."""

from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from multiprocessing import get_context
from time import process_time
from typing import Any, NamedTuple

import numpy as np

LIMIT = 60.0  # seconds of a solve


class Tasks(NamedTuple):
    """What a schedule must respect, as plain arrays."""

    duration: np.ndarray
    first: np.ndarray
    last: np.ndarray
    energy: np.ndarray
    use: np.ndarray
    capacity: np.ndarray


class Model:
    """A Boolean for each task and start and for each task and machine, costs rounded to a cent."""

    def __init__(self, data: Tasks) -> None:
        from ortools.sat.python import cp_model

        self.data, model = data, cp_model.CpModel()
        self.solver, self.model = cp_model.CpSolver(), model
        self.solver.parameters.num_workers, self.solver.parameters.max_time_in_seconds = 1, LIMIT
        machines, intervals = range(len(data.capacity)), {}
        self.starts, self.on = [], []
        for f, (first, last, d) in enumerate(zip(data.first.tolist(), data.last.tolist(), data.duration.tolist(), strict=True)):
            chosen = [model.new_bool_var("") for _ in range(first, last + 1)]
            place = [model.new_bool_var("") for _ in machines]
            start = model.new_int_var(first, last, "")
            model.add_exactly_one(chosen)
            model.add_exactly_one(place)
            model.add(start == sum(t * x for t, x in zip(range(first, last + 1), chosen, strict=True)))
            for m in machines:
                intervals[f, m] = model.new_optional_interval_var(start, d, start + d, place[m], "")
            self.starts.append(chosen)
            self.on.append(place)
        unit = 1.0 if np.all(data.use == np.round(data.use)) else 2.0**-20
        tasks = range(len(data.duration))
        for m in machines:
            for r in range(data.use.shape[1]):
                demands = [round(data.use[f, r] / unit) for f in tasks]
                model.add_cumulative([intervals[f, m] for f in tasks], demands, int(data.capacity[m, r] / unit + 1e-6))

    def solve(self, theta: np.ndarray) -> np.ndarray:
        """The best schedule for one θ."""
        data = self.data
        cost = -np.concatenate([[0.0], np.cumsum(theta)])
        terms = []
        for f, chosen in enumerate(self.starts):
            first = np.arange(data.first[f], data.last[f] + 1)
            cents = np.round(100.0 * data.energy[f] * (cost[first + data.duration[f]] - cost[first])).astype(int)
            terms += [int(c) * x for c, x in zip(cents, chosen, strict=True)]
        self.model.minimize(sum(terms))
        self.solver.solve(self.model)
        value = self.solver.boolean_value
        starts = [int(data.first[f]) + [value(x) for x in chosen].index(True) for f, chosen in enumerate(self.starts)]
        machines = [[value(x) for x in place].index(True) for place in self.on]
        return np.array(starts + machines, np.int32)


_model: Model | None = None  # of a worker


def _begin(data: Tasks) -> None:
    global _model
    _model = Model(data)


def _solve(theta: np.ndarray) -> tuple[np.ndarray, float]:
    assert _model is not None
    begin = process_time()
    return np.array([_model.solve(one) for one in theta]), process_time() - begin


_workers: list[ProcessPoolExecutor] = []  # ended with the process, not before


class Scheduler:
    """``outside``: processor seconds that the other process has spent so far."""

    def __init__(self, problem: Any) -> None:
        self.problem, self.outside = problem, 0.0

    @cached_property
    def _worker(self) -> ProcessPoolExecutor:
        data = Tasks(*(getattr(self.problem.data, name) for name in Tasks._fields))
        _workers.append(ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin, initargs=(data,)))
        return _workers[-1]

    def solutions(self, theta: np.ndarray) -> np.ndarray:
        found, seconds = self._worker.submit(_solve, np.asarray(theta, float)).result()
        self.outside += seconds
        return found

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return self.problem.statistic(self.solutions(theta))
