"""Who to use when: one table and one picture of all results in a folder, ``python -m experiments.arena.summary [FOLDER]``."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from experiments.arena.report import Entry, best, compared, entries, panels
from experiments.arena.study import NAMES, Settings
from experiments.display import markdown, save_figure
from experiments.framework import Rows, answered, rebuilt
from experiments.store import read_record
from experiments.verdicts import verdict

FOLDER = Path(__file__).parent / "results"
ALONE = "alone"  # no rival has ended a step


def results(folder: Path) -> Iterator[tuple[Settings, Rows]]:
    """What is in the files of a folder, in the order of the parts."""
    for name in NAMES:
        path = folder / f"{name}.json"
        if path.exists():
            record = read_record(path)
            yield rebuilt(Settings, record.settings), record.rows


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
    for settings, rows in results(folder):
        for board in settings.boards:
            found = entries(rows, board)
            if not found:
                continue
            for time in settings.times[-2:]:
                mine, rival = (best([e for e in found if e.ours == side], time) for side in (True, False))
                if mine is None:
                    continue
                interval = None if rival is None else compared(mine, rival, time)
                word = ALONE if interval is None else verdict(interval)
                count[word] += time == settings.times[-1]
                difference = "–" if interval is None else str(interval.scaled(100.0))
                title = next(row["title"] for key, row in rows.items() if key.rsplit(" ", 1)[0] == board)
                shown.add_row(title, f"{time:g}", cell(mine, time), cell(rival, time), difference, word, speed(mine, rival, time))
    shown.caption = "at the last time: " + ", ".join(f"{word} {n}" for word, n in sorted(count.items()))
    return shown


def figure(folder: Path) -> Figure:
    """One panel for each data set."""
    return panels(
        [(settings, rows, board) for settings, rows in results(folder) for board in settings.boards if entries(rows, board)]
    )


def main(words: list[str] | None = None) -> None:
    words = sys.argv[1:] if words is None else words
    folder = Path(words[0]) if words else FOLDER
    with answered():
        if not any((folder / f"{name}.json").exists() for name in NAMES):
            raise FileNotFoundError(f"{folder} holds no results of {', '.join(NAMES)}.")
        made = table(folder)
        Console(width=200).print(markdown(made), markup=False, highlight=False, soft_wrap=True)
        print(made.caption)
        drawn = figure(folder)
        save_figure(drawn, folder / "arena.png")
        plt.close(drawn)
        print(f"{folder / 'arena.png'}; medians of {max(s.seeds for s, _ in results(folder))} seeds")


if __name__ == "__main__":
    main()
