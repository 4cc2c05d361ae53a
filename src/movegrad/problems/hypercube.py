"""All binary vectors, with moves that flip bits (paper, appendix A)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import lgamma
from typing import NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import MOST, integer_in
from movegrad.engine import categorical, coin, integer, jit
from movegrad.problem import Move, Problem
from movegrad.problems._binary import Phi, binary_phi, extra, integers_in, weighted


class Data(NamedTuple):
    """Move s flips ``radii[s]`` bits; ``cumulative[r−1]`` ∝ Σ_{ρ≤r} C(d,ρ) for the move that flips up to so many."""

    radii: np.ndarray
    cumulative: np.ndarray
    linear: np.ndarray  # of φ, or empty


class State(NamedTuple):
    """``order`` is a permutation of the bits, shuffled by the moves that flip several; its first entries are those to flip."""

    y: np.ndarray
    order: np.ndarray


# --- flip one bit: N=1 ------------------------------------------------------------------------------------------------


@jit
def propose_flip(data, state, rng):
    return integer(rng, len(state.y)), 0.0


@jit
def change_flip(data, state, move, m):
    return move, 1 - 2 * np.int64(state.y[move])


@jit
def apply_flip(data, state, move):
    state.y[move] = 1 - state.y[move]


@jit
def apply_flip_if(data, state, move, accepted):
    state.y[move] ^= accepted


# --- flip r bits at once: N=r and N≤r ---------------------------------------------------------------------------------


@jit
def shuffle(order, first, stop, n, rng):
    """Bring a uniformly drawn n-subset of ``order[first:stop]`` to its front (partial Fisher-Yates)."""
    for m in range(first, first + n):
        other = m + integer(rng, stop - m)
        order[m], order[other] = order[other], order[m]


@cache
def propose_exactly(slot):
    @jit
    def propose(data, state, rng):
        shuffle(state.order, 0, len(state.y), data.radii[slot], rng)
        return data.radii[slot], 0.0

    return propose


@jit
def propose_up_to(data, state, rng):
    radius = 1 + categorical(rng, data.cumulative)
    shuffle(state.order, 0, len(state.y), radius, rng)
    return radius, 0.0


@jit
def changes_several(data, state, move):
    return move


@jit
def change_several(data, state, move, m):
    i = state.order[m]
    return i, 1 - 2 * np.int64(state.y[i])


@jit
def apply_several(data, state, move):
    for m in range(move):
        i = state.order[m]
        state.y[i] = 1 - state.y[i]


FLIP = Move("flip", propose_flip, change_flip, apply_flip, apply_if=apply_flip_if)
FLIP_UP_TO = Move("flip up to", propose_up_to, change_several, apply_several, changes_several)


@cache
def flip_exactly(slot: int, radius: int) -> Move:
    return Move(f"flip {radius}", propose_exactly(slot), change_several, apply_several, changes_several)


# --- the set ---------------------------------------------------------------------------------------------------------


@jit
def contains(data, y):
    for i in range(len(y)):
        if y[i] > 1:
            return False
    return True


@jit
def random(data, rng, y):
    for i in range(len(y)):
        y[i] = coin(rng, 0.5)


@jit
def prepare(data, guide, temperature, state):
    for i in range(len(state.order)):
        state.order[i] = i


@dataclass(frozen=True, eq=False)
class Vectors:
    """Lists all binary vectors."""

    d: int

    def __call__(self) -> Iterator[np.ndarray]:
        return (np.array(y, np.uint8) for y in product((0, 1), repeat=self.d))

    @property
    def at_least(self) -> int:
        return 1 << self.d


class Hypercube(Problem):
    """Y = {0,1}^d with T(y) = y: choose any subset of d items.

    Parameters
    ----------
    d : int
        Number of bits.
    radius : int
        Propose uniformly among the vectors at Hamming distance 1 … radius (the paper's N≤r).
    exactly : int or sequence of int, optional
        Instead, one move for each given r that flips exactly r bits (N=r). Connected only if some r is odd and some r < d.
    weights : sequence of float, optional
        Shares of the moves of ``exactly``; equal by default.
    phi : array of shape (d,) or jitted function ``phi(y)``, optional
        A term of the objective beside ⟨θ, y⟩. A function is evaluated twice at each step; an array costs O(1).
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    References
    ----------
    Vivier-Ardisson, Blondel, Parmentier, "Learning with Local Search MCMC Layers", appendix A.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.problems.Hypercube(4, exactly=(1, 2))
    Hypercube(4)(d=4, moves=['flip', 'flip 2'])
    """

    def __init__(
        self,
        d: int,
        radius: int = 1,
        *,
        exactly: int | Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        phi: Arrays | None = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        d = integer_in(d, "d", 1, MOST)
        if exactly is None:
            radii = [integer_in(radius, "radius", 1, d)]
            moves = [FLIP if radius == 1 else FLIP_UP_TO]
        else:
            radii = integers_in(exactly, "exactly", 1, d)
            if not radii:
                raise ValueError(f"exactly must name at least one number of bits, got {exactly!r}.")
            moves = [FLIP if r == 1 else flip_exactly(s, r) for s, r in enumerate(radii)]
        term, several = binary_phi(phi, d), max(radii) > 1
        log_counts = np.array([lgamma(d + 1) - lgamma(r + 1) - lgamma(d - r + 1) for r in range(1, max(radii) + 1)])
        counts = np.cumsum(np.exp(log_counts - log_counts.max()))
        super().__init__(
            Data(np.array(radii), counts / counts[-1], term.linear),
            State(np.zeros(d, np.uint8), np.arange(d if several else 0, dtype=np.int32)),
            term.add_to([*weighted(moves, weights), *extra(extra_moves)]),
            d,
            prepare=prepare if several else None,
            phi=term.total,
            contains=contains,
            random=random,
            states=Vectors(d),
            oracle=Bernoulli(term) if term.is_linear else None,
            name=f"Hypercube({d})",
        )


class Bernoulli(NamedTuple):
    """Exact law on the hypercube: bits are independent, P(yᵢ = 1) = σ((θᵢ + bᵢ)/t), log Z = Σ softplus((θᵢ + bᵢ)/t)."""

    phi: Phi

    def log_partition(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        return np.logaddexp(0.0, self.phi.plus(theta) / temperature).sum(-1)

    def marginals(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        return np.exp(-np.logaddexp(0.0, -self.phi.plus(theta) / temperature))

    def sample(self, theta: np.ndarray, temperature: float, n: int, rng: np.random.Generator) -> np.ndarray:
        return (rng.random((n, *theta.shape)) < self.marginals(theta, temperature)).astype(np.uint8)
