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
