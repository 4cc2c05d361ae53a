"""Capacitated vehicle routing: routes that serve everybody, with θ on the undirected edges between customers and the depot.

The set and the draws are those of :mod:`movegrad.problems.routing`, without windows and without requests that may be left out, so
that the ratios are the same. What differs is T, which counts edges, and that a move is feasible if the loads are. An edge between
the depot and a customer is driven twice where the customer has a route of its own; where there are to be no such routes, moves
that make one are refused.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from movegrad._types import Array, Arrays
from movegrad._validate import MOST, array_of, choices, doubles, flag, integer_in, positive
from movegrad.engine import jit, outline
from movegrad.problem import Jitted, Move
from movegrad.problems._binary import weighted
from movegrad.problems._edges import edge, matrix_of, to_edges, to_matrix
from movegrad.problems._loads import SLACK, exceeds
from movegrad.problems._packing import pack
from movegrad.problems.routing.instance import Instance, coarse
from movegrad.problems.routing.moves import MOVES, apply_relocate, apply_serve
from movegrad.problems.routing.problem import BETA, Plans, RoutingProblem, _data, _state, encode
from movegrad.problems.routing.search import TRIES, draw_plan
from movegrad.problems.routing.state import ROUTES, SERVED, UNSERVED, load_of, prepare
from movegrad.problems.routing.state import contains as is_plan

ROUNDS = 50  # of local search over all customers, at most


class Data(NamedTuple):
    """As :class:`movegrad.problems.routing.state.Data`, where costs and times are 0."""

    cost: np.ndarray
    travel: np.ndarray
    opens: np.ndarray
    closes: np.ndarray
    demand: np.ndarray
    capacity: float
    fleet: int
    must: np.ndarray
    optional: np.ndarray
    weight: np.ndarray
    alias: np.ndarray
    bits: int
    near: np.ndarray
    packing: np.ndarray  # (n+1,) a solution, whatever it is worth
    order: np.ndarray  # (n,) customers by their demand, the greatest first
    least: int  # customers of a route: 1, or 2 where none may be alone


# --- what moves change, and when they fit -----------------------------------------------------------------------------


@jit
def entry(a, b, sign):
    """The entry of an edge; that from the depot to itself is none."""
    return (edge(a, b), sign) if a != b else (0, 0)


@jit
def change_relocate(data, state, move, m):
    i, e, a, b = move
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    if m < 3:
        return entry((before, e, a)[m], (i, behind, b)[m], -1)
    return entry((before, a, e)[m - 3], (behind, i, b)[m - 3], 1)


@jit
def leaves_one(data, state, i, e):
    """Is somebody alone, who may not be, when i…e leave their route?"""
    before, behind = state.prev[i], state.next[e]
    return data.least > 1 and (before == 0) != (behind == 0) and state.prev[before] == 0 and state.next[behind] == 0


@jit
def feasible_relocate(data, state, move):
    i, e, a, b = move
    if a == 0 and b == 0:
        return state.counts[ROUTES] < data.fleet and not (data.least > 1 and (i == e or leaves_one(data, state, i, e)))
    home, there = state.route[i], state.route[a if a != 0 else b]
    if there == home:
        return True
    fits = load_of(state, there) + (state.load[e] - state.load[state.prev[i]]) <= data.capacity
    return fits and not leaves_one(data, state, i, e)


@jit
def change_swap(data, state, move, m):
    """Where j follows e, the edge between them stays in its place, turned: it is left and taken."""
    i, e, j, f = move
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    ahead, after = np.int64(state.prev[j]), np.int64(state.next[f])
    if m < 4:
        return entry((before, e, ahead, f)[m], (i, behind, j, after)[m], -1 if behind != j or m != 2 else 0)
    if behind == j:
        return entry((before, f, e, 0)[m - 4], (j, i, after, 0)[m - 4], 1)
    return entry((before, f, ahead, e)[m - 4], (j, behind, i, after)[m - 4], 1)


@jit
def feasible_swap(data, state, move):
    i, e, j, f = move
    home, there = state.route[i], state.route[j]
    more = state.load[f] - state.load[state.prev[j]] - (state.load[e] - state.load[state.prev[i]])
    fits = load_of(state, home) + more <= data.capacity and load_of(state, there) - more <= data.capacity
    return home == there or fits


@jit
def change_two_opt(data, state, move, m):
    i, j = move
    before, after = np.int64(state.prev[i]), np.int64(state.next[j])
    return entry((before, j, before, i)[m], (i, after, j, after)[m], -1 if m < 2 else 1)


@jit
def always(data, state, move):
    return True


@jit
def change_tails(data, state, move, m):
    i, j = move
    behind, after = np.int64(state.next[i]), np.int64(state.next[j])
    return entry((i, j, i, j)[m], (behind, after, after, behind)[m], -1 if m < 2 else 1)


@jit
def feasible_tails(data, state, move):
    i, j = move
    if data.least > 1 and (
        (state.prev[i] == 0 and state.next[j] == 0) or (state.prev[j] == 0 and state.next[i] == 0)  # i alone, or j
    ):
        return False
    tail, other = load_of(state, state.route[i]) - state.load[i], load_of(state, state.route[j]) - state.load[j]
    return state.load[i] + other <= data.capacity and state.load[j] + tail <= data.capacity


@jit
def change_split(data, state, move, m):
    i, j = move
    cut = 1 if state.next[i] == j else -1
    return entry((i, i, np.int64(0))[m], (j, np.int64(0), j)[m], -cut if m == 0 else cut)


@jit
def feasible_split(data, state, move):
    i, j = move
    if state.next[i] == j:
        alone = data.least > 1 and (state.prev[i] == 0 or state.next[j] == 0)
        return state.counts[ROUTES] < data.fleet and not alone
    return load_of(state, state.route[i]) + load_of(state, state.route[j]) <= data.capacity


def _on_edges(name: str, change: Jitted, changes: int, feasible: Jitted) -> Move:
    return replace(MOVES[name], change=change, changes=changes, gain=None, feasible=feasible)


EDGE_MOVES = {
    m.name: m
    for m in (
        _on_edges("relocate", change_relocate, 6, feasible_relocate),
        _on_edges("relocate pair", change_relocate, 6, feasible_relocate),
        _on_edges("swap", change_swap, 8, feasible_swap),
        _on_edges("swap pair", change_swap, 8, feasible_swap),
        _on_edges("2-opt", change_two_opt, 4, always),
        _on_edges("2-opt*", change_tails, 4, feasible_tails),
        _on_edges("split/merge", change_split, 3, feasible_split),
    )
}


# --- the set ----------------------------------------------------------------------------------------------------------


@jit
def statistic(data, solution, out):
    """Each customer knows the edge to the next one; the first of a route is one that comes after nobody."""
    for i in range(1, len(solution)):
        following = np.int64(solution[i])
        out[edge(i, following)] += 1.0
        out[edge(i, 0)] += 1.0
        if following > 0:
            out[edge(following, 0)] -= 1.0


@outline
def nobody_alone(data, solution):
    """Has every route as many customers as it must have?"""
    for i in range(1, len(solution)):
        in_company = data.least < 2 or solution[i] != 0
        for k in range(1, len(solution)):
            in_company = in_company or solution[k] == i
        if not in_company:
            return False
    return True


@outline
def contains(data, solution):
    return is_plan(data, solution) and nobody_alone(data, solution)


@outline
def random(data, rng, solution):
    """A random plan, not uniform on the set; the one that is known where none was found in a limited fleet."""
    for _ in range(TRIES):
        if draw_plan(data, rng, solution) and nobody_alone(data, solution):
            return
    for i in range(len(solution)):
        solution[i] = data.packing[i]


# --- where chains begin -----------------------------------------------------------------------------------------------


@cache
def attempt(name: str) -> Jitted:
    """Make this move if it gains, for θ = guide, and fits."""
    of = EDGE_MOVES[name]
    change, count, feasible, apply = of.change, cast(int, of.changes), of.feasible or always, of.apply

    @jit
    def made(data, guide, state, move):
        gain, size = 0.0, 0.0
        for m in range(count):
            at, sign = change(data, state, move, m)
            gain += sign * guide[at]
            size += abs(sign * guide[at])
        if gain > 1e-12 * size and feasible(data, state, move):  # more than rounding
            apply(data, state, move)
            return True
        return False

    return made


relocate, swap, two_opt = attempt("relocate"), attempt("swap"), attempt("2-opt")
tails, split = attempt("2-opt*"), attempt("split/merge")


@outline
def try_relocate(data, guide, state, i, e, a, b):
    if a == e or b == i or (a == state.prev[i] and b == state.next[e]):
        return False
    return relocate(data, guide, state, (i, e, a, b))


@outline
def try_swap(data, guide, state, i, e, j, f):
    if state.route[i] == state.route[j] and state.rank[j] < state.rank[i]:
        i, e, j, f = j, f, i, e
    return swap(data, guide, state, (i, e, j, f))


@outline
def try_pair(data, guide, state, i, j):
    """Moves that look at two customers."""
    e, f = np.int64(state.next[i]), np.int64(state.next[j])
    ahead = np.int64(state.prev[j])
    if try_relocate(data, guide, state, i, i, j, f) or try_relocate(data, guide, state, i, i, ahead, j):
        return True
    if e != 0 and e != j and (try_relocate(data, guide, state, i, e, j, f) or try_relocate(data, guide, state, i, e, ahead, j)):
        return True
    if try_swap(data, guide, state, i, i, j, j):
        return True
    if e != 0 and f != 0 and e != j and f != i and try_swap(data, guide, state, i, e, j, f):
        return True
    if state.route[i] == state.route[j]:
        return two_opt(data, guide, state, (i, j) if state.rank[i] < state.rank[j] else (j, i))
    if tails(data, guide, state, (i, j)):
        return True
    return e == 0 and ahead == 0 and split(data, guide, state, (i, j))


@outline
def improve(data, guide, state):
    """First improvement over all moves with near customers, until a local optimum or a limit of rounds."""
    for _ in range(ROUNDS):
        better = False
        for i in range(1, len(state.next)):
            after = np.int64(state.next[i])
            if try_relocate(data, guide, state, i, i, 0, 0) or (after != 0 and split(data, guide, state, (i, after))):
                better = True
            for k in range(data.near.shape[1]):
                if try_pair(data, guide, state, i, np.int64(data.near[i, k])):
                    better = True
        if not better:
            return


@outline
def worth(guide, a, i, b):
    """What it is worth to put i between a and b."""
    return guide[edge(a, i)] + guide[edge(i, b)] - (guide[edge(a, b)] if a != b else 0.0)


@outline
def best_place(data, guide, state, i, alone):
    """Between whom a customer is worth most, ``alone``: or with a route of its own; −1 if it fits nowhere."""
    a, b, best = np.int64(-1), np.int64(-1), -np.inf
    if alone and state.counts[ROUTES] < data.fleet:
        a, b, best = np.int64(0), np.int64(0), worth(guide, 0, i, 0)
    for k in range(state.counts[SERVED]):
        j = np.int64(state.served[k])
        if j == i or load_of(state, state.route[j]) + data.demand[i] > data.capacity:
            continue
        if worth(guide, j, i, np.int64(state.next[j])) > best:
            a, b = j, np.int64(state.next[j])
            best = worth(guide, a, i, b)
        if state.prev[j] == 0 and worth(guide, 0, i, j) > best:
            a, b, best = np.int64(0), j, worth(guide, 0, i, j)
    return a, b


@outline
def insert(data, guide, state, i):
    """Put a customer where it is worth most; False if it fits nowhere."""
    a, b = best_place(data, guide, state, i, True)
    if a >= 0:
        apply_serve(data, state, (i, a, b))
    return a >= 0


@outline
def join(data, guide, state):
    """Put those who may not be alone into other routes, where they are worth most; False if one fits nowhere."""
    for i in range(1, len(state.next)):
        if data.least > 1 and state.prev[i] == 0 and state.next[i] == 0:
            a, b = best_place(data, guide, state, i, False)
            if a < 0:
                return False
            apply_relocate(data, state, (np.int64(i), np.int64(i), a, b))
    return True


@outline
def greedy(data, guide, state):
    """Insert customers, those with great demands first, each where it is worth most; then local search.

    Where one finds no room, or nobody to go with who must, local search begins with the packing that is known.
    """
    n, whole = len(state.next) - 1, True
    state.next[0] = 0
    for i in range(1, n + 1):
        state.next[i] = UNSERVED
    prepare(data, guide, 1.0, state)
    for k in range(n):
        whole = whole and insert(data, guide, state, np.int64(data.order[k]))
    if not (whole and join(data, guide, state)):
        for i in range(n + 1):
            state.next[i] = data.packing[i]
        prepare(data, guide, 1.0, state)
    improve(data, guide, state)


# --- the problem ------------------------------------------------------------------------------------------------------


class CVRP(RoutingProblem):
    """Routes from a depot that serve n customers, none with more than the capacity; T(y) counts how often each edge is driven.

    θ has an entry for each undirected edge between the n + 1 nodes, of which 0 is the depot: d = n(n+1)/2, a lower triangle row
    after row; :meth:`theta` makes it of a matrix, and the best plan for θ = −distances is the shortest. Solutions are arrays
    (n+1,): the customer after each one, 0 after the last of a route; where solutions are asked for, a list of routes will do.
    Routes have no order, but a direction: one of two or more customers and its reverse are two solutions with the same T.

    Parameters
    ----------
    demands : (n,)
        Of customers 1..n, at least 0.
    capacity : float
        Of every vehicle.
    vehicles : int, optional
        How many routes there may be; as many as customers by default. Where that is tight, not every solution may be reached.
    singles : bool
        May a route have a single customer? Models with 0/1 variables for undirected edges, such as PyEPO's, have none: where labels
        or decisions come from them, say False, so that chains do not visit what those never choose.
    distances : (n+1, n+1), optional
        Moves draw customers near each other by these; all alike by default. They are no part of the objective.
    beta : float
        Temperature of that draw, as in :class:`PrizeCollectingVRPTW`.
    moves : sequence of str
        Any of "relocate", "relocate pair", "swap", "swap pair", "2-opt", "2-opt*", "split/merge"; all by default.
    shares : sequence of float, optional
        Shares of the moves; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.CVRP([1.0, 1.0, 1.0], capacity=2.0, vehicles=2)
    >>> far = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> found = mg.solve(problem, problem.theta(-far), steps=1000)
    >>> float(found.objective), sorted(map(sorted, found.routes))
    (-8.0, [[1], [2, 3]])
    """

    cooling = (0.25, 0.005)

    def __init__(
        self,
        demands: Arrays,
        capacity: float,
        vehicles: int | None = None,
        *,
        singles: bool = True,
        distances: Arrays | None = None,
        beta: float = BETA,
        moves: Sequence[str] = tuple(EDGE_MOVES),
        shares: Sequence[float] | None = None,
    ) -> None:
        wanted, capacity = _demands(demands), positive(capacity, "capacity")
        n = len(wanted)
        for i in np.flatnonzero(exceeds(wanted, capacity))[:1]:
            raise ValueError(f"demands must be at most the capacity {capacity:g}, got {wanted[i]:g} for customer {i + 1}.")
        least = 1 if flag(singles, "singles") else 2
        if n < least:
            raise ValueError("singles must be True where there is a single customer, got False.")
        fleet = n // least if vehicles is None else min(integer_in(vehicles, "vehicles", 1, MOST), n // least)
        if wanted.sum() > fleet * capacity * (1.0 + SLACK):
            fewer = "" if least < 2 else " with two customers or more each"
            most = f"{fleet * capacity:g} in all, the capacity of {fleet} vehicles{fewer}"
            raise ValueError(f"demands must be at most {most}, got {wanted.sum():g}.")
        near = None if distances is None else matrix_of(array_of(distances, "distances"), "distances", n + 1, diagonal=False)
        square = np.zeros((n + 1, n + 1))
        self.instance = Instance(
            square,
            np.append(0.0, wanted),
            np.zeros(n + 1),
            np.zeros((n + 1, 2)),
            capacity,
            must_serve=np.arange(n + 1) > 0,
            max_vehicles=fleet,
            costs=None if near is None else coarse(near),  # moves draw by them, and no more
        )
        data = _data(self.instance, positive(beta, "beta"))._replace(cost=square.astype(np.float32))
        if near is None:  # local search looks at all of them
            others = [[j for j in range(1, n + 1) if j != i] for i in range(n + 1)]
            others[0] = others[0][: n - 1]
            data = data._replace(near=np.array(others, np.int32).reshape(n + 1, n - 1))
        routes = pack(self.instance.demands[1:], self.instance.capacity, fleet, least)
        order = 1 + np.argsort(-wanted, kind="stable")
        packing = encode(routes, n)
        super().__init__(
            Data(*data, packing, order.astype(np.int32), least),
            _state(packing),
            weighted([EDGE_MOVES[m] for m in choices(moves, "moves", tuple(EDGE_MOVES))], shares, "shares"),
            n * (n + 1) // 2,
            prepare=prepare,
            statistic=statistic,
            contains=contains,
            random=random,
            uniform=False,
            greedy=greedy,
            improve=improve,
            states=Plans(data, least),
            name=f"CVRP({n} customers)",
        )

    def theta(self, matrix: Arrays) -> Array:
        """θ of a matrix, such as −distances.

        Parameters
        ----------
        matrix : array or tensor (…, n+1, n+1)
            Symmetric; row and column 0 are the depot's. The diagonal counts for nothing.

        Returns
        -------
        array or tensor (…, d)
            θ.
        """
        return to_edges(matrix, "matrix", len(self.solution))

    def matrix(self, edges: Arrays) -> Array:
        """The matrix of a vector of edges, such as ``Sample.mean``: how often each one is driven.

        Parameters
        ----------
        edges : array or tensor (…, d)
            θ, T(y) or a mean of it.

        Returns
        -------
        array or tensor (…, n+1, n+1)
            Symmetric with 0 on the diagonal.
        """
        return to_matrix(edges, "edges", len(self.solution))

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        return {"routes": self.routes(solution)}

    def _broken(self, route: Sequence[int]) -> str:
        return super()._broken(route) or ("has a single customer" if len(route) < self.data.least else "")


def _demands(value: Any) -> np.ndarray:
    array = array_of(value, "demands")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ValueError(f"demands must be numbers with 1 axis, one for each customer, got shape {array.shape} of {array.dtype}.")
    array = doubles(array)
    if not (np.isfinite(array) & (array >= 0)).all():
        raise ValueError(f"demands must be finite and ≥ 0, got {array[~(np.isfinite(array) & (array >= 0))][0]} among its entries.")
    return array
