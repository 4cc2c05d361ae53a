"""A study is a list of parts. A part computes rows, each under a key, and shows them as tables and figures.

``python -m experiments.NAME`` computes what is missing, row by row, in one JSON file for each part, prints the tables and draws the
figures. A run that is stopped or killed goes on where it was. ``--report`` shows what is there and computes nothing.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from multiprocessing import active_children
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from experiments.display import markdown, progress_bar, save_figure
from experiments.statistics import tidy
from experiments.store import OtherVersion as OtherVersion
from experiments.store import Row as Row
from experiments.store import Rows as Rows
from experiments.store import Store, read_record
from experiments.version import version
from experiments.workers import pool

Tasks = Mapping[str, Callable[[], Row]]
GREATEST_SEED = 2**31 - 1  # what every generator takes, other seeds added to it
LIVES = 3  # times that processes may die before a run gives up


def nothing(*_: Any) -> None:
    """Does nothing."""


class Part(NamedTuple):
    """A part of a study.

    ``settings`` is a frozen dataclass: with the code, all that rows depend on. ``tasks`` gives a function for each row; making them
    computes nothing. ``tables`` and ``figures`` see settings and rows alone, so that a file is enough to show them. ``prepare`` is
    told which keys are missing before the first of them is computed, to compute what they share or all of them in parallel.
    ``elsewhere`` computes the row of a key in another process, for ``--workers`` of studies that have it.
    """

    name: str
    settings: Any
    tasks: Callable[[Any], Tasks]
    tables: Callable[[Any, Rows], Iterable[Table]]
    figures: Callable[[Any, Rows], dict[str, Figure]] = lambda settings, rows: {}
    prepare: Callable[[list[str]], object] = nothing
    elsewhere: Callable[[str], Row] | None = None

    @property
    def code(self) -> str:
        """Version of the module that computes rows, and of what it imports."""
        return version(getattr(self.tasks, "func", self.tasks).__module__)


class Study(NamedTuple):
    """``parts`` are made from the options, in the order of ``names``; ``usual`` are those that run without --only."""

    name: str
    about: str
    folder: Path
    names: tuple[str, ...]
    parts: Callable[[argparse.Namespace], list[Part]]
    usual: tuple[str, ...] = ()
    options: Callable[[argparse.ArgumentParser], object] = nothing


# --- one part --------------------------------------------------------------------------------------------------------------


def run_part(part: Part, out: Path, fresh: bool = False, show: Callable[[Table], object] = nothing) -> Rows:
    """Compute what is missing, then show all rows that there are."""
    tasks = part.tasks(part.settings)
    store = Store(out / f"{part.name}.json", asdict(part.settings), part.code, fresh, order=tasks)
    missing = [key for key in tasks if key not in store.rows]
    if missing:
        part.prepare(missing)
        with progress_bar() as bar:
            line = bar.add_task(part.name, total=len(tasks), completed=len(tasks) - len(missing))
            for key in missing:
                store.get(key, lambda task=tasks[key]: tidy(task()))
                bar.advance(line)
        store.refresh()
    show_part(part, part.settings, store.rows, out, show)
    return store.rows


def run_in_processes(parts: list[Part], out: Path, fresh: bool, workers: int) -> None:
    """Compute what is missing of several parts, a row at a time in each process; a row is kept as soon as it is there."""
    stores, jobs = {}, []
    for part in parts:
        tasks = part.tasks(part.settings)
        stores[part.name] = Store(out / f"{part.name}.json", asdict(part.settings), part.code, fresh, order=tasks)
        jobs += [(part.name, part.elsewhere, key) for key in tasks if key not in stores[part.name].rows]
    with progress_bar() as bar:
        line = bar.add_task(f"{workers} processes", total=len(jobs))
        for _ in range(LIVES):
            with pool(workers) as processes:
                try:
                    for done in as_completed([processes.submit(timed, job) for job in jobs]):
                        name, key, row = done.result()
                        stores[name].add(key, row)
                        bar.advance(line)
                    return
                except BrokenProcessPool:
                    jobs = [job for job in jobs if job[2] not in stores[job[0]].rows]
                except BaseException:
                    processes.shutdown(wait=False, cancel_futures=True)
                    for child in active_children():
                        child.terminate()  # rows take minutes, and Ctrl-C is not to wait for them
                    raise
    raise ValueError(
        f"Processes died {LIVES} times, for want of memory perhaps; {len(jobs)} rows are missing, fewer --workers may do."
    )


def timed(job: tuple[str, Callable[[str], Row], str]) -> tuple[str, str, Row]:
    """A row that is computed in this process, with the seconds it took."""
    name, compute, key = job
    begin = perf_counter()
    row = tidy(compute(key))
    return name, key, {**row, "seconds": row.get("seconds", round(perf_counter() - begin, 3))}


def show_part(part: Part, settings: Any, rows: Rows, out: Path, show: Callable[[Table], object], again: bool = False) -> None:
    """Tables to ``show``, figures to ``out``; ``again``: those alone that are there."""
    for one in part.tables(settings, rows):
        show(one)
    for name, figure in part.figures(settings, rows).items():
        path = out / f"{name}.png"
        if path.exists() or not again:
            save_figure(figure, path)
        plt.close(figure)


def report_part(part: Part, out: Path, show: Callable[[Any], object], again: bool = False) -> None:
    """Show rows as they are in the file, with the settings they were made by."""
    path = out / f"{part.name}.json"
    record = read_record(path)
    show(f"{part.name}.json: {len(record.rows)} rows by code {record.code}, on {record.machine}")
    try:
        show_part(part, rebuilt(type(part.settings), record.settings), record.rows, out, show, again)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"its run has not ended, or it is damaged, or made for other code than this ({record.code})"
        raise ValueError(f"{path} cannot be shown ({type(error).__name__}: {error}): {why}.") from error


def rebuilt(kind: Any, value: Any) -> Any:
    """A value of this type from its JSON."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: rebuilt(hints[name], entry) for name, entry in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(rebuilt(get_args(kind)[0], entry) for entry in value)
    if get_origin(kind) is dict:
        return {key: rebuilt(get_args(kind)[1], entry) for key, entry in value.items()}
    return value


