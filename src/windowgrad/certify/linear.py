"""Linear bounds of a network on one box: closed-form planes, boxes of undecided cells refined by substitution, then the output.

Cells that feed an extreme are bounded by intervals first. Those that may still win a window which nothing has decided are
bounded again by substitution from there to the input, in blocks of rows, and the two boxes are intersected.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from windowgrad.certify.boxes import State
from windowgrad.certify.cells import Box, Cells
from windowgrad.certify.curves import curve_planes, smooth_planes
from windowgrad.certify.nodes import Affine, Curve, Extreme, Network, Node, Relaxed, Smooth
from windowgrad.certify.planes import Partial, Planes, closed_form
from windowgrad.certify.rows import Whole, layouts, unit_rows
from windowgrad.certify.substitution import Forms, least, substituted
from windowgrad.errors import OptionError

Array = np.ndarray[Any, Any]

MEMORY = 1 << 30
"""Bytes that the rows of one block may take."""
BLOCK = 1 << 26
"""Bytes after which a larger block is no faster."""
COPIES = 6
"""So many arrays of the size of the rows are alive at once."""


class Analysis:
    """Boxes and planes of every node of a network for one box of inputs."""

    def __init__(
        self,
        network: Network,
        box: Box,
        floats: bool,
        memory: int = MEMORY,
        rows: Array | None = None,
        until: float = np.inf,
    ) -> None:
        """`rows`: the forms over the output that matter; cells that none of them sees keep their boxes by intervals.

        So do all cells that are left when the time is `until`.
        """
        self.network, self.memory, self.until = network, memory, until
        self.state = State(network, floats, {0: box})
        self.planes: dict[int, Planes] = {}
        self.taken: dict[int, Planes | Partial] = {}
        """The same planes without what is 0, as substitution takes them."""
        self.layouts = layouts(network)
        self.rows = rows
        self.direct = {0}
        """Values whose box by intervals cannot be better: the input, cells moved from it, and one affine node after those."""
        watched = {source for node in network.nodes if isinstance(node, Relaxed) for source in node.sources}
        for place, node in enumerate(network.nodes):
            self.state.step(node)
            if isinstance(node, Relaxed):
                chosen = self.planes[node.result] = planes_of(node, self.state.cells(node))
                thin = isinstance(node, Extreme) and not node.is_cellwise
                self.taken[node.result] = Partial.of(chosen, node.taps, sum(node.sizes)) if thin else chosen
            elif not node.roundings and self.direct.issuperset(node.sources):
                self.direct.add(node.result)
            if node.result in watched and not self.is_tight(node):
                self.refine(node.result, place + 1)

    @cached_property
    def needed(self) -> dict[int, Array]:
        """The cells that the rows depend on."""
        return needed(self.network, self.rows)

    def is_tight(self, node: Node) -> bool:
        """Whether substitution cannot improve the box of a node: each input cell enters it once."""
        return isinstance(node, Affine) and len(node.parts) == 1 and node.parts[0][0] in self.direct

    def refine(self, value: int, last: int) -> None:
        """Better bounds for the cells of a value that matter to a window which is not decided yet."""
        wanted = np.zeros(self.network.sizes[value], bool)
        for node in self.network.nodes[last:]:
            if isinstance(node, Relaxed) and value in node.sources:
                wanted |= undecided(node, self.state, value)
        cells = np.flatnonzero(wanted & self.needed[value])
        lo, hi = (end.copy() for end in self.state.boxes[value])
        most, start = 1, 0
        while start < len(cells) and perf_counter() < self.until:
            block = cells[start : start + most]
            found, widest = self.lower(value, block, last)
            lo[block] = np.fmax(lo[block], found[: len(block)])  # what overflowed is no bound
            hi[block] = np.fmin(hi[block], -found[len(block) :])
            start, most = start + most, self.at_once(widest)
        self.state.boxes[value] = Box(lo, np.maximum(lo, hi))

    def at_once(self, widest: int) -> int:
        """How many cells may be bounded at once, if a row takes so many numbers."""
        bytes_each = 2 * COPIES * 8 * widest
        if bytes_each > self.memory:
            raise OptionError(f"memory={self.memory}: the bounds of one cell take {bytes_each} bytes; it must be at least that")
        return min(self.memory, BLOCK) // bytes_each or 1

    def lower(self, value: int, cells: Array, last: int) -> tuple[Array, int]:
        """Lower bounds of the cells of a value, then of their negatives; and how many numbers a row took."""
        signs = np.repeat([1.0, -1.0], len(cells))
        rows = unit_rows(np.tile(cells, 2), signs, self.network.sizes[value], self.layouts.get(value))
        forms = Forms({value: rows}, np.zeros(len(signs)), np.zeros(len(signs)))
        found = least(self.state, substituted(self.state, forms, last, self.taken))
        return found, forms.widest

    def bound(self, rows: Array, constant: Array) -> Array:
        """Lower bounds of forms over the output."""
        return least(self.state, self.forms(rows, constant))

    def slope(self, rows: Array) -> Array:
        """The coefficients of forms over the output, over the cells of the input."""
        found = self.forms(rows, np.zeros(len(rows))).rows.get(0)
        return np.zeros((len(rows), self.network.sizes[0])) if found is None else found.whole().array

    def forms(self, rows: Array, constant: Array, chosen: Mapping[int, Planes | Partial] | None = None) -> Forms:
        """Forms over the output as forms over the input, by these planes."""
        forms = Forms({self.network.output: Whole(rows)}, constant, np.zeros(len(rows)))
        return substituted(self.state, forms, len(self.network.nodes), self.taken if chosen is None else chosen)


def needed(network: Network, rows: Array | None) -> dict[int, Array]:
    """Which cells of each value the forms over the output depend on."""
    found = {value: np.zeros(size, bool) for value, size in network.sizes.items()}
    found[network.output] |= True if rows is None else rows.any(axis=0)
    for node in reversed(network.nodes):
        seen = found[node.result]
        if isinstance(node, Affine):
            for (source, _), part in zip(node.parts, node.absolute, strict=True):
                found[source] |= part.back(seen[None].astype(float))[0] > 0
        else:
            cells = np.zeros(sum(node.sizes) + 1, bool)
            cells[node.taps[seen]] = True  # the last stands for cells that are not there
            for source, own in zip(node.sources, np.split(cells, np.cumsum(node.sizes))[:-1], strict=True):
                found[source] |= own
    return found


def planes_of(node: Relaxed, cells: Cells) -> Planes:
    """The planes that need no search."""
    if isinstance(node, Smooth):
        return smooth_planes(node, cells)
    return curve_planes(node, cells) if isinstance(node, Curve) else closed_form(cells)


def undecided(node: Relaxed, state: State, value: int) -> Array:
    """The cells of a value that may win a window in which another cell may win too; of a smooth function all that move.

    All of them where another source of the node comes later.
    """
    if not state.boxes.keys() >= {*node.sources}:
        return np.ones(len(state.boxes[value].lo), bool)
    cells = state.cells(node)
    if isinstance(node, Extreme):
        low, _ = cells.ends
        may = cells.hi > low[:, None]
        rivals = may.sum(axis=1) + (cells.floor >= low)
        taps = node.taps[may & (rivals > 1)[:, None]]
    else:
        taps = node.taps[cells.hi > cells.lo]
    found = np.zeros(sum(node.sizes), bool)
    found[taps] = True
    parts = np.split(found, np.cumsum(node.sizes)[:-1])
    own: Array = np.logical_or.reduce([part for source, part in zip(node.sources, parts, strict=True) if source == value])
    return own
