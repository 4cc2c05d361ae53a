"""Binary vectors with exactly k ones, with moves that swap ones against zeros (paper, appendix A)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import MOST, flag, integer_in, positive
from movegrad.engine import integer, jit, leaf
from movegrad.problem import Move, Problem
from movegrad.problems._binary import Phi, binary_phi, extra, integers_in, weighted
from movegrad.problems._guided import fill_guides, follow_swap, log_swap_ratio
from movegrad.problems._sum_tree import tree_size
from movegrad.problems.hypercube import shuffle


class Data(NamedTuple):
    """``k`` ones; move s makes ``swaps[s]`` swaps at once."""

    k: int
    swaps: np.ndarray
    linear: np.ndarray  # of φ, or empty
    beta: float  # temperature of the guided swap; 0 stands for 2t


class State(NamedTuple):
    """``items`` is a permutation of the coordinates: the k ones first, then the zeros.

    For the guided swap, ``place`` is its inverse, ``drop`` and ``add`` are the weights e^(−θ/β) and e^(θ/β) of all items, and the
    trees hold those of the ones and of the zeros.
    """

    y: np.ndarray
    items: np.ndarray
    place: np.ndarray
    drop: np.ndarray
    add: np.ndarray
    drop_tree: np.ndarray
    add_tree: np.ndarray


# --- swap a one against a zero: N¹ -----------------------------------------------------------------------------------


@jit
def propose_swap(data, state, rng):
    return (integer(rng, data.k), data.k + integer(rng, len(state.y) - data.k)), 0.0


@jit
def change_swap(data, state, move, m):
    return state.items[move[m]], 2 * m - 1


@jit
def apply_swap(data, state, move):
    items, (a, b) = state.items, move
    state.y[items[a]] = 0
    state.y[items[b]] = 1
    items[a], items[b] = items[b], items[a]


@jit
def apply_swap_if(data, state, move, accepted):
    items, (a, b) = state.items, move
    i, j = items[a], items[b]
    state.y[i] ^= accepted
    state.y[j] ^= accepted
    other = (i ^ j) & -accepted
    items[a], items[b] = i ^ other, j ^ other


# --- s swaps at once: Nˢ ----------------------------------------------------------------------------------------------


@cache
def propose_several(slot):
    @jit
    def propose(data, state, rng):
        swaps = data.swaps[slot]
        shuffle(state.items, 0, data.k, swaps, rng)
        shuffle(state.items, data.k, len(state.y), swaps, rng)
        return swaps, 0.0

    return propose


@jit
def changes_several(data, state, move):
    return 2 * move


@jit
def change_several(data, state, move, m):
    if m < move:
        return state.items[m], -1
    return state.items[data.k + m - move], 1


@jit
def apply_several(data, state, move):
    for a in range(move):
        apply_swap(data, state, (a, data.k + a))


# --- a swap guided by θ -----------------------------------------------------------------------------------------------


@jit
def propose_guided(data, state, rng):
    """Drop i with probability ∝ e^(−θᵢ/β), add j ∝ e^(θⱼ/β)."""
    i, j = leaf(rng, state.drop_tree), leaf(rng, state.add_tree)
    return (state.place[i], state.place[j]), log_swap_ratio(state, i, j)


@jit
def follow(state, i, j):
    """Bring what the guided swap needs up to date, after item i was dropped and j was added."""
    follow_swap(state, i, j)
    state.place[i], state.place[j] = state.place[j], state.place[i]


@jit
def apply_swap_and_follow(data, state, move):
    i, j = state.items[move[0]], state.items[move[1]]
    apply_swap(data, state, move)
    follow(state, i, j)


@cache
def propose_several_and_follow(slot):
    propose_plain = propose_several(slot)

    @jit
    def propose(data, state, rng):
        move, log_ratio = propose_plain(data, state, rng)
        for n in range(len(state.y)):  # the proposal shuffled the items
            state.place[state.items[n]] = n
        return move, log_ratio

    return propose


@jit
def apply_several_and_follow(data, state, move):
    for a in range(move):
        apply_swap_and_follow(data, state, (a, data.k + a))


@jit
def prepare_guided(data, guide, temperature, state):
    prepare(data, guide, temperature, state)
    low, high = guide[0], guide[0]
    for i in range(len(guide)):
        low, high = min(low, guide[i]), max(high, guide[i])
        state.place[state.items[i]] = i
    fill_guides(state, guide, data.beta if data.beta > 0.0 else 2.0 * temperature, low, high)


SWAP = Move("swap", propose_swap, change_swap, apply_swap, changes=2, apply_if=apply_swap_if)
SWAP_AND_FOLLOW = Move("swap", propose_swap, change_swap, apply_swap_and_follow, changes=2)
GUIDED_SWAP = Move("guided swap", propose_guided, change_swap, apply_swap_and_follow, changes=2)


@cache
def swap_several(slot: int, swaps: int, guided: bool) -> Move:
    propose = propose_several_and_follow(slot) if guided else propose_several(slot)
    apply = apply_several_and_follow if guided else apply_several
    return Move(f"swap {swaps}", propose, change_several, apply, changes_several)


# --- the set ---------------------------------------------------------------------------------------------------------


@jit
def contains(data, y):
    ones = 0
    for i in range(len(y)):
        if y[i] > 1:
            return False
        ones += y[i]
    return ones == data.k


@jit
def random(data, rng, y):
    """Selection sampling: item i is taken with probability (ones still to place) / (items left)."""
    left = data.k
    for i in range(len(y)):
        y[i] = integer(rng, len(y) - i) < left
        left -= y[i]


@jit
def prepare(data, guide, temperature, state):
    one, zero = 0, data.k
    for i in range(len(state.y)):
        if state.y[i]:
            state.items[one] = i
            one += 1
        else:
            state.items[zero] = i
            zero += 1


@dataclass(frozen=True, eq=False)
class AllSubsets:
    """Lists all vectors with k ones."""

    d: int
    k: int

    def __call__(self) -> Iterator[np.ndarray]:
        for chosen in combinations(range(self.d), self.k):
            y = np.zeros(self.d, np.uint8)
            y[list(chosen)] = 1
            yield y

    @property
    def at_least(self) -> int:
        return comb(self.d, self.k)


class TopK(Problem):
    """Y = {y ∈ {0,1}^d : Σ yᵢ = k} with T(y) = y: choose k items of d.

    Parameters
    ----------
    d, k : int
        Number of items and of those to choose, 0 < k < d.
    swaps : int or sequence of int
        One move for each given s: s chosen items against s others, all at once (the paper's Nˢ, 1 ≤ s ≤ min(k, d−k)).
    guided : bool
        Mix in a swap that drops i with probability ∝ e^(−θᵢ/β) and adds j ∝ e^(θⱼ/β); ``swaps=()`` leaves it alone.
    beta : float, optional
        Temperature β of the guided swap; 2t by default ("locally balanced": with β = t it is over-guided and can stall).
    weights : sequence of float, optional
        Shares of these moves, the guided one last; equal by default.
    phi : array of shape (d,) or jitted function ``phi(y)``, optional
        A term of the objective beside ⟨θ, y⟩.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    References
    ----------
    Vivier-Ardisson, Blondel, Parmentier, "Learning with Local Search MCMC Layers", appendix A.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.problems.TopK(5, 2, guided=True)
    TopK(5, k=2)(d=5, moves=['swap', 'guided swap'])
    """

    def __init__(
        self,
        d: int,
        k: int,
        swaps: int | Sequence[int] = 1,
        *,
        guided: bool = False,
        beta: float | None = None,
        weights: Sequence[float] | None = None,
        phi: Arrays | None = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        d = integer_in(d, "d", 2, MOST)
        k = integer_in(k, "k", 1, d - 1)
        sizes, guided = integers_in(swaps, "swaps", 1, min(k, d - k)), flag(guided, "guided")
        if not sizes and not guided:
            raise ValueError("swaps must not be empty unless guided is True, got ().")
        single = SWAP_AND_FOLLOW if guided else SWAP
        moves = [single if s == 1 else swap_several(slot, s, guided) for slot, s in enumerate(sizes)]
        term, n = binary_phi(phi, d), d if guided else 0
        tree = np.zeros(tree_size(d) if guided else 0)
        super().__init__(
            Data(k, np.array(sizes, np.int64), term.linear, 0.0 if beta is None else positive(beta, "beta")),
            State(
                (np.arange(d) < k).astype(np.uint8),
                np.arange(d, dtype=np.int32),
                np.zeros(n, np.int32),
                np.zeros(n),
                np.zeros(n),
                tree,
                tree,
            ),
            term.add_to([*weighted([*moves, GUIDED_SWAP] if guided else moves, weights), *extra(extra_moves)]),
            d,
            prepare=prepare_guided if guided else prepare,
            phi=term.total,
            contains=contains,
            random=random,
            guided=guided,
            states=AllSubsets(d, k),
            oracle=Subsets(k, term) if term.is_linear else None,
            name=f"TopK({d}, k={k})",
        )


class Subsets(NamedTuple):
    """Exact law on k-subsets by a dynamic program in O(dk) (entropic dynamic programming, Vivier-Ardisson et al., 2026).

    F[i, j] is the log of the total weight of the j-subsets of the first i items: F[i, j] = log(e^F[i−1, j] + e^(F[i−1, j−1] + sᵢ))
    with s = (θ + b)/t. Reading it backward, item i is taken from j with probability e^(F[i−1, j−1] + sᵢ − F[i, j]).
    """

    k: int
    phi: Phi

    def _tables(self, theta: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        scores = self.phi.plus(theta) / temperature
        d = scores.shape[-1]
        table = np.full((d + 1, *scores.shape[:-1], self.k + 1), -np.inf)
        table[..., 0] = 0.0
        for i in range(d):
            taken = table[i, ..., :-1] + scores[..., i, None]
            table[i + 1, ..., 1:] = np.logaddexp(table[i, ..., 1:], taken)
        return table, scores

    def _take(self, table: np.ndarray, scores: np.ndarray, i: int) -> np.ndarray:
        """(…, k+1): probability that item i is taken, for each number of items taken among the first i+1."""
        out = np.zeros_like(table[i])
        with np.errstate(invalid="ignore"):
            out[..., 1:] = np.exp(table[i, ..., :-1] + scores[..., i, None] - table[i + 1, ..., 1:])
        return np.nan_to_num(out, copy=False)

    def log_partition(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        return self._tables(theta, temperature)[0][-1, ..., -1]

    def marginals(self, theta: np.ndarray, temperature: float) -> np.ndarray:
        table, scores = self._tables(theta, temperature)
        out = np.empty_like(scores)
        law = np.zeros_like(table[-1])  # of the number of items taken among the first i+1
        law[..., -1] = 1.0
        for i in reversed(range(scores.shape[-1])):
            taken = law * self._take(table, scores, i)
            out[..., i] = taken.sum(-1)
            law -= taken
            law[..., :-1] += taken[..., 1:]
        return out

    def sample(self, theta: np.ndarray, temperature: float, n: int, rng: np.random.Generator) -> np.ndarray:
        table, scores = self._tables(theta, temperature)
        out = np.zeros((n, *scores.shape), np.uint8)
        left = np.full(out.shape[:-1], self.k)
        for i in reversed(range(scores.shape[-1])):
            take = np.broadcast_to(self._take(table, scores, i), (*left.shape, self.k + 1))
            chosen = rng.random(left.shape) < np.take_along_axis(take, left[..., None], -1)[..., 0]
            out[..., i] = chosen
            left = left - chosen
        return out
