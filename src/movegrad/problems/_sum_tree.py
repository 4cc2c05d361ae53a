"""Weighted draws among changing items in O(log d), with sums that cannot drift.

A tree is an array of 2m numbers, m a power of two ≥ d: entry m + i is the weight of item i, entry n < m is the sum of entries 2n
and 2n + 1. A change recomputes the sums above it; nothing is ever subtracted from them, so that peaked weights (10⁻¹² beside 1)
stay exact.
"""

from movegrad.engine import jit


def tree_size(d: int) -> int:
    """Length of the array for d items."""
    return 2 << max(d - 1, 0).bit_length()


@jit
def tree_fill(tree):
    """Compute the sums from the leaves."""
    for n in range(len(tree) // 2 - 1, 0, -1):
        tree[n] = tree[2 * n] + tree[2 * n + 1]


@jit
def tree_set(tree, i, weight):
    """Give item i a weight."""
    n = len(tree) // 2 + i
    tree[n] = weight
    n >>= 1
    while n > 0:
        tree[n] = tree[2 * n] + tree[2 * n + 1]
        n >>= 1


@jit
def tree_exchange(tree, i, weight_i, j, weight_j):
    """Give two items new weights: one way up for both."""
    a, b = len(tree) // 2 + i, len(tree) // 2 + j
    tree[a], tree[b] = weight_i, weight_j
    while a > 1:
        a >>= 1
        b >>= 1
        tree[a] = tree[2 * a] + tree[2 * a + 1]
        tree[b] = tree[2 * b] + tree[2 * b + 1]


@jit
def tree_without(tree, i):
    """Total weight of all items but i. Subtracts only where that is exact; else adds up what stands beside the path."""
    n = len(tree) // 2 + i
    if tree[n] < 0.5 * tree[1]:
        return tree[1] - tree[n]
    total = 0.0
    while n > 1:
        total += tree[n ^ 1]
        n >>= 1
    return total
