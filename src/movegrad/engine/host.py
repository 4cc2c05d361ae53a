"""The place where chains run on CPU threads: memory for them, blocks of work for threads, clocks and Ctrl-C.

It offers what every place does (see :mod:`movegrad.engine`), for arrays of NumPy. What chains do is in the kernels of
:mod:`movegrad.engine.bind`.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from movegrad._validate import as_solutions, finite_vectors, outside
from movegrad.engine.batch import Batch, Begin, Run, Settings, layout_of, offsets
from movegrad.engine.bind import chain_kernel, observe_kernel, phi_kernel, start_kernel
from movegrad.engine.clock import TICKS
from movegrad.engine.compile import announced, lean
from movegrad.engine.draws import ODOMETER_SIZE
from movegrad.engine.explain import ends_without_value, readable_errors
from movegrad.engine.loop import COUNTS, DONE, GOAL, INVERSE_TEMPERATURE, Chains, Plan
from movegrad.engine.pace import STARTS, by_steps, by_time
from movegrad.engine.threads import get_threads, parallel, split
from movegrad.schedules import STEADY

_SERIAL_STEPS = 20_000  # below this, handing work to a thread costs more than it saves
_PAUSE = 0.02  # seconds after which a kernel returns, or twice that: how long Ctrl-C, clocks and the progress bar wait
_STRETCH = 1 << 20  # steps of all chains of a thread for which temperatures are made at once
_LEAST_STRETCH = 256  # and of each of them, at least
_ROW = 16  # numbers in a row of a chain's own: 128 bytes
PAUSE_TICKS = int(_PAUSE * TICKS)
_EMPTY = np.zeros(0)


@contextmanager
def compiling(problem: Any) -> Iterator[None]:
    """Around the first call of a kernel."""
    with announced(problem.name), lean(), readable_errors(problem):
        yield


class Host:
    """CPU threads and arrays of NumPy."""

    # --- arrays ------------------------------------------------------------------------------------------------------------

    vectors = staticmethod(finite_vectors)
    solutions = staticmethod(as_solutions)
    joined = staticmethod(np.concatenate)
    stacked = staticmethod(np.stack)

    @staticmethod
    def own(value: Any) -> np.ndarray:
        return np.asarray(value)

    numpy = own

    @staticmethod
    def own_solutions(problems: Sequence[Any]) -> np.ndarray:
        """The problems' own solutions, flat: what stands where a start is made, and what distances are measured to then."""
        if problems.count(problems[0]) == len(problems):
            return problems[0].solution
        return np.concatenate([p.solution for p in problems])

    @staticmethod
    def chains_on_host(chains: Chains) -> Chains:
        return chains

    def side_by_side(self, examples: int) -> int:
        """Examples that run at once."""
        return min(get_threads(), examples)

    # --- work --------------------------------------------------------------------------------------------------------------

    def observe(self, problem: Any, solutions: np.ndarray, name: str) -> np.ndarray:
        """T(y) of solutions (n, size), which must be in the set: (n, d)."""
        layout, first, solutions = layout_of(problem), 0, np.ascontiguousarray(solutions)
        out, kernel = np.zeros((len(solutions), problem.size)), observe_kernel(layout.kind)
        if not kernel.overloads:
            with compiling(problem):
                kernel(*layout.packed, 0, solutions[:0], out, 0, PAUSE_TICKS)
        while first < len(solutions):  # again and again, lest Ctrl-C wait
            found = kernel(*layout.packed, 0, solutions, out, first, PAUSE_TICKS)
            if found >= 0:
                raise outside(problem, name, solutions[found], f" in row {found}")
            first = len(solutions) if found == -1 else -2 - found
        return out

    def execute(
        self,
        batch: Batch,
        settings: Settings,
        begin: Begin,
        indices: np.ndarray,
        guide: np.ndarray | None = None,
        direction: np.ndarray | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Run:
        """Run the chains of a batch.

        Parameters
        ----------
        begin : where chains begin
        indices : (E,) of the examples: part of the key of their generators
        guide : like θ, what guided moves look at; None is θ
        direction : like θ, v of the covariance product
        progress : called with the fraction done
        """
        chains = _allocate(batch, settings, begin, indices, guide, direction)
        work = _Work(batch, settings, chains, int(np.bitwise_or.reduce(begin.pending)))
        since = perf_counter()
        if settings.time_limit is None:
            _run_steps(work, chains, settings, progress)
        else:
            _run_seconds(work, chains, settings, progress)
            warn_if_short(settings, chains.clock[:, DONE])
        return Run(batch, settings, chains, perf_counter() - since)


HOST = Host()


def phi_of(problem: Any, solutions: np.ndarray) -> np.ndarray:
    """(n,) φ(y) of solutions (n, size)."""
    layout, out = layout_of(problem), np.zeros(len(solutions))
    if layout.kind.functions.phi is not None:
        kernel, arguments = phi_kernel(layout.kind), (*layout.packed, np.ascontiguousarray(solutions), out)
        with nullcontext() if kernel.overloads else compiling(problem):
            kernel(*arguments)
    return out


def warn_if_short(settings: Settings, steps: Any) -> None:
    """Say so if a time limit ended during burn-in."""
    if np.min(steps) <= settings.burn_in and settings.burn_in > 0:
        warnings.warn(
            f"burn_in must be < the number of steps that fit into time_limit = {settings.time_limit}, got {settings.burn_in} where "
            f"{np.min(steps)} did: the mean is the last solution's alone.",
            RuntimeWarning,
            stacklevel=5,
        )


# --- memory --------------------------------------------------------------------------------------------------------------


def _allocate(batch: Batch, settings: Settings, begin: Begin, indices: np.ndarray, guide: Any, direction: Any) -> Chains:
    n, options, layout = settings.chains, settings.options, batch.layout
    total, points = batch.examples * n, settings.points
    state_at = _state_offsets(batch.state_sizes, n)
    solutions = _for_each_chain(begin.solutions, batch.state_sizes[0], n)
    fields = zip(state_at[1:], layout.state_dtypes[1:], strict=True)
    value, clock = np.zeros((total, _ROW)), np.empty((total, _ROW), np.int64)
    value[:, INVERSE_TEMPERATURE] = 1.0 / _per_chain(settings.temperature, n)
    clock[:, DONE] = ~_per_chain(begin.pending, n)
    entries, none = n * len(batch.theta), solutions[:0]
    trace = np.empty((total, points, 2))
    if points:
        trace.fill(np.nan)
    return Chains(
        which=batch.which,
        keys=settings.keys(batch.examples),
        indices=indices,
        theta_at=batch.theta_at,
        theta=batch.theta,
        guide=batch.theta if guide is None else guide,
        direction=_EMPTY if direction is None else direction,
        state_at=state_at,
        states=(solutions, *(np.empty(at[-1], dtype) for at, dtype in fields)),
        rng=np.zeros((total, ODOMETER_SIZE)) if options.first_step else np.empty((total, _ROW), np.uint64),
        clock=clock,
        value=value,
        sums=np.empty(entries),
        cross=np.empty(entries if options.covariance else 0),
        mean=np.empty(entries),
        counts=np.zeros((total, len(layout.weights) + -len(layout.weights) % 4, COUNTS), np.int64),
        moved=np.zeros(entries if settings.watch else 0, np.uint8),
        origin=_origin(solutions, state_at[0], n) if settings.trace else none,
        best=np.empty_like(solutions) if options.best else none,
        trace=trace,
        iterates=np.zeros(points * len(solutions), solutions.dtype) if settings.iterates else none,
        weights=layout.weights,
    )


def _for_each_chain(solutions: np.ndarray, sizes: np.ndarray, chains: int) -> np.ndarray:
    """A copy of given solutions, flat: one for each chain, one for each example or one for all."""
    total = int(sizes.sum())
    if len(solutions) == total * chains:
        return solutions.copy()
    if len(solutions) < total:
        return np.tile(solutions, len(sizes) * chains)
    ends = offsets(sizes)
    return np.concatenate([solutions[at:end] for at, end in pairwise(ends.tolist()) for _ in range(chains)])


def _state_offsets(sizes: np.ndarray, chains: int) -> np.ndarray:
    """(fields, E*C+1); kept for small batches, whose calls are short."""
    if sizes.shape[1] * chains <= 64:
        return _small_offsets(sizes.tobytes(), len(sizes), chains)
    return offsets(np.repeat(sizes, chains, axis=1))


@lru_cache(maxsize=256)
def _small_offsets(sizes: bytes, fields: int, chains: int) -> np.ndarray:
    return offsets(np.repeat(np.frombuffer(sizes, np.int64).reshape(fields, -1), chains, axis=1))


def _origin(solutions: np.ndarray, at: np.ndarray, chains: int) -> np.ndarray:
    """For each chain of an example the start of its first one: what distances are measured to must be the same for all."""
    firsts = [np.tile(solutions[at[c] : at[c + 1]], chains) for c in range(0, len(at) - 1, chains)]
    return np.concatenate(firsts)


def _per_chain(value: Any, chains: int) -> Any:
    """A number stays; one for each example is repeated for its chains."""
    return np.repeat(value, chains) if isinstance(value, np.ndarray) and chains > 1 else value


# --- blocks of work ------------------------------------------------------------------------------------------------------


class _Work:
    """Calls kernels on ranges of chains; bad starts become an error."""

    def __init__(self, batch: Batch, settings: Settings, chains: Chains, pending: int) -> None:
        self._batch, self._chains, self._settings = batch, chains, settings
        self._plan = Plan(
            chains=settings.chains,
            burn_in=settings.burn_in,
            correction=float(settings.correction),
            trace_every=settings.trace_every,
            pause=PAUSE_TICKS,
        )
        self.stopped = False  # by Ctrl-C or an error in another thread
        kind = batch.layout.kind
        self._starts = [start_kernel(kind, task) for task in STARTS if pending & task]
        self._kernel = chain_kernel(kind, settings.options)
        for kernel in (*self._starts, self._kernel):
            if not kernel.overloads:  # compile, or load, before a clock starts
                with compiling(batch.problem):
                    self._call(kernel, STEADY, False, 0, 0)
            elif settings.time_limit is not None:  # it may have been compiled for other types
                self._call(kernel, STEADY, False, 0, 0)

    def begin(self, low: int, high: int) -> None:
        """Make the starts of chains low…high−1, those that are not given."""
        for kernel in self._starts:
            at = low
            while at < high and not self.stopped:
                at = self._call(kernel, STEADY, False, at, high)

    def advance(self, heat: Any, last: bool, low: int, high: int) -> int:
        """Let chains low…high−1 go to their goals for a while; returns the first that has not arrived, ``high`` if all have."""
        return self._call(self._kernel, heat, last, low, high)

    def finish(self, heat: Any, last: bool, low: int, high: int) -> None:
        """Bring chains low…high−1 to their goals, unless stopped."""
        while low < high and not self.stopped:
            low = self._call(self._kernel, heat, last, low, high)

    def _call(self, kernel: Any, heat: Any, last: bool, low: int, high: int) -> int:
        try:
            found = kernel(*self._batch.packed, self._chains, self._plan, heat, last, low, high)
        except TypeError as error:  # a function came to an end without a value
            sentence = ends_without_value(self._batch.problem)
            if sentence is None:
                raise
            raise ValueError(sentence) from error
        if found >= 0:
            e, c = divmod(found, self._plan.chains)
            at = self._chains.state_at[0]
            raise self._batch.outside(self._settings.start_name, self._chains.states[0][at[found] : at[found + 1]], c, e)
        return high if found == -1 else -2 - found

    def stop(self) -> None:
        self.stopped = True


def _run_steps(work: _Work, chains: Chains, settings: Settings, progress: Any) -> None:
    """All chains to a given number of steps: a range of chains for each thread, a stretch of steps at a time."""
    count, goals = len(chains.clock), _per_chain(settings.steps, settings.chains)
    longest = int(goals.max()) if isinstance(goals, np.ndarray) else goals
    if longest * count < _SERIAL_STEPS and settings.schedule is None and progress is None:  # the shortest way
        chains.clock[:, GOAL] = goals
        work.begin(0, count)
        return work.finish(STEADY, True, 0, count)
    ranges = split(count, 1 if longest * count < _SERIAL_STEPS else get_threads())
    finished = {low: 0 for low, _ in ranges}

    def run(low: int, high: int) -> None:
        work.begin(low, high)
        for heat, first, stop, is_last in by_steps(settings.schedule, longest, max(_LEAST_STRETCH, _STRETCH // (high - low))):
            chains.clock[low:high, GOAL] = np.minimum(goals[low:high], stop) if isinstance(goals, np.ndarray) else stop
            at = low
            while at < high and not work.stopped:
                at = work.advance(heat, is_last, at, high)
                if progress is not None:
                    finished[low] = first * (high - low) + (stop - first) * (at - low)
                    progress(sum(finished.values()) / (longest * count))
            if work.stopped:
                return

    parallel(run, ranges, work.stop)


def _run_seconds(work: _Work, chains: Chains, settings: Settings, progress: Any) -> None:
    """Each example for a given time; threads share the examples."""
    n = settings.chains
    ranges = split(len(chains.which), get_threads())
    finished = {low: 0 for low, _ in ranges}

    def one(low: int, high: int) -> None:
        for heat, first, stop, is_last in by_time(settings, _PAUSE):
            if first == 0:
                work.begin(low, high)
            chains.clock[low:high, GOAL] = stop
            work.finish(heat, is_last, low, high)
            if work.stopped:
                return

    def run(low: int, high: int) -> None:
        for e in range(low, high):
            one(e * n, (e + 1) * n)
            if work.stopped:
                return
            finished[low] += 1
            if progress is not None:
                progress(sum(finished.values()) / len(chains.which))

    parallel(run, ranges, work.stop)
