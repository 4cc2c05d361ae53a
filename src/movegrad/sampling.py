"""NumPy entry points: :func:`sample`, :func:`solve` and :func:`jacobian_product`."""

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from movegrad import start as starts
from movegrad._build import Options, observer
from movegrad._device import arrays_of, device_vectors, highest, joined, on_device
from movegrad._engine import Batch, Run, Settings, pause, ragged_batch, run, shared_batch
from movegrad._explain import readable_errors
from movegrad._kernel import BEST_OBJECTIVE, NOT_LOADED, OBJECTIVE, TO_IMPROVE
from movegrad._threads import get_threads
from movegrad._validate import (
    MOST,
    array_of,
    choice,
    finite_vectors,
    flag,
    function_of,
    instance_of,
    integer_in,
    listed,
    positive,
    positives,
    seed_in,
    sequence,
    shown,
)  # fmt: skip
from movegrad.diagnostics import Info
from movegrad.problem import NotInSet, Problem, encoded, outside
from movegrad.schedules import Annealing, Custom, Hot, Schedule, Steady

ESTIMATORS = ("mean", "recycled")
_PILOT = 256  # steps at infinite temperature from which annealing learns the scale of the objective
_PILOT_SHARE = 0.1  # of a time limit for them, at most, and for annealing, at least
_RESTARTS = 64  # runs from random starts, at most, that annealing adds for a small instance
_TOGETHER = 4096  # chains of such runs at a time: they are short, and memory is not


class Sample(NamedTuple):
    """Result of :func:`sample`; "…" are the leading axes of θ. For a list of problems, lists over examples."""

    mean: Any  # (…, d) estimate of E[T(Y)]
    state: Any  # (…, chains, size) where each chain ended
    info: Info
    best: Any = None  # (…, chains, size) best solution that each chain saw, on request
    iterates: Any = None  # (…, chains, points, size) thinned iterates, on request


class Solution(NamedTuple):
    """Result of :func:`solve`."""

    state: Any  # (…, size) best solution seen
    objective: Any  # (…) ⟨θ, T(y)⟩ + φ(y) of it
    info: Info
    problem: Any = None

    def __getattr__(self, name: str) -> Any:
        """What the problem says about a solution (``Problem.read``), such as ``routes``; lists of it where there are several."""
        if name.startswith("_") or self.problem is None:
            raise AttributeError(name)
        if not isinstance(self.problem, Problem):
            return [_read(p, y, name) for p, y in zip(self.problem, self.state, strict=True)]
        rows = [_read(self.problem, y, name) for y in self.state.reshape(-1, self.state.shape[-1])]
        return rows[0] if self.state.ndim == 1 else rows


def _read(problem: Problem, solution: np.ndarray, name: str) -> Any:
    known = problem.read(solution)
    if name not in known:
        raise AttributeError(f"a solution of {problem.name} has no {name!r}, but {', '.join(known) or 'nothing to read'}.")
    return known[name]


