"""Effective sample size and R-hat on processes with known values; what a run reports about itself."""

import numpy as np
import pytest

import movegrad as mg
from movegrad.diagnostics import effective_sample_size, r_hat, standard_error
from movegrad.problems import Hypercube, TopK
from movegrad.problems.hypercube import apply_flip, change_flip, propose_flip

REPLICATES, CHAINS, DRAWS = 100, 4, 5_000
STANDARD_ERRORS = 6.0  # of a mean over replicates: a false alarm once in 10⁷ (Student's t with 99 degrees of freedom)


def autoregressive(phi, shape, seed=0):
    """Stationary x(k) = φ·x(k−1) + e(k) along the last axis, with variance 1."""
    rng = np.random.default_rng(seed)
    out = np.empty(shape)
    out[..., 0] = rng.normal(size=shape[:-1])
    noise = np.sqrt(1.0 - phi**2) * rng.normal(size=shape)
    for k in range(1, shape[-1]):
        out[..., k] = phi * out[..., k - 1] + noise[..., k]
    return out


def assert_mean_is(values, truth, bias=0.0):
    """The mean of replicates is ``truth`` up to its standard error and a known bias."""
    error = STANDARD_ERRORS * np.std(values, ddof=1) / np.sqrt(len(values)) + bias
    assert abs(np.mean(values) - truth) < error, (np.mean(values), truth, error)


# --- effective sample size -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_effective_sample_size_of_an_autoregressive_process(phi):
    """n(1 − φ)/(1 + φ). Truncating the sum at the first negative pair is biased by at most 2 % at this length."""
    runs = autoregressive(phi, (REPLICATES, CHAINS, DRAWS))
    share = [effective_sample_size(draws) / (CHAINS * DRAWS) for draws in runs]
    truth = (1 - phi) / (1 + phi)
    assert_mean_is(share, truth, bias=0.02 * truth)


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_effective_sample_size_of_a_single_chain(phi):
    runs = autoregressive(phi, (REPLICATES, 1, DRAWS))
    truth = (1 - phi) / (1 + phi)
    assert_mean_is([effective_sample_size(draws) / DRAWS for draws in runs], truth, bias=0.04 * truth)


def test_effective_sample_size_predicts_the_error_of_a_mean():
    """Var(mean) = Var(x)/ESS; a variance of n means is known to √(2/n)."""
    runs = autoregressive(0.8, (2_000, 1, 500), seed=1)
    claimed = np.mean([1.0 / effective_sample_size(draws) for draws in runs[:200]])
    found = runs.mean((1, 2)).var()
    assert abs(claimed / found - 1) < STANDARD_ERRORS * np.sqrt(2 / len(runs)) + 0.05


def test_chains_that_disagree_have_few_effective_draws():
    """Chains around two levels that differ by 20 standard deviations are worth about one draw each."""
    draws = autoregressive(0.0, (4, 1_000)) + np.array([[-10.0], [10.0], [-10.0], [10.0]])
    assert effective_sample_size(draws) < 8


def test_effective_sample_size_does_not_change_with_scale_or_origin():
    draws = autoregressive(0.7, (3, 999))
    assert effective_sample_size(1e6 * draws - 5e3) == pytest.approx(effective_sample_size(draws), rel=1e-6)


def test_effective_sample_size_is_bounded_for_alternating_draws():
    draws = np.tile([1.0, -1.0], (2, 500)) + 1e-3 * autoregressive(0.0, (2, 1_000))
    assert effective_sample_size(draws) <= 2_000 * np.log10(2_000)


CONSTANTS = [0.0, 1.0, -3.0, 0.1, 0.3, 1 / 3, 0.7, 123.456, 1e10 + 0.1, 1e-300]


@pytest.mark.parametrize("n", [4, 10, 100, 101, 128])
@pytest.mark.parametrize("value", CONSTANTS)
def test_constant_chains_have_no_effective_sample_size_and_no_r_hat(value, n):
    """NaN, also where the mean of equal numbers is rounded to another number."""
    draws = np.full((4, n), value)
    assert np.isnan(effective_sample_size(draws))
    assert np.isnan(r_hat(draws))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_draws_give_nan(n):
    draws = autoregressive(0.0, (4, n))
    assert np.isnan(effective_sample_size(draws))
    assert np.isnan(r_hat(draws))


