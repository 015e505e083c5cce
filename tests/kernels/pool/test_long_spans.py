"""Windows of many taps along a row: a sum is added in one order, that of the binary digits of `taps`, wherever it stands."""

from typing import Any

import numpy as np
import pytest

from support.exact import same_bits
from windowgrad.kernels.pool.max.rows import spans as greatest
from windowgrad.kernels.pool.mean.rows import spans as added
from windowgrad.kernels.runtime.jit import compiled
from windowgrad.kernels.vector.ops import address

OUTPUTS = (1, 3, 4, 5, 7, 8, 9, 31, 33, 511, 512, 513, 1023, 1024, 1025, 1030, 2600)
FIRST, AT = 3, 5


@compiled
def run_added(buffer: Any, first: int, y: Any, at: int, out: int, taps: int, step: int, stride: int) -> None:
    added(address(buffer), first, address(y), at, out, taps, step, stride)


@compiled
def run_greatest(buffer: Any, first: int, y: Any, at: int, out: int, taps: int, step: int, stride: int) -> None:
    greatest(address(buffer), first, address(y), at, out, taps, step, stride)


def sums(cells, out, taps, step, stride):
    """The meaning of the order: entries are doubled, and each binary digit of `taps` adds its entry, the lowest first."""
    entries, total, start, power, digit = cells, None, 0, step, 1
    while digit <= taps:
        if taps & digit:
            part = entries[start : start + (out - 1) * stride + 1 : stride]
            total, start = part if total is None else total + part, start + power
        entries, power, digit = entries[:-power] + entries[power:], 2 * power, 2 * digit
    return total


def maxima(cells, out, taps, step, stride):
    windows = np.lib.stride_tricks.sliding_window_view(cells, (taps - 1) * step + 1)
    return windows[::stride, ::step].max(axis=-1)


def check(run, meaning, cells, out, taps, step, stride):
    """What is written is the meaning, and nothing else is; what follows the cells is NaN, and no output sees it."""
    poison = np.full(4 * 32, np.nan if cells.dtype.kind == "f" else 127).astype(cells.dtype)
    buffer, y = np.concatenate([poison[:FIRST], cells, poison]), np.full(AT + out + 3, 77, cells.dtype)
    run(buffer, FIRST, y, AT, out, taps, step, stride)
    assert same_bits(y[AT : AT + out], meaning(cells, out, taps, step, stride)), (out, taps, step, stride)
    assert (y[:AT] == 77).all()
    assert (y[AT + out :] == 77).all()


def reach(out, taps, step, stride):
    return (out - 1) * stride + (taps - 1) * step + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_sums_of_every_number_of_taps_are_added_in_the_order_of_its_digits(dtype, step):
    rng = np.random.default_rng(step)
    for taps in range(9, 1101):
        out = OUTPUTS[taps % len(OUTPUTS)]
        cells = rng.standard_normal(reach(out, taps, step, 1)).astype(dtype)
        check(run_added, sums, cells, out, taps, step, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("taps", [9, 10, 15, 16, 17, 63, 64, 100, 255, 256, 1001, 1023, 1024])
def test_sums_are_the_same_for_every_number_of_outputs_and_every_stride(taps, dtype):
    rng = np.random.default_rng(taps)
    for out in (*OUTPUTS, 4095, 4096, 4097, 9000):
        for step, stride in ((1, 1), (700, 1), (1, 2), (2, 3), (1, taps)):
            cells = rng.standard_normal(reach(out, taps, step, stride) if out * stride < 1e6 else 0).astype(dtype)
            if cells.size:
                check(run_added, sums, cells, out, taps, step, stride)


def test_a_sum_of_negative_zeros_is_a_negative_zero():
    for taps in (9, 16, 31, 1001):
        check(run_added, sums, np.full(reach(21, taps, 1, 1), -0.0, np.float32), 21, taps, 1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, np.int64])
def test_maxima_of_many_taps_are_those_of_their_windows(dtype):
    rng = np.random.default_rng(0)
    for taps in (*range(9, 70), 100, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1001, 1023, 1024, 1025):
        for out, step, stride in ((OUTPUTS[taps % len(OUTPUTS)], 1, 1), (4097, 1, 1), (300, 3, 1), (77, 2, 3)):
            size = reach(out, taps, step, stride)
            cells = (rng.standard_normal(size) if np.dtype(dtype).kind == "f" else rng.integers(0, 120, size)).astype(dtype)
            check(run_greatest, maxima, cells, out, taps, step, stride)
