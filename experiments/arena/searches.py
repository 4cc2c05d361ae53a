"""PyVRP on capacitated routing with costs that may be negative, from a given plan: a heuristic that is not made of our moves."""

import numpy as np
import pyvrp

import movegrad as mg
from experiments.pyvrp_search import Budget, neighbors_of, search

UNITS = 10_000  # PyVRP has integers: a mean |cost| is so many, and so is a unit of demand


class PlanSearch:
    """T(y) of plans that PyVRP finds for θ of undirected edges, each search from a plan of its own."""

    def __init__(self, problem: mg.problems.CVRP, demands: np.ndarray, capacity: float, vehicles: int, entry: np.ndarray) -> None:
        """``entry``: of a matrix over depot and customers, the entries of θ; −1 on the diagonal."""
        self.problem, self.entry = problem, entry
        loads = np.floor(UNITS * np.asarray(demands)).astype(int)  # what fits, fits
        self.clients = [pyvrp.Client(location=i, delivery=[int(load)]) for i, load in enumerate(loads, 1)]
        self.fleet = pyvrp.VehicleType(vehicles, [int(UNITS * capacity)])
        self.places = [pyvrp.Location(0, 0) for _ in range(len(loads) + 1)]

    def data(self, theta: np.ndarray) -> pyvrp.ProblemData:
        """Costs without negative ones: each customer has two edges, and an amount on both changes nothing but the sum."""
        costs = -np.append(theta, 0.0)[self.entry]
        amount = np.full(len(costs), max(0.0, -float(costs.min())))
        amount[0] = 0.0
        costs += np.add.outer(amount, amount)
        np.fill_diagonal(costs, 0.0)
        whole = np.rint(UNITS * costs / np.abs(theta).mean()).astype(int)
        return pyvrp.ProblemData(self.places, self.clients, [pyvrp.Depot(0)], [self.fleet], [whole], [np.zeros_like(whole)])

    def routes(self, theta: np.ndarray, start: list[list[int]], iterations: int, seed: int) -> list[list[int]]:
        """Routes of customers 1, …, n; those it began with, if the search leaves what fits."""
        data = self.data(theta)
        clients = [[customer - 1 for customer in route] for route in start]
        found = search(data, neighbors_of(data), Budget(iterations), seed, clients, improve=True).best
        if not found.is_feasible():
            return start
        return [[visit.idx + 1 for visit in route if visit.is_client()] for route in found.routes()]

    def __call__(self, theta: np.ndarray, starts: np.ndarray, iterations: int, seed: int) -> np.ndarray:
        plans = [
            self.routes(one, self.problem.decode(start), iterations, seed + row)
            for row, (one, start) in enumerate(zip(theta, starts, strict=True))
        ]
        return self.counts(plans)

    def counts(self, plans: list[list[list[int]]]) -> np.ndarray:
        """How often each edge is driven."""
        out = np.zeros((len(plans), self.entry.max() + 1))
        for row, routes in zip(out, plans, strict=True):
            for route in routes:
                nodes = [0, *route, 0]
                np.add.at(row, self.entry[nodes[:-1], nodes[1:]], 1.0)
        return out
