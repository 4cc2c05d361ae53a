"""Pictures of plans: what is drawn is what the plan says. How it looks is for eyes."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import colors
from matplotlib.figure import Figure

import movegrad as mg
from movegrad.problems import TSP, PrizeCollectingVRPTW
from movegrad.problems.routing import Instance
from tests.slow import slow_but_for

plot = mg.plot

# Four requests on a line, 10 apart, the depot at 0. Request 2 opens late, 3 must be served, 4 has no end.
INSTANCE = Instance(
    durations=10.0 * np.abs(np.subtract.outer(np.arange(5), np.arange(5))),
    demands=[0, 1, 1, 1, 1],
    service=[2, 3, 3, 3, 3],
    windows=[[5, 200], [0, 100], [60, 90], [0, 100], [0, np.inf]],
    capacity=2,
    must_serve=[0, 0, 0, 1, 0],
    coordinates=[[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]],
)


def random_instance(n: int, seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(n + 1, 2))
    durations = 10 * np.linalg.norm(places[:, None] - places, axis=-1) + rng.uniform(0, 1, (n + 1, n + 1))
    opens = np.r_[0, rng.uniform(0, 300, n)]
    windows = np.column_stack([opens, opens + 200])
    windows[0, 1] = 900
    return Instance(durations, np.r_[0, np.ones(n)], np.ones(n + 1), windows, 12, rng.random(n + 1) < 0.2, coordinates=places)


def bars(axes) -> list[tuple[float, float, float]]:
    """(lane, from, to) of bars, top to bottom: waiting is hollow."""
    return sorted(
        (round(b.get_y() + b.get_height() / 2, 6), round(b.get_x(), 6), round(b.get_x() + b.get_width(), 6))
        for container in axes.containers
        for b in container
    )


def marks(axes) -> dict[tuple[float, float], tuple[str, str]]:
    """Face and edge of the mark at each place; the depot is a square of its own."""
    out = {}
    for mark in axes.collections:
        face, edge = (colors.to_hex(c[0]) for c in (mark.get_facecolor(), mark.get_edgecolor()))
        out[tuple(np.round(np.asarray(mark.get_offsets())[0], 6))] = (face, edge)
    return out


def test_the_timetable_is_what_the_windows_make_of_a_route():
    stops, back = plot.timetable(INSTANCE, [1, 2])
    assert stops == [(1, 17.0, 17.0, 20.0), (2, 30.0, 60.0, 63.0)]  # leaves at 5 + 2, waits for 2 to open
    assert back == 83.0


@pytest.mark.parametrize("seed", range(20))
def test_the_timetable_of_a_route_is_on_time_where_the_plan_is_feasible(seed):
    rng, instance = np.random.default_rng(seed), random_instance(6, seed)
    problem = PrizeCollectingVRPTW(replace(instance, must_serve=None))
    for _ in range(30):
        route = (rng.permutation(6)[: rng.integers(1, 7)] + 1).tolist()
        stops, back = plot.timetable(problem.instance, route)
        late = back > instance.windows[0, 1] or any(s.begin > instance.windows[s.request, 1] for s in stops)
        assert problem.is_feasible([route]) != late


def test_service_and_waiting_are_bars_in_the_lanes_of_their_stops():
    figure = plot.routes(INSTANCE, [[1, 2], [3]])
    assert bars(figure.axes[1]) == [(0, 17, 20), (1, 30, 60), (1, 60, 63), (2, 37, 40)]
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == ["route 1", "route 2", "not served"]


def test_what_is_late_is_red():
    figure = plot.routes(INSTANCE, [[4, 3, 2]])
    faces = [colors.to_hex(b.get_facecolor()) for c in figure.axes[1].containers for b in c]
    assert faces.count(plot.WRONG.lower()) == 0
    figure = plot.routes(replace(INSTANCE, windows=[[5, 200], [0, 100], [30, 40], [0, 100], [0, np.inf]]), [[4, 3, 2]])
    faces = [colors.to_hex(b.get_facecolor()) for c in figure.axes[1].containers for b in c]
    assert faces.count(plot.WRONG.lower()) == 1
    assert "late" in [text.get_text() for text in figure.axes[1].get_legend().get_texts()]


def test_served_unserved_and_must_serve_are_marked_distinctly():
    axes = plot.routes(INSTANCE, [[1, 2]]).axes[0]
    blue = plot.COLORS[0].lower()
    assert marks(axes) == {
        (0, 0): ("#000000", "#000000"),
        (1, 0): (blue, "#ffffff"),
        (2, 0): (blue, "#ffffff"),
        (3, 0): ("#ffffff", plot.WRONG.lower()),  # must be served, and is not
        (4, 0): ("#ffffff", plot.GRAY),
    }
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert named == ["depot", "served", "not served", "left out: wrong"]
    named = [text.get_text() for text in plot.routes(INSTANCE, [[3]]).axes[0].get_legend().get_texts()]
    assert named == ["depot", "must be served", "not served"]


def test_the_title_says_cost_and_objective():
    assert plot.routes(INSTANCE, [[1, 2], [3]]).get_suptitle() == "2 routes, 3 of 4 requests, cost 100"
    text = plot.routes(INSTANCE, [[3]], prizes=[1, 2, 80, 4]).get_suptitle()
    assert text == "1 route, 1 of 4 requests, cost 60, objective 20"
    assert plot.routes(INSTANCE, [], title="mine").get_suptitle() == "mine"


def test_a_load_above_the_capacity_is_said():
    labels = plot.routes(INSTANCE, [[1, 2, 4]]).axes[1].get_yticklabels()
    assert labels[0].get_text() == "route 1\nload 3 > 2"


def test_without_coordinates_places_fit_the_durations_and_the_caption_says_so():
    instance = replace(random_instance(12, 0), coordinates=None)
    euclidean = np.linalg.norm(random_instance(12, 0).coordinates[:, None] - random_instance(12, 0).coordinates, axis=-1)
    found = plot.places(replace(instance, durations=euclidean))
    assert np.allclose(
        np.linalg.norm(found[:, None] - found, axis=-1), euclidean
    )  # points of a plane come back, but for their pose
    assert "scaling" in plot.routes(instance, [[1, 2]]).axes[0].get_xlabel()
    assert plot.routes(random_instance(12, 0), [[1, 2]]).axes[0].get_xlabel() == ""


def test_prizes_are_areas():
    axes = plot.routes(INSTANCE, [[1, 2]], prizes=[10.0, 40.0, -5.0, 0.0]).axes[0]
    areas = {tuple(np.asarray(m.get_offsets())[0]): m.get_sizes()[0] for m in axes.collections}
    assert areas[2, 0] > areas[1, 0] > areas[3, 0] == areas[4, 0]


@pytest.mark.parametrize("n", slow_but_for([1, 5, 40], [1, 5, 40, 100, 200]))
def test_any_size_can_be_written_to_a_file(n, tmp_path):
    instance = random_instance(n, 1)
    plan = [list(range(1 + k, min(k + 9, n) + 1)) for k in range(0, n, 9)][:-1]
    path = tmp_path / "new" / "plan.png"
    assert isinstance(plot.routes(instance, plan, prizes=np.ones(n), path=path), Figure)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in path.parent.iterdir()] == ["plan.png"]


@pytest.mark.parametrize("n", [8, 25, 40])
def test_numbers_on_the_map_hardly_cover_each_other(n):
    """The layout tries ten places for each number: few of the pairs of boxes may overlap, at these seeds none."""
    figure = plot.routes(random_instance(n, 2), [list(range(1, n + 1))])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text()]
    assert len(boxes) == n
    assert sum(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k]) == 0


def test_given_axes_are_drawn_into():
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert plot.routes(INSTANCE, [[1]], axes=axes) is figure
    assert bars(axes[1]) == [(0, 17, 20)]


BAD = [
    (lambda: plot.routes(3, [[1]]), "instance must be a Instance, got 3"),
    (lambda: plot.routes(INSTANCE, np.zeros(5)), "routes must be a list of lists of requests, got ndarray"),
    (lambda: plot.routes(INSTANCE, [1, 2]), r"routes must be a list of lists of requests, got list \[1, 2\]"),
    (lambda: plot.routes(INSTANCE, [[5]]), r"routes must hold requests in 1\.\.4, got 5"),
    (lambda: plot.routes(INSTANCE, [[1], [1]]), "routes must hold each request once, got 1 twice"),
    (lambda: plot.routes(INSTANCE, [[1]], prizes=[1.0]), "prizes must have a last axis of 4 entries"),
    (lambda: plot.routes(INSTANCE, [[1]], axes=[1]), "axes must be two matplotlib axes, for map and times, got"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "movegrad.plot")
    with pytest.raises(ImportError, match=r"movegrad\[plot\]"):
        importlib.import_module("movegrad.plot")


# --- schedules and cuts -----------------------------------------------------------------------------------------------


def test_a_schedule_shows_each_task_from_its_start_to_its_end(tmp_path):
    problem = mg.problems.EnergyScheduling([2, 1, 2], [0, 0, 0], [4, 4, 4], [3.0, 5.0, 1.0], [1, 1, 1], [2, 1], slots=4)
    figure = plot.schedule(problem, ([2, 1, 1], [0, 0, 1]), prices=[4.0, 1.0, 1.0, 2.0], path=tmp_path / "schedule.png")
    assert bars(figure.axes[0]) == [(0.0, 1.0, 2.0), (0.0, 2.0, 4.0), (1.0, 1.0, 3.0)]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["machine 0", "machine 1"]
    assert figure.get_suptitle() == "3 tasks on 2 of 2 machines, cost 16"
    assert (tmp_path / "schedule.png").stat().st_size > 1000


def test_tasks_that_overlap_on_a_machine_lie_in_lanes():
    problem = mg.problems.EnergyScheduling([2, 2], [0, 0], [4, 4], [1.0, 1.0], [1, 1], [2], slots=4)
    assert bars(plot.schedule(problem, ([0, 1], [0, 0])).axes[0]) == [(0.0, 0.0, 2.0), (1.0, 1.0, 3.0)]


def test_a_cut_shows_which_edges_are_cut():
    problem = mg.problems.MaxCut(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    places = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    figure = plot.cut(problem, [0, 1, 0, 1], positions=places)
    gray, black = (c for c in figure.axes[0].collections if hasattr(c, "get_segments"))
    np.testing.assert_array_equal(gray.get_segments(), [places[[0, 2]]])
    np.testing.assert_array_equal(black.get_segments(), [places[[0, 1]], places[[1, 2]], places[[2, 3]], places[[3, 0]]])
    assert figure.get_suptitle() == "4 of 5 edges are cut"
    assert plot.cut(problem, [0, 0, 0, 0], title="none").get_suptitle() == "none"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p, q: plot.cut(p, [0, 1, 2, 0]), r"solution must be 4 sides, 0 or 1, got \[0, 1, 2, 0\]\."),
        (lambda p, q: plot.cut(p, [0, 1, 0, 1], positions=np.zeros((4, 3))), r"positions must be finite and of shape \(4, 2\)"),
        (lambda p, q: plot.cut(q, [0, 1]), r"problem must be a MaxCut"),
        (lambda p, q: plot.cut(p, [0, 1, 0, 1], axes=3), r"axes must be matplotlib axes, got 3\."),
        (lambda p, q: plot.schedule(q, [0, 1]), r"solution must have a last axis of 4 entries, got shape \(2,\)\."),
        (lambda p, q: plot.schedule(q, ([0, 1], [0, 0]), prices=[1.0]), r"prices must have a last axis of 4 entries"),
        (lambda p, q: plot.schedule(q, ([0, 1], [0, 0]), path=3), r"path must be the name of a file, got 3\."),
    ],
)
def test_pictures_of_schedules_and_cuts_refuse_what_they_cannot_draw(call, sentence):
    graph = mg.problems.MaxCut(4, [(0, 1), (1, 2)])
    with pytest.raises(ValueError, match=sentence):
        call(graph, mg.problems.EnergyScheduling([2, 1], [0, 0], [4, 4], [3.0, 5.0], [1, 1], [1], slots=4))


# --- tours -------------------------------------------------------------------------------------------------------------------

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_tour_is_drawn_from_city_to_city_and_back(asymmetric, tmp_path):
    figure = plot.tour(TSP(4, asymmetric), [2, 0, 1, 3], SQUARE, path=tmp_path / "tour.png")
    line, cities, first = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_xydata(), np.array(SQUARE)[[0, 1, 3, 2, 0]])
    np.testing.assert_array_equal(cities.get_xydata(), SQUARE[1:])
    np.testing.assert_array_equal(first.get_xydata(), SQUARE[:1])
    assert len(figure.axes[0].texts) == (4 if asymmetric else 0)
    assert figure.get_suptitle() == f"4 cities, {2 + 2 * 2**0.5:.6g} on the map"
    assert (tmp_path / "tour.png").stat().st_size > 0


def test_a_tour_is_drawn_on_axes_that_are_given():
    axes = Figure().subplots()
    assert plot.tour(TSP(4), np.arange(4), SQUARE, axes=axes, title="mine") is axes.figure
    assert axes.figure.get_suptitle() == "mine"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((INSTANCE, [0, 1, 2, 3], SQUARE), r"problem must be a TSP, got"),
        ((TSP(4), [0, 1, 2, 2], SQUARE), r"solution must be a tour, but city 2 is visited 2 times\."),
        ((TSP(4), [0, 1, 2, 3], SQUARE[:3]), r"coordinates must be finite numbers of shape \(4, 2\), got shape \(3, 2\)\."),
    ],
)
def test_what_is_no_tour_is_not_drawn(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        plot.tour(*arguments)


def test_a_tour_is_drawn_on_axes_only():
    with pytest.raises(ValueError, match=r"axes must be matplotlib axes, got 3\."):
        plot.tour(TSP(4), [0, 1, 2, 3], SQUARE, axes=3)
