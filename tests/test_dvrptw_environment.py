"""The dynamic routing environment: exact to the competition, and strict about its rules."""

import lzma
from dataclasses import replace

import numpy as np
import pytest

from experiments.dvrptw import synthetic
from experiments.dvrptw.data import Day, Source, find_folder
from experiments.dvrptw.environment import Environment, InfeasibleAction, draw_requests, epochs, make_wave, replay
from experiments.dvrptw.instances import Instance, UnreadableInstance, read, write

DATA = find_folder()
needs_data = pytest.mark.skipif(DATA is None, reason="the competition's data are not here (MOVEGRAD_DATA, or ../shared/data)")


def tiny() -> Instance:
    """Two customers; from the depot 600 and 1200 s, back 700 and 1300, between them 300 and 400."""
    durations = np.array([[0, 600, 1200], [700, 0, 300], [1300, 400, 0]])
    windows = np.array([[0, 30_000], [9000, 16_200], [12_600, 19_800]])
    return Instance("tiny", durations, np.array([[0, 0], [3, 4], [6, 8]]), np.array([0, 5, 7]), np.array([0, 60, 120]), windows, 10)


def small(seed: int = 0, arrivals: int = 12) -> Environment:
    return Environment(synthetic.generate(40, 3), seed, arrivals)


# --- the competition ---------------------------------------------------------------------------------------------------


@needs_data
def test_published_days_replay_to_the_integer():
    source = Source(DATA, 50)
    days, published = source.days("train"), source.published()
    assert len(days) == 30
    for day in days:
        cost, waves, actions = replay(source.environment(day), published[day.name].routes)
        assert cost == published[day.name].cost, day
        served = [int(wave.ids[i]) for wave, routes in zip(waves, actions, strict=True) for route in routes for i in route]
        assert sorted(served) == list(range(1, len(served) + 1)), "every request of the day is served once"


@needs_data
def test_splits_are_those_of_the_protocol():
    source = Source(DATA, 50)
    assert [len(source.days(split)) for split in ("train", "validation", "test")] == [30, 15, 22]
    train = {day.instance for day in source.days("train") + source.days("validation")}
    assert not train & {day.instance for day in source.days("test")}
    with pytest.raises(ValueError, match="test has 22 days, got a request for 23"):
        source.days("test", 23)


