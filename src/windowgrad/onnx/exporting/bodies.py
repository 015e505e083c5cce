"""Reductions over windows of any geometry, written with Gather and Reduce: the bodies of functions ONNX has no operator for.

Each spatial axis is gathered into two, the windows and the taps of each, so an array of shape (…, H, W) becomes
(…, windows, taps, windows, taps). Taps that are no cells of the input are masked. That takes as much memory as all windows
have cells together, and works for every geometry, for any axes before the windows and for a batch of any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry, Global, Sliding, index_of
from windowgrad.onnx.exporting.writer import Array, Body
from windowgrad.params import LpParams, MaxParams, MeanParams, MinParams, PoolParams, SharpParams, SmoothParams

DType = np.dtype[Any]


class Windows:
    """The windows of one array in a body: `taps` is the gathered array."""

    def __init__(self, body: Body, geometry: Geometry, x: str, spatial: Sequence[int], where: str | None) -> None:
        self.body, self.geometry, self.rank = body, geometry, len(spatial)
        tables = [axis_taps(geometry, axis, n) for axis, n in enumerate(spatial)]
        self.taps = self.gathered(x, [index for index, _, _ in tables])
        self.real = outer([real for _, real, _ in tables])
        """Which taps are cells of the input, of shape (windows, taps, windows, taps)."""
        self.inside = outer([inside for _, _, inside in tables])
        """The same with padded cells."""
        self.places = index_of(
            [np.expand_dims(index, other(axis, self.rank)) for axis, (index, _, _) in enumerate(tables)], spatial
        )
        """The flat index of each tap in its plane."""
        self.axes = body.integers(*(-2 * axis - 1 for axis in range(self.rank)))
        self.there = (
            None if where is None else body.node("And", self.gathered(where, [i for i, _, _ in tables]), self.mask(self.real))
        )

    def gathered(self, x: str, indices: Sequence[Array]) -> str:
        for axis, index in enumerate(indices):
            x = self.body.node("Gather", x, self.body.constant(index), axis=axis - self.rank)
        return x

    def mask(self, mask: Array) -> str:
        return self.body.constant(mask)

    def chosen(self, mask: str | Array, x: str, otherwise: Array) -> str:
        """x where the mask is true; nothing is written for a mask that is true everywhere."""
        if isinstance(mask, np.ndarray):
            if mask.all():
                return x
            mask = self.mask(mask)
        return self.body.node("Where", mask, x, self.body.constant(otherwise))

    @property
    def cells(self) -> str | Array:
        """The mask of the cells that count: a constant, unless cells are left out by a mask."""
        return self.real if self.there is None else self.there

    def reduced(self, kind: str, x: str, keep: bool = False) -> str:
        return self.body.node(kind, x, self.axes, keepdims=int(keep))

    def any_of(self, mask: str | Array) -> str | Array:
        """Which windows have a tap that the mask leaves."""
        if isinstance(mask, np.ndarray):
            return np.asarray(self.folded(mask).any(axis=-1))
        return self.body.node("Cast", self.reduced("ReduceMax", self.body.node("Cast", mask, to=6)), to=9)  # int32, bool

    def folded(self, table: Array) -> Array:
        """A table of taps with the taps of a window along one last axis."""
        order = [*range(0, 2 * self.rank, 2), *range(1, 2 * self.rank, 2)]
        rows = table.transpose(order)
        return rows.reshape(*rows.shape[: self.rank], -1)

    def finished(self, y: str) -> str:
        """The axes of a global reduction are removed if they are not kept."""
        gone = isinstance(self.geometry, Global) and not self.geometry.keepdims
        return self.body.squeezed(y, range(-self.rank, 0)) if gone else y


def axis_taps(geometry: Geometry, axis: int, n: int) -> tuple[Array, Array, Array]:
    """(the cell of each tap, which taps are cells of the input, which are those or padded), of shape (windows, taps)."""
    whole = Global(1) if isinstance(geometry, Global) else geometry
    windows = 1 if isinstance(geometry, Global) else len(geometry.table(axis, n).count)
    covers = [list(whole.cover(0 if whole is not geometry else axis, i, n)) for i in range(windows)]
    most = max(map(len, covers))
    lo, hi = geometry.padding[axis] if isinstance(geometry, Sliding) else (0, 0)
    outside = n + hi  # for bins of fewer taps than the largest
    at = np.array([cover + [outside] * (most - len(cover)) for cover in covers], np.int64)
    return np.clip(at, 0, n - 1), (at >= 0) & (at < n), (at >= -lo) & (at < n + hi)


def other(axis: int, rank: int) -> tuple[int, ...]:
    """The axes of a table of all taps that one axis of the windows has not."""
    return tuple(a for a in range(2 * rank) if a // 2 != axis)


def outer(masks: Sequence[Array]) -> Array:
    """Where all axes say so."""
    rank = len(masks)
    found = np.ones((1,) * (2 * rank), bool)
    for axis, mask in enumerate(masks):
        found = found & np.expand_dims(mask, other(axis, rank))
    return found


# --- reductions --------------------------------------------------------------------------------------------------


def winner(windows: Windows, params: MaxParams, dtype: DType, indices: bool) -> list[str]:
    """The greatest or the least, and the first place where it is, in row-major order; 0 and −1 where there is no cell."""
    least = isinstance(params, MinParams)
    worst = np.array(limit(dtype, least), dtype)
    taps = windows.chosen(windows.cells, windows.taps, worst)
    kind = "ReduceMin" if least else "ReduceMax"
    some = windows.any_of(windows.cells)
    found = [windows.chosen(some, windows.reduced(kind, taps), np.zeros((), dtype))]
    if indices:
        body = windows.body
        best = body.node("Equal", taps, windows.reduced(kind, taps, keep=True))
        best = body.node("And", best, windows.there or windows.mask(windows.real))
        last = np.array(int(windows.places.max()) + 1, np.int64)
        first = body.node("Where", best, body.constant(windows.places), body.constant(last))
        found.append(windows.chosen(some, windows.reduced("ReduceMin", first), np.array(-1, np.int64)))
    return found


def limit(dtype: DType, least: bool) -> Any:
    """The value that never wins."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if least else np.iinfo(dtype).min
    return np.inf if least else -np.inf


