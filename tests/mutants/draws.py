"""Mistakes in how moves draw, and functions that raise."""

from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer
from tests.mutants import families as f
from tests.mutants.registry import vary, wrong

NO_END = "the law is right; only its draws cannot be listed"
OUT_OF_BOUNDS = "reads or writes beyond an array: anything may happen in compiled code"


@wrong("draws", hidden=NO_END)
def draws_until_it_fits():
    """propose draws until it finds a one and a zero: there is no last draw."""

    @mg.jit
    def propose(data, state, rng):
        ones = f.group_size(state.y, 1, -1)
        if ones == 0 or ones == len(state.y):
            return (0, 0), -np.inf
        i, j = 0, 0
        while state.y[i] == state.y[j]:
            i, j = integer(rng, len(state.y)), integer(rng, len(state.y))
        return (i, j), 0.0

    @mg.jit
    def change(data, state, move, m):
        return move[m], 1 - 2 * state.y[move[m]]

    flips = f.switches(3)
    swap = mg.Move("swap", propose, change, f.apply_pair, changes=2)
    return vary(flips, moves=[*flips.moves, swap])


@wrong("draws", hidden=NO_END)
def tosses_until_heads():
    """A geometric step length, by tossing a coin until it shows heads."""

    @mg.jit
    def propose(data, state, rng):
        i, step = integer(rng, len(state.y)), 1
        while coin(rng, 0.5):
            step += 1
        step = step if coin(rng, 0.5) else -step
        return (i, step), 0.0 if 0 <= state.y[i] + step <= data.top else -np.inf

    return vary(f.dials(), propose=propose)


@wrong("draws", hidden=NO_END)
def shuffles_everything():
    """propose shuffles twelve items to draw two of them: 12! outcomes where 132 would do."""

    class Shuffled(NamedTuple):
        y: np.ndarray
        order: np.ndarray

    @mg.jit
    def prepare(data, guide, temperature, state):
        for k in range(len(state.order)):
            state.order[k] = k

    @mg.jit
    def propose(data, state, rng):
        n = len(state.order)
        for k in range(n - 1, 0, -1):
            other = integer(rng, k + 1)
            state.order[k], state.order[other] = state.order[other], state.order[k]
        return state.order[0] % len(state.y), 0.0

    return vary(f.switches(3), state=Shuffled(np.zeros(3, np.int8), np.arange(12)), prepare=prepare, propose=propose)


@wrong("error", "draws", hidden=OUT_OF_BOUNDS)
def draws_from_nothing():
    """integer(rng, 0) where no zero is left."""

    @mg.jit
    def propose(data, state, rng):
        zeros = f.group_size(state.y, 0, -1)
        return f.nth(state.y, 0, integer(rng, zeros)), 0.0

    flips = f.switches(3)
    return vary(flips, moves=[*flips.moves, mg.Move("add", propose, f.change_flip, f.apply_flip)])


@wrong("error", "draws", "wrong ratio", "one-way move")
def coin_above_one():
    """The chance of a coin is ones/2, which is above 1 for three ones."""

    @mg.jit
    def propose(data, state, rng):
        i, ones = integer(rng, len(state.y)), f.group_size(state.y, 1, -1)
        if coin(rng, ones / 2):
            return i, 0.0
        return i, -np.inf

    flips = f.switches(3)
    return vary(flips, moves=[*flips.moves, mg.Move("sometimes", propose, f.change_flip, f.apply_flip)])


@wrong("error", "draws", "wrong ratio", "one-way move", "unreachable", "compiled")
def coin_that_is_not_a_number():
    """The chance of a coin is 0/0 at y = 0."""

    @mg.jit
    def propose(data, state, rng):
        i, ones = integer(rng, len(state.y)), np.float64(f.group_size(state.y, 1, -1))
        if coin(rng, ones / ones):
            return i, 0.0
        return i, -np.inf

    return vary(f.switches(3), propose=propose, random=None)


class Table(NamedTuple):
    weight: np.ndarray


