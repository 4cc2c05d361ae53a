"""Chains of a group try the same sequence of moves: who is in it, and that nothing else is shared."""

from dataclasses import replace

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import GROUPS, Settings, pure
from movegrad.engine.draws import groups, keys_of, sequence_of, word_of

CUBE = mg.problems.Hypercube(6, exactly=(1, 2))  # two moves


def drawn(seed: int, index: int, chain: int, steps: int = 400) -> np.ndarray:
    """How often each move was tried by one chain of an example."""
    out = mg.sample(CUBE, np.zeros(6), steps=steps, chains=chain + 1, seed=seed, index=[index])
    before = mg.sample(CUBE, np.zeros(6), steps=steps, chains=chain, seed=seed, index=[index]).info.drawn if chain else 0
    return out.info.drawn - before


def test_chains_of_an_example_are_in_different_groups():
    found = groups(np.arange(100), GROUPS)
    assert found.shape == (100, GROUPS)
    assert (np.sort(found, axis=1) == np.arange(GROUPS)).all()
    assert np.bincount(groups(np.arange(1 << 14), 1).ravel(), minlength=GROUPS).max() < 64 + 6 * 8  # 6 σ above 64


def test_chains_of_a_group_try_the_same_moves_and_others_do_not():
    first = groups(np.arange(2000), 1).ravel()
    other = int(np.flatnonzero(first[1:] == first[0])[0]) + 1
    stranger = int(np.flatnonzero(first != first[0])[0])
    np.testing.assert_array_equal(drawn(0, 0, 0), drawn(0, other, 0))
    assert (drawn(0, 0, 0) != drawn(0, stranger, 0)).any()
    assert (drawn(0, 0, 0) != drawn(0, 0, 1)).any()
    # Everything else of them is their own.
    ends = mg.sample(CUBE, np.zeros((2, 6)), steps=400, seed=0, index=[0, other], start=CUBE.solution).solutions
    assert (ends[0] != ends[1]).any()


def test_the_group_does_not_depend_on_the_batch():
    """Order, splitting and threads change no number."""
    theta = np.random.default_rng(0).normal(size=(40, 6))
    whole = mg.sample(CUBE, theta, steps=50, chains=3, index=np.arange(40)).mean
    order = np.random.default_rng(1).permutation(40)
    np.testing.assert_array_equal(mg.sample(CUBE, theta[order], steps=50, chains=3, index=order).mean, whole[order])
    np.testing.assert_array_equal(mg.sample(CUBE, theta[7:9], steps=50, chains=3, index=[7, 8]).mean, whole[7:9])


def test_one_seed_and_one_for_each_example_are_the_same_keys():
    for seed, call in ((0, 0), (5, 7), (2**63 - 1, 2**63 - 1)):
        np.testing.assert_array_equal(Settings(seed=seed, call=call).keys(3), keys_of(np.full(3, seed), call))


def test_words_of_neighbors_have_nothing_in_common():
    """Steps, groups and calls that follow each other: bits of their words agree as often as coins do."""
    word, sequence, keys = pure(word_of), pure(sequence_of), [Settings(call=call).keys(1)[0] for call in range(8)]
    with np.errstate(over="ignore"):
        words = np.array([[word(sequence(key, 0, chain), k) for k in range(64)] for key in keys for chain in range(8)])
    bits = np.unpackbits(words.view(np.uint8), axis=None).reshape(64, 64, 64)
    for axis in (0, 1):
        one, other = (np.take(bits, range(*r), axis=axis) for r in ((0, 63), (1, 64)))
        agree, n = int((one == other).sum()), one.size
        assert abs(agree - n / 2) < 5.0 * np.sqrt(n) / 2  # 6e-7


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0)])
def test_moves_are_tried_in_proportion_to_their_weights(weights):
    moves = [replace(m, weight=w) for m, w in zip(CUBE.moves, weights, strict=True)]
    functions = {name: f for name, f in CUBE.functions._asdict().items() if f is not None}
    problem = mg.Problem(CUBE.data, CUBE.state, moves, 6, **functions)
    n = 200_000
    found = mg.sample(problem, np.zeros(6), steps=n).info.drawn
    p = weights[0] / sum(weights)
    assert abs(found[0] - n * p) < 5.0 * np.sqrt(n * p * (1 - p))  # 6e-7


def test_means_of_64_chains_vary_as_much_as_those_of_independent_ones():
    """One step, where sharing would show most: the variance of a mean is that of one chain over 64, to 2 %."""
    theta = np.zeros((4000, 6))
    out = mg.sample(CUBE, theta, steps=1, chains=64, start=np.zeros(6, np.uint8), seed=5)
    single = mg.sample(CUBE, theta, steps=1, chains=1, start=np.zeros(6, np.uint8), seed=6)
    distance = out.mean.sum(-1), single.mean.sum(-1)
    ratio = 64 * distance[0].var() / distance[1].var()
    assert abs(ratio - 1.0) < 0.15  # 5 standard errors of a ratio of two variances of 4000 numbers are 0.16
