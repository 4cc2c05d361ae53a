"""Part 6: trajectories of stochastic gradients on the square {0,1}², over the level sets of the expected risk."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.framework import Part, Row, Rows, Tasks
from experiments.recovery.learn import mix, risk
from experiments.recovery.sizes import Sizes
from experiments.statistics import mean_and_half_width, rounded
from movegrad.problems import Hypercube

TRUE, FIRST = np.array([0.5, 0.5]), np.array([-2.0, 1.5])
A, B = 2.0, 0.6  # γₙ = a·n^−b
Means = Callable[[np.ndarray, int], np.ndarray]  # Θ (R, d) and the number of the update → means of samples (R, d)


@dataclass(frozen=True)
class Settings:
    trajectories: int
    updates: int
    theta0: tuple[float, ...] = tuple(TRUE.tolist())
    first: tuple[float, ...] = tuple(FIRST.tolist())
    a: float = A
    b: float = B
    seed: int = 0


def part(sizes: Sizes, seed: int) -> Part:
    return Part("square", Settings(sizes.trajectories, sizes.square_updates, seed=seed), tasks, tables, figures)


def tasks(settings: Settings) -> Tasks:
    """Trajectories for K ∈ {1, 100} and for 1 and 100 exact samples; the first of each is drawn, all are measured."""
    sizes = settings.trajectories, settings.updates
    return {name: partial(measure, make, *sizes) for name, make in makers(settings.seed).items()}


def makers(seed: int) -> dict[str, Callable[[], Means]]:
    """How each kind of gradient estimates E_θ[Y]; persistent chains remember where they ended, so each run makes its own."""
    square = Hypercube(2)

    def chain(steps: int) -> Means:
        start = mg.start.Persistent()
        return lambda theta, n: mg.sample(square, theta, steps=steps, start=start, trace=0, seed=seed, call=n).mean

    def exact(samples: int) -> Means:
        return lambda theta, n: mg.exact.sample(square, theta, samples, seed=mix(seed, n)).mean(0)

    kinds = {f"chain, K = {k}": lambda k=k: chain(k) for k in (1, 100)}
    return kinds | {f"{s} exact sample{'s' * (s > 1)}": lambda s=s: exact(s) for s in (1, 100)}


def descend(means: Means, runs: int, updates: int) -> np.ndarray:
    """(updates + 1, runs, 2): θ̂ₙ₊₁ = θ̂ₙ + γₙ₊₁ (E_{θ₀}[Y] − mean of samples at θ̂ₙ), γₙ = a·n^−b."""
    observed = mg.exact.marginals(Hypercube(2), TRUE)
    path = [np.tile(FIRST, (runs, 1))]
    for n in range(updates):
        path.append(path[-1] + A * (n + 1.0) ** -B * (observed - means(path[-1], n)))
    return np.array(path)


def measure(make: Callable[[], Means], runs: int, updates: int) -> Row:
    paths = descend(make(), runs, updates)
    length = np.linalg.norm(np.diff(paths, axis=0), axis=-1).sum(0)
    distance, half = mean_and_half_width(((paths - TRUE) ** 2).sum(-1).T)
    return {
        "n": list(range(updates + 1)),
        "path": rounded(paths[:, 0], 4),
        "distance": rounded(distance, 4),
        "half": rounded(half, 4),
        "length": rounded(mean_and_half_width(length)),
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    straight = np.linalg.norm(FIRST - TRUE)
    table = Table(
        "gradient", f"length of the path (straight: {straight:.2f})", "‖θ̂ − θ₀‖² at the end", title="Trajectories on the square"
    )
    for name, row in rows.items():
        table.add_row(name, "{:.3g} ± {:.1g}".format(*row["length"]), f"{row['distance'][-1]:.3g} ± {row['half'][-1]:.1g}")
    return [table]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    square = Hypercube(2)
    paths = {name: np.array(row["path"]) for name, row in rows.items()}
    corners = np.concatenate([*paths.values(), [TRUE]])
    low, high = corners.min(0) - 0.3, corners.max(0) + 0.3
    x, y = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
    level = risk(square, np.stack([x, y], -1), mg.exact.marginals(square, TRUE), 1.0)
    figure, axes = plt.subplots(2, 2, figsize=(5.2, 5), sharex=True, sharey=True, layout="constrained")
    for color, (axis, (name, path)) in enumerate(zip(axes.flat, paths.items(), strict=True)):
        axis.contour(x, y, np.sqrt(level - level.min()), levels=10, colors="0.75", linewidths=0.6)
        axis.plot(*path.T, "-", color=f"C{color}", lw=0.9)
        axis.plot(*FIRST, "o", color="black", ms=4)
        axis.plot(*TRUE, "*", color="black", ms=9)
        axis.set_title(name, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("θ₁")
    for axis in axes[:, 0]:
        axis.set_ylabel("θ₂")
    return {"square": figure}
