"""The meaning once more, for arrays that the specification takes too long for: every window gathered at once by NumPy.

Nothing here uses the geometry's tables or the kernels. Sums are taken in float64, so they are exact for small whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from support.exact import derivative_dtype, forward_dtype, mean_dtype
from support.oracle import starts
from windowgrad.geometry import Adaptive, Geometry, Sliding
from windowgrad.params import TransposeParams

Array = Any
PAD, OVERHANG = -1, -2  # in place of a cell


def axis_cells(geometry: Geometry, axis: int, n: int, outputs: int | None = None) -> Array:
    """(output, tap) -> the cell on one axis, PAD or OVERHANG. `outputs` is how many there are, if not all that fit."""
    if isinstance(geometry, Sliding):
        k, s, d, (lo, hi) = (getattr(geometry, name)[axis] for name in ("kernel", "stride", "dilation", "padding"))
        count = len(starts(n, k, s, lo, hi, d, geometry.ceil_mode[axis])) if outputs is None else outputs
        cells = np.arange(count)[:, None] * s + np.arange(k) * d - lo
        return np.where(cells >= n + hi, OVERHANG, np.where((cells < 0) | (cells >= n), PAD, cells))
    m = (geometry.output_size[axis] or n) if isinstance(geometry, Adaptive) else 1
    first, last = np.arange(m) * n // m, -(-np.arange(1, m + 1) * n // m)
    cells = first[:, None] + np.arange((last - first).max())
    return np.where(cells < last[:, None], cells, OVERHANG)


def window_cells(geometry: Geometry, spatial: Sequence[int], grid: Sequence[int] | None = None) -> Array:
    """(output, tap) -> the cell of the plane, both in row-major order; PAD, or OVERHANG where any axis is past the padding."""
    found = np.zeros((1, 1), np.int64)
    for axis, n in enumerate(spatial):
        cells = axis_cells(geometry, axis, n, None if grid is None else grid[axis])[None, :, None, :]
        before = found[:, None, :, None]
        joined = np.where((before < 0) | (cells < 0), np.minimum(np.minimum(before, cells), PAD), before * n + cells)
        found = joined.reshape(joined.shape[0] * joined.shape[1], -1)
    return found


def comparable(x: Array) -> Array:
    """The same numbers in a dtype that NumPy compares."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def scattered(cells: Array, amounts: Array, size: int) -> Array:
    """For each plane the sum of the amounts of (output, tap) at their cells."""
    planes = len(amounts)
    at = np.where(cells >= 0, cells, size) + np.arange(planes)[:, None, None] * (size + 1)
    total = np.bincount(at.ravel(), amounts.astype(np.float64).ravel(), planes * (size + 1))
    return total.reshape(planes, size + 1)[:, :size]


class Pooling:
    """One pooling of one array: planes and windows gathered."""

    def __init__(self, params: Any, x: Array) -> None:
        rank = params.geometry.rank
        self.params, self.x, self.spatial = params, x, x.shape[x.ndim - rank :]
        self.cells = window_cells(params.geometry, self.spatial)
        self.real, self.out_shape = self.cells >= 0, params.out_shape(x.shape)
        self.planes = math.prod(x.shape[: x.ndim - rank])
        if params.where is not None:  # (plane, output, tap), as a mask may differ from plane to plane
            self.real = self.real & self.seen(np.broadcast_to(params.where.array, x.shape))

    def seen(self, array: Array) -> Array:
        """(plane, output, tap) -> the cell's entry; that of cell 0 where there is no cell."""
        flat = array.reshape(self.planes, math.prod(self.spatial))
        return flat[:, np.maximum(self.cells, 0)]

    def outputs(self, array: Array) -> Array:
        return array.reshape(self.planes, len(self.cells))

    def spread(self, amounts: Array) -> Array:
        return scattered(self.cells, amounts, math.prod(self.spatial)).reshape(self.x.shape)


