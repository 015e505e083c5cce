"""Smooth maximum along a long row of windows that lie side by side: the row is cut between windows, and its parts are planes.

For rows that `is_tiled` accepts: no window reaches over a cut, so the parts are an axis more of the same array. A part has a
reference value of its own, its weights stay in a cache, and the sums of them can be saved. In blocks
(`kernels/pool/blocks.py`), a row of 2²² cells took 7 times as long, and its gradient 9. What is left behind the last whole
part is a call of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry, Sliding
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.params import SmoothParams

PART = 1 << 12
"""The cells of a part, about."""

Rule = Callable[..., Any]


def is_tiled(geometry: Geometry, shape: tuple[int, ...]) -> bool:
    """Whether a row of this shape is long, and its windows lie side by side, without padding."""
    if not is_long(geometry, shape) or not isinstance(geometry, Sliding):
        return False
    return geometry.kernel == geometry.stride and geometry.dilation == (1,) and geometry.padding == ((0, 0),)


class Cut:
    """How a row of n cells is cut: into `parts` of so many `cells` and `outputs`; behind them there are `rest` outputs more."""

    def __init__(self, geometry: Geometry, n: int) -> None:
        assert isinstance(geometry, Sliding)
        (kernel,) = geometry.kernel
        self.outputs = max(1, min(PART // kernel, blocks.TABLES // 2))  # a part is not long again
        self.cells = self.outputs * kernel
        self.parts = n // self.cells - (0 < n % self.cells < kernel)  # behind them is room for a window, or nothing
        self.rest = geometry.grid((n,))[0] - self.parts * self.outputs

    def split(self, a: Array, size: int) -> tuple[Array, Array]:
        """The parts, as an axis of their own, and what is behind them; no copies."""
        end = self.parts * size
        return a[..., :end].reshape(*a.shape[:-1], self.parts, size), a[..., end:]


def joined(parts: Array, *rest: Array) -> Array:
    whole = parts.reshape(*parts.shape[:-2], -1)
    return np.concatenate([whole, *rest], axis=-1) if any(a.shape[-1] for a in rest) else whole


def forward(rule: Rule, params: SmoothParams, *arrays: Array) -> Array:
    """What a rule from cells to outputs gives: the maximum, or its tangent."""
    cut = Cut(params.geometry, arrays[0].shape[-1])
    parts, rest = zip(*(cut.split(a, cut.cells) for a in arrays), strict=True)
    return joined(rule(params, *parts), *([rule(params, *rest)] if cut.rest else []))


def saving(rule: Rule, params: SmoothParams, x: Array) -> tuple[Array, Array]:
    """The maximum, and the sums that are saved of it."""
    cut = Cut(params.geometry, x.shape[-1])
    parts, rest = cut.split(x, cut.cells)
    found = [rule(params, some) for some in ((parts, rest) if cut.rest else (parts,))]
    return joined(*(y for y, _ in found)), joined(*(saved for _, saved in found))


def vjp(rule: Rule, params: SmoothParams, x: Array, g: Array, saved: Array | None) -> Array:
    """The gradient; no window sees the cells behind the last one."""
    cut = Cut(params.geometry, x.shape[-1])
    (cells, more), (pulled, rest) = cut.split(x, cut.cells), cut.split(g, cut.outputs)
    sums, others = (None, None) if saved is None else cut.split(saved, cut.outputs)
    (gx,) = rule(params, cells, pulled, sums)
    return joined(gx, rule(params, more, rest, others)[0] if cut.rest else np.zeros(more.shape, gx.dtype))
