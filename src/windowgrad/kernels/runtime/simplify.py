"""LLVM simplifies what kernels call on a second thread, while Numba goes on with the next function.

Code is handed over as text and comes back as bitcode, each in a context of LLVM of its own: then no two threads are at the same
objects, and LLVM needs no lock. llvmlite has one for all its calls; only the one that takes long is made without it. Who needs
code that nobody has begun simplifies it itself, so that all is well without a second thread too.

The thread lives as long as one kernel is being compiled. Its compiler holds Numba's lock, for which a fork waits.
"""

from __future__ import annotations

import sys
import threading
from _thread import start_new_thread
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, Protocol

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from numba.core import config

INTERVAL = (
    2e-4  # seconds that the second thread waits for Python's lock: it needs it for a moment some twenty times per function
)


class Code:
    """Code of functions, as text and then as bitcode."""

    __slots__ = ("bitcode", "codegen", "lock", "text")

    def __init__(self, text: str, codegen: Any) -> None:
        self.text, self.codegen, self.lock = text, codegen, threading.Lock()
        self.bitcode: bytes | None = None

    def work(self, machine: Any) -> None:
        self.simplified(machine)

    def simplified(self, machine: Any) -> bytes:
        with self.lock:  # the other thread may be at it
            if self.bitcode is None:
                self.bitcode = simplify(self.text, machine, self.codegen)
                self.text = ""
            return self.bitcode


class Work(Protocol):
    """What the second thread can do, and who needs it before."""

    codegen: Any

    def work(self, machine: Any) -> None: ...


def simplify(text: str, machine: Any, codegen: Any) -> bytes:
    """Numba's passes for functions, without its lock."""
    run = ffi.lib.LLVMPY_RunNewFunctionPassManager._cfn
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    module.data_layout = codegen._data_layout
    builder = pass_builder(machine)
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            run(passes, function, builder)
    found: bytes = module.as_bitcode()
    return found


def pass_builder(machine: Any, unrolls: bool = True) -> Any:
    """Makes Numba's passes; if told so, without those that unroll loops."""
    options = llvm.create_pipeline_tuning_options(speed_level=int(config.OPT))
    options.loop_vectorization, options.slp_vectorization = bool(config.LOOP_VECTORIZE), bool(config.SLP_VECTORIZE)
    options.loop_unrolling = unrolls
    return llvm.create_pass_builder(machine, options)


@cache
def own_machine(codegen: Any) -> Any:
    """As Numba's, which the compiling thread may use at the same time."""
    options = {"opt": config.OPT}
    codegen._customize_tm_options(options)
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(**options)


class Helper:
    """The second thread."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Work | None] | None = None
        self.ended = threading.Lock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """For as long as a kernel is being compiled. It has ended afterwards."""
        if self.queue is not None:
            yield
            return
        self.queue, interval = SimpleQueue(), sys.getswitchinterval()
        self.ended.acquire()
        sys.setswitchinterval(min(interval, INTERVAL))
        try:
            start_new_thread(self.work, (self.queue,))
        except RuntimeError:  # there are no more threads, or Python is about to end
            self.ended.release()
        try:
            yield
        finally:
            self.queue.put(None)
            self.queue = None
            with self.ended:
                pass
            sys.setswitchinterval(interval)

    def work(self, queue: SimpleQueue[Work | None]) -> None:
        try:
            while (work := queue.get()) is not None:
                with suppress(Exception):  # whoever needs it raises it again
                    work.work(own_machine(work.codegen))
        finally:
            self.ended.release()

    def take(self, work: Work) -> None:
        if self.queue is not None:
            self.queue.put(work)


helper = Helper()
