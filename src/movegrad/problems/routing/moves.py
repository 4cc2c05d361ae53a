"""The moves of prize-collecting routing, corrected so that chains are exact on sets of routes.

Every move draws i uniformly (from the requests served, or from the optional ones) and then j with the fixed probability w_ij of
``Data.weight``, where j = 0 stands for a new route. Nothing else is drawn but a coin for "before or after j". So

* exchanges (swap, 2-opt, 2-opt*, split and merge) draw (i, j) by a law that is the same at y', where the same draw leads back:
  their ratio is 1;
* relocations put a block that begins with i between L' and R' with probability a_i(L', R') = (w_iL' + w_iR')/2, where a depot
  counts 0, or w_i0 for a route of its own: their ratio is a_i(L, R)/a_i(L', R');
* serving has the ratio 1/a_i(L', R'), removing a_i(L, R).

A draw that does not apply (j is not served, …) stays. The paper normalizes over the requests served and labels routes instead.
"""

from math import log

import numpy as np

from movegrad.engine import coin, integer, jit, outline
from movegrad.problem import Move
from movegrad.problems.routing.state import (
    ROUTES,
    SERVED,
    UNSERVED,
    arc,
    arrives,
    draw_near,
    draw_served,
    drive_along,
    drive_back,
    goes_between,
    link,
    load_of,
    mark_served,
    mark_unserved,
    open_route,
    refresh,
)


@jit
def chance(data, i, before, after):
    """a_i(L, R): that i, once drawn, goes between these two."""
    if before == 0 and after == 0:
        units = 2 * np.int64(data.weight[i, 0])
    else:
        units = np.int64(0)
        if before != 0:
            units += data.weight[i, before]
        if after != 0:
            units += data.weight[i, after]
    return units / (2.0 * data.weight.shape[1] * (1 << data.bits))


@jit
def gap_at(state, j, after):
    """The places before and after a gap: that after j, or that before it; j = 0: a new route."""
    if j == 0:
        return np.int64(0), np.int64(0)
    if after:
        return j, np.int64(state.next[j])
    return np.int64(state.prev[j]), j


@jit
def no_change(data, state, move, m):
    return 0, 0


# --- relocate: a request, or one and the next, to another place or to a route of its own -----------------------------------
#
# A move is (i, e, a, b): the stops i…e go between a and b, as these are without them. e is i, or follows it.


@jit
def to_gap(data, state, rng, i, e):
    """Draw the gap; the log ratio."""
    a, b = np.int64(0), np.int64(0)
    j = draw_near(data, rng, i)
    if j != 0:
        after = coin(rng, 0.5)
        if j == e or state.next[j] == UNSERVED:
            return (i, e, a, b), -np.inf
        a, b = gap_at(state, j, after)
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    if b == i or a == e or (a == before and b == behind):  # where the stops are now
        return (i, e, a, b), -np.inf
    return (i, e, a, b), log(chance(data, i, before, behind) / chance(data, i, a, b))


@jit
def propose_relocate(data, state, rng):
    if state.counts[SERVED] == 0:
        return (0, 0, 0, 0), -np.inf
    i = draw_served(state, rng)
    return to_gap(data, state, rng, i, i)


@jit
def propose_relocate_pair(data, state, rng):
    if state.counts[SERVED] < 2:
        return (0, 0, 0, 0), -np.inf
    i = draw_served(state, rng)
    e = np.int64(state.next[i])
    if e == 0:
        return (0, 0, 0, 0), -np.inf
    return to_gap(data, state, rng, i, e)


@jit
def gain_relocate(data, state, move):
    i, e, a, b = move
    before, behind, cost = state.prev[i], state.next[e], data.cost
    saved = arc(data, state, before, i) + state.leave[e] - cost[before, behind]
    return saved - (cost[a, i] + cost[e, b] - arc(data, state, a, b))


