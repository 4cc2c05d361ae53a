"""Days played by policies with common random numbers: same arrivals, same solver seed and budget for everybody."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.dvrptw.data import Day, Source
from experiments.dvrptw.engine import Engine, Task
from experiments.dvrptw.environment import Wave
from experiments.dvrptw.policies import Policy, prizes_of
from experiments.dvrptw.solver import Budget, Plan, plan

SOLVERS = ("pyvrp", "movegrad")


@dataclass(frozen=True)
class Judge:
    """How days are played: who plans a wave, for how long (iterations of PyVRP, steps of movegrad), with which seed."""

    solver: str = "pyvrp"
    iterations: int = 5000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {self.solver!r}.")
        if self.iterations < 1:
            raise ValueError(f"iterations must be ≥ 1, got {self.iterations}.")


def planned(wave: Wave, prizes: np.ndarray, judge: Judge) -> Plan:
    """Routes for a wave with these prizes."""
    if judge.solver == "movegrad":
        from experiments.dvrptw.layers import plan_by_annealing

        return plan_by_annealing(wave, prizes, judge.iterations, judge.seed)
    return plan(wave, prizes, Budget(iterations=judge.iterations), judge.seed)


def play(source: Source, policy: Policy, day: Day, judge: Judge) -> dict[str, Any]:
    """A day: its cost, and for each wave what was open, had to go, was served, in how many routes, at which cost."""
    environment, prizes = source.environment(day), prizes_of(policy, source)
    rng = np.random.default_rng([judge.seed, day.seed])
    wave, _ = environment.reset()
    waves, routes, done = [], [], False
    while not done:
        theta = prizes(wave, rng)
        found = planned(wave, theta, judge)
        numbers = wave.numbers(found.routes)
        routes += [[wave.epoch, route] for route in numbers]
        waves.append(
            {"epoch": wave.epoch, "open": len(wave), "must": int(wave.must.sum()), "served": sum(map(len, numbers)),
             "routes": len(numbers), "cost": found.cost}
        )  # fmt: skip
        following, _, done, _, _ = environment.step(numbers)
        wave = wave if following is None else following
    return {"cost": environment.cost, "waves": waves, "routes": routes}


def play_task(source: dict, policy: dict, day: list, judge: dict, content: str | None) -> dict[str, Any]:
    """:func:`play` with arguments that JSON can hold; ``content`` is the hash of a trained model."""
    where = Source(Path(source["folder"]) if source["folder"] else None, source["arrivals"], source["customers"])
    return play(where, Policy(**policy), Day(*day), Judge(**judge))


def source_arguments(source: Source) -> dict[str, Any]:
    return {"folder": str(source.folder) if source.folder else None, "arrivals": source.arrivals, "customers": source.customers}


def task(source: Source, policy: Policy, day: Day, judge: Judge) -> Task:
    arguments = {"source": source_arguments(source), "policy": asdict(policy), "day": list(day), "judge": asdict(judge)}
    return Task("experiments.dvrptw.evaluate:play_task", {**arguments, "content": policy.describe().get("model")})


def evaluate(
    source: Source,
    policies: Sequence[Policy],
    days: Sequence[Day],
    judge: Judge,
    engine: Engine,
    cache: Path | None,
    title: str = "days",
) -> list[list[dict[str, Any]]]:
    """Results [policy][day]."""
    tasks = [task(source, policy, day, judge) for policy in policies for day in days]
    found = engine.run(tasks, cache, title)
    return [found[i * len(days) : (i + 1) * len(days)] for i in range(len(policies))]


def costs(results: Iterable[dict[str, Any]]) -> np.ndarray:
    """Cost of each day."""
    return np.array([row["cost"] for row in results], float)
