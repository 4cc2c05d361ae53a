"""Energy-cost-aware scheduling: proved on small ones, held to brute force and to known optima of the ICON loads."""

import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import HOST, Begin, Settings, shared_batch
from movegrad.problems import EnergyScheduling
from movegrad.problems.energy_scheduling import MOVES
from tests.slow import slow_but_for

ARENA = Path(__file__).parents[2] / "shared" / "data" / "arena" / "icon"

PROBLEMS = {
    "two tasks": lambda: EnergyScheduling([2, 1], [0, 0], [4, 4], [3.0, 5.0], [1, 1], [1], 4),
    "all moves": lambda: EnergyScheduling([2, 1], [0, 0], [4, 4], [3.0, 5.0], [1, 1], [1, 1], 4, moves=tuple(MOVES)),
    "two resources": lambda: EnergyScheduling(
        [2, 1, 2],
        [0, 1, 0],
        [4, 3, 4],
        [3.0, 5.0, 0.7],
        [[1, 0.1], [0.3, 0.2], [0.7, 0.9]],
        [[1, 1], [2, 0.9]],
        4,
        moves=tuple(MOVES),
        beta=0.7,
        slot_hours=0.5,
        shares=[1, 2, 3, 4, 5],
    ),
    "one slot": lambda: EnergyScheduling([1], [0], [1], [0.0], [0], [0], 1, moves=tuple(MOVES)),
    "a task that cannot move": lambda: EnergyScheduling([2, 3], [0, 0], [2, 5], [1.0, 2.0], [1, 0], [1], 5),
    "relocate alone": lambda: EnergyScheduling([1, 2], [0, 0], [3, 3], [1.0, 2.0], [1, 1], [1, 1], 3, moves=["relocate"]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_proved_right(name):
    report = mg.check(PROBLEMS[name](), temperatures=(0.3, 1.0, 5.0), compiled=False)
    assert report.ok, report


@pytest.mark.parametrize("name", slow_but_for(["two resources"], ["two tasks", "two resources"]))
def test_the_compiled_chain_is_right(name):
    report = mg.check(PROBLEMS[name]())
    assert report.ok, report


def random_arguments(seed):
    rng = np.random.default_rng(seed)
    durations, releases = rng.integers(1, 4, 3), rng.integers(0, 2, 3)
    deadlines = np.minimum(releases + durations + rng.integers(0, 3, 3), 6)
    return durations, releases, deadlines, rng.random(3), rng.integers(1, 4, (3, 2)), np.array([[5, 5], [4, 4]]), 6


def brute_force(durations, releases, deadlines, powers, uses, capacities, slots):
    """All schedules and their energy, by trying all places of all tasks."""
    places = [
        [(s, m) for s in range(r, e - d + 1) for m in range(2)] for d, r, e in zip(durations, releases, deadlines, strict=True)
    ]
    every, energies = [], []
    for schedule in product(*places):
        load, energy = np.zeros((2, slots, 2)), np.zeros(slots)
        for (s, m), d, p, u in zip(schedule, durations, powers, uses, strict=True):
            load[m, s : s + d] += u
            energy[s : s + d] += p
        if (load <= capacities[:, None]).all():
            every.append([s for s, _ in schedule] + [m for _, m in schedule])
            energies.append(energy)
    return np.array(every), np.array(energies)


@pytest.mark.parametrize("seed", range(4))
def test_laws_and_optima_are_those_of_brute_force(seed):
    arguments = random_arguments(seed)
    problem, theta = EnergyScheduling(*arguments), np.random.default_rng(seed + 9).normal(size=6)
    every, energies = brute_force(*arguments)
    np.testing.assert_array_equal(sorted(map(tuple, every)), sorted(tuple(y) for y in problem.states()))
    p = np.exp(energies @ theta / 0.6)
    np.testing.assert_allclose(mg.exact.marginals(problem, theta, 0.6), p @ energies / p.sum(), rtol=1e-10, atol=1e-13)
    found = mg.solve(problem, theta, steps=4000)
    assert found.objective == pytest.approx((energies @ theta).max())


def test_profiles_are_exact_after_many_steps():
    rng = np.random.default_rng(3)
    durations = rng.integers(1, 8, 12)
    problem = EnergyScheduling(
        durations,
        np.zeros(12, int),
        np.full(12, 24),
        rng.random(12),
        rng.random((12, 2)),
        np.full((3, 2), 1.3),
        24,
        moves=tuple(MOVES),
    )
    batch, begin = shared_batch(HOST, problem, rng.normal(size=(1, 24))), Begin(problem.solution, np.zeros(1, np.int64))
    chains = HOST.execute(batch, Settings(steps=300_000, temperature=2.0), begin, np.arange(1)).chains
    assert chains.counts[0, :5, 1].min() > 100
    starts, machines = problem.decode(chains.states[0])
    room = np.repeat(problem.data.capacity[:, :, None], 24, axis=2)
    for f in range(12):
        room[machines[f], :, starts[f] : starts[f] + durations[f]] -= problem.data.use[f][:, None]
    np.testing.assert_array_equal(chains.states[1].reshape(room.shape), room)


# --- the ICON challenge -----------------------------------------------------------------------------------------------

ICON = """30
1
2
0 190 0.1 0.0
10
1 170 0.1 0.1
7
3
0 10 1 25 471.40
6
1 23 8 47 426.43
3
2 2 20 22 389.04
5
"""


def test_a_file_of_the_challenge_is_read(tmp_path):
    (tmp_path / "day.txt").write_text(ICON)
    problem = EnergyScheduling.read(tmp_path / "day.txt", moves=["shift", "move"])
    assert problem.size == 48
    assert [m.name for m in problem.moves] == ["shift", "move"]
    np.testing.assert_array_equal(problem.data.duration, [10, 23, 2])
    np.testing.assert_array_equal(problem.data.last, [15, 24, 20])
    np.testing.assert_array_equal(problem.data.capacity, [[10.0], [7.0]])
    np.testing.assert_allclose(problem.data.energy, [235.7, 213.215, 194.52])


@pytest.mark.parametrize("text", ["", "30\n1\n", ICON + "1", ICON.replace("471.40", "x"), "30\n0\n1\n0 1 1 1\n1\n0 1 0 1 1"])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "day.txt").write_text(text)
    with pytest.raises(ValueError, match=r"path must name a file of the ICON challenge, got .*, which is not one\."):
        EnergyScheduling.read(tmp_path / "day.txt")


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"path must name a file of the ICON challenge, got 'nowhere\.txt' \(.*No such file"):
        EnergyScheduling.read("nowhere.txt")


