"""An instance of vehicle routing with time windows, validated; and how near requests are to each other."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import array_of, doubles, instance_of, integer_in
from movegrad.engine import jit, keep_on_disk
from movegrad.problems._loads import exceeds, on_grid

WAIT_WEIGHT, WARP_WEIGHT = 0.2, 1.0  # of a minute that a vehicle waits, and of one that it comes too late
LEAST_LOG_WEIGHT = -20.0  # of a draw, against the likeliest
_LARGEST = 1e150  # of a time or cost
_BITS = 40  # of a time or cost: sums of 2¹³ of them are exact
_LOST = 1e-3  # of a small time or cost: what rounding beside very large ones may take
_SMALL = 0.02  # of times and costs that are not 0, how many are less than a small one


@dataclass(frozen=True, eq=False)
class Instance:
    """Requests 1..n and a depot, index 0, from which all vehicles leave when it opens.

    Parameters
    ----------
    durations : (n+1, n+1)
        Driving times ≥ 0; they may be asymmetric and break the triangle inequality.
    demands : (n+1,)
        At least 0; that of the depot is 0.
    service : (n+1,)
        Time ≥ 0 that service takes at each stop.
    windows : (n+1, 2)
        Service begins at i in windows[i]; a vehicle may wait, and must be back within windows[0]. Ends may be infinite.
    capacity : float
        Of every vehicle.
    must_serve : (n+1,) bool, optional
        Requests that every solution serves; none by default.
    max_vehicles : int, optional
        Unlimited by default.
    costs : (n+1, n+1), optional
        Of driving; the durations by default. May be negative.
    coordinates : (n+1, 2), optional
        For pictures.

    Notes
    -----
    Times and costs are rounded to 2⁻⁴⁰ of the power of two above their greatest one: then all sums are exact, and what a move
    gains and whether it fits is the same as what a full recomputation says. Demands that are not integers are rounded to 2⁻⁵⁰ of
    their sum, and the capacity has 10⁻⁹ of itself to spare: four of 0.15 fit into 0.6; windows end later by what rounding may
    add to a route. Integers stay as they are. Where some numbers are so large that small ones would lose more than 10⁻³ of
    themselves, as costs of 10¹² that are to forbid edges, the instance is refused. What stands on the diagonals does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.problems.routing import Instance
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2).requests
    3
    """

    durations: np.ndarray
    demands: np.ndarray
    service: np.ndarray
    windows: np.ndarray
    capacity: float
    must_serve: np.ndarray = None  # type: ignore[assignment]
    max_vehicles: int | None = None
    costs: np.ndarray = None  # type: ignore[assignment]
    coordinates: np.ndarray | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            durations: Arrays,
            demands: Arrays,
            service: Arrays,
            windows: Arrays,
            capacity: float,
            must_serve: Arrays | None = None,
            max_vehicles: int | None = None,
            costs: Arrays | None = None,
            coordinates: Arrays | None = None,
        ) -> None:
            """What is given; the fields are what it becomes."""

    def __post_init__(self) -> None:
        durations = _numbers(self.durations, "durations", 2)
        n = len(durations)
        if durations.shape != (n, n) or n < 2:
            raise ValueError(
                f"durations must be square with at least 2 rows, the depot and a request, got shape {durations.shape}."
            )
        _at_least_zero(durations, "durations")
        _summable(durations, "durations")
        demands, service = _numbers(self.demands, "demands", 1, n), _numbers(self.service, "service", 1, n)
        _at_least_zero(demands, "demands")
        _at_least_zero(service, "service")
        _summable(service, "service")
        if demands[0] != 0:
            raise ValueError(f"demands must be 0 for the depot, got {demands[0]:g}.")
        windows = _numbers(self.windows, "windows", 2, n, infinite=True)
        _check_windows(windows)
        capacity = float(_numbers(self.capacity, "capacity", 0))
        if capacity <= 0:
            raise ValueError(f"capacity must be > 0, got {capacity:g}.")
        for i in np.flatnonzero(exceeds(demands, capacity))[:1]:
            raise ValueError(f"demands must be at most the capacity {capacity:g}, got {demands[i]:g} for request {i}.")
        costs = durations if self.costs is None else _numbers(self.costs, "costs", 2, n)
        if costs.shape != (n, n):
            raise ValueError(f"costs must have shape {(n, n)}, got {costs.shape}.")
        _summable(costs, "costs")
        coordinates = None if self.coordinates is None else _numbers(self.coordinates, "coordinates", 2, n)
        if coordinates is not None and coordinates.shape != (n, 2):
            raise ValueError(f"coordinates must have shape {(n, 2)}, got {coordinates.shape}.")
        fleet = None if self.max_vehicles is None else integer_in(self.max_vehicles, "max_vehicles", 1)
        longest = windows[:, 0].max() + (service + durations.max(1)).sum()  # of all routes: later ends do not count
        driven, paid = (matrix[~np.eye(n, dtype=bool)] for matrix in (durations, costs))
        times, prices = _grid(driven, service, windows[:, 0], np.minimum(windows[:, 1], longest)), _grid(paid)
        whole = all((a == np.round(a))[np.isfinite(a)].all() for a in (durations, service, windows))
        spare = 0.0 if whole else (n + 1) * times  # what rounding may add to a route
        demands, capacity = _loads(demands, capacity)
        _check_rounding({"durations": driven, "service": service}, times)
        _check_rounding({"costs": paid}, prices)
        fields = {
            "durations": _rounded(durations, times),
            "demands": demands,
            "service": _rounded(service, times),
            "windows": _rounded(windows, times) + np.array([0.0, spare]),
            "capacity": capacity,
            "must_serve": _flags(self.must_serve, n),
            "max_vehicles": fleet,
            "costs": _rounded(costs, prices),
            "coordinates": coordinates,
        }
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        self._check_reachable()

    @property
    def requests(self) -> int:
        """n, without the depot."""
        return len(self.durations) - 1

    def _check_reachable(self) -> None:
        opens, closes = self.windows.T
        begin = np.maximum(opens[0] + self.service[0] + self.durations[0], opens)
        back = begin + self.service + self.durations[:, 0]
        for i in range(1, len(begin)):
            if begin[i] > closes[i]:
                raise ValueError(f"durations must let a vehicle reach request {i} before {closes[i]:g}, got {begin[i]:g}.")
            if back[i] > closes[0]:
                raise ValueError(
                    f"durations must let a vehicle serve request {i} alone and be back before {closes[0]:g}, got {back[i]:g}."
                )


def proximity(instance: Instance) -> np.ndarray:
    """How far requests are from each other for a route: the measure of HGS and PyVRP, made symmetric.

    d(i, j) = min over both directions of c_ij + 0.2·wait_ij + 1.0·warp_ij, where wait_ij = max(0, l_j − T_ij − s_i − u_i) is the
    least wait at j after i, and warp_ij = max(0, l_i + s_i + T_ij − u_j) the least delay.

    Parameters
    ----------
    instance : Instance
        With n requests.

    Returns
    -------
    array (n, n)
        d.

    References
    ----------
    Vidal, Crainic, Gendreau, Prins (2013), "A hybrid genetic algorithm with adaptive diversity management for a large class of
    vehicle routing problems with time-windows"; Wouda, Lan, Kool (2024), "PyVRP".

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.problems.routing import Instance, proximity
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> proximity(Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    opens, closes = instance_of(instance, "instance", Instance).windows[1:].T
    drive = instance.service[1:, None] + instance.durations[1:, 1:]
    wait = np.maximum(0.0, opens[None, :] - drive - closes[:, None])
    warp = np.maximum(0.0, opens[:, None] + drive - closes[None, :])
    far = instance.costs[1:, 1:] + WAIT_WEIGHT * wait + WARP_WEIGHT * warp
    return np.minimum(far, far.T)


def neighbor_weights(distance: np.ndarray, beta: float) -> np.ndarray:
    """(n+1, n+1) w_ij ∝ exp(−d(i,j)/(β max_k d(i,k))) for j ≠ i, w_i0 ∝ exp(−mean_k d(i,k)/(β max_k d(i,k))); rows sum to 1.

    Distances are shifted to be ≥ 0 in each row, so that negative costs do no harm. No weight is less than e⁻²⁰ of the greatest of
    its row, which matters for β < 0.05: what has no chance at all could not be undone.
    """
    n = len(distance)
    others = ~np.eye(n, dtype=bool)
    shifted = np.where(others, distance - np.minimum(distance.min(1, keepdims=True), 0.0), 0.0)
    greatest = shifted.max(1, keepdims=True)
    scaled = shifted / np.where(greatest > 0, greatest, 1.0)
    logs = np.hstack([-scaled.sum(1, keepdims=True) / max(n - 1, 1), np.where(others, -scaled, -np.inf)]) / beta
    rows = np.exp(np.maximum(logs - logs.max(1, keepdims=True), LEAST_LOG_WEIGHT))
    rows[:, 1:][~others] = 0.0
    weights = np.zeros((n + 1, n + 1))
    weights[0, 0] = 1.0  # never drawn from
    weights[1:] = rows / rows.sum(1, keepdims=True)
    return weights


class Alias(NamedTuple):
    """Alias tables of the rows of a matrix, in few bytes, since a step reads them at random places."""

    table: np.ndarray  # (n, n) int32: column j is kept with probability the low bits · 2⁻ᵇⁱᵗˢ, else the high bits are taken
    weight: np.ndarray  # (n, n) int32: the probabilities that this gives, exactly, in units of 1/(n·2ᵇⁱᵗˢ)
    bits: int


def alias_table(weights: np.ndarray) -> Alias:
    """Alias tables (Walker, 1977; Vose, 1991) of rows of probabilities, rounded to what the bits hold; none becomes 0."""
    n = len(weights.T)
    bits = min(20, 30 - (n - 1).bit_length())
    table, weight = np.zeros(weights.shape, np.int32), np.zeros(weights.shape, np.int32)
    _fill_alias(weights, table, weight, bits, np.empty(n, np.int64))
    return Alias(table, weight, bits)


@keep_on_disk
@jit
def _fill_alias(weights, table, weight, bits, stack):
    """Shares are integers, 2ᵇⁱᵗˢ for each column. ``stack`` holds columns with less from the left and with more from the right."""
    n, whole = weights.shape[1], 1 << bits
    share = np.empty(n, np.int64)
    for i in range(len(weights)):
        most = np.argmax(weights[i])
        for j in range(n):
            share[j] = max(1, int(weights[i, j] * n * whole)) if weights[i, j] > 0.0 else 0
        share[most] += n * whole - share.sum()
        small, large = 0, n
        for j in range(n):
            weight[i, j] = share[j]
            if share[j] < whole:
                stack[small] = j
                small += 1
            else:
                large -= 1
                stack[large] = j
        for j in range(n):
            table[i, j] = j << bits  # never kept, and then taken: always j
        while small > 0:  # the sum is n·2ᵇⁱᵗˢ, so there is one with more as long as there is one with less
            less, more = stack[small - 1], stack[large]
            small -= 1
            table[i, less] = (more << bits) + share[less]
            share[more] -= whole - share[less]
            if share[more] < whole:
                stack[small] = more
                small += 1
                large += 1


def _numbers(value: Any, name: str, axes: int, length: int | None = None, infinite: bool = False) -> np.ndarray:
    array = doubles(array_of(value, name))
    if array.ndim != axes:
        raise ValueError(f"{name} must have {axes} axes, got shape {array.shape}.")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} must have {length} rows, one for the depot and each request, got {len(array)}.")
    bad = np.isnan(array) if infinite else ~np.isfinite(array)
    if bad.any():
        raise ValueError(f"{name} must be {'numbers' if infinite else 'finite'}, got {array[bad][0]} at {_where(bad)}.")
    return array


