"""The floating-point environment of a thread: how it rounds, and whether it flushes subnormal numbers to zero.

The CPU keeps it per thread, and other libraries change it (`torch.set_flush_denormal`). A helper thread takes over the
environment of the call it works for, so that the result does not depend on which thread computed it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

SIZE = 256  # bytes; larger than any C library's fenv_t

Environment = Any  # a buffer of ctypes, or None where there is nothing to take over


def functions() -> tuple[Any, Any] | None:
    """C's fegetenv and fesetenv; None if the C library has none."""
    try:
        library = ctypes.PyDLL("ucrtbase" if sys.platform == "win32" else None)  # keeps the GIL: faster
        return library.fegetenv, library.fesetenv
    except (OSError, AttributeError):
        return None


found = functions()
addresses: tuple[int | None, ...] = tuple(
    None if each is None else ctypes.cast(each, ctypes.c_void_p).value for each in found or (None, None)
)
"""Where fegetenv and fesetenv are, for compiled code."""


def current() -> Environment:
    """The environment of this thread."""
    if found is None:
        return None
    environment = ctypes.create_string_buffer(SIZE)
    found[0](environment)
    return environment


def use(environment: Environment) -> None:
    """Compute in this environment from now on, on this thread."""
    if found is not None:
        found[1](environment)
