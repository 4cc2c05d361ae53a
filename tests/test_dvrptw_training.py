"""Models, layers, training, and the study from end to end on generated days."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from pathlib import Path
from threading import get_ident

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("pyvrp")

import torch
from rich.console import Console

import movegrad as mg
from experiments.dvrptw import engine, report, studies, synthetic
from experiments.dvrptw import train as train_module
from experiments.dvrptw.data import Published, Source
from experiments.dvrptw.engine import Engine
from experiments.dvrptw.evaluate import Judge, play
from experiments.dvrptw.instances import read, write
from experiments.dvrptw.labels import Example, Labeling, anticipative, examples
from experiments.dvrptw.layers import KINDS, LayerSettings, Prepared, make_layer, plan_by_annealing, problem_of
from experiments.dvrptw.models import Architecture, PrizeModel, graph, load, predict, save
from experiments.dvrptw.policies import Policy
from experiments.dvrptw.solver import Budget, restricted, served
from experiments.dvrptw.study import STUDY, bench_of, main, parsed
from experiments.dvrptw.train import Splits, Training, train
from experiments.framework import run
from experiments.store import read_record
from experiments.verdicts import Interval

SOURCE = Source(None, 8, 25)
LABELING = Labeling(Budget(iterations=100))
SMALL = Training(LayerSettings("target", steps=50), epochs=2, judge=Judge(iterations=10))
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    days = tuple(SOURCE.days("train", 2))
    return Splits(SOURCE, days, tuple(SOURCE.days("validation", 1)), LABELING, tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def prepared(splits):
    labels = anticipative(SOURCE, splits.train, LABELING, Engine(workers=0), splits.cache)
    return [Prepared(example) for example in examples(SOURCE, splits.train, labels)]


# --- models ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "weights"), [("gnn", 2271), ("mlp", 551), ("linear", 21)])
def test_models_have_the_stated_size_and_survive_a_round_trip(kind, weights, prepared, tmp_path):
    model = PrizeModel(Architecture(kind), seed=3)
    assert sum(p.numel() for p in model.parameters()) == weights
    model.standardize([graph(example.wave) for example in prepared])
    wave = prepared[0].wave
    prizes = predict(model, wave)
    assert prizes.shape == (len(wave),)
    save(model, tmp_path)
    np.testing.assert_array_equal(predict(load(tmp_path), wave), prizes)
    assert {p.name for p in tmp_path.iterdir()} == {"model.json", "weights.npz"}
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as saved:
        assert all(saved[name].dtype.kind == "f" for name in saved.files), "plain numbers, no pickle"


def test_features_are_standardized_over_requests(prepared):
    graphs = [graph(example.wave) for example in prepared]
    model = PrizeModel(Architecture())
    model.standardize(graphs)
    rows = torch.cat([model.scaled(g.nodes[1:]) for g in graphs])
    np.testing.assert_allclose(rows.mean(0), 0, atol=1e-4)
    spread = rows.std(0).numpy()
    assert (np.isclose(spread, 1, atol=1e-3) | np.isclose(spread, 0, atol=1e-3)).all()


def test_graph_network_averages_messages_over_incoming_arcs(prepared):
    """One convolution by plain loops."""
    g = graph(prepared[0].wave)
    model = PrizeModel(Architecture(), seed=1)
    x, layer = torch.randn(len(g.nodes), 10), model.layers[0]
    expected = []
    for j in range(len(x)):
        incoming = [k for k in range(g.arcs.shape[1]) if g.arcs[1, k] == j]
        messages = [layer.messages(torch.cat([g.durations[k], x[g.arcs[0, k]]])) for k in incoming]
        mean = torch.stack(messages).mean(0) if messages else torch.zeros(10)
        expected.append(layer.update_node(torch.cat([x[j], mean])))
    torch.testing.assert_close(layer(x, g.arcs, g.durations), torch.stack(expected), rtol=1e-4, atol=1e-5)


def test_wrong_models_are_refused(tmp_path):
    with pytest.raises(ValueError, match="model must be one of gnn, mlp, linear, got 'tree'"):
        Architecture("tree")
    with pytest.raises(FileNotFoundError, match=r"holds no model\.json"):
        load(tmp_path)
    model = PrizeModel(Architecture("linear"))
    model.body.weight.data[0, 0] = torch.nan
    save(model, tmp_path)
    with pytest.raises(ValueError, match=r"weights\.npz is damaged \(its weights are no numbers\): train the model anew"):
        load(tmp_path)


# --- layers ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_layers_give_probabilities_and_serve_what_must_go(kind, prepared):
    example = max(prepared, key=lambda e: e.wave.must.sum())
    theta = np.random.default_rng(0).normal(1000, 500, len(example.target))
    settings = LayerSettings(kind, steps=60, chains=2 if kind in ("target", "random") else 1, samples=2, temperature=300.0)
    answer = make_layer(settings, 5)(theta, example, 7)
    assert answer.mean.shape == theta.shape
    assert ((answer.mean >= 0) & (answer.mean <= 1)).all()
    assert example.wave.must.any()
    np.testing.assert_allclose(answer.mean[example.wave.must[1:]], 1.0)
    again = make_layer(settings, 5)(theta, example, 7)
    np.testing.assert_array_equal(answer.mean, again.mean)
    assert answer.steps > 0


def test_a_long_chain_agrees_with_enumeration(prepared):
    """The layer's P(served) on a small wave, against all its solutions: 4 standard errors over 16 chains."""
    whole = max(prepared, key=lambda e: e.wave.must.sum()).wave
    few = np.r_[0, np.flatnonzero(whole.must)[:1], np.flatnonzero(~whole.must)[1:4]]
    wave = restricted(whole, np.isin(np.arange(len(whole) + 1), few), whole.must)
    problem, alone = problem_of(wave), [[int(i)] for i in np.flatnonzero(wave.must)]
    example = Prepared(Example(wave, alone, "small"))
    theta, t = np.full(len(wave), 2500.0), 1000.0
    states = np.array([problem.encode(problem.routes(s)) for s in problem.states()])
    chosen = np.array([served(problem.routes(s), len(wave)) for s in states])
    values = (chosen @ theta - [wave.cost(problem.routes(s)) for s in states]) / t
    weights = np.exp(values - values.max())
    expected = weights @ chosen / weights.sum()
    runs = np.array([
        make_layer(LayerSettings("target", steps=20_000, temperature=t), seed)(theta, example, 0).mean for seed in range(16)
    ])  # fmt: skip
    error = runs.std(0, ddof=1) / 4
    assert (np.abs(runs.mean(0) - expected) <= 4 * error + 1e-3).all()


