"""Part 6, beyond the paper: swaps that look at θ, for several temperatures β of the look, against blind ones."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.convergence.measure import cost, exact_means, instances, log_grid, moments, replicates, total_variance
from experiments.display import draw_band, fit_log_axes, legend_below, number, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import mean_and_half_width
from movegrad.problems import TopK

CALL = 6
QUANTITIES = ("bias2", "variance", "mse")
VARIANTS: dict[str, dict[str, Any]] = {
    "blind": {},
    "guided, β = t": {"swaps": (), "guided": True, "beta": 1.0},
    "guided, β = 2t": {"swaps": (), "guided": True},
    "guided, β = 4t": {"swaps": (), "guided": True, "beta": 4.0},
    "blind + guided, β = 2t": {"guided": True},
}


@dataclass(frozen=True)
class Settings:
    """θ ~ scale·N(0, 1), t = 1; ``levels`` are errors to reach, in units of tr Cov(Y)."""

    d: int = 100
    k: int = 10
    scales: tuple[float, ...] = (1.0, 3.0, 10.0)
    variants: tuple[str, ...] = tuple(VARIANTS)
    steps: int = 20_000
    points: int = 14
    instances: int = 40
    replicates: int = 50
    levels: tuple[float, ...] = (1.0, 0.1, 0.01)
    timed_steps: int = 3000
    seed: int = 0


def curve(settings: Settings, variant: str, scale: float, seed: int) -> Row:
    """Bias², variance and error against K from a uniform start, and what it takes to reach each level."""
    problem = TopK(settings.d, k=settings.k, **VARIANTS[variant])
    theta = scale * instances(seed, settings.instances, settings.d)
    exact = exact_means(problem, theta)
    grid = log_grid(settings.steps, settings.points)
    found = [moments(replicates(problem, theta, settings.replicates, steps=K, seed=seed, call=CALL), exact) for K in grid]
    begin, each = cost(problem, theta, settings.timed_steps)
    unit = total_variance(exact).mean()
    row: Row = {"table": "curve", "variant": variant, "scale": scale, "variance_of_law": unit, "K": grid}
    for name in QUANTITIES:
        bands = [mean_and_half_width(getattr(m, name)) for m in found]
        row[name], row[f"{name}_half"] = [b[0] for b in bands], [b[1] for b in bands]
    for level in settings.levels:
        steps = steps_to_reach(grid, np.array(row["mse"]) / unit, level)
        row[f"steps_to_{level:g}"] = steps
        row[f"seconds_to_{level:g}"] = None if steps is None else begin + each * steps
    return {**row, "seconds_per_step": each, "seconds_to_begin": begin}


def steps_to_reach(grid: list[int], errors: np.ndarray, level: float) -> float | None:
    """Where the curve crosses a level from above for the last time, by a line in log-log; None where it does not."""
    above = np.flatnonzero(errors > level)
    if not len(above):
        return float(grid[0])
    n = int(above[-1])
    if n + 1 == len(grid):
        return None
    x, y = np.log(grid[n : n + 2]), np.log(errors[n : n + 2])
    return float(np.exp(x[0] + (np.log(level) - y[0]) / (y[1] - y[0]) * (x[1] - x[0])))


def tasks(settings: Settings) -> Tasks:
    return {
        f"scale={scale:g} | {variant}": partial(curve, settings, variant, scale, settings.seed)
        for scale in settings.scales
        for variant in settings.variants
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    out = table("Steps (and time on one thread) until the error is a multiple of tr Cov(Y)", "scale, swaps", "time of a step")
    for level in settings.levels:
        out.add_column(f"{level:g}", justify="right")
    out.add_column(f"bias² at {settings.steps}", justify="right")
    out.add_column("error", justify="right")
    for row in rows.values():
        cells = []
        for level in settings.levels:
            steps = row[f"steps_to_{level:g}"]
            cells.append(f"> {settings.steps}" if steps is None else f"{steps:.3g} ({seconds(row[f'seconds_to_{level:g}'])})")
        last = [number(row[name][-1], row[f"{name}_half"][-1]) for name in ("bias2", "mse")]
        out.add_row(f"{row['scale']:g}, {row['variant']}", seconds(row["seconds_per_step"]), *cells, *last)
    return [out]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    """For each scale: bias², variance and error against steps, and the error against time."""
    height = len(settings.scales)
    figure, panels = plt.subplots(height, 4, figsize=(12, 2.5 * height), layout="constrained", squeeze=False)
    for scale, line in zip(settings.scales, panels, strict=True):
        for row in (r for r in rows.values() if r["scale"] == scale):
            for name, axes in zip(QUANTITIES, line, strict=False):
                draw_band(axes, row["K"], row[name], row[f"{name}_half"], label=row["variant"])
            time = row["seconds_to_begin"] + row["seconds_per_step"] * np.array(row["K"])
            draw_band(line[3], time, row["mse"], row["mse_half"], label=row["variant"])
        for axes, name in zip(line, ("bias²", "variance", "mean squared error", "mean squared error"), strict=True):
            fit_log_axes(
                axes, xlabel="seconds on one thread" if axes is line[3] else "steps K", ylabel=name, title=f"θ ~ {scale:g}·N(0, 1)"
            )
    legend_below(figure, panels[0, 0])
    return {"guided": figure}


QUICK = Settings(steps=1000, points=10, instances=20, replicates=20, timed_steps=300)
PART = Part("guided", Settings(), tasks, tables, figures)
