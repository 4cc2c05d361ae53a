"""Routing instances for tests, and what is true of them by brute force, in terms of routes alone.

A plan is a frozenset of routes, each a tuple of requests. Nothing here calls the code under test but ``Instance``: it holds data.
"""

from itertools import combinations, pairwise, permutations

import numpy as np

from movegrad.problems.routing import Instance

Plan = frozenset


def instance(n, seed=0, *, binding=False, triangle=True, capacity=False, must="none", fleet=None, integer=True, **more):
    """A random instance in which every request can be served alone; redrawn until that is so."""
    rng = np.random.default_rng([seed, n, binding, triangle, capacity])
    while True:
        place = rng.integers(0, 20, (n + 1, 2))
        durations = np.abs(place[:, None] - place[None]).sum(-1) if triangle else rng.integers(1, 25, (n + 1, n + 1))
        durations = durations if integer else durations + rng.random((n + 1, n + 1))
        opens = rng.integers(0, 40, n + 1) if binding else np.zeros(n + 1, int)
        closes = opens + (rng.integers(5, 40, n + 1) if binding else 1000 * n)
        windows = np.stack([opens, closes], 1)
        windows[0] = (0, 120 if binding else 5000 * n)
        demands, service = rng.integers(1, 4, n + 1), rng.integers(0, 4, n + 1)
        demands[0] = 0
        flags = {"none": np.zeros(n + 1, bool), "some": np.arange(n + 1) % 2 == 1, "all": np.ones(n + 1, bool)}[must]
        try:
            return Instance(durations, demands, service, windows, 4 if capacity else 3 * n, flags, fleet, **more)
        except ValueError as error:
            if "durations must let" not in str(error):
                raise


# --- routes and plans -----------------------------------------------------------------------------


def fits(instance, route) -> bool:
    """Does a vehicle that leaves when the depot opens keep all windows and its capacity?"""
    if sum(instance.demands[i] for i in route) > instance.capacity:
        return False
    time = instance.windows[0, 0]
    for a, b in pairwise((0, *route, 0)):
        time = max(time + instance.service[a] + instance.durations[a, b], instance.windows[b, 0] if b else -np.inf)
        if time > instance.windows[b, 1]:
            return False
    return True


def cost(instance, plan) -> float:
    return sum(instance.costs[a, b] for route in plan for a, b in pairwise((0, *route, 0)))


def served(plan) -> list[int]:
    return [i for route in plan for i in route]


def feasible(instance, plan) -> bool:
    stops = served(plan)
    fleet = instance.max_vehicles or instance.requests
    everything = len(stops) == len(set(stops)) and set(np.flatnonzero(instance.must_serve)) <= set(stops)
    return everything and len(plan) <= fleet and all(route and fits(instance, route) for route in plan)


def all_plans(instance) -> set[Plan]:
    """Every order of every subset, cut in every way; as sets, so that the order of routes does not count."""
    found = set()
    for size in range(instance.requests + 1):
        for order in permutations(range(1, instance.requests + 1), size):
            for cuts in range(2 ** max(size - 1, 0)):
                ends = [k for k in range(1, size) if cuts >> (k - 1) & 1]
                found.add(Plan(order[a:b] for a, b in pairwise([0, *ends, size]) if b > a))
    return {plan for plan in found if feasible(instance, plan)}


def array(plan, n) -> np.ndarray:
    out = np.full(n + 1, -1)
    out[0] = 0
    for route in plan:
        for a, b in pairwise((*route, 0)):
            out[a] = b
    return out


def plan_of(solution) -> Plan:
    """By following ``next`` from every request that none points to."""
    after, routes = [int(v) for v in solution], []
    for first in set(range(1, len(after))) - set(after[1:]):
        if after[first] != -1:
            route = [first]
            while after[route[-1]] != 0:
                route.append(after[route[-1]])
            routes.append(tuple(route))
    return Plan(routes)


# --- neighborhoods --------------------------------------------------------------------------------


def _but(plan, *routes):
    return plan - set(routes)


def _with(plan, *routes):
    return plan | {route for route in routes if route}


def _blocks(plan, size):
    """(route, position) of every stretch of so many stops."""
    return [(route, p) for route in plan for p in range(len(route) - size + 1)]


