"""Which cells each output sees, as text: the drawing behind `windowgrad explain`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.arguments import axes, counted, ints
from windowgrad.errors import OptionError, WindowError
from windowgrad.facts import Windows
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding, named_padding, sliding
from windowgrad.memory import refuse_unallocatable
from windowgrad.ops import FAMILIES
from windowgrad.params import TransposeParams

SEEN, UNSEEN, PADDING, OVERHANG, OUTSIDE = "■", "·", "□", "×", " "
LEGEND = f"{SEEN} seen   {UNSEEN} not seen   {PADDING} padding it covers   {OVERHANG} past the padding, no cell at all"
ASCII = str.maketrans({SEEN: "#", UNSEEN: ".", PADDING: "o", OVERHANG: "x", "…": "..."})
WIDEST = 40  # places along an axis that are still drawn


@dataclass(frozen=True)
class Question:
    """One operator on one input size, as asked on the command line."""

    operator: str
    spatial: tuple[int, ...]
    kernel: Any = None
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False
    output_size: Any = None
    output_padding: Any = 0


@dataclass(frozen=True)
class Answer:
    """The geometry, the grid of panels to draw, and the sizes of the cells drawn in each."""

    geometry: Geometry
    grid: tuple[int, ...]
    cells: tuple[int, ...]
    out: tuple[int, ...]
    subject: str = "output"


def answer(q: Question) -> Answer:
    """The geometry of the question, checked as the function itself would."""
    windows, rank = windows_of(q.operator), len(q.spatial)
    if q.operator[-1] == "d" and q.operator[-2] != str(rank):
        size = "x".join(map(str, q.spatial))
        raise WindowError(f"input={size}: has {counted('axis', rank)}, {q.operator} takes {q.operator[-2]}")
    if windows == "global":
        return _pooled(Global(rank), q.spatial)
    if windows == "adaptive":
        if q.output_size is None:
            raise OptionError(f"--output-size is missing: {q.operator} needs it, for example --output-size 7")
        sizes: Any = axes("output_size", q.output_size, rank)
        return _pooled(Adaptive(sizes), q.spatial)
    if q.kernel is None:
        raise OptionError(f"--kernel is missing: {q.operator} needs it, for example --kernel 3")
    kernel = ints("kernel_size", q.kernel, rank)
    if windows == "sliding":
        return _pooled(sliding(kernel, q.stride, q.padding, q.dilation, q.ceil_mode), q.spatial)
    stride = 1 if q.stride is None else q.stride
    padding: Any = named_padding(q.padding, kernel, stride, q.dilation)
    window = Sliding(kernel, stride, padding, q.dilation)
    if windows == "convolution":
        return _pooled(window, q.spatial)
    extra = TransposeParams(window, 1, q.output_padding).output_padding
    out = window.adjoint(ints("input", q.spatial), extra)
    return Answer(window, q.spatial, out, out, subject="input")


def windows_of(operator: str) -> Windows:
    """The kind of windows that a public function has, by its name, with or without a rank."""
    family = FAMILIES.get(operator[:-2] if operator.endswith(("1d", "2d", "3d")) else operator)
    if family is None:
        pools = ", ".join(family.name for family in FAMILIES.values() if family.windows == "sliding")
        others = " or ".join(f.name for f in FAMILIES.values() if f.windows in ("convolution", "transposed"))
        raise OptionError(
            f"operator={operator!r}: must be {pools}, one of these with the prefix adaptive_ or global_, "
            f"{others}, with or without 1d, 2d, 3d"
        )
    return family.windows


def _pooled(geometry: Geometry, spatial: tuple[int, ...]) -> Answer:
    out = geometry.out_shape(spatial)
    return Answer(geometry, out, spatial, out)


def lines(a: Answer, limit: int, width: int) -> Iterator[str]:
    """Panels side by side for one and two axes; a row of panels per axis for more; plain text where cells are too many."""
    refuse_unallocatable((max(a.grid),), 64)  # the tables of an axis have one row per output
    yield "each output sees:" if a.subject == "output" else "each input adds to the output cells:"
    yield ""
    extents = [extent(a.geometry, axis, outputs, n) for axis, (outputs, n) in enumerate(zip(a.grid, a.cells, strict=True))]
    if max(map(len, extents)) > WIDEST:
        for axis, outputs in enumerate(a.grid):
            yield f"axis {axis}:"
            yield from (f"  {a.subject} {i}: {in_words(a, axis, i)}" for i in range(min(outputs, limit)))
            yield from _more(outputs - limit)
        return
    if len(a.cells) <= 2:
        shown = itertools.islice(np.ndindex(*a.grid), limit)
        yield from side_by_side([panel(a, o, extents) for o in shown], width)
        yield from _more(math.prod(a.grid) - limit)
    else:
        for axis, outputs in enumerate(a.grid):
            yield f"axis {axis} (a window is the product of its axes):"
            marked = [[f"{a.subject} {i}", marks(a, axis, i, extents[axis])] for i in range(min(outputs, limit))]
            yield from side_by_side(marked, width)
            yield from _more(outputs - limit)
    yield LEGEND


def written_in(encoding: str) -> Callable[[str], str]:
    """What turns a line into one that a terminal of this encoding can show: in ASCII where it has not all the marks."""
    try:
        f"{LEGEND}…".encode(encoding)
    except UnicodeEncodeError:
        return lambda line: line.translate(ASCII)
    return lambda line: line


def _more(left: int) -> Iterator[str]:
    if left > 0:
        yield f"… and {left} more (--limit shows more)"
        yield ""


def extent(geometry: Geometry, axis: int, outputs: int, n: int) -> range:
    """The places to draw along one axis: the input, its padding, and whatever the windows cover."""
    lo, hi = geometry.padding[axis] if isinstance(geometry, Sliding) else (0, 0)
    return range(-lo, max(n + hi, geometry.cover(axis, outputs - 1, n).stop))


def in_words(a: Answer, axis: int, i: int) -> str:
    """One output along one axis as text."""
    table = a.geometry.table(axis, a.cells[axis])
    start, count, padded = int(table.start[i]), int(table.count[i]), int(table.padded[i])
    last = start + (count - 1) * table.step
    every = f" every {table.step}" if table.step > 1 and count > 1 else ""
    real = {0: "no cell", 1: f"cell {start}"}.get(count, f"cells {start} to {last}{every}")
    return real + (f" + {padded} padding" if padded else "")


def panel(a: Answer, o: Sequence[int], extents: Sequence[range]) -> list[str]:
    """One output: its index, how many cells it covers, and the grid of cells along one or two axes."""
    sides = [marks(a, axis, i, places) for axis, (i, places) in enumerate(zip(o, extents, strict=True))]
    real, padded = len(a.geometry.taps(o, a.cells)), a.geometry.padded(o, a.cells)
    counts = counted("cell", real) + (f" + {padded} padding" if padded else "")
    rows = [SEEN] if len(sides) == 1 else list(sides[0])
    head = f"{a.subject} {tuple(o) if len(o) > 1 else o[0]}"
    return [head, counts, *(" ".join(crossing(row, column) for column in sides[-1]) for row in rows)]


def marks(a: Answer, axis: int, i: int, places: range) -> str:
    """What each place along one axis is to output `i`."""
    n, covered = a.cells[axis], a.geometry.cover(axis, i, a.cells[axis])
    hi = a.geometry.padding[axis][1] if isinstance(a.geometry, Sliding) else 0

    def mark(place: int) -> str:
        if 0 <= place < n:
            return SEEN if place in covered else UNSEEN
        if place not in covered:
            return OUTSIDE
        return PADDING if place < n + hi else OVERHANG

    return "".join(map(mark, places))


def crossing(row: str, column: str) -> str:
    """The mark where a row and a column cross: what is beside the input in either axis is drawn only if both cover it."""
    beside = {row, column} & {PADDING, OVERHANG, OUTSIDE}
    if not beside:
        return UNSEEN if UNSEEN in (row, column) else SEEN
    if OUTSIDE in beside or UNSEEN in (row, column):
        return OUTSIDE
    return OVERHANG if OVERHANG in beside else PADDING


def side_by_side(panels: Sequence[list[str]], width: int) -> Iterator[str]:
    """Panels in rows that fit the width, a blank line after each row."""
    column = max(len(line) for p in panels for line in p) + 3
    across = max(1, width // column)
    for first in range(0, len(panels), across):
        for row in zip(*panels[first : first + across], strict=True):
            yield "".join(line.ljust(column) for line in row).rstrip()
        yield ""
