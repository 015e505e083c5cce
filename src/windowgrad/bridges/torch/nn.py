"""Drop-in replacements for the pooling and convolution layers of `torch.nn`: same constructors, parameters and state dicts.

Each is a subclass of PyTorch's layer and changes only what its forward call computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from windowgrad import functional as F

M = TypeVar("M", bound=torch.nn.Module)

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveSmoothMaxPool1d",
    "AdaptiveSmoothMaxPool2d",
    "AdaptiveSmoothMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "GlobalSmoothMaxPool1d",
    "GlobalSmoothMaxPool2d",
    "GlobalSmoothMaxPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "SmoothMaxPool1d",
    "SmoothMaxPool2d",
    "SmoothMaxPool3d",
    "replace_pooling",
]


class _Layer:
    """What the layers have in common: `function` computes, the rest is PyTorch's."""

    function: Any

    @property
    def compute(self) -> Any:
        """The function as it is named now: while `torch.fx` traces, that is a stand-in which becomes one node."""
        return getattr(F, self.function.__name__)

    kernel_size: Any
    stride: Any
    padding: Any
    ceil_mode: Any


class _MaxPool(_Layer):
    dilation: Any
    return_indices: Any

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        options = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        return self.compute(input, *options)


class _AvgPool(_Layer):
    count_include_pad: Any

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        divisor = getattr(self, "divisor_override", None)  # rank 1 has none
        options = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, divisor
        return self.compute(input, *options)


class _AdaptiveMaxPool(_Layer):
    output_size: Any
    return_indices: Any

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        return self.compute(input, self.output_size, self.return_indices)


class _AdaptiveAvgPool(_Layer):
    output_size: Any

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        return self.compute(input, self.output_size)


class _Conv(_Layer):
    dilation: Any
    groups: Any
    padding_mode: Any
    _reversed_padding_repeated_twice: Any

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:  # noqa: A002  # PyTorch's name
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0  # noqa: A001
        return self.compute(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class _ConvTranspose(_Layer):
    weight: Any
    bias: Any
    dilation: Any
    groups: Any
    _output_padding: Any

    def forward(self, input: Tensor, output_size: Any = None) -> Any:  # noqa: A002  # PyTorch's name
        rank = len(self.kernel_size)
        sizes = self.stride, self.padding, self.kernel_size
        extra = tuple(self._output_padding(input, output_size, *sizes, rank, self.dilation))
        return self.compute(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class _MaxUnpool(_Layer):
    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:  # noqa: A002  # PyTorch's name
        size = None if output_size is None else tuple(output_size)[-len(self.kernel_size) :]
        return self.compute(input, indices, self.kernel_size, self.stride, self.padding, size)


class MaxPool1d(_MaxPool, torch.nn.MaxPool1d):
    """`torch.nn.MaxPool1d`, computed by `max_pool1d`."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool, torch.nn.MaxPool2d):
    """`torch.nn.MaxPool2d`, computed by `max_pool2d`."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool, torch.nn.MaxPool3d):
    """`torch.nn.MaxPool3d`, computed by `max_pool3d`."""

    function = staticmethod(F.max_pool3d)


class MaxUnpool1d(_MaxUnpool, torch.nn.MaxUnpool1d):
    """`torch.nn.MaxUnpool1d`, computed by `max_unpool1d`."""

    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool, torch.nn.MaxUnpool2d):
    """`torch.nn.MaxUnpool2d`, computed by `max_unpool2d`."""

    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool, torch.nn.MaxUnpool3d):
    """`torch.nn.MaxUnpool3d`, computed by `max_unpool3d`."""

    function = staticmethod(F.max_unpool3d)


