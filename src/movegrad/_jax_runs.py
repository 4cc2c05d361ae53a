"""What a call of the JAX front end does, on arrays: of NumPy on the CPU, of PyTorch or CuPy on a GPU.

A :class:`Call` is what JAX calls, under whatever transformation and by whatever way: with all that is known while JAX traces as its
fields, and with arrays as its arguments. ``vmap`` puts axes in front of all of them. Examples of all its *groups* run as one batch,
and each gets what it would get alone: its numbers begin at 0 again, and groups have keys of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from movegrad import start as starts
from movegrad._calls import covariance_over_t, make_batch, observe, run_from
from movegrad.engine import HOST, Options, Run, Settings, on_gpu, place_of
from movegrad.neighborhoods import Neighborhoods
from movegrad.problem import Problem
from movegrad.sampling import one_step

_WORD, _SEED = 2**32 - 1, 2**63 - 1  # bits of a word of a key, and of a seed


class Result(NamedTuple):
    """Shape, without axes of ``vmap``, and dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Call:
    """A function of arrays, told apart by identity."""

    task: Callable[["Call", "Given"], Sequence[Any]]  # one of those below
    problem: Any  # a Problem, or a tuple of them: one for each row of θ, padded to the largest
    settings: Settings
    start: Any  # where chains begin, unless that is an operand
    improve: bool  # what is an operand is improved before
    y_is: str
    names: tuple[str, ...]  # of the operands
    axes: tuple[int, ...]  # of each of them, without those of ``vmap``
    results: tuple[Result, ...]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        given = Given(self, arrays)
        return tuple(given.back(rows, result) for rows, result in zip(self.task(self, given), self.results, strict=False))

    @property
    def ragged(self) -> bool:
        return not isinstance(self.problem, Problem)


class Given:
    """Operands of a call, their axes of ``vmap`` made one, of groups."""

    def __init__(self, call: Call, arrays: Sequence[Any]) -> None:
        self.call, self._arrays = call, dict(zip(call.names, arrays, strict=True))
        theta, axes = self._arrays["theta"], call.axes[call.names.index("theta")]
        self.place: Any = place_of(theta) if on_gpu(theta) else HOST
        self._lead = tuple(theta.shape[: theta.ndim - axes])
        self.groups, self.shape = prod(self._lead), tuple(theta.shape[theta.ndim - axes : -1])
        self.examples = prod(self.shape)  # of a group

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def of(self, name: str) -> Any:
        """(groups, …)"""
        array = self._arrays[name]
        if self.place is HOST:
            array = np.asarray(array)
            if array.dtype.kind == "V" or array.dtype == np.float16:  # bfloat16 and the like
                array = array.astype(np.float64)
        return array.reshape(self.groups, *array.shape[len(self._lead) :])

    def on_host(self, name: str) -> np.ndarray:
        array = self.of(name)
        return array if isinstance(array, np.ndarray) else self.place.numpy(array)

    def rows(self, name: str, last: int = 1) -> Any:
        """(E, …) with so many last axes, for all examples of all groups."""
        array = self.of(name)
        return array.reshape(-1, *array.shape[array.ndim - last :])

    def each(self, name: str, sizes: Sequence[int], last: int = 1) -> list[Any]:
        """Rows without their padding, one for each problem."""
        return [row[..., :size] for row, size in zip(self.rows(name, last), sizes, strict=True)]

    @cached_property
    def seeds(self) -> np.ndarray:
        """(groups,)"""
        words = self.on_host("key").astype(np.int64) & _WORD
        return (words[:, 0] << 32 | words[:, 1]) & _SEED

    @cached_property
    def indices(self) -> np.ndarray:
        """(groups, n) numbers of the examples, as given or one after the other."""
        if "index" in self:
            return self.on_host("index").reshape(self.groups, -1).astype(np.int64)
        return np.broadcast_to(np.arange(self.examples), (self.groups, self.examples))

    @property
    def seed_and_index(self) -> tuple[Any, np.ndarray]:
        """One seed for all examples, or one for each, and their numbers."""
        if self.groups == 1 and "index" not in self:  # the usual call is short
            high, low = self.on_host("key")[0].tolist()
            return ((high & _WORD) << 32 | (low & _WORD)) & _SEED, np.arange(self.examples)
        seeds, indices = self.seeds, self.indices
        if self.groups == 1 or (seeds == seeds[0]).all():
            return int(seeds[0]), indices.reshape(-1)
        return np.repeat(seeds, self.examples), indices.reshape(-1)

    @property
    def problem(self) -> Any:
        """That of all examples, or one for each."""
        return list(self.call.problem) * self.groups if not isinstance(self.call.problem, Problem) else self.call.problem

    def like_theta(self, name: str) -> Any:
        """As θ is for :func:`movegrad.sample`."""
        if self.call.ragged:
            return self.each(name, [p.size for p in self.problem])
        return self.of(name)[0] if self.groups == 1 else self.rows(name)

    def back(self, rows: Any, result: Result) -> Any:
        """What came of it, as JAX expects it; rows of different sizes are padded with 0."""
        if isinstance(rows, list):
            shape = (len(rows), *rows[0].shape[:-1], result.shape[-1])
            padded = self.place.own(np.zeros(shape, np.float64 if result.dtype.kind not in "iub" else result.dtype))
            for e, row in enumerate(rows):
                padded[e, ..., : row.shape[-1]] = row
            rows = padded
        rows = rows.reshape((*self._lead, *result.shape))
        return rows.astype(result.dtype) if self.place is HOST else self.place.arrays.copy(rows, result.dtype)


