"""The methods that are compared: each makes a loss of predicted values from the training set."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

with suppress(ImportError):
    import highspy  # noqa: F401 - before pyepo: ortools carries the same library, and only the first of the two loads

import numpy as np
import pyepo
import torch
from pyepo import EPO
from pyepo.data.dataset import optDataset
from pyepo.model.opt import optModel
from torch import Tensor

import movegrad as mg
import movegrad.torch
from experiments.knapsack.data import Instances
from experiments.knapsack.solvers import available, make_solver


class Batch(NamedTuple):
    """Of the training set: values (B, d), labels (B, d) and what labels are worth (B, 1)."""

    costs: Tensor
    labels: Tensor
    objectives: Tensor


Loss = Callable[[Tensor, Batch], Tensor]  # mean over the batch of predicted values (B, d)


class Context(NamedTuple):
    """What a loss may use. ``limit``: seconds of a MIP solve in training."""

    instances: Instances
    seed: int
    solver: str = "gurobi"
    limit: float = 0.05


@dataclass(frozen=True)
class Method:
    """``oracle``: what training calls, "none", "chain", "lp" or "mip". ``rate``: learning rate, the protocol's if None."""

    title: str
    oracle: str
    make: Callable[..., Loss]
    options: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None

    def loss(self, context: Context) -> Loss:
        return self.make(context, **self.options)

    @property
    def key(self) -> str:
        """Options in words, as part of the name of a result."""
        shown = {**self.options, **({} if self.rate is None else {"rate": self.rate})}
        return ", ".join(f"{k}={'+'.join(v) if isinstance(v, tuple) else v}" for k, v in shown.items()) or "default"


METHODS: dict[str, Method] = {}


def method(name: str, title: str, oracle: str, rate: float | None = None, **options: Any) -> Callable:
    """Put a function (context, **options) → loss into the registry."""

    def put(make: Callable[..., Loss]) -> Callable[..., Loss]:
        METHODS[name] = Method(title, oracle, make, options, rate)
        return make

    return put


# --- ours ----------------------------------------------------------------------------------------------------------------


def knapsack(context: Context, moves: tuple[str, ...] = ("swap", "flip")) -> mg.problems.Knapsack:
    return mg.problems.Knapsack(context.instances.weights, context.instances.capacities, moves=moves)


@method("ours", "local search, 10,000 steps", "chain", steps=10_000, temperature=1.0, moves=("swap", "flip"), estimator="mean")
@method("ours-1000", "local search, 1000 steps", "chain", steps=1000, temperature=1.0, moves=("swap", "flip"), estimator="mean")
def local_search(
    context: Context,
    temperature: float,
    moves: tuple[str, ...],
    estimator: str,
    steps: int | None = None,
    time_limit: float | None = None,
) -> Loss:
    """Fenchel-Young loss of chains that start at the label, of K steps or some seconds."""
    layer = mg.torch.LocalSearchLayer(
        knapsack(context, moves), steps, temperature, time_limit=time_limit, estimator=estimator, seed=context.seed
    )
    loss = mg.torch.FenchelYoungLoss(layer)
    return lambda predicted, batch: loss(predicted, batch.labels.to(torch.uint8))


@method("last-iterate", "PFY, last iterate", "chain", steps=10_000, samples=5, sigma=1.0, temperature=1.0)
def last_iterate(
    context: Context, samples: int, sigma: float, temperature: float, steps: int | None = None, time_limit: float | None = None
) -> Loss:
    """Perturbed Fenchel-Young loss where the solver is a chain's last iterate: the paper's ablation. K steps for each sample."""
    problem, rng, calls = knapsack(context), np.random.default_rng(context.seed), iter(range(10**9))

    def loss(predicted: Tensor, batch: Batch) -> Tensor:
        theta, y = predicted.detach().double().numpy(), batch.labels.numpy().astype(np.uint8)
        noisy = theta + sigma * rng.standard_normal((samples, *theta.shape))
        start = np.broadcast_to(y, noisy.shape).reshape(-1, y.shape[-1])
        options = {"temperature": temperature, "start": start, "trace": 0, "seed": context.seed, "call": next(calls)}
        ends = mg.sample(problem, noisy.reshape(start.shape), steps=steps, time_limit=time_limit, **options).state
        mean = ends.reshape(noisy.shape).mean(0)
        return (predicted * torch.from_numpy(mean - y).to(predicted.dtype)).sum(1).mean()

    return loss


