"""Pooling calls drawn at random, in every layout of memory, to be compared with one contiguous plane at a time, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.exact import DTYPES, FLOATS
from windowgrad.errors import WindowError
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, MaxParams, MeanParams, PoolParams, SmoothParams

Array = np.ndarray[Any, Any]

SIDES = {1: 60, 2: 24, 3: 9, 4: 6}
"""By rank: the longest axis."""

CHANNELS = (1, 1, 2, 3, 4, 5, 8, 9, 17)

STRANGE = (np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 1e-40, -0.0, 65504.0, 1e308, 5e-324)
"""What a plane may hold among ordinary numbers: values that overflow, that underflow, that are no numbers."""


# --- layouts -----------------------------------------------------------------------------------------------------


def permuted(a: Array, order: Any) -> Array:
    """The same array with its axes in another order in memory: `order[-1]` is the fastest."""
    return a.transpose(order).copy(order="C").transpose(np.argsort(order))


def stepped(a: Array, rng: np.random.Generator) -> Array:
    """Some cells of a larger array, forwards or backwards along each axis, other numbers between them."""
    steps = rng.choice([1, -1, 2, -3], a.ndim)
    larger = np.full([n * abs(s) for n, s in zip(a.shape, steps, strict=True)], 99, a.dtype)
    view = larger[tuple(slice(None, None, s) for s in steps)]
    view[...] = a
    return view


def unaligned(a: Array) -> Array:
    """At an odd address."""
    raw = np.zeros(a.nbytes + 1, np.uint8)
    view = raw[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


LAYOUTS: dict[str, Callable[[Array, int, np.random.Generator], Array]] = {
    "contiguous": lambda a, rank, rng: a.copy(),
    "Fortran": lambda a, rank, rng: a.copy(order="F"),
    "channels last": lambda a, rank, rng: channels_last(a, rank),
    "channels last, backwards": lambda a, rank, rng: np.flip(channels_last(np.flip(a).copy(), rank)),
    "permuted": lambda a, rank, rng: permuted(a, rng.permutation(a.ndim)),
    "stepped": lambda a, rank, rng: stepped(a, rng),
    "unaligned": lambda a, rank, rng: unaligned(a),
    "byte-swapped": lambda a, rank, rng: a.astype(a.dtype.newbyteorder()) if a.dtype.name != "bfloat16" else a,
}


def channels_last(a: Array, rank: int) -> Array:
    """The axis before the last `rank` ones is the fastest in memory; there may be none."""
    channel = a.ndim - rank - 1
    return a if channel < 0 else np.moveaxis(np.ascontiguousarray(np.moveaxis(a, channel, -1)), -1, channel)


# --- calls -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """An operator, its parameters, and all arrays of its rules, contiguous."""

    op: str
    params: PoolParams
    x: Array
    dx: Array
    g: Array

    @property
    def rank(self) -> int:
        return self.params.geometry.rank

    def results(self, x: Array, dx: Array, g: Array) -> list[Array]:
        """Everything that the operator computes."""
        op, params = OPS[self.op], self.params
        indices = op.with_indices(params, x) if op.with_indices else ()
        return [op.forward(params, x), op.jvp(params, x, dx), *op.vjp(params, x, g), *indices]

    def by_planes(self) -> list[Array]:
        """The results of one contiguous plane at a time."""
        lead = self.x.shape[: self.x.ndim - self.rank]
        planes = [a.reshape(-1, *a.shape[len(lead) :]) for a in (self.x, self.dx, self.g)]
        found = [self.results(*(np.array(a[i]) for a in planes)) for i in range(len(planes[0]))]
        return [np.stack(column).reshape((*lead, *column[0].shape)) for column in zip(*found, strict=True)]

    def laid_out(self, rng: np.random.Generator, names: tuple[str, str, str]) -> list[Array]:
        """x, dx and g, each in its layout."""
        given = zip((self.x, self.dx, self.g), names, strict=True)
        return [LAYOUTS[name](a, self.rank, rng) if a.ndim else a.copy() for a, name in given]


def settled(a: Array) -> bytes:
    """The bits of an array; every NaN counts as the same one."""
    a = np.array(a, order="C")
    if a.dtype in FLOATS:
        a[a != a] = np.nan
    return a.tobytes()


def drawn_axis(rng: np.random.Generator, n: int, last: bool) -> tuple[int, int, tuple[int, int], int, bool]:
    """(kernel, stride, padding, dilation, ceil_mode), with the strides and kernels that have kernels of their own."""
    kernel = int(rng.choice([1, 2, 2, 3, 3, 4, 5, 8, *([9, 11, 16] if last else [])]))
    stride = kernel if rng.random() < 0.25 else int(rng.choice([1, 1, 2, 2, 3, 5]))
    dilation = int(rng.choice([1, 1, 1, 2, 3]))
    low, high = (int(p) for p in rng.choice([0, 0, 1, 2, 5], 2))
    return min(kernel, n), stride, (low, high), dilation, bool(rng.random() < 0.3)


def drawn_geometry(rng: np.random.Generator, spatial: tuple[int, ...]) -> Geometry:
    rank, kind = len(spatial), rng.random()
    if kind < 0.12:
        return Global(rank, bool(rng.random() < 0.5))
    if kind < 0.3:
        return Adaptive(tuple(int(rng.integers(1, n + 2)) for n in spatial))
    sides = [drawn_axis(rng, n, axis == rank - 1) for axis, n in enumerate(spatial)]
    if kind < 0.4 and rank > 1:  # many rows that overlap: one axis after the other
        sides = [(min(13, n), 1, (1, 1), 1, False) for n in spatial[:-1]] + sides[-1:]
    kernel, stride, padding, dilation, ceil = zip(*sides, strict=True)
    return Sliding(kernel, stride, padding, dilation, ceil)


def drawn_params(rng: np.random.Generator, geometry: Geometry) -> tuple[str, PoolParams]:
    kind = rng.integers(3)
    if kind == 0:
        return "max_pool", MaxParams(geometry, str(rng.choice(TIES)))
    padded = bool(rng.random() < 0.5)
    if kind == 1:
        return "avg_pool", MeanParams(geometry, padded, [None, None, None, 7, 1 << 25][rng.integers(5)])
    return "smooth_max_pool", SmoothParams(geometry, [1, -2, 0.3, 40][rng.integers(4)], padded)


def drawn_cells(rng: np.random.Generator, shape: tuple[int, ...], rank: int, dtype: Any) -> Array:
    """Random numbers whose sums round; some planes have strange ones among them, the others must not notice."""
    if dtype not in FLOATS:
        return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    cells = np.asarray(rng.standard_normal(shape))
    if rng.random() < 0.3:  # ties
        cells = np.asarray(np.round(cells * 2) / 3)
    planes = cells.reshape(-1, max(1, math.prod(shape[len(shape) - rank :])))
    for plane in planes:
        if rng.random() < 0.2:
            plane[rng.integers(plane.size, size=1 + plane.size // 9)] = rng.choice(STRANGE)
    with np.errstate(over="ignore"):
        return cells.astype(dtype)


def drawn_call(rng: np.random.Generator) -> Call:
    while True:
        rank = int(rng.integers(1, 5))
        spatial = tuple(int(n) for n in rng.integers(1, SIDES[rank] + 1, rank))
        geometry = drawn_geometry(rng, spatial)
        lead = tuple(int(n) for n in rng.choice(CHANNELS, rng.integers(0, 4)))
        try:
            out = geometry.out_shape((*lead, *spatial))
        except WindowError:
            continue
        if math.prod(lead) * max(math.prod(spatial), math.prod(out[len(lead) :])) > 20_000:
            continue
        op, params = drawn_params(rng, geometry)
        dtype = DTYPES[rng.integers(len(DTYPES))] if rng.random() < 0.3 else np.dtype(rng.choice(["float32", "float64"]))
        other = FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.3 else dtype
        x = drawn_cells(rng, (*lead, *spatial), rank, dtype)
        dx, g = drawn_cells(rng, x.shape, rank, other), drawn_cells(rng, out, len(out) - len(lead), other)
        return Call(op, params, x, dx, g)
