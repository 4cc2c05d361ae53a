"""Mistakes in moves that look at θ, through what ``prepare`` derives from the guide."""

from math import exp, log
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer, leaf
from movegrad.problems._sum_tree import tree_exchange, tree_fill, tree_size, tree_without
from tests.mutants import families as f
from tests.mutants.registry import vary, wrong

ONE_STEP = "the law is right for every θ; what fails is the gradient of one step, which takes the proposal for independent of θ"

# --- flips drawn in proportion to e^(±θ/β) ----------------------------------------------------------------------------


@mg.jit
def weight(state, i):
    return np.exp((1 - 2 * state.y[i]) * state.pull[i])


@mg.jit
def others(state, i):
    total = 0.0
    for j in range(len(state.y)):
        if j != i:
            total += weight(state, j)
    return total


@wrong("wrong ratio")
def guided_sign_of_the_ratio():
    """The ratio of the weights is upside down."""

    @mg.jit
    def propose(data, state, rng):
        i, n = categorical(rng, state.total), len(state.y)
        w = weight(state, i)
        return i, 2.0 * log(w) + log(state.total[n - 1] / (others(state, i) + 1.0 / w))

    return vary(f.steered(), propose=propose)


@wrong("wrong ratio")
def guided_normalizer_forgotten():
    """The weights stand in the ratio, their sums at y and y' do not."""

    @mg.jit
    def propose(data, state, rng):
        i = categorical(rng, state.total)
        return i, -2.0 * log(weight(state, i))

    return vary(f.steered(), propose=propose)


@wrong("wrong ratio")
def guided_ratio_forgotten():
    """The proposal is guided and claims a ratio of 1."""

    @mg.jit
    def propose(data, state, rng):
        return categorical(rng, state.total), 0.0

    return vary(f.steered(), propose=propose)


@wrong("wrong ratio")
def guided_weight_back_forgotten():
    """The sum at y' has the weight of flipping i taken out, that of flipping it back not put in."""

    @mg.jit
    def propose(data, state, rng):
        i, n = categorical(rng, state.total), len(state.y)
        return i, -2.0 * log(weight(state, i)) + log(state.total[n - 1] / others(state, i))

    return vary(f.steered(), propose=propose)


@wrong("wrong ratio")
def guided_beta_forgotten():
    """Weights are e^(±θ/β), the ratio is computed with e^(±θ)."""

    @mg.jit
    def propose(data, state, rng):
        i, n = categorical(rng, state.total), len(state.y)
        w = weight(state, i)
        return i, -2.0 * data.beta * log(w) + log(state.total[n - 1] / (others(state, i) + 1.0 / w))

    return vary(f.steered(), propose=propose)


@wrong("wrong ratio", t=0.4)
def guided_temperature_on_one_side():
    """Weights are drawn at β = 2t, the ratio takes them for β = 2: right at t = 1 alone."""

    class Tempered(NamedTuple):
        y: np.ndarray
        score: np.ndarray
        pull: np.ndarray
        total: np.ndarray

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y)):
            state.score[i] = f.bounded(guide[i])
            state.pull[i] = f.bounded(guide[i] / (2.0 * temperature))
        f.add_up(state)

    @mg.jit
    def propose(data, state, rng):
        i, n = categorical(rng, state.total), len(state.y)
        forth = (1 - 2 * state.y[i]) * state.score[i]
        return i, -forth + log(state.total[n - 1] / (others(state, i) + 1.0 / weight(state, i)))

    return vary(f.steered(), state=Tempered(*(np.zeros(3, d) for d in "bddd")), prepare=prepare, propose=propose)


@wrong("stale state", "wrong ratio")
def guided_sums_left_behind():
    """apply flips the bit and leaves the running sums that the next draw uses."""
    return vary(f.steered(), apply=f.apply_flip)


@wrong("stale state", "wrong ratio")
def guided_sums_updated_from_the_flipped_bit_on():
    """apply corrects the running sums behind the bit, not at it."""

    @mg.jit
    def apply(data, state, i):
        before = weight(state, i)
        state.y[i] = 1 - state.y[i]
        for j in range(i + 1, len(state.y)):
            state.total[j] += weight(state, i) - before

    return vary(f.steered(), apply=apply)


@wrong("depends on θ", hidden=ONE_STEP)
def guided_and_not_declared():
    """Proposals depend on θ, guided is False."""
    return vary(f.steered(), guided=False)