# --- two stages ------------------------------------------------------------------------------------------------------------


@method("mse-fast", "MSE, learning rate 1e-2", "none", rate=1e-2)  # the best of the part "tune"
@method("mse", "MSE, two stages", "none")
def mse(context: Context) -> Loss:
    return lambda predicted, batch: torch.nn.functional.mse_loss(predicted, batch.costs)


# --- PyEPO -----------------------------------------------------------------------------------------------------------------


class Oracle(optModel):
    """A knapsack as PyEPO's losses see it: solved by a MIP solver with a time limit, or relaxed."""

    def __init__(self, weights: np.ndarray, capacities: np.ndarray, solver: str, limit: float, relaxed: bool) -> None:
        self.modelSense = EPO.MAXIMIZE
        limited = float("inf") if relaxed else limit
        self.size, self.find = weights.shape[1], make_solver(solver, weights, capacities, limited, relaxed, fresh=False)
        super().__init__()

    def _getModel(self) -> tuple[None, list[int]]:  # noqa: N802 - the name is PyEPO's
        return None, list(range(self.size))

    def setObj(self, c: Any) -> None:  # noqa: N802 - the name is PyEPO's
        self.cost = np.asarray(c, float)

    def solve(self) -> tuple[np.ndarray, float]:
        solution = self.find(self.cost).solution
        return solution, float(self.cost @ solution)


class Labeled(optDataset):
    """PyEPO's data set with labels at hand; its own constructor solves again."""

    def _get_sols(self) -> tuple[np.ndarray, np.ndarray]:
        return self.given

    @staticmethod
    def of(context: Context, model: optModel) -> "Labeled":
        examples = context.instances.train
        data = Labeled.__new__(Labeled)
        data.given = examples.labels.astype(np.float32), examples.objectives[:, None].astype(np.float32)
        data.__init__(model, examples.features, examples.costs)  # type: ignore[misc]
        return data


def lp_solver(wanted: str) -> str:
    """Annealing solves no relaxation."""
    return available() if wanted == "movegrad" else wanted


def oracle(context: Context, relaxed: bool) -> Oracle:
    solver, instances = lp_solver(context.solver) if relaxed else context.solver, context.instances
    return Oracle(instances.weights, instances.capacities, solver, context.limit, relaxed)


@method("spo-lp", "SPO+, LP relaxation", "lp", relaxed=True)
@method("spo", "SPO+", "mip", relaxed=False)
def spo(context: Context, relaxed: bool) -> Loss:
    loss = pyepo.func.SPOPlus(oracle(context, relaxed))
    return lambda predicted, batch: loss(predicted, batch.costs, batch.labels, batch.objectives)


@method("pfy-lp", "PFY, LP relaxation", "lp", relaxed=True, samples=5, sigma=1.0)
@method("pfy", "PFY", "mip", relaxed=False, samples=5, sigma=1.0)
def pfy(context: Context, relaxed: bool, samples: int, sigma: float, time_limit: float | None = None) -> Loss:
    model = oracle(context if time_limit is None else context._replace(limit=time_limit), relaxed)
    loss = pyepo.func.perturbedFenchelYoung(model, n_samples=samples, sigma=sigma, seed=context.seed)
    return lambda predicted, batch: loss(predicted, batch.labels)


@method("nid", "NID", "mip", relaxed=False)
def nid(context: Context, relaxed: bool) -> Loss:
    """Negative identity, with the distance to the best objective behind it."""
    decide = pyepo.func.negativeIdentity(oracle(context, relaxed))

    def loss(predicted: Tensor, batch: Batch) -> Tensor:
        reached = (decide(predicted) * batch.costs).sum(1, keepdim=True)
        return (batch.objectives - reached).abs().mean()

    return loss


@method("nce", "NCE", "mip", relaxed=False, solve_ratio=0.3)
def nce(context: Context, relaxed: bool, solve_ratio: float) -> Loss:
    model = oracle(context, relaxed)
    loss = pyepo.func.NCE(model, solve_ratio=solve_ratio, dataset=Labeled.of(context, model))
    return lambda predicted, batch: loss(predicted, batch.labels)
