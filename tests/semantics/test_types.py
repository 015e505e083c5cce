"""Rule 8: dtypes and how large an error may be."""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from common import CONV, FLOATS, INTS, MAX, MEAN, SMOOTH, smooth, within_bound
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from windowgrad.geometry import Sliding
from windowgrad.params import ConvParams, MaxParams, MeanParams, SmoothParams

# --- 8. Types and error ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*INTS, *FLOATS, ml_dtypes.bfloat16])
def test_max_keeps_every_dtype(name):
    x = np.array([[0, 1], [1, 1]], dtype=name)
    results = wg.max_pool1d(x, 2), wg.adaptive_max_pool1d(x, 1), wg.global_max_pool1d(x)
    assert all(y.dtype == x.dtype and y.tolist() == [[1], [1]] for y in results)


@pytest.mark.parametrize("name", [*INTS, *FLOATS, ml_dtypes.bfloat16])
def test_mean_and_smooth_max_keep_floats_and_give_float64_of_ints_but_float32_of_8_and_16_bits(name):
    x = np.array([0, 1], dtype=name)
    wanted = x.dtype if name not in INTS else np.dtype("float32" if x.itemsize <= 2 else "float64")
    y, s = wg.avg_pool1d(x, 2), wg.smooth_max_pool1d(x, 2, beta=1)
    assert (y.dtype, s.dtype, y.tolist()) == (wanted, wanted, [0.5])


@pytest.mark.parametrize("name", ["float16", ml_dtypes.bfloat16])
def test_half_floats_accumulate_in_at_least_float32(name):
    assert wg.avg_pool1d(np.full(4, 60000, dtype="float16"), 4).tolist() == [60000]
    many = np.ones(5000, dtype=name)  # in float16 a sum of ones stays at 2048, in bfloat16 at 256
    assert wg.global_avg_pool1d(many).tolist() == [1]
    assert wg.conv1d(many[None, :300], many[None, None, :300]).tolist() == [[float(np.array(300, dtype=name))]]


def test_a_convolution_of_integers_is_exact_in_int32_if_all_have_8_bits_else_in_int64():
    for one, two in itertools.product(INTS, INTS):
        x, w = np.array([[1, 0, 1]], dtype=one), np.array([[[1, 1]]], dtype=two)
        y, t = wg.conv1d(x, w), wg.conv_transpose1d(x[:, :1], w)
        assert y.dtype == t.dtype == (np.int32 if x.itemsize == w.itemsize == 1 else np.int64)
        assert y.tolist() == t.tolist() == [[1, 1]]


def test_a_convolution_of_floats_promotes_as_numpy_does():
    for one, two in itertools.product((*INTS, *FLOATS), FLOATS):
        y = wg.conv1d(np.ones((1, 2), dtype=one), np.ones((1, 1, 2), dtype=two))
        assert y.dtype == np.result_type(one, two)


@pytest.mark.parametrize(("x", "w"), [(2**62, 1), (2**32, 2**31 - 1), (-(2**40), 2**22), (2**63, 1)], ids=str)
def test_an_integer_sum_that_might_not_fit_is_refused_and_one_that_fits_is_exact(x, w):
    for terms in (1, 2, 3):
        arrays = np.full((1, terms), x, dtype=np.uint64 if x >= 2**63 else np.int64), np.full((1, 1, terms), w)
        if terms * abs(x) * abs(w) < 2**63:
            assert wg.conv1d(*arrays).tolist() == [[terms * x * w]]
        else:
            with pytest.raises(wg.WindowError, match=rf"a sum of {terms} products? may reach {terms * abs(x) * abs(w)}"):
                wg.conv1d(*arrays)
        assert wg.conv1d(*(a.astype(object) for a in arrays)).tolist() == [[terms * x * w]]


def test_8_bit_integers_are_refused_where_int32_might_not_hold_the_sum():
    for terms in (2**17 - 1, 2**17):  # of 2¹⁴ each: the last sum is 2³¹
        arrays = np.full((1, terms), -128, dtype=np.int8), np.full((1, 1, terms), -128, dtype=np.int8)
        if terms < 2**17:
            assert wg.conv1d(*arrays).tolist() == [[terms * 2**14]]
        else:
            with pytest.raises(wg.WindowError, match="may reach 2147483648, more than int32 holds"):
                wg.conv1d(*arrays)


@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("name", [*INTS, *FLOATS])
def test_a_derivative_has_the_dtype_of_what_it_belongs_to_if_that_is_a_float(name, given):
    x, window = np.array([[1, 0]], dtype=name), Sliding((2,), 1)
    weight, d, dw, g = x[None], x.astype(given), x[None].astype(given), np.ones((1, 1), dtype=given)
    for op, params, xs, ds in (
        (MAX, MaxParams(window), [x], [d]),
        (MEAN, MeanParams(window), [x], [d]),
        (SMOOTH, SmoothParams(window, 1), [x], [d]),
        (CONV, ConvParams(window), [x, weight], [d, dw]),
    ):
        y = op.forward(params, *xs)
        assert op.jvp(params, *xs, *ds).dtype == (y.dtype if y.dtype.kind == "f" else given)
        assert all(gx.dtype == (name if name in FLOATS else given) for gx in op.vjp(params, *xs, g))


normal = st.floats(-(2.0**100), 2.0**100, width=32).filter(lambda v: v == 0 or abs(v) > 2.0**-100)  # no result underflows


@given(st.lists(normal, min_size=1, max_size=40))
def test_a_float32_mean_is_within_its_bound_of_the_exact_fraction(cells):
    exact, n = [Fraction(v) for v in cells], len(cells)
    error = abs(Fraction(float(wg.avg_pool1d(np.array(cells, dtype=np.float32), n)[0])) - sum(exact) / n)
    assert error <= min(n, 16) * Fraction(1, 2**24) * sum(map(abs, exact)) / n


def test_a_float32_mean_over_a_global_window_is_within_the_bound_of_sixteen_cells():
    x = np.random.default_rng(0).standard_normal((100, 200)).astype(np.float32) + np.float32(1e-3)
    exact = [Fraction(float(v)) for v in x.flat]
    error = abs(Fraction(float(wg.global_avg_pool2d(x)[0, 0])) - sum(exact) / x.size)
    assert error <= 16 * Fraction(1, 2**24) * sum(map(abs, exact)) / x.size


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20),
    st.sampled_from([0.01, 0.5, 1, 3, 100, 1000, -0.01, -1, -7, -1000]),
)
def test_a_float32_smooth_maximum_is_within_its_bound(cells, beta):
    y = wg.global_smooth_max_pool1d(np.array(cells, dtype=np.float32), beta=beta)
    assert within_bound(y[0], smooth(cells, beta), beta)
