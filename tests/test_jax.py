"""The JAX front end gives the numbers of the PyTorch one, under every transformation."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
jnp = jax.numpy

import movegrad as mg  # noqa: E402
from movegrad.problems import Hypercube, Knapsack, TopK  # noqa: E402
from tests.slow import slow_but_for  # noqa: E402

PROBLEMS = {
    "hypercube": Hypercube(8),
    "mixture of flips": Hypercube(8, exactly=(1, 3)),
    "top-k": TopK(8, k=3),
    "guided top-k": TopK(8, k=3, guided=True),
    "knapsack": Knapsack(np.arange(16.0).reshape(2, 8), [14.0, 46.0]),
}
SETTINGS = {
    "plain": {"steps": 40},
    "recycled, hot, two chains": {"steps": 15, "temperature": 2.5, "chains": 2, "estimator": "recycled"},
    "burn-in": {"steps": 60, "burn_in": 20},
}
SEED = 11


def scores(*shape, dtype=np.float32, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def targets(problem, theta) -> np.ndarray:
    return mg.exact.sample(problem, theta.astype(float), 1)[0].astype(np.uint8)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", slow_but_for(["hypercube", "top-k", "knapsack"], PROBLEMS))
def test_layer_and_loss_agree_with_torch(name, settings):
    """One registry for both front ends: same seed, same values, same gradients."""
    problem, options, key = PROBLEMS[name], SETTINGS[settings], jax.random.key(SEED)
    theta, v = scores(3, 8), scores(3, 8, seed=1)
    y = targets(problem, theta)

    layer = mg.jax.LocalSearchLayer(problem, **options)
    value, pull = jax.vjp(lambda t: layer(t, key), jnp.asarray(theta))
    loss, gradient = jax.value_and_grad(mg.jax.FenchelYoungLoss(layer))(jnp.asarray(theta), y, key)

    leaf = torch.from_numpy(theta).requires_grad_()
    expected = mg.torch.LocalSearchLayer(problem, seed=SEED, **options)(leaf)
    (product,) = torch.autograd.grad(expected, leaf, torch.from_numpy(v))
    expected_loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, seed=SEED, **options))(leaf, y)
    (expected_gradient,) = torch.autograd.grad(expected_loss, leaf)

    np.testing.assert_array_equal(value, expected.detach().numpy())
    np.testing.assert_array_equal(pull(v)[0], product.numpy())
    np.testing.assert_allclose(loss, expected_loss.item(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["hypercube", "mixture of flips", "top-k", "knapsack"])
def test_one_step_loss_agrees_with_torch(name):
    problem, theta = PROBLEMS[name], scores(3, 8)
    y = targets(problem, theta)
    value, gradient = jax.value_and_grad(mg.jax.OneStepLoss(problem, 0.7))(jnp.asarray(theta), y)
    leaf = torch.from_numpy(theta).requires_grad_()
    expected = mg.torch.OneStepLoss(problem, 0.7)(leaf, y)
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-6)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-6, atol=1e-8)


def test_jit_changes_nothing():
    layer, key, theta = mg.jax.LocalSearchLayer(TopK(8, k=3), steps=30), jax.random.key(3), scores(4, 8)
    objective = lambda t: (layer(t, key) ** 2).sum()  # noqa: E731
    np.testing.assert_array_equal(jax.jit(layer)(theta, key), layer(theta, key))
    np.testing.assert_allclose(jax.jit(jax.grad(objective))(theta), jax.grad(objective)(theta), rtol=1e-6)


@pytest.mark.parametrize("jitted", [False, True])
def test_vmap_gives_each_example_what_it_gets_alone(jitted):
    layer, theta = mg.jax.LocalSearchLayer(TopK(8, k=3), steps=30), jnp.asarray(scores(5, 8))
    keys = jax.random.split(jax.random.key(0), 5)
    wrap = jax.jit if jitted else lambda f: f
    alone = jnp.stack([layer(t, k) for t, k in zip(theta, keys, strict=True)])
    np.testing.assert_array_equal(wrap(jax.vmap(layer))(theta, keys), alone)
    shared = jnp.stack([layer(t, keys[0]) for t in theta])
    np.testing.assert_array_equal(wrap(jax.vmap(layer, in_axes=(0, None)))(theta, keys[0]), shared)
    one = jnp.stack([layer(theta[0], k) for k in keys])
    np.testing.assert_array_equal(wrap(jax.vmap(layer, in_axes=(None, 0)))(theta[0], keys), one)


def test_vmap_of_gradients_of_the_losses():
    problem = TopK(8, k=3)
    theta = scores(5, 8)
    y, keys = targets(problem, theta), jax.random.split(jax.random.key(1), 5)
    loss = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, steps=20))
    together = jax.vmap(jax.grad(loss))(jnp.asarray(theta), y, keys)
    alone = jnp.stack([jax.grad(loss)(t, z, k) for t, z, k in zip(jnp.asarray(theta), y, keys, strict=True)])
    np.testing.assert_allclose(together, alone, rtol=1e-6, atol=1e-7)
    exact = mg.jax.OneStepLoss(problem, reduction="sum")
    np.testing.assert_allclose(
        jax.vmap(jax.grad(exact))(jnp.asarray(theta), y), jax.grad(exact)(jnp.asarray(theta), y), rtol=1e-6, atol=1e-8
    )


def test_nested_batches_are_numbered_like_flat_ones():
    layer, key, theta = mg.jax.LocalSearchLayer(TopK(8, k=3), steps=30), jax.random.key(3), scores(2, 3, 8)
    np.testing.assert_array_equal(layer(theta, key).reshape(6, 8), layer(theta.reshape(6, 8), key))


FUNCTIONS = {
    "layer": lambda theta: (layer(steps=20)(theta, jax.random.key(0)) ** 2).sum(),
    "Fenchel-Young": lambda theta: mg.jax.FenchelYoungLoss(layer(steps=20))(theta, TopK(8, k=3).solution, jax.random.key(0)),
    "one step": lambda theta: mg.jax.OneStepLoss(TopK(8, k=3))(theta, TopK(8, k=3).solution),
}
ONES = jnp.ones(8)
TWICE = {
    "gradient of gradient": lambda f, theta: jax.grad(lambda t: jax.grad(f)(t).sum())(theta),
    "hessian": lambda f, theta: jax.hessian(f)(theta),
    "compiled hessian": lambda f, theta: jax.jit(jax.hessian(f))(theta),
    "reverse twice": lambda f, theta: jax.jacrev(jax.jacrev(f))(theta),
    "jvp of vjp": lambda f, theta: jax.jvp(jax.grad(f), (theta,), (ONES,)),
    "gradient of jvp": lambda f, theta: jax.grad(lambda t: jax.jvp(f, (t,), (ONES,))[1])(theta),
    "with another term": lambda f, theta: jax.grad(lambda t: jax.grad(lambda t: f(t) + (t**2).sum())(t).sum())(theta),
}


@pytest.mark.parametrize("way", TWICE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_derivative_is_an_error(name, way):
    """Forward mode of the layer is an error of JAX's own."""
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=r"differentiated twice|forward-mode|custom_lin"):
        TWICE[way](FUNCTIONS[name], jnp.linspace(-1.0, 1.0, 8))


