"""``progress=True``: a bar on stderr, one line that is written over."""

import sys
from time import perf_counter
from typing import Any

_WIDTH, _EVERY = 40, 0.1  # characters, seconds


class Bar:
    """Called with the fraction done, by any thread; the line ends at 1."""

    def __init__(self) -> None:
        self._since, self._shown, self._most = perf_counter(), 0.0, 0.0

    def __call__(self, fraction: float) -> None:
        now, self._most = perf_counter(), max(self._most, fraction)
        if now - self._shown < _EVERY and fraction < 1.0:
            return
        self._shown, done = now, round(_WIDTH * self._most)
        seconds = now - self._since
        left = f", {seconds / self._most - seconds:.0f} s left" if 0.0 < self._most < 1.0 else " "
        bar = "━" * done + "╌" * (_WIDTH - done)
        end = "\n" if self._most >= 1.0 else ""
        print(f"\r{bar} {self._most:4.0%}, {seconds:.1f} s{left}   ", end=end, file=sys.stderr, flush=True)


def reporter(progress: Any) -> Any:
    """A bar for True, nothing for False, and else what was given."""
    return Bar() if progress is True else None if progress is False else progress
