"""Linear maps between flat arrays of cells, by rows: what an affine operator does to all cells of its input.

Each has `forward`, its adjoint `back`, and itself with absolute coefficients. Both are sums of products, of at most `terms`
and `back_terms` terms each, in any order: that is all that the bounds of rounding need to know.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from windowgrad.dispatch import run
from windowgrad.geometry import Sliding
from windowgrad.params import ConvParams, MeanParams, Shape, TransposeParams
from windowgrad.spec.op import Op

Array = np.ndarray[Any, Any]


class Map(ABC):
    """From rows of `cells` cells to rows of `outputs` cells."""

    divisor: float = 1.0
    """What sums are divided by, at most: before that they are so many times as large."""

    def __init__(self, cells: int, outputs: int, terms: int = 1, back_terms: int = 1, roundings: int = 0) -> None:
        """`roundings`: how many lie between an input and the output of an evaluation, at most; 0: cells are only moved."""
        self.cells, self.outputs = cells, outputs
        self.terms, self.back_terms, self.roundings = terms, back_terms, roundings

    @abstractmethod
    def forward(self, rows: Array) -> Array: ...

    @abstractmethod
    def back(self, rows: Array) -> Array: ...

    @abstractmethod
    def absolute(self) -> Map: ...


class Scatter:
    """The adjoint of taking cells: each entry of a row is added to the cell that its index names; −1 names none."""

    def __init__(self, index: Array, cells: int) -> None:
        real = np.flatnonzero(index >= 0)
        order = real[np.argsort(index[real], kind="stable")]
        targets, starts, counts = np.unique(index[order], return_index=True, return_counts=True)
        self.most = int(counts.max()) if len(counts) else 1
        """How many entries are added to a cell, at most."""
        self.order, self.starts, self.targets, self.cells = order, starts, targets, cells
        self.dense = self.most == 1 and 2 * len(targets) > cells
        """Most cells come from one entry each: taking is faster than putting."""
        if self.dense:
            self.source = np.zeros(cells, np.int64)
            self.source[targets] = order[starts]
            self.missed = np.setdiff1d(np.arange(cells), targets, assume_unique=True)

    def __call__(self, rows: Array) -> Array:
        if self.dense:
            found = rows[:, self.source]
            found[:, self.missed] = 0.0
            return found
        found, sorted_rows = np.zeros((len(rows), self.cells)), rows[:, self.order]
        found[:, self.targets] = sorted_rows if self.most == 1 else np.add.reduceat(sorted_rows, self.starts, axis=1)
        return found


class Selection(Map):
    """Each output is a cell of the input, or 0 where the index is −1."""

    def __init__(self, index: Array, cells: int) -> None:
        self.index = index
        self.holes = bool((index < 0).any())
        self.whole = len(index) == cells and bool((index == np.arange(cells)).all())
        most = 1 if self.whole or not len(index) else int(np.bincount(index + 1)[1:].max(initial=1))
        super().__init__(cells, len(index), back_terms=most)

    @cached_property
    def scatter(self) -> Scatter:
        return Scatter(self.index, self.cells)

    def forward(self, rows: Array) -> Array:
        if self.whole:
            return rows
        found = rows[:, self.index]
        if self.holes:
            found[:, self.index < 0] = 0.0
        return found

    def back(self, rows: Array) -> Array:
        return rows if self.whole else self.scatter(rows)

    def absolute(self) -> Map:
        return self


class Scaling(Map):
    """Each cell times a number, or divided by one; `exact` where all factors are 1 and −1."""

    def __init__(self, factors: Array, divides: bool = False, exact: bool = False) -> None:
        self.factors, self.divides, self.exact = factors, divides, exact
        super().__init__(len(factors), len(factors), roundings=0 if exact else 1)

    def forward(self, rows: Array) -> Array:
        found: Array = rows / self.factors if self.divides else rows * self.factors
        return found

    back = forward

    def absolute(self) -> Map:
        return Scaling(np.abs(self.factors), self.divides, self.exact)


class Chain(Map):
    """One map after another."""

    def __init__(self, first: Map, last: Map) -> None:
        self.first, self.last = first, last
        counts = (first.terms + last.terms, first.back_terms + last.back_terms, first.roundings + last.roundings)
        super().__init__(first.cells, last.outputs, *counts)
        self.divisor = first.divisor * last.divisor

    def forward(self, rows: Array) -> Array:
        return self.last.forward(self.first.forward(rows))

    def back(self, rows: Array) -> Array:
        return self.first.back(self.last.back(rows))

    def absolute(self) -> Map:
        return Chain(self.first.absolute(), self.last.absolute())


class Convolution(Map):
    """A convolution or a transposed one, without its bias; the first axis of `shape` is the batch of one."""

    def __init__(self, op: Op, params: ConvParams, weight: Array, shape: Shape, out_shape: Shape) -> None:
        self.op, self.params, self.weight, self.shape, self.out_shape = op, params, weight, shape, out_shape
        sees, seen = weight[0].size, weight[:, 0].size // params.groups  # the weights that meet in an output, and in a cell
        if isinstance(params, TransposeParams):
            sees, seen = seen, sees
        # a factor or a constant behind it may be made part of the weights
        super().__init__(math.prod(shape), math.prod(out_shape), sees, seen, sees + 2)

    def forward(self, rows: Array) -> Array:
        y: Array = run(self.op, "forward", self.params, rows.reshape(len(rows), *self.shape[1:]), self.weight)
        return y.reshape(len(rows), -1)

    def back(self, rows: Array) -> Array:
        x = np.zeros((len(rows), *self.shape[1:]))  # of which only the shape is looked at
        g = rows.reshape(len(rows), *self.out_shape[1:])
        found: Array = run(self.op, "vjp", self.params, x, self.weight, g, needs=(True, False))[0]
        return found.reshape(len(rows), -1)

    def back_patches(self, rows: Array, size: Sequence[int]) -> Array:
        """The adjoint on patches (rows, channels, …): onto all `size` cells that their windows see, without padding."""
        x = np.zeros((len(rows), self.shape[1], *size))
        found: Array = run(self.op, "vjp", self.unpadded, x, self.weight, rows, needs=(True, False))[0]
        return found

    @cached_property
    def unpadded(self) -> ConvParams:
        window = self.params.window
        return ConvParams(Sliding(window.kernel, window.stride, 0, window.dilation), self.params.groups)

    def absolute(self) -> Map:
        return Convolution(self.op, self.params, np.abs(self.weight), self.shape, self.out_shape)


class Dense(Map):
    """A small convolution as a matrix (cells, outputs), with the counts of the convolution: no kernel is compiled for it."""

    def __init__(self, matrix: Array, terms: int, back_terms: int) -> None:
        self.matrix, self.counts = matrix, (terms, back_terms)
        super().__init__(matrix.shape[0], matrix.shape[1], terms, back_terms, terms + 2)

    def forward(self, rows: Array) -> Array:
        found: Array = rows @ self.matrix
        return found

    def back(self, rows: Array) -> Array:
        found: Array = rows @ self.matrix.T
        return found

    def absolute(self) -> Map:
        return Dense(np.abs(self.matrix), *self.counts)


class Averaging(Map):
    """Means over windows of at most `window` cells, and `covered` with padding; at most `seen` windows see a cell."""

    def __init__(self, op: Op, params: MeanParams, shape: Shape, window: int, covered: int, seen: int) -> None:
        self.op, self.params, self.shape = op, params, shape
        self.divisor = params.divisor_override or covered
        self.out_shape = params.out_shape(shape)
        terms = window + 2  # the sum, and a division, or a reciprocal and a product
        super().__init__(math.prod(shape), math.prod(self.out_shape), terms, seen + 2, terms)

    def forward(self, rows: Array) -> Array:
        y: Array = run(self.op, "forward", self.params, rows.reshape(len(rows), *self.shape))
        return y.reshape(len(rows), -1)

    def back(self, rows: Array) -> Array:
        g = rows.reshape(len(rows), *self.out_shape)
        found: Array = run(self.op, "vjp", self.params, np.zeros((len(rows), *self.shape)), g)[0]
        return found.reshape(len(rows), -1)

    @cached_property
    def divisors(self) -> Array:
        """What each output divides its sum by; without a mask."""
        if self.params.divisor_override is not None:
            return np.full(self.outputs, float(self.params.divisor_override))
        lead, spatial = self.params.geometry.split(self.shape)
        real, covered = np.ones(1), np.ones(1)
        for table in self.params.geometry.tables(spatial):
            real = (real[:, None] * table.count).reshape(-1)
            covered = (covered[:, None] * (table.count + table.padded)).reshape(-1)
        return np.tile(np.maximum(covered if self.params.count_include_pad else real, 1), math.prod(lead))

    def absolute(self) -> Map:
        return self


class Product(Map):
    """Vectors along one axis times a matrix (n, m): (before, n, after) to (before, m, after)."""

    def __init__(self, matrix: Array, before: int = 1, after: int = 1) -> None:
        self.matrix, self.before, self.after = matrix, before, after
        n, m = matrix.shape
        # a factor of all terms may be multiplied into each of them first, or into their sum
        super().__init__(before * n * after, before * m * after, n, m, n + 2)

    def forward(self, rows: Array) -> Array:
        return self._times(rows, self.matrix)

    def back(self, rows: Array) -> Array:
        return self._times(rows, self.matrix.T)

    def _times(self, rows: Array, matrix: Array) -> Array:
        if self.after == 1:
            found: Array = rows.reshape(-1, len(matrix)) @ matrix
        else:
            found = np.matmul(matrix.T, rows.reshape(-1, len(matrix), self.after))
        return found.reshape(len(rows), -1)

    def absolute(self) -> Map:
        return Product(np.abs(self.matrix), self.before, self.after)


class Totals(Map):
    """Sums over some axes of `shape`, divided by `divisor`."""

    def __init__(self, shape: Shape, axes: tuple[int, ...], divisor: int = 1) -> None:
        self.shape, self.axes, self.divisor = shape, axes, float(divisor)
        count, cells = math.prod(shape[axis] for axis in axes), math.prod(shape)
        super().__init__(cells, cells // max(count, 1), count + 2, 2, count + 2)

    def forward(self, rows: Array) -> Array:
        sums: Array = rows.reshape(len(rows), *self.shape).sum(axis=tuple(axis + 1 for axis in self.axes))
        return sums.reshape(len(rows), -1) / self.divisor

    def back(self, rows: Array) -> Array:
        kept = [1 if axis in self.axes else n for axis, n in enumerate(self.shape)]
        spread = np.broadcast_to(rows.reshape(len(rows), *kept), (len(rows), *self.shape))
        found: Array = np.ascontiguousarray(spread).reshape(len(rows), -1) / self.divisor
        return found

    def absolute(self) -> Map:
        return self
