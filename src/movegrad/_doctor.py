"""``movegrad doctor``: what a bug report needs to say, and a self-test of ten seconds at most."""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numba
import numpy as np

from movegrad import exact
from movegrad._version import __version__
from movegrad.check import check
from movegrad.engine import get_threads, keep_on_disk, place_of
from movegrad.problems import TopK
from movegrad.sampling import sample

PACKAGES = (
    "numpy",
    "numba",
    "llvmlite",
    "torch",
    "jax",
    "matplotlib",
    "pyepo",
    "pyvrp",
    "highspy",
    "numba-cuda",
    "cupy",
    "arviz-base",
)
ALARM = (
    6.0  # standard errors: a right chain is called wrong once in a hundred million times, 6 entries, 9 or more degrees of freedom
)


def lines() -> Iterator[tuple[bool, str]]:
    """Lines of the report as they are found, each with whether all is well."""
    yield True, f"movegrad    {__version__}, in {Path(__file__).parent}"
    yield True, f"python      {platform.python_version()} ({sys.executable})"
    yield True, f"system      {platform.platform()}, {os.cpu_count()} cores"
    yield True, f"packages    {', '.join(_versions())}"
    yield True, f"threads     {get_threads()} for chains ({_settings(('MOVEGRAD_THREADS', 'OMP_NUM_THREADS'))})"
    yield _cache()
    yield True, f"GPU         {gpu()}"
    yield _self_test()


def _versions() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{name} –"


def _settings(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name}={os.environ.get(name, 'not set')}" for name in names)


def cache_folder() -> Path | None:
    """Where kernels are kept, or None if no folder can be written to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = keep_on_disk(numba.njit(place_of))  # not compiled: where it would be kept is what counts
    path = getattr(kept._cache, "cache_path", None)
    return None if path is None else Path(path)


def _cache() -> tuple[bool, str]:
    folder = cache_folder()
    setting = _settings(("NUMBA_CACHE_DIR",))
    if folder is None:
        return False, f"cache       no folder can be written to: every process compiles anew ({setting})"
    files = [file for file in folder.glob("*.nbc") if file.is_file()]
    size = sum(file.stat().st_size for file in files) / 2**20
    return True, f"cache       {folder}: {len(files)} kernels, {size:.1f} MiB ({setting})"


def gpu() -> str:
    """What was found, or why there is none."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "not used: numba-cuda is not installed, pip install 'movegrad[cuda]' (or cuda12) where there is a GPU"
    for name in ("torch", "cupy"):
        if importlib.util.find_spec(name) is None:
            continue
        found, told = _devices(name)
        if found:
            return told
    try:
        from numba import cuda

        if not cuda.is_available():
            return "none found: the CUDA driver sees no device, or is not installed"
        return "found by the driver, but neither PyTorch nor CuPy for CUDA is installed to hold its arrays"
    except Exception as error:  # whatever drivers and mismatched versions raise
        return f"not used: numba-cuda does not load ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else '–'})"


def _devices(name: str) -> tuple[bool, str]:
    try:
        library: Any = importlib.import_module(name)
        if name == "torch":
            count = library.cuda.device_count() if library.cuda.is_available() else 0
            names = [library.cuda.get_device_name(k) for k in range(count)]
        else:
            count = library.cuda.runtime.getDeviceCount()
            names = [library.cuda.runtime.getDeviceProperties(k)["name"].decode() for k in range(count)]
    except Exception:  # a library that does not load has no devices
        return False, ""
    return bool(names), f"{', '.join(names)} (by {name})"


def _self_test() -> tuple[bool, str]:
    """A small problem proved, then chains of it against its exact marginals."""
    begin, problem, theta = perf_counter(), TopK(6, 2), np.linspace(-1.0, 1.0, 6)
    try:
        report = check(problem)
        if not report.ok:
            return False, f"self-test   FAILED: the proof of a right problem says {str(report).splitlines()[0]}"
        out = sample(problem, theta, steps=5000, chains=32, burn_in=100)
        off = np.abs(out.mean - exact.marginals(problem, theta)) / out.info.standard_error[0]
    except Exception as error:
        return False, f"self-test   FAILED: {type(error).__name__}: {error}"
    seconds = perf_counter() - begin
    if not off.max() < ALARM:
        return False, f"self-test   FAILED: a marginal is {off.max():.1f} standard errors off"
    speed = out.info.drawn.sum() / max(out.info.seconds, 1e-9) / 1e6
    told = f"marginals within {off.max():.1f} standard errors, {speed:.0f} M steps/s, {seconds:.1f} s"
    return True, f"self-test   passed: a problem proved, its {told}"


def main() -> int:
    """Print the report; 1 if something is wrong."""
    well = True
    for good, line in lines():
        print(line, flush=True)
        well &= good
    return 0 if well else 1
