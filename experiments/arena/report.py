"""Tables and figures of a part: regrets at some times, verdicts by paired intervals, and regret against seconds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.arena.methods import METHODS
from experiments.arena.study import OURS, RIVALS, Settings
from experiments.framework import Rows
from experiments.verdicts import Interval, paired, verdict

DASHES = ("-", "--", (0, (8, 2)), "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (12, 3, 2, 3)), (0, (2, 2)))
DASHES += ((0, (6, 1, 2, 1)), (0, (3, 4)))  # of ours
COLORS = (  # of rivals, in their order: MSE grey, none red
    "#7f7f7f", "#ff7f0e", "#2ca02c", "#e8c11c", "#8a6d00", "#9467bd", "#8c564b", "#e377c2", "#1f77b4", "#98df8a", "#17becf",
    "#aec7e8", "#ffbb78", "#c5b0d5", "#c49c94", "#bcbd22", "#dbdb8d", "#9edae5", "#393b79", "#637939",
    "#843c39", "#7b4173",
)  # fmt: skip
HIGHEST, LOWEST = 5.0, 1.3  # the top of the regret axis in units of the best, at most and at least
TICKS = {1.8: (1.0, 1.1, 1.2, 1.3, 1.5), HIGHEST: (1.0, 1.5, 2.0, 3.0)}  # of it, by how high it is
NOTHING = "nothing yet"  # no step has ended at that time, or nothing has been learned
LEARNED = 0.9  # of the validation regret it began with: who has more has not learned


@dataclass(frozen=True, eq=False)
class Entry:
    """A method as it was trained, by the authors' settings or by its own tuning, on one data set or several of one kind."""

    method: str
    variant: str
    made: tuple[dict[str, Any], ...]

    @property
    def title(self) -> str:
        return f"{METHODS[self.method].title}, {self.variant}"

    @property
    def ours(self) -> bool:
        return self.method in OURS

    @property
    def epochs(self) -> float:
        return float(np.mean([made["epochs"] for made in self.made]))

    @property
    def prepared(self) -> float:
        return float(np.mean([made["prepared"] for made in self.made]))

    @property
    def pace(self) -> float:
        """Seconds of an epoch, without preparation."""
        ends = [
            (at[-1] - made["prepared"], epochs)
            for made in self.made
            for at, epochs in zip(made["seconds"], made["epochs"], strict=True)
        ]
        return float(sum(seconds for seconds, _ in ends) / sum(epochs for _, epochs in ends))

    def regrets(self, time: float) -> np.ndarray:
        """(seeds, examples), those of several data sets beside each other."""
        return np.concatenate([np.array(made["test"][f"{time:g}"]) for made in self.made], axis=1)

    def validated(self, time: float) -> float:
        """Mean over data sets and seeds of the best validation regret until then."""
        curves = [curve for made in self.made for curve in zip(made["seconds"], made["valid"], strict=True)]
        return float(
            np.mean([min(v for s, v in zip(at, valid, strict=True) if s <= time * 1.0001 or s == at[0]) for at, valid in curves])
        )

    def reaches(self, level: float) -> float:
        """Seconds to the first checkpoint where the mean of the best validation regret is at most this, or infinity."""
        times = sorted({t for made in self.made for at in made["seconds"] for t in at})
        return next((t for t in times if self.validated(t) <= level), np.inf)

    def began(self, time: float) -> bool:
        """Whether every seed has ended a step by then, and validation is better for it; else its models are those it began with."""
        if not all(first is not None and first <= time * 1.0001 for made in self.made for first in made["first"]):
            return False
        runs = [run for made in self.made for run in zip(made["first"], made["seconds"], made["valid"], strict=True)]
        if any(first <= seconds[0] for first, seconds, _ in runs):
            return True  # trained before the first checkpoint: what it began with is not known
        return self.validated(time) <= LEARNED * np.mean([valid[0] for _, _, valid in runs])


