"""What holds for every shape, size, number of chains, temperature and θ; all equalities of runs are bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import movegrad as mg
from movegrad.problems import Hypercube, TopK

# The same examples in every run, so that no run fails by chance. Remove derandomize to look for new ones.
usual = settings(deadline=None, max_examples=60, derandomize=True)
few = settings(deadline=None, max_examples=30, derandomize=True)

seeds = st.integers(0, 2**63 - 1)
shapes = st.one_of(st.just(()), st.tuples(st.integers(1, 4)), st.tuples(st.integers(1, 3), st.integers(1, 3)))
temperatures = st.floats(-3.0, 3.0).map(lambda e: 10.0**e)
dtypes = st.sampled_from([np.float32, np.float64])
exponents = st.floats(-6.0, 6.0)


@st.composite
def top_k(draw, most=12):
    d = draw(st.integers(2, most))
    return TopK(d, draw(st.integers(1, d - 1)))


problems = st.one_of(top_k(), st.integers(1, 12).map(Hypercube))


@st.composite
def thetas(draw, shape, d, dtype=np.float64):
    """Normal entries of magnitude 1e-6 … 1e6, each row with a magnitude of its own; some rows all equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    theta = rng.normal(size=(*shape, d)) * 10.0 ** draw(exponents)
    return (theta * (rng.random((*shape, 1)) < 0.9)).astype(dtype)


def ones(problem):
    """Number of ones of a solution, None if any number will do."""
    return problem.data.k if isinstance(problem, TopK) else None


def assert_in_the_set(problem, solutions):
    assert np.isin(solutions, (0, 1)).all()
    if ones(problem) is not None:
        assert (solutions.sum(-1) == ones(problem)).all()


def assert_same_run(one, other):
    for name in ("mean", "solutions", "best", "iterates"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# --- shapes, ranges, finiteness --------------------------------------------------------------------------------------


@usual
@given(st.data(), problems, shapes, dtypes, st.integers(1, 4), st.integers(1, 40), st.integers(1, 20), seeds)
def test_results_have_the_leading_axes_of_theta(data, problem, shape, dtype, chains, steps, trace, seed):
    d = problem.size
    theta = data.draw(thetas(shape, d, dtype))
    out = mg.sample(problem, theta, steps=steps, chains=chains, best=True, trace=trace, iterates=True, seed=seed)
    points = min(trace, steps)
    assert out.mean.shape == (*shape, d)
    assert out.solutions.shape == out.best.shape == (*shape, chains, d)
    assert_in_the_set(problem, out.best)
    assert out.iterates.shape[:-2] == (*shape, chains)
    assert out.iterates.shape[-1] == d
    assert 1 <= out.iterates.shape[-2] <= points
    assert mg.jacobian_product(problem, theta, theta, steps=steps, chains=chains, seed=seed).shape == (*shape, d)
    solution = mg.solve(problem, theta, steps=steps, chains=chains, seed=seed)
    assert solution.solution.shape == (*shape, d)
    assert np.shape(solution.objective) == shape


@usual
@given(
    st.data(),
    problems,
    shapes,
    dtypes,
    temperatures,
    st.integers(1, 3),
    st.integers(1, 200),
    st.sampled_from(["mean", "recycled"]),
    seeds,
)
def test_means_are_marginals_and_ends_are_solutions_at_any_temperature(
    data, problem, shape, dtype, temperature, chains, steps, estimator, seed
):
    theta = data.draw(thetas(shape, problem.size, dtype))
    burn_in = data.draw(st.integers(0, steps - 1))
    out = mg.sample(
        problem,
        theta,
        temperature=temperature,
        steps=steps,
        burn_in=burn_in,
        chains=chains,
        estimator=estimator,
        seed=seed,
    )
    rounding = 0.0 if estimator == "mean" else 1e-12
    assert (out.mean >= -rounding).all()
    assert (out.mean <= 1.0 + rounding).all()
    if ones(problem) is not None:
        np.testing.assert_allclose(out.mean.sum(-1), ones(problem), rtol=0, atol=1e-12 * problem.size)
    assert_in_the_set(problem, out.solutions)


@usual
@given(st.data(), problems, shapes, dtypes, temperatures, seeds)
def test_nothing_is_nan_at_any_temperature(data, problem, shape, dtype, temperature, seed):
    theta = data.draw(thetas(shape, problem.size, dtype))
    product = mg.jacobian_product(problem, theta, theta, steps=50, chains=2, temperature=temperature, seed=seed)
    assert np.isfinite(product).all()
    # vᵀ J v ≥ 0 for v = θ, up to rounding.
    square = np.abs(theta.astype(np.float64)).sum(-1) ** 2 / temperature
    assert ((product * theta).sum(-1) >= -1e-9 * square).all()
    y = np.broadcast_to(problem.solution, (*shape, problem.size))
    loss, gradient = mg.one_step(problem, theta, y, temperature=temperature)
    assert np.isfinite(loss).all()
    assert (loss >= 0).all()
    assert (np.abs(gradient) <= 1.0 + 1e-12).all()
    assert np.isfinite(mg.solve(problem, theta, steps=50, seed=seed).objective).all()
    info = mg.sample(problem, theta, steps=50, temperature=temperature, seed=seed).info
    assert np.isfinite(info.trace).all()
    assert "steps/s" in str(info)


@pytest.mark.parametrize("estimator", ["mean", "recycled"])
@pytest.mark.parametrize("temperature", [1e-300, 1e-100, 1e100, 1e300])
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-100, 1.0, 1e100, 1e300])
def test_means_stay_marginals_at_the_ends_of_floating_point(scale, temperature, estimator):
    theta = scale * np.array([1.0, -1.0, 0.5, 0.0, -0.25])
    with np.errstate(all="raise", under="ignore"):
        mean = mg.sample(TopK(5, 2), theta, steps=30, temperature=temperature, estimator=estimator).mean
    assert (mean >= -1e-12).all()
    assert (mean <= 1 + 1e-12).all()
    assert np.isclose(mean.sum(), 2.0)


