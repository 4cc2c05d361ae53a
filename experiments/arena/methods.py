"""The methods: each makes, from a board, a loss of predicted θ. Rivals are written after their papers, on the oracles of the board.

All losses are of θ, which is maximized. Where a rival is known by its gradient g, the loss is ⟨θ, g⟩ with g held fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

import movegrad as mg
import movegrad.torch
from experiments.arena.board import Board, tensor
from experiments.arena.cones import Cone, binding_normals, neighbors
from experiments.arena.oracles import Packing
from experiments.arena.train import Config, Loss

OURS = "ours"
WIDEST = 2000  # variables of a cone


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


# --- ours ------------------------------------------------------------------------------------------------------------------


@method(f"{OURS}", "movegrad, labels", default={"steps": 1000, "heat": 0.5}, heat=(0.1, 2.0))
@method(f"{OURS}-costs", "movegrad at 2θ − c", default={"steps": 1000, "heat": 0.5, "costs": True}, heat=(0.1, 2.0))
@method(f"{OURS}-cool", "movegrad at 2θ − c, cool", default={"steps": 1000, "heat": 0.1, "costs": True})
@method(f"{OURS}-long", "movegrad at 2θ − c, long chains", default={"steps": 10_000, "heat": 0.5, "costs": True}, heat=(0.1, 2.0))
@method(f"{OURS}-short", "movegrad at 2θ − c, short chains", default={"steps": 100, "heat": 0.1, "costs": True}, heat=(0.03,))
@method(f"{OURS}-guided", "movegrad, guided moves", "guided", default={"steps": 1000, "heat": 0.5, "guided": True}, heat=(0.1, 2.0))
def local_search(board: Board, seed: int, steps: int, heat: float, costs: bool = False, guided: bool = False) -> Loss:
    """Chains from the label; ``heat`` is the temperature in units of what a move changes."""
    problem = board.guided if guided and board.guided is not None else board.problem
    layer = mg.torch.LocalSearchLayer(problem, steps, temperature=heat * board.scale, seed=seed)
    loss, labels, theta = mg.torch.FenchelYoungLoss(layer), torch.from_numpy(board.solutions), tensor(board.train.theta)

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        return loss(2.0 * predicted - theta[index] if costs else predicted, labels[index], index=index)

    return at


@method(f"{OURS}-one-step", "movegrad, one step", default={"heat": 0.5}, heat=(0.1, 2.0))
def one_step(board: Board, seed: int, heat: float) -> Loss:
    """The exact loss of a chain of one step."""
    loss, labels = mg.torch.OneStepLoss(board.problem, heat * board.scale), torch.from_numpy(board.solutions)
    guided = board.problem.guided

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        return loss(predicted, labels[index], guide=predicted.detach() if guided else None)

    return at


# --- two stages ------------------------------------------------------------------------------------------------------------


@method("mse", "MSE, two stages")
def mse(board: Board, seed: int) -> Loss:
    theta = tensor(board.train.theta)
    return lambda predicted, index: torch.nn.functional.mse_loss(predicted, theta[index])


def anchored(make: Callable[..., Loss], board: Board, seed: int, anchor: float, **options: Any) -> Loss:
    """Another loss, with ``anchor`` times the squares of θ − c in units of the deviation of c: decisions do not tell all costs."""
    loss, theta = make(board, seed, **options), tensor(board.train.theta)
    weight = 0.5 * anchor / float(board.train.theta.std())
    return lambda predicted, index: loss(predicted, index) + weight * (predicted - theta[index]).square().sum(1).mean()


# --- oracles in training -----------------------------------------------------------------------------------------------------


@method("spo", "SPO+", "exact", default={"oracle": "exact"})
@method("spo-lp", "SPO+, relaxed", "lp", default={"oracle": "lp"})
def spo(board: Board, seed: int, oracle: str) -> Loss:
    """Gradient 2(y(2θ − c) − y*)."""
    solve = board.oracles[oracle]
    best = np.full(board.labels.shape, np.nan) if oracle == "lp" else board.labels

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        new = index[np.isnan(best[index, 0])]  # relaxed optima, solved for where they are needed first
        if len(new):
            best[new] = solve(board.train.theta[new])
        return along(predicted, 2.0 * (solve(2.0 * values(predicted) - board.train.theta[index]) - best[index]))

    return at


@method("pfy", "perturbed FY", "exact", default={"oracle": "exact", "samples": 1, "noise": 0.1}, noise=(0.5, 2.0))
@method("pfy-lp", "perturbed FY, relaxed", "lp", default={"oracle": "lp", "samples": 1, "noise": 0.1}, noise=(0.5, 2.0))
def perturbed(board: Board, seed: int, oracle: str, samples: int, noise: float) -> Loss:
    """Gradient E y(θ + σξ) − y*, with σ in units of the deviation of true θ."""
    solve, rng, sigma = board.oracles[oracle], np.random.default_rng(seed), noise * float(board.train.theta.std())

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        theta = values(predicted)
        noisy = theta + sigma * rng.standard_normal((samples, *theta.shape))
        found = solve(noisy.reshape(-1, board.size)).reshape(noisy.shape).mean(0)
        return along(predicted, found - board.labels[index])

    return at


Warm = Callable[[np.ndarray, np.ndarray], np.ndarray]  # θ (B, d) and which examples → T(y) that is found from their labels


def annealed(board: Board, seed: int, steps: int) -> Warm:
    """Annealing that begins at the label, with the moves, steps and temperature of ours."""
    calls, cooling = count(), mg.schedules.Annealing(0.5 * board.scale, 0.005 * board.scale)

    def solve(theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        start, number = board.solutions[index], next(calls) * 1009 + seed
        return board.problem.statistic(
            mg.solve(board.problem, theta, steps=steps, schedule=cooling, start=start, seed=number).solution
        )

    return solve


def searched(board: Board, seed: int, iterations: int) -> Warm:
    """The best heuristic of others, from the label."""
    calls, search = count(), board.extra["search"]
    return lambda theta, index: search(theta, board.solutions[index], iterations, next(calls) * 1009 + seed)


def warm_spo(heuristic: Callable[..., Warm], board: Board, seed: int, **effort: int) -> Loss:
    """SPO+ with a heuristic that begins at the label in place of the solver."""
    solve = heuristic(board, seed, **effort)

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        found = solve(2.0 * values(predicted) - board.train.theta[index], index)
        return along(predicted, 2.0 * (found - board.labels[index]))

    return at


def warm_perturbed(heuristic: Callable[..., Warm], board: Board, seed: int, noise: float, **effort: int) -> Loss:
    """Perturbed Fenchel-Young with a heuristic that begins at the label in place of the solver."""
    solve, rng, sigma = heuristic(board, seed, **effort), np.random.default_rng(seed), noise * float(board.train.theta.std())

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        theta = values(predicted)
        return along(predicted, solve(theta + sigma * rng.standard_normal(theta.shape), index) - board.labels[index])

    return at


method("spo-warm", "SPO+, warm heuristic", default={"steps": 1000})(partial(warm_spo, annealed))
method("spo-pyvrp", "SPO+, PyVRP from the label", "search", {"iterations": 10}, iterations=(0, 100))(partial(warm_spo, searched))
for name, title, needs, effort, heuristic in (
    ("pfy-warm", "perturbed FY, warm heuristic", "", {"steps": 1000}, annealed),
    ("pfy-pyvrp", "perturbed FY, PyVRP from the label", "search", {"iterations": 10}, searched),
):
    method(name, title, needs, {**effort, "noise": 0.1}, noise=(0.5, 2.0))(partial(warm_perturbed, heuristic))


@method("reinforce", "score function", "exact", default={"oracle": "exact", "samples": 4, "noise": 0.1}, noise=(0.5, 2.0))
def reinforce(board: Board, seed: int, oracle: str, samples: int, noise: float) -> Loss:
    """E of the regret at θ + σξ by its score function, with the mean of the samples as baseline."""
    solve, rng, sigma = board.oracles[oracle], np.random.default_rng(seed), noise * float(board.train.theta.std())
    unit = float(np.abs(board.train.best).mean())

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        theta = values(predicted)
        noise = rng.standard_normal((samples, *theta.shape))
        found = solve((theta + sigma * noise).reshape(-1, board.size)).reshape(noise.shape)
        lost = (board.train.best[index] - (found * board.train.theta[index]).sum(-1)) / unit
        lost -= lost.mean(0)
        return along(predicted, (lost[..., None] * noise).sum(0) / ((samples - 1) * sigma))

    return at


# --- the regret itself, after a convex loss -----------------------------------------------------------------------------------


WARM_UP = 10  # epochs


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


@method(f"{OURS}-regret", "movegrad, expected regret", default={"steps": 1000, "heat": 0.5}, heat=(0.2, 1.0))
def expected_regret(board: Board, seed: int, steps: int, heat: float) -> Loss:
    """Minus the true worth ⟨c, E T(Y)⟩ of the layer's output, through its Jacobian; before that the loss at 2θ − c."""
    layer, theta = mg.torch.LocalSearchLayer(board.problem, steps, heat * board.scale, seed=seed), tensor(board.train.theta)

    def regret(predicted: Tensor, index: np.ndarray) -> Tensor:
        return -(layer(predicted, start=board.solutions[index]) * theta[index]).sum(1).mean()

    return after(board, local_search(board, seed, steps, 0.5, costs=True), regret)


