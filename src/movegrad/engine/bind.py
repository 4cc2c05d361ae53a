"""Puts a problem's functions into the templates of :mod:`movegrad.engine.loop`, and that into loops over many chains on the CPU.

It decides what stands for functions that a problem leaves out, and writes what depends on the number of moves and fields: source
text. It compiles nothing itself (:mod:`movegrad.engine.compile`) and knows nothing of batches, threads or results.
"""

from functools import cache
from math import log
from typing import Any, NamedTuple

from movegrad.engine import loop
from movegrad.engine.clock import now
from movegrad.engine.compile import generate, inline, inner, kernel, specialize
from movegrad.engine.draws import integer, uniform
from movegrad.engine.loop import BUILD, DRAW, IMPROVE, NOT_IN_SET, Chain
from movegrad.engine.reach import while_unchanged
from movegrad.engine.reference import refer


class Kind(NamedTuple):
    """What instances of one kind of problem share, and what a kernel is compiled for."""

    moves: tuple[Any, ...]  # all of weight 1
    functions: Any
    weighted: bool  # moves have different weights
    data_class: type
    data_axes: tuple[int, ...]  # of the fields of data
    state_class: type
    state_fields: int


class Options(NamedTuple):
    """What a chain is compiled for."""

    recycle: bool = False
    covariance: bool = False
    best: bool = False
    first_step: bool = False  # the exact first step instead of a chain


# --- loops over chains and solutions: source text, since the views depend on the fields of data and state --------------------

_RUN = '''
def run(flat, table, chains, plan, heat, last, low, high):
    """Bring chains low…high−1 to their goals, or make their starts.

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
        chain = refer(Chain({chain}))
        work = live(chain, plan, heat, last, chains.indices[e], c, since, work)
        if work < 0:
            return c if work == NOT_IN_SET else -2 - c
        if is_look(c - low + 1) and c + 1 < high and over(since, plan.pause):
            return -3 - c
    return -1
'''

# The part of Chains that belongs to chain c, field by field.
_CHAIN = {
    "theta": "chains.theta[begin:end]",
    "guide": "chains.guide[begin:end]",
    "direction": "chains.direction[begin:end]",
    "rng": "chains.rng[c]",
    "clock": "chains.clock[c]",
    "value": "chains.value[c]",
    "sums": "chains.sums[entry:stop]",
    "cross": "chains.cross[entry:stop]",
    "mean": "chains.mean[entry:stop]",
    "counts": "chains.counts[c]",
    "moved": "chains.moved[entry:stop]",
    "origin": "chains.origin[at:after]",
    "best": "chains.best[at:after]",
    "trace": "chains.trace[c]",
    "iterates": "chains.iterates[at * points : after * points]",
    "weights": "chains.weights",
}

_OBSERVE = '''
def observe(flat, table, instance, solutions, out, first, pause):
    """Write T(y) of each solution from the first one on; returns as ``run``."""
    data, since = refer(Data({data})), now()
    for n in range(first, len(solutions)):
        if not contains(data, solutions[n]):
            return n
        statistic(data, solutions[n], out[n])
        if is_look(n - first + 1) and n + 1 < len(solutions) and over(since, pause):
            return -3 - n
    return -1
'''


def chain_text(fields: dict[str, str]) -> str:
    """The arguments of ``Chain``, out of the source text of each field."""
    return ", ".join(fields[name] for name in Chain._fields)


def _data_text(axes: tuple[int, ...]) -> str:
    """Source text that cuts the fields of ``instance`` out of ``flat``, for arrays of these numbers of axes."""
    fields, column = [], 0
    for f, rank in enumerate(axes):
        at, shape = f"table[instance, {column}]", [f"table[instance, {column + 1 + a}]" for a in range(rank)]
        if rank == 0:
            fields.append(f"flat[{f}][{at}]")
        else:
            cut = f"flat[{f}][{at} : {at} + {' * '.join(shape)}]"
            fields.append(cut if rank == 1 else f"{cut}.reshape(({', '.join(shape)}))")
        column += 1 + rank
    return ", ".join(fields)


def _state_text(fields: int) -> str:
    """Source text that cuts the state of chain ``c`` out of ``chains.states``."""
    return ", ".join(f"chains.states[{f}][chains.state_at[{f}, c] : chains.state_at[{f}, c + 1]]" for f in range(fields))


def _run_text(kind: Kind) -> str:
    records = {"data": f"refer(Data({_data_text(kind.data_axes)}))", "state": f"refer(State({_state_text(kind.state_fields)}))"}
    return _RUN.format(chain=chain_text(_CHAIN | records))


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


_CLOCK = {"refer": refer, "now": now, "over": over, "is_look": is_look, "NOT_IN_SET": NOT_IN_SET}


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


