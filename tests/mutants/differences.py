"""Mistakes in what a move does to T and to φ: change, changes, gain, and an apply that does something else."""

from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import integer
from tests.mutants import families as f
from tests.mutants.registry import TOO_SMALL, vary, wrong

# --- change and changes -----------------------------------------------------------------------------------------------


@wrong("wrong change")
def place_for_item():
    """change returns the place in the list of items instead of the item that stands there."""

    @mg.jit
    def change(data, state, move, m):
        return move[m], 2 * m - 1

    return vary(f.team(), change=change)


@wrong("wrong change")
def sign_of_the_second_entry():
    """Both entries of an exchange go down."""

    @mg.jit
    def change(data, state, move, m):
        return state.items[move[m]], -1

    return vary(f.team(), change=change)


@wrong("wrong change")
def always_up():
    """A flip is taken for a one that is added, even where it is dropped."""

    @mg.jit
    def change(data, state, i, m):
        return i, 1

    return vary(f.switches(), change=change)


@wrong("wrong change")
def new_edges_for_old():
    """2-opt leaves two edges and takes two; the last two positions are mixed up."""

    @mg.jit
    def change(data, state, move, m):
        i, j = move
        p, q = (i - 1, j, i - 1, i)[m], (i, j + 1, j + 1, j)[m]
        return f.edge(state.y, p, q), -1 if m < 2 else 1

    return vary(f.tour(), change=change)


