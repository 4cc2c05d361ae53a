"""CVRP-20 as PyEPO's notebook on CaVE has it: all 1000 examples, ten epochs, the last model.

Beside it, how many epochs are best is chosen by the regret of 50 of these examples that runs of their own leave out.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
import torch
from rich.table import Table

from experiments.arena import tours
from experiments.arena.board import Board, Examples, tensor
from experiments.arena.methods import METHODS
from experiments.arena.train import one_thread, shuffled, step, warm
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import rounded
from experiments.verdicts import paired, verdict


class Plan(NamedTuple):
    """A method with its authors' settings; regrets are taken after some of the epochs, the last among them."""

    method: str
    tested: tuple[int, ...]

    @property
    def epochs(self) -> int:
        return self.tested[-1]


PLANS = {
    "SPO+": Plan("spo", (10,)),
    "CaVE+": Plan("cave", (3, 10, 30)),
    "SPO+, warm heuristic": Plan("spo-warm-long", (10, 30)),
    "SPO+, warm heuristic, with least squares": Plan("spo-warm-long-anchored", (10, 30)),
    "movegrad at 2θ − c": Plan("ours-costs", (3, 10, 30, 100)),
    "movegrad, labels": Plan("ours", (3, 10, 30, 100)),
    "movegrad at 2θ − c, long chains": Plan("ours-long", (10, 30)),
    "movegrad at 2θ − c, long chains, with least squares": Plan("ours-long-anchored", (10, 30)),
}
BOARD = "cvrp-20-42"  # what the arena calls its data set
NOTEBOOKS, LEFT_OUT = 10, 50  # epochs; examples
REPORTED = {"SPO+": (0.0588, 1164.0), "CaVE+": (0.0544, 143.0)}  # by the notebook: regret and seconds, one run each
OURS = tuple(name for name in PLANS if name.startswith("movegrad"))
RIVALS = tuple(name for name in PLANS if name not in OURS)


@dataclass(frozen=True)
class Settings:
    """The notebook's data; plans and seeds decide which rows there are, not what is in them."""

    customers: int = 20
    seed: int = 42


def learned(board: Board, plan: Plan, seed: int, judged: Examples) -> Row:
    """Seconds and regrets of some examples after the plan's epochs; the clock is that of all other parts."""
    one_thread()
    torch.manual_seed(seed)
    method, net, features = METHODS[plan.method], board.model(), tensor(board.train.features)
    optimizer = torch.optim.Adam(net.parameters(), lr=method.default.rate * board.rate)
    warm(board, method.make, method.default, seed)
    begin = process_time()
    loss = method.make(board, seed, **method.default.options)
    spent, steps, row = process_time() - begin, shuffled(len(features), board.batch, seed), Row(clock={}, test={})
    for epoch in range(1, plan.epochs + 1):
        for _ in range(-(-len(features) // board.batch)):
            spent += step(net, optimizer, loss, features, next(steps))
        if epoch in plan.tested:
            regret = judged.regret(board.decide(board.predict(net, judged)))
            row["clock"][str(epoch)], row["test"][str(epoch)] = spent, rounded(regret)
    return row


def tasks(cached: Path, plans: Sequence[str], seeds: Sequence[int], settings: Settings) -> Tasks:
    """For each plan and seed a run on all examples, judged by those of the test, and one that leaves some out, judged by these."""

    @cache
    def board(valid: int) -> Board:
        return tours.cvrp(settings.customers, settings.seed, cached, valid)

    def row(name: str, seed: int, valid: int) -> Row:
        made = board(valid)
        return {"plan": name, "seed": seed, "valid": valid, **learned(made, PLANS[name], seed, made.valid if valid else made.test)}

    keys = {
        f"{name} | seed {seed}" + (" | left out" if valid else ""): (name, seed, valid)
        for valid in (0, LEFT_OUT)
        for seed in seeds
        for name in plans
        if not valid or len(PLANS[name].tested) > 1  # else there is nothing to choose
    }
    return {key: partial(row, *what) for key, what in keys.items()}


def by_plan(rows: Rows, valid: int = 0) -> dict[str, list[Row]]:
    """Rows of each plan, by seed."""
    some = [row for row in rows.values() if row.get("valid", 0) == valid]
    return {name: found for name in PLANS if (found := [row for row in some if row["plan"] == name])}


def tested(rows: list[Row]) -> list[int]:
    """Epochs after which all of these have regrets."""
    return sorted(set.intersection(*({int(epochs) for epochs in row["test"]} for row in rows)))


def regrets(rows: list[Row], epochs: int) -> np.ndarray:
    """(seeds, examples)"""
    return np.array([row["test"][str(epochs)] for row in rows])


def chosen(rows: Rows) -> dict[str, int]:
    """Epochs after which a plan has the least regret on examples that were left out, in the mean of seeds."""
    found = by_plan(rows, LEFT_OUT)
    return {name: min(tested(made), key=lambda epochs, made=made: regrets(made, epochs).mean()) for name, made in found.items()}


def tables(settings: Settings, rows: Rows) -> list[Table]:
    """What was reached, beside what the notebook reports; then ours less each rival by seed and example."""
    found, out, best = by_plan(rows), by_plan(rows, LEFT_OUT), chosen(rows)
    reached = Table(title="CVRP-20 by the notebook's protocol: test regret of the last model; * what examples left out prefer")
    columns = "epochs", "seeds", "test regret, %", "of those left out, %", "processor seconds", "the notebook's, %", "its seconds"
    for name in ("method", *columns):
        reached.add_column(name)
    for name, made in found.items():
        for epochs in tested(made):
            spent = np.mean([row["clock"][str(epochs)] for row in made])
            known = REPORTED.get(name, ()) if epochs == NOTEBOOKS else ()
            told = [f"{100.0 * known[0]:.2f}", f"{known[1]:g}"] if known else ["–", "–"]
            level = paired(regrets(made, epochs)).scaled(100.0)
            left = f"{100.0 * regrets(out[name], epochs).mean():.2f}" if name in out and epochs in tested(out[name]) else "–"
            mark = " *" if best.get(name) == epochs else ""
            reached.add_row(name, f"{epochs}{mark}", str(len(made)), str(level), left, f"{spent:.3g}", *told)
    return [reached, differences(found, dict.fromkeys(found, NOTEBOOKS), "ten epochs"), differences(found, best, "epochs chosen")]


def differences(found: dict[str, list[Row]], after: dict[str, int], how: str) -> Table:
    """Ours less each rival after so many epochs of each."""
    made = Table(title=f"ours − rival, {how}, points, paired 95 % interval over examples and the seeds that both have")
    for name in ("ours", "rival", "epochs", "seeds", "difference", "verdict"):
        made.add_column(name)
    there = {name for name, made in found.items() if after.get(name) in tested(made)}
    for mine, rival in ((a, b) for a in OURS for b in RIVALS if {a, b} <= there):
        first, second = ({row["seed"]: row for row in found[name]} for name in (mine, rival))
        both = sorted(first.keys() & second.keys())
        if len(both) > 1:
            a, b = (regrets([of[s] for s in both], after[name]) for name, of in ((mine, first), (rival, second)))
            interval = paired(a - b)
            epochs = f"{after[mine]}, {after[rival]}"
            made.add_row(mine, rival, epochs, str(len(both)), str(interval.scaled(100.0)), verdict(interval))
    return made


def part(cached: Path, methods: Container[str], seeds: Sequence[int]) -> Part:
    plans = [name for name, plan in PLANS.items() if plan.method in methods]
    return Part("notebook", Settings(), partial(tasks, cached, plans, seeds), tables)
