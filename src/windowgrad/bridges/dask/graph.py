"""Tasks: blocks of arrays cut and joined, and partial results combined in a tree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from windowgrad.bridges.dask.cuts import Cut, bounds
from windowgrad.geometry import Range

Key = tuple[Any, ...]
Tasks = dict[Any, Any]

FAN = 8
"""How many partial results are combined at a time."""


@dataclass(frozen=True)
class Job:
    """One chunk of one axis of a result: how long it is, the range it needs of each operand, and what its task is told."""

    size: int
    ranges: tuple[Range, ...]
    cut: Cut | None = None


@dataclass(frozen=True)
class Block:
    """What the task of one block is told: the jobs of its axes. It is no tuple, which a graph would look into."""

    jobs: tuple[Job, ...]

    @property
    def cuts(self) -> tuple[Cut, ...]:
        return tuple(job.cut for job in self.jobs if job.cut is not None)


@dataclass(frozen=True)
class Operand:
    """An array that tasks need: the range `part` of each job, the block that stands where the result's does, or all of it."""

    array: Any
    part: int | None = None
    same: bool = False


def kept(sizes: Sequence[int], operands: int) -> list[Job]:
    """The jobs of an axis that is as it was."""
    return [Job(high - low, ((low, high),) * operands) for low, high in bounds(sizes)]


# --- cutting and joining -----------------------------------------------------------------------------------------


def piece(block: Any, slices: tuple[slice, ...]) -> Any:
    """Some cells of a chunk, in memory of their own: a view would keep the whole chunk."""
    return np.ascontiguousarray(block[slices])


def joined(parts: Any, axis: int = 0) -> Any:
    """Pieces in nested lists, one level for each axis, as one array."""
    if not isinstance(parts, list):
        return parts
    arrays = [joined(each, axis + 1) for each in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis)


class Cutter:
    """Cuts one array; the tasks of cutting go into `tasks`, each once."""

    def __init__(self, array: Any, name: str, tasks: Tasks) -> None:
        self.array, self.name, self.tasks = array, name, tasks
        self.ends = [[high for _, high in bounds(sizes)] for sizes in array.chunks]

    def along(self, axis: int, wanted: Range) -> list[tuple[int, Range]]:
        """The chunks that hold the cells of a range, each with what is wanted of it."""
        ends, sizes = self.ends[axis], self.array.chunks[axis]
        found: list[tuple[int, Range]] = []
        chunk, at = min(bisect_right(ends, wanted[0]), len(ends) - 1), wanted[0]
        while True:
            start = ends[chunk] - sizes[chunk]
            low, high = at - start, min(wanted[1], ends[chunk]) - start
            if low < high or not found:
                found.append((chunk, (low, high)))
            if wanted[1] <= ends[chunk]:
                return found
            at, chunk = ends[chunk], chunk + 1

    def cut(self, wanted: Sequence[Range]) -> Any:
        """Nested lists of keys that hold the cells of a box."""
        return self.nested([self.along(axis, each) for axis, each in enumerate(wanted)], (), ())

    def nested(self, sides: list[list[tuple[int, Range]]], place: tuple[int, ...], box: tuple[Range, ...]) -> Any:
        if sides:
            return [self.nested(sides[1:], (*place, chunk), (*box, some)) for chunk, some in sides[0]]
        key = (self.array.name, *place)
        if all(some == (0, sizes[i]) for some, sizes, i in zip(box, self.array.chunks, place, strict=True)):
            return key
        new = (f"{self.name}-piece-{self.array.name}", *place, *(edge for some in box for edge in some))
        self.tasks[new] = (piece, key, tuple(slice(*some) for some in box))
        return new


class Layer:
    """Tasks that need `operands`, under one name."""

    def __init__(self, label: str, operands: Sequence[Operand], *told: Any) -> None:
        self.name = f"{label}-{tokenize(told, [(each.array.name, each.part) for each in operands])}"
        self.tasks: Tasks = {}
        self.operands = [e if e.same or e.part is not None else Operand(e.array.rechunk(-1)) for e in operands]
        self.cutters = [Cutter(each.array, self.name, self.tasks) for each in self.operands]

    def gathered(self, jobs: Sequence[Job], index: tuple[int, ...] = ()) -> Iterator[Any]:
        """Of each operand what these jobs need."""
        for operand, cutter in zip(self.operands, self.cutters, strict=True):
            if operand.part is None:
                yield (operand.array.name, *(index if operand.same else (0,) * operand.array.ndim))
            else:
                yield cutter.cut([job.ranges[operand.part] for job in jobs])

    def graph(self) -> HighLevelGraph:
        return HighLevelGraph.from_collections(self.name, self.tasks, [each.array for each in self.operands])

    def array(self, chunks: Any, dtype: Any) -> Any:
        return dask_array(self.graph(), self.name, chunks, dtype)


def dask_array(graph: HighLevelGraph, name: str, chunks: Any, dtype: Any) -> Any:
    return da.Array(graph, name, chunks, dtype=dtype)  # type: ignore[no-untyped-call]  # Dask has few types


def sizes_of(axes: Sequence[Sequence[Job]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(job.size for job in jobs) for jobs in axes)


def blocks(
    label: str, function: Callable[..., Any], axes: Sequence[Sequence[Job]], operands: Sequence[Operand], dtype: Any, told: Any
) -> Any:
    """The array whose every block is `function(block, *what it needs of the operands)`."""
    layer = Layer(label, operands, told)
    for index in product(*(range(len(jobs)) for jobs in axes)):
        jobs = tuple(axis[i] for axis, i in zip(axes, index, strict=True))
        layer.tasks[(layer.name, *index)] = (function, Block(jobs), *layer.gathered(jobs, index))
    return layer.array(sizes_of(axes), dtype)


def item(array: Any, index: int, dtype: Any) -> Any:
    """One of several arrays that the tasks of `array` give."""
    name = f"{array.name}-{index}"
    places = product(*(range(len(sizes)) for sizes in array.chunks))
    tasks: Tasks = {(name, *place): (take, (array.name, *place), index) for place in places}
    graph = HighLevelGraph.from_collections(name, tasks, [array])
    return dask_array(graph, name, array.chunks, dtype)


def take(results: Sequence[Any], index: int) -> Any:
    return results[index]


def tree(
    layer: Layer,
    found: list[Key],
    place: tuple[int, ...],
    combine: Callable[[list[Any]], Any],
    finish: Callable[..., Any],
    *told: Any,
) -> None:
    """The task of `place`: `finish(*told, everything found)`, combined some at a time."""
    level = 0
    while len(found) > 1:
        groups = [found[i : i + FAN] for i in range(0, len(found), FAN)]
        found = [(f"{layer.name}-tree", level, *place, i) for i in range(len(groups))]
        layer.tasks.update({key: (combine, group) for key, group in zip(found, groups, strict=True)})
        level += 1
    layer.tasks[(layer.name, *place)] = (finish, *told, found[0])
