"""The framework of studies: runs killed, stopped or doubled, versions never mixed, reports that compute nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

pytest.importorskip("rich")

from experiments import version as version_module
from experiments.collect import SEVERAL
from experiments.display import markdown, table
from experiments.framework import Part, Study, arguments, main, rebuilt, run_part
from experiments.store import OtherVersion, Store, read_record
from experiments.version import UNKNOWN, version

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("convergence", "recovery", "knapsack", "dvrptw")
TINY = """
import sys, time
from dataclasses import asdict, dataclass, field
from pathlib import Path
import matplotlib.pyplot as plt
from experiments.display import table
from experiments.framework import Part, Study, main

HERE = Path(__file__).parent
FACTOR = 1

@dataclass(frozen=True)
class Settings:
    count: int = 8

def square(i):
    time.sleep(0.15)
    with (HERE / "log").open("a") as file:
        file.write(f"{i} ")
    return {"value": FACTOR * i * i}

def tasks(settings):
    return {f"row {i}": lambda i=i: square(i) for i in range(settings.count)}

def tables(settings, rows):
    return [table("Squares", "key", "value", lines=[[key, str(row["value"])] for key, row in rows.items()])]

def figures(settings, rows):
    figure, axes = plt.subplots(figsize=(2, 2))
    axes.plot([row["value"] for row in rows.values()])
    return {"squares": figure, "more": plt.figure(figsize=(1, 1))}

STUDY = Study("tiny", "Squares.", HERE, ("squares",), lambda options: [Part("squares", Settings(), tasks, tables, figures)])

if __name__ == "__main__":
    main(STUDY)
"""


# Ctrl-C, even if these tests run in the background, where a shell lets processes ignore it.
HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.py").write_text(HEARS + TINY)
    return tmp_path


def start(folder: Path, *words: str) -> subprocess.Popen:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(folder / "tiny.py"), *words],
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def wait_for_rows(process: subprocess.Popen, path: Path, count: int) -> None:
    while process.poll() is None and not (path.exists() and len(read_record(path).rows) >= count):
        time.sleep(0.02)


def values(path: Path) -> dict:
    """The file without the times that rows took."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for row in content["rows"].values():
        del row["seconds"]
    return content


def log(folder: Path) -> list[int]:
    return [int(word) for word in (folder / "log").read_text().split()]


# --- runs ----------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_killed_goes_on_to_the_same_file(tiny):
    assert ended(start(tiny, "--out", str(tiny / "whole")))[0] == 0
    (tiny / "log").unlink()
    path = tiny / "cut" / "squares.json"
    process = start(tiny, "--out", str(path.parent))
    wait_for_rows(process, path, 2)
    process.send_signal(signal.SIGKILL)
    assert ended(process)[0] == -signal.SIGKILL
    kept = read_record(path).rows
    assert 2 <= len(kept) < 8
    code, out, _ = ended(start(tiny, "--out", str(path.parent)))
    assert code == 0
    assert "49" in out
    assert values(path) == values(tiny / "whole" / "squares.json")
    assert list(read_record(path).rows) == [f"row {i}" for i in range(8)]
    assert read_record(path).rows.items() >= kept.items(), "what was there is kept, not computed again"
    assert len(log(tiny)) <= 9, "but for the row that was killed, each is computed once"


def test_ctrl_c_is_answered_and_the_run_goes_on(tiny):
    path = tiny / "out" / "quick" / "squares.json"
    process = start(tiny)
    wait_for_rows(process, path, 1)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert time.monotonic() - begin < 5
    assert code == 130
    assert err.strip() == "Stopped; the same command goes on from here."
    assert 1 <= len(read_record(path).rows) < 8
    assert ended(start(tiny))[0] == 0
    assert len(read_record(path).rows) == 8


WORKERS = """
import os, signal

def elsewhere(key):
    i = int(key.split()[1])
    with (HERE / "tried").open("a") as file:
        file.write(f"{i} ")
    if (HERE / "tried").read_text().split().count(str(i)) <= DEATHS.get(i, 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if i in SLOW:
        time.sleep(60)
    return {"value": i * i}

def options(parser):
    parser.add_argument("--workers", type=int)

part = Part("squares", Settings(), tasks, tables, elsewhere=elsewhere)
STUDY = Study("tiny", "Squares.", HERE, ("squares",), lambda options: [part], (), options)

if __name__ == "__main__":
    main(STUDY)
"""


