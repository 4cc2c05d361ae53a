# ruff: noqa: F821 - the names that templates leave open are declared, not defined
"""Every outcome of one step, as templates: the exact one-step loss, and lists of outcomes that are made once and weighed often.

Names declared at the top of each section are open, as in :mod:`movegrad.engine.loop`; :mod:`movegrad.engine.bind` fills them in.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from movegrad.engine.compile import jit
from movegrad.engine.draws import odometer_next, odometer_probability, odometer_start
from movegrad.engine.loop import INVERSE_TEMPERATURE, NOT_IN_SET, OBJECTIVE, clear

# --- one exact step --------------------------------------------------------------------------------------------------
propose: Any
change: Any
changes: Any
gain: Any
feasible: Any
prepare: Any
applicable: Any
applicable_after: Any
log_weight: Any
load_one: Any
take: Any
restore: Any


def outcomes(chain, mask, share):
    """Hand every outcome of one move to ``take``, with its probability and log α; ``share`` is the probability of the move.

    The chain's generator is an odometer, which lists the outcomes. False if these are too many, or ``take`` says so.
    """
    data, state = chain.data, chain.state
    log_here = log_weight(mask, chain.weights)
    odometer_start(chain.rng)
    more = True
    while more:
        move, log_ratio = propose(data, state, chain.rng)
        q = share * odometer_probability(chain.rng)
        if not q >= 0.0:
            return False
        if q > 0.0 and log_ratio > -np.inf and feasible(data, state, move):
            log_ratio += log_here - log_weight(applicable_after(data, state, move), chain.weights)
            if not take(chain, move, q, log_ratio):
                return False
        more = odometer_next(chain.rng)
        # A proposal may have shuffled scratch space; every outcome is to be listed from the same state.
        restore(chain)
    return True


def prepare_again(chain):
    prepare(chain.data, chain.guide, 1.0 / chain.value[INVERSE_TEMPERATURE], chain.state)


@jit
def one_step_value(s):
    """f(s) = eˢ for s ≤ 0 and 1 + s for s > 0; its derivative is min(1, eˢ)."""
    return exp(s) if s <= 0.0 else 1.0 + s


def weigh(chain, move, q, log_ratio):
    """Add an outcome to the exact one-step loss.

    With s = Δ/t + log α of an outcome of probability q, the loss gains t·q·f(s), and its gradient q·min(1, eˢ)·(T(y') − T(y)).
    """
    data, state, inv_t = chain.data, chain.state, chain.value[INVERSE_TEMPERATURE]
    n = changes(data, state, move)
    difference = gain(data, state, move)
    for m in range(n):
        i, delta = change(data, state, move, m)
        difference += chain.theta[i] * delta
    s = difference * inv_t + log_ratio
    chain.value[OBJECTIVE] += q * one_step_value(s) / inv_t
    p = exp(s if s < 0.0 else 0.0)
    for m in range(n):
        i, delta = change(data, state, move, m)
        chain.mean[i] += q * p * delta
    return True


all_outcomes: Any
total_weight: Any


def first_step(chain, plan, heat, last, key, index, c, since, work):
    """Loss and gradient of the exact first step, in place of a run: in OBJECTIVE and in ``mean``; −∞ for too many outcomes."""
    if not load_one(chain, plan, key, index, c):
        return NOT_IN_SET
    chain.value[OBJECTIVE] = 0.0
    clear(chain.mean)
    mask = applicable(chain.data, chain.state)
    if not all_outcomes(chain, mask, total_weight(mask, chain.weights)):
        chain.value[OBJECTIVE] = -np.inf
    return work + 1


# --- neighborhoods ---------------------------------------------------------------------------------------------------------

# Columns of Lists.outcomes, and of Lists.used, whose last one says why an outcome could not be written.
PROBABILITY, LOG_RATIO, GAIN = 0, 1, 2
OUTCOMES, ENTRIES, WHY = 0, 1, 2
NO_OUTCOME, NO_ENTRY, TOO_MANY = 1, 2, 3  # there is no room for another one, or a proposal has too many


class Lists(NamedTuple):
    """Outcomes of one step from some solutions, one after another; outcome r changes entries ends[r − 1] to ends[r] − 1."""

    outcomes: np.ndarray  # (R, 3) probability, log α, and φ(y') − φ(y)
    ends: np.ndarray  # (R,)
    entries: np.ndarray  # (N,) of T
    deltas: np.ndarray  # (N,) by what they change
    used: np.ndarray  # (3,) how many outcomes and entries there are, and why there is no other


class Pen(NamedTuple):
    """What writes them: a state to propose from, and where to write."""

    data: Any
    state: Any
    kept: Any  # the state as it was prepared
    rng: np.ndarray
    weights: np.ndarray
    lists: Any


def note(pen, move, q, log_ratio):
    """Write an outcome down; False if there is no room."""
    data, state, lists, used = pen.data, pen.state, pen.lists, pen.lists.used
    n = changes(data, state, move)
    r, at = used[OUTCOMES], used[ENTRIES]
    if r == len(lists.ends) or at + n > len(lists.entries):
        used[WHY] = NO_OUTCOME if r == len(lists.ends) else NO_ENTRY
        return False
    lists.outcomes[r, PROBABILITY] = q
    lists.outcomes[r, LOG_RATIO] = log_ratio
    lists.outcomes[r, GAIN] = gain(data, state, move)
    for m in range(n):
        i, delta = change(data, state, move, m)
        if delta != 0.0:
            lists.entries[at] = i
            lists.deltas[at] = delta
            at += 1
    lists.ends[r] = at
    used[OUTCOMES], used[ENTRIES] = r + 1, at
    return True


def weigh_rows(first, lists, rows, theta, inv_t, values, gradients, low, high):
    """The exact one-step loss and its gradient at θ[k] from solution rows[k], for k = low…high−1, as :func:`weigh` has them."""
    for k in range(low, high):
        value = 0.0
        for r in range(first[rows[k]], first[rows[k] + 1]):
            begin, end, q = lists.ends[r - 1] if r > 0 else 0, lists.ends[r], lists.outcomes[r, PROBABILITY]
            difference = lists.outcomes[r, GAIN]
            for at in range(begin, end):
                difference += theta[k, lists.entries[at]] * lists.deltas[at]
            s = difference * inv_t[k] + lists.outcomes[r, LOG_RATIO]
            value += q * one_step_value(s)
            p = q * exp(s if s < 0.0 else 0.0)
            for at in range(begin, end):
                gradients[k, lists.entries[at]] += p * lists.deltas[at]
        values[k] = value / inv_t[k]