def test_heuristic_starts_are_better_than_the_target(prepared):
    example = max(prepared, key=lambda e: len(e.wave))
    theta = np.full(len(example.target), 3000.0)
    cold = LayerSettings("heuristic", steps=1, temperature=1e-3)
    out = mg.sample(example.problem, theta, steps=1, temperature=1e-3, start=mg.start.Heuristic(example.solution))
    value = lambda routes: theta @ served(routes, len(theta)) - example.wave.cost(routes)  # noqa: E731
    assert value(example.problem.routes(out.solutions[0])) > value(example.routes)
    assert make_layer(cold, 0)(theta, example, 0).mean.sum() >= example.target.sum()


def test_time_budgets_are_kept_and_layers_checked(prepared):
    example = prepared[0]
    for kind in ("target", "pfy"):
        assert make_layer(LayerSettings(kind, milliseconds=2.0), 0)(np.zeros(len(example.target)), example, 0).steps >= 0
    with pytest.raises(ValueError, match="layer must be one of"):
        LayerSettings("magic", steps=1)
    with pytest.raises(ValueError, match="milliseconds or steps"):
        LayerSettings("pfy")
    for name in ("steps", "temperature", "chains", "samples", "sigma"):
        with pytest.raises(ValueError, match=rf"^{name} must be [>≥] 0, got -1\."):
            LayerSettings("pfy", **{"steps": 5, name: -1})


def test_annealing_plans_waves_for_evaluation(prepared):
    example = max(prepared, key=lambda e: len(e.wave))
    found = plan_by_annealing(example.wave, np.full(len(example.target), np.inf), 2000, 0)
    example.wave.check(found.routes)
    assert served(found.routes, len(example.target)).all()
    row = play(SOURCE, Policy("greedy"), SOURCE.days("test", 1)[0], Judge("movegrad", 500))
    assert row["cost"] == sum(wave["cost"] for wave in row["waves"])


# --- training ----------------------------------------------------------------------------------------------------------------


