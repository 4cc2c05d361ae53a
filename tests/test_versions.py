"""The oldest versions that are tested are the oldest that are allowed."""

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = dict(re.findall(r"^(\w+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8"), re.M))


def release(version):
    return tuple(int(part) for part in re.match(r"[\d.]*\d", version)[0].split("."))


@pytest.mark.parametrize("name", ["numpy", "numba", "torch"])
def test_the_oldest_version_allowed_is_the_one_that_is_tested(name):
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["torch"]]
    (floor,) = [requirement.partition(">=")[2] for requirement in wanted if requirement.startswith(f"{name}>=")]
    assert (*release(floor), 0, 0)[:3] == release(OLDEST[name])


@pytest.mark.skipif(Path(sys.prefix).name != ".venv-oldest", reason="for make test-oldest")
@pytest.mark.parametrize("name", OLDEST)
def test_the_oldest_versions_are_installed(name):
    assert release(importlib.metadata.version(name)) == release(OLDEST[name])
