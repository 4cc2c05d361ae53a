"""Puts a problem's functions into the templates of :mod:`movegrad._kernel`."""

from functools import cache
from math import log
from typing import Any, NamedTuple

from movegrad import _kernel
from movegrad._clock import now
from movegrad._kernel import NOT_IN_SET, Chain
from movegrad._layout import data_fields, state_fields
from movegrad._rng import integer, uniform
from movegrad._specialise import generate, inline, inner, kernel, specialize, while_unchanged
from movegrad.problem import Kind, Move, Problem

# --- kernels over many chains or solutions: source text, since the views depend on the fields of data and state ---------

_RUN = '''
def run(flat, table, chains, plan, heat, last, low, high):
    """Bring chains low…high−1 to their goals.

    Returns −1 when that is done, c if the start of chain c is not in the set, and −2 − c to be called again from chain c on.
    """
    n, since, work, before = plan.chains, now(), 0, -1
    for c in range(low, high):
        e = c // n
        instance, begin, end = chains.which[e], chains.theta_at[e], chains.theta_at[e + 1]
        if instance != before:  # another instance may be much slower
            work, before = 0, instance
        entry, stop = begin * n + (c - e * n) * (end - begin), begin * n + (c - e * n + 1) * (end - begin)
        at, after, points = chains.state_at[0, c], chains.state_at[0, c + 1], chains.trace.shape[1]
        chain = Chain(
            Data({data}),
            State({state}),
            chains.theta[begin:end],
            chains.guide[begin:end],
            chains.direction[begin:end],
            chains.rng[c],
            chains.clock[c],
            chains.value[c],
            chains.sums[entry:stop],
            chains.cross[entry:stop],
            chains.mean[entry:stop],
            chains.counts[c],
            chains.moved[entry:stop],
            chains.origin[at:after],
            chains.best[at:after],
            chains.trace[c],
            chains.kept[at * points : after * points],
            chains.weights,
        )
        work = live(chain, plan, heat, last, chains.example[e], c, since, work)
        if work < 0:
            return c if work == NOT_IN_SET else -2 - c
        if is_look(c - low + 1) and c + 1 < high and over(since, plan.pause):
            return -3 - c
    return -1
'''

_OBSERVE = '''
def observe(flat, table, instance, solutions, out, first, pause):
    """Write T(y) of each solution from the first one on; returns as ``run``."""
    data, since = Data({data}), now()
    for n in range(first, len(solutions)):
        if not contains(data, solutions[n]):
            return n
        statistic(data, solutions[n], out[n])
        if is_look(n - first + 1) and n + 1 < len(solutions) and over(since, pause):
            return -3 - n
    return -1
'''


# --- the clock -----------------------------------------------------------------------------------------------------------


@inner
def over(since, pause):
    """Has the time of a block passed? It is asked when a number of things is done, and again when twice as many are."""
    return now() - since >= pause  # type: ignore[call-arg]


@inline
def never(since, pause):
    return False


@inner
def is_look(n):
    """Is n a power of two?"""
    return n & (n - 1) == 0


_CLOCK = {"now": now, "over": over, "is_look": is_look, "NOT_IN_SET": NOT_IN_SET}


# --- what stands for functions that a problem leaves out ----------------------------------------------------------------


@inline
def always(data, state, move):
    return True


@inline
def nothing(data, state, move):
    return 0.0


@inline
def all_moves(data, state):
    return -1


@inline
def all_moves_after(data, state, move):
    return -1


@inline
def no_weight(mask, weights):
    return 0.0


@inline
def identity(data, solution, out):
    for i in range(len(solution)):
        out[i] = solution[i]


@inline
def zero(data, solution):
    return 0.0


@inline
def anything(data, solution):
    return True


@inline
def prepare_nothing(data, guide, temperature, state):
    pass


@inline
def random_nothing(data, rng, solution):
    pass


@inline
def greedy_nothing(data, guide, state):
    pass


@inline
def improve_nothing(data, guide, state):
    pass


# --- binding -----------------------------------------------------------------------------------------------------------


class Options(NamedTuple):
    """What a kernel is compiled for."""

    recycle: bool = False
    covariance: bool = False
    best: bool = False
    first_step: bool = False  # the exact first step instead of a chain


@cache
def constant(n: int):
    """The function that says how many entries of T a move changes, where that is always n."""
    return inline(lambda data, state, move: n)


def _pick_uniformly(moves: int):
    """``pick`` for moves of equal weight that always apply."""
    if moves == 1:
        return inline(lambda rng, mask, weights: 0)
    return generate(f"def pick(rng, mask, weights):\n    return integer(rng, {moves})\n", "pick", integer=integer)


@inner
def pick_weighted(rng, mask, weights):
    """A move of the mask, with probability proportional to its weight."""
    u, last = uniform(rng) * total_weight(mask, weights), 0
    for s in range(len(weights)):
        if mask >> s & 1:
            last = s
            if u < weights[s]:
                return s
            u -= weights[s]
    return last


@inner
def total_weight(mask, weights):
    """The weight of the moves of the mask: |Q(y)|, if weights are 1."""
    total = 0.0
    for s in range(len(weights)):
        if mask >> s & 1:
            total += weights[s]
    return total


