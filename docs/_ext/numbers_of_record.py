"""Figures and tables of the site (and of the README), from the JSON files that benchmarks and studies have left."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).parents[2]
STUDENT_3 = 4.303  # 97.5 % of Student's t with 2 degrees of freedom: three seeds


def load(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def medians(path: str) -> dict[str, float]:
    """Rows of a benchmark by name."""
    return {row["name"]: row["median"] for row in load(path)["rows"]}


ENGINE, ROUTING = medians("benchmarks/results/engine.json"), medians("benchmarks/results/routing.json")
GPU = load("benchmarks/results/gpu.json")
GPU_PAGE = (ROOT / "benchmarks/results/gpu.md").read_text(encoding="utf-8").split("\n\n")  # what made the file wrote this, too


def times(value: float) -> str:
    """A ratio, with three figures below ten and none behind the point above."""
    return f"{value:.2f}×" if value < 2 else f"{value:.1f}×" if value < 10 else f"{value:.0f}×"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def chain() -> str:
    """Steps per second of the paper's hypercube, beside NumPy and JAX."""
    rows = []
    for many in ("64 chains", "1 chain"):
        row = [many, f"{ENGINE[f'{many}: movegrad']:.0f} million steps/s"]
        rows.append(row + [times(ENGINE[f"{many}: speed, movegrad / {other}"]) for other in ("NumPy", "plain JAX", "tuned JAX")])
    return table(["", "movegrad", "over NumPy", "over JAX, as one writes it", "over JAX, tuned for this chain"], rows)


def costs() -> str:
    """What a step, a call and a start cost."""
    rows = [
        ["time per step at d = 100,000 over d = 100", times(ENGINE["1 chain: time per step, d = 100,000 / d = 100"])],
        ["two threads over one, 64 chains", times(ENGINE["64 chains: speed, 2 threads / 1 thread"])],
        [
            "a mixture of flips of 1, 2, 3 and 6 bits over a single flip",
            times(ENGINE["1 chain: time per step, mixed flips of 1, 2, 3, 6 bits / flip"]),
        ],
        [
            "knapsack with 50 capacities over a single flip: swaps and flips, with guided moves",
            ", ".join(
                times(ENGINE[f"knapsack, M = 50: time per step, {moves} / flip of a bit"])
                for moves in ("swap and flip", "swap, guided swap and guided flip")
            ),
        ],
        [
            "recycled mean, covariance product over a plain step",
            ", ".join(times(ENGINE[f"1 chain: time per step, flip, {kind} / flip"]) for kind in ("recycled", "covariance product")),
        ],
        [
            "first result in a new process: nothing compiled, kernel on disk",
            f"{ENGINE['first result, nothing compiled']:.1f} s, {ENGINE['first result, kernels on disk']:.2f} s",
        ],
        [
            "layer call of one step, validation and autograd included",
            f"{ENGINE['layer call, top-k with d = 10, 1 step']:.0f} µs",
        ],
        [
            "time spent over a limit of 1, 10, 50 ms per example (32 examples)",
            ", ".join(f"{ENGINE[f'time spent / time limit of {ms} ms']:.2f}" for ms in (1, 10, 50)),
        ],
    ]
    return table(["", "measured"], rows)


def routing() -> str:
    rows = [
        [
            "a step with 100 requests over a flip of a bit",
            f"{times(ROUTING['time per step, routing with n = 100 / flip of a bit'])} "
            f"({ROUTING['time per step, routing, n = 100']:.0f} ns)",
        ],
        ["a step with 1000 requests over 100", times(ROUTING["time per step, routing, n = 1000 / n = 100"])],
        ["steps in a call of 1 ms", f"{ROUTING['sample from a given plan: steps in 1 ms, call included']:,.0f}"],
    ]
    return table(["", "measured"], rows)


