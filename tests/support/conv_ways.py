"""Convolutions near the limits of each kernel, and a kernel run by itself: arrays stand anywhere, scratch is poisoned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from support.strategies import remainder
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import share as conv_share
from windowgrad.kernels.conv.choose import Grouped, grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT, WEIGHT
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES
from windowgrad.params import ConvParams, TransposeParams

LANES = WIDE_BYTES // 4
PANEL = VECTORS * LANES
ROLES = {"forward": FORWARD, "input": INPUT, "weight": WEIGHT}
MARK = -4096.0
"""Stands around every array; no sum of the tests reaches it."""


# --- geometries --------------------------------------------------------------------------------------------------


def near(rng: Any, *numbers: int) -> int:
    """One of them, or the number before or after it."""
    return max(1, int(rng.choice(numbers)) + int(rng.integers(-1, 2)))


def axis(rng: Any, longest: int, kernels: Any, moves: bool = True) -> tuple[int, int, int, tuple[int, int], int]:
    """(size, kernel, stride, padding, dilation): short ones above all, strides beyond the kernel, padding beyond both."""
    k = int(rng.choice(kernels))
    d = int(rng.choice([1, 1, 1, 2, 3]))
    s = int(rng.choice([1, 1, 1, 2, 2, 3, 4, 5])) if moves else 1
    lo, hi = (int(n) for n in rng.choice([0, 0, 1, 1, 2, 3, 7] if moves else [0, 0, 0, 0, 0, 1], 2))
    n = int(rng.choice([1, 1, 2, 3, 5, 7, 13, int(rng.integers(1, longest + 1))]))
    return max(n, d * (k - 1) + 1 - lo - hi), k, s, (lo, hi), d


def window_of(rng: Any, kind: str) -> tuple[tuple[int, ...], Sliding]:
    rank = int(rng.choice([1, 2, 2, 2, 3]))
    longest = {1: 90, 2: 40, 3: 9}[rank]
    if kind == "three":
        rank, longest = 2, 40
    kernels = {"pointwise": [1], "three": [3], "planes": [1, 2, 3, 3, 5], "bands": [1, 2, 3, 3, 5]}.get(kind, [1, 2, 3])
    plain = kind == "pointwise" and rng.integers(5) > 0
    sides = [axis(rng, longest, kernels, not plain) for _ in range(rank)]
    if kind == "three":  # the columns of the kernel, and its moves, are free; rows follow each other nearly always
        (n, _, s, lo, d), (m, k, t, co, e) = sides
        sides = [(n, 3, s if rng.integers(3) == 0 else 1, lo, d if rng.integers(3) == 0 else 1), (m, k, t, co, e)]
        sides[1] = axis(rng, 40, [1, 2, 3, 3, 5])
    if kind == "square":  # the window of `rolling`, nearly always, on planes of some vectors
        k, s, d = int(rng.choice([3, 3, 5, 7])), int(rng.choice([1, 2])), int(rng.choice([1] * 7 + [2]))
        sides = [(n, k, s, lo, d) for n, _, _, lo, _ in (axis(rng, 2 * LANES + 9, [k * d]) for _ in range(2))]
        if rng.integers(6) == 0:
            sides[1] = axis(rng, 40, [1, 2, 3, 5])
    if plain and rank == 1 and rng.integers(2):
        sides = [(near(rng, LANES, 2 * LANES, PANEL, PANEL + LANES, 2 * PANEL, 8 * PANEL), *sides[0][1:])]
    spatial, kernel, stride, padding, dilation = zip(*sides, strict=True)
    return spatial, Sliding(kernel, stride, padding, dilation)


def drawn(rng: Any, kind: str) -> tuple[ConvParams, tuple[int, ...], tuple[int, ...]]:
    """(parameters, shape of x, shape of the weight); half of them transposed, with any output padding that is allowed."""
    spatial, window = window_of(rng, kind)
    if kind in ("three", "planes", "square"):
        groups, ins, outs = int(rng.choice([1, 2, 3, 4, 5, 9])), 1, 1
    elif kind == "bands":
        groups, ins, outs = int(rng.choice([1, 1, 2, 3])), 1, 1
    elif kind == "pointwise":
        groups = 1 if rng.integers(8) else 2
        ins, outs = (near(rng, 1, LANES // 2, ROWS, 2 * ROWS, 3 * ROWS, LANES, PANEL, 9 * LANES) for _ in range(2))
    else:
        groups = int(rng.choice([1, 1, 2, 3]))
        ins, outs = (near(rng, 1, ROWS, LANES, 2 * ROWS + 1, PANEL) for _ in range(2))
    images = int(rng.choice([1, 2, 3]))
    weight = (groups * outs, ins, *window.kernel)
    if rng.integers(2):
        return ConvParams(window, groups), (images, groups * ins, *spatial), weight
    grid = window.grid(spatial)
    left = remainder(window, spatial)
    most = [max(s, d) for s, d in zip(window.stride, window.dilation, strict=True)]
    extra = tuple(int(rng.integers(e, m)) if rng.integers(2) else e for e, m in zip(left, most, strict=True))
    return TransposeParams(window, groups, extra), (images, groups * outs, *grid), weight


# --- one kernel --------------------------------------------------------------------------------------------------


def placed(values: Any, start: int = 7) -> Any:
    """The values in the midst of other memory, not aligned to a vector; its marks must outlive the call."""
    around = np.full(values.size + 2 * start + 64, MARK, values.dtype)
    around[start : start + values.size] = values.reshape(-1)
    return around[start : start + values.size]


def untouched(array: Any) -> bool:
    """Whether nothing around a placed array was written."""
    around = array.base
    start = (array.ctypes.data - around.ctypes.data) // array.itemsize
    return bool((around[:start] == MARK).all() and (around[start + array.size :] == MARK).all())


class Poisoned:
    """Scratch memory of the size that was asked for: NaN and impossible places, and marks after them."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, int]] = []

    def get(self, room: Any, count: int, dtype: Any, listed: int = 0) -> tuple[Any, Any]:
        cells, lists = np.full(count + 64, np.nan, dtype), np.full(listed + 64, 1 << 40)
        cells[count:] = MARK
        self.given += (cells, count), (lists, listed)
        return cells[:count], lists[:listed]

    def kept(self) -> bool:
        """Whether nothing was written after what was given."""
        return all((a[n:] == (MARK if a.dtype.kind == "f" else 1 << 40)).all() for a, n in self.given)


