"""Part 8: the methods with schedules of their own on several data sets, since seeds of networks share one.

A data set has weights, a map from features to values, and instances of its own; intervals are over data sets and seeds.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.knapsack.benchmark import TUNED
from experiments.knapsack.methods import METHODS
from experiments.knapsack.runs import Choice, dots, grouped, key_of, run_row
from experiments.knapsack.settings import Settings
from experiments.knapsack.train import Bench
from experiments.verdicts import Interval, paired, stated

SEEDS = (0, 1, 2)  # of networks, if nobody says otherwise
USUAL = ("ours-spo-3000", "ours-3000", "spo-lp", "mse")
COLUMNS = ("first", "second", "test regret, first is", "time")  # of pairs


def benches(bench: Bench, sets: tuple[int, ...]) -> dict[int, Bench]:
    """By the seed of the data."""
    return {seed: replace(bench, size=replace(bench.size, data=replace(bench.size.data, seed=seed)), _pool=None) for seed in sets}


def tasks(benches: dict[int, Bench], choice: Choice) -> Tasks:
    """Data set by data set, so that a run that is stopped has all methods on some."""
    chosen = {name: replace(METHODS[name], schedule=TUNED[name]) for name in choice.methods if name in TUNED}
    return {
        f"data {data} | {key_of(name, method, seed)}": partial(run_row, bench, name, method, seed, data=data)
        for data, bench in benches.items()
        for seed in choice.seeds
        for name, method in chosen.items()
    }


def regrets(runs: list[Row]) -> dict[tuple[int, int], float]:
    """By seed and data set."""
    return {(r["seed"], r["data"]): r["test"] for r in runs}


def difference(first: list[Row], second: list[Row]) -> Interval:
    """Of mean test regrets, over the seeds and the data sets on which both have all of these seeds."""
    a, b = regrets(first), regrets(second)
    both = a.keys() & b.keys()
    seeds = sorted({seed for seed, _ in both})
    sets = [data for data in sorted({data for _, data in both}) if all((seed, data) in both for seed in seeds)]
    if not sets:
        return Interval(np.nan, -np.inf, np.inf)
    return paired(np.array([[a[s, d] - b[s, d] for d in sets] for s in seeds]))


def spread(runs: list[Row]) -> Interval:
    """Of the mean over seeds, over data sets."""
    return paired(np.array([np.mean([r["test"] for r in own]) for own in by_set(runs).values()]))


def by_set(runs: list[Row]) -> dict[int, list[Row]]:
    return {data: [r for r in runs if r["data"] == data] for data in sorted({r["data"] for r in runs})}


def tables(settings: Settings, rows: Rows) -> list[Table]:
    runs = {name: found for (name,), found in grouped(rows, "method").items()}
    sets = sorted({row["data"] for row in rows.values()})
    columns = ("test regret", "train s/epoch", *(f"data set {data}" for data in sets))
    out = table("Schedules of their own: mean ± 95 % interval over data sets", "method", *columns)
    for name, found in runs.items():
        means = {data: f"{np.mean([r['test'] for r in own]):.4f}" for data, own in by_set(found).items()}
        all_sets, spent = spread(found), seconds(float(np.mean([r["seconds_epoch"] for r in found])))
        half = f" ±{all_sets.half:.4f}" if np.isfinite(all_sets.half) else ""
        out.add_row(name, f"{all_sets.mean:.4f}{half}", spent, *(means.get(data, "–") for data in sets))
    pairs = table("First − second, paired by seed and data set; time of an epoch of the second over the first's", *COLUMNS)
    for first in (name for name in runs if name.startswith("ours")):
        for second in (name for name in runs if not name.startswith("ours")):
            ratio = np.mean([r["seconds_epoch"] for r in runs[second]]) / np.mean([r["seconds_epoch"] for r in runs[first]])
            pairs.add_row(first, second, stated(difference(runs[first], runs[second]), digits=4), f"{ratio:.3g}×")
    return [out, pairs]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    figure, axes = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
    found = {METHODS[name].title: spread(runs) for (name,), runs in grouped(rows, "method").items()}
    dots(axes, found, xlabel="test relative regret, 95 % over data sets")
    return {"sets": figure}


def part(bench: Bench, choice: Choice, sets: tuple[int, ...]) -> Part:
    made = benches(bench, sets)

    def label(missing: list[str]) -> None:
        for data, own in made.items():
            if any(key.startswith(f"data {data} |") for key in missing):
                own.label()

    return Part("sets", bench.settings, lambda _: tasks(made, choice), tables, figures, prepare=label)
