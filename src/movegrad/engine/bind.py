"""Puts a problem's functions into the templates of :mod:`movegrad.engine.loop` and ``outcomes``, and these into loops on the CPU.

It decides what stands for functions that a problem leaves out, and writes what depends on the number of moves and fields: source
text. It compiles nothing itself (:mod:`movegrad.engine.compile`) and knows nothing of batches, threads or results.
"""

from dataclasses import dataclass
from functools import cache
from math import log
from typing import Any, NamedTuple

import numpy as np

from movegrad.engine import loop, outcomes
from movegrad.engine.clock import now
from movegrad.engine.compile import generate, inline, inner, jit, kernel, specialize
from movegrad.engine.draws import integer, uniform, uniform_of, word_of
from movegrad.engine.loop import BUILD, DRAW, IMPROVE, NOT_IN_SET, Chain, Start
from movegrad.engine.outcomes import Pen
from movegrad.engine.reach import while_unchanged
from movegrad.engine.reference import cut, private, refer, referrer


@dataclass(frozen=True, eq=False)
class Kind:
    """What instances of one kind of problem share, and what a kernel is compiled for; see :func:`kind_of`."""

    moves: tuple[Any, ...]  # all of weight 1
    functions: Any
    weighted: bool  # moves have different weights
    data_class: type
    data_axes: tuple[int, ...]  # of the fields of data
    state_class: type
    state_fields: int


@cache
def kind_of(*fields: Any) -> Kind:
    """The one Kind of these fields: kinds are told apart by identity, which is asked in every call."""
    return Kind(*fields)


class Options(NamedTuple):
    """What a chain is compiled for."""

    recycle: bool = False
    covariance: bool = False
    best: bool = False
    first_step: bool = False  # the exact first step instead of a chain


# --- loops over chains and solutions: source text, since the views depend on the fields of data and state --------------------

_RUN = '''
def run(flat_data, table, all_chains, plan, heat, last, low, high):
    """Bring chains low…high−1 to their goals, or make their starts.

    Returns −1 when that is done, c if the start of chain c is not in the set, and −2 − c to be called again from chain c on.
    """
    flat, chains = refer(flat_data), refer(all_chains)
    n, since, work, before = plan.chains, now(), 0, -1
    for c in range(low, high):
        e = c // n
        instance, begin = chains.which[e], chains.theta_at[e]
        if instance != before:  # another instance may be much slower
            work, before = 0, instance
        entries, points = chains.theta_at[e + 1] - begin, chains.trace.shape[1]
        entry, at = begin * n + (c - e * n) * entries, chains.state_at[0, c]
        size = chains.state_at[0, c + 1] - at
        own_rng = chains.rng[c]
        rng = {rng}
        chain = refer_chain(Chain, {chain})
        work = live(chain, plan, heat, last, chains.keys[e], chains.indices[e], c, since, work)
        own_rng[0], own_rng[1] = rng[0], rng[1]
        if work < 0:
            return c if work == NOT_IN_SET else -2 - c
        if is_look(c - low + 1) and c + 1 < high and over(since, plan.pause):
            return -3 - c
    return -1
'''

# The part of Chains that belongs to chain c, field by field.
_CHAIN = {
    "theta": "cut(chains.theta, begin, (entries,))",
    "guide": "cut(chains.guide, begin, (entries,))",
    "direction": "cut(chains.direction, begin, (entries,))",
    "rng": "rng",
    "clock": "chains.clock[c]",
    "value": "chains.value[c]",
    "sums": "cut(chains.sums, entry, (entries,))",
    "cross": "cut(chains.cross, entry, (entries,))",
    "mean": "cut(chains.mean, entry, (entries,))",
    "counts": "chains.counts[c]",
    "moved": "cut(chains.moved, entry, (entries if len(chains.moved) > 0 else 0,))",
    "origin": "cut(chains.origin, at, (size,))",
    "best": "cut(chains.best, at, (size,))",
    "trace": "chains.trace[c]",
    "iterates": "cut(chains.iterates, at * points, (size * points if len(chains.iterates) > 0 else 0,))",
    "weights": "chains.weights",
}

