"""The CUDA kernels as source text: where a thread finds its chain, and the views of it that ``live`` works on.

* What a chain reads and writes at every step (generator, clock, values, counts) lies in registers, and is loaded and stored once
  for each launch.
* What depends on the size of the problem (state, sums, …) lies in tiles of 32 chains: entry i of the 32 chains of a warp is one
  stretch of memory, so that loops over entries read and write whole lines. Chains of one tile may have different sizes.
* Threads of a warp do what the others do, or wait for them: chains that try the same moves lie side by side (``order``).
* Tables of data are stored by columns: threads that are at different rows but at the same column read neighbors.

Kernels take addresses instead of arrays: a launch is prepared in microseconds, and views have strides that the compiler knows.
What each of these gives is measured by benchmarks/gpu.py.
"""

from typing import NamedTuple

from movegrad.cuda.lowering import TILE
from movegrad.engine import ODOMETER_SIZE
from movegrad.engine.bind import chain_text
from movegrad.engine.loop import COUNTS, DONE, GOAL, INVERSE_TEMPERATURE, LOADED, SEEDED, VALUES, Chain, Plan

BY_COLUMNS = True  # tables of data
# What threads found wrong: the first example whose θ, guide or direction is not finite, and the first chain whose start is not
# in the set; NOTHING_WRONG if there is none.
BAD_THETA, BAD_GUIDE, BAD_DIRECTION, BAD_START = range(4)
WRONGS = 4
NOTHING_WRONG = 2**62


class Work(NamedTuple):
    """Addresses of the arrays of a run with E examples of C chains; "entry" is one of T, "field" one of the state. 0: none.

    It lies in device memory itself, behind the addresses of the fields of data and state: so a launch has few arguments.
    """

    table: int  # (instances, columns) offsets and shapes of the fields of data
    which: int  # (E,) instance of each example
    theta_at: int  # (E+1,) offsets of the examples in arrays per entry
    solution_at: int  # (E+1,) and in arrays of one solution for each example
    sizes: int  # (fields, E)
    tile_at: int  # (1 + fields, tiles) offsets of tiles: of entries, then of each field
    order: int  # (E*C,) chains in the order of threads: those that try the same moves side by side; 0: as they are
    keys: int  # (E,) of the examples, by seed and call
    indices: int  # (E,) of the examples: part of the key of their generators
    goals: int  # (E,) steps to make
    inverse: int  # (E,) inverse temperatures
    weights: int  # (moves,)
    theta: int  # per entry
    guide: int
    direction: int
    start: int  # solutions
    sums: int  # in tiles, as the states, and like these for one range of chains only
    cross: int
    mean: int
    moved: int
    best: int
    rng: int  # (2, E*C)
    value: int  # (VALUES, E*C)
    counts: int  # (COUNTS*moves, E*C)
    trace: int  # (E*C, points, 2)
    out_iterates: int  # chain after chain, like the following results
    out_mean: int
    out_cross: int
    out_moved: int
    out_state: int
    out_best: int
    wrong: int  # (WRONGS,)
    examples: int  # E
    tiles: int
    rows: int  # starts for each example: 0 (one for all), 1, or C
    points: int  # of the trace
    chains: int  # like the following, as in Plan
    burn_in: int
    correction: int
    trace_every: int


class Span(NamedTuple):
    """What one launch does: the chains of threads low…high−1 from step ``first`` to ``stop``, to the end of their run if ``last``.

    ``pending`` is as in Begin: what is known of the starts of chains that have made no step.
    """

    low: int
    high: int
    first: int
    stop: int
    last: int
    pending: int  # address of (E,)
    heat: int  # address of inverse temperatures, see Heat
    heat_count: int
    heat_first: int
    heat_shift: int


