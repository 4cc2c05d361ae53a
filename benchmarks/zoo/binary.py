"""QUBO, cuts, generalized assignment and energy scheduling: how fast steps are, and how good ``solve`` is in a given time.

    python benchmarks/zoo/binary.py [--only speed cuts assignment scheduling] [--seconds 10] [--arena FOLDER] [--save]

Speeds are ratios of contenders timed in turns. Qualities are gaps to the best known values of public instances, which are read from
a folder and are no part of the repository; without it, that part is left out. Budgets are processor time: ``--seconds`` on each of
two cores. Beside cuts stands dwave-samplers' simulated annealing, where it is installed, with the same budget.
"""

import argparse
import csv
import lzma
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time

import numba
import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
from report import OtherLoad, Row, save, table

import movegrad as mg
from movegrad.problems import QUBO, EnergyScheduling, GeneralizedAssignment, Hypercube, MaxCut

try:
    from dwave.samplers import SimulatedAnnealingSampler
except ImportError:
    SimulatedAnnealingSampler = None

RESULTS = Path(__file__).parents[1] / "results" / "zoo_binary.json"
ARENA = Path(__file__).parents[3] / "shared" / "data" / "arena"
CORES = 2
_U = np.uint64


# --- speed -----------------------------------------------------------------------------------------------------------------


