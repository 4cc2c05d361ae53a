"""Part 3: the time limit of the layer in training, against the gap that a MIP solver reaches in the same time."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.common import draw_band
from experiments.convergence.study import table
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.study import Choice, Part, Row, Rows, grouped, interval, key_of, run_row, shown
from experiments.knapsack.train import Bench

LAYERS = ("ours", "last-iterate")  # and PFY with the MIP solver, on request


def limited(name: str, milliseconds: float) -> Method:
    """A method with a time limit in place of steps; PFY and the last iterate have it for each sample."""
    method = METHODS[name]
    options = {k: v for k, v in method.options.items() if k != "steps"}
    return replace(method, options={**options, "time_limit": milliseconds / 1000})


def gap(bench: Bench, milliseconds: float) -> Row:
    """Mean gap of the solver on true values, and what its solutions are worth next to the labels."""
    solver, examples = bench.size.data.label_solver, bench.instances.train
    n = min(bench.size.sweep.gap_instances, len(examples.costs))
    solutions, gaps = bench.pool.solve(solver, milliseconds / 1000, examples.costs[:n])
    lost = 1 - (examples.costs[:n] * solutions).sum() / examples.objectives[:n].sum()
    known = gaps[np.isfinite(gaps)]
    mean = known.mean() if len(known) else float("nan")
    return {"table": "gap", "solver": solver, "limit_ms": milliseconds, "gap": mean, "with_bound": len(known) / n, "lost": lost}


def tasks(bench: Bench, choice: Choice) -> dict[str, Callable[[], Row]]:
    sweep, out = bench.size.sweep, {}
    for milliseconds in sweep.gap_limits:
        out[f"gap | {milliseconds} ms"] = partial(gap, bench, milliseconds)
    for name in (*LAYERS, *(("pfy",) if choice.mip else ())):
        for milliseconds in sweep.limits:
            for seed in choice.seeds:
                method = limited(name, milliseconds)
                out[key_of(name, method, seed)] = partial(run_row, bench, name, method, seed, limit_ms=milliseconds)
    return out


def tables(rows: Rows) -> list[Table]:
    out = table("Test relative regret by time limit of the layer: mean ± 95 % interval over seeds", "method", "limit", "seeds")
    out.add_column("test regret", justify="right")
    for (name, milliseconds), runs in grouped(rows, "method", "limit_ms").items():
        out.add_row(f"{name}: {METHODS[name].title}", f"{milliseconds:g} ms", str(len(runs)), shown(r["test"] for r in runs))
    gaps = table("The solver on true values", "solver", "limit", "gap", "solves with a bound", "value lost against labels")
    for row in rows.values():
        if row["table"] == "gap":
            known = "–" if row["gap"] is None else f"{row['gap']:.2%}"
            gaps.add_row(row["solver"], f"{row['limit_ms']:g} ms", known, f"{row['with_bound']:.0%}", f"{row['lost']:.2%}")
    return [out, gaps]


def draw_regret(axes: Any, rows: Rows) -> None:
    found = grouped(rows, "method", "limit_ms")
    for name in dict.fromkeys(name for name, _ in found):
        limits = sorted(ms for n, ms in found if n == name)
        pairs = [interval(r["test"] for r in found[name, ms]) for ms in limits]
        mean, half = (np.nan_to_num(np.array(part)) for part in zip(*pairs, strict=True))
        draw_band(axes, limits, mean, half, label=name, marker=".")
    axes.set(xscale="log", xlabel="time limit of the layer, ms", ylabel="test relative regret")
    axes.grid(alpha=0.3)
    axes.legend()


def figures(rows: Rows) -> dict[str, Figure]:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    draw_regret(left, rows)
    gaps = [row for row in rows.values() if row["table"] == "gap"]
    for column, label in (("gap", "gap, where there is a bound"), ("lost", "value lost against labels")):
        right.plot([r["limit_ms"] for r in gaps], [np.nan if r[column] is None else r[column] for r in gaps], "o-", label=label)
    right.set(xscale="log", xlabel="time limit of the solver, ms", ylabel="relative to the value")
    right.grid(alpha=0.3)
    right.legend()
    return {"sweep": figure}


PART = Part("sweep", tasks, tables, figures)
