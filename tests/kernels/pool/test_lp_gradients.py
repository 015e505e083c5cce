"""Gradients of norms whose powers are products: neither layout, nor batch, nor saved norms change a bit."""

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from windowgrad import dispatch
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.lp import back, entry, gradients
from windowgrad.ops import OPS, meaning
from windowgrad.params import LpParams

LP, MEANING = OPS["lp_pool"], meaning("lp_pool")


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


GEOMETRIES = [
    Sliding((2, 2), 2),
    Sliding((3, 3), 2, 1),
    Sliding((5, 5), 1, 2),
    Sliding((4, 4), 4),
    Sliding((2, 2), 3),
    Sliding((1, 9)),
    Sliding((2, 3), (3, 1), 1, 2, True),
    Sliding((2, 3), (1, 4), 1),
    Adaptive((3, 2)),
    Global(2),
]


def strange_cells(rng, dtype):
    """13 planes, of which some are not finite, and some lie far from 1 or far apart."""
    x = np.maximum(rng.standard_normal((1, 13, 9, 11)), -0.3)
    x[0, 1, 2, 3], x[0, 2, 4, 5], x[0, 3, :5, :5], x[0, 4] = np.nan, np.inf, 0, 0
    huge, few = (200, 300) if dtype == np.float64 else (35, 37)
    x[0, 5] *= 10.0**-huge
    x[0, 6] *= 10.0**huge
    x[0, 7] *= 10.0 ** rng.integers(-few, few, (9, 11))
    x[0, 8, :6, :6] *= 10.0**-few
    x[0, 9, 3:, 3:] = 0
    x[0, 10] = -0.0
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_layout_batch_and_what_is_saved_change_no_bit(p, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    rng = np.random.default_rng(p)
    for geometry in GEOMETRIES:
        params, x = LpParams(geometry, p), strange_cells(rng, dtype)
        y, saved = dispatch.run_saving(LP, params, x)
        assert same_bits(y, LP.forward(params, x))
        g = rng.standard_normal(y.shape).astype(dtype)
        (right,) = LP.vjp(params, x, g)
        assert same_bits(dispatch.run(LP, "vjp", params, x, g, saved=saved)[0], right)
        exact = MEANING.vjp(params, x.astype(object), g.astype(object))[0].astype(np.float64)
        near(right, exact, geometry, dtype)
        for plane in range(13):
            part = slice(plane, plane + 1)
            assert same_bits(LP.vjp(params, x[:, part], g[:, part])[0], right[:, part])
        finite = np.delete(x, [1, 2, 5, 6, 7, 8], axis=1)
        for cells in (x, finite):
            moved, weights = channels_last(cells), g[:, : cells.shape[1]]
            (first,) = LP.vjp(params, cells, weights)
            for _ in range(2):
                y, saved = dispatch.run_saving(LP, params, moved)
                assert same_bits(y, LP.forward(params, cells))
                for each in (weights, channels_last(weights)):
                    assert same_bits(LP.vjp(params, moved, each)[0], first)
                    assert same_bits(dispatch.run(LP, "vjp", params, moved, each, saved=saved)[0], first)


def near(found, exact, geometry, dtype):
    with np.errstate(all="ignore"):
        exact = exact.astype(dtype)
        alike = (found == exact) | (np.isnan(found) & np.isnan(exact))
        assert (alike | (abs(found - exact) <= 8 * np.finfo(dtype).eps * np.maximum(abs(exact), 10))).all(), geometry


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_planes_of_many_norms_and_threads_that_begin_in_the_middle_give_the_same_bits(p, monkeypatch):
    """Shares that are not kept are made anew for each row that needs them."""
    rng = np.random.default_rng(p)
    x = rng.standard_normal((2, 3, 70, 66)).astype(np.float32)
    for geometry in (Sliding((3, 3), 2, 1), Sliding((3, 3), 1, 2, 2), Sliding((9, 10), 1, 4), Sliding((40, 1), 7)):
        params = LpParams(geometry, p)
        y = LP.forward(params, x)
        g = rng.standard_normal(y.shape).astype(np.float32)
        wide = gradients.wide_norms(p, *gradients.planned_for(geometry, x.shape), x.ravel())
        plan, planes = gradients.planned_for(geometry, x.shape)
        kernel, given, count = back.over_rows_back(p, plan, planes, 1, x.dtype)
        strange = np.zeros(planes, np.bool_)

        found = {}
        for ends in ((), (1, 35, 36, 101, 200)):
            found[ends] = np.empty(x.size, np.float32)
            for first, last in zip((0, *ends), (*ends, count), strict=True):
                assert not kernel(x.ravel(), g.ravel(), wide, found[ends], strange, *given, first, last)
        right, parts = found.values()
        assert same_bits(parts, right)
        large = np.tile(x, (1, 1, 6, 6))[:1, :1]
        assert large.size > 2 * back.KEPT
        some = LP.vjp(params, large, np.ones(params.out_shape(large.shape), np.float32))[0]
        near(some, by_steps(params, large), geometry, np.float32)


def by_steps(params, x):
    return entry.by_steps(params, x.astype(np.float64), np.ones(params.out_shape(x.shape)), np.dtype(np.float64))


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_gradients_of_other_dtypes_are_those_of_their_values(p):
    rng = np.random.default_rng(p)
    params, x, g = LpParams(Sliding((3, 3), 2, 1), p), rng.integers(-9, 9, (2, 3, 7, 8)), rng.integers(-9, 9, (2, 3, 4, 4))
    right = LP.vjp(params, x.astype(np.float64), g.astype(np.float64))[0]
    for of_x, of_g in [("f4", "f4"), ("f2", "f2"), ("f4", "f8"), ("f8", "f4"), ("f2", "f4"), ("f4", "f2")]:
        found = LP.vjp(params, x.astype(of_x), g.astype(of_g))[0]
        eps = max(np.finfo(found.dtype).eps, np.finfo(np.float32).eps)
        np.testing.assert_allclose(found.astype(np.float64), right, rtol=2 * eps, atol=eps)


def test_infinite_gradients_reach_the_cells_of_their_windows_alone():
    x = np.arange(1.0, 17.0, dtype=np.float32).reshape(1, 1, 4, 4)
    g = np.ones((1, 1, 2, 2), np.float32)
    g[0, 0, 0, 0] = np.inf
    for p in (1, 2, 3, 4):
        (gx,) = LP.vjp(LpParams(Sliding((2, 2), 2), p), x, g)
        assert np.isinf(gx[0, 0, :2, :2]).all()
        assert np.isfinite(gx[0, 0, 2:]).all()
        assert np.isfinite(gx[0, 0, :2, 2:]).all()


def test_a_norm_without_the_pooled_axes_has_a_gradient_in_every_layout(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    params = LpParams(Global(2, False), 3)
    x = strange_cells(np.random.default_rng(0), np.float32)
    g = np.ones((1, 13), np.float32)
    for cells in (x, x[:, 9:]):
        (right,) = LP.vjp(params, cells, g[:, : cells.shape[1]])
        moved = channels_last(cells)
        for _ in range(3):
            y, saved = dispatch.run_saving(LP, params, moved)
            assert same_bits(y, LP.forward(params, cells))
            assert same_bits(LP.forward(params, moved), y)
            assert same_bits(dispatch.run(LP, "vjp", params, moved, g[:, : cells.shape[1]], saved=saved)[0], right)


@pytest.mark.parametrize("channels", [2, 8])
@pytest.mark.parametrize("turned", [np.array, channels_last])
def test_a_norm_past_the_greatest_number_is_infinite_without_a_warning_and_has_a_gradient(turned, channels, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x = turned(np.full((1, channels, 4, 4), 3e38, np.float32))
    for _ in range(3):  # prepared in the second call
        y, pull = wg.vjp(lambda x: wg.lp_pool2d(x, 2, 2), x)
        assert np.isinf(y).all()
        assert (pull(np.ones_like(y))[0] == 0.5).all()
