"""The meaning a second time, as naively as it can be said: every cell of every window looked at one by one.

Nothing here uses the geometry's tables or the specification; it is what both are compared with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from windowgrad.geometry import Adaptive, Geometry, Sliding
from windowgrad.params import MinParams, SmoothParams

Place = tuple[int, ...]


# --- which cells -------------------------------------------------------------------------------------------------


def starts(n: int, k: int, s: int, lo: int, hi: int, d: int, ceil: bool) -> list[int]:
    """Where windows start in the padded input: those that fit; with ceil also one that sticks out, if it starts in time."""
    total, span = n + lo + hi, d * (k - 1) + 1
    found = [t for t in range(0, total, s) if t + span <= total]
    if ceil and found and found[-1] + span < total:
        found.append(found[-1] + s)
    if ceil and found and found[-1] >= n + lo:
        found.pop()
    return found


def line(geometry: Geometry, axis: int, n: int) -> list[list[int | str]]:
    """For each output of an axis its cells: the number of a real one, "pad" or "overhang"."""
    if isinstance(geometry, Sliding):
        k, s, d, (lo, hi) = (getattr(geometry, name)[axis] for name in ("kernel", "stride", "dilation", "padding"))
        padded = ["pad"] * lo + list(range(n)) + ["pad"] * hi
        read = dict(enumerate(padded))
        found = starts(n, k, s, lo, hi, d, geometry.ceil_mode[axis])
        return [[read.get(t + j * d, "overhang") for j in range(k)] for t in found]
    m = (geometry.output_size[axis] or n) if isinstance(geometry, Adaptive) else 1
    return [list(range(math.floor(Fraction(i * n, m)), math.ceil(Fraction((i + 1) * n, m)))) for i in range(m)]


def regions(geometry: Geometry, spatial: Sequence[int]) -> Iterator[tuple[Place, list[Place], int]]:
    """(output, its real cells in row-major order, how many of its cells are padding)."""
    lines = [line(geometry, axis, n) for axis, n in enumerate(spatial)]
    for o in itertools.product(*(range(len(side)) for side in lines)):
        cells = list(itertools.product(*(side[i] for side, i in zip(lines, o, strict=True))))
        inside = [cell for cell in cells if "overhang" not in cell]
        real = [cell for cell in inside if "pad" not in cell]
        yield (o if geometry.grid(spatial) else ()), real, len(inside) - len(real)


def pooled(params: Any, x: Any, value: Any) -> Any:
    """`value(real cells, padded count)` of every window of every leading place; cells are places in x."""
    rank = params.geometry.rank
    lead, spatial = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    y = np.empty(lead + tuple(params.geometry.grid(spatial)), dtype=object)
    for n in np.ndindex(*lead):
        for o, real, padded in regions(params.geometry, spatial):
            y[n + o] = value([n + cell for cell in real], padded)
    return y


# --- what is done with them --------------------------------------------------------------------------------------


def tops(params: Any, x: Any, real: list[Place]) -> list[Place]:
    """All cells that are greatest, or least: the NaN ones if there are any."""
    nans = [cell for cell in real if x[cell] != x[cell]]
    if isinstance(params, MinParams):
        return nans or [cell for cell in real if all(x[cell] <= x[other] for other in real)]
    return nans or [cell for cell in real if all(x[cell] >= x[other] for other in real)]


def max_forward(params: Any, x: Any) -> Any:
    return pooled(params, x, lambda real, _: x[tops(params, x, real)[0]] if real else 0)


def max_index(params: Any, x: Any) -> Any:
    sizes = x.shape[x.ndim - params.geometry.rank :]

    def flat(cell: Place) -> int:
        return sum(i * math.prod(sizes[a + 1 :]) for a, i in enumerate(cell[len(cell) - len(sizes) :]))

    return pooled(params, x, lambda real, _: flat(tops(params, x, real)[0]) if real else -1)


def max_jvp(params: Any, x: Any, dx: Any) -> Any:
    def value(real: list[Place], _: int) -> Any:
        best = [dx[cell] for cell in tops(params, x, real)]
        if not best:
            return 0
        return {"first": best[0], "all": sum(best), "split": sum(best) / Fraction(len(best))}[params.ties]

    return pooled(params, x, value)


def divisor(params: Any, real: int, padded: int) -> int:
    """What the mean of a window with a real cell divides by; 1 where it has none, and the sum is 0."""
    count = real + padded if params.count_include_pad else real
    return params.divisor_override or max(count, 1)


def mean_forward(params: Any, x: Any) -> Any:
    def value(real: list[Place], padded: int) -> Any:
        return sum(x[cell] for cell in real) / Fraction(divisor(params, len(real), padded))

    return pooled(params, x, value)


def smooth_forward(params: Any, x: Any) -> Any:
    """The plain formula, for scalars with `exp` and `ln` that do not overflow."""

    def value(real: list[Place], padded: int) -> Any:
        terms = [(params.beta * x[cell]).exp() for cell in real] + [1] * (padded if params.count_include_pad else 0)
        return sum(terms, start=type(x.flat[0])(0)).ln() / params.beta if terms else 0

    return pooled(params, x, value)


def lp_forward(params: Any, x: Any) -> Any:
    """The plain formula, for scalars with `**` that do not overflow."""

    def value(real: list[Place], _: int) -> Any:
        p = type(x.flat[0])(params.norm_type)
        return sum((abs(x[cell]) ** p for cell in real), start=type(p)(0)) ** (1 / p) if real else 0

    return pooled(params, x, value)


def sharp_forward(params: Any, x: Any, beta: Any) -> Any:
    """Channel by channel with a number."""
    channel = x.ndim - params.geometry.rank - 1
    numbers = np.broadcast_to(beta, x.shape[channel : channel + 1]) if beta.ndim else beta.reshape(1)
    records = [SmoothParams(params.geometry, number, params.count_include_pad) for number in numbers]
    if not beta.ndim:
        return smooth_forward(records[0], x)
    return np.stack([smooth_forward(one, x.take(c, channel)) for c, one in enumerate(records)], channel)


def conv_forward(params: Any, x: Any, w: Any, bias: Any = None) -> Any:
    """Each output from its own cells: a padded one, or one past the end, is a zero."""
    window, outs = params.window, w.shape[0] // params.groups
    batch, spatial = x.shape[: x.ndim - window.rank - 1], x.shape[x.ndim - window.rank :]
    lines = [line(window, axis, n) for axis, n in enumerate(spatial)]
    y = np.empty((*batch, w.shape[0], *map(len, lines)), dtype=object)
    for i in np.ndindex(*y.shape):
        n, channel, o = i[: len(batch)], i[len(batch)], i[len(batch) + 1 :]
        y[i] = 0 if bias is None else bias[channel]
        for c, *place in np.ndindex(*w.shape[1:]):
            cell = tuple(side[a][j] for side, a, j in zip(lines, o, place, strict=True))
            if all(isinstance(index, int) for index in cell):
                y[i] += w[channel, c, *place] * x[*n, channel // outs * w.shape[1] + c, *cell]
    return y


def transpose_forward(params: Any, x: Any, w: Any, bias: Any = None) -> Any:
    """Each input paints the kernel at its stride onto a canvas; the padding is cut off, output_padding left on at the end."""
    window, rank = params.window, params.window.rank
    batch, spatial, ins = x.shape[: x.ndim - rank - 1], x.shape[x.ndim - rank :], w.shape[0] // params.groups
    sides = zip(spatial, window.kernel, window.stride, window.dilation, params.output_padding, strict=True)
    canvas = np.full((*batch, w.shape[1] * params.groups, *((n - 1) * s + d * (k - 1) + 1 + e for n, k, s, d, e in sides)), 0)
    canvas = canvas.astype(object)
    for i in np.ndindex(*x.shape):
        n, channel, cell = i[: len(batch)], i[len(batch)], i[len(batch) + 1 :]
        for c, *place in np.ndindex(*w.shape[1:]):
            at = tuple(a * s + j * d for a, s, j, d in zip(cell, window.stride, place, window.dilation, strict=True))
            canvas[*n, channel // ins * w.shape[1] + c, *at] += x[i] * w[channel, c, *place]
    kept = [slice(lo, size - hi) for size, (lo, hi) in zip(canvas.shape[canvas.ndim - rank :], window.padding, strict=True)]
    y = canvas[..., *kept]
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


def pad_forward(params: Any, x: Any) -> Any:
    return np.pad(x, ((0, 0),) * (x.ndim - len(params.padding)) + params.padding, constant_values=0)


def extend_forward(params: Any, x: Any) -> Any:
    """NumPy's own: for objects too, and as often around as needed."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    options = {"constant_values": params.value} if params.mode == "constant" else {}
    return np.pad(x, ((0, 0),) * (x.ndim - len(params.padding)) + params.padding, modes[params.mode], **options)


