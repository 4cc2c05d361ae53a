"""What problems on undirected edges share: θ and T have an entry for each pair of nodes, a lower triangle row after row."""

from typing import Any

import numpy as np

from movegrad._validate import LARGEST, array_of, doubles, too_large
from movegrad.engine import jit


@jit
def edge(a, b):
    """Entry of θ and T for the edge between two different nodes."""
    row, column = max(a, b), min(a, b)
    return (row * (row - 1) >> 1) + column


def is_tensor(value: Any) -> bool:
    """A tensor of another library, which is indexed as it is, so that gradients pass."""
    return hasattr(type(value), "reshape") and not isinstance(value, np.ndarray) and not getattr(value, "is_nested", False)


def matrix_of(value: Any, name: str, n: int, *, diagonal: bool = True) -> Any:
    """A matrix (…, n, n) of finite numbers; a tensor stays as it is. A diagonal that counts for nothing, often inf, becomes 0."""
    array = value if is_tensor(value) else doubles(array_of(value, name))
    if tuple(array.shape[-2:]) != (n, n):
        raise ValueError(f"{name} must have two last axes of {n} entries, got shape {tuple(array.shape)}.")
    if isinstance(array, np.ndarray) and not diagonal:
        array[..., np.eye(n, dtype=bool)] = 0.0
    if isinstance(array, np.ndarray) and not (np.abs(array) <= LARGEST).all():
        raise too_large(array, name)
    return array


def to_edges(value: Any, name: str, n: int) -> Any:
    """Symmetric (…, n, n) → (…, n(n−1)/2); the diagonal counts for nothing."""
    matrix = matrix_of(value, name, n, diagonal=False)
    row, column = np.tril_indices(n, -1)
    lower, upper = matrix[..., row, column], matrix[..., column, row]
    if bool((lower != upper).any()):
        raise ValueError(f"{name} must be symmetric, since edges have no direction, got one that is not.")
    return lower


def to_matrix(value: Any, name: str, n: int) -> Any:
    """(…, n(n−1)/2) → symmetric (…, n, n) with 0 on the diagonal."""
    size = n * (n - 1) // 2
    edges = value if is_tensor(value) else array_of(value, name)
    if tuple(edges.shape[-1:]) != (size,):
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {tuple(edges.shape)}.")
    row, column = np.indices((n, n))
    at = np.maximum(row, column) * (np.maximum(row, column) - 1) // 2 + np.minimum(row, column)
    np.fill_diagonal(at, 0)
    return edges[..., at] * type_like(edges, ~np.eye(n, dtype=bool))


def type_like(like: Any, mask: np.ndarray) -> Any:
    """A mask as the kind of array that another one is."""
    return mask if isinstance(like, np.ndarray) else like.new_tensor(mask) if hasattr(like, "new_tensor") else mask
