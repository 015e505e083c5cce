"""Building a pyramid level by level and block by block, in bounded memory; an interrupted run is resumed.

A block is what one chunk of a level is made from. A chunk is written under another name and then moved to its place, so
one that is there is whole; blocks whose chunks are all there are not made again. The first level is copied with the blocks
of the second, so the source is read once. All is checked before anything is written, and that the source has not changed
again before the pyramid is called complete.
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

from windowgrad.arguments import as_int, flag
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.pyramid import metadata, reduce
from windowgrad.pyramid.identity import identity
from windowgrad.pyramid.source import Source, local, opened, reason
from windowgrad.pyramid.store import locked, writing
from windowgrad.pyramid.target import Asked, check_apart, disown, finish, is_complete, must_be_replaced, prepared

COPIES = 3
"""About how many copies of a block are in memory: as read, as encoded, and temporaries."""
BASE = 300 << 20
"""Memory of the libraries themselves."""

LEAST = -(2**63)

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
    source: Source
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

    def is_there(self) -> bool:
        """Whether all chunks of all levels are."""
        return all(self.is_done(work) for level in range(len(self.levels)) for work in self.work(level))

    def do(self, work: Work) -> None:
        if work.level <= 1:
            cells = read(self.source.array, self.source.path, work.cells)
        else:
            cells = read(self.arrays[work.level - 1], self.path / str(work.level - 1), work.cells)
        if work.level <= 1:
            with writing(self.path):
                self.arrays[0][work.cells] = cells
        if work.level > 0:
            window, lead = self.levels[work.level].window, 0
            while lead < len(window) - 1 and window[lead] == 1:
                lead += 1
            pooled = reduce.halved(self.op, cells, window[lead:])
            with writing(self.path):
                self.arrays[work.level][work.chunk] = pooled


def read(array: Any, path: Path, box: Box) -> Any:
    """The cells of a box; where they cannot be read, the error names the chunk."""
    try:
        return array[box]
    except Exception as error:  # every codec has errors of its own
        sizes = getattr(array, "shards", None) or array.chunks
        ranges = [range(s.start // c, -(-s.stop // c)) for s, c in zip(box, sizes, strict=True)]
        for place in itertools.product(*ranges):
            try:
                array[tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(place, sizes, array.shape, strict=True))]
            except Exception as own:
                file = path / array.metadata.encode_chunk_key(place)
                raise KindError(f"{file}: this chunk cannot be read ({reason(own)})") from error
        raise KindError(f"{path}: cannot be read ({reason(error)})") from error


Progress = Callable[[int, int, int], None]
"""Called with (level, finished blocks of the level, all its blocks)."""


def build(
    source: str | Path,
    target: str | Path,
    levels: int,
    op: str,
    memory: str = "1GiB",
    axes: str | None = None,
    progress: Progress | None = None,
    rebuild: bool = False,
) -> bool:
    """Build the pyramid of the array `source` at `target`, or what is missing of it. Returns whether anything was missing.

    An existing pyramid that was built from another source, from an earlier state of this one, or with other options is an
    error; with `rebuild` an existing windowgrad pyramid is replaced.
    """
    if not isinstance(op, str) or op not in reduce.REDUCTIONS:
        raise OptionError(f"op={show(op)}: must be one of {', '.join(reduce.REDUCTIONS)}")
    if as_int("levels", levels, LEAST) < 1:
        raise OptionError(f"levels={levels}: must be at least 1 (the array itself)")
    flag("rebuild", rebuild)
    here, there = local("source", source), local("target", target)
    found = opened(here)
    array = found.array
    reduce.check(op, array.dtype)
    if not math.prod(array.shape):
        raise WindowError(f"{here}: cannot build a pyramid of an empty array of shape {array.shape}")
    names = metadata.axis_names(axes, found.names, array.ndim)
    sizes = metadata.levels(array.shape, tuple(array.chunks), names, levels)
    workers = workers_for(sizes, array.dtype.itemsize, memory)
    check_apart(here, there)
    asked = {"op": op, "levels": levels, "axes": names, "shape": list(array.shape), "dtype": str(array.dtype)}
    asked["source"] = identity(found)
    with writing(there):
        must_be_replaced(there, asked, rebuild)  # refused before anything is written
    with locked(there), zarr.config.set({"async.concurrency": 2 * workers, "threading.max_workers": workers}):
        return completed(found, there, asked, sizes, workers, progress, rebuild, axes is not None)


def completed(
    found: Source,
    target: Path,
    asked: Asked,
    levels: list[metadata.Level],
    workers: int,
    progress: Progress | None,
    rebuild: bool,
    named: bool,
) -> bool:
    """The same, once all is checked and the folder is held by this process."""
    with writing(target):
        replace = must_be_replaced(target, asked, rebuild)  # again: another process may have been there in between
        group, arrays = prepared(target, asked, levels, found.array, replace)
    pyramid = Pyramid(target, levels, arrays, found, asked["op"])
    if is_complete(group) and pyramid.is_there():
        return False
    for level in range(min(1, len(levels) - 1), len(levels)):
        run(pyramid, level, workers, progress)
    if identity(found) != asked["source"]:
        with writing(target):
            disown(group)
        raise OptionError(f"{found.path}: changed while {target} was being built; run the command again to rebuild it")
    names = asked["axes"]
    described = found.axes if found.axes and not named else [{"name": name, "type": metadata.TYPES[name]} for name in names]
    scale, origin = found.scale or [1.0] * len(names), found.origin or [0.0] * len(names)
    format_ = group.metadata.zarr_format
    with writing(target):
        finish(group, metadata.attributes(format_, target.stem, described, levels, asked["op"], scale, origin))
    return True


def workers_for(levels: Sequence[metadata.Level], itemsize: int, memory: str) -> int:
    """How many blocks may be in memory at a time."""
    try:
        most = parse_bytes(memory)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise OptionError(f"memory={show(memory)}: must be a size such as 1GiB or 500MB") from None
    block = block_bytes(levels, itemsize)
    if most < BASE + block:
        chunk = "x".join(map(str, levels[0].chunks))
        raise OptionError(f"memory={memory}: chunks of {chunk} cells need at least {format_bytes(BASE + block)}")
    return min((most - BASE) // block, os.cpu_count() or 1)


def block_bytes(levels: Sequence[metadata.Level], itemsize: int) -> int:
    """The largest block, as floats where it is pooled as floats."""
    cells = max(math.prod(c * k for c, k in zip(level.chunks, level.window, strict=True)) for level in levels)
    return int(cells * itemsize * COPIES + reduce.SLAB * 32)


def run(pyramid: Pyramid, level: int, workers: int, progress: Progress | None) -> None:
    """All blocks of a level that are not done, at most `workers` of them in memory. There may be millions: none are listed."""
    count = pyramid.levels[level].blocks
    missing = ((number, work) for number, work in enumerate(pyramid.work(level)) if not pyramid.is_done(work))
    running: set[Future[None]] = set()
    passed = 0  # blocks that are done, or are being done
    with ThreadPoolExecutor(workers) as pool:
        while True:
            for number, work in itertools.islice(missing, workers - len(running)):
                running.add(pool.submit(pyramid.do, work))
                passed = number + 1
            if not running:
                break
            if progress:
                progress(level, passed - len(running), count)
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for each in finished:
                each.result()
    if progress:
        progress(level, count, count)
