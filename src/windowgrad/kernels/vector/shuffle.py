"""Vectors for Numba kernels, continued: lanes in another order, of another type, or seen as their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.half import turned
from windowgrad.kernels.vector.types import Vec, constant, kind, llvm, read, read_first, spread


def _shuffle(name: str, doc: str, lanes: Callable[[int], list[int]]) -> Any:
    """An intrinsic that picks its lanes from the pair a, b."""

    def typed(typing: Any, a: Any, b: Any) -> Any:
        order = ir.Constant(ir.VectorType(ir.IntType(32), a.lanes), lanes(a.lanes))
        return a(a, a), lambda context, builder, signature, args: builder.shuffle_vector(*args, order)

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


even = _shuffle("even", "Every second lane of a, b, from the first.", lambda n: list(range(0, 2 * n, 2)))
odd = _shuffle("odd", "Every second lane of a, b, from the second.", lambda n: list(range(1, 2 * n, 2)))
mixed_low = _shuffle(
    "mixed_low", "a[0], b[0], a[1], b[1], …: the first half.", lambda n: [i // 2 + n * (i % 2) for i in range(n)]
)
mixed_high = _shuffle(
    "mixed_high", "…, a[-1], b[-1]: the second half.", lambda n: [(n + i) // 2 + n * (i % 2) for i in range(n)]
)


@intrinsic
def mixed(typing: Any, a: Any, b: Any) -> Any:
    """a[0], b[0], a[1], b[1], …: twice as many lanes."""
    v = Vec(a.dtype, 2 * a.lanes)
    order = ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), [lane // 2 + a.lanes * (lane % 2) for lane in range(v.lanes)])
    return v(a, b), lambda context, builder, signature, args: builder.shuffle_vector(*args, order)


@intrinsic
def load_half(typing: Any, a: Any, i: Any, like: Any) -> Any:
    """a[i], a[i + 1], …, half as many as the vector `like` has lanes."""
    v = Vec(a.dtype, like.lanes // 2)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read(context, builder, a, args[0], args[1], v)

    return v(a, types.intp, like), emit


@intrinsic
def load_half_part(typing: Any, a: Any, i: Any, n: Any, like: Any) -> Any:
    """The first n of them, the other lanes 0; nothing past them is read."""
    v = Vec(a.dtype, like.lanes // 2)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read_first(context, builder, signature.args[0], args[0], args[1], args[2], constant(v, 0), v)

    return v(a, types.intp, types.intp, like), emit


@intrinsic
def convert(typing: Any, x: Any, like: Any) -> Any:
    """The lanes as numbers of the dtype of the array `like`, as many of them as before."""
    v = Vec(like.dtype, x.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return converted(builder, args[0], x, v)

    return v(x, like), emit


def converted(builder: Any, value: Any, old: Vec, new: Vec) -> Any:
    target, (a, b) = llvm(new), (kind(old), kind(new))
    if "h" in (a, b):
        return value if a == b else turned(builder, value, old.dtype, new.dtype)
    if a == b == "f" or (a != "f" and b != "f"):
        wider, same = new.dtype.bitwidth > old.dtype.bitwidth, new.dtype.bitwidth == old.dtype.bitwidth
        if same:
            return value
        if a == "f":
            return builder.fpext(value, target) if wider else builder.fptrunc(value, target)
        return (builder.sext if a == "i" else builder.zext)(value, target) if wider else builder.trunc(value, target)
    if b == "f":
        return (builder.sitofp if a == "i" else builder.uitofp)(value, target)
    return (builder.fptosi if b == "i" else builder.fptoui)(value, target)


@intrinsic
def sum_of_lanes(typing: Any, x: Any) -> Any:
    """The sum of the lanes of a float vector: the second half is added to the first, again and again."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, n = args[0], x.lanes
        while n > 1:
            n //= 2
            parts = [ir.Constant(ir.VectorType(ir.IntType(32), n), list(range(low, low + n))) for low in (0, n)]
            total = builder.fadd(*(builder.shuffle_vector(total, total, part) for part in parts))
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return x.dtype(x), emit


@intrinsic
def top_of_lanes(typing: Any, x: Any) -> Any:
    """The greatest of the lanes of a vector without NaN."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        top, n = args[0], x.lanes
        compare = {"f": builder.fcmp_ordered, "i": builder.icmp_signed, "u": builder.icmp_unsigned}[kind(x)]
        while n > 1:
            n //= 2
            parts = [ir.Constant(ir.VectorType(ir.IntType(32), n), list(range(low, low + n))) for low in (0, n)]
            a, b = (builder.shuffle_vector(top, top, part) for part in parts)
            top = builder.select(compare(">", b, a), b, a)
        return builder.extract_element(top, ir.Constant(ir.IntType(32), 0))

    return x.dtype(x), emit


@intrinsic
def set_lanes(typing: Any, mask: Any) -> Any:
    """The lanes of a mask as the lowest bits of a number."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(mask.lanes)), ir.IntType(64))

    return types.intp(mask), emit


@intrinsic
def lowest_bit(typing: Any, x: Any) -> Any:
    """The place of the lowest bit of a number that is set; there is one."""
    return types.intp(types.intp), lambda context, builder, signature, args: builder.cttz(args[0], ir.IntType(1)(1))


@intrinsic
def bits(typing: Any, x: Any) -> Any:
    """The lanes of a float vector as signed integers of the same bits."""
    v = Vec(types.Integer.from_bitwidth(x.dtype.bitwidth, True), x.lanes)
    return v(x), lambda context, builder, signature, args: builder.bitcast(args[0], llvm(v))


@intrinsic
def floats(typing: Any, x: Any) -> Any:
    """The lanes of a vector of 32- or 64-bit integers as floats of the same bits."""
    v = Vec(types.float32 if x.dtype.bitwidth == 32 else types.float64, x.lanes)
    return v(x), lambda context, builder, signature, args: builder.bitcast(args[0], llvm(v))


def _bitwise(name: str, doc: str, instruction: Callable[..., Any]) -> Any:
    """An intrinsic on a vector of integers and a scalar."""

    def typed(typing: Any, x: Any, n: Any) -> Any:
        if kind(x) == "f":
            return None

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            scalar = context.cast(builder, args[1], signature.args[1], x.dtype)
            return instruction(builder, args[0], spread(builder, scalar, x.lanes))

        return x(x, n), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


shift_left = _bitwise("shift_left", "The bits of each lane moved up by n.", ir.IRBuilder.shl)
shift_right = _bitwise("shift_right", "The bits of each lane moved down by n, zeros above them.", ir.IRBuilder.lshr)
masked = _bitwise("masked", "The bits of each lane that are set in n.", ir.IRBuilder.and_)
