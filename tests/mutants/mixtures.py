"""Mistakes in which moves apply where, in their shares, and in what they reach."""

from dataclasses import replace
from math import log
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import coin, integer
from tests.mutants import families as f
from tests.mutants.registry import vary, wrong

# --- flips and stays on n bits, where some solutions lack one of them -------------------------------------------------


@mg.jit
def stays(data, state, rng):
    return 0, -np.inf


@mg.jit
def no_change(data, state, move, m):
    return 0, 0


@mg.jit
def no_apply(data, state, move):
    pass


@mg.jit
def mask_unchanged(data, state, move):
    return 3


STAY = mg.Move("stay", stays, no_change, no_apply, changes=0, applicable_after=mask_unchanged)


def flip_or_stay(n, applicable, after_flip, **options) -> mg.Problem:
    """Single flips and a move that stays; ``applicable`` says where each can be drawn."""
    moves = [replace(f.FLIP, applicable_after=after_flip), STAY]
    return vary(f.switches(n), moves=moves, applicable=applicable, **options)


@mg.jit
def number(y, flipped):
    """y as a binary number, first bit first, with one bit flipped unless that is −1."""
    total = 0
    for i in range(len(y)):
        bit = y[i] if i != flipped else 1 - y[i]
        total = 2 * total + bit
    return total


@wrong("one-way move", "detailed balance", "applicable", "stationary law", "unreachable")
def cube_with_a_trap():
    """At y = 0, of 2048 solutions, flips do not apply: the chain goes there and never leaves."""

    @mg.jit
    def applicable(data, state):
        return 3 if number(state.y, -1) > 0 else 2

    @mg.jit
    def after(data, state, i):
        return 3 if number(state.y, i) > 0 else 2

    return flip_or_stay(11, applicable, after)


@wrong("one-way move", "detailed balance", "applicable", "stationary law", "unreachable")
def cube_with_a_trap_in_the_middle():
    """At y = 010101, of 64 solutions, flips do not apply; half of the neighbors have higher numbers, half have lower ones."""

    @mg.jit
    def applicable(data, state):
        return 3 if number(state.y, -1) != 21 else 2

    @mg.jit
    def after(data, state, i):
        return 3 if number(state.y, i) != 21 else 2

    return flip_or_stay(6, applicable, after)


@wrong("one-way move", "detailed balance", "applicable", "stationary law", "unreachable")
def small_cube_with_a_trap():
    """The same with 8 solutions."""

    @mg.jit
    def applicable(data, state):
        return 3 if number(state.y, -1) > 0 else 2

    @mg.jit
    def after(data, state, i):
        return 3 if number(state.y, i) > 0 else 2

    return flip_or_stay(3, applicable, after)


@wrong("applicable")
def mask_of_here_for_there():
    """applicable_after returns the mask at y instead of y', so that |Q(y)|/|Q(y')| is 1."""

    @mg.jit
    def applicable(data, state):
        return 3 if number(state.y, -1) % 3 else 1

    @mg.jit
    def after(data, state, i):
        return 3 if number(state.y, -1) % 3 else 1

    return flip_or_stay(4, applicable, after)


@wrong("applicable", chains=40_000)
def mask_wrong_at_one_solution():
    """applicable_after forgets that nothing but a flip applies at y = 1…1."""

    @mg.jit
    def applicable(data, state):
        return 3 if 0 < number(state.y, -1) < 15 else 1

    @mg.jit
    def after(data, state, i):
        return 3 if number(state.y, i) > 0 else 1

    return flip_or_stay(4, applicable, after)


@wrong("applicable")
def mask_wrong_for_one_move():
    """applicable_after is right for flips of the first bits, and off by one bit for the last."""

    @mg.jit
    def applicable(data, state):
        return 1 + 2 * state.y[len(state.y) - 1]

    @mg.jit
    def after(data, state, i):
        return 1 + 2 * state.y[len(state.y) - 1]

    return flip_or_stay(3, applicable, after)


