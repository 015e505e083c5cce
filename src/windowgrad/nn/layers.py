"""Convolutions, the dense layer, activations and flatten. Weights have PyTorch's layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from windowgrad.arguments import Padding, Size, as_int, flag, ints
from windowgrad.autograd.arrays import add, flatten, matmul, relu, tanh, transpose
from windowgrad.autograd.arrays.functions import relu6
from windowgrad.autograd.arrays.records import FlattenParams
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.functional import conv, conv_transpose, pad
from windowgrad.functional.records import window_of
from windowgrad.functional.signatures import Named
from windowgrad.nn.layer import Layer, Shape, making
from windowgrad.nn.pool import kernel_sizes, set_window, short
from windowgrad.params import ConvParams, TransposeParams

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


@dataclass(frozen=True, repr=False)
class Conv(Layer):
    """`conv` with a weight (out_channels, in ÷ groups, *kernel_size) and a bias (out_channels,).

    `padding_mode` says what padded cells are: zeros, or cells of x as `pad` takes them ("reflect", "replicate", "circular").
    """

    out_channels: int
    kernel_size: tuple[int, ...]
    stride: Size = 1
    padding: Padding | Named = 0
    dilation: Size = 1
    groups: int = 1
    bias: bool = True
    padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros"

    def __post_init__(self) -> None:
        with making(self):
            check_channels(self)
            if not isinstance(self.padding_mode, str) or self.padding_mode not in PADDING_MODES:
                wanted = ", ".join(map(repr, PADDING_MODES))
                raise OptionError(f"padding_mode={show(self.padding_mode)}: must be one of {wanted}")
            window = window_of(kernel_sizes(self.kernel_size), self.stride, self.padding, self.dilation)
            set_window(self, window, stride=short(window.stride))
            _ = self.options

    @cached_property
    def options(self) -> ConvParams:
        """What the operator is told."""
        return ConvParams(window_of(self.kernel_size, self.stride, self.padding, self.dilation), self.groups)

    def sizes(self, shape: Shape) -> dict[str, Shape]:
        ins = in_channels(self, shape)
        return with_bias(self.bias, (self.out_channels, ins // self.groups, *self.kernel_size), self.out_channels)

    def result(self, shape: Shape) -> Shape:
        return self.options.out_shape(shape, *self.sizes(shape).values())

    def work(self, shape: Shape) -> int:
        return math.prod(self.result(shape)) * math.prod(self.sizes(shape)["weight"][1:])

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = pad(x, self.options.window.padding, self.padding_mode), 0
        return conv(x, params["weight"], params.get("bias"), self.stride, padding, self.dilation, self.groups)


@dataclass(frozen=True, repr=False)
class ConvTranspose(Layer):
    """`conv_transpose` with a weight (in, out_channels ÷ groups, *kernel_size) and a bias (out_channels,)."""

    out_channels: int
    kernel_size: tuple[int, ...]
    stride: Size = 1
    padding: Padding = 0
    output_padding: Size = 0
    groups: int = 1
    bias: bool = True
    dilation: Size = 1
    output_size: Size | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        with making(self):
            check_channels(self)
            if isinstance(self.padding, str):
                raise KindError(f"padding={self.padding!r}: must be an integer or one entry per axis")
            window = window_of(kernel_sizes(self.kernel_size), self.stride, self.padding, self.dilation)
            extra = ints("output_padding", self.output_padding, window.rank, least=0)
            if self.output_size is not None:
                sizes = ints("output_size", self.output_size, window.rank)
                if any(extra):
                    raise OptionError(f"output_size={show(sizes)} and output_padding={show(extra)}: give only one of them")
                object.__setattr__(self, "output_size", short(sizes))
            set_window(self, window, stride=short(window.stride), output_padding=short(extra))
            _ = self.options

    @cached_property
    def options(self) -> TransposeParams:
        """What the operator is told."""
        window = window_of(self.kernel_size, self.stride, self.padding, self.dilation)
        return TransposeParams(window, self.groups, self.output_padding)  # type: ignore[arg-type]  # made one per axis there

    def options_for(self, shape: Shape) -> TransposeParams:
        """The same for an input of this shape, of which the output_padding depends if `output_size` is given."""
        if self.output_size is None:
            return self.options
        window = self.options.window
        extra = window.extra_for(window.split(shape)[1], ints("output_size", self.output_size, window.rank))
        return replace(self.options, output_padding=extra)

    def sizes(self, shape: Shape) -> dict[str, Shape]:
        ins = in_channels(self, shape)
        return with_bias(self.bias, (ins, self.out_channels // self.groups, *self.kernel_size), self.out_channels)

    def result(self, shape: Shape) -> Shape:
        return self.options_for(shape).out_shape(shape, *self.sizes(shape).values())

    def work(self, shape: Shape) -> int:
        return math.prod(shape) * math.prod(self.sizes(shape)["weight"][1:])

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        options = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return conv_transpose(x, params["weight"], params.get("bias"), *options, output_size=self.output_size)


@dataclass(frozen=True, repr=False)
class Linear(Layer):
    """The dense layer x · weightᵀ + bias on the last axis, with weight (out_features, in) and bias (out_features,)."""

    out_features: int
    bias: bool = True

    def __post_init__(self) -> None:
        with making(self):
            object.__setattr__(self, "out_features", as_int("out_features", self.out_features, 1))
            object.__setattr__(self, "bias", flag("bias", self.bias))

    def sizes(self, shape: Shape) -> dict[str, Shape]:
        if not shape or shape[-1] < 1:
            raise WindowError(f"x of shape {shape}: must have at least one axis, the last one not empty")
        return with_bias(self.bias, (self.out_features, shape[-1]), self.out_features)

    def result(self, shape: Shape) -> Shape:
        self.sizes(shape)
        return (*shape[:-1], self.out_features)

    def work(self, shape: Shape) -> int:
        return math.prod(shape) * self.out_features

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        y = matmul(x, transpose(params["weight"]))
        return add(y, params["bias"]) if self.bias else y


@dataclass(frozen=True, repr=False)
class ReLU(Layer):
    """`relu`: max(x, 0), elementwise."""

    def result(self, shape: Shape) -> Shape:
        return shape

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return relu(x)


@dataclass(frozen=True, repr=False)
class ReLU6(Layer):
    """min(max(x, 0), 6), elementwise; the derivative at 0 and at 6 is 0."""

    def result(self, shape: Shape) -> Shape:
        return shape

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return relu6(x)


@dataclass(frozen=True, repr=False)
class Tanh(Layer):
    """`tanh`: the hyperbolic tangent, elementwise."""

    def result(self, shape: Shape) -> Shape:
        return shape

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return tanh(x)


@dataclass(frozen=True, repr=False)
class Flatten(Layer):
    """`flatten`: all axes but the first, the batch, become one."""

    def result(self, shape: Shape) -> Shape:
        return FlattenParams().out_shape(shape)

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return flatten(x)


# --- what the layers with weights share ----------------------------------------------------------------------------


def check_channels(layer: Conv | ConvTranspose) -> None:
    """Channels, groups and bias are what they must be, and plain."""
    outs, groups = as_int("out_channels", layer.out_channels, 1), as_int("groups", layer.groups, 1)
    if outs % groups:
        raise OptionError(f"groups={show(groups)}: must divide out_channels={show(outs)}")
    for name, value in (("out_channels", outs), ("groups", groups), ("bias", flag("bias", layer.bias))):
        object.__setattr__(layer, name, value)


def in_channels(layer: Conv | ConvTranspose, shape: Shape) -> int:
    rank = len(layer.kernel_size)
    if len(shape) < rank + 2:
        raise WindowError(f"x of shape {shape}: must have at least {rank + 2} axes (batch, channels and {rank} for the window)")
    channels = shape[-rank - 1]
    if channels < 1 or channels % layer.groups:
        wanted = "at least one" if channels < 1 else f"a multiple of groups={layer.groups}"
        raise WindowError(f"x of shape {shape}: has {channels} channels, must have {wanted}")
    return channels


def with_bias(bias: bool, weight: Shape, outs: int) -> dict[str, Shape]:
    return {"weight": weight, "bias": (outs,)} if bias else {"weight": weight}
