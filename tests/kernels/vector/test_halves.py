"""Floats of 16 bits become float32, and float32 becomes them, with the bits that NumPy and ml_dtypes give."""

import ml_dtypes
import numpy as np
import pytest

from support.guarded import exact_memory, guarded
from windowgrad.kernels.arrays import cast, is_recast
from windowgrad.kernels.vector.halves import SINGLE, changed, ready_changer

EVERY = np.arange(1 << 16, dtype=np.uint16)
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)

EDGES = np.array(
    [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32
)
"""Lower halves of a float32, below, at and above the middle between two of its neighbours of 16 bits."""


def words(x):
    """The bits of cells; NaN is one word, as instructions make a signalling one quiet."""
    with np.errstate(all="ignore"):
        return np.where(x != x, 0, x.view(f"u{x.itemsize}"))


@every_half
def test_every_half_becomes_the_float32_of_its_value(dtype):
    x = EVERY.view(dtype)
    assert (words(changed(x, SINGLE)) == words(x.astype(SINGLE))).all()


@every_half
def test_every_float32_becomes_the_nearest_half(dtype):
    """Every upper half beside the edges of the lower one, and any bits: NaN, infinities and subnormal numbers among them."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [((EVERY.astype(np.uint32) << 16)[:, None] | EDGES).ravel(), rng.integers(0, 1 << 32, 1 << 20, np.uint32)]
    )
    with np.errstate(all="ignore"):
        wanted = x.view(SINGLE).astype(dtype)
    assert (words(changed(x.view(SINGLE), dtype)) == words(wanted)).all()


@every_half
@pytest.mark.parametrize("count", range(67))
def test_any_number_of_cells_is_read_and_written_and_no_other(count, dtype):
    x = np.random.default_rng(count).standard_normal(count).astype(dtype)
    wide = x.astype(SINGLE)
    for at in ("start", "end"):
        with exact_memory():
            assert words(changed(guarded(x, at), SINGLE)).tolist() == words(wide).tolist()
            assert words(changed(guarded(wide, at), dtype)).tolist() == words(x).tolist()
            assert words(ready_changer((count,), dtype, SINGLE)(guarded(x, at))).tolist() == words(wide).tolist()


@every_half
def test_an_array_keeps_its_order_in_memory(dtype):
    x = np.moveaxis(np.arange(2 * 5 * 7 * 3, dtype=dtype).reshape(2, 5, 7, 3), -1, 1)
    order = 0, 2, 3, 1
    y = ready_changer(x.shape, dtype, SINGLE, order)(x)
    assert (y == x.astype(SINGLE)).all()
    assert np.moveaxis(y, 1, -1).flags.c_contiguous
    back = np.zeros_like(x)
    ready_changer(x.shape, SINGLE, dtype, order)(y, back)
    assert (back == x).all()
    apart = np.arange(40, dtype=dtype)[::2]
    assert (cast(apart, SINGLE) == apart.astype(SINGLE)).all()


def test_other_dtypes_are_left_to_numpy():
    x = np.arange(9, dtype=np.int16)
    assert cast(x, np.dtype(np.int32)).dtype == np.int32
    assert cast(x, x.dtype) is x
    assert not is_recast(np.dtype(np.float64), HALVES[0])
    assert all(is_recast(half, SINGLE) and is_recast(SINGLE, half) for half in HALVES)
