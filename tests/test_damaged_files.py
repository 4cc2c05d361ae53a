"""Files of studies that can be read but hold something else: the error names the file and what to do about it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from experiments.knapsack import data as knapsack_data
from experiments.knapsack.settings import Data
from experiments.store import Damaged, Store, write_arrays, write_json

ANEW, FETCH, RETRAIN = "delete it, and what it held is computed anew", "fetch it anew from where it came", "train the model anew"


def assert_damaged(call, path, cure):
    """``call`` raises one sentence with the path, a reason and what to do."""
    with pytest.raises(Damaged) as caught:
        call()
    assert re.fullmatch(rf"{re.escape(str(path))} is damaged \(.+\): {re.escape(cure)}\.", str(caught.value)), str(caught.value)


@pytest.mark.parametrize("rows", [3, [], {"a": 3}, {"a": {}, "b": None}])
def test_a_store_of_something_else(tmp_path, rows):
    write_json(tmp_path / "rows.json", {"settings": {"n": 1}, "rows": rows})
    assert_damaged(lambda: Store(tmp_path / "rows.json", {"n": 1}, "1.0"), tmp_path / "rows.json", ANEW)


@pytest.mark.parametrize(
    "content",
    [
        {"solutions": np.zeros((2, 3), np.uint8), "done": np.array(2)},
        {"solutions": np.zeros((4, 3), np.uint8), "done": np.array(5)},
        {"solutions": np.zeros((4, 3), np.uint8), "done": np.array("x")},
        {"solutions": np.zeros((4, 3), np.uint8), "done": np.zeros(2)},
        {"solutions": np.zeros((4, 3), np.uint8)},
    ],
)
def test_labels_of_something_else(tmp_path, content):
    data = replace(Data(2, 1, 1), seed=12345)
    path = knapsack_data.labels_path(data, tmp_path)
    write_arrays(path, content)
    assert_damaged(lambda: knapsack_data.labels(data, np.zeros((4, 3)), None, tmp_path), path, ANEW)


def test_a_model_of_something_else(tmp_path):
    pytest.importorskip("torch_geometric")
    from experiments.dvrptw.models import Architecture, PrizeModel, load, save

    save(PrizeModel(Architecture("linear")), tmp_path)
    right = json.loads((tmp_path / "model.json").read_text())
    for architecture in (3, {"size": 3}, {"kind": "tree"}, {"kind": "mlp", "hidden": "many"}):
        write_json(tmp_path / "model.json", {**right, "architecture": architecture})
        assert_damaged(lambda: load(tmp_path), tmp_path / "model.json", RETRAIN)
    write_json(tmp_path / "model.json", right)
    load(tmp_path)
    weights = dict(np.load(tmp_path / "weights.npz"))
    name = next(iter(weights))
    for content in ({}, {**weights, "more": np.zeros(1)}, {**weights, name: np.zeros(3)}, {**weights, name: np.array(["a"])}):
        write_arrays(tmp_path / "weights.npz", content)
        assert_damaged(lambda: load(tmp_path), tmp_path / "weights.npz", RETRAIN)


def test_a_run_of_something_else(tmp_path):
    pytest.importorskip("torch_geometric")
    import torch

    from experiments.dvrptw.layers import LayerSettings
    from experiments.dvrptw.models import Graph
    from experiments.dvrptw.train import Run, Training

    graph = Graph(torch.randn(3, 20), torch.tensor([[0, 1], [1, 2]]), torch.ones(2, 1))
    run = Run(Training(LayerSettings("target", steps=5)), [graph], tmp_path)
    run.store()
    assert run.load()
    right = dict(np.load(tmp_path / "state.npz"))
    for wrong in ({"history": np.array("[")}, {"model/more": np.zeros(1)}, {"adam/x/step": np.zeros(1)}, {"adam/0": np.zeros(1)}):
        write_arrays(tmp_path / "state.npz", right | wrong)
        assert_damaged(run.load, tmp_path / "state.npz", ANEW)


DAY = {"instance": "a", "seed": "x"}


@pytest.mark.parametrize("content", [[], {"train": 3}, {"train": [3]}, {"train": [{"seed": 1}]}, {"train": [DAY]}])
def test_splits_of_something_else(tmp_path, content):
    from experiments.dvrptw.data import Source

    write_json(tmp_path / "splits.json", content)
    assert_damaged(lambda: Source(tmp_path, 50).days("train"), tmp_path / "splits.json", FETCH)


@pytest.mark.parametrize("content", [[], {"a": 3}, {"a": {"cost": 1}}, {"a": {"cost": 1, "routes": [3]}}])
def test_published_solutions_of_something_else(tmp_path, content):
    from experiments.dvrptw.data import Source

    path = tmp_path / "anticipative_train_3600s.json"
    write_json(path, content)
    assert_damaged(lambda: Source(tmp_path, 50).published(), path, FETCH)


def test_a_published_network_of_something_else(tmp_path):
    from experiments.dvrptw.policies import published_network

    write_arrays(tmp_path / "kleopatra_nn.npz", {"w0": np.zeros((2, 2))})
    assert_damaged(lambda: published_network(tmp_path), tmp_path / "kleopatra_nn.npz", FETCH)
