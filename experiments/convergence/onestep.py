"""Part 5, beyond the paper: the exact gradient of one step against sampled ones and against the full gradient."""

from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.convergence.measure import MEDIUM, SMALL, exact_means, instances, problem_named, ratio_interval, replicates
from experiments.display import draw_band, fit_log_axes, legend_below, number, seconds, table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import mean_and_half_width

CALL = 5
TARGETS = {"own": "y drawn from π(θ): learning has ended", "other": "y drawn from π(θ'), independent θ': learning begins"}


@dataclass(frozen=True)
class Settings:
    problems: tuple[str, ...] = SMALL + MEDIUM
    targets: tuple[str, ...] = tuple(TARGETS)
    steps: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1000)
    instances: int = 100
    replicates: int = 400
    seed: int = 0


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(-1) / (length(a) * length(b))


def length(a: np.ndarray) -> np.ndarray:
    return np.sqrt((a * a).sum(-1))


def compare(settings: Settings, label: str, target: str, seed: int) -> Row:
    """Gradients at y: full E[Y] − y, exact one-step E[y⁽¹⁾] − y, and sampled ones from chains of K steps started at y."""
    problem = problem_named(label)
    theta = instances(seed, settings.instances, problem.size)
    truth = theta if target == "own" else instances(seed + 1, settings.instances, problem.size)
    y = mg.exact.sample(problem, truth, 1, seed=seed)[0]
    full = exact_means(problem, theta) - y
    mg.one_step(problem, theta[:1], y[:1])  # compiled before it is timed
    begin = perf_counter()
    first = mg.one_step(problem, theta, y)[1]
    took = (perf_counter() - begin) / len(theta)
    row: Row = {"table": "gradients", "problem": label, "target": target}
    for name, values in (("cosine", cosine(first, full)), ("length", length(first) / length(full))):
        row[name], row[f"{name}_half"] = mean_and_half_width(values)
    options: dict[str, Any] = {"start": y, "seed": seed, "call": CALL}
    for estimator in ("mean", "recycled"):
        sampled = replicates(problem, theta, settings.replicates, steps=1, estimator=estimator, **options) - y[:, None]
        row |= noise_of(sampled, first, estimator)
    means = [replicates(problem, theta, settings.replicates, steps=K, **options).mean(1) - y for K in settings.steps if K > 1]
    shares = [ratio_interval((g * full).sum(-1), (full * full).sum(-1)) for g in [first] * (1 in settings.steps) + means]
    row |= {"seconds_exact": took, "K": list(settings.steps)}
    return {**row, "share": [s for s, _ in shares], "share_half": [h for _, h in shares]}


def noise_of(sampled: np.ndarray, first: np.ndarray, name: str) -> Row:
    """Variance of sampled one-step gradients over the squared length of the exact one: the number of chains at which noise equals
    signal. And a check: R·‖mean − exact‖²/variance is 1 on average if sampled gradients have the exact one as expectation."""
    variance = sampled.var(1, ddof=1).sum(-1)
    noise, noise_half = ratio_interval(variance, (first * first).sum(-1))
    check, check_half = ratio_interval(sampled.shape[1] * ((sampled.mean(1) - first) ** 2).sum(-1), variance)
    values = {"noise": noise, "noise_half": noise_half, "check": check, "check_half": check_half, "variance": variance.mean()}
    return {f"{key}_{name}": value for key, value in values.items()}


def tasks(settings: Settings) -> Tasks:
    return {
        f"{label} | {target}": partial(compare, settings, label, target, settings.seed)
        for label in settings.problems
        for target in settings.targets
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    columns = ("cosine to full", "length / full", "noise/signal, plain", "recycled", "check plain", "recycled", "exact takes")
    out = table("Exact one-step gradient: against the full one; noise of one sampled chain of K = 1", "problem", "target", *columns)
    for row in rows.values():
        names = ("cosine", "length", "noise_mean", "noise_recycled", "check_mean", "check_recycled")
        cells = [number(row[name], row[half_name(name)]) for name in names]
        out.add_row(row["problem"], row["target"], *cells, seconds(row["seconds_exact"]))
    return [out]


def half_name(name: str) -> str:
    """Key of the half-width: noise_mean → noise_half_mean."""
    head, *rest = name.split("_")
    return "_".join([head, "half", *rest])


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    """Share of the full gradient that K steps reach."""
    figure, panels = plt.subplots(
        1, len(settings.targets), figsize=(5 * len(settings.targets), 3.6), layout="constrained", squeeze=False
    )
    for target, axes in zip(settings.targets, panels.flat, strict=True):
        for row in rows.values():
            if row["target"] == target:
                draw_band(axes, row["K"], row["share"], row["share_half"], marker=".", label=row["problem"])
        fit_log_axes(axes, xlabel="steps K", ylabel="⟨g(K), g⟩ / ‖g‖²", title=TARGETS[target])
    legend_below(figure, panels[0, 0])
    return {"onestep": figure}


QUICK = Settings(instances=20, replicates=100)
PART = Part("onestep", Settings(), tasks, tables, figures)
