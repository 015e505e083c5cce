"""One line on the terminal for whoever waits for kernels to be compiled.

It is written when compiling has taken half a second in this process, and only once; never into a pipe or a file. It is written
by the thread that compiles, between two functions: no other thread is started, and Ctrl-C and a fork wait for the kernel.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

VARIABLE = "WINDOWGRAD_QUIET"
PATIENCE = 0.5  # seconds
LINE = f"windowgrad: compiling kernels; later runs load them (`windowgrad warmup` compiles all; {VARIABLE}=1 hides this line)"


class Wait:
    """How long this process has compiled. Only the thread that holds the compiler's lock uses it."""

    def __init__(self) -> None:
        self.before, self.told = 0.0, False
        self.began: float | None = None

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Around the compilation of a kernel, or of one that it calls."""
        if self.began is not None:
            yield
            return
        self.began = time.monotonic()
        try:
            yield
        finally:
            self.before += time.monotonic() - self.began
            self.began = None

    def look(self) -> None:
        """Write the line if it is time for it."""
        if self.told or self.began is None or self.before + time.monotonic() - self.began < PATIENCE:
            return
        self.told = True
        if not os.environ.get(VARIABLE, "").strip("0 "):
            with suppress(OSError, ValueError, AttributeError):  # it is closed, or what a program has put in its place
                if sys.stderr.isatty():
                    sys.stderr.write(f"{LINE}\n")
                    sys.stderr.flush()


wait = Wait()
