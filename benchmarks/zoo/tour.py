"""Tours, routes and permutations: what a step costs beside a flip of a bit, and how far annealing is from the best known.

    python benchmarks/zoo/tour.py [--data FOLDER] [--only steps|tsp|qap|cvrp|pcvrptw] [--seconds 10] [--quick] [--save]

Steps are timed in turns, in seconds of the processor, one thread; the figure is the ratio of neighboring turns. Tours and
quadratic assignments need ``FOLDER/tsplib`` and ``FOLDER/qaplib`` with the instances of these libraries, ``optima.csv`` and
``best_known.csv``; prize-collecting routing needs ``FOLDER/pcvrptw`` with ``bks.csv``. PyVRP has the
same time, where it is installed. Nothing is asserted about time.
"""

import argparse
import csv
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console

import movegrad as mg
from movegrad.problems import CVRP, QAP, TSP, Assignment, Hypercube
from movegrad.problems.routing import Instance

sys.path.insert(0, str(Path(__file__).parents[1]))
from report import Row, save, table

RESULTS = Path(__file__).parents[1] / "results" / "zoo_tour.json"
SIZE = 1_000  # of the hypercube that others are measured by


# --- steps ------------------------------------------------------------------------------------------------------------


def euclidean(n: int, seed: int = 0) -> np.ndarray:
    places = np.random.default_rng(seed).random((n, 2))
    return np.linalg.norm(places[:, None] - places, axis=-1)


def contenders() -> Iterator[tuple[str, mg.Problem, np.ndarray, Any, float]]:
    """Name, problem, θ, start, temperature: optima in the cold, where nearly all proposals are rejected, and warmer ones."""
    rng = np.random.default_rng(0)
    for n in (100, 1_000):
        tour = TSP(n)
        theta = tour.theta(-euclidean(n))
        best = mg.solve(tour, theta, steps=3_000_000).solution
        yield f"TSP, n = {n}, rejected", tour, theta, best, 1e-9
        yield f"TSP, n = {n}, warm", tour, theta, best, 0.3 / n**0.5 / 10
    for n in (32, 100):
        worth = rng.normal(size=n * n)
        yield f"assignment, n = {n}, rejected", Assignment(n), worth, mg.solve(Assignment(n), worth, steps=300_000).solution, 1e-9
        yield f"assignment, n = {n}, t = 1", Assignment(n), worth, "random", 1.0
        yield f"assignment, n = {n}, guided, t = 1", Assignment(n, guided=True), worth, "random", 1.0
    flow, distance = rng.integers(0, 10, (2, 30, 30))
    yield "quadratic assignment, n = 30", QAP(flow + flow.T, distance), np.zeros(900), "random", 10.0
    plan = CVRP(rng.integers(1, 10, 100), 60, distances=euclidean(101))
    theta = plan.theta(-euclidean(101))
    yield "CVRP, n = 100, rejected", plan, theta, mg.solve(plan, theta, steps=1_000_000).solution, 1e-9