_OBSERVE = '''
def observe(flat_data, table, instance, solutions, out, first, pause):
    """Write T(y) of each solution from the first one on; returns as ``run``."""
    flat = refer(flat_data)
    data, since = refer_data(Data, {data}), now()
    for n in range(first, len(solutions)):
        if not contains(data, solutions[n]):
            return n
        statistic(data, solutions[n], out[n])
        if is_look(n - first + 1) and n + 1 < len(solutions) and over(since, pause):
            return -3 - n
    return -1
'''


_PHI = '''
def values(flat_data, table, solutions, out):
    """Write φ(y) of each solution of the first instance."""
    flat, instance = refer(flat_data), 0
    data = refer_data(Data, {data})
    for n in range(len(solutions)):
        out[n] = phi(data, solutions[n])
'''


_LIST = '''
def listed(flat_data, table, states, kept, solutions, guide, rng, weights, all_lists, last, first, pause):
    """List the outcomes of one step from each solution from the first one on, and write in ``last`` where they end.

    Returns as ``run``; where those of a solution were not written, ``used`` says why.
    """
    flat, instance, lists = refer(flat_data), 0, refer(all_lists)
    data, since = refer_data(Data, {data}), now()
    state, spare = refer_state(State, {state}), refer_state(State, {kept})
    pen = refer_pen(Pen, data, state, spare, rng, weights, lists)
    used = lists.used
    for n in range(first, len(solutions)):
        if not contains(data, solutions[n]):
            return n
        for i in range(len(state[0])):
            state[0][i] = solutions[n, i]
        prepare(data, guide, 1.0, state)
        keep(pen)
        mask, outcomes, entries = applicable(data, state), used[OUTCOMES], used[ENTRIES]
        if not all_outcomes(pen, mask, total_weight(mask, weights)):
            used[OUTCOMES], used[ENTRIES] = outcomes, entries
            used[WHY] = used[WHY] if used[WHY] > 0 else TOO_MANY
            return -2 - n
        last[n] = used[OUTCOMES]
        if is_look(n - first + 1) and n + 1 < len(solutions) and over(since, pause):
            return -3 - n
    return -1
'''


def chain_text(fields: dict[str, str], chain_class: Any) -> str:
    """The arguments of ``Chain`` or ``Start``, out of the source text of each field."""
    return ", ".join(fields[name] for name in chain_class._fields)


def _data_text(axes: tuple[int, ...]) -> str:
    """Source text that cuts the fields of ``instance`` out of ``flat``, for arrays of these numbers of axes."""
    fields, column = [], 0
    for f, rank in enumerate(axes):
        at, shape = f"table[instance, {column}]", "".join(f"table[instance, {column + 1 + a}], " for a in range(rank))
        fields.append(f"cut(flat[{f}], {at}, ({shape}))" if rank else f"flat[{f}][{at}]")
        column += 1 + rank
    return ", ".join(fields)


def _state_text(fields: int) -> str:
    """Source text that cuts the state of chain ``c`` out of ``chains.states``."""
    at = "chains.state_at[{f}, c]"
    cuts = (f"cut(chains.states[{f}], {at}, (chains.state_at[{f}, c + 1] - {at},))" for f in range(fields))
    return ", ".join(text.replace("{f}", str(f)) for f, text in enumerate(cuts))


def _list_text(kind: Kind) -> str:
    state, kept = (", ".join(f"{name}[{f}]" for f in range(kind.state_fields)) for name in ("states", "kept"))
    return _LIST.format(data=_data_text(kind.data_axes), state=state, kept=kept)


def _run_text(kind: Kind, chain_class: Any, first_step: bool = False) -> str:
    records = {
        "data": f"refer_data(Data, {_data_text(kind.data_axes)})",
        "state": f"refer_state(State, {_state_text(kind.state_fields)})",
    }
    return _RUN.format(chain=chain_text(_CHAIN | records, chain_class), rng="own_rng" if first_step else "private(own_rng)")


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
def nothing_to_follow(data, theta, state, move):
    pass


