"""x[key] as Slice and Gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.autograd.arrays.indexing import Cut, Rows
from windowgrad.autograd.program import Call
from windowgrad.onnx.exporting.functions import first
from windowgrad.onnx.exporting.writer import Graph

INT_MIN, INT_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def index(graph: Graph, call: Call, inputs: Sequence[str]) -> list[str]:
    """New axes first, then slices; what integers and arrays choose comes last."""
    params: Any = call.params
    (name,) = inputs
    entries: list[Any] = [entry for entry in params.key.entries if entry is not Ellipsis]
    left = iter(first(call).shape)
    sizes = [1 if entry is None else next(left) for entry in entries]
    if new := [place for place, entry in enumerate(entries) if entry is None]:
        name = graph.node("Unsqueeze", name, graph.integers(*new))
        entries = [Cut() if entry is None else entry for entry in entries]
    name = sliced(graph, name, entries)
    chosen = [axis for axis, entry in enumerate(entries) if not isinstance(entry, Cut)]
    arrays = [axis for axis in chosen if isinstance(entries[axis], Rows)]
    if not arrays or len(chosen) == 1:
        for axis in reversed(chosen):
            entry = entries[axis]
            at = entry.array if isinstance(entry, Rows) else np.array(entry)
            name = graph.node("Gather", name, graph.constant(at.astype(np.int64)), axis=axis)
    else:
        name = gathered(graph, name, params.key.entries, sizes, entries, chosen)
    return [name if name != inputs[0] else graph.node("Identity", name)]


def sliced(graph: Graph, name: str, entries: Sequence[Any]) -> str:
    cuts = {axis: cut for axis, cut in enumerate(entries) if isinstance(cut, Cut) and cut != Cut()}
    if not cuts:
        return name
    starts, stops, steps = zip(*map(bounds_of, cuts.values()), strict=True)
    return graph.node("Slice", name, *(graph.integers(*each) for each in (starts, stops, tuple(cuts), steps)))


def bounds_of(cut: Cut) -> tuple[int, int, int]:
    """Start, stop and step, where ONNX wants a number for each."""
    step = 1 if cut.step is None else cut.step
    ends = (0, INT_MAX) if step > 0 else (INT_MAX, INT_MIN)
    return ends[0] if cut.start is None else cut.start, ends[1] if cut.stop is None else cut.stop, step


def gathered(
    graph: Graph, name: str, key: Sequence[Any], sizes: Sequence[int], entries: Sequence[Any], chosen: list[int]
) -> str:
    """Several arrays choose together: their axes become one, the last. What is chosen goes to the place of the first array if
    they are neighbours, else to the front."""
    rest = [axis for axis in range(len(entries)) if axis not in chosen]
    name = graph.node("Transpose", name, perm=[*rest, *chosen])
    name = graph.node("Reshape", name, graph.integers(*(0,) * len(rest), -1))
    at: Any = 0
    for axis in chosen:  # from the end, an index of the first axis stays one from the end
        entry = entries[axis]
        own = entry.array if isinstance(entry, Rows) else np.array(entry)
        at = at * sizes[axis] + (own if axis == chosen[0] else own % sizes[axis])
    name = graph.node("Gather", name, graph.constant(np.asarray(at, np.int64)), axis=len(rest))
    places = [place for place, entry in enumerate(key) if isinstance(entry, (int, Rows))]
    before = chosen[0] if places[-1] - places[0] + 1 == len(places) else 0
    new = range(len(rest), len(rest) + np.ndim(at))
    return graph.node("Transpose", name, perm=[*range(before), *new, *range(before, len(rest))])
