"""``movegrad doctor``: what it says is so, and what is wrong is said."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import movegrad as mg
from movegrad import _doctor
from movegrad._cli import main


def report(capsys) -> dict[str, str]:
    out = capsys.readouterr().out
    return {line.split()[0]: line.partition(" ")[2].strip() for line in out.splitlines()}


def test_the_report_names_versions_threads_cache_gpu_and_a_passed_self_test(capsys):
    assert main(["doctor"]) == 0
    told = report(capsys)
    assert list(told) == ["movegrad", "python", "system", "packages", "threads", "cache", "GPU", "self-test"]
    assert told["movegrad"].startswith(mg.__version__)
    assert f"numpy {np.__version__}" in told["packages"]
    assert told["threads"].startswith(f"{mg.get_threads()} for chains")
    assert told["self-test"].startswith("passed")


def test_kernels_lie_where_the_report_says(tmp_path, capsys):
    """A process of its own, since Numba reads the setting when it is imported."""
    import os
    import subprocess

    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "MOVEGRAD_QUIET": "1"}
    done = subprocess.run([sys.executable, "-m", "movegrad", "doctor"], env=environment, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("cache"))
    assert f"{tmp_path}" in line
    assert "0 kernels" in line  # before the self-test
    folder = line.split()[1].rstrip(":")
    assert list(tmp_path.rglob("*.nbc"))
    assert all(str(file.parent) == folder for file in tmp_path.rglob("*.nbc"))


def test_a_folder_that_cannot_be_written_to_is_told(capsys, monkeypatch):
    monkeypatch.setattr(_doctor, "keep_on_disk", lambda kernel: SimpleNamespace(_cache=SimpleNamespace()))
    assert _doctor.cache_folder() is None
    assert main(["doctor"]) == 1
    assert "every process compiles anew" in report(capsys)["cache"]


def test_a_failed_self_test_is_told_and_is_the_exit_status(capsys, monkeypatch):
    monkeypatch.setattr(_doctor.exact, "marginals", lambda problem, theta: np.full(6, 0.9))
    assert main(["doctor"]) == 1
    assert "FAILED: a marginal is" in report(capsys)["self-test"]


def test_an_error_in_the_self_test_is_a_line(capsys, monkeypatch):
    def broken(*arguments, **more):
        raise OSError("no such thing")

    monkeypatch.setattr(_doctor, "sample", broken)
    assert main(["doctor"]) == 1
    assert report(capsys)["self-test"] == "FAILED: OSError: no such thing"


@pytest.mark.parametrize("missing", ["numba_cuda"])
def test_why_there_is_no_gpu_is_told(missing, monkeypatch):
    found = _doctor.importlib.util.find_spec
    monkeypatch.setattr(_doctor.importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    assert "numba-cuda is not installed" in _doctor.gpu()


def test_a_gpu_is_named(monkeypatch):
    pytest.importorskip("numba_cuda")
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: True, device_count=lambda: 1, get_device_name=lambda k: "NVIDIA H200")
    )
    monkeypatch.setattr(_doctor.importlib, "import_module", lambda name: torch)
    assert _doctor.gpu() == "NVIDIA H200 (by torch)"
