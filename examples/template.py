"""A problem of your own: copy this file, go through the TODOs, run it after each one.

As it stands it is a small problem that uses every function of the contract once: choose at most ``limit`` of d items, at a
price each; maximize ⟨θ, y⟩ + φ(y) with φ(y) = −Σ price_i y_i over y ∈ {0,1}^d. ``movegrad/problem.py`` is the contract.

Rules for everything under ``@mg.jit``: numbers in, numbers out; allocate nothing; raise nothing; draw only through ``integer``,
``coin`` and ``categorical``. Parts marked "optional" may be deleted together with their argument at the bottom.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import integer


class Data(NamedTuple):
    """TODO: what describes one instance: arrays of any shape, and numbers. Nothing changes it later."""

    price: np.ndarray  # (d,)
    limit: int


class State(NamedTuple):
    """TODO: the solution first, then what you want to have at hand about it. One-dimensional arrays only."""

    y: np.ndarray  # (d,) the solution: integers that are the same only if the solution is the same
    count: np.ndarray  # (1,) derived: number of ones


# --- move 1: flip one bit --------------------------------------------------------------------------------------------


@mg.jit
def propose_flip(data, state, rng):
    """TODO: draw a move; return it (a number or a tuple of numbers) and log q(y', y) − log q(y, y').

    q(y, y') is the probability of the draw made here, q(y', y) that of the draw that undoes it. Change nothing but scratch space.
    Where a draw leads nowhere, return −inf as the ratio: the chain stays.
    """
    return integer(rng, len(state.y)), 0.0  # 1/d here, 1/d back


@mg.jit
def change_flip(data, state, move, m):
    """TODO: index of the m-th entry of T(y) that changes, and T(y') − T(y) there. How many there are: ``changes`` below."""
    return move, 1 - 2 * state.y[move]


@mg.jit
def gain_flip(data, state, move):
    """TODO (optional, if φ is 0): φ(y') − φ(y), without computing either in full."""
    return -data.price[move] * (1 - 2 * state.y[move])


@mg.jit
def feasible_flip(data, state, move):
    """TODO (optional, if y' is always in the set): is y' in the set? Asked only of proposals that would be accepted."""
    return state.count[0] + 1 - 2 * state.y[move] <= data.limit


@mg.jit
def apply_flip(data, state, move):
    """TODO: turn the state into y', with all that is derived from the solution."""
    state.count[0] += 1 - 2 * state.y[move]
    state.y[move] = 1 - state.y[move]


@mg.jit
def applicable_after_flip(data, state, move):
    """TODO (optional, with ``applicable``): what ``applicable`` will say at y'."""
    return moves_at(state.count[0] + 1 - 2 * state.y[move], len(state.y))


# --- move 2: exchange a chosen item for another. TODO: delete it, or add as many moves as you like --------------------


@mg.jit
def propose_exchange(data, state, rng):
    i, j = integer(rng, len(state.y)), integer(rng, len(state.y) - 1)
    j += j >= i  # two different items
    if state.y[i] == state.y[j]:
        return (i, j), -np.inf  # nothing to exchange
    return (i, j), 0.0  # the same draw leads back


@mg.jit
def changes_exchange(data, state, move):
    """How many entries of T change. A plain number will do where it is always the same."""
    return 2


@mg.jit
def change_exchange(data, state, move, m):
    return move[m], 1 - 2 * state.y[move[m]]


@mg.jit
def gain_exchange(data, state, move):
    i, j = move
    return (data.price[i] - data.price[j]) * (2 * state.y[i] - 1)


@mg.jit
def apply_exchange(data, state, move):
    i, j = move
    state.y[i], state.y[j] = state.y[j], state.y[i]


@mg.jit
def applicable_after_exchange(data, state, move):
    return moves_at(state.count[0], len(state.y))


# --- the set ---------------------------------------------------------------------------------------------------------


@mg.jit
def moves_at(count, d):
    """A helper: jitted functions may call each other."""
    return 3 if 0 < count < d else 1


@mg.jit
def applicable(data, state):
    """TODO (optional, if every move can always be tried): bit s is set if move s can be drawn at y. Never 0."""
    return moves_at(state.count[0], len(state.y))


@mg.jit
def prepare(data, guide, temperature, state):
    """TODO (optional, if nothing is derived): fill all fields but the solution. They come with whatever was in memory."""
    state.count[0] = 0
    for i in range(len(state.y)):
        state.count[0] += state.y[i]


@mg.jit
def statistic(data, y, out):
    """TODO (optional, if T(y) = y): write T(y), every entry of it, since ``out`` comes with whatever was in memory."""
    for i in range(len(y)):
        out[i] = y[i]


@mg.jit
def phi(data, y):
    """TODO (optional, if φ is 0): φ(y) in full. Needed once for each start, and by ``check`` to test ``gain``."""
    total = 0.0
    for i in range(len(y)):
        total -= data.price[i] * y[i]
    return total


@mg.jit
def contains(data, y):
    """TODO (optional, but then a wrong start goes unnoticed): is y in the set?"""
    ones = 0
    for i in range(len(y)):
        if not 0 <= y[i] <= 1:
            return False
        ones += y[i]
    return ones <= data.limit


@mg.jit
def random(data, rng, y):
    """TODO (optional, then chains begin at the solution given below): write a uniformly drawn solution to y.

    Here: draw all bits until at most ``limit`` are ones.
    """
    ones = len(y)
    while ones > data.limit or ones == len(y):
        ones = 0
        for i in range(len(y)):
            y[i] = integer(rng, 2)
            ones += y[i]
        if ones == len(y) and ones <= data.limit:
            return


FLIP = mg.Move(
    "flip",
    propose_flip,
    change_flip,
    apply_flip,
    changes=1,
    gain=gain_flip,
    feasible=feasible_flip,
    applicable_after=applicable_after_flip,
)
EXCHANGE = mg.Move(
    "exchange",
    propose_exchange,
    change_exchange,
    apply_exchange,
    changes=changes_exchange,
    gain=gain_exchange,
    applicable_after=applicable_after_exchange,
    weight=0.5,  # drawn half as often as flip
)