@pytest.mark.parametrize("name", ["Fenchel-Young", "one step"])
def test_forward_mode_of_the_losses_equals_reverse_mode(name):
    theta, v = jnp.linspace(-1.0, 1.0, 8), jnp.arange(8.0)
    tangent = jax.jit(lambda t: jax.jvp(FUNCTIONS[name], (t,), (v,))[1])(theta)
    np.testing.assert_allclose(tangent, jax.grad(FUNCTIONS[name])(theta) @ v, rtol=1e-5)


def test_labels_may_be_floats_and_have_no_gradient():
    problem, theta, key = TopK(8, k=3), jnp.linspace(-1.0, 1.0, 8), jax.random.key(0)
    for f in (lambda y: mg.jax.FenchelYoungLoss(layer())(theta, y, key), lambda y: mg.jax.OneStepLoss(problem)(theta, y)):
        y = jnp.asarray(problem.solution, jnp.float32)
        np.testing.assert_array_equal(f(y), f(problem.solution))
        with pytest.raises(ValueError, match=r"y must not be differentiated, since solutions are discrete\."):
            jax.grad(f)(y)


def test_the_start_of_a_layer_is_what_was_given():
    start = TopK(8, k=3).solution.copy()
    made, key, theta = layer(start=start, steps=1), jax.random.key(0), jnp.zeros(8)
    first = made(theta, key)
    start[:] = start[::-1]
    np.testing.assert_array_equal(made(theta, key), first)