def entries(rows: Rows, *boards: str) -> list[Entry]:
    """All that was trained on these data sets; a method whose tuning chose the authors' settings is there once."""
    found = []
    for method in METHODS:
        there = [rows[key] for key in (f"{board} {method}" for board in boards) if key in rows]
        if len(there) < len(boards) or any("missing" in row for row in there):
            continue
        is_default = [row["chosen"] == METHODS[method].default.key for row in there]
        found.append(Entry(method, "default" if all(is_default) else "tuned", tuple(row["tuned"] for row in there)))
        defaults = [row["tuned"] if same else row.get("default") for row, same in zip(there, is_default, strict=True)]
        if not all(is_default) and None not in defaults:
            found.append(Entry(method, "default", tuple(defaults)))
    return found


def title_of(rows: Rows, board: str) -> str:
    return next(row["title"] for key, row in rows.items() if key.rsplit(" ", 1)[0] == board)


def best(found: Iterable[Entry], time: float) -> Entry | None:
    """The lowest validation regret at a time among those that have trained at all: the test chooses nobody."""
    able = [entry for entry in found if entry.began(time)]
    return min(able, key=lambda entry: entry.validated(time), default=None)


def compared(mine: Entry, theirs: Entry, time: float) -> Interval:
    return paired(mine.regrets(time) - theirs.regrets(time))


def tables(settings: Settings, rows: Rows) -> Iterator[Table]:
    """For each data set: everybody at all times; ours against the strongest rival; ours against everybody at the last time."""
    for board in settings.boards:
        found = entries(rows, board)
        if not found:
            continue
        title, last = title_of(rows, board), settings.times[-1]
        found.sort(key=lambda entry: entry.regrets(last).mean())
        yield levels(f"{title} ({board}): test regret in %, mean ± half of its 95 % interval", settings, found)
        yield duels(f"{title} ({board})", settings, found)
        yield against_all(f"{title} ({board})", settings, found)
        missing = absent(f"{title} ({board})", rows, board)
        if missing.row_count:
            yield missing


def levels(title: str, settings: Settings, found: list[Entry]) -> Table:
    table = Table(title=title)
    for name in ("method", *(f"{t:g} s" for t in settings.times), "epochs", "prepared, s"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for entry in found:
        cells = []
        for t in settings.times:
            level = paired(entry.regrets(t)).scaled(100.0)
            cells.append(str(level) if entry.began(t) else NOTHING)
        table.add_row(entry.title, *cells, f"{entry.epochs:.1f}", f"{entry.prepared:.2f}")
    return table


def duels(title: str, settings: Settings, found: list[Entry]) -> Table:
    """Ours, as a user gets it and as validation chooses it, against the rival that validation chooses."""
    ours, rivals = [e for e in found if e.ours], [e for e in found if not e.ours]
    table = Table(title=f"{title}: ours − rival in points of regret, paired 95 % interval; both chosen on validation")
    for name in ("time", "ours", "rival", "difference", "verdict"):
        table.add_column(name)
    default = next((e for e in ours if e.method == "ours" and e.variant == "default"), None)
    for t in settings.times:
        rival = best(rivals, t)
        for mine in dict.fromkeys((default, best(ours, t))):
            if mine is not None and rival is not None and mine.began(t):
                interval = compared(mine, rival, t)
                table.add_row(f"{t:g} s", mine.title, rival.title, str(interval.scaled(100.0)), verdict(interval))
    return table


def against_all(title: str, settings: Settings, found: list[Entry]) -> Table:
    """At the last time ours that validation chooses, against every rival that has trained, each as validation prefers it."""
    last, table = settings.times[-1], Table(title=f"{title}: ours − each rival at the last time, paired 95 % interval")
    for name in ("ours", "rival", "difference", "verdict"):
        table.add_column(name)
    mine = best([e for e in found if e.ours], last)
    for method in dict.fromkeys(e.method for e in found if not e.ours):
        rival = best([e for e in found if e.method == method], last)
        if mine is not None and rival is not None:
            interval = compared(mine, rival, last)
            table.add_row(mine.title, rival.title, str(interval.scaled(100.0)), verdict(interval))
    return table


def absent(title: str, rows: Rows, board: str) -> Table:
    """Methods that a data set cannot have, or that cannot end a step in time, and why."""
    table = Table(title=f"{title}: not there")
    table.add_column("method")
    table.add_column("why")
    for method in METHODS:
        row = rows.get(f"{board} {method}", {})
        if "missing" in row:
            table.add_row(METHODS[method].title, row["missing"])
    return table


def figures(name: str, settings: Settings, rows: Rows) -> dict[str, Figure]:
    """Regret against seconds, one panel for each data set."""
    found = {board: entries(rows, board) for board in settings.boards}
    shown = [(title_of(rows, board), settings.times, entered) for board, entered in found.items() if entered]
    return {name: panels(shown)} if shown else {}


CHOSEN, DEFAULT = "movegrad, as validation chooses", "movegrad, by default: labels alone"


def panels(shown: list[tuple[str, Sequence[float], list[Entry]]], columns: int = 4, brief: bool = False) -> Figure:
    """Medians of seeds, bands from the lowest to the highest; a method looks the same in all panels.

    ``brief``: of ours one line as validation chooses and one by default.
    """
    columns = min(columns, len(shown))
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(3.7 * columns + 0.8, 3.5 * lines + 1.2), squeeze=False, layout="constrained"
    )
    for axis in axes.ravel()[len(shown) :]:
        axis.set_axis_off()
    handles: dict[str, Any] = {}
    for axis, (title, marks, found) in zip(axes.ravel(), shown, strict=False):
        handles |= panel(axis, title, marks, (two_of_ours if brief else by_method)(found, marks[-1]))
    order = [CHOSEN, DEFAULT, *(METHODS[method].title for method in (*OURS, *RIVALS))]
    titles = sorted(handles, key=order.index)
    figure.legend(
        [handles[title] for title in titles], titles, loc="outside lower center", ncols=columns + 1, frameon=False, fontsize=8
    )
    return figure


