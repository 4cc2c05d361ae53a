"""Mistakes in the set itself: contains, states, the start, feasible, random, greedy, improve, prepare."""

from math import exp
from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad import coin, integer
from tests.mutants import families as f
from tests.mutants.registry import TOO_SMALL, vary, wrong

NOT_THE_LAW = "chains that begin in the set have the right law"
MEMORY = "what comes of it depends on what was in memory"
START = "where chains begin does not change the law they converge to"


class Unlisted(mg.Problem):
    """A problem whose states ``check`` does not see; the law is still to be known."""

    def __init__(self, base: mg.Problem) -> None:
        parts = base.functions._asdict()
        super().__init__(
            base.data, base.state, base.moves, base.size, name=base.name, guided=base.guided, uniform=base.uniform, **parts
        )
        self.all_states = base.states


# --- contains ---------------------------------------------------------------------------------------------------------


@wrong("contains", hidden=NOT_THE_LAW)
def bits_below_zero():
    """contains asks for y ≤ 1 and lets −1 pass."""

    @mg.jit
    def contains(data, y):
        for i in range(len(y)):
            if y[i] > 1:
                return False
        return True

    return vary(f.switches(3), contains=contains)


@wrong("contains", hidden=NOT_THE_LAW)
def count_of_ones_alone():
    """contains asks for Σ y = k and lets 2 and 0 pass for 1 and 1."""

    @mg.jit
    def contains(data, y):
        total = 0
        for i in range(len(y)):
            if y[i] < 0:
                return False
            total += y[i]
        return total == data.k

    return vary(f.team(), contains=contains)


@wrong("contains", hidden=NOT_THE_LAW)
def sum_of_an_order():
    """contains asks for entries in range with the right sum, and lets an item stand twice."""

    @mg.jit
    def contains(data, y):
        total = 0
        for p in range(len(y)):
            if not 0 <= y[p] < len(y):
                return False
            total += y[p]
        return total == len(y) * (len(y) - 1) // 2

    return vary(f.lineup(), contains=contains)


@wrong("contains", "feasible", hidden=NOT_THE_LAW)
def anything_goes():
    """contains is always True."""

    @mg.jit
    def contains(data, y):
        return True

    return vary(f.quiet(4), contains=contains, feasible=f.is_free)


@wrong("contains", hidden=NOT_THE_LAW)
def last_entry_not_looked_at():
    """contains leaves out the last entry."""

    @mg.jit
    def contains(data, y):
        for i in range(len(y) - 1):
            if y[i] != 0 and y[i] != 1:
                return False
        return True

    return vary(f.switches(3), contains=contains)


@wrong("contains", "error", hidden=NOT_THE_LAW)
def looks_up_before_it_looks():
    """contains uses an entry as an index before it knows that it is one."""

    @mg.jit
    def contains(data, y):
        for i in range(len(y)):
            if y[y[i]] != i or y[i] == i:
                return False
        return True

    return vary(f.mates(), contains=contains)


@wrong("contains", "feasible", hidden=NOT_THE_LAW)
def tree_by_number_of_edges():
    """contains counts edges; a triangle beside a lonely node passes."""

    @mg.jit
    def contains(data, y):
        edges = 0
        for e in range(len(y)):
            if y[e] != 0 and y[e] != 1:
                return False
            edges += y[e]
        return edges == data.nodes - 1

    return vary(f.trees(), contains=contains)


@wrong("contains", "feasible", hidden=NOT_THE_LAW)
def neighbors_on_one_side():
    """contains compares each country with the one two before it instead of the one before."""

    @mg.jit
    def contains(data, y):
        for v in range(len(y)):
            if not 0 <= y[v] < data.colors:
                return False
            for w in range(v):
                if data.touches[v, w] and v - w > 1 and y[v] == y[w]:
                    return False
        return True

    return vary(f.colored_map(3, 3), contains=contains)


@wrong("contains", hidden=NOT_THE_LAW)
def word_with_a_gap():
    """contains lets a word pass that has an empty place between two letters."""

    @mg.jit
    def contains(data, y):
        for k in range(len(y)):
            if not -1 <= y[k] < data.letters:
                return False
        return True

    return vary(f.words(), contains=contains)