def test_old_style_keys_and_reductions():
    problem, theta = TopK(8, k=3), scores(4, 8)
    y, layer = targets(problem, theta), mg.jax.LocalSearchLayer(problem, steps=20)
    new, old = jax.random.key(5), jax.random.PRNGKey(5)
    np.testing.assert_array_equal(layer(theta, new), layer(theta, old))
    none, total, mean = (mg.jax.FenchelYoungLoss(layer, reduction=r)(theta, y, new) for r in ("none", "sum", "mean"))
    assert none.shape == (4,)
    np.testing.assert_allclose([none.sum(), none.mean()], [total, mean], rtol=1e-6)


def layer(**options):
    return mg.jax.LocalSearchLayer(TopK(8, k=3), **{"steps": 5, **options})


BAD = {
    "wrong last axis": (lambda: layer()(np.zeros((2, 7), np.float32), jax.random.key(0)), "theta must have a last axis of 8"),
    "integer theta": (lambda: layer()(np.zeros((2, 8), np.int32), jax.random.key(0)), "theta must be of a floating dtype"),
    "empty": (lambda: layer()(np.zeros((0, 8), np.float32), jax.random.key(0)), "not be empty"),
    "no key": (lambda: layer()(np.zeros(8, np.float32), 3), "key must be made by jax.random.key, got int"),
    "many keys": (lambda: layer()(np.zeros(8, np.float32), jax.random.split(jax.random.key(0), 3)), "key must be one key"),
    "y of another shape": (
        lambda: mg.jax.FenchelYoungLoss(layer())(np.zeros((2, 8), np.float32), np.zeros(8, np.uint8), jax.random.key(0)),
        r"y must have shape \(2, 8\), got \(8,\)",
    ),
    "steps": (lambda: layer(steps=0), "steps must be ≥ 1, got 0"),
    "temperature": (lambda: layer(temperature=-1.0), "temperature must be finite and > 0, got -1.0"),
    "start": (lambda: layer(start="persistent"), "start must be one of 'random', 'greedy', got 'persistent'"),
    "start that remembers": (lambda: layer(start=mg.start.Heuristic(mg.start.Persistent())), "start must not remember"),
    "estimator": (lambda: layer(estimator="median"), "estimator must be one of"),
    "reduction": (lambda: mg.jax.FenchelYoungLoss(layer(), reduction="max"), "reduction must be one of"),
    "guided one-step": (
        lambda: mg.jax.OneStepLoss(TopK(8, k=3, guided=True))(np.zeros(8, np.float32), TopK(8, k=3).solution),
        r"guide must be given, since proposals of TopK\(8, k=3\) depend on theta",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_argument_is_named(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_nan_is_found_when_the_chains_run(capfd):
    with pytest.raises(Exception, match="theta must be finite, got nan"):
        layer()(np.full(8, np.nan, np.float32), jax.random.key(0))


# --- what the PyTorch front end has, too -----------------------------------------------------------------------------------


def same(ours, theirs) -> None:
    """The same numbers, but for the order in which float32 is summed."""
    np.testing.assert_allclose(np.asarray(ours), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"index": np.array([7, 3, 12])},
        {"guide": scores(3, 8, seed=4)},
        {"start": TopK(8, k=3).solution},
        {"start": np.array([TopK(8, k=3).solution, [0, 0, 0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0, 0, 0]])},
        {"start": np.array([[[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1, 1]]] * 3)},
        {"start": "greedy"},
    ],
    ids=["index", "guide", "one start", "start of each example", "start of each chain", "word"],
)
def test_options_of_a_call_agree_with_torch(options, jitted):
    problem, theta, v = TopK(8, k=3, guided=True), scores(3, 8), scores(3, 8, seed=1)
    settings = {"steps": 15, "chains": 2, "schedule": lambda k: 1.0 + 1.0 / (k + 1)}
    ours, key = mg.jax.LocalSearchLayer(problem, **settings), jax.random.key(SEED)
    wrap = jax.jit if jitted else lambda f: f
    value, pulled = wrap(lambda t: (lambda out, pull: (out, pull(v)[0]))(*jax.vjp(lambda t: ours(t, key, **options), t)))(theta)
    leaf = torch.from_numpy(theta).requires_grad_()
    expected = mg.torch.LocalSearchLayer(problem, seed=SEED, **settings)(leaf, **options)
    (product,) = torch.autograd.grad(expected, leaf, torch.from_numpy(v))
    np.testing.assert_array_equal(value, expected.detach().numpy())
    same(pulled, product)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("start", ["target", "data", "random", "greedy"])
def test_starts_of_a_loss_agree_with_torch(start, jitted):
    problem, theta, key = TopK(8, k=3), scores(3, 8), jax.random.key(SEED)
    y = targets(problem, theta)
    settings = {"steps": 4, "chains": 3}
    ours = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, **settings), start=start, reduction="sum")
    gradient = (jax.jit if jitted else lambda f: f)(jax.grad(lambda t: ours(t, y, key)))(theta)
    leaf = torch.from_numpy(theta).requires_grad_()
    theirs = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, seed=SEED, **settings), start=start, reduction="sum")
    (expected,) = torch.autograd.grad(theirs(leaf, y), leaf)
    same(gradient, expected)
    mapped = jax.vmap(jax.grad(lambda t, y, k: ours(t, y, k)))(jnp.asarray(theta), y, jax.random.split(key, 3))
    alone = [jax.grad(ours)(t, z, k) for t, z, k in zip(jnp.asarray(theta), y, jax.random.split(key, 3), strict=True)]
    np.testing.assert_allclose(mapped, jnp.stack(alone), rtol=1e-6, atol=1e-7)
    batches, ys, keys = jnp.asarray(scores(2, 3, 8)), np.stack([y, y[::-1]]), jax.random.split(key, 2)
    mapped = jax.vmap(jax.grad(lambda t, y, k: ours(t, y, k)))(batches, ys, keys)
    alone = [jax.grad(ours)(t, z, k) for t, z, k in zip(batches, ys, keys, strict=True)]
    np.testing.assert_allclose(mapped, jnp.stack(alone), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_heuristic_start_improves_what_is_given(jitted):
    """The target, solutions that are traced, and the state of chains that go on."""
    from tests.test_start import CLIMBER

    wrap, key = jax.jit if jitted else lambda f: f, jax.random.key(SEED)
    theta, y = np.array([[1.0, 2.0, 3.0], [-1.0, 1.0, -1.0]], np.float32), np.zeros((2, 3), np.uint8)
    ours = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(CLIMBER, steps=2), start="heuristic")
    theirs = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(CLIMBER, steps=2, seed=SEED), start="heuristic")
    leaf = torch.from_numpy(theta).requires_grad_()
    same(wrap(jax.grad(lambda t: ours(t, y, key)))(theta), torch.autograd.grad(theirs(leaf, y), leaf)[0])
    walk = mg.jax.LocalSearchLayer(CLIMBER, steps=2)
    given = wrap(lambda t, s: walk(t, key, start=mg.start.Heuristic(s)))(theta, jnp.asarray(y))
    expected = mg.sample(CLIMBER, theta, steps=2, seed=SEED, start=mg.start.Heuristic(y)).mean
    np.testing.assert_array_equal(given, expected.astype(np.float32))
    assert (given != walk(theta, key, start=y)).any()
    mapped = wrap(jax.vmap(lambda t, s: walk(t, key, start=mg.start.Heuristic(s))))(jnp.asarray(theta), jnp.asarray(y))
    np.testing.assert_array_equal(mapped[0], given[0])


