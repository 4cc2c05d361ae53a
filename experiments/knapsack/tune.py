"""Part 3: options of ours, and of the baselines that are cheap to tune, by regret on validation. The test set is not touched."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from rich.table import Table

from experiments.display import seconds, table
from experiments.framework import Part, Rows, Tasks
from experiments.knapsack.methods import METHODS, PAPERS, Method, Schedule
from experiments.knapsack.runs import Choice, grouped, key_of, run_row, shown
from experiments.knapsack.settings import Settings
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval

OFFSET = 100  # training seeds of their own
STEPS, TEMPERATURES = (1000, 3000, 10_000), (0.5, 1.0, 2.0)
EPOCHS, RATES = (40, 60, 100), (2.5e-3, 5e-3)
SCHEDULED = ("ours-3000", "ours-spo-3000", "mse", "spo-lp", "pfy-lp", "nid-lp", "nce-lp")


def variant(name: str, schedule: Schedule | None = None, **options: Any) -> tuple[str, Method]:
    method = METHODS[name]
    return name, replace(method, options={**method.options, **options}, schedule=schedule)


def variants() -> Iterator[tuple[str, Method]]:
    """First the options of a method under the protocol, then schedules, the same for every method."""
    for name in ("ours", "ours-spo"):
        for steps in STEPS:
            for t in TEMPERATURES:
                yield variant(name, steps=steps, temperature=t)
        yield variant(name, steps=3000, moves=PAPERS["moves"])
        yield variant(name, steps=3000, estimator="recycled")
    for t in TEMPERATURES:
        yield variant("ours-regret", temperature=t)
    for sigma in (0.3, 1.0, 3.0):
        yield variant("pfy-lp", sigma=sigma)
    for name in ("mse", "spo-lp", "nid-lp", "nce-lp"):
        yield variant(name)
    for name in SCHEDULED:
        for epochs, rate in product(EPOCHS, RATES):
            yield variant(name, Schedule(epochs, rate))
    for epochs, rate in ((100, 1e-2), (200, 2.5e-3), (200, 5e-3)):  # its best schedule was at the edge of the others
        yield variant("mse", Schedule(epochs, rate))


def tasks(bench: Bench, choice: Choice) -> Tasks:
    return {
        key_of(name, method, OFFSET + seed): partial(run_row, bench, name, method, OFFSET + seed, test=False)
        for seed in choice.seeds
        for name, method in variants()
        if name in choice.methods
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    out = table("Regret on validation at its best epoch, best first within each method", "method", "options", "seeds", "regret")
    out.add_column("best epoch", justify="right")
    out.add_column("train s/epoch", justify="right")
    found = grouped(rows, "method", "options")
    for (name, options), runs in sorted(
        found.items(), key=lambda g: (g[0][0], student_interval(r["best_validation"] for r in g[1])[0])
    ):
        spent, epoch = (student_interval(r[k] for r in runs)[0] for k in ("seconds_epoch", "best_epoch"))
        out.add_row(name, options, str(len(runs)), shown(r["best_validation"] for r in runs), f"{epoch:.0f}", seconds(spent))
    return [out]


def part(bench: Bench, choice: Choice) -> Part:
    return Part("tune", bench.settings, lambda _: tasks(bench, choice), tables, prepare=bench.label)
