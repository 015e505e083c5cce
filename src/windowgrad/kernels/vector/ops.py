"""Vectors for Numba kernels: one LLVM vector per value, one instruction or so per function.

A kernel is ordinary Python over flat arrays: `store(y, j, maximum(load(x, i), load(x, i + width)))`. A vector has as many lanes
as its dtype has in `types.BYTES`; LLVM legalises that on every CPU. `+ − * /` and comparisons work on vectors of one type; a
comparison gives a mask for `select` and `anywhere`. Nothing here checks bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin

from windowgrad.kernels.vector.half import Halves
from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import (
    Vec,
    call,
    constant,
    first_lanes,
    kind,
    llvm,
    pointer,
    read,
    read_first,
    spread,
    suffix,
    vec,
    write_some,
)

# --- memory ------------------------------------------------------------------------------------------------------


@intrinsic
def address(typing: Any, a: Any) -> Any:
    """Where the cells of an array stand. To a helper it is one word: an array is seven, and its references are counted.

    It is indexed like the array, from 0 on, and must not outlive it: of an array that a kernel makes, Numba frees the memory
    after the last line that names the array, so `alive` must name it behind the last use of its address. None stays None.
    """
    if a is types.none:
        return a(a), lambda context, builder, signature, args: context.get_dummy_value()

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, value=args[0]).data

    return types.CPointer(a.dtype)(a), emit


@intrinsic
def alive(typing: Any, a: Any) -> Any:
    """Does nothing, and so keeps the array up to here."""
    return types.void(a), lambda context, builder, signature, args: context.get_dummy_value()


@intrinsic
def later(typing: Any, a: Any, i: Any) -> Any:
    """The address of a[i]."""
    return a(a, types.intp), lambda context, builder, signature, args: builder.gep(args[0], [args[1]])


@intrinsic
def lanes(typing: Any, a: Any) -> Any:
    """How many cells of the array or address `a` a vector has, or how many lanes the vector `a` has."""
    n = a.lanes if isinstance(a, Vec) else vec(a.dtype).lanes
    return types.intp(a), lambda context, builder, signature, args: context.get_constant(types.intp, n)


@intrinsic
def load(typing: Any, a: Any, i: Any) -> Any:
    """The vector a[i], a[i + 1], …"""
    v = vec(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read(context, builder, signature.args[0], args[0], args[1], v)

    return v(a, types.intp), emit


def stored_as(a: Any, x: Any) -> Vec | None:
    """The vector that is stored where the lanes of x are: their bits, or what they are rounded to; None if neither fits."""
    if not isinstance(x, Vec):
        return None
    if isinstance(a, Halves) and x.dtype == types.float32:
        return Vec(a.dtype, x.lanes)
    return x if x.dtype.bitwidth == a.dtype.bitwidth else None


@intrinsic
def store(typing: Any, a: Any, i: Any, x: Any) -> Any:
    """a[i], a[i + 1], … = x, whose lanes are as wide as the array's cells; their bits are stored as they are.

    Lanes of float32 are rounded to floats of 16 bits.
    """
    if (v := stored_as(a, x)) is None:
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = pointer(context, builder, signature.args[0], args[0], args[1], v)
        builder.store(converted(builder, args[2], x, v), where).align = a.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(a, types.intp, x), emit


@intrinsic
def load_part(typing: Any, a: Any, i: Any, n: Any, rest: Any) -> Any:
    """The first n lanes from memory, the others from the vector `rest`; nothing past them is read."""
    if rest != vec(a.dtype):
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read_first(context, builder, signature.args[0], args[0], args[1], args[2], args[3], rest)

    return rest(a, types.intp, types.intp, rest), emit


@intrinsic
def store_part(typing: Any, a: Any, i: Any, x: Any, n: Any) -> Any:
    """The first n lanes to memory, as `store`; nothing past them is written."""
    if (v := stored_as(a, x)) is None:
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = pointer(context, builder, signature.args[0], args[0], args[1], v)
        write_some(builder, converted(builder, args[2], x, v), where, first_lanes(builder, v, args[3]), v)
        return context.get_dummy_value()

    return types.void(a, types.intp, x, types.intp), emit


@intrinsic
def load_as(typing: Any, a: Any, i: Any, like: Any) -> Any:
    """a[i], a[i + 1], … converted to the dtype of the array `like`: as many as fill one of its vectors."""
    v = vec(like.dtype)
    old = Vec(a.dtype, v.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return converted(builder, read(context, builder, signature.args[0], args[0], args[1], old), old, v)

    return v(a, types.intp, like), emit


@intrinsic
def load_beside(typing: Any, a: Any, i: Any, like: Any) -> Any:
    """a[i], a[i + 1], … as they are, as many as a vector of the array `like` has lanes."""
    v = Vec(a.dtype, vec(like.dtype).lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read(context, builder, signature.args[0], args[0], args[1], v)

    return v(a, types.intp, like), emit


@intrinsic
def load_part_as(typing: Any, a: Any, i: Any, n: Any, like: Any) -> Any:
    """The first n of them, the other lanes 0; nothing past them is read."""
    v = vec(like.dtype)
    old = Vec(a.dtype, v.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        part = read_first(context, builder, signature.args[0], args[0], args[1], args[2], constant(old, 0), old)
        return converted(builder, part, old, v)

    return v(a, types.intp, types.intp, like), emit


@intrinsic
def splat(typing: Any, a: Any, x: Any) -> Any:
    """The scalar x in every lane, as the dtype of the array or vector `a`."""
    v = a if isinstance(a, Vec) else vec(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return spread(builder, context.cast(builder, args[1], signature.args[1], v.dtype), v.lanes)

    return v(a, x), emit


# --- arithmetic --------------------------------------------------------------------------------------------------


def _binary(name: str, doc: str, result: Callable[[Any], Any] = lambda v: v, **instructions: Callable[..., Any]) -> Any:
    """An intrinsic on two vectors of one type, with its instruction for floats, signed and unsigned integers."""

    def typed(typing: Any, a: Any, b: Any) -> Any:
        if not (isinstance(a, Vec) and a == b):
            return None

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return instructions[kind(a)](builder, *args)

        return result(a)(a, b), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


def _mask(v: Vec) -> Vec:
    return Vec(types.boolean, v.lanes)


def _max(builder: Any, a: Any, b: Any, kind: str) -> Any:
    if kind != "f":
        compare = builder.icmp_signed if kind == "i" else builder.icmp_unsigned
        return builder.select(compare(">", b, a), b, a)
    beats = builder.fcmp_ordered(">", b, a)
    appears = builder.and_(builder.fcmp_unordered("uno", b, b), builder.fcmp_ordered("ord", a, a))
    return builder.select(builder.or_(beats, appears), b, a)


add = _binary("add", "a + b", f=ir.IRBuilder.fadd, i=ir.IRBuilder.add, u=ir.IRBuilder.add)
subtract = _binary("subtract", "a − b", f=ir.IRBuilder.fsub, i=ir.IRBuilder.sub, u=ir.IRBuilder.sub)
multiply = _binary("multiply", "a · b", f=ir.IRBuilder.fmul, i=ir.IRBuilder.mul, u=ir.IRBuilder.mul)
divide = _binary("divide", "a ÷ b", f=ir.IRBuilder.fdiv, i=ir.IRBuilder.sdiv, u=ir.IRBuilder.udiv)
maximum = _binary(
    "maximum",
    "The greater lane, a if they are equal; NaN is the greatest, and of two NaN the first.",
    f=lambda builder, a, b: _max(builder, a, b, "f"),
    i=lambda builder, a, b: _max(builder, a, b, "i"),
    u=lambda builder, a, b: _max(builder, a, b, "u"),
)
larger = _binary(
    "larger",
    "The greater lane, a if they are equal; one instruction, for vectors without NaN.",
    f=lambda builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a),
    i=lambda builder, a, b: _max(builder, a, b, "i"),
    u=lambda builder, a, b: _max(builder, a, b, "u"),
)


def _beats(builder: Any, a: Any, b: Any) -> Any:
    """Two comparisons: not less or equal, which any NaN is, and b is none."""
    return builder.and_(builder.fcmp_ordered("ord", b, b), builder.fcmp_unordered(">", a, b))


beats = _binary(
    "beats",
    "The mask of the lanes where a comes before b in the order of maximum: it is greater, or NaN and b a number.",
    _mask,
    f=_beats,
    i=lambda builder, a, b: builder.icmp_signed(">", a, b),
    u=lambda builder, a, b: builder.icmp_unsigned(">", a, b),
)


def _comparison(name: str, symbol: str) -> Any:
    floats = ir.IRBuilder.fcmp_unordered if symbol == "!=" else ir.IRBuilder.fcmp_ordered
    return _binary(
        name,
        f"The mask a {symbol} b; NaN is equal to nothing, as in NumPy.",
        _mask,
        f=lambda builder, a, b: floats(builder, symbol, a, b),
        i=lambda builder, a, b: builder.icmp_signed(symbol, a, b),
        u=lambda builder, a, b: builder.icmp_unsigned(symbol, a, b),
    )


greater, less, equal, not_equal = (
    _comparison(*c) for c in (("greater", ">"), ("less", "<"), ("equal", "=="), ("not_equal", "!="))
)

unordered = _binary(
    "unordered",
    "The mask of the lanes where a or b is NaN.",
    _mask,
    f=lambda builder, a, b: builder.fcmp_unordered("uno", a, b),
    i=lambda builder, a, b: ir.Constant(ir.VectorType(ir.IntType(1), a.type.count), None),
    u=lambda builder, a, b: ir.Constant(ir.VectorType(ir.IntType(1), a.type.count), None),
)


def _operator(symbol: Any, function: Any) -> None:
    """`a + b` for vectors, by the intrinsic. (An `overload` would be one more function to compile for each dtype.)"""

    @infer_global(symbol)
    class OnVectors(AbstractTemplate):  # type: ignore[misc]  # numba is untyped
        def generic(self, args: Any, kws: Any) -> Any:
            found = function._defn(self.context, *args) if len(args) == 2 else None
            return found and found[0]

    @lower_builtin(symbol, Vec, Vec)
    def on_vectors(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return function._defn(context.typing_context, *signature.args)[1](context, builder, signature, args)


for _symbol, _function in (
    (operator.add, add),
    (operator.sub, subtract),
    (operator.mul, multiply),
    (operator.truediv, divide),
    (operator.gt, greater),
    (operator.lt, less),
    (operator.eq, equal),
    (operator.ne, not_equal),
):
    _operator(_symbol, _function)


@intrinsic
def negative(typing: Any, x: Any) -> Any:
    """−x: floats of the other sign, zeros and NaN too."""
    if kind(x) != "f":
        return None
    return x(x), lambda context, builder, signature, args: builder.fneg(*args)


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a · b + c, rounded once (floats)."""
    if kind(a) != "f":
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call(builder, f"llvm.fma.{suffix(a)}", llvm(a), list(args))

    return a(a, a, a), emit


