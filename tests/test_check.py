"""The checker proves right problems right and finds what is wrong with wrong ones."""

import re
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import movegrad as mg
from movegrad.check import WrongProblem, stationary_law
from movegrad.problems import Hypercube, Knapsack, TopK
from movegrad.problems import hypercube as cube_moves
from movegrad.problems import top_k as swap_moves
from movegrad.proof.compiled import divergence
from tests import mutants
from tests.slow import slow_but_for


@mg.jit
def pairs(y):
    """A φ that is not linear."""
    total = 0.0
    for i in range(len(y) - 1):
        total += (0.5 + i) * y[i] * y[i + 1]
    return total


RIGHT = {
    "hypercube": Hypercube(5),
    "hypercube, one bit": Hypercube(1),
    "hypercube, up to 3 flips": Hypercube(5, radius=3),
    "hypercube, all flips": Hypercube(3, radius=3),
    "hypercube, mixture": Hypercube(5, exactly=(1, 2, 3)),
    "hypercube, weighted mixture": Hypercube(4, exactly=(1, 3, 4), weights=(1, 2, 0.5)),
    "hypercube, linear φ": Hypercube(4, phi=np.array([1.0, -2.0, 0.5, 3.0])),
    "hypercube, φ of pairs": Hypercube(4, radius=2, phi=pairs),
    "hypercube, lazy": Hypercube(4, extra_moves=[mg.stay()]),
    "top-k": TopK(6, k=3),
    "top-k, k = 1": TopK(4, k=1),
    "top-k, k = d − 1": TopK(4, k=3),
    "top-k, 2 swaps": TopK(5, k=2, swaps=2),
    "top-k, mixture": TopK(6, k=3, swaps=(1, 2), weights=(3, 1)),
    "top-k, linear φ": TopK(5, k=2, phi=np.linspace(-1, 1, 5)),
    "top-k, guided": TopK(5, k=2, swaps=(), guided=True),
    "top-k, guided and unguided, β given": TopK(5, k=2, swaps=(1, 2), guided=True, beta=0.4),
    "top-k, guided, with φ": TopK(6, k=3, guided=True, phi=np.linspace(-1, 1, 6)),
    "knapsack": Knapsack([[3, 2, 4, 5]], [7]),
    "knapsack, flips alone": Knapsack([[3, 2, 4, 5]], [7], moves=["flip"]),
    "knapsack, guided flip": Knapsack([[3, 2, 4, 5]], [7], moves=["guided flip"]),
    "knapsack, guided, β given": Knapsack([[3, 2, 4, 5]], [7], moves=["swap", "guided swap", "guided flip"], beta=0.5),
    "knapsack, guided, three capacities": Knapsack(
        [[3, 2, 4, 5, 1], [1, 7, 2, 0, 3], [4, 4, 4, 4, 4]],
        [8, 9, 13],
        moves=["swap", "flip", "guided swap", "guided flip"],
        shares=[1, 2, 3, 4],
    ),
    "knapsack where nothing fits": Knapsack([[3, 2]], [1]),
    "knapsack where all fits": Knapsack([[3, 2]], [5], moves=["swap", "guided swap", "guided flip"]),
    "top-k, φ of pairs": TopK(5, k=2, swaps=(1, 2), phi=pairs),
}


COMPILED = (  # all that has kernels of its own: the others have the same functions
    "hypercube, weighted mixture", "hypercube, φ of pairs", "top-k, mixture", "top-k, guided and unguided, β given",
    "knapsack, guided, three capacities",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in RIGHT if name not in COMPILED])
def test_built_in_problem_is_right(name):
    assert_right(name, compiled=False)


@pytest.mark.parametrize("name", slow_but_for(["hypercube, φ of pairs"], COMPILED))
def test_compiled_chain_of_a_built_in_problem_is_right(name):
    assert_right(name, compiled=True)


def assert_right(name, compiled):
    report = mg.check(RIGHT[name], temperatures=(0.3, 1.0, 5.0), compiled=compiled).raise_if_wrong()
    assert report.complete
    assert report.worst_balance < 1e-10
    assert report.worst_law < 1e-10
    guided = {m.name for m in RIGHT[name].moves if "guided" in m.name}
    assert set(report.depends_on_theta) <= guided
    assert bool(report.depends_on_theta) == bool(guided)


@mg.jit
def apply_swap_forgetfully(data, state, move):
    """Leaves the order of the items as it was."""
    state.y[state.items[move[0]]] = 0
    state.y[state.items[move[1]]] = 1