@inline
def attach_nothing(data, theta, state):
    pass


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
        return inline(lambda rng, mask, weights, sequence, k: 0)
    return generate(_PICK.format(moves=moves, rest=(1 << 32) % moves), "pick", integer=integer, word_of=word_of, np=np)


_PICK = '''
def pick(rng, mask, weights, sequence, k):
    """A move by the upper half of the step's word; for {rest} of 2³² words, which would make some moves likelier, by a draw."""
    product = (word_of(sequence, k) >> np.uint64(32)) * np.uint64({moves})
    if {rest} > 0 and (product & np.uint64(0xFFFFFFFF)) < np.uint64({rest}):
        return integer(rng, {moves})
    return np.int64(product >> np.uint64(32))
'''


@inner
def pick_weighted(rng, mask, weights, sequence, k):
    """A move of the mask, with probability proportional to its weight: that of the step, or a draw if it does not apply."""
    s = weighted(uniform_of(word_of(sequence, k)), -1, weights)
    return s if mask >> s & 1 else weighted(uniform(rng), mask, weights)


@inner
def weighted(share, mask, weights):
    """The move of the mask at which a share of its weight is reached."""
    u, last = share * total_weight(mask, weights), 0
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


def _all_outcomes(kind: Kind, take: Any, restore: Any):
    """Generate ``all_outcomes(chain, mask, total)``: those of all moves of the mask, each with its share."""
    lines, names = ["def all_outcomes(chain, mask, total):"], {}
    for s, move in enumerate(kind.moves):
        lines.append(f"    if mask >> {s} & 1 and not outcomes_{s}(chain, mask, chain.weights[{s}] / total):\n        return False")
        bound = move_bindings(move)
        given = {"log_weight": _log_weight(kind), "take": specialize(take, **bound), "restore": restore}
        names[f"outcomes_{s}"] = specialize(outcomes.outcomes, **given, **bound)
    return generate("\n".join([*lines, "    return True", ""]), "all_outcomes", **names)


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
        "follow": move.follow or nothing_to_follow,
    }


# --- kernels -------------------------------------------------------------------------------------------------------------


@while_unchanged
def chain_kernel(kind: Kind, options: Options) -> Any:
    """The compiled ``run`` that brings chains to their goals; all instances of a kind share it."""
    return _kernel(kind, _run_text(kind, Chain, options.first_step), "run", chain_names(kind, options))


@while_unchanged
def start_kernel(kind: Kind, task: int) -> Any:
    """The compiled ``run`` that makes starts: DRAW, BUILD or IMPROVE."""
    return _kernel(kind, _run_text(kind, Start), "run", start_names(kind, task))


@while_unchanged
def observe_kernel(kind: Kind) -> Any:
    """The compiled ``observe``."""
    names = {"Data": kind.data_class, "contains": contains_of(kind), "statistic": statistic_of(kind)}
    return _kernel(kind, _OBSERVE.format(data=_data_text(kind.data_axes)), "observe", names)


@while_unchanged
def phi_kernel(kind: Kind) -> Any:
    """The compiled φ."""
    names = {"Data": kind.data_class, "phi": kind.functions.phi}
    return _kernel(kind, _PHI.format(data=_data_text(kind.data_axes)), "values", names)


@while_unchanged
def list_kernel(kind: Kind) -> Any:
    """The compiled ``listed``: outcomes of one step from solutions of the first instance."""
    functions, fields = kind.functions, kind.state_fields
    names = {
        "Data": kind.data_class,
        "State": kind.state_class,
        "Pen": Pen,
        "refer_pen": referrer(len(Pen._fields)),
        "contains": contains_of(kind),
        "prepare": functions.prepare or prepare_nothing,
        "applicable": functions.applicable or all_moves,
        "total_weight": total_weight,
        "keep": _copier(fields, "kept", "state"),
        "all_outcomes": _all_outcomes(kind, outcomes.note, _copier(fields, "state", "kept")),
        **{name: vars(outcomes)[name] for name in ("OUTCOMES", "ENTRIES", "WHY", "TOO_MANY")},
    }
    return _kernel(kind, _list_text(kind), "listed", names)


