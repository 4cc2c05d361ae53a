"""The study of parameter recovery: a tiny version of each part, its safe claims, and resuming."""

import json
from dataclasses import replace

import numpy as np
import pytest

import movegrad as mg
from experiments.framework import main, run_part
from experiments.recovery import convergence, normality
from experiments.recovery.exact_minimizers import inside_parity_class, interior, minimizer, parity_class
from experiments.recovery.learn import SETS, Condition, exact_means, instances, learn, risk, squared_distance
from experiments.recovery.sizes import QUICK
from experiments.recovery.study import NAMES, STUDY, parts_of
from experiments.statistics import rounded
from movegrad.problems import Hypercube, TopK
from tests.slow import slow_but_for

TINY = replace(
    QUICK, updates=20, instances=4, many_instances=4, few_instances=3, work=100, rates=(0.05, 0.2), base_steps=20, steps=(1, 10),
    chain_steps=(5, 20), start_steps=(5,), settled_steps=(5,), settled_chains=3, observations=(10, 100), mixture_steps=(10,),
    trajectories=3, square_updates=10, runs=3,
    theorem_updates=30, literal_runs=2, literal_updates=12, samples=(30, 100), replicates=50,
)  # fmt: skip
FILES = {
    "rate": (),
    "steps": ("steps",),
    "chains": ("chains_K5", "chains_K20"),
    "start": ("start_hypercube", "start_top_k"),
    "settled": ("settled",),
    "observations": ("observations",),
    "mixtures": ("mixtures_K10",),
    "square": ("square",),
    "convergence": ("convergence",),
    "normality": ("normality",),
}
SHORT = Condition("hypercube", steps=10, rate=0.05, instances=30, updates=300)


def tail(condition, seed=1):
    """(M,): squared distance to θ₀ over the last tenth of the updates."""
    curves = learn(condition, seed)
    return curves.distance[curves.n >= 0.9 * condition.updates].mean(0)


def rows_of(path):
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {key: {k: v for k, v in row.items() if k != "seconds"} for key, row in rows.items()}


def tiny(name):
    return next(part for part in parts_of(TINY, 3) if part.name == name)


@pytest.mark.parametrize("name", slow_but_for(lambda name: name != "mixtures", NAMES))
def test_part_writes_rows_tables_and_figures(name, tmp_path):
    shown = []
    rows = run_part(tiny(name), tmp_path, show=shown.append)
    assert rows_of(tmp_path / f"{name}.json").keys() == rows.keys()
    assert [table.row_count for table in shown] == [len(rows)]
    assert {path.stem for path in tmp_path.glob("*.png")} == set(FILES[name])
    for figure in FILES[name]:
        assert (tmp_path / f"{figure}.png").stat().st_size > 1000


