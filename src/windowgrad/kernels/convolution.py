"""Convolution over gathered windows: three kernels (forward, input gradient, weight gradient), transposed by swapping roles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from windowgrad.arguments import counted
from windowgrad.errors import WindowError
from windowgrad.kernels.dtypes import conv_dtype, derivative_of, is_float, wide
from windowgrad.kernels.gather import BLOCK, Array, taps
from windowgrad.params import ConvParams, Shape, TransposeParams


class Grouped:
    """The convolution from shape `x` to shape `y`, its arrays seen as (batch, group, channel, cells).

    Products are summed by einsum, not by BLAS, whose sums depend on the number of threads.
    """

    def __init__(self, params: ConvParams, x: Shape, w: Shape, y: Shape) -> None:
        rank, batch = params.window.rank, math.prod(y[: len(y) - params.window.rank - 1])
        self.spatial, self.kernel, grid = x[len(x) - rank :], w[2:], y[len(y) - rank :]
        self.x = (batch, params.groups, w[1], math.prod(self.spatial))
        self.y = (batch, params.groups, w[0] // params.groups, math.prod(grid))
        self.w = (params.groups, w[0] // params.groups, w[1] * math.prod(self.kernel))
        tables = zip(params.window.tables(self.spatial), grid, strict=True)
        self.tables = [table.first(outputs) for table, outputs in tables]

    def taps(self) -> Iterator[tuple[slice, Array, Array]]:
        """For each place of the kernel: (its weights, outputs whose tap there is a real cell, those cells)."""
        room = max(1, BLOCK // max(1, math.prod(self.x[:3])))
        for place, outs, cells in taps(self.tables, self.spatial, self.kernel, room):
            yield slice(place, None, math.prod(self.kernel)), outs, cells

    def forward(self, x: Array, w: Array) -> Array:
        x, w, y = x.reshape(self.x), w.reshape(self.w), np.zeros(self.y, dtype=x.dtype)
        for place, outs, cells in self.taps():
            y[..., outs] += np.einsum("goc,ngcs->ngos", w[..., place], x[..., cells])
        return y

    def input_gradient(self, g: Array, w: Array) -> Array:
        g, w, gx = g.reshape(self.y), w.reshape(self.w), np.zeros(self.x, dtype=g.dtype)
        for place, outs, cells in self.taps():
            where: Any = (..., cells)
            np.add.at(gx, where, np.einsum("goc,ngos->ngcs", w[..., place], g[..., outs]))
        return gx

    def weight_gradient(self, x: Array, g: Array) -> Array:
        x, g, gw = x.reshape(self.x), g.reshape(self.y), np.zeros(self.w, dtype=g.dtype)
        for place, outs, cells in self.taps():
            gw[..., place] += np.einsum("ngos,ngcs->goc", g[..., outs], x[..., cells])
        return gw


class Transposed(Grouped):
    """The adjoint: what goes in is the convolution's output, what comes out its input."""

    def __init__(self, params: ConvParams, x: Shape, w: Shape, y: Shape) -> None:
        super().__init__(params, y, w, x)

    def forward(self, x: Array, w: Array) -> Array:
        return super().input_gradient(x, w)

    def input_gradient(self, g: Array, w: Array) -> Array:
        return super().forward(g, w)

    def weight_gradient(self, x: Array, g: Array) -> Array:
        return super().weight_gradient(g, x)


def grouped(params: ConvParams, x: Array, w: Array) -> Grouped:
    kind = Transposed if isinstance(params, TransposeParams) else Grouped
    return kind(params, x.shape, w.shape, params.out_shape(x.shape, w.shape))


def apply(params: ConvParams, x: Array, w: Array) -> Array:
    return grouped(params, x, w).forward(x, w).reshape(params.out_shape(x.shape, w.shape))


def per_channel(params: ConvParams, bias: Array) -> Array:
    return bias.reshape(-1, *(1,) * params.window.rank)


def conv_forward(params: ConvParams, x: Array, w: Array, *bias: Array) -> Array:
    dtype = conv_dtype(x.dtype, w.dtype, *(b.dtype for b in bias))
    if not is_float(dtype):
        refuse_overflow(params, dtype, x, w, *bias)
    x, w, *bias = (a.astype(np.float64 if is_float(dtype) else np.int64) for a in (x, w, *bias))  # type: ignore[assignment]
    y = apply(params, x, w)
    for b in bias:
        y += per_channel(params, b)
    return y.astype(dtype)


def refuse_overflow(params: ConvParams, dtype: Any, x: Array, w: Array, *bias: Array) -> None:
    """Integers are summed exactly: if a sum might not fit, it is refused."""
    terms = w.size // max(1, w.shape[0] if not isinstance(params, TransposeParams) else w.shape[1])
    most = [max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0 for a in (x, w, *bias)]
    bound = terms * most[0] * most[1] + sum(most[2:])
    if bound > np.iinfo(dtype).max:
        raise WindowError(
            f"x: {x.dtype} and weight: {w.dtype}: a sum of {counted('product', terms)} may reach {bound}, "
            f"more than {dtype} holds; use floats, or x.astype(object) for exact integers of any size"
        )


def conv_jvp(params: ConvParams, *args: Array) -> Array:
    half = len(args) // 2
    x, w, dx, dw = (wide(a) for a in (*args[:2], *args[half : half + 2]))
    dy = apply(params, dx, w) + apply(params, x, dw)
    for db in args[half + 2 :]:
        dy += per_channel(params, wide(db))
    primal = conv_dtype(*(a.dtype for a in args[:half]))
    return dy.astype(derivative_of(primal, np.result_type(*(a.dtype for a in args[half:]))))


def conv_vjp(params: ConvParams, *args: Array) -> tuple[Array, ...]:
    *primals, g = args
    x, w, wide_g = wide(primals[0]), wide(primals[1]), wide(g)
    conv = grouped(params, x, w)
    gradients = [conv.input_gradient(wide_g, w), conv.weight_gradient(x, wide_g)]
    if len(primals) == 3:
        channel = g.ndim - params.window.rank - 1
        gradients.append(wide_g.sum(axis=tuple(a for a in range(g.ndim) if a != channel)))
    pairs = zip(gradients, primals, strict=True)
    return tuple(gradient.reshape(p.shape).astype(derivative_of(p.dtype, g.dtype)) for gradient, p in pairs)
