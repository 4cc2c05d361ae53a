"""Part 6: what the mean of a chain, and the moves, are worth: regret at the paper's 1 ms and at K = 3000, with ten seeds.

Nothing here is timed: chains have steps, and Gurobi, which decides in the test, has work units.
"""

from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import table
from experiments.framework import Part, Rows, Tasks
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.runs import Choice, difference, dots, grouped, key_of, run_row, shown, spread
from experiments.knapsack.settings import STEPS_PER_SECOND, Settings
from experiments.knapsack.train import Bench
from experiments.verdicts import stated

MILLISECOND = STEPS_PER_SECOND // 1000  # steps


def variant(name: str, title: str, **options: object) -> Method:
    return replace(METHODS[name], title=title, options={**METHODS[name].options, **options})


def variants() -> dict[str, Method]:
    """By name of the row."""
    return {
        "mean": variant("ours", "mean of a chain, 1 ms", steps=MILLISECOND),
        "last-1": variant("last-iterate", "last iterate of a perturbed chain, 1 ms", steps=MILLISECOND, samples=1),
        "last-5": variant("last-iterate", "last iterates of 5 perturbed chains, 1 ms each", steps=MILLISECOND, samples=5),
        "plain": variant("ours-3000", "swaps and flips, K = 3000"),
        "paper": variant("ours-paper", "the paper's mixture, β = 1, K = 3000"),
        "paper-2t": variant("ours-paper-2t", "the paper's mixture, β = 2t, K = 3000"),
    }


PAIRS = (("mean", "last-1"), ("mean", "last-5"), ("paper", "plain"), ("paper-2t", "plain"), ("paper-2t", "paper"))


def tasks(bench: Bench, choice: Choice) -> Tasks:
    return {
        key_of(name, method, seed): partial(run_row, bench, name, method, seed)
        for seed in choice.seeds
        for name, method in variants().items()
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    runs, titles = {name: found for (name,), found in grouped(rows, "method").items()}, variants()
    columns = ("seeds", "test regret", "validation")
    out = table("Protocol's 20 epochs: mean ± 95 % interval over seeds", "", *columns)
    for name, found in runs.items():
        out.add_row(titles[name].title, str(len(found)), *(shown((r[k] for r in found), 4) for k in ("test", "best_validation")))
    pairs = table("First − second, paired by seed and instance", "first", "second", "test regret, first is")
    for first, second in PAIRS:
        if first in runs and second in runs:
            pairs.add_row(titles[first].title, titles[second].title, stated(difference(runs[first], runs[second]), digits=4))
    return [out, pairs]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    figure, axes = plt.subplots(figsize=(7.5, 3.0), layout="constrained")
    found = {variants()[name].title: spread(runs, "test") for (name,), runs in grouped(rows, "method").items()}
    dots(axes, found, xlabel="test relative regret, 95 % over seeds")
    return {"ablation": figure}


def part(bench: Bench, choice: Choice) -> Part:
    return Part("ablation", bench.settings, lambda _: tasks(bench, choice), tables, figures, prepare=bench.label)