@intrinsic
def select(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """a where the mask is set, else b."""
    return a(mask, a, a), lambda context, builder, signature, args: builder.select(*args)


@intrinsic
def anywhere(typing: Any, mask: Any) -> Any:
    """Whether any lane of the mask is set."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(mask.lanes))
        return builder.zext(builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)), ir.IntType(1))

    return types.boolean(mask), emit


@intrinsic
def is_zero(typing: Any, x: Any) -> Any:
    """The mask of the lanes that are 0.0 or −0.0. Integers have none: they have one zero only."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fcmp_ordered("==", args[0], constant(x, 0.0)) if kind(x) == "f" else constant(_mask(x), 0)

    return _mask(x)(x), emit


@intrinsic
def is_negative_zero(typing: Any, x: Any) -> Any:
    """The mask of the lanes that are −0.0. Integers have none."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if kind(x) != "f":
            return constant(_mask(x), 0)
        whole = Vec(types.Integer.from_bitwidth(x.dtype.bitwidth, True), x.lanes)
        return builder.icmp_signed("==", builder.bitcast(args[0], llvm(whole)), constant(whole, -(1 << x.dtype.bitwidth - 1)))

    return _mask(x)(x), emit


@intrinsic
def not_finite(typing: Any, x: Any) -> Any:
    """The mask of the lanes that are NaN or infinite: those that less themselves are not 0."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if kind(x) != "f":
            return constant(_mask(x), 0)
        return builder.fcmp_unordered("uno", builder.fsub(*args, *args), constant(x, 0.0))

    return _mask(x)(x), emit


@intrinsic
def either(typing: Any, a: Any, b: Any) -> Any:
    """The mask a or b."""
    return a(a, a), lambda context, builder, signature, args: builder.or_(*args)
