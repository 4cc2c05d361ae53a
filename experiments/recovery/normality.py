"""Part 7b: asymptotic normality of the empirical risk minimizer, √N(θ*_N − θ₀) → N(0, t²·Cov_{θ₀}(Y)⁻¹)."""

from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.framework import Part, Row, Rows, Tasks
from experiments.recovery.exact_minimizers import interior, minimizer
from experiments.recovery.learn import exact_means, mix
from experiments.recovery.sizes import Sizes
from experiments.statistics import mean_and_half_width, rounded
from movegrad.problems import Hypercube

THETA0 = np.array([0.5, -0.5, 0.25])
CHI2_95 = 7.814727903251179  # quantile of |z|² for z ~ N(0, I₃)
LEVELS = np.r_[0.001, 0.005, np.arange(0.01, 1.0, 0.01), 0.995, 0.999]


@mg.jit
def pairs(y):
    """φ(y): bits 0 and 1 attract each other, bits 1 and 2 repel each other."""
    return 1.5 * y[0] * y[1] - 1.0 * y[1] * y[2]


def cases() -> dict[str, tuple[Hypercube, float]]:
    """A cube with independent bits at t = 1, and one with dependent bits at t = 2, so that t² and Cov⁻¹ show."""
    return {"independent bits, t = 1": (Hypercube(3), 1.0), "dependent bits, t = 2": (Hypercube(3, phi=pairs), 2.0)}


def replicate(problem: Hypercube, t: float, n: int, replicates: int, seed: int) -> Row:
    """Whitened errors z = Σ^−½ √N(θ*_N − θ₀), Σ = t²·Cov⁻¹, of data sets of n samples; compared with N(0, I)."""
    mean = exact_means(problem, np.tile(THETA0, (replicates, 1)), n, t, mix(seed, n))
    exists = interior(mean)
    best = minimizer(mg.exact.enumeration(problem), mean[exists], t)
    values, vectors = np.linalg.eigh(mg.exact.covariance(problem, THETA0, t))
    z = np.sqrt(n) * (best - THETA0) @ vectors * np.sqrt(values) / t
    centered = ((z - z.mean(0)) ** 2).sum(-1) / 3
    inside = mean_and_half_width((z**2).sum(-1) < CHI2_95)
    return {
        "exists": rounded(exists.mean()),
        "bias": rounded(np.linalg.norm(z.mean(0))),
        "trace": rounded(mean_and_half_width(centered)),
        "eigenvalues": rounded(np.linalg.eigvalsh(np.cov(z.T))),
        "expected": rounded(wishart_range(len(z))),
        "coverage": rounded(inside),
        "quantiles": rounded(np.quantile(z, LEVELS)),
    }


def wishart_range(n: int, draws: int = 2000) -> list[float]:
    """95 % ranges of the smallest and of the largest eigenvalue of the covariance of n draws of N(0, I₃), by simulation.

    Entries of the covariance are drawn by the Bartlett decomposition of a Wishart matrix.
    """
    rng, lower = np.random.default_rng(0), np.zeros((draws, 3, 3))
    for i in range(3):
        lower[:, i, i] = np.sqrt(rng.chisquare(n - 1 - i, draws))
        lower[:, i, :i] = rng.standard_normal((draws, i))
    values = np.linalg.eigvalsh(lower @ lower.swapaxes(1, 2)) / (n - 1)
    return [float(q) for column in (0, 2) for q in np.quantile(values[:, column], [0.025, 0.975])]


@dataclass(frozen=True)
class Settings:
    samples: tuple[int, ...]
    replicates: int
    theta0: tuple[float, ...] = tuple(THETA0.tolist())
    cases: tuple[str, ...] = tuple(cases())
    seed: int = 0


def part(sizes: Sizes, seed: int) -> Part:
    return Part("normality", Settings(sizes.samples, sizes.replicates, seed=seed), tasks, tables, figures)


def tasks(settings: Settings) -> Tasks:
    """All cases and sample sizes."""
    return {
        f"{name} | N = {n}": partial(replicate, problem, t, n, settings.replicates, settings.seed)
        for name, (problem, t) in cases().items()
        for n in settings.samples
    }


def tables(settings: Settings, rows: Rows) -> list[Table]:
    table = Table("", "N", "θ*_N exists", "tr(Σ⁻¹·N·Cov)/d", "eigenvalues", "95 % range of min, max", "in 95 % ellipsoid")
    table.title = "Asymptotic normality: N·Cov(θ*_N) against Σ = t²·Cov(Y)⁻¹"
    for key, row in rows.items():
        table.add_row(
            *key.split(" | N = "), f"{row['exists']:.1%}", "{:.3f} ± {:.3f}".format(*row["trace"]),
            " ".join(f"{v:.3f}" for v in row["eigenvalues"]),
            "{:.3f}–{:.3f}, {:.3f}–{:.3f}".format(*row["expected"]),
            "{:.2%} ± {:.2%}".format(*row["coverage"]),
        )  # fmt: skip
    return [table]


def figures(settings: Settings, rows: Rows) -> dict[str, Figure]:
    samples = settings.samples
    normal = np.array([NormalDist().inv_cdf(p) for p in LEVELS])
    figure, axes = plt.subplots(2, len(settings.cases), figsize=(6.8, 5.8), squeeze=False, layout="constrained")
    for (ratio, quantiles), name in zip(axes.T, settings.cases, strict=True):
        chosen = [rows[f"{name} | N = {n}"] for n in samples]
        trace, half = np.array([row["trace"] for row in chosen]).T
        ratio.errorbar(samples, trace, half, fmt="o-", capsize=3, label="mean eigenvalue")
        values = np.array([row["eigenvalues"] for row in chosen])
        ratio.plot(samples, values[:, 0], "v", color="C1", ms=5, label="smallest, largest")
        ratio.plot(samples, values[:, 2], "^", color="C1", ms=5)
        expected = np.array([row["expected"] for row in chosen])
        ratio.fill_between(samples, expected[:, 0], expected[:, 3], color="0.85", label="95 % range of these if normal")
        ratio.axhline(1, color="black", lw=0.8)
        ratio.set(xscale="log", title=name, xlabel="N", ylabel="eigenvalues of Σ⁻¹·N·Cov(θ*_N)")
        ratio.legend(fontsize=7)
        for n in (samples[0], samples[len(samples) // 2], samples[-1]):
            quantiles.plot(normal, rows[f"{name} | N = {n}"]["quantiles"], ".-", ms=3, lw=0.8, label=f"N = {n}")
        quantiles.plot(normal, normal, color="black", lw=0.8)
        quantiles.set(xlabel="quantile of N(0, 1)", ylabel="quantile of Σ^−½ √N(θ*_N − θ₀)")
        quantiles.legend(fontsize=7)
    return {"normality": figure}
