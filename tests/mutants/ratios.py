"""Mistakes in the correction ratio log q(y', y) − log q(y, y')."""

from dataclasses import replace
from math import exp, log
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer
from tests.mutants import families as f
from tests.mutants.families import nth
from tests.mutants.registry import TOO_SMALL, vary, wrong

# --- add or drop: the number of ways changes with every step ----------------------------------------------------------


@wrong("wrong ratio")
def basket_off_by_one():
    """Dropping counts the ones as if there were one more of them."""

    @mg.jit
    def propose(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        if coin(rng, 0.5):
            if zeros == 0:
                return 0, -np.inf
            return nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1))
        if ones == 0:
            return 0, -np.inf
        return nth(state.y, 1, integer(rng, ones)), log((ones + 1) / (zeros + 1))

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_ratio_upside_down():
    """The ratio is q(y, y')/q(y', y)."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, -ratio if ratio > -np.inf else ratio

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_ratio_without_logarithm():
    """Returns the ratio itself instead of its logarithm."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, exp(ratio) if ratio > -np.inf else ratio

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_decimal_logarithm():
    """log10 instead of the natural logarithm."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, ratio / log(10.0)

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_ratio_cut_at_one():
    """Takes the minimum with 1 already in the proposal, as if it were the acceptance probability."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, min(ratio, 0.0)

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_biased_coin_forgotten():
    """Heads comes with probability 0.3; the ratio counts the ways alone."""

    @mg.jit
    def propose(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        if coin(rng, 0.3):
            if zeros == 0:
                return 0, -np.inf
            return nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1))
        if ones == 0:
            return 0, -np.inf
        return nth(state.y, 1, integer(rng, ones)), log(ones / (zeros + 1))

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_no_coin_at_the_ends():
    """Where only adding or only dropping is possible no coin is tossed, which the ratio does not know."""

    @mg.jit
    def propose(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        if ones == 0 or (zeros > 0 and coin(rng, 0.5)):
            return nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1))
        return nth(state.y, 1, integer(rng, ones)), log(ones / (zeros + 1))

    return vary(f.basket(), propose=propose)


@wrong("wrong ratio")
def basket_right_in_the_middle_alone():
    """Claims 1, which holds only between baskets that are half full."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, 0.0 if ratio > -np.inf else ratio

    return vary(f.basket(3), propose=propose)


@wrong("wrong ratio")
def basket_wrong_when_full():
    """All ratios are right but that of the way into the full basket."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, 0.0 if state.ones[0] == len(state.y) - 1 and state.y[i] == 0 else ratio

    return vary(f.basket(), propose=propose)


@wrong("one-way move")
def basket_never_emptied():
    """Returns −inf for the drop of the last one, but adds to the empty basket."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, -np.inf if state.ones[0] == 1 and state.y[i] == 1 else ratio

    return vary(f.basket(), propose=propose)


# --- several ways to the same neighbor --------------------------------------------------------------------------------


@wrong("wrong ratio")
def groups_multiplicity_forgotten():
    """A large group is joined by more draws than a small one; the ratio says 1."""

    @mg.jit
    def propose(data, state, rng):
        return (integer(rng, len(state.y)), integer(rng, len(state.y))), 0.0

    return vary(f.groups(), propose=propose)


@wrong("wrong ratio")
def groups_counted_with_the_mover():
    """Sizes of groups include the element that moves, in both groups."""

    @mg.jit
    def propose(data, state, rng):
        i, j = integer(rng, len(state.y)), integer(rng, len(state.y))
        old = f.group_size(state.y, state.y[i], -1)
        new = 0 if j == i else f.group_size(state.y, state.y[j], -1)
        return (i, j), log(max(old, 1)) - log(max(new, 1))

    return vary(f.groups(), propose=propose)


@wrong("wrong ratio")
def tour_three_ways_there():
    """2-opt of neighboring positions is drawn three times as often where the first city is odd."""

    @mg.jit
    def propose(data, state, rng):
        (i, j), ratio = f.propose_two_opt(data, state, rng)
        if j > i + 1 and coin(rng, 0.5):
            j = i + 1 + state.y[i] % 2 if i + 2 < len(state.y) else i + 1
        return (i, j), ratio

    return vary(f.tour(), propose=propose)


@wrong("wrong ratio")
def shop_machine_first():
    """Draws a machine, then a job on it; machines with many jobs have each of them drawn less often."""

    @mg.jit
    def propose(data, state, rng):
        machines = len(state.load)
        k = integer(rng, machines)
        jobs = f.group_size(state.y, k, -1)
        if jobs == 0:
            return (0, 0), -np.inf
        j, target = nth(state.y, k, integer(rng, jobs)), integer(rng, machines - 1)
        target += target >= k
        return (j, target), 0.0

    return vary(f.shop(), propose=propose)


@wrong("wrong ratio")
def shop_machine_first_and_counts_of_here():
    """The same with a ratio of job counts, but the target's count is that before the job comes."""

    @mg.jit
    def propose(data, state, rng):
        machines = len(state.load)
        k = integer(rng, machines)
        jobs = f.group_size(state.y, k, -1)
        if jobs == 0:
            return (0, 0), -np.inf
        j, target = nth(state.y, k, integer(rng, jobs)), integer(rng, machines - 1)
        target += target >= k
        return (j, target), log(jobs) - log(max(f.group_size(state.y, target, -1), 1))

    return vary(f.shop(), propose=propose)


