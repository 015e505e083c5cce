"""A kernel calls another one by its address: what is compiled once serves all kernels that call it, and is not part of them.

For large kernels that are called seldom, such as once for a few planes. What is part of a kernel compiles again with each.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


@intrinsic
def call_at(typingctx: Any, address: Any, given: Any) -> Any:
    """Call the kernel at `address` (`team.address`) with the tuple `given`. It returns None, or raises an error."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        called(context, builder, types.none, signature.args[1], values)
        return context.get_dummy_value()

    return types.void(types.intp, given), codegen


@intrinsic
def number_at(typingctx: Any, address: Any, given: Any) -> Any:
    """The same of a kernel that returns an integer."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return called(context, builder, types.intp, signature.args[1], values)

    return types.intp(types.intp, given), codegen


def called(context: Any, builder: Any, result: Any, given: Any, values: Any) -> Any:
    """What the kernel returns, which is of the type `result`."""
    kinds, calls = tuple(given.types), context.call_conv
    function = builder.inttoptr(values[0], calls.get_function_type(result, kinds).as_pointer())
    status, found = calls.call_function(builder, function, result, kinds, cgutils.unpack_tuple(builder, values[1]))
    with builder.if_then(status.is_error, likely=False):
        calls.return_status_propagate(builder, status)
    return found


@intrinsic
def span(typingctx: Any, array: Any, first: Any, last: Any) -> Any:
    """array[first:last] of a flat array, to be given to a kernel: it must not outlive the array.

    Numba takes three times as long to compile a slice, whose references are counted and whose ends may be anything.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        make = context.make_array(array)
        whole, part, size = make(context, builder, value=values[0]), make(context, builder), builder.sub(values[2], values[1])
        data = builder.gep(whole.data, [values[1]])
        populate_array(part, data, [size], [whole.itemsize], whole.itemsize, cgutils.get_null_value(whole.meminfo.type))
        return part._getvalue()

    return array(array, types.intp, types.intp), codegen
