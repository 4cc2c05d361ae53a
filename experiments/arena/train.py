"""One training loop for every method: a clock of processor time, models kept at checkpoints, the best of them by validation."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

import movegrad as mg
from experiments.arena.board import Board, tensor

Loss = Callable[[Tensor, np.ndarray], Tensor]  # predicted θ (B, d) and which training examples → mean loss
FIRST, RATIO = 0.05, 2.0  # seconds at the first checkpoint, and from one to the next
PATIENCE = 4  # checkpoints without a better model, after which a run ends: at 16 times the seconds of the best one


class Config(NamedTuple):
    """``rate`` is a multiple of the board's; ``options`` are the method's own."""

    rate: float = 1.0
    options: dict[str, Any] = {}

    @property
    def key(self) -> str:
        return ", ".join(
            f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in {"rate": self.rate, **self.options}.items()
        )


@dataclass
class Run:
    """What a run leaves: checkpoints' seconds, epochs and validation regrets, and the model that was best until each."""

    seconds: list[float] = field(default_factory=list)
    epochs: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    best: list[int] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    prepared: float = 0.0  # seconds before the first step, which are part of all the others
    epochs_done: float = 0.0  # of the model that is kept
    worse: int = 0  # new models since the best one
    last: dict[str, Tensor] = field(default_factory=dict)
    tested: dict[int, list[float]] = field(default_factory=dict)  # test regrets by model


def train(board: Board, make: Callable[..., Loss], config: Config, seed: int, limit: float, rate: float | None = None) -> Run:
    """Train for ``limit`` processor seconds of this process, or until validation no longer improves.

    The clock counts what a user pays: preparing the loss, predictions, loss, backward and step. Validation is not counted, for
    anybody, nor is compiling, which happens once on a machine. A step that begins before a checkpoint and ends after it belongs to
    the next one: what is shown at a time was there at that time.
    """
    one_thread()
    torch.manual_seed(seed)
    net, features, run = board.model(), tensor(board.train.features), Run()
    optimizer = torch.optim.Adam(net.parameters(), lr=config.rate * (board.rate if rate is None else rate))
    warm(board, make, config, seed)
    begin = process_time()
    loss = make(board, seed, **config.options)
    spent = run.prepared = process_time() - begin
    steps, done, kept = shuffled(len(features), board.batch, seed), 0, copy.deepcopy(net.state_dict())
    for due in marks(limit):
        while spent < due:
            index, kept, run.epochs_done = next(steps), copy.deepcopy(net.state_dict()), done / len(features)
            spent += step(net, optimizer, loss, features, index)
            done += len(index)
        check(board, run, net, kept, due)
        if run.worse >= PATIENCE:
            break
    return run


def one_thread() -> None:
    """Threads that wait for work would be charged to those who use them: PyTorch's, ours, NumPy's BLAS."""
    torch.set_num_threads(1)
    mg.set_threads(1)
    threadpool_limits(1)


def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: Loss, features: Tensor, index: Tensor) -> float:
    """One batch; the processor seconds it took."""
    begin = process_time()
    value = loss(net(features[index]), index.numpy())
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return process_time() - begin


def marks(limit: float) -> list[float]:
    """Seconds of checkpoints: in a fixed ratio, and the limit."""
    count = max(0, math.ceil(math.log(limit / FIRST, RATIO) - 1e-9))
    return [FIRST * RATIO**k for k in range(count)] + [limit]


def shuffled(n: int, size: int, seed: int) -> Iterator[Tensor]:
    """Batches of all examples in a random order, again and again."""
    order = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(n, generator=order).split(size)


def warm(board: Board, make: Callable[..., Loss], config: Config, seed: int) -> None:
    """One call outside the clock: kernels are compiled."""
    few = np.arange(min(2, len(board.labels)))
    loss = make(board, seed, **config.options)
    loss(torch.zeros(len(few), board.size, requires_grad=True), few).backward()


def check(board: Board, run: Run, net: torch.nn.Module, state: dict[str, Tensor], seconds: float) -> None:
    """Validate the model that was there when the time was up."""
    if run.models and all(torch.equal(state[name], run.last[name]) for name in state):
        regret = run.valid[-1]  # a step takes longer than from one checkpoint to the next
    else:
        run.worse += 1
        there = copy.deepcopy(net.state_dict())
        net.load_state_dict(state)
        regret = board.validated(net)
        net.load_state_dict(there)
    better = not run.valid or regret < run.valid[run.best[-1]]
    run.worse = 0 if better else run.worse
    run.best.append(len(run.valid) if better else run.best[-1])
    run.seconds.append(seconds)
    run.epochs.append(run.epochs_done)
    run.valid.append(regret)
    run.models.append(state if better else None)
    run.last = state
