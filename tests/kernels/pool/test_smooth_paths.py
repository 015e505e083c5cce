"""Smooth max by one reference for a plane and by pairs: hard planes against mpmath, and which path is taken changes nothing."""

import math

import mpmath
import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from support.smooth_bound import check_smooth
from windowgrad import dispatch
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.smooth import cells, entry, strips, ways
from windowgrad.kernels.pool.smooth import pairs as smooth_pairs
from windowgrad.kernels.runtime import threads
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import SmoothParams

SMOOTH = OPS["smooth_max_pool"]
KERNELS = dispatch.loaded(SMOOTH.facts.kernels)
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


def with_reach(monkeypatch, **limits):
    """How far the cells of a plane may be from its middle, or from 0 if it is narrow."""
    for name, limit in limits.items():
        monkeypatch.setattr(cells, name, limit)
    monkeypatch.setattr(cells, "scale_of", cells.scale_of.__wrapped__)


def every_rule(params, x):
    rng = np.random.default_rng(5)
    dx, g = (rng.standard_normal(shape).astype(x.dtype) for shape in (x.shape, params.geometry.out_shape(x.shape)))
    return SMOOTH.forward(params, x), SMOOTH.jvp(params, x, dx), *SMOOTH.vjp(params, x, g)


@pytest.mark.parametrize("beta", [1.0, -0.7, 1e-25, 0.99e-25, 1e25, 1.01e25])
def test_a_plane_is_narrow_up_to_its_limit_and_within_the_bound_on_both_sides(beta):
    for reach in (59.99999, 60, 60.00001, 61):
        x = (np.linspace(-reach, reach, 42).reshape(6, 7) / beta).astype(np.float32)
        for geometry in GEOMETRIES:
            check_smooth(SmoothParams(geometry, beta), x)


@pytest.mark.parametrize("counted", [True, False])
@every_geometry
def test_narrow_planes_are_those_of_more_bits_rounded(geometry, counted, monkeypatch):
    x, params = rng.standard_normal((5, 6, 7)).astype(np.float32), SmoothParams(geometry, -1.25, counted)
    narrow = every_rule(params, x)
    with_reach(monkeypatch, NARROW=-1)
    others = every_rule(params, x)
    assert any(not same_bits(a, b) for a, b in zip(narrow, others, strict=True))
    for a, b in zip(narrow, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=2.0**-21, atol=2.0**-21)


ALONG_ROWS = [
    Sliding((1, k), (1, s), (0, p), (1, d))
    for k, s, p, d in [
        (1, 1, 0, 1), (2, 1, 1, 1), (2, 2, 0, 1), (2, 2, 1, 3), (3, 2, 1, 1), (3, 3, 2, 1), (5, 3, 0, 2), (8, 1, 3, 1),
        (8, 8, 0, 1), (9, 1, 0, 1), (9, 2, 4, 1), (9, 9, 4, 1), (12, 5, 7, 2), (3, 40, 30, 1),
    ]
]  # fmt: skip


@pytest.mark.parametrize("geometry", [*ALONG_ROWS, Adaptive((2, 7)), Adaptive((4, 1)), Global(1), Global(2)], ids=str)
@pytest.mark.parametrize("width", [31, 33, 64])
def test_every_way_along_a_row_is_the_specification(geometry, width):
    """Few taps and many, side by side, apart and overlapping, padded, and bins; also where a vector ends with the row."""
    x = rng.standard_normal((2, 4, width))
    params = SmoothParams(geometry, 0.8)
    dx, g = rng.standard_normal(x.shape), rng.standard_normal(geometry.out_shape(x.shape))
    for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 2e-6)):
        cells, pushed, pulled = (a.astype(dtype) for a in (x, dx, g))
        found = SMOOTH.forward(params, cells), SMOOTH.jvp(params, cells, pushed), *SMOOTH.vjp(params, cells, pulled)
        exact = [a.astype(np.float64) for a in (cells, pushed, pulled)]
        wanted = SPEC.forward(params, exact[0]), SPEC.jvp(params, *exact[:2]), *SPEC.vjp(params, exact[0], exact[2])
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "geometry"),
    [
        ((1, 17), Adaptive((2, 1))),
        ((1, 17), Adaptive((3, 5))),
        ((3, 1), Sliding((3, 4), (1, 4), ((0, 0), (6, 4)), (1, 3))),
        ((1, 6), Sliding((2, 6), (2, 1), ((3, 0), (0, 0)))),
        ((4, 5), Sliding((4, 5), 9)),
    ],
    ids=str,
)
def test_a_plane_that_is_one_row_or_one_window_is_the_specification(shape, geometry):
    """Bins that see one row several times, a window whose taps miss all columns but one, windows that see no row."""
    x, params = rng.standard_normal((3, *shape)), SmoothParams(geometry, 1.1, count_include_pad=False)
    g = rng.standard_normal(geometry.out_shape(x.shape))
    np.testing.assert_allclose(SMOOTH.forward(params, x), SPEC.forward(params, x).astype(np.float64), rtol=1e-13)
    (found,), (wanted,) = SMOOTH.vjp(params, x, g), SPEC.vjp(params, x, g)
    np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=1e-12, atol=1e-13)


