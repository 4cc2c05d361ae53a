"""Bad input is a ValueError in one sentence that begins with the argument and says what was expected and what came."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import Hypercube, TopK
from movegrad.problems.hypercube import apply_flip, change_flip, propose_flip

TOP = TopK(5, 2)
CUBE = Hypercube(4)
LARGER = TopK(9, 3)
THETA = np.zeros(5)
PAIR = np.zeros((2, 5))
Y = TOP.solution
NOT_IN_SET = np.array([1, 1, 1, 0, 0])


def assert_complains(call, argument, got=""):
    """``call`` raises a ValueError of one sentence: ``argument … must …, got …``."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is judged below
        call()
    message = str(caught.value)
    assert re.fullmatch(rf"(?:{argument})(?!\w)[^\n]*\bmust\b[^\n]*\.", message), f"no sentence about {argument!r}: {message}"
    assert not re.search(r"\. [A-Z]", message), f"more than one sentence: {message}"
    assert re.search(got, message), f"does not say {got!r}: {message}"


def rows(table):
    return [pytest.param(*row[1:], id=row[0]) for row in table]


# --- arguments that many functions share -----------------------------------------------------------------------------

# Each takes the arguments under test by name and fills in the others.
CALLS = {
    "sample": lambda theta=PAIR, **a: mg.sample(TOP, theta, **({"steps": 5} | a)),
    "solve": lambda theta=PAIR, **a: mg.solve(TOP, theta, **({"steps": 5} | a)),
    "jacobian_product": lambda theta=PAIR, **a: mg.jacobian_product(TOP, theta, **({"steps": 5, "direction": PAIR} | a)),
    "one_step": lambda theta=PAIR, **a: mg.one_step(TOP, theta, **({"y": Y} | a)),
    "exact.log_partition": lambda theta=PAIR, **a: mg.exact.log_partition(TOP, theta, **a),
    "exact.marginals": lambda theta=PAIR, **a: mg.exact.marginals(TOP, theta, **a),
    "exact.covariance": lambda theta=PAIR, **a: mg.exact.covariance(TOP, theta, **a),
    "exact.sample": lambda theta=PAIR, **a: mg.exact.sample(TOP, theta, **({"n": 3} | a)),
    "exact.fenchel_young": lambda theta=PAIR, **a: mg.exact.fenchel_young(TOP, theta, **({"y": Y} | a)),
}
RUNS = ("sample", "solve", "jacobian_product")
EXACT = tuple(name for name in CALLS if name.startswith("exact."))