_RUN = '''
def run(words, span):
    """Make the steps of a span, one chain for each thread."""
    thread = cuda.grid(1)
    if span.low + thread >= span.high:
        return
    word = row(words, 0, {words}, int64)
    data_at, states, work = row(words, 0, {data_count}, int64), row(words, {data_count}, {fields}, int64), Work({work})
    plan, c = Plan({plan}), span.low + thread
    if work.order != 0:
        c = row(work.order, span.low, span.high - span.low, int64)[thread]
    n, all_chains = work.chains, work.examples * work.chains
    wrong = row(work.wrong, 0, {wrongs}, int64)
    if span.first > 0 and min(min(wrong[0], wrong[1]), min(wrong[2], wrong[3])) < NOTHING_WRONG:
        return
    e = c // n
    k, instance = c - e * n, row(work.which, 0, work.examples, int64)[e]
    theta_at, solution_at = row(work.theta_at, e, 2, int64), row(work.solution_at, e, 2, int64)
    begin, entries, size = theta_at[0], theta_at[1] - theta_at[0], solution_at[1] - solution_at[0]
    tile, lane, e_all = thread // {tile}, thread % {tile}, work.examples
    tile_at, sizes = row(work.tile_at, 0, {parts} * work.tiles, int64), row(work.sizes, 0, {fields} * e_all, int64)
    points, goal, pending = work.points, row(work.goals, 0, e_all, int64)[e], row(span.pending, 0, e_all, int64)[e]
    per_entry, per_solution = begin * n + k * entries, solution_at[0] * n + k * size
    origin = solution_at[0] * work.rows
    # What changes at every step, in registers.
    clock, value = cuda.local.array(2, int64), cuda.local.array({values}, float64)
    counts, rng = cuda.local.array(({moves}, {counts}), int32), cuda.local.array({rng_size}, {rng_type})
    values_of = row(work.value, c, {values} * all_chains, float64)
    counts_of = row(work.counts, c, {counts} * {moves} * all_chains, int64)
    for m in range({moves}):
        for j in range({counts}):
            counts[m, j] = 0
    for v in range({values}):
        value[v] = 0.0 if span.first == 0 else values_of[v * all_chains]
    value[{INVERSE_TEMPERATURE}] = row(work.inverse, 0, e_all, float64)[e]
    clock[{DONE}], clock[{GOAL}] = min(span.first, goal), min(span.stop, goal)
    entry, in_tile = tile_at[tile] + lane, tile_at[work.tiles + tile] + lane
    chain = Chain({chain})
    if span.first == 0:
        clock[{DONE}] = ~pending
        if not finite(chain.theta):
            cuda.atomic.min(wrong, {BAD_THETA}, e)
            return
        if work.guide != work.theta and not finite(chain.guide):
            cuda.atomic.min(wrong, {BAD_GUIDE}, e)
            return
        if work.direction != 0 and not finite(chain.direction):
            cuda.atomic.min(wrong, {BAD_DIRECTION}, e)
            return
        if not pending & {LOADED}:
            begins = row(work.start, origin + (k * size if work.rows == n else 0), size, solution_type)
            for i in range(size):
                chain.state[0][i] = begins[i]
        for i in range(len(chain.moved)):
            chain.moved[i] = 0
    {load_rng}
    key, index = row(work.keys, 0, e_all, uint64)[e], row(work.indices, 0, e_all, int64)[e]
    heat = Heat(row(span.heat, 0, span.heat_count, float64), span.heat_first, span.heat_shift)
    if live(chain, plan, heat, span.last != 0, key, index, c, 0, 0) < 0:
        cuda.atomic.min(wrong, {BAD_START}, c)
        return
    {store_rng}
    for v in range({values}):
        values_of[v * all_chains] = value[v]
    for m in range({moves}):
        for j in range({counts}):
            so_far = np.int64(0) if span.first == 0 else counts_of[({counts} * m + j) * all_chains]
            counts_of[({counts} * m + j) * all_chains] = so_far + counts[m, j]
    if span.last:
        hand_over(chain.mean, row(work.out_mean, per_entry, entries, float64))
        hand_over(chain.state[0], row(work.out_state, per_solution, size, solution_type))
        if work.out_cross != 0:
            hand_over(chain.cross, row(work.out_cross, per_entry, entries, float64))
        if work.out_moved != 0:
            hand_over(chain.moved, row(work.out_moved, per_entry, entries, uint8))
        if work.out_best != 0:
            hand_over(chain.best, row(work.out_best, per_solution, size, solution_type))
'''

