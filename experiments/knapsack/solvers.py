"""Solvers of one knapsack for many values, with a time limit, in this process or in many."""

import importlib.util
import math
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import movegrad as mg

CHUNK = 10  # instances that a worker is given at once


class Found(NamedTuple):
    """A solution and the solver's gap, NaN where it has no bound."""

    solution: np.ndarray
    gap: float


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
    name: str, weights: np.ndarray, capacities: np.ndarray, limit: float = math.inf, relaxed: bool = False, fresh: bool = True
) -> Solver:
    """``relaxed``: the LP relaxation. ``fresh``: forget earlier solves, which else help the next one."""
    if name == "movegrad":
        if relaxed:
            raise ValueError("name must be gurobi or highs for a relaxation, got movegrad.")
        return annealing(weights, capacities, limit)
    return (gurobi if name == "gurobi" else highs)(weights, capacities, limit, relaxed, fresh)


def greedy(weights: np.ndarray, capacities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Items by value as long as they fit: what stands in for a solver that found nothing."""
    y, load = np.zeros(len(values)), np.zeros(len(capacities))
    for i in np.argsort(-values, kind="stable"):
        if values[i] > 0 and (load + weights[:, i] <= capacities).all():
            y[i], load = 1.0, load + weights[:, i]
    return y


def gurobi(weights: np.ndarray, capacities: np.ndarray, limit: float, relaxed: bool, fresh: bool) -> Solver:
    import gurobipy as gp

    model = gp.Model(env=gp.Env(params={"OutputFlag": 0, "Threads": 1}))
    y = model.addMVar(weights.shape[1], ub=1.0, vtype=gp.GRB.CONTINUOUS if relaxed else gp.GRB.BINARY)
    model.addConstr(weights @ y <= capacities)
    model.ModelSense = gp.GRB.MAXIMIZE
    model.Params.TimeLimit = limit

    def solve(values: np.ndarray) -> Found:
        if fresh:
            model.reset()
        y.Obj = values
        model.optimize()
        if not model.SolCount:
            return Found(greedy(weights, capacities, values), math.nan)
        gap = 0.0 if relaxed else model.MIPGap
        solution = y.X if relaxed else np.rint(y.X)
        return Found(solution, gap if gap < 1e6 else math.nan)

    return solve


def highs(weights: np.ndarray, capacities: np.ndarray, limit: float, relaxed: bool, fresh: bool) -> Solver:
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

    def solve(values: np.ndarray) -> Found:
        if fresh:
            model.clearSolver()
        model.setOptionValue("time_limit", model.getRunTime() + limit)  # its clock runs on
        model.changeColsCost(d, columns, np.ascontiguousarray(values, float))
        model.run()
        info = model.getInfo()
        if info.primal_solution_status != 2:  # no feasible solution
            return Found(greedy(weights, capacities, values), math.nan)
        solution = np.array(model.getSolution().col_value)
        gap = 0.0 if relaxed else info.mip_gap if math.isfinite(info.mip_gap) else math.nan
        return Found(solution if relaxed else np.rint(solution), gap)

    return solve


def annealing(weights: np.ndarray, capacities: np.ndarray, limit: float) -> Solver:
    problem = mg.problems.Knapsack(weights, capacities)
    mg.solve(problem, np.ones(weights.shape[1]), steps=1)  # compiles

    def solve(values: np.ndarray) -> Found:
        return Found(mg.solve(problem, np.asarray(values, float), time_limit=limit).state.astype(float), math.nan)

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
            self._executor = ProcessPoolExecutor(self.workers, get_context("spawn"), _begin, self.knapsack)
        parts = np.array_split(values, max(1, math.ceil(len(values) / CHUNK)))
        found = list(self._executor.map(_solve, [name] * len(parts), [limit] * len(parts), parts))
        return np.concatenate([y for y, _ in found]), np.concatenate([g for _, g in found])

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