def with_workers(folder: Path, deaths: dict[int, int], slow: tuple[int, ...] = ()) -> None:
    text = (HEARS + TINY).replace('if __name__ == "__main__":\n    main(STUDY)\n', f"DEATHS, SLOW = {deaths}, {slow}\n")
    (folder / "tiny.py").write_text(text + WORKERS)


def test_workers_that_die_are_replaced_and_lose_nothing(tmp_path):
    with_workers(tmp_path, {1: 1, 5: 1})
    code, _, err = ended(start(tmp_path, "--workers", "2"))
    assert code == 0, err
    rows = read_record(tmp_path / "out" / "quick" / "squares.json").rows
    assert {key: row["value"] for key, row in rows.items()} == {f"row {i}": i * i for i in range(8)}


def test_workers_that_die_again_and_again_end_the_run_in_a_sentence(tmp_path):
    with_workers(tmp_path, {7: 99})
    code, _, err = ended(start(tmp_path, "--workers", "1"))
    assert code == 1
    assert "Processes died 3 times" in err
    assert "1 rows are missing" in err
    assert "Traceback" not in err


def test_ctrl_c_does_not_wait_for_workers(tmp_path):
    with_workers(tmp_path, {}, (3,))
    process, path = start(tmp_path, "--workers", "1"), tmp_path / "out" / "quick" / "squares.json"
    wait_for_rows(process, path, 3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert time.monotonic() - begin < 20
    assert code == 130, err
    assert "Stopped; the same command goes on from here." in err


def test_two_processes_at_once_fill_one_file(tiny):
    processes = [start(tiny) for _ in range(2)]
    assert [ended(process)[0] for process in processes] == [0, 0]
    rows = read_record(tiny / "out" / "quick" / "squares.json").rows
    assert {key: row["value"] for key, row in rows.items()} == {f"row {i}": i * i for i in range(8)}
    assert list(rows) == [f"row {i}" for i in range(8)]
    assert not list((tiny / "out").rglob("*.tmp"))


def test_versions_are_never_mixed(tiny):
    path = tiny / "out" / "quick" / "squares.json"
    assert ended(start(tiny))[0] == 0
    before, old = path.read_bytes(), read_record(path).code
    (tiny / "tiny.py").write_text(HEARS + TINY.replace("FACTOR = 1", "FACTOR = 2"))
    code, _, err = ended(start(tiny))
    assert code == 1
    assert err.startswith(f"{path} has rows of other code ({old}; this is ")
    assert err.count("\n") == 1
    assert all(word in err for word in ("--fresh", "--out", "--report"))
    assert path.read_bytes() == before
    code, out, _ = ended(start(tiny, "--report", "--out", str(path.parent)))
    assert code == 0
    assert f"8 rows by code {old}" in out
    assert ended(start(tiny, "--out", str(tiny / "apart")))[0] == 0
    assert values(tiny / "apart" / "squares.json")["rows"]["row 3"] == {"value": 18}
    assert path.read_bytes() == before
    assert ended(start(tiny, "--fresh"))[0] == 0
    assert values(path) == values(tiny / "apart" / "squares.json")


# --- parts ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    name: str
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Settings:
    inner: tuple[Inner, ...] = (Inner("a"), Inner("b", ()))
    by_name: dict[str, Inner] = field(default_factory=lambda: {"c": Inner("c")})
    limit: float | None = None


def rows_of(settings):
    return {"one": lambda: {"value": len(settings.inner)}, "two": lambda: {"value": 7}}


def tables_of(settings, rows):
    return [table("Values", "key", settings.inner[0].name, lines=[[key, str(row["value"])] for key, row in rows.items()])]


def figures_of(settings, rows):
    return {"shown": plt.figure(figsize=(1, 1)), "other": plt.figure(figsize=(1, 1))}


PART = Part("values", Settings(), rows_of, tables_of, figures_of)


def study(folder: Path, part: Part = PART) -> Study:
    return Study("values", "Values.", folder, ("values",), lambda options: [part])


def test_settings_come_back_from_a_file():
    assert rebuilt(Settings, json.loads(json.dumps(asdict(PART.settings)))) == PART.settings


def test_a_report_computes_nothing_and_uses_the_settings_of_the_file(tmp_path, capsys):
    out = tmp_path / "results"
    run_part(PART, out)
    (out / "other.png").unlink()
    (out / "shown.png").write_bytes(b"old")
    before = (out / "values.json").read_bytes()
    blind = PART._replace(settings=Settings((Inner("z"),)), tasks=lambda settings: pytest.fail("it computes"))
    open_before = len(plt.get_fignums())
    main(study(tmp_path, blind), ["--report", "--markdown"])
    shown = capsys.readouterr().out
    assert f"values.json: 2 rows by code {PART.code}" in shown
    assert "**Values**\n\n| key | a |\n| --- | --- |\n| one | 2 |\n| two | 7 |\n" in shown
    assert (out / "values.json").read_bytes() == before
    assert (out / "shown.png").read_bytes().startswith(b"\x89PNG"), "pictures that are there are drawn again"
    assert not (out / "other.png").exists(), "and no others beside results that come with a study"
    assert len(plt.get_fignums()) == open_before
    main(study(tmp_path, blind), ["--report", "--out", str(out)])
    assert (out / "other.png").exists()


def test_what_cannot_be_shown_is_said_in_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit, match="holds no results of values"):
        main(study(tmp_path), ["--report"])
    (tmp_path / "results").mkdir()
    for settings in ({"unknown": 1}, {"inner": [{"name": 1, "size": 2}]}):
        (tmp_path / "results" / "values.json").write_text(json.dumps({"settings": settings, "rows": {}}))
        with pytest.raises(SystemExit, match=r"values\.json cannot be shown \(.*\): its run has not ended, .* \(before versions"):
            main(study(tmp_path), ["--report"])
    half = PART._replace(figures=lambda settings, rows: {"x": rows["not yet"]})
    (tmp_path / "results" / "values.json").write_text(json.dumps({"settings": {}, "rows": {}}))
    with pytest.raises(SystemExit, match=r"values\.json cannot be shown \(KeyError: 'not yet'\)"):
        main(study(tmp_path, half), ["--report"])
    for content in ("{", '{"settings": 3, "rows": {}}', '{"settings": {}, "rows": 3}'):
        (tmp_path / "results" / "values.json").write_text(content)
        with pytest.raises(SystemExit, match=r"values\.json is damaged \(.*\): delete it"):
            main(study(tmp_path), ["--report"])
    with pytest.raises(SystemExit):
        main(study(tmp_path), ["--only", "else"])
    assert "--only must name parts among values, got else." in capsys.readouterr().err


