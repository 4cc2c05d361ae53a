"""Part 3: are ten times more chains worth ten times more steps?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.convergence.measure import LARGE, SMALL, exact_means, instances, problem_named, ratio_interval, squared_errors
from experiments.display import at, draw_band, fit_log_axes, legend_below, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import mean_and_half_width
from experiments.verdicts import of_ratio

CALL = 3
FACTOR = 10


@dataclass(frozen=True)
class Case:
    """A problem with its number of instances and the length of its longest chains."""

    problem: str
    instances: int
    steps: int = 30_000


@dataclass(frozen=True)
class Settings:
    """The first two cases are the paper's. The grid of T is 1, 2, 3, 5, 10, 20, …: with T it holds 10·T."""

    cases: tuple[Case, ...] = (*(Case(p, 1000) for p in SMALL), *(Case(p, 100, 100_000) for p in LARGE))
    chains: tuple[int, ...] = (1, 10, 100)
    digits: tuple[int, ...] = (1, 2, 3, 5)
    budget: int = 300_000  # steps of all chains of an instance, at most
    compare: tuple[int, ...] = (3, 10, 30, 100, 300, 1000, 3000)
    seed: int = 0

    def grid(self, case: Case, chains: int) -> list[int]:
        last = min(case.steps, self.budget // chains)
        return [k for power in range(8) for k in (digit * 10**power for digit in self.digits) if k <= last]


Errors = Callable[[int, int], np.ndarray]  # (C, T) → (M,)


def errors_of(case: Case, seed: int) -> Errors:
    """Squared errors of the mean over T steps of C chains."""
    problem = problem_named(case.problem)

    @cache
    def setup() -> tuple[np.ndarray, np.ndarray]:
        theta = instances(seed, case.instances, problem.size)
        return theta, exact_means(problem, theta)

    @cache
    def errors(chains: int, steps: int) -> np.ndarray:
        # Other calls for other numbers of chains: errors that are compared come from different draws.
        return squared_errors(problem, *setup(), steps, chains=chains, seed=seed, call=CALL * 1000 + chains)

    return errors


def curve(settings: Settings, case: Case, errors: Errors, chains: int) -> Row:
    grid = settings.grid(case, chains)
    mean, half = mean_and_half_width(np.stack([errors(chains, k) for k in grid], axis=1))
    return {"table": "curve", "problem": case.problem, "chains": chains, "T": grid, "error": mean, "half": half}


def comparison(settings: Settings, case: Case, errors: Errors, chains: int) -> Row:
    """Error of 10·C chains of T steps over that of C chains of 10·T steps: 1 if chains are worth as much as steps."""
    longer = settings.grid(case, chains)
    grid = [k for k in settings.compare if FACTOR * k in longer]
    pairs = [ratio_interval(errors(FACTOR * chains, k), errors(chains, FACTOR * k)) for k in grid]
    where = {"table": "ratio", "problem": case.problem, "chains": chains}
    return {**where, "T": grid, "ratio": [r for r, _ in pairs], "half": [h for _, h in pairs]}


def tasks(settings: Settings) -> Tasks:
    out: dict[str, Callable[[], Row]] = {}
    for case in settings.cases:
        errors = errors_of(case, settings.seed)
        for chains in settings.chains:
            out[f"{case.problem} | C={chains}"] = partial(curve, settings, case, errors, chains)
        for chains in settings.chains:
            if FACTOR * chains in settings.chains:
                name = f"{case.problem} | C={FACTOR * chains} over C={chains}"
                out[name] = partial(comparison, settings, case, errors, chains)
    return out


def tables(settings: Settings, rows: Rows) -> list[Table]:
    ratios = [row for row in rows.values() if row["table"] == "ratio"]
    compared = [k for k in settings.compare if any(k in row["T"] for row in ratios)]
    out = table(
        "Error of 10·C chains of T steps over that of C chains of 10·T steps; the former are ahead, behind or undecided",
        "problem",
        "C",
    )
    for k in compared:
        out.add_column(f"T = {k}", justify="right")
    for row in ratios:
        cells = [of_ratio(at(row, "ratio", "T", k), at(row, "half", "T", k)) for k in compared]
        out.add_row(row["problem"], str(row["chains"]), *cells)
    return [out]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    height = (len(settings.cases) + 1) // 2
    figure, panels = plt.subplots(height, 2, figsize=(8.5, 3 * height), layout="constrained", squeeze=False)
    for case, axes in zip(settings.cases, panels.flat, strict=False):
        for row in rows.values():
            if row["table"] == "curve" and row["problem"] == case.problem:
                draw_band(axes, row["T"], row["error"], row["half"], label=f"C = {row['chains']}", marker=".")
        title = f"{case.problem}\n{case.instances} instances"
        fit_log_axes(axes, xlabel="steps T of each chain", ylabel="squared error", title=title)
    legend_below(figure, panels[0, 0])
    return {"chains": figure}


QUICK = Settings((*(Case(p, 50, 3000) for p in SMALL), *(Case(p, 5, 10_000) for p in LARGE)), budget=100_000)
PART = Part("chains", Settings(), tasks, tables, figures)
