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

Of several images in a box, panels may begin anew with each (`box_runs`): 16 images of 64 channels, 3×3 on 56×56, take 0.99 of
the time, with a residual 0.98.

Measured and rejected: a box that is as wide as the grid of pixels, of which no lane is lost, and loads under masks where a tap
meets the padding. The loop of products takes 1.06 times as long, which is more than the lanes do. To fetch a residual into the
second cache while products are summed: 16 images on 56×56 take 1.01 of the time.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.cut import cut
from windowgrad.kernels.conv.plan import Array, Gather, Shape
from windowgrad.kernels.conv.shapes import Pass
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES

PACKED, BOXED, IN_PLACE = range(3)

PIECE = 4.0
"""Copying a vector takes as long as so many products of vectors."""
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
LATENCY, SAVED = 4, ROWS // 4
"""Cycles until the result of a product can be added to, and what half a vector of ROWS rows takes less than a whole one."""
CALL, WORTH = 30000, 0.98
"""Cycles of all threads that a part of the rows of pixels takes besides its products, and the part of the time of all rows at
once that parts must take less than (see `cut.py`)."""
CROWDED = 2048
"""Bytes: planes that are a multiple of it apart use few lines of the caches."""


class Told(NamedTuple):
    """What kernels are told. Sizes are in cells; what ends with `_at` is the place of a list in the array itself."""

    rows: int
    """Of a group; `tiles` of `unit` rows are shared."""
    tiles: int
    channels: int
    taps: int
    plane: int
    out_plane: int
    image: int
    """How far images are apart in x; `out_image`, in y."""
    out_image: int
    origin: int
    """Where pixel 0 of y stands."""
    pixels: int
    """Of a run, with the lanes that are not used. Panels do not span runs: one has all images, or each has one."""
    place: int
    some_channels: int
    """How much is taken at a time: channels, taps and panels."""
    some_taps: int
    some_panels: int
    boxes: int
    """For BOXED: how many there are, how long each is, how many cells it has before the first pixel of a block, how many
    cells all images have in a box."""
    box: int
    lead: int
    all_cells: int
    factor_group: int
    """Row r of tile t of group g begins at g · factor_group + t · factor_tile + r · factor_row of the weight, and a block of k
    there with the place of its first channel and tap. Where the weight is packed, `factor_packed` times the first tile that is
    packed is less."""
    factor_tile: int
    factor_row: int
    factor_channel: int
    factor_tap: int
    factor_packed: int
    in_rank: int
    in_at: int
    """grid, size, step, and the taps or the phases of boxes: see `InAxes`."""
    out_rank: int
    out_at: int
    """grid, the part of it that is real, move: see `OutAxes`."""
    places_at: int
    """Where the number and the cells of each k stand, from the first of a row and of the panel on (of turned tiles, the other
    way around): `places` of these for the place, then those of PACKED."""
    places: int
    by_panel: int
    """Whether all tiles of a panel are computed before the next panel, not all panels of a tile before the next tile."""
    unit: int
    """Rows with which the share of a thread may begin: ROWS, or a vector of them if tiles are turned."""
    height: int
    """Rows that are packed together: ROWS, or a panel of them if tiles are turned."""
    runs: int
    """How many there are, how many panels each has, and how far their first pixels are apart."""
    run_panels: int
    run_pitch: int


HEAD = 2
"""What kernels are told begins with the cells and integers of scratch memory that a thread needs, then where the numbers of
`Told` begin for each grid of pixels."""


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


class Box(NamedTuple):
    """Boxes for the pixels of a gather: the sides of the box, phases of the stride, and for each tap its phase and shift."""

    grid: Shape
    phases: tuple[Shape, ...]
    taps: tuple[tuple[int, int], ...]
    pixels: int
    """Of an image, from the first to the last."""
    lead: int
    halo: int


# --- boxes -------------------------------------------------------------------------------------------------------


