"""What runs on a worker: one block of a result, by the same kernels as a whole array, with the geometry of its part.

An operator is given by its name: its record does not travel between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.bridges.dask.cuts import Cut, geometry_of, line
from windowgrad.bridges.dask.graph import Block, joined
from windowgrad.dispatch import run
from windowgrad.geometry import Sliding, index_of, place_of
from windowgrad.kernels.conv.bias_gradient import channel_sums
from windowgrad.kernels.pool.mean.entry import is_deep
from windowgrad.ops import meaning
from windowgrad.params import ConvParams, Mask, PoolParams, TransposeParams


def kept(result: Any, cuts: Sequence[Cut]) -> Any:
    return result[(..., *(cut.kept for cut in cuts))]


def nothing(shape: Sequence[int], dtype: Any) -> Any:
    """An array of which only the shape and the dtype are looked at; it takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def sides(cuts: Sequence[Cut]) -> tuple[int, ...]:
    return tuple(cut.cells[1] - cut.cells[0] for cut in cuts)


# --- pooling -----------------------------------------------------------------------------------------------------


def pool_params(params: PoolParams, spatial: Sequence[int], cuts: Sequence[Cut], **changed: Any) -> Any:
    return replace(params, geometry=geometry_of(params.geometry, spatial, cuts), **changed)


def masked(
    function: Callable[..., Any], name: str, params: PoolParams, spatial: tuple[int, ...], block: Block, *pieces: Any
) -> Any:
    """What a function of this section gives with the mask of the block, which is the last of its pieces."""
    *rest, mask = pieces
    return function(name, replace(params, where=Mask(joined(mask))), spatial, block, *rest)


def pooled(rule: str, name: str, params: PoolParams, spatial: tuple[int, ...], block: Block, *pieces: Any) -> Any:
    """Some outputs, or tangents of them."""
    cuts = block.cuts
    result = run(meaning(name), rule, pool_params(params, spatial, cuts), *map(joined, pieces))
    if rule != "with_indices":
        return kept(result, cuts)
    value, index = result
    return kept(value, cuts), in_the_whole(kept(index, cuts), spatial, cuts)


def averaged(deep: bool, dtype: Any, name: str, params: PoolParams, spatial: tuple[int, ...], block: Block, pieces: Any) -> Any:
    """Some means of `dtype`, or tangents of them, which are the means of tangents.

    Where the windows of the whole have so many cells that they are summed in float64, and those of the part have not
    (`deep`), they are summed in float64 as well.
    """
    x, cuts = joined(pieces), block.cuts
    local = pool_params(params, spatial, cuts)
    if deep and not is_deep(local.geometry, sides(cuts)):
        x = x.astype(np.float64, copy=False)
    return kept(run(meaning(name), "jvp", local, nothing(x.shape, dtype), x), cuts)


def in_the_whole(index: Any, spatial: Sequence[int], cuts: Sequence[Cut]) -> Any:
    """Flat indices of a part as flat indices of the whole plane; −1 stays."""
    place = place_of(index, sides(cuts))
    moved = [at + cut.cells[0] for at, cut in zip(place, cuts, strict=True)]
    return np.where(index < 0, index, index_of(moved, spatial))


def pulled(dtype: Any, name: str, params: PoolParams, spatial: tuple[int, ...], block: Block, *pieces: Any) -> Any:
    """The gradient of some cells. Where it does not depend on them, they are not given."""
    cuts, (*given, g) = block.cuts, map(joined, pieces)
    x = given[0] if given else nothing((*g.shape[: g.ndim - len(cuts)], *sides(cuts)), dtype)
    (gx,) = run(meaning(name), "vjp", pool_params(params, spatial, cuts), x, g)
    return kept(gx, cuts)


# --- convolution -------------------------------------------------------------------------------------------------


def conv_params(params: ConvParams, spatial: Sequence[int], cuts: Sequence[Cut]) -> Any:
    """The convolution of a part. Transposed, the cells of a cut are those of the output."""
    if not isinstance(params, TransposeParams):
        window: Any = geometry_of(params.window, spatial, cuts)
        return replace(params, window=window)
    w, padding, extra = params.window, [], []
    for axis, cut in enumerate(cuts):
        end = int(line(w, axis, spatial[axis]).ends[cut.outputs[1] - 1])
        padding.append((cut.padding[0], max(0, end - cut.cells[1])))
        extra.append(max(0, cut.cells[1] - end))
    return replace(params, window=Sliding(w.kernel, w.stride, tuple(padding), w.dilation), output_padding=tuple(extra))


def convolved(name: str, rule: str, params: ConvParams, spatial: tuple[int, ...], block: Block, *pieces: Any) -> Any:
    """Some outputs, or tangents of them."""
    return kept(run(meaning(name), rule, conv_params(params, spatial, block.cuts), *map(joined, pieces)), block.cuts)


def conv_pulled(
    name: str, params: ConvParams, spatial: tuple[int, ...], x_dtype: Any, b: Any, block: Block, weight: Any, pieces: Any
) -> Any:
    """The gradient of some cells; no cell is needed for it. `b` is the dtype of the bias, or None."""
    cuts, g = block.cuts, joined(pieces)
    local, lead, transposed = conv_params(params, spatial, cuts), g.ndim - len(cuts), isinstance(params, TransposeParams)
    channels = weight.shape[0] if transposed else weight.shape[1] * params.groups
    inside = tuple(high - low for low, high in (cut.outputs for cut in cuts)) if transposed else sides(cuts)
    x = nothing((*g.shape[: lead - 1], channels, *inside), x_dtype)
    bias = () if b is None else (nothing((g.shape[lead - 1],), b),)
    gradients = run(meaning(name), "vjp", local, x, weight, *bias, g, needs=(True, False, *(False for _ in bias)))
    return kept(gradients[0], cuts)


def summable(array: Any) -> Any:
    """Floats of 16 bits as float32: a partial sum must not be rounded to them."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else array


def weight_pulled(
    name: str, params: ConvParams, spatial: tuple[int, ...], shape: tuple[int, ...], w: Any, block: Block, *pieces: Any
) -> Any:
    """What some windows give to the gradient of the weight."""
    x, g = map(summable, map(joined, pieces))
    local, weight = conv_params(params, spatial, block.cuts), summable(nothing(shape, w))
    return run(meaning(name), "vjp", local, x, weight, g, needs=(False, True))[1]


def bias_pulled(rank: int, block: Block, pieces: Any) -> Any:
    """What some outputs give to the gradient of the bias."""
    g = joined(pieces)
    axis = g.ndim - rank - 1
    return g.sum(axis=tuple(a for a in range(g.ndim) if a != axis)) if g.dtype == object else channel_sums(g, axis)


def total(parts: list[Any]) -> Any:
    """Their sum, as float64 unless they are objects."""
    return sum(part if part.dtype == object else part.astype(np.float64) for part in parts)


def settled(dtype: Any, shape: tuple[int, ...], result: Any) -> Any:
    return result.astype(dtype).reshape(shape)
