"""Where days come from: the competition's folder, or generated instances. Both give the same things under the same names."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from experiments.dvrptw import synthetic
from experiments.dvrptw.environment import Environment
from experiments.dvrptw.instances import Instance, read
from experiments.store import FETCH, read_json, understood

FOLDER = "euro-neurips-2022"
ENDINGS = (".txt", ".txt.xz")
WHERE = "the instances are public: github.com/ortec/euro-neurips-vrp-2022-quickstart (CC BY-NC 4.0, © ORTEC)"


class Day(NamedTuple):
    """An instance and the seed of its arrivals."""

    instance: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.instance}/{self.seed}"

    @property
    def short(self) -> str:
        """For tables: the competition's instance names are long and differ in their third part."""
        parts = self.instance.split("-")
        return f"{parts[3] if len(parts) > 3 else self.instance}/{self.seed}"


class Published(NamedTuple):
    """The anticipative solution of a day: cost, and routes as (wave, request numbers)."""

    cost: int
    routes: list[tuple[int, list[int]]]


@dataclass(frozen=True)
class Source:
    """A folder of the competition's data, or None for generated instances; M = ``arrivals`` requests are drawn per wave."""

    folder: Path | None
    arrivals: int
    customers: int = 60  # of generated instances

    def instance(self, name: str) -> Instance:
        return synthetic.by_name(name) if self.folder is None else _read_cached(self.folder, name)

    def environment(self, day: Day) -> Environment:
        return Environment(self.instance(day.instance), day.seed, self.arrivals)

    def days(self, split: str, count: int | None = None) -> list[Day]:
        """The first days of "train", "validation" or "test"."""
        if self.folder is None:
            first = {"train": 0, "validation": 1000, "test": 2000}[split]
            return [Day(f"synthetic-n{self.customers}-s{first + i}", i) for i in range(10 if count is None else count)]
        path = self.folder / "splits.json"
        rows = read_json(path, split, cure=FETCH)[split]
        with understood(path, FETCH):
            days = [Day(row["instance"], int(row["seed"])) for row in rows]
        if count is not None and count > len(days):
            raise ValueError(f"{split} has {len(days)} days, got a request for {count}.")
        return days[:count]

    def published(self) -> dict[str, Published]:
        """Anticipative solutions that came with the data, by name of the day; they are for 50 arrivals per wave."""
        if self.folder is None or self.arrivals != 50:
            return {}
        path = self.folder / "anticipative_train_3600s.json"
        rows = read_json(path, cure=FETCH)
        with understood(path, FETCH):
            return {name: Published(row["cost"], [(e, list(r)) for e, r in row["routes"]]) for name, row in rows.items()}

    @property
    def label(self) -> str:
        return f"synthetic, {self.customers} customers" if self.folder is None else FOLDER


@lru_cache(maxsize=64)
def _read_cached(folder: Path, name: str) -> Instance:
    for place in (folder / "instances", folder):
        for ending in ENDINGS:
            if (place / (name + ending)).exists():
                return read(place / (name + ending))
    raise FileNotFoundError(f"no file {name}.txt or {name}.txt.xz in {folder / 'instances'}; {WHERE}.")


def names_in(folder: Path) -> list[str]:
    """The instances of a folder, or of the folder ``instances`` in it."""
    place = folder / "instances" if (folder / "instances").is_dir() else folder
    found = {path.name.removesuffix(ending) for ending in ENDINGS for path in place.glob(f"*{ending}")}
    if not found:
        raise FileNotFoundError(f"{place} holds no instance (*.txt, *.txt.xz); {WHERE}.")
    return sorted(found)


def find_folder(given: str | Path | None = None) -> Path | None:
    """The competition's folder: as given, from MOVEGRAD_DATA, or beside the checkout; None where there is none."""
    checkout = Path(__file__).resolve().parents[2]
    places: Sequence[Path] = (checkout.parent / "shared" / "data",)
    if given is None and os.environ.get("MOVEGRAD_DATA"):
        given = os.environ["MOVEGRAD_DATA"]
    if given is not None:
        places = (Path(given),)
    for place in places:
        for folder in (place, place / FOLDER):
            if (folder / "splits.json").exists():
                return folder.resolve()
    if given is not None:
        raise FileNotFoundError(f"{given} holds no splits.json (nor {FOLDER}/splits.json); {WHERE}.")
    return None