SHARED = [
    # argument, what is wrong, value, what the message says, functions
    ("theta", "NaN", np.array([0, 0, np.nan, 0, 0]), "nan", CALLS),
    ("theta", "infinite", np.array([0, 0, 0, 0, -np.inf]), "-inf", CALLS),
    ("theta", "too short", np.zeros((2, 4)), r"5 entries.*\(2, 4\)", CALLS),
    ("theta", "integer", np.zeros(5, int), "int64", CALLS),
    ("theta", "bool", np.zeros(5, bool), "bool", CALLS),
    ("theta", "complex", np.zeros(5, complex), "complex128", CALLS),
    ("theta", "empty batch", np.zeros((0, 5)), r"\(0, 5\)", CALLS),
    ("theta", "0-d", np.array(1.0), r"shape \(\)", CALLS),
    ("theta", "words", ["a"] * 5, "U1", CALLS),
    ("theta", "ragged", [[0.0], [0.0, 1.0]], "", CALLS),
    ("theta", "None", None, "", CALLS),
    ("temperature", "zero", 0.0, "> 0, got 0", ("sample", "jacobian_product", "one_step", *EXACT)),
    ("temperature", "negative", -1.0, "got -1.0", ("sample", "jacobian_product", "one_step", *EXACT)),
    ("temperature", "NaN", np.nan, "got nan", ("sample", "jacobian_product", "one_step", *EXACT)),
    ("temperature", "infinite", np.inf, "got inf", ("sample", "jacobian_product", "one_step", *EXACT)),
    ("temperature", "a word", "hot", "got 'hot'", ("sample", "jacobian_product", "one_step", *EXACT)),
    ("temperature", "None", None, "got None", ("sample", "jacobian_product", "one_step", *EXACT)),
    ("temperature", "without a finite inverse", 1e-310, "got 1e-310", ("sample", "jacobian_product", "one_step")),
    ("temperature", "one of two negative", np.array([1.0, -1.0]), "got -1.0", ("sample", "jacobian_product", "one_step")),
    ("temperature", "three for two examples", np.ones(3), "2.*got.*3", ("sample", "jacobian_product", "one_step")),
    ("temperature", "words", ["a", "b"], "got 'a'", ("sample", "jacobian_product", "one_step")),
    ("steps", "zero", 0, "≥ 1, got 0", RUNS),
    ("steps", "negative", -3, "got -3", RUNS),
    ("steps", "float", 10.5, "integer, got 10.5", RUNS),
    ("steps", "bool", True, "got True", RUNS),
    ("steps", "a word", "10", "got '10'", RUNS),
    ("steps", "list", [3, 4], r"got \[3, 4\]", RUNS),
    ("steps", "float array", np.array([3.5, 4.5]), "integer", RUNS),
    ("steps", "array with a zero", np.array([0, 4]), "", RUNS),
    ("steps", "0-d negative array", np.array(-5), "-5", RUNS),
    ("chains", "zero", 0, "≥ 1, got 0", RUNS),
    ("chains", "negative", -1, "got -1", RUNS),
    ("chains", "float", 2.0, "integer, got 2.0", RUNS),
    ("burn_in", "all steps", 5, "< steps = 5, got 5", ("sample", "jacobian_product")),
    ("burn_in", "more than all steps", 6, "got 6", ("sample", "jacobian_product")),
    ("burn_in", "negative", -1, "≥ 0, got -1", ("sample", "jacobian_product")),
    ("burn_in", "float", 2.5, "integer, got 2.5", ("sample", "jacobian_product")),
    ("seed", "negative", -1, "got -1", (*RUNS, "exact.sample")),
    ("seed", "float", 2.0, "integer, got 2.0", (*RUNS, "exact.sample")),
    ("seed", "a word", "a", "got 'a'", (*RUNS, "exact.sample")),
    ("seed", "above 63 bits", 2**63, "got 9223372036854775808", RUNS),
    ("call", "negative", -1, "got -1", ("sample", "jacobian_product")),
    ("start", "not in the set", NOT_IN_SET, r"in the set, got \[1 1 1 0 0\]", RUNS),
    ("start", "entry above 1", np.array([2, 0, 0, 0, 0]), r"in the set, got \[2 0 0 0 0\]", RUNS),
    ("start", "negative entry", np.array([-1, 1, 1, 1, 0]), "in the set, got .*-1", RUNS),
    ("start", "fraction", np.array([0.5, 0.5, 1, 0, 0]), "in the set, got .*0.5", RUNS),
    ("start", "NaN", np.array([np.nan, 1, 1, 0, 0]), "in the set, got .*nan", RUNS),
    ("start", "beyond its dtype", np.array([257, 1, 0, 0, 0]), "in the set, got .*257", RUNS),
    ("start", "complex", Y + 0.5j, "", RUNS),
    ("start", "words", ["a"] * 5, "", RUNS),
    ("start", "too short", np.array([1, 1, 0]), r"5 entries.*\(3,\)", RUNS),
    ("start", "0-d", np.array(1), r"\(\)", RUNS),
    ("start", "three for two examples", np.stack([Y, Y, Y]), "2 examples, got 3", RUNS),
    ("start", "three for one chain", np.broadcast_to(Y, (2, 3, 5)), r"\(2, 3, 5\)", RUNS),
    ("start", "five axes", np.broadcast_to(Y, (1, 1, 1, 1, 5)), r"\(1, 1, 1, 1, 5\)", RUNS),
    ("start", "unknown word", "warm", "'random', 'greedy', 'target', 'heuristic', 'data', 'persistent'.*got 'warm'", RUNS),
    ("start", "target without observations", "target", "'target'", RUNS),
    ("start", "data without observations", "data", "'data'", RUNS),
    ("start", "None", None, "", RUNS),
    ("start", "callable that gives a number", lambda request: 5, "got", RUNS),
    ("start", "callable for one of two examples", lambda request: [Y[None]], "2 examples, got 1", RUNS),
    ("start", "callable without chains", lambda request: [Y, Y], r"\(1, 5\).*\(5,\)", RUNS),
    ("index", "too long", np.arange(3), r"2 integers.*\(3,\)", RUNS),
    ("index", "float", np.zeros(2), "2 integers.*float64", RUNS),
    ("index", "one number", 3, r"2 integers.*\(\)", RUNS),
    ("index", "bool", [True, False], "2 integers.*bool", RUNS),
    ("guide", "too short", np.zeros((2, 4)), r"5 entries.*\(2, 4\)", (*RUNS, "one_step")),
    ("guide", "one row for two examples", np.zeros(5), "theta", (*RUNS, "one_step")),
    ("guide", "NaN", PAIR * np.nan, "nan", (*RUNS, "one_step")),
    ("guide", "integer", np.zeros((2, 5), int), "int64", (*RUNS, "one_step")),
    ("direction", "too short", np.zeros((2, 4)), r"5 entries.*\(2, 4\)", ("jacobian_product",)),
    ("direction", "one row for two examples", np.zeros(5), "theta", ("jacobian_product",)),
    ("direction", "NaN", PAIR * np.nan, "nan", ("jacobian_product",)),
    ("direction", "integer", np.zeros((2, 5), int), "int64", ("jacobian_product",)),
    ("direction", "None", None, "", ("jacobian_product",)),
    ("y", "not in the set", NOT_IN_SET, r"in the set, got \[1 1 1 0 0\]", ("one_step", "exact.fenchel_young")),
    ("y", "negative entry", np.array([-1, 1, 1, 1, 0]), "in the set, got .*-1", ("one_step", "exact.fenchel_young")),
    ("y", "fraction", np.array([0.5, 0.5, 1, 0, 0]), "in the set, got .*0.5", ("one_step", "exact.fenchel_young")),
    ("y", "words", ["a"] * 5, "", ("one_step", "exact.fenchel_young")),
    ("y", "too short", np.array([1, 1, 0]), r"5 entries.*\(3,\)", ("one_step", "exact.fenchel_young")),
    ("y", "0-d", np.array(1), r"\(\)", ("one_step", "exact.fenchel_young")),
    ("y", "empty", np.zeros((0, 5), int), r"\(0, 5\)|got 0", ("one_step", "exact.fenchel_young")),
    ("y", "three for two examples", np.stack([Y, Y, Y]), "3", ("one_step", "exact.fenchel_young")),
    ("y", "None", None, "", ("one_step", "exact.fenchel_young")),
    ("schedule", "number", 3, "callable.*got 3", ("sample", "solve")),
    ("schedule", "gives zero", lambda k: 1.0 - k, "> 0, got 0.0 at step 1", ("sample", "solve")),
    ("schedule", "gives a negative number", lambda k: -1.0, "got -1.0 at step 0", ("sample", "solve")),
    ("schedule", "gives NaN", lambda k: np.nan, "got nan at step 0", ("sample", "solve")),
    ("schedule", "gives infinity", lambda k: np.inf, "got inf at step 0", ("sample", "solve")),
    ("schedule", "gives a word", lambda k: "a", "got 'a'", ("sample", "solve")),
    ("estimator", "unknown", "median", "'mean', 'recycled', got 'median'", ("sample",)),
    ("estimator", "None", None, "got None", ("sample",)),
    ("trace", "negative", -1, "≥ 0, got -1", ("sample",)),
    ("trace", "float", 2.0, "integer, got 2.0", ("sample",)),
    ("n", "zero", 0, "≥ 1, got 0", ("exact.sample",)),
    ("n", "float", 3.0, "integer, got 3.0", ("exact.sample",)),
]


