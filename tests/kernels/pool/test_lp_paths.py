"""The kernels of the p-norm: each way through them is near the specification, and within the stated error."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support import oracle
from support.strategies import geometries, ranks, spatial_sizes
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.lp import cells, entry
from windowgrad.kernels.pool.smooth import chunks, strips
from windowgrad.ops import OPS, meaning
from windowgrad.params import LpParams

LP, MEANING = OPS["lp_pool"], meaning("lp_pool")
NORMS = [1, 2, 3, 2.5, 1.25, 40]


def norms_exactly(params, x):
    """The plain formula in enough digits that nothing overflows."""
    p = mpmath.mpf(params.norm_type)

    def value(real, _):
        return mpmath.fsum(abs(mpmath.mpf(float(x[cell]))) ** p for cell in real) ** (1 / p) if real else mpmath.mpf(0)

    return oracle.pooled(params, x, value), oracle.pooled(params, x, lambda real, _: len(real))


def check_norms(params, x):
    """float32: within 2⁻²⁴·(1 + 2⁻⁷)·y, float64: within (n + 100)·2⁻⁵³·y, and half the smallest number."""
    found = LP.forward(params, x)
    assert found.dtype == x.dtype
    with mpmath.workdps(60):
        for got, y, n in zip(found.flat, *(each.flat for each in norms_exactly(params, x)), strict=True):
            most = mpmath.mpf(float(np.finfo(x.dtype).max))
            if y > most:
                assert got > 0.999 * most
                continue
            unit = (
                mpmath.mpf(2) ** -24 * (1 + mpmath.mpf(2) ** -7) if x.dtype == np.float32 else (n + 100) * mpmath.mpf(2) ** -53
            )
            assert abs(mpmath.mpf(float(got)) - y) <= unit * y + mpmath.mpf(2) ** (-150 if x.dtype == np.float32 else -1075), (
                got
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_a_norm_is_within_its_bound(dtype, data):
    """Of any finite numbers: tiny, huge, denormal, side by side."""
    spatial = data.draw(spatial_sizes(data.draw(ranks)))
    params = LpParams(data.draw(geometries(spatial)), data.draw(st.sampled_from(NORMS)))
    bits = data.draw(st.binary(min_size=8 * math.prod(spatial), max_size=8 * math.prod(spatial)))
    floats = np.frombuffer(bits, dtype)[: math.prod(spatial)].reshape(spatial)
    check_norms(params, np.where(np.isfinite(floats), floats, dtype(1.5)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", NORMS)
def test_a_long_norm_is_within_its_bound(p, dtype):
    x = np.random.default_rng(0).standard_normal(3000).astype(dtype)
    check_norms(LpParams(Global(1), p), x)
    check_norms(LpParams(Sliding((257,), 101, 13), p), x)


@pytest.mark.parametrize("size", [3e38, 1e30, 1e-30, 1e-45])
@pytest.mark.parametrize("p", NORMS)
def test_it_does_not_overflow_and_loses_nothing(p, size):
    x = np.array([3, -4, 0, 1], dtype=np.float32) / 8 * np.float32(size)
    y = wg.lp_pool1d(x, p, 2)
    exact = size / 8 * (3**p + 4**p) ** (1 / p)
    assert abs(y[0] - exact) <= 1e-6 * exact + 2e-45
    assert np.isfinite(y).all()


CELLS = {
    "plain": lambda rng, shape: rng.standard_normal(shape),
    "zeros among them": lambda rng, shape: np.maximum(rng.standard_normal(shape), 0) * (rng.random(shape) < 0.5),
    "far apart": lambda rng, shape: rng.standard_normal(shape) * 10.0 ** rng.integers(-150, 150, shape),
    "not finite": lambda rng, shape: rng.choice([np.inf, -np.inf, np.nan, 1.0, -2.0, 0.0, 0.5], shape),
    "infinite": lambda rng, shape: rng.choice([np.inf, -np.inf, 1.0, -2.0, 0.0, 0.5], shape),
}
GEOMETRIES = [Sliding((3, 2), (2, 1), 1), Sliding((2, 2), 1, 2, 2, True), Adaptive((2, 3)), Global(2)]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("p", NORMS)
def test_every_rule_is_near_the_specification(p, kind):
    rng = np.random.default_rng(1)
    for geometry in GEOMETRIES:
        params, x = LpParams(geometry, p), CELLS[kind](rng, (2, 2, 5, 7))
        dx, g = rng.standard_normal(x.shape), rng.standard_normal(params.out_shape(x.shape))
        objects = [array.astype(object) for array in (x, dx, g)]
        near(LP.forward(params, x), MEANING.forward(params, objects[0]), 0)
        near(LP.jvp(params, x, dx), MEANING.jvp(params, *objects[:2]), abs(dx).max())
        near(LP.vjp(params, x, g)[0], MEANING.vjp(params, objects[0], objects[2])[0], abs(g).max())


def near(found, expected, size):
    expected = expected.astype(float)
    alike = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(all="ignore"):
        assert (alike | (abs(found - expected) <= 1e-13 * np.maximum(abs(expected), 10 * size))).all()


@pytest.mark.parametrize("p", [1, 2, 2.5])
def test_a_plane_in_strips_and_a_region_in_chunks_are_near_the_whole(p, monkeypatch):
    rng = np.random.default_rng(2)
    x, shapes = rng.standard_normal((2, 40, 30)), [Sliding((3, 3), 1, 1), Sliding((2, 2)), Global(2)]
    dx = rng.standard_normal(x.shape)
    whole = [rules(LpParams(g, p), x, dx) for g in shapes]
    monkeypatch.setattr(strips, "LARGE", 100)
    monkeypatch.setattr(chunks, "LARGE", 1000)
    monkeypatch.setattr(chunks, "CHUNK", 128)
    for geometry, expected in zip(shapes, whole, strict=True):
        for found, right in zip(rules(LpParams(geometry, p), x, dx), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)


def rules(params, x, dx):
    return LP.forward(params, x), LP.jvp(params, x, dx), LP.vjp(params, x, np.ones(params.out_shape(x.shape)))[0]


def test_a_sample_does_not_depend_on_its_batch():
    """A plane that is done window by window is so for its own cells, and not for another's."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 6, 7))
    x[1] *= 10.0 ** rng.integers(-300, 300, x[1].shape)
    x[2, 3, 3] = np.nan
    params = LpParams(Sliding((2, 2), 1), 3)
    alone = [LP.forward(params, part) for part in x]
    assert np.array_equal(LP.forward(params, x), alone, equal_nan=True)


