"""Kernels that threads share, whose results say who computed what."""

from numba import types

from windowgrad.kernels.runtime.jit import compiled

thread_id = types.ExternalFunction("pthread_self", types.uintp())


@compiled
def count_up(found, first, last):
    for i in range(first, last):
        found[i] += 1


@compiled
def note_thread(found, rounds, first, last):
    """Who computes each index; it takes a while."""
    for i in range(first, last):
        total = 0
        for k in range(rounds):
            total ^= found[(k * k) & 7]
        found[8 + i] = thread_id() if total == 0 else 0


@compiled
def bits(found, first, last):
    total = 0
    for i in range(first, last):
        found[i] += 1
        total |= 1 << i
    return total
