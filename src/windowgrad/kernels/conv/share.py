"""How the threads of a convolution share it: each gets scratch memory of its own, and writes cells that no other one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np

from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.runtime.threads import MOST_THREADS, get_num_threads, is_worth, over, repeated, run, state
from windowgrad.kernels.vector.atomic import exchange
from windowgrad.kernels.vector.registers import WIDE_BYTES


def shared(task: Callable[[int, int], int], count: int, work: int) -> int:
    """The strange lanes (see HUGE) of all shares of range(count); `work` as in `threads.run`.

    A share `task(first, last)` neither writes nor reads a cell of the result that belongs to another share. A kernel and its
    first arguments (`partial`) are shared without Python.
    """
    if type(task) is partial:
        return over(task.func, task.args, count, work)
    strange = [0]
    run(lambda first, last: strange.append(task(first, last)), count, work)
    return reduce(or_, strange)


def helpers(work: int) -> int:
    """How many threads may share so much work."""
    return 1 if not is_worth(work) or state.inside else get_num_threads()


def sharing(kernel: Any, count: int, threads: int) -> Callable[..., int]:
    """`shared` for so many threads, as a function of the first arguments of a kernel; their types are always the same."""
    return repeated(kernel, count, threads)


def by_threads(work: int, make: Callable[[int], Callable[..., int]]) -> Callable[..., int]:
    """What `make` makes for as many threads as share so much work now; how many that are may change between calls."""
    if not is_worth(work):
        return make(1)
    made: dict[int, Callable[..., int]] = {}

    def call(*arrays: Array) -> int:
        threads = helpers(work)
        found = made.get(threads)
        if found is None:
            found = made[threads] = make(threads)
        return found(*arrays)

    return call


PARTS = 2
"""Of the work, for each thread: who comes late or is interrupted does less."""


def parts(units: int, work: int) -> int:
    """Into how many parts so many units of work are cut. A kernel is told of them, and each has scratch memory of its own."""
    return parts_for(units, helpers(work))


def parts_for(units: int, threads: int) -> int:
    """The same for so many threads."""
    return 1 if threads == 1 else min(units, PARTS * threads)


@helper
def part_begin(units: int, parts: int, part: int) -> int:
    """The first unit of a part."""
    return units * part // parts


@helper
def take_slot(taken: Any, slots: int) -> int:
    """The number of a slot of scratch memory that no other thread has. With more threads than slots, one waits for another."""
    slot = 0
    while exchange(taken, slot, 1) != 0:
        slot = (slot + 1) % slots
    return slot


@helper
def leave_slot(taken: Any, slot: int) -> None:
    exchange(taken, slot, 0)


class Room(threading.local):
    """The scratch memory of a thread, kept for its next call; helpers use slots of it, of which `taken` says who has one."""

    cells: Array = np.empty(0, np.uint8)
    lists: Array = np.empty(0, np.int64)

    def __init__(self) -> None:
        self.taken: Array = np.zeros(MOST_THREADS, np.int64)
        self.views: dict[Any, Array] = {}

    def get(self, count: int, dtype: Any, listed: int = 0) -> tuple[Array, Array]:
        """At least `count` cells that begin on a cache line, and `listed` integers; their contents are arbitrary.

        Fresh cells are 0: tiles that are partly empty multiply what is there, and what the memory allocator leaves, such as
        addresses, is denormal as numbers: a weight gradient of 8 channels took 3 to 9 times as long until that was overwritten.
        """
        cells = self.views.get(dtype)
        if cells is None or cells.size < count:
            cells = self.views[dtype] = self.view(count * np.dtype(dtype).itemsize, dtype)
        if self.lists.size < listed:
            self.lists = np.empty(listed, np.int64)
        return cells, self.lists

    def view(self, need: int, dtype: Any) -> Array:
        """All cells as numbers of this dtype; more of them, if there are fewer bytes."""
        if self.cells.size < need:
            raw = np.zeros(need + WIDE_BYTES, np.uint8)
            start = -raw.ctypes.data % WIDE_BYTES
            self.cells, self.views = raw[start : start + need], {}
        return self.cells[: self.cells.size // 8 * 8].view(dtype)


room = Room()