@pytest.mark.parametrize("d", [7, 8])
def test_stale_fields_are_found_whatever_the_length_of_the_state(d):
    """Of 8 items all fields fill whole words; a state must not be taken for one that was seen before, since it is its own key."""
    problem = TopK(d, k=2)
    forgetful = replace(swap_moves.SWAP, apply=apply_swap_forgetfully, apply_if=None)
    wrong = mg.Problem(
        problem.data, problem.state, [forgetful], d, prepare=swap_moves.prepare, contains=swap_moves.contains, states=problem.states
    )
    assert "stale state" in mg.check(wrong, compiled=False).findings


# --- a knapsack-like set with moves that do not always apply: Algorithm 2's |Q(y)|/|Q(y')| ------------------------------


class Weights(NamedTuple):
    weight: np.ndarray
    capacity: float


class Bits(NamedTuple):
    y: np.ndarray


@mg.jit
def load(data, y):
    total = 0.0
    for i in range(len(y)):
        total += data.weight[i] * y[i]
    return total


@mg.jit
def fits(data, y):
    for i in range(len(y)):
        if y[i] > 1:
            return False
    return load(data, y) <= data.capacity


@mg.jit
def fits_after_flip(data, state, i):
    return state.y[i] == 1 or load(data, state.y) + data.weight[i] <= data.capacity


@mg.jit
def propose_exchange(data, state, rng):
    """A uniform pair of a one and a zero."""
    d, ones = len(state.y), 0
    for i in range(d):
        ones += state.y[i]
    if ones == 0 or ones == d:
        return (0, 0), -np.inf
    one, zero = mg.integer(rng, ones), mg.integer(rng, d - ones)
    i, j = -1, -1
    for at in range(d):
        if state.y[at]:
            if one == 0:
                i = at
            one -= 1
        else:
            if zero == 0:
                j = at
            zero -= 1
    return (i, j), 0.0


@mg.jit
def change_exchange(data, state, move, m):
    return move[m], 2 * m - 1


@mg.jit
def apply_exchange(data, state, move):
    state.y[move[0]] = 0
    state.y[move[1]] = 1


@mg.jit
def exchange_fits(data, state, move):
    return load(data, state.y) - data.weight[move[0]] + data.weight[move[1]] <= data.capacity


@mg.jit
def applicable(data, state):
    """Flips always; exchanges where there is a one and a zero."""
    ones = 0
    for i in range(len(state.y)):
        ones += state.y[i]
    return 1 + 2 * (0 < ones < len(state.y))


@mg.jit
def applicable_after_flip(data, state, move):
    ones = 1 - 2 * state.y[move]
    for i in range(len(state.y)):
        ones += state.y[i]
    return 1 + 2 * (0 < ones < len(state.y))


@mg.jit
def applicable_after_exchange(data, state, move):
    return 3


def small_knapsack(after_flip=applicable_after_flip) -> mg.Problem:
    flip = replace(cube_moves.FLIP, feasible=fits_after_flip, applicable_after=after_flip)
    exchange = mg.Move(
        "exchange", propose_exchange, change_exchange, apply_exchange, changes=2, feasible=exchange_fits,
        applicable_after=applicable_after_exchange,
    )  # fmt: skip
    data = Weights(np.array([3.0, 2.0, 4.0, 5.0]), 7.0)
    states = [y for y in Hypercube(4).states() if np.sum(data.weight * y) <= 7.0]
    return mg.Problem(
        data,
        Bits(np.zeros(4, np.uint8)),
        [flip, exchange],
        4,
        contains=fits,
        applicable=applicable,
        states=lambda: states,
        name="knapsack",
    )


def test_mixture_with_applicable_moves_is_right():
    mg.check(small_knapsack()).raise_if_wrong()


def test_chain_with_applicable_moves_matches_exact_marginals():
    problem, theta = small_knapsack(), np.array([1.0, -0.5, 0.5, -1.0])
    out = mg.sample(problem, theta, steps=200_000, chains=8, temperature=0.8)
    exact = mg.exact.marginals(problem, theta, 0.8)
    assert np.abs(out.mean - exact).max() < 0.01  # standard error about 1e-3


@mg.jit
def claims_nothing_changes(data, state, move):
    return 3


# --- wrong problems ---------------------------------------------------------------------------------------------------


@mg.jit
def propose_biased(data, state, rng):
    """Flip bit 0 with probability 1/2, else a uniform bit, but only upward moves of bit 0 claim so."""
    return mg.integer(rng, len(state.y)), 0.7


