"""Modules that are imported on first use, and protected from a fork in the middle of an import.

A forked child has only the thread that forked. If another one was importing, the lock of its module stays locked in the
child for ever, and so does that of a compiler. So what is imported within a call is imported under `loading`, and a fork
waits for that lock and for those that were added with `hold_at_fork`.
"""

from __future__ import annotations

import logging  # noqa: F401  # it has hooks at fork, which must be there when `before` waits: Numba imports it
import os
from _thread import interrupt_main, start_new_thread
from collections import deque
from operator import methodcaller
from threading import RLock, local
from typing import Any

loading = RLock()
locks: list[Any] = [loading]  # in the order in which a thread may take several


class Fork(local):
    """What the thread that forks has done for it."""

    def __init__(self) -> None:
        self.held: list[bool] = []  # of the first so many locks
        self.interrupted = False


fork = Fork()


def hold_at_fork(lock: Any) -> None:
    """No fork while another thread holds `lock`, an RLock. A thread may take it under `loading`, not the other way round."""
    locks.append(lock)


def before() -> None:
    """Python prints what is raised here and forks all the same: so Ctrl-C is put off, and raised again in the parent."""
    raised: BaseException | None = None
    while len(fork.held) < len(locks):  # of those added meanwhile, too: `loading` is held by then
        try:
            fork.held.extend(map(methodcaller("acquire"), locks[len(fork.held) :]))  # in C: a lock that is got is counted
        except KeyboardInterrupt:
            fork.interrupted = True
        except BaseException as error:  # of a signal handler
            raised = error
    if raised is not None:
        raise raised


def after_in_parent() -> None:
    pressed, fork.interrupted = fork.interrupted, False
    release()
    if pressed:
        start_new_thread(interrupt_main, ())  # not from here, where it would be printed and forgotten


def after_in_child() -> None:
    fork.interrupted = False
    release()


def release() -> None:
    deque(map(methodcaller("release"), reversed(locks[: len(fork.held)])), maxlen=0)
    fork.held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