def test_a_killed_run_goes_on_with_the_same_result(splits, tmp_path):
    whole = train(splits, SMALL, tmp_path / "whole")
    train(splits, replace(SMALL, epochs=1), tmp_path / "parts")
    (tmp_path / "parts" / "history.json").unlink()  # as if killed after the first epoch
    resumed = train(splits, SMALL, tmp_path / "parts")
    strip = lambda history: [{k: v for k, v in e.items() if k not in ("seconds", "layer_ms")} for e in history["epochs"]]  # noqa: E731
    assert strip(resumed) == strip(whole)
    with np.load(tmp_path / "whole" / "state.npz") as a, np.load(tmp_path / "parts" / "state.npz") as b:
        assert set(a.files) == set(b.files)
        assert all((a[name] == b[name]).all() for name in a.files if name != "history")
    assert train(splits, SMALL, tmp_path / "whole") == whole, "a finished run is read"


def test_a_run_that_two_want_is_trained_once(splits, tmp_path, monkeypatch):
    """Both would write the model that is being validated; the lock holds for threads as for processes."""
    who, validate = set(), train_module.validate

    def noted(*arguments):
        who.add(get_ident())
        return validate(*arguments)

    monkeypatch.setattr(train_module, "validate", noted)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(train, splits, replace(SMALL, epochs=1), tmp_path) for _ in range(2)]
        one, two = (run.result() for run in runs)
    assert one == two
    assert len(who) == 1


def test_seeds_differ_and_names_tell_runs_apart(splits, tmp_path):
    one = train(splits, replace(SMALL, epochs=1), tmp_path / "one")
    two = train(splits, replace(SMALL, epochs=1, seed=1), tmp_path / "two")
    assert one["epochs"][1]["error"] != two["epochs"][1]["error"]
    others = (SMALL, replace(SMALL, seed=1), replace(SMALL, rate=1e-3), replace(SMALL, epochs=9))
    assert len({splits.folder(tmp_path, training) for training in others}) == 4


def test_runs_are_kept_apart_by_days_labels_and_code(splits, tmp_path, monkeypatch):
    changed = (
        replace(splits, train=splits.train[:1]),
        replace(splits, validation=splits.train[:1]),
        replace(splits, labeling=Labeling(Budget(iterations=200))),
        replace(splits, source=Source(None, 9, 25)),
    )
    folders = {other.folder(tmp_path, SMALL) for other in (splits, *changed)}
    monkeypatch.setattr(train_module, "version", lambda module: "another")
    assert len(folders | {splits.folder(tmp_path, SMALL)}) == 6
    assert replace(splits, cache=tmp_path).folder(tmp_path, SMALL) == splits.folder(tmp_path, SMALL), (
        "where things lie is no matter"
    )


def test_training_imitates_the_label(prepared):
    """One wave, many steps: θ serves what the label serves."""
    example = max(prepared, key=lambda e: min(e.target.sum(), (1 - e.target).sum()))
    model = PrizeModel(Architecture("mlp"))
    model.standardize([graph(example.wave)])
    optimizer, layer = torch.optim.Adam(model.parameters(), 1e-2), make_layer(LayerSettings("heuristic", steps=300), 0)
    g, errors = graph(example.wave), []
    for step in range(150):
        theta = model(g)
        difference = layer(theta.detach().double().numpy(), example, step).mean - example.target
        optimizer.zero_grad()
        (theta * torch.from_numpy(difference).float()).sum().backward()
        optimizer.step()
        errors.append(np.abs(difference).mean())
    assert 0 < example.target.mean() < 1
    assert np.mean(errors[-20:]) < 0.5 * np.mean(errors[:20])


# --- statistics ----------------------------------------------------------------------------------------------------------------


def test_paired_differences_are_by_day():
    reference = np.array([100.0, 200.0])
    first = [{"costs": [110, 240], "seed": 0}, {"costs": [110, 220], "seed": 1}]
    policy, alone = [{"costs": [120, 240], "policy": "greedy"}], [{"costs": [120, 240], "seed": 0}]
    assert report.paired(first, policy, reference).mean == pytest.approx(-7.5)  # (−10, 0) and (−10, −10)
    assert report.paired(first, alone, reference).mean == pytest.approx(-5)  # the seed that both have
    assert np.isinf(report.paired(first, alone, reference).high), "one seed says nothing about others"
    assert report.paired(policy, policy, reference) == (0, 0, 0)


