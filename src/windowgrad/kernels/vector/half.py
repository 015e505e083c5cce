"""Floats of 16 bits in kernels: their type, their address, and what turns them into float32 and back.

Numba has neither float16 nor bfloat16. So arrays of them are seen as integers of 16 bits, and `cells` says of such an array
that it holds floats: its cells are read as float32, alone or as vectors, and what is written is rounded. Where the CPU has
instructions for float16, LLVM writes them; elsewhere it would call a library, and what a float32 of the same value looks like
follows from a few operations on integers instead, which every CPU has as vectors, as it does for bfloat16:

    float16 → float32    the fields of exponent and fraction stand 13 bits higher, the exponent counts from 127 and not from 15;
                         a subnormal number is found as (2⁻¹⁴ + itself) − 2⁻¹⁴, which is exact
    float32 → float16    half of a last place is added before the last 13 bits are cut off, which rounds to nearest, ties to
                         even; what becomes subnormal is rounded by an addition to 0.5, whose last place is that of a subnormal
    bfloat16             the upper half of a float32

All bits are those of NumPy's `astype`, but that instructions make a signalling NaN quiet. Measured on AVX-512: by
instructions, a mean of 2×2 windows of float16, channels last, takes 0.4 of the time.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model


def has_instructions(triple: str, features: str) -> bool:
    """Whether a CPU converts float16 by itself."""
    return "+f16c" in features.split(",") or triple.startswith(("aarch64", "arm64"))


INSTRUCTIONS = has_instructions(*operator.itemgetter(0, 2)(cpu_target.target_context.codegen().magic_tuple()))

FRACTION = 13
"""Bits of a fraction that float32 has more than float16."""

LEAST_NORMAL = (127 - 14) << 23
"""2⁻¹⁴ as a float32, the least normal float16."""

TOO_LARGE = (127 + 16) << 23
"""2¹⁶, beyond every float16."""

REBASED = (127 - 15) << 23
ONE_HALF, INFINITE = 126 << 23, 255 << 23


class Half(types.Type):  # type: ignore[misc]  # numba is untyped
    """The type of a float of 16 bits in memory."""

    bitwidth = 16

    def __init__(self, name: str) -> None:
        super().__init__(name=name)


class Halves(types.Type):  # type: ignore[misc]  # numba is untyped
    """The type of the address of such floats."""

    def __init__(self, dtype: Half) -> None:
        self.dtype = dtype
        super().__init__(name=f"Halves({dtype})")


FLOAT16, BFLOAT16 = Half("float16"), Half("bfloat16")
HELD = {types.uint16: FLOAT16, types.int16: BFLOAT16}
"""What an array of such integers holds, where `cells` is asked."""


@register_model(Half)
class HalfModel(models.PrimitiveModel):  # type: ignore[misc]  # numba is untyped
    def __init__(self, dmm: Any, fe_type: Half) -> None:
        super().__init__(dmm, fe_type, ir.IntType(16))


@register_model(Halves)
class HalvesModel(models.PrimitiveModel):  # type: ignore[misc]  # numba is untyped
    def __init__(self, dmm: Any, fe_type: Halves) -> None:
        super().__init__(dmm, fe_type, ir.IntType(16).as_pointer())


@intrinsic
def cells(typing: Any, a: Any) -> Any:
    """Where the cells of an array stand, as `ops.address`; of an array of 16-bit integers, as floats of 16 bits."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, value=args[0]).data

    return (Halves(HELD[a.dtype]) if a.dtype in HELD else types.CPointer(a.dtype))(a), emit


@intrinsic
def are_alike(typing: Any, a: Any, b: Any) -> Any:
    """Whether two addresses are of cells of one dtype."""
    return types.boolean(a, b), lambda context, builder, signature, args: ir.Constant(ir.IntType(1), int(a == b))