@pytest.mark.parametrize("jitted", [False, True])
def test_one_theta_with_many_observations_agrees_with_torch(jitted):
    problem, theta, key = TopK(8, k=3), scores(8), jax.random.key(SEED)
    y = targets(problem, scores(5, 8))
    wrap = jax.jit if jitted else lambda f: f
    for reduction in ("mean", "none"):
        ours = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, steps=20, chains=2), reduction=reduction, start="data")
        value, ends = wrap(lambda t, ours=ours: ours(t, y, key, ends=True))(theta)
        assert ends.shape == (2, 8)
        leaf = torch.from_numpy(theta).requires_grad_()
        layer = mg.torch.LocalSearchLayer(problem, steps=20, chains=2, seed=SEED)
        expected = mg.torch.FenchelYoungLoss(layer, reduction=reduction, start="data")(leaf, y)
        same(value, expected)
        gradient = wrap(jax.grad(lambda t, ours=ours: ours(t, y, key).sum()))(theta)
        same(gradient, torch.autograd.grad(expected.sum(), leaf)[0])
    one, other = mg.jax.OneStepLoss(problem, reduction="none"), mg.torch.OneStepLoss(problem, reduction="none")
    same(wrap(lambda t: one(t, y))(theta), other(leaf, y))
    same(wrap(jax.grad(lambda t: one(t, y).sum()))(theta), torch.autograd.grad(other(leaf, y).sum(), leaf)[0])