@mg.jit
def propose_upward_wrong(data, state, rng):
    """Draws i from a law that depends on y (twice the weight for ones) and forgets the factor of the normalizer."""
    ones = 0
    for i in range(len(state.y)):
        ones += state.y[i]
    d = len(state.y)
    at = mg.integer(rng, d + ones)
    for i in range(d):
        at -= 1 + state.y[i]
        if at < 0:
            return i, np.log(2.0) if state.y[i] == 0 else -np.log(2.0)
    return d - 1, 0.0


@mg.jit
def propose_upward_right(data, state, rng):
    ones = 0
    for i in range(len(state.y)):
        ones += state.y[i]
    d = len(state.y)
    at = mg.integer(rng, d + ones)
    for i in range(d):
        at -= 1 + state.y[i]
        if at < 0:
            after = ones + 1 - 2 * state.y[i]
            ratio = np.log(2.0) if state.y[i] == 0 else -np.log(2.0)
            return i, ratio + np.log((d + ones) / (d + after))
    return d - 1, 0.0


@mg.jit
def propose_up(data, state, rng):
    i = mg.integer(rng, len(state.y))
    return i, 0.0 if state.y[i] == 0 else -np.inf


@mg.jit
def propose_but_not_last(data, state, rng):
    return mg.integer(rng, len(state.y) - 1), 0.0


@mg.jit
def claims_too_much_down(data, state, rng):
    """Right upward; downward the ratio is too large, which is hidden wherever the acceptance is clipped at 1."""
    i = mg.integer(rng, len(state.y))
    return i, 0.0 if state.y[i] == 0 else 3.0


@mg.jit
def wrong_change(data, state, move, m):
    return move, 1


@mg.jit
def one_too_far(data, state, rng):
    return mg.integer(rng, len(state.y) + 1), 0.0


@mg.jit
def propose_and_flip(data, state, rng):
    state.y[0] = 1 - state.y[0]
    return mg.integer(rng, len(state.y)), 0.0


@mg.jit
def forgets_items(data, state, move):
    state.y[state.items[move[0]]] = 0
    state.y[state.items[move[1]]] = 1


@mg.jit
def double_pairs_gain(data, state, move):
    return 1.0


@mg.jit
def leaves(data, state, move):
    state.y[move] = 2


@mg.jit
def peek(data, guide, temperature, state):
    """Lets the guide decide the order of the bits."""
    for i in range(len(state.order)):
        state.order[i] = i
    if guide[0] > 0:
        state.order[0], state.order[1] = 1, 0


@mg.jit
def propose_first(data, state, rng):
    return state.order[0], 0.0


def with_flip(phi=None, **changed) -> mg.Problem:
    """A hypercube whose move is spoiled."""
    problem = Hypercube(3)
    return mg.Problem(
        problem.data,
        problem.state,
        [replace(cube_moves.FLIP, **changed)],
        3,
        phi=phi,
        contains=cube_moves.contains,
        states=problem.states,
        name="wrong",
    )


def with_swap(**changed) -> mg.Problem:
    problem = TopK(4, k=2)
    return mg.Problem(
        problem.data, problem.state, [replace(swap_moves.SWAP, **changed)], 4, prepare=swap_moves.prepare,
        contains=swap_moves.contains, states=problem.states, name="wrong",
    )  # fmt: skip


@mg.jit
def worsen(data, guide, state):
    state.y[0] = 0 if guide[0] > 0 else 1


@mg.jit
def improve_out_of_the_set(data, guide, state):
    state.y[0] = 2


@mg.jit
def improve_and_forget(data, guide, state):
    """Takes the best ones, but leaves ``items`` behind."""
    for i in range(len(guide)):
        rank = 0
        for j in range(len(guide)):
            rank += guide[j] > guide[i]
        state.y[i] = rank < data.k


def with_improve(problem: mg.Problem, kit, improve) -> mg.Problem:
    return mg.Problem(
        problem.data, problem.state, problem.moves, problem.size, prepare=problem.functions.prepare, contains=kit.contains,
        improve=improve, states=problem.states, name="wrong",
    )  # fmt: skip


def peeking() -> mg.Problem:
    problem = Hypercube(3, radius=2)
    moves = [cube_moves.FLIP, replace(cube_moves.FLIP, name="first", propose=propose_first)]
    return mg.Problem(problem.data, problem.state, moves, 3, prepare=peek, contains=cube_moves.contains, states=problem.states)


@mg.jit
def small_phi(data, y):
    return 1e-10 * (3.0 * y[0] - y[1])


@mg.jit
def small_gain(data, state, move):
    return 1e-10 * (3.0 - 4.0 * move) * (1.0 - 2.0 * state.y[move]) if move < 2 else 0.0


