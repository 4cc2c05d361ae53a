"""Parts of the study: which runs each needs, and the rows they give. All runs and days are kept, so parts share them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.dvrptw.data import Day, Source
from experiments.dvrptw.engine import Engine
from experiments.dvrptw.evaluate import Judge, evaluate
from experiments.dvrptw.labels import hindsight
from experiments.dvrptw.layers import LayerSettings
from experiments.dvrptw.policies import Policy
from experiments.dvrptw.settings import Size
from experiments.dvrptw.train import Splits, Training, train_all

Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Where days come from, how large the study is, who computes, and where things are kept."""

    source: Source
    size: Size
    engine: Engine
    folder: Path  # of models, days played and days solved
    seed: int = 0

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def splits(self) -> Splits:
        train, validation = (
            tuple(self.source.days(s, n)) for s, n in (("train", self.size.train), ("validation", self.size.validation))
        )
        return Splits(self.source, train, validation, self.size.labeling, self.cache)

    @property
    def test(self) -> list[Day]:
        return self.source.days("test", self.size.test)

    def training(self, layer: LayerSettings, seed: int) -> Training:
        return Training(layer, self.size.model, self.size.epochs, seed=self.seed + seed, judge=self.size.validate)


class Part(NamedTuple):
    """A part trains these layers; its title heads the table, ``x`` is the setting that the figure has on its axis."""

    name: str
    title: str
    layers: Callable[[Size], list[LayerSettings]]
    x: str


def by_budget(size: Size) -> list[LayerSettings]:
    return [LayerSettings(kind, ms) for ms in (*size.milliseconds, *size.rare) for kind in size.kinds]


def by_start(size: Size) -> list[LayerSettings]:
    kinds = ("random", "target", "heuristic", "pfy-last")
    return [LayerSettings(kind, steps=size.steps) for kind in kinds]


def by_steps(size: Size) -> list[LayerSettings]:
    return [LayerSettings(kind, steps=k) for k in size.ks for kind in ("random", "target")]


def by_temperature(size: Size) -> list[LayerSettings]:
    """Short chains as in the paper, and the longest from the heuristic: they forget where they started."""
    short = [LayerSettings(kind, steps=size.steps, temperature=t) for t in size.temperatures for kind in ("random", "target")]
    return short + [LayerSettings("heuristic", max(size.milliseconds), temperature=t) for t in size.long_temperatures]


PARTS = {
    part.name: part
    for part in (
        Part("budget", "Fixed time of the layer in training", by_budget, "milliseconds"),
        Part("starts", "Where chains start", by_start, "kind"),
        Part("steps", "Steps K of the chain", by_steps, "steps"),
        Part("temperature", "Temperature of the chain", by_temperature, "temperature"),
    )
}


def seeds_of(size: Size, layer: LayerSettings) -> range:
    return range(1 if layer.milliseconds in size.rare else size.seeds)


def learned_rows(bench: Bench, part: Part) -> list[Row]:
    """Train and test: one row for each layer and seed."""
    plans = [(layer, seed) for layer in part.layers(bench.size) for seed in seeds_of(bench.size, layer)]
    trainings = [bench.training(layer, seed) for layer, seed in plans]
    models = bench.folder / "models"
    histories = train_all(bench.splits, trainings, models, bench.engine)
    policies = [Policy("network", str(models / t.name)) for t in trainings]
    played = evaluate(bench.source, policies, bench.test, bench.size.judge, bench.engine, bench.cache, f"{part.name}: test days")
    return [
        learned_row(part.name, layer, seed, history, days)
        for (layer, seed), history, days in zip(plans, histories, played, strict=True)
    ]


def learned_row(part: str, layer: LayerSettings, seed: int, history: Row, days: Sequence[Row]) -> Row:
    epochs = history["epochs"][1:]
    return {
        "part": part,
        **asdict(layer),
        "seed": seed,
        "best_epoch": history["best"],
        "steps_reached": float(np.mean([e["steps"] for e in epochs])),
        "layer_ms": float(np.mean([e["layer_ms"] for e in epochs])),
        "seconds": float(np.sum([e["seconds"] for e in epochs])),
        "validation": [e["validation"] for e in history["epochs"]],
        "error": [e["error"] for e in epochs],
        "costs": [day["cost"] for day in days],
        "waves": [day["waves"] for day in days],
    }


def policy_rows(bench: Bench, judge: Judge | None = None) -> list[Row]:
    """Policies that are not trained here, on the test days."""
    names = ["greedy", "random", "lazy"] + ([] if bench.source.folder is None else ["kleopatra"])
    policies = [Policy(name) for name in names]
    played = evaluate(
        bench.source, policies, bench.test, judge or bench.size.judge, bench.engine, bench.cache, "policies: test days"
    )
    return [
        {"part": "policies", "policy": name, "costs": [d["cost"] for d in days], "waves": [d["waves"] for d in days]}
        for name, days in zip(names, played, strict=True)
    ]


def anticipative_costs(bench: Bench) -> dict[str, int]:
    """Costs of the test days in hindsight: the best of a cold run and of one from a policy's routes."""
    policy = Policy("greedy" if bench.source.folder is None else "kleopatra")
    (played,) = evaluate(bench.source, [policy], bench.test, bench.size.judge, bench.engine, bench.cache, "hindsight: first routes")
    starts = [[route for _, route in day["routes"]] for day in played]
    found = hindsight(bench.source, bench.test, bench.size.hindsight, bench.engine, bench.cache, starts)
    return {name: solution.cost for name, solution in found.items()}


def smaller(size: Size, **changes: Any) -> Size:
    """A size with other numbers; None keeps one."""
    return replace(size, **{name: value for name, value in changes.items() if value is not None})