def test_resuming_gives_the_same_rows(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_part(tiny("rate"), whole)
    run_part(tiny("rate"), cut)
    content = json.loads((cut / "rate.json").read_text(encoding="utf-8"))
    kept = dict(list(content["rows"].items())[:2])  # as after a kill
    (cut / "rate.json").write_text(json.dumps({**content, "rows": kept}), encoding="utf-8")
    run_part(tiny("rate"), cut)
    assert rows_of(cut / "rate.json") == rows_of(whole / "rate.json")
    assert json.loads((cut / "rate.json").read_text(encoding="utf-8"))["rows"].items() >= kept.items()


def test_unknown_part_is_named(capsys):
    with pytest.raises(SystemExit):
        main(STUDY, ["--only", "nothing"])
    assert "--only must name parts among rate, steps, chains" in capsys.readouterr().err


def test_random_starts_are_worse_than_persistent_ones_at_small_k():
    random, persistent = (tail(replace(SHORT, start=word)) for word in ("random", "persistent"))
    assert np.median(random) > 3 * np.median(persistent)


def test_data_starts_recover_the_parameter_at_small_k():
    assert np.median(tail(replace(SHORT, start="data"))) < 2


def test_longer_chains_and_more_chains_recover_better():
    short, long, many = (tail(c).mean() for c in (SHORT, replace(SHORT, steps=200), replace(SHORT, chains=20)))
    assert long < short / 2
    assert many < short / 2


def test_more_observations_are_closer_to_the_true_parameter():
    few, many = (tail(replace(SHORT, set="top-κ", steps=100, observations=n)).mean() for n in (30, 3000))
    assert many < few / 3


def test_reducible_moves_stall_on_the_small_cube_but_mixtures_recover():
    reducible, mixture = (
        tail(Condition(s, 200, rate=0.03, instances=60, updates=400)) for s in ("small cube {2}", "small cube {1,2}")
    )
    assert reducible.mean() > 4 * mixture.mean()


def test_bias_of_six_flips_on_ten_bits_is_negligible():
    """The two classes of parity have almost the same marginals: Π tanh(|θᵢ|/2) is tiny for d = 10."""
    cube = SETS["cube {6}"]()
    theta0, _ = instances(0, 20, 10)
    mean = mg.exact.marginals(cube, theta0)
    assert inside_parity_class(cube, mean, odd=True).all()
    limit = minimizer(parity_class(cube, odd=True), mean, 1.0)
    assert squared_distance(cube, limit, theta0).mean() < 1e-3


@pytest.mark.parametrize("problem", [Hypercube(4), TopK(5, 2)], ids=["cube", "top-κ"])
def test_newton_finds_the_minimizer(problem):
    theta0, other = instances(5, 6, problem.size)
    mean = mg.exact.marginals(problem, theta0, 0.7)
    found = minimizer(mg.exact.enumeration(problem), mean, 0.7)
    assert squared_distance(problem, found, theta0).max() < 1e-12
    assert (risk(problem, theta0, mean, 0.7) < risk(problem, other, mean, 0.7)).all()


def test_missing_minimizers_are_found_out():
    assert interior(np.array([[0.5, 1.0], [0.3, 0.6]])).tolist() == [False, True]
    cube, means = Hypercube(4), np.array([[0.9, 0.1, 0.1, 0.1], [0.6, 0.4, 0.5, 0.5]])  # the first is close to an odd vertex
    assert inside_parity_class(cube, means, odd=False).tolist() == [False, True]
    found = minimizer(parity_class(cube, odd=False), means, 1.0)
    assert np.isnan(found).any(1).tolist() == [True, False]


def test_risk_is_the_mean_fenchel_young_loss():
    """L_N(θ) = N⁻¹ Σ ℓ_t(θ; yᵢ), with no constant left out."""
    problem, theta = TopK(5, 2), instances(2, 1, 5)[0][0]
    y = mg.exact.sample(problem, theta, 40, seed=1)
    losses = mg.exact.fenchel_young(problem, np.broadcast_to(theta, y.shape), y, 0.8)
    assert risk(problem, theta, y.mean(0), 0.8) == pytest.approx(losses.mean())


def test_lazy_cube_fulfills_condition_iv():
    """q = 1/(2d) for each neighbor: at infinite temperature half of the steps stay."""
    cube = convergence.lazy_cube()
    assert [move.name for move in cube.moves] == ["flip", "stay"]
    assert len({move.weight for move in cube.moves}) == 1


def test_schedule_keeps_conditions_ii_and_iii():
    schedule, theta = convergence.Schedule(0.8, 0.5, 1e-3, 1, 10), np.array([[0.5, 0.0, 0.0], [1.0, 0.0, 0.0]])
    k = schedule.steps(3, 5, theta)
    assert k > np.floor(1 + 1e-3 * np.exp(8 * np.sqrt(3)))
    assert schedule.steps(4, k, 0 * theta) == k


def test_stochastic_gradients_approach_the_minimizer():
    row = convergence.descend(convergence.Schedule(0.8, 0.5, 1e-12, 16, 400), seed=4)
    assert row["squared"][-1] < 0.02 * row["squared"][0]
    assert row["slope"][0] < -0.5


def test_minimizers_are_asymptotically_normal():
    for problem, t in normality.cases().values():
        row = normality.replicate(problem, t, 2000, 1000, seed=2)
        assert row["exists"] == 1
        assert row["trace"][0] == pytest.approx(1, abs=2.5 * row["trace"][1])  # 5 standard errors
        assert row["coverage"][0] == pytest.approx(0.95, abs=0.035)


def test_means_of_exact_samples_do_not_depend_on_chunks_for_their_law():
    theta = np.tile([1.0, -1.0], (2000, 1))
    means = exact_means(Hypercube(2), theta, 250, 1.0, seed=0)
    error = (means.mean(0) - mg.exact.marginals(Hypercube(2), theta[0])) * np.sqrt(2000 * 250 / 0.1966)
    assert np.abs(error).max() < 5


def test_rounding_keeps_significant_digits():
    assert rounded([[123456.0], [0.000123456]], 3) == [[123000.0], [0.000123]]