# --- steps of integers ------------------------------------------------------------------------------------------------


@wrong("wrong ratio")
def dials_reflected_at_the_border():
    """At 0 and at the top the only step left is taken with twice the chance of the step back."""

    @mg.jit
    def propose(data, state, rng):
        i, step = integer(rng, len(state.y)), 2 * integer(rng, 2) - 1
        if not 0 <= state.y[i] + step <= data.top:
            step = -step
        return (i, step), 0.0

    return vary(f.dials(), propose=propose)


@wrong("wrong ratio")
def dials_clamped():
    """Steps of one and two are cut off at the border, so that two draws lead there and one leads back."""

    @mg.jit
    def propose(data, state, rng):
        i, step = integer(rng, len(state.y)), (-2, -1, 1, 2)[integer(rng, 4)]
        return (i, max(-state.y[i], min(step, data.top - state.y[i]))), 0.0

    return vary(f.dials(), propose=propose)


@wrong("wrong ratio")
def dials_scaled_steps():
    """A random walk on the logarithm: doubles or halves y + 1, rounded down, and forgets that several values halve to one."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        now = state.y[i] + 1
        then = 2 * now + integer(rng, 2) if coin(rng, 0.5) else now // 2
        return (i, then - now), 0.0 if 1 <= then <= data.top + 1 else -np.inf

    return vary(f.dials(2, 6), propose=propose)


@wrong("one-way move")
def dials_only_up_from_zero():
    """Steps down to 0 count as impossible, steps up from 0 do not."""

    @mg.jit
    def propose(data, state, rng):
        (i, step), ratio = f.propose_turn(data, state, rng)
        return (i, step), ratio if state.y[i] + step > 0 else -np.inf

    return vary(f.dials(), propose=propose)


# --- insertions and deletions -----------------------------------------------------------------------------------------


@wrong("wrong ratio")
def words_alphabet_forgotten():
    """An insertion also draws a letter, a deletion does not; the ratio says 1."""

    @mg.jit
    def propose(data, state, rng):
        move, ratio = f.propose_edit(data, state, rng)
        return move, 0.0 if ratio > -np.inf else ratio

    return vary(f.words(), propose=propose)


@wrong("one-way move")
def words_never_at_the_end():
    """Inserts before one of the letters there are, never behind the last; but the last letter can be deleted."""

    @mg.jit
    def propose(data, state, rng):
        n = state.length[0]
        if coin(rng, 0.5):
            if n == len(state.y):
                return (0, 0), -np.inf
            return (integer(rng, max(n, 1)), integer(rng, data.letters)), log(data.letters * max(n, 1) / (n + 1))
        if n == 0:
            return (0, 0), -np.inf
        return (integer(rng, n), -1), -log(data.letters * max(n - 1, 1) / n)

    return vary(f.words(), propose=propose)


@wrong("wrong ratio")
def words_places_of_here_for_both():
    """Draws a place among all cells of the array for a deletion, among n + 1 for an insertion, and takes both for n + 1."""

    @mg.jit
    def propose(data, state, rng):
        n = state.length[0]
        if coin(rng, 0.5):
            if n == len(state.y):
                return (0, 0), -np.inf
            return (integer(rng, n + 1), integer(rng, data.letters)), log(data.letters)
        place = integer(rng, len(state.y))
        return (place, -1), -log(data.letters) if place < n else -np.inf

    return vary(f.words(), propose=propose)


@wrong("wrong ratio")
def words_sum_over_ways_on_one_side():
    """An insertion next to an equal letter sums over both ways there, the deletion takes each by itself."""

    @mg.jit
    def propose(data, state, rng):
        (place, letter), ratio = f.propose_edit(data, state, rng)
        if letter >= 0 and ratio > -np.inf and place > 0 and state.y[place - 1] == letter:
            ratio -= log(2.0)
        return (place, letter), ratio

    return vary(f.words(), propose=propose)


# --- permutations and matchings ---------------------------------------------------------------------------------------


@wrong("one-way move")
def lineup_swaps_inversions_alone():
    """Swaps two items only if they stand in the wrong order: there is no way back."""

    @mg.jit
    def propose(data, state, rng):
        (i, j), ratio = f.propose_pair(data, state, rng)
        return (i, j), ratio if (state.y[i] > state.y[j]) == (i < j) else -np.inf

    return vary(f.lineup(), propose=propose)


class Weighted(NamedTuple):
    y: np.ndarray
    cumulative: np.ndarray


@wrong("wrong ratio")
def lineup_weights_by_item():
    """The first item is drawn by a weight of the item that stands there, the second by position: the swap back weighs otherwise."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        i = categorical(rng, state.cumulative)
        j = integer(rng, n - 1)
        j += j >= i
        if state.y[i] == 0:
            j = (i + 1) % n  # item 0 changes places with the next one alone
        return (i, j), 0.0

    @mg.jit
    def prepare(data, guide, temperature, state):
        total = 0.0
        for p in range(len(state.y)):
            total += 1.0 + state.y[p]
            state.cumulative[p] = total

    @mg.jit
    def apply(data, state, move):
        f.apply_pair(data, state, move)
        prepare(data, state.cumulative, 1.0, state)

    base = f.lineup()
    return vary(base, propose=propose, apply=apply, prepare=prepare, state=Weighted(base.solution, np.zeros(4)))


