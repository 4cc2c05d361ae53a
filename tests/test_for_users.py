"""What makes a day with the library shorter: T and objectives of solutions, words for numbers, a bar, steps in plain Python."""

from dataclasses import replace

import numpy as np
import pytest

import movegrad as mg
from movegrad import _cli
from movegrad.check import WrongProblem
from movegrad.problems import Hypercube, Knapsack, TopK


def test_statistics_and_objectives_of_solutions():
    knapsack, rng = Knapsack([[2.0, 3.0, 4.0]], [6.0]), np.random.default_rng(0)
    y, theta = np.array([[1, 1, 0], [0, 0, 1]]), rng.normal(size=3)
    np.testing.assert_array_equal(knapsack.statistic(y), y)
    np.testing.assert_allclose(knapsack.objective(theta, y), y @ theta)
    thetas = rng.normal(size=(2, 3))
    np.testing.assert_allclose(knapsack.objective(thetas, y), (y * thetas).sum(-1))
    linear = np.array([0.5, -1.0, 2.0])
    cube = Hypercube(3, phi=linear)
    np.testing.assert_allclose(cube.objective(theta, [1, 0, 1]), theta[0] + theta[2] + 2.5)
    found = mg.solve(cube, theta, steps=100)
    np.testing.assert_allclose(cube.objective(theta, found.solution), found.objective)
    np.testing.assert_array_equal(cube.decode(found.solution), found.solution)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Knapsack([[2.0, 3.0]], [4.0]).objective(np.zeros(2), [1, 1]), r"y must be in the set"),
        (lambda: TopK(3, 2).statistic([1, 1]), r"y must have a last axis of 3 entries, got shape \(2,\)"),
        (lambda: TopK(3, 2).objective(np.zeros((3, 3)), [1, 1, 0]), r"theta must have the leading axes \(\) of y"),
        (lambda: TopK(3, 2).objective(np.zeros(2), [1, 1, 0]), r"theta must have a last axis of 3 entries"),
        (lambda: mg.solve(TopK(3, 2), np.zeros(3), steps=9, cooling=(1.0,)), r"cooling must be two numbers > 0"),
        (lambda: mg.solve(TopK(3, 2), np.zeros(3), steps=9, cooling=(1.0, -1)), r"cooling must be finite and > 0, got -1"),
        (lambda: mg.solve(TopK(3, 2), np.zeros(3), steps=9, cooling=(1, 1), schedule=lambda k: 1.0), r"cooling must be left out"),
        (lambda: mg.sample(TopK(3, 2), np.zeros(3), steps=1.5), r"steps must be an integer, got 1.5"),
        (lambda: mg.sample(TopK(3, 2), np.zeros(3), steps=float("nan")), r"steps must be an integer, got nan"),
        (lambda: mg.sample(TopK(3, 2), np.zeros(3), steps=5, progress=3), r"progress must be"),
        (lambda: mg.debug(TopK(3, 2), np.zeros(2)), r"theta must have a last axis of 3"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


class Labeled(TopK):
    def read(self, solution):
        return {"label": int(solution.sum())}


def test_the_old_name_of_describe_still_works():
    with pytest.warns(DeprecationWarning, match="is called describe now"):
        assert mg.solve(Labeled(3, 2), np.zeros(3), steps=5).label == 2


def test_steps_may_be_written_as_1e3():
    theta = np.arange(3.0)
    one, other = (mg.sample(TopK(3, 2), theta, steps=n, burn_in=n / 2).mean for n in (1e3, 1000.0))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, mg.sample(TopK(3, 2), theta, steps=1000, burn_in=500).mean)


def test_cooling_replaces_that_of_the_problem():
    theta = np.random.default_rng(0).normal(size=40)
    cold = mg.solve(TopK(40, 9), theta, steps=2000, cooling=(1e-6, 1e-9)).info.acceptance
    warm = mg.solve(TopK(40, 9), theta, steps=2000, cooling=(1e3, 1e3)).info.acceptance
    assert cold[0] < 0.5 < warm[0]


def test_progress_is_a_bar_on_stderr(capsys):
    mg.sample(TopK(30, 9), np.zeros(30), steps=3_000_000, progress=True)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert "100%" in said
    mg.sample(TopK(30, 9), np.zeros(30), steps=3000, progress=False)
    assert capsys.readouterr().err == ""


# --- steps in plain Python -----------------------------------------------------------------------------------------------


@mg.jit
def beyond(data, state, move, m):
    return len(state.y) + move, 1


@mg.jit
def reads_beyond(data, state, move, m):
    return move, 1 - 2 * state.y[len(state.y)]


@mg.jit
def claims_too_much(data, state, move, m):
    return move, 2 - 2 * state.y[move]


@mg.jit
def flips_beyond(data, state, move):
    state.y[move + len(state.y)] ^= 1


def wrong(**functions) -> mg.Problem:
    cube = Hypercube(500)
    return mg.Problem(cube.data, cube.state, [replace(cube.moves[0], apply_if=None, **functions)], 500, name="wrong")


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"change": reads_beyond}, r"step 0, move 'flip': IndexError: .* in reads_beyond \(test_for_users.py:\d+\)"),
        ({"change": beyond}, r"step 0, move 'flip': change of 'flip' must return an index in 0..499, got \d+"),
        ({"apply": flips_beyond}, r"move 'flip': IndexError: .* in flips_beyond \(test_for_users.py:\d+\)"),
        ({"change": claims_too_much}, r"move 'flip': the objective changes by .*, but gain and change say"),
    ],
)
def test_debug_names_step_move_function_and_line(functions, message):
    with pytest.raises(WrongProblem, match=message):
        mg.debug(wrong(**functions), np.ones(500), steps=50, quiet=True)


def test_debug_makes_steps_of_an_instance_of_any_size(capsys):
    knapsack = Knapsack(np.ones((3, 300)), np.full(3, 20.0))
    walk = mg.debug(knapsack, np.ones(300), steps=200, seed=1)
    assert [step.number for step in walk] == list(range(200))
    assert {step.outcome for step in walk} >= {"accepted", "infeasible"}
    assert capsys.readouterr().out.count("\n") == 200
    assert walk[-1].objective == walk[-1].solution.sum() <= 20
    again = mg.debug(knapsack, np.ones(300), steps=200, seed=1, quiet=True)
    np.testing.assert_array_equal(walk[-1].solution, again[-1].solution)


def test_debug_refuses_a_start_outside_of_the_set():
    with pytest.raises(WrongProblem, match=r"the start \[1 1 1\] is not in the set"):
        mg.debug(TopK(3, 2), np.zeros(3), start=[1, 1, 1])


def test_the_command_makes_steps_and_tells_its_version(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("import movegrad as mg\nproblem = mg.problems.TopK(5, 2)\n", encoding="utf-8")
    assert _cli.main(["debug", f"{file}:problem", "--steps", "3"]) == 0
    assert capsys.readouterr().out.count("step ") == 3
    with pytest.raises(SystemExit):
        _cli.main(["--version"])
    assert capsys.readouterr().out.strip() == mg.__version__
