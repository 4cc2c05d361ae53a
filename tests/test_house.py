"""The house itself: what is public, who crosses which rooms, what compiling tells, and names that users may still have."""

import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.compiler import Flags

import movegrad as mg
from movegrad.engine import HOST, compile
from movegrad.problems import Hypercube, TopK

SOURCE = Path(mg.__file__).parent
PUBLIC = ["movegrad"] + [
    f"movegrad.{name}"
    for name in (
        "check", "diagnostics", "exact", "integrations", "integrations.pyepo", "integrations.pyvrp", "jax", "neighborhoods", "plot",
        "problem", "problems", "problems.routing", "sampling", "schedules", "start", "torch",
    )
]  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_says_what_is_public(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


# --- rooms -------------------------------------------------------------------------------------------------------------------


def imports(path: Path) -> set[str]:
    """The modules of movegrad that a file imports when it is imported."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(("from", "import")))
    return {line.split()[1] for line in lines if line.split()[1].startswith("movegrad")}


FRONT_ENDS = [
    "_calls",
    "_torch_autograd",
    "_torch_ops",
    "_torch_state",
    "diagnostics",
    "exact",
    "jax",
    "neighborhoods",
    "plot",
    "problem",
    "sampling",
    "start",
    "torch",
    "integrations/pyepo",
]


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_front_ends_enter_the_engine_by_its_door(name):
    assert not {m for m in imports(SOURCE / f"{name}.py") if m.startswith(("movegrad.engine.", "movegrad.cuda"))}


@pytest.mark.parametrize("path", sorted((SOURCE / "engine").glob("*.py")), ids=lambda path: path.stem)
def test_the_engine_knows_nothing_of_front_ends_and_cuda(path):
    allowed = ("movegrad.engine", "movegrad._validate", "movegrad.schedules")
    assert not {m for m in imports(path) if not m.startswith(allowed)}


def test_a_loss_on_the_cpu_crosses_eight_modules():
    torch = pytest.importorskip("torch")
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TopK(5, 2), steps=1))
    theta, y = torch.zeros(3, 5, requires_grad=True), torch.tensor([[1, 1, 0, 0, 0]] * 3)
    crossed = set()

    def see(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            crossed.add(frame.f_code.co_filename)

    loss(theta, y)
    sys.setprofile(see)
    try:
        loss(theta, y)
    finally:
        sys.setprofile(None)
    assert len(crossed) <= 8, crossed


def test_an_observed_solution_is_asked_once_whether_it_is_in_the_set(monkeypatch):
    """Where it is observed; chains trust it."""
    torch = pytest.importorskip("torch")
    asked = []
    observe = HOST.observe
    monkeypatch.setattr(HOST, "observe", lambda problem, y, name: asked.append(len(y)) or observe(problem, y, name), raising=False)
    begins = []
    execute = HOST.execute
    monkeypatch.setattr(
        HOST, "execute", lambda b, s, begin, *more: begins.append(begin) or execute(b, s, begin, *more), raising=False
    )
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TopK(5, 2), steps=3))
    loss(torch.zeros(2, 5), torch.tensor([[1, 1, 0, 0, 0]] * 2))
    assert asked == [2]
    assert (begins[0].pending == mg.engine.TRUSTED).all()


def test_importing_the_room_of_cuda_changes_nothing_for_other_kernels():
    pytest.importorskip("numba_cuda", reason="needs numba-cuda: pip install 'movegrad[cuda]'")
    script = """
from numba.cuda.cpython import rangeobj
before = list(rangeobj.registry.functions)
import movegrad.cuda.kernel
assert list(rangeobj.registry.functions) == before
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""})


# --- compiling ---------------------------------------------------------------------------------------------------------------


def test_what_compiles_for_long_is_announced_once(capfd, monkeypatch):
    monkeypatch.delenv("MOVEGRAD_QUIET", raising=False)
    monkeypatch.setattr(compile, "_PATIENCE", 0.01)
    monkeypatch.setattr(compile, "_announced", set())
    for _ in range(2):
        with compile.announced("Sudoku"):
            time.sleep(0.2)
    with compile.announced("quick"):
        pass
    assert capfd.readouterr().err == "movegrad: compiling Sudoku (once, kept on disk) …\n"


