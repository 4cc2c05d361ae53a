"""Runs chains: lays out memory, cuts the work into blocks for threads, clocks and Ctrl-C, and reads the results.

Front ends (NumPy, PyTorch, JAX) only translate: they make a :class:`Batch`, call :func:`run` and read :class:`Run`. Where θ is on a
GPU, so are the chains and their results; :mod:`movegrad._cuda` says where arrays live there and how the kernel is launched.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from movegrad._build import Options, build
from movegrad._clock import TICKS
from movegrad._device import joined
from movegrad._explain import ends_without_value, readable_errors
from movegrad._kernel import (
    DONE,
    GOAL,
    INVERSE_TEMPERATURE,
    NOT_DRAWN,
    NOT_LOADED,
    PROJECTION_SUM,
    Chains,
    Plan,
)
from movegrad._layout import Packed, offsets, pack
from movegrad._rng import ODOMETER_SIZE
from movegrad._threads import get_threads, parallel, split
from movegrad.problem import Problem, outside
from movegrad.schedules import Steady

_SERIAL_STEPS = 20_000  # below this, handing work to a thread costs more than it saves
_PAUSE = 0.02  # seconds after which a kernel returns, or twice that: how long Ctrl-C, clocks and the progress bar wait
_STRETCH = 1 << 20  # steps of all chains of a thread for which temperatures are made at once
_LEAST_STRETCH = 256  # and of each of them, at least
_SHARE = 0.25  # of the time limit, at most, between looks at the clock
_LATEST = 0.02  # of the time limit: so little is not worth another look
_ROW = 16  # numbers in a row of a chain's own: 128 bytes
_EMPTY = np.zeros(0)


class Batch(NamedTuple):
    """Examples to run: each has a θ and an instance of one kind of problem. All arrays lie example after example."""

    problems: tuple[Problem, ...]  # the instances
    packed: Packed  # their data
    which: np.ndarray  # (E,) instance of each example
    theta: np.ndarray  # flat
    theta_at: np.ndarray  # (E+1,)
    sizes: np.ndarray  # (E,) of θ
    state_sizes: np.ndarray  # (fields, E)
    shape: tuple[int, ...] | None = None  # leading axes of θ, as it was given; None for a list

    @property
    def problem(self) -> Problem:
        """One of the instances: its functions are those of all."""
        return self.problems[0]

    @property
    def examples(self) -> int:
        return len(self.which)

    def outside(self, name: str, solution: np.ndarray, chain: int, example: int) -> ValueError:
        """The error for a start that is not in the set."""
        return outside(self.problems[self.which[example]], name, solution, f" for chain {chain} of example {example}")


def shared_batch(problem: Problem, theta: np.ndarray, shape: tuple[int, ...] | None = None) -> Batch:
    """One instance for all rows of θ (E, d)."""
    which, at, sizes, state_sizes = _shared_layout(len(theta), problem.size, problem.state_sizes.tobytes())
    return Batch((problem,), problem.packed, which, theta.reshape(-1), at, sizes, state_sizes, shape)


@lru_cache(maxsize=64)
def _shared_layout(examples: int, d: int, state_sizes: bytes) -> tuple[np.ndarray, ...]:
    sizes, fields = np.full(examples, d), np.frombuffer(state_sizes, np.int64)
    return np.zeros(examples, np.int64), offsets(sizes), sizes, np.repeat(fields[:, None], examples, axis=1)


def ragged_batch(problems: Sequence[Problem], thetas: Sequence[np.ndarray]) -> Batch:
    """One instance for each θ; sizes may differ."""
    first = problems[0]
    for p in problems:
        if p.kind != first.kind or not np.array_equal(p.weights, first.weights):
            raise ValueError(f"problems of a batch must have the same moves and functions, got {first} and {p}.")
    distinct = {id(p): p for p in problems}
    place = {key: i for i, key in enumerate(distinct)}
    return Batch(
        tuple(distinct.values()),
        pack([p.data for p in distinct.values()]),
        np.array([place[id(p)] for p in problems]),
        joined([t.reshape(-1) for t in thetas]),
        offsets(np.array([p.size for p in problems])),
        np.array([p.size for p in problems]),
        np.stack([p.state_sizes for p in problems], axis=1),
    )


class Settings(NamedTuple):
    """What to do with a batch: ``steps`` (one number, or one per example) or a time limit; with both, whichever ends first."""

    steps: Any = None
    time_limit: float | None = None  # seconds of chain time for each example, shared by its chains; on a GPU, for all at once
    temperature: Any = 1.0  # one number, or one per example
    schedule: Any = Steady()  # multiplies the temperature
    burn_in: int = 0
    chains: int = 1
    correction: bool = True
    options: Options = Options()
    trace: int = 0  # points of the trace, at most
    keep: bool = False  # keep the iterates at these points
    watch: bool = False  # note which entries of T ever change
    seed: int = 0
    call: int = 0
    start_name: str = "start"  # the argument to blame for a start that is not in the set

    @property
    def trace_every(self) -> int:
        """Steps between points of the trace, so that the last one is near the end; 0 for no trace."""
        return -(-self.steps // self.trace) if self.trace else 0

    @property
    def points(self) -> int:
        return self.steps // self.trace_every if self.trace else 0


class Run(NamedTuple):
    """Chains at the end of a run. Results per example and chain are (E, C, n) arrays, or lists of (C, n) where n differs."""

    batch: Batch
    chains: Chains
    settings: Settings
    seconds: float

    @property
    def means(self):
        """Average of T(y) over the iterates of each chain."""
        return self.per_entry(self.chains.mean)

    @property
    def solutions(self):
        """Where each chain ended."""
        return self._cut(self.chains.states[0], self.batch.state_sizes[0])

    @property
    def best(self):
        """Best solution that each chain saw."""
        return self._cut(self.chains.best, self.batch.state_sizes[0])

    @property
    def kept(self):
        """Iterates at the points of the trace, points after points: n = points × size."""
        return self._cut(self.chains.kept, self.batch.state_sizes[0] * self.chains.trace.shape[1])

    @property
    def steps(self) -> np.ndarray:
        """(E,) steps of each chain of an example."""
        return self.chains.clock[:: self.settings.chains, DONE]

    def mean(self):
        """Average over all chains of an example: (E, d), or a list of (d,)."""
        means = self.means
        return [m.mean(0) for m in means] if isinstance(means, list) else means.mean(1)

    def covariance(self):
        """Cov(T(y), ⟨v, T(y)⟩) over all chains of an example: (E, d), or a list of (d,)."""
        means, crosses = self.means, self.per_entry(self.chains.cross)
        projections = self.chains.value[:, PROJECTION_SUM].reshape(-1, self.settings.chains)
        if isinstance(means, list):
            return [c.mean(0) - m.mean(0) * s.mean() for m, c, s in zip(means, crosses, projections, strict=True)]
        return crosses.mean(1) - means.mean(1) * projections.mean(1)[:, None]

    def per_entry(self, flat: np.ndarray):
        """Cut an array that holds one number for each chain and entry of θ."""
        return self._cut(flat, self.batch.sizes)

    def _cut(self, flat: np.ndarray, sizes: np.ndarray):
        n = self.settings.chains
        if (sizes == sizes[0]).all():
            return flat.reshape(len(sizes), n, sizes[0])
        return [flat[low:high].reshape(n, -1) for low, high in pairwise(offsets(sizes * n).tolist())]

    @property
    def on_device(self) -> bool:
        return not isinstance(self.batch.theta, np.ndarray)

    @property
    def on_host(self) -> "Run":
        """The same, for a person to look at: what is on a device is copied when it is first asked for."""
        if not self.on_device:
            return self
        from movegrad import _cuda

        return self._replace(chains=_cuda.on_host(self.chains))


def run(
    batch: Batch,
    settings: Settings,
    start: np.ndarray | None = None,
    kinds: np.ndarray | None = None,
    index: np.ndarray | None = None,
    guide: np.ndarray | None = None,
    direction: np.ndarray | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run the chains of a batch.

    Parameters
    ----------
    start : flat array of solutions, example after example and chain after chain; None draws all of them uniformly
    kinds : (E,) how each example starts: NOT_LOADED (as given), NOT_DRAWN or NOT_BUILT
    index : (E,) keys of the examples in their generators; None numbers them
    guide : like θ, what guided moves look at; None is θ
    direction : like θ, v of the covariance product
    progress : called with the fraction done
    """
    if not isinstance(batch.theta, np.ndarray):
        from movegrad import _cuda

        return Run(batch, *_cuda.run(batch, settings, start, kinds, index, guide, direction, progress))
    kernel = build(batch.problem, settings.options)
    chains = _allocate(batch, settings, start, index, guide, direction)
    chains.clock[:, DONE] = (NOT_DRAWN if start is None else NOT_LOADED) if kinds is None else np.repeat(kinds, settings.chains)
    every = settings.trace_every
    plan = Plan(settings.seed, settings.call, settings.chains, settings.burn_in, float(settings.correction), every, pause())
    call = _Caller(kernel, batch, chains, plan, settings.start_name)
    if settings.time_limit is not None or not kernel.overloads:  # compile for these types, or load, before the clock starts
        with readable_errors(batch.problem):
            call(settings.schedule.steps(0, 1, 1), False, 0, 0)
    begin = perf_counter()
    if settings.time_limit is None:
        _run_steps(call, chains, settings, progress)
    else:
        _run_seconds(call, chains, settings, progress)
        warn_if_short(settings, chains.clock[:, DONE])
    return Run(batch, chains, settings, perf_counter() - begin)


