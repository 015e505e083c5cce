"""Rule 7: the smooth maximum."""

import math

import numpy as np
import pytest
from common import SMOOTH, fractions, inf, nan, smooth, within_bound

import windowgrad as wg
from support.log2 import Log2
from windowgrad.geometry import Global, Sliding
from windowgrad.params import SmoothParams

# --- 7. Smooth max -----------------------------------------------------------------------------------------------


def logs(*powers):
    return np.array([Log2(k) for k in powers], dtype=object)


def test_the_derivative_weighs_each_cell_by_its_share_of_the_sum():
    params, x = SmoothParams(Sliding((2,)), beta=1), logs(0, 1, 3, 1)
    assert SMOOTH.jvp(params, x, fractions([3, 6, 10, 5])).tolist() == [5, 9]
    assert SMOOTH.vjp(params, x, fractions([3, 5]))[0].tolist() == [1, 2, 4, 1]
    assert SMOOTH.vjp(SmoothParams(Sliding((2,)), beta=-2), logs(0, 1), fractions([5]))[0].tolist() == [4, 1]


def test_padded_cells_count_as_zeros_or_not_at_all():
    x = np.log([2.0, 3.0])
    np.testing.assert_allclose(np.exp(wg.smooth_max_pool1d(x, 2, padding=1, beta=1)), [3, 4], rtol=1e-14)
    absent = wg.smooth_max_pool1d(x, 2, padding=1, beta=1, count_include_pad=False)
    np.testing.assert_allclose(np.exp(absent), [2, 3], rtol=1e-14)
    counted, ignored = (SmoothParams(Sliding((2,), padding=1), 1, include) for include in (True, False))
    assert SMOOTH.vjp(counted, logs(1, 2), fractions([15, 15]))[0].tolist() == [10, 12]
    assert SMOOTH.vjp(ignored, logs(1, 2), fractions([15, 15]))[0].tolist() == [15, 15]


def test_the_overhang_of_ceil_mode_is_no_zero():
    y = wg.smooth_max_pool1d(np.log([1.0, 2.0, 3.0]), 2, ceil_mode=True, beta=1)
    np.testing.assert_allclose(np.exp(y), [3, 3], rtol=1e-14)


def test_only_without_padded_zeros_it_tends_to_hard_max_pooling():
    x = np.array([[-5.0, -3.0], [-4.0, -9.0]])
    assert (wg.smooth_max_pool2d(x, 2, 1, 1, beta=1e6, count_include_pad=False) == wg.max_pool2d(x, 2, 1, 1)).all()
    assert np.abs(wg.smooth_max_pool2d(x, 2, 1, 1, beta=1e6)[[0, 0, 2, 2], [0, 2, 0, 2]]).max() < 1e-5


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("beta", [0.5, 3, 1000])
def test_a_negative_beta_is_the_smooth_minimum(beta, include):
    x = np.array([1.0, -2.0, 0.25, 4.0, 3.0])
    lowest = wg.smooth_max_pool1d(x, 3, 1, 1, beta=-beta, count_include_pad=include)
    assert (lowest == -wg.smooth_max_pool1d(-x, 3, 1, 1, beta=beta, count_include_pad=include)).all()
    assert wg.smooth_max_pool1d(x, 3, beta=-1000).round(6).tolist() == [-2]


@pytest.mark.parametrize("beta", [0, 0.0, inf, nan])
def test_beta_must_be_finite_and_not_zero(beta):
    with pytest.raises(wg.OptionError, match=r"beta=.*: must .*\[smooth_max_pool1d\("):
        wg.smooth_max_pool1d(np.zeros(2), 2, beta=beta)


@pytest.mark.parametrize("cells", [(100, 100), (-100, -100), (100, -100), (-100, 100, 99.999), (-100, -100, -100)])
@pytest.mark.parametrize("beta", [1000, -1000])
def test_beta_x_of_a_hundred_thousand_in_float32_gives_the_right_answer_where_the_plain_formula_gives_inf(cells, beta):
    x = np.array(cells, dtype=np.float32)
    with np.errstate(over="ignore", divide="ignore"):
        assert np.isinf(np.log(np.exp(np.float32(beta) * x).sum()) / np.float32(beta))
    y = wg.global_smooth_max_pool1d(x, beta=beta)
    assert y.dtype == np.float32
    assert within_bound(y[0], smooth(x, beta), beta)
    assert np.isfinite(SMOOTH.vjp(SmoothParams(Global(1), beta), x, np.ones(1, np.float32))[0]).all()


@pytest.mark.parametrize("dtype", [np.float64, object])
def test_it_never_overflows_even_where_beta_times_x_does(dtype):
    assert wg.smooth_max_pool1d(np.array([1e300, 1.0], dtype=dtype), 2, beta=1e10).tolist() == [1e300]


@pytest.mark.parametrize("dtype", [np.float64, object])
def test_a_region_with_no_cell_at_all_gives_zero_and_padded_zeros_give_their_logarithm(dtype):
    x = np.array([5.0, 5.0], dtype=dtype)
    absent, counted = (SmoothParams(Sliding((2,), padding=2), 1, include) for include in (False, True))
    assert SMOOTH.forward(absent, x)[[0, 2]].tolist() == [0, 0]
    assert SMOOTH.forward(counted, x)[[0, 2]].tolist() == [math.log(2), math.log(2)]
    for params in (absent, counted):
        assert SMOOTH.jvp(params, x, x)[[0, 2]].tolist() == [0, 0]
        assert SMOOTH.vjp(params, x, np.array([8.0, 2.0, 8.0], dtype=dtype))[0].tolist() == [1, 1]
