"""What all parts of the study are given: sizes, seed, folder and a progress bar."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from rich.table import Table

from experiments.common import progress_bar
from experiments.recovery.sizes import Sizes


class Task:
    """A line of the progress bar; rows of an earlier run finish at once."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self.progress, self.done = progress, 0
        self.id = progress.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        self.progress.advance(self.id, n)

    def finish(self, n: int) -> None:
        """The next n units are done, whether or not they were reported one by one."""
        self.done += n
        self.progress.update(self.id, completed=self.done)


@dataclass
class Study:
    """A run of the study."""

    sizes: Sizes
    seed: int
    out: Path
    fresh: bool = False
    progress: Progress = field(default_factory=progress_bar)

    def task(self, name: str, total: int) -> Task:
        """A new line of the progress bar."""
        return Task(self.progress, name, total)

    def show(self, table: Table, seconds: float) -> None:
        """Print a table above the progress bar."""
        table.caption = f"{seconds:.0f} s"
        self.progress.console.print(table)


def rounded(values: Any, digits: int = 5) -> Any:
    """Numbers with some significant digits, nested as given: files stay small."""
    if np.ndim(values) == 0:
        return float(f"{values:.{digits}g}")
    return [rounded(v, digits) for v in values]
