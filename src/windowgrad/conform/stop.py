"""How a run is told to end: every thread that waits for a process wakes up at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(Exception):
    """Raised where a run waits when it is told to end."""


class Stop:
    """Set once, by any thread or a signal handler, and seen by all. `fileno` is readable from then on."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.reason = ""
        """Why the run ends, such as the name of a signal; empty until it is set."""

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        os.close(self._read)
        os.close(self._write)

    def set(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            os.write(self._write, b"!")  # never read, so that everyone sees it

    def check(self) -> None:
        if self.reason:
            raise StoppedError(self.reason)

    def fileno(self) -> int:
        return self._read


@contextmanager
def on_signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP set `stop`, if they are not ignored; the second one does what it did before."""
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, _: FrameType | None) -> None:
        restore()
        stop.set(signal.Signals(number).name)

    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in SIGNALS}
        before = {number: handler for number, handler in found.items() if handler not in (signal.SIG_IGN, None)}
        for number in before:
            signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