@wrong("set", "feasible", "wrong start", "contains")
def capacity_not_reached():
    """contains asks for a load below the capacity, feasible for one not above it."""

    @mg.jit
    def contains(data, y):
        total = 0
        for i in range(len(y)):
            if y[i] != 0 and y[i] != 1:
                return False
            total += data.weight[i] * y[i]
        return total < data.capacity

    base = f.sack()
    return vary(base, contains=contains, states=lambda: [y for y in base.states() if y @ (3, 2, 4, 5) < 7])


@wrong("set", "feasible", hidden=NOT_THE_LAW)
def one_solution_refused():
    """contains refuses a solution that states lists and moves reach."""

    @mg.jit
    def contains(data, y):
        return f.is_tour(data, y) and not (y[1] == 3 and y[2] == 1 and y[3] == 4)

    return vary(f.tour(), contains=contains)


@wrong("contains", "proposal", "set", "wrong start", "error", hidden="every start is spoiled before the chain begins")
def contains_that_writes():
    """contains ticks entries off in the solution itself."""

    @mg.jit
    def contains(data, y):
        for p in range(len(y)):
            if not 0 <= y[p] < len(y):
                return False
            for q in range(p):
                if y[q] == y[p]:
                    return False
        y[0], y[1] = y[1], y[0]
        return True

    return vary(f.lineup(3), contains=contains)


@wrong(
    "contains", "set", "wrong start", "proposal", "error", "wrong change", "wrong gain", "compiled", hidden="every start is spoiled"
)
def statistic_that_writes():
    """statistic marks letters in the solution as counted, and does not unmark them."""

    @mg.jit
    def statistic(data, y, out):
        for i in range(len(y)):
            out[i] = y[i]
            if i > 0 and y[i] == 1 and y[i - 1] == 1:
                y[i - 1] = 0

    return vary(f.switches(3), statistic=statistic)


@wrong(
    "contains", "set", "wrong start", "proposal", "error", "wrong gain", "wrong change", "compiled", hidden="every start is spoiled"
)
def phi_that_writes():
    """phi sorts a copy that is none: the solution itself."""

    @mg.jit
    def phi(data, y):
        for i in range(1, len(y)):
            if y[i] < y[i - 1]:
                y[i], y[i - 1] = y[i - 1], y[i]
        return 0.0

    return vary(f.switches(3), phi=phi)


# --- states and the start ---------------------------------------------------------------------------------------------


@wrong("leaves the set", "set", "contains", hidden="states are for check alone")
def one_state_missing():
    """states leaves out a solution that moves reach."""
    return vary(f.team(), states=lambda: f.subsets(5, 2)[1:])


@wrong("set", hidden="states are for check alone")
def one_state_twice():
    """states lists a solution twice."""
    return vary(f.team(), states=lambda: [*f.subsets(5, 2), f.subsets(5, 2)[3]])


@wrong("set", "unreachable", hidden="states are for check alone")
def one_state_too_many():
    """states lists a vector that is not in the set."""
    return vary(f.team(), states=lambda: [*f.subsets(5, 2), np.array([1, 1, 1, 0, 0], np.int8)])


@wrong("set", "unreachable", "leaves the set", hidden="states are for check alone")
def one_array_again_and_again():
    """states writes every solution to the same array and yields that."""

    def states():
        y = np.zeros(3, np.int8)
        for number in range(8):
            y[:] = number >> 2 & 1, number >> 1 & 1, number & 1
            yield y

    return vary(f.switches(3), states=states)


@wrong("set", "unreachable", "leaves the set", "error", hidden="states are for check alone")
def states_of_another_length():
    """states lists solutions with an entry too many."""
    return vary(f.switches(3), states=lambda: f.cube(4))


@wrong("wrong start", hidden="such a start is refused")
def start_outside():
    """The state given holds no solution."""
    return vary(f.team(), state=f.Listed(np.ones(5, np.int8), np.arange(5)))


