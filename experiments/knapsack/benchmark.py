"""Parts 1 and 2: test regret, time of training and variance of gradients, by the protocol and with schedules of their own."""

from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from rich.table import Table

from experiments.display import draw_band, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.knapsack.methods import METHODS, Method, Schedule
from experiments.knapsack.runs import Choice, grouped, key_of, run_row, shown
from experiments.knapsack.settings import Settings
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval

# The best schedule of each method in the part "tune"; those of K = 3000 are used for other K, too.
TUNED = {
    "ours": Schedule(100, 2.5e-3),
    "ours-3000": Schedule(100, 2.5e-3),
    "ours-spo": Schedule(100, 2.5e-3),
    "ours-spo-3000": Schedule(100, 2.5e-3),
    "ours-spo-2000": Schedule(100, 2.5e-3),
    "mse": Schedule(200, 2.5e-3),
    "spo-lp": Schedule(100, 2.5e-3),
    "pfy-lp": Schedule(100, 2.5e-3),  # not tuned: that of SPO+ and ours
}


def tasks(bench: Bench, choice: Choice) -> Tasks:
    """The protocol: the same epochs and learning rate for all."""
    return of_methods(bench, choice, {name: METHODS[name] for name in choice.methods})


def tuned_tasks(bench: Bench, choice: Choice) -> Tasks:
    """Each method with the schedule that its validation prefers."""
    chosen = {name: replace(METHODS[name], schedule=TUNED[name]) for name in choice.methods if name in TUNED}
    return of_methods(bench, choice, chosen)


def of_methods(bench: Bench, choice: Choice, chosen: dict[str, Method]) -> Tasks:
    """Seed by seed, so that a run that is stopped has all methods."""
    return {
        key_of(name, method, seed): partial(run_row, bench, name, method, seed)
        for seed in choice.seeds
        for name, method in chosen.items()
    }


def groups(rows: Rows) -> list[tuple[str, str, list[Row]]]:
    """Name, options and runs of each method, in the order of the registry."""
    order = list(METHODS)
    found = [(name, options, runs) for (name, options), runs in grouped(rows, "method", "options").items()]
    return sorted(found, key=lambda g: order.index(g[0]) if g[0] in order else len(order))


def tables(settings: Settings, rows: Rows) -> list[Table]:
    columns = ("oracle", "seeds", "test regret", "validation", "best epoch", "train s/epoch", "tr Cov g", "tr Cov g / ‖E g‖²")
    out = table("Relative regret at the best epoch of validation: mean ± 95 % interval over seeds", "method", *columns)
    for name, _, runs in groups(rows):
        test, validation = (shown(r[k] for r in runs) for k in ("test", "best_validation"))
        epoch = f"{np.mean([r['best_epoch'] for r in runs]):.0f}"
        noise = [f"{last(runs, k):.3g}" for k in ("variance", "relative_variance")]
        spent = seconds(float(np.mean([r["seconds_epoch"] for r in runs])))
        out.add_row(f"{name}: {METHODS[name].title}", METHODS[name].oracle, str(len(runs)), test, validation, epoch, spent, *noise)
    return [out, *versus(rows)]


def versus(rows: Rows) -> list[Table]:
    """Ours less each other method, over the seeds that both have, and how much longer an epoch of the other takes."""
    runs = {name: {r["seed"]: r for r in found} for name, _, found in groups(rows)}
    ours = [name for name in runs if name.startswith("ours")]
    if not ours:
        return []
    out = table("Test regret less that of another method, paired by seed; time of its epoch over ours", "method", *ours)
    for other in runs:
        if other not in ours:
            out.add_row(other, *(compared(runs[name], runs[other]) for name in ours))
    return [out]


def compared(ours: dict[int, Row], other: dict[int, Row]) -> str:
    """Difference of the test regrets of two methods, by seed, and ratio of their times."""
    both = sorted(ours.keys() & other.keys())
    if not both:
        return "–"
    difference, half = student_interval(ours[s]["test"] - other[s]["test"] for s in both)
    ratio = np.mean([other[s]["seconds_epoch"] / ours[s]["seconds_epoch"] for s in both])
    return f"{difference:+.3f}{'' if np.isnan(half) else f' ±{half:.3f}'}, {ratio:.3g}×"


def last(runs: list[Row], column: str) -> float:
    """Mean over seeds at the last probe of each run."""
    ends = [[v for v in r[column] if v is not None][-1:] for r in runs]
    return float(np.mean([v for end in ends for v in end])) if any(ends) else float("nan")


def bars(axes: Any, rows: Rows, column: str, **labels: Any) -> None:
    """A bar for each method with its interval."""
    names = [name for name, _, _ in groups(rows)]
    pairs = [student_interval(r[column] for r in runs) for _, _, runs in groups(rows)]
    axes.barh(range(len(names)), [m for m, _ in pairs], xerr=[0 if np.isnan(h) else h for _, h in pairs], color="C0", alpha=0.7)
    axes.set(yticks=range(len(names)), yticklabels=names, **labels)
    if labels.get("xscale") == "log":
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")


def curves(axes: Any, rows: Rows, column: str, **labels: Any) -> None:
    """A curve for each method along training; what has no variance is left out."""
    for name, _, runs in groups(rows):
        epochs = [e for e, v in zip(runs[0]["epoch"], runs[0][column], strict=True) if v is not None]
        values = np.array([[v for v in r[column] if v is not None] for r in runs])
        if values.size and (values > 0).all():
            pairs = [student_interval(v) for v in values.T]
            mean, half = (np.nan_to_num(np.array(part)) for part in zip(*pairs, strict=True))
            draw_band(axes, epochs, mean, half, label=name, marker=".")
    axes.set(xlabel="epoch", **labels)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize="x-small")


def figures(settings: Settings, rows: Rows, name: str = "benchmark") -> dict[str, Figure]:
    paper, panels = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    bars(panels[0], rows, "test", xlabel="test relative regret")
    bars(panels[1], rows, "seconds_epoch", xlabel="training, seconds per epoch", xscale="log")
    curves(panels[2], rows, "variance", ylabel="variance of the gradient in θ", yscale="log")
    more, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    curves(panels[0], rows, "validation", ylabel="validation relative regret")
    curves(panels[1], rows, "relative_variance", ylabel="variance / ‖mean gradient‖²", yscale="log")
    return {name: paper, f"{name}_training": more}


def part(bench: Bench, choice: Choice) -> Part:
    return Part("benchmark", bench.settings, lambda _: tasks(bench, choice), tables, figures, prepare=bench.label)


def tuned_part(bench: Bench, choice: Choice) -> Part:
    return Part(
        "tuned", bench.settings, lambda _: tuned_tasks(bench, choice), tables, partial(figures, name="tuned"), prepare=bench.label
    )
