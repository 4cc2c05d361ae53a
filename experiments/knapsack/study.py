"""The parts of the study, and the options that choose among methods, seeds and limits."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from experiments.framework import Part, Study, must_be_positive
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
    parser.add_argument("--workers", type=int, default=None, metavar="N", help="processes that solve; 0: none but this one")


def chosen_size(full: bool, solver: str, data_seed: int, epochs: int | None = None) -> Size:
    """``--seed`` draws other instances; labels come from an exact solver where there is one."""
    size = FULL if full else QUICK
    training = replace(size.training, decide=Limited(solver, size.training.decide.limit), epochs=epochs or size.training.epochs)
    return replace(size, data=replace(size.data, seed=data_seed, label_solver=available()), training=training)


def parts(options: argparse.Namespace) -> list[Part]:
    """Imports PyTorch and PyEPO here, so that --help is fast."""
    from experiments.knapsack import ablation, benchmark, floor, solve, sweep, tune
    from experiments.knapsack.methods import METHODS
    from experiments.knapsack.runs import Choice, unknown_methods
    from experiments.knapsack.train import Bench

    unknown_methods(options.methods or ())
    must_be_positive(options, "epochs", "limits", "mip_limit")
    if any(seed < 0 for seed in options.seeds or ()):
        raise ValueError(f"--seeds must be ≥ 0, got {min(options.seeds)}.")
    size = chosen_size(options.full, available(options.solver), options.seed, options.epochs)
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
    )

    def choice(part: str) -> Choice:
        usual = [n for n, m in METHODS.items() if (n not in SLOW and m.oracle != "mip") or part in ALL]
        mip = [n for n, m in METHODS.items() if m.oracle == "mip" and options.mip]
        seeds = tuple(options.seeds or range(10 if part == "ablation" else size.seeds))
        return Choice(tuple(dict.fromkeys(options.methods or [*usual, *mip])), seeds, tuple(options.limits))

    return [make(bench, choice(name)) for name, make in zip(NAMES, made, strict=True)]


NAMES = ("benchmark", "tuned", "tune", "sweep", "solve", "ablation", "floor")
ABOUT = "Decision-focused learning on the multi-dimensional knapsack."
STUDY = Study("knapsack", ABOUT, Path(__file__).parent, NAMES, parts, NAMES[:1], own_options)