@mg.jit
def small_gain_of_another_sign(data, state, move):
    return -small_gain(data, state, move)


def with_small_phi(gain) -> mg.Problem:
    return with_flip(gain=gain, phi=small_phi)


WRONG = {
    "a constant factor in the ratio": (with_flip(propose=propose_biased), "wrong ratio"),
    "a missing factor in the ratio": (with_flip(propose=propose_upward_wrong), "wrong ratio"),
    "an error that shows for one sign of θ": (with_flip(propose=claims_too_much_down), "wrong ratio"),
    "a move that never goes back": (with_flip(propose=propose_up), "one-way move"),
    "a state that is not reached": (with_flip(propose=propose_but_not_last), "unreachable"),
    "parity: even flips only": (Hypercube(3, exactly=2), "unreachable"),
    "a wrong change of T": (with_flip(change=wrong_change), "wrong change"),
    "a wrong gain of φ": (with_flip(gain=double_pairs_gain), "wrong gain"),
    "an index out of range": (with_flip(propose=one_too_far), "error"),
    "a proposal that changes the solution": (with_flip(propose=propose_and_flip), "proposal"),
    "a derived field left behind": (with_swap(apply=forgets_items), "stale state"),
    "a solution outside the set": (with_flip(apply=leaves), "feasible"),
    "a wrong number of applicable moves": (small_knapsack(claims_nothing_changes), "applicable"),
    "a hidden dependence on θ": (peeking(), "depends on θ"),
    "improve that lowers the objective": (with_improve(Hypercube(3), cube_moves, worsen), "improve"),
    "improve that leaves the set": (with_improve(Hypercube(3), cube_moves, improve_out_of_the_set), "improve"),
    "improve that leaves a field behind": (with_improve(TopK(4, k=2), swap_moves, improve_and_forget), "stale state"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_problem_is_caught(name):
    problem, kind = WRONG[name]
    report = mg.check(problem)
    assert kind in report.findings, str(report)
    with pytest.raises(WrongProblem, match=kind):
        report.raise_if_wrong()


def test_report_shows_claimed_and_exact_ratio():
    report = mg.check(with_flip(propose=propose_upward_wrong))
    assert "claimed 2, exact 1.5" in "\n".join(report.findings["wrong ratio"])


def test_state_dependent_proposal_with_the_right_ratio_is_right():
    mg.check(with_flip(propose=propose_upward_right)).raise_if_wrong()


def test_missing_mixture_factor_breaks_the_stationary_law():
    report = mg.check(small_knapsack(claims_nothing_changes))
    assert "applicable" in report.findings


def test_problem_without_listed_states_says_what_is_not_proved():
    problem = Hypercube(3)
    unlisted = mg.Problem(problem.data, problem.state, problem.moves, 3)
    report = mg.check(unlisted).raise_if_wrong()
    assert report.solutions == 8
    assert not report.complete
    assert "lists no states" in str(report)


def test_too_large_set_is_refused_before_any_work():
    with pytest.raises(ValueError, match="must have at most 100 solutions"):
        mg.check(Hypercube(60), max_states=100, local=False)


def test_too_large_set_is_tested_along_a_walk_and_the_report_says_so():
    report = mg.check(Hypercube(60), max_states=100).raise_if_wrong()
    assert not report.proved
    assert "not proved: local test" in str(report)


def test_a_set_without_solutions_is_refused():
    problem = Hypercube(3)
    empty = mg.Problem(problem.data, problem.state, problem.moves, 3, states=lambda: iter([]))
    with pytest.raises(ValueError, match=r"states of .* must list at least one solution, got none\."):
        mg.check(empty)


# --- what a report says -----------------------------------------------------------------------------------------------


@mg.jit
def claims_too_much_back(data, state, rng):
    """Draws ones twice as often as zeros; the ratio is right for a zero, and wrong on the way back."""
    move, log_ratio = propose_upward_right(data, state, rng)
    return move, log_ratio + (0.3 if state.y[move] else 0.0)


def test_the_way_back_is_blamed_where_its_claim_is_the_wrong_one():
    report = mg.check(with_flip(propose=claims_too_much_back))
    assert any("is right, but the way back claims" in sentence for sentence in report.findings["wrong ratio"]), report


def test_a_stale_field_is_named_with_its_index_and_both_values():
    report = mg.check(with_swap(apply=forgets_items))
    assert re.search(r"items\[\d\] is \d, in a fresh state \d", str(report))


def test_an_error_names_function_and_line():
    report = mg.check(with_flip(propose=one_too_far))
    line = one_too_far.py_func.__code__.co_firstlineno
    assert "IndexError" in report.findings["error"][0]
    named = report.findings["error"][0].split(" in ")[-1]
    assert "test_check.py" in named or "hypercube.py" in named, (named, line)


@mg.jit
def draw_until_zero(data, state, rng):
    i = mg.integer(rng, len(state.y))
    while state.y[i]:
        i = mg.integer(rng, len(state.y))
    return i, 0.0


def test_draws_without_end_are_reported_with_what_to_write_instead():
    problem = with_flip(propose=draw_until_zero)
    assert "count what fits and draw once among it" in mg.check(problem).findings["draws"][0]
    with pytest.raises(ValueError, match=r"at most 64 draws .* count what fits and draw once among it"):
        mg.one_step(problem, np.zeros(3), np.array([1, 1, 0], np.uint8))


def with_states(states, **changed) -> mg.Problem:
    problem = Hypercube(3)
    return mg.Problem(problem.data, problem.state, problem.moves, 3, contains=cube_moves.contains, states=states, **changed)


def test_a_solution_listed_twice_or_outside_the_set_is_reported():
    every = list(Hypercube(3).states())
    assert "more than once" in mg.check(with_states(lambda: [*every, every[2]])).findings["set"][0]
    assert "contains is False" in mg.check(with_states(lambda: [*every, np.array([2, 0, 0], np.uint8)])).findings["set"][0]
    assert "no solution of dtype" in mg.check(with_states(lambda: [*every, np.array([0.5, 0, 0])])).findings["set"][0]


def test_a_problem_without_contains_is_right_and_the_report_says_what_that_means():
    problem = Hypercube(3)
    report = mg.check(mg.Problem(problem.data, problem.state, problem.moves, 3, states=problem.states))
    assert report.ok
    assert "no contains: starts and observed solutions are taken as they come" in str(report)


# --- the compiled chain -----------------------------------------------------------------------------------------------


@mg.jit
def change_by_difference(data, state, move, m):
    """1 − 2y by a difference that is below zero, of integers that ``int`` leaves unsigned in compiled code alone."""
    y = int(state.y[move])
    return move, 1.0 + 2.0 * float(y - y - y)


def test_a_difference_that_wraps_only_in_compiled_code_is_found():
    report = mg.check(with_flip(change=change_by_difference))
    assert set(report.findings) == {"compiled"}, report


def test_the_compiled_chain_is_run_and_its_false_alarms_are_stated():
    report = mg.check(Hypercube(3, radius=2))
    assert any("the compiled chain" in sentence and "false alarms ≤ 1e-06" in sentence for sentence in report.tested)
    assert not mg.check(Hypercube(3, radius=2), compiled=False).tested


def test_chernoff_bounds_are_rarely_passed():
    """10⁵ binomial counts: the excess passes x with probability at most 2e⁻ˣ, and often enough that the test has power."""
    rng = np.random.default_rng(0)
    for p in (0.001, 0.2, 0.5, 0.97):
        counts = rng.binomial(2_000, p, size=100_000)
        excess = divergence(counts, np.full(len(counts), 2_000), np.full(len(counts), p))
        for x in (2.0, 4.0):
            assert 0.01 * np.exp(-x) < (excess > x).mean() <= 2 * np.exp(-x)
    assert divergence(np.array([1]), np.array([10]), np.array([0.0]))[0] == np.inf
    assert divergence(np.array([0]), np.array([0]), np.array([1.0]))[0] == 0.0


# --- large instances ----------------------------------------------------------------------------------------------------


@mg.jit
def wrong_beyond_a_thousand(data, state, rng):
    return mg.integer(rng, len(state.y)), 0.0 if len(state.y) <= 1000 or state.y[0] == 0 else 0.2


@mg.jit
def change_beyond_a_thousand(data, state, move, m):
    return move, 1 - 2 * state.y[move] + (len(state.y) > 1000)


def test_a_branch_for_large_instances_is_met_by_the_local_test():
    for function, kind in (("propose", "wrong ratio"), ("change", "wrong change")):
        changed = {"propose": wrong_beyond_a_thousand} if function == "propose" else {"change": change_beyond_a_thousand}
        problem = Hypercube(1001)
        wrong = mg.Problem(
            problem.data, problem.state, [replace(cube_moves.FLIP, **changed)], 1001, contains=cube_moves.contains,
            random=problem.functions.random,
        )  # fmt: skip
        report = mg.check(wrong, max_states=50, compiled=False)
        assert kind in report.findings, report
        assert not report.proved


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(TopK(60, k=20), id="top-k"),
        pytest.param(TopK(40, k=10, swaps=(1, 2), guided=True), id="guided", marks=pytest.mark.slow),
        pytest.param(Knapsack(np.arange(1, 61)[None] % 13 + 1, [90]), id="knapsack"),
    ],
)
def test_right_problems_pass_the_local_test(problem):
    report = mg.check(problem, local=True, compiled=False).raise_if_wrong()
    assert report.draws > 100


