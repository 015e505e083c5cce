"""Moving cells between an array and a panel: a vector under a mask, every second or fourth cell."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.tiles import wide
from windowgrad.kernels.vector.types import Vec, call, constant, llvm, pointer, read, spread, suffix

INDEX = ir.IntType(64)
HUGE = 32
"""Strange lanes are told as bits: below this one those that are zero or denormal, from it on those that are not finite."""


def lanes_of(builder: Any, v: Vec, bits: Any) -> Any:
    """The mask of the lanes whose bit is set."""
    return builder.bitcast(builder.trunc(bits, ir.IntType(v.lanes)), ir.VectorType(ir.IntType(1), v.lanes))


def read_masked(context: Any, builder: Any, array_type: Any, array: Any, i: Any, mask: Any, v: Vec) -> Any:
    align = ir.Constant(ir.IntType(32), v.dtype.bitwidth // 8)
    arguments = [pointer(context, builder, array_type, array, i, v), align, mask, constant(v, 0.0)]
    return call(builder, f"llvm.masked.load.{suffix(v)}.p0", llvm(v), arguments)


def write(context: Any, builder: Any, array_type: Any, array: Any, i: Any, value: Any, v: Vec) -> None:
    builder.store(value, pointer(context, builder, array_type, array, i, v)).align = v.dtype.bitwidth // 8


def write_masked(context: Any, builder: Any, array_type: Any, array: Any, i: Any, value: Any, mask: Any, v: Vec) -> None:
    align = ir.Constant(ir.IntType(32), v.dtype.bitwidth // 8)
    arguments = [value, pointer(context, builder, array_type, array, i, v), align, mask]
    call(builder, f"llvm.masked.store.{suffix(v)}.p0", ir.VoidType(), arguments)


def read_even(context: Any, builder: Any, array_type: Any, array: Any, i: Any, bits: Any, v: Vec) -> Any:
    low = read_masked(context, builder, array_type, array, i, lanes_of(builder, v, bits), v)
    rest = lanes_of(builder, v, builder.lshr(bits, INDEX(v.lanes)))
    high = read_masked(context, builder, array_type, array, builder.add(i, INDEX(v.lanes)), rest, v)
    order = ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), list(range(0, 2 * v.lanes, 2)))
    return builder.shuffle_vector(low, high, order)


@intrinsic
def peek(typing: Any, a: Any, i: Any) -> Any:
    """a[i], where i is not negative: Numba's own indexing looks, every time."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(context.make_array(a)(context, builder, value=args[0]).data, [args[1]]))

    return a.dtype(a, types.intp), emit


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


@intrinsic
def store_tile(typing: Any, to: Any, i: Any, value: Any) -> Any:
    """to[i], to[i + 1], … = the vector."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(context, builder, to, args[0], args[1], args[2], value)
        return context.get_dummy_value()

    return types.void(to, types.intp, value), emit


def _strange(builder: Any, value: Any, mask: Any, v: Vec) -> Any:
    """The bits of the lanes that are below the normal numbers, and from bit HUGE on of those that are infinite or NaN."""
    digits, width = (23, 32) if v.dtype.bitwidth == 32 else (52, 64)
    whole = ir.VectorType(ir.IntType(width), v.lanes)
    sign, least, most = (1 << width - 1) - 1, 1 << digits, ((1 << width - 1) - 1) >> digits << digits
    size = builder.and_(builder.bitcast(value, whole), ir.Constant(whole, [sign] * v.lanes))
    small = builder.icmp_unsigned("<", size, ir.Constant(whole, [least] * v.lanes))
    huge = builder.icmp_unsigned(">=", size, ir.Constant(whole, [most] * v.lanes))
    low, high = (builder.zext(builder.bitcast(builder.and_(mask, odd), ir.IntType(v.lanes)), INDEX) for odd in (small, huge))
    return builder.or_(low, builder.shl(high, INDEX(HUGE)))


@intrinsic
def strange_lanes(typing: Any, a: Any, i: Any, bits: Any) -> Any:
    """The strange ones (see HUGE) of the lanes a[i], a[i + 1], … whose bit is set."""
    v = wide(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = lanes_of(builder, v, args[2])
        return _strange(builder, read_masked(context, builder, a, args[0], args[1], mask, v), mask, v)

    return types.int64(a, types.intp, types.int64), emit


@intrinsic
def put_value(typing: Any, y: Any, i: Any, value: Any, extra: Any, bits: Any) -> Any:
    """y[i], … = the vector + extra where the bit is set; gives the strange lanes (see HUGE)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = lanes_of(builder, value, args[4])
        total = builder.fadd(args[2], spread(builder, args[3], value.lanes))
        write_masked(context, builder, y, args[0], args[1], total, mask, value)
        return _strange(builder, total, mask, value)

    return types.int64(y, types.intp, value, y.dtype, types.int64), emit