# --- binding -----------------------------------------------------------------------------------------------------------


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


def move_bindings(move: Any) -> dict[str, Any]:
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


# --- kernels -------------------------------------------------------------------------------------------------------------


@while_unchanged
def chain_kernel(kind: Kind, options: Options) -> Any:
    """The compiled ``run`` that brings chains to their goals; all instances of a kind share it."""
    return kernel(generate(_run_text(kind), "run", **chain_names(kind, options), **_CLOCK))


@while_unchanged
def start_kernel(kind: Kind, task: int) -> Any:
    """The compiled ``run`` that makes starts: DRAW, BUILD or IMPROVE."""
    return kernel(generate(_run_text(kind), "run", **start_names(kind, task), **_CLOCK))


@while_unchanged
def observe_kernel(kind: Kind) -> Any:
    """The compiled ``observe``."""
    names = {"Data": kind.data_class, "contains": contains_of(kind), "statistic": statistic_of(kind)}
    return kernel(generate(_OBSERVE.format(data=_data_text(kind.data_axes)), "observe", **names, **_CLOCK))


def contains_of(kind: Kind) -> Any:
    return kind.functions.contains or anything


def statistic_of(kind: Kind) -> Any:
    return kind.functions.statistic or identity


def chain_names(kind: Kind, options: Options, coin_accepts: Any = loop.coin_accepts, over: Any = over) -> dict[str, Any]:
    """What stands for the open names of a source of ``run``: ``live`` with all functions of the problem in it, and the classes.

    ``coin_accepts`` may be another way to decide u < exp(x); without ``over``, chains never pause.
    """
    if options.first_step:
        return _names(kind, _first_step(kind))
    clock = {"CLOCKED": over is not None, "over": over or never}
    load, advance, finish = _load(kind, options), _advance(kind, options, coin_accepts), _finish(kind, options)
    return _names(kind, specialize(loop.live, load_one=load, advance_one=advance, finish_one=finish, **clock))


def start_names(kind: Kind, task: int) -> dict[str, Any]:
    """The same for a kernel that makes starts."""
    functions = kind.functions
    if task == DRAW:
        return _names(kind, specialize(loop.draw, random=functions.random))
    if task == BUILD:
        return _names(kind, specialize(loop.build, greedy=functions.greedy))
    assert task == IMPROVE
    prepare = functions.prepare or prepare_nothing
    return _names(kind, specialize(loop.improve_start, improve=functions.improve, contains=contains_of(kind), prepare=prepare))


def _names(kind: Kind, live: Any) -> dict[str, Any]:
    return {"Chain": Chain, "Data": kind.data_class, "State": kind.state_class, "live": live}


def _log_weight(kind: Kind) -> Any:
    return no_weight if kind.functions.applicable is None else log_total_weight


def _advance(kind: Kind, options: Options, coin_accepts: Any) -> Any:
    moves, log_weight = kind.moves, _log_weight(kind)
    flags = {"RECYCLE": options.recycle, "COVARIANCE": options.covariance, "BEST": options.best, "coin_accepts": coin_accepts}
    steps = [specialize(loop.step, MOVE=s, log_weight=log_weight, **move_bindings(m), **flags) for s, m in enumerate(moves)]
    return specialize(
        loop.advance,
        step_any=_step_any(steps),
        pick=pick_weighted if kind.weighted or kind.functions.applicable is not None else _pick_uniformly(len(moves)),
        applicable=kind.functions.applicable or all_moves,
        log_weight=log_weight,
        COVARIANCE=options.covariance,
    )


def _load(kind: Kind, options: Options) -> Any:
    return specialize(
        loop.load,
        contains=contains_of(kind),
        prepare=kind.functions.prepare or prepare_nothing,
        statistic=statistic_of(kind),
        phi=kind.functions.phi or zero,
        BEST=options.best,
        COVARIANCE=options.covariance,
    )


def _finish(kind: Kind, options: Options) -> Any:
    return specialize(
        loop.finish,
        statistic=statistic_of(kind),
        evaluate=specialize(loop.value_of, statistic=statistic_of(kind), phi=kind.functions.phi or zero),
        COVARIANCE=options.covariance,
        BEST=options.best,
    )


def _first_step(kind: Kind) -> Any:
    functions, log_weight = kind.functions, _log_weight(kind)
    prepare = functions.prepare or prepare_nothing
    weighers = [specialize(loop.weigh, log_weight=log_weight, prepare=prepare, **move_bindings(m)) for m in kind.moves]
    return specialize(
        loop.first_step,
        load_one=_load(kind, Options(first_step=True)),
        weigh_all=_weigh_all(weighers),
        applicable=functions.applicable or all_moves,
        total_weight=total_weight,
    )