def _insertions(plan, block):
    """Into every gap of every route, and as a route of its own."""
    yield _with(plan, block)
    for route in plan:
        for gap in range(len(route) + 1):
            yield _with(_but(plan, route), (*route[:gap], *block, *route[gap:]))


def _relocations(plan, size):
    for route, p in _blocks(plan, size):
        rest = _with(_but(plan, route), route[:p] + route[p + size :])
        yield from _insertions(rest, route[p : p + size])


def _swaps(plan, size):
    for (one, p), (other, q) in combinations(_blocks(plan, size), 2):
        if one != other:
            new = one[:p] + other[q : q + size] + one[p + size :], other[:q] + one[p : p + size] + other[q + size :]
            yield _with(_but(plan, one, other), *new)
        elif p + size <= q:
            first, second = one[p : p + size], one[q : q + size]
            yield _with(_but(plan, one), one[:p] + second + one[p + size : q] + first + one[q + size :])


def _reversals(plan):
    for route in plan:
        for p, q in combinations(range(len(route)), 2):
            yield _with(_but(plan, route), route[:p] + route[p : q + 1][::-1] + route[q + 1 :])


def _tails(plan):
    for one, other in combinations(plan, 2):
        for p in range(1, len(one) + 1):
            for q in range(1, len(other) + 1):
                yield _with(_but(plan, one, other), one[:p] + other[q:], other[:q] + one[p:])


def _cuts(plan):
    for route in plan:
        for p in range(1, len(route)):
            yield _with(_but(plan, route), route[:p], route[p:])
    for one, other in permutations(plan, 2):
        yield _with(_but(plan, one, other), one + other)


def _services(instance, plan):
    for i in range(1, instance.requests + 1):
        if i not in served(plan):
            yield from _insertions(plan, (i,))
        elif not instance.must_serve[i]:
            route = next(route for route in plan if i in route)
            yield _with(_but(plan, route), tuple(j for j in route if j != i))


def neighbors(instance, plan) -> dict[str, set[Plan]]:
    """By the name of a move, the plans it can lead to, feasible or not."""
    lists = {
        "relocate": _relocations(plan, 1),
        "relocate pair": _relocations(plan, 2),
        "swap": _swaps(plan, 1),
        "swap pair": _swaps(plan, 2),
        "2-opt": _reversals(plan),
        "2-opt*": _tails(plan),
        "split/merge": _cuts(plan),
        "serve/remove": _services(instance, plan),
    }
    return {name: set(plans) - {plan} for name, plans in lists.items()}


def reached(instance, plan) -> set[Plan]:
    """All plans that moves lead to from one."""
    seen, queue = {plan}, [plan]
    while queue:
        here = queue.pop()
        new = {p for plans in neighbors(instance, here).values() for p in plans if feasible(instance, p)} - seen
        seen |= new
        queue += new
    return seen


# --- states ---------------------------------------------------------------------------------------


def assert_same_state(state, fresh) -> None:
    """Two states of one solution agree in all that is derived, but for the numbers of slots and the order of lists."""
    np.testing.assert_array_equal(state.next, fresh.next)
    n = len(state.next) - 1
    stops = [i for i in range(1, n + 1) if state.next[i] != -1]
    for name in ("prev", "rank", "begin", "latest", "load", "leave", "ahead", "behind"):
        rows = stops if name in ("prev", "rank", "leave") else [0, *stops]
        np.testing.assert_array_equal(getattr(state, name)[rows], getattr(fresh, name)[rows], err_msg=name)
    np.testing.assert_array_equal(state.counts, fresh.counts)
    slots = {}
    for i in stops:
        slot = slots.setdefault(int(fresh.route[i]), int(state.route[i]))
        assert state.route[i] == slot
        assert (state.first[slot], state.last[slot]) == (fresh.first[fresh.route[i]], fresh.last[fresh.route[i]])
    assert len(set(slots.values())) == len(slots) == state.counts[1]
    assert set(state.free[: len(slots)].tolist()) == set(slots.values())
    np.testing.assert_array_equal(np.sort(state.free), np.arange(n + 1))
    np.testing.assert_array_equal(state.spot[state.free], np.arange(n + 1))
    assert sorted(state.served[: state.counts[0]].tolist()) == stops
    np.testing.assert_array_equal(state.place[state.served[:n]], np.arange(n))
