"""The tables of benchmarks/gpu.py in Markdown."""

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table and an empty line after it."""
    head = list(head)
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)] + [""]


def giga(value: float) -> str:
    return f"{value / 1e9:.3g} G"


def markdown(r: dict, chains: int, goals: dict[str, float]) -> str:
    """All of it."""
    v = r["versions"]
    programs = ", ".join(f"{name} {v[name]}" for name in list(v)[4:])
    lines = [f"{v['date']}, {v['GPU']}, driver {v['driver']}, {v['CPU cores']} CPU cores; {programs}", ""]
    lines += same_states(r["same"])
    lines += speeds(r["speed"], chains, goals, v["CPU cores"])
    cube = r["speed"]["hypercube"]["gpu"]["median"]
    rows = [(name, giga(speed), f"{cube / speed:.1f}×") for name, speed in r["jax"].items()]
    lines += table(["hypercube in JAX on this GPU", "steps/s", "movegrad over it"], rows)
    lines += floor(r["floors"], cube, r["same"]["hypercube"]["accepted"])
    names = list(r["decisions"])
    decisions = r["decisions"][names[0]]
    rows = [(d or "nothing", *(giga(r["decisions"][n][d]) for n in names)) for d in decisions]
    lines += table(["undone", *(f"{n}, steps/s" for n in names)], rows)
    calls, tests = r["calls"], r["tests"]
    lines += [f"A call with 32 examples and one step: layer {calls['layer'] * 1e6:.0f} µs, loss {calls['loss'] * 1e6:.0f} µs.", ""]
    failed = tests["failed"] + tests["error"]
    ran = f"{tests['passed']} passed, {tests['skipped']} skipped, {failed} failed of {tests['collected']}"
    lines += [f"Tests on the GPU: {ran if tests['collected'] else 'left out of this run'}.", ""]
    seconds = ", ".join(f"{name} {s:.0f} s" for name, s in r["compile"].items())
    return "\n".join(
        [*lines, f"To compile, all at once, or to load what was on disk: {seconds}. The whole run: {r['seconds']:.0f} s.", ""]
    )


def same_states(same: dict) -> list[str]:
    head = ["problem", "steps compared", "chains that differ", "counts that differ", "means differ by", "accepted"]
    rows = []
    for name, c in same.items():
        differ = [str(c["chains that differ"]), str(c["counts differ"]), f"{c['means differ by']:.0e}"]
        rows.append([name, f"{c['steps'] / 1e6:.0f} million", *differ, f"{c['accepted']:.0%}"])
    return table(head, rows)


def speeds(speed: dict, chains: int, goals: dict[str, float], cores: str) -> list[str]:
    head = [
        "problem",
        f"{chains:,} chains, steps/s (min – max)",
        f"{4 * chains:,} chains",
        f"{cores} CPU cores",
        "over CPU",
        "goal",
    ]
    rows = []
    for name, s in speed.items():
        gpu, goal = s["gpu"], f"≥ {giga(goals[name])}" if name in goals else ""
        spread = f"{giga(gpu['median'])} ({gpu['min'] / 1e9:.3g} – {gpu['max'] / 1e9:.3g})"
        rows.append([name, spread, giga(s["more"]["median"]), f"{s['cpu'] / 1e6:.4g} M", f"{gpu['median'] / s['cpu']:.0f}×", goal])
    return table(head, rows)


def floor(f: dict, speed: float, accepted: float) -> list[str]:
    """Steps/s that the draws alone and the memory accesses alone would allow."""
    by_memory = f["accesses"] / accepted
    rows = [
        ["draws and coin of a step alone", giga(f["draws"])],
        [f"reads and writes alone, at {accepted:.0%} accepted", giga(by_memory)],
        ["movegrad", f"{giga(speed)}: {speed / min(f['draws'], by_memory):.0%} of the lower one"],
        ["a copy, for comparison", f"{f['copy'] / 1e12:.3g} TB/s read and written"],
    ]
    return table(["hypercube, as many threads", "steps/s"], rows)
