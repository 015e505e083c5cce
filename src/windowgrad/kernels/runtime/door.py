"""What callers and helper threads of a `team` do, as instructions of LLVM: they meet at a door in memory, without Python.

    door:  generation | seats left | helpers inside | open        one word of memory, changed as a whole
             32 bits      16 bits        15 bits       1 bit

The caller takes shares from the front, helpers from the back, and they meet where they meet:

    next:  shares taken from the back | from the front             one word too
                   32 bits                  32 bits

So in every call a thread reads and writes what its own caches have from the call before. Measured on two CPUs, in turns: the
maximum of 26 MB takes 0.16 ms; when shares went to whoever came first it took 0.19, and now and then 0.66 for many calls.

A helper that has seen nothing to do for a moment goes to bed: it notes that beside the door, looks once more, and sleeps on a
lock of its own. The caller opens the door and then looks who is in bed: one of the two sees the other. Whoever clears the note
answers for the lock, which is released once for each time that it is waited for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.compiler_lock import global_compiler_lock

from windowgrad.kernels.runtime import fenv, spin
from windowgrad.kernels.runtime.entries import BYTES, NUMBER, RUN, SHARE

SMALL = ir.IntType(32)
OPEN, INSIDE, SEAT, GENERATION = 1, 1 << 1, 1 << 16, 1 << 32
FRONT, BACK = 1, 1 << 32

DOOR, OWNER, NEXT, JOB, ENVIRONMENT = 0, 32, 64, 96, 128  # places of words; what several threads write is on lines of its own
SHARE_OF, ARGUMENTS, COUNT, SHARES = range(JOB, JOB + 4)
FOUND = NEXT + 1
JOBS, ALONE, ALL_SHARES, HELPED = range(OWNER + 1, OWNER + 5)  # so far: jobs, those without a helper, shares, those by helpers
WATCH = ENVIRONMENT + fenv.SIZE // 8  # rounds that a helper watches a closed door before it goes to bed
BEDS = WATCH + 1  # how many there are; then, of each helper, whether it is in bed and its lock
FIRST_BED, BED, MOST_BEDS = WATCH + 8, 2, 1 << 10
WORDS = FIRST_BED + BED * MOST_BEDS
PATIENCE = 1 << 14  # rounds that a caller waits before it offers its CPU to others at every round


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

    def add(self, place: int, by: Any) -> None:
        """To a word that nobody else changes meanwhile."""
        self.store(place, self.builder.add(self.load(place), by))

    def bed(self, number: Any) -> tuple[Any, Any]:
        """Its words: whether the helper is in it, and the lock."""
        first = self.builder.gep(self.team, [self.builder.add(NUMBER(FIRST_BED), self.builder.mul(number, NUMBER(BED)))])
        return first, self.builder.load_atomic(self.builder.gep(first, [NUMBER(1)]), "acquire", 8)

    def leaves(self, bed: Any) -> Any:
        """Whether a helper was in this bed and no longer is."""
        return self.builder.extract_value(self.builder.cmpxchg(bed, NUMBER(1), NUMBER(0), "seq_cst", "seq_cst"), 1)

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


def write_rouse(module: ir.Module) -> ir.Function:
    """rouse(team, helpers): so many helpers leave their beds, if as many are in bed."""
    code = Code(module, "rouse", ir.VoidType(), [NUMBER, NUMBER])
    builder, (_, helpers) = code.builder, code.function.args
    names = ("looking", "asking", "trying", "rousing", "further", "ended")
    looking, asking, trying, rousing, further, ended = map(code.block, names)
    builder.fence("seq_cst")  # first the door was opened
    beds, entry = code.load(BEDS), builder.block
    builder.branch(looking)
    code.go_on(looking)
    number, left = builder.phi(NUMBER), builder.phi(NUMBER)
    number.add_incoming(NUMBER(0), entry)
    left.add_incoming(helpers, entry)
    builder.cbranch(
        builder.and_(builder.icmp_signed("<", number, beds), builder.icmp_signed(">", left, NUMBER(0))), asking, ended
    )
    code.go_on(asking)
    bed, lock = code.bed(number)
    builder.cbranch(builder.trunc(builder.load_atomic(bed, "acquire", 8), ir.IntType(1)), trying, further)
    code.go_on(trying)
    builder.cbranch(code.leaves(bed), rousing, further)
    code.go_on(rousing)
    code.call(python("PyThread_release_lock"), ir.FunctionType(ir.VoidType(), [NUMBER]), lock)
    fewer = builder.sub(left, NUMBER(1))
    builder.branch(further)
    code.go_on(further)
    still = builder.phi(NUMBER)
    still.add_incoming(left, asking)
    still.add_incoming(left, trying)
    still.add_incoming(fewer, rousing)
    number.add_incoming(builder.add(number, NUMBER(1)), further)
    left.add_incoming(still, further)
    builder.branch(looking)
    code.go_on(ended)
    builder.ret_void()
    return code.function


def write_run(module: ir.Module, rouse: ir.Function) -> None:
    """run(team, share, arguments, count, shares, helpers): the caller's part. Gives what the shares gave, or-ed."""
    code = Code(module, "run", NUMBER, list(RUN.args))
    builder, (team, share, arguments, count, shares, helpers) = code.builder, code.function.args
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
    builder.call(rouse, [team, helpers])
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
    own = builder.sub(builder.and_(code.load(NEXT), NUMBER(BACK - FRONT)), NUMBER(1))  # the last one that it took was none
    helped = builder.sub(shares, own)
    code.add(JOBS, NUMBER(1))
    code.add(ALONE, builder.zext(builder.icmp_signed("==", helped, NUMBER(0)), NUMBER))
    code.add(ALL_SHARES, shares)
    code.add(HELPED, helped)
    code.store(OWNER, NUMBER(0))
    builder.ret(found)