def test_y_may_be_a_mean():
    problem, theta, key = TopK(8, k=3), scores(3, 8), jax.random.key(SEED)
    y = np.full((3, 8), 3 / 8, np.float32)
    ours = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, steps=20), y_is="mean")
    theirs = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=20, seed=SEED), y_is="mean")
    leaf = torch.from_numpy(theta).requires_grad_()
    same(jax.jit(lambda t: ours(t, y, key))(theta), theirs(leaf, torch.from_numpy(y)))
    with pytest.raises(ValueError, match=r"y must not be differentiated, since the loss has no gradient in a mean of T\."):
        jax.grad(lambda y: ours(theta, y, key))(jnp.asarray(y))
    with pytest.raises(ValueError, match="start must not be that of observed solutions where y is a mean of T, got 'target'"):
        ours(theta, y, key, start="target")


def test_one_step_of_a_guided_problem_with_a_guide():
    problem, theta, guide = TopK(8, k=3, guided=True), scores(3, 8), scores(3, 8, seed=2)
    y = targets(TopK(8, k=3), theta)
    ours, theirs = mg.jax.OneStepLoss(problem, 0.7), mg.torch.OneStepLoss(problem, 0.7)
    leaf = torch.from_numpy(theta).requires_grad_()
    expected = theirs(leaf, y, guide=torch.from_numpy(guide))
    value, gradient = jax.jit(jax.value_and_grad(lambda t: ours(t, y, guide=guide)))(theta)
    same(value, expected)
    same(gradient, torch.autograd.grad(expected, leaf)[0])


RAGGED = [TopK(5, k=2), TopK(8, k=3), TopK(6, k=1)]


