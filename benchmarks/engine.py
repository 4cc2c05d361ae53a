"""How fast chains run: one table of ratios, each from contenders timed in turns, so that a noisy machine hits them alike.

    python benchmarks/engine.py [--quick] [--save]

Nothing is asserted about time: a target is printed beside what was measured. What the contenders compute is checked.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax
import numpy as np
import torch
from baselines import Chain, jax_plain_chain, jax_tuned_chain, numpy_chain
from report import OtherLoad, Row, save, table
from rich.console import Console
from rich.progress import track

import movegrad as mg
from movegrad.problems import Hypercube, Knapsack, TopK

RESULTS = Path(__file__).parent / "results" / "engine.json"
D = 100  # bits of the hypercube unless another size is said
Measure = Callable[[], float]  # one timing of one contender


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int  # turns that each contender gets
    scale: float  # of the number of steps in a turn
    starts: int  # new processes
    calls: int  # of the layer in a turn

    def steps(self, n: int) -> int:
        return max(10_000, int(n * self.scale) // 10_000 * 10_000)


# --- timing ----------------------------------------------------------------------------------------------------------


def in_turns(contenders: dict[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Measure A, B, …, A, B, …: a figure for each contender and round."""
    out: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            out[name].append(measure())
    return out


def per_round(top: list[float], bottom: list[float]) -> list[float]:
    """The ratio of two contenders in each round."""
    return [a / b for a, b in zip(top, bottom, strict=True)]


