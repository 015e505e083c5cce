"""Ctrl-C where it can be heard: some work cannot be stopped in the middle, and some callers swallow what is raised in them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def put_off() -> Iterator[None]:
    """Ctrl-C is heard at the end, not within, by whatever handles it. Only the main thread hears it at all."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):  # it is ignored, or kills
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            before(*heard[-1])