@wrong("wrong start", "set", "unreachable", hidden="starts are drawn")
def start_not_listed():
    """The state given is in contains, and not among the states."""

    @mg.jit
    def contains(data, y):
        for i in range(len(y)):
            if not 0 <= y[i] <= 2:
                return False
        return True

    return vary(f.switches(3), state=f.Bits(np.full(3, 2, np.int8)), contains=contains)


# --- feasible ---------------------------------------------------------------------------------------------------------


@wrong("feasible", "leaves the set")
def no_feasible_at_all():
    """Moves leave the set, and feasible is not given."""
    return vary(f.menu(), feasible=None)


@wrong("feasible", "leaves the set")
def one_more_than_the_limit():
    """feasible looks at y where it should look at y'."""

    @mg.jit
    def feasible(data, state, i):
        return state.ones[0] <= data.limit

    return vary(f.menu(), feasible=feasible)


@wrong("feasible", "one-way move")
def one_less_than_the_limit():
    """feasible refuses to fill up, though the full menu is in the set and can be left."""

    @mg.jit
    def feasible(data, state, i):
        return state.y[i] == 1 or state.ones[0] + 1 < data.limit

    return vary(f.menu(), feasible=feasible)


@wrong("feasible", "leaves the set", "set")
def limit_forgotten_and_nothing_listed():
    """Moves leave the set, and no states are listed: contains alone can tell."""
    return Unlisted(vary(f.menu(), feasible=None))


@wrong("feasible", "leaves the set")
def neighbor_on_the_left_alone():
    """feasible compares the new color with the countries before, not behind."""

    @mg.jit
    def feasible(data, state, move):
        v, color = move
        for w in range(v):
            if data.touches[v, w] and state.y[w] == color:
                return False
        return True

    return vary(f.colored_map(), feasible=feasible)


@wrong("feasible", "leaves the set")
def capacity_of_another_machine():
    """feasible compares with the capacity of the machine the job comes from."""

    @mg.jit
    def feasible(data, state, move):
        j, k = move
        return state.load[k] + data.time[j] <= data.capacity[state.y[j]]

    return vary(f.shop(), feasible=feasible)


@wrong("feasible", hidden="a symmetric set of proposals is refused, which slows the chain and leaves its law")
def some_trees_refused():
    """feasible refuses some exchanges between trees, both ways, though both trees are in the set."""

    @mg.jit
    def feasible(data, state, move):
        return f.connects(data, state, move) and move[0] + move[1] != 5

    return vary(f.trees(), feasible=feasible)


@wrong("feasible", "leaves the set")
def tree_with_a_cycle():
    """feasible sees to it that the new edge does not close a cycle with the old tree's first edge, no more."""

    @mg.jit
    def feasible(data, state, move):
        return data.tail[move[1]] != data.tail[move[0]] or data.head[move[1]] != data.head[move[0]]

    return vary(f.trees(), feasible=feasible)


# --- random -----------------------------------------------------------------------------------------------------------


@wrong("random", hidden=START)
def shuffle_that_is_not_uniform():
    """Fisher-Yates with a partner among all places: some orders come more often."""

    @mg.jit
    def random(data, rng, y):
        for p in range(len(y)):
            y[p] = p
        for p in range(len(y)):
            q = integer(rng, len(y))
            y[p], y[q] = y[q], y[p]

    return vary(f.lineup(), random=random)


@wrong("random", hidden=START)
def shuffle_that_never_stays():
    """A partner below p and never p itself: only cyclic orders come."""

    @mg.jit
    def random(data, rng, y):
        for p in range(len(y)):
            y[p] = p
        for p in range(len(y) - 1, 0, -1):
            q = integer(rng, p)
            y[p], y[q] = y[q], y[p]

    return vary(f.lineup(), random=random)


@wrong("random", hidden="such a start is refused")
def outside_once_in_a_thousand():
    """random leaves the set once in a thousand draws."""

    @mg.jit
    def random(data, rng, y):
        f.random_team(data, rng, y)
        if integer(rng, 1000) == 0:
            for i in range(len(y)):
                y[i] = 1

    return vary(f.team(), random=random)


