"""Compiles and launches kernels on a GPU: how many threads, on which stream, how many steps at a time.

A call ends with one look at what threads found wrong, for which the host waits.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.core.errors import NumbaPerformanceWarning
from numba.cuda.dispatcher import CUDACache

from movegrad._validate import outside, too_large
from movegrad.cuda.arrays import Arrays
from movegrad.cuda.kernel import Source, source_of_observe, source_of_run
from movegrad.cuda.memory import Memory, instances, uploaded, wrong_words
from movegrad.cuda.source import BAD_DIRECTION, BAD_GUIDE, BAD_START, BAD_THETA, NOTHING_WRONG, Span
from movegrad.engine import Begin, Run, layout_of
from movegrad.engine.compile import announced
from movegrad.engine.disk_cache import Forgiving, keep_on_disk
from movegrad.engine.explain import readable_errors
from movegrad.engine.host import warn_if_short
from movegrad.engine.pace import STARTS, Stretch, by_time
from movegrad.schedules import STEADY

THREADS = 32, 256  # of a block, fewest and most: one block for each multiprocessor, if there are enough chains
BLOCK_LENGTH = 1 << 18  # steps of a chain in one launch, at most
_FIRST_BLOCK = 1 << 10  # and in the first one, to learn the speed
_LAUNCH = 0.1  # seconds for a launch, by the speed seen so far: for Ctrl-C and for GPUs that also drive a screen


def execute(
    arrays: Arrays, batch: Any, settings: Any, begin: Begin, indices: Any, guide: Any, direction: Any, progress: Any
) -> Run:
    """As :meth:`movegrad.engine.host.Host.execute`."""
    with _current(arrays.index):
        tasks = [task for task in STARTS if (begin.pending & task).any()]
        kernels = {w: _kernel(batch.problem, source_of_run(batch.layout, w), arrays.index) for w in (*tasks, settings.options)}
        memory = Memory(arrays, arrays.stream, batch, settings, begin, indices, guide, direction)
        since = perf_counter()
        steps = _run_ranges(memory, kernels, settings, begin.pending, progress)
        _look(memory, settings)
        if settings.time_limit is not None:
            warn_if_short(settings, steps)
        return Run(batch, settings, memory.chains(steps), perf_counter() - since)


def observe(arrays: Arrays, problem: Any, solutions: Any, name: str) -> Any:
    """T(y) of solutions (n, size) on the device, which must be in the set: (n, d)."""
    n = len(solutions)
    with _current(arrays.index):
        kernel = _kernel(problem, source_of_observe(layout_of(problem)), arrays.index)
        stream = arrays.stream
        data, wrong = instances(arrays, problem), wrong_words(arrays, stream)
        out, at = arrays.empty((n, problem.size), np.float64), arrays.address
        out[...] = 0.0
        places = (at(data.addresses), data.table, 0, at(solutions), n, solutions.shape[1], at(out), problem.size, at(wrong))
        _launcher(kernel, n, arrays.index, stream)(*places)
        bad = int(_found(arrays, wrong)[BAD_START])
    if bad < NOTHING_WRONG:
        raise outside(problem, name, arrays.numpy(solutions[bad]), f" in row {bad}")
    return out


# --- kernels -------------------------------------------------------------------------------------------------------------


class _KernelCache(Forgiving, CUDACache):
    """Kernels on disk."""


_kernels: dict[tuple[Source, int], Any] = {}  # by device


def _kernel(problem: Any, source: Source, device: int) -> Any:
    """The kernel, compiled for the device or found on disk."""
    found = _kernels.get((source, device))
    if found is None:
        with explained(problem):
            found = _kernels[source, device] = compiled(source)
    return found


@contextmanager
def explained(problem: Any) -> Iterator[None]:
    """What takes long to compile is announced; what a compiler refuses is told with the function and its owner."""
    with announced(problem.name), readable_errors(problem, "CUDA"):
        yield


def compiled(source: Source) -> Any:
    """The kernel for the current device; its launch needs no look at types."""
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


def _current(index: int) -> Any:
    """Makes it the current device of Numba."""
    return nullcontext() if _devices() == 1 else cuda.gpus[index]


@cache
def _devices() -> int:
    return len(cuda.gpus)


@lru_cache(maxsize=64)
def _stream(handle: int) -> Any:
    return cuda.external_stream(handle)


# --- launches ------------------------------------------------------------------------------------------------------------


def _run_ranges(memory: Memory, kernels: dict[Any, Any], settings: Any, pending: np.ndarray, progress: Any) -> np.ndarray:
    """All ranges of chains to their goals; returns the steps of each chain."""
    arrays, ranges, handle = memory.arrays, memory.ranges(), memory.arrays.stream
    steps = np.empty(memory.total, np.int64)
    if settings.time_limit is not None and len(ranges) > 1:  # they share it
        settings = settings._replace(time_limit=settings.time_limit / len(ranges))
    for number, (low, high) in enumerate(ranges):
        words, held = memory.workspace(low, high)
        launchers = {what: _launcher(kernel, high - low, arrays.index, handle) for what, kernel in kernels.items()}
        run = _Range(memory, launchers, arrays.address(words), low, high, pending)

        def report(share: float, run: _Range = run, number: int = number) -> None:
            if progress is not None:
                run.wait()
                progress((number + share) / len(ranges))

        run.begin()
        if settings.time_limit is None:
            _run_steps(run, settings, report)
            steps[low:high] = np.repeat(np.broadcast_to(settings.steps, memory.batch.examples), settings.chains)[low:high]
        else:
            steps[low:high] = _run_seconds(run, settings, report)
        del held
    return steps


class _Range:
    """Launches kernels for chains low…high−1."""

    def __init__(
        self, memory: Memory, launchers: dict[Any, Callable], words: int, low: int, high: int, pending: np.ndarray
    ) -> None:
        self._memory, self._launchers, self._words, self._low, self._high = memory, launchers, words, low, high
        self._pending, self._stream = pending, _stream(memory.arrays.stream)

    def begin(self) -> None:
        """Make the starts that are not given."""
        for task, gained in STARTS.items():
            if task in self._launchers:
                self._launch(task, Stretch(STEADY, 0, 0))
                self._pending = np.where(self._pending & task, self._pending & ~task | gained, self._pending)

    def advance(self, stretch: Stretch) -> None:
        self._launch(self._memory.settings.options, stretch)

    def wait(self) -> None:
        self._stream.synchronize()

    def _launch(self, what: Any, stretch: Stretch) -> None:
        heat, arrays = stretch.heat, self._memory.arrays
        inverse = uploaded(arrays, np.ascontiguousarray(heat.inverse).tobytes())
        pending = uploaded(arrays, np.ascontiguousarray(self._pending, np.int64).tobytes())  # held until the kernel is launched
        self._launchers[what](
            self._words,
            Span(
                low=self._low,
                high=self._high,
                first=stretch.first,
                stop=stretch.stop,
                last=int(stretch.is_last),
                pending=arrays.address(pending),
                heat=arrays.address(inverse),
                heat_count=len(heat.inverse),
                heat_first=int(heat.first),
                heat_shift=int(heat.shift),
            ),
        )


def _run_steps(run: _Range, settings: Any, report: Callable) -> None:
    """All chains of a range to their goals, launches sized by the speed seen so far."""
    longest, schedule, first, count = int(np.max(settings.steps)), settings.schedule, 0, min(_FIRST_BLOCK, BLOCK_LENGTH)
    while first < longest:
        since, count = perf_counter(), min(count, longest - first, BLOCK_LENGTH if schedule is None else schedule.longest)
        heat = STEADY if schedule is None else schedule.steps(first, count, longest)
        run.advance(Stretch(heat, first, first + count, is_last=first + count == longest))
        first += count
        if first < longest:
            run.wait()  # Ctrl-C is heard between launches
            count = max(1, min(int(count * _LAUNCH / (perf_counter() - since)), BLOCK_LENGTH))
        report(first / longest)


def _run_seconds(run: _Range, settings: Any, report: Callable) -> int:
    """All chains of a range for a given time; returns the steps that they made."""
    limit, since, stop = float(settings.time_limit), perf_counter(), 0
    for stretch in by_time(settings, _LAUNCH, BLOCK_LENGTH):
        run.advance(stretch)
        run.wait()
        stop = stretch.stop
        report(min(1.0, (perf_counter() - since) / limit))
    return stop


# --- what was wrong ------------------------------------------------------------------------------------------------------


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
