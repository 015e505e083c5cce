"""Masked smooth maxima by the kernels for all cells: which are taken so, their error, where memory ends, and neighbours."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.guarded import exact_memory, guarded
from support.smooth_bound import check_smooth, with_reach
from windowgrad import dispatch, routes
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.masked import smooth_planes, sums
from windowgrad.kernels.pool.smooth import chunks, strips
from windowgrad.kernels.runtime import threads
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import Mask, MeanParams, SmoothParams

SMOOTH = OPS["smooth_max_pool"]
SPEC = next(op for op in MEANINGS if op.name == "smooth_max_pool")
KERNELS = routes.loaded(SMOOTH.facts.masked)
WINDOWS = [
    Sliding((2, 2), 2),
    Sliding((3, 3), 2, 1),
    Sliding((1, 5), 3, (0, 2)),
    Sliding((2, 3), 1, 1, 2),
    Sliding((2, 9), 2, (1, 4), ceil_mode=True),
    Sliding((1, 1)),
    Sliding((1, 1), 1, 2),
    Adaptive((3, 7)),
    Global(2),
]
every_geometry = pytest.mark.parametrize("geometry", WINDOWS, ids=str)
BOTH = [1.5, -2.0]


def drawn(*shape, share=0.5, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape).astype(dtype), rng.random(shape) < share


def test_planes_that_are_not_large_are_taken_by_the_kernels_for_all_cells():
    params, side = SmoothParams(Sliding((2, 2), 2), 1.0), 1 << 10
    x = np.broadcast_to(np.float32(0), (2, side, side))
    assert smooth_planes.is_taken(params, x)
    whole = SmoothParams(Global(2), 1.0)
    assert side * side == chunks.LARGE
    assert not smooth_planes.is_taken(whole, x)
    assert smooth_planes.is_taken(whole, x[:, 1:])
    row, beside = np.broadcast_to(np.float32(0), (1 << 20,)), SmoothParams(Sliding((2,), 2), 1.0)
    assert not smooth_planes.is_taken(beside, row)
    assert smooth_planes.is_taken(beside, row[:1000])


def test_calls_of_floats_that_are_not_cut_are_prepared():
    params, kind = SmoothParams(Sliding((2, 2), 2), 1.0), ((4, 4), np.dtype(np.float32))
    for shape, dtype, taken in [
        ((3, 512, 512), np.float32, True),
        ((3, 512, 513), np.float32, False),
        ((4, 4), np.float64, True),
        ((4, 4), np.float16, False),
        ((0, 4, 4), np.float32, False),
    ]:
        mask = shape[-2:], np.dtype(bool)
        assert (KERNELS.prepare("forward", params, (shape, np.dtype(dtype)), mask) is not None) == taken
    assert KERNELS.prepare("jvp", params, kind, kind, ((4, 4), np.dtype(bool))) is None


@pytest.mark.parametrize("beta", BOTH)
@pytest.mark.parametrize("counted", [True, False])
@every_geometry
def test_masked_smooth_maxima_keep_their_error(geometry, counted, beta):
    for scale in (1, 100):  # planes that are narrow, and others
        for share in (0.5, 0.1):
            x, where = drawn(2, 9, 11, share=share)
            x[~where] = np.random.default_rng(1).choice([np.nan, np.inf, -np.inf, 1e30], np.count_nonzero(~where))
            check_smooth(SmoothParams(geometry, beta, counted, where=Mask(where)), scale * x)
            check_smooth(SmoothParams(geometry, beta, counted, where=Mask(where[0])), scale * np.where(where[0], x[:1], 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_geometry
def test_masked_smooth_maxima_do_not_depend_on_what_lies_around_them(geometry, dtype):
    for width in (9, 16, 19, 37):
        x, where = drawn(3, 9, width, dtype=dtype)
        for scale in (1, 1e4):  # those of 1e4 have no middle
            wanted = SMOOTH.forward(SmoothParams(geometry, 2.0, where=Mask(where)), scale * x)
            with exact_memory():
                for edge in ("start", "end"):
                    params = SmoothParams(geometry, 2.0, where=Mask(guarded(where, edge)))
                    assert settled(sums.smooth_forward(params, guarded(scale * x, edge))) == settled(wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16])
@every_geometry
def test_a_mask_that_leaves_all_cells_changes_no_bit(geometry, dtype):
    x = drawn(4, 9, 21)[0].astype(dtype)
    x[1] *= 100
    whole, where = SMOOTH.forward(SmoothParams(geometry, 1.5), x), Mask(np.ones((9, 21), bool))
    assert settled(SMOOTH.forward(SmoothParams(geometry, 1.5, where=where), x)) == settled(whole)


@pytest.mark.parametrize("beta", BOTH)
@pytest.mark.parametrize("counted", [True, False])
@every_geometry
def test_cells_that_are_not_finite_count_only_where_they_are_left(geometry, counted, beta):
    rng = np.random.default_rng(5)
    x, where = drawn(3, 9, 11, share=0.4)
    strange = rng.random(x.shape) < 0.3
    x[strange] = rng.choice([np.inf, -np.inf, np.nan], np.count_nonzero(strange))
    params = SmoothParams(geometry, beta, counted, where=Mask(where))
    wanted = np.asarray(SPEC.forward(params, x.astype(object))).astype(np.float64)
    np.testing.assert_allclose(SMOOTH.forward(params, x).astype(np.float64), wanted, rtol=2.0**-22, atol=2.0**-22)


@every_geometry
def test_a_plane_has_the_same_bits_whatever_its_neighbours_are(geometry):
    x, where = drawn(7, 9, 11)
    x[2], x[4, 3, 3], x[5] = x[2] * 1e4, np.inf, x[5] + 600
    where[4, 3, 3] = True
    together = SMOOTH.forward(SmoothParams(geometry, 1.0, where=Mask(where)), x)
    for q in range(len(x)):
        alone = SMOOTH.forward(SmoothParams(geometry, 1.0, where=Mask(where[q])), x[q])
        assert settled(alone) == settled(together[q]), q


@pytest.mark.parametrize("beta", BOTH)
@pytest.mark.parametrize(
    ("dtype", "far", "sharp"),
    [(np.float16, 6e4, 1), (np.float32, 1e9, 1), (np.float32, 1e6, 3000), (np.float64, 1e18, 1), (np.int64, 2**60, 1)],
)
@every_geometry
def test_cells_far_from_zero_keep_their_weight(geometry, dtype, far, sharp, beta):
    """There a number that weighs less than every cell is not that far away from them: a float has too few digits."""
    params = SmoothParams(geometry, beta * sharp, False, where=Mask(drawn(9, 11)[1]))
    x, kind = np.full((9, 11), -far * np.sign(beta)).astype(dtype), np.float32 if dtype is np.int64 else dtype
    mean = MeanParams(geometry, False, where=params.where)
    g, dx = np.ones(geometry.out_shape(x.shape), kind), np.arange(99).reshape(x.shape).astype(kind)
    for found, expected in zip(derivatives(params, x, dx, g), derivatives(mean, x, dx, g), strict=True):
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(kind).eps)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("beta", BOTH)
@every_geometry
def test_derivatives_of_a_plane_have_the_same_bits_whatever_its_neighbours_are(geometry, beta, dtype):
    """Zeros have the same sign too, beside planes that are infinite or have windows of infinite cells alone."""
    (x, where), lightest = drawn(6, 9, 11, dtype=dtype), -np.copysign(np.inf, beta)
    x[1, 3, 3], x[2, 3, 3], x[3] = np.inf, np.nan, lightest
    x[4, :6], x[5] = lightest, x[5] * np.asarray(600, dtype)
    where[1:3, 3, 3] = True
    dx, (g, _) = x[::-1].copy(), drawn(*geometry.out_shape(x.shape), dtype=dtype, seed=1)
    g[..., :2], g[:3] = -0.0, -abs(g[:3])
    for mask in (where, where[0]):
        together = derivatives(SmoothParams(geometry, beta, where=Mask(mask)), x, dx, g)
        for q in range(len(x)):
            params = SmoothParams(geometry, beta, where=Mask(mask[q] if mask.ndim == 3 else mask))
            for rule, one, many in zip(("jvp", "vjp"), derivatives(params, x[q], dx[q], g[q]), together, strict=True):
                assert settled(one) == settled(many[q]), (rule, q)


def derivatives(params, x, dx, g):
    op = OPS["avg_pool"] if isinstance(params, MeanParams) else SMOOTH
    return op.jvp(params, x, dx), op.vjp(params, x, g)[0]


@pytest.mark.parametrize("shared", [True, False])
def test_strips_of_a_large_plane_are_masked_like_the_plane(shared, monkeypatch):
    x, where = drawn(2, 60, 31)
    params = SmoothParams(Sliding((3, 3), 2, 1), 2.0, where=Mask(where[0] if shared else where))
    whole = sums.smooth_forward(params, x)
    monkeypatch.setattr(strips, "LARGE", 500)
    assert settled(sums.smooth_forward(params, x)) == settled(whole)
    x[1, 7, 3], where[..., 7, 3] = np.inf, True
    assert sums.smooth_forward(params, x)[1, 3, 1] == np.inf


def test_threads_change_no_bit():
    x, where = drawn(5, 9, 61, 60)
    found, before = set(), threads.get_num_threads()
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            for mask in (where, where[0, 0]):
                found.add((mask.ndim, settled(SMOOTH.forward(SmoothParams(Sliding((3, 3), 2, 1), 2.0, where=Mask(mask)), x))))
    finally:
        threads.set_num_threads(before)
    assert len(found) == 2


def test_a_plane_that_is_not_narrow_has_a_middle_between_the_cells_that_are_left(monkeypatch):
    """A cell that is left out lies so far away that with it the plane would have none."""
    with_reach(monkeypatch, NARROW=-1)
    x, where = drawn(1, 9, 11, share=0.8)
    x[~where] = 1e30
    check_smooth(SmoothParams(Sliding((2, 2), 2), 1.0, where=Mask(where)), x + np.float32(600) * where)


def test_an_array_that_is_cut_has_the_bits_of_a_whole_one(monkeypatch):
    """A large array whose cells are not in a row is copied block by block."""
    x, mask = np.random.default_rng(3).standard_normal((2, 3, 17, 4)) * 9, np.array([True, False, True, True])
    stepped = np.repeat(x, 2, axis=-1)[..., ::2]
    whole = wg.smooth_max_pool2d(x, 4, beta=-3, where=mask)
    monkeypatch.setattr(blocks, "COPIED", 0)
    monkeypatch.setattr(blocks, "CELLS", 1)
    monkeypatch.setattr(dispatch, "READY", False)
    blocks.cut_up.cache_clear()
    cut = blocks.blocks(Sliding((4, 4), 4), stepped, stepped.dtype, in_place=False, fixed=True)
    found = wg.smooth_max_pool2d(stepped, 4, beta=-3, where=mask)
    blocks.cut_up.cache_clear()
    assert cut is not None
    assert cut.count > 1
    assert found.tobytes() == whole.tobytes()
