"""The parts of the study."""

import argparse
from pathlib import Path

from experiments.framework import Part, Study
from experiments.recovery import ablation_runs, convergence, normality, square
from experiments.recovery.ablations import ABLATIONS
from experiments.recovery.sizes import FULL, QUICK, Sizes


def parts(options: argparse.Namespace) -> list[Part]:
    return parts_of(FULL if options.full else QUICK, options.seed)


def parts_of(sizes: Sizes, seed: int) -> list[Part]:
    learned = [ablation_runs.part(ablation, sizes, seed) for ablation in ABLATIONS]
    return learned + [module.part(sizes, seed) for module in (square, convergence, normality)]


NAMES = tuple(part.name for part in parts_of(QUICK, 0))
STUDY = Study("recovery", "Learning θ₀ in the unconditional setting.", Path(__file__).parent, NAMES, parts)
