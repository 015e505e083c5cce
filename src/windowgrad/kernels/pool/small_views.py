"""Calls that are ready to be made, of arrays whose cells are not in a row, or that cannot be written: as in `small`, of copies.

An array of channels that stand last is read where it is (`small_last`). Of any other view a kernel makes a copy (`views`), and
the call for arrays in a row computes with that one, so a result has the same bits. A large array is left to `entry`, which
copies it block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windowgrad.kernels.arrays import Array, writeable
from windowgrad.kernels.pool.blocks import COPIED
from windowgrad.kernels.pool.layout import is_channels_last
from windowgrad.kernels.pool.small import Kind, Ready
from windowgrad.kernels.vector.views import copier, is_view
from windowgrad.params import Params, PoolParams

Way = Callable[[Array], Array]


def itself(x: Array) -> Array:
    return x


def way_in(x: Array) -> Way | None:
    """What makes an array in a row of arrays like this one; None if no kernel does."""
    if x.flags.carray:
        return itself
    if x.flags.c_contiguous:
        return writeable if x.flags.aligned else None
    if is_view(x):
        return copier(x)
    if x.flags.aligned and not x.flags.writeable and is_view(open_view := writeable(x)):
        copy = copier(open_view)
        return lambda x: copy(writeable(x))
    return None


def viewing(
    prepare: Callable[..., Ready | None], prepare_last: Callable[..., Ready | None] | None = None
) -> Callable[..., Any]:
    """`prepare_last` of an operator for arrays of any strides: those that `prepare_last` takes, and copies for `prepare`."""

    def prepared(rule: str, params: PoolParams, *arrays: Array) -> Ready | None:
        if prepare_last is not None and any(is_channels_last(x, params.geometry, x.shape) for x in arrays):
            return last(rule, params, arrays)
        ways = [way_in(x) for x in arrays]
        if any(way is None for way in ways) or any(x.size >= COPIED for x in arrays):
            return None
        kinds: list[Kind] = [(x.shape, x.dtype) for x in arrays]
        ready = prepare(rule, params, *kinds)
        if ready is None:
            return None
        if len(ways) == 1:
            return alone(ready, ways[0])  # type: ignore[arg-type]  # none is None
        return lambda *given: ready(*(way(x) for way, x in zip(ways, given, strict=False)), *given[len(ways) :])  # type: ignore[misc]

    def last(rule: str, params: Params, arrays: tuple[Array, ...]) -> Ready | None:
        assert prepare_last is not None
        if all(x.flags.writeable for x in arrays):
            return prepare_last(rule, params, *arrays)
        ready = prepare_last(rule, params, *map(writeable, arrays))
        return None if ready is None else lambda *given: ready(*map(writeable, given))

    return prepared


def alone(ready: Ready, way: Way) -> Ready:
    return lambda x: ready(way(x))
