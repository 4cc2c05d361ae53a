"""Solvers of one knapsack for many values, with a time limit, in this process or in many."""

import importlib.util
import math
import os
from collections.abc import Callable
from functools import cache
from time import process_time
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

import movegrad as mg
from experiments.knapsack.settings import STEPS_PER_SECOND
from experiments.workers import pool

CHUNK = 10  # instances that a worker is given at once


class Found(NamedTuple):
    """A solution and the solver's gap, NaN where it has no bound. ``empty``: it found nothing, and items by value stand in.

    ``spent``: processor time, where a solver was run more than once.
    """

    solution: np.ndarray
    gap: float
    empty: bool = False
    spent: float = math.nan


Solver = Callable[[np.ndarray], Found]  # values (d,) → the best solution found


def available(wanted: str | None = None) -> str:
    """The solver asked for, else Gurobi, else HiGHS, else annealing."""
    for name, module in (("gurobi", "gurobipy"), ("highs", "highspy"), ("movegrad", "movegrad")):
        if wanted in (None, name):
            if importlib.util.find_spec(module):
                return name
            if wanted == name:
                raise SystemExit(f"--solver {name} needs the package {module}.")
    raise SystemExit(f"--solver must be gurobi, highs or movegrad, got {wanted!r}.")


def make_solver(
    name: str,
    weights: np.ndarray,
    capacities: np.ndarray,
    limit: float = math.inf,
    relaxed: bool = False,
    fresh: bool = True,
    clock: bool = False,
) -> Solver:
    """``limit``: seconds, by the clock or counted as work. ``relaxed``: the LP relaxation. ``fresh``: forget earlier solves."""
    if name == "movegrad":
        if relaxed:
            raise ValueError("name must be gurobi or highs for a relaxation, got movegrad.")
        return annealing(weights, capacities, limit, clock)
    if name == "highs":
        return highs(weights, capacities, limit, relaxed, fresh, clock)
    return gurobi(weights, capacities, limit, relaxed, fresh, clock)