@method("reinforce-spo", "score function after SPO+", "exact", default={"samples": 4, "noise": 0.1}, noise=(0.5, 2.0))
def reinforce_after_spo(board: Board, seed: int, samples: int, noise: float) -> Loss:
    """What :func:`expected_regret` is to ours, with an exact solver."""
    return after(board, spo(board, seed, "exact"), reinforce(board, seed, "exact", samples, noise))


# --- pools of solutions ------------------------------------------------------------------------------------------------------


class Pool:
    """Solutions seen so far; a batch is solved for with probability ``ratio``."""

    def __init__(self, board: Board, seed: int, ratio: float, oracle: str) -> None:
        self.solve, self.ratio, self.rng = board.oracles[oracle], ratio, np.random.default_rng(seed)
        self.kept: dict[bytes, np.ndarray] = {}
        self.add(board.labels)

    def add(self, solutions: np.ndarray) -> None:
        before = len(self.kept)
        self.kept.update({y.tobytes(): y for y in solutions})
        if len(self.kept) > before:
            self.tensor = tensor(np.array(list(self.kept.values())))

    def grown(self, theta: np.ndarray) -> Tensor:
        if self.rng.random() < self.ratio:
            self.add(self.solve(theta))
        return self.tensor


POOL = {"ratio": 0.05, "oracle": "exact"}


