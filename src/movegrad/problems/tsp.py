"""Tours through n cities, with 2-opt and or-opt drawn from lists of near cities; with directed arcs, moves that never reverse.

A solution is the order y of the cities, y[0] = 0, so that no rotation counts twice. Without directions of arcs a tour and its
reverse are two solutions with the same T: each undirected tour counts exactly twice, and every law is what it would be if it
counted once. City 0 stays where it is: what a move turns or shifts is the part without it.

A move is labeled by what it does to the array, and a label can be drawn in few ways, counted here and at y'. With probability p,
the ``share``, a proposal draws a *candidate*: an edge between near cities, which the move is to put into the tour, and how.
Otherwise it draws a label uniformly. Two of the edges that a move takes could have been the candidate, and on the way back two of
those that it leaves. With c of the two being among the m candidates, the probability of a label is

* pc/2m + 2(1 − p)/((n−1)(n−2)) for 2-opt, which reverses y[i..j];
* a third of pc/8m + (1 − p)/(2(n−L)(n−L−1)) for or-opt, which shifts y[first..last] of L = 1, 2, 3 cities to another gap, turned or
  not; c counts the edges between the segment and its new neighbors;
* a third of pc/2m + (1 − p)/((n−L)(n−L−1)) for or-opt without turning, where arcs have directions;
* pc(c−1)/2mK + (1 − p)/C(n, 3) for an exchange of two neighboring stretches, which draws two of the three arcs that it takes.

Their logarithms are in ``State.logs``: a ratio is a difference of two of them. Candidates are the K best edges of each city by the
guide, whichever end has them on its list; or by lists that are given, and then proposals do not depend on θ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial, log
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Array, Arrays
from movegrad._validate import array_of, choices, flag, integer_in, positive, sequence, shown
from movegrad.engine import coin, integer, jit, outline
from movegrad.problem import Move, Problem
from movegrad.problems._binary import extra, weighted
from movegrad.problems._edges import edge, matrix_of, to_edges, to_matrix

NEIGHBORS = 10
LONGEST = 3  # segment of or-opt
MOST_CITIES = 2**15 - 1  # numbers of cities have 16 bits, so that what a step reads is near
ROUNDS = 50  # of local search over all cities, at most
TWO_OPT, OR_OPT = 0, 3  # where their logarithms begin in State.logs: by the number of candidates, and by the length
EXCHANGE = OR_OPT + 3 * LONGEST
LOGS = EXCHANGE + 4


class Data(NamedTuple):
    """``lists`` are the near cities of each one, if they are given; ``share`` of the draws are candidates."""

    lists: np.ndarray  # (n, K), or (0, 0)
    share: float


class State(NamedTuple):
    """Candidates are edges, each once, or arcs."""

    y: np.ndarray  # (n,) the solution
    pos: np.ndarray  # (n,) by city: where it is
    near: np.ndarray  # (n·K,) by city: the best first
    ends: np.ndarray  # (2n·K,) of candidate e: 2e and 2e + 1, tail and head of an arc
    bits: np.ndarray  # one for each entry of θ: is it a candidate?
    many: np.ndarray  # (1,) m, the number of candidates
    logs: np.ndarray  # (LOGS,)


@jit
def arc(state, a, b):
    """Entry of θ and T of the directed arc."""
    return a * len(state.y) + b


@jit
def at(state, p):
    """The city at position p ≤ n, where the tour closes."""
    return np.int64(state.y[p if p < len(state.y) else 0])


@jit
def near(state, entry):
    """1 if the edge or arc is a candidate."""
    return (np.int64(state.bits[entry >> 5]) >> (entry & 31)) & 1


@jit
def put(state, p, city):
    state.y[p] = city
    state.pos[city] = p


@jit
def reverse(state, first, last):
    """Reverse y[first..last]."""
    while first < last:
        a, b = state.y[first], state.y[last]
        put(state, first, b)
        put(state, last, a)
        first += 1
        last -= 1


# --- 2-opt: reverse y[i..j] -------------------------------------------------------------------------------------------
#
# A move is (i, j) and the entries of the two edges left and the two taken. The first of these joins y[i−1] and y[j], the other
# y[i] and y[j+1]: a candidate is the one or the other.


@jit
def two_opt(state, i, j):
    """The move and its log ratio."""
    a, b, c, d = at(state, i - 1), at(state, i), at(state, j), at(state, j + 1)
    left, last, first, second = edge(a, b), edge(c, d), edge(a, c), edge(b, d)
    log_ratio = 0.0
    if state.many[0] > 0:
        log_ratio = state.logs[near(state, left) + near(state, last)] - state.logs[near(state, first) + near(state, second)]
    return (i, j, left, last, first, second), log_ratio


@jit
def stretch(n, p, q, after):
    """What to reverse in order to join the cities at p and q: the edges after both are left, or those before both."""
    i, j = min(p, q), max(p, q)
    if i == 0 and not after:  # where the tour closes
        return j, n - 1
    return i + after, j - 1 + after  # no branch: it could not be predicted


@jit
def propose_two_opt(data, state, rng):
    n, m = len(state.y), state.many[0]
    if m > 0 and coin(rng, data.share):
        drawn = integer(rng, 2 * m)
        p, q = np.int64(state.pos[state.ends[drawn & -2]]), np.int64(state.pos[state.ends[drawn | 1]])
        i, j = stretch(n, p, q, drawn & 1)
        if i >= j:
            return (i, j, 0, 0, 0, 0), -np.inf
    else:
        p, q = integer(rng, n - 1), integer(rng, n - 2)
        q += q >= p  # two different ones
        i, j = 1 + min(p, q), 1 + max(p, q)
    return two_opt(state, i, j)


@jit
def change_two_opt(data, state, move, m):
    return move[2 + m], (-1 if m < 2 else 1)


@outline
def apply_two_opt(data, state, move):
    reverse(state, move[0], move[1])


# --- or-opt: y[first..last] to the gap after position g ---------------------------------------------------------------
#
# A move is (first, last, g, turned) and the entries of the three edges left and the three taken.


@jit
def own_gap(state, first, last, g):
    """Is this the gap in which the segment is, or does the segment hold city 0, the gap, or all others?"""
    return first < 1 or last >= len(state.y) or first - 1 <= g <= last or last - first > len(state.y) - 3


@jit
def or_opt(state, first, last, g, turned):
    """The move and its log ratio."""
    before, a, b, behind = at(state, first - 1), at(state, first), at(state, last), at(state, last + 1)
    c, d = at(state, g), at(state, g + 1)
    other = (a ^ b) & -turned
    head, tail = a ^ other, b ^ other  # what comes after c, and before d
    left, last_left, third = edge(before, a), edge(b, behind), edge(c, d)
    taken, last_taken, closed = edge(c, head), edge(tail, d), edge(before, behind)
    log_ratio, row = 0.0, OR_OPT + 3 * (last - first)
    if state.many[0] > 0:
        log_ratio = state.logs[row + near(state, left) + near(state, last_left)]
        log_ratio -= state.logs[row + near(state, taken) + near(state, last_taken)]
    return (first, last, g, turned, left, last_left, third, taken, last_taken, closed), log_ratio


@jit
def nowhere(first, last, g, turned):
    return (first, last, g, turned, 0, 0, 0, 0, 0, 0), -np.inf


@jit
def gap_beside(state, p, after):
    """The gap after position p, or that before it."""
    g = p - 1 + after
    return g if g >= 0 else len(state.y) - 1


@jit
def draw_shift(state, rng):
    """A segment and another gap, uniformly for each length; an empty one if there are too few cities for it."""
    n, length = len(state.y), 1 + integer(rng, LONGEST)
    if length > n - 2:
        return 1, 0, 0
    first, g = 1 + integer(rng, n - length), integer(rng, n - length - 1)
    return first, first + length - 1, (g if g < first - 1 else g + length + 1)


@jit
def propose_or_opt(data, state, rng):
    m = state.many[0]
    if m > 0 and coin(rng, data.share):
        drawn = integer(rng, 8 * LONGEST * m)
        way, more = drawn // LONGEST, drawn % LONGEST
        leads, after = (way >> 1) & 1, way & 1  # the city is the first of the segment; the gap is after the other one
        p, q = np.int64(state.pos[state.ends[way >> 2]]), np.int64(state.pos[state.ends[(way >> 2) ^ 1]])
        first = p - (1 - leads) * more
        last, g, turned = first + more, gap_beside(state, q, after), leads ^ after
        if first <= q <= last or own_gap(state, first, last, g):
            return nowhere(first, last, g, turned)
    else:
        first, last, g = draw_shift(state, rng)
        turned = integer(rng, 2)
        if last < first:
            return nowhere(first, last, g, turned)
    return or_opt(state, first, last, g, turned)


@jit
def change_or_opt(data, state, move, m):
    return move[4 + m], (-1 if m < 3 else 1)


@outline
def apply_or_opt(data, state, move):
    first, last, g, turned = move[0], move[1], move[2], move[3]
    y, length = state.y, last - first + 1
    a, middle, b = y[first], y[first + 1 if length > 1 else first], y[last]
    if g > last:
        for p in range(first, g - length + 1):
            put(state, p, y[p + length])
        to = g - length + 1
    else:
        for p in range(last, g + length, -1):
            put(state, p, y[p - length])
        to = g + 1
    put(state, to, b if turned else a)
    if length == LONGEST:
        put(state, to + 1, middle)
    if length > 1:
        put(state, to + length - 1, a if turned else b)


# --- the same without turning, for directed arcs ----------------------------------------------------------------------


@jit
def shift(state, first, last, g):
    """The move and its log ratio."""
    before, a, b, behind = at(state, first - 1), at(state, first), at(state, last), at(state, last + 1)
    c, d = at(state, g), at(state, g + 1)
    left, last_left, third = arc(state, before, a), arc(state, b, behind), arc(state, c, d)
    taken, last_taken, closed = arc(state, c, a), arc(state, b, d), arc(state, before, behind)
    log_ratio, row = 0.0, OR_OPT + 3 * (last - first)
    if state.many[0] > 0:
        log_ratio = state.logs[row + near(state, left) + near(state, last_left)]
        log_ratio -= state.logs[row + near(state, taken) + near(state, last_taken)]
    return (first, last, g, 0, left, last_left, third, taken, last_taken, closed), log_ratio


@jit
def propose_shift(data, state, rng):
    m = state.many[0]
    if m > 0 and coin(rng, data.share):
        drawn = integer(rng, 2 * LONGEST * m)
        way, more = drawn // LONGEST, drawn % LONGEST
        leads = way & 1  # the segment begins with the head, after the tail; or it ends with the tail, before the head
        p, q = np.int64(state.pos[state.ends[way]]), np.int64(state.pos[state.ends[way ^ 1]])
        first = p - (1 - leads) * more
        last, g = first + more, gap_beside(state, q, leads)
        if first <= q <= last or own_gap(state, first, last, g):
            return nowhere(first, last, g, 0)
    else:
        first, last, g = draw_shift(state, rng)
        if last < first:
            return nowhere(first, last, g, 0)
    return shift(state, first, last, g)


# --- exchange y[i..j−1] and y[j..k−1] ---------------------------------------------------------------------------------
#
# A move is (i, j, k) and the entries of the three arcs left and the three taken. With cuts after the positions i−1, j−1 and k−1,
# each arc taken goes from before a cut to behind the next one, so that any two of them say the third.


@jit
def exchange(state, i, j, k):
    """The move and its log ratio."""
    a, b, c, d, e, f = at(state, i - 1), at(state, i), at(state, j - 1), at(state, j), at(state, k - 1), at(state, k)
    left, second_left, third_left = arc(state, a, b), arc(state, c, d), arc(state, e, f)
    taken, second, third = arc(state, a, d), arc(state, c, f), arc(state, e, b)
    log_ratio = 0.0
    if state.many[0] > 0:
        log_ratio = state.logs[EXCHANGE + near(state, left) + near(state, second_left) + near(state, third_left)]
        log_ratio -= state.logs[EXCHANGE + near(state, taken) + near(state, second) + near(state, third)]
    return (i, j, k, left, second_left, third_left, taken, second, third), log_ratio


@jit
def in_order(i, j, k):
    """Three numbers, the least first."""
    low, high = min(i, min(j, k)), max(i, max(j, k))
    return low, i + j + k - low - high, high


@jit
def propose_exchange(data, state, rng):
    n, k = len(state.y), len(state.near) // len(state.y)
    m = state.many[0]
    if m > 0 and coin(rng, data.share):
        e, near_one = integer(rng, m), integer(rng, k)
        one, two = np.int64(state.pos[state.ends[2 * e]]), gap_beside(state, np.int64(state.pos[state.ends[2 * e + 1]]), 0)
        three = gap_beside(state, np.int64(state.pos[state.near[at(state, two) * k + near_one]]), 0)
        around = np.int64(one < two) + np.int64(two < three) + np.int64(three < one)
        if one == two or two == three or three == one or around < 2:  # two of them, or a tour in two parts
            return (0, 0, 0, 0, 0, 0, 0, 0, 0), -np.inf
    else:
        one, two, three = integer(rng, n), integer(rng, n - 1), integer(rng, n - 2)
        two += two >= one
        three += three >= min(one, two)
        three += three >= max(one, two)
    one, two, three = in_order(one, two, three)
    return exchange(state, one + 1, two + 1, three + 1)


@jit
def change_exchange(data, state, move, m):
    return move[3 + m], (-1 if m < 3 else 1)


@outline
def apply_exchange(data, state, move):
    i, j, k = move[0], move[1], move[2]
    reverse(state, i, j - 1)
    reverse(state, j, k - 1)
    reverse(state, i, k - 1)


MOVES = {
    m.name: m
    for m in (
        Move("2-opt", propose_two_opt, change_two_opt, apply_two_opt, changes=4),
        Move("or-opt", propose_or_opt, change_or_opt, apply_or_opt, changes=6),
    )
}
DIRECTED_MOVES = {
    m.name: m
    for m in (
        Move("or-opt", propose_shift, change_or_opt, apply_or_opt, changes=6),
        Move("exchange", propose_exchange, change_exchange, apply_exchange, changes=6),
    )
}


# --- candidates -------------------------------------------------------------------------------------------------------


@jit
def offer(state, value, guide, directed, a, b):
    """Put b on the list of a if it belongs to the K best; the list is full of −1 at first."""
    k = len(state.near) // len(state.y)
    row = a * k
    for p in range(k - 1, -1, -1):
        other = np.int64(state.near[row + p])
        if other >= 0 and guide[arc(state, a, other) if directed else edge(a, other)] >= value:
            if p < k - 1:
                state.near[row + p + 1] = b
            return
        if p < k - 1:
            state.near[row + p + 1] = other
    state.near[row] = b


@jit
def add_candidate(state, entry, a, b):
    """Once, whichever end lists it."""
    if near(state, entry) == 0:
        state.bits[entry >> 5] |= np.uint32(1 << (entry & 31))
        state.ends[2 * state.many[0]], state.ends[2 * state.many[0] + 1] = a, b
        state.many[0] += 1


@jit
def fill_logs(data, state, directed):
    """Logarithms of the probabilities of labels, but for factors that are the same on the way back."""
    n, m, k = len(state.y), float(state.many[0]), float(len(state.near) // len(state.y))
    near, other, ways = data.share / m, 1.0 - data.share, 2.0 if directed else 8.0
    for c in range(3):
        state.logs[TWO_OPT + c] = log(near * c / 2.0 + other * 2.0 / ((n - 1.0) * (n - 2.0)))
        for length in range(1, min(LONGEST, n - 2) + 1):
            labels = (1.0 if directed else 2.0) * (n - length) * (n - length - 1.0)
            state.logs[OR_OPT + 3 * (length - 1) + c] = log(near * c / ways + other / labels)
    for c in range(4):
        state.logs[EXCHANGE + c] = log(near * c * (c - 1) / 2.0 / k + other * 6.0 / (n * (n - 1.0) * (n - 2.0)))


@outline
def fill(data, guide, state, directed):
    """Positions, lists, candidates, logarithms."""
    n, k = len(state.y), len(state.near) // len(state.y)
    for p in range(n):
        state.pos[state.y[p]] = p
    state.many[0] = 0
    for e in range(len(state.logs)):
        state.logs[e] = 0.0
    for e in range(len(state.bits)):
        state.bits[e] = 0
    for e in range(len(state.near)):
        state.near[e] = state.ends[2 * e] = state.ends[2 * e + 1] = -1
    if k == 0:
        return
    if len(data.lists) > 0:
        for a in range(n):
            for p in range(k):
                state.near[a * k + p] = data.lists[a, p]
    else:
        for a in range(n):
            for b in range(n if directed else a):
                if directed and a != b:
                    offer(state, guide[arc(state, a, b)], guide, 1, a, b)
                elif not directed:
                    offer(state, guide[edge(a, b)], guide, 0, a, b)
                    offer(state, guide[edge(a, b)], guide, 0, b, a)
    for a in range(n):
        for p in range(k):
            other = np.int64(state.near[a * k + p])
            add_candidate(state, arc(state, a, other) if directed else edge(a, other), a, other)
    fill_logs(data, state, directed)


@jit
def prepare(data, guide, temperature, state):
    fill(data, guide, state, 0)


@jit
def prepare_directed(data, guide, temperature, state):
    fill(data, guide, state, 1)


# --- the set ----------------------------------------------------------------------------------------------------------


@jit
def statistic(data, y, out):
    for p in range(len(y)):
        out[edge(np.int64(y[p]), np.int64(y[p + 1 if p + 1 < len(y) else 0]))] = 1.0


@jit
def statistic_directed(data, y, out):
    for p in range(len(y)):
        out[np.int64(y[p]) * len(y) + y[p + 1 if p + 1 < len(y) else 0]] = 1.0


@outline
def contains(data, y):
    """Asked of every start: O(n²), since there is no scratch space here, in a loop that is vectorized."""
    n = len(y)
    for p in range(n):
        if y[p] < 0 or y[p] >= n:
            return False
    for p in range(n):
        same = 0
        for q in range(n):
            same += y[q] == y[p]
        if same > 1:
            return False
    return y[0] == 0


@jit
def random(data, rng, y):
    for p in range(len(y)):
        y[p] = p
    for p in range(len(y) - 1, 1, -1):  # Fisher-Yates on all but city 0
        other = 1 + integer(rng, p)
        y[p], y[other] = y[other], y[p]


# --- where chains begin -----------------------------------------------------------------------------------------------


@jit
def total(guide, move, first, half):
    """What a move changes in ⟨guide, T⟩."""
    change = 0.0
    for m in range(half):
        change += guide[move[first + half + m]] - guide[move[first + m]]
    return change


@jit
def least_gain(guide, move, first, half):
    """What counts as a gain: more than rounding, lest local search go in circles."""
    size = 0.0
    for m in range(2 * half):
        size += abs(guide[move[first + m]])
    return 1e-12 * size


@jit
def try_two_opt(data, guide, state, a, b):
    """Join two cities by a reversal: leave what comes after both, or before both."""
    for side in range(2):
        p, q = np.int64(state.pos[a]), np.int64(state.pos[b])
        i, j = stretch(len(state.y), p, q, side)
        if i < j:
            move, _ = two_opt(state, i, j)
            if total(guide, move, 2, 2) > least_gain(guide, move, 2, 2):
                apply_two_opt(data, state, move)
                return True
    return False


@jit
def try_or_opt(data, guide, state, a, b, directed):
    """Join two cities by a shift of a segment that has the first of them at its end."""
    for way in range(4 * LONGEST):
        length, leads, after = 1 + way // 4, (way >> 1) & 1, way & 1
        p, q = np.int64(state.pos[a]), np.int64(state.pos[b])
        first = p if leads else p - length + 1
        last, g = first + length - 1, gap_beside(state, q, after)
        if first <= q <= last or own_gap(state, first, last, g) or (directed and leads != after):
            continue
        move, _ = shift(state, first, last, g) if directed else or_opt(state, first, last, g, leads ^ after)
        if total(guide, move, 4, 3) > least_gain(guide, move, 4, 3):
            apply_or_opt(data, state, move)
            return True
    return False


@outline
def search(data, guide, state, directed):
    """First improvement over all cities with the near ones, or all of them where there are no lists."""
    n, k = len(state.y), len(state.near) // len(state.y)
    for _ in range(ROUNDS):
        better = False
        for a in range(n):
            for p in range(k if k > 0 else n):
                b = np.int64(state.near[a * k + p] if k > 0 else p)
                if a != b:
                    if not directed and try_two_opt(data, guide, state, a, b):
                        better = True
                    if try_or_opt(data, guide, state, a, b, directed):
                        better = True
                    if directed and try_or_opt(data, guide, state, b, a, directed):
                        better = True
        if not better:
            return


@jit
def improve(data, guide, state):
    search(data, guide, state, 0)


@jit
def improve_directed(data, guide, state):
    search(data, guide, state, 1)


@outline
def nearest_first(guide, state, directed):
    """From city 0 always on to the best city not yet visited."""
    y, n = state.y, len(state.y)
    for p in range(n):
        y[p] = p
    for p in range(1, n):
        a, best = np.int64(y[p - 1]), p
        value = guide[arc(state, a, np.int64(y[p])) if directed else edge(a, np.int64(y[p]))]
        for q in range(p + 1, n):
            other = guide[arc(state, a, np.int64(y[q])) if directed else edge(a, np.int64(y[q]))]
            if other > value:
                best, value = q, other
        y[p], y[best] = y[best], y[p]


@outline
def greedy(data, guide, state):
    """Nearest neighbor, then local search."""
    nearest_first(guide, state, 0)
    fill(data, guide, state, 0)
    search(data, guide, state, 0)


@outline
def greedy_directed(data, guide, state):
    nearest_first(guide, state, 1)
    fill(data, guide, state, 1)
    search(data, guide, state, 1)


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tours:
    """Lists all tours."""

    n: int

    def __call__(self) -> Iterator[np.ndarray]:
        return (np.array((0, *rest), np.int16) for rest in permutations(range(1, self.n)))

    @property
    def at_least(self) -> int:
        return factorial(self.n - 1)


class TSP(Problem):
    """Tours through n cities; T(y) says which edges are used, and the best tour for θ = −distances is the shortest.

    θ has an entry for each undirected edge, d = n(n−1)/2, a lower triangle row after row; with ``asymmetric=True`` one for each
    arc, d = n², row by row, where the diagonal counts for nothing. :meth:`theta` makes θ of a matrix. Solutions are arrays (n,),
    the order of the cities, the first of which is 0; where solutions are asked for, a tour as a list may begin anywhere.

    Parameters
    ----------
    n : int
        Number of cities, at least 3.
    asymmetric : bool
        Arcs with directions, and moves that never reverse a stretch.
    neighbors : int or array (n, K)
        Moves draw edges between near cities. So many of each city, by θ; or lists of near cities for all θ, such as those of
        :meth:`nearest`. 0: all moves are drawn uniformly.
    share : float
        How often moves draw such an edge, in (0, 1); the others are drawn uniformly, so that every tour can be reached.
    moves : sequence of str, optional
        Any of "2-opt" and "or-opt", with ``asymmetric=True`` of "or-opt" and "exchange"; all by default.
    weights : sequence of float, optional
        Shares of the moves; equal by default.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    References
    ----------
    Johnson, McGeoch (1997), "The traveling salesman problem: a case study in local optimization": annealing with neighbor lists.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> x = np.array([0.0, 3.0, 1.0, 4.0, 2.0])
    >>> problem = mg.problems.TSP(5)
    >>> problem
    TSP(5)(d=10, moves=['2-opt', 'or-opt'])
    >>> found = mg.solve(problem, problem.theta(-np.abs(x[:, None] - x)), steps=1000)
    >>> float(found.objective), sorted(found.tour)
    (-8.0, [0, 1, 2, 3, 4])
    """

    cooling = (0.2, 0.006)  # random moves change much more than good ones do

    def __init__(
        self,
        n: int,
        asymmetric: bool = False,
        *,
        neighbors: int | Arrays = NEIGHBORS,
        share: float = 0.95,
        moves: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        n = integer_in(n, "n", 3, MOST_CITIES)
        self.asymmetric = directed = flag(asymmetric, "asymmetric")
        lists, k = _lists(neighbors, n)
        size = n * n if directed else n * (n - 1) // 2
        kit = DIRECTED_MOVES if directed else MOVES
        share = positive(share, "share")
        if share >= 1:
            raise ValueError(f"share must be < 1, since what is not near could not be reached, got {share}.")
        chosen = choices(tuple(kit) if moves is None else moves, "moves", tuple(kit))
        super().__init__(
            Data(lists, share),
            State(
                y=np.arange(n, dtype=np.int16),
                pos=np.arange(n, dtype=np.int16),
                near=np.zeros(n * k, np.int16),
                ends=np.zeros(2 * n * k, np.int16),
                bits=np.zeros((size + 31) // 32 if k else 0, np.uint32),
                many=np.zeros(1, np.int64),
                logs=np.zeros(LOGS),
            ),
            [*weighted([kit[m] for m in chosen], weights), *extra(extra_moves)],
            size,
            prepare=prepare_directed if directed else prepare,
            statistic=statistic_directed if directed else statistic,
            contains=contains,
            random=random,
            greedy=greedy_directed if directed else greedy,
            improve=improve_directed if directed else improve,
            guided=k > 0 and len(lists) == 0,
            states=Tours(n),
            name=f"TSP({n})",
        )

    @staticmethod
    def nearest(distances: Arrays, k: int = NEIGHBORS) -> np.ndarray:
        """Lists of near cities, for ``neighbors``: proposals then depend on these distances and not on θ.

        Parameters
        ----------
        distances : (n, n)
            From city to city.
        k : int
            How many of each city, at most n − 1.

        Returns
        -------
        array (n, k) of int
            The nearest first.

        Examples
        --------
        >>> import numpy as np
        >>> import movegrad as mg
        >>> x = np.array([0.0, 3.0, 1.0, 4.0, 2.0])
        >>> lists = mg.problems.TSP.nearest(np.abs(x[:, None] - x), 2)
        >>> lists.tolist()
        [[2, 4], [3, 4], [0, 4], [1, 4], [1, 2]]
        >>> mg.problems.TSP(5, neighbors=lists).guided
        False
        """
        array = array_of(distances, "distances")
        if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 2:
            raise ValueError(f"distances must be square with at least 2 rows, got shape {array.shape}.")
        far = np.array(matrix_of(array, "distances", len(array), diagonal=False))
        np.fill_diagonal(far, np.inf)
        return np.argsort(far, axis=1, kind="stable")[:, : integer_in(k, "k", 1, len(array) - 1)]

    def theta(self, matrix: Arrays) -> Array:
        """θ of a matrix, such as −distances.

        Parameters
        ----------
        matrix : array or tensor (…, n, n)
            Symmetric unless the problem is asymmetric. The diagonal counts for nothing.

        Returns
        -------
        array or tensor (…, d)
            θ.
        """
        n = len(self.solution)
        if not self.asymmetric:
            return to_edges(matrix, "matrix", n)
        square = matrix_of(matrix, "matrix", n, diagonal=False)
        return square.reshape(*square.shape[:-2], n * n)

    def matrix(self, edges: Arrays) -> Array:
        """The matrix of a vector of edges or arcs, such as ``Sample.mean``: where it is used, and how often.

        Parameters
        ----------
        edges : array or tensor (…, d)
            θ, T(y) or a mean of it.

        Returns
        -------
        array or tensor (…, n, n)
            Symmetric with 0 on the diagonal unless the problem is asymmetric.
        """
        n = len(self.solution)
        if not self.asymmetric:
            return to_matrix(edges, "edges", n)
        given: Any = edges
        if tuple(given.shape[-1:]) != (self.size,):
            raise ValueError(f"edges must have a last axis of {self.size} entries, got shape {tuple(given.shape)}.")
        return given.reshape(*given.shape[:-1], n, n)

    def encode(self, value: Arrays) -> Any:
        """Tours as solutions; functions that take solutions call it.

        Parameters
        ----------
        value : tour, or a list of them
            All cities in the order in which they are visited, from anywhere.

        Returns
        -------
        array (…, n)
            The same tours from city 0 on. Arrays stay as they are.
        """
        if not isinstance(value, (list, tuple)):
            return value
        tours = array_of(sequence(value, "tour", "cities"), "tour")
        if tours.ndim == 0 or tours.shape[-1] != len(self.solution) or tours.size == 0:
            raise ValueError(f"tour must have {len(self.solution)} cities, got shape {tours.shape}.")
        starts = (tours == 0).argmax(-1)[..., None]  # where there is no city 0, ``contains`` says so
        return np.take_along_axis(tours, (starts + np.arange(tours.shape[-1])) % tours.shape[-1], -1)

    def decode(self, solution: Arrays) -> list[int]:
        """The tour of a solution.

        Parameters
        ----------
        solution : (n,)
            In the set.

        Returns
        -------
        list of int
            Cities in the order in which they are visited, from 0 on.
        """
        array = array_of(solution, "solution")
        if array.shape != self.solution.shape:
            raise ValueError(f"solution must have {len(self.solution)} entries, got shape {array.shape}.")
        return [int(city) for city in array]

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        return {"tour": self.decode(solution)}

    def complaint(self, solution: np.ndarray) -> str:
        n, cities = len(self.solution), [int(city) for city in solution]
        for city in cities:
            if not 0 <= city < n:
                return f"cities must be in 0..{n - 1}, got {city}"
            if cities.count(city) > 1:
                return f"city {city} is visited {cities.count(city)} times"
        return f"an array must begin with city 0, not {cities[0]}; a list may begin anywhere" if cities[0] != 0 else ""


def _lists(neighbors: Any, n: int) -> tuple[np.ndarray, int]:
    """The argument ``neighbors``: lists (n, K), or none, and K."""
    none = np.zeros((0, 0), np.int16)
    if isinstance(neighbors, (int, np.integer)):
        return none, min(integer_in(neighbors, "neighbors", 0), n - 1)
    lists = array_of(neighbors, "neighbors")
    if lists.ndim != 2 or len(lists) != n or not 1 <= lists.shape[1] <= n - 1 or lists.dtype.kind not in "iu":
        raise ValueError(
            f"neighbors must be an integer ≥ 0 or integers of shape ({n}, K) with 1 ≤ K ≤ {n - 1}, got "
            f"{shown(neighbors) if lists.ndim == 0 else f'shape {lists.shape} of {lists.dtype}'}."
        )
    if lists.min() < 0 or lists.max() >= n:
        raise ValueError(f"neighbors must be cities in 0..{n - 1}, got {lists[(lists < 0) | (lists >= n)][0]}.")
    for a in range(n):
        if a in lists[a] or len(set(lists[a].tolist())) < lists.shape[1]:
            raise ValueError(f"neighbors must list other cities, each once, got {lists[a].tolist()} for city {a}.")
    return lists.astype(np.int16), lists.shape[1]