@outline
def feasible_relocate(data, state, move):
    i, e, a, b = move
    before, behind, home = np.int64(state.prev[i]), np.int64(state.next[e]), state.route[i]
    if a == 0 and b == 0:
        if state.counts[ROUTES] >= data.fleet or not goes_between(data, state, a, i, e, b):
            return False
        return arrives(data, state, state.begin[before], before, behind)
    there = state.route[a if a != 0 else b]
    if there != home:
        moved = state.load[e] - state.load[before]
        return (
            load_of(state, there) + moved <= data.capacity
            and goes_between(data, state, a, i, e, b)
            and arrives(data, state, state.begin[before], before, behind)
        )
    if a != 0 and state.rank[a] > state.rank[i]:  # later in its route: before, behind … a, i … e, b
        time = drive_along(data, state, state.begin[before], before, behind, a)
        time = drive_along(data, state, time, a, i, e)
        return arrives(data, state, time, e, b)
    time = drive_along(data, state, state.begin[a], a, i, e)
    time = drive_along(data, state, time, e, b, before)
    return arrives(data, state, time, before, behind)


@outline
def apply_relocate(data, state, move):
    i, e, a, b = move
    before, behind, home = np.int64(state.prev[i]), np.int64(state.next[e]), np.int64(state.route[i])
    there = np.int64(state.route[a if a != 0 else b]) if a != 0 or b != 0 else open_route(state)
    head = behind if before == 0 else np.int64(state.first[home])
    head_there = (head if there == home else np.int64(state.first[there])) if a != 0 else i
    link(state, before, behind)
    link(state, a, i)
    link(state, e, b)
    if there != home:
        refresh(data, state, home, head)
    refresh(data, state, there, head_there)


# --- swap: two requests, or two pairs of neighbors -----------------------------------------------------------------------------
#
# A move is (i, e, j, f): the stops i…e and j…f change places. If one follows the other, it is j.


@jit
def in_order(state, i, e, j, f):
    """i…e and j…f, the one that comes first in a common route first; staying if nothing would change."""
    before, behind, ahead, after = state.prev[i], state.next[e], state.prev[j], state.next[f]
    if before == 0 and behind == 0 and ahead == 0 and after == 0:  # two routes change names
        return (i, e, j, f), -np.inf
    if state.route[i] == state.route[j] and state.rank[j] < state.rank[i]:
        return (j, f, i, e), 0.0
    return (i, e, j, f), 0.0


@jit
def propose_swap(data, state, rng):
    if state.counts[SERVED] < 2:
        return (0, 0, 0, 0), -np.inf
    i = draw_served(state, rng)
    j = draw_near(data, rng, i)
    if j == 0 or state.next[j] == UNSERVED:
        return (0, 0, 0, 0), -np.inf
    return in_order(state, i, i, j, j)


@jit
def propose_swap_pair(data, state, rng):
    if state.counts[SERVED] < 4:
        return (0, 0, 0, 0), -np.inf
    i = draw_served(state, rng)
    j = draw_near(data, rng, i)
    if j == 0 or state.next[i] == 0 or state.next[j] <= 0 or state.next[i] == j or state.next[j] == i:
        return (0, 0, 0, 0), -np.inf
    return in_order(state, i, np.int64(state.next[i]), j, np.int64(state.next[j]))


@jit
def gain_swap(data, state, move):
    i, e, j, f = move
    before, behind, ahead, after, cost = state.prev[i], state.next[e], state.prev[j], state.next[f], data.cost
    old = arc(data, state, before, i) + state.leave[e] + state.leave[f]
    if behind == j:
        return old - (cost[before, j] + cost[f, i] + cost[e, after])
    old += arc(data, state, ahead, j)
    return old - (cost[before, j] + cost[f, behind] + cost[ahead, i] + cost[e, after])


@outline
def feasible_swap(data, state, move):
    i, e, j, f = move
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    ahead, after = np.int64(state.prev[j]), np.int64(state.next[f])
    home, there = state.route[i], state.route[j]
    if home != there:
        extra = state.load[f] - state.load[ahead] - (state.load[e] - state.load[before])
        return (
            load_of(state, home) + extra <= data.capacity
            and load_of(state, there) - extra <= data.capacity
            and goes_between(data, state, before, j, f, behind)
            and goes_between(data, state, ahead, i, e, after)
        )
    time = drive_along(data, state, state.begin[before], before, j, f)
    if behind == j:
        time = drive_along(data, state, time, f, i, e)
    else:
        time = drive_along(data, state, time, f, behind, ahead)
        time = drive_along(data, state, time, ahead, i, e)
    return arrives(data, state, time, e, after)


