"""What the parts of the study share: rows that survive a kill, tables, intervals over seeds."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from experiments.common import (
    Row,
    flat,
    progress_bar,
    save_figure,
    show,
    student_interval,
    tidied,
    write_csv,
)
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.train import Bench, train
from experiments.store import Store, write_text

Rows = dict[str, Row]


@dataclass(frozen=True)
class Choice:
    """What to run now; it decides which rows are computed, not what is in them."""

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    limits: tuple[float, ...] = ()  # milliseconds, of the sweep; all if empty


class Part(NamedTuple):
    """A part of the study; a task computes one row. Tables and figures show all rows that there are."""

    name: str
    tasks: Callable[[Bench, Choice], dict[str, Callable[[], Row]]]
    tables: Callable[[Rows], Iterable[Table]]
    figures: Callable[[Rows], dict[str, Figure]]


def run_part(part: Part, bench: Bench, choice: Choice, out: Path, fresh: bool = False, console: Console | None = None) -> Rows:
    """Compute what is missing, then write JSON, CSV, figures and the printed tables."""
    settings = {"data": asdict(bench.size.data), "training": asdict(bench.size.training), "mip_limit": bench.mip_limit}
    store = Store(out / f"{part.name}.json", settings, fresh)
    tasks = part.tasks(bench, choice)
    if any(key not in store.rows for key in tasks):
        _ = bench.instances  # labels have a progress bar of their own
    with progress_bar() as bar:
        for key, task in bar.track(tasks.items(), description=part.name):
            store.get(key, partial(tidied, task))
    store.refresh()
    for name in dict.fromkeys(row["table"] for row in store.rows.values()):
        rows = [row for row in store.rows.values() if row["table"] == name]
        write_csv(out / f"{part.name}_{name}.csv", *scalars(rows))
        if "test" in rows[0]:
            write_csv(out / f"{part.name}_{name}_epochs.csv", *flat(rows))
    for name, figure in part.figures(store.rows).items():
        save_figure(figure, out, name)
    write_text(out / f"{part.name}.txt", show(part.tables(store.rows), console or Console()))
    return store.rows


def scalars(rows: list[Row]) -> tuple[list[str], list[list[Any]]]:
    """Header and one line for each row, without what is listed by epoch."""
    header = [k for k, v in rows[0].items() if not isinstance(v, list) and k not in ("table", "seconds")]
    return header, [[row.get(k) for k in header] for row in rows]


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


def unknown_methods(names: Iterable[str]) -> None:
    for name in names:
        if name not in METHODS:
            raise SystemExit(f"--methods must name methods among {', '.join(METHODS)}, got {name!r}.")
