"""Moves on the solutions of a 0/1 program, each in O(entries of the columns that it changes), most of them symmetric.

* *flip* a variable that is in no equation: drawn from a fixed list, so the ratio is 1;
* *swap* a one and a zero of a class, whose variables enter all equations alike. The class has as many ones and zeros afterwards, so
  the ratio is 1. Under a cardinality row that is TopK's swap, under an exactly-one row it reassigns;
* *exchange*: of two ones (a, b) and (c, d), seen as edges between rows, make (a, d) and (c, b), or (a, c) and (b, d) unless rows
  have two sides. A component has as many ones afterwards, and the way back is drawn alike: the ratio is 1, or that of the numbers
  of variables between the same two rows;
* *rotate*: the same with three ones, where rows have two sides: (a, b), (c, d), (e, f) become (a, d), (c, f), (e, b). It is mixed
  in where variables are missing between some rows, so that exchanges alone may get stuck;
* *chain*: flip two to four variables at once, each drawn from a row of one drawn before. The draw does not look at y and flipping
  twice is nothing, so the ratio is 1. It is the last resort where equations overlap otherwise; most of its draws lead nowhere.

Inequalities are looked at last: the state holds the activity of each watched row, on a grid where sums are exact, and ``feasible``
is asked only of what the coin accepted. Flips, swaps and exchanges keep all equations, which are watched only where chains are in
the mixture.
"""

from math import log
from typing import NamedTuple

import numpy as np

from movegrad.engine import coin, integer, jit
from movegrad.problem import Move


class Data(NamedTuple):
    """Rows that are watched come first. A column ends with a row beyond all, so that two of them can be merged without looking.

    ``dense`` columns hold all watched rows, zeros included: loops then need no row numbers (3× for a swap with 50 of them).
    """

    fixed: np.ndarray  # (n,) the value of a variable in all solutions, or −1
    row_at: np.ndarray  # (m+1,)
    row_variable: np.ndarray
    row_value: np.ndarray
    lower: np.ndarray  # (m,)
    upper: np.ndarray
    column_at: np.ndarray  # (n+1,)
    column_row: np.ndarray  # watched ones
    column_value: np.ndarray
    column_in_row: np.ndarray  # where the same entry stands among rows; for chains, or empty
    flips: np.ndarray
    class_of: np.ndarray  # (n,) or −1
    class_at: np.ndarray  # (classes+1,) where each begins in ``items``
    class_at_place: np.ndarray  # class of each place in ``items``
    left: np.ndarray  # (n,) rows that a variable lies between, or −1
    right: np.ndarray
    component: np.ndarray  # (n,) or −1
    component_at: np.ndarray  # (components+1,) where each begins in ``edges``
    node_at: np.ndarray  # (m+1,) where the neighbors of a row begin
    neighbor: np.ndarray  # rows, sorted
    between_at: np.ndarray  # (neighbors+1,) where the variables between a row and its neighbor begin
    between: np.ndarray
    multiplicity: np.ndarray  # (n,) variables between the same two rows
    dense: bool
    sides: bool
    simple: bool  # one variable between two rows at most
    linked: np.ndarray  # variables that chains begin at


class State(NamedTuple):
    """``items`` holds the variables of classes, class by class, the ones of each first.

    ``place`` is its inverse, and ``ones`` counts them. ``edges``, ``seat`` and ``used`` are the same for components.
    """

    y: np.ndarray
    activity: np.ndarray  # of watched rows
    items: np.ndarray
    place: np.ndarray
    ones: np.ndarray
    edges: np.ndarray
    seat: np.ndarray
    used: np.ndarray


# --- activities and orders -------------------------------------------------------------------------------------------


@jit
def shift(data, state, v, sign):
    """Add the column of a variable to the activities, or take it away."""
    first = data.column_at[v]
    if data.dense:
        for r in range(len(state.activity)):
            state.activity[r] += sign * data.column_value[first + r]
        return
    for e in range(first, data.column_at[v + 1] - 1):
        state.activity[data.column_row[e]] += sign * data.column_value[e]


@jit
def within(data, state, v):
    """Whether all rows of a variable are."""
    inside = True
    for e in range(data.column_at[v], data.column_at[v + 1] - 1):
        r = data.column_row[e]
        inside &= (data.lower[r] <= state.activity[r]) & (state.activity[r] <= data.upper[r])
    return inside


@jit
def cross(order, place, count, part, first, v, one):
    """A variable that has become ``one`` changes places with the one at the border of its part."""
    border = first + count[part] - (1 - one)
    at, other = place[v], order[border]
    order[at], order[border] = other, v
    place[other], place[v] = at, border
    count[part] += 2 * one - 1


@jit
def follow_edge(data, state, v, one):
    c = data.component[v]
    if c >= 0:
        cross(state.edges, state.seat, state.used, c, data.component_at[c], v, one)


