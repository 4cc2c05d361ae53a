"""The traveling salesman problem as a problem of your own: 2-opt and or-opt as moves, proved, solved and learned from.

Run it with ``python examples/tsp.py`` (needs torch, rich and matplotlib). ``docs/adding_a_problem.md`` tells how it was written.
"""

from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, track

import movegrad as mg
import movegrad.torch
from movegrad import integer

OUT = Path(__file__).parent / "out"
console = Console(highlight=False)


# --- the problem -----------------------------------------------------------------------------------------------------
#
# A solution is the order y of the n cities, y[0] = 0, so that no rotation of a tour is counted twice. Its two directions are two
# solutions with the same T and so the same probability: every undirected tour counts exactly twice, and E[T(Y)] is what
# it would be if each counted once. T(y) says which of the n(n−1)/2 undirected edges the tour uses.


class Data(NamedTuple):
    longest: int  # segment that or-opt moves, in cities


class State(NamedTuple):
    y: np.ndarray  # (n,) the solution; nothing is derived from it


@mg.jit
def edge(a, b):
    """Entry of θ and T that belongs to the edge {a, b}: the lower triangle of a matrix, row after row."""
    row, column = max(a, b), min(a, b)
    return row * (row - 1) // 2 + column


@mg.jit
def city(y, k):
    """The city at position k ≤ n; the tour closes at city 0."""
    return y[k] if k < len(y) else 0


@mg.jit
def reverse(y, first, last):
    while first < last:
        y[first], y[last] = y[last], y[first]
        first += 1
        last -= 1


# 2-opt: turn round y[i..j], 1 ≤ i < j < n. Each of the (n−1)(n−2)/2 pairs is as likely as any other, here and at y', and
# the same pair leads back: the log ratio is 0.


@mg.jit
def propose_two_opt(data, state, rng):
    n = len(state.y)
    i, j = integer(rng, n - 1), integer(rng, n - 2)
    j += j >= i  # two different ones
    return (1 + min(i, j), 1 + max(i, j)), 0.0


@mg.jit
def change_two_opt(data, state, move, m):
    y, (i, j) = state.y, move
    if m == 0:
        return edge(y[i - 1], y[i]), -1
    if m == 1:
        return edge(y[j], city(y, j + 1)), -1
    if m == 2:
        return edge(y[i - 1], y[j]), 1
    return edge(y[i], city(y, j + 1)), 1


@mg.jit
def apply_two_opt(data, state, move):
    reverse(state.y, move[0], move[1])


# or-opt: take out a segment of 1, 2 or 3 cities and put it elsewhere. That is to exchange two neighboring stretches y[a..b−1] and
# y[b..c−1], one of which is the segment. The length is drawn first: then a segment of that length starts at one of n−length
# positions and goes to one of n−length−1 other gaps, here and at y' alike. The move back has the same length: the log ratio is 0.


@mg.jit
def propose_or_opt(data, state, rng):
    length = 1 + integer(rng, data.longest)
    rest = len(state.y) - length
    start, gap = 1 + integer(rng, rest), 1 + integer(rng, rest - 1)
    if gap < start:
        return (gap, start, start + length), 0.0
    return (start, start + length, gap + length + 1), 0.0


@mg.jit
def change_or_opt(data, state, move, m):
    y, (a, b, c) = state.y, move
    if m == 0:
        return edge(y[a - 1], y[a]), -1
    if m == 1:
        return edge(y[b - 1], y[b]), -1
    if m == 2:
        return edge(y[c - 1], city(y, c)), -1
    if m == 3:
        return edge(y[a - 1], y[b]), 1
    if m == 4:
        return edge(y[c - 1], y[a]), 1
    return edge(y[b - 1], city(y, c)), 1


@mg.jit
def apply_or_opt(data, state, move):
    a, b, c = move
    reverse(state.y, a, b - 1)
    reverse(state.y, b, c - 1)
    reverse(state.y, a, c - 1)


TWO_OPT = mg.Move("2-opt", propose_two_opt, change_two_opt, apply_two_opt, changes=4)
OR_OPT = mg.Move("or-opt", propose_or_opt, change_or_opt, apply_or_opt, changes=6)


@mg.jit
def statistic(data, y, out):
    out[:] = 0.0  # it comes with whatever was in memory
    for k in range(len(y)):
        out[edge(y[k], city(y, k + 1))] = 1.0


@mg.jit
def contains(data, y):
    """Is y an order of all cities that begins with 0? Once for each start, so O(n²) without scratch space will do."""
    for k in range(len(y)):
        if not 0 <= y[k] < len(y):
            return False
        for other in range(k):
            if y[other] == y[k]:
                return False
    return y[0] == 0


@mg.jit
def random(data, rng, y):
    for k in range(len(y)):
        y[k] = k
    for k in range(len(y) - 1, 1, -1):  # Fisher-Yates on all but city 0
        other = 1 + integer(rng, k)
        y[k], y[other] = y[other], y[k]


class TSP(mg.Problem):
    """All tours through n ≥ 3 cities; θ and T have one entry for each edge, d = n(n−1)/2. θ = −distances: the shortest tour."""

    def __init__(self, n: int, longest: int = 3) -> None:
        super().__init__(
            Data(min(longest, n - 2)),
            State(np.arange(n, dtype=np.int32)),
            [TWO_OPT, OR_OPT],
            n * (n - 1) // 2,
            statistic=statistic,
            contains=contains,
            random=random,
            states=lambda: (np.array((0, *rest)) for rest in permutations(range(1, n))),
            name=f"TSP({n})",
        )
