"""Predict, then pack: learn item values from features, by what matters for the decision, with local search in the loop.

Each instance has features x and unknown item values c; we choose items under 10 capacities for predicted values, and get the true
ones. Linear models, which cannot be right everywhere, learn from the same past instances: one to predict c (two-stage, squared
error), and two through movegrad's Fenchel-Young loss: one that never sees a value, only good past decisions, and one whose chains
run at 2θ − c, the SPO+ loss with local search in place of a solver. Regret is the share of the best value that is lost.
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
from matplotlib.ticker import PercentFormatter
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import movegrad as mg

ITEMS, CAPACITIES, FEATURES, DEGREE = 100, 10, 10, 8
TRAIN, VALIDATION, TEST = 400, 100, 200
STEPS, RATE, EPOCHS, EVERY = 3000, 2e-2, (60, 40), 4  # epochs of two-stage and of movegrad; regret is measured every 4 epochs
DATA_SETS = 3
FIGURE = Path(__file__).parent / "out" / "knapsack.png"


class Data(NamedTuple):
    """Instances that share weights and capacities: features (n, 10), values (n, 100), best known decisions and their values."""

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
    """Values are a polynomial of degree 8 in random combinations of the features, times noise, as in PyEPO's benchmark."""
    rng = np.random.default_rng(seed)
    n = TRAIN + VALIDATION + TEST
    weights = rng.integers(300, 800, size=(CAPACITIES, ITEMS)) / 100
    x = rng.normal(size=(n, FEATURES))
    mixing = rng.binomial(1, 0.5, size=(ITEMS, FEATURES))
    c = ((x @ mixing.T / np.sqrt(FEATURES) + 3.0) ** DEGREE + 1.0) / 3.5**DEGREE * 5.0 * rng.uniform(0.5, 1.5, size=(n, ITEMS))
    problem = mg.problems.Knapsack(weights, 0.5 * weights.sum(1))
    task = progress.add_task(f"data set {seed}: best decisions in hindsight", total=1.0)
    found = mg.solve(problem, c, steps=200_000, seed=seed, progress=lambda done: progress.update(task, completed=done))
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
    model = torch.nn.Linear(FEATURES, ITEMS)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    training, validation, test = (data.part(*p) for p in ((0, TRAIN), (TRAIN, TRAIN + VALIDATION), (TRAIN + VALIDATION, None)))
    tensors = [torch.from_numpy(a) for a in (training.x.astype(np.float32), training.c.astype(np.float32), training.best)]
    task, curve, spent = progress.add_task(name, total=epochs), Curve(name, [], [], []), 0.0
    for epoch in range(epochs):
        begin = perf_counter()
        for batch in torch.randperm(TRAIN).split(32):
            optimizer.zero_grad()
            loss(model(tensors[0][batch]), tensors[1][batch], tensors[2][batch]).backward()
            optimizer.step()
        spent += perf_counter() - begin
        fall.step()
        if (epoch + 1) % EVERY == 0:
            for values, part in ((curve.validation, validation), (curve.test, test)):
                values.append(regret(model, part))
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


def learned(seed: int, progress: Progress) -> tuple[list[Curve], float]:
    """One data set: all ways to learn on it, and the regret of the decision that is best for the mean of past values."""
    data = generate(seed, progress)
    warm_up(data)
    curves = [train(name, loss, data, progress, epochs) for name, (loss, epochs) in ways(data.problem, seed).items()]
    average = torch.from_numpy(data.c[:TRAIN].mean(0)).float()
    return curves, regret(lambda x: average.expand(len(x), -1), data.part(TRAIN + VALIDATION, None))


def rows_of(found: list[tuple[list[Curve], float]]) -> list[dict]:
    """Regrets on new instances, one for each data set, and mean seconds of training, each way at its best epoch."""
    rows: list[dict] = [{"way": "one decision for all", "regrets": [constant for _, constant in found]}]
    for curves in zip(*(curves for curves, _ in found), strict=True):
        regrets, seconds = [c.test[c.best] for c in curves], [c.seconds[c.best] for c in curves]
        rows.append({"way": curves[0].name, "regrets": regrets, "seconds": float(np.mean(seconds))})
    return rows


def table_of(rows: list[dict]) -> Table:
    sets = f"{len(rows[0]['regrets'])} data sets of {TRAIN} past instances"
    table = Table(title=f"{ITEMS} items, {CAPACITIES} capacities, {sets}; best epoch by validation")
    for column in ("way", "regret on new instances", "mean", "training"):
        table.add_column(column, justify="left" if column == "way" else "right", no_wrap=True)
    for row in rows:
        each = ", ".join(f"{regret:.1%}" for regret in row["regrets"])
        table.add_row(row["way"], each, f"{np.mean(row['regrets']):.1%}", f"{row['seconds']:.1f} s" if "seconds" in row else "")
    return table


def draw(curves: list[Curve], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for curve in curves:
        (line,) = axes.plot(curve.seconds, curve.test, "o-", ms=3, label=curve.name)
        axes.plot(curve.seconds[curve.best], curve.test[curve.best], "*", ms=14, color=line.get_color())
    axes.set(xscale="log", ylim=(0.0, None), xlabel="seconds of training", ylabel="regret on new instances")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_title("Learning to pack (star: best epoch by validation)")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first data set")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--rows", type=Path, default=None, help="also write the table to this file, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)  # tensors are small here, and chains have threads of their own
    console = Console()
    console.print("The moves first: every draw from every solution of a small instance, against the law they claim.")
    console.print(mg.check(mg.problems.Knapsack([[3, 2, 4, 5], [1, 5, 2, 2]], [7, 6])).raise_if_wrong())
    with Progress(console=console) as progress:
        found = [learned(options.seed + k, progress) for k in range(DATA_SETS)]
    rows = rows_of(found)
    console.print(table_of(rows))
    if options.rows is not None:
        options.rows.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(found[0][0], options.figure)
    console.print(f"figure: {options.figure}")


if __name__ == "__main__":
    main()
