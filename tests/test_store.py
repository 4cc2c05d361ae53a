"""What studies keep on disk: several processes write it at once, kills and damage are survived or named."""

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from experiments import collect
from experiments.display import save_figure
from experiments.store import (
    Damaged,
    OtherVersion,
    Store,
    locked,
    read_arrays,
    read_json,
    read_record,
    replacing,
    write_arrays,
    write_json,
    write_rows,
    write_text,
)
from experiments.version import UNKNOWN

WRITERS, ROWS = 4, 20
SETTINGS, CODE = {"sizes": (1, 2)}, "1.0+abc"


class Solver:
    """In place of a pool of solvers: a label for each row of values."""

    workers = 0

    def solve(self, name, limit, values):
        return (values > 0).astype(np.uint8), None


def values() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 5))


def write_all(folder: Path, writer: int, ready) -> None:
    """What a process of a study writes: rows of its own and one that all have, labels, a picture, a counter under a lock."""
    import matplotlib.pyplot as plt

    from experiments.knapsack import data
    from experiments.knapsack.settings import Data

    store = Store(folder / "rows.json", SETTINGS, CODE)
    ready.wait()
    for i in range(ROWS):
        store.get(f"{writer} | {i}", lambda i=i: {"value": i})
        store.get(f"all | {i}", lambda: {"value": writer})
        write_arrays(folder / "arrays.npz", {"x": np.full(1000, writer)})
        with locked(folder / "count.json"):
            count = read_json(folder / "count.json") if (folder / "count.json").exists() else 0
            write_json(folder / "count.json", count + 1)
    labels = data.labels(Data(380, 10, 10, items=5), values(), Solver(), folder)
    np.testing.assert_array_equal(labels, values() > 0)
    save_figure(plt.figure(figsize=(1, 1)), folder / "figure.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where four processes have written."""
    out, context = tmp_path_factory.mktemp("shared"), multiprocessing.get_context("spawn")
    ready = context.Barrier(WRITERS)
    processes = [context.Process(target=write_all, args=(out, writer, ready)) for writer in range(WRITERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * WRITERS
    return out


def test_no_row_of_any_process_is_lost(folder):
    store = Store(folder / "rows.json", SETTINGS, CODE)
    expected = {f"{writer} | {i}": i for writer in range(WRITERS) for i in range(ROWS)}
    assert {key: row["value"] for key, row in store.rows.items() if not key.startswith("all")} == expected
    assert len(store.rows) == (WRITERS + 1) * ROWS
    assert read_json(folder / "count.json") == WRITERS * ROWS


def test_files_that_several_processes_replace_are_whole_and_nothing_is_left_over(folder):
    assert len(set(read_arrays(folder / "arrays.npz", "x")["x"])) == 1
    (labels,) = folder.glob("labels_*.npz")
    content = read_arrays(labels)
    assert content["done"] == 400
    np.testing.assert_array_equal(content["solutions"], values() > 0)
    assert (folder / "figure.png").stat().st_size > 200
    assert not [path.name for path in folder.iterdir() if "tmp" in path.name or "part" in path.name]


def test_a_store_has_the_rows_of_its_settings(tmp_path):
    path = tmp_path / "rows.json"
    first, second = (Store(path, SETTINGS, CODE) for _ in range(2))
    first.get("x", lambda: {"v": 1})
    second.get("y", lambda: {"v": 2})
    assert second.get("x", lambda: pytest.fail("it is there")) == first.rows["x"]
    assert set(Store(path, SETTINGS, CODE).rows) == {"x", "y"}
    assert not Store(path, SETTINGS, CODE, fresh=True).rows
    first.get("z", lambda: {"v": 3})
    assert set(Store(path, SETTINGS, CODE).rows) == {"x", "z"}, "rows that a process has are kept, even where others begin afresh"


def test_labels_of_a_process_that_is_behind_do_not_undo_those_of_another(tmp_path):
    from experiments.knapsack.data import keep

    done, behind = np.ones((4, 2), np.uint8), np.zeros((4, 2), np.uint8)
    keep(tmp_path / "labels.npz", done, 3)
    solutions, count = keep(tmp_path / "labels.npz", behind, 2)
    assert count == 3
    np.testing.assert_array_equal(solutions, done)


def test_rows_of_other_settings_are_refused_and_kept(tmp_path):
    path, sentence = (
        tmp_path / "rows.json",
        r"rows\.json has rows of other settings \(a\): --fresh .*, --out FOLDER .*, --report .*\.$",
    )
    one, other = Store(path, {"a": 1, "b": 0}, CODE), Store(path, {"a": 2, "b": 0}, CODE)
    one.get("x", dict)
    with pytest.raises(OtherVersion, match=sentence):
        other.get("x", dict)
    with pytest.raises(OtherVersion, match=sentence):
        Store(path, {"a": 2, "b": 0}, "1.1+def")
    with pytest.raises(OtherVersion, match="fewer of them"):
        Store(path, {"a": 1}, CODE)
    assert read_record(path).settings == {"a": 1, "b": 0}
    assert set(read_record(path).rows) == {"x"}
    Store(path, {"a": 2, "b": 0}, CODE, fresh=True).get("y", dict)
    assert read_record(path).settings == {"a": 2, "b": 0}
    with pytest.raises(OtherVersion, match=sentence):
        one.get("z", dict)


def test_rows_of_other_code_are_refused_and_kept(tmp_path):
    path = tmp_path / "rows.json"
    Store(path, SETTINGS, "1.0+abc").get("x", lambda: {"v": 1})
    before = path.read_bytes()
    sentence = r"rows\.json has rows of other code \(1\.0\+abc; this is 1\.1\+def\): --fresh .*, --out FOLDER .*, --report .*\.$"
    with pytest.raises(OtherVersion, match=sentence):
        Store(path, SETTINGS, "1.1+def")
    assert path.read_bytes() == before
    running = Store(path, SETTINGS, "1.0+abc")
    Store(path, SETTINGS, "1.1+def", fresh=True).get("y", lambda: {"v": 2})
    with pytest.raises(OtherVersion, match=r"1\.1\+def; this is 1\.0\+abc"):
        running.get("z", lambda: {"v": 3})
    assert set(read_record(path).rows) == {"y"}
    content = json.loads(path.read_text())
    del content["code"]
    write_json(path, content)
    assert read_record(path).code == UNKNOWN
    with pytest.raises(OtherVersion, match=UNKNOWN):
        Store(path, SETTINGS, "1.1+def")


def test_rows_have_a_line_each_in_the_given_order(tmp_path):
    path, order = tmp_path / "rows.json", ("κ", "b", "c")
    Store(path, SETTINGS, CODE, order=order).get("c", lambda: {"v": [1, 2], "seconds": 7.0})
    Store(path, SETTINGS, CODE).get("other", dict)
    for key in ("b", "κ"):
        Store(path, SETTINGS, CODE, order=order).get(key, dict)
    assert list(read_record(path).rows) == ["other", *order]
    assert '\n  "c": {"v": [1, 2], "seconds": 7.0}\n' in path.read_text(encoding="utf-8"), "a time of its own stays"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "old")

    def fail() -> None:
        with replacing(tmp_path / "a.txt") as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"rows": {}}', b"\xff"])
def test_a_damaged_store_is_named(tmp_path, content):
    (tmp_path / "rows.json").write_bytes(content)
    with pytest.raises(Damaged, match=r"rows\.json is damaged \(.*\): delete it, and what it held is computed anew\.$"):
        Store(tmp_path / "rows.json", SETTINGS, CODE)
    assert not Store(tmp_path / "rows.json", SETTINGS, CODE, fresh=True).rows


def test_damaged_arrays_are_named(tmp_path):
    path = tmp_path / "arrays.npz"
    write_arrays(path, {"x": np.arange(1000)}, compressed=True)
    whole = path.read_bytes()
    flipped = whole[:150] + bytes(255 - b for b in whole[150:180]) + whole[180:]
    for content in (b"", b"nothing", whole[: len(whole) // 2], flipped):
        path.write_bytes(content)
        with pytest.raises(Damaged, match=r"arrays\.npz is damaged \("):
            read_arrays(path)
    path.write_bytes(whole)
    with pytest.raises(Damaged, match="it has no 'y'"):
        read_arrays(path, "x", "y")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "other.npz")


# --- rows of several files ------------------------------------------------------------------------------------------------------


def of_part(path: Path, settings: dict, code: str, rows: dict) -> Path:
    write_rows(path, {"settings": settings, "machine": "m", "code": code, "rows": rows})
    return path


def test_rows_of_several_files_are_collected_and_say_which_code_made_them(tmp_path, capsys):
    settings = {"boards": ["a"], "data": {"n": 3}}
    one = of_part(tmp_path / "part.json", settings, "1", {"a x": {"v": 1}, "a y": {"v": 2}})
    later = {"boards": ["b", "a"], "data": {"n": 3}, "first": 0}
    two = of_part(tmp_path / "more" / "part.json", later, "2", {"a y": {"v": 3}, "b x": {"v": 4}})
    collect.main([str(one), str(one), str(two)])  # the first takes in the second
    record = read_record(one)
    assert record.settings == {"boards": ["a", "b"], "data": {"n": 3}, "first": 0}
    assert record.rows == {"a x": {"v": 1, "code": "1"}, "a y": {"v": 3, "code": "2"}, "b x": {"v": 4, "code": "2"}}
    assert (record.code, record.machine) == (collect.SEVERAL, "m")
    assert "part.json: 3 rows" in capsys.readouterr().out
    collect.main([str(tmp_path / "again" / "part.json"), str(one)])
    assert read_record(tmp_path / "again" / "part.json").rows == record.rows, "collected twice, a row still names its own code"
    with pytest.raises(OtherVersion, match="rows of other code"):
        Store(one, record.settings, "2")


def test_files_of_other_settings_or_parts_are_not_collected(tmp_path):
    one, two = (of_part(tmp_path / str(n) / "part.json", {"times": [1, n]}, "1", {"a": {}}) for n in (3, 4))
    other, out = of_part(tmp_path / "other.json", {}, "1", {"a": {}}), tmp_path / "part.json"
    with pytest.raises(SystemExit, match=r"FILE must have the settings of those before it, got times \[1, 4\], not \[1, 3\]"):
        collect.main([str(out), str(one), str(two)])
    with pytest.raises(SystemExit, match="nowhere"):
        collect.main([str(out), str(tmp_path / "nowhere" / "part.json")])
    with pytest.raises(SystemExit, match=r"FILE must be of the same part as OUT, part\.json, got .*other\.json"):
        collect.main([str(out), str(one), str(other)])
    assert not out.exists()
