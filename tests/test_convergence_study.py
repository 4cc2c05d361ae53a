"""The convergence study: a tiny run of every part, resuming, and the claims that must hold at any size."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import movegrad as mg
from experiments.convergence import burnin, chains, estimators, guided, measure, onestep, temperature
from experiments.display import number, seconds
from experiments.framework import OtherVersion, Part, run_part
from experiments.statistics import tidy
from movegrad.problems import Hypercube, TopK
from tests.slow import slow_but_for

HYPERCUBE, TOP_K = measure.SMALL
TINY = {
    "burnin": (
        burnin.PART,
        burnin.Settings(
            (
                burnin.Condition("paper", (HYPERCUBE, TOP_K), 6),
                burnin.Condition("worst", (HYPERCUBE, TOP_K), 4, "steady", "worst", 2),
            ),
            steps=60,
            burn_ins=(0, 20),
            points=4,
            compare=(30, 60),
        ),
    ),
    "temperature": (
        temperature.PART,
        temperature.Settings((temperature.Scale("small", (HYPERCUBE, TOP_K), 50, 5),), (0.3, 1.0), points=4, compare=(10, 50)),
    ),
    "chains": (
        chains.PART,
        chains.Settings((chains.Case(HYPERCUBE, 5, 100), chains.Case(TOP_K, 5, 100)), (1, 10), budget=1000, compare=(3, 10)),
    ),
    "estimators": (
        estimators.PART,
        estimators.Settings((estimators.Case(HYPERCUBE),), steps=(1, 3, 10), instances=5, replicates=20, timed_steps=50),
    ),
    "onestep": (onestep.PART, onestep.Settings((HYPERCUBE,), steps=(1, 3), instances=5, replicates=20)),
    "guided": (
        guided.PART,
        guided.Settings(20, 4, (1.0,), ("blind", "guided, β = 2t"), 60, 4, 4, 5, levels=(1.0, 1e-4), timed_steps=50),
    ),
}
FIGURES = {"burnin_conditions", "temperature_small", "estimators_ratio", *TINY} - {"temperature"}


def untimed(value):
    """A result without what a clock measured."""
    if isinstance(value, dict):
        return {key: untimed(v) for key, v in value.items() if not key.startswith("seconds")}
    return value


def content(path: Path) -> dict:
    return untimed(json.loads(path.read_text(encoding="utf-8")))


def tiny(name: str, seed: int = 0) -> Part:
    part, settings = TINY[name]
    return part._replace(settings=replace(settings, seed=seed))


@pytest.mark.parametrize("name", slow_but_for(lambda name: name != "guided", TINY))
def test_a_tiny_run_of_each_part_writes_results_tables_and_figures(name, tmp_path):
    shown = []
    rows = run_part(tiny(name), tmp_path, show=shown.append)
    saved = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert saved["rows"] == rows
    assert saved["settings"]["seed"] == 0
    assert shown
    assert all(table.row_count for table in shown)
    made = {path.stem for path in tmp_path.glob("*.png")}
    assert made == {figure for figure in FIGURES if figure.startswith(name)}
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".lock"}


@pytest.mark.parametrize("name", ["chains", "estimators"])
def test_a_killed_run_resumes_to_the_same_result(name, tmp_path):
    part = tiny(name, 3)
    run_part(part, tmp_path / "whole")

    def dying(settings):
        tasks = list(part.tasks(settings).items())
        return {**dict(tasks[:1]), "killed": killed, **dict(tasks[1:])}

    def killed():
        raise KeyboardInterrupt

    dying.__module__ = part.tasks.__module__
    with pytest.raises(KeyboardInterrupt):
        run_part(part._replace(tasks=dying), tmp_path / "cut")
    assert len(content(tmp_path / "cut" / f"{name}.json")["rows"]) == 1
    run_part(part, tmp_path / "cut")
    assert content(tmp_path / "cut" / f"{name}.json") == content(tmp_path / "whole" / f"{name}.json")


def test_a_finished_run_computes_nothing_again_and_other_settings_are_refused(tmp_path):
    count = []

    def tasks(settings):
        return {"only": lambda: count.append(1) or {"x": [settings.instances, 2]}}

    part = Part("counted", TINY["onestep"][1], tasks, lambda s, r: [])
    other = part._replace(settings=replace(part.settings, instances=7))
    run_part(part, tmp_path)
    run_part(part, tmp_path)
    assert len(count) == 1
    with pytest.raises(OtherVersion, match=r"rows of other settings \(instances\)"):
        run_part(other, tmp_path)
    assert len(count) == 1
    assert run_part(other, tmp_path, fresh=True)["only"]["x"] == [7, 2]
    assert len(count) == 2


# --- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", measure.SMALL)
def test_squared_error_falls_as_one_over_k(label):
    """Slope −1 of log MSE in log K (−1/2 of its root) from 4000 chains at each K: each MSE is known to about 1 %, so the slope to
    0.004; terms of higher order in 1/K bend it by less than 0.03 from K = 300 on."""
    problem = measure.problem_named(label)
    theta = measure.instances(5, 40, problem.size)
    exact, grid = measure.exact_means(problem, theta), (300, 1000, 3000, 10_000)
    errors = [measure.moments(measure.replicates(problem, theta, 100, steps=k, seed=1), exact).mse.mean() for k in grid]
    slope = np.polyfit(np.log(grid), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.05)


@pytest.mark.parametrize("label", measure.SMALL)
def test_ten_chains_are_worth_ten_times_the_steps(label):
    """At T = 1000, far beyond the burn-in time of about 30: the ratio is 1 up to 3 % of bias and a standard error of 2–3 %."""
    errors = chains.errors_of(chains.Case(label, 1500), seed=2)
    ratio, half = measure.ratio_interval(errors(10, 1000), errors(1, 10_000))
    assert half < 0.07
    assert ratio == pytest.approx(1.0, abs=0.13)


def test_burn_in_with_the_papers_schedule_does_not_help_a_long_chain():
    """K₀ = 1000 of 3000 steps leaves two thirds of the iterates: 1.5 times the error; the interval is about ±0.07."""
    errors = burnin.errors_of(burnin.Condition("paper", (HYPERCUBE,), 500), HYPERCUBE, seed=3)
    ratio, _ = measure.ratio_interval(errors(1000, 3000), errors(0, 3000))
    assert 1.25 < ratio < 1.8


def test_recycling_has_less_variance_for_one_step_and_the_same_bias():
    """For K = 1 the recycled estimate is the conditional expectation of the plain one, given the proposal."""
    settings = estimators.Settings(instances=20, replicates=400, steps=(1,), timed_steps=10)
    row = estimators.compare(settings, estimators.Case(HYPERCUBE), "target", seed=4)
    assert row["variance_ratio"][0] - row["variance_ratio_half"][0] > 1.0
    assert row["bias2_mean"][0] == pytest.approx(row["bias2_recycled"][0], rel=0.05)


def test_sampled_one_step_gradients_have_the_exact_one_as_expectation():
    row = onestep.compare(onestep.Settings((HYPERCUBE,), steps=(1,), instances=40, replicates=200), HYPERCUBE, "own", seed=4)
    for name in ("mean", "recycled"):  # R·‖mean − exact‖²/variance has mean 1; 40 instances of about 8 degrees of freedom: ±0.08
        assert row[f"check_{name}"] == pytest.approx(1.0, abs=0.4)
    assert row["noise_recycled"] < row["noise_mean"]
    assert row["cosine"] > 0.9


# --- tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("burn_in", [0, 20])
def test_calls_with_fewer_steps_see_prefixes_of_the_same_chains(burn_in):
    """What lets the study read its curves off separate calls, also with the heated schedule."""
    problem, theta = Hypercube(10), measure.instances(0, 3, 10)
    schedule = mg.schedules.truncated_geometric(0.9**-burn_in, 0.9, 1.0) if burn_in else None
    long = mg.sample(problem, theta, steps=60, trace=60, iterates=True, schedule=schedule, seed=9)
    for k in (21, 40, 60):
        short = mg.sample(problem, theta, steps=k, burn_in=burn_in, trace=0, schedule=schedule, seed=9)
        np.testing.assert_allclose(short.mean, long.iterates[:, 0, burn_in:k].mean(1), atol=1e-12)


def test_exact_quantities_agree_with_enumeration():
    problem, theta = TopK(6, k=2), measure.instances(0, 3, 6)
    mean = measure.exact_means(problem, theta)
    np.testing.assert_allclose(measure.total_variance(mean), np.trace(mg.exact.covariance(problem, theta), axis1=1, axis2=2))
    np.testing.assert_allclose(measure.uniform_mean(problem), 1 / 3)
    assert (measure.worst_start(problem, theta).sum(1) == 2).all()
    np.testing.assert_allclose((theta * measure.worst_start(problem, theta)).sum(1), np.sort(theta)[:, :2].sum(1))


def test_moments_split_the_error_into_bias_and_variance():
    rng = np.random.default_rng(0)
    estimates = 0.5 + rng.normal(size=(300, 50, 4))  # squared bias 4·0.25, variance 4
    found = measure.moments(estimates, np.zeros((300, 4)))
    assert found.bias2.mean() == pytest.approx(1.0, abs=0.1)
    assert found.variance.mean() == pytest.approx(4.0, abs=0.15)
    np.testing.assert_allclose(found.mse, found.bias2 + found.variance, rtol=1e-9)


def test_ratio_interval_covers():
    rng = np.random.default_rng(0)
    pairs = [measure.ratio_interval(3 * rng.exponential(size=200), rng.exponential(size=200)) for _ in range(400)]
    covered = np.mean([abs(ratio - 3.0) < half for ratio, half in pairs])
    assert 0.91 < covered < 0.99  # 0.95 with a standard error of 0.011


def test_steps_to_reach():
    grid, errors = [1, 10, 100], np.array([1.0, 0.1, 0.01])
    assert guided.steps_to_reach(grid, errors, 0.1**0.5) == pytest.approx(10**0.5)
    assert guided.steps_to_reach(grid, errors, 2.0) == 1
    assert guided.steps_to_reach(grid, errors, 0.001) is None


def test_rows_are_plain_values_and_cells_short():
    row = {"a": np.float64(1 / 3), "b": np.array([1, 2]), "c": float("nan"), "d": np.bool_(True)}
    assert tidy(row) == {"a": 0.3333333, "b": [1, 2], "c": None, "d": True}
    assert (number(None), number(0.12345), number(0.12345, 0.01)) == ("–", "0.123", "0.123 ±0.01")
    assert (seconds(None), seconds(2.5e-8), seconds(0.0012), seconds(12.0)) == ("–", "25 ns", "1.2 ms", "12 s")
