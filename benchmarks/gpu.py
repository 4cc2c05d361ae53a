"""Checks and times movegrad on a GPU, in one call of a few minutes: ``python benchmarks/gpu.py [--save]``.

1. The tests that need a GPU.
2. Chains with the same seed visit the same states as on the CPU: all 32,768 of every problem are compared.
3. Speed, by CUDA events around whole layer calls, median after a warm-up, beside the CPU's cores and the same chain in JAX.
4. The floor: what the same number of threads reaches with the draws of a step alone, and with its reads and writes alone.
5. What each decision gives: the speed with it undone.

Kernels are compiled in processes of their own, all at once. ``--save`` writes benchmarks/results/gpu.json and gpu.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 looks for it, NumPy 2.5 has lost it
    np.row_stack = np.vstack
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]

import torch  # noqa: E402
from gpu_report import markdown  # noqa: E402
from numba import cuda, uint64  # noqa: E402

import movegrad as mg  # noqa: E402
from movegrad.cuda import kernel, launch, lowering, memory, source  # noqa: E402
from movegrad.engine import Options, layout_of, loop  # noqa: E402
from movegrad.engine.draws import _random_integer, seed_stream, uniform  # noqa: E402

CHAINS = 32_768
RESULTS = Path(__file__).parent / "results"


# --- the problems ----------------------------------------------------------------------------------------------------


def knapsack(**options) -> mg.Problem:
    """The paper's sizes: 100 items, 50 capacities, about half of the items fit."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(3.0, 8.0, (50, 100))
    return mg.problems.Knapsack(weights, weights.sum(1) / 2, **options)


