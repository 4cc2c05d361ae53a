"""What studies share: a command line, results that survive a kill, confidence bands, figures."""

import argparse
import csv
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import movegrad as mg

Z95 = 1.959963984540054  # quantile of a 95 % interval


def arguments(description: str, folder: Path) -> argparse.Namespace:
    """The options of every study: --quick or --full, --seed, --out, --fresh, --only."""
    parser = argparse.ArgumentParser(description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="full", action="store_false", help="small sizes, under a minute (default)")
    size.add_argument("--full", dest="full", action="store_true", help="the paper's sizes")
    parser.set_defaults(full=False)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="folder of results (default: results/ or out/ beside the study)")
    parser.add_argument("--fresh", action="store_true", help="forget results of an earlier run instead of resuming it")
    parser.add_argument("--only", nargs="*", default=None, metavar="PART", help="run these parts of the study alone")
    options = parser.parse_args()
    if options.out is None:
        options.out = folder / ("results" if options.full else "out")
    return options


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


class Store:
    """Rows of a study by key, kept in one JSON file with the settings they belong to; other settings start anew."""

    def __init__(self, path: Path, settings: dict[str, Any], fresh: bool = False) -> None:
        self.path, self.settings = path, json.loads(json.dumps(settings))
        self.rows: dict[str, Any] = {}
        if path.exists() and not fresh:
            saved = json.loads(path.read_text(encoding="utf-8"))
            if saved["settings"] == self.settings:
                self.rows = saved["rows"]

    def get(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row of this key: computed, with the seconds it took, unless an earlier run did."""
        if key not in self.rows:
            begin = perf_counter()
            row = compute()
            self.rows[key] = {**row, "seconds": round(perf_counter() - begin, 3)}
            self.save()
        return self.rows[key]

    @property
    def seconds(self) -> float:
        """Time that all rows took."""
        return sum(row["seconds"] for row in self.rows.values())

    def save(self) -> None:
        content = {"settings": self.settings, "machine": machine(), "movegrad": mg.__version__, "rows": self.rows}
        write_atomically(self.path, json.dumps(content, indent=1))


def machine() -> str:
    """Processor and threads, for the record."""
    return f"{platform.machine()}, {mg.get_threads()} threads, Python {platform.python_version()}"


def progress_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns)


def mean_and_half_width(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the first axis and the half-width of its 95 % interval (normal approximation)."""
    samples = np.asarray(samples, float)
    return samples.mean(0), Z95 * samples.std(0, ddof=1) / np.sqrt(len(samples))


def draw_band(axes: Any, x: Any, mean: Any, half: Any, **style: Any) -> None:
    """A curve with its confidence band."""
    mean, half = np.asarray(mean), np.asarray(half)
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, np.maximum(mean - half, 1e-12), mean + half, color=line.get_color(), alpha=0.2, lw=0)


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=110)
    figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    plt.close(figure)


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    lines: list[str] = []

    class Lines:
        def write(self, text: str) -> None:
            lines.append(text)

    writer = csv.writer(Lines(), lineterminator="\n")
    writer.writerow(list(header))
    writer.writerows(rows)
    write_atomically(path, "".join(lines))