@wrong("random", hidden=START)
def one_solution_never_drawn():
    """The full set is redrawn as the empty one."""

    @mg.jit
    def random(data, rng, y):
        ones = 0
        for i in range(len(y)):
            y[i] = integer(rng, 2)
            ones += y[i]
        if ones == len(y):
            y[0] = 0

    return vary(f.switches(3), random=random)


@wrong("random", hidden=START)
def biased_bits():
    """Bits are 1 with probability 0.6."""

    @mg.jit
    def random(data, rng, y):
        for i in range(len(y)):
            y[i] = coin(rng, 0.6)

    return vary(f.switches(3), random=random)


@wrong("random", hidden=START)
def size_first():
    """The number of ones is uniform, and so are the ones then: small and large sets come too often."""

    @mg.jit
    def random(data, rng, y):
        left = integer(rng, len(y) + 1)
        for i in range(len(y)):
            y[i] = integer(rng, len(y) - i) < left
            left -= y[i]

    return vary(f.switches(4), random=random)


@wrong("random", "error", hidden=MEMORY)
def random_that_keeps_what_is_there():
    """random writes ones and leaves zeros to memory."""

    @mg.jit
    def random(data, rng, y):
        for i in range(len(y)):
            if integer(rng, 2) == 1:
                y[i] = 1

    return vary(f.switches(3), random=random)


@wrong("random", hidden=MEMORY)
def random_unless_it_looks_drawn():
    """random draws only those bits that memory does not hold as bits."""

    @mg.jit
    def random(data, rng, y):
        for i in range(len(y)):
            if y[i] != 0 and y[i] != 1:
                y[i] = integer(rng, 2)

    return vary(f.switches(3), random=random)


@wrong("random", "unreachable", "set", "leaves the set", "contains", hidden=TOO_SMALL)
def starts_that_moves_never_reach():
    """No states are listed; moves keep the parity of Σ yᵢ, random does not."""

    @mg.jit
    def change(data, state, move, m):
        return move[m], 1 - 2 * state.y[move[m]]

    @mg.jit
    def apply(data, state, move):
        for m in range(2):
            state.y[move[m]] = 1 - state.y[move[m]]

    base = vary(f.switches(4), propose=f.propose_pair, change=change, apply=apply, changes=2)
    return Unlisted(base)


@wrong("random", "draws", "error", hidden=START)
def numpy_draws_the_start():
    """random draws from NumPy's generator: not the chain's, so the seed has no hold on it."""

    @mg.jit
    def random(data, rng, y):
        for i in range(len(y)):
            y[i] = np.random.randint(2)

    return vary(f.switches(3), random=random)


# --- greedy and improve -----------------------------------------------------------------------------------------------


@wrong("greedy", hidden="such a start is refused")
def greedy_without_a_limit():
    """greedy takes whatever has a positive θ, though at most two may be taken."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            state.y[i] = guide[i] > 0.0

    return vary(f.menu(), greedy=greedy)


@wrong("greedy", hidden="such a start is refused")
def greedy_takes_too_few():
    """greedy takes at most k items, and only those of positive θ; k are to be taken."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            rank = 0
            for j in range(len(guide)):
                rank += guide[j] > guide[i] or (guide[j] == guide[i] and j < i)
            state.y[i] = rank < data.k and guide[i] > -0.8

    return vary(f.team(), greedy=greedy)


@wrong("greedy", hidden="such a start is refused")
def greedy_with_ties():
    """greedy takes items that fewer than k others beat: more than k if θ has ties, such as θ = 0."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            rank = 0
            for j in range(len(guide)):
                rank += guide[j] > guide[i]
            state.y[i] = rank < data.k

    return vary(f.team(), greedy=greedy)


@wrong("greedy", "error", "prepare", hidden=MEMORY)
def greedy_that_reads_fields():
    """greedy exchanges items by a list that prepare has not filled yet."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            state.y[i] = 0
        for a in range(data.k):
            state.y[state.items[a] % len(state.y)] = 1

    return vary(f.team(), greedy=greedy)