@pytest.mark.parametrize("p", [2, 2.5])
def test_roots_that_are_exact_are_exact(p):
    """One cell is its own magnitude, to the bit, where the root undoes the square."""
    x = np.random.default_rng(4).standard_normal(1000).astype(np.float32)
    assert np.array_equal(wg.lp_pool1d(x, p, 1), abs(x))
    assert wg.lp_pool1d(np.array([3.0, 4.0, 5.0, 12.0]), 2, 2).tolist() == [5, 13]


def test_the_limit_for_one_scale_is_where_nothing_is_lost_yet():
    """At the limit a plane has windows 10⁻¹⁵ of its greatest, which are as exact as all others."""
    for p in (2.5, 3, 6):
        power = entry.Power(LpParams(Global(1), p), np.dtype(np.float64), False)
        ratio = power.limit ** (1 / p)
        x = np.array([1.0, 1.0, ratio * 1.01, ratio * 1.01, ratio * 0.9, 0.0])
        exact = [Fraction(value) for value in x[::2].tolist()]
        assert wg.lp_pool1d(x, p, 2)[0] == pytest.approx(2 ** (1 / p), rel=1e-14)
        assert wg.lp_pool1d(x[:4], p, 2)[1] == pytest.approx(float(exact[1]) * 2 ** (1 / p), rel=1e-14)
        assert wg.lp_pool1d(x, p, 2)[2] == pytest.approx(float(exact[2]), rel=1e-14)


def test_a_strip_without_a_real_cell_has_a_scale():
    """Its windows lie in the padding: a part of a large call may have none but such."""
    assert cells.scales_of(np.empty(0), 2, narrow=False).tolist() == [1, 1]


@pytest.mark.parametrize("p", [1, 2, 2.5, 3, 7.5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_infinity_and_nan_are_those_of_the_specification(p, dtype):
    """Every pair of special values, alone in its plane: quick powers are made for finite cells."""
    values = [np.inf, -np.inf, np.nan, 0.0, 1.5]
    x = np.array([[[a, b]] for a in values for b in values], dtype)
    dx, g = np.full_like(x, 0.5), np.ones((len(x), 1, 1), dtype)
    params = LpParams(Sliding((2,)), p)
    exact = [each.astype(np.float64).astype(object) for each in (x, dx, g)]
    found = LP.forward(params, x), LP.jvp(params, x, dx), LP.vjp(params, x, g)[0]
    wanted = MEANING.forward(params, exact[0]), MEANING.jvp(params, *exact[:2]), MEANING.vjp(params, exact[0], exact[2])[0]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=2e-3)


GAPS = [Sliding((1,), (2,)), Sliding((3,), (5,)), Sliding((2,), (1,), 0, (4,)), Sliding((2,), (3,), ((1, 0),))]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("geometry", GAPS, ids=str)
@pytest.mark.parametrize("p", [1, 2, 2.5, 7])
def test_a_cell_that_no_window_sees_has_no_gradient_whatever_it_is(dtype, geometry, p):
    x = np.array([[1, 2, 3, 4, 5, 6]], dtype=dtype)
    params = LpParams(geometry, p)
    seen = {tap for o in np.ndindex(*geometry.grid((6,))) for (tap,) in geometry.taps(o, (6,))}
    unseen = sorted(set(range(6)) - seen)
    assert unseen
    g = np.ones(params.out_shape(x.shape), dtype=dtype)
    (right,) = LP.vjp(params, x, g)
    for strange in (np.nan, np.inf):
        x[:, unseen] = strange
        (found,) = LP.vjp(params, x, g)
        assert not found[:, unseen].any()
        np.testing.assert_allclose(found, right, rtol=4 * np.finfo(dtype).eps)  # a plane has one scale, which is another now
