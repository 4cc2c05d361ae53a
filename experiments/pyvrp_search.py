"""PyVRP's iterated local search from a given plan, with a budget of iterations or of processor time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any

import pyvrp
from pyvrp.search import OPERATORS, LocalSearch, NeighbourhoodParams, PerturbationManager, compute_neighbours
from pyvrp.stop import MaxIterations

NEIGHBORS = 20  # better than PyVRP's 50 below a second


@dataclass(frozen=True)
class Budget:
    """Iterations (reproducible) or seconds of the processor, which other work does not shorten; exactly one of them."""

    iterations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.iterations is None) == (self.seconds is None):
            raise ValueError(f"a budget has iterations or seconds, got {self.iterations} and {self.seconds}.")
        if self.iterations is not None and self.iterations < 0:
            raise ValueError(f"iterations must be ≥ 0, got {self.iterations}.")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds must be > 0, got {self.seconds}.")

    def stop(self, begin: float) -> Callable[[float], bool]:
        """PyVRP's stopping criterion; time counts from ``begin``."""
        if self.iterations is not None:
            return MaxIterations(self.iterations)
        return lambda _: thread_time() - begin >= self.seconds  # type: ignore[operator]


def neighbors_of(data: pyvrp.ProblemData, count: int = NEIGHBORS) -> Any:
    return compute_neighbours(data, NeighbourhoodParams(num_neighbours=count))


def search(
    data: pyvrp.ProblemData,
    neighbors: Any,
    budget: Budget,
    seed: int,
    start: Sequence[Sequence[int]] | None = None,
    improve: bool = False,
) -> pyvrp.Result:
    """Iterated local search, as ``pyvrp.solve`` does it, with given neighbors; a time limit includes the first solution.

    ``start``: routes of clients in place of a random first solution, which is improved by local search; ``improve`` does the same
    with ``start``.
    """
    begin = thread_time()
    rng = pyvrp.RandomNumberGenerator(seed=seed)
    local = LocalSearch(data, rng, neighbors, PerturbationManager())
    for operator in OPERATORS:
        if operator.supports(data):
            local.add_operator(operator(data))
    params = pyvrp.PenaltyParams()
    penalties = pyvrp.PenaltyManager(params.midpoint_penalties(data), params)
    first = pyvrp.Solution.make_random(data, rng) if start is None else pyvrp.Solution(data, start)
    if start is None or improve:
        first = local(first, penalties.max_cost_evaluator(), exhaustive=True)
    algorithm = pyvrp.IteratedLocalSearch(data, penalties, local, first)
    return algorithm.run(budget.stop(begin), collect_stats=False, display=False)