def pause() -> int:
    """Ticks of a kernel's clock after which it returns."""
    return int(_PAUSE * TICKS)


def warn_if_short(settings: Settings, steps: Any) -> None:
    """Say so if a time limit ended during burn-in."""
    if np.min(steps) <= settings.burn_in and settings.burn_in > 0:
        warnings.warn(
            f"burn_in must be < the number of steps that fit into time_limit = {settings.time_limit}, got {settings.burn_in} where "
            f"{np.min(steps)} did: the mean is the last solution's alone.",
            RuntimeWarning,
            stacklevel=4,
        )


def _allocate(batch, settings, start, index, guide, direction) -> Chains:
    n, examples, options, problem = settings.chains, batch.examples, settings.options, batch.problem
    total = examples * n
    state_at = _state_offsets(batch.state_sizes, n)
    states = [np.empty(at[-1], dtype) for at, dtype in zip(state_at, problem.state_dtypes, strict=True)]
    if start is not None:
        states[0] = np.array(start, problem.state_dtypes[0]).reshape(-1)
    value = np.zeros((total, _ROW))
    value[:, INVERSE_TEMPERATURE] = 1.0 / _per_chain(settings.temperature, n)
    entries, none = n * len(batch.theta), np.zeros(0, problem.state_dtypes[0])
    return Chains(
        which=batch.which,
        example=np.arange(examples) if index is None else index,
        theta_at=batch.theta_at,
        theta=batch.theta,
        guide=batch.theta if guide is None else guide,
        direction=_EMPTY if direction is None else direction,
        state_at=state_at,
        states=tuple(states),
        rng=np.zeros((total, ODOMETER_SIZE)) if options.first_step else np.empty((total, _ROW), np.uint64),
        clock=np.empty((total, _ROW), np.int64),
        value=value,
        sums=np.empty(entries),
        cross=np.empty(entries if options.covariance else 0),
        mean=np.empty(entries),
        counts=np.zeros((total, len(problem.moves) + -len(problem.moves) % 4, 4), np.int64),
        moved=np.zeros(entries if settings.watch else 0, np.uint8),
        origin=_origin(states[0], state_at[0], n) if settings.trace else none,
        best=np.empty_like(states[0]) if options.best else none,
        trace=np.full((total, settings.points, 2), np.nan),
        kept=np.zeros(settings.points * len(states[0]), states[0].dtype) if settings.keep else none,
        weights=problem.weights,
    )


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
    return np.repeat(value, chains) if isinstance(value, np.ndarray) else value


