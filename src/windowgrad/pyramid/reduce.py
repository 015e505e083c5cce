"""From one level to the next: windows of two cells, two apart; the last cell of an odd axis is a window by itself.

A mean of integers is rounded to the nearest, halves to the even one, so that every level has the dtype of the first.
The mode is the most frequent label, the smallest one among equals: it makes no label that is not there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.errors import KindError
from windowgrad.functional import avg_pool, max_pool

Array = np.ndarray[Any, Any]

SLAB = 1 << 20
"""Cells that are pooled at a time: what is needed on the way is as small."""


def mean(x: Array, window: tuple[int, ...]) -> Array:
    y: Array = avg_pool(x, window, ceil_mode=True)
    if x.dtype.kind not in "iub":
        return y
    if x.dtype.kind == "b":
        return np.rint(y).astype(bool)
    highest = np.nextafter(float(np.iinfo(x.dtype).max), 0) if x.itemsize == 8 else np.inf  # what float64 holds of int64
    return np.minimum(np.rint(y), highest).astype(x.dtype)


def maximum(x: Array, window: tuple[int, ...]) -> Array:
    y: Array = max_pool(x, window, ceil_mode=True)
    return y


def mode(x: Array, window: tuple[int, ...]) -> Array:
    lead = x.ndim - len(window)
    odd = [(0, 0)] * lead + [(0, n % k) for n, k in zip(x.shape[lead:], window, strict=True)]
    x = np.pad(x, odd, mode="edge")  # it doubles every cell of the last windows, which changes no mode
    corners = [x[corner(place, window)] for place in itertools.product(*map(range, window))]
    best: Array = corners[0]
    votes = np.zeros(corners[0].shape, np.int8)
    for label in corners:
        found = np.zeros(label.shape, np.int8)
        for other in corners:
            found += label == other
        better = (found > votes) | ((found == votes) & (label < best))
        best, votes = np.where(better, label, best), np.maximum(found, votes)
    return best


def corner(place: Sequence[int], window: Sequence[int]) -> Any:
    """The cells that stand at one place of their windows."""
    return (..., *(slice(at, None, k) for at, k in zip(place, window, strict=True)))


REDUCTIONS = {"mean": mean, "max": maximum, "mode": mode}


def check(name: str, dtype: Any) -> None:
    """Whether levels of this dtype can be made."""
    if dtype.kind not in "biuf":
        raise KindError(f"unsupported dtype {dtype}; must be bool, an integer or a float")
    if name == "mode" and dtype.kind == "f":
        raise KindError(f"op=mode: unsupported dtype {dtype}; must be bool or an integer")


def fitting(x: Array, window: tuple[int, ...]) -> tuple[int, ...]:
    """The window, where an axis is a lone cell: that cell."""
    return tuple(map(min, window, x.shape[x.ndim - len(window) :]))


def halved(name: str, x: Array, window: tuple[int, ...]) -> Array:
    """The next level of a block, slab by slab along its longest spatial axis; the window is that of the last axes."""
    lead = x.ndim - len(window)
    axis = max(range(lead, x.ndim), key=lambda a: x.shape[a])
    n, k = x.shape[axis], window[axis - lead]
    step = max(1, SLAB * n // max(1, x.size) // k) * k
    slabs = [x[(slice(None),) * axis + (slice(i, i + step),)] for i in range(0, n, step)]
    parts = [REDUCTIONS[name](np.ascontiguousarray(slab), fitting(slab, window)) for slab in slabs]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
