"""The knapsack study: a tiny run of every part, resuming, labels that are computed once, solvers that agree."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

pytest.importorskip("pyepo")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import matplotlib.pyplot as plt
from rich.table import Table

import movegrad as mg
from experiments.framework import main, run_part
from experiments.knapsack import ablation, benchmark, data, floor, methods, runs, sets, solve, sweep, tune
from experiments.knapsack.runs import Choice
from experiments.knapsack.settings import QUICK, Data, Limited, Size, Sweep, Training
from experiments.knapsack.solvers import Pool, make_solver
from experiments.knapsack.study import STUDY
from experiments.knapsack.train import Bench
from experiments.statistics import student_interval
from experiments.store import read_record
from experiments.verdicts import paired, stated, verdict

ANNEALING = Limited("movegrad", 0.002)
TINY = Size(
    Data(40, 8, 10, features=6, items=12, constraints=3, label_solver="movegrad", label_work=0.002),
    Training(epochs=3, validate=ANNEALING, decide=ANNEALING, probes=(1, 3), repeats=4),
    Sweep((0.1, 1.0), (0.1, 1.0), 5),
)
BOTH = Choice(("ours", "mse"), (0, 1))


@pytest.fixture
def bench(tmp_path):
    return Bench(TINY, workers=0, folder=tmp_path / "labels")


@pytest.fixture(autouse=True)
def short_chains(monkeypatch):
    for name, method in methods.METHODS.items():
        if "steps" in method.options:
            monkeypatch.setitem(methods.METHODS, name, replace(method, options={**method.options, "steps": 200}))
    monkeypatch.setattr(sweep, "STEPS_PER_SECOND", 200_000)


def untimed(rows):
    return {key: {k: v for k, v in row.items() if "seconds" not in k} for key, row in rows.items()}


def test_benchmark_runs_and_resumes(bench, tmp_path):
    out = tmp_path / "run"
    rows = run_part(benchmark.part(bench, BOTH), out)
    assert len(rows) == 4
    for row in rows.values():
        assert -0.01 <= row["test"] < 1
        assert row["best_validation"] == min(row["validation"]) == row["validation"][row["best_epoch"] - 1]
        assert [v is not None for v in row["variance"]] == [True, False, True]
        assert (row["variance"][0] > 0) == (row["method"] == "ours")
    names = {"benchmark.json", "benchmark.png", "benchmark_training.png", ".benchmark.json.lock"}
    assert names == {path.name for path in out.iterdir()}
    part = json.loads((out / "benchmark.json").read_text())
    part["rows"].pop(next(iter(part["rows"])))  # a run that was killed
    (out / "benchmark.json").write_text(json.dumps(part))
    again = run_part(benchmark.part(bench, BOTH), out)
    assert untimed(again) == untimed(rows)
    fewer = run_part(benchmark.part(bench, Choice(("mse",), (0,))), out)
    assert fewer == again  # rows of other methods stay


def test_other_parts_run(bench, tmp_path, monkeypatch):
    fall = methods.Schedule(4, 1e-2)
    monkeypatch.setattr(tune, "variants", lambda: [tune.variant("ours", temperature=3.0), tune.variant("mse", fall)])
    rows = run_part(tune.part(bench, Choice(("ours", "mse"), (0,))), tmp_path)
    assert len(rows) == 2
    assert all("test" not in row and row["seed"] == tune.OFFSET for row in rows.values())
    assert [len(row["epoch"]) for row in rows.values()] == [3, 4]
    shown = []
    monkeypatch.setattr(benchmark, "TUNED", {"ours-spo": fall, "mse": fall})
    rows = run_part(benchmark.tuned_part(bench, Choice(("ours-spo", "mse", "ours"), (0, 1))), tmp_path, show=shown.append)
    assert [row["method"] for row in rows.values()] == ["ours-spo", "mse"] * 2
    assert list(shown[1].columns[0].cells) == ["mse"]  # ours is compared with it
    rows = run_part(sweep.part(bench, Choice(("ours", "ours-spo", "mse"), (0,))), tmp_path)
    swept = [(row["limit_ms"], row["method"]) for row in rows.values() if row["table"] == "runs"]
    assert swept == [(0.1, "ours"), (1.0, "ours"), (1.0, "ours-spo")]
    assert [row["limit_ms"] for row in rows.values() if row["table"] == "gap"] == [0.1, 1.0]
    assert {"sweep.png", "sweep_1ms.png", "tuned.png"} <= {path.name for path in tmp_path.iterdir()}


def test_several_data_sets_are_compared_by_seed_and_set(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "TUNED", dict.fromkeys(("ours-3000", "mse"), methods.Schedule(2, 2.5e-3)))
    shown = []
    rows = run_part(sets.part(bench, Choice(("ours-3000", "mse"), (0, 1)), (5, 6)), tmp_path, show=shown.append)
    assert {(r["data"], r["method"], r["seed"]) for r in rows.values()} == set(product((5, 6), ("ours-3000", "mse"), (0, 1)))
    ours, other = ([r for r in rows.values() if r["method"] == name] for name in ("ours-3000", "mse"))
    assert len({r["test"] for r in ours}) == 4  # data sets differ, and seeds
    found = [[a["test"] - b["test"] for a, b in zip(ours, other, strict=True) if a["seed"] == seed] for seed in (0, 1)]
    assert sets.difference(ours, other) == paired(np.array(found))
    assert sets.difference(ours[:1], other[1:]).mean != sets.difference(ours[:1], other[1:]).mean  # nothing in common
    assert [t.row_count for t in shown if isinstance(t, Table)] == [2, 1]


def test_the_ablation_compares_over_seeds_and_instances(bench, tmp_path):
    shown = []
    rows = run_part(ablation.part(bench, Choice((), (0, 1))), tmp_path, show=shown.append)
    assert [row["method"] for row in rows.values()] == list(ablation.variants()) * 2
    assert all(len(row["test_by_instance"]) == 10 for row in rows.values())
    for row in rows.values():
        assert np.mean(row["test_by_instance"]) == pytest.approx(row["test"], abs=1e-4)
    assert shown[1].row_count == len(ablation.PAIRS)
    first, second = ([r for r in rows.values() if r["method"] == name] for name in ablation.PAIRS[0])
    differences = [np.subtract(a["test_by_instance"], b["test_by_instance"]) for a, b in zip(first, second, strict=True)]
    assert runs.difference(first, second) == paired(differences)
    assert next(iter(shown[1].columns[2].cells)) == stated(paired(differences), digits=4)


def test_rows_without_regrets_by_instance_are_compared_over_seeds():
    first, second = ([{"seed": s, "test": value + 0.1 * s} for s in range(3)] for value in (0.3, 0.2))
    assert runs.difference(first, second).mean == pytest.approx(0.1)
    assert verdict(runs.difference(first, second)) == "behind"
    assert verdict(runs.difference(first[:1], second)) == "undecided", "one seed decides nothing"
    assert not runs.over_instances(first, second)


def test_what_is_no_better_than_one_decision_did_not_learn(bench, tmp_path):
    rows = run_part(floor.part(bench, Choice((), (), (0.1, 1.0))), tmp_path)
    constant = rows["constant"]["test"]
    assert constant == runs.floor(tmp_path)
    assert constant > 0
    asked = [row for row in rows.values() if row["table"] == "answers"]
    assert [row["limit_ms"] for row in asked] == [0.1, 1.0]
    assert all(1 <= row["different_of_instances"] <= row["of_instances"] for row in asked)

    def run(method, test):
        return {"table": "runs", "method": method, "options": "", "seed": 0, "test": test, "seconds_epoch": 1.0}

    table = {"a": run("ours", 0.0), "b": run("spo", 0.8 * constant), "c": run("mse", 0.7 * constant)}
    least = runs.least_learned(tmp_path, table)
    assert least == pytest.approx(0.75 * constant)
    assert [runs.learned([row], least) for row in table.values()] == [True, False, True]
    (compared,) = benchmark.versus(table, least)
    assert list(compared.columns[0].cells) == ["mse", "spo (did not learn)"]
    assert list(compared.columns[1].cells)[1] == "not counted"
    assert runs.least_learned(tmp_path / "nowhere", table) is None


def test_variance_over_batches_is_that_of_gradients_of_weights(bench):
    """By hand for MSE and a linear network, which have no noise of their own."""
    import torch

    from experiments.knapsack.train import Tensors, batch_noise

    data, net = Tensors(bench.instances.train), torch.nn.Linear(6, 12, bias=False)
    batches = [data.rows(torch.arange(8 * n, 8 * n + 8)) for n in range(5)]
    loss = methods.METHODS["mse"].loss(bench.context(0))
    found, relative = batch_noise(net, loss, batches)
    gradients = [(2 * (net(x) - b.costs).T @ x / b.costs.numel()).detach().double().numpy() for x, b in batches]
    expected = np.var(gradients, axis=0, ddof=1).sum()
    assert found == pytest.approx(expected, rel=1e-4)
    square = (np.mean(gradients, 0) ** 2).sum() - expected / 5
    assert np.isnan(relative) if square <= 0 else relative == pytest.approx(expected / square, rel=1e-3)


@pytest.mark.parametrize(("name", "beta"), [("ours-paper", 1.0), ("ours-paper-2t", 2.0)])
def test_the_papers_mixture_has_its_beta(name, beta, bench, monkeypatch):
    made, context = [], bench.context(0)
    build = mg.problems.Knapsack
    monkeypatch.setattr(mg.problems, "Knapsack", lambda *a, **k: made.append(k) or build(*a, **k))
    methods.METHODS[name].loss(context)
    assert made == [{"moves": ("swap", "guided swap", "guided flip"), "beta": beta}]
    assert methods.METHODS[name].options["temperature"] == 1.0  # so that 2t is 2
    steps = {n: sweep.limited(n, 10.0).options["steps"] for n in ("ours", name)}
    assert steps[name] == round(2 / 5.5 * steps["ours"]), "guided moves take longer"


def test_schedules_are_those_that_validation_prefers():
    """Of every method that was tuned in the committed results; K = 3000 stands for other K."""
    files = (STUDY.folder / "results" / folder / "tune.json" for folder in ("quick", "schedules"))
    rows = [row for file in files for row in read_record(file).rows.values()]
    for name in {row["method"] for row in rows} & set(tune.SCHEDULED):
        tried: dict[str, list[float]] = {}
        for row in rows:
            if row["method"] == name and "rate=" in row["options"]:
                tried.setdefault(row["options"], []).append(row["best_validation"])
        if tried:
            best = min(tried, key=lambda options: np.mean(tried[options]))
            schedule = benchmark.TUNED[name]
            assert best.endswith(f"epochs={schedule.epochs}, rate={schedule.rate}")


def test_solvers_are_compared(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(solve, "SOLVERS", ("movegrad",))
    rows = run_part(solve.part(bench, Choice((), ())), tmp_path)
    assert [row["limit_ms"] for row in rows.values()] == [0.1, 1.0]
    for row in rows.values():
        assert row["instances"] == 5
        assert row["nothing_found"] == 0
        assert row["lost"] <= row["worst"] < 0.5


def test_local_search_stands_in_for_the_solver_of_spo(bench):
    """SPO+ has the gradient 2(y*(2θ − c) − y); ours has the mean of a chain at 2θ − c in place of y*."""
    import torch

    from experiments.knapsack.train import Tensors

    _, batch = Tensors(bench.instances.train).rows(torch.arange(4))
    theta = (batch.costs + torch.linspace(-1, 1, 12)).requires_grad_()
    ours, spo = methods.METHODS["ours"], methods.METHODS["ours-spo"]
    spo.loss(bench.context(3))(theta, batch).backward()
    shifted = (2 * theta.detach() - batch.costs).requires_grad_()
    ours.loss(bench.context(3))(shifted, batch).backward()
    torch.testing.assert_close(theta.grad, 2 * shifted.grad)
    long = replace(spo, options={**spo.options, "temperature": 1.0, "steps": 100_000})
    theta.grad = None
    long.loss(bench.context(3))(theta, batch).backward()
    knapsack = mg.problems.Knapsack(bench.instances.weights, bench.instances.capacities)
    for row, gradient, label in zip(shifted.detach().double().numpy(), theta.grad, batch.labels, strict=True):
        found = label + 2 * gradient  # mean over 4 examples: gradient = 2(ŷ − y)/4
        exact = mg.exact.marginals(knapsack, row)
        assert float(found.double().numpy() @ row) == pytest.approx(float(exact @ row), abs=0.1)  # some 5 standard errors


def test_intervals_are_students():
    mean, half = student_interval([1.0, 2.0, 3.0])
    assert (mean, half) == (2.0, pytest.approx(4.302652730 / 3**0.5))
    assert np.isnan(student_interval([1.0])[1])


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


def test_labels_of_other_code_are_kept_apart_but_for_those_that_come_with_the_study(tmp_path, monkeypatch):
    ours, committed = data.labels_path(QUICK.data, tmp_path), data.labels_path(QUICK.data, data.COMMITTED)
    assert committed.exists()
    monkeypatch.setattr(data, "version", lambda module: "another")
    assert data.labels_path(QUICK.data, tmp_path) != ours
    assert data.labels_path(QUICK.data, data.COMMITTED) == committed


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


BASELINES = ("spo-lp", "pfy-lp", "nid-lp", "nce-lp", "spo", "pfy", "nid", "nce", "spo-annealing", "ours-regret", "last-iterate")


@pytest.mark.parametrize("name", BASELINES)
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epochs", "0"], "--epochs must be > 0 and finite, got 0"),
        (["--only", "solve", "--limits", "-1"], "--limits must be > 0 and finite, got -1.0"),
        (["--only", "sweep", "--limits", "nan"], "--limits must be > 0 and finite, got nan"),
        (["--mip-limit", "0"], "--mip-limit must be > 0 and finite, got 0.0"),
        (["--seeds", "-3"], "--seeds must be 0 to 2147483647, got -3"),
        (["--seeds", str(2**70)], "--seeds must be 0 to 2147483647, got 1180591620717411303424"),
        (["--seed", "-1"], "--seed must be 0 to 2147483647, got -1"),
        (["--workers", "-1"], "--workers must be ≥ 0, got -1"),
        (["--methods", "magic"], "--methods must name methods among .*, got 'magic'"),
        (["--only", "tuned", "--methods", "spo"], "Nothing of tuned is left to compute"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(words, said, tmp_path):
    with pytest.raises(SystemExit, match=said):
        main(STUDY, [*words, "--out", str(tmp_path)])


def test_results_go_to_a_folder():
    with pytest.raises(SystemExit, match=r"--out must be a folder, got .*, which is a file"):
        main(STUDY, ["--methods", "mse", "--out", __file__])


def test_a_curve_is_drawn_where_all_seeds_were_measured():
    """A relative variance is none where the mean gradient drowns in noise, which happens to some seeds alone."""
    made = [{"epoch": [1, 2, 3], "relative_variance": values} for values in ([0.5, None, 0.7], [0.6, 0.8, 0.9])]
    rows = {str(k): {"table": "runs", "method": "ours", "options": "", "seed": k, **run} for k, run in enumerate(made)}
    _, axes = plt.subplots()
    benchmark.curves(axes, rows, "relative_variance")
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_xdata(), [1, 3])
    np.testing.assert_allclose(line.get_ydata(), [0.55, 0.8])


def test_contrastive_estimation_draws_by_its_seed(bench):
    """Whether a batch is solved for is chance: the same seed, the same gradients, call after call."""
    import torch

    from experiments.knapsack.train import Tensors

    _, batch = Tensors(bench.instances.train).rows(torch.arange(4))
    context, theta = bench.context(0), torch.rand(10, 4, 12, generator=torch.Generator().manual_seed(0))

    def gradients():
        loss, made = methods.METHODS["nce-lp"].loss(context), []
        for one in theta:
            predicted = one.clone().requires_grad_()
            loss(predicted, batch).backward()
            made.append(predicted.grad.numpy())
        return np.array(made)

    np.testing.assert_array_equal(gradients(), gradients())
