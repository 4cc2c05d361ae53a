"""Tours and routes with learned edge costs, by PyEPO's generator and notebooks: TSP-20, TSP-50, CVRP-20, and CVRP-100."""

from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np

import movegrad as mg
from experiments.arena.board import Board, Linear, Oracle, divided
from experiments.arena.cache import kept
from experiments.arena.oracles import Annealer, PyEPOModel
from movegrad.integrations._edges import routes, tours, triangle_edges

CAPACITY, VEHICLES = 30, 5
SPLIT = 135  # of train and test, in the notebook


def edges_in_our_order(n: int) -> np.ndarray:
    """Of PyEPO's edges, an upper triangle row after row, the entries in ours, a lower one."""
    return np.array([j * (j - 1) // 2 + i for i, j in combinations(range(n), 2)])


def examples_of(n: int, train: int, test: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and θ = −costs in our order; those of the test last, as the notebook splits."""
    from pyepo.data.tsp import genData
    from sklearn.model_selection import train_test_split

    x, cost = genData(train + test, features, n, deg=4, noise_width=0.5, seed=seed)
    first, last = train_test_split(np.arange(train + test), test_size=test, random_state=SPLIT)
    rows = np.concatenate([first, last])
    theta = np.empty((len(rows), cost.shape[1]))
    theta[:, edges_in_our_order(n)] = -cost[rows]
    return x[rows], theta


def sets_that_bind(paths: list[list[int]]) -> list[list[int]]:
    """Consecutive pieces of the paths, of two nodes or more: the tour leaves and enters each exactly once."""
    return [path[a:b] for path in paths for a in range(len(path)) for b in range(a + 2, len(path) + 1)]


def edge_normals(n: int, label: np.ndarray, paths: list[list[int]]) -> np.ndarray:
    """Outward normals at a tour or plan: degrees (both signs), bounds, and the cuts x(δ(S)) ≥ 2 of its pieces."""
    order = [(i, j) for j in range(1, n) for i in range(j)]
    ends = np.array(order)
    degree = np.array([(ends == v).any(1) for v in range(n)], float)
    cuts = []
    for piece in sets_that_bind(paths):
        inside = np.zeros(n, bool)
        inside[piece] = True
        cuts.append(-(inside[ends[:, 0]] != inside[ends[:, 1]]).astype(float))
    identity = np.eye(len(order))
    used = label > 0.5
    return np.concatenate([degree, -degree, -identity[~used], identity[used], np.array(cuts).reshape(-1, len(order))])


def board_of(
    name: str, problem: mg.Problem, data: tuple[np.ndarray, np.ndarray], test: int, file: Path, rate: float, oracle: Oracle,
    validate: Oracle,
) -> Board:  # fmt: skip
    """The 50 before the test examples validate. Labels are what the oracle finds, as solutions of the problem."""
    x, theta = data
    n = round((1 + np.sqrt(1 + 8 * theta.shape[1])) / 2)
    edges = kept(file, lambda: {"edges": oracle(theta).astype(np.uint8)})["edges"].astype(float)
    valid = 50
    train = len(x) - test - valid
    paths = paths_of(problem, edges[:train], n)
    learned, chosen, judged = divided(x, theta, edges, train, valid, test)
    return Board(
        name=name,
        train=learned,
        valid=chosen,
        test=judged,
        labels=edges[:train],
        solutions=np.array([problem.encode(path if isinstance(problem, mg.problems.CVRP) else path[0]) for path in paths]),
        problem=problem,
        model=lambda: Linear(x.shape[1], theta.shape[1], sign=-1.0),
        decide=oracle,
        validate=validate,
        oracles={"exact": oracle},
        rate=rate,
        extra={"normals": lambda: [edge_normals(n, edges[i], paths[i]) for i in range(train)]},
    )


def paths_of(problem: mg.Problem, edges: np.ndarray, n: int) -> list[list[list[int]]]:
    """Of each label its routes without the depot, or its tour."""
    if isinstance(problem, mg.problems.CVRP):
        return routes(edges, triangle_edges(n), n, "edges")
    return [[tour] for tour in tours(edges, triangle_edges(n), n, "edges").tolist()]


def tsp(n: int, seed: int, cache: Path) -> Board:
    """1000 tours to train and validate, 100 to test; 10 features, degree 4, noise ½; Adam with 0.01, batches of 32."""
    from pyepo.model.grb import tspDFJModel

    problem, oracle = mg.problems.TSP(n), PyEPOModel(tspDFJModel(n), edges_in_our_order(n))
    validate = oracle if n <= 20 else Annealer(problem, 1000 * n)
    data = examples_of(n, 1000, 100, 10, seed)
    return board_of(f"TSP-{n}", problem, data, 100, cache / f"tsp-{n}-{seed}.npz", 1e-2, oracle, validate)


def cvrp(customers: int, seed: int, cache: Path) -> Board:
    """The notebook's CVRP-20: 5 vehicles with capacity 30, demands U(0, 10); 10 features, degree 4, noise ½; Adam with 0.05.

    1100 examples as there, of which the last 40 test and the 50 before them validate.

    PyEPO's model has no routes of a single customer; ours may visit them in training, and is judged by decisions of PyEPO's. With
    more customers no solver proves anything in time: labels and decisions are those of ``mg.solve``.
    """
    np.random.seed(seed)
    demands, vehicles = np.random.rand(customers) * 10, VEHICLES * customers // 20
    problem = mg.problems.CVRP(demands, CAPACITY, vehicles)
    train, test, oracle = 200, 40, cast(Oracle, Annealer(problem, 20_000 * customers))
    validate: Oracle = Annealer(problem, 2000 * customers)
    if customers == 20:
        from pyepo.model.grb import vrpRCIModel

        model = vrpRCIModel(customers + 1, demands, CAPACITY, vehicles)
        train, test, oracle = 1060, 40, PyEPOModel(model, edges_in_our_order(customers + 1))
    data = examples_of(customers + 1, train, test, 10, seed)
    return board_of(f"CVRP-{customers}", problem, data, test, cache / f"cvrp-{customers}-{seed}.npz", 5e-2, oracle, validate)
