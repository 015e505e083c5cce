"""Output memory that is used again. Fresh pages cost more than most kernels, so a large block comes back when its array dies.

The base of an array from `empty` is its owner: an array of the bytes of a block, made for this one loan. Every view of the
array, every memoryview, every tensor that shares it keeps the owner alive; when the last is gone, a weak reference to the owner
brings the block back. It does so without a line of Python: a finaliser in Python would be where Ctrl-C is heard, and Python
forgets what is raised there. The next call finds what came back.

Blocks are memoryviews: of an array whose base is another array, NumPy makes that one the base, and the owner would be gone.

There is no lock: an owner may die, and a finaliser of somebody else may ask for memory, inside a garbage collection at any
point of this very file. Append and pop are whole operations, and only they move a block; so a block is in one hand at any
time.
"""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from operator import attrgetter, mul
from typing import Any

import numpy as np

from windowgrad.kernels.runtime.threads import checked, from_environment

VARIABLE = "WINDOWGRAD_BUFFER_CAP"
DEFAULT_CAP = 256 << 20
LEAST = 1 << 20  # bytes; for less, the memory allocator's own recycling is as good
ALIGNMENT = 64  # a cache line, and the widest vector
SIZE = attrgetter("size")

BYTE = np.dtype(np.uint8)

Array = np.ndarray[Any, Any]
Block = tuple[memoryview, int]
"""Memory, and where a line of the cache begins in it."""


def size_class(size: int) -> int:
    """`size` rounded up to one of four sizes per doubling, so that nearly equal outputs share their blocks."""
    step = 1 << max(size.bit_length() - 3, 0)
    return -(-size // step) * step


def new_block(size: int) -> Block:
    memory = np.empty(size + ALIGNMENT, BYTE)
    return memory.data, -memory.ctypes.data % ALIGNMENT


class Loan(weakref.ref[Array]):
    """A block that comes back when its owner dies, unless the loan was forgotten before."""

    __slots__ = ("block", "size", "time")

    block: Block
    size: int
    time: int


class Pool:
    """Blocks by size, idle or lent: together at most `cap` bytes, so that what comes back is no more. The oldest go first."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        sizes, largest = [LEAST], min(cap, sys.maxsize)  # no array is larger, whatever the cap
        while sizes[-1] < largest:
            sizes.append(size_class(sizes[-1] + 1))
        self.idle: dict[int, list[Block]] = {size: [] for size in sizes if size <= largest}  # never gains or loses a size
        self.used = dict.fromkeys(self.idle, 0)
        self.loans: dict[int, Loan] = {}  # by when they were made
        self.returned: deque[Loan] = deque()  # of owners that died
        self.clock = count(1)

    def take(self, size: int) -> Array:
        """The owner of a block."""
        self.settle()
        self.used[size] = now = next(self.clock)
        fresh = False
        try:
            block = self.idle[size].pop()
        except IndexError:
            block, fresh = new_block(size), True
        owner = np.frombuffer(block[0], BYTE, size, block[1])
        loan = Loan(owner, self.returned.append)  # in C: no line of Python runs when an owner dies
        loan.block, loan.size, loan.time = block, size, now
        self.loans[now] = loan
        while fresh and self.idle_bytes() + self.lent_bytes() > self.cap:  # what was idle and is lent is no more than before
            self.drop_oldest()
        return owner

    def settle(self) -> None:
        """What came back is idle from now on."""
        while True:
            try:
                loan = self.returned.popleft()
            except IndexError:
                return
            if self.loans.pop(loan.time, None) is not None:
                self.idle[loan.size].append(loan.block)

    def drop_oldest(self) -> None:
        """Free a block of the size asked for longest ago, or forget the oldest loan: its block is freed with its array."""
        size = min((size for size, blocks in self.idle.items() if blocks), key=self.used.__getitem__, default=None)
        loan = min(list(self.loans), default=None)
        if size is not None and (loan is None or self.used[size] < loan):
            with suppress(IndexError):  # somebody else took it: as good
                self.idle[size].pop()
        elif loan is not None:
            self.loans.pop(loan, None)

    def idle_bytes(self) -> int:
        self.settle()
        return sum(map(mul, self.idle, map(len, self.idle.values())))

    def lent_bytes(self) -> int:
        return sum(map(SIZE, list(self.loans.values())))

    def close(self) -> None:
        """Free what is idle, now and whenever a block still lent comes back."""
        self.cap = 0
        self.loans.clear()
        for blocks in self.idle.values():
            blocks.clear()


pool: Pool | None = None


def current_pool() -> Pool:
    global pool
    if pool is None:
        pool = Pool(from_environment(VARIABLE, DEFAULT_CAP, 0))
    return pool


def maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[..., Array]:
    """What makes a new array of this kind in the shortest time: `empty` if it is large."""
    return empty if math.prod(shape) * dtype.itemsize >= LEAST else np.empty


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """A new C-ordered array with arbitrary contents, like `numpy.empty`; a large one may stand in memory used before."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < LEAST or kind.hasobject:
        return np.empty(shape, kind)
    size, lender = size_class(size), current_pool()
    return np.ndarray(shape, kind, lender.take(size)) if size <= lender.cap else np.empty(shape, kind)


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