@wrong("greedy", "overflow", hidden="such a start is refused")
def greedy_in_whole_numbers():
    """greedy turns dials as far as θ says, in whole numbers, and looks at the top for θ below 10 alone."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            wanted = round(guide[i])
            state.y[i] = max(0, min(wanted, data.top)) if abs(wanted) < 10 else 9

    return vary(f.dials(), greedy=greedy)


@mg.jit
def climb(data, guide, state):
    """Flip whatever helps, once around."""
    for i in range(len(state.y)):
        if f.gain_price(data, state, i) + guide[i] * (1 - 2 * state.y[i]) > 0.0 and f.within_limit(data, state, i):
            f.apply_counted_flip(data, state, i)


@wrong("improve", hidden=START)
def improve_that_lowers():
    """improve takes the price for a reward."""

    @mg.jit
    def improve(data, guide, state):
        for i in range(len(state.y)):
            if guide[i] + 3.0 * data.price[i] > 0.0 and state.y[i] == 0 and f.within_limit(data, state, i):
                f.apply_counted_flip(data, state, i)

    return vary(f.menu(), improve=improve)


@wrong("improve", hidden="chains begin outside of the set")
def improve_beyond_the_limit():
    """improve looks at the limit only for θ that are not all positive."""

    @mg.jit
    def improve(data, guide, state):
        low = guide[0]
        for i in range(len(guide)):
            low = min(low, guide[i])
        for i in range(len(state.y)):
            helps = f.gain_price(data, state, i) + guide[i] * (1 - 2 * state.y[i]) > 0.0
            if helps and (low > 0.0 or f.within_limit(data, state, i)):
                f.apply_counted_flip(data, state, i)

    return vary(f.menu(), improve=improve)


@wrong("improve", "stale state", hidden=START)
def improve_that_leaves_the_count():
    """improve flips bits and does not count them."""

    @mg.jit
    def improve(data, guide, state):
        for i in range(len(state.y)):
            if state.y[i] == 1 and f.gain_price(data, state, i) - guide[i] > 0.0:
                state.y[i] = 0

    return vary(f.menu(), improve=improve)


@wrong("improve", hidden=START)
def improve_for_large_theta():
    """improve compares scores that are cut off at 3, so that it may lower the objective for larger ones."""

    @mg.jit
    def improve(data, guide, state):
        for i in range(len(state.y)):
            for j in range(len(state.y)):
                one, other = min(guide[i], 3.0) - data.price[i], min(guide[j], 3.0) - data.price[j]
                if state.y[i] == 1 and state.y[j] == 0 and other > one:
                    f.apply_counted_flip(data, state, i)
                    f.apply_counted_flip(data, state, j)

    return vary(f.menu(), improve=improve)


@wrong("improve", "compiled", hidden=START, compiled=True)
def improve_with_a_negative_power():
    """improve discounts later items by 2⁻ᵏ of whole numbers, which is 0 in compiled code: there it drops what helps."""

    @mg.jit
    def improve(data, guide, state):
        for i in range(len(state.y)):
            worth = 2**-i * (guide[i] - data.price[i])
            if state.y[i] == 1 and (worth < 0.0 or (worth == 0.0 and guide[i] != data.price[i])):
                f.apply_counted_flip(data, state, i)

    return vary(f.menu(), improve=improve)


@wrong("greedy", "compiled", hidden="such a start is refused", compiled=True)
def greedy_with_a_negative_power():
    """greedy takes 2k/2ᵐ items with a negative power of whole numbers, which is 0 in compiled code: it takes none."""

    @mg.jit
    def greedy(data, guide, state):
        take = int(2 * data.k * 2 ** (4 - len(guide)))
        for i in range(len(guide)):
            rank = 0
            for j in range(len(guide)):
                rank += guide[j] > guide[i] or (guide[j] == guide[i] and j < i)
            state.y[i] = rank < take

    return vary(f.team(5, 2), greedy=greedy)


@wrong("improve", "error", hidden=START)
def improve_that_looks_for_something():
    """improve divides by the best θ, which is 0 for θ = 0."""

    @mg.jit
    def improve(data, guide, state):
        high = 0.0
        for i in range(len(guide)):
            high = max(high, abs(guide[i]))
        at = int(guide[0] / high * 1.5)
        if state.y[at] == 1 and guide[at] < 0.0:
            f.apply_counted_flip(data, state, at)

    return vary(f.menu(), improve=improve)


# --- prepare ----------------------------------------------------------------------------------------------------------


@wrong("prepare", "feasible", "stale state", "leaves the set", hidden=MEMORY)
def count_that_begins_with_memory():
    """prepare adds to a count that it does not clear."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y)):
            state.ones[0] += state.y[i]

    return vary(f.menu(), prepare=prepare)


