"""Calls that are ready to be made, of minima: those of a maximum between two turns of the order, as in `entry`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.dtypes import is_float
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool import small
from windowgrad.kernels.pool.blocks import COPIED
from windowgrad.kernels.pool.min.entry import without_cells
from windowgrad.kernels.pool.small import Kind, Ready
from windowgrad.kernels.pool.small_last import prepare_max_last
from windowgrad.params import MinParams


def prepare_min(rule: str, params: MinParams, *kinds: Kind) -> Ready | None:
    return turned(rule, params, kinds[0], lambda: small.prepare_max(rule, params, *kinds))


def prepare_min_last(rule: str, params: MinParams, x: Array, *others: Array) -> Ready | None:
    return turned(rule, params, (x.shape, x.dtype), lambda: prepare_max_last(rule, params, x))


def turned(rule: str, params: MinParams, kind: Kind, prepare: Callable[[], Ready | None]) -> Ready | None:
    """What finds maxima, told of the cells in the reverse order; None where `entry` is as good, or a window sees no cell."""
    (shape, dtype), geometry = kind, params.geometry
    if rule not in ("forward", "with_indices") or math.prod(shape) >= COPIED or not math.prod(shape):
        return None
    if any(True for _ in without_cells(geometry, geometry.split(shape)[1])) or (find := prepare()) is None:
        return None
    change: Any = np.negative if is_float(dtype) else np.invert
    if rule == "with_indices":

        def name(x: Array) -> tuple[Array, Array]:
            y, found = find(change(x))
            change(y, out=y)
            return y, found

        return name

    def call(x: Array, y: Array | None = None) -> Array:
        if y is None:
            y = find(change(x))
        else:
            find(change(x), y)
        change(y, out=y)
        return y

    return call
