"""The registers of the CPU: how wide the vectors of a tile are, and how many of them it has.

`types.BYTES` is the width of the vectors of `ops`, the same on every CPU. A tile of sums is as large as the registers of the
CPU allow: ROWS rows of up to VECTORS vectors of WIDE_BYTES bytes. That is chosen here, once, for the CPU that Numba
compiles for. "Wide" is said of these vectors only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from windowgrad.kernels.vector.half import Half
from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import Vec, constant, fetch, read, read_first


def registers(features: str) -> tuple[int, int, int]:
    """(bytes of a vector, rows of a tile, vectors in a row): all sums, one row of vectors and one number fit in registers."""
    known = features.split(",")
    if "+avx512f" in known:
        return 64, 8, 3
    return (32 if "+avx" in known else 16), 4, 3


WIDE_BYTES, ROWS, VECTORS = registers(cpu_target.target_context.codegen().magic_tuple()[2])


def wide(dtype: Any) -> Vec:
    """The vector of a tile; floats of 16 bits are float32 in registers."""
    dtype = types.float32 if isinstance(dtype, Half) else dtype
    return Vec(dtype, WIDE_BYTES * 8 // dtype.bitwidth)


@intrinsic
def wide_lanes(typing: Any, a: Any) -> Any:
    """How many cells of the array or address `a` a vector of a tile has."""
    n = wide(a.dtype).lanes
    return types.intp(a), lambda context, builder, signature, args: ir.Constant(ir.IntType(64), n)


@intrinsic
def aligned(typing: Any, a: Any) -> Any:
    """The next address, a itself or less than WIDE_BYTES behind it, at which a wide vector lies in one line of the cache."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        behind = builder.add(builder.ptrtoint(args[0], word), word(WIDE_BYTES - 1))
        return builder.inttoptr(builder.and_(behind, word(-WIDE_BYTES)), args[0].type)

    return a(a), emit


@intrinsic
def fetch_line(typing: Any, a: Any, i: Any) -> Any:
    """Brings the line of a[i] into the nearest cache. What is no memory is left alone."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        fetch(builder, builder.gep(args[0], [args[1]]))
        return context.get_dummy_value()

    return types.void(a, types.intp), emit


@intrinsic
def load_wide(typing: Any, a: Any, i: Any) -> Any:
    """The vector of a tile a[i], a[i + 1], …"""
    v = wide(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read(context, builder, a, args[0], args[1], v)

    return v(a, types.intp), emit


@intrinsic
def load_wide_part(typing: Any, a: Any, i: Any, n: Any) -> Any:
    """Its first n lanes, the others 0; nothing past them is read."""
    v = wide(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read_first(context, builder, a, args[0], args[1], args[2], constant(v, 0), v)

    return v(a, types.intp, types.intp), emit


@intrinsic
def load_wide_as(typing: Any, a: Any, i: Any, like: Any) -> Any:
    """a[i], a[i + 1], … as numbers of the dtype of the array `like`, as many as a vector of a tile has of them."""
    v = wide(like.dtype)
    old = Vec(a.dtype, v.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return converted(builder, read(context, builder, a, args[0], args[1], old), old, v)

    return v(a, types.intp, like), emit


@intrinsic
def load_wide_part_as(typing: Any, a: Any, i: Any, n: Any, like: Any) -> Any:
    """The first n of them, the other lanes 0; nothing past them is read."""
    v = wide(like.dtype)
    old = Vec(a.dtype, v.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        part = read_first(context, builder, a, args[0], args[1], args[2], constant(old, 0), old)
        return converted(builder, part, old, v)

    return v(a, types.intp, types.intp, like), emit


@intrinsic
def zero_of(typing: Any, a: Any) -> Any:
    """0 as a number of the array or address `a`."""
    return a.dtype(a), lambda context, builder, signature, args: context.get_constant(a.dtype, 0)


@intrinsic
def least_of(typing: Any, a: Any) -> Any:
    """−∞ as a number of the array or address `a`."""
    return a.dtype(a), lambda context, builder, signature, args: context.get_constant(a.dtype, float("-inf"))


@intrinsic
def most_of(typing: Any, a: Any) -> Any:
    """∞ as a number of the array or address `a`."""
    return a.dtype(a), lambda context, builder, signature, args: context.get_constant(a.dtype, float("inf"))
