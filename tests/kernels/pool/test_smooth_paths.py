"""Smooth max by one reference for a plane and by pairs: hard planes against mpmath, and which path is taken changes nothing."""

import math

import mpmath
import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from support.smooth_bound import check_smooth, with_reach
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.smooth import pairs as smooth_pairs
from windowgrad.kernels.pool.smooth import strips
from windowgrad.kernels.runtime import threads
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import SmoothParams

SMOOTH = OPS["smooth_max_pool"]
SPEC = next(op for op in MEANINGS if op.name == "smooth_max_pool")
GEOMETRIES = [
    Sliding((2, 3), 1, 1),
    Sliding((3, 3), 2, 1),
    Sliding((2, 2), 3, (2, 1), (2, 3)),
    Adaptive((3, 4)),
    Adaptive((9, 8)),
    Global(2),
]
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
rng = np.random.default_rng(0)


def plane(*values):
    """A plane of 6×7 in which these values come in turn."""
    return np.resize(np.array(values, dtype=np.float32), (6, 7))


def one_among(one, others):
    x = plane(others)
    x[3, 3] = one
    return x


HARD = {
    "one above": one_among(1e5, -1e5),
    "one below": one_among(-1e5, 1e5),
    "as far apart as one reference does": np.linspace(-479, 479, 42, dtype=np.float32).reshape(6, 7),
    "a little too far apart": np.linspace(-481, 481, 42, dtype=np.float32).reshape(6, 7),
    "far from zero": plane(1e4, 1e4 + 1, 1e4 - 3),
    "far from zero and apart": np.linspace(300, 1259, 42, dtype=np.float32).reshape(6, 7),
    "a step": np.where(np.arange(42) < 21, np.float32(-470), np.float32(470)).reshape(6, 7),
    "denormal": plane(1e-45, -1e-44, 1e-40),
    "huge": plane(3e38, -3e38, 3e38, 1),
    "ordinary": rng.standard_normal((6, 7)).astype(np.float32),
}
every_hard_plane = pytest.mark.parametrize("name", HARD)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("beta", [1, -1, 1e-30, 1e30, -1e30, 1e300, 37.5])
@every_hard_plane
def test_hard_planes_are_within_the_bound(name, beta, counted):
    for geometry in GEOMETRIES:
        check_smooth(SmoothParams(geometry, beta, counted), HARD[name])


def exactly(x):
    out = np.empty(x.shape, dtype=object)
    out.reshape(-1)[:] = [mpmath.mpf(float(cell)) for cell in x.flat]
    return out


def check_derivatives(params, x, dx, g, ulps):
    """Each sum is within `ulps`·2⁻²⁴ of the same sum of magnitudes."""
    with mpmath.workdps(60):
        for rule, given in (("jvp", dx), ("vjp", g)):
            found, exact, size = (
                result[0] if rule == "vjp" else result
                for result in (
                    getattr(SMOOTH, rule)(params, x, given),
                    *(getattr(SPEC, rule)(params, exactly(x), exactly(values)) for values in (given, abs(given))),
                )
            )
            for got, wanted, scale in zip(found.flat, exact.flat, size.flat, strict=True):
                assert abs(mpmath.mpf(float(got)) - wanted) <= ulps * scale + mpmath.mpf(2) ** -149, (rule, got, wanted)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("beta", [1.5, -1, 1e-30, 1e30])
@every_hard_plane
def test_derivatives_of_hard_planes_are_within_four_roundings(name, beta, counted):
    x = HARD[name]
    for geometry in GEOMETRIES:
        params = SmoothParams(geometry, beta, counted)
        dx, g = (rng.standard_normal(shape).astype(np.float32) for shape in (x.shape, geometry.out_shape(x.shape)))
        check_derivatives(params, x, dx, g, 4 * mpmath.mpf(2) ** -24)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_tangents_of_any_size_lose_nothing_beside_large_and_small_weights(size):
    """In float64, where a weight times a tangent may be beyond its range."""
    x = np.linspace(-470, 470, 42).reshape(6, 7)
    for geometry in GEOMETRIES:
        dx, g = (rng.standard_normal(shape) * size for shape in (x.shape, geometry.out_shape(x.shape)))
        check_derivatives(SmoothParams(geometry, 1), x, dx, g, 100 * mpmath.mpf(2) ** -53)


@pytest.mark.parametrize("power", [-149, -126, -121, -120, -119, -60, 0, 60, 100, 127])
def test_gradients_of_any_size_are_within_four_roundings_where_windows_are_side_by_side(power):
    """Their quotients by sums from e⁻⁶⁰ to e⁶⁰ may be beyond the range of a float32, of which two are multiplied."""
    x = rng.uniform(-60, 60, (3, 2, 32)).astype(np.float32)
    x[1:] /= [[[1]], [[60]]]
    dx, g = rng.standard_normal(x.shape).astype(np.float32), (rng.uniform(-1, 1, (3, 1, 16)) * 2.0**power).astype(np.float32)
    g[:, :, 3] = 0
    for one, pushed, pulled in zip(x, dx, g, strict=True):
        check_derivatives(SmoothParams(Sliding((2, 2), 2), 1), one, pushed, pulled, 4 * mpmath.mpf(2) ** -24)