# --- tasks ---------------------------------------------------------------------------------------------------------------


def mean(call: Call, given: Given) -> Sequence[Any]:
    """ŷ, and where chains ended."""
    run = _run(call, given)
    return run.mean(), run.solutions


def product(call: Call, given: Given) -> Sequence[Any]:
    """Cov(T(Y))/t · v; NaN where v is not finite, as where gradients are scaled: whoever does so looks for them."""
    rows = given.place.own(given.rows("direction"))
    with np.errstate(invalid="ignore"):
        wrong = ~((rows - rows) == 0).all(-1)
    some = bool(wrong.any())
    if some:
        rows = given.place.numpy(rows).copy()
        rows[given.place.numpy(wrong)] = 0.0
        rows = given.place.own(rows)
    if call.ragged:
        flat = given.place.joined([row[: p.size] for row, p in zip(rows, given.problem, strict=True)])
    else:
        flat = rows.reshape(-1)
    flat = np.array(flat, np.float64) if given.place is HOST else given.place.arrays.copy(flat, np.float64)
    out = covariance_over_t(_run(call, given, direction=flat))
    if some:
        for e in np.flatnonzero(given.place.numpy(wrong)):
            out[e] = out[e] * np.nan
    return (out,)


def difference(call: Call, given: Given) -> Sequence[Any]:
    """ŷ − T(y), and where chains ended; with one θ for many y, for each of them."""
    if call.ragged:
        return _ragged_difference(call, given)
    if call.y_is == "mean":
        observed, statistics = None, given.place.vectors(given.rows("y"), "y", call.problem.size)
    else:
        observed, statistics = observe(call.problem, given.rows("y"))
    run = _run(call, given, observed)
    means = run.mean()
    if len(means) == len(statistics):
        return means - statistics, run.solutions
    many = statistics.reshape(given.groups, -1, call.problem.size)
    return means.reshape(given.groups, 1, -1) - many, run.solutions


def _ragged_difference(call: Call, given: Given) -> Sequence[Any]:
    problems = given.problem
    if call.y_is == "mean":
        observed, statistics = (
            None,
            [
                given.place.vectors(y, "y", p.size)
                for p, y in zip(problems, given.each("y", [p.size for p in problems]), strict=True)
            ],
        )
    else:
        rows = given.each("y", [len(p.solution) for p in problems])
        found = [observe(p, y[None]) for p, y in zip(problems, rows, strict=True)]
        observed, statistics = [o.solutions[0] for o in found], [o.statistics[0] for o in found]
    run = _run(call, given, observed)
    return [m - t for m, t in zip(run.mean(), statistics, strict=True)], run.solutions


def first_step(call: Call, given: Given) -> Sequence[Any]:
    """The exact loss of one step from y, and its gradient."""
    guide = given.rows("guide") if "guide" in given else None
    temperature = call.settings.temperature
    return one_step(call.problem, given.rows("theta"), given.rows("y"), temperature=temperature, guide=guide)


@dataclass(frozen=True, eq=False)
class ListedStep:
    """:func:`first_step` by neighborhoods that are listed once; on a GPU, moves run."""

    kept: Neighborhoods

    def __call__(self, call: Call, given: Given) -> Sequence[Any]:
        if given.place is not HOST or "guide" in given or self.kept.problem is not call.problem:
            return first_step(call, given)
        rows = self.kept.rows_of(given.rows("y"))
        return self.kept.one_step(given.rows("theta"), rows, temperature=call.settings.temperature)


# --- chains --------------------------------------------------------------------------------------------------------------


def _run(call: Call, given: Given, observed: Any = None, direction: Any = None) -> Run:
    problem, (seed, index) = given.problem, given.seed_and_index
    settings = call.settings._replace(seed=seed)
    if direction is not None:
        settings = settings._replace(options=Options(covariance=True))
    guide = given.like_theta("guide") if "guide" in given else None
    batch, start = make_batch(problem, given.like_theta("theta")), _start(call, given)
    return run_from(batch, settings, problem, start, observed=observed, index=index, guide=guide, direction=direction)[0]


def _start(call: Call, given: Given) -> Any:
    if "start" in given:
        return Fixed(given, call.improve)
    own = given.groups == 1 or any(call.start is known for known in (starts.random, starts.greedy, starts.target))
    return call.start if own else Each(call.start, given)


class Fixed:
    """Solutions that came as an operand: one for each example, or one for each chain."""

    def __init__(self, given: Given, improve: bool) -> None:
        self._given, self._improve = given, improve

    def __call__(self, request: starts.Request) -> Any:
        sizes = [len(p.solution) for p in request.problems]
        rows: Any = self._given.each("start", sizes, last=2) if self._given.call.ragged else self._given.rows("start", last=2)
        if not self._improve:
            return rows
        return starts.Heuristic(lambda request: rows)(request)


class Each:
    """A start that is asked for each group as if it were alone."""

    def __init__(self, start: Any, given: Given) -> None:
        self._start, self._given = start, given

    def __call__(self, request: starts.Request) -> list[Any]:
        given, parts = self._given, []
        n, many = given.examples, 0 if request.targets is None else len(request.targets) // given.groups
        for g in range(given.groups):
            one = request._replace(
                problems=request.problems[g * n : (g + 1) * n],
                indices=given.indices[g],
                targets=None if request.targets is None else request.targets[g * many : (g + 1) * many],
                seed=int(given.seeds[g]),
                shape=None if given.call.ragged else given.shape,
            )
            parts += starts.each_of(starts.asked(self._start, one), "start", n)
        return parts
