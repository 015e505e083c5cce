"""The best time of several calls, taken in turns, so that whatever slows the machine down slows them all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

THREADS = 2  # of everybody, unless a benchmark is told another number
TURN = 0.02  # seconds; a short call is repeated for so long in its turn
TICK = 1e-9  # seconds: no call takes less, though a coarse clock of CPU time may say so
PAUSE, PAUSES = 0.01, 30  # seconds, and how many of them before a turn at the most

Call = Callable[[], Any]


class Clock:
    """Seconds by the wall clock, or of CPU time, which a busy machine does not change; the latter is for one thread alone."""

    now = staticmethod(time.perf_counter)

    @classmethod
    def count_cpu_time(cls) -> None:
        cls.now = staticmethod(time.process_time)


def best(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, float]:
    """The shortest time of each, in turns. Who has used up its part of `seconds` is left out of further rounds."""
    times, spent = dict.fromkeys(calls, float("inf")), dict.fromkeys(calls, 0.0)
    for _ in range(rounds):
        for name, call in calls.items():
            if spent[name] < seconds / len(calls):
                settle()
                shortest, used = turn(call)
                times[name], spent[name] = min(times[name], shortest), spent[name] + used
    return times


def settle() -> None:
    """Wait until no thread of the process works: those of PyTorch and ONNX Runtime watch for more work for a while, and whoever
    came next would have one CPU less. A U-Net took 41 ms and not 27 behind ONNX Runtime, with a single pause between them.
    """
    for _ in range(PAUSES):
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 4:
            return


def turn(call: Call) -> tuple[float, float]:
    """(the shortest call, all of them): calls one after the other until the turn is over. The result dies within its call."""
    shortest, start, now = float("inf"), Clock.now(), Clock.now
    while True:
        before = now()
        call()
        after = now()
        shortest = min(shortest, max(after - before, TICK))
        if after - start > TURN:
            return shortest, after - start
