"""Which cells a run of output pixels meets at each place of the kernel, as vectors with masks.

The pixels of all images are one row of numbers: the last axis runs fastest, then the other axes, then the images. A run of
them is cut where a row ends and where a vector is full. Pixel o meets, at tap t, the cell `o·step + taps[t]` of each
axis; where that is no cell of the input, its lane is off. So padding, dilation, stride and rank are all told here.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.masked import copy_even, copy_fourth, copy_part, interval, peek
from windowgrad.kernels.vector.tiles import BYTES


@helper
def out_pieces(first: int, count: int, grid: Any, move: Any, image: int, lanes: int, lists: Any, at: int) -> int:
    """The pieces of `count` pixels from `first` on, as triples (pixel of the run, place in an image's plane, length).

    Pixel o stands at the sum of o·move, and every image further by `image`. Gives how many there are.
    """
    rank, row = len(grid), grid[len(grid) - 1]
    found, done = 0, 0
    while done < count:
        rest = (first + done) // row
        j = first + done - rest * row
        place = j * move[rank - 1]
        for axis in range(rank - 2, -1, -1):
            before = rest // grid[axis]
            place += (rest - before * grid[axis]) * move[axis]
            rest = before
        place += rest * image
        end = min(count, done + row - j)
        while done < end:
            length = min(lanes, end - done)
            lists[at + 3 * found] = done
            lists[at + 3 * found + 1] = place
            lists[at + 3 * found + 2] = length
            found, done, place = found + 1, done + length, place + length * move[rank - 1]
    return found


@helper
def in_pieces(
    first: int, count: int, grid: Any, size: Any, step: Any, taps: Any, low: int, high: int, image: int, lanes: int, pitch: int,
    lists: Any, at: int,
) -> Any:  # fmt: skip
    """The pieces of a run of pixels in the input, as triples (place in the panel, first cell, mask), from lists[at] on.

    All pieces of tap `low`, then those of the next tap, to `high`; each tap is a row of the panel, `pitch` long. Pieces are
    cut as in `out_pieces`. Gives how many there are.
    """
    rank, row = len(grid), grid[len(grid) - 1]
    stride, width = step[rank - 1], size[rank - 1]
    pieces, done = 0, 0
    while done < count:  # how many there will be of each tap
        end = min(count, done + row - (first + done) % row)
        pieces += (end - done + lanes - 1) // lanes
        done = end
    found, done = 0, 0
    while done < count:
        outer = (first + done) // row
        j = first + done - outer * row
        end = min(count, done + row - j)
        for t in range(low, high):
            rest, place, plane, real = outer, 0, width, True
            for axis in range(rank - 2, -1, -1):
                before = rest // grid[axis]
                cell = (rest - before * grid[axis]) * step[axis] + taps[t * rank + axis]
                real = real and cell >= 0 and cell < size[axis]
                place += cell * plane
                plane *= size[axis]
                rest = before
            place += rest * image
            cell = j * stride + taps[t * rank + rank - 1]
            i, start = at + 3 * ((t - low) * pieces + found), done
            while start < end:
                length = min(lanes, end - start)
                lists[i], lists[i + 1] = (t - low) * pitch + start, place + cell
                lists[i + 2] = real_lanes(cell, width, stride, length) if real else 0
                i, start, cell = i + 3, start + length, cell + length * stride
        found, done = found + (end - done + lanes - 1) // lanes, end
    return pieces * (high - low)


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
def copy_pieces(
    to: Any, i: int, pitch: int, x: Any, base: int, plane: int, channels: int, stride: int, lists: Any, at: int, pieces: int
) -> None:
    """The pieces of `in_pieces` for so many channels of x, `plane` apart there and `pitch` in the panel at to[i].

    Up to a vector after each piece is written too.
    """
    end = at + 3 * pieces
    if stride == 1:
        for c in range(channels):
            for q in range(at, end, 3):
                copy_part(to, i + c * pitch + peek(lists, q), x, base + c * plane + peek(lists, q + 1), peek(lists, q + 2))
    elif stride == 2:
        for c in range(channels):
            for q in range(at, end, 3):
                copy_even(to, i + c * pitch + peek(lists, q), x, base + c * plane + peek(lists, q + 1), peek(lists, q + 2))
    elif stride == 4:
        for c in range(channels):
            for q in range(at, end, 3):
                copy_fourth(to, i + c * pitch + peek(lists, q), x, base + c * plane + peek(lists, q + 1), peek(lists, q + 2))
    else:
        for c in range(channels):
            for q in range(at, end, 3):
                start, bits = base + c * plane + lists[q + 1], lists[q + 2]
                for lane in range(BYTES // to.itemsize):
                    to[i + c * pitch + lists[q] + lane] = x[start + lane * stride] if bits >> lane & 1 else 0
