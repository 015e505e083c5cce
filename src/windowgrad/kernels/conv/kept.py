"""A convolution whose weight and bias never change: they are packed once, and sums may end with a residual and an activation.

A call of `conv` cannot keep anything of its weight: nobody would notice a write to a NumPy array. Whoever owns a copy of the
parameters can, as a network for inference does (`nn/steps.py`). The result has the bits of `conv_forward`, then a sum, then a
limit: sums that have to be reviewed (see `entry.py`) are left to it, so that what kernels do here is never reviewed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from windowgrad.errors import WindowError
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.entry import LEAST_NORMAL, conv_forward, flat, no_bias
from windowgrad.kernels.conv.exact import FORWARD
from windowgrad.kernels.conv.plan import Array, Shape
from windowgrad.kernels.conv.range_check import magnitudes
from windowgrad.kernels.conv.shapes import JOINED, End, Packed, as_they_are
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.runtime.slots import new
from windowgrad.kernels.vector.masked import HUGE
from windowgrad.params import ConvParams

FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
MOST_SHAPES = 64
"""Shapes of x that are prepared; with more of them all are forgotten."""

Call = Callable[[Array, Array | None], tuple[Array, bool]]


class Kept:
    """The convolution with this weight and bias, which nobody writes. If there is a `top`, results are from 0 to it."""

    def __init__(self, params: ConvParams, weight: Array, bias: Array | None, top: float | None) -> None:
        self.params, self.weight, self.bias = params, weight, () if bias is None else (bias,)
        self.limits = (-math.inf, math.inf) if top is None else (0.0, top)
        self.one_dtype = weight.dtype in FLOATS and all(each.dtype == weight.dtype for each in self.bias)
        self.packed: Packed = {}
        self.calls: dict[Shape, Call] = {}

    def __call__(self, x: Array, beside: Array | None = None) -> tuple[Array, bool]:
        """The output, and whether it is ended: `beside`, of its shape and dtype, was added, and it is within limits."""
        call = self.calls.get(x.shape) if self.one_dtype and x.dtype == self.weight.dtype else self.plain
        if call is None:
            if len(self.calls) == MOST_SHAPES:
                self.calls.clear()
            call = self.calls[x.shape] = self.prepared(x.shape)
        return call(x, beside)

    def plain(self, x: Array, beside: Array | None) -> tuple[Array, bool]:
        with np.errstate(all="ignore"):
            y = conv_forward(self.params, x, self.weight, *self.bias)
        check_beside(beside, y.shape, y.dtype)
        return y, False

    def prepared(self, x_shape: Shape) -> Call:
        """The call for arrays of this shape, which have the dtype of the weight."""
        self.params.out_shape(x_shape, self.weight.shape, *(each.shape for each in self.bias))  # refuses what does not fit
        (conv, shape), dtype = grouped(self.params, x_shape, self.weight.shape), self.weight.dtype
        if not conv.regular:
            return self.plain
        way, one = conv.chosen(conv.played(FORWARD), dtype.itemsize)
        bias = flat(self.bias[0] if self.bias else no_bias(self.params, self.weight), dtype) + 0.0  # −0.0 as `entry.settled`
        nothing, limited = as_they_are(dtype), End(as_they_are(dtype).beside, np.array(self.limits, dtype))
        compute, make = way.kept(one, flat(self.weight, dtype), bias, self.packed), maker(shape, dtype)
        if compute is None:
            return self.plain

        def call(x: Array, beside: Array | None) -> tuple[Array, bool]:
            check_beside(beside, shape, dtype)
            cells, y, end = flat(x, dtype), new(make, shape, dtype), limited
            if beside is not None:
                end = End(flat(beside, dtype), limited.limits) if way.ends == JOINED else nothing
            strange = compute(cells, y.reshape(-1), end)
            if strange and (strange >> HUGE or self.may_underflow(cells)):
                return self.plain(x, beside)
            return y, end is not nothing

        return call

    def may_underflow(self, cells: Array) -> bool:
        """As `entry.may_underflow`, for the weight."""
        return cells.dtype == np.float32 and magnitudes(cells)[0] * self.least < LEAST_NORMAL

    @cached_property
    def least(self) -> float:
        """The least number of the weight that is not 0."""
        return magnitudes(flat(self.weight, self.weight.dtype))[0]


def check_beside(beside: Array | None, shape: Shape, dtype: Any) -> None:
    if beside is not None and (beside.shape != shape or beside.dtype != dtype):
        raise WindowError(
            f"beside: {beside.dtype}{beside.shape}: must be {dtype}{shape}, as the result of the convolution it is added to"
        )
