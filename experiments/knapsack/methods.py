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


class Schedule(NamedTuple):
    """Epochs and a learning rate that falls to 0 as half a cosine."""

    epochs: int
    rate: float


@dataclass(frozen=True)
class Method:
    """``oracle``: what training calls, "none", "chain", "lp" or "mip". Without a schedule: the protocol's epochs, constant rate."""

    title: str
    oracle: str
    make: Callable[..., Loss]
    options: dict[str, Any] = field(default_factory=dict)
    schedule: Schedule | None = None

    def loss(self, context: Context) -> Loss:
        return self.make(context, **self.options)

    @property
    def key(self) -> str:
        """Options in words, as part of the name of a result."""
        shown = {**self.options, **(self.schedule._asdict() if self.schedule else {})}
        return ", ".join(f"{k}={'+'.join(v) if isinstance(v, tuple) else v}" for k, v in shown.items()) or "default"


METHODS: dict[str, Method] = {}


def method(name: str, title: str, oracle: str, **options: Any) -> Callable:
    """Put a function (context, **options) → loss into the registry."""

    def put(make: Callable[..., Loss]) -> Callable[..., Loss]:
        METHODS[name] = Method(title, oracle, make, options)
        return make

    return put


# --- ours ----------------------------------------------------------------------------------------------------------------


def knapsack(context: Context, moves: tuple[str, ...] = ("swap", "flip"), beta: float | None = None) -> mg.problems.Knapsack:
    return mg.problems.Knapsack(context.instances.weights, context.instances.capacities, moves=moves, beta=beta)


CHAIN = {"temperature": 1.0, "moves": ("swap", "flip"), "estimator": "mean"}
PAPERS = {**CHAIN, "moves": ("swap", "guided swap", "guided flip")}  # the paper's mixture; it has β = 1


@method("ours", "local search, K = 10,000", "chain", steps=10_000, **CHAIN)
@method("ours-3000", "local search, K = 3000", "chain", steps=3000, **CHAIN)
@method("ours-paper", "local search, the paper's mixture, β = 1, K = 3000", "chain", steps=3000, **PAPERS, beta=1.0)
@method("ours-paper-2t", "local search, the paper's mixture, β = 2t, K = 3000", "chain", steps=3000, **PAPERS, beta=2.0)
def local_search(
    context: Context, steps: int, temperature: float, moves: tuple[str, ...], estimator: str, beta: float | None = None
) -> Loss:
    """Fenchel-Young loss of chains that start at the label: it sees no values."""
    problem = knapsack(context, moves, beta)
    layer = mg.torch.LocalSearchLayer(problem, steps, temperature, estimator=estimator, seed=context.seed)
    loss = mg.torch.FenchelYoungLoss(layer)
    return lambda predicted, batch: loss(predicted, batch.labels.to(torch.uint8))


@method("ours-spo", "local search at 2θ − c, K = 10,000", "chain", steps=10_000, **CHAIN)
@method("ours-spo-3000", "local search at 2θ − c, K = 3000", "chain", steps=3000, **CHAIN)
@method("ours-spo-2000", "local search at 2θ − c, K = 2000", "chain", steps=2000, **CHAIN)
def smooth_spo(context: Context, **options: Any) -> Loss:
    """SPO+ made smooth: its gradient 2(y*(2θ − c) − y) with the mean of a chain at 2θ − c in place of the best solution y*.

    This is a Fenchel-Young loss at 2θ − c, convex in θ, and SPO+ as t → 0. Like SPO+ it sees the true values c.
    """
    loss = local_search(context, **options)
    return lambda predicted, batch: loss(2.0 * predicted - batch.costs, batch)


@method("ours-regret", "expected regret through the layer, K = 3000", "chain", steps=3000, temperature=1.0)
def expected_regret(context: Context, steps: int, temperature: float) -> Loss:
    """⟨c, y − ŷ_t(θ)⟩, by the Jacobian of the layer. It sees the true values c."""
    layer = mg.torch.LocalSearchLayer(knapsack(context), steps, temperature, seed=context.seed)

    def loss(predicted: Tensor, batch: Batch) -> Tensor:
        reached = (layer(predicted, start=batch.labels.numpy().astype(np.uint8)) * batch.costs).sum(1, keepdim=True)
        return (batch.objectives - reached).mean()

    return loss


