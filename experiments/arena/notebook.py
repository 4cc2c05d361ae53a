"""CVRP-20 as PyEPO's notebook on CaVE has it: all 1000 examples, ten epochs, the last model, nothing chosen on validation."""

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
from experiments.arena.board import Board, tensor
from experiments.arena.methods import METHODS
from experiments.arena.train import Config, one_thread, shuffled, step, warm
from experiments.framework import Part, Row, Rows, Tasks
from experiments.statistics import rounded
from experiments.verdicts import paired, verdict


class Plan(NamedTuple):
    """A method as it is trained; test regrets are taken after some of the epochs, the last among them."""

    method: str
    tested: tuple[int, ...]
    config: Config | None = None  # the authors' settings by default

    @property
    def epochs(self) -> int:
        return self.tested[-1]


# What validation chose among ours on this data set when 50 of the examples were kept for it is the default at 2θ − c.
PLANS = {
    "SPO+": Plan("spo", (10,)),
    "CaVE+": Plan("cave", (3, 10)),
    "CaVE+, without cuts": Plan("cave", (3, 10), Config(1.0, {"inner": True, "cuts": False})),
    "movegrad at 2θ − c": Plan("ours-costs", (3, 10)),
    "movegrad at 2θ − c, 100 epochs": Plan("ours-costs", (30, 100)),
    "movegrad, labels": Plan("ours", (3, 10)),
    "movegrad, labels, 100 epochs": Plan("ours", (30, 100)),
}
REPORTED = {"SPO+": (0.0588, 1164.0), "CaVE+": (0.0544, 143.0)}  # by the notebook: regret and seconds, one run each
OURS = tuple(name for name in PLANS if name.startswith("movegrad"))
RIVALS = tuple(name for name in PLANS if name not in OURS)


@dataclass(frozen=True)
class Settings:
    """The notebook's data; plans and seeds decide which rows there are, not what is in them."""

    customers: int = 20
    seed: int = 42


def learned(board: Board, plan: Plan, seed: int) -> Row:
    """Seconds and test regrets after the plan's epochs; the clock is that of all other parts."""
    one_thread()
    torch.manual_seed(seed)
    method, net, features = METHODS[plan.method], board.model(), tensor(board.train.features)
    config = plan.config or method.default
    optimizer = torch.optim.Adam(net.parameters(), lr=config.rate * board.rate)
    warm(board, method.make, config, seed)
    begin = process_time()
    loss = method.make(board, seed, **config.options)
    spent, steps, row = process_time() - begin, shuffled(len(features), board.batch, seed), Row(clock={}, test={})
    for epoch in range(1, plan.epochs + 1):
        for _ in range(-(-len(features) // board.batch)):
            spent += step(net, optimizer, loss, features, next(steps))
        if epoch in plan.tested:
            row["clock"][str(epoch)], row["test"][str(epoch)] = spent, rounded(board.tested(net))
    return row


def tasks(cached: Path, plans: Sequence[str], seeds: Sequence[int], settings: Settings) -> Tasks:
    @cache
    def board() -> Board:
        return tours.cvrp(settings.customers, settings.seed, cached, valid=0)

    def row(name: str, seed: int) -> Row:
        return {"plan": name, "seed": seed, **learned(board(), PLANS[name], seed)}

    return {f"{name} | seed {seed}": partial(row, name, seed) for seed in seeds for name in plans}


def by_plan(rows: Rows) -> dict[str, list[Row]]:
    """Rows of each plan, by seed."""
    return {name: found for name in PLANS if (found := [row for row in rows.values() if row["plan"] == name])}


def regrets(rows: list[Row], epochs: int) -> np.ndarray:
    """(seeds, examples)"""
    return np.array([row["test"][str(epochs)] for row in rows])


def tables(settings: Settings, rows: Rows) -> list[Table]:
    """What was reached, beside what the notebook reports; then ours less each rival by seed and example."""
    found = by_plan(rows)
    reached = Table(title="CVRP-20 by the notebook's protocol: test regret of the last model")
    for name in ("method", "epochs", "seeds", "test regret, %", "processor seconds", "the notebook's regret", "its seconds"):
        reached.add_column(name)
    for name, made in found.items():
        for epochs in PLANS[name].tested:
            spent = np.mean([row["clock"][str(epochs)] for row in made])
            known = REPORTED.get(name, ()) if epochs == 10 else ()
            told = [f"{100.0 * known[0]:.2f} %", f"{known[1]:g}"] if known else ["–", "–"]
            level = paired(regrets(made, epochs)).scaled(100.0)
            reached.add_row(name, str(epochs), str(len(made)), str(level), f"{spent:.3g}", *told)
    return [reached, differences(found)]


def differences(found: dict[str, list[Row]]) -> Table:
    made = Table(title="ours − rival after the last epoch of each, points, paired 95 % interval over the seeds that both have")
    for name in ("ours", "rival", "seeds", "difference", "verdict"):
        made.add_column(name)
    for mine, rival in ((a, b) for a in OURS for b in RIVALS if a in found and b in found):
        both = sorted({row["seed"] for row in found[mine]} & {row["seed"] for row in found[rival]})
        first, second = (regrets([row for row in found[name] if row["seed"] in both], PLANS[name].epochs) for name in (mine, rival))
        if len(both) > 1:
            interval = paired(first - second)
            made.add_row(mine, rival, str(len(both)), str(interval.scaled(100.0)), verdict(interval))
    return made


def part(cached: Path, methods: Container[str], seeds: Sequence[int]) -> Part:
    plans = [name for name, plan in PLANS.items() if plan.method in methods]
    return Part("notebook", Settings(), partial(tasks, cached, plans, seeds), tables)