class _Caller:
    """Calls the kernel on a range of chains; bad starts become an error."""

    def __init__(self, kernel: Callable, batch: Batch, chains: Chains, plan: Plan, start_name: str) -> None:
        self._kernel, self._batch, self._chains, self._plan, self._start_name = kernel, batch, chains, plan, start_name
        self.stopped = False  # by Ctrl-C or an error in another thread

    def __call__(self, heat, last: bool, low: int, high: int) -> int:
        """Let chains low…high−1 go to their goals for a while; returns the first that has not arrived, ``high`` if all have."""
        try:
            found = self._kernel(*self._batch.packed, self._chains, self._plan, heat, last, low, high)
        except TypeError as error:  # a function came to an end without a value
            sentence = ends_without_value(self._batch.problem)
            if sentence is None:
                raise
            raise ValueError(sentence) from error
        if found >= 0:
            e, c = divmod(found, self._plan.chains)
            at = self._chains.state_at[0]
            got = self._chains.states[0][at[found] : at[found + 1]]
            raise self._batch.outside(self._start_name, got, c, e)
        return high if found == -1 else -2 - found

    def all(self, heat, last: bool, low: int, high: int) -> None:
        """Bring chains low…high−1 to their goals, unless stopped."""
        while low < high and not self.stopped:
            low = self(heat, last, low, high)

    def stop(self) -> None:
        self.stopped = True