def solvers_of_routing() -> str:
    """Annealing beside PyVRP, set-up included: gaps to the best plan known, and the time that each took."""
    rows = []
    for ms in (1, 10, 100, 1000):
        cells = []
        for who in ("movegrad", "PyVRP"):
            named = f"{ms} ms, set-up included: gap of {who} (took "
            name, gap = next((k, v) for k, v in ROUTING.items() if k.startswith(named))
            took = float(name.removeprefix(named).removesuffix(" ms)"))
            cells.append(f"{gap:.1f} % in {took:{',.0f' if took >= 100 else '.3g'}} ms")
        rows.append([f"{ms:,} ms", *cells])
    return table(["limit", "`mg.solve`", "PyVRP"], rows)


def gpu() -> str:
    rows = []
    for name, speed in GPU["speed"].items():
        median = speed["gpu"]["median"]
        rows.append([name, f"{median / 1e9:.3g} G", f"{speed['cpu'] / 1e6:.0f} M", times(median / speed["cpu"])])
    return table(["problem", f"{GPU['versions']['GPU']}, 32,768 chains: steps/s", "16 CPU cores", "over CPU"], rows)


def giga(name: str) -> str:
    return f"{GPU['speed'][name]['gpu']['median'] / 1e9:.2g} G"


METHODS = {
    "ours-spo": "movegrad at 2θ − c, 10,000 steps",
    "ours-spo-3000": "movegrad at 2θ − c, 3000 steps",
    "ours-3000": "movegrad, decisions alone, 3000 steps",
    "spo-lp": "PyEPO: SPO+ on LP relaxations",
    "pfy-lp": "PyEPO: perturbed Fenchel-Young on LP relaxations",
    "mse": "least squares, then a solver",
}
SEES = {"ours-3000": "decisions", "pfy-lp": "decisions", "mse": "costs"}


def knapsack() -> str:
    """Regret on new instances and time of training, each method with its best schedule."""
    groups = defaultdict(list)
    for row in load("experiments/knapsack/results/quick/tuned.json")["rows"].values():
        if row.get("table") == "runs":
            groups[row["method"]].append(row)
    rows = []
    for method, name in METHODS.items():
        runs = groups[method]
        regrets = [run["test"] for run in runs]
        width = STUDENT_3 * stdev(regrets) / len(regrets) ** 0.5
        assert len(regrets) == 3, "STUDENT_3 is for three seeds"
        seconds = mean(run["seconds_epoch"] for run in runs)
        rows.append([name, SEES.get(method, "both"), f"{mean(regrets):.3f} ±{width:.3f}", f"{1000 * seconds:.3g} ms"])
    return table(["method", "sees", "regret on new instances", "an epoch of 400 examples"], rows)


def solvers_of_knapsack() -> str:
    lost = {(row["solver"], row["limit_ms"]): row for row in load("experiments/knapsack/results/quick/solve.json")["rows"].values()}
    rows = []
    for ms in (1.0, 10.0, 50.0):
        row = [f"{ms:g} ms"]
        for who in ("movegrad", "gurobi", "highs"):
            found = lost[who, ms]
            row.append("finds nothing" if found["nothing_found"] == 1.0 else f"{100 * found['lost']:.2g} %")
        rows.append(row)
    return table(["limit", "`mg.solve`", "Gurobi", "HiGHS"], rows)


def away(file: str, steps: int) -> str:
    """How much farther from θ₀ random starts end than persistent ones: ‖θ̂ − θ₀‖² in the mean over instances, hypercube."""
    rows = load(f"experiments/recovery/results/{file}.json")["rows"]
    ends = [mean(rows[f"hypercube, K = {steps} | {start}"]["tail_distance"]) for start in ("random", "persistent")]
    return times(ends[0] / ends[1])


def tuned(steps: int, temperature: float) -> str:
    """Validation regret on the knapsack, from labels alone, of the study's trials."""
    rows = load("experiments/knapsack/results/quick/tune.json")["rows"]
    options = f"steps={steps}, temperature={temperature}, moves=swap+flip, estimator=mean"
    return f"{rows[f'ours | {options} | seed 100']['best_validation']:.3f}"


