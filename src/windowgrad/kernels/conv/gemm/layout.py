"""How a pass of conv/gemm is blocked, as one array of integers that its kernels are told.

All of it follows from shapes and the size of a number, and is found once for each. A call from Python with one array takes less
time than with the dozens of numbers that stand in it (`Told`).

Where the cells of a panel stand (`place`):

    PACKED    copied for each tap, so that a panel has a row of pixels for each k. No lane is lost where a row of pixels ends.
    BOXED     copied once, into a box with zeros between rows and planes; each tap is a load from elsewhere in the box. Pixels
              are numbered as cells of the box are, so the lanes between two rows are computed and not used. Cells that a stride
              leaves between pixels have a box of their own: one for each phase of the stride.
    IN_PLACE  not copied: pixel o meets cell o, and all its channels are a plane apart. Panels with pixels of two images are
              PACKED.

A box copies less and computes more: it is chosen where few rows use what is copied (`is_boxed`).

A tile may be turned around: pixels are its rows, and rows of y its lanes. Of 49 pixels, a fourth vector has only one; as rows
they are six tiles and one row more. That takes a weight that is packed as pixels are, so it must be a kept one (`is_turned`):
one image of 512 channels, 3×3 on 7×7, takes 0.83 of the time, and 960 to 160 channels, 1×1, 0.86.

    rows of 3 pixels, 3 taps each, a padding of 1, in a box:    0 a b c 0 d e f 0 g h i 0        pitch 4: a zero serves two rows
    pixels                                                        0 1 2 . 3 4 5 . 6 7 8          . is a lane that is not used

Measured and rejected: to fetch a residual into the second cache while products are summed: 16 images on 56×56 take 1.01 of the
time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.box import Box, box_of, box_pixels, box_runs, is_boxed
from windowgrad.kernels.conv.gemm.cut import faster_parts
from windowgrad.kernels.conv.gemm.times import half, tile_time
from windowgrad.kernels.conv.gemm.told import BOXED, HEAD, IN_PLACE, PACKED, Told
from windowgrad.kernels.conv.plan import Array, Gather, Shape
from windowgrad.kernels.conv.shapes import Pass
from windowgrad.kernels.vector.registers import ROWS, WIDE_BYTES

FEW_PANELS, LARGE = 4, 1 << 24
"""With more panels of pixels, input gradients with a weight of more bytes pack it: its rows are far apart, and not in a cache.
So do passes of few rows of which 3 are left: they are one loop with a row of zeros, and else two. 7 rows take 0.77 of the time,
11 rows 0.96, 23 rows 1.05."""
FEW_JOINED = 6
"""With so few panels, all grids of pixels of an input gradient are one call, and threads share grids. 24 → 48 channels, 3×3
with a stride of 2 on 28×28, take 0.65 of the time of one call for each grid; twice as many panels 1.05."""
SHORT, FEW_TILES = 80, 8
"""A panel of so many k stays in the first cache while so many tiles use it. With more tiles, whole rows of y are written in
one go, which memory likes better: 32 channels to 948, on 28×28, take 0.7 of the time."""
FEW_CHANNELS = 8
"""Where no more of them are summed at a time, taps are many, and pieces of pixels are listed once for all channels: panel by
panel, for one list is kept. Windows of 7×7×7 on 32 channels take a third to a half of the time, of 5×5×5 0.6 to 0.9."""
FEW_ROWS = 32
"""So few rows read pixels that lie in order where they stand, though planes may lie so that they crowd in the caches."""
CROWDED = 2048
"""Bytes: planes that are a multiple of it apart use few lines of the caches."""


class Layout(NamedTuple):
    """What kernels are told, and what Python has to know: panels, tiles and k in all, and whether the weight is packed."""

    told: Array
    panels: int
    tiles: int
    k: int
    slot_cells: int
    slot_lists: int
    packs: bool
    height: int
    places: Array
    weight: Shape
    """How far groups, rows and channels are apart in the weight."""
    evenly: bool
    """Whether two threads share few panels more evenly than tiles."""


# --- the weight --------------------------------------------------------------------------------------------------


def reads_in_place(one: Pass, panels: int, itemsize: int) -> bool:
    """Whether the weight of so many panels is read where it stands; if not, it is packed."""
    size, three_left = one.groups * one.rows * one.channels * one.taps * itemsize, one.rows < 2 * ROWS and one.rows % 4 == 3
    return panels <= FEW_PANELS or not (three_left or (one.back and size > LARGE))


def factor_in_place(one: Pass) -> tuple[int, ...]:
    """The fields from `factor_group` on for a weight that is read where it stands; all taps are one block."""
    group, row, channel = one.weight
    return group, ROWS * row, row, channel, 0, 0


def factor_packed(rows: int, k: int, taps: int, height: int) -> tuple[int, ...]:
    return -(-rows // height) * k * height, k * height, 1, taps * height, height, k * height


def pairs(one: Pass, gather: Gather, whole: Gather, height: int, in_place: bool, cells: list[int]) -> Array:
    """Where the number of each k of a block and its pixels stand, these at `cells`; of turned tiles, the other way around.

    The weight is packed with all taps of the `whole`.
    """
    (channel, tap), every = np.divmod(np.arange(len(cells)), len(gather.places)), len(whole.places)
    met = np.flatnonzero(np.isin(whole.places, gather.places))
    numbers = channel * one.weight[2] + gather.places[tap] if in_place else (channel * every + met[tap]) * height
    both = (cells, numbers) if height > ROWS else (numbers, cells)
    return np.stack(both, axis=1).reshape(-1)


def is_turned(rows: int, pixels: int, itemsize: int) -> bool:
    """Whether tiles of so many rows and pixels take less time if they are turned around.

    They are turned back in squares of ROWS, of which a panel must be made: one of float64 in vectors of 16 bytes is not.
    """
    in_squares = plan.panel(itemsize) % ROWS == 0
    return in_squares and 1.02 * tile_time(pixels, rows, itemsize) < tile_time(rows, pixels, itemsize)


# --- all of it ---------------------------------------------------------------------------------------------------


def layouts(one: Pass, itemsize: int, kept: bool = False) -> tuple[Layout, ...]:
    """Of each grid of pixels; limits are part of what is remembered, for tests change them. `kept`: the weight is packed."""
    return _layouts(one, itemsize, kept, plan.STEPS, plan.PANELS)[0]


def joined_layouts(one: Pass, itemsize: int) -> Joined | None:
    """Those of several grids of pixels as one call, if no weight is packed and panels are few."""
    return _layouts(one, itemsize, False, plan.STEPS, plan.PANELS)[1]


@lru_cache(maxsize=1024)
def _layouts(one: Pass, itemsize: int, kept: bool, steps: int, panels: int) -> tuple[tuple[Layout, ...], Joined | None]:
    found = tuple(layout(one, gather, itemsize, kept) for gather in one.gathers)
    if len(found) > 1 and not any(each.packs or each.panels > FEW_JOINED for each in found):
        return found, joined(found)
    cut_up = [parts(one, gather, whole, itemsize) for gather, whole in zip(one.gathers, found, strict=True)]
    return tuple(part for some in cut_up for part in some), None


def parts(one: Pass, gather: Gather, whole: Layout, itemsize: int) -> tuple[Layout, ...]:
    """The layouts of the rows of pixels that meet the same taps, if that takes less time than `whole`, that of all rows."""
    if whole.height > ROWS or not 1 < len(gather.places) <= plan.STEPS:
        return (whole,)
    found = faster_parts(one, gather, itemsize)
    if not found:
        return (whole,)
    (some_channels, _), laid = plan.steps(one.channels, len(gather.places)), []
    for part in found:
        steps = some_channels, len(part.places)
        copy = packed(one, part, PACKED, *steps, itemsize)
        laid.append(laid_out(one, part, gather, copy, steps, not whole.packs, False, itemsize))
    return tuple(laid)


class Joined(NamedTuple):
    """What kernels are told of several grids of pixels, how many there are, the fewest tiles of one, and a thread's scratch."""

    told: Array
    grids: int
    tiles: int
    slot_cells: int
    slot_lists: int


