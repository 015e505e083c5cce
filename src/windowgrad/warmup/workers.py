"""Processes that compile: each takes a part, all steps of one operator for one dtype, then the next that is left.

A worker reads a line, "dtype operator", and writes one for each step: nothing, or why it failed. It is in a session of its
own, so Ctrl-C on the terminal is for the command, which then kills its workers; if the command itself is killed, a worker
finds the end of its input after the step it is in.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

from windowgrad.errors import OptionError
from windowgrad.warmup.steps import dtype_of
from windowgrad.warmup.steps import parts as parts_of

PROGRAM = "import sys; sys.path[:] = {path!r}; from windowgrad.warmup.workers import serve; serve(sys.stdin, sys.stdout)"


class Part(NamedTuple):
    """All steps of one operator for one dtype, and how many there are."""

    dtype: str
    op: str
    steps: int


def done(parts: Sequence[Part], jobs: int) -> Iterator[Part]:
    """Each part as often as it has steps, when one is done. Raises OptionError at the first that fails."""
    if jobs < 2 or not sys.executable:
        for part in parts:
            for failure in failures(part.dtype, part.op):
                yield checked(part, failure)
        return
    left: queue.SimpleQueue[Part] = queue.SimpleQueue()
    for part in parts:
        left.put(part)
    said: queue.SimpleQueue[tuple[Part, str]] = queue.SimpleQueue()
    workers = [Worker(left, said) for _ in range(min(jobs, len(parts)))]
    try:
        for worker in workers:
            worker.start()
        for _ in range(sum(part.steps for part in parts)):
            yield checked(*said.get())
    finally:
        for worker in workers:
            worker.stop()


def checked(part: Part, failure: str) -> Part:
    if failure:
        raise OptionError(f"warmup: {failure}")
    return part


class Worker(threading.Thread):
    """A process, and the thread that talks to it."""

    def __init__(self, left: queue.SimpleQueue[Part], said: queue.SimpleQueue[tuple[Part, str]]) -> None:
        super().__init__(daemon=True)
        self.left, self.said = left, said
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
            text=True,
            env=os.environ | {"WINDOWGRAD_NUM_THREADS": "2"},  # what shares a kernel among threads is compiled too
            start_new_session=True,
        )

    def run(self) -> None:
        with suppress(queue.Empty):
            while True:
                part = self.left.get_nowait()
                for failure in self.answers(part):
                    self.said.put((part, failure))
                    if failure:
                        return

    def answers(self, part: Part) -> Iterator[str]:
        """What the process says after each step of a part: nothing if all is well."""
        questions, answers = self.process.stdin, self.process.stdout
        assert questions is not None
        assert answers is not None
        with suppress(OSError):  # it has ended, and so have its answers
            questions.write(f"{part.dtype} {part.op}\n")
            questions.flush()
        for _ in range(part.steps):
            line = answers.readline()
            yield json.loads(line) if line.endswith("\n") else self.last_words()

    def last_words(self) -> str:
        """How the process ended, and the last line that it printed."""
        status, size = self.process.wait(), self.printed.seek(0, os.SEEK_END)
        self.printed.seek(max(0, size - 2000))
        lines = self.printed.read().decode(errors="replace").split("\n")
        return f"a process ended with status {status}: " + next(
            (line for line in reversed(lines) if line.strip()), "no message"
        )

    def stop(self) -> None:
        """Kill the process, if it is still there. What it has compiled is kept; what it was writing is not."""
        self.process.kill()
        if self.ident is not None:
            self.join()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.printed):
            with suppress(OSError):  # what was not sent
                file.close()  # type: ignore[union-attr]  # all are pipes or files


# --- in a worker -------------------------------------------------------------------------------------------------


def serve(questions: IO[str], answers: IO[str]) -> None:
    for line in questions:
        for failure in failures(*line.split()):
            answers.write(json.dumps(failure) + "\n")
            answers.flush()


def failures(dtype: str, op: str) -> Iterator[str]:
    """Call each step of a part; why it failed, or nothing. What a kernel warns of, that it cannot be kept, is a failure."""
    for name, call in parts_of(dtype_of(dtype))[op]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of infinite numbers
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)  # of NumPy
            try:
                call()
            except RuntimeWarning as reason:
                yield str(reason)
            except Exception as error:
                yield f"{name} of {dtype}: {type(error).__name__}: {error}"
            else:
                yield ""
