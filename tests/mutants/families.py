"""Small problems as users write them, all of them right: what mistakes are planted in.

Each function builds one; ``vary`` exchanges parts of it. Solutions are int8 unless something else is said.
"""

from collections.abc import Iterator
from itertools import combinations, permutations, product
from math import log
from typing import Any, NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer


def vectors_of(rows: Any, dtype: Any = np.int8) -> list[np.ndarray]:
    return [np.array(row, dtype) for row in rows]


def cube(n: int, dtype: Any = np.int8) -> list[np.ndarray]:
    """All binary vectors."""
    return vectors_of(product((0, 1), repeat=n), dtype)


# --- switches: binary vectors, one flip; nothing is derived -----------------------------------------------------------


class Void(NamedTuple):
    """Data of problems that need none."""

    unused: int = 0


class Bits(NamedTuple):
    y: np.ndarray


@mg.jit
def propose_flip(data, state, rng):
    return integer(rng, len(state.y)), 0.0


@mg.jit
def change_flip(data, state, i, m):
    return i, 1 - 2 * state.y[i]


@mg.jit
def apply_flip(data, state, i):
    state.y[i] = 1 - state.y[i]


@mg.jit
def are_bits(data, y):
    for i in range(len(y)):
        if y[i] != 0 and y[i] != 1:
            return False
    return True


@mg.jit
def random_bits(data, rng, y):
    for i in range(len(y)):
        y[i] = integer(rng, 2)


FLIP = mg.Move("flip", propose_flip, change_flip, apply_flip)


def switches(n: int = 4) -> mg.Problem:
    """{0,1}ⁿ with single flips."""
    return mg.Problem(
        Void(),
        Bits(np.zeros(n, np.int8)),
        [FLIP],
        n,
        contains=are_bits,
        random=random_bits,
        states=lambda: cube(n),
        name="switches",
    )


# --- basket: the same set; add one of the zeros or drop one of the ones -----------------------------------------------


class Counted(NamedTuple):
    y: np.ndarray
    ones: np.ndarray  # (1,)


@mg.jit
def nth(y, value, n):
    """Position of the n-th entry of y that has this value, counted from 0."""
    for i in range(len(y)):
        if y[i] == value:
            if n == 0:
                return i
            n -= 1
    return -1


@mg.jit
def count_ones(data, guide, temperature, state):
    state.ones[0] = 0
    for i in range(len(state.y)):
        state.ones[0] += state.y[i]


@mg.jit
def propose_add_or_drop(data, state, rng):
    ones, zeros = state.ones[0], len(state.y) - state.ones[0]
    if coin(rng, 0.5):
        if zeros == 0:
            return 0, -np.inf
        return nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1))
    if ones == 0:
        return 0, -np.inf
    return nth(state.y, 1, integer(rng, ones)), log(ones / (zeros + 1))


@mg.jit
def apply_counted_flip(data, state, i):
    state.ones[0] += 1 - 2 * state.y[i]
    state.y[i] = 1 - state.y[i]


def basket(n: int = 4) -> mg.Problem:
    """{0,1}ⁿ: heads adds one of the zeros, tails drops one of the ones."""
    move = mg.Move("add or drop", propose_add_or_drop, change_flip, apply_counted_flip)
    return mg.Problem(
        Void(),
        Counted(np.zeros(n, np.int8), np.zeros(1, np.int64)),
        [move],
        n,
        prepare=count_ones,
        contains=are_bits,
        random=random_bits,
        states=lambda: cube(n),
        name="basket",
    )


# --- menu: at most so many ones, at a price each ----------------------------------------------------------------------


class Prices(NamedTuple):
    price: np.ndarray
    limit: int


@mg.jit
def within_limit(data, state, i):
    return state.ones[0] + 1 - 2 * state.y[i] <= data.limit


@mg.jit
def gain_price(data, state, i):
    return -data.price[i] * (1 - 2 * state.y[i])


@mg.jit
def minus_prices(data, y):
    total = 0.0
    for i in range(len(y)):
        total -= data.price[i] * y[i]
    return total


@mg.jit
def few_ones(data, y):
    ones = 0
    for i in range(len(y)):
        if not 0 <= y[i] <= 1:
            return False
        ones += y[i]
    return ones <= data.limit


def menu(n: int = 4, limit: int = 2) -> mg.Problem:
    """{y ∈ {0,1}ⁿ : Σ yᵢ ≤ limit} with single flips and φ(y) = −Σ priceᵢ yᵢ."""
    move = mg.Move("flip", propose_flip, change_flip, apply_counted_flip, gain=gain_price, feasible=within_limit)
    return mg.Problem(
        Prices(np.linspace(0.3, 1.1, n), limit),
        Counted(np.zeros(n, np.int8), np.zeros(1, np.int64)),
        [move],
        n,
        prepare=count_ones,
        phi=minus_prices,
        contains=few_ones,
        states=lambda: [y for y in cube(n) if y.sum() <= limit],
        name="menu",
    )


# --- ring: bits that attract or repel their neighbors, with local fields ----------------------------------------------


class Couplings(NamedTuple):
    J: np.ndarray  # between i and i + 1, around


class Fields(NamedTuple):
    y: np.ndarray
    h: np.ndarray  # φ(y with yᵢ = 1) − φ(y with yᵢ = 0)


@mg.jit
def fill_fields(data, guide, temperature, state):
    n = len(state.y)
    for i in range(n):
        state.h[i] = data.J[i] * state.y[(i + 1) % n] + data.J[i - 1] * state.y[i - 1]


@mg.jit
def gain_field(data, state, i):
    return (1 - 2 * state.y[i]) * state.h[i]


@mg.jit
def apply_ring_flip(data, state, i):
    n = len(state.y)
    sign = 1 - 2 * state.y[i]
    state.h[(i + 1) % n] += sign * data.J[i]
    state.h[i - 1] += sign * data.J[i - 1]
    state.y[i] = 1 - state.y[i]