def vrp(n: int = 100) -> mg.Problem:
    """Requests in a square with windows of a third of the day, vehicles for about ten of them, a fifth must be served."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0.0, 100.0, (n + 1, 2))
    durations = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    opens = rng.uniform(0.0, 700.0, n + 1) * (np.arange(n + 1) > 0)
    closes = np.where(np.arange(n + 1) > 0, opens + 350.0, 1500.0)
    demands, service = rng.uniform(1.0, 9.0, n + 1), np.full(n + 1, 10.0)
    demands[0] = service[0] = 0.0
    must_serve = np.arange(n + 1) % 5 == 1
    instance = mg.problems.routing.Instance(durations, demands, service, np.stack([opens, closes], 1), 50.0, must_serve)
    return mg.problems.PrizeCollectingVRPTW(instance, beta=1.0)


PROBLEMS = {
    "hypercube": lambda: mg.problems.Hypercube(100),
    "mixture of flips": lambda: mg.problems.Hypercube(100, exactly=(1, 2, 3, 6)),
    "top-k": lambda: mg.problems.TopK(100, k=10),
    "knapsack": knapsack,
    "guided knapsack": lambda: knapsack(moves=("swap", "flip", "guided swap", "guided flip")),
    "routing": vrp,
}
STEPS = {  # of a timed call: some 20 to 50 ms
    "hypercube": 20_000, "mixture of flips": 5_000, "top-k": 10_000, "knapsack": 2_000, "guided knapsack": 500, "routing": 200,
}  # fmt: skip
GOALS = {"hypercube": 25e9, "mixture of flips": 7e9, "knapsack": 2e9, "guided knapsack": 0.37e9, "routing": 0.45e9}
TEMPERATURE = {"routing": 10.0}


def scores(problem: mg.Problem, name: str) -> np.ndarray:
    """Values of items for the knapsack, prizes for routing, normal elsewhere."""
    rng = np.random.default_rng(1)
    if "knapsack" in name:
        return rng.uniform(0.0, 2.0, problem.size)
    return rng.uniform(0.0, 60.0, problem.size) if name == "routing" else rng.normal(size=problem.size)


# --- compilation -----------------------------------------------------------------------------------------------------


def compile_one(name: str) -> float:
    begin = time.perf_counter()
    torch.zeros(1, device="cuda")
    launch.compiled(kernel.source_of_run(layout_of(PROBLEMS[name]()), Options()))
    return time.perf_counter() - begin


def compile_all(names: list[str]) -> dict[str, float]:
    """All kernels at once, each in a process of its own; the next process finds them on disk."""
    with ProcessPoolExecutor(len(names), get_context("spawn")) as pool:
        return dict(zip(names, pool.map(compile_one, names), strict=True))


# --- checks ----------------------------------------------------------------------------------------------------------

TEST_RUNNER = """
import sys
import numpy as np
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-W", "default", *sys.argv[1:]]))
"""


def run_tests(shards: int = 15) -> dict:
    """The tests that need a GPU, in several processes."""
    root = Path(__file__).parents[1]
    settings = {"cwd": root, "env": os.environ | {"PYTHONPATH": str(root / "src")}, "text": True, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", TEST_RUNNER]
    choice = ["tests/test_cuda.py", "-k", "not compile and not cannot_run"]
    listed = subprocess.run([*command, *choice, "--collect-only"], **settings).stdout
    names = [line for line in listed.splitlines() if "::" in line]
    running = [
        subprocess.Popen([*command, "--tb=short", *names[s::shards]], stderr=subprocess.STDOUT, **settings)
        for s in range(min(shards, len(names)))
    ]
    texts = [process.communicate()[0] for process in running]
    words = ("passed", "skipped", "failed", "error")
    counts = {w: sum(int(n) for text in texts for n in re.findall(rf"(\d+) {w}", text)) for w in words}
    bad = [text for text in texts if re.search(r"\d+ (failed|error)", text) or not re.search(r"\d+ passed", text)]
    return counts | {"collected": len(names), "reports": bad}


def compare(name: str, problem: mg.Problem, steps: int) -> dict:
    """All chains on the CPU and on the GPU."""
    theta = scores(problem, name)
    options = {"steps": steps, "chains": CHAINS, "trace": 0, "temperature": TEMPERATURE.get(name, 1.0), "seed": 3}
    cpu, dev = mg.sample(problem, theta, **options), mg.sample(problem, torch.from_numpy(theta).cuda(), **options)
    return {
        "steps": CHAINS * steps,
        "chains that differ": int((cpu.solutions != dev.solutions.cpu().numpy()).any(-1).sum()),
        "counts differ": int((cpu.info.accepted != dev.info.accepted).sum() + (cpu.info.infeasible != dev.info.infeasible).sum()),
        "means differ by": float(np.abs(cpu.mean - dev.mean.cpu().numpy()).max()),
        "accepted": float(cpu.info.accepted.sum() / cpu.info.drawn.sum()),
    }


# --- speed -----------------------------------------------------------------------------------------------------------


def event_times(call, rounds: int) -> list[float]:
    """Seconds of each call, by events on the stream, after one that is not timed."""
    call()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return times


def gpu_speed(name: str, problem: mg.Problem, chains: int, rounds: int = 7) -> dict:
    """Steps per second of layer calls, everything included. Chains start where others have come to in as many steps."""
    theta, steps, t = torch.from_numpy(scores(problem, name)).cuda(), STEPS[name], TEMPERATURE.get(name, 1.0)
    start = mg.sample(problem, theta, steps=steps, chains=chains, trace=0, temperature=t).solutions
    layer = mg.torch.LocalSearchLayer(problem, steps, t, chains=chains)
    with torch.no_grad():
        times = event_times(lambda: layer(theta, start=start), rounds)
    speeds = sorted(chains * steps / s for s in times)
    return {"chains": chains, "steps": steps, "median": median(speeds), "min": speeds[0], "max": speeds[-1]}


def cpu_speed(name: str, problem: mg.Problem, chains: int = 1024) -> float:
    """The same on all cores of the CPU."""
    theta, t = torch.from_numpy(scores(problem, name)), TEMPERATURE.get(name, 1.0)
    steps = max(STEPS[name], 1000)
    start = mg.sample(problem, theta, steps=steps, chains=chains, trace=0, temperature=t).solutions
    layer = mg.torch.LocalSearchLayer(problem, steps, t, chains=chains)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        layer(theta, start=start)
        times.append(time.perf_counter() - begin)
    return chains * steps / median(times[1:])


def jax_speeds(steps: int = 5_000) -> dict[str, float]:
    """The hypercube in JAX on this GPU, as one writes it first and as tuned for the CPU (benchmarks/baselines.py)."""
    from baselines import jax_plain_chain, jax_tuned_chain

    theta, speeds = scores(mg.problems.Hypercube(100), "hypercube"), {}
    for name, make in {"plain": jax_plain_chain, "tuned": jax_tuned_chain}.items():
        run, times = make(theta, CHAINS, steps), []
        for seed in range(4):
            begin = time.perf_counter()
            run(seed)
            times.append(time.perf_counter() - begin)
        speeds[name] = CHAINS * steps / median(times[1:])
    return speeds


def call_times(rounds: int = 200) -> dict[str, float]:
    """Seconds of a call with 32 examples and one step: what calls cost beside steps."""
    problem, theta = mg.problems.Hypercube(100), torch.randn(32, 100, device="cuda", requires_grad=True)
    y = torch.zeros(32, 100, dtype=torch.uint8, device="cuda")
    layer = mg.torch.LocalSearchLayer(problem, 1)
    loss = mg.torch.FenchelYoungLoss(layer)
    calls = {"layer": lambda: layer(theta), "loss": lambda: loss(theta, y)}
    out = {}
    for name, call in calls.items():
        for _ in range(20):
            call()
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        out[name] = median(times)
    return out


# --- the floor -------------------------------------------------------------------------------------------------------


@cuda.jit
def draws_alone(out, d, steps):
    """The draws and the coin of a hypercube's step, in registers."""
    c = cuda.grid(1)
    rng, hits = cuda.local.array(2, uint64), 0
    seed_stream(rng, np.uint64(1), 3, c)
    for _ in range(steps):
        i = _random_integer(rng, d)
        hits += kernel.coin_accepts(uniform(rng), -0.01 * i)
    out[c] = hits


