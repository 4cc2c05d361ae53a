"""Ways to build and to improve a plan without chance: where chains and annealing begin."""

import numpy as np

from movegrad.engine import coin, integer, jit, outline
from movegrad.problems.routing.moves import (
    apply_relocate,
    apply_serve,
    apply_split,
    apply_swap,
    apply_tails,
    apply_two_opt,
    feasible_relocate,
    feasible_serve,
    feasible_split,
    feasible_swap,
    feasible_tails,
    feasible_two_opt,
    gain_relocate,
    gain_serve,
    gain_split,
    gain_swap,
    gain_tails,
    gain_two_opt,
)
from movegrad.problems.routing.state import ROUTES, SERVED, UNSERVED, drive, is_route, prepare

TRIES = 100  # of a random plan for what must be served, at most
ROUNDS = 50  # of local search over all requests, at most
LEAST = 1e-9  # gain that counts as an improvement


# --- a random plan ----------------------------------------------------------------------------------------------------------


@outline
def first_of(solution, i):
    """The first stop of the route of i: O(n) for each stop, since only ``next`` is there."""
    at = i
    while True:
        before = 0
        for k in range(1, len(solution)):
            if solution[k] == at:
                before = k
        if before == 0:
            return at
        at = before


@outline
def squeeze_in(data, solution, i):
    """Put a request that must be served anywhere where it fits; False if there is no such place."""
    for j in range(1, len(solution)):
        if solution[j] == UNSERVED or j == i:
            continue
        after = solution[j]
        solution[j], solution[i] = i, after
        if is_route(data, solution, first_of(solution, i)) > 0:
            return True
        solution[j], solution[i] = after, UNSERVED
        if first_of(solution, j) == j:
            solution[i] = j
            if is_route(data, solution, i) > 0:
                return True
            solution[i] = UNSERVED
    return False


@outline
def draw_plan(data, rng, solution):
    """Routes one after another from requests drawn at random; those that must be served come first, half of the others follow.

    False where vehicles are limited and one that must be served found no room.
    """
    n, routes, end, time, load = len(solution) - 1, 0, 0, np.inf, 0.0
    solution[0] = 0
    for i in range(1, n + 1):
        solution[i] = UNSERVED
    for k in range(5 * n):
        if k < 2 * n:  # then every request that must be served, in turn
            i = 1 + integer(rng, n)
        elif k < 3 * n:
            i = k - 2 * n + 1
        else:
            i = 1 + integer(rng, n)
        if solution[i] != UNSERVED or (data.must[i] == 0) == (k < 3 * n) or (k >= 3 * n and coin(rng, 0.5)):
            continue
        begin = drive(data, time, end, i) if end != 0 else np.inf
        if load + data.demand[i] > data.capacity or begin + data.travel[i, 0] > data.closes[0]:
            begin = np.inf
        if begin < np.inf:
            solution[end] = i
            time, load = begin, load + data.demand[i]
        elif routes < data.fleet:
            routes += 1
            time, load = drive(data, data.opens[0], 0, i), data.demand[i]
        elif data.must[i]:
            squeeze_in(data, solution, i)
            end, time = 0, np.inf  # the open route may be another one now
            continue
        else:
            continue
        solution[i] = 0
        end = i
    for i in range(1, n + 1):
        if data.must[i] and solution[i] == UNSERVED:
            return False
    return True


@outline
def random(data, rng, solution):
    """A random plan, not uniform on the set; drawn anew where a request that must be served found no room in a limited fleet.

    Where that always happens, the result is not in the set.
    """
    for _ in range(TRIES):
        if draw_plan(data, rng, solution):
            return


# --- greedy insertion ---------------------------------------------------------------------------------------------------------


@outline
def best_gap(data, state, i, alone):
    """The gap in which request i costs least: (a, b, gain), a route of its own counts if ``alone``; −inf if it fits nowhere."""
    a, b, best = np.int64(0), np.int64(0), -np.inf
    if alone and state.counts[ROUTES] < data.fleet:
        best = gain_serve(data, state, (i, 0, 0))
    for k in range(state.counts[SERVED]):
        j = np.int64(state.served[k])
        for side in range(2):
            if side == 1 and state.prev[j] != 0:
                continue
            left, right = (j, np.int64(state.next[j])) if side == 0 else (np.int64(0), j)
            gain = gain_serve(data, state, (i, left, right))
            if gain > best and feasible_serve(data, state, (i, left, right)):
                a, b, best = left, right, gain
    return a, b, best


@outline
def insert_all(data, state, must, turn):
    """Insert what must be served, or the others, each where it costs least; the first ``turn`` come last. Did all fit?"""
    n, whole = len(state.next) - 1, True
    for k in range(n):
        i = 1 + (turn + k) % n
        if state.next[i] != UNSERVED or data.must[i] != must:
            continue
        a, b, gain = best_gap(data, state, i, True)
        if gain > -np.inf:
            apply_serve(data, state, (i, a, b))
        else:
            whole = False
    return whole


@outline
def greedy(data, guide, state):
    """Insert all requests, each where it costs least, those that must be served first; then improve, which removes what does not
    pay. To insert only what pays would leave out whole regions, where no request pays for a vehicle by itself. Where vehicles are
    limited and one that must be served finds no room, another one is the first.
    """
    n = len(state.next) - 1
    for turn in range(n):
        state.next[0] = 0
        for i in range(1, n + 1):
            state.next[i] = UNSERVED
        prepare(data, guide, 1.0, state)
        if insert_all(data, state, 1, turn):
            break
    insert_all(data, state, 0, 0)
    improve(data, guide, state)