def test_stationary_law_is_as_exact_for_rare_states_as_for_common_ones():
    """A birth-death chain over 30 orders of magnitude, by the product formula."""
    up, down = 1e-3 * np.ones(9), np.ones(9)
    rates = np.diag(up, 1) + np.diag(down, -1)
    wanted = 1e-3 ** np.arange(10)
    np.testing.assert_allclose(stationary_law(rates.copy()), wanted / wanted.sum(), rtol=1e-13)
    order = np.random.default_rng(0).permutation(10)
    np.testing.assert_allclose(stationary_law(rates[order][:, order]), (wanted / wanted.sum())[order], rtol=1e-13)
    assert np.isnan(stationary_law(np.zeros((2, 2)))).all()


def test_large_objectives_do_not_make_all_probabilities_vanish():
    report = mg.check(Hypercube(3, phi=np.array([4000.0, -9000.0, 20000.0])))
    assert report.ok, str(report)
    assert 0.0 < report.worst_law < 1e-10


# --- a branch-free apply -----------------------------------------------------------------------------------------------------


@mg.jit
def flip_always(data, state, move, accepted):
    state.y[move] ^= 1


@mg.jit
def flip_never(data, state, move, accepted):
    state.y[move] ^= 0 * accepted


@mg.jit
def flip_the_next(data, state, move, accepted):
    state.y[(move + 1) % len(state.y)] ^= accepted