@jit
def toggle(data, state, v):
    """Flip a variable, and all that is kept about it."""
    one = 1 - np.int64(state.y[v])
    shift(data, state, v, 2 * one - 1)
    state.y[v] = one
    c = data.class_of[v]
    if c >= 0:
        cross(state.items, state.place, state.ones, c, data.class_at[c], v, one)
    if len(state.used) > 0:
        follow_edge(data, state, v, one)


# --- flip ------------------------------------------------------------------------------------------------------------


@jit
def propose_flip(data, state, rng):
    return np.int64(data.flips[integer(rng, len(data.flips))]), 0.0


@jit
def change_flip(data, state, move, m):
    return move, 1 - 2 * np.int64(state.y[move])


@jit
def flip_fits(data, state, move):
    sign, first, inside = 1 - 2 * np.int64(state.y[move]), data.column_at[move], True
    if data.dense:
        for r in range(len(state.activity)):  # no early exit, so that the loop can be vectorized
            after = state.activity[r] + sign * data.column_value[first + r]
            inside &= (data.lower[r] <= after) & (after <= data.upper[r])
        return inside
    for e in range(first, data.column_at[move + 1] - 1):
        r = data.column_row[e]
        after = state.activity[r] + sign * data.column_value[e]
        inside &= (data.lower[r] <= after) & (after <= data.upper[r])
    return inside


@jit
def apply_flip(data, state, move):
    toggle(data, state, move)


# --- swap ------------------------------------------------------------------------------------------------------------


@jit
def propose_swap(data, state, rng):
    """A place at random, then one of the other value in its class. Selections instead of branches, which nobody can predict."""
    p = integer(rng, len(state.items))
    c = data.class_at_place[p]
    first, ones = data.class_at[c], state.ones[c]
    zeros = data.class_at[c + 1] - first - ones
    if ones == 0 or zeros == 0:
        return (0, 0), -np.inf
    is_one = p < first + ones
    q = (first + ones if is_one else first) + integer(rng, zeros if is_one else ones)
    i, j = state.items[p], state.items[q]
    return (np.int64(i if is_one else j), np.int64(j if is_one else i)), 0.0


@jit
def change_swap(data, state, move, m):
    return move[m], 2 * m - 1


@jit
def swap_fits(data, state, move):
    """Both columns at once, by rising rows."""
    i, j = move
    a, b, inside = data.column_at[i], data.column_at[j], True
    if data.dense:
        for r in range(len(state.activity)):
            after = state.activity[r] - data.column_value[a + r] + data.column_value[b + r]
            inside &= (data.lower[r] <= after) & (after <= data.upper[r])
        return inside
    r, s = data.column_row[a], data.column_row[b]
    beyond = len(state.activity)
    while min(r, s) < beyond:
        at = min(r, s)
        after = state.activity[at]
        if r == at:
            after -= data.column_value[a]
            a += 1
        if s == at:
            after += data.column_value[b]
            b += 1
        inside &= (data.lower[at] <= after) & (after <= data.upper[at])
        r, s = data.column_row[a], data.column_row[b]
    return inside


@jit
def apply_swap(data, state, move):
    i, j = move
    shift(data, state, i, -1)
    shift(data, state, j, 1)
    state.y[i], state.y[j] = 0, 1
    a, b = state.place[i], state.place[j]
    state.items[a], state.items[b] = j, i
    state.place[i], state.place[j] = b, a
    if len(state.used) > 0:
        follow_edge(data, state, i, 0)
        follow_edge(data, state, j, 1)


@jit
def apply_swap_if(data, state, move, accepted):
    """Where no row is watched and nothing is exchanged."""
    i, j = move
    a, b = state.place[i], state.place[j]
    state.y[i] ^= accepted
    state.y[j] ^= accepted
    other, step = (i ^ j) & -accepted, (a ^ b) & -accepted
    state.items[a], state.items[b] = i ^ other, j ^ other
    state.place[i], state.place[j] = a ^ step, b ^ step


# --- exchange --------------------------------------------------------------------------------------------------------


