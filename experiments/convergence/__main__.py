"""Run the study: ``python -m experiments.convergence [--quick | --full] [--only PART …]``."""

from pathlib import Path
from time import perf_counter

from rich.console import Console

from experiments.common import arguments
from experiments.convergence import burnin, chains, estimators, guided, onestep, temperature
from experiments.convergence.study import Part, run_part

PARTS: dict[str, Part] = {m.PART.name: m.PART for m in (burnin, temperature, chains, estimators, onestep, guided)}


def main() -> None:
    options = arguments("Convergence of chains to exact expectations.", Path(__file__).parent)
    console = Console()
    chosen = options.only or list(PARTS)
    for name in chosen:
        if name not in PARTS:
            raise SystemExit(f"--only must name parts among {', '.join(PARTS)}, got {name!r}.")
    begin = perf_counter()
    for name in chosen:
        part = PARTS[name]
        run_part(part, part.full if options.full else part.quick, options.seed, options.out, options.fresh, console)
    console.print(f"{perf_counter() - begin:.0f} s; results in {options.out.name}/")


if __name__ == "__main__":
    main()