def within(limit: float) -> str:
    """Test regret on the knapsack, from labels alone, with so many milliseconds for each example."""
    rows = load("experiments/knapsack/results/quick/sweep.json")["rows"].values()
    (found,) = (row["test"] for row in rows if row.get("method") == "ours" and row["limit_ms"] == limit)
    return f"{found:.3f}"


def gap(layer: str, budget: str) -> str:
    """Gap of a layer of dynamic routing, from the study's page of tables."""
    page = (ROOT / "experiments/dvrptw/results/tables.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| {layer} | {budget} | t = 100 |"))
    return f"{row.split(' | ')[4]} %"


def arena(part: str, method: str, *boards: str, seconds: int = 10) -> str:
    """Test regret in the arena, of a method as it was tuned, in the mean over data sets, seeds and examples."""
    rows = load(f"experiments/arena/results/{part}.json")["rows"]
    return f"{100 * mean(mean(map(mean, rows[f'{board} {method}']['tuned']['test'][str(seconds)])) for board in boards):.2f} %"


def demo() -> str:
    """What the demo printed."""
    rows = [
        [
            row["way"],
            ", ".join(f"{regret:.1%}" for regret in row["regrets"]),
            f"{sum(row['regrets']) / len(row['regrets']):.1%}",
            f"{row['seconds']:.1f}" if "seconds" in row else "",
        ]
        for row in DEMO
    ]
    return table(["way", "regret on new instances, by data set", "mean", "seconds of training"], rows)


DEMO = load("examples/results/knapsack.json")

NUMBERS = {
    "demo_table": demo(),
    "demo_cheaper": times(min(row["seconds"] for row in DEMO[2:]) / DEMO[1]["seconds"]),
    "random_start": ", ".join(away("start", steps) for steps in (10, 100, 1000)),
    "random_settled": away("settled", 1000),
    "knapsack_temperatures": ", ".join(tuned(3000, t) for t in (0.5, 1.0, 2.0)),
    "knapsack_steps": ", ".join(tuned(steps, 1.0) for steps in (1000, 3000, 10_000)),
    "knapsack_short": within(0.1),
    "knapsack_long": within(50.0),
    "routing_steps": ", ".join(gap("chain from the target", f"K = {steps}") for steps in (10, 100, 1000)),
    "routing_improved": gap("chain from the improved target", "K = 1000"),
    "arena_decisions": arena("growth", "ours-costs", "gap-10-0"),
    "arena_both": arena("growth", "ours-costs-anchored", "gap-10-0"),
    "arena_squares": arena("growth", "mse", "gap-10-0"),
    "arena_paths_bound": arena("linear", "ours-costs", "path-0", "path-1"),
    "arena_paths_regret": arena("linear", "ours-regret", "path-0", "path-1"),
    "arena_paths_score": arena("linear", "reinforce-spo", "path-0", "path-1"),
    "arena_prices_bound": arena("prices", "ours-costs", "prices-120-0", "prices-120-1"),
    "arena_prices_regret": arena("prices", "ours-regret", "prices-120-0", "prices-120-1"),
    "arena_prices_score": arena("prices", "reinforce-spo", "prices-120-0", "prices-120-1"),
    "arena_routes_bound": arena("cvrp", "ours-costs", "cvrp-20-42", "cvrp-20-43"),
    "arena_routes_regret": arena("cvrp", "ours-regret", "cvrp-20-42", "cvrp-20-43"),
    "arena_programs_long": arena("linear", "ours-costs", "lp-0", "lp-1"),
    "arena_programs_short": arena("linear", "ours-short", "lp-0", "lp-1"),
    "arena_programs_sooner": arena("linear", "ours-short", "lp-0", "lp-1", seconds=3),
    "arena_programs_listed": arena("linear", "ours-one-step", "lp-0", "lp-1"),
    "arena_programs_rival": arena("linear", "lava", "lp-0", "lp-1"),
    "chain_table": chain(),
    "costs_table": costs(),
    "routing_table": routing(),
    "routing_solvers_table": solvers_of_routing(),
    "gpu_table": gpu(),
    "knapsack_table": knapsack(),
    "knapsack_solvers_table": solvers_of_knapsack(),
    "first_compiled": f"{ENGINE['first result, nothing compiled']:.1f} s",
    "first_on_disk": f"{ENGINE['first result, kernels on disk']:.2f} s",
    "layer_call": f"{ENGINE['layer call, top-k with d = 10, 1 step']:.0f} µs",
    "loss_call": f"{ENGINE['Fenchel-Young loss, forward and backward']:.0f} µs",
    **dict(
        zip(("gpu_versions", "gpu_same", "gpu_speed", "gpu_jax", "gpu_floor", "gpu_undone", "gpu_calls"), GPU_PAGE, strict=False)
    ),
    "gpu_compared": f"{sum(row['steps'] for row in GPU['same'].values()) / 1e6:.0f} million",
    "gpu_mixture": giga("mixture of flips"),
    "gpu_knapsack": giga("knapsack"),
    "gpu_guided": giga("guided knapsack"),
    "gpu_routing": giga("routing"),
    "gpu_call": f"{1000 * GPU['calls']['layer']:.1f} ms",
}