def _at_least_zero(array: np.ndarray, name: str) -> None:
    if (array < 0).any():
        raise ValueError(f"{name} must be ≥ 0, got {array[array < 0][0]:g} at {_where(array < 0)}.")


def _summable(array: np.ndarray, name: str) -> None:
    """Sums of these numbers must be numbers."""
    if np.abs(array).max() > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST:g}, got {np.abs(array).max():g} at {_where(np.abs(array) > _LARGEST)}.")


def _where(bad: np.ndarray) -> str:
    at = np.argwhere(bad)[0].tolist()
    return f"index {at[0] if len(at) == 1 else tuple(at)}"


def _check_windows(windows: np.ndarray) -> None:
    if windows.shape[1:] != (2,):
        raise ValueError(f"windows must have shape ({len(windows)}, 2), got {windows.shape}.")
    for i in np.flatnonzero(~np.isfinite(windows[:, 0]))[:1]:
        raise ValueError(f"windows must begin at a finite time, got {windows[i, 0]} at index {i}.")
    _summable(windows[:, 0], "windows")
    for i in np.flatnonzero(windows[:, 0] > windows[:, 1])[:1]:
        raise ValueError(f"windows must not end before they begin, got [{windows[i, 0]:g}, {windows[i, 1]:g}] at index {i}.")