def mean(windows: Windows, params: MeanParams, dtype: DType) -> str:
    body = windows.body
    total = windows.reduced("ReduceSum", windows.chosen(windows.cells, windows.taps, np.zeros((), dtype)))
    if params.divisor_override is not None:
        return body.node("Div", total, body.constant(np.array(params.divisor_override, dtype)))
    real, inside = (windows.folded(mask).sum(axis=-1) for mask in (windows.real, windows.inside))
    if windows.there is None:
        count = np.maximum(inside if params.count_include_pad else real, 1)
        return body.node("Div", total, body.constant(count.astype(dtype)))
    seen = windows.reduced("ReduceSum", body.cast(windows.there, np.dtype(bool), dtype))
    more = (inside - real) * params.count_include_pad
    count_ = body.node("Max", body.node("Add", seen, body.constant(more.astype(dtype))), body.constant(np.ones((), dtype)))
    return body.node("Div", total, count_)


def smooth(windows: Windows, include: bool, beta: str, sign: float | None, dtype: DType) -> str:
    """(1/β)·log Σ exp(β·x), each cell less the one that weighs most. `sign` is that of β where it is a constant."""
    body, zero = windows.body, np.zeros((), dtype)
    present: str | Array = windows.cells
    if include:
        padded = windows.inside & ~windows.real
        present = windows.inside if windows.there is None else body.node("Or", windows.there, windows.mask(padded))
    taps = windows.chosen(windows.cells, windows.taps, zero)
    tops = []
    for positive in (True, False) if sign is None else (sign > 0,):
        worst = np.array(limit(dtype, not positive), dtype)
        kind = "ReduceMax" if positive else "ReduceMin"
        tops.append(windows.reduced(kind, windows.chosen(present, taps, worst), keep=True))
    top = tops[0] if sign is not None else body.node("Where", body.node("Greater", beta, body.constant(zero)), *tops)
    gap = body.node("Where", body.node("Equal", taps, top), body.constant(zero), body.node("Sub", taps, top))
    weights = windows.chosen(present, body.node("Exp", body.node("Mul", beta, gap)), zero)
    share = body.node("Div", body.node("Log", windows.reduced("ReduceSum", weights, keep=True)), beta)
    y = body.node("Squeeze", body.node("Add", top, share), windows.axes)
    return windows.chosen(windows.any_of(present), y, zero)


def norm(windows: Windows, params: LpParams, dtype: DType) -> str:
    """(Σ|x|^p)^(1/p), all cells divided by the greatest."""
    body, zero, one = windows.body, np.zeros((), dtype), np.ones((), dtype)
    sizes = body.node("Abs", windows.chosen(windows.cells, windows.taps, zero))
    if params.norm_type == 1:
        return windows.reduced("ReduceSum", sizes)
    top = windows.reduced("ReduceMax", sizes, keep=True)
    known = body.node("Where", body.node("Equal", sizes, top), body.constant(one), body.node("Div", sizes, top))
    power = body.node("Pow", known, body.constant(np.array(params.norm_type, dtype)))
    total = windows.reduced("ReduceSum", power, keep=True)
    root = body.node("Mul", top, body.node("Pow", total, body.constant(np.array(1 / params.norm_type, dtype))))
    return body.node("Squeeze", root, windows.axes)


# --- from a record to a body -------------------------------------------------------------------------------------


def reduction(
    body: Body, params: PoolParams, shape: Sequence[int], dtypes: tuple[DType, DType], inputs: Sequence[str], indices: bool
) -> list[str]:
    """The results of a reduction of an array of `shape`; `dtypes` are those of the array and of the result."""
    given, result = dtypes
    wide = np.dtype(np.float32) if result.itemsize == 2 else result
    if isinstance(params, MaxParams):  # a reduction of ONNX takes no bools and no integers of 16 bits
        wide = np.dtype(np.int32) if given.kind == "b" or given in (np.int16, np.uint16) else given
    x, *more = inputs
    where = more.pop() if params.where is not None else None
    rank = params.geometry.rank
    windows = Windows(body, params.geometry, body.cast(x, given, wide), shape[len(shape) - rank :], where)
    found: list[str]
    if isinstance(params, MaxParams):
        found = winner(windows, params, wide, indices)
    elif isinstance(params, MeanParams):
        found = [mean(windows, params, wide)]
    elif isinstance(params, SmoothParams):
        beta = float(params.beta)
        found = [smooth(windows, params.count_include_pad, body.constant(np.array(beta, wide)), math.copysign(1, beta), wide)]
    elif isinstance(params, SharpParams):
        (beta_,) = more
        beta_ = body.node(
            "Reshape",
            body.node("CastLike", beta_, windows.taps),
            body.integers(*(-1,) * (len(shape) > rank), *(1,) * (2 * rank)),
        )
        found = [smooth(windows, params.count_include_pad, beta_, None, wide)]
    else:
        assert isinstance(params, LpParams)
        found = [norm(windows, params, wide)]
    found = [windows.finished(each) for each in found]
    return [body.cast(found[0], wide, result), *found[1:]]
