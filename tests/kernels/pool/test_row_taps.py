"""Maxima of a few taps along a row, read where it stands, are those of rows in a buffer, and nothing beside the row is read."""

import numpy as np
import pytest

import windowgrad as wg
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.max import row_taps
from windowgrad.kernels.pool.max.find import least
from windowgrad.kernels.pool.max.row_taps import LEAST, LEAST_NEAR, max_row_taps, takes_taps
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.plan import plan

FLOAT = np.dtype(np.float32)
CASES = [
    *(
        (Sliding((taps,), 1, padding), (n,))
        for taps in (2, 3, 5, 8)
        for padding in (0, 1, ((0, 1),), taps)
        for n in (8, 17, 65, 130)
    ),
    (Sliding((3,), 1, 2, 2), (70,)),
    (Sliding((5,), 1, 0, 7), (90,)),
    (Sliding((2,), 1, 40), (5,)),  # most windows see no cell
    (Sliding((8,), 1, 9, 3), (20,)),  # none is inside
    (Sliding((4,), 1, ((3, 0),), ceil_mode=True), (66,)),
    (Sliding((1, 3), 1, (0, 1)), (4, 70)),
    (Sliding((1, 2), (2, 1)), (5, 67)),
    (Sliding((1, 5), (3, 1), (0, 2)), (7, 64)),
    (Sliding((1, 1, 4), 1), (2, 3, 70)),
]


def shares(kernel, count, *given):
    for first in range(count):
        kernel(*given, first, first + 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("geometry", "sides"), CASES, ids=str)
def test_they_are_those_of_a_buffer(geometry, sides, dtype):
    p, rng = plan(geometry, sides), np.random.default_rng(len(sides))
    assert row_taps.sees_one_row(p)
    for special in ((0.0,), (0.0, -0.0), (np.nan,), (np.nan, -0.0, 0.0, np.inf, -np.inf)):
        for rare in (0.02, 0.4):
            x = rng.integers(-9, 3, (3, *sides)).astype(dtype)
            x = np.where(rng.random(x.shape) < rare, rng.choice(special, x.shape), x).astype(dtype).reshape(-1)
            wanted = np.empty(3 * p.plane_out, dtype)
            shares(max_rows, 3 * p.pieces, x, wanted, least(x.dtype), p.packed)
            for at in ("start", "end"):
                with exact_memory():
                    y = guarded(np.full_like(wanted, 7), at)
                    shares(max_row_taps, 3 * p.pieces, guarded(x, at), y, p.packed)
                assert y.tobytes() == wanted.tobytes(), (special, at)


def test_nan_in_the_last_cells_of_a_row_is_seen():
    for place in range(60, 70):
        x = np.arange(70.0, dtype=np.float32)
        x[place] = np.nan
        y = wg.max_pool1d(x, 4, stride=1)
        assert np.isnan(y).tolist() == [j <= place < j + 4 for j in range(67)]


def test_for_which_windows_they_are_taken():
    def takes(geometry, *sides, dtype=FLOAT):
        return takes_taps(plan(geometry, sides), np.dtype(dtype))

    assert takes(Sliding((2,), 1), LEAST + 1)
    assert not takes(Sliding((2,), 1), LEAST)
    assert takes(Sliding((8,), 1), 100)
    assert not takes(Sliding((9,), 1), 100)
    assert not takes(Sliding((1,), 1), 100)
    assert not takes(Sliding((3,), 2), 300)
    assert takes(Sliding((3,), 1), 100)
    assert takes(Sliding((3,), 1, 1), LEAST_NEAR)
    assert not takes(Sliding((3,), 1, 1), LEAST_NEAR - 1)
    assert takes(Sliding((1, 2), 1), 9, 100)
    assert not takes(Sliding((2, 2), 1), 9, 100)
    assert not takes(Sliding((1, 2), 1, (1, 0)), 9, 100)  # some rows of windows see no cell
    assert not takes(Sliding((2,), 1), 100, dtype=np.int32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_long_signals_are_taken_in_sections(dtype):
    """Their bits are those of a part of them."""
    n = (1 << 20) + 77
    x = np.random.default_rng(2).integers(-99, 99, n).astype(dtype)
    x[[5, 70_000, n - 3]], x[9_000:9_400:2], x[9_001:9_400:2] = np.nan, 0.0, -0.0
    x[9_000:9_400] = np.minimum(x[9_000:9_400], 0)
    y = wg.max_pool1d(x, 5, stride=1, padding=2)
    for low, high in ((0, 3_000), (8_900, 9_500), (69_000, 71_000), (n - 3_000, n)):
        part = wg.max_pool1d(x[max(low - 2, 0) : high + 2], 5, stride=1, padding=2)
        begin = low - max(low - 2, 0)
        keep = slice(2 if low else 0, high - low - 2)
        assert y[low:high][keep].tobytes() == part[begin : begin + high - low][keep].tobytes()
