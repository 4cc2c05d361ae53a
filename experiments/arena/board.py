"""A board: one data set of a benchmark, with all that a method may use. Everything is maximized: θ is minus the costs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

import movegrad as mg

Oracle = Callable[[np.ndarray], np.ndarray]  # θ (B, d) → T(y) (B, d) of the best solutions, or of relaxed ones
PROBES = 64  # labels from which moves are drawn to learn their scale


class Examples(NamedTuple):
    """Features (N, …), true θ (N, d), and what the best decisions are worth (N,)."""

    features: np.ndarray
    theta: np.ndarray
    best: np.ndarray

    def regret(self, decisions: np.ndarray) -> np.ndarray:
        """What each decision loses, as a share of the mean of |best|: the mean of this is PyEPO's normalized regret."""
        return (self.best - (self.theta * decisions).sum(1)) / np.abs(self.best).mean()


def divided(features: np.ndarray, theta: np.ndarray, taken: np.ndarray, *sizes: int) -> list[Examples]:
    """Examples one after another into parts of given sizes; ``taken`` are T(y) of the best decisions."""
    best = (theta * taken).sum(1)
    ends = np.cumsum((0, *sizes))
    return [Examples(features[a:b], theta[a:b], best[a:b]) for a, b in pairwise(ends)]


class Relaxation(NamedTuple):
    """{x ≥ 0: A x ≤ b, E x = f}, and T = M x; M is None if T is x."""

    A: csr_matrix | None
    b: np.ndarray | None
    E: csr_matrix | None = None
    f: np.ndarray | None = None
    upper: float = 1.0
    M: csr_matrix | None = None


@dataclass
class Board:
    """``labels`` are T(y) of the training solutions. ``oracles``: what rivals may call in training, by name, "exact" and "lp".

    ``decide`` turns every method's predictions into decisions when regret is measured, ``validate`` where models are chosen, if
    that is to be faster. ``rate`` is the learning rate of Adam by the benchmark's authors, and ``batch`` their batch size.
    """

    name: str
    train: Examples
    valid: Examples
    test: Examples
    labels: np.ndarray
    solutions: np.ndarray
    problem: mg.Problem
    model: Callable[[], nn.Module]
    decide: Oracle
    oracles: dict[str, Oracle]
    rate: float
    batch: int = 32
    validate: Oracle | None = None
    guided: mg.Problem | None = None
    relaxation: Relaxation | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.labels.shape[1]

    @cached_property
    def scale(self) -> float:
        """Median of |⟨θ, T(y′) − T(y)⟩| over moves y → y′ from labels: what a temperature is compared with."""
        n = min(PROBES, len(self.solutions))
        run = mg.sample(
            self.problem, np.zeros((n, self.size)), steps=1, chains=8, start=self.solutions[:n, None].repeat(8, 1), seed=1, trace=0
        )
        moved = self.problem.statistic(run.solutions) - self.labels[:n, None]
        gains = np.abs((moved * self.train.theta[:n, None]).sum(-1))
        return float(np.median(gains[gains > 0]))

    def predict(self, net: nn.Module, examples: Examples) -> np.ndarray:
        with torch.no_grad():
            return net(tensor(examples.features)).double().numpy()

    def tested(self, net: nn.Module) -> np.ndarray:
        """Regrets of the test examples, (N,)."""
        return self.test.regret(self.decide(self.predict(net, self.test)))

    def validated(self, net: nn.Module) -> float:
        """Mean regret of the validation examples."""
        return float(self.valid.regret((self.validate or self.decide)(self.predict(net, self.valid))).mean())


def tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


class Linear(nn.Module):
    """One linear map from features to θ, sign −1 where it predicts costs; features (N, n, p) give a value for each of n rows."""

    def __init__(self, inputs: int, outputs: int, sign: float = 1.0) -> None:
        super().__init__()
        self.map, self.sign = nn.Linear(inputs, outputs), sign

    def forward(self, features: Tensor) -> Tensor:
        predicted = self.map(features)
        return self.sign * (predicted.squeeze(-1) if features.ndim == 3 else predicted)


def standardized(features: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
    """By the mean and deviation of some rows, as scikit-learn's scaler does it."""
    flat = features[rows].reshape(-1, features.shape[-1])
    deviation = flat.std(0)
    return (features - flat.mean(0)) / np.where(deviation > 0, deviation, 1.0)