@mg.jit
def coupled(data, y):
    total = 0.0
    for i in range(len(y)):
        total += data.J[i] * y[i] * y[(i + 1) % len(y)]
    return total


def ring(n: int = 4) -> mg.Problem:
    """{0,1}ⁿ with single flips and φ(y) = Σ Jᵢ yᵢ yᵢ₊₁ around a ring."""
    move = mg.Move("flip", propose_flip, change_flip, apply_ring_flip, gain=gain_field)
    return mg.Problem(
        Couplings(np.array([0.7, -1.3, 0.4, 1.1, -0.6, 0.9])[:n]),
        Fields(np.zeros(n, np.int8), np.zeros(n)),
        [move],
        n,
        prepare=fill_fields,
        phi=coupled,
        contains=are_bits,
        states=lambda: cube(n),
        name="ring",
    )


# --- team: k of n, with a list of the chosen ones before the others ---------------------------------------------------


class Choice(NamedTuple):
    k: int


class Listed(NamedTuple):
    y: np.ndarray
    items: np.ndarray  # the k ones, then the zeros


@mg.jit
def list_items(data, guide, temperature, state):
    one, zero = 0, data.k
    for i in range(len(state.y)):
        if state.y[i] == 1:
            state.items[one] = i
            one += 1
        else:
            state.items[zero] = i
            zero += 1


@mg.jit
def propose_exchange(data, state, rng):
    return (integer(rng, data.k), data.k + integer(rng, len(state.y) - data.k)), 0.0


@mg.jit
def change_exchange(data, state, move, m):
    return state.items[move[m]], 2 * m - 1


@mg.jit
def apply_exchange(data, state, move):
    a, b = move
    state.y[state.items[a]] = 0
    state.y[state.items[b]] = 1
    state.items[a], state.items[b] = state.items[b], state.items[a]


@mg.jit
def has_k_ones(data, y):
    ones = 0
    for i in range(len(y)):
        if y[i] != 0 and y[i] != 1:
            return False
        ones += y[i]
    return ones == data.k


@mg.jit
def random_team(data, rng, y):
    left = data.k
    for i in range(len(y)):
        y[i] = integer(rng, len(y) - i) < left
        left -= y[i]


def subsets(n: int, k: int, dtype: Any = np.int8) -> list[np.ndarray]:
    return [y for y in cube(n, dtype) if y.sum() == k]


def team(n: int = 5, k: int = 2, dtype: Any = np.int8) -> mg.Problem:
    """{y ∈ {0,1}ⁿ : Σ yᵢ = k}: exchange one of the chosen for one of the others."""
    move = mg.Move("exchange", propose_exchange, change_exchange, apply_exchange, changes=2)
    return mg.Problem(
        Choice(k),
        Listed((np.arange(n) < k).astype(dtype), np.arange(n)),
        [move],
        n,
        prepare=list_items,
        contains=has_k_ones,
        random=random_team,
        states=lambda: subsets(n, k, dtype),
        name="team",
    )


# --- lineup: orders of n items; T says which item stands where --------------------------------------------------------


@mg.jit
def propose_pair(data, state, rng):
    n = len(state.y)
    i, j = integer(rng, n), integer(rng, n - 1)
    j += j >= i
    return (i, j), 0.0


@mg.jit
def change_places(data, state, move, m):
    """Both items leave their places, then both take the other's."""
    i, j = move
    item, place = (i, j, i, j)[m], (i, j, j, i)[m]
    return state.y[item] * len(state.y) + place, -1 if m < 2 else 1


@mg.jit
def apply_pair(data, state, move):
    i, j = move
    state.y[i], state.y[j] = state.y[j], state.y[i]


@mg.jit
def mark_places(data, y, out):
    for p in range(len(y)):
        out[y[p] * len(y) + p] = 1.0


@mg.jit
def is_order(data, y):
    for p in range(len(y)):
        if not 0 <= y[p] < len(y):
            return False
        for q in range(p):
            if y[q] == y[p]:
                return False
    return True


@mg.jit
def random_order(data, rng, y):
    for p in range(len(y)):
        y[p] = p
    for p in range(len(y) - 1, 0, -1):
        q = integer(rng, p + 1)
        y[p], y[q] = y[q], y[p]


def orders(n: int) -> list[np.ndarray]:
    return vectors_of(permutations(range(n)))


def lineup(n: int = 4) -> mg.Problem:
    """Orders of n items, two of which change places."""
    move = mg.Move("swap", propose_pair, change_places, apply_pair, changes=4)
    return mg.Problem(
        Void(),
        Bits(np.arange(n, dtype=np.int8)),
        [move],
        n * n,
        statistic=mark_places,
        contains=is_order,
        random=random_order,
        states=lambda: orders(n),
        name="lineup",
    )


# --- layout: the same with a quadratic assignment's φ -----------------------------------------------------------------


class Flows(NamedTuple):
    flow: np.ndarray  # (n, n) between items
    distance: np.ndarray  # (n, n) between places


@mg.jit
def quadratic(data, y):
    total = 0.0
    for p in range(len(y)):
        for q in range(len(y)):
            total -= data.flow[y[p], y[q]] * data.distance[p, q]
    return total


@mg.jit
def gain_quadratic(data, state, move):
    i, j = move
    y, f, d = state.y, data.flow, data.distance
    a, b = y[i], y[j]
    total = (f[b, a] - f[a, b]) * (d[i, j] - d[j, i]) + (f[b, b] - f[a, a]) * (d[i, i] - d[j, j])
    for k in range(len(y)):
        if k != i and k != j:
            c = y[k]
            total += (f[b, c] - f[a, c]) * (d[i, k] - d[j, k]) + (f[c, b] - f[c, a]) * (d[k, i] - d[k, j])
    return -total


