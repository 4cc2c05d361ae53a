"""The bits of a float64, which Numba does not show: what kernels on the CPU need to multiply by a power of two."""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_WORD, _DOUBLE = ir.IntType(64), ir.DoubleType()


@intrinsic
def scaled(typingctx, x, shifted):
    """x·2ᵏ, where the last bits of ``shifted`` are k; for results that are neither tiny nor infinite."""

    def codegen(context, builder, signature, arguments):
        bits, exponent = (builder.bitcast(value, _WORD) for value in arguments)
        return builder.bitcast(builder.add(bits, builder.shl(exponent, _WORD(52))), _DOUBLE)

    return types.float64(types.float64, types.float64), codegen
