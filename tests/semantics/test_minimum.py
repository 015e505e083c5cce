"""A minimum is a maximum in the reverse order: of every dtype, with NaN before all numbers and padding absent."""

import numpy as np
import pytest
from common import TIES, bits, inf

import windowgrad as wg
from support.exact import DTYPES, FLOATS
from support.interval import Interval
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MinParams

MIN, MAX = OPS["min_pool"], OPS["max_pool"]
nan = float("nan")


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.kind in "iu"], ids=lambda dtype: dtype.name)
def test_the_extremes_of_every_integer_are_values_like_any_other(dtype):
    """The least integer has no negative, and one without a sign has none at all."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([most, most, least, least + 1, most], dtype=dtype)
    y, index = wg.min_pool1d(x, 2, 1, 2, return_indices=True)
    assert y.dtype == dtype
    assert y.tolist() == wg.min_pool1d(x, 2, 1, 2).tolist() == [0, most, most, least, least, least + 1, most, 0]
    assert index.tolist() == [-1, 0, 0, 2, 2, 3, 4, -1]


def test_of_bools_it_is_whether_all_are_true():
    x = np.array([True, True, False, True])
    assert wg.min_pool1d(x, 2).tolist() == [True, False]
    assert wg.min_pool1d(x, 1, padding=1).tolist() == [False, True, True, False, True, False]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_nan_wins_over_every_number_and_infinity_is_one(dtype):
    x = np.array([1.0, nan, -inf, -inf, inf, inf], dtype=dtype)
    y, index = wg.min_pool1d(x, 2, return_indices=True)
    assert np.isnan(y[0])
    assert y[1:].tolist() == [-inf, inf]
    assert index.tolist() == [1, 2, 4]
    assert MIN.vjp(MinParams(Sliding((2,))), x, np.ones(3).astype(dtype))[0].tolist() == [0, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_a_window_without_a_cell_is_a_positive_zero_or_refused(dtype):
    x = np.array([[2.0, 3.0]]).astype(dtype)
    y, index = wg.min_pool2d(x, (1, 1), padding=1, return_indices=True)
    assert y.tolist() == wg.min_pool2d(x, (1, 1), padding=1).tolist() == [[0, 0, 0, 0], [0, 2, 3, 0], [0, 0, 0, 0]]
    assert not np.signbit(y.astype(float)).any()
    assert index[0].tolist() == [-1] * 4
    with pytest.raises(wg.WindowError, match=r'empty="raise": window 0 on axis 0 covers no cell of the input \[min_pool2d\('):
        wg.min_pool2d(x, (1, 1), padding=1, empty="raise")


@pytest.mark.parametrize("padding", [(0, 0), (1, 3), (4, 4)])
@pytest.mark.parametrize("dilation", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_dilated_window_that_jumps_over_all_cells_is_empty_too(n, dilation, padding):
    """The kernels look for such windows only where there may be some; here they are found by the specification."""
    x = np.arange(1, n + 1)
    for kernel in (1, 2, 3):
        if dilation * (kernel - 1) < n + sum(padding):
            arguments = (kernel,), 1, [padding], dilation, True
            assert wg.min_pool(x, *arguments).tolist() == wg.min_pool(x.astype(object), *arguments).tolist()


def test_zeros_of_both_signs_are_equal_and_the_first_wins():
    x = np.array([0.0, -0.0, -0.0, 0.0])
    assert np.signbit(wg.min_pool1d(x, 2)).tolist() == [False, True]
    assert wg.min_pool1d(x, 2, return_indices=True)[1].tolist() == [0, 2]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("geometry", [Sliding((3, 3), 2, 1), Sliding((2, 5), 1, 0, (3, 1)), Global(2)], ids=repr)
@pytest.mark.parametrize("layout", [lambda x: x, lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)])
def test_of_floats_it_is_the_maximum_of_the_negated_ones_bit_for_bit(layout, geometry, ties):
    rng = np.random.default_rng(0)
    x = layout(rng.integers(-9, 9, (2, 3, 17, 13)).astype(np.float32))
    least, greatest = MinParams(geometry, ties), MaxParams(geometry, ties)
    y, index = MIN.with_indices(least, x)
    g, dx = rng.normal(size=y.shape).astype(np.float32), rng.normal(size=x.shape).astype(np.float32)
    assert bits(y) == bits(MIN.forward(least, x)) == bits(-MAX.forward(greatest, -x))
    assert bits(index) == bits(MAX.with_indices(greatest, -x)[1])
    assert bits(MIN.jvp(least, x, dx)) == bits(MAX.jvp(greatest, -x, dx))
    assert bits(*MIN.vjp(least, x, g)) == bits(*MAX.vjp(greatest, -x, g))


def test_the_input_is_left_as_it_was_and_the_result_is_written_where_it_is_wanted():
    x = np.arange(12.0).reshape(3, 4)
    before, out = x.copy(), (np.empty((1, 2)), np.empty((1, 2), np.int64))
    y, index = wg.min_pool2d(x, (3, 2), return_indices=True, out=out)
    assert (y is out[0], index is out[1]) == (True, True)
    assert (y.tolist(), index.tolist(), x.tolist()) == ([[0, 2]], [[0, 2]], before.tolist())
    assert wg.min_pool2d(x[::-1, ::2], 2, out=y[:, :1]).tolist() == [[4]]


def test_it_is_recorded_under_its_name_and_differentiated_twice():
    tape = wg.Tape()
    x = tape.leaf(np.array([3.0, 1.0, 2.0, 5.0]))
    y = wg.min_pool1d(x, 2)
    assert y.node.name == "min_pool1d"
    (moved,) = wg.hvp(lambda v: wg.sum(wg.min_pool1d(v, 2) * wg.min_pool1d(v, 2)), (x.value,), (np.ones(4),))
    assert moved.tolist() == [0, 2, 2, 0]


def test_cells_that_are_not_ordered_have_no_minimum_and_the_error_names_the_method():
    x = np.array([Interval(0, 2), Interval(1, 3)])
    with pytest.raises(wg.KindError, match="a method min of Interval can give the minimum"):
        wg.min_pool1d(x, 2)
