"""Kernels on several threads without Python: helper threads watch a door in memory, without the GIL, and take shares of a job.

A helper that has to take the GIL first gets it when the caller is in its kernel already, and is then put to sleep and woken up:
about 100 µs, in which one thread does the whole call. Here a caller writes the address of a compiled kernel and its arguments
beside the door and opens it; whoever watches takes shares, and so does the caller, until there are none. Then the caller
closes the door and waits for those who are still inside. Nobody late gets in, so the arguments may be on the caller's stack.

    door:  generation | seats left | helpers inside | open        one word of memory, changed as a whole
             32 bits      16 bits        15 bits       1 bit

The caller takes shares from the front, helpers from the back, and they meet where they meet:

    next:  shares taken from the back | from the front             one word too
                   32 bits                  32 bits

So in every call a thread reads and writes what its own caches have from the call before. Measured on two CPUs, in turns: the
maximum of 26 MB takes 0.16 ms; when shares went to whoever came first it took 0.19, and now and then 0.66 for many calls.

A caller that finds the door taken computes everything itself: the helpers are busy. A share is computed in the floating-point
environment of the caller. How Python starts a job of a kernel says `entries`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba._dispatcher import compute_fingerprint
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from windowgrad.kernels.runtime import entries, fenv, spin
from windowgrad.kernels.runtime.entries import BYTES, NUMBER, RUN, SHARE

SMALL = ir.IntType(32)
OPEN, INSIDE, SEAT, GENERATION = 1, 1 << 1, 1 << 16, 1 << 32
FRONT, BACK = 1, 1 << 32

DOOR, OWNER, NEXT, JOB, ENVIRONMENT = 0, 32, 64, 96, 128  # places of words; what several threads write is on lines of its own
SHARE_OF, ARGUMENTS, COUNT, SHARES = range(JOB, JOB + 4)
FOUND = NEXT + 1
WORDS = ENVIRONMENT + fenv.SIZE // 8
PATIENCE = 1 << 14  # rounds that a caller waits before it offers its CPU to others at every round


# --- what callers and helpers do, as LLVM instructions ------------------------------------------------------------


class Code:
    """A function that is being written: the words of a team by their places, and blocks by what they are for."""

    def __init__(self, module: ir.Module, name: str, result: ir.Type, arguments: list[ir.Type]) -> None:
        self.function = ir.Function(module, ir.FunctionType(result, arguments), name)
        self.builder = ir.IRBuilder(self.block("entry"))
        self.team = self.builder.inttoptr(self.function.args[0], NUMBER.as_pointer())

    def block(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    def go_on(self, block: ir.Block) -> None:
        self.builder.position_at_end(block)

    def word(self, place: int) -> Any:
        return self.builder.gep(self.team, [NUMBER(place)])

    def load(self, place: int) -> Any:
        return self.builder.load_atomic(self.word(place), "acquire", 8)

    def store(self, place: int, value: Any) -> None:
        self.builder.store_atomic(value, self.word(place), "release", 8)

    def change(self, operation: str, place: int, by: Any) -> Any:
        """The word before the change."""
        return self.builder.atomic_rmw(operation, self.word(place), by, "acq_rel")

    def call(self, address: int | None, kind: ir.FunctionType, *values: Any) -> None:
        """A function of this process, if there is one."""
        if address is not None:
            self.builder.call(self.builder.inttoptr(NUMBER(address), kind.as_pointer()), values)

    def environment(self, address: int | None) -> None:
        """C's fegetenv or fesetenv, of the environment beside the door."""
        self.call(address, ir.FunctionType(SMALL, [BYTES]), self.builder.bitcast(self.word(ENVIRONMENT), BYTES))

    def work(self, further: ir.Block, helps: bool) -> None:
        """Take shares and compute them until there are none; then go on to `further`."""
        taking, working = self.block("taking"), self.block("working")
        builder = self.builder
        builder.branch(taking)
        self.go_on(taking)
        taken = self.change("add", NEXT, NUMBER(BACK if helps else FRONT))
        front, back = builder.and_(taken, NUMBER(BACK - FRONT)), builder.lshr(taken, NUMBER(BACK.bit_length() - 1))
        count, shares = self.load(COUNT), self.load(SHARES)
        builder.cbranch(builder.icmp_signed("<", builder.add(front, back), shares), working, further)
        self.go_on(working)
        number = builder.sub(builder.sub(shares, NUMBER(1)), back) if helps else front
        first = builder.sdiv(builder.mul(count, number), shares)
        last = builder.sdiv(builder.mul(count, builder.add(number, NUMBER(1))), shares)
        share = builder.inttoptr(self.load(SHARE_OF), SHARE.as_pointer())
        self.change("or", FOUND, builder.call(share, [builder.inttoptr(self.load(ARGUMENTS), BYTES), first, last]))
        builder.branch(taking)


