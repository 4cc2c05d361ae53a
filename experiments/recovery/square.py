"""Part 6: trajectories of stochastic gradients on the square {0,1}², over the level sets of the expected risk."""

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from rich.table import Table

import movegrad as mg
from experiments.common import mean_and_half_width, save_figure, write_csv
from experiments.recovery.learn import mix, risk
from experiments.recovery.study import Study, rounded
from experiments.store import Store
from movegrad.problems import Hypercube

TRUE, FIRST = np.array([0.5, 0.5]), np.array([-2.0, 1.5])
A, B = 2.0, 0.6  # γₙ = a·n^−b
Means = Callable[[np.ndarray, int], np.ndarray]  # Θ (R, d) and the number of the update → means of samples (R, d)


def run(study: Study) -> dict[str, dict[str, Any]]:
    """Trajectories for K ∈ {1, 100} and for 1 and 100 exact samples; the first of each is drawn, all are measured."""
    sizes = study.sizes
    settings = {"seed": study.seed, "theta0": TRUE.tolist(), "first": FIRST.tolist(), "a": A, "b": B}
    settings |= {"trajectories": sizes.trajectories, "updates": sizes.square_updates}
    store, kinds = Store(study.out / "square.json", settings, study.fresh), makers(study.seed)
    task = study.task("square", len(kinds))
    rows = {}
    for name, make in kinds.items():
        rows[name] = store.get(name, lambda make=make: _measure(make(), sizes.trajectories, sizes.square_updates))
        task.finish(1)
    header = ("gradient", "n", "theta_1", "theta_2", "mean_squared_distance", "half")
    lines = [
        (name, n, *p, d, h)
        for name, r in rows.items()
        for n, p, d, h in zip(r["n"], r["path"], r["distance"], r["half"], strict=True)
    ]
    write_csv(study.out / "square.csv", header, lines)
    _draw(rows, study)
    study.show(_table(rows), store.seconds)
    return rows


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


def _measure(means: Means, runs: int, updates: int) -> dict[str, Any]:
    paths = descend(means, runs, updates)
    length = np.linalg.norm(np.diff(paths, axis=0), axis=-1).sum(0)
    distance, half = mean_and_half_width(((paths - TRUE) ** 2).sum(-1).T)
    return {
        "n": list(range(updates + 1)),
        "path": rounded(paths[:, 0], 4),
        "distance": rounded(distance, 4),
        "half": rounded(half, 4),
        "length": rounded(mean_and_half_width(length)),
    }


def _table(rows: dict[str, dict[str, Any]]) -> Table:
    straight = np.linalg.norm(FIRST - TRUE)
    table = Table(
        "gradient", f"length of the path (straight: {straight:.2f})", "‖θ̂ − θ₀‖² at the end", title="Trajectories on the square"
    )
    for name, row in rows.items():
        table.add_row(name, "{:.3g} ± {:.1g}".format(*row["length"]), f"{row['distance'][-1]:.3g} ± {row['half'][-1]:.1g}")
    return table


def _draw(rows: dict[str, dict[str, Any]], study: Study) -> None:
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
    save_figure(figure, study.out, "square")