def test_windows_of_many_rows_on_few_are_pulled_back_as_pairs():
    """The spread gradients would take memory out of proportion."""
    few, many = plan(Sliding((90, 2), 1, (89, 0)), (8, 200)), plan(Sliding((20, 2), 1, (12, 0)), (8, 200))
    assert ways.backward_way(few) is None
    assert ways.backward_way(many) is not None
    x, params = rng.standard_normal((2, 8, 200)), SmoothParams(Sliding((90, 2), 1, (89, 0)), 1)
    g = rng.standard_normal(params.geometry.out_shape(x.shape))
    (found,), (wanted,) = SMOOTH.vjp(params, x, g), SPEC.vjp(params, x, g)
    np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize("given", [np.float32, np.float64])
@every_geometry
def test_saved_sums_change_no_bit_of_a_gradient(geometry, given, dtype):
    x = (rng.standard_normal((40, 6, 7)) * 3).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[3], x[5, 2, 2], x[7, 1, 1], x[9] = x[3] * 1e3, np.nan, np.inf, x[9] + 200
    params, g = SmoothParams(geometry, 1.5), rng.standard_normal(geometry.out_shape(x.shape)).astype(given)
    g.reshape(40, -1)[11, 0] = np.inf
    with np.errstate(all="ignore"):
        y, saved = KERNELS.saving(params, x)
        assert (saved.shape, saved.dtype) == KERNELS.saves(params, (x.shape, x.dtype))
        assert np.array_equal(y, KERNELS.forward(params, x), equal_nan=True)
        (one,), (other,) = KERNELS.vjp(params, x, g), KERNELS.vjp(params, x, g, saved)
    assert np.array_equal(one, other, equal_nan=True)


def test_nothing_is_saved_of_planes_that_are_cut():
    params, dtype = SmoothParams(Sliding((3, 3), 1), 1.0), np.dtype(np.float32)
    assert KERNELS.saves(params, ((2, 512, 512), dtype)) == ((2, 510, 510), np.float64)
    assert KERNELS.saves(params, ((2, 512, 513), dtype)) is None
    assert KERNELS.saves(SmoothParams(Global(1), 1.0), ((1, 1 << 23), dtype)) is None


def test_only_small_calls_of_floats_are_prepared():
    params, most = SmoothParams(Sliding((2, 2), 2), 1.0), threads.LEAST_WORK // (4 * entry.WORK)
    for shape, dtype, small in [
        ((2, most // 2 - 2), np.float32, True),
        ((2, most // 2), np.float32, False),
        ((0, 4, 4), np.float32, False),
        ((4, 4), np.float16, False),
        ((4, 4), np.int32, False),
        ((4, 4), np.float64, True),
    ]:
        assert (KERNELS.prepare("forward", params, (shape, np.dtype(dtype))) is not None) == small
    assert KERNELS.prepare("jvp", params, ((4, 4), np.dtype(np.float32)), ((4, 4), np.dtype(np.float32))) is None
    assert KERNELS.prepare("vjp", params, ((4, 4), np.dtype(np.float32)), ((2, 2), np.dtype(np.float64))) is None


def test_small_planes_have_the_same_bits_alone_and_in_a_group():
    """Logarithms are taken of several planes together, unless one of them is not narrow."""
    x = rng.standard_normal((60, 3, 4)).astype(np.float32)
    x[7], x[11, 1, 1], x[13, 0, 0], x[17], x[30] = x[7] * 1e4, np.nan, np.inf, x[17] + 600, x[30] + 100
    for geometry in (Sliding((2, 2), 1), Global(2), Adaptive((2, 3)), Sliding((3, 3), 1, 1)):
        params = SmoothParams(geometry, 1.0)
        together = every_rule(params, x)[0]
        for q, one in enumerate(x):
            assert same_bits(SMOOTH.forward(params, one), together[q]), q


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
