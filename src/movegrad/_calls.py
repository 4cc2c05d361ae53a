"""What every front end does for a call: read its arguments, choose the place where chains run, run them, give results their shape.

Front ends (:mod:`movegrad.sampling`, torch, JAX, PyEPO) and the checker share it; users see none of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from movegrad import start as starts
from movegrad._progress import reporter
from movegrad._validate import (
    MOST,
    array_of,
    function_of,
    instance_of,
    integer_in,
    listed,
    positive,
    positives,
    seed_in,
    sequence,
    shown,
    whole,
)
from movegrad.engine import HOST, TRUSTED, Batch, Begin, Options, Run, Settings, on_gpu, place_of, ragged_batch, shared_batch
from movegrad.problem import Problem
from movegrad.schedules import Annealing, Custom

ESTIMATORS = ("mean", "recycled")

# --- arguments -----------------------------------------------------------------------------------------------------------


def make_batch(problem: Problem | Sequence[Problem], theta: Any) -> Batch:
    """The examples. Here it is decided where chains run: where θ is."""
    if isinstance(problem, Problem):
        place = place_of(theta)
        array = place.vectors(theta, "theta", problem.size)
        return shared_batch(place, problem, array.reshape(-1, problem.size), tuple(array.shape[:-1]))
    problems = problems_of(problem)
    thetas = listed(theta, "theta", len(problems), "problems")
    place = place_of(thetas[0])
    rows = [place.vectors(t, f"theta[{e}]", p.size) for e, (p, t) in enumerate(zip(problems, thetas, strict=True))]
    for e, row in enumerate(rows):
        if row.ndim != 1:
            raise ValueError(f"theta[{e}] must have one axis, got shape {row.shape}.")
    return ragged_batch(place, problems, rows)


def problems_of(problem: Any) -> list[Problem]:
    """The problems of a list; it is read again later, so that an iterator will not do."""
    problems = sequence(problem, "problem, if it is not a Problem,", "problems")
    if not problems:
        raise ValueError("problem must not be an empty sequence, got one.")
    for p in problems:
        instance_of(p, "problem", Problem)
    return problems


def make_settings(
    *,
    steps: Any = None,
    time_limit: float | None = None,
    temperature: Any = 1.0,
    schedule: Any = None,
    burn_in: int = 0,
    chains: int = 1,
    seed: int = 0,
    call: int = 0,
    **others: Any,
) -> Settings:
    """Validated settings."""
    if (steps is None) == (time_limit is None):
        got = f"steps={shown(steps)} and time_limit={shown(time_limit)}"
        raise ValueError(f"exactly one of steps and time_limit must be given, got {got}.")
    if time_limit is not None:
        time_limit = positive(time_limit, "time_limit")
    else:
        steps = integer_in(whole(steps), "steps", 1)
    burn_in = integer_in(whole(burn_in), "burn_in", 0)
    if steps is not None and burn_in >= steps:
        raise ValueError(f"burn_in must be < steps = {steps}, got {burn_in}.")
    if schedule is not None and not isinstance(schedule, Annealing):
        schedule = Custom(function_of(schedule, "schedule", 1, "the step k"))
    return Settings(
        steps=steps,
        time_limit=time_limit,
        temperature=positives(temperature, "temperature"),
        schedule=schedule,
        burn_in=burn_in,
        chains=integer_in(chains, "chains", 1, MOST),
        seed=seed_in(seed),
        call=seed_in(call, "call"),
        **others,
    )


def check_temperatures(temperature: Any, batch: Batch) -> None:
    """Temperatures are one for each row of θ, in the order of its leading axes."""
    if batch.shape is not None and np.ndim(temperature) > 1 and np.shape(temperature) != batch.shape:
        raise ValueError(f"temperature must have the leading axes {batch.shape} of theta, got shape {np.shape(temperature)}.")


def like_theta(value: Any, name: str, batch: Batch, problem: Any) -> Any:
    """A vector for each example, flat."""
    place = batch.place
    if on_gpu(value) and place is HOST:
        raise ValueError(f"{name} must be on the host, as theta is, got an array on a GPU.")
    if isinstance(problem, Problem):
        array = place.vectors(value, name, problem.size)
        if tuple(array.shape[:-1]) != batch.shape:
            raise ValueError(f"{name} must have the leading axes {batch.shape} of theta, got shape {tuple(array.shape)}.")
        return array.reshape(-1)
    values = listed(value, name, len(problem), "problems")
    flat = place.joined([place.vectors(v, name, p.size).reshape(-1) for v, p in zip(values, problem, strict=True)])
    if len(flat) != len(batch.theta):
        raise ValueError(f"{name} must have the shape of theta, got {len(flat)} entries instead of {len(batch.theta)}.")
    return flat


def like_solutions(value: Any, name: str, shape: tuple[int, ...], problem: Problem) -> Any:
    """Solutions with the leading axes of θ, as rows, or one for all: (*shape, size), or (size,) on a GPU."""
    array, size = value if on_gpu(value) else array_of(value, name), len(problem.solution)
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {array.shape}.")
    if array.ndim == 2 and len(array) == np.prod(shape):
        array = array.reshape(*shape, size)
    if array.ndim > 1 and tuple(array.shape[:-1]) != tuple(shape):
        raise ValueError(f"{name} must have shape {(*shape, size)}, got {array.shape} for theta with the leading axes {shape}.")
    return np.broadcast_to(array, (*shape, size)) if isinstance(array, np.ndarray) else array


def index_of(index: Any, examples: int, name: str = "index") -> np.ndarray:
    """(E,) numbers of the examples: by default one after the other."""
    if index is None:
        return np.arange(examples)
    given = array_of(place_of(index).numpy(index) if on_gpu(index) else index, name)
    if given.dtype.kind not in "iu" or given.shape != (examples,):
        raise ValueError(
            f"{name} must be {examples} integers, one for each row of theta, got shape {given.shape} of {given.dtype}."
        )
    return given.astype(np.int64)


# --- runs ----------------------------------------------------------------------------------------------------------------


class Observed(NamedTuple):
    """Observed solutions, found to be in the set, and what the loss asks of them."""

    solutions: Any  # (n, size), or a list of (size,) for a list of problems
    statistics: Any  # T(y): (n, d), or a list of (d,)


def observe(problem: Problem, y: Any, name: str = "y") -> Observed:
    """Observed solutions (n, size), which must be in the set, and their T(y) (n, d)."""
    place = place_of(y)
    solutions = place.solutions(y, problem, name)
    return Observed(solutions, place.observe(problem, solutions, name))


def run_from(
    batch: Batch, settings: Settings, problem: Any, start: Any, *, observed: Any = None, index: Any = None, guide: Any = None,
    direction: Any = None, progress: Any = None,
) -> tuple[Run, Begin]:  # fmt: skip
    """Run from a start; also returns where chains began, from which the same chains can be run again.

    ``observed`` are solutions that are known to be in the set: one for each example, or many for one θ.
    """
    if progress is not None:
        progress = reporter(progress)
        progress = progress and function_of(progress, "progress", 1, "the fraction done")
    begin, keys, memory = begin_from(batch, settings, problem, start, observed, index)
    guide = None if guide is None else like_theta(guide, "guide", batch, problem)
    result = batch.place.execute(batch, settings, begin, keys, guide, direction, progress)
    if memory is not None:
        memory.remember(keys, list(result.solutions))
    return result, begin


def begin_from(
    batch: Batch, settings: Settings, problem: Any, start: Any, observed: Any = None, index: Any = None
) -> tuple[Begin, np.ndarray, Any]:
    """Where chains begin, (E,) numbers of the examples, and what is to be told where chains ended, or None."""
    if isinstance(settings.temperature, np.ndarray) and len(settings.temperature) != batch.examples:
        got = len(settings.temperature)
        raise ValueError(f"temperature must be a number or {batch.examples} of them, one for each row of theta, got {got}.")
    keys = index_of(index, batch.examples)
    if start is starts.target and not isinstance(observed, (list, type(None))) and len(observed) == batch.examples:
        return Begin(observed.reshape(-1), np.full(batch.examples, TRUSTED)), keys, None
    chosen = starts.resolve(start)
    problems = [problem] * batch.examples if isinstance(problem, Problem) else problem
    request = starts.Request(problems, settings.chains, keys, observed, settings.seed, settings.call, batch.shape)
    begin = starts.flatten(starts.asked(chosen, request), request, batch.place, settings.start_name)
    return begin, keys, starts.memory(chosen)


def run_again(result: Run, begin: Begin, direction: Any) -> Run:
    """The same chains once more, now with the covariance product in a direction: nothing of the first run was stored."""
    chains = result.chains
    return replay(result.batch, result.settings, result.steps, begin, chains.indices, chains.guide, direction)


def replay(batch: Batch, settings: Settings, steps: Any, begin: Begin, indices: np.ndarray, guide: Any, direction: Any) -> Run:
    """The same from what the first run depended on."""
    settings = settings._replace(
        steps=np.array(steps), time_limit=None, trace=0, iterates=False, watch=False, options=Options(covariance=True)
    )
    return batch.place.execute(batch, settings, begin, indices, guide, direction)


# --- results -------------------------------------------------------------------------------------------------------------


def covariance_over_t(result: Run) -> Any:
    """Cov(T, ⟨v, T⟩)/t of each example."""
    covariance, t = result.covariance(), np.broadcast_to(result.settings.temperature, result.batch.examples)
    if isinstance(covariance, list):
        return [c / s for c, s in zip(covariance, t.tolist(), strict=True)]
    return covariance / result.batch.place.own(np.array(t))[:, None]


def shaped(rows: Any, batch: Batch, then: Callable = lambda a: a) -> Any:
    """Give results per example the leading axes of θ; a list of problems gets a list."""
    if batch.shape is None:
        return [then(batch.place.own(r)) for r in rows]
    array = batch.place.stacked(rows) if isinstance(rows, list) else rows
    return then(array.reshape((*batch.shape, *array.shape[1:])))
