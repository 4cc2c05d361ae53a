"""Values that are hardly ever meant: each is refused by one sentence that names the argument, whatever the value itself does."""

import numpy as np
import pytest

import movegrad as mg
from movegrad import _cli
from movegrad._validate import shown
from movegrad.problems import Hypercube, Knapsack, PrizeCollectingVRPTW, TopK
from movegrad.problems.routing import Instance
from tests.fuzz.values import LongRepr, RaisingArray, RaisingAttributes, RaisingIteration, RaisingRepr, RaisingTruth
from tests.test_bad_input import assert_complains, rows

TOP, LARGER = TopK(5, 2), TopK(9, 3)
PAIR = np.zeros((2, 5))
Y = TOP.solution
BOTH, THETAS = [TOP, LARGER], [np.zeros(5), np.zeros(9)]
INSTANCE = Instance(
    durations=10.0 * np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))),
    demands=[0, 1, 1, 1], service=[2, 3, 3, 3], windows=[[5, 200], [0, 100], [60, 90], [0, np.inf]], capacity=2,
)  # fmt: skip
VRP = PrizeCollectingVRPTW(INSTANCE)


def sample(theta=PAIR, problem=TOP, **a):
    return mg.sample(problem, theta, **({"steps": 5} | a))


# --- how values are shown ----------------------------------------------------------------------------------------------


def test_any_value_is_shown_in_a_short_line():
    for value in (10**400, -(10**5000), LongRepr(), RaisingRepr(), [0.0] * 10_000, np.zeros((50, 50)), "a\nb" * 99):
        assert len(shown(value)) <= 60
        assert "\n" not in shown(value)


def test_usual_values_are_shown_as_they_are():
    assert [shown(v) for v in (3, 2.5, "hot", None, np.float64(0.5))] == ["3", "2.5", "'hot'", "None", "0.5"]
    assert shown(10**400) == "10^400"


# --- arguments -----------------------------------------------------------------------------------------------------------

VALUES = [
    ("a huge integer for steps", lambda: sample(steps=10**5000), "steps", "10\\^5000"),
    ("2⁶³ chains", lambda: sample(chains=2**63), "chains", "9223372036854775808"),
    ("a huge temperature", lambda: sample(temperature=10**400), "temperature", "10\\^400"),
    ("a time span for a number", lambda: sample(temperature=np.timedelta64(3, "s")), "temperature", "got"),
    ("a time span for an integer", lambda: sample(chains=np.timedelta64(3, "s")), "chains", "got"),
    ("temperatures that raise", lambda: sample(temperature=RaisingIteration([1.0, 2.0])), "temperature", "got"),
    ("a flag of a list", lambda: sample(best=[True]), "best", "True or False"),
    ("a flag without a truth value", lambda: mg.solve(TOP, PAIR, steps=3, correction=RaisingTruth()), "correction", "got"),
    ("progress of no function", lambda: sample(progress=3), "progress", "fraction done, got 3"),
    ("progress of a function without arguments", lambda: sample(progress=lambda: None), "progress", "other arguments"),
    ("a schedule without arguments", lambda: sample(schedule=lambda: 1.0), "schedule", "other arguments"),
    ("a start without arguments", lambda: sample(start=lambda: Y), "start", "other arguments"),
    ("a start of a class", lambda: sample(start=mg.start.Persistent), "start", "class Persistent"),
    ("a long word for a start", lambda: sample(start="warm " * 99), "start", "…"),
    ("an array that raises", lambda: sample(RaisingArray()), "theta", "RaisingArray \\(no array\\)"),
    ("attributes that raise", lambda: sample(RaisingAttributes()), "theta", "RaisingAttributes"),
    ("beyond float64", lambda: sample(PAIR.astype(np.longdouble) + np.longdouble(10) ** 400), "theta", "finite, got inf"),
    ("an index of objects", lambda: sample(index=[None, 1]), "index", "got object"),
    ("a generator of problems", lambda: sample(THETAS, (p for p in BOTH)), "problem", "sequence of problems, got <generator"),
    ("an iterator of problems", lambda: mg.solve(iter(BOTH), THETAS, steps=3), "problem", "sequence of problems, got <list_iter"),
    ("a dict of problems", lambda: sample(THETAS, {0: TOP, 1: LARGER}), "problem", "sequence of problems, got {0"),
    ("problems that raise", lambda: sample(THETAS, RaisingIteration(BOTH)), "problem", "no iteration"),
    ("an endless theta", lambda: sample(iter(float, 1.0), BOTH), "theta", "2 problems, got 3"),
    ("a set of weights", lambda: Hypercube(4, exactly=[1, 3], weights={1.0, 2.0}), "weights", "got set"),
    ("weights of bytes", lambda: Hypercube(4, exactly=[1, 3], weights=b"ab"), "weights", "got bytes"),
    ("extra moves of text", lambda: TopK(5, 2, extra_moves="ab"), "extra_moves", "got 'ab'"),
    ("a move's class", lambda: TopK(5, 2, extra_moves=[mg.Move]), "extra_moves", "got <class"),
    ("one word for moves", lambda: Knapsack([[1.0, 2.0]], [2.0], moves="flip"), "moves", "the word 'flip'"),
    ("no moves", lambda: Knapsack([[1.0, 2.0]], [2.0], moves=3), "moves", "got 3"),
    ("a batch of nothing", lambda: Knapsack.batch(None, None), "weights", "got None"),
    ("ragged weights", lambda: Knapsack([[1.0, 2.0], [1.0]], [2.0, 1.0]), "weights", "array of numbers"),
    ("a move without a name", lambda: mg.Move(3, *[None] * 3), "name of a move", "got 3"),
    ("an oracle without methods", lambda: own(oracle=3), "oracle of Problem", "log_partition"),
    ("states of no function", lambda: own(states=[Y]), "states of Problem", "no arguments"),
    ("moves of a generator", lambda: own(moves=(m for m in TOP.moves)), "moves of Problem", "generator"),
    ("an enumeration of nothing", lambda: mg.exact.Enumeration(None), "problem", "got None"),
    ("draws of one axis", lambda: mg.diagnostics.r_hat(np.zeros(5)), "draws", "two axes"),
    ("a class of problems", lambda: sample(problem=TopK), "problem", "got <class"),
]  # fmt: skip


