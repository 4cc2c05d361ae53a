"""Chains have the right law: against exact marginals, exact first steps, and exact covariances."""

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import Options, bind, host, layout_of, pace
from movegrad.exact import Enumeration
from movegrad.problems import Hypercube, TopK
from movegrad.proof.pure import PureProblem
from tests.slow import slow_but_for


def scores(d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=d)


def z_scores(problem, theta, *, temperature=1.0, steps, chains=128, estimator="mean"):
    """(estimate − exact) / standard error for each entry, the error taken from independent chains."""
    rows = np.broadcast_to(theta, (chains, len(theta)))
    means = mg.sample(
        problem, rows, steps=steps, burn_in=steps // 4, temperature=temperature, estimator=estimator, trace=0, seed=7
    ).mean
    error = means.std(0, ddof=1) / np.sqrt(chains)
    return (means.mean(0) - mg.exact.marginals(problem, theta, temperature)) / np.maximum(error, 1e-12)


CHAINS = {
    "hypercube d=10": (Hypercube(10), 4_000, 1.0),
    "hypercube d=1000": (Hypercube(1000), 200_000, 1.0),
    "hypercube d=100, up to 5 flips": (Hypercube(100, radius=5), 100_000, 2.0),
    "hypercube d=10, mixture": (Hypercube(10, exactly=(1, 2, 3, 6)), 10_000, 1.0),
    "top-k d=10": (TopK(10, k=3), 4_000, 1.0),
    "top-k d=100, hot": (TopK(100, k=30), 40_000, 3.0),
    "top-k d=1000": (TopK(1000, k=50), 400_000, 1.0),
    "top-k d=50, guided": (TopK(50, k=5, guided=True), 10_000, 0.5),
    "top-k d=20, mixture": (TopK(20, k=5, swaps=(1, 2, 3)), 20_000, 1.0),
}


@pytest.mark.parametrize("estimator", ["mean", "recycled"])
@pytest.mark.parametrize("name", slow_but_for(lambda name: name != "top-k d=20, mixture", CHAINS))
def test_long_chains_match_exact_marginals(name, estimator):
    problem, steps, temperature = CHAINS[name]
    z = z_scores(problem, scores(problem.size), temperature=temperature, steps=steps, estimator=estimator)
    # P(|z| > 4) = 1.1e-4 an entry with 128 chains (Student): more than 2 of 1000 entries have probability 1.9e-4.
    assert (np.abs(z) > 4).sum() <= 2
    assert np.abs(z).max() < 7


@pytest.mark.parametrize("problem", [Hypercube(4, radius=2), TopK(5, k=2, swaps=(1, 2), weights=(1, 3))], ids=repr)
def test_law_of_a_few_steps_is_the_exact_kernel_power(problem):
    """Three steps from a fixed start, against P³ computed by enumeration: a chi-square test with false alarm 1e-6."""
    theta, t, runs, steps = scores(problem.size, 3), 0.8, 40_000, 3
    table = Enumeration(problem)
    law = np.zeros(len(table.solutions))
    law[0] = 1.0
    law = law @ np.linalg.matrix_power(transition(problem, table, theta, t), steps)
    out = mg.sample(
        problem, np.broadcast_to(theta, (runs, problem.size)), steps=steps, temperature=t, start=table.solutions[0], trace=0
    )
    ends = {y.tobytes(): i for i, y in enumerate(table.solutions.astype(np.uint8))}
    counts = np.bincount([ends[y.tobytes()] for y in out.solutions[:, 0]], minlength=len(law))
    assert counts[law < 1e-15].sum() == 0
    seen = law > 1e-15
    expected = runs * law[seen]
    statistic, freedom = ((counts[seen] - expected) ** 2 / expected).sum(), seen.sum() - 1
    assert statistic < freedom + 4.9 * np.sqrt(2 * freedom) + 16  # chi-square tail: at most 7e-7 for 9 to 15 degrees


def transition(problem, table, theta, t):
    """The transition matrix of Algorithm 2, from all draws of all moves in pure Python."""
    pure, n = PureProblem(problem), len(table.solutions)
    number = {y.tobytes(): i for i, y in enumerate(table.solutions)}
    logits = (table.statistics @ theta + table.phi) / t
    weights = np.array([m.weight for m in problem.moves])
    matrix = np.zeros((n, n))
    for i, y in enumerate(table.solutions):
        for s, move in enumerate(pure.moves):
            for path, state, drawn, log_ratio in pure.draws(pure.state(y, theta, t), s):
                move.apply(pure.data, state, drawn)
                j = number[state[0].tobytes()]
                matrix[i, j] += weights[s] / weights.sum() * path.probability * min(1.0, np.exp(log_ratio + logits[j] - logits[i]))
    np.fill_diagonal(matrix, np.diag(matrix) + 1.0 - matrix.sum(1))
    return matrix


def test_recycled_mean_has_the_same_expectation_and_less_variance_at_one_step():
    problem, theta, runs = TopK(10, k=3), scores(10, 1), 40_000
    rows, start = np.broadcast_to(theta, (runs, 10)), problem.solution
    plain, recycled = (
        mg.sample(problem, rows, steps=1, start=start, estimator=e, trace=0, seed=s).mean for e, s in (("mean", 1), ("recycled", 2))
    )
    error = np.sqrt((plain.var(0) + recycled.var(0)) / runs)
    assert (np.abs(plain.mean(0) - recycled.mean(0)) < 5.3 * error + 1e-12).all()  # false alarm 1e-6 for 10 entries
    assert recycled.var(0).sum() < 0.95 * plain.var(0).sum()
    exact = mg.one_step(problem, theta, start)[1] + start
    np.testing.assert_array_less(np.abs(recycled.mean(0) - exact), 5.3 * recycled.std(0) / np.sqrt(runs) + 1e-12)


