"""Smooth max by planes: every way along a row, narrow planes and others, saved sums, and calls that are prepared."""

import numpy as np
import pytest

from support.exact import same_bits
from support.interpreter import fresh
from support.paths import TESTS
from support.smooth_bound import check_smooth, with_reach
from windowgrad import routes
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.smooth import entry, strips, ways
from windowgrad.kernels.pool.smooth.row_in_pieces import PIECE, is_long_row
from windowgrad.kernels.pool.smooth.side_by_side import is_side_by_side
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import SmoothParams

SMOOTH = OPS["smooth_max_pool"]
SPEC = next(op for op in MEANINGS if op.name == "smooth_max_pool")
KERNELS = routes.loaded(SMOOTH.facts.kernels)
GEOMETRIES = [
    Sliding((2, 3), 1, 1),
    Sliding((3, 3), 2, 1),
    Sliding((2, 2), 3, (2, 1), (2, 3)),
    Sliding((2, 2), 2),
    Adaptive((3, 4)),
    Adaptive((9, 8)),
    Global(2),
]
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
rng = np.random.default_rng(0)


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
    few, many = (plan(Sliding((k, 2), 1, (k - 1, 0)), (8, 200)) for k in (352, 353))
    assert ways.backward_way(many) is None
    assert ways.backward_way(few) is not None
    x, params = rng.standard_normal((2, 8, 200)), SmoothParams(Sliding((353, 2), 1, (352, 0)), 1)
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
        assert KERNELS.saves(params, (x.shape, x.dtype)) in (None, (saved.shape, saved.dtype))
        assert np.array_equal(y, KERNELS.forward(params, x), equal_nan=True)
        (one,), (other,) = KERNELS.vjp(params, x, g), KERNELS.vjp(params, x, g, saved)
    assert np.array_equal(one, other, equal_nan=True)


def test_nothing_is_saved_of_planes_that_are_cut():
    params, dtype = SmoothParams(Sliding((3, 3), 1), 1.0), np.dtype(np.float32)
    assert KERNELS.saves(params, ((2, 512, 512), dtype)) == ((2, 510, 510), np.float64)
    assert KERNELS.saves(params, ((2, 512, 513), dtype)) is None
    assert KERNELS.saves(SmoothParams(Global(1), 1.0), ((1, 1 << 23), dtype)) is None


def test_nothing_is_saved_of_windows_side_by_side_that_are_weighed_in_float32():
    for geometry, shape in ((Sliding((2, 2), 2), (3, 8, 8)), (Sliding((2,), 2), (1, 1 << 22))):
        params = SmoothParams(geometry, 1.0)
        for dtype in (np.float16, np.float32):
            assert KERNELS.saves(params, (shape, np.dtype(dtype))) is None
        assert KERNELS.saves(params, (shape, np.dtype(np.float64))) == (geometry.out_shape(shape), np.float64)
    assert KERNELS.saves(SmoothParams(Sliding((2, 2), 2), 1.0), ((3, 8, 9), np.dtype(np.float32))) is not None