def poison(monkeypatch: Any) -> Poisoned:
    memory = Poisoned()
    monkeypatch.setattr(conv_share.Room, "get", lambda room, *args: memory.get(room, *args))
    return memory


@dataclass
class Case:
    """The arrays of one convolution; a role computes one of them from the other two. Cells are small integers."""

    conv: Grouped
    arrays: dict[int, Any]
    bias: dict[int, Any]

    def operands(self, role: int) -> tuple[Any, Any]:
        x, y, w = (self.arrays[r] for r in (INPUT, FORWARD, WEIGHT))
        return {FORWARD: (x, w), INPUT: (y, w), WEIGHT: (x, y)}[role]

    def exact(self, role: int) -> Any:
        """The sums by the exact kernel, without a bias."""
        arrays = {r: np.zeros_like(a) if r == role else a for r, a in self.arrays.items()}
        Grouped.exactly(self.conv, role, arrays[INPUT], arrays[WEIGHT], arrays[FORWARD])
        return arrays[role]

    def with_bias(self, role: int, sums: Any) -> Any:
        bias = self.bias[role]
        return (sums.reshape(self.conv.images, len(bias), -1) + bias[:, None]).reshape(-1) if len(bias) else sums


def case(params: ConvParams, x: Any, w: Any, dtype: Any, rng: Any, cells: Any = None) -> Case:
    conv = grouped(params, tuple(x), tuple(w))[0]
    one = conv.told(FORWARD)
    channels = {FORWARD: one.groups * one.rows, INPUT: one.groups * one.channels}
    sizes = {
        FORWARD: one.images * channels[FORWARD] * one.pixels,
        INPUT: one.images * channels[INPUT] * one.cells,
        WEIGHT: one.groups * one.rows * one.channels * one.taps,
    }
    cells = cells or (lambda size: rng.integers(-3, 4, size))
    bias = {role: placed((rng.integers(-2, 3, n) + 0.5).astype(dtype)) for role, n in channels.items()}
    arrays = {role: placed(cells(size).astype(dtype)) for role, size in sizes.items()}
    return Case(conv, arrays, {**bias, WEIGHT: np.zeros(0, dtype)})