@pytest.mark.parametrize("problem", [Hypercube(6), TopK(7, k=3)], ids=repr)
def test_jacobian_product_matches_the_exact_covariance(problem):
    theta, v, t, chains = scores(problem.size, 2), scores(problem.size, 3), 1.3, 64
    rows = np.broadcast_to(theta, (chains, problem.size))
    products = mg.jacobian_product(problem, rows, np.broadcast_to(v, rows.shape), steps=20_000, burn_in=1000, temperature=t)
    exact = mg.exact.covariance(problem, theta, t) @ v / t
    error = products.std(0, ddof=1) / np.sqrt(chains)
    assert (np.abs(products.mean(0) - exact) < 6 * error).all()  # Student with 63 degrees of freedom: 1e-7 an entry


def test_jacobian_product_pools_chains():
    """The covariance over all chains of an example includes how chains differ."""
    problem, theta, v = Hypercube(4), np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0])
    start = np.array([[0, 0, 0, 0], [1, 1, 1, 1]], np.uint8)
    pooled = mg.jacobian_product(problem, theta * 0 - 0.0, v, steps=1, chains=2, start=start, temperature=1e-9 + 1.0)
    out = mg.sample(problem, theta, steps=1, chains=2, start=start, trace=1, iterates=True)
    y = out.iterates[:, 0].astype(float)
    np.testing.assert_allclose(pooled, ((y - y.mean(0)) * (y @ v - (y @ v).mean())[:, None]).mean(0), rtol=1e-6)


def test_one_step_gradient_is_the_exact_expectation_of_the_first_step():
    problem, theta, t = TopK(6, k=2, swaps=(1, 2)), scores(6, 4), 0.9
    table = Enumeration(problem)
    matrix = transition(problem, table, theta, t)
    _, gradients = mg.one_step(problem, np.broadcast_to(theta, (len(matrix), 6)), table.solutions, temperature=t)
    np.testing.assert_allclose(gradients, matrix @ table.statistics - table.statistics, atol=1e-12)


def test_one_step_value_is_nonnegative_and_vanishes_far_on_the_right_side():
    problem, y = TopK(6, k=2), np.array([1, 1, 0, 0, 0, 0], np.uint8)
    near, far = (mg.one_step(problem, scale * (2.0 * y - 1.0), y)[0] for scale in (0.1, 50.0))
    assert near > far >= 0
    assert far < 1e-30


def test_solve_finds_the_best_subset():
    problem, theta = TopK(200, k=20), scores(200, 5)
    best = mg.solve(problem, theta, steps=50_000)
    np.testing.assert_array_equal(np.flatnonzero(best.solution), np.sort(np.argsort(theta)[-20:]))
    assert best.objective == pytest.approx(np.sort(theta)[-20:].sum(), rel=1e-9)


def test_truncated_geometric_schedule_is_followed_step_by_step():
    """With a schedule that is hot for 500 steps and then frozen, the chain moves first and climbs afterward."""
    problem, theta = Hypercube(50), np.ones(50)
    hot_then_cold = lambda k: 1e9 if k < 500 else 1e-9  # noqa: E731
    out = mg.sample(problem, theta, steps=2_000, schedule=hot_then_cold, trace=2_000, start=np.ones(50, np.uint8))
    objective = out.info.trace[0, 0, :, 0]
    assert objective[:500].min() < 40
    assert (np.diff(objective[500:]) >= 0).all()
    assert objective[-1] == 50
    decay = mg.schedules.truncated_geometric(2.0, 0.5, 0.3)
    assert [decay(k) for k in range(4)] == [2.0, 1.0, 0.5, 0.3]


def test_the_clock_of_a_time_limit_starts_when_the_kernel_is_compiled_for_these_types(monkeypatch):
    """A second dtype of the data is a second compilation of the same kernel."""
    cube = mg.problems.Hypercube(3, phi=np.ones(3))
    floats = [np.float64, np.float32]
    data = [type(cube.data)(*(f.astype(kind) if f.dtype.kind == "f" else f for f in cube.data)) for kind in floats]
    problems = [mg.Problem(d, cube.state, cube.moves, 3, phi=cube.functions.phi, name="two types") for d in data]
    kind = layout_of(problems[0]).kind
    assert layout_of(problems[1]).kind == kind
    kernel = bind.chain_kernel(kind, Options())
    compiled, clock = [], pace.perf_counter

    def looked_at():
        compiled.append(len(kernel.overloads))
        return clock()

    monkeypatch.setattr(host, "perf_counter", looked_at)
    monkeypatch.setattr(pace, "perf_counter", looked_at)
    for problem in problems:
        mg.sample(problem, np.zeros(3), time_limit=0.001, trace=0)
        compiled.append(None)
    first, second = compiled[0], compiled[compiled.index(None) + 1]
    assert second == first + 1


def test_time_limit_gives_every_chain_of_an_example_the_same_steps():
    problem, theta = Hypercube(100), np.zeros((4, 100))
    for chains in (1, 3):
        out = mg.sample(problem, theta, time_limit=0.02, chains=chains)
        assert out.info.steps.min() >= 64
        assert out.info.drawn.sum() == chains * out.info.steps.sum()
        assert out.mean.shape == (4, 100)


def test_progress_reaches_one():
    seen: list[float] = []
    mg.sample(Hypercube(10), np.zeros(10), steps=3_000_000, progress=seen.append)
    assert len(seen) > 1
    assert seen[-1] == 1.0


def test_interrupt_stops_all_threads():
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mg.sample(Hypercube(10), np.zeros((2, 10)), steps=50_000_000, progress=stop)
    assert mg.sample(Hypercube(10), np.zeros(10), steps=10).mean.shape == (10,)
