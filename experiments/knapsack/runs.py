"""What the parts share: which runs are wanted, a run as a row, runs that differ in the seed alone, differences, dot plots."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator

from experiments.framework import Row, Rows
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.train import Bench, train
from experiments.statistics import student_interval
from experiments.store import read_record
from experiments.verdicts import Interval, paired


@dataclass(frozen=True)
class Choice:
    """What to run now; it decides which rows are computed, not what is in them."""

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    limits: tuple[float, ...] = ()  # milliseconds, of the sweep; all if empty


def run_row(bench: Bench, name: str, method: Method, seed: int, test: bool = True, **more: Any) -> Row:
    """A training run as a row."""
    where = {"table": "runs", "method": name, "options": method.key, "seed": seed, **more}
    return {**where, **train(bench, method, seed, test)}


def key_of(name: str, method: Method, seed: int) -> str:
    return f"{name} | {method.key} | seed {seed}"


def grouped(rows: Rows, *by: str) -> dict[tuple, list[Row]]:
    """Training runs that differ in nothing but the seed."""
    out: dict[tuple, list[Row]] = {}
    for row in rows.values():
        if row["table"] == "runs":
            out.setdefault(tuple(row[k] for k in by), []).append(row)
    return out


def shown(values: Iterable[float], digits: int = 3) -> str:
    """Mean ± half-width."""
    mean, half = student_interval(values)
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ±{half:.{digits}f}")


def difference(first: list[Row], second: list[Row], level: float = 0.95) -> Interval:
    """Of test regrets, over the seeds that both have and, where rows hold them, over instances.

    Rows that do not hold regrets by instance give an interval over seeds alone, which says nothing about other instances.
    """
    a, b = ({r["seed"]: r for r in runs} for runs in (first, second))
    both = sorted(a.keys() & b.keys())
    if not both:
        return Interval(math.nan, -math.inf, math.inf)
    column = "test_by_instance" if all("test_by_instance" in runs[s] for runs in (a, b) for s in both) else "test"
    return paired(np.array([np.subtract(a[s][column], b[s][column]) for s in both]), level)


def over_instances(first: list[Row], second: list[Row]) -> bool:
    """Whether their difference is over instances, too."""
    return all("test_by_instance" in row for row in (*first, *second))


def spread(runs: list[Row], column: str) -> Interval:
    """Over seeds."""
    return paired(np.array([r[column] for r in runs], float))


def floor(folder: Path | None) -> float | None:
    """Test regret of one decision for all instances, from the part of that name in the same folder; None where it was not run."""
    path = None if folder is None else folder / "floor.json"
    return None if path is None or not path.exists() else float(read_record(path).rows["constant"]["test"])


def least_learned(folder: Path | None, rows: Rows) -> float | None:
    """The test regret above which a method did not learn: a quarter of the way from one decision for all to the best method.

    None where the former is not known, or nothing is better.
    """
    means = [spread(runs, "test").mean for runs in grouped(rows, "method", "options").values()]
    worst, best = floor(folder), min(means, default=1.0)
    return None if worst is None or worst <= best else worst - (worst - best) / 4


def learned(runs: list[Row], least: float | None) -> bool:
    """Whether the mean regret of a method is at most that of :func:`least_learned`."""
    return least is None or spread(runs, "test").mean <= least


NOT_LEARNED = "did not learn"


def dots(axes: Any, values: dict[str, Interval], colors: dict[str, str] | None = None, **labels: Any) -> None:
    """A dot with its interval for each name, first on top; those of ``colors`` are drawn so and marked."""
    for place, (name, value) in enumerate(values.items()):
        half = value.half if math.isfinite(value.half) else 0.0
        color = (colors or {}).get(name, "C0")
        axes.errorbar([value.mean], [place], xerr=[[half], [half]], fmt="o" if half else "D", ms=5, capsize=3, color=color)
    axes.set(yticks=range(len(values)), yticklabels=list(values), ylim=(len(values) - 0.5, -0.5), **labels)
    if labels.get("xscale") == "log":
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.grid(alpha=0.3)


def unknown_methods(names: Iterable[str]) -> None:
    for name in names:
        if name not in METHODS:
            raise SystemExit(f"--methods must name methods among {', '.join(METHODS)}, got {name!r}.")
