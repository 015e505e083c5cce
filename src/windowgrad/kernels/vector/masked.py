"""Vectors of a tile under a mask: loads, copies and stores of some lanes only, and which of the stored sums are strange.

A mask is an integer, one bit for each cell. Cells whose bit is off are neither read nor written, so a vector may reach past
the end of an array. `a`, `x`, `y` are arrays or addresses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.types import Vec, call, constant, llvm, pointer, read, spread, suffix, write_some

INDEX = ir.IntType(64)
HUGE = 32
"""Strange lanes are told as bits: below this one those that are zero or denormal, from it on those that are not finite."""
EVEN = 0x5555555555555555
"""The bits of every second cell."""


@helper
def interval(low: int, high: int) -> int:
    """The bits from `low` to `high`; none if it is empty."""
    return ((1 << high) - 1) & ~((1 << low) - 1) if low < high else 0


# --- what intrinsics emit ----------------------------------------------------------------------------------------


def lanes_of(builder: Any, v: Vec, bits: Any) -> Any:
    """The mask of the lanes whose bit is set."""
    return builder.bitcast(builder.trunc(bits, ir.IntType(v.lanes)), ir.VectorType(ir.IntType(1), v.lanes))


def read_masked(context: Any, builder: Any, array_type: Any, array: Any, i: Any, mask: Any, v: Vec) -> Any:
    align = ir.Constant(ir.IntType(32), v.dtype.bitwidth // 8)
    arguments = [pointer(context, builder, array_type, array, i, v), align, mask, constant(v, 0)]
    return call(builder, f"llvm.masked.load.{suffix(v)}.p0", llvm(v), arguments)


def write(context: Any, builder: Any, array_type: Any, array: Any, i: Any, value: Any, v: Vec) -> None:
    builder.store(value, pointer(context, builder, array_type, array, i, v)).align = v.dtype.bitwidth // 8


def write_masked(context: Any, builder: Any, array_type: Any, array: Any, i: Any, value: Any, mask: Any, v: Vec) -> None:
    write_some(builder, value, pointer(context, builder, array_type, array, i, v), mask, v)


def read_even(context: Any, builder: Any, array_type: Any, array: Any, i: Any, bits: Any, v: Vec) -> Any:
    low = read_masked(context, builder, array_type, array, i, lanes_of(builder, v, bits), v)
    rest = lanes_of(builder, v, builder.lshr(bits, INDEX(v.lanes)))
    high = read_masked(context, builder, array_type, array, builder.add(i, INDEX(v.lanes)), rest, v)
    order = ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), list(range(0, 2 * v.lanes, 2)))
    return builder.shuffle_vector(low, high, order)


def stay_one(builder: Any) -> None:
    """No instruction, but the loop it stands in is neither unrolled nor vectorised."""
    nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
    builder.call(nothing, [], attrs=("convergent",))


@intrinsic
def one_by_one(typing: Any) -> Any:
    """Does nothing, for the body of a loop that few cells run through: LLVM leaves it as it is, which compiles faster."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stay_one(builder)
        return context.get_dummy_value()

    return types.void(), emit


class Limits:
    """The bits of |value| as integers: all of them, those of the least normal number, and those of infinity."""

    def __init__(self, v: Vec) -> None:
        digits, width = (23, 32) if v.dtype.bitwidth == 32 else (52, 64)
        self.type, every = ir.VectorType(ir.IntType(width), v.lanes), (1 << width - 1) - 1
        self.every, self.least, self.infinite, self.zero = (
            ir.Constant(self.type, [bits] * v.lanes) for bits in (every, 1 << digits, every >> digits << digits, 0)
        )

    def size(self, builder: Any, value: Any) -> Any:
        return builder.and_(builder.bitcast(value, self.type), self.every)


