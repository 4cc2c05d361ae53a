"""Static instances of the competition: reader and writer of its VRPLIB-like files, plain or .xz."""

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.store import replacing

SECTIONS = {
    "EDGE_WEIGHT_SECTION": "durations",
    "NODE_COORD_SECTION": "coordinates",
    "DEMAND_SECTION": "demands",
    "DEPOT_SECTION": "depot",
    "SERVICE_TIME_SECTION": "service",
    "TIME_WINDOW_SECTION": "windows",
}
COLUMNS = {"coordinates": 3, "demands": 2, "service": 2, "windows": 3}  # the number of the node included


@dataclass(frozen=True, eq=False)
class Instance:
    """Depot 0 and customers 1..n; seconds everywhere. Durations need be neither symmetric nor metric."""

    name: str
    durations: np.ndarray  # (n+1, n+1)
    coordinates: np.ndarray  # (n+1, 2)
    demands: np.ndarray  # (n+1,)
    service: np.ndarray  # (n+1,)
    windows: np.ndarray  # (n+1, 2): first and last start of service; the depot's: start and end of the day
    capacity: int

    @property
    def customers(self) -> int:
        return len(self.demands) - 1


class UnreadableInstance(ValueError):
    """An instance file that does not hold what it should; names file, section and line."""


class _Lines:
    """Numbered lines of a file; errors know where they are."""

    def __init__(self, path: Path) -> None:
        self.path, self.section, self.number = path, "header", 0
        self.dimension = 0
        try:
            with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
                self.lines = file.read().splitlines()
        except (OSError, lzma.LZMAError, UnicodeDecodeError, EOFError) as error:
            raise UnreadableInstance(f"{path} cannot be read: {error}.") from error

    def __iter__(self) -> Iterator[list[str]]:
        for number, line in enumerate(self.lines, 1):
            self.number = number
            if line.strip():
                yield line.replace(":", " : ").split()

    def error(self, message: str) -> UnreadableInstance:
        return UnreadableInstance(f"{self.path}, {self.section}, line {self.number}: {message}.")

    def integers(self, words: list[str], count: int) -> list[int]:
        if len(words) != count:
            raise self.error(f"expected {count} integers, got {len(words)} words")
        try:
            values = [int(word) for word in words]
        except ValueError:
            wrong = next(word for word in words if not word.lstrip("-").isdigit())
            raise self.error(f"expected integers, got {wrong!r}") from None
        if min(values) < 0:
            raise self.error(f"expected integers ≥ 0, got {min(values)}")
        return values


def read(path: str | Path) -> Instance:
    """Read an instance; raises :class:`UnreadableInstance` with file, section and line."""
    lines = _Lines(Path(path))
    header: dict[str, str] = {}
    found: dict[str, list[list[int]]] = {}
    for words in lines:
        if words[0] == "EOF":
            break
        if words[0] in SECTIONS:
            _complete(lines, found)
            lines.section = words[0]
            if SECTIONS[lines.section] in found:
                raise lines.error("this section was there before")
            if not lines.dimension:
                raise lines.error("DIMENSION must come before the sections")
            found[SECTIONS[lines.section]] = []
        elif lines.section == "header":
            if len(words) < 3 or words[1] != ":":
                raise lines.error(f"expected NAME : VALUE or a section, got {' '.join(words)[:40]!r}")
            header[words[0]] = " ".join(words[2:])
            _check_header(lines, words[0], header[words[0]])
        else:
            _add(lines, found[SECTIONS[lines.section]], words)
    _complete(lines, found)
    lines.section = "end of file"
    for section, key in SECTIONS.items():
        if key not in found:
            raise lines.error(f"{section} is missing")
    if "CAPACITY" not in header:
        raise lines.error("CAPACITY is missing in the header")
    return _assembled(Path(path), header, found)


def _check_header(lines: _Lines, key: str, value: str) -> None:
    wanted = {"EDGE_WEIGHT_TYPE": "EXPLICIT", "EDGE_WEIGHT_FORMAT": "FULL_MATRIX"}
    if key in wanted and value != wanted[key]:
        raise lines.error(f"{key} must be {wanted[key]}, got {value!r}")
    least = {"DIMENSION": 2, "CAPACITY": 1}
    if key in least and lines.integers([value], 1)[0] < least[key]:
        raise lines.error(f"{key} must be ≥ {least[key]}, got {value}")
    if key == "DIMENSION":
        lines.dimension = int(value)


def _add(lines: _Lines, rows: list[list[int]], words: list[str]) -> None:
    """One line of the section that is being read."""
    key, dimension = SECTIONS[lines.section], lines.dimension
    if key == "depot":
        if words not in (["1"], ["-1"]):
            raise lines.error(f"the depot must be node 1, got {' '.join(words)!r}")
        rows.append([1])
        return
    if len(rows) == dimension:
        raise lines.error(f"more than {dimension} lines")
    values = lines.integers(words, dimension if key == "durations" else COLUMNS[key])
    if key == "durations":
        if values[len(rows)] != 0:
            raise lines.error(f"the duration from a node to itself must be 0, got {values[len(rows)]}")
    elif values.pop(0) != len(rows) + 1:
        raise lines.error(f"expected node {len(rows) + 1}, got {words[0]}")
    if key == "windows" and values[0] > values[1]:
        raise lines.error(f"a window must end after it starts, got {values[0]} to {values[1]}")
    rows.append(values)


def _complete(lines: _Lines, found: dict[str, list[list[int]]]) -> None:
    """The section that ends here has all its lines."""
    key = SECTIONS.get(lines.section)
    if key is not None and key != "depot" and len(found[key]) != lines.dimension:
        raise lines.error(f"the section ended after {len(found[key])} of {lines.dimension} lines")


def _assembled(path: Path, header: dict[str, str], found: dict[str, list[list[int]]]) -> Instance:
    arrays = {key: np.array(rows, np.int64) for key, rows in found.items()}
    name = header.get("NAME", path.name.split(".")[0])
    demands, service = arrays["demands"][:, 0], arrays["service"][:, 0]
    return Instance(name, arrays["durations"], arrays["coordinates"], demands, service, arrays["windows"], int(header["CAPACITY"]))


def write(instance: Instance, path: str | Path) -> None:
    """Write an instance so that :func:`read` gives it back; .xz by its name. Atomic."""
    path = Path(path)
    blocks = {
        "EDGE_WEIGHT_SECTION": instance.durations,
        "NODE_COORD_SECTION": _numbered(instance.coordinates),
        "DEMAND_SECTION": _numbered(instance.demands[:, None]),
        "DEPOT_SECTION": [[1], [-1]],
        "SERVICE_TIME_SECTION": _numbered(instance.service[:, None]),
        "TIME_WINDOW_SECTION": _numbered(instance.windows),
    }
    head = [
        f"NAME : {instance.name}", "COMMENT : movegrad", "TYPE : VRPTW", f"DIMENSION : {instance.customers + 1}",
        "EDGE_WEIGHT_TYPE : EXPLICIT", "EDGE_WEIGHT_FORMAT : FULL_MATRIX", f"CAPACITY : {instance.capacity}",
    ]  # fmt: skip
    for section, rows in blocks.items():
        head += [section, *("\t".join(str(int(v)) for v in row) for row in rows)]
    text = "\n".join([*head, "EOF", ""]).encode()
    with replacing(path) as file:
        file.write(lzma.compress(text) if path.suffix == ".xz" else text)


def _numbered(rows: np.ndarray) -> np.ndarray:
    return np.column_stack([np.arange(1, len(rows) + 1), rows])