def sample(
    problem: Problem | Sequence[Problem],
    theta: Any,
    *,
    steps: int | None = None,
    time_limit: float | None = None,
    temperature: Any = 1.0,
    schedule: Schedule | None = None,
    burn_in: int = 0,
    chains: int = 1,
    start: Any = "random",
    estimator: str = "mean",
    best: bool = False,
    trace: int = 128,
    iterates: bool = False,
    guide: Any = None,
    index: Any = None,
    seed: int = 0,
    call: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Sample:
    """Average T(y) along Metropolis-Hastings chains with stationary law π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t).

    K steps give iterates y(1) … y(K); the mean is (K − K₀)⁻¹ Σ_{k>K₀} T(y(k)), averaged over chains.

    Parameters
    ----------
    problem : Problem, or a sequence of them, one for each θ, of one kind but any sizes
    theta : float array (…, d), or a sequence of arrays (d,) for a sequence of problems
    steps, time_limit : K, or seconds of chain time for each example, shared by its chains; each chain makes one step at least. Only
        steps are reproducible
    temperature : t > 0, one number or one for each example
    schedule : callable k → factor of the temperature in step k (see :mod:`movegrad.schedules`)
    burn_in : K₀, first iterates left out of the mean. Where a time limit ends before, a warning says so, and the mean is that of
        the last solution
    chains : independent chains for each example
    start : "random", "persistent", solutions, or a callable; see :mod:`movegrad.start`
    estimator : "mean", or "recycled": add the accepted share of each proposal instead of the coin's outcome; the same
        expectation with less variance, most of all for few steps
    best : also return the best solution that each chain saw
    trace : points at which the objective and the distance to the start are recorded for ``info``
    iterates : also return the iterates at these points
    guide : like θ, what guided moves look at instead of θ
    index : (E,) integer keys of the examples: a chain's draws depend on (seed, call, key, chain) and on nothing else
    progress : called with the fraction done

    References
    ----------
    Algorithms 1 and 2 of "Learning with Local Search MCMC Layers".
    """
    choice(estimator, "estimator", ESTIMATORS)
    batch, shape = make_batch(problem, theta)
    best, iterates = flag(best, "best"), flag(iterates, "iterates")
    options = Options(recycle=estimator == "recycled", best=best)
    trace = integer_in(trace, "trace", 0) if time_limit is None else 0
    if iterates and not trace:
        raise ValueError(f"iterates must be False where nothing is traced (trace=0 or a time limit), got {iterates}.")
    settings = make_settings(
        steps=steps, time_limit=time_limit, temperature=temperature, schedule=schedule, burn_in=burn_in, chains=chains,
        options=options, trace=trace, keep=iterates, watch=True, seed=seed, call=call,
    )  # fmt: skip
    _check_axes(temperature, shape)
    result, _ = run_from(batch, settings, problem, start, index=index, guide=guide, progress=progress)
    kept = None if not iterates else shaped(result.kept, shape, lambda a: a.reshape(*a.shape[:-1], settings.points, -1))
    return Sample(
        shaped(result.mean(), shape),
        shaped(result.solutions, shape),
        Info(result.on_host),
        shaped(result.best, shape) if best else None,
        kept,
    )


def solve(
    problem: Problem | Sequence[Problem],
    theta: Any,
    *,
    steps: int | None = None,
    time_limit: float | None = None,
    schedule: Any = None,
    chains: int = 1,
    start: Any = "greedy",
    correction: bool = True,
    guide: Any = None,
    index: Any = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Solution:
    """Maximize ⟨θ, T(y)⟩ + φ(y) by simulated annealing; returns the best solution seen in any chain.

    One long run is best for a large instance. A small one, of at most ∜(3·steps) entries, is solved by short runs as well, unless a
    ``schedule`` is given: up to 64 from random starts, no more than ``steps`` in all. They find what lies behind a barrier that no
    run from one start crosses, or in a part of the set that moves do not reach from there. ``info`` is about the long run alone.

    Parameters
    ----------
    steps, time_limit : number of steps of each chain, or seconds for each example, shared by its chains and short runs
    schedule : callable k → t, or an :class:`~movegrad.schedules.Annealing`. By default the temperature falls geometrically from
        the mean change of the objective under random moves to a thousandth of it, or as the problem's ``cooling`` says
    correction : use the proposal ratio in the acceptance rule (Metropolis-Hastings). Annealing in the paper does not. Where ratios
        are 1 it is the same; skewed proposals, such as guided ones or those of routing, hardly ever go back without it
    problem, theta, chains, start, guide, index, seed, progress : as in :func:`sample`
    """
    batch, shape = make_batch(problem, theta)
    settings = make_settings(
        steps=steps, time_limit=time_limit, chains=chains,
        schedule=Annealing(*batch.problem.cooling) if schedule is None else schedule,
        options=Options(best=True), correction=flag(correction, "correction"), seed=seed,
    )  # fmt: skip
    found: list[tuple[int, Any, Any]] = []
    if schedule is None:
        pilot = _pilot(batch, problem, start, settings, index, guide)
        settings, begin = settings._replace(temperature=pilot.scale), perf_counter()
        for part, short in _short_runs(batch, problem, settings, _affordable(settings, pilot.speed), index, guide):
            found += zip(part.tolist(), *_winners(short), strict=True)
        if time_limit is not None:  # what the pilot and the short runs took is part of it, and what was built is not built again
            left = time_limit - pilot.seconds - (perf_counter() - begin) / batch.examples
            settings = settings._replace(time_limit=max(left, _PILOT_SHARE * time_limit))
            start = pilot.start if isinstance(start, str) and start == "greedy" else start
    result, _ = run_from(batch, settings, problem, start, index=index, guide=guide, progress=progress)
    states, best = _winners(result)
    for e, state, value in found:
        if value > best[e]:
            states[e], best[e] = state, value
    best = shaped(best, shape)
    return Solution(shaped(states, shape), best[()] if isinstance(best, np.ndarray) else best, Info(result.on_host), problem)


def jacobian_product(
    problem: Problem | Sequence[Problem], theta: Any, direction: Any, *, steps: int, temperature: Any = 1.0, burn_in: int = 0,
    chains: int = 1, start: Any = "random", guide: Any = None, index: Any = None, seed: int = 0, call: int = 0,
) -> Any:  # fmt: skip
    """J v for the Jacobian J = Cov(T(Y))/t of θ ↦ E[T(Y)], estimated along chains in O(1) per step; J is symmetric.

    Parameters
    ----------
    direction : like θ, v
    others : as in :func:`sample`
    """
    batch, shape = make_batch(problem, theta)
    settings = make_settings(
        steps=steps, temperature=temperature, burn_in=burn_in, chains=chains, options=Options(covariance=True), seed=seed,
        call=call,
    )  # fmt: skip
    _check_axes(temperature, shape)
    v = like_theta(direction, "direction", batch, problem)
    result, _ = run_from(batch, settings, problem, start, index=index, guide=guide, direction=v)
    return shaped(covariance_over_t(result), shape)


def one_step(
    problem: Problem | Sequence[Problem], theta: Any, y: Any, *, temperature: Any = 1.0, guide: Any = None
) -> tuple[Any, Any]:
    """Exact Fenchel-Young loss of one step from y, and its gradient E[T(y⁽¹⁾)] − T(y), by listing the neighborhood.

    ℓ(θ; y) = t Σ q(y, y')·f(Δ/t + log α), with f(s) = eˢ for s ≤ 0 and 1 + s for s > 0: nothing is sampled.

    Parameters
    ----------
    y : solutions (…, size), or a sequence of them for a sequence of problems
    guide : like θ; must be given for guided problems, whose proposals have no such loss unless their guide is frozen
    problem, theta, temperature : as in :func:`sample`

    Returns
    -------
    values of shape (…) and gradients of shape (…, d)

    References
    ----------
    Proposition "Existence of a Fenchel-Young loss when K = 1" of "Learning with Local Search MCMC Layers".
    """
    batch, shape = make_batch(problem, theta)
    if batch.problem.guided and guide is None:
        raise ValueError(
            f"guide must be given, since proposals of {batch.problem.name} depend on theta: there is no one-step loss otherwise."
        )
    options = Options(first_step=True)
    settings = make_settings(steps=1, temperature=temperature, options=options, start_name="y")
    _check_axes(temperature, shape)
    y = y if shape is None else like_solutions(encoded(batch.problem, y, "y"), "y", shape, batch.problem)
    result, _ = run_from(batch, settings, problem, starts.Given(y, "y"), guide=guide)
    values = result.chains.value[:, OBJECTIVE]
    if (values != values).any():
        raise ValueError(
            f"problem must propose with at most 64 draws and 2²⁶ outcomes to be listed, got more from {batch.problem.name}: count "
            "what fits and draw once among it, rather than draw until something fits."
        )
    if (values == np.inf).any():
        raise ValueError(
            f"theta must be finite when it is divided by the temperature, got an infinite loss at temperature {temperature}."
        )
    return shaped(values, shape), shaped(result.mean(), shape)


# --- shared by the front ends ----------------------------------------------------------------------------------------


def make_batch(problem: Problem | Sequence[Problem], theta: Any) -> tuple[Batch, tuple[int, ...] | None]:
    """The batch, and the leading axes of θ (None for a list of problems)."""
    if isinstance(problem, Problem):
        array = vectors(theta, "theta", problem.size)
        shape = tuple(array.shape[:-1])
        return shared_batch(problem, array.reshape(-1, problem.size), shape), shape
    problems = problems_of(problem)
    thetas = listed(theta, "theta", len(problems), "problems")
    rows = [vectors(t, f"theta[{e}]", p.size) for e, (p, t) in enumerate(zip(problems, thetas, strict=True))]
    for e, row in enumerate(rows):
        if row.ndim != 1:
            raise ValueError(f"theta[{e}] must have one axis, got shape {row.shape}.")
    return ragged_batch(problems, rows), None


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
        steps = integer_in(steps, "steps", 1)
    burn_in = integer_in(burn_in, "burn_in", 0)
    if steps is not None and burn_in >= steps:
        raise ValueError(f"burn_in must be < steps = {steps}, got {burn_in}.")
    if schedule is None:
        schedule = Steady()
    elif not isinstance(schedule, Annealing):
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


def run_from(
    batch: Batch, settings: Settings, problem: Any, start: Any, *, targets: Any = None, index: Any = None, guide: Any = None,
    direction: np.ndarray | None = None, progress: Any = None,
) -> tuple[Run, tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """Run from a start; also returns the starting solutions, from which the same chains can be run again."""
    if isinstance(settings.temperature, np.ndarray) and len(settings.temperature) != batch.examples:
        got = len(settings.temperature)
        raise ValueError(f"temperature must be a number or {batch.examples} of them, one for each row of theta, got {got}.")
    if progress is not None:
        function_of(progress, "progress", 1, "the fraction done")
    chosen = starts.resolve(start)
    keys = np.arange(batch.examples) if index is None else _keys(index, batch.examples)
    problems = [problem] * batch.examples if isinstance(problem, Problem) else problem
    request = starts.Request(problems, settings.chains, keys, targets, settings.seed, settings.call, batch.shape)
    if on_device(batch.theta):
        from movegrad import _device_start

        solutions, kinds = _device_start.flatten(chosen, request, settings.start_name, arrays_of(batch.theta))
    else:
        solutions, kinds = starts.flatten(starts.asked(chosen, request), request, settings.start_name)
    guide = None if guide is None else like_theta(guide, "guide", batch, problem)
    result = run(batch, settings, solutions, kinds, keys, guide, direction, progress)
    if (memory := starts.memory(chosen)) is not None:
        memory.remember(keys, list(result.solutions))
    return result, (solutions, kinds)


def run_again(result: Run, begin: tuple[np.ndarray, np.ndarray], direction: Any) -> Run:
    """The same chains once more, now with the covariance product in a direction: nothing of the first run was stored."""
    chains = result.chains
    settings = result.settings._replace(
        steps=np.array(result.steps), time_limit=None, trace=0, keep=False, watch=False, options=Options(covariance=True)
    )
    return run(result.batch, settings, *begin, chains.example, chains.guide, direction)


def observe(problem: Problem, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Observed solutions (n, size), which must be in the set, and their T(y) (n, d)."""
    if on_device(y):
        from movegrad import _cuda, _device_start

        given = _device_start.solutions(y, problem, "y")
        return given, _cuda.observe(problem, given)
    solutions = np.ascontiguousarray(starts.as_solutions(y, problem, "y"))
    out, kernel, first = np.zeros((len(solutions), problem.size)), observer(problem), 0
    if not kernel.overloads:
        with readable_errors(problem):
            kernel(*problem.packed, 0, solutions[:0], out, 0, pause())
    while first < len(solutions):  # again and again, lest Ctrl-C wait
        found = kernel(*problem.packed, 0, solutions, out, first, pause())
        if found >= 0:
            raise outside(problem, "y", solutions[found], f" in row {found}")
        first = len(solutions) if found == -1 else -2 - found
    return solutions, out


def covariance_over_t(result: Run) -> Any:
    """Cov(T, ⟨v, T⟩)/t of each example."""
    covariance, t = result.covariance(), np.broadcast_to(result.settings.temperature, result.batch.examples)
    if result.on_device and not isinstance(covariance, list):
        return covariance / arrays_of(covariance).own(np.array(t))[:, None]
    return [c / s for c, s in zip(covariance, t, strict=True)] if isinstance(covariance, list) else covariance / t[:, None]


def like_theta(value: Any, name: str, batch: Batch, problem: Any) -> np.ndarray:
    """A vector for each example, flat."""
    if on_device(value) and not on_device(batch.theta):
        raise ValueError(f"{name} must be on the host, as theta is, got an array on a GPU.")
    if isinstance(problem, Problem):
        array = vectors(value, name, problem.size)
        if tuple(array.shape[:-1]) != batch.shape:
            raise ValueError(f"{name} must have the leading axes {batch.shape} of theta, got shape {tuple(array.shape)}.")
        return array.reshape(-1)
    values = listed(value, name, len(problem), "problems")
    flat = joined([vectors(v, name, p.size).reshape(-1) for v, p in zip(values, problem, strict=True)])
    if len(flat) != len(batch.theta):
        raise ValueError(f"{name} must have the shape of theta, got {len(flat)} entries instead of {len(batch.theta)}.")
    return flat


def _check_axes(temperature: Any, shape: tuple[int, ...] | None) -> None:
    """Temperatures are one for each row of θ, in the order of its leading axes."""
    if shape is not None and np.ndim(temperature) > 1 and np.shape(temperature) != shape:
        raise ValueError(f"temperature must have the leading axes {shape} of theta, got shape {np.shape(temperature)}.")


def like_solutions(value: Any, name: str, shape: tuple[int, ...], problem: Problem) -> np.ndarray:
    """Solutions with the leading axes of θ, as rows, or one for all: (*shape, size)."""
    array, size = value if on_device(value) else array_of(value, name), len(problem.solution)
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {array.shape}.")
    if array.ndim == 2 and len(array) == np.prod(shape):
        array = array.reshape(*shape, size)
    if array.ndim > 1 and tuple(array.shape[:-1]) != tuple(shape):
        raise ValueError(f"{name} must have shape {(*shape, size)}, got {array.shape} for theta with the leading axes {shape}.")
    return array if on_device(array) else np.broadcast_to(array, (*shape, size))


def shaped(rows: Any, shape: tuple[int, ...] | None, then: Callable = lambda a: a) -> Any:
    """Give results per example the leading axes of θ; a list of problems gets a list."""
    if shape is None:
        return [then(r if on_device(r) else np.asarray(r)) for r in rows]
    if isinstance(rows, list) and on_device(rows[0]):
        rows = arrays_of(rows[0]).stack(rows)
    array = rows if on_device(rows) else np.asarray(rows)
    return then(array.reshape((*shape, *array.shape[1:])))


def vectors(value: Any, name: str, size: int) -> Any:
    """A float64 array of shape (…, size): checked at once, or by the kernel where it is on a GPU."""
    return device_vectors(value, name, size) if on_device(value) else finite_vectors(value, name, size)


def _keys(index: Any, examples: int) -> np.ndarray:
    keys = arrays_of(index).numpy(index) if on_device(index) else array_of(index, "index")
    if keys.dtype.kind not in "iu" or keys.shape != (examples,):
        raise ValueError(f"index must be {examples} integers, one for each row of theta, got shape {keys.shape} of {keys.dtype}.")
    return keys.astype(np.int64)


def _winners(result: Run) -> tuple[list[Any], Any]:
    """For each example the best solution seen in any chain, and (E,) their objectives."""
    values = result.chains.value[:, BEST_OBJECTIVE].reshape(-1, result.settings.chains)
    return [rows[w] for rows, w in zip(result.best, values.argmax(1), strict=True)], highest(values)


class Pilot(NamedTuple):
    """What annealing learns from a few steps at infinite temperature."""

    scale: np.ndarray  # (E,) mean change of the objective under random moves: a temperature at which most are still accepted
    seconds: float  # of chain time for each example that this took
    speed: float  # steps of a chain in a second of it
    start: Any  # as good as the given one


def _pilot(batch: Batch, problem: Any, start: Any, settings: Settings, index: Any, guide: Any) -> Pilot:
    limit = None if settings.time_limit is None else _PILOT_SHARE * settings.time_limit
    few = settings._replace(steps=_PILOT, time_limit=limit, schedule=Hot(), trace=_PILOT)  # the same kernel: compiled once
    result, _ = run_from(batch, few, problem, "random" if starts.memory(start) else start, index=index, guide=guide)
    scale, total = _mean_change(result), result.seconds
    still = np.flatnonzero(np.isnan(scale))  # nothing changed from the start
    for part, other in _from_random(batch, problem, few._replace(call=1), still, index, guide):
        scale[part] = _mean_change(other)
        total += other.seconds
    side_by_side = batch.examples if result.on_device else min(get_threads(), batch.examples)
    share = side_by_side / batch.examples
    speed = float(np.mean(result.on_host.steps)) * settings.chains / max(result.seconds * share, 1e-9)
    best = start if result.on_device else lambda request: list(result.best)
    return Pilot(np.where(np.isnan(scale), 1.0, scale), total * share, speed, best)


def _mean_change(pilot: Run) -> np.ndarray:
    """(E,) mean of the changes of the objective along the chains of an example; NaN where there are none."""
    traces = pilot.on_host.chains.trace[:, :, 0].reshape(pilot.batch.examples, pilot.settings.chains, -1)
    changes = np.nan_to_num(np.abs(np.diff(traces, axis=2))).reshape(pilot.batch.examples, -1)  # a limit may leave the end open
    moved = (changes > 0).sum(1)
    return np.where(moved > 0, changes.sum(1) / np.maximum(moved, 1), np.nan)


def _affordable(settings: Settings, speed: float) -> int:
    """Steps that short runs may have in all: as many as the long one, or what takes half of the time limit at the pilot's speed."""
    return settings.steps if settings.time_limit is None else int(0.5 * settings.time_limit * speed)


def _short_runs(
    batch: Batch, problem: Any, settings: Settings, steps: int, index: Any, guide: Any
) -> Iterator[tuple[np.ndarray, Run]]:
    """Annealing from random starts, and again from where that ended, of the examples that are small for so many steps.

    Ends are improved in between, where the problem can: on 900 random routing instances of 3 to 5 requests, runs of 2000 steps from
    one start miss the optimum in 5 % of cases, with these in 0.1 %. Longer or fewer short runs find less.
    """
    most = (3 * steps) ** 0.25
    length, small = int(5 * most), np.flatnonzero(batch.state_sizes[0] <= most)
    if steps < 2 * length or length == 0:  # none fit into a limit of nanoseconds
        return
    short = settings._replace(steps=length, time_limit=None, chains=min(_RESTARTS, steps // (2 * length)), call=1)
    kind = NOT_LOADED if batch.problem.functions.improve is None else NOT_LOADED + TO_IMPROVE
    for part, first in _from_random(batch, problem, short, small, index, guide):
        yield part, first
        ends, kinds = first.chains, np.full(len(part), kind)
        yield part, run(first.batch, first.settings._replace(call=2), ends.states[0], kinds, ends.example, ends.guide)


def _from_random(
    batch: Batch, problem: Any, settings: Settings, examples: np.ndarray, index: Any, guide: Any
) -> Iterator[tuple[np.ndarray, Run]]:
    """Run some examples from random starts, a part of them at a time; left out are those whose random starts are not in the set.

    A problem may have such starts where the set is tight and a solution is hard to find.
    """
    keys = np.arange(batch.examples) if index is None else np.asarray(index)
    guides = None if guide is None else like_theta(guide, "guide", batch, problem)
    count = max(1, _TOGETHER // settings.chains)
    parts = [examples[i : i + count] for i in range(0, len(examples), count)]
    while parts:
        part = parts.pop()
        at = [slice(batch.theta_at[e], batch.theta_at[e + 1]) for e in part]
        problems = [batch.problems[i] for i in batch.which[part]]
        some, own = ragged_batch(problems, [batch.theta[a] for a in at]), None if guides is None else [guides[a] for a in at]
        heat = settings.temperature[part] if isinstance(settings.temperature, np.ndarray) else settings.temperature
        try:
            result, _ = run_from(some, settings._replace(temperature=heat), problems, "random", index=keys[part], guide=own)
        except NotInSet:
            parts += [part[i : i + 1] for i in range(len(part)) if len(part) > 1]
        else:
            yield part, result
