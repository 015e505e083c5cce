"""Convolution and its adjoint: both are the same list of products y[i] += w[j]·x[k], with the roles of y and x swapped.

Cross-correlation, as in PyTorch. A padded cell is a zero, so it has no product. The weight of `conv` is
(out channels, in channels ÷ groups, *window), that of `conv_transpose` (in channels, out channels ÷ groups, *window).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.geometry import Cell
from windowgrad.params import ConvParams, TransposeParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, cells, zeros


def products(params: ConvParams, y: Sequence[int], w: Sequence[int], x: Sequence[int]) -> Iterator[tuple[Cell, Cell, Cell]]:
    """Every (i, j, k) for which the convolution of shapes `x`, `w` to `y` adds w[j]·x[k] to y[i]."""
    rank = params.window.rank
    batch, spatial, grid = x[: len(x) - rank - 1], x[len(x) - rank :], y[len(y) - rank :]
    outs, ins = w[0] // params.groups, w[1]  # of one group: its outputs see its own inputs only
    for o in np.ndindex(*grid):
        for place, cell in params.window.reach(o, spatial):
            for *n, channel, c in np.ndindex(*batch, w[0], ins):
                group = channel // outs
                yield (*n, channel, *o), (channel, c, *place), (*n, group * ins + c, *cell)


def terms(params: ConvParams, x: Array, w: Array) -> Iterator[tuple[Cell, Cell, Cell]]:
    """The products of the operator: those of the convolution, or, transposed, with input and output swapped."""
    out = params.out_shape(x.shape, w.shape)
    if isinstance(params, TransposeParams):
        return ((k, j, i) for i, j, k in products(params, x.shape, w.shape, out))
    return products(params, out, w.shape, x.shape)


def forward(params: ConvParams, x: Any, w: Any, bias: Any = None) -> Array:
    x, w = cells(x), cells(w)
    y = zeros(params.out_shape(x.shape, w.shape), like=x if x.size else w)  # x may have no channels
    if bias is not None:
        y += per_channel(params, cells(bias))
    for i, j, k in terms(params, x, w):
        y[i] += w[j] * x[k]
    return y


def jvp(params: ConvParams, *args: Any) -> Array:
    """Bilinear: the convolution of (dx, w) and of (x, dw), and the tangent of the bias if there is one.

    Called as (x, w, dx, dw) or (x, w, bias, dx, dw, dbias).
    """
    inputs, tangents = args[: len(args) // 2], args[len(args) // 2 :]
    (x, w), (dx, dw), dbias = map(cells, inputs[:2]), map(cells, tangents[:2]), tangents[2:]
    dy = forward(params, dx, w, *dbias)
    for i, j, k in terms(params, x, w):
        dy[i] += dw[j] * x[k]
    return dy


def vjp(params: ConvParams, *args: Any) -> tuple[Array, ...]:
    """Each product w[j]·x[k] of y[i] gives g[i]·w[j] to x[k] and g[i]·x[k] to w[j]; a bias gets its channel's sum.

    Called as (x, w, g) or (x, w, bias, g).
    """
    (x, w), bias, g = map(cells, args[:2]), args[2:-1], cells(args[-1])
    gx, gw = zeros(x.shape, like=g), zeros(w.shape, like=g)
    for i, j, k in terms(params, x, w):
        gx[k] += g[i] * w[j]
        gw[j] += g[i] * x[k]
    if not bias:
        return gx, gw
    gb = zeros(cells(bias[0]).shape, like=g)
    for i in np.ndindex(*g.shape):
        gb[i[len(i) - params.window.rank - 1]] += g[i]
    return gx, gw, gb


def curve(rules: Op, params: ConvParams, xs: Sequence[Any], dxs: Sequence[Any], exs: Sequence[Any]) -> Any:
    """Bilinear: f(dx, ew) + f(ex, dw). A tangent that is None is zero."""
    parts = [rules.forward(params, x, w) for x, w in ((dxs[0], exs[1]), (exs[0], dxs[1])) if x is not None and w is not None]
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


def curve_back(
    rules: Op, params: ConvParams, xs: Sequence[Any], dxs: Sequence[Any], g: Any, needs: Sequence[bool] = (True, True)
) -> tuple[Any, ...]:
    """The gradients of ⟨g, f(dx, w) + f(x, dw)⟩ in x and w: those of ⟨g, f⟩ at (dx, dw). A tangent that is None is zero."""
    (x, w, *bias), (dx, dw, *_) = xs, dxs
    needs = (needs[0] and dw is not None, needs[1] and dx is not None)
    pulled = (None, None)
    if any(needs):
        pulled = rules.vjp(params, x if dx is None else dx, w if dw is None else dw, g, needs=needs)
    return (*pulled, *(None for _ in bias))


def per_channel(params: ConvParams, bias: Array) -> Array:
    """The bias with an axis of length 1 for each axis of the window, so that it meets the channels."""
    return bias.reshape(-1, *(1,) * params.window.rank)


CONV = Op(
    name="conv",
    params=ConvParams,
    forward=forward,
    jvp=jvp,
    vjp=vjp,
    curve=curve,
    curve_back=curve_back,
    exact=True,
    linear=True,
    inputs=("x", "weight", "bias"),
    optional=1,
)
CONV_TRANSPOSE = replace(CONV, name="conv_transpose", params=TransposeParams)
