"""Routing: what a step costs beside a flip of a bit, and what annealing finds beside PyVRP in the same time.

    python benchmarks/routing.py [--only steps|pyvrp|solve] [--quick] [--save]

One thread. Times are seconds of the processor, so that other work on the machine does little harm; contenders are timed in turns.
Instances are those of ``examples/routing.py``. Nothing is asserted about time: a target is printed beside what was measured.
"""

import argparse
import runpy
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from time import process_time

import numpy as np
import pyvrp
from engine import in_turns, per_round, scores, threads
from pyvrp.search import OPERATORS, LocalSearch, NeighbourhoodParams, PerturbationManager, compute_neighbours
from report import OtherLoad, Row, save, table
from rich.console import Console
from rich.progress import Progress

import movegrad as mg
from movegrad.integrations.pyvrp import fleet, routes_of, to_pyvrp
from movegrad.problems import Hypercube, PrizeCollectingVRPTW
from movegrad.problems.routing import Instance

RESULTS = Path(__file__).parent / "results" / "routing.json"
generate = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "routing.py"))["generate"]

TEMPERATURE = 100.0  # seconds of driving, as in the paper
WAVES = tuple((n, seed) for seed in (1, 2) for n in (50, 60, 70, 80, 90, 100))
STUDENT = 2.201  # 97.5 % quantile of Student's t with 11 degrees of freedom: 12 waves
BUDGETS = (0.001, 0.01, 0.1, 1.0)  # seconds
NEIGHBORS = 20  # of PyVRP, whose default of 50 is worse below a second


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int  # turns that each contender gets
    steps: int  # in a turn
    calls: int  # in a turn, where calls are timed
    seeds: int  # runs of each solver on each wave and budget
    budgets: tuple[float, ...]