@pytest.mark.parametrize("beta", [2, -3])
@every_geometry
def test_in_float64_both_paths_are_one_function(geometry, beta, monkeypatch):
    """Planes are sent the other way by letting no cell be within reach."""
    x = rng.standard_normal((2, 6, 7))
    params = SmoothParams(geometry, beta)
    dx, g = rng.standard_normal(x.shape), rng.standard_normal(geometry.out_shape(x.shape))
    one = SMOOTH.forward(params, x), SMOOTH.jvp(params, x, dx), *SMOOTH.vjp(params, x, g)
    with_reach(monkeypatch, FURTHEST=-1, NARROW=-1)
    other = SMOOTH.forward(params, x), SMOOTH.jvp(params, x, dx), *SMOOTH.vjp(params, x, g)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def test_a_plane_has_the_same_bits_whatever_planes_are_beside_it_and_however_many_threads_there_are():
    x = rng.standard_normal((300, 40, 40)).astype(np.float32)
    x[7], x[11, 3, 4], x[13, 0, 0], x[17] = x[7] * 1e4, np.nan, np.inf, x[17] + 600
    params = SmoothParams(Sliding((3, 3), 2, 1), 1.0)
    g, dx = rng.standard_normal((300, 20, 20)).astype(np.float32), rng.standard_normal(x.shape).astype(np.float32)
    rules = (
        lambda s: SMOOTH.forward(params, x[s]),
        lambda s: SMOOTH.jvp(params, x[s], dx[s]),
        lambda s: SMOOTH.vjp(params, x[s], g[s])[0],
    )
    for rule in rules:
        wg.set_num_threads(1)
        one = rule(slice(None))
        wg.set_num_threads(2)
        assert same_bits(rule(slice(None)), one)
        for q in (0, 7, 11, 13, 17, 299):
            assert same_bits(rule(slice(q, q + 1)), one[q : q + 1])


@pytest.mark.parametrize("geometry", [*GEOMETRIES, Sliding((2, 2), 5), Sliding((3, 1), (1, 2), (4, 0))], ids=str)
def test_a_plane_cut_into_rows_has_the_same_bits(geometry, monkeypatch):
    x = rng.standard_normal((2, 23, 9)).astype(np.float32)
    g = rng.standard_normal(geometry.out_shape(x.shape)).astype(np.float32)
    params = SmoothParams(geometry, 2)
    results = []
    for large in (strips.LARGE, 40):
        monkeypatch.setattr(strips, "LARGE", large)
        results.append((SMOOTH.forward(params, x), SMOOTH.jvp(params, x, x), *SMOOTH.vjp(params, x, g)))
    assert all(same_bits(a, b) for a, b in zip(*results, strict=True))


def test_a_large_plane_is_cut_and_a_small_one_is_not():
    p = plan(Sliding((3, 3), 1, 1), (1024, 512))
    assert len(strips.bounds(p, p.outer, strips.by_outputs)) > 4
    assert len(strips.bounds(p, 1024, strips.by_cells)) > 4
    p = plan(Sliding((3, 3), 1, 1), (112, 112))
    assert strips.bounds(p, p.outer, strips.by_outputs) == [0, 112]


@pytest.mark.parametrize("beta", [1e-320, -1e-320])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_least_beta_there_is_gives_zero_or_the_infinite_limit(dtype, beta):
    x = np.zeros(3, dtype)
    assert wg.smooth_max_pool1d(x, 2, beta=beta).tolist() == [math.copysign(math.inf, beta)]
    assert wg.smooth_max_pool1d(x, 1, beta=beta).tolist() == [0, 0, 0]


@pytest.mark.parametrize("beta", [1, -1e-30, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_window_of_one_cell_is_that_cell(dtype, beta):
    x = (rng.standard_normal((3, 5, 6)) * 1e-12).astype(dtype)
    assert same_bits(wg.smooth_max_pool2d(x, 1, 2, beta=beta), x[:, ::2, ::2].copy())
    corners = wg.smooth_max_pool2d(x, 2, (5, 6), ((1, 0), (1, 0)), beta=beta, count_include_pad=False, ceil_mode=True)
    assert same_bits(corners[:, :1, :1].copy(), x[:, :1, :1].copy())


@every_geometry
def test_the_outputs_that_see_a_cell_are_evenly_spaced(geometry):
    p = plan(geometry, (6, 7))
    start, count, step = smooth_pairs.seen_along(p)
    for cell in range(p.width):
        seen = [j for j in range(p.out) if cell in range(p.start[j], p.start[j] + p.count[j] * p.step, p.step)]
        assert seen == [start[cell] + n * step for n in range(count[cell])]


def test_cells_that_no_window_sees_have_no_gradient_even_nan():
    x = np.array([1, math.nan, 2, math.nan, 3], dtype=np.float32)
    assert SMOOTH.vjp(SmoothParams(Sliding((1,), 2), 1), x, np.ones(3, np.float32))[0].tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_infinite_planes_raise_no_warning_whatever_the_number_of_threads(number, monkeypatch):
    """Warnings are errors here; NaN and infinity are results."""
    monkeypatch.setattr(threads, "chosen", number)
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    x, params = np.full((7, 6, 7), -np.inf, np.float32), SmoothParams(Sliding((3, 3), 2, 1), 1)
    x[3, 2], x[4, 1] = np.nan, np.inf
    y = SMOOTH.forward(params, x)
    results = [y, SMOOTH.jvp(params, x, x), *SMOOTH.vjp(params, x, y)]
    planes = [
        [SMOOTH.forward(params, p), SMOOTH.jvp(params, p, p), *SMOOTH.vjp(params, p, q)] for p, q in zip(x, y, strict=True)
    ]
    for found, expected in zip(results, zip(*planes, strict=True), strict=True):
        assert np.array_equal(found, np.stack(expected), equal_nan=True)
