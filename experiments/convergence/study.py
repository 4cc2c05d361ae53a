"""What the parts of the study share: tasks that survive a kill, tables on the console, CSV files, axes."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from rich.console import Console
from rich.table import Table

from experiments.common import Row as Row
from experiments.common import flat as flat
from experiments.common import progress_bar, save_figure, tidied, write_csv
from experiments.common import seconds as seconds
from experiments.common import show as show
from experiments.common import table as table
from experiments.common import tidy as tidy
from experiments.store import Store, write_text

Rows = dict[str, Row]


class Part(NamedTuple):
    """A part of the study. Its settings are frozen dataclasses; a task computes one row and depends on nothing but these."""

    name: str
    quick: Any
    full: Any
    tasks: Callable[[Any, int], dict[str, Callable[[], Row]]]  # (settings, seed) → tasks by key
    tables: Callable[[Any, Rows], Iterable[Table]]
    figures: Callable[[Any, Rows], dict[str, Figure]]


def run_part(part: Part, settings: Any, seed: int, out: Path, fresh: bool = False, console: Console | None = None) -> Rows:
    """Compute what is missing, then write JSON, CSV, figures and the printed tables."""
    store = Store(out / f"{part.name}.json", {"seed": seed, **asdict(settings)}, fresh)
    tasks = part.tasks(settings, seed)
    with progress_bar() as bar:
        for key, task in bar.track(tasks.items(), description=part.name):
            store.get(key, partial(tidied, task))
    rows = {key: store.rows[key] for key in tasks}
    for name in dict.fromkeys(row["table"] for row in rows.values()):
        write_csv(out / f"{part.name}_{name}.csv", *flat([row for row in rows.values() if row["table"] == name]))
    for name, figure in part.figures(settings, rows).items():
        save_figure(figure, out, name)
    write_text(out / f"{part.name}.txt", show(part.tables(settings, rows), console or Console()))
    return rows


def number(value: float | None, half: float | None = None) -> str:
    """Three digits, with the half-width of its interval if given."""
    if value is None:
        return "–"
    return f"{value:.3g}" if half is None else f"{value:.3g} ±{half:.1g}"


def at(row: Row, column: str, x: str, value: float) -> Any:
    """Entry of a list where the list ``x`` has this value; None if it has not."""
    return row[column][row[x].index(value)] if value in row[x] else None


def fit_log_axes(axes: Any, **labels: str) -> None:
    """Logarithmic axes whose range is that of the curves, not of their bands."""
    ys = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
    ys = ys[np.isfinite(ys) & (ys > 0)]
    axes.set(xscale="log", yscale="log", **labels)
    if len(ys):
        low, high = max(ys.min(), ys.max() * 1e-6) / 1.5, ys.max() * 1.5
        axes.set_ylim(low, high)
        if high < 50 * low:  # too few powers of ten to read values from
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()  # halves the time to draw
    axes.grid(alpha=0.3)