def write_run(module: ir.Module) -> None:
    """run(team, share, arguments, count, shares, helpers): the caller's part. Gives what the shares gave, or-ed."""
    code = Code(module, "run", NUMBER, list(RUN.args))
    builder, (_, share, arguments, count, shares, helpers) = code.builder, code.function.args
    alone, together, closing, waiting, patient, yielding, ended = (
        code.block(name) for name in ("alone", "together", "closing", "waiting", "patient", "yielding", "ended")
    )
    taken = builder.cmpxchg(code.word(OWNER), NUMBER(0), NUMBER(1), "acq_rel", "acquire")
    builder.cbranch(builder.extract_value(taken, 1), together, alone)
    code.go_on(alone)
    builder.ret(builder.call(share, [arguments, NUMBER(0), count]))
    code.go_on(together)
    for place, value in zip((SHARE_OF, ARGUMENTS), (share, arguments), strict=True):
        code.store(place, builder.ptrtoint(value, NUMBER))
    code.store(COUNT, count)
    code.store(SHARES, shares)
    code.store(NEXT, NUMBER(0))
    code.store(FOUND, NUMBER(0))
    code.environment(fenv.addresses[0])
    before = builder.and_(code.load(DOOR), NUMBER(-GENERATION))
    seats = builder.mul(helpers, NUMBER(SEAT))
    code.store(DOOR, builder.add(builder.add(before, NUMBER(GENERATION + OPEN)), seats))
    code.work(closing, False)
    code.go_on(closing)
    code.change("and", DOOR, NUMBER(~OPEN))
    builder.branch(waiting)
    code.go_on(waiting)
    round_ = builder.phi(NUMBER)
    round_.add_incoming(NUMBER(0), closing)
    inside = builder.and_(code.load(DOOR), NUMBER(SEAT - INSIDE))
    builder.cbranch(builder.icmp_signed("==", inside, NUMBER(0)), ended, patient)
    code.go_on(patient)
    after = builder.add(round_, NUMBER(1))
    round_.add_incoming(after, patient)
    builder.cbranch(builder.icmp_signed("<", after, NUMBER(PATIENCE)), waiting, yielding)
    code.go_on(yielding)
    code.call(address_of("sched_yield"), ir.FunctionType(SMALL, []))
    round_.add_incoming(NUMBER(PATIENCE), yielding)
    builder.branch(waiting)
    code.go_on(ended)
    found = code.load(FOUND)
    code.store(OWNER, NUMBER(0))
    builder.ret(found)