@wrong("wrong ratio", hidden=TOO_SMALL)
def tour_segment_that_must_fit():
    """Or-opt draws a start, then a length that fits behind it: near the end of the tour there are fewer lengths."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        start = 1 + integer(rng, n - 1)
        length = 1 + integer(rng, min(3, n - start))
        if length == n - 1:
            return (1, 1, 1), -np.inf
        gap = 1 + integer(rng, n - length - 1)
        if gap < start:
            return (gap, start, start + length), 0.0
        return (start, start + length, gap + length + 1), 0.0

    return vary(f.tour(), propose=propose, change=f.change_or_opt, apply=f.apply_or_opt, changes=6)


@wrong("wrong ratio", "one-way move", hidden=TOO_SMALL)
def tour_segment_to_the_front():
    """Or-opt that moves a city only to one of the two gaps before or behind it, cut off at the ends, as if that were symmetric."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        start = 1 + integer(rng, n - 1)
        low, high = max(1, start - 2), min(n - 2, start + 1)
        gap = low + integer(rng, high - low + 1)
        if gap < start:
            return (gap, start, start + 1), 0.0
        return (start, start + 1, gap + 2), 0.0

    return vary(f.tour(), propose=propose, change=f.change_or_opt, apply=f.apply_or_opt, changes=6)


@wrong("wrong ratio", "one-way move")
def mates_close_ones_preferred():
    """Draws j among the neighbors of i and of i's mate; the count of these is not the same on the way back."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        i = integer(rng, n)
        a = state.y[i]
        j = (i + 1) % n if coin(rng, 0.5) else (a + 1) % n
        return (i, j), 0.0 if j != i and j != a else -np.inf

    return vary(f.mates(), propose=propose)


@wrong("wrong ratio")
def trees_cheap_edges_preferred():
    """The new edge is drawn with a weight, the old one uniformly; the ratio of the two weights is upside down."""

    @mg.jit
    def propose(data, state, rng):
        old = nth(state.y, 1, integer(rng, data.nodes - 1))
        left = 0.0
        for e in range(len(state.y)):
            if state.y[e] == 0:
                left += 1.0 + e
        total = left
        for e in range(len(state.y)):
            if state.y[e] == 0:
                if coin(rng, min((1.0 + e) / left, 1.0)):
                    back = (1.0 + old) / (total - (1.0 + e) + (1.0 + old))
                    forth = (1.0 + e) / total
                    return (old, e), log(forth / back)
                left -= 1.0 + e
        return (old, 0), -np.inf

    return vary(f.trees(), propose=propose)


@wrong("wrong ratio")
def trees_normalizer_of_here():
    """The same with the weights the right way round, but the normalizer of y where that of y' belongs."""

    @mg.jit
    def propose(data, state, rng):
        old = nth(state.y, 1, integer(rng, data.nodes - 1))
        left = 0.0
        for e in range(len(state.y)):
            if state.y[e] == 0:
                left += 1.0 + e
        for e in range(len(state.y)):
            if state.y[e] == 0:
                if coin(rng, min((1.0 + e) / left, 1.0)):
                    return (old, e), log((1.0 + old) / (1.0 + e))
                left -= 1.0 + e
        return (old, 0), -np.inf

    return vary(f.trees(), propose=propose)