@method("nce", "NCE", "exact", default=POOL, ratio=(0.2,))
def nce(board: Board, seed: int, ratio: float, oracle: str) -> Loss:
    """Mean over the pool of ⟨θ, y − y*⟩."""
    pool, labels = Pool(board, seed, ratio, oracle), tensor(board.labels)
    return lambda predicted, index: ((pool.grown(values(predicted)).mean(0) - labels[index]) * predicted).sum(1).mean()


@method("ltr-list", "listwise ranking", "exact", default={**POOL, "heat": 1.0}, heat=(0.1,))
def listwise(board: Board, seed: int, ratio: float, oracle: str, heat: float) -> Loss:
    """Cross-entropy of softmax ⟨θ, y⟩ against that of the true θ over the pool, in units of what a move changes."""
    pool, theta, unit = Pool(board, seed, ratio, oracle), tensor(board.train.theta), heat * board.scale

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        y = pool.grown(values(predicted)).T
        target = torch.softmax(theta[index] @ y / unit, 1)
        return -(target * torch.log_softmax(predicted @ y / unit, 1)).sum(1).mean()

    return at


@method("ltr-pair", "pairwise ranking", "exact", default={**POOL, "margin": 0.0}, margin=(0.1, 1.0))
def pairwise(board: Board, seed: int, ratio: float, oracle: str, margin: float) -> Loss:
    """Mean over the pool of max(0, margin + ⟨θ, y − y*⟩), with the margin in units of what a move changes."""
    pool, labels, gap = Pool(board, seed, ratio, oracle), tensor(board.labels), margin * board.scale

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        worth = predicted @ pool.grown(values(predicted)).T - (predicted * labels[index]).sum(1, keepdim=True)
        return torch.relu(worth + gap).mean()

    return at