def test_the_configuration_is_chosen_on_validation_alone():
    common = {"milliseconds": 1.0, "steps": None, "temperature": 100.0}
    better = {**common, "kind": "pfy", "sigma": 30.0, "validation": [9, 5, 7], "costs": [300]}
    worse = {**common, "kind": "pfy", "sigma": 1.0, "validation": [9, 6, 7], "costs": [100]}
    other = {**common, "kind": "target", "sigma": 1.0, "validation": [9, 8], "costs": [200]}
    found = report.chosen([worse, better, other])
    assert {key: runs[0]["costs"] for key, runs in found.items()} == {("pfy", 1.0): [300], ("target", 1.0): [200]}


# --- the study ------------------------------------------------------------------------------------------------------------------


def tiny_study(out: Path, *words: str) -> list[str]:
    sizes = {"seeds": 2, "epochs": 1, "train": 2, "validation": 1, "test": 2, "arrivals": 8, "iterations": 10, "ms": 1, "steps": 20}
    options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    return ["study", "--out", str(out), "--workers", "0", *options, *words]


def run_study(out: Path, *words: str) -> str:
    """What is printed, as Markdown."""
    console = Console(record=True, quiet=False, file=StringIO(), width=400)
    run(STUDY, parsed(tiny_study(out, "--markdown", *words)), console)
    return console.export_text()


@pytest.fixture(scope="module")
def study_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    return out, run_study(out, "--only", "anticipative", "policies", "budget", "starts")


def test_the_study_writes_tables_figures_and_rows(study_run):
    out, shown = study_run
    assert {path.name for path in out.iterdir() if path.suffix in (".json", ".png")} == {
        *("anticipative.json", "policies.json", "budget.json", "starts.json"),
        *("budget.png", "starts.png"),
    }
    for name in ("budget", "starts"):
        assert (out / f"{name}.png").stat().st_size > 5000
    rows = list(read_record(out / "budget.json").rows.values())
    kinds = ("pfy", "pfy-warm", "target", "heuristic")
    assert [(row["kind"], row["seed"]) for row in rows] == [(k, s) for k in kinds for s in (0, 1)]
    for row in rows:
        assert len(row["costs"]) == len(row["validation"]) == 2
        assert [sum(wave[-1] for wave in day) for day in row["waves"]] == row["costs"]
    for rival in ("perturbed PyVRP, cold", "perturbed PyVRP from the target"):
        assert f"| 1 ms | chain from the improved target, t = 100 | {rival}, σ = 1 |" in shown
    assert "hindsight is not calibrated" in shown


def test_a_second_run_reads_everything(study_run, monkeypatch):
    out, _ = study_run
    before = (out / "budget.json").read_text()
    monkeypatch.setattr(engine, "call", lambda task: pytest.fail(f"{task.function} ran again"))
    run_study(out, "--only", "budget")
    assert (out / "budget.json").read_text() == before
    (out / "policies.json").unlink()  # days played are kept besides
    run_study(out, "--only", "policies")


def test_models_and_days_that_are_kept_give_the_rows_again(study_run, monkeypatch):
    out, _ = study_run
    before = read_record(out / "budget.json")

    def computed(task):
        assert task.function.endswith("train_task"), f"{task.function} ran again"
        assert (Path(task.arguments["folder"]) / "history.json").exists(), "training ran again"
        return json.loads((Path(task.arguments["folder"]) / "history.json").read_text())

    monkeypatch.setattr(engine, "call", computed)
    run_study(out, "--only", "budget", "--fresh")
    assert read_record(out / "budget.json") == before


def test_gaps_are_measured_from_hindsight_where_it_is_known(study_run, tmp_path):
    out, shown = study_run
    settings = bench_of(parsed(tiny_study(out))).played
    found = report.reference(out, settings)
    greedy = next(row["costs"] for row in found.policies if row["policy"] == "greedy")
    assert found.hindsight
    assert (found.costs <= greedy).all(), "a run in hindsight starts from the greedy routes"
    with pytest.raises(ValueError, match="--only policies plays these days"):
        report.reference(out, replace(settings, arrivals=9))
    alone = run_study(tmp_path, "--only", "policies")
    assert "gaps over greedy" in alone
    assert "| greedy | 0.00 ±0.00 |" in alone
    assert "| greedy | 0.00" not in shown
    assert "gaps over greedy" not in shown
    assert "paper's best" not in shown, "generated days cannot be compared with the paper's"