@outline
def apply_swap(data, state, move):
    i, e, j, f = move
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    ahead, after = np.int64(state.prev[j]), np.int64(state.next[f])
    home, there = np.int64(state.route[i]), np.int64(state.route[j])
    head = j if before == 0 else np.int64(state.first[home])
    head_there = i if ahead == 0 else np.int64(state.first[there])
    link(state, before, j)
    if behind == j:
        link(state, f, i)
    else:
        link(state, f, behind)
        link(state, ahead, i)
    link(state, e, after)
    refresh(data, state, home, head)
    if there != home:
        refresh(data, state, there, head_there)


# --- 2-opt: reverse the stops i…j of a route --------------------------------------------------------------------------------------


@jit
def propose_two_opt(data, state, rng):
    if state.counts[SERVED] < 2:
        return (0, 0), -np.inf
    i = draw_served(state, rng)
    j = draw_near(data, rng, i)
    if j == 0 or state.next[j] == UNSERVED or state.route[i] != state.route[j]:
        return (0, 0), -np.inf
    return ((i, j) if state.rank[i] < state.rank[j] else (j, i)), 0.0


@jit
def gain_two_opt(data, state, move):
    i, j = move
    before, after, cost = state.prev[i], state.next[j], data.cost
    old = arc(data, state, before, i) + (state.ahead[j] - state.ahead[i]) + state.leave[j]
    return old - (cost[before, j] + (state.behind[j] - state.behind[i]) + cost[i, after])


@jit
def feasible_two_opt(data, state, move):
    i, j = move
    before, after = np.int64(state.prev[i]), np.int64(state.next[j])
    return arrives(data, state, drive_back(data, state, state.begin[before], before, j, i), i, after)


@outline
def apply_two_opt(data, state, move):
    i, j = move
    before, after, slot = np.int64(state.prev[i]), np.int64(state.next[j]), np.int64(state.route[i])
    head = j if before == 0 else np.int64(state.first[slot])
    at = j
    while at != i:  # prev still holds the old order
        state.next[at] = state.prev[at]
        at = np.int64(state.prev[at])
    state.next[i] = after
    if before != 0:
        state.next[before] = j
    refresh(data, state, slot, head)


# --- 2-opt*: two routes exchange what comes after i and after j -----------------------------------------------------------------


@jit
def propose_tails(data, state, rng):
    if state.counts[SERVED] < 2:
        return (0, 0), -np.inf
    i = draw_served(state, rng)
    j = draw_near(data, rng, i)
    if j == 0 or state.next[j] == UNSERVED or state.route[i] == state.route[j] or (state.next[i] == 0 and state.next[j] == 0):
        return (0, 0), -np.inf
    return (i, j), 0.0


@jit
def gain_tails(data, state, move):
    i, j = move
    behind, after, cost = state.next[i], state.next[j], data.cost
    return state.leave[i] + state.leave[j] - cost[i, after] - cost[j, behind]


@jit
def feasible_tails(data, state, move):
    i, j = move
    behind, after = np.int64(state.next[i]), np.int64(state.next[j])
    tail, other = load_of(state, state.route[i]) - state.load[i], load_of(state, state.route[j]) - state.load[j]
    return (
        state.load[i] + other <= data.capacity
        and state.load[j] + tail <= data.capacity
        and arrives(data, state, state.begin[i], i, after)
        and arrives(data, state, state.begin[j], j, behind)
    )


@outline
def apply_tails(data, state, move):
    i, j = move
    state.next[i], state.next[j] = state.next[j], state.next[i]
    home, there = np.int64(state.route[i]), np.int64(state.route[j])
    refresh(data, state, home, np.int64(state.first[home]))
    refresh(data, state, there, np.int64(state.first[there]))


# --- split and merge: without them the number of routes is frozen where all requests must be served ----------------------------


@jit
def propose_split(data, state, rng):
    """Cut between i and j if j follows i; join if i is the last of one route and j the first of another."""
    if state.counts[SERVED] < 2:
        return (0, 0), -np.inf
    i = draw_served(state, rng)
    j = draw_near(data, rng, i)
    if j == 0 or state.next[j] == UNSERVED:
        return (0, 0), -np.inf
    joins = state.next[i] == 0 and state.prev[j] == 0 and state.route[i] != state.route[j]
    return (i, j), (0.0 if joins or state.next[i] == j else -np.inf)