@wrong("wrong ratio", "one-way move")
def map_choices_depend_on_the_color():
    """Draws one of the next one or two colors; how many these are depends on the color there is."""

    @mg.jit
    def propose(data, state, rng):
        v = integer(rng, len(state.y))
        choices = 1 + (state.y[v] + v) % 2
        color = (state.y[v] + 1 + integer(rng, choices)) % data.colors
        return (v, color), 0.0

    return vary(f.colored_map(3, 4), propose=propose)


@mg.jit
def fits_instead(data, state, i, j):
    return state.y[j] == 0 and data.weight[j] - data.weight[i] <= state.room[0]


@mg.jit
def draw_one_that_fits(data, state, rng):
    """Drop i, then add one of those that fit now: ratio 1, since as many others fit where i was, or j."""
    ones = f.group_size(state.y, 1, -1)
    if ones == 0:
        return (0, 0), -np.inf
    i, count = nth(state.y, 1, integer(rng, ones)), 0
    for j in range(len(state.y)):
        count += fits_instead(data, state, i, j)
    if count == 0:
        return (0, 0), -np.inf
    n = integer(rng, count)
    for j in range(len(state.y)):
        if fits_instead(data, state, i, j):
            if n == 0:
                return (i, j), 0.0
            n -= 1
    return (0, 0), -np.inf


@wrong("wrong ratio")
def sack_pair_drawn_one_after_the_other():
    """Draws i, then j among those that fit, and claims the ratio of a pair drawn jointly among all pairs that fit."""

    @mg.jit
    def pairs_that_fit(data, state, out, into):
        """How many trades fit once ``out`` and ``into`` have changed places."""
        total, room = 0, state.room[0] - data.weight[into] + data.weight[out]
        for i in range(len(state.y)):
            for j in range(len(state.y)):
                chosen = i == into or (state.y[i] == 1 and i != out)
                other = j == out or (state.y[j] == 0 and j != into)
                total += chosen and other and data.weight[j] - data.weight[i] <= room
        return total

    @mg.jit
    def propose(data, state, rng):
        (i, j), ratio = draw_one_that_fits(data, state, rng)
        if ratio == -np.inf:
            return (i, j), ratio
        return (i, j), log(pairs_that_fit(data, state, -1, -1) / pairs_that_fit(data, state, i, j))

    return vary(f.sack(), 1, propose=propose)


@wrong("wrong ratio")
def sack_draws_among_fitting_flips():
    """Flips one of the items whose flip fits; the count of these changes with the flip, the ratio does not know."""

    @mg.jit
    def propose(data, state, rng):
        count = 0
        for i in range(len(state.y)):
            count += f.item_fits(data, state, i)
        n = integer(rng, count)
        for i in range(len(state.y)):
            if f.item_fits(data, state, i):
                if n == 0:
                    return i, 0.0
                n -= 1
        return 0, -np.inf

    return vary(f.sack(), propose=propose)


@wrong("wrong ratio")
def quiet_birth_and_death():
    """Births among free places, deaths among the chosen: the count of free places at y' is taken for that at y less one."""

    @mg.jit
    def free(state):
        count = 0
        for i in range(len(state.y)):
            count += state.y[i] == 0 and state.blocked[i] == 0
        return count

    @mg.jit
    def propose(data, state, rng):
        open_places, chosen = free(state), f.group_size(state.y, 1, -1)
        if coin(rng, 0.5):
            if open_places == 0:
                return 0, -np.inf
            n = integer(rng, open_places)
            for i in range(len(state.y)):
                if state.y[i] == 0 and state.blocked[i] == 0:
                    if n == 0:
                        return i, log(open_places / (chosen + 1))
                    n -= 1
        if chosen == 0:
            return 0, -np.inf
        return nth(state.y, 1, integer(rng, chosen)), log(chosen / (open_places + 1))

    return vary(f.quiet(), propose=propose)


