"""Rows longer than a kernel takes at a time: the pieces fit together, wherever padding, NaN or an overflow falls."""

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits

N = 15000
WINDOWS = [(k, s, p, d) for k in (1, 3, 8) for s in (1, 2, 3) for p in ((0, 0), (2, 1), (6000, 5000)) for d in (1, 3)]


def row():
    return np.random.default_rng(0).integers(-9, 9, N).astype(np.float32)


def windows_of(x, k, s, p, d, outside):
    """Every window of one row, as NumPy cuts it from the padded row."""
    padded = np.pad(x, p, constant_values=outside)
    return np.lib.stride_tricks.sliding_window_view(padded, d * (k - 1) + 1)[::s, ::d]


@pytest.mark.parametrize(("k", "s", "p", "d"), WINDOWS)
def test_maximum_and_mean_of_a_long_row_are_those_of_its_windows(k, s, p, d):
    x = row()
    x[5000], x[9000], x[12287:12289] = np.nan, np.inf, -0.0
    cut = windows_of(x, k, s, p, d, -np.inf)
    real = windows_of(np.ones(N), k, s, p, d, 0).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        assert same_bits(wg.max_pool1d(x, k, s, (p,), d) + 0, np.where(real > 0, cut.max(axis=-1), 0).astype(np.float32) + 0)
        means = windows_of(x.astype(np.float64), k, s, p, d, 0).sum(axis=-1) / k
        assert same_bits(wg.avg_pool1d(x, k, s, (p,), dilation=d) + 0, means.astype(np.float32) + 0)


def test_a_sum_beyond_float32_is_mended_in_its_piece_alone():
    x = row()
    x[7000:7003] = 3e38
    for threads in (1, 2):
        wg.set_num_threads(threads)
        y = wg.avg_pool1d(np.tile(x, (40, 1)), 3, 1)
        assert same_bits(
            y, np.tile((windows_of(x.astype(np.float64), 3, 1, 0, 1, 0).sum(axis=-1) / 3).astype(np.float32), (40, 1))
        )


def test_of_equal_zeros_the_first_is_the_value_in_every_piece():
    x = np.zeros(N, np.float32)
    x[::3] = -0.0
    found, index = wg.max_pool1d(x, 2, 1, return_indices=True)
    assert same_bits(found, x[index])
    assert same_bits(wg.max_pool1d(x, 2, 1), found)
