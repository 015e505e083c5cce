"""Calls that are ready to be made, of floats of 16 bits: those for float32, between kernels that make cells float32 and round.

They give what `entry` gives, which changes cells by the same kernels (`vector.halves`).

What stands in the caches is changed as a whole. Of a large array, a few planes at a time are: their copies stay in the second
cache, and threads share the pieces.

Measured, two threads, 2×2 maxima of float16 with a stride of 2 on 32×64×112×112: 3.1 ms, with channels last 2.7; as blocks of
`entry` 9.7 and 21. Pieces of 2¹⁶ cells, of which Python is the greater part, took 2.2 times as long as those of 2¹⁹, pieces of
2²¹ 1.4 times. Kernels that read floats of 16 bits themselves take 1.2 and 1.5 ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from windowgrad.dtypes import is_half
from windowgrad.geometry import Global
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.blocks import COPIED
from windowgrad.kernels.pool.layout import out_shape
from windowgrad.kernels.pool.small import Kind, Ready
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.halves import SINGLE, ready_changer, seen_as
from windowgrad.params import PoolParams

LARGE = 1 << 21
"""Cells of an array that is changed in pieces."""

PIECE = 1 << 19
"""Cells of a piece, about."""

Change = Callable[..., Array]
Reads = Callable[[PoolParams, Any], bool]
"""Whether a vjp of these parameters reads the cells of x, where this was saved."""


def never(params: PoolParams, saved: Any) -> bool:
    return False


def always(params: PoolParams, saved: Any) -> bool:
    return True


def unless_saved(params: PoolParams, saved: Any) -> bool:
    """Winners of windows say all; of a whole plane, there may be others that equal the one that was saved."""
    return saved is None or isinstance(params.geometry, Global)


def halving(
    prepare: Callable[..., Ready | None],
    reads: Reads = always,
    direct: Callable[..., Ready | None] | None = None,
    again: Ready | None = None,
) -> Callable[..., Ready | None]:
    """What prepares an operator's rules for arrays of these kinds, those of floats of 16 bits too.

    `direct` prepares kernels that read and write these themselves; where they need what was saved and nothing was, `again` is
    the vjp.
    """

    def prepared(rule: str, params: PoolParams, *kinds: Kind) -> Ready | None:
        if (dtype := half_of(kinds)) is None:
            return prepare(rule, params, *kinds)
        if direct is not None and (ready := direct(rule, params, *kinds)) is not None:
            return seeing(rule, ready, dtype, None if again is None else partial(again, params))
        return by_single(rule, params, dtype, *kinds)

    def by_single(rule: str, params: PoolParams, dtype: np.dtype[Any], *kinds: Kind) -> Ready | None:
        shape, lead = kinds[0][0], params.geometry.split(kinds[0][0])[0]
        planes, tails = math.prod(lead), [shape[len(lead) :] for shape, _ in kinds]

        def made(*lead: int) -> Ready | None:
            ready = prepare(rule, params, *[((*lead, *tail), SINGLE) for tail in tails])
            widen = [ready_changer((*lead, *tail), dtype, SINGLE) for tail in tails]
            cells = (*lead, *tails[0]) if rule == "vjp" else out_shape(params.geometry, (*lead, *tails[0]))
            narrow = ready_changer(cells, SINGLE, dtype)
            return None if ready is None else between(rule, params, ready, widen, narrow, reads)

        if (size := piece_of(shape, planes)) == planes:
            return made(*lead) if math.prod(shape) <= COPIED else None
        found = in_pieces(planes, size, [np.zeros((size, *tail), dtype) for tail in tails], made)
        return None if found is None else over_lead(rule, found, len(lead))

    return prepared


def halving_last(
    prepare_last: Callable[..., Ready | None],
    reads: Reads = always,
    direct: Callable[..., Ready | None] | None = None,
    again: Ready | None = None,
) -> Callable[..., Ready | None]:
    """The same for arrays with these shapes, dtypes and strides, whose cells are in a row in some order of the axes."""

    def prepared(rule: str, params: PoolParams, *arrays: Array) -> Ready | None:
        if (dtype := half_of([(array.shape, array.dtype) for array in arrays])) is None:
            return prepare_last(rule, params, *arrays)
        if direct is not None and (ready := direct(rule, params, *arrays)) is not None:
            return seeing(rule, ready, dtype, None if again is None else partial(again, params))
        return by_single(rule, params, dtype, *arrays)

    def by_single(rule: str, params: PoolParams, dtype: np.dtype[Any], *arrays: Array) -> Ready | None:
        if not all(array.transpose(in_memory(array)).flags.c_contiguous for array in arrays):
            return None
        shape = arrays[0].shape
        images = shape[0] if len(shape) > params.geometry.rank + 1 else 1

        def made(count: int) -> Ready | None:
            singles = [np.zeros_like(array[:count], SINGLE) for array in arrays]
            ready = prepare_last(rule, params, *singles)
            if ready is None:
                return None
            found = ready(*singles)  # whose order in memory is that of every such call
            result = found[0] if type(found) is tuple else found
            widen = [ready_changer(each.shape, dtype, SINGLE, in_memory(each)) for each in singles]
            return between(rule, params, ready, widen, ready_changer(result.shape, SINGLE, dtype, in_memory(result)), reads)

        if (size := piece_of(shape, images)) == images:
            return made(len(arrays[0])) if math.prod(shape) <= COPIED else None
        return over_lead(rule, in_pieces(images, size, [np.zeros_like(array[:size]) for array in arrays], made), 1)

    return prepared


def seeing(rule: str, call: Ready, dtype: np.dtype[Any], unsaved: Ready | None = None) -> Ready:
    """A call of kernels that see floats of 16 bits, for arrays of them; `unsaved` is the vjp where nothing was saved."""
    seen = seen_as(dtype)
    if rule == "vjp":

        def pull(x: Array, g: Array, saved: Array | None = None) -> Any:
            if saved is None and unsaved is not None:
                return unsaved(x, g)
            told = () if saved is None else (saved,)
            return (call(x.view(seen), g.view(seen), *told)[0].view(dtype),)

        return pull
    if rule == "forward":
        return lambda x, *out: call(x.view(seen), *(y.view(seen) for y in out)).view(dtype)

    def name(x: Array) -> tuple[Array, Array]:
        y, found = call(x.view(seen))
        return y.view(dtype), found

    return name


def half_of(kinds: Sequence[Kind]) -> np.dtype[Any] | None:
    """The dtype of all, if it is one of the floats of 16 bits."""
    dtype = kinds[0][1]
    return dtype if is_half(dtype) and all(other == dtype for _, other in kinds) else None


def piece_of(shape: tuple[int, ...], parts: int) -> int:
    """How many of the parts of an array are a piece; all, if it is not cut."""
    size = math.prod(shape)
    return parts if size < LARGE else min(parts, max(1, PIECE * parts // size))


def between(rule: str, params: PoolParams, ready: Ready, widen: Sequence[Change], narrow: Change, reads: Reads) -> Ready:
    """The call of float32 between the changes of its arrays and that of its first result, which may have a place."""
    if rule == "forward":
        (widen_x,) = widen
        return lambda x, out=None: narrow(ready(widen_x(x)), out)
    if rule == "jvp":
        widen_x, widen_dx = widen
        return lambda x, dx, out=None: narrow(ready(widen_x(x), widen_dx(dx)), out)
    if rule == "vjp":
        widen_x, widen_g = widen

        def pull(x: Array, g: Array, saved: Array | None = None, out: Array | None = None) -> tuple[Array]:
            cells, told = widen_x(x) if reads(params, saved) else x, () if saved is None else (saved,)
            return (narrow(ready(cells, widen_g(g), *told)[0], out),)

        return pull
    (widen_x,) = widen

    def name(x: Array, out: Array | None = None) -> tuple[Array, Array]:
        y, found = ready(widen_x(x))
        return narrow(y, out), found

    return name


def in_pieces(parts: int, size: int, likes: Sequence[Array], made: Callable[[int], Ready | None]) -> Ready | None:
    """The call of a rule for arrays of so many parts, their first axis, `size` of them at a time; `made` gives that of a piece.

    `likes` are arrays as a piece has them, by which the shapes of its results and their order in memory are found.
    """
    whole, rest = made(size), made(parts % size) if parts % size else None
    if whole is None or (parts % size and rest is None):
        return None
    found, count, work = whole(*likes), -(-parts // size), sum(each.nbytes for each in likes) * parts // size
    several = type(found) is tuple
    results = [(each.shape[1:], each.dtype, in_memory(each)) for each in (found if several else (found,))]

    def call(*given: Array | None, out: Array | None = None) -> Any:
        made = [placed((parts, *shape), dtype, order) for shape, dtype, order in results]
        if out is not None:
            made[0] = out

        def task(first: int, last: int) -> None:
            for number in range(first, last):
                low, high = number * size, min((number + 1) * size, parts)
                compute: Any = whole if high - low == size else rest
                found = compute(*[None if each is None else each[low:high] for each in given], out=made[0][low:high])
                for each, piece in zip(made[1:], found[1:] if several else (), strict=True):
                    each[low:high] = piece

        run(task, count, work)
        return tuple(made) if several else made[0]

    return call


def in_memory(x: Array) -> tuple[int, ...]:
    """The axes of an array in the order of memory."""
    return tuple(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))


def placed(shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...]) -> Array:
    """New memory for an array whose axes have this order."""
    return empty(tuple([shape[axis] for axis in order]), dtype).transpose(np.argsort(order))


def over_lead(rule: str, call: Ready | None, axes: int) -> Ready | None:
    """A call for arrays of parts, for arrays with so many axes in the place of their first."""
    if call is None:
        return None

    def parted(x: Array | None) -> Array | None:
        return x if x is None or axes == 1 else x.reshape(-1, *x.shape[axes:])

    def whole(x: Array, *others: Array | None, out: Array | None = None) -> Any:
        found, lead = call(*map(parted, (x, *others)), out=parted(out)), x.shape[:axes]
        if type(found) is tuple:
            return tuple([each.reshape(*lead, *each.shape[1:]) for each in found])
        return found.reshape(*lead, *found.shape[1:])

    return whole if rule != "forward" else lambda x, out=None: whole(x, out=out)