class AvgPool1d(_AvgPool, torch.nn.AvgPool1d):
    """`torch.nn.AvgPool1d`, computed by `avg_pool1d`."""

    function = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPool, torch.nn.AvgPool2d):
    """`torch.nn.AvgPool2d`, computed by `avg_pool2d`."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool, torch.nn.AvgPool3d):
    """`torch.nn.AvgPool3d`, computed by `avg_pool3d`."""

    function = staticmethod(F.avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPool, torch.nn.AdaptiveMaxPool1d):
    """`torch.nn.AdaptiveMaxPool1d`, computed by `adaptive_max_pool1d`."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool, torch.nn.AdaptiveMaxPool2d):
    """`torch.nn.AdaptiveMaxPool2d`, computed by `adaptive_max_pool2d`."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool, torch.nn.AdaptiveMaxPool3d):
    """`torch.nn.AdaptiveMaxPool3d`, computed by `adaptive_max_pool3d`."""

    function = staticmethod(F.adaptive_max_pool3d)


class AdaptiveAvgPool1d(_AdaptiveAvgPool, torch.nn.AdaptiveAvgPool1d):
    """`torch.nn.AdaptiveAvgPool1d`, computed by `adaptive_avg_pool1d`."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool, torch.nn.AdaptiveAvgPool2d):
    """`torch.nn.AdaptiveAvgPool2d`, computed by `adaptive_avg_pool2d`."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool, torch.nn.AdaptiveAvgPool3d):
    """`torch.nn.AdaptiveAvgPool3d`, computed by `adaptive_avg_pool3d`."""

    function = staticmethod(F.adaptive_avg_pool3d)


class Conv1d(_Conv, torch.nn.Conv1d):
    """`torch.nn.Conv1d`, computed by `conv1d`."""

    function = staticmethod(F.conv1d)


class Conv2d(_Conv, torch.nn.Conv2d):
    """`torch.nn.Conv2d`, computed by `conv2d`."""

    function = staticmethod(F.conv2d)


class Conv3d(_Conv, torch.nn.Conv3d):
    """`torch.nn.Conv3d`, computed by `conv3d`."""

    function = staticmethod(F.conv3d)


class ConvTranspose1d(_ConvTranspose, torch.nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d`, computed by `conv_transpose1d`."""

    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose, torch.nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d`, computed by `conv_transpose2d`."""

    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose, torch.nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d`, computed by `conv_transpose3d`."""

    function = staticmethod(F.conv_transpose3d)


class _Smooth(_Layer, torch.nn.Module):
    """Pooling that PyTorch does not have. `learn_beta`: whether β is a parameter; a number of channels makes one for each."""

    def __init__(self, beta: float, learn_beta: bool | int) -> None:
        super().__init__()
        shape = () if isinstance(learn_beta, bool) else (learn_beta,)
        self.beta = torch.nn.Parameter(torch.full(shape, float(beta))) if learn_beta else beta

    def extra_repr(self) -> str:
        return f"beta={self.beta.tolist()}, learned" if isinstance(self.beta, Tensor) else f"beta={self.beta}"


class _SmoothMaxPool(_Smooth):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        beta: float,
        learn_beta: bool | int = False,
    ) -> None:
        super().__init__(beta, learn_beta)
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        options = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.count_include_pad
        return self.compute(input, *options, beta=self.beta)

    def extra_repr(self) -> str:
        return f"{self.kernel_size}, stride={self.stride}, padding={self.padding}, {super().extra_repr()}"


class _AdaptiveSmoothMaxPool(_Smooth):
    def __init__(self, output_size: Any, *, beta: float, learn_beta: bool | int = False) -> None:
        super().__init__(beta, learn_beta)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        return self.compute(input, self.output_size, beta=self.beta)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class _GlobalSmoothMaxPool(_Smooth):
    def __init__(self, keepdims: bool = True, *, beta: float, learn_beta: bool | int = False) -> None:
        super().__init__(beta, learn_beta)
        self.keepdims = keepdims

    def forward(self, input: Tensor) -> Any:  # noqa: A002  # PyTorch's name
        return self.compute(input, keepdims=self.keepdims, beta=self.beta)

    def extra_repr(self) -> str:
        return f"keepdims={self.keepdims}, {super().extra_repr()}"


class SmoothMaxPool1d(_SmoothMaxPool):
    """`smooth_max_pool1d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.smooth_max_pool1d)


class SmoothMaxPool2d(_SmoothMaxPool):
    """`smooth_max_pool2d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.smooth_max_pool2d)


