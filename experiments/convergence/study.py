"""What the parts of the study share: tasks that survive a kill, tables on the console, CSV files, axes."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from rich.console import Console
from rich.table import Table

from experiments.common import Store, progress_bar, save_figure, write_atomically, write_csv

Row = dict[str, Any]  # scalars, and lists that all have one length; "table" names the CSV file it belongs to
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
    write_atomically(out / f"{part.name}.txt", show(part.tables(settings, rows), console or Console()))
    return rows


def show(tables: Iterable[Table], console: Console) -> str:
    """Print tables; returns them as plain text."""
    text = StringIO()
    record = Console(file=text, width=160)
    for table in tables:
        console.print(table)
        record.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def tidied(task: Callable[[], Row]) -> Row:
    """What a task computes, as plain values."""
    return tidy(task())


def tidy(value: Any) -> Any:
    """NumPy values as plain ones, floats with six digits, NaN as None."""
    if isinstance(value, dict):
        return {key: tidy(v) for key, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [tidy(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def flat(rows: list[Row]) -> tuple[list[str], list[list[Any]]]:
    """Header and lines of a CSV file: scalars are repeated, lists run down; the time that a row took is left out."""
    header = [key for key in rows[0] if key not in ("table", "seconds")]
    lines = []
    for row in rows:
        length = max((len(v) for v in row.values() if isinstance(v, list)), default=1)
        columns = [row[key] if isinstance(row[key], list) else [row[key]] * length for key in header]
        lines += [list(line) for line in zip(*columns, strict=True)]
    return header, lines


def table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    out = Table(title=title, title_justify="left")
    for n, column in enumerate(columns):
        out.add_column(column, justify="right" if n else "left")
    return out


def number(value: float | None, half: float | None = None) -> str:
    """Three digits, with the half-width of its interval if given."""
    if value is None:
        return "–"
    return f"{value:.3g}" if half is None else f"{value:.3g} ±{half:.1g}"


def seconds(value: float | None) -> str:
    """A time in its natural unit."""
    if value is None:
        return "–"
    unit, name = next((u, n) for u, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")) if value >= u or n == "ns")
    return f"{value / unit:.3g} {name}"


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
