"""NumPy entry points: :func:`sample`, :func:`solve` and :func:`jacobian_product`."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from movegrad import start as starts
from movegrad._calls import (
    ESTIMATORS,
    check_temperatures,
    covariance_over_t,
    index_of,
    like_solutions,
    like_theta,
    make_batch,
    make_settings,
    run_from,
    shaped,
)
from movegrad._types import Array, Arrays, Start
from movegrad._validate import NotInSet, choice, encoded, flag, integer_in, positive, sequence, shown
from movegrad.diagnostics import Info
from movegrad.engine import (
    BEST_OBJECTIVE,
    IMPROVE,
    OBJECTIVE,
    Batch,
    Begin,
    Options,
    Run,
    Settings,
    must_be_losses,
    on_gpu,
    place_of,
    ragged_batch,
)
from movegrad.problem import Problem
from movegrad.schedules import Annealing, Hot, Schedule

__all__ = ["Sample", "Solution", "jacobian_product", "one_step", "sample", "solve"]

_PILOT = 256  # steps at infinite temperature from which annealing learns the scale of the objective
_PILOT_SHARE = 0.1  # of a time limit for them, at most, and for annealing, at least
_RESTARTS = 64  # runs from random starts, at most, that annealing adds for a small instance
_TOGETHER = 4096  # chains of such runs at a time: they are short, and memory is not


class Sample(NamedTuple):
    """Result of :func:`sample`; "…" are the leading axes of θ. For a list of problems, fields are lists over examples.

    Attributes
    ----------
    mean : (…, d)
        Estimate of E[T(Y)].
    solutions : (…, chains, m)
        Where each chain ended; good as ``start`` of another call.
    info : Info
        Acceptance by move, effective sample sizes, entries that never moved: ``print`` it.
    best : (…, chains, m) or None
        Best solution that each chain saw, if ``best=True`` was given.
    iterates : (…, chains, points, size) or None
        Thinned iterates, if ``iterates=True`` was given.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> out = mg.sample(mg.problems.TopK(5, 2), np.zeros((3, 5)), steps=100, chains=4)
    >>> out.mean.shape, out.solutions.shape, out.best
    ((3, 5), (3, 4, 5), None)
    """

    mean: Array
    solutions: Array
    info: Info
    best: Array = None
    iterates: Array = None

    @property
    def state(self) -> Array:
        """The old name of ``solutions``."""
        return _renamed(self.solutions, "state of a Sample", "solutions")


Sample.mean.__doc__ = "(…, d) estimate of E[T(Y)]."
Sample.solutions.__doc__ = "(…, chains, m) where each chain ended."
Sample.info.__doc__ = "Acceptance by move, effective sample sizes, entries that never moved: print it."
Sample.best.__doc__ = "(…, chains, m) best solution that each chain saw, if best=True was given; else None."
Sample.iterates.__doc__ = "(…, chains, points, size) thinned iterates, if iterates=True was given; else None."


class Solution(NamedTuple):
    """Result of :func:`solve`; "…" are the leading axes of θ. For a list of problems, fields are lists over examples.

    Attributes
    ----------
    solution : (…, m)
        Best solution seen in any chain.
    objective : (…)
        ⟨θ, T(y)⟩ + φ(y) of it.
    info : Info
        Acceptance by move of the annealing run: ``print`` it.
    problem : Problem or sequence of them
        What was solved. What it says of a solution can be read here too, such as ``routes``, ``cost`` and ``served`` of routing.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> found = mg.solve(mg.problems.TopK(5, 2), np.array([0.1, 3.0, 0.2, 2.0, 0.3]), steps=200)
    >>> found.solution.tolist(), float(found.objective)
    ([0, 1, 0, 1, 0], 5.0)
    """

    solution: Array
    objective: Array
    info: Info
    problem: Problem | Sequence[Problem] | None = None

    @property
    def state(self) -> Array:
        """The old name of ``solution``."""
        return _renamed(self.solution, "state of a Solution", "solution")

    def __getattr__(self, name: str) -> Any:
        """What the problem says about a solution (``Problem.describe``), such as ``routes``; a list where there are several."""
        if name.startswith("_") or self.problem is None:
            raise AttributeError(name)
        if not isinstance(self.problem, Problem):
            return [_read(p, y, name) for p, y in zip(self.problem, self.solution, strict=True)]
        rows = [_read(self.problem, y, name) for y in self.solution.reshape(-1, self.solution.shape[-1])]
        return rows[0] if self.solution.ndim == 1 else rows


Solution.solution.__doc__ = "(…, m) best solution seen in any chain."
Solution.objective.__doc__ = "(…) ⟨θ, T(y)⟩ + φ(y) of it."
Solution.info.__doc__ = "Acceptance by move of the annealing run: print it."
Solution.problem.__doc__ = "What was solved; what it says of a solution, such as routes, is an attribute here too."


def _cooling(problem: Problem, cooling: Any) -> tuple[float, float]:
    """Where annealing begins and ends."""
    if cooling is None:
        return problem.cooling
    pair = sequence(cooling, "cooling", "two numbers > 0")
    if len(pair) != 2:
        raise ValueError(f"cooling must be two numbers > 0, where the temperature begins and ends, got {shown(cooling)}.")
    return positive(pair[0], "cooling"), positive(pair[1], "cooling")


def _renamed(value: Any, old: str, new: str) -> Any:
    warnings.warn(f"{old} is called {new} now.", DeprecationWarning, stacklevel=3)
    return value


def _read(problem: Problem, solution: Any, name: str) -> Any:
    known = problem.describe(place_of(solution).numpy(solution) if on_gpu(solution) else solution)
    if name not in known:
        raise AttributeError(f"a solution of {problem.name} has no {name!r}, but {', '.join(known) or 'nothing to read'}.")
    return known[name]


def sample(
    problem: Problem | Sequence[Problem],
    theta: Arrays,
    *,
    steps: int | None = None,
    time_limit: float | None = None,
    temperature: Arrays = 1.0,
    schedule: Schedule | None = None,
    burn_in: int = 0,
    chains: int = 1,
    start: Start = "random",
    estimator: str = "mean",
    best: bool = False,
    trace: int = 128,
    iterates: bool = False,
    guide: Arrays | None = None,
    index: Arrays | None = None,
    seed: int = 0,
    call: int = 0,
    progress: bool | Callable[[float], None] | None = None,
) -> Sample:
    """Average T(y) along Metropolis-Hastings chains with stationary law π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t).

    K steps give iterates y(1) … y(K); the mean is (K − K₀)⁻¹ Σ_{k>K₀} T(y(k)), averaged over chains.

    Parameters
    ----------
    problem : Problem, or a sequence of them
        One for all θ, or one for each, of one kind but any sizes.
    theta : float array (…, d)
        A sequence of arrays (d,) for a sequence of problems. Chains run where θ is: on the CPU, or on a GPU.
    steps : int
        K. Give this or a time limit; only steps are reproducible.
    time_limit : float
        Seconds of chain time for each example, shared by its chains; each chain makes one step at least.
    temperature : float
        t > 0, one number or one for each example.
    schedule : callable, optional
        k → factor of the temperature in step k (see :mod:`movegrad.schedules`).
    burn_in : int
        K₀, first iterates left out of the mean. Where a time limit ends before, a warning says so, and the mean is that of the last
        solution.
    chains : int
        For each example; up to 256 are independent. Chain c and chain c + 256, and some chains of different examples, try the
        same sequence of moves, where there are several; all else is their own.
    start : str, solutions or callable
        "random", "greedy", solutions, or a callable; see :mod:`movegrad.start`.
    estimator : {"mean", "recycled"}
        "recycled": add the accepted share of each proposal instead of the coin's outcome; the same expectation with less variance,
        most of all for few steps.
    best : bool
        Also return the best solution that each chain saw.
    trace : int
        Points at which the objective and the distance to the start are recorded for ``info``; none under a time limit.
    iterates : bool
        Also return the iterates at these points.
    guide : like θ, optional
        What guided moves look at instead of θ.
    index : (E,) integers, optional
        Numbers of the examples, 0, 1, … by default: a chain's draws depend on (seed, call, index, chain) and on nothing else.
    seed, call : int
        What else draws depend on; change one of them for other draws.
    progress : bool or callable, optional
        True: a bar on stderr. A callable is called with the fraction done.

    Returns
    -------
    Sample
        With ``mean``, ``solutions`` and ``info``.

    References
    ----------
    Algorithms 1 and 2 of "Learning with Local Search MCMC Layers".

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem, theta = mg.problems.TopK(5, 2), np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    >>> out = mg.sample(problem, theta, steps=20_000, chains=4)
    >>> bool(np.abs(out.mean - mg.exact.marginals(problem, theta)).max() < 0.02)
    True
    """
    choice(estimator, "estimator", ESTIMATORS)
    batch = make_batch(problem, theta)
    best, iterates = flag(best, "best"), flag(iterates, "iterates")
    options = Options(recycle=estimator == "recycled", best=best)
    trace = integer_in(trace, "trace", 0) if time_limit is None else 0
    if iterates and not trace:
        raise ValueError(f"iterates must be False where nothing is traced (trace=0 or a time limit), got {iterates}.")
    settings = make_settings(
        steps=steps, time_limit=time_limit, temperature=temperature, schedule=schedule, burn_in=burn_in, chains=chains,
        options=options, trace=trace, iterates=iterates, watch=True, seed=seed, call=call,
    )  # fmt: skip
    check_temperatures(temperature, batch)
    result, _ = run_from(batch, settings, problem, start, index=index, guide=guide, progress=progress)
    return Sample(
        mean=shaped(result.mean(), batch),
        solutions=shaped(result.solutions, batch),
        info=Info(result.on_host),
        best=shaped(result.best, batch) if best else None,
        iterates=shaped(result.iterates, batch, lambda a: a.reshape(*a.shape[:-1], settings.points, -1)) if iterates else None,
    )


def solve(
    problem: Problem | Sequence[Problem],
    theta: Arrays,
    *,
    steps: int | None = None,
    time_limit: float | None = None,
    schedule: Schedule | Annealing | None = None,
    cooling: tuple[float, float] | None = None,
    chains: int = 1,
    start: Start = "greedy",
    correction: bool = True,
    guide: Arrays | None = None,
    index: Arrays | None = None,
    seed: int = 0,
    progress: bool | Callable[[float], None] | None = None,
) -> Solution:
    """Maximize ⟨θ, T(y)⟩ + φ(y) by simulated annealing; returns the best solution seen in any chain.

    One long run is best for a large instance. A small one, of at most ∜(3·steps) entries, is solved by short runs as well, unless a
    ``schedule`` is given: up to 64 from random starts, no more than ``steps`` in all. They find what lies behind a barrier that no
    run from one start crosses, or in a part of the set that moves do not reach from there. ``info`` is about the long run alone.

    Parameters
    ----------
    problem, theta, chains, start, guide, index, seed, progress : as in :func:`sample`
        But ``start`` is "greedy" by default.
    steps : int
        Of each chain. Give this or a time limit.
    time_limit : float
        Seconds for each example, shared by its chains and short runs.
    schedule : callable or Annealing, optional
        k → t, or an :class:`~movegrad.schedules.Annealing`. By default the temperature falls geometrically from the mean change of
        the objective under random moves to a thousandth of it, or as ``cooling`` says.
    cooling : (float, float), optional
        Where the temperature begins and ends, as shares of that mean change; by default the problem's ``cooling``.
    correction : bool
        Use the proposal ratio in the acceptance rule (Metropolis-Hastings). Annealing in the paper does not. Where ratios are 1 it
        is the same; skewed proposals, such as guided ones or those of routing, hardly ever go back without it.

    Returns
    -------
    Solution
        With ``solution``, ``objective`` and ``info``.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> knapsack = mg.problems.Knapsack([[2.0, 3.0, 4.0, 5.0]], [7.0])
    >>> mg.solve(knapsack, np.array([3.0, 4.0, 6.0, 6.0]), steps=1000).solution
    array([0, 1, 1, 0], dtype=uint8)
    """
    if schedule is not None and cooling is not None:
        raise ValueError(f"cooling must be left out where a schedule is given, got {shown(cooling)}.")
    batch = make_batch(problem, theta)
    settings = make_settings(
        steps=steps, time_limit=time_limit, chains=chains,
        schedule=Annealing(*_cooling(batch.problem, cooling)) if schedule is None else schedule,
        options=Options(best=True), correction=flag(correction, "correction"), seed=seed,
    )  # fmt: skip
    found: list[tuple[np.ndarray, Any, Any]] = []
    if schedule is None:
        pilot = _pilot(batch, problem, start, settings, index, guide)
        settings, begin = settings._replace(temperature=pilot.scale), perf_counter()
        for part, short in _short_runs(batch, problem, settings, _affordable(settings, pilot.speed), index, guide):
            found.append((part, *_winners(short)))
        if time_limit is not None:  # what the pilot and the short runs took is part of it, and what was built is not built again
            left = time_limit - pilot.seconds - (perf_counter() - begin) / batch.examples
            settings = settings._replace(time_limit=max(left, _PILOT_SHARE * time_limit))
            start = pilot.start if isinstance(start, str) and start == "greedy" else start
    result, _ = run_from(batch, settings, problem, start, index=index, guide=guide, progress=progress)
    solutions, objectives = _winners(result)
    for part, others, values in found:
        _take_better(batch.place, solutions, objectives, part, others, values)
    best = shaped(objectives, batch)
    return Solution(shaped(solutions, batch), best[()] if isinstance(best, np.ndarray) else best, Info(result.on_host), problem)


def jacobian_product(
    problem: Problem | Sequence[Problem], theta: Arrays, direction: Arrays, *, steps: int, temperature: Arrays = 1.0,
    burn_in: int = 0, chains: int = 1, start: Start = "random", guide: Arrays | None = None, index: Arrays | None = None,
    seed: int = 0, call: int = 0,
) -> Any:  # fmt: skip
    """J v for the Jacobian J = Cov(T(Y))/t of θ ↦ E[T(Y)], estimated along chains in O(1) per step; J is symmetric.

    Parameters
    ----------
    problem, theta, steps, temperature, burn_in, chains, start, guide, index, seed, call : as in :func:`sample`
        There is no time limit: chains are those of a :func:`sample` with the same arguments.
    direction : like θ
        v.

    Returns
    -------
    array (…, d), or a list of (d,) for a sequence of problems
        J v.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem, theta, v = mg.problems.TopK(5, 2), np.zeros(5), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    >>> product = mg.jacobian_product(problem, theta, v, steps=20_000, chains=4)
    >>> bool(np.abs(product - mg.exact.covariance(problem, theta) @ v).max() < 0.02)
    True
    """
    batch = make_batch(problem, theta)
    settings = make_settings(
        steps=steps, temperature=temperature, burn_in=burn_in, chains=chains, options=Options(covariance=True), seed=seed,
        call=call,
    )  # fmt: skip
    check_temperatures(temperature, batch)
    v = like_theta(direction, "direction", batch, problem)
    result, _ = run_from(batch, settings, problem, start, index=index, guide=guide, direction=v)
    return shaped(covariance_over_t(result), batch)


def one_step(
    problem: Problem | Sequence[Problem], theta: Arrays, y: Arrays, *, temperature: Arrays = 1.0, guide: Arrays | None = None
) -> tuple[Any, Any]:
    """Exact Fenchel-Young loss of one step from y, and its gradient E[T(y⁽¹⁾)] − T(y), by listing the neighborhood.

    ℓ(θ; y) = t Σ q(y, y')·f(Δ/t + log α), with f(s) = eˢ for s ≤ 0 and 1 + s for s > 0: nothing is sampled.

    Parameters
    ----------
    problem, theta, temperature : as in :func:`sample`
        Proposals must not have too many outcomes to be listed.
    y : solutions (…, m)
        A sequence of them for a sequence of problems.
    guide : like θ, optional
        Must be given for guided problems, whose proposals have no such loss unless their guide is frozen.

    Returns
    -------
    values : array (…)
        The loss.
    gradients : array (…, d)
        Its gradient in θ.

    See Also
    --------
    movegrad.Neighborhoods : the same for solutions whose neighborhoods are listed once.

    References
    ----------
    Proposition "Existence of a Fenchel-Young loss when K = 1" of "Learning with Local Search MCMC Layers".

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> value, gradient = mg.one_step(mg.problems.TopK(5, 2), np.zeros(5), [1, 1, 0, 0, 0])
    >>> round(float(value), 6), gradient.round(3).tolist()
    (1.0, [-0.5, -0.5, 0.333, 0.333, 0.333])
    """
    batch = make_batch(problem, theta)
    if batch.problem.guided and guide is None:
        raise ValueError(
            f"guide must be given, since proposals of {batch.problem.name} depend on theta: there is no one-step loss otherwise."
        )
    options = Options(first_step=True)
    settings = make_settings(steps=1, temperature=temperature, options=options, start_name="y")
    check_temperatures(temperature, batch)
    y = y if batch.shape is None else like_solutions(encoded(batch.problem, y, "y"), "y", batch.shape, batch.problem)
    result, _ = run_from(batch, settings, problem, starts.Given(y, "y"), guide=guide)
    values = result.chains.value[:, OBJECTIVE]
    must_be_losses(values, batch.problem, temperature)
    return shaped(values, batch), shaped(result.mean(), batch)


# --- annealing -----------------------------------------------------------------------------------------------------------


def _winners(result: Run) -> tuple[Any, Any]:
    """For each example the best solution seen in any chain, as an array or a list, and (E,) their objectives."""
    values, best = result.chains.value[:, BEST_OBJECTIVE].reshape(-1, result.settings.chains), result.best
    winners, rows = values.argmax(1), result.batch.place.own(np.arange(len(values)))
    if isinstance(best, list):
        return [best[e][w] for e, w in enumerate(winners.tolist())], values[rows, winners]
    return best[rows, winners], values[rows, winners]


def _take_better(place: Any, solutions: Any, objectives: Any, examples: np.ndarray, others: Any, values: Any) -> None:
    """Put other solutions of some examples in the place of those that are worse."""
    better = np.flatnonzero(place.numpy(values > objectives[place.own(examples)]))
    to, of = place.own(examples[better]), place.own(better)
    objectives[to] = values[of]
    if isinstance(solutions, list) or isinstance(others, list):
        for e, n in zip(examples[better].tolist(), better.tolist(), strict=True):
            solutions[e] = others[n]
    else:
        solutions[to] = others[of]


class Pilot(NamedTuple):
    """What annealing learns from a few steps at infinite temperature."""

    scale: np.ndarray  # (E,) mean change of the objective under random moves: a temperature at which most are still accepted
    seconds: float  # of chain time for each example that this took
    speed: float  # steps of a chain in a second of it
    start: Start  # as good as the given one


def _pilot(batch: Batch, problem: Any, start: Any, settings: Settings, index: Any, guide: Any) -> Pilot:
    limit = None if settings.time_limit is None else _PILOT_SHARE * settings.time_limit
    few = settings._replace(steps=_PILOT, time_limit=limit, schedule=Hot(), trace=_PILOT)  # the same kernel: compiled once
    result, _ = run_from(batch, few, problem, "random" if starts.memory(start) else start, index=index, guide=guide)
    scale, total = _mean_change(result), result.seconds
    still = np.flatnonzero(np.isnan(scale))  # nothing changed from the start
    for part, other in _from_random(batch, problem, few._replace(call=1), still, index, guide):
        scale[part] = _mean_change(other)
        total += other.seconds
    share = batch.place.side_by_side(batch.examples) / batch.examples
    speed = float(np.mean(result.on_host.steps)) * settings.chains / max(result.seconds * share, 1e-9)
    return Pilot(np.where(np.isnan(scale), 1.0, scale), total * share, speed, lambda request: result.best)


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
    task = 0 if batch.problem.functions.improve is None else IMPROVE
    for part, first in _from_random(batch, problem, short, small, index, guide):
        yield part, first
        ends, begin = first.chains, Begin(first.chains.states[0], np.full(len(part), task))
        yield part, batch.place.execute(first.batch, first.settings._replace(call=2), begin, ends.indices, ends.guide)


def _from_random(
    batch: Batch, problem: Any, settings: Settings, examples: np.ndarray, index: Any, guide: Any
) -> Iterator[tuple[np.ndarray, Run]]:
    """Run some examples from random starts, a part of them at a time; left out are those whose random starts are not in the set.

    A problem may have such starts where the set is tight and a solution is hard to find.
    """
    keys = index_of(index, batch.examples)
    guides = None if guide is None else like_theta(guide, "guide", batch, problem)
    count = max(1, _TOGETHER // settings.chains)
    parts = [examples[i : i + count] for i in range(0, len(examples), count)]
    while parts:
        part = parts.pop()
        at = [slice(batch.theta_at[e], batch.theta_at[e + 1]) for e in part]
        problems = [batch.problems[i] for i in batch.which[part]]
        some = ragged_batch(batch.place, problems, [batch.theta[a] for a in at])
        own = None if guides is None else [guides[a] for a in at]
        heat = settings.temperature[part] if isinstance(settings.temperature, np.ndarray) else settings.temperature
        try:
            result, _ = run_from(some, settings._replace(temperature=heat), problems, "random", index=keys[part], guide=own)
        except NotInSet:
            parts += [part[i : i + 1] for i in range(len(part)) if len(part) > 1]
        else:
            yield part, result
