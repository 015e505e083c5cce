"""Pooling layers, with the arguments of the functions of the same name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from windowgrad.arguments import Padding, Size
from windowgrad.functional import (
    adaptive_avg_pool,
    adaptive_lp_pool,
    adaptive_max_pool,
    adaptive_min_pool,
    adaptive_smooth_max_pool,
    avg_pool,
    global_avg_pool,
    global_lp_pool,
    global_max_pool,
    global_min_pool,
    global_smooth_max_pool,
    lp_pool,
    max_pool,
    min_pool,
    smooth_max_pool,
)
from windowgrad.functional.signatures import Empty, Named, Ties
from windowgrad.nn.pool import Bins, Everything, LearnsBeta, Window

__all__ = [
    "AdaptiveAvgPool",
    "AdaptiveLpPool",
    "AdaptiveMaxPool",
    "AdaptiveMinPool",
    "AdaptiveSmoothMaxPool",
    "AvgPool",
    "GlobalAvgPool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GlobalMinPool",
    "GlobalSmoothMaxPool",
    "LpPool",
    "MaxPool",
    "MinPool",
    "SmoothMaxPool",
]


# --- windows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MaxPool(Window):
    """`max_pool`: the greatest value of each window."""

    function = staticmethod(max_pool)
    kernel_size: tuple[int, ...]
    stride: Size | None = None
    padding: Padding | Named = 0
    dilation: Size = 1
    ceil_mode: bool = False
    ties: Ties = field(default="first", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)


@dataclass(frozen=True, repr=False)
class MinPool(Window):
    """`min_pool`: the least value of each window."""

    function = staticmethod(min_pool)
    kernel_size: tuple[int, ...]
    stride: Size | None = None
    padding: Padding | Named = 0
    dilation: Size = 1
    ceil_mode: bool = False
    ties: Ties = field(default="first", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)


@dataclass(frozen=True, repr=False)
class AvgPool(Window):
    """`avg_pool`: the mean of each window."""

    function = staticmethod(avg_pool)
    kernel_size: tuple[int, ...]
    stride: Size | None = None
    padding: Padding | Named = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    dilation: Size = field(default=1, kw_only=True)


@dataclass(frozen=True, repr=False)
class SmoothMaxPool(LearnsBeta, Window):
    """`smooth_max_pool`: (1/β)·log Σ exp(β·x) over each window.

    With `learn_beta=True` β is the layer's parameter and `beta` its first value; with "channel" there is one per channel.
    """

    function = staticmethod(smooth_max_pool)
    kernel_size: tuple[int, ...]
    stride: Size | None = None
    padding: Padding | Named = 0
    dilation: Size = 1
    ceil_mode: bool = False
    count_include_pad: bool = True
    beta: Any = field(kw_only=True)
    learn_beta: bool | Literal["channel"] = field(default=False, kw_only=True)


@dataclass(frozen=True, repr=False)
class LpPool(Window):
    """`lp_pool`: the p-norm (Σ|x|^p)^(1/p) of each window."""

    function = staticmethod(lp_pool)
    norm_type: float
    kernel_size: tuple[int, ...]
    stride: Size | None = None
    ceil_mode: bool = False
    padding: Padding | Named = field(default=0, kw_only=True)
    dilation: Size = field(default=1, kw_only=True)


# --- adaptive bins -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class AdaptiveMaxPool(Bins):
    """`adaptive_max_pool`: the greatest value of each of `output_size` bins per axis (None keeps an axis)."""

    function = staticmethod(adaptive_max_pool)
    output_size: tuple[int | None, ...]
    ties: Ties = field(default="first", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)


@dataclass(frozen=True, repr=False)
class AdaptiveMinPool(Bins):
    """`adaptive_min_pool`: the least value of each of `output_size` bins per axis (None keeps an axis)."""

    function = staticmethod(adaptive_min_pool)
    output_size: tuple[int | None, ...]
    ties: Ties = field(default="first", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)


@dataclass(frozen=True, repr=False)
class AdaptiveAvgPool(Bins):
    """`adaptive_avg_pool`: the mean of each of `output_size` bins per axis (None keeps an axis)."""

    function = staticmethod(adaptive_avg_pool)
    output_size: tuple[int | None, ...]


@dataclass(frozen=True, repr=False)
class AdaptiveSmoothMaxPool(LearnsBeta, Bins):
    """`adaptive_smooth_max_pool`: the smooth maximum of each of `output_size` bins per axis (None keeps an axis).

    `learn_beta` makes β the parameter of the layer, as in `SmoothMaxPool`.
    """

    function = staticmethod(adaptive_smooth_max_pool)
    output_size: tuple[int | None, ...]
    beta: Any = field(kw_only=True)
    learn_beta: bool | Literal["channel"] = field(default=False, kw_only=True)


@dataclass(frozen=True, repr=False)
class AdaptiveLpPool(Bins):
    """`adaptive_lp_pool`: the p-norm of each of `output_size` bins per axis (None keeps an axis)."""

    function = staticmethod(adaptive_lp_pool)
    norm_type: float
    output_size: tuple[int | None, ...]


# --- everything --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class GlobalMaxPool(Everything):
    """`global_max_pool`: the greatest value over the last `rank` axes, which are removed unless `keepdims`."""

    function = staticmethod(global_max_pool)
    rank: int
    keepdims: bool = False
    ties: Ties = field(default="all", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)


@dataclass(frozen=True, repr=False)
class GlobalMinPool(Everything):
    """`global_min_pool`: the least value over the last `rank` axes, which go here unless `keepdims`."""

    function = staticmethod(global_min_pool)
    rank: int
    keepdims: bool = False
    ties: Ties = field(default="all", kw_only=True)
    empty: Empty = field(default="zero", kw_only=True)


@dataclass(frozen=True, repr=False)
class GlobalAvgPool(Everything):
    """`global_avg_pool`: the mean over the last `rank` axes, which are removed unless `keepdims`."""

    function = staticmethod(global_avg_pool)
    rank: int
    keepdims: bool = False


@dataclass(frozen=True, repr=False)
class GlobalSmoothMaxPool(LearnsBeta, Everything):
    """`global_smooth_max_pool`: the smooth maximum over the last `rank` axes, which are removed unless `keepdims`.

    `learn_beta` makes β the parameter of the layer, as in `SmoothMaxPool`.
    """

    function = staticmethod(global_smooth_max_pool)
    rank: int
    keepdims: bool = False
    beta: Any = field(kw_only=True)
    learn_beta: bool | Literal["channel"] = field(default=False, kw_only=True)


@dataclass(frozen=True, repr=False)
class GlobalLpPool(Everything):
    """`global_lp_pool`: the p-norm over the last `rank` axes, which are removed unless `keepdims`."""

    function = staticmethod(global_lp_pool)
    norm_type: float
    rank: int
    keepdims: bool = False