def strange_bits(builder: Any, least: Any, most: Any, mask: Any, v: Vec) -> Any:
    """The strange lanes (see HUGE) of those in the mask, from the least and the greatest size in each of them."""
    limits = Limits(v)
    small = builder.icmp_unsigned("<", least, limits.least)
    huge = builder.icmp_unsigned(">=", most, limits.infinite)
    low, high = (builder.zext(builder.bitcast(builder.and_(mask, odd), ir.IntType(v.lanes)), INDEX) for odd in (small, huge))
    return builder.or_(low, builder.shl(high, INDEX(HUGE)))


def strange_of(builder: Any, value: Any, mask: Any, v: Vec) -> Any:
    size = Limits(v).size(builder, value)
    return strange_bits(builder, size, size, mask, v)


def clip(builder: Any, value: Any, least: Any, most: Any) -> Any:
    """Lanes below `least` or above `most`, vectors too, become those; NaN stays, and −0 is not above 0."""
    value = builder.select(builder.fcmp_unordered(">", value, least), value, least)
    return builder.select(builder.fcmp_ordered(">", value, most), most, value)


# --- loads -------------------------------------------------------------------------------------------------------


@intrinsic
def load_some(typing: Any, x: Any, j: Any, bits: Any) -> Any:
    """The vector of a tile x[j], x[j + 1], … where the bit is set, else 0."""
    v = wide(x.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read_masked(context, builder, x, args[0], args[1], lanes_of(builder, v, args[2]), v)

    return v(x, types.intp, types.int64), emit


@intrinsic
def load_even(typing: Any, x: Any, j: Any, bits: Any) -> Any:
    """The vector x[j], x[j + 2], … Of two vectors of x, the cells whose bit is set are read."""
    v = wide(x.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read_even(context, builder, x, args[0], args[1], args[2], v)

    return v(x, types.intp, types.int64), emit


# --- copies ------------------------------------------------------------------------------------------------------


@intrinsic
def copy_part(typing: Any, to: Any, i: Any, x: Any, j: Any, bits: Any) -> Any:
    """A whole vector at to[i]: x[j], x[j + 1], … where the bit is set, else 0. Other cells of x are not read."""
    v = wide(to.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = read_masked(context, builder, x, args[2], args[3], lanes_of(builder, v, args[4]), v)
        write(context, builder, to, args[0], args[1], value, v)
        return context.get_dummy_value()

    return types.void(to, types.intp, x, types.intp, types.int64), emit


@intrinsic
def copy_even(typing: Any, to: Any, i: Any, x: Any, j: Any, bits: Any) -> Any:
    """A whole vector at to[i]: x[j], x[j + 2], … Of two vectors of x, the cells whose bit is set are read."""
    v = wide(to.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(context, builder, to, args[0], args[1], read_even(context, builder, x, args[2], args[3], args[4], v), v)
        return context.get_dummy_value()

    return types.void(to, types.intp, x, types.intp, types.int64), emit


@intrinsic
def copy_fourth(typing: Any, to: Any, i: Any, x: Any, j: Any, bits: Any) -> Any:
    """A whole vector at to[i]: x[j], x[j + 4], … Of four vectors of x, the cells whose bit is set are read."""
    v = wide(to.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        order = ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), list(range(0, 2 * v.lanes, 2)))
        halves = [
            read_even(context, builder, x, args[2], builder.add(args[3], INDEX(n)), builder.lshr(args[4], INDEX(n)), v)
            for n in (0, 2 * v.lanes)
        ]
        write(context, builder, to, args[0], args[1], builder.shuffle_vector(*halves, order), v)
        return context.get_dummy_value()

    return types.void(to, types.intp, x, types.intp, types.int64), emit


# --- stores ------------------------------------------------------------------------------------------------------


@intrinsic
def store_tile(typing: Any, to: Any, i: Any, value: Any) -> Any:
    """to[i], to[i + 1], … = the vector."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(context, builder, to, args[0], args[1], args[2], value)
        return context.get_dummy_value()

    return types.void(to, types.intp, value), emit


@intrinsic
def store_some(typing: Any, a: Any, i: Any, value: Any, bits: Any) -> Any:
    """a[i], a[i + 1], … = the vector where the bit is set."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write_masked(context, builder, a, args[0], args[1], args[2], lanes_of(builder, value, args[3]), value)
        return context.get_dummy_value()

    return types.void(a, types.intp, value, types.int64), emit


@intrinsic
def put_value(typing: Any, y: Any, i: Any, value: Any, extra: Any, least: Any, most: Any, bits: Any) -> Any:
    """y[i], … = the vector + extra where the bit is set, from `least` to `most`; gives the strange lanes (see HUGE) before."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = lanes_of(builder, value, args[6])
        extra, low, high = (spread(builder, each, value.lanes) for each in args[3:6])
        total = builder.fadd(args[2], extra)
        write_masked(context, builder, y, args[0], args[1], clip(builder, total, low, high), mask, value)
        return strange_of(builder, total, mask, value)

    return types.int64(y, types.intp, value, y.dtype, y.dtype, y.dtype, types.int64), emit


class Put(NamedTuple):
    """How cells are put: with `extra`, added to y unless it is `fresh`, with what stands `beside` if `joined`; and limits."""

    extra: Any
    fresh: bool
    beside: Any
    joined: bool
    least: Any
    most: Any


def _put(name: str, doc: str, step: int) -> Any:
    """An intrinsic that puts a vector of a tile into cells that are `step`, 1 or 2, apart."""

    def typed(typing: Any, y: Any, tile: Any, how: Any, bits: Any) -> Any:
        v = wide(y.dtype)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            extra, fresh, beside, joined, *limits = (builder.extract_value(args[2], i) for i in range(6))
            added, joined = builder.not_(builder.trunc(fresh, ir.IntType(1))), builder.trunc(joined, ir.IntType(1))
            extra, low, high = (spread(builder, each, v.lanes) for each in (extra, *limits))
            value, strange = builder.fadd(read(context, builder, tile, args[1], INDEX(0), v), extra), INDEX(0)
            for half in range(step):
                order = [(half * v.lanes + lane) // step for lane in range(v.lanes)]
                part = builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), order))
                at, mask = INDEX(half * v.lanes), lanes_of(builder, v, builder.lshr(args[3], INDEX(half * v.lanes)))
                total = cgutils.alloca_once_value(builder, part)
                with builder.if_then(added):
                    there = read_masked(context, builder, y, args[0], at, mask, v)
                    builder.store(builder.fadd(there, part), total)
                found = builder.load(total)
                strange = builder.or_(strange, strange_of(builder, found, mask, v))
                with builder.if_then(joined):
                    there = read_masked(context, builder, how[2], beside, at, mask, v)
                    builder.store(builder.fadd(found, there), total)
                write_masked(context, builder, y, args[0], at, clip(builder, builder.load(total), low, high), mask, v)
            return strange

        return types.int64(y, tile, how, types.int64), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


put_part = _put(
    "put_part",
    "y[0], … = tile[0], … where the bit is set, as a `Put` says. Gives the strange lanes (see HUGE) before what stands beside\n"
    "and before limits.",
    1,
)
put_apart = _put("put_apart", "As `put_part` into y[0], y[2], …; bits are those of the cells of y.", 2)


# --- strange sums ------------------------------------------------------------------------------------------------


@intrinsic
def strange_lanes(typing: Any, a: Any, i: Any, bits: Any) -> Any:
    """The strange ones (see HUGE) of the lanes a[i], a[i + 1], … whose bit is set."""
    v = wide(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = lanes_of(builder, v, args[2])
        return strange_of(builder, read_masked(context, builder, a, args[0], args[1], mask, v), mask, v)

    return types.int64(a, types.intp, types.int64), emit


@intrinsic
def strange_cell(typing: Any, value: Any) -> Any:
    """Whether a number is strange, as if it were the first lane."""
    v = Vec(value, 1)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return strange_of(builder, spread(builder, args[0], 1), lanes_of(builder, v, INDEX(1)), v)

    return types.int64(value), emit
