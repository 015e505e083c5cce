"""Squares of ROWS × ROWS cells turned around in registers: rows of one matrix become columns of another.

Used where conv/gemm and conv/pointwise pack a matrix whose rows lie the other way in memory, and where pooling takes several
small planes at once, one in each lane. All places are addresses.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.masked import INDEX, one_by_one, read_masked, write, write_masked
from windowgrad.kernels.vector.registers import ROWS
from windowgrad.kernels.vector.tiles import Matrix, fields
from windowgrad.kernels.vector.types import Vec, constant, first_lanes, lane_order, llvm, read, vec


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
    def typed(typing: Any, to: Any, x: Any) -> Any:
        v = Vec(to[0].dtype, ROWS)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (into, pitch), (source, stride) = (fields(builder, matrix, 2) for matrix in args)
            rows = [read(context, builder, x[0], source, builder.mul(stride, INDEX(r)), v) for r in range(ROWS)]
            for r, column in enumerate(turned(builder, rows, v)):
                at = builder.mul(pitch, INDEX(r))
                if adds:
                    column = builder.fadd(read(context, builder, to[0], into, at, v), column)
                write(context, builder, to[0], into, at, column, v)
            return context.get_dummy_value()

        return types.void(to, x), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


turn = _square("turn", "to(r, c) = x(c, r), of two `Matrix`, for ROWS rows and columns.", False)
turn_add = _square("turn_add", "to(r, c) += x(c, r), of two `Matrix`, for ROWS rows and columns.", True)


def _planes(name: str, doc: str, out: bool, masked: bool = False) -> Any:
    def typed_planes(to: Any, x: Any, like: Any, mask: Any = None, which: Any = None) -> Any:
        if to.dtype != x.dtype:
            return None
        v = Vec(x.dtype, vec(like.dtype).lanes)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, (into, source, size) = Emitter(context, builder, like.dtype), args[:3]
            far, near = ([builder.mul(step, INDEX(r)) for r in range(e.n)] for step in (size, INDEX(e.n)))
            starts = [builder.mul(e.cell((which, args[5]), INDEX(r)), size) for r in range(e.n)] if masked else []

            def kept(load: Any, rows: list[Any], c: Any) -> list[Any]:
                """The cells that the masks leave, 0 in place of the others."""
                bytes_of = Vec(mask.dtype, e.n)
                there = [load(context, builder, mask, args[4], e.add(start, c), v=bytes_of) for start in starts]
                pairs = zip(rows, there, strict=True)
                none = constant(bytes_of, 0)
                return [builder.select(builder.icmp_unsigned("!=", each, none), row, constant(v, 0)) for row, each in pairs]

            def square(c: Any, mask: Any = None) -> None:
                """Cells c, c + 1, … of all planes; of the planes in memory only those in the mask."""
                load, save = (
                    (read, write) if mask is None else (partial(read_masked, mask=mask), partial(write_masked, mask=mask))
                )
                cells, planes = e.mul(c, e.n), c
                if out:
                    rows = [read(context, builder, x, source, e.add(cells, at), v=v) for at in near]
                else:
                    rows = [load(context, builder, x, source, e.add(planes, at), v=v) for at in far]
                    for at in far:  # of the planes behind these
                        e.fetch((x, source), e.add(planes, at, e.mul(size, e.n)))
                    rows = kept(load, rows, c) if masked else rows
                for row, one, other in zip(turned(builder, rows, v), near, far, strict=True):
                    if out:
                        save(context, builder, to, into, e.add(planes, other), row, v=v)
                    else:
                        write(context, builder, to, into, e.add(cells, one), row, v=v)

            whole = builder.and_(size, e.int(-e.n))
            with e.steps(e.int(0), whole, e.int(e.n)) as c:
                square(c)
            left = builder.sub(size, whole)
            with builder.if_then(e.less(e.int(0), left)):
                square(whole, first_lanes(builder, v, left))
            return context.get_dummy_value()

        more = (mask, which) if masked else ()
        return types.void(to, x, types.intp, like, *more), emit

    def plain(typing: Any, to: Any, x: Any, size: Any, like: Any) -> Any:
        return typed_planes(to, x, like)

    def with_masks(typing: Any, to: Any, x: Any, size: Any, like: Any, mask: Any, which: Any) -> Any:
        return typed_planes(to, x, like, mask, which)

    typed = with_masks if masked else plain
    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


turn_in = _planes(
    "turn_in",
    "to = the cells of as many planes as `like` has lanes, which begin at x and have `size` cells: a vector for each place of a"
    " plane. There must be room for whole squares.",
    False,
)
turn_in_kept = _planes(
    "turn_in_kept",
    "The same with 0 for cells of which the mask has 0. `which` mask each of the planes has, of masks with `size` bytes.",
    False,
    masked=True,
)
turn_out = _planes("turn_out", "The planes from `to` on = the cells at x, which are as `turn_in` makes them.", True)


@intrinsic
def turn_in_ones(typing: Any, to: Any, mask: Any, size: Any, like: Any, which: Any) -> Any:
    """to = 1 where masks are not 0, else 0, turned as `turn_in_kept` turns cells: a byte for each plane, place after place."""
    n = vec(like.dtype).lanes
    row, square = Vec(mask.dtype, n), Vec(mask.dtype, n * n)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, size = Emitter(context, builder, like.dtype), args[2]
        starts = [builder.mul(e.cell((which, args[4]), INDEX(r)), size) for r in range(n)]

        def turn_square(c: Any, lanes: Any = None) -> None:
            load = read if lanes is None else partial(read_masked, mask=lanes)
            rows = [load(context, builder, mask, args[1], e.add(start, c), v=row) for start in starts]
            while len(rows) > 1:
                both = lane_order(range(2 * rows[0].type.count))
                rows = [builder.shuffle_vector(a, b, both) for a, b in zip(rows[::2], rows[1::2], strict=True)]
            bytes_of = builder.zext(builder.icmp_unsigned("!=", rows[0], constant(square, 0)), llvm(square))
            order = lane_order([plane * n + cell for cell in range(n) for plane in range(n)])
            write(context, builder, to, args[0], e.mul(c, n), builder.shuffle_vector(bytes_of, bytes_of, order), square)

        whole = builder.and_(size, e.int(-n))
        with e.steps(e.int(0), whole, e.int(n)) as c:
            turn_square(c)
        left = builder.sub(size, whole)
        with builder.if_then(e.less(e.int(0), left)):
            turn_square(whole, first_lanes(builder, row, left))
        return context.get_dummy_value()

    return types.void(to, mask, types.intp, like, which), emit


@helper
def turn_some(to: Matrix, x: Matrix, rows: int, columns: int) -> None:
    """to(r, c) = x(c, r) for so many rows and columns."""
    for r in range(rows):
        for c in range(columns):
            one_by_one()
            to.cells[r * to.step + c] = x.cells[c * x.step + r]


@intrinsic
def copy_row(typing: Any, to: Any, x: Any) -> Any:
    """to[0], … = x[0], … for ROWS cells."""
    v = Vec(to.dtype, ROWS)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(context, builder, to, args[0], INDEX(0), read(context, builder, x, args[1], INDEX(0), v), v)
        return context.get_dummy_value()

    return types.void(to, x), emit


@intrinsic
def copy_column(typing: Any, to: Any, x: Any, stride: Any) -> Any:
    """to[0], … = x[0], x[stride], … for ROWS cells."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v = Vec(to.dtype, ROWS)
        column = constant(v, 0.0)
        for r in range(ROWS):
            cell = builder.load(builder.gep(args[1], [builder.mul(args[2], INDEX(r))]))
            column = builder.insert_element(column, cell, ir.IntType(32)(r))
        write(context, builder, to, args[0], INDEX(0), column, v)
        return context.get_dummy_value()

    return types.void(to, x, types.intp), emit
