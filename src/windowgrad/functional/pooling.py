"""Pooling, as users call it. Every function pools the last axes; all axes before them are batch.

`out` is an array of the result's shape and dtype; the result is written there, and it is returned.

A family is written once: the factory makes it for any rank (`rank=None`, where `kernel_size` is a tuple and its length
is the rank) and for rank 1, 2 and 3, where an int means the same on every axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from windowgrad.arguments import Padding, Size, axes, flag
from windowgrad.functional import signatures as types
from windowgrad.functional.call import Call
from windowgrad.functional.remember import remember
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import called
from windowgrad.params import MaxParams, MeanParams, PoolParams, SmoothParams
from windowgrad.spec.op import Op

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=PoolParams)


def named(function: F, family: str, rank: int | None) -> F:
    """The function under its public name."""
    function.__name__ = function.__qualname__ = public_name(family, rank)
    return function


def public_name(family: str, rank: int | None) -> str:
    """max_pool, or max_pool2d where the rank is fixed."""
    return family if rank is None else f"{family}{rank}d"


@remember
def windows(
    record: type[R], rank: int | None, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any, *options: Any
) -> R:
    """The record of a reduction over sliding windows."""
    sizes: Any = axes("kernel_size", kernel, rank, forms=True)
    return record(Sliding(sizes, stride, padding, dilation, flag("ceil_mode", ceil_mode)), *options)


@remember
def bins(record: type[R], rank: int | None, output_size: Any, *options: Any) -> R:
    """The record of a reduction over adaptive bins."""
    sizes: Any = axes("output_size", output_size, rank, forms=True)
    return record(Adaptive(sizes), *options)


@remember
def everything(record: type[R], rank: Any, keepdims: Any, *options: Any) -> R:
    """The record of a reduction over the last axes as a whole."""
    return record(Global(rank, keepdims), *options)


def maximum(op: Op, params: MaxParams, x: Any, return_indices: object, out: Any) -> Any:
    rule = op.with_indices if flag("return_indices", return_indices) else op.forward
    assert rule is not None  # maximum has indices
    return rule(params, x, out=out)


# --- windows -----------------------------------------------------------------------------------------------------


def _max_pool(rank: int | None) -> types.MaxPool[Size]:
    op = called("max_pool", public_name("max_pool", rank))

    def pool(
        x: Any,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        *,
        ties: str = "first",
        empty: str = "zero",
        out: Any = None,
    ) -> Any:
        """The greatest value of each window. Padded cells are absent; NaN is greatest; the first of equals wins.

        `return_indices` also gives the flat index of each winner in its plane. `ties` ("first", "all", "split") says who
        gets the derivative among equals. A window with no real cell gives 0 and index −1, or `empty="raise"` refuses it.
        `out` is where the result is written; with indices it is a pair (values, indices), of which one may be None.
        """
        with Call(pool, locals()):
            params = windows(MaxParams, rank, kernel_size, stride, padding, dilation, ceil_mode, ties, empty)
            return maximum(op, params, x, return_indices, out)

    return named(pool, "max_pool", rank)


def _avg_pool(rank: int | None) -> types.AvgPool[Size]:
    op = called("avg_pool", public_name("avg_pool", rank))

    def pool(
        x: Any,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        dilation: Size = 1,
        out: Any = None,
    ) -> Any:
        """The mean of each window. The divisor counts the cells inside the padded input, or only the real ones
        (`count_include_pad=False`), and never the overhang of ceil mode; `divisor_override` replaces it."""
        with Call(pool, locals()):
            options = (count_include_pad, divisor_override)
            params = windows(MeanParams, rank, kernel_size, stride, padding, dilation, ceil_mode, *options)
            return op.forward(params, x, out=out)

    return named(pool, "avg_pool", rank)


def _smooth_max_pool(rank: int | None) -> types.SmoothMaxPool[Size]:
    op = called("smooth_max_pool", public_name("smooth_max_pool", rank))

    def pool(
        x: Any,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        beta: Any,
        out: Any = None,
    ) -> Any:
        """(1/β)·log Σ exp(β·x) over each window: a smooth maximum for β > 0, a smooth minimum for β < 0. It never overflows.

        Padded cells count as zeros, or not at all (`count_include_pad=False`), which tends to `max_pool` as β grows.
        """
        with Call(pool, locals()):
            options = (beta, count_include_pad)
            params = windows(SmoothParams, rank, kernel_size, stride, padding, dilation, ceil_mode, *options)
            return op.forward(params, x, out=out)

    return named(pool, "smooth_max_pool", rank)


# --- adaptive bins -----------------------------------------------------------------------------------------------


def _adaptive_max_pool(rank: int | None) -> types.AdaptiveMaxPool[types.Bins]:
    op = called("max_pool", public_name("adaptive_max_pool", rank))

    def pool(x: Any, output_size: types.Bins, return_indices: bool = False, *, ties: str = "first", out: Any = None) -> Any:
        """The greatest value of each of `output_size` bins per axis (None keeps an axis), with `max_pool`'s rules."""
        with Call(pool, locals()):
            return maximum(op, bins(MaxParams, rank, output_size, ties), x, return_indices, out)

    return named(pool, "adaptive_max_pool", rank)


def _adaptive_avg_pool(rank: int | None) -> types.AdaptiveAvgPool[types.Bins]:
    op = called("avg_pool", public_name("adaptive_avg_pool", rank))

    def pool(x: Any, output_size: types.Bins, *, out: Any = None) -> Any:
        """The mean of each of `output_size` bins per axis (None keeps an axis)."""
        with Call(pool, locals()):
            return op.forward(bins(MeanParams, rank, output_size), x, out=out)

    return named(pool, "adaptive_avg_pool", rank)


