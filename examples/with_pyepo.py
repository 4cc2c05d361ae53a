"""A PyEPO program with movegrad's losses: same models, data sets and metric, no solver in the training loop.

Run: python examples/with_pyepo.py (needs ``pip install "movegrad[pyepo]"``; no license, about a minute).
"""

from collections.abc import Callable
from time import process_time

import numpy as np
import pyepo
import torch
from pyepo.data.dataset import optDataset
from torch.utils.data import DataLoader

import movegrad as mg
from movegrad.integrations.pyepo import LocalSearchFenchelYoung, LocalSearchSPOPlus, as_optmodel


def data(train: int = 200, test: int = 100):
    """PyEPO's own generator: 40 items, 5 capacities. Labels by annealing, 1 ms each; any optModel with a solver would do."""
    weights, features, values = pyepo.data.knapsack.genData(train + test, 16, 40, dim=5, deg=4, noise_width=0.5, seed=0)
    model = as_optmodel(mg.problems.Knapsack(weights, weights.sum(1) / 2), steps=30_000)
    features = features.astype(np.float32)
    return model, *(optDataset(model, features[part], values[part]) for part in (slice(train), slice(train, None)))


def losses(model) -> dict[str, Callable]:
    """Each takes predicted costs, true costs, labels and their values, as batches of an optDataset come."""
    perturbed, chains = pyepo.func.perturbedFenchelYoung(model, n_samples=5), LocalSearchFenchelYoung(model, steps=1000)
    return {
        "mean squared error": lambda c_hat, c, w, z: torch.nn.functional.mse_loss(c_hat, c),
        "PyEPO: SPO+": pyepo.func.SPOPlus(model),
        "PyEPO: perturbed Fenchel-Young": lambda c_hat, c, w, z: perturbed(c_hat, w),
        "movegrad: SPO+": LocalSearchSPOPlus(model, steps=1000),
        "movegrad: Fenchel-Young": lambda c_hat, c, w, z: chains(c_hat, w),
    }


def fit(loss: Callable, model, train: optDataset, test: optDataset, epochs: int = 20) -> tuple[float, float]:
    """Test regret and seconds of training."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 40))
    optimizer, begin = torch.optim.Adam(net.parameters(), 5e-3), process_time()
    for _ in range(epochs):
        for x, *observed in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss(net(x), *observed).backward()
            optimizer.step()
    spent = process_time() - begin
    return pyepo.metric.regret(net, model, DataLoader(test, batch_size=100)), spent


def main() -> None:
    mg.set_threads(1)  # as PyEPO's losses
    model, train, test = data()
    for name, loss in losses(model).items():
        regret, spent = fit(loss, model, train, test)
        print(f"{name:32} test regret {regret:.3f}, {spent:4.1f} s of training")


if __name__ == "__main__":
    main()
