"""The gradient of small windows that are one or two cells apart: each cell adds up the outputs that it won, by vectors.

For what `winner_codes` says that it `gathers`. A cell can be a tap of a few windows only, which stand at fixed distances from
it: `entries` of (distance, number of the tap), in the order of the windows.

    codes       . . . 4 . . . 3 . . .        cell c is tap 4 of this window and tap 3 of the next: the sum of the gradients
    gradient    . . . g . . . g . . .        whose code is that number
    cells             c

Windows stand on a grid which has, along each axis, a place for every `stride` cells. Cells at the same place between windows
are of one kind; those of one kind have the same entries, and lie on that grid side by side. No edge needs a test: an entry that
reaches into another row or another plane finds the code of a cell that is not c, because a window's place and its tap give the
place of one cell only. So the grids of all planes are one run of numbers, however small the planes are. A strip of it is
summed at a time, kind after kind, into a buffer in the nearest cache, from which the rows of cells are written: as they are, or
with a stride of 2 along the row from two kinds, interleaved. Where all cells are of one kind, sums go to their place at once.

Where there are fewer outputs than places on the grid, or a strip is near an end of the arrays, its codes and gradients are
copied into buffers in which they are (`placed`). A thread owns the places of the grid whose cells it writes.

One comparison looks at CODES codes, of one byte each; its mask then lets gradients through by parts. Codes widened to the
gradient's lanes before they were compared, row by row, took twice as long on wide rows, and four times on rows of 7 to 33
cells, where most of a vector lay past the end of its row.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, Axis, channel_axis, codes_of, outer_sum, pitches
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load, splat, store, store_part
from windowgrad.kernels.vector.shuffle import mixed_high, mixed_low
from windowgrad.kernels.vector.types import Vec, constant, llvm, read, spread

CODES = 64
"""Codes that are compared together."""

AT_ONCE = 2048
"""Places of the grid that are summed at a time: sums of two kinds, gradients and codes stay in the nearest cache."""

SPANS = 4
"""A strip has at least so many times the places between the first and the last entry of a cell: so little is copied twice."""

HEAD = 16
"""Numbers before the lists."""


class Grid(NamedTuple):
    """Planes of `rows` rows of `places` places; those that have outputs are `out` in a row, and `outputs` in a plane.

    Places stand for the cells of `kinds` rows, `stride` in each; a row has `width` cells, a plane `cells`. A place's entries
    reach from `low` to `high` places away.
    """

    rows: int
    places: int
    out: int
    outputs: int
    kinds: int
    stride: int
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
    alike: int
    """Whether cells and places are the same."""
    output_rows: Any
    """Where in its plane a row of outputs begins; −1 if there is none."""
    cell_rows: Any
    """The same of the rows of cells, kind after kind."""
    first_entry: Any
    """Of each kind and each phase along the row."""
    distance: Any
    name: Any


# --- the plan ----------------------------------------------------------------------------------------------------


def gather_plan(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    """HEAD numbers, and the lists of `Grid`."""
    size = outer_sum_size(codes_of(geometry, spatial).axes)
    return kept(size, geometry, spatial, channels, AT_ONCE)


def outer_sum_size(axes: tuple[Axis, ...]) -> int:
    total = 1
    for axis in axes[:-1]:
        total *= axis.grid * axis.stride
    return total


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int, at_once: int) -> Array:
    axes = list(codes_of(geometry, spatial).axes)
    axes += [channel_axis(channels)] if channels > 1 else []
    *outer, last = axes
    names, grids, outs, sizes = (pitches([getattr(a, field) for a in axes]) for field in ("taps", "grid", "out", "n"))
    entries, ptr = [], [0]
    phases = [*(range(min(a.stride, a.n)) for a in outer), range(last.stride)]
    for kind in product(*phases):
        for each in product(*(phase_entries(a, phase) for a, phase in zip(axes, kind, strict=True))):
            entries.append([sum(e[k] * p for e, p in zip(each, ps, strict=True)) for k, ps in enumerate((grids, names))])
        ptr.append(len(entries))
    distance, name = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    low, high = int(distance.min(initial=0)), int(distance.max(initial=0))
    output_rows = rows_of([[i if i < a.out else -1 for i in range(a.grid)] for a in outer], outs)
    cell_rows = [
        rows_of([[c if c < a.n else -1 for c in range(phase, a.grid * a.stride, a.stride)] for a, phase in pairs], sizes)
        for pairs in (list(zip(outer, kind, strict=True)) for kind in product(*phases[:-1]))
    ]
    rows, strip = len(output_rows), max(at_once, SPANS * (high - low)) // last.grid
    strip = max(1, strip)
    space = (strip + 2 - low // last.grid + (high + CODES) // last.grid + 1) * last.grid + CODES
    filled, alike = all(a.out == a.grid for a in axes), all(a.stride == 1 and a.n == a.grid for a in axes)
    head = [rows, last.grid, last.out, outs[0] * axes[0].out, len(cell_rows), last.stride, last.n, sizes[0] * axes[0].n]
    head += [low, high, strip, at_once, space, filled, alike, len(entries)]
    return np.concatenate([head, output_rows, *cell_rows, ptr, distance, name]).astype(np.int64)


kept = keep(made)


def rows_of(numbers: list[list[int]], pitch: list[int]) -> Array:
    """Where each row begins, from the number of it along each axis; −1 if one of them is."""
    lists = [np.array(each) for each in numbers]
    nowhere = outer_sum([each < 0 for each in lists]) > 0
    return np.where(nowhere, -1, outer_sum([each * p for each, p in zip(lists, pitch, strict=False)]))


def phase_entries(axis: Axis, phase: int) -> list[tuple[int, int]]:
    """Which windows may be those of cells of this phase, counted from their own, and as which tap; in the order of windows."""
    taps = (t for t in reversed(range(axis.taps)) if (phase + axis.before - t * axis.step) % axis.stride == 0)
    return [((phase + axis.before - t * axis.step) // axis.stride, t) for t in taps]


@helper
def unpacked_grid(plan: Any) -> Any:
    head = address(plan)
    rows, kinds, stride = head[0], head[4], head[5]
    output_rows = later(head, HEAD)
    cell_rows = later(output_rows, rows)
    first_entry = later(cell_rows, kinds * rows)
    distance = later(first_entry, kinds * stride + 1)
    lists = output_rows, cell_rows, first_entry, distance, later(distance, head[15])
    sizes = head[0], head[1], head[2], head[3], kinds, stride, head[6], head[7]
    return Grid(*sizes, head[8], head[9], head[10], head[11], head[12], head[13], head[14], *lists)


# --- the kernel --------------------------------------------------------------------------------------------------


@intrinsic
def collect(typing: Any, codes: Any, g: Any, sums: Any, distance: Any, name: Any, first: Any, last: Any, count: Any) -> Any:
    """sums[:count] = what the places have won, by the entries `first` to `last`; in whole steps of CODES."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, sums.dtype)
        part, few = Vec(sums.dtype, 2 * e.n), Vec(types.int8, CODES)
        parts = CODES // part.lanes
        source, target, entry_lists = (g, args[1]), (sums, args[2]), [(distance, args[3]), (name, args[4])]
        totals = [e.variable(constant(part, 0.0)) for _ in range(parts)]
        with e.steps(e.int(0), args[7], e.int(CODES)) as j:
            for total in totals:
                builder.store(constant(part, 0.0), total)
            with e.steps(args[5], args[6], e.int(1)) as entry:
                apart, wanted = (e.cell(column, entry) for column in entry_lists)
                at = e.add(apart, j)
                some = read(context, builder, codes, args[0], at, few)
                won = builder.icmp_signed("==", some, spread(builder, builder.trunc(wanted, llvm(few).element), CODES))
                for k, total in enumerate(totals):
                    mask = builder.shuffle_vector(won, won, order(range(k * part.lanes, (k + 1) * part.lanes)))
                    paid = builder.load(total)
                    more = builder.fadd(paid, read(context, builder, *source, e.add(at, k * part.lanes), part))
                    builder.store(builder.select(mask, more, paid), total)
            for k, total in enumerate(totals):
                where = e.place(target, e.add(j, k * part.lanes), part)
                builder.store(builder.load(total), where).align = part.dtype.bitwidth // 8
        return context.get_dummy_value()

    index = types.intp
    return types.void(codes, g, sums, distance, name, index, index, index), emit


