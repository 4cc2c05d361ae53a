"""Pictures of solutions (routes on a map and in time, tours, schedules, cuts) and of chains.

Of chains: their trace, acceptance by move, marginals with standard errors, regret curves; one call each, on a ``Sample`` or its
``info``.
"""

import io
import math
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.patheffects import withStroke
except ImportError as error:
    raise ImportError('movegrad.plot needs matplotlib: pip install "movegrad[plot]".') from error

from movegrad._chain_pictures import draw_acceptance, draw_marginals, draw_regret, draw_trace
from movegrad._types import Arrays
from movegrad._validate import array_of, doubles, encoded, finite_vectors, instance_of, sequence, shown, why
from movegrad.diagnostics import Info
from movegrad.problems.energy_scheduling import EnergyScheduling
from movegrad.problems.qubo import MaxCut
from movegrad.problems.routing.instance import Instance
from movegrad.problems.routing.problem import encode
from movegrad.problems.tsp import TSP
from movegrad.sampling import Sample, Solution

__all__ = ["Stop", "acceptance", "cut", "marginals", "places", "regret", "routes", "schedule", "timetable", "tour", "trace"]

# Told apart with any kind of color vision (Okabe and Ito, 2008; Tol, 2021); with more routes the style of the line changes too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#332288", "#882255")
STYLES = ("-", "--", ":", "-.")
GRAY, WRONG = "#999999", "#B00020"
LANE = 0.125  # inches for each stop in the picture of times
LABELED, LISTED = 40, 120  # requests at most, for numbers on the map and beside the times


class _Picture(Figure):
    """A figure that a notebook shows, though pyplot knows nothing of it."""

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png", dpi=110)
        return written.getvalue()


class Stop(NamedTuple):
    """When a vehicle arrives at a request, begins and ends service.

    Attributes
    ----------
    request : int
        1..n.
    arrival, begin, end : float
        Times.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.plot.Stop(1, 2.0, 3.0, 4.0).begin
    3.0
    """

    request: int
    arrival: float
    begin: float
    end: float