def test_a_folder_without_data_says_where_they_are(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"github\.com/ortec"):
        find_folder(tmp_path)
    monkeypatch.setenv("MOVEGRAD_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"splits\.json"):
        find_folder()


# --- rules, by hand ----------------------------------------------------------------------------------------------------


def test_waves_of_a_day():
    assert epochs(tiny()) == (1, 2)  # windows start at 9000 and 12600: (9000−3600)//3600 and (12600−3600)//3600
    early = replace(tiny(), windows=np.array([[0, 30_000], [0, 16_200], [3599, 19_800]]))
    assert epochs(early) == (0, 0)


def test_arrivals_follow_the_stated_draws():
    instance = tiny()
    rng = np.random.default_rng(7)
    expected = []
    for epoch in (1, 2):
        place, window, demand, service = (rng.integers(2, size=4) + 1 for _ in range(4))
        for c, w, q, s in zip(place, window, demand, service, strict=True):
            (low, high), length = instance.windows[w], instance.service[s]
            arrival = max(3600 * epoch + 3600 + instance.durations[0, c], low)
            if arrival <= high and arrival + length + instance.durations[c, 0] <= 30_000:
                expected.append((epoch, c, low, high, instance.demands[q], length))
    r = draw_requests(instance, 7, 4)
    assert [tuple(map(int, row)) for row in expected] == [
        tuple(map(int, row)) for row in zip(r.epochs, r.locations, *r.windows.T, r.demands, r.service, strict=True)
    ]


def test_cost_windows_and_flags_of_a_wave_by_hand():
    instance = tiny()
    requests = draw_requests(instance, 0, 1)
    requests = replace(
        requests,
        epochs=np.array([1, 1]),
        locations=np.array([1, 2]),
        windows=np.array([[9000, 11_200], [12_600, 19_800]]),
        demands=np.array([5, 5]),
        service=np.array([60, 120]),
    )
    wave = make_wave(instance, requests, np.array([0, 1]), 1)
    assert wave.departure == 7200
    assert wave.windows.tolist() == [[0, 22_800], [1800, 4000], [5400, 12_600]]
    assert wave.must.tolist() == [False, True, False]  # from 10800 + 600 the first window is over
    assert wave.cost([[1, 2]]) == 600 + 300 + 1300
    assert wave.complaint([1, 2]) is None
    assert "after its window ends at 4000" in wave.complaint([2, 1])
    last = make_wave(instance, requests, np.array([1]), 2)
    assert last.must.tolist() == [False, True]


def test_single_routes_are_always_feasible_and_open_requests_in_time():
    for seed in range(5):
        environment = small(seed)
        wave, _ = environment.reset()
        done = False
        while not done:
            assert all(wave.complaint([i]) is None for i in range(1, len(wave) + 1))
            wave, _, done, _, _ = environment.step([[int(wave.ids[i])] for i in np.flatnonzero(wave.must)])


def test_arrivals_do_not_depend_on_actions():
    def play(serve_all: bool) -> list[set[int]]:
        environment = small(1)
        wave, _ = environment.reset()
        seen, done = [], False
        while not done:
            seen.append(set(environment.requests.epochs[wave.ids[1:] - 1].tolist()))
            chosen = range(1, len(wave) + 1) if serve_all else np.flatnonzero(wave.must)
            wave, _, done, _, _ = environment.step([[int(wave.ids[i])] for i in chosen])
        return [max(s) for s in seen]

    assert play(True) == play(False)
    a, b = small(1), small(1)
    a.reset(), b.reset(seed=1)
    assert (a.requests.locations == b.requests.locations).all()
    b.reset(seed=2)
    assert len(a.requests) != len(b.requests) or (a.requests.locations != b.requests.locations).any()


def test_reward_is_minus_the_cost_and_the_day_ends():
    environment = small()
    wave, info = environment.reset()
    total, done, waves = 0.0, False, 0
    while not done:
        routes = [[int(i)] for i in wave.ids[1:]]
        expected = wave.cost(wave.positions(routes))
        wave, reward, done, truncated, info = environment.step(routes)
        assert reward == -expected
        assert not truncated
        total, waves = total + reward, waves + 1
    assert wave is None
    assert waves == environment.last_epoch - environment.first_epoch + 1
    assert environment.cost == -total == info["total"]
    assert info["open"] == 0
    with pytest.raises(ValueError, match="call reset first"):
        environment.step([])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda w: [], "must be dispatched in wave"),
        (lambda w: [[99_999]], "request 99999 is not open in wave"),
        (lambda w: [[int(w.ids[1])], [int(w.ids[1])]], "is served twice"),
        (lambda w: [[int(i)] for i in w.ids[1:]] + [[]], "it is empty"),
        (lambda w: [w.ids[1:].tolist()], "is infeasible"),
    ],
)
def test_infeasible_actions_say_why_and_change_nothing(action, message):
    environment = small(0, 30)
    wave, _ = environment.reset()
    while not wave.must.any():
        wave, *_ = environment.step([])
    before = environment.open.copy()
    with pytest.raises(InfeasibleAction, match=message):
        environment.step(action(wave))
    assert (environment.open == before).all()
    assert environment.wave is wave


def test_load_and_end_of_day_are_checked():
    environment = small(0, 30)
    wave, _ = environment.reset()
    heavy = replace(wave, demands=np.r_[0, np.full(len(wave), 100)])
    assert "load 200 exceeds the capacity 145" in heavy.complaint([1, 2])
    short = replace(wave, windows=np.vstack([[0, 10], wave.windows[1:]]))
    assert "after the day ends at 10" in short.complaint([1])