@wrong("prepare", "wrong gain", "stale state", hidden=MEMORY)
def first_field_left_to_memory():
    """prepare fills the fields from the second bit on."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        n = len(state.y)
        for i in range(1, n):
            state.h[i] = data.J[i] * state.y[(i + 1) % n] + data.J[i - 1] * state.y[i - 1]

    return vary(f.ring(), prepare=prepare)


@wrong("prepare", "wrong gain", "stale state", hidden=MEMORY)
def zeros_left_to_memory():
    """prepare adds to the fields of neighbors of ones, and never writes the others."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        n = len(state.y)
        for i in range(n):
            if state.y[i] == 1 or state.y[i - 1] == 1 or state.y[(i + 1) % n] == 1:
                state.h[i] = data.J[i] * state.y[(i + 1) % n] + data.J[i - 1] * state.y[i - 1]

    return vary(f.ring(), prepare=prepare)


@wrong("prepare", "wrong change", "stale state", "error", hidden=MEMORY)
def rest_of_a_list_left_to_memory():
    """prepare lists the chosen items and leaves the others out."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        one = 0
        for i in range(len(state.y)):
            if state.y[i] == 1:
                state.items[one] = i
                one += 1

    return vary(f.team(), prepare=prepare)


@wrong("prepare", "wrong change", "proposal", "set", "stale state", hidden="the start is another one than was given")
def prepare_that_sorts():
    """prepare sorts the solution, which it should read."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(state.y) - 1):
            if state.y[i] > state.y[i + 1]:
                state.y[i], state.y[i + 1] = state.y[i + 1], state.y[i]
        f.clear_work(data, guide, temperature, state)

    return vary(f.convoy(2), prepare=prepare)


@wrong("prepare", "feasible", "stale state", "leaves the set")
def count_wrong_when_empty():
    """prepare counts one for the empty menu."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.count_ones(data, guide, temperature, state)
        state.ones[0] = max(state.ones[0], 1)

    return vary(f.menu(), prepare=prepare)


@wrong("prepare", "stale state", "feasible")
def loads_of_two_machines():
    """prepare counts the loads of all machines but the last, whose load it takes for what is left of all times."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        f.add_loads(data, guide, temperature, state)
        state.load[len(state.load) - 1] = data.time[0]

    return vary(f.shop(), prepare=prepare)


@wrong("prepare", "feasible", "stale state", "leaves the set", hidden=MEMORY)
def count_that_looks_plausible():
    """prepare counts only if what memory holds cannot be a count."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        if not 0 <= state.ones[0] <= len(state.y):
            f.count_ones(data, guide, temperature, state)

    return vary(f.menu(), prepare=prepare)


@wrong("prepare", "feasible", "stale state", "leaves the set", hidden=MEMORY)
def count_unless_memory_is_clean():
    """prepare counts only if memory does not hold a zero, which it takes for a count."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        if state.ones[0] != 0:
            state.ones[0] = 0
            for i in range(len(state.y)):
                state.ones[0] += state.y[i]

    return vary(f.menu(), prepare=prepare)


class Cheapest(NamedTuple):
    y: np.ndarray
    low: np.ndarray  # (1,) lowest price of all items


