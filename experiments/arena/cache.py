"""Labels are computed once: arrays in a file, written whole, under a lock."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.store import locked, read_arrays, write_arrays


def kept(path: Path, compute: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What is in the file, or what is computed and put there."""
    with locked(path):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(path, compute(), compressed=True)
        return read_arrays(path)
