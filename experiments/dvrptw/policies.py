"""Policies give each open request a prize; +∞ sends it out, −∞ keeps it. A solver then plans the wave."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.dvrptw.data import Source
from experiments.dvrptw.environment import Wave
from experiments.dvrptw.features import features
from experiments.store import FETCH, read_arrays, understood

Prizes = Callable[[Wave, np.random.Generator], np.ndarray]
SIMPLE = ("greedy", "lazy", "random")
NAMES = (*SIMPLE, "kleopatra", "network")


@dataclass(frozen=True)
class Policy:
    """By name; "network" needs the folder of a trained model."""

    name: str
    model: str | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"policy must be one of {', '.join(NAMES)}, got {self.name!r}.")
        if (self.name == "network") != (self.model is not None):
            raise ValueError(f"policy {self.name!r} {'needs' if self.model is None else 'has no'} model, got {self.model!r}.")

    def describe(self) -> dict[str, Any]:
        """What its decisions depend on: name, and the content of the model rather than where it lies."""
        return {"policy": self.name} if self.model is None else {"policy": self.name, "model": digest(Path(self.model))}


def digest(folder: Path) -> str:
    """Hash of a stored model."""
    parts = (folder / "model.json", folder / "weights.npz")
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def prizes_of(policy: Policy, source: Source) -> Prizes:
    """The function (wave, generator) → prizes (n,)."""
    if policy.name == "kleopatra":
        if source.folder is None:
            raise ValueError("the published network needs the competition's data, got --data synthetic.")
        network = published_network(source.folder)
        return lambda wave, rng: network(features(wave)[1:])
    if policy.name == "network":
        return _network(str(policy.model), digest(Path(str(policy.model))))
    return {"greedy": greedy, "lazy": lazy, "random": coin}[policy.name]


def greedy(wave: Wave, rng: np.random.Generator) -> np.ndarray:
    """Serve all."""
    return np.full(len(wave), np.inf)


def lazy(wave: Wave, rng: np.random.Generator) -> np.ndarray:
    """Serve what must go."""
    return np.full(len(wave), -np.inf)


def coin(wave: Wave, rng: np.random.Generator) -> np.ndarray:
    """Serve what must go and, of the others, each with probability one half."""
    return np.where(rng.random(len(wave)) < 0.5, np.inf, -np.inf)


@lru_cache(maxsize=2)
def published_network(folder: Path) -> Callable[[np.ndarray], np.ndarray]:
    """Kleopatra's network 20-10-10-10-10-1: ReLU between layers, no bias in the last."""
    path = folder / "kleopatra_nn.npz"
    saved = read_arrays(path, cure=FETCH)
    with understood(path, FETCH):
        weights = [saved[f"w{i}"].astype(float) for i in range(5)]
        biases = [saved[f"b{i}"].astype(float) for i in range(4)]

    def network(x: np.ndarray) -> np.ndarray:
        for weight, bias in zip(weights[:-1], biases, strict=True):
            x = np.maximum(x @ weight + bias, 0.0)
        return (x @ weights[-1])[:, 0]

    return network


@lru_cache(maxsize=8)
def _network(folder: str, content: str) -> Prizes:
    from experiments.dvrptw.models import load, predict  # imports PyTorch only where it is needed

    model = load(Path(folder))
    return lambda wave, rng: predict(model, wave)