def own(**parts):
    usual = {"data": TOP.data, "state": TOP.state, "moves": TOP.moves, "size": 5, "prepare": TOP.functions.prepare}
    return mg.Problem(**(usual | parts))


@pytest.mark.parametrize(("call", "argument", "got"), rows(VALUES))
def test_a_hostile_value_is_named(call, argument, got):
    assert_complains(call, argument, got)


def test_theta_is_not_mistaken_for_y():
    one = np.zeros((1, 5))
    assert_complains(lambda: mg.one_step(TOP, one, np.stack([Y, Y])), "y", r"theta with the leading axes \(1,\)")
    assert_complains(lambda: mg.exact.fenchel_young(TOP, one, np.stack([Y, Y])), "y", r"theta with the leading axes \(1,\)")


def test_what_a_function_of_the_user_raises_is_not_touched():
    def progress(share):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sample(progress=progress)


def test_a_schedule_is_asked_once_for_each_step():
    asked = []
    sample(PAIR[0], schedule=lambda k: asked.append(k) or 1.0)
    assert asked == list(range(5))


def test_a_limit_in_which_nothing_fits_still_gives_a_solution():
    for limit in (1e-300, 1e-12):
        assert mg.solve(TOP, PAIR, time_limit=limit).solution.shape == (2, 5)


# --- routes ----------------------------------------------------------------------------------------------------------------

ROUTES = [
    ("a number", [[1], 2]),
    ("a number first", [2, [1]]),
    ("text", ["ab"]),
    ("nothing", [None]),
    ("a set", [{1, 2}]),
    ("a dict", [{1: 2}]),
    ("an iterator", [iter([1, 2])]),
    ("complex", [[1 + 0j]]),
    ("a huge integer", [[10**400]]),
    ("NaN", [[np.nan]]),
    ("an array of no axis", [np.array(1)]),
    ("plans of different depth", [[[1]], [2]]),
    ("a route in a route", [[1, [2]]]),
]


@pytest.mark.parametrize("routes", rows(ROUTES))
def test_malformed_routes_are_named(routes):
    assert_complains(lambda: mg.sample(VRP, np.zeros(3), steps=3, start=routes), "start", "routes must|array of numbers")
    assert_complains(lambda: VRP.cost(routes), "routes", "")
    assert not VRP.is_feasible(routes)


def test_a_list_of_routes_that_holds_itself_is_refused():
    routes = [[1]]
    routes[0].append(routes)
    assert_complains(lambda: VRP.cost(routes), "routes", "themselves")


def test_an_empty_route_is_none():
    assert VRP.encode([[1], []]).tolist() == VRP.encode([[1]]).tolist()
    assert VRP.routes([[1], ()]) == [[1]]