def routes(
    instance: Instance,
    routes: Sequence[Sequence[int]],
    *,
    prizes: Arrays | None = None,
    axes: Sequence[Axes] | np.ndarray | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """A plan as a matplotlib figure: left the map, right the times.

    On the map a square is the depot, a disk a request served, a diamond one that must be served, a hollow mark one that is not
    served; first and last ways are faint. In the picture of times each route is a band, each stop a lane of it: the thin line is
    its window, the bar its service, the hollow bar before it is waiting, what is late is red.

    Parameters
    ----------
    instance : Instance
        Without coordinates, places are those that fit the durations best (classical multidimensional scaling, Torgerson 1952).
    routes : lists of requests 1..n
        They need not be feasible.
    prizes : (n,), optional
        Areas of the marks on the map.
    axes : two matplotlib axes, optional
        For map and times; those of a new figure by default.
    title : str, optional
        By default it counts routes and requests, and says the cost.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = mg.problems.routing.Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> mg.plot.routes(instance, [[1, 2], [3]]).get_suptitle()
    '2 routes, 3 of 3 requests, cost 10'
    """
    instance_of(instance, "instance", Instance)
    plan = _plan(instance, routes)
    if prizes is not None:
        prizes = finite_vectors(doubles(array_of(prizes, "prizes")).reshape(-1), "prizes", instance.requests)
    if title is not None:
        instance_of(title, "title", str)
    if path is not None and not isinstance(path, (str, Path)):
        raise ValueError(f"path must be the name of a file, got {shown(path)}.")
    figure, on_map, in_time = _axes(axes, instance.requests)
    _draw_map(on_map, instance, plan, prizes)
    _draw_times(in_time, instance, plan)
    figure.suptitle(_title(instance, plan, prizes) if title is None else title)
    if instance.requests <= LABELED:
        _number_map(on_map, places(instance), _areas(prizes, instance.requests))
    if path is not None:
        _save(figure, Path(path))
    return figure


def tour(
    problem: TSP,
    solution: Arrays,
    coordinates: Arrays,
    *,
    axes: Axes | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """A tour as a matplotlib figure: cities where they are, city 0 a square, an arrow on every way where ways have a direction.

    Parameters
    ----------
    problem : TSP
        Of n cities.
    solution : (n,), or a tour
        In the set.
    coordinates : (n, 2)
        Of the cities.
    axes : matplotlib axes, optional
        Those of a new figure by default.
    title : str, optional
        By default it counts cities, and says how long the tour is on the map.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib.

    Examples
    --------
    >>> import movegrad as mg
    >>> square = [[0, 0], [1, 0], [1, 1], [0, 1]]
    >>> mg.plot.tour(mg.problems.TSP(4), [0, 1, 2, 3], square).get_suptitle()
    '4 cities, 4 on the map'
    """
    order = instance_of(problem, "problem", TSP).decode(problem.encode(solution))
    if reason := problem.complaint(np.array(order)):
        raise ValueError(f"solution must be a tour, but {reason}.")
    places = doubles(array_of(coordinates, "coordinates"))
    if places.shape != (len(order), 2) or not np.isfinite(places).all():
        raise ValueError(f"coordinates must be finite numbers of shape {(len(order), 2)}, got shape {places.shape}.")
    if axes is not None and not isinstance(axes, Axes):
        raise ValueError(f"axes must be matplotlib axes, got {shown(axes)}.")
    if title is not None:
        instance_of(title, "title", str)
    if path is not None and not isinstance(path, (str, Path)):
        raise ValueError(f"path must be the name of a file, got {shown(path)}.")
    on_map = _Picture(figsize=(5.5, 5.5), layout="constrained").subplots() if axes is None else axes
    closed = places[[*order, order[0]]]
    on_map.plot(*closed.T, "-", color=COLORS[0], linewidth=1.2, zorder=1)
    if problem.asymmetric:
        for a, b in pairwise(closed):
            on_map.annotate("", (a + b) / 2, a, arrowprops={"arrowstyle": "->", "color": COLORS[0]})
    on_map.plot(*places[1:].T, "o", color="white", markeredgecolor=COLORS[0], markersize=5, zorder=2)
    on_map.plot(*places[0], "s", color="black", markersize=7, zorder=3)
    on_map.set(aspect="equal", xticks=[], yticks=[])
    figure: Any = on_map.figure
    length = float(np.linalg.norm(np.diff(closed, axis=0), axis=1).sum())
    figure.suptitle(f"{len(order)} cities, {length:,.6g} on the map" if title is None else title)
    if path is not None:
        _save(figure, Path(path))
    return figure


def timetable(instance: Instance, route: Sequence[int]) -> tuple[list[Stop], float]:
    """The stops of a route that leaves when the depot opens and waits where it is early.

    Parameters
    ----------
    instance : Instance
        Windows, durations and service.
    route : list of requests 1..n
        It may be late.

    Returns
    -------
    stops : list of Stop
        In the order of the route.
    back : float
        When the vehicle is back.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = mg.problems.routing.Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> stops, back = mg.plot.timetable(instance, [1, 3])
    >>> [stop.arrival for stop in stops], back
    ([1.0, 3.0], 6.0)
    """
    instance_of(instance, "instance", Instance)
    at, free, stops = 0, instance.windows[0, 0] + instance.service[0], []
    for i in _stops(instance, route):
        arrival = free + instance.durations[at, i]
        begin = max(arrival, instance.windows[i, 0])
        at, free = i, begin + instance.service[i]
        stops.append(Stop(i, float(arrival), float(begin), float(free)))
    return stops, float(free + instance.durations[at, 0])


def places(instance: Instance) -> np.ndarray:
    """The coordinates; without them, points whose distances come near the mean durations of both directions.

    Parameters
    ----------
    instance : Instance
        With n requests.

    Returns
    -------
    array (n+1, 2)
        The depot first.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> far = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    >>> instance = mg.problems.routing.Instance(far, [0, 1, 1, 1], np.zeros(4), [[0, 100]] * 4, capacity=2)
    >>> mg.plot.places(instance).shape
    (4, 2)
    """
    if instance_of(instance, "instance", Instance).coordinates is not None:
        return np.asarray(instance.coordinates)
    squares = (0.5 * (instance.durations + instance.durations.T)) ** 2
    np.fill_diagonal(squares, 0.0)
    centered = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-0.5 * centered)
    return vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0.0))


