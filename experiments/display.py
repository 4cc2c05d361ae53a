"""Progress bars, tables and figures."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from experiments.store import Row, replacing


def progress_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns)


# --- tables --------------------------------------------------------------------------------------------------------------


def table(title: str, *columns: str, lines: Iterable[Iterable[str]] = ()) -> Table:
    """A table whose first column is text and whose others are numbers."""
    out = Table(title=title, title_justify="left")
    for n, column in enumerate(columns):
        out.add_column(column, justify="right" if n else "left")
    for line in lines:
        out.add_row(*line)
    return out


def markdown(shown: Table) -> str:
    """The same for a page."""
    lines = [[str(c.header) for c in shown.columns], ["---"] * len(shown.columns)]
    lines += zip(*([str(cell) for cell in column.cells] for column in shown.columns), strict=True)
    return f"**{shown.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


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


# --- figures -------------------------------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: Path) -> None:
    """As PNG."""
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110)


def draw_band(axes: Any, x: Any, mean: Any, half: Any, **style: Any) -> None:
    """A curve with its confidence band."""
    mean, half = np.asarray(mean), np.asarray(half)
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, np.maximum(mean - half, 1e-12), mean + half, color=line.get_color(), alpha=0.2, lw=0)


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


def legend_below(figure: Figure, axes: Any, columns: int = 4) -> None:
    """Names of the curves of these axes under the figure, where they cover nothing."""
    lines, names = axes.get_legend_handles_labels()
    if names:
        figure.legend(lines, names, loc="outside lower center", ncols=min(columns, len(names)), fontsize="small", frameon=False)