def layout(n: int = 4) -> mg.Problem:
    """Quadratic assignment: items to places, −φ is flow times distance; nothing is symmetric."""
    rng = np.random.default_rng(1)
    base = lineup(n)
    move = mg.Move("swap", propose_pair, change_places, apply_pair, changes=4, gain=gain_quadratic)
    return mg.Problem(
        Flows(rng.normal(size=(n, n)), rng.normal(size=(n, n))),
        base.state,
        [move],
        n * n,
        statistic=mark_places,
        phi=quadratic,
        contains=is_order,
        random=random_order,
        states=lambda: orders(n),
        name="layout",
    )


# --- tour: a traveling salesman with 2-opt ----------------------------------------------------------------------------


@mg.jit
def edge(y, p, q):
    """Entry of T for the edge between positions p and q ≤ n, where the tour closes."""
    one, other = y[p], y[q if q < len(y) else 0]
    row, column = max(one, other), min(one, other)
    return row * (row - 1) // 2 + column


@mg.jit
def reverse(y, first, last):
    while first < last:
        y[first], y[last] = y[last], y[first]
        first += 1
        last -= 1


@mg.jit
def propose_two_opt(data, state, rng):
    n = len(state.y)
    i, j = integer(rng, n - 1), integer(rng, n - 2)
    j += j >= i
    return (1 + min(i, j), 1 + max(i, j)), 0.0


@mg.jit
def change_two_opt(data, state, move, m):
    i, j = move
    p, q = (i - 1, j, i - 1, i)[m], (i, j + 1, j, j + 1)[m]
    return edge(state.y, p, q), -1 if m < 2 else 1


@mg.jit
def apply_two_opt(data, state, move):
    reverse(state.y, move[0], move[1])


@mg.jit
def change_or_opt(data, state, move, m):
    """The stretches y[a..b−1] and y[b..c−1] change places: three edges are left, then three are taken."""
    a, b, c = move
    p, q = (a - 1, b - 1, c - 1, a - 1, c - 1, b - 1)[m], (a, b, c, b, a, c)[m]
    return edge(state.y, p, q), -1 if m < 3 else 1


@mg.jit
def apply_or_opt(data, state, move):
    a, b, c = move
    reverse(state.y, a, b - 1)
    reverse(state.y, b, c - 1)
    reverse(state.y, a, c - 1)


@mg.jit
def mark_edges(data, y, out):
    for k in range(len(y)):
        out[edge(y, k, k + 1)] = 1.0


@mg.jit
def is_tour(data, y):
    return is_order(data, y) and y[0] == 0


TWO_OPT = mg.Move("2-opt", propose_two_opt, change_two_opt, apply_two_opt, changes=4)


def tours(n: int) -> list[np.ndarray]:
    return vectors_of((0, *rest) for rest in permutations(range(1, n)))


def tour(n: int = 5) -> mg.Problem:
    """Orders of n cities that begin with city 0; T says which edges are used."""
    return mg.Problem(
        Void(),
        Bits(np.arange(n, dtype=np.int8)),
        [TWO_OPT],
        n * (n - 1) // 2,
        statistic=mark_edges,
        contains=is_tour,
        states=lambda: tours(n),
        name="tour",
    )


# --- shop: jobs on machines, with loads; φ is minus the makespan ------------------------------------------------------


class Jobs(NamedTuple):
    time: np.ndarray  # (n,)
    capacity: np.ndarray  # (machines,)


class Plan(NamedTuple):
    y: np.ndarray  # machine of each job
    load: np.ndarray  # (machines,)


@mg.jit
def add_loads(data, guide, temperature, state):
    for k in range(len(state.load)):
        state.load[k] = 0
    for j in range(len(state.y)):
        state.load[state.y[j]] += data.time[j]


@mg.jit
def propose_other_machine(data, state, rng):
    j, k = integer(rng, len(state.y)), integer(rng, len(state.load) - 1)
    k += k >= state.y[j]
    return (j, k), 0.0


@mg.jit
def change_machine(data, state, move, m):
    j, k = move
    return j * len(state.load) + (state.y[j] if m == 0 else k), 2 * m - 1


@mg.jit
def highest(load):
    top = load[0]
    for k in range(len(load)):
        top = max(top, load[k])
    return top


@mg.jit
def gain_makespan(data, state, move):
    j, new = move
    top = 0
    for k in range(len(state.load)):
        load = state.load[k]
        if k == new:
            load += data.time[j]
        elif k == state.y[j]:
            load -= data.time[j]
        top = max(top, load)
    return 0.25 * (highest(state.load) - top)


@mg.jit
def job_fits(data, state, move):
    return state.load[move[1]] + data.time[move[0]] <= data.capacity[move[1]]


@mg.jit
def apply_move_job(data, state, move):
    j, k = move
    state.load[state.y[j]] -= data.time[j]
    state.load[k] += data.time[j]
    state.y[j] = k


@mg.jit
def mark_machines(data, y, out):
    for j in range(len(y)):
        out[j * len(data.capacity) + y[j]] = 1.0


@mg.jit
def load_of(data, y, k):
    total = 0
    for j in range(len(y)):
        if y[j] == k:
            total += data.time[j]
    return total


@mg.jit
def minus_makespan(data, y):
    top = 0
    for k in range(len(data.capacity)):
        top = max(top, load_of(data, y, k))
    return -0.25 * top


@mg.jit
def loads_fit(data, y):
    for j in range(len(y)):
        if not 0 <= y[j] < len(data.capacity):
            return False
    for k in range(len(data.capacity)):
        if load_of(data, y, k) > data.capacity[k]:
            return False
    return True


