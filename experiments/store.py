"""What studies keep on disk, by any number of processes: whole files, rows under a lock, errors that name the file.

Every file is written beside its place, under a name that no other process has, and then moved there: a reader sees the old one or
the new one, and a kill leaves the old one. What is read, changed and written again is locked meanwhile.
"""

import errno
import json
import os
import platform
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt


COMPUTE, FETCH = "delete it, and what it held is computed anew", "fetch it anew from where it came"


class Damaged(ValueError):
    """A file that does not hold what a study wrote there, or what came with its data."""

    def __init__(self, path: Path, reason: object, cure: str = COMPUTE) -> None:
        told = next(iter(str(reason).strip().splitlines()), "").rstrip(".:") or type(reason).__name__
        super().__init__(f"{path} is damaged ({told}): {cure}.")


@contextmanager
def understood(path: Path, cure: str = COMPUTE) -> Iterator[None]:
    """What cannot be made of the content of a file is the file's fault."""
    try:
        yield
    except Damaged:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise Damaged(path, error, cure) from error


# --- files ---------------------------------------------------------------------------------------------------------------


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only process, and the only thread, in such a block for this file; others wait.

    The lock is the operating system's, by the standard library: nothing to install, and a killed process leaves nothing locked. It
    is on a file beside it, which stays: ``path`` itself is replaced, and a lock on it would go with the old one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as file:
        _lock(file.fileno())
        yield


def _lock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return
    while True:
        try:
            return msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        except OSError as error:
            if error.errno != errno.EDEADLOCK:  # Windows gives up after ten seconds
                raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which becomes ``path`` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(part).chmod(0o644)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def write_json(path: Path, content: Any, indent: int | None = None) -> None:
    write_text(path, json.dumps(content, indent=indent))


def read_json(path: Path, *keys: str, cure: str = COMPUTE) -> Any:
    """What :func:`write_json` wrote, with these keys if any are given."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Damaged(path, error, cure) from error
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            raise Damaged(path, f"it has no {key!r}", cure)
    return content


def write_arrays(path: Path, arrays: dict[str, np.ndarray], compressed: bool = False) -> None:
    """An npz file."""
    with replacing(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)


def read_arrays(path: Path, *names: str, cure: str = COMPUTE) -> dict[str, np.ndarray]:
    """What :func:`write_arrays` wrote, with these names if any are given."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            content = {name: saved[name] for name in saved.files}
    except FileNotFoundError:
        raise
    except (ValueError, EOFError, OSError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise Damaged(path, error, cure) from error
    for name in names:
        if name not in content:
            raise Damaged(path, f"it has no {name!r}", cure)
    return content


# --- rows ----------------------------------------------------------------------------------------------------------------


class Store:
    """Rows of a study by key, kept in one JSON file with the settings they belong to; other settings start anew.

    Processes that run the same study may share the file: a row is added under a lock to those that are there by then.
    """

    def __init__(self, path: Path, settings: dict[str, Any], fresh: bool = False) -> None:
        self.path, self.settings = path, json.loads(json.dumps(settings))
        self.rows: dict[str, Any] = {}
        if fresh:
            with locked(path):
                path.unlink(missing_ok=True)
        self.refresh()

    def refresh(self) -> None:
        """Take over the rows on disk that belong to these settings; they come first, and where one is in both, disk is right."""
        saved = self._saved()
        self.rows = {**saved, **self.rows, **saved}

    def _saved(self) -> dict[str, Any]:
        try:
            content = read_json(self.path, "settings", "rows")
        except FileNotFoundError:
            return {}
        if not isinstance(content["rows"], dict) or not all(isinstance(row, dict) for row in content["rows"].values()):
            raise Damaged(self.path, "its rows are none")
        if content["settings"] == self.settings:
            return content["rows"]
        if self.rows:
            raise ValueError(f"{self.path} was given to other settings by another process: give one another folder (--out).")
        return {}

    def get(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row of this key: computed, with the seconds it took, unless an earlier run or another process did."""
        if key not in self.rows:
            self.refresh()
        if key not in self.rows:
            begin = perf_counter()
            row = compute()
            self.add(key, {**row, "seconds": round(perf_counter() - begin, 3)})
        return self.rows[key]

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Keep a row, unless another process was first."""
        with locked(self.path):
            self.refresh()
            self.rows.setdefault(key, row)
            write_json(self.path, {"settings": self.settings, **machine(), "rows": self.rows}, indent=1)

    @property
    def seconds(self) -> float:
        """Time that all rows took."""
        return sum(row["seconds"] for row in self.rows.values())


def machine() -> dict[str, str]:
    """Processor, threads and versions, for the record."""
    import movegrad as mg  # here, so that worker processes start without it

    described = f"{platform.machine()}, {mg.get_threads()} threads, Python {platform.python_version()}"
    return {"machine": described, "movegrad": mg.__version__}
