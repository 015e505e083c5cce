"""What one output is made of: its cells with their values, weights and shares, and the places that are drawn around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windowgrad.arguments import Pairs
from windowgrad.drawing.calls import Array, Call, block, refuse_many
from windowgrad.drawing.places import Place, covers, near, whole
from windowgrad.geometry import Geometry

SMALL = 10
"""An input with no more places than this on an axis is drawn as a whole."""
SLICES = 3
"""How many slices of an axis before the last two are drawn."""


class Tap(NamedTuple):
    """A cell that an output is made of: its plane, place and value, what it is multiplied with, and its share of a gradient."""

    plane: str
    place: Place
    value: Any
    weight: Any
    share: Any


@dataclass(frozen=True)
class Plane:
    """Some cells of a plane of this shape, from `origin` on, found by their places in it."""

    shape: Place
    origin: Place
    cells: Array

    def __getitem__(self, place: Place) -> Any:
        return self.cells[tuple(i - first for i, first in zip(place, self.origin, strict=True))]


@dataclass(frozen=True)
class Sight:
    """One output: the planes it sees, the places that are drawn of them, what it covers, and how its value comes about."""

    output: Place
    planes: dict[str, Plane]
    axes: list[range]
    padding: Pairs
    covered: set[Place]
    taps: list[Tap]
    lines: list[str]
    value: Any
    won: list[Place] = field(default_factory=list)
    masked: set[Place] = field(default_factory=set)
    going: dict[Place, int] = field(default_factory=dict)
    """Of unpooling: the index of each cell."""


def places(covered: Sequence[Sequence[int]], spatial: Place, padding: Pairs) -> list[range]:
    """The places around a window: all of a small input, else those near the window."""
    everything = whole(covered, spatial, padding)
    return everything if all(len(side) <= SMALL for side in everything) else near(covered, spatial, padding)


def window(geometry: Geometry, o: Place, spatial: Place) -> list[list[int]]:
    """What output `o` covers on each axis, if it is not too much."""
    refuse_many("x", (geometry.cover(axis, i, n) for axis, (i, n) in enumerate(zip(o, spatial, strict=True))))
    return covers(geometry, o, spatial)


def real(axes: Sequence[range], spatial: Place) -> list[range]:
    return [range(max(side.start, 0), max(min(side.stop, n), 0)) for side, n in zip(axes, spatial, strict=True)]


def plane(call: Call, lead: Place, axes: Sequence[range]) -> Plane:
    x = call.arrays[0]
    spatial = tuple(x.shape)[len(lead) :]
    sides = real(axes, spatial)
    return Plane(spatial, tuple(side.start for side in sides), block("x", x, lead, sides))


def named(call: Call, lead: Place) -> str:
    """The name of a plane, where there is more than one."""
    sizes = tuple(call.arrays[0].shape)[: len(lead)]
    return f"x[{', '.join(map(str, lead))}]" if any(n > 1 for n in sizes) else ""


def drawn(axes: Sequence[range], covered: Sequence[Sequence[int]], won: Sequence[Place]) -> list[range]:
    """The places to draw: not too many of each axis, around the first winner, or from the first place of the window on."""
    found = []
    for axis, side in enumerate(axes):
        most = SMALL if axis >= len(axes) - 2 else SLICES
        centre = won[0][axis] - most // 2 if won else covered[axis][0] - 1
        first = min(max(centre, side.start), max(side.stop - most, side.start))
        found.append(range(first, min(first + most, side.stop)))
    return found
