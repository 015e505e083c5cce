"""The least magnitude among cells, which says whether a product may be lost in float32."""

import numpy as np
import pytest

from windowgrad.kernels.magnitudes import least_magnitude


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000, 300001])
def test_the_least_magnitude_leaves_zeros_and_nan_out(size):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    x[::5], x[3::7] = 0, np.nan
    sizes = np.abs(x[(x != 0) & ~np.isnan(x)])
    assert least_magnitude(x) == (sizes.min() if sizes.size else np.inf)


def test_the_least_magnitude_may_be_subnormal():
    assert least_magnitude(np.array([1, -1e-45, -0.0, np.inf], np.float32)) == np.float32(1e-45)
