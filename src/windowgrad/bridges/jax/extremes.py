"""The greater and the lesser of two arrays, and the greatest and the least along axes.

NaN wins; of equals the first is the value, and all share the gradient evenly. To have the value of one cell to the last bit
and the gradients of several, parts that are 0.0 are taken from it: x − x, of which one x is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from windowgrad.bridges.jax.operands import Array, alike, cast, wide_of
from windowgrad.dtypes import is_float
from windowgrad.params import Params


def best(wins: Callable[[Array, Array], Array], params: Params, a: Array, b: Array) -> Array:
    """The winner; of equals the first, with half of the gradient for each."""
    a, b = alike(a, b)
    if not is_float(a.dtype):
        return jnp.where(wins(b, a), b, a)
    nan_a, nan_b = a != a, b != b
    ties = (a == b) | (nan_a & nan_b)
    return jnp.where(ties, mean_of_equals(a, b), jnp.where(nan_a | (wins(a, b) & ~nan_b), a, b))


def mean_of_equals(a: Array, b: Array) -> Array:
    """The value of `a` to the last bit, with half of the gradient for `a` and for `b`; less 0.0, −0.0 stays −0.0."""
    still, other = lax.stop_gradient(a), lax.stop_gradient(b)
    finite = still - 0.5 * (still - a) - 0.5 * (other - b)
    return jnp.where(jnp.isfinite(still), finite, 0.5 * a + 0.5 * b)


def in_rows(x: Array, axes: tuple[int, ...]) -> Array:
    """The cells of `axes` along one last axis."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    return x.transpose(*kept, *sorted(axes)).reshape(*(x.shape[axis] for axis in kept), count)


def extreme(find: Callable[..., Array], params: Any, x: Array) -> Array:
    """The first winner of each row; all that equal it share its gradient evenly, in float32 if they are of 16 bits."""
    shape = params.out_shape(x.shape)
    if 0 in shape:
        return jnp.zeros(shape, x.dtype)
    rows = cast(in_rows(x, params.axes(x.shape)), wide_of(x.dtype))
    still = lax.stop_gradient(rows)
    top = jnp.take_along_axis(still, find(still, axis=-1, keepdims=True), axis=-1)
    if is_float(x.dtype):
        winners = (still == top) | ((still != still) & (top != top))
        count = winners.sum(-1, keepdims=True).astype(rows.dtype)
        zero = jnp.zeros((), rows.dtype)
        finite = top - jnp.where(winners, (still - rows) / count, zero).sum(-1, keepdims=True)
        top = jnp.where(jnp.isfinite(top), finite, jnp.where(winners, rows / count, zero).sum(-1, keepdims=True))
    return cast(top, x.dtype).reshape(shape)
