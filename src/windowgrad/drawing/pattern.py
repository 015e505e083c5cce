"""A geometry as a picture: its first windows on a small input that shows their pattern."""

from __future__ import annotations

import itertools
import math

from windowgrad.arguments import counted
from windowgrad.drawing.figure import Panel, figure
from windowgrad.drawing.places import Place, covers, padding_of
from windowgrad.drawing.planes import SMALL, drawn
from windowgrad.drawing.planes import places as around
from windowgrad.drawing.views import View, shown
from windowgrad.geometry import Adaptive, Geometry, Sliding

CELL = 22
OUTPUTS = 3
"""Along each axis the input is so long that there are so many windows."""


class Blank:
    """A plane whose cells show nothing."""

    def __init__(self, shape: Place) -> None:
        self.shape = shape

    def __getitem__(self, place: Place) -> str:
        return ""


def pattern(geometry: Geometry) -> str | None:
    """The picture as SVG; None if a window is too large to be drawn."""
    if isinstance(geometry, Sliding) and max(geometry.kernel) * max(geometry.dilation) > SMALL:
        return None
    spatial = example(geometry)
    grid = geometry.grid(spatial) or (1,) * geometry.rank
    down, across = (1, *(min(m, OUTPUTS) for m in grid))[-2:]
    places = [[(*(0,) * (len(grid) - 2), i, j)[-len(grid) :] for j in range(across)] for i in range(min(down, 2))]
    size = f"for example, an input of {' × '.join(map(str, spatial))} has {counted('output', math.prod(grid))}"
    return figure(repr(geometry), [[panel(geometry, o, spatial) for o in row] for row in places], [size], CELL)


def example(geometry: Geometry) -> Place:
    """An input for a few windows of each axis."""
    if isinstance(geometry, Sliding):
        axes = zip(geometry.kernel, geometry.stride, geometry.padding, geometry.dilation, strict=True)
        return tuple(max((OUTPUTS - 1) * s + d * (k - 1) + 1 - lo - hi, 1) for k, s, (lo, hi), d in axes)
    if isinstance(geometry, Adaptive):
        return tuple(OUTPUTS if m is None else 2 * m - 1 for m in geometry.output_size)  # neighbouring bins share a cell
    return (OUTPUTS,) * geometry.rank


def panel(geometry: Geometry, o: Place, spatial: Place) -> Panel:
    covered, padding = covers(geometry, o, spatial), padding_of(geometry)
    seen = set(itertools.product(*covered))
    axes = drawn(around(covered, spatial, padding), covered, [])
    title, real = f"output {shown(o)}", len([p for p in seen if all(0 <= i < n for i, n in zip(p, spatial, strict=True))])
    outside = f" + {len(seen) - real} outside" if len(seen) > real else ""
    return Panel(title, View(title, {"": Blank(spatial)}, axes, padding, seen), [counted("cell", real) + outside])
