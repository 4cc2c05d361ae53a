"""The same moves where T(y) also says which arcs are driven: entry n + a(n+1) + b is 1 if b follows a."""

from dataclasses import replace

import numpy as np

from movegrad.engine import jit
from movegrad.problem import Move
from movegrad.problems.routing.moves import MOVES
from movegrad.problems.routing.state import UNSERVED


@jit
def entry(state, a, b, sign):
    """The entry of an arc; that from the depot to itself is none."""
    n = len(state.next) - 1
    return n + a * (n + 1) + b, (0 if a == 0 and b == 0 else sign)


@jit
def change_relocate(data, state, move, m):
    i, e, a, b = move
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    if m < 3:
        return entry(state, (before, e, a)[m], (i, behind, b)[m], -1)
    return entry(state, (before, a, e)[m - 3], (behind, i, b)[m - 3], 1)


@jit
def changes_swap(data, state, move):
    return 6 if state.next[move[1]] == move[2] else 8


@jit
def change_swap(data, state, move, m):
    i, e, j, f = move
    before, behind = np.int64(state.prev[i]), np.int64(state.next[e])
    ahead, after = np.int64(state.prev[j]), np.int64(state.next[f])
    if behind == j:
        if m < 3:
            return entry(state, (before, e, f)[m], (i, j, after)[m], -1)
        return entry(state, (before, f, e)[m - 3], (j, i, after)[m - 3], 1)
    if m < 4:
        return entry(state, (before, e, ahead, f)[m], (i, behind, j, after)[m], -1)
    return entry(state, (before, f, ahead, e)[m - 4], (j, behind, i, after)[m - 4], 1)


@jit
def changes_two_opt(data, state, move):
    return 2 * (state.rank[move[1]] - state.rank[move[0]] + 2)


@jit
def change_two_opt(data, state, move, m):
    i, j = move
    before, after = np.int64(state.prev[i]), np.int64(state.next[j])
    if m < 4:
        return entry(state, (before, j, before, i)[m], (i, after, j, after)[m], -1 if m < 2 else 1)
    a = i
    for _ in range((m - 4) // 2):
        a = np.int64(state.next[a])
    b = np.int64(state.next[a])
    if m % 2 == 0:
        return entry(state, a, b, -1)
    return entry(state, b, a, 1)


@jit
def change_tails(data, state, move, m):
    i, j = move
    behind, after = np.int64(state.next[i]), np.int64(state.next[j])
    return entry(state, (i, j, i, j)[m], (behind, after, after, behind)[m], -1 if m < 2 else 1)


@jit
def change_split(data, state, move, m):
    i, j = move
    cut = 1 if state.next[i] == j else -1
    return entry(state, (i, i, np.int64(0))[m], (j, np.int64(0), j)[m], -cut if m == 0 else cut)


@jit
def change_serve(data, state, move, m):
    i, a, b = move
    sign = 1 if state.next[i] == UNSERVED else -1
    if m == 0:
        return i - 1, sign
    return entry(state, (a, i, a)[m - 1], (i, b, b)[m - 1], -sign if m == 3 else sign)


@jit
def statistic(data, solution, out):
    n = len(solution) - 1
    for i in range(1, n + 1):
        if solution[i] != UNSERVED:
            out[i - 1] = 1.0
            out[n + i * (n + 1) + solution[i]] += 1.0
            out[n + i] += 1.0
            if solution[i] > 0:
                out[n + solution[i]] -= 1.0


def _with_arcs(name: str, change, changes) -> Move:
    return replace(MOVES[name], change=change, changes=changes)


ARC_MOVES = {
    m.name: m
    for m in (
        _with_arcs("relocate", change_relocate, 6),
        _with_arcs("relocate pair", change_relocate, 6),
        _with_arcs("swap", change_swap, changes_swap),
        _with_arcs("swap pair", change_swap, changes_swap),
        _with_arcs("2-opt", change_two_opt, changes_two_opt),
        _with_arcs("2-opt*", change_tails, 4),
        _with_arcs("split/merge", change_split, 3),
        _with_arcs("serve/remove", change_serve, 4),
    )
}
