"""Smooth maximum of the cells that a mask leaves: the kernels for all cells, to which the others weigh nothing.

For arrays that need not be cut for want of memory (`is_taken`). The mask is read as cells are weighed (`smooth/cells`), so
nothing is copied, and a window without cells has the sum 0, of which the kernels make 0 already.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from windowgrad.kernels.arrays import Array, summed
from windowgrad.kernels.pool.blocks import blocks
from windowgrad.kernels.pool.masked.fill import Kind, whole_mask
from windowgrad.kernels.pool.smooth import chunks, long_rows
from windowgrad.kernels.pool.smooth.cells import scale_of
from windowgrad.kernels.pool.smooth.entry import SUMS, WORK, Masks, beta_of, found, plane_of
from windowgrad.kernels.pool.smooth.small import again, is_whole
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.runtime.threads import over
from windowgrad.params import Mask, SmoothParams


def is_taken(params: SmoothParams, x: Array) -> bool:
    """Whether a call without a mask is done at once."""
    geometry = params.geometry
    if chunks.is_one_large_region(params, x) or long_rows.is_tiled(geometry, x.shape):
        return False
    return blocks(geometry, x, summed(x.dtype), in_place=False, fixed=True) is None


def smooth_planes(params: SmoothParams, x: Array) -> Array:
    """The smooth maxima of an array that `is_taken`."""
    assert params.where is not None
    mask = params.where.array
    read, which = whole_mask(*params.geometry.split(x.shape), mask.shape)
    return found(params.plain, x, SUMS, masks=Masks(read(mask), which))


def finding(params: SmoothParams, x: Kind, mask: Kind) -> Callable[[Array, Array], Array] | None:
    """From a mask and a contiguous x of these kinds to the smooth maxima; None if that needs more than a call of a kernel."""
    (shape, dtype), out = x, params.geometry.out_shape(x[0])
    if not is_whole(params, x):
        return None
    (plane, planes), (read, which) = plane_of(params, shape), whole_mask(*params.geometry.split(shape), mask[0])
    (kernel, plan), work, new = plane.forward, WORK * math.prod(shape) * dtype.itemsize, maker(out, dtype)
    told = SUMS, plane.counted, scale_of(beta_of(params)), plan

    def call(mask: Array, x: Array) -> Array:
        y = new(out, dtype)
        if over(kernel, (x.ravel(), y.ravel(), *told, read(mask), which), planes, work):
            return again(smooth_planes, params.masked_by(Mask(mask)), x)  # type: ignore[no-any-return]
        return y

    return call
