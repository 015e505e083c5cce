"""Mean over a region: the sum of its real cells ÷ the divisor. Padded cells are zeros; whether they count is an option."""

from __future__ import annotations

from typing import Any

from windowgrad.params import MeanParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, Window, cells, divide, windows, zero_of, zeros
from windowgrad.spec.sums import added


def divisor(params: MeanParams, window: Window) -> int:
    """The override; or the cells inside the padded input, or the real ones. The overhang of ceil mode never counts."""
    if params.divisor_override is not None:
        return params.divisor_override
    real = len(window.taps)
    return max(real + window.padded if params.count_include_pad else real, 1)  # a sum of nothing is 0, whatever divides it


def value(params: MeanParams, x: Array, window: Window) -> Any:
    """The mean of the cells; 0 if there is none."""
    return divide(added((x[tap] for tap in window.taps), zero_of(x)), divisor(params, window))


def forward(params: MeanParams, x: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape), like=x)
    for window in windows(params.geometry, x.shape, params.where):
        y[window.out] = value(params, x, window)
    return y


def jvp(params: MeanParams, x: Any, dx: Any) -> Array:
    """The mean is linear: it is its own derivative."""
    return forward(params, dx)


def vjp(params: MeanParams, x: Any, g: Any) -> tuple[Array]:
    """Each gradient is spread evenly over its real cells."""
    g = cells(g)
    shape = cells(x).shape
    gx = zeros(shape, like=g)
    for window in windows(params.geometry, shape, params.where):
        for tap in window.taps:
            gx[tap] += divide(g[window.out], divisor(params, window))
    return (gx,)


OP = Op(name="avg_pool", params=MeanParams, forward=forward, jvp=jvp, vjp=vjp, exact=True, linear=True)
