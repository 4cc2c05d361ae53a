"""PyVRP: instances and plans of :class:`movegrad.problems.PrizeCollectingVRPTW`, both ways.

PyVRP minimizes driving plus the prizes not collected, movegrad maximizes prizes less driving: objective = Σ prizes − PyVRP's cost.
Requests are 1..n here; PyVRP's clients are 0..n−1, its location i is our index i.
"""

import math
from collections.abc import Sequence

import numpy as np

try:
    import pyvrp
except ImportError as error:
    raise ImportError('movegrad.integrations.pyvrp needs PyVRP: pip install "movegrad[pyvrp]".') from error

from movegrad._types import Arrays
from movegrad._validate import array_of, doubles, finite_vectors, instance_of, integer_in, positive
from movegrad.problems.routing import Instance
from movegrad.problems.routing.problem import encode

__all__ = ["fleet", "from_pyvrp", "routes_of", "to_pyvrp", "to_solution"]

ENDLESS = np.iinfo(np.int64).max  # what PyVRP takes for infinity
_GREATEST = 2**45  # of a number: sums of a great many stay far from an overflow


def to_pyvrp(
    instance: Instance, prizes: Arrays | None = None, *, vehicles: int | None = None, scale: float | None = None
) -> pyvrp.ProblemData:
    """The same problem for PyVRP; requests that must be served are required clients, the others optional ones.

    Parameters
    ----------
    instance : Instance
        The problem.
    prizes : (n,), optional
        0 by default. PyVRP knows none below 0: those count as 0, so that such a request is served only where that shortens a route.
    vehicles : int, optional
        Those of the instance by default, or as many as there are requests: an unlimited fleet. PyVRP's search begins with a
        random plan that uses all of them, so :func:`fleet` is better for short runs.
    scale : float, optional
        PyVRP computes with integers. Without a scale all numbers must be integers. With one, times, costs, prizes and loads are
        multiplied by it and rounded: a plan that just fits may then just fail, and the other way round.

    Returns
    -------
    pyvrp.ProblemData
        For PyVRP's ``solve``.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.integrations import pyvrp
    >>> from movegrad.problems.routing import Instance
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> pyvrp.to_pyvrp(instance, [5, 5, 5]).num_clients
    3
    """
    instance_of(instance, "instance", Instance)
    n = instance.requests
    values = np.zeros(n) if prizes is None else finite_vectors(doubles(array_of(prizes, "prizes")).reshape(-1), "prizes", n)
    if vehicles is None:
        count = n if instance.max_vehicles is None else instance.max_vehicles
    else:
        count = integer_in(vehicles, "vehicles", 1)
    factor = None if scale is None else positive(scale, "scale")
    durations, costs = (_integers(getattr(instance, name), name, factor) for name in ("durations", "costs"))
    for matrix in (durations, costs):
        np.fill_diagonal(matrix, 0)
    loads, service = _integers(instance.demands, "demands", factor), _integers(instance.service, "service", factor)
    windows, rewards = _windows(instance.windows, factor), _integers(np.maximum(values, 0.0), "prizes", factor)
    capacity = int(_integers(np.array([instance.capacity]), "capacity", factor)[0])
    clients = [
        pyvrp.Client(
            location=i,
            delivery=[int(loads[i])],
            service_duration=int(service[i]),
            tw_early=windows[i][0],
            tw_late=windows[i][1],
            prize=int(rewards[i - 1]),
            required=bool(instance.must_serve[i]),
        )
        for i in range(1, n + 1)
    ]
    depot = pyvrp.Depot(0, tw_early=windows[0][0], tw_late=windows[0][1], service_duration=int(service[0]))
    places = np.zeros((n + 1, 2)) if instance.coordinates is None else instance.coordinates
    locations = [pyvrp.Location(float(x), float(y)) for x, y in places]
    vehicle = pyvrp.VehicleType(count, [capacity])
    return pyvrp.ProblemData(locations, clients, [depot], [vehicle], [costs], [durations])  # type: ignore[list-item]


