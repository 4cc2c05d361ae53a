"""Mistakes in fields beside the solution: left stale by apply, spoiled by a refused proposal, right in one order alone."""

from dataclasses import replace
from math import log
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import integer
from tests.mutants import families as f
from tests.mutants.registry import vary, wrong

# --- a cache that one function alone reads ----------------------------------------------------------------------------


class Signed(NamedTuple):
    y: np.ndarray
    sign: np.ndarray  # 1 − 2y


@mg.jit
def fill_signs(data, guide, temperature, state):
    for i in range(len(state.y)):
        state.sign[i] = 1 - 2 * state.y[i]


@mg.jit
def change_by_sign(data, state, i, m):
    return i, state.sign[i]


def signed(**changed) -> mg.Problem:
    state = Signed(np.zeros(3, np.int8), np.zeros(3, np.int64))
    return vary(f.switches(3), state=state, prepare=fill_signs, change=change_by_sign, **changed)


@wrong("stale state", "wrong change")
def signs_left_behind():
    """change reads signs that apply never turns."""
    return signed(apply=f.apply_flip)


@wrong("stale state", "wrong change")
def sign_of_the_first_bit_left_behind():
    """apply turns the signs that change reads, but for bit 0."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        if i > 0:
            state.sign[i] = -state.sign[i]

    return signed(apply=apply)


@wrong("stale state", "wrong change")
def signs_turned_on_the_way_up_alone():
    """apply sets the sign to −1 for a one, and leaves it for a zero."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        if state.y[i] == 1:
            state.sign[i] = -1

    return signed(apply=apply)


class Pairs(NamedTuple):
    y: np.ndarray
    near: np.ndarray  # chosen neighbors around a ring


@mg.jit
def count_near(data, guide, temperature, state):
    n = len(state.y)
    for i in range(n):
        state.near[i] = state.y[i - 1] + state.y[(i + 1) % n]


@mg.jit
def mark_bits_and_pairs(data, y, out):
    for i in range(len(y)):
        out[i] = y[i]
        out[len(y) + i] = y[i] * y[(i + 1) % len(y)]


@mg.jit
def changes_by_near(data, state, i):
    return 1 + state.near[i]


@mg.jit
def change_bit_and_pairs(data, state, i, m):
    """The bit itself, then its pairs with neighbors that are on."""
    n, sign = len(state.y), 1 - 2 * state.y[i]
    if m == 0:
        return i, sign
    if state.y[(i + 1) % n] == 1 and m == 1:
        return n + i, sign
    if state.y[i - 1] == 1:
        return n + (i + n - 1) % n, sign
    return 0, 0


@wrong("stale state", "wrong change")
def number_of_changes_left_behind():
    """changes reads how many neighbors are on; apply does not keep count."""
    return vary(
        f.switches(4),
        state=Pairs(np.zeros(4, np.int8), np.zeros(4, np.int64)),
        size=8,
        prepare=count_near,
        statistic=mark_bits_and_pairs,
        changes=changes_by_near,
        change=change_bit_and_pairs,
    )


@wrong("stale state", "wrong gain")
def fields_left_behind():
    """gain reads the local fields, which apply never touches."""
    return vary(f.ring(), apply=f.apply_flip)


@wrong("stale state", "wrong gain")
def field_of_one_neighbor():
    """apply updates the field of the next bit and forgets the one before."""

    @mg.jit
    def apply(data, state, i):
        state.h[(i + 1) % len(state.y)] += (1 - 2 * state.y[i]) * data.J[i]
        state.y[i] = 1 - state.y[i]

    return vary(f.ring(), apply=apply)