@pytest.mark.parametrize("jitted", [False, True])
def test_ragged_batches_agree_with_torch(jitted):
    sizes, key, settings = [p.size for p in RAGGED], jax.random.key(SEED), {"steps": 20, "chains": 2}
    theta = [scores(d, seed=d) for d in sizes]
    y = [p.solution for p in RAGGED]
    padded = np.full((3, 8), np.nan, np.float32)  # whatever stands there
    for row, t in zip(padded, theta, strict=True):
        row[: len(t)] = t
    ours, theirs = mg.jax.LocalSearchLayer(RAGGED, **settings), mg.torch.LocalSearchLayer(RAGGED, seed=SEED, **settings)
    wrap = jax.jit if jitted else lambda f: f
    leaves = [torch.from_numpy(t).requires_grad_() for t in theta]
    expected = theirs(leaves)
    mean, ends = wrap(lambda t: ours(t, key, ends=True))(padded)
    assert ends.shape == (3, 2, 8)
    for e, (d, row) in enumerate(zip(sizes, expected, strict=True)):
        np.testing.assert_array_equal(mean[e, :d], row.detach().numpy())
        assert not mean[e, d:].any()
        assert (ends[e, :, :d].sum(-1) == RAGGED[e].solution.sum()).all()
    for ours_, theirs_ in zip(wrap(lambda t: ours(t, key))(theta), expected, strict=True):
        np.testing.assert_array_equal(ours_, theirs_.detach().numpy())  # as a list
    # Going on, gradients and the loss.
    again = wrap(lambda t, s: ours(t, key, start=s))(padded, ends)
    follow = theirs(leaves, start=[np.asarray(s)[:, :d] for s, d in zip(ends, sizes, strict=True)], call=0)
    weights = scores(3, 8, seed=9)
    product = wrap(jax.grad(lambda t: (ours(t, key) * weights).sum()))(padded)
    pulled = torch.autograd.grad(
        sum((m * torch.from_numpy(w[:d])).sum() for m, w, d in zip(expected, weights, sizes, strict=True)), leaves
    )
    loss = wrap(jax.grad(lambda t: mg.jax.FenchelYoungLoss(ours)(t, y, key)))(padded)
    assert np.isfinite(wrap(lambda t: mg.jax.FenchelYoungLoss(ours)(t, y, key))(padded))
    fresh = mg.torch.LocalSearchLayer(RAGGED, seed=SEED, **settings)
    lost = torch.autograd.grad(mg.torch.FenchelYoungLoss(fresh)(leaves, y), leaves)
    for e, d in enumerate(sizes):
        np.testing.assert_array_equal(again[e, :d], follow[e].detach().numpy())
        same(product[e, :d], pulled[e])
        same(loss[e, :d], lost[e])
        assert not product[e, d:].any()
        assert not loss[e, d:].any()
    # Each of several ragged batches as if it were alone.
    keys = jax.random.split(key, 2)
    both = wrap(jax.vmap(lambda t, k: ours(t, k)))(jnp.stack([jnp.asarray(padded), 2.0 * padded]), keys)
    np.testing.assert_array_equal(both[1], ours(2.0 * padded, keys[1]))


def test_a_problem_of_the_call_replaces_that_of_the_layer():
    key, theta = jax.random.key(SEED), scores(2, 6)
    made, other = mg.jax.LocalSearchLayer(TopK(8, k=3), steps=9), TopK(6, k=2)
    expected = mg.jax.LocalSearchLayer(other, steps=9)(theta, key)
    for wrap in (jax.jit, lambda f: f):
        np.testing.assert_array_equal(wrap(lambda t: made(t, key, problem=other))(theta), expected)
        assert wrap(lambda t: made(t, key))(scores(2, 8)).shape == (2, 8)
    several = [other, TopK(6, k=3)]
    np.testing.assert_array_equal(made(theta, key, problem=several), mg.jax.LocalSearchLayer(several, steps=9)(theta, key))
    row = theta[:1]
    for problem in (other, [other], other):  # one for all rows, or one for each
        assert made(row, key, problem=problem).shape == (1, 6)
    assert made(theta, key, problem=other).shape == (2, 6)
    with pytest.raises(ValueError, match=r"theta must have shape \(1, 6\)"):
        made(theta, key, problem=[other])
    y = np.array([p.solution for p in several])
    loss = mg.jax.FenchelYoungLoss(made)(theta, y, key, problem=several)
    assert loss == mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(several, steps=9))(theta, y, key)


