"""What a benchmark prints and writes: rows of figures, the table of them, and how busy the machine was with other things."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.table import Table

import movegrad as mg


@dataclass(frozen=True)
class Row:
    """One line of the table: the median and the spread of one figure over all rounds."""

    name: str
    unit: str
    values: list[float]
    target: str = ""  # such as "≥ 10" or "0.9 – 1.1"
    others: float | None = None  # cores that other processes used meanwhile

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def reached(self) -> bool | None:
        """Whether the median is within the target; None if there is none."""
        if not self.target:
            return None
        if "–" in self.target:
            low, high = map(float, self.target.split("–"))
            return low <= self.median <= high
        sign, bound = self.target.split()
        return self.median >= float(bound) if sign == "≥" else self.median <= float(bound)


class OtherLoad:
    """Cores that other processes used since this was made: figures with several threads mean little if they were taken away."""

    def __init__(self) -> None:
        self._before = _clocks()

    def cores(self) -> float | None:
        """None where the system does not tell."""
        after = _clocks()
        if self._before is None or after is None:
            return None
        wall, own, busy = (b - a for a, b in zip(self._before, after, strict=True))
        return max(0.0, (busy - own) / wall)


def _clocks() -> tuple[float, float, float] | None:
    """Seconds on the wall, seconds of CPU of this process and its children, and of all processes."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system = (int(f) for f in fields[:3])
    return perf_counter(), sum(os.times()[:4]), (user + nice + system) / os.sysconf("SC_CLK_TCK")


def table(title: str, rows: Iterable[Row]) -> Table:
    """The rows for people."""
    out = Table(title=title)
    right = ("median", "min – max", "target", "others")
    for heading in ("what", "median", "min – max", "unit", "target", "reached", "others"):
        out.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    for r in rows:
        reached = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[r.reached]
        spread = f"{_number(min(r.values))} – {_number(max(r.values))}"
        out.add_row(r.name, _number(r.median), spread, r.unit, r.target, reached, "" if r.others is None else f"{r.others:.1f}")
    return out


def _number(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:#.3g}".rstrip(".")


def save(path: Path, rows: Iterable[Row], **about: object) -> None:
    """All figures, and what they were measured with, as JSON: the file is complete or as it was before."""
    versions = {name: version(name) for name in ("numpy", "numba", "jax", "torch")}
    system = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": mg.get_threads(),
        "python": platform.python_version(),
    }
    shown = [{**asdict(r), "median": r.median, "reached": r.reached} for r in rows]
    content = {"about": {**system, "movegrad": mg.__version__, **versions, **about}, "rows": shown}
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)
