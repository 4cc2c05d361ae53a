"""Unusual problems without a mistake: what a checker that looks too closely might refuse."""

from dataclasses import replace
from functools import partial
from itertools import product
from math import log, pi
from typing import NamedTuple

import numba
import numpy as np

import movegrad as mg
from movegrad import categorical, coin, integer
from movegrad.problems import Hypercube, Knapsack, TopK
from tests.mutants import caches, differences, guided, numbers, ratios, routing, sets
from tests.mutants import families as f
from tests.mutants.registry import right, vary

STUCK = "right, but a chain takes for ever to get there"

for _family in f.FAMILIES:
    right(_family)

# --- mixtures ---------------------------------------------------------------------------------------------------------


@mg.jit
def exchange_applies(ones, n):
    return 3 if 0 < ones < n else 1


@mg.jit
def flip_or_exchange(data, state):
    return exchange_applies(state.ones[0], len(state.y))


@mg.jit
def after_flip(data, state, i):
    return exchange_applies(state.ones[0] + 1 - 2 * state.y[i], len(state.y))


@mg.jit
def after_exchange(data, state, move):
    return exchange_applies(state.ones[0], len(state.y))


@mg.jit
def propose_one_for_another(data, state, rng):
    """Fails where there is no one or no zero: draws from nothing."""
    ones = state.ones[0]
    return (f.nth(state.y, 1, integer(rng, ones)), f.nth(state.y, 0, integer(rng, len(state.y) - ones))), 0.0


@mg.jit
def change_two(data, state, move, m):
    return move[m], 1 - 2 * state.y[move[m]]


def flips_and_exchanges(weights=(1.0, 1.0), n: int = 3) -> mg.Problem:
    moves = [
        mg.Move("flip", f.propose_flip, f.change_flip, f.apply_counted_flip, applicable_after=after_flip, weight=weights[0]),
        mg.Move(
            "exchange",
            propose_one_for_another,
            change_two,
            f.apply_pair,
            changes=2,
            applicable_after=after_exchange,
            weight=weights[1],
        ),
    ]
    return vary(f.basket(n), moves=moves, applicable=flip_or_exchange)


@right
def move_that_would_fail_where_it_does_not_apply():
    """applicable switches the exchange off where its propose would draw from nothing."""
    return flips_and_exchanges()


@right
def applicable_moves_of_very_different_weight():
    """The same with weights 1 and 25."""
    return flips_and_exchanges((1.0, 25.0))


@right
def weights_twelve_orders_apart():
    """Moves of weights 10⁻⁶ and 10⁶."""
    base = f.switches()
    return vary(base, moves=[replace(f.FLIP, weight=1e-6), replace(f.FLIP, name="flip, too", weight=1e6)])


@right
def adding_and_dropping_are_two_moves():
    """Each of two moves is undone by the other, with ratios across moves; neither goes back by itself."""
    return ratios.add_and_drop()


@right
def adding_and_dropping_with_weights():
    """The same where adding is drawn three times as often, and the ratios say so."""

    @mg.jit
    def add(data, state, rng):
        i, ratio = ratios.propose_add(data, state, rng)
        return i, ratio - log(3.0)

    @mg.jit
    def drop(data, state, rng):
        i, ratio = ratios.propose_drop(data, state, rng)
        return i, ratio + log(3.0)

    return ratios.add_and_drop(add, drop, (3.0, 1.0))


