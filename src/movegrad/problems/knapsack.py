"""The multi-dimensional knapsack, with swaps and flips, uniform or guided by θ (paper, section on the MKP)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, log
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import array_of, choices, doubles, positive, sequence, unmasked
from movegrad.engine import coin, integer, jit, leaf
from movegrad.problem import Move, Problem
from movegrad.problems._binary import weighted
from movegrad.problems._guided import fill_guides, follow_swap, log_swap_ratio
from movegrad.problems._sum_tree import tree_set, tree_size, tree_without

SLACK = 1e-9  # of a capacity: loads are sums of floats, kept by adding and subtracting


class Data(NamedTuple):
    """Row i of ``weights`` is what item i takes of each of the M capacities, so that a row is one stretch of memory."""

    weights: np.ndarray  # (d, M)
    capacities: np.ndarray  # (M,), with slack
    beta: float  # temperature of guided moves; 0 stands for 2t


class State(NamedTuple):
    """``items`` is a permutation: the items taken first, then the others. ``place`` is its inverse, ``taken[0]`` counts the first.

    For guided moves, ``drop`` and ``add`` are the weights e^(−θ/β) and e^(θ/β) of all items, and the trees hold those of the items
    taken and of the others.
    """

    y: np.ndarray
    room: np.ndarray  # (M,) capacities less loads
    score: np.ndarray  # (d,) value for weight, for greedy
    items: np.ndarray
    place: np.ndarray
    taken: np.ndarray  # (1,)
    drop: np.ndarray
    add: np.ndarray
    drop_tree: np.ndarray
    add_tree: np.ndarray


# --- swap: an item taken against another -------------------------------------------------------------------------------


@jit
def propose_swap(data, state, rng):
    """Uniform pair; the number of pairs is the same after the swap."""
    n, d = state.taken[0], len(state.y)
    if n == 0 or n == d:
        return (0, 0), -np.inf
    return (state.items[integer(rng, n)], state.items[n + integer(rng, d - n)]), 0.0


@jit
def propose_guided_swap(data, state, rng):
    """Drop i with probability ∝ e^(−θᵢ/β), add j ∝ e^(θⱼ/β)."""
    if state.taken[0] == 0 or state.taken[0] == len(state.y):
        return (0, 0), -np.inf
    i, j = leaf(rng, state.drop_tree), leaf(rng, state.add_tree)
    return (i, j), log_swap_ratio(state, i, j)


@jit
def change_swap(data, state, move, m):
    return move[m], 2 * m - 1


@jit
def swap_fits(data, state, move):
    old, new, room = data.weights[move[0]], data.weights[move[1]], state.room
    over = False
    for m in range(len(room)):  # no early exit, so that the loop can be vectorized
        over |= new[m] - old[m] > room[m]
    return not over


@jit
def apply_swap(data, state, move):
    i, j = move
    old, new = data.weights[i], data.weights[j]
    for m in range(len(state.room)):
        state.room[m] -= new[m] - old[m]
    state.y[i], state.y[j] = 0, 1
    a, b = state.place[i], state.place[j]
    state.items[a], state.items[b] = j, i
    state.place[i], state.place[j] = b, a


# --- flip: take an item or put it back --------------------------------------------------------------------------------


@jit
def propose_flip(data, state, rng):
    return integer(rng, len(state.y)), 0.0


@jit
def propose_guided_flip(data, state, rng):
    """An item taken with probability ∝ e^(−θᵢ/β), another with probability ∝ e^(θᵢ/β)."""
    drops, adds = state.drop_tree[1], state.add_tree[1]
    total = drops + adds
    if coin(rng, drops / total):
        i = leaf(rng, state.drop_tree)
        return i, log(state.add[i] / (tree_without(state.drop_tree, i) + adds + state.add[i]) * total / state.drop[i])
    i = leaf(rng, state.add_tree)
    return i, log(state.drop[i] / (tree_without(state.add_tree, i) + drops + state.drop[i]) * total / state.add[i])


@jit
def change_flip(data, state, move, m):
    return move, 1 - 2 * np.int64(state.y[move])


@jit
def flip_fits(data, state, move):
    if state.y[move]:
        return True
    new, room = data.weights[move], state.room
    over = False
    for m in range(len(room)):
        over |= new[m] > room[m]
    return not over


@jit
def apply_flip(data, state, move):
    sign = 1 - 2 * np.int64(state.y[move])
    row = data.weights[move]
    for m in range(len(state.room)):
        state.room[m] -= sign * row[m]
    # The item changes places with the one at the border of the two parts of ``items``.
    border = state.taken[0] if sign > 0 else state.taken[0] - 1
    a, other = state.place[move], state.items[border]
    state.items[a], state.items[border] = other, move
    state.place[other], state.place[move] = a, border
    state.taken[0] += sign
    state.y[move] = 1 - state.y[move]


# --- the same, where guided moves are in the mixture -------------------------------------------------------------------


@jit
def follow(state, i):
    """Move item i to the tree where it now belongs."""
    tree_set(state.drop_tree, i, state.drop[i] if state.y[i] else 0.0)
    tree_set(state.add_tree, i, 0.0 if state.y[i] else state.add[i])


@jit
def apply_swap_and_follow(data, state, move):
    apply_swap(data, state, move)
    follow_swap(state, move[0], move[1])


@jit
def apply_flip_and_follow(data, state, move):
    apply_flip(data, state, move)
    follow(state, move)


MOVES = {
    "swap": Move("swap", propose_swap, change_swap, apply_swap, changes=2, feasible=swap_fits),
    "flip": Move("flip", propose_flip, change_flip, apply_flip, feasible=flip_fits),
}
MOVES_BESIDE_GUIDED = {
    "swap": Move("swap", propose_swap, change_swap, apply_swap_and_follow, changes=2, feasible=swap_fits),
    "flip": Move("flip", propose_flip, change_flip, apply_flip_and_follow, feasible=flip_fits),
    "guided swap": Move("guided swap", propose_guided_swap, change_swap, apply_swap_and_follow, changes=2, feasible=swap_fits),
    "guided flip": Move("guided flip", propose_guided_flip, change_flip, apply_flip_and_follow, feasible=flip_fits),
}


# --- the set ---------------------------------------------------------------------------------------------------------


@jit
def contains(data, y):
    for i in range(len(y)):
        if y[i] > 1:
            return False
    count = len(data.capacities)
    for m in range(0, count, 4):  # four at a time: a row of weights is one stretch of memory
        b, c, d = min(m + 1, count - 1), min(m + 2, count - 1), min(m + 3, count - 1)
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for i in range(len(y)):
            if y[i]:
                row = data.weights[i]
                first += row[m]
                second += row[b]
                third += row[c]
                fourth += row[d]
        limits = data.capacities
        if first > limits[m] or second > limits[b] or third > limits[c] or fourth > limits[d]:
            return False
    return True


@jit
def prepare(data, guide, temperature, state):
    for m in range(len(state.room)):
        state.room[m] = data.capacities[m]
    first, last = 0, len(state.y) - 1
    for i in range(len(state.y)):
        if state.y[i]:
            for m in range(len(state.room)):
                state.room[m] -= data.weights[i, m]
        at = first if state.y[i] else last
        state.items[at], state.place[i] = i, at
        first, last = first + state.y[i], last - (1 - state.y[i])
    state.taken[0] = first


@jit
def prepare_guided(data, guide, temperature, state):
    """One scale for both kinds of weights, since a guided flip chooses between dropping and adding."""
    prepare(data, guide, temperature, state)
    high = 0.0
    for i in range(len(guide)):
        high = max(high, abs(guide[i]))
    fill_guides(state, guide, data.beta if data.beta > 0.0 else 2.0 * temperature, -high, high)


@jit
def random(data, rng, y):
    """Toss a coin for each item, then go through the items from a random one on and put back those that do not fit: any solution
    can come, not uniformly. Four capacities are looked at together: a row of weights is one stretch of memory.
    """
    d, count, limits = len(y), len(data.capacities), data.capacities
    within = 1.0 - 0.5 * SLACK  # sums in another order are rounded otherwise
    shift = integer(rng, d)
    for n in range(d):
        y[(n + shift) % d] = coin(rng, 0.5)
    for m in range(0, count, 4):
        b, c, e = min(m + 1, count - 1), min(m + 2, count - 1), min(m + 3, count - 1)
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for n in range(d):
            i = (n + shift) % d
            if y[i]:
                row = data.weights[i]
                over = first + row[m] > within * limits[m] or second + row[b] > within * limits[b]
                if over or third + row[c] > within * limits[c] or fourth + row[e] > within * limits[e]:
                    y[i] = 0
                else:
                    first, second, third, fourth = first + row[m], second + row[b], third + row[c], fourth + row[e]


@jit
def sort_by_score(score, order, spare, n):
    """Sort the first n items of ``order`` by falling score, those of equal score as they stand: a merge sort."""
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            a, b = low, middle
            for k in range(low, high):
                if b == high or (a < middle and score[order[a]] >= score[order[b]]):
                    spare[k] = order[a]
                    a += 1
                else:
                    spare[k] = order[b]
                    b += 1
        for k in range(n):
            order[k] = spare[k]
        width *= 2


@jit
def greedy(data, guide, state):
    """Take items by value for weight, capacities counted as 1 each, best first, as long as they fit and are worth something."""
    y, room, score, order, worthy = state.y, state.room, state.score, state.items, 0
    for m in range(len(room)):
        room[m] = data.capacities[m]
    for i in range(len(y)):
        y[i] = 0
        if guide[i] > 0.0:
            share = 1e-12
            for m in range(len(room)):
                share += data.weights[i, m] / max(data.capacities[m], 1e-12)
            score[i], order[worthy] = guide[i] / share, i
            worthy += 1
    sort_by_score(score, order, state.place, worthy)
    for n in range(worthy):
        i = order[n]
        if flip_fits(data, state, i):
            y[i] = 1
            for m in range(len(room)):
                room[m] -= data.weights[i, m]


@dataclass(frozen=True, eq=False)
class Packings:
    """Lists all solutions of a small instance, in lexicographic order; most items are never tried where little fits."""

    weights: np.ndarray  # (M, d)
    limits: np.ndarray  # (M,)

    def __call__(self) -> Iterator[np.ndarray]:
        return self._with(np.zeros(self.weights.shape[1], np.uint8), 0, np.zeros(len(self.limits)))

    def _with(self, y: np.ndarray, first: int, load: np.ndarray) -> Iterator[np.ndarray]:
        """All solutions that are ``y`` before item ``first``; nothing is taken from there on."""
        yield y.copy()
        fits = (load[:, None] + self.weights[:, first:] <= self.limits[:, None]).all(0)
        for i in first + np.flatnonzero(fits)[::-1]:
            y[i] = 1
            yield from self._with(y, i + 1, load + self.weights[:, i])
            y[i] = 0

    @property
    def at_least(self) -> int:
        """Solutions that there are for sure: all subsets of the k least items, if they fit together; of any j items, if any do."""
        limits = self.limits[:, None] * (1.0 - 0.5 * SLACK)  # whatever the rounding
        alone = self.weights[:, (self.weights <= limits).all(0)]
        with np.errstate(over="ignore"):
            order = np.argsort((alone / np.maximum(limits, 1e-300)).max(0, initial=0.0))
        together, largest = np.cumsum(alone[:, order], axis=1), np.cumsum(-np.sort(-alone, axis=1), axis=1)
        k, j = (int((sums <= limits).all(0).sum()) for sums in (together, largest))
        return max(1 << k, sum(comb(alone.shape[1], n) for n in range(min(j, 20) + 1)))


class Options(TypedDict, total=False):
    """What :class:`Knapsack` takes by name."""

    moves: Sequence[str]
    beta: float | None
    shares: Sequence[float] | None


class Knapsack(Problem):
    """Y = {y ∈ {0,1}^d : W y ≤ C} with T(y) = y: maximize the value of items under M capacities.

    Parameters
    ----------
    weights : array (M, d)
        W ≥ 0, what each item takes of each capacity.
    capacities : array (M,)
        C ≥ 0.
    moves : sequence of str
        From "swap", "flip", "guided swap", "guided flip". Some flip must be there: swaps alone keep the number of items.
    beta : float, optional
        Temperature β of guided moves, which drop i with probability ∝ e^(−θᵢ/β) and add j ∝ e^(θⱼ/β); 2t by default.
    shares : sequence of float, optional
        Shares of the moves; equal by default.

    Notes
    -----
    A proposal that does not fit is drawn and refused ("stay"), so that no step costs more than O(M + log d). The paper normalizes
    proposals over neighbors that fit, at O(d² M) for each step; the law that chains converge to is the same.

    References
    ----------
    Vivier-Ardisson, Blondel, Parmentier, "Learning with Local Search MCMC Layers", section on the multi-dimensional knapsack.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.problems.Knapsack([[2.0, 3.0, 4.0, 5.0]], [7.0])
    Knapsack(4 items, 1 capacities)(d=4, moves=['swap', 'flip'])
    """

    def __init__(
        self,
        weights: Arrays,
        capacities: Arrays,
        *,
        moves: Sequence[str] = ("swap", "flip"),
        beta: float | None = None,
        shares: Sequence[float] | None = None,
    ) -> None:
        table, limits = _table(weights, "weights", 2), _table(capacities, "capacities", 1)
        if len(table) != len(limits):
            raise ValueError(f"weights must have one row for each of the {len(limits)} capacities, got {len(table)}.")
        moves = choices(moves, "moves", tuple(MOVES_BESIDE_GUIDED))
        if not any("flip" in move for move in moves):
            raise ValueError(f"moves must contain a flip, since swaps keep the number of items, got {tuple(moves)}.")
        guided, d = any("guided" in move for move in moves), table.shape[1]
        kit, n = MOVES_BESIDE_GUIDED if guided else MOVES, d if guided else 0
        tree = np.zeros(tree_size(d) if guided else 0)
        order = np.arange(d, dtype=np.int32)
        super().__init__(
            Data(np.ascontiguousarray(table.T), limits * (1.0 + SLACK), 0.0 if beta is None else positive(beta, "beta")),
            State(
                y=np.zeros(d, np.uint8),
                room=np.zeros(len(limits)),
                score=np.zeros(d),
                items=order,
                place=order,
                taken=np.zeros(1, np.int64),
                drop=np.zeros(n),
                add=np.zeros(n),
                drop_tree=tree,
                add_tree=tree,
            ),
            weighted([kit[m] for m in moves], shares, "shares"),
            d,
            prepare=prepare_guided if guided else prepare,
            contains=contains,
            random=random,
            uniform=False,
            greedy=greedy,
            guided=guided,
            states=Packings(table, limits * (1.0 + SLACK)),
            name=f"Knapsack({d} items, {len(limits)} capacities)",
        )
        self.weights_and_capacities = table, limits
        for array in self.weights_and_capacities:  # what ``states`` lists by
            array.setflags(write=False)

    @staticmethod
    def batch(weights: Arrays, capacities: Arrays, **options: Unpack[Options]) -> list["Knapsack"]:
        """One knapsack for each example.

        Parameters
        ----------
        weights : array (B, M, d), or a sequence of (M, d) of different sizes
            Of each knapsack.
        capacities : array (B, M), or a sequence of (M,)
            Of each knapsack.
        **options : any
            What else :class:`Knapsack` takes, for all of them.

        Returns
        -------
        list of Knapsack
            To be given to functions, layers and losses where they take a problem, with as many θ.
        """
        tables = sequence(unmasked(weights, "weights"), "weights", "tables, one for each instance")
        limits = sequence(unmasked(capacities, "capacities"), "capacities", "vectors, one for each instance")
        if len(tables) != len(limits):
            raise ValueError(f"weights and capacities must hold as many instances, got {len(tables)} and {len(limits)}.")
        return [Knapsack(w, c, **options) for w, c in zip(tables, limits, strict=True)]


def _table(value: Any, name: str, axes: int) -> np.ndarray:
    array = array_of(value, name)
    if array.dtype.kind not in "iuf" or array.ndim != axes or array.size == 0:
        raise ValueError(
            f"{name} must be numbers with {axes} {'axes' if axes > 1 else 'axis'}, got shape {array.shape} of {array.dtype}."
        )
    array = doubles(array)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        bad = array[~(np.isfinite(array) & (array >= 0))][0]
        raise ValueError(f"{name} must be finite and ≥ 0, got {bad} among its entries.")
    return array
