"""How Python enters a kernel: `kernel(*arguments, first, last)` computes a share, and the same entry starts a job of a team.

A kernel whose last arguments are named `first` and `last` can be shared by threads without Python (`team`). Then `last` is
`JOB`, and `first` the address of numbers that say where the team is and how the range is cut. So a kernel that is shared needs
no second function that is compiled for the types of its arguments, and its arguments are unpacked once.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callwrapper import PyCallWrapper

NUMBER, BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
SHARE = ir.FunctionType(NUMBER, [BYTES, NUMBER, NUMBER])  # (arguments, first, last)
RUN = ir.FunctionType(NUMBER, [NUMBER, SHARE.as_pointer(), BYTES, NUMBER, NUMBER, NUMBER])  # `team.write_run`
JOB = -(1 << 63)  # in place of `last`
NUMBERS = 5  # of a job: the address of `run`, the team, the count, the shares, the helpers


def is_shared(about: Any) -> bool:
    """Whether threads can share the function that Numba describes so."""
    names, kinds = tuple(about.args[-2:]), tuple(about.argtypes[-2:])
    return names == ("first", "last") and kinds == (types.intp, types.intp) and about.restype in (types.none, types.intp)


def write_entry(context: Any, library: Any, about: Any, environment: Any, call_helper: Any, release_gil: bool = False) -> None:
    """As Numba's `create_cpython_wrapper`, for jobs too."""
    module = context.create_module("wrapper")
    kernel = ir.Function(module, context.call_conv.get_function_type(about.restype, about.argtypes), about.llvm_func_name)
    called = write_door(module, kernel) if is_shared(about) else kernel
    PyCallWrapper(context, module, called, about, environment, call_helper=call_helper, release_gil=release_gil).build()
    library.add_ir_module(module)


def write_door(module: ir.Module, kernel: ir.Function) -> ir.Function:
    """The kernel, or a job of it: a function with the kernel's arguments and result."""
    door = ir.Function(module, kernel.function_type, "door")
    door.linkage = "internal"
    result, error, *given, first, last = door.args
    builder = ir.IRBuilder(door.append_basic_block("entry"))
    with builder.if_then(builder.icmp_signed("!=", last, NUMBER(JOB)), likely=True):
        builder.ret(builder.call(kernel, [result, error, *given, first, last]))
    room = cgutils.pack_struct(builder, given)
    arguments = cgutils.alloca_once_value(builder, room)
    share = write_share(module, kernel, room.type)
    job = builder.inttoptr(first, NUMBER.as_pointer())
    run, team, *numbers = (builder.load(builder.gep(job, [NUMBER(place)])) for place in range(NUMBERS))
    run = builder.inttoptr(run, RUN.as_pointer())
    found = builder.call(run, [team, share, builder.bitcast(arguments, BYTES), *numbers])
    builder.store(found, builder.bitcast(result, NUMBER.as_pointer()))
    builder.ret(ir.IntType(32)(0))
    return door


def write_share(module: ir.Module, kernel: ir.Function, room: ir.Type) -> ir.Function:
    """share(arguments, first, last): what the kernel returns, and 0 where that is None.

    A function that returns None writes a null pointer where another one writes its number.
    """
    share = ir.Function(module, SHARE, "share")
    share.linkage = "internal"
    builder = ir.IRBuilder(share.append_basic_block("entry"))
    given = cgutils.unpack_tuple(builder, builder.load(builder.bitcast(share.args[0], room.as_pointer())))
    result, error = (cgutils.alloca_once(builder, each.type.pointee, zfill=True) for each in kernel.args[:2])
    builder.call(kernel, [result, error, *given, *share.args[1:]])
    builder.ret(builder.load(builder.bitcast(result, NUMBER.as_pointer())))
    return share
