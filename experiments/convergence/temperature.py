"""Part 2: which final temperature makes E[Y] easy to estimate, at small and at large scale?"""

from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.convergence.measure import (
    LARGE,
    SINGLE,
    SMALL,
    exact_means,
    instances,
    log_grid,
    problem_named,
    ratio_interval,
    squared_errors,
    total_variance,
    uniform_mean,
)
from experiments.display import at, draw_band, fit_log_axes, legend_below, number, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import mean_and_half_width

CALL = 2
MEASURES = {"error": "squared error", "by_variance": "error / tr Cov(Y)", "by_distance": "error / ‖E[Y] − E[start]‖²"}


@dataclass(frozen=True)
class Scale:
    """Problems, the length K of their chains, and the number of instances."""

    name: str
    problems: tuple[str, ...]
    steps: int
    instances: int


@dataclass(frozen=True)
class Settings:
    """The first two scales are the paper's; the others ask whether it is the size, the budget or the move that matters."""

    scales: tuple[Scale, ...] = (
        Scale("small", SMALL, 3000, 1000),
        Scale("large", LARGE, 3000, 1000),
        Scale("large, long chains", LARGE, 1_000_000, 20),
        Scale("large, single moves", SINGLE, 1_000_000, 20),
    )
    temperatures: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    points: int = 20
    compare: tuple[int, ...] = (30, 300, 3000)  # on the grid of T of all curves
    seed: int = 0


def curve(settings: Settings, scale: Scale, label: str, t: float, seed: int) -> Row:
    """Error against T, also divided by tr Cov(Y) (what one draw from π has) and by ‖E[Y] − E[start]‖² (how far it is to go)."""
    problem = problem_named(label)
    theta = instances(seed, scale.instances, problem.size)
    exact = exact_means(problem, theta, t)
    variance, distance = total_variance(exact), ((exact - uniform_mean(problem)) ** 2).sum(-1)
    grid = sorted({*log_grid(scale.steps, settings.points), *(k for k in settings.compare if k <= scale.steps)})
    errors = [squared_errors(problem, theta, exact, k, temperature=t, seed=seed, call=CALL) for k in grid]
    last = mg.sample(problem, theta[:20], steps=min(scale.steps, 3000), temperature=t, trace=0, seed=seed, call=CALL).info
    mean, half = mean_and_half_width(np.stack(errors, axis=1))
    relative = {
        name: np.transpose([ratio_interval(e, unit) for e in errors])
        for name, unit in (("by_variance", variance), ("by_distance", distance))
    }
    scalars = {"variance": variance.mean(), "distance": distance.mean(), "acceptance": last.acceptance[0]}
    lists = {"T": grid, "error": mean, "error_half": half}
    for name, (ratio, ratio_half) in relative.items():
        lists |= {name: ratio, f"{name}_half": ratio_half}
    return {"table": "curve", "scale": scale.name, "problem": label, "temperature": t, **scalars, **lists}


def tasks(settings: Settings) -> Tasks:
    return {
        f"{scale.name} | {label} | t={t}": partial(curve, settings, scale, label, t, settings.seed)
        for scale in settings.scales
        for label in scale.problems
        for t in settings.temperatures
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    columns = [f"T = {k}" for k in settings.compare]
    absolute = table("Temperature: squared error", "scale", "problem", "t", *columns, "T = K", "tr Cov", "accepted")
    relative = table("Temperature: relative error at T = K", "scale", "problem", "t", "error / tr Cov", "error / distance²")
    for row in rows.values():
        name = (row["scale"], row["problem"], f"{row['temperature']:g}")
        errors = [number(at(row, "error", "T", k), at(row, "error_half", "T", k)) for k in settings.compare]
        last = [number(row[m][-1], row[f"{m}_half"][-1]) for m in MEASURES]
        absolute.add_row(*name, *errors, last[0], number(row["variance"]), f"{row['acceptance']:.1%}")
        relative.add_row(*name, *last[1:])
    return [absolute, relative]


def draw(settings: Settings, rows: Rows, scale: Scale) -> Figure:
    """Two panels for each problem: the error, and the error relative to tr Cov(Y)."""
    height, shown = len(scale.problems), ("error", "by_variance")
    figure, panels = plt.subplots(height, len(shown), figsize=(8, 2.8 * height), layout="constrained", squeeze=False)
    colors = plt.get_cmap("plasma")(np.linspace(0, 0.85, len(settings.temperatures)))
    for label, line in zip(scale.problems, panels, strict=True):
        for name, axes in zip(shown, line, strict=True):
            for t, color in zip(settings.temperatures, colors, strict=True):
                row = rows[f"{scale.name} | {label} | t={t}"]
                draw_band(axes, row["T"], row[name], row[f"{name}_half"], color=color, label=f"t = {t:g}")
            fit_log_axes(axes, xlabel="steps T", ylabel=MEASURES[name], title=label)
    legend_below(figure, panels[0, 0], 5)
    figure.suptitle(f"{scale.name}: {scale.instances} instances")
    return figure


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    names = {scale: scale.name.replace(",", "").replace(" ", "_") for scale in settings.scales}
    return {f"temperature_{name}": draw(settings, rows, scale) for scale, name in names.items()}


QUICK = Settings(
    (
        Scale("small", SMALL, 3000, 200),
        Scale("large", LARGE, 3000, 20),
        Scale("large, long chains", LARGE, 100_000, 4),
        Scale("large, single moves", SINGLE, 100_000, 4),
    ),
    points=10,
)
PART = Part("temperature", Settings(), tasks, tables, figures)
