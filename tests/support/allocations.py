"""The memory that kernels allocate by Numba's runtime."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.runtime import _nrt_python, rtsys


@contextmanager
def all_freed() -> Iterator[None]:
    """What is allocated within has been freed at the end. A kernel has to be compiled before."""
    _nrt_python.memsys_enable_stats()
    try:
        before = live()
        yield
        assert live() == before
    finally:
        _nrt_python.memsys_disable_stats()


def live() -> int:
    gc.collect()
    stats = rtsys.get_allocation_stats()
    return int(stats.alloc - stats.free)