def test_a_chain_that_never_moves_adds_no_effective_draws():
    """Stuck where the others have their mean, so that nothing else gives it away."""
    draws = autoregressive(0.0, (4, 1_000))
    stuck = draws.copy()
    stuck[0] = draws[1:].mean()
    assert effective_sample_size(stuck) <= 1.01 * effective_sample_size(draws[1:])
    assert effective_sample_size(stuck) < 0.85 * effective_sample_size(draws)


@pytest.mark.parametrize("chains", [1, 4])
def test_an_example_whose_chains_never_move_has_no_effective_draws(chains):
    theta, start = np.array([[0.5, 0.0, 0.0, 0.5], [1e6] * 4]), np.ones(4, int)
    info = mg.sample(Hypercube(4), theta, steps=1_000, chains=chains, start=start).info
    for sizes in info.ess.values():
        assert sizes[0] > 10
        assert sizes[1] == 0
    assert "effective sample size ≥ 0 of" in str(info)


def test_what_moved_in_the_burn_in_alone_has_no_effective_draws():
    info = mg.sample(Hypercube(4), np.full(4, 1e6), steps=1_000, burn_in=500, start=np.zeros(4, int)).info
    assert info.accepted.sum() == 4
    assert info.ess["objective"] == 0


# --- standard errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_standard_error_of_an_autoregressive_process(phi):
    """√(τ/(C·n)) with τ = (1 + φ)/(1 − φ). Batches of √n draws are not quite independent: 1 − O(τ/√n), less than τ/(2√n) here."""
    runs = autoregressive(phi, (REPLICATES, CHAINS, DRAWS), seed=5)
    tau = (1 + phi) / (1 - phi)
    squares = [standard_error(draws) ** 2 * CHAINS * DRAWS / tau for draws in runs]
    assert_mean_is(squares, 1.0, bias=tau / (2 * np.sqrt(DRAWS)) + 0.005)


def test_the_standard_error_sees_chains_that_disagree():
    draws = autoregressive(0.0, (4, 1_000)) + np.array([[-10.0], [10.0], [-10.0], [10.0]])
    assert standard_error(draws) > 10 * standard_error(autoregressive(0.0, (4, 1_000)))


@pytest.mark.parametrize("draws", [np.ones((4, 100)), np.arange(6.0).reshape(2, 3)])
def test_there_is_no_standard_error_of_nothing(draws):
    assert np.isnan(standard_error(draws))


RUNS, CHAINS_OF_RUN, STUDENT = 1_000, 8, 2.3646  # 95 % of Student's t with 7 degrees of freedom
FIVE_SIGMA = 5 * np.sqrt(0.95 * 0.05 / RUNS)  # of a share of runs: a false alarm once in 10⁶ for each entry


@pytest.mark.parametrize("problem", [TopK(6, 2), Hypercube(5, radius=2)], ids=repr)
@pytest.mark.parametrize("estimator", ["mean", "recycled"])
def test_standard_errors_of_the_mean_cover_the_exact_mean_as_often_as_they_say(problem, estimator):
    theta = np.linspace(-1, 1, problem.size)
    out = mg.sample(
        problem, np.tile(theta, (RUNS, 1)), steps=600, burn_in=100, chains=CHAINS_OF_RUN, estimator=estimator, trace=0, seed=1
    )
    assert out.info.standard_error.shape == (RUNS, problem.size)
    inside = np.abs(out.mean - mg.exact.marginals(problem, theta)) <= STUDENT * out.info.standard_error
    assert (np.abs(inside.mean(0) - 0.95) < FIVE_SIGMA).all(), inside.mean(0)


@pytest.mark.parametrize("chains", [1, 4])
def test_standard_errors_of_the_objective_cover_it_as_often_as_they_say(chains):
    """Student's t with 21 or 87 degrees of freedom; batches hang together a little, hence a percent on top."""
    problem, theta = TopK(6, 2), np.linspace(-1, 1, 6)
    info = mg.sample(problem, np.tile(theta, (RUNS, 1)), steps=20_000, trace=500, chains=chains, seed=2).info
    exact = theta @ mg.exact.marginals(problem, theta)
    inside = np.abs(info.trace[..., 0].mean((1, 2)) - exact) <= {1: 2.080, 4: 1.988}[chains] * info.error["objective"]
    assert abs(inside.mean() - 0.95) < FIVE_SIGMA + 0.01, inside.mean()