@pytest.mark.parametrize(
    "solution", rows([("short", [0, 1]), ("beyond", [0, 9, 0, 0]), ("below", [0, -2, 0, 0]), ("half", [0, 0.5, 0, 0])])
)
def test_a_solution_that_is_none_has_no_routes(solution):
    assert_complains(lambda: VRP.routes(np.array(solution)), "solution", "4 entries|-1..3")


# --- PyTorch ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


TENSORS = [
    ("sparse", lambda torch: torch.zeros(2, 5).to_sparse(), "sparse_coo"),
    ("meta", lambda torch: torch.zeros(2, 5, device="meta"), "meta"),
    ("conjugate", lambda torch: torch.zeros(2, 5, dtype=torch.complex64).conj(), "complex"),
    ("0-d", lambda torch: torch.tensor(1.0), r"shape \(\)"),
    ("too short", lambda torch: torch.zeros(2, 4), r"5 entries.*\(2, 4\)"),
]
MODULES = {
    "layer": lambda theta, **a: mg.torch.LocalSearchLayer(TOP, steps=3)(theta, **a),
    "loss": lambda theta, y=None, **a: mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TOP, steps=3))(theta, y, **a),
    "one step": lambda theta, y=None, **a: mg.torch.OneStepLoss(TOP)(theta, y, **a),
}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("make", "got"), rows(TENSORS))
def test_a_strange_theta_is_named(torch, module, make, got):
    more = {} if module == "layer" else {"y": np.stack([Y, Y])}
    assert_complains(lambda: MODULES[module](make(torch), **more), "theta", got)


def test_a_loss_cannot_be_computed_in_eight_bits(torch):
    for module in ("loss", "one step"):
        theta = torch.zeros(2, 5).to(torch.float8_e4m3fn)
        assert_complains(lambda module=module, theta=theta: MODULES[module](theta, y=np.stack([Y, Y])), "theta", "float8")


def test_a_nested_theta_is_named(torch):
    nested = torch.nested.nested_tensor([torch.zeros(5), torch.zeros(5)], layout=torch.jagged)
    assert_complains(lambda: MODULES["layer"](nested), "theta", "nested")


@pytest.mark.parametrize("argument", ["guide", "y", "index"])
def test_other_strange_tensors_are_named(torch, argument):
    right = {"y": torch.from_numpy(np.stack([Y, Y])), "guide": torch.zeros(2, 5), "index": torch.arange(2)}
    for wrong in (right[argument].to_sparse(), right[argument].to("meta"), 3, RaisingIteration([1])):
        arguments = {**right, argument: wrong}
        assert_complains(lambda a=arguments: MODULES["loss"](torch.zeros(2, 5), **a), argument, "got")


def test_a_view_that_is_not_computed_yet_is_as_good_as_its_values(torch):
    view = torch.complex(torch.zeros(2, 5), torch.linspace(-1, 1, 10).reshape(2, 5)).conj().imag
    assert view.is_neg()
    expected = mg.torch.LocalSearchLayer(TOP, steps=3)(view.resolve_neg())
    assert torch.equal(mg.torch.LocalSearchLayer(TOP, steps=3)(view), expected)


def test_tensors_with_a_gradient_are_refused_by_numpy_functions(torch):
    assert_complains(lambda: sample(torch.zeros(2, 5, requires_grad=True)), "theta", "requires grad")


@pytest.mark.parametrize(
    "problem", rows([("a number", 3), ("a dict", {0: TOP}), ("a generator", (p for p in BOTH)), ("numbers", [1, 2])])
)
def test_a_strange_problem_of_a_call_is_named(torch, problem):
    theta = [torch.zeros(5), torch.zeros(9)]
    assert_complains(lambda: MODULES["layer"](theta, problem=problem), "problem", "got")
    assert_complains(lambda: MODULES["loss"](theta, [Y, LARGER.solution], problem=problem), "problem", "got")


# --- checkpoints -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def module(torch):
    layer = mg.torch.LocalSearchLayer(TOP, steps=4, chains=2, start="persistent")
    out = mg.torch.FenchelYoungLoss(layer, start="persistent")
    out(torch.zeros(2, 5), torch.from_numpy(np.stack([Y, Y])))
    layer(torch.zeros(2, 5))
    return out


