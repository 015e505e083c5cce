"""Moments of the cells of a window about its smooth maximum y: B_k = Σ p·(x − y)ᵏ, where p are the softmax weights.

The derivative in β and all higher ones are made of them and of their derivatives. NumPy in float64: over the taps of a window,
all windows at once, or over the windows, all taps at once, whichever is fewer. With z = ±x the top of a window is its greatest
z, and β is positive. A cell that weighs nothing adds nothing, and neither does one that the mask leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.gather import by_taps, by_windows, in_a_row, is_shallow, padded_cells
from windowgrad.params import SharpParams


class Moments:
    """The weights of all windows of an array, about which sums are asked for. Arrays of windows keep the axes of `Global`."""

    def __init__(self, params: SharpParams, x: Array, beta: Array) -> None:
        self.geometry, numbers = params.geometry, beta.astype(np.float64)
        self.rank, (lead, self.spatial) = self.geometry.rank, self.geometry.split(x.shape)
        self.by_windows = not is_shallow(self.geometry, self.spatial)
        self.beta = numbers.reshape((*numbers.shape, *(1,) * self.rank)) if numbers.ndim else numbers
        self.left = None if params.where is None else params.where.over(x.shape)
        z = np.sign(self.beta) * x.astype(np.float64)
        self.z = np.ascontiguousarray(z if self.left is None else np.where(self.left, z, -np.inf))
        self.padded = padded_cells(self.geometry, self.spatial) * params.count_include_pad
        self.top = self.tops(lead)
        self.total = np.zeros(self.top.shape)
        for at, cells, there in self.visits():
            weight = np.where(there, self.weighed(at, cells)[0], 0.0)
            self.total[at] += weight.sum(-1) if self.by_windows else weight
        weight = np.exp(abs(self.beta) * self.zero_below())
        self.total += np.where(self.padded > 0, self.padded * weight, 0.0)
        self.total[self.total == 0] = 1  # no cell, so nothing is divided by it: the top of all others weighs 1
        self.depth = np.log(self.total) / abs(self.beta)

    def tops(self, lead: tuple[int, ...]) -> Array:
        nothing = np.where(self.padded > 0, 0.0, -np.inf)
        top = np.broadcast_to(nothing, lead + nothing.shape).copy()
        for at, cells, there in self.visits():
            seen = np.where(there, self.taken(self.z, cells), -np.inf)
            top[at] = np.maximum(top[at], seen.max(-1, initial=-np.inf) if self.by_windows else seen)
        return top

    # --- cells, and the windows that see them ---

    def visits(self) -> Iterator[tuple[Any, Any, Any]]:
        """(windows, a cell of each, for which of them it is there), or (a window, its cells, which of them are there)."""
        if self.by_windows:
            for o, cells in by_windows(self.geometry, self.spatial):
                yield (..., *o), cells, True if self.left is None else self.taken(self.left, cells)
            return
        for cells, there in by_taps(self.geometry, self.spatial):
            yield (...,), cells, there if self.left is None else there & self.left[cells]

    def taken(self, array: Array, cells: Any) -> Array:
        """The cells of all windows, or those of one window along the last axis."""
        return in_a_row(array[cells], self.rank) if self.by_windows else array[cells]

    def beside(self, values: Array, at: Any) -> Array:
        """What belongs to the windows, beside their cells."""
        return values[at][..., None] if self.by_windows else values

    # --- weights ---

    def weighed(self, at: Any, cells: Any) -> tuple[Array, Array]:
        """(the weight of each cell, how far it is below the top)"""
        below = distance(self.taken(self.z, cells), self.beside(self.top, at))
        return np.exp(abs(self.beside_beta(self.beta)) * below), below

    def zero_below(self) -> Array:
        """How far a padded zero is below the top."""
        return distance(np.zeros(()), self.top)

    def shares(self) -> Iterator[tuple[Any, Any, Array, Array]]:
        """(windows, cells, p, x − y without the sign of β)"""
        for at, cells, there in self.visits():
            weight, below = self.weighed(at, cells)
            yield at, cells, np.where(there, weight, 0.0) / self.beside(self.total, at), below - self.beside(self.depth, at)

    def slopes(self, k: int) -> Iterator[tuple[Any, Any, Array]]:
        """(windows, cells, the derivative of B_k in each cell): β·(p·uᵏ − p·B_k) + k·(p·uᵏ⁻¹ − p·B_{k−1})"""
        same, less, sign = self.mean(k), self.mean(k - 1), np.sign(self.beta)
        for at, cells, p, u in self.shares():
            by_beta = powered(p, u, k) - p * self.beside(same * sign**k, at)
            by_cell = powered(p, u, k - 1) - p * self.beside(less * sign ** (k - 1), at)
            yield at, cells, self.beside_beta(self.beta * sign**k) * by_beta + self.beside_beta(k * sign ** (k - 1)) * by_cell

    def beside_beta(self, numbers: Array) -> Array:
        """One number, or one per channel, beside the cells."""
        return numbers.reshape(-1, 1) if self.by_windows and numbers.ndim else numbers

    # --- sums ---

    def mean(self, k: int) -> Array:
        """B_k: over all that counts, padded zeros too; 0 where there is no cell."""
        found, below = np.zeros(self.top.shape), self.zero_below()
        for at, _, p, u in self.shares():
            part = powered(p, u, k)
            found[at] += part.sum(-1) if self.by_windows else part
        weight = powered(np.exp(abs(self.beta) * below), below - self.depth, k)
        found += np.where(self.padded > 0, self.padded * weight / self.total, 0.0)
        found *= np.sign(self.beta) ** k
        return found

    def slope(self, k: int) -> Array:
        """The derivative in β of B_k, and of y for k = 0."""
        mean = self.mean(1)
        moved = mean / self.beta
        return np.asarray(self.mean(k + 1) - mean * self.mean(k) - k * moved * self.mean(k - 1) if k else moved)

    def push(self, k: int, dx: Array) -> Array:
        """How B_k moves when the cells do."""
        found = np.zeros(self.top.shape)
        for at, cells, slope in self.slopes(k):
            part = np.where(slope == 0, 0.0, slope * self.taken(dx, cells))
            found[at] += part.sum(-1) if self.by_windows else part
        return found

    def pull(self, k: int, g: Array) -> Array:
        """Its adjoint."""
        gx, amounts = np.zeros(self.z.shape), g.reshape(self.top.shape)
        for at, cells, slope in self.slopes(k):
            part = np.where(slope == 0, 0.0, slope * self.beside(amounts, at))
            if self.by_windows:
                gx[cells] += part.reshape(gx[cells].shape)
            else:
                np.add.at(gx, cells, part)  # a cell may be there several times: bins overlap
        return gx


def distance(z: Array, top: Array) -> Array:
    """How far a cell is below the top; that by itself is 0, infinite too."""
    return np.where(z == top, 0.0, z - top)


def powered(weight: Array, distance: Array, order: int) -> Array:
    """weight·distanceᵏ, where a weight of 0 times infinity is 0."""
    return weight if not order else np.where(weight == 0, 0.0, weight * distance**order)