def seconds_per_step(problem: mg.Problem, theta: np.ndarray, start: Any, temperature: float, steps: int) -> float:
    """Without what a call takes by itself."""

    def timed(k: int) -> float:
        begin = process_time()
        mg.sample(problem, theta, steps=k, start=start, temperature=temperature, trace=0)
        return process_time() - begin

    return (timed(steps) - timed(steps // 100)) / (steps - steps // 100)


def steps(rounds: int, length: int) -> Iterator[Row]:
    flips, theta = Hypercube(SIZE), np.random.default_rng(0).normal(size=SIZE)
    before = mg.get_threads()
    mg.set_threads(1)
    try:
        for name, problem, own, start, temperature in contenders():
            seconds_per_step(problem, own, start, temperature, 1_000)  # compiles
            seconds_per_step(flips, theta, "random", 1.0, 1_000)
            ratios = []
            for _ in range(rounds):
                base = seconds_per_step(flips, theta, "random", 1.0, length)
                ratios.append(seconds_per_step(problem, own, start, temperature, length) / base)
            target = "≤ 3" if "rejected" in name and "CVRP" not in name else ""
            yield Row(f"a step of {name}", "× a flip", ratios, target)
    finally:
        mg.set_threads(before)


# --- gaps -------------------------------------------------------------------------------------------------------------


def distances_of(path: Path) -> np.ndarray:
    """The matrix of an instance of TSPLIB with coordinates: EUC_2D, ATT or GEO."""
    kind, places, section = "", [], False
    for line in path.read_text().splitlines():
        if line.startswith("EDGE_WEIGHT_TYPE"):
            kind = line.split(":")[1].strip()
        elif line.strip() == "NODE_COORD_SECTION":
            section = True
        elif line.strip() in ("EOF", "") or not line.split()[0].isdigit():
            section = False
        elif section:
            places.append([float(x) for x in line.split()[1:3]])
    at = np.array(places)
    square = ((at[:, None] - at) ** 2).sum(-1)
    if kind == "EUC_2D":
        out = np.floor(np.sqrt(square) + 0.5)
    elif kind == "ATT":
        exact = np.sqrt(square / 10.0)
        out = np.floor(exact + 0.5)
        out += out < exact
    else:
        out = _on_earth(at)
    np.fill_diagonal(out, 0.0)
    return out


def _on_earth(at: np.ndarray) -> np.ndarray:
    """Degrees and minutes to kilometers, with TSPLIB's numbers for π and the radius."""
    degrees = np.trunc(at)
    latitude, longitude = (3.141592 * (degrees + 5.0 * (at - degrees) / 3.0) / 180.0).T
    q1 = np.cos(longitude[:, None] - longitude)
    q2, q3 = np.cos(latitude[:, None] - latitude), np.cos(latitude[:, None] + latitude)
    return np.trunc(6378.388 * np.arccos(np.clip(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3), -1.0, 1.0)) + 1.0)


def known(path: Path, column: str) -> dict[str, float]:
    with path.open(newline="") as file:
        return {row["name"]: float(row[column]) for row in csv.DictReader(file)}


def gap(value: float, best: float) -> float:
    return 100.0 * (value / best - 1.0)


def tours(folder: Path, seconds: float, seeds: int, largest: int) -> Iterator[Row]:
    for name, best in known(folder / "optima.csv", "optimal_length").items():
        matrix = distances_of(folder / f"{name}.tsp")
        if len(matrix) > largest:
            continue
        problem = TSP(len(matrix))
        theta = problem.theta(-matrix)
        mg.solve(problem, theta, steps=100)  # compiles
        found = [-float(mg.solve(problem, theta, time_limit=seconds, seed=s).objective) for s in range(seeds)]
        target = "≤ 3" if len(matrix) <= 1_002 else ""
        yield Row(f"{name}, {seconds:g} s", "% above optimal", [gap(v, best) for v in found], target)
        if (other := with_pyvrp(matrix, None, 1, 1.0, seconds)) is not None:
            yield Row(f"{name}, {seconds:g} s, PyVRP", "% above optimal", [gap(other, best)])


def permutations(folder: Path, seconds: float, seeds: int) -> Iterator[Row]:
    for name, best in known(folder / "best_known.csv", "best_known").items():
        numbers = np.array((folder / f"{name}.dat").read_text().split(), float)
        n = int(numbers[0])
        flow, distance = numbers[1 : 1 + 2 * n * n].reshape(2, n, n)
        problem = QAP(flow, distance)
        mg.solve(problem, np.zeros(n * n), steps=100)  # compiles
        found = [-float(mg.solve(problem, np.zeros(n * n), time_limit=seconds, seed=s).objective) for s in range(seeds)]
        yield Row(f"{name}, {seconds:g} s", "% above best known", [gap(v, best) for v in found])


def routes(seconds: float, seeds: int) -> Iterator[Row]:
    """Random instances, beside PyVRP in the same time."""
    for n, capacity in ((20, 30.0), (100, 60.0)):
        values = []
        for seed in range(seeds):
            matrix = np.round(10_000.0 * euclidean(n + 1, seed))
            demands = np.random.default_rng(seed).integers(4, 8, n)
            problem = CVRP(demands, capacity, distances=matrix)
            theta = problem.theta(-matrix)
            mg.solve(problem, theta, steps=100)  # compiles
            found = -float(mg.solve(problem, theta, time_limit=seconds, seed=seed).objective)
            other = with_pyvrp(matrix, demands, n, capacity, seconds)
            if other is not None:
                values.append(gap(found, other))
        if values:
            yield Row(f"CVRP, n = {n}, {seconds:g} s", "% above PyVRP", values)


def prizes(folder: Path, seconds: float, seeds: int) -> Iterator[Row]:
    """Prize-collecting routing with a thousand clients, beside PyVRP in the same time."""
    for name, best in known(folder / "bks.csv", "bks_cost_x10").items():
        instance, prize = prize_instance(folder / f"{name}.vrp.xz")
        problem = mg.problems.PrizeCollectingVRPTW(instance)
        mg.solve(problem, prize, steps=100)  # compiles
        found = [
            prize.sum() - float(mg.solve(problem, prize, time_limit=seconds, seed=s, start="greedy").objective)
            for s in range(seeds)
        ]
        yield Row(f"{name}, {seconds:g} s", "% above best known", [gap(v, best) for v in found])
        if (other := prizes_of_pyvrp(instance, prize, seconds)) is not None:
            yield Row(f"{name}, {seconds:g} s, PyVRP", "% above best known", [gap(other, best)])


def prize_instance(path: Path) -> tuple[Instance, np.ndarray]:
    """An instance of PCVRPTW in VRPLIB's format, all in tenths, and the prizes of its clients."""
    head: dict[str, str] = {}
    sections: dict[str, list[list[float]]] = {}
    name = ""
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        words = line.split()
        if not words or words[0] == "EOF":
            continue
        if words[0].endswith("_SECTION"):
            name, sections[words[0]] = words[0], []
        elif ":" in line:
            key, _, value = line.partition(":")
            head[key.strip()] = value.strip()
        else:
            sections[name].append([float(w) for w in words])
    n, (places, windows) = (
        int(head["DIMENSION"]),
        (np.array(sections[f"{s}_SECTION"])[:, 1:] for s in ("NODE_COORD", "TIME_WINDOW")),
    )
    distances = np.floor(10.0 * np.linalg.norm(places[:, None] - places, axis=-1))
    service = np.where(np.arange(n) > 0, 10.0 * float(head["SERVICE_TIME"]), 0.0)
    demands, prize = (np.array(sections[f"{s}_SECTION"])[:, 1] for s in ("DEMAND", "PRIZE"))
    instance = Instance(
        distances, demands, service, 10.0 * windows, float(head["CAPACITY"]), np.zeros(n, bool), max_vehicles=int(head["VEHICLES"])
    )
    return instance, np.floor(10.0 * prize[1:])


def prizes_of_pyvrp(instance: Instance, prize: np.ndarray, seconds: float) -> float | None:
    """Cost of what PyVRP finds; None where it is not installed."""
    try:
        from pyvrp import solve
        from pyvrp.stop import MaxRuntime

        from movegrad.integrations.pyvrp import to_pyvrp
    except ImportError:
        return None
    return float(solve(to_pyvrp(instance, prize), MaxRuntime(seconds), seed=0, display=False).cost())


def with_pyvrp(matrix: np.ndarray, demands: Any, vehicles: int, capacity: float, seconds: float) -> float | None:
    """Length of what PyVRP finds; None where it is not installed."""
    try:
        from pyvrp import solve
        from pyvrp.stop import MaxRuntime

        from movegrad.integrations.pyvrp import fleet, to_pyvrp
    except ImportError:
        return None
    n = len(matrix)
    loads = np.zeros(n) if demands is None else np.append(0, demands)
    windows = np.tile([0.0, matrix.max(1).sum()], (n, 1))
    instance = Instance(matrix, loads, np.zeros(n), windows, capacity, must_serve=np.arange(n) > 0, max_vehicles=vehicles)
    data = to_pyvrp(instance, vehicles=min(vehicles, fleet(instance)))
    return float(solve(data, MaxRuntime(seconds), seed=0, display=False).cost())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with tsplib, qaplib and pcvrptw")
    parser.add_argument("--only", choices=("steps", "tsp", "qap", "cvrp", "pcvrptw"))
    parser.add_argument("--seconds", type=float, default=10.0, help="for each instance")
    parser.add_argument("--seeds", type=int, default=1, help="runs on each instance")
    parser.add_argument("--largest", type=int, default=1_500, help="cities")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--save", action="store_true", help=f"also write {RESULTS.name}")
    arguments = parser.parse_args()
    console, rows = Console(), list[Row]()
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "steps": lambda: steps(*((3, 100_000) if arguments.quick else (11, 1_000_000))),
        "cvrp": lambda: routes(arguments.seconds, 2 if arguments.quick else 5),
    }
    if arguments.data is not None:
        parts["tsp"] = lambda: tours(arguments.data / "tsplib", arguments.seconds, arguments.seeds, arguments.largest)
        parts["pcvrptw"] = lambda: prizes(arguments.data / "pcvrptw", arguments.seconds, arguments.seeds)
        parts["qap"] = lambda: permutations(arguments.data / "qaplib", arguments.seconds, arguments.seeds)
    for name, part in parts.items():
        if arguments.only in (None, name):
            for row in part():
                rows.append(row)
                console.print(f"{row.name}: {row.median:.3g} {row.unit}", highlight=False)
    console.print(table("tours, routes and permutations", rows))
    if arguments.save:
        save(RESULTS, rows, seconds=arguments.seconds)


if __name__ == "__main__":
    main()
