"""The least magnitude among cells, which says whether a product may be lost, and whether all are finite."""

import numpy as np
import pytest

from windowgrad.kernels.conv.range_check import SMALL, judging, magnitudes, stay_normal


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


LEAST = np.finfo(np.float32).tiny


@pytest.mark.parametrize("size", [1, 21, 70000])
@pytest.mark.parametrize(
    ("one", "other", "plain"),
    [
        (1.0, LEAST, True),
        (1.0, np.nextafter(LEAST, np.float32(0)), False),
        (2.0**-60, 2.0**-66, True),
        (2.0**-60, 2.0**-67, False),
        (np.inf, LEAST, True),
        (np.nan, LEAST, True),
        (0.0, LEAST, True),
        (LEAST / 2, 1e38, False),
    ],
)
def test_exponents_tell_that_no_product_is_denormal(one, other, plain, size):
    """Zeros have no product that is lost; what is not plain is left to the least magnitudes."""
    few, many = np.array([3.0, one, 0.0], np.float32), np.ones(size, np.float32)
    many[size // 2] = -other
    assert stay_normal(few, many) == judging(few.size, many.size)(few, many) == plain
    assert stay_normal(many, few) == judging(many.size, few.size)(many, few) == plain


def test_of_no_cell_and_of_many_nothing_is_plain():
    many = np.ones(SMALL + 1, np.float32)
    assert not stay_normal(many, many)
    assert stay_normal(many[:-1], many)
    assert not stay_normal(many[:0], many)
    for few in (many[:0], many[:-1], many):
        assert judging(few.size, many.size)(few, many) == stay_normal(few, many)
