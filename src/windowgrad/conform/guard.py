"""The process between the command and a worker. It starts the worker, watches its memory, and ends all that it started.

On Linux it adopts every orphan among its descendants (PR_SET_CHILD_SUBREAPER), so neither `setsid` nor a double fork leaves its
tree. It ends the tree when the worker has ended or holds too much memory, and when the command closes the control socket, which
the kernel does for a command that is killed. Where there is no /proc (macOS), the tree is what `ps` shows.

It is started by its path, without site packages: python -I -S guard.py <channel> <control> <bytes>.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

WORKER = Path(__file__).with_name("worker.py")
INTERVAL = 0.05
"""Seconds between two looks at the memory."""
PATIENCE = 5.0
"""Seconds after which a process that cannot be killed (it waits for a device) is left behind."""
ROOM = 4 * 2**30
"""What a process may map beyond twice the limit: frameworks reserve memory that they never touch."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(channel: int, control: int, memory: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # only the command ends this process; a handler is not inherited by the worker
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    worker = started(channel, control, memory)
    os.close(channel)
    tell(control, {"worker": worker})
    found = watch(worker, control, memory)
    end_all(worker)
    tell(control, found)


def started(channel: int, control: int, memory: int) -> int:
    """The worker's id: in a session of its own, with limits, and killed should this process die."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.close(control)
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_DATA, 2 * memory + ROOM)
        os.set_inheritable(channel, True)
        os.execv(sys.executable, [sys.executable, str(WORKER), str(channel)])
    finally:
        os._exit(127)


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    with suppress(ValueError, OSError, OverflowError):
        resource.setrlimit(what, (most, hard) if hard == resource.RLIM_INFINITY else (min(most, hard), hard))


def tell(control: int, found: dict[str, int]) -> None:
    with suppress(OSError):  # the command is gone
        os.write(control, json.dumps(found).encode() + b"\n")


def watch(worker: int, control: int, memory: int) -> dict[str, int]:
    """{"ended": status} of the worker, {"memory": bytes} if its tree holds too much, or {} if the command wants the end."""
    closing = select.poll()
    closing.register(control, select.POLLIN)
    while not closing.poll(INTERVAL * 1000):
        for pid, status in reaped():
            if pid == worker:
                return {"ended": os.waitstatus_to_exitcode(status)}
        if (held := held_by(descendants(os.getpid()), memory)) > memory:
            return {"memory": held}
    return {}


def reaped() -> list[tuple[int, int]]:
    """The children that have ended since the last look."""
    found = []
    with suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def end_all(worker: int) -> None:
    """Kill until nothing is left: what a process started meanwhile becomes a child of this one when it dies."""
    late = time.monotonic() + PATIENCE
    while time.monotonic() < late:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker, signal.SIGKILL)
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reaped()
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.002)


# --- the tree ----------------------------------------------------------------------------------------------------


def descendants(root: int) -> list[int]:
    """All processes below one."""
    listed = None if Path(f"/proc/{root}/task/{root}/children").exists() else table()
    found: list[int] = []
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        below = children(parent) if listed is None else [pid for pid, above in listed.items() if above == parent]
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it has just ended
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def table() -> dict[int, int]:
    """The parent of every process, where /proc does not list children."""
    lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True).stdout.splitlines()
    return {int(pid): int(parent) for pid, parent in map(str.split, lines)}


def held_by(pids: list[int], enough: int) -> int:
    """The bytes that processes hold together. Pages that several share are counted once, if the sum could be too much."""
    total = sum(map(resident, pids))
    return total if total <= enough else sum(map(proportional, pids))


def resident(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    if Path("/proc/self/statm").exists():
        return 0  # it has just ended
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True).stdout
    return int(shown or 0) * 1024


def proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return resident(pid)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
