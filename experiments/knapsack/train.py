"""Train one method, choose its best epoch on validation, measure regret, time and the variance of gradients."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import movegrad as mg
from experiments.knapsack.data import FOLDER, Examples, Instances, load
from experiments.knapsack.methods import Batch, Context, Loss, Method, Schedule
from experiments.knapsack.settings import Limited, Settings, Size
from experiments.knapsack.solvers import Pool
from experiments.statistics import rounded

NAN = float("nan")
CHECKS = 20  # validations in a run, however long


@dataclass
class Bench:
    """What all runs share; labels are computed when the first run needs them. ``mip_limit``: seconds of a MIP solve in training."""

    size: Size
    mip_limit: float = 0.05
    workers: int | None = None
    folder: Path = FOLDER
    _pool: Pool | None = field(default=None, repr=False)

    @cached_property
    def instances(self) -> Instances:
        instances, self._pool = load(self.size.data, self.workers, self.folder)
        return instances

    @property
    def pool(self) -> Pool:
        self.label()  # makes it
        assert self._pool is not None
        return self._pool

    def context(self, seed: int) -> Context:
        return Context(self.instances, seed, self.size.training.decide.solver, self.mip_limit)

    @property
    def settings(self) -> Settings:
        return Settings(self.size.data, self.size.training, self.mip_limit)

    def label(self, missing: object = None) -> None:
        """Labels, which have a progress bar of their own, before anything else is computed."""
        _ = self.instances


def tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


class Tensors:
    """The training set in batches."""

    def __init__(self, examples: Examples) -> None:
        self.features = tensor(examples.features)
        self.targets = Batch(tensor(examples.costs), tensor(examples.labels), tensor(examples.objectives[:, None]))

    def rows(self, index: Tensor) -> tuple[Tensor, Batch]:
        return self.features[index], Batch(*(t[index] for t in self.targets))

    def shuffled(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Batch]]:
        for index in torch.randperm(len(self.features), generator=generator).split(size):
            yield self.rows(index)


def network(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """Two hidden layers."""
    layers = (nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    return nn.Sequential(*layers)


def regret(net: nn.Module, examples: Examples, pool: Pool, decide: Limited) -> float:
    """Value lost against the labels, relative to theirs: Σ ⟨c, y − ŷ⟩ / Σ ⟨c, y⟩, as PyEPO has it."""
    return float(regrets(predicted(net, examples), examples, pool, decide).mean())


def predicted(net: nn.Module, examples: Examples) -> np.ndarray:
    """Values (n, d)."""
    with torch.no_grad():
        return net(tensor(examples.features)).double().numpy()


def regrets(theta: np.ndarray, examples: Examples, pool: Pool, decide: Limited) -> np.ndarray:
    """(n,): what is lost on each instance by decisions for values θ, over the mean value of the labels; regret is their mean."""
    decisions, _ = pool.solve(decide.solver, decide.limit, theta)
    return (examples.objectives - (examples.costs * decisions).sum(1)) / examples.objectives.mean()


def gradient_noise(net: nn.Module, loss: Loss, data: tuple[Tensor, Batch], repeats: int) -> tuple[float, float]:
    """Per example, over repeated calls at the same θ: tr Cov(g) of the gradient in θ, and the same over ‖mean g‖²."""
    features, batch = data
    theta = net(features).detach().requires_grad_()
    calls = [torch.autograd.grad(loss(theta, batch), theta)[0] * len(theta) for _ in range(repeats)]
    g = torch.stack(calls).double()
    variance = float(g.var(0).sum(1).mean())
    square = float((g.mean(0) ** 2).sum(1).mean()) - variance / repeats  # without the share of noise in ‖mean‖²
    return variance, variance / square if square > 0 else NAN


def batch_noise(net: nn.Module, loss: Loss, batches: list[tuple[Tensor, Batch]]) -> tuple[float, float]:
    """Over different batches, a call each: tr Cov(g) of the gradient in the weights, and the same over ‖mean g‖².

    What a step of the optimizer sees: that examples differ, and the noise of :func:`gradient_noise`, divided by the batch.
    """
    if len(batches) < 2:
        return NAN, NAN
    weights = list(net.parameters())
    calls = [torch.cat([p.flatten() for p in torch.autograd.grad(loss(net(x), batch), weights)]) for x, batch in batches]
    g = torch.stack(calls).double()
    variance = float(g.var(0).sum())
    square = float((g.mean(0) ** 2).sum()) - variance / len(g)
    return variance, variance / square if square > 0 else NAN


def one_epoch(net: nn.Module, optimizer: torch.optim.Optimizer, loss: Loss, batches: Iterator[tuple[Tensor, Batch]]) -> float:
    """Seconds of training that the process had a core: it has one thread, and other work on the machine does not count."""
    begin = process_time()
    for features, batch in batches:
        optimizer.zero_grad()
        loss(net(features), batch).backward()
        optimizer.step()
    return process_time() - begin


def prepare(bench: Bench, method: Method, seed: int) -> tuple[nn.Module, Schedule, torch.optim.Optimizer, Any]:
    """Network, schedule, optimizer and what sets its learning rate."""
    settings, instances = bench.size.training, bench.instances
    torch.manual_seed(seed)
    net = network(instances.train.features.shape[1], settings.hidden, instances.train.costs.shape[1])
    schedule = method.schedule or Schedule(settings.epochs, settings.rate)
    optimizer = torch.optim.Adam(net.parameters(), schedule.rate)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, schedule.epochs)
    return net, schedule, optimizer, fall if method.schedule else None


def train(bench: Bench, method: Method, seed: int, test: bool = True) -> dict[str, Any]:
    """One run: lists over epochs, and the test regret of the epoch that validation prefers, among ``CHECKS`` of them."""
    settings, instances = bench.size.training, bench.instances
    torch.set_num_threads(1)
    mg.set_threads(1)  # PyEPO's losses have one process
    net, schedule, optimizer, fall = prepare(bench, method, seed)
    loss, data, generator = method.loss(bench.context(seed)), Tensors(instances.train), torch.Generator().manual_seed(seed)
    probe = data.rows(torch.arange(min(settings.batch, len(data.features))))
    names = ("train_seconds", "validation", "variance", "relative_variance", "batch_variance", "relative_batch_variance")
    lists: dict[str, list[float]] = {name: [] for name in names}
    every_batch = torch.arange(len(data.features)).split(settings.batch)
    some = [data.rows(index) for index in every_batch if len(index) == len(every_batch[0])][: settings.repeats]
    best, state, every = np.inf, {}, math.ceil(schedule.epochs / CHECKS)
    for epoch in range(1, schedule.epochs + 1):
        noise = (NAN,) * 4
        if test and epoch in settings.probes:
            noise = (*gradient_noise(net, loss, probe, settings.repeats), *batch_noise(net, loss, some))
        spent = one_epoch(net, optimizer, loss, data.shuffled(settings.batch, generator))
        if fall:
            fall.step()
        checked = epoch % every == 0 or epoch == schedule.epochs
        value = regret(net, instances.validation, bench.pool, settings.validate) if checked else NAN
        for column, entry in zip(lists.values(), (spent, value, *noise), strict=True):
            column.append(entry)
        if value < best:
            best, state = value, {k: v.clone() for k, v in net.state_dict().items()}
    net.load_state_dict(state)
    out: dict[str, Any] = {
        "best_epoch": int(np.nanargmin(lists["validation"])) + 1,
        "best_validation": best,
        "seconds_epoch": median(lists),
    }
    if test:
        lost = regrets(predicted(net, instances.test), instances.test, bench.pool, settings.decide)
        out |= {"test": float(lost.mean()), "test_by_instance": rounded(lost)}
    return {**out, "epoch": list(range(1, schedule.epochs + 1)), **lists}


def median(lists: dict[str, list[float]]) -> float:
    """Seconds of an epoch; the first compiles."""
    return float(np.median(lists["train_seconds"]))
