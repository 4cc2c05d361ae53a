"""Parts 1 and 2: test regret, time of training and variance of gradients, by the protocol and with schedules of their own."""

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
from experiments.knapsack.methods import METHODS, Method, Schedule
from experiments.knapsack.runs import (
    NOT_LEARNED,
    Choice,
    difference,
    dots,
    floor,
    grouped,
    key_of,
    learned,
    least_learned,
    over_instances,
    run_row,
    shown,
    spread,
)
from experiments.knapsack.settings import Settings
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval
from experiments.verdicts import corrected, stated, verdict

# Of gradients, over calls at the same θ (Monte Carlo) in θ, and over batches in the weights.
NOISE = {
    "variance": "tr Cov g",
    "relative_variance": "tr Cov g / ‖E g‖²",
    "batch_variance": "over batches",
    "relative_batch_variance": "over batches / ‖E g‖²",
}

# The best schedule of each method in the part "tune"; those of K = 3000 are used for other K, too.
TUNED = {
    "ours": Schedule(100, 2.5e-3),
    "ours-3000": Schedule(100, 2.5e-3),
    "ours-paper": Schedule(100, 2.5e-3),
    "ours-paper-2t": Schedule(100, 2.5e-3),
    "ours-spo": Schedule(100, 2.5e-3),
    "ours-spo-3000": Schedule(100, 2.5e-3),
    "ours-spo-2000": Schedule(100, 2.5e-3),
    "mse": Schedule(200, 2.5e-3),
    "spo-lp": Schedule(100, 2.5e-3),
    "pfy-lp": Schedule(100, 2.5e-3),
    "nid-lp": Schedule(100, 5e-3),  # neither this nor the next one learns by any
    "nce-lp": Schedule(40, 2.5e-3),
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


def tables(out: Path | None, settings: Settings, rows: Rows) -> list[Table]:
    columns = ("oracle", "seeds", "test regret", "validation", "best epoch", "train s/epoch", *NOISE.values())
    made = table("Relative regret at the best epoch of validation: mean ± 95 % interval over seeds", "method", *columns)
    least = least_learned(out, rows)
    for name, _, runs in groups(rows):
        test, validation = (shown(r[k] for r in runs) for k in ("test", "best_validation"))
        test += "" if learned(runs, least) else f" ({NOT_LEARNED})"
        epoch = f"{np.mean([r['best_epoch'] for r in runs]):.0f}"
        noise = [noted(last(runs, k)) for k in NOISE]
        spent = seconds(float(np.mean([r["seconds_epoch"] for r in runs])))
        made.add_row(f"{name}: {METHODS[name].title}", METHODS[name].oracle, str(len(runs)), test, validation, epoch, spent, *noise)
    return [made, *versus(rows, least)]


def versus(rows: Rows, least: float | None = None) -> list[Table]:
    """Ours less each other method, the strongest first, with the word for it, and how much longer an epoch of the other takes.

    Pairs are seeds that both have and, where rows hold them, instances. What did not learn is not counted as beaten.
    """
    runs = {name: found for name, _, found in groups(rows)}
    ours = [name for name in runs if name.startswith("ours")]
    others = sorted((name for name in runs if name not in ours), key=lambda name: spread(runs[name], "test").mean)
    if not ours:
        return []
    over = "seed and instance" if all(over_instances(found, found) for found in runs.values()) else "seed, not by instance"
    out = table(f"Test regret less that of another method, paired by {over}; time of its epoch over ours", "method", *ours)
    for other in others:
        if learned(runs[other], least):
            out.add_row(other, *(compared(runs[name], runs[other], len(ours)) for name in ours))
        else:
            out.add_row(f"{other} ({NOT_LEARNED})", *("not counted" for _ in ours))
    return [out]


def compared(ours: list[Row], other: list[Row], rows: int = 1) -> str:
    """Difference of the test regrets of two methods with its verdict, and ratio of their times.

    Where that would be another one if it were the best of so many rows, it is said.
    """
    both = {r["seed"] for r in ours} & {r["seed"] for r in other}
    if not both:
        return "–"
    ratio = np.mean([b["seconds_epoch"] / a["seconds_epoch"] for a in ours for b in other if a["seed"] == b["seed"]])
    word, as_best = verdict(difference(ours, other)), verdict(difference(ours, other, corrected(rows)))
    more = "" if word != "ahead" or word == as_best else f" ({as_best} as the best of {rows})"
    return f"{stated(difference(ours, other), digits=3)}{more}, {ratio:.3g}×"


def noted(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3g}"


def last(runs: list[Row], column: str) -> float:
    """Mean over seeds at the last probe of each run."""
    ends = [[v for v in r.get(column, ()) if v is not None][-1:] for r in runs]
    return float(np.mean([v for end in ends for v in end])) if any(ends) else float("nan")


def titled(name: str, of_limit: bool) -> str:
    """Of a method in words; without its K where a limit of time stands in its place."""
    title = METHODS[name].title
    return title.partition(", K =")[0] if of_limit else title


def methods_dots(
    axes: Any, rows: Rows, column: str, least: float | None, worst: float | None = None, of_limit: bool = False, **labels: Any
) -> None:
    """A dot for each method with its interval; those that did not learn are gray, and said so.

    ``worst``: regret of one decision for all. Then the axis is that of those that learned; the others have their regret in words.
    """
    found, colors = {}, {}
    for name, _, runs in groups(rows):
        title = titled(name, of_limit)
        if not learned(runs, least):
            title += f"\n({NOT_LEARNED})"
            colors[title] = "0.6"
        found[title] = spread(runs, column)
    dots(axes, found, colors, **labels)
    if worst is not None and colors and len(colors) < len(found):
        ends = [(v.low, v.high) if np.isfinite(v.half) else (v.mean, v.mean) for title, v in found.items() if title not in colors]
        low, high = min(a for a, _ in ends), max(b for _, b in ends)
        width = max(high - low, 0.05 * high)
        axes.set_xlim(low - 0.1 * width, high + 0.25 * width)
        for place, (title, value) in enumerate(found.items()):
            if title in colors:
                at = axes.get_yaxis_transform()
                axes.text(0.98, place, f"{value.mean:.3f} →", fontsize=8, color="0.4", ha="right", va="center", transform=at)
        axes.set_title(f"one decision for all: {worst:.3f} →", fontsize=8, color="0.4", loc="right")


def curves(axes: Any, rows: Rows, column: str, of_limit: bool = False, **labels: Any) -> None:
    """A curve for each method along training, in a color that is its own; what has no variance is left out."""
    means: list[float] = []
    for color, (name, _, runs) in enumerate(groups(rows)):
        if any(column not in r for r in runs):  # of a run before it was measured
            continue
        measured = zip(runs[0]["epoch"], *(r[column] for r in runs), strict=True)
        found = {epoch: values for epoch, *values in measured if None not in values}  # where all seeds have one
        if found and all(v > 0 for values in found.values() for v in values):
            pairs = [student_interval(values) for values in found.values()]
            mean, half = (np.nan_to_num(np.array(part)) for part in zip(*pairs, strict=True))
            draw_band(axes, list(found), mean, half, label=titled(name, of_limit), marker=".", color=f"C{color}")
            means.extend(mean)
    axes.set(xlabel="epoch", **labels)
    if means and labels.get("yscale") == "log":
        axes.set_ylim(min(means) / 3.0, 3.0 * max(means))  # of curves: a band may begin at 0
    axes.grid(alpha=0.3)


def three_panels(rows: Rows, least: float | None, worst: float | None, of_limit: bool = False) -> Figure:
    """Regret, time and variance, as in the paper's figure."""
    count = len(groups(rows))
    figure, panels = plt.subplots(1, 3, figsize=(13, 2.2 + 0.34 * count), layout="constrained", width_ratios=(1, 1, 1.1))
    methods_dots(panels[0], rows, "test", least, worst, of_limit, xlabel="test relative regret")
    methods_dots(panels[1], rows, "seconds_epoch", least, None, of_limit, xlabel="training, seconds per epoch", xscale="log")
    panels[1].set_yticklabels([])
    noise = "variance of the gradient in θ\n(Monte Carlo, at fixed θ)"
    curves(panels[2], rows, "variance", of_limit, ylabel=noise, yscale="log")
    legend_below(figure, panels[2], 3)
    return figure


def figures(out: Path | None, settings: Settings, rows: Rows, name: str = "benchmark") -> dict[str, Figure]:
    more, panels = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    curves(panels[0], rows, "validation", ylabel="validation relative regret")
    curves(panels[1], rows, "relative_variance", ylabel="variance / ‖mean gradient‖²", yscale="log")
    curves(panels[2], rows, "relative_batch_variance", ylabel="the same over batches, in the weights", yscale="log")
    legend_below(more, panels[0], 3)
    return {name: three_panels(rows, least_learned(out, rows), floor(out)), f"{name}_training": more}


def part(bench: Bench, choice: Choice, out: Path | None = None) -> Part:
    """``out``: folder that may have the part "floor"."""
    shows = partial(tables, out), partial(figures, out)
    return Part("benchmark", bench.settings, lambda _: tasks(bench, choice), *shows, prepare=bench.label)


def tuned_part(bench: Bench, choice: Choice, out: Path | None = None) -> Part:
    shows = partial(tables, out), partial(figures, out, name="tuned")
    return Part("tuned", bench.settings, lambda _: tuned_tasks(bench, choice), *shows, prepare=bench.label)