@wrong("stale state", "wrong gain")
def fields_after_the_flip():
    """apply turns the bit first and takes the sign of the new value."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        n, sign = len(state.y), 1 - 2 * state.y[i]
        state.h[(i + 1) % n] += sign * data.J[i]
        state.h[i - 1] += sign * data.J[i - 1]

    return vary(f.ring(), apply=apply)


@wrong("stale state", "wrong gain")
def field_across_the_seam():
    """apply updates all fields but those on the other side of the seam of the ring."""

    @mg.jit
    def apply(data, state, i):
        n, sign = len(state.y), 1 - 2 * state.y[i]
        if i + 1 < n:
            state.h[i + 1] += sign * data.J[i]
        if i > 0:
            state.h[i - 1] += sign * data.J[i - 1]
        state.y[i] = 1 - state.y[i]

    return vary(f.ring(), apply=apply)


@wrong("stale state", "wrong gain")
def fields_left_behind_beside_a_penalty():
    """Fields are left behind, beside a coupling of −10¹⁶ that stands for "never both"."""
    return vary(f.ring(), data=f.Couplings(np.array([0.7, -1.3, -1e16, 1.1])), apply=f.apply_flip)


@wrong("stale state", "feasible")
def room_that_only_shrinks():
    """The room that feasible reads shrinks when an item comes and does not grow when one goes."""

    @mg.jit
    def apply(data, state, i):
        if state.y[i] == 0:
            state.room[0] -= data.weight[i]
        state.y[i] = 1 - state.y[i]

    return vary(f.sack(), apply=apply)


@wrong("stale state", "feasible", "leaves the set")
def room_that_a_trade_forgets():
    """Of two moves, the trade does not keep the room that both read."""

    @mg.jit
    def apply(data, state, move):
        state.y[move[0]] = 0
        state.y[move[1]] = 1

    return vary(f.sack(), 1, apply=apply)


@wrong("stale state", "feasible", "leaves the set")
def blocked_by_the_left_alone():
    """The counters that feasible reads are kept for the place on the left."""

    @mg.jit
    def apply(data, state, i):
        if i > 0:
            state.blocked[i - 1] += 1 - 2 * state.y[i]
        state.y[i] = 1 - state.y[i]

    return vary(f.quiet(), apply=apply)


@wrong("stale state", "feasible")
def load_of_the_machine_that_is_left():
    """A job's time is added where it goes and not taken away where it was."""

    @mg.jit
    def apply(data, state, move):
        state.load[move[1]] += data.time[move[0]]
        state.y[move[0]] = move[1]

    return vary(f.shop(), apply=apply)


@mg.jit
def mask_by_ones(data, state):
    """Flips always, stays where something is chosen."""
    return 3 if state.ones[0] > 0 else 1


@mg.jit
def mask_by_ones_after(data, state, i):
    ones = 1 - 2 * state.y[i]
    for k in range(len(state.y)):
        ones += state.y[k]
    return 3 if ones > 0 else 1


@mg.jit
def stays(data, state, rng):
    return 0, -np.inf


@mg.jit
def change_nothing(data, state, move, m):
    return 0, 0


@mg.jit
def apply_nothing(data, state, move):
    pass


@mg.jit
def all_apply(data, state, move):
    return 3


def masked(apply, applicable=mask_by_ones, after=mask_by_ones_after, **changed) -> mg.Problem:
    """Flips and stays on 3 bits, with a mask that depends on the number of ones."""
    moves = [
        mg.Move("flip", f.propose_flip, f.change_flip, apply, applicable_after=after),
        mg.Move("stay", stays, change_nothing, apply_nothing, changes=0, applicable_after=all_apply),
    ]
    return vary(f.basket(3), moves=moves, applicable=applicable, **changed)


@wrong("stale state", "applicable")
def count_that_applicable_reads():
    """applicable reads the number of ones, apply does not keep it."""
    return masked(f.apply_flip)