# The part of it all that belongs to a chain, field by field.
_CHAIN = {
    "theta": "row(work.theta, begin, entries, float64)",
    "guide": "row(work.guide, begin, entries, float64)",
    "direction": "row(work.direction, begin, entries, float64)",
    "rng": "rng",
    "clock": "clock",
    "value": "value",
    "sums": "tiled(work.sums, entry, entries, float64)",
    "cross": "tiled(work.cross, entry, entries, float64)",
    "mean": "tiled(work.mean, entry, entries, float64)",
    "counts": "counts",
    "moved": "tiled(work.moved, entry, entries if work.moved != 0 else 0, uint8)",
    "origin": "row(work.start, origin, size, solution_type)",
    "best": "tiled(work.best, in_tile, size, solution_type)",
    "trace": "table(work.trace, c * work.points * 2, work.points, 2, float64)",
    "iterates": "row(work.out_iterates, per_solution * work.points, size * points if work.out_iterates != 0 else 0, solution_type)",
    "weights": "row(work.weights, 0, {moves}, float64)",
}
_CONSTANTS = {
    "DONE": DONE,
    "GOAL": GOAL,
    "INVERSE_TEMPERATURE": INVERSE_TEMPERATURE,
    "LOADED": LOADED,
    "BAD_THETA": BAD_THETA,
    "BAD_GUIDE": BAD_GUIDE,
    "BAD_DIRECTION": BAD_DIRECTION,
    "BAD_START": BAD_START,
}
_PLAN = {name: f"work.{name}" for name in Plan._fields} | {"correction": "float(work.correction)", "pause": "0"}

_OBSERVE = '''
def observe(data, work_table, instance, solutions, n_all, size, out, entries, wrong_at):
    """Write T(y) of each solution, one for each thread."""
    data_at = row(data, 0, {data_count}, int64)
    n = cuda.grid(1)
    if n >= n_all:
        return
    instance_data, solution = Data({data}), row(solutions, n * size, size, solution_type)
    if contains(instance_data, solution):
        statistic(instance_data, solution, row(out, n * entries, entries, float64))
    else:
        cuda.atomic.min(row(wrong_at, 0, {wrongs}, int64), {bad_start}, n)
'''


def run_text(data_axes: tuple[int, ...], state_fields: int, moves: int, first_step: bool) -> str:
    """Source text of ``run``; ``first_step``: generators are odometers, which live for one launch."""
    at = "row(work.rng, c, 1, uint64)[0], row(work.rng, all_chains + c, 1, uint64)[0]"
    before = len(data_axes) + state_fields
    records = {"data": f"Data({_data_fields(data_axes, 'work.table')})", "state": f"State({_state_fields(state_fields)})"}
    return _RUN.format(
        words=before + len(Work._fields),
        data_count=len(data_axes),
        work=", ".join(f"word[{before + w}]" for w in range(len(Work._fields))),
        plan=", ".join(_PLAN[name] for name in Plan._fields),
        tile=TILE,
        parts=1 + state_fields,
        fields=state_fields,
        values=VALUES,
        moves=moves,
        counts=COUNTS,
        wrongs=WRONGS,
        rng_size=ODOMETER_SIZE if first_step else 2,
        rng_type="float64" if first_step else "uint64",
        load_rng="" if first_step else f"if span.first > 0 or pending & {SEEDED}:\n        rng[0], rng[1] = {at}",
        store_rng="" if first_step else f"{at} = rng[0], rng[1]",
        chain=chain_text(_CHAIN | records, Chain).format(moves=moves),
        **_CONSTANTS,
    )


def observe_text(data_axes: tuple[int, ...]) -> str:
    """Source text of ``observe``."""
    data = _data_fields(data_axes, "work_table")
    return _OBSERVE.format(data=data, data_count=len(data_axes), wrongs=WRONGS, bad_start=BAD_START)


def _data_fields(axes: tuple[int, ...], where: str) -> str:
    """Source text that makes the fields of ``instance``, for arrays of these numbers of axes."""
    width, fields, column = sum(1 + rank for rank in axes), [], 0
    at = f"row({where}, instance * {width}, {width}, int64)"
    for f, rank in enumerate(axes):
        first, shape = f"{at}[{column}]", [f"{at}[{column + 1 + a}]" for a in range(rank)]
        cut = f"row(data_at[{f}], {first}, {' * '.join(shape) or '1'}, data_type_{f})"
        way = "columns" if BY_COLUMNS else "table"
        cut = f"{way}(data_at[{f}], {first}, {', '.join(shape)}, data_type_{f})" if rank == 2 else cut
        fields.append(f"{cut}[0]" if rank == 0 else f"{cut}.reshape(({', '.join(shape)}))" if rank > 2 else cut)
        column += 1 + rank
    return ", ".join(fields)


def _state_fields(fields: int) -> str:
    """Source text that cuts the state of a chain out of its tile."""
    cut = "tiled(states[{f}], tile_at[{g} * work.tiles + tile] + lane, sizes[{f} * e_all + e], state_type_{f})"
    return ", ".join(cut.format(f=f, g=f + 1) for f in range(fields))
