"""What finds best solutions: dynamic programming, greedy relaxations, HiGHS that goes on from its last basis, Gurobi, annealing."""

from typing import Any

import highspy
import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, vstack

import movegrad as mg
from experiments.arena.board import Relaxation


@njit(cache=True)
def pack_exactly(weights: np.ndarray, capacity: int, theta: np.ndarray, out: np.ndarray) -> None:
    """Knapsacks of integer weights by dynamic programming, one for each row of θ."""
    n = len(weights)
    best, taken = np.empty(capacity + 1), np.empty((n, capacity + 1), np.uint8)
    for b in range(len(theta)):
        best[:] = 0.0
        for i in range(n):
            w, v = weights[i], theta[b, i]
            for c in range(capacity, -1, -1):
                take = v > 0.0 and c >= w and best[c - w] + v > best[c]
                taken[i, c] = take
                if take:
                    best[c] = best[c - w] + v
        c = capacity
        for i in range(n - 1, -1, -1):
            out[b, i] = taken[i, c]
            if taken[i, c]:
                c -= weights[i]


class Packing:
    """One capacity, integer weights: the exact solution."""

    def __init__(self, weights: np.ndarray, capacity: int) -> None:
        self.weights, self.capacity = np.asarray(weights, np.int64), int(capacity)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        out = np.empty(theta.shape)
        pack_exactly(self.weights, self.capacity, np.ascontiguousarray(theta, float), out)
        return out


@njit(cache=True)
def fill_greedily(weights: np.ndarray, capacity: float, theta: np.ndarray, out: np.ndarray) -> None:
    """The linear relaxation of a knapsack: best ratios first, the last item in part."""
    for b in range(len(theta)):
        out[b] = 0.0
        left = capacity
        for i in np.argsort(-theta[b] / weights):
            if theta[b, i] <= 0.0 or left <= 0.0:
                break
            out[b, i] = min(1.0, left / weights[i])
            left -= out[b, i] * weights[i]


class Filling(Packing):
    """One capacity: the solution of the linear relaxation."""

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        out = np.empty(theta.shape)
        fill_greedily(self.weights.astype(float), float(self.capacity), np.ascontiguousarray(theta, float), out)
        return out


class Highs:
    """A linear or 0/1 program in HiGHS, one thread; a solve begins where the last one ended. ``limit``: seconds of a solve."""

    def __init__(self, relaxation: Relaxation, integer: bool, limit: float | None = None, gap: float = 1e-6) -> None:
        self.relaxation = relaxation
        rows = [m for m in (relaxation.A, relaxation.E) if m is not None]
        matrix = csr_matrix(vstack(rows)) if len(rows) > 1 else csr_matrix(rows[0])
        least = [np.full(len(relaxation.b), -highspy.kHighsInf)] if relaxation.b is not None else []
        most = [relaxation.b] if relaxation.b is not None else []
        if relaxation.f is not None:
            least, most = [*least, relaxation.f], [*most, relaxation.f]
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = matrix.shape
        lp.col_cost_, lp.col_lower_ = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
        lp.col_upper_ = np.full(matrix.shape[1], relaxation.upper)
        lp.row_lower_, lp.row_upper_ = np.concatenate(least), np.concatenate(most)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
        lp.sense_ = highspy.ObjSense.kMaximize
        if integer:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * matrix.shape[1]
        self.solver = highspy.Highs()
        options: dict[str, Any] = {"output_flag": False, "threads": 1, "mip_rel_gap": gap, "presolve": "on" if integer else "off"}
        for name, value in {**options, **({"time_limit": limit} if limit else {})}.items():
            self.solver.setOptionValue(name, value)
        self.solver.passModel(lp)
        self.columns, self.integer = np.arange(matrix.shape[1], dtype=np.int32), integer
        self.move = None if relaxation.M is None else csr_matrix(relaxation.M.T)

    def solve(self, theta: np.ndarray) -> np.ndarray:
        """x for one θ."""
        value = theta if self.move is None else self.move @ theta
        if self.integer:
            self.solver.clearSolver()
        self.solver.changeColsCost(len(self.columns), self.columns, np.ascontiguousarray(value, float))
        self.solver.run()
        x = np.array(self.solver.getSolution().col_value)
        if len(x) != len(self.columns):
            raise RuntimeError(f"HiGHS found no solution: {self.solver.modelStatusToString(self.solver.getModelStatus())}.")
        return np.round(x) if self.integer else x

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        found = np.array([self.solve(one) for one in theta])
        return found if self.relaxation.M is None else found @ self.relaxation.M.T


class Annealer:
    """Solutions by ``mg.solve``: those that validate, and for sizes at which exact ones take too long."""

    def __init__(self, problem: mg.Problem, steps: int) -> None:
        self.problem, self.steps = problem, steps

    def solutions(self, theta: np.ndarray) -> np.ndarray:
        return mg.solve(self.problem, theta, steps=self.steps, chains=4, seed=0).solution

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return self.problem.statistic(self.solutions(theta))


class Gurobi:
    """A 0/1 program in Gurobi, one thread; its free license covers 2000 variables and as many constraints."""

    def __init__(self, relaxation: Relaxation, gap: float = 0.0) -> None:
        import gurobipy as gp

        environment = gp.Env(params={"OutputFlag": 0, "Threads": 1, "MIPGap": gap})
        self.model, self.relaxation = gp.Model(env=environment), relaxation
        rows: Any = relaxation.E if relaxation.A is None else relaxation.A
        size = rows.shape[1]
        self.x = self.model.addMVar(size, vtype="B")
        if relaxation.A is not None:
            self.model.addConstr(relaxation.A @ self.x <= relaxation.b)
        if relaxation.E is not None:
            self.model.addConstr(relaxation.E @ self.x == relaxation.f)
        self.model.ModelSense = -1

    def solve(self, theta: np.ndarray) -> np.ndarray:
        self.x.Obj = theta if self.relaxation.M is None else self.relaxation.M.T @ theta
        self.model.reset()
        self.model.optimize()
        return np.round(self.x.X)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        found = np.array([self.solve(one) for one in theta])
        return found if self.relaxation.M is None else found @ self.relaxation.M.T


def exact_solver(relaxation: Relaxation, gap: float = 1e-6) -> "Gurobi | Highs":
    """Gurobi where it is installed, HiGHS elsewhere."""
    try:
        return Gurobi(relaxation, gap)
    except ImportError:
        return Highs(relaxation, integer=True, gap=gap)


class PyEPOModel:
    """A model of PyEPO in Gurobi, one thread, whose costs are in another order: ``order[k]`` is our entry of its k-th cost."""

    def __init__(self, model: Any, order: np.ndarray) -> None:
        self.model, self.order = model, order
        model._model.Params.Threads = 1  # at these sizes more of them only cost processor time

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros(theta.shape)
        for row, one in zip(out, theta, strict=True):
            self.model.setObj(-one[self.order])
            row[self.order] = self.model.solve()[0]
        return out
