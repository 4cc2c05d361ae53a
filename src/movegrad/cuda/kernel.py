"""The loop of :mod:`movegrad.engine.loop` as CUDA kernels: one thread for each chain, the same functions of the problem.

Only what surrounds ``live`` is written anew, in :mod:`movegrad.cuda.source`; here it is bound to a problem and named. Compiled and
launched it is in :mod:`movegrad.cuda.launch`.
"""

from hashlib import sha256
from math import exp, inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types
from numba.np.numpy_support import from_dtype

from movegrad._validate import LARGEST
from movegrad.cuda import lowering
from movegrad.cuda.source import NOTHING_WRONG, Span, Work, observe_text, run_text
from movegrad.engine import Options, jit
from movegrad.engine.batch import Layout
from movegrad.engine.bind import Kind, chain_names, contains_of, start_names, statistic_of
from movegrad.engine.compile import generate, inner, remake
from movegrad.engine.loop import Chain, Plan
from movegrad.engine.reach import Reach, while_unchanged
from movegrad.schedules import Heat

_LOWERING = Path(lowering.__file__).read_bytes()
_VIEWS = {name: getattr(lowering, name) for name in ("row", "tiled", "table", "columns")}
_NAMES = {"range": lowering.plain_range}  # what stands for these in a kernel and all that it calls


# --- functions of the kernels ----------------------------------------------------------------------------------------


@jit
def finite(vector):
    for i in range(len(vector)):
        if not abs(vector[i]) <= LARGEST:
            return False
    return True


@jit
def coin_accepts(u, x):
    """u < exp(x) for x ≤ 0, without the bounds of eˣ of the CPU: some thread of a warp needs eˣ at nearly every step.

    1.26× on a hypercube, 0.80× on a knapsack (benchmarks/results/gpu.md).
    """
    return x > -700.0 and u < exp(max(x, -700.0))


@jit
def hand_over(values, out):
    for i in range(len(values)):
        out[i] = values[i]


# --- kernels -----------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A kernel before it is compiled: a plain function and the types of its arguments."""

    function: Any
    arguments: tuple


@while_unchanged
def run_source(kind: Kind, what: Options | int, data_types: tuple, state_types: tuple) -> tuple[Source, Reach]:
    """``run`` for a kind of problem whose data and state have these dtypes: with chains of these options, or to make starts."""
    first_step = isinstance(what, Options) and what.first_step
    text = run_text(kind.data_axes, kind.state_fields, len(kind.moves), first_step)
    bound = (
        chain_names(kind, what, coin_accepts, over=None)
        if isinstance(what, Options)
        else start_names(kind, what) | {"Chain": Chain}
    )
    names = _types(data_types, state_types) | bound
    names |= {"Heat": Heat, "Plan": Plan, "Work": Work, "NOTHING_WRONG": NOTHING_WRONG}
    function = generate(text, "run", cuda=cuda, np=np, finite=finite, hand_over=hand_over, **names)
    return _whole(function, (types.int64, types.NamedUniTuple(types.int64, len(Span._fields), Span)))


@while_unchanged
def observe_source(kind: Kind, data_types: tuple, solution_type: np.dtype) -> tuple[Source, Reach]:
    """``observe`` for a kind of problem."""
    names = {"Data": kind.data_class, "contains": contains_of(kind), "statistic": statistic_of(kind)}
    names |= _types(data_types, (solution_type,))
    return _whole(generate(observe_text(kind.data_axes), "observe", cuda=cuda, **names), (types.int64,) * 9)


def source_of_run(layout: Layout, what: Options | int) -> Source:
    """``run`` for problems of this layout."""
    return run_source(layout.kind, what, tuple(f.dtype for f in layout.packed.flat), layout.state_dtypes)


def source_of_observe(layout: Layout) -> Source:
    """``observe`` for problems of this layout."""
    return observe_source(layout.kind, tuple(f.dtype for f in layout.packed.flat), layout.state_dtypes[0])


def _types(data_types: tuple, state_types: tuple) -> dict[str, Any]:
    names = {f"data_type_{f}": from_dtype(t) for f, t in enumerate(data_types)}
    names |= {f"state_type_{f}": from_dtype(t) for f, t in enumerate(state_types)}
    plain = {"int32": types.int32, "int64": types.int64, "uint64": types.uint64, "float64": types.float64, "uint8": types.uint8}
    return names | plain | {"solution_type": from_dtype(state_types[0])}


def _whole(function: Any, arguments: tuple) -> tuple[Source, Reach]:
    """A plain function whose name ends in its fingerprint, lest the disk cache be stale; all that it calls is inlined.

    The views join it after its fingerprint is taken, since they have none; the source of their file stands for them. Arrays of any
    size are copied into code here.
    """
    reach = Reach(function, largest=inf)
    name = f"{function.py_func.__name__}_{reach.fingerprint}_{sha256(_LOWERING).hexdigest()[:8]}"
    function.py_func.__globals__.update(_VIEWS)
    body = remake(function, inner, names=_NAMES).py_func
    body.__name__ = body.__qualname__ = name
    return Source(body, arguments), reach
