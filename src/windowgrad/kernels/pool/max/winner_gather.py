"""The gradient of small windows that are one cell apart: each cell adds up the outputs that it won, by vectors.

For what `winner_codes` says that it `gathers`. A cell can be a tap of a few windows only, which stand at fixed distances from
it: `entries` of (distance, number of the tap), in the order of the windows.

    codes       . . . 4 . . . 3 . . .        cell c is tap 4 of this window and tap 3 of the next: the sum of the gradients
    gradient    . . . g . . . g . . .        whose code is that number
    cells             c

Windows stand on a grid that has a place for every cell and for every output. No edge needs a test: an entry that reaches into
another row or another plane finds the code of a cell that is not c, because a window's place and its tap give the place of one
cell only. So the grids of all planes are one run of numbers, however small the planes are; a thread owns some rows of it. Where
places are cells, sums go to their place at once; else they are kept in the nearest cache until their rows are written.

Where there are fewer outputs than places, or near an end of the arrays, codes and gradients are copied into buffers in which
they are placed, strip by strip.

One comparison looks at CODES codes, of one byte each; its mask then lets gradients through by parts. Codes widened to the
gradient's lanes before they were compared, row by row, took twice as long on wide rows, and four times on rows of 7 cells,
where most of a vector lay past the end of its row. With a stride of 2, cells of even and of odd rows and columns have entries
of their own: summed one after the other and interleaved, they took as long as `winner_scatter` on wide rows in the cache, and
twice as long on narrow ones and on batches that are larger than the cache; `winner_near` sums a row of cells in one go.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, channel_axis, codes_of, outer_sum, pitches
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load, splat, store, store_part
from windowgrad.kernels.vector.types import Vec, constant, lane_order, llvm, read, spread

CODES = 64
"""Codes that are compared together."""

AT_ONCE = 2048
"""Places of the grid that are summed at a time: sums, gradients and codes stay in the nearest cache."""

SPANS = 4
"""A strip has at least so many times the places between the first and the last entry of a cell: so little is copied twice."""

HEAD = 13
"""Numbers before the lists."""


class Grid(NamedTuple):
    """Planes of `rows` rows of `places` places; those that have outputs are `out` in a row, and `outputs` in a plane.

    A row has `width` cells, a plane `cells`. The entries of a place reach from `low` to `high` places away.
    """

    rows: int
    places: int
    out: int
    outputs: int
    width: int
    cells: int
    low: int
    high: int
    strip: int
    """Rows of a strip."""
    at_once: int
    """Places that are summed at once, in whole rows if there is one."""
    space: int
    """Room for a strip with what its entries reach."""
    filled: int
    """Whether every place has an output."""
    entries: int
    output_rows: Any
    """Where in its plane a row of outputs begins; −1 if there is none."""
    cell_rows: Any
    """The same of the rows of cells."""
    distance: Any
    name: Any


# --- the plan ----------------------------------------------------------------------------------------------------


def gather_plan(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    """HEAD numbers, and the lists of `Grid`."""
    size = math.prod(axis.grid for axis in codes_of(geometry, spatial).axes[:-1])
    return kept(size, geometry, spatial, channels, AT_ONCE)


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int, at_once: int) -> Array:
    axes = list(codes_of(geometry, spatial).axes)
    axes += [channel_axis(channels)] if channels > 1 else []
    *outer, last = axes
    names, grids, outs, sizes = (pitches([getattr(a, field) for a in axes]) for field in ("taps", "grid", "out", "n"))
    taps = [[(a.before - t * a.step, t) for t in reversed(range(a.taps))] for a in axes]  # in the order of windows
    distance, name = (
        np.array([sum(e[k] * pitch for e, pitch in zip(each, pitched, strict=True)) for each in product(*taps)])
        for k, pitched in enumerate((grids, names))
    )
    low, high = min(0, int(distance.min())), max(0, int(distance.max()))
    rows = [rows_of([(a.grid, getattr(a, size)) for a in outer], pitch) for size, pitch in (("out", outs), ("n", sizes))]
    strip = max(1, max(at_once, SPANS * (high - low)) // last.grid)
    space = (strip + 3 - low // last.grid + (high + CODES) // last.grid) * last.grid + CODES
    head = [len(rows[0]), last.grid, last.out, outs[0] * axes[0].out, last.n, sizes[0] * axes[0].n, low, high, strip, at_once]
    head += [space, all(a.out == a.grid for a in axes), len(distance)]
    return np.concatenate([head, *rows, distance, name]).astype(np.int64)


kept = keep(made)


def rows_of(sizes: list[tuple[int, int]], pitch: list[int]) -> Array:
    """Where each row of a grid begins in an array that has, along each axis, so many of its places; −1 if it has none."""
    numbers = [np.arange(places) for places, _ in sizes]
    beyond = outer_sum([number >= own for number, (_, own) in zip(numbers, sizes, strict=True)]) > 0
    return np.where(beyond, -1, outer_sum([number * p for number, p in zip(numbers, pitch, strict=False)]))


@helper
def unpacked_grid(plan: Any) -> Any:
    head = address(plan)
    rows, entries = head[0], head[12]
    output_rows = later(head, HEAD)
    cell_rows = later(output_rows, rows)
    distance = later(cell_rows, rows)
    lists = output_rows, cell_rows, distance, later(distance, entries)
    sizes = rows, head[1], head[2], head[3], head[4], head[5]
    return Grid(*sizes, head[6], head[7], head[8], head[9], head[10], head[11], entries, *lists)


# --- the kernel --------------------------------------------------------------------------------------------------


@intrinsic
def collect(typing: Any, codes: Any, g: Any, sums: Any, distance: Any, name: Any, entries: Any, count: Any) -> Any:
    """sums[:count] = what the places have won; in whole steps of CODES."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, sums.dtype)
        part, few = Vec(sums.dtype, 2 * e.n), Vec(types.int8, CODES)
        source, target, lists = (g, args[1]), (sums, args[2]), [(distance, args[3]), (name, args[4])]
        totals = [e.variable(constant(part, 0.0)) for _ in range(CODES // part.lanes)]
        with e.steps(e.int(0), args[6], e.int(CODES)) as j:
            for total in totals:
                builder.store(constant(part, 0.0), total)
            with e.steps(e.int(0), args[5], e.int(1)) as entry:
                apart, wanted = (e.cell(column, entry) for column in lists)
                at = e.add(apart, j)
                some = read(context, builder, codes, args[0], at, few)
                won = builder.icmp_signed("==", some, spread(builder, builder.trunc(wanted, llvm(few).element), CODES))
                for k, total in enumerate(totals):
                    mask = builder.shuffle_vector(won, won, lane_order(range(k * part.lanes, (k + 1) * part.lanes)))
                    paid = builder.load(total)
                    more = builder.fadd(paid, read(context, builder, *source, e.add(at, k * part.lanes), part))
                    builder.store(builder.select(mask, more, paid), total)
            for k, total in enumerate(totals):
                where = e.place(target, e.add(j, k * part.lanes), part)
                builder.store(builder.load(total), where).align = part.dtype.bitwidth // 8
        return context.get_dummy_value()

    index = types.intp
    return types.void(codes, g, sums, distance, name, index, index), emit


@helper
def copied(x: Any, at: int, size: int, y: Any, to: int, count: int) -> None:
    """y[to:to + count] = x[at:at + count]; x has `size` numbers, and less than a vector behind y's is written too."""
    n, j = lanes(x), 0
    while j < count and at + j + n <= size:
        store(y, to + j, load(x, at + j))
        j += n
    while j < count:
        y[to + j] = x[at + j]
        j += 1


@helper
def placed(codes: Any, g: Any, sizes: Any, grid: Any, first: int, last: int, codes_to: Any, g_to: Any) -> None:
    """The codes and gradients of the rows `first` to `last` of the grids of all planes; no cell won where there is no output.

    What is written behind a row, the next one overwrites.
    """
    nobody, wide = splat(codes_to, 255), lanes(codes_to)
    plane, row, to = first // grid.rows, first % grid.rows, 0
    for _ in range(first, last):
        at, written = plane * grid.outputs + grid.output_rows[row], 0
        if grid.output_rows[row] >= 0 and 0 <= at < sizes:
            copied(codes, at, sizes, codes_to, to, grid.out)
            copied(g, at, sizes, g_to, to, grid.out)
            written = grid.out
        while written < grid.places:
            store(codes_to, to + written, nobody)
            written += wide
        to, row = to + grid.places, row + 1
        if row == grid.rows:
            plane, row = plane + 1, 0


@helper
def written(sums: Any, gx: Any, width: int) -> None:
    """A row of cells; its last vector lies over the one before, so that only shorter rows are written by parts."""
    n, j = lanes(gx), 0
    while j + n <= width:
        store(gx, j, load(sums, j))
        j += n
    if j < width and n <= width:
        store(gx, width - n, load(sums, width - n))
    elif j < width:
        store_part(gx, j, load(sums, j), width - j)


@helper
def pay_cells(codes: Any, g: Any, gx: Any, grid: Any, count: int, sums: Any) -> None:
    """So many cells, which are places."""
    whole = count // CODES * CODES
    collect(codes, g, gx, grid.distance, grid.name, grid.entries, whole)
    if whole < count:
        collect(later(codes, whole), later(g, whole), sums, grid.distance, grid.name, grid.entries, count - whole)
        written(sums, later(gx, whole), count - whole)


@helper
def pay_rows(codes: Any, g: Any, gx: Any, grid: Any, first: int, rows: int, column: int, places: int, sums: Any) -> None:
    """The cells of some rows, or of `places` in one row from a column on."""
    collect(codes, g, sums, grid.distance, grid.name, grid.entries, (rows - 1) * grid.places + places)
    plane, row = first // grid.rows, first % grid.rows
    for r in range(rows):
        if grid.cell_rows[row] >= 0 and column < grid.width:
            at = plane * grid.cells + grid.cell_rows[row] + column
            written(later(sums, r * grid.places), later(gx, at), min(places, grid.width - column))
        row += 1
        if row == grid.rows:
            plane, row = plane + 1, 0


@unrolled_kernel
def winner_gather(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; the cells of the rows `first` to `last` of the grids of all planes."""
    grid, size = unpacked_grid(plan), len(codes)
    sums_space = np.empty(grid.at_once + CODES, gx.dtype)
    codes_space, g_space = np.empty(grid.space, np.uint8), np.empty(grid.space, g.dtype)
    spaces = sums_space, codes_space, g_space
    codes, g, gx, sums = address(codes), address(g), address(gx), address(sums_space)
    own_codes, own_g, together = address(codes_space), address(g_space), max(1, grid.at_once // grid.places)
    for row in range(first, last, grid.strip):
        rows = min(grid.strip, last - row)
        begin, count = row * grid.places, rows * grid.places
        low, high = begin + grid.low, begin + count + grid.high + CODES
        if grid.filled and low >= 0 and high <= size:
            some, more = later(codes, begin), later(g, begin)
        else:
            top, bottom = low // grid.places, -(-high // grid.places)
            placed(codes, g, size, grid, top, bottom, own_codes, own_g)
            some, more = later(own_codes, begin - top * grid.places), later(own_g, begin - top * grid.places)
        if grid.cells == grid.rows * grid.places:
            pay_cells(some, more, later(gx, begin), grid, count, sums)
        else:
            for r in range(0, rows, together):
                for column in range(0, grid.places, grid.at_once):
                    begin, places = r * grid.places + column, min(grid.at_once, grid.places - column)
                    few = min(together, rows - r)
                    pay_rows(later(some, begin), later(more, begin), gx, grid, row + r, few, column, places, sums)
    alive(spaces)
