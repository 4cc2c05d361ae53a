"""Random draws of a chain: an explicit generator, and only choices that can be enumerated.

A move draws through :func:`integer`, :func:`coin`, :func:`categorical` and :func:`leaf` alone. The first argument decides what that
means:

* ``uint64[2]``: the state of a xoroshiro128++ generator (Blackman and Vigna, 2021), what a chain runs on;
* ``float64[:]``: an odometer that visits every sequence of outcomes once, with its probability, in compiled code;
* any Python object with methods of these names: the same in pure Python, for :mod:`movegrad.check`.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from movegrad.engine.compile import inner, pure

_U = np.uint64
_GOLDEN = _U(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)
_LOW = _U(0xFFFFFFFF)
GROUPS = 256  # of chains that try the same moves

# An odometer holds POSITION, DEPTH, PROBABILITY and the number of paths that are LEFT, a number to ESCAPE from endless loops with,
# then (choice, radix) for each draw on the current path.
_POSITION, _DEPTH, _PROBABILITY, _LEFT, _ESCAPE, _PATH = 0, 1, 2, 3, 4, 5
_MAX_DRAWS = 64
_MAX_PATHS = float(1 << 26)
ODOMETER_SIZE = _PATH + 2 * _MAX_DRAWS


# --- the generator ---------------------------------------------------------------------------------------------------


@inner
def _mix(z):
    """Finalizer of SplitMix64."""
    z = (z ^ (z >> _U(30))) * _MIX_1
    z = (z ^ (z >> _U(27))) * _MIX_2
    return z ^ (z >> _U(31))


@inner
def seed_stream(rng, key, example, chain):
    """Key the generator by (seed, call, example, chain): what runs beside a chain never changes its draws."""
    z = _mix(key ^ (_U(example) + _GOLDEN))
    z = _mix(z ^ (_U(chain) + _GOLDEN))
    rng[0] = _mix(z + _GOLDEN)
    rng[1] = _mix(z + _GOLDEN + _GOLDEN) | _U(1)


def keys_of(seeds: np.ndarray, call: int) -> np.ndarray:
    """What seeds and the number of a call are to generators: (E,) words."""
    mix = pure(_mix)
    with np.errstate(over="ignore"):
        return mix(mix(seeds.astype(np.uint64) + _GOLDEN) ^ (_U(call) + _GOLDEN))


def stream_keys(seed: Any, call: int, examples: np.ndarray, chains: int) -> np.ndarray:
    """(E, C): 64 bits keyed like the generator of each chain, for choices made outside of kernels."""
    rng, keys = np.empty((2, len(examples), chains), np.uint64), keys_of(np.broadcast_to(seed, len(examples)), call)
    with np.errstate(over="ignore"):
        pure(seed_stream)(rng, keys[:, None], examples[:, None], np.arange(chains)[None])
    return rng[0]


@inner
def next_uint64(rng):
    """xoroshiro128++: 64 random bits."""
    s0, s1 = rng[0], rng[1]
    out = s0 + s1
    out = ((out << _U(17)) | (out >> _U(47))) + s0
    s1 ^= s0
    rng[0] = ((s0 << _U(49)) | (s0 >> _U(15))) ^ s1 ^ (s1 << _U(21))
    rng[1] = (s1 << _U(28)) | (s1 >> _U(36))
    return out


@inner
def uniform(rng):
    """Uniform float64 in [0, 1) with 53 random bits."""
    return uniform_of(next_uint64(rng))


@inner
def _random_integer(rng, n):
    """Unbiased integer below n < 2**32 (Lemire, 2019): one multiplication, a rejection once in 2**32/n draws."""
    m = _U(n)
    product = (next_uint64(rng) >> _U(32)) * m
    if (product & _LOW) < m:
        threshold = (_LOW - m + _U(1)) % m
        while (product & _LOW) < threshold:
            product = (next_uint64(rng) >> _U(32)) * m
    return np.int64(product >> _U(32))


@inner
def _random_categorical(rng, cumulative):
    u = uniform(rng) * cumulative[-1]
    low, high = 0, len(cumulative) - 1
    while low < high:
        middle = (low + high) >> 1
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def _random_leaf(rng, tree):
    """Descend by one uniform number; a subtree without weight is never entered."""
    n, leaves = np.int64(1), len(tree) // 2
    u = uniform(rng) * tree[1]
    while n < leaves:
        n *= 2
        right = np.int64(u >= tree[n]) & np.int64(tree[n + 1] > 0.0)  # no branch: it could not be predicted
        u -= right * tree[n]
        n += right
    return n - leaves


# --- the sequence of moves -------------------------------------------------------------------------------------------
#
# Which move a step tries does not depend on the state, so chains may share it: threads of a warp then do the same at the same time.
# Chains of one example are in different groups (up to GROUPS of them), so that their means are as independent as ever.


@inner
def group_of(example, chain):
    """The group of a chain, out of what keys its generator and nothing else."""
    return (_mix(_U(example) + _GOLDEN) + _U(chain)) % _U(GROUPS)


@inner
def sequence_of(key, example, chain):
    """The key of the sequence of moves of a chain's group in a call."""
    return _mix((key ^ _MIX_1) + group_of(example, chain))  # type: ignore[call-arg]


