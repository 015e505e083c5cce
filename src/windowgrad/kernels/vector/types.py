"""The type of a vector, for Numba and for LLVM, and the few steps that emitting an instruction takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from windowgrad.kernels.vector.half import Half, Halves, turned

BYTES = 32
"""The width of a vector. LLVM legalises it on every CPU; all loops over vectors follow from this one constant."""


def lanes_of(itemsize: int) -> int:
    """How many numbers of `itemsize` bytes a vector has; in kernels, `ops.lanes` says it of an array."""
    return BYTES // itemsize


class Vec(types.Type):  # type: ignore[misc]  # numba is untyped
    """The type of a vector: `lanes` values of `dtype` (booleans are one bit each: a mask)."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vec({dtype}, {lanes})")


@register_model(Vec)
class VecModel(models.PrimitiveModel):  # type: ignore[misc]  # numba is untyped
    def __init__(self, dmm: Any, fe_type: Vec) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(element(fe_type.dtype), fe_type.lanes))


def element(dtype: Any) -> Any:
    if dtype == types.boolean:
        return ir.IntType(1)
    if isinstance(dtype, types.Float):
        return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()
    return ir.IntType(dtype.bitwidth)


def vec(dtype: Any) -> Vec:
    """The vector that fills a register with `dtype`; floats of 16 bits are float32 in registers."""
    dtype = types.float32 if isinstance(dtype, Half) else dtype
    return Vec(dtype, lanes_of(dtype.bitwidth // 8))


def kind(v: Any) -> str:
    """Which instruction a dtype takes: f(loat), i(nteger, signed) or u(nsigned); h(alf) of a float of 16 bits: none."""
    dtype = v.dtype
    if isinstance(dtype, types.Float):
        return "f"
    return "h" if isinstance(dtype, Half) else "i" if dtype.signed else "u"


def llvm(v: Any) -> Any:
    return ir.VectorType(element(v.dtype), v.lanes)


def constant(v: Any, value: Any) -> Any:
    return ir.Constant(llvm(v), [value] * v.lanes)


def lane_order(lanes: Sequence[int]) -> Any:
    """The lanes that a shuffle takes, as its constant."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))


def call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    """An LLVM intrinsic such as llvm.fma.v8f32."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args)


def suffix(v: Any) -> str:
    return f"v{v.lanes}{'f' if kind(v) == 'f' else 'i'}{v.dtype.bitwidth}"


def pointer(context: Any, builder: Any, array_type: Any, array: Any, i: Any, v: Any) -> Any:
    """Where a[i] stands, as the address of a vector; `a` is an array or the address of one."""
    is_address = isinstance(array_type, (types.CPointer, Halves))
    data = array if is_address else context.make_array(array_type)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [i]), llvm(v).as_pointer())


def held_in(array_type: Any, v: Vec) -> Vec | None:
    """As what the lanes of `v` stand in memory, if they are floats of 16 bits there."""
    other = isinstance(array_type, Halves) and v.dtype != array_type.dtype
    return Vec(array_type.dtype, v.lanes) if other else None


def as_held(builder: Any, array_type: Any, x: Any, v: Vec) -> tuple[Any, Vec]:
    """The lanes of `v` as they stand in the memory of an array, and as what."""
    held = held_in(array_type, v)
    return (x, v) if held is None else (turned(builder, x, v.dtype, held.dtype), held)


def read(context: Any, builder: Any, array_type: Any, array: Any, i: Any, v: Any) -> Any:
    """The lanes of `v` from a[i] on."""
    if (held := held_in(array_type, v)) is not None:
        return turned(builder, read(context, builder, array_type, array, i, held), held.dtype, v.dtype)
    loaded = builder.load(pointer(context, builder, array_type, array, i, v), typ=llvm(v))
    loaded.align = v.dtype.bitwidth // 8
    return loaded


def read_first(context: Any, builder: Any, array_type: Any, array: Any, i: Any, n: Any, rest: Any, v: Any) -> Any:
    """The first n lanes of `v` from a[i] on, the others from `rest`."""
    return read_some(context, builder, array_type, array, i, first_lanes(builder, v, n), rest, v)


def read_some(context: Any, builder: Any, array_type: Any, array: Any, i: Any, mask: Any, rest: Any, v: Any) -> Any:
    """The lanes of `v` from a[i] on where the mask is set, the others from `rest`; only what is set must be memory."""
    if (held := held_in(array_type, v)) is not None:
        some = read_some(context, builder, array_type, array, i, mask, constant(held, 0), held)
        return builder.select(mask, turned(builder, some, held.dtype, v.dtype), rest)
    align = ir.Constant(ir.IntType(32), v.dtype.bitwidth // 8)
    arguments = [pointer(context, builder, array_type, array, i, v), align, mask, rest]
    return call(builder, f"llvm.masked.load.{suffix(v)}.p0", llvm(v), arguments)


def write_some(builder: Any, x: Any, place: Any, mask: Any, v: Any) -> None:
    """The lanes of `x` to this address where the mask is set; only what is set must be memory."""
    align = ir.Constant(ir.IntType(32), v.dtype.bitwidth // 8)
    call(builder, f"llvm.masked.store.{suffix(v)}.p0", ir.VoidType(), [x, place, align, mask])


def fetch(builder: Any, place: Any) -> None:
    """Brings the line of an address into the nearest cache. What is no memory is left alone."""
    to_read, near, data = (ir.IntType(32)(n) for n in (0, 3, 1))
    place = builder.bitcast(place, ir.IntType(8).as_pointer())
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [place, to_read, near, data])


def first_lanes(builder: Any, v: Any, n: Any) -> Any:
    """The mask of the first n lanes."""
    lanes = ir.Constant(ir.VectorType(ir.IntType(64), v.lanes), list(range(v.lanes)))
    return builder.icmp_signed("<", lanes, spread(builder, n, v.lanes))


def spread(builder: Any, scalar: Any, lanes: int) -> Any:
    """A scalar in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    )