@jit
def gain_split(data, state, move):
    i, j = move
    detour = data.cost[i, 0] + data.cost[0, j] - data.cost[i, j]
    return -detour if state.next[i] == j else detour


@jit
def feasible_split(data, state, move):
    i, j = move
    if state.next[i] == j:
        whole = state.counts[ROUTES] < data.fleet and arrives(data, state, state.begin[i], i, 0)
        return whole and arrives(data, state, state.begin[0], 0, j)
    loads = load_of(state, state.route[i]) + load_of(state, state.route[j])
    return loads <= data.capacity and arrives(data, state, state.begin[i], i, j)


@outline
def apply_split(data, state, move):
    i, j = move
    home, there = np.int64(state.route[i]), np.int64(state.route[j])
    if state.next[i] == j:
        state.next[i] = 0
        refresh(data, state, open_route(state), j)
    else:
        state.next[i] = j
        refresh(data, state, there, 0)
    refresh(data, state, home, np.int64(state.first[home]))


# --- serve or remove an optional request ------------------------------------------------------------------------------------------
#
# A move is (i, a, b): i goes between a and b, or comes out from between them.


@jit
def propose_serve(data, state, rng):
    if len(data.optional) == 0:
        return (0, 0, 0), -np.inf
    i, a, b = np.int64(data.optional[integer(rng, len(data.optional))]), np.int64(0), np.int64(0)
    if state.next[i] != UNSERVED:
        a, b = np.int64(state.prev[i]), np.int64(state.next[i])
        return (i, a, b), log(chance(data, i, a, b))
    j = draw_near(data, rng, i)
    if j != 0:
        after = coin(rng, 0.5)
        if state.next[j] == UNSERVED:
            return (i, a, b), -np.inf
        a, b = gap_at(state, j, after)
    return (i, a, b), -log(chance(data, i, a, b))


@jit
def change_serve(data, state, move, m):
    return move[0] - 1, (1 if state.next[move[0]] == UNSERVED else -1)


@jit
def gain_serve(data, state, move):
    i, a, b = move
    if state.next[i] == UNSERVED:
        return arc(data, state, a, b) - data.cost[a, i] - data.cost[i, b]
    return arc(data, state, a, i) + state.leave[i] - data.cost[a, b]


@jit
def feasible_serve(data, state, move):
    i, a, b = move
    if state.next[i] != UNSERVED:
        return arrives(data, state, state.begin[a], a, b)
    if a == 0 and b == 0:
        return state.counts[ROUTES] < data.fleet
    there = state.route[a if a != 0 else b]
    return load_of(state, there) + data.demand[i] <= data.capacity and goes_between(data, state, a, i, i, b)


@outline
def apply_serve(data, state, move):
    i, a, b = move
    if state.next[i] == UNSERVED:
        slot = np.int64(state.route[a if a != 0 else b]) if a != 0 or b != 0 else open_route(state)
        mark_served(state, i)
        link(state, a, i)
        state.next[i] = b
        refresh(data, state, slot, i if a == 0 else np.int64(state.first[slot]))
    else:
        slot = np.int64(state.route[i])
        link(state, a, b)
        refresh(data, state, slot, b if a == 0 else np.int64(state.first[slot]))
        mark_unserved(state, i)


def _plain(name: str, propose, gain, feasible, apply) -> Move:
    """A move that serves the same requests as before."""
    return Move(name, propose, no_change, apply, changes=0, gain=gain, feasible=feasible)


MOVES = {
    m.name: m
    for m in (
        _plain("relocate", propose_relocate, gain_relocate, feasible_relocate, apply_relocate),
        _plain("relocate pair", propose_relocate_pair, gain_relocate, feasible_relocate, apply_relocate),
        _plain("swap", propose_swap, gain_swap, feasible_swap, apply_swap),
        _plain("swap pair", propose_swap_pair, gain_swap, feasible_swap, apply_swap),
        _plain("2-opt", propose_two_opt, gain_two_opt, feasible_two_opt, apply_two_opt),
        _plain("2-opt*", propose_tails, gain_tails, feasible_tails, apply_tails),
        _plain("split/merge", propose_split, gain_split, feasible_split, apply_split),
        Move("serve/remove", propose_serve, change_serve, apply_serve, changes=1, gain=gain_serve, feasible=feasible_serve),
    )
}
