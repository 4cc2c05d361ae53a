"""The registry of methods: each makes, from a board, a loss of predicted θ.

All losses are of θ, which is maximized. Where a method is known by its gradient g, the loss is ⟨θ, g⟩ with g held fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from experiments.arena.board import Board, tensor
from experiments.arena.train import Config, Loss

WIDEST = 2000  # variables of a cone
WARM_UP = 10  # epochs of the first of two losses


@dataclass(frozen=True)
class Method:
    """``default`` has the authors' settings; ``grid`` the configurations that tuning may choose from, nine or ten for everybody.

    ``needs``: the oracle or the preparation without which a board cannot have this method.
    """

    name: str
    title: str
    make: Callable[..., Loss]
    default: Config
    grid: tuple[Config, ...]
    needs: str = ""

    def missing(self, board: Board) -> str:
        """Why a board cannot have this method; nothing if it can."""
        there = {
            "": True,
            "exact": "exact" in board.oracles,
            "lp": "lp" in board.oracles,
            "guided": board.guided is not None,
            "cone": board.size <= WIDEST
            and ("normals" in board.extra or (board.relaxation is not None and board.relaxation.M is None)),
            "vertices": "vertices" in board.extra,
            "copies": "limits" in board.extra,
            "search": "search" in board.extra,
        }
        why = {
            "exact": "no exact solver ends in time",
            "lp": "no relaxation in closed form",
            "guided": "no guided moves",
            "cone": "its cone is in the variables of the program, of which T is a map, or they are too many",
            "vertices": "no list of adjacent vertices",
            "copies": "not several knapsack constraints",
            "search": "no other heuristic that can begin at a plan",
        }
        return "" if there[self.needs] else why[self.needs]


METHODS: dict[str, Method] = {}
RATES = {  # by the number of settings they are combined with
    1: (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
    2: (0.3, 1.0, 3.0, 10.0, 30.0),
    3: (1.0, 3.0, 10.0),
}


def method(name: str, title: str, needs: str = "", default: dict[str, Any] | None = None, **other: Any) -> Callable:
    """Put a function (board, seed, **options) → loss into the registry.

    ``other`` names an option and what tuning may take instead of the default: no value, one or two, with 10, 5 or 3 rates for each.
    """
    own = default or {}

    def put(make: Callable[..., Loss]) -> Callable[..., Loss]:
        settings = [own, *({**own, option: value} for option, values in other.items() for value in values)]
        grid = tuple(Config(rate, options) for options in settings for rate in RATES[len(settings)])
        METHODS[name] = Method(name, title, make, Config(1.0, own), grid, needs)
        return make

    return put


def along(predicted: Tensor, gradient: np.ndarray) -> Tensor:
    """The loss whose gradient at each example is given, in the mean over the batch."""
    return (predicted * tensor(gradient)).sum(1).mean()


def values(predicted: Tensor) -> np.ndarray:
    return predicted.detach().double().numpy()


# --- of two losses one -----------------------------------------------------------------------------------------------------


def anchored(make: Callable[..., Loss], board: Board, seed: int, anchor: float, **options: Any) -> Loss:
    """Another loss, with ``anchor`` times the squares of θ − c in units of the deviation of c: decisions do not tell all costs."""
    loss, theta = make(board, seed, **options), tensor(board.train.theta)
    weight = 0.5 * anchor / float(board.train.theta.std())
    return lambda predicted, index: loss(predicted, index) + weight * (predicted - theta[index]).square().sum(1).mean()


def after(board: Board, first: Loss, second: Loss) -> Loss:
    """One loss for the first ``WARM_UP`` epochs, then another, which would not learn from a random model."""
    seen = 0
    few = np.arange(min(2, len(board.labels)))
    second(tensor(board.train.theta[few]).requires_grad_(), few).backward()  # compiled before the clock begins

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        nonlocal seen
        seen += len(index)
        return (first if seen <= WARM_UP * len(board.labels) else second)(predicted, index)

    return at


def also_anchored(name: str, anchor: float = 1.0, others: tuple[float, ...] = (0.1, 10.0), **changed: Any) -> None:
    """Put a method into the registry once more, with least squares beside its loss; ``others``: anchors that tuning may take."""
    bare = METHODS[name]
    default = {**bare.default.options, **changed, "anchor": anchor}
    put = method(f"{name}-anchored", f"{bare.title}, with least squares", bare.needs, default, anchor=others)
    put(partial(anchored, bare.make))
