"""Labels of routing models, given by the edges that they use, as tours and routes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Edges = Sequence[tuple[int, int]]


def triangle_order(edges: Edges, n: int) -> np.ndarray:
    """For each entry of a lower triangle row after row, the place of its edge in a list of all edges."""
    place = {(max(e), min(e)): k for k, e in enumerate(edges)}
    return np.array([place[i, j] for i in range(n) for j in range(i)], np.int64)


def triangle_edges(n: int) -> list[tuple[int, int]]:
    """All edges in that order."""
    return [(j, i) for i in range(n) for j in range(i)]


def tours(labels: np.ndarray, edges: Edges, n: int, name: str) -> np.ndarray:
    """(N, edges) of 0 and 1 → (N, n): the cities in the order of the tour, from city 0 to its neighbor of smaller number first."""
    out = np.zeros((len(labels), n), np.int64)
    for k, label in enumerate(labels):
        near = _adjacent(label, edges, n, name, k, most=1)
        for v in range(n):
            if len(near[v]) != 2:
                raise _wrong(name, "a tour", f"{len(near[v])} edges at node {v}", k)
        at, before, path = min(near[0]), 0, [0]
        while at != 0:
            path.append(at)
            at, before = next(v for v in near[at] if v != before), at
        if len(path) < n:
            missing = next(v for v in range(n) if v not in path)
            raise _wrong(name, "one tour", f"one of {len(path)} nodes without node {missing}", k)
        out[k] = path
    return out


def routes(labels: np.ndarray, edges: Edges, n: int, name: str) -> list[list[list[int]]]:
    """(N, edges) → for each label its routes from the depot, node 0, to customers 1..n−1 and back.

    An edge between the depot and a customer without other edges is a route of its own, be it counted once or twice.
    """
    return [_routes(label, edges, n, name, k) for k, label in enumerate(labels)]


def _routes(label: np.ndarray, edges: Edges, n: int, name: str, k: int) -> list[list[int]]:
    near = _adjacent(label, edges, n, name, k, most=2)
    for v in range(1, n):
        alone = set(near[v]) == {0}
        if len(near[v]) != 2 and not (alone and len(near[v]) == 1):
            raise _wrong(name, "routes", f"{len(near[v])} edges at customer {v}", k)
        if len(set(near[v])) == 1 and not alone:
            raise _wrong(name, "routes", f"an edge between customers {v} and {near[v][0]} that is used twice", k)
    seen, out = {0}, []
    for first in sorted(set(near[0])):
        if first in seen:
            continue
        route, before, at = [], 0, first
        while at != 0:
            route.append(at)
            seen.add(at)
            ways = list(near[at])
            ways.remove(before)
            before, at = at, ways[0] if ways else 0
        out.append(route)
    missing = sorted(set(range(n)) - seen)
    if missing:
        raise _wrong(name, "routes from the depot", f"customer {missing[0]} on a tour without it", k)
    return out


def _adjacent(label: np.ndarray, edges: Edges, n: int, name: str, k: int, most: int) -> list[list[int]]:
    """Neighbors of each node, those of an edge that is used twice named twice."""
    near: list[list[int]] = [[] for _ in range(n)]
    for e in np.flatnonzero(label).tolist():
        i, j = edges[e]
        count = int(label[e])
        if not 0 < count <= (most if 0 in (i, j) else 1):
            raise _wrong(name, "edges that are used or not", f"{count} for the edge between nodes {i} and {j}", k)
        near[i] += [j] * count
        near[j] += [i] * count
    return near


def _wrong(name: str, wanted: str, found: str, k: Any) -> ValueError:
    return ValueError(f"{name} must be {wanted}, got {found} in row {k}.")
