"""What moves guided by θ share: weights for dropping and adding items, in sum trees over the items that can be dropped or added.

A state has ``y``, ``drop`` and ``add`` (weights of all items), ``drop_tree`` and ``add_tree`` (those of the ones and of the zeros).
"""

from math import exp, log

from movegrad.engine import jit
from movegrad.problems._sum_tree import tree_exchange, tree_fill, tree_without


@jit
def fill_guides(state, guide, beta, low, high):
    """Weights e^((low − θ)/β) for dropping and e^((θ − high)/β) for adding, none below e^−40: every item can be drawn."""
    leaves = len(state.drop_tree) // 2
    for n in range(leaves):
        state.drop_tree[leaves + n] = state.add_tree[leaves + n] = 0.0
    for i in range(len(guide)):
        state.drop[i] = exp(max((low - guide[i]) / beta, -40.0))
        state.add[i] = exp(max((guide[i] - high) / beta, -40.0))
        if state.y[i]:
            state.drop_tree[leaves + i] = state.drop[i]
        else:
            state.add_tree[leaves + i] = state.add[i]
    tree_fill(state.drop_tree)
    tree_fill(state.add_tree)


@jit
def log_swap_ratio(state, i, j):
    """log q(y', y) − log q(y, y') for dropping i and adding j, each with probability proportional to its weight."""
    drop, add = state.drop, state.add
    back = drop[j] * add[i] / ((tree_without(state.drop_tree, i) + drop[j]) * (tree_without(state.add_tree, j) + add[i]))
    forth = drop[i] * add[j] / (state.drop_tree[1] * state.add_tree[1])
    return log(back / forth)


@jit
def follow_swap(state, i, j):
    """Bring the trees up to date after i was dropped and j was added."""
    tree_exchange(state.drop_tree, i, 0.0, j, state.drop[j])
    tree_exchange(state.add_tree, j, 0.0, i, state.add[i])