@wrong("wrong change", "error")
def tour_that_does_not_close():
    """The edge from the last city back to the first is looked up as that from the last to itself."""

    @mg.jit
    def edge(y, p, q):
        one, other = y[p], y[min(q, len(y) - 1)]
        row, column = max(one, other), min(one, other)
        return max(row * (row - 1) // 2 + column, 0)

    @mg.jit
    def change(data, state, move, m):
        i, j = move
        p, q = (i - 1, j, i - 1, i)[m], (i, j + 1, j, j + 1)[m]
        return edge(state.y, p, q), -1 if m < 2 else 1

    return vary(f.tour(), change=change)


@wrong("wrong change")
def too_few_changes():
    """Four entries change, three are told."""
    return vary(f.tour(), changes=3)


@wrong("wrong change")
def too_few_changes_in_one_case():
    """Neighbors that change places are said to change two entries of T, which are four."""

    @mg.jit
    def changes(data, state, move):
        return 2 if abs(move[0] - move[1]) == 1 else 4

    return vary(f.lineup(), changes=changes)


@wrong("wrong change", "error")
def too_many_changes():
    """changes says 3 where there are 2: the third repeats the second."""

    @mg.jit
    def change(data, state, move, m):
        return f.change_machine(data, state, move, min(m, 1))

    return vary(f.shop(), change=change, changes=3)


@wrong("wrong change")
def counted_once_for_each_end():
    """The pair of two mates is counted from both of its ends."""

    @mg.jit
    def change(data, state, move, m):
        entry, delta = f.change_rematch(data, state, move, m // 2)
        return entry, delta

    return vary(f.mates(), change=change, changes=8)


@wrong("wrong change")
def arcs_inside_of_a_reversed_stretch():
    """T has directed arcs, and 2-opt turns round all arcs of the stretch; change tells of four alone."""
    n = 5

    @mg.jit
    def arc(y, p, q):
        one, other = y[p], y[q if q < len(y) else 0]
        return one * len(y) + other

    @mg.jit
    def statistic(data, y, out):
        for k in range(len(y)):
            out[arc(y, k, k + 1)] = 1.0

    @mg.jit
    def change(data, state, move, m):
        i, j = move
        p, q = (i - 1, j, i - 1, i)[m], (i, j + 1, j, j + 1)[m]
        return arc(state.y, p, q), -1 if m < 2 else 1

    return vary(f.tour(n), size=n * n, statistic=statistic, change=change)


@wrong("wrong change")
def groups_old_friends_kept():
    """An element that joins another group is told to gain pairs there, not to lose those it had."""

    @mg.jit
    def change(data, state, move, m):
        entry, delta = f.change_join(data, state, move, m)
        return entry, max(delta, 0)

    return vary(f.groups(), change=change)


@wrong("wrong change")
def entry_of_the_next_letter():
    """A deletion looks at the letter behind the one that goes."""

    @mg.jit
    def change(data, state, move, m):
        place, letter = move
        if letter >= 0:
            return letter, 1
        return max(np.int64(state.y[min(place + 1, len(state.y) - 1)]), 0), -1

    return vary(f.words(), change=change)


@wrong("wrong change")
def depot_forgotten_when_the_route_is_empty():
    """The arc from the depot to itself, which an empty route uses, is not told to go when the first request comes."""

    @mg.jit
    def changes(data, state, move):
        return 2 if state.served[0] == 0 else 3

    return vary(f.errand(), changes=changes)


@wrong("wrong change")
def one_entry_of_a_hundred():
    """T has a hundred entries; that of item 3 at place 0 is told with the wrong sign when it is left by a flip to 0."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[25 * i + 7 * y[i]] = 1.0

    @mg.jit
    def change(data, state, i, m):
        value = state.y[i] if m == 0 else 1 - state.y[i]
        sign = 2 * m - 1
        if i == 3 and value == 0 and m == 1:
            sign = -1
        return 25 * i + 7 * value, sign

    return vary(f.switches(), size=100, statistic=statistic, change=change, changes=2)


@wrong("wrong change")
def minus_one_for_no_entry():
    """An index of −1 is meant as "none", but it is the last entry."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            if i > 0:
                out[i - 1] = y[i]

    @mg.jit
    def change(data, state, i, m):
        return i - 1, 1 - 2 * state.y[i]

    return vary(f.switches(), size=3, statistic=statistic, change=change)


@wrong("error", "wrong change", hidden="reads and writes beyond the end of an array: anything may happen in compiled code")
def entry_beyond_the_end():
    """For one flip the index is d, one too far."""

    @mg.jit
    def change(data, state, i, m):
        return i + 1 if state.y[0] == 1 and i == len(state.y) - 1 else i, 1 - 2 * state.y[i]

    return vary(f.switches(), change=change)


@wrong("wrong change")
def integer_division_of_a_half():
    """Differences of one half are computed with whole numbers."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[i] = y[i] / 2

    @mg.jit
    def change(data, state, i, m):
        return i, (1 - 2 * state.y[i]) // 2

    return vary(f.switches(), statistic=statistic, change=change)


# --- apply that does something else -----------------------------------------------------------------------------------


@wrong("feasible", "leaves the set", hidden="the state is no order any more, and T's entries are looked up in it")
def swap_without_a_third_hand():
    """y[i] = y[j], then y[j] = y[i]: one item is lost."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        state.y[i] = state.y[j]
        state.y[j] = state.y[i]

    return vary(f.lineup(), apply=apply)


@wrong("feasible", "leaves the set")
def else_branch_of_a_flip():
    """y' has 1 − y where it should flip and 0 elsewhere should the first bit be flipped: one branch is a typing error."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i] if i > 0 else 1 - 2 * state.y[i]

    return vary(f.switches(), apply=apply)


@wrong("wrong change")
def applies_the_move_of_its_neighbor():
    """apply exchanges the right chosen item for the first of the others."""

    @mg.jit
    def apply(data, state, move):
        f.apply_exchange(data, state, (move[0], data.k))

    return vary(f.team(), apply=apply)


@wrong("wrong change")
def apply_does_nothing():
    """One case of apply is left empty: a deletion leaves the word as it is."""

    @mg.jit
    def apply(data, state, move):
        if move[1] >= 0:
            f.apply_edit(data, state, move)

    return vary(f.words(), apply=apply)


@wrong("wrong change", "wrong ratio", "one-way move")
def reverse_one_city_less():
    """2-opt reverses y[i..j−1] but tells of y[i..j]."""

    @mg.jit
    def apply(data, state, move):
        f.reverse(state.y, move[0], move[1] - 1)

    return vary(f.tour(), apply=apply)


@wrong("leaves the set", "feasible", "set")
def mates_of_the_ones_left():
    """Two become a pair, the two they leave do not."""

    @mg.jit
    def apply(data, state, move):
        i, j = move
        state.y[i], state.y[j] = j, i

    return vary(f.mates(), apply=apply)


# --- gain -------------------------------------------------------------------------------------------------------------


@wrong("wrong gain")
def gain_with_the_other_sign():
    """φ is minus the price; gain adds it."""

    @mg.jit
    def gain(data, state, i):
        return data.price[i] * (1 - 2 * state.y[i])

    return vary(f.menu(), gain=gain)


@wrong("wrong gain")
def gain_for_adding_alone():
    """gain is right where an item is added, and 0 where one is dropped."""

    @mg.jit
    def gain(data, state, i):
        return -data.price[i] * (1 - state.y[i])

    return vary(f.menu(), gain=gain)


@wrong("wrong gain")
def gain_left_out():
    """There is a φ, and no gain."""
    return vary(f.menu(), gain=None)


@wrong("wrong gain")
def phi_left_out():
    """There is a gain, and no φ."""
    return vary(f.menu(), phi=None)


@wrong("objective", hidden="there is no Gibbs law")
def phi_that_forbids():
    """φ is −∞ where two items do not go together; they belong out of the set."""

    @mg.jit
    def phi(data, y):
        return -np.inf if y[0] and y[1] else 0.0

    @mg.jit
    def gain(data, state, i):
        return -np.inf if i < 2 and state.y[1 - i] and not state.y[i] else 0.0

    return vary(f.menu(), phi=phi, gain=gain)


@wrong("wrong change")
def change_that_is_no_number():
    """0/0 where an item is dropped."""

    @mg.jit
    def change(data, state, i, m):
        return i, 1.0 if state.y[i] == 0 else np.nan

    return vary(f.menu(), change=change)


@wrong("wrong gain")
def interaction_of_the_two():
    """Quadratic assignment: the flow between the two that change places is left out."""

    @mg.jit
    def gain(data, state, move):
        i, j = move
        y, flow, d = state.y, data.flow, data.distance
        a, b = y[i], y[j]
        total = (flow[b, b] - flow[a, a]) * (d[i, i] - d[j, j])
        for k in range(len(y)):
            if k != i and k != j:
                c = y[k]
                total += (flow[b, c] - flow[a, c]) * (d[i, k] - d[j, k]) + (flow[c, b] - flow[c, a]) * (d[k, i] - d[k, j])
        return -total

    return vary(f.layout(), gain=gain)


@wrong("wrong gain")
def one_way_of_two():
    """Quadratic assignment: flows into the two are counted, those out of them are not."""

    @mg.jit
    def gain(data, state, move):
        i, j = move
        y, flow, d = state.y, data.flow, data.distance
        a, b = y[i], y[j]
        total = (flow[b, a] - flow[a, b]) * (d[i, j] - d[j, i]) + (flow[b, b] - flow[a, a]) * (d[i, i] - d[j, j])
        for k in range(len(y)):
            if k != i and k != j:
                total += 2.0 * (flow[y[k], b] - flow[y[k], a]) * (d[k, i] - d[k, j])
        return -total

    return vary(f.layout(), gain=gain)


@wrong("wrong gain")
def makespan_of_two_machines():
    """The new makespan is that of the two machines the job goes between; a third may be the longest."""

    @mg.jit
    def gain(data, state, move):
        j, k = move
        load, time = state.load, data.time[j]
        return 0.25 * (f.highest(load) - max(load[state.y[j]] - time, load[k] + time))

    return vary(f.shop(), gain=gain)


@wrong("wrong gain")
def square_of_a_step():
    """(y + s)² − y² is taken for 2ys."""

    @mg.jit
    def gain(data, state, move):
        i, step = move
        return -data.curvature[i] * 2 * state.y[i] * step

    return vary(f.dials(), gain=gain)


@wrong("wrong gain")
def ring_that_does_not_close():
    """The coupling of the last bit with the first is left out of gain."""

    @mg.jit
    def gain(data, state, i):
        n, total = len(state.y), 0.0
        if i + 1 < n:
            total += data.J[i] * state.y[i + 1]
        if i > 0:
            total += data.J[i - 1] * state.y[i - 1]
        return (1 - 2 * state.y[i]) * total

    return vary(f.ring(), gain=gain)


class Deadlines(NamedTuple):
    time: np.ndarray
    weight: np.ndarray


@mg.jit
def minus_completion(data, y):
    """−Σ weight × completion time of jobs in order y."""
    total, clock = 0.0, 0.0
    for p in range(len(y)):
        clock += data.time[y[p]]
        total -= data.weight[y[p]] * clock
    return total


@wrong("wrong gain")
def neighbors_formula_for_all():
    """Weighted completion times: the gain of exchanging neighbors is used for any two jobs."""

    @mg.jit
    def gain(data, state, move):
        i, j = min(move[0], move[1]), max(move[0], move[1])
        a, b = state.y[i], state.y[j]
        return data.weight[b] * data.time[a] - data.weight[a] * data.time[b]

    data = Deadlines(np.array([1.0, 0.5, 2.0, 1.5]), np.array([0.3, 0.7, 0.4, 0.2]))
    return vary(f.lineup(), data=data, phi=minus_completion, gain=gain)


@wrong("wrong gain", "error")
def logarithm_of_nothing():
    """φ is a logarithm of the number of ones plus one; gain leaves out the plus one, which is 0 at the empty menu."""

    @mg.jit
    def phi(data, y):
        return np.log(1.0 + f.group_size(y, 1, -1))

    @mg.jit
    def gain(data, state, i):
        ones = np.float64(state.ones[0])
        return np.log(ones + 1 - 2 * state.y[i]) - np.log(ones)

    return vary(f.menu(), phi=phi, gain=gain)


@wrong("wrong gain", hidden=TOO_SMALL)
def gain_at_rare_solutions():
    """One entry of a table that gain reads has a slip in its last digit."""

    @mg.jit
    def gain(data, state, i):
        price = data.price[i] if i < 3 or state.ones[0] != 1 else data.price[i] + 0.01
        return -price * (1 - 2 * state.y[i])

    return vary(f.menu(), gain=gain)


BIG = np.array([0.3, 0.5, 1e16, 0.7])  # a price that stands for "never"


@wrong("wrong change")
def change_beside_a_penalty():
    """change has the wrong sign for ones that go, beside a price of 10¹⁶."""

    @mg.jit
    def change(data, state, i, m):
        return i, 1

    return vary(f.menu(), data=f.Prices(BIG, 2), change=change)


@wrong("wrong gain")
def gain_beside_a_penalty():
    """gain is off by one for the first item, beside a price of 10¹⁶ for another."""

    @mg.jit
    def gain(data, state, i):
        return f.gain_price(data, state, i) + (1.0 if i == 0 and state.y[0] == 0 else 0.0)

    return vary(f.menu(), data=f.Prices(BIG, 2), gain=gain)


@wrong("wrong gain")
def gain_in_other_units():
    """gain is per temperature already, computed with a constant that is not the temperature."""

    @mg.jit
    def gain(data, state, i):
        return f.gain_price(data, state, i) / 2.0

    return vary(f.menu(), gain=gain)


@wrong("wrong gain", "order", "proposal")
def gain_that_draws_its_own_bit():
    """gain looks at a bit other than the one the move flips."""

    @mg.jit
    def gain(data, state, i):
        j = (i + 1) % len(state.y)
        return -data.price[j] * (1 - 2 * state.y[j])

    return vary(f.menu(), gain=gain)


@wrong("wrong change", "wrong gain")
def statistic_of_another_problem():
    """statistic writes y squared, change tells of y: integers above 1 show it."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[i] = y[i] * y[i]

    return vary(f.dials(), statistic=statistic)


@wrong("wrong change")
def move_that_is_not_what_is_applied():
    """propose returns (i, j) as drawn, apply sorts them, change does not: insertion at one side is another move."""

    @mg.jit
    def propose(data, state, rng):
        n = len(state.y)
        return (1 + integer(rng, n - 2), 0), 0.0

    @mg.jit
    def change(data, state, move, m):
        return f.change_two_opt(data, state, (1, move[0]), m)

    @mg.jit
    def apply(data, state, move):
        f.reverse(state.y, move[0], len(state.y) - 1)

    return vary(f.tour(), propose=propose, change=change, apply=apply)