DAMAGED = [
    ("of nothing", None, "state_dict", "NoneType"),
    ("of bytes", b"\x80\x04", "state_dict", "bytes"),
    ("of another module", {"persistent": None, "start": None}, "state_dict", "persistent"),
    ("without ends", {"calls": 1}, "state_dict", "calls"),
    ("with calls of text", {"calls": "3", "ends": None}, "calls in the state_dict", "'3'"),
    ("with negative calls", {"calls": -1, "ends": None}, "calls in the state_dict", "-1"),
    ("with huge calls", {"calls": 2**63, "ends": None}, "calls in the state_dict", "9223372036854775808"),
    ("with ends of a number", {"calls": 1, "ends": 3}, "ends in the state_dict", "got 3"),
    ("with ends of lists", {"calls": 1, "ends": {0: [1, 2]}}, "ends in the state_dict", "0: "),
]


@pytest.mark.parametrize(("state", "argument", "got"), rows(DAMAGED))
def test_a_damaged_checkpoint_is_named_and_says_what_to_do(module, state, argument, got):
    content = module.state_dict()
    content["layer._extra_state"] = state
    before = module.layer.calls
    assert_complains(lambda: module.load_state_dict(content), argument, got)
    assert module.layer.calls == before


def test_a_sound_checkpoint_still_loads(torch, module, tmp_path):
    torch.save(module.state_dict(), tmp_path / "module.pt")
    saved = torch.load(tmp_path / "module.pt", weights_only=True)
    module.layer(torch.zeros(2, 5), index=[0, 1])
    module.load_state_dict(saved)
    assert module.layer.calls == saved["layer._extra_state"]["calls"]


# --- JAX, pictures, the command --------------------------------------------------------------------------------------------


def test_jax_tells_the_same_sentence(recwarn):
    jax = pytest.importorskip("jax")
    layer, key = mg.jax.LocalSearchLayer(TOP, 3), jax.random.key(0)
    for wrong, got in (
        (np.full((2, 5), np.nan), "nan"),
        ("abc", "U3"),
        ([[0.0], [0.0, 1.0]], "list"),
        (RaisingArray(), "no array"),
    ):
        assert_complains(lambda wrong=wrong: layer(wrong, key), "theta", got)
    assert layer(np.zeros((2, 5), ">f8"), key).shape == (2, 5)


PICTURES = [
    ("instance", lambda: mg.plot.places(3), "instance", "got 3"),
    ("timetable", lambda: mg.plot.timetable(INSTANCE, [9]), "route", "1..3, got 9"),
    ("title", lambda: mg.plot.routes(INSTANCE, [[1]], title=3), "title", "got 3"),
    ("path", lambda: mg.plot.routes(INSTANCE, [[1]], path=3), "path", "got 3"),
    ("kind of file", lambda: mg.plot.routes(INSTANCE, [[1]], path="plan.nothing"), "path", "plan.nothing"),
    ("place of the file", lambda: mg.plot.routes(INSTANCE, [[1]], path="/dev/null/plan.png"), "path", "/dev/null"),
    ("axes", lambda: mg.plot.routes(INSTANCE, [[1]], axes=[1, 2]), "axes", r"got \[1, 2\]"),
]


@pytest.mark.parametrize(("call", "argument", "got"), rows(PICTURES))
def test_a_hostile_argument_of_a_picture_is_named(call, argument, got, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert_complains(call, argument, got)


MODULES_OF_A_USER = {
    "raises": ("raise RuntimeError('no')", "RuntimeError: no in raises.py:1"),
    "syntax": ("def problem(:", "SyntaxError"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "function": ("def problem():\n    raise KeyError('no')", "KeyError: 'no' in function.py:2"),
    "arguments": ("def problem(n):\n    return n", "missing 1 required"),
}


@pytest.mark.parametrize("name", MODULES_OF_A_USER)
def test_the_command_tells_what_the_users_module_raises(name, tmp_path, capsys):
    text, message = MODULES_OF_A_USER[name]
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert _cli.main(["check", f"{tmp_path / name}.py:problem"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("target", ["sys:exit", "builtins:exit", "os:_exit", "a\0b:c", "..:x", "x" * 5000 + ":y", ":", "sys:"])
def test_the_command_is_not_ended_by_its_target(target, capsys):
    assert _cli.main(["check", "--", target]) == 2
    error = capsys.readouterr().err
    assert error.startswith("movegrad check: target must ")
    assert len(error.splitlines()) == 1
    assert len(error) < 350


def test_a_long_number_of_the_command_is_cut(capsys):
    with pytest.raises(SystemExit, match="2"):
        _cli.main(["check", "sys:exit", "--seed", "9" * 5000])
    assert len(capsys.readouterr().err.splitlines()[-1]) < 300