@pytest.mark.parametrize(
    ("function", "argument", "value", "got"),
    [
        pytest.param(function, argument, value, got, id=f"{function}: {argument} {wrong}")
        for argument, wrong, value, got, functions in SHARED
        for function in functions
    ],
)
def test_a_bad_argument_is_named(function, argument, value, got):
    assert_complains(lambda: CALLS[function](**{argument: value}), argument, got)


@pytest.mark.parametrize("function", CALLS)
def test_the_calls_of_the_table_are_right_without_a_bad_argument(function):
    CALLS[function]()


# --- steps or time ---------------------------------------------------------------------------------------------------

TIMES = [
    ("zero", 0.0, "> 0, got 0"),
    ("negative", -1.0, "got -1.0"),
    ("NaN", np.nan, "got nan"),
    ("infinite", np.inf, "got inf"),
    ("a word", "1", "got '1'"),
    ("bool", True, "got True"),
]


@pytest.mark.parametrize("function", [mg.sample, mg.solve])
@pytest.mark.parametrize(("value", "got"), rows(TIMES))
def test_a_bad_time_limit_is_named(function, value, got):
    assert_complains(lambda: function(TOP, THETA, time_limit=value), "time_limit", got)


@pytest.mark.parametrize("function", [mg.sample, mg.solve])
@pytest.mark.parametrize(
    ("arguments", "got"),
    rows(
        [("both", {"steps": 3, "time_limit": 1.0}, "steps=3 and time_limit=1.0"), ("neither", {}, "steps=None and time_limit=None")]
    ),
)
def test_exactly_one_of_steps_and_time_limit_is_wanted(function, arguments, got):
    assert_complains(lambda: function(TOP, THETA, **arguments), "exactly one of steps and time_limit", got)


@pytest.mark.parametrize("arguments", rows([("no trace", {"steps": 5, "trace": 0}), ("no steps", {"time_limit": 0.01})]))
def test_iterates_want_steps_and_a_trace(arguments):
    assert_complains(lambda: mg.sample(TOP, THETA, iterates=True, **arguments), "iterates", "trace")


# --- a list of problems ----------------------------------------------------------------------------------------------

BOTH, THETAS = [TOP, LARGER], [np.zeros(5), np.zeros(9)]

