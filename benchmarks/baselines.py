"""The hypercube chain without movegrad: in NumPy, in JAX as one writes it first, and in JAX tuned for speed.

All run Metropolis-Hastings on {0,1}^d with one-bit flips from y = 0 and return the average of the iterates, as
``movegrad.sample(Hypercube(d), theta, start=0)`` does. Each step draws one index and one uniform number.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Chain = Callable[[int], np.ndarray]  # seed → (d,) average of the iterates of all chains

_BLOCK = 5000  # steps for which random numbers are drawn at once


def numpy_chain(theta: np.ndarray, chains: int, steps: int) -> Chain:
    """Vectorized over chains, a Python loop over steps, random numbers in blocks, O(chains) work for each step.

    The state holds 1 − 2y. An entry that flips in step k had its old value in k iterates, so averages cost O(1) per flip.
    """
    d, rows = len(theta), np.arange(chains) * len(theta)

    def run(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        sign, sums = np.ones(chains * d), np.zeros(chains * d)
        for first in range(0, steps, _BLOCK):
            count = min(_BLOCK, steps - first)
            index = rng.integers(d, size=(count, chains))
            log_u = np.log(1.0 - rng.random((count, chains)))
            scores, places = theta[index], rows + index
            for k in range(count):
                at = places[k]
                flipped = at[log_u[k] < scores[k] * sign[at]]
                old = sign[flipped]
                sums[flipped] += 2.0 * (first + k) * old
                sign[flipped] = -old
        return (0.5 - 0.5 * (sums / steps + sign)).reshape(chains, d).mean(0)

    return run


def jax_plain_chain(theta: np.ndarray, chains: int, steps: int) -> Chain:
    """A readable JAX program: split a key and draw in each step, add y to the sum, ``vmap`` over chains."""
    theta, d = jnp.asarray(theta, jnp.float32), len(theta)

    def step(_: int, carry: tuple) -> tuple:
        key, y, total = carry
        key, key_index, key_coin = jax.random.split(key, 3)
        i = jax.random.randint(key_index, (), 0, d)
        accepted = jax.random.uniform(key_coin) < jnp.exp(theta[i] * (1 - 2 * y[i]))
        y = y.at[i].set(jnp.where(accepted, 1 - y[i], y[i]))
        return key, y, total + y

    def chain(key: jax.Array) -> jax.Array:
        return lax.fori_loop(0, steps, step, (key, jnp.zeros(d), jnp.zeros(d)))[2] / steps

    many = jax.jit(lambda key: jax.vmap(chain)(jax.random.split(key, chains)).mean(0))
    one = jax.jit(chain)
    return lambda seed: np.asarray((one if chains == 1 else many)(jax.random.key(seed)))


def jax_tuned_chain(theta: np.ndarray, chains: int, steps: int) -> Chain:
    """The fastest of some twenty JAX programs that were tried, all with the generator of ``jax.random``.

    Random numbers in blocks, logarithms taken there, averages in O(1) per step. What XLA makes of two forms of the same loop
    differs several times over: for one chain, an array of pairs that is updated by slices compiles to one kernel; for many,
    two arrays are updated by scatters.
    """
    theta = jnp.asarray(theta, jnp.float32)
    block = min(_BLOCK, steps)
    if steps % block:
        raise ValueError(f"steps must be a multiple of {block}, got {steps}.")
    start, step, mean = _one_chain(theta) if chains == 1 else _many_chains(theta, chains)

    @jax.jit
    def run(key: jax.Array) -> jax.Array:
        def advance(b: int, carry: tuple) -> tuple:
            index, log_u = _draw(jax.random.fold_in(key, b), block, chains, len(theta))
            return lax.scan(step, carry, (index, log_u, b * block + jnp.arange(block)))[0]

        return mean(lax.fori_loop(0, steps // block, advance, start()), steps)

    def call(seed: int) -> np.ndarray:
        with jax.threefry_partitionable(False):  # 1.3× on the default, which is meant for several devices
            return np.asarray(run(jax.random.key(seed)))

    return call


def _draw(key: jax.Array, count: int, chains: int, d: int) -> tuple[jax.Array, jax.Array]:
    """Indices below d and logarithms of uniform numbers, from 23 random bits each."""
    u = (jax.random.bits(key, (2, count, chains), jnp.uint32) >> 9).astype(jnp.float32) * 2.0**-23
    return (u[0] * d).astype(jnp.int32), jnp.log(u[1])


def _one_chain(theta: jax.Array) -> tuple[Callable, Callable, Callable]:
    """The state holds pairs (yᵢ, Σ of yᵢ − its present value over the iterates so far)."""

    def start() -> jax.Array:
        return jnp.zeros((len(theta), 2), jnp.int32)

    def step(pairs: jax.Array, draw: tuple) -> tuple[jax.Array, None]:
        index, log_u, k = draw
        i = index[0]
        pair = lax.dynamic_slice(pairs, (i, 0), (1, 2))
        change = 1 - 2 * pair[0, 0]
        change = jnp.where(log_u[0] < _at(theta, i) * change, change, 0)
        return lax.dynamic_update_slice(pairs, pair + jnp.stack([change, -k * change])[None], (i, 0)), None

    return start, step, lambda pairs, steps: pairs[:, 0] + pairs[:, 1] / steps


def _many_chains(theta: jax.Array, chains: int) -> tuple[Callable, Callable, Callable]:
    """The state holds θᵢ·(1 − 2yᵢ), the gain of a flip, and the sums as above."""
    theta = jnp.where(theta == 0, 1e-30, theta)  # its sign tells y
    rows = jnp.arange(chains)

    def start() -> tuple[jax.Array, jax.Array]:
        return jnp.broadcast_to(theta, (chains, len(theta))), jnp.zeros((chains, len(theta)), jnp.int32)

    def step(carry: tuple, draw: tuple) -> tuple[tuple, None]:
        gains, sums = carry
        index, log_u, k = draw
        gain = _at(gains, (rows, index))
        accepted = log_u < gain
        missed = jnp.where(accepted, jnp.where(gain == _at(theta, index), -k, k), 0)
        place = {"unique_indices": True, "mode": "promise_in_bounds"}
        gains = gains.at[rows, index].set(jnp.where(accepted, -gain, gain), **place)
        return (gains, sums.at[rows, index].add(missed, **place)), None

    def mean(carry: tuple, steps: int) -> jax.Array:
        return ((carry[0] != theta) + carry[1] / steps).mean(0)

    return start, step, mean


def _at(array: jax.Array, index: jax.Array | tuple) -> jax.Array:
    return array.at[index].get(mode="promise_in_bounds")
