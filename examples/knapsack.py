"""Predict, then pack: learn item values from features, by what matters for the decision, with local search in the loop.

Each instance has features x and unknown item values c; we choose items under 50 capacities for predicted values, and get the true
ones. Networks of the same shape learn from the same past instances: one to predict c (two-stage, squared error), and two through
movegrad's Fenchel-Young loss: one that never sees a value, only good past decisions, and one whose chains run at 2θ − c, the SPO+
loss with local search in place of a solver. Regret is the share of the best value that is lost.
"""

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import movegrad as mg

ITEMS, CAPACITIES, FEATURES = 100, 50, 64
TRAIN, VALIDATION, TEST = 400, 100, 200
STEPS, RATE, EPOCHS, EVERY = 3000, 5e-3, (100, 60), 4  # epochs of two-stage and of movegrad; regret is measured every 4 epochs
FIGURE = Path(__file__).parent / "out" / "knapsack.png"


class Data(NamedTuple):
    """Instances that share weights and capacities: features (n, 64), values (n, 100), best known decisions and their values."""

    problem: mg.Problem
    x: np.ndarray
    c: np.ndarray
    best: np.ndarray
    value: np.ndarray

    def part(self, first: int, last: int) -> "Data":
        return Data(self.problem, *(a[first:last] for a in self[1:]))


class Curve(NamedTuple):
    """Regret on validation and test instances after each epoch, and seconds of training up to there."""

    name: str
    validation: list[float]
    test: list[float]
    seconds: list[float]

    @property
    def best(self) -> int:
        return int(np.argmin(self.validation))


def generate(seed: int, progress: Progress) -> Data:
    """Values are a polynomial of degree 4 in random combinations of the features, times noise, as in PyEPO's benchmark."""
    rng = np.random.default_rng(seed)
    n = TRAIN + VALIDATION + TEST
    weights = rng.integers(300, 800, size=(CAPACITIES, ITEMS)) / 100
    x = rng.normal(size=(n, FEATURES))
    mixing = rng.binomial(1, 0.5, size=(ITEMS, FEATURES))
    c = ((x @ mixing.T / np.sqrt(FEATURES) + 3.0) ** 4 + 1.0) / 3.5**4 * 5.0 * rng.uniform(0.5, 1.5, size=(n, ITEMS))
    problem = mg.problems.Knapsack(weights, 0.5 * weights.sum(1))
    task = progress.add_task("best decisions in hindsight", total=1.0)
    found = mg.solve(problem, c, steps=400_000, seed=seed, progress=lambda done: progress.update(task, completed=done))
    return Data(problem, x, c, found.solution, found.objective)


def regret(predict, data: Data) -> float:
    """Share of the best known value that decisions for predicted values lose."""
    with torch.no_grad():
        values = predict(torch.from_numpy(data.x).float()).double().numpy()
    decisions = mg.solve(data.problem, values, steps=50_000).solution
    return float((data.value - (decisions * data.c).sum(1)).sum() / data.value.sum())


def train(name: str, loss, data: Data, progress: Progress, epochs: int) -> Curve:
    """Adam on batches of 32, with a rate that falls to 0; regret is measured every few epochs, outside of the clock."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, ITEMS)
    )
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    training, validation, test = (data.part(*p) for p in ((0, TRAIN), (TRAIN, TRAIN + VALIDATION), (TRAIN + VALIDATION, None)))
    tensors = [torch.from_numpy(a) for a in (training.x.astype(np.float32), training.c.astype(np.float32), training.best)]
    task, curve, spent = progress.add_task(name, total=epochs), Curve(name, [], [], []), 0.0
    for epoch in range(epochs):
        begin = perf_counter()
        for batch in torch.randperm(TRAIN).split(32):
            optimizer.zero_grad()
            loss(network(tensors[0][batch]), tensors[1][batch], tensors[2][batch]).backward()
            optimizer.step()
        spent += perf_counter() - begin
        fall.step()
        if (epoch + 1) % EVERY == 0:
            for values, part in ((curve.validation, validation), (curve.test, test)):
                values.append(regret(network, part))
            curve.seconds.append(spent)
        progress.advance(task)
    return curve


def ways(problem: mg.Problem, seed: int) -> dict:
    """For each way to learn: a loss of predictions, true values and best decisions, and the number of epochs."""

    def search() -> mg.torch.FenchelYoungLoss:
        return mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=STEPS, temperature=1.0, seed=seed))

    decisions, values = search(), search()
    return {
        "two-stage": (lambda predicted, c, _: torch.nn.functional.mse_loss(predicted, c), EPOCHS[0]),
        "movegrad, decisions alone": (lambda predicted, _, y: decisions(predicted, y), EPOCHS[1]),
        "movegrad, at 2θ − c": (lambda predicted, c, y: values(2.0 * predicted - c, y), EPOCHS[1]),
    }


def warm_up(data: Data) -> None:
    """Call every loss once, of copies: what compiles or loads a kernel is no part of training."""
    values, best = torch.from_numpy(data.c[:2]).float(), torch.from_numpy(data.best[:2])
    for loss, _ in ways(data.problem, 0).values():
        loss(torch.zeros(2, ITEMS, requires_grad=True), values, best).backward()


def rows_of(curves: list[Curve], constant: float) -> list[dict]:
    """Regret on new instances and seconds of training, each way at its best epoch."""
    rows = [{"way": curve.name, "regret": curve.test[curve.best], "seconds": curve.seconds[curve.best]} for curve in curves]
    return [{"way": "one decision for all", "regret": constant}, *rows]


def table_of(rows: list[dict]) -> Table:
    table = Table(title=f"{TRAIN} past instances, {ITEMS} items, {CAPACITIES} capacities; best epoch by validation")
    for column in ("way", "regret on new instances", "seconds of training"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for row in rows:
        table.add_row(row["way"], f"{row['regret']:.1%}", f"{row['seconds']:.1f}" if "seconds" in row else "")
    return table


def draw(curves: list[Curve], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for curve in curves:
        (line,) = axes.plot(curve.seconds, curve.test, "o-", ms=3, label=curve.name)
        axes.plot(curve.seconds[curve.best], curve.test[curve.best], "*", ms=14, color=line.get_color())
    axes.set(xscale="log", yscale="log", xlabel="seconds of training", ylabel="regret on new instances")
    axes.set_title("Learning to pack (star: best epoch by validation)")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--rows", type=Path, default=None, help="also write the table to this file, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)  # tensors are small here, and chains have threads of their own
    console = Console()
    console.print("The moves first: every draw from every solution of a small instance, against the law they claim.")
    console.print(mg.check(mg.problems.Knapsack([[3, 2, 4, 5], [1, 5, 2, 2]], [7, 6])).raise_if_wrong())
    with Progress(console=console) as progress:
        data = generate(options.seed, progress)
        warm_up(data)
        choices = ways(data.problem, options.seed).items()
        curves = [train(name, loss, data, progress, epochs) for name, (loss, epochs) in choices]
    average = torch.from_numpy(data.c[:TRAIN].mean(0)).float()
    constant = regret(lambda x: average.expand(len(x), -1), data.part(TRAIN + VALIDATION, None))
    rows = rows_of(curves, constant)
    console.print(table_of(rows))
    if options.rows is not None:
        options.rows.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(curves, options.figure)
    console.print(f"figure: {options.figure}")


if __name__ == "__main__":
    main()
