"""The rule for verdicts: how often its interval misses the truth, and what its words mean."""

import numpy as np
import pytest

from experiments.verdicts import Interval, corrected, judged, of_ratio, paired, stated, verdict

# Variances of seeds, instances, errors: either part alone, both, none, and those at which intervals by Satterthwaite fail.
VARIANCES = [(0, 0, 1), (0, 1, 1), (0.05, 0, 1), (0.01, 0.3, 1), (1, 0, 1), (1, 1, 1), (1, 1, 0), (0.2, 10, 1)]


def missed(seeds, instances, variances, runs, seed):
    """Share of intervals that leave out the mean, which is 0."""
    rng = np.random.default_rng(seed)
    by_seed, by_instance, error = np.sqrt(variances)
    count = 0
    for _ in range(runs):
        y = by_seed * rng.normal(size=(seeds, 1)) + by_instance * rng.normal(size=instances)
        count += verdict(paired(y + error * rng.normal(size=(seeds, instances)))) != "undecided"
    return count / runs


@pytest.mark.parametrize("variances", VARIANCES)
@pytest.mark.parametrize(("seeds", "instances"), [(10, 100), (5, 120), (3, 20), (3, 3), (2, 20)])
def test_a_difference_of_zero_is_decided_in_at_most_5_percent(seeds, instances, variances):
    """40 cases of 1000 runs with 4.5 standard errors: a false alarm of the whole test in 1.4e-4 where 5 % is reached exactly."""
    runs = 1000
    assert missed(seeds, instances, variances, runs, seed=1) <= 0.05 + 4.5 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("variances", [(1, 0, 1), (0, 1, 0.1), (1, 1, 1)])
def test_the_interval_is_not_wider_than_it_must_be(variances):
    """Where one part decides, or both do, at least 2 % are missed: an interval that is too wide would pass the test above."""
    runs = 1000
    assert missed(5, 120, variances, runs, seed=2) >= 0.02


def test_seeds_taken_for_instances_would_fail_that_test():
    """600 values as if independent: what the rule is there to avoid."""
    rng = np.random.default_rng(3)
    decided = 0
    for _ in range(200):
        y = rng.normal(size=(5, 1)) + 0.1 * rng.normal(size=(5, 120))
        decided += verdict(paired(y.reshape(-1))) != "undecided"
    assert decided > 100


def test_five_seeds_see_a_difference_of_half_a_deviation_of_instances():
    rng = np.random.default_rng(4)
    y = -0.5 + rng.normal(size=120) + 0.1 * rng.normal(size=(5, 1)) + 0.3 * rng.normal(size=(5, 120))
    assert verdict(paired(y)) == "ahead"


def test_one_axis_is_student_s_interval():
    from scipy.stats import ttest_1samp

    values = np.array([0.3, 1.2, -0.4, 2.0, 0.9])
    low, high = ttest_1samp(values, 0).confidence_interval(0.9)
    assert np.allclose(paired(values, level=0.9), (values.mean(), low, high))


def test_with_effects_of_seeds_alone_it_is_student_s_interval_of_their_means():
    means = np.array([0.3, 1.2, -0.4, 2.0, 0.9])
    assert np.allclose(paired(np.repeat(means[:, None], 50, axis=1)), paired(means))
    assert np.allclose(paired(np.repeat(means[None], 50, axis=0)), paired(means))


@pytest.mark.parametrize("shape", [(1, 100), (100, 1), (1,), (1, 1)])
def test_one_seed_or_one_instance_decides_nothing(shape):
    interval = paired(np.full(shape, -3.0))
    assert interval == (-3.0, -np.inf, np.inf)
    assert verdict(interval) == "undecided"
    assert stated(interval) == "-3.00: undecided"


def test_a_run_without_a_result_decides_nothing():
    assert verdict(paired([[1.0, 2.0], [np.nan, 2.0]])) == "undecided"


def test_words():
    below, above, around = Interval(-1, -2, -0.5), Interval(1, 0.5, 2), Interval(0, -1, 1)
    assert [verdict(i) for i in (below, above, around)] == ["ahead", "behind", "undecided"]
    assert [verdict(i, better="higher") for i in (below, above, around)] == ["behind", "ahead", "undecided"]
    assert [judged(i, "lower") for i in (below, above, around)] == ["holds", "contradicted", "undecided"]
    assert [judged(i, "higher") for i in (below, above, around)] == ["contradicted", "holds", "undecided"]
    assert [judged(i, "level", 0.4) for i in (below, above, around)] == ["contradicted", "contradicted", "undecided"]
    assert [judged(i, "level", 3.0) for i in (below, above, around)] == ["holds"] * 3
    assert stated(below) == "-1.00 (-2.00 – -0.50): ahead"
    assert stated(below.scaled(-100), digits=0) == "+100 (+50 – +200): behind"
    assert verdict(Interval(0.0, 0.0, 0.0)) == "undecided"
    assert [of_ratio(*r) for r in ((0.5, 0.1), (1.53, 0.03), (0.97, 0.04), (None, None))] == [
        "0.5 ±0.1: ahead", "1.53 ±0.03: behind", "0.97 ±0.04: undecided", "–",
    ]  # fmt: skip


def test_the_best_of_some_comparisons_is_decided_in_at_most_5_percent():
    """Twenty methods that are all level: the largest of 20 means, at the corrected level, 400 times (false alarm: 1e-4)."""
    rng = np.random.default_rng(5)
    level, runs = corrected(20), 400
    wrong = 0
    for _ in range(runs):
        wrong += any(verdict(paired(y, level)) != "undecided" for y in rng.normal(size=(20, 30)))
    assert wrong / runs <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / runs)
    assert corrected(1) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: paired(np.zeros((2, 2, 2))), "differences must have one or two axes"),
        (lambda: paired([]), "differences must have one or two axes"),
        (lambda: paired([1.0, 2.0], level=95), r"level must be in \(0, 1\), got 95"),
        (lambda: verdict(Interval(0, 0, 0), better="less"), "better must be 'lower' or 'higher', got 'less'"),
        (lambda: judged(Interval(0, 0, 0), "level"), "margin must be > 0"),
        (lambda: corrected(0), "comparisons must be >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(call, told):
    with pytest.raises(ValueError, match=told):
        call()