def shop(time: Any = (3, 2, 4, 1), capacity: Any = (6, 7, 8), load_dtype: Any = np.int64) -> mg.Problem:
    """Jobs on machines with capacities: one job goes to another machine. T has one entry for each job and machine."""
    times, limits, n, machines = np.array(time), np.array(capacity), len(time), len(capacity)

    def states() -> Iterator[np.ndarray]:
        for y in product(range(machines), repeat=n):
            if all(times[np.array(y) == k].sum() <= limits[k] for k in range(machines)):
                yield np.array(y, np.int8)

    move = mg.Move(
        "move a job", propose_other_machine, change_machine, apply_move_job, changes=2, gain=gain_makespan, feasible=job_fits
    )
    return mg.Problem(
        Jobs(times, limits),
        Plan(next(states()), np.zeros(machines, load_dtype)),
        [move],
        n * machines,
        prepare=add_loads,
        statistic=mark_machines,
        phi=minus_makespan,
        contains=loads_fit,
        states=states,
        name="shop",
    )


# --- mates: perfect matchings of a complete graph ---------------------------------------------------------------------


@mg.jit
def pair_entry(i, j):
    row, column = max(i, j), min(i, j)
    return row * (row - 1) // 2 + column


@mg.jit
def propose_rematch(data, state, rng):
    """Two that are no pair become one, and so do the two they leave."""
    (i, j), ratio = propose_pair(data, state, rng)
    return (i, j), -np.inf if state.y[i] == j else ratio


@mg.jit
def change_rematch(data, state, move, m):
    i, j = move
    a, b = np.int64(state.y[i]), np.int64(state.y[j])
    return pair_entry((i, j, i, a)[m], (a, b, j, b)[m]), -1 if m < 2 else 1


@mg.jit
def apply_rematch(data, state, move):
    i, j = move
    a, b = state.y[i], state.y[j]
    state.y[i], state.y[j], state.y[a], state.y[b] = j, i, b, a


@mg.jit
def mark_pairs(data, y, out):
    for i in range(len(y)):
        if y[i] < i:
            out[pair_entry(i, y[i])] = 1.0


@mg.jit
def is_matching(data, y):
    for i in range(len(y)):
        if not 0 <= y[i] < len(y) or y[i] == i or y[y[i]] != i:
            return False
    return True


def matchings(n: int) -> list[np.ndarray]:
    found = [y for y in product(range(n), repeat=n) if all(y[i] != i and y[y[i]] == i for i in range(n))] if n <= 6 else []
    return vectors_of(found)


def mates(n: int = 6) -> mg.Problem:
    """Perfect matchings: y[i] is the mate of i; T has one entry for each pair."""
    move = mg.Move("rematch", propose_rematch, change_rematch, apply_rematch, changes=4)
    return mg.Problem(
        Void(),
        Bits(np.arange(n, dtype=np.int8) ^ 1),
        [move],
        n * (n - 1) // 2,
        statistic=mark_pairs,
        contains=is_matching,
        states=lambda: matchings(n),
        name="mates",
    )


# --- trees: spanning trees of a graph ---------------------------------------------------------------------------------


class Graph(NamedTuple):
    tail: np.ndarray  # (edges,)
    head: np.ndarray
    nodes: int


class Forest(NamedTuple):
    y: np.ndarray  # (edges,) bits
    root: np.ndarray  # (nodes,) scratch


@mg.jit
def clear_roots(data, guide, temperature, state):
    for v in range(len(state.root)):
        state.root[v] = v


@mg.jit
def find(root, v):
    while root[v] != v:
        v = root[v]
    return v


@mg.jit
def propose_exchange_edge(data, state, rng):
    """One edge of the tree against one of the others: as many pairs at every tree."""
    inside, n = data.nodes - 1, len(state.y)
    return (nth(state.y, 1, integer(rng, inside)), nth(state.y, 0, integer(rng, n - inside))), 0.0


@mg.jit
def change_exchange_edge(data, state, move, m):
    return move[m], 2 * m - 1


@mg.jit
def connects(data, state, move):
    """Union-find over the tree without the old edge and with the new one."""
    for v in range(len(state.root)):
        state.root[v] = v
    for e in range(len(state.y)):
        if (state.y[e] == 1 and e != move[0]) or e == move[1]:
            a, b = find(state.root, data.tail[e]), find(state.root, data.head[e])
            if a == b:
                return False
            state.root[a] = b
    return True


@mg.jit
def apply_exchange_edge(data, state, move):
    state.y[move[0]] = 0
    state.y[move[1]] = 1


@mg.jit
def is_tree(data, y):
    """As many edges as there are nodes but one, and node 0 reaches all (by a set of bits: no memory is needed)."""
    edges, reached = 0, 1
    for e in range(len(y)):
        if y[e] != 0 and y[e] != 1:
            return False
        edges += y[e]
    for _ in range(data.nodes):
        for e in range(len(y)):
            if y[e] == 1 and (reached >> data.tail[e] & 1 or reached >> data.head[e] & 1):
                reached |= 1 << data.tail[e] | 1 << data.head[e]
    return edges == data.nodes - 1 and reached == (1 << data.nodes) - 1


def spans(nodes: int, edges: list[tuple[int, int]]) -> bool:
    blocks = [{v} for v in range(nodes)]
    for a, b in edges:
        one, other = (next(s for s in blocks if v in s) for v in (a, b))
        if one is other:
            return False
        one |= other
        blocks.remove(other)
    return len(blocks) == 1


def trees(nodes: int = 4, edges: Any = None) -> mg.Problem:
    """Spanning trees of a graph, complete by default: an edge of the tree against another."""
    edges = list(combinations(range(nodes), 2)) if edges is None else edges
    tail, head = (np.array(c) for c in zip(*edges, strict=True))

    def states() -> list[np.ndarray]:
        return [y for y in cube(len(edges)) if y.sum() == nodes - 1 and spans(nodes, [edges[e] for e in np.flatnonzero(y)])]

    move = mg.Move("exchange", propose_exchange_edge, change_exchange_edge, apply_exchange_edge, changes=2, feasible=connects)
    return mg.Problem(
        Graph(tail, head, nodes),
        Forest(states()[0], np.arange(nodes)),
        [move],
        len(edges),
        prepare=clear_roots,
        contains=is_tree,
        states=states,
        name="trees",
    )