def write_serve(module: ir.Module) -> None:
    """serve(team, word, seen, number): a helper's part, until the word is not `seen`. In between it sleeps in this bed."""
    code = Code(module, "serve", ir.VoidType(), [NUMBER, NUMBER.as_pointer(), NUMBER, NUMBER])
    builder, (_, word, seen, number) = code.builder, code.function.args
    names = ("watching", "opened", "entering", "inside", "leaving", "elsewhere", "tired", "relaxing")
    watching, opened, entering, inside, leaving, elsewhere, tired, relaxing = map(code.block, names)
    lying, rising, sleeping, gone = map(code.block, ("lying", "rising", "sleeping", "gone"))
    (bed, lock), entry = code.bed(number), builder.block
    builder.branch(watching)
    code.go_on(watching)
    done, last = builder.phi(NUMBER), builder.phi(NUMBER)  # rounds, and the generation of the job worked on last
    done.add_incoming(NUMBER(0), entry)
    last.add_incoming(NUMBER(0), entry)
    door, free = free_seat(code, last)
    builder.cbranch(free, opened, elsewhere)
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
    generation = builder.and_(door, NUMBER(-GENERATION))
    builder.branch(watching)
    done.add_incoming(NUMBER(0), leaving)
    last.add_incoming(generation, leaving)
    code.go_on(elsewhere)
    after = builder.add(done, NUMBER(1))
    builder.cbranch(called(code, word, seen), gone, tired)
    code.go_on(tired)
    builder.cbranch(builder.icmp_signed(">=", after, code.load(WATCH)), lying, relaxing)
    code.go_on(relaxing)
    for place in range(1, spin.LOADS + 1):  # of words that nobody writes
        builder.load_atomic(builder.gep(word, [NUMBER(place)]), "acquire", 8)
    done.add_incoming(after, relaxing)
    last.add_incoming(last, relaxing)
    builder.branch(watching)
    code.go_on(lying)
    builder.store_atomic(NUMBER(1), bed, "seq_cst", 8)
    builder.fence("seq_cst")  # whoever opens the door or changes the word from now on sees it
    wanted = builder.or_(free_seat(code, last)[1], called(code, word, seen))
    builder.cbranch(wanted, rising, sleeping)
    code.go_on(rising)
    builder.cbranch(code.leaves(bed), watching, sleeping)  # else somebody releases the lock
    done.add_incoming(NUMBER(0), rising)
    last.add_incoming(last, rising)
    code.go_on(sleeping)
    code.call(python("PyThread_acquire_lock"), ir.FunctionType(SMALL, [NUMBER, SMALL]), lock, SMALL(1))
    builder.branch(watching)
    done.add_incoming(NUMBER(0), sleeping)
    last.add_incoming(last, sleeping)
    code.go_on(gone)
    builder.ret_void()


def free_seat(code: Code, last: Any) -> tuple[Any, Any]:
    """The door, and whether one may enter who worked on the job `last`."""
    builder, door = code.builder, code.load(DOOR)
    generation, seats = builder.and_(door, NUMBER(-GENERATION)), builder.and_(door, NUMBER(GENERATION - SEAT))
    free = builder.and_(builder.trunc(door, ir.IntType(1)), builder.icmp_signed("!=", seats, NUMBER(0)))
    return door, builder.and_(free, builder.icmp_signed("!=", generation, last))


def called(code: Code, word: Any, seen: Any) -> Any:
    """Whether the word is another."""
    return code.builder.icmp_signed("!=", code.builder.load_atomic(word, "acquire", 8), seen)


def python(name: str) -> int | None:
    """Where a function of Python is; those of its locks are called without the GIL."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def address_of(name: str) -> int | None:
    """Where a function of the C library is."""
    found = llvm.address_of_symbol(name)
    return None if not found else int(found)


@cache
def compiled() -> tuple[int, Callable[[int, int, int, int], object], Callable[[int, int], object]]:
    """The address of `run`, for compiled code; `serve`, which Python calls without the GIL; and `rouse`."""
    module = ir.Module("team")
    write_run(module, write_rouse(module))
    write_serve(module)
    with global_compiler_lock:  # no process forks while it is held
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
        engine.finalize_object()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # it owns the code, in which a thread may be until the process ends
    number, place = ctypes.c_int64, engine.get_function_address
    serve = ctypes.CFUNCTYPE(None, number, ctypes.c_void_p, number, number)
    return place("run"), serve(place("serve")), ctypes.PYFUNCTYPE(None, number, number)(place("rouse"))