def schedule(
    problem: EnergyScheduling,
    solution: Arrays,
    *,
    prices: Arrays | None = None,
    axes: Axes | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """A schedule as a matplotlib figure: a band for each machine, a bar for each task from its start to its end.

    Bars of a machine that overlap in time lie in lanes below each other; each task has its number where it is wide enough.

    Parameters
    ----------
    problem : EnergyScheduling
        What was scheduled.
    solution : (2n,), or a pair of starts and machines
        It need not be in the set.
    prices : (slots,), optional
        Drawn behind the bars: the darker, the dearer.
    axes : matplotlib axes, optional
        Those of a new figure by default.
    title : str, optional
        By default it counts tasks and machines, and says the cost if there are prices.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib.

    Examples
    --------
    >>> import movegrad as mg
    >>> problem = mg.problems.EnergyScheduling([2, 1], [0, 0], [4, 4], [3.0, 5.0], [1, 1], [1, 1], slots=4)
    >>> mg.plot.schedule(problem, ([2, 1], [0, 0]), prices=[4.0, 1.0, 1.0, 2.0]).get_suptitle()
    '2 tasks on 1 of 2 machines, cost 14'
    """
    instance_of(problem, "problem", EnergyScheduling)
    starts, machines = (part.astype(np.int64) for part in problem.decode(encoded(problem, solution, "solution")))
    if starts.ndim != 1:
        raise ValueError(f"solution must be one schedule, got {len(starts)}.")
    costs = None if prices is None else finite_vectors(doubles(array_of(prices, "prices")), "prices", problem.size)
    figure, on = _one_axes(axes, (10.0, 1.2 + 0.28 * max(4, len(starts))))
    data, lane, ticks = problem.data, 0, []
    ends = starts + data.duration
    for m in range(len(data.capacity)):
        free: list[int] = []  # when each lane of the machine is free again
        for f in sorted(np.flatnonzero(machines == m), key=lambda f: starts[f]):
            row = next((r for r, end in enumerate(free) if end <= starts[f]), len(free))
            free[row : row + 1] = [int(ends[f])]
            on.barh(lane + row, data.duration[f], left=starts[f], height=0.8, color=_color(m), edgecolor="white", zorder=2)
            on.annotate(
                str(f), (0.5 * (starts[f] + ends[f]), lane + row), ha="center", va="center", fontsize=6.5, path_effects=_HALO
            )
        ticks.append((f"machine {m}", lane + 0.5 * (max(len(free), 1) - 1)))
        lane += max(len(free), 1)
        on.axhline(lane - 0.5, color="#DDDDDD", linewidth=0.8, zorder=1)
    if costs is not None:
        on.imshow(costs[None], aspect="auto", cmap="Greys", alpha=0.35, extent=(0, problem.size, lane - 0.5, -0.5), zorder=0)
    on.set_yticks([at for _, at in ticks], [name for name, _ in ticks], fontsize=7.5)
    on.set(xlim=(0, problem.size), ylim=(lane - 0.5, -0.5), xlabel="slot")
    if title is None:
        title = f"{len(starts)} tasks on {len(np.unique(machines))} of {len(data.capacity)} machines"
        if costs is not None:
            total = sum(e * costs[s:t].sum() for e, s, t in zip(data.energy, starts, ends, strict=True))
            title += f", cost {total:,.6g}"
    return _finished(figure, title, path)


def cut(
    problem: MaxCut,
    solution: Arrays,
    *,
    positions: Arrays | None = None,
    axes: Axes | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """A cut of a graph as a matplotlib figure: vertices in the colors of their sides, edges that are cut in black, others in gray.

    Parameters
    ----------
    problem : MaxCut
        The graph.
    solution : (n,)
        Sides of the vertices, 0 and 1.
    positions : (n, 2), optional
        Of the vertices. By default each side stands on a half circle.
    axes : matplotlib axes, optional
        Those of a new figure by default.
    title : str, optional
        By default it counts the edges that are cut.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib.

    Examples
    --------
    >>> import movegrad as mg
    >>> square = mg.problems.MaxCut(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> mg.plot.cut(square, [0, 1, 0, 1]).get_suptitle()
    '4 of 5 edges are cut'
    """
    instance_of(problem, "problem", MaxCut)
    side, n = array_of(solution, "solution"), len(problem.solution)
    if side.shape != (n,) or not np.isin(side, (0, 1)).all():
        raise ValueError(f"solution must be {n} sides, 0 or 1, got {shown(solution)}.")
    points = _half_circles(side) if positions is None else doubles(array_of(positions, "positions"))
    if points.shape != (n, 2) or not np.isfinite(points).all():
        raise ValueError(f"positions must be finite and of shape ({n}, 2), got shape {points.shape}.")
    figure, on = _one_axes(axes, (6.0, 6.0))
    pairs = problem.data.pairs
    across = side[pairs[:, 0]] != side[pairs[:, 1]]
    for chosen, color, width in ((~across, "#CCCCCC", 0.6), (across, "black", 0.9)):
        on.add_collection(LineCollection(points[pairs[chosen]], colors=color, linewidths=width, zorder=1))
    for value in (0, 1):
        on.scatter(*points[side == value].T, s=max(8.0, 60.0 - 0.3 * n), color=COLORS[value], edgecolor="white", zorder=2)
    if n <= LABELED:
        for i, point in enumerate(points):
            on.annotate(str(i), point, (4, 4), textcoords="offset points", fontsize=6.5, path_effects=_HALO)
    on.set_aspect("equal", "box")
    on.set_axis_off()
    return _finished(figure, f"{across.sum()} of {len(pairs)} edges are cut" if title is None else title, path)


def trace(
    run: Sample | Solution | Info,
    *,
    example: int = 0,
    axes: Sequence[Axes] | np.ndarray | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Chains as a matplotlib figure: the objective and the distance to the start, step by step, a line for each chain.

    A good chain looks like grass: it leaves its start, then goes up and down around the same height as all others. Lines that lie
    apart, or still climb at the end, need more steps, more burn-in or other moves.

    Parameters
    ----------
    run : Sample, Solution or Info
        With a trace: not under a time limit, and not with ``trace=0``.
    example : int
        Which one, of several.
    axes : two matplotlib axes, optional
        For objective and distance; those of a new figure by default.
    title : str, optional
        By default it says the effective sample size and R-hat of the objective.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib. Of many chains, the first twelve.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> out = mg.sample(mg.problems.TopK(10, 3), np.linspace(-1.0, 1.0, 10), steps=2000, chains=4)
    >>> len(mg.plot.trace(out).axes)
    2
    """
    two = None if axes is None else sequence(axes, "axes", "two matplotlib axes, for objective and distance")
    if two is None:
        figure = _Picture(figsize=(8.0, 4.2), layout="constrained")
        two = list(figure.subplots(2, 1, sharex=True))
    elif len(two) != 2 or not all(isinstance(a, Axes) for a in two):
        raise ValueError(f"axes must be two matplotlib axes, for objective and distance, got {shown(axes)}.")
    told = draw_trace(run, two, example, COLORS)
    return _finished(two[0].figure, told if title is None else title, path)


def acceptance(
    run: Sample | Solution | Info, *, axes: Axes | None = None, title: str | None = None, path: str | Path | None = None
) -> Figure:
    """What became of the draws of each move, as a matplotlib figure: accepted, refused by the coin, infeasible, or no draw at all.

    Parameters
    ----------
    run : Sample, Solution or Info
        Counts are those of all chains and examples.
    axes : matplotlib axes, optional
        Those of a new figure by default.
    title : str, optional
        By default it counts what was drawn and accepted.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> out = mg.sample(mg.problems.TopK(10, 3), np.zeros(10), steps=100)
    >>> mg.plot.acceptance(out.info).get_suptitle()
    '100 of 100 draws accepted'
    """
    figure, on = _one_axes(axes, (8.0, 1.4 + 0.35 * 3))
    told = draw_acceptance(run, on)
    if axes is None:
        figure.set_figheight(1.4 + 0.35 * len(on.get_yticks()))
    return _finished(figure, told if title is None else title, path)


def marginals(
    run: Sample,
    *,
    exact: Arrays | None = None,
    example: int = 0,
    names: Sequence[str] | None = None,
    axes: Axes | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Entries of the mean E[T(Y)] as a matplotlib figure, with two standard errors to each side where there are several chains.

    Parameters
    ----------
    run : Sample
        With two chains or more for standard errors.
    exact : (d,), optional
        What they should be, such as :func:`movegrad.exact.marginals`.
    example : int
        Which one, of several.
    names : d strings, optional
        Of the entries.
    axes : matplotlib axes, optional
        Those of a new figure by default.
    title : str, optional
        By default it says the largest standard error.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib. Entries that never moved are crosses.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem, theta = mg.problems.TopK(6, 2), np.linspace(-1.0, 1.0, 6)
    >>> out = mg.sample(problem, theta, steps=2000, chains=4)
    >>> mg.plot.marginals(out, exact=mg.exact.marginals(problem, theta)).axes[0].get_ylabel()
    'E[T(Y)]'
    """
    figure, on = _one_axes(axes, (8.0, 3.4))
    told = draw_marginals(run, exact, example, names, on)
    return _finished(figure, told if title is None else title, path)


def regret(
    curves: Mapping[str, Arrays],
    *,
    x: Mapping[str, Arrays] | None = None,
    xlabel: str = "epoch",
    ylabel: str = "regret",
    axes: Axes | None = None,
    title: str = "",
    path: str | Path | None = None,
) -> Figure:
    """Regret curves as a matplotlib figure: a line for each way to learn.

    Parameters
    ----------
    curves : mapping of names to (epochs,) or (runs, epochs)
        For several runs, the line is their mean, and a band goes from the least to the largest.
    x : mapping of names to (epochs,), optional
        Where the points are, such as seconds of training; 0, 1, … by default.
    xlabel, ylabel : str
        Of the axes.
    axes : matplotlib axes, optional
        Those of a new figure by default.
    title : str
        Of the figure.
    path : str or Path, optional
        Also write the figure to this file.

    Returns
    -------
    Figure
        Of matplotlib.

    Examples
    --------
    >>> import movegrad as mg
    >>> figure = mg.plot.regret({"two-stage": [0.5, 0.3, 0.25], "movegrad": [[0.5, 0.2, 0.1], [0.5, 0.25, 0.1]]})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['two-stage', 'movegrad']
    """
    figure, on = _one_axes(axes, (6.4, 4.0))
    draw_regret(curves, x, on, COLORS, STYLES)
    on.set(xlabel=instance_of(xlabel, "xlabel", str), ylabel=instance_of(ylabel, "ylabel", str))
    return _finished(figure, title, path)


def _half_circles(side: np.ndarray) -> np.ndarray:
    points = np.empty((len(side), 2))
    for value, sign in ((0, -1.0), (1, 1.0)):
        count = int((side == value).sum())
        angles = np.pi * (np.arange(count) + 0.5) / max(count, 1) - 0.5 * np.pi
        points[side == value] = np.column_stack([sign * (0.2 + np.cos(angles)), np.sin(angles)])
    return points


def _one_axes(axes: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    if axes is None:
        figure = _Picture(figsize=size, layout="constrained")
        return figure, figure.subplots()
    if not isinstance(axes, Axes):
        raise ValueError(f"axes must be matplotlib axes, got {shown(axes)}.")
    return axes.figure, axes


def _finished(figure: Any, title: str, path: Any) -> Any:
    figure.suptitle(instance_of(title, "title", str))
    if path is not None:
        if not isinstance(path, (str, Path)):
            raise ValueError(f"path must be the name of a file, got {shown(path)}.")
        _save(figure, Path(path))
    return figure


# --- the map -----------------------------------------------------------------------------------------------------------------


def _draw_map(axes: Any, instance: Instance, plan: list[list[int]], prizes: np.ndarray | None) -> None:
    points, n = places(instance), instance.requests
    owner = np.full(n + 1, -1)
    for r, route in enumerate(plan):
        owner[route] = r
        line = points[[0, *route, 0]]
        style = {"color": _color(r), "linestyle": _style(r), "linewidth": 1.4}
        axes.plot(*line[1:-1].T, **style, zorder=2)
        for ends in (line[:2], line[-2:]):  # to and from the depot
            axes.plot(*ends.T, **{**style, "linewidth": 0.8, "alpha": 0.45}, zorder=1)
        for a, b in pairwise(line[1:-1]):
            _arrow(axes, a, b, _color(r))
    areas = _areas(prizes, n)
    for i in range(1, n + 1):
        served, must = owner[i] >= 0, bool(instance.must_serve[i])
        edge = "white" if served else WRONG if must else GRAY
        axes.scatter(
            *points[i], s=areas[i - 1], marker="D" if must else "o", facecolor=_color(owner[i]) if served else "white",
            edgecolor=edge, linewidth=0.7 if served else 1.3, zorder=3,
        )  # fmt: skip
    axes.scatter(*points[0], s=90, marker="s", color="black", zorder=4)
    axes.set_aspect("equal", "box", anchor="N")
    axes.margins(0.08)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#DDDDDD")
    if instance.coordinates is None:
        axes.set_xlabel("no coordinates: places by classical scaling of the durations", fontsize=8)
    axes.legend(handles=_legend(instance, owner, prizes), **_SMALL)


def _arrow(axes: Any, a: np.ndarray, b: np.ndarray, color: str) -> None:
    """A head in the middle of a way, which tells its direction."""
    middle, tip = a + 0.5 * (b - a), a + 0.56 * (b - a)
    if not np.allclose(a, b):
        axes.annotate("", tip, middle, arrowprops={"arrowstyle": "-|>", "color": color, "mutation_scale": 7, "lw": 0.6}, zorder=2)


def _number_map(axes: Any, points: np.ndarray, areas: np.ndarray) -> None:
    """Write numbers beside the marks, each on the side where it covers least of the marks and of the numbers before it."""
    axes.figure.draw_without_rendering()  # now the layout is known
    unit = axes.figure.dpi / 72.0
    spots = axes.transData.transform(points) / unit  # in points, as areas and letters are
    radii = np.r_[4.8, 0.5 * np.sqrt(areas)]
    taken = [(spot, np.array([r, r])) for spot, r in zip(spots, radii, strict=True)]  # boxes: center and half sizes
    for i in range(1, len(points)):
        half = np.array([1.9 * len(str(i)), 2.6])
        shifts = _SIDES * (radii[i] + 1.0 + half)
        covered = [sum(_shared(spots[i] + shift, half, *box) for box in taken) for shift in shifts]
        shift = shifts[int(np.argmin(covered))]
        taken.append((spots[i] + shift, half))
        axes.annotate(
            str(i), points[i], shift, textcoords="offset points", ha="center", va="center_baseline", fontsize=6.5, zorder=5,
            path_effects=_HALO,
        )  # fmt: skip


def _shared(center: np.ndarray, half: np.ndarray, other: np.ndarray, half_other: np.ndarray) -> float:
    """Area that two boxes share."""
    return float(np.maximum(0.0, half + half_other - np.abs(center - other)).prod())


_SIDES = np.array([(0, 1), (1, 0), (-1, 0), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8), (0, 2.2), (0, -2.2)])


def _areas(prizes: np.ndarray | None, n: int) -> np.ndarray:
    base = 42.0 if n <= LABELED else 30.0
    if prizes is None or prizes.max(initial=0.0) <= 0:
        return np.full(n, base)
    return base * (0.35 + 1.65 * (np.maximum(prizes, 0.0) / prizes.max()))


def _legend(instance: Instance, owner: np.ndarray, prizes: np.ndarray | None) -> list[Any]:
    must, served = instance.must_serve[1:], owner[1:] >= 0
    marks = (
        ("depot", True, "s", "black", "black"),
        ("served", (served & ~must).any(), "o", "#555555", "white"),
        ("must be served", (served & must).any(), "D", "#555555", "white"),
        ("not served", (~served & ~must).any(), "o", "white", GRAY),
        ("left out: wrong", (~served & must).any(), "D", "white", WRONG),
    )
    out = [
        Line2D([], [], linestyle="", marker=mark, markersize=6, markerfacecolor=face, markeredgecolor=edge, label=name)
        for name, there, mark, face, edge in marks
        if there
    ]
    return out if prizes is None else [*out, Line2D([], [], linestyle="", label="area: prize")]


# --- the times --------------------------------------------------------------------------------------------------------


def _draw_times(axes: Any, instance: Instance, plan: list[list[int]]) -> None:
    tables = [timetable(instance, route) for route in plan]
    unserved = sorted(set(range(1, instance.requests + 1)) - {i for route in plan for i in route})
    early, late = _span(instance, tables)
    bands, lane = [], 0  # name, middle and color
    for r, (stops, back) in enumerate(tables):
        if r % 2 == 0:
            axes.axhspan(lane - 0.5, lane + len(stops) - 0.5, color="#F2F2F2", zorder=0)
        _draw_route(axes, instance, stops, back, lane, _color(r), late)
        load = instance.demands[plan[r]].sum()
        full = f"\nload {load:g} > {instance.capacity:g}" if load > instance.capacity else ""
        bands.append((f"route {r + 1}{full}", lane + 0.5 * (len(stops) - 1), _color(r)))
        lane += len(stops)
    for i in unserved:
        _draw_window(axes, instance, i, lane, late, 0.6)
        _number(axes, instance, i, instance.windows[i, 0], lane, left=True, color=GRAY)
        lane += 1
    if unserved:
        bands.append(("not served", lane - 0.5 * (len(unserved) + 1), "black"))
    axes.set_yticks([middle for _, middle, _ in bands], [name for name, _, _ in bands], fontsize=7.5)
    for label, (_, _, color) in zip(axes.get_yticklabels(), bands, strict=True):
        label.set_color(color)
    axes.tick_params(axis="y", length=0)
    pad = 0.01 * (late - early)
    axes.set(ylim=(max(lane, 12) - 0.4, -0.6), xlim=(early - 5 * pad, late + pad), xlabel="time")
    axes.spines[["top", "left", "right"]].set_visible(False)
    wrong = any(back > instance.windows[0, 1] or _is_late(instance, stop) for stops, back in tables for stop in stops)
    axes.legend(handles=_TIMES + [Patch(color=WRONG, label="late")] * wrong, **_SMALL)


def _draw_route(axes: Any, instance: Instance, stops: list[Stop], back: float, lane: int, color: str, late: float) -> None:
    free, before = instance.windows[0, 0] + instance.service[0], lane
    axes.plot(free, lane, "s", color="black", markersize=3, clip_on=False)
    for y, stop in enumerate(stops, lane):
        _draw_window(axes, instance, stop.request, y, late, 1.0)
        axes.plot((free, stop.arrival), (before, y), color=color, linewidth=0.7, zorder=2)
        wait, service = stop.begin - stop.arrival, max(stop.end - stop.begin, 0.002 * late)
        if wait > 0:
            axes.barh(y, wait, left=stop.arrival, height=0.5, facecolor="white", edgecolor=color, linewidth=0.7, zorder=3)
        axes.barh(y, service, left=stop.begin, height=0.7, color=WRONG if _is_late(instance, stop) else color, zorder=4)
        first = y == lane  # to the left of it stands the depot
        _number(axes, instance, stop.request, stop.end if first else stop.arrival, y, left=not first)
        free, before = stop.end, y
    axes.plot((free, back), (before, before), color=color, linewidth=0.7, zorder=2)
    axes.plot(back, before, "s", color=WRONG if back > instance.windows[0, 1] else "black", markersize=3, clip_on=False, zorder=4)


def _number(axes: Any, instance: Instance, i: int, x: float, y: float, left: bool, color: str = "black") -> None:
    if instance.requests <= LISTED:
        axes.annotate(
            str(i), (x, y), (-3 if left else 3, 0), textcoords="offset points", ha="right" if left else "left", color=color,
            va="center_baseline", fontsize=5.5, path_effects=_HALO, zorder=5,
        )  # fmt: skip


def _draw_window(axes: Any, instance: Instance, i: int, y: float, late: float, strength: float) -> None:
    opens, closes = instance.windows[i]
    axes.plot((opens, min(closes, late)), (y, y), color=GRAY, linewidth=0.9, alpha=strength, zorder=1)
    for edge in (opens, closes):
        if edge <= late:
            axes.plot(edge, y, "|", color=GRAY, markersize=4, markeredgewidth=0.9, alpha=strength, zorder=1)


def _span(instance: Instance, tables: list[tuple[list[Stop], float]]) -> tuple[float, float]:
    """First and last moment to show: all that happens, and all windows that end."""
    ends = instance.windows[1:, 1]
    last = max([*(back for _, back in tables), *ends[np.isfinite(ends)], *instance.windows[1:, 0]])
    return float(instance.windows[:, 0].min()), float(last)


def _is_late(instance: Instance, stop: Stop) -> bool:
    return bool(stop.begin > instance.windows[stop.request, 1])


_TIMES = [
    Patch(color="#555555", label="service"),
    Patch(facecolor="white", edgecolor="#555555", label="waiting"),
    Line2D([], [], color=GRAY, linewidth=0.9, label="time window"),
    Line2D([], [], color="#555555", linewidth=0.7, label="driving"),
]


# --- around it --------------------------------------------------------------------------------------------------------

_SMALL = {
    "loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 6, "fontsize": 7.5, "frameon": False, "handletextpad": 0.4,
    "columnspacing": 1.2,
}  # fmt: skip
_HALO = [withStroke(linewidth=1.5, foreground="white")]


def _color(r: int) -> str:
    return COLORS[r % len(COLORS)]


def _style(r: int) -> str:
    return STYLES[r // len(COLORS) % len(STYLES)]


def _plan(instance: Instance, routes: Any) -> list[list[int]]:
    if not isinstance(routes, (list, tuple)) or not all(isinstance(route, (list, tuple, np.ndarray)) for route in routes):
        raise ValueError(f"routes must be a list of lists of requests, got {type(routes).__name__} {shown(routes)}.")
    encode(routes, instance.requests)  # refuses what is no request, or there twice
    return [[int(stop) for stop in route] for route in routes if len(route)]


def _stops(instance: Instance, route: Any) -> list[int]:
    """A single route; it may be empty."""
    try:
        return next(iter(_plan(instance, [route])), [])
    except ValueError as error:
        raise ValueError(f"route must be a list of requests, but {error}") from None


def _axes(axes: Any, n: int) -> tuple[Any, Any, Any]:
    if axes is not None:
        two = sequence(axes, "axes", "two matplotlib axes, for map and times")
        if len(two) != 2 or not all(isinstance(a, Axes) for a in two):
            raise ValueError(f"axes must be two matplotlib axes, for map and times, got {shown(axes)}.")
        return two[0].figure, *two
    figure = _Picture(figsize=(12.5, min(max(3.4, LANE * n + 1.2), 10.5)), layout="constrained")
    return figure, *figure.subplots(1, 2)


def _title(instance: Instance, plan: list[list[int]], prizes: np.ndarray | None) -> str:
    served = [i for route in plan for i in route]
    cost = sum(instance.costs[a, b] for route in plan for a, b in zip([0, *route], [*route, 0], strict=True))
    text = f"{len(plan)} route{'s' * (len(plan) != 1)}, {len(served)} of {instance.requests} requests, cost {cost:,.6g}"
    return text if prizes is None else f"{text}, objective {math.fsum([*(prizes[i - 1] for i in served), -cost]):,.6g}"


def _save(figure: Figure, path: Path) -> None:
    """The file is complete or as it was before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.stem}.part{path.suffix}")
        figure.savefig(part, dpi=130)
        os.replace(part, path)
    except (OSError, ValueError) as error:  # ValueError: of matplotlib, for an unknown kind of file
        raise ValueError(f"path must be a picture that can be written, got {shown(str(path))} ({why(error)}).") from error