def seconds(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Let movegrad use n threads."""
    before = mg.get_threads()
    mg.set_threads(n)
    try:
        yield
    finally:
        mg.set_threads(before)


def step_time(work: Callable[[int], object], steps: int, n_threads: int | None = None) -> Measure:
    """Seconds per step of ``work(seed)``, which makes so many steps; it runs once before it is timed."""
    seeds = iter(range(sys.maxsize))

    def measure() -> float:
        with threads(n_threads or mg.get_threads()):
            return seconds(lambda: work(next(seeds))) / steps

    measure()
    return measure


# --- the same chain elsewhere ----------------------------------------------------------------------------------------


def scores(d: int = D) -> np.ndarray:
    return np.random.default_rng(0).normal(size=d)


def movegrad_chain(theta: np.ndarray, chains: int, steps: int) -> Chain:
    """The chain of :mod:`baselines` with movegrad: float64, and it also counts what was proposed and accepted."""
    problem, zeros = Hypercube(len(theta)), np.zeros(len(theta), np.uint8)
    return lambda seed: mg.sample(problem, theta, steps=steps, chains=chains, trace=0, start=zeros, seed=seed).mean


def check_average(name: str, average: np.ndarray, theta: np.ndarray, chains: int, steps: int) -> None:
    """Compare with P(yᵢ = 1) = σ(θᵢ). A bit's average has variance ≤ d/(2·chains·steps) and bias ≤ d/steps (start at 0)."""
    error = np.sqrt(np.mean((average - 1 / (1 + np.exp(-theta))) ** 2))
    bound = 1.5 * np.sqrt(len(theta) / (2 * chains * steps)) + len(theta) / steps
    if not error <= bound:
        raise RuntimeError(f"{name} must estimate the exact marginals within {bound:.4f}, got an error of {error:.4f}.")


PROGRAMS = {"movegrad": movegrad_chain, "tuned JAX": jax_tuned_chain, "plain JAX": jax_plain_chain, "NumPy": numpy_chain}
TURNS = {64: (400_000, 300_000, 10_000, 50_000), 1: (10_000_000, 8_000_000, 150_000, 60_000)}  # steps: a quarter of a second
TARGETS = {64: "≥ 10", 1: "≥ 40"}


def against_others(effort: Effort, chains: int) -> Iterator[Row]:
    """Steps per second of movegrad over those of JAX and NumPy: the same chain, d = 100."""
    contenders = {}
    for (name, program), n in zip(PROGRAMS.items(), TURNS[chains], strict=True):
        steps = effort.steps(n)
        chain = program(scores(), chains, steps)
        check_average(name, chain(0), scores(), chains, steps)
        contenders[name] = step_time(chain, chains * steps)
    times = in_turns(contenders, effort.rounds)
    count = "1 chain" if chains == 1 else f"{chains} chains"
    for name, values in times.items():
        yield Row(f"{count}: {name}", "M steps/s", [1e-6 / t for t in values])
    for name in list(PROGRAMS)[1:]:
        target = {"plain JAX": TARGETS[chains], "tuned JAX": "≥ 1.5"}.get(name, "")
        yield Row(f"{count}: speed, movegrad / {name}", "×", per_round(times[name], times["movegrad"]), target)


# --- steps of movegrad beside each other -----------------------------------------------------------------------------


def dimension(effort: Effort) -> Iterator[Row]:
    """Time per step for d = 100,000 over that for d = 100: one chain, one thread."""
    steps = effort.steps(5_000_000)
    times = in_turns({str(d): step_time(movegrad_chain(scores(d), 1, steps), steps, 1) for d in (100_000, D)}, effort.rounds)
    yield Row("1 chain: time per step, d = 100,000 / d = 100", "×", per_round(*times.values()), "≤ 4")


def scaling(effort: Effort) -> Iterator[Row]:
    """Speed with two threads over that with one: 64 chains."""
    steps = effort.steps(200_000)
    chain = movegrad_chain(scores(), 64, steps)
    times = in_turns({str(n): step_time(chain, 64 * steps, n) for n in (1, 2)}, effort.rounds)
    yield Row("64 chains: speed, 2 threads / 1 thread", "×", per_round(*times.values()), "≥ 1.7")


def kinds_of_steps(effort: Effort) -> Iterator[Row]:
    """Time per step of other moves and estimators over that of a plain flip: one chain, one thread, d = 100."""
    steps, theta = effort.steps(5_000_000), scores()
    cube, subsets, mixture = Hypercube(D), TopK(D, k=10), Hypercube(D, exactly=(1, 2, 3, 6))
    run = partial(mg.sample, theta=theta, steps=steps, trace=0)
    works = {
        "flip": lambda seed: run(cube, seed=seed),
        "swap of top-k, k = 10": lambda seed: run(subsets, seed=seed),
        "mixed flips of 1, 2, 3, 6 bits": lambda seed: run(mixture, seed=seed),
        "flip, recycled": lambda seed: run(cube, seed=seed, estimator="recycled"),
        "flip, covariance product": lambda seed: mg.jacobian_product(cube, theta, np.ones(D), steps=steps, seed=seed),
    }
    times = in_turns({name: step_time(work, steps, 1) for name, work in works.items()}, effort.rounds)
    for name in list(works)[1:]:
        yield Row(f"1 chain: time per step, {name} / flip", "×", per_round(times[name], times["flip"]))


def knapsack_steps(effort: Effort) -> Iterator[Row]:
    """Time per step of a knapsack with 50 capacities over that of a flip on the hypercube: 8 examples, one thread, d = 100."""
    rng = np.random.default_rng(0)
    weights, theta = rng.integers(300, 800, size=(50, D)) / 100, rng.normal(3.0, 2.0, size=(8, D))
    steps, capacities = effort.steps(500_000), 0.5 * weights.sum(1)
    problems = {
        "flip": Hypercube(D),
        "swap and flip": Knapsack(weights, capacities),
        "swap, guided swap and guided flip": Knapsack(weights, capacities, moves=("swap", "guided swap", "guided flip")),
    }

    def work(problem: mg.Problem) -> Callable[[int], object]:
        return lambda seed: mg.sample(problem, theta, steps=steps, trace=0, start="greedy", seed=seed)

    times = in_turns({name: step_time(work(p), 8 * steps, 1) for name, p in problems.items()}, effort.rounds)
    for name, target in zip(list(problems)[1:], ("≤ 2.5", "≤ 6"), strict=True):
        yield Row(f"knapsack, M = 50: time per step, {name} / flip of a bit", "×", per_round(times[name], times["flip"]), target)


# --- what surrounds the steps ----------------------------------------------------------------------------------------

FIRST = f"""
import time
import numpy as np
theta = np.random.default_rng(0).normal(size={D})
begin = time.perf_counter()
import movegrad as mg
mg.sample(mg.problems.Hypercube({D}), theta, steps=1000)
print(time.perf_counter() - begin)
"""


ROUTING = f"""
import runpy, time
import numpy as np
import movegrad as mg
generate = runpy.run_path({str(Path(__file__).parents[1] / "examples" / "routing.py")!r})["generate"]
problem = mg.problems.PrizeCollectingVRPTW(generate(10, seed=1)[0])
begin = time.process_time()
mg.CALL(problem, np.zeros(problem.size), steps=100)
print(time.process_time() - begin)
"""


def first_result(effort: Effort) -> Iterator[Row]:
    """Seconds from ``import movegrad`` to a first result in a new process, before and after its kernels are on disk."""
    cold, warm, calls = [], [], {call: [] for call in ("sample", "solve")}
    for _ in range(effort.starts):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(in_new_process(FIRST, folder))
            warm.append(in_new_process(FIRST, folder))
        for call, values in calls.items():
            with tempfile.TemporaryDirectory() as folder:
                values.append(in_new_process(ROUTING.replace("CALL", call), folder))
    yield Row("first result, nothing compiled", "s", cold, "≤ 2.5")
    yield Row("first result, kernels on disk", "s", warm, "≤ 1")
    for call, target in (("sample", "≤ 12"), ("solve", "≤ 18")):
        yield Row(f"first {call} of a routing problem, processor time", "s", calls[call], target)


def in_new_process(code: str, folder: str) -> float:
    """What it prints, with this folder for kernels."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(Path(mg.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def layer_calls(effort: Effort) -> Iterator[Row]:
    """Microseconds of one call with one step and one example: what movegrad and PyTorch cost beside the chain."""
    layer = mg.torch.LocalSearchLayer(TopK(10, k=3), steps=1)
    loss = mg.torch.FenchelYoungLoss(layer)
    theta = torch.randn(1, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    y = torch.tensor([[1] * 3 + [0] * 7], dtype=torch.uint8)

    def calls(work: Callable[[], object]) -> Measure:
        work()
        return lambda: 1e6 * median(seconds(work) for _ in range(effort.calls))

    times = in_turns({"layer": calls(lambda: layer(theta)), "loss": calls(lambda: loss(theta, y).backward())}, effort.rounds)
    yield Row("layer call, top-k with d = 10, 1 step", "µs", times["layer"], "≤ 80")
    yield Row("Fenchel-Young loss, forward and backward", "µs", times["loss"])


def jax_calls(effort: Effort) -> Iterator[Row]:
    """The same under ``jax.jit``: by a custom call of XLA, by a callback of JAX, and without jit."""
    layer, key = mg.jax.LocalSearchLayer(TopK(10, 5), steps=1), jax.random.key(0)
    theta = jax.numpy.zeros(10)
    thetas, keys = jax.numpy.zeros((8, 10)), jax.random.split(key, 8)

    def compiled(function: Callable, *arguments: Any, platforms: str = "cpu") -> Measure:
        with switched(platforms):
            work = jax.jit(lambda *arguments: function(*arguments))
            work(*arguments).block_until_ready()
        return lambda: 1e6 * median(seconds(lambda: work(*arguments).block_until_ready()) for _ in range(effort.calls))

    contenders = {
        "call": compiled(layer, theta, key),
        "callback": compiled(layer, theta, key, platforms=""),
        "nothing": compiled(lambda theta, key: theta + 1, theta, key),
        "vmap": compiled(jax.vmap(layer), thetas, keys),
        "eager": lambda: 1e6 * median(seconds(lambda: layer(theta, key).block_until_ready()) for _ in range(effort.calls)),
    }
    times = in_turns(contenders, effort.rounds)
    yield Row("JAX layer under jit, top-k with d = 10, 1 step", "µs", times["call"])
    yield Row("the same without jit", "µs", times["eager"])
    yield Row("the same by jax.pure_callback", "µs", times["callback"])
    yield Row("the same for 8 keys by vmap", "µs", times["vmap"])
    yield Row("θ + 1 under jit", "µs", times["nothing"])
    more = [a - b for a, b in zip(times["call"], times["eager"], strict=True)]
    yield Row("what jit adds to a call without it", "µs", more, "≤ 40")
    yield Row("pure_callback / custom call", "×", per_round(times["callback"], times["call"]))


@contextmanager
def switched(platforms: str) -> Iterator[None]:
    """Custom calls of XLA on these platforms alone."""
    before = os.environ.get("MOVEGRAD_JAX_FFI")
    os.environ["MOVEGRAD_JAX_FFI"] = platforms
    try:
        yield
    finally:
        del os.environ["MOVEGRAD_JAX_FFI"]
        if before is not None:
            os.environ["MOVEGRAD_JAX_FFI"] = before


def time_limits(effort: Effort) -> Iterator[Row]:
    """Time spent on each example over the limit: 32 examples share the threads."""
    problem, theta = Hypercube(D), np.random.default_rng(0).normal(size=(32, D))

    def share(limit: float) -> float:
        spent = seconds(lambda: mg.sample(problem, theta, time_limit=limit))
        return spent * mg.get_threads() / len(theta) / limit

    share(0.001)
    for name, values in in_turns({f"{ms} ms": partial(share, ms / 1000) for ms in (1, 10, 50)}, effort.rounds).items():
        yield Row(f"time spent / time limit of {name}", "×", values, "0.9 – 1.1")


SECTIONS = (
    partial(against_others, chains=64), partial(against_others, chains=1), dimension, scaling, kinds_of_steps, knapsack_steps,
    first_result, layer_calls, jax_calls, time_limits,
)  # fmt: skip


def measure_all(effort: Effort, console: Console) -> Iterator[Row]:
    """All rows, each with the load that other processes put on the machine while its section ran."""
    for section in track(SECTIONS, "measuring", console=console, transient=True):
        load = OtherLoad()
        rows = list(section(effort))
        yield from (replace(row, others=load.cores()) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a shorter run")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.parent.name}/{RESULTS.name}")
    arguments = parser.parse_args()
    effort = Effort(5, 0.25, 2, 200) if arguments.quick else Effort(9, 1.0, 5, 1000)
    console = Console(width=max(Console().width, 170))  # a table cut to 80 columns shows nothing
    rows = list(measure_all(effort, console))
    console.print(table("movegrad engine", rows))
    if arguments.save:
        save(RESULTS, rows, effort=asdict(effort))


if __name__ == "__main__":
    main()
