"""Part 5: ``mg.solve`` next to Gurobi and HiGHS, on true values with little time."""

import importlib.util
from functools import partial
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import legend_below, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.knapsack.runs import Choice
from experiments.knapsack.settings import SOLVERS, Settings
from experiments.knapsack.solvers import make_solver
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval


def solve(bench: Bench, solver: str, milliseconds: float) -> Row:
    """Value found by the value of the label, mean over instances, and the time of the processor that a solve took."""
    instances, examples = bench.instances, bench.instances.test
    n = min(bench.size.sweep.instances, len(examples.costs))
    find = make_solver(solver, instances.weights, instances.capacities, milliseconds / 1000)
    find(examples.costs[0])
    ratios, spent, empty = [], [], 0
    for values, best in zip(examples.costs[:n], examples.objectives[:n], strict=True):
        begin = process_time()
        found = find(values)
        spent.append(process_time() - begin if np.isnan(found.spent) else found.spent)
        ratios.append(found.solution @ values / best)
        empty += found.empty
    lost, half = student_interval(1 - np.array(ratios))
    where = {"table": "solves", "solver": solver, "limit_ms": milliseconds, "instances": n}
    return {**where, "lost": lost, "half_width": half, "worst": 1 - min(ratios), "nothing_found": empty / n, "cpu": np.mean(spent)}


def tasks(bench: Bench, choice: Choice) -> Tasks:
    packages = {"gurobi": "gurobipy", "highs": "highspy", "movegrad": "movegrad"}
    return {
        f"{solver} | {milliseconds} ms": partial(solve, bench, solver, milliseconds)
        for solver in SOLVERS
        if importlib.util.find_spec(packages[solver])
        for milliseconds in choice.limits or bench.size.sweep.solves
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    columns = ("limit", "instances", "value lost against labels", "worst", "nothing found", "processor time of a solve")
    out = table("Solvers on true values; where one finds nothing, items by value are taken", "solver", *columns)
    for row in sorted(rows.values(), key=lambda r: (r["limit_ms"], r["lost"])):
        lost = f"{row['lost']:.2%} ±{row['half_width']:.2%}"
        times = f"{row['limit_ms']:g} ms", str(row["instances"])
        out.add_row(row["solver"], *times, lost, f"{row['worst']:.2%}", f"{row['nothing_found']:.0%}", seconds(row["cpu"]))
    return [out]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for solver in SOLVERS:
        points = [(1e3 * r["cpu"], max(r["lost"], 1e-5)) for r in rows.values() if r["solver"] == solver]
        if points:
            axes.plot(*zip(*sorted(points), strict=True), "o-", label=solver)
    axes.set(xscale="log", yscale="log", xlabel="processor time of a solve, ms", ylabel="value lost against labels")
    axes.grid(alpha=0.3)
    legend_below(figure, axes)
    return {"solve": figure}


def part(bench: Bench, choice: Choice) -> Part:
    return Part("solve", bench.settings, lambda _: tasks(bench, choice), tables, figures, prepare=bench.label)
