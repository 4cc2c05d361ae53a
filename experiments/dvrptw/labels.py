"""What a policy should imitate: anticipative routes, the published ones or our own by PyVRP with release times."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from experiments.dvrptw.data import Day, Published, Source
from experiments.dvrptw.engine import Engine, Task
from experiments.dvrptw.environment import Routes, Wave, replay
from experiments.dvrptw.evaluate import source_arguments
from experiments.dvrptw.solver import Budget, solve_day


@dataclass(frozen=True)
class Labeling:
    """How a day is solved in hindsight: the best of some cold runs and one from each given day's routes."""

    budget: Budget = Budget(iterations=5000)
    seeds: tuple[int, ...] = (0,)


class Example(NamedTuple):
    """An open wave along the anticipative trajectory and the routes it dispatched there, as positions."""

    wave: Wave
    routes: Routes
    name: str


def hindsight_task(source: dict, day: list, budget: dict, seed: int, start: list | None) -> dict[str, Any]:
    """:func:`solve_day` with arguments and a result that JSON can hold."""
    where = Source(Path(source["folder"]) if source["folder"] else None, source["arrivals"], source["customers"])
    environment = where.environment(Day(*day))
    environment.reset()
    found = solve_day(environment.instance, environment.requests, Budget(**budget), seed, start)
    return {"cost": found.cost, "routes": found.routes, "iterations": found.iterations, "cpu": round(found.seconds, 3)}


def hindsight(
    source: Source,
    days: Sequence[Day],
    labeling: Labeling,
    engine: Engine,
    cache: Path,
    starts: Sequence[Routes] | None = None,
    title: str = "hindsight",
) -> dict[str, Published]:
    """Anticipative solutions by name of the day: the best of a cold run per seed and, with ``starts``, a warm one."""
    tasks, owners = [], []
    for i, day in enumerate(days):
        common = {"source": source_arguments(source), "day": list(day), "budget": asdict(labeling.budget)}
        runs = [{"seed": seed, "start": None} for seed in labeling.seeds]
        if starts is not None:
            runs.append({"seed": labeling.seeds[0], "start": starts[i]})
        tasks += [Task("experiments.dvrptw.labels:hindsight_task", {**common, **run}) for run in runs]
        owners += [day.name] * len(runs)
    best: dict[str, Published] = {}
    for name, row in zip(owners, engine.run(tasks, cache, title), strict=True):
        if name not in best or row["cost"] < best[name].cost:
            best[name] = Published(row["cost"], [(int(epoch), list(route)) for epoch, route in row["routes"]])
    return best


def anticipative(source: Source, days: Sequence[Day], labeling: Labeling, engine: Engine, cache: Path) -> dict[str, Published]:
    """The published solutions where there are some, else our own."""
    published = source.published()
    missing = [day for day in days if day.name not in published]
    own = hindsight(source, missing, labeling, engine, cache, title="labels") if missing else {}
    return {day.name: published.get(day.name) or own[day.name] for day in days}


def examples(source: Source, days: Sequence[Day], solutions: dict[str, Published]) -> list[Example]:
    """The waves of these days but the last of each, where all must go and nothing is decided."""
    out = []
    for day in days:
        cost, waves, actions = replay(source.environment(day), solutions[day.name].routes)
        if cost != solutions[day.name].cost:
            raise ValueError(f"the routes of {day.name} cost {cost}, their label says {solutions[day.name].cost}.")
        pairs = zip(waves[:-1], actions[:-1], strict=True)
        out += [Example(wave, routes, f"{day.name}/{wave.epoch}") for wave, routes in pairs if len(wave)]
    return out