@inner
def log_total_weight(mask, weights):
    return log(total_weight(mask, weights))


def _step_any(steps: list):
    """Generate ``step_any(s, …)``: a flat chain of comparisons, which costs the same for one move and for eight."""
    arguments = "chain, inv_t, correction, log_here, averaged, objective"
    lines = [f"def step_any(s, {arguments}):"]
    lines += [f"    if s == {s}:\n        return step_{s}({arguments})" for s in range(len(steps) - 1)]
    lines += [f"    return step_{len(steps) - 1}({arguments})", ""]
    return generate("\n".join(lines), "step_any", **{f"step_{s}": f for s, f in enumerate(steps)})


def _weigh_all(weighers: list):
    """Generate ``weigh_all(chain, mask, total)``: all moves of the mask, each with its share."""
    lines = ["def weigh_all(chain, mask, total):"]
    for s in range(len(weighers)):
        lines.append(f"    if mask >> {s} & 1 and not weigh_{s}(chain, mask, chain.weights[{s}] / total):\n        return False")
    names = {f"weigh_{s}": f for s, f in enumerate(weighers)}
    return generate("\n".join([*lines, "    return True", ""]), "weigh_all", **names)


def move_bindings(move: Move) -> dict[str, Any]:
    """The functions of a move, absent ones filled in."""
    return {
        "propose": move.propose,
        "change": move.change,
        "apply": move.apply,
        "changes": constant(move.changes) if isinstance(move.changes, int) else move.changes,
        "gain": move.gain or nothing,
        "feasible": move.feasible or always,
        "applicable_after": move.applicable_after or all_moves_after,
    }


def build(problem: Problem, options: Options):
    """The compiled ``run`` for a kind of problem; all instances of that kind share it."""
    return _build(problem.kind, options)


@while_unchanged
def _build(kind: Kind, options: Options):
    source = _RUN.format(data=data_fields(kind.data_axes), state=state_fields(kind.state_fields))
    return kernel(generate(source, "run", **bindings(kind, options), **_CLOCK))


def bindings(kind: Kind, options: Options, coin_accepts: Any = _kernel.coin_accepts, over: Any = over) -> dict[str, Any]:
    """What stands for the open names of a source of ``run``: ``live`` with all functions of the problem in it, and the classes.

    ``coin_accepts`` may be another way to decide u < exp(x); without ``over``, chains never pause.
    """
    moves, functions, weighted = kind.moves, kind.functions, kind.weighted
    masked = functions.applicable is not None
    flags = {"RECYCLE": options.recycle, "COVARIANCE": options.covariance, "BEST": options.best, "coin_accepts": coin_accepts}
    log_weight = log_total_weight if masked else no_weight
    steps = [specialize(_kernel.step, MOVE=s, log_weight=log_weight, **move_bindings(m), **flags) for s, m in enumerate(moves)]
    advance_one = specialize(
        _kernel.advance,
        step_any=_step_any(steps),
        pick=pick_weighted if weighted or masked else _pick_uniformly(len(moves)),
        applicable=functions.applicable or all_moves,
        log_weight=log_weight,
        COVARIANCE=options.covariance,
        BEST=options.best,
    )
    load_one = specialize(
        _kernel.load,
        random=functions.random or random_nothing,
        greedy=functions.greedy or greedy_nothing,
        improve=functions.improve or improve_nothing,
        contains=functions.contains or anything,
        prepare=functions.prepare or prepare_nothing,
        statistic=functions.statistic or identity,
        phi=functions.phi or zero,
        BEST=options.best,
        COVARIANCE=options.covariance,
    )
    finish_one = specialize(
        _kernel.finish,
        statistic=functions.statistic or identity,
        evaluate=specialize(_kernel.value_of, statistic=functions.statistic or identity, phi=functions.phi or zero),
        COVARIANCE=options.covariance,
        BEST=options.best,
    )
    if options.first_step:
        prepare_one = functions.prepare or prepare_nothing
        weighers = [specialize(_kernel.weigh, log_weight=log_weight, prepare=prepare_one, **move_bindings(m)) for m in moves]
        body = specialize(
            _kernel.first_step,
            load_one=load_one,
            weigh_all=_weigh_all(weighers),
            applicable=functions.applicable or all_moves,
            total_weight=total_weight,
        )
    else:
        clock = {"CLOCKED": over is not None, "over": over or never}
        body = specialize(_kernel.live, load_one=load_one, advance_one=advance_one, finish_one=finish_one, **clock)
    return {"Chain": Chain, "Data": kind.data_class, "State": kind.state_class, "live": body}


def observer(problem: Problem):
    """The compiled ``observe`` for a kind of problem."""
    kind = problem.kind
    return _observer(kind.functions.contains, kind.functions.statistic, kind.data_class, kind.data_axes)


@while_unchanged
def _observer(contains: Any, statistic: Any, data_class: type, axes: tuple[int, ...]):
    names = {"Data": data_class, "contains": contains or anything, "statistic": statistic or identity}
    return kernel(generate(_OBSERVE.format(data=data_fields(axes)), "observe", **names, **_CLOCK))
