"""Smooth maximum whose β is an input with a derivative: one number, or one for each channel (the axis before the windows).

∂y/∂β = E[x − y]/β, where E is the mean under the softmax weights, padded zeros included where they count. x − y is computed
as (x − top) − log(total)/β: both terms have the same sign, so nothing cancels. A cell of weight 0 adds nothing.

Higher derivatives are made of B_k = E[(x − y)ᵏ], which is the forward rule of an `order` k ≥ 1: nothing cancels in it, however
far from 0 the cells are (`sharpness_moments`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.params import SharpParams, SmoothParams
from windowgrad.spec import logsumexp
from windowgrad.spec.logsumexp import weigh
from windowgrad.spec.op import Op
from windowgrad.spec.powers import whole_power
from windowgrad.spec.scalar import Array, Window, cells, divide, exp, gap, log, windows, zero_of, zeros
from windowgrad.spec.sharpness_curve import curve, curve_back
from windowgrad.spec.sums import added


def sharpened(params: SharpParams, x: Array, beta: Array) -> tuple[list[SmoothParams], int]:
    """(a record per channel, or one for all; the axis of the channels)."""
    records = [SmoothParams(params.geometry, each, params.count_include_pad) for each in beta.reshape(-1)]
    return records, x.ndim - params.geometry.rank - 1


def record_of(found: tuple[list[SmoothParams], int], window: Window) -> tuple[SmoothParams, int]:
    """The record of a window's channel, and its number."""
    records, axis = found
    channel = 0 if len(records) == 1 else window.out[axis]
    return records[channel], channel


class Share(NamedTuple):
    """A cell: its softmax weight p, and u = x − y."""

    weight: Any
    distance: Any

    def power(self, k: int) -> Any:
        """p·uᵏ; 0 if it weighs nothing."""
        return self.weight * whole_power(self.distance, k) if k and self.weight != 0 else self.weight


def shares(params: SmoothParams, x: Array, window: Window) -> tuple[list[Share], list[Share]]:
    """(the cells, all that counts in the mean: padded zeros as one share too)"""
    top, weights, total = weigh(params, x, window)
    below = [gap(x[tap], top) for tap in window.taps]
    padded = window.padded if params.count_include_pad else 0
    if padded:
        zero = gap(zero_of(x), top)
        below, weights = [*below, zero], [*weights, padded * exp(params.beta * zero)]
    depth = log(total) / params.beta if below else 0
    found = [Share(divide(weight, total), each - depth) for weight, each in zip(weights, below, strict=True)]
    return found[: len(window.taps)], found


def moment(x: Array, found: list[Share], k: int) -> Any:
    """B_k; 0 if there is no cell."""
    return added((share.power(k) for share in found), zero_of(x))


def forward(params: SharpParams, x: Any, beta: Any) -> Array:
    """y, or B_k."""
    x, beta = cells(x), cells(beta)
    y, found = zeros(params.out_shape(x.shape, beta.shape), like=x), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape, params.where):
        record, _ = record_of(found, window)
        k = params.order
        y[window.out] = moment(x, shares(record, x, window)[1], k) if k else logsumexp.value(record, x, window)
    return y


def slopes(params: SmoothParams, x: Array, window: Window, k: int) -> tuple[list[Any], Any]:
    """(the derivative in each cell, that in β): of y the weight and B_1/β."""
    seen, every = shares(params, x, window)
    mean, beta = moment(x, every, 1), params.beta
    if not k:
        return [share.weight for share in seen], divide(mean, beta)
    same, less, more = (moment(x, every, order) for order in (k, k - 1, k + 1))
    by_cell = [beta * (share.power(k) - share.weight * same) + k * (share.power(k - 1) - share.weight * less) for share in seen]
    return by_cell, more - mean * same - k * divide(mean, beta) * less


def jvp(params: SharpParams, x: Any, beta: Any, dx: Any, dbeta: Any) -> Array:
    x, beta, dx, dbeta = map(cells, (x, beta, dx, dbeta))
    dy, found = zeros(params.out_shape(x.shape, beta.shape), like=dx), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape, params.where):
        record, channel = record_of(found, window)
        by_cell, by_beta = slopes(record, x, window, params.order)
        for tap, part in zip(window.taps, by_cell, strict=True):
            dy[window.out] += part * dx[tap]
        dy[window.out] += by_beta * dbeta.reshape(-1)[channel]
    return dy


def vjp(params: SharpParams, x: Any, beta: Any, g: Any) -> tuple[Array, Array]:
    x, beta, g = map(cells, (x, beta, g))
    gx, gbeta, found = zeros(x.shape, like=g), zeros(beta.shape, like=g), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape, params.where):
        record, channel = record_of(found, window)
        by_cell, by_beta = slopes(record, x, window, params.order)
        for tap, part in zip(window.taps, by_cell, strict=True):
            gx[tap] += part * g[window.out]
        gbeta.reshape(-1)[channel] += by_beta * g[window.out]
    return gx, gbeta


OP = Op(
    name="sharp_smooth_max_pool",
    params=SharpParams,
    forward=forward,
    jvp=jvp,
    vjp=vjp,
    curve=curve,
    curve_back=curve_back,
    exact=False,
    inputs=("x", "beta"),
)
