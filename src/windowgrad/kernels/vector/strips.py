"""Sums of products along strips of cells that follow each other, for matrices that are long and very flat.

`put_strip`: few numbers are summed for each cell of many rows. A tile of ROWS × VECTORS vectors runs along the strip, and its
sums go from the registers into y. What a tile of `vector/tiles.py` takes around its sums would take longer than they do.

`add_rows`: many rows of x are summed to one. CHANNELS of them are read at a time, along the strip, so that each is read as a
stream; the sums of the strip stay in the nearest cache.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.masked import INDEX, read_masked, stay_one, strange_of, write, write_masked
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide
from windowgrad.kernels.vector.tiles import Extremes, fields, number
from windowgrad.kernels.vector.types import Vec, call, constant, first_lanes, llvm, read, suffix

CHANNELS = 8
"""Rows of x that `add_rows` reads at a time."""


def fma(builder: Any, v: Vec, *factors: Any) -> Any:
    return call(builder, f"llvm.fma.{suffix(v)}", llvm(v), list(factors))


@intrinsic
def put_strip(typing: Any, a: Any, b: Any, k: Any, cells: Any, y: Any, bias: Any, rows: Any) -> Any:
    """y(r, i) = bias[r] + the sum over k of a[ROWS·k + r] · b(k, i) for so many cells and 1 to ROWS rows; its strange lanes.

    `a` is an address, b and y are matrices. Sums begin with 0, in the order of k.
    """
    v = wide(bias.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, end, extra, count = Emitter(context, builder, bias.dtype), args[3], args[5], args[6]
        (b_cells, b_step), (to, y_step) = fields(builder, args[1], 2), fields(builder, args[4], 2)
        strange, seen = e.variable(INDEX(0)), Extremes(builder, v, VECTORS)

        def sums(i: Any, vectors: int, load: Any) -> list[list[Any]]:
            totals = [[e.variable(constant(v, 0.0)) for _ in range(vectors)] for _ in range(ROWS)]
            with e.steps(INDEX(0), args[2], INDEX(1)) as step:
                at = builder.add(i, builder.mul(step, b_step))
                row = [load(context, builder, b[0], b_cells, e.add(at, n * v.lanes), v=v) for n in range(vectors)]
                for m, of_row in enumerate(totals):
                    factor = number(builder, args[0], e.add(e.mul(step, ROWS), m), v)
                    for one, total in zip(row, of_row, strict=True):
                        builder.store(fma(builder, v, factor, one, builder.load(total)), total)
                stay_one(builder)
            return totals

        def tile(i: Any, vectors: int, load: Any, put: Any) -> None:
            """`put(column, value, place)` for each vector of the rows that there are."""
            for m, of_row in enumerate(sums(i, vectors, load)):
                with builder.if_then(e.less(INDEX(m), count)):
                    there, first = number(builder, extra, INDEX(m), v), builder.add(i, builder.mul(y_step, INDEX(m)))
                    for n, total in enumerate(of_row):
                        put(n, builder.fadd(builder.load(total), there), e.add(first, n * v.lanes))

        def put_whole(column: int, value: Any, place: Any) -> None:
            seen.add(column, value)
            write(context, builder, y[0], to, place, value, v)

        def put_first(mask: Any, column: int, value: Any, place: Any) -> None:
            found = strange_of(builder, value, mask, v)
            builder.store(builder.or_(builder.load(strange), found), strange)
            write_masked(context, builder, y[0], to, place, value, mask, v)

        panels = builder.sub(end, builder.srem(end, INDEX(VECTORS * v.lanes)))
        with e.steps(INDEX(0), panels, INDEX(VECTORS * v.lanes)) as i:
            tile(i, VECTORS, read, put_whole)
        with e.steps(panels, end, INDEX(v.lanes)) as i:
            mask = first_lanes(builder, v, builder.sub(end, i))
            tile(i, 1, partial(read_masked, mask=mask), partial(put_first, mask))
        every = first_lanes(builder, v, builder.select(e.less(INDEX(0), panels), INDEX(v.lanes), INDEX(0)))
        return builder.or_(builder.load(strange), seen.strange([every] * VECTORS))

    return types.int64(a, b, types.intp, types.intp, y, bias, types.intp), emit


def _added(channels: int) -> Any:
    def typed(typing: Any, sums: Any, fresh: Any, w: Any, step: Any, x: Any, cells: Any) -> Any:
        v = wide(sums.dtype)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, end, (x_cells, x_step) = Emitter(context, builder, sums.dtype), args[5], fields(builder, args[4], 2)
            factors = [number(builder, args[2], builder.mul(args[3], INDEX(c)), v) for c in range(channels)]
            rows = [builder.gep(x_cells, [builder.mul(x_step, INDEX(c))]) for c in range(channels)]
            begins = first_lanes(builder, v, builder.select(e.less(INDEX(0), args[1]), INDEX(0), INDEX(v.lanes)))

            def add(i: Any, load: Any) -> None:
                total = read_masked(context, builder, sums, args[0], i, begins, v)
                for factor, row in zip(factors, rows, strict=True):
                    total = fma(builder, v, factor, load(context, builder, x[0], row, i, v=v), total)
                write(context, builder, sums, args[0], i, total, v)

            whole = builder.and_(end, INDEX(-v.lanes))
            with e.steps(INDEX(0), whole, INDEX(v.lanes)) as i:
                add(i, read)
                stay_one(builder)
            with builder.if_then(e.less(whole, end)):
                add(whole, partial(read_masked, mask=first_lanes(builder, v, builder.sub(end, whole))))
            return context.get_dummy_value()

        return types.void(sums, types.intp, w, types.intp, x, types.intp), emit

    typed.__name__ = f"add_{channels}"
    typed.__doc__ = f"""sums[i] += the sum over c of w[c·step] · x(c, i) for so many cells and {channels} rows, in their order.

    Where `fresh` is 1 and not 0, sums begin with 0. There must be room for whole vectors of them.
    """
    return intrinsic(typed)


add_rows, add_row = _added(CHANNELS), _added(1)