@wrong("stale state", "applicable")
def count_that_applicable_after_reads():
    """applicable_after reads the number of ones, apply counts up alone; applicable counts for itself."""

    @mg.jit
    def applicable(data, state):
        return 3 if f.group_size(state.y, 1, -1) > 0 else 1

    @mg.jit
    def after(data, state, i):
        return 3 if state.ones[0] + 1 - 2 * state.y[i] > 0 else 1

    @mg.jit
    def apply(data, state, i):
        state.ones[0] += state.y[i] == 0
        state.y[i] = 1 - state.y[i]

    return masked(apply, applicable, after)


class Located(NamedTuple):
    y: np.ndarray
    items: np.ndarray
    place: np.ndarray  # inverse of items


@mg.jit
def locate(data, guide, temperature, state):
    f.list_items(data, guide, temperature, state)
    for n in range(len(state.items)):
        state.place[state.items[n]] = n


@mg.jit
def propose_by_item(data, state, rng):
    """Two items; nothing to do unless the first is chosen and the second is not."""
    n = len(state.y)
    i, j = integer(rng, n), integer(rng, n - 1)
    j += j >= i
    a, b = state.place[i], state.place[j]
    return (a, b), 0.0 if a < data.k <= b else -np.inf


@wrong("stale state")
def inverse_of_a_list_half_done():
    """apply exchanges two items in their list and brings the place of one up to date."""

    @mg.jit
    def apply(data, state, move):
        f.apply_exchange(data, state, move)
        state.place[state.items[move[0]]] = move[0]

    state = Located((np.arange(5) < 2).astype(np.int8), np.arange(5), np.arange(5))
    return vary(f.team(), state=state, prepare=locate, propose=propose_by_item, apply=apply)


@wrong("stale state", "wrong change")
def list_with_an_item_twice():
    """apply writes the new item into the list and not the old one to the other place."""

    @mg.jit
    def apply(data, state, move):
        a, b = move
        state.y[state.items[a]] = 0
        state.y[state.items[b]] = 1
        state.items[a] = state.items[b]

    return vary(f.team(), apply=apply)


class Top(NamedTuple):
    y: np.ndarray
    load: np.ndarray
    top: np.ndarray  # (1,) highest load


@mg.jit
def fill_top(data, guide, temperature, state):
    f.add_loads(data, guide, temperature, state)
    state.top[0] = f.highest(state.load)


@wrong("stale state", "wrong gain")
def highest_load_never_falls():
    """The highest load, which gain reads, is raised by apply and never lowered."""

    @mg.jit
    def gain(data, state, move):
        return f.gain_makespan(data, state, move) + 0.25 * (state.top[0] - f.highest(state.load))

    @mg.jit
    def apply(data, state, move):
        f.apply_move_job(data, state, move)
        state.top[0] = max(state.top[0], f.highest(state.load))

    base = f.shop()
    state = Top(base.solution, np.zeros(3, np.int64), np.zeros(1, np.int64))
    return vary(base, state=state, prepare=fill_top, gain=gain, apply=apply)


@wrong("stale state", "wrong change", "error")
def length_after_a_deletion():
    """A deletion does not shorten the length that everything else relies on when the word becomes empty."""

    @mg.jit
    def apply(data, state, move):
        f.apply_edit(data, state, move)
        state.length[0] = max(state.length[0], 1)

    return vary(f.words(), apply=apply)


# --- right for some moves, wrong later --------------------------------------------------------------------------------


class Aged(NamedTuple):
    y: np.ndarray
    h: np.ndarray
    age: np.ndarray  # (1,) applied moves


@mg.jit
def fill_aged(data, guide, temperature, state):
    f.fill_fields(data, guide, temperature, state)
    state.age[0] = 0


def aged(apply, age=np.int64, cells=1, **changed) -> mg.Problem:
    """The ring with a count of applied moves."""
    state = Aged(np.zeros(4, np.int8), np.zeros(4), np.zeros(cells, age))
    return vary(f.ring(), state=state, prepare=fill_aged, apply=apply, **changed)


