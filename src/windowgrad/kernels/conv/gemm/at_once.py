"""A small pass of conv/gemm on one thread as one kernel call: the weight is packed, products are summed, sums are reviewed.

Python takes 0.3 to 1.2 µs for each kernel that it calls, by the number of arrays, which is as long as the products of a few
channels take. The kernels are called here by their addresses (`runtime/calls.py`), so nothing is compiled a second time. 8
channels to 64, 1×1 on 14×14, take 0.7 of the time of a whole call.

Of strange lanes (see HUGE) those are left out that `conv/entry.py` would leave as they are: no product of float32 can be
denormal, and all sums are finite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.conv.gemm.layout import Layout
from windowgrad.kernels.conv.gemm.packing import pack_tiles
from windowgrad.kernels.conv.gemm.products import products
from windowgrad.kernels.conv.gemm.short import short_products
from windowgrad.kernels.conv.plan import Array, Shape
from windowgrad.kernels.conv.range_check import may_be_denormal
from windowgrad.kernels.conv.shapes import Compute, Pass, as_they_are
from windowgrad.kernels.conv.share import room
from windowgrad.kernels.runtime.calls import call_at, number_at, span
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.team import address
from windowgrad.kernels.vector.masked import HUGE
from windowgrad.kernels.vector.registers import ROWS

ALONE = 2
"""One thread, with its one call, takes less time than two threads for so many times the work that others share: 24 channels to
111, 1×1×1 on 5×5×5, take as long by either."""


class Told(NamedTuple):
    """What the kernel is told: where others are, 0 if they are not called, and what these are told. Lists follow."""

    pack: int
    multiply: int
    review: int
    is_short: int
    """Whether (1 or 0) `multiply` is `short_products`, or else `products`."""
    is_wide: int
    """Whether (1 or 0) the weight has more cells than x."""
    own: int
    """Cells of the packed weight, and tiles of all groups."""
    tiles: int
    per_group: int
    per_row: int
    per_channel: int
    rows: int
    channels: int
    places: int
    """Taps of the weight, which are listed first."""
    rank: int
    """Of `short_products`: its axes, which are listed next, and their taps. Its other numbers follow."""
    taps: int
    panels: int
    """Of `products`; all that it is told is listed next."""


FIELDS = len(Told._fields)


@kernel
def multiply_at_once(x: Any, w: Any, y: Any, bias: Any, limits: Any, cells: Any, lists: Any, told: Any) -> int:
    """Fresh sums of a pass; gives the strange lanes, if something has to be done about them."""
    t = Told(
        told[0], told[1], told[2], told[3], told[4], told[5], told[6], told[7], told[8], told[9], told[10], told[11], told[12],
        told[13], told[14], told[15],
    )  # fmt: skip
    factor, at, space = w, FIELDS + t.places, span(cells, t.own, len(cells))
    if t.pack:
        factor, weight, sizes = cells, (t.per_group, t.per_row, t.per_channel), (t.rows, t.channels, 0)
        call_at(t.pack, (w, cells, span(told, FIELDS, at), weight, sizes, 0, t.tiles))
    if t.is_short:
        size, step, met = at + t.rank, at + 2 * t.rank, at + 3 * t.rank
        i = met + t.taps
        axes = span(told, at, size), span(told, size, step), span(told, step, met), span(told, met, i)
        counts = told[i], told[i + 1], told[i + 2], told[i + 3], told[i + 4], told[i + 5]
        strips, share = (told[i + 6], told[i + 7], told[i + 8], told[i + 9]), (told[i + 10], told[i + 11], told[i + 12])
        strange = number_at(t.multiply, (x, factor, y, bias, (space, lists), axes, counts, strips, share, 0, 1))
    else:
        lists[0] = 0  # no slot is taken
        own, taken, plan = span(lists, 1, len(lists)), span(lists, 0, 1), span(told, at, len(told))
        sums = x, factor, y, bias, span(limits, 0, 0), limits, space, own, taken, plan
        strange = number_at(t.multiply, (*sums, 0, t.tiles, t.panels, t.panels, 0, 0, t.panels))
    if strange != 0 and strange >> HUGE == 0 and t.review != 0:
        few, many = (x, w) if t.is_wide else (w, x)
        if number_at(t.review, (few, many, 0, len(many))) == 0:
            return 0
    return strange  # type: ignore[no-any-return]


# --- from Python -------------------------------------------------------------------------------------------------


def telling(one: Pass, dtype: Any, kernel: Any, given: tuple[Any, ...], own: int, tiles: int) -> Told:
    """The fields for a kernel with such arguments, and a weight that is packed into so many cells, or not at all."""
    floats, numbers = np.empty(0, dtype), np.empty(0, np.int64)
    pack = address(pack_tiles, (floats, floats, numbers, one.weight, (0, 0, 0))) if own else 0
    review = address(may_be_denormal, (floats, floats)) if dtype == np.float32 else 0
    is_wide = one.rows * one.taps > one.images * one.cells
    known = pack, address(kernel, given), review, int(kernel is short_products), int(is_wide)
    return Told._make((*known, own, tiles, *one.weight, one.rows, one.channels, 0, 0, 0, 0))


def ready_products(one: Pass, layout: Layout, dtype: Any) -> Compute:
    """One grid of pixels of `products`."""
    own = layout.k * ROWS * layout.tiles if layout.packs else 0

    def told() -> Array:
        given = *[np.empty(0, dtype)] * 7, *[np.empty(0, np.int64)] * 3, *[0] * 5
        fields = telling(one, dtype, products, given, own, layout.tiles)
        fields = fields._replace(places=len(layout.places), panels=layout.panels)
        return np.concatenate([fields, layout.places, layout.told])

    return calling(dtype, own + layout.slot_cells, 1 + layout.slot_lists, told)


def ready_short(one: Pass, dtype: Any, own: int, cells: int, lists: int, strips: Shape, share: Shape) -> Compute:
    """`short_products` in one part, whose packed weight has `own` cells, and which needs `cells` and `lists`."""
    (gather,), tiles = one.gathers, one.groups * -(-one.rows // ROWS)

    def told() -> Array:
        floats, numbers = np.empty(0, dtype), np.empty(0, np.int64)
        given = *[floats] * 4, (floats, numbers), (numbers,) * 4, one.sizes, strips, share
        fields, axes = telling(one, dtype, short_products, given, own, tiles), gather.axes
        fields = fields._replace(places=len(gather.places), rank=len(axes[0]), taps=len(axes[3]))
        return np.concatenate([fields, gather.places, *axes, one.sizes, strips, share])

    return calling(dtype, own + cells, lists, told)


def calling(dtype: Any, cells: int, lists: int, tell: Callable[[], Array]) -> Compute:
    """The call of the kernel, which needs so much scratch memory. What it is told is found in the first call."""
    limits, told = as_they_are(dtype).limits, cache(lambda: tell().astype(np.int64))

    def call(x: Array, w: Array, bias: Array, y: Array) -> int:
        space, listed = room.get(cells, dtype, lists)
        return multiply_at_once(x, w, y, bias, limits, space, listed, told())  # type: ignore[no-any-return]

    return call
