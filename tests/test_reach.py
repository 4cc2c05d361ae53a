"""Kernels follow what their functions read: every kind of change is seen, in this process and by the next one."""

import subprocess
import sys
from importlib import import_module, reload
from pathlib import Path

import numpy as np
import pytest

import movegrad as mg
from movegrad._calls import observe
from movegrad.engine.reach import LARGEST_CONSTANT, Reach

PACKAGE = {
    "reach_pkg/__init__.py": "",
    "reach_pkg/sub/__init__.py": "",
    "reach_pkg/sub/deep.py": """
        import movegrad as mg
        CONST = 1.0
        INNER = 2.0
        @mg.jit
        def helper(x):
            return x * INNER
        @mg.jit
        def other(x):
            return x * 10.0
    """,
    "reach_use.py": """
        import enum
        from typing import NamedTuple
        import numpy as np
        import movegrad as mg
        import reach_pkg.sub.deep
        from reach_pkg.sub.deep import helper

        class Color(enum.Enum):
            RED = 3.0

        class Setting(NamedTuple):
            scale: float

        SCALE = 4.0
        TABLE = np.array([5.0, 0.0])
        TABLES = (np.array([6.0]), np.array([0]))
        SETTING = Setting(7.0)
        FACTOR = 8.0
        LARGE = np.full(200_000, 11.0)

        @mg.jit
        def in_a_tuple(x):
            return x * FACTOR

        FUNCTIONS = (in_a_tuple,)

        def made():
            import reach_pkg.sub.deep as module
            factor = 9.0

            @mg.jit
            def closure(x):
                return x * factor + module.CONST

            def change(value):
                nonlocal factor
                factor = value

            return closure, change

        closure, change_closure = made()

        @mg.jit
        def by_default(x, function=in_a_tuple):
            return function(x)

        @mg.jit
        def statistic(data, solution, out):
            alias = reach_pkg.sub.deep
            out[0] = reach_pkg.sub.deep.CONST
            out[1] = alias.CONST
            out[2] = helper(1.0)
            out[3] = reach_pkg.sub.deep.other(1.0)
            out[4] = Color.RED.value
            out[5] = SCALE
            out[6] = TABLE[0]
            out[7] = TABLES[0][0]
            out[8] = SETTING.scale
            out[9] = FUNCTIONS[0](1.0)
            out[10] = closure(1.0)
            out[11] = by_default(1.0)
            out[12] = abs(-12.0)
            out[13] = LARGE[3]
    """,
}
VALUES = [1.0, 1.0, 2.0, 10.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 8.0, 12.0, 11.0]


@mg.jit
def minus(x):
    return -x


def rebind(module, name, value):
    def change(modules):
        old = vars(modules[module]).get(name)
        setattr(modules[module], name, value(modules) if callable(value) and not hasattr(value, "py_func") else value)
        return lambda: delattr(modules[module], name) if old is None else setattr(modules[module], name, old)

    return change


def edit(name, index):
    def change(modules):
        array = getattr(modules["use"], name)
        array = array[0] if isinstance(array, tuple) else array
        array[index] += 100.0
        return lambda: array.__setitem__(index, array[index] - 100.0)

    return change


def change_closure(modules):
    modules["use"].change_closure(90.0)
    return lambda: modules["use"].change_closure(9.0)


def other_color(modules):
    import enum

    return enum.Enum("Color", {"RED": 30.0})


# A change, and the entries of T that are another number then.
CHANGES = {
    "constant in a module of a module, in a closure too": (rebind("deep", "CONST", 2.0), {0: 2, 1: 2, 10: 11}),
    "constant beside a helper": (rebind("deep", "INNER", 20.0), {2: 20}),
    "helper": (rebind("use", "helper", minus), {2: -1}),
    "helper in a module": (rebind("deep", "other", minus), {3: -1}),
    "member of an enum": (rebind("use", "Color", other_color), {4: 30}),
    "constant": (rebind("use", "SCALE", 40.0), {5: 40}),
    "constant of another type": (rebind("use", "SCALE", 4), {5: 4}),
    "array edited in place": (edit("TABLE", 0), {6: 105}),
    "array in a tuple edited in place": (edit("TABLES", 0), {7: 106}),
    "constant tuple": (rebind("use", "SETTING", lambda modules: modules["use"].Setting(70.0)), {8: 70}),
    "constant of functions in a tuple and in a default": (rebind("use", "FACTOR", 80.0), {9: 80, 11: 80}),
    "variable of a closure": (change_closure, {10: 92}),
    "name that was Python's own": (rebind("use", "abs", minus), {}),
    "large array, another one": (rebind("use", "LARGE", np.full(200_000, 110.0)), {13: 110}),
}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """The package, imported anew."""
    write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"deep": "reach_pkg.sub.deep", "use": "reach_use"}
    yield {key: reload(import_module(name)) for key, name in names.items()}
    for name in [name for name in sys.modules if name.startswith("reach_")]:
        del sys.modules[name]


