"""Python threads for kernels that release the GIL. Which thread runs a chain never changes its result."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise

from movegrad._validate import integer_in

_PATIENCE = 0.1  # seconds
_state: dict = {"threads": None, "pool": None, "owner": None, "size": 0}


def get_threads() -> int:
    """Number of threads in use: the last ``set_threads``, else ``MOVEGRAD_THREADS``, else the CPUs of this process.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.get_threads() >= 1
    True
    """
    if _state["threads"] is None:
        given = os.environ.get("MOVEGRAD_THREADS")
        if given is not None and not (given.isascii() and given.isdigit() and int(given) >= 1):
            raise ValueError(f"MOVEGRAD_THREADS must be an integer ≥ 1, got {given!r}.")
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        _state["threads"] = int(given) if given else available
    return _state["threads"]


def set_threads(n: int) -> None:
    """Use n threads from now on. Results do not depend on it.

    Parameters
    ----------
    n : int
        At least 1.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.set_threads(mg.get_threads())
    """
    _state["threads"] = integer_in(n, "n", 1)


def _pool(n: int) -> ThreadPoolExecutor:
    if _state["pool"] is None or _state["owner"] != os.getpid() or _state["size"] < n:  # a fork has no threads
        _state.update(pool=ThreadPoolExecutor(n, "movegrad"), owner=os.getpid(), size=n)
    return _state["pool"]


def parallel(work: Callable[[int, int], None], ranges: Iterable[tuple[int, int]], stop: Callable[[], None]) -> None:
    """Call ``work(low, high)`` for each range, at once; on an error or Ctrl-C, call ``stop`` and let the others end."""

    def stopping(low: int, high: int) -> None:
        try:
            work(low, high)
        except BaseException:
            stop()  # the others need not go on
            raise

    first, *others = ranges
    futures = [_pool(len(others)).submit(stopping, *r) for r in others] if others else []
    try:
        work(*first)
        while futures and wait(futures, _PATIENCE).not_done:  # not for long: not every system lets Ctrl-C in before a wait is over
            pass
        for future in futures:
            future.result()
    except BaseException:
        stop()
        wait(futures)
        raise


def split(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut 0…n into at most ``parts`` ranges of nearly equal size."""
    parts = max(1, min(n, parts))
    bounds = [n * p // parts for p in range(parts + 1)]
    return list(pairwise(bounds))
