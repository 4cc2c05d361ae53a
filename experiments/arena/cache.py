"""Labels are computed once: arrays in a file, written whole, under a lock, with a fingerprint of what they are labels of."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.store import FETCH, Damaged, locked, read_arrays, write_arrays

OF = "of"  # the fingerprint's name


def kept(path: Path, name: str, of: np.ndarray, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The array in the file, or what is computed and put there; labels of another ``of`` (the true θ) are computed anew."""
    mark = np.array(hashlib.sha256(np.ascontiguousarray(of).tobytes()).hexdigest())
    with locked(path):
        if path.exists():
            saved = read_arrays(path, name)
            if saved.get(OF) == mark:
                if len(saved[name]) > len(of):
                    raise Damaged(path, f"{len(saved[name])} labels of {len(of)} examples")
                return saved[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        found = compute()
        write_arrays(path, {name: found, OF: mark}, compressed=True)
        return found


def there(path: Path) -> Path:
    """A file of the data; an error that names it where it is missing."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: {FETCH}.")
    return path
