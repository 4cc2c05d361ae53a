"""What studies share: a command line, confidence bands, figures, tables; what they keep on disk is in :mod:`experiments.store`."""

import argparse
import csv
import math
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from experiments.store import replacing, write_text

Z95 = 1.959963984540054  # quantile of a 95 % interval
Row = dict[str, Any]  # scalars, and lists that all have one length; "table" names the CSV file it belongs to


def arguments(
    description: str, folder: Path, more: Callable[[argparse.ArgumentParser], object] | None = None
) -> argparse.Namespace:
    """The options of every study: --quick or --full, --seed, --out, --fresh, --only; ``more`` adds those of one study."""
    parser = argparse.ArgumentParser(description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="full", action="store_false", help="small sizes, under a minute (default)")
    size.add_argument("--full", dest="full", action="store_true", help="the paper's sizes")
    parser.set_defaults(full=False)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="folder of results (default: results/ or out/ beside the study)")
    parser.add_argument("--fresh", action="store_true", help="forget results of an earlier run instead of resuming it")
    parser.add_argument("--only", nargs="*", default=None, metavar="PART", help="run these parts of the study alone")
    if more:
        more(parser)
    options = parser.parse_args()
    if options.out is None:
        options.out = folder / ("results" if options.full else "out")
    return options


def progress_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns)


def mean_and_half_width(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the first axis and the half-width of its 95 % interval (normal approximation)."""
    samples = np.asarray(samples, float)
    return samples.mean(0), Z95 * samples.std(0, ddof=1) / np.sqrt(len(samples))


def student_interval(values: Iterable[float | None]) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval by Student's t, for few values; NaN for a single one."""
    from scipy.special import stdtrit

    array = np.array([math.nan if v is None else v for v in values], float)
    n = len(array)
    half = stdtrit(n - 1, 0.975) * array.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
    return float(array.mean()), float(half)


def draw_band(axes: Any, x: Any, mean: Any, half: Any, **style: Any) -> None:
    """A curve with its confidence band."""
    mean, half = np.asarray(mean), np.asarray(half)
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, np.maximum(mean - half, 1e-12), mean + half, color=line.get_color(), alpha=0.2, lw=0)


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """PNG and PDF."""
    with replacing(folder / f"{name}.png") as file:
        figure.savefig(file, format="png", dpi=110)
    with replacing(folder / f"{name}.pdf") as file:
        figure.savefig(file, format="pdf", metadata={"CreationDate": None})
    plt.close(figure)


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    lines: list[str] = []

    class Lines:
        def write(self, text: str) -> None:
            lines.append(text)

    writer = csv.writer(Lines(), lineterminator="\n")
    writer.writerow(list(header))
    writer.writerows(rows)
    write_text(path, "".join(lines))


# --- rows of values as CSV files and tables ------------------------------------------------------------------------------


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


def show(tables: Iterable[Table], console: Console) -> str:
    """Print tables; returns them as plain text."""
    text = StringIO()
    record = Console(file=text, width=160)
    for one in tables:
        console.print(one)
        record.print(one)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def seconds(value: float | None) -> str:
    """A time in its natural unit."""
    if value is None:
        return "–"
    unit, name = next((u, n) for u, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")) if value >= u or n == "ns")
    return f"{value / unit:.3g} {name}"
