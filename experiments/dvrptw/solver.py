"""PyVRP on waves with prizes, and on whole days in hindsight.

A wave's problem: maximize Σ prizes of the served − seconds driven, where requests that must go are required. What does not depend
on prizes (matrices, neighbors) is set up once per wave.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import thread_time

import numpy as np
import pyvrp

from experiments.dvrptw.environment import Requests, Routes, Wave
from experiments.dvrptw.instances import Instance
from experiments.pyvrp_search import NEIGHBORS, Budget, neighbors_of, search


@dataclass(frozen=True)
class Plan:
    """Routes of positions, seconds driven, prizes minus driving, and what the search took."""

    routes: Routes
    cost: int
    objective: float
    iterations: int = 0
    seconds: float = 0.0


def served(routes: Iterable[Sequence[int]], n: int) -> np.ndarray:
    """Which of the requests 1..n are on a route, (n,) float."""
    out = np.zeros(n)
    out[[i - 1 for route in routes for i in route]] = 1.0
    return out


def problem_data(durations: np.ndarray, clients: list[pyvrp.Client], capacity: int, vehicles: int, end: int) -> pyvrp.ProblemData:
    """Node 0 is the depot; client i stands at node i + 1."""
    places = [pyvrp.Location(0, 0) for _ in range(len(durations))]
    fleet = pyvrp.VehicleType(vehicles, [capacity], tw_late=end)
    return pyvrp.ProblemData(places, clients, [pyvrp.Depot(0, tw_late=end)], [fleet], [durations], [durations])


class WaveSolver:
    """One wave; :meth:`solve` may be called with many prizes."""

    def __init__(self, wave: Wave, neighbors: int = NEIGHBORS) -> None:
        self.wave, n = wave, len(wave)
        if n == 0:
            return
        self.fixed = [
            {
                "location": i,
                "delivery": [int(wave.demands[i])],
                "service_duration": int(wave.service[i]),
                "tw_early": int(wave.windows[i, 0]),
                "tw_late": int(wave.windows[i, 1]),
                "required": bool(wave.must[i]),
            }
            for i in range(1, n + 1)
        ]
        capacity = wave.instance.capacity
        vehicles = max(3 * math.ceil(wave.demands.sum() / capacity), n // 3) + 4
        self.data = problem_data(wave.durations, self._clients(np.zeros(n)), capacity, vehicles, int(wave.windows[0, 1]))
        self.neighbors = neighbors_of(self.data, neighbors)

    def _clients(self, prizes: np.ndarray) -> list[pyvrp.Client]:
        rounded = np.rint(np.maximum(prizes, 0.0)).astype(np.int64).tolist()
        return [pyvrp.Client(**fixed, prize=prize) for fixed, prize in zip(self.fixed, rounded, strict=True)]

    def solve(self, prizes: np.ndarray, budget: Budget, seed: int = 0, start: Routes | None = None) -> Plan:
        """Prizes (n,) in seconds; negative ones count as 0 in the search, and what they cost is removed from its result.

        ``start``: routes of positions, from which the first local search begins in place of a random plan.
        """
        prizes = np.asarray(prizes, float)
        if prizes.shape != (len(self.wave),) or not np.isfinite(prizes).all():
            raise ValueError(f"prizes must be {len(self.wave)} finite numbers, got shape {prizes.shape}.")
        if len(self.wave) == 0:
            return Plan([], 0, 0.0)
        data = self.data.replace(clients=self._clients(prizes))
        clients = None if start is None else [[position - 1 for position in route] for route in start]
        if clients is not None and len(clients) > data.num_vehicles:
            fleet = pyvrp.VehicleType(len(clients), [self.wave.instance.capacity], tw_late=int(self.wave.windows[0, 1]))
            data = data.replace(vehicle_types=[fleet])
        begin = thread_time()
        found = search(data, self.neighbors, budget, seed, clients, improve=True)
        seconds = thread_time() - begin
        routes = [[visit.idx + 1 for visit in route if visit.is_client()] for route in found.best.routes()]
        routes = without_losses(self.wave, repaired(self.wave, routes), prizes)
        cost = self.wave.cost(routes)
        return Plan(routes, cost, float(prizes @ served(routes, len(prizes))) - cost, found.num_iterations, seconds)


def repaired(wave: Wave, routes: Routes) -> Routes:
    """Feasible routes with the same requests and all that must go: what fails drives alone, which is always feasible."""
    fine = [route for route in routes if route and wave.complaint(route) is None]
    alone = [[i] for route in routes if wave.complaint(route) is not None for i in route]
    there = {i for route in fine + alone for i in route}
    return fine + alone + [[int(i)] for i in np.flatnonzero(wave.must) if i not in there]


def without_losses(wave: Wave, routes: Routes, prizes: np.ndarray) -> Routes:
    """Take out requests of negative prize that need not go, where the rest stays feasible and gains from it."""
    out = []
    for route in routes:
        for i in [i for i in route if prizes[i - 1] < 0 and not wave.must[i]]:
            rest = [j for j in route if j != i]
            if wave.drive(route) - wave.drive(rest) > prizes[i - 1] and wave.complaint(rest) is None:
                route = rest
        if route:
            out.append(route)
    return out


def plan(wave: Wave, prizes: np.ndarray, budget: Budget, seed: int = 0) -> Plan:
    """Solve a wave once. A prize of +∞ requires a request; those that lose and need not go are left out of the search."""
    prizes = np.asarray(prizes, float)
    keep = np.r_[True, prizes > 0] | wave.must
    smaller = restricted(wave, keep, wave.must | np.r_[False, np.isposinf(prizes)])
    chosen = np.where(np.isfinite(prizes), prizes, 0.0)
    found = WaveSolver(smaller).solve(chosen[keep[1:]], budget, seed)
    routes = wave.positions(smaller.numbers(found.routes))
    return Plan(routes, found.cost, float(chosen @ served(routes, len(wave))) - found.cost, found.iterations, found.seconds)


def restricted(wave: Wave, keep: np.ndarray, must: np.ndarray) -> Wave:
    """The wave with some of its requests, some of which must go; both (n+1,) bool."""
    names = ("ids", "locations", "windows", "demands", "service")
    return replace(wave, **{name: getattr(wave, name)[keep] for name in names}, must=must[keep])


# --- hindsight -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hindsight:
    """Cost of a day when all requests are known from the start, and its routes as (wave, request numbers)."""

    cost: int
    routes: list[tuple[int, list[int]]]
    iterations: int
    seconds: float


def solve_day(
    instance: Instance, requests: Requests, budget: Budget, seed: int = 0, start: Iterable[Sequence[int]] | None = None
) -> Hindsight:
    """The anticipative problem: original windows, a route leaves when all its requests are known. ``start``: routes of numbers."""
    n = len(requests)
    nodes = np.r_[0, requests.locations]
    durations = instance.durations[np.ix_(nodes, nodes)]
    clients = [
        pyvrp.Client(
            location=i + 1,
            delivery=[int(requests.demands[i])],
            service_duration=int(requests.service[i]),
            tw_early=int(requests.windows[i, 0]),
            tw_late=int(requests.windows[i, 1]),
            release_time=int(requests.release[i]),
        )
        for i in range(n)
    ]
    routes = None if start is None else [[number - 1 for number in route] for route in start]
    vehicles = max(n // 3 + 4, 0 if routes is None else len(routes))
    data = problem_data(durations, clients, instance.capacity, vehicles, int(instance.windows[0, 1]))
    neighbors = neighbors_of(data)
    begin = thread_time()
    found = search(data, neighbors, budget, seed, routes)
    seconds = thread_time() - begin
    if not found.best.is_feasible():
        raise ValueError(f"no feasible day of {instance.name} was found with {budget}; give it more.")
    numbers = [[visit.idx + 1 for visit in route if visit.is_client()] for route in found.best.routes()]
    dispatched = sorted((int(requests.epochs[[i - 1 for i in route]].max()), route) for route in numbers if route)
    return Hindsight(int(found.best.distance()), dispatched, found.num_iterations, seconds)
