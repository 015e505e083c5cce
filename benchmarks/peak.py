"""The most multiply-adds the machine does: a loop on registers alone, in vectors of either width."""

from __future__ import annotations

from functools import cache

import numpy as np
from timing import THREADS, Call, best

from windowgrad.kernels.runtime.jit import compiled, helper
from windowgrad.kernels.runtime.threads import LEAST_WORK, run
from windowgrad.kernels.vector.ops import fma, load, store
from windowgrad.kernels.vector.shuffle import convert

STEPS = 200_000  # of the loop in a call: about a millisecond, in which starting a thread is little
CHAINS = 10  # sums that do not wait for each other; with factor and term they fit into 16 registers

LANES = {16: np.int16, 8: np.int32}  # a vector of 32 bytes of this integer has so many lanes, and so has one of its floats


@helper
def number(start, i, result):
    return convert(load(start, i), result)


@compiled
def multiply_add(start, result):
    """STEPS·CHAINS multiply-adds. The chains begin with what stands in memory, so that no two are known to be the same."""
    factor, term = number(start, 0, result), number(start, 1, result)
    a, b, c = number(start, 2, result), number(start, 3, result), number(start, 4, result)
    d, e, f = number(start, 5, result), number(start, 6, result), number(start, 7, result)
    g, h, i = number(start, 8, result), number(start, 9, result), number(start, 10, result)
    j = number(start, 11, result)
    for _ in range(STEPS):
        a, b, c = fma(a, factor, term), fma(b, factor, term), fma(c, factor, term)
        d, e, f = fma(d, factor, term), fma(e, factor, term), fma(f, factor, term)
        g, h, i = fma(g, factor, term), fma(h, factor, term), fma(i, factor, term)
        j = fma(j, factor, term)
    store(result, 0, a + b + c + d + e + f + g + h + i + j)


@cache
def peaks(dtype: str = "float32") -> dict[int, float]:
    """Floating-point operations a second on all threads by the bits of a vector, the best ever; measured once in a run."""
    if dtype == "float64":  # half as many in a vector
        return {bits: rate / 2 for bits, rate in peaks().items()}
    calls: dict[str, Call] = {}
    for lanes in LANES:
        calls[str(lanes)] = loop(lanes)
        calls[str(lanes)]()  # compiles it
    times = best(calls, rounds=50, seconds=3)
    return {32 * lanes: 2 * THREADS * STEPS * CHAINS * lanes / times[str(lanes)] for lanes in LANES}


def loop(lanes: int) -> Call:
    """A call that keeps every thread at it."""
    start, results = np.zeros(64, LANES[lanes]), np.zeros((THREADS, 16), np.float32)

    def share(first: int, last: int) -> None:
        for thread in range(first, last):
            multiply_add(start, results[thread])

    return lambda: run(share, THREADS, LEAST_WORK)
