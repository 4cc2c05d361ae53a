"""What generality costs: steps of BinaryProgram beside those of the problem made for the same set, timed in turns.

    python benchmarks/zoo/program.py [--quick] [--save]

Both have the same law; a step is one proposal of the mixture. Nothing is asserted about time.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
from report import OtherLoad, Row, save, table

import movegrad as mg
from movegrad.problem import Problem
from movegrad.problems import BinaryProgram, Hypercube, Knapsack, TopK

RESULTS = Path(__file__).parents[1] / "results" / "zoo_program.json"
TARGET = "≤ 5"


def knapsacks(d: int, rows: int) -> tuple[Problem, Problem]:
    weights = np.random.default_rng(0).integers(1, 100, (rows, d)).astype(float)
    return Knapsack(weights, weights.sum(1) / 2), BinaryProgram(weights, None, weights.sum(1) / 2)


def pairs() -> dict[str, tuple[Problem, Problem]]:
    """The special problem, and the program of the same set."""
    return {
        "knapsack, 100 items, 5 rows": knapsacks(100, 5),
        "knapsack, 100 items, 50 rows": knapsacks(100, 50),
        "top-k, 20 of 100": (TopK(100, 20), BinaryProgram(np.ones((1, 100)), 20, 20)),
        "top-k, 100 of 10,000": (TopK(10_000, 100), BinaryProgram(np.ones((1, 10_000)), 100, 100)),
        "hypercube, 100 bits": (Hypercube(100), BinaryProgram(np.zeros((0, 100)))),
    }


def seconds(problem: Problem, theta: np.ndarray, steps: int) -> float:
    begin = perf_counter()
    mg.sample(problem, theta, steps=steps)
    return perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    rounds, steps = (5, 300_000) if arguments.quick else (15, 3_000_000)
    mg.set_threads(1)
    rows = []
    for name, (special, general) in pairs().items():
        theta = np.random.default_rng(1).normal(size=special.size)
        for problem in (special, general):
            mg.sample(problem, theta, steps=10)  # compiles
        load = OtherLoad()
        times = [(seconds(special, theta, steps), seconds(general, theta, steps)) for _ in range(rounds)]
        others = load.cores()
        rows.append(Row(name, "× the time", [b / a for a, b in times], TARGET, others))
        rows.append(Row("  BinaryProgram", "ns/step", [1e9 * b / steps for _, b in times], others=others))
    Console().print(table("a step of BinaryProgram beside one of the problem made for the set", rows))
    if arguments.save:
        save(RESULTS, rows, steps=steps, rounds=rounds)


if __name__ == "__main__":
    main()
