"""A clock that kernels can read, so that they pause by themselves: how long a step takes is only known when it is done."""

import sys
import time

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)
if sys.platform == "win32":
    _FUNCTION, _ARGUMENTS = "QueryPerformanceCounter", []
    TICKS = 1.0 / time.get_clock_info("perf_counter").resolution  # in a second
else:
    _FUNCTION, _ARGUMENTS = "clock_gettime", [ir.IntType(32)(time.CLOCK_MONOTONIC)]
    TICKS = 1e9


@intrinsic
def now(typingctx):
    """Ticks of the system's clock; some 30 ns."""

    def codegen(context, builder, signature, arguments):
        place = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_WORD, 2)), _WORD.as_pointer())
        kind = ir.FunctionType(ir.IntType(32), [*(a.type for a in _ARGUMENTS), place.type])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _FUNCTION), [*_ARGUMENTS, place])
        first, second = builder.load(place), builder.load(builder.gep(place, [_WORD(1)]))
        return builder.add(builder.mul(first, _WORD(int(1e9))), second) if _ARGUMENTS else first

    return types.int64(), codegen
