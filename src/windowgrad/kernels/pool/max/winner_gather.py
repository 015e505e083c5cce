"""The gradient of windows that are one cell apart: each cell adds up the outputs that it won, by vectors.

For what `winner_codes` says that it `gathers`. A cell can be a tap of a few windows only, which stand at fixed distances from
it (`winner_grid`); windows of more than a few taps are taken axis by axis, in stages, each of which does this:

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
twice as long on narrow ones and on batches that are larger than the cache; `winner_triples` sums a row of cells in one go.

Most loads span two lines of the cache, and take the time: an entry takes about 7 cycles for 64 codes. So gradients of windows
side by side are loaded once and shifted: 3×3 windows took 1.5 times as long without on 64×56×56, 2.2 times on 32×64×56×56.

Arrays that are larger than the caches are read and written faster if their lines are asked for AHEAD of the last entry, the one
that sees what nobody has seen before: of 32×64×56×56, two threads, 3×3 windows take 0.70 ms and 0.93 without, 7×7 windows 1.2
and 2.6, with channels last 0.8 and 2.1, and 1.4 and 2.7. In the cache, two images took 1.1 times as long with it.

Measured on 64×56×56, one thread, in ns per output: 7×7 windows 0.63 (`winner_scatter` 1.24), 13×13 1.12 (1.56), 3×3×3 on
16×16×28×28 0.51 (1.7). On narrow planes with fewer outputs than cells it takes longer than scattering, 1.3 times for 5×5
windows on 14×14, but one order of sums for all planes is worth that; `winner_few` does those with few outputs. Tried without
gain: channels last, columns of rows one after the other, so that a row of windows stays in the nearest cache for all rows of
cells that it reaches; an axis of more than 12 taps as two stages, windows of windows (64 taps: 1.0, scattered 0.67, as
neighbours have one winner mostly).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.max.winner_grid import CODES, WORDS, unpacked_grid
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load, splat, store, store_part
from windowgrad.kernels.vector.past import LINE
from windowgrad.kernels.vector.types import Vec, constant, lane_order, llvm, read, spread

AHEAD = 4096
"""How many places before they are looked at the lines of arrays are asked for that stay in no cache."""

# --- the kernel --------------------------------------------------------------------------------------------------


def in_bytes(e: Emitter, table: Any, i: Any, k: int, few: Vec) -> Any:
    """A byte in every lane: a broadcast of words takes a load only, one of bytes would need a shuffle too."""
    words = Vec(types.int32, few.lanes // 4)
    pair = e.builder.bitcast(e.builder.gep(table[1], [i]), llvm(words).element.as_pointer())
    word = e.builder.load(e.builder.gep(pair, [e.int(k)]), typ=llvm(words).element)
    return e.builder.bitcast(spread(e.builder, word, words.lanes), llvm(few))


@intrinsic
def collect(
    typing: Any,
    codes: Any,
    g: Any,
    left: Any,
    sums: Any,
    entries: Any,
    number: Any,
    threes: Any,
    pairs: Any,
    count: Any,
    coming: Any,
    going: Any,
) -> Any:
    """sums[:count] = what the places have won, in whole steps of CODES; left[:count] = what is left of the codes.

    `left` is None in the last stage, where entries have one code each. There the first `threes` entries are windows side by
    side, three and three of them, and the next up to `pairs` are so two and two: their gradients are read once.

    Lines of codes and gradients are asked for that come `coming` places behind the last entry, if that is not 0, and lines of
    sums that come so many places later as `going` says.
    """
    last = left is types.none

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, sums.dtype)
        part, few = Vec(sums.dtype, 2 * e.n), Vec(types.int8, CODES)
        source, target, table = (g, args[1]), (sums, args[3]), (entries, args[4])
        totals = [e.variable(constant(part, 0.0)) for _ in range(CODES // part.lanes)]
        remainder = e.variable(constant(few, -1))
        n, parts = part.lanes, CODES // part.lanes

        def add(paid: list[Any], won: Any) -> None:
            for k, (total, more) in enumerate(zip(totals, paid, strict=True)):
                mask = builder.shuffle_vector(won, won, lane_order(range(k * n, (k + 1) * n)))
                before = builder.load(total)
                builder.store(builder.select(mask, builder.fadd(before, more), before), total)

        def add_side_by_side(windows: int, entry: Any, j: Any) -> None:
            """So many windows side by side: the gradients of the first are shifted."""
            at = e.add(e.cell(table, entry), j)
            starts = [*range(0, CODES, n), CODES + windows - 1 - n]
            read_once = [read(context, builder, *source, e.add(at, start), part) for start in starts]
            for s in range(windows):
                paid = []
                for k in range(parts):
                    behind = starts[k] + n - starts[k + 1]  # lanes of the next vector that are in this one
                    order = [i if i < n else i + behind for i in range(s, s + n)]
                    paid.append(builder.shuffle_vector(read_once[k], read_once[k + 1], lane_order(order)))
                some = read(context, builder, codes, args[0], e.add(at, s), few)
                name = in_bytes(e, table, e.add(entry, s * WORDS + 1), 0, few)
                add(paid, builder.icmp_signed("==", some, name))

        def ask(arrays: Sequence[tuple[Any, Any]], at: Any) -> None:
            for a in arrays:
                for k in range(0, CODES, LINE * 8 // a[0].dtype.bitwidth):
                    e.fetch(a, e.add(at, k))

        behind = e.add(e.cell(table, e.mul(e.add(args[5], -1), WORDS)), args[9])
        with e.steps(e.int(0), args[8], e.int(CODES)) as j:
            with builder.if_then(e.less(e.int(0), args[9]), likely=False):
                ask([source, (codes, args[0])], e.add(behind, j))
            with builder.if_then(e.less(e.int(0), args[10]), likely=False):
                ask([target], e.add(j, args[10]))
            for total in totals:
                builder.store(constant(part, 0.0), total)
            builder.store(constant(few, -1), remainder)
            begun = e.int(0)
            for windows, end in ((3, args[6]), (2, args[7])) if last else ():
                end = e.mul(end, WORDS)
                with e.steps(begun, end, e.int(windows * WORDS)) as entry:
                    add_side_by_side(windows, entry, j)
                begun = end
            with e.steps(begun, e.mul(args[5], WORDS), e.int(WORDS)) as entry:
                at = e.add(e.cell(table, entry), j)
                first, size = (in_bytes(e, table, e.add(entry, 1), k, few) for k in range(2))
                some = read(context, builder, codes, args[0], at, few)
                if last:
                    won = builder.icmp_signed("==", some, first)
                else:
                    some = builder.sub(some, first)
                    won = builder.icmp_unsigned("<", some, size)
                    builder.store(builder.select(won, some, builder.load(remainder)), remainder)
                add([read(context, builder, *source, e.add(at, k * n), part) for k in range(parts)], won)
            for k, total in enumerate(totals):
                where = e.place(target, e.add(j, k * part.lanes), part)
                builder.store(builder.load(total), where).align = part.dtype.bitwidth // 8
            if not last:
                builder.store(builder.load(remainder), e.place((left, args[2]), j, few)).align = 1
        return context.get_dummy_value()

    return types.void(codes, g, left, sums, entries, *(types.intp,) * 6), emit


@helper
def collect_stages(
    codes: Any, g: Any, sums: Any, grid: Any, count: int, own_codes: Any, own_sums: Any, coming: int, going: int
) -> None:
    """The same through all stages; the results of all but the last are kept in `own_codes` and `own_sums`."""
    entries, reach = grid.entries, grid.reach
    for stage in range(grid.stages - 1):
        number, low, high = reach[0], reach[1], reach[2]
        left, amounts = later(own_codes, stage * grid.room), later(own_sums, stage * grid.room)
        collect(later(codes, low), later(g, low), left, amounts, entries, number, 0, 0, count + high - low, coming, 0)
        codes, g, coming = later(left, -low), later(amounts, -low), 0
        entries, reach = later(entries, WORDS * number), later(reach, 3)
    collect(codes, g, None, sums, entries, reach[0], grid.threes, grid.pairs, count, coming, going)


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


@intrinsic
def fetch_lines(typing: Any, a: Any, i: Any, count: Any) -> Any:
    """Asks for the lines of a[i:i + count], of which the last may be left out."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, a.dtype)
        with e.steps(args[1], e.add(args[1], args[2]), e.int(LINE * 8 // a.dtype.bitwidth)) as at:
            e.fetch((a, args[0]), at)
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp), emit


@helper
def placed(codes: Any, g: Any, sizes: Any, grid: Any, first: int, last: int, codes_to: Any, g_to: Any, far: int) -> None:
    """The codes and gradients of the rows `first` to `last` of the grids of all planes; no cell won where there is no output.

    What is written behind a row, the next one overwrites. Gradients that nobody won are 0: they are added before they are left
    out, and whatever stood there might be subnormal, of which an addition may take 140 cycles.
    """
    nobody, wide = splat(codes_to, 255), lanes(codes_to)
    nothing, few = splat(g_to, 0), lanes(g_to)
    plane, row, to = first // grid.rows, first % grid.rows, 0
    for _ in range(first, last):
        at, written = plane * grid.outputs + grid.output_rows[row], 0
        if grid.output_rows[row] >= 0 and 0 <= at < sizes:
            if far > 0:
                fetch_lines(codes, at + far, grid.out)
                fetch_lines(g, at + far, grid.out)
            copied(codes, at, sizes, codes_to, to, grid.out)
            copied(g, at, sizes, g_to, to, grid.out)
            written = grid.out
        for place in range(to + written, to + grid.places, few):
            store(g_to, place, nothing)
        for place in range(to + written, to + grid.places, wide):
            store(codes_to, place, nobody)
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
def pay_cells(codes: Any, g: Any, gx: Any, grid: Any, count: int, sums: Any, kept: Any, coming: int, going: int) -> None:
    """So many cells, which are places."""
    for at in range(0, count, grid.at_once):
        places = min(grid.at_once, count - at)
        some, more, cells, whole = later(codes, at), later(g, at), later(gx, at), places // CODES * CODES
        collect_stages(some, more, cells, grid, whole, *kept, coming, going)
        if whole < places:
            collect_stages(later(some, whole), later(more, whole), sums, grid, places - whole, *kept, coming, 0)
            written(sums, later(cells, whole), places - whole)


@helper
def pay_rows(
    codes: Any, g: Any, gx: Any, grid: Any, first: int, rows: int, column: int, places: int, sums: Any, kept: Any, coming: int
) -> None:
    """The cells of some rows, or of `places` in one row from a column on."""
    collect_stages(codes, g, sums, grid, (rows - 1) * grid.places + places, *kept, coming, 0)
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
    far = AHEAD if size + (size + len(gx)) * gx.itemsize > grid.held else 0
    sums_space, room = np.empty(grid.at_once + CODES, gx.dtype), (grid.stages - 1) * grid.room
    codes_space, g_space = np.empty(grid.space + room, np.uint8), np.empty(grid.space + room, g.dtype)
    spaces = sums_space, codes_space, g_space
    codes, g, gx, sums = address(codes), address(g), address(gx), address(sums_space)
    own_codes, own_g, together = address(codes_space), address(g_space), max(1, grid.at_once // grid.places)
    kept = later(own_codes, grid.space), later(own_g, grid.space)
    for row in range(first, last, grid.strip):
        rows = min(grid.strip, last - row)
        begin, count = row * grid.places, rows * grid.places
        low, high = begin + grid.low, begin + count + grid.high
        if grid.filled and low >= 0 and high <= size:
            some, more, coming = later(codes, begin), later(g, begin), far
        else:
            top, bottom = low // grid.places, -(-high // grid.places)
            placed(codes, g, size, grid, top, bottom, own_codes, own_g, far)
            some, more = later(own_codes, begin - top * grid.places), later(own_g, begin - top * grid.places)
            coming = 0
        if grid.cells == grid.rows * grid.places:
            pay_cells(some, more, later(gx, begin), grid, count, sums, kept, coming, far)
        else:
            for r in range(0, rows, together):
                for column in range(0, grid.places, grid.at_once):
                    begin, places = r * grid.places + column, min(grid.at_once, grid.places - column)
                    few = min(together, rows - r)
                    given = later(some, begin), later(more, begin), gx, grid, row + r, few, column, places
                    pay_rows(*given, sums, kept, coming)
    alive(spaces)
