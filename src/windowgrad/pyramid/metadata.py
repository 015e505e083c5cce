"""What a viewer must know of a pyramid: the axes and where the cells of each level lie (OME-Zarr 0.5, or 0.4 for Zarr 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windowgrad.arguments import counted
from windowgrad.errors import KindError, OptionError, show

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
NAMES = {2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
VERSIONS = {2: "0.4", 3: "0.5"}
"""Of OME-Zarr, by the format of Zarr."""


@dataclass(frozen=True)
class Level:
    """One array of the pyramid; `window` is what the one before it was pooled with, one entry per axis."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    window: tuple[int, ...]
    factor: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """How many chunks it has."""
        return math.prod(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))


def axis_names(axes: str | None, known: str | None, rank: int) -> str:
    """The names of the axes: those that were asked for, those the source tells, or the usual ones."""
    if axes is not None and not isinstance(axes, str):
        raise KindError(f"axes={show(axes)}: must be a string such as zyx, not {type(axes).__name__}")
    names = axes or known or NAMES.get(rank)
    if names is None:
        raise OptionError(f"the array has {counted('axis', rank)}: OME-Zarr supports 2 to 5")
    if len(names) != rank:
        raise OptionError(f"axes={names!r}: must have {rank} letters of t, c, z, y, x, one per axis of the array")
    if sorted(set(names), key="tczyx".find) != list(names) or not set(names) <= set(TYPES):
        raise OptionError(f"axes={names!r}: must be letters of t, c, z, y, x, each at most once and in this order")
    if sum(TYPES[name] == "space" for name in names) < 2:
        raise OptionError(f"axes={names!r}: must have two or three of z, y, x, as OME-Zarr requires")
    return names


def levels(shape: tuple[int, ...], chunks: tuple[int, ...], names: str, count: int) -> list[Level]:
    """All levels: spatial axes are halved until they have one cell left."""
    one = (1,) * len(shape)
    found = [Level(shape, tuple(min(c, max(n, 1)) for c, n in zip(chunks, shape, strict=True)), one, one)]
    while len(found) < count:
        last = found[-1]
        window = tuple(2 if TYPES[name] == "space" and n > 1 else 1 for name, n in zip(names, last.shape, strict=True))
        if window == one:
            raise OptionError(
                f"levels={count}: must be at most {len(found)} for an array of shape {shape}, no axis is left to halve then"
            )
        smaller = tuple(-(-n // k) for n, k in zip(last.shape, window, strict=True))
        cut = tuple(min(c, n) for c, n in zip(last.chunks, smaller, strict=True))
        found.append(Level(smaller, cut, window, tuple(f * k for f, k in zip(last.factor, window, strict=True))))
    return found


def transformations(level: Level, scale: Sequence[float], origin: Sequence[float]) -> list[dict[str, Any]]:
    """Where the middles of the cells lie: a cell of a level has its middle in the middle of those it was made from."""
    sides = list(zip(level.factor, scale, origin, strict=True))
    return [
        {"type": "scale", "scale": [f * s for f, s, _ in sides]},
        {"type": "translation", "translation": [o + (f - 1) / 2 * s for f, s, o in sides]},
    ]


def attributes(
    zarr_format: int, name: str, axes: Sequence[dict[str, Any]], all_levels: Sequence[Level], op: str, scale: Any, origin: Any
) -> dict[str, Any]:
    """The attributes of the group."""
    datasets = [
        {"path": str(i), "coordinateTransformations": transformations(level, scale, origin)}
        for i, level in enumerate(all_levels)
    ]
    described = {"method": f"windowgrad: {op} of windows of 2 cells, 2 apart; an odd last cell by itself"}
    scales: dict[str, Any] = {"name": name, "axes": list(axes), "datasets": datasets, "type": op, "metadata": described}
    if zarr_format == 2:
        return {"multiscales": [{"version": VERSIONS[2], **scales}]}
    return {"ome": {"version": VERSIONS[3], "multiscales": [scales]}}
