"""One row: a method on a data set, tuned on validation, then trained with the authors' settings and with those it was tuned to."""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from experiments.arena.board import Board
from experiments.arena.methods import METHODS, Method
from experiments.arena.study import Settings, boards
from experiments.arena.train import Config, Run, train
from experiments.framework import Row, Tasks

TUNING_SEED = 1000  # after the first of those that are reported
DIGITS = 5


def tasks(settings: Settings, known: Mapping[str, Callable[[], Board]]) -> Tasks:
    """A row for each data set and method that can be had there; a data set is made once, and forgotten with the next one."""

    @cache
    def made(name: str) -> Board:
        made.cache_clear()
        return known[name]()

    return {
        f"{name} {method}": partial(row, made, name, METHODS[method], settings)
        for name in settings.boards
        for method in settings.methods
        if method in METHODS
    }


def elsewhere(settings: Settings, data: Path | None, cache: Path, key: str) -> Row:
    """The row of a key in a process of its own, which keeps the last data set."""
    name, method = key.split(" ", 1)
    return row(partial(_kept, data, cache), name, METHODS[method], settings)


@lru_cache(maxsize=1)
def _kept(data: Path | None, cache: Path, name: str) -> Board:
    return boards(data, cache)[name]()


def row(made: Callable[[str], Board], name: str, method: Method, settings: Settings) -> Row:
    """Tune, then train for all seeds, twice."""
    board = made(name)
    missing = method.missing(board) or too_slow(board, method, settings.limit)
    if missing:
        return {"title": board.name, "missing": missing}
    configs = method.grid if settings.tuning > 0 else ()
    seed = settings.first + TUNING_SEED
    grid = tried(board, method, configs, seed, settings.tuning)
    if not any(run.epochs[-1] for run in grid):
        grid = tried(board, method, configs, seed, settings.limit)  # a tenth of the time is too short for a step
    reached = [run.valid[run.best[-1]] for run in grid]
    config = configs[int(np.argmin(reached))] if grid else method.default
    trained = {"tuned": runs(board, method, config, settings)}
    if config.key != method.default.key and method.name in settings.untuned:
        trained["default"] = runs(board, method, method.default, settings)
    return {
        "title": board.name,
        "grid": {tried.key: regret for tried, regret in zip(configs, reached, strict=True)},
        "chosen": config.key,
        **trained,
    }


def tried(board: Board, method: Method, configs: tuple[Config, ...], seed: int, limit: float) -> list[Run]:
    return [train(board, method.make, config, seed, limit) for config in configs]


def too_slow(board: Board, method: Method, limit: float) -> str:
    """Why a method cannot end one step in time, by the second solve of its oracle; nothing if it can, or has none for each step."""
    if method.needs not in board.oracles or "ratio" in method.default.options:
        return ""
    solve = board.oracles[method.needs]
    solve(board.train.theta[:1])
    begin = process_time()
    solve(board.train.theta[1:2])
    step = board.batch * (process_time() - begin)
    return f"its first step takes about {step:.0f} s" if step > limit else ""


def runs(board: Board, method: Method, config: Config, settings: Settings) -> dict[str, Any]:
    """Validation curves, and at some times the test regrets of the model that was best until then, (seeds, examples)."""
    seeds = range(settings.first, settings.first + settings.seeds)
    made = [train(board, method.make, config, seed, settings.limit) for seed in seeds]
    return {
        "prepared": float(np.mean([run.prepared for run in made])),
        "seconds": [run.seconds for run in made],
        "valid": [run.valid for run in made],
        "epochs": [run.epochs[-1] for run in made],
        "first": [next((s for s, e in zip(run.seconds, run.epochs, strict=True) if e > 0), None) for run in made],
        "test": {f"{t:g}": [tested(board, run, t) for run in made] for t in settings.times},
    }


def tested(board: Board, run: Run, time: float) -> list[float]:
    """Test regrets of the best model until a time; a model is tested once."""
    at = max(i for i, s in enumerate(run.seconds) if s <= time * 1.0001 or i == 0)
    which = run.best[at]
    if which not in run.tested:
        net = board.model()
        net.load_state_dict(run.models[which])
        run.tested[which] = [float(f"{r:.{DIGITS}g}") for r in board.tested(net)]
    return run.tested[which]