def _flags(value: Any, n: int) -> np.ndarray:
    if value is None:
        return np.zeros(n, bool)
    flags = array_of(value, "must_serve")
    if flags.shape != (n,) or not np.isin(flags, (0, 1)).all():
        raise ValueError(f"must_serve must be {n} truth values, got shape {flags.shape} of {flags.dtype}.")
    flags = flags.astype(bool)
    flags[0] = False  # the depot is no request
    return flags


def _loads(demands: np.ndarray, capacity: float) -> tuple[np.ndarray, float]:
    """Demands whose sums are exact, and the capacity, with slack where they were rounded."""
    total = float(demands.sum())
    rounded, limit = on_grid(demands, np.array(capacity), total)
    return rounded, capacity if capacity > total or (rounded is demands and limit <= capacity) else float(limit)


def _grid(*arrays: np.ndarray) -> float:
    """A power of two, a 2⁻⁴⁰ of the greatest number; 1 at most, so that integers stay as they are."""
    greatest = max((float(np.abs(a).max(initial=0.0)) for a in arrays), default=0.0)
    return min(1.0, 2.0 ** (np.ceil(np.log2(greatest)) - _BITS)) if greatest > 0 else 1.0


def coarse(array: np.ndarray) -> np.ndarray:
    """Numbers as an instance keeps its costs, whatever the small ones lose."""
    return _rounded(array, _grid(array))


def _rounded(array: np.ndarray, unit: float) -> np.ndarray:
    with np.errstate(over="ignore"):  # an end of a window beyond all numbers is infinite
        return np.round(array / unit) * unit


def _check_rounding(arrays: dict[str, np.ndarray], unit: float) -> None:
    """Next to numbers that are far too large the others would vanish."""
    sizes = np.abs(np.concatenate(list(arrays.values())))
    small = np.quantile(sizes[sizes > 0.0], _SMALL) if sizes.any() else np.inf
    for name, array in arrays.items():
        rounded = _rounded(array, unit)
        for i in np.flatnonzero(np.abs(rounded - array) > _LOST * small)[:1]:
            raise ValueError(
                f"{name} must keep their digits beside the largest of their kind, got {array[i]:g}, which would become "
                f"{rounded[i]:g}: forbid by a smaller number, begin times nearer to 0, or scale to integers."
            )
