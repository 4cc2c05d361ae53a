"""0/1 programs from files and from models of HiGHS and Gurobi."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from movegrad._validate import shown
from movegrad.problems.binary_program.structure import Names, Rows, matrix

INFINITE = 1e20  # what solvers take for it


@runtime_checkable
class Highs(Protocol):
    """A ``highspy.Highs``, told by what it has."""

    def getLp(self) -> Any:  # noqa: N802 - the name is the solver's
        """Rows, columns, bounds and costs."""

    def getModel(self) -> Any:  # noqa: N802 - the name is the solver's
        """These, and a quadratic objective."""


@runtime_checkable
class Gurobi(Protocol):
    """A ``gurobipy.Model``, told by what it has."""

    def getA(self) -> Any:  # noqa: N802 - the name is the solver's
        """The matrix of the rows."""

    def getVars(self) -> Any:  # noqa: N802 - the name is the solver's
        """Variables."""

    def getConstrs(self) -> Any:  # noqa: N802 - the name is the solver's
        """Rows."""


class Model(NamedTuple):
    """A program with an objective: maximize or minimize ⟨costs, y⟩ + offset."""

    rows: Rows
    costs: np.ndarray
    maximize: bool
    offset: float
    names: Names


def read(path: str | Path) -> Model:
    """A file that HiGHS reads."""
    highspy = _highspy("to read files")
    if not isinstance(path, (str, Path)):
        raise ValueError(f"path must be a file name, got {shown(path)}.")
    if not Path(path).is_file():
        raise ValueError(f"path must be a file, got {shown(str(path))}.")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(str(path)) == highspy.HighsStatus.kError:
        raise ValueError(f"path must be a file in MPS or LP format that HiGHS can read, got {shown(str(path))}.")
    return of_highs(solver)


def of_model(model: Highs | Gurobi) -> Model:
    """A model of HiGHS or Gurobi, told by what it has."""
    if isinstance(model, Highs):
        return of_highs(model)
    if isinstance(model, Gurobi):
        return of_gurobi(model)
    raise ValueError(f"model must be a highspy.Highs or a gurobipy.Model, got {type(model).__name__}.")


def _highspy(what: str) -> Any:
    try:
        import highspy
    except ImportError:
        raise ImportError(f'highspy must be installed {what} (pip install "movegrad[highs]").') from None
    return highspy


def of_highs(solver: Highs) -> Model:
    """A ``highspy.Highs``."""
    highspy = _highspy("to read its models")
    lp = solver.getLp()
    if solver.getModel().hessian_.dim_ > 0:
        raise ValueError("model must be linear, got a quadratic objective.")
    n, m, a = lp.num_col_, lp.num_row_, lp.a_matrix_
    start, index, value = np.array(a.start_, np.int64), np.array(a.index_, np.int64), np.array(a.value_, float)
    major = np.repeat(np.arange(len(start) - 1), np.diff(start))
    by_column = a.format_ == highspy.MatrixFormat.kColwise
    kinds = {highspy.HighsVarType.kContinuous: "continuous", highspy.HighsVarType.kInteger: "integer"}
    integrality = list(lp.integrality_) or [highspy.HighsVarType.kContinuous] * n
    entries = Entries((m, n), index if by_column else major, major if by_column else index, value)
    return model_of_parts(
        entries,
        np.array(lp.row_lower_), np.array(lp.row_upper_), np.array(lp.col_lower_), np.array(lp.col_upper_),
        [kinds.get(kind, str(kind).rsplit(".k", 1)[-1].lower()) for kind in integrality],
        np.array(lp.col_cost_), lp.sense_ == highspy.ObjSense.kMaximize, float(lp.offset_),
        Names(tuple(lp.row_names_), tuple(lp.col_names_)),
    )  # fmt: skip


def of_gurobi(model: Any) -> Model:
    """A ``gurobipy.Model``."""
    model.update()
    for attribute, what in (
        ("NumQConstrs", "quadratic constraints"), ("NumSOS", "special ordered sets"), ("NumGenConstrs", "general constraints"),
        ("NumQNZs", "a quadratic objective"),
    ):  # fmt: skip
        if getattr(model, attribute, 0):
            raise ValueError(f"model must be linear, got {what}.")
    a, constraints, variables = model.getA().tocoo(), model.getConstrs(), model.getVars()
    sense, right = [c.Sense for c in constraints], np.array([c.RHS for c in constraints], float)
    kinds = {"C": "continuous", "B": "integer", "I": "integer", "S": "semicontinuous", "N": "semiinteger"}
    return model_of_parts(
        Entries((len(constraints), len(variables)), a.row, a.col, a.data),
        np.where([s == "<" for s in sense], -np.inf, right), np.where([s == ">" for s in sense], np.inf, right),
        np.array([v.LB for v in variables]), np.array([v.UB for v in variables]), [kinds[v.VType] for v in variables],
        np.array([v.Obj for v in variables], float), model.ModelSense < 0, float(getattr(model, "ObjCon", 0.0)),
        Names(tuple(c.ConstrName for c in constraints), tuple(v.VarName for v in variables)),
    )  # fmt: skip


class Entries(NamedTuple):
    """What looks like a sparse matrix of SciPy, which need not be installed."""

    shape: tuple[int, ...]
    row: np.ndarray
    col: np.ndarray
    data: np.ndarray

    def tocoo(self) -> "Entries":
        return self


def model_of_parts(
    a: Entries, lower: np.ndarray, upper: np.ndarray, low: np.ndarray, high: np.ndarray, kinds: list[str],
    costs: np.ndarray, maximize: bool, offset: float, names: Names,
) -> Model:  # fmt: skip
    """Bounds of variables inside [0, 1] become rows of their own, which fix them; any others are refused."""
    m, n = a.shape
    lower, upper = np.where(lower <= -INFINITE, -np.inf, lower), np.where(upper >= INFINITE, np.inf, upper)
    if n == 0:
        raise ValueError("model must have one or more variables, got none.")
    if len(names.variables) != n or not all(names.variables):
        names = Names(names.rows, ())
    if len(names.rows) != m or not all(names.rows):
        names = Names((), names.variables)
    for j, kind in enumerate(kinds):
        if kind != "integer":
            raise ValueError(f"model must have binary variables alone, got {names.variable(j)}, which is {kind}.")
        if low[j] <= -1.0 or high[j] >= 2.0:
            raise ValueError(
                f"model must have binary variables alone, got {names.variable(j)}, an integer in [{low[j]:g}, {high[j]:g}]."
            )
    fixed = np.flatnonzero((low > 0.0) | (high < 1.0))
    count = len(fixed)
    row, column = np.append(a.row, m + np.arange(count)), np.append(a.col, fixed)
    rows = matrix(Entries((m + count, n), row, column, np.append(a.data, np.ones(count))))
    row_names = (*names.rows, *(f"bounds of {names.variables[j] if names.variables else j}" for j in fixed)) if names.rows else ()
    rows = rows._replace(lower=np.append(lower, low[fixed]), upper=np.append(upper, high[fixed]))
    return Model(rows, costs, maximize, offset, Names(row_names, names.variables))
