"""A problem of your own: copy this file, go through the TODOs, run it after each one.

As it stands it is a small problem that uses every function of the contract once: choose at most ``limit`` of d items, at a
price each; maximize ⟨θ, y⟩ + φ(y) with φ(y) = −Σ price_i y_i over y ∈ {0,1}^d. ``movegrad/problem.py`` is the contract.

Rules for everything under ``@mg.jit``: numbers in, numbers out; allocate nothing; raise nothing; draw only through ``integer``,
``coin``, ``categorical`` and ``leaf``. Parts marked "optional" may be deleted together with their argument at the bottom.
"""

from functools import partial
from itertools import product
from math import comb
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, integer


class Data(NamedTuple):
    """TODO: what describes one instance: arrays of any shape, and numbers. Nothing changes it later."""

    price: np.ndarray  # (d,)
    limit: int
    subsets: np.ndarray  # (limit + 1,) how many solutions have 0, up to 1, up to 2, … ones


class State(NamedTuple):
    """TODO: the solution first, then what you want to have at hand about it. One-dimensional arrays only."""

    y: np.ndarray  # (d,) the solution: integers that are the same only if the solution is the same
    ones: np.ndarray  # (1,) derived: how many there are


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
    return state.ones[0] + 1 - 2 * state.y[move] <= data.limit


@mg.jit
def apply_flip(data, state, move):
    """TODO: turn the state into y', with all that is derived from the solution."""
    state.ones[0] += 1 - 2 * state.y[move]
    state.y[move] = 1 - state.y[move]


@mg.jit
def applicable_after_flip(data, state, move):
    """TODO (optional, with ``applicable``): what ``applicable`` will say at y'."""
    return moves_at(state.ones[0] + 1 - 2 * state.y[move], len(state.y))


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
    return moves_at(state.ones[0], len(state.y))


# --- the set ---------------------------------------------------------------------------------------------------------


@mg.jit
def moves_at(ones, d):
    """A helper: jitted functions may call each other."""
    return 3 if 0 < ones < d else 1


@mg.jit
def applicable(data, state):
    """TODO (optional, if every move can always be tried): bit s is set if move s can be drawn at y. Never 0."""
    return moves_at(state.ones[0], len(state.y))


@mg.jit
def prepare(data, guide, temperature, state):
    """TODO (optional, if nothing is derived): fill all fields but the solution. They come with whatever was in memory."""
    state.ones[0] = 0
    for i in range(len(state.y)):
        state.ones[0] += state.y[i]


@mg.jit
def statistic(data, y, out):
    """TODO (optional, if T(y) = y): write T(y) to ``out``, which holds zeros."""
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
    """TODO (optional, then chains begin at the solution given below): write a uniformly drawn solution to y."""
    left = categorical(rng, data.subsets)  # how many ones, then which: item i is one of them with probability left / (d − i)
    for i in range(len(y)):
        y[i] = integer(rng, len(y) - i) < left
        left -= y[i]


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


def solutions(d, limit):
    """TODO (optional): every solution of a small instance. With it, check can tell which ones your moves never reach.

    A function of the module, and no lambda: then a problem can be pickled, and sent to other processes.
    """
    return (np.array(y) for y in product((0, 1), repeat=d) if sum(y) <= limit)


class Template(mg.Problem):
    """TODO: name it, say what y, θ and T are with their shapes, and pass on what you kept.

    Y = {y ∈ {0,1}^d : Σ yᵢ ≤ limit}, T(y) = y, φ(y) = −Σ priceᵢ yᵢ.

    Parameters
    ----------
    price : array (d,)
    limit : int
        Number of items that may be chosen, 1 ≤ limit ≤ d.
    """

    def __init__(self, price: np.ndarray, limit: int) -> None:
        d = len(price)
        if d < 2:
            raise ValueError(f"price must have at least 2 entries, got {d}.")
        if not 1 <= limit <= d:
            raise ValueError(f"limit must be in 1..{d}, got {limit}.")
        subsets = np.cumsum([float(comb(d, ones)) for ones in range(limit + 1)])
        super().__init__(
            Data(np.asarray(price, float), limit, subsets),
            State(np.zeros(d, np.int8), np.zeros(1, np.int32)),  # TODO: a feasible solution; the dtypes are kept
            [FLIP, EXCHANGE],
            d,  # TODO: number of entries of θ and T
            prepare=prepare,
            statistic=statistic,
            phi=phi,
            contains=contains,
            random=random,
            applicable=applicable,
            states=partial(solutions, d, limit),
            name=f"Template({d})",
        )


# TODO: an instance with at most a few thousand solutions, for ``check``.
problem = Template(np.array([0.3, 0.1, 0.4, 0.1, 0.5]), limit=3)


def main() -> None:
    print(mg.check(problem).raise_if_wrong())
    theta = np.linspace(-1.0, 1.0, problem.size)
    result = mg.sample(problem, theta, steps=100_000, chains=4)
    print(result.info)
    print("sampled E[T(Y)]", result.mean.round(3))
    print("exact   E[T(Y)]", mg.exact.marginals(problem, theta).round(3))


if __name__ == "__main__":
    main()