def test_standard_errors_are_of_the_means_of_chains():
    theta = np.random.default_rng(0).normal(size=(2, 3, 6))
    out = mg.sample(TopK(6, 2), theta, steps=100, chains=5, trace=100, iterates=True)
    means = out.iterates.mean(3).reshape(6, 5, 6)
    np.testing.assert_allclose(out.info.standard_error, means.std(1, ddof=1) / np.sqrt(5), atol=1e-12)
    assert "standard error of the mean: ≤ " in str(out.info)


def test_standard_errors_of_a_list_of_problems():
    info = mg.sample([TopK(5, 2), TopK(9, 3)], [np.zeros(5), np.zeros(9)], steps=50, chains=3).info
    assert [e.shape for e in info.standard_error] == [(5,), (9,)]


def test_one_chain_and_annealing_have_no_standard_error_of_the_mean():
    assert mg.sample(TopK(5, 2), np.zeros(5), steps=50).info.standard_error is None
    info = mg.solve(TopK(5, 2), np.zeros(5), steps=50, chains=3).info
    assert info.standard_error is None
    assert "standard error" not in str(info)


def test_entries_that_never_moved_have_no_standard_error():
    theta = np.array([1e6, 0.0, 0.0, -1e6])
    error = mg.sample(Hypercube(4), theta, steps=500, chains=3, start=np.array([1, 0, 0, 0])).info.standard_error[0]
    assert np.isnan(error).tolist() == [True, False, False, True]


# --- R-hat -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_r_hat_of_chains_that_agree(phi):
    """E[R²] = 1 + (τ − 1)/h for halves of h draws with τ = (1 + φ)/(1 − φ), up to O(1/h²)."""
    runs = autoregressive(phi, (REPLICATES, CHAINS, DRAWS), seed=2)
    h, tau = DRAWS // 2, (1 + phi) / (1 - phi)
    assert_mean_is([r_hat(draws) ** 2 for draws in runs], 1 + (tau - 1) / h, bias=10 * (tau / h) ** 2)


def test_r_hat_of_chains_that_disagree():
    """Independent draws around ±a: the means of the 8 halves have the variance 8a²/7 + 1/h, within is 1."""
    a, h = 0.5, DRAWS // 2
    runs = autoregressive(0.0, (REPLICATES, CHAINS, DRAWS), seed=3) + a * np.array([[1.0], [-1.0], [1.0], [-1.0]])
    assert_mean_is([r_hat(draws) ** 2 for draws in runs], 1 + 8 * a**2 / 7, bias=2 / h)


def test_r_hat_sees_a_drift_that_all_chains_share():
    """Halves at ±1 of one chain each: that is why chains are split."""
    draws = autoregressive(0.0, (4, 2_000)) + np.repeat([1.0, -1.0], 1_000)
    assert r_hat(draws) > 1.3


def test_r_hat_is_infinite_where_chains_are_stuck_at_different_places():
    assert r_hat(np.repeat([[0.0], [1.0]], 100, axis=1)) == np.inf
    assert r_hat(np.repeat([[0.1], [0.7]], 100, axis=1)) > 1e6


# --- counts ----------------------------------------------------------------------------------------------------------


@mg.jit
def never(data, state, move):
    return False


FORBIDDEN = mg.Move("forbidden flip", propose_flip, change_flip, apply_flip, feasible=never)


def mixture():
    return Hypercube(6, extra_moves=[FORBIDDEN, mg.stay(2.0)])


@pytest.mark.parametrize("estimator", ["mean", "recycled"])
def test_counts_add_up_to_the_steps(estimator):
    theta = np.random.default_rng(0).normal(size=(2, 6))
    info = mg.sample(mixture(), theta, steps=1_000, chains=3, estimator=estimator).info
    assert info.moves == ["flip", "forbidden flip", "stay"]
    assert info.drawn.sum() == 2 * 3 * 1_000
    assert (info.accepted + info.infeasible + info.inapplicable <= info.drawn).all()
    assert (info.steps == 1_000).all()
    assert info.steps.shape == (2,)
    np.testing.assert_array_equal(info.acceptance, info.accepted / info.drawn)


def test_counts_say_what_became_of_each_move():
    """With θ = 0 the coin accepts all: a flip is done, a forbidden one is infeasible, staying is no draw."""
    info = mg.sample(mixture(), np.zeros(6), steps=4_000).info
    flip, forbidden, stay = info.drawn
    np.testing.assert_array_equal(info.accepted, [flip, 0, 0])
    np.testing.assert_array_equal(info.infeasible, [0, forbidden, 0])
    np.testing.assert_array_equal(info.inapplicable, [0, 0, stay])
    # Weights 1 : 1 : 2. Six standard deviations: a false alarm once in 10⁹.
    np.testing.assert_allclose([flip, forbidden, stay], [1_000, 1_000, 2_000], rtol=0, atol=6 * np.sqrt(4_000 / 4))