def unpool_forward(params: Any, x: Any, indices: Any) -> Any:
    """Plane by plane onto a flat canvas, one cell after the other."""
    rank = params.window.rank
    lead, out = x.shape[: x.ndim - rank], params.out_shape(x.shape, indices.shape)
    y = np.full(out, 0).astype(object).reshape(*lead, -1)
    for n in np.ndindex(*lead):
        for value, index in zip(x[n].flat, indices[n].flat, strict=True):
            if index >= 0:
                y[(*n, index)] = y[(*n, index)] + value if params.duplicates == "add" else value
    return y.reshape(out)


def unpad_forward(params: Any, x: Any) -> Any:
    for axis, (lo, hi) in enumerate(params.padding, start=x.ndim - len(params.padding)):
        x = np.take(x, range(lo, x.shape[axis] - hi), axis=axis)
    return x


FORWARD = {
    "max_pool": max_forward,
    "min_pool": max_forward,
    "avg_pool": mean_forward,
    "smooth_max_pool": smooth_forward,
    "lp_pool": lp_forward,
    "sharp_smooth_max_pool": sharp_forward,
    "conv": conv_forward,
    "conv_transpose": transpose_forward,
    "pad": pad_forward,
    "extend": extend_forward,
    "max_unpool": unpool_forward,
    "unpad": unpad_forward,
}
