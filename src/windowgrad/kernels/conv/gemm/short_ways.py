"""Sums of few products for many rows: when `short.py` may be used, and how threads share it: planes, or slices of rows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.at_once import ALONE, ready_short
from windowgrad.kernels.conv.gemm.packing import pack_tiles
from windowgrad.kernels.conv.gemm.short import short_products
from windowgrad.kernels.conv.gemm.times import loop_time, pack_time
from windowgrad.kernels.conv.gemm.ways import keep_packed, multiply, up_to
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.shapes import JOINED, Compute, Pass, Way
from windowgrad.kernels.conv.share import by_threads, helpers, parts_for, room, sharing
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES

SHORT_SUMS = 32
"""Of `short_products`: products of a sum, at the most. With 1 to 4 of them it takes 0.6 of the time of `products`, with 32
0.9, if the pixels are not copied; copies take longer than there, so they must be used by more rows than there are of them."""
AROUND = 150
"""Cycles that a tile of `products` takes around its sums, less what one of `short_products` does. Where this is longer than the
products of the rows that are missing to ROWS, fewer rows are summed here, too: 1 channel to 3 on 112×112 takes 0.3 of the time,
7 to 3 0.7."""
STRIP = 6144
"""Cells that a strip of pixels meets, about, which stay in the nearest cache."""
SLICES, LEAST_TILES = 4, 2
"""Slices of the rows of all planes, for threads to share, if that leaves so many tiles to each. 7 → 1024 channels on 33×33
takes 0.7 of the time on two threads."""
COPIES = 8
"""Where pixels are copied, that is done for every slice: if there is one strip only, and products take so many times as long.
32 → 1024 channels, 1×1×1 with a stride of 2 on 8×8×8, take 0.7 of the time; slices of two strips take 1.05 to 1.1."""
FULL_VECTORS = 0.75
"""The part of the vectors of a plane that are pixels, below which panels that run over images are faster."""


# --- when --------------------------------------------------------------------------------------------------------


def may_sum_short(one: Pass, itemsize: int) -> bool:
    """`short_products`: one grid of pixels that stand in y one after the other, and sums that `products` has in one block."""
    dense = len(one.gathers) == 1 and len(one.gathers[0].out_axes[0]) == 1
    return dense and not one.has_unseen and one.channels * one.taps <= plan.STEPS


def sums_short(one: Pass) -> bool:
    lanes = WIDE_BYTES // 4
    full, k = one.pixels >= FULL_VECTORS * up_to(one.pixels, lanes), one.channels * one.taps
    copied = 0 if one.gathers[0].in_order else k
    enough = one.rows >= ROWS + copied
    if one.rows < ROWS and not copied:
        enough = k * (ROWS * VECTORS - loop_time(one.rows, VECTORS)) <= AROUND
    return full and k <= SHORT_SUMS and enough


# --- how ---------------------------------------------------------------------------------------------------------


class Strips(NamedTuple):
    """How many strips a plane has, pixels of the longest, in panels, whether (1 or 0) x is read where it stands, and slices."""

    number: int
    pitch: int
    in_place: int
    slices: int


@lru_cache(maxsize=512)
def strips(one: Pass, itemsize: int) -> Strips:
    (gather,), length, tiles = one.gathers, plan.panel(itemsize), -(-one.rows // ROWS)
    panels, most = -(-one.pixels // length), max(1, STRIP // (one.channels * len(gather.places) * length))
    number, planes = -(-panels // most), one.images * one.groups
    slices = min(SLICES // planes, tiles // LEAST_TILES)
    if not gather.in_order:
        most = int(tiles * ROWS * VECTORS / (COPIES * pack_time(gather, length)))
        slices = min(slices, most) if planes * number == 1 else 1
    return Strips(number, -(-panels // number) * length, int(gather.in_order), max(1, slices))


def sum_short(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    if adds:
        return multiply(one, x, w, bias, y, adds)
    return shared_short(one, y.dtype, helpers(bytes_of(one, y.itemsize)))(x, w, bias, y)


def bytes_of(one: Pass, itemsize: int) -> int:
    """For the choice of threads: the products, and y, which takes longer to write than so few of them."""
    return one.work + itemsize * one.images * one.groups * one.rows * one.pixels


class ShortPlan(NamedTuple):
    """Cells of the packed weight, cells and integers of all parts, and what `short_products` is told."""

    packed: int
    cells: int
    lists: int
    strips: Strips
    share: tuple[int, int, int]


@lru_cache(maxsize=512)
def short_plan(one: Pass, itemsize: int, count: int) -> ShortPlan:
    (gather,), some, lanes = one.gathers, strips(one, itemsize), WIDE_BYTES // itemsize
    k, tiles = one.channels * len(gather.places), one.groups * -(-one.rows // ROWS)
    own, own_lists = (0, 0) if some.in_place else (k * some.pitch + lanes, 3 * len(gather.places) * some.pitch)
    return ShortPlan(tiles * k * ROWS, count * own, count * own_lists, some, (count, own, own_lists))


def ready_to_sum_short(one: Pass, dtype: Any) -> Compute:
    """`sum_short` of fresh sums: all but the kernel calls is done, and on one thread there is one."""

    def make(threads: int) -> Compute:
        if threads > 1:
            return shared_short(one, dtype, threads)
        packed, own, own_lists, some, share = short_plan(one, dtype.itemsize, 1)
        return ready_short(one, dtype, packed, own, own_lists, tuple(some), share)

    return by_threads(bytes_of(one, dtype.itemsize) // ALONE, make)


def shared_short(one: Pass, dtype: Any, threads: int) -> Compute:
    """`short_products` of fresh sums on so many threads."""
    (gather,), some = one.gathers, strips(one, dtype.itemsize)
    count = parts_for(one.images * one.groups * some.slices * some.number, threads)
    packed, own, own_lists, _, share = short_plan(one, dtype.itemsize, count)
    start, told = sharing(short_products, count, threads), (gather.axes, one.sizes, tuple(some), share)
    packing = gather.places, one.weight, (one.rows, one.channels, 0), 0, one.groups * -(-one.rows // ROWS)

    def call(x: Array, w: Array, bias: Array, y: Array) -> int:
        cells, lists = room.get(packed + own, dtype, own_lists)
        pack_tiles(w, cells, *packing)
        return start(x, cells, y, bias, (cells[packed:], lists), *told)

    return call


SHORT = Way("short", may_sum_short, sum_short, sums_short, ready_to_sum_short, JOINED, keep_packed)
