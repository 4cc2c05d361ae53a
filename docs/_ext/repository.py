"""What the site takes from the repository: pages and files outside of ``docs/``, and figures from committed JSON.

* Links of a page to a file elsewhere in the repository lead to its page on the site where there is one (``PAGES``); to other files
  they are downloads, and to folders they are plain text.
* ``<!-- page: PATH -->`` stands for the text of that page, with its links and pictures.
* ``{{ name }}`` stands for a figure of ``numbers_of_record.py`` or ``numbers_of_zoo.py``, which read the JSON files of benchmarks
  and studies.
"""

import os
import re
from pathlib import Path
from typing import Any

from numbers_of_record import NUMBERS
from numbers_of_zoo import ZOO

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {  # path in the repository → page of the site
    "README.md": "index",
    "CONTRIBUTING.md": "reference/contributing",
    "CHANGELOG.md": "reference/changelog",
    "paper.md": "theory/article",
    "benchmarks/README.md": "studies/benchmarks",
    "benchmarks/results/gpu.md": "studies/gpu_results",
    "experiments/README.md": "studies/index",
    "experiments/convergence/README.md": "studies/convergence",
    "experiments/recovery/README.md": "studies/recovery",
    "experiments/knapsack/README.md": "studies/knapsack",
    "experiments/dvrptw/README.md": "studies/dvrptw",
    "experiments/arena/README.md": "studies/arena",
    **{
        f"experiments/{study}/results/tables.md": f"studies/{study}_tables"
        for study in ("convergence", "recovery", "knapsack", "dvrptw", "arena")
    },
}
MOVED = {  # pages that have another place now → where
    f"docs/{name}.md": f"{room}/{name}"
    for room, names in {
        "guides": ("adding_a_problem", "gpu", "scale", "proof", "pyepo"),
        "problems": ("routing",),
        "reference": ("design", "glossary"),
        "theory": ("paper",),
    }.items()
    for name in names
}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
FENCE = re.compile(r"(^(`{3,}|~{3,}).*?^\2[ \t]*$)", re.MULTILINE | re.DOTALL)


def rewritten(text: str, folder: Path, page: str) -> str:
    """The text of a page, which lies in ``folder``, as ``page`` of the site needs it; code stays as it is."""

    def link(found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z]+:|[#/]", target):
            return found[0]
        path, _, fragment = target.partition("#")
        place = Path(os.path.normpath(folder / path))
        if not place.is_relative_to(ROOT):
            return found[0]
        name = place.relative_to(ROOT).as_posix()
        site = PAGES.get(name) or PAGES.get(f"{name}/README.md") or MOVED.get(name)
        if site is None and place.is_relative_to(DOCS) and place.suffix == ".md":
            site = place.relative_to(DOCS).with_suffix("").as_posix()
        if site is not None and (DOCS / f"{site}.md").exists():
            return f"[{found['text']}](/{site}.md{'#' + fragment if fragment else ''})"
        if name == "experiments/dvrptw/results/quick/day.html":
            return f"[{found['text']}](/gallery/dispatch.md)"
        if place.is_dir() or not place.exists():
            return f"`{name}`" if found["text"].strip("`") in name else f"{found['text']} (`{name}`)"
        near = os.path.relpath(place, (DOCS / page).parent)
        return f"{found['image']}[{found['text']}]({near})"

    parts = FENCE.split(text)
    return "".join(part if k % 3 == 1 else "" if k % 3 == 2 else LINK.sub(link, part) for k, part in enumerate(parts))


def read(app: Any, page: str, source: list[str]) -> None:
    """Sphinx calls this with the text of every page."""
    text = source[0]
    here = (DOCS / page).parent
    if not text.lstrip().startswith("---\nfile_format"):  # notebooks are written for the site
        text = rewritten(text, here, page)

    def taken(found: re.Match[str]) -> str:
        path = ROOT / found[1]
        app.env.note_dependency(str(path))
        if not path.exists():
            return f"# {path.parent.name.capitalize()}\n\nThis study is not there yet (`{found[1]}`)."
        body = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if re.search(r"^# ", text[: found.start()], re.MULTILINE):  # below a title of the page
            body = re.sub(r"^#", "##", body, flags=re.MULTILINE)
        return rewritten(body, path.parent, page)

    source[0] = re.sub(r"^<!-- page: (\S+) -->$", taken, text, flags=re.MULTILINE)


def escaped(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Bars in docstrings are absolute values and conditions, and no substitutions of reStructuredText."""
    for k, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            lines[k] = "".join(part if j % 2 else part.replace("|", r"\|") for j, part in enumerate(re.split(r"(``.*?``)", line)))


def is_told(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Whether to leave a member out: fields of NamedTuples stand in the docstring of their class already."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", escaped)
    app.connect("autodoc-skip-member", is_told)
    app.connect("config-inited", lambda app, config: config.myst_substitutions.update({**NUMBERS, **ZOO}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
