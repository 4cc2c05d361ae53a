"""Data and state of a routing problem, and the few operations on routes that all moves share.

A solution is the array ``next``: the request after each request, 0 (the depot) after the last one of a route, −1 for a request that
is not served. It says nothing about the order of routes: sets of routes and such arrays are in one-to-one correspondence.
"""

from typing import NamedTuple

import numpy as np

from movegrad.engine import coin, integer, jit, outline

UNSERVED = -1
SERVED, ROUTES = 0, 1  # in State.counts


class Data(NamedTuple):
    """Index 0 is the depot. Times and costs are multiples of a power of two, so that their sums are exact."""

    cost: np.ndarray  # (n+1, n+1), 0 on the diagonal
    travel: np.ndarray  # (n+1, n+1) service at i and the way to j, 0 on the diagonal
    opens: np.ndarray  # (n+1,)
    closes: np.ndarray  # (n+1,)
    demand: np.ndarray  # (n+1,)
    capacity: float
    fleet: int
    must: np.ndarray  # (n+1,) 1: must be served
    optional: np.ndarray  # requests that need not be served
    weight: np.ndarray  # (n+1, n+1) probability that request i draws j, in units; j = 0 stands for a new route
    alias: np.ndarray  # (n+1, n+1) alias table of it, see :class:`~movegrad.problems.routing.instance.Alias`
    bits: int  # of it
    near: np.ndarray  # (n+1, m) requests with the greatest weights, for local search


class State(NamedTuple):
    """Routes live in slots, which are storage alone: nothing that is drawn depends on the number of a slot.

    The depot is an ordinary entry 0 of the arrays by request, so that the first and last stop of a route need no cases.
    """

    next: np.ndarray  # (n+1,) the solution
    prev: np.ndarray  # by request: the one before, 0 for the first
    route: np.ndarray  # by request: its slot
    rank: np.ndarray  # by request: its position in its route
    begin: np.ndarray  # by request: when service begins
    latest: np.ndarray  # by request: when service may begin at the latest, so that the rest of the route keeps its windows
    load: np.ndarray  # by request: demand up to it
    leave: np.ndarray  # by request: cost of the way to the next; near in memory, unlike the matrix
    ahead: np.ndarray  # by request: cost from the depot to it
    behind: np.ndarray  # by request: cost from it to the first stop if the route is driven backward
    first: np.ndarray  # by slot
    last: np.ndarray  # by slot
    free: np.ndarray  # slots: those in use first, the others from counts[ROUTES] on
    spot: np.ndarray  # by slot: where it is in ``free``
    served: np.ndarray  # requests: those served first
    place: np.ndarray  # by request: where it is in ``served``
    saved: np.ndarray  # scratch: a solution to go back to
    counts: np.ndarray  # (2,) requests served, routes


# --- draws --------------------------------------------------------------------------------------------------------------


@jit
def draw_served(state, rng):
    """A request served, uniformly."""
    return np.int64(state.served[integer(rng, state.counts[SERVED])])


@jit
def draw_near(data, rng, i):
    """j with probability ``weight[i, j]``; 0 stands for a new route."""
    j = integer(rng, data.alias.shape[1])
    entry = np.int64(data.alias[i, j])
    kept = entry & ((1 << data.bits) - 1)
    return j if coin(rng, kept / (1 << data.bits)) else entry >> data.bits


# --- routes ---------------------------------------------------------------------------------------------------------------


@jit
def link(state, a, b):
    """Let b follow a; either may be the depot."""
    if a != 0:
        state.next[a] = b
    if b != 0:
        state.prev[b] = a


@jit
def open_route(state):
    """An empty slot, now in use."""
    state.counts[ROUTES] += 1
    return np.int64(state.free[state.counts[ROUTES] - 1])


@jit
def close_route(state, slot):
    """Give a slot back."""
    state.counts[ROUTES] -= 1
    border, at = state.counts[ROUTES], state.spot[slot]
    other = state.free[border]
    state.free[at], state.free[border] = other, slot
    state.spot[other], state.spot[slot] = at, border


@outline
def refresh(data, state, slot, first):
    """Derive everything about the route in a slot from ``next``; no stop: the slot is given back."""
    if first == 0:
        close_route(state, slot)
        return
    state.first[slot] = first
    a, b, rank = np.int64(0), np.int64(first), 0
    while b != 0:
        state.prev[b] = a
        state.route[b] = slot
        state.rank[b] = rank
        state.begin[b] = max(state.begin[a] + data.travel[a, b], data.opens[b])
        state.load[b] = state.load[a] + data.demand[b]
        state.ahead[b] = state.ahead[a] + data.cost[a, b]
        state.behind[b] = state.behind[a] + (data.cost[b, a] if a != 0 else 0.0)
        state.leave[b] = data.cost[b, state.next[b]]
        a, b, rank = b, np.int64(state.next[b]), rank + 1
    state.last[slot] = a
    b = np.int64(0)
    while a != 0:
        state.latest[a] = min(data.closes[a], state.latest[b] - data.travel[a, b])
        a, b = np.int64(state.prev[a]), a


