"""The same cells in another arrangement: Reshape, Transpose, Concat, Split, Pad, Tile and their like."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from windowgrad.autograd.arrays import concatenate, reshape, transpose
from windowgrad.autograd.arrays.indexing import index
from windowgrad.autograd.arrays.records import axes_of, axis_of, broadcast
from windowgrad.autograd.arrays.rules import broadcast_to
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.functional import pad
from windowgrad.onnx.graph import Node
from windowgrad.onnx.kinds import number as exact_beside
from windowgrad.onnx.operators.values import all_axes, choice, dtype_in, given, integers, number, required, sizes_of

BORDERS = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def reshaped(node: Node, x: Any, shape: Any = None) -> Any:
    """0 keeps the size of x there, unless `allowzero`; −1 is what is left."""
    wanted = required(node, "shape", shape)
    if node.get("allowzero", 0):
        if 0 in wanted and -1 in wanted:
            raise WindowError(f"shape={show(wanted)}: must not have both 0 and −1 with allowzero=1")
        return reshape(x, wanted)
    for axis, n in enumerate(wanted):
        if n == 0 and axis >= len(x.shape):
            raise WindowError(f"shape={show(wanted)}: x of shape {tuple(x.shape)} has no size on axis {axis} that 0 could keep")
    sizes = [n or x.shape[axis] for axis, n in enumerate(wanted)]
    if sizes.count(-1) == 1 and 0 in x.shape:  # the sizes that are kept say nothing of what is left, should one of them be 0
        cells = math.prod(n for axis, n in enumerate(x.shape) if wanted[axis : axis + 1] != (0,))
        known = math.prod(n for n in wanted if n > 0)
        sizes[sizes.index(-1)] = -1 if cells % known else cells // known
    return reshape(x, tuple(sizes))


def flattened(node: Node, x: Any) -> Any:
    """Two axes: all before `axis`, and all from it on."""
    shape, axis = tuple(x.shape), node.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise WindowError(f"axis={axis}: must be from {-len(shape)} to {len(shape)} for x of shape {shape}")
    axis = axis + len(shape) if axis < 0 else axis
    return reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def transposed(node: Node, x: Any) -> Any:
    return transpose(x, node.get("perm"))


def squeezed(node: Node, x: Any, axes: Any = None) -> Any:
    """Without the axes of length 1, or those of them that are named."""
    shape, wanted = tuple(x.shape), given(node, "axes", axes)
    gone = [axis for axis, n in enumerate(shape) if n == 1] if wanted is None else axes_of("axes", wanted, shape)
    for axis in gone:
        if shape[axis] != 1:
            raise WindowError(f"axes={show(wanted)}: axis {axis} of x of shape {shape} must have length 1")
    return reshape(x, tuple(n for axis, n in enumerate(shape) if axis not in gone))


def unsqueezed(node: Node, x: Any, axes: Any = None) -> Any:
    """With axes of length 1 at these places of the result."""
    wanted = required(node, "axes", axes)
    rank = len(x.shape) + len(wanted)
    for axis in wanted:
        if not -rank <= axis < rank:
            raise WindowError(f"axes={show(wanted)}: must be from {-rank} to {rank - 1}, the axes of the result")
    new = {axis % rank for axis in wanted}
    if len(new) < len(wanted):
        raise WindowError(f"axes={show(wanted)}: must not name an axis twice")
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if axis in new else next(sizes) for axis in range(rank)))


def concatenated(node: Node, *xs: Any) -> Any:
    if (axis := node.get("axis")) is None:
        raise OptionError("axis: must be given")
    return concatenate(xs, axis)


def split(node: Node, x: Any, sizes: Any = None) -> tuple[Any, ...]:
    """Parts of the given sizes along an axis, or of one size; only the last may be smaller, and from opset 18 on."""
    shape, count = tuple(x.shape), len(node.outputs)
    axis = axis_of("axis", node.get("axis", 0), shape)
    parts = given(node, "split", sizes)
    if parts is None:
        parts = even_parts(node, shape[axis], count)
    if len(parts) != count or sum(parts) != shape[axis] or min(parts, default=0) < 0:
        wanted = f"must be {count} sizes that add up to {shape[axis]}, the size of x on axis {axis}"
        raise WindowError(f"split={show(parts)}: {wanted}")
    ends = accumulate(parts)
    return tuple(along(x, axis, slice(end - n, end)) for n, end in zip(parts, ends, strict=True))


def even_parts(node: Node, n: int, count: int) -> tuple[int, ...]:
    if node.opset < 18:
        if n % count:
            raise WindowError(f"split: must be given, since size {n} is not divisible by the number of outputs, {count}")
        return (n // count,) * count
    if (asked := node.get("num_outputs", count)) != count:
        raise OptionError(f"num_outputs={asked}: must be {count}, the number of outputs")
    size = -(-n // count)
    if n - size * (count - 1) < 0:
        raise WindowError(f"num_outputs={count}: {count - 1} parts of size {size} are more than the size {n}")
    return (*(size,) * (count - 1), n - size * (count - 1))


def along(x: Any, axis: int, entry: Any) -> Any:
    """x with one entry of an index, on `axis`."""
    return index(x, (*[slice(None)] * axis, entry))


def padded(node: Node, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    """Cells before and after the given axes. Negative pads remove cells; they are removed before any are added."""
    shape = tuple(x.shape)
    mode = BORDERS[choice(node, "mode", tuple(BORDERS), "constant")]
    wanted = required(node, "pads", pads)
    where = all_axes(None if axes is None else integers("axes", axes), shape)
    if len(wanted) != 2 * len(where):
        raise WindowError(f"pads={show(wanted)}: must have {2 * len(where)} entries, two for each of {len(where)} axes")
    sides = dict(zip(where, zip(wanted[: len(where)], wanted[len(where) :], strict=True), strict=True))
    for axis, pair in sides.items():
        if shape[axis] + sum(pair) < 0 or shape[axis] + min(*pair, 0) < 0:
            raise WindowError(f"pads={show(wanted)}: {pair} remove more cells than axis {axis} of x of shape {shape} has")
    x = index(x, tuple(slice(max(0, -lo), n - max(0, -hi)) for n, (lo, hi) in zip(shape, pairs(sides, shape), strict=True)))
    more = [(max(0, lo), max(0, hi)) for lo, hi in pairs(sides, shape)]
    first = next((axis for axis, pair in enumerate(more) if any(pair)), len(more))
    if first == len(more):
        return x
    filler = constant_of(node, x, value)
    if mode == "constant" and 0 in x.shape:
        return np.full([n + lo + hi for n, (lo, hi) in zip(x.shape, more, strict=True)], filler, dtype_in(x))
    return pad(x, more[first:], mode, filler)  # type: ignore[arg-type]  # one of the four


def pairs(sides: Mapping[int, tuple[int, int]], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [sides.get(axis, (0, 0)) for axis in range(len(shape))]


def constant_of(node: Node, x: Any, value: Any) -> Any:
    """What is padded with: an input, or an attribute before opset 11."""
    if value is None:
        return exact_beside(node.get("value", 0.0), x)
    found = number("constant_value", value)
    return found.item() if isinstance(found, np.generic) else found


def expanded(node: Node, x: Any, shape: Any) -> Any:
    """Repeated along axes of length 1 and along new ones in front."""
    return broadcast_to(x, broadcast("x of shape {} and shape={}", tuple(x.shape), sizes_of("shape", shape)))


def tiled(node: Node, x: Any, repeats: Any) -> Any:
    """The whole of x, so often along each axis."""
    shape, counts = tuple(x.shape), integers("repeats", repeats)
    if len(counts) != len(shape) or min(counts, default=0) < 0:
        raise WindowError(f"repeats={show(counts)}: must be a number of at least 0 for each axis of x of shape {shape}")
    places: list[tuple[int, int]] = []  # size before and after, of x with an axis of length 1 before those that are repeated
    for n, count in zip(shape, counts, strict=True):
        places += [(n, n)] if count == 1 else [(1, count), (n, n)]
    apart = broadcast_to(reshape(x, [n for n, _ in places]), tuple(n for _, n in places))
    return reshape(apart, tuple(n * count for n, count in zip(shape, counts, strict=True)))


def depth_to_space(node: Node, x: Any) -> Any:
    """Blocks of channels as squares of cells; the block is the outer part of the channels (DCR) or the inner (CRD)."""
    size, shape = blocks(node, x)
    outer = choice(node, "mode", ("DCR", "CRD"), "DCR") == "DCR"
    n, channels, height, width = shape
    if channels % size**2:
        raise WindowError(f"blocksize={size}: the {channels} channels of x of shape {shape} must be divisible by {size**2}")
    depth = channels // size**2
    if outer:
        y = transpose(reshape(x, (n, size, size, depth, height, width)), (0, 3, 4, 1, 5, 2))
    else:
        y = transpose(reshape(x, (n, depth, size, size, height, width)), (0, 1, 4, 2, 5, 3))
    return reshape(y, (n, depth, height * size, width * size))


def space_to_depth(node: Node, x: Any) -> Any:
    """Squares of cells as blocks of channels."""
    size, shape = blocks(node, x)
    n, channels, height, width = shape
    if height % size or width % size:
        raise WindowError(f"blocksize={size}: the plane of x of shape {shape} must be divisible by it")
    y = transpose(reshape(x, (n, channels, height // size, size, width // size, size)), (0, 3, 5, 1, 2, 4))
    return reshape(y, (n, channels * size**2, height // size, width // size))


def blocks(node: Node, x: Any) -> tuple[int, tuple[int, ...]]:
    size, shape = node.get("blocksize"), tuple(x.shape)
    if not isinstance(size, int) or size < 1:
        raise OptionError(f"blocksize={show(size)}: must be at least 1")
    if len(shape) != 4:
        raise WindowError(f"x of shape {shape}: must have 4 axes: batch, channels, height, width")
    return size, shape


TABLE: dict[str, Callable[..., Any]] = {
    "Concat": concatenated,
    "DepthToSpace": depth_to_space,
    "Expand": expanded,
    "Flatten": flattened,
    "Pad": padded,
    "Reshape": reshaped,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeezed,
    "Tile": tiled,
    "Transpose": transposed,
    "Unsqueeze": unsqueezed,
}
