"""Runs chains on a GPU: how the kernel is launched there. Imported when a device array first arrives.

θ and results stay on the device, in arrays of the library that θ came from, and all work goes to its current stream. A call ends
with one look at what threads found wrong, for which the host waits.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.core.errors import NumbaPerformanceWarning
from numba.cuda.dispatcher import CUDACache

from movegrad._cuda_kernel import (
    BAD_DIRECTION,
    BAD_GUIDE,
    BAD_START,
    BAD_THETA,
    NOTHING_WRONG,
    Source,
    Span,
    checked,
    observe_source_for,
)  # fmt: skip
from movegrad._cuda_memory import Memory, instances, uploaded, wrong_words
from movegrad._device import Arrays, arrays_of
from movegrad._disk_cache import Forgiving, keep_on_disk
from movegrad._engine import warn_if_short
from movegrad._explain import readable_errors
from movegrad._kernel import Chains
from movegrad._validate import too_large
from movegrad.problem import Problem, outside

THREADS = 32, 256  # of a block, fewest and most: one block for each multiprocessor, if there are enough chains
BLOCK_LENGTH = 1 << 18  # steps of a chain in one launch, at most
_FIRST_BLOCK = 1 << 10  # and in the first one, to learn the speed
_LAUNCH = 0.1  # seconds for a launch, by the speed seen so far: for Ctrl-C and for GPUs that also drive a screen
_SHARE, _LATEST = 0.25, 0.02  # of a time limit: between looks at the clock, at most; not worth another look


def run(batch: Any, settings: Any, start: Any, kinds: Any, index: Any, guide: Any, direction: Any, progress: Any) -> tuple:
    """As :func:`movegrad._engine.run`; returns the chains, with results in the layout of the CPU, settings and seconds."""
    arrays, problem = arrays_of(batch.theta), batch.problem
    with _device(arrays.index):
        kernel = checked(problem, settings.options, lambda source: compiled(source, arrays.index))
        stream = arrays.stream
        memory = Memory(arrays, stream, batch, settings, start, kinds, index, guide, direction)
        begin = perf_counter()
        steps = _run_ranges(memory, kernel, settings, stream, progress)
        _look(memory, settings)
        if settings.time_limit is not None:
            warn_if_short(settings, steps)
        return memory.chains(steps), settings, perf_counter() - begin


def observe(problem: Problem, solutions: Any) -> Any:
    """T(y) of solutions (n, size) on the device: (n, d)."""
    arrays, n = arrays_of(solutions), len(solutions)
    with _device(arrays.index):
        with readable_errors(problem):
            kernel = compiled(observe_source_for(problem), arrays.index)
        stream = arrays.stream
        data, wrong = instances(arrays, problem, problem.packed), wrong_words(arrays, stream)
        out, at = arrays.empty((n, problem.size), np.float64), arrays.address
        out[...] = 0.0
        places = (at(data.addresses), data.table, 0, at(solutions), n, solutions.shape[1], at(out), problem.size, at(wrong))
        _launcher(kernel, n, arrays.index, stream)(*places)
        bad = int(_found(arrays, wrong)[BAD_START])
    if bad < NOTHING_WRONG:
        raise outside(problem, "y", arrays.numpy(solutions[bad]), f" in row {bad}")
    return out


def on_host(chains: Chains) -> Any:
    """The chains with all arrays on the host, each copied when it is first looked at; counts are those of all chains together."""
    return _HostChains(chains)


class _HostChains:
    def __init__(self, chains: Chains) -> None:
        self._chains = chains

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._chains, name)
        if name == "counts":
            value = value.sum(-1)[None]
        if not isinstance(value, np.ndarray):
            value = arrays_of(value).numpy(value)
        setattr(self, name, value)
        return value


class _KernelCache(Forgiving, CUDACache):
    """Kernels on disk."""


# --- launches --------------------------------------------------------------------------------------------------------


@cache
def compiled(source: Source, device: int) -> Any:
    """The kernel, compiled for the device or found on disk; its launch needs no look at types."""
    kernel = keep_on_disk(cuda.jit(source.function), _KernelCache)
    kernel.compile(source.arguments)
    kernel._specialized = True
    kernel.disable_compile()
    return kernel


@lru_cache(maxsize=256)
def _launcher(kernel: Any, chains: int, device: int, stream: int) -> Callable:
    """The kernel with its launch configuration: so many threads in a block that every multiprocessor gets one."""
    share = -(-chains // cuda.gpus[device].MULTIPROCESSOR_COUNT)
    threads = min(max(-(-share // 32) * 32, THREADS[0]), THREADS[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)  # few chains leave most of a GPU idle: that is for users to say
        return kernel[-(-chains // threads), threads, _stream(stream)]


def _device(index: int) -> Any:
    """Makes it the current device of Numba."""
    return nullcontext() if _devices() == 1 else cuda.gpus[index]


@cache
def _devices() -> int:
    return len(cuda.gpus)


@lru_cache(maxsize=64)
def _stream(handle: int) -> Any:
    return cuda.external_stream(handle)


def _run_ranges(memory: Memory, kernel: Any, settings: Any, handle: int, progress: Any) -> Any:
    """All ranges of chains to their goals; returns the steps of each example."""
    arrays, ranges, steps, stream = memory.arrays, memory.ranges(), settings.steps, _stream(handle)
    for number, (low, high) in enumerate(ranges):
        words, held = memory.workspace(low, high)
        launcher, words_at = _launcher(kernel, high - low, arrays.index, handle), arrays.address(words)

        def launch(heat: Any, first: int, stop: int, last: bool, launcher=launcher, at=words_at, low=low, high=high) -> None:
            inverse = uploaded(arrays, np.ascontiguousarray(heat.inverse).tobytes())
            temperatures = arrays.address(inverse), len(heat.inverse), int(heat.first), int(heat.shift)
            launcher(at, Span(low, high, first, stop, int(last), *temperatures))

        def report(share: float, number: int = number) -> None:
            if progress is not None:
                stream.synchronize()
                progress((number + share) / len(ranges))

        if settings.time_limit is None:
            _run_steps(launch, stream, settings, report)
        else:
            steps = _run_seconds(launch, stream, settings, report)
        del held
    return steps


def _run_steps(launch: Callable, stream: Any, settings: Any, report: Callable) -> None:
    """All chains of a range to their goals, launches sized by the speed seen so far."""
    longest, schedule, first, count = int(np.max(settings.steps)), settings.schedule, 0, min(_FIRST_BLOCK, BLOCK_LENGTH)
    while first < longest:
        begin, count = perf_counter(), min(count, longest - first, schedule.longest)
        launch(schedule.steps(first, count, longest), first, first + count, first + count == longest)
        first += count
        if first < longest:
            stream.synchronize()  # Ctrl-C is heard between launches
            count = max(1, min(int(count * _LAUNCH / (perf_counter() - begin)), BLOCK_LENGTH))
        report(first / longest)


def _run_seconds(launch: Callable, stream: Any, settings: Any, report: Callable) -> int:
    """All chains of a range for a given time, launches sized by the speed seen so far; returns the steps that they made."""
    limit, schedule, most = float(settings.time_limit), settings.schedule, settings.steps or NOTHING_WRONG
    begin, done, count, spent, ahead = perf_counter(), 0, 1, 0.0, 0.0
    while True:
        share = min(1.0, spent / limit)
        launch(schedule.seconds(done, count, share, min(1.0, share + ahead / limit)), done, done + count, False)
        stream.synchronize()
        before, spent, done = spent, perf_counter() - begin, done + count
        left = limit - spent
        report(min(1.0, spent / limit))
        if left < _LATEST * limit or done >= most:
            break
        ahead = min(left, _SHARE * limit, _LAUNCH)
        count = max(1, min(int(count * ahead / (spent - before)), most - done, BLOCK_LENGTH, schedule.longest))
    launch(schedule.seconds(done, 1, 1.0, 1.0), done, done, True)
    return done


def _found(arrays: Arrays, wrong: Any) -> np.ndarray:
    """Wait for the device and read what was wrong; the words are made ready for the next run."""
    found = np.array(arrays.numpy(wrong))
    if found.min() < NOTHING_WRONG:
        wrong[...] = NOTHING_WRONG
    return found


def _look(memory: Memory, settings: Any) -> None:
    """Tell what was wrong."""
    found, arrays, batch = _found(memory.arrays, memory.wrong), memory.arrays, memory.batch
    if found.min() == NOTHING_WRONG:
        return
    for name, place, values in (
        ("theta", BAD_THETA, batch.theta), ("guide", BAD_GUIDE, memory.guide), ("direction", BAD_DIRECTION, memory.direction),
    ):  # fmt: skip
        if found[place] < NOTHING_WRONG:
            e = int(found[place])
            given = arrays.numpy(values[int(batch.theta_at[e]) : int(batch.theta_at[e + 1])])
            raise too_large(given, name)
    e, c = divmod(int(found[BAD_START]), settings.chains)
    size = int(batch.state_sizes[0][e])
    at = int(batch.state_sizes[0][:e].sum()) * memory.rows + (c * size if memory.rows == settings.chains else 0)
    got = arrays.numpy(memory.start[at : at + size])
    raise batch.outside(settings.start_name, got, c, e)
