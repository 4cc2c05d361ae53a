"""Part 7a: the convergence theorem in its own setting, a lazy chain on a small cube with γₙ = a·n^−b and growing Kₙ."""

from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.display import draw_band
from experiments.framework import Part, Row, Rows, Tasks
from experiments.recovery.exact_minimizers import minimizer
from experiments.recovery.learn import exact_means
from experiments.recovery.sizes import Sizes
from experiments.statistics import mean_and_half_width, rounded
from movegrad.problems import Hypercube

THETA0, T, N = np.array([0.5, -0.5, 0.25]), 1.0, 1000
RADIUS = np.sqrt(3.0)  # R_C = max ‖y‖


@dataclass(frozen=True)
class Schedule:
    """γₙ = a·n^−b and K_{n+1} = max(Kₙ, ⌈10(n+1)^p⌉, ⌊1 + a'·exp(8R‖θ̂ₙ‖/t)⌋ + 1), with the largest ‖θ̂ₙ‖ of all runs.

    The last term is condition (ii) with the constant a'; that Kₙ never falls is condition (iii).
    """

    b: float
    power: float
    constant: float
    runs: int
    updates: int
    a: float = 1.0

    def steps(self, n: int, before: int, theta: np.ndarray) -> int:
        """K of update n + 1."""
        return max(before, int(np.ceil(10 * (n + 1) ** self.power)), int(1 + self.constant * factor(theta)) + 1)


@dataclass(frozen=True)
class Settings:
    schedules: dict[str, Schedule]
    theta0: tuple[float, ...] = tuple(THETA0.tolist())
    N: int = N
    t: float = T
    seed: int = 0


def factor(theta: np.ndarray) -> float:
    """exp(8R‖θ‖/t) of condition (ii), the largest of all runs."""
    return float(np.exp(8 * RADIUS * np.linalg.norm(theta, axis=-1).max() / T))


def schedules(sizes: Sizes) -> dict[str, Schedule]:
    """b in three places of (½, 1], Kₙ bounded or growing, for a tiny a'; and the condition with a' = 1, for few updates."""
    chosen = {}
    for power, name in ((0.0, "K ≥ 10"), (0.5, "K ≥ 10√n")):
        for b in (0.6, 0.8, 1.0):
            chosen[f"b = {b}, {name}, a' = 1e-12"] = Schedule(b, power, 1e-12, sizes.runs, sizes.theorem_updates)
    literal = Schedule(0.6, 0.0, 1.0, sizes.literal_runs, sizes.literal_updates)
    return chosen | {"b = 0.6, K ≥ 10, a' = 1": literal}


def lazy_cube() -> Hypercube:
    """Each of the d neighbors is proposed with probability 1/(2d), the solution itself with ½: condition (iv)."""
    return Hypercube(3, extra_moves=[mg.stay()])


def observed(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean Ȳ_N of one data set, and θ*_N by Newton's method."""
    cube = lazy_cube()
    mean = exact_means(cube, THETA0, N, T, seed)
    return mean, minimizer(mg.exact.enumeration(cube), mean, T)


def descend(schedule: Schedule, seed: int) -> Row:
    """θ̂ₙ₊₁ = θ̂ₙ + γₙ₊₁ [Ȳ_N − mean of Kₙ₊₁ iterates] in independent runs from 0, each with one persistent chain."""
    cube, (mean, best) = lazy_cube(), observed(seed)
    theta, start, steps = np.zeros((schedule.runs, 3)), mg.start.Persistent(), 1
    points = np.unique(np.geomspace(1, schedule.updates, 60).round().astype(int))
    squared, used, met = [], [], np.inf
    for n in range(schedule.updates):
        steps = schedule.steps(n, steps, theta)
        met = min(met, (steps - 1) / factor(theta))
        chain = mg.sample(cube, theta, steps=steps, temperature=T, start=start, trace=0, seed=seed, call=n)
        theta = theta + schedule.a * (n + 1.0) ** -schedule.b * (mean - chain.mean)
        if n + 1 in points:
            squared.append(((theta - best) ** 2).sum(-1))
            used.append(steps)
    return summary(points, np.array(squared)) | {"K": used, "met": rounded(met), "predicted": rounded(predicted(schedule), 4)}


def summary(n: np.ndarray, squared: np.ndarray) -> Row:
    """Mean of ‖θ̂ₙ − θ*_N‖² over runs, and its fitted power of n over the last half of a decade, with an interval over runs."""
    mean, half = mean_and_half_width(squared.T)
    late = n >= n[-1] / np.sqrt(10)
    resamples = np.random.default_rng(0).integers(squared.shape[1], size=(400, squared.shape[1]))
    slopes = [_slope(n[late], squared[late][:, rows].mean(1)) for rows in resamples]
    fitted = _slope(n[late], mean[late])
    return {
        "n": n.tolist(),
        "squared": rounded(mean),
        "half": rounded(half),
        "largest": rounded(squared.max(1)),
        "slope": rounded([fitted, *np.quantile(slopes, [0.025, 0.975])], 4),
    }


def predicted(schedule: Schedule) -> float:
    """Power of n of E‖θ̂ₙ − θ*‖²: noise γₙ/Kₙ gives −(b + p), forgetting the start at b = 1 gives −2a·λ_min(Cov)/t at best."""
    noise = -(schedule.b + schedule.power)
    if schedule.b < 1:
        return noise
    smallest = np.linalg.eigvalsh(mg.exact.covariance(lazy_cube(), THETA0, T)).min() / T
    return max(noise, -2 * schedule.a * smallest)


def _slope(n: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(np.log(n), np.log(values), 1)[0])


def part(sizes: Sizes, seed: int) -> Part:
    return Part("convergence", Settings(schedules(sizes), seed=seed), tasks, tables, figures)


def tasks(settings: Settings) -> Tasks:
    return {name: partial(descend, schedule, settings.seed) for name, schedule in settings.schedules.items()}


def tables(settings: Settings, rows: Rows) -> list[Table]:
    table = Table(
        "γₙ = n^−b, Kₙ",
        "largest K",
        "‖θ̂ − θ*_N‖² at the end",
        "slope at the end",
        "predicted",
        "(ii) held for a' <",
        title="Convergence theorem",
    )
    for name, row in rows.items():
        slope = "{:.2f} [{:.2f}, {:.2f}]".format(*row["slope"])
        table.add_row(
            name,
            f"{row['K'][-1]}",
            f"{row['squared'][-1]:.2g} ± {row['half'][-1]:.1g}",
            slope,
            f"{row['predicted']:.2f}",
            f"{row['met']:.1g}",
        )
    return [table]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    for color, (name, row) in enumerate(rows.items()):
        draw_band(axes[0], row["n"], row["squared"], row["half"], color=f"C{color}", label=name, lw=1.2)
        axes[1].plot(row["n"], row["K"], color=f"C{color}", lw=1.2)
    axes[0].set(xscale="log", yscale="log", xlabel="update n", ylabel="mean of ‖θ̂ₙ − θ*_N‖²")
    axes[0].set_ylim(bottom=min(min(row["squared"]) for row in rows.values()) / 2)
    axes[0].legend(fontsize=7)
    axes[1].set(xscale="log", yscale="log", xlabel="update n", ylabel="Kₙ")
    return {"convergence": figure}