@inner
def word_of(sequence, k):
    """64 random bits for step k."""
    return _mix(sequence + _U(k) * _GOLDEN)


@inner
def uniform_of(word):
    """Uniform float64 in [0, 1) with 53 of these bits."""
    return np.int64(word >> _U(11)) * (1.0 / 9007199254740992.0)


def groups(examples: np.ndarray, chains: int) -> np.ndarray:
    """(E, C): the groups of chains, outside of kernels."""
    with np.errstate(over="ignore"):
        return pure(group_of)(examples[:, None], np.arange(chains)[None]).astype(np.uint8)


# --- the odometer ----------------------------------------------------------------------------------------------------


@inner
def _turn(rng, radix):
    """The choice of this path at this draw; a draw seen for the first time starts at 0."""
    at = int(rng[_POSITION])
    if at == _MAX_DRAWS:  # too long to enumerate: the caller sees a probability that is no number, if a loop of draws ever ends
        rng[_PROBABILITY] = np.nan
        rng[_ESCAPE] = (16807.0 * rng[_ESCAPE]) % 2147483647.0
        return int(rng[_ESCAPE] % radix)
    if at == int(rng[_DEPTH]):
        rng[_PATH + 2 * at] = 0.0
        rng[_PATH + 2 * at + 1] = radix
        rng[_DEPTH] = at + 1
    rng[_POSITION] = at + 1
    return int(rng[_PATH + 2 * at])


@inner
def _listed_integer(rng, n):
    rng[_PROBABILITY] /= n
    return _turn(rng, n)


@inner
def _listed_coin(rng, p):
    if p <= 0.0 or p >= 1.0:  # outcomes without a chance are not followed: a move may rely on that
        return p >= 1.0
    heads = _turn(rng, 2) == 1
    rng[_PROBABILITY] *= p if heads else 1.0 - p
    return heads


@inner
def _listed_categorical(rng, cumulative):
    possible, below = 0, 0.0
    for i in range(len(cumulative)):
        possible += cumulative[i] > below
        below = cumulative[i]
    left, below = _turn(rng, possible), 0.0
    for i in range(len(cumulative)):
        if cumulative[i] > below:
            if left == 0:
                rng[_PROBABILITY] *= (cumulative[i] - below) / cumulative[-1]
                return i
            left -= 1
        below = cumulative[i]
    return 0


@inner
def _listed_leaf(rng, tree):
    leaves, possible = len(tree) // 2, 0
    for i in range(leaves):
        possible += tree[leaves + i] > 0.0
    left = _turn(rng, possible)
    for i in range(leaves):
        if tree[leaves + i] > 0.0:
            if left == 0:
                rng[_PROBABILITY] *= tree[leaves + i] / tree[1]
                return i
            left -= 1
    return 0


@inner
def odometer_start(rng):
    """Set the odometer to the first path."""
    rng[_DEPTH] = 0.0
    rng[_POSITION] = 0.0
    rng[_PROBABILITY] = 1.0
    rng[_LEFT] = _MAX_PATHS
    rng[_ESCAPE] = 1.0


