"""Training: one Adam step per wave, the best epoch by the cost of validation days. A killed run goes on with the same result.

An epoch's model has the mean of the weights over its steps, for every layer alike: after single waves the last weights jitter by
several percent of the validation cost.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import movegrad as mg
from experiments.dvrptw.data import Day, Source
from experiments.dvrptw.engine import Engine, Task
from experiments.dvrptw.evaluate import Judge, play, source_arguments
from experiments.dvrptw.labels import Labeling, anticipative, examples
from experiments.dvrptw.layers import SOLVERS, Layer, LayerSettings, Prepared, make_layer
from experiments.dvrptw.models import Architecture, Graph, PrizeModel, graph, save
from experiments.dvrptw.policies import Policy
from experiments.dvrptw.solver import Budget
from experiments.store import locked, read_arrays, read_json, understood, write_arrays, write_json
from experiments.version import version


@dataclass(frozen=True)
class Training:
    """A run. Chains and perturbations of a run are keyed by its seed; weights and the order of waves too."""

    layer: LayerSettings
    model: Architecture = field(default_factory=Architecture)
    epochs: int = 15
    rate: float = 5e-3
    seed: int = 0
    judge: Judge = field(default_factory=lambda: Judge(iterations=250))  # of validation days
    first: int | None = None  # seed of the first weights, where runs of several seeds share them; else the run's own

    @staticmethod
    def of(values: dict[str, Any]) -> "Training":
        parts = {"layer": LayerSettings, "model": Architecture, "judge": Judge}
        return Training(**{k: parts[k](**v) if k in parts else v for k, v in values.items()})


@dataclass(frozen=True)
class Splits:
    """Days to learn from, with how they are labeled where no labels were published, and days to choose the epoch by."""

    source: Source
    train: tuple[Day, ...]
    validation: tuple[Day, ...]
    labeling: Labeling
    cache: Path

    @property
    def arguments(self) -> dict[str, Any]:
        """What a run depends on besides its settings, as values that JSON can hold."""
        return {
            "source": source_arguments(self.source),
            "train_days": [list(day) for day in self.train],
            "validation_days": [list(day) for day in self.validation],
            "labeling": asdict(self.labeling),
        }

    def folder(self, models: Path, training: Training) -> Path:
        """Of a run: a readable name with a hash of all that it depends on, the code included."""
        layer = training.layer
        budget = f"{layer.milliseconds:g}ms" if layer.milliseconds is not None else f"{layer.steps}steps"
        content = json.dumps([asdict(training), self.arguments, version(__name__)], sort_keys=True)
        noise = f"-n{layer.sigma:g}" if layer.perturbed else ""
        name = f"{training.model.kind}-{layer.kind}-{budget}-t{layer.temperature:g}{noise}-s{training.seed}"
        return models / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


class Run:
    """Model, optimizer and history; :meth:`load` and :meth:`store` make a run resumable after each epoch."""

    def __init__(self, training: Training, graphs: list[Graph], folder: Path) -> None:
        self.training, self.folder = training, folder
        self.model = PrizeModel(training.model, training.seed if training.first is None else training.first)
        self.model.standardize(graphs)
        self.optimizer = torch.optim.Adam(self.model.parameters(), training.rate)
        self.history: list[dict[str, Any]] = []
        self.mean_weights = [parameter.detach().clone() for parameter in self.model.parameters()]

    def averaged(self) -> PrizeModel:
        """The model with the mean of the weights over the steps of the last epoch: less noisy than the last of them."""
        model = copy.deepcopy(self.model)
        for parameter, mean in zip(model.parameters(), self.mean_weights, strict=True):
            parameter.data.copy_(mean)
        return model

    def store(self) -> None:
        arrays = {f"model/{name}": value.numpy() for name, value in self.model.state_dict().items()}
        for i, values in self.optimizer.state_dict()["state"].items():
            arrays |= {f"adam/{i}/{name}": np.asarray(value) for name, value in values.items()}
        arrays["history"] = np.array(json.dumps(self.history))
        write_arrays(self.folder / "state.npz", arrays)

    def load(self) -> bool:
        """Whether there was something to go on with."""
        if not (self.folder / "state.npz").exists():
            return False
        saved = read_arrays(self.folder / "state.npz", "history")
        with understood(self.folder / "state.npz"):
            self._take_over(saved)
        return True

    def _take_over(self, saved: dict[str, np.ndarray]) -> None:
        """Weights, moments of Adam and the history, as :meth:`store` wrote them."""
        history = json.loads(str(saved.pop("history")))
        tensors = {name: torch.from_numpy(value) for name, value in saved.items()}
        self.model.load_state_dict({n.removeprefix("model/"): v for n, v in tensors.items() if n.startswith("model/")})
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("adam/"):
                _, i, key = name.split("/")
                state.setdefault(int(i), {})[key] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        self.history = history


def train(splits: Splits, training: Training, folder: Path, progress: Any = None) -> dict[str, Any]:
    """Train, or go on; leaves the best epoch's model in ``folder`` and returns the history.

    A second process that wants the same run waits for the first and reads what it leaves.
    """
    with locked(folder / "history.json"):
        if not (folder / "history.json").exists():
            _train(splits, training, folder, progress)
    return read_json(folder / "history.json", "best", "epochs")


def _train(splits: Splits, training: Training, folder: Path, progress: Any) -> None:
    torch.set_num_threads(1)
    mg.set_threads(1)
    labels = anticipative(splits.source, splits.train, splits.labeling, Engine(workers=0), splits.cache)
    prepared = [Prepared(example) for example in examples(splits.source, splits.train, labels)]
    graphs = [graph(example.wave) for example in prepared]
    run = Run(training, graphs, folder)
    if not run.load():
        run.history = [{"epoch": 0, "validation": validate(run, splits)}]
        save(run.model, folder, {"epoch": 0})
        run.store()
    layer = make_layer(training.layer, training.seed)
    _warm_up(layer, training, prepared)
    while len(run.history) <= training.epochs:
        epoch = len(run.history)
        row = {"epoch": epoch, **one_epoch(run, layer, prepared, graphs, epoch)}
        row["validation"] = validate(run, splits)
        if row["validation"] < min(r["validation"] for r in run.history):
            save(run.averaged(), folder, {"epoch": epoch})
        run.history.append(row)
        run.store()
        if progress is not None:
            progress(epoch)
    best = min(run.history, key=lambda r: r["validation"])
    content = {"training": asdict(training), "best": best["epoch"], "waves": len(prepared), "epochs": run.history}
    write_json(folder / "history.json", content, indent=1)


def _warm_up(layer: Layer, training: Training, prepared: list[Prepared]) -> None:
    """Compile and set up before anything is timed."""
    for example in prepared:
        _ = example.solver if training.layer.kind in SOLVERS else example.solution
    layer(np.zeros(len(prepared[0].target)), prepared[0], 0)


def one_epoch(run: Run, layer: Layer, prepared: Sequence[Prepared], graphs: Sequence[Graph], epoch: int) -> dict[str, float]:
    """One pass over all waves in an order of its own; returns times per wave and the mean of |ŷ − y|."""
    begin, training = perf_counter(), run.training
    order = np.random.default_rng([training.seed, epoch]).permutation(len(prepared))
    steps, seconds, errors = [], [], []
    sums = [torch.zeros_like(parameter) for parameter in run.model.parameters()]
    for place, i in enumerate(order):
        theta = run.model(graphs[i])
        answer = layer(theta.detach().double().numpy(), prepared[i], epoch * len(prepared) + place)
        difference = answer.mean - prepared[i].target
        loss = (theta * torch.from_numpy(difference).float()).sum()
        run.optimizer.zero_grad()
        loss.backward()
        run.optimizer.step()
        steps.append(answer.steps)
        seconds.append(answer.seconds)
        errors.append(np.abs(difference).mean())
        for total, parameter in zip(sums, run.model.parameters(), strict=True):
            total += parameter.detach()
    run.mean_weights = [total / len(order) for total in sums]
    means = {"steps": float(np.mean(steps)), "layer_ms": 1000 * float(np.mean(seconds)), "error": float(np.mean(errors))}
    return {**means, "seconds": perf_counter() - begin}


def validate(run: Run, splits: Splits) -> float:
    """Seconds driven on the validation days by the epoch's model."""
    trial = run.folder / "trial"
    save(run.averaged(), trial)
    policy = Policy("network", str(trial))
    return float(sum(play(splits.source, policy, day, run.training.judge)["cost"] for day in splits.validation))


def train_task(
    source: dict, train_days: list, validation_days: list, labeling: dict, training: dict, cache: str, folder: str
) -> dict:
    """:func:`train` with arguments that JSON can hold."""
    where = Source(Path(source["folder"]) if source["folder"] else None, source["arrivals"], source["customers"])
    how = Labeling(Budget(**labeling["budget"]), tuple(labeling["seeds"]))
    days = (tuple(Day(*day) for day in group) for group in (train_days, validation_days))
    return train(Splits(where, *days, how, Path(cache)), Training.of(training), Path(folder))


def train_all(splits: Splits, trainings: Sequence[Training], models: Path, engine: Engine) -> list[dict[str, Any]]:
    """Histories of many runs; finished ones are read, killed ones go on."""
    common = {**splits.arguments, "cache": str(splits.cache)}
    anticipative(splits.source, splits.train, splits.labeling, engine, splits.cache)  # in parallel, before workers read them
    tasks = [
        Task("experiments.dvrptw.train:train_task", {**common, "training": asdict(t), "folder": str(splits.folder(models, t))})
        for t in trainings
    ]
    return engine.run(tasks, None, "training")