def test_only_what_is_missing_is_prepared(tmp_path):
    asked = []
    part = PART._replace(prepare=asked.append)
    store = tmp_path / "values.json"
    run_part(part, tmp_path)
    content = json.loads(store.read_text())
    content["rows"].pop("one")
    store.write_text(json.dumps(content))
    run_part(part, tmp_path)
    run_part(part, tmp_path)
    assert asked == [["one", "two"], ["one"]]
    assert list(read_record(store).rows) == ["one", "two"]


def test_results_go_to_folders_of_their_own(tmp_path):
    chosen = lambda *words: arguments(study(tmp_path), list(words)).out  # noqa: E731
    assert chosen() == tmp_path / "out" / "quick"
    assert chosen("--full") == tmp_path / "out" / "full"
    assert chosen("--report") == tmp_path / "results", "a run does not write there unless it is told to"
    assert chosen("--full", "--out", "x") == Path("x")


def test_tables_as_markdown():
    shown = table("T", "a", "b", lines=[["x", "1"], ["y", "2 ±3"]])
    assert markdown(shown) == "**T**\n\n| a | b |\n| --- | --- |\n| x | 1 |\n| y | 2 ±3 |\n"


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    page = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    (tmp_path / "mine_study.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    main(import_module("mine_study").STUDY, [])
    assert "d = 5" in capsys.readouterr().out
    assert list(read_record(tmp_path / "mine" / "out" / "quick" / "mean.json").rows) == ["d = 3", "d = 4", "d = 5"]


# --- versions ------------------------------------------------------------------------------------------------------------


def test_a_version_covers_what_is_imported_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(version_module, "ROOT", tmp_path)
    files = {
        "a.py": "from experiments.study import b\n",
        "study/__init__.py": "",
        "study/b.py": "def f():\n    from experiments.study.c import value\n",
        "study/c.py": "value = 1\n",
        "store.py": "from experiments.study import unused\n",
        "study/unused.py": "x = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    fresh = version.__wrapped__
    first = fresh("experiments.a")
    assert fresh("experiments.a") == first
    (tmp_path / "study" / "unused.py").write_text("x = 2\n")
    (tmp_path / "store.py").write_text("y = 2\n")
    assert fresh("experiments.a") == first
    (tmp_path / "study" / "c.py").write_bytes(b"value = 1\r\n")
    assert fresh("experiments.a") == first
    (tmp_path / "study" / "c.py").write_text("value = 2\n")
    second = fresh("experiments.a")
    assert second != first
    (tmp_path / "a.py").write_text("import pyvrp\n" + files["a.py"])
    third = fresh("experiments.a")
    monkeypatch.setattr(version_module, "installed", lambda package: "99")
    assert len({second, third, fresh("experiments.a")}) == 3, "packages count, too"


def test_parts_have_the_version_of_the_module_that_computes():
    assert PART.code == version(__name__)
    found = version_module.modules("experiments.dvrptw.studies")
    assert {"experiments.dvrptw.train", "experiments.dvrptw.solver", "experiments.dvrptw.layers"} <= found.keys()
    assert not {"experiments.dvrptw.report", "experiments.store", "experiments.framework"} & found.keys()


# --- what comes with the studies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_results_are_files_of_rows_and_what_the_page_shows(name):
    folder = ROOT / "experiments" / name
    page = (folder / "README.md").read_text(encoding="utf-8")
    for path in (folder / "results").rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            if path.suffix == ".json":
                assert read_record(path).rows
            else:
                assert path.suffix in (".png", ".html") or path.name == "tables.md"
                assert path.relative_to(folder).as_posix() in page


@pytest.mark.parametrize("name", STUDIES)
def test_tables_of_the_results_can_be_made_from_their_files(name):
    for package in {"knapsack": ("pyepo",), "dvrptw": ("torch_geometric", "pyvrp")}.get(name, ()):
        pytest.importorskip(package)
    chosen = import_module(f"experiments.{name}.study").STUDY
    options = arguments(chosen, ["--report"])
    for place in {path.parent for path in options.out.rglob("*.json")}:
        for part in chosen.parts(Namespace(**{**vars(options), "out": place})):
            if (place / f"{part.name}.json").exists():
                record = read_record(place / f"{part.name}.json")
                settings = rebuilt(type(part.settings), record.settings)
                codes = [row["code"] for row in record.rows.values()] if record.code == SEVERAL else [record.code]
                assert all(code == UNKNOWN or re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{12}", code) for code in codes)
                with pytest.raises(OtherVersion, match=re.escape(record.code)):
                    Store(place / f"{part.name}.json", record.settings, "another")
                assert all(shown.row_count for shown in part.tables(settings, record.rows))


ORPHAN = """
import os, sys, time
from pathlib import Path
from experiments.workers import pool

def task(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    with pool(1) as processes:
        processes.submit(task, sys.argv[1]).result()
"""


def test_workers_end_with_a_study_that_is_killed(tmp_path):
    psutil = pytest.importorskip("psutil")
    script, note = tmp_path / "orphan.py", tmp_path / "pid"
    script.write_text(ORPHAN)
    study = subprocess.Popen([sys.executable, script, note], env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = psutil.Process(int(note.read_text()))
    study.kill()
    study.wait()

    def alive() -> bool:
        try:
            return worker.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    deadline = time.monotonic() + 30
    while alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    if alive():
        worker.kill()
        pytest.fail("the worker goes on")
