"""Each channel by itself, in boxes or from lists: when each kernel may be used, and how threads share the planes.

Boxes are told by `boxes.py`. In the order of `choose.WAYS`: square windows that roll (`rolling_ways.py`); large planes in
bands (`bands.py`), each by one of the next two; `three_rows`, planes side by side (`lanes.py`), `shifted`, then lists
(`any_geometry.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from windowgrad.kernels.conv.depthwise.any_geometry import PLANES, depthwise, depthwise_weight
from windowgrad.kernels.conv.depthwise.bands import BAND, FEW, bands
from windowgrad.kernels.conv.depthwise.boxes import Planes, together
from windowgrad.kernels.conv.depthwise.lane_plan import Order, Side, side_by_side
from windowgrad.kernels.conv.depthwise.lanes import sum_side_by_side
from windowgrad.kernels.conv.depthwise.lanes_weight import weight_side_by_side
from windowgrad.kernels.conv.depthwise.rolling_ways import fills_columns, keep_rolling, may_roll, ready_to_roll, roll
from windowgrad.kernels.conv.depthwise.shifted import SUM_VECTORS, shifted
from windowgrad.kernels.conv.depthwise.shifted_weight import TAPS, shifted_weight
from windowgrad.kernels.conv.depthwise.three_rows import HIGH, three_rows
from windowgrad.kernels.conv.depthwise.three_rows_weight import NINE, three_weight
from windowgrad.kernels.conv.plan import Array, listed_at_once
from windowgrad.kernels.conv.range_check import any_strange
from windowgrad.kernels.conv.shapes import LIMITED, End, Ending, Packed, Pass, Way, as_they_are, fill_unseen
from windowgrad.kernels.conv.share import parts, room, shared
from windowgrad.kernels.vector.registers import WIDE_BYTES

SHIFT_WORK = 2
"""How much longer a product takes where a plane stands in a box, for the choice of threads."""
PLANE_WORK = 8
"""The same where a plane is read from lists."""
FULL_ROWS = 0.48
"""The part of the vectors of `three_rows` that are pixels, below which planes in lanes are faster: of 7×7 pixels, 0.38 are, and
lanes take 0.6 of the time; of 17×17 it is 0.45 and 0.9, of 10×10 0.52 and 1.2. Both add in the same order."""
BLOCK, FULL = 16, 0.7
"""Planes of a block in lanes, at the most, and the part of them that must be there; full, it is 1.1 to 2.4 times as fast as
`shifted`."""


# --- when --------------------------------------------------------------------------------------------------------


def boxed(one: Pass) -> Planes:
    plan = one.planes
    assert plan is not None
    return plan


def may_shift(one: Pass, itemsize: int) -> bool:
    """`shifted`: each plane of y comes from one of x, and the plane fits in a box. Any taps may be listed, in any phases."""
    return one.by_planes and one.planes is not None


def may_sum_three(one: Pass, itemsize: int) -> bool:
    """`three_rows`: a plane of two axes in a box, whose taps are three rows that follow each other there.

    The input and the output have one phase each, so that rows of x and of y are copied and stored as they are. The plan
    lists every tap of the weight: an input gradient with a stride may meet fewer, even if it has one phase. The i-th tap of
    the second and the third row stands one and two rows of the box after the i-th one of the first.
    """
    plan = one.planes
    if not may_shift(one, itemsize) or plan is None or not plan.rows or len(plan.starts) != 2 or len(plan.apart) != 1:
        return False
    places = plan.lists[0]
    if len(places) != one.taps or one.taps % 3:
        return False
    return bool((np.diff(places.reshape(3, -1), axis=0) == plan.pitch).all())


def may_shift_weight(one: Pass, itemsize: int) -> bool:
    """`shifted_weight`: as `shifted`, of a forward pass; its output has one phase, which lists every tap of the weight once."""
    plan = one.planes
    return may_shift(one, itemsize) and plan is not None and not one.back and lists_all(plan, one.taps)


def lists_all(plan: Planes, taps: int) -> bool:
    return len(plan.starts) == 2 and np.array_equal(np.sort(plan.lists[1]), np.arange(taps))


def may_sum_nine(one: Pass, itemsize: int) -> bool:
    """`three_weight`: as `three_rows`, for a weight of 3 × 3 in a forward pass that lists each of its taps once.

    In the order of the weight, too, its rows follow each other in the box.
    """
    if not (may_sum_three(one, itemsize) and may_shift_weight(one, itemsize) and one.window.kernel == (3, 3)):
        return False
    places = boxed(one).by_place(1).reshape(3, 3)
    return bool((np.diff(places, axis=0) == boxed(one).pitch).all())


def may_list_planes(one: Pass, itemsize: int) -> bool:
    """`depthwise`, `depthwise_weight`: each plane of y comes from one of x; pixels of a row meet cells at most two apart."""
    return one.by_planes and all(gather.own_axes[2][-1] <= 2 for gather in one.gathers)


def several(one: Pass) -> bool:
    """PLANES of them are computed at once."""
    return one.groups > 1


def may_lie_side_by_side(one: Pass, itemsize: int) -> bool:
    """`sum_side_by_side`: each plane of y comes from one of x, every pixel meets a tap, and there is a plan (`lane_plan`)."""
    return one.by_planes and not one.has_unseen and sides(one) is not None


@lru_cache(maxsize=256)
def sides(one: Pass) -> Side | None:
    """The plan, whose sums have the order of the kernel that takes the pass where there are too few planes for the lanes."""
    order = Order.CELLS if may_roll(one, 0) else Order.COLUMNS if may_sum_three(one, 0) else Order.BOX
    return side_by_side(one, order)


def may_weigh_side_by_side(one: Pass, itemsize: int) -> bool:
    """`weight_side_by_side`: the same, of a forward pass."""
    return not one.back and may_lie_side_by_side(one, itemsize)


def may_band(one: Pass, itemsize: int) -> bool:
    """`three_rows` or `shifted`, band by band: each plane of y comes from one of x, and its parts fit in boxes."""
    return one.by_planes and len(bands(one)) > 0


def may_band_weight(one: Pass, itemsize: int) -> bool:
    """`three_weight` or `shifted_weight`, band by band, of a forward pass whose bands list every tap of the weight once."""
    return may_band(one, itemsize) and not one.back and all(may_shift_weight(band.one, itemsize) for band in bands(one))


def large(one: Pass) -> bool:
    """Too large for one box, or for one thread."""
    return one.planes is None or (one.images * one.groups < FEW and max(one.cells, one.pixels) > BAND)


def fills_lanes(one: Pass) -> bool:
    """Whether most lanes have a plane; windows of three rows share loads, and are left to `three_rows` where that is full."""
    return are_full(one.images * one.groups) and one.planes is not None and not (may_sum_three(one, 0) and fills_rows(one))


def fills_rows(one: Pass) -> bool:
    """Whether enough of the vectors and rows that `three_rows` computes at a time are pixels."""
    rows, width = one.grid[0], one.grid[-1]
    return rows * width >= FULL_ROWS * in_vectors_of(width, 4) * -(-rows // HIGH) * HIGH


def rolls_faster(one: Pass) -> bool:
    """Whether `rolling` is faster than planes in lanes."""
    return not fills_lanes(one) or fills_columns(one) or not may_lie_side_by_side(one, 0)


def leaves_lanes(one: Pass) -> bool:
    """Whether `three_rows` is faster than planes in lanes."""
    return fills_rows(one) or not (fills_lanes(one) and may_lie_side_by_side(one, 0))


def channels_fill_lanes(one: Pass) -> bool:
    """The same in a weight gradient, whose lanes are channels, and which `three_weight` may take."""
    return are_full(one.groups) and one.groups > BLOCK and one.planes is not None and not may_sum_nine(one, 0)


def are_full(planes: int) -> bool:
    return planes >= FULL * -(-planes // BLOCK) * BLOCK


def whole_rows(one: Pass, band: Pass) -> bool:
    """Whether a band has the rows of its planes as they are, which the kernels of three rows store one after the other."""
    return one.grid[-1] == band.grid[-1] and one.size[-1] == band.size[-1]


# --- how ---------------------------------------------------------------------------------------------------------


def in_vectors(cells: int, a: Array) -> int:
    """So many cells, rounded up to vectors, so that what follows begins with a line of the cache."""
    return in_vectors_of(cells, a.itemsize)


def in_vectors_of(cells: int, itemsize: int) -> int:
    lanes = WIDE_BYTES // itemsize
    return -(-cells // lanes) * lanes


def limits(end: End | None, y: Array) -> Array:
    return (end or as_they_are(y.dtype)).limits


def shift(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool, end: End | None = None) -> int:
    plan, block = boxed(one), SUM_VECTORS * WIDE_BYTES // y.itemsize
    pitch = -(-plan.flat // block) * block
    cells, sums = max(plan.reach + pitch, plan.cells), pitch * (len(plan.starts) - 1)
    some = together(cells + sums)
    widths = plan.width, plan.out_width, plan.phases
    sizes = one.groups, one.cells, one.pixels, one.taps, cells, pitch, *widths, some
    tables = plan.apart, plan.ins, plan.outs, plan.starts, plan.lists

    planes, work, own = one.images * one.groups, SHIFT_WORK * one.work, in_vectors(some * (cells + sums) + block, y)
    count = parts(planes, work)
    boxes, _ = room.get(count * own, y.dtype)
    return shared(
        partial(shifted, x, w, y, bias, limits(end, y), boxes, tables, sizes, (planes, count, own, adds)), count, work
    )


def sum_three(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool, end: End | None = None) -> int:
    plan = boxed(one)
    ends = plan.reach + (plan.rows + HIGH) * plan.pitch + 2 * WIDE_BYTES
    box = in_vectors(max(ends, plan.cells), y), plan.pitch, plan.width, int(plan.apart[0])
    sizes = one.groups, one.cells, plan.rows, plan.out_width, *box
    planes, work = one.images * one.groups, SHIFT_WORK * one.work
    count = parts(planes, work)
    boxes, _ = room.get(count * box[0], y.dtype)
    return shared(
        partial(three_rows, x, w, y, bias, limits(end, y), boxes, plan.ins, plan.lists, sizes, (planes, count, adds)),
        count,
        work,
    )


def shift_weight(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    plan, lanes = boxed(one), WIDE_BYTES // gw.itemsize
    bits, places = plan.masks(lanes), plan.by_place(TAPS)
    pitch = len(bits) * lanes
    cells = in_vectors(max(plan.reach + pitch, plan.cells), gw)
    some, widths = together(cells + pitch), (plan.width, plan.out_width)
    sizes = one.images, one.groups, one.cells, one.pixels, one.taps, cells, pitch, *widths, some
    tables, work = (plan.apart, plan.ins, plan.outs, places, bits), SHIFT_WORK * one.work
    count = parts(one.groups, work)
    boxes, _ = room.get(count * some * (cells + pitch + len(places) * lanes), gw.dtype)
    return shared(partial(shifted_weight, x, g, gw, boxes, tables, sizes, count), count, work)


def sum_nine(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    plan, lanes = boxed(one), WIDE_BYTES // gw.itemsize
    cells = in_vectors(max(plan.cells, plan.reach + plan.rows * plan.pitch + 2 * WIDE_BYTES), gw)
    some = together(one.cells)
    box = cells, plan.pitch, plan.width, int(plan.apart[0])
    sizes, work = (one.images, one.groups, some, one.cells, plan.rows, plan.out_width, *box), SHIFT_WORK * one.work
    count = parts(one.groups, work)
    boxes, _ = room.get(count * (cells + some * NINE * lanes), gw.dtype)
    return shared(partial(three_weight, x, g, gw, boxes, plan.ins, plan.by_place(1), sizes, count), count, work)


def sum_sides(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool, end: End | None = None) -> int:
    plan, lanes, jobs = sides(one), WIDE_BYTES // y.itemsize, one.images * one.groups
    assert plan is not None
    sizes = jobs, one.groups, one.cells, one.pixels, one.taps, plan.box
    tables = plan.places, plan.runs, plan.taps, plan.chunks, plan.numbers
    own, work = (one.taps + 1 + plan.box) * lanes + in_vectors(plan.sums, y) * lanes, SHIFT_WORK * one.work
    units = -(-jobs // lanes) * len(plan.chunks)
    count = parts(units, work)
    boxes, _ = room.get(count * own, y.dtype)
    share = units, count, own, adds
    return shared(partial(sum_side_by_side, x, w, y, bias, limits(end, y), boxes, tables, sizes, share), count, work)


def weigh_sides(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    plan, lanes = sides(one), WIDE_BYTES // gw.itemsize
    assert plan is not None
    taps, blocks, work = in_vectors(one.taps, gw), -(-one.groups // lanes), SHIFT_WORK * one.work
    sizes = one.images, one.groups, one.cells, one.pixels, one.taps, taps, plan.box
    tables = plan.places, plan.runs, plan.taps, plan.chunks, plan.numbers
    own, count = (taps + plan.box + plan.sums) * lanes, parts(blocks, work)
    boxes, _ = room.get(count * own, gw.dtype)
    return shared(partial(weight_side_by_side, x, g, gw, boxes, tables, sizes, (blocks, count, own)), count, work)


def multiply_planes(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    fill_unseen(one, bias, y, adds)
    weight = np.concatenate([w, np.zeros(PLANES * one.taps, w.dtype)])

    def task(first: int, last: int) -> int:
        strange = 0
        for gather in one.gathers:
            at_once = min(gather.pixels, listed_at_once(len(gather.places)))
            scratch = room.get(2 * PLANES * WIDE_BYTES, y.dtype, 3 * at_once * (len(gather.places) + 1))
            outs, share = (gather.move, gather.out_axes[2]), (first, last, adds)
            args = gather.own_axes, outs, gather.places, one.sizes, at_once, share
            strange |= int(depthwise(x, weight, y, bias, scratch, *args))
        return strange

    return shared(task, one.images * -(-one.groups // PLANES), PLANE_WORK * one.work)


def sum_planes(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    (gather,), at_once = one.gathers, listed_at_once(one.taps)

    def task(first: int, last: int) -> int:
        scratch = room.get(2 * PLANES * WIDE_BYTES, gw.dtype, 3 * min(at_once, one.pixels) * (one.taps + 1))
        start, end = (min(one.groups, four * PLANES) * one.taps for four in (first, last))
        gw[start:end] = 0
        depthwise_weight(x, g, gw, scratch, gather.own_axes, gather.move, one.sizes, at_once, (first, last))
        return int(any_strange(gw, start, end))

    return shared(task, -(-one.groups // PLANES), PLANE_WORK * one.work)


def in_bands(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    """Each band as a convolution of one plane, from and to where it stands in x and y."""
    parts, planes = bands(one), one.images * one.groups
    three = [may_sum_three(b.one, y.itemsize) for b in parts]
    by = [sum_three if may and whole_rows(one, b.one) else shift for may, b in zip(three, parts, strict=True)]
    passes = [by_columns(b.one) if may and how is shift else b.one for may, how, b in zip(three, by, parts, strict=True)]

    def task(first: int, last: int) -> int:
        strange = 0
        for job in range(first, last):
            (plane, number), channel = divmod(job, len(parts)), job // len(parts) % one.groups
            (_, x_at, y_at), band = parts[number], passes[number]
            cells, pixels = x[plane * one.cells + x_at :], y[plane * one.pixels + y_at :]
            strange |= by[number](band, cells, w[channel * one.taps :], bias[channel:], pixels, adds)
        return strange

    return shared(task, planes * len(parts), SHIFT_WORK * one.work)


@lru_cache(maxsize=256)
def by_columns(one: Pass) -> Pass:
    """The same pass, whose box lists three rows of taps as `three_rows` adds them, which a plane alone may be left to."""
    plan, same = boxed(one), replace(one)
    lists = plan.lists.reshape(2, 3, -1).swapaxes(1, 2).reshape(2, -1)
    same.__dict__["planes"] = replace(plan, lists=lists)  # a cached property
    return same


def weight_in_bands(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    """The weight gradient of every band of every plane by itself; then those of a channel are added up in their order."""
    parts, planes = bands(one), one.images * one.groups
    by = [sum_nine if whole_rows(one, b.one) and may_sum_nine(b.one, gw.itemsize) else shift_weight for b in parts]
    sums = np.empty((planes * len(parts), one.taps), gw.dtype)

    def task(first: int, last: int) -> int:
        for job in range(first, last):
            plane, number = divmod(job, len(parts))
            band, x_at, y_at = parts[number]
            by[number](band, x[plane * one.cells + x_at :], g[plane * one.pixels + y_at :], bias, sums[job], False)
        return 0

    shared(task, len(sums), SHIFT_WORK * one.work)
    with np.errstate(all="ignore"):
        total = sums.reshape(one.images, one.groups, len(parts), one.taps).sum(axis=(0, 2), dtype=np.float64)
        gw[: total.size] = total.reshape(-1)
    return int(any_strange(gw, 0, total.size))


def kept(compute: Callable[..., int]) -> Callable[[Pass, Array, Array, Packed], Ending]:
    """`Way.kept` of a kernel that packs nothing."""
    return lambda one, w, bias, packed: lambda x, y, end: compute(one, x, w, bias, y, False, end)


BANDS = Way("bands", may_band, in_bands, large)
BANDS_WEIGHT = Way("bands_weight", may_band_weight, weight_in_bands, large)
ROLL = Way("rolling", may_roll, roll, rolls_faster, ready_to_roll, LIMITED, keep_rolling)
THREE = Way("three_rows", may_sum_three, sum_three, leaves_lanes, kept=kept(sum_three), ends=LIMITED)
LANES = Way("lanes", may_lie_side_by_side, sum_sides, fills_lanes, kept=kept(sum_sides), ends=LIMITED)
LANES_WEIGHT = Way("lanes_weight", may_weigh_side_by_side, weigh_sides, channels_fill_lanes)
SHIFTED = Way("shifted", may_shift, shift, kept=kept(shift), ends=LIMITED)
NINE_WEIGHT = Way("three_weight", may_sum_nine, sum_nine)
SHIFTED_WEIGHT = Way("shifted_weight", may_shift_weight, shift_weight)
LISTS = Way("depthwise", may_list_planes, multiply_planes, several)
LISTS_WEIGHT = Way("depthwise_weight", may_list_planes, sum_planes, several)
