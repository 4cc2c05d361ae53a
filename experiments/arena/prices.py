"""Knapsack of energy prices (PredOpt, JAIR 2024): 48 items, 789 days, ten splits."""

from pathlib import Path

import numpy as np

import movegrad as mg
from experiments.arena.board import Board, Linear, divided, standardized
from experiments.arena.cache import there
from experiments.arena.oracles import Filling, Packing

TRAIN, VALID, TEST = 550, 100, 139
CAPACITIES = (60, 120, 180)


def load(data: Path | None, split: int) -> dict[str, np.ndarray]:
    """The days in the order of a split; without data, days of the same kind from a generator."""
    if data is not None:
        with np.load(there(data / "knapsack-real" / "knapsack48.npz")) as file:
            order = file["perm_seed0to9"][split]
            scaled = standardized(file["features"].astype(float), slice(0, 552))
            return {"features": scaled[order], "values": file["value"][order].astype(float), "weights": file["weights"].astype(int)}
    rng = np.random.default_rng(split)
    features = rng.standard_normal((789, 48, 8))
    price = np.maximum(50.0 + 15.0 * features @ rng.standard_normal(8) / 3 + 12.0 * rng.standard_normal((789, 48)), 0.0)
    weights = rng.permutation(np.repeat([3, 5, 7], 16))
    return {"features": features, "values": price * (weights + rng.uniform(-1, 1, price.shape)), "weights": weights}


def board(data: Path | None, capacity: int, split: int) -> Board:
    """By PredOpt's protocol: 550, 100 and 139 days, a linear map of the 8 features of an item, batches of 128."""
    given = load(data, split)
    weights, exact = given["weights"], Packing(given["weights"], capacity)

    labels = exact(given["values"])
    train, valid, test = divided(given["features"], given["values"], labels, TRAIN, VALID, TEST)
    return Board(
        name=f"energy knapsack, capacity {capacity}",
        train=train,
        valid=valid,
        test=test,
        labels=labels[:TRAIN],
        solutions=labels[:TRAIN].astype(np.uint8),
        problem=mg.problems.Knapsack(weights[None], [capacity]),
        guided=mg.problems.Knapsack(weights[None], [capacity], moves=("swap", "flip", "guided swap", "guided flip")),
        model=lambda: Linear(8, 1),
        decide=exact,
        oracles={"exact": exact, "lp": Filling(weights, capacity)},
        rate=1.0,
        batch=128,
    )
