"""Which cells each output sees, as text: what `windowgrad explain` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from windowgrad.arguments import counted
from windowgrad.drawing.question import Answer
from windowgrad.drawing.views import View, at, kind, label, last_two, slices
from windowgrad.geometry import Geometry, Sliding
from windowgrad.memory import refuse_unallocatable

SEEN, UNSEEN, PADDING, OVERHANG, OUTSIDE, WINNER, MASKED = "■", "·", "□", "×", " ", "●", "○"
LEGEND = f"{SEEN} seen   {UNSEEN} not seen   {PADDING} padding it covers   {OVERHANG} past the padding, no cell at all"
ASCII = str.maketrans({SEEN: "#", UNSEEN: ".", PADDING: "o", OVERHANG: "x", "…": "..."})
WIDEST = 40  # places along an axis that are still drawn


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
        yield from panels(a, extents, limit, width)
    else:
        for axis, outputs in enumerate(a.grid):
            yield f"axis {axis} (a window is the product of its axes):"
            marked = [[f"{a.subject} {i}", marks(a, axis, i, extents[axis])] for i in range(min(outputs, limit))]
            yield from side_by_side(marked, width)
            yield from _more(outputs - limit)
    yield LEGEND


def panels(a: Answer, extents: Sequence[range], limit: int, width: int) -> Iterator[str]:
    """One panel per output, in rows and columns as the output has them, cut after a whole row, or within the first one."""
    down, across = (1, *a.grid)[-2:]
    across = min(across, limit)
    down = min(down, limit // across)
    grid = [[panel(a, (i, j)[-len(a.grid) :], extents) for j in range(across)] for i in range(down)]
    column = max(len(line) for row in grid for each in row for line in each) + 3
    if down > 1 and column * across - 3 > width:
        yield f"(a row of {across} is {column * across - 3} characters wide, the terminal {width}: rows are wrapped)"
        yield ""
    for row in grid:
        yield from side_by_side(row, width, column)
    yield from _more(math.prod(a.grid) - down * across)


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


def side_by_side(panels: Sequence[list[str]], width: int, column: int | None = None) -> Iterator[str]:
    """Panels in columns, in rows that fit the width, a blank line after each row."""
    column = max(len(line) for p in panels for line in p) + 3 if column is None else column
    across = max(1, (width + 3) // column)
    for first in range(0, len(panels), across):
        for row in zip(*panels[first : first + across], strict=True):
            yield "".join(line.ljust(column) for line in row).rstrip()
        yield ""


MARKS = {"r": UNSEEN, "r s": SEEN, "r s w": WINNER, "r s m": MASKED, "p s": PADDING, "o s": OVERHANG}
MEANINGS = {
    SEEN: "seen",
    WINNER: "winner",
    UNSEEN: "not seen",
    PADDING: "padding it covers",
    OVERHANG: "past the padding",
    MASKED: "left out by the mask",
}


def marked(view: View, width: int = 100) -> list[str]:
    """The places of one window as marks, its slices side by side."""
    _, rows, columns = last_two(view)
    parts = []
    for part in slices(view):
        grid = [[MARKS.get(kind(view, part.plane, at(view, part, row, column)), OUTSIDE) for column in columns] for row in rows]
        head = label(view, part)
        parts.append([head] * bool(head) + [" ".join(line) for line in grid])
    lines = list(side_by_side(parts, width))
    while lines and not lines[-1]:
        lines.pop()
    return lines


def legend(lines: Sequence[str]) -> str:
    """What the marks in these lines mean."""
    return "   ".join(f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if any(mark in line for line in lines))
