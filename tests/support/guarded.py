"""Memory that ends where it ends: arrays and scratch flush against pages that nobody may touch, full of poison.

A guarded block lies at the end of its pages or at their start, and the pages before and after it are inaccessible, so one cell
too far is a segmentation fault. It is unmapped as soon as it is freed: to use it after that is one too. Run what may crash in a
process of its own.

    x = guarded(array, at="end", layout="Fortran")    a copy of an array, flush
    with exact_memory(at="start", poison=0xFF): ...   every array that NumPy makes, and the library's own scratch
    guard_compiled_code()                             what kernels allocate inside compiled code too, from now on

The allocator is compiled by Numba: NumPy and compiled code call it from threads that do not hold the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys
from numba.extending import intrinsic

from windowgrad.kernels.conv.share import Room
from windowgrad.kernels.pool.smooth import strips
from windowgrad.kernels.runtime import buffers, threads

Array = np.ndarray[Any, Any]

PAGE = mmap.PAGESIZE
NAN = 0xFF
"""A byte of which every float is NaN, and every signed integer −1."""
OTHER = 0x5A
"""Another one: what depends on memory that was never written differs between the two."""

AT_END, POISON = 0, 1

# --- the allocator -----------------------------------------------------------------------------------------------
#
#   header page | inaccessible page | pages of the block | inaccessible page
#
# Addresses are plain integers here. The header says how many bytes are mapped, and how many of them are the block.


@intrinsic
def read(typing: Any, address: Any) -> Any:
    """The integer at an address."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(numba.int64)
        return builder.load(builder.inttoptr(args[0], word.as_pointer()))

    return numba.int64(numba.int64), lower


@intrinsic
def write(typing: Any, address: Any, value: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(numba.int64)
        builder.store(args[1], builder.inttoptr(args[0], word.as_pointer()))
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.int64), lower


def of_libc(name: str, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(None), name)
    function.argtypes, function.restype = arguments, ctypes.c_int64
    return function


WORD, INT = ctypes.c_int64, ctypes.c_int
libc_mmap = of_libc("mmap", WORD, WORD, INT, INT, INT, WORD)
libc_mprotect = of_libc("mprotect", WORD, WORD, INT)
libc_munmap = of_libc("munmap", WORD, WORD)
libc_memset = of_libc("memset", WORD, INT, WORD)
libc_memcpy = of_libc("memcpy", WORD, WORD, WORD)

USABLE, ANONYMOUS = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
settings = (ctypes.c_int64 * 2)(1, NAN)