@method("last-iterate", "PFY, last iterate", "chain", steps=10_000, samples=5, sigma=1.0, temperature=1.0)
def last_iterate(context: Context, steps: int, samples: int, sigma: float, temperature: float) -> Loss:
    """Perturbed Fenchel-Young loss where the solver is a chain's last iterate: the paper's ablation. K steps for each sample."""
    problem, rng, calls = knapsack(context), np.random.default_rng(context.seed), iter(range(10**9))

    def loss(predicted: Tensor, batch: Batch) -> Tensor:
        theta, y = predicted.detach().double().numpy(), batch.labels.numpy().astype(np.uint8)
        noisy = theta + sigma * rng.standard_normal((samples, *theta.shape))
        start = np.broadcast_to(y, noisy.shape).reshape(-1, y.shape[-1])
        options = {"temperature": temperature, "start": start, "trace": 0, "seed": context.seed, "call": next(calls)}
        ends = mg.sample(problem, noisy.reshape(start.shape), steps=steps, **options).solutions
        mean = ends.reshape(noisy.shape).mean(0)
        return (predicted * torch.from_numpy(mean - y).to(predicted.dtype)).sum(1).mean()

    return loss


# --- two stages ------------------------------------------------------------------------------------------------------------


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


def oracle(context: Context, relaxed: bool = False, limit: float | None = None, solver: str | None = None) -> Oracle:
    """``limit``: seconds of a solve; the context's by default, as is the solver."""
    name, instances = solver or context.solver, context.instances
    name = lp_solver(name) if relaxed else name
    return Oracle(instances.weights, instances.capacities, name, context.limit if limit is None else limit, relaxed)


@method("spo-annealing", "SPO+, 1 ms of mg.solve", "chain", limit=0.001, solver="movegrad")
@method("spo-lp", "SPO+, LP relaxation", "lp", relaxed=True)
@method("spo", "SPO+", "mip", relaxed=False)
def spo(context: Context, **options: Any) -> Loss:
    loss = pyepo.func.SPOPlus(oracle(context, **options))
    return lambda predicted, batch: loss(predicted, batch.costs, batch.labels, batch.objectives)


@method("pfy-lp", "PFY, LP relaxation", "lp", relaxed=True, samples=5, sigma=1.0)
@method("pfy", "PFY", "mip", relaxed=False, samples=5, sigma=1.0)
def pfy(context: Context, samples: int, sigma: float, **options: Any) -> Loss:
    loss = pyepo.func.perturbedFenchelYoung(oracle(context, **options), n_samples=samples, sigma=sigma, seed=context.seed)
    return lambda predicted, batch: loss(predicted, batch.labels)


@method("nid-lp", "NID, LP relaxation", "lp", relaxed=True)
@method("nid", "NID", "mip", relaxed=False)
def nid(context: Context, **options: Any) -> Loss:
    """Negative identity, with the distance to the best objective behind it."""
    decide = pyepo.func.negativeIdentity(oracle(context, **options))

    def loss(predicted: Tensor, batch: Batch) -> Tensor:
        reached = (decide(predicted) * batch.costs).sum(1, keepdim=True)
        return (batch.objectives - reached).abs().mean()

    return loss


@method("nce-lp", "NCE, LP relaxation", "lp", relaxed=True, solve_ratio=0.3)
@method("nce", "NCE", "mip", relaxed=False, solve_ratio=0.3)
def nce(context: Context, solve_ratio: float, **options: Any) -> Loss:
    model = oracle(context, **options)
    loss = pyepo.func.NCE(model, solve_ratio=solve_ratio, dataset=Labeled.of(context, model))
    loss._branch_rng = np.random.RandomState(context.seed)  # whether a batch is solved for; PyEPO lets nobody seed it
    return lambda predicted, batch: loss(predicted, batch.labels)