def greedy(weights: np.ndarray, capacities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Items by value as long as they fit: what stands in for a solver that found nothing."""
    y, load = np.zeros(len(values)), np.zeros(len(capacities))
    for i in np.argsort(-values, kind="stable"):
        if values[i] > 0 and (load + weights[:, i] <= capacities).all():
            y[i], load = 1.0, load + weights[:, i]
    return y


def gurobi(weights: np.ndarray, capacities: np.ndarray, limit: float, relaxed: bool, fresh: bool, clock: bool) -> Solver:
    import gurobipy as gp

    model = gp.Model(env=gp.Env(params={"OutputFlag": 0, "Threads": 1}))
    y = model.addMVar(weights.shape[1], ub=1.0, vtype=gp.GRB.CONTINUOUS if relaxed else gp.GRB.BINARY)
    model.addConstr(weights @ y <= capacities)
    model.ModelSense = gp.GRB.MAXIMIZE
    model.setParam("TimeLimit" if clock else "WorkLimit", limit)

    def solve(values: np.ndarray) -> Found:
        if fresh:
            model.reset()
        y.Obj = values
        model.optimize()
        if not model.SolCount:
            return Found(greedy(weights, capacities, values), math.nan, True)
        gap = 0.0 if relaxed else model.MIPGap
        solution = y.X if relaxed else np.rint(y.X)
        return Found(solution, gap if gap < 1e6 else math.nan)

    return solve


def highs(weights: np.ndarray, capacities: np.ndarray, limit: float, relaxed: bool, fresh: bool, clock: bool) -> Solver:
    import highspy

    model, d = highspy.Highs(), weights.shape[1]
    for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 1e-4)):
        model.setOptionValue(option, value)
    columns, infinity = np.arange(d, dtype=np.int32), np.full(d, highspy.kHighsInf)
    model.addVars(d, np.zeros(d), np.ones(d))
    for row, capacity in zip(weights, capacities, strict=True):
        model.addRow(-infinity[0], float(capacity), d, columns, np.ascontiguousarray(row, float))
    if not relaxed:
        model.changeColsIntegrality(d, columns, np.full(d, highspy.HighsVarType.kInteger))
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def run() -> float:
        """Processor time. HiGHS looks at the clock: unless that is wanted, it is given more of it until it had its time."""
        allowed = limit
        for _ in range(1 if clock or math.isinf(limit) else 8):
            if fresh:
                model.clearSolver()
            model.setOptionValue("time_limit", allowed)
            begin = process_time()
            model.run()
            spent = process_time() - begin
            if spent > 0.8 * limit or model.getModelStatus() != highspy.HighsModelStatus.kTimeLimit:
                break
            allowed *= min(max(0.9 * limit / spent, 1.2), 4.0)
        return spent

    def solve(values: np.ndarray) -> Found:
        model.changeColsCost(d, columns, np.ascontiguousarray(values, float))
        spent, info = run(), model.getInfo()
        if info.primal_solution_status != 2:  # no feasible solution
            return Found(greedy(weights, capacities, values), math.nan, True, spent)
        solution = np.array(model.getSolution().col_value)
        gap = 0.0 if relaxed else info.mip_gap if math.isfinite(info.mip_gap) else math.nan
        return Found(solution if relaxed else np.rint(solution), gap, False, spent)

    return solve


def annealing(weights: np.ndarray, capacities: np.ndarray, limit: float, clock: bool) -> Solver:
    problem = mg.problems.Knapsack(weights, capacities)
    budget: dict[str, Any] = {"time_limit": limit} if clock else {"steps": max(1, round(limit * STEPS_PER_SECOND))}
    mg.solve(problem, np.ones(weights.shape[1]), steps=1)  # compiles

    def solve(values: np.ndarray) -> Found:
        return Found(mg.solve(problem, np.asarray(values, float), **budget).solution.astype(float), math.nan)

    return solve


# --- many at once ------------------------------------------------------------------------------------------------------

_KNAPSACK: tuple[np.ndarray, np.ndarray] | None = None  # of a worker process


def _begin(weights: np.ndarray, capacities: np.ndarray) -> None:
    global _KNAPSACK
    _KNAPSACK = weights, capacities
    mg.set_threads(1)
    _solver.cache_clear()


@cache
def _solver(name: str, limit: float) -> Solver:
    assert _KNAPSACK is not None
    return make_solver(name, *_KNAPSACK, limit)


def _solve(name: str, limit: float, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    solver = _solver(name, limit)
    found = [solver(row) for row in values]
    return np.array([f.solution for f in found], np.uint8), np.array([f.gap for f in found])


class Pool:
    """Processes that solve one knapsack for many values; ``workers`` = 0 solves in this process."""

    def __init__(self, weights: np.ndarray, capacities: np.ndarray, workers: int | None = None) -> None:
        self.knapsack = np.asarray(weights, float), np.asarray(capacities, float)
        self.workers = (os.cpu_count() or 1) if workers is None else workers
        self._executor: Any = None

    def solve(self, name: str, limit: float, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solutions (n, d) and gaps (n,)."""
        values = np.asarray(values, float)
        if not self.workers:
            if _KNAPSACK is None or _KNAPSACK[0] is not self.knapsack[0]:
                _begin(*self.knapsack)
            return _solve(name, limit, values)
        if self._executor is None:
            self._executor = pool(self.workers, _begin, *self.knapsack)
            finalize(self, self._executor.shutdown)  # one that is only forgotten may end while the interpreter does, and complain
        parts = np.array_split(values, max(1, math.ceil(len(values) / CHUNK)))
        try:
            found = list(self._executor.map(_solve, [name] * len(parts), [limit] * len(parts), parts))
        except BaseException:  # Ctrl-C above all: what is not begun is left
            self._executor.shutdown(wait=False, cancel_futures=True)
            raise
        return np.concatenate([y for y, _ in found]), np.concatenate([g for _, g in found])

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