@cuda.jit
def memory_alone(y, sums, d, steps):
    """The reads and writes of an accepted step of a hypercube, at places that cost next to nothing to draw."""
    c = cuda.grid(1)
    base, state = (c // 32) * d * 32 + c % 32, np.uint32(c * 2654435761 & 0xFFFFFFFF)
    for k in range(steps):
        state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
        at = base + ((state >> 16) * d >> 16) * 32
        sums[at] -= k * (1.0 - 2.0 * y[at])
        y[at] = 1 - y[at]


def floors(d: int = 100, steps: int = 5_000) -> dict[str, float]:
    """Per second: draws of steps, memory accesses of accepted steps, and bytes of a copy (read and written)."""
    out, y = torch.zeros(CHAINS, device="cuda"), torch.zeros(CHAINS * d, dtype=torch.uint8, device="cuda")
    sums, blocks, threads = torch.zeros(CHAINS * d, dtype=torch.float64, device="cuda"), CHAINS // 256, 256
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    big = torch.rand(1 << 29, device="cuda")
    target = torch.empty_like(big)
    one = median(event_times(lambda: draws_alone[blocks, threads, stream](out, d, steps), 5))
    two = median(event_times(lambda: memory_alone[blocks, threads, stream](y, sums, d, steps), 5))
    three = median(event_times(lambda: target.copy_(big), 5))
    return {"draws": CHAINS * steps / one, "accesses": CHAINS * steps / two, "copy": 2 * 4 * (1 << 29) / three}


# --- what each decision gives ----------------------------------------------------------------------------------------


def in_memory(text: str) -> str:
    """``run`` with generator, clock, values and counts in device memory, as on the CPU."""
    local = "clock, value = cuda.local.array(2, int64), cuda.local.array({values}, float64)"
    rows = "clock, value = row(work.out_mean, 2 * c, 2, int64), row(work.value, {values} * c, {values}, float64)"
    both = "counts, rng = cuda.local.array(({moves}, {counts}), int32), cuda.local.array({rng_size}, {rng_type})"
    more = "counts, rng = table(work.counts, {counts} * {moves} * c, {moves}, {counts}, int64), row(work.rng, 2 * c, 2, uint64)"
    assert local in text
    assert both in text
    return text.replace(local, rows).replace(both, more)


def undo(decision: str) -> None:
    """Undo a decision, in this process."""
    if decision == "registers":
        source._RUN = in_memory(source._RUN)
    elif decision == "tiles":
        source.TILE = lowering.TILE = memory.TILE = 1
    elif decision == "tables by columns":
        source.BY_COLUMNS = memory.BY_COLUMNS = False
    elif decision == "plain loops":
        kernel._NAMES = {}
        kernel._LOWERING = b"loops of Numba"  # another name on disk
    elif decision == "exp at once":
        kernel.coin_accepts = loop.coin_accepts
    elif decision == "one block for each multiprocessor":
        launch.THREADS = 32, 64


DECISIONS = ("", "registers", "tiles", "tables by columns", "plain loops", "exp at once", "one block for each multiprocessor")


def undone(decision: str, name: str) -> float:
    """The speed with a decision undone, in a process of its own; when all are compiled, one is timed at a time."""
    undo(decision)
    problem = PROBLEMS[name]()
    torch.zeros(1, device="cuda")
    launch.compiled(kernel.source_of_run(layout_of(problem), Options()))
    _barrier.wait()
    with _lock:
        return gpu_speed(name, problem, CHAINS, 3)["median"]


_lock: Any = None  # of the processes that time
_barrier: Any = None


def _share(lock: Any, barrier: Any) -> None:
    global _lock, _barrier
    _lock, _barrier = lock, barrier


def decisions(names: list[str]) -> dict[str, dict[str, float]]:
    context = get_context("spawn")
    pairs = [(decision, name) for name in names for decision in DECISIONS]
    with ProcessPoolExecutor(len(pairs), context, _share, (context.Lock(), context.Barrier(len(pairs)))) as pool:
        futures = {pair: pool.submit(undone, *pair) for pair in pairs}
        return {name: {d: futures[d, name].result() for d in DECISIONS} for name in names}


# --- report ----------------------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    import jax
    import numba
    import numba_cuda

    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return {
        "date": date.today().isoformat(), "GPU": torch.cuda.get_device_name(), "driver": driver.stdout.strip(),
        "CPU cores": str(os.cpu_count()), "python": sys.version.split()[0], "numpy": np.__version__, "numba": numba.__version__,
        "numba-cuda": numba_cuda.__version__, "torch": torch.__version__, "jax": jax.__version__, "movegrad": mg.__version__,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/gpu.json and gpu.md")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of these files")
    parser.add_argument("--no-tests", action="store_true", help="leave out the tests: pytest tests/test_cuda.py runs them, too")
    save, out, no_tests = vars(parser.parse_args()).values()
    begin = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - begin:5.0f} s] {text}", flush=True)

    results: dict = {"versions": versions()}
    say("compile")
    results["compile"] = compile_all(list(PROBLEMS))
    say("tests")
    results["tests"] = dict.fromkeys(("passed", "skipped", "failed", "error", "collected"), 0) | {"reports": []}
    if not no_tests:
        results["tests"] = run_tests()
    for text in results["tests"].pop("reports"):
        print(text)
    say(f"tests: {results['tests']}")
    problems = {name: make() for name, make in PROBLEMS.items()}
    results["same"] = {n: compare(n, p, 300 if n == "routing" else 1000) for n, p in problems.items()}
    say(f"same states: { ({n: c['chains that differ'] for n, c in results['same'].items()}) }")
    results["speed"] = {}
    for n, p in problems.items():
        results["speed"][n] = {"gpu": gpu_speed(n, p, CHAINS), "more": gpu_speed(n, p, 4 * CHAINS, 3), "cpu": cpu_speed(n, p)}
    say(f"speed: { ({n: round(s['gpu']['median'] / 1e9, 3) for n, s in results['speed'].items()}) } G/s")
    results["floors"], results["calls"], results["jax"] = floors(), call_times(), jax_speeds()
    say("floors, calls and JAX; now decisions")
    results["decisions"] = decisions(["hypercube", "knapsack"])
    results["seconds"] = time.perf_counter() - begin
    text = markdown(results, CHAINS, GOALS)
    print(text)
    if save:
        out.mkdir(exist_ok=True, parents=True)
        for name, content in (("gpu.json", json.dumps(results, indent=1)), ("gpu.md", text)):
            part = out / f"{name}.part"
            part.write_text(content, encoding="utf-8")
            part.replace(out / name)
    wrong = results["tests"]["failed"] + results["tests"]["error"] + sum(c["chains that differ"] for c in results["same"].values())
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
