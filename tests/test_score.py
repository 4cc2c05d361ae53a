"""``score``: the change of ⟨θ, T(y)⟩ in O(1), by fields that depend on θ; ``attach`` fills them, ``follow`` keeps them."""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import movegrad as mg

EDGES = np.array([(0, 1), (1, 2), (2, 0), (2, 3)])


class Data(NamedTuple):
    edges: np.ndarray


class State(NamedTuple):
    side: np.ndarray
    field: np.ndarray  # of each node: what its flip adds to ⟨θ, T(y)⟩


@mg.jit
def other(data, i, e):
    """The other end of edge e, or −1."""
    a, b = data.edges[e, 0], data.edges[e, 1]
    return b if a == i else (a if b == i else -1)


@mg.jit
def propose(data, state, rng):
    return mg.integer(rng, len(state.side)), 0.0


@mg.jit
def changes(data, state, i):
    n = 0
    for e in range(len(data.edges)):
        n += other(data, i, e) >= 0
    return n


@mg.jit
def change(data, state, i, m):
    for e in range(len(data.edges)):
        j = other(data, i, e)
        if j >= 0:
            if m == 0:
                return e, 1 if state.side[i] == state.side[j] else -1
            m -= 1
    return 0, 0


@mg.jit
def apply(data, state, i):
    state.side[i] ^= 1


@mg.jit
def score(data, theta, state, i):
    return state.field[i]


@mg.jit
def attach(data, theta, state):
    for i in range(len(state.side)):
        state.field[i] = 0.0
        for e in range(len(data.edges)):
            j = other(data, i, e)
            if j >= 0:
                state.field[i] += theta[e] if state.side[i] == state.side[j] else -theta[e]


@mg.jit
def follow(data, theta, state, i):
    for e in range(len(data.edges)):
        j = other(data, i, e)
        if j >= 0:
            state.field[j] -= 2.0 * (theta[e] if state.side[i] == state.side[j] else -theta[e])
    state.field[i] = -state.field[i]


@mg.jit
def statistic(data, side, out):
    for e in range(len(data.edges)):
        out[e] = side[data.edges[e, 0]] != side[data.edges[e, 1]]


class Sides:
    """All of them; a class, so that problems pickle."""

    def __call__(self):
        return [np.array(y) for y in product((0, 1), repeat=4)]


FLIP = mg.Move("flip", propose, change, apply, changes=changes, score=score, follow=follow)


def cut(**other) -> mg.Problem:
    parts = {"moves": [FLIP], "attach": attach, "statistic": statistic, "states": Sides()} | other
    return mg.Problem(Data(EDGES), State(np.zeros(4, np.int64), np.zeros(4)), parts.pop("moves"), len(EDGES), **parts)


@mg.jit
def prepare(data, guide, temperature, state):
    for i in range(len(state.field)):
        state.field[i] = 0.0


def without_score() -> mg.Problem:
    return cut(moves=[replace(FLIP, score=None, follow=None)], attach=None, prepare=prepare)


def test_a_right_score_is_proved():
    report = mg.check(cut())
    assert report.ok, report
    assert "proved after every history" in report.histories


@pytest.mark.parametrize("options", [{}, {"estimator": "recycled"}, {"trace": 5}])
def test_chains_are_those_of_the_sum_over_changes(options):
    theta = np.random.default_rng(0).normal(size=(3, 4))
    one, other = (mg.sample(p, theta, steps=2000, chains=2, temperature=0.8, seed=1, **options) for p in (cut(), without_score()))
    np.testing.assert_array_equal(one.solutions, other.solutions)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)


def test_best_solutions_covariances_and_first_steps_are_the_same():
    theta = np.random.default_rng(1).normal(size=4)
    np.testing.assert_allclose(*(mg.solve(p, theta, steps=500, seed=2).objective for p in (cut(), without_score())), rtol=1e-12)
    v = np.arange(4.0)
    np.testing.assert_allclose(
        *(mg.jacobian_product(p, theta, v, steps=500, seed=2)[0] for p in (cut(), without_score())), rtol=1e-12
    )


@mg.jit
def wrong_score(data, theta, state, i):
    return -state.field[i]


@mg.jit
def wrong_for_large_negative_theta(data, theta, state, i):
    return state.field[i] * (1.01 if theta[len(theta) - 1] < -20.0 else 1.0)


@mg.jit
def wrong_for_large_positive_theta(data, theta, state, i):
    return state.field[i] * (1.01 if theta[len(theta) - 1] > 20.0 else 1.0)


@mg.jit
def lazy_follow(data, theta, state, i):
    state.field[i] = -state.field[i]


@mg.jit
def wrong_attach(data, theta, state):
    for i in range(len(state.field)):
        state.field[i] = theta[0]


@mg.jit
def follow_and_apply(data, theta, state, i):
    follow(data, theta, state, i)
    apply(data, state, i)


@mg.jit
def stay(data, state, i):
    pass


@mg.jit
def no_number(data, theta, state, i):
    state.side[0] += 0


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"moves": [replace(FLIP, score=wrong_score)]}, "wrong score"),
        ({"moves": [replace(FLIP, score=wrong_for_large_negative_theta)]}, "wrong score"),
        ({"moves": [replace(FLIP, score=wrong_for_large_positive_theta)]}, "wrong score"),
        ({"moves": [replace(FLIP, follow=lazy_follow)]}, "stale state"),
        ({"moves": [replace(FLIP, follow=None)]}, "stale state"),
        ({"moves": [replace(FLIP, follow=follow_and_apply, apply=stay)]}, "proposal"),
        ({"attach": wrong_attach}, "wrong score"),
    ],
)
def test_wrong_ones_are_found(wrong, kind):
    assert kind in mg.check(cut(**wrong), compiled=False).findings
    assert not mg.check(cut(**wrong), compiled=False, local=True).ok


@mg.jit
def apply_if(data, state, i, accepted):
    state.side[i] ^= accepted


def test_apply_if_is_held_to_apply_and_not_to_follow():
    report = mg.check(cut(moves=[replace(FLIP, apply_if=apply_if)]), compiled=False)
    assert report.ok, report


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match=r"score of move 'flip' must be given, since it has follow"):
        replace(FLIP, score=None)
    with pytest.raises(ValueError, match=r"attach of Problem must be given, since its moves have follow"):
        cut(attach=None, prepare=prepare)
    with pytest.raises(ValueError, match=r"score of a move of Problem must be given"):
        cut(moves=[replace(FLIP, score=None, follow=None)])
    with pytest.raises(ValueError, match=r"score of move 'flip' must take 4 arguments"):
        replace(FLIP, score=propose)
    with pytest.raises(ValueError, match=r"score of move 'flip' must return a number"):
        replace(FLIP, score=no_number)
