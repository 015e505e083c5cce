"""How much memory this machine has, and the error for a call that needs more, raised before any work is done."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache

from windowgrad.errors import WindowError, show


@lru_cache(maxsize=1)
def available() -> int:
    """The bytes of memory this machine has, or the largest size Python can address where that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def refuse_unallocatable(shape: Sequence[int], itemsize: int, what: str = "output") -> None:
    """Raise an error for an array larger than this machine's memory."""
    need = math.prod(shape) * itemsize
    if math.prod(n for n in shape if n) * itemsize > sys.maxsize >= need:  # NumPy cannot make it, although it is empty
        raise WindowError(f"{what} of shape {show(tuple(shape))}: too large for an array")
    if need > available():
        raise WindowError(
            f"{what} of shape {show(tuple(shape))}: needs {in_bytes(need)}, this machine has {in_bytes(available())} of memory"
        )


def refuse_peak(needs: Mapping[str, int]) -> None:
    """Raise an error if a call's arrays together need more memory than this machine has; `needs` maps their names to bytes."""
    need = sum(needs.values())
    if need > available():
        parts = ", ".join(f"{name} {in_bytes(size)}" for name, size in needs.items())
        raise WindowError(f"needs {in_bytes(need)} of memory ({parts}), this machine has {in_bytes(available())}")


def in_bytes(count: int) -> str:
    power = min((count.bit_length() - 1) // 10, 6)
    size = f"{count / 1024**power:.1f}" if count < 2**80 else f"over {2**80 // 1024**power}"
    return f"{size} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"