@wrong("stale state", "wrong gain")
def fields_kept_for_a_hundred_moves():
    """After a hundred moves the fields are no longer kept."""

    @mg.jit
    def apply(data, state, i):
        state.age[0] += 1
        if state.age[0] > 100:
            f.apply_flip(data, state, i)
        else:
            f.apply_ring_flip(data, state, i)

    return aged(apply)


@wrong("stale state", "wrong gain")
def fields_refreshed_now_and_then():
    """Fields are filled anew at every third move and not kept between."""

    @mg.jit
    def apply(data, state, i):
        f.apply_flip(data, state, i)
        state.age[0] += 1
        if state.age[0] % 3 == 0:
            f.fill_fields(data, state.h, 1.0, state)

    return aged(apply)


@wrong("stale state", "overflow", "feasible", "compiled")
def age_that_runs_over():
    """Moves are counted in eight bits; after 127 of them the count is negative, which feasible takes for a reason to refuse."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1

    @mg.jit
    def feasible(data, state, i):
        return state.age[0] >= 0

    return aged(apply, np.int8, feasible=feasible)


@wrong("stale state", "feasible")
def refuses_after_forty_moves():
    """A budget of forty applied moves: then feasible says no to flips of bit 0 that switch it off."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1

    @mg.jit
    def feasible(data, state, i):
        return state.age[0] < 40 or i > 0 or state.y[0] == 0

    return aged(apply, feasible=feasible)


@wrong("error", "stale state", hidden="writes beyond the end of an array: anything may happen in compiled code")
def history_without_end():
    """The last moves are noted in a list of twenty that does not begin again."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1
        state.age[state.age[0]] = i

    return aged(apply, cells=20)


@wrong("stale state", "wrong ratio", "one-way move")
def ring_buffer_of_forbidden_moves():
    """The last two flips are kept in a ring buffer and not proposed again."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1
        state.age[1 + state.age[0] % 2] = i + 1

    @mg.jit
    def prepare(data, guide, temperature, state):
        fill_aged(data, guide, temperature, state)
        state.age[1] = state.age[2] = 0

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, -np.inf if state.age[1] == i + 1 or state.age[2] == i + 1 else 0.0

    return vary(aged(apply, cells=3), prepare=prepare, propose=propose)


@wrong("stale state", "wrong ratio")
def step_size_that_adapts():
    """The chance of staying falls with every applied move, as in adaptive schemes, and tells zeros from ones."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        stays_here = state.y[i] == 1 and integer(rng, 2 + state.age[0] // 5) > 0
        return i, -np.inf if stays_here else (0.0 if state.age[0] < 5 else -0.5 + state.y[i])

    return aged(apply, propose=propose)


@wrong("stale state", "wrong gain", "compiled", hidden="few chains come to it in a thousand steps")
def combination_lock():
    """Six flips in a certain order, and in no other, leave a field wrong."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        wanted = (2, 0, 3, 1, 0, 2)[state.age[0]]
        state.age[0] = state.age[0] + 1 if i == wanted else 0
        if state.age[0] == 6:
            state.age[0] = 0
            state.h[1] += 1.5

    return aged(apply)


@wrong("stale state", "wrong gain", "compiled")
def thousandth_move():
    """The thousandth applied move leaves a field wrong."""

    @mg.jit
    def apply(data, state, i):
        f.apply_ring_flip(data, state, i)
        state.age[0] += 1
        if state.age[0] % 1000 == 300:
            state.h[0] += 2.0

    return aged(apply)


# --- spoiled by a proposal that is refused ----------------------------------------------------------------------------


