"""Instances of ``pyepo.data.knapsack.genData`` and their labels, which are computed once and kept on disk."""

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.display import progress_bar
from experiments.knapsack.settings import Data
from experiments.knapsack.solvers import Pool
from experiments.store import Damaged, locked, read_arrays, understood, write_arrays
from experiments.version import version

COMMITTED, FOLDER = Path(__file__).parent / "labels", Path(__file__).parent / "out"


@dataclass(frozen=True)
class Examples:
    """Features (n, p), values (n, d), labels (n, d) and the value of each label (n,)."""

    features: np.ndarray
    costs: np.ndarray
    labels: np.ndarray

    @property
    def objectives(self) -> np.ndarray:
        return (self.costs * self.labels).sum(1)


@dataclass(frozen=True)
class Instances:
    weights: np.ndarray  # (M, d)
    capacities: np.ndarray  # (M,)
    train: Examples
    validation: Examples
    test: Examples


def generate(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights, capacities, features and values; one call, since weights and the map to values change with the seed."""
    from pyepo.data.knapsack import genData

    weights, features, costs = genData(
        data.size, data.features, data.items, dim=data.constraints, deg=data.degree, noise_width=data.noise, seed=data.seed
    )
    return weights, data.ratio * weights.sum(1), features, costs.astype(float)


def labels_path(data: Data, folder: Path) -> Path:
    """One file for each set of instances and, but for those that come with the study, each version of the code that solves them.

    How they are split does not matter.
    """
    settings = {k: v for k, v in asdict(data).items() if k not in ("train", "validation", "test")} | {"size": data.size}
    if folder != COMMITTED:
        settings["code"] = version(__name__)
    return folder / f"labels_{hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]}.npz"


def saved(path: Path) -> tuple[np.ndarray, int]:
    """Labels on disk (n, d), and how many of them are done."""
    content = read_arrays(path, "solutions", "done")
    with understood(path):
        return content["solutions"], int(content["done"])


def keep(path: Path, solutions: np.ndarray, done: int) -> tuple[np.ndarray, int]:
    """Write labels unless another process has more of them; what is on disk then."""
    with locked(path):
        if path.exists() and saved(path)[1] >= done:
            return saved(path)
        write_arrays(path, {"solutions": solutions, "done": np.array(done)}, compressed=True)
    return solutions, done


def labels(data: Data, costs: np.ndarray, pool: Pool, folder: Path = FOLDER) -> np.ndarray:
    """Solutions (n, d) by the solver's limit; those that come with the study or of an earlier run are kept, finished or not."""
    path = labels_path(data, COMMITTED)
    path = path if path.exists() else labels_path(data, folder)
    solutions, done = np.zeros(costs.shape, np.uint8), 0
    if path.exists():
        solutions, done = saved(path)
        if solutions.shape != costs.shape or not 0 <= done <= len(costs):
            raise Damaged(path, f"it holds {done} labels of shape {solutions.shape} for costs of shape {costs.shape}")
    if done == len(costs):
        return solutions
    stretch = 20 * max(pool.workers, 1)
    with progress_bar() as bar:
        task = bar.add_task("labels", total=len(costs), completed=done)
        while done < len(costs):
            end = min(done + stretch, len(costs))
            solutions[done:end] = pool.solve(data.label_solver, data.label_work, costs[done:end])[0]
            solutions, done = keep(path, solutions, end)
            bar.update(task, completed=done)
    return solutions


def load(data: Data, workers: int | None = None, folder: Path = FOLDER) -> tuple[Instances, Pool]:
    """Instances with labels, and the processes that solve them."""
    weights, capacities, features, costs = generate(data)
    pool = Pool(weights, capacities, workers)
    y = labels(data, costs, pool, folder)
    bounds = np.cumsum([0, data.train, data.validation, data.test])
    parts = [Examples(features[a:b], costs[a:b], y[a:b]) for a, b in pairwise(bounds)]
    return Instances(weights, capacities, *parts), pool