def order(lanes: range) -> Any:
    v = Vec(types.int32, len(lanes))
    made = constant(v, 0)
    made.constant = [made.type.element(lane) for lane in lanes]
    return made


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
def written(sums: Any, gx: Any, at: int, width: int, stride: int, apart: int) -> None:
    """A row of cells: sums, or those of two kinds, which begin `apart` places apart, in turns."""
    n, j = lanes(gx), 0
    if stride == 1:
        while j + n <= width:
            store(gx, at + j, load(sums, j))
            j += n
        if j < width:
            store_part(gx, at + j, load(sums, j), width - j)
        return
    while j + 2 * n <= width:
        one, two = load(sums, j // 2), load(sums, apart + j // 2)
        store(gx, at + j, mixed_low(one, two))
        store(gx, at + j + n, mixed_high(one, two))
        j += 2 * n
    if j < width:
        one, two = load(sums, j // 2), load(sums, apart + j // 2)
        store_part(gx, at + j, mixed_low(one, two), width - j)
        if j + n < width:
            store_part(gx, at + j + n, mixed_high(one, two), width - j - n)


@helper
def pay_alike(codes: Any, g: Any, gx: Any, grid: Any, count: int, sums: Any) -> None:
    """The cells of a strip whose places they are."""
    whole = count // CODES * CODES
    collect(codes, g, gx, grid.distance, grid.name, 0, grid.first_entry[1], whole)
    if whole < count:
        some, more = later(codes, whole), later(g, whole)
        collect(some, more, sums, grid.distance, grid.name, 0, grid.first_entry[1], count - whole)
        written(sums, gx, whole, count - whole, 1, 0)


@helper
def pay_rows(codes: Any, g: Any, gx: Any, grid: Any, first: int, rows: int, column: int, places: int, sums: Any) -> None:
    """The cells of some rows, or of `places` in one row from a column on."""
    count = (rows - 1) * grid.places + places
    apart = (count + CODES - 1) // CODES * CODES
    for kind in range(grid.kinds):
        for phase in range(grid.stride):
            entries = later(grid.first_entry, kind * grid.stride + phase)
            collect(codes, g, later(sums, phase * apart), grid.distance, grid.name, entries[0], entries[1], count)
        plane, row = first // grid.rows, first % grid.rows
        for r in range(rows):
            cell = grid.cell_rows[kind * grid.rows + row]
            if cell >= 0:
                at, width = plane * grid.cells + cell + column * grid.stride, grid.width - column * grid.stride
                width = min(places * grid.stride, width)
                written(later(sums, r * grid.places), gx, at, width, grid.stride, apart)
            row += 1
            if row == grid.rows:
                plane, row = plane + 1, 0


@kernel
def winner_gather(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; the cells of the rows `first` to `last` of the grids of all planes."""
    grid, size = unpacked_grid(plan), len(codes)
    sums_space = np.empty(grid.stride * (grid.at_once + CODES), gx.dtype)
    codes_space, g_space = np.empty(grid.space, np.uint8), np.empty(grid.space, g.dtype)
    spaces = sums_space, codes_space, g_space
    codes, g, gx, sums = address(codes), address(g), address(gx), address(sums_space)
    own_codes, own_g = address(codes_space), address(g_space)
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
        if grid.alike:
            pay_alike(some, more, later(gx, begin), grid, count, sums)
        else:
            together = max(1, grid.at_once // grid.places)
            for r in range(0, rows, together):
                for column in range(0, grid.places, grid.at_once):
                    begin, places = r * grid.places + column, min(grid.at_once, grid.places - column)
                    few = min(together, rows - r)
                    pay_rows(later(some, begin), later(more, begin), gx, grid, row + r, few, column, places, sums)
    alive(spaces)
