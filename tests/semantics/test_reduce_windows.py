"""Any reduction over any geometry: cell by cell in row-major order, and NumPy's functions with the same bits."""

from fractions import Fraction
from functools import reduce
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support import oracle
from support.strategies import arrays, fractions, geometries, leads, ranks, small_ints, spatial_sizes
from windowgrad.geometry import Adaptive, Global, Sliding


@st.composite
def folds(draw, scalars):
    spatial = draw(spatial_sizes(draw(ranks)))
    return draw(geometries(spatial)), draw(arrays((*draw(leads()), *spatial), scalars))


class Record:
    """What the oracle reads of a record."""

    def __init__(self, geometry):
        self.geometry = geometry


@given(case=folds(fractions()))
def test_it_is_the_definition(case):
    """The order of the cells shows in a function that is not commutative."""
    geometry, x = case

    def f(total, cell):
        return 2 * total - cell

    expected = oracle.pooled(Record(geometry), x, lambda real, _: reduce(f, (x[cell] for cell in real), Fraction(1, 3)))
    assert wg.reduce_windows(x, geometry, f, Fraction(1, 3)).tolist() == expected.tolist()


@given(case=folds(small_ints()), dtype=st.sampled_from(["float32", "int8", "object"]), init=st.sampled_from([None, 3]))
def test_a_function_of_numpy_gives_what_its_fold_gives(case, dtype, init):
    """Subtraction is neither commutative nor associative; tenths round at every step."""
    geometry, x = case
    x = (x.astype(np.float64) / 10).astype(np.float32) if dtype == "float32" else x.astype(dtype)
    if init is None:
        counts = oracle.pooled(Record(geometry), x, lambda real, _: len(real))
        if not all(counts.flat):
            with pytest.raises(wg.WindowError, match="covers no cell of the input; give a value to begin with"):
                wg.reduce_windows(x, geometry, np.subtract)
            return
    wide = x.astype(np.int64) if dtype == "int8" else x
    for ufunc in (np.add, np.subtract, np.maximum):
        if dtype == "int8" and ufunc is np.subtract:
            continue  # int8 stays int8 there, and wraps around
        found = wg.reduce_windows(x, geometry, ufunc, init)
        start = [] if init is None else [x.dtype.type(init) if dtype == "float32" else init]

        def fold(real, _, u=ufunc, start=start):
            return reduce(u, [*start, *(wide[cell] for cell in real)])

        expected = oracle.pooled(Record(geometry), wide, fold)
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("geometry", [Global(2), Global(2, False), Adaptive((2, 3)), Sliding((2, 2), 1, 1), Sliding((5, 6))])
def test_sums_and_maxima_are_those_of_pooling(geometry):
    x = np.arange(60.0).reshape(2, 5, 6)
    assert (
        wg.reduce_windows(x, geometry, np.maximum) == wg.ops.OPS["max_pool"].forward(wg.params.MaxParams(geometry), x)
    ).all()
    sums = wg.ops.OPS["avg_pool"].forward(wg.params.MeanParams(geometry, True, 1), x)
    assert (wg.reduce_windows(x, geometry, np.add) == sums).all()


def test_arrays_of_anything():
    windows = Sliding((2,), 1)
    assert wg.reduce_windows(np.array(["a", "bc", "d"]), windows, np.add).tolist() == ["abc", "bcd"]
    assert wg.reduce_windows(np.array(["a", "bc", "d"]), windows, lambda a, b: a + b).tolist() == ["abc", "bcd"]
    assert wg.reduce_windows(np.array([12, 18, 27]), windows, gcd).tolist() == [6, 9]
    sets = np.empty(3, dtype=object)
    sets[:] = [{1}, {2}, {1, 3}]
    assert wg.reduce_windows(sets, windows, set.union).tolist() == [{1, 2}, {1, 2, 3}]
    assert wg.reduce_windows(np.array([1j, 2, 3]), windows, np.multiply).tolist() == [2j, 6]
    dates = np.array(["2024-01-01", "2024-03-01"], dtype="M8[D]")
    assert wg.reduce_windows(dates, Global(1, False), max) == dates[1]
    assert wg.reduce_windows(np.ones((0, 4)), windows, np.add).shape == (0, 3)
    assert wg.reduce_windows(np.array([1, 2, 3]), windows, lambda a, b: (*a, b), ()).tolist() == [(1, 2), (2, 3)]


def test_the_dtype_is_that_of_numpys_reduce():
    x = np.array([100, 100, 100], np.int8)
    assert wg.reduce_windows(x, Global(1), np.add).tolist() == [300]
    assert wg.reduce_windows(x > 0, Global(1), np.add).tolist() == [3]
    assert wg.reduce_windows(x, Global(1), np.maximum).dtype == np.int8
    assert wg.reduce_windows(x, Global(1), np.maximum, 0.5).dtype.kind == "f"
    assert wg.reduce_windows(np.array([1, 2, 0]), Sliding((2,), 1), np.logical_and).tolist() == [True, False]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: wg.reduce_windows([1, 2], Global(1), max), wg.KindError, "x: must be a NumPy array, not list"),
        (
            lambda: wg.reduce_windows(np.ones(2), (2,), max),
            wg.KindError,
            r"geometry=\(2,\): must be Sliding, Adaptive or Global",
        ),
        (
            lambda: wg.reduce_windows(np.ones(2), Global(1), 3),
            wg.KindError,
            "f=3: must be a function of two arguments, not int",
        ),
        (
            lambda: wg.reduce_windows(np.ones(2), Global(1), np.exp),
            wg.KindError,
            "must be a function of two arguments with one",
        ),
        (lambda: wg.reduce_windows(np.ones(2), Global(1), np.bitwise_or), wg.KindError, "cannot reduce x of dtype float64"),
        (lambda: wg.reduce_windows(np.ones(2), Sliding((3,)), max), wg.WindowError, "the window covers 3 cells"),
        (
            lambda: wg.reduce_windows(np.ones((2, 2)), Sliding((1, 1), 1, (0, 1)), max),
            wg.WindowError,
            r"init=None: window \(0, 0\) covers no cell of the input; give a value to begin with \[reduce_windows\(",
        ),
        (lambda: wg.reduce_windows(wg.Tape().leaf(np.ones(2)), Global(1), max), wg.KindError, "has no derivative.*use x.value"),
    ],
)
def test_what_is_wrong_is_said(call, error, text):
    with pytest.raises(error, match=text):
        call()
