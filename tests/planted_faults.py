"""Faults on purpose: `python tests/planted_faults.py` prints what guarded memory and the fuzzer find of them.

Each runs in forked children, as most of them crash.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numba
import numpy as np

from support import fuzz_cases, fuzz_checks
from support.fuzz_workers import Run
from support.guarded import LAYOUTS, exact_memory, guard_compiled_code, guarded
from windowgrad import dispatch, routes
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.pointwise.ways import room
from windowgrad.kernels.pool.max import entry as maximum
from windowgrad.kernels.pool.smooth import strips
from windowgrad.kernels.runtime import buffers, threads
from windowgrad.kernels.runtime.threads import get_num_threads
from windowgrad.params import MaxParams

# --- memory that is touched where it must not be -----------------------------------------------------------------


def peek(address: int) -> None:
    ctypes.string_at(address, 1)


def bounds(array: Any) -> tuple[int, int]:
    """The first address of an array, and the one behind it."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def probes() -> Iterator[tuple[str, Callable[[], Any]]]:
    cells = np.arange(24.0).reshape(2, 3, 4)
    for layout in LAYOUTS:
        for at in ("end", "start"):
            array = guarded(cells, at, layout)
            low, high = bounds(array)
            yield f"inside, {layout}, at the {at}", lambda low=low, high=high, a=array: (peek(low), peek(high - 1))
            outside = high if at == "end" else low - 1
            yield f"outside, {layout}, at the {at}", lambda outside=outside, a=array: peek(outside)
    yield "outside, freed", lambda: peek(guarded(cells).ctypes.data)
    with exact_memory():
        cells_of_room, lists = room.get(5, np.float32, 3)
        (scratch,) = strips.Scratch().arrays(7)
        output = buffers.empty((300_000,), np.float64)
    for name, array in (("room", cells_of_room), ("lists", lists), ("scratch", scratch), ("output", output)):
        yield f"inside, {name}", lambda a=array: peek(bounds(a)[1] - 1)
        yield f"outside, {name}", lambda a=array: peek(bounds(a)[1])
    yield "inside, compiled", lambda: last_of_scratch(8, 7)
    yield "outside, compiled", lambda: last_of_scratch(8, 8)
    yield "outside, on a helper thread", on_a_helper


@numba.njit
def last_of_scratch(size: int, at: int) -> float:
    scratch = np.empty(size, np.float64)
    for i in range(size):
        scratch[i] = i
    return scratch[at]


def on_a_helper() -> None:
    """The scratch of a thread that the library starts; the calling one waits for it."""
    done = threading.Event()

    def task(first: int, last: int) -> None:
        if first == 0:
            done.wait()
        else:
            peek(bounds(room.get(5, np.float32, 0)[0])[1])
            done.set()

    with exact_memory(), patch.object(threads, "LEAST_WORK", 0), patch.object(threads, "chosen", 2):
        threads.run(task, 2, 1)


# --- kernels that are wrong --------------------------------------------------------------------------------------

CASE = fuzz_cases.Case(
    op="max_pool",
    rule="forward",
    params=MaxParams(Sliding((2,))),
    shapes=((3, 8),),
    dtype=np.dtype(np.float32),
    given=np.dtype(np.float32),
    values="whole",
    layouts=("Fortran",),
    sides=("end", "start"),
    threads=2,
    out=None,
    small_blocks=False,
    seed=(0, 0),
)
right = maximum.max_forward


@numba.njit
def entry(x: Any, at: int) -> Any:
    """A cell wherever it is: compiled code does not look whether there is one."""
    return np.float32(x.size) if x[at] > 100 else np.float32(0)


def reads_past_the_end(params: Any, x: Any, out: Any = None) -> Any:
    entry(np.ascontiguousarray(x).reshape(-1), x.size)
    return right(params, x)


def reads_before_the_start(params: Any, x: Any, out: Any = None) -> Any:
    @numba.njit
    def before(x: Any) -> Any:
        at = -1 - x.size  # counted from the end
        return x[at]

    before(np.ascontiguousarray(x).reshape(-1))
    return right(params, x)


def leaves_a_cell_unwritten(params: Any, x: Any, out: Any = None) -> Any:
    y = buffers.empty(params.out_shape(x.shape), x.dtype)
    y.reshape(-1)[:-1] = right(params, x).reshape(-1)[:-1]
    return y


def writes_its_input(params: Any, x: Any, out: Any = None) -> Any:
    y = right(params, x)
    x[0, 0] += 1
    return y


def looks_at_threads(params: Any, x: Any, out: Any = None) -> Any:
    return right(params, x) + np.float32(get_num_threads() - 1)


def looks_at_the_layout(params: Any, x: Any, out: Any = None) -> Any:
    return right(params, x) if x.flags.c_contiguous else right(params, -x)


def looks_at_the_batch(params: Any, x: Any, out: Any = None) -> Any:
    return right(params, x) + np.float32(len(x) > 1)


def raises(params: Any, x: Any, out: Any = None) -> Any:
    raise IndexError("out of bounds")


def gives_another_dtype(params: Any, x: Any, out: Any = None) -> Any:
    return right(params, x).astype(np.float64)


def is_right(params: Any, x: Any, out: Any = None) -> Any:
    return right(params, x)


WRONG = [
    is_right,
    reads_past_the_end,
    reads_before_the_start,
    leaves_a_cell_unwritten,
    writes_its_input,
    looks_at_threads,
    looks_at_the_layout,
    looks_at_the_batch,
    raises,
    gives_another_dtype,
]


@contextmanager
def planted(kernel: Callable[..., Any]) -> Iterator[None]:
    with patch.object(dispatch, "READY", False), patch.object(routes, "kernel_of", lambda op, rule: kernel):
        yield


# --- what is found -----------------------------------------------------------------------------------------------


def found(check: Callable[[int], list[str]]) -> list[str]:
    return [text for _, text in Run(check, 1, 1).run()]


def probed(probe: Callable[[], Any]) -> list[str]:
    probe()
    return []


def checked(kernel: Callable[..., Any]) -> list[str]:
    """On whole numbers, and on any."""
    with planted(kernel):
        return [text for values in ("whole", "wild") for text in fuzz_checks.check(replace(CASE, values=values))]


def main() -> None:
    guard_compiled_code()
    touched = {name: found(lambda _, probe=probe: probed(probe)) for name, probe in probes()}
    wrong = {kernel.__name__: found(lambda _, kernel=kernel: checked(kernel)) for kernel in WRONG}
    print(json.dumps({"touched": touched, "wrong": wrong}, indent=1))


if __name__ == "__main__":
    main()
