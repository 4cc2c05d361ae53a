"""Part 4: the time limit of the layer in training (the paper's benchmark has 1 ms), for methods with chains or a MIP solver."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import draw_band, legend_below, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.knapsack.benchmark import NOISE, last, noted, three_panels, versus
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.runs import NOT_LEARNED, Choice, floor, grouped, key_of, learned, least_learned, run_row, shown
from experiments.knapsack.settings import STEPS_PER_SECOND, Settings
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval

PAPERS = 1.0  # milliseconds of the paper's benchmark
GUIDED_SHARE = 2.0 / 5.5  # of the steps that plain moves make in a time (benchmarks/results/engine.json)
EVERY = (1.0, 5.0, 10.0, 20.0)  # limits for every method of LIMITED; others for those of CURVES
LIMITED = ("ours", "ours-paper", "ours-paper-2t", "ours-spo", "last-iterate", "spo-annealing", "spo", "pfy", "nid", "nce")
CURVES = ("ours", "last-iterate", "spo", "pfy")
SHORT = {
    "ours": "local search, mean",
    "last-iterate": "local search, last iterate (PFY)",
    "spo": "SPO+, Gurobi",
    "pfy": "PFY, Gurobi",
}


def limited(name: str, milliseconds: float) -> Method:
    """A method with so much time for each example, counted as work; PFY and the last iterate have it for each of 5 samples."""
    method, options = METHODS[name], dict(METHODS[name].options)
    if "steps" in options:
        rate = GUIDED_SHARE if any("guided" in move for move in options.get("moves", ())) else 1.0
        options["steps"] = max(1, round(rate * milliseconds / 1000 * STEPS_PER_SECOND))
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
        for name in LIMITED if milliseconds in EVERY else CURVES:
            for seed in choice.seeds if name in choice.methods else ():
                method = limited(name, milliseconds)
                out[f"{milliseconds} ms | {key_of(name, method, seed)}"] = partial(
                    run_row, bench, name, method, seed, limit_ms=milliseconds
                )
    return out


def tables(out: Path | None, settings: Settings, rows: Rows) -> list[Table]:
    columns = ("limit", "seeds", "test regret", "validation", "train s/epoch", *NOISE.values())
    made = table("By time limit of the layer: mean ± 95 % interval over seeds", "method", *columns)
    least = least_learned(out, rows)
    found = sorted(grouped(rows, "limit_ms", "method").items(), key=lambda g: g[0][0])
    for (milliseconds, name), runs in found:
        test, validation = (shown(r[k] for r in runs) for k in ("test", "best_validation"))
        test += "" if learned(runs, least) else f" ({NOT_LEARNED})"
        spent = seconds(float(np.mean([r["seconds_epoch"] for r in runs])))
        noise = [noted(last(runs, k)) for k in NOISE]
        made.add_row(name, f"{milliseconds:g} ms", str(len(runs)), test, validation, spent, *noise)
    pairs = []
    for milliseconds in dict.fromkeys(ms for (ms, _), _ in found):
        for one in versus({key: row for key, row in rows.items() if row.get("limit_ms") == milliseconds}, least):
            one.title = f"{milliseconds:g} ms. {one.title}"
            pairs.append(one)
    gaps = table("The solver on true values", "solver", "limit", "gap", "solves with a bound", "value lost against labels")
    for row in rows.values():
        if row["table"] == "gap":
            known = "–" if row["gap"] is None else f"{row['gap']:.2%}"
            gaps.add_row(row["solver"], f"{row['limit_ms']:g} ms", known, f"{row['with_bound']:.0%}", f"{row['lost']:.2%}")
    return [made, *pairs, gaps]


def draw_regret(axes: Any, rows: Rows, least: float | None, worst: float | None) -> None:
    """Regret by limit; hollow where a method did not learn."""
    found = grouped(rows, "method", "limit_ms")
    for color, name in enumerate(dict.fromkeys(name for name, _ in found if name in CURVES)):
        limits = sorted(ms for n, ms in found if n == name)
        pairs = [student_interval(r["test"] for r in found[name, ms]) for ms in limits]
        mean, half = (np.nan_to_num(np.array(part)) for part in zip(*pairs, strict=True))
        draw_band(axes, limits, mean, half, label=SHORT[name], color=f"C{color}")
        for ms, value in zip(limits, mean, strict=True):
            filled = f"C{color}" if learned(found[name, ms], least) else "white"
            axes.plot([ms], [value], "o", ms=5, mfc=filled, mec=f"C{color}")
    if worst is not None:
        axes.axhline(worst, color="0.4", ls=":", lw=1, label="one decision for all")
        axes.plot([], [], "o", ms=5, mfc="white", mec="0.4", label=NOT_LEARNED)
    axes.set(xscale="log", xlabel="time limit of the layer, ms", ylabel="test relative regret")
    axes.grid(alpha=0.3)


def figures(out: Path | None, settings: Settings, rows: Rows) -> dict[str, Figure]:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    least = least_learned(out, rows)
    draw_regret(left, rows, least, floor(out))
    gaps = [row for row in rows.values() if row["table"] == "gap"]
    for column, label in (("gap", "the solver's gap, where it has a bound"), ("lost", "the solver's value lost against labels")):
        values = [r[column] if r[column] is not None and r[column] > 0 else np.nan for r in gaps]
        right.plot([r["limit_ms"] for r in gaps], values, "s-", label=label, color={"gap": "C8", "lost": "C5"}[column])
    positive = any(np.nan_to_num(line.get_ydata()).any() for line in right.lines)
    right.set(xscale="log", yscale="log" if positive else "linear")
    right.set(xlabel="time limit of the solver, ms", ylabel="relative to the value")
    right.grid(alpha=0.3)
    right.legend(fontsize="small")
    legend_below(figure, left, 3)
    by_limit = {}
    for ms in EVERY:
        chosen = {key: row for key, row in rows.items() if row["table"] == "runs" and row["limit_ms"] == ms}
        if {row["method"] for row in chosen.values()} - set(CURVES):
            by_limit[f"sweep_{ms:g}ms"] = three_panels(chosen, least, floor(out), of_limit=True)
    return {"sweep": figure, **by_limit}


def part(bench: Bench, choice: Choice, out: Path | None = None) -> Part:
    """``out``: folder that may have the part "floor"."""
    shows = partial(tables, out), partial(figures, out)
    return Part("sweep", bench.settings, lambda _: tasks(bench, choice), *shows, prepare=bench.label)
