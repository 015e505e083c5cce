"""Any geometry, by packed panels: when each kernel may be used, and how threads share it.

The kernels are in `products.py`, `weight.py` and `few.py`; `short.py` has `short_ways.py`, `direct.py` `direct_ways.py`.
Threads share panels of pixels; with few of them, or in the weight gradient, rows of the output; in the weight gradient of few
rows or channels also pairs of a channel and a tap.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.at_once import ALONE, ready_products
from windowgrad.kernels.conv.gemm.few import PACKED, few_products
from windowgrad.kernels.conv.gemm.layout import Joined, Layout, joined_layouts, layouts
from windowgrad.kernels.conv.gemm.packing import pack_tiles
from windowgrad.kernels.conv.gemm.products import products
from windowgrad.kernels.conv.gemm.weight import weight_products
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.range_check import any_strange
from windowgrad.kernels.conv.shapes import JOINED, WORK, Compute, End, Ending, Packed, Pass, Way, as_they_are, fill_unseen
from windowgrad.kernels.conv.share import by_threads, helpers, parts_for, room, shared, sharing
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import is_worth
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES

MANY_PANELS = 6
"""For each thread: with so many panels of pixels, threads share them, each several times; with fewer, rows, unless these are so
few that panels are shared more evenly: of 12 rows, one thread would have 8."""
COPIED = 0.6
"""Copying a panel of pixels takes as long as so many of its tiles: who shares tiles copies all panels, who shares panels may
have one more of them. Of 17 panels, 3×3 of 512 channels take 0.98 of the time if tiles are shared, of 128 channels 0.91."""
MANY_GRIDS = 2
"""For each thread: with fewer grids of pixels, each is cut into parts."""
MOST_TAPS, MOST_SUMS = 256, 1 << 15
"""Of `few_products`: the sums, a vector each, stay in the second cache or close to it."""
FEW_PIXELS, SOME_PIXELS = 512, 1024
"""Planes of fewer pixels are summed several at a time; pixels at a time, about."""


# --- when --------------------------------------------------------------------------------------------------------


def always(one: Pass, itemsize: int) -> bool:
    """`products`, `weight_products`: every pass (see `Pass` for what that is)."""
    return True


def may_sum_few(one: Pass, itemsize: int) -> bool:
    """`few_products`: the sums of all pairs of a row and a (channel, tap) are few, and so are the taps, which are listed."""
    return one.taps <= MOST_TAPS and one.rows * one.channels * one.taps <= MOST_SUMS


def leaves_tiles_empty(one: Pass) -> bool:
    """Whether `few_products` takes less time than tiles, in products of vectors, as measured with vectors of 64 bytes."""
    rows, numbers, lanes = one.rows, one.channels * one.taps, WIDE_BYTES // 4
    vectors = one.images * one.pixels / lanes
    high, wide = (rows, numbers) if one.gathers[0].in_order else (numbers, rows)
    slower = 1 if wide > 2 * lanes else 1.1 if wide > lanes else 1.3
    tiles = up_to(high, ROWS) * up_to(wide, lanes) * slower * vectors + 8 * wide * vectors
    pairs = min(up_to(numbers, ROWS // 2) * rows, up_to(rows, ROWS // 2) * numbers)
    return 1.2 * pairs * vectors + 25 * rows * numbers < tiles


def shares_rows(one: Pass, columns: int) -> bool:
    """Whether threads share vectors of rows of a weight gradient, so many in a group, and not channels.

    Who has some rows packs the cells of all channels; who has some channels turns the gradient of all rows around. 64 channels
    to 64, 3×3 on 4×4, took 1.6 times the time of all threads by rows.
    """
    even = one.groups * columns % 2 == 0 or one.groups * columns >= 8
    return one.channels < 2 or (even and (one.groups > 1 or one.channels * one.taps < 2 * one.rows))


def up_to(count: int, several: int) -> int:
    """The next multiple."""
    return -(-count // several) * several


# --- how ---------------------------------------------------------------------------------------------------------


def multiply(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    fill_unseen(one, bias, y, adds)
    strange, together = 0, joined_layouts(one, y.itemsize)
    if together is not None:
        return ready_grids(one, together, y.dtype, helpers(one.work), adds)(x, w, bias, y)
    for parts in alike(layouts(one, y.itemsize)):
        most, tiles = tiles_at_once(parts[0], y.itemsize), parts[0].tiles
        for start in range(0, tiles, most):
            strange |= multiply_tiles(one, parts, x, w, bias, y, (start, min(most, tiles - start)), adds)
    return strange


def alike(found: tuple[Layout, ...]) -> list[list[Layout]]:
    """The layouts of each grid of pixels: its parts have one weight, which is packed once."""
    return [list(parts) for _, parts in groupby(found, key=lambda each: id(each.places))]


def tiles_at_once(layout: Layout, itemsize: int) -> int:
    """For how many tiles the weight is packed at a time."""
    return max(1, plan.WEIGHTS // (layout.k * ROWS * itemsize)) if layout.packs else layout.tiles


def multiply_tiles(
    one: Pass, parts: list[Layout], x: Array, w: Array, bias: Array, y: Array, some: tuple[int, int], adds: bool
) -> int:
    """So many tiles from the first on, of all panels."""
    (start, tiles), threads, factor, strange, end = some, helpers(one.work), w, 0, as_they_are(y.dtype)
    own = parts[0].k * ROWS * tiles if parts[0].packs else 0
    sizes = slot_sizes(parts)
    cells, lists = room.get(own + threads * sizes[0], y.dtype, threads * sizes[1])
    if own:
        factor, cells = cells[:own], cells[own:]
        pack(one, parts[0], w, factor, start)
    for layout in parts:
        count = shares(layout, tiles, threads)
        whole = start, tiles, layout.panels, count, int(adds)
        given = x, factor, y, bias, *end, cells, lists, room.taken[:threads], layout.told, *whole
        strange |= shared(partial(products, *given), abs(count), one.work)
    return strange


def slot_sizes(parts: list[Layout]) -> tuple[int, int]:
    """The cells and integers that a thread needs for all parts, one after the other."""
    return max(part.slot_cells for part in parts), max(part.slot_lists for part in parts)


def ready_grids(one: Pass, grids: Joined, dtype: Any, threads: int, adds: bool) -> Compute:
    """All grids of pixels of an input gradient in one call; threads share them, or parts of their tiles if they are few."""
    some = 1 if threads == 1 else min(grids.tiles, -(-MANY_GRIDS * threads // grids.grids))
    start, end = sharing(products, some * grids.grids, threads), as_they_are(dtype)
    told = grids.told, 0, one.groups, some, 0, int(adds)

    def call(x: Array, w: Array, bias: Array, y: Array) -> int:
        cells, lists = room.get(threads * grids.slot_cells, dtype, threads * grids.slot_lists)
        return start(x, w, y, bias, *end, cells, lists, room.taken[:threads], *told)

    return call


def pack(one: Pass, layout: Layout, w: Array, to: Array, start: int = 0) -> None:
    """As many tiles as `to` has space for, from the first on."""
    sizes, tiles = (one.rows, one.channels, start), to.size // (layout.k * ROWS)
    shared(partial(pack_tiles, w, to, layout.places, layout.weight, sizes), tiles, to.nbytes)


def packed_wide(one: Pass, layout: Layout, w: Array) -> Array:
    """The weight as turned tiles read it: for each k, `height` rows side by side; those past the last are zeros."""
    counts = one.groups, one.rows, one.channels
    axes = [*(step * np.arange(count) for step, count in zip(layout.weight, counts, strict=True)), layout.places]
    tiles = -(-one.rows // layout.height)
    found = np.zeros((one.groups, tiles * layout.height, layout.k), w.dtype)
    found[:, : one.rows] = w[sum(np.ix_(*axes))].reshape(one.groups, one.rows, layout.k)
    return np.ascontiguousarray(found.reshape(one.groups, tiles, layout.height, layout.k).swapaxes(2, 3)).reshape(-1)


def shares(layout: Layout, tiles: int, threads: int) -> int:
    """How many shares of panels so many threads get, several each if there are many; below 0, of tiles."""
    if threads == 1:
        return layout.panels
    many, by_panels = layout.panels // (MANY_PANELS * threads), -(-layout.panels // threads) * (tiles + COPIED)
    if many and by_panels <= layout.panels * (-(-tiles // threads) + COPIED):
        return threads * min(4, many)
    return min(threads, layout.panels) if tiles < threads or layout.evenly else -threads


def keep_packed(one: Pass, w: Array, bias: Array, packed: Packed) -> Ending | None:
    """`multiply` for a weight that never changes: it is packed here, with all its tiles."""
    if one.has_unseen:
        return None
    parts = []
    for layout in layouts(one, w.itemsize, kept=True):
        key = layout.places.tobytes() + bytes([layout.height])
        if key not in packed and layout.height > ROWS:
            packed[key] = packed_wide(one, layout, w)
        elif key not in packed:
            tiles = empty((layout.tiles * layout.k * ROWS,), w.dtype)
            pack(one, layout, w, tiles)
            packed[key] = tiles
        parts.append((layout, packed[key]))

    def call(x: Array, y: Array, end: End) -> int:
        strange, threads = 0, helpers(one.work)
        for layout, factor in parts:
            cells, lists = room.get(threads * layout.slot_cells, y.dtype, threads * layout.slot_lists)
            count = shares(layout, layout.tiles, threads)
            whole = 0, layout.tiles, layout.panels, count, 0
            given = x, factor, y, bias, *end, cells, lists, room.taken[:threads], layout.told, *whole
            strange |= shared(partial(products, *given), abs(count), one.work)
        return strange

    return call


def ready_to_multiply(one: Pass, dtype: Any) -> Compute | None:
    """`multiply` of fresh sums, for a weight that is packed as a whole, or not at all: all but the kernel calls is done."""
    found, together = layouts(one, dtype.itemsize), joined_layouts(one, dtype.itemsize)
    if any(tiles_at_once(layout, dtype.itemsize) < layout.tiles for layout in found):
        return None

    def make(threads: int) -> Compute:
        if together is not None:
            calls = [ready_grids(one, together, dtype, threads, False)]
        else:
            calls = [ready_parts(one, parts, dtype, threads) for parts in alike(found)]
        if len(calls) == 1 and not one.has_unseen:
            return calls[0]

        def call(x: Array, w: Array, bias: Array, y: Array) -> int:
            fill_unseen(one, bias, y, False)
            strange = 0
            for each in calls:
                strange |= each(x, w, bias, y)
            return strange

        return call

    return by_threads(effort(one, dtype.itemsize) // ALONE, make)


def effort(one: Pass, itemsize: int) -> int:
    """For the choice of threads: the products, the pixels that are copied for them, and the sums that are stored."""
    return one.work + itemsize * (one.work * WORK // one.rows + one.images * one.groups * one.rows * one.pixels)


def ready_parts(one: Pass, parts: list[Layout], dtype: Any, threads: int) -> Compute:
    """One grid of pixels on so many threads."""
    first = parts[0]
    if threads == 1 and len(parts) == 1:
        return ready_products(one, first, dtype)
    own = first.k * ROWS * first.tiles if first.packs else 0
    packing = sharing(pack_tiles, first.tiles, threads if is_worth(own * dtype.itemsize) else 1)
    slot_cells, slot_lists = slot_sizes(parts)
    cells, lists = own + threads * slot_cells, threads * slot_lists
    sizes, end, calls = (one.rows, one.channels, 0), as_they_are(dtype), []
    for part in parts:
        count = shares(part, part.tiles, threads)
        calls.append((sharing(products, abs(count), threads), (part.told, 0, part.tiles, part.panels, count, 0)))

    def call(x: Array, w: Array, bias: Array, y: Array) -> int:
        (space, listed), strange = room.get(cells, dtype, lists), 0
        if own:
            packing(w, space, first.places, first.weight, sizes)
            w, space = space, space[own:]
        for start, told in calls:
            strange |= start(x, w, y, bias, *end, space, listed, room.taken[:threads], *told)
        return strange

    return call


def sum_pixels(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    return ready_pixels(one, gw.dtype, helpers(one.work))(x, g, bias, gw)


def ready_to_sum_pixels(one: Pass, dtype: Any) -> Compute:
    return by_threads(one.work, lambda threads: ready_pixels(one, dtype, threads))


def ready_pixels(one: Pass, dtype: Any, threads: int) -> Compute:
    """`weight_products` on so many threads."""
    (gather,), panel = one.gathers, plan.panel(dtype.itemsize)
    lanes = WIDE_BYTES // dtype.itemsize
    columns = -(-one.rows // lanes)
    by_rows = shares_rows(one, columns)
    pixels = min(plan.PIXELS, one.images * one.pixels)
    some = min(one.taps, plan.PIXELS), min(-(-one.rows // panel), 8) * panel, pixels
    own, own_lists = up_to(some[1] * pixels + ROWS * (pixels + lanes) + lanes + 2 * ROWS * panel, lanes), 3 * some[0] * pixels
    units = one.groups * columns if by_rows else one.channels
    count = parts_for(units, threads)
    start, share = sharing(weight_products, count, threads), (int(by_rows), units, count, own, own_lists)

    def call(x: Array, g: Array, bias: Array, gw: Array) -> int:
        start(x, g, gw, room.get(count * own, dtype, count * own_lists), gather.axes, one.sizes, some, share)
        return int(any_strange(gw, 0, gw.size))

    return call


def sum_few(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    return ready_few(one, gw.dtype, helpers(one.work))(x, g, bias, gw)


def ready_to_sum_few(one: Pass, dtype: Any) -> Compute:
    return by_threads(one.work, lambda threads: ready_few(one, dtype, threads))


def ready_few(one: Pass, dtype: Any, threads: int) -> Compute:
    """`few_products` on so many threads."""
    few = few_blocks(one, dtype.itemsize)
    count = parts_for(few.units, threads)
    own, own_lists = few_scratch(one, dtype.itemsize, count)
    told = one.gathers[0].axes, one.sizes, few.blocks, (few.by_rows, few.unit, few.units, count, own, own_lists)
    start = sharing(few_products, count, threads)

    def call(x: Array, g: Array, bias: Array, gw: Array) -> int:
        return start(x, g, gw, room.get(count * own, dtype, count * own_lists), *told)

    return call


class Few(NamedTuple):
    """`blocks` of `few_products`; whether (1 or 0) rows or else numbers are shared, how many are a unit, and all units."""

    blocks: tuple[int, int, int, int]
    by_rows: int
    unit: int
    units: int


@lru_cache(maxsize=512)
def few_blocks(one: Pass, itemsize: int) -> Few:
    numbers, lanes = one.channels * one.taps, WIDE_BYTES // itemsize
    turned = up_to(numbers, ROWS // 2) * one.rows < up_to(one.rows, ROWS // 2) * numbers
    by_rows = numbers < 2 * ROWS
    unit = ROWS if by_rows != turned else VECTORS
    images, pixels = pixels_at_once(one.images, one.pixels, lanes)
    in_place = one.gathers[0].in_order and images == 1
    packed = 0 if in_place else min(numbers, max(1, PACKED // (images * pixels + lanes) // unit) * unit)
    return Few((images, pixels, packed, int(turned)), int(by_rows), unit, -(-(one.rows if by_rows else numbers) // unit))


@lru_cache(maxsize=512)
def few_scratch(one: Pass, itemsize: int, count: int) -> tuple[int, int]:
    """The cells and integers that each of so many parts needs; what several parts need has space in theirs together."""
    (images, pixels, packed, turned), by_rows, unit, units = few_blocks(one, itemsize)
    lanes, numbers, most = WIDE_BYTES // itemsize, one.channels * one.taps, -(-units // count) * unit
    rows, columns = (min(most, one.rows), numbers) if by_rows else (one.rows, min(most, numbers))
    wide, tall = (rows, columns) if turned else (columns, rows)
    pitch = images * pixels + lanes
    sums, copied = (wide * up_to(tall, ROWS) + ROWS) * lanes, rows * pitch if images > 1 else 0
    cells = sums + packed * pitch + lanes + copied + lanes
    return up_to(cells, lanes), 3 * one.taps * images * pixels if packed else 0


def pixels_at_once(images: int, pixels: int, lanes: int) -> tuple[int, int]:
    """How many images and how many pixels of a plane are a block: parts of a plane, or several planes."""
    if pixels < FEW_PIXELS:
        return min(images, SOME_PIXELS // pixels), pixels
    parts = -(-pixels // SOME_PIXELS)
    return 1, up_to(-(-pixels // parts), lanes)


PRODUCTS = Way("products", always, multiply, ready=ready_to_multiply, ends=JOINED, kept=keep_packed)
FEW_WEIGHT = Way("few_weight", may_sum_few, sum_few, leaves_tiles_empty, ready_to_sum_few)
WEIGHT_PRODUCTS = Way("weight_products", always, sum_pixels, ready=ready_to_sum_pixels)
