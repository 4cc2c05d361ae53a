"""Tours and routes with learned edge costs, by PyEPO's generator and notebooks: TSP-20, TSP-50, CVRP-20, and CVRP-100."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from time import process_time

import numpy as np
from scipy.sparse import csr_matrix, identity, vstack

import movegrad as mg
from experiments.arena.board import Board, Linear, Oracle, divided
from experiments.arena.cache import kept
from experiments.arena.oracles import Annealer, PyEPOModel
from experiments.arena.routes import Routes
from experiments.arena.searches import PlanSearch
from movegrad.integrations._edges import tours, triangle_edges

CAPACITY, VEHICLES = 30, 5
OPTIMAL = 2  # Gurobi's status
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


def triangle(n: int) -> np.ndarray:
    """Of a matrix over n nodes, the entries in our order of edges; on the diagonal, the last one, −1."""
    entry, (row, column) = np.full((n, n), -1), np.tril_indices(n, -1)
    entry[row, column] = entry[column, row] = np.arange(len(row))
    return entry


def pieces(paths: list[list[int]]) -> list[list[int]]:
    """Consecutive ones of the paths, of two nodes or more: the tour leaves and enters each exactly once."""
    return [path[a:b] for path in paths for a in range(len(path)) for b in range(a + 2, len(path) + 1)]


def full(routes: list[list[int]], demands: np.ndarray) -> list[list[int]]:
    """What several of the routes serve together, where fewer vehicles would not do."""
    several = (some for k in range(2, len(routes) + 1) for some in combinations(routes, k))
    served = ((len(some), [i for route in some for i in route]) for some in several)
    return [nodes for k, nodes in served if np.ceil(demands[np.array(nodes) - 1].sum() / CAPACITY) == k]


def edge_normals(n: int, label: np.ndarray, inside: list[list[int]], vehicles: int | None = None) -> csr_matrix:
    """Outward normals at a tour, or at a plan where there are so many vehicles.

    Degrees (both signs; of the depot one, if all vehicles leave it), bounds, and the cuts x(E(S)) ≤ |S| − k of these sets.
    """
    ends = np.array([(i, j) for j in range(1, n) for i in range(j)])
    degree = np.array([(ends == v).any(1) for v in range(n)], float)
    customers, depot = (degree, degree[:0]) if vehicles is None else (degree[1:], degree[:1])
    if vehicles is not None and depot @ label < 2 * vehicles:
        depot = depot[:0]
    cuts = np.array([np.isin(ends, nodes).all(1) for nodes in inside], float).reshape(-1, len(ends))
    unit, used = csr_matrix(identity(len(ends))), label > 0.5
    return csr_matrix(vstack([csr_matrix(np.concatenate([customers, -customers, depot, cuts])), -unit[~used], unit[used]]))


def board_of(
    name: str, problem: mg.problems.TSP | mg.problems.CVRP, data: tuple[np.ndarray, np.ndarray], found: np.ndarray, test: int,
    rate: float, oracles: dict[str, Oracle], decide: Oracle, validate: Oracle, valid: int = 50,
    normals: Callable[[np.ndarray, np.ndarray, bool], csr_matrix] | None = None,
) -> Board:  # fmt: skip
    """Those before the test examples validate; ``found`` are the best solutions of all. ``normals``: at one, cuts or no cuts."""
    (x, theta), edges = data, problem.statistic(found)
    train = len(x) - test - valid
    learned, chosen, judged = divided(x, theta, edges, train, valid, test)

    return Board(
        name=name,
        train=learned,
        valid=chosen,
        test=judged,
        labels=edges[:train],
        solutions=found[:train],
        problem=problem,
        model=lambda: Linear(x.shape[1], theta.shape[1], sign=-1.0),
        decide=decide,
        validate=validate,
        oracles=oracles,
        rate=rate,
        extra={} if normals is None else {"normals": lambda i, cuts: normals(found[i], edges[i], cuts)},
    )


def tsp(n: int, seed: int, cache: Path) -> Board:
    """1000 tours to train and validate, 100 to test; 10 features, degree 4, noise ½; Adam with 0.01, batches of 32."""
    from pyepo.model.grb import tspDFJModel

    problem, oracle = mg.problems.TSP(n), PyEPOModel(tspDFJModel(n), edges_in_our_order(n))
    data = examples_of(n, 1000, 100, 10, seed)
    edges = kept(cache / f"tsp-{n}-{seed}.npz", "edges", data[1], lambda: oracle(data[1]).astype(np.uint8))
    found = np.array([problem.encode(tour) for tour in tours(edges.astype(float), triangle_edges(n), n, "edges").tolist()])

    def normals(tour: np.ndarray, label: np.ndarray, cuts: bool) -> csr_matrix:
        return edge_normals(n, label, pieces([problem.decode(tour)]) if cuts else [])

    validate = Annealer(problem, 1000 * n)
    return board_of(f"TSP-{n}", problem, data, found, 100, 1e-2, {"exact": oracle}, oracle, validate, normals=normals)


class Plans:
    """Best plans of a routing problem, for θ of its edges in our order."""

    def __init__(self, problem: mg.problems.CVRP, routes: Routes) -> None:
        self.problem, self.routes = problem, routes
        self.entry = triangle(routes.n + 1)

    def solutions(self, theta: np.ndarray) -> np.ndarray:
        return np.array([self.problem.encode(self.routes.solve(-np.append(one, 0.0)[self.entry])) for one in theta])

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return self.problem.statistic(self.solutions(theta))


def cvrp(customers: int, seed: int, cache: Path, valid: int = 50) -> Board:
    """The notebook's CVRP-20: 5 vehicles with capacity 30, demands U(0, 10); 10 features, degree 4, noise ½; Adam with 0.05.

    1100 examples as there, of which the last 100 test and the ``valid`` before them validate. PyEPO's model has no routes of a
    single customer, nor has the oracle here, with which Gurobi agrees where it ends (``main``), nor have chains of ours. With more
    customers no solver proves anything in time: labels (10⁷ steps) and decisions (10⁶) of 200 examples, 20 to validate and 40 to
    test, are ``mg.solve``'s, and all routes are allowed.
    """
    np.random.seed(seed)
    demands, vehicles = np.random.rand(customers) * 10, VEHICLES * customers // 20
    problem = mg.problems.CVRP(demands, CAPACITY, vehicles, singles=customers > 20)
    if customers > 20:
        data = examples_of(customers + 1, 160, 40, 10, seed)
        labels, decide, validate = (Annealer(problem, steps * customers) for steps in (100_000, 10_000, 3_000))
        file = cache / f"cvrp-{customers}-{seed}-{labels.steps}.npz"
        found = kept(file, "routes", data[1], lambda: labels.solutions(data[1]))
        made = board_of(f"CVRP-{customers}", problem, data, found, 40, 5e-2, {}, decide, validate, valid=20)
        made.extra["search"] = PlanSearch(problem, demands, CAPACITY, vehicles, triangle(customers + 1))
        return made
    exact = Plans(problem, Routes(demands, CAPACITY, vehicles, least=2))
    data = examples_of(customers + 1, 1000, 100, 10, seed)
    found = kept(cache / f"cvrp-{customers}-{seed}.npz", "routes", data[1], lambda: exact.solutions(data[1]))

    def normals(plan: np.ndarray, label: np.ndarray, cuts: bool) -> csr_matrix:
        routes = problem.decode(plan)
        inside = pieces(routes) if cuts else [route for route in routes if len(route) > 1]
        return edge_normals(customers + 1, label, inside + full(routes, demands), vehicles)

    validate = Annealer(problem, 40_000)
    oracles: dict[str, Oracle] = {"exact": exact}
    return board_of(f"CVRP-{customers}", problem, data, found, 100, 5e-2, oracles, exact, validate, valid, normals)


def compare(count: int = 300, limit: float = 20.0) -> str:
    """The oracle of CVRP-20 next to Gurobi on PyEPO's model: whether they agree, and processor seconds of one solve."""
    from pyepo.model.grb import vrpRCIModel

    np.random.seed(42)
    demands = np.random.rand(20) * 10
    model = vrpRCIModel(21, demands, CAPACITY, VEHICLES)
    gurobi = PyEPOModel(model, edges_in_our_order(21))
    model._model.Params.TimeLimit = limit
    ours = Plans(mg.problems.CVRP(demands, CAPACITY, VEHICLES), Routes(demands, CAPACITY, VEHICLES, least=2))
    theta, spent, gains = examples_of(21, 1000, 100, 10, 42)[1][:count], np.zeros((count, 2)), []
    ours(theta[:1])
    for one, seconds in zip(theta, spent, strict=True):
        worth = np.zeros(2)
        for k, solve in enumerate((ours, gurobi)):
            begin = process_time()
            worth[k] = (solve(one[None]) * one).sum()
            seconds[k] = process_time() - begin
        if model._model.Status == OPTIMAL:
            gains.append(worth[1] - worth[0])
    (mean, other), (median, half), same = spent.mean(0), np.median(spent, 0), int(np.sum(np.abs(gains) < 1e-6))
    return (
        f"{count} examples of CVRP-20: Gurobi ended on {len(gains)} within {limit:g} s; costs are the same on {same} of them, "
        f"and its are lower by {max(gains):.0e} at most. "
        f"Seconds of a solve, mean and median: {mean:.3f}, {median:.3f}; Gurobi {other:.3f}, {half:.3f}."
    )


if __name__ == "__main__":
    print(compare())