@wrong("depends on θ", hidden=ONE_STEP)
def order_of_theta_not_declared():
    """propose tries the better half of the items, by a ranking that prepare makes of θ; guided is False."""

    class Ranked(NamedTuple):
        y: np.ndarray
        best: np.ndarray  # (2,) items of highest θ

    @mg.jit
    def prepare(data, guide, temperature, state):
        first = 0
        for i in range(len(guide)):
            if guide[i] > guide[first]:
                first = i
        second = 0 if first > 0 else 1
        for i in range(len(guide)):
            if i != first and guide[i] > guide[second]:
                second = i
        state.best[0], state.best[1] = first, second

    @mg.jit
    def propose(data, state, rng):
        if coin(rng, 0.5):
            return state.best[integer(rng, 2)], 0.0
        return integer(rng, len(state.y)), 0.0

    state = Ranked(np.zeros(4, np.int8), np.zeros(2, np.int64))
    return vary(f.switches(4), state=state, prepare=prepare, propose=propose)


@wrong("feasible", "depends on θ", "leaves the set")
def hopeless_items_are_infeasible():
    """feasible refuses to add items of negative θ, though the set contains them."""

    class Scored(NamedTuple):
        y: np.ndarray
        score: np.ndarray

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(guide)):
            state.score[i] = guide[i]

    @mg.jit
    def feasible(data, state, i):
        return state.y[i] == 1 or state.score[i] > 0.0

    state = Scored(np.zeros(3, np.int8), np.zeros(3))
    return vary(f.switches(3), state=state, prepare=prepare, feasible=feasible, guided=True)


@wrong("wrong gain", "depends on θ")
def gain_of_the_guide():
    """gain counts ⟨θ, y⟩ as well, from the guide: the objective has it twice."""

    class Scored(NamedTuple):
        y: np.ndarray
        score: np.ndarray

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(guide)):
            state.score[i] = guide[i]

    @mg.jit
    def gain(data, state, i):
        return state.score[i] * (1 - 2 * state.y[i])

    state = Scored(np.zeros(3, np.int8), np.zeros(3))
    return vary(f.switches(3), state=state, prepare=prepare, gain=gain, guided=True)


# --- prepare that fails for some θ ------------------------------------------------------------------------------------


def steered_with(prepare) -> mg.Problem:
    return vary(f.steered(), prepare=prepare)


@wrong("prepare", "wrong ratio", "error", "overflow", "detailed balance", "stationary law", "stale state", "unreachable")
def scores_divided_by_the_largest():
    """Scores are divided by the largest |θ|, which is 0 for θ = 0."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        high = 0.0
        for i in range(len(guide)):
            high = max(high, abs(guide[i]))
        for i in range(len(state.y)):
            state.pull[i] = np.float64(guide[i]) / np.float64(high)
        f.add_up(state)

    return steered_with(prepare)


@wrong("prepare", "wrong ratio", "error", "overflow", "detailed balance", "one-way move", "unreachable", "stationary law")
def smallest_score_begun_at_zero():
    """The smallest θ is searched for with the wrong comparison, so that √(θ − smallest) is no number for negative θ."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        low = 0.0
        for i in range(len(guide)):
            low = max(low, guide[i])  # meant as the smallest
        for i in range(len(state.y)):
            state.pull[i] = np.sqrt(guide[i] - min(low, 0.0)) / data.beta
        f.add_up(state)

    return steered_with(prepare)


class Ranks(NamedTuple):
    y: np.ndarray
    order: np.ndarray  # items by θ, best first