def by_method(found: list[Entry], time: float) -> dict[str, Entry]:
    """Of each method what validation prefers, default or tuned, by title; the worst first, so that the best is drawn over it."""
    return {METHODS[entry.method].title: entry for entry in sorted(found, key=lambda e: -e.validated(time))}


def two_of_ours(found: list[Entry], time: float) -> dict[str, Entry]:
    """As :func:`by_method`, with ours as validation chooses, and by default."""
    chosen = best([entry for entry in found if entry.ours], time)
    default = next((entry for entry in found if entry.method == OURS[0] and entry.variant == "default"), None)
    ours = {DEFAULT: default, CHOSEN: chosen}
    rivals = by_method([entry for entry in found if not entry.ours], time)
    return rivals | {title: entry for title, entry in ours.items() if entry is not None}


def look(title: str, entry: Entry) -> dict[str, Any]:
    """Ours in red, told apart by dashes; rivals each in a color of their own."""
    if entry.ours:
        dashes = {CHOSEN: "-", DEFAULT: ":"}.get(title, DASHES[OURS.index(entry.method)])
        return {"color": "#d62728", "linewidth": 2.0, "linestyle": dashes, "marker": "o", "markersize": 4, "zorder": 3}
    return {"color": COLORS[RIVALS.index(entry.method)], "linewidth": 1.2, "marker": ".", "zorder": 2}


def panel(axis: Any, title: str, marks: Sequence[float], found: dict[str, Entry]) -> dict[str, Any]:
    """Lines by what the legend says; what is much worse than the best leaves the panel at the top."""
    lines, lowest, highest = {}, min(e.regrets(marks[-1]).mean() for e in found.values()) * 100.0, 1.0
    for name, entry in found.items():
        times = [t for t in marks if entry.began(t)]
        if times:
            values = np.array([entry.regrets(t).mean(1) for t in times]) * 100.0
            lines[name] = axis.plot(times, np.median(values, 1), **look(name, entry))[0]
            highest = max(highest, np.median(values, 1).max() / lowest)
            axis.fill_between(times, values.min(1), values.max(1), color=lines[name].get_color(), alpha=0.08, linewidth=0)
    top = min(HIGHEST, max(LOWEST, 1.05 * highest))
    factors = next(factors for limit, factors in TICKS.items() if top <= limit)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="processor seconds of training",
        ylabel="test regret, %",
        ylim=(0.93 * lowest, top * lowest),
    )
    axis.set_xticks(marks, [f"{t:g}" for t in marks])
    axis.set_yticks([lowest * f for f in factors], [f"{lowest * f:.2g}" for f in factors])
    axis.minorticks_off()
    axis.set_title(title, fontsize=10)
    return lines
