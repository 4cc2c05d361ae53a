"""Shortest paths of the solver-free paper: a 5 × 5 grid, PyEPO's generator with degree 8."""

from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

import movegrad as mg
from experiments.arena.board import Board, Linear, Relaxation, divided

SIDE = 5
ALL, TRAIN, VALID, TEST = 2000, 500, 500, 250


class AllPaths:
    """The best of all 70 paths, which are listed."""

    def __init__(self, problem: mg.problems.ShortestPath) -> None:
        self.solutions = np.array(list(problem.states()))
        self.arcs = problem.statistic(self.solutions)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return self.arcs[(theta @ self.arcs.T).argmax(1)]

    def beside(self, k: int) -> np.ndarray:
        """The vertices next to a path: those that leave it once, and come back once."""
        runs = []
        for j in range(len(self.arcs)):
            same = self.solutions[j].cumsum() == self.solutions[k].cumsum()  # the same node after each step
            runs.append(int((np.diff(np.concatenate([[True], same]).astype(int)) == -1).sum()))
        return self.arcs[np.array(runs) == 1]


def board(seed: int, cache: Path | None = None) -> Board:
    """2000 examples with 5 features, no noise: 500 to train and to validate, 250 of the others to test; Adam with 0.01."""
    from pyepo.data.shortestpath import genData

    x, cost = genData(ALL, 5, (SIDE, SIDE), deg=8, noise_width=0.0, seed=seed)
    problem = mg.problems.ShortestPath((SIDE, SIDE))
    exact, theta = AllPaths(problem), -np.asarray(cost, float)
    order = np.random.default_rng(seed).permutation(len(x))
    x, theta = x[order], theta[order]

    train, valid, test = divided(x, theta, exact(theta), TRAIN, VALID, TEST)
    which = (train.theta @ exact.arcs.T).argmax(1)
    arcs = []  # in PyEPO's order: for each row its arcs to the east, then those to the south
    for i in range(SIDE):
        nodes = SIDE * i + np.arange(SIDE)
        arcs += [(v, v + 1) for v in nodes[:-1]] + [(v, v + SIDE) for v in nodes if i < SIDE - 1]
    flow = coo_matrix(
        (np.tile([1.0, -1.0], len(arcs)), (np.array(arcs).ravel(), np.repeat(np.arange(len(arcs)), 2))), (SIDE**2, len(arcs))
    )
    through = np.zeros(SIDE**2)
    through[0], through[-1] = 1.0, -1.0
    return Board(
        name="shortest path 5 × 5",
        train=train,
        valid=valid,
        test=test,
        labels=exact.arcs[which],
        solutions=exact.solutions[which],
        problem=problem,
        model=lambda: Linear(5, len(arcs), sign=-1.0),
        decide=exact,
        oracles={"exact": exact},
        rate=1e-2,
        relaxation=Relaxation(None, None, csr_matrix(flow), through),
        extra={"vertices": lambda: ([exact.beside(k) for k in which], exact.arcs[which])},
    )
