"""The limits of a worker hold whatever a program does: to the channel, to its own process, and with processes of its own."""

from __future__ import annotations

import os
import select
import signal

import pytest

from windowgrad.conform.process import Limits, Worker
from windowgrad.conform.stop import Stop
from windowgrad.errors import OptionError

PATIENCE = 60.0
FINE = "got = np.float32(1)"
IMPORTS = "import os, signal, subprocess, sys, time\nimport numpy as np\n"


def ask(*programs, **limits):
    """What one worker says to each program; the last shows that it goes on."""
    given = {"seconds": 30, "memory": 2**29} | limits
    with Stop() as stop, Worker(IMPORTS, Limits(**given), stop) as worker:
        *found, last = [worker.ask(IMPORTS + program) for program in (*programs, FINE)]
        assert last["arrays"] == [{"shape": [], "dtype": "float32", "cells": [1.0]}]
        return found


@pytest.fixture
def pipe(tmp_path):
    """A named pipe: whoever opens it to write is alive until it can be read to its end."""
    path = tmp_path / "alive"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, descriptor
    os.close(descriptor)


def read_to_the_end(descriptor):
    """All that was written, when nobody is left who could write."""
    found = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while poll.poll(PATIENCE * 1000):
        part = os.read(descriptor, 4096)
        if not part:
            return found
        found += part
    raise AssertionError(f"something that was started is still alive after {PATIENCE:g} s")


EVERYWHERE = """
for fd in range(3, 64):
    try:
        os.write(fd, {text!r})
    except OSError:
        pass
{then}
"""


def test_a_part_of_a_line_on_the_channel_is_late_and_not_for_ever():
    (found,) = ask(EVERYWHERE.format(text=b'{"arrays": [', then="while True: pass"), seconds=2)
    assert found["crash"] == "no answer after 2 seconds"


@pytest.mark.parametrize("text", [b"junk\n", b'{"arrays": []}\n', b"[" * 10**5 + b"\n", b"\xff\xfe\n", b'{"number": "x"}'])
def test_junk_on_the_channel_is_no_answer(text):
    (found,) = ask(EVERYWHERE.format(text=text, then="got = 1"))
    assert "bytes to the channel that are not its answer" in found["crash"]


def test_what_a_program_prints_does_not_reach_the_channel():
    text = "print('x' * 10**6)\nos.write(1, b'{}\\n')\nos.write(2, b'\\xff{}\\n')\nsys.stdin.read()\ngot = 2"
    (found,) = ask(text)
    assert found["arrays"][0]["cells"] == [2]


def test_the_last_line_it_printed_is_told_with_its_end():
    (found,) = ask("os.write(2, b'why\\n\\xff\\xfe and how\\n')\nos._exit(4)")
    assert (found["crash"], found["said"]) == ("it exited with status 4", ["\ufffd\ufffd and how"])


def test_a_program_that_closes_everything_ends_and_no_more():
    (found,) = ask("os.closerange(0, 64)")
    assert found["crash"] == "it exited with status 1"


def test_a_copy_that_a_program_forked_does_not_answer():
    found = ask("os.fork()\ngot = os.getpid() > 0", "os.fork()\ngot = 7")
    assert [answer["arrays"][0]["cells"] for answer in found] == [[True], [7]]


ENDS = [
    ("os.kill(os.getpid(), signal.SIGRTMIN + 1)", f"it was killed by signal {signal.SIGRTMIN + 1}"),
    ("os.kill(0, signal.SIGKILL)", "it was killed by SIGKILL"),
    ("os.kill(os.getpid(), signal.SIGTERM)", "it was killed by SIGTERM"),
    ("os.kill(os.getppid(), signal.SIGTERM)\nwhile True: pass", "no answer after 3 seconds"),
    ("os.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass", "the process that monitors it was killed"),
    ("os.kill(os.getpid(), signal.SIGSTOP)", "no answer after 3 seconds"),
    ("sys.exit(5)", "it exited with status 5"),
]


@pytest.mark.parametrize(("program", "why"), ENDS)
def test_however_a_process_ends_it_is_one_answer(program, why):
    (found,) = ask(program, seconds=3)
    assert found["crash"] == why


def test_a_program_that_is_not_read_is_late_even_if_it_is_long():
    stopped = "pid = os.getpid()\nif not os.fork():\n    os.kill(pid, signal.SIGSTOP)\n    os._exit(0)\ngot = 1\ntime.sleep(60)"
    first, second = ask(stopped, f"text = {'x' * 10**6!r}\ngot = 1", seconds=3)
    assert first["crash"] == "no answer after 3 seconds"
    assert second["arrays"][0]["cells"] == [1]


FLEES = """
read, write = os.pipe()
os.set_inheritable(write, True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = f"import os; fd = os.open({path!r}, os.O_WRONLY); os.write({{write}}, b'!'); [0 for _ in iter(int, 1)]"
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code], {{}})
    os._exit(0)
os.wait()
os.read(read, 1)
{then}
"""
"""It starts a process that has nothing of it any more: no parent, no session, no environment."""


@pytest.mark.parametrize("then", ["while True: pass", "os._exit(0)", "os.kill(os.getpid(), signal.SIGSEGV)", "got = 1"])
def test_a_child_in_a_session_of_its_own_ends_with_the_worker(pipe, then):
    path, descriptor = pipe
    (found,) = ask(FLEES.format(path=str(path), then=then), seconds=5)
    assert ("crash" in found) == (then != "got = 1")
    read_to_the_end(descriptor)


HOLD = """
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        held = np.ones({cells}) {also}
        os.write(write, b'!')
        while True: time.sleep(60)
for _ in range(3): os.read(read, 1)
got = 1
{then}
"""


def test_memory_of_all_processes_is_counted():
    (found,) = ask(HOLD.format(cells=2**24, also="", then="while True: pass"), memory=2**28)
    assert found["crash"] == "it took more than 0.25 GiB of memory"


def test_memory_that_forked_processes_share_is_counted_once():
    text = "shared = np.ones(2**24)\n" + HOLD.format(cells=2, also="+ shared[0]", then="")
    (found,) = ask(text, memory=2**28)
    assert found["arrays"][0]["cells"] == [1]


def test_memory_of_a_process_of_its_own_session_is_counted():
    held = "x = bytearray(2**29)\nimport time\nwhile True: time.sleep(60)"
    text = f"subprocess.Popen([sys.executable, '-c', {held!r}], start_new_session=True, env={{}})\nwhile True: pass"
    (found,) = ask(text, memory=2**28)
    assert found["crash"] == "it took more than 0.25 GiB of memory"


def test_output_without_end_is_stopped():
    (found,) = ask("line = 'x' * 2**20\nwhile True: print(line)", seconds=60)
    assert found["crash"] == "it printed more than 256 MiB"


def test_an_answer_that_is_too_large_is_told_by_its_shape():
    (found,) = ask("got = np.zeros((2**12, 2**12), np.uint8)")
    assert found["arrays"] == [{"shape": [2**12, 2**12], "dtype": "uint8"}]


@pytest.mark.parametrize(
    "given", [(0, 6), (-1, 6), (float("nan"), 6), (float("inf"), 6), (30, 0), (30, float("nan")), (30, 1e300)]
)
def test_a_limit_is_a_positive_number(given):
    with pytest.raises(OptionError, match="must be more than 0 and less than 1e9"):
        Limits.of(*given)