def fleet(instance: Instance) -> int:
    """Vehicles that are enough for good plans, though not for every plan: max(3⌈load/capacity⌉, n/3) + 4, and at most n.

    Parameters
    ----------
    instance : Instance
        With n requests.

    Returns
    -------
    int
        For ``vehicles`` of :func:`to_pyvrp`.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.integrations import pyvrp
    >>> from movegrad.problems.routing import Instance
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> pyvrp.fleet(instance)
    3
    """
    instance_of(instance, "instance", Instance)
    n = instance.requests
    most = n if instance.max_vehicles is None else min(n, instance.max_vehicles)
    loads = 3 * math.ceil(float(instance.demands.sum()) / instance.capacity)
    return min(max(loads, n // 3) + 4, most)


def to_solution(data: pyvrp.ProblemData, routes: Sequence[Sequence[int]]) -> pyvrp.Solution:
    """A plan for PyVRP, such as a first solution.

    Parameters
    ----------
    data : pyvrp.ProblemData
        Made by :func:`to_pyvrp`.
    routes : lists of requests 1..n
        They may break windows or capacities.

    Returns
    -------
    pyvrp.Solution
        The plan.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.integrations import pyvrp
    >>> from movegrad.problems.routing import Instance
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> pyvrp.to_solution(pyvrp.to_pyvrp(instance), [[1, 2], [3]]).num_routes()
    2
    """
    instance_of(data, "data", pyvrp.ProblemData)
    encode(routes, data.num_clients)  # refuses what is no request, or there twice
    used = [route for route in routes if len(route)]
    if len(used) > data.num_vehicles:
        raise ValueError(f"routes must be at most {data.num_vehicles}, the vehicles of data, got {len(used)}.")
    return pyvrp.Solution(data, [[int(stop) - 1 for stop in route] for route in used])


def routes_of(solution: pyvrp.Solution) -> list[list[int]]:
    """The routes of a PyVRP solution.

    Parameters
    ----------
    solution : pyvrp.Solution
        Of data made by :func:`to_pyvrp`.

    Returns
    -------
    lists of requests 1..n
        Ordered by their first ones.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.integrations import pyvrp
    >>> from movegrad.problems.routing import Instance
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> pyvrp.routes_of(pyvrp.to_solution(pyvrp.to_pyvrp(instance), [[3], [1, 2]]))
    [[1, 2], [3]]
    """
    plan = instance_of(solution, "solution", pyvrp.Solution).routes()
    routes = ([visit.idx + 1 for visit in route if visit.is_client()] for route in plan)
    return sorted(route for route in routes if route)


def from_pyvrp(data: pyvrp.ProblemData) -> tuple[Instance, np.ndarray]:
    """The instance and the prizes of PyVRP's data.

    Parameters
    ----------
    data : pyvrp.ProblemData
        With one depot, one type of vehicle, one load and no release times.

    Returns
    -------
    instance : Instance
        With n requests.
    prizes : (n,)
        θ of the same problem.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.integrations import pyvrp
    >>> from movegrad.problems.routing import Instance
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> again, prizes = pyvrp.from_pyvrp(pyvrp.to_pyvrp(instance, [5, 6, 7]))
    >>> again.requests, prizes.tolist()
    (3, [5.0, 6.0, 7.0])
    """
    _refuse_what_we_do_not_know(instance_of(data, "data", pyvrp.ProblemData))
    clients, depot, vehicle = data.clients(), data.depots()[0], data.vehicle_types()[0]
    nodes = np.array([depot.location, *(c.location for c in clients)])
    across = np.ix_(nodes, nodes)
    opens, closes = max(depot.tw_early, vehicle.tw_early), min(depot.tw_late, vehicle.tw_late)
    windows = np.array([[opens, closes], *([c.tw_early, c.tw_late] for c in clients)], float)
    windows[windows >= ENDLESS] = np.inf
    loads = [sum(c.delivery) for c in clients]
    places = np.array([(at.x, at.y) for at in data.locations()])[nodes]
    instance = Instance(
        durations=data.duration_matrix(vehicle.profile)[across],
        demands=np.array([0, *loads]),
        service=np.array([depot.service_duration, *(c.service_duration for c in clients)]),
        windows=windows,
        capacity=vehicle.capacity[0] if vehicle.capacity else 1,
        must_serve=np.array([False, *(c.required for c in clients)]),
        max_vehicles=vehicle.num_available if vehicle.num_available < len(clients) else None,
        costs=data.distance_matrix(vehicle.profile)[across] * vehicle.unit_distance_cost,
        coordinates=places,
    )
    return instance, np.array([c.prize for c in clients], float)


def _integers(array: np.ndarray, name: str, scale: float | None) -> np.ndarray:
    scaled = array if scale is None else array * scale
    whole = np.rint(scaled)
    if scale is None and (whole != array).any():
        at = np.argwhere(whole != array)[0].tolist()
        raise ValueError(
            f"{name} must be integers for PyVRP, got {array[tuple(at)]:g} at {at}: give a scale, such as 1000, by which all "
            "numbers are multiplied before they are rounded."
        )
    if (np.abs(whole) > _GREATEST).any():
        scaling = "" if scale is None else f" with the scale {scale:g}"
        raise ValueError(f"{name} must be at most 2⁴⁵ for PyVRP, got {np.abs(whole).max():g}{scaling}.")
    return whole.astype(np.int64)


def _windows(windows: np.ndarray, scale: float | None) -> list[tuple[int, int]]:
    if (windows < 0).any():
        raise ValueError(f"windows must be ≥ 0 for PyVRP, got {windows[windows < 0][0]:g}.")
    finite = _integers(np.where(np.isfinite(windows), windows, 0.0), "windows", scale)
    return [(int(a), int(b) if np.isfinite(end) else ENDLESS) for (a, b), end in zip(finite, windows[:, 1], strict=True)]


def _refuse_what_we_do_not_know(data: pyvrp.ProblemData) -> None:
    counts = {
        "one depot": (data.num_depots, 1),
        "one type of vehicle": (data.num_vehicle_types, 1),
        "at most one dimension of loads": (max(1, data.num_load_dimensions), 1),
        "no groups of clients": (data.num_groups, 0),
        "no shipments": (data.num_shipments, 0),
        "no pickups": (sum(sum(c.pickup) for c in data.clients()), 0),
        "no release times": (max((c.release_time for c in data.clients()), default=0), 0),
    }
    _require(counts)
    vehicle = data.vehicle_types()[0]
    _require(
        {
            "no fixed cost of vehicles": (vehicle.fixed_cost, 0),
            "no cost of duration": (vehicle.unit_duration_cost, 0),
            "no overtime": (vehicle.max_overtime, 0),
            "no limit of shifts": (vehicle.shift_duration, ENDLESS),
            "no limit of distances": (vehicle.max_distance, ENDLESS),
            "no latest start": (min(vehicle.start_late, vehicle.tw_late), vehicle.tw_late),
            "no load at the start": (sum(vehicle.initial_load), 0),
            "no reload depots": (len(vehicle.reload_depots), 0),
        }
    )


def _require(wanted: dict[str, tuple[int, int]]) -> None:
    for what, (value, right) in wanted.items():
        if value != right:
            raise ValueError(f"data must have {what} to become an Instance, got {value}.")
