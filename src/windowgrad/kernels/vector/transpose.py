"""Rows and columns of a matrix: a square of it turned around, a part of one copied."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.masked import INDEX, write
from windowgrad.kernels.vector.tiles import ROWS
from windowgrad.kernels.vector.types import Vec, constant, read


def turned(builder: Any, rows: list[Any], v: Vec) -> list[Any]:
    """The columns of a square of vectors: pairs of rows, ever further apart, exchange their halves."""
    step = 1
    while step < v.lanes:
        low = [i if not i & step else v.lanes + i - step for i in range(v.lanes)]
        high = [i + step if not i & step else v.lanes + i for i in range(v.lanes)]
        orders = [ir.Constant(ir.VectorType(ir.IntType(32), v.lanes), order) for order in (low, high)]
        done = list(rows)
        for i in range(v.lanes):
            if not i & step:
                for at, order in zip((i, i + step), orders, strict=True):
                    done[at] = builder.shuffle_vector(rows[i], rows[i + step], order)
        rows, step = done, 2 * step
    return rows


def _square(name: str, doc: str, adds: bool) -> Any:
    def typed(typing: Any, to: Any, i: Any, pitch: Any, x: Any, j: Any, stride: Any) -> Any:
        v = Vec(to.dtype, ROWS)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            into, first, pitch, source, start, stride = args
            places = [builder.add(start, builder.mul(stride, INDEX(r))) for r in range(ROWS)]
            columns = turned(builder, [read(context, builder, x, source, at, v) for at in places], v)
            for r, column in enumerate(columns):
                at = builder.add(first, builder.mul(pitch, INDEX(r)))
                if adds:
                    column = builder.fadd(read(context, builder, to, into, at, v), column)
                write(context, builder, to, into, at, column, v)
            return context.get_dummy_value()

        return types.void(to, types.intp, types.intp, x, types.intp, types.intp), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


turn = _square("turn", "to[i + r·pitch + c] = x[j + c·stride + r] for ROWS rows and columns.", False)
turn_add = _square("turn_add", "to[i + r·pitch + c] += x[j + c·stride + r] for ROWS rows and columns.", True)


@intrinsic
def copy_row(typing: Any, to: Any, i: Any, x: Any, j: Any) -> Any:
    """to[i], … = x[j], … for ROWS cells."""
    v = Vec(to.dtype, ROWS)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(context, builder, to, args[0], args[1], read(context, builder, x, args[2], args[3], v), v)
        return context.get_dummy_value()

    return types.void(to, types.intp, x, types.intp), emit


@intrinsic
def copy_column(typing: Any, to: Any, i: Any, x: Any, j: Any, stride: Any) -> Any:
    """to[i], … = x[j], x[j + stride], … for ROWS cells."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v = Vec(to.dtype, ROWS)
        data, column = context.make_array(x)(context, builder, value=args[2]).data, constant(v, 0.0)
        for r in range(ROWS):
            cell = builder.load(builder.gep(data, [builder.add(args[3], builder.mul(args[4], INDEX(r)))]))
            column = builder.insert_element(column, cell, ir.IntType(32)(r))
        write(context, builder, to, args[0], args[1], column, v)
        return context.get_dummy_value()

    return types.void(to, types.intp, x, types.intp, types.intp), emit


@helper
def turn_some(to: Any, i: int, pitch: int, x: Any, j: int, stride: int, rows: int, columns: int) -> None:
    """to[i + r·pitch + c] = x[j + c·stride + r] for so many rows and columns."""
    for r in range(rows):
        for c in range(columns):
            to[i + r * pitch + c] = x[j + c * stride + r]
