"""Mistakes that the types of numbers bring about: unsigned differences, narrow fields, rounding, overflow, no type at all."""

from itertools import product
from math import exp, log
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer
from tests.mutants import families as f
from tests.mutants.registry import vary, wrong

DOES_NOT_COMPILE = "it does not compile"

# --- unsigned numbers -------------------------------------------------------------------------------------------------


@wrong("overflow", "wrong change", "compiled")
def difference_of_unsigned_bits():
    """change is y[j] − y[i] of unsigned bits: 0 − 1 is 2⁶⁴ − 1."""

    @mg.jit
    def change(data, state, move, m):
        i, j = state.items[move[m]], state.items[move[1 - m]]
        return i, state.y[j] - state.y[i]

    return vary(f.team(5, 2, np.uint8), change=change)


@wrong("overflow", "wrong change", "compiled")
def negative_of_an_unsigned_bit():
    """A one that goes changes T by −y, which is 255 for an unsigned byte."""

    @mg.jit
    def change(data, state, i, m):
        if state.y[i] == 1:
            return i, -state.y[i]
        return i, state.y[i] + np.uint8(1)

    return vary(f.switches(3), state=f.Bits(np.zeros(3, np.uint8)), change=change)


@wrong("overflow", "wrong gain", "compiled")
def distance_of_unsigned_numbers():
    """gain takes |y₀ − y₁| of unsigned numbers; φ converts them first."""

    @mg.jit
    def phi(data, y):
        return -0.3 * abs(np.int64(y[0]) - np.int64(y[1]))

    @mg.jit
    def gain(data, state, move):
        i, step = move
        y = state.y
        now = abs(y[0] - y[1])
        then = abs(y[i] + step - np.int64(y[1 - i]))
        return -0.3 * (then - now)

    return vary(f.dials(2, 3, np.uint8), phi=phi, gain=gain)


class Steps(NamedTuple):
    top: int
    step: np.ndarray  # (n,) unsigned


@wrong("overflow", "leaves the set", "feasible", "wrong change", "compiled")
def step_below_zero():
    """Whether a step down stays above 0 is tested by a difference of unsigned numbers, which always does."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        if integer(rng, 2) == 1:
            return (i, 1), 0.0 if state.y[i] < data.top else -np.inf
        return (i, -1), 0.0 if state.y[i] - data.step[i] >= 0 else -np.inf

    base = f.dials(2, 3, np.uint8)
    return vary(base, data=Steps(3, np.ones(2, np.uint8)), propose=propose, gain=None, phi=None)


class Bytes(NamedTuple):
    weight: np.ndarray  # (n,) unsigned bytes
    capacity: int


@wrong("overflow", "feasible", "leaves the set", "compiled", "stale state")
def room_below_zero():
    """feasible tests room − weight ≥ 0 in unsigned bytes."""

    @mg.jit
    def feasible(data, state, i):
        return state.y[i] == 1 or state.room[0] - data.weight[i] >= 0

    base = f.sack(room_dtype=np.uint8)
    data = Bytes(np.array([3, 2, 4, 5], np.uint8), 7)
    return vary(base, moves=base.moves[:1], data=data, feasible=feasible)


class Ends(NamedTuple):
    """Edges of a path: edge e joins nodes e and e + 1."""

    unused: int = 0


class Partners(NamedTuple):
    y: np.ndarray  # (edges,) bits
    mate: np.ndarray  # (nodes,) partner, or −1


@wrong("overflow", "compiled", "prepare", "feasible", "stale state", "unreachable")
def no_partner_in_an_unsigned_byte():
    """−1 stands for no partner in a field of unsigned bytes, where it is 255 and never equal to −1."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for v in range(len(state.mate)):
            state.mate[v] = -1
        for e in range(len(state.y)):
            if state.y[e] == 1:
                state.mate[e], state.mate[e + 1] = e + 1, e

    @mg.jit
    def feasible(data, state, e):
        return state.y[e] == 1 or (state.mate[e] == -1 and state.mate[e + 1] == -1)

    @mg.jit
    def apply(data, state, e):
        if state.y[e] == 1:
            state.mate[e] = state.mate[e + 1] = -1
        else:
            state.mate[e], state.mate[e + 1] = e + 1, e
        state.y[e] = 1 - state.y[e]

    state = Partners(np.zeros(4, np.int8), np.zeros(5, np.uint8))
    return vary(f.quiet(4), data=Ends(), state=state, prepare=prepare, feasible=feasible, apply=apply)


# --- narrow fields ----------------------------------------------------------------------------------------------------


