"""A network for inference: batch normalisation folded, what follows a convolution done in the memory of its result.

A compiled network owns a copy of its parameters, so nothing of it can change between two calls. It gives, bit for bit, what the
folded model gives layer by layer, but for `Linear`, whose rows are multiplied as if each were alone: so the result of a sample
does not depend on its batch. Results inside the network stand in a few slots (`kernels/runtime/slots.py`), large ones are
recycled (`kernels/runtime/buffers.py`).

Measured and rejected: taking a large batch through all layers in parts that stay in the caches. Though weights are packed once
for all of them, 16 times the time of one image is 1.04 times that of 16 at once (ResNet-18) and 1.06 times (MobileNet-V2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from windowgrad.autograd.arrays.arithmetic import is_large_product
from windowgrad.geometry import Sliding
from windowgrad.kernels.runtime.slots import Slots
from windowgrad.nn.fold import fold
from windowgrad.nn.layer import Layer, Saying, Shape, checked
from windowgrad.nn.layers import Conv, ConvTranspose, Linear, ReLU, ReLU6
from windowgrad.nn.residual import Residual
from windowgrad.nn.sequential import Sequential
from windowgrad.nn.steps import Array, Convolution, Step, convolution_step, finish
from windowgrad.params import ConvParams

TOPS: dict[type[Layer], float] = {ReLU: math.inf, ReLU6: 6.0}
"""Activations that are done in place, and the greatest value they give."""

FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def compile(model: Layer, params: Any, in_shape: Shape | None = None) -> Compiled:  # noqa: A001  # PyTorch's name
    """A function of x that computes `model(params, x)` faster, for inference. It owns a copy of the parameters.

    Every `BatchNorm` that can be folded is folded (`nn.fold`); a convolution, the sum of a `Residual` and the ReLU or ReLU6
    behind them are one step. The result is bit for bit that of the folded model on each sample alone: it differs from
    `model(params, x)` by the rounding of the folded weights, and by the order of the sums of `Linear`. It does not depend on
    the number of threads or on the rest of the batch. Given `in_shape`, shapes are checked at once, not in the first call.
    """
    small, fewer = fold(model, params)
    compiled = Compiled(small, copied(fewer))
    if in_shape is not None:
        compiled.check(in_shape)
    return compiled


class Compiled:
    """What `nn.compile` returns: call it with an input. `model` and `params` are what it computes, to be looked at."""

    def __init__(self, model: Layer, params: Any) -> None:
        self.model, self.params = model, params
        self._dtypes = {array.dtype for array in arrays(params)}
        self._step = whole(model, params)
        self._fits: set[Shape] = set()

    def __call__(self, x: Any) -> Any:
        """The output for `x`. An array of the floats that the parameters are takes the fast way, others go layer by layer."""
        if type(x) is not np.ndarray or x.dtype not in FLOATS or not self._dtypes <= {x.dtype}:
            return self.model(self.params, x)
        if x.shape not in self._fits:
            self.check(x.shape)
        y = self._step(np.ascontiguousarray(x))
        return y.copy() if np.may_share_memory(x, y) else y

    def __repr__(self) -> str:
        return f"compile({self.model!r})"

    def _repr_html_(self) -> str:
        return self.model._repr_html_()

    def check(self, in_shape: Shape) -> None:
        """An error if an input of this shape does not fit the model, or the parameters do not."""
        self.model.out_shape(in_shape)
        check_sizes(self.model, self.params, in_shape)
        self._fits.add(in_shape)


# --- parameters --------------------------------------------------------------------------------------------------


def arrays(params: Any) -> Iterator[Any]:
    """All arrays of nested parameters."""
    if isinstance(params, Mapping):
        params = params.values()
    elif not isinstance(params, (tuple, list)):
        yield params
        return
    for own in params:
        yield from arrays(own)


def copied(params: Any) -> Any:
    """The same nested values, in memory of their own that cannot be written."""
    if isinstance(params, Mapping):
        return {name: copied(own) for name, own in params.items()}
    if isinstance(params, (tuple, list)):
        return tuple(map(copied, params))
    own = np.array(params, order="C")
    own.setflags(write=False)
    return own


def check_sizes(model: Layer, params: Any, shape: Shape) -> None:
    """The parameters have the names and the shapes that they must have for an input of this shape."""
    if isinstance(model, Sequential):
        for place, (layer, own) in enumerate(zip(model, params, strict=True)):
            with Saying("layer {} of Sequential, ", place):
                check_sizes(layer, own, shape)
                shape = layer.out_shape(shape)
    elif isinstance(model, Residual):
        for name, layer in model.parts.items():
            with Saying("{} of Residual, ", name):
                check_sizes(layer, params[name], shape)
    else:
        with Saying("{!r}: ", model):
            checked(params, model.sizes(shape), shape)


# --- steps -------------------------------------------------------------------------------------------------------


def whole(model: Layer, params: Any) -> Step:
    """The model as one function. What it makes on the way stands in slots, and its result in memory of its own."""
    if not isinstance(model, Sequential):
        return planned(model, params)
    *inner, last = sequence(flat(model), flat_params(model, params)) or [lambda x: x]
    before = in_turn(inner)

    def run(x: Array) -> Array:
        own = Slots()
        y: Array = own.released(last(own.run(before, x)))
        return y

    return run if inner else last


def planned(model: Layer, params: Any) -> Step:
    """The model as one function."""
    if isinstance(model, Sequential):
        return in_turn(sequence(flat(model), flat_params(model, params)))
    if isinstance(model, Residual):
        return joined(model, params, None)
    if is_plain(model):
        return convolved(model, params, None)
    if isinstance(model, Linear):
        return row_by_row(model, params)
    return partial(model.apply, params)


def sequence(model: list[Layer], params: list[Any]) -> list[Step]:
    """One step per layer, none of them a `Sequential`; an activation becomes the end of the step before it."""
    steps: list[Step] = []
    layers = list(zip(model, params, strict=True))
    while layers:
        layer, own = layers.pop(0)
        top = TOPS.get(type(layers[0][0])) if layers and makes_memory(layer) else None
        if top is not None:
            layers.pop(0)
        if isinstance(layer, Residual):
            steps.append(joined(layer, own, top))
        elif is_plain(layer):
            steps.append(convolved(layer, own, top))
        else:
            step = planned(layer, own)
            steps.append(step if top is None else ended(step, top))
    return steps


def flat(model: Layer) -> list[Layer]:
    """The layers of nested sequences in one list."""
    return [inner for layer in model for inner in flat(layer)] if isinstance(model, Sequential) else [model]


def flat_params(model: Layer, params: Any) -> list[Any]:
    if not isinstance(model, Sequential):
        return [params]
    return [inner for layer, own in zip(model, params, strict=True) for inner in flat_params(layer, own)]


def makes_memory(layer: Layer) -> bool:
    """Whether its output is new memory that nobody else reads, of the same dtype, with its cells in a row."""
    if isinstance(layer, Residual):
        return makes_memory(layer.body)
    if isinstance(layer, Sequential):
        return len(layer) > 0 and makes_memory(flat(layer)[-1])
    return isinstance(layer, (Conv, ConvTranspose, ReLU, ReLU6))


def in_turn(steps: list[Step]) -> Step:
    def run(x: Array) -> Array:
        for step in steps:
            x = step(x)
        return x

    return run


def ended(step: Step, top: float) -> Step:
    def run(x: Array) -> Array:
        y = step(x)
        finish(y, None, top)
        return y

    return run


def joined(layer: Residual, params: Any, top: float | None) -> Step:
    """The sum of body and shortcut in the memory of the body's output, and the activation behind it.

    A convolution at the end of the body does both as it stores its sums.
    """
    if not makes_memory(layer.body):
        return partial(layer.apply, params)
    shortcut = None if layer.shortcut is None else planned(layer.shortcut, params["shortcut"])
    layers, owned = flat(layer.body), flat_params(layer.body, params["body"])
    if is_plain(layers[-1]):
        before, last = in_turn(sequence(layers[:-1], owned[:-1])), convolved(layers[-1], owned[-1], top)
        return lambda x: last(before(x), x if shortcut is None else shortcut(x))
    body = planned(layer.body, params["body"])

    def run(x: Array) -> Array:
        y = body(x)
        finish(y, x if shortcut is None else shortcut(x), top)
        return y

    return run


def is_plain(layer: Layer) -> TypeGuard[Conv | ConvTranspose]:
    """Whether it is a convolution and nothing else, and its options do not depend on the input."""
    if isinstance(layer, ConvTranspose):
        return layer.output_size is None
    return isinstance(layer, Conv) and layer.padding_mode == "zeros"


def convolved(layer: Conv | ConvTranspose, params: Any, top: float | None) -> Convolution:
    """A convolution and an activation."""
    return Convolution(layer.options, params["weight"], params["bias"] if layer.bias else None, top)


def row_by_row(layer: Linear, params: Any) -> Step:
    """Each row alone: the order of sums in NumPy's product of matrices depends on how many rows there are.

    Where `matmul` of one row is left to kernels, a convolution of one cell multiplies: it has their bits, and keeps its weight.
    """
    weight = params["weight"]
    if is_large_product(weight.shape[1:], weight.T.shape):
        window = convolution_step(ConvParams(Sliding((1,))), weight[..., None])

        def multiply(x: Array) -> Array:
            return window(x.reshape(-1, x.shape[-1], 1)).reshape(*x.shape[:-1], len(weight))
    else:

        def multiply(x: Array) -> Array:
            y: Array = np.matmul(np.ascontiguousarray(x)[..., None, :], weight.T)[..., 0, :]
            return y

    return (lambda x: multiply(x) + params["bias"]) if layer.bias else multiply