@pytest.mark.parametrize(
    ("wrong", "said"), [(flip_always, "changes the state"), (flip_never, "is not apply"), (flip_the_next, "is not apply")]
)
def test_a_branch_free_apply_is_held_to_apply(wrong, said):
    cube = mg.problems.Hypercube(3)
    problem = mg.Problem(cube.data, cube.state, [replace(cube.moves[0], apply_if=wrong)], 3, states=cube.states)
    report = mg.check(problem, compiled=False)
    assert said in "\n".join(report.findings["apply_if"])


def test_with_and_without_a_branch_chains_are_the_same():
    """The coin is compared with eˣ of a polynomial in one and of the library in the other: equal but for the last bit."""
    theta = np.random.default_rng(0).normal(size=(4, 9))
    for problem in (
        mg.problems.Hypercube(9),
        mg.problems.TopK(9, 3),
        mg.problems.Hypercube(9, exactly=(1, 2)),
        mg.problems.Hypercube(9, phi=np.ones(9)),
    ):
        functions = {name: f for name, f in problem.functions._asdict().items() if f is not None}
        moves = [replace(m, apply_if=None) for m in problem.moves]
        plain = mg.Problem(problem.data, problem.state, moves, 9, **functions)
        even, odd = (mg.sample(p, theta, steps=5000, chains=2, burn_in=100, temperature=0.7) for p in (problem, plain))
        np.testing.assert_array_equal(even.solutions, odd.solutions)
        np.testing.assert_allclose(even.mean, odd.mean, rtol=1e-12)
        np.testing.assert_array_equal(even.info.accepted, odd.info.accepted)
        np.testing.assert_allclose(even.info.trace, odd.info.trace, rtol=1e-9, atol=1e-9)
        assert even.info.frozen[0].tolist() == odd.info.frozen[0].tolist()


def test_an_objective_that_is_no_number_is_refused_without_a_branch_too():
    cube = mg.problems.Hypercube(3)
    problem = mg.Problem(cube.data, cube.state, [replace(cube.moves[0], gain=not_a_number)], 3)
    assert mg.sample(problem, np.zeros(3), steps=100, start=np.zeros(3, np.uint8)).info.accepted.tolist() == [0]


@mg.jit
def not_a_number(data, state, move):
    return np.nan


def test_the_exponential_without_a_branch_is_right_to_the_last_bits():
    from movegrad.engine.loop import exp_of_negative

    @mg.jit
    def fill(x, out):
        for i in range(len(x)):
            out[i] = exp_of_negative(x[i])

    rng = np.random.default_rng(0)
    x = -np.concatenate([rng.exponential(1.0, 100_000), rng.uniform(0.0, 700.0, 100_000), [0.0, 1e-300, 1e-17, 700.0]])
    out = np.empty_like(x)
    fill(x, out)
    assert (np.abs(out - np.exp(x)) <= 2 * np.spacing(np.exp(x))).all()
    below = np.array([-701.0, -1e300, -np.inf])
    fill(below, out)
    assert (out[:3] <= 1e-303).all()


