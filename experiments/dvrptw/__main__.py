"""Run the study: ``python -m experiments.dvrptw [COMMAND] [options]``; see README.md."""

import argparse
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

from experiments.dvrptw.data import Source, find_folder
from experiments.dvrptw.engine import Engine
from experiments.store import read_json, write_json

HERE = Path(__file__).parent
PARTS = ("anticipative", "policies", "budget", "starts", "steps", "temperature")


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.dvrptw", description="Dynamic vehicle routing, learned.")
    parser.add_argument("command", nargs="?", default="study", choices=tuple(COMMANDS))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="full", action="store_false", help="small sizes, within three minutes (default)")
    size.add_argument("--full", dest="full", action="store_true", help="the sizes of the README's tables")
    parser.set_defaults(full=False)
    parser.add_argument(
        "--data", default=None, help='"synthetic" (default of --quick), "auto" (of --full), or the folder of the data'
    )
    parser.add_argument("--out", type=Path, default=None, help="tables and figures (default: out/)")
    parser.add_argument("--work", type=Path, default=None, help="models, days played and solved (default: out/work)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=f"among {', '.join(PARTS)}")
    parser.add_argument("--engine", choices=("processes", "ray"), default="processes")
    parser.add_argument("--address", default=None, help="of a Ray cluster; a local one by default")
    parser.add_argument("--workers", type=int, default=None, help="processes; by default one for each core, 0 for none")
    parser.add_argument("--solver", choices=("pyvrp", "movegrad"), default=None, help="who plans waves in evaluation")
    parser.add_argument("--iterations", type=int, default=None, help="of the solver for each wave of a test day (movegrad: steps)")
    parser.add_argument("--seed", type=int, default=0)
    for name in ("seeds", "epochs", "train", "validation", "test", "arrivals"):
        parser.add_argument(f"--{name}", type=int, default=None)
    parser.add_argument(
        "--ms", type=float, nargs="+", default=None, help="budgets of the part budget; of the command train, the first"
    )
    parser.add_argument("--kinds", nargs="+", default=None, help="layers of the part budget; of the command train, the first")
    parser.add_argument("--steps", type=int, default=None, help="K where it is not studied; of the command train instead of --ms")
    parser.add_argument("--temperature", type=float, default=100.0, help="of the command train")
    parser.add_argument("--chains", type=int, default=1, help="that are averaged, of the command train")
    parser.add_argument("--samples", type=int, default=1, help="of the noise in PFY, of the command train")
    parser.add_argument("--sigma", type=float, default=1.0, help="of the noise in PFY, in seconds, of the command train")
    parser.add_argument("--model", choices=("gnn", "mlp", "linear"), default=None)
    parser.add_argument("--seconds", type=float, default=None, help="processor time for each day in hindsight")
    parser.add_argument("--split", choices=("train", "validation", "test"), default="train", help="of the command labels")
    parser.add_argument(
        "--policy", nargs="+", default=None, help="of the commands evaluate and picture: names, or folders of models"
    )
    parser.add_argument("--day", type=int, default=0, help="of the command picture: number of the test day")
    return parser.parse_args(words)


def bench_of(options: argparse.Namespace):
    """The bench that the options describe."""
    from experiments.dvrptw import settings, studies
    from experiments.dvrptw.evaluate import Judge
    from experiments.dvrptw.labels import Labeling
    from experiments.dvrptw.models import Architecture
    from experiments.dvrptw.solver import Budget

    size = settings.FULL if options.full else settings.QUICK
    names = ("seeds", "epochs", "train", "validation", "test", "arrivals", "steps")
    changes = {name: getattr(options, name) for name in names}
    changes |= {"milliseconds": tuple(options.ms) if options.ms else None, "rare": () if options.ms else None}
    size = studies.smaller(size, **changes, kinds=tuple(options.kinds) if options.kinds else None)
    judge = Judge(options.solver or size.judge.solver, options.iterations or size.judge.iterations)
    hindsight = Labeling(Budget(seconds=options.seconds)) if options.seconds else None
    labeling = hindsight if options.command == "labels" else None
    model = Architecture(options.model) if options.model else None
    size = studies.smaller(size, judge=judge, hindsight=hindsight, labeling=labeling, model=model)
    wanted = options.data or ("auto" if options.full else "synthetic")
    folder = None if wanted == "synthetic" else find_folder(None if wanted == "auto" else wanted)
    if wanted == "auto" and folder is None:
        raise SystemExit(
            "The competition's data were not found; name their folder by --data or MOVEGRAD_DATA, or use --data synthetic."
        )
    source = Source(folder, size.arrivals, size.customers)
    out = options.out or HERE / "out"
    return studies.Bench(
        source, size, Engine(options.engine, options.workers, options.address), options.work or out / "work", options.seed
    )


def study(options: argparse.Namespace, console: Console) -> None:
    """All parts, or some; what an earlier run computed is read."""
    from experiments.dvrptw import report, studies

    bench, out = bench_of(options), options.out or HERE / "out"
    settings = {"data": bench.source.label, "seed": bench.seed, **asdict(bench.size)}
    days = bench.test
    store = out / "anticipative.json"
    if "anticipative" in options.only:
        costs = studies.anticipative_costs(bench)
        write_json(store, {"settings": settings, "costs": costs}, indent=1)
    others = studies.policy_rows(bench)
    reference = anticipative_reference(store, days)
    known = reference is not None
    if reference is None:
        console.print("Gaps are measured from the greedy policy, since anticipative costs are not known (--only anticipative).")
        reference = np.array(next(row for row in others if row["policy"] == "greedy")["costs"], float)
    if "policies" in options.only:
        report.write_rows(out, "policies", others, days, settings)
        report.write_tables(out, "policies", {"Policies on the test days": report.policies_grid(others, reference)}, console)
    for name in [name for name in options.only if name in studies.PARTS]:
        part = studies.PARTS[name]
        rows = studies.learned_rows(bench, part)
        papers = known and name == "budget" and bench.source.folder is not None
        tables = {part.title: report.part_grid(part, rows, reference, papers)}
        tables["Paired on the same days"] = report.paired_grid(rows, others, reference)
        report.write_rows(out, name, rows, days, settings)
        report.write_tables(out, name, tables, console)
        report.write_figure(out, name, report.part_figure(part, rows, reference, papers))


def anticipative_reference(store: Path, days) -> np.ndarray | None:
    """Anticipative costs of the days, None where not all are known."""
    known = read_json(store, "costs")["costs"] if store.exists() else {}
    return np.array([known[day.name] for day in days], float) if all(day.name in known for day in days) else None


def labels(options: argparse.Namespace, console: Console) -> None:
    """Solve days of a split in hindsight and write their routes."""
    from experiments.dvrptw.labels import hindsight

    bench, out = bench_of(options), options.out or HERE / "out"
    count = {"train": bench.size.train, "validation": bench.size.validation, "test": bench.size.test}[options.split]
    days = bench.source.days(options.split, count)
    found = hindsight(bench.source, days, bench.size.labeling, bench.engine, bench.cache, title="labels")
    rows = {name: {"cost": solution.cost, "routes": solution.routes} for name, solution in found.items()}
    write_json(out / f"labels_{options.split}.json", rows)
    published = bench.source.published()
    for name, solution in found.items():
        compared = f", {100 * (solution.cost / published[name].cost - 1):+.2f} % of the published" if name in published else ""
        console.print(f"{name}: {solution.cost}{compared}")


def policy_of(word: str):
    from experiments.dvrptw.policies import SIMPLE, Policy

    return Policy(word) if word in (*SIMPLE, "kleopatra") else Policy("network", word)


def evaluation(options: argparse.Namespace, console: Console) -> None:
    """Play the test days by some policies."""
    from experiments.dvrptw import report
    from experiments.dvrptw.evaluate import evaluate

    bench, out = bench_of(options), options.out or HERE / "out"
    words = options.policy or ["greedy", "random", "lazy"]
    played = evaluate(bench.source, [policy_of(w) for w in words], bench.test, bench.size.judge, bench.engine, bench.cache)
    rows = [
        {"policy": Path(w).name, "costs": [d["cost"] for d in days], "waves": [d["waves"] for d in days]}
        for w, days in zip(words, played, strict=True)
    ]
    report.write_rows(out, "evaluation", rows, bench.test, {"data": bench.source.label, "judge": asdict(bench.size.judge)})
    base = np.array(rows[0]["costs"], float)
    grid = [["policy", "mean cost", f"over {rows[0]['policy']}, %"]]
    grid += [[row["policy"], f"{np.mean(row['costs']):.0f}", str(report.paired([row], rows[:1], base))] for row in rows]
    report.write_tables(out, "evaluation", {"Policies on the test days": grid}, console)


def training(options: argparse.Namespace, console: Console) -> None:
    """Train one model for each seed."""
    from experiments.dvrptw.layers import LayerSettings
    from experiments.dvrptw.train import train_all

    bench = bench_of(options)
    ms = None if options.steps else (options.ms or [10.0])[0]
    kind, noise = (options.kinds or ["heuristic"])[0], {"sigma": options.sigma, "samples": options.samples}
    layer = LayerSettings(kind, ms, options.steps, options.temperature, options.chains, **noise)
    runs = [bench.training(layer, seed) for seed in range(bench.size.seeds)]
    for run, history in zip(runs, train_all(bench.splits, runs, bench.folder / "models", bench.engine), strict=True):
        spent = sum(epoch["seconds"] for epoch in history["epochs"][1:])
        console.print(f"{bench.folder / 'models' / run.name}: best epoch {history['best']}, {spent:.0f} s of training")


def picture(options: argparse.Namespace, console: Console) -> None:
    """A day wave by wave, as PNG and as a page."""
    from experiments.dvrptw import pictures

    bench, out = bench_of(options), options.out or HERE / "out"
    word = (options.policy or ["greedy"])[0]
    for path in pictures.draw_day(bench.source, policy_of(word), bench.test[options.day], bench.size.judge, out):
        console.print(str(path))


def generate(options: argparse.Namespace, console: Console) -> None:
    """Write generated instances as files."""
    from experiments.dvrptw.instances import write

    bench, out = bench_of(options), options.out or HERE / "out"
    for day in bench.source.days("train", bench.size.train):
        write(bench.source.instance(day.instance), out / "instances" / f"{day.instance}.txt")
        console.print(f"instances/{day.instance}.txt")


COMMANDS = {
    "study": study,
    "labels": labels,
    "evaluate": evaluation,
    "train": training,
    "picture": picture,
    "generate": generate,
}


def main(words: list[str] | None = None) -> None:
    options = parsed(words)
    console, begin = Console(), perf_counter()
    try:
        COMMANDS[options.command](options, console)
    except (ValueError, FileNotFoundError) as error:
        raise SystemExit(str(error)) from error
    console.print(f"{perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
