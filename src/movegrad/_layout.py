"""Instances and states as flat arrays with offsets, so that one kernel serves one instance or a ragged batch, on any device.

A problem's ``data`` and ``state`` are NamedTuples of arrays and numbers. Field by field, the values of all instances are laid
end to end in one array; a table of offsets and shapes finds them again. The kernel's source text that cuts one instance
or chain out of the flat arrays is made from the list of fields.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Packed(NamedTuple):
    """Instances laid end to end: ``flat[f][table[i, c] : …]`` is field f of instance i, its shape stands after its offset."""

    flat: tuple
    table: np.ndarray


def pack(records: Sequence[Any]) -> Packed:
    """Lay the fields of NamedTuples of one class end to end."""
    columns: list = []
    flat: list[np.ndarray] = []
    for values in zip(*records, strict=True):
        arrays = [np.asarray(v) for v in values]
        sizes = [a.size for a in arrays]
        columns.append(np.concatenate(([0], np.cumsum(sizes)[:-1])))
        columns += [[a.shape[axis] for a in arrays] for axis in range(arrays[0].ndim)]
        flat.append(np.concatenate([a.ravel() for a in arrays]))  # a copy, writable: Numba has another type for what is not
    return Packed(tuple(flat), np.array(columns, np.int64).T.copy())


def data_fields(axes: tuple[int, ...]) -> str:
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


def state_fields(fields: int) -> str:
    """Source text that cuts the state of chain ``c`` out of ``chains.states``."""
    return ", ".join(f"chains.states[{f}][chains.state_at[{f}, c] : chains.state_at[{f}, c + 1]]" for f in range(fields))


def offsets(sizes: np.ndarray) -> np.ndarray:
    """(…, n) sizes → (…, n+1) offsets."""
    out = np.zeros((*sizes.shape[:-1], sizes.shape[-1] + 1), np.int64)
    np.cumsum(sizes, axis=-1, out=out[..., 1:])
    return out
