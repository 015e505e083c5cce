"""The floor under every pooling kernel: reading what must be read and writing what must be written, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from cases import Array, Case

from windowgrad.kernels.runtime.jit import compiled, helper
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import larger, load, store

BLOCK = 1 << 14  # bytes; small enough that what was read is still in the cache when the output is written


@helper
def read(a, top, first, last):
    """The greatest cell per lane, so that no load can be left out; four at a time, so that none waits for another."""
    one, two, three, four = top, top, top, top
    i = first
    while i + 32 <= last:
        one = larger(one, load(a, i))
        two = larger(two, load(a, i + 8))
        three = larger(three, load(a, i + 16))
        four = larger(four, load(a, i + 24))
        i += 32
    while i + 8 <= last:
        one = larger(one, load(a, i))
        i += 8
    return larger(larger(one, two), larger(three, four))


@compiled
def move(a, b, y, blocks, first, last):
    """Block by block: the share of a and of b is read, that of y written. All are float32, at most 7 cells at an end stay."""
    cells_a, cells_b, cells_y = len(a) // 8, len(b) // 8, len(y) // 8
    for block in range(first, last):
        top = load(a, 0)
        top = read(a, top, block * cells_a // blocks * 8, (block + 1) * cells_a // blocks * 8)
        top = read(b, top, block * cells_b // blocks * 8, (block + 1) * cells_b // blocks * 8)
        for i in range(block * cells_y // blocks, (block + 1) * cells_y // blocks):
            store(y, i * 8, top)


def floor(case: Case, x: Array, g: Array) -> Callable[[], object]:
    """A call that moves the bytes of the case, into memory that is warm as recycled output is."""
    sources, written = case.moved(x, g)
    a, b = (*(flat(source) for source in sources), np.empty(0, np.float32))[:2]
    y = np.zeros(written * x.itemsize // 4, np.float32)
    size = a.nbytes + b.nbytes + y.nbytes
    blocks = max(1, size // BLOCK)
    return lambda: run(partial(move, a, b, y, blocks), blocks, size)  # shared without Python, as kernels are


def flat(source: Array) -> Array:
    """The cells in the order of memory, not copied, and read as if they were float32."""
    ordered = source if source.flags.c_contiguous else np.moveaxis(source, 1, -1)
    assert ordered.flags.c_contiguous, "neither layout: a copy would be measured beside the cells"
    return ordered.reshape(-1).view(np.uint8)[: source.nbytes // 4 * 4].view(np.float32)
