"""Part 2: options of ours, and of the baselines that are cheap to tune, by regret on validation. The test set is not touched."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure
from rich.table import Table

from experiments.convergence.study import seconds, table
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.study import Choice, Part, Row, Rows, grouped, interval, key_of, run_row, shown
from experiments.knapsack.train import Bench

OFFSET = 100  # training seeds of their own
STEPS, TEMPERATURES, RATES = (100, 1000, 10_000), (0.3, 1.0, 3.0, 10.0), (2e-3, 1e-2, 2e-2)
GUIDED = ("swap", "guided swap", "guided flip")  # the paper's mixture


def variant(name: str, rate: float | None = None, **options: object) -> tuple[str, Method]:
    method = METHODS[name]
    return name, replace(method, options={**method.options, **options}, rate=rate)


def variants() -> Iterator[tuple[str, Method]]:
    """K × t; then the moves and the estimator; then learning rates; then the baselines."""
    for steps in STEPS:
        for t in TEMPERATURES:
            yield variant("ours", steps=steps, temperature=t)
    for steps in STEPS[1:]:
        yield variant("ours", steps=steps, temperature=1.0, moves=GUIDED)
        yield variant("ours", steps=steps, temperature=1.0, estimator="recycled")
    for steps in STEPS[1:]:
        for rate in RATES:
            yield variant("ours", rate, steps=steps, temperature=1.0)
    for sigma in (0.3, 1.0, 3.0):
        yield variant("pfy-lp", sigma=sigma)
    for name in ("mse", "spo-lp"):
        yield variant(name)
    for name in ("mse", "spo-lp", "pfy-lp"):
        for rate in RATES:
            yield variant(name, rate)


def finalists() -> Iterator[tuple[str, Method]]:
    """What one seed cannot tell apart: moves and estimators at the best t."""
    for steps in STEPS[1:]:
        yield variant("ours", steps=steps, temperature=1.0)
        yield variant("ours", steps=steps, temperature=1.0, moves=GUIDED)
        yield variant("ours", steps=steps, temperature=1.0, estimator="recycled")


def tasks(bench: Bench, choice: Choice) -> dict[str, Callable[[], Row]]:
    """All variants with the first seed, the finalists with the others."""
    return {
        key_of(name, method, OFFSET + seed): partial(run_row, bench, name, method, OFFSET + seed, test=False)
        for n, seed in enumerate(choice.seeds)
        for name, method in (finalists() if n else variants())
        if name in choice.methods
    }


def tables(rows: Rows) -> list[Table]:
    out = table("Regret on validation at its best epoch, best first within each method", "method", "options", "seeds", "regret")
    out.add_column("best epoch", justify="right")
    out.add_column("train s/epoch", justify="right")
    found = grouped(rows, "method", "options")
    for (name, options), runs in sorted(found.items(), key=lambda g: (g[0][0], interval(r["best_validation"] for r in g[1])[0])):
        spent, epoch = (interval(r[k] for r in runs)[0] for k in ("seconds_epoch", "best_epoch"))
        out.add_row(name, options, str(len(runs)), shown(r["best_validation"] for r in runs), f"{epoch:.0f}", seconds(spent))
    return [out]


def figures(rows: Rows) -> dict[str, Figure]:
    return {}


PART = Part("tune", tasks, tables, figures)
