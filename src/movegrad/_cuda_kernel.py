"""The chain of :mod:`movegrad._kernel` as a CUDA kernel: one thread for each chain, the same functions of the problem.

Only what surrounds ``live`` is written anew, in :mod:`movegrad._cuda_source`; here it is bound to a problem and named.
"""

from collections.abc import Callable
from hashlib import sha256
from math import exp, inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types
from numba.core.errors import NumbaError
from numba.np.numpy_support import from_dtype

from movegrad import _cuda_lowering
from movegrad._build import Options, anything, bindings, identity
from movegrad._cuda_source import NOTHING_WRONG, Span, Work, observe_text, run_text
from movegrad._explain import readable_errors
from movegrad._kernel import Plan
from movegrad._reach import Reach
from movegrad._specialise import generate, inner, jit, remake, while_unchanged
from movegrad._validate import LARGEST
from movegrad.problem import Kind, Problem
from movegrad.schedules import Heat

# What threads found wrong: the first example whose θ, guide or direction is not finite, and the first chain whose start is not
# in the set; NOTHING_WRONG if there is none.
BAD_THETA, BAD_GUIDE, BAD_DIRECTION, BAD_START = range(4)

_LOWERING = Path(_cuda_lowering.__file__).read_bytes()
_VIEWS = {name: getattr(_cuda_lowering, name) for name in ("row", "tiled", "table", "columns")}


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
def run_source(kind: Kind, options: Options, data_types: tuple, state_types: tuple) -> tuple[Source, Reach]:
    """``run`` for a kind of problem whose data and state have these dtypes."""
    text = run_text(kind.data_axes, kind.state_fields, len(kind.moves), options.first_step)
    names = _types(data_types, state_types) | bindings(kind, options, coin_accepts, over=None)
    names |= {"Heat": Heat, "Plan": Plan, "Work": Work, "NOTHING_WRONG": NOTHING_WRONG}
    function = generate(text, "run", cuda=cuda, np=np, finite=finite, hand_over=hand_over, **names)
    return _whole(function, (types.int64, types.NamedUniTuple(types.int64, len(Span._fields), Span)))


@while_unchanged
def observe_source(kind: Kind, data_types: tuple, solution_type: np.dtype) -> tuple[Source, Reach]:
    """``observe`` for a kind of problem."""
    contains, statistic = kind.functions.contains or anything, kind.functions.statistic or identity
    names = _types(data_types, (solution_type,)) | {"Data": kind.data_class, "contains": contains, "statistic": statistic}
    text = observe_text(kind.data_axes)
    return _whole(generate(text, "observe", cuda=cuda, **names), (types.int64,) * 9)


def source_for(problem: Problem, options: Options) -> Source:
    """``run`` for a problem."""
    return run_source(problem.kind, options, *_dtypes(problem))


def observe_source_for(problem: Problem) -> Source:
    """``observe`` for a problem."""
    return observe_source(problem.kind, _dtypes(problem)[0], problem.solution.dtype)


def _dtypes(problem: Problem) -> tuple[tuple, tuple]:
    return tuple(f.dtype for f in problem.packed.flat), tuple(problem.state_dtypes)


def checked(problem: Problem, options: Options, compile_it: Callable[[Source], Any]) -> Any:
    """Compile ``run``; what a compiler refuses is told in a sentence that names the function, its move and the problem."""
    try:
        with readable_errors(problem):
            return compile_it(source_for(problem, options))
    except ValueError as error:
        function = str(error).split(" of ", 1)[0]
        move = "" if " of move " in str(error) else _refused(problem, options, compile_it, function)
        told = str(error).replace("for a kernel", "for CUDA", 1)
        raise ValueError(told.replace(function, f"{function} of move {move!r}", 1) if move else told) from error


def _refused(problem: Problem, options: Options, compile_it: Callable[[Source], Any], function: str) -> str:
    """The move that this function belongs to, or the first one that does not compile when it is alone."""
    for move in problem.moves:
        if any(getattr(f, "__name__", "") == function for f in vars(move).values()):
            return move.name
    for move in problem.kind.moves:
        try:
            compile_it(run_source(problem.kind._replace(moves=(move,)), options, *_dtypes(problem)))
        except NumbaError:
            return move.name
    return ""


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
    body = remake(function, inner).py_func
    body.__name__ = body.__qualname__ = name
    return Source(body, arguments), reach