# --- dials: integers in a box, one step up or down --------------------------------------------------------------------


class Box(NamedTuple):
    top: int
    curvature: np.ndarray


@mg.jit
def propose_turn(data, state, rng):
    i, step = integer(rng, len(state.y)), 2 * integer(rng, 2) - 1
    return (i, step), 0.0 if 0 <= state.y[i] + step <= data.top else -np.inf


@mg.jit
def change_turn(data, state, move, m):
    return move


@mg.jit
def gain_turn(data, state, move):
    i, step = move
    return -data.curvature[i] * (2 * state.y[i] * step + step * step)


@mg.jit
def apply_turn(data, state, move):
    state.y[move[0]] += move[1]


@mg.jit
def minus_squares(data, y):
    total = 0.0
    for i in range(len(y)):
        total -= data.curvature[i] * y[i] * y[i]
    return total


@mg.jit
def in_box(data, y):
    for i in range(len(y)):
        if not 0 <= y[i] <= data.top:
            return False
    return True


def dials(n: int = 2, top: int = 3, dtype: Any = np.int8) -> mg.Problem:
    """{0, …, top}ⁿ with steps of one, T(y) = y and φ(y) = −Σ cᵢ yᵢ²."""
    move = mg.Move("turn", propose_turn, change_turn, apply_turn, gain=gain_turn)
    return mg.Problem(
        Box(top, np.linspace(0.1, 0.4, n)),
        Bits(np.zeros(n, dtype)),
        [move],
        n,
        phi=minus_squares,
        contains=in_box,
        states=lambda: vectors_of(product(range(top + 1), repeat=n), dtype),
        name="dials",
    )


# --- map: proper colorings of a graph ---------------------------------------------------------------------------------


class Borders(NamedTuple):
    touches: np.ndarray  # (n, n) 0 or 1
    colors: int


@mg.jit
def propose_color(data, state, rng):
    v, color = integer(rng, len(state.y)), integer(rng, data.colors - 1)
    color += color >= state.y[v]
    return (v, color), 0.0


@mg.jit
def change_color(data, state, move, m):
    v, color = move
    return v * data.colors + (state.y[v] if m == 0 else color), 2 * m - 1


@mg.jit
def color_is_free(data, state, move):
    v, color = move
    for w in range(len(state.y)):
        if data.touches[v, w] and state.y[w] == color:
            return False
    return True


@mg.jit
def apply_color(data, state, move):
    state.y[move[0]] = move[1]


@mg.jit
def mark_colors(data, y, out):
    for v in range(len(y)):
        out[v * data.colors + y[v]] = 1.0


@mg.jit
def is_proper(data, y):
    for v in range(len(y)):
        if not 0 <= y[v] < data.colors:
            return False
        for w in range(v):
            if data.touches[v, w] and y[v] == y[w]:
                return False
    return True


def colored_map(n: int = 4, colors: int = 3, closed: bool = False) -> mg.Problem:
    """Proper colorings of a path of n countries, or of a cycle: one country takes another color."""
    touches = np.zeros((n, n), np.int64)
    for v in range(n if closed else n - 1):
        touches[v, (v + 1) % n] = touches[(v + 1) % n, v] = 1

    def states() -> list[np.ndarray]:
        rows = product(range(colors), repeat=n)
        return vectors_of(y for y in rows if all(y[v] != y[w] for v, w in np.argwhere(touches)))

    move = mg.Move("recolor", propose_color, change_color, apply_color, changes=2, feasible=color_is_free)
    return mg.Problem(
        Borders(touches, colors),
        Bits(states()[0]),
        [move],
        n * colors,
        statistic=mark_colors,
        contains=is_proper,
        states=states,
        name="map",
    )


# --- words: strings of up to so many letters; insert one or delete one ------------------------------------------------


class Alphabet(NamedTuple):
    letters: int


class Word(NamedTuple):
    y: np.ndarray  # letters, then −1
    length: np.ndarray  # (1,)


@mg.jit
def measure(data, guide, temperature, state):
    state.length[0] = 0
    for k in range(len(state.y)):
        state.length[0] += state.y[k] >= 0


@mg.jit
def propose_edit(data, state, rng):
    """(place, letter) to insert, or (place, −1) to delete. Insertion at a place is undone by deletion there."""
    n = state.length[0]
    if coin(rng, 0.5):
        if n == len(state.y):
            return (0, 0), -np.inf
        return (integer(rng, n + 1), integer(rng, data.letters)), log(data.letters)
    if n == 0:
        return (0, 0), -np.inf
    return (integer(rng, n), -1), -log(data.letters)


@mg.jit
def change_edit(data, state, move, m):
    place, letter = move
    return (letter, 1) if letter >= 0 else (np.int64(state.y[place]), -1)


@mg.jit
def apply_edit(data, state, move):
    place, letter = move
    if letter >= 0:
        for k in range(state.length[0], place, -1):
            state.y[k] = state.y[k - 1]
        state.y[place] = letter
        state.length[0] += 1
    else:
        for k in range(place, state.length[0] - 1):
            state.y[k] = state.y[k + 1]
        state.length[0] -= 1
        state.y[state.length[0]] = -1


@mg.jit
def count_letters(data, y, out):
    for k in range(len(y)):
        if y[k] >= 0:
            out[y[k]] += 1.0


@mg.jit
def is_word(data, y):
    for k in range(len(y)):
        if not -1 <= y[k] < data.letters or (k > 0 and y[k] >= 0 and y[k - 1] < 0):
            return False
    return True


