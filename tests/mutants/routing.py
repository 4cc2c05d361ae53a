"""Mistakes of published routing moves, in small problems: labels, counts, normalizers, reversals, fleets."""

from math import log
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer
from tests.mutants import families as f
from tests.mutants.registry import TOO_SMALL, vary, wrong

# --- serve and remove -------------------------------------------------------------------------------------------------


@wrong("wrong ratio")
def serve_without_beta():
    """The weight of the place in the ratio lacks β, that of the draw has it."""

    @mg.jit
    def propose(data, state, rng):
        (i, place), ratio = f.propose_serve_or_remove(data, state, rng)
        n, y = len(state.y), state.y
        if place < 0:
            k = f.place_of(y, i)
            left, right = y[k - 1] if k > 0 else n, y[k + 1] if k + 1 < n and y[k + 1] >= 0 else n
        else:
            left, right = y[place - 1] if place > 0 else n, y[place] if place < state.served[0] else n
        one, other = f.closeness(data, i, left), f.closeness(data, i, right)
        slip = log((one**data.beta + other**data.beta) / (one + other))
        return (i, place), ratio + (slip if place < 0 else -slip)

    return vary(f.errand(), propose=propose)


@mg.jit
def propose_serve_by_coin(data, state, rng):
    """Heads serves one of those not served, tails removes one of those served; ratios with the counts of y and y'."""
    n, served = len(state.y), state.served[0]
    if coin(rng, 0.5):
        if served == n:
            return (0, 0), -np.inf
        at, i = integer(rng, n - served), -1
        for k in range(n):
            if f.place_of(state.y, k) < 0:
                if at == 0:
                    i = k
                at -= 1
        place = f.draw_place(data, state, i, rng)
        ways = f.all_weights(data, state.y, i) / f.beside(data, state.y, served, place, i)
        return (i, place), log(ways * (n - served) / (served + 1))
    if served == 0:
        return (0, 0), -np.inf
    k = integer(rng, served)
    i = np.int64(state.y[k])
    return (i, -1), log(f.around(data, state.y, k, i) / f.all_weights(data, state.y, i) * served / (n - served + 1))


@wrong("wrong ratio")
def serve_without_the_number_of_the_others():
    """The chance 1/|not served| of drawing the request to serve is missing in the ratio of serving."""

    @mg.jit
    def propose(data, state, rng):
        (i, place), ratio = propose_serve_by_coin(data, state, rng)
        if place >= 0 and ratio > -np.inf:
            ratio -= log(len(state.y) - state.served[0])
        return (i, place), ratio

    return vary(f.errand(), propose=propose)


@wrong("wrong ratio")
def serve_with_counts_of_here():
    """The way back from serving is counted with the number served at y, not at y'."""

    @mg.jit
    def propose(data, state, rng):
        (i, place), ratio = propose_serve_by_coin(data, state, rng)
        served = state.served[0]
        if place >= 0 and ratio > -np.inf:
            ratio += log((served + 1) / max(served, 1))
        return (i, place), ratio

    return vary(f.errand(), propose=propose)


@wrong("wrong ratio")
def serve_beside_one_neighbor():
    """A place is reached from the request on its left and from that on its right; the ratio knows one of them."""

    @mg.jit
    def propose(data, state, rng):
        (i, place), ratio = f.propose_serve_or_remove(data, state, rng)
        if place >= 0:
            left = state.y[place - 1] if place > 0 else len(state.y)
            half = 0.5 * f.closeness(data, i, left)
            return (i, place), log(f.all_weights(data, state.y, i) / half)
        return (i, place), ratio

    return vary(f.errand(), propose=propose)


@wrong("wrong ratio", "error")
def mean_distance_to_nobody():
    """The weight of the depot is a mean over the requests served, 0/0 where there are none."""

    @mg.jit
    def mean_distance(data, state, i):
        total, count = 0.0, np.float64(0.0)
        for k in range(state.served[0]):
            if state.y[k] != i:
                total += data.distance[i, state.y[k]]
                count += 1.0
        return np.float64(total) / count

    @mg.jit
    def propose(data, state, rng):
        (i, place), ratio = f.propose_serve_or_remove(data, state, rng)
        return (i, place), ratio + 0.0 * mean_distance(data, state, i)

    return vary(f.errand(), propose=propose)