def test_a_report_shows_the_same_and_computes_nothing(study_run, monkeypatch):
    out, shown = study_run
    monkeypatch.setattr(engine, "call", lambda task: pytest.fail(f"{task.function} ran"))
    monkeypatch.setattr(studies, "hindsight", lambda *_: pytest.fail("days were solved"))
    again = run_study(out, "--report")
    tables = lambda text: [line for line in text.splitlines() if line.startswith(("|", "**"))]  # noqa: E731
    assert tables(again) == tables(shown)


def test_the_papers_figures_stand_beside_ours_in_the_table_alone(study_run):
    rows = list(read_record(study_run[0] / "budget.json").rows.values())
    base = report.Reference(np.ones(2), True, [])
    header, *lines = report.part_grid(rows, base, papers=True)
    assert [(line[0], line[header.index("paper's best")]) for line in lines] == [
        ("perturbed PyVRP, cold", "65.2"),
        ("perturbed PyVRP from the target", "–"),
        ("chain from the target", "10.0"),
        ("chain from the improved target", "7.8"),
    ]
    figure = report.part_figure(studies.COMPARISONS["budget"], rows, base)
    assert not any(line.get_linestyle() == "--" for line in figure.axes[0].lines), "they have other days and costs in hindsight"
    figure.clear()


def test_noise_and_temperature_are_chosen_and_resumed(study_run, monkeypatch):
    """Two values of σ and two of t, at tiny size; a second run computes nothing."""
    out, _ = study_run
    words = ("--only", "choice", "--sigmas", "1", "50", "--temperatures", "10", "100", "--seeds", "1")
    shown = run_study(out, *words)
    rows = read_record(out / "choice.json").rows
    assert len(rows) == 8
    assert {(row["kind"], row["sigma"]) for row in rows.values() if row["kind"].startswith("pfy")} == {
        (kind, sigma) for kind in ("pfy", "pfy-warm") for sigma in (1.0, 50.0)
    }
    _, table, pairs = shown.split("**Chosen on validation")[0], *shown.split("**Chosen on validation")[1].split("**The chosen ones")
    chosen = [line for line in table.splitlines() if " 1 ms " in line]
    assert len(chosen) == 4
    assert all(line.rstrip(" |").endswith("| 2") for line in chosen), "as many configurations for every layer"
    assert "undecided" in pairs
    monkeypatch.setattr(engine, "call", lambda task: pytest.fail(f"{task.function} ran again"))
    run_study(out, *words)
    with pytest.raises(ValueError, match="sigmas must be as many as temperatures"):
        run_study(out, *words[:-6], "--sigmas", "1", "50", "--temperatures", "10")


def test_models_are_replayed_on_busier_days(study_run, monkeypatch):
    out, _ = study_run
    shown = run_study(out, "--only", "replay", "--seeds", "1")
    record = read_record(out / "replay.json")
    assert record.settings["arrivals"] == 20  # trained with 8
    assert [key for key in record.rows if "policy" in record.rows[key]] == ["greedy", "random", "lazy"]
    assert sum("kind" in row for row in record.rows.values()) == 4
    assert "**20 arrivals per wave**" in shown
    for row in record.rows.values():
        assert sum(wave[1] for wave in row["waves"][0]) > 20, "open requests of all waves"
    monkeypatch.setattr(engine, "call", lambda task: pytest.fail(f"{task.function} ran again"))
    run_study(out, "--only", "replay", "--seeds", "1")


def test_hindsight_is_calibrated_on_published_days(tmp_path, monkeypatch):
    days = SOURCE.days("train", 2)
    published = {Source(None, 8, 60).days("train", 2)[i].name: Published(cost, []) for i, cost in enumerate((10_000, 20_000))}
    monkeypatch.setattr(Source, "published", lambda self: published)
    shown = run_study(tmp_path, "--only", "calibration", "--train", "2")
    rows = read_record(tmp_path / "calibration.json").rows
    assert [row["published"] for row in rows.values()] == [10_000, 20_000]
    mean = np.mean([100 * (row["cost"] / row["published"] - 1) for row in rows.values()])
    assert f"{mean:+.2f} (" in shown
    assert len(days) == len(rows)
    run_study(tmp_path, "--only", "anticipative", "policies")
    options = parsed(tiny_study(tmp_path))
    base = report.reference(tmp_path, bench_of(options).played)
    assert base.offset is not None
    assert base.calibrated(Interval(10.0, 9.0, 11.0)) == [f"{100 * (1.1 * (1 + mean / 100) - 1):.1f}"]
    assert report.offset(tmp_path, replace(bench_of(options).played, arrivals=9)) is None, "of other days"


