"""Memory for results inside a network: what dies gives its place to the next result, which then stands in the caches.

A network makes a result for each layer, which dies one or two layers later. Each in memory of its own, they pass through all
caches; in a few places that are used in turn, most stay there (one image: MobileNet-V2 takes 0.97 of the time, ResNet-18 as
long). `buffers.empty` has a block for each size, which is right for results that a caller keeps.

A slot is free if nothing refers to its block: every array in it, and every view of one, has the block for its base. So a layer
may keep what it is given, or give back a part of it; the slot is then not used again. What leaves the network is copied if it
stands in a slot (`Slots.released`); whoever knows that a result leaves makes it elsewhere, by not running the step in slots.

The slots are those of one call: their blocks come from `buffers.empty` and go back there.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from windowgrad.kernels.runtime.buffers import LEAST, empty

Array = np.ndarray[Any, Any]

SMALLEST, LARGEST = 1 << 15, 1 << 23
"""Bytes of a result in a slot: less is recycled as well by the memory allocator, more does not stay in caches."""
MOST = 6
"""Slots of a call. Few layers join results of many others."""


def references(blocks: list[Array], i: int) -> int:
    return getrefcount(blocks[i])


IDLE = references([np.empty(0)], 0)
"""The references to a block that only the list of slots has."""


class Slots:
    """The memory of one call of a network. One thread uses it."""

    def __init__(self) -> None:
        self.blocks: list[Array] = []

    def run(self, step: Callable[..., Any], *arrays: Any) -> Any:
        """The result of a step, in which `new` takes slots."""
        before, state.slots = state.slots, self
        try:
            return step(*arrays)
        finally:
            state.slots = before

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array in the first slot that is free; a block that is too small is replaced by a larger one."""
        size, small = math.prod(shape) * dtype.itemsize, -1
        if not SMALLEST <= size <= LARGEST:
            return empty(shape, dtype)
        for i in range(len(self.blocks)):
            if references(self.blocks, i) == IDLE:
                if self.blocks[i].size >= size:
                    return np.ndarray(shape, dtype, self.blocks[i])
                small = i
        if small < 0 and len(self.blocks) == MOST:
            return empty(shape, dtype)
        block = base_of(empty((max(size, LEAST),), np.uint8))
        if small < 0:
            self.blocks.append(block)
        else:
            self.blocks[small] = block
        return np.ndarray(shape, dtype, block)

    def released(self, y: Any) -> Any:
        """The same, or a copy if it is an array in a slot."""
        if isinstance(y, np.ndarray) and any(np.may_share_memory(block, y) for block in self.blocks):
            return y.copy()
        return y


def base_of(memory: Array) -> Array:
    """What NumPy makes the base of an array in this memory: what the memory is a view of, if it is one."""
    base = np.ndarray(0, np.uint8, memory).base
    assert isinstance(base, np.ndarray)
    return base


class State(threading.local):
    """The slots that a thread uses now."""

    slots: Slots | None = None


state = State()


def new(make: Callable[..., Array], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with arbitrary contents: in a slot if there are any, else what `make` gives (see `buffers.maker`)."""
    slots = state.slots
    return make(shape, dtype) if slots is None else slots.empty(shape, dtype)
