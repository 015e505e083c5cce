"""Making a pyramid: level after level, block after block, in bounded memory, and from where it was left when it is run again.

A block is what one chunk of a level is made from. A chunk is written under another name and then moved to its place, so
one that is there is whole; blocks whose chunks are all there are not made again. The first level is copied with the blocks
of the second, so the source is read once.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr
from dask.utils import format_bytes, parse_bytes

from windowgrad.errors import KindError, OptionError
from windowgrad.pyramid import metadata, reduce
from windowgrad.pyramid.source import Source, opened

MARK = "windowgrad"
"""The attribute by which a pyramid is known as ours, with what was asked for."""
COPIES = 3
"""How often a block is in memory, about: as read, as encoded, and what is on the way between."""
BASE = 300 << 20
"""What the libraries take."""

Box = tuple[slice, ...]


@dataclass(frozen=True)
class Work:
    """One block: cells of the level before it, and the chunk they become. The first level is copied on the way."""

    level: int
    cells: Box
    chunk: Box


@dataclass
class Pyramid:
    """The arrays of a pyramid on disk."""

    path: Path
    levels: list[metadata.Level]
    arrays: list[Any]
    source: Any
    op: str

    def work(self, level: int) -> Iterator[Work]:
        """All blocks of a level; of the first one, those that are copied because there is no second."""
        this = self.levels[level]
        grid = (range(0, n, c) for n, c in zip(this.shape, this.chunks, strict=True))
        for corner in itertools.product(*grid):
            chunk = tuple(slice(i, min(i + c, n)) for i, c, n in zip(corner, this.chunks, this.shape, strict=True))
            above = self.levels[max(level - 1, 0)].shape
            sides = zip(chunk, this.window, above, strict=True)
            yield Work(level, tuple(slice(s.start * k, min(s.stop * k, n)) for s, k, n in sides), chunk)

    def written(self, level: int, box: Box) -> bool:
        """Whether all chunks of a box are there."""
        array = self.arrays[level]
        ranges = (range(s.start // c, -(-s.stop // c)) for s, c in zip(box, array.chunks, strict=True))
        folder = self.path / str(level)
        return all((folder / array.metadata.encode_chunk_key(place)).exists() for place in itertools.product(*ranges))

    def is_done(self, work: Work) -> bool:
        return self.written(work.level, work.chunk) and (work.level != 1 or self.written(0, work.cells))

    def do(self, work: Work) -> None:
        above = self.source if work.level <= 1 else self.arrays[work.level - 1]
        cells = above[work.cells]
        if work.level <= 1:
            self.arrays[0][work.cells] = cells
        if work.level > 0:
            window, lead = self.levels[work.level].window, 0
            while lead < len(window) - 1 and window[lead] == 1:
                lead += 1
            self.arrays[work.level][work.chunk] = reduce.halved(self.op, cells, window[lead:])

    def block_bytes(self) -> int:
        """The largest block, as floats where it is pooled as floats."""
        cells = max(math.prod(c * k for c, k in zip(this.chunks, this.window, strict=True)) for this in self.levels)
        return int(cells * self.source.dtype.itemsize * COPIES + reduce.SLAB * 32)


Progress = Callable[[int, int, int], None]
"""Told (level, blocks that are done of it, all of it)."""


def build(
    source: Path,
    target: Path,
    levels: int,
    op: str,
    memory: str = "1GiB",
    axes: str | None = None,
    progress: Progress | None = None,
) -> bool:
    """Make the pyramid of the array `source` at `target`, or what is missing of it. Gives whether anything was missing."""
    if op not in reduce.REDUCTIONS:
        raise OptionError(f"op={op!r}: must be one of {', '.join(reduce.REDUCTIONS)}")
    if levels < 1:
        raise OptionError(f"levels={levels}: must be at least 1, the array itself")
    found = opened(source)
    reduce.check(op, found.array.dtype)
    names = metadata.axis_names(axes, found.names, found.array.ndim)
    pyramid = prepared(
        found, source, target, metadata.levels(found.array.shape, chunks_of(found.array), names, levels), op, names
    )
    if pyramid is None:
        return False
    workers = workers_for(pyramid, memory)
    with zarr.config.set({"async.concurrency": 2 * workers, "threading.max_workers": workers}):
        for level in range(min(1, levels - 1), levels):
            run(pyramid, level, workers, progress)
    described = found.axes if axes is None and found.axes else [described_axis(name) for name in names]
    scale, origin = found.scale or [1.0] * len(names), found.origin or [0.0] * len(names)
    group: Any = zarr.open_group(target, mode="r+")
    told = metadata.attributes(group.metadata.zarr_format, target.stem, described, pyramid.levels, op, scale, origin)
    group.attrs.update({**told, MARK: {**group.attrs[MARK], "complete": True}})
    return True


def described_axis(name: str) -> dict[str, str]:
    return {"name": name, "type": metadata.TYPES[name]}


def chunks_of(array: Any) -> tuple[int, ...]:
    return tuple(array.chunks)


def workers_for(pyramid: Pyramid, memory: str) -> int:
    """How many blocks may be in memory at a time."""
    try:
        most = parse_bytes(memory)
    except ValueError:
        raise OptionError(f"memory={memory!r}: must be a size such as 1GiB or 500MB") from None
    least = BASE + pyramid.block_bytes()
    if most < least:
        chunk = "x".join(map(str, pyramid.levels[0].chunks))
        raise OptionError(f"memory={memory}: chunks of {chunk} cells need {format_bytes(least)} at least")
    return min((most - BASE) // pyramid.block_bytes(), os.cpu_count() or 1)


# --- what is on disk ---------------------------------------------------------------------------------------------


def prepared(
    found: Source, source: Path, target: Path, levels: list[metadata.Level], op: str, names: str
) -> Pyramid | None:  # fmt: skip
    """The pyramid with all its arrays, which may be there already; None if it is complete."""
    array, here, there = found.array, source.resolve(), target.resolve()
    if there == here or here in there.parents or there in here.parents:
        raise OptionError(f"{target}: must not be in {source}, nor the other way round")
    wanted = {
        "source": source.name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "op": op,
        "axes": names,
        "levels": len(levels),
    }
    mark: Any = {MARK: {"pyramid": wanted, "complete": False}}
    group: Any = existing(target, wanted)
    if group is None:
        group = zarr.create_group(target, zarr_format=array.metadata.zarr_format, attributes=mark)
    if group.attrs[MARK]["complete"]:
        return None
    for stale in target.rglob("*.partial"):
        stale.unlink()
    arrays = [group[str(i)] if str(i) in group else made(group, str(i), level, array, names) for i, level in enumerate(levels)]
    return Pyramid(target, levels, arrays, array, op)


def existing(target: Path, wanted: dict[str, Any]) -> Any:
    """The group that is there, if it is a pyramid of the same source and options; None if there is nothing."""
    if not target.exists() or (target.is_dir() and all(each.suffix == ".partial" for each in target.iterdir())):
        return None
    try:
        group = zarr.open_group(target, mode="r+")
    except Exception as error:  # zarr raises errors of many kinds for what is no group
        raise KindError(f"{target}: exists and is no Zarr group; it is left as it is") from error
    asked: Any = group.attrs.get(MARK)
    if not isinstance(asked, dict) or asked.get("pyramid") != wanted:
        raise OptionError(f"{target}: exists and is not this pyramid; it is left as it is, choose another name")
    return group


def made(group: Any, name: str, level: metadata.Level, source: Any, names: str) -> Any:
    v3 = source.metadata.zarr_format == 3
    separated = {"name": "default" if v3 else "v2", "separator": "/"}
    return group.create_array(
        name,
        shape=level.shape,
        chunks=level.chunks,
        dtype=source.dtype,
        compressors=source.compressors,
        filters=source.filters,
        fill_value=source.fill_value,
        chunk_key_encoding=separated,
        dimension_names=list(names) if v3 else None,
        config={"write_empty_chunks": True},
    )


def run(pyramid: Pyramid, level: int, workers: int, progress: Progress | None) -> None:
    """All blocks of a level that are not done, at most `workers` of them in memory."""
    every = list(pyramid.work(level))
    missing: Sequence[Work] = [work for work in every if not pyramid.is_done(work)]
    done, todo = len(every) - len(missing), iter(missing)
    with ThreadPoolExecutor(workers) as pool:
        running: set[Future[None]] = {pool.submit(pyramid.do, work) for work in itertools.islice(todo, workers)}
        while running:
            if progress:
                progress(level, done, len(every))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for each in finished:
                each.result()
            done += len(finished)
            running |= {pool.submit(pyramid.do, work) for work in itertools.islice(todo, len(finished))}
    if progress:
        progress(level, len(every), len(every))