def write(folder: Path, old: str = "", new: str = "") -> None:
    for name, text in PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = [line[8:] for line in text.replace(old, new or old).splitlines()]
        (folder / name).write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed_and_undone(name, modules):
    reach = Reach(modules["use"].statistic)
    assert reach.unchanged()
    undo = CHANGES[name][0](modules)
    assert not reach.unchanged()
    assert Reach(modules["use"].statistic).fingerprint != reach.fingerprint
    undo()
    assert Reach(modules["use"].statistic).fingerprint == reach.fingerprint


def times(factor):
    return mg.jit(lambda x: factor * x)


def in_turn(first, second, third):
    return mg.jit(lambda x: first(second(third(x))))


def test_functions_of_one_name_are_told_apart():
    a, b = times(2.0), times(3.0)
    assert Reach(in_turn(a, b, a)).fingerprint != Reach(in_turn(a, b, b)).fingerprint
    assert Reach(in_turn(a, b, a)).fingerprint == Reach(in_turn(a, b, a)).fingerprint


def test_what_is_not_read_does_not_count(modules):
    """A name of the module that is only an attribute in the code, and a constant of a module that is only passed through."""
    reach = Reach(modules["use"].statistic)
    modules["use"].value = modules["use"].out = modules["use"].CONST = 1.0
    sys.modules["reach_pkg"].CONST = 1.0
    modules["use"].LARGE[3] = 12.0  # compiled code reads it where it is
    assert modules["use"].LARGE.nbytes > LARGEST_CONSTANT
    assert reach.unchanged()


@pytest.mark.filterwarnings("ignore:Cannot cache compiled function")  # such a large array cannot be kept on disk
@pytest.mark.filterwarnings("ignore:First-class function type")
def test_a_kernel_sees_all_changes_at_its_next_call(modules):
    cube = mg.problems.Hypercube(14)
    problem = mg.Problem(cube.data, cube.state, cube.moves, 14, statistic=modules["use"].statistic)
    solution = np.zeros((1, 14), np.uint8)
    assert observe(problem, solution)[1][0].tolist() == VALUES
    wanted = np.array(VALUES)
    undo = []
    for change, entries in CHANGES.values():
        undo.append(change(modules))
        wanted[list(entries)] = list(entries.values())
    assert observe(problem, solution)[1][0].tolist() == wanted.tolist()
    modules["use"].LARGE[3] = 120.0
    wanted[13] = 120.0
    assert observe(problem, solution)[1][0].tolist() == wanted.tolist()
    for take_back in reversed(undo):
        take_back()
    assert observe(problem, solution)[1][0].tolist() == VALUES


SCRIPT = (
    "import reach_use; from movegrad.engine.reach import Reach; del reach_use.LARGE; print(Reach(reach_use.statistic).fingerprint)"
)


def fingerprint(folder: Path, seed: int) -> str:
    environment = {"PYTHONPATH": f"{Path(mg.__file__).parents[1]}:{folder}", "PYTHONHASHSEED": str(seed), "PATH": ""}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_fingerprint_is_the_same_in_the_next_process_unless_something_is_edited(tmp_path):
    write(tmp_path)
    first = fingerprint(tmp_path, 1)
    assert fingerprint(tmp_path, 2) == first
    write(tmp_path, "RED = 3.0", "RED = 30.0")  # a member of an enum is pickled by its name
    assert fingerprint(tmp_path, 1) != first


def test_exact_enumeration_follows_a_constant(modules):
    use = modules["use"]
    cube = mg.problems.Hypercube(2)
    phi = mg.jit(eval("lambda data, y: SCALE * y[0]", vars(use)))
    problem = mg.Problem(cube.data, cube.state, cube.moves, 2, phi=phi)
    for scale in (4.0, -4.0):
        use.SCALE = scale
        assert mg.exact.marginals(problem, np.zeros(2))[0] == pytest.approx(1.0 / (1.0 + np.exp(-scale)))


def test_numba_that_does_not_compile_is_refused_with_one_sentence():
    environment = {"PYTHONPATH": str(Path(mg.__file__).parents[1]), "PATH": "", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", "import movegrad"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: movegrad runs compiled code only: unset NUMBA_DISABLE_JIT")