def joined(found: tuple[Layout, ...]) -> Joined:
    """The most work is at both ends: that is where threads begin."""
    order = sorted(found, key=lambda each: each.k * each.panels, reverse=True)
    order = order[::2] + order[1::2][::-1]
    cells, lists = max(each.slot_cells for each in found), max(each.slot_lists for each in found)
    own = [each.told[HEAD + 1 :] for each in order]
    return Joined(headed(cells, lists, own), len(order), min(each.tiles for each in found), cells, lists)


def headed(slot_cells: int, slot_lists: int, grids: list[Array]) -> Array:
    """What kernels are told (see HEAD)."""
    starts = HEAD + len(grids) + np.cumsum([0, *map(len, grids[:-1])])
    return np.concatenate([[slot_cells, slot_lists], starts, *grids]).astype(np.int64)


class Copied(NamedTuple):
    """What of a layout depends on where the cells of a panel stand; names are those of `Told`."""

    place: int
    runs: int
    run_pitch: int
    pixels: int
    axes: tuple[Array, ...]
    outs: tuple[Array, ...]
    some_panels: int
    boxes: int
    box: int
    lead: int
    all_cells: int
    places: list[int]
    cells: int
    """Of the copy, and how many `pieces` are listed for it."""
    pieces: int


def boxed(one: Pass, gather: Gather, box: Box, some_channels: int, itemsize: int) -> Copied:
    length, lanes, boxes = plan.panel(itemsize), WIDE_BYTES // itemsize, len(box.phases)
    budget, again = plan.PANELS // itemsize // some_channels, some_channels < one.channels
    pixels = box_pixels(box, one.images)
    most = min(-(-pixels // length), panels_of_sums(one.rows, itemsize, again))
    some_panels = max(1, min(most, (budget // boxes - box.halo) // length))
    runs = box_runs(box, one.images, length, some_panels)
    cells = -(-(some_panels * length + box.halo + lanes) // lanes) * lanes
    shifts = [number * cells + box.lead + shift for number, shift in box.taps]
    places = [c * boxes * cells + shift for c in range(some_channels) for shift in shifts]
    (real, size, step, _), grid, row = gather.own_axes, np.array(box.grid), box.grid[-1]
    pieces = boxes * (-(-cells // row) + 1) * -(-row // lanes)
    return Copied(
        BOXED,
        runs,
        math.prod(box.grid),
        box.pixels if runs > 1 else pixels,
        (grid, size, step, np.array(box.phases).reshape(-1)),
        (grid, real, gather.move),
        some_panels,
        boxes,
        cells,
        box.lead,
        one.images * math.prod(box.grid),
        places,
        some_channels * boxes * cells,
        pieces,
    )


def packed(one: Pass, gather: Gather, place: int, some_channels: int, some_taps: int, itemsize: int) -> Copied:
    """PACKED or IN_PLACE."""
    length, pixels, k = plan.panel(itemsize), one.images * gather.pixels, some_channels * some_taps
    again = k < one.channels * len(gather.places)
    most = min(-(-pixels // length), panels_of_sums(one.rows, itemsize, again))
    most = 1 if again and 1 < some_taps == len(gather.places) and some_channels <= FEW_CHANNELS else most
    some_panels, (grid, move, _) = max(1, min(most, plan.PANELS // (k * length * itemsize))), gather.out_axes
    places = [c * one.cells for c in range(k)] if place == IN_PLACE else packed_places(k, length)
    outs, cells = (grid, grid, move), some_panels * k * length
    return Copied(place, 1, 0, pixels, gather.axes, outs, some_panels, 0, 0, 0, 0, places, cells, some_taps * length)


def packed_places(k: int, length: int) -> list[int]:
    return [i * length for i in range(k)]


def copied(one: Pass, gather: Gather, some_channels: int, some_taps: int, itemsize: int, turned: bool) -> Copied:
    if gather.in_order and (one.rows <= FEW_ROWS or one.cells * itemsize % CROWDED):
        return packed(one, gather, IN_PLACE, some_channels, some_taps, itemsize)
    box = box_of(gather)
    if not turned and is_boxed(one, gather, box, plan.PANELS // itemsize // some_channels, plan.panel(itemsize)):
        return boxed(one, gather, box, some_channels, itemsize)
    return packed(one, gather, PACKED, some_channels, some_taps, itemsize)


def layout(one: Pass, gather: Gather, itemsize: int, kept: bool = False) -> Layout:
    taps, turned = len(gather.places), kept and is_turned(one.rows, one.images * gather.pixels, itemsize)
    steps = plan.steps(one.channels, taps)
    copy = copied(one, gather, *steps, itemsize, turned)
    panels = copy.runs * -(-copy.pixels // plan.panel(itemsize))
    in_place = not kept and steps[1] == taps and reads_in_place(one, panels, itemsize)
    return laid_out(one, gather, gather, copy, steps, in_place, turned, itemsize)


def laid_out(
    one: Pass, gather: Gather, whole: Gather, copy: Copied, some: tuple[int, int], in_place: bool, turned: bool, itemsize: int
) -> Layout:
    """Of pixels that are copied so, `some` channels and taps at a time; their weight is packed with all taps of the `whole`."""
    length, lanes, (some_channels, some_taps) = plan.panel(itemsize), WIDE_BYTES // itemsize, some
    unit, height = (lanes, length) if turned else (ROWS, ROWS)
    every, steps, run_panels = len(whole.places), some_channels * some_taps, -(-copy.pixels // length)
    k, tiles, panels = one.channels * every, -(-one.rows // unit), copy.runs * run_panels
    factor = factor_in_place(one) if in_place else factor_packed(one.rows, k, every, height)
    slot_cells = -(-(ROWS * length + copy.cells + 2 * lanes + turned * (length * length + lanes)) // lanes) * lanes
    slot_lists = copy.some_panels * (3 * length + 2) + 3 * copy.pieces + 1
    both = copy.places, packed_places(steps, length)
    places = [pairs(one, gather, whole, height, in_place, cells) for cells in both]
    lists = *copy.axes, *copy.outs, *places
    starts = np.cumsum([len(Told._fields), *map(len, lists)]).tolist()
    told = (
        *(one.rows, tiles, one.channels, len(gather.places), one.cells, one.pixels),
        *(one.groups * one.channels * one.cells, one.groups * one.rows * one.pixels, gather.out_axes[2], copy.pixels),
        *(copy.place, some_channels, some_taps, copy.some_panels, copy.boxes, copy.box, copy.lead, copy.all_cells),
        *factor,
        *(len(copy.axes[0]), starts[0], len(copy.outs[0]), starts[4], starts[7], len(copy.places)),
        *(int(steps <= SHORT and tiles <= FEW_TILES), unit, height),
        *(copy.runs, run_panels, copy.run_pitch),
    )  # in the order of `Told`
    numbers = np.concatenate([np.array(Told._make(told)), *lists])
    sizes = panels, one.groups * tiles, k, slot_cells, slot_lists
    evenly = half(panels) * length / (copy.runs * copy.pixels) < half(one.groups * tiles) * unit / (one.groups * one.rows)
    return Layout(headed(slot_cells, slot_lists, [numbers]), *sizes, not in_place, height, whole.places, one.weight, evenly)


def panels_of_sums(rows: int, itemsize: int, again: bool) -> int:
    """So many panels of all rows stay in the second cache until the next block of k is added to them, if there is one."""
    return max(4, plan.PANELS // (rows * plan.panel(itemsize) * itemsize)) if again else 1 << 30