class Maximum(Pooling):
    def __init__(self, params: Any, x: Array) -> None:
        super().__init__(params, x)
        values = self.seen(comparable(x))
        nan = values != values
        best = values == self.best(values, self.real & ~nan)
        has_nan = (nan & self.real).any(-1, keepdims=True)
        self.tops = np.where(has_nan, nan, best) & self.real
        self.first, self.some = self.tops.argmax(-1)[..., None], self.tops.any(-1)

    def best(self, values: Array, seen: Array) -> Array:
        """The greatest value of each window; that of a window without a cell does not matter."""
        least = np.array(-np.inf if values.dtype.kind == "f" else 0 if values.dtype.kind == "b" else np.iinfo(values.dtype).min)
        return np.where(seen, values, least.astype(values.dtype)).max(-1, keepdims=True)

    def at_first(self, entries: Array) -> Array:
        return np.take_along_axis(entries, self.first, -1)[..., 0]

    def forward(self) -> Array:
        found = self.at_first(self.seen(self.x))
        return np.where(self.some, found, np.zeros((), self.x.dtype)).astype(self.x.dtype).reshape(self.out_shape)

    def index(self) -> Array:
        cells = np.broadcast_to(self.cells, self.tops.shape)
        return np.where(self.some, self.at_first(cells), -1).astype(np.int64).reshape(self.out_shape)

    def shares(self) -> Array:
        """How many get the derivative of each output."""
        return np.maximum(self.tops.sum(-1), 1) if self.params.ties == "split" else np.ones_like(self.some, np.int64)

    def getting(self) -> Array:
        """Who gets it."""
        return np.arange(self.tops.shape[-1]) == self.first if self.params.ties == "first" else self.tops

    def jvp(self, dx: Array) -> Array:
        tangents = np.where(self.getting() & self.tops, self.seen(dx.astype(np.float64)), 0)
        return (tangents.sum(-1) / self.shares()).reshape(self.out_shape)

    def vjp(self, g: Array) -> Array:
        amounts = (self.outputs(g.astype(np.float64)) / self.shares())[..., None]
        return self.spread(np.where(self.getting() & self.tops, amounts, 0))


class Minimum(Maximum):
    def best(self, values: Array, seen: Array) -> Array:
        most = np.array(np.inf if values.dtype.kind == "f" else 1 if values.dtype.kind == "b" else np.iinfo(values.dtype).max)
        return np.where(seen, values, most.astype(values.dtype)).min(-1, keepdims=True)


class Mean(Pooling):
    def __init__(self, params: Any, x: Array) -> None:
        super().__init__(params, x)
        count = self.real.sum(-1) + ((self.cells == PAD).sum(-1) if params.count_include_pad else 0)
        self.divisor = np.maximum(count, 1) if params.divisor_override is None else np.full_like(count, params.divisor_override)

    def shares(self) -> Array:
        return np.broadcast_to(self.divisor, (self.planes, len(self.cells)))

    def forward(self) -> Array:
        return self.jvp(self.x)

    def jvp(self, dx: Array) -> Array:
        total = np.where(self.real, self.seen(dx.astype(np.float64)), 0).sum(-1)
        return (total / self.divisor).reshape(self.out_shape)

    def vjp(self, g: Array) -> Array:
        amounts = (self.outputs(g.astype(np.float64)) / self.divisor)[..., None]
        return self.spread(np.where(self.real, amounts, 0))


class Smooth(Pooling):
    """With rounding errors of float64."""

    def __init__(self, params: Any, x: Array) -> None:
        super().__init__(params, x)
        scaled = np.where(self.real, float(params.beta) * self.seen(x.astype(np.float64)), -np.inf)
        pads = (self.cells == PAD).sum(-1) if params.count_include_pad else np.zeros(len(self.cells), int)
        self.top = np.maximum(scaled.max(-1), np.where(pads > 0, 0.0, -np.inf))
        self.some = self.top > -np.inf
        shift = np.where(self.some, self.top, 0.0)
        self.weights = np.exp(scaled - shift[..., None])
        self.total = self.weights.sum(-1) + np.where(pads > 0, pads * np.exp(-shift), 0.0)
        self.weights = self.weights / np.where(self.some, self.total, 1.0)[..., None]
        self.shift = shift

    def forward(self) -> Array:
        value = (self.shift + np.log(np.where(self.some, self.total, 1.0))) / float(self.params.beta)
        return np.where(self.some, value, 0.0).reshape(self.out_shape)

    def jvp(self, dx: Array) -> Array:
        return (self.weights * self.seen(dx.astype(np.float64))).sum(-1).reshape(self.out_shape)

    def vjp(self, g: Array) -> Array:
        return self.spread(self.weights * self.outputs(g.astype(np.float64))[..., None])


class Norm(Pooling):
    """With rounding errors of float64."""

    def __init__(self, params: Any, x: Array) -> None:
        super().__init__(params, x)
        cells = np.where(self.real, self.seen(x.astype(np.float64)), 0.0)
        self.top = abs(cells).max(-1, initial=0.0)
        ratios = cells / np.where(self.top > 0, self.top, 1.0)[..., None]
        self.norm = (abs(ratios) ** params.norm_type).sum(-1) ** (1 / params.norm_type)
        scale = np.where(self.norm > 0, self.norm, 1.0)[..., None]
        self.weights = np.sign(ratios) * (abs(ratios) / scale) ** (params.norm_type - 1)

    def forward(self) -> Array:
        return (self.top * self.norm).reshape(self.out_shape)

    def jvp(self, dx: Array) -> Array:
        return (self.weights * np.where(self.real, self.seen(dx.astype(np.float64)), 0.0)).sum(-1).reshape(self.out_shape)

    def vjp(self, g: Array) -> Array:
        return self.spread(self.weights * self.outputs(g.astype(np.float64))[..., None])


