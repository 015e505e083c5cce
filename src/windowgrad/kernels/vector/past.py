"""Stores past the caches: a line of memory that is written as a whole need not be read before.

For outputs so large that nobody would find them in the caches (`runtime.last_cache`). Such stores are in no order with others,
so a kernel that writes past the caches ends with `settled`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.ops import stored_as
from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import Vec, pointer

LINE = 64
"""Bytes of a line of the caches."""


def put_past(builder: Any, x: Any, place: Any, v: Vec) -> None:
    """Stores a vector past the caches; it fills lines, or a part of one where others fill the rest."""
    stored = builder.store(x, place)
    stored.align = min(LINE, v.lanes * v.dtype.bitwidth // 8)
    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


def put(builder: Any, x: Any, place: Any, v: Vec, past: Any) -> None:
    """Stores a vector, as `put_past` does if `past` is true."""
    with builder.if_else(past) as (far, near):
        with far:
            put_past(builder, x, place, v)
        with near:
            builder.store(x, place).align = v.dtype.bitwidth // 8


@intrinsic
def store_past(typing: Any, a: Any, i: Any, x: Any, past: Any) -> Any:
    """As `ops.store`, past the caches if `past` is true, where rows of `a` fill lines."""
    if (v := stored_as(a, x)) is None:
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = pointer(context, builder, a, args[0], args[1], v)
        put(builder, converted(builder, args[2], x, v), where, v, args[3])
        return context.get_dummy_value()

    return types.void(a, types.intp, x, types.boolean), emit


@intrinsic
def fills_lines(typing: Any, a: Any, n: Any) -> Any:
    """Whether rows of n cells that follow each other from the address `a` on all begin where a line does."""
    word = ir.IntType(64)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = builder.mul(args[1], word(a.dtype.bitwidth // 8))
        behind = builder.and_(builder.or_(size, builder.ptrtoint(args[0], word)), word(LINE - 1))
        return builder.icmp_unsigned("==", behind, word(0))

    return types.boolean(a, types.intp), emit


@intrinsic
def settled(typing: Any) -> Any:
    """What was written past the caches is seen before anything that is written from here on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit
