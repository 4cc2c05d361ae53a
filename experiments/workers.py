"""Processes that compute for a study, and end with it."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any


def pool(workers: int, first: Callable[..., object] | None = None, *arguments: Any) -> ProcessPoolExecutor:
    """Processes that start clean, since forking a process with threads is not safe; each calls ``first`` before its first task."""
    return ProcessPoolExecutor(workers, get_context("spawn"), _begin, (first, arguments))


def _begin(first: Callable[..., object] | None, arguments: tuple) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    if first is not None:
        first(*arguments)


def _end_with_parent() -> None:
    """Whoever is killed ends no pool: without this a worker would finish its task, minutes or hours of it, for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