@intrinsic
def put_part(typing: Any, y: Any, i: Any, tile: Any, j: Any, extra: Any, bits: Any) -> Any:
    """y[i], … = tile[j] + extra, … where the bit is set; gives the strange lanes (see HUGE)."""
    v = wide(y.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = lanes_of(builder, v, args[5])
        value = builder.fadd(read(context, builder, tile, args[2], args[3], v), spread(builder, args[4], v.lanes))
        write_masked(context, builder, y, args[0], args[1], value, mask, v)
        return _strange(builder, value, mask, v)

    return types.int64(y, types.intp, tile, types.intp, y.dtype, types.int64), emit


@intrinsic
def add_part(typing: Any, y: Any, i: Any, tile: Any, j: Any, extra: Any, bits: Any) -> Any:
    """The same, added to what stands there."""
    v = wide(y.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = lanes_of(builder, v, args[5])
        value = builder.fadd(read(context, builder, tile, args[2], args[3], v), spread(builder, args[4], v.lanes))
        value = builder.fadd(read_masked(context, builder, y, args[0], args[1], mask, v), value)
        write_masked(context, builder, y, args[0], args[1], value, mask, v)
        return _strange(builder, value, mask, v)

    return types.int64(y, types.intp, tile, types.intp, y.dtype, types.int64), emit


def _apart(name: str, doc: str, adds: bool) -> Any:
    def typed(typing: Any, y: Any, i: Any, tile: Any, j: Any, extra: Any, bits: Any) -> Any:
        v = wide(y.dtype)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.fadd(read(context, builder, tile, args[2], args[3], v), spread(builder, args[4], v.lanes))
            strange = INDEX(0)
            for half in range(2):
                lanes = [(half * v.lanes + lane) // 2 for lane in range(v.lanes)]
                order = ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), lanes)
                mask = lanes_of(builder, v, builder.lshr(args[5], INDEX(half * v.lanes)))
                at, part = builder.add(args[1], INDEX(half * v.lanes)), builder.shuffle_vector(value, value, order)
                if adds:
                    part = builder.fadd(read_masked(context, builder, y, args[0], at, mask, v), part)
                write_masked(context, builder, y, args[0], at, part, mask, v)
                strange = builder.or_(strange, _strange(builder, part, mask, v))
            return strange

        return types.int64(y, types.intp, tile, types.intp, y.dtype, types.int64), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


put_apart = _apart(
    "put_apart", "y[i], y[i + 2], … = tile[j] + extra, … where the bit of the cell of y is set; as `put_part`.", False
)
add_apart = _apart("add_apart", "The same, added to what stands there.", True)

EVEN = 0x5555555555555555
"""The bits of every second cell."""


@helper
def interval(low: int, high: int) -> int:
    """The bits from `low` to `high`; none if it is empty."""
    return ((1 << high) - 1) & ~((1 << low) - 1) if low < high else 0