def test_networks_are_averaged_by_prize_or_by_weight(prepared, tmp_path, capsys):
    members, wave = [PrizeModel(Architecture("linear"), seed) for seed in range(3)], prepared[0].wave
    for n, model in enumerate(members):
        save(model, tmp_path / str(n))
    mean = np.mean([predict(model, wave) for model in members], 0)
    folders = [str(tmp_path / str(n)) for n in range(3)]
    for words in ([], ["--weights"]):  # of linear models both are the same
        main(["average", "--policy", *folders, "--out", str(tmp_path / "mean"), *words])
        np.testing.assert_allclose(predict(load(tmp_path / "mean"), wave), mean, rtol=1e-5)
    main(["average", "--policy", *folders, "--out", str(tmp_path / "mean")])
    capsys.readouterr()
    with pytest.raises(SystemExit, match="must hold a single model, got an ensemble of 3"):
        main(["average", "--policy", folders[0], str(tmp_path / "mean"), "--out", str(tmp_path / "more")])
    with pytest.raises(SystemExit, match="must name two folders"):
        main(["average", "--policy", folders[0], "--out", str(tmp_path / "more")])


def test_seeds_may_share_their_first_weights(prepared, tmp_path):
    graphs = [graph(example.wave) for example in prepared]
    runs = [train_module.Run(replace(SMALL, seed=seed, first=5), graphs, tmp_path) for seed in (0, 1)]
    other = train_module.Run(replace(SMALL, seed=0), graphs, tmp_path)
    first, second, third = (predict(run.model, prepared[0].wave) for run in (*runs, other))
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


def test_any_day_of_any_folder_is_played(tmp_path, capsys):
    main(["generate", "--train", "2", "--out", str(tmp_path)])
    save(PrizeModel(Architecture("linear")), tmp_path / "network")
    words = ["--policy", "greedy", str(tmp_path / "network"), "--arrivals", "6", "--iterations", "5", "--workers", "0"]
    main(["play", "--instances", str(tmp_path / "instances"), "--days", "3", "4", *words, "--out", str(tmp_path)])
    assert "4 days of 2 instances, 6 arrivals per wave" in capsys.readouterr().out
    rows = read_record(tmp_path / "played.json").rows
    assert [row["policy"] for row in rows.values()] == ["greedy", "network"]
    assert all(len(row["costs"]) == 4 for row in rows.values())
    main(["play", "--instances", str(tmp_path), "--names", "s1", *words, "--out", str(tmp_path / "one")])
    assert "1 days of 1 instances" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="holds no instance"):
        main(["play", "--instances", str(tmp_path / "network"), *words])
    with pytest.raises(SystemExit, match=r"--policy must be greedy, .*network, or the folder of a trained model, got nobody"):
        main(["play", "--instances", str(tmp_path), "--policy", "nobody"])


def test_perturbed_pyvrp_may_start_at_the_target(prepared):
    """Its first local search begins there: without iterations the plan is no worse than the label for these prizes."""
    for example in prepared[:4]:
        theta = np.random.default_rng(1).normal(1000, 500, len(example.target))
        value = theta @ example.target - example.wave.cost(example.routes)
        found = example.solver.solve(theta, Budget(iterations=0), 0, example.routes)
        example.wave.check(found.routes)
        assert found.objective >= value - len(theta), "prizes are rounded to seconds, negative ones count as 0"
    everyone = [[i] for i in range(1, len(theta) + 1)]
    example.wave.check(example.solver.solve(theta, Budget(iterations=0), 0, everyone).routes)