def test_calls_of_floats_that_are_not_cut_are_prepared():
    params = SmoothParams(Sliding((2, 2), 2), 1.0)
    for shape, dtype, small in [
        ((32, 512, 512), np.float32, True),
        ((2, 512, 513), np.float32, False),
        ((0, 4, 4), np.float32, False),
        ((4, 4), np.float16, True),
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


SIDE_BY_SIDE = [  # geometry, plane
    (Sliding((2, 2), 2), (4, 2)),
    (Sliding((2, 2), 2), (6, 14)),
    (Sliding((2, 2), 2), (4, 16)),
    (Sliding((2, 2), 2), (6, 30)),
    (Sliding((2, 2), 2), (2, 56)),
    (Sliding((1, 2), (1, 2)), (3, 34)),
    (Sliding((3, 2), (3, 2)), (6, 18)),
    (Sliding((2,), 2), (46,)),
    (Sliding((2,), 2), (6018,)),  # in pieces
    (Sliding((6, 2), (6, 2)), (12, 2066)),
    (Sliding((2, 2), 2), (90, 62)),  # in blocks of rows
    (Sliding((2, 2, 2), 2), (4, 2, 20)),
    (Sliding((2, 2), 2, ((1, 1), (0, 0))), (6, 34)),
]


LONG_ROWS = [(Sliding((3,), 2, 1), (4301,)), (Sliding((2,), 1), (4200,)), (Sliding((5,), 3, ((4, 1),)), (4119,))]


GUARDED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.guarded import exact_memory, guard_compiled_code, guarded
guard_compiled_code()
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import Mask, SmoothParams

op = OPS["smooth_max_pool"]
planes = {[(g.kernel, g.stride, g.padding, plane) for g, plane in [*SIDE_BY_SIDE, *LONG_ROWS]]!r}
for kernel, stride, padding, plane in [*planes, ((2,), 2, 0, (6,))]:
    x = np.random.default_rng(0).standard_normal((3, *plane)).astype(np.float32)
    plain = SmoothParams(Sliding(kernel, stride, padding), 1.5)
    masks = [None, Mask(guarded(x > -1)), Mask(guarded(x[0] > -1))]
    for at in ("start", "end"):
        for params in [plain if mask is None else plain.masked_by(mask) for mask in masks]:
            with exact_memory(at=at, poison=0xFF):
                y = op.forward(params, guarded(x, at=at))
                (gx,) = op.vjp(params, guarded(x, at=at), guarded(y, at=at))
            assert np.isfinite(y).all() and np.isfinite(gx).all()
print("well")
"""


def test_windows_side_by_side_and_long_rows_touch_nothing_beside_their_arrays():
    """Rows shorter than a vector of weights were written as if they were as long as one of gradients."""
    assert fresh(GUARDED, seconds=180).split() == ["well"]


@pytest.mark.parametrize("given", ["narrow", "wide", "some NaN"])
@pytest.mark.parametrize(("geometry", "plane"), SIDE_BY_SIDE, ids=str)
def test_windows_side_by_side_have_the_bits_of_windows_step_by_step(geometry, plane, given, monkeypatch):
    x, params = rng.standard_normal((5, *plane)).astype(np.float32), SmoothParams(geometry, 1.5)
    x[1] *= {"wide": 50, "narrow": 1, "some NaN": np.nan}[given]
    assert strips.whole(plan(geometry, plane)).in_pairs == (geometry.padding[0] == (0, 0))
    at_once = every_rule(params, x)
    monkeypatch.setattr(strips, "is_side_by_side", lambda p: False)
    monkeypatch.setattr(entry, "kept_plane", lambda *given: None)
    assert not entry.plane_of(params, x.shape)[0].in_pairs
    for a, b in zip(at_once, every_rule(params, x), strict=True):
        assert same_bits(a, b)
    y, saved = KERNELS.saving(params, x)
    assert same_bits(y, at_once[0])
    for a in KERNELS.vjp(params, x, g := np.ones_like(y)), KERNELS.vjp(params, x, g, saved):
        assert same_bits(a[0], KERNELS.vjp(params, x, g)[0])


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_gradient_that_is_not_finite_changes_no_other_plane(bad):
    x, params = rng.standard_normal((4, 6, 34)).astype(np.float32), SmoothParams(Sliding((2, 2), 2), 1.5)
    g = rng.standard_normal((4, 3, 17)).astype(np.float32)
    g[2, 1, 5] = bad
    with np.errstate(all="ignore"):
        (together,) = SMOOTH.vjp(params, x, g)
        for q, (one, pulled) in enumerate(zip(x, g, strict=True)):
            assert same_bits(SMOOTH.vjp(params, one, pulled)[0], together[q]), q
            assert np.isfinite(together[q]).all() == (q != 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given", ["in reach", "wide", "a NaN that no window sees"])
@pytest.mark.parametrize(
    ("geometry", "plane"), [*LONG_ROWS, (Sliding((3,), 7, 2, 2), (6006,)), (Sliding((8,), 5, 3), (9999,))], ids=str
)
def test_long_rows_have_the_bits_of_rows_as_a_whole(geometry, plane, given, dtype, monkeypatch):
    x, params = rng.standard_normal((3, *plane)).astype(dtype), SmoothParams(geometry, 1.5)
    x[1, -1] = {"in reach": 1, "wide": 300, "a NaN that no window sees": np.nan}[given]
    assert ways.forward_way(plan(geometry, plane)) is ways.long_rows
    y, saved = KERNELS.saving(params, x)
    monkeypatch.setattr(ways, "is_long_row", lambda p: False)
    monkeypatch.setattr(entry, "kept_plane", lambda *given: None)
    monkeypatch.setattr(entry, "plane_of_block", lambda *given: None)
    whole, sums = KERNELS.saving(params, x)
    assert same_bits(y, whole)
    used = ~np.isnan(x).any(axis=1)  # of a row without a middle no sum is used
    assert same_bits(saved[used], sums[used])


def test_a_long_row_with_padding_below_it_is_summed_with_all_of_it():
    """As log(exp(x) + 1) is: the padding is not at the ends of the row."""
    x = np.linspace(-5, 5, 5000).reshape(1, -1).astype(np.float32)
    y = KERNELS.forward(SmoothParams(Sliding((2, 1), 1, ((0, 1), (0, 0))), 1.0), x)
    assert np.allclose(y, np.logaddexp(x, 0), rtol=0, atol=1e-6)


def test_a_row_is_long_if_its_windows_are_many_and_short_and_leave_nothing_out():
    def holds(geometry, *plane):
        return is_long_row(plan(geometry, plane))

    assert holds(Sliding((2,), 1), PIECE * 2 + 2)
    assert not holds(Sliding((2,), 1), PIECE * 2 + 1)
    assert holds(Sliding((8,), 1), 9999)
    assert not holds(Sliding((9,), 1), 9999)
    assert holds(Sliding((2,), 511), 99999)
    assert not holds(Sliding((2,), 512), 99999)
    assert not holds(Sliding((2,), 1, 0, 512), 9999)
    assert not holds(Sliding((1, 2), 1), 2, 9999)
    assert holds(Sliding((1, 2), 1), 1, 9999)
    assert not holds(Sliding((2, 2), 1, ((0, 1), (0, 0))), 1, 9999)
    assert not holds(Adaptive((4001,)), 9999)


def test_windows_are_side_by_side_if_every_cell_is_in_one_of_two_columns():
    def holds(geometry, *plane):
        return is_side_by_side(plan(geometry, plane))

    assert holds(Sliding((2, 2), 2), 6, 8)
    assert holds(Sliding((1, 2), (1, 2)), 3, 8)
    assert not holds(Sliding((2, 2), 2), 2, 2)  # one window
    assert not holds(Sliding((2, 2), 2), 6, 9)  # a column that no window sees
    assert not holds(Sliding((2, 2), 2), 7, 8)
    assert not holds(Sliding((2, 2), 2, 1), 6, 8)
    assert not holds(Sliding((2, 2), 2, ((1, 1), (0, 0))), 6, 8)  # padding above
    assert not holds(Sliding((2, 2), 2, (0, 1)), 6, 8)
    assert not holds(Sliding((2, 2), (1, 2)), 6, 8)  # rows that two windows see
    assert not holds(Sliding((2, 2), 2, 0, (1, 2)), 6, 8)
    assert not holds(Sliding((2, 2), 2, ceil_mode=True), 6, 9)
    assert not holds(Sliding((2, 3), (2, 3)), 6, 9)
    assert holds(Adaptive((3, 4)), 6, 8)
    assert not holds(Adaptive((3, 4)), 6, 9)
