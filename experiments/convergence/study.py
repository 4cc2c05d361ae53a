"""The parts of the study."""

import argparse
from dataclasses import replace
from pathlib import Path

from experiments.convergence import burnin, chains, estimators, guided, onestep, temperature
from experiments.framework import Part, Study

MODULES = (burnin, temperature, chains, estimators, onestep, guided)


def parts(options: argparse.Namespace) -> list[Part]:
    chosen = ((module.PART, module.PART.settings if options.full else module.QUICK) for module in MODULES)
    return [part._replace(settings=replace(settings, seed=options.seed)) for part, settings in chosen]


NAMES = tuple(module.PART.name for module in MODULES)
STUDY = Study("convergence", "Convergence of chains to exact expectations.", Path(__file__).parent, NAMES, parts)
