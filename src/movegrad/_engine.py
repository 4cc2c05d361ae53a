"""Runs chains: lays out memory, cuts the work into blocks for threads, clocks and Ctrl-C, and reads the results.

Front ends (NumPy, PyTorch, JAX) only translate: they make a :class:`Batch`, call :func:`run` and read :class:`Run`. Where θ is on a
GPU, so are the chains and their results; :mod:`movegrad._cuda` says where arrays live there and how the kernel is launched.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from movegrad._build import Options, build
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
_BLOCK_STEPS = 1 << 20  # per call of the kernel, about 20 ms: how long Ctrl-C and the progress bar wait
_FIRST_BLOCK = 64  # steps of the first block under a time limit, to learn the speed
_BLOCK_SHARE = 0.25  # of the time limit, at most, in one block
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


def shared_batch(problem: Problem, theta: np.ndarray) -> Batch:
    """One instance for all rows of θ (E, d)."""
    which, at, sizes, state_sizes = _shared_layout(len(theta), problem.size, problem.state_sizes.tobytes())
    return Batch((problem,), problem.packed, which, theta.reshape(-1), at, sizes, state_sizes)


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
    """What to do with a batch. Exactly one of ``steps`` (one number, or one per example) and ``time_limit`` is given."""

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
    plan = Plan(settings.seed, settings.call, settings.chains, settings.burn_in, float(settings.correction), every)
    call = _Caller(kernel, batch, chains, plan, settings.start_name)
    if settings.time_limit is not None or not kernel.overloads:  # compile for these types, or load, before the clock starts
        with readable_errors(batch.problem):
            call(settings.schedule.steps(0, 1, 1), False, 0, 0)
    begin = perf_counter()
    if settings.time_limit is None:
        _run_steps(call, chains, settings, progress)
    else:
        _run_seconds(call, chains, settings, progress)
    return Run(batch, chains, settings, perf_counter() - begin)


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

    def __call__(self, heat, last: bool, low: int, high: int) -> None:
        try:
            bad = self._kernel(*self._batch.packed, self._chains, self._plan, heat, last, low, high)
        except TypeError as error:  # a function came to an end without a value
            sentence = ends_without_value(self._batch.problem)
            if sentence is None:
                raise
            raise ValueError(sentence) from error
        if bad >= 0:
            e, c = divmod(bad, self._plan.chains)
            at = self._chains.state_at[0]
            got = self._chains.states[0][at[bad] : at[bad + 1]]
            raise self._batch.outside(self._start_name, got, c, e)


def _run_steps(call: _Caller, chains: Chains, settings: Settings, progress) -> None:
    """All chains to a given number of steps: a range of chains for each thread, a block of steps at a time."""
    count_chains, goals = len(chains.clock), _per_chain(settings.steps, settings.chains)
    longest = int(np.max(goals))
    parts = 1 if longest * count_chains < _SERIAL_STEPS else get_threads()
    finished: list[int] = [0]
    stopped: list[bool] = []

    def work(low: int, high: int) -> None:
        block = max(1, _BLOCK_STEPS // (high - low))
        for first in range(0, longest, block):
            count = min(block, longest - first)
            goal = goals[low:high] if isinstance(goals, np.ndarray) else goals
            chains.clock[low:high, GOAL] = np.minimum(goal, first + count)
            call(settings.schedule.steps(first, count, longest), first + count == longest, low, high)
            if stopped:
                return
            if progress is not None:
                finished[0] += count * (high - low)
                progress(min(1.0, finished[0] / (longest * count_chains)))

    parallel(work, split(count_chains, parts), lambda: stopped.append(True))


def _run_seconds(call: _Caller, chains: Chains, settings: Settings, progress) -> None:
    """Each example for a given time, blocks sized by the speed seen so far; threads share the examples."""
    n, limit = settings.chains, float(settings.time_limit or 0.0)
    finished: list[int] = [0]
    stopped: list[bool] = []
    chains.clock[:, GOAL] = 0

    def one(e: int) -> None:
        low, high = e * n, (e + 1) * n
        begin, done, count, spent, ahead = perf_counter(), 0, _FIRST_BLOCK, 0.0, 0.0
        while True:
            chains.clock[low:high, GOAL] = done + count
            share = min(1.0, spent / limit)
            call(settings.schedule.seconds(done, count, share, min(1.0, share + ahead / limit)), False, low, high)
            done += count
            spent = perf_counter() - begin
            left = limit - spent
            if stopped or (left < 0.02 * limit and done > settings.burn_in):
                break
            ahead = max(0.0, min(left, _BLOCK_SHARE * limit))
            count = max(1, int(done / spent * ahead), settings.burn_in + 1 - done if left <= 0 else 1)
        call(settings.schedule.seconds(done, 1, 1.0, 1.0), True, low, high)

    def work(low: int, high: int) -> None:
        for e in range(low, high):
            one(e)
            if stopped:
                return
            finished[0] += 1
            if progress is not None:
                progress(finished[0] / len(chains.which))

    parallel(work, split(len(chains.which), get_threads()), lambda: stopped.append(True))
