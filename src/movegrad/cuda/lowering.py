# mypy: disable-error-code="attr-defined, name-defined, call-arg"
"""What Numba is told about movegrad's own CUDA code: arrays at addresses, with strides that the compiler knows, and plain loops.

Kernels ask for these by name. Nothing that other CUDA code of the process uses is changed.
"""

from typing import Any

from llvmlite import ir
from numba.cuda import (  # type: ignore[attr-defined]
    cgutils,
    types,
)
from numba.cuda.core.imputils import RefType, iternext_impl, lower_builtin
from numba.cuda.extending import core_models, intrinsic, overload, register_model
from numba.cuda.np.arrayobj import populate_array

TILE = 32  # chains of a warp, whose entries lie side by side


# --- loops -----------------------------------------------------------------------------------------------------------


def plain_range(start, stop=None, step=1):
    """``range`` for kernels, without a branch around its steps.

    Numba's own code steps on only while there is a number left. NVVM turns this into selects, which hide from it that the loop
    counts up from 0: most instructions of a loop over entries were these, and checks for negative indices.
    """


class _Count(types.SimpleIterableType):
    """Start, stop and step."""

    def __init__(self) -> None:
        super().__init__("movegrad_count", _Counter())


class _Counter(types.SimpleIteratorType):
    """Its iterator."""

    def __init__(self) -> None:
        super().__init__("movegrad_counter", types.int64)


@register_model(_Count)
class _CountModel(core_models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.int64) for name in ("start", "stop", "step")])


@register_model(_Counter)
class _CounterModel(core_models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        at = types.EphemeralPointer(types.int64)
        super().__init__(manager, kind, [("at", at), ("stop", types.int64), ("step", types.int64)])


@intrinsic
def _count(typingctx, start, stop, step):
    def codegen(context, builder, sig, args):
        out = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        out.start, out.stop, out.step = args
        return out._getvalue()

    return _Count()(types.int64, types.int64, types.int64), codegen


@overload(plain_range)
def _plain_range(start, stop=None, step=1):
    given = [a for a in (start, stop) if isinstance(a, types.Integer)]
    if all(a.signed for a in given):
        if len(given) == 1:
            return lambda start, stop=None, step=1: _count(0, start, 1)
        return lambda start, stop=None, step=1: _count(start, stop, step)
    if len(given) == 1:  # numbers of an unsigned range are unsigned too
        return lambda start, stop=None, step=1: range(start)
    return lambda start, stop=None, step=1: range(start, stop, step)


@lower_builtin("getiter", _Count)
def _begin(context, builder, sig, args):
    numbers = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    out = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    out.at = cgutils.alloca_once_value(builder, numbers.start)
    out.stop, out.step = numbers.stop, numbers.step
    return out._getvalue()


@lower_builtin("iternext", _Counter)
@iternext_impl(RefType.BORROWED)
def _next(context, builder, sig, args, result):
    numbers = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    value = builder.load(numbers.at)
    upward = builder.icmp_signed(">", numbers.step, numbers.step.type(0))
    before, after = builder.icmp_signed("<", value, numbers.stop), builder.icmp_signed(">", value, numbers.stop)
    result.set_valid(builder.select(upward, before, after))
    result.yield_(value)
    builder.store(builder.add(value, numbers.step, flags=["nsw"]), numbers.at)


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
