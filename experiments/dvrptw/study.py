"""The parts of the study, its options, and commands that do a step alone."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.display import table
from experiments.dvrptw import models, pictures, report, settings, studies
from experiments.dvrptw.data import Day, Source, find_folder, names_in
from experiments.dvrptw.engine import Engine
from experiments.dvrptw.evaluate import Judge, evaluate
from experiments.dvrptw.instances import write
from experiments.dvrptw.labels import Labeling, hindsight
from experiments.dvrptw.layers import LayerSettings
from experiments.dvrptw.models import Architecture
from experiments.dvrptw.policies import SIMPLE, Policy
from experiments.dvrptw.settings import Played
from experiments.dvrptw.solver import Budget
from experiments.dvrptw.train import train_all
from experiments.framework import Part, Rows, Study, answered, arguments, must_be_positive, run, run_part
from experiments.store import write_json

USUAL = ("anticipative", "policies", "budget", "starts", "steps", "temperature")
NAMES = ("calibration", *USUAL, "choice", "replay")  # the first, since gaps of the others show it
NETWORK = Path(__file__).parent / "network"  # that comes with the study: trained on generated days alone
NUMBERS = ("seeds", "epochs", "train", "validation", "test", "arrivals", "iterations", "seconds", "ms", "steps")
NUMBERS += ("temperature", "chains", "samples", "sigma", "sigmas", "temperatures")


def own_options(parser: argparse.ArgumentParser) -> None:
    """Options of this study alone."""
    parser.add_argument("command", nargs="?", default="study", choices=("study", *COMMANDS))
    parser.add_argument(
        "--data", default=None, help='"synthetic" (default of --quick), "auto" (of --full), or the folder of the data'
    )
    parser.add_argument("--work", type=Path, default=None, help="models, days played and solved (default: out/work)")
    parser.add_argument("--engine", choices=("processes", "ray"), default="processes")
    parser.add_argument("--address", default=None, help="of a Ray cluster; a local one by default")
    parser.add_argument("--workers", type=int, default=None, help="processes; by default one for each core, 0 for none")
    parser.add_argument("--solver", choices=("pyvrp", "movegrad"), default=None, help="who plans waves in evaluation")
    parser.add_argument("--iterations", type=int, default=None, help="of the solver for each wave of a test day (movegrad: steps)")
    for name in ("seeds", "epochs", "train", "validation", "test", "arrivals"):
        parser.add_argument(f"--{name}", type=int, default=None)
    parser.add_argument(
        "--ms", type=float, nargs="+", default=None, help="budgets of the part budget; of the command train, the first"
    )
    parser.add_argument(
        "--kinds", nargs="+", default=None, help="layers of parts budget and choice; of the command train, the first"
    )
    parser.add_argument("--steps", type=int, default=None, help="K where it is not studied; of the command train instead of --ms")
    parser.add_argument("--temperature", type=float, default=100.0, help="of the command train")
    parser.add_argument("--chains", type=int, default=1, help="that are averaged, of the command train")
    parser.add_argument("--samples", type=int, default=1, help="of the noise in PFY, of the command train")
    parser.add_argument("--sigma", type=float, default=1.0, help="of the noise in PFY, in seconds, of the command train")
    parser.add_argument("--model", choices=("gnn", "mlp", "linear"), default=None)
    parser.add_argument(
        "--seconds",
        type=float,
        default=None,
        help="processor time for each day in hindsight; of train: for labels of generated days",
    )
    parser.add_argument("--split", choices=("train", "validation", "test"), default="train", help="of the command labels")
    parser.add_argument(
        "--policy", nargs="+", default=None, help="of the commands evaluate, picture and play: names, or folders of models"
    )
    parser.add_argument("--instances", type=Path, default=None, help="of the command play: any folder of instances")
    parser.add_argument("--names", nargs="+", default=None, help="of the command play: parts of names of instances (default: all)")
    parser.add_argument("--days", nargs="+", type=int, default=[0], help="of the command play: seeds of arrivals")
    parser.add_argument("--weights", action="store_true", help="of the command average: weights instead of prizes")
    parser.add_argument("--first", type=int, default=None, help="of the command train: seed of the first weights, for all seeds")
    parser.add_argument("--sigmas", type=float, nargs="+", default=None, help="of the part choice, as many as --temperatures")
    parser.add_argument("--temperatures", type=float, nargs="+", default=None, help="of the part choice")
    parser.add_argument("--day", type=int, default=0, help="of the command picture: number of the test day")


def bench_of(options: argparse.Namespace) -> studies.Bench:
    """The bench that the options describe."""
    must_be_positive(options, *NUMBERS)
    size = settings.FULL if options.full else settings.QUICK
    names = ("seeds", "epochs", "train", "validation", "test", "arrivals", "steps")
    changes = {name: getattr(options, name) for name in names}
    changes |= {"milliseconds": tuple(options.ms) if options.ms else None, "rare": () if options.ms else None}
    changes |= {"choice": changes["milliseconds"], "choice_epochs": options.epochs}
    changes |= {"sigmas": options.sigmas and tuple(options.sigmas)}
    changes |= {"choice_temperatures": options.temperatures and tuple(options.temperatures)}
    size = studies.smaller(size, **changes, kinds=tuple(options.kinds) if options.kinds else None)
    judge = Judge(options.solver or size.judge.solver, options.iterations or size.judge.iterations)
    solving = Labeling(Budget(seconds=options.seconds)) if options.seconds else None
    labeling = solving if options.command in ("labels", "train") else None
    model = Architecture(options.model) if options.model else None
    size = studies.smaller(size, judge=judge, hindsight=solving, labeling=labeling, model=model)
    wanted = options.data or ("auto" if options.full else "synthetic")
    folder = None if wanted == "synthetic" else find_folder(None if wanted == "auto" else wanted)
    if wanted == "auto" and folder is None:
        raise SystemExit(
            "The competition's data were not found; name their folder by --data or MOVEGRAD_DATA, or use --data synthetic."
        )
    source = Source(folder, size.arrivals, size.customers)
    engine = Engine(options.engine, options.workers, options.address)
    return studies.Bench(source, size, engine, options.work or options.out / "work", options.seed)


def parts(options: argparse.Namespace) -> list[Part]:
    bench, out = bench_of(options), options.out
    solve, play = partial(studies.anticipative_rows, bench), partial(studies.policy_rows, bench)
    solved = Part("anticipative", bench.solved, tables=report.solved_tables, **studies.together(solve, bench.played.days))
    policies = studies.together(play, studies.policy_names(bench))
    made = [solved, Part("policies", bench.played, tables=partial(report.policy_tables, out), **policies)]
    for name, comparison in studies.COMPARISONS.items():
        learn, keys = partial(studies.learned_rows, bench, comparison), studies.plans_of(bench.size, comparison)
        tables, figures = (partial(show, out, comparison) for show in (report.learned_tables, report.learned_figures))
        made.append(Part(name, bench.learned, tables=tables, figures=figures, **studies.together(learn, keys)))
    calibrated = studies.together(partial(studies.calibration_rows, bench), Lazy(partial(studies.calibration_keys, bench)))
    made.insert(0, Part("calibration", bench.calibrated, tables=report.calibration_tables, **calibrated))
    choose, keys = partial(studies.learned_rows, bench, studies.CHOICE), studies.plans_of(bench.size, studies.CHOICE)
    longer = replace(bench.learned, epochs=studies.CHOICE.epochs(bench.size))
    made.append(Part("choice", longer, tables=partial(report.choice_tables, out), **studies.together(choose, keys)))
    again = [*studies.policy_names(bench), *studies.plans_of(bench.size, studies.REPLAY)]
    replayed = replace(bench.learned, arrivals=bench.size.replayed)
    busier = studies.together(partial(studies.replay_rows, bench), again)
    made.append(Part("replay", replayed, tables=report.replay_tables, **busier))
    return made


class Lazy:
    """Keys that are read from the data when they are asked for."""

    def __init__(self, keys: Callable[[], list[str]]) -> None:
        self.keys = keys

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


# --- steps alone ---------------------------------------------------------------------------------------------------------


def labels(options: argparse.Namespace, console: Console) -> None:
    """Solve days of a split in hindsight and write their routes."""

    bench, out = bench_of(options), options.out
    count = {"train": bench.size.train, "validation": bench.size.validation, "test": bench.size.test}[options.split]
    days = bench.source.days(options.split, count)
    found = hindsight(bench.source, days, bench.size.labeling, bench.engine, bench.cache, title="labels")
    rows = {name: {"cost": solution.cost, "routes": solution.routes} for name, solution in found.items()}
    write_json(out / f"labels_{options.split}.json", rows)
    published = bench.source.published()
    for name, solution in found.items():
        compared = f", {100 * (solution.cost / published[name].cost - 1):+.2f} % of the published" if name in published else ""
        console.print(f"{name}: {solution.cost}{compared}")


def policy_of(word: str) -> Policy:
    """By name, or by the folder of a model; "network" is the one that comes with the study."""
    if word in (*SIMPLE, "kleopatra"):
        return Policy(word)
    folder = NETWORK if word == "network" else Path(word)
    if not (folder / "model.json").exists():
        known = ", ".join((*SIMPLE, "kleopatra", "network"))
        raise ValueError(f"--policy must be {known}, or the folder of a trained model, got {word}.")
    return Policy("network", str(folder))


def evaluation(options: argparse.Namespace, console: Console) -> None:
    """Play the test days by some policies."""
    bench, words = bench_of(options), options.policy or ["greedy", "random", "lazy"]
    keyed = {" ".join(policy_of(word).describe().values()): word for word in words}

    def rows(missing: list[str]) -> Rows:
        played = bench.play([policy_of(keyed[key]) for key in missing], "evaluation: test days")
        return {key: studies.played_row(days, policy=Path(keyed[key]).name) for key, days in zip(missing, played, strict=True)}

    def tables(settings: Played, rows: Rows) -> list[Table]:
        listed = list(rows.values())
        base = np.array(listed[0]["costs"], float)
        lines = [[row["policy"], f"{np.mean(row['costs']):.0f}", str(report.paired([row], listed[:1], base))] for row in listed]
        return [table("Policies on the test days", "policy", "mean cost", f"over {listed[0]['policy']}, %", lines=lines)]

    part = Part("evaluation", bench.played, tables=tables, **studies.together(rows, keyed))
    run_part(part, options.out, options.fresh, console.print)


def training(options: argparse.Namespace, console: Console) -> None:
    """Train one model for each seed."""

    bench = bench_of(options)
    ms = None if options.steps else (options.ms or [10.0])[0]
    kind, noise = (options.kinds or ["heuristic"])[0], {"sigma": options.sigma, "samples": options.samples}
    layer = LayerSettings(kind, ms, options.steps, options.temperature, options.chains, **noise)
    runs = [replace(bench.training(layer, seed), first=options.first) for seed in range(bench.size.seeds)]
    for one, history in zip(runs, train_all(bench.splits, runs, bench.models, bench.engine), strict=True):
        spent = sum(epoch["seconds"] for epoch in history["epochs"][1:])
        folder = bench.splits.folder(bench.models, one)
        console.print(f"{folder}: best epoch {history['best']}, {spent:.0f} s of training", soft_wrap=True)


def picture(options: argparse.Namespace, console: Console) -> None:
    """A day wave by wave, as PNG and as a page."""

    bench, out = bench_of(options), options.out
    if not 0 <= options.day < len(bench.test):
        raise ValueError(f"--day must be from 0 to {len(bench.test) - 1}, the number of a test day, got {options.day}.")
    word = (options.policy or ["greedy"])[0]
    for path in pictures.draw_day(bench.source, policy_of(word), bench.test[options.day], bench.size.judge, out):
        console.print(str(path))


def generate(options: argparse.Namespace, console: Console) -> None:
    """Write generated instances as files."""

    bench, out = bench_of(options), options.out
    for day in bench.source.days("train", bench.size.train):
        write(bench.source.instance(day.instance), out / "instances" / f"{day.instance}.txt")
        console.print(f"instances/{day.instance}.txt")


def average(options: argparse.Namespace, console: Console) -> None:
    """One network of several: their mean prize, or, of runs that began with the same weights, their mean weights."""
    folders = [Path(word) for word in options.policy or ()]
    if len(folders) < 2:
        raise ValueError(f"--policy must name two folders of models at least, got {options.policy}.")
    members, about = [models.load_single(folder) for folder in folders], {"of": [folder.name for folder in folders]}
    if options.weights:
        models.save(models.of_mean_weights(members), options.out, about)
    else:
        models.save_ensemble(members, options.out, about)
    console.print(str(options.out))


def play_days(options: argparse.Namespace, console: Console) -> None:
    """Play days of any folder of instances by some policies, paired by day."""
    if options.instances is None:
        raise ValueError("--instances must name a folder of instances (*.txt, *.txt.xz), got none.")
    bench, words = bench_of(options), options.policy or ["greedy", "network"]
    source = Source(options.instances, bench.size.arrivals, bench.size.customers)
    names = [name for name in names_in(options.instances) if not options.names or any(word in name for word in options.names)]
    if not names:
        raise ValueError(f"--names must hold parts of names of instances in {options.instances}, got {' '.join(options.names)}.")
    if min(options.days) < 0 or len(set(options.days)) < len(options.days):
        raise ValueError(f"--days must be different seeds ≥ 0, got {' '.join(map(str, options.days))}.")
    days = [Day(name, seed) for seed in options.days for name in names]
    settings = Played(options.instances.name, source.arrivals, source.customers, tuple(day.name for day in days), bench.size.judge)
    keyed = {" ".join(policy_of(word).describe().values()): word for word in words}

    def rows(missing: list[str]) -> Rows:
        policies = [policy_of(keyed[key]) for key in missing]
        played = evaluate(source, policies, days, bench.size.judge, bench.engine, bench.cache, "days")
        return {key: studies.played_row(by_day, policy=Path(keyed[key]).name) for key, by_day in zip(missing, played, strict=True)}

    part = Part("played", settings, tables=partial(report.played_tables, len(names)), **studies.together(rows, keyed))
    run_part(part, options.out, options.fresh, console.print)


COMMANDS = {
    "labels": labels,
    "evaluate": evaluation,
    "train": training,
    "picture": picture,
    "generate": generate,
    "average": average,
    "play": play_days,
}
STUDY = Study("dvrptw", "Dynamic vehicle routing, learned.", Path(__file__).parent, NAMES, parts, USUAL, own_options)


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """Learned policies are compared with those that are not."""
    options = arguments(STUDY, words)
    if set(options.only or ()) - {"anticipative", "calibration", "replay"}:
        options.only = ["policies", *options.only]
    return options


def main(words: list[str] | None = None) -> None:
    options = parsed(words)
    with answered() as console:
        if options.command == "study":
            run(STUDY, options, console)
        else:
            COMMANDS[options.command](options, console)
