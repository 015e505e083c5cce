"""Regions that are a whole plane, where channels stand last: their maximum, their winners, and the gradient.

What `whole_planes` does, with one plane in each lane of a vector: a vector of channels runs over all cells of an image, so
nothing is copied to channels first, and nothing is compared along a vector. A plane is read once, in blocks of which the
greatest cells are kept; only blocks that have the greatest of all are looked at again, while they are in a cache, for where it
stands and whether others equal it. With a NaN among them, cells are compared one after the other as the meaning says.

Measured on float32, two threads: with the place of the greatest so far carried along, winners of 32×56×56×64 took 890 µs, and
255 by blocks. On planes of three channels a copy to channels first takes half of the time (`SOME`). Gradients take as long as
there. Clearing the gradient by groups of channels, cell after cell, took three times as long as by parts of the cells.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.layout import Layout, is_channels_last, kept_layout
from windowgrad.kernels.pool.max.winner_runs import as_names, carried
from windowgrad.kernels.pool.row_pieces import wipe
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.half import cells as floats
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    beats,
    either,
    equal,
    lanes,
    larger,
    later,
    load_part,
    select,
    splat,
    store,
    store_part,
    unordered,
)
from windowgrad.kernels.vector.registers import WIDE_BYTES, load_wide, load_wide_part, wide_lanes

HUGE = 1 << 30
"""From so many cells on, twice a place is no number of 32 bits."""

SOME = 8
"""The fewest channels whose planes are looked at together: of fewer, most lanes would be empty."""

PARTS = 4
"""Parts of a single image, for threads to share."""

PLACES, TWICE, TIED = range(3)
"""What a winner is called: its place, twice that, and one more than that if others equal it."""

BLOCK = 32
"""Cells whose greatest are kept, so that only some of them are looked at again."""

SHARE = 128
"""The most channels that are looked at together, a multiple of the lanes of every vector."""


def last_planes(geometry: Geometry, x: Array) -> Layout | None:
    """The layout of x, if its channels stand last and planes are of moderate size; else None."""
    if not is_channels_last(x, geometry, x.shape):
        return None
    layout = kept_layout(geometry, x.shape, "alone")
    return layout if layout is not None and layout.channels >= SOME and 0 < layout.plan.plane_in < HUGE else None


@helper
def top_of_block(x: Any, at: int, cells: int, channels: int, room: int) -> Any:
    """(the greatest of each lane, the lanes of which one is NaN) of a wide vector of channels from `at` on; `room` are read."""
    n, i = wide_lanes(x), 1
    if room < n:
        best = load_wide_part(x, at, room)
        seen = unordered(best, best)
        while i < cells:
            more = load_wide_part(x, at + i * channels, room)
            best, seen, i = larger(best, more), either(seen, unordered(more, more)), i + 1
        return best, seen
    best = load_wide(x, at)
    other, seen = best, unordered(best, best)
    while i + 1 < cells:
        one, two = load_wide(x, at + i * channels), load_wide(x, at + (i + 1) * channels)
        best, other, seen, i = larger(best, one), larger(other, two), either(seen, unordered(one, two)), i + 2
    if i < cells:
        one = load_wide(x, at + i * channels)
        best, seen = larger(best, one), either(seen, unordered(one, one))
    return larger(best, other), seen


@helper
def winners_of_blocks(x: Any, at: int, cells: int, channels: int, room: int, tops: Any, apart: int, like: Any) -> Any:
    """(the greatest of each lane, its place, 1 if others equal it) of a wide vector of channels from `at` on, without NaN.

    `tops` are those of the blocks, `apart` numbers from each other; only blocks that have one of them are looked at.
    """
    n, best, blocks = wide_lanes(x), load_wide(tops, 0), (cells + BLOCK - 1) // BLOCK
    for b in range(1, blocks):
        best = larger(best, load_wide(tops, b * apart))
    value, zero = best, load_wide_part(like, 0, 0)
    who, count, one = zero, zero, splat(zero, 1)
    for b in range(blocks - 1, -1, -1):
        if anywhere(equal(load_wide(tops, b * apart), best)):
            for cell in range(min((b + 1) * BLOCK, cells) - 1, b * BLOCK - 1, -1):  # so the first comes last
                seen = load_wide(x, at + cell * channels) if room >= n else load_wide_part(x, at + cell * channels, room)
                same = equal(seen, best)
                value, who = select(same, seen, value), select(same, splat(zero, cell), who)
                count = count + select(same, one, zero)
    return value, who, select(equal(count, one), zero, one)


@helper
def winners_of_some(x: Any, at: int, cells: int, channels: int, room: int, like: Any) -> Any:
    """The same of the first `room` lanes of a vector, of which some may be NaN; nothing past them is read."""
    rest, who, tied, zero, one = splat(x, 0), splat(like, 0), splat(like, 0), splat(like, 0), splat(like, 1)
    best = load_part(x, at, room, rest)
    for cell in range(1, cells):
        at += channels
        seen = load_part(x, at, room, rest)
        better, same = beats(seen, best), either(equal(seen, best), unordered(seen, seen))
        tied = select(better, zero, select(same, one, tied))
        best, who = select(better, seen, best), select(better, splat(like, cell), who)
    return best, who, tied


@helper
def named(who: Any, tied: Any, names: int) -> Any:
    if names == PLACES:
        return who
    return who + who + tied if names == TIED else who + who


@helper
def write_winners(y: Any, found: Any, to: int, room: int, n: int, best: Any, who: Any, wanted: bool) -> None:
    """The values and the winners of n lanes, of which there are only `room`."""
    if room >= n:
        store(found, to, as_names(who, found))
        if wanted:
            store(y, to, best)
    else:
        store_part(found, to, as_names(who, found), room)
        if wanted:
            store_part(y, to, best, room)


@kernel
def last_plane_winners(
    x: Any, y: Any, found: Any, kind: Any, like: Any, names: int, cells: int, channels: int, share: int, first: int, last: int
) -> None:
    """found = the winners of the shares `first` to `last` of the channels of all images, y = their values unless it is empty.

    `names` says what a winner is called: its place, twice that, or one more than that if others equal it. Cells are compared as
    those of the array `kind`.
    """
    wanted, n, m = len(y) > 0, wide_lanes(kind), lanes(kind)
    shares, groups, blocks = (channels + share - 1) // share, (share + n - 1) // n, (cells + BLOCK - 1) // BLOCK
    space, strange, apart = np.empty(blocks * groups * n, kind.dtype), np.zeros(groups, np.bool_), groups * n
    x, y, found, like, tops = floats(x), floats(y), address(found), address(like), address(space)
    for job in range(first, last):
        image, low = job // shares, job % shares * share
        size, base, to = min(share, channels - low), image * cells * channels + low, image * channels + low
        strange[:] = False
        for b in range(blocks):
            at, some = base + b * BLOCK * channels, min(BLOCK, cells - b * BLOCK)
            for k in range((size + n - 1) // n):
                top, nan = top_of_block(x, at + k * n, some, channels, size - k * n)
                store(tops, b * apart + k * n, top)
                strange[k] |= anywhere(nan)
        for c in range(0, size, n):
            if not strange[c // n]:
                best, who, tied = winners_of_blocks(x, base + c, cells, channels, size - c, later(tops, c), apart, like)
                write_winners(y, found, to + c, size - c, n, best, named(who, tied, names), wanted)
                continue
            for lane in range(c, min(c + n, size), m):
                best, who, tied = winners_of_some(x, base + lane, cells, channels, size - lane, like)
                write_winners(y, found, to + lane, size - lane, m, best, named(who, tied, names), wanted)
    alive(space)


@helper
def pay_some(x: Any, gx: Any, at: int, cells: int, low: int, high: int, step: int, top: Any, paid: Any, split: bool) -> None:
    """gx = the gradient, or an even part of it, at the cells from `low` to `high` that equal `top`; cells are `step` apart."""
    nan, winners = top != top, 0
    if split:
        for i in range(at, at + cells * step, step):
            winners += x[i] == top or (nan and x[i] != x[i])
    for i in range(at + low * step, at + high * step, step):
        if x[i] == top or (nan and x[i] != x[i]):
            gx[i] += paid / winners if split else paid  # −0.0 is 0.0


@kernel
def last_plane_back(
    x: Any, found: Any, g: Any, gx: Any, split: bool, cells: int, channels: int, part: int, first: int, last: int
) -> None:
    """gx = the gradient at the winners, in parts of so many cells of an image; x is read where there are several."""
    parts = (cells + part - 1) // part
    x, found, g, gx = address(x), address(found), address(g), address(gx)
    for job in range(first, last):
        image, low = job // parts, job % parts * part
        high, base = min(low + part, cells), image * cells * channels
        wipe(gx, base + low * channels, base + high * channels)
        for c in range(channels):
            p, at = image * channels + c, base + c
            cell = found[p] // 2
            if found[p] % 2 == 0:
                if low <= cell < high:
                    gx[at + cell * channels] = 0 + g[p]  # −0.0 is 0.0
            else:
                pay_some(x, gx, at, cells, low, high, channels, x[at + cell * channels], g[p], split)


def winners_shared(layout: Layout, dtype: Any, names: int) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel that finds the winners of whole planes, what it is told besides its arrays, and how much there is to share."""
    channels, n = layout.channels, WIDE_BYTES // dtype.itemsize
    share = min(SHARE, channels) if layout.planes >= PARTS else n * max(1, channels // (PARTS * n))
    told = np.empty(0, dtype), carried(dtype), np.int64(names)
    given = *told, np.int64(layout.plan.plane_in), np.int64(channels), np.int64(share)
    return last_plane_winners, given, layout.planes * math.ceil(channels / share)


def last_winners_of_planes(layout: Layout, values: Array, y: Array, found: Array, ties: bool) -> None:
    """y and found = the values and the winners of all planes, and whether others equal these if `ties`; y may be empty."""
    kernel, given, count = winners_shared(layout, values.dtype, TIED if ties else TWICE)
    run(partial(kernel, values, y, found, *given), count, values.nbytes)


def gradient_shared(layout: Layout, split: bool) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel for the gradient of whole planes, what it is told besides its arrays, and how much there is to share."""
    cells = layout.plan.plane_in
    part = cells if layout.planes > 1 else math.ceil(cells / PARTS)
    given = split, np.int64(cells), np.int64(layout.channels), np.int64(part)
    return last_plane_back, given, layout.planes * math.ceil(cells / part)


def last_gradient(layout: Layout, values: Array, found: Array, g: Array, gx: Array, split: bool) -> None:
    """gx = the gradient of the planes at their winners; `values` are read where there are several."""
    kernel, given, count = gradient_shared(layout, split)
    run(partial(kernel, values, found, g, gx, *given), count, gx.nbytes)