# --- the same draws, whatever runs beside ------------------------------------------------------------------------------


@usual
@given(st.data(), problems, shapes, temperatures, st.integers(1, 3), seeds, st.sampled_from(["mean", "recycled"]))
def test_the_same_seed_gives_the_same_numbers(data, problem, shape, temperature, chains, seed, estimator):
    theta = data.draw(thetas(shape, problem.size))

    def run():
        arguments = {"steps": 60, "chains": chains, "temperature": temperature, "iterates": True, "seed": seed}
        return mg.sample(problem, theta, estimator=estimator, best=estimator == "mean", **arguments)

    assert_same_run(run(), run())


@pytest.mark.parametrize("other", [{"seed": 1}, {"call": 1}, {"index": [1]}])
def test_another_seed_or_call_or_key_gives_other_numbers(other):
    # Two independent ends of 200 fair bits agree with probability 2⁻²⁰⁰.
    theta, cube = np.zeros((1, 200)), Hypercube(200)
    assert not np.array_equal(mg.sample(cube, theta, steps=1000).solutions, mg.sample(cube, theta, steps=1000, **other).solutions)


def test_chains_of_an_example_differ():
    state = mg.sample(Hypercube(200), np.zeros(200), steps=1000, chains=4).solutions
    assert len(np.unique(state, axis=0)) == 4


@few
@given(st.data(), problems, temperatures, st.integers(1, 4), st.integers(1, 4), seeds)
def test_a_chain_does_not_depend_on_the_number_of_chains(data, problem, temperature, fewer, more, seed):
    theta = data.draw(thetas((3,), problem.size))
    arguments = {"steps": 50, "temperature": temperature, "seed": seed}
    small = mg.sample(problem, theta, chains=fewer, **arguments)
    large = mg.sample(problem, theta, chains=fewer + more, **arguments)
    np.testing.assert_array_equal(small.solutions, large.solutions[:, :fewer])


@few
@given(st.data(), problems, temperatures, st.integers(1, 30), st.integers(1, 30), seeds)
def test_a_short_run_is_the_beginning_of_a_long_one(data, problem, temperature, steps, further, seed):
    theta = data.draw(thetas((2,), problem.size))

    def iterates(n):
        return mg.sample(problem, theta, steps=n, trace=n, iterates=True, temperature=temperature, chains=2, seed=seed).iterates

    np.testing.assert_array_equal(iterates(steps), iterates(steps + further)[:, :, :steps])


