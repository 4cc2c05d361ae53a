"""Pages say what is so: figures are those of committed results, links lead somewhere, code runs. ``test_site.py`` has the site."""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.slow import slow_but_for

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
sys.path.insert(0, str(DOCS / "_ext"))
numbers_of_record = pytest.importorskip("numbers_of_record", reason="docs/_ext is not there")
numbers_of_zoo = pytest.importorskip("numbers_of_zoo", reason="docs/_ext is not there")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_figures_of_the_readme_are_those_of_the_committed_results():
    assert numbers_of_record.facts() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short_and_its_first_example_stands_alone():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 850
    assert re.search(r"```python\n(.*?)```", text, re.DOTALL)[1].startswith(
        "import numpy as np\nimport torch\nimport movegrad as mg\n"
    )
    assert "make demo" in text
    assert "make test" in text


LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *PAGES]


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_relative_links_lead_to_files(page):
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path = unquote(target.partition("#")[0])
        if path and not re.match(r"[a-z]+:", path):
            assert (page.parent / path).exists(), target


def test_every_figure_that_a_page_asks_for_is_there():
    for page in PAGES:
        for asked in re.findall(r"\{\{ (\w+) \}\}", page.read_text(encoding="utf-8")):
            assert asked in {**numbers_of_record.NUMBERS, **numbers_of_zoo.ZOO}, f"{asked} in {name(page)}"


def test_the_demo_and_the_guide_take_their_figures_from_files():
    """No table of the demo's output is typed, and what the guide says was measured has no number that is."""
    assert "{{ demo_table }}" in (DOCS / "start" / "demo.md").read_text(encoding="utf-8")
    assert not re.search(r"\d%|\d %", (DOCS / "start" / "demo.md").read_text(encoding="utf-8"))
    measured = (DOCS / "guides" / "choose.md").read_text(encoding="utf-8").split("What was measured:")[1].split("##")[0]
    assert len(re.findall(r"\{\{ \w+ \}\}", measured)) >= 8
    assert not re.search(r"0\.\d{2}|\d ?%|\d×", measured)


def test_a_missing_figure_would_be_noticed():
    with pytest.raises(KeyError):
        numbers_of_record.NUMBERS["no such figure"]
    assert numbers_of_record.times(0.812) == "0.81×"
    assert numbers_of_record.times(7.29) == "7.3×"
    assert numbers_of_record.times(22.6) == "23×"


# --- code ----------------------------------------------------------------------------------------------------------------------


def blocks() -> dict[str, str]:
    """Code on pages that stands alone; notebooks run when the site is built."""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if text.startswith("---\nfile_format"):
            continue
        for k, code in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)):
            if "import movegrad" in code and 'device="cuda"' not in code:
                found[f"{page.relative_to(DOCS).with_suffix('').as_posix()} {k}"] = code
    return found


BLOCKS = blocks()


@pytest.mark.parametrize("block", slow_but_for(lambda block: block.startswith("guides/index_and_time"), BLOCKS))
def test_code_on_pages_runs(block, capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    if "mg.plot" in BLOCKS[block]:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)  # pictures that they save
    exec(compile(BLOCKS[block], block, "exec"), {"__name__": "page"})


def test_the_story_of_a_problem_shows_the_code_of_its_example():
    """Each line of the story's functions stands in examples/tsp.py, but where it says that something is wrong or left out."""
    story = (DOCS / "guides" / "adding_a_problem.md").read_text(encoding="utf-8")
    example = {line.strip() for line in (ROOT / "examples" / "tsp.py").read_text(encoding="utf-8").splitlines()}
    shown = [code for code in re.findall(r"```python\n(.*?)```", story, re.DOTALL) if "@mg.jit" in code and "wrong" not in code]
    assert len(shown) >= 3
    code = [line.strip() for text in shown for line in text.splitlines() if line.strip() and '"""' not in line]
    assert [line for line in code if line not in example] == []


# --- the gallery ---------------------------------------------------------------------------------------------------------------

GALLERY = sorted(page for page in (DOCS / "gallery").glob("*.md") if page.stem != "index")


def test_there_are_eight_pages_in_the_gallery_and_the_index_has_all():
    index = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    assert len(GALLERY) == 8
    assert all(f"({page.name})" in index for page in GALLERY)


@pytest.mark.parametrize("page", GALLERY, ids=lambda page: page.stem)
def test_a_page_of_the_gallery_begins_with_a_question_and_ends_with_a_picture(page):
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^# .+\n\n\*[^*]+\?", text, re.MULTILINE)
    last = re.findall(r"```\{code-cell\}\n(.*?)```", text, re.DOTALL)[-1]
    assert "mg.plot." in last or "plt.show()" in last


def test_every_picture_of_chains_is_in_the_gallery():
    text = "".join(page.read_text(encoding="utf-8") for page in GALLERY)
    for picture in ("trace", "acceptance", "marginals", "regret", "tour", "routes", "schedule"):
        assert f"mg.plot.{picture}(" in text
