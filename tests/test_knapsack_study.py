"""The knapsack study: a tiny run of every part, resuming, labels that are computed once, solvers that agree."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

pytest.importorskip("pyepo")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from experiments.knapsack import benchmark, data, methods, study, sweep, tune
from experiments.knapsack.settings import Data, Limited, Size, Sweep, Training
from experiments.knapsack.solvers import Pool, make_solver
from experiments.knapsack.train import Bench

ANNEALING = Limited("movegrad", 0.002)
TINY = Size(
    Data(40, 8, 10, features=6, items=12, constraints=3, label_solver="movegrad", label_limit=0.002),
    Training(epochs=3, validate=ANNEALING, decide=ANNEALING, probes=(1, 3), repeats=4),
    Sweep((0.1,), (0.1, 1.0), 5),
)
BOTH = study.Choice(("ours", "mse"), (0, 1))


@pytest.fixture
def bench(tmp_path):
    return Bench(TINY, workers=0, folder=tmp_path / "labels")


@pytest.fixture(autouse=True)
def short_chains(monkeypatch):
    for name, method in methods.METHODS.items():
        if "steps" in method.options:
            monkeypatch.setitem(methods.METHODS, name, replace(method, options={**method.options, "steps": 200}))


def untimed(rows):
    return {key: {k: v for k, v in row.items() if "seconds" not in k} for key, row in rows.items()}


def test_benchmark_runs_and_resumes(bench, tmp_path):
    out = tmp_path / "run"
    rows = study.run_part(benchmark.PART, bench, BOTH, out)
    assert len(rows) == 4
    for row in rows.values():
        assert -0.01 <= row["test"] < 1
        assert row["best_validation"] == min(row["validation"]) == row["validation"][row["best_epoch"] - 1]
        assert [v is not None for v in row["variance"]] == [True, False, True]
        assert (row["variance"][0] > 0) == (row["method"] == "ours")
    names = {"benchmark.json", "benchmark_runs.csv", "benchmark_runs_epochs.csv", "benchmark.txt", "benchmark.png"}
    assert names <= {path.name for path in out.iterdir()}
    part = json.loads((out / "benchmark.json").read_text())
    part["rows"].pop(next(iter(part["rows"])))  # a run that was killed
    (out / "benchmark.json").write_text(json.dumps(part))
    again = study.run_part(benchmark.PART, bench, BOTH, out)
    assert untimed(again) == untimed(rows)
    fewer = study.run_part(benchmark.PART, bench, study.Choice(("mse",), (0,)), out)
    assert fewer == again  # rows of other methods stay


def test_sweep_and_tuning_run(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "variants", lambda: [tune.variant("ours", temperature=3.0), tune.variant("mse", 1e-2)])
    rows = study.run_part(tune.PART, bench, study.Choice(("ours", "mse"), (0,)), tmp_path)
    assert len(rows) == 2
    assert all("test" not in row and row["seed"] == tune.OFFSET for row in rows.values())
    rows = study.run_part(sweep.PART, bench, study.Choice((), (0,)), tmp_path)
    assert [row["method"] for row in rows.values() if row["table"] == "runs"] == ["ours", "last-iterate"]
    assert [row["limit_ms"] for row in rows.values() if row["table"] == "gap"] == [0.1, 1.0]
    assert (tmp_path / "sweep.png").exists()


def test_labels_resume(tmp_path):
    weights, capacities, _, costs = data.generate(TINY.data)

    class Killed(Pool):
        calls = 0

        def solve(self, name, limit, values):
            self.calls += 1
            if self.calls == 3:
                raise KeyboardInterrupt
            return super().solve(name, limit, values)

    killed = Killed(weights, capacities, workers=0)
    with pytest.raises(KeyboardInterrupt):
        data.labels(TINY.data, costs, killed, tmp_path)
    rest = Killed(weights, capacities, workers=0)
    y = data.labels(TINY.data, costs, rest, tmp_path)
    assert rest.calls == 1  # 40 of 58 were there
    assert (y @ weights.T <= capacities + 1e-9).all()
    done = Killed(weights, capacities, workers=0)
    np.testing.assert_array_equal(data.labels(TINY.data, costs, done, tmp_path), y)
    assert done.calls == 0
    assert data.labels_path(replace(TINY.data, seed=1), tmp_path) != data.labels_path(TINY.data, tmp_path)


def best_value(weights, capacities, values):
    packings = np.array(list(product((0, 1), repeat=len(values))))
    return (packings[(packings @ weights.T <= capacities).all(1)] @ values).max()


@pytest.mark.parametrize(("name", "package"), [("gurobi", "gurobipy"), ("highs", "highspy"), ("movegrad", "movegrad")])
def test_solvers_find_the_best(name, package):
    pytest.importorskip(package)
    weights, capacities, _, costs = data.generate(TINY.data)
    solve = make_solver(name, weights, capacities, 1.0 if name != "movegrad" else 0.005)
    for values in (*costs[:3], costs[3] - 5.0):
        found = solve(values)
        assert found.solution @ values == pytest.approx(best_value(weights, capacities, values))
        assert (weights @ found.solution <= capacities + 1e-9).all()


@pytest.mark.parametrize("name", ["spo-lp", "pfy-lp", "spo", "pfy", "nid", "nce"])
def test_baselines_give_gradients(name, bench):
    pytest.importorskip("highspy")
    import torch

    from experiments.knapsack.train import Tensors

    context = bench.context(0)._replace(solver="highs", limit=1.0)
    theta = torch.rand(4, 12, requires_grad=True)
    _, batch = Tensors(bench.instances.train).rows(torch.arange(4))
    methods.METHODS[name].loss(context)(theta, batch).backward()
    assert torch.isfinite(theta.grad).all()
    assert theta.grad.abs().sum() > 0