def test_rejected_moves_are_counted_as_drawn_only():
    info = mg.sample(Hypercube(3), np.full(3, 1e6), steps=100, start=np.ones(3, int)).info
    assert info.drawn.tolist() == [100]
    assert info.accepted.tolist() == [0]
    assert info.acceptance.tolist() == [0.0]


def test_counts_add_up_under_a_time_limit():
    info = mg.sample(Hypercube(6), np.zeros((3, 6)), time_limit=0.01, chains=2).info
    assert info.drawn.sum() == 2 * info.steps.sum()
    assert (info.steps > 0).all()


# --- entries that never moved ----------------------------------------------------------------------------------------


def test_frozen_entries_are_named():
    theta = np.array([[1e6, 0.0, 0.0, -1e6], [0.0, 0.0, 0.0, 0.0]])
    start = np.array([1, 0, 0, 0])
    info = mg.sample(Hypercube(4), theta, steps=500, chains=2, start=start).info
    assert [entries.tolist() for entries in info.frozen] == [[0, 3], []]
    assert "2 of 4 entries (0, 3)" in str(info)


def test_nothing_is_named_where_all_entries_move():
    info = mg.sample(Hypercube(4), np.zeros(4), steps=500).info
    assert info.frozen[0].size == 0
    assert "never moved" not in str(info)


def test_an_entry_that_moves_in_one_chain_only_is_not_frozen():
    # From 11 each chain flips at most one bit before 1e6 holds it: chains started apart cover both.
    start = np.array([[0, 1], [1, 0]])
    info = mg.sample(Hypercube(2), np.full(2, 1e6), steps=50, chains=2, start=start).info
    assert info.frozen[0].size == 0


@pytest.mark.parametrize("burn_in", [0, 1])
def test_an_entry_that_moves_in_the_first_averaged_step_is_not_frozen(burn_in):
    """One bit, drawn up by θ: it flips in step 1, or is kept down by a cold start of burn-in and flips in step 2."""
    theta = np.array([50.0])
    start = np.array([0]) if burn_in == 0 else np.array([1])
    problem = Hypercube(1)
    schedule = None if burn_in == 0 else (lambda k: 1e9 if k == 0 else 1.0)  # step 1 leaves 1, step 2 returns
    out = mg.sample(problem, theta, steps=burn_in + 3, burn_in=burn_in, start=start, schedule=schedule, trace=4, iterates=True)
    assert out.info.accepted.tolist() == [burn_in + 1]
    assert out.iterates[0, :, 0].tolist() == ([1, 1, 1] if burn_in == 0 else [0, 1, 1, 1])
    assert out.info.frozen[0].size == 0


def test_many_frozen_entries_are_abbreviated():
    info = mg.sample(Hypercube(30), np.full(30, 1e6), steps=50, start=np.ones(30, int)).info
    assert "30 of 30 entries (0, 1, 2, 3, 4, 5, 6, 7, …)" in str(info)


# --- the report ------------------------------------------------------------------------------------------------------


def test_the_report_names_moves_and_counts():
    info = mg.sample(TopK(8, 3, swaps=[1, 2], extra_moves=[mg.stay()]), np.zeros((2, 8)), steps=400, chains=3).info
    text = str(info)
    for name, drawn in zip(info.moves, info.drawn, strict=True):
        assert any(line.startswith(f"{name} ") and f" {drawn} " in line for line in text.splitlines())
    assert info.moves == ["swap", "swap 2", "stay"]
    assert "2 examples × 3 chains, 400 steps each" in text
    assert "objective" in text
    assert "distance" in text
    assert "R-hat" in text
    assert repr(info) == text


def test_the_report_says_one_example_in_the_singular():
    assert "1 example × 1 chain," in str(mg.sample(TopK(4, 2), np.zeros(4), steps=10).info)


def test_the_report_of_solve_and_of_a_time_limit_names_the_moves():
    assert "swap" in str(mg.solve(TopK(4, 2), np.zeros(4), steps=10).info)
    assert "swap" in str(mg.sample(TopK(4, 2), np.zeros((3, 4)), time_limit=0.001).info)


