"""The disk cache of kernels: a new process finds them, and never one of other code."""

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine.compile import generate, pure
from movegrad.engine.reach import Reach

SCRIPT = """
import sys
from dataclasses import replace
import numpy as np
import movegrad as mg
import helpers
from helpers import SCALE, twice
from movegrad.engine import Options, layout_of
from movegrad.engine.bind import chain_kernel
from movegrad.problems.hypercube import FLIP

SHIFT = {shift}

@mg.jit
def gain(data, state, move):
    return {formula}

cube = mg.problems.Hypercube(2)
problem = mg.Problem(cube.data, cube.state, [replace(FLIP, gain=gain)], 2)
out = mg.sample(problem, np.zeros(2), steps=1, start=np.zeros(2, np.uint8), trace=1)
kernel = chain_kernel(layout_of(problem).kind, Options())
print(out.info.trace[0, 0, 0, 0] if out.info.accepted[0] else 0.0, sum(kernel.stats.cache_hits.values()))
"""


def run(folder: Path, formula: str = "twice(SCALE) + SHIFT", shift: float = 0.0, helper: str = "2.0 * x", scale: float = 50.0):
    """Objective after one accepted step, which is the gain, and the number of cache hits, in a process of its own."""
    (folder / "helpers.py").write_text(
        f"import movegrad as mg\nSCALE = {scale}\n@mg.jit\ndef twice(x):\n    return {helper}\n", encoding="utf-8"
    )
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT.format(formula=formula, shift=shift)), encoding="utf-8")
    environment = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PATH": "", "PYTHONPATH": str(Path(mg.__file__).parents[1])}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python takes a file of equal size, edited within the second, for the same
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    value, hits = done.stdout.split()
    return float(value), int(hits)


def test_cache_is_found_by_the_next_process_and_never_stale(tmp_path):
    assert run(tmp_path) == (100.0, 0)  # cold
    assert run(tmp_path) == (100.0, 1)  # warm
    assert run(tmp_path, helper="3.0 * x") == (150.0, 0)  # edited helper in another module
    assert run(tmp_path) == (100.0, 1)  # and the first one is still there


@pytest.mark.slow
def test_cache_is_never_stale_whatever_is_edited(tmp_path):
    assert run(tmp_path) == (100.0, 0)
    assert run(tmp_path, formula="twice(SCALE) + 1.0") == (101.0, 0)  # edited move
    assert run(tmp_path, helper="3.0 * x") == (150.0, 0)  # edited helper in another module
    assert run(tmp_path, scale=60.0) == (120.0, 0)  # edited constant of another module
    assert run(tmp_path, shift=7.0) == (107.0, 0)  # edited constant of the same module
    assert run(tmp_path, formula="helpers.twice(helpers.SCALE)", scale=10.0) == (20.0, 0)  # reached through the module's name
    assert run(tmp_path, formula="helpers.twice(helpers.SCALE)", scale=10.0, helper="4.0 * x") == (40.0, 0)
    assert run(tmp_path) == (100.0, 1)  # and the first one is still there


def scaled_gain(factor):
    @mg.jit
    def gain(data, state, move):
        return factor * (1.0 - 2.0 * state.y[move])

    return gain


def test_two_sets_of_moves_in_one_process_do_not_mix():
    from dataclasses import replace

    from movegrad.problems.hypercube import FLIP

    cube = mg.problems.Hypercube(3)
    means = []
    for factor in (30.0, -30.0, 30.0):
        problem = mg.Problem(cube.data, cube.state, [replace(FLIP, gain=scaled_gain(factor))], 3)
        means.append(mg.sample(problem, np.zeros(3), steps=400, burn_in=100).mean)
    np.testing.assert_array_equal(means[0], 1.0)
    np.testing.assert_array_equal(means[1], 0.0)
    np.testing.assert_array_equal(means[2], 1.0)


def test_equal_content_is_compiled_once():
    assert Reach(scaled_gain(2.0)).fingerprint == Reach(scaled_gain(2.0)).fingerprint
    assert Reach(scaled_gain(2.0)).fingerprint != Reach(scaled_gain(2.5)).fingerprint


@mg.jit
def helper(rng, n):
    return mg.integer(rng, n) + 1


@mg.jit
def caller(rng, n):
    return helper(rng, n)


def test_pure_version_runs_helpers_in_python():
    class Fixed:
        def integer(self, n):
            return n - 1

    assert pure(caller)(Fixed(), 5) == 5


@mg.jit
def allocating_gain(data, state, move):
    return np.zeros(3).sum()


@mg.jit
def misspelled_gain(data, state, move):
    return state.nothing


@pytest.mark.parametrize(
    ("gain", "message"),
    [
        (
            allocating_gain,
            r"gain of move 'flip' of Problem must compile for a kernel, but it allocates memory "
            r"\(allocating_gain, .*test_specialise.py:\d+\)",
        ),
        (
            misspelled_gain,
            r"gain of move 'flip' of Problem must compile for a kernel, but Unknown attribute 'nothing' .*test_specialise.py:\d+",
        ),
    ],
)
def test_function_that_does_not_compile_is_named(gain, message):
    from dataclasses import replace

    from movegrad.problems.hypercube import FLIP

    cube = mg.problems.Hypercube(3)
    problem = mg.Problem(cube.data, cube.state, [replace(FLIP, gain=gain)], 3)
    with pytest.raises(ValueError, match=message):
        mg.sample(problem, np.zeros(3), steps=1)


def test_the_lines_that_a_generated_function_claims_can_be_read():
    """Numba reads them when it saves a kernel, and Python 3.13 raises where they begin inside a string."""
    made = generate("def twice(x):\n    return 2 * x\n", "twice")
    lines, _ = inspect.getsourcelines(made.py_func)
    assert lines[0].startswith("def generate(")
    assert ast.parse("".join(lines))
    assert made(21) == 42
