"""Cases by number on several processes. A case that crashes its process is a finding like any other, and the run goes on.

The parent loads everything once and forks. A child writes the number of its case into shared memory before it begins, so the
parent knows which one it was in when it died, and starts another child behind it. It does so as well after `ENOUGH` cases:
what the library keeps for later calls lies in guarded memory too, and a process may have 65,530 mappings.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

Check = Callable[[int], list[str]]

LONGEST, WAIT = 60, 900
"""Seconds of the processor, and of the clock, after which a case is taken to hang. The first case of a kernel compiles it."""
ENOUGH = 1000
"""Cases of one child: convolutions keep about 27 mappings for each."""


@dataclass
class Child:
    """The process that computes the cases `place`, `place + workers`, …"""

    place: int
    pid: int
    pipe: int
    text: bytes = b""


@dataclass
class Run:
    """`check(number)` for all numbers below `cases`: what it says is wrong, and who it kills."""

    check: Check
    cases: int
    workers: int
    seconds: float = float("inf")
    on_finding: Callable[[int, str], None] = lambda number, text: None
    on_progress: Callable[[int, int], None] = lambda done, found: None
    findings: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at = mmap.mmap(-1, 8 * self.workers)
        self.selector = selectors.DefaultSelector()
        self.ends = time.monotonic() + self.seconds

    def done(self) -> int:
        return sum(min(self.place(i), self.cases + i) // self.workers for i in range(self.workers))

    def place(self, child: int) -> int:
        return int(struct.unpack_from("q", self.at, 8 * child)[0])

    def move(self, child: int, number: int) -> None:
        struct.pack_into("q", self.at, 8 * child, number)

    def start(self, place: int, number: int) -> None:
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.move(place, number)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(reading)
                self.compute(place, number, writing)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)
        self.selector.register(reading, selectors.EVENT_READ, Child(place, pid, reading))

    def compute(self, place: int, number: int, pipe: int) -> None:
        """In the child."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for kills in (signal.SIGALRM, signal.SIGPROF):  # also when a kernel never comes back
            signal.signal(kills, signal.SIG_DFL)
        parent, end = os.getppid(), min(self.cases, number + ENOUGH * self.workers)
        while number < end and time.monotonic() < self.ends and os.getppid() == parent:  # it may have been killed
            self.move(place, number)
            signal.alarm(WAIT)
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            try:
                wrong = self.check(number)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                wrong = [f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"]
            for text in wrong:
                os.write(pipe, json.dumps([number, text[:2000]]).encode() + b"\n")
            number += self.workers
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.move(place, number)

    def run(self) -> list[tuple[int, str]]:
        """All that was found."""
        for place in range(self.workers):
            self.start(place, place)
        try:
            while self.selector.get_map():
                for key, _ in self.selector.select(timeout=1.0):
                    self.hear(key.data)
                self.on_progress(self.done(), len(self.findings))
        finally:
            for key in list(self.selector.get_map().values()):  # after Ctrl-C
                os.kill(key.data.pid, signal.SIGKILL)
                os.waitpid(key.data.pid, 0)
        return self.findings

    def hear(self, child: Child) -> None:
        """What a child says, or that it has ended."""
        if heard := os.read(child.pipe, 1 << 16):
            *lines, child.text = (child.text + heard).split(b"\n")
            for line in lines:
                self.found(*json.loads(line))
            return
        self.selector.unregister(child.pipe)
        os.close(child.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        number = self.place(child.place)
        if status:
            self.found(number, ended(status))
            number += self.workers
        if number < self.cases and time.monotonic() < self.ends:
            self.start(child.place, number)

    def found(self, number: int, text: str) -> None:
        self.findings.append((number, text))
        self.on_finding(number, text)


def ended(status: int) -> str:
    """How a process ended, in words."""
    if status in (-signal.SIGALRM, -signal.SIGPROF):
        return f"no end after {LONGEST} s of the processor, or {WAIT} s"
    return (
        f"the process was killed by {signal.Signals(-status).name}" if status < 0 else f"the process ended with status {status}"
    )
