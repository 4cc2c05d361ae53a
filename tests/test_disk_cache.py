"""The folder of compiled kernels may be damaged, foreign, missing or not writable: calls go on, with one warning that names it."""

import errno
import hashlib
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import pytest
from numba.core import config

import movegrad as mg
from movegrad.engine import disk_cache
from movegrad.engine.compile import _KERNEL_OPTIONS


def double(x):
    return 2 * x


def fresh():
    """A kernel as a new process makes it."""
    return disk_cache.keep_on_disk(numba.njit(**_KERNEL_OPTIONS)(double))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own for kernels, in which one for integers lies."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_warned", set())
    assert fresh()(3) == 6
    assert hits(fresh(), 3) == 1
    return tmp_path


def hits(kernel, x) -> int:
    assert kernel(x) == 2 * x
    return sum(kernel.stats.cache_hits.values())


def stored(folder: Path) -> Path:
    (path,) = folder.rglob("*.nbc")
    return path


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [lambda c: b"", lambda c: c[:-1], lambda c: c[:40], lambda c: b"x" * len(c), flip])
def test_a_damaged_file_is_replaced(damage, folder):
    path = stored(folder)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=f"cache folder {path.parent} cannot be used .* is damaged"):
        assert hits(fresh(), 3) == 0
    assert hits(fresh(), 3) == 1


def test_what_cannot_be_loaded_is_compiled_anew(folder, monkeypatch):
    """Such as code for another processor, or of another version of Numba that claims to be this one."""
    monkeypatch.setattr(disk_cache.FunctionCache, "_load_overload", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match=r"division by zero"):
        assert hits(fresh(), 3) == 0


def test_records_of_a_module_without_a_name_are_no_fault_of_the_folder(folder, monkeypatch, recwarn):
    """What ``runpy.run_path`` makes cannot be imported by the next process: it compiles, and says nothing wrong."""
    path = stored(folder)
    content = pickle.dumps(os.path.join).replace(b"posixpath", b"<dynamic>")
    path.write_bytes(hashlib.sha256(content).digest() + content)
    assert hits(fresh(), 3) == 0
    assert not recwarn.list


def test_another_version_of_numba_has_files_of_its_own(folder, monkeypatch):
    monkeypatch.setattr(disk_cache.numba, "__version__", "0.0")
    assert hits(fresh(), 3) == 0
    assert hits(fresh(), 3) == 1
    assert len(list(folder.rglob("*.nbc"))) == 2


def test_signatures_do_not_share_a_file(folder):
    assert hits(fresh(), 1.5) == 0
    assert hits(fresh(), 1.5) == 1
    assert hits(fresh(), 3) == 1


def test_a_full_disk_is_no_reason_to_stop(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert hits(fresh(), 1.5) == 0
    assert not list(folder.rglob("*.tmp"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hits(fresh(), 1.5) == 0  # warned once


def test_a_folder_that_is_a_file_is_named_and_another_one_is_used(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("")
    monkeypatch.setattr(config, "CACHE_DIR", str(path))
    with pytest.warns(RuntimeWarning, match=f"cache folder {path} cannot be used .* is used instead"):
        assert hits(fresh(), 3) in (0, 1)


SCRIPT = """
import numpy as np, movegrad as mg
from movegrad._calls import observe
print(observe(mg.problems.TopK(4, k=2), np.array([[1, 0, 1, 0]]))[1])
"""


READ_ONLY = """
import numba.core.caching
def unwritable(self):
    raise OSError("Read-only file system")
numba.core.caching._CacheLocator.ensure_cache_path = unwritable
"""


def start(folder: Path, script: str = SCRIPT) -> subprocess.Popen:
    environment = {
        "PYTHONPATH": str(Path(mg.__file__).parents[1]),
        "PATH": "",
        "NUMBA_CACHE_DIR": str(folder),
        "MOVEGRAD_QUIET": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_where_no_folder_can_be_written_kernels_live_in_memory(tmp_path):
    output, errors = start(tmp_path, READ_ONLY + SCRIPT).communicate(timeout=240)
    assert output.strip() == "[[1. 0. 1. 0.]]"
    assert errors.count("Warning") == 1
    assert f"cache folder {tmp_path} cannot be used" in errors


def test_processes_may_compile_the_same_kernel_at_once(tmp_path):
    for process in [start(tmp_path) for _ in range(2)]:
        output, errors = process.communicate(timeout=240)
        assert (output.strip(), errors) == ("[[1. 0. 1. 0.]]", "")
    assert len(list(tmp_path.rglob("*observe*.nbc"))) == 1
    assert not list(tmp_path.rglob("*.tmp"))