@pytest.fixture
def restore_threads():
    before = mg.get_threads()
    yield
    mg.set_threads(before)


def under_threads(n, call):
    mg.set_threads(n)
    return call()


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("estimator", ["mean", "recycled"])
def test_results_do_not_depend_on_the_number_of_threads(restore_threads, threads, estimator):
    # 5 examples × 3 chains × 4001 steps: enough work to be handed to threads, and 15 chains divide by neither 2 nor 7.
    problem, theta = TopK(20, 7), np.random.default_rng(0).normal(size=(5, 20))

    def run():
        arguments = {"steps": 4001, "burn_in": 100, "chains": 3, "iterates": True}
        return mg.sample(problem, theta, estimator=estimator, best=estimator == "mean", **arguments)

    assert_same_run(under_threads(1, run), under_threads(threads, run))


def test_jacobian_products_do_not_depend_on_the_number_of_threads(restore_threads):
    problem, theta = TopK(20, 7), np.random.default_rng(0).normal(size=(5, 20))

    def run():
        return mg.jacobian_product(problem, theta, theta + 1.0, steps=4001, chains=3)

    np.testing.assert_array_equal(under_threads(1, run), under_threads(2, run))


def test_long_runs_do_not_depend_on_the_number_of_threads(restore_threads):
    """Long enough to be cut into several blocks of steps, whose length depends on the number of threads."""
    problem, theta = TopK(20, 7), np.random.default_rng(0).normal(size=(8, 20))

    def run():
        return mg.sample(problem, theta, steps=300_000, trace=0)

    np.testing.assert_array_equal(under_threads(1, run).mean, under_threads(2, run).mean)


def test_annealing_does_not_depend_on_the_number_of_threads(restore_threads):
    problem, theta = TopK(20, 7), np.random.default_rng(0).normal(size=(8, 20))

    def run():
        return mg.sample(problem, theta, steps=300_000, trace=0, schedule=mg.schedules.Annealing(1.0, 0.2))

    np.testing.assert_array_equal(under_threads(1, run).mean, under_threads(2, run).mean)


def test_annealing_does_not_depend_on_the_other_examples():
    problem, theta = TopK(20, 7), np.random.default_rng(0).normal(size=(8, 20))
    schedule = mg.schedules.Annealing(1.0, 0.2)
    whole = mg.sample(problem, theta, steps=300_000, trace=0, schedule=schedule)
    first = mg.sample(problem, theta[:1], steps=300_000, trace=0, schedule=schedule)
    np.testing.assert_array_equal(first.mean, whole.mean[:1])


@usual
@given(st.data(), problems, st.integers(1, 6), temperatures, st.integers(1, 3), seeds)
def test_permuting_the_batch_permutes_the_results(data, problem, n, temperature, chains, seed):
    theta = data.draw(thetas((n,), problem.size))
    order = np.array(data.draw(st.permutations(range(n))))
    keys = np.array(data.draw(st.lists(st.integers(-(2**62), 2**62), min_size=n, max_size=n, unique=True)))
    arguments = {"steps": 60, "chains": chains, "temperature": temperature, "seed": seed}
    one = mg.sample(problem, theta, index=keys, best=True, iterates=True, **arguments)
    other = mg.sample(problem, theta[order], index=keys[order], best=True, iterates=True, **arguments)
    permuted = one._replace(
        mean=one.mean[order], solutions=one.solutions[order], best=one.best[order], iterates=one.iterates[order]
    )
    assert_same_run(permuted, other)
    v = theta[:, ::-1]
    product = mg.jacobian_product(problem, theta, v, index=keys, **arguments)
    np.testing.assert_array_equal(
        product[order], mg.jacobian_product(problem, theta[order], v[order], index=keys[order], **arguments)
    )


@pytest.mark.parametrize("schedule", [None, mg.schedules.Annealing(1.0, 0.1)])
@pytest.mark.parametrize("seed", range(5))
def test_permuting_the_batch_permutes_what_annealing_finds(schedule, seed):
    """Also where the temperature is learned from a pilot run. Counts tell chains apart that find the same optimum."""
    problem, order = TopK(30, 10), np.array([3, 1, 4, 0, 2])
    theta = np.random.default_rng(seed).normal(size=(5, 30))
    one = mg.solve(problem, theta, steps=300, schedule=schedule, index=np.arange(5), seed=seed)
    other = mg.solve(problem, theta[order], steps=300, schedule=schedule, index=order, seed=seed)
    np.testing.assert_array_equal(one.solution[order], other.solution)
    np.testing.assert_array_equal(one.objective[order], other.objective)
    np.testing.assert_array_equal(one.info.accepted, other.info.accepted)


