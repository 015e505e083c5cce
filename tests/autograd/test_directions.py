"""The one-sided directional derivative: exactly the difference quotient of piecewise linear functions over fractions."""

from __future__ import annotations

from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowgrad as wg
from support.strategies import arrays
from windowgrad.spec import Dual

WEIGHT = np.array([[[1, -2]], [[3, 1]]], object) * Fraction(1, 2)
PIECEWISE = {
    "relu": wg.relu,
    "abs": abs,
    "max pooling": lambda x: wg.max_pool1d(x, 3, 1, 1),
    "min pooling": lambda x: wg.min_pool1d(x, 3, 2, 1),
    "max pooling that splits ties": lambda x: wg.max_pool1d(x, 2, 1, ties="split"),
    "windows in the padding": lambda x: wg.max_pool1d(x, 2, 1, 2, dilation=5, ceil_mode=True),
    "sums of magnitudes": lambda x: wg.lp_pool1d(x, 1, 3, 2, padding=1),
    "all magnitudes that a mask leaves": lambda x: wg.global_lp_pool2d(x, 1, where=np.arange(4) != 1),
    "two axes": lambda x: wg.max_pool2d(x, 2, 1, 1),
    "adaptive pooling": lambda x: wg.adaptive_max_pool1d(x, 2),
    "global pooling": lambda x: wg.global_min_pool2d(x, keepdims=False),
    "indices": lambda x: wg.max_pool1d(x, 2, return_indices=True)[0],
    "maximum": lambda x: wg.maximum(x, x[:, ::-1]),
    "minimum": lambda x: wg.minimum(x[:1], 2 * x),
    "clip": lambda x: wg.clip(x, -1, 1),
    "the greatest": wg.max,
    "the least along an axis": lambda x: x.min(0, keepdims=True),
    "along the other axis": lambda x: x.max(1),
    "linear functions": lambda x: wg.avg_pool1d(x, 2) - wg.concatenate([x, x])[::2, 1:3].sum(),
    "a network": lambda x: wg.relu(wg.max_pool1d(wg.relu(wg.conv1d(x[:, None], WEIGHT)), 2, 1) - 1).sum(1),
    "a maximum of maxima": lambda x: wg.maximum(abs(x).max(0), wg.min_pool1d(x, 3, 1, 1)) - wg.relu(x),
}
SHAPE = (2, 4)
few = settings(max_examples=settings().max_examples // 4)  # there are many functions
few_values = st.integers(-1, 1).map(Fraction)  # so that ties are the rule


def cells(count):
    return st.lists(few_values, min_size=count, max_size=count)


def slopes(count):
    return st.lists(st.integers(-3, 3).map(Fraction), min_size=count, max_size=count)


@pytest.mark.parametrize("name", PIECEWISE)
@few
@given(data=st.data())
def test_it_is_the_difference_quotient(name, data):
    """(f(x + t·dx) − f(x)) ÷ t for a small t, with ==."""
    f = PIECEWISE[name]
    x, dx = data.draw(arrays(SHAPE, cells)), data.draw(arrays(SHAPE, slopes))
    y, dy = wg.directional(f, (x,), (dx,))
    t = Fraction(1, 1000)
    assert y.tolist() == f(x).tolist()
    assert dy.tolist() == np.asarray((f(x + t * dx) - f(x)) / t, dtype=object).tolist()
    assert wg.directional(f, (x,), (3 * dx,))[1].tolist() == np.asarray(3 * dy, dtype=object).tolist()  # homogeneous
    numbers = wg.directional(f, (x.astype(float),), (dx.astype(float),)) if name != "a network" else (y, dy)
    assert np.array_equal(numbers[1].astype(float), dy.astype(float))


def test_it_is_not_linear_and_jvp_is():
    x, dx = np.array([2.0, 2.0]), np.array([1.0, 5.0])
    f = wg.max
    assert [float(wg.directional(f, (x,), (way * dx,))[1]) for way in (1, -1)] == [5, -1]
    assert [float(wg.jvp(f, (x,), (way * dx,))[1]) for way in (1, -1)] == [3, -3]


def test_where_a_function_is_differentiable_it_is_the_jvp():
    x, dx = np.linspace(-1, 2, 12).reshape(3, 4), np.linspace(3, -2, 12).reshape(3, 4) ** 2

    def f(x):
        return {"a": wg.softmax(wg.tanh(x) @ x.T), "b": (wg.smooth_max_pool1d(x, 2, beta=2.0), wg.max_pool1d(x, 2))}

    for ours, theirs in zip(wg.directional(f, (x,), (dx,)), wg.jvp(f, (x,), (dx,)), strict=True):
        assert ours["a"].tolist() == theirs["a"].tolist()
        assert [part.tolist() for part in ours["b"]] == [part.tolist() for part in theirs["b"]]


def test_nan_ties_with_nan_and_an_empty_window_does_not_move():
    x, dx = np.array([np.nan, 1.0, np.nan]), np.array([3.0, 9.0, 4.0])
    for kind in (float, object):
        for f, best in ((wg.max, 4), (wg.min, 3), (lambda x: wg.max_pool1d(x, 3)[0], 4), (lambda x: wg.min_pool1d(x, 3)[0], 3)):
            assert wg.directional(f, (x.astype(kind),), (dx.astype(kind),))[1] == best
    padded = wg.directional(lambda x: wg.max_pool1d(x, 1, 1, 1), (x[1:2],), (dx[1:2],))[1]
    assert padded.tolist() == [0, 9, 0]
    none = wg.directional(lambda x: wg.max_pool1d(x, 1, 1, 0), (np.zeros((0, 3)),), (np.zeros((0, 3)),))[1]
    assert none.shape == (0, 3)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("where", [None, np.array([True, True, True, False, True, True])], ids=["plain", "masked"])
def test_a_norm_of_zeros_grows_as_the_norm_of_the_tangents(p, where):
    """A norm is homogeneous: at 0 its difference quotient along dx is the norm of dx, for every t."""
    x, dx = np.zeros(6), np.array([3.0, -4.0, 0.0, 7.0, -0.0, 2.0])

    def f(x):
        return wg.lp_pool1d(x, p, 2, where=where)

    for way in (1, -1, 2):
        assert wg.directional(f, (x,), (way * dx,))[1].tolist() == f(way * dx).tolist()
        assert wg.jvp(f, (x,), (way * dx,))[1].tolist() == [0, 0, 0]
    x[0] = 2.0  # only the other windows stay at 0
    away = wg.directional(f, (x,), (dx,))[1]
    assert away.tolist() == [7.0 if p == 1 else wg.jvp(f, (x,), (dx,))[1][0], *f(dx)[1:]]
    nan = wg.directional(f, (np.full(2, np.nan),), (np.ones(2),))[1] if where is None else np.array([np.nan])
    assert np.isnan(nan).all()
    padded = wg.directional(lambda x: wg.lp_pool1d(x, p, 1, padding=1), (np.zeros(1),), (np.ones(1),))[1]
    assert padded.tolist() == [0, 1, 0]


def test_a_norm_of_any_scalars_and_under_another_differentiation():
    zeros, dx = np.array([Fraction(0)] * 4), np.array([Fraction(n) for n in (3, -4, 0, -5)])
    assert wg.directional(lambda x: wg.lp_pool1d(x, 2, 2), (zeros,), (dx,))[1].tolist() == [5, 5]
    slope = wg.grad(lambda w: wg.sum(wg.directional(lambda x: wg.lp_pool1d(w * x, 2, 2), (np.zeros(2),), (np.ones(2),))[1]))
    np.testing.assert_allclose(slope(3.0), np.sqrt(2))
    single = wg.directional(lambda x: wg.lp_pool1d(x, 2, 2), (np.zeros(2, np.float32),), (np.ones(2, np.float32),))[1]
    assert single.dtype == np.float32


def test_constants_and_outer_differentiations_go_through():
    x = np.array([1.0, 1.0, 0.0])
    assert wg.directional(lambda x: 5.0, (x,), (x,))[1] == 0
    assert wg.directional(lambda a, b: wg.maximum(a, 1.0) * b, (1.0, 3.0), (-2.0, 1.0))[1] == 1
    slope = wg.grad(lambda w: wg.sum(wg.directional(lambda x: wg.max_pool1d(x * w, 3), (x,), (x,))[1]))(2.0)
    assert slope == 1  # the derivative is w·1
    duals = wg.directional(wg.max, (np.array([Dual(1, 2), Dual(1, 3)]),), (np.array([Fraction(2), Fraction(1)]),))[1]
    assert duals == 2


def test_what_is_not_supported_is_refused():
    with pytest.raises(wg.KindError, match="directional: f must not differentiate, but it asks for the vjp of max_pool1d"):
        wg.directional(wg.grad(lambda x: wg.sum(wg.max_pool1d(x, 2))), (np.ones(4),), (np.ones(4),))
    lazy = da.ones(4, chunks=2)
    with pytest.raises(wg.KindError, match="directional: max_pool1d needs NumPy arrays, not Array"):
        wg.directional(lambda x: wg.max_pool1d(x, 2), (lazy,), (lazy,))
