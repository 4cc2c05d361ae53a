"""What Numba is told about CUDA code: arrays at addresses, with strides that the compiler knows, and plain loops."""

from llvmlite import ir
from numba import types
from numba.cuda import cgutils  # type: ignore[attr-defined]
from numba.cuda.core.imputils import RefType, iternext_impl
from numba.cuda.cpython import rangeobj
from numba.cuda.extending import intrinsic
from numba.cuda.np.arrayobj import populate_array

TILE = 32  # chains of a warp, whose entries lie side by side


# --- loops -----------------------------------------------------------------------------------------------------------


@iternext_impl(RefType.BORROWED)
def _next_of_range(context, builder, sig, args, result):
    """The next number of a range, without a branch around it.

    Numba's own code steps on only while there is a number left. NVVM turns this into selects, which hide from it that the loop
    counts up from 0: most instructions of a loop over entries were these, and checks for negative indices.
    """
    numbers = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    value = builder.load(numbers.iter)
    upward = builder.icmp_signed(">", numbers.step, numbers.step.type(0))
    before, after = builder.icmp_signed("<", value, numbers.stop), builder.icmp_signed(">", value, numbers.stop)
    result.set_valid(builder.select(upward, before, after))
    result.yield_(value)
    builder.store(builder.add(value, numbers.step, flags=["nsw"]), numbers.iter)


def plain_loops(wanted: bool = True) -> None:
    """Use this from now on for loops in CUDA code, or Numba's own again."""
    for iterator in (types.range_iter32_type, types.range_iter64_type):
        theirs = next(
            impl for impl, name, signature in rangeobj.registry.functions if (name, signature) == ("iternext", (iterator,))
        )
        rangeobj.registry.lower("iternext", iterator)(_next_of_range if wanted else theirs)


plain_loops()


# --- views at addresses ----------------------------------------------------------------------------------------------


def _view(address, dtype, shape, strides, layout):
    """Type and code of an array at ``address`` + the first argument after it, an index of an item.

    Lengths and strides (in items) are numbers of arguments, or negative constants.
    """
    item = dtype.dtype
    result = types.Array(item, len(shape), layout)

    def codegen(context, builder, sig, args):
        itemsize = context.get_abi_sizeof(context.get_data_type(item))
        pointer_type = context.get_data_type(item).as_pointer()
        word = ir.IntType(64)
        at = builder.add(args[0], builder.mul(args[1], word(itemsize)))
        lengths = [args[s] if s >= 0 else word(-s) for s in shape]
        steps = [builder.mul(args[s], word(itemsize)) if s >= 0 else word(-s * itemsize) for s in strides]
        out = context.make_array(result)(context, builder)
        populate_array(out, builder.inttoptr(at, pointer_type), lengths, steps, word(itemsize), None)
        return out._getvalue()

    return result, codegen


@intrinsic
def row(typingctx, address, at, n, dtype):
    """n items in a row, from item ``at`` on."""
    result, codegen = _view(address, dtype, (2,), (-1,), "C")
    return result(types.int64, types.int64, types.int64, dtype), codegen


@intrinsic
def tiled(typingctx, address, at, n, dtype):
    """n items of one chain of a tile."""
    result, codegen = _view(address, dtype, (2,), (-TILE,), "A")
    return result(types.int64, types.int64, types.int64, dtype), codegen


@intrinsic
def columns(typingctx, address, at, n, m, dtype):
    """n rows of m items, stored column after column."""
    result, codegen = _view(address, dtype, (2, 3), (-1, 2), "F")
    return result(types.int64, types.int64, types.int64, types.int64, dtype), codegen


@intrinsic
def table(typingctx, address, at, n, m, dtype):
    """n rows of m items."""
    result, codegen = _view(address, dtype, (2, 3), (3, -1), "C")
    return result(types.int64, types.int64, types.int64, types.int64, dtype), codegen
