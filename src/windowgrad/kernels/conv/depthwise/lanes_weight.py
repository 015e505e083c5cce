"""The weight gradient of each channel by itself, as many channels at once as a vector has lanes: any window, stride and rank.

Computes gw[channel, tap] = the sum over images and pixels of g[image, channel, pixel] · (the cell that the pixel meets).

Chosen where `depthwise/ways.py: may_lie_side_by_side` holds for a forward pass and channels fill most lanes
(`channels_fill_lanes`), unless `three_rows_weight` takes it.

How it is blocked: planes of x and of g are turned around, a chunk of rows at a time, as in `lanes.py`. Then the sums of up to
RUN taps, a vector each, stay in registers while the pixels of a row run; all images of a block of channels are added to
the same vectors, and no lanes are summed at the end.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.depthwise.lanes import Lists
from windowgrad.kernels.conv.depthwise.shifted import clear
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.plane_lanes import RUN, add_run, gather_planes, put_planes
from windowgrad.kernels.vector.registers import least_of, most_of, wide_lanes


@helper
def add_runs(sums: Any, box: Any, pixels: Any, lists: Lists, first: int, last: int) -> None:
    """Adds the products of the runs first to last; the box and the pixels begin with the first of a plane."""
    n, number = wide_lanes(sums), first
    while number < last:
        run = later(lists.runs, 6 * number)
        cells, g, pairs = later(box, run[0] * n), later(pixels, run[1] * n), later(lists.taps, 2 * run[4])
        pieces, done = (run[5] + RUN - 1) // RUN, 0
        while done < run[5]:
            some = (run[5] - done + pieces - 1) // pieces
            add_run(sums, later(pairs, 2 * done), some, cells, g, run[3])
            done, pieces = done + some, pieces - 1
        number += 1


@kernel
def weight_side_by_side(x: Any, g: Any, gw: Any, room: Any, tables: Any, sizes: Any, share: Any, first: int, last: int) -> int:
    """Some parts of the blocks of channels; gives the strange lanes of all sums.

    `tables`: places, runs, taps and chunks of `Side`, and numbers in order, one for each pixel of a chunk; `sizes`: images,
    channels, cells of a plane of x and of g, taps of the weight rounded up to whole squares, and the vectors of the box;
    `share`: all blocks, the parts that they are cut into, and the cells of the room that each has. A part of the room has a
    vector for each tap, the box, and the pixels of a chunk.
    """
    (places, runs, taps, chunks, numbers), (blocks, parts, own) = tables, share
    images, channels, plane, out_plane, every, in_sums, in_box = sizes
    n, lists, sums = wide_lanes(room), Lists(address(runs), address(taps)), later(address(room), first * own)
    box, strange = later(sums, in_sums * n), 0
    pixels, block, end = later(box, in_box * n), part_begin(blocks, parts, first), part_begin(blocks, parts, last)
    clear(box, in_box * n)
    while block < end:
        channel, image = block * n, 0
        planes = min(n, channels - channel)
        clear(sums, in_sums * n)
        while image < images:
            job, number = image * channels + channel, 0
            while number < len(chunks):
                chunk = later(address(chunks), number * 7)
                here, there = later(box, -chunk[2] * n), later(pixels, -chunk[5] * n)
                cells, grown = later(address(x), job * plane + chunk[0]), later(address(g), job * out_plane + chunk[5])
                gather_planes(here, later(address(places), chunk[0]), cells, plane, planes, chunk[1])
                gather_planes(pixels, address(numbers), grown, out_plane, planes, chunk[6])
                add_runs(sums, here, there, lists, chunk[3], chunk[4])
                number += 1
            image += 1
        to, low, high = later(address(gw), channel * every), least_of(gw), most_of(gw)
        strange |= put_planes(to, every, planes, sums, every, 0, low, high)
        block += 1
    return strange
