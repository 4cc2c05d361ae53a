"""Run the study: ``python -m experiments.knapsack [--quick | --full] [--methods NAME …] [--seeds N …] [--only PART …]``."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from experiments.common import arguments
from experiments.knapsack.settings import FULL, QUICK, SOLVERS, Limited, Size
from experiments.knapsack.solvers import available

PARTS = ("benchmark", "tune", "sweep")
HELP = (
    "Decision-focused learning on the multi-dimensional knapsack. Parts: benchmark (default), tune, sweep. Further options: "
    "--methods NAME …, --seeds N …, --solver gurobi|highs|movegrad, --mip (rows that solve MIPs in training: an hour), "
    "--mip-limit SECONDS, --epochs N, --workers N."
)


def own_arguments() -> argparse.Namespace:
    """Options of this study alone; the others are left for :func:`experiments.common.arguments`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--seeds", nargs="+", type=int, default=None)
    parser.add_argument("--solver", choices=SOLVERS, default=None)
    parser.add_argument("--mip", action="store_true")
    parser.add_argument("--mip-limit", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--workers", type=int, default=None)
    options, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    return options


def chosen_size(full: bool, solver: str, data_seed: int, epochs: int | None = None) -> Size:
    """``--seed`` draws other instances; labels come from an exact solver where there is one."""
    size = FULL if full else QUICK
    training = replace(size.training, decide=Limited(solver, size.training.decide.limit), epochs=epochs or size.training.epochs)
    if full:
        training = replace(training, validate=training.decide)
    return replace(size, data=replace(size.data, seed=data_seed, label_solver=available()), training=training)


def main() -> None:
    own = own_arguments()
    options = arguments(HELP, Path(__file__).parent)
    unknown = set(options.only or ()) - set(PARTS)
    if unknown:
        raise SystemExit(f"--only must name parts among {', '.join(PARTS)}, got {', '.join(sorted(unknown))}.")
    run(own, options)


def run(own: argparse.Namespace, options: argparse.Namespace) -> None:
    """Imports PyTorch and PyEPO here, so that worker processes start without them."""
    from experiments.knapsack import benchmark, study, sweep, tune
    from experiments.knapsack.methods import METHODS
    from experiments.knapsack.train import Bench

    parts = {m.PART.name: m.PART for m in (benchmark, tune, sweep)}
    size = chosen_size(options.full, available(own.solver), options.seed, own.epochs)
    slow = () if options.full else ("last-iterate",)
    methods = own.methods or [name for name, m in METHODS.items() if name not in slow and (m.oracle != "mip" or own.mip)]
    study.unknown_methods(methods)
    seeds = tuple(range(size.seeds)) if own.seeds is None else tuple(own.seeds)
    choice, bench = study.Choice(tuple(methods), seeds, own.mip), Bench(size, own.mip_limit, own.workers)
    console, begin = Console(), perf_counter()
    for name in options.only or ("benchmark",):
        study.run_part(parts[name], bench, choice, options.out, options.fresh, console)
    bench.close()
    console.print(f"{perf_counter() - begin:.0f} s; results in {options.out.name}/")


if __name__ == "__main__":
    main()
