"""Networks that give open requests their prizes: a sparse graph network, an MLP, a linear map.

Inputs are cut to the middle 99 % of the training requests and standardized (bounds, means and deviations are part of the model):
"from depot / slack" divides by what may be almost 0 and reaches 85 deviations otherwise. The last layer's output is multiplied by
``scale``, so that prizes in seconds are within reach of a small learning rate. Stored as JSON and npz, no pickle.
"""

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
from experiments.store import read_arrays, read_json, understood, write_arrays, write_json

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


def predict(model: PrizeModel, wave: Wave) -> np.ndarray:
    """Prizes as an array."""
    with torch.no_grad():
        return model(graph(wave)).double().numpy()


def save(model: PrizeModel, folder: Path, about: dict[str, Any] | None = None) -> None:
    """Weights in weights.npz, the architecture and what one wants to know ``about`` it in model.json."""
    write_arrays(folder / "weights.npz", {name: value.numpy() for name, value in model.state_dict().items()})
    write_json(folder / "model.json", {"architecture": asdict(model.architecture), "about": about or {}}, indent=1)


def load(folder: Path) -> PrizeModel:
    """What :func:`save` wrote."""
    for name in ("model.json", "weights.npz"):
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder} holds no {name}: it is no trained model.")
    with understood(folder / "model.json", RETRAIN):
        model = PrizeModel(Architecture(**read_json(folder / "model.json", "architecture", cure=RETRAIN)["architecture"]))
    arrays = read_arrays(folder / "weights.npz", cure=RETRAIN)
    with understood(folder / "weights.npz", RETRAIN):
        model.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
    return model.eval()
