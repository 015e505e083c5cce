"""Which cells a range of output pixels meets at each tap of the window, as vectors with masks: lists of pieces.

The pixels of all images are one row of numbers: the last axis runs fastest, then the other axes, then the images. A range of
them is cut where a row ends and where a vector is full; what is between two cuts is a piece. Pixel o meets, at tap t,
the cell `o·step + taps[t]` of each axis; where that is no cell of the input, its lane is off. So padding, dilation, stride
and rank are all told here, and kernels that use the lists know of none of them.

    pixels    0  1  2  3  4  5  6 | 7  8  9 10 11 12 13 |14 …     rows of 7, vectors of 4 lanes, the range 2 … 12
    pieces          └────────┘ └┘  └─────────┘ └────┘             (0, place 2, 4) (4, place 6, 1) (5, place 7, 4) (9, 11, 2)

Used by conv/gemm, for every geometry, and by conv/depthwise/any_geometry.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.records import Finish, InAxes, OutAxes, Pieces, Range, Start
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.masked import (
    EVEN,
    Put,
    copy_even,
    copy_fourth,
    copy_part,
    interval,
    one_by_one,
    put_apart,
    put_part,
    strange_cell,
)
from windowgrad.kernels.vector.ops import later
from windowgrad.kernels.vector.registers import VECTORS, wide_lanes, zero_of
from windowgrad.kernels.vector.tiles import Matrix

# --- in the output -----------------------------------------------------------------------------------------------


@helper
def out_pieces(pixels: Range, axes: OutAxes, lanes: int, to: Any) -> Pieces:
    """The pieces of a range of pixels, as triples (pixel of the range, place in the output, length)."""
    return real_pieces(pixels, axes, axes.grid, lanes, False, to)  # type: ignore[no-any-return]


@helper
def real_pieces(pixels: Range, axes: OutAxes, real: Any, lanes: int, aligned: bool, to: Any) -> Pieces:
    """The same where pixels are real only if they are within a smaller grid, `real`; the others have no piece.

    `aligned`: pieces are cut where a vector of the range is full, so none spans two of them.
    """
    rank, grid, move, count = axes.rank, axes.grid, axes.move, pixels.last - pixels.first
    row = grid[rank - 1]
    found, done = 0, 0
    while done < count:
        rest = (pixels.first + done) // row
        j = pixels.first + done - rest * row
        place, end = j * move[rank - 1], done + real[rank - 1] - j
        for axis in range(rank - 2, -1, -1):
            before = rest // grid[axis]
            place += (rest - before * grid[axis]) * move[axis]
            if rest - before * grid[axis] >= real[axis]:
                end = 0
            rest = before
        place += rest * axes.image
        following = min(count, done + row - j)
        end = min(count, end)
        while done < end:
            one_by_one()
            length = min(lanes - done % lanes if aligned else lanes, end - done)
            to[3 * found] = done
            to[3 * found + 1] = place
            to[3 * found + 2] = length
            found, done, place = found + 1, done + length, place + length * move[rank - 1]
        done = following
    return Pieces(to, found)


@helper
def put_pieces(y: Matrix, rows: int, move: int, tile: Any, start: Start, end: Finish, pieces: Pieces) -> int:
    """Puts so many rows of a tile into the pieces of a plane of y each; pixels are `move` apart there.

    If that is 1, no piece spans two vectors of the tile: they are read as they were written, for a load from two stores would
    wait for both. Gives the strange lanes (see HUGE) of all sums, before they `end`.
    """
    strange, extra, lanes, (least, most) = 0, zero_of(tile), wide_lanes(tile), (end.least, end.most)
    length = VECTORS * lanes
    for q in range(0, 3 * pieces.number, 3):
        lane, count = pieces.list[q] % lanes if move == 1 else 0, pieces.list[q + 2]
        source, place, bits = later(tile, pieces.list[q] - lane), pieces.list[q + 1] - lane, interval(lane, lane + count)
        to, beside = later(y.cells, place), later(end.beside, place)
        if move == 2:
            bits = interval(0, 2 * count - 1) & EVEN
        for r in range(rows):
            one_by_one()
            if start.biased:
                extra = start.bias[r]
            how = Put(extra, start.fresh, beside, end.joined, least, most)
            if move == 1:
                strange |= put_part(to, source, how, bits)
            elif move == 2:
                strange |= put_apart(to, source, how, bits)
            else:
                for lane in range(count):
                    one_by_one()
                    value = source[lane] + extra
                    if not start.fresh:
                        value += to[lane * move]
                    strange |= strange_cell(value)
                    if end.joined:
                        value += beside[lane * move]
                    value = least if value <= least else value
                    to[lane * move] = most if value > most else value
            to, beside, source = later(to, y.step), later(beside, y.step), later(source, length)
    return strange


# --- in the input ------------------------------------------------------------------------------------------------


@helper
def run_length(axes: InAxes) -> int:
    """How many pixels, from the first of a plane on, meet cells in a row at any tap: those of a row, or all of the plane."""
    run, follow = axes.grid[axes.rank - 1], axes.step[axes.rank - 1] == 1
    for axis in range(axes.rank - 1, 0, -1):
        one_by_one()
        follow = follow and axes.grid[axis] == axes.size[axis] and axes.step[axis - 1] == 1
        run = run * axes.grid[axis - 1] if follow else run
    return run  # type: ignore[no-any-return]


@helper
def in_pieces(pixels: Range, axes: InAxes, taps: Range, lanes: int, pitch: int, to: Any) -> Pieces:
    """The cells that a range of pixels meets, as triples (place in a panel, first cell, mask).

    All pieces of the first tap, then those of the next one; each tap is a row of the panel, `pitch` long. A piece may span
    rows where cells follow each other there too: the padding between them is in its mask.
    """
    return cut_pieces(pixels, axes, taps, lanes, pitch, run_length(axes), to)  # type: ignore[no-any-return]


@helper
def row_pieces(pixels: Range, axes: InAxes, taps: Range, lanes: int, pitch: int, to: Any) -> Pieces:
    """The same, cut as `out_pieces`: at the end of each row."""
    return cut_pieces(pixels, axes, taps, lanes, pitch, axes.grid[axes.rank - 1], to)  # type: ignore[no-any-return]


@helper
def cut_pieces(pixels: Range, axes: InAxes, taps: Range, lanes: int, pitch: int, run: int, to: Any) -> Pieces:
    """Pieces that are cut after each `run` of pixels, and where a vector is full."""
    rank, grid, size, step, count = axes.rank, axes.grid, axes.size, axes.step, pixels.last - pixels.first
    row, stride, number = grid[rank - 1], step[rank - 1], taps.last - taps.first
    each, done = 0, 0
    while done < count:  # how many there will be of each tap
        end = min(count, done + run - (pixels.first + done) % run)
        each += (end - done + lanes - 1) // lanes
        done = end
    found, done, start, end = 0, 0, 0, 0
    while done < count:  # a part of a row that is in one piece; the piece begins with `start`, and its run has an `end`
        if done == end:
            start, end = done, min(count, done + run - (pixels.first + done) % run)
        elif done == start + lanes:
            start, found = done, found + 1
        rest = (pixels.first + done) // row
        j, lane = pixels.first + done - rest * row, done - start
        length = min(min(lanes - lane, end - done), row - j)
        for t in range(number):
            one_by_one()
            i, cell = 3 * (t * each + found), j * stride + axes.taps[(taps.first + t) * rank + rank - 1]
            if lane == 0:
                to[i], to[i + 1], to[i + 2] = t * pitch + start, cell, 0
            to[i + 2] |= real_lanes(cell, size[rank - 1], stride, length) << lane
        plane = size[rank - 1]
        for axis in range(rank - 2, -1, -1):
            before = rest // grid[axis]
            for t in range(number):
                one_by_one()
                i = 3 * (t * each + found)
                cell = (rest - before * grid[axis]) * step[axis] + axes.taps[(taps.first + t) * rank + axis]
                if lane == 0:
                    to[i + 1] += cell * plane
                if cell < 0 or cell >= size[axis]:
                    to[i + 2] &= interval(0, lane)
            rest, plane = before, plane * size[axis]
        for t in range(number if lane == 0 else 0):
            one_by_one()
            to[3 * (t * each + found) + 1] += rest * axes.image
        done += length
        found += done == end
    return Pieces(to, each * number)


@helper
def real_lanes(cell: int, width: int, stride: int, length: int) -> Any:
    """The mask of the cells `cell`, `cell + stride`, … that a row of `width` has; for 2 and 4, of what lies between too."""
    low, high = max(0, -cell), max(0, width - cell)
    if stride > 1:
        low, high = (low + stride - 1) // stride, (high + stride - 1) // stride
    high = min(high, length)
    if stride == 4:
        return interval(4 * low, 4 * high - 3)
    return interval(2 * low, 2 * high - 1) if stride == 2 else interval(low, high)


@helper
def copy_pieces(to: Matrix, x: Matrix, channels: int, stride: int, pieces: Pieces) -> None:
    """The pieces of `in_pieces` of so many channels, each a row of x, into rows of `to`.

    Up to a vector after each piece is written too.
    """
    listed, end = pieces.list, 3 * pieces.number
    if stride == 1:
        for c in range(channels):
            for q in range(0, end, 3):
                copy_part(to.cells, c * to.step + listed[q], x.cells, c * x.step + listed[q + 1], listed[q + 2])
    elif stride == 2:
        for c in range(channels):
            for q in range(0, end, 3):
                copy_even(to.cells, c * to.step + listed[q], x.cells, c * x.step + listed[q + 1], listed[q + 2])
    elif stride == 4:
        for c in range(channels):
            for q in range(0, end, 3):
                copy_fourth(to.cells, c * to.step + listed[q], x.cells, c * x.step + listed[q + 1], listed[q + 2])
    else:
        for c in range(channels):
            for q in range(0, end, 3):
                row, start, bits = later(to.cells, c * to.step + listed[q]), c * x.step + listed[q + 1], listed[q + 2]
                for lane in range(wide_lanes(to.cells)):
                    one_by_one()
                    row[lane] = x.cells[start + lane * stride] if bits >> lane & 1 else 0
