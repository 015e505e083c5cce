"""Maximum and minimum of the cells that a mask leaves: those left out become the value that loses to every other.

A window whose result is that value is in doubt: it may have no cell left, or only such cells, among which one that was left
out may have won. If no cell that is left has the value, it has none left: its gradient goes to cells that are left out, and
theirs are cleared. Else the mask itself, as cells, decides: where it is True are the winners. So no window is looked at cell by
cell, and a call without such windows, the usual one, needs one pass more than without a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, is_float
from windowgrad.facts import Kernels
from windowgrad.kernels.arrays import Array, writeable
from windowgrad.kernels.pool import small
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.masked import max_lanes, max_planes, max_short, whole_planes
from windowgrad.kernels.pool.masked.fill import Kind, clear, filled, filling, mask_of, small_mask, watched
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.min import entry as min_entry
from windowgrad.params import Mask, MaxParams, no_cell

RULES: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "max": (max_entry.max_forward, max_entry.max_jvp, max_entry.max_vjp, max_entry.max_with_indices, max_entry.max_pushing),
    "min": (min_entry.min_forward, min_entry.min_jvp, min_entry.min_vjp, min_entry.min_with_indices, min_entry.min_pushing),
}
SAVING: dict[str, tuple[Any, Any]] = {
    "max": (max_entry.max_saves, max_entry.max_saving),
    "min": (min_entry.min_saves, min_entry.min_saving),
}


def rules(kind: str) -> Kernels:
    """The rules of the maximum or of the minimum."""
    (forward, jvp, vjp, with_indices, pushing), (saves, saving) = RULES[kind], SAVING[kind]

    def loses(dtype: np.dtype[Any]) -> Any:
        """The value that no other loses to."""
        if is_float(dtype):
            return dtype.type(-np.inf if kind == "max" else np.inf)
        if dtype.kind == "b":
            return kind == "min"
        return (np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max) if dtype.kind in "iu" else None

    def in_doubt(params: MaxParams, x: Array, y: Array) -> Array | None:
        """Which windows are; None if none is."""
        doubt: Array = y == loses(x.dtype)
        return doubt if doubt.any() else None

    def masked_forward(params: MaxParams, x: Array, out: Array | None = None) -> Array:
        assert params.where is not None
        mask = params.where.array
        if out is None and x.flags.c_contiguous:
            ready = prepare("forward", params.plain, (x.shape, x.dtype), (mask.shape, mask.dtype))
            if ready is not None:
                tops: Array = ready(mask, writeable(x))
                return tops
        plain, cells = params.plain, filled(params, x, loses(x.dtype))
        y: Array = forward(plain, cells, out)
        if in_doubt(params, x, y) is not None:
            y[~left_in(params, x, y.shape)] = 0
        return y

    def masked_with_indices(
        params: MaxParams, x: Array, out: tuple[Array | None, Array | None] = (None, None)
    ) -> tuple[Array, Array]:
        plain, cells = params.plain, filled(params, x, loses(x.dtype))
        y, index = with_indices(plain, cells, out)
        if (doubt := in_doubt(params, x, y)) is not None:
            seen, first = max_entry.max_with_indices(first_of(params), small_mask(params, x.shape))
            index[doubt] = np.broadcast_to(np.where(seen, first, -1), y.shape)[doubt]
            y[~left_in(params, x, y.shape)] = 0
        return y, index

    def masked_jvp(params: MaxParams, x: Array, dx: Array) -> Array:
        return masked_pushing(params, x, dx)[1]

    def masked_pushing(params: MaxParams, x: Array, dx: Array) -> tuple[Array, Array]:
        mask, plain = mask_of(params, x.shape), params.plain
        cells, moved = filled(params, x, loses(x.dtype)), filled(params, dx, 0)
        y, dy = pushing(plain, cells, moved) or (forward(plain, cells), jvp(plain, cells, moved))
        if (doubt := in_doubt(params, x, y)) is not None:
            seen, among = left_in(params, x, dy.shape), max_entry.max_jvp(plain, np.ascontiguousarray(mask), moved)
            dy[doubt] = np.where(seen, among, 0)[doubt]
            y[~seen] = 0
        return y, dy

    def masked_saves(params: MaxParams, x: Kind) -> Kind | None:
        """What `masked_saving` saves of arrays of this kind, if it saves anything."""
        kind = saves(params.plain, x) if params.ties == "first" and x[1] in max_planes.FLOATS else None
        return None if kind is None or is_long(params.geometry, x[0]) else ((math.prod(kind[0]) + 1,), kind[1])

    def masked_saving(params: MaxParams, x: Array) -> tuple[Array, Array | None]:
        """The result, and its winners, flat, and behind them whether a window has no cell left; None if some are in doubt."""
        (cells, lost), plain = watched(params, x, loses(x.dtype)), params.plain
        y, found = saving(plain, cells)
        if (doubt := in_doubt(params, x, y)) is not None:
            if params.empty == "raise" or lost:
                doubt = ~left_in(params, x, y.shape)
            y[doubt] = 0
        return y, None if lost and doubt is not None else np.append(found, found.dtype.type(doubt is not None))

    def masked_vjp(params: MaxParams, x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        plain, kind = params.plain, saves(params.plain, (x.shape, x.dtype))
        if saved is not None and kind is not None and max_entry.uses_saved(plain, x, g):
            (gx,) = vjp(plain, x, g, saved[:-1].reshape(kind[0]))
            if saved[-1]:
                clear(params, gx)
            return (gx,)
        cells, lost = watched(params, x, loses(x.dtype))
        y, found = (forward(plain, cells), None) if kind is None else saving(plain, cells)  # if it can, they are found once
        if (doubt := in_doubt(params, x, y)) is None:
            return vjp(plain, cells, g, found)  # type: ignore[no-any-return]
        if params.empty == "raise" or lost:
            seen = left_in(params, x, g.shape)
        if not lost:
            (gx,) = vjp(plain, cells, g, found)
            clear(params, gx)
            return (gx,)
        none, dtype, mask = np.zeros((), g.dtype), derivative_of(x.dtype, g.dtype), mask_of(params, x.shape)
        planes = math.prod(params.geometry.split(x.shape)[0])
        own = ((x == loses(x.dtype)) & mask).reshape(planes, -1).any(axis=1, keepdims=True)
        doubt = (doubt.reshape(planes, -1) & own).reshape(g.shape)  # to add 0 would change the zeros of the other planes
        (gx,) = vjp(plain, cells, np.where(doubt, none, g), found)
        clear(params, gx)
        (more,) = max_entry.max_vjp(plain, np.ascontiguousarray(mask), np.where(doubt & seen, g, none))
        some = doubt.reshape(planes, -1).any(axis=1, keepdims=True)
        return (np.where(some, (gx + more).reshape(planes, -1), gx.reshape(planes, -1)).reshape(x.shape).astype(dtype),)

    def prepare(rule: str, params: MaxParams, *kinds: Kind) -> Callable[..., Any] | None:
        """The rule for contiguous arrays of these kinds, the last of them the mask's; forward, if it goes plane by plane."""
        if rule in ("saving", "vjp"):
            if masked_saves(params, kinds[0]) is None:
                return None
            return prepare_saving(params, *kinds) if rule == "saving" else prepare_vjp(params, *kinds)
        take = topping(params, *kinds, least=kind == "min") if rule == "forward" else None
        if take is None:
            return None

        def call(mask: Array, x: Array) -> Array:
            y, some_empty = take(x, mask)
            if some_empty and params.empty == "raise":
                left_in(params.masked_by(Mask(mask)), x, y.shape)
            return y

        return call

    def prepare_saving(params: MaxParams, x: Kind, mask: Kind) -> Callable[[Array, Array], tuple[Array, Array | None]] | None:
        """`masked_saving`. Where a winner is in doubt, it begins anew."""
        saved = masked_saves(params, x)
        if saved is None or small.prepare_max("saving", params, x) is None:
            return None
        fill, find = filling(params, x, mask, loses(x[1])), small.saving(params, *x, saved)

        def call(mask: Array, x: Array) -> tuple[Array, Array | None]:
            cells, lost = fill(mask, x)
            y, found = find(min_entry.reverse(cells, cells) if kind == "min" else cells)
            if kind == "min":
                min_entry.turned_back(params, x, y)
            if (doubt := in_doubt(params, x, y)) is not None:
                if lost or params.empty == "raise":
                    return masked_saving(params.masked_by(Mask(mask)), x)
                y[doubt] = 0
            found[-1] = doubt is not None
            return y, found

        return call

    def prepare_vjp(params: MaxParams, x: Kind, g: Kind, mask: Kind) -> Callable[..., tuple[Array]] | None:
        """`masked_vjp` from what was saved."""
        pay = small.prepare_max("vjp", params, x, g)
        if pay is None:
            return None

        def call(mask: Array, x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
            if saved is None:
                return masked_vjp(params.masked_by(Mask(mask)), x, g)
            (gx,) = pay(x, g, saved[:-1])
            if saved[-1]:
                clear(params.masked_by(Mask(mask)), gx)
            return (gx,)

        return call

    rules = masked_forward, masked_jvp, masked_vjp, masked_with_indices, masked_saving, masked_saves
    return Kernels(*rules, pushing=masked_pushing, prepare=prepare)


def topping(params: MaxParams, x: Kind, mask: Kind, *, least: bool) -> Callable[[Array, Array], tuple[Array, bool]] | None:
    ways = whole_planes.topping, max_short.topping, max_lanes.topping, max_planes.topping
    return next((take for way in ways if (take := way(params, x, mask, least)) is not None), None)


def first_of(params: MaxParams) -> MaxParams:
    return MaxParams(params.geometry)


def left_in(params: MaxParams, x: Array, shape: tuple[int, ...]) -> Array:
    """Whether each window has a cell left; an error where one must."""
    seen: Array = np.broadcast_to(max_entry.max_forward(first_of(params), small_mask(params, x.shape)), shape)
    if params.empty == "raise" and not seen.all():
        raise no_cell(np.argwhere(~seen)[0].tolist())
    return seen