def cpu_seconds(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


# --- steps -------------------------------------------------------------------------------------------------------------------


@cache
def wave(n: int, seed: int) -> tuple[PrizeCollectingVRPTW, np.ndarray, np.ndarray]:
    """A problem, its prizes, and a good plan of it."""
    instance, prizes = generate(n, seed)
    problem = PrizeCollectingVRPTW(instance)
    return problem, prizes, mg.solve(problem, prizes, steps=200_000).solution


def step_time(
    problem: mg.Problem, theta: np.ndarray, start: np.ndarray, steps: int, temperature: float = 1.0
) -> Callable[[], float]:
    """Nanoseconds per step of one chain."""
    seeds = iter(range(10**9))

    def measure() -> float:
        run = partial(mg.sample, problem, theta, steps=steps, temperature=temperature, start=start, trace=0, seed=next(seeds))
        return 1e9 * cpu_seconds(run) / steps

    measure()
    return measure


def call_and_step(run: Callable[..., object], times: int) -> tuple[float, float]:
    """Seconds a and b: a call with k steps takes a + b·k, through the medians for two k."""
    run(steps=100)
    short, long = (np.median([cpu_seconds(partial(run, steps=k)) for _ in range(times)]) for k in (100, 10_100))
    slope = (long - short) / 10_000
    return short - 100 * slope, slope


def steps(effort: Effort) -> Iterator[Row]:
    """A step of all moves, n = 100 and n = 1000, beside a flip of a bit, d = 100; from a good plan at t = 100."""
    chains = {
        "flip": step_time(Hypercube(100), scores(100), np.zeros(100, np.uint8), 10 * effort.steps),
        "100": step_time(*wave(100, 0), effort.steps, TEMPERATURE),
        "1000": step_time(*wave(1000, 0), effort.steps, TEMPERATURE),
    }
    times = in_turns(chains, effort.rounds)
    for name, values in zip(("flip of a bit, d = 100", "routing, n = 100", "routing, n = 1000"), times.values(), strict=True):
        yield Row(f"time per step, {name}", "ns", values)
    yield Row("time per step, routing with n = 100 / flip of a bit", "×", per_round(times["100"], times["flip"]), "≤ 10")
    yield Row("time per step, routing, n = 1000 / n = 100", "×", per_round(times["1000"], times["100"]), "≤ 3")


def moves(effort: Effort) -> Iterator[Row]:
    """Each move alone, from a good plan at t = 100: time per step and how often it is accepted."""
    problem, prizes, plan = wave(100, 0)
    info = mg.sample(problem, prizes, steps=effort.steps, temperature=TEMPERATURE, start=plan, trace=0).info
    for name, rate, drawn, idle in zip(info.moves, info.acceptance, info.drawn, info.inapplicable, strict=True):
        yield Row(f"{name}: accepted", "%", [100.0 * rate])
        yield Row(f"{name}: draws that do not apply", "%", [100.0 * idle / max(drawn, 1)])


def calls(effort: Effort) -> Iterator[Row]:
    """What a call costs beside its steps, and how many steps a call of 1 ms makes."""
    problem, prizes, plan = wave(100, 0)
    works = {
        "sample from a given plan": partial(mg.sample, problem, prizes, temperature=TEMPERATURE, start=plan, trace=0),
        "solve": partial(mg.solve, problem, prizes),
    }
    for name, work in works.items():
        fits = [call_and_step(work, effort.calls) for _ in range(effort.rounds)]
        yield Row(f"{name}: time of a call beside its steps, n = 100", "µs", [1e6 * fixed for fixed, _ in fits])
        if name != "solve":
            yield Row(f"{name}: steps in 1 ms, call included", "steps", [(1e-3 - a) / b for a, b in fits], "≥ 3000")


# --- PyVRP ---------------------------------------------------------------------------------------------------------------------


class Counted:
    """PyVRP's local search, and how many moves it evaluated: the sum of what it says after each call."""

    def __init__(self, data: pyvrp.ProblemData, neighbors: dict, seed: int) -> None:
        self.rng = pyvrp.RandomNumberGenerator(seed)
        self.search = LocalSearch(data, self.rng, neighbors, PerturbationManager())
        for operator in OPERATORS:
            if operator.supports(data):
                self.search.add_operator(operator(data))
        self.evaluated = 0

    def __call__(self, *arguments, **options) -> pyvrp.Solution:
        found = self.search(*arguments, **options)
        self.evaluated += self.search.statistics.num_moves
        return found


def for_pyvrp(instance: Instance, prizes: np.ndarray) -> pyvrp.ProblemData:
    return to_pyvrp(instance, prizes, vehicles=fleet(instance))  # with an unlimited fleet it is worse at 10 ms


def neighbors_of(data: pyvrp.ProblemData) -> dict:
    return compute_neighbours(data, NeighbourhoodParams(num_neighbours=NEIGHBORS))


def iterate(data: pyvrp.ProblemData, neighbors: dict, begin: float, budget: float, seed: int) -> tuple[pyvrp.Solution, int]:
    """What ``pyvrp.solve`` does, until so many CPU seconds after ``begin``; also the number of moves evaluated."""
    search, params = Counted(data, neighbors, seed), pyvrp.PenaltyParams()
    penalties = pyvrp.PenaltyManager(params.midpoint_penalties(data), params)
    first = search(pyvrp.Solution.make_random(data, search.rng), penalties.max_cost_evaluator(), exhaustive=True)
    algorithm = pyvrp.IteratedLocalSearch(data, penalties, search, first)
    found = algorithm.run(lambda _: process_time() - begin >= budget, collect_stats=False, display=False)
    return found.best, search.evaluated


def evaluations(effort: Effort) -> Iterator[Row]:
    """A yardstick: moves that PyVRP's local search evaluates, and steps of annealing, per second; n = 100."""
    problem, prizes, _ = wave(100, 0)
    data = for_pyvrp(problem.instance, prizes)
    neighbors, seeds, length = neighbors_of(data), iter(range(10**9)), 300_000

    def of_pyvrp() -> float:
        begin = process_time()
        _, evaluated = iterate(data, neighbors, begin, 0.5, next(seeds))
        return 1e-6 * evaluated / (process_time() - begin)

    def of_movegrad() -> float:
        return 1e-6 * length / cpu_seconds(partial(mg.solve, problem, prizes, steps=length, seed=next(seeds)))

    of_movegrad()
    rates = in_turns({"PyVRP": of_pyvrp, "movegrad": of_movegrad}, effort.rounds)
    yield Row("PyVRP: moves evaluated in iterated local search", "M/s", rates["PyVRP"])
    yield Row("movegrad: steps of annealing", "M/s", rates["movegrad"])


# --- the same time -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Objective of a plan, and CPU seconds from the call to it."""

    objective: float
    seconds: float


class OneWave:
    """One wave for all contenders; what does not depend on prizes is made once, or in each call where set-up counts."""

    def __init__(self, n: int, seed: int) -> None:
        self.instance, self.prizes = generate(n, seed)
        self.problem = PrizeCollectingVRPTW(self.instance)
        self.data = for_pyvrp(self.instance, self.prizes)
        self.neighbors = neighbors_of(self.data)
        self.run = partial(mg.solve, self.problem, self.prizes)
        self.fixed, self.slope = call_and_step(self.run, 9)
        self.lengths: dict[float, int] = {}

    def length(self, budget: float) -> int:
        """Steps that fill a budget: ``solve`` is given steps here, since its own clock is that on the wall. Corrected once."""
        if budget not in self.lengths:
            guess = max(1.0, (budget - self.fixed) / self.slope)
            spent = cpu_seconds(partial(self.run, steps=int(guess))) if guess > 1 else budget
            self.lengths[budget] = max(1, int(guess * (budget - self.fixed) / max(spent - self.fixed, self.slope)))
        return self.lengths[budget]

    def movegrad(self, budget: float, seed: int, setup: bool) -> Found:
        length = self.length(budget)
        begin = process_time()
        problem = PrizeCollectingVRPTW(self.instance) if setup else self.problem
        made = int((process_time() - begin) / self.slope)  # steps in the time of the set-up
        plan = mg.solve(problem, self.prizes, steps=max(1, length - made), seed=seed)
        spent = process_time() - begin
        return Found(self.objective(plan.routes), spent)

    def pyvrp(self, budget: float, seed: int, setup: bool) -> Found:
        begin = process_time()
        data = for_pyvrp(self.instance, self.prizes) if setup else self.data
        best, _ = iterate(data, neighbors_of(data) if setup else self.neighbors, begin, budget, seed)
        spent = process_time() - begin
        return Found(self.objective(self.repaired(routes_of(best))), spent)

    def objective(self, routes: list[list[int]]) -> float:
        if not self.problem.is_feasible(routes):
            raise RuntimeError(f"a plan must be feasible, got {routes}.")
        return float(sum(self.prizes[i - 1] for route in routes for i in route)) - self.problem.cost(routes)

    def repaired(self, routes: list[list[int]]) -> list[list[int]]:
        """PyVRP may end with a plan that is late or leaves out what must be served: such requests drive alone."""
        if self.problem.is_feasible(routes):
            return routes
        must = np.flatnonzero(self.instance.must_serve).tolist()
        alone = [[i] for i in must if not any(i in route for route in routes)]
        others = [[i] for i in must]
        kept = [r for r in routes if self.problem.is_feasible([r] + [o for o in others if o[0] not in r])]
        return kept + alone + [[i] for route in routes if route not in kept for i in route]


CONTENDERS = {"movegrad": OneWave.movegrad, "PyVRP": OneWave.pyvrp}
CASES = [(name, setup) for setup in (False, True) for name in CONTENDERS]
Key = tuple[str, bool, float]  # contender, set-up counts, budget


def same_time(effort: Effort, advance: Callable[[], object] = lambda: None) -> Iterator[Row]:
    """The same time for both: gap of the objective to the best of all runs on a wave, mean and 95 % interval over waves.

    In percent of the mean of these best objectives: that of a single wave may be near 0.
    """
    found: dict[Key, list[list[Found]]] = {(name, setup, b): [] for b in effort.budgets for name, setup in CASES}
    for n, seed in WAVES:
        one = OneWave(n, seed)
        for key, results in found.items():
            results.append([CONTENDERS[key[0]](one, key[2], s, key[1]) for s in range(effort.seeds)])
            advance()
    best = [max(f.objective for results in found.values() for f in results[w]) for w in range(len(WAVES))]
    for budget in effort.budgets:
        gaps = {case: gaps_of(found[*case, budget], best) for case in CASES}
        for setup in (False, True):
            note = "set-up included" if setup else "set-up cached"
            for name in CONTENDERS:
                values, target = gaps[name, setup], "≤ 1" if (name, budget, setup) == ("movegrad", 1.0, False) else ""
                spent = np.mean([f.seconds for results in found[name, setup, budget] for f in results])
                label = f"{budget * 1000:g} ms, {note}: gap of {name} (took {1000 * spent:.3g} ms)"
                yield Row(label, "%", [values.mean(), *interval(values)], target)
            ahead = gaps["PyVRP", setup] - gaps["movegrad", setup]
            target = "≥ 0" if budget <= 0.01 and not setup else ""
            yield Row(f"{budget * 1000:g} ms, {note}: movegrad ahead by", "points", [ahead.mean(), *interval(ahead)], target)


def gaps_of(results: list[list[Found]], best: list[float]) -> np.ndarray:
    """(waves,) mean over seeds."""
    means = np.array([np.mean([f.objective for f in runs]) for runs in results])
    return 100 * (np.array(best) - means) / np.mean(best)


def interval(values: np.ndarray) -> tuple[float, float]:
    half = STUDENT * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


SECTIONS = {"steps": (steps, calls, moves), "pyvrp": (evaluations,), "solve": (same_time,)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SECTIONS, help="one part")
    parser.add_argument("--quick", action="store_true", help="a shorter run")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.parent.name}/{RESULTS.name}")
    arguments = parser.parse_args()
    if arguments.only and arguments.save:
        parser.error("--save writes all parts: leave --only out")
    effort = Effort(5, 100_000, 50, 1, BUDGETS[:3]) if arguments.quick else Effort(9, 300_000, 200, 3, BUDGETS)
    console = Console(width=max(Console().width, 150))
    chosen = [s for name, group in SECTIONS.items() if arguments.only in (None, name) for s in group]
    rows = []
    with threads(1), Progress(console=console, transient=True) as progress:
        for section in chosen:
            total = len(WAVES) * len(CASES) * len(effort.budgets) if section is same_time else 1
            task, load = progress.add_task(section.__doc__.split(":")[0], total=total), OtherLoad()
            options = {"advance": partial(progress.advance, task)} if section is same_time else {}
            found = list(section(effort, **options))
            rows += [replace(row, values=[float(v) for v in row.values], others=load.cores()) for row in found]
            progress.update(task, completed=total)
    console.print(table("routing", rows))
    if arguments.save:
        save(RESULTS, rows, effort=asdict(effort), pyvrp=version("pyvrp"), waves=WAVES)


if __name__ == "__main__":
    main()