def _run_steps(call: _Caller, chains: Chains, settings: Settings, progress) -> None:
    """All chains to a given number of steps: a range of chains for each thread, a stretch of steps at a time."""
    count_chains, goals, schedule = len(chains.clock), _per_chain(settings.steps, settings.chains), settings.schedule
    longest = int(goals.max()) if isinstance(goals, np.ndarray) else goals
    ranges = split(count_chains, 1 if longest * count_chains < _SERIAL_STEPS else get_threads())
    finished = {low: 0 for low, _ in ranges}

    def work(low: int, high: int) -> None:
        stretch = min(schedule.longest, max(_LEAST_STRETCH, _STRETCH // (high - low)))
        for first in range(0, longest, stretch):
            count = min(stretch, longest - first)
            stop = first + count
            chains.clock[low:high, GOAL] = np.minimum(goals[low:high], stop) if isinstance(goals, np.ndarray) else stop
            heat, at = schedule.steps(first, count, longest), low
            while at < high and not call.stopped:
                at = call(heat, stop == longest, at, high)
                if progress is not None:
                    finished[low] = first * (high - low) + count * (at - low)
                    progress(sum(finished.values()) / (longest * count_chains))
            if call.stopped:
                return

    parallel(work, ranges, call.stop)


def _run_seconds(call: _Caller, chains: Chains, settings: Settings, progress) -> None:
    """Each example for a given time; threads share the examples.

    Chains are started and make one step, whatever the limit. From then on all of them make so many steps at a time that the clock
    can be looked at soon enough, by what a step took the time before.
    """
    n, limit, most, schedule = settings.chains, float(settings.time_limit or 0.0), settings.steps or 1 << 62, settings.schedule
    ranges = split(len(chains.which), get_threads())
    finished = {low: 0 for low, _ in ranges}
    chains.clock[:, GOAL] = 0

    def one(e: int) -> None:
        low, high = e * n, (e + 1) * n
        begin, done, count, spent, ahead = perf_counter(), 0, 1, 0.0, 0.0
        while True:
            chains.clock[low:high, GOAL] = done + count
            share = min(1.0, spent / limit)
            call.all(schedule.seconds(done, count, share, min(1.0, share + ahead / limit)), False, low, high)
            before, spent, done = spent, perf_counter() - begin, done + count
            left = limit - spent
            if call.stopped or left < _LATEST * limit or done >= most:
                break
            ahead = min(left, _SHARE * limit, _PAUSE)
            count = max(1, min(int(count * ahead / max(spent - before, 1e-9)), most - done, schedule.longest))
        call.all(schedule.seconds(done, 1, 1.0, 1.0), True, low, high)

    def work(low: int, high: int) -> None:
        for e in range(low, high):
            one(e)
            if call.stopped:
                return
            finished[low] += 1
            if progress is not None:
                progress(sum(finished.values()) / len(chains.which))

    parallel(work, ranges, call.stop)
