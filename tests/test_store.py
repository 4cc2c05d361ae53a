"""What studies keep on disk: several processes write it at once, kills and damage are survived or named."""

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from experiments.common import save_figure
from experiments.store import Damaged, Store, locked, read_arrays, read_json, replacing, write_arrays, write_json, write_text

WRITERS, ROWS = 4, 20
SETTINGS = {"sizes": (1, 2)}


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

    store = Store(folder / "rows.json", SETTINGS)
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
    save_figure(plt.figure(figsize=(1, 1)), folder, "figure")


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
    store = Store(folder / "rows.json", SETTINGS)
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
    for name in ("figure.png", "figure.pdf"):
        assert (folder / name).stat().st_size > 200
    assert not [path.name for path in folder.iterdir() if "tmp" in path.name or "part" in path.name]


def test_a_store_has_the_rows_of_its_settings(tmp_path):
    path = tmp_path / "rows.json"
    first, second = (Store(path, SETTINGS) for _ in range(2))
    first.get("x", lambda: {"v": 1})
    second.get("y", lambda: {"v": 2})
    assert second.get("x", lambda: pytest.fail("it is there")) == first.rows["x"]
    assert set(Store(path, SETTINGS).rows) == {"x", "y"}
    assert not Store(path, {"sizes": 3}).rows
    assert not Store(path, SETTINGS, fresh=True).rows
    first.get("z", lambda: {"v": 3})
    assert set(Store(path, SETTINGS).rows) == {"x", "z"}, "rows that a process has are kept, even where others begin afresh"


def test_labels_of_a_process_that_is_behind_do_not_undo_those_of_another(tmp_path):
    from experiments.knapsack.data import keep

    done, behind = np.ones((4, 2), np.uint8), np.zeros((4, 2), np.uint8)
    keep(tmp_path / "labels.npz", done, 3)
    solutions, count = keep(tmp_path / "labels.npz", behind, 2)
    assert count == 3
    np.testing.assert_array_equal(solutions, done)


def test_two_studies_with_other_settings_do_not_share_a_file(tmp_path):
    one, other = Store(tmp_path / "rows.json", {"a": 1}), Store(tmp_path / "rows.json", {"a": 2})
    one.get("x", dict)
    other.get("x", dict)
    with pytest.raises(ValueError, match=r"rows\.json was given to other settings by another process: .* another folder \(--out\)"):
        one.get("y", dict)
    assert json.loads((tmp_path / "rows.json").read_text())["settings"] == {"a": 2}


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
        Store(tmp_path / "rows.json", SETTINGS)
    assert not Store(tmp_path / "rows.json", SETTINGS, fresh=True).rows


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
