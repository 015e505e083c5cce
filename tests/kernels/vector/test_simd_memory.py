"""Vectors come from memory, go back and change their dtype lane by lane, and nothing past the lanes asked for is touched."""

import ctypes
import mmap
import os

import numpy as np
import pytest

from support.simd_cases import DTYPES, FLOATS, assert_same, edge_values, lanes_of, written

GUARD = 0x5A  # the byte in every cell that nothing may write


def at_the_end(values):
    """A copy that ends where memory ends: to read or write what comes after it is a segmentation fault."""
    if os.name != "posix":
        return values.copy()
    page = mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, 2 * page), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(memory.ctypes.data + page, page, 0) == 0, os.strerror(ctypes.get_errno())
    copy = memory[page - values.nbytes : page].view(values.dtype)
    copy[:] = values
    return copy


def guarded(size, dtype):
    return at_the_end(np.full(size * dtype.itemsize, GUARD, np.uint8)).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_load_and_store_move_the_lanes_asked_for_and_touch_no_other(dtype):
    """Every n from none to all, at every place, aligned or not, up to the very last cell."""
    move = written(
        "x, i, n, rest, whole, filled, part",
        [
            "store(whole, i, load(x, i))",
            "store(filled, 0, load_part(x, x.size - n, n, load(rest, 0)))",
            "store_part(part, part.size - n, load(x, i), n)",
        ],
    )
    lanes = lanes_of(dtype)
    size = 2 * lanes
    x, rest = at_the_end(np.resize(edge_values(dtype), size)), edge_values(dtype)[::-1].repeat(2)
    for n in range(lanes + 1):
        whole, filled, part = (guarded(size, dtype) for _ in range(3))
        untouched = guarded(size, dtype)
        move(x, n, n, rest, whole, filled, part)
        loaded = x[n : n + lanes]
        expected = np.concatenate([untouched[:n], loaded, untouched[n + lanes :]])
        assert_same(whole, expected, f"store at {n}")
        expected = np.concatenate([x[size - n :], rest[n:lanes], untouched[lanes:]])
        assert_same(filled, expected, f"load_part of {n}")
        assert_same(part, np.concatenate([untouched[n:], loaded[:n]]), f"store_part of {n} at the end")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_store_part_leaves_the_cells_after_it_alone(dtype):
    put = written("x, part, n", ["store_part(part, 1, load(x, 0), n)"])
    lanes, x = lanes_of(dtype), edge_values(dtype).repeat(2)
    for n in range(lanes + 1):
        part = guarded(lanes + 2, dtype)
        put(x, part, n)
        expected = guarded(lanes + 2, dtype)
        expected[1 : n + 1] = x[:n]
        assert_same(part, expected, f"store_part of {n}")


# Half way between two float32 or two float64, at the limits of some dtype, below the least float32, above the greatest.
HARD_FLOATS = [0.5, -0.99, 1.99, -1.5, 127.9, 255.9, -128.9, 1e9 + 1, 2**31, 2**32 - 256, 2**63, -(2**63)]
HARD_DOUBLES = [1 + 2**-24, 1 + 2**-24 + 2**-52, 1e-40, -1e-46, 3.4e38, 3.5e38, 1e300, 2**24 + 1]
HARD_INTEGERS = [2**24 + 1, 2**24 + 3, 2**40 + 2**16, 2**53 + 1, 2**53 + 3]


def numbers_of(dtype):
    """Two vectors of the smallest dtype, of numbers on which a conversion can go wrong."""
    if dtype in FLOATS:
        hard = HARD_FLOATS + HARD_DOUBLES * (dtype.itemsize == 8)
    else:
        hard = [value for value in HARD_INTEGERS if value <= np.iinfo(dtype).max]
    return np.resize(np.concatenate([edge_values(dtype), np.array(hard, dtype)]), 64)


def fits(x, dtype):
    """Where the conversion of x is defined: a float has an integer only if that dtype has it too."""
    if x.dtype.kind != "f" or dtype.kind == "f":
        return np.ones(x.shape, bool)
    limits = np.iinfo(dtype)
    return np.array([np.isfinite(value) and limits.min <= int(value) <= limits.max for value in x.tolist()], bool)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversions_are_those_of_numpy(dtype):
    """One vector of this dtype to as many of each other one; and as many as fill a vector of the other one, or some of them."""
    lines = []
    for name, lanes in ((str(other), lanes_of(other)) for other in DTYPES):
        lines += [
            f"store({name}, 0, convert(load(x, i), {name}))",
            f"store({name}, 64, load_as(x, i, {name}))",
            f"few = min(i, {lanes})",
            f"store({name}, 128, load_part_as(x, x.size - few, few, {name}))",
        ]
    converted = written(f"x, i, {', '.join(map(str, DTYPES))}", lines)
    x = at_the_end(numbers_of(dtype))
    for i in range(33):
        outputs = [np.zeros(192, other) for other in DTYPES]
        converted(x, i, *outputs)
        for out in outputs:
            lanes = lanes_of(out.dtype)
            few = min(i, lanes)
            for what, start, cells in [
                ("convert", 0, x[i : i + lanes_of(dtype)]),
                ("load_as", 64, x[i : i + lanes]),
                ("load_part_as", 128, x[x.size - few :]),
            ]:
                defined = fits(cells, out.dtype)
                with np.errstate(all="ignore"):
                    expected = cells.astype(out.dtype)
                found = out[start : start + len(cells)]
                assert_same(found[defined], expected[defined], f"{what} of {dtype} at {i}", any_nan=True)
            assert not out[128 + few :].any(), f"load_part_as of {few}: the other lanes are 0"
