"""A worker seen from outside: questions with limits of time and memory. Its death is an answer too."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes of one case, and the seconds of the imports before the first."""

    seconds: float = 30
    memory: int = 6 * GIB
    start: float = 120


class Worker:
    """One process for many programs; a new one follows when it has ended. Use it in a `with`."""

    def __init__(self, imports: str, limits: Limits) -> None:
        self.imports, self.limits = imports, limits
        self.process: subprocess.Popen[str] | None = None
        self.errors: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, program: str) -> dict[str, Any]:
        """{"arrays": …}, or {"error": …} if it raised, or {"crash": …} if the process ended or went beyond a limit."""
        if self.process is None:
            self.start()
            first = self._ask(self.imports, self.limits.start)
            if "arrays" not in first:
                self.stop()
                return {"crash": f"it cannot be imported: {first.get('error') or first.get('crash')}"}
        return self._ask(program, self.limits.seconds)

    def start(self) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it lives as long as the process
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**quiet, **os.environ},
            start_new_session=True,  # so that what it starts ends with it
        )

    def stop(self) -> None:
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.errors.close()
        self.process = None

    def _ask(self, program: str, seconds: float) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(program) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._dead("it ended before it was asked")
        line = self._line(time.monotonic() + seconds)
        if line is None:
            return self._dead(f"no answer after {seconds:g} seconds")
        if line == "memory":
            return self._dead(f"it took more than {self.limits.memory / GIB:.3g} GiB of memory")
        if not line:
            return self._dead(ended(self.process.wait()))
        found: dict[str, Any] = json.loads(line)
        return found

    def _line(self, deadline: float) -> str | None:
        """The next line it writes; "" if it ended, None if it is late, "memory" if it is too large."""
        assert self.process is not None
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if ready.select(timeout=0.05):
                    return self.process.stdout.readline()
                if resident(self.process.pid) > self.limits.memory:
                    return "memory"
        return None

    def _dead(self, why: str) -> dict[str, Any]:
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines()[-1:]
        self.stop()
        return {"crash": why, "said": said}


def ended(status: int) -> str:
    return f"it was ended by {signal.Signals(-status).name}" if status < 0 else f"it ended with status {status}"


def resident(pid: int) -> int:
    """The bytes a process holds in memory; 0 if nothing tells."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        found = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
        return int(found.stdout or 0) * 1024
    except (OSError, ValueError):
        return 0