@wrong("feasible", "leaves the set", "one-way move", "unreachable")
def mandatory_requests_removed():
    """Request 0 must be served; the move removes it, and nothing says that this is not allowed."""

    @mg.jit
    def contains(data, y):
        return f.is_route(data, y) and f.place_of(y, 0) >= 0

    base = f.errand()
    listed = [y for y in f.routes(3) if 0 in y]
    state = f.Route(np.array([0, -1, -1], np.int8), np.ones(1, np.int64))
    return vary(base, state=state, contains=contains, states=lambda: listed)


@wrong("unreachable")
def mandatory_requests_never_move():
    """All requests must be served, and serving and removing is all there is: every order is an island."""

    @mg.jit
    def contains(data, y):
        return f.is_order(data, y)

    @mg.jit
    def feasible(data, state, move):
        return False

    base = f.errand()
    state = f.Route(np.arange(3, dtype=np.int8), np.full(1, 3))
    return vary(base, state=state, contains=contains, feasible=feasible, states=lambda: f.orders(3))


# --- relocation, in a list of all requests ----------------------------------------------------------------------------


@mg.jit
def propose_relocate(data, state, rng):
    """One request goes beside another, drawn by closeness; ratio by its neighbors before and after."""
    n = state.served[0]
    if n < 2:
        return (0, 0, 0), -np.inf
    k = integer(rng, n)
    i = np.int64(state.y[k])
    left = f.all_weights(data, state.y, i)
    place, found = 0, False
    for p in range(n):
        if p != k and not found:
            w = f.closeness(data, i, state.y[p])
            if coin(rng, w / left):
                place, found = p + integer(rng, 2), True
            left -= w
    if not found:
        place = n if coin(rng, 0.5) else 0
    place -= place > k  # as seen without i
    return (i, k, place), log(f.around(data, state.y, k, i) / around_without(data, state.y, n, k, place, i))


@mg.jit
def around_without(data, y, served, k, place, i):
    """Weight of the two neighbors that i has at this place of the route without i, which stands at k."""
    n = len(y)
    one, other = place - 1, place
    left = y[one + (one >= k)] if place > 0 else n
    right = y[other + (other >= k)] if place < served - 1 else n
    return 0.5 * (f.closeness(data, i, left) + f.closeness(data, i, right))


@mg.jit
def stop_without(y, served, k, place):
    return np.int64(y[place + (place >= k)]) if 0 <= place < served - 1 else len(y)


@mg.jit
def change_relocate(data, state, move, m):
    """Three arcs are left, three are taken."""
    i, k, place = move
    y, n, served = state.y, len(state.y), state.served[0]
    a, b = stop_without(y, served, k, k - 1), stop_without(y, served, k, k)
    c, d = stop_without(y, served, k, place - 1), stop_without(y, served, k, place)
    tail, head = (a, i, c, a, c, i)[m], (i, b, d, b, i, d)[m]
    return f.arc(n, tail, head), (-1, -1, -1, 1, 1, 1)[m]


@mg.jit
def apply_relocate(data, state, move):
    i, k, place = move
    for p in range(k, state.served[0] - 1):
        state.y[p] = state.y[p + 1]
    for p in range(state.served[0] - 1, place, -1):
        state.y[p] = state.y[p - 1]
    state.y[place] = i


def relocation(propose=propose_relocate, n: int = 3) -> mg.Problem:
    """Serving, removing and relocating requests of one route."""
    base = f.errand(n)
    relocate = mg.Move("relocate", propose, change_relocate, apply_relocate, changes=6)
    return vary(base, moves=[*base.moves, relocate])


@wrong("wrong ratio")
def relocate_by_closeness_alone():
    """A request goes beside a close one; the ratio claims 1."""

    @mg.jit
    def propose(data, state, rng):
        move, ratio = propose_relocate(data, state, rng)
        return move, 0.0 if ratio > -np.inf else ratio

    return relocation(propose)