# --- the geometry at the label --------------------------------------------------------------------------------------------------


@method("cave", "CaVE+", "cone", default={"inner": True}, inner=(False,), cuts=(False,))
def cave(board: Board, seed: int, inner: bool, cuts: bool = True) -> Loss:
    """1 − cos of θ and its projection on the cone of what is binding at the label (inner: stopped after three iterations).

    ``cuts``: with those of tours and plans, or without them, which takes less time; a solver adds some of them.
    """

    @cache
    def cone(i: int) -> Cone:  # made where it is needed first: all of them may fill the memory
        return Cone(binding_normals(board, i, cuts))

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        target = tensor(np.array([cone(int(i)).project(y, inner) for i, y in zip(index, values(predicted), strict=True)]))
        return (1.0 - torch.nn.functional.cosine_similarity(predicted, target)).mean()

    return at


@method("lava", "LAVA", "vertices", default={"threshold": 0.1}, threshold=(1.0, 10.0))
def lava(board: Board, seed: int, threshold: float) -> Loss:
    """Adjacent vertices v of the relaxation's optimum w are to be worse by ε: mean of max(⟨θ, v − w⟩, −ε)."""
    vertices, optima = neighbors(board)
    best = tensor(optima)

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        most = max(len(vertices[i]) for i in index)
        padded = torch.zeros(len(index), most, board.size)
        for row, i in enumerate(index):
            padded[row, : len(vertices[i])] = vertices[i] - best[i]
        gap = (padded * predicted[:, None]).sum(2)
        return torch.where(gap >= -threshold, gap, 0.0).mean()

    return at


# --- Lagrangian decomposition -----------------------------------------------------------------------------------------------


@method("dfl-ld", "DFL-LD", "copies", default={"iterations": 300})
def decomposition(board: Board, seed: int, iterations: int) -> Loss:
    """SPO+ on the first constraint alone, with multipliers of the others added to values, predicted and true.

    The multipliers minimize the bound Σ max over each constraint of its share of the values; Adam with rate 0.01 from 1, as the
    authors have it, with fewer iterations than their 10,000: the clock counts them.
    """
    weights, limits, theta = board.extra["weights"], board.extra["limits"], board.train.theta
    packs = [Packing(w, c) for w, c in zip(weights, limits, strict=True)]
    moved = torch.ones((len(packs) - 1, *theta.shape), dtype=torch.double, requires_grad=True)
    adam = torch.optim.Adam([moved], lr=0.01)
    for _ in range(iterations):
        share = moved.detach().numpy()
        first = packs[0](theta + share.sum(0))
        rest = np.array([pack(-part) for pack, part in zip(packs[1:], share, strict=True)])
        moved.grad = torch.from_numpy(first - rest)
        adam.step()
    added = moved.detach().numpy().sum(0)
    best = packs[0](theta + added)

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        true = theta[index] + added[index]
        found = packs[0](2.0 * (values(predicted) + added[index]) - true)
        return along(predicted, 2.0 * (found - best[index]))

    return at


# --- losses of decisions with least squares beside them ------------------------------------------------------------------------


for name in (f"{OURS}-costs", "spo", "spo-lp", "spo-warm"):
    bare = METHODS[name]
    more = {"default": {**bare.default.options, "anchor": 1.0}, "anchor": (0.1, 10.0)}
    method(f"{name}-anchored", f"{bare.title}, with least squares", bare.needs, **more)(partial(anchored, bare.make))