def facts() -> str:
    """The table of measured facts in the README."""
    tuned = {line.split(" | ")[0].lstrip("| "): line.split(" | ") for line in knapsack().splitlines()}
    ours, spo = tuned[METHODS["ours-spo-3000"]], tuned[METHODS["spo-lp"]]
    lost = load("experiments/knapsack/results/quick/solve.json")["rows"]
    in_ten = [lost[f"{who} | 10.0 ms"] for who in ("movegrad", "gurobi")]
    hypercube = GPU["speed"]["hypercube"]
    fast = hypercube["gpu"]["median"]
    rows = [
        [
            "a chain on two cores",
            f"{ENGINE['64 chains: movegrad']:.0f} million steps/s; "
            f"{times(ENGINE['64 chains: speed, movegrad / plain JAX'])} JAX as one writes it, "
            f"{times(ENGINE['64 chains: speed, movegrad / tuned JAX'])} JAX tuned for this chain",
            "`make bench`",
        ],
        [
            "the same on an H200",
            f"{fast / 1e9:.0f} G steps/s, {times(fast / hypercube['cpu'])} 16 CPU cores",
            "`benchmarks/gpu.py`",
        ],
        [
            "first result: nothing compiled, kernel on disk",
            f"{ENGINE['first result, nothing compiled']:.1f} s, {ENGINE['first result, kernels on disk']:.2f} s",
            "`make bench`",
        ],
        [
            "knapsack learned: regret, time of an epoch",
            f"{ours[2]}, {ours[3].rstrip(' |')}; SPO+ on LPs {spo[2]}, {spo[3].rstrip(' |')}",
            "`make reproduce-knapsack`",
        ],
        [
            "knapsack solved in 10 ms: value lost",
            ", Gurobi ".join(f"{100 * row['lost']:.2f} ±{100 * row['half_width']:.2f} %" for row in in_ten),
            "`make reproduce-knapsack`",
        ],
        [
            "routes in 1 s: gap of `mg.solve`, of PyVRP",
            ", ".join(
                f"{next(v for k, v in ROUTING.items() if k.startswith(f'1000 ms, set-up cached: gap of {who}')):.1f} %"
                for who in ("movegrad", "PyVRP")
            ),
            "`make bench`",
        ],
    ]
    return table(["", "measured", "by"], rows)


if __name__ == "__main__":
    print(facts())
