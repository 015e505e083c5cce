"""However many rows a window has, and whether the window before has seen them or not, all of them count, in their order."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.guarded import exact_memory, guarded
from windowgrad.kernels.pool.fold_rows import CACHE, COUNTS

ROWS = sorted({*COUNTS, 6, 10, 11, 16, 17})


def windows(x, k, s):
    return np.lib.stride_tricks.sliding_window_view(x, (k, 2), axis=(-2, -1))[..., ::s, ::2, :, :]


@pytest.mark.parametrize("apart", [-1, 0, 1], ids=["overlap", "side by side", "apart"])
@pytest.mark.parametrize("k", ROWS)
def test_rows_that_are_new_or_were_seen_are_folded_alike(k, apart):
    s = max(1, k + apart)
    x = np.random.default_rng(k).integers(-99, 99, (3, 2 * s + k + 1, 20)).astype(np.float32)
    with exact_memory():
        for edge in ("start", "end"):
            tops, means = (pool(guarded(x, edge), (k, 2), (s, 2)) for pool in (wg.max_pool2d, wg.avg_pool2d))
            assert settled(tops) == settled(windows(x, k, s).max((-2, -1)))
            assert settled(means) == settled(windows(x, k, s).sum((-2, -1)) / np.float32(2 * k))


@pytest.mark.parametrize("k", [3, 4, 5, 9, 16])
def test_arrays_that_stay_in_a_cache_or_do_not_are_folded_alike(k):
    planes = CACHE // (4 << 18)
    x = np.random.default_rng(k).integers(-99, 99, (planes + 1, 1 << 9, 1 << 9)).astype(np.float32)
    half = planes // 2
    assert x[:planes].nbytes == CACHE == 2 * x[half + 1 :].nbytes
    last = x[-1, : (1 << 9) // k * k].reshape(-1, k, 1 << 9)
    for pool, reduced in ((wg.max_pool2d, last.max(1)), (wg.avg_pool2d, last.sum(1) / np.float32(k))):
        far, near = pool(x, (k, 1), (k, 1)), pool(x[half + 1 :], (k, 1), (k, 1))
        assert settled(far[half + 1 :]) == settled(near)
        assert settled(far[-1]) == settled(reduced)


@pytest.mark.parametrize("k", ROWS)
def test_nan_is_seen_in_every_row_of_a_window(k):
    for row in range(k):
        x = np.zeros((2 * k, 9), np.float32)
        x[k + row, row % 8] = np.nan
        y = wg.max_pool2d(x, (k, 1), (k, 1))
        assert np.flatnonzero(np.isnan(y)).tolist() == [9 + row % 8]
