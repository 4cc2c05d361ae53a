"""``python -m experiments.recovery --quick`` or ``--full``; see README.md."""

from collections.abc import Sequence
from pathlib import Path

from experiments.common import arguments
from experiments.recovery import ablation_runs, convergence, normality, square
from experiments.recovery.ablations import all_ablations
from experiments.recovery.sizes import FULL, QUICK
from experiments.recovery.study import Study

PARTS = ("rate", "steps", "chains", "start", "observations", "mixtures", "square", "theorem")


def run_study(study: Study, only: Sequence[str] | None = None) -> None:
    """Run the parts in order; each prints a table and writes JSON, CSV and figures."""
    unknown = set(only or ()) - set(PARTS)
    if unknown:
        raise ValueError(f"only must name parts among {', '.join(PARTS)}, got {', '.join(sorted(unknown))}.")
    wanted = only or PARTS
    with study.progress:
        for ablation in all_ablations(study.sizes):
            if ablation.name in wanted:
                ablation_runs.run(ablation, study)
        if "square" in wanted:
            square.run(study)
        if "theorem" in wanted:
            convergence.run(study)
            normality.run(study)


def main() -> None:
    options = arguments("Learning θ₀ in the unconditional setting.", Path(__file__).parent)
    run_study(Study(FULL if options.full else QUICK, options.seed, options.out, options.fresh), options.only)


if __name__ == "__main__":
    main()
