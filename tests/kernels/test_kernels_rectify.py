"""The kernel of relu and of its derivative is what NumPy computes, cell by cell."""

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.autograd.arrays.arithmetic import LEAST
from windowgrad.autograd.arrays.functions import gate, relu6


def special(rng, shape, dtype):
    x = rng.standard_normal(shape).astype(dtype)
    x.flat[:: x.size // 50] = np.nan
    x.flat[1 :: x.size // 50] = 0.0
    x.flat[2 :: x.size // 50] = -0.0
    x.flat[3 :: x.size // 50] = np.inf
    x.flat[4 :: x.size // 50] = -np.inf
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, ">f4"])
@pytest.mark.parametrize("size", [LEAST - 1, LEAST, LEAST + 37, 300_001])
def test_relu_and_its_derivative_are_the_same_above_and_below_the_size_of_the_kernel(dtype, size):
    rng = np.random.default_rng(size)
    x = special(rng, size, dtype) if np.dtype(dtype).kind == "f" else rng.integers(-9, 9, size).astype(dtype)
    dx = rng.standard_normal(size).astype(dtype)
    through = ~(x <= 0)
    between = through & ~(x >= 6)
    whole, pull = wg.vjp(relu6, x)
    assert np.array_equal(whole, np.minimum(np.where(through, x, 0), 6), equal_nan=x.dtype.kind == "f")
    if x.dtype.kind == "f":
        assert np.array_equal(pull(dx)[0], np.where(between, dx, 0))
    assert np.array_equal(wg.add(x, dx), x + dx, equal_nan=x.dtype.kind == "f")
    for found, wanted in ((wg.relu(x), np.where(through, x, 0)), (gate(x, dx), np.where(through, dx, 0))):
        assert found.dtype == x.dtype.newbyteorder("=")
        assert np.array_equal(found, wanted, equal_nan=x.dtype.kind == "f")
        assert not (np.signbit(found) & (found == 0)).any() or (dx == 0).any()


@pytest.mark.parametrize("change", [lambda x: x[::2], lambda x: x[::-1], lambda x: x.reshape(4, -1).T, np.broadcast_to])
def test_every_layout_gives_the_same(change):
    x = np.random.default_rng(0).standard_normal(1 << 17).astype(np.float32)
    x = change(x, (2, 1 << 17)) if change is np.broadcast_to else change(x)
    assert (wg.relu(x) == np.where(x > 0, x, 0)).all()


def test_the_bits_do_not_depend_on_the_number_of_threads():
    x = special(np.random.default_rng(0), 1 << 20, np.float32)
    before = wg.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3):
            wg.set_num_threads(count)
            found.append(wg.relu(x).tobytes())
    finally:
        wg.set_num_threads(before)
    assert len(set(found)) == 1