def test_nested_vmaps_along_any_axes():
    made, theta, keys = layer(chains=2), jnp.asarray(scores(4, 8, 3, 2)), jax.random.split(jax.random.key(0), (3, 4))
    inner = jax.vmap(lambda t, k, i: made(t, k, index=i), in_axes=(1, 0, None), out_axes=1)  # over the axis of 3 of θ
    nested = jax.jit(jax.vmap(jax.vmap(inner, in_axes=(0, 1, 0)), in_axes=(3, None, None)))
    numbers = jnp.arange(4) * 10
    out = nested(theta, keys, numbers)
    assert out.shape == (2, 4, 8, 3)
    for a, b, c in ((0, 0, 0), (1, 3, 2), (1, 2, 1)):
        np.testing.assert_array_equal(out[a, b, :, c], made(theta[b, :, c, a], keys[c, b], index=numbers[b]))


def test_a_layer_pickles_and_copies_without_what_was_compiled():
    import pickle

    made, theta, key = layer(start=TopK(8, k=3).solution), jnp.zeros((2, 8)), jax.random.key(0)
    expected = jax.jit(made)(theta, key)
    other = pickle.loads(pickle.dumps(mg.jax.FenchelYoungLoss(made))).layer
    assert not other._calls
    np.testing.assert_array_equal(jax.jit(other)(theta, key), expected)


def test_forward_values_of_ends_have_no_gradient():
    """A state that comes out beside the loss is auxiliary: value_and_grad takes it."""
    problem, theta, key = TopK(8, k=3), jnp.asarray(scores(3, 8)), jax.random.key(1)
    loss = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(problem, steps=5, chains=2))
    y = targets(problem, np.asarray(theta))
    run = jax.jit(jax.value_and_grad(lambda t, s: loss(t, y, key, start=s, ends=True), has_aux=True))
    (_, ends), gradient = run(theta, jnp.asarray(y))
    assert ends.shape == (3, 2, 8)
    assert ends.dtype == jnp.uint8
    np.testing.assert_allclose(gradient, jax.grad(lambda t: loss(t, y, key, start=y))(theta), rtol=1e-6)
    (_, _), other = run(theta, ends)
    assert (other != gradient).any()


def called(*shape, **options):
    return lambda: layer()(np.zeros(shape), jax.random.key(0), **options)


def ragged(theta):
    return lambda: mg.jax.LocalSearchLayer(RAGGED, 3)(theta, jax.random.key(0))


MORE_BAD = {
    "shape of index": (called(2, 8, index=[1, 2, 3]), "index must be 2 integers"),
    "kind of index": (called(2, 8, index=[1.0, 2.0]), "index must be integers, got float32"),
    "large index": (called(1, 8, index=[2**40]), r"index must be integers below 2\*\*31 unless jax_enable_x64 is set, got"),
    "guide": (called(2, 8, guide=np.zeros(8)), r"guide must be a floating array of shape \(2, 8\)"),
    "start": (called(2, 8, start=np.zeros((3, 8))), r"start must have shape \(8,\), \(2, 8\) or \(2, 1, 8\), got \(3, 8\)"),
    "word": (called(8, start="target"), "start must be one of 'random', 'greedy', got 'target'"),
    "memory": (called(8, start=mg.start.Persistent()), "start must not remember"),
    "word of a loss": (
        lambda: mg.jax.FenchelYoungLoss(layer(), start="persistent"),
        "start must be one of 'random', 'greedy', 'ta",
    ),
    "y_is": (lambda: mg.jax.FenchelYoungLoss(layer(), y_is="median"), "y_is must be one of"),
    "ends": (called(8, ends="yes"), "ends must be True or False"),
    "schedule": (lambda: layer(schedule=mg.schedules.Annealing(2.0, 0.1)), "schedule must be a callable k → t"),
    "rows": (ragged(np.zeros((2, 8))), r"theta must have shape \(3, 8\), a row for each problem, got \(2, 8\)"),
    "row": (ragged([np.zeros(5), np.zeros(7), np.zeros(6)]), r"theta\[1\] must have a last axis of 8 entries, got shape \(7,\)"),
    "problems": (lambda: mg.jax.LocalSearchLayer([], 3), "problem must not be an empty sequence"),
}


@pytest.mark.parametrize("name", MORE_BAD)
def test_a_bad_option_is_named(name):
    call, message = MORE_BAD[name]
    with pytest.raises(ValueError, match=message):
        call()
