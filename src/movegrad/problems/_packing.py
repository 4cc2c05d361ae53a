"""Customers in routes of a limited fleet, whatever they are worth: where chains of :mod:`movegrad.problems.cvrp` may begin."""

import numpy as np

NODES = 200_000  # of the search, at most


def pack(demands: np.ndarray, capacity: float, fleet: int, least: int = 1) -> list[list[int]]:
    """Customers 1..n in at most so many routes, in each so many at least: first fit, great demands first, else a limited search."""
    n = len(demands)
    if fleet >= n:
        return [[i] for i in range(1, n + 1)]
    order = np.argsort(-demands, kind="stable")
    routes: list[list[int]] = [[] for _ in range(fleet)]
    room = [capacity] * fleet
    for i in order:
        k = next((k for k in range(fleet) if demands[i] <= room[k]), -1)
        if k < 0:
            break
        routes[k].append(int(i) + 1)
        room[k] -= demands[i]
    else:
        if enough(routes, least):
            return [route for route in routes if route]
    found = _pack_all(demands, capacity, fleet, order.tolist(), least)
    if found is None and least > 1:
        raise ValueError(
            "singles must be True where customers find no company, got False: no plan was found with two of them or more in each "
            f"of at most {fleet} routes of capacity {capacity:g}."
        )
    if found is None:
        raise ValueError(f"vehicles must be enough for a plan that serves all customers, got {fleet}, for which none was found.")
    return found


def enough(routes: list[list[int]], least: int) -> bool:
    """Has every route that is used so many customers?"""
    return all(not route or len(route) >= least for route in routes)


def _pack_all(demands: np.ndarray, capacity: float, fleet: int, order: list[int], fewest: int) -> list[list[int]] | None:
    """Depth first: the greatest demand goes to each of the vehicles with different room or need in turn, the fullest first."""
    routes: list[list[int]] = [[] for _ in range(fleet)]
    room, spare, nodes = [float(capacity)] * fleet, capacity * fleet - float(demands.sum()), 0
    tried: list[list[int]] = []
    while True:
        at = len(tried)
        if at < len(order):
            wanted = demands[order[at]]
            alike = {(room[k], min(len(routes[k]), fewest)): k for k in range(fleet) if wanted <= room[k]}
            ways = sorted(alike.items(), reverse=True)
            tried.append([k for _, k in ways])
        elif enough(routes, fewest):
            return [route for route in routes if route]
        else:
            tried.append([])
        while True:
            nodes += 1
            if nodes > NODES:
                return None
            if tried[-1]:
                k, i = tried[-1].pop(), order[len(tried) - 1]
                routes[k].append(i + 1)
                room[k] -= demands[i]
                least = min((demands[j] for j in order[len(tried) :]), default=0.0)
                if sum(r for r in room if r < least) <= spare or len(tried) == len(order):
                    break
                room[k] += demands[routes[k].pop() - 1]
                continue
            tried.pop()
            if not tried:
                return None
            last = order[len(tried) - 1] + 1
            k = next(k for k in range(fleet) if routes[k] and routes[k][-1] == last)
            routes[k].pop()
            room[k] += demands[last - 1]
