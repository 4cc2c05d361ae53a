"""Everything a user holds can be pickled, and goes on with the same numbers; also in processes that begin anew."""

import copy
import importlib.util
import multiprocessing
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import Hypercube, Knapsack, TopK

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    """A module as users have it: found by its name in other processes too."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


@mg.jit
def crowded(y):
    return -0.1 * y.sum() ** 2


PROBLEMS = {
    "top-k": lambda: TopK(6, 2),
    "guided top-k": lambda: TopK(6, 2, guided=True),
    "hypercube": lambda: Hypercube(4, exactly=(1, 2), weights=(1, 3)),
    "φ of the user": lambda: Hypercube(5, phi=crowded),
    "lazy": lambda: Hypercube(5, extra_moves=[mg.stay()]),
    "knapsack": lambda: Knapsack([[2.0, 3.0, 4.0, 5.0]], [7.0]),
    "routing": lambda: example("routing").problem,
    "template": lambda: example("template").problem,
    "tsp": lambda: example("tsp").problem,
}


def again(value):
    return pickle.loads(pickle.dumps(value))


def drawn(problem):
    return mg.sample(problem, np.linspace(-1, 1, problem.size), steps=200, chains=2, seed=3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_pickled_problem_is_the_same_problem(name):
    problem = PROBLEMS[name]()
    other = again(problem)
    np.testing.assert_array_equal(drawn(problem).mean, drawn(other).mean)
    theta = np.zeros(problem.size)
    assert len(mg.sample([problem, other], [theta, theta], steps=5).mean) == 2  # of one kind
    if problem.states is not None:
        assert [list(y) for y in other.states()] == [list(y) for y in problem.states()]


def test_results_can_be_pickled():
    problem = TopK(6, 2)
    out, found = drawn(problem), mg.solve(problem, np.linspace(-1, 1, 6), steps=100)
    other, again_found = again(out), again(found)
    np.testing.assert_array_equal(other.mean, out.mean)
    np.testing.assert_array_equal(other.solutions, out.solutions)
    np.testing.assert_array_equal(again_found.solution, found.solution)
    assert again_found.objective == found.objective
    for info, copied in ((out.info, other.info), (found.info, again_found.info)):
        assert str(info) == str(copied)
        np.testing.assert_array_equal(info.trace, copied.trace)
        np.testing.assert_array_equal(info.ess["objective"], copied.ess["objective"])
        assert [f.tolist() for f in info.frozen] == [f.tolist() for f in copied.frozen]
    np.testing.assert_array_equal(out.info.standard_error, other.info.standard_error)
    np.testing.assert_array_equal(copy.deepcopy(out.info).standard_error, out.info.standard_error)


def test_pickles_of_diagnostics_hold_no_chains():
    """Nor θ: they are about a run, not able to go on with it."""
    info = mg.sample(TopK(2_000, 2), np.zeros((50, 2_000)), steps=10, trace=0).info
    assert len(pickle.dumps(info)) < 0.3 * 50 * 2_000 * 8


def test_results_of_routing_can_be_read_after_pickling():
    problem = example("routing").problem
    found = mg.solve(problem, np.ones(problem.size), steps=200)
    assert again(found).routes == found.routes


@pytest.mark.parametrize("schedule", [None, mg.schedules.constant(2.0), mg.schedules.truncated_geometric(8.0, 0.5, 1.0)])
@pytest.mark.parametrize("start", ["random", "persistent", "greedy", mg.start.Heuristic("random")])
def test_layers_and_losses_can_be_pickled(start, schedule):
    torch = pytest.importorskip("torch")
    problem = example("routing").problem if isinstance(start, mg.start.Heuristic) else example("template").problem
    layer = mg.torch.LocalSearchLayer(problem, steps=20, chains=2, start=start, schedule=schedule)
    loss, one_step = mg.torch.FenchelYoungLoss(layer, start="random"), mg.torch.OneStepLoss(problem)
    theta = torch.linspace(-1, 1, 2 * problem.size, dtype=torch.float64).reshape(2, -1)
    y = np.stack([problem.solution] * 2)
    layer(theta, index=[4, 5])
    others = again((layer, loss, one_step))
    assert torch.equal(layer(theta, index=[4, 5]), others[0](theta, index=[4, 5]))
    assert torch.equal(loss(theta, y), others[1](theta, y))
    if problem.size == 5:
        assert torch.equal(one_step(theta, y), others[2](theta, y))


def listing(n):
    return lambda: (np.array(y) for y in np.ndindex(*(2,) * n))


def unnamed():
    cube = Hypercube(3)
    return mg.Problem(cube.data, cube.state, cube.moves, 3, states=listing(3), name="unnamed")


def test_a_problem_whose_list_of_solutions_cannot_be_pickled_works_and_says_what_is_missing():
    problem = unnamed()
    other = again(problem)
    np.testing.assert_array_equal(drawn(problem).mean, drawn(other).mean)
    with pytest.raises(ValueError, match=r"^states of unnamed must be an object that can be pickled, .*, got a lambda .*\.$"):
        other.states()
    with pytest.raises(ValueError, match="states of unnamed must be an object that can be pickled"):
        again(other).states()
    for copied in (copy.copy(problem), copy.deepcopy(problem)):
        assert len(list(copied.states())) == 8


# --- other processes -------------------------------------------------------------------------------------------------------


def mean_of(problem):
    return drawn(problem).mean


def test_problems_go_to_a_spawned_pool(monkeypatch):
    """A process that begins anew imports the modules of the problem; ``sys.path`` comes along."""
    problems = [example("template").problem, unnamed(), TopK(6, 2)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(mean_of, problems)
    for problem, mean in zip(problems, found, strict=True):
        np.testing.assert_array_equal(mean, drawn(problem).mean)


class Solved:
    """A data set whose labels are made by workers."""

    def __init__(self, layer):
        self.layer = layer

    def __len__(self):
        return 4

    def __getitem__(self, i):
        import torch

        theta = torch.full((1, self.layer.problem.size), float(i))
        return self.layer(theta, index=[i], call=0)[0]


@pytest.mark.filterwarnings("ignore:::torch")
def test_layers_go_to_spawned_workers_of_a_loader():
    torch = pytest.importorskip("torch")
    data = Solved(mg.torch.LocalSearchLayer(example("template").problem, steps=20))
    here, there = (
        torch.cat(list(torch.utils.data.DataLoader(data, num_workers=n, multiprocessing_context="spawn" if n else None)))
        for n in (0, 1)
    )
    assert torch.equal(here, there)


SCRIPT = """
import multiprocessing
from typing import NamedTuple
import numpy as np
import movegrad as mg

class Data(NamedTuple):
    length: int

class State(NamedTuple):
    y: np.ndarray

@mg.jit
def propose(data, state, rng):
    return mg.integer(rng, len(state.y)), 0.0

@mg.jit
def change(data, state, i, m):
    return i, 1 - 2 * state.y[i]

@mg.jit
def apply(data, state, i):
    state.y[i] = 1 - state.y[i]

def mean(problem):
    return mg.sample(problem, np.zeros(3), steps=50).mean.tolist()

if __name__ == "__main__":
    flips = mg.Problem(Data(3), State(np.zeros(3, np.int64)), [mg.Move("flip", propose, change, apply)], 3)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(mean, [flips]) == [mean(flips)])
"""


def test_a_problem_of_a_script_goes_to_a_spawned_pool(tmp_path):
    import subprocess

    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True"], done.stderr
