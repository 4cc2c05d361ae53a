"""Who to use when: one table and one picture of all results in a folder, ``python -m experiments.arena.summary [FOLDER]``."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from experiments.arena.assignment import COUNTS
from experiments.arena.methods import METHODS
from experiments.arena.report import NOTHING, Entry, best, compared, entries, panels, title_of
from experiments.arena.study import FULL, NAMES, RIVALS, WARM, Settings
from experiments.display import markdown, save_figure
from experiments.framework import Rows, answered, rebuilt
from experiments.store import read_record, understood
from experiments.verdicts import paired, verdict

FOLDER = Path(__file__).parent / "results"
USUAL = 10.0  # seconds: what is trained for longer says so in its name
ORDER = {board: place for place, board in enumerate(board for boards in FULL.values() for board in boards)}
ALONE = "alone"  # no rival has ended a step


class Kind(NamedTuple):
    """Data sets of one kind: those with the same title, times and seeds."""

    title: str
    times: tuple[float, ...]
    seeds: int
    boards: list[str]
    rows: Rows

    @property
    def name(self) -> str:
        sets = f", {len(self.boards)} data sets" if len(self.boards) > 1 else ""
        longer = f", {self.times[-1]:g} s" if self.times[-1] > USUAL else ""
        return f"{self.title}{sets}{longer}"

    @property
    def entries(self) -> list[Entry]:
        return entries(self.rows, *self.boards)


def kinds(folder: Path) -> list[Kind]:
    """What is in the files of a folder and of those in it, in the order of the parts; each may have some of a part's data sets.

    Kinds on which ours was not trained are left out: there is nothing to compare.
    """
    found: dict[Any, Kind] = {}
    for path in files(folder):
        record = read_record(path)
        with understood(path):
            settings = rebuilt(Settings, record.settings)
            there = [board for board in settings.boards if entries(record.rows, board)]
        for board in there:
            title = title_of(record.rows, board)
            alike = title, settings.times, settings.seeds
            kind = found.setdefault(alike, Kind(*alike, [], {}))
            if board not in kind.boards:
                kind.boards.append(board)
            kind.rows.update({key: row for key, row in record.rows.items() if key.rsplit(" ", 1)[0] == board})
    ours = [kind for kind in found.values() if any(entry.ours for entry in kind.entries)]
    return sorted(ours, key=lambda kind: ORDER.get(kind.boards[0], len(ORDER)))


def files(folder: Path) -> list[Path]:
    return [path for name in NAMES for path in (folder / f"{name}.json", *sorted(folder.glob(f"*/{name}.json"))) if path.exists()]


def cell(entry: Entry | None, time: float) -> str:
    return "–" if entry is None else f"{entry.title} {100 * entry.regrets(time).mean():.2f} %"


def speed(mine: Entry, rival: Entry | None, time: float) -> str:
    """Seconds of ours and of the rival to the validation regret that the rival has in the mean at this time, to a factor of 2."""
    if rival is None:
        return "–"
    level = rival.validated(time)
    return " against ".join("not reached" if s == np.inf else f"{s:.2g}" for s in (mine.reaches(level), rival.reaches(level)))


def judged(mine: Entry, rival: Entry | None, time: float) -> tuple[str, str]:
    """The difference with its interval, in points, and the verdict."""
    if rival is None:
        return "–", ALONE
    interval = compared(mine, rival, time)
    return str(interval.scaled(100.0)), verdict(interval)


COLUMNS = ("benchmark", "seconds", "ours", "strongest rival", "ours − rival, points", "verdict")
COLUMNS += ("strongest without our moves", "ours − this one, points", "verdict", "seconds to its level on validation")


def table(folder: Path) -> Table:
    """For each kind at its last time: ours, the strongest rival, and the strongest that is not made of moves; all by validation."""
    shown = Table(title="who to use when: test regret after training, all sides chosen on validation")
    counts = Counter[str](), Counter[str]()
    for name in COLUMNS:
        shown.add_column(name)
    for kind in kinds(folder):
        found, time = kind.entries, kind.times[-1]
        mine = best([e for e in found if e.ours], time)
        if mine is None:
            continue
        cells = [kind.name, f"{time:g}", cell(mine, time)]
        rivals = [e for e in found if not e.ours]
        for count, among in zip(counts, (rivals, [e for e in rivals if e.method not in WARM]), strict=True):
            rival = best(among, time)
            difference, word = judged(mine, rival, time)
            count[word] += 1
            cells += [cell(rival, time), difference, word]
        shown.add_row(*cells, speed(mine, rival, time))
    told = [", ".join(f"{word} {n}" for word, n in sorted(count.items())) for count in counts]
    shown.caption = f"against all: {told[0]}; against those without our moves: {told[1]}"
    return shown


def by_method(folder: Path, title: str, first: str, methods: Iterable[str], cell: Callable[[Kind, str], str]) -> Table:
    """A line for each of the methods that have a cell, a column for each kind."""
    shown, grouped = Table(title=title), kinds(folder)
    for name in (first, *(kind.name for kind in grouped)):
        shown.add_column(name)
    for method in methods:
        cells = [cell(kind, method) for kind in grouped]
        if any(cell != "–" for cell in cells):
            shown.add_row(METHODS[method].title, *cells)
    return shown


def matrix(folder: Path) -> Table:
    """Ours at the last time, as validation chooses it, less every rival, as validation prefers it, for all kinds."""
    title = "ours − each rival at the last time, points of regret, paired 95 % interval, and the verdict"
    return by_method(folder, title, "rival", RIVALS, duel)


def found_with(kind: Kind, method: str) -> tuple[list[Entry], int]:
    """All that was trained on the data sets of a kind that have a method, and how many these are."""
    there = [board for board in kind.boards if "missing" not in kind.rows.get(f"{board} {method}", {"missing": ""})]
    return (entries(kind.rows, *there) if there else []), len(there)


def duel(kind: Kind, method: str) -> str:
    """Ours less one rival on the data sets that the rival was trained on."""
    time, (found, count) = kind.times[-1], found_with(kind, method)
    mine, rival = best([e for e in found if e.ours], time), best([e for e in found if e.method == method], time)
    if mine is None or rival is None:
        return NOTHING if count and mine is not None else "–"
    some = [] if count == len(kind.boards) else [f"({count} of {len(kind.boards)})"]
    return " ".join([*judged(mine, rival, time), *some])


def sooner(folder: Path) -> Table:
    """Ours at every time less the strongest rival without our moves at the last time: what is reached in less time."""
    grouped = kinds(folder)
    times = sorted({time for kind in grouped for time in kind.times})
    shown = Table(title="ours after some seconds − the strongest rival without our moves after the last, points, and the verdict")
    for name in ("benchmark", "rival, seconds", *(f"ours, {time:g} s" for time in times)):
        shown.add_column(name)
    for kind in grouped:
        found, last = kind.entries, kind.times[-1]
        rival = best([e for e in found if not e.ours and e.method not in WARM], last)
        if rival is None:
            continue
        cells = {}
        for time in kind.times:
            mine = best([e for e in found if e.ours], time)
            if mine is not None:
                interval = paired(mine.regrets(time) - rival.regrets(last))
                cells[time] = f"{interval.scaled(100.0)} {verdict(interval)}"
        shown.add_row(kind.name, f"{rival.title}, {last:g}", *(cells.get(time, "–") for time in times))
    return shown


def earlier(folder: Path) -> Table:
    """Ours at each time less the strongest rival without our moves at the next one, about three times as late: mean and median.

    The median is over examples, of the mean over seeds.
    """
    grouped = kinds(folder)
    steps = sorted({pair for kind in grouped for pair in pairwise(kind.times)})
    shown = Table(title="ours − the strongest rival without our moves, which has more time; points, the verdict, and the median")
    for name in ("benchmark", *(f"ours {first:g} s, rival {second:g} s" for first, second in steps)):
        shown.add_column(name)
    for kind in grouped:
        shown.add_row(kind.name, *(handicapped(kind, *pair) if pair in pairwise(kind.times) else "–" for pair in steps))
    return shown


def handicapped(kind: Kind, first: float, second: float) -> str:
    """A cell of that table."""
    mine = best([e for e in kind.entries if e.ours], first)
    rival = best([e for e in kind.entries if not e.ours and e.method not in WARM], second)
    if mine is None or rival is None:
        return "–"
    differences = mine.regrets(first) - rival.regrets(second)
    interval, median = paired(differences), float(np.median(differences.mean(0)))
    return f"{interval.scaled(100.0)} {verdict(interval)}, {100.0 * median:.2f} ({METHODS[rival.method].title})"


def growth(folder: Path) -> Table:
    """How the work of an example grows with the problem: processor milliseconds of training on it, and regret at the last time."""
    shown = Table(title="as problems grow: processor milliseconds of training for one example; test regret at the last time")
    sizes = [kind for kind in kinds(folder) if kind.boards[0] in FULL["growth"]]
    sizes.sort(key=lambda kind: kind.boards[0].split("-")[0])  # those of a family beside each other, as they grow
    for name in ("method", *(kind.name for kind in sizes)):
        shown.add_column(name)
    for method in METHODS:
        cells = [grown(kind, method) for kind in sizes]
        if sum(cell != "–" for cell in cells) > 2:  # more than the two smallest
            shown.add_row(METHODS[method].title, *cells)
    return shown


def grown(kind: Kind, method: str) -> str:
    """A cell of the table of growth: what validation prefers of a method on the data sets that have it, or why it is not there."""
    time, examples = kind.times[-1], COUNTS[int(kind.boards[0].split("-")[1])][0]
    missing = [kind.rows.get(f"{board} {method}", {}).get("missing") for board in kind.boards]
    if any(missing):
        return missing[0]
    found, count = found_with(kind, method)
    chosen = best([entry for entry in found if entry.method == method], time)
    if chosen is None:
        return NOTHING if count else "–"
    work = 1000.0 * chosen.pace / examples
    return f"{few_digits(work)} ms; {100.0 * chosen.regrets(time).mean():.2f} %"


def work(folder: Path) -> Table:
    """What a pass over the data costs: seconds of an epoch of every method that has learned, as validation prefers it."""
    return by_method(folder, "processor seconds of an epoch, without preparation", "method", METHODS, epoch)


def epoch(kind: Kind, method: str) -> str:
    """A cell of the table of work."""
    chosen = best([entry for entry in found_with(kind, method)[0] if entry.method == method], kind.times[-1])
    return "–" if chosen is None else few_digits(chosen.pace)


def few_digits(value: float) -> str:
    return f"{value:{'.0f' if value >= 10.0 else '.2g'}}"


def others(folder: Path) -> list[Table]:
    """What stands below the table: ours against each rival, with as much time and less; work, and growth where sizes are larger."""
    made = [matrix(folder), sooner(folder), earlier(folder), work(folder), growth(folder)]
    return [table for table in made if table.row_count]


def figure(folder: Path) -> Figure:
    """One panel for each kind of data sets, with two lines of ours."""
    return panels([(kind.name, kind.times, kind.entries) for kind in kinds(folder)], brief=True)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.arena.summary", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help="of results, those in its folders included")
    folder = parser.parse_args(words).folder
    with answered():
        if not any(kind.entries for kind in kinds(folder)):
            raise FileNotFoundError(f"{folder} holds no results of {', '.join(NAMES)}.")
        made, console = table(folder), Console(width=200)
        console.print(markdown(made), markup=False, highlight=False, soft_wrap=True)
        print(made.caption)
        for other in others(folder):
            console.print(markdown(other), markup=False, highlight=False, soft_wrap=True)
        drawn = figure(folder)
        save_figure(drawn, folder / "arena.png")
        plt.close(drawn)
        print(f"{folder / 'arena.png'}; medians of {max(kind.seeds for kind in kinds(folder))} seeds")


if __name__ == "__main__":
    main()
