"""Capacitated routing of some twenty customers, exactly: all routes that fit, a linear program over them, and a search of its gap.

Which sets of customers fit into a vehicle does not depend on costs, so they are listed once. For given costs dynamic programming
finds the best route of each set, columns of the set-partitioning program are priced by looking at all of them, and the best plan is
found by depth-first search among the routes whose reduced cost is below a gap, which is widened until a plan lies within.
"""

import highspy
import numpy as np
from numba import njit

MOST = 1_000_000  # sets of customers
EPSILON = 1e-9  # of all costs together: what a column must gain to enter
FIRST_GAP = 0.25  # in units of the mean |cost| of an edge


@njit(cache=True)
def lowest(mask: int) -> int:
    """Of a set that is not empty."""
    low = 0
    while not (mask >> low) & 1:
        low += 1
    return low


@njit(cache=True)
def sets_that_fit(demands: np.ndarray, capacity: float, index: np.ndarray, masks: np.ndarray) -> int:
    """Fill ``index[mask]`` with the set's number, or −1, and ``masks`` with the sets; a set comes after all of its own subsets."""
    loads, count = np.zeros(len(index)), 0
    for mask in range(1, len(index)):
        loads[mask] = loads[mask & (mask - 1)] + demands[lowest(mask)]
        index[mask] = -1
        if loads[mask] <= capacity:
            if count < len(masks):
                masks[count] = mask
            index[mask] = count
            count += 1
    return count


@njit(cache=True)
def best_routes(costs: np.ndarray, masks: np.ndarray, index: np.ndarray, paths: np.ndarray, length: np.ndarray) -> None:
    """``paths[s, j]``: the cheapest way from the depot, node 0, through all of a set that ends at its customer j, node j + 1."""
    members, n = np.empty(len(costs), np.int64), len(costs) - 1
    for s in range(len(masks)):
        mask, shortest, k = masks[s], np.inf, 0
        for j in range(n):
            if (mask >> j) & 1:
                members[k] = j
                k += 1
        for a in range(k):
            j = members[a]
            way = costs[j + 1, 0]
            if k > 1:
                before, way = index[mask & ~(1 << j)], np.inf
                for b in range(k):
                    i = members[b]
                    if i != j:
                        way = min(way, paths[before, i] + costs[j + 1, i + 1])
            paths[s, j] = way
            shortest = min(shortest, way + costs[j + 1, 0])
        length[s] = shortest


@njit(cache=True)
def route_of(s: int, costs: np.ndarray, masks: np.ndarray, index: np.ndarray, paths: np.ndarray, out: np.ndarray) -> int:
    """Nodes of the best route of a set, from its end to its begin; how many they are."""
    mask, at, count = masks[s], 0, 0
    while mask:
        best, last = np.inf, -1
        for j in range(len(costs) - 1):
            if (mask >> j) & 1 and paths[index[mask], j] + costs[j + 1, at] < best:
                best, last = paths[index[mask], j] + costs[j + 1, at], j
        out[count] = at = last + 1
        count += 1
        mask &= ~(1 << last)
    return count


@njit(cache=True)
def price(
    length: np.ndarray, low: np.ndarray, rest: np.ndarray, prices: np.ndarray, each: float, reduced: np.ndarray, best: np.ndarray
) -> None:
    """Reduced costs, length − prices of the customers − price of a vehicle; for each customer the least where it is the lowest.

    ``low`` is a set's lowest customer, ``rest`` the number of the set of the others, or −1.
    """
    paid = np.empty(len(length))
    best[:] = -1
    for s in range(len(length)):
        j = low[s]
        paid[s] = prices[j] + (paid[rest[s]] if rest[s] >= 0 else each)
        reduced[s] = length[s] - paid[s]
        if best[j] < 0 or reduced[s] < reduced[best[j]]:
            best[j] = s


