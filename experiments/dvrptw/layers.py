"""Layers θ → P(served) under one interface: movegrad's chains from three starts, and perturbed solvers.

All learn by the same surrogate of a Fenchel-Young loss, ⟨θ, ŷ − y⟩ with ŷ held fixed, where y says which requests the label serves.
A time budget is the processor's and counts what depends on θ: for chains the whole call, with the heuristic; for PyVRP its first
solution and its search. What a wave needs once (neighbors, alias tables, matrices) is set up before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

import movegrad as mg
from experiments.dvrptw.environment import Routes, Wave
from experiments.dvrptw.labels import Example
from experiments.dvrptw.solver import Budget, Plan, WaveSolver, restricted, served

CHAINS = ("target", "heuristic", "random")
SOLVERS = ("pfy", "pfy-warm")  # perturbed PyVRP
KINDS = (*CHAINS, *SOLVERS, "pfy-last")
FIRST_RATE = 5000  # steps per millisecond, before a wave has been timed
TITLES = {
    "target": "chain from the target",
    "heuristic": "chain from the improved target",
    "random": "chain from a random plan",
    "pfy": "perturbed PyVRP, cold",
    "pfy-warm": "perturbed PyVRP from the target",
    "pfy-last": "perturbed chain, last iterate",
}


@dataclass(frozen=True)
class LayerSettings:
    """Milliseconds, or steps (iterations for PyVRP); temperature t of chains; for PFY noise σ in seconds and number of solves."""

    kind: str = "heuristic"
    milliseconds: float | None = None
    steps: int | None = None
    temperature: float = 100.0
    chains: int = 1
    sigma: float = 1.0
    samples: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"layer must be one of {', '.join(KINDS)}, got {self.kind!r}.")
        if (self.milliseconds is None) == (self.steps is None):
            raise ValueError(f"a layer has milliseconds or steps, got {self.milliseconds} and {self.steps}.")
        for name in ("milliseconds", "steps", "temperature", "chains", "samples"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be > 0, got {value}.")
        if not self.sigma >= 0:
            raise ValueError(f"sigma must be ≥ 0, got {self.sigma}.")

    @property
    def budget(self) -> str:
        return f"{self.milliseconds:g} ms" if self.milliseconds is not None else f"K = {self.steps}"

    @property
    def perturbed(self) -> bool:
        return self.kind not in CHAINS


class Answer(NamedTuple):
    """ŷ (n,), steps or iterations made, and the seconds of the processor they took."""

    mean: np.ndarray
    steps: int
    seconds: float


class Prepared:
    """An example with all that does not depend on θ, made when first asked for."""

    def __init__(self, example: Example) -> None:
        self.wave, self.routes, self.name = example
        self.target = served(example.routes, len(example.wave))

    @cached_property
    def solver(self) -> WaveSolver:
        return WaveSolver(self.wave)

    @cached_property
    def problem(self) -> "mg.problems.PrizeCollectingVRPTW":
        return problem_of(self.wave)

    @cached_property
    def solution(self) -> np.ndarray:
        return self.problem.encode(self.routes)


Layer = Callable[[np.ndarray, Prepared, int], Answer]  # (θ, example, number of the call) → answer


def problem_of(wave: Wave) -> "mg.problems.PrizeCollectingVRPTW":
    """A wave as movegrad's problem."""
    instance = mg.problems.routing.Instance(
        wave.durations, wave.demands, wave.service, wave.windows, wave.instance.capacity, wave.must
    )
    return mg.problems.PrizeCollectingVRPTW(instance)


class Pace:
    """Steps that fill a budget of the processor's time, learned for each wave from its last call.

    Other work on the machine does not shorten a budget then, as a limit by the clock would be, and PyVRP's is measured alike.
    """

    def __init__(self, settings: LayerSettings) -> None:
        self.settings, self.known = settings, dict[str, int]()

    def steps(self, name: str) -> int:
        if self.settings.milliseconds is None:
            return self.settings.steps or 0
        return self.known.get(name, max(1, round(FIRST_RATE * self.settings.milliseconds)))

    def learn(self, name: str, seconds: float) -> None:
        if self.settings.milliseconds is not None:
            factor = np.clip(self.settings.milliseconds / (1000 * seconds), 1 / 8, 8)
            self.known[name] = max(1, round(self.steps(name) * factor))


