"""Smooth maximum of the cells that a mask leaves: the kernels for all cells, to which the others weigh nothing.

For planes whose kernels are those of `smooth/planes` (`is_taken`); arrays whose tables or copies would be large are cut as
without a mask. The mask is read as cells are weighed (`smooth/cells`), so nothing is copied, and a window without cells has the
sum 0, of which the kernels make 0 already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from windowgrad.dtypes import float_of
from windowgrad.kernels.arrays import Array, summed
from windowgrad.kernels.pool.blocks import Block, blocks
from windowgrad.kernels.pool.masked.fill import Kind, whole_mask
from windowgrad.kernels.pool.smooth import chunks, long_rows
from windowgrad.kernels.pool.smooth.cells import scale_of
from windowgrad.kernels.pool.smooth.entry import WORK, Masks, beta_of, found, plane_of, within
from windowgrad.kernels.pool.smooth.small import again, is_whole
from windowgrad.kernels.pool.smooth.strips import SUMS
from windowgrad.kernels.runtime.buffers import empty, maker
from windowgrad.kernels.runtime.threads import over
from windowgrad.params import Mask, SmoothParams


def is_taken(params: SmoothParams, x: Array) -> bool:
    """Whether planes are not so large, or so long, that there are other ways for them."""
    return not chunks.is_one_large_region(params, x) and not long_rows.is_tiled(params.geometry, x.shape)


def smooth_planes(params: SmoothParams, x: Array) -> Array:
    """The smooth maxima of an array that `is_taken`."""
    assert params.where is not None
    geometry, mask = params.geometry, params.where.array
    if (cut := blocks(geometry, x, summed(x.dtype), in_place=False, fixed=True)) is not None:
        y = empty(geometry.out_shape(x.shape), float_of(x.dtype))
        cut.fill((y,), (x, np.broadcast_to(mask, x.shape)), partial(block_of, params))
        return y
    read, which = whole_mask(*geometry.split(x.shape), mask.shape)
    return found(params.plain, x, SUMS, masks=Masks(read(mask), which))


def block_of(params: SmoothParams, block: Block, x: Array, mask: Array, out: tuple[Array | None]) -> tuple[Array]:
    return (smooth_planes(within(params.plain, block).masked_by(Mask(mask)), x),)


def finding(params: SmoothParams, x: Kind, mask: Kind) -> Callable[[Array, Array], Array] | None:
    """From a mask and a contiguous x of these kinds to the smooth maxima; None if that needs more than a call of a kernel."""
    (shape, dtype), out = x, params.geometry.out_shape(x[0])
    if not is_whole(params, x):
        return None
    (plane, planes), (read, which) = plane_of(params, shape), whole_mask(*params.geometry.split(shape), mask[0])
    work, new = WORK * math.prod(shape) * dtype.itemsize, maker(out, dtype)
    kernel, told = plane.values_way(dtype, scale_of(beta_of(params)))

    def call(mask: Array, x: Array) -> Array:
        y = new(out, dtype)
        if over(kernel, (x.ravel(), y.ravel(), *told, read(mask), which), planes, work):
            return again(smooth_planes, params.masked_by(Mask(mask)), x)  # type: ignore[no-any-return]
        return y

    return call