def box_of(gather: Gather) -> Box:
    """Sides are long enough for the zeros that a tap meets before and after a row; both are the same zeros."""
    grid, size, step, table = (a.tolist() for a in gather.own_axes)
    rank = len(grid)
    taps = [table[i : i + rank] for i in range(0, len(table), rank)]
    sides = []
    for axis in range(rank):
        side = grid[axis]
        for tap in taps:
            shift, phase = divmod(tap[axis], step[axis])
            cells = -(-(size[axis] - phase) // step[axis])
            side = max(side, cells, grid[axis] + shift, cells - shift)
        sides.append(side)
    strides = plan.strides(tuple(sides))
    phases = tuple(dict.fromkeys(tuple(t % s for t, s in zip(tap, step, strict=True)) for tap in taps))
    shifts = [sum(t // s * n for t, s, n in zip(tap, step, strides, strict=True)) for tap in taps]
    places = [phases.index(tuple(t % s for t, s in zip(tap, step, strict=True))) for tap in taps]
    last = sum((n - 1) * s for n, s in zip(grid, strides, strict=True))
    lead = max(0, -min(shifts))
    return Box(
        tuple(sides),
        phases,
        tuple(zip(places, shifts, strict=True)),
        last + 1,
        lead,
        lead + max(0, *shifts),
    )


def panels_met(gather: Gather, box: Box, images: int, length: int) -> float:
    """How many panels of pixels in a box have a real one, about; the others are jumped over.

    Along the last two axes real pixels follow each other with small gaps; between one such slice and the next, gaps are large.
    """
    grid = [1, *gather.own_axes[0].tolist()]
    slices, reach = images * math.prod(grid[:-2]), (grid[-2] - 1) * box.grid[-1] + grid[-1]
    return min(box_pixels(box, images) / length, float(slices * (reach / length + 1)))


def box_pixels(box: Box, images: int) -> int:
    """The pixels of all images in one run."""
    return (images - 1) * math.prod(box.grid) + box.pixels


def box_runs(box: Box, images: int, length: int, some_panels: int) -> int:
    """Each image is a run of its own where its panels need no more cells than it has: then none has the lanes between two of
    them, a row of the box and more. It must have as many panels as are taken at a time, or more boxes would be copied. Where
    images are two panels apart, whole panels are jumped over anyway."""
    panels, between = -(-box.pixels // length), math.prod(box.grid) - box.pixels
    return images if panels * length - box.pixels <= between < 2 * length and panels >= some_panels else 1


def is_boxed(one: Pass, gather: Gather, box: Box, budget: int, length: int) -> bool:
    """Whether a box takes less time than packing: fewer copies, but more lanes. `budget`: cells for all boxes of a channel."""
    taps, boxes = len(gather.places), len(box.phases)
    if taps > plan.STEPS or boxes * (2 * box.halo + length) > budget:
        return False
    panels, (all_panels, copying) = one.images * gather.pixels / length, box_copies(one, gather, box, budget, length)
    rows = VECTORS * max(one.rows, 4 / VECTORS)
    return all_panels * (rows + copying) < panels * (rows + pack_time(gather, length))


def pack_time(gather: Gather, length: int) -> float:
    """How long packing a panel takes for each k, in products of vectors."""
    return PIECE * (VECTORS + length / int(gather.own_axes[0][-1]))


def box_copies(one: Pass, gather: Gather, box: Box, budget: int, length: int) -> tuple[float, float]:
    """How many panels of a box are computed, about, and how long copying each takes for each k."""
    taps, boxes, all_panels = len(gather.places), len(box.phases), panels_met(gather, box, one.images, length)
    some = min(all_panels, (budget / boxes - box.halo) / length)
    return all_panels, PIECE * (VECTORS + length / box.grid[-1]) * boxes / taps * (1 + box.halo / length / some)


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
    """Whether tiles of so many rows and pixels take less time if they are turned around."""
    return 1.02 * tile_time(pixels, rows, itemsize) < tile_time(rows, pixels, itemsize)


def tile_time(rows: int, columns: int, itemsize: int) -> int:
    """The cycles that the tiles of a product take for each k, if one product of vectors does: loops of few of them wait."""
    whole, rest = divmod(columns, plan.panel(itemsize))
    halves = -(-2 * rest * itemsize // WIDE_BYTES)
    return whole * loop_time(rows, VECTORS) + -(-halves // 2) * loop_time(rows, 1) - halves % 2 * (rows // ROWS) * SAVED


def loop_time(rows: int, vectors: int) -> int:
    """The same for so many vectors in a row: a loop for each power of two in the number of rows (`multiply_rows`)."""
    sizes = [ROWS] * (rows // ROWS) + [1 << bit for bit in range(ROWS.bit_length() - 1) if rows >> bit & 1]
    return sum(max(LATENCY, size * vectors + (vectors == 1)) for size in sizes)


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
    time, limit = partial(packed_time, one, itemsize), WORTH * whole_time(one, gather, itemsize)
    found = cut(gather, time) if limit > 2 * CALL else ()
    if len(found) < 2 or sum(map(time, found)) > limit:
        return (whole,)
    (some_channels, _), laid = plan.steps(one.channels, len(gather.places)), []
    for part in found:
        steps = some_channels, len(part.places)
        copy = packed(one, part, PACKED, *steps, itemsize)
        laid.append(laid_out(one, part, gather, copy, steps, not whole.packs, False, itemsize))
    return tuple(laid)


def packed_time(one: Pass, itemsize: int, gather: Gather) -> float:
    """The cycles of two threads for all that is done with these pixels, if they are packed, and some tap meets them."""
    length, pixels, k = plan.panel(itemsize), one.images * gather.pixels, one.groups * one.channels * len(gather.places)
    if not k:
        return math.inf
    cycles = tile_time(one.rows, pixels, itemsize) + pixels / length * pack_time(gather, length)
    return CALL + k * cycles * larger_half(one, pixels, length) * 2


def larger_half(one: Pass, pixels: int, length: int) -> float:
    """The part of the work that one of two threads has, if they share panels or tiles."""
    panels, tiles = half(-(-pixels // length)) * length / pixels, half(one.groups * -(-one.rows // ROWS)) * ROWS
    return max(0.5, min(panels, tiles / (one.groups * one.rows)))


def whole_time(one: Pass, gather: Gather, itemsize: int) -> float:
    """The same, if they are copied as `copied` says."""
    length, taps = plan.panel(itemsize), len(gather.places)
    box, budget = box_of(gather), plan.PANELS // itemsize // plan.steps(one.channels, taps)[0]
    if not is_boxed(one, gather, box, budget, length):
        return packed_time(one, itemsize, gather)
    panels, copying = box_copies(one, gather, box, budget, length)
    cycles = panels * (loop_time(one.rows, VECTORS) + copying) * larger_half(one, box_pixels(box, one.images), length) * 2
    return CALL + one.groups * one.channels * taps * cycles


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
    in_place = not kept and steps[1] == taps and reads_in_place(one, copy.runs * -(-copy.pixels // plan.panel(itemsize)), itemsize)
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


def half(count: int) -> int:
    """The larger part of so many things."""
    return -(-count // 2)


def panels_of_sums(rows: int, itemsize: int, again: bool) -> int:
    """So many panels of all rows stay in the second cache until the next block of k is added to them, if there is one."""
    return max(4, plan.PANELS // (rows * plan.panel(itemsize) * itemsize)) if again else 1 << 30