@wrong("rejected proposal", "proposal", "stale state")
def counted_in_advance():
    """propose counts the ones as they will be; if the proposal is refused, the count stays."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        state.ones[0] += 1 - 2 * state.y[i]
        return i, 0.0

    @mg.jit
    def feasible(data, state, i):
        return state.ones[0] <= data.limit

    return vary(f.menu(), propose=propose, feasible=feasible, apply=f.apply_flip)


@wrong("rejected proposal", "proposal", "stale state", "feasible", "order")
def loads_tried_out():
    """feasible adds the job to see whether it fits, and takes it away again only if it does."""

    @mg.jit
    def feasible(data, state, move):
        j, k = move
        state.load[k] += data.time[j]
        if state.load[k] > data.capacity[k]:
            return False
        state.load[k] -= data.time[j]
        return True

    return vary(f.shop(), feasible=feasible)


@wrong(
    "rejected proposal",
    "proposal",
    "stale state",
    "order",
    "feasible",
    hidden="chains ask feasible right before they apply; recycled ones do not",
)
def room_taken_by_feasible():
    """feasible takes the room for an item that fits, apply relies on that; not all that is asked is applied."""

    @mg.jit
    def feasible(data, state, i):
        if not f.item_fits(data, state, i):
            return False
        state.room[0] -= (1 - 2 * state.y[i]) * data.weight[i]
        return True

    base = f.sack()
    return vary(base, moves=base.moves[:1], feasible=feasible, apply=f.apply_flip)


@wrong("rejected proposal", "proposal", "stale state", "order", "wrong gain")
def fields_that_gain_forgets_to_restore():
    """gain adds the move to a field to evaluate it, and takes it back unless it goes down."""

    @mg.jit
    def gain(data, state, i):
        value = (1 - 2 * state.y[i]) * state.h[i]
        state.h[i] += value
        if value >= 0.0:
            state.h[i] -= value
        return value

    return vary(f.ring(), gain=gain)


@wrong("proposal", "rejected proposal", "wrong gain")
def solution_that_gain_forgets_to_restore():
    """gain turns the bit, evaluates φ and turns it back, but not where φ fell."""

    @mg.jit
    def gain(data, state, i):
        before = f.coupled(data, state.y)
        state.y[i] = 1 - state.y[i]
        after = f.coupled(data, state.y)
        if after >= before:
            state.y[i] = 1 - state.y[i]
        return after - before

    return vary(f.ring(), gain=gain)


@wrong("proposal", "rejected proposal", "feasible")
def solution_that_feasible_forgets_to_restore():
    """feasible recolors, looks for conflicts and recolors back; where it finds one it returns at once."""

    @mg.jit
    def feasible(data, state, move):
        v, color = move
        old = state.y[v]
        state.y[v] = color
        for w in range(len(state.y)):
            if data.touches[v, w] and state.y[w] == color:
                return False
        state.y[v] = old
        return True

    return vary(f.colored_map(), feasible=feasible)


@wrong("proposal", "rejected proposal", "stale state", "one-way move", "wrong ratio")
def solution_shuffled_by_propose():
    """propose shuffles the order itself instead of scratch space, where the draw leads nowhere."""

    @mg.jit
    def propose(data, state, rng):
        i, j = integer(rng, len(state.y)), integer(rng, len(state.y))
        if i == j:
            state.y[0], state.y[1] = state.y[1], state.y[0]
            return (i, j), -np.inf
        return (i, j), 0.0

    return vary(f.lineup(), propose=propose)


@wrong("applicable", "rejected proposal", "stale state", "proposal", "order")
def applicable_that_adds_up():
    """applicable counts the ones into a field that it does not clear."""

    @mg.jit
    def applicable(data, state):
        for i in range(len(state.y)):
            state.ones[0] += state.y[i]
        return 3 if state.ones[0] > 0 else 1

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.ones[0] = 0

    return masked(f.apply_flip, applicable, prepare=prepare)


@wrong("proposal", "rejected proposal", "stale state", "applicable", "order", "wrong change")
def applicable_after_that_applies():
    """applicable_after turns the bit to look at y', and leaves it so where nothing is chosen then."""

    @mg.jit
    def applicable(data, state):
        return 3 if f.group_size(state.y, 1, -1) > 0 else 1

    @mg.jit
    def after(data, state, i):
        state.y[i] = 1 - state.y[i]
        if f.group_size(state.y, 1, -1) == 0:
            return 1
        state.y[i] = 1 - state.y[i]
        return 3

    return masked(f.apply_counted_flip, applicable, after)


