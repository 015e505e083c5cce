"""Padding and its adjoint on NumPy numbers."""

from __future__ import annotations

import numpy as np

from windowgrad.dtypes import derivative_of
from windowgrad.kernels.arrays import Array
from windowgrad.params import PadParams


def _widths(params: PadParams, x: Array) -> tuple[tuple[int, int], ...]:
    """(before, after) for every axis; the leading ones have none."""
    return ((0, 0),) * (x.ndim - len(params.padding)) + params.padding


def pad_forward(params: PadParams, x: Array) -> Array:
    return np.pad(x, _widths(params, x))


def unpad_forward(params: PadParams, x: Array) -> Array:
    return x[tuple(slice(lo, n - hi) for n, (lo, hi) in zip(x.shape, _widths(params, x), strict=True))].copy()


def pad_jvp(params: PadParams, x: Array, dx: Array) -> Array:
    return pad_forward(params, dx.astype(derivative_of(x.dtype, dx.dtype)))


def unpad_jvp(params: PadParams, x: Array, dx: Array) -> Array:
    return unpad_forward(params, dx.astype(derivative_of(x.dtype, dx.dtype)))


def pad_vjp(params: PadParams, x: Array, g: Array) -> tuple[Array]:
    return (unpad_jvp(params, x, g),)


def unpad_vjp(params: PadParams, x: Array, g: Array) -> tuple[Array]:
    return (pad_jvp(params, x, g),)
