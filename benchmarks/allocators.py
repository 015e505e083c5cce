"""Processes that measure, each under one setting of the C library's allocator.

glibc gives large blocks back to the system when they are freed, so whoever allocates its result pays a page fault for every
4 KiB of it, in every call. This project recycles large results and does not pay; its peers do. Both settings are honest:

- `default`: what a user gets who sets nothing.
- `warm`: glibc keeps all memory, so that nobody pays, and kernels are compared, not page faults. It reads these variables when
  a process starts. One arena, because threads of JAX allocate too, and only the first arena grows without mapping.

Ours and its peers take turns in the same process under either setting, so their ratio holds on a busy machine.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIG_IGN, SIGINT, signal
from typing import Any, NamedTuple

import numpy as np

DEFAULT, WARM = "default", "warm"
LARGE = str(1 << 32)
WARM_VARIABLES = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_MMAP_THRESHOLD_": LARGE,
    "MALLOC_TRIM_THRESHOLD_": LARGE,
    "MALLOC_TOP_PAD_": str(1 << 28),
    "MALLOC_ARENA_MAX": "1",
}
PROBE = 1 << 26  # bytes
FEW = 16  # page faults; with huge pages the probe has 32


class Timed(NamedTuple):
    """`times` in seconds: ours, that of each peer, and the floor. `work`: the bytes to move, or the operations."""

    times: dict[str, float]
    work: int


@contextmanager
def setting(allocator: str) -> Iterator[None]:
    """The environment that a process of this setting starts with; variables of the caller's do not reach it."""
    before = dict(os.environ)
    for name in (*WARM_VARIABLES, "GLIBC_TUNABLES"):
        os.environ.pop(name, None)
    os.environ.update(WARM_VARIABLES if allocator == WARM else {})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Worker:
    """A fresh process that answers calls. `begin` is called in it first."""

    def __init__(self, allocator: str, begin: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.end, far = context.Pipe()
        self.process = context.Process(target=serve, args=(far, begin, arguments), daemon=True)
        with setting(allocator):
            self.process.start()
        far.close()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns there; what it raises is raised here."""
        self.end.send((function, arguments))
        try:
            result = self.end.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(f"the process that measures ended with exit code {self.process.exitcode}") from None
        if isinstance(result, Exception):
            raise result
        return result

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()


def serve(end: Any, begin: Callable[..., None], given: tuple[Any, ...]) -> None:
    signal(SIGINT, SIG_IGN)  # Ctrl-C is for the process that asks
    begin(*given)
    gc.disable()  # a collection is nobody's own time
    while True:
        try:
            function, arguments = end.recv()
        except EOFError:
            return
        try:
            result = function(*arguments)
        except Exception as error:
            result = error
        end.send(result)
        gc.collect()


def faults() -> int:
    """Page faults of writing a large array a third time: whether the allocator keeps what is freed."""
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(PROBE, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
