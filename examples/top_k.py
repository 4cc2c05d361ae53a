"""Learn a top-k model from samples: what movegrad does, in a minute.

Ten thousand times somebody chose k of d items. We learn scores θ that explain the choices, with local-search chains of K steps in
place of the exact expectation, and compare with the truth, which is known here: the choices were drawn from given scores.
"""

import argparse
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

import movegrad as mg

D, K_CHOSEN, OBSERVATIONS, UPDATES = 40, 8, 10_000, 400
FIGURE = Path(__file__).parent / "out" / "top_k.png"


class Curve(NamedTuple):
    """How one way of learning went: squared distance to the true scores after each update, and its cost."""

    name: str
    distance: list[float]
    theta: np.ndarray
    seconds: float


def centered(theta: np.ndarray) -> np.ndarray:
    """Scores up to a constant: adding one to all of them does not change which k items win."""
    return theta - theta.mean()


def learn(name: str, loss, truth: np.ndarray, observed: torch.Tensor, progress: Progress, task: TaskID) -> Curve:
    """Minimize a Fenchel-Young loss with Adam from θ = 0."""
    theta = torch.zeros(D, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    loss(theta, observed).backward()  # compile, or load from disk, before the clock starts
    distance, seconds = [], 0.0
    for _ in range(UPDATES):
        begin = perf_counter()
        optimizer.zero_grad()
        loss(theta, observed).backward()
        optimizer.step()
        scheduler.step()
        seconds += perf_counter() - begin
        distance.append(float(((centered(theta.detach().numpy()) - centered(truth)) ** 2).sum()))
        progress.advance(task)
    return Curve(name, distance, theta.detach().numpy(), seconds)


def ways(problem: mg.Problem, seed: int) -> dict[str, object]:
    """Chains of several lengths, started where they ended; the exact loss of one step; and the exact gradient, as a reference."""

    def chain(steps: int) -> mg.torch.FenchelYoungLoss:
        return mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=steps, chains=8, estimator="recycled", seed=seed))

    def exact(theta: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        expected = torch.from_numpy(mg.exact.marginals(problem, theta.detach().numpy()))
        return (theta * (expected - observed.double().mean(0))).sum()

    return {"chains, K = 1": chain(1), "chains, K = 10": chain(10), "chains, K = 100": chain(100), "exact gradient": exact}


def table_of(curves: list[Curve], problem: mg.Problem, truth: np.ndarray) -> Table:
    table = Table(title=f"{OBSERVATIONS} observations of {K_CHOSEN} items out of {D}, {UPDATES} updates")
    for column in ("way", "‖θ − θ₀‖²", "largest error of a marginal", "time"):
        table.add_column(column, justify="left" if column == "way" else "right")
    goal = mg.exact.marginals(problem, truth)
    table.add_row("untrained", f"{(centered(truth) ** 2).sum():.3f}", f"{np.abs(K_CHOSEN / D - goal).max():.4f}", "")
    for curve in curves:
        error = np.abs(mg.exact.marginals(problem, curve.theta) - goal).max()
        table.add_row(curve.name, f"{curve.distance[-1]:.3f}", f"{error:.4f}", f"{curve.seconds:.2f} s")
    return table


def draw(curves: list[Curve], truth: np.ndarray, path: Path) -> None:
    """Left: distance to the true scores along training. Right: learned against true scores."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for curve in curves:
        left.semilogy(curve.distance, label=curve.name)
        right.plot(centered(truth), centered(curve.theta), "o", ms=4, alpha=0.7, label=curve.name)
    left.set(xlabel="update", ylabel="‖θ − θ₀‖² (up to a constant)", title="Learning the scores")
    left.legend()
    ends = [centered(truth).min(), centered(truth).max()]
    right.plot(ends, ends, color="gray", lw=1)
    right.set(xlabel="true score", ylabel="learned score", title="Learned against true")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    torch.set_num_threads(1)  # tensors are small here, and chains have threads of their own
    console = Console()
    problem = mg.problems.TopK(D, k=K_CHOSEN)
    truth = np.random.default_rng(options.seed).normal(size=D)
    observed = torch.from_numpy(mg.exact.sample(problem, truth, OBSERVATIONS, seed=options.seed))
    console.print("The moves first: every draw from every solution of a small instance, against the law they claim.")
    console.print(mg.check(mg.problems.TopK(6, k=2)).raise_if_wrong())
    with Progress(console=console) as progress:
        curves = []
        for name, loss in ways(problem, options.seed).items():
            task = progress.add_task(name, total=UPDATES)
            curves.append(learn(name, loss, truth, observed, progress, task))
    console.print(table_of(curves, problem, truth))
    draw(curves, truth, options.figure)
    console.print(f"figure: {options.figure}")


if __name__ == "__main__":
    main()