needs_arena = pytest.mark.skipif(not ARENA.exists(), reason="needs the instances of the ICON challenge beside the repository")


@needs_arena
def test_all_instances_have_a_first_schedule():
    paths = [*sorted(ARENA.glob("loads/*/*.txt")), *sorted(ARENA.glob("hard/*/instance.txt"))]
    assert len(paths) == 122
    for path in paths:
        EnergyScheduling.read(path)


@needs_arena
def test_known_optima_are_reached():
    """Mean of the exact optima over the 177 test days of load 2, to the cent (HiGHS and CP-SAT agree on it)."""
    prices = np.maximum(np.load(ARENA / "prices_clean.npz")["price"][612:], 0.0)
    problem = EnergyScheduling.read(ARENA / "loads" / "load2" / "day01.txt")
    cost = -mg.solve(problem, -prices, steps=100_000).objective
    assert cost.mean() == pytest.approx(1238113.04, abs=0.01)
    assert np.median(cost) == pytest.approx(1235040.33, abs=0.01)


# --- what users give and get ------------------------------------------------------------------------------------------

RIGHT = {
    "durations": [2, 1],
    "releases": [0, 0],
    "deadlines": [4, 4],
    "powers": [3.0, 5.0],
    "uses": [1, 1],
    "capacities": [1],
    "slots": 4,
}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"slots": 0}, r"slots must be ≥ 1, got 0\."),
        ({"durations": [0, 1]}, r"durations must be in 1\.\.4, got 0\."),
        ({"durations": [1.5, 1]}, r"durations must be integers, one for each task, got shape \(2,\) of float64\."),
        ({"releases": [0]}, r"releases must be integers, one for each of the 2 tasks, got shape \(1,\)"),
        ({"deadlines": [4, 5]}, r"deadlines must be in 0\.\.4, got 5\."),
        ({"deadlines": [1, 4]}, r"deadlines must leave room for the tasks, got 1 for task 0, which takes 2 from 0 on\."),
        ({"powers": [1.0]}, r"powers must have one entry for each of the 2 tasks, got 1\."),
        ({"powers": [1.0, -1.0]}, r"powers must be finite and ≥ 0, got -1\.0 among its entries\."),
        ({"uses": [[1, 2], [1, 2]]}, r"capacities must have one column for each of the 2 resources, got 1\."),
        ({"uses": [2, 1]}, r"uses must fit into some machine, got \[2\.0\] of task 0\."),
        ({"deadlines": [2, 2]}, r"start must be given, since no schedule of the 2 tasks within windows and capacities was found"),
        ({"moves": []}, r"moves must name at least one move, got none\."),
        ({"slot_hours": 0}, r"slot_hours must be finite and > 0, got 0\."),
        ({"start": ([0, 1], [0, 0])}, r"start must be in the set, but machine 0 has 1 of resource 0, and 2 are used in slot 1\."),
        ({"start": [3, 1, 0, 0]}, r"start must be in the set, but task 0 must begin in 0\.\.2, and begins in 3\."),
        ({"start": [0, 2, 0, 1]}, r"start must be in the set, but machines are 0\.\.0\."),
        ({"start": [0, 2]}, r"start must be 2 start slots and 2 machines, all integers, got shape \(2,\) of int64\."),
    ],
)
def test_bad_input_is_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        EnergyScheduling(**(RIGHT | wrong))