class Allocator:
    """The compiled functions, as NumPy's handlers and Numba's runtime want them."""

    def __init__(self) -> None:
        told = ctypes.addressof(settings)

        @numba.njit(error_model="numpy")
        def allocate(size: int, poisoned: bool) -> int:
            pages = (max(size, 1) + PAGE - 1) // PAGE
            length = (pages + 3) * PAGE
            base = libc_mmap(0, length, 0, ANONYMOUS, -1, 0)
            if base == -1:
                return 0
            first = base + 2 * PAGE
            if libc_mprotect(base, PAGE, USABLE) or libc_mprotect(first, pages * PAGE, USABLE):
                libc_munmap(base, length)  # the process has as many mappings as it may have
                return 0
            write(base, length)
            write(base + 8, size)
            if poisoned:
                libc_memset(first, read(told + 8 * POISON), pages * PAGE)
            return first + pages * PAGE - max(size, 1) if read(told + 8 * AT_END) else first

        @numba.njit(error_model="numpy")
        def release(block: int) -> None:
            if block:
                base = block // PAGE * PAGE - 2 * PAGE
                libc_munmap(base, read(base))

        @numba.cfunc(numba.int64(numba.int64, numba.int64))
        def malloc(context: int, size: int) -> int:
            return allocate(size, True)

        @numba.cfunc(numba.int64(numba.int64, numba.int64, numba.int64))
        def calloc(context: int, count: int, size: int) -> int:
            return allocate(count * size, False)

        @numba.cfunc(numba.int64(numba.int64, numba.int64, numba.int64))
        def realloc(context: int, block: int, size: int) -> int:
            new = allocate(size, True)
            if block and new:
                kept = min(size, read(block // PAGE * PAGE - 2 * PAGE + 8))
                libc_memcpy(new, block, kept)
                release(block)
            return new

        @numba.cfunc(numba.void(numba.int64, numba.int64, numba.int64))
        def free(context: int, block: int, size: int) -> None:
            release(block)

        @numba.cfunc(numba.void(numba.int64))
        def free_one(block: int) -> None:
            release(block)

        table = (ctypes.c_void_p * 6).from_address(ctypes.CFUNCTYPE(ctypes.c_void_p)(_nrt_python.c_helpers["get_api"])())
        manage = ctypes.CFUNCTYPE(WORD, WORD, WORD)(table[2])  # (block, how to free it) -> what Numba counts references with
        how = free_one.address

        @numba.cfunc(numba.int64(numba.int64, numba.int32))
        def for_numba(size: int, alignment: int) -> int:
            return manage(allocate(size, True), how)

        self.functions = malloc, calloc, realloc, free, free_one, for_numba
        self.kept = manage

    @property
    def for_numpy(self) -> list[int]:
        return [function.address for function in self.functions[:4]]

    @property
    def for_compiled_code(self) -> int:
        return int(self.functions[-1].address)


@cache
def allocator() -> Allocator:
    return Allocator()


# --- NumPy's arrays ----------------------------------------------------------------------------------------------


class Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C API (NEP 49)."""

    _fields_ = [  # ctypes wants a list
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * 4),
    ]


SET_HANDLER = 304  # its place in the table of NumPy's C API, which is never changed


@cache
def handler() -> Any:
    """The capsule that NumPy is given; it lives as long as the process, as arrays hold it."""
    made = Handler(b"guarded", 1, None, (ctypes.c_void_p * 4)(*allocator().for_numpy))
    keep.append(made)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(made), b"mem_handler", None)


keep: list[Any] = []


@cache
def set_handler() -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)
    address = (ctypes.c_void_p * (SET_HANDLER + 1)).from_address(table)[SET_HANDLER]
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)


@contextmanager
def guarded_arrays(at: str = "end", poison: int = NAN) -> Iterator[None]:
    """Every array that NumPy makes on this thread is guarded, and full of poison unless it is asked for zeros."""
    before = tuple(settings)
    settings[AT_END], settings[POISON] = int(at == "end"), poison
    old = set_handler()(handler())
    try:
        yield
    finally:
        set_handler()(old)
        settings[:] = before


# --- copies of arrays --------------------------------------------------------------------------------------------


def order_of(layout: str, ndim: int, channel: int) -> list[int]:
    """The axes from the slowest to the fastest."""
    axes = list(range(ndim))
    if layout == "Fortran":
        return axes[::-1]
    if layout == "channels last" and 0 <= channel < ndim:
        return [*axes[:channel], *axes[channel + 1 :], channel]
    return axes


LAYOUTS = ("C", "Fortran", "channels last", "negative", "stepped")


def strides_of(shape: tuple[int, ...], itemsize: int, layout: str, channel: int) -> list[int]:
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(order_of(layout, len(shape), channel)):
        strides[axis] = step * (2 if layout == "stepped" else 1)
        step = strides[axis] * max(shape[axis], 1)
    return strides


def guarded(array: Array, at: str = "end", layout: str = "C", channel: int = 1) -> Array:
    """A copy whose first cell is the first of its memory, and whose last cell is the last."""
    if array.size == 0:
        return array.copy()
    strides = strides_of(array.shape, array.itemsize, layout, channel)
    span = array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    with guarded_arrays(at):
        memory = np.empty(span, np.uint8)
    if layout == "negative":
        copy = np.ndarray(array.shape, array.dtype, memory, span - array.itemsize, [-s for s in strides])
    else:
        copy = np.ndarray(array.shape, array.dtype, memory, 0, strides)
    copy[...] = array
    return copy


def guarded_empty(
    shape: tuple[int, ...], dtype: Any, at: str = "end", layout: str = "C", channel: int = 1, poison: int = NAN
) -> Array:
    """An array full of poison, to write a result to."""
    cells = np.full((*shape, np.dtype(dtype).itemsize), poison, np.uint8).view(dtype)
    return guarded(cells.reshape(shape), at, layout, channel)


# --- scratch -----------------------------------------------------------------------------------------------------


def exact_room(self: Any, count: int, dtype: Any, listed: int = 0) -> tuple[Array, Array]:
    """`Room.get` of convolutions with nothing kept from earlier calls, and nothing more than was asked for."""
    return np.empty(count, dtype), np.empty(listed, np.int64)


def exact_scratch(self: Any, *sizes: int) -> list[Array]:
    """`strips.Scratch.arrays`, each array by itself."""
    return [np.empty(size) for size in sizes]


class GuardedPool(threads.Pool):
    """Helper threads whose arrays are guarded as well: NumPy's handler is set for each thread by itself."""

    def serve(self) -> None:
        set_handler()(handler())
        super().serve()


@contextmanager
def exact_memory(at: str = "end", poison: int = NAN) -> Iterator[None]:
    """Every array that the library makes is guarded, poisoned and no larger than asked for, on all its threads."""
    replaced = [
        (Room, "get", exact_room),
        (strips.Scratch, "arrays", exact_scratch),
        (threads, "pool", helpers()),
        (buffers, "pool", buffers.Pool(0)),
    ]
    before = [getattr(place, name) for place, name, _ in replaced]
    for place, name, value in replaced:
        setattr(place, name, value)
    try:
        with guarded_arrays(at, poison):
            yield
    finally:
        for (place, name, _), value in zip(replaced, before, strict=True):
            setattr(place, name, value)


@cache
def helpers() -> GuardedPool:
    return GuardedPool()


def guard_compiled_code() -> None:
    """What compiled code allocates is guarded too, in this process from now on: kernels loaded earlier are left as they are."""
    rtsys.initialize(cpu_target.target_context)
    for name in ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_alloc_safe_aligned"):
        llvm.add_symbol(name, allocator().for_compiled_code)