@wrong("prepare", "wrong ratio", "error", "overflow", hidden=MEMORY)
def minimum_that_begins_with_memory():
    """prepare looks for the lowest price from what memory holds on: wrong if that is lower than all prices."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        for i in range(len(data.price)):
            state.low[0] = min(state.low[0], data.price[i])

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        chance = state.low[0] / data.price[i]
        if state.y[i] == 1:
            return i, np.log(chance)
        return i, -np.log(chance) if coin(rng, chance) else -np.inf

    state = Cheapest(np.zeros(3, np.int8), np.zeros(1))
    return vary(f.switches(3), data=f.Prices(np.array([0.5, 0.25, 0.75]), 0), state=state, prepare=prepare, propose=propose)


@wrong("prepare", "wrong ratio", "stale state", "one-way move", "unreachable", hidden=MEMORY)
def prepare_that_toggles():
    """prepare turns a switch that it finds in memory, and propose looks at it."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.ones[0] = 1 - state.ones[0] % 2

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, 0.0 if state.ones[0] == 1 else 0.7

    return vary(f.basket(3), prepare=prepare, propose=propose, apply=f.apply_flip)


@wrong("prepare", "error", "compiled", "depends on θ", "order", "stale state")
def prepare_that_scales_theta():
    """prepare divides the guide by its largest entry, in place: the guide is θ itself."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        high = 1e-9
        for i in range(len(guide)):
            high = max(high, abs(guide[i]))
        for i in range(len(guide)):
            guide[i] /= high
        f.count_ones(data, guide, temperature, state)

    return vary(f.basket(3), prepare=prepare)


@wrong("greedy", "error", "compiled", hidden="it shows for greedy starts alone")
def greedy_that_crosses_out():
    """greedy crosses out the best items in θ as it takes them."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            state.y[i] = 0
        for _ in range(data.k):
            best = 0
            for i in range(len(guide)):
                if guide[i] > guide[best]:
                    best = i
            state.y[best] = 1
            guide[best] = -1e300

    return vary(f.team(), greedy=greedy)


@wrong("greedy", "error", hidden="such a start is refused")
def greedy_that_adds():
    """greedy takes the best two and leaves the others as they were in memory."""

    @mg.jit
    def greedy(data, guide, state):
        for i in range(len(guide)):
            rank = 0
            for j in range(len(guide)):
                rank += guide[j] > guide[i] or (guide[j] == guide[i] and j < i)
            if rank < data.k:
                state.y[i] = 1

    return vary(f.team(), greedy=greedy)


@wrong("improve", "error", "order", "stale state", hidden=START)
def improve_by_chance():
    """improve draws from NumPy's generator where to begin; it is to be without chance."""

    @mg.jit
    def improve(data, guide, state):
        first = np.random.randint(len(state.y))
        for k in range(len(state.y)):
            i = (first + k) % len(state.y)
            if f.gain_price(data, state, i) + guide[i] * (1 - 2 * state.y[i]) > 0.0 and f.within_limit(data, state, i):
                f.apply_counted_flip(data, state, i)

    return vary(f.menu(), improve=improve)


@wrong("improve", "stale state", "feasible", hidden=START)
def improve_that_counts_once():
    """improve drops all that do harm and lowers the count by one."""

    @mg.jit
    def improve(data, guide, state):
        dropped = False
        for i in range(len(state.y)):
            if state.y[i] == 1 and guide[i] < data.price[i]:
                state.y[i] = 0
                dropped = True
        if dropped:
            state.ones[0] -= 1

    return vary(f.menu(), improve=improve)


class Annealed(NamedTuple):
    y: np.ndarray
    chance: np.ndarray  # (1,) of trying


@wrong("prepare", "error", "wrong ratio", "draws", "overflow", "unreachable", t=0.005, scale=0.01)
def chance_of_a_small_temperature():
    """The chance of trying is 1 − e^(1/t − 100), which is negative for t below 0.01."""

    @mg.jit
    def prepare(data, guide, temperature, state):
        state.chance[0] = 1.0 - exp(min(1.0 / temperature - 100.0, 10.0))

    @mg.jit
    def propose(data, state, rng):
        i = integer(rng, len(state.y))
        return i, 0.0 if coin(rng, state.chance[0]) else -np.inf

    return vary(
        f.switches(3), state=Annealed(np.zeros(3, np.int8), np.zeros(1)), prepare=prepare, propose=propose, random=None, guided=True
    )
