"""Cells by their place: Slice, Gather, ScatterND, ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from windowgrad.autograd.arrays import add, maximum, minimum, multiply, reshape, where
from windowgrad.autograd.arrays.indexing import Cut, IndexParams, Key, Rows, index, scatter
from windowgrad.autograd.arrays.records import axis_of
from windowgrad.errors import IndexingError, KindError, WindowError, show
from windowgrad.foreign import is_followed
from windowgrad.onnx.graph import Node
from windowgrad.onnx.operators.shaping import along
from windowgrad.onnx.operators.values import Array, all_axes, choice, given, known, numbers, required


def sliced(node: Node, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    """As slices of Python, except that an end may be before the first cell of x: all ends are clamped."""
    shape = tuple(x.shape)
    first, last = required(node, "starts", starts), required(node, "ends", ends)
    along_axes = given(node, "axes", axes)
    along_axes = all_axes(tuple(range(len(first))) if along_axes is None else along_axes, shape)
    strides = given(node, "steps", steps) or (1,) * len(first)
    for name, entries in (("ends", last), ("axes", along_axes), ("steps", strides)):
        if len(entries) != len(first):
            raise WindowError(f"{name}={show(entries)}: must have {len(first)} entries, as starts={show(first)} has")
    key = [slice(None)] * len(shape)
    for start, end, axis, step in zip(first, last, along_axes, strides, strict=True):
        if step == 0:
            raise WindowError(f"steps={show(strides)}: must not have 0")
        key[axis] = clamped(start, end, step, shape[axis])
    return index(x, tuple(key))


def clamped(start: int, end: int, step: int, n: int) -> slice:
    """Negative places count from the end. Going backwards, the end may be the place before the first cell."""
    start, end = (place + n if place < 0 else place for place in (start, end))
    if step > 0:
        return slice(min(max(start, 0), n), min(max(end, 0), n), step)
    start, end = min(max(start, 0), n - 1), min(max(end, -1), n - 1)
    return slice(0, 0) if start <= end else slice(start, None if end < 0 else end, step)


def gathered(node: Node, x: Any, indices: Any) -> Any:
    """The cells of an axis that `indices` name, in the place of the axis."""
    axis = axis_of("axis", node.get("axis", 0), tuple(x.shape))
    places = known("indices", indices)
    if places.dtype.kind not in "iu":
        raise KindError(f"indices: must be integers, not {places.dtype}")
    found = along(x, axis, places.reshape(-1))  # one axis of indices is what Dask takes
    return found if places.ndim == 1 else reshape(found, (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


# --- ScatterND ---------------------------------------------------------------------------------------------------

COMBINED: dict[str, Callable[[Any, Any], Any]] = {"add": add, "mul": multiply, "max": maximum, "min": minimum}


def scattered(node: Node, x: Any, indices: Any, updates: Any) -> Any:
    """x with `updates` at the places of `indices`, the last one of a place, or combined with what is there, in their order."""
    how = choice(node, "reduction", ("none", "add", "mul", "max", "min"), "none")
    shape = tuple(x.shape)
    places, depth = places_of(indices, shape)
    wanted = (*places.shape, *shape[depth:])
    if tuple(updates.shape) != wanted:
        raise WindowError(f"updates of shape {tuple(updates.shape)}: must be {wanted}")
    rows = (int(np.prod(shape[:depth])), int(np.prod(shape[depth:])))
    cells, new = reshape(x, rows), reshape(updates, (places.size, rows[1]))
    if how == "add" and all(isinstance(each, np.ndarray) or is_followed(type(each)) for each in (x, updates)):
        key = IndexParams(Key((Rows(places.reshape(-1)), Cut())))
        return reshape(add(cells, scatter(new, key, rows)), shape)
    for sources in layers(places.reshape(-1), rows[0], how == "none"):
        found = index(new, sources.clip(0))
        cells = where((sources >= 0)[:, None], found if how == "none" else COMBINED[how](cells, found), cells)
    return reshape(cells, shape)


def places_of(indices: Any, shape: tuple[int, ...]) -> tuple[Array, int]:
    """Which row of x each update is for, and how many axes of x the rows stand for: the last axis of `indices`."""
    array = known("indices", indices)
    if array.dtype.kind not in "iu" or not array.ndim:
        raise KindError(f"indices: must be integers with at least one axis, not {array.dtype}{array.shape}")
    depth = array.shape[-1]
    if depth > len(shape):
        raise WindowError(f"indices of shape {array.shape}: {depth} places each, data of shape {shape} has {len(shape)} axes")
    sizes = np.array(shape[:depth], np.int64)
    if ((array < -sizes) | (array >= sizes)).any():
        wrong = array[((array < -sizes) | (array >= sizes)).any(axis=-1)][0]
        raise IndexingError(f"indices: {tuple(map(int, wrong))} is not a place in data of shape {shape}")
    array = np.where(array < 0, array + sizes, array)
    weights = np.array([int(np.prod(shape[axis + 1 : depth])) for axis in range(depth)], np.int64)
    return (array * weights).sum(axis=-1), depth


def layers(places: Array, count: int, only_last: bool) -> Iterator[Array]:
    """The updates in groups that name no row twice: for each row the number of its update, or −1."""
    turns = np.zeros(places.size, np.int64)
    if not only_last:
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        turns[order] = np.arange(places.size) - np.searchsorted(ordered, ordered, side="left")
    for turn in range(int(turns.max(initial=-1)) + 1):
        sources = np.full(count, -1, np.int64)
        (updates,) = np.nonzero(turns == turn)
        sources[places[updates]] = updates
        yield sources


# --- ArgMax, ArgMin ----------------------------------------------------------------------------------------------


def winner(find: Callable[..., Any], node: Node, x: Any) -> Any:
    """The place of the greatest (least) cell along an axis, of equals the first or the last."""
    x = numbers("x", x)
    axis = axis_of("axis", node.get("axis", 0), tuple(x.shape))
    if not x.shape[axis]:
        raise WindowError(f"x of shape {tuple(x.shape)}: there is no cell along axis {axis}")
    if x.dtype.name == "bfloat16":
        x = x.astype(np.float32)
    if node.get("select_last_index", 0):
        y = x.shape[axis] - 1 - find(along(x, axis, slice(None, None, -1)), axis=axis)
    else:
        y = find(x, axis=axis)
    return np.expand_dims(y, axis) if node.get("keepdims", 1) else y


TABLE: dict[str, Callable[..., Any]] = {
    "ArgMax": partial(winner, np.argmax),
    "ArgMin": partial(winner, np.argmin),
    "Gather": gathered,
    "ScatterND": scattered,
    "Slice": sliced,
}
