"""Part 1: does it pay to leave out the first K₀ iterates?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.convergence.measure import (
    LARGE,
    SMALL,
    exact_means,
    instances,
    log_grid,
    problem_named,
    ratio_interval,
    squared_errors,
    worst_start,
)
from experiments.display import at, draw_band, fit_log_axes, legend_below, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import mean_and_half_width
from experiments.verdicts import of_ratio

CALL = 1  # part of the key of every chain: parts of the study share no draws
DECAY = 0.995


@dataclass(frozen=True)
class Condition:
    """Where and how chains burn in: "heated" is the paper's schedule, "steady" has t = 1 in every step."""

    name: str
    problems: tuple[str, ...]
    instances: int
    schedule: str = "heated"
    start: str = "random"
    chains: int = 1


def conditions(small: int, few: int, large: int, fewer: int) -> tuple[Condition, ...]:
    """The paper's, and five that favor burn-in: without heat, from a bad start, with many chains, at large scale."""
    return (
        Condition("paper", SMALL, small),
        Condition("small, steady, worst start", SMALL, small, "steady", "worst"),
        Condition("small, steady, 100 chains", SMALL, few, "steady", chains=100),
        Condition("large, heated", LARGE, large),
        Condition("large, steady, worst start", LARGE, large, "steady", "worst"),
        Condition("large, steady, 100 chains", LARGE, fewer, "steady", chains=100),
    )


@dataclass(frozen=True)
class Settings:
    """K = steps; curves have two grids of ``points`` values of T, and are compared at ``compare``."""

    conditions: tuple[Condition, ...] = conditions(1000, 100, 300, 20)
    steps: int = 3000
    burn_ins: tuple[int, ...] = (0, 30, 100, 300, 1000)
    points: int = 20
    compare: tuple[int, ...] = (100, 300, 1000, 3000)
    seed: int = 0


Errors = Callable[[int, int], np.ndarray]  # (K₀, T) → (M,)


def errors_of(condition: Condition, label: str, seed: int) -> Errors:
    """Squared errors of the mean of the iterates K₀ + 1 … T, with t_k = max(γᵏ/γ^K₀, 1) or t = 1."""
    problem = problem_named(label)

    @cache
    def setup() -> tuple[np.ndarray, np.ndarray, Any]:
        theta = instances(seed, condition.instances, problem.size)
        start = worst_start(problem, theta) if condition.start == "worst" else condition.start
        return theta, exact_means(problem, theta), start

    @cache
    def errors(burn_in: int, steps: int) -> np.ndarray:
        theta, exact, start = setup()
        heated = condition.schedule == "heated" and burn_in > 0
        schedule = mg.schedules.truncated_geometric(DECAY**-burn_in, DECAY, 1.0) if heated else None
        options = {"burn_in": burn_in, "schedule": schedule, "start": start, "chains": condition.chains}
        return squared_errors(problem, theta, exact, steps, **options, seed=seed, call=CALL)

    return errors


def curve(settings: Settings, condition: Condition, label: str, errors: Errors, burn_in: int) -> Row:
    """Mean error against T, where all steps count."""
    shared = [k for k in log_grid(settings.steps, settings.points) if k > burn_in]
    grid = sorted({*shared, *log_grid(settings.steps, settings.points, burn_in)})
    mean, half = mean_and_half_width(np.stack([errors(burn_in, k) for k in grid], axis=1))
    where = {"table": "curve", "condition": condition.name, "problem": label, "burn_in": burn_in}
    return {**where, "T": grid, "error": mean, "half": half}


def comparison(settings: Settings, condition: Condition, label: str, errors: Errors, burn_in: int) -> Row:
    """Error with burn-in over the error without, at the same T."""
    grid = [k for k in settings.compare if burn_in < k <= settings.steps]
    pairs = [ratio_interval(errors(burn_in, k), errors(0, k)) for k in grid]
    where = {"table": "ratio", "condition": condition.name, "problem": label, "burn_in": burn_in}
    return {**where, "T": grid, "ratio": [r for r, _ in pairs], "half": [h for _, h in pairs]}


def tasks(settings: Settings) -> Tasks:
    out: dict[str, Callable[[], Row]] = {}
    for condition in settings.conditions:
        for label in condition.problems:
            errors = errors_of(condition, label, settings.seed)
            for burn_in in settings.burn_ins:
                name = f"{condition.name} | {label} | K0={burn_in}"
                out[name] = partial(curve, settings, condition, label, errors, burn_in)
                if burn_in:
                    out[f"{name} | ratio"] = partial(comparison, settings, condition, label, errors, burn_in)
    return out


def tables(settings: Settings, rows: Rows) -> list[Table]:
    compared = [k for k in settings.compare if k <= settings.steps]
    out = table(
        "Burn-in: error over that of K₀ = 0 at the same T; burn-in is ahead, behind or undecided", "condition", "problem", "K₀"
    )
    for k in compared:
        out.add_column(f"T = {k}", justify="right")
    for row in rows.values():
        if row["table"] == "ratio":
            cells = [of_ratio(at(row, "ratio", "T", k), at(row, "half", "T", k)) for k in compared]
            out.add_row(row["condition"], row["problem"], str(row["burn_in"]), *cells)
    return [out]


def draw(settings: Settings, rows: Rows, chosen: tuple[Condition, ...]) -> Figure:
    """A panel for each condition and problem."""
    figure, panels = plt.subplots(len(chosen), 2, figsize=(8, 2.6 * len(chosen)), layout="constrained", squeeze=False)
    for condition, line in zip(chosen, panels, strict=True):
        for label, axes in zip(condition.problems, line, strict=True):
            for row in rows.values():
                if (row["table"], row["condition"], row["problem"]) == ("curve", condition.name, label):
                    draw_band(axes, row["T"], row["error"], row["half"], label=f"$K_0$ = {row['burn_in']}")
            fit_log_axes(axes, xlabel="steps T, burn-in included", ylabel="squared error", title=f"{label}\n{condition.name}")
            axes.title.set_size("small")
    legend_below(figure, panels[0, 0])
    return figure


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    paper, *others = settings.conditions
    out = {"burnin": draw(settings, rows, (paper,))}
    return {**out, "burnin_conditions": draw(settings, rows, tuple(others))} if others else out


QUICK = Settings(conditions(200, 10, 10, 2), points=10)
PART = Part("burnin", Settings(), tasks, tables, figures)
