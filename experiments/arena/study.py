"""The parts of the arena: one for each benchmark, one row for each data set and method."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.framework import Part, Study, Tasks, must_be_positive

FOLDER = Path(__file__).parent
DATA = FOLDER.parents[2] / "shared" / "data" / "arena"
GENERATED = Path("generated")  # instead of the folder
CACHE = FOLDER / "out" / "labels"


@dataclass(frozen=True)
class Settings:
    """``boards``: data sets by name. ``limit``: processor seconds of training; ``tuning``: of each configuration, or 0.

    ``times``: processor seconds at which the test is made, with the model that was best by validation until then.
    """

    boards: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    limit: float
    tuning: float
    times: tuple[float, ...]
    data: bool
    untuned: tuple[str, ...]  # methods that are trained with their authors' settings, too
    first: int = 0  # of the seeds


def boards(data: Path | None, cache: Path) -> dict[str, Callable[[], Any]]:
    """All data sets; making one computes its labels, once."""
    from experiments.arena import assignment, icon, knapsack, paths, prices, tours, vertices

    return {
        **{f"icon-{load}": partial(icon.board, data, load, 0, cache) for load in (1, 2, 6)},
        **{f"icon-hard{number}": partial(icon.hard, data, number, 0, cache) for number in (0, 5)},
        **{f"cvrp-{n}-{seed}": partial(tours.cvrp, n, seed, cache) for n in (20, 100) for seed in (42, 43)},
        **{
            f"mkp-{m}-{n}-{s}": partial(knapsack.decomposed, m, n, s, cache)
            for m, n in ((5, 50), (10, 100), (10, 200))
            for s in (42, 43)
        },
        **{f"prices-{c}-{split}": partial(prices.board, data, c, split) for c in prices.CAPACITIES for split in range(10)},
        **{f"path-{seed}": partial(paths.board, seed) for seed in (0, 1)},
        **{f"lp-{seed}": partial(vertices.board, seed) for seed in (0, 1)},
        **{f"houses-{seed}": partial(knapsack.houses, seed, cache) for seed in (0, 1)},
        **{f"tsp-{n}-{seed}": partial(tours.tsp, n, seed, cache) for n in (20, 50) for seed in (42, 43)},
        **{f"gap-{times}-{seed}": partial(assignment.generalized, times, seed, cache) for times in (1, 10, 100) for seed in (0, 1)},
        **{
            f"machine-{times}-{seed}": partial(assignment.one_machine, times, seed, cache)
            for times in (1, 10, 100)
            for seed in (0, 1)
        },
    }


OURS = ("ours", "ours-costs", "ours-long", "ours-guided", "ours-one-step", "ours-costs-anchored")
OURS += ("ours-one-step-costs", "ours-regret", "ours-cool", "ours-short", "ours-long-anchored")
EXACT = ("spo", "pfy", "reinforce", "reinforce-spo", "nce", "ltr-list", "ltr-pair")  # rivals that call an exact solver
WARM = ("spo-warm", "pfy-warm", "spo-warm-anchored", "spo-warm-long", "spo-warm-long-anchored")  # their solver is made of our moves
RIVALS = ("mse", *EXACT, "spo-lp", "pfy-lp", "spo-warm", "pfy-warm", "cave", "lava", "dfl-ld")
RIVALS += ("spo-anchored", "spo-lp-anchored", "spo-warm-anchored", "spo-pyvrp", "pfy-pyvrp")
RIVALS += ("spo-warm-long", "spo-warm-long-anchored")

FULL = {
    "icon": ("icon-1", "icon-2", "icon-6", "icon-hard0", "icon-hard5"),
    "cvrp": ("cvrp-20-42", "cvrp-20-43", "cvrp-100-42", "cvrp-100-43"),
    "mkp": ("mkp-10-100-42", "mkp-10-100-43", "mkp-5-50-42", "mkp-10-200-42", "mkp-10-200-43"),
    "prices": tuple(f"prices-{c}-{split}" for split in (0, 1) for c in (60, 120, 180)),
    "linear": ("path-0", "path-1", "lp-0", "lp-1", "houses-0", "houses-1"),
    "tsp": ("tsp-20-42", "tsp-20-43", "tsp-50-42", "tsp-50-43"),
    "growth": tuple(f"{kind}-{times}-{seed}" for seed in (0, 1) for times in (1, 10, 100) for kind in ("gap", "machine")),
}
QUICK = {
    "icon": ("icon-1",),
    "cvrp": (),
    "mkp": ("mkp-5-50-42",),
    "prices": ("prices-120-0",),
    "linear": ("path-0",),
    "tsp": ("tsp-20-42",),
    "growth": ("gap-1-0", "machine-1-0"),
}
FEW = ("ours", "ours-costs", "mse", "spo", "spo-lp", "spo-warm", "pfy-warm", "cave")  # of the quick arena, without tuning
NAMES = tuple(FULL)
PARTS = {board.split("-")[0]: name for name, boards in FULL.items() for board in boards}  # by the first word of a data set


def own_options(parser: argparse.ArgumentParser) -> None:
    """Options of the arena alone."""
    parser.add_argument("--data", type=Path, default=DATA, metavar="FOLDER", help='the public benchmarks, or "generated"')
    parser.add_argument("--boards", nargs="+", default=None, metavar="NAME", help="some data sets, such as icon-1")
    parser.add_argument("--methods", nargs="+", default=None, metavar="NAME", help=f"among {', '.join(OURS + RIVALS)}")
    parser.add_argument("--seeds", type=int, default=None, metavar="N", help="seeds of models, batches and chains (5, quick: 2)")
    parser.add_argument("--brief", action="store_true", help="rivals as they are tuned alone; ours also by default")
    parser.add_argument(
        "--workers", type=int, default=None, metavar="N", help="processes, each of which computes rows; the clock is its own"
    )
    parser.add_argument("--limit", type=float, default=None, metavar="S", help="processor seconds of training (10, quick: 1)")


def parts(options: argparse.Namespace) -> list[Part]:
    """Imports PyTorch and PyEPO here, so that --help is fast."""
    from experiments.arena import notebook, report, runs

    data = options.data if options.data.is_dir() else None
    if data is None and options.data not in (DATA, GENERATED):
        raise ValueError(f"--data must be the folder of the public benchmarks, or the word {GENERATED}, got {options.data}.")
    made = boards(data, CACHE)
    for name in options.boards or ():
        if name not in made:
            raise ValueError(f"--boards must name data sets among {', '.join(made)}, got {name}.")
    for name in options.methods or ():
        if name not in OURS + RIVALS:
            raise ValueError(f"--methods must name methods among {', '.join(OURS + RIVALS)}, got {name}.")
    must_be_positive(options, "limit", "seeds", "workers")
    limit = options.limit or (10.0 if options.full else 1.0)
    times = (*(t for t in (0.3, 1.0, 3.0, 10.0, 60.0, 300.0) if t < limit), limit)

    def part(name: str) -> Part:
        chosen = (FULL if options.full else QUICK)[name]
        if options.boards:
            chosen = tuple(board for board in dict.fromkeys(options.boards) if PARTS[board.split("-")[0]] == name)
        methods = tuple(dict.fromkeys(options.methods or (OURS + RIVALS if options.full else FEW)))
        seeds = options.seeds or (5 if options.full else 2)
        untuned = ("ours",) if options.brief else methods
        tuning = limit / 10 if options.full else 0.0
        settings = Settings(chosen, methods, seeds, limit, tuning, times, data is not None, untuned, options.seed)

        def tasks(settings: Settings) -> Tasks:
            return runs.tasks(settings, made)

        tasks.__module__ = runs.__name__
        there = partial(runs.elsewhere, settings, data, CACHE)
        return Part(name, settings, tasks, report.tables, partial(report.figures, name), elsewhere=there)

    seeds = range(options.seed, options.seed + (options.seeds or (5 if options.full else 2)))
    wanted = options.methods or OURS + RIVALS
    others = options.boards and notebook.BOARD not in options.boards
    return [*map(part, NAMES), notebook.part(CACHE, () if others else wanted, seeds)]


ABOUT = "Benchmarks of others, against the methods people would use instead: regret against processor seconds of training."
STUDY = Study("arena", ABOUT, FOLDER, (*NAMES, "notebook"), parts, NAMES, own_options)
