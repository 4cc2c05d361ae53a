"""The parts of the study, and the options that choose among methods, seeds and limits."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from experiments.framework import GREATEST_SEED, Part, Study, must_be_positive
from experiments.knapsack.settings import FULL, QUICK, SOLVERS, Limited, Size
from experiments.knapsack.solvers import available

SLOW = ("last-iterate", "spo-annealing", "ours-regret", "nid-lp", "nce-lp")  # left out of the default, as are those with a MIP
ALL = ("tune", "sweep")  # parts that choose among all methods


def own_options(parser: argparse.ArgumentParser) -> None:
    """Options of this study alone."""
    parser.add_argument("--methods", nargs="+", default=None, metavar="NAME", help="some methods (default: those without a MIP)")
    parser.add_argument("--seeds", nargs="+", type=int, default=None, metavar="N", help="seeds of networks, batches and chains")
    parser.add_argument("--mip", action="store_true", help="also the methods that solve MIPs in training: an hour for each seed")
    parser.add_argument("--mip-limit", type=float, default=0.05, metavar="S", help="seconds of a MIP solve in training")
    parser.add_argument("--limits", nargs="+", type=float, default=(), metavar="MS", help="milliseconds, of parts sweep and solve")
    parser.add_argument("--solver", choices=SOLVERS, default=None, help="who decides in the test (default: what is installed)")
    parser.add_argument("--epochs", type=int, default=None, metavar="N", help="instead of the protocol's 20")
    parser.add_argument("--sets", nargs="+", type=int, default=[1, 2, 3, 4], metavar="SEED", help="data sets of the part sets")
    parser.add_argument("--label-seconds", type=float, default=1.0, metavar="S", help="of the solver for each label")
    parser.add_argument("--workers", type=int, default=None, metavar="N", help="processes that solve; 0: none but this one")


def chosen_size(full: bool, solver: str, data_seed: int, epochs: int | None = None, label_work: float = 1.0) -> Size:
    """``--seed`` draws other instances; labels come from an exact solver where there is one."""
    size = FULL if full else QUICK
    training = replace(size.training, decide=Limited(solver, size.training.decide.limit), epochs=epochs or size.training.epochs)
    data = replace(size.data, seed=data_seed, label_solver=available(), label_work=label_work)
    return replace(size, data=data, training=training)


def parts(options: argparse.Namespace) -> list[Part]:
    """Imports PyTorch and PyEPO here, so that --help is fast."""
    from experiments.knapsack import ablation, benchmark, floor, sets, solve, sweep, tune
    from experiments.knapsack.methods import METHODS
    from experiments.knapsack.runs import Choice, unknown_methods
    from experiments.knapsack.train import Bench

    unknown_methods(options.methods or ())
    must_be_positive(options, "epochs", "limits", "mip_limit", "label_seconds")
    for name in ("seeds", "sets"):
        for seed in getattr(options, name) or ():
            if not 0 <= seed <= GREATEST_SEED:
                raise ValueError(f"--{name} must be 0 to {GREATEST_SEED}, got {seed}.")
    if options.workers is not None and options.workers < 0:
        raise ValueError(f"--workers must be ≥ 0, got {options.workers}.")
    size = chosen_size(options.full, available(options.solver), options.seed, options.epochs, options.label_seconds)
    bench = Bench(size, options.mip_limit, options.workers)
    out = options.out
    made = (
        partial(benchmark.part, out=out),
        partial(benchmark.tuned_part, out=out),
        tune.part,
        partial(sweep.part, out=out),
        solve.part,
        ablation.part,
        floor.part,
        partial(sets.part, sets=tuple(dict.fromkeys(options.sets))),
    )
    seeds_of = {"ablation": tuple(range(10)), "sets": sets.SEEDS}

    def choice(part: str) -> Choice:
        usual = [n for n, m in METHODS.items() if (n not in SLOW and m.oracle != "mip") or part in ALL]
        mip = [n for n, m in METHODS.items() if m.oracle == "mip" and options.mip]
        seeds = tuple(options.seeds or seeds_of.get(part, range(size.seeds)))
        wanted = options.methods or (sets.USUAL if part == "sets" else [*usual, *mip])
        return Choice(tuple(dict.fromkeys(wanted)), seeds, tuple(options.limits))

    return [make(bench, choice(name)) for name, make in zip(NAMES, made, strict=True)]


NAMES = ("benchmark", "tuned", "tune", "sweep", "solve", "ablation", "floor", "sets")
ABOUT = "Decision-focused learning on the multi-dimensional knapsack."
STUDY = Study("knapsack", ABOUT, Path(__file__).parent, NAMES, parts, NAMES[:1], own_options)
