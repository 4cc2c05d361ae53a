# mypy: disable-error-code="override, index, attr-defined"
"""What Numba is told about kernels on the CPU, so that there is less to compile: records by address, and views without checks.

Numba passes a tuple of arrays as all their lengths, strides and pointers, which every function packs and unpacks: most of what the
compiler had to read. A :class:`Reference` is one number instead; to functions it looks like the NamedTuple, and when they are
pasted into the kernel it is gone. Slices and reshapes of Numba look after negative indices, steps and copies; :func:`cut` does not.
"""

import operator
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.typing import signature as typing_signature
from numba.core.typing.templates import AbstractTemplate, infer, infer_global
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import populate_array


class Reference(types.BaseNamedTuple):
    """A tuple in memory, named or not; tuples in it are references too."""

    def __init__(self, record: types.BaseTuple) -> None:
        self.record, self.count, self.fields = record, len(record), getattr(record, "fields", ())
        self.types = tuple(Reference(t) if isinstance(t, types.BaseTuple) and not isinstance(t, Reference) else t for t in record)
        self.instance_class = getattr(record, "instance_class", tuple)
        super().__init__(f"Reference({record})")

    @property
    def key(self) -> types.Type:
        return self.record

    def __getitem__(self, i: int) -> types.Type:
        return self.types[i]

    def __iter__(self):
        return iter(self.types)

    def __len__(self) -> int:
        return self.count


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, manager.lookup(kind.record).get_value_type().as_pointer())


@cache
def referrer(count: int):
    """A function of a NamedTuple's class and so many fields: it puts them into memory of its caller.

    Field by field, since LLVM is slow with large values; Numba would make a value of a variable number of arguments.
    """

    def typed(typingctx, record, *fields):
        kind = types.BaseTuple.from_types(fields, record.instance_class)

        def codegen(context, builder, signature, arguments):
            memory = cgutils.alloca_once(builder, context.get_value_type(kind))
            for i, value in enumerate(arguments[1:]):
                builder.store(value, cgutils.gep_inbounds(builder, memory, 0, i))
            return memory

        return Reference(kind)(record, *fields), codegen

    names = ", ".join(f"field_{i}" for i in range(count))
    scope = {"typed": typed}
    exec(f"def refer(typingctx, record, {names}):\n    return typed(typingctx, record, {names})", scope)
    return intrinsic(scope["refer"])


@intrinsic
def refer(typingctx, record):
    """Put a whole tuple into memory, as it is when it is an argument."""

    def codegen(context, builder, signature, arguments):
        return cgutils.alloca_once_value(builder, arguments[0])

    return Reference(record)(record), codegen


def _field(builder, kind: Reference, reference: ir.Value, i: int) -> ir.Value:
    place = cgutils.gep_inbounds(builder, reference, 0, i)
    return (
        place if isinstance(kind.record[i], types.BaseTuple) and not isinstance(kind.record[i], Reference) else builder.load(place)
    )


@lower_getattr_generic(Reference)
def _attribute(context, builder, kind, value, name):
    return _field(builder, kind, value, kind.fields.index(name))


@lower_builtin("static_getitem", Reference, types.IntegerLiteral)
def _item(context, builder, signature, arguments):
    reference, i = arguments
    return _field(builder, signature.args[0], reference, i % signature.args[0].count)


# Records of equal fields may be looped over and indexed with a variable.


def _item_of(record: Any) -> Any:
    """The type of all items of a reference, if it is one."""
    return record.types[0] if isinstance(record, Reference) and len(set(record.types)) == 1 else None


@infer_global(operator.getitem)
class _AnyItem(AbstractTemplate):
    def generic(self, args, kws):
        item = _item_of(args[0])
        return item and isinstance(args[1], types.Integer) and typing_signature(item, args[0], types.intp)


@lower_builtin(operator.getitem, Reference, types.Integer)
def _any_item(context, builder, signature, arguments):
    reference, i = arguments
    wrapped = builder.add(i, i.type(signature.args[0].count))
    return builder.load(builder.gep(reference, [i.type(0), builder.select(builder.icmp_signed("<", i, i.type(0)), wrapped, i)]))


@infer
class _Loop(AbstractTemplate):
    key = "getiter"

    def generic(self, args, kws):
        item = _item_of(args[0])
        return item and typing_signature(types.UniTupleIter(types.UniTuple(item, args[0].count)), args[0])


@lower_builtin("getiter", Reference)
def _loop(context, builder, signature, arguments):
    out = context.make_helper(builder, signature.return_type)
    out.index, out.tuple = cgutils.alloca_once_value(builder, context.get_constant(types.intp, 0)), builder.load(arguments[0])
    return out._getvalue()


@intrinsic
def private(typingctx, array):
    """A copy of the first two items, in memory that nothing else can point to: so LLVM keeps a generator in registers."""

    def codegen(context, builder, signature, arguments):
        theirs = context.make_array(array)(context, builder, arguments[0])
        item, word = context.get_data_type(array.dtype), ir.IntType(64)
        memory = cgutils.alloca_once(builder, ir.ArrayType(item, 2))
        first = builder.bitcast(memory, item.as_pointer())
        for i in range(2):
            builder.store(builder.load(builder.gep(theirs.data, [word(i)])), builder.gep(first, [word(i)]))
        itemsize = word(context.get_abi_sizeof(item))
        out = context.make_array(array)(context, builder)
        populate_array(out, first, [word(2)], [itemsize], itemsize, None)
        return out._getvalue()

    return array(array), codegen


@intrinsic
def cut(typingctx, array, at, shape):
    """A view of a flat array, from item ``at`` on; ``shape`` is a tuple of lengths."""
    result = types.Array(array.dtype, len(shape), "C")

    def codegen(context, builder, signature, arguments):
        flat = context.make_array(signature.args[0])(context, builder, arguments[0])
        lengths = cgutils.unpack_tuple(builder, arguments[2])
        itemsize = context.get_abi_sizeof(context.get_data_type(result.dtype))
        word = lengths[0].type
        strides = [word(itemsize)]
        for n in reversed(lengths[1:]):
            strides.insert(0, builder.mul(strides[0], n))
        out = context.make_array(result)(context, builder)
        populate_array(out, builder.gep(flat.data, [arguments[1]]), lengths, strides, word(itemsize), None)
        return out._getvalue()

    return result(array, types.intp, types.UniTuple(types.intp, len(shape))), codegen
