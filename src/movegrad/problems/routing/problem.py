"""Prize-collecting vehicle routing with time windows as a problem of the engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from math import comb
from operator import index
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import array_of, choices, doubles, encoded, finite_vectors, flag, instance_of, positive, sequence, shown
from movegrad.engine import pure
from movegrad.problem import Problem
from movegrad.problems._binary import weighted
from movegrad.problems.routing import arcs as with_arcs
from movegrad.problems.routing.instance import Instance, alias_table, neighbor_weights, proximity
from movegrad.problems.routing.moves import MOVES
from movegrad.problems.routing.search import greedy, improve, random
from movegrad.problems.routing.state import UNSERVED, Data, State, contains, cost_of, drive, is_route, phi, prepare, statistic

NEIGHBORS = 20  # of each request, for local search
BETA = 0.1

Routes = Sequence[Sequence[int]]


class Marginals(NamedTuple):
    """Probabilities that requests are served (…, n) and that arcs are driven (…, n+1, n+1)."""

    served: np.ndarray
    arcs: np.ndarray


class RoutingProblem(Problem):
    """What problems on routes share: solutions as lists of routes, and why some are not in the set. ``instance`` is theirs."""

    instance: Instance

    def encode(self, value: Arrays) -> Any:
        """Routes as solutions; functions that take solutions call it.

        Parameters
        ----------
        value : list of routes, or a list of such plans
            Each route a list of requests 1..n.

        Returns
        -------
        array (n+1,), or (plans, n+1)
            Arrays stay as they are.
        """
        if not isinstance(value, (list, tuple)):
            return value
        value = sequence(value, "routes", "lists of requests")
        if value and all(isinstance(plan, np.ndarray) and plan.shape == self.solution.shape for plan in value):
            return np.stack(value)  # solutions: no route has as many stops
        several = (list, tuple, np.ndarray)
        if any(isinstance(stop, several) for route in value if isinstance(route, (list, tuple)) for stop in route):
            return self._encode_all(value)
        if value and not any(isinstance(route, several) for route in value):
            return value  # numbers: an array as a list
        return encode(value, self.instance.requests)

    def _encode_all(self, plans: Sequence[Any]) -> np.ndarray:
        try:
            return np.stack([self.encode(plan) for plan in plans])
        except RecursionError:
            raise ValueError("routes must not hold themselves, got such a list.") from None
        except (ValueError, IndexError) as error:  # IndexError: of NumPy, for more than 64 axes
            if str(error).startswith("routes "):
                raise
            raise ValueError(f"routes must be lists of requests, all as deep in lists, got {shown(plans)}.") from None

    def _decode(self, value: Any, name: str) -> np.ndarray:
        """A solution (n+1,) of integers in −1..n, or routes as such; it need not be in the set."""
        n, array = self.instance.requests, array_of(encoded(self, value, name), name)
        if array.shape != (n + 1,):
            raise ValueError(f"{name} must have {n + 1} entries, got shape {array.shape}.")
        wrong = ~np.isin(array, np.arange(UNSERVED, n + 1))
        if wrong.any():
            raise ValueError(f"{name} must have entries in {UNSERVED}..{n}, got {array[wrong][0]}.")
        return array.astype(np.int64)

    def routes(self, solution: Arrays) -> list[list[int]]:
        """The routes of a solution.

        Parameters
        ----------
        solution : (n+1,), or routes
            It need not be in the set.

        Returns
        -------
        lists of requests 1..n
            Ordered by their first ones.
        """
        following = self._decode(solution, "solution").tolist()
        later, plan = set(following), []
        for first in range(1, len(following)):
            if following[first] != UNSERVED and first not in later:
                route = [first]
                while following[route[-1]] > 0 and len(route) < len(following):
                    route.append(following[route[-1]])
                plan.append(route)
        return plan

    decode = routes

    def complaint(self, solution: np.ndarray) -> str:
        n, after = self.instance.requests, [int(i) for i in solution]
        for i, following in enumerate(after):
            if not UNSERVED <= following <= n or (i == 0 and following != 0):
                return f"entry {i} must be in {UNSERVED}..{n}, and entry 0, the depot's, must be 0, got {following}"
            if following == UNSERVED and self.data.must[i]:
                return f"request {i} must be served"
            if following > 0 and after.count(following) > 1:
                return f"request {following} comes after {after.count(following)} others"
            if following > 0 and after[following] == UNSERVED:
                return f"request {following} comes after {i}, but is not served"
        plan = self.routes(solution)
        for route in plan:
            if reason := self._broken(route):
                return f"route {route} {reason}"
        if len(plan) > self.data.fleet:
            return f"{len(plan)} routes are more than the {self.data.fleet} vehicles"
        lost = {i for i in range(1, n + 1) if after[i] != UNSERVED} - {i for route in plan for i in route}
        return f"requests {sorted(lost)} follow each other without the depot" if lost else ""

    def _broken(self, route: Sequence[int]) -> str:
        """What is wrong with a route."""
        data, time, load = self.data, self.data.opens[0], self.data.demand[list(route)].sum()
        if load > data.capacity:
            return f"has demand {load:g}, above the capacity {data.capacity:g}"
        for a, b in pairwise([0, *route, 0]):
            if pure(drive)(data, time, a, b) == np.inf:
                place = f"request {b}" if b else "the depot"
                return (
                    f"reaches {place} at {time + data.travel[a, b]:g}, after its window closes at {self.instance.windows[b, 1]:g}"
                )
            time = pure(drive)(data, time, a, b)
        return ""

    def is_feasible(self, routes: Arrays) -> bool:
        """Are these routes in the set?

        Parameters
        ----------
        routes : lists of requests 1..n, or a solution (n+1,)
            Any value will do.

        Returns
        -------
        bool
            False also for what is no plan at all.
        """
        try:
            return bool(pure(self.functions.contains)(self.data, self._decode(routes, "routes")))
        except ValueError:
            return False


class PrizeCollectingVRPTW(RoutingProblem):
    """Sets of routes with time windows and capacities that serve all requests that must be served, and any of the others.

    The objective is Σ θᵢ over the requests served less the cost of driving: θ has one prize for each request, and T(y) says which
    requests are served. Solutions are arrays (n+1,): the request after each one, 0 after the last of a route, −1 for one that is
    not served; where solutions are asked for, a list of routes will do, each a list of requests 1..n. Routes have no order.

    Parameters
    ----------
    instance : Instance
        What is to be served, and how far it is.
    beta : float
        Temperature of the draw of a second request near the first: weights exp(−d(i,j)/(β max_k d(i,k))), d as in
        :func:`movegrad.problems.routing.proximity`. Small: only the nearest.
    moves : sequence of str
        Any of "relocate", "relocate pair", "swap", "swap pair", "2-opt", "2-opt*", "split/merge", "serve/remove"; all by default.
        With all of them and an unlimited fleet every solution can be reached.
    shares : sequence of float, optional
        Shares of the moves; equal by default.
    arcs : bool
        Let T(y) also say which arcs are driven: d = n + (n+1)², see :meth:`theta` and :meth:`marginals`.

    References
    ----------
    Vivier-Ardisson, Blondel, Parmentier, "Learning with Local Search MCMC Layers", appendix on the dynamic VRPTW. The moves are
    corrected: see ``docs/problems/routing.md``.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = mg.problems.routing.Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> problem = mg.problems.PrizeCollectingVRPTW(instance)
    >>> problem.cost([[1, 2], [3]]), problem.is_feasible([[1, 2], [3]]), problem.is_feasible([[1, 2, 3]])
    (10.0, True, False)
    """

    cooling = (0.25, 0.005)  # random moves change much more than those that matter

    def __init__(
        self,
        instance: Instance,
        *,
        beta: float = BETA,
        moves: Sequence[str] = tuple(MOVES),
        shares: Sequence[float] | None = None,
        arcs: bool = False,
    ) -> None:
        self.instance, n = instance_of(instance, "instance", Instance), instance.requests
        moves, self.arcs = choices(moves, "moves", tuple(MOVES)), flag(arcs, "arcs")
        kit = with_arcs.ARC_MOVES if arcs else MOVES
        data = _data(instance, positive(beta, "beta"))
        super().__init__(
            data,
            _state(_first_solution(data)),
            weighted([kit[m] for m in moves], shares, "shares"),
            n + (n + 1) ** 2 if arcs else n,
            prepare=prepare,
            statistic=with_arcs.statistic if arcs else statistic,
            phi=phi,
            contains=contains,
            random=random,
            uniform=False,
            greedy=greedy,
            improve=None if arcs else improve,  # it does not look at rewards of arcs
            states=Plans(data),
            name=f"PrizeCollectingVRPTW({n} requests)",
        )

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        array = self._decode(solution, "solution")
        return {"routes": self.routes(array), "cost": self.cost(array), "served": array[1:] != UNSERVED}

    def cost(self, routes: Arrays) -> float:
        """Cost of driving.

        Parameters
        ----------
        routes : lists of requests 1..n, or a solution (n+1,)
            They need not be in the set.

        Returns
        -------
        float
            The objective is the sum of prizes less this.
        """
        return float(pure(cost_of)(self.data, self._decode(routes, "routes")))

    # --- arcs ------------------------------------------------------------------------------------------------------------

    def theta(self, prizes: Arrays, rewards: Arrays | None = None) -> np.ndarray:
        """θ of prizes, and of rewards of arcs where T also counts them.

        Parameters
        ----------
        prizes : (…, n)
            Of requests.
        rewards : (…, n+1, n+1), optional
            Of arcs, with ``arcs=True`` only; 0 by default.

        Returns
        -------
        array (…, d)
            θ.
        """
        prizes, n = finite_vectors(prizes, "prizes", self.instance.requests), self.instance.requests
        if not self.arcs:
            if rewards is not None:
                raise ValueError("rewards must be given with arcs=True only, got some for a problem without.")
            return prizes
        shape = (*prizes.shape[:-1], (n + 1) ** 2)
        flat = np.zeros(shape) if rewards is None else _rewards(rewards, (*shape[:-1], n + 1, n + 1)).reshape(shape)
        return np.concatenate([prizes, flat], axis=-1)

    def marginals(self, mean: np.ndarray) -> Marginals:
        """Cut E[T(Y)] into what it says of requests and of arcs; with ``arcs=True`` only.

        Parameters
        ----------
        mean : array or tensor (…, d)
            Such as ``Sample.mean``, or what a layer gives.

        Returns
        -------
        Marginals
            ``served`` (…, n) and ``arcs`` (…, n+1, n+1).
        """
        n = self.instance.requests
        if not self.arcs:
            raise ValueError("marginals of arcs must be asked for with arcs=True, got a problem without.")
        is_tensor = hasattr(type(mean), "reshape") and not isinstance(mean, np.ndarray) and not getattr(mean, "is_nested", False)
        mean = mean if is_tensor else array_of(mean, "mean")
        if tuple(mean.shape[-1:]) != (self.size,):
            raise ValueError(f"mean must have a last axis of {self.size} entries, got shape {tuple(mean.shape)}.")
        return Marginals(mean[..., :n], mean[..., n:].reshape(*mean.shape[:-1], n + 1, n + 1))


def encode(routes: Routes, n: int) -> np.ndarray:
    """Routes → solution (n+1,)."""
    out = np.full(n + 1, UNSERVED, np.int32)
    out[0] = 0
    for route in sequence(routes, "routes", "lists of requests"):
        stops = [_request(stop, n) for stop in sequence(route, "routes", "lists of requests")]
        for stop, following in zip(stops, [*stops[1:], 0], strict=False):
            if out[stop] != UNSERVED:
                raise ValueError(f"routes must hold each request once, got {stop} twice.")
            out[stop] = following
    return out


def _request(stop: Any, n: int) -> int:
    try:
        number = 0 if isinstance(stop, (bool, np.bool_)) else index(stop)
    except Exception:  # of the value's own
        number = 0
    if not 1 <= number <= n:
        raise ValueError(f"routes must hold requests in 1..{n}, got {shown(stop)}.")
    return number


def _rewards(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    rewards = doubles(array_of(value, "rewards"))
    if not np.isfinite(rewards).all():
        raise ValueError(f"rewards must be finite, got {rewards[~np.isfinite(rewards)][0]} among them.")
    try:
        return np.broadcast_to(rewards, shape)
    except ValueError:
        raise ValueError(f"rewards must have the shape {shape}, got {rewards.shape}.") from None


def _data(instance: Instance, beta: float) -> Data:
    n = instance.requests
    alias = alias_table(neighbor_weights(proximity(instance), beta))
    travel, cost = instance.service[:, None] + instance.durations, np.array(instance.costs)
    np.fill_diagonal(travel, 0.0)
    np.fill_diagonal(cost, 0.0)
    opens = instance.windows[:, 0].copy()
    latest = opens.max() + travel.max(1).sum()  # no route takes longer; a time that is infinite says that a window is missed
    near = np.argsort(-alias.weight[:, 1:], axis=1, kind="stable")[:, : min(NEIGHBORS, n - 1)] + 1
    return Data(
        cost=_short(cost),
        travel=travel,
        opens=opens,
        closes=np.minimum(instance.windows[:, 1], latest),
        demand=instance.demands,
        capacity=instance.capacity,
        fleet=n if instance.max_vehicles is None else min(n, instance.max_vehicles),
        must=instance.must_serve.astype(np.uint8),
        optional=np.flatnonzero(~instance.must_serve)[1:].astype(np.int32),
        weight=alias.weight,
        alias=alias.table,
        bits=alias.bits,
        near=near.astype(np.int32),
    )


def _short(array: np.ndarray) -> np.ndarray:
    """As float32 where sums of four stay exact: a step reads it at random places, and half as much memory is nearer."""
    exact = (array == np.round(array)).all() and np.abs(array).max() <= 2**22
    return array.astype(np.float32) if exact else array


def _state(solution: np.ndarray) -> State:
    integers, floats = np.zeros(len(solution), np.int32), np.zeros(len(solution))
    by_name = {name: floats if name in _FLOATS else integers for name in State._fields}
    return State(**{**by_name, "next": solution, "counts": np.zeros(2, np.int64)})


_FLOATS = ("begin", "latest", "load", "leave", "ahead", "behind")


def _first_solution(data: Data) -> np.ndarray:
    """What must be served, each in a route of its own; where vehicles are too few, wherever it fits first."""
    n = len(data.must) - 1
    wanted = np.flatnonzero(data.must).tolist()
    if len(wanted) <= data.fleet:
        return encode([[i] for i in wanted], n)
    routes: list[list[int]] = []
    for i in sorted(wanted, key=lambda i: data.closes[i]):
        if not _insert(data, routes, i, n):  # not in the set: chains must be given another start
            return encode([[i] for i in wanted], n)
    return encode(routes, n)


def _insert(data: Data, routes: list[list[int]], i: int, n: int) -> bool:
    for route in routes:
        for at in range(len(route), -1, -1):
            tried = [*route[:at], i, *route[at:]]
            if pure(is_route)(data, encode([tried], n).astype(np.int64), tried[0]) > 0:
                route[:] = tried
                return True
    if len(routes) < data.fleet:
        routes.append([i])
        return True
    return False


@dataclass(frozen=True, eq=False)
class Plans:
    """Lists all sets of routes of a small instance: each request in turn goes unserved or into a route with some that are left."""

    data: Data
    least: int = 1  # stops of a route

    def __call__(self) -> Iterator[np.ndarray]:
        n = len(self.data.must) - 1
        through = {i: _Remembered(self._routes(i)) for i in range(1, n + 1)}

        def complete(left: tuple[int, ...], routes: list[tuple[int, ...]]) -> Iterator[np.ndarray]:
            if not left or len(routes) == self.data.fleet:
                if not any(self.data.must[i] for i in left):
                    yield encode(routes, n)
                return
            i, others = left[0], left[1:]
            if not self.data.must[i]:
                yield from complete(others, routes)
            for route in through[i]:
                if set(route) <= set(left):
                    yield from complete(tuple(o for o in others if o not in route), [*routes, route])

        return complete(tuple(range(1, n + 1)), [])

    @property
    def at_least(self) -> int:
        """Every request fits into a route of its own."""
        must = int(self.data.must.sum())
        free = len(self.data.must) - 1 - must
        return sum(comb(free, served) for served in range(min(free, int(self.data.fleet) - must) + 1))

    def _routes(self, i: int) -> Iterator[tuple[int, ...]]:
        """Routes through i and requests with higher numbers, short ones first; what no vehicle can begin with is not followed."""
        data, go, stops = self.data, pure(drive), range(i, len(self.data.must))

        def begun(route: tuple[int, ...], time: float, load: float, length: int) -> Iterator[tuple[tuple[int, ...], bool]]:
            """So many stops that a vehicle can make one after the other, and whether it comes back in time."""
            if len(route) == length:
                yield route, time + data.travel[route[-1], 0] <= data.closes[0]
                return
            for b in stops:
                later = np.inf if b in route else go(data, time, route[-1] if route else 0, b)
                if later < np.inf and load + data.demand[b] <= data.capacity:
                    yield from begun((*route, b), later, load + data.demand[b], length)

        least = int(data.must.sum()) if data.fleet == 1 else 1
        for length in range(max(least, self.least), len(stops) + 1):
            none = True
            for route, ends in begun((), data.opens[0], 0.0, length):
                none = False
                if ends and i in route:
                    yield route
            if none:
                return


class _Remembered:
    """What a generator yields, again for everyone who asks."""

    def __init__(self, source: Iterator) -> None:
        self._source, self._seen = source, list[Any]()

    def __iter__(self) -> Iterator:
        for k in count():
            if k == len(self._seen):
                try:
                    self._seen.append(next(self._source))
                except StopIteration:
                    return
            yield self._seen[k]
