"""NamedTuples that kernels hand on by address: a function that takes data, state or a chain takes one number instead of hundreds.

Numba passes a tuple of arrays as all their lengths, strides and pointers, which every function packs and unpacks: most of what the
compiler had to read. To functions a reference looks like the NamedTuple; when they are pasted into the kernel it is gone.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.extending import intrinsic, models, register_model


class Reference(types.BaseNamedTuple):
    """A NamedTuple in memory."""

    def __init__(self, record: types.BaseNamedTuple) -> None:
        self.record, self.types, self.fields, self.count = record, tuple(record.types), record.fields, len(record)
        self.instance_class = record.instance_class
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


@intrinsic
def refer(typingctx, record):
    """Put a NamedTuple into memory of the function that calls this."""

    def codegen(context, builder, signature, arguments):
        return cgutils.alloca_once_value(builder, arguments[0])

    return Reference(record)(record), codegen


def _field(builder, reference, i: int) -> ir.Value:
    return builder.load(cgutils.gep_inbounds(builder, reference, 0, i))


@lower_getattr_generic(Reference)
def _attribute(context, builder, kind, value, name):
    return _field(builder, value, kind.fields.index(name))


@lower_builtin("static_getitem", Reference, types.IntegerLiteral)
def _item(context, builder, signature, arguments):
    reference, i = arguments
    return _field(builder, reference, i % signature.args[0].count)
