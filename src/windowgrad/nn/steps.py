"""The steps of a network for inference: functions from an array to a new array, which own what they compute with.

`nn.compile` makes them from layers; whoever reads a network from elsewhere can make them from constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from windowgrad.interrupts import put_off
from windowgrad.loading import loading
from windowgrad.params import ConvParams

Array = np.ndarray[Any, Any]
Step = Callable[[Array], Array]
"""From an input, which it does not write, to an output."""


def convolution_step(params: ConvParams, weight: Array, bias: Array | None = None, top: float | None = None) -> Convolution:
    """A convolution with constant weights, and what follows it.

    `params` are its options (a `TransposeParams` for a transposed one). The weight and the bias are copied, and packed when
    the first input comes. With a `top`, results are from 0 to it: ∞ is relu, 6 relu6.
    """
    return Convolution(params, np.array(weight, order="C"), None if bias is None else np.array(bias, order="C"), top)


class Convolution:
    """What `convolution_step` returns: a function of x, and of an array of the result's shape and dtype that is added to it.

    The sum comes before the activation. Bit for bit the same as the convolution, then the sum, then the activation. Nobody may
    write its weight and bias.
    """

    def __init__(self, params: ConvParams, weight: Array, bias: Array | None, top: float | None) -> None:
        self._kept, self._top = _kept()(params, weight, bias, top), top

    def begun(self, x: Array, beside: Array | None = None) -> tuple[Array, bool]:
        """The result, and whether the sum and the activation are done; else it is the convolution alone."""
        y: Array
        ended: bool
        y, ended = self._kept(x, beside)
        return y, ended

    def __call__(self, x: Array, beside: Array | None = None) -> Array:
        y, ended = self.begun(x, beside)
        if not ended:
            finish(y, beside, self._top)
        return y


def finish(y: Array, beside: Array | None, top: float | None) -> None:
    """In the memory of y, which is contiguous: the sum with an array of its shape, then at least 0 and at most `top`."""
    if beside is not None or top is not None:
        other = None if beside is None else np.ascontiguousarray(beside)
        _finish()(y, other, top is not None, math.inf if top is None else top)


@cache
def _finish() -> Any:
    """It loads Numba, so not before it is needed."""
    with put_off(), loading:
        from windowgrad.kernels.elementwise.relu import finish
    return finish


@cache
def _kept() -> Any:
    """It loads Numba, so not before it is needed."""
    with put_off(), loading:
        from windowgrad.kernels.conv.kept import Kept
    return Kept
