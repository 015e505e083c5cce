"""The least magnitude among cells, which says whether a product may be lost, and whether all are finite."""

import numpy as np
import pytest

from windowgrad.kernels.conv.range_check import magnitudes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000, 300001])
def test_the_least_magnitude_leaves_zeros_and_nan_out(size, dtype):
    x = np.random.default_rng(size).standard_normal(size).astype(dtype)
    x[::5] = 0
    assert magnitudes(x) == (np.abs(x[x != 0]).min(initial=np.inf), True)
    x[3::7] = np.nan
    sizes = np.abs(x[(x != 0) & ~np.isnan(x)])
    assert magnitudes(x) == (sizes.min(initial=np.inf), size <= 3)


def test_the_least_magnitude_may_be_subnormal():
    assert magnitudes(np.array([1, -1e-45, -0.0], np.float32)) == (np.float32(1e-45), True)


@pytest.mark.parametrize("place", [0, 8, 20])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_one_cell_that_is_not_finite_is_seen(value, place):
    x = np.ones(21, np.float32)
    x[place] = value
    assert magnitudes(x) == (1, False)
