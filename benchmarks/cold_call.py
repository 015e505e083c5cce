"""One first call in this process, taken apart: the imports, the call, and what of it Numba and LLVM take. Prints JSON.

python benchmarks/cold_call.py SETUP CALL    # run by cold_start.py, in a process of its own
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

KINDS = ("numba:compiler_lock", "numba:llvm_lock", "numba:run_pass")


def shares_listener() -> Any:
    """Of everything that Numba compiles from now on, the CPU seconds by kind; none counts twice, however deep it is nested."""
    from numba.core import event

    class Shares(event.Listener):  # type: ignore[misc]  # Numba has no types
        def __init__(self) -> None:
            self.seconds = {"LLVM": 0.0, "typing": 0.0, "lowering": 0.0, "other": 0.0}
            self.functions = 0
            self.lock, self.own = threading.Lock(), threading.local()

        def on_start(self, event: Any) -> None:
            stack = self.charged()
            name = event.data["name"].split()[0] if event.kind == "numba:run_pass" else ""
            named = {"nopython_type_inference": "typing", "native_lowering": "lowering"}
            stack.append("LLVM" if event.kind == "numba:llvm_lock" else named.get(name, "other"))
            self.functions += name == "native_lowering"

        def on_end(self, event: Any) -> None:
            stack = self.charged()
            if stack:
                stack.pop()

        def charged(self) -> list[str]:
            """The kinds this thread is in, after the innermost has got the time since the last event."""
            stack: list[str] = self.own.__dict__.setdefault("stack", [])
            now = time.thread_time()
            if stack:
                with self.lock:
                    self.seconds[stack[-1]] += now - self.own.since
            self.own.since = now
            return stack

    found = Shares()
    for kind in KINDS:
        event.register(kind, found)
    return found


def kernels() -> int:
    """Files in the cache folder."""
    return sum(1 for _ in Path(os.environ["WINDOWGRAD_CACHE_DIR"]).rglob("*.kernel"))


def main(setup: str, call: str) -> dict[str, Any]:
    import numpy as np

    times = [time.process_time()]
    import windowgrad as wg

    times.append(time.process_time())
    import numba  # noqa: F401  # the first call would import it

    times.append(time.process_time())
    shares, names = shares_listener(), {"np": np, "wg": wg}
    exec(setup, names)
    code, before = compile(call, "<call>", "exec"), kernels()
    start, worked = time.perf_counter(), time.process_time()
    exec(code, names)
    taken, worked = time.perf_counter() - start, time.process_time() - worked
    own, imported = times[1] - times[0], times[2] - times[1]
    counted = {"functions": shares.functions, "kernels": kernels() - before}
    spent = {"call": taken, "cpu": worked, "shares": shares.seconds}
    return {"import windowgrad": own, "import numba": imported} | spent | counted


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