def test_the_report_shows_chains_that_are_stuck_apart():
    """The worst R-hat there is must not be left out of the report."""
    corners = np.array([[1, 0, 0, 0], [0, 0, 0, 1]])
    problem = Hypercube(4, extra_moves=[mg.stay(1e6)])
    info = mg.sample(problem, np.array([1.0, 2.0, 3.0, 4.0]), steps=50, chains=2, start=corners).info
    assert info.accepted.sum() == 0
    assert info.r_hat["objective"] == np.inf
    line = next(line for line in str(info).splitlines() if line.startswith("objective"))
    assert "inf" in line or "∞" in line


# --- traces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 5, 127, 128, 129, 200, 255, 256, 1_000, 12_345])
def test_the_trace_reaches_the_end_of_the_run(steps):
    info = mg.sample(TopK(5, 2), np.zeros(5), steps=steps, chains=2).info
    points = info.trace.shape[2]
    assert info.trace.shape == (1, 2, points, 2)
    assert points <= 128
    assert steps - info.trace_every < points * info.trace_every <= steps
    assert np.isfinite(info.trace).all()


def test_effective_sample_size_and_r_hat_leave_out_the_burn_in():
    theta = np.random.default_rng(0).normal(size=(2, 8))
    info = mg.sample(TopK(8, 3), theta, steps=600, burn_in=150, chains=3, trace=200).info
    assert info.trace_every == 3
    for column, name in enumerate(("objective", "distance")):
        kept = info.trace[:, :, 50:, column]
        np.testing.assert_array_equal(info.ess[name], [effective_sample_size(rows) for rows in kept])
        np.testing.assert_array_equal(info.r_hat[name], [r_hat(rows) for rows in kept])


def test_a_late_burn_in_leaves_points_to_judge():
    info = mg.sample(TopK(8, 3), np.random.default_rng(0).normal(size=8), steps=255, burn_in=200, chains=4).info
    assert np.isfinite(info.ess["objective"]).all()
    assert np.isfinite(info.r_hat["objective"]).all()


@pytest.mark.parametrize("arguments", [{"steps": 20, "trace": 0}, {"time_limit": 0.001}])
def test_a_run_without_a_trace_has_an_empty_one(arguments):
    info = mg.sample(TopK(5, 2), np.zeros((3, 5)), chains=2, **arguments).info
    assert info.trace.shape == (3, 2, 0, 2)
    assert np.isnan(info.ess["objective"]).all()
    assert np.isnan(info.r_hat["distance"]).all()


def test_seconds_are_those_of_the_run():
    info = mg.sample(TopK(5, 2), np.zeros(5), time_limit=0.05).info
    assert info.seconds > 0.04


# --- ArviZ -----------------------------------------------------------------------------------------------------------


def test_arviz_gets_chains_draws_and_examples():
    pytest.importorskip("arviz_base")
    info = mg.sample(TopK(8, 3), np.random.default_rng(0).normal(size=(2, 8)), steps=300, chains=3, trace=100).info
    posterior = info.to_arviz()["posterior"]
    for column, name in enumerate(("objective", "distance")):
        assert posterior[name].dims == ("chain", "draw", "example")
        assert posterior[name].shape == (3, 100, 2)
        np.testing.assert_array_equal(posterior[name].transpose("example", "chain", "draw").values, info.trace[..., column])


def test_arviz_gets_a_ragged_batch():
    pytest.importorskip("arviz_base")
    info = mg.sample([TopK(5, 2), TopK(9, 3)], [np.zeros(5), np.zeros(9)], steps=50, chains=2).info
    assert info.to_arviz()["posterior"]["objective"].shape == (2, 50, 2)


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "arviz_base", None)
    info = mg.sample(TopK(5, 2), np.zeros(5), steps=10).info
    with pytest.raises(ImportError, match=r"pip install 'movegrad\[arviz\]'"):
        info.to_arviz()


def test_standard_errors_of_thousands_of_chains_know_that_groups_try_the_same_moves():
    """Outside of 95 % intervals in more than 45 of 300 runs: a right error has that with probability below 1e-9."""
    rng = np.random.default_rng(0)
    problem, y = mg.problems.Knapsack(rng.integers(1, 6, (2, 8)).astype(float), [10.0, 10.0]), np.zeros(8, int)
    theta = rng.normal(size=8)
    exact = mg.one_step(problem, theta, y)[1]
    outside = np.zeros(8)
    for seed in range(300):
        out = mg.sample(problem, theta, steps=1, chains=5000, start=y, trace=0, seed=seed)
        outside += np.abs(out.mean - exact) > 1.97 * out.info.standard_error[0]
    assert outside.max() <= 45