@usual
@given(st.data(), problems, st.integers(2, 6), temperatures, st.integers(1, 3), seeds)
def test_splitting_a_batch_gives_the_same_rows(data, problem, n, temperature, chains, seed):
    theta = data.draw(thetas((n,), problem.size))
    cut = data.draw(st.integers(1, n - 1))
    arguments = {"steps": 60, "chains": chains, "temperature": temperature, "best": True, "iterates": True, "seed": seed}
    whole = mg.sample(problem, theta, **arguments)
    parts = [mg.sample(problem, theta[rows], index=np.arange(n)[rows], **arguments) for rows in (slice(0, cut), slice(cut, n))]
    joined = {name: np.concatenate([getattr(p, name) for p in parts]) for name in ("mean", "solutions", "best", "iterates")}
    assert_same_run(whole, whole._replace(**joined))


@few
@given(st.data(), st.lists(top_k(), min_size=1, max_size=4), temperatures, st.integers(1, 3), seeds)
def test_a_ragged_batch_equals_separate_calls(data, instances, temperature, chains, seed):
    theta = [data.draw(thetas((), p.size)) for p in instances]
    arguments = {"steps": 60, "burn_in": 7, "chains": chains, "temperature": temperature, "seed": seed}
    ragged = mg.sample(instances, theta, best=True, iterates=True, **arguments)
    products = mg.jacobian_product(instances, theta, theta, **arguments)
    for e, (problem, row) in enumerate(zip(instances, theta, strict=True)):
        alone = mg.sample(problem, row, index=[e], best=True, iterates=True, **arguments)
        assert_same_run(
            ragged._replace(mean=ragged.mean[e], solutions=ragged.solutions[e], best=ragged.best[e], iterates=ragged.iterates[e]),
            alone,
        )
        np.testing.assert_array_equal(products[e], mg.jacobian_product(problem, row, row, index=[e], **arguments))


def test_two_sizes_in_one_batch_equal_separate_calls():
    rng = np.random.default_rng(0)
    instances, theta = [TopK(5, 2), TopK(9, 3)], [rng.normal(size=5), rng.normal(size=9)]
    together = mg.sample(instances, theta, steps=500, chains=2)
    found = mg.solve(instances, theta, steps=500, schedule=mg.schedules.Annealing())
    loss, gradient = mg.one_step(instances, theta, [p.solution for p in instances])
    for e, (problem, row) in enumerate(zip(instances, theta, strict=True)):
        alone = mg.sample(problem, row, steps=500, chains=2, index=[e])
        np.testing.assert_array_equal(together.mean[e], alone.mean)
        np.testing.assert_array_equal(together.solutions[e], alone.solutions)
        best = mg.solve(problem, row, steps=500, schedule=mg.schedules.Annealing(), index=[e])
        np.testing.assert_array_equal(found.solution[e], best.solution)
        value, slope = mg.one_step(problem, row, problem.solution)
        np.testing.assert_array_equal(loss[e], value)
        np.testing.assert_array_equal(gradient[e], slope)


@few
@given(st.data(), problems, shapes, seeds)
def test_leading_axes_number_the_examples_in_order(data, problem, shape, seed):
    theta = data.draw(thetas(shape, problem.size))
    flat = mg.sample(problem, theta.reshape(-1, problem.size), steps=40, seed=seed)
    np.testing.assert_array_equal(mg.sample(problem, theta, steps=40, seed=seed).mean.reshape(flat.mean.shape), flat.mean)


@few
@given(st.data(), problems, seeds, st.integers(1, 3))
def test_memory_layout_and_precision_of_theta_do_not_matter(data, problem, seed, chains):
    theta = data.draw(thetas((3,), problem.size, np.float32))
    arguments = {"steps": 40, "seed": seed, "chains": chains}
    wanted = mg.sample(problem, theta.astype(np.float64), **arguments).mean
    padded = np.zeros((6, 2 * problem.size))
    padded[::2, ::2] = theta
    for same in (theta, np.asfortranarray(theta), padded[::2, ::2], theta.astype(">f8"), theta.astype(np.float64).tolist()):
        np.testing.assert_array_equal(mg.sample(problem, same, **arguments).mean, wanted)


