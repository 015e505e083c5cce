"""Rows of linear forms over the cells of a value: over all of them, or each row over a patch around its own position.

A cell of a plane depends on few cells of the planes before it. `Patches` carries only those: through a convolution the patch
of a row grows by the window, so all rows have patches of one size, each at its own place:

    start = position · scale + offset          (per spatial axis; scale is the product of the strides so far)

A patch may reach over the edge of the plane; its coefficients there are 0. What is left out are exact zeros, so sums have the
terms that they have with whole rows, or fewer. A map without a local form, and a patch larger than its plane, make rows whole.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from windowgrad.certify.maps import Averaging, Chain, Convolution, Map, Scaling, Selection
from windowgrad.certify.nodes import Affine, Network, Relaxed
from windowgrad.geometry import Sliding, place_of
from windowgrad.params import ConvParams

Array = np.ndarray[Any, Any]
Layout = tuple[int, ...]
"""Channels, and the sizes of the spatial axes."""
AT_ONCE = 1 << 15
"""Numbers that fit into a cache."""


class Rows(ABC):
    """Coefficients of one form per row."""

    array: Array

    @property
    def cells(self) -> int:
        """How many coefficients a row has."""
        return math.prod(self.array.shape[1:])

    @abstractmethod
    def pick(self, vector: Array) -> Array:
        """A number of each cell of the value beside each coefficient."""

    @abstractmethod
    def values(self, vector: Array) -> Array:
        """Σ coefficient · number of each row."""

    @abstractmethod
    def sizes(self, vector: Array) -> Array:
        """Σ |coefficient| · number of each row."""

    @abstractmethod
    def back(self, part: Map) -> Rows:
        """The rows over the input of a map."""

    @abstractmethod
    def plus(self, other: Rows) -> Rows: ...

    @abstractmethod
    def whole(self) -> Whole: ...

    def filled(self, array: Array) -> Rows:
        """Other coefficients in the same places."""
        return replace(self, array=array)  # type: ignore[type-var]


@dataclass(frozen=True)
class Whole(Rows):
    """Over all cells: (rows, cells)."""

    array: Array

    def pick(self, vector: Array) -> Array:
        return vector

    def values(self, vector: Array) -> Array:
        found: Array = self.array @ vector
        return found

    def sizes(self, vector: Array) -> Array:
        """A few rows at a time, in one buffer, and without BLAS, whose threads would be woken for each short sum."""
        count, cells = self.array.shape
        step = max(1, AT_ONCE // max(cells, 1))
        found, buffer = np.empty(count), np.empty((min(step, count), cells))
        for start in range(0, count, step):
            part = self.array[start : start + step]
            sizes = np.abs(part, out=buffer[: len(part)])
            np.einsum("ij,j->i", sizes, vector, out=found[start : start + step])
        return found

    def back(self, part: Map) -> Rows:
        return Whole(part.back(self.array))

    def plus(self, other: Rows) -> Rows:
        return Whole(self.array + other.whole().array)

    def whole(self) -> Whole:
        return self


@dataclass(frozen=True)
class Patches(Rows):
    """Over a patch of each plane: (rows, channels, *size); `positions` is (rows, rank)."""

    array: Array
    layout: Layout
    positions: Array
    scale: tuple[int, ...]
    offset: tuple[int, ...]

    @property
    def size(self) -> tuple[int, ...]:
        size: tuple[int, ...] = self.array.shape[2:]
        return size

    @cached_property
    def starts(self) -> Array:
        found: Array = self.positions * self.scale + self.offset
        return found

    @cached_property
    def margins(self) -> list[tuple[int, int]]:
        """How far patches reach over each end of the plane."""
        low, high = self.starts.min(axis=0), self.starts.max(axis=0) + self.size
        return [(max(0, int(-a)), max(0, int(b) - n)) for a, b, n in zip(low, high, self.layout[1:], strict=True)]

    def pick(self, vector: Array) -> Array:
        planes = vector.reshape(self.layout)
        if any(map(any, self.margins)):
            planes = np.pad(planes, [(0, 0), *self.margins])
        axes = tuple(range(1, len(self.layout)))
        view = np.moveaxis(np.lib.stride_tricks.sliding_window_view(planes, self.size, axes), 0, len(axes))
        found: Array = view[tuple(self.starts.T + np.array([[low] for low, _ in self.margins]))]
        return found

    def values(self, vector: Array) -> Array:
        flat = len(self.array), -1
        found: Array = np.einsum("ij,ij->i", self.array.reshape(flat), self.pick(vector).reshape(flat))
        return found

    def sizes(self, vector: Array) -> Array:
        return self.filled(np.abs(self.array)).values(vector)

    def back(self, part: Map) -> Rows:
        if isinstance(part, Selection) and part.whole:
            return self
        if isinstance(part, Chain):
            return self.back(part.last).back(part.first)
        if isinstance(part, Scaling) and not part.divides:
            return self.filled(self.array * self.pick(part.factors))
        if isinstance(part, Convolution) and type(part.params) is ConvParams and part.out_shape[1:] == self.layout:
            grown = self.grown(part.params.window, part.shape[1:])
            if grown is not None:
                return replace(grown, array=part.back_patches(self.array, grown.size)).clipped()
        if isinstance(part, Averaging) and isinstance(part.params.geometry, Sliding) and part.params.where is None:
            geometry = part.params.geometry
            grown = self.grown(geometry, planar(part.shape, geometry.rank))
            if grown is not None and planar(part.out_shape, geometry.rank) == self.layout:
                spread(geometry, self.array / np.maximum(self.pick(part.divisors), 1), grown.array)
                return grown.clipped()
        return self.whole().back(part)

    def grown(self, window: Sliding, layout: Layout) -> Patches | None:
        """Zeros over all that the windows of these patches see; None if that is more than the plane."""
        each = range(window.rank)
        k, s, d = window.kernel, window.stride, window.dilation
        size = [(self.size[i] - 1) * s[i] + (k[i] - 1) * d[i] + 1 for i in each]
        if math.prod(size) > math.prod(layout[1:]):
            return None
        scale = tuple(self.scale[i] * s[i] for i in each)
        offset = tuple(self.offset[i] * s[i] - window.padding[i][0] for i in each)
        return Patches(np.zeros((len(self.array), layout[0], *size)), layout, self.positions, scale, offset)

    def clipped(self) -> Patches:
        """Without what lies over the edge of the plane."""
        for axis, (n, size) in enumerate(zip(self.layout[1:], self.size, strict=True)):
            at = self.starts[:, axis, None] + np.arange(size)
            outside = (at < 0) | (at >= n)
            edge = np.flatnonzero(outside.any(axis=1))
            shape = [len(edge), 1, *(size if i == axis else 1 for i in range(len(self.size)))]
            self.array[edge] = np.where(outside[edge].reshape(shape), 0.0, self.array[edge])
        return self

    def plus(self, other: Rows) -> Rows:
        if not isinstance(other, Patches) or (other.scale, other.layout) != (self.scale, self.layout):
            return self.whole().plus(other)
        offset = tuple(map(min, self.offset, other.offset))
        ends = [[o + n for o, n in zip(each.offset, each.size, strict=True)] for each in (self, other)]
        size = tuple(max(a, b) - o for a, b, o in zip(*ends, offset, strict=True))
        total = np.zeros((len(self.array), self.layout[0], *size))
        for each in (self, other):
            inner = (slice(o - low, o - low + n) for o, low, n in zip(each.offset, offset, each.size, strict=True))
            total[:, :, *inner] += each.array
        return replace(self, array=total, offset=offset)

    def whole(self) -> Whole:
        found = np.zeros((len(self.array), *self.layout))
        for start in np.unique(self.starts, axis=0):
            same = (self.starts == start).all(axis=1)
            low = np.maximum(start, 0)
            high = np.minimum(start + self.size, self.layout[1:])
            plane = (slice(a, max(a, b)) for a, b in zip(low, high, strict=True))
            patch = (slice(a - o, max(a, b) - o) for a, b, o in zip(low, high, start, strict=True))
            found[same, :, *plane] = self.array[same, :, *patch]
        return Whole(found.reshape(len(found), -1))


def spread(window: Sliding, rows: Array, onto: Array) -> None:
    """Each coefficient added to all cells of its window."""
    for tap in product(*(range(k) for k in window.kernel)):
        places = (
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(tap, window.dilation, window.stride, rows.shape[2:], strict=True)
        )
        onto[:, :, *places] += rows


def planar(shape: tuple[int, ...], rank: int) -> Layout:
    """All axes before the spatial ones as channels."""
    lead = len(shape) - rank
    return math.prod(shape[:lead]), *shape[lead:]


def layouts(network: Network) -> dict[int, Layout]:
    """Of the values that are planes: the input, and what convolutions, means and functions of single cells make of it."""
    found = {0: network.in_shape[1:]} if len(network.in_shape) > 2 else {}
    for node in network.nodes:
        if isinstance(node, Affine):
            part = node.parts[0][1]
            if isinstance(part, Convolution):
                found[node.result] = part.out_shape[1:]
            elif isinstance(part, Averaging) and isinstance(part.params.geometry, Sliding):
                found[node.result] = planar(part.out_shape, part.params.geometry.rank)
            elif part.cells == part.outputs and node.sources[0] in found:
                found[node.result] = found[node.sources[0]]
        elif isinstance(node, Relaxed) and node.is_cellwise and node.sources[0] in found:
            found[node.result] = found[node.sources[0]]
    return found


def unit_rows(cells: Array, signs: Array, total: int, layout: Layout | None) -> Rows:
    """One row per cell: that cell, times its sign; over patches if the cells form planes."""
    each = np.arange(len(cells))
    if layout is None:
        array = np.zeros((len(cells), total))
        array[each, cells] = signs
        return Whole(array)
    channels, *spatial = layout
    channel, *position = place_of(cells, layout)
    array = np.zeros((len(cells), channels))
    array[each, channel] = signs
    ones = (1,) * len(spatial)
    return Patches(array.reshape(len(cells), channels, *ones), layout, np.stack(position, axis=1), ones, (0,) * len(spatial))
