"""Linear bounds of a maximum over a box.

With cells x_k in [l_k, u_k], L = max l_k and U = max u_k (a constant cell counts in both):

    max x_k ≤ t + Σ a_k·(x_k − l_k)        for every t in [L, U], a_k = max(u_k − t, 0) ÷ (u_k − l_k) or greater
    max x_k ≥ Σ w_k·x_k + (1 − Σ w)·L      for every w ≥ 0 with Σ w ≤ 1

Above: all terms are ≥ 0, so the right side is at least t, which covers the cells with u_k ≤ t. Of another cell the k-th term
alone is a line through (l_k, t) and (u_k, u_k), and t ≥ l_k: it is above x_k between them. Below: a mean of numbers that are
not above the maximum. `docs/certify.md` draws both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.certify.cells import Cells
from windowgrad.certify.maps import Scatter
from windowgrad.certify.rounding import UNIT

Array = np.ndarray[Any, Any]


class Planes(NamedTuple):
    """(outputs, cells) for all rows, or (rows, outputs, cells); the constants without the last axis."""

    above: Array
    above_constant: Array
    below: Array
    below_constant: Array
    t: Array
    """Which of the planes above it is, of a maximum."""


class Partial(NamedTuple):
    """Planes of some windows of a node; the others are constant.

    A window may be listed several times: its plane is then the sum of those listed.
    """

    windows: Array
    planes: Planes
    scatter: Scatter
    """From the cells of these windows to all cells."""
    fixed: Array
    """The value of each of the other windows, 0 for these."""

    @classmethod
    def of(cls, planes: Planes, taps: Array, cells: int) -> Partial:
        """Each coefficient that is not 0 by itself; the first one of a window has its constants too."""
        wanted = (planes.above > 0) | (planes.below > 0)
        wanted[:, 0] |= planes.above_constant != planes.below_constant
        pairs = np.flatnonzero(wanted)
        windows = pairs // taps.shape[1]
        first = np.diff(windows, prepend=-1) > 0
        constants = [np.where(first, part[windows], 0.0) for part in (planes.above_constant, planes.below_constant)]
        above, below = (part.reshape(-1)[pairs, None] for part in (planes.above, planes.below))
        fixed = np.where(wanted.any(axis=1), 0.0, planes.above_constant)
        own = Planes(above, constants[0], below, constants[1], planes.t[windows])
        return cls(windows, own, Scatter(taps.reshape(-1)[pairs], cells), fixed)


def slopes(cells: Cells, t: Array) -> Array:
    """The least a_k that are right for t, rounded up: t has the outputs on its last axis."""
    with np.errstate(invalid="ignore", divide="ignore"):  # −∞ less −∞, where there is no cell
        steep = (cells.hi - t[..., None]) / (cells.hi - cells.lo) * (1 + 8 * UNIT)
    return np.where(cells.hi > t[..., None], np.minimum(steep, 1.0), 0.0)


def planes(cells: Cells, t: Array, w: Array) -> Planes:
    """The planes for a choice of t and w."""
    a = slopes(cells, t)
    lows = np.where(np.isfinite(cells.lo), cells.lo, 0.0)
    low, _ = cells.ends
    return Planes(a, t - (a * lows).sum(axis=-1), w, (1 - w.sum(axis=-1)) * low, t)


def closed_form(cells: Cells) -> Planes:
    """t the second greatest end (not below L), w the cell with the greatest lower end where it beats the constant."""
    return planes(cells, second(cells), likely(cells))


def second(cells: Cells) -> Array:
    low, _ = cells.ends
    tops = np.concatenate([cells.hi, cells.floor[:, None], np.full((len(low), 1), -np.inf)], axis=1)
    return np.maximum(np.partition(tops, -2, axis=1)[:, -2], low)


def likely(cells: Cells) -> Array:
    """One cell per window, or none where the constant is likely to be greater."""
    each, best = np.arange(len(cells.lo)), cells.lo.argmax(axis=1)
    w = np.zeros(cells.lo.shape)
    with np.errstate(invalid="ignore"):
        w[each, best] = 0.5 * cells.lo[each, best] + 0.5 * cells.hi[each, best] > cells.floor
    return w
