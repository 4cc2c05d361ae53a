"""What the parts share: which runs are wanted, a run as a row, runs that differ in the seed alone."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from experiments.framework import Row, Rows
from experiments.knapsack.methods import METHODS, Method
from experiments.knapsack.train import Bench, train
from experiments.statistics import student_interval


@dataclass(frozen=True)
class Choice:
    """What to run now; it decides which rows are computed, not what is in them."""

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    limits: tuple[float, ...] = ()  # milliseconds, of the sweep; all if empty


def run_row(bench: Bench, name: str, method: Method, seed: int, test: bool = True, **more: Any) -> Row:
    """A training run as a row."""
    where = {"table": "runs", "method": name, "options": method.key, "seed": seed, **more}
    return {**where, **train(bench, method, seed, test)}


def key_of(name: str, method: Method, seed: int) -> str:
    return f"{name} | {method.key} | seed {seed}"


def grouped(rows: Rows, *by: str) -> dict[tuple, list[Row]]:
    """Training runs that differ in nothing but the seed."""
    out: dict[tuple, list[Row]] = {}
    for row in rows.values():
        if row["table"] == "runs":
            out.setdefault(tuple(row[k] for k in by), []).append(row)
    return out


def shown(values: Iterable[float], digits: int = 3) -> str:
    """Mean ± half-width."""
    mean, half = student_interval(values)
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ±{half:.{digits}f}")


def unknown_methods(names: Iterable[str]) -> None:
    for name in names:
        if name not in METHODS:
            raise SystemExit(f"--methods must name methods among {', '.join(METHODS)}, got {name!r}.")