def test_arguments_are_not_changed():
    problem, theta = TopK(6, 3), np.random.default_rng(0).normal(size=(2, 6))
    start = np.stack([problem.solution] * 2)
    copies = theta.copy(), start.copy(), problem.solution.copy()
    mg.sample(problem, theta, steps=100, start=start)
    mg.one_step(problem, theta, start)
    mg.jacobian_product(problem, theta, theta, steps=100)
    for after, before in zip((theta, start, problem.solution), copies, strict=True):
        np.testing.assert_array_equal(after, before)


# --- estimators against the iterates of the same chain ---------------------------------------------------------------


@usual
@given(st.data(), problems, shapes, temperatures, st.integers(1, 3), st.integers(1, 120), seeds)
def test_lazy_averaging_equals_the_plain_average(data, problem, shape, temperature, chains, steps, seed):
    theta = data.draw(thetas(shape, problem.size))
    burn_in = data.draw(st.integers(0, steps - 1))
    out = mg.sample(
        problem, theta, steps=steps, burn_in=burn_in, chains=chains, temperature=temperature, trace=steps, iterates=True, seed=seed
    )
    assert out.iterates.shape[-2] == steps
    plain = out.iterates[..., burn_in:, :].astype(np.float64).mean((-3, -2))
    np.testing.assert_allclose(out.mean, plain, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(out.iterates[..., -1, :], out.solutions)


@usual
@given(st.data(), problems, shapes, temperatures, st.integers(1, 3), st.integers(1, 120), seeds)
def test_the_jacobian_product_is_the_covariance_of_the_iterates_over_t(data, problem, shape, temperature, chains, steps, seed):
    theta = data.draw(thetas(shape, problem.size))
    v = np.random.default_rng(seed).normal(size=theta.shape)
    burn_in = data.draw(st.integers(0, steps - 1))
    arguments = {"steps": steps, "burn_in": burn_in, "chains": chains, "temperature": temperature, "seed": seed}
    product = mg.jacobian_product(problem, theta, v, **arguments)
    kept = mg.sample(problem, theta, trace=steps, iterates=True, **arguments).iterates[..., burn_in:, :].astype(np.float64)
    pooled = kept.reshape(*shape, -1, problem.size)
    centered = pooled - pooled.mean(-2, keepdims=True)
    projection = (centered * v[..., None, :]).sum(-1, keepdims=True)
    np.testing.assert_allclose(product * temperature, (centered * projection).mean(-2), rtol=0, atol=1e-9)


@few
@given(st.data(), problems, temperatures, seeds)
def test_the_trace_holds_the_objective_and_the_distance_of_the_iterates(data, problem, temperature, seed):
    theta = data.draw(thetas((2,), problem.size))
    start = problem.solution
    out = mg.sample(problem, theta, steps=60, chains=2, temperature=temperature, trace=60, iterates=True, start=start, seed=seed)
    objective = (out.iterates * theta[:, None, None, :]).sum(-1)
    scale = np.abs(theta).sum(-1).max() + 1e-300
    np.testing.assert_allclose(out.info.trace[..., 0], objective, rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(out.info.trace[..., 1], (out.iterates != start).sum(-1))


@few
@given(st.data(), problems, st.integers(1, 3), seeds)
def test_a_scaled_theta_at_a_scaled_temperature_is_the_same_chain(data, problem, chains, seed):
    """Powers of two, so that scaling is exact."""
    theta = data.draw(thetas((2,), problem.size))
    power = 2.0 ** data.draw(st.integers(-20, 20))
    arguments = {"steps": 60, "chains": chains, "seed": seed}
    one = mg.sample(problem, theta, **arguments)
    np.testing.assert_array_equal(one.mean, mg.sample(problem, theta * power, temperature=power, **arguments).mean)
    # A schedule multiplies the temperature.
    np.testing.assert_array_equal(one.mean, mg.sample(problem, theta * power, schedule=lambda k: power, **arguments).mean)


@few
@given(st.data(), problems, seeds)
def test_temperatures_of_examples_are_their_own(data, problem, seed):
    theta = data.draw(thetas((3,), problem.size))
    t = np.array([0.3, 1.0, 4.0])
    together = mg.sample(problem, theta, steps=60, chains=2, temperature=t, seed=seed)
    for e in range(3):
        alone = mg.sample(problem, theta[e], steps=60, chains=2, temperature=t[e], index=[e], seed=seed)
        np.testing.assert_array_equal(together.mean[e], alone.mean)


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_a_large_radius_in_a_large_hypercube_overflows_nothing():
    """C(2000, 1000) has 600 digits; the shares of the radii are ordinary numbers all the same."""
    shares = np.diff(Hypercube(2000, 1000).data.cumulative, prepend=0.0)
    assert np.isclose(shares.sum(), 1.0)
    np.testing.assert_allclose(shares[-1] / shares[-2], 1001 / 1000, rtol=1e-9)
    assert Hypercube(2000, exactly=[1, 1000]).size == 2000


# --- PyTorch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_changing_theta_between_the_passes_does_not_change_the_gradient_silently(dtype):
    """Either the gradient is that of θ as it was, or autograd complains, as it does elsewhere."""
    torch = pytest.importorskip("torch")

    def gradient(disturb):
        theta = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5], dtype=getattr(torch, dtype), requires_grad=True)
        out = mg.torch.LocalSearchLayer(TopK(5, 2), steps=500)(theta)
        if disturb:
            with torch.no_grad():
                theta.mul_(-3.0)
        (out * torch.arange(5.0)).sum().backward()
        return theta.grad

    wanted, complaint = gradient(disturb=False), ""
    try:
        got = gradient(disturb=True)
    except RuntimeError as error:
        got, complaint = wanted, str(error)
    assert torch.equal(got, wanted)
    assert complaint == "" or "modified by an inplace operation" in complaint