@wrong("wrong ratio")
def mixture_factor_counted_twice():
    """The proposal puts |Q(y)|/|Q(y')| into its ratio, where applicable_after has it already."""

    @mg.jit
    def applicable(data, state):
        return 1 + 2 * state.y[0]

    @mg.jit
    def after(data, state, i):
        return 1 + 2 * (state.y[0] if i > 0 else 1 - state.y[0])

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, 0.0 if i > 0 else log((1 + state.y[0]) / (2 - state.y[0]))

    return flip_or_stay(3, applicable, after, propose=propose)


@wrong("applicable", "one-way move", "unreachable", "detailed balance", "stationary law")
def number_of_moves_for_the_mask():
    """applicable returns how many moves apply, 1 or 2, instead of the mask of them."""

    @mg.jit
    def applicable(data, state):
        return 2 if state.y[0] == 1 else 1

    @mg.jit
    def after(data, state, i):
        return 2 if (state.y[0] if i > 0 else 1 - state.y[0]) == 1 else 1

    return flip_or_stay(3, applicable, after)


@wrong("applicable", "error")
def no_move_at_all():
    """No move applies at y = 0; nothing may be drawn there."""

    @mg.jit
    def applicable(data, state):
        return 1 if number(state.y, -1) > 0 else 0

    @mg.jit
    def after(data, state, i):
        return 1 if number(state.y, i) > 0 else 0

    return vary(f.switches(3), moves=[replace(f.FLIP, applicable_after=after)], applicable=applicable)


@wrong("applicable", "one-way move", "unreachable", "error", "stationary law", "detailed balance")
def bit_of_a_third_move():
    """Where y₀ = 1 the mask names a third move, which does not exist, in place of the first."""

    @mg.jit
    def applicable(data, state):
        return 6 if state.y[0] == 1 else 3

    @mg.jit
    def after(data, state, i):
        return 6 if (state.y[0] if i > 0 else 1 - state.y[0]) == 1 else 3

    return flip_or_stay(3, applicable, after)


@wrong("applicable")
def weights_that_applicable_after_mixes_up():
    """Moves have weights 1 and 9; applicable_after names the bit of the other move."""

    @mg.jit
    def applicable(data, state):
        return 1 + 2 * state.y[0]

    @mg.jit
    def after(data, state, i):
        there = state.y[0] if i > 0 else 1 - state.y[0]
        return 3 if there == 1 else 2

    moves = [replace(f.FLIP, applicable_after=after), replace(STAY, weight=9.0)]
    return vary(f.switches(3), moves=moves, applicable=applicable)


# --- flips of one bit where an item is on, swaps elsewhere: the mask depends on what a move changes in passing --------


class Tabu(NamedTuple):
    y: np.ndarray
    last: np.ndarray  # (1,) the bit that was flipped last, −1 at first


@mg.jit
def forget_last(data, guide, temperature, state):
    state.last[0] = -1


@mg.jit
def apply_and_remember(data, state, i):
    state.y[i] = 1 - state.y[i]
    state.last[0] = i


