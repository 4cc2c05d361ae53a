"""Parts of the study: which runs each needs, and the rows they give. All runs and days are kept, so parts share them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.dvrptw.data import Day, Published, Source
from experiments.dvrptw.engine import Engine
from experiments.dvrptw.evaluate import evaluate
from experiments.dvrptw.labels import hindsight
from experiments.dvrptw.layers import LayerSettings
from experiments.dvrptw.policies import Policy
from experiments.dvrptw.settings import Calibrated, Learned, Played, Size, Solved
from experiments.dvrptw.train import Splits, Training, train_all
from experiments.store import Row, Rows

COLUMNS = ("epoch", "open", "must", "served", "routes", "cost")  # of a wave


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

    @property
    def models(self) -> Path:
        return self.folder / "models"

    @property
    def played(self) -> Played:
        days = tuple(day.name for day in self.test)
        return Played(self.source.label, self.source.arrivals, self.source.customers, days, self.size.judge)

    @property
    def solved(self) -> Solved:
        return Solved(*vars(self.played).values(), self.size.hindsight)

    @property
    def calibrated(self) -> Calibrated:
        source, size = self.source, self.size
        return Calibrated(source.label, source.arrivals, source.customers, size.judge, size.hindsight)

    @property
    def learned(self) -> Learned:
        size = self.size
        more = size.train, size.validation, size.epochs, size.validate, size.labeling, size.model, self.seed
        return Learned(*vars(self.played).values(), *more)

    def play(self, policies: Sequence[Policy], title: str) -> list[list[Row]]:
        """The test days by each policy."""
        return evaluate(self.source, policies, self.test, self.size.judge, self.engine, self.cache, title)

    def training(self, layer: LayerSettings, seed: int, epochs: int | None = None) -> Training:
        return Training(layer, self.size.model, epochs or self.size.epochs, seed=self.seed + seed, judge=self.size.validate)

    @property
    def replayed(self) -> "Bench":
        """The same with other arrivals: models are trained as ever, and play busier days."""
        return replace(self, source=replace(self.source, arrivals=self.size.replayed))


class Comparison(NamedTuple):
    """Layers to train; its title heads the table, ``x`` is the setting that the figure has on its axis."""

    name: str
    title: str
    layers: Callable[[Size], list[LayerSettings]]
    x: str
    epochs: Callable[[Size], int] = lambda size: size.epochs


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


def by_choice(size: Size) -> list[LayerSettings]:
    """As many configurations for every layer: the noise of perturbed ones, the temperature of chains."""
    if len(size.sigmas) != len(size.choice_temperatures):
        raise ValueError(f"sigmas must be as many as temperatures, got {size.sigmas} and {size.choice_temperatures}.")
    out = []
    for ms in size.choice:
        for sigma, t in zip(size.sigmas, size.choice_temperatures, strict=True):
            out += [LayerSettings(kind, ms, sigma=sigma) for kind in ("pfy", "pfy-warm") if kind in size.kinds]
            out += [LayerSettings(kind, ms, temperature=t) for kind in ("target", "heuristic") if kind in size.kinds]
    return out


def by_replay(size: Size) -> list[LayerSettings]:
    """Layers that are counted in steps: what the best rows of the other parts are."""
    return [LayerSettings(kind, steps=size.steps, temperature=t) for kind in ("target", "heuristic") for t in (10.0, 100.0)]


CHOSEN = "Noise and temperature chosen on validation"
CHOICE = Comparison("choice", CHOSEN, by_choice, "milliseconds", lambda size: size.choice_epochs)
REPLAY = Comparison("replay", "Trained models on busier days", by_replay, "kind")
COMPARISONS = {
    comparison.name: comparison
    for comparison in (
        Comparison("budget", "Fixed time of the layer in training", by_budget, "milliseconds"),
        Comparison("starts", "Where chains start", by_start, "kind"),
        Comparison("steps", "Steps K of the chain", by_steps, "steps"),
        Comparison("temperature", "Temperature of the chain", by_temperature, "temperature"),
    )
}


def seeds_of(size: Size, layer: LayerSettings) -> range:
    return range(1 if layer.milliseconds in size.rare else size.seeds)


def key_of(layer: LayerSettings, seed: int) -> str:
    budget = f"{layer.milliseconds:g} ms" if layer.milliseconds is not None else f"K = {layer.steps}"
    noise = f" | σ = {layer.sigma:g}" if layer.perturbed and layer.sigma != 1 else ""
    return f"{layer.kind} | {budget} | t = {layer.temperature:g}{noise} | seed {seed}"


def played_row(days: Sequence[Row], **who: Any) -> Row:
    """Costs by day; waves by day as lists of :data:`COLUMNS`."""
    waves = [[[wave[column] for column in COLUMNS] for wave in day["waves"]] for day in days]
    return {**who, "costs": [day["cost"] for day in days], "waves": waves}


# --- rows: those that are missing, in parallel ---------------------------------------------------------------------------


def learned_rows(bench: Bench, comparison: Comparison, missing: list[str], played_by: Bench | None = None) -> Rows:
    """Train and test: a row for each layer and seed. ``played_by``: the bench with the days to play, if it is another."""
    plans = {key: plan for key, plan in plans_of(bench.size, comparison).items() if key in missing}
    trainings = [bench.training(layer, seed, comparison.epochs(bench.size)) for layer, seed in plans.values()]
    histories = train_all(bench.splits, trainings, bench.models, bench.engine)
    policies = [Policy("network", str(bench.splits.folder(bench.models, training))) for training in trainings]
    played = (played_by or bench).play(policies, f"{comparison.name}: test days")
    return {
        key: learned_row(layer, seed, history, days)
        for (key, (layer, seed)), history, days in zip(plans.items(), histories, played, strict=True)
    }


def plans_of(size: Size, comparison: Comparison) -> dict[str, tuple[LayerSettings, int]]:
    return {key_of(layer, seed): (layer, seed) for layer in comparison.layers(size) for seed in seeds_of(size, layer)}


def learned_row(layer: LayerSettings, seed: int, history: Row, days: Sequence[Row]) -> Row:
    epochs = history["epochs"][1:]
    who = {
        **asdict(layer),
        "seed": seed,
        "best_epoch": history["best"],
        "steps_reached": float(np.mean([e["steps"] for e in epochs])),
        "layer_ms": float(np.mean([e["layer_ms"] for e in epochs])),
        "seconds": float(np.sum([e["seconds"] for e in epochs])),
        "validation": [e["validation"] for e in history["epochs"]],
        "error": [e["error"] for e in epochs],
    }
    return played_row(days, **who)


def policy_names(bench: Bench) -> list[str]:
    """Policies that are not trained here."""
    return ["greedy", "random", "lazy"] + ([] if bench.source.folder is None else ["kleopatra"])


def policy_rows(bench: Bench, missing: list[str]) -> Rows:
    played = bench.play([Policy(name) for name in missing], "policies: test days")
    return {name: played_row(days, policy=name) for name, days in zip(missing, played, strict=True)}


def anticipative_rows(bench: Bench, missing: list[str]) -> Rows:
    """Costs of test days in hindsight: the best of a cold run and of one from a policy's routes."""
    found = solved_days(bench, [day for day in bench.test if day.name in missing], "hindsight")
    return {name: {"cost": found[name].cost} for name in missing}


