"""Zeros around the last axes, and the same cells taken away: each is the adjoint of the other."""

from __future__ import annotations

from typing import Any

from windowgrad.params import PadParams, UnpadParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, cells, zeros


def inside(params: PadParams, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Where the unpadded cells lie in the padded `shape`."""
    sizes = shape[len(shape) - len(params.padding) :]
    return (..., *(slice(lo, n - hi) for n, (lo, hi) in zip(sizes, params.padding, strict=True)))


def pad(params: PadParams, x: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape), like=x)
    y[inside(params, y.shape)] = x
    return y


def unpad(params: PadParams, x: Any) -> Array:
    x = cells(x)
    y: Array = x[inside(params, x.shape)].copy()
    return y


def pad_jvp(params: PadParams, x: Any, dx: Any) -> Array:
    return pad(params, dx)


def pad_vjp(params: PadParams, x: Any, g: Any) -> tuple[Array]:
    return (unpad(params, g),)


def unpad_jvp(params: UnpadParams, x: Any, dx: Any) -> Array:
    return unpad(params, dx)


def unpad_vjp(params: UnpadParams, x: Any, g: Any) -> tuple[Array]:
    return (pad(PadParams(params.padding), g),)


PAD = Op(name="pad", params=PadParams, forward=pad, jvp=pad_jvp, vjp=pad_vjp, exact=True, linear=True)
UNPAD = Op(name="unpad", params=UnpadParams, forward=unpad, jvp=unpad_jvp, vjp=unpad_vjp, exact=True, linear=True)