def test_other_commands(tmp_path, capsys):
    def run(*words: str) -> str:
        main([*words, "--out", str(tmp_path), "--workers", "0"])
        return capsys.readouterr().out

    assert "instances/synthetic-n60-s0.txt" in run("generate", "--train", "1")
    assert read(tmp_path / "instances" / "synthetic-n60-s0.txt").customers == 60
    assert "synthetic-n60-s0/0: " in run("labels", "--train", "1", "--seconds", "0.05", "--arrivals", "8")
    (label,) = json.loads((tmp_path / "labels_train.json").read_text()).values()
    assert label["cost"] > 0
    sizes = ("--seeds", "1", "--epochs", "1", "--train", "1", "--validation", "1", "--test", "1", "--arrivals", "8")
    assert "best epoch" in run("train", "--kinds", "pfy", "--steps", "5", "--samples", "2", "--sigma", "3", *sizes)
    (model,) = (tmp_path / "work" / "models").iterdir()
    trained = json.loads((model / "history.json").read_text())["training"]["layer"]
    assert (trained["kind"], trained["steps"], trained["samples"], trained["sigma"]) == ("pfy", 5, 2, 3.0)
    shown = run("evaluate", "--policy", "greedy", str(model), "--iterations", "5", *sizes)
    assert "0.00" in shown
    assert [row["policy"] for row in read_record(tmp_path / "evaluation.json").rows.values()] == ["greedy", model.name]
    assert "day.html" in run("picture", "--policy", str(model), "--iterations", "5", *sizes)
    with pytest.raises(SystemExit, match=r"splits\.json"):
        main(["--data", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--train", "0"], "--train must be > 0 and finite, got 0"),
        (["train", "--seeds", "-2"], "--seeds must be > 0 and finite, got -2"),
        (["evaluate", "--iterations", "0"], "--iterations must be > 0"),
        (["labels", "--seconds", "nan"], "--seconds must be > 0 and finite, got nan"),
        (["--ms", "1", "0"], "--ms must be > 0 and finite, got 0.0"),
        (["picture", "--day", "-1"], "--day must be from 0 to 7, the number of a test day, got -1"),
        (["picture", "--day", "99"], "--day must be from 0 to 7"),
        (["play", "--instances", ".", "--names", "zzz"], "--names must hold parts of names of instances in .*, got zzz"),
        (["play", "--instances", ".", "--days", "-1"], "--days must be different seeds ≥ 0, got -1"),
        (["play", "--instances", ".", "--days", "0", "0"], "--days must be different seeds ≥ 0, got 0 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(synthetic.generate(12, 0), tmp_path / "a.txt")
    with pytest.raises(SystemExit, match=said):
        main([*words, "--out", str(tmp_path / "out"), "--workers", "0"])


def test_a_place_that_is_a_file_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="file"):
        main(["generate", "--train", "1", "--out", str(tmp_path / "file")])


def test_the_network_that_comes_with_the_study_plays_any_folder_better_than_greedy(tmp_path, capsys):
    for seed in range(2000, 2004):  # none that it was trained on
        write(synthetic.generate(60, seed), tmp_path / "days" / f"day-{seed}.txt")
    main(["play", "--instances", str(tmp_path / "days"), "--days", "0", "1", "--arrivals", "14", "--iterations", "100",
          "--workers", "0", "--out", str(tmp_path / "out")])  # fmt: skip
    greedy, network = (np.array(row["costs"]) for row in read_record(tmp_path / "out" / "played.json").rows.values())
    assert len(greedy) == 8
    assert network.mean() < 0.97 * greedy.mean()
    assert "8 days of 4 instances, 14 arrivals per wave" in capsys.readouterr().out


def test_the_module_is_a_command():
    command = [sys.executable, "-m", "experiments.dvrptw", "--help"]
    assert "--engine" in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_layers_that_are_chosen_on_validation_are_those_that_were_named():
    def chosen(*words: str) -> list[LayerSettings]:
        return studies.by_choice(bench_of(parsed(["--only", "choice", *words])).size)

    kinds = {"pfy", "pfy-warm", "target", "heuristic"}
    assert {layer.kind for layer in chosen()} == kinds
    some = chosen("--kinds", "pfy-warm", "heuristic", "--sigmas", "1", "2", "3", "--temperatures", "4", "5", "6")
    assert [(layer.kind, layer.sigma if layer.perturbed else layer.temperature) for layer in some] == [
        ("pfy-warm", 1.0), ("heuristic", 4.0), ("pfy-warm", 2.0), ("heuristic", 5.0), ("pfy-warm", 3.0), ("heuristic", 6.0),
    ]  # fmt: skip
