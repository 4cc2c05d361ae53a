"""Hostile values for arguments that are neither numbers nor arrays: routes, names of modules, paths, saved states, moves."""

import atexit
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import moves

ROUTES: list[Any] = [
    [[1], [1]], [[0]], [[4]], [[-1]], [[1.0]], [[1.5]], [[True]], [["a"]], ["ab"], [[None]], [None], [1, 2, 3], [1, None],
    [[1], 2], [2, [1]], [[[1]], [2]], [[1, [2]]], [[[1]], [[2], [3]]], [[[1, 2]], [[3]], [[9]]], [[[1], 2]], [[], []], [[[]]],
    [()], [{}], [{1: 2}], [{1, 2}], "1,2", b"12", 5, None, {0: [1]}, [[10**400]], [[2**63]], [[float("nan")]], [[float("inf")]],
    [[1 + 0j]], [np.array([1, 2]), [3]], [np.array([[1], [2]])], [np.array(1)], np.array([1, 2]), np.array([[1, 2], [3, 3]]),
    np.array([0, 2, 0, 9]), np.array([0, 2, 1, 0]), np.array([1, 0, 0, 0]), np.array([0, -1, -1, -1]), np.array([0, -2, 0, 0]),
    np.array([0, 1, 0, 0]), np.array([0.0, 2.0, 0.0, 0.0]), np.array([0, 2, 0, 0, 0]), [[1, 2, 3]], [[1, 2], [3], [1]],
    [range(1, 3), [3]], [iter([1, 2]), [3]], iter([[1, 2], [3]]), [[np.int64(1)], [np.uint8(3)]], [[np.float64(1.0)], [3]],
    [[np.array(1)], [3]], [[np.array([1])], [3]], [[b"1"], [3]], [[object()]], [[[1, 2], [3]], [[3]]],
]  # fmt: skip

# What a user may type for MODULE:OBJECT. FOLDER has the files below.
COMMANDS = [
    "sys:exit", "os:_exit", "sys:", ":x", ":", "", "tests.fuzz.targets", "tests.fuzz.targets:", "tests.fuzz.targets:TOP.x",
    "tests.fuzz.targets:absent", "tests.fuzz.targets:VRP", "tests.fuzz.targets:PAIR", "tests.fuzz.targets:TopK", "json:loads",
    "builtins:input", "builtins:exit", "builtins:KeyboardInterrupt", "builtins:print", "..:x", ".:x", "a b:c", "tests/fuzz:TOP",
    "tests/fuzz/targets.py:TOP", "tests/fuzz/absent.py:TOP", "tests/fuzz/targets.py", ".py:x", "/:x", "/dev/null:x",
    "/dev/null.py:x", "FOLDER/raises.py:x", "FOLDER/syntax.py:x", "FOLDER/exits.py:x", "FOLDER/latin.py:x",
    "FOLDER/late.py:raises", "FOLDER/late.py:exits", "FOLDER/late.py:attribute", "a\0b:c", "\ud800:x", "x" * 5000 + ":y",
    "x:" + "y" * 5000, "--help", "-h", "--", "é:ü", "1:2", "None:None",
]  # fmt: skip
WORDS = [
    "0", "-1", "", "abc", "1.5", "1e3", "0x10", "²", "१", "9" * 500, "9" * 5000, "9223372036854775808", "True", "None", " 7 ",
    "1_000", "nan", "\0", "--help",
]  # fmt: skip
PATHS = [
    "", ".", "/", "/dev/null/x.png", "/proc/x.png", "plan.nothing", "plan", "a\0b.png", "x" * 5000, b"plan.png", 3,
    ["a"], Path("/"),
]  # fmt: skip

# What a damaged checkpoint may hold for a layer or a loss.
STATES: list[Any] = [
    None, {}, [], 3, "abc", {"calls": 1}, {"ends": None}, {"calls": None, "ends": None}, {"calls": -1, "ends": None},
    {"calls": 1.5, "ends": None}, {"calls": "3", "ends": None}, {"calls": 2**63, "ends": None}, {"calls": 10**400, "ends": None},
    {"calls": 1, "ends": 3}, {"calls": 1, "ends": {0: None}}, {"calls": 1, "ends": {0: np.zeros((2, 5))}},
    {"calls": 1, "ends": {"a": 3}}, {"calls": 1, "ends": []}, {"persistent": None}, {"persistent": {}, "start": {0: 3}},
    {"persistent": 3, "start": 3}, {"persistent": None, "start": None}, pickle.dumps({"calls": 1}),
    {"calls": 1, "ends": None, "more": 1},
]  # fmt: skip

POOLS: dict[str, list[Any]] = {"routes": ROUTES, "commands": COMMANDS, "words": WORDS, "paths": PATHS, "states": STATES}

FILES = {
    "raises.py": b"raise RuntimeError('no')",
    "syntax.py": b"def x(:",
    "exits.py": b"import sys; sys.exit(3)",
    "latin.py": b"x = '\xe9'",
    "late.py": b"""
def raises():
    raise KeyError('no')
def exits():
    raise SystemExit(0)
def __getattr__(name):
    raise OSError(name)
""",
}


def special(pool: str) -> list[tuple[str, Any]]:
    """(label, value) of a pool."""
    if pool.startswith("moves."):
        return list(moves.WRONG[pool.removeprefix("moves.")].items())
    return [(f"{pool}: {value!r:.40}", value) for value in POOLS[pool]]


def folder() -> Path:
    """A folder of modules that cannot be imported, and of one whose functions fail."""
    path = Path(tempfile.mkdtemp(prefix="movegrad-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    return path
