"""A worker seen from outside: questions with limits of time and memory. Its death is an answer too."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windowgrad.conform.stop import Stop
from windowgrad.errors import OptionError

GUARD = Path(__file__).with_name("guard.py")
GIB = 2**30
MOST_ANSWER = 64 * 2**20
MOST_PRINTED = 256 * 2**20
PATIENCE = 10.0
"""Seconds for the guard to end the tree of processes, before it is killed itself."""


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes of one case (of all processes it starts together), and the seconds of the imports before the first."""

    seconds: float = 30
    memory: int = 6 * GIB
    start: float = 120

    @classmethod
    def of(cls, seconds: float, gib: float) -> Limits:
        """The limits that a user gives."""
        for name, value in (("seconds", seconds), ("memory", gib)):
            if not 0 < value < 1e9:
                raise OptionError(f"{name}={value:g}: must be more than 0 and less than 1e9")
        return cls(seconds, int(gib * GIB))


class NoAnswerError(Exception):
    """There is no answer, and why."""


class Worker:
    """One process for many programs; a new one follows when it has ended. Use it in a `with`."""

    def __init__(self, imports: str, limits: Limits, stop: Stop) -> None:
        self.imports, self.limits, self.stop_signal = imports, limits, stop
        self.guard: subprocess.Popen[bytes] | None = None
        self.worker = 0
        self.asked = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, program: str, many: int = 0) -> dict[str, Any]:
        """{"arrays": …}, or {"error": …} if it raised, or {"crash": …} if the process ended or went beyond a limit.

        A program of `many` cases has the time of as many, and gives {"answers": …}. Raises StoppedError if the run is to end.
        """
        self.stop_signal.check()
        if self.guard is not None and self._has_ended():
            self.stop()
        if self.guard is None:
            self.start()
            first = self._ask(self.imports, self.limits.start)
            if "arrays" not in first:
                self.stop()
                return {"crash": f"it cannot be imported: {first.get('error') or first.get('crash')}"}
        return self._ask(program, self.limits.seconds * (many or 1), many)

    def start(self) -> None:
        self.printed = tempfile.TemporaryFile("a+b")  # noqa: SIM115  # it lives as long as the process
        self.channel, theirs = socket.socketpair()
        self.control, guards = socket.socketpair()
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        with theirs, guards:
            numbers = (theirs.fileno(), guards.fileno(), self.limits.memory)
            self.guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=self.printed,
                stderr=self.printed,
                pass_fds=numbers[:2],
                env={**quiet, **os.environ},
                start_new_session=True,  # Ctrl-C on the terminal is for the command
            )
        for end in (self.channel, self.control):
            end.setblocking(False)
        self.told = b""

    def stop(self) -> None:
        """End the worker and everything it started."""
        if self.guard is None:
            return
        self.control.close()
        self.channel.close()
        try:
            self.guard.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.guard.kill()
            self.guard.wait()
        if self.guard.returncode != 0 and self.worker:  # it was killed: what is left of the worker is at least its group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.worker, signal.SIGKILL)
        self.printed.close()
        self.guard, self.worker = None, 0

    def _ask(self, program: str, seconds: float, many: int = 0) -> dict[str, Any]:
        self.asked += 1
        self.printed.truncate(0)
        question = {"number": self.asked, "program": program, "many": bool(many)}
        late = time.monotonic() + seconds
        try:
            self._send(json.dumps(question).encode() + b"\n", late)
            return self._answer(late)
        except NoAnswerError as lost:
            why = str(lost) or f"no answer after {seconds:g} seconds"
            said = self._last_words()
            self.stop()
            return {"crash": why, "said": said}

    def _send(self, rest: bytes, late: float) -> None:
        while rest:
            self._wait(late, writing=True)
            with suppress(BlockingIOError, ConnectionError):
                rest = rest[self.channel.send(rest) :]

    def _answer(self, late: float) -> dict[str, Any]:
        """The one line that is written, if it is the answer to this question."""
        got = bytearray()
        while not got.endswith(b"\n"):
            self._wait(late)
            with suppress(BlockingIOError, ConnectionError):
                got += self.channel.recv(2**20)
            if len(got) > MOST_ANSWER:
                raise NoAnswerError(f"its answer is longer than {MOST_ANSWER >> 20} MiB")
        try:
            found = json.loads(got)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("number") != self.asked:
            raise NoAnswerError(f"it wrote {len(got)} bytes to the channel that are not its answer")
        return found

    def _wait(self, late: float, writing: bool = False) -> None:
        """Return when the channel is ready; raise NoAnswerError when it will never be, or is not in time."""
        channel, control, stop = self.channel.fileno(), self.control.fileno(), self.stop_signal.fileno()
        poll = select.poll()
        poll.register(channel, select.POLLOUT if writing else select.POLLIN)
        poll.register(control, select.POLLIN)
        poll.register(stop, select.POLLIN)
        while (left := late - time.monotonic()) > 0:
            ready = dict(poll.poll(min(left, 0.2) * 1000))
            self.stop_signal.check()
            if control in ready:
                self._listen()
            if channel in ready:
                if self._is_open(ready[channel], writing):
                    return
                poll.unregister(channel)  # the guard is about to say why
            if os.fstat(self.printed.fileno()).st_size > MOST_PRINTED:
                raise NoAnswerError(f"it printed more than {MOST_PRINTED >> 20} MiB")
        raise NoAnswerError

    def _is_open(self, events: int, writing: bool) -> bool:
        """Whether the channel is ready because there is something to do, and not because its other end is closed."""
        if writing:
            return not events & (select.POLLHUP | select.POLLERR)
        try:
            return bool(self.channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _listen(self) -> None:
        """What the guard says: the worker's id, then how it ended."""
        try:
            got = self.control.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            got = b""
        self.told += got
        for line in self.told.splitlines():
            found = json.loads(line)
            if "worker" in found:
                self.worker = found["worker"]
            elif "memory" in found:
                raise NoAnswerError(f"it took more than {self.limits.memory / GIB:.3g} GiB of memory")
            elif "ended" in found:
                raise NoAnswerError(ended(found["ended"]))
        if not got:
            raise NoAnswerError("the process that monitors it was killed")

    def _has_ended(self) -> bool:
        """Whether it ended since it last answered, or wrote something nobody asked for."""
        try:
            self._listen()
            self.channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except (NoAnswerError, OSError):
            return True
        return True

    def _last_words(self) -> list[str]:
        """The last line that it printed."""
        size = self.printed.seek(0, os.SEEK_END)
        self.printed.seek(max(0, size - 2000))
        return self.printed.read().decode(errors="replace").strip().splitlines()[-1:]


def ended(status: int) -> str:
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was killed by {signal.Signals(-status).name}"
    except ValueError:  # a signal without a name
        return f"it was killed by signal {-status}"