@jit
def between(data, a, b):
    """Where row b stands among the neighbors of row a, or −1."""
    low, high = data.node_at[a], data.node_at[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if data.neighbor[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low if low < data.node_at[a + 1] and data.neighbor[low] == b else -1


@jit
def propose_exchange(data, state, rng):
    nothing = (0, 0, 0, 0)
    part = integer(rng, len(state.used))
    ones = state.used[part]
    if ones < 2:
        return nothing, -np.inf
    p, q = integer(rng, ones), integer(rng, ones - 1)
    q += q >= p
    first = data.component_at[part]
    i, k = np.int64(state.edges[first + p]), np.int64(state.edges[first + q])
    a, b, c, d = data.left[i], data.right[i], data.left[k], data.right[k]
    if not data.sides and coin(rng, 0.5):
        c, d = d, c
    if a == c or b == d:
        return nothing, -np.inf
    e, f = between(data, a, d), between(data, c, b)
    if e < 0 or f < 0:
        return nothing, -np.inf
    j, g = data.between_at[e], data.between_at[f]
    log_ratio = 0.0
    if not data.simple:
        many, more = data.between_at[e + 1] - j, data.between_at[f + 1] - g
        j, g = j + integer(rng, many), g + integer(rng, more)
        log_ratio = log(many * more / (data.multiplicity[i] * data.multiplicity[k]))
    j, g = np.int64(data.between[j]), np.int64(data.between[g])
    if state.y[j] or state.y[g]:
        return nothing, -np.inf
    return (i, k, j, g), log_ratio


@jit
def change_exchange(data, state, move, m):
    return move[m], -1 if m < 2 else 1


@jit
def exchange_fits(data, state, move):
    """Tried and taken back: sums are exact, so that the activities are what they were."""
    i, k, j, g = move
    shift(data, state, i, -1)
    shift(data, state, k, -1)
    shift(data, state, j, 1)
    shift(data, state, g, 1)
    inside = within(data, state, i) and within(data, state, k) and within(data, state, j) and within(data, state, g)
    shift(data, state, i, 1)
    shift(data, state, k, 1)
    shift(data, state, j, -1)
    shift(data, state, g, -1)
    return inside


@jit
def apply_exchange(data, state, move):
    i, k, j, g = move
    toggle(data, state, i)
    toggle(data, state, k)
    toggle(data, state, j)
    toggle(data, state, g)


# --- rotate ----------------------------------------------------------------------------------------------------------


@jit
def propose_rotate(data, state, rng):
    """Three ones in an order; three orders lead to the same, and three lead back."""
    nothing = (0, 0, 0, 0, 0, 0)
    part = integer(rng, len(state.used))
    ones = state.used[part]
    if ones < 3:
        return nothing, -np.inf
    p, q, r = integer(rng, ones), integer(rng, ones - 1), integer(rng, ones - 2)
    q += q >= p
    r += r >= min(p, q)
    r += r >= max(p, q)
    first = data.component_at[part]
    i, k, o = np.int64(state.edges[first + p]), np.int64(state.edges[first + q]), np.int64(state.edges[first + r])
    a, c, e = data.left[i], data.left[k], data.left[o]
    b, d, f = data.right[i], data.right[k], data.right[o]
    if (a == c) | (a == e) | (c == e) | (b == d) | (b == f) | (d == f):
        return nothing, -np.inf
    s, t, u = between(data, a, d), between(data, c, f), between(data, e, b)
    if s < 0 or t < 0 or u < 0:
        return nothing, -np.inf
    j, g, h = data.between_at[s], data.between_at[t], data.between_at[u]
    log_ratio = 0.0
    if not data.simple:
        x, y, z = data.between_at[s + 1] - j, data.between_at[t + 1] - g, data.between_at[u + 1] - h
        j, g, h = j + integer(rng, x), g + integer(rng, y), h + integer(rng, z)
        log_ratio = log(x * y * z / (data.multiplicity[i] * data.multiplicity[k] * data.multiplicity[o]))
    j, g, h = np.int64(data.between[j]), np.int64(data.between[g]), np.int64(data.between[h])
    if state.y[j] or state.y[g] or state.y[h]:
        return nothing, -np.inf
    return (i, k, o, j, g, h), log_ratio


@jit
def change_rotate(data, state, move, m):
    return move[m], -1 if m < 3 else 1


@jit
def turn(data, state, move, sign):
    i, k, o, j, g, h = move
    shift(data, state, i, -sign)
    shift(data, state, k, -sign)
    shift(data, state, o, -sign)
    shift(data, state, j, sign)
    shift(data, state, g, sign)
    shift(data, state, h, sign)


@jit
def rotate_fits(data, state, move):
    i, k, o, j, g, h = move
    turn(data, state, move, 1)
    inside = within(data, state, i) and within(data, state, k) and within(data, state, o)
    inside = inside and within(data, state, j) and within(data, state, g) and within(data, state, h)
    turn(data, state, move, -1)
    return inside


@jit
def apply_rotate(data, state, move):
    i, k, o, j, g, h = move
    toggle(data, state, i)
    toggle(data, state, k)
    toggle(data, state, o)
    toggle(data, state, j)
    toggle(data, state, g)
    toggle(data, state, h)


# --- chain -----------------------------------------------------------------------------------------------------------


@jit
def neighbor_of(data, v, rng):
    """Another variable of a row of v; rows have two or more."""
    first, last = data.column_at[v], data.column_at[v + 1] - 1
    e = first + integer(rng, last - first)
    r = data.column_row[e]
    k = data.row_at[r] + integer(rng, data.row_at[r + 1] - data.row_at[r] - 1)
    return np.int64(data.row_variable[k + (k >= data.column_in_row[e])])


@jit
def propose_chain(data, state, rng):
    """Two to four different variables, each sharing a row with one before: a path, or a star about its second."""
    count = 2 + integer(rng, 3)
    a = np.int64(data.linked[integer(rng, len(data.linked))])
    b = neighbor_of(data, a, rng)
    c, d = -1, -1
    if count > 2:
        c = neighbor_of(data, b, rng)
        if count > 3 and c != a:
            d = neighbor_of(data, b if integer(rng, 2) == 0 else c, rng)
    again = c == a or (d >= 0 and (d == a) | (d == b) | (d == c))
    return (count, a, b, c, d), -np.inf if again else 0.0


@jit
def changes_chain(data, state, move):
    return move[0]


@jit
def link(move, m):
    return move[1] if m == 0 else move[2] if m == 1 else move[3] if m == 2 else move[4]


@jit
def change_chain(data, state, move, m):
    v = link(move, m)
    return v, 1 - 2 * np.int64(state.y[v])


@jit
def chain_fits(data, state, move):
    inside = True
    for m in range(move[0]):
        v = link(move, m)
        shift(data, state, v, 1 - 2 * np.int64(state.y[v]))
    for m in range(move[0]):
        inside = inside and within(data, state, link(move, m))
    for m in range(move[0]):
        v = link(move, m)
        shift(data, state, v, 2 * np.int64(state.y[v]) - 1)
    return inside


@jit
def apply_chain(data, state, move):
    for m in range(move[0]):
        toggle(data, state, link(move, m))


MOVES = {
    "flip": Move("flip", propose_flip, change_flip, apply_flip, feasible=flip_fits),
    "swap": Move("swap", propose_swap, change_swap, apply_swap, changes=2, feasible=swap_fits),
    "exchange": Move("exchange", propose_exchange, change_exchange, apply_exchange, changes=4, feasible=exchange_fits),
    "rotate": Move("rotate", propose_rotate, change_rotate, apply_rotate, changes=6, feasible=rotate_fits, weight=0.5),
    "chain": Move("chain", propose_chain, change_chain, apply_chain, changes_chain, feasible=chain_fits, weight=0.25),
}
UNWATCHED = {  # where no row is watched: nothing to ask
    "flip": Move("flip", propose_flip, change_flip, apply_flip),
    "swap": Move("swap", propose_swap, change_swap, apply_swap, changes=2),
    "exchange": Move("exchange", propose_exchange, change_exchange, apply_exchange, changes=4),
    "rotate": Move("rotate", propose_rotate, change_rotate, apply_rotate, changes=6, weight=0.5),
}
SWAP_ALONE = Move("swap", propose_swap, change_swap, apply_swap, changes=2, apply_if=apply_swap_if)


# --- the set ---------------------------------------------------------------------------------------------------------


@jit
def contains(data, y):
    for j in range(len(y)):
        if y[j] > 1 or (data.fixed[j] >= 0 and y[j] != data.fixed[j]):
            return False
    for r in range(len(data.lower)):
        total = 0.0
        for e in range(data.row_at[r], data.row_at[r + 1]):
            total += data.row_value[e] * y[data.row_variable[e]]
        if total < data.lower[r] or total > data.upper[r]:
            return False
    return True


@jit
def prepare(data, guide, temperature, state):
    y = state.y
    for r in range(len(state.activity)):
        state.activity[r] = 0.0
    for c in range(len(state.ones)):
        state.ones[c] = 0
    for c in range(len(state.used)):
        state.used[c] = 0
    for v in range(len(y)):
        if y[v]:
            shift(data, state, v, 1)
            if data.class_of[v] >= 0:
                state.ones[data.class_of[v]] += 1
            if len(state.used) > 0 and data.component[v] >= 0:
                state.used[data.component[v]] += 1
    fill(data.class_of, data.class_at, y, state.items, state.place, state.ones)
    if len(state.used) > 0:
        fill(data.component, data.component_at, y, state.edges, state.seat, state.used)


@jit
def fill(part_of, part_at, y, order, place, count):
    """Ones first in each part. ``count`` holds the number of ones and is a pointer meanwhile."""
    for v in range(len(y)):
        c = part_of[v]
        if c >= 0 and y[v] == 0:
            order[part_at[c] + count[c]], place[v] = v, part_at[c] + count[c]
            count[c] += 1
    for c in range(len(count)):
        count[c] = 0
    for v in range(len(y)):
        c = part_of[v]
        if c < 0:
            place[v] = -1
        elif y[v]:
            order[part_at[c] + count[c]], place[v] = v, part_at[c] + count[c]
            count[c] += 1