def test_a_long_listing_is_said(monkeypatch, capsys):
    monkeypatch.delenv("MOVEGRAD_QUIET", raising=False)
    monkeypatch.setattr("movegrad.proof.pure.PATIENCE", 0.01)

    def slowly():
        for y in TopK(4, 2).states():
            time.sleep(0.02)
            yield y

    problem = TopK(4, 2)
    problem.states = slowly
    assert mg.check(problem, compiled=False).ok
    assert "still listing the solutions of TopK(4, k=2)" in capsys.readouterr().err


@pytest.mark.parametrize("local", [False, True])
def test_differences_are_compared_as_finely_as_temperatures_need(local):
    """A gain of 10⁻¹⁰ with the wrong sign is nothing at t = 1, and everything at t = 10⁻¹⁰."""
    mg.check(with_small_phi(small_gain), temperatures=(1e-10, 1.0), local=local).raise_if_wrong()
    found = mg.check(with_small_phi(small_gain_of_another_sign), temperatures=(1e-10, 1.0), local=local).findings
    assert "wrong gain" in found


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("phi_that_forbids", "objective", "has -inf: it must be finite"),
        ("change_that_is_no_number", "wrong change", "claimed nan"),
    ],
)
@pytest.mark.parametrize("local", [False, True])
def test_numbers_that_are_none_are_named(name, kind, sentence, local):
    (found,) = mg.check(mutants.WRONG[name].build(), local=local, compiled=False).findings.items()
    assert found[0] == kind
    assert sentence in found[1][0]


@mg.jit
def spread(data, y):
    """A variance of numbers near 1000: small, and known to few digits."""
    total = squares = 0.0
    for i in range(3):
        x = 1000.0 + 0.1 * (i + 1) * y[i]
        total += x / 3.0
        squares += x * x / 3.0
    return squares - total * total


@mg.jit
def spread_gain(data, state, move):
    """The same from numbers near 0."""
    out = 0.0
    for sign in (-1.0, 1.0):
        total = squares = 0.0
        for i in range(3):
            x = 0.1 * (i + 1) * (1 - state.y[i] if i == move and sign > 0.0 else state.y[i])
            total += x / 3.0
            squares += x * x / 3.0
        out += sign * (squares - total * total)
    return out


def test_rounding_inside_phi_is_no_fault():
    mg.check(with_flip(phi=spread, gain=spread_gain)).raise_if_wrong()


# --- large instances: ratios of vectors of bits, far from the first solution, and starts --------------------------------------


class Chosen(NamedTuple):
    k: int


@mg.jit
def draw_two(data, state, rng):
    n = len(state.y)
    i, j = mg.integer(rng, n), mg.integer(rng, n)
    return (i, j), 0.0 if state.y[i] != state.y[j] else -np.inf


@mg.jit
def draw_two_with_a_wrong_ratio(data, state, rng):
    n = len(state.y)
    i, j = mg.integer(rng, n), mg.integer(rng, n)
    return (i, j), np.log(3.0) if state.y[i] != state.y[j] else -np.inf


@mg.jit
def change_of_two(data, state, move, m):
    return move[m], 1 - 2 * state.y[move[m]]


@mg.jit
def swap_two(data, state, move):
    state.y[move[0]], state.y[move[1]] = state.y[move[1]], state.y[move[0]]


@mg.jit
def holds_k(data, y):
    total = 0
    for i in range(len(y)):
        if not 0 <= y[i] <= 1:
            return False
        total += y[i]
    return total == data.k


@mg.jit
def draw_k(data, rng, y):
    left = data.k
    for i in range(len(y)):
        y[i] = mg.integer(rng, len(y) - i) < left
        left -= y[i]


@mg.jit
def draw_k_or_another(data, rng, y):
    draw_k(data, rng, y)
    if mg.integer(rng, 4) == 0:
        y[0] = 1 - y[0]


@mg.jit
def fill_first(data, guide, state):
    for i in range(len(state.y)):
        state.y[i] = i < data.k


@mg.jit
def fill_first_but_for_ties(data, guide, state):
    fill_first(data, guide, state)
    if guide[0] == guide[1]:
        state.y[0] = 0


@mg.jit
def better_first(data, guide, state):
    """The first zero takes the place of the first one, if it is worth more."""
    n = len(state.y)
    i, j = 0, 0
    while state.y[i] == 0:
        i += 1
    while state.y[j] == 1:
        j += 1
    if i < n and j < n and guide[j] > guide[i]:
        state.y[i], state.y[j] = 0, 1


