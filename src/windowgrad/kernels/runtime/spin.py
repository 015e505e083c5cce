"""Waiting for a word of memory to change, without the GIL and without sleep, for as long as a sleeping thread takes to wake up.

The loop is made with LLVM itself, in a few milliseconds. It has no instruction that tells the CPU to relax: on a virtual
machine that gives the CPU away, for longer than the wait should last.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

MOMENT = 100e-6  # seconds: about what it costs to put a thread to sleep and to wake it up
MEASURED = 20_000  # rounds: about a third of a moment
LOADS = 16  # of a round: the memory of the word is asked for no more often than that


class Word(ctypes.Structure):
    """A number that one thread writes and others wait for, on a cache line of its own."""

    _fields_ = (("before", ctypes.c_int64 * 8), ("value", ctypes.c_int64), ("after", ctypes.c_int64 * 24))
    value: int

    def passed(self, seen: int) -> bool:
        """Whether the number is no longer `seen`: at once, or after waiting for a moment if the loop is prepared."""
        if self.value == seen and loop is not None:
            wait, rounds = loop
            wait(ctypes.addressof(self) + OFFSET, seen, rounds)
        return self.value != seen


OFFSET: int = Word.value.offset  # type: ignore[attr-defined]
loop: tuple[Callable[[int, int, int], object], int] | None = None


def prepare() -> None:
    """Make the loop, and find how many rounds of it last a moment; not before kernels were compiled or loaded.

    By the thread that calls, never by a helper: that one may be left behind in the middle of it when the process forks, and
    with it the lock of the compiler.
    """
    global loop
    if loop is not None or "windowgrad.kernels.runtime.jit" not in sys.modules:
        return
    wait, times, nothing = compiled(), [], Word()
    for rounds in (1, *3 * [MEASURED]):  # the first call of the code takes as long as thousands of rounds
        start = time.perf_counter()
        wait(ctypes.addressof(nothing), 0, rounds)
        times.append(time.perf_counter() - start)
    loop = wait, max(1, int(MEASURED * MOMENT / min(times[1:])))


def compiled() -> Callable[[int, int, int], object]:
    """wait(address, seen, rounds) returns when the number is not `seen`, or after so many rounds."""
    import llvmlite.binding as llvm  # loaded by now, see `prepare`
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:  # no process forks while it is held
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(program()), machine)
        engine.finalize_object()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # it owns the code, in which a thread may be until the process ends
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("wait"))


def program() -> str:
    from llvmlite import ir

    number = ir.IntType(64)
    module = ir.Module("wait")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [number.as_pointer(), number, number]), "wait")
    entry, loop, further, after = (function.append_basic_block(name) for name in ("entry", "loop", "further", "after"))
    word, seen, rounds = function.args
    builder = ir.IRBuilder(entry)
    builder.branch(loop)
    builder.position_at_end(loop)
    done = builder.phi(number)
    done.add_incoming(number(0), entry)
    builder.cbranch(builder.icmp_signed("!=", builder.load_atomic(word, "acquire", 8), seen), after, further)
    builder.position_at_end(further)
    for place in range(1, LOADS + 1):  # of words that nobody writes
        builder.load_atomic(builder.gep(word, [number(place)]), "acquire", 8)
    done.add_incoming(builder.add(done, number(1)), further)
    builder.cbranch(builder.icmp_signed("<", done, rounds), loop, after)
    builder.position_at_end(after)
    builder.ret_void()
    return str(module)
