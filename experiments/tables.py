"""All tables of the results that come with the studies, as pages: ``python -m experiments.tables [STUDY ...]``.

Writes ``results/tables.md`` beside the files of rows, and in the README what stands between ``<!-- summary -->`` and
``<!-- end -->``. Run it again after results have changed; it computes nothing, and the same files give the same pages.
"""

import re
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path

from rich.table import Table

from experiments.display import markdown
from experiments.framework import Part, Study, answered, arguments, report
from experiments.store import write_text

STUDIES = ("convergence", "recovery", "knapsack", "dvrptw", "arena")
SUMMARIES = ("arena",)  # studies with a module that makes one table of all results
BLOCK = re.compile(r"(?<=<!-- summary -->\n).*?(?=<!-- end -->)", re.DOTALL)


def study_of(name: str) -> Study:
    return import_module(f"experiments.{name}.study").STUDY


def summary(name: str, brief: bool = False) -> str:
    """One table of all results of a study, and, unless it is to be brief, those that stand below it."""
    module, folder = import_module(f"experiments.{name}.summary"), study_of(name).folder / "results"
    made = module.table(folder)
    _, _, grid = markdown(made).partition("\n\n")  # its title says what the page says
    below = "" if brief else "\n" + "\n".join(markdown(other) for other in module.others(folder))
    return f"\n{grid}\n{made.caption.capitalize()}.\n{below}\n"


def page(name: str) -> str:
    """Every table of every file, in the order of ``--report``."""
    study = study_of(name)
    lines = [f"# All tables: {name}", f"`python -m experiments.tables {name}` makes this page from the files in `results/`."]
    if name in SUMMARIES:
        lines += ["## Summary", summary(name).strip()]

    def show(one: Table | str) -> None:
        if isinstance(one, Table):
            lines.append(markdown(one).strip())
        elif one.startswith(str(study.folder)):
            lines.append(f"## {Path(one).relative_to(study.folder).as_posix()}")
        else:
            file, _, said = one.partition(": ")
            lines.append(f"### {file}\n\n{said}.")

    def without_figures(options: Namespace) -> list[Part]:
        return [Part(part.name, part.settings, part.tasks, part.tables) for part in study.parts(options)]

    report(study._replace(parts=without_figures), arguments(study, ["--report"]), show)
    return "\n\n".join(lines) + "\n"


def readme(name: str) -> str:
    """The README of a study, its one table of all results made anew."""
    text = (study_of(name).folder / "README.md").read_text(encoding="utf-8")
    return BLOCK.sub(lambda _: summary(name, brief=True), text) if name in SUMMARIES else text


def main(names: list[str] | None = None) -> None:
    with answered():
        for name in names or STUDIES:
            if name not in STUDIES:
                raise ValueError(f"studies are {', '.join(STUDIES)}, got {name}.")
            folder = study_of(name).folder
            write_text(folder / "results" / "tables.md", page(name))
            write_text(folder / "README.md", readme(name))
            print(folder / "results" / "tables.md")


if __name__ == "__main__":
    main(sys.argv[1:])
