"""What `wg.explain` returns: the panels of a few outputs, as SVG for a notebook and as text for a terminal."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from windowgrad.arguments import counted
from windowgrad.drawing.calls import Call, called
from windowgrad.drawing.figure import Panel, figure
from windowgrad.drawing.numbers import digits, equals
from windowgrad.drawing.places import Place
from windowgrad.drawing.planes import Sight
from windowgrad.drawing.sights import sight
from windowgrad.drawing.text import legend, marked
from windowgrad.drawing.views import View, shown
from windowgrad.errors import OptionError, WindowError, cut, show
from windowgrad.geometry import Global
from windowgrad.params import ConvParams, PadParams, PoolParams, UnpoolParams
from windowgrad.saving import Path, check_place, replacing

ROWS, COLUMNS = 2, 3
"""How many outputs are shown if none is chosen."""
MOST_PLANES = 4
"""How many channels of a convolution are drawn."""


class Explanation:
    """The windows of a call with its values. A notebook shows it as a picture; `print` writes it as text; `save` keeps it."""

    def __init__(self, call: Call, outputs: list[list[Place]]) -> None:
        self.call = call.text
        self.out_shape = call.out_shape
        self._rows = [[(sight(call, output), call.dtype) for output in row] for row in outputs]
        self._weighs = isinstance(call.params, ConvParams)
        self._more = math.prod(self.out_shape) - sum(map(len, outputs))

    @property
    def outputs(self) -> list[Place]:
        """The outputs that are explained."""
        return [found.output for row in self._rows for found, _ in row]

    def to_svg(self) -> str:
        """The picture, a whole SVG document."""
        rows = [[paneled(found, dtype, self._weighs) for found, dtype in row] for row in self._rows]
        return figure(f"{self.call} → {self.out_shape}", rows, list(self._foot()))

    _repr_svg_ = to_svg  # what a notebook shows

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.to_svg()}</div>'

    def __str__(self) -> str:
        lines, drawings = [f"{self.call} -> {self.out_shape}", ""], []
        for found, dtype in (each for row in self._rows for each in row):
            drawings += (drawing := marked(viewed(found, self._weighs)))
            lines += [titled(found, dtype), *drawing, *(f"  {text}" for text in remarks(found)), ""]
        return "\n".join([*lines, legend(drawings), *self._hidden()])

    def __repr__(self) -> str:
        return f"<Explanation of {self.call}: {', '.join(map(shown, self.outputs))}>"

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the picture to a file, whose name ends in .svg; one that exists is replaced only if `overwrite` says so."""
        name = os.fsdecode(path)
        if not name.endswith(".svg"):
            raise OptionError(f"path={name!r}: must end in .svg")
        check_place("path", path)
        if os.path.lexists(path) and not overwrite:
            raise OptionError(f"path={name!r}: exists; overwrite=True replaces it")
        with replacing(path) as file:
            file.write(self.to_svg().encode())

    def _foot(self) -> Iterator[str]:
        if self._weighs:
            yield "×: the weight of a cell, which is also what a gradient of 1 gives it"
        elif any(found.going for row in self._rows for found, _ in row):
            yield "→: the index of the cell, its place in the output"
        elif any(tap.share is not None for row in self._rows for found, _ in row for tap in found.taps):
            yield "←: what a gradient of 1 at the output gives the cell"
        yield from self._hidden()

    def _hidden(self) -> Iterator[str]:
        if self._more:
            yield f"{counted('more output', self._more)} not shown; output= chooses one"


def explained(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Explanation:
    call = called(f, args, kwargs)
    if not math.prod(call.out_shape):
        raise WindowError(f"{call.text}: its output of shape {call.out_shape} has no cell to explain")
    return Explanation(call, chosen(call, output))


def chosen(call: Call, output: Any) -> list[list[Place]]:
    """The outputs to show, in rows and columns: the one that is asked for, or the first ones of the first plane."""
    shape, rank = call.out_shape, rank_of(call)
    if output is None:
        lead, spatial = (0,) * (len(shape) - rank), shape[len(shape) - rank :]
        before = (0,) * max(len(spatial) - 2, 0)
        down, across = (1, 1, *spatial)[-2:]
        down, across = (min(down, ROWS), min(across, COLUMNS)) if not is_wide(call) else (1, min(across, 2))
        return [[(*lead, *before, *(i, j)[2 - min(rank, 2) :]) for j in range(across)] for i in range(down)]
    index = (output,) if isinstance(output, int) and not isinstance(output, bool) else output
    whole = isinstance(index, (tuple, list)) and all(isinstance(i, int) and not isinstance(i, bool) for i in index)
    if whole and len(index) == rank < len(shape):
        index = (*(0,) * (len(shape) - rank), *index)
    if not whole or len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        short = f", or into its last {rank} axes" if rank < len(shape) else ""
        raise WindowError(f"output={show(output)}: must be an index into the output of shape {shape}{short} [{call.text}]")
    return [[tuple(index)]]


def is_wide(call: Call) -> bool:
    """Whether an output sees several planes or slices, which are drawn side by side."""
    return rank_of(call) > 2 or (isinstance(call.params, ConvParams) and call.arrays[1].shape[1] > 1)


def rank_of(call: Call) -> int:
    """How many axes of the output belong to windows."""
    params = call.params
    if isinstance(params, PoolParams):
        removed = isinstance(params.geometry, Global) and not params.geometry.keepdims
        return 0 if removed else params.geometry.rank
    if isinstance(params, (ConvParams, UnpoolParams)):
        return params.window.rank
    assert isinstance(params, PadParams)
    return len(params.padding)


# --- panels --------------------------------------------------------------------------------------------------------


def titled(found: Sight, dtype: str) -> str:
    return f"output {shown(found.output)} {equals(found.value, dtype)}"


def paneled(found: Sight, dtype: str, weighs: bool) -> Panel:
    return Panel(titled(found, dtype), viewed(found, weighs), remarks(found))


def viewed(found: Sight, weighs: bool) -> View:
    notes = {
        (tap.plane, tap.place): f"×{cut(digits(tap.weight, 3), 7)}" if weighs else f"←{cut(digits(tap.share, 3), 7)}"
        for tap in found.taps
        if weighs or (tap.share is not None and tap.share != 0)
    }
    notes |= {(name, place): f"→{index}" for name in found.planes for place, index in found.going.items()}
    title = f"output {shown(found.output)}"
    planes = dict(list(found.planes.items())[:MOST_PLANES])
    return View(title, planes, found.axes, found.padding, found.covered, found.won, found.masked, notes)


def remarks(found: Sight) -> list[str]:
    """How the value comes about, and what is left out of the drawing."""
    lines = list(found.lines)
    shape = next(iter(found.planes.values())).shape
    sides = list(zip(found.axes, shape, strict=True))
    cut_off = not all(i in side for place in found.covered for i, side in zip(place, found.axes, strict=True))
    if cut_off or any(side.start > 0 or side.stop < n for side, n in sides[-2:]):
        part = ", ".join(f"{max(side.start, 0)}:{min(side.stop, n)}" for side, n in sides)
        lines.append(f"drawn: [{part}] of {shape}")
    if len(found.planes) > MOST_PLANES:
        lines.append(f"drawn: {MOST_PLANES} of {len(found.planes)} channels")
    return lines
