"""Cells that a mask leaves out, replaced by a value that does not count."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.runtime.buffers import empty, maker
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    address,
    anywhere,
    either,
    equal,
    greater,
    lanes,
    load,
    load_beside,
    load_part_as,
    negative,
    select,
    splat,
    store,
    store_part,
)
from windowgrad.params import PoolParams

Kind = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the dtype of an array."""

VECTORS = tuple(map(np.dtype, ("float32", "float64", "int32", "int64", "uint8")))


LARGEST = 1 << 18
"""The most bytes of a plane that is copied by itself, and stays in the cache."""


def mask_of(params: PoolParams, shape: tuple[int, ...]) -> Array:
    assert params.where is not None
    mask: Array = params.where.over(shape)
    return mask


def small_mask(params: PoolParams, shape: tuple[int, ...]) -> Array:
    """The mask with all spatial axes, and with leading axes of length 1 where it is the same along them."""
    assert params.where is not None
    mask, lead = params.where.array, len(shape) - params.geometry.rank
    whole = mask.reshape((1,) * (len(shape) - mask.ndim) + mask.shape)
    found: Array = np.broadcast_to(whole, (*whole.shape[:lead], *shape[lead:]))
    return found


def whole_mask(
    lead: tuple[int, ...], spatial: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Callable[[Array], Array], Array]:
    """Of masks of this shape: how they become planes of bytes in a row, and for each plane of x, which of them it has."""
    axes = (1,) * (len(lead) + len(spatial) - len(shape)) + shape
    own, planes = axes[: len(lead)], (*axes[: len(lead)], *spatial)
    which = flat(np.broadcast_to(np.arange(math.prod(own)).reshape(own), lead))
    if axes == planes:
        return lambda mask: flat(mask).view(np.uint8), which
    return lambda mask: flat(np.broadcast_to(mask.reshape(axes), planes)).view(np.uint8), which


def filled(params: PoolParams, x: Array, value: Any) -> Array:
    """The cells, with `value` where the mask is False, one for all or one for each plane; in new memory, plane after plane."""
    return watched(params, x, value)[0]


def watched(params: PoolParams, x: Array, value: Any) -> tuple[Array, bool]:
    """The same, and whether a cell that is left has the value already."""
    out = empty(x.shape, x.dtype)
    if x.dtype in VECTORS:
        return out, fill(params, x, value, out)
    lead, left = params.geometry.split(x.shape)[0], mask_of(params, x.shape)
    every = np.reshape(value, (*lead, *(1,) * params.geometry.rank)) if np.ndim(value) else value
    out[...] = every
    np.copyto(out, x, where=left)
    return out, bool(((out == every) & left).any())


def filling(params: PoolParams, x: Kind, mask: Kind, value: Any) -> Callable[[Array, Array], tuple[Array, bool]]:
    """`watched` as a function of a mask and contiguous x of these kinds, which have vectors."""
    (shape, dtype), (lead, spatial) = x, params.geometry.split(x[0])
    axes = (1,) * (len(shape) - len(mask[0])) + mask[0]
    full = shape if math.prod(axes[: len(lead)]) > 1 else spatial
    plane, planes, work = math.prod(spatial), math.prod(lead), 2 * math.prod(shape) * dtype.itemsize
    new, given = maker(shape, dtype), (np.full(1, value, dtype), plane)

    def call(mask: Array, x: Array) -> tuple[Array, bool]:
        out = new(shape, dtype)
        there = flat(np.broadcast_to(mask.reshape(axes if full is shape else axes[len(lead) :]), full)).view(np.uint8)
        return out, bool(over(fill_planes, (x.ravel(), there, out.ravel(), *given), planes, work))

    return call


def clear(params: PoolParams, x: Array) -> None:
    """x = 0 where the mask is False."""
    if x.dtype in VECTORS and x.flags.carray:
        fill(params, x, 0, x)
    else:
        x[~mask_of(params, x.shape)] = 0


def fill(params: PoolParams, x: Array, value: Any, out: Array) -> bool:
    """out = x, with `value` where the mask is False; whether a cell that is left has it. x has vectors; it may be `out`."""
    mask = small_mask(params, x.shape)
    if math.prod(mask.shape[: x.ndim - params.geometry.rank]) > 1:  # it differs from plane to plane
        mask = mask_of(params, x.shape)
    plane = math.prod(x.shape[x.ndim - params.geometry.rank :])
    given = flat(x), flat(mask).view(np.uint8), out.reshape(-1), np.asarray(value, x.dtype).reshape(-1), plane
    return bool(over(fill_planes, given, x.size // max(plane, 1), 2 * x.nbytes))


@kernel
def fill_planes(x: Any, mask: Any, out: Any, value: Any, plane: int, first: int, last: int) -> int:
    """out = x where the mask is not 0, else the value, for planes first to last; mask and value are of one plane, or of all.

    Says whether a cell of x that is left has the value.
    """
    step, several, found = plane if len(mask) > plane else 0, len(value) > 1, 0
    x, mask, out = address(x), address(mask), address(out)
    for q in range(first, last):
        found |= fill_plane(x, q * plane, mask, q * step, out, q * plane, plane, value[q if several else 0])
    return found


@helper
def fill_plane(x: Any, base: int, mask: Any, at: int, out: Any, to: int, plane: int, value: Any) -> int:
    """out[to:] = a plane of x, the value where the mask is 0; whether a cell that is left has it. All are addresses."""
    n, other, none = lanes(x), splat(x, value), greater(splat(x, 0), splat(x, 0))
    size, seen = plane - plane % n, none
    for i in range(0, size, n):
        one_by_one()
        left, cells = load_beside(mask, at + i, x), load(x, base + i)
        gone = equal(left, splat(left, 0))
        seen = either(seen, select(gone, none, equal(cells, other)))
        store(out, to + i, select(gone, other, cells))
    found = 1 if anywhere(seen) else 0
    for i in range(size, plane):
        if mask[at + i] != 0 and x[base + i] == value:
            found = 1
        out[to + i] = x[base + i] if mask[at + i] != 0 else value
    return found


@helper
def turn_signs(a: Any, at: int, count: int) -> None:
    """a[at:at + count] = −a, zeros and NaN too."""
    n, i = lanes(a), 0
    while i + n <= count:
        one_by_one()
        store(a, at + i, negative(load(a, at + i)))
        i += n
    if i < count:
        store_part(a, at + i, negative(load_part_as(a, at + i, count - i, a)), count - i)
