"""Run the study: ``python -m experiments.knapsack [--quick | --full] [--methods NAME …] [--seeds N …] [--only PART …]``."""

import argparse
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from experiments.common import arguments
from experiments.knapsack.settings import FULL, QUICK, SOLVERS, Limited, Size
from experiments.knapsack.solvers import available

PARTS = ("benchmark", "tuned", "tune", "sweep", "solve")
SLOW = ("last-iterate", "spo-annealing", "ours-regret", "nid-lp", "nce-lp")  # left out of the default, as are those with a MIP


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


def main() -> None:
    description = f"Decision-focused learning on the multi-dimensional knapsack. Parts: {', '.join(PARTS)} (default: the first)."
    options = arguments(description, Path(__file__).parent, own_options)
    unknown = set(options.only or ()) - set(PARTS)
    if unknown:
        raise SystemExit(f"--only must name parts among {', '.join(PARTS)}, got {', '.join(sorted(unknown))}.")
    run(options)


def run(options: argparse.Namespace) -> None:
    """Imports PyTorch and PyEPO here, so that worker processes start without them."""
    from experiments.knapsack import benchmark, solve, study, sweep, tune
    from experiments.knapsack.methods import METHODS
    from experiments.knapsack.train import Bench

    parts = {p.name: p for p in (benchmark.PART, benchmark.TUNED_PART, tune.PART, sweep.PART, solve.PART)}
    size = chosen_size(options.full, available(options.solver), options.seed, options.epochs)
    study.unknown_methods(options.methods or ())
    bench, console, begin = Bench(size, options.mip_limit, options.workers), Console(), perf_counter()
    for name in options.only or ("benchmark",):
        usual = [n for n, m in METHODS.items() if (n not in SLOW and m.oracle != "mip") or name in ("tune", "sweep")]
        mip = [n for n, m in METHODS.items() if m.oracle == "mip" and options.mip]
        seeds = tuple(range(size.seeds)) if options.seeds is None else tuple(options.seeds)
        choice = study.Choice(tuple(dict.fromkeys(options.methods or [*usual, *mip])), seeds, tuple(options.limits))
        study.run_part(parts[name], bench, choice, options.out, options.fresh, console)
    bench.close()
    console.print(f"{perf_counter() - begin:.0f} s; results in {options.out.name}/")


if __name__ == "__main__":
    main()
