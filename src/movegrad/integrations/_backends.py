"""The linear 0/1 program inside of a PyEPO model, as its backend holds it: HiGHS, Gurobi, Pyomo and OR-Tools (pywraplp)."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from movegrad.problems.binary_program.models import Entries, Model, model_of_parts, of_gurobi, of_highs
from movegrad.problems.binary_program.structure import Names


def program_of(model: Any, x: Any) -> Model:
    """The program of a solver's model, its columns in the order of the variables x that costs belong to."""
    if hasattr(model, "getLp") and hasattr(model, "getModel"):
        program, columns = of_highs(model), {j: j for j in range(model.getLp().num_col_)}
        chosen = [getattr(v, "index", v) for v in _listed(x)]
    elif hasattr(model, "getA") and hasattr(model, "ModelSense"):
        program, columns = of_gurobi(model), {v.index: j for j, v in enumerate(model.getVars())}
        chosen = [v.index for v in _listed(x)]
    elif hasattr(model, "component_data_objects"):
        program, columns, chosen = _of_pyomo(model, x)
    elif hasattr(model, "constraints") and hasattr(model, "variables"):
        program, columns = _of_ortools(model), {v.index(): j for j, v in enumerate(model.variables())}
        chosen = [v.index() for v in _listed(x)]
    else:
        raise ValueError(f"a model of {type(model).__module__}.{type(model).__name__}, of which no constraints can be read")
    order = [columns.get(v, -1) for v in chosen]
    if sorted(order) != list(range(program.rows.n)):
        raise ValueError(f"{program.rows.n} variables, of which costs belong to {len(order)}")
    return _ordered(program, np.array(order))


def _listed(x: Any) -> list:
    """Variables in the order of costs: a list, a dict, or an array of Gurobi."""
    if hasattr(x, "tolist"):
        return list(np.ravel(np.array(x.tolist(), object)))
    return list(x.values()) if hasattr(x, "values") else list(x)


def _ordered(program: Model, order: np.ndarray) -> Model:
    """Column k of the new program is column order[k] of the old one."""
    if (order == np.arange(len(order))).all():
        return program
    rows, names, place = program.rows, program.names, np.argsort(order)
    variable = place[rows.variable]
    by = np.lexsort((variable, rows.row))
    rows = rows._replace(row=rows.row[by], variable=variable[by], value=rows.value[by])
    named = tuple(names.variables[j] for j in order) if names.variables else ()
    return program._replace(rows=rows, names=Names(names.rows, named), costs=program.costs[order])


def _of_ortools(solver: Any) -> Model:
    """A pywraplp.Solver."""
    variables, constraints, infinite = solver.variables(), solver.constraints(), solver.infinity()
    table = np.array([[c.GetCoefficient(v) for v in variables] for c in constraints], float).reshape(-1, len(variables))
    row, column = np.nonzero(table)
    return _model(
        Entries(table.shape, row, column, table[row, column]),
        [(c.lb(), c.ub()) for c in constraints],
        [(v.lb(), v.ub()) for v in variables],
        [v.integer() for v in variables],
        Names(tuple(c.name() for c in constraints), tuple(v.name() for v in variables)),
        infinite,
    )


def _of_pyomo(model: Any, x: Any) -> tuple[Model, dict[int, int], list[int]]:
    """A ConcreteModel; variables are told apart by the objects that they are."""
    from pyomo.environ import Constraint, Var, value
    from pyomo.repn import generate_standard_repn

    variables = list(model.component_data_objects(Var, active=True))
    columns = {id(v): j for j, v in enumerate(variables)}
    row, column, entry, bounds, names = [], [], [], [], []
    for r, constraint in enumerate(model.component_data_objects(Constraint, active=True)):
        linear = generate_standard_repn(constraint.body)
        if not linear.is_linear():
            raise ValueError(f"the constraint {constraint.name}, which is not linear")
        for v, a in zip(linear.linear_vars, linear.linear_coefs, strict=True):
            row.append(r)
            column.append(columns[id(v)])
            entry.append(float(value(a)))
        held = float(value(linear.constant))
        low, high = (None if side is None else float(value(side)) - held for side in (constraint.lower, constraint.upper))
        bounds.append((-np.inf if low is None else low, np.inf if high is None else high))
        names.append(constraint.name)
    entries = Entries((len(bounds), len(variables)), np.array(row, int), np.array(column, int), np.array(entry, float))
    limits = [(-np.inf if v.lb is None else v.lb, np.inf if v.ub is None else v.ub) for v in variables]
    whole = [v.is_binary() or v.is_integer() for v in variables]
    program = _model(entries, bounds, limits, whole, Names(tuple(names), tuple(v.name for v in variables)), np.inf)
    return program, columns, [id(v) for v in _listed(x)]


def _model(
    entries: Entries,
    bounds: Iterable[tuple[float, float]],
    limits: Iterable[tuple[float, float]],
    whole: list[bool],
    names: Names,
    infinite: float,
) -> Model:
    """From parts; numbers as large as the backend's infinity are infinite."""
    rows, columns = (np.array(list(pairs), float).reshape(-1, 2) for pairs in (bounds, limits))
    for pairs in (rows, columns):
        pairs[pairs >= infinite], pairs[pairs <= -infinite] = np.inf, -np.inf
    return model_of_parts(
        entries, rows[:, 0], rows[:, 1], columns[:, 0], columns[:, 1], ["integer" if w else "continuous" for w in whole],
        np.zeros(entries.shape[1]), False, 0.0, names,
    )  # fmt: skip
