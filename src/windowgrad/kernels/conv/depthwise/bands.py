"""Large planes in bands: parts of the output, one after the other, each with what it sees of the input, in a box of its own.

A box should stay in the second cache (`boxes.LARGEST_BOX`), and a plane that goes into one box is one thread's. So a plane that
is too large for a box, or one of a few planes, is cut along its first axis, and along further ones if that is not enough:

    plane of y, 9 rows       its bands     what they see of x (3 × 3, padding 1)
    0 1 2 | 3 4 5 | 6 7 8    0 1 2         0 1 2 3      the first and the last have padding, the others have neighbours
                             3 4 5         2 3 4 5 6
                             6 7 8         5 6 7 8

A band is a pass of its own (`Pass`) over one plane, at an offset in x and in y. All but those at an edge are alike, so there
are a few plans, however many bands there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.depthwise import boxes
from windowgrad.kernels.conv.plan import Shape, strides
from windowgrad.kernels.conv.shapes import Pass

BAND = 1 << 15
"""Cells of the box of a band, about."""
FEW = 8
"""So many planes are enough for several threads; of fewer, a plane of more than BAND cells is cut."""
TALL = 4
"""How many times as long as what neighbouring bands share of the input a band is, before a second axis is cut."""


class Band(NamedTuple):
    """A part of a plane as a pass of its own, and where it begins in the planes of x and of y."""

    one: Pass
    x_at: int
    y_at: int


class Side(NamedTuple):
    """One axis of a pass: its sizes in y and x, and of the window kernel, stride, dilation and the padding before."""

    out: int
    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    back: bool

    def reach(self, count: int) -> int:
        """Cells of x that so many outputs see, at the most."""
        if self.back:
            return (count + (self.kernel - 1) * self.dilation) // self.stride + 2
        return (count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def seen(self, first: int, last: int) -> tuple[int, int, int]:
        """The cells of x that the outputs first to last see, from and to, and the padding before that makes it a pass."""
        span = (self.kernel - 1) * self.dilation
        if self.back:
            low = max(0, min(-(-(first + self.before - span) // self.stride), (first + self.before) // self.stride))
            return low, min(self.size, (last - 1 + self.before) // self.stride + 1), first + self.before - low * self.stride
        begin = first * self.stride - self.before
        return max(0, begin), min(self.size, (last - 1) * self.stride - self.before + span + 1), max(0, -begin)


def sides_of(one: Pass) -> list[Side]:
    window = one.window
    return [
        Side(out, size, k, s, d, lo, one.back)
        for out, size, k, s, d, (lo, _) in zip(
            one.grid, one.size, window.kernel, window.stride, window.dilation, window.padding, strict=True
        )
    ]


def lengths(sides: list[Side]) -> list[int]:
    """How long a band is along each axis."""
    found: list[int] = []
    for axis, side in enumerate(sides):
        others = math.prod(each.reach(count) for each, count in zip(sides, found, strict=False))
        rest = others * math.prod(each.reach(each.out) for each in sides[axis + 1 :])
        shared, wanted = side.reach(1), max(1, BAND // rest)
        fit = wanted * side.stride - shared if side.back else (wanted - shared) // side.stride + 1
        least = 1 if axis == len(sides) - 1 else TALL * (shared if side.back else -(-shared // side.stride))
        count = min(side.out, max(fit, least))
        number = -(-side.out // count)
        count = -(-side.out // number)
        found.append(min(side.out, -(-count // side.stride) * side.stride) if side.back else count)
    return found


@lru_cache(maxsize=256)
def bands(one: Pass) -> tuple[Band, ...]:
    """The bands of a plane; none if it is not cut, or a part of it would see nothing."""
    sides = sides_of(one)
    counts = lengths(sides)
    if counts == [side.out for side in sides]:
        return ()
    cuts = [
        [(first, min(side.out, first + count)) for first in range(0, side.out, count)]
        for side, count in zip(sides, counts, strict=True)
    ]
    found = tuple(parts(one, sides, cuts))
    return found if len(found) == math.prod(map(len, cuts)) else ()


def parts(one: Pass, sides: list[Side], cuts: list[list[tuple[int, int]]]) -> Iterator[Band]:
    known: dict[tuple[Shape, ...], Pass | None] = {}
    x_steps, y_steps = strides(one.size), strides(one.grid)
    for chosen in product(*cuts):
        seen = [side.seen(*cut) for side, cut in zip(sides, chosen, strict=True)]
        size, grid = tuple(high - low for low, high, _ in seen), tuple(last - first for first, last in chosen)
        before = tuple(padding for *_, padding in seen)
        if min(size) < 1:
            return
        if (key := (size, grid, before)) not in known:
            known[key] = part(one, *key)
        if (band := known[key]) is None:
            return
        x_at = sum(low * step for (low, *_), step in zip(seen, x_steps, strict=True))
        yield Band(band, x_at, sum(first * step for (first, _), step in zip(chosen, y_steps, strict=True)))


def part(one: Pass, size: Shape, grid: Shape, before: Shape) -> Pass | None:
    """The pass of a part of one plane, whose box is told; None if it has none."""
    window = Sliding(one.window.kernel, one.window.stride, [(lo, 0) for lo in before], one.window.dilation)
    band = replace(one, window=window, images=1, groups=1, size=size, grid=grid)
    spatial, outputs = (grid, size) if one.back else (size, grid)
    plan = boxes.plan(window, spatial, outputs, one.back, (one.size, one.grid))
    band.__dict__["planes"] = plan  # a cached property
    return None if plan is None else band
