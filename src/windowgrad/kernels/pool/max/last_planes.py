"""Regions that are a whole plane, where channels stand last: their maximum, their winners, and the gradient.

What `whole_planes` does, with one plane in each lane of a vector: two vectors of channels run over all cells of an image, so
nothing is copied to channels first, and nothing is compared along a vector. Winners are written down as there; lanes carry
whether a cell equals the greatest so far beside its place. Threads share the pairs of vectors.

Measured on float32, two threads, against a copy to channels first (8×32×28×28, 32×128×14×14, 32×64×112×112): the rule that
saves takes 0.55, 0.5 and 0.55 of the time. On planes of three channels it took 1.8 times as long (`SOME`). Gradients take as
long as there. Clearing the gradient by groups of channels, cell after cell, took three times as long as by parts of the cells.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.layout import Layout, is_channels_last, kept_layout
from windowgrad.kernels.pool.max.winner_runs import as_names
from windowgrad.kernels.pool.row_pieces import wipe
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import (
    address,
    beats,
    either,
    equal,
    lanes,
    load,
    load_part,
    select,
    splat,
    store,
    store_part,
    unordered,
)
from windowgrad.kernels.vector.types import lanes_of

HUGE = 1 << 30
"""From so many cells on, twice a place is no number of 32 bits."""

SOME = 8
"""The fewest channels whose planes are looked at together: of fewer, most lanes would be empty."""

PARTS = 4
"""Parts of the gradient of a single image, for threads to share."""


def last_planes(geometry: Geometry, x: Array) -> Layout | None:
    """The layout of x, if its channels stand last and planes are of moderate size; else None."""
    if not is_channels_last(x, geometry, x.shape):
        return None
    layout = kept_layout(geometry, x.shape, "alone")
    return layout if layout is not None and layout.channels >= SOME and 0 < layout.plan.plane_in < HUGE else None


@helper
def winners_of_lanes(x: Any, at: int, cells: int, channels: int, like: Any) -> Any:
    """(the greatest of each lane, twice its place and one more if others equal it) of a vector of channels from `at` on."""
    best, who, tied, zero, one = load(x, at), splat(like, 0), splat(like, 0), splat(like, 0), splat(like, 1)
    for cell in range(1, cells):
        at += channels
        seen = load(x, at)
        better, same = beats(seen, best), either(equal(seen, best), unordered(seen, seen))
        tied = select(better, zero, select(same, one, tied))
        best, who = select(better, seen, best), select(better, splat(like, cell), who)
    return best, who + who + tied


@helper
def winners_of_some(x: Any, at: int, cells: int, channels: int, room: int, like: Any) -> Any:
    """The same of the first `room` lanes; nothing past them is read."""
    best, who, tied, zero, one = (
        load_part(x, at, room, splat(x, 0)),
        splat(like, 0),
        splat(like, 0),
        splat(like, 0),
        splat(like, 1),
    )
    for cell in range(1, cells):
        at += channels
        seen = load_part(x, at, room, splat(x, 0))
        better, same = beats(seen, best), either(equal(seen, best), unordered(seen, seen))
        tied = select(better, zero, select(same, one, tied))
        best, who = select(better, seen, best), select(better, splat(like, cell), who)
    return best, who + who + tied


@helper
def winners_of_pair(x: Any, at: int, cells: int, channels: int, like: Any) -> Any:
    """The same of two vectors side by side."""
    n, zero, one = lanes(x), splat(like, 0), splat(like, 1)
    a, b, who, whose, tied, also = load(x, at), load(x, at + n), zero, zero, zero, zero
    for cell in range(1, cells):
        at += channels
        seen, more, place = load(x, at), load(x, at + n), splat(like, cell)
        better, same = beats(seen, a), either(equal(seen, a), unordered(seen, seen))
        best, alike = beats(more, b), either(equal(more, b), unordered(more, more))
        tied, also = select(better, zero, select(same, one, tied)), select(best, zero, select(alike, one, also))
        a, who = select(better, seen, a), select(better, place, who)
        b, whose = select(best, more, b), select(best, place, whose)
    return a, who + who + tied, b, whose + whose + also


@kernel
def last_plane_winners(x: Any, y: Any, found: Any, like: Any, cells: int, channels: int, first: int, last: int) -> None:
    """found = the winners of the pairs of vectors `first` to `last` of all images, y = their values unless it is empty."""
    wanted, n = len(y) > 0, lanes(x)
    groups = (channels + 2 * n - 1) // (2 * n)
    x, y, found, like = address(x), address(y), address(found), address(like)
    for job in range(first, last):
        image, c = job // groups, job % groups * 2 * n
        end, base, to = min(c + 2 * n, channels), image * cells * channels, image * channels
        if c + 2 * n == end:
            a, one, b, two = winners_of_pair(x, base + c, cells, channels, like)
            store(found, to + c, as_names(one, found))
            store(found, to + c + n, as_names(two, found))
            if wanted:
                store(y, to + c, a)
                store(y, to + c + n, b)
            c = end
        if c + n <= end:
            a, one = winners_of_lanes(x, base + c, cells, channels, like)
            store(found, to + c, as_names(one, found))
            if wanted:
                store(y, to + c, a)
            c += n
        if c < end:
            a, one = winners_of_some(x, base + c, cells, channels, end - c, like)
            store_part(found, to + c, as_names(one, found), end - c)
            if wanted:
                store_part(y, to + c, a, end - c)


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


def last_winners_of_planes(layout: Layout, values: Array, y: Array, found: Array, like: Array) -> None:
    """y and found = the values and the winners of all planes; y may be empty."""
    channels, n = layout.channels, lanes_of(values.itemsize)
    given = like, np.int64(layout.plan.plane_in), np.int64(channels)
    run(partial(last_plane_winners, values, y, found, *given), layout.planes * math.ceil(channels / (2 * n)), values.nbytes)


def last_gradient(layout: Layout, values: Array, found: Array, g: Array, gx: Array, split: bool) -> None:
    """gx = the gradient of the planes at their winners; `values` are read where there are several."""
    cells = layout.plan.plane_in
    part = cells if layout.planes > 1 else math.ceil(cells / PARTS)
    given = split, np.int64(cells), np.int64(layout.channels), np.int64(part)
    run(partial(last_plane_back, values, found, g, gx, *given), layout.planes * math.ceil(cells / part), gx.nbytes)