def test_starts_and_machines_can_be_given_and_read():
    problem = EnergyScheduling(**RIGHT)
    solution = problem.encode(([0, 2], [0, 0]))
    np.testing.assert_array_equal(solution, [0, 2, 0, 0])
    starts, machines = problem.decode(solution)
    assert starts.tolist() == [0, 2]
    assert machines.tolist() == [0, 0]
    assert mg.sample(problem, np.zeros(4), steps=1, start=([0, 2], [0, 0])).solutions.shape == (1, 4)
    with pytest.raises(ValueError, match=r"starts and machines must have 2 entries each, got shapes \(2,\) and \(1,\)\."):
        problem.encode(([0, 2], [0]))
    with pytest.raises(ValueError, match=r"solution must have a last axis of 4 entries, got shape \(3,\)\."):
        problem.decode([0, 1, 2])
    with pytest.raises(ValueError, match=r"start must be in the set.*and 2 are used in slot 1"):
        mg.sample(problem, np.zeros(4), steps=1, start=([0, 1], [0, 0]))


def test_problems_pickle():
    problem, theta = EnergyScheduling(**RIGHT), np.arange(4.0)
    copy = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(*(mg.sample(p, theta, steps=300).mean for p in (problem, copy)))


def test_a_loss_learns_from_a_label():
    torch = pytest.importorskip("torch")
    problem = EnergyScheduling(**RIGHT)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=200))
    theta = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    loss(theta, torch.from_numpy(problem.encode(([0, 2], [0, 0]))[None])).backward()
    assert theta.grad is not None
    assert theta.grad.abs().sum() > 0


def test_a_list_of_decoded_schedules_is_as_many_solutions():
    """Two of them must not be read as the starts and the machines of two schedules."""
    problem = EnergyScheduling([1, 1], [0, 0], [2, 2], [1.0, 2.0], [1, 1], [2, 2], slots=2)
    solutions = np.array([[0, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 1]])
    for count in (1, 2, 3):
        some = solutions[:count]
        np.testing.assert_array_equal(problem.encode([problem.decode(y) for y in some]), some)
        np.testing.assert_array_equal(problem.statistic([problem.decode(y) for y in some]), problem.statistic(some))
    np.testing.assert_array_equal(problem.encode(problem.decode(solutions)), solutions)
    np.testing.assert_array_equal(problem.encode([(0, 1), (0, 0)]), solutions[0])


def test_resources_in_large_units_do_not_round_those_in_small_ones():
    problem = EnergyScheduling([1, 1], [0, 0], [2, 2], [1.0, 1.0], [[1e16, 1.0], [1e16, 1.0]], [[4e16, 1.0]], slots=2)
    assert sorted(y.tolist() for y in problem.states()) == [[0, 1, 0, 0], [1, 0, 0, 0]]