@wrong("overflow", "compiled", "feasible", "wrong gain", "stale state")
def load_in_eight_bits():
    """Loads of up to 180 in a field of signed bytes."""
    return f.shop((60, 50, 40, 30), (150, 180, 120), np.int8)


@wrong("overflow", "compiled", "wrong gain", "stale state")
def price_in_sixteen_bits():
    """The total price, up to 70000, in a field of 16 bits."""

    class Total(NamedTuple):
        y: np.ndarray
        total: np.ndarray

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.total[0] = 0
        for i in range(len(state.y)):
            state.total[0] += state.y[i] * 20_000

    @mg.jit
    def phi(data, y):
        total = 0
        for i in range(len(y)):
            total += y[i] * 20_000
        return -1e-4 * abs(total - 30_000)

    @mg.jit
    def gain(data, state, i):
        now, then = state.total[0], state.total[0] + (1 - 2 * state.y[i]) * 20_000
        return 1e-4 * (abs(now - 30_000) - abs(then - 30_000))

    @mg.jit
    def apply(data, state, i):
        state.total[0] += (1 - 2 * state.y[i]) * 20_000
        state.y[i] = 1 - state.y[i]

    state = Total(np.zeros(3, np.int8), np.zeros(1, np.int16))
    return vary(f.switches(3), state=state, prepare=prepare, phi=phi, gain=gain, apply=apply)


@wrong("overflow", "compiled", "wrong gain", "stale state")
def area_in_thirty_two_bits():
    """An area of 70000 × 70000 in a field of 32 bits."""

    class Sides(NamedTuple):
        side: np.ndarray  # (n,)

    class Area(NamedTuple):
        y: np.ndarray
        area: np.ndarray  # (n,) of each square

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y)):
            state.area[i] = data.side[i] * data.side[i]

    @mg.jit
    def phi(data, y):
        total = 0.0
        for i in range(len(y)):
            total += 1e-10 * data.side[i] * data.side[i] * y[i]
        return total

    @mg.jit
    def gain(data, state, i):
        return 1e-10 * state.area[i] * (1 - 2 * state.y[i])

    state = Area(np.zeros(3, np.int8), np.zeros(3, np.int32))
    data = Sides(np.array([70_000, 30_000, 90_000], np.int32))
    return vary(f.switches(3), data=data, state=state, prepare=prepare, phi=phi, gain=gain)


@wrong("overflow", "leaves the set", "feasible", "set", "compiled", "wrong change")
def dial_beyond_127():
    """A dial from 0 to 200 in a solution of signed bytes: 127 + 1 is −128."""
    base = f.dials(1, 200, np.int64)
    return vary(base, state=f.Bits(np.zeros(1, np.int8)), phi=None, gain=None)