def test_the_announcement_can_be_turned_off(capfd, monkeypatch):
    monkeypatch.setattr(compile, "_PATIENCE", 0.01)
    monkeypatch.setenv("MOVEGRAD_QUIET", "1")
    with compile.announced("Sudoku in silence"):
        time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_numba_is_left_as_it_was_found():
    def now() -> list:
        return [getattr(owner, name) for owner, name in compile._LEAN]

    usual = now()
    with compile.lean():
        assert not any(one is other for one, other in zip(usual, now(), strict=True))
    assert now() == usual
    with pytest.raises(ZeroDivisionError), compile.lean():
        1 / 0  # noqa: B018
    assert now() == usual


def test_flags_have_the_hash_that_numba_gives_them():
    """Its tables outlast the time in which we stand in for it."""
    flags = Flags()
    usual = hash(flags)
    with compile.lean():
        assert hash(flags) == usual
        assert flags == Flags()
        assert flags != 1
        flags.release_gil = True
        assert flags != Flags()
        flags.release_gil = False
        assert flags == Flags()  # set to its default


FLAG = OTHER = False


def template(x):
    if FLAG and x > 0:
        return 1
    if FLAG or OTHER or x > 5:
        x += 10 if OTHER else 20
    return x


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_code_behind_a_flag_is_left_out_and_the_rest_is_the_same(flag, other):
    bound = compile.specialize(template, FLAG=flag, OTHER=other)
    plain = {"FLAG": flag, "OTHER": other}
    exec(compile_source(), plain)
    for x in (-3, 3, 7):
        assert bound.py_func(x) == plain["template"](x)
    assert not {"FLAG", "OTHER"} & set(bound.py_func.__code__.co_names)


def compile_source() -> str:
    import inspect

    return inspect.getsource(template)


# --- records in kernels look like NamedTuples ----------------------------------------------------------------------------------


@mg.jit
def unpacked_phi(data, y):
    radii, cumulative, linear = data
    return linear[0] * y[0] + len(data) + data[-1][1] * y[1] + (radii[0] + cumulative[0]) * 0.0


@mg.jit
def unpacked_gain(data, state, move):
    y, order = state
    return data[2][move] * (1 - 2 * np.int64(state[0][move])) + 0.0 * (len(order) + len(state) + y[0])


def test_functions_may_unpack_and_index_data_and_state():
    cube = Hypercube(2, phi=np.array([1.0, -1.0]))
    flip = mg.Move("flip", cube.moves[0].propose, cube.moves[0].change, cube.moves[0].apply, gain=unpacked_gain)
    problem = mg.Problem(cube.data, cube.state, [flip], 2, phi=unpacked_phi, contains=cube.functions.contains, states=cube.states)
    assert mg.check(problem).ok


# --- names that users may still have -------------------------------------------------------------------------------------------


def test_old_names_of_results_warn_and_work():
    out, found = mg.sample(Hypercube(3), np.zeros(3), steps=5), mg.solve(Hypercube(3), np.ones(3), steps=50)
    with pytest.warns(DeprecationWarning, match="state of a Sample is called solutions now"):
        np.testing.assert_array_equal(out.state, out.solutions)
    with pytest.warns(DeprecationWarning, match="state of a Solution is called solution now"):
        np.testing.assert_array_equal(found.state, found.solution)

    def start(request):
        with pytest.warns(DeprecationWarning, match="keys of a Request are called indices now"):
            np.testing.assert_array_equal(request.keys, request.indices)
        return [None]

    mg.sample(Hypercube(3), np.zeros(3), steps=5, start=start)


class Twice(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@mg.jit
def looped_phi(data, y):
    total = 0.0
    for values in data:
        for i in range(len(y)):
            total += values[i] * y[i]
    return total


@mg.jit
def indexed_gain(data, state, move):
    total = 0.0
    for k in range(-1, len(data) - 1):
        total += data[k][move] * (1 - 2 * np.int64(state.y[move]))
    return total


def test_functions_may_loop_over_data_whose_fields_are_alike():
    cube = Hypercube(2)
    flip = mg.Move("flip", cube.moves[0].propose, cube.moves[0].change, cube.moves[0].apply, gain=indexed_gain)
    data = Twice(np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    problem = mg.Problem(data, cube.state, [flip], 2, prepare=cube.functions.prepare, phi=looped_phi, states=cube.states)
    assert mg.check(problem).ok