@wrong("stale state", "one-way move")
def tabu_list():
    """The bit that was flipped last is not flipped back: the proposal depends on the past, not on y alone."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, 0.0 if i != state.last[0] else -np.inf

    state = Tabu(np.zeros(4, np.int8), np.zeros(1, np.int64))
    return vary(f.menu(4, 4), state=state, prepare=forget_last, feasible=None, propose=propose, apply=apply_and_remember)


@wrong("stale state", "applicable")
def mask_that_depends_on_the_past():
    """applicable switches pair flips off right after a flip of bit 0; prepare knows nothing of it."""

    @mg.jit
    def applicable(data, state):
        return 1 if state.last[0] == 0 else 3

    @mg.jit
    def after(data, state, i):
        return 1 if i == 0 else 3

    @mg.jit
    def change_two(data, state, i, m):
        j = (i + m) % len(state.y)
        return j, 1 - 2 * state.y[j]

    @mg.jit
    def apply_two(data, state, i):
        j = (i + 1) % len(state.y)
        state.y[i], state.y[j] = 1 - state.y[i], 1 - state.y[j]
        state.last[0] = i

    moves = [
        mg.Move("flip", f.propose_flip, f.change_flip, apply_and_remember, applicable_after=after),
        mg.Move("flip two", f.propose_flip, change_two, apply_two, changes=2, applicable_after=after),
    ]
    state = Tabu(np.zeros(4, np.int8), np.zeros(1, np.int64))
    return vary(f.switches(4), state=state, moves=moves, prepare=forget_last, applicable=applicable)


# --- sets that fall apart ---------------------------------------------------------------------------------------------


@wrong("unreachable")
def pairs_of_flips_alone():
    """Two bits are flipped at a time: the parity of Σ yᵢ never changes."""

    @mg.jit
    def change(data, state, move, m):
        return move[m], 1 - 2 * state.y[move[m]]

    @mg.jit
    def apply(data, state, move):
        for m in range(2):
            state.y[move[m]] = 1 - state.y[move[m]]

    return vary(f.switches(), propose=f.propose_pair, change=change, apply=apply, changes=2, random=None)


@wrong("unreachable")
def odd_cycle_in_three_colors():
    """Single recolorings of a 5-cycle with 3 colors keep the sense in which the colors run around."""
    return f.colored_map(5, 3, closed=True)


@wrong("unreachable")
def trades_alone():
    """A sack with trades and no flips: the number of items never changes."""
    base = f.sack()
    return vary(base, moves=base.moves[1:])


@wrong("unreachable")
def last_request_stays_last():
    """Tails are exchanged, but never at the beginning of a route: whoever begins a route begins it for ever."""

    @mg.jit
    def propose(data, state, rng):
        s, n = f.separator(state.y), len(state.y) - 1
        if s == 0 or s == n:
            return (0, 0), -np.inf
        p, q = 1 + integer(rng, s), 1 + integer(rng, n - s)
        after = p + n - s - q
        return (p, q), log(s * (n - s)) - log(after * (n - after))

    return vary(f.convoy(), propose=propose)


@wrong("unreachable")
def tight_boxes():
    """Jobs fill the machines, so that no single job can move."""
    return f.shop((3, 3), (3, 3))


@wrong("unreachable", "one-way move")
def one_solution_that_is_left_and_not_entered():
    """All flips go both ways but those into y = 1…1, which are never drawn."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, -np.inf if number(state.y, i) == 15 else 0.0

    return vary(f.switches(), propose=propose)


@wrong("unreachable", "one-way move")
def islands_with_a_bridge_one_way():
    """The first bit is only ever switched on."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, -np.inf if i == 0 and state.y[0] == 1 else 0.0

    return vary(f.switches(), propose=propose)


@wrong("unreachable")
def walk_in_steps_of_two():
    """A walk along the numbers 0 … 15 in steps of two: half of them are never visited."""

    @mg.jit
    def propose(data, state, rng):
        i, step = 0, 4 * integer(rng, 2) - 2
        return (i, step), 0.0 if 0 <= state.y[i] + step <= data.top else -np.inf

    return vary(f.dials(1, 15), propose=propose)


# --- shares of moves that depend on the solution, by hand -------------------------------------------------------------


@wrong("wrong ratio")
def share_of_a_move_inside_of_propose():
    """One move stands for two: it flips a bit or swaps, by a coin whose bias is the share of ones, which the ratio leaves out."""

    @mg.jit
    def propose(data, state, rng):
        ones, n = f.group_size(state.y, 1, -1), len(state.y)
        i = integer(rng, n)
        return i, 0.0 if coin(rng, (1.0 + ones) / (1.0 + n)) else -np.inf

    return vary(f.switches(), propose=propose)
