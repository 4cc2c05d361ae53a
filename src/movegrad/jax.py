"""JAX front end: the layer θ ↦ E[T(Y)] and its Fenchel-Young losses, under ``jit``, ``grad`` and ``vmap``, with an explicit key.

It only translates: chains run in compiled kernels on the CPU, which JAX calls back. ``jax.random.key(n)`` gives the numbers of
seed n in the other front ends. Under ``vmap`` each example gets what it would get alone.

Outside of ``jit`` and ``vmap``, chains of arrays on a GPU run there, through DLPack; inside, JAX brings the arrays to the host.

Nothing can be differentiated twice.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from movegrad import start as starts
from movegrad._calls import ESTIMATORS, make_settings, observe
from movegrad._validate import array_of, choice, encoded, instance_of, native, positive
from movegrad.engine import on_gpu, place_of
from movegrad.problem import Problem
from movegrad.sampling import jacobian_product, one_step, sample

__all__ = ["FenchelYoungLoss", "LocalSearchLayer", "OneStepLoss"]

REDUCTIONS = ("mean", "sum", "none")


class LocalSearchLayer:
    """The layer ŷ_t(θ) = E[T(Y)] under π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t), estimated by local-search chains.

    Its Jacobian is Cov(T(Y))/t: reverse mode runs the same chains again and accumulates the product with the cotangent.

    Parameters
    ----------
    problem : Problem
        One for all θ.
    steps : int
        K; time limits have no place in a pure function.
    temperature : float
        t > 0.
    burn_in, chains, estimator : as in :func:`movegrad.sample`
        What chains do.
    start : "random", "greedy", solutions or a callable
        It must not remember anything.

    References
    ----------
    Proposition 1 of "Learning with Local Search MCMC Layers".

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import movegrad as mg
    >>> layer = mg.jax.LocalSearchLayer(mg.problems.TopK(5, 2), steps=100, chains=4)
    >>> jax.grad(lambda theta: layer(theta, jax.random.key(0))[0])(jnp.zeros(5)).shape
    (5,)
    """

    def __init__(
        self,
        problem: Problem,
        steps: int,
        temperature: float = 1.0,
        *,
        burn_in: int = 0,
        chains: int = 1,
        start: Any = "random",
        estimator: str = "mean",
    ) -> None:
        self.problem = instance_of(problem, "problem", Problem)
        choice(estimator, "estimator", ESTIMATORS)
        if isinstance(start, str):
            choice(start, "start", ("random", "greedy"))
        elif starts.memory(start) is not None:
            raise ValueError(f"start must not remember where chains ended, since functions of JAX are pure, got {start!r}.")
        settings = make_settings(steps=steps, temperature=positive(temperature, "temperature"), burn_in=burn_in, chains=chains)
        self.start, self.estimator = starts.resolve(start), estimator
        self.settings = {
            "steps": settings.steps, "temperature": settings.temperature, "burn_in": settings.burn_in, "chains": settings.chains,
        }  # fmt: skip

    def __call__(self, theta: jax.Array, key: jax.Array) -> jax.Array:
        """Estimate ŷ_t(θ) with the randomness of a key.

        Parameters
        ----------
        theta : float array (…, d)
            θ.
        key : one key of ``jax.random.key``
            The same key gives the same numbers.

        Returns
        -------
        array (…, d)
            ŷ_t(θ), of the dtype of θ.
        """
        return _expectation(self, _checked(theta, self.problem), _bits(key))


class FenchelYoungLoss:
    """Fenchel-Young loss of a layer, with gradient ŷ_t(θ) − T(y); chains start at y.

    The value is ⟨θ, ŷ − T(y)⟩ with ŷ held fixed: its gradient is right, its value is no measure of progress.

    Parameters
    ----------
    layer : LocalSearchLayer
        Problem, steps, temperature, …
    reduction : {"mean", "sum", "none"}
        Over examples.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import movegrad as mg
    >>> loss = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(mg.problems.TopK(5, 2), steps=20))
    >>> gradient = jax.grad(loss)(jnp.zeros(5), jnp.array([1, 1, 0, 0, 0]), jax.random.key(0))
    >>> abs(float(gradient.sum())) < 1e-6  # as many ones in ŷ as in y
    True
    """

    def __init__(self, layer: LocalSearchLayer, *, reduction: str = "mean") -> None:
        self.layer = instance_of(layer, "layer", LocalSearchLayer)
        self.reduction = choice(reduction, "reduction", REDUCTIONS)

    def __call__(self, theta: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
        """The loss; take its gradient in θ, and do not look at its value.

        Parameters
        ----------
        theta : float array (…, d)
            θ.
        y : (…, size)
            Observed solutions.
        key : one key of ``jax.random.key``
            The same key gives the same numbers.

        Returns
        -------
        array
            A number; (…) with reduction "none".
        """
        theta = _checked(theta, self.layer.problem)
        y = _solutions(y, theta, self.layer.problem)
        return _reduce(_fenchel_young(self.layer, theta, y, _bits(key)), self.reduction)


class OneStepLoss:
    """The exact Fenchel-Young loss whose gradient is that of one step from the target, E[T(y⁽¹⁾)] − T(y): no sampling, no key.

    Value and gradient as in :func:`movegrad.one_step`.

    Parameters
    ----------
    problem : Problem
        Not guided by θ.
    temperature : float
        t > 0.
    reduction : {"mean", "sum", "none"}
        Over examples.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import movegrad as mg
    >>> loss = mg.jax.OneStepLoss(mg.problems.TopK(5, 2))
    >>> float(loss(jnp.zeros(5), jnp.array([1, 1, 0, 0, 0])))
    1.0
    """

    def __init__(self, problem: Problem, temperature: float = 1.0, *, reduction: str = "mean") -> None:
        self.problem = instance_of(problem, "problem", Problem)
        self.temperature = positive(temperature, "temperature")
        self.reduction = choice(reduction, "reduction", REDUCTIONS)
        if problem.guided:
            raise ValueError(f"problem must not be guided by theta, since there is no one-step loss then, got {problem}.")

    def __call__(self, theta: jax.Array, y: jax.Array) -> jax.Array:
        """The loss.

        Parameters
        ----------
        theta : float array (…, d)
            θ.
        y : (…, size)
            Observed solutions.

        Returns
        -------
        array
            A number; (…) with reduction "none".
        """
        theta = _checked(theta, self.problem)
        return _reduce(_one_step(self, theta, _solutions(y, theta, self.problem)), self.reduction)


# --- derivatives -----------------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _expectation(layer: LocalSearchLayer, theta: jax.Array, bits: jax.Array) -> jax.Array:
    def mean(theta: np.ndarray, seed: int, index: np.ndarray) -> np.ndarray:
        options: dict[str, Any] = {"start": layer.start, "estimator": layer.estimator, "trace": 0}
        return sample(layer.problem, theta, seed=seed, index=index, **options, **layer.settings).mean

    return _call(mean, theta, (), bits)


def _expectation_forward(layer: LocalSearchLayer, theta: jax.Array, bits: jax.Array) -> tuple:
    return _expectation(layer, theta, bits), (theta, bits)


def _expectation_backward(layer: LocalSearchLayer, residuals: tuple, cotangent: jax.Array) -> tuple:
    theta, bits = residuals

    def product(theta: np.ndarray, direction: np.ndarray, seed: int, index: np.ndarray) -> np.ndarray:
        return jacobian_product(layer.problem, theta, direction, start=layer.start, seed=seed, index=index, **layer.settings)

    return _call(product, theta, (cotangent,), bits), np.zeros(bits.shape, jax.dtypes.float0)


_expectation.defvjp(_expectation_forward, _expectation_backward)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fenchel_young(layer: LocalSearchLayer, theta: jax.Array, y: jax.Array, bits: jax.Array) -> jax.Array:
    return (theta * _difference(layer, theta, y, bits)).sum(-1)


@partial(_fenchel_young.defjvp, symbolic_zeros=True)
def _fenchel_young_tangent(layer: LocalSearchLayer, primals: tuple, tangents: tuple) -> tuple:
    theta, gradient = primals[0], _difference(layer, *primals)
    return (theta * gradient).sum(-1), _along(gradient, tangents)


def _difference(layer: LocalSearchLayer, theta: jax.Array, y: jax.Array, bits: jax.Array) -> jax.Array:
    """ŷ_t(θ) − T(y), by chains that start at y."""

    def difference(theta: np.ndarray, y: np.ndarray, seed: int, index: np.ndarray) -> np.ndarray:
        solutions, observed = observe(layer.problem, y)
        options: dict[str, Any] = {"start": starts.Given(solutions, "y"), "estimator": layer.estimator, "trace": 0}
        return sample(layer.problem, theta, seed=seed, index=index, **options, **layer.settings).mean - observed

    return _call(difference, theta, (y,), bits)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _one_step(loss: OneStepLoss, theta: jax.Array, y: jax.Array) -> jax.Array:
    return _gradient_and_value(loss, theta, y)[..., -1]


@partial(_one_step.defjvp, symbolic_zeros=True)
def _one_step_tangent(loss: OneStepLoss, primals: tuple, tangents: tuple) -> tuple:
    out = _gradient_and_value(loss, *primals)
    return out[..., -1], _along(out[..., :-1], tangents)


def _gradient_and_value(loss: OneStepLoss, theta: jax.Array, y: jax.Array) -> jax.Array:
    """(…, d + 1): the value comes last."""

    def both(theta: np.ndarray, y: np.ndarray, seed: int, index: np.ndarray) -> np.ndarray:
        values, gradients = one_step(loss.problem, theta, observe(loss.problem, y)[0], temperature=loss.temperature)
        return place_of(values).stacked([*gradients.T, values]).T

    return _call(both, theta, (y,), jnp.zeros(2, jnp.uint32), extra=1)


def _along(gradient: jax.Array, tangents: tuple) -> jax.Array:
    """The derivative in the direction of a tangent of θ; y has none."""
    theta, y, *_ = tangents
    if not _is_zero(y):
        raise ValueError("y must not be differentiated, since solutions are discrete.")
    return jnp.zeros(gradient.shape[:-1], gradient.dtype) if _is_zero(theta) else (gradient * theta).sum(-1)


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero) or tangent.dtype == jax.dtypes.float0


# --- calls from JAX --------------------------------------------------------------------------------------------------


def _call(function: Callable, theta: jax.Array, others: tuple, bits: jax.Array, extra: int = 0) -> jax.Array:
    """Call ``function(theta (n, d), *others (n, …), seed, index)`` from JAX; returns (…, d + extra) of the dtype of θ.

    ``vmap`` puts axes in front. Examples that it adds are numbered as if they were alone; equal keys share one call.
    """
    axes, d = theta.ndim, theta.shape[-1]
    traced = any(isinstance(a, jax.core.Tracer) for a in (theta, bits, *others))
    if not traced and on_gpu(theta):
        return _call_on_device(function, theta, others, bits)

    def host(bits: Any, theta: Any, *others: Any) -> np.ndarray:
        theta = np.asarray(theta)
        lead = np.broadcast_shapes(theta.shape[:-axes], np.shape(bits)[:-1], *(np.shape(o)[:-axes] for o in others))
        arrays = [np.asarray(a, np.float64 if jnp.issubdtype(a.dtype, jnp.floating) else None) for a in (theta, *others)]
        rows = [np.broadcast_to(a, (*lead, *a.shape[-axes:])).reshape(*lead, -1, a.shape[-1]) for a in arrays]
        n = rows[0].shape[-2]
        seeds = _seeds(np.broadcast_to(np.asarray(bits), (*lead, 2)).reshape(-1, 2))
        flat = [r.reshape(len(seeds), n, r.shape[-1]) for r in rows]
        out = np.empty((len(seeds), n, d + extra))
        for seed in np.unique(seeds):
            chosen = np.flatnonzero(seeds == seed)
            index = np.tile(np.arange(n), len(chosen))
            given = [f[chosen].reshape(-1, f.shape[-1]) for f in flat]
            out[chosen] = function(*given, int(seed), index).reshape(len(chosen), n, -1)
        return out.reshape(*lead, *theta.shape[-axes:-1], d + extra).astype(theta.dtype)

    if not traced:
        return jnp.asarray(host(bits, theta, *others))  # JAX would wrap an error in a page of its own
    shape = jax.ShapeDtypeStruct((*theta.shape[:-1], d + extra), theta.dtype)

    @jax.custom_jvp
    def call(*arguments: jax.Array) -> jax.Array:
        return jax.pure_callback(host, shape, *arguments, vmap_method="expand_dims")

    @partial(call.defjvp, symbolic_zeros=True)
    def differentiated(primals: tuple, tangents: tuple) -> tuple:
        if not all(map(_is_zero, tangents)):
            raise ValueError("theta must not be differentiated twice: second derivatives of layers and losses are not estimated.")
        out = call(*primals)
        return out, jnp.zeros_like(out)

    return call(bits, theta, *others)


def _call_on_device(function: Callable, theta: jax.Array, others: tuple, bits: jax.Array) -> jax.Array:
    """The same for arrays that are known and on a GPU: they change hands by DLPack and stay where they are."""
    arrays = place_of(theta).arrays
    rows = [arrays.from_dlpack(jnp.asarray(a).reshape(-1, a.shape[-1])) for a in (theta, *others)]
    out = function(*rows, int(_seeds(np.asarray(bits)[None])[0]), np.arange(len(rows[0])))
    out = arrays.copy(out.reshape(*theta.shape[:-1], -1), np.dtype(theta.dtype))
    arrays.wait()  # JAX works on another stream
    return jax.dlpack.from_dlpack(out)


def _seeds(words: np.ndarray) -> np.ndarray:
    """(n, 2) words of keys → (n,) seeds."""
    keys = words.astype(np.uint64)
    return ((keys[:, 0] << np.uint64(32)) | keys[:, 1]) & np.uint64(2**63 - 1)


def _bits(key: Any) -> jax.Array:
    """The two words of a key, new style or old."""
    if not isinstance(key, jax.Array):
        raise ValueError(f"key must be made by jax.random.key, got {type(key).__name__}.")
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    if data.shape != (2,) or data.dtype != jnp.uint32:
        raise ValueError(f"key must be one key of two words, got shape {data.shape} of {data.dtype}.")
    return data


def _checked(theta: Any, problem: Problem) -> jax.Array:
    """What can be known of θ while JAX traces; its values are checked when the chains run."""
    theta = _jax_array(theta, "theta")
    if not jnp.issubdtype(theta.dtype, jnp.floating):
        raise ValueError(f"theta must be of a floating dtype, got {theta.dtype}.")
    if theta.ndim == 0 or theta.shape[-1] != problem.size or theta.size == 0:
        raise ValueError(f"theta must have a last axis of {problem.size} entries and not be empty, got shape {theta.shape}.")
    return theta


def _solutions(y: Any, theta: jax.Array, problem: Problem) -> jax.Array:
    y, shape = _jax_array(encoded(problem, y, "y"), "y"), (*theta.shape[:-1], len(problem.solution))
    if y.shape != shape:
        raise ValueError(f"y must have shape {shape}, got {y.shape} for theta of shape {theta.shape}.")
    return y


def _jax_array(value: Any, name: str) -> jax.Array:
    if isinstance(value, jax.Array):
        return value
    with np.errstate(over="ignore"):  # what is beyond float32 is infinite, and refused as such
        return jnp.asarray(native(array_of(value, name)))


def _reduce(values: jax.Array, reduction: str) -> jax.Array:
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()