class Convolution:
    """From `x` to `y`; transposed, with their roles swapped."""

    def __init__(self, params: Any, x: Sequence[int], w: Sequence[int], y: Sequence[int]) -> None:
        rank, self.groups = params.window.rank, params.groups
        self.x, self.w, self.y = tuple(x), tuple(w), tuple(y)
        spatial, grid = x[len(x) - rank :], y[len(y) - rank :]
        self.cells, self.size = window_cells(params.window, spatial, grid), math.prod(spatial)
        self.images, self.outs, self.ins = math.prod(x[: len(x) - rank - 1]), w[0] // self.groups, w[1]

    def windows(self, x: Array) -> Array:
        """(image, group, channel and tap, output)."""
        flat = x.astype(np.float64).reshape(self.images, self.groups, self.ins, self.size)
        padded = np.concatenate([flat, np.zeros((*flat.shape[:3], 1))], -1)
        seen = padded[..., np.where(self.cells >= 0, self.cells, self.size).T]
        return seen.reshape(self.images, self.groups, self.ins * seen.shape[3], len(self.cells))

    def weights(self, w: Array) -> Array:
        return w.astype(np.float64).reshape(self.groups, self.outs, -1)

    def outputs(self, y: Array) -> Array:
        return y.astype(np.float64).reshape(self.images, self.groups, self.outs, len(self.cells))

    def forward(self, x: Array, w: Array) -> Array:
        return (self.weights(w) @ self.windows(x)).reshape(self.y)

    def input_gradient(self, g: Array, w: Array) -> Array:
        pulled = np.swapaxes(self.weights(w), 1, 2) @ self.outputs(g)
        planes = pulled.reshape(-1, self.cells.shape[1], len(self.cells))
        return scattered(self.cells, np.swapaxes(planes, 1, 2), self.size).reshape(self.x)

    def weight_gradient(self, x: Array, g: Array) -> Array:
        return (self.outputs(g) @ np.swapaxes(self.windows(x), 2, 3)).sum(0).reshape(self.w)


def convolution(params: Any, x: Array, w: Array) -> tuple[Any, Any, Any]:
    """(forward, input gradient, weight gradient)."""
    y = params.out_shape(x.shape, w.shape)
    if not isinstance(params, TransposeParams):
        conv = Convolution(params, x.shape, w.shape, y)
        return conv.forward, conv.input_gradient, conv.weight_gradient
    conv = Convolution(params, y, w.shape, x.shape)
    return conv.input_gradient, conv.forward, lambda x, g: conv.weight_gradient(g, x)


POOLINGS = {"max_pool": Maximum, "min_pool": Minimum, "avg_pool": Mean, "smooth_max_pool": Smooth, "lp_pool": Norm}