# --- the command -------------------------------------------------------------------------------------------------------------


def arguments(study: Study, words: list[str] | None = None) -> argparse.Namespace:
    """The options of every study, and those of this one."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{study.name}", description=study.about)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="full", action="store_false", help="small sizes (default)")
    size.add_argument("--full", dest="full", action="store_true", help="the sizes of the README's tables")
    parser.set_defaults(full=False)
    usual = f" (default: {', '.join(study.usual)})" if study.usual else ""
    parser.add_argument("--only", nargs="+", default=None, metavar="PART", help=f"among {', '.join(study.names)}{usual}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="folder of results (default: out/quick, out/full)")
    parser.add_argument("--fresh", action="store_true", help="forget results of an earlier run instead of resuming it")
    parser.add_argument("--report", action="store_true", help="show results, compute nothing (default: of results/)")
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    study.options(parser)
    options = parser.parse_args(words)
    for name in options.only or ():
        if name not in study.names:
            parser.error(f"--only must name parts among {', '.join(study.names)}, got {name}.")
    options.committed = options.report and options.out is None
    options.out = options.out or study.folder / ("results" if options.report else f"out/{'full' if options.full else 'quick'}")
    return options


def must_be_positive(options: argparse.Namespace, *names: str) -> None:
    """Options that are numbers, or several, where they were given."""
    for name in names:
        given = getattr(options, name)
        for value in given if isinstance(given, list | tuple) else [given]:
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"--{name.replace('_', '-')} must be > 0 and finite, got {value}.")


def run(study: Study, options: argparse.Namespace, console: Console) -> None:
    """The parts that are wanted, or a report of them."""

    def show(one: Any) -> None:
        if isinstance(one, Table) and options.markdown:
            console.print(markdown(one), markup=False, highlight=False, soft_wrap=True)
        else:
            console.print(one)

    if not 0 <= options.seed <= GREATEST_SEED:
        raise ValueError(f"--seed must be 0 to {GREATEST_SEED}, got {options.seed}.")
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"--out must be a folder, got {options.out}, which is a file.")
    if options.report:
        return report(study, options, show)
    begin, wanted = perf_counter(), options.only or study.usual or study.names
    chosen, fresh = [part for part in study.parts(options) if part.name in wanted], options.fresh
    if not any(part.tasks(part.settings) for part in chosen):
        raise ValueError(f"Nothing of {', '.join(part.name for part in chosen)} is left to compute by these options.")
    if getattr(options, "workers", None) and all(part.elsewhere for part in chosen):
        run_in_processes(chosen, options.out, fresh, options.workers)
        fresh = False
    for part in chosen:
        run_part(part, options.out, fresh, show)
    console.print(f"{perf_counter() - begin:.0f} s; results in {options.out}")


def report(study: Study, options: argparse.Namespace, show: Callable[[Any], object]) -> None:
    """Every file of a part in the folder or below it; those that come with the study have the figures that pages show."""
    wanted = options.only or study.names
    places = sorted({path.parent for path in options.out.rglob("*.json") if path.stem in wanted})
    if not places:
        raise FileNotFoundError(f"{options.out} holds no results of {', '.join(wanted)}.")
    for place in places:
        show(str(place))
        for part in study.parts(argparse.Namespace(**{**vars(options), "out": place})):
            if part.name in wanted and (place / f"{part.name}.json").exists():
                report_part(part, place, show, options.committed)


@contextmanager
def answered() -> Iterator[Console]:
    """What goes wrong with files or options ends in one sentence, and Ctrl-C in another."""
    try:
        yield Console(width=None if sys.stdout.isatty() else 160)
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        raise SystemExit(130) from None
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


def main(study: Study, words: list[str] | None = None) -> None:
    options = arguments(study, words)
    with answered() as console:
        run(study, options, console)
