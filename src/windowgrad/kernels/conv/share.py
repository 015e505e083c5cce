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
from windowgrad.kernels.runtime.threads import get_num_threads, is_worth, over, run, state
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


PARTS = 2
"""Of the work, for each thread: who comes late or is interrupted does less."""


def parts(units: int, work: int) -> int:
    """Into how many parts so many units of work are cut. A kernel is told of them, and each has scratch memory of its own."""
    threads = get_num_threads() if is_worth(work) and not state.inside else 1
    return 1 if threads == 1 else min(units, PARTS * threads)


@helper
def part_begin(units: int, parts: int, part: int) -> int:
    """The first unit of a part."""
    return units * part // parts


class Room(threading.local):
    """The scratch memory of a thread, kept for its next call."""

    cells: Array = np.empty(0, np.uint8)
    lists: Array = np.empty(0, np.int64)

    def get(self, count: int, dtype: Any, listed: int = 0) -> tuple[Array, Array]:
        """At least `count` cells that begin on a cache line, and `listed` integers; their contents are arbitrary."""
        need = count * np.dtype(dtype).itemsize
        if self.cells.size < need:
            raw = np.empty(need + WIDE_BYTES, np.uint8)
            start = -raw.ctypes.data % WIDE_BYTES
            self.cells = raw[start : start + need]
        if self.lists.size < listed:
            self.lists = np.empty(listed, np.int64)
        return self.cells[: self.cells.size // 8 * 8].view(dtype), self.lists


room = Room()