@numba.njit(error_model="numpy", nogil=True)
def by_hand(first, neighbor, coupling, linear, inverse, steps, seed, y, best):
    """Annealing of a QUBO as one writes it for speed: local fields, xorshift, precomputed temperatures, random sites."""
    n, x, field, value, top = len(y), _U(seed) * _U(0x9E3779B97F4A7C15) | _U(1), linear.copy(), 0.0, 0.0
    for i in range(n):
        if y[i]:
            value += field[i]
            for k in range(first[i], first[i + 1]):
                field[neighbor[k]] += coupling[k]
    for level in range(len(inverse)):
        for _ in range(steps // len(inverse)):
            x ^= x << _U(13)
            x ^= x >> _U(7)
            x ^= x << _U(17)
            i = np.int64(((x >> _U(32)) * _U(n)) >> _U(32))
            d = 1.0 - 2.0 * y[i]
            gain = d * field[i]
            accepted = gain >= 0.0
            if not accepted:
                x ^= x << _U(13)
                x ^= x >> _U(7)
                x ^= x << _U(17)
                accepted = np.int64(x >> _U(11)) * (1.0 / 9007199254740992.0) < np.exp(gain * inverse[level])
            if accepted:
                if gain < 0.0 and value > top:
                    top = value
                    for j in range(n):
                        best[j] = y[j]
                for k in range(first[i], first[i + 1]):
                    field[neighbor[k]] += d * coupling[k]
                y[i] = 1 - y[i]
                value += gain
    return max(top, value)


def in_turns(contenders: dict[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contender in each round; each runs once before."""
    out: dict[str, list[float]] = {name: [] for name in contenders}
    for r in range(-1, rounds):
        for name, work in contenders.items():
            begin = perf_counter()
            work(r + 1)
            if r >= 0:
                out[name].append(perf_counter() - begin)
    return out


def ratios(top: list[float], bottom: list[float]) -> list[float]:
    return [a / b for a, b in zip(top, bottom, strict=True)]


def against_hand(rounds: int, steps: int) -> Iterator[Row]:
    """Steps per second of ``solve`` over those of the loop above: 800 variables of degree 48, one thread."""
    n, rng = 800, np.random.default_rng(0)
    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    edges, weights = pairs[rng.choice(len(pairs), 24 * n, replace=False)], rng.choice([-1.0, 1.0], 24 * n)
    matrix = np.zeros((n, n))
    matrix[edges[:, 0], edges[:, 1]] = weights
    qubo, cut, zeros = QUBO(matrix), MaxCut(n, edges), np.zeros(n)
    data = qubo.data
    for begin, end in ((3.0, 0.2), (1.0, 1.0), (0.3, 0.3)):
        inverse = 1.0 / (begin * (end / begin) ** ((np.arange(256) + 0.5) / 256))
        cooling = mg.schedules.Annealing(begin, end)

        def hand(seed: int, inverse: np.ndarray = inverse) -> float:
            y = np.random.default_rng(seed).integers(0, 2, n).astype(np.uint8)
            return by_hand(data.first, data.neighbor, data.coupling, data.linear, inverse, steps, seed + 1, y, y.copy())

        times = in_turns(
            {
                "hand": hand,
                "QUBO": lambda seed, c=cooling: mg.solve(qubo, zeros, steps=steps, schedule=c, seed=seed),
                "MaxCut": lambda seed, c=cooling: mg.solve(cut, weights, steps=steps, schedule=c, seed=seed),
            },
            rounds,
        )
        what = f"t = {begin:g}" if begin == end else f"t = {begin:g} … {end:g}"
        yield Row(f"degree 48, {what}: by hand", "M steps/s", [1e-6 * steps / t for t in times["hand"]])
        yield Row(f"degree 48, {what}: speed, QUBO / by hand", "×", ratios(times["hand"], times["QUBO"]), "≥ 1")
        yield Row(f"degree 48, {what}: speed, MaxCut / QUBO by hand", "×", ratios(times["hand"], times["MaxCut"]))


def scheduling_instance(tasks: int, machines: int, slots: int, seed: int = 0) -> EnergyScheduling:
    """Tasks of a quarter of the day, in windows twice as long, on machines with room for all of them."""
    rng = np.random.default_rng(seed)
    durations = rng.integers(slots // 8, slots // 3, tasks)
    releases = rng.integers(0, slots // 4, tasks)
    deadlines = np.minimum(releases + 2 * durations, slots)
    capacities = np.full(machines, 2.0 * tasks / machines)
    return EnergyScheduling(durations, releases, deadlines, rng.random(tasks), rng.random(tasks), capacities, slots)


def against_hypercube(rounds: int, steps: int) -> Iterator[Row]:
    """Time per step over that of a flip on the hypercube, d = 100: one chain, one thread."""
    rng = np.random.default_rng(0)
    cube, theta = Hypercube(100), rng.normal(size=100)
    weights = rng.integers(5, 25, size=(10, 100))
    others = {
        "generalized assignment, 10 × 100": (GeneralizedAssignment(weights, 0.12 * weights.sum(1)), rng.normal(size=1000), ""),
        "scheduling, 20 tasks, 3 machines, 48 slots": (scheduling_instance(20, 3, 48), rng.normal(size=48), "≤ 6"),
        "scheduling, 200 tasks, 10 machines, 288 slots": (scheduling_instance(200, 10, 288), rng.normal(size=288), ""),
    }
    works = {"flip": lambda seed: mg.sample(cube, theta, steps=4 * steps, trace=0, seed=seed)}
    for name, (problem, scores, _) in others.items():
        works[name] = lambda seed, p=problem, s=scores: mg.sample(p, s, steps=steps, trace=0, seed=seed)
    times = in_turns(works, rounds)
    for name, (_, _, target) in others.items():
        yield Row(f"time per step, {name} / flip of a bit", "×", [4 * r for r in ratios(times[name], times["flip"])], target)


def speed(arguments: argparse.Namespace) -> Iterator[Row]:
    before = mg.get_threads()
    mg.set_threads(1)
    try:
        yield from against_hand(arguments.rounds, 20_000_000)
        yield from against_hypercube(arguments.rounds, 2_000_000)
    finally:
        mg.set_threads(before)


# --- quality -----------------------------------------------------------------------------------------------------------------


def solved(problem: mg.Problem, theta: np.ndarray, seconds: float, seed: int = 0) -> tuple[float, float]:
    """The best of one chain on each core, and the processor time that all took: as many steps as fit into the seconds of a core."""
    rows = np.stack([theta] * CORES)
    for steps in (1000, 2_000_000):  # the first compiles
        begin = process_time()
        mg.solve(problem, rows, steps=steps, seed=seed)
    per_step = (process_time() - begin) / (CORES * steps)
    begin = process_time()
    found = mg.solve(problem, rows, steps=int(seconds / per_step), seed=seed)
    return float(np.max(found.objective)), process_time() - begin


def annealed_by_dwave(n: int, edges: np.ndarray, weights: np.ndarray, seconds: float, reads: int) -> tuple[float, float]:
    """The same with dwave-samplers: on each core so many reads, each with as many sweeps as fit."""
    sampler = SimulatedAnnealingSampler()
    couplings = {(int(a), int(b)): float(w) for (a, b), w in zip(edges, weights, strict=True)}
    fields = dict.fromkeys(range(n), 0.0)

    def run(sweeps: int, seed: int) -> float:
        lowest = sampler.sample_ising(fields, couplings, num_reads=reads, num_sweeps=sweeps, seed=seed).first.energy
        return 0.5 * (weights.sum() - lowest)

    def cost(sweeps: int) -> float:
        begin = process_time()
        run(sweeps, 0)
        return process_time() - begin

    run(10, 0)
    fixed, more = cost(10), cost(2010)  # to build the model takes time too
    sweeps = max(1, int(2000 * (seconds - fixed) / max(more - fixed, 1e-3)))
    begin = process_time()
    with ThreadPoolExecutor(CORES) as pool:
        values = list(pool.map(lambda seed: run(sweeps, seed), range(1, CORES + 1)))
    return max(values), process_time() - begin


def gap(value: float, best: float) -> float:
    return 100.0 * abs(best - value) / abs(best)


def cuts(arguments: argparse.Namespace) -> Iterator[Row]:
    """G-set: percent below the best known cut."""
    folder = arguments.arena / "gset"
    for line in csv.DictReader((folder / "best_known.csv").read_text().splitlines()):
        words = np.array(lzma.decompress((folder / f"{line['name']}.txt.xz").read_bytes()).split(), int)
        n, triples, best = int(words[0]), words[2:].reshape(-1, 3), float(line["best_known"])
        edges, weights = triples[:, :2] - 1, triples[:, 2].astype(float)
        value, used = solved(MaxCut(n, edges), weights, arguments.seconds)
        yield Row(f"{line['name']}, {best:.0f}: movegrad, {used:.0f} s", "% below", [gap(value, best)], "≤ 0.1")
        for reads in (1, 10) if SimulatedAnnealingSampler else ():
            value, used = annealed_by_dwave(n, edges, weights, arguments.seconds, reads)
            name = f"{line['name']}, {best:.0f}: dwave-samplers, {CORES} × {reads} reads, {used:.0f} s"
            yield Row(name, "% below", [gap(value, best)])


def assignment(arguments: argparse.Namespace) -> Iterator[Row]:
    """Generalized assignment: percent from the best known value."""
    folder = arguments.arena / "gap"
    for line in csv.DictReader((folder / "bounds.csv").read_text().splitlines()):
        words = np.array((folder / f"{line['name']}.txt").read_text().split(), int)
        m, n = words[:2]
        costs, weights, capacities = words[2 : 2 + m * n], words[2 + m * n : 2 + 2 * m * n].reshape(m, n), words[2 + 2 * m * n :]
        sign = 1.0 if line["usual_objective"] == "max" else -1.0
        best = float(line["max_lower"] if sign > 0 else line["min_upper"])
        value, used = solved(GeneralizedAssignment(weights, capacities), sign * costs, arguments.seconds)
        yield Row(f"{line['name']}, {best:.0f}: movegrad, {used:.0f} s", "% from", [gap(sign * value, best)])


OPTIMA = {1: 1928692.86, 2: 1238113.04, 6: 2004126.35}  # mean over the test days, by HiGHS and CP-SAT


def scheduling(arguments: argparse.Namespace) -> Iterator[Row]:
    """ICON loads: percent above the mean optimal cost of the 177 test days, all solved in one call."""
    folder = arguments.arena / "icon"
    prices = np.maximum(np.load(folder / "prices_clean.npz")["price"][612:], 0.0)
    for load, best in OPTIMA.items():
        problem = EnergyScheduling.read(folder / "loads" / f"load{load}" / "day01.txt")
        mg.solve(problem, -prices, steps=100)
        for steps in (10_000, 100_000, 1_000_000):
            begin = process_time()
            cost = -float(mg.solve(problem, -prices, steps=steps).objective.mean())
            used = (process_time() - begin) / len(prices)
            yield Row(f"load {load}, {steps:,} steps a day, {1e3 * used:.0f} ms each", "% above", [100.0 * (cost / best - 1.0)])


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "speed": speed, "cuts": cuts, "assignment": assignment, "scheduling": scheduling,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=tuple(PARTS), help="parts to run")
    parser.add_argument("--seconds", type=float, default=10.0, help="processor time on each core for each instance")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contender")
    parser.add_argument("--arena", type=Path, default=ARENA, help="folder with the instances")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    console, load, rows = Console(), OtherLoad(), []
    for name in arguments.only:
        if name != "speed" and not arguments.arena.exists():
            console.print(f"{name}: no instances in {arguments.arena}, left out")
            continue
        for row in PARTS[name](arguments):
            rows.append(row)
            console.print(f"{row.name}: {row.median:.4g} {row.unit}", highlight=False)
    console.print(table("binary problems of the zoo", rows))
    if arguments.save:
        save(RESULTS, rows, seconds=arguments.seconds, cores=CORES, others=load.cores())


if __name__ == "__main__":
    main()