class SmoothMaxPool3d(_SmoothMaxPool):
    """`smooth_max_pool3d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.smooth_max_pool3d)


class AdaptiveSmoothMaxPool1d(_AdaptiveSmoothMaxPool):
    """`adaptive_smooth_max_pool1d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.adaptive_smooth_max_pool1d)


class AdaptiveSmoothMaxPool2d(_AdaptiveSmoothMaxPool):
    """`adaptive_smooth_max_pool2d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.adaptive_smooth_max_pool2d)


class AdaptiveSmoothMaxPool3d(_AdaptiveSmoothMaxPool):
    """`adaptive_smooth_max_pool3d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.adaptive_smooth_max_pool3d)


class GlobalSmoothMaxPool1d(_GlobalSmoothMaxPool):
    """`global_smooth_max_pool1d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.global_smooth_max_pool1d)


class GlobalSmoothMaxPool2d(_GlobalSmoothMaxPool):
    """`global_smooth_max_pool2d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.global_smooth_max_pool2d)


class GlobalSmoothMaxPool3d(_GlobalSmoothMaxPool):
    """`global_smooth_max_pool3d` as a layer; `learn_beta` makes β a parameter, or one for each of so many channels."""

    function = staticmethod(F.global_smooth_max_pool3d)


LAYERS = {theirs: globals()[name] for name in __all__ if (theirs := getattr(torch.nn, name, None)) is not None}


def replace_pooling(
    model: M, *, convolutions: bool = False, everything: bool = False, report: Callable[[str], object] | None = None
) -> M:
    """Make the pooling layers of a model (and its convolutions, if asked for) compute with windowgrad. Returns the model.

    Layers that PyTorch computes faster are left to it, unless `everything` is to have the meaning of windowgrad. `report` is
    called with a line for each pooling layer and convolution: `report=print` shows what was replaced, what was left, and why.
    The layers stay the same objects, with their parameters, hooks and positions, so optimizers and state dicts stay valid.
    Only layers of exactly PyTorch's classes are changed: a subclass may compute something else.
    """
    for name, layer in model.named_modules():
        kind = type(layer)
        reason = left(layer, convolutions, everything)
        if reason is None:
            layer.__class__ = LAYERS[kind]
        if report is not None and (kind in LAYERS or kind.__base__ in LAYERS):
            report(f"{name or 'the model'} ({kind.__name__}): {'replaced' if reason is None else f'left to PyTorch: {reason}'}")
    return model


def left(layer: torch.nn.Module, convolutions: bool, everything: bool) -> str | None:
    """Why a layer is left to PyTorch; None if it is replaced. Measured with `benchmarks/torch_bridge.py --layers`."""
    ours = LAYERS.get(type(layer))
    if ours is None:
        return "a class of its own may compute something else"
    is_conv = issubclass(ours, (_Conv, _ConvTranspose))
    if is_conv and not convolutions:
        return "convolutions were not asked for"
    if everything:
        return None
    if issubclass(ours, _AdaptiveAvgPool):
        sizes = layer.output_size if isinstance(layer.output_size, (tuple, list)) else [layer.output_size]
        return "it computes a global mean faster" if all(size == 1 for size in sizes) else None
    if is_conv and not (is_pointwise(layer) or is_depthwise(layer)):
        return "it convolves windows of several cells and channels faster"
    return None


def is_pointwise(layer: Any) -> bool:
    """Whether windows have one cell and all channels meet."""
    return set(layer.kernel_size) == {1} and layer.groups == 1 and not layer.transposed


def is_depthwise(layer: Any) -> bool:
    """Whether each channel is convolved by itself."""
    return layer.groups == layer.in_channels == layer.out_channels and len(layer.kernel_size) == 2 and not layer.transposed