@mg.jit
def one_more(data, guide, state):
    j = 0
    while state.y[j] == 1:
        j += 1
    state.y[j] = 1


@mg.jit
def worse_first(data, guide, state):
    i, j = 0, 0
    while state.y[i] == 0:
        i += 1
    while state.y[j] == 1:
        j += 1
    state.y[i], state.y[j] = 0, 1


def k_of_many(propose=draw_two, n=60, k=20, **starts):
    move = mg.Move("swap", propose, change_of_two, swap_two, changes=2)
    y = np.repeat([1, 0], [k, n - k]).astype(np.int8)
    return mg.Problem(Chosen(k), Bits(y), [move], n, contains=holds_k, name="k of many", **starts)


@pytest.mark.parametrize("n", [60, 100])
def test_ratios_of_vectors_of_bits_are_tested_on_large_instances(n):
    assert "wrong ratio" in mg.check(k_of_many(draw_two_with_a_wrong_ratio, n), local=True, compiled=False).findings
    report = mg.check(k_of_many(n=n), local=True, compiled=False)
    assert report.ok, report
    assert not re.search(r"; 0 ratios", report.tested[0]), report


@pytest.mark.parametrize(
    ("kind", "starts"),
    [
        ("random", {"random": draw_k_or_another}),
        ("greedy", {"greedy": fill_first_but_for_ties}),
        ("improve", {"improve": one_more}),
        ("improve", {"improve": worse_first}),
    ],
)
def test_wrong_starts_are_found_on_large_instances(kind, starts):
    assert kind in mg.check(k_of_many(**starts), local=True, compiled=False).findings


def test_right_starts_pass_on_large_instances():
    report = mg.check(k_of_many(random=draw_k, greedy=fill_first, improve=better_first), local=True, compiled=False)
    assert report.ok, report


def test_an_improved_start_outside_the_set_is_refused():
    problem, y = k_of_many(improve=one_more), np.repeat([1, 0], [20, 40])
    with pytest.raises(ValueError, match="start must be in the set"):
        mg.sample(problem, np.zeros(60), steps=5, start=mg.start.Heuristic(y))


@mg.jit
def flip_wrong_where_many_are_ones(data, state, rng):
    return mg.integer(rng, len(state.y)), np.log(3.0) if state.y.sum() > 60 else 0.0


def test_the_local_test_walks_on():
    """From no ones to where the ratio is wrong, without a compiled chain and by one."""
    move = mg.Move("flip", flip_wrong_where_many_are_ones, cube_moves.change_flip, cube_moves.apply_flip)
    problem = mg.Problem(Chosen(0), Bits(np.zeros(300, np.int8)), [move], 300, name="many ones")
    assert "wrong ratio" in mg.check(problem, local=True, compiled=False).findings
    assert "wrong ratio" in mg.check(problem, local=True).findings


def test_where_no_ratio_can_be_tested_the_report_says_so(monkeypatch):
    monkeypatch.setattr("movegrad.proof.local._LONGEST", -1.0)
    report = mg.check(k_of_many(), local=True, compiled=False)
    assert any("no ratio was tested" in note for note in report.notes), report


@pytest.mark.parametrize("local", [None, True])
def test_solutions_may_be_float32(local):
    move = mg.Move("flip", cube_moves.propose_flip, cube_moves.change_flip, cube_moves.apply_flip)
    listed = [np.array([a, b, c], np.float32) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    problem = mg.Problem(Chosen(0), Bits(np.zeros(3, np.float32)), [move], 3, states=lambda: listed, name="floats")
    report = mg.check(problem, local=local)
    assert report.ok, report
    with pytest.raises(ValueError, match=r"state of floats must hold floats of 32 or 64 bits, got float16 in field 'y'"):
        mg.Problem(Chosen(0), Bits(np.zeros(3, np.float16)), [move], 3, name="floats")


class Twice(NamedTuple):
    y: np.ndarray
    half: np.ndarray


def test_short_floats_that_are_derived_are_told():
    move = mg.Move("flip", cube_moves.propose_flip, cube_moves.change_flip, cube_moves.apply_flip)
    problem = mg.Problem(Chosen(0), Twice(np.zeros(3, np.int8), np.zeros(3, np.float32)), [move], 3, prepare=halves, name="halves")
    for local in (None, True):
        assert any("'half' is float32" in note for note in mg.check(problem, local=local, compiled=False).notes)


@mg.jit
def halves(data, guide, temperature, state):
    for i in range(len(state.half)):
        state.half[i] = 0.5
