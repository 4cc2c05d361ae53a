"""Part 7: what is no learning at all, and whether a solver's answer depends on what it is asked.

The regret of one decision for all instances, made for the mean of the training values, is the floor: a method whose network is no
better *did not learn*, and is not counted as beaten. A solver that returns the same solution for all values gives it nothing to
learn from.
"""

from functools import partial

import numpy as np
from rich.table import Table

from experiments.display import table
from experiments.framework import Part, Row, Rows, Tasks
from experiments.knapsack.runs import Choice
from experiments.knapsack.settings import Settings
from experiments.knapsack.train import Bench, regrets
from experiments.statistics import rounded

VECTORS = 60


def constant(bench: Bench) -> Row:
    """Regret on test and validation of the decision for mean values."""
    instances, decide = bench.instances, bench.size.training.decide
    mean = instances.train.costs.mean(0)
    lost = [regrets(np.tile(mean, (len(e.costs), 1)), e, bench.pool, decide) for e in (instances.test, instances.validation)]
    where = {"table": "constant", "test_by_instance": rounded(lost[0])}
    return {**where, "test": float(lost[0].mean()), "validation": float(lost[1].mean())}


def answers(bench: Bench, solver: str, milliseconds: float) -> Row:
    """How many different solutions a solver has for different values: those of instances, positive ones, and noise."""
    examples, rng = bench.instances.train, np.random.default_rng(0)
    third = VECTORS // 3
    values = [*examples.costs[:third], *(examples.costs.mean() * rng.random((third, examples.costs.shape[1])))]
    values += [*rng.standard_normal((third, examples.costs.shape[1]))]
    solutions, _ = bench.pool.solve(solver, milliseconds / 1000, np.array(values))
    different = len(np.unique(solutions, axis=0))
    of_costs = len(np.unique(solutions[:third], axis=0))
    where = {"table": "answers", "solver": solver, "limit_ms": milliseconds, "vectors": len(values), "of_instances": third}
    return {**where, "different": different, "different_of_instances": of_costs}


def tasks(bench: Bench, choice: Choice) -> Tasks:
    solvers = dict.fromkeys((bench.size.training.decide.solver, "movegrad"))
    limits = choice.limits or (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    asked = {f"{s} | {ms} ms": partial(answers, bench, s, ms) for s in solvers for ms in limits}
    return {"constant": partial(constant, bench), **asked}


def tables(settings: Settings, rows: Rows) -> list[Table]:
    floor = rows["constant"]
    first = table("One decision for all instances", "", "test regret", "validation")
    first.add_row("for mean values", f"{floor['test']:.3f}", f"{floor['validation']:.3f}")
    columns = ("limit", "different solutions, of values", "of training instances among them")
    second = table("Does the answer depend on the question?", "solver", *columns)
    for row in rows.values():
        if row["table"] == "answers":
            many, some = f"{row['different']} of {row['vectors']}", f"{row['different_of_instances']} of {row['of_instances']}"
            second.add_row(row["solver"], f"{row['limit_ms']:g} ms", many, some)
    return [first, second]


def part(bench: Bench, choice: Choice) -> Part:
    return Part("floor", bench.settings, lambda _: tasks(bench, choice), tables, prepare=bench.label)