@wrong("overflow", "compiled", "wrong ratio", "stale state")
def counter_of_draws_in_a_byte():
    """Weights for drawing are whole numbers in bytes, 200 for a one: twice the sum runs over."""

    class Bytewise(NamedTuple):
        y: np.ndarray
        sums: np.ndarray

    @mg.jit
    def fill(state):
        total = 0
        for i in range(len(state.y)):
            total += 100 if state.y[i] == 1 else 50
            state.sums[i] = total

    @mg.jit
    def prepare(data, guide, temperature, state):
        fill(state)

    @mg.jit
    def propose(data, state, rng):
        total = state.sums[len(state.y) - 1]
        at = 50 * integer(rng, total // 50)
        for i in range(len(state.y)):
            if at < state.sums[i]:
                now, then = (100, 50) if state.y[i] == 1 else (50, 100)
                return i, log(then / (total - now + then)) - log(now / total)
        return 0, -np.inf

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        fill(state)

    state = Bytewise(np.zeros(3, np.int8), np.zeros(3, np.uint8))
    return vary(f.switches(3), state=state, prepare=prepare, propose=propose, apply=apply)


@wrong("overflow", "compiled", "error", compiled=True)
def code_beyond_64_bits():
    """Solutions are bounded by a code Σ yᵢ 10⁷ⁱ, which needs more than 64 bits: Python has them, compiled code has not."""

    @mg.jit
    def code(y, turned):
        total, power = 0, 1
        for i in range(len(y)):
            if (y[i] == 1) != (i == turned):
                total += power
            power *= 10_000_000
        return total

    @mg.jit
    def contains(data, y):
        return f.are_bits(data, y) and code(y, -1) < 5_000_000_000_000_000_000

    @mg.jit
    def feasible(data, state, i):
        return code(state.y, i) < 5_000_000_000_000_000_000

    return vary(
        f.switches(4), contains=contains, random=None, feasible=feasible, states=lambda: [y for y in f.cube(4) if y[3] == 0]
    )


@wrong("compiled", "wrong ratio", "error", compiled=True)
def power_with_a_negative_exponent():
    """The chance of a one to go is 2⁻ᵏ, of whole numbers: a half in Python, 0 in compiled code."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        if state.y[i] == 1:
            return i, log(2 ** state.y[i]) if coin(rng, 2 ** -state.y[i]) else -np.inf
        return i, -log(2.0)

    return vary(f.switches(3), propose=propose, random=None)


@wrong("overflow", "compiled", "stale state", "feasible", "wrong change")
def complement_of_an_unsigned_bit():
    """apply writes ~y & 3 to an unsigned byte that should stay a bit: 2 after the first flip back."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = ~state.y[i] & 3 if state.y[i] > 1 else 1 - state.y[i] if state.y[i] == 0 else ~state.y[i] & 2

    return vary(f.switches(3), state=f.Bits(np.zeros(3, np.uint8)), apply=apply)


# --- rounding ---------------------------------------------------------------------------------------------------------


@wrong("feasible", "stale state", "overflow", "leaves the set", "compiled", compiled=True)
def room_in_single_precision():
    """Room of 2²⁴ + 2 in single precision: a weight of 1 is lost in it."""
    weights, capacity = (2**24, 1, 1, 1), 2**24 + 2
    return f.sack(weights, capacity, np.float32)


@wrong("wrong gain", "stale state", "overflow", "compiled", compiled=True)
def field_in_single_precision():
    """A coupling of 10⁸ goes into a single-precision field and out of it again, and takes the small ones along."""

    class Single(NamedTuple):
        y: np.ndarray
        h: np.ndarray

    data = f.Couplings(np.array([0.7, 1e8, 0.4, -1e8]))
    return vary(f.ring(), data=data, state=Single(np.zeros(4, np.int8), np.zeros(4, np.float32)))


@wrong("feasible", "stale state", "leaves the set", "set", "contains")
def tenths_on_the_edge():
    """Weights of 0.1, 0.2, 0.3 and a capacity of 0.6: whether all three fit depends on the order they come in."""
    base = f.sack((0.1, 0.2, 0.3, 0.4), 0.6, np.float64)

    @mg.jit
    def contains(data, y):
        total = 0.0
        for i in range(len(y)):
            if y[i] != 0 and y[i] != 1:
                return False
            total += data.weight[i] * y[i]
        return total <= data.capacity

    return vary(base, contains=contains, states=lambda: [y for y in f.cube(4) if 10 * y @ (0.1, 0.2, 0.3, 0.4) <= 6 + 1e-9])


class Shares(NamedTuple):
    y: np.ndarray  # floats that add up to 1


def simplex(parts: int) -> list[np.ndarray]:
    return [np.array(c) / parts for c in product(range(parts + 1), repeat=3) if sum(c) == parts]


@mg.jit
def propose_share(data, state, rng):
    (i, j), ratio = f.propose_pair(data, state, rng)
    return (i, j), ratio if state.y[i] > 0.5 * data.step else -np.inf


@mg.jit
def change_share(data, state, move, m):
    return move[m], data.step * (2 * m - 1)


@mg.jit
def apply_share(data, state, move):
    state.y[move[0]] -= data.step
    state.y[move[1]] += data.step


@mg.jit
def are_shares(data, y):
    total = 0.0
    for i in range(len(y)):
        if not -1e-9 <= y[i] <= 1.0 + 1e-9:
            return False
        total += y[i]
    return abs(total - 1.0) < 1e-9


class Grid(NamedTuple):
    step: float


def shares(parts: int) -> mg.Problem:
    """Shares of three that add up to 1, in steps of 1/parts; a step goes from one to another."""
    move = mg.Move("shift", propose_share, change_share, apply_share, changes=2)
    return mg.Problem(
        Grid(1.0 / parts),
        Shares(np.array([1.0, 0.0, 0.0])),
        [move],
        3,
        contains=are_shares,
        states=lambda: simplex(parts),
        name="shares",
    )


@wrong("leaves the set", "feasible", "set", "contains", "stale state")
def shares_in_tenths():
    """Steps of 0.1 are added and subtracted: 0.1 + 0.2 is not 0.3, and two arrays stand for one solution."""
    return shares(10)


# --- exponentials -----------------------------------------------------------------------------------------------------


@wrong(
    "overflow", "wrong ratio", "error", "prepare", "detailed balance", "compiled", "depends on θ", "stationary law", scale=3000.0
)
def weights_that_overflow():
    """Weights e^(θ/β) are infinite for |θ| of a thousand."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y)):
            state.pull[i] = guide[i] / data.beta
        f.add_up(state)

    return vary(f.steered(), prepare=prepare)


@wrong("overflow", "wrong ratio", "error", "prepare", "detailed balance", "compiled", "one-way move", "unreachable", t=0.0002)
def weights_at_a_small_temperature():
    """Weights e^(θ/2t) overflow where t is small."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y)):
            state.pull[i] = guide[i] / (2.0 * temperature)
        f.add_up(state)

    return vary(f.steered(), prepare=prepare)


@wrong("overflow", "wrong ratio", "error", "prepare", "detailed balance", "stationary law", scale=100.0, t=30.0)
def rest_by_subtraction():
    """The weight of all others is the total less that of one, which is lost to rounding where one weighs 10²⁰ times as much."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y)):
            state.pull[i] = min(max(guide[i] / data.beta, -300.0), 300.0)
        f.add_up(state)

    @mg.jit
    def propose(data, state, rng):
        i, n = categorical(rng, state.total), len(state.y)
        here = (1 - 2 * state.y[i]) * state.pull[i]
        rest = state.total[n - 1] - np.exp(here)
        return i, -2.0 * here + log(state.total[n - 1] / (rest + np.exp(-here)))

    return vary(f.steered(4, 1.0), prepare=prepare, propose=propose)


@wrong("overflow", "wrong ratio", "error", "prepare", "one-way move", "unreachable", scale=1500.0, t=400.0)
def weights_that_vanish():
    """Weights e^((θᵢ − max θ)/β) are 0 for items far below the best, which are then never drawn again."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        high = guide[0]
        for i in range(len(guide)):
            high = max(high, guide[i])
        for i in range(len(state.y)):
            state.pull[i] = exp((guide[i] - high) / data.beta)

    @mg.jit
    def propose(data, state, rng):
        total = 0.0
        for i in range(len(state.y)):
            total += state.pull[i]
            state.total[i] = total
        return categorical(rng, state.total), 0.0

    return vary(f.steered(4, 1.0), prepare=prepare, propose=propose, apply=f.apply_flip)


# --- Python runs it, a kernel does not --------------------------------------------------------------------------------


@wrong("compiled", "error", hidden=DOES_NOT_COMPILE, compiled=True)
def memory_allocated_in_propose():
    """propose makes an array, which kernels cannot."""

    @mg.jit
    def propose(data, state, rng):
        seen = np.zeros(len(state.y))
        i = integer(rng, len(state.y))
        seen[i] = 1.0
        return i, 1.0 - seen[i]

    return vary(f.switches(3), propose=propose)


@wrong("compiled", "error", hidden=DOES_NOT_COMPILE, compiled=True)
def number_or_tuple():
    """propose returns a number where the draw leads nowhere, and a tuple elsewhere."""

    @mg.jit
    def propose(data, state, rng):
        i, j = integer(rng, len(state.y)), integer(rng, len(state.y))
        if i == j:
            return 0, -np.inf
        return (i, j), 0.0

    return vary(f.lineup(3), propose=propose)


@wrong("compiled", "error", hidden=DOES_NOT_COMPILE, compiled=True)
def tuple_of_two_types():
    """A tuple that holds whole numbers and floats is indexed by a variable."""

    @mg.jit
    def gain(data, state, i):
        return (0, -data.price[i], data.price[i])[1 + state.y[i]]

    return vary(f.menu(3, 2), gain=gain)


@wrong("compiled", "error", hidden=DOES_NOT_COMPILE, compiled=True)
def list_of_candidates():
    """propose gathers candidates in a list."""

    @mg.jit
    def propose(data, state, rng):
        ones = [i for i in range(len(state.y)) if state.y[i] == 1]
        if len(ones) == 0:
            return integer(rng, len(state.y)), 0.0
        return integer(rng, len(state.y)), 0.0 * ones[0]

    return vary(f.switches(3), propose=propose)


@wrong("compiled", "error", hidden=DOES_NOT_COMPILE, compiled=True)
def float_of_a_truth_value():
    """The chance of a coin is float(…) of a comparison, which Python has and compiled code has not."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, 0.0 if coin(rng, float(len(state.y) > 2)) else -np.inf

    return vary(f.switches(3), propose=propose)


@wrong("compiled", "error", hidden=DOES_NOT_COMPILE, compiled=True)
def field_with_another_name():
    """One branch of apply, which no draw of a small instance reaches, names a field that does not exist."""

    @mg.jit
    def apply(data, state, i):
        if len(state.y) > 100:
            state.total[0] += 1
        state.y[i] = 1 - state.y[i]

    return vary(f.switches(3), apply=apply)
