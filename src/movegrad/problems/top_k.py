"""Binary vectors with exactly k ones, with moves that swap ones against zeros (paper, appendix A)."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from movegrad._rng import integer
from movegrad._specialise import jit
from movegrad._validate import integer_in
from movegrad.problem import Move, Problem
from movegrad.problems._binary import Phi, binary_phi, weighted
from movegrad.problems.hypercube import shuffle


class Data(NamedTuple):
    """``k`` ones; move s makes ``swaps[s]`` swaps at once."""

    k: int
    swaps: np.ndarray
    linear: np.ndarray  # of φ, or empty


class State(NamedTuple):
    """``items`` is a permutation of the coordinates: the k ones first, then the zeros."""

    y: np.ndarray
    items: np.ndarray


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


SWAP = Move("swap", propose_swap, change_swap, apply_swap, changes=2)


@cache
def swap_several(slot: int, swaps: int) -> Move:
    return Move(f"swap {swaps}", propose_several(slot), change_several, apply_several, changes_several)


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


class TopK(Problem):
    """Y = {y ∈ {0,1}^d : Σ yᵢ = k} with T(y) = y: choose k items of d.

    Parameters
    ----------
    d, k : int
        Number of items and of those to choose, 0 < k < d.
    swaps : int or sequence of int
        One move for each given s: s chosen items against s others, all at once (the paper's Nˢ, 1 ≤ s ≤ min(k, d−k)).
    weights : sequence of float, optional
        Shares of these moves; equal by default.
    phi : array of shape (d,) or jitted function ``phi(y)``, optional
        A term of the objective beside ⟨θ, y⟩.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    References
    ----------
    Vivier-Ardisson, Blondel, Parmentier, "Learning with Local Search MCMC Layers", appendix A.
    """

    def __init__(
        self,
        d: int,
        k: int,
        swaps: int | Sequence[int] = 1,
        *,
        weights: Sequence[float] | None = None,
        phi: Any = None,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        d = integer_in(d, "d", 2)
        k = integer_in(k, "k", 1, d - 1)
        sizes = [integer_in(s, "swaps", 1, min(k, d - k)) for s in np.atleast_1d(swaps)]
        moves = [SWAP if s == 1 else swap_several(slot, s) for slot, s in enumerate(sizes)]
        term = binary_phi(phi, d)
        super().__init__(
            Data(k, np.array(sizes), term.linear),
            State((np.arange(d) < k).astype(np.uint8), np.arange(d, dtype=np.int32)),
            term.add_to([*weighted(moves, weights), *extra_moves]),
            d,
            prepare=prepare,
            phi=term.total,
            contains=contains,
            random=random,
            states=lambda: (_indicator(chosen, d) for chosen in combinations(range(d), k)),
            oracle=Subsets(k, term) if term.is_linear else None,
            name=f"TopK({d}, k={k})",
        )


def _indicator(chosen: Sequence[int], d: int) -> np.ndarray:
    y = np.zeros(d, np.uint8)
    y[list(chosen)] = 1
    return y


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
