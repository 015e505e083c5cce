"""Max unpooling, of any rank and of rank 1, 2, 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windowgrad.arguments import Padding, Size, axes, is_int, shape_of
from windowgrad.errors import WindowError, WindowgradError, show
from windowgrad.functional.call import show_call
from windowgrad.functional.signatures import A, Duplicates
from windowgrad.geometry import Sliding
from windowgrad.ops import called
from windowgrad.params import UnpoolParams

__all__ = ["max_unpool", "max_unpool1d", "max_unpool2d", "max_unpool3d"]

MAX_UNPOOL, MAX_UNPOOL1D, MAX_UNPOOL2D, MAX_UNPOOL3D = (
    called("max_unpool", name) for name in ("max_unpool", "max_unpool1d", "max_unpool2d", "max_unpool3d")
)


def unpool_params(
    rank: int | None, x: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any, duplicates: Any
) -> UnpoolParams:
    """The operator's parameters. `output_size` may be the whole shape of the output, whose leading axes must be those of x."""
    window = Sliding(axes("kernel_size", kernel_size, rank, forms=True), stride, padding)  # type: ignore[arg-type]
    if output_size is None or (rank is not None and is_int(output_size)):
        return UnpoolParams(window, output_size, duplicates)
    shape, sizes = shape_of("x", x), axes("output_size", output_size)
    lead = shape[: len(shape) - window.rank]
    if len(sizes) == len(shape) > window.rank:
        if sizes[: len(lead)] != lead:
            raise WindowError(f"output_size={show(sizes)}: must begin with {show(lead)}, the leading axes of x")
        sizes = sizes[len(lead) :]
    return UnpoolParams(window, sizes, duplicates)  # type: ignore[arg-type]


def max_unpool(
    x: A,
    indices: A,
    kernel_size: Sequence[int],
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Sequence[int] | None = None,
    *,
    duplicates: Duplicates = "last",
) -> A:
    """The cells of x at the places that `indices` says, zeros elsewhere: undoes a max pooling that returned its indices.

    Arguments:
        x: an array (…, *spatial); all axes before these are batch.
        indices: integers of x's shape: the flat place of each cell in its output plane; −1 drops the cell.
        kernel_size: cells of a window of the pooling that is undone: one integer per axis.
        stride: distance between its neighbouring windows; None is `kernel_size`.
        padding: its padding.
        output_size: the sizes of the output planes, or the whole shape of the output; None is the least size whose pooling
            has the size of x: (n − 1)·stride + kernel_size − padding.
        duplicates: what becomes of cells with the same index: the "last" in row-major order is kept, and alone has a gradient;
            or "add".

    Returns an array (…, *output_size) of x's dtype.

    >>> y, where = wg.max_pool(np.array([[3, 1], [2, 4]]), (1, 2), return_indices=True)
    >>> wg.max_unpool(y, where, (1, 2)).tolist()
    [[3, 0], [0, 4]]
    """
    try:
        params = unpool_params(None, x, kernel_size, stride, padding, output_size, duplicates)
        y: A = MAX_UNPOOL.forward(params, x, indices)
        return y
    except WindowgradError as error:
        show_call(error, max_unpool, locals())
        raise


def max_unpool1d(
    x: A,
    indices: A,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Size | None = None,
    *,
    duplicates: Duplicates = "last",
) -> A:
    """The cells of x at the places that `indices` says, zeros elsewhere: `max_unpool` over the last axis.

    Arguments:
        x: an array (…, length); all axes before these are batch.
        indices: integers of x's shape: the place of each cell in its output row; −1 drops the cell.
        kernel_size: cells of a window of the pooling that is undone.
        stride: distance between its neighbouring windows; None is `kernel_size`.
        padding: its padding.
        output_size: the length of the output, or its whole shape; None is (n − 1)·stride + kernel_size − padding.
        duplicates: what becomes of cells with the same index: the "last" is kept, or "add".

    Returns an array (…, output_size) of x's dtype.

    >>> wg.max_unpool1d(np.array([5.0, 7.0]), np.array([1, 2]), 2).tolist()
    [0.0, 5.0, 7.0, 0.0]
    """
    try:
        params = unpool_params(1, x, kernel_size, stride, padding, output_size, duplicates)
        y: A = MAX_UNPOOL1D.forward(params, x, indices)
        return y
    except WindowgradError as error:
        show_call(error, max_unpool1d, locals())
        raise


def max_unpool2d(
    x: A,
    indices: A,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Size | None = None,
    *,
    duplicates: Duplicates = "last",
) -> A:
    """The cells of x at the places that `indices` says, zeros elsewhere: `max_unpool` over the last 2 axes.

    Arguments:
        x: an array (…, height, width); all axes before these are batch.
        indices: integers of x's shape: the flat place of each cell in its output plane; −1 drops the cell.
        kernel_size: cells of a window of the pooling that is undone: an integer, or one per axis.
        stride: distance between its neighbouring windows; None is `kernel_size`.
        padding: its padding.
        output_size: the sizes of the output planes, or the whole shape of the output; None is
            (n − 1)·stride + kernel_size − padding.
        duplicates: what becomes of cells with the same index: the "last" is kept, or "add".

    Returns an array (…, *output_size) of x's dtype.

    >>> wg.max_unpool2d(np.array([[5.0]]), np.array([[2]]), 2).tolist()
    [[0.0, 0.0], [5.0, 0.0]]
    """
    try:
        params = unpool_params(2, x, kernel_size, stride, padding, output_size, duplicates)
        y: A = MAX_UNPOOL2D.forward(params, x, indices)
        return y
    except WindowgradError as error:
        show_call(error, max_unpool2d, locals())
        raise


def max_unpool3d(
    x: A,
    indices: A,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    output_size: Size | None = None,
    *,
    duplicates: Duplicates = "last",
) -> A:
    """The cells of x at the places that `indices` says, zeros elsewhere: `max_unpool` over the last 3 axes.

    Arguments:
        x: an array (…, depth, height, width); all axes before these are batch.
        indices: integers of x's shape: the flat place of each cell in its output volume; −1 drops the cell.
        kernel_size: cells of a window of the pooling that is undone: an integer, or one per axis.
        stride: distance between its neighbouring windows; None is `kernel_size`.
        padding: its padding.
        output_size: the sizes of the output volumes, or the whole shape of the output; None is
            (n − 1)·stride + kernel_size − padding.
        duplicates: what becomes of cells with the same index: the "last" is kept, or "add".

    Returns an array (…, *output_size) of x's dtype.

    >>> wg.max_unpool3d(np.array([[[5.0]]]), np.array([[[3]]]), (1, 2, 2)).tolist()
    [[[0.0, 0.0], [0.0, 5.0]]]
    """
    try:
        params = unpool_params(3, x, kernel_size, stride, padding, output_size, duplicates)
        y: A = MAX_UNPOOL3D.forward(params, x, indices)
        return y
    except WindowgradError as error:
        show_call(error, max_unpool3d, locals())
        raise
