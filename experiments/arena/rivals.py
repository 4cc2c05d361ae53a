"""Rivals, written after their papers, on the oracles of the board."""

from collections.abc import Callable
from functools import cache, partial
from itertools import count

import numpy as np
import torch
from torch import Tensor

import movegrad as mg
from experiments.arena.board import Board, tensor
from experiments.arena.cones import Cone, binding_normals, neighbors
from experiments.arena.oracles import Packing
from experiments.arena.registry import after, along, also_anchored, method, values
from experiments.arena.train import Loss


@method("mse", "MSE, two stages")
def mse(board: Board, seed: int) -> Loss:
    theta = tensor(board.train.theta)
    return lambda predicted, index: torch.nn.functional.mse_loss(predicted, theta[index])


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
method("spo-warm-long", "SPO+, warm heuristic, long", default={"steps": 10_000})(partial(warm_spo, annealed))
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


for name in ("spo", "spo-lp", "spo-warm"):
    also_anchored(name)
also_anchored("spo-warm-long", 0.1, (1.0,))