@wrong("wrong ratio", hidden=TOO_SMALL)
def relocate_with_the_neighbors_of_there_twice():
    """The ratio has the new neighbors above and below, so that it is 1 but for rounding, plus the old left one."""

    @mg.jit
    def propose(data, state, rng):
        (i, k, place), ratio = propose_relocate(data, state, rng)
        if ratio == -np.inf:
            return (i, k, place), ratio
        left = state.y[k - 1] if k > 0 else len(state.y)
        old = f.closeness(data, i, left)
        return (i, k, place), log(old / around_without(data, state.y, state.served[0], k, place, i))

    return relocation(propose)


# --- pairs of requests ------------------------------------------------------------------------------------------------


@mg.jit
def follower_weight(data, y, a, b):
    """Weight of drawing the pair that begins at place b once that at place a is drawn; 0 if they overlap or b is last."""
    if b == len(y) - 1 or abs(a - b) < 2:
        return 0.0
    return f.closeness(data, y[a], y[b])


@mg.jit
def follower_total(data, y, a):
    total = 0.0
    for b in range(len(y)):
        total += follower_weight(data, y, a, b)
    return total


@mg.jit
def swapped(y, a, b, p):
    """Who stands at place p once the pairs at a and b have changed places."""
    if p == a or p == a + 1:
        return y[b + p - a]
    if p == b or p == b + 1:
        return y[a + p - b]
    return y[p]


@mg.jit
def total_after(data, y, a, b, at):
    """follower_total at place ``at`` of y'."""
    total, i = 0.0, swapped(y, a, b, at)
    for p in range(len(y) - 1):
        if abs(p - at) >= 2:
            total += f.closeness(data, i, swapped(y, a, b, p))
    return total


@mg.jit
def draw_two_pairs(data, state, rng):
    y, n = state.y, len(state.y)
    a = integer(rng, n - 1)
    left = follower_total(data, y, a)
    for b in range(n):
        w = follower_weight(data, y, a, b)
        if w > 0.0:
            if left - w <= 1e-12 or coin(rng, w / left):
                return a, b
            left -= w
    return a, -1


@mg.jit
def change_two_pairs(data, state, move, m):
    """Places p of the four: who was there leaves, who comes is there."""
    a, b = move
    p = (a, a + 1, b, b + 1)[m % 4]
    who = state.y[p] if m < 4 else swapped(state.y, a, b, p)
    return np.int64(who) * len(state.y) + p, -1 if m < 4 else 1


@mg.jit
def apply_two_pairs(data, state, move):
    a, b = move
    for k in range(2):
        state.y[a + k], state.y[b + k] = state.y[b + k], state.y[a + k]


@mg.jit
def propose_pairs_right(data, state, rng):
    """Key {i, j}: [w_ij/Z_i' + w_ji/Z_j'] / [w_ij/Z_i + w_ji/Z_j], Z at y' and at y."""
    a, b = draw_two_pairs(data, state, rng)
    if b < 0:
        return (0, 0), -np.inf
    y = state.y
    one, other = f.closeness(data, y[a], y[b]), f.closeness(data, y[b], y[a])
    forth = one / follower_total(data, y, a) + other / follower_total(data, y, b)
    back = one / total_after(data, y, a, b, b) + other / total_after(data, y, a, b, a)
    return (a, b), log(back / forth)


def couples(propose, n: int = 5) -> mg.Problem:
    """Orders of n requests; two pairs of neighbors change places, or two single ones do."""
    base, data = f.lineup(n), f.errand(n).data
    pairs = mg.Move("pairs", propose, change_two_pairs, apply_two_pairs, changes=8)
    return vary(base, data=data, moves=[*base.moves, pairs])


@wrong("wrong ratio", hidden=TOO_SMALL)
def sums_of_normalizers():
    """(Z_i + Z_j)/(Z_i' + Z_j') in place of (1/Z_i' + 1/Z_j')/(1/Z_i + 1/Z_j)."""

    @mg.jit
    def propose(data, state, rng):
        a, b = draw_two_pairs(data, state, rng)
        if b < 0:
            return (0, 0), -np.inf
        y = state.y
        here = follower_total(data, y, a) + follower_total(data, y, b)
        there = total_after(data, y, a, b, a) + total_after(data, y, a, b, b)
        return (a, b), log(here / there)

    return couples(propose)


