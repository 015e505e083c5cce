"""Kernels on several threads without Python: helper threads watch a door in memory, without the GIL, and take shares of a job.

A caller writes the address of a compiled kernel and its arguments beside a door in memory and opens it; whoever watches takes
shares, and so does the caller, until there are none. Then the caller closes the door and waits for those who are still inside.
Nobody late gets in, so the arguments may be on the caller's stack.

A caller that finds the door taken computes everything itself: the helpers are busy. A share is computed in the floating-point
environment of the caller. How Python starts a job of a kernel says `entries`; what threads do at the door, `door`.

A helper that has to take the GIL first gets it when the caller is in its kernel already, and is then put to sleep and woken up:
about 100 µs, in which one thread does the whole call. And when callers woke helpers before they opened the door, one that got
up on its caller's CPU, since the other was busy for a moment, kept the caller off it, watched the closed door until its time
was over, and slept again; so it went on in the next calls, each of which took the time of one thread. Now the door is open
when a helper gets up, and no helper needs the GIL.
"""

from __future__ import annotations

import ctypes
from _thread import allocate_lock
from typing import Any

from numba._dispatcher import compute_fingerprint
from numba.core import types
from numba.core.registry import CPUDispatcher

from windowgrad.kernels.runtime import door, entries, spin

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
        self.run, self.work, self.get_up = door.compiled()
        self.words = (ctypes.c_int64 * door.WORDS)()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.words))  # never freed: a helper may be there until the process ends
        self.door = ctypes.addressof(self.words)
        self.lock = allocate_lock()

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

    def watch(self, watching: bool) -> None:
        """From now on helpers watch for a moment before they go to bed, or look once."""
        self.words[door.WATCH] = spin.loop[1] if watching and spin.loop is not None else 1

    def bed(self) -> int:
        """The number of a bed for a helper."""
        lock = new_lock()
        if lock is None:
            raise MemoryError
        take_lock(lock, 1)
        with self.lock:
            number = self.words[door.BEDS]
            self.words[door.FIRST_BED + number * door.BED + 1] = lock
            self.words[door.BEDS] = number + 1
        return number

    def serve(self, calls: spin.Word, seen: int, bed: int) -> None:
        """Work, until there are calls that were not seen."""
        self.work(self.door, ctypes.addressof(calls) + spin.OFFSET, seen, bed)

    def rouse(self, helpers: int) -> None:
        """So many helpers see that there are calls."""
        self.get_up(self.door, helpers)

    def in_bed(self) -> int:
        """How many helpers sleep."""
        beds = self.words[door.BEDS] * door.BED
        return sum(self.words[door.FIRST_BED : door.FIRST_BED + beds : door.BED])

    def counts(self) -> dict[str, int]:
        """So far: jobs, those that no helper came to, shares, and those that helpers computed."""
        names = {"jobs": door.JOBS, "alone": door.ALONE, "shares": door.ALL_SHARES, "helped": door.HELPED}
        return {name: self.words[place] for name, place in names.items()}


new_lock: Any = ctypes.pythonapi.PyThread_allocate_lock
new_lock.restype = ctypes.c_void_p
take_lock: Any = ctypes.pythonapi.PyThread_acquire_lock
take_lock.argtypes = ctypes.c_void_p, ctypes.c_int