@intrinsic
def one_of(typing: Any, first: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """(a, i) if the first is wanted, else (b, j); always these if a is no address of the same dtype."""
    found = types.Tuple((b, types.intp))

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wanted, a_cells, i, b_cells, j = args
        if a == b:
            b_cells, j = builder.select(wanted, a_cells, b_cells), builder.select(wanted, i, j)
        return context.make_tuple(builder, found, [b_cells, j])

    return found(types.boolean, a, types.intp, b, types.intp), emit


# --- bits --------------------------------------------------------------------------------------------------------


def like(value: Any, element: Any) -> Any:
    """The type of a vector or a scalar like `value`, of other elements."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def constant(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def widened(builder: Any, value: Any, dtype: Half) -> Any:
    """The float32 of the same value as floats of 16 bits; vectors or scalars."""
    word, single = like(value, ir.IntType(32)), like(value, ir.FloatType())
    if dtype == FLOAT16 and INSTRUCTIONS:
        return builder.fpext(builder.bitcast(value, like(value, ir.HalfType())), single)
    h = builder.zext(value, word)

    def of(number: int) -> Any:
        return constant(word, number)

    if dtype == BFLOAT16:
        return builder.bitcast(builder.shl(h, of(16)), single)
    o = builder.shl(builder.and_(h, of(0x7FFF)), of(FRACTION))
    field = builder.and_(o, of(31 << 23))
    least = builder.bitcast(of(LEAST_NORMAL), single)
    small = builder.bitcast(builder.fsub(builder.bitcast(builder.add(o, of(LEAST_NORMAL)), single), least), word)
    by = builder.select(builder.icmp_unsigned("==", field, of(31 << 23)), of(2 * REBASED), of(REBASED))
    found = builder.select(builder.icmp_unsigned("==", field, of(0)), small, builder.add(o, by))
    return builder.bitcast(builder.or_(found, builder.shl(builder.and_(h, of(0x8000)), of(16))), single)


def narrowed(builder: Any, value: Any, dtype: Half) -> Any:
    """The nearest floats of 16 bits, of float32; vectors or scalars."""
    word, single = like(value, ir.IntType(32)), like(value, ir.FloatType())
    if dtype == FLOAT16 and INSTRUCTIONS:
        return builder.bitcast(builder.fptrunc(value, like(value, ir.HalfType())), like(value, ir.IntType(16)))
    f = builder.bitcast(value, word)

    def of(number: int) -> Any:
        return constant(word, number)

    def shifted(bits: Any, count: int) -> Any:
        return builder.lshr(bits, of(count))

    a = builder.and_(f, of(0x7FFFFFFF))
    if dtype == BFLOAT16:
        odd = builder.and_(shifted(a, 16), of(1))
        near = shifted(builder.add(builder.add(a, of(0x7FFF)), odd), 16)
        found = builder.select(builder.icmp_unsigned(">", a, of(INFINITE)), of(0x7FC0), near)
    else:
        odd = builder.and_(shifted(a, FRACTION), of(1))
        near = shifted(builder.add(builder.add(a, of((1 << FRACTION - 1) - 1 - REBASED)), odd), FRACTION)
        half = builder.bitcast(of(ONE_HALF), single)
        small = builder.sub(builder.bitcast(builder.fadd(builder.bitcast(a, single), half), word), of(ONE_HALF))
        found = builder.select(builder.icmp_unsigned("<", a, of(LEAST_NORMAL)), small, near)
        found = builder.select(builder.icmp_unsigned("<", a, of(TOO_LARGE)), found, of(0x7C00))
        rest = shifted(builder.and_(a, of(0x7FFFFF)), FRACTION)
        rest = builder.select(builder.icmp_unsigned("==", rest, of(0)), of(1), rest)
        found = builder.select(builder.icmp_unsigned(">", a, of(INFINITE)), builder.or_(rest, of(0x7C00)), found)
    sign = builder.and_(shifted(f, 16), of(0x8000))
    return builder.trunc(builder.or_(found, sign), like(value, ir.IntType(16)))


def turned(builder: Any, value: Any, old: Any, new: Any) -> Any:
    """Values between a float of 16 bits and a dtype of Numba, or two such dtypes; through float32."""
    if isinstance(old, Half):
        value, old = widened(builder, value, old), types.float32
    if isinstance(new, Half):
        return narrowed(builder, as_single(builder, value, old), new)
    if isinstance(new, types.Float):
        return value if new.bitwidth == 32 else builder.fpext(value, like(value, ir.DoubleType()))
    convert = builder.fptosi if new.signed else builder.fptoui
    return convert(value, like(value, ir.IntType(new.bitwidth)))


def as_single(builder: Any, value: Any, old: Any) -> Any:
    single = like(value, ir.FloatType())
    if isinstance(old, types.Float):
        return value if old.bitwidth == 32 else builder.fptrunc(value, single)
    return (builder.sitofp if old.signed else builder.uitofp)(value, single)


# --- one cell ----------------------------------------------------------------------------------------------------


@lower_cast(types.Integer, Half)
@lower_cast(types.Float, Half)
def to_half(context: Any, builder: Any, old: Any, new: Half, value: Any) -> Any:
    return turned(builder, value, old, new)


@infer_global(operator.getitem)
class CellOfHalves(AbstractTemplate):  # type: ignore[misc]  # numba is untyped
    """x[i] is a float32."""

    def generic(self, args: Any, kws: Any) -> Any:
        found = len(args) == 2 and isinstance(args[0], Halves) and isinstance(args[1], types.Integer)
        return signature(types.float32, args[0], types.intp) if found else None


@infer_global(operator.setitem)
class CellToHalves(AbstractTemplate):  # type: ignore[misc]  # numba is untyped
    """x[i] = a number, which is rounded."""

    def generic(self, args: Any, kws: Any) -> Any:
        found = len(args) == 3 and isinstance(args[0], Halves) and isinstance(args[2], (types.Integer, types.Float))
        return signature(types.none, args[0], types.intp, types.unliteral(args[2])) if found else None


def place_of(builder: Any, args: Any) -> Any:
    return builder.gep(args[0], [args[1]])


@lower_builtin(operator.getitem, Halves, types.Integer)
def cell(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return widened(builder, builder.load(place_of(builder, args)), signature.args[0].dtype)


@lower_builtin(operator.setitem, Halves, types.Integer, types.Number)
def set_cell(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    found = turned(builder, args[2], signature.args[2], signature.args[0].dtype)
    builder.store(found, place_of(builder, args))
    return context.get_dummy_value()
