# ruff: noqa: F821 - the names that templates leave open are declared, not defined
"""The one Metropolis-Hastings loop: Algorithms 1 and 2 of the paper, as templates, and how a chain begins.

Names declared at the top of each section are open: :mod:`movegrad.engine.bind` fills them in with the functions of a problem.
``step`` is compiled once for each move, so that a move's arguments may be of any type; ``advance`` makes the steps of one chain;
``live`` loads, advances and ends it; ``draw``, ``build`` and ``improve_start`` make its start, each in a kernel of its own. What
loops over chains is not here: it depends on where they lie (bind.py for the CPU, cuda/source.py for CUDA).

Nothing here allocates, and no function returns an array: then the same source compiles without reference counts, for CPU threads
and for CUDA.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from movegrad.engine.bits import scaled
from movegrad.engine.compile import jit
from movegrad.engine.draws import seed_stream, sequence_of, uniform

# Columns of Chains.counts.
DRAWN, ACCEPTED, INFEASIBLE, INAPPLICABLE = 0, 1, 2, 3
COUNTS = 4
# Columns of Chains.clock.
DONE, GOAL = 0, 1
# In DONE, before the first step: ~(what is known of the start, and what is still to be done), of these bits.
TRUSTED, SEEDED, PREPARED, LOADED, DRAW, BUILD, IMPROVE = 1, 2, 4, 8, 16, 32, 64
AFTER_DRAW, AFTER_BUILD, AFTER_IMPROVE = SEEDED | LOADED, LOADED, PREPARED | LOADED
# Columns of Chains.value. The last two serve the covariance product: s = ⟨v, T(y)⟩ and its sum over averaged iterates.
OBJECTIVE, BEST_OBJECTIVE, INVERSE_TEMPERATURE, PROJECTION, PROJECTION_SUM = 0, 1, 2, 3, 4
VALUES = 5
# What ``live`` returns instead of the work done: the start is not in the set; the chain is not at its goal yet.
NOT_IN_SET, PAUSED = -1, -2


class Chains(NamedTuple):
    """Everything that chains read and write: E examples with C chains each; chain c belongs to example c // C.

    "per entry" means one number for each entry of θ, example after example; "per chain and entry" the same for each chain.
    Small rows are padded to 128 bytes, lest threads write to the same cache line (2× with few chains).
    """

    which: np.ndarray  # (E,) instance of each example
    keys: np.ndarray  # (E,) of the examples, by seed and call, and
    indices: np.ndarray  # (E,) their numbers: what keys their generators
    theta_at: np.ndarray  # (E+1,) offsets of the examples in arrays per entry
    theta: np.ndarray  # per entry
    guide: np.ndarray  # per entry
    direction: np.ndarray  # per entry: v of the covariance product (empty unless wanted)
    state_at: np.ndarray  # (fields, E*C+1) offsets of the chains in the arrays of states
    states: tuple  # one flat array for each field of the state
    rng: np.ndarray  # (E*C, ≥ 2) generators
    clock: np.ndarray  # (E*C, ≥ 2) steps made and to make
    value: np.ndarray  # (E*C, ≥ VALUES)
    sums: np.ndarray  # per chain and entry: Σ of T(y) − T(y at the end) over averaged iterates y
    cross: np.ndarray  # per chain and entry: Σ of (T(y) − T(y at the end))·s (empty unless wanted); at the end, average of T(y)·s
    mean: np.ndarray  # per chain and entry: at the end, average of T(y)
    counts: np.ndarray  # (E*C, ≥ moves, 4)
    moved: np.ndarray  # per chain and entry: whether it changed in an averaged step (empty unless wanted)
    origin: np.ndarray  # like states[0]: what distances are measured to (empty unless traced)
    best: np.ndarray  # like states[0]: best solution seen (empty unless wanted)
    trace: np.ndarray  # (E*C, points, 2) objective and distance to the origin
    iterates: np.ndarray  # like states[0], ``points`` solutions for each chain (empty unless wanted)
    weights: np.ndarray  # (moves,) shares in the mixture


class Chain(NamedTuple):
    """The part of it that belongs to one chain."""

    data: Any
    state: Any
    theta: np.ndarray
    guide: np.ndarray
    direction: np.ndarray
    rng: np.ndarray
    clock: np.ndarray
    value: np.ndarray
    sums: np.ndarray
    cross: np.ndarray
    mean: np.ndarray
    counts: np.ndarray
    moved: np.ndarray
    origin: np.ndarray
    best: np.ndarray
    trace: np.ndarray
    iterates: np.ndarray
    weights: np.ndarray


class Start(NamedTuple):
    """The part of it that a kernel which makes starts needs of one chain."""

    data: Any
    state: Any
    guide: np.ndarray
    rng: np.ndarray
    clock: np.ndarray
    value: np.ndarray


class Plan(NamedTuple):
    """Numbers that hold for a whole run."""

    chains: int  # C
    burn_in: int  # steps left out of the averages
    correction: float  # 1: Metropolis-Hastings, 0: annealing without the proposal ratio
    trace_every: int  # 0: no trace
    pause: int  # ticks of the clock after which a kernel returns, where it can


# --- one step --------------------------------------------------------------------------------------------------------
propose: Any
change: Any
changes: Any
gain: Any
feasible: Any
apply: Any
apply_if: Any
score: Any
follow: Any
applicable_after: Any
log_weight: Any
MOVE = 0
EVEN = RECYCLE = COVARIANCE = BEST = SCORED = False


def step(chain, inv_t, correction, log_here, averaged, objective):
    """One step with one move; returns the gain, 0 if the chain stays.

    ``log_here`` is log |Q(y)| and ``averaged`` the number of iterates that entered the averages before this step.
    """
    data, state, counts = chain.data, chain.state, chain.counts
    counts[MOVE, DRAWN] += 1
    # Sample a neighbor.
    move, log_ratio = propose(data, state, chain.rng)
    if log_ratio == -np.inf:
        counts[MOVE, INAPPLICABLE] += 1
        return 0.0
    # Δ = ⟨θ,T(y')⟩ + φ(y') − ⟨θ,T(y)⟩ − φ(y).
    difference = gain(data, state, move)
    if SCORED:
        difference += score(data, chain.theta, state, move)
    else:
        n = changes(data, state, move)
        for m in range(n):
            i, delta = change(data, state, move, m)
            difference += chain.theta[i] * delta
    # p = α exp(Δ/t), where α includes |Q(y)|/|Q(y')|. Accept if U ≤ p.
    log_ratio += log_here - log_weight(applicable_after(data, state, move), chain.weights)
    log_p = difference * inv_t + correction * log_ratio
    iterates = averaged if averaged > 0 else 0
    if EVEN:  # no branch on the coin: nobody can predict it, and a miss takes 10 ns
        accepted = np.int64(uniform(chain.rng) < exp_of_negative(log_p if log_p < 0.0 else 0.0)) & np.int64(log_p == log_p)
        counts[MOVE, ACCEPTED] += accepted
        for m in range(n):
            i, delta = change(data, state, move, m)
            chain.sums[i] -= accepted * iterates * delta
            if len(chain.moved) > 0 and averaged >= 0:
                chain.moved[i] |= accepted
        apply_if(data, state, move, accepted)
        return difference if accepted else 0.0
    if np.isnan(log_p):  # an objective that is no number is never accepted
        return 0.0
    accepted = coin_accepts(uniform(chain.rng), log_p if log_p < 0.0 else 0.0)
    # Only what the coin accepted is asked whether it is feasible, since most proposals are not; recycling asks always.
    if accepted or RECYCLE:
        possible = feasible(data, state, move)
        if accepted and not possible:
            counts[MOVE, INFEASIBLE] += 1
        accepted = accepted and possible
        if RECYCLE and possible and averaged >= 0:
            if SCORED:
                n = changes(data, state, move)
            excess = exp(log_p if log_p < 0.0 else 0.0) - accepted
            for m in range(n):
                i, delta = change(data, state, move, m)
                chain.sums[i] += excess * delta
    if not accepted:
        return 0.0
    counts[MOVE, ACCEPTED] += 1
    if BEST and difference < 0.0 and objective > chain.value[BEST_OBJECTIVE]:
        save(chain, objective)
    if SCORED:
        n = changes(data, state, move)
        follow(data, chain.theta, state, move)
    # An entry that changes now had its old value in all averaged iterates so far: O(1) instead of adding T(y) at every step.
    for m in range(n):
        i, delta = change(data, state, move, m)
        chain.sums[i] -= iterates * delta
        if len(chain.moved) > 0 and averaged >= 0:
            chain.moved[i] = 1
        if COVARIANCE:
            chain.cross[i] -= chain.value[PROJECTION_SUM] * delta
            chain.value[PROJECTION] += chain.direction[i] * delta
    apply(data, state, move)
    return difference


@jit
def exp_of_negative(x):
    """eˣ for x ≤ 0, to the last bit but one, without a branch or a table: 2ᵏ times a Taylor polynomial of degree 13 on ±½ log 2."""
    x = x if x > -700.0 else -700.0
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # 1.5·2⁵²: rounds to an integer, which stands in the last bits
    k = shifted - 6755399441055744.0
    r = x - k * 0.6931471803691238 - k * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * 0.16666666666666666)
    middle = (0.041666666666666664 + r * 0.008333333333333333) + r2 * (0.001388888888888889 + r * 0.0001984126984126984)
    high = (2.48015873015873e-05 + r * 2.7557319223985893e-06) + r2 * (2.755731922398589e-07 + r * 2.505210838544172e-08)
    top = 2.08767569878681e-09 + r * 1.6059043836821613e-10
    return scaled(low + r4 * (middle + r4 * (high + r4 * top)), shifted)  # type: ignore[call-arg]


@jit
def coin_accepts(u, x):
    """u < exp(x) for x ≤ 0. A Taylor bound of e⁻ˣ refuses most of what is refused at once, and that branch can be predicted.

    Against bounds on both sides and libm between them: 1.1 to 1.5× with few acceptances, 0.9 to 1.3× with many (busy machine).
    """
    y = -x
    y2 = y * y
    if not u * ((1.0 + y) + y2 * ((0.5 + y * 0.16666666666666666) + y2 * (0.041666666666666664 + y * 0.008333333333333333))) < 1.0:
        return False
    return u < exp_of_negative(x)


@jit
def save(chain, objective):
    """Remember a best-seen solution. Called when the chain leaves it: a climb copies once, at its top."""
    chain.value[BEST_OBJECTIVE] = objective
    for i in range(len(chain.state[0])):
        chain.best[i] = chain.state[0][i]


# --- one chain -------------------------------------------------------------------------------------------------------
step_any: Any
pick: Any
applicable: Any


def advance(chain, goal, burn_in, correction, heat, sequence):
    """Algorithm 2: the steps up to ``goal``. ``sequence`` keys the moves that are tried."""
    objective, scale = chain.value[OBJECTIVE], chain.value[INVERSE_TEMPERATURE]
    for k in range(chain.clock[DONE], goal):
        # Sample a neighborhood system among those that apply, then a neighbor in it.
        mask = applicable(chain.data, chain.state)
        s = pick(chain.rng, mask, chain.weights, sequence, k)
        inv_t = scale * heat.inverse[(k - heat.first) >> heat.shift]
        objective += step_any(s, chain, inv_t, correction, log_weight(mask, chain.weights), k - burn_in, objective)
        if COVARIANCE and k >= burn_in:
            chain.value[PROJECTION_SUM] += chain.value[PROJECTION]
    chain.value[OBJECTIVE] = objective
    chain.clock[DONE] = goal


@jit
def clear(array):
    for i in range(len(array)):
        array[i] = 0.0


prepare: Any
attach: Any
contains: Any
statistic: Any
phi: Any


def load(chain, plan, key, index, c):
    """Key the generator and fill what is derived from the start, as far as that is not done; False if it is not in the set."""
    solution, sums, known = chain.state[0], chain.sums, ~chain.clock[DONE]
    if not known & SEEDED:
        seed_stream(chain.rng, key, index, c % plan.chains)
    if not known & TRUSTED and not contains(chain.data, solution):
        return False
    if not known & PREPARED:
        prepare(chain.data, chain.guide, 1.0 / chain.value[INVERSE_TEMPERATURE], chain.state)
    attach(chain.data, chain.theta, chain.state)
    objective = phi(chain.data, solution)
    clear(chain.mean)
    statistic(chain.data, solution, chain.mean)
    for i in range(len(sums)):
        objective += chain.theta[i] * chain.mean[i]
        sums[i] = 0.0
        if COVARIANCE:
            chain.value[PROJECTION] += chain.direction[i] * chain.mean[i]
            chain.cross[i] = 0.0
    chain.value[OBJECTIVE] = objective
    if BEST:
        save(chain, objective)
    chain.clock[DONE] = 0
    return True


@jit
def record(chain, point):
    """Write a point of the trace, and the iterate if iterates are kept."""
    solution, distance = chain.state[0], 0
    for i in range(len(solution)):
        distance += solution[i] != chain.origin[i]
    chain.trace[point, 0] = chain.value[OBJECTIVE]
    chain.trace[point, 1] = distance
    if len(chain.iterates) > 0:
        for i in range(len(solution)):
            chain.iterates[point * len(solution) + i] = solution[i]


def value_of(chain, solution):
    """⟨θ, T(y)⟩ + φ(y), by way of ``mean`` as scratch space."""
    clear(chain.mean)
    statistic(chain.data, solution, chain.mean)
    objective = phi(chain.data, solution)
    for i in range(len(chain.mean)):
        objective += chain.theta[i] * chain.mean[i]
    return objective


evaluate: Any


def finish(chain, burn_in):
    """Turn the running sums into averages over the iterates after burn-in; if there is none, over the last one alone."""
    if BEST:
        if chain.value[OBJECTIVE] > chain.value[BEST_OBJECTIVE]:  # the chain has not left it
            save(chain, chain.value[OBJECTIVE])
        # Anew, not as sums of very many gains.
        chain.value[BEST_OBJECTIVE] = evaluate(chain, chain.best)
        final = evaluate(chain, chain.state[0])
        if final > chain.value[BEST_OBJECTIVE]:
            save(chain, final)
    clear(chain.mean)
    statistic(chain.data, chain.state[0], chain.mean)
    averaged = chain.clock[DONE] - burn_in if chain.clock[DONE] > burn_in else 1
    for i in range(len(chain.mean)):
        if COVARIANCE:
            chain.cross[i] = (chain.cross[i] + chain.mean[i] * chain.value[PROJECTION_SUM]) / averaged
        chain.mean[i] += chain.sums[i] / averaged
    if COVARIANCE:
        chain.value[PROJECTION_SUM] /= averaged


load_one: Any
advance_one: Any
finish_one: Any


over: Any
CLOCKED = True


def live(chain, plan, heat, last, key, index, c, since, work):
    """Start a chain unless it has begun, bring it to its goal, end it if asked.

    ``since`` is when the kernel was called, and ``work`` counts the starts and steps that it has made. Returns the work with that
    of this chain, NOT_IN_SET or PAUSED. The clock is looked at whenever the work has doubled: seldom, whatever a step costs, and
    what comes until the next look takes as long as all before it.
    """
    if chain.clock[DONE] < 0:
        if not load_one(chain, plan, key, index, c):
            return NOT_IN_SET
        work += 1
    every, goal, sequence = plan.trace_every, chain.clock[GOAL], sequence_of(key, index, c % plan.chains)
    look = chain.clock[DONE] + (work if work > 0 else 1) if CLOCKED else goal
    while chain.clock[DONE] < goal:
        done = chain.clock[DONE]
        if CLOCKED and done == look:
            if over(since, plan.pause):
                return PAUSED
            look += work
        stop = goal if goal < look else look
        if every > 0 and (done // every + 1) * every < stop:
            stop = (done // every + 1) * every
        advance_one(chain, stop, plan.burn_in, plan.correction, heat, sequence)
        work += stop - done
        if every > 0 and stop % every == 0 and stop // every <= len(chain.trace):
            record(chain, stop // every - 1)
    if last:
        finish_one(chain, plan.burn_in)
    return work


# --- starts: kernels of their own, since most calls need none of them ------------------------------------------------------
random: Any
greedy: Any
improve: Any


def draw(start, plan, heat, last, key, index, c, since, work):
    """Draw the start, by the first draws of its chain."""
    known = ~start.clock[DONE]
    if known & DRAW:
        seed_stream(start.rng, key, index, c % plan.chains)
        random(start.data, start.rng, start.state[0])
        start.clock[DONE] = ~(known & ~DRAW | AFTER_DRAW)
    return work + 1


def build(start, plan, heat, last, key, index, c, since, work):
    """Build the start for θ."""
    known = ~start.clock[DONE]
    if known & BUILD:
        greedy(start.data, start.guide, start.state)
        start.clock[DONE] = ~(known & ~BUILD | AFTER_BUILD)
    return work + 1


def improve_start(start, plan, heat, last, key, index, c, since, work):
    """Improve the start for θ."""
    known = ~start.clock[DONE]
    if known & IMPROVE:
        if not known & TRUSTED and not contains(start.data, start.state[0]):
            return NOT_IN_SET
        prepare(start.data, start.guide, 1.0 / start.value[INVERSE_TEMPERATURE], start.state)
        improve(start.data, start.guide, start.state)
        start.clock[DONE] = ~(known & ~IMPROVE | AFTER_IMPROVE)
    return work + 1