@right
def adding_and_dropping_where_they_apply():
    """The same with applicable: adding where there are zeros, dropping where there are ones; no guards in propose."""

    @mg.jit
    def mask(ones, n):
        return (ones < n) + 2 * (ones > 0)

    @mg.jit
    def applicable(data, state):
        return mask(state.ones[0], len(state.y))

    @mg.jit
    def after(data, state, i):
        return mask(state.ones[0] + 1 - 2 * state.y[i], len(state.y))

    @mg.jit
    def add(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        return f.nth(state.y, 0, integer(rng, zeros)), log(zeros / (ones + 1))

    @mg.jit
    def drop(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        return f.nth(state.y, 1, integer(rng, ones)), log(ones / (zeros + 1))

    base = ratios.add_and_drop(add, drop)
    return vary(base, moves=[replace(m, applicable_after=after) for m in base.moves], applicable=applicable)


@right
def ten_moves():
    """Ten moves, all the same but for their weights."""
    return vary(f.switches(3), moves=[replace(f.FLIP, name=f"flip {s}", weight=1.0 + s) for s in range(10)])


@right
def lazy_chain():
    """A move that stays, half of the time."""
    base = f.switches()
    return vary(base, moves=[*base.moves, mg.stay(1.0)])


@right
def move_that_never_applies():
    """Every draw of one of two moves leads nowhere."""

    @mg.jit
    def propose(data, state, rng):
        return integer(rng, len(state.y)), -np.inf

    base = f.switches(3)
    return vary(base, moves=[*base.moves, replace(f.FLIP, name="never", propose=propose)])


@right
def moves_of_different_types():
    """One move is a number, another a tuple of a whole number, a float and a truth value."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return (i, 1.0 - 2.0 * state.y[i], state.y[i] == 0), 0.0

    @mg.jit
    def change(data, state, move, m):
        i, difference, up = move
        return i, difference if up else -1.0

    @mg.jit
    def apply(data, state, move):
        state.y[move[0]] = 1 if move[2] else 0

    base = f.switches(3)
    return vary(base, moves=[*base.moves, mg.Move("mixed tuple", propose, change, apply)])


@right
def pair_by_an_odd_law_of_places():
    """Places are drawn by a lopsided law that does not depend on the order: a swap is undone by the same draw."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return (i, integer(rng, min(i + 2, len(state.y)))), 0.0

    return vary(f.lineup(), propose=propose)


# --- ratios -----------------------------------------------------------------------------------------------------------


@right
def relocation_with_a_ratio_for_each_mover():
    """Neighbors change places by either of them moving; each way has its own ratio, and its own way back."""
    return routing.relocation()


@right
def pairs_of_requests_by_closeness():
    """Two ways to draw the same two pairs, summed on both sides."""
    return routing.couples(routing.propose_pairs_right)


@right
def serving_by_a_coin():
    """Serving and removing with the counts of both sides."""
    return vary(f.errand(), propose=routing.propose_serve_by_coin)


@right
def second_item_among_those_that_fit():
    """Drops i and adds one of those that fit then: as many fit on the way back, so the ratio is 1."""
    return vary(f.sack(), 1, propose=ratios.draw_one_that_fits)


@right
def number_of_draws_depends_on_the_solution():
    """One draw for each one, up to three: some flips need more draws than others, and the ratio is right."""

    @mg.jit
    def propose(data, state, rng):
        """Ones are passed over with probability 1/2 each; the first that is not goes. If none goes, a zero comes."""
        passed = 0
        for i in range(len(state.y)):
            if state.y[i] == 1:
                if coin(rng, 0.5):
                    zeros = len(state.y) - state.ones[0] + 1
                    return i, log(2.0 ** (passed + 1 - (state.ones[0] - 1)) / zeros)
                passed += 1
        zeros = len(state.y) - state.ones[0]
        if zeros == 0:
            return 0, -np.inf
        j = f.nth(state.y, 0, integer(rng, zeros))
        before = 0
        for i in range(j):
            before += state.y[i]
        return j, log(zeros * 2.0 ** (state.ones[0] - (before + 1)))

    return vary(f.basket(3), propose=propose)


@right
def three_tries():
    """Up to three tries to find a one, else nothing; the chance depends on the number of ones alone, which stays."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        for _ in range(3):
            i = integer(rng, n)
            if state.y[i] == 1:
                j = integer(rng, n)
                return (i, j), 0.0 if state.y[j] == 0 else -np.inf
        return (0, 0), -np.inf

    @mg.jit
    def prepare(data, guide, temperature, state):
        pass

    return vary(f.team(4, 2), propose=propose, change=change_two, apply=f.apply_pair, prepare=prepare)


@right
def same_color_again():
    """The new color is any color, the old one included: a draw that changes nothing."""

    @mg.jit
    def propose(data, state, rng):
        return (integer(rng, len(state.y)), integer(rng, data.colors)), 0.0

    return vary(f.colored_map(), propose=propose)


@right
def logarithm_of_zero():
    """The ratio is the logarithm of a count that is 0 where the draw leads nowhere: −inf in compiled code."""

    @mg.jit
    def propose(data, state, rng):
        (i, j), _ = f.propose_pair(data, state, rng)
        return (i, j), log(int(state.y[i] == 1 and state.y[j] == 0))

    return vary(f.sack(), 1, propose=propose)


@right
def numpy_logarithm_of_zero():
    """The same with NumPy's logarithm."""

    @mg.jit
    def propose(data, state, rng):
        (i, j), _ = f.propose_pair(data, state, rng)
        return (i, j), np.log(1.0 if state.y[i] == 1 and state.y[j] == 0 else 0.0)

    return vary(f.sack(), 1, propose=propose)


@right
def nothing_over_nothing_with_a_guard():
    """A mean over the ones that is 0/0 at the empty set, and guarded."""

    @mg.jit
    def mean_price(data, state):
        return minus_mean(state.ones[0], f.minus_prices(data, state.y))

    @mg.jit
    def minus_mean(ones, total):
        return total / ones if ones > 0 else 0.0

    @mg.jit
    def propose(data, state, rng):
        return integer(rng, len(state.y)), 0.0 * mean_price(data, state)

    return vary(f.menu(), propose=propose)


@right
def coins_without_chance():
    """Coins with probabilities 0 and 1, behind which draws would fail."""

    @mg.jit
    def propose(data, state, rng):
        ones, n = state.ones[0], len(state.y)
        if coin(rng, 1.0 if ones == n else 0.0):
            return f.nth(state.y, 1, integer(rng, ones)), log(0.5)
        if coin(rng, 1.0 if ones == 0 else 0.0):
            return f.nth(state.y, 0, integer(rng, n - ones)), log(0.5)
        i, ratio = f.propose_add_or_drop(data, state, rng)
        return i, ratio + (log(2.0) if ones == n - 1 and state.y[i] == 0 else 0.0) + (
            log(2.0) if ones == 1 and state.y[i] == 1 else 0.0
        )

    @mg.jit
    def right_at_the_ends(data, state, rng):
        ones, n = state.ones[0], len(state.y)
        i, ratio = propose(data, state, rng)
        if ones == n or ones == 0:
            return i, log(0.5 * n)
        return i, ratio

    return vary(f.basket(3), propose=right_at_the_ends)


@right
def items_without_weight():
    """categorical with weights of zero: those items are never drawn, and another move flips them."""

    @mg.jit
    def propose(data, state, rng):
        return categorical(rng, data.weight), 0.0

    base = f.switches(4)
    moves = [*base.moves, replace(f.FLIP, name="some", propose=propose)]
    return vary(base, data=Sums(np.array([0.0, 2.0, 2.0, 3.0])), moves=moves)


class Sums(NamedTuple):
    weight: np.ndarray


# --- numbers ----------------------------------------------------------------------------------------------------------


@right
def unsigned_bits_with_care():
    """Unsigned bits with differences that cannot wrap."""

    @mg.jit
    def change(data, state, i, m):
        return i, 1 - 2 * int(state.y[i])

    return vary(f.switches(), state=f.Bits(np.zeros(4, np.uint8)), change=change)


@right
def unsigned_bits_as_compiled():
    """1 − 2y of an unsigned bit without a conversion: compiled code computes with 64 signed bits."""
    return vary(f.switches(), state=f.Bits(np.zeros(4, np.uint8)))


@right
def products_of_narrow_numbers():
    """A solution of bytes times 100, and its square: compiled code has 64 bits for it."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[y[i] * 100 + i] = 1.0

    @mg.jit
    def change(data, state, move, m):
        i, step = move
        return (state.y[i] + (step if m == 1 else 0)) * 100 + i, 2 * m - 1

    @mg.jit
    def phi(data, y):
        return -1e-4 * (y[0] * 100) * (y[1] * 100) + 1e-3 * y[0] ** 5

    @mg.jit
    def gain(data, state, move):
        i, step = move
        y = state.y
        fifth = ((y[0] + step) ** 5 - y[0] ** 5) if i == 0 else 0
        return -1e-4 * (step * 100) * (y[1 - i] * 100) + 1e-3 * fifth

    return vary(f.dials(2, 3), size=400, statistic=statistic, change=change, changes=2, phi=phi, gain=gain)


@right
def sums_of_bytes():
    """Bytes that add up to more than a byte holds, in expressions alone."""

    class Many(NamedTuple):
        weight: np.ndarray
        capacity: int

    base = f.sack((100, 90, 80, 120), 250)
    return vary(base, data=Many(np.array([100, 90, 80, 120], np.int8), 250))


@right
def bytes_within_range():
    """Fields of bytes that never hold more than they can."""
    return f.shop((40, 30, 20, 10), (100, 60, 100), np.int8)


@right
def unsigned_counters_that_stay_above_zero():
    """Counters in unsigned bytes that go up and down, and never below 0."""
    return f.quiet(5, np.uint8)


@right
def truth_values_subtracted():
    """The difference of two comparisons of entries of arrays: 1, 0 or −1 in compiled code."""

    @mg.jit
    def change(data, state, move, m):
        i, j = move
        other = m + (m >= i)
        then = state.y[other] == state.y[i]
        now = state.y[other] == state.y[j]
        return f.pair_entry(i, other), (0 if j == i else now - then) if j != i else 0 - then

    return vary(f.groups(), change=change)


@right
def float_solutions():
    """Shares in quarters, which floats hold exactly."""
    return numbers.shares(4)


@right
def negative_solutions():
    """Dials from −2 to 2."""

    @mg.jit
    def propose(data, state, rng):
        i, step = integer(rng, len(state.y)), 2 * integer(rng, 2) - 1
        return (i, step), 0.0 if abs(state.y[i] + step) <= data.top else -np.inf

    @mg.jit
    def contains(data, y):
        for i in range(len(y)):
            if not -data.top <= y[i] <= data.top:
                return False
        return True

    states = partial(list, f.vectors_of(product(range(-2, 3), repeat=2)))
    return vary(f.dials(2, 2), propose=propose, contains=contains, states=states)


@right(t=1e9)
def objective_of_a_billion():
    """φ goes down to −2·10⁹."""
    return vary(f.menu(), data=f.Prices(np.array([1e9, 5e8, 3.5e8, 1.1e9]), 2))


@right
def penalty_of_ten_to_the_sixteen():
    """One item costs 10¹⁶, which stands for "never"; the others cost less than 1."""
    return vary(f.menu(), data=f.Prices(differences.BIG, 2))


@right
def tiny_objective():
    """φ of size 10⁻¹²."""
    return vary(f.menu(), data=f.Prices(np.array([1e-12, 2e-12, 3e-12, 1e-12]), 2))


@right
def rounding_in_a_field():
    """Fields of sevenths are added to and subtracted from: right to the last bits alone."""
    return vary(f.ring(), data=f.Couplings(np.array([1.0, -2.0, 3.0, 5.0]) / 7.0))


@right
def single_precision_that_is_exact():
    """Room in single precision, with whole numbers that it holds."""
    return f.sack((3, 2, 4, 5), 7, np.float32)


@right
def guarded_difference_of_unsigned_numbers():
    """Unsigned numbers are subtracted the way that does not wrap."""

    @mg.jit
    def distance(a, b):
        return a - b if a > b else b - a

    @mg.jit
    def phi(data, y):
        return -0.3 * distance(y[0], y[1])

    @mg.jit
    def gain(data, state, move):
        i, step = move
        now, then = np.float64(distance(state.y[0], state.y[1])), abs(np.int64(state.y[i]) + step - np.int64(state.y[1 - i]))
        return -0.3 * (then - now)

    return vary(f.dials(2, 3, np.uint8), phi=phi, gain=gain)


@right(hidden=STUCK)
def ratios_of_fifty_nats():
    """A one goes with probability e⁻⁵⁰ and comes with 1: log ratios of ±50."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        if state.y[i] == 1:
            return i, 50.0 if coin(rng, np.exp(-50.0)) else -np.inf
        return i, -50.0

    return vary(f.switches(2), propose=propose)


@right
def one_chance_in_a_billion():
    """A branch that is hardly ever drawn, with the right ratio."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        if not coin(rng, 1e-9):
            return i, 0.0
        if state.y[i] == 0:
            return i, -log(2.0)
        return i, log(2.0) if coin(rng, 0.5) else -np.inf

    return vary(f.switches(3), propose=propose)


# --- guided moves -----------------------------------------------------------------------------------------------------


@right
def guided_top_k_at_a_small_beta():
    """Guided swaps at β = 0.2: weights a million apart."""
    return TopK(5, 2, guided=True, beta=0.2)


@right
def guided_knapsack_at_a_small_beta():
    """Guided swaps and flips at β = 0.2."""
    return Knapsack([[3, 2, 4, 5]], [7], moves=["swap", "flip", "guided swap", "guided flip"], beta=0.2)


@right(hidden=STUCK)
def guided_alone_at_a_tiny_beta():
    """Guided swaps alone at β = 0.05."""
    return TopK(4, 2, swaps=(), guided=True, beta=0.05)


@right
def guided_by_sum_trees():
    """A user's own sum trees."""
    return guided.orchard()


@right(hidden=STUCK)
def guided_at_a_small_beta():
    """A user's own guided flips at β = 0.1."""
    return f.steered(3, 0.1)


@right
def ranking_that_breaks_ties():
    """A ranking of items by θ that is one for equal θ as well."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(guide)):
            rank = 0
            for j in range(len(guide)):
                rank += guide[j] > guide[i] or (guide[j] == guide[i] and j < i)
            state.order[rank] = i

    state = guided.Ranks(np.zeros(3, np.int8), np.zeros(3, np.int64))
    return vary(f.switches(3), state=state, prepare=prepare, propose=guided.propose_better_first, guided=True)


@right
def declared_guided_and_not():
    """guided is True where nothing depends on θ."""
    return vary(f.switches(), guided=True)


# --- fields -----------------------------------------------------------------------------------------------------------


@right
def scratch_that_nobody_fills():
    """prepare leaves scratch space as it finds it; feasible writes it before it reads."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        pass

    return vary(f.trees(), prepare=prepare)


@right
def proposals_that_shuffle_a_list():
    """Several flips at once, drawn by shuffling a list that the proposal leaves shuffled."""
    return Hypercube(4, radius=2)


@right
def proposals_that_shuffle_two_lists():
    """Two swaps at once beside a guided one, with the inverse of the shuffled list kept."""
    return TopK(4, 2, swaps=(1, 2), guided=True)


@right
def list_whose_order_depends_on_the_past():
    """The items chosen stand in the order in which they came; their inverse is kept with them."""

    @mg.jit
    def apply(data, state, move):
        a, b = move
        f.apply_exchange(data, state, move)
        state.place[state.items[a]], state.place[state.items[b]] = a, b

    state = caches.Located((np.arange(5) < 2).astype(np.int8), np.arange(5), np.arange(5))
    return vary(f.team(), state=state, prepare=caches.locate, propose=caches.propose_by_item, apply=apply)


@right
def count_that_nobody_reads():
    """Applied moves are counted, for curiosity."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1

    return caches.aged(apply)


@right
def gains_that_are_remembered():
    """Gains are kept until a neighbor turns: the field depends on what was asked, the answers do not."""

    @mg.jit
    def apply(data, state, i):
        n = len(state.y)
        state.y[i] = 1 - state.y[i]
        state.known[i] = state.known[i - 1] = state.known[(i + 1) % n] = 0

    return caches.memo(apply)


@right
def gain_that_tries_the_move():
    """gain turns the bit, evaluates φ and turns it back."""

    @mg.jit
    def gain(data, state, i):
        before = f.coupled(data, state.y)
        state.y[i] = 1 - state.y[i]
        after = f.coupled(data, state.y)
        state.y[i] = 1 - state.y[i]
        return after - before

    return vary(f.ring(), gain=gain)


@right
def feasible_that_tries_the_load():
    """feasible adds the job, looks and takes it away again in every case."""

    @mg.jit
    def feasible(data, state, move):
        j, k = move
        state.load[k] += data.time[j]
        fits = state.load[k] <= data.capacity[k]
        state.load[k] -= data.time[j]
        return fits

    return vary(f.shop(), feasible=feasible)


@right
def field_without_entries():
    """A derived field of length 0, for a move that this instance does not have."""

    class Spare(NamedTuple):
        y: np.ndarray
        ones: np.ndarray
        spare: np.ndarray

    return vary(f.basket(), state=Spare(np.zeros(4, np.int8), np.zeros(1, np.int64), np.zeros(0)))


@right
def note_from_propose_to_apply():
    """propose notes in scratch space what change and apply read: they are always asked about the last proposal."""

    @mg.jit
    def propose(data, state, rng):
        state.note[0], state.note[1] = integer(rng, data.k), data.k + integer(rng, len(state.y) - data.k)
        return 0, 0.0

    @mg.jit
    def change(data, state, move, m):
        return state.items[state.note[m]], 2 * m - 1

    @mg.jit
    def apply(data, state, move):
        f.apply_exchange(data, state, (state.note[0], state.note[1]))

    return caches.noted(propose=propose, change=change, apply=apply)


class Stamped(NamedTuple):
    y: np.ndarray
    stamp: np.ndarray  # (1,) number of the current search
    mark: np.ndarray  # (n,) search in which a place was seen last


@right
def stamps_instead_of_clearing():
    """Places are marked as seen with the number of the search: nothing is ever cleared, and no two states are alike."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.stamp[0] = 0
        for v in range(len(state.mark)):
            state.mark[v] = -1

    @mg.jit
    def propose(data, state, rng):
        """A second bit other than the first, by marking the first."""
        state.stamp[0] += 1
        state.mark[integer(rng, len(state.y))] = state.stamp[0]
        i = integer(rng, len(state.y))
        return i, -np.inf if state.mark[i] == state.stamp[0] else 0.0

    state = Stamped(np.zeros(3, np.int8), np.zeros(1, np.int64), np.zeros(3, np.int64))
    return vary(f.switches(3), state=state, prepare=prepare, propose=propose)


@right
def feasible_that_leaves_its_result():
    """feasible leaves the new load for apply, with the move it belongs to; apply computes it if it is of another move."""

    @mg.jit
    def feasible(data, state, move):
        j, k = move
        state.trial[0] = 10 * j + k
        state.trial[1] = state.load[k] + data.time[j]
        return state.trial[1] <= data.capacity[k]

    @mg.jit
    def apply(data, state, move):
        j, k = move
        known = state.trial[0] == 10 * j + k
        state.load[state.y[j]] -= data.time[j]
        state.load[k] = state.trial[1] if known else state.load[k] + data.time[j]
        state.y[j] = k
        state.trial[0] = -1

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.add_loads(data, guide, temperature, state)
        state.trial[0] = -1

    base = f.shop()
    state = caches.Tried(base.solution, np.zeros(3, np.int64), np.zeros(2, np.int64))
    return vary(base, state=state, prepare=prepare, feasible=feasible, apply=apply)


class Keys(NamedTuple):
    key: np.ndarray  # (n,) random words
    forbidden: np.ndarray  # (1,) key of a solution that is not in the set


class Hashed(NamedTuple):
    y: np.ndarray
    hash: np.ndarray  # (1,) exclusive or of the keys of the ones


@right
def hash_of_64_unsigned_bits():
    """Keys beyond 2⁶³ are combined by exclusive or, and one solution is excluded by its hash."""
    keys = np.array([2**63 + 11, 2**63 + 2**40, 12345, 2**64 - 1], np.uint64)
    excluded = keys[0] ^ keys[1] ^ keys[3]

    @mg.jit
    def hash_of(data, y):
        total = data.key[0] ^ data.key[0]
        for i in range(len(y)):
            if y[i] == 1:
                total ^= data.key[i]
        return total

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.hash[0] = hash_of(data, state.y)

    @mg.jit
    def contains(data, y):
        return f.are_bits(data, y) and hash_of(data, y) != data.forbidden[0]

    @mg.jit
    def feasible(data, state, i):
        return (state.hash[0] ^ data.key[i]) != data.forbidden[0]

    @mg.jit
    def apply(data, state, i):
        state.hash[0] ^= data.key[i]
        state.y[i] = 1 - state.y[i]

    return vary(
        f.switches(4),
        data=Keys(keys, np.array([excluded])),
        state=Hashed(np.zeros(4, np.int8), np.zeros(1, np.uint64)),
        prepare=prepare,
        contains=contains,
        random=None,
        feasible=feasible,
        apply=apply,
        states=lambda: [y for y in f.cube(4) if y.tolist() != [1, 1, 0, 1]],
    )


# --- sets and starts --------------------------------------------------------------------------------------------------


@right
def nothing_but_a_move():
    """No contains, no random, no states, nothing derived."""
    return sets.Unlisted(vary(f.switches(3), contains=None, random=None))


@right
def words_that_nobody_lists():
    """No states: solutions are those that moves reach."""
    return sets.Unlisted(f.words())


@right
def start_by_a_coin_that_says_so():
    """random is not uniform, and the problem says uniform=False."""

    @mg.jit
    def random(data, rng, y):
        for i in range(len(y)):
            y[i] = coin(rng, 0.3)

    return vary(f.switches(3), random=random, uniform=False)


@right
def single_solution():
    """A set with one solution, which no draw leaves."""
    return f.dials(1, 0)


@right
def two_solutions():
    """A set with two solutions."""
    return f.switches(1)


@right
def states_of_another_type():
    """states lists 64-bit numbers, the solution has bytes."""
    return vary(f.lineup(3), states=lambda: [y.astype(np.int64) for y in f.orders(3)])


@right
def start_by_rejection():
    """random draws until the limit is kept: uniform, with no last draw."""

    @mg.jit
    def random(data, rng, y):
        ones = len(y)
        while ones > data.limit:
            ones = 0
            for i in range(len(y)):
                y[i] = integer(rng, 2)
                ones += y[i]

    return vary(f.menu(), random=random)


@right
def start_that_is_not_uniform():
    """The knapsack that comes with movegrad, whose random draws any packing, not uniformly."""
    return Knapsack([[3, 2, 4, 5]], [7])


@right
def greedy_and_improve():
    """greedy breaks ties and keeps the limit; improve climbs and keeps the count."""

    @mg.jit
    def greedy(data, guide, state):
        ones = 0
        for i in range(len(guide)):
            state.y[i] = guide[i] > data.price[i] and ones < data.limit
            ones += state.y[i]

    return vary(f.menu(), greedy=greedy, improve=sets.climb)


@right
def moves_that_change_no_statistic():
    """T looks at the first bit alone; flips of others change none of its entries."""

    @mg.jit
    def statistic(data, y, out):
        out[0] = y[0]

    @mg.jit
    def changes(data, state, i):
        return 1 if i == 0 else 0

    return vary(f.switches(3), size=1, statistic=statistic, changes=changes)


@right
def entries_that_change_twice():
    """An entry of T is left and taken again in one move: differences add up."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[i // 2] += y[i]

    @mg.jit
    def change(data, state, move, m):
        return move[m] // 2, 1 - 2 * state.y[move[m]]

    @mg.jit
    def apply(data, state, move):
        for m in range(2):
            state.y[move[m]] = 1 - state.y[move[m]]

    pairs = mg.Move("two", f.propose_pair, change, apply, changes=2)

    @mg.jit
    def change_one(data, state, i, m):
        return i // 2, 1 - 2 * state.y[i]

    return vary(f.switches(4), size=2, statistic=statistic, moves=[replace(f.FLIP, change=change_one), pairs])


# --- code -------------------------------------------------------------------------------------------------------------


class Tables(NamedTuple):
    scale: float
    offset: int
    square: np.ndarray  # (n, n)
    block: np.ndarray  # (2, n, n)


UNIT = 0.25 * pi


@mg.jit
def entry(data, layer, i, j):
    return data.scale * data.block[layer, i, j] + data.square[i, j] * UNIT


@mg.jit
def pair_value(data, y, i, j):
    return entry(data, y[i], i, j) * y[i] * y[j] + data.offset


@mg.outline
def all_pairs(data, y):
    total = 0.0
    for i in range(len(y)):
        for j in range(i):
            total += pair_value(data, y, i, j)
    return total


@right
def data_of_all_shapes():
    """Numbers, a square and a cube of numbers, helpers that call helpers, constants of the module, an outlined function."""

    @mg.jit
    def gain(data, state, i):
        before = all_pairs(data, state.y)
        state.y[i] = 1 - state.y[i]
        after = all_pairs(data, state.y)
        state.y[i] = 1 - state.y[i]
        return after - before

    rng = np.random.default_rng(2)
    data = Tables(0.5, 3, rng.normal(size=(4, 4)), rng.normal(size=(2, 4, 4)).astype(np.float32))
    return vary(f.switches(4), data=data, phi=all_pairs, gain=gain)


@right
def compiled_with_numba_itself():
    """Functions under numba.njit instead of mg.jit."""

    @numba.njit
    def propose(data, state, rng):
        return integer(rng, len(state.y)), 0.0

    @numba.njit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]

    return vary(f.switches(3), propose=propose, apply=apply)


@right
def constants_in_a_closure():
    """A function that holds a number and another function of the place where it was made."""
    bias = 0.75

    @mg.jit
    def odds(up):
        return bias if up else 1.0 - bias

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        up = state.y[i] == 0
        return i, log(odds(not up) / odds(up)) if coin(rng, odds(up)) else -np.inf

    return vary(f.switches(3), propose=propose)


@right
def periodic_chain():
    """θ apart, the chain never stays: even and odd solutions take turns, and averages are right."""

    @mg.jit
    def propose(data, state, rng):
        return integer(rng, len(state.y)), 0.0

    return vary(f.switches(3), propose=propose, random=None)