@wrong("error", "draws", "compiled", "wrong ratio", "unreachable")
def weights_for_running_sums():
    """categorical is given weights instead of their running sums: compiled code searches them as if they rose."""

    @mg.jit
    def propose(data, state, rng):
        return categorical(rng, data.weight), 0.0

    return vary(f.switches(4), data=Table(np.array([0.4, 0.3, 0.2, 0.1])), propose=propose, random=None)


@wrong("error", "draws", "unreachable", hidden=OUT_OF_BOUNDS)
def running_sums_that_begin_with_zero():
    """Running sums with a zero in front: item 0 is never drawn, and one behind the last is."""

    @mg.jit
    def propose(data, state, rng):
        return categorical(rng, data.weight), 0.0

    return vary(f.switches(3), data=Table(np.array([0.0, 1.0, 2.0, 3.0])), propose=propose)


@wrong("error", "draws", "wrong ratio", "one-way move", "compiled", "unreachable", "stationary law")
def categorical_without_weight():
    """All weights are zero at the full menu, where nothing can be added; compiled code draws the last item."""

    class Weighted(NamedTuple):
        y: np.ndarray
        total: np.ndarray

    @mg.jit
    def fill(state):
        total = 0.0
        for i in range(len(state.y)):
            total += 1.0 - state.y[i]
            state.total[i] = total

    @mg.jit
    def prepare(data, guide, temperature, state):
        fill(state)

    @mg.jit
    def propose(data, state, rng):
        return categorical(rng, state.total), 0.0

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        fill(state)

    base = vary(f.switches(3), state=Weighted(np.zeros(3, np.int8), np.zeros(3)), prepare=prepare, apply=apply)
    return vary(base, moves=[*base.moves, mg.Move("add", propose, f.change_flip, apply)])


@wrong("draws", "error", "order", "wrong ratio", "one-way move", "unreachable", "stationary law", "depends on θ", "stale state",
       hidden="the law is right; draws that cannot be listed cannot be checked, and the seed has no hold on them")  # fmt: skip
def numpy_draws_the_move():
    """propose draws from NumPy's generator, which no one can list."""

    @mg.jit
    def propose(data, state, rng):
        return np.random.randint(len(state.y)), 0.0

    return vary(f.switches(3), propose=propose)


@wrong("error", hidden=OUT_OF_BOUNDS)
def index_beyond_the_end():
    """At one solution propose looks one place beyond the end of the order."""

    @mg.jit
    def propose(data, state, rng):
        (i, j), ratio = f.propose_pair(data, state, rng)
        if state.y[0] == 3 and state.y[1] == 2:
            return (i, j), ratio + 0.0 * state.y[j + 1]
        return (i, j), ratio

    return vary(f.lineup(), propose=propose)


@wrong("error", "compiled", hidden="kernels know no exceptions")
def assertion_that_fails():
    """apply asserts that jobs move to a machine of a higher number."""

    @mg.jit
    def apply(data, state, move):
        assert move[1] > state.y[move[0]]
        f.apply_move_job(data, state, move)

    return vary(f.shop(), apply=apply)


@wrong("error", hidden="compiled code takes 0 for the quotient, which happens to be right")
def division_by_zero_in_gain():
    """gain divides whole numbers by the number of ones, which is 0 at the empty menu."""

    @mg.jit
    def gain(data, state, i):
        return f.gain_price(data, state, i) + (state.ones[0] // int(state.ones[0]) - (1 if state.ones[0] > 0 else 0))

    return vary(f.menu(), gain=gain)


@wrong("error", "wrong gain")
def root_of_a_negative_number():
    """φ takes the root of a slack, gain that of a slack that may be negative."""

    @mg.jit
    def phi(data, y):
        ones = f.group_size(y, 1, -1)
        return np.sqrt(2.0 - ones)

    @mg.jit
    def gain(data, state, i):
        ones = state.ones[0]
        return np.sqrt(1.0 - ones if state.y[i] == 0 else 3.0 - ones) - np.sqrt(1.999 - ones)

    return vary(f.menu(), phi=phi, gain=gain)


@wrong("error", "contains", hidden="starts are not among these")
def statistic_that_fails_for_one_solution():
    """statistic writes beyond its end for the highest dials."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[i + (y[0] == data.top and y[1] == data.top)] = y[i]

    return vary(f.dials(), statistic=statistic)
