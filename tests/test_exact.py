"""Closed forms and the dynamic program agree with enumeration, and samples with marginals."""

import numpy as np
import pytest

import movegrad as mg
from movegrad.exact import Enumeration
from movegrad.problems import Hypercube, TopK

CASES = {
    "hypercube": Hypercube(6),
    "hypercube with φ": Hypercube(5, phi=np.array([1.0, -1.0, 0.3, 2.0, 0.0])),
    "top-k": TopK(7, k=3),
    "top-k, k = 1": TopK(5, k=1),
    "top-k, k = d − 1": TopK(5, k=4),
    "top-k with φ": TopK(6, k=2, phi=np.linspace(-2, 1, 6)),
}


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("name", CASES)
def test_closed_form_equals_enumeration(name, temperature):
    problem = CASES[name]
    theta = np.random.default_rng(0).normal(size=(3, 2, problem.size)) * 3
    table = Enumeration(problem)
    np.testing.assert_allclose(
        mg.exact.log_partition(problem, theta, temperature), table.log_partition(theta, temperature), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        mg.exact.marginals(problem, theta, temperature), table.marginals(theta, temperature), rtol=1e-9, atol=1e-12
    )


def test_marginals_are_the_gradient_of_the_cumulant():
    problem, theta, t = TopK(8, k=3), np.random.default_rng(1).normal(size=8), 0.7
    step = 1e-5
    numeric = [
        t * (mg.exact.log_partition(problem, theta + e, t) - mg.exact.log_partition(problem, theta - e, t)) / (2 * step)
        for e in step * np.eye(8)
    ]
    np.testing.assert_allclose(mg.exact.marginals(problem, theta, t), numeric, atol=1e-9)


def test_dynamic_program_is_stable_for_a_thousand_items_and_peaked_scores():
    problem = TopK(1000, k=50)
    theta = np.random.default_rng(2).normal(size=(2, 1000)) * 1e4
    marginals = mg.exact.marginals(problem, theta)
    np.testing.assert_allclose(marginals.sum(-1), 50.0, rtol=1e-10)
    for row, scores in zip(marginals, theta, strict=True):
        np.testing.assert_allclose(row[np.argsort(scores)[-50:]], 1.0, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_exact_samples_match_marginals(name):
    problem, n = CASES[name], 40_000
    theta = np.random.default_rng(3).normal(size=(2, problem.size))
    draws = mg.exact.sample(problem, theta, n, temperature=1.5, seed=4)
    assert draws.shape == (n, 2, problem.size)
    exact = mg.exact.marginals(problem, theta, 1.5)
    error = np.sqrt(exact * (1 - exact) / n)
    assert (np.abs(draws.mean(0) - exact) < 5.5 * error + 1e-12).all()  # false alarm below 1e-6 for 14 entries


def test_covariance_equals_the_jacobian():
    problem, theta, t, step = TopK(6, k=2), np.random.default_rng(5).normal(size=6), 0.9, 1e-5
    numeric = np.stack(
        [
            (mg.exact.marginals(problem, theta + e, t) - mg.exact.marginals(problem, theta - e, t)) / (2 * step)
            for e in step * np.eye(6)
        ]
    )
    np.testing.assert_allclose(mg.exact.covariance(problem, theta, t) / t, numeric, atol=1e-9)


def test_fenchel_young_loss_is_the_scaled_negative_log_likelihood():
    problem, t = TopK(5, k=2), 0.6
    theta = np.random.default_rng(6).normal(size=5)
    table = Enumeration(problem)
    losses = mg.exact.fenchel_young(problem, np.broadcast_to(theta, (len(table.solutions), 5)), table.solutions, t)
    np.testing.assert_allclose(losses, -t * np.log(table.probabilities(theta, t)), rtol=1e-10)
    assert (losses >= 0).all()


def test_sampling_one_theta_without_batch_axes():
    assert mg.exact.sample(TopK(5, k=2), np.zeros(5), 7).shape == (7, 5)
