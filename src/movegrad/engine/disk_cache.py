"""Kernels on disk: found again by the next process, and never a reason for a call to fail.

Numba decides where (``NUMBA_CACHE_DIR``, else ``__pycache__`` beside this file, else the user's cache folder) and what is stored.
But its index of files can be torn by processes that write at once, and whatever is wrong with the folder or a file in it becomes
an exception. Here each kernel and signature has a file of its own, written in one go, that begins with a digest of the rest; if
anything goes wrong, the kernel is compiled in memory and one warning names the folder.
"""

import hashlib
import os
import pickle
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.core.caching import FunctionCache, NullCache
from numba.core.serialize import dumps

_DIGEST = 32  # bytes
_warned: set[str] = set()


class _Files:
    """A file for each key: a digest, then a pickle. Stands where Numba has its index."""

    def __init__(self, folder: str, name: str, stamp: Any) -> None:
        self._folder, self._name, self._stamp = Path(folder), name, stamp

    def _path(self, key: Any) -> Path:
        text = repr((numba.__version__, self._stamp, key))
        return self._folder / f"{self._name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.nbc"

    def load(self, key: Any) -> Any:
        try:
            content = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            raise OSError(f"{self._path(key).name} is damaged")
        try:
            return pickle.loads(content[_DIGEST:])
        except (ImportError, AttributeError):  # a record of a module that cannot be imported by its name, as runpy makes them
            return None

    def save(self, key: Any, data: Any) -> None:
        content = dumps(data)
        handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=self._name, suffix=".tmp")
        try:
            with open(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, self._path(key))  # whole, or not at all
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


class Forgiving:
    """Makes a cache of Numba's, CPU or CUDA, one that does without its folder rather than fail."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[call-arg]
        cache: Any = self
        cache._cache_file = _Files(cache.cache_path, cache._impl.filename_base, cache._impl.locator.get_source_stamp())

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)  # type: ignore[misc]
        except Exception as error:  # whatever pickle and LLVM make of a damaged file
            _warn(self.cache_path, error)  # type: ignore[attr-defined]
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)  # type: ignore[misc]
        except Exception as error:
            _warn(self.cache_path, error)  # type: ignore[attr-defined]


class _KernelCache(Forgiving, FunctionCache):
    """For the CPU."""


def keep_on_disk(kernel: Any, kind: type = _KernelCache) -> Any:
    """Let a compiled kernel be kept on disk and found there, if there is a folder for it."""
    wanted = vars(config)["CACHE_DIR"]
    try:
        kernel._cache = kind(kernel.py_func)
    except Exception as error:  # no folder can be written to
        kernel._cache = NullCache()
        _warn(wanted or str(Path(__file__).parent / "__pycache__"), error)
        return kernel
    if wanted and not Path(kernel._cache.cache_path).is_relative_to(wanted):
        _warn(wanted, OSError(f"{kernel._cache.cache_path} is used instead"))
    return kernel


def _warn(folder: str, error: Exception) -> None:
    if folder not in _warned:
        _warned.add(folder)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        warnings.warn(
            f"kernels are compiled anew, since the cache folder {folder} cannot be used ({reason}): empty it, or set "
            "NUMBA_CACHE_DIR to a folder that can be written to.",
            RuntimeWarning,
            stacklevel=2,
        )
