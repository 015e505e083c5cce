"""A kernel calls another one by its address: what is compiled once serves all kernels that call it, and is not part of them.

For large kernels that are called seldom, such as once for a few planes. What is part of a kernel compiles again with each.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def call_at(typingctx: Any, address: Any, given: Any) -> Any:
    """Call the kernel at `address` (`team.address`) with the tuple `given`. It returns None, or raises an error."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds, calls = tuple(signature.args[1].types), context.call_conv
        called = builder.inttoptr(values[0], calls.get_function_type(types.none, kinds).as_pointer())
        status, _ = calls.call_function(builder, called, types.none, kinds, cgutils.unpack_tuple(builder, values[1]))
        with builder.if_then(status.is_error, likely=False):
            calls.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(types.intp, given), codegen