@njit(cache=True)
def cover(masks: np.ndarray, cost: np.ndarray, first: np.ndarray, vehicles: int, spare: float, gap: float) -> np.ndarray:
    """Routes that visit everybody once, at most ``vehicles``, at the least Σ cost + spare · (vehicles − routes), if that is ≤ gap.

    ``first[j]`` to ``first[j + 1]`` are routes whose lowest customer is j, cheapest first; no cost is below zero.
    """
    everybody = (1 << (len(first) - 1)) - 1
    at, taken = np.zeros(vehicles + 1, np.int64), np.zeros(vehicles + 1, np.int64)
    visited, spent = np.zeros(vehicles + 1, np.int64), np.zeros(vehicles + 1)
    best, found, depth = gap, taken[:0].copy(), 0
    at[0] = first[0]
    while depth >= 0:
        r = at[depth]
        if r >= first[lowest(~visited[depth]) + 1] or spent[depth] + cost[r] > best:
            depth -= 1
            continue
        at[depth] += 1
        if masks[r] & visited[depth]:
            continue
        seen, total = visited[depth] | masks[r], spent[depth] + cost[r]
        taken[depth] = r
        if seen == everybody:
            total += spare * (vehicles - depth - 1)
            if total <= best:
                best, found = total, taken[: depth + 1].copy()
        elif depth + 1 < vehicles:
            depth += 1
            visited[depth], spent[depth] = seen, total
            at[depth] = first[lowest(~seen)]
    return found


class Routes:
    """Best plans for many cost vectors over the same customers: at most ``vehicles`` routes of ``least`` customers or more."""

    def __init__(self, demands: np.ndarray, capacity: float, vehicles: int, least: int = 1) -> None:
        self.n, self.vehicles = len(demands), vehicles
        self.index, masks = np.full(1 << self.n, -1, np.int32), np.empty(MOST, np.int64)
        count = sets_that_fit(np.asarray(demands, float), float(capacity), self.index, masks)
        if count > MOST:
            raise ValueError(f"{count} sets of customers fit into a vehicle, more than {MOST}.")
        self.masks = masks[:count].copy()
        self.paths, self.length, self.reduced = np.empty((count, self.n)), np.empty(count), np.empty(count)
        self.members = ((self.masks[:, None] >> np.arange(self.n)) & 1).astype(bool)
        self.short, self.lowest = self.members.sum(1) < least, self.members.argmax(1)
        self.rest = np.where(self.masks & (self.masks - 1), self.index[self.masks & (self.masks - 1)], -1)

    def solve(self, costs: np.ndarray) -> list[list[int]]:
        """Routes as lists of customers 1, …, n, of symmetric costs (n + 1, n + 1) with the depot first."""
        costs = np.ascontiguousarray(costs, float)
        best_routes(costs, self.masks, self.index, self.paths, self.length)
        self.length[self.short] = np.inf
        spare = -self.prices(1.0 + float(np.abs(costs).sum()))
        gap = FIRST_GAP * float(np.abs(costs).mean())
        while True:
            near = np.flatnonzero(self.reduced <= gap)
            near = near[np.lexsort((self.reduced[near], self.lowest[near]))]
            first = np.searchsorted(self.lowest[near], np.arange(self.n + 1))
            chosen = cover(self.masks[near], np.maximum(self.reduced[near], 0.0), first, self.vehicles, spare, gap)
            if len(chosen):
                return [self.ordered(s, costs) for s in near[chosen]]
            if gap > 2.0 * self.vehicles * np.ptp(self.reduced[~self.short]) + spare * self.vehicles:
                raise ValueError(f"{self.vehicles} vehicles cannot visit all of the {self.n} customers.")
            gap = 2.0 * gap + 1e-9

    def ordered(self, s: int, costs: np.ndarray) -> list[int]:
        out = np.empty(self.n, np.int64)
        return out[: route_of(s, costs, self.masks, self.index, self.paths, out)].tolist()

    def prices(self, much: float) -> float:
        """The linear program by columns: the price of a vehicle, at most 0; all reduced costs are left in place."""
        solver, n, none = highspy.Highs(), self.n, np.zeros(0, np.int32)
        for name, value in {"output_flag": False, "threads": 1, "presolve": "off"}.items():
            solver.setOptionValue(name, value)
        for j in range(n + 1):
            solver.addRow(1.0 if j < n else -highspy.kHighsInf, 1.0 if j < n else float(self.vehicles), 0, none, np.zeros(0))
        for j in range(n):
            solver.addCol(much, 0.0, highspy.kHighsInf, 1, np.array([j], np.int32), np.ones(1))  # nobody comes
        dual, best = np.append(np.full(n, much), 0.0), np.empty(n, np.int64)
        while True:
            price(self.length, self.lowest, self.rest, dual[:n], dual[n], self.reduced, best)
            new = np.unique(best[best >= 0])
            new = new[self.reduced[new] < -EPSILON * much]
            if not len(new):
                return float(dual[n])
            for s in new:
                rows = np.append(np.flatnonzero(self.members[s]), n).astype(np.int32)
                solver.addCol(float(self.length[s]), 0.0, highspy.kHighsInf, len(rows), rows, np.ones(len(rows)))
            solver.run()
            dual = np.array(solver.getSolution().row_dual)