# --- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.txt.xz"])
def test_instances_survive_a_round_trip(tmp_path, name):
    instance = synthetic.generate(7, 1)
    write(instance, tmp_path / name)
    back = read(tmp_path / name)
    assert (back.name, back.capacity) == (instance.name, instance.capacity)
    for field in ("durations", "coordinates", "demands", "service", "windows"):
        assert (getattr(back, field) == getattr(instance, field)).all()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("line", "new", "message"),
    [
        (4, "DIMENSION : x", "header, line 4: expected integers, got 'x'"),
        (4, "DIMENSION : 1", "header, line 4: DIMENSION must be ≥ 2, got 1"),
        (5, "EDGE_WEIGHT_TYPE : EUC_2D", "header, line 5: EDGE_WEIGHT_TYPE must be EXPLICIT, got 'EUC_2D'"),
        (2, "nonsense", "header, line 2: expected NAME : VALUE or a section"),
        (7, "", "end of file, line 31: CAPACITY is missing"),
        (9, "0 1", "EDGE_WEIGHT_SECTION, line 9: expected 3 integers, got 2 words"),
        (9, "0 1 two", "EDGE_WEIGHT_SECTION, line 9: expected integers, got 'two'"),
        (9, "0 1 -2", "EDGE_WEIGHT_SECTION, line 9: expected integers ≥ 0, got -2"),
        (9, "4 1 2", "EDGE_WEIGHT_SECTION, line 9: the duration from a node to itself must be 0, got 4"),
        (11, "", "EDGE_WEIGHT_SECTION, line 12: the section ended after 2 of 3 lines"),
        (14, "3 1 1", "NODE_COORD_SECTION, line 14: expected node 2, got 3"),
        (15, "3 1 1\n4 1 1", "NODE_COORD_SECTION, line 16: more than 3 lines"),
        (16, "NODE_COORD_SECTION", "NODE_COORD_SECTION, line 16: this section was there before"),
        (21, "2", "DEPOT_SECTION, line 21: the depot must be node 1, got '2'"),
        (28, "1 50 40", "TIME_WINDOW_SECTION, line 28: a window must end after it starts, got 50 to 40"),
        (30, "EOF", "TIME_WINDOW_SECTION, line 30: the section ended after 2 of 3 lines"),
    ],
)
def test_errors_name_file_section_and_line(tmp_path, line, new, message):
    path = tmp_path / "broken.txt"
    write(synthetic.generate(2, 0), path)
    lines = path.read_text().splitlines()
    lines[line - 1] = new
    path.write_text("\n".join(lines))
    with pytest.raises(UnreadableInstance) as error:
        read(path)
    assert f"{path}, {message}" in str(error.value)


def test_missing_sections_and_files(tmp_path):
    path = tmp_path / "broken.txt"
    write(synthetic.generate(2, 0), path)
    text = path.read_text()
    path.write_text(text[: text.index("TIME_WINDOW_SECTION")])
    with pytest.raises(UnreadableInstance, match="TIME_WINDOW_SECTION is missing"):
        read(path)
    with pytest.raises(UnreadableInstance, match=r"nowhere\.txt cannot be read"):
        read(tmp_path / "nowhere.txt")
    (tmp_path / "cut.txt.xz").write_bytes(lzma.compress(text.encode())[:-30])
    with pytest.raises(UnreadableInstance, match=r"cut\.txt\.xz cannot be read"):
        read(tmp_path / "cut.txt.xz")


# --- generated instances -------------------------------------------------------------------------------------------------


def test_generated_instances_look_like_the_competition():
    instance = synthetic.generate(120, 5)
    off = ~np.eye(121, dtype=bool)
    straight = np.linalg.norm(instance.coordinates[:, None] - instance.coordinates[None], axis=-1)
    assert 0.75 < np.corrcoef(instance.durations[off], straight[off])[0, 1] < 0.95
    assert (instance.durations == instance.durations.T)[off].mean() < 0.1
    two_legs = (instance.durations[:, :, None] + instance.durations[None]).min(1)
    assert 0 < (instance.durations > two_legs).mean() < 0.2, "a few triangles break, most do not"
    assert instance.demands[1:].min() >= 1
    assert instance.demands.max() <= instance.capacity
    assert (instance.windows[:, 1] > instance.windows[:, 0]).all()
    assert (instance.durations[off] > 0).all()


def test_generated_instances_depend_on_their_name_alone():
    one, two = synthetic.by_name("synthetic-n30-s4"), synthetic.generate(30, 4)
    assert (one.durations == two.durations).all()
    assert (one.durations != synthetic.generate(30, 5).durations).any()
    with pytest.raises(ValueError, match="synthetic-n<customers>-s<seed>, got 'other'"):
        synthetic.by_name("other")
    days = Source(None, 10, 30).days("test", 3)
    assert days[0] == Day("synthetic-n30-s2000", 0)
    assert not set(days) & set(Source(None, 10, 30).days("train", 3))
