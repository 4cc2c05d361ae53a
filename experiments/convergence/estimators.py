"""Part 4, beyond the paper: the plain mean of the iterates against waste recycling."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.convergence.measure import (
    Moments,
    cost,
    exact_means,
    instances,
    moments,
    problem_named,
    ratio_interval,
    replicates,
    worst_start,
)
from experiments.display import at, draw_band, fit_log_axes, legend_below, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import mean_and_half_width
from experiments.verdicts import of_ratio

CALL = 4
ESTIMATORS = ("mean", "recycled")
NAMES = {"bias2": "bias²", "variance": "variance", "mse": "MSE"}
QUANTITIES = tuple(NAMES)


@dataclass(frozen=True)
class Case:
    problem: str
    temperature: float = 1.0


@dataclass(frozen=True)
class Settings:
    """Replicates of each instance start at one solution: drawn from π ("target"), or the worst one."""

    cases: tuple[Case, ...] = (
        Case("Hypercube(10)"),
        Case("TopK(10, k=3)"),
        Case("Hypercube(100)"),
        Case("TopK(100, k=10)"),
        Case("TopK(10, k=3)", 0.3),
    )
    starts: tuple[str, ...] = ("target", "worst")
    steps: tuple[int, ...] = (1, 3, 10, 30, 100, 1000)
    instances: int = 50
    replicates: int = 400
    timed_steps: int = 3000
    seed: int = 0


def compare(settings: Settings, case: Case, start: str, seed: int) -> Row:
    """Bias², variance and error of both estimators on the same chains, and the variance of the mean over that of recycling."""
    problem = problem_named(case.problem)
    theta, t = instances(seed, settings.instances, problem.size), case.temperature
    exact = exact_means(problem, theta, t)
    begin = mg.exact.sample(problem, theta, 1, t, seed)[0] if start == "target" else worst_start(problem, theta)
    options: dict[str, Any] = {"temperature": t, "seed": seed, "call": CALL}
    found: dict[str, list[Moments]] = {name: [] for name in ESTIMATORS}
    for steps in settings.steps:
        for name, kept in found.items():
            estimates = replicates(
                problem, theta, settings.replicates, steps=steps, start=begin, estimator=name, **options
            )  # fmt: skip
            kept.append(moments(estimates, exact))
    row: Row = {"table": "moments", "problem": case.problem, "temperature": t, "start": start, "K": list(settings.steps)}
    for name, kept in found.items():
        for quantity in QUANTITIES:
            bands = [mean_and_half_width(getattr(m, quantity)) for m in kept]
            row[f"{quantity}_{name}"], row[f"{quantity}_{name}_half"] = [b[0] for b in bands], [b[1] for b in bands]
    for quantity in ("variance", "mse"):
        ratios = [ratio_interval(getattr(p, quantity), getattr(r, quantity)) for p, r in zip(*found.values(), strict=True)]
        row[f"{quantity}_ratio"], row[f"{quantity}_ratio_half"] = [r[0] for r in ratios], [r[1] for r in ratios]
    for name in ESTIMATORS:
        row[f"seconds_per_step_{name}"] = cost(problem, theta, settings.timed_steps, estimator=name, **options)[1]
    return row


def tasks(settings: Settings) -> Tasks:
    return {
        f"{case.problem} | t={case.temperature} | {start}": partial(compare, settings, case, start, settings.seed)
        for case in settings.cases
        for start in settings.starts
    }


def title_of(row: Row) -> str:
    return f"{row['problem']}, t = {row['temperature']:g}, from {row['start']}"


def tables(settings: Settings, rows: Rows) -> list[Table]:
    steps = settings.steps
    out = table(
        "Variance of the plain mean over that of recycling, by K, which is ahead, behind or undecided; time of a step",
        "problem, t, start",
    )
    squares = table(
        "Mean squared error of the plain mean over that of recycling, by K, which is ahead, behind or undecided",
        "problem, t, start",
    )
    for K in steps:
        out.add_column(f"K = {K}", justify="right")
        squares.add_column(f"K = {K}", justify="right")
    out.add_column("plain / recycled", justify="right")
    for row in rows.values():
        times = " / ".join(seconds(row[f"seconds_per_step_{name}"]) for name in ESTIMATORS)
        out.add_row(
            title_of(row),
            *(of_ratio(at(row, "variance_ratio", "K", K), at(row, "variance_ratio_half", "K", K), "higher") for K in steps),
            times,
        )
        squares.add_row(
            title_of(row), *(of_ratio(at(row, "mse_ratio", "K", K), at(row, "mse_ratio_half", "K", K), "higher") for K in steps)
        )
    return [out, squares]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    return {"estimators": draw_moments(settings, rows), "estimators_ratio": draw_ratios(settings, rows)}


def draw_moments(settings: Settings, rows: Rows) -> Figure:
    """A panel for each case and start: full lines are the plain mean, dashed ones recycling."""
    height, width = len(settings.cases), len(settings.starts)
    figure, panels = plt.subplots(height, width, figsize=(4.2 * width, 2.4 * height), layout="constrained", squeeze=False)
    for row, axes in zip(rows.values(), panels.flat, strict=True):
        for quantity, color in zip(QUANTITIES, ("C0", "C1", "0.3"), strict=True):
            for name, style in zip(ESTIMATORS, ("-", "--"), strict=True):
                key, label = f"{quantity}_{name}", f"{NAMES[quantity]}, {name}"
                draw_band(axes, row["K"], row[key], row[f"{key}_half"], color=color, ls=style, marker=".", label=label)
        fit_log_axes(axes, xlabel="steps K", title=title_of(row))
    legend_below(figure, panels[0, 0], 2 * width)
    return figure


def draw_ratios(settings: Settings, rows: Rows) -> Figure:
    """A panel for each start: variance of the plain mean over that of recycling."""
    width = len(settings.starts)
    figure, panels = plt.subplots(1, width, figsize=(4.2 * width, 3), layout="constrained", squeeze=False, sharey=True)
    for start, axes in zip(settings.starts, panels.flat, strict=True):
        for row in (r for r in rows.values() if r["start"] == start):
            label = f"{row['problem']}, t = {row['temperature']:g}"
            draw_band(axes, row["K"], row["variance_ratio"], row["variance_ratio_half"], marker=".", label=label)
        axes.set(xscale="log", xlabel="steps K", ylabel="variance, plain / recycled", title=f"from {start}")
        axes.grid(alpha=0.3)
    legend_below(figure, panels[0, 0], 3)
    return figure


QUICK = Settings(instances=20, replicates=100, timed_steps=300)
PART = Part("estimators", Settings(), tasks, tables, figures)