def write_serve(module: ir.Module) -> None:
    """serve(team, word, seen, rounds): a helper's part, until the word is not `seen` or nothing happened for so many rounds."""
    code = Code(module, "serve", ir.VoidType(), [NUMBER, NUMBER.as_pointer(), NUMBER, NUMBER])
    builder, (_, word, seen, rounds) = code.builder, code.function.args
    names = ("watching", "opened", "entering", "inside", "leaving", "elsewhere", "relaxing", "gone")
    watching, opened, entering, inside, leaving, elsewhere, relaxing, gone = map(code.block, names)
    entry = code.function.entry_basic_block
    builder.branch(watching)
    code.go_on(watching)
    done, last = builder.phi(NUMBER), builder.phi(NUMBER)  # rounds, and the generation of the job worked on last
    done.add_incoming(NUMBER(0), entry)
    last.add_incoming(NUMBER(0), entry)
    door = code.load(DOOR)
    generation, seats = builder.and_(door, NUMBER(-GENERATION)), builder.and_(door, NUMBER(GENERATION - SEAT))
    free = builder.and_(builder.trunc(door, ir.IntType(1)), builder.icmp_signed("!=", seats, NUMBER(0)))
    builder.cbranch(builder.and_(free, builder.icmp_signed("!=", generation, last)), opened, elsewhere)
    code.go_on(opened)
    entered = builder.cmpxchg(code.word(DOOR), door, builder.add(door, NUMBER(INSIDE - SEAT)), "acq_rel", "acquire")
    builder.cbranch(builder.extract_value(entered, 1), entering, watching)
    done.add_incoming(done, opened)
    last.add_incoming(last, opened)
    code.go_on(entering)
    code.environment(fenv.addresses[1])
    builder.branch(inside)
    code.go_on(inside)
    code.work(leaving, True)
    code.go_on(leaving)
    code.change("sub", DOOR, NUMBER(INSIDE))
    builder.branch(watching)
    done.add_incoming(NUMBER(0), leaving)
    last.add_incoming(generation, leaving)
    code.go_on(elsewhere)
    after = builder.add(done, NUMBER(1))
    over = builder.icmp_signed(">=", after, rounds)
    called = builder.icmp_signed("!=", builder.load_atomic(word, "acquire", 8), seen)
    builder.cbranch(builder.or_(over, called), gone, relaxing)
    code.go_on(relaxing)
    for place in range(1, spin.LOADS + 1):  # of words that nobody writes
        builder.load_atomic(builder.gep(word, [NUMBER(place)]), "acquire", 8)
    done.add_incoming(after, relaxing)
    last.add_incoming(last, relaxing)
    builder.branch(watching)
    code.go_on(gone)
    builder.ret_void()


def address_of(name: str) -> int | None:
    """Where a function of the C library is."""
    found = llvm.address_of_symbol(name)
    return None if not found else int(found)


@cache
def compiled() -> tuple[int, Callable[[int, int, int, int], object]]:
    """The address of `run`, for compiled code, and `serve`, for Python, which it calls without the GIL."""
    module = ir.Module("team")
    write_run(module)
    write_serve(module)
    with global_compiler_lock:  # no process forks while it is held
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
        engine.finalize_object()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # it owns the code, in which a thread may be until the process ends
    number = ctypes.c_int64
    kind = ctypes.CFUNCTYPE(None, number, ctypes.c_void_p, number, number)
    return engine.get_function_address("run"), kind(engine.get_function_address("serve"))


# --- from a kernel and its arguments to a job ---------------------------------------------------------------------


KERNEL = CPUDispatcher
Job = ctypes.c_int64 * entries.NUMBERS
addresses: dict[tuple[Any, bytes], int] = {}


def address(function: Any, given: tuple[Any, ...]) -> int:
    """Where the machine code of a kernel for these arguments, a first and a last is; 0 if threads cannot share it."""
    key = function, compute_fingerprint(given)
    if (found := addresses.get(key)) is None:
        signature = (*map(function.typeof_pyval, given), types.intp, types.intp)
        function.compile(signature)
        made = function.overloads[signature]
        fits = entries.is_shared(made.fndesc)
        found = addresses[key] = made.library.get_pointer_to_function(made.fndesc.llvm_func_name) if fits else 0
    return found


class Team:
    """A door for the helpers of one process."""

    def __init__(self) -> None:
        self.run, self.work = compiled()
        words = (ctypes.c_int64 * WORDS)()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))  # never freed: a helper may be watching it until the process ends
        self.door = ctypes.addressof(words)

    def launch(self, kernel: Any, given: tuple[Any, ...], count: int, shares: int, helpers: int) -> int:
        """The kernel over range(count), cut into shares, with at most so many helpers; what it gave, or-ed."""
        told, numbers = self.job((), count, shares, helpers)
        found = kernel(*given, *told) or 0
        del numbers  # which nobody reads any more
        return found

    def job(self, told: tuple[Any, ...], count: int, shares: int, helpers: int) -> tuple[tuple[Any, ...], Any]:
        """The last arguments of a kernel that start a job, behind what it is told, and what must live as long as they do.

        Nobody writes the numbers of a job, so they serve any number of calls.
        """
        numbers = Job(self.run, self.door, count, shares, helpers)
        return (*told, ctypes.addressof(numbers), entries.JOB), numbers

    def serve(self, calls: spin.Word, seen: int, watching: bool) -> None:
        """Work, until there are calls that were not seen, or nothing to do for a moment; not `watching`: if there is a job."""
        rounds = spin.loop[1] if watching and spin.loop is not None else 1
        self.work(self.door, ctypes.addressof(calls) + spin.OFFSET, seen, rounds)