def make_layer(settings: LayerSettings, seed: int) -> Layer:
    """The layer with its draws keyed by (seed, number of the call)."""
    pace = Pace(settings)
    if settings.kind in CHAINS:
        return lambda theta, example, call: _chain(settings, pace, seed, theta, example, call)
    solve = {"pfy": _pyvrp, "pfy-warm": _pyvrp, "pfy-last": _last_iterate}[settings.kind]

    def layer(theta: np.ndarray, example: Prepared, call: int) -> Answer:
        rng = np.random.default_rng([seed, call])
        noisy = [theta + settings.sigma * rng.standard_normal(len(theta)) for _ in range(settings.samples)]
        answers = [solve(settings, pace, seed, t, example, settings.samples * call + i) for i, t in enumerate(noisy)]
        return Answer(np.mean([a.mean for a in answers], 0), sum(a.steps for a in answers), sum(a.seconds for a in answers))

    return layer


def _pyvrp(settings: LayerSettings, pace: Pace, seed: int, theta: np.ndarray, example: Prepared, call: int) -> Answer:
    budget = Budget(settings.steps) if settings.milliseconds is None else Budget(seconds=settings.milliseconds / 1000)
    solver_seed = int(np.random.SeedSequence([seed, call]).generate_state(1)[0])
    start = example.routes if settings.kind == "pfy-warm" else None
    found = example.solver.solve(theta, budget, solver_seed, start)
    return Answer(served(found.routes, len(theta)), found.iterations, found.seconds)


def _last_iterate(settings: LayerSettings, pace: Pace, seed: int, theta: np.ndarray, example: Prepared, call: int) -> Answer:
    out, answer = _run(settings, pace, seed, theta, example, call, example.solution)
    return answer._replace(mean=served(example.problem.routes(out.solutions[0]), len(theta)))


def _chain(settings: LayerSettings, pace: Pace, seed: int, theta: np.ndarray, example: Prepared, call: int) -> Answer:
    """The average over chains; a budget of time includes the heuristic."""
    starts = {"random": "random", "target": example.solution, "heuristic": mg.start.Heuristic(example.solution)}
    return _run(settings, pace, seed, theta, example, call, starts[settings.kind])[1]


def _run(
    settings: LayerSettings, pace: Pace, seed: int, theta: np.ndarray, example: Prepared, call: int, start: Any
) -> tuple[mg.sampling.Sample, Answer]:
    begin, steps = thread_time(), pace.steps(example.name)
    options = {"temperature": settings.temperature, "chains": settings.chains, "start": start, "trace": 0}
    out = mg.sample(example.problem, theta, steps=steps, **options, seed=seed, call=call)
    seconds = thread_time() - begin
    pace.learn(example.name, seconds)
    return out, Answer(out.mean, steps * settings.chains, seconds)


def plan_by_annealing(wave: Wave, prizes: np.ndarray, steps: int, seed: int) -> Plan:
    """Plan a wave by ``mg.solve``; prizes as in :func:`experiments.dvrptw.solver.plan`."""
    keep = np.r_[True, prizes > 0] | wave.must
    smaller = restricted(wave, keep, wave.must | np.r_[False, np.isposinf(prizes)])
    if not len(smaller):
        return Plan([], 0, 0.0)
    chosen = np.where(np.isfinite(prizes), prizes, 0.0)
    problem = problem_of(smaller)
    begin = thread_time()
    found = mg.solve(problem, chosen[keep[1:]], steps=steps, seed=seed)
    routes: Routes = wave.positions(smaller.numbers(problem.routes(found.solution)))
    cost = wave.cost(routes)
    return Plan(routes, cost, float(chosen @ served(routes, len(wave))) - cost, steps, thread_time() - begin)
