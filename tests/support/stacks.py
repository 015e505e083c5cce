"""Random stacks of operators, small enough for fractions: windows, padding and what a network has between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import windowgrad as wg
from support.strategies import Cells, adaptives, arrays, fractions, remainder, slidings
from windowgrad.ops import OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams, PadParams, SmoothParams, TransposeParams, UnpadParams

Shape = tuple[int, ...]
MOST = 40
"""The most cells that stand between two operators."""


@dataclass
class Layer:
    """`apply(x, *weights)`: the names of the operators it records, and the shapes of its weights."""

    names: list[str]
    apply: Callable[..., Any]
    weights: tuple[Shape, ...] = ()
    told: Any = None


@dataclass
class Stack:
    """A function of an input and all weights."""

    layers: list[Layer]

    @property
    def names(self) -> list[str]:
        return [name for layer in self.layers for name in layer.names]

    def __call__(self, x: Any, *weights: Any) -> Any:
        rest = list(weights)
        for layer in self.layers:
            x = layer.apply(x, *(rest.pop(0) for _ in layer.weights))
        assert not rest
        return x


def window(name: str, params: Any, *weights: Shape) -> Layer:
    return Layer([name], lambda x, *given: OPS[name].forward(params, x, *given), weights, params)


# --- what fits an input (batch, channels, *spatial) --------------------------------------------------------------


@st.composite
def pooling(draw: st.DrawFn, shape: Shape, ties: Sequence[str]) -> Layer:
    geometry = draw(slidings(shape[2:]) | adaptives(shape[2:]))
    if draw(st.booleans()):
        return window("max_pool", MaxParams(geometry, draw(st.sampled_from(list(ties)))))
    return window("avg_pool", MeanParams(geometry, draw(st.booleans())))


@st.composite
def smooth_pooling(draw: st.DrawFn, shape: Shape) -> Layer:
    return window("smooth_max_pool", SmoothParams(draw(slidings(shape[2:])), draw(st.sampled_from([1, 2, -1]))))


@st.composite
def convolution(draw: st.DrawFn, shape: Shape) -> Layer:
    channels, outs, bias = shape[1], draw(st.integers(1, 2)), draw(st.booleans())
    groups = channels if draw(st.booleans()) else 1
    sliding = draw(slidings(shape[2:]))
    weight = (groups * outs, channels // groups, *sliding.kernel)
    return window("conv", ConvParams(sliding, groups), weight, *([(groups * outs,)] if bias else []))


@st.composite
def transposed(draw: st.DrawFn, shape: Shape) -> Layer:
    """The adjoint of a convolution whose output has this size, if the one that was drawn has; else of a plain one."""
    target = tuple(n + 1 for n in shape[2:])
    sliding = draw(slidings(target, ceil=False))
    if sliding.grid(target) != shape[2:]:
        sliding = type(sliding)((2,) * len(target), 1)
    weight = (shape[1], draw(st.integers(1, 2)), *sliding.kernel)
    return window("conv_transpose", TransposeParams(sliding, 1, remainder(sliding, target)), weight)


@st.composite
def padding(draw: st.DrawFn, shape: Shape) -> Layer:
    sides = [draw(st.tuples(st.integers(0, 1), st.integers(0, 1))) for _ in shape[2:]]
    if draw(st.booleans()) and all(lo + hi < n for (lo, hi), n in zip(sides, shape[2:], strict=True)):
        return window("unpad", UnpadParams(sides))
    return window("pad", PadParams(sides))


def between(shape: Shape) -> list[Layer]:
    """Operators on arrays of any shape."""
    turned = (0, 1, *reversed(range(2, len(shape))))
    return [
        Layer(["relu"], wg.relu),
        Layer(["negative"], lambda x: -x),
        Layer(["multiply"], lambda x: x * x),
        Layer(["multiply", "add"], lambda x: x + x * 2),
        Layer(["multiply"], lambda x, scale: x * scale, ((shape[1], *[1] * (len(shape) - 2)),)),
        Layer(["add"], lambda x, bias: x + bias, (shape[-1:],)),
        Layer(["subtract", "divide"], lambda x: (1 - x) / 3),
        Layer(["mean", "subtract"], lambda x: x - wg.mean(x, 1, keepdims=True)),
        Layer(["matmul"], lambda x, w: x @ w, ((shape[-1], 2),)),
        Layer(["transpose"], lambda x: wg.transpose(x, turned)),
    ]


def after(layer: Layer, shape: Shape) -> Shape:
    """The shape of what a layer gives, by running it on zeros."""
    zeros = [np.full(size, 0.0, dtype=object) for size in (shape, *layer.weights)]
    return tuple(layer.apply(*zeros).shape)


@st.composite
def stacks(
    draw: st.DrawFn, scalars: Cells | None = None, ties: Sequence[str] = TIES, smooth: bool = False
) -> tuple[Stack, list[Any], list[Any], Any]:
    """(function, input and weights, tangents like them, gradient like the output); the first operator is a smooth maximum."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *draw(st.sampled_from([(4,), (5,), (2, 3), (3, 3)])))
    sizes, layers = [shape], list[Layer]()
    for _ in range(draw(st.integers(1, 5))):
        windows = [pooling(shape, ties), convolution(shape), transposed(shape), padding(shape)]
        kinds = [smooth_pooling(shape)] if smooth and not layers else [*windows, *[st.sampled_from(between(shape))] * 2]
        layer = draw(draw(st.sampled_from(kinds)))
        grown = after(layer, shape)
        if np.prod(grown) > MOST:
            break
        layers.append(layer)
        sizes += layer.weights
        shape = grown
    kind = scalars or fractions()
    xs, dxs = ([draw(arrays(size, kind)) for size in sizes] for _ in range(2))
    return Stack(layers), xs, dxs, draw(arrays(shape, kind))
