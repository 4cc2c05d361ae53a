"""Part 4: the time limit of the layer in training (the paper's benchmark has 1 ms), for methods with chains or a MIP solver."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import draw_band, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.knapsack.benchmark import bars, curves, last
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.runs import Choice, grouped, key_of, run_row, shown
from experiments.knapsack.settings import STEPS_PER_SECOND, Settings
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval

PAPERS = 1.0  # milliseconds of the paper's benchmark, for every method of LIMITED; other limits for those of CURVES
LIMITED = ("ours", "ours-spo", "last-iterate", "spo-annealing", "spo", "pfy", "nid", "nce")
CURVES = ("ours", "last-iterate", "spo", "pfy")


def limited(name: str, milliseconds: float) -> Method:
    """A method with so much time for each example, counted as work; PFY and the last iterate have it for each of 5 samples."""
    method, options = METHODS[name], dict(METHODS[name].options)
    if "steps" in options:
        options["steps"] = max(1, round(milliseconds / 1000 * STEPS_PER_SECOND))
    else:
        options["limit"] = milliseconds / 1000
    return replace(method, options=options)


def gap(bench: Bench, milliseconds: float) -> Row:
    """Mean gap of the solver on true values, and what its solutions are worth next to the labels."""
    solver, examples = bench.size.data.label_solver, bench.instances.train
    n = min(bench.size.sweep.instances, len(examples.costs))
    solutions, gaps = bench.pool.solve(solver, milliseconds / 1000, examples.costs[:n])
    lost = 1 - (examples.costs[:n] * solutions).sum() / examples.objectives[:n].sum()
    known = gaps[np.isfinite(gaps)]
    mean = known.mean() if len(known) else float("nan")
    where = {"table": "gap", "solver": solver, "limit_ms": milliseconds, "instances": n}
    return {**where, "gap": mean, "with_bound": len(known) / n, "lost": lost}


def tasks(bench: Bench, choice: Choice) -> Tasks:
    out: dict[str, Callable[[], Row]] = {}
    for milliseconds in bench.size.sweep.limits:
        out[f"gap | {milliseconds} ms"] = partial(gap, bench, milliseconds)
    for milliseconds in choice.limits or bench.size.sweep.limits:
        for name in LIMITED if milliseconds == PAPERS else CURVES:
            for seed in choice.seeds if name in choice.methods else ():
                method = limited(name, milliseconds)
                out[f"{milliseconds} ms | {key_of(name, method, seed)}"] = partial(
                    run_row, bench, name, method, seed, limit_ms=milliseconds
                )
    return out


def tables(settings: Settings, rows: Rows) -> list[Table]:
    columns = ("limit", "seeds", "test regret", "validation", "train s/epoch", "tr Cov g", "tr Cov g / ‖E g‖²")
    out = table("By time limit of the layer: mean ± 95 % interval over seeds", "method", *columns)
    for (milliseconds, name), runs in sorted(grouped(rows, "limit_ms", "method").items(), key=lambda g: g[0][0]):
        test, validation = (shown(r[k] for r in runs) for k in ("test", "best_validation"))
        spent = seconds(float(np.mean([r["seconds_epoch"] for r in runs])))
        noise = [f"{last(runs, k):.3g}" for k in ("variance", "relative_variance")]
        out.add_row(name, f"{milliseconds:g} ms", str(len(runs)), test, validation, spent, *noise)
    gaps = table("The solver on true values", "solver", "limit", "gap", "solves with a bound", "value lost against labels")
    for row in rows.values():
        if row["table"] == "gap":
            known = "–" if row["gap"] is None else f"{row['gap']:.2%}"
            gaps.add_row(row["solver"], f"{row['limit_ms']:g} ms", known, f"{row['with_bound']:.0%}", f"{row['lost']:.2%}")
    return [out, gaps]


def draw_regret(axes: Any, rows: Rows) -> None:
    found = grouped(rows, "method", "limit_ms")
    for name in dict.fromkeys(name for name, _ in found if name in CURVES):
        limits = sorted(ms for n, ms in found if n == name)
        pairs = [student_interval(r["test"] for r in found[name, ms]) for ms in limits]
        mean, half = (np.nan_to_num(np.array(part)) for part in zip(*pairs, strict=True))
        draw_band(axes, limits, mean, half, label=name, marker=".")
    axes.set(xscale="log", xlabel="time limit of the layer, ms", ylabel="test relative regret")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    draw_regret(left, rows)
    gaps = [row for row in rows.values() if row["table"] == "gap"]
    for column, label in (("gap", "gap, where there is a bound"), ("lost", "value lost against labels")):
        right.plot([r["limit_ms"] for r in gaps], [np.nan if r[column] is None else r[column] for r in gaps], "o-", label=label)
    right.set(xscale="log", xlabel="time limit of the solver, ms", ylabel="relative to the value")
    right.grid(alpha=0.3)
    right.legend()
    papers = {key: row for key, row in rows.items() if row["table"] == "runs" and row["limit_ms"] == PAPERS}
    three, panels = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    bars(panels[0], papers, "test", xlabel="test relative regret")
    bars(panels[1], papers, "seconds_epoch", xlabel="training, seconds per epoch", xscale="log")
    curves(panels[2], papers, "variance", ylabel="variance of the gradient in θ", yscale="log")
    return {"sweep": figure, "sweep_1ms": three}


def part(bench: Bench, choice: Choice) -> Part:
    return Part("sweep", bench.settings, lambda _: tasks(bench, choice), tables, figures, prepare=bench.label)
