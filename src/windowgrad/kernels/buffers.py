"""Output memory that is used again. Fresh pages cost more than most kernels, so a large block comes back when its array dies.

An array from `empty` is a view of a block that an `Owner` lends it. Every view of the array, every memoryview, every tensor
that shares it keeps the owner alive; when the last is gone, the owner gives the block back. There is no lock: an owner may
die inside a garbage collection, at any point of this very file. A list's append and pop are whole operations, and only
they move a block; so a block is in one hand at any time.
"""

from __future__ import annotations

import math
import os
import sys
from itertools import count
from typing import Any

import numpy as np

from windowgrad.kernels.threads import checked, from_environment

VARIABLE = "WINDOWGRAD_BUFFER_CAP"
DEFAULT_CAP = 256 << 20
LEAST = 1 << 20  # bytes; for less, the memory allocator's own recycling is as good
ALIGNMENT = 64  # a cache line, and the widest vector

Array = np.ndarray[Any, Any]
Block = np.ndarray[Any, np.dtype[np.uint8]]


def size_class(size: int) -> int:
    """`size` rounded up to one of four sizes per doubling, so that nearly equal outputs share their blocks."""
    step = 1 << max(size.bit_length() - 3, 0)
    return -(-size // step) * step


class Pool:
    """Idle blocks by size: at most `cap` bytes once every return is done; the sizes asked for longest ago go first."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        sizes, largest = [LEAST], min(cap, sys.maxsize)  # no array is larger, whatever the cap
        while sizes[-1] < largest:
            sizes.append(size_class(sizes[-1] + 1))
        self.idle: dict[int, list[Block]] = {size: [] for size in sizes if size <= largest}  # never gains or loses a size
        self.used = dict.fromkeys(self.idle, 0)
        self.clock = count(1)

    def take(self, size: int) -> Block:
        self.used[size] = next(self.clock)
        try:
            return self.idle[size].pop()
        except IndexError:
            return np.empty(size + ALIGNMENT, np.uint8)

    def give(self, block: Block) -> None:
        size = block.size - ALIGNMENT
        self.idle[size].append(block)
        while self.idle_bytes() > self.cap:  # looked at after the append: of several at once, the last one sees them all
            self.drop_one()

    def drop_one(self) -> None:
        oldest = min((size for size, blocks in self.idle.items() if blocks), key=self.used.__getitem__, default=None)
        try:
            if oldest is not None:
                self.idle[oldest].pop()
        except IndexError:
            pass  # somebody else took it: as good

    def idle_bytes(self) -> int:
        return sum(size * len(blocks) for size, blocks in self.idle.items())

    def close(self) -> None:
        """Free what is idle, now and whenever a block still lent comes back."""
        self.cap = 0
        for blocks in self.idle.values():
            blocks.clear()


class Owner:
    """Lends one block to one array. It is the array's base, which NumPy keeps alive for the array and all views of it."""

    __slots__ = ("block", "pool")

    def __init__(self, pool: Pool, size: int) -> None:
        self.pool = pool
        self.block: Block | None = pool.take(size)

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.ndarray(shape, dtype, buffer=np.asarray(self))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.block is None:
            raise AttributeError("the block has been given back")
        start = -(-self.block.__array_interface__["data"][0] // ALIGNMENT) * ALIGNMENT
        return {"version": 3, "shape": (self.block.size - ALIGNMENT,), "typestr": "|u1", "data": (start, False)}

    def __del__(self) -> None:
        block, self.block = self.block, None
        if block is not None:
            self.pool.give(block)


pool: Pool | None = None


def current_pool() -> Pool:
    global pool
    if pool is None:
        pool = Pool(from_environment(VARIABLE, DEFAULT_CAP, 0))
    return pool


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """A new C-ordered array with arbitrary contents, like `numpy.empty`; a large one may stand in memory used before."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < LEAST or kind.hasobject:
        return np.empty(shape, kind)
    size, lender = size_class(size), current_pool()
    return Owner(lender, size).lend(shape, kind) if size <= lender.cap else np.empty(shape, kind)


def get_buffer_cap() -> int:
    """The bytes of idle output memory kept for re-use: as set, else by WINDOWGRAD_BUFFER_CAP, else 256 MiB."""
    return current_pool().cap


def set_buffer_cap(size: int) -> None:
    """Keep at most `size` bytes of idle output memory from now on; what is idle now is freed. 0 switches recycling off."""
    replace_pool(checked("size", size, 0, None))


def replace_pool(cap: int) -> None:
    global pool
    old, pool = pool, Pool(cap)
    if old is not None:
        old.close()


def start_anew() -> None:
    """In a forked child: idle blocks would have to be copied on their first write, so they are no gain."""
    if pool is not None:
        replace_pool(pool.cap)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=start_anew)
