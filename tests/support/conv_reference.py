"""Convolution a third time, for sizes at which the specification takes too long: whole numbers, by places of the kernel.

Every product and sum is exact in float64, so BLAS may add them in any order. Small cases show that it is the specification.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from windowgrad.params import ConvParams, TransposeParams

Array = Any


class Plain:
    """The convolution from shape `x` to shape `y`. Input and output are seen as (batch, group, channel, *space)."""

    def __init__(self, params: ConvParams, x: Any, w: Any, y: Any) -> None:
        window, groups, rank = params.window, params.groups, params.window.rank
        self.batch, self.groups, self.w = math.prod(x[: len(x) - rank - 1]), groups, w
        self.window, self.spatial, self.grid = window, x[len(x) - rank :], y[len(y) - rank :]
        sides = zip(self.spatial, self.grid, window.kernel, window.stride, window.padding, window.dilation, strict=True)
        self.around = [(lo, max(hi, (m - 1) * s + d * (k - 1) + 1 - n - lo)) for n, m, k, s, (lo, hi), d in sides]

    def split(self, array: Array, channels: int) -> Array:
        return array.reshape(self.batch, self.groups, channels // self.groups, *array.shape[array.ndim - self.window.rank :])

    def padded(self, x: Array) -> Array:
        return np.pad(self.split(x, self.w[1] * self.groups), ((0, 0),) * 3 + tuple(self.around))

    def places(self) -> Iterator[tuple[Any, Any]]:
        """(the index of the weights at a place of the kernel, the index of the padded cells they meet)."""
        for place in np.ndindex(*self.window.kernel):
            sides = zip(place, self.window.dilation, self.window.stride, self.grid, strict=True)
            yield (..., *place), (..., *(slice(p * d, p * d + s * (m - 1) + 1, s) for p, d, s, m in sides))

    def weights(self, w: Array) -> Array:
        return w.reshape(self.groups, -1, *w.shape[1:])

    def forward(self, x: Array, w: Array) -> Array:
        x, w, y = self.padded(x), self.weights(w), 0
        for place, cells in self.places():
            y = y + np.einsum("goc,ngc...->ngo...", w[place], x[cells], optimize=True)
        return y

    def input_gradient(self, g: Array, w: Array) -> Array:
        g, w = self.split(g, self.w[0]), self.weights(w)
        gx = np.zeros(
            (self.batch, self.groups, self.w[1], *(n + sum(s) for n, s in zip(self.spatial, self.around, strict=True)))
        )
        for place, cells in self.places():
            gx[cells] += np.einsum("goc,ngo...->ngc...", w[place], g, optimize=True)
        return gx[..., *(slice(lo, lo + n) for n, (lo, _) in zip(self.spatial, self.around, strict=True))]

    def weight_gradient(self, x: Array, g: Array) -> Array:
        x, g = self.padded(x), self.split(g, self.w[0])
        gw = np.zeros((self.groups, self.w[0] // self.groups, *self.w[1:]))
        flat = g.reshape(*g.shape[:3], -1)
        for place, cells in self.places():
            seen = x[cells].reshape(*x.shape[:3], -1)
            gw[place] = np.einsum("ngos,ngcs->goc", flat, seen, optimize=True)
        return gw


def plain(params: ConvParams, x: Array, w: Array) -> tuple[Any, Any, Any]:
    """(forward, input gradient, weight gradient): those of the convolution, or with the roles of input and output swapped."""
    y = params.out_shape(x.shape, w.shape)
    if not isinstance(params, TransposeParams):
        conv = Plain(params, x.shape, w.shape, y)
        return conv.forward, conv.input_gradient, conv.weight_gradient
    conv = Plain(params, y, w.shape, x.shape)
    return conv.input_gradient, conv.forward, lambda x, g: conv.weight_gradient(g, x)


def per_channel(params: ConvParams, bias: Array) -> Array:
    return bias.reshape(-1, *(1,) * params.window.rank)


def forward(params: ConvParams, *inputs: Array) -> Array:
    x, w, *bias = (array.astype(np.float64) for array in inputs)
    apply, _, _ = plain(params, x, w)
    y = apply(x, w).reshape(params.out_shape(x.shape, w.shape))
    return y + per_channel(params, bias[0]) if bias else y


def jvp(params: ConvParams, *arrays: Array) -> Array:
    (x, w, *_), (dx, dw, *dbias) = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
    return forward(params, dx, w, *dbias) + forward(params, x, dw)


def vjp(params: ConvParams, *arrays: Array) -> tuple[Array, ...]:
    x, w, *bias, g = (array.astype(np.float64) for array in arrays)
    _, input_gradient, weight_gradient = plain(params, x, w)
    gradients = (input_gradient(g, w).reshape(x.shape), weight_gradient(x, g).reshape(w.shape))
    if not bias:
        return gradients
    channel = g.ndim - params.window.rank - 1
    return *gradients, g.sum(axis=tuple(axis for axis in range(g.ndim) if axis != channel))