@inner
def odometer_next(rng):
    """Turn to the next path; False after the last one."""
    last = int(rng[_DEPTH]) - 1
    while last >= 0 and rng[_PATH + 2 * last] + 1.0 >= rng[_PATH + 2 * last + 1]:
        last -= 1
    if last < 0:
        return False
    rng[_PATH + 2 * last] += 1.0
    rng[_DEPTH] = last + 1
    rng[_POSITION] = 0.0
    rng[_LEFT] -= 1.0
    rng[_PROBABILITY] = 1.0 if rng[_LEFT] > 0.0 else np.nan
    return True


@inner
def odometer_probability(rng):
    """Probability of the path just followed."""
    return rng[_PROBABILITY]


# --- what moves call -------------------------------------------------------------------------------------------------


def integer(rng, n):
    """Uniform integer in {0, …, n−1}.

    Parameters
    ----------
    rng : generator
        What ``propose`` and ``random`` of a problem are given.
    n : int
        1 ≤ n < 2³².

    Returns
    -------
    int
        The draw.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> @mg.jit
    ... def roll(rng):
    ...     return 1 + mg.integer(rng, 6)
    >>> 1 <= roll(np.array([1, 2], np.uint64)) <= 6
    True
    """
    return rng.integer(n)


def coin(rng, p):
    """True with probability p.

    Parameters
    ----------
    rng : generator
        What ``propose`` and ``random`` of a problem are given.
    p : float
        Between 0 and 1.

    Returns
    -------
    bool
        The draw.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> @mg.jit
    ... def heads(rng):
    ...     return mg.coin(rng, 1.0)
    >>> heads(np.array([1, 2], np.uint64))
    True
    """
    return rng.coin(p)


def categorical(rng, cumulative):
    """Index i with probability proportional to ``cumulative[i] − cumulative[i−1]``, in O(log n).

    Parameters
    ----------
    rng : generator
        What ``propose`` and ``random`` of a problem are given.
    cumulative : (n,) array
        Sums of weights ≥ 0; the last one is > 0.

    Returns
    -------
    int
        The draw.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> @mg.jit
    ... def second(rng, cumulative):
    ...     return mg.categorical(rng, cumulative)
    >>> second(np.array([1, 2], np.uint64), np.array([0.0, 3.0, 3.0]))
    1
    """
    return rng.categorical(cumulative)


def leaf(rng, tree):
    """Item i with probability proportional to leaf i of a sum tree, in O(log n); see ``movegrad.problems._sum_tree``.

    Parameters
    ----------
    rng : generator
        What ``propose`` and ``random`` of a problem are given.
    tree : (2m,) array, with m a power of two
        Entry m + i is the weight of item i, entry n < m the sum of entries 2n and 2n + 1.

    Returns
    -------
    int
        The draw.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> @mg.jit
    ... def second(rng, tree):
    ...     return mg.leaf(rng, tree)
    >>> second(np.array([1, 2], np.uint64), np.array([0.0, 3.0, 0.0, 3.0]))
    1
    """
    return rng.leaf(tree)


def _is_generator(rng):
    return isinstance(rng, types.Array) and rng.dtype == types.uint64


@overload(integer)
def _integer(rng, n):
    if _is_generator(rng):
        return lambda rng, n: _random_integer(rng, n)
    return lambda rng, n: _listed_integer(rng, n)


@overload(coin)
def _coin(rng, p):
    if _is_generator(rng):
        return lambda rng, p: uniform(rng) < p
    return lambda rng, p: _listed_coin(rng, p)


@overload(categorical)
def _categorical(rng, cumulative):
    if _is_generator(rng):
        return lambda rng, cumulative: _random_categorical(rng, cumulative)
    return lambda rng, cumulative: _listed_categorical(rng, cumulative)


@overload(leaf)
def _leaf(rng, tree):
    if _is_generator(rng):
        return lambda rng, tree: _random_leaf(rng, tree)
    return lambda rng, tree: _listed_leaf(rng, tree)