@wrong("wrong ratio", hidden=TOO_SMALL)
def pair_ratio_of_one_request():
    """The ratio of the pair drawn first; the pair drawn second could have been first as well, with another chance."""

    @mg.jit
    def propose(data, state, rng):
        a, b = draw_two_pairs(data, state, rng)
        if b < 0:
            return (0, 0), -np.inf
        y = state.y
        return (a, b), log(follower_total(data, y, a) / total_after(data, y, a, b, a))

    return couples(propose)


@wrong("error", "draws", "wrong ratio", hidden="compiled code draws from nothing without a word")
def pairs_with_no_partner():
    """With four requests the pair in the middle has no partner: the draw among none is undefined."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        a, count = integer(rng, n - 1), 0
        for b in range(n):
            count += follower_weight(data, state.y, a, b) > 0.0
        at = integer(rng, count)
        for b in range(n):
            if follower_weight(data, state.y, a, b) > 0.0:
                if at == 0:
                    return (a, b), 0.0
                at -= 1
        return (0, 0), -np.inf

    return couples(propose, 4)


@wrong("wrong ratio", hidden=TOO_SMALL)
def first_pair_redrawn():
    """A pair that has no close partner is redrawn once, which the ratio does not know: the chance of the others is not 1/|V₁|."""

    @mg.jit
    def close(data, y, a, b, p, q):
        """Is who stands at q a close partner of who stands at p, once the pairs at a and b have changed places?"""
        return q < len(y) - 1 and abs(p - q) >= 2 and f.closeness(data, swapped(y, a, b, p), swapped(y, a, b, q)) > 0.3

    @mg.jit
    def count_close(data, y, a, b, p):
        total = 0
        for q in range(len(y)):
            total += close(data, y, a, b, p, q)
        return total

    @mg.jit
    def propose(data, state, rng):
        y, n = state.y, len(state.y)
        a = integer(rng, n - 1)
        if count_close(data, y, 0, 0, a) == 0:
            a = integer(rng, n - 1)
        count = count_close(data, y, 0, 0, a)
        if count == 0:
            return (0, 0), -np.inf
        at = integer(rng, count)
        for b in range(n):
            if close(data, y, 0, 0, a, b):
                if at == 0:
                    return (a, b), log(count / count_close(data, y, a, b, b))
                at -= 1
        return (0, 0), -np.inf

    return couples(propose)


# --- reversals and tails ----------------------------------------------------------------------------------------------


@mg.jit
def draw_close(data, y, p, rng):
    """A place other than p, by closeness of who stands there."""
    i, left = y[p], 0.0
    for q in range(len(y)):
        if q != p:
            left += f.closeness(data, i, y[q])
    for q in range(len(y)):
        if q != p:
            w = f.closeness(data, i, y[q])
            if left - w <= 1e-12 or coin(rng, w / left):
                return q
            left -= w
    return p


@mg.jit
def change_reversal(data, state, move, m):
    """Places p..q: who leaves, then who comes."""
    p, q = move
    length = q - p + 1
    if m < length:
        return np.int64(state.y[p + m]) * len(state.y) + p + m, -1
    k = m - length
    return np.int64(state.y[q - k]) * len(state.y) + p + k, 1


@mg.jit
def changes_reversal(data, state, move):
    return 2 * (move[1] - move[0] + 1)


@mg.jit
def apply_reversal(data, state, move):
    f.reverse(state.y, move[0], move[1])


def reversals(propose, n: int = 4) -> mg.Problem:
    """Orders of n requests; two change places, or a stretch is reversed."""
    base = f.lineup(n)
    reversal = mg.Move("reversal", propose, change_reversal, apply_reversal, changes=changes_reversal, weight=4.0)
    return vary(base, data=f.errand(n).data, moves=[*base.moves, reversal])


@wrong("wrong ratio", "one-way move")
def reversal_from_the_next_on():
    """2-opt that reverses from behind i to j, i and j drawn by closeness: the way back begins with another pair."""

    @mg.jit
    def propose(data, state, rng):
        p = integer(rng, len(state.y))
        q = draw_close(data, state.y, p, rng)
        if q < p:
            p, q = q, p
        return (p + 1, q), 0.0 if q > p + 1 else -np.inf

    return reversals(propose)


@wrong("wrong ratio", "one-way move")
def tails_in_one_direction():
    """The tail behind i is exchanged for that which begins at j: where i was last, nothing leads back."""

    @mg.jit
    def propose(data, state, rng):
        s, n = f.separator(state.y), len(state.y) - 1
        if s == 0 or s == n:
            return (0, 0), -np.inf
        return (1 + integer(rng, s), integer(rng, n - s)), 0.0

    tails = mg.Move("tails", propose, change_by_places, f.apply_tails, changes=8)
    return vary(f.convoy(), statistic=f.mark_places, size=16, moves=[tails, *f.lineup(4).moves])


@mg.jit
def after_tails(y, p, q, k):
    """Who stands at place k once tails are exchanged."""
    s, n = f.separator(y), len(y)
    if k < p:
        return y[k]
    k -= p
    if k < n - (s + 1 + q):
        return y[s + 1 + q + k]
    k -= n - (s + 1 + q)
    if k < 1 + q:
        return y[s + k]
    return y[p + k - (1 + q)]


@mg.jit
def change_by_places(data, state, move, m):
    p, q = move
    n = len(state.y)
    k = m % n
    who = state.y[k] if m < n else after_tails(state.y, p, q, k)
    return np.int64(who) * n + k, -1 if m < n else 1


@wrong("wrong ratio")
def tails_and_the_number_of_cuts():
    """Tails are exchanged at uniform cuts; how many cuts there are depends on the lengths, which change."""

    @mg.jit
    def propose(data, state, rng):
        move, _ = f.propose_tails(data, state, rng)
        return move, 0.0

    return vary(f.convoy(), propose=propose)


# --- labels of routes -------------------------------------------------------------------------------------------------


@wrong("leaves the set", "feasible", "set")
def routes_with_labels():
    """Groups have labels; the element that leaves takes a new label, and the others keep that of an element that is gone."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        state.y[i] = i if j == i else state.y[j]

    return vary(f.groups(), apply=apply)