# --- first improvement --------------------------------------------------------------------------------------------------------


@jit
def try_relocate(data, state, i, e, a, b):
    move = (i, e, a, b)
    if a == e or b == i or (a == state.prev[i] and b == state.next[e]) or gain_relocate(data, state, move) <= LEAST:
        return False
    if not feasible_relocate(data, state, move):
        return False
    apply_relocate(data, state, move)
    return True


@jit
def try_swap(data, state, i, e, j, f):
    if state.route[i] == state.route[j] and state.rank[j] < state.rank[i]:
        i, e, j, f = j, f, i, e
    move = (i, e, j, f)
    if gain_swap(data, state, move) <= LEAST or not feasible_swap(data, state, move):
        return False
    apply_swap(data, state, move)
    return True


@jit
def try_pair_of(data, state, i, j):
    """Moves that look at two requests served."""
    e, f = np.int64(state.next[i]), np.int64(state.next[j])
    if try_relocate(data, state, i, i, j, f) or try_relocate(data, state, i, i, np.int64(state.prev[j]), j):
        return True
    if e != 0 and e != j and (try_relocate(data, state, i, e, j, f) or try_relocate(data, state, i, e, np.int64(state.prev[j]), j)):
        return True
    if try_swap(data, state, i, i, j, j):
        return True
    if e != 0 and f != 0 and e != j and f != i and try_swap(data, state, i, e, j, f):
        return True
    if state.route[i] == state.route[j]:
        stretch = (i, j) if state.rank[i] < state.rank[j] else (j, i)
        if gain_two_opt(data, state, stretch) > LEAST and feasible_two_opt(data, state, stretch):
            apply_two_opt(data, state, stretch)
            return True
        return False
    if gain_tails(data, state, (i, j)) > LEAST and feasible_tails(data, state, (i, j)):
        apply_tails(data, state, (i, j))
        return True
    joins = e == 0 and state.prev[j] == 0
    if joins and gain_split(data, state, (i, j)) > LEAST and feasible_split(data, state, (i, j)):
        apply_split(data, state, (i, j))
        return True
    return False


@jit
def try_alone(data, guide, state, i):
    """Moves that look at one request served: out of the plan, to a route of its own, a cut after it."""
    move = (i, np.int64(state.prev[i]), np.int64(state.next[i]))
    if data.must[i] == 0 and gain_serve(data, state, move) - guide[i - 1] > LEAST and feasible_serve(data, state, move):
        apply_serve(data, state, move)
        return True
    if try_relocate(data, state, i, i, 0, 0):
        return True
    cut = (i, np.int64(state.next[i]))
    if cut[1] != 0 and gain_split(data, state, cut) > LEAST and feasible_split(data, state, cut):
        apply_split(data, state, cut)
        return True
    return False


@jit
def try_to_serve(data, guide, state, i):
    """Serve a request in a gap beside a near one, or in a route of its own."""
    for k in range(-1, data.near.shape[1]):
        j = np.int64(data.near[i, k] if k >= 0 else 0)
        if j != 0 and state.next[j] == UNSERVED:
            continue
        for side in range(2 if j != 0 else 1):
            a, b = np.int64(0), np.int64(0)
            if j != 0:
                a, b = (j, np.int64(state.next[j])) if side == 0 else (np.int64(state.prev[j]), j)
            move = (i, a, b)
            if gain_serve(data, state, move) + guide[i - 1] > LEAST and feasible_serve(data, state, move):
                apply_serve(data, state, move)
                return True
    return False


@outline
def dissolve(data, guide, state, first):
    """Take out the route that begins at ``first`` and insert its stops in other routes, as far as they pay; if that is no gain, go
    back. What a vehicle costs is saved by its last stop alone, so that single moves hardly ever give up a route.
    """
    for k in range(len(state.next)):
        state.saved[k] = state.next[k]
    total, i, top = 0.0, np.int64(first), state.counts[SERVED]
    while i != 0:
        move = (i, np.int64(0), np.int64(state.next[i]))
        total += gain_serve(data, state, move) - guide[i - 1]
        apply_serve(data, state, move)
        i = move[2]
    at, whole = top - 1, True  # those taken out are the last in ``served``
    while at >= state.counts[SERVED]:
        i = np.int64(state.served[at])
        a, b, gain = best_gap(data, state, i, False)
        if gain > -np.inf and (data.must[i] or gain + guide[i - 1] > LEAST):
            total += gain + guide[i - 1]
            apply_serve(data, state, (i, a, b))  # another one takes its place
        else:
            whole &= data.must[i] == 0
            at -= 1
    if whole and total > LEAST:
        return True
    for k in range(len(state.next)):
        state.next[k] = state.saved[k]
    prepare(data, guide, 1.0, state)
    return False


@outline
def improve(data, guide, state):
    """First improvement over all moves with near requests, then over whole routes, until a local optimum or a limit of rounds."""
    for _ in range(ROUNDS):
        better = False
        for i in range(1, len(state.next)):
            if state.next[i] == UNSERVED:
                better |= try_to_serve(data, guide, state, i)
                continue
            if try_alone(data, guide, state, i):
                better = True
                continue
            for k in range(data.near.shape[1]):
                j = np.int64(data.near[i, k])
                if state.next[j] != UNSERVED and try_pair_of(data, state, i, j):
                    better = True
        if not better:
            for i in range(1, len(state.next)):
                if state.next[i] != UNSERVED and state.prev[i] == 0:
                    better |= dissolve(data, guide, state, i)
        if not better:
            return