def solved_days(bench: Bench, days: list[Day], title: str) -> dict[str, Published]:
    """Days in hindsight, from scratch and from the routes of a policy that plays them."""
    policy = Policy("greedy" if bench.source.folder is None else "kleopatra")
    (played,) = evaluate(bench.source, [policy], days, bench.size.judge, bench.engine, bench.cache, f"{title}: first routes")
    starts = [[route for _, route in day["routes"]] for day in played]
    return hindsight(bench.source, days, bench.size.hindsight, bench.engine, bench.cache, starts, title)


def replay_rows(bench: Bench, missing: list[str]) -> Rows:
    """Models that were trained on days of the usual size play busier ones, as do policies that were not trained here."""
    busy = bench.replayed
    simple = [name for name in policy_names(busy) if name in missing]
    played = busy.play([Policy(name) for name in simple], "replay: policies")
    rows = {name: played_row(days, policy=name) for name, days in zip(simple, played, strict=True)}
    return rows | learned_rows(bench, REPLAY, missing, busy)


def calibration_rows(bench: Bench, missing: list[str]) -> Rows:
    """Published days solved as test days are, beside their published costs."""
    days = [day for day in bench.source.days("train", bench.size.train) if day.name in missing]
    published = bench.source.published()
    found = solved_days(bench, days, "calibration")
    return {day.name: {"cost": found[day.name].cost, "published": published[day.name].cost} for day in days}


def calibration_keys(bench: Bench) -> list[str]:
    """Of the training days, those with a published cost."""
    published = bench.source.published()
    return [day.name for day in bench.source.days("train", bench.size.train) if day.name in published]


def together(compute: Callable[[list[str]], Rows], keys: Iterable[str]) -> dict[str, Any]:
    """Tasks of a part whose missing rows are computed at once, before the first is asked for."""
    found: Rows = {}

    def tasks(settings: Any) -> dict[str, Callable[[], Row]]:
        return {key: partial(found.pop, key) for key in keys}

    return {"tasks": tasks, "prepare": lambda missing: found.update(compute(missing))}


def smaller(size: Size, **changes: Any) -> Size:
    """A size with other numbers; None keeps one."""
    return replace(size, **{name: value for name, value in changes.items() if value is not None})