@wrong("wrong ratio")
def a_new_route_in_any_of_the_empty_slots():
    """An element opens a new group in one of several empty slots, which are all the same group in the end; the ratio counts one."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        i, j = integer(rng, n), integer(rng, n + 2)
        if j >= n:
            j = i  # slots n and n + 1 are empty, too
        old = f.group_size(state.y, state.y[i], i)
        new = 0 if j == i else f.group_size(state.y, state.y[j], i)
        return (i, j), log(max(old, 1)) - log(max(new, 1))

    return vary(f.groups(), propose=propose)


@wrong("one-way move", "unreachable", "wrong ratio")
def a_new_route_only_behind_the_last():
    """A new group may be opened by the last element alone; groups are dissolved by anyone."""

    @mg.jit
    def propose(data, state, rng):
        (i, j), ratio = f.propose_join(data, state, rng)
        return (i, j), ratio if i != j or i == len(state.y) - 1 else -np.inf

    return vary(f.groups(), propose=propose)


class Near(NamedTuple):
    time: np.ndarray
    capacity: np.ndarray
    near: np.ndarray  # (machines, machines) running sums of closeness


@wrong("wrong ratio", "one-way move")
def fleet_by_cumulative_distance():
    """A machine is drawn by closeness to the one a job is on; closeness is normalized for each machine by itself."""

    @mg.jit
    def propose(data, state, rng):
        j = integer(rng, len(state.y))
        k = categorical(rng, data.near[state.y[j]])
        return (j, k), 0.0 if k != state.y[j] else -np.inf

    base = f.shop()
    near = np.cumsum([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [0.2, 0.8, 0.0]], axis=1)
    return vary(base, data=Near(*base.data, near), propose=propose)