def _adaptive_smooth_max_pool(rank: int | None) -> types.AdaptiveSmoothMaxPool[types.Bins]:
    op = called("smooth_max_pool", public_name("adaptive_smooth_max_pool", rank))

    def pool(x: Any, output_size: types.Bins, *, beta: Any, out: Any = None) -> Any:
        """The smooth maximum of each of `output_size` bins per axis (None keeps an axis)."""
        with Call(pool, locals()):
            return op.forward(bins(SmoothParams, rank, output_size, beta), x, out=out)

    return named(pool, "adaptive_smooth_max_pool", rank)


# --- everything --------------------------------------------------------------------------------------------------


GLOBAL_MAX = called("max_pool", "global_max_pool")
GLOBAL_MEAN = called("avg_pool", "global_avg_pool")
GLOBAL_SMOOTH = called("smooth_max_pool", "global_smooth_max_pool")


def global_max_pool(
    x: types.A, rank: int, *, keepdims: bool = True, ties: types.Ties = "all", out: types.A | None = None
) -> types.A:
    """The greatest value over the last `rank` axes, which stay with length 1 or go. Every maximum gets the gradient."""
    with Call(global_max_pool, locals()):
        y: types.A = GLOBAL_MAX.forward(everything(MaxParams, rank, keepdims, ties), x, out=out)
        return y


def global_avg_pool(x: types.A, rank: int, *, keepdims: bool = True, out: types.A | None = None) -> types.A:
    """The mean over the last `rank` axes, which stay with length 1 or go."""
    with Call(global_avg_pool, locals()):
        y: types.A = GLOBAL_MEAN.forward(everything(MeanParams, rank, keepdims), x, out=out)
        return y


def global_smooth_max_pool(x: types.A, rank: int, *, keepdims: bool = True, beta: Any, out: types.A | None = None) -> types.A:
    """The smooth maximum over the last `rank` axes, which stay with length 1 or go."""
    with Call(global_smooth_max_pool, locals()):
        y: types.A = GLOBAL_SMOOTH.forward(everything(SmoothParams, rank, keepdims, beta), x, out=out)
        return y


def _global_max_pool(rank: int) -> types.GlobalMaxPool:
    op = called("max_pool", public_name("global_max_pool", rank))

    def pool(x: Any, *, keepdims: bool = True, ties: str = "all", out: Any = None) -> Any:
        with Call(pool, locals()):
            return op.forward(everything(MaxParams, rank, keepdims, ties), x, out=out)

    pool.__doc__ = global_max_pool.__doc__
    return named(pool, "global_max_pool", rank)


def _global_avg_pool(rank: int) -> types.GlobalAvgPool:
    op = called("avg_pool", public_name("global_avg_pool", rank))

    def pool(x: Any, *, keepdims: bool = True, out: Any = None) -> Any:
        with Call(pool, locals()):
            return op.forward(everything(MeanParams, rank, keepdims), x, out=out)

    pool.__doc__ = global_avg_pool.__doc__
    return named(pool, "global_avg_pool", rank)


def _global_smooth_max_pool(rank: int) -> types.GlobalSmoothMaxPool:
    op = called("smooth_max_pool", public_name("global_smooth_max_pool", rank))

    def pool(x: Any, *, keepdims: bool = True, beta: Any, out: Any = None) -> Any:
        with Call(pool, locals()):
            return op.forward(everything(SmoothParams, rank, keepdims, beta), x, out=out)

    pool.__doc__ = global_smooth_max_pool.__doc__
    return named(pool, "global_smooth_max_pool", rank)


# --- the public names --------------------------------------------------------------------------------------------

Sizes = Sequence[int]
AnyBins = Sequence[int | None]

max_pool: types.MaxPool[Sizes] = _max_pool(None)
max_pool1d, max_pool2d, max_pool3d = _max_pool(1), _max_pool(2), _max_pool(3)
avg_pool: types.AvgPool[Sizes] = _avg_pool(None)
avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool(1), _avg_pool(2), _avg_pool(3)
smooth_max_pool: types.SmoothMaxPool[Sizes] = _smooth_max_pool(None)
smooth_max_pool1d, smooth_max_pool2d, smooth_max_pool3d = _smooth_max_pool(1), _smooth_max_pool(2), _smooth_max_pool(3)

adaptive_max_pool: types.AdaptiveMaxPool[AnyBins] = _adaptive_max_pool(None)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max_pool, (1, 2, 3))
adaptive_avg_pool: types.AdaptiveAvgPool[AnyBins] = _adaptive_avg_pool(None)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg_pool, (1, 2, 3))
adaptive_smooth_max_pool: types.AdaptiveSmoothMaxPool[AnyBins] = _adaptive_smooth_max_pool(None)
adaptive_smooth_max_pool1d, adaptive_smooth_max_pool2d, adaptive_smooth_max_pool3d = map(_adaptive_smooth_max_pool, (1, 2, 3))

global_max_pool1d, global_max_pool2d, global_max_pool3d = map(_global_max_pool, (1, 2, 3))
global_avg_pool1d, global_avg_pool2d, global_avg_pool3d = map(_global_avg_pool, (1, 2, 3))
global_smooth_max_pool1d, global_smooth_max_pool2d, global_smooth_max_pool3d = map(_global_smooth_max_pool, (1, 2, 3))