@while_unchanged
def weigh_kernel() -> Any:
    """The compiled ``weigh_rows``."""
    return kernel(jit(outcomes.weigh_rows))


def _copier(fields: int, to: str, of: str) -> Any:
    """Generate ``copied(pen)``: one of two states becomes the other, field by field."""
    lines = ["def copied(pen):"]
    for f in range(fields):
        lines.append(f"    for i in range(len(pen.{of}[{f}])):\n        pen.{to}[{f}][i] = pen.{of}[{f}][i]")
    return generate("\n".join([*lines, ""]), "copied")


def _kernel(kind: Kind, text: str, name: str, names: dict[str, Any]) -> Any:
    chain_fields = len(names["Chain"]._fields) if "Chain" in names else 0
    referrers = {"refer_data": len(kind.data_axes), "refer_state": kind.state_fields, "refer_chain": chain_fields}
    tools = {"cut": cut, "private": private, "refer": refer} | {name: referrer(count) for name, count in referrers.items()}
    return kernel(generate(text, name, **names, **tools, **_CLOCK))


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
    clock: dict[str, Any] = {"CLOCKED": over is not None, "over": over or never}
    load, advance, finish = _load(kind, options), _advance(kind, options, coin_accepts), _finish(kind, options)
    return _names(kind, specialize(loop.live, load_one=load, advance_one=advance, finish_one=finish, **clock))


def start_names(kind: Kind, task: int) -> dict[str, Any]:
    """The same for a kernel that makes starts."""
    functions = kind.functions
    if task == DRAW:
        return _names(kind, specialize(loop.draw, random=functions.random), Start)
    if task == BUILD:
        return _names(kind, specialize(loop.build, greedy=functions.greedy), Start)
    assert task == IMPROVE
    prepare = functions.prepare or prepare_nothing
    names: dict[str, Any] = {"improve": functions.improve, "contains": contains_of(kind), "prepare": prepare}
    return _names(kind, specialize(loop.improve_start, **names), Start)


def _names(kind: Kind, live: Any, chain_class: Any = Chain) -> dict[str, Any]:
    return {"Chain": chain_class, "Data": kind.data_class, "State": kind.state_class, "live": live}


def _log_weight(kind: Kind) -> Any:
    return no_weight if kind.functions.applicable is None else log_total_weight


def _advance(kind: Kind, options: Options, coin_accepts: Any) -> Any:
    moves, log_weight = kind.moves, _log_weight(kind)
    flags = {"RECYCLE": options.recycle, "COVARIANCE": options.covariance, "BEST": options.best}
    even = options == Options() and coin_accepts is loop.coin_accepts  # a plain chain on the CPU
    steps = []
    for s, move in enumerate(moves):
        flags["EVEN"] = even and move.apply_if is not None and move.feasible is None and move.score is None
        flags["SCORED"] = move.score is not None
        bound = (
            move_bindings(move)
            | {"apply_if": move.apply_if, "score": move.score, "coin_accepts": coin_accepts, "log_weight": log_weight}
            | flags
        )
        steps.append(specialize(loop.step, decorate=inner, MOVE=s, **bound))
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
        attach=kind.functions.attach or attach_nothing,
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
    functions = kind.functions
    again = specialize(outcomes.prepare_again, prepare=functions.prepare or prepare_nothing)
    return specialize(
        outcomes.first_step,
        load_one=_load(kind, Options(first_step=True)),
        all_outcomes=_all_outcomes(kind, outcomes.weigh, again),
        applicable=functions.applicable or all_moves,
        total_weight=total_weight,
    )