def of_pooling(name: str, rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    made = POOLINGS[name](params, arrays[0])
    if rule == "with_indices":
        return [made.forward(), made.index()]
    return [getattr(made, rule)(*arrays[1:])]


def of_convolution(rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    inputs = len(arrays) // 2 if rule == "jvp" else len(arrays) - (rule == "vjp")
    (x, w), bias, rest = arrays[:2], arrays[2:inputs], arrays[inputs:]
    forward, input_gradient, weight_gradient = convolution(params, x, w)
    column = (-1, *(1,) * params.window.rank)
    if rule == "vjp":
        (g,) = rest
        others = tuple(axis for axis in range(g.ndim) if axis != g.ndim - params.window.rank - 1)
        sums = [g.astype(np.float64).sum(others)] * len(bias)
        return [input_gradient(g, w), weight_gradient(x, g), *sums]
    if rule == "jvp":
        (dx, dw), dbias = rest[:2], rest[2:]
        return [forward(dx, w) + forward(x, dw) + sum(b.astype(np.float64).reshape(column) for b in dbias)]
    return [forward(x, w) + sum(b.astype(np.float64).reshape(column) for b in bias)]


def of_padding(name: str, rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    pads, array = (name == "pad") != (rule == "vjp"), arrays[-1]
    lead = array.ndim - len(params.padding)
    if pads:
        return [np.pad(array, ((0, 0),) * lead + params.padding)]
    return [array[..., *(slice(lo, n - hi) for n, (lo, hi) in zip(array.shape[lead:], params.padding, strict=True))]]


def of_extension(rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    """By the flat index of the cell that is seen at each place, −1 for the constant."""
    x, shown = arrays[0], {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    index = np.arange(x.size).reshape(x.shape)
    widths = ((0, 0),) * (x.ndim - len(params.padding)) + params.padding
    constant = {"constant_values": -1} if params.mode == "constant" else {}
    index = np.pad(index, widths, shown.get(params.mode, "constant"), **constant).reshape(-1)
    if rule == "vjp":
        total, inside = np.zeros(x.size, dtype=np.float64), index >= 0
        np.add.at(total, index[inside], arrays[-1].reshape(-1).astype(np.float64)[inside])
        return [total.reshape(x.shape)]
    cells = arrays[-1].reshape(-1)
    around = np.array([params.value if rule == "forward" else 0]).astype(cells.dtype)
    return [np.concatenate([cells, around])[index].reshape(params.out_shape(x.shape))]


def of_unpooling(rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    """Cell by cell, in row-major order, of all planes at once."""
    (x, indices), out = arrays[:2], params.out_shape(arrays[0].shape, arrays[0].shape)
    lead = x.ndim - params.window.rank
    planes, size = math.prod(out[:lead]), math.prod(out[lead:])
    places = np.where(indices < 0, size, indices).reshape(planes, math.prod(x.shape[lead:]))
    rows, moved = np.arange(planes), arrays[-1] if rule == "vjp" else arrays[2] if rule == "jvp" else x
    wide = moved.astype(np.float64) if rule != "forward" or moved.dtype.kind not in "biu" else moved
    if rule != "vjp":
        cells, y = wide.reshape(places.shape), np.zeros((planes, size + 1), wide.dtype)
        for i in range(places.shape[1]):
            y[rows, places[:, i]] = cells[:, i] + (y[rows, places[:, i]] if params.duplicates == "add" else 0)
        return [y[:, :size].reshape(out)]
    given = np.concatenate([wide.reshape(planes, size), np.zeros((planes, 1))], axis=1)
    gx, taken = np.zeros(places.shape), np.zeros((planes, size + 1), bool)
    for i in reversed(range(places.shape[1])):
        kept = ~taken[rows, places[:, i]] | (params.duplicates == "add")
        gx[:, i] = np.where(kept, given[rows, places[:, i]], 0)
        taken[rows, places[:, i]] = True
    return [gx.reshape(x.shape), np.zeros(x.shape)]


def of_normalisation(rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    """With rounding errors of float64."""
    x, weight, bias, *rest = (array.astype(np.float64) for array in arrays)
    axes, beside = params.others(x.shape), params.beside(x.shape)
    root = 1 / np.sqrt(x.var(axes, keepdims=True) + params.eps)
    normal = (x - x.mean(axes, keepdims=True)) * root
    if rule == "forward":
        return [normal * weight.reshape(beside) + bias.reshape(beside)]
    (g,) = rest
    v = g * weight.reshape(beside)
    gx = (v - v.mean(axes, keepdims=True) - normal * (normal * v).mean(axes, keepdims=True)) * root
    return [gx, (g * normal).sum(axes), g.sum(axes)]


def expected(name: str, rule: str, params: Any, arrays: Sequence[Array]) -> list[Array]:
    """What a rule of an operator gives, in the dtype it has, rounded once."""
    if name in POOLINGS:
        found = of_pooling(name, rule, params, arrays)
    elif name == "extend":
        found = of_extension(rule, params, arrays)
    elif name in ("pad", "unpad"):
        found = of_padding(name, rule, params, arrays)
    elif name == "max_unpool":
        found = of_unpooling(rule, params, arrays)
    elif name == "batch_norm":
        found = of_normalisation(rule, params, arrays)
    elif name == "relu":
        found = [np.where(comparable(arrays[0]) <= 0, np.zeros((), arrays[-1].dtype), arrays[-1])]
    else:
        found = of_convolution(rule, params, arrays)
    with np.errstate(all="ignore"):
        return [one.astype(dtype) for one, dtype in zip(found, result_dtypes(name, rule, arrays), strict=True)]


def result_dtypes(name: str, rule: str, arrays: Sequence[Array]) -> list[Any]:
    """All inputs have one dtype here, and all tangents another."""
    own, last = arrays[0].dtype, arrays[-1].dtype
    if name == "relu":
        return [last]
    if name == "batch_norm":
        return [mean_dtype(own)] * (3 if rule == "vjp" else 1)
    if name == "max_unpool" and rule != "forward":
        last = arrays[2].dtype
        return [derivative_dtype(own, last), *([mean_dtype(last)] if rule == "vjp" else [])]
    result = forward_dtype(name, own)
    if rule == "with_indices":
        return [result, np.dtype(np.int64)]
    if rule == "jvp":
        return [derivative_dtype(result, last)]
    return [derivative_dtype(own, last)] * (len(arrays) - 1) if rule == "vjp" else [result]
