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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from experiments.version import UNKNOWN

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


def write_rows(path: Path, content: dict[str, Any]) -> None:
    """JSON with a line for each row: one can see what changed, and long rows do not fill pages."""
    dumps = partial(json.dumps, ensure_ascii=False)
    head = dumps({key: value for key, value in content.items() if key != "rows"}, indent=1)
    lines = [f"  {dumps(key)}: {dumps(row)}" for key, row in content["rows"].items()]
    write_text(path, head.removesuffix("\n}") + ',\n "rows": {\n' + ",\n".join(lines) + "\n }\n}\n")


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

Row = dict[str, Any]  # values that JSON has
Rows = dict[str, Row]


class OtherVersion(ValueError):
    """Rows that other code or other settings made: a run that adds to them would mix the two."""


class Record(NamedTuple):
    """What a file of rows holds."""

    settings: dict[str, Any]
    code: str
    machine: str
    rows: Rows


def read_record(path: Path) -> Record:
    content = read_json(path, "settings", "rows")
    if not isinstance(content["rows"], dict) or not all(isinstance(row, dict) for row in content["rows"].values()):
        raise Damaged(path, "its rows are none")
    if not isinstance(content["settings"], dict):
        raise Damaged(path, "its settings are none")
    return Record(content["settings"], content.get("code", UNKNOWN), content.get("machine", "unknown machine"), content["rows"])


class Store:
    """Rows of a part by key, kept in one JSON file with the settings and the code they belong to.

    Rows that other settings or other code made are refused. Processes that run the same study may share the file: a row is added
    under a lock to those that are there by then. ``order``: of the keys in the file, whoever is first to compute them.
    """

    def __init__(self, path: Path, settings: dict[str, Any], code: str, fresh: bool = False, order: Iterable[str] = ()) -> None:
        self.path, self.settings, self.code = path, json.loads(json.dumps(settings)), code
        self.place = {key: n for n, key in enumerate(order)}
        self.rows: Rows = {}
        if fresh:
            with locked(path):
                path.unlink(missing_ok=True)
        self.refresh()

    def refresh(self) -> None:
        """Take over the rows on disk that belong to these settings; they come first, and where one is in both, disk is right."""
        saved = self._saved()
        self.rows = self._ordered({**saved, **self.rows, **saved})

    def _ordered(self, rows: Rows) -> Rows:
        return dict(sorted(rows.items(), key=lambda item: self.place.get(item[0], -1)))

    def _saved(self) -> Rows:
        try:
            saved = read_record(self.path)
        except FileNotFoundError:
            return {}
        cure = "--fresh forgets them, --out FOLDER keeps them apart, --report shows them as they are"
        if saved.settings != self.settings and saved.rows:
            names = ", ".join(name for name, value in self.settings.items() if saved.settings.get(name) != value)
            raise OtherVersion(f"{self.path} has rows of other settings ({names or 'fewer of them'}): {cure}.")
        if saved.code != self.code and saved.rows:
            raise OtherVersion(f"{self.path} has rows of other code ({saved.code}; this is {self.code}): {cure}.")
        return saved.rows

    def get(self, key: str, compute: Callable[[], Row]) -> Row:
        """The row of this key: computed, with the seconds it took, unless an earlier run or another process did."""
        if key not in self.rows:
            self.refresh()
        if key not in self.rows:
            begin = perf_counter()
            row = compute()
            self.add(key, {**row, "seconds": row.get("seconds", round(perf_counter() - begin, 3))})
        return self.rows[key]

    def add(self, key: str, row: Row) -> None:
        """Keep a row, unless another process was first."""
        with locked(self.path):
            self.refresh()
            self.rows = self._ordered(self.rows if key in self.rows else {**self.rows, key: row})
            write_rows(self.path, {"settings": self.settings, **machine(), "code": self.code, "rows": self.rows})


def machine() -> dict[str, str]:
    """Processor, threads and versions, for the record."""
    import movegrad as mg  # here, so that worker processes start without it

    described = f"{platform.machine()}, {mg.get_threads()} threads, Python {platform.python_version()}"
    return {"machine": described, "movegrad": mg.__version__}
