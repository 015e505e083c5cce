"""Convolution, transposed convolution and padding, as users call them: the last axes, with channels before them."""

from __future__ import annotations

from typing import Any, Literal

from windowgrad.arguments import Padding, Size, ints, shape_of
from windowgrad.errors import KindError, WindowError
from windowgrad.functional import signatures as types
from windowgrad.functional.call import Call
from windowgrad.functional.pooling import named, public_name
from windowgrad.functional.remember import remember
from windowgrad.geometry import Sliding, conv_padding
from windowgrad.ops import OPS, called
from windowgrad.params import ConvParams, PadParams, TransposeParams, UnpadParams


def kernel_of(rank: int | None, weight: Any) -> tuple[int, ...]:
    """The window of a weight: all its axes but the two of the channels."""
    shape = shape_of("weight", weight)
    if len(shape) < 3 or (rank is not None and len(shape) != rank + 2):
        wanted = "at least 3 axes" if rank is None else f"{rank + 2} axes"
        raise WindowError(f"weight of shape {shape}: must have {wanted}, two for channels and one per axis of the window")
    return shape[2:]


def window_of(kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Sliding:
    steps = ints("stride", stride, len(kernel))  # here None is not the kernel
    return Sliding(kernel, steps, conv_padding(padding, kernel, stride, dilation), dilation)  # type: ignore[arg-type]


@remember
def conv_params(kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: Any) -> ConvParams:
    return ConvParams(window_of(kernel, stride, padding, dilation), groups)


@remember
def transpose_params(
    kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: Any, output_padding: Any
) -> TransposeParams:
    return TransposeParams(window_of(kernel, stride, padding, dilation), groups, output_padding)


def _conv(rank: int | None) -> types.Conv:
    op = called("conv", public_name("conv", rank))

    def convolve(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Size = 1,
        padding: Padding | Literal["valid", "same"] = 0,
        dilation: Size = 1,
        groups: int = 1,
        *,
        out: Any = None,
    ) -> Any:
        """Cross-correlation of x (…, in, *spatial) with weight (out, in ÷ groups, *window), plus bias (out,).

        `padding` may also be "valid" (none) or "same" (stride 1; an odd cell goes after).
        """
        with Call(convolve, locals()):
            params = conv_params(kernel_of(rank, weight), stride, padding, dilation, groups)
            return op.forward(params, x, weight, *(() if bias is None else (bias,)), out=out)

    return named(convolve, "conv", rank)


def _conv_transpose(rank: int | None) -> types.ConvTranspose:
    op = called("conv_transpose", public_name("conv_transpose", rank))

    def convolve(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Size = 1,
        padding: Padding = 0,
        output_padding: Size = 0,
        groups: int = 1,
        dilation: Size = 1,
        *,
        out: Any = None,
    ) -> Any:
        """The adjoint of `conv` in its input: x (…, in, *spatial), weight (in, out ÷ groups, *window), bias (out,).

        Several sizes have the same convolution; `output_padding` chooses among them by adding cells at the end.
        """
        with Call(convolve, locals()):
            if isinstance(padding, str):
                raise KindError(f"padding={padding!r}: must be an integer or one entry per axis")
            params = transpose_params(kernel_of(rank, weight), stride, padding, dilation, groups, output_padding)
            return op.forward(params, x, weight, *(() if bias is None else (bias,)), out=out)

    return named(convolve, "conv_transpose", rank)


def pad(x: types.A, padding: Padding) -> types.A:
    """Zeros around the last axes: one integer or one (before, after) pair per axis."""
    with Call(pad, locals()):
        y: types.A = OPS["pad"].forward(PadParams(padding), x)  # type: ignore[arg-type]  # made pairs there
        return y


def unpad(x: types.A, padding: Padding) -> types.A:
    """The cells inside the padding of the last axes: undoes `pad`, and is its adjoint."""
    with Call(unpad, locals()):
        y: types.A = OPS["unpad"].forward(UnpadParams(padding), x)  # type: ignore[arg-type]  # made pairs there
        return y


conv, conv1d, conv2d, conv3d = map(_conv, (None, 1, 2, 3))
conv_transpose, conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_conv_transpose, (None, 1, 2, 3))