LISTS = [
    ("different kinds", lambda: mg.sample([TOP, CUBE], [np.zeros(5), np.zeros(4)], steps=3), "problems?", r"TopK\(5.*Hypercube\(4"),
    ("no problems", lambda: mg.sample([], [], steps=3), "problem", "empty"),
    ("not problems", lambda: mg.sample([1, 2], THETAS, steps=3), "problem", "got"),
    ("not a problem", lambda: mg.sample(None, THETA, steps=3), "problem", "got"),
    ("fewer theta", lambda: mg.sample(BOTH, THETAS[:1], steps=3), "theta", "2 problems, got 1"),
    ("more theta", lambda: mg.sample([TOP], THETAS, steps=3), "theta", "1 problem.*got 2"),
    ("theta None", lambda: mg.sample(BOTH, None, steps=3), "theta", ""),
    ("theta of the other problem", lambda: mg.sample(BOTH, THETAS[::-1], steps=3), "theta", r"5 entries.*\(9,\)"),
    ("theta with two axes", lambda: mg.sample([TOP, TOP], np.zeros((2, 1, 5)), steps=3), "theta", r"\(1, 5\)"),
    ("theta NaN", lambda: mg.sample(BOTH, [np.full(5, np.nan), np.zeros(9)], steps=3), "theta", "nan"),
    ("fewer guides", lambda: mg.sample(BOTH, THETAS, steps=3, guide=THETAS[:1]), "guide", "got"),
    ("guide of the other problem", lambda: mg.sample(BOTH, THETAS, steps=3, guide=THETAS[::-1]), "guide", r"\(9,\)"),
    ("fewer directions", lambda: mg.jacobian_product(BOTH, THETAS, THETAS[:1], steps=3), "direction", "got"),
    ("direction None", lambda: mg.jacobian_product(BOTH, THETAS, None, steps=3), "direction", ""),
    ("fewer starts", lambda: mg.sample(BOTH, THETAS, steps=3, start=[Y]), "start", "2 examples, got 1"),
    ("start of the other problem", lambda: mg.sample(BOTH, THETAS, steps=3, start=[LARGER.solution, Y]), "start", r"\(9,\)"),
    ("start not in the set", lambda: mg.sample(BOTH, THETAS, steps=3, start=[Y, np.zeros(9, int)]), "start", "set.*example 1"),
    ("fewer y", lambda: mg.one_step(BOTH, THETAS, [Y]), "y", "2 examples, got 1"),
    ("y of the other problem", lambda: mg.one_step(BOTH, THETAS, [LARGER.solution, Y]), "y", r"\(9,\)"),
    ("y not in the set", lambda: mg.one_step(BOTH, THETAS, [Y, np.zeros(9, int)]), "y", "in the set"),
    ("solve, fewer theta", lambda: mg.solve(BOTH, THETAS[:1], steps=3), "theta", "2 problems, got 1"),
    ("index", lambda: mg.sample(BOTH, THETAS, steps=3, index=[1]), "index", r"2 integers.*\(1,\)"),
    ("temperature", lambda: mg.sample(BOTH, THETAS, steps=3, temperature=[1.0, 2.0, 3.0]), "temperature", "2.*got.*3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "argument", "got"), rows(LISTS))
def test_a_bad_list_is_named(call, argument, got):
    assert_complains(call, argument, got)


# --- built-in problems -----------------------------------------------------------------------------------------------


def plain(y):
    return 0.0


@mg.jit
def two_arguments(data, y):
    return 0.0


PROBLEMS = [
    ("TopK d", lambda: TopK(1, 1), "d", "≥ 2, got 1"),
    ("TopK d float", lambda: TopK(5.0, 2), "d", "integer, got 5.0"),
    ("TopK k = d", lambda: TopK(5, 5), "k", "1..4, got 5"),
    ("TopK k > d", lambda: TopK(5, 6), "k", "1..4, got 6"),
    ("TopK k = 0", lambda: TopK(5, 0), "k", "1..4, got 0"),
    ("TopK k float", lambda: TopK(5, 2.0), "k", "integer, got 2.0"),
    ("TopK k bool", lambda: TopK(5, True), "k", "integer, got True"),
    ("TopK swaps > k", lambda: TopK(5, 2, 3), "swaps", "1..2, got 3"),
    ("TopK swaps > d - k", lambda: TopK(5, 4, 2), "swaps", "1..1, got 2"),
    ("TopK swaps = 0", lambda: TopK(5, 2, 0), "swaps", "1..2, got 0"),
    ("TopK one of the swaps", lambda: TopK(5, 2, [1, 3]), "swaps", "1..2, got 3"),
    ("TopK swaps float", lambda: TopK(5, 2, 1.0), "swaps", "integer, got.*1.0"),
    ("TopK swaps empty", lambda: TopK(5, 2, []), "swaps|moves", "got"),
    ("TopK weights too long", lambda: TopK(5, 2, weights=[1.0, 2.0]), "weights", "1 move.*got 2"),
    ("TopK weights zero", lambda: TopK(5, 2, weights=[0.0]), "weights?", "> 0, got 0"),
    ("TopK weights negative", lambda: TopK(5, 2, weights=[-1.0]), "weights?", "> 0, got -1"),
    ("TopK weights NaN", lambda: TopK(5, 2, weights=[np.nan]), "weights?", "> 0, got nan"),
    ("TopK weights infinite", lambda: TopK(5, 2, weights=[np.inf]), "weights?", "> 0, got inf"),
    ("TopK weights words", lambda: TopK(5, 2, weights=["a"]), "weights?", "got 'a'"),
    ("TopK weights None", lambda: TopK(5, 2, weights=[None]), "weights?", "got None"),
    ("TopK weights number", lambda: TopK(5, 2, weights=1.0), "weights", "got"),
    ("TopK extra_moves", lambda: TopK(5, 2, extra_moves=[1]), "moves|extra_moves", "Move, got"),
    ("TopK phi too short", lambda: TopK(5, 2, phi=np.zeros(4)), "phi", r"5 entries.*\(4,\)"),
    ("TopK phi with two axes", lambda: TopK(5, 2, phi=np.zeros((1, 5))), "phi", r"\(1, 5\)"),
    ("TopK phi NaN", lambda: TopK(5, 2, phi=np.full(5, np.nan)), "phi", "nan"),
    ("TopK phi not jitted", lambda: TopK(5, 2, phi=plain), "phi", "movegrad.jit"),
    ("TopK phi of two arguments", lambda: TopK(5, 2, phi=two_arguments), "phi", "one argument"),
    ("Hypercube d", lambda: Hypercube(0), "d", "≥ 1, got 0"),
    ("Hypercube radius > d", lambda: Hypercube(4, 5), "radius", "1..4, got 5"),
    ("Hypercube radius = 0", lambda: Hypercube(4, 0), "radius", "1..4, got 0"),
    ("Hypercube radius float", lambda: Hypercube(4, 1.0), "radius", "integer, got 1.0"),
    ("Hypercube exactly > d", lambda: Hypercube(4, exactly=[1, 5]), "exactly", "1..4, got 5"),
    ("Hypercube exactly = 0", lambda: Hypercube(4, exactly=0), "exactly", "1..4, got 0"),
    ("Hypercube exactly empty", lambda: Hypercube(4, exactly=[]), "exactly|moves", "got"),
    ("Hypercube weights too short", lambda: Hypercube(4, exactly=[1, 2], weights=[1.0]), "weights", "2 moves, got 1"),
    ("Hypercube weights negative", lambda: Hypercube(4, exactly=[1, 2], weights=[1.0, -1.0]), "weights?", "> 0, got -1"),
    ("Hypercube phi infinite", lambda: Hypercube(4, phi=np.full(4, np.inf)), "phi", "inf"),
    ("Hypercube phi not jitted", lambda: Hypercube(4, phi=plain), "phi", "movegrad.jit"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "argument", "got"), rows(PROBLEMS))
def test_a_bad_instance_is_named(call, argument, got):
    assert_complains(call, argument, got)


# --- a problem of one's own ------------------------------------------------------------------------------------------


class Data(NamedTuple):
    unused: object


class State(NamedTuple):
    y: object


class Nothing(NamedTuple):
    pass


def move(**parts):
    return mg.Move(**({"name": "flip", "propose": propose_flip, "change": change_flip, "apply": apply_flip} | parts))


def problem(**parts):
    usual = {"data": Data(np.zeros(1)), "state": State(np.zeros(4, np.uint8)), "moves": [move()], "size": 4}
    return mg.Problem(**(usual | parts))


@mg.jit
def mask(data, state):
    return -1


@mg.jit
def mask_after(data, state, move):
    return -1


@mg.jit
def five_arguments(a, b, c, d, e):
    return 0.0


FUNCTIONS_OF_A_MOVE = ("propose", "change", "apply", "changes", "gain", "feasible", "applicable_after")
FUNCTIONS_OF_A_PROBLEM = ("prepare", "statistic", "phi", "contains", "random", "applicable")


@pytest.mark.parametrize("name", FUNCTIONS_OF_A_MOVE)
def test_a_bad_function_of_a_move_is_named(name):
    assert_complains(lambda: move(**{name: plain}), f"{name} of move 'flip'", "movegrad.jit.*got function")
    assert_complains(lambda: move(**{name: five_arguments}), f"{name} of move 'flip'", "takes 5")


@pytest.mark.parametrize("name", FUNCTIONS_OF_A_MOVE[:4])
def test_a_missing_function_of_a_move_is_named(name):
    assert_complains(lambda: move(**{name: None}), f"{name} of move 'flip'", "None")


@pytest.mark.parametrize("name", FUNCTIONS_OF_A_PROBLEM)
def test_a_bad_function_of_a_problem_is_named(name):
    assert_complains(lambda: problem(**{name: plain}), f"{name} of Problem", "movegrad.jit.*got function")
    assert_complains(lambda: problem(**{name: five_arguments}), f"{name} of Problem", "takes 5")


OWN = [
    ("negative changes", lambda: move(changes=-1), "changes of move 'flip'", "≥ 0, got -1"),
    ("fractional changes", lambda: move(changes=1.5), "changes of move 'flip'", "got"),
    ("weight zero", lambda: move(weight=0.0), "weight of move 'flip'", "> 0, got 0"),
    ("weight NaN", lambda: move(weight=np.nan), "weight of move 'flip'", "> 0, got nan"),
    ("weight a word", lambda: move(weight="a"), "weight of move 'flip'", "got 'a'"),
    ("weight None", lambda: move(weight=None), "weight of move 'flip'", "got None"),
    ("stay", lambda: mg.stay(-1.0), "weight of move 'stay'", "> 0, got -1"),
    ("no moves", lambda: problem(moves=[]), "moves of Problem", r"got \(\)"),
    ("not moves", lambda: problem(moves=[1]), "moves of Problem", r"got \(1,\)"),
    ("moves None", lambda: problem(moves=None), "moves of Problem", "got None"),
    ("one bare move", lambda: problem(moves=move()), "moves of Problem", "got"),
    ("too many moves", lambda: problem(moves=[move()] * 63), "moves of Problem", "62, got 63"),
    ("state with two axes", lambda: problem(state=State(np.zeros((2, 2)))), "state of Problem", "2 axes in field 'y'"),
    ("state of a number", lambda: problem(state=State(3)), "state of Problem", "0 axes in field 'y'"),
    ("state of words", lambda: problem(state=State(np.array(["a"]))), "state of Problem", "U1 in field 'y'"),
    ("state not a NamedTuple", lambda: problem(state=(np.zeros(4),)), "state of Problem", "NamedTuple.*tuple"),
    ("data not a NamedTuple", lambda: problem(data={"a": 1}), "data of Problem", "NamedTuple.*dict"),
    ("data a plain tuple", lambda: problem(data=(1, 2)), "data of Problem", "NamedTuple.*tuple"),
    ("data None", lambda: problem(data=None), "data of Problem", "NamedTuple.*NoneType"),
    ("data without fields", lambda: problem(data=Nothing()), "data of Problem", "at least one field"),
    ("data of words", lambda: problem(data=Data("a")), "data of Problem", "U1 in field 'unused'"),
    ("data ragged", lambda: problem(data=Data([1, [2]])), "data of Problem", "'unused'"),
    ("size zero", lambda: problem(size=0), "size of Problem", "≥ 1, got 0"),
    ("size not that of the solution", lambda: problem(size=5), "size of Problem", r"4.*got 5"),
    ("size fractional", lambda: problem(size=4.7), "size of Problem", "got 4.7"),
    ("size a word", lambda: problem(size="a"), "size of Problem", "got 'a'"),
    ("applicable missing", lambda: problem(moves=[move(applicable_after=mask_after)]), "applicable of Problem", "'flip'"),
    ("applicable_after missing", lambda: problem(applicable=mask), "applicable_after of move 'flip'", "Problem"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "argument", "got"), rows(OWN))
def test_a_bad_part_of_a_problem_is_named(call, argument, got):
    assert_complains(call, argument, got)


def test_lists_will_do_for_the_arrays_of_a_state():
    lists = problem(state=State([0, 0, 0, 0]))
    assert mg.sample(lists, np.zeros(4), steps=3).mean.shape == (4,)


# --- check, exact, schedules, threads --------------------------------------------------------------------------------

LARGE = Hypercube(20)


def annealed(start, end):
    return mg.solve(TOP, THETA, steps=5, schedule=mg.schedules.Annealing(start, end))


OTHERS = [
    ("check too large", lambda: mg.check(LARGE, local=False), r"Hypercube\(20\)", "5000"),
    ("check above max_states", lambda: mg.check(TOP, max_states=9, local=False), r"TopK\(5, k=2\)", "9 solutions"),
    ("check max_states", lambda: mg.check(TOP, max_states=0), "max_states", "≥ 1, got 0"),
    ("check temperature zero", lambda: mg.check(TOP, temperatures=(1.0, 0.0)), "temperatures", "> 0, got 0"),
    ("check no temperatures", lambda: mg.check(TOP, temperatures=()), "temperatures", "got"),
    ("check one temperature", lambda: mg.check(TOP, temperatures=1.0), "temperatures", "got 1.0"),
    ("check tolerance NaN", lambda: mg.check(TOP, tolerance=np.nan), "tolerance", "got nan"),
    ("check tolerance negative", lambda: mg.check(TOP, tolerance=-1.0), "tolerance", "got -1.0"),
    ("check seed", lambda: mg.check(TOP, seed=-1), "seed", "got -1"),
    ("check not a problem", lambda: mg.check([TOP]), "problem", "got"),
    ("exact too large", lambda: mg.exact.covariance(LARGE, np.zeros(20)), r"Hypercube\(20\)", "100000"),
    ("exact not a problem", lambda: mg.exact.marginals(None, THETA), "problem", "got"),
    ("enumeration above its limit", lambda: mg.exact.Enumeration(TOP, 9), r"TopK\(5, k=2\)", "9 solutions"),
    ("constant", lambda: mg.schedules.constant(0.0), "temperature", "> 0, got 0"),
    ("truncated_geometric start", lambda: mg.schedules.truncated_geometric(0.0, 0.5, 1.0), "start", "> 0, got 0"),
    ("truncated_geometric decay 1", lambda: mg.schedules.truncated_geometric(1.0, 1.0, 1.0), "decay", r"\(0, 1\), got 1"),
    ("truncated_geometric decay NaN", lambda: mg.schedules.truncated_geometric(1.0, np.nan, 1.0), "decay", "got nan"),
    ("truncated_geometric decay a word", lambda: mg.schedules.truncated_geometric(1.0, "a", 1.0), "decay", "got 'a'"),
    ("truncated_geometric final", lambda: mg.schedules.truncated_geometric(1.0, 0.5, -1.0), "final", "> 0, got -1"),
    ("annealing start zero", lambda: annealed(0.0, 1.0), "start", "> 0, got 0"),
    ("annealing end zero", lambda: annealed(1.0, 0.0), "end", "> 0, got 0"),
    ("annealing end negative", lambda: annealed(1.0, -1.0), "end", "> 0, got -1"),
    ("threads zero", lambda: mg.set_threads(0), "threads|n", "≥ 1, got 0"),
    ("threads float", lambda: mg.set_threads(2.0), "threads|n", "integer, got 2.0"),
    ("threads bool", lambda: mg.set_threads(True), "threads|n", "integer, got True"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "argument", "got"), rows(OTHERS))
def test_other_bad_arguments_are_named(call, argument, got):
    assert_complains(call, argument, got)


@pytest.mark.parametrize("given", ["0", "-1", "two", "", "2.0", "²"])
def test_a_bad_number_of_threads_in_the_environment_is_named(given, monkeypatch):
    from movegrad.engine import threads

    monkeypatch.setitem(threads._state, "threads", None)
    monkeypatch.setenv("MOVEGRAD_THREADS", given)
    assert_complains(mg.get_threads, "MOVEGRAD_THREADS", re.escape(repr(given)))


# --- PyTorch ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def layer(**a):
    return mg.torch.LocalSearchLayer(a.pop("problem", TOP), **({"steps": 5} | a))


def fenchel_young(**a):
    return mg.torch.FenchelYoungLoss(layer(), **a)


CONSTRUCTORS = [
    ("layer steps zero", lambda: layer(steps=0), "steps", "≥ 1, got 0"),
    ("layer steps float", lambda: layer(steps=5.5), "steps", "integer, got 5.5"),
    ("layer steps and time", lambda: layer(time_limit=1.0), "exactly one of steps and time_limit", "steps=5 and time_limit=1.0"),
    ("layer without steps", lambda: layer(steps=None), "exactly one of steps and time_limit", "steps=None and time_limit=None"),
    ("layer time", lambda: layer(steps=None, time_limit=-1.0), "time_limit", "> 0, got -1"),
    ("layer temperature", lambda: layer(temperature=0.0), "temperature", "> 0, got 0"),
    ("layer temperature a word", lambda: layer(temperature="hot"), "temperature", "got 'hot'"),
    ("layer burn_in", lambda: layer(burn_in=5), "burn_in", "< steps = 5, got 5"),
    ("layer chains", lambda: layer(chains=0), "chains", "≥ 1, got 0"),
    ("layer seed", lambda: layer(seed=-1), "seed", "got -1"),
    ("layer schedule", lambda: layer(schedule=3), "schedule", "got 3"),
    ("layer start", lambda: layer(start="warm"), "start", "got 'warm'"),
    ("layer estimator", lambda: layer(estimator="median"), "estimator", "got 'median'"),
    ("layer problem", lambda: layer(problem=3), "problem", "got (3|int)"),
    ("loss layer", lambda: mg.torch.FenchelYoungLoss(TOP), "layer", "got"),
    ("loss reduction", lambda: fenchel_young(reduction="max"), "reduction", "'mean', 'sum', 'none', got 'max'"),
    ("loss start", lambda: fenchel_young(start="warm"), "start", "got 'warm'"),
    ("one step reduction", lambda: mg.torch.OneStepLoss(TOP, reduction="max"), "reduction", "got 'max'"),
    ("one step temperature", lambda: mg.torch.OneStepLoss(TOP, -1.0), "temperature", "> 0, got -1"),
    ("one step problem", lambda: mg.torch.OneStepLoss(None), "problem", "got None"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "argument", "got"), rows(CONSTRUCTORS))
def test_a_module_complains_when_it_is_made(torch, call, argument, got):
    assert_complains(call, argument, got)


FORWARD = {
    "layer": lambda theta, y, **a: layer()(theta, **a),
    "loss": lambda theta, y, **a: fenchel_young()(theta, y, **a),
    "one step": lambda theta, y, **a: mg.torch.OneStepLoss(TOP)(theta, y, **a),
}
TENSORS = [
    # argument, what is wrong, value from torch, what the message says, modules
    ("theta", "NaN", lambda torch: torch.full((2, 5), torch.nan), "nan", FORWARD),
    ("theta", "infinite", lambda torch: torch.full((2, 5), torch.inf), "inf", FORWARD),
    ("theta", "too short", lambda torch: torch.zeros(2, 4), r"5 entries.*\(2, 4\)", FORWARD),
    ("theta", "integer", lambda torch: torch.zeros(2, 5, dtype=torch.int64), "int64", FORWARD),
    ("theta", "empty and too short", lambda torch: torch.zeros(0, 4), r"\(0, 4\)", ("layer",)),
    ("theta", "0-d", lambda torch: torch.tensor(1.0), r"\(\)", ("layer",)),
    ("theta", "NumPy array", lambda torch: np.zeros((2, 5)), "[Tt]ensor", FORWARD),
    ("theta", "None", lambda torch: None, "", FORWARD),
    (
        "y",
        "not in the set",
        lambda torch: torch.tensor(np.stack([Y, NOT_IN_SET])),
        r"in the set, got \[1 1 1 0 0\]",
        ("loss", "one step"),
    ),
    ("y", "fraction", lambda torch: torch.full((2, 5), 0.4), "in the set, got .*0.4", ("loss", "one step")),
    ("y", "negative entry", lambda torch: torch.tensor([[-1, 1, 1, 1, 0]] * 2), "in the set, got .*-1", ("loss", "one step")),
    ("y", "too short", lambda torch: torch.zeros(2, 3), r"\(2, 3\)", ("loss", "one step")),
    ("y", "three for two examples", lambda torch: torch.tensor(np.stack([Y, Y, Y])), r"\(3, 5\)", ("loss", "one step")),
    ("y", "0-d", lambda torch: torch.tensor(1), r"\(\)", ("loss", "one step")),
    ("guide", "too short", lambda torch: torch.zeros(2, 4), r"5 entries.*\(2, 4\)", FORWARD),
    ("guide", "NaN", lambda torch: torch.full((2, 5), torch.nan), "nan", FORWARD),
    ("index", "too long", lambda torch: torch.arange(3), r"2 integers.*\(3,\)", ("layer", "loss")),
    ("index", "float", lambda torch: torch.zeros(2), "2 integers.*float32", ("layer", "loss")),
    ("start", "unknown word", lambda torch: "warm", "got 'warm'", ("layer", "loss")),
    ("start", "not in the set", lambda torch: NOT_IN_SET, r"in the set, got \[1 1 1 0 0\]", ("layer", "loss")),
    ("start", "target without observations", lambda torch: "target", "'target'", ("layer",)),
]


@pytest.mark.parametrize(
    ("module", "argument", "make", "got"),
    [
        pytest.param(module, argument, make, got, id=f"{module}: {argument} {wrong}")
        for argument, wrong, make, got, modules in TENSORS
        for module in modules
    ],
)
def test_a_bad_tensor_is_named(torch, module, argument, make, got):
    arguments = {"theta": torch.zeros(2, 5), "y": torch.tensor(np.stack([Y, Y])), argument: make(torch)}
    assert_complains(lambda: FORWARD[module](**arguments), argument, got)


@pytest.mark.parametrize("module", FORWARD)
def test_the_modules_of_the_table_are_right_without_a_bad_tensor(torch, module):
    FORWARD[module](torch.zeros(2, 5), torch.tensor(np.stack([Y, Y])))


def list_call(name, theta, y=None, **a):
    made = layer(problem=BOTH)
    return made(theta, **a) if name == "layer" else mg.torch.FenchelYoungLoss(made)(theta, y, **a)


TENSOR_LISTS = [
    ("layer, fewer theta", "layer", {"theta": [5]}, "theta", "2 problems, got 1"),
    ("layer, no theta", "layer", {"theta": []}, "theta", "2 problems, got 0"),
    ("layer, theta of the other problem", "layer", {"theta": [9, 5]}, "theta", r"5 entries.*\(9,\)"),
    ("loss, fewer theta", "loss", {"theta": [5], "y": [Y, LARGER.solution]}, "theta", "2 problems, got 1"),
    ("loss, fewer y", "loss", {"theta": [5, 9], "y": [Y]}, "y", "2 problems, got 1"),
    ("loss, y of the other problem", "loss", {"theta": [5, 9], "y": [LARGER.solution, Y]}, "y", r"5 entries.*\(9,\)"),
    ("loss, y not in the set", "loss", {"theta": [5, 9], "y": [Y, np.zeros(9, int)]}, "y", "in the set"),
    ("loss, y of numbers", "loss", {"theta": [5, 9], "y": [1, 2]}, "y", r"\(\)"),
    ("loss, two y for one problem", "loss", {"theta": [5, 9], "y": [np.stack([Y, Y]), LARGER.solution]}, "y", r"\(2, 5\)"),
    ("loss, y None", "loss", {"theta": [5, 9], "y": None}, "y", ""),
]


@pytest.mark.parametrize(("module", "arguments", "argument", "got"), rows(TENSOR_LISTS))
def test_a_bad_list_of_tensors_is_named(torch, module, arguments, argument, got):
    theta = [torch.zeros(n) for n in arguments["theta"]]
    assert_complains(lambda: list_call(module, theta, arguments.get("y")), argument, got)


def test_a_mean_of_observations_must_be_finite(torch):
    loss = fenchel_young(start="random")
    assert_complains(lambda: loss(torch.zeros(5), np.full(5, np.nan), y_is="mean"), "y", "nan")


def test_a_guide_for_many_observations_must_fit(torch):
    loss = mg.torch.OneStepLoss(TOP)
    assert_complains(lambda: loss(torch.zeros(5), np.stack([Y, Y]), guide=torch.zeros(4)), "guide", "5 entries.*4")


def test_a_schedule_that_freezes_is_named_in_the_forward_pass(torch):
    frozen = layer(schedule=lambda k: 0.0)
    assert_complains(lambda: frozen(torch.zeros(5)), "schedule", "> 0, got 0.0 at step 0")
