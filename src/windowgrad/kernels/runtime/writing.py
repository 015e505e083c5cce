"""LLVM's code as Numba writes it, less what LLVM would drop at once: it need not be written, read and looked at.

- A number that is put into a record and taken out again is that number.
- A function that cannot fail is called without a look at whether it has failed.

All of it is in force only while a kernel is being compiled (`shortcuts.own_ways`).
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import Constant, IRBuilder
from llvmlite.ir.instructions import InsertValue, Ret
from numba.core import cgutils
from numba.core.callconv import RETCODE_OK, excinfo_ptr_t
from numba.core.imputils import user_function

extract = IRBuilder.extract_value
safe: set[str] = set()  # names of functions that cannot fail


def extracted(builder: Any, record: Any, place: Any, name: str = "") -> Any:
    """A value of a record; of one that was made in this function, what was put there."""
    if isinstance(place, int):
        while type(record) is InsertValue:
            if record.indices == [place]:
                return record.value
            if record.indices[0] == place:
                break
            record = record.aggregate
    return extract(builder, record, place, name)


def note_safe(function: Any) -> None:
    """Whether a function that was just written can fail: if not, it returns no other code than that all is well."""
    ends = (block.terminator for block in function.blocks)
    if all(isinstance(end.operands[0], Constant) and end.operands[0] == RETCODE_OK for end in ends if type(end) is Ret):
        safe.add(function.name)


def called(about: Any, libraries: Any) -> Any:
    """As Numba's `user_function`: writes calls of a compiled function."""
    theirs = user_function(about, libraries)

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        caller = builder.function.args
        if about.llvm_func_name not in safe or len(caller) < 2 or caller[1].type != excinfo_ptr_t.as_pointer():
            return theirs(context, builder, signature, args)
        function, convention = context.declare_function(builder.module, about), context.call_conv
        result = cgutils.alloca_once(builder, convention.get_return_type(about.restype).pointee)
        given = convention._get_arg_packer(about.argtypes).as_arguments(builder, args)
        builder.call(function, [result, caller[1], *given])
        return context.get_returned_value(builder, about.restype, builder.load(result))

    write.signature, write.libs = theirs.signature, theirs.libs  # type: ignore[attr-defined]
    return write