class Direction(NamedTuple):
    y: np.ndarray
    way: np.ndarray  # (1,) −1 or 1


@mg.jit
def start_upward(data, guide, temperature, state):
    state.way[0] = 1


@wrong("rejected proposal", "stale state", "one-way move", "proposal")
def turns_round_when_asked():
    """Every proposal at the upper half turns the direction of the walk: what comes next depends on proposals that were refused."""

    @mg.jit
    def propose(data, state, rng):
        i, step = integer(rng, len(state.y)), state.way[0]
        if 2 * state.y[i] > data.top:
            state.way[0] = -state.way[0]
        return (i, step), 0.0 if 0 <= state.y[i] + step <= data.top else -np.inf

    state = Direction(np.zeros(2, np.int8), np.ones(1, np.int64))
    return vary(f.dials(), state=state, prepare=start_upward, propose=propose)


@wrong(
    "rejected proposal", "stale state", "proposal", "unreachable",
    hidden="each step leaves the Gibbs law as it is, though which bit it tries depends on the past",
)  # fmt: skip
def bits_in_turn():
    """propose goes through the bits in turn, by a counter that is no scratch space: a fresh state always tries bit 0."""

    @mg.jit
    def propose(data, state, rng):
        i = state.way[0] % len(state.y)
        state.way[0] += 1
        return i, 0.0

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.way[0] = 0

    return vary(f.switches(), state=Direction(np.zeros(4, np.int8), np.ones(1, np.int64)), prepare=prepare, propose=propose)


@wrong("rejected proposal", "stale state", "proposal")
def list_shuffled_and_its_inverse_not():
    """propose shuffles the list of items, which is allowed, but another move finds items by places that no longer hold."""

    @mg.jit
    def propose(data, state, rng):
        a = integer(rng, data.k)
        state.items[0], state.items[a] = state.items[a], state.items[0]
        return (0, data.k + integer(rng, len(state.y) - data.k)), 0.0

    @mg.jit
    def apply(data, state, move):
        a, b = move
        f.apply_exchange(data, state, move)
        state.place[state.items[a]], state.place[state.items[b]] = a, b

    @mg.jit
    def propose_small(data, state, rng):
        """Item 0 against a uniformly drawn one, found by place."""
        j = 1 + integer(rng, len(state.y) - 1)
        a, b = min(state.place[0], state.place[j]), max(state.place[0], state.place[j])
        return (a, b), 0.0 if a < data.k <= b else -np.inf

    state = Located((np.arange(5) < 2).astype(np.int8), np.arange(5), np.arange(5))
    base = vary(f.team(), state=state, prepare=locate, propose=propose, apply=apply)
    return vary(base, moves=[*base.moves, replace(base.moves[0], name="by item", propose=propose_small)])


class Memo(NamedTuple):
    y: np.ndarray
    value: np.ndarray  # gains that have been computed
    known: np.ndarray  # which of them


@mg.jit
def know_nothing(data, guide, temperature, state):
    for i in range(len(state.y)):
        state.known[i] = 0


@mg.jit
def gain_from_memo(data, state, i):
    if state.known[i] == 0:
        n = len(state.y)
        state.value[i] = (1 - 2 * state.y[i]) * (data.J[i] * state.y[(i + 1) % n] + data.J[i - 1] * state.y[i - 1])
        state.known[i] = 1
    return state.value[i]


def memo(apply) -> mg.Problem:
    """The ring with gains that are remembered until something near them changes."""
    state = Memo(np.zeros(4, np.int8), np.zeros(4), np.zeros(4, np.int8))
    return vary(f.ring(), state=state, prepare=know_nothing, gain=gain_from_memo, apply=apply)


