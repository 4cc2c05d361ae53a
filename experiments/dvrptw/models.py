"""Networks that give open requests their prizes: a sparse graph network, an MLP, a linear map.

Inputs are cut to the middle 99 % of the training requests and standardized (bounds, means and deviations are part of the model):
"from depot / slack" divides by what may be almost 0 and reaches 85 deviations otherwise. The last layer's output is multiplied by
``scale``, so that prizes in seconds are within reach of a small learning rate. Stored as JSON and npz, no pickle.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from experiments.dvrptw.environment import Wave
from experiments.dvrptw.features import NAMES, arcs, features
from experiments.store import Damaged, read_arrays, read_json, understood, write_arrays, write_json

KINDS = ("gnn", "mlp", "linear")
RETRAIN = "train the model anew"  # where its files are damaged
CUT = 0.005  # share of requests beyond each bound of a feature


@dataclass(frozen=True)
class Architecture:
    kind: str = "gnn"
    hidden: int = 10
    scale: float = 1000.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"model must be one of {', '.join(KINDS)}, got {self.kind!r}.")


class Graph(NamedTuple):
    """A wave as a network sees it: nodes (n+1, 20), depot first; arcs (2, a), their durations (a, 1) in 1000 s."""

    nodes: Tensor
    arcs: Tensor
    durations: Tensor


def graph(wave: Wave) -> Graph:
    ends, durations = arcs(wave)
    values = torch.from_numpy(features(wave)).float()
    return Graph(values, torch.from_numpy(ends), torch.from_numpy(durations / 1000).float()[:, None])


def mlp(*sizes: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Convolution(MessagePassing):
    """x_j ← U[x_j | mean over arcs i → j of M[T_ij | x_i]] with small networks M and U."""

    def __init__(self, hidden: int) -> None:
        super().__init__(aggr="mean")
        self.messages, self.update_node = mlp(hidden + 1, hidden, hidden), mlp(2 * hidden, 2 * hidden, hidden)

    def forward(self, x: Tensor, ends: Tensor, durations: Tensor) -> Tensor:
        return self.update_node(torch.cat([x, self.propagate(ends, x=x, durations=durations)], dim=1))

    def message(self, x_j: Tensor, durations: Tensor) -> Tensor:
        return self.messages(torch.cat([durations, x_j], dim=1))


class PrizeModel(nn.Module):
    """Prizes (n,) of a wave's open requests, in seconds."""

    def __init__(self, architecture: Architecture, seed: int = 0) -> None:
        super().__init__()
        self.architecture, size, hidden = architecture, len(NAMES), architecture.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if architecture.kind == "linear":
                self.body: nn.Module = nn.Linear(size, 1)
            elif architecture.kind == "mlp":
                self.body = mlp(size, hidden, hidden, hidden, hidden, 1)
            else:
                self.encoder = mlp(size, hidden, hidden)
                self.layers = nn.ModuleList([Convolution(hidden), Convolution(hidden)])
                self.head = mlp(hidden, hidden, hidden, 1)
        for name, value in (("low", -torch.inf), ("high", torch.inf), ("mean", 0.0), ("deviation", 1.0)):
            self.register_buffer(name, torch.full((size,), value))

    def standardize(self, graphs: list[Graph]) -> None:
        """Learn bounds, mean and deviation of each feature from all requests of these waves."""
        rows = torch.cat([g.nodes[1:] for g in graphs]).double()
        self.low.copy_(rows.quantile(CUT, dim=0))
        self.high.copy_(rows.quantile(1 - CUT, dim=0))
        rows = rows.clamp(self.low, self.high)
        deviation = rows.std(0)
        self.mean.copy_(rows.mean(0))
        self.deviation.copy_(torch.where(deviation > 1e-9, deviation, torch.ones_like(deviation)))

    def scaled(self, nodes: Tensor) -> Tensor:
        """Features as the network sees them."""
        return (nodes.clamp(self.low, self.high) - self.mean) / self.deviation

    def forward(self, g: Graph) -> Tensor:
        x = self.scaled(g.nodes)
        if self.architecture.kind != "gnn":
            return self.architecture.scale * self.body(x[1:])[:, 0]
        x = self.encoder(x)
        for layer in self.layers:
            x = layer(x, g.arcs, g.durations)
        return self.architecture.scale * self.head(x[1:])[:, 0]


class Ensemble(nn.Module):
    """The mean prize of several models."""

    def __init__(self, members: Sequence[PrizeModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, g: Graph) -> Tensor:
        return torch.stack([member(g) for member in self.members]).mean(0)


def of_mean_weights(models: Sequence[PrizeModel]) -> PrizeModel:
    """One model with the mean of all weights: for runs that began with the same ones, or of one run."""
    if len({model.architecture for model in models}) != 1:
        raise ValueError(f"models must have one architecture, got {[model.architecture for model in models]}.")
    mean = PrizeModel(models[0].architecture)
    states = [model.state_dict() for model in models]
    mean.load_state_dict({name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]})
    return mean.eval()


def predict(model: PrizeModel | Ensemble, wave: Wave) -> np.ndarray:
    """Prizes as an array."""
    with torch.no_grad():
        return model(graph(wave)).double().numpy()


def save(model: PrizeModel, folder: Path, about: dict[str, Any] | None = None) -> None:
    """Weights in weights.npz, the architecture and what one wants to know ``about`` it in model.json."""
    write_arrays(folder / "weights.npz", {name: value.numpy() for name, value in model.state_dict().items()})
    write_json(folder / "model.json", {"architecture": asdict(model.architecture), "about": about or {}}, indent=1)


def save_ensemble(models: Sequence[PrizeModel], folder: Path, about: dict[str, Any] | None = None) -> None:
    """As :func:`save` does it, with the members' weights one upon the other."""
    if len({model.architecture for model in models}) != 1:
        raise ValueError(f"models must have one architecture, got {[model.architecture for model in models]}.")
    states = [model.state_dict() for model in models]
    write_arrays(folder / "weights.npz", {name: np.stack([state[name].numpy() for state in states]) for name in states[0]})
    content = {"architecture": asdict(models[0].architecture), "members": len(models), "about": about or {}}
    write_json(folder / "model.json", content, indent=1)


def load(folder: Path) -> PrizeModel | Ensemble:
    """What :func:`save` or :func:`save_ensemble` wrote."""
    for name in ("model.json", "weights.npz"):
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder} holds no {name}: it is no trained model.")
    content = read_json(folder / "model.json", "architecture", cure=RETRAIN)
    with understood(folder / "model.json", RETRAIN):
        members = content.get("members")
        models = [PrizeModel(Architecture(**content["architecture"])) for _ in range(members or 1)]
    arrays = read_arrays(folder / "weights.npz", cure=RETRAIN)
    with understood(folder / "weights.npz", RETRAIN):
        if any(np.isnan(value).any() for value in arrays.values()):
            raise Damaged(folder / "weights.npz", "its weights are no numbers", RETRAIN)
        for n, model in enumerate(models):
            own = {name: value if members is None else value[n] for name, value in arrays.items()}
            model.load_state_dict({name: torch.from_numpy(value) for name, value in own.items()})
    return models[0].eval() if members is None else Ensemble(models).eval()


def load_single(folder: Path) -> PrizeModel:
    """One model, no ensemble."""
    model = load(folder)
    if not isinstance(model, PrizeModel):
        raise ValueError(f"{folder} must hold a single model, got an ensemble of {len(model.members)}.")
    return model
