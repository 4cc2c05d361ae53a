"""A function of the user that does not compile, or returns something else than it should, is named with its line."""

from dataclasses import replace

import numpy as np
import pytest

import movegrad as mg
from movegrad._calls import observe
from movegrad.engine.explain import returns_nothing
from movegrad.problems.hypercube import FLIP

CUBE = mg.problems.Hypercube(3)


@mg.jit
def bare_proposal(data, state, rng):
    return mg.integer(rng, len(state.y))


@mg.jit
def lost_proposal(data, state, rng):
    if mg.coin(rng, 0.5):
        return 1, 0.0


@mg.jit
def bare_change(data, state, move, m):
    return 1 - 2 * np.int64(state.y[move])


@mg.jit
def silent_change(data, state, move, m):
    1 - 2 * np.int64(state.y[move])


@mg.jit
def complex_gain(data, state, move):
    return 1j * move


def plain_helper(move):
    return 2.0 * move


@mg.jit
def helped_gain(data, state, move):
    return plain_helper(move)


@mg.jit
def vector_phi(data, solution):
    return solution


WRONG = {
    "a proposal without a ratio": (
        {"propose": bare_proposal},
        r"propose of move 'flip' of Problem must return the pair \(move, .*, got an integer \(bare_proposal, .*_explain\.py:18\)\.",
    ),
    "a proposal that ends without a value": (
        {"propose": lost_proposal},
        r"propose of move 'flip' of Problem must always return .*, got nothing at one of its ends \(lost_proposal, ",
    ),
    "a change without an index": (
        {"change": bare_change},
        r"change of move 'flip' of Problem must return the pair \(index, difference\) .*, got an integer \(bare_change, ",
    ),
    "a change without a return": (
        {"change": silent_change},
        r"change of move 'flip' must return the pair \(index, difference\) .*, got a function without a return \(silent_change, ",
    ),
    "a complex gain": ({"gain": complex_gain}, "gain of move 'flip' of Problem must return a number, got a complex number "),
    "a helper of plain Python": (
        {"gain": helped_gain},
        "but plain_helper is a plain Python function, which movegrad.jit would compile",
    ),
    "an array for a number": ({"phi": vector_phi}, "phi of Problem must return a number, got an array "),
}


def sampled(phi=None, **of_move):
    problem = mg.Problem(CUBE.data, CUBE.state, [replace(FLIP, **of_move)], 3, phi=phi)
    return mg.sample(problem, np.zeros(3), steps=64)


@pytest.mark.parametrize("name", WRONG)
def test_a_function_that_returns_something_else_is_named_with_its_line(name):
    functions, message = WRONG[name]
    with pytest.raises(ValueError, match=message) as caught:
        sampled(**functions)
    assert "\n" not in str(caught.value)


def test_what_observations_are_read_with_is_named_too():
    problem = mg.Problem(CUBE.data, CUBE.state, [FLIP], 3, contains=helped_contains)
    with pytest.raises(
        ValueError, match="contains of Problem must compile for a kernel, but plain_helper is a plain Python function"
    ):
        observe(problem, np.zeros((1, 3), np.uint8))


@mg.jit
def helped_contains(data, solution):
    return plain_helper(solution[0]) >= 0.0


def nothing(x):
    x + 1


def bare_return(x):
    if x:
        return
    x + 1


def something(x):
    for _ in range(x):
        if x > 2:
            return x


def endless(x):
    while True:
        x += 1


def test_functions_that_never_return_a_value_are_known():
    assert returns_nothing(nothing)
    assert returns_nothing(bare_return)
    assert not returns_nothing(something)
    assert not returns_nothing(endless)  # it does not return at all
    assert not returns_nothing(lambda x: x)