@wrong("rejected proposal", "stale state", "wrong gain", "order")
def memo_of_a_refused_gain():
    """Gains are remembered; apply forgets that of the bit that turns, not those of its neighbors, asked for before."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        state.known[i] = 0

    return memo(apply)


@wrong("rejected proposal", "stale state", "wrong gain", "order", chains=40_000)
def memo_of_one_neighbor():
    """Gains are remembered; apply forgets those of the bit and of the next, not of the one before."""

    @mg.jit
    def apply(data, state, i):
        state.y[i] = 1 - state.y[i]
        state.known[i] = state.known[(i + 1) % len(state.y)] = 0

    return memo(apply)


@wrong("rejected proposal", "stale state", "proposal", "order", "wrong gain", "error", "compiled")
def prices_that_apply_raises():
    """apply raises the price of what is taken, in data, which all chains share."""

    @mg.jit
    def apply(data, state, i):
        if state.y[i] == 0:
            data.price[i] += 0.1
        f.apply_counted_flip(data, state, i)

    return vary(f.menu(), apply=apply)


@wrong(
    "rejected proposal",
    "stale state",
    "proposal",
    "order",
    "error",
    "wrong ratio",
    "compiled",
    hidden="it depends on the other chains",
)
def data_for_scratch_space():
    """propose counts its draws in an array of data, which all chains share, and leaves out a bit that was drawn three times."""

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        data.J[i] = (data.J[i] + 1) % 3
        return i, 0.0 if data.J[i] > 0 else -np.inf

    base = vary(f.switches(3), propose=propose)
    return vary(base, data=f.Couplings(np.zeros(3)))


# --- right in one order of questions ----------------------------------------------------------------------------------


class Tried(NamedTuple):
    y: np.ndarray
    load: np.ndarray
    trial: np.ndarray  # (1,) scratch


@mg.jit
def load_and_trial(data, guide, temperature, state):
    f.add_loads(data, guide, temperature, state)
    state.trial[0] = 0


@wrong("order", "wrong gain", "stale state", "rejected proposal")
def gain_reads_what_feasible_wrote():
    """gain takes the new makespan from scratch space that feasible fills; feasible is asked after gain."""

    @mg.jit
    def feasible(data, state, move):
        j, new = move
        top = 0
        for k in range(len(state.load)):
            load = state.load[k]
            if k == new:
                load += data.time[j]
            elif k == state.y[j]:
                load -= data.time[j]
            top = max(top, load)
        state.trial[0] = top
        return f.job_fits(data, state, move)

    @mg.jit
    def gain(data, state, move):
        return 0.25 * (f.highest(state.load) - state.trial[0])

    base = f.shop()
    state = Tried(base.solution, np.zeros(3, np.int64), np.zeros(1, np.int64))
    return vary(base, state=state, prepare=load_and_trial, feasible=feasible, gain=gain)


class Noted(NamedTuple):
    y: np.ndarray
    items: np.ndarray
    note: np.ndarray  # (2,) scratch


@mg.jit
def list_and_clear(data, guide, temperature, state):
    f.list_items(data, guide, temperature, state)
    state.note[0] = state.note[1] = 0


def noted(n=5, k=2, **changed) -> mg.Problem:
    state = Noted((np.arange(n) < k).astype(np.int8), np.arange(n), np.zeros(2, np.int64))
    return vary(f.team(n, k), state=state, prepare=list_and_clear, **changed)


@wrong("order", "wrong change", "stale state", "rejected proposal")
def change_reads_what_feasible_wrote():
    """change returns items that feasible has noted; it is asked before feasible."""

    @mg.jit
    def feasible(data, state, move):
        state.note[0], state.note[1] = state.items[move[0]], state.items[move[1]]
        return True

    @mg.jit
    def change(data, state, move, m):
        return state.note[m], 2 * m - 1

    return noted(feasible=feasible, change=change)


@wrong("order", "stale state", "wrong change", "leaves the set", hidden="chains ask for all changes right before they apply")
def apply_reads_what_change_wrote():
    """apply exchanges the items that change has noted."""

    @mg.jit
    def change(data, state, move, m):
        state.note[m] = move[m]
        return state.items[move[m]], 2 * m - 1

    @mg.jit
    def apply(data, state, move):
        f.apply_exchange(data, state, (state.note[0], state.note[1]))

    return noted(change=change, apply=apply)


@wrong("order", "stale state", hidden="chains ask for all changes right before they apply")
def count_by_a_note_of_change():
    """apply flips the bit by itself, but counts by the difference that change has noted."""

    @mg.jit
    def change(data, state, i, m):
        state.ones[1] = 1 - 2 * state.y[i]
        return i, state.ones[1]

    @mg.jit
    def apply(data, state, i):
        state.ones[0] += state.ones[1]
        state.y[i] = 1 - state.y[i]

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.count_ones(data, guide, temperature, state)
        state.ones[1] = 0

    state = f.Counted(np.zeros(4, np.int8), np.zeros(2, np.int64))
    return vary(f.menu(), state=state, prepare=prepare, change=change, apply=apply)


@wrong("order", "wrong change", hidden="the law of the chain is right; its average is not, since changes are asked for twice")
def change_with_a_pointer():
    """change counts its calls in scratch space instead of looking at m; propose sets the count back."""

    @mg.jit
    def propose(data, state, rng):
        state.note[0] = 0
        return f.propose_exchange(data, state, rng)

    @mg.jit
    def change(data, state, move, m):
        at = min(state.note[0], 1)
        state.note[0] += 1
        return state.items[move[at]], 2 * at - 1

    return noted(propose=propose, change=change)


@wrong(
    "order",
    "wrong change",
    "wrong gain",
    "rejected proposal",
    hidden="chains ask how many changes there are before they ask for the gain",
)
def gain_reads_what_changes_wrote():
    """changes notes the item that comes, gain looks up its price."""

    @mg.jit
    def changes(data, state, i):
        state.ones[1] = i
        return 1

    @mg.jit
    def gain(data, state, i):
        return f.gain_price(data, state, state.ones[1])

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.count_ones(data, guide, temperature, state)
        state.ones[1] = 0

    state = f.Counted(np.zeros(4, np.int8), np.zeros(2, np.int64))
    return vary(f.menu(), state=state, prepare=prepare, changes=changes, gain=gain)


@wrong("order", "feasible", "rejected proposal", "stale state")
def feasible_every_second_time():
    """feasible counts its calls and lets every second one pass that it should refuse."""

    @mg.jit
    def feasible(data, state, i):
        state.ones[1] += 1
        return state.ones[1] % 2 == 1 or f.within_limit(data, state, i)

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.count_ones(data, guide, temperature, state)
        state.ones[1] = 1

    state = f.Counted(np.zeros(4, np.int8), np.zeros(2, np.int64))
    return vary(f.menu(), state=state, prepare=prepare, feasible=feasible)


@wrong("order", "rejected proposal", "stale state", "wrong ratio")
def ratio_of_the_proposal_before():
    """propose returns the ratio that the draw before it had, which it kept in a field."""

    @mg.jit
    def propose(data, state, rng):
        ones, zeros = state.ones[0], len(state.y) - state.ones[0]
        before = state.ones[1] / 1000.0
        i = integer(rng, len(state.y))
        state.ones[1] = round(1000.0 * log((1 + zeros) / (1 + ones)))
        return i, before

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.count_ones(data, guide, temperature, state)
        state.ones[1] = 0

    state = f.Counted(np.zeros(4, np.int8), np.zeros(2, np.int64))
    return vary(f.basket(), state=state, prepare=prepare, propose=propose)
