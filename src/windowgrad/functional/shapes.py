"""The sizes of outputs, without any array."""

from __future__ import annotations

from collections.abc import Sequence

from windowgrad.arguments import Padding, Size, axes, ints
from windowgrad.errors import WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.signatures import Named
from windowgrad.geometry import Sliding, named_padding, sliding
from windowgrad.geometry import adaptive_bins as bins
from windowgrad.params import TransposeParams

__all__ = ["adaptive_bins", "conv_out_shape", "conv_transpose_out_shape", "pool_out_shape"]


def pool_out_shape(
    spatial: Sequence[int],
    kernel_size: Sequence[int],
    stride: Size | None = None,
    padding: Padding | Named = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[int, ...]:
    """The shape that pooling gives; leading axes before the spatial ones are kept. Arguments as of `max_pool`.

    >>> wg.pool_out_shape((3, 7, 8), (3, 3), stride=2, padding=1)
    (3, 4, 4)
    """
    try:
        shape = ints("spatial", spatial, least=0)
        return sliding(ints("kernel_size", kernel_size), stride, padding, dilation, ceil_mode).out_shape(shape)
    except WindowgradError as error:
        show_call(error, pool_out_shape, locals())
        raise


def conv_out_shape(
    spatial: Sequence[int],
    kernel_size: Sequence[int],
    stride: Size = 1,
    padding: Padding | Named = 0,
    dilation: Size = 1,
) -> tuple[int, ...]:
    """The spatial shape that convolution gives. Arguments as of `conv`, with the sizes of the window in place of a weight.

    >>> wg.conv_out_shape((7, 8), (3, 3), stride=2, padding=1)
    (4, 4)
    """
    try:
        kernel = ints("kernel_size", kernel_size)
        steps = ints("stride", stride, len(kernel))
        window = Sliding(kernel, steps, named_padding(padding, kernel, stride, dilation), dilation)  # type: ignore[arg-type]
        return window.out_shape(ints("spatial", spatial, window.rank))
    except WindowgradError as error:
        show_call(error, conv_out_shape, locals())
        raise


def conv_transpose_out_shape(
    spatial: Sequence[int],
    kernel_size: Sequence[int],
    stride: Size = 1,
    padding: Padding = 0,
    output_padding: Size = 0,
    dilation: Size = 1,
) -> tuple[int, ...]:
    """The spatial shape that transposed convolution gives. Arguments as of `conv_transpose`, without a weight.

    >>> wg.conv_transpose_out_shape((4, 4), (3, 3), stride=2, padding=1, output_padding=(0, 1))
    (7, 8)
    """
    try:
        steps = ints("stride", stride, len(axes("kernel_size", kernel_size)))
        params = TransposeParams(Sliding(kernel_size, steps, padding, dilation), 1, output_padding)  # type: ignore[arg-type]
        return params.window.adjoint(ints("spatial", spatial, params.window.rank), params.output_padding)
    except WindowgradError as error:
        show_call(error, conv_transpose_out_shape, locals())
        raise


def adaptive_bins(n: int, m: int) -> list[tuple[int, int]]:
    """The bins `[start, end)` of adaptive pooling from `n` cells to `m`.

    >>> wg.adaptive_bins(7, 3)
    [(0, 3), (2, 5), (4, 7)]
    """
    try:
        return bins(n, m)
    except WindowgradError as error:
        show_call(error, adaptive_bins, locals())
        raise
