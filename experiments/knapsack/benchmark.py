"""Part 1: test regret, time of training and variance of gradients of every method."""

from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.common import draw_band
from experiments.convergence.study import seconds, table
from experiments.knapsack.methods import METHODS
from experiments.knapsack.study import Choice, Part, Row, Rows, grouped, interval, key_of, run_row, shown
from experiments.knapsack.train import Bench


def tasks(bench: Bench, choice: Choice) -> dict[str, Callable[[], Row]]:
    return {
        key_of(name, METHODS[name], seed): partial(run_row, bench, name, METHODS[name], seed)
        for name in choice.methods
        for seed in choice.seeds
    }


def groups(rows: Rows) -> list[tuple[str, str, list[Row]]]:
    """Name, options and runs of each method, in the order of the registry."""
    order = list(METHODS)
    found = [(name, options, runs) for (name, options), runs in grouped(rows, "method", "options").items()]
    return sorted(found, key=lambda g: order.index(g[0]) if g[0] in order else len(order))


def tables(rows: Rows) -> list[Table]:
    columns = ("oracle", "seeds", "test regret", "validation", "best epoch", "train s/epoch", "tr Cov g", "tr Cov g / ‖E g‖²")
    out = table("Relative regret at the best epoch of validation: mean ± 95 % interval over seeds", "method", *columns)
    for name, _, runs in groups(rows):
        test, validation = (shown(r[k] for r in runs) for k in ("test", "best_validation"))
        epoch = f"{np.mean([r['best_epoch'] for r in runs]):.0f}"
        noise = [f"{last(runs, k):.3g}" for k in ("variance", "relative_variance")]
        spent = seconds(float(np.mean([r["seconds_epoch"] for r in runs])))
        out.add_row(f"{name}: {METHODS[name].title}", METHODS[name].oracle, str(len(runs)), test, validation, epoch, spent, *noise)
    return [out]


def last(runs: list[Row], column: str) -> float:
    """Mean over seeds at the last probe of each run."""
    ends = [[v for v in r[column] if v is not None][-1:] for r in runs]
    return float(np.mean([v for end in ends for v in end])) if any(ends) else float("nan")


def bars(axes: Any, rows: Rows, column: str, **labels: Any) -> None:
    """A bar for each method with its interval."""
    names = [name for name, _, _ in groups(rows)]
    pairs = [interval(r[column] for r in runs) for _, _, runs in groups(rows)]
    axes.barh(range(len(names)), [m for m, _ in pairs], xerr=[0 if np.isnan(h) else h for _, h in pairs], color="C0", alpha=0.7)
    axes.set(yticks=range(len(names)), yticklabels=names, **labels)
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")


def curves(axes: Any, rows: Rows, column: str, **labels: Any) -> None:
    """A curve for each method along training; what has no variance is left out."""
    for name, _, runs in groups(rows):
        epochs = [e for e, v in zip(runs[0]["epoch"], runs[0][column], strict=True) if v is not None]
        values = np.array([[v for v in r[column] if v is not None] for r in runs])
        if values.size and (values > 0).all():
            pairs = [interval(v) for v in values.T]
            mean, half = (np.nan_to_num(np.array(part)) for part in zip(*pairs, strict=True))
            draw_band(axes, epochs, mean, half, label=name, marker=".")
    axes.set(xlabel="epoch", **labels)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize="x-small")


def figures(rows: Rows) -> dict[str, Figure]:
    paper, panels = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    bars(panels[0], rows, "test", xlabel="test relative regret")
    bars(panels[1], rows, "seconds_epoch", xlabel="training, seconds per epoch", xscale="log")
    curves(panels[2], rows, "variance", ylabel="variance of the gradient in θ", yscale="log")
    more, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    curves(panels[0], rows, "validation", ylabel="validation relative regret")
    curves(panels[1], rows, "relative_variance", ylabel="variance / ‖mean gradient‖²", yscale="log")
    return {"benchmark": paper, "benchmark_training": more}


PART = Part("benchmark", tasks, tables, figures)
