"""Where the cells of one output are: what its window covers on each axis, and which places are drawn around it."""

from __future__ import annotations

from collections.abc import Sequence

from windowgrad.arguments import Pairs
from windowgrad.geometry import Geometry, Sliding

Place = tuple[int, ...]


def covers(geometry: Geometry, o: Sequence[int], spatial: Sequence[int]) -> list[list[int]]:
    """The places that output `o` covers on each axis, padding and overhang included."""
    return [list(geometry.cover(axis, i, n)) for axis, (i, n) in enumerate(zip(o, spatial, strict=True))]


def padding_of(geometry: Geometry) -> Pairs:
    return geometry.padding if isinstance(geometry, Sliding) else ((0, 0),) * geometry.rank


def whole(covered: Sequence[Sequence[int]], spatial: Sequence[int], padding: Pairs) -> list[range]:
    """All places of each axis: the input, its padding, and whatever the window covers."""
    return [
        range(min(-lo, 0, *side), max(n + hi, *(cell + 1 for cell in side)))
        for (lo, hi), n, side in zip(padding, spatial, covered, strict=True)
    ]


def near(covered: Sequence[Sequence[int]], spatial: Sequence[int], padding: Pairs) -> list[range]:
    """The places that a window covers, and one more on each side where there is one."""
    return [
        range(max(side[0] - 1, min(-lo, side[0])), min(side[-1] + 2, max(n + hi, side[-1] + 1)))
        for (lo, hi), n, side in zip(padding, spatial, covered, strict=True)
    ]


def senders(window: Sliding, o: Sequence[int], spatial: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Of a transposed convolution, the inputs that add to output `o` on each axis, each as (cell, position in the kernel)."""
    sides = []
    for axis, (place, n) in enumerate(zip(o, spatial, strict=True)):
        k, s, d, (lo, _) = window.kernel[axis], window.stride[axis], window.dilation[axis], window.padding[axis]
        starts = [(place + lo - d * tap, tap) for tap in range(k)]
        sides.append(sorted((start // s, tap) for start, tap in starts if start % s == 0 and 0 <= start // s < n))
    return sides