@wrong("wrong ratio")
def quiet_plus_infinity():
    """A division by a count that is 0 at one solution makes the ratio +inf there: always accepted."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_flip(data, state, rng)
        others = f.group_size(state.y, 1, i)
        return i, np.inf if others == 2 and state.y[i] == 0 else ratio

    return vary(f.quiet(), propose=propose)


@wrong("wrong ratio", "error")
def menu_not_a_number():
    """0/0 at the empty menu: the ratio is no number there, and the kernel never accepts it."""

    @mg.jit
    def propose(data, state, rng):
        i, ratio = f.propose_flip(data, state, rng)
        share = np.float64(state.ones[0]) / np.float64(state.ones[0])
        return i, ratio * share

    return vary(f.menu(), propose=propose)


@wrong("wrong ratio", "one-way move", "detailed balance", hidden="nobody will ever see it")
def one_in_a_billion():
    """The ratio is wrong in a branch that is drawn once in 10⁹ times."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, 0.5 if coin(rng, 1e-9) else 0.0

    return vary(f.switches(3), propose=propose)


@wrong("wrong ratio", "detailed balance", hidden=TOO_SMALL)
def logarithm_to_six_digits():
    """log 2 is written as 0.693147."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        if state.y[i] == 1:
            return i, 0.693147 if coin(rng, 0.5) else -np.inf
        return i, -0.693147

    return vary(f.switches(3), propose=propose)


@wrong("wrong ratio", "detailed balance", hidden=TOO_SMALL)
def epsilon_in_a_denominator():
    """A count is divided by a count plus 10⁻⁶, lest it be zero."""

    @mg.jit
    def propose(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        if coin(rng, 0.5):
            if zeros == 0:
                return 0, -np.inf
            return nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1 + 1e-6))
        if ones == 0:
            return 0, -np.inf
        return nth(state.y, 1, integer(rng, ones)), log(ones / (zeros + 1 + 1e-6))

    return vary(f.basket(), propose=propose)


# --- two moves that are each other's reverse --------------------------------------------------------------------------


@mg.jit
def propose_add(data, state, rng):
    ones, zeros = state.ones[0], len(state.y) - state.ones[0]
    if zeros == 0:
        return 0, -np.inf
    return nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1))


@mg.jit
def propose_drop(data, state, rng):
    ones, zeros = state.ones[0], len(state.y) - state.ones[0]
    if ones == 0:
        return 0, -np.inf
    return nth(state.y, 1, integer(rng, ones)), log(ones / (zeros + 1))


def add_and_drop(propose_one=propose_add, propose_other=propose_drop, weights=(1.0, 1.0)) -> mg.Problem:
    """The basket with adding and dropping as moves of their own: each is undone by the other."""
    base = f.basket()
    moves = [
        replace(base.moves[0], name="add", propose=propose_one, weight=weights[0]),
        replace(base.moves[0], name="drop", propose=propose_other, weight=weights[1]),
    ]
    return vary(base, moves=moves)


@wrong("wrong ratio", "one-way move", "detailed balance", "stationary law")
def add_and_drop_of_different_weight():
    """Adding and dropping undo each other, and one is drawn three times as often; the ratios do not know."""
    return add_and_drop(weights=(3.0, 1.0))


@wrong("wrong ratio", "one-way move", "detailed balance", "stationary law")
def add_and_drop_without_counts():
    """Adding and dropping undo each other with ratio 1, whatever the number of ones and zeros."""

    @mg.jit
    def add(data, state, rng):
        i, ratio = propose_add(data, state, rng)
        return i, min(ratio, 0.0) * 0.0 if ratio > -np.inf else ratio

    @mg.jit
    def drop(data, state, rng):
        i, ratio = propose_drop(data, state, rng)
        return i, min(ratio, 0.0) * 0.0 if ratio > -np.inf else ratio

    return add_and_drop(add, drop)


@wrong("one-way move", "unreachable")
def add_without_drop():
    """Adding is there, dropping is not: the chain fills up."""
    base = f.basket()
    return vary(base, propose=propose_add)
