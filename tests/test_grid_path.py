"""Paths on a grid: the set, its moves, its law in closed form, and arcs read as paths."""

import pickle
import re
from math import comb

import numpy as np
import pytest

import movegrad as mg
from movegrad._calls import observe
from movegrad.problems import ShortestPath
from tests.slow import slow_but_for

GRIDS = [(2, 2), (3, 3), (3, 4), (4, 2), (1, 4), (3, 1), (1, 2)]


def paths(h, w):
    """All paths as lists of nodes, by walking."""
    out, stack = [], [[0]]
    while stack:
        path = stack.pop()
        row, column = divmod(path[-1], w)
        if (row, column) == (h - 1, w - 1):
            out.append(path)
        stack += [[*path, path[-1] + 1]] * (column < w - 1) + [[*path, path[-1] + w]] * (row < h - 1)
    return out


@pytest.mark.parametrize("grid", GRIDS)
def test_solutions_are_all_paths_and_arcs_are_theirs(grid):
    problem, (h, w) = ShortestPath(grid), grid
    ys = np.array(list(problem.states()))
    assert len(ys) == problem.states.at_least == comb(h + w - 2, h - 1)
    found = [problem.describe(y)["nodes"] for y in ys]
    assert sorted(found) == sorted(paths(h, w))
    used = observe(problem, ys).statistics
    assert (used.sum(1) == h + w - 2).all()
    np.testing.assert_array_equal(problem.from_arcs(used), ys)
    np.testing.assert_array_equal(problem.from_arcs(used[0]), ys[0])


@pytest.mark.parametrize("moves", [("corner", "swap"), ("corner",), ("swap",)])
@pytest.mark.parametrize("grid", GRIDS)
def test_moves_are_right(grid, moves):
    mg.check(ShortestPath(grid, moves=moves), compiled=False).raise_if_wrong()


@pytest.mark.parametrize("grid", slow_but_for([(3, 3)], [(3, 3), (1, 3)]))
def test_the_compiled_chain_is_right(grid):
    mg.check(ShortestPath(grid)).raise_if_wrong()


@pytest.mark.parametrize("grid", GRIDS)
def test_the_closed_form_is_the_law_of_all_paths(grid):
    problem = ShortestPath(grid)
    used = observe(problem, np.array(list(problem.states()))).statistics
    theta = np.random.default_rng(0).normal(size=(2, 3, problem.size))
    weight = np.exp(theta @ used.T / 0.7)
    np.testing.assert_allclose(mg.exact.log_partition(problem, theta, 0.7), np.log(weight.sum(-1)))
    np.testing.assert_allclose(mg.exact.marginals(problem, theta, 0.7), weight @ used / weight.sum(-1, keepdims=True), atol=1e-12)


def test_samples_of_the_closed_form_have_the_law():
    """|z| > 6 somewhere with probability < 1e-6."""
    problem, theta = ShortestPath((3, 4)), np.random.default_rng(1).normal(size=17)
    ys = problem.oracle.sample(theta, 1.0, 4000, np.random.default_rng(2))
    exact = mg.exact.marginals(problem, theta)
    error = np.sqrt(exact * (1 - exact) / 4000) + 1e-9
    assert (np.abs(observe(problem, ys).statistics.mean(0) - exact) / error).max() < 6


def test_annealing_finds_the_shortest_path_of_a_larger_grid():
    cost = np.random.default_rng(3).uniform(size=12 * 11 * 2)
    problem = ShortestPath((12, 12))
    shortest = -1e-4 * mg.exact.log_partition(problem, -cost, 1e-4)  # log Z → max as t → 0
    assert -mg.solve(problem, -cost, steps=200_000).objective == pytest.approx(float(shortest), abs=1e-3)


def test_a_problem_survives_pickling():
    problem = pickle.loads(pickle.dumps(ShortestPath((3, 3))))
    assert len(list(problem.states())) == 6


BAD = {
    "number": (lambda: ShortestPath(3), "grid must be a sequence of two numbers"),
    "three": (lambda: ShortestPath((1, 2, 3)), "grid must be a sequence of two numbers, rows and columns, got 3"),
    "zero": (lambda: ShortestPath((0, 3)), "grid must be in 1..32768, got 0"),
    "one node": (lambda: ShortestPath((1, 1)), "grid must have two nodes or more, got 1 × 1"),
    "moves": (lambda: ShortestPath((2, 2), moves=["flip"]), "moves must be one of 'corner', 'swap', got 'flip'"),
    "no moves": (lambda: ShortestPath((2, 2), moves=[]), "moves must name one move or more"),
    "arcs": (lambda: ShortestPath((2, 2)).from_arcs(np.ones(3)), r"arcs must have a last axis of 4 entries, got shape \(3,\)"),
    "both": (lambda: ShortestPath((2, 2)).from_arcs(np.ones(4)), "arcs must be those of a path, got two arcs from node 0"),
    "none": (lambda: ShortestPath((2, 2)).from_arcs(np.zeros(4)), "arcs must be those of a path, got no arc from node 0"),
    "beside": (lambda: ShortestPath((2, 2)).from_arcs([[1, 0, 1, 1]]), "arcs must be those of a path, got 1 beside it in row 0"),
    "values": (lambda: ShortestPath((2, 2)).from_arcs([1, 0, 0.5, 0]), "arcs must be those of a path, got no arc from node 1"),
}


@pytest.mark.parametrize(("call", "found"), BAD.values(), ids=BAD)
def test_bad_input_is_told_in_one_sentence(call, found):
    with pytest.raises(ValueError, match=f"^{found}") as caught:
        call()
    assert re.fullmatch(r"[^\n]*\bmust\b[^\n]*\.", str(caught.value))