def words(longest: int = 3, letters: int = 2) -> mg.Problem:
    """Strings of 0 to ``longest`` letters; T counts the letters."""

    def states() -> list[np.ndarray]:
        sizes = range(longest + 1)
        return vectors_of((*w, *[-1] * (longest - n)) for n in sizes for w in product(range(letters), repeat=n))

    move = mg.Move("edit", propose_edit, change_edit, apply_edit)
    return mg.Problem(
        Alphabet(letters),
        Word(states()[0], np.zeros(1, np.int64)),
        [move],
        letters,
        prepare=measure,
        statistic=count_letters,
        contains=is_word,
        states=states,
        name="words",
    )


# --- groups: partitions of a set; one element joins another's group ---------------------------------------------------


@mg.jit
def group_size(y, label, without):
    total = 0
    for k in range(len(y)):
        total += y[k] == label and k != without
    return total


@mg.jit
def propose_join(data, state, rng):
    """i goes to the group of j, or stands alone if j = i. A group of s draws i with s times the chance of a group of one."""
    i, j = integer(rng, len(state.y)), integer(rng, len(state.y))
    old = group_size(state.y, state.y[i], i)
    new = 0 if j == i else group_size(state.y, state.y[j], i)
    return (i, j), log(max(old, 1)) - log(max(new, 1))


@mg.jit
def change_join(data, state, move, m):
    """Entry of i and the m-th of the others: are they together?"""
    i, j = move
    other = m + (m >= i)
    then = state.y[other] == state.y[i]
    now = j != i and state.y[other] == state.y[j]
    return pair_entry(i, other), np.int64(now) - np.int64(then)


@mg.jit
def changes_join(data, state, move):
    return len(state.y) - 1


@mg.jit
def apply_join(data, state, move):
    """Everybody is called by the smallest of the group."""
    i, j = move
    y = state.y
    if j == i:
        target = -1
    elif y[j] == y[i] and y[i] == i:  # to its own group, which it leads
        return
    else:
        target = y[j]
    heir = -1
    if y[i] == i:  # those it led are led by the smallest of them
        for k in range(len(y)):
            if k != i and y[k] == i:
                heir = k if heir < 0 else heir
                y[k] = heir
    if target < 0:
        y[i] = i
    elif target < i:
        y[i] = target
    else:  # i leads now
        for k in range(len(y)):
            if y[k] == target:
                y[k] = i
        y[i] = i


@mg.jit
def mark_together(data, y, out):
    for i in range(len(y)):
        for j in range(i):
            out[pair_entry(i, j)] = y[i] == y[j]


@mg.jit
def is_partition(data, y):
    for i in range(len(y)):
        if not 0 <= y[i] <= i or y[y[i]] != y[i]:
            return False
    return True


def partitions(n: int) -> list[np.ndarray]:
    return vectors_of(y for y in product(range(n), repeat=n) if all(y[i] <= i and y[y[i]] == y[i] for i in range(n)))


def groups(n: int = 4) -> mg.Problem:
    """Partitions of n elements: y[i] is the smallest of i's group; T says which pairs are together."""
    move = mg.Move("join", propose_join, change_join, apply_join, changes=changes_join)
    return mg.Problem(
        Void(),
        Bits(np.arange(n, dtype=np.int8)),
        [move],
        n * (n - 1) // 2,
        statistic=mark_together,
        contains=is_partition,
        states=lambda: partitions(n),
        name="groups",
    )


# --- errand: one route that serves some of n requests, in some order; insertion near close ones -----------------------


class Requests(NamedTuple):
    distance: np.ndarray  # (n + 1, n + 1); n is the depot
    beta: float


class Route(NamedTuple):
    y: np.ndarray  # (n,) requests in order of service, then −1
    served: np.ndarray  # (1,)


@mg.jit
def count_served(data, guide, temperature, state):
    state.served[0] = 0
    for k in range(len(state.y)):
        state.served[0] += state.y[k] >= 0


@mg.jit
def closeness(data, i, j):
    """Weight of inserting i beside j, which may be the depot."""
    n, far = len(data.distance) - 1, 1e-9
    for k in range(n):
        if k != i:
            far = max(far, data.distance[i, k])
    return np.exp(-data.distance[i, j] / (data.beta * far))


@mg.jit
def beside(data, y, served, place, i):
    """Weight of inserting i before the request at this place: half by the one on its left, half by the one on its right."""
    n = len(y)
    left = y[place - 1] if place > 0 else n
    right = y[place] if place < served else n
    return 0.5 * (closeness(data, i, left) + closeness(data, i, right))


@mg.jit
def around(data, y, k, i):
    """The same for the request i that stands at place k, by its neighbors there."""
    n = len(y)
    left = y[k - 1] if k > 0 else n
    right = y[k + 1] if k + 1 < n and y[k + 1] >= 0 else n
    return 0.5 * (closeness(data, i, left) + closeness(data, i, right))


@mg.jit
def all_weights(data, y, i):
    """Weight of all requests served, but i, and of the depot."""
    total = closeness(data, i, len(y))
    for k in range(len(y)):
        if y[k] >= 0 and y[k] != i:
            total += closeness(data, i, y[k])
    return total


@mg.jit
def place_of(y, i):
    for k in range(len(y)):
        if y[k] == i:
            return k
    return -1


@mg.jit
def draw_place(data, state, i, rng):
    """Beside which request, or the depot, is i inserted? Its place then, by a chain of coins with the right chances."""
    served, left = state.served[0], all_weights(data, state.y, i)
    for k in range(served):
        w = closeness(data, i, state.y[k])
        if coin(rng, w / left):
            return k + integer(rng, 2)
        left -= w
    return served if coin(rng, 0.5) else 0


@mg.jit
def propose_serve_or_remove(data, state, rng):
    """(request, place) to insert, or (request, −1) to remove."""
    i = integer(rng, len(state.y))
    k = place_of(state.y, i)
    if k >= 0:
        return (i, -1), log(around(data, state.y, k, i) / all_weights(data, state.y, i))
    place = draw_place(data, state, i, rng)
    return (i, place), log(all_weights(data, state.y, i) / beside(data, state.y, state.served[0], place, i))