def test_the_layer_gives_the_numbers_of_sample():
    torch = pytest.importorskip("torch")
    problem, theta = TopK(7, 3), np.random.default_rng(0).normal(size=(2, 3, 7))
    layer = mg.torch.LocalSearchLayer(problem, steps=50, temperature=0.7, burn_in=5, chains=2, seed=3)
    for call in range(2):
        wanted = mg.sample(problem, theta, steps=50, temperature=0.7, burn_in=5, chains=2, seed=3, call=call).mean
        np.testing.assert_array_equal(layer(torch.tensor(theta)).numpy(), wanted)


def test_the_layer_gives_the_gradient_of_jacobian_product():
    torch = pytest.importorskip("torch")
    problem, theta = TopK(7, 3), np.random.default_rng(0).normal(size=(2, 7))
    direction = np.random.default_rng(1).normal(size=(2, 7))
    x = torch.tensor(theta, requires_grad=True)
    (mg.torch.LocalSearchLayer(problem, steps=50, temperature=0.7, chains=2)(x) * torch.tensor(direction)).sum().backward()
    wanted = mg.jacobian_product(problem, theta, direction, steps=50, temperature=0.7, chains=2)
    np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_a_guide_may_be_a_tensor_that_requires_a_gradient():
    torch = pytest.importorskip("torch")
    problem, theta = TopK(7, 3), torch.zeros(2, 7, requires_grad=True)
    layer = mg.torch.LocalSearchLayer(problem, steps=5)
    y = torch.tensor(np.stack([problem.solution] * 2))
    assert layer(theta, guide=theta).shape == (2, 7)
    assert mg.torch.FenchelYoungLoss(layer)(theta, y, guide=theta).shape == ()
    assert mg.torch.OneStepLoss(problem)(theta, y, guide=theta).shape == ()


def test_a_list_of_problems_takes_a_list_of_guides():
    torch = pytest.importorskip("torch")
    problems = [TopK(5, 2), TopK(9, 3)]
    theta = [torch.zeros(p.size, requires_grad=True) for p in problems]
    y = [torch.tensor(p.solution) for p in problems]
    layer = mg.torch.LocalSearchLayer(problems, steps=5)
    assert [out.shape for out in layer(theta, guide=theta)] == [(5,), (9,)]
    assert mg.torch.FenchelYoungLoss(layer)(theta, y, guide=theta).shape == ()
