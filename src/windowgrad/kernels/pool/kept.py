"""Cells that a mask leaves, for kernels that may have one: their argument for it is an array of bytes, or None.

Which it is, Numba knows when it compiles them, so a kernel without a mask has nothing of all this in it. All arrays are
addresses.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.types import Vec, constant, read, read_first


def _kept(name: str, doc: str, part: bool) -> Any:
    def lower(mask: Any, value: Any) -> Any:
        bytes_of = Vec(mask.dtype, value.lanes) if mask is not types.none else None

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if bytes_of is None:
                return args[0]
            none = constant(bytes_of, 0)
            at = context, builder, mask, args[1], args[2]
            there = read_first(*at, args[3], none, bytes_of) if part else read(*at, bytes_of)
            return builder.select(builder.icmp_unsigned("!=", there, none), args[0], constant(value, 0))

        return emit

    def whole(typing: Any, value: Any, mask: Any, i: Any) -> Any:
        return value(value, mask, types.intp), lower(mask, value)

    def first(typing: Any, value: Any, mask: Any, i: Any, n: Any) -> Any:
        return value(value, mask, types.intp, types.intp), lower(mask, value)

    typed = first if part else whole
    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


kept = _kept("kept", "kept(value, mask, i): the lanes of a vector, 0 where the mask, from its byte i on, has 0.", False)
kept_part = _kept(
    "kept_part", "kept_part(value, mask, i, n): its first n lanes, the others 0; no more of the mask is read.", True
)


@intrinsic
def is_kept(typing: Any, mask: Any, i: Any) -> Any:
    """Whether a mask leaves cell i."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if mask is types.none:
            return context.get_constant(types.boolean, True)
        byte = builder.load(builder.gep(args[0], [args[1]]))
        return builder.icmp_unsigned("!=", byte, byte.type(0))

    return types.boolean(mask, types.intp), emit


@intrinsic
def mask_start(typing: Any, which: Any, plane: Any, cells: Any) -> Any:
    """Where the mask of a plane begins, of planes with so many cells; `which` mask a plane has, or None without masks."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if which is types.none:
            return context.get_constant(types.intp, 0)
        return builder.mul(builder.load(builder.gep(args[0], [args[1]])), args[2])

    return types.intp(which, types.intp, types.intp), emit
