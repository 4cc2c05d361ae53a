"""Who to use when: one table and one picture of all results in a folder, ``python -m experiments.arena.summary [FOLDER]``."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from experiments.arena.report import Entry, best, compared, entries, panels, title_of
from experiments.arena.study import NAMES, Settings
from experiments.display import markdown, save_figure
from experiments.framework import Rows, answered, rebuilt
from experiments.store import read_record
from experiments.verdicts import verdict

FOLDER = Path(__file__).parent / "results"
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
        return self.title if len(self.boards) == 1 else f"{self.title}, {len(self.boards)} data sets"

    @property
    def entries(self) -> list[Entry]:
        return entries(self.rows, *self.boards)


def kinds(folder: Path) -> list[Kind]:
    """What is in the files of a folder and of those in it, in the order of the parts; each may have some of a part's data sets."""
    found: dict[Any, Kind] = {}
    for path in files(folder):
        record = read_record(path)
        settings = rebuilt(Settings, record.settings)
        for board in settings.boards:
            if not entries(record.rows, board):
                continue
            title = title_of(record.rows, board)
            kind = found.setdefault((title, settings.times), Kind(title, settings.times, settings.seeds, [], {}))
            if board not in kind.boards:
                kind.boards.append(board)
            kind.rows.update({key: row for key, row in record.rows.items() if key.rsplit(" ", 1)[0] == board})
    return list(found.values())


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


def table(folder: Path) -> Table:
    """For each data set at its last time: ours and the strongest rival, both by validation, and who is ahead."""
    shown, count = Table(title="who to use when: test regret after training, both sides chosen on validation"), Counter[str]()
    for name in (
        "benchmark",
        "seconds",
        "ours",
        "strongest rival",
        "ours − rival, points",
        "verdict",
        "seconds to the rival's level",
    ):
        shown.add_column(name)
    for kind in kinds(folder):
        found = kind.entries
        for time in kind.times[-2:]:
            mine, rival = (best([e for e in found if e.ours == side], time) for side in (True, False))
            if mine is None:
                continue
            interval = None if rival is None else compared(mine, rival, time)
            word = ALONE if interval is None else verdict(interval)
            count[word] += time == kind.times[-1]
            difference = "–" if interval is None else str(interval.scaled(100.0))
            shown.add_row(kind.name, f"{time:g}", cell(mine, time), cell(rival, time), difference, word, speed(mine, rival, time))
    shown.caption = "at the last time: " + ", ".join(f"{word} {n}" for word, n in sorted(count.items()))
    return shown


def figure(folder: Path) -> Figure:
    """One panel for each kind of data sets."""
    return panels([(kind.name, kind.times, kind.entries) for kind in kinds(folder)])


def main(words: list[str] | None = None) -> None:
    words = sys.argv[1:] if words is None else words
    folder = Path(words[0]) if words else FOLDER
    with answered():
        if not files(folder):
            raise FileNotFoundError(f"{folder} holds no results of {', '.join(NAMES)}.")
        made = table(folder)
        Console(width=200).print(markdown(made), markup=False, highlight=False, soft_wrap=True)
        print(made.caption)
        drawn = figure(folder)
        save_figure(drawn, folder / "arena.png")
        plt.close(drawn)
        print(f"{folder / 'arena.png'}; medians of {max(kind.seeds for kind in kinds(folder))} seeds")


if __name__ == "__main__":
    main()