@mg.jit
def arc(n, i, j):
    """Entry of T for going from i to j; n and −1 stand for the depot."""
    return (i if i >= 0 else n) * (n + 1) + (j if j >= 0 else n)


@mg.jit
def change_serve_or_remove(data, state, move, m):
    i, place = move
    n, y = len(state.y), state.y
    if place < 0:
        k = place_of(y, i)
        left, right, sign = y[k - 1] if k > 0 else -1, y[k + 1] if k + 1 < n else -1, -1
    else:
        left, right, sign = y[place - 1] if place > 0 else -1, y[place] if place < n else -1, 1
    if m == 0:
        return arc(n, left, i), sign
    if m == 1:
        return arc(n, i, right), sign
    return arc(n, left, right), -sign


@mg.jit
def apply_serve_or_remove(data, state, move):
    i, place = move
    if place < 0:
        for k in range(place_of(state.y, i), state.served[0] - 1):
            state.y[k] = state.y[k + 1]
        state.served[0] -= 1
        state.y[state.served[0]] = -1
    else:
        for k in range(state.served[0], place, -1):
            state.y[k] = state.y[k - 1]
        state.y[place] = i
        state.served[0] += 1


@mg.jit
def mark_arcs(data, y, out):
    last = -1
    for k in range(len(y)):
        if y[k] >= 0:
            out[arc(len(y), last, y[k])] += 1.0
            last = y[k]
    out[arc(len(y), last, -1)] += 1.0


@mg.jit
def is_route(data, y):
    for k in range(len(y)):
        if not -1 <= y[k] < len(y) or (k > 0 and y[k] >= 0 and y[k - 1] < 0):
            return False
        for other in range(k):
            if y[k] >= 0 and y[other] == y[k]:
                return False
    return True


def routes(n: int) -> list[np.ndarray]:
    return vectors_of((*r, *[-1] * (n - m)) for m in range(n + 1) for r in permutations(range(n), m))


def errand(n: int = 3) -> mg.Problem:
    """Routes through some of n requests; T has one entry for each arc, depot included."""
    places = np.random.default_rng(3).random((n + 1, 2))
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    move = mg.Move("serve or remove", propose_serve_or_remove, change_serve_or_remove, apply_serve_or_remove, changes=3)
    return mg.Problem(
        Requests(distance, 0.5),
        Route(routes(n)[0], np.zeros(1, np.int64)),
        [move],
        (n + 1) ** 2,
        prepare=count_served,
        statistic=mark_arcs,
        contains=is_route,
        states=lambda: routes(n),
        name="errand",
    )


# --- convoy: two routes that exchange their tails; one list with a separator ------------------------------------------


class Convoy(NamedTuple):
    y: np.ndarray  # (n + 1,) an order of the requests and of n, the separator, which is the depot, too
    work: np.ndarray  # (n + 1,) scratch


@mg.jit
def clear_work(data, guide, temperature, state):
    for k in range(len(state.work)):
        state.work[k] = 0


@mg.jit
def separator(y):
    for k in range(len(y)):
        if y[k] == len(y) - 1:
            return k
    return -1


@mg.jit
def propose_tails(data, state, rng):
    """(p, q): the first route is cut after its p-th request, the second after its q-th. The number of cuts changes."""
    s, n = separator(state.y), len(state.y) - 1
    p, q = integer(rng, s + 1), integer(rng, n - s + 1)
    after = p + n - s - q
    return (p, q), log((s + 1) * (n - s + 1)) - log((after + 1) * (n - after + 1))


@mg.jit
def stop(y, k):
    """Who stands at place k of the list; the depot before and behind it."""
    return np.int64(y[k]) if 0 <= k < len(y) else len(y) - 1


@mg.jit
def change_tails(data, state, move, m):
    p, q = move
    y, n, s = state.y, len(state.y) - 1, separator(state.y)
    a, b, c, d = stop(y, p - 1), stop(y, p), stop(y, s + q), stop(y, s + 1 + q)
    return ((a, c, a, c)[m]) * (n + 1) + (b, d, d, b)[m], -1 if m < 2 else 1


@mg.jit
def apply_tails(data, state, move):
    """A₁ A₂ | B₁ B₂ becomes A₁ B₂ | B₁ A₂."""
    p, q = move
    y, work, s, at = state.y, state.work, separator(state.y), 0
    for k in range(len(y)):
        work[k] = y[k]
    for first, last in ((0, p), (s + 1 + q, len(y)), (s, s + 1 + q), (p, s)):
        for k in range(first, last):
            y[at] = work[k]
            at += 1


@mg.jit
def mark_two_routes(data, y, out):
    """The depot goes to itself where a route is empty."""
    for k in range(len(y) + 1):
        out[stop(y, k - 1) * len(y) + stop(y, k)] += 1.0


def convoy(n: int = 3) -> mg.Problem:
    """Two routes that serve all of n requests: tails are exchanged. T has one entry for each arc."""
    move = mg.Move("tails", propose_tails, change_tails, apply_tails, changes=4)
    return mg.Problem(
        Void(),
        Convoy(np.arange(n + 1, dtype=np.int8), np.zeros(n + 1, np.int64)),
        [move],
        (n + 1) ** 2,
        prepare=clear_work,
        statistic=mark_two_routes,
        contains=is_order,
        states=lambda: orders(n + 1),
        name="convoy",
    )


# --- steered: binary vectors with flips guided by θ -------------------------------------------------------------------


class Guidance(NamedTuple):
    beta: float


class Steered(NamedTuple):
    y: np.ndarray
    pull: np.ndarray  # (n,) θᵢ/β
    total: np.ndarray  # (n,) running sums of the weights e^(σᵢ θᵢ/β), σᵢ = 1 − 2yᵢ


@mg.jit
def add_up(state):
    total = 0.0
    for i in range(len(state.y)):
        total += np.exp((1 - 2 * state.y[i]) * state.pull[i])
        state.total[i] = total