@mg.jit
def propose_better_first(data, state, rng):
    """Rank k with probability ∝ n − k; the ranking does not depend on y."""
    n = len(state.y)
    at = integer(rng, n * (n + 1) // 2)
    for k in range(n):
        at -= n - k
        if at < 0:
            return state.order[k], 0.0
    return state.order[n - 1], 0.0


@wrong("prepare", "unreachable", "error", "depends on θ", "one-way move")
def ranking_with_ties():
    """Items are ranked by how many have a higher θ; equal ones share a rank, and some ranks stay empty."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(guide)):
            state.order[i] = 0
        for i in range(len(guide)):
            rank = 0
            for j in range(len(guide)):
                rank += guide[j] > guide[i]
            state.order[rank] = i

    state = Ranks(np.zeros(3, np.int8), np.zeros(3, np.int64))
    return vary(f.switches(3), state=state, prepare=prepare, propose=propose_better_first, guided=True, random=None)


@wrong("prepare", "unreachable", "one-way move", scale=10.0, t=10.0)
def only_items_worth_something():
    """Drawing is restricted to items with |θ| below 5; others are never tried."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        kept = 0
        for i in range(len(guide)):
            if abs(guide[i]) < 5.0 or kept == 0:
                state.order[kept] = i
                kept += 1
        for k in range(kept, len(guide)):
            state.order[k] = state.order[0]

    state = Ranks(np.zeros(3, np.int8), np.zeros(3, np.int64))
    return vary(f.switches(3), state=state, prepare=prepare, propose=propose_better_first, guided=True, random=None)


@wrong("prepare", "wrong ratio", "detailed balance", "stale state", "error", t=0.4)
def temperature_rounded():
    """β is the temperature rounded to a whole number, which is 0 for t ≤ 0.5, and the ratio divides by t itself."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        beta = max(round(temperature), 1)
        for i in range(len(state.y)):
            state.pull[i] = f.bounded(guide[i] / beta)
        f.add_up(state)
        state.total[len(state.y)] = temperature

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        i = categorical(rng, state.total[:n])
        w = weight(state, i)
        factor = max(round(state.total[n]), 1) / state.total[n]
        return i, -2.0 * factor * log(w) + log(state.total[n - 1] / (others(state, i) + 1.0 / w))

    base = f.steered()
    return vary(base, state=f.Steered(np.zeros(3, np.int8), np.zeros(3), np.zeros(4)), prepare=prepare, propose=propose)


# --- exchanges with sum trees -----------------------------------------------------------------------------------------


class Trees(NamedTuple):
    y: np.ndarray
    drop: np.ndarray  # (n,) e^(−θ/β)
    add: np.ndarray  # (n,) e^(θ/β)
    drop_tree: np.ndarray  # of the ones
    add_tree: np.ndarray  # of the zeros


@mg.jit
def fill_leaves(data, guide, temperature, state):
    leaves = len(state.drop_tree) // 2
    for i in range(leaves):
        state.drop_tree[leaves + i] = state.add_tree[leaves + i] = 0.0
    for i in range(len(state.y)):
        score = min(max(guide[i] / 2.0, -20.0), 20.0)
        state.drop[i], state.add[i] = exp(-score), exp(score)
        if state.y[i] == 1:
            state.drop_tree[leaves + i] = state.drop[i]
        else:
            state.add_tree[leaves + i] = state.add[i]


@mg.jit
def fill_trees(data, guide, temperature, state):
    fill_leaves(data, guide, temperature, state)
    tree_fill(state.drop_tree)
    tree_fill(state.add_tree)


@mg.jit
def propose_by_trees(data, state, rng):
    i, j = leaf(rng, state.drop_tree), leaf(rng, state.add_tree)
    back_drop, back_add = tree_without(state.drop_tree, i) + state.drop[j], tree_without(state.add_tree, j) + state.add[i]
    forth = state.drop[i] * state.add[j] / (state.drop_tree[1] * state.add_tree[1])
    return (i, j), log(state.drop[j] * state.add[i] / (back_drop * back_add) / forth)


@mg.jit
def change_items(data, state, move, m):
    return move[m], 2 * m - 1


@mg.jit
def apply_with_trees(data, state, move):
    i, j = move
    state.y[i], state.y[j] = 0, 1
    tree_exchange(state.drop_tree, i, 0.0, j, state.drop[j])
    tree_exchange(state.add_tree, j, 0.0, i, state.add[i])


def orchard(n=5, k=2, **changed) -> mg.Problem:
    """k of n, exchanged in proportion to weights that stand in sum trees.

    Wrong sums may lead to any leaf: with n a power of two, every leaf is an item, and nobody writes beyond the state.
    """
    m = tree_size(n)
    state = Trees((np.arange(n) < k).astype(np.int8), np.zeros(n), np.zeros(n), np.zeros(m), np.zeros(m))
    parts = {"prepare": fill_trees, "propose": propose_by_trees, "change": change_items, "apply": apply_with_trees}
    return vary(f.team(n, k), state=state, guided=True, **{**parts, **changed})


@wrong("stale state", "compiled", "wrong ratio")
def tree_sums_left_behind():
    """apply writes the leaves of the trees and not the sums above them."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        leaves = len(state.drop_tree) // 2
        state.y[i], state.y[j] = 0, 1
        state.drop_tree[leaves + i], state.drop_tree[leaves + j] = 0.0, state.drop[j]
        state.add_tree[leaves + j], state.add_tree[leaves + i] = 0.0, state.add[i]

    return orchard(8, apply=apply)


@wrong("stale state", "compiled", "wrong ratio")
def tree_sums_between_left_behind():
    """apply writes the leaves and the totals at the roots; the sums between, by which draws descend, are old."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        leaves = len(state.drop_tree) // 2
        state.y[i], state.y[j] = 0, 1
        state.drop_tree[1] += state.drop[j] - state.drop[i]
        state.add_tree[1] += state.add[i] - state.add[j]
        state.drop_tree[leaves + i], state.drop_tree[leaves + j] = 0.0, state.drop[j]
        state.add_tree[leaves + j], state.add_tree[leaves + i] = 0.0, state.add[i]

    @mg.jit
    def propose(data, state, rng):
        """Leaves and roots alone are read here, so that the ratio is right."""
        i, j = leaf(rng, state.drop_tree), leaf(rng, state.add_tree)
        drops, adds = state.drop_tree[1], state.add_tree[1]
        back = state.drop[j] * state.add[i] / ((drops - state.drop[i] + state.drop[j]) * (adds - state.add[j] + state.add[i]))
        return (i, j), log(back * drops * adds / (state.drop[i] * state.add[j]))

    return orchard(8, apply=apply, propose=propose)


@wrong("prepare", "compiled", "wrong ratio", "stale state", "error", hidden="what comes of it depends on what was in memory")
def tree_never_summed():
    """prepare writes the leaves of the trees and leaves the sums above them to memory."""
    return orchard(8, prepare=fill_leaves)


@wrong("stale state", "compiled", "wrong ratio")
def tree_of_the_ones_left_behind():
    """One of the two trees is kept, the other is not."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        state.y[i], state.y[j] = 0, 1
        tree_exchange(state.drop_tree, i, 0.0, j, state.drop[j])

    return orchard(8, apply=apply)


@wrong("stale state", "compiled", "wrong ratio")
def tree_of_five_leaves():
    """The tree has five leaves, not a power of two: the two paths that an exchange goes up differ in length."""
    n, k = 5, 2
    state = Trees((np.arange(n) < k).astype(np.int8), np.zeros(n), np.zeros(n), np.zeros(2 * n), np.zeros(2 * n))
    return vary(orchard(n, k), state=state)


@wrong("depends on θ", hidden=ONE_STEP)
def moves_that_apply_by_theta():
    """Whether a second move applies depends on the sign of θ₀; the law is right, but guided is False."""

    class Signed(NamedTuple):
        y: np.ndarray
        up: np.ndarray  # (1,) is θ₀ positive?

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.up[0] = guide[0] > 0.0

    @mg.jit
    def applicable(data, state):
        return 3 if state.up[0] == 1 else 1

    @mg.jit
    def after(data, state, i):
        return 3 if state.up[0] == 1 else 1

    @mg.jit
    def first(data, state, rng):
        return 0, 0.0

    flip = mg.Move("flip", f.propose_flip, f.change_flip, f.apply_flip, applicable_after=after)
    moves = [flip, mg.Move("first", first, f.change_flip, f.apply_flip, applicable_after=after)]
    state = Signed(np.zeros(3, np.int8), np.zeros(1, np.int64))
    return vary(f.switches(3), state=state, moves=moves, prepare=prepare, applicable=applicable)


@wrong("wrong ratio")
def trees_of_here_for_there():
    """The ratio has the weights the right way round and the totals of y where those of y' belong."""

    @mg.jit
    def propose(data, state, rng):
        i, j = leaf(rng, state.drop_tree), leaf(rng, state.add_tree)
        return (i, j), log(state.drop[j] * state.add[i] / (state.drop[i] * state.add[j]))

    return orchard(propose=propose)


@wrong("wrong ratio")
def one_total_of_two():
    """The total of the added items is brought to y', that of the dropped ones is not."""

    @mg.jit
    def propose(data, state, rng):
        i, j = leaf(rng, state.drop_tree), leaf(rng, state.add_tree)
        back_add = tree_without(state.add_tree, j) + state.add[i]
        forth = state.drop[i] * state.add[j] / state.add_tree[1]
        return (i, j), log(state.drop[j] * state.add[i] / back_add / forth)

    return orchard(propose=propose)


@wrong("stale state", "compiled", "wrong ratio", "prepare")
def tree_leaf_of_the_wrong_item():
    """apply puts the weight of the item that goes where that of the one that comes belongs."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        state.y[i], state.y[j] = 0, 1
        tree_exchange(state.drop_tree, i, 0.0, j, state.drop[i])
        tree_exchange(state.add_tree, j, 0.0, i, state.add[j])

    return orchard(apply=apply)
