"""Methods of ours: losses of chains, of one exact step, and the expected regret through the layer."""

import numpy as np
import torch
from torch import Tensor

import movegrad as mg
import movegrad.torch
from experiments.arena.board import Board, tensor
from experiments.arena.registry import after, also_anchored, method
from experiments.arena.train import Loss

OURS = "ours"  # how their names begin


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
@method(f"{OURS}-one-step-costs", "movegrad at 2θ − c, one step", default={"heat": 2.0, "costs": True}, heat=(0.5, 5.0))
def one_step(board: Board, seed: int, heat: float, costs: bool = False) -> Loss:
    """The exact loss of a chain of one step, whose outcomes from a label are listed once."""
    guided = board.problem.guided  # then they depend on θ
    loss = mg.torch.OneStepLoss(board.problem, heat * board.scale, keep=not guided)
    labels, theta = torch.from_numpy(board.solutions), tensor(board.train.theta)

    def at(predicted: Tensor, index: np.ndarray) -> Tensor:
        guide = predicted.detach() if guided else None
        return loss(2.0 * predicted - theta[index] if costs else predicted, labels[index], guide=guide)

    return at


@method(f"{OURS}-regret", "movegrad, expected regret", default={"steps": 1000, "heat": 0.5}, heat=(0.2, 1.0))
def expected_regret(board: Board, seed: int, steps: int, heat: float) -> Loss:
    """Minus the true worth ⟨c, E T(Y)⟩ of the layer's output, through its Jacobian; before that the loss at 2θ − c."""
    layer, theta = mg.torch.LocalSearchLayer(board.problem, steps, heat * board.scale, seed=seed), tensor(board.train.theta)

    def regret(predicted: Tensor, index: np.ndarray) -> Tensor:
        return -(layer(predicted, start=board.solutions[index]) * theta[index]).sum(1).mean()

    return after(board, local_search(board, seed, steps, 0.5, costs=True), regret)


also_anchored(f"{OURS}-costs")
also_anchored(f"{OURS}-long", 0.1, (1.0,), heat=0.2)