@jit
def load_of(state, slot):
    return state.load[state.last[slot]]


@jit
def mark_served(state, i):
    border, at = state.counts[SERVED], state.place[i]
    other = state.served[border]
    state.served[at], state.served[border] = other, i
    state.place[other], state.place[i] = at, border
    state.counts[SERVED] += 1


@jit
def mark_unserved(state, i):
    state.counts[SERVED] -= 1
    border, at = state.counts[SERVED], state.place[i]
    other = state.served[border]
    state.served[at], state.served[border] = other, i
    state.place[other], state.place[i] = at, border
    state.next[i] = UNSERVED


@outline
def prepare(data, guide, temperature, state):
    n = len(state.next) - 1
    state.begin[0], state.latest[0] = data.opens[0], data.closes[0]
    state.load[0], state.ahead[0], state.behind[0] = 0.0, 0.0, 0.0
    state.counts[SERVED], state.counts[ROUTES] = 0, 0
    state.route[0], state.rank[0], state.place[0] = 0, 0, n
    for i in range(n + 1):
        state.prev[i] = 0
        state.free[i] = state.spot[i] = i
        state.first[i] = state.last[i] = 0
    for i in range(1, n + 1):
        state.served[i - 1], state.place[i] = i, i - 1
        state.route[i] = state.rank[i] = 0
        if state.next[i] > 0:
            state.prev[state.next[i]] = i
    state.served[n] = 0
    for i in range(1, n + 1):
        if state.next[i] != UNSERVED:
            mark_served(state, i)
            if state.prev[i] == 0:
                refresh(data, state, open_route(state), i)


@jit
def arc(data, state, a, b):
    """Cost from a to b, which follows it."""
    return state.leave[a] if a != 0 else data.cost[0, b]


# --- time windows -----------------------------------------------------------------------------------------------------------
#
# A time is when service begins at a request; that at which a window is missed is infinite.


@jit
def drive(data, time, a, b):
    """Go from a, where service begins at ``time``, to b."""
    arrival = time + data.travel[a, b]
    return max(arrival, data.opens[b]) if arrival <= data.closes[b] else np.inf


@jit
def drive_along(data, state, time, a, b, to):
    """Go from a to b and on along its route, as far as ``to``."""
    time = drive(data, time, a, b)
    while b != to and time < np.inf:
        a, b = b, np.int64(state.next[b])
        time = drive(data, time, a, b)
    return time


@jit
def drive_back(data, state, time, a, b, to):
    """Go from a to b and on against the direction of its route, as far as ``to``."""
    time = drive(data, time, a, b)
    while b != to and time < np.inf:
        a, b = b, np.int64(state.prev[b])
        time = drive(data, time, a, b)
    return time


@jit
def arrives(data, state, time, a, b):
    """Can one go from a to b and on to the end of its route?"""
    return time + data.travel[a, b] <= state.latest[b]


@jit
def goes_between(data, state, a, i, e, b):
    """Can the stops i…e (e is i or follows it) stand between a and b, where a and all before keep their times?"""
    time = drive(data, state.begin[a], a, i)
    if e != i:
        time = drive(data, time, i, e)
    return arrives(data, state, time, e, b)


# --- the set ------------------------------------------------------------------------------------------------------------------


@outline
def is_route(data, next_of, first):
    """The number of stops of the route that begins at ``first``; −1 if it breaks a window or the capacity, or never ends."""
    stops, time, load, a, b = 0, data.opens[0], 0.0, 0, first
    while b != 0:
        time = drive(data, time, a, b)
        load += data.demand[b]
        stops += 1
        a, b = b, np.int64(next_of[b])
        if time == np.inf or load > data.capacity or b < 0 or stops > len(next_of):
            return -1
    return stops if time + data.travel[a, 0] <= data.closes[0] else -1


@outline
def contains(data, solution):
    """Asked of every start: O(n²), since there is no scratch space here, in a loop that is vectorized."""
    n, served, seen, routes = len(solution) - 1, 0, 0, 0
    if solution[0] != 0:
        return False
    for i in range(1, n + 1):
        if solution[i] < UNSERVED or solution[i] > n or (solution[i] == UNSERVED and data.must[i]):
            return False
    for i in range(1, n + 1):
        if solution[i] == UNSERVED:
            continue
        before = 0
        for k in range(1, n + 1):
            before += solution[k] == i
        if before > 1:
            return False
        served += 1
        if before == 0:
            stops = is_route(data, solution, i)
            if stops < 0:
                return False
            seen += stops
            routes += 1
    return seen == served and routes <= data.fleet


@jit
def cost_of(data, solution):
    """Cost of all routes."""
    total = 0.0
    for i in range(1, len(solution)):
        if solution[i] != UNSERVED:
            total += data.cost[i, solution[i]] + data.cost[0, i]
            if solution[i] > 0:
                total -= data.cost[0, solution[i]]
    return total


@jit
def phi(data, solution):
    return -cost_of(data, solution)


@jit
def statistic(data, solution, out):
    for i in range(1, len(solution)):
        out[i - 1] = solution[i] != UNSERVED
