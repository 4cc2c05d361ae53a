"""The demo on a tiny problem: data, three ways to learn, table and figure."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

EXAMPLE = Path(__file__).parents[1] / "examples" / "knapsack.py"
COMMITTED = EXAMPLE.parent / "results" / "knapsack.json"  # what the page of the demo shows
TINY = {
    "ITEMS": 10, "CAPACITIES": 3, "FEATURES": 5, "TRAIN": 64, "VALIDATION": 10, "TEST": 20, "STEPS": 200, "RATE": 2e-2,
    "EPOCHS": (20, 20), "EVERY": 10, "DEGREE": 4, "DATA_SETS": 2,
}  # fmt: skip


@pytest.fixture
def example(monkeypatch):
    spec = importlib.util.spec_from_file_location("knapsack_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in TINY.items():
        monkeypatch.setattr(module, name, value)
    return module


def test_demo_runs(example, monkeypatch, tmp_path, capsys):
    rows = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["knapsack.py", "--figure", str(tmp_path / "out" / "demo.png"), "--rows", str(rows)])
    order = []
    for name in ("warm_up", "train"):
        function = getattr(example, name)
        monkeypatch.setattr(example, name, lambda *a, name=name, function=function: order.append(name) or function(*a))
    example.main()
    assert order == 2 * ["warm_up", "train", "train", "train"], "nothing compiles while the clock runs"
    lines = capsys.readouterr().out.splitlines()

    def regret(name):
        row = next(line for line in lines if name in line and "│" in line)
        return float(row.split("│")[3].strip().rstrip("%"))

    constant = regret("one decision for all")
    for way in ("two-stage", "movegrad, decisions alone", "movegrad, at 2θ − c"):
        assert regret(way) < constant  # it has learned something
    assert (tmp_path / "out" / "demo.png").stat().st_size > 0
    written, committed = (json.loads(path.read_text(encoding="utf-8")) for path in (rows, COMMITTED))
    assert [f"{sum(row['regrets']) / 2:.1%}" for row in written] == [f"{regret(row['way']) / 100:.1%}" for row in written]
    assert [row.keys() for row in committed] == [row.keys() for row in written]
    assert [row["way"] for row in committed] == [row["way"] for row in written], "the page of the demo shows other ways"
