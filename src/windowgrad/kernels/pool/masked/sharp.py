"""Smooth maximum with β as an array, of the cells that a mask leaves."""

from __future__ import annotations

from collections.abc import Sequence

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.masked.sums import smooth_forward, smooth_jvp, smooth_vjp
from windowgrad.kernels.pool.smooth import sharp
from windowgrad.params import SharpParams


def sharp_forward(params: SharpParams, x: Array, beta: Array) -> Array:
    return sharp.sharp_forward(params, x, beta, smooth_forward)


def sharp_jvp(params: SharpParams, x: Array, beta: Array, dx: Array, dbeta: Array) -> Array:
    return sharp.sharp_jvp(params, x, beta, dx, dbeta, smooth_jvp)


def sharp_vjp(
    params: SharpParams, x: Array, beta: Array, g: Array, needs: Sequence[bool] = (True, True)
) -> tuple[Array | None, Array | None]:
    return sharp.sharp_vjp(params, x, beta, g, needs, smooth_vjp)