@mg.jit
def bounded(x):
    """Weights are kept between e⁻⁶ and e⁶: running sums lose nothing of them."""
    return min(max(x, -6.0), 6.0)


@mg.jit
def prepare_steered(data, guide, temperature, state):
    for i in range(len(state.y)):
        state.pull[i] = bounded(guide[i] / data.beta)
    add_up(state)


@mg.jit
def propose_steered(data, state, rng):
    i, n = categorical(rng, state.total), len(state.y)
    here = (1 - 2 * state.y[i]) * state.pull[i]
    rest = 0.0
    for j in range(n):  # added up, not subtracted: nothing is lost to rounding
        if j != i:
            rest += np.exp((1 - 2 * state.y[j]) * state.pull[j])
    return i, -2.0 * here + log(state.total[n - 1] / (rest + np.exp(-here)))


@mg.jit
def apply_steered(data, state, i):
    state.y[i] = 1 - state.y[i]
    add_up(state)


def steered(n: int = 3, beta: float = 2.0) -> mg.Problem:
    """{0,1}ⁿ with flips drawn in proportion to e^(±θᵢ/β)."""
    move = mg.Move("guided flip", propose_steered, change_flip, apply_steered)
    return mg.Problem(
        Guidance(beta),
        Steered(np.zeros(n, np.int8), np.zeros(n), np.zeros(n)),
        [move],
        n,
        prepare=prepare_steered,
        contains=are_bits,
        guided=True,
        states=lambda: cube(n),
        name="steered",
    )


# --- sack: a knapsack with flips and with swaps -----------------------------------------------------------------------


class Sack(NamedTuple):
    weight: np.ndarray
    capacity: int


class Room(NamedTuple):
    y: np.ndarray
    room: np.ndarray  # (1,) capacity that is left


@mg.jit
def measure_room(data, guide, temperature, state):
    state.room[0] = data.capacity
    for i in range(len(state.y)):
        state.room[0] -= data.weight[i] * state.y[i]


@mg.jit
def item_fits(data, state, i):
    return state.y[i] == 1 or data.weight[i] <= state.room[0]


@mg.jit
def apply_pack(data, state, i):
    state.room[0] -= (1 - 2 * state.y[i]) * data.weight[i]
    state.y[i] = 1 - state.y[i]


@mg.jit
def propose_trade(data, state, rng):
    (i, j), ratio = propose_pair(data, state, rng)
    return (i, j), ratio if state.y[i] == 1 and state.y[j] == 0 else -np.inf


@mg.jit
def change_trade(data, state, move, m):
    return move[m], 2 * m - 1


@mg.jit
def trade_fits(data, state, move):
    return data.weight[move[1]] - data.weight[move[0]] <= state.room[0]


@mg.jit
def apply_trade(data, state, move):
    state.room[0] -= data.weight[move[1]] - data.weight[move[0]]
    state.y[move[0]] = 0
    state.y[move[1]] = 1


@mg.jit
def is_packed(data, y):
    total = 0
    for i in range(len(y)):
        if y[i] != 0 and y[i] != 1:
            return False
        total += data.weight[i] * y[i]
    return total <= data.capacity


def sack(weight: Any = (3, 2, 4, 5), capacity: Any = 7, room_dtype: Any = np.int64) -> mg.Problem:
    """{y ∈ {0,1}ⁿ : Σ wᵢ yᵢ ≤ capacity} with flips and trades of one item for another."""
    weights, n = np.array(weight), len(weight)
    flip = mg.Move("flip", propose_flip, change_flip, apply_pack, feasible=item_fits)
    trade = mg.Move("trade", propose_trade, change_trade, apply_trade, changes=2, feasible=trade_fits)
    return mg.Problem(
        Sack(weights, capacity),
        Room(np.zeros(n, np.int8), np.zeros(1, room_dtype)),
        [flip, trade],
        n,
        prepare=measure_room,
        contains=is_packed,
        states=lambda: [y for y in cube(n) if weights @ y.astype(weights.dtype) <= capacity],
        name="sack",
    )


# --- quiet: independent sets of a path, with counters of chosen neighbors ---------------------------------------------


class Blocked(NamedTuple):
    y: np.ndarray
    blocked: np.ndarray  # (n,) chosen neighbors


@mg.jit
def count_neighbors(data, guide, temperature, state):
    n = len(state.y)
    for i in range(n):
        state.blocked[i] = (state.y[i - 1] if i > 0 else 0) + (state.y[i + 1] if i + 1 < n else 0)


@mg.jit
def is_free(data, state, i):
    return state.y[i] == 1 or state.blocked[i] == 0


@mg.jit
def apply_block(data, state, i):
    n, sign = len(state.y), 1 - 2 * state.y[i]
    if i > 0:
        state.blocked[i - 1] += sign
    if i + 1 < n:
        state.blocked[i + 1] += sign
    state.y[i] = 1 - state.y[i]


@mg.jit
def is_independent(data, y):
    for i in range(len(y)):
        if y[i] != 0 and y[i] != 1:
            return False
        if i > 0 and y[i] == 1 and y[i - 1] == 1:
            return False
    return True


def quiet(n: int = 5, counter: Any = np.int64) -> mg.Problem:
    """Sets of places on a path, no two of them next to each other: add one or take one away."""
    move = mg.Move("flip", propose_flip, change_flip, apply_block, feasible=is_free)
    return mg.Problem(
        Void(),
        Blocked(np.zeros(n, np.int8), np.zeros(n, counter)),
        [move],
        n,
        prepare=count_neighbors,
        contains=is_independent,
        states=lambda: [y for y in cube(n) if not (y[1:] & y[:-1]).any()],
        name="quiet",
    )


FAMILIES = [
    switches, basket, menu, ring, team, lineup, layout, tour, shop, mates, trees, dials, colored_map, words, groups, errand, convoy,
    steered, sack, quiet,
]  # fmt: skip
