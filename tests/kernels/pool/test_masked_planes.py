"""Which masked maxima, minima and means are taken plane by plane, and that threads change no bit of them."""

import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.guarded import exact_memory, guarded
from windowgrad import dispatch
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.masked import counts, max_planes, mean_lanes, mean_planes, sums, whole_planes, winners
from windowgrad.kernels.pool.mean import entry as mean_entry
from windowgrad.kernels.runtime import threads
from windowgrad.params import Mask, MaxParams, MeanParams, MinParams
from windowgrad.spec import maximum, mean, minimum

SIDE = 256  # a plane of float32 has LARGEST bytes


def cells(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape) if dtype == np.float16 else np.zeros(shape, dtype)


def takes(module, geometry, x, record=MaxParams):
    return module.is_taken(record(geometry), x.shape, x.dtype)


def test_windows_of_planes_that_fit_in_the_cache_are_taken_by_planes():
    geometry = Sliding((3, 3), 2, 1)
    assert takes(max_planes, geometry, cells(2, SIDE, SIDE))
    assert not takes(max_planes, geometry, cells(2, SIDE, SIDE + 1))
    assert takes(max_planes, geometry, cells(2, SIDE // 2, SIDE, dtype=np.float64))
    assert not takes(max_planes, geometry, cells(2, SIDE // 2, SIDE + 1, dtype=np.float64))
    assert not takes(max_planes, geometry, cells(2, 8, 8, dtype=np.int32))
    assert not takes(max_planes, geometry, cells(0, 8, 8))
    assert takes(max_planes, Adaptive((3, 3)), cells(2, 20, 20))
    assert not takes(max_planes, Global(2), cells(2, 20, 20))


def test_means_are_taken_so_too_if_bytes_hold_the_counts_of_columns():
    bins = Adaptive((1, 3))
    assert takes(mean_planes, bins, cells(2, 255, 9), MeanParams)
    assert not takes(mean_planes, bins, cells(2, 256, 9), MeanParams)
    assert takes(mean_planes, Sliding((3, 3), 2, 1), cells(2, SIDE, SIDE), MeanParams)
    assert not takes(mean_planes, Sliding((3, 3), 2, 1), cells(2, SIDE, SIDE + 1), MeanParams)
    assert not takes(mean_planes, Global(2), cells(2, 20, 20), MeanParams)
    assert not takes(mean_planes, Sliding((2, 2)), cells(2, 8, 8, dtype=np.int32), MeanParams)
    assert not mean_planes.is_taken(MeanParams(Sliding((2, 2)), divisor_override=3), (2, 8, 8), np.dtype(np.float32))


WINDOWS = [
    Sliding((2, 2), 2),
    Sliding((3, 3), 2, 1),
    Sliding((3, 3), 1, 1),
    Sliding((1, 5), 3, (0, 2)),
    Sliding((5, 8), 1, (2, 4)),
    Sliding((2, 3), 1, 1, 2),
    Sliding((2, 9), 2, (1, 4), ceil_mode=True),
    Sliding((16, 17), 5),
    Sliding((32, 8), 1),
    Adaptive((3, 7)),
]
WIDTHS = 17, 31, 32, 33, 64, 71  # rows that fill a vector of bytes, and others


@pytest.mark.parametrize("geometry", WINDOWS, ids=str)
def test_masked_windows_are_those_of_the_meaning_wherever_memory_ends(geometry):
    """Small integers have exact sums: the mean is rounded once. Counts above 255 are among them."""
    for width in WIDTHS:
        rng = np.random.default_rng(width)
        x, where = rng.integers(-9, 10, (3, 33, width)).astype(np.float32), rng.random((3, 33, width)) < 0.7
        where[0, :9, :20] = False
        plain = [MeanParams(geometry, padded, where=Mask(where)) for padded in (False, True)]
        exact = [np.vectorize(Fraction)(mean.forward(params, x.astype(object))).astype(np.float32) for params in plain]
        greatest = maximum.forward(MaxParams(geometry, where=Mask(where)), x.astype(object)).astype(np.float32)
        least = minimum.forward(MinParams(geometry, where=Mask(where)), x.astype(object)).astype(np.float32)
        with exact_memory():
            for edge in ("start", "end"):
                mask, cells = Mask(guarded(where, edge)), guarded(x, edge)
                for params, wanted in zip(plain, exact, strict=True):
                    assert settled(sums.mean_forward(params.masked_by(mask), cells)) == settled(wanted)
                tops = winners.rules("max").forward(MaxParams(geometry, where=mask), cells)
                assert settled(tops) == settled(greatest)
                assert settled(winners.rules("min").forward(MinParams(geometry, where=mask), cells)) == settled(least)


SMALL = [
    *WINDOWS[:3],
    Sliding((2, 3), 1, 1, 2),
    Sliding((1, 1)),
    Sliding((3, 3), 3),
    Adaptive((4, 3)),
    Sliding((2, 2), 2, 2, ceil_mode=True),
    Sliding((4, 7), 2, (2, 3)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", SMALL, ids=str)
def test_masked_means_of_small_planes_are_those_of_the_meaning_wherever_memory_ends(geometry, dtype):
    """Several planes at once, and some of those before with the last ones, which do not fill a vector."""
    for planes, width in ((8, 9), (11, 28), (17, 32)):
        rng = np.random.default_rng(width)
        x, where = rng.integers(-9, 10, (planes, 11, width)).astype(dtype), rng.random((planes, 11, width)) < 0.5
        x[~where] = rng.choice([np.nan, np.inf, 3e38], np.count_nonzero(~where))
        for mask in (where, where[0]):
            for padded in (False, True):
                params, cells = MeanParams(geometry, padded, where=Mask(mask)), np.where(where, x, 0) if mask.ndim == 2 else x
                assert mean_lanes.is_taken(params.plain, x.shape, x.dtype)
                wanted = np.vectorize(Fraction)(mean.forward(params, np.where(mask, cells, 0).astype(object))).astype(dtype)
                with exact_memory():
                    for edge in ("start", "end"):
                        there = params.masked_by(Mask(guarded(mask, edge)))
                        assert settled(sums.mean_forward(there, guarded(cells, edge))) == settled(wanted)


@pytest.mark.parametrize("geometry", SMALL, ids=str)
def test_masked_means_of_small_planes_have_the_bits_of_rows(geometry):
    rng = np.random.default_rng(9)
    x, where = rng.standard_normal((11, 12, 21)).astype(np.float32), rng.random((11, 12, 21)) < 0.6
    kinds = (x.shape, x.dtype), (where.shape, where.dtype)
    found, wanted = (module.averaging(MeanParams(geometry), *kinds)(x, where) for module in (mean_lanes, mean_planes))
    assert settled(found) == settled(wanted)


@pytest.mark.parametrize("shape", [(5, 1, 9, 14), (1, 7, 9, 14), (1, 1, 9, 14)], ids=str)
def test_small_planes_with_one_mask_have_the_means_of_planes_with_equal_masks(shape):
    """Planes that are taken at once have some masks of those before them, all, or none."""
    rng = np.random.default_rng(8)
    x, where = rng.standard_normal((5, 7, 9, 14)).astype(np.float32), rng.random(shape) < 0.5
    each = np.ascontiguousarray(np.broadcast_to(where, x.shape))
    found, wanted = (sums.mean_forward(MeanParams(Sliding((2, 2), 2), where=Mask(mask)), x) for mask in (where, each))
    assert settled(found) == settled(wanted)


def test_means_of_small_planes_are_taken_several_at_once_if_bytes_hold_the_counts():
    windows = Sliding((3, 3), 2, 1)
    for geometry, shape, taken in [
        (windows, (8, 28, 32), True),
        (windows, (7, 28, 32), False),
        (windows, (8, 28, 33), False),
        (Adaptive((3, 5)), (8, 28, 32), True),
        (Sliding((28, 8), 1), (8, 28, 32), True),
        (Sliding((32, 8), 1), (8, 32, 32), False),
    ]:
        assert mean_lanes.is_taken(MeanParams(geometry), shape, np.dtype(np.float32)) == taken, (geometry, shape)
    assert mean_lanes.is_taken(MeanParams(windows), (4, 28, 32), np.dtype(np.float64))


def test_a_mean_of_small_planes_that_overflows_changes_no_other():
    rng = np.random.default_rng(6)
    x, where = rng.standard_normal((16, 9, 14)).astype(np.float32), rng.random((16, 9, 14)) < 0.5
    params = MeanParams(Sliding((2, 2), 2), where=Mask(where))
    before = sums.mean_forward(params, x)
    x[3, 2:4, 4:6], where[3, 2:4, 4:6] = 3e38, True
    after = sums.mean_forward(params, x)
    assert after[3, 1, 2] == np.float32(3e38)
    after[3, 1, 2] = before[3, 1, 2]
    assert settled(after) == settled(before)


STRANGE = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("geometry", [*(each for each in WINDOWS if not has_many_rows(each)), Global(2)], ids=str)
@pytest.mark.parametrize("values", [STRANGE, STRANGE[:4], STRANGE[2:6]], ids=["with NaN", "with both zeros", "with infinity"])
def test_cells_that_tie_or_are_not_finite_win_as_the_meaning_says(kind, geometry, values):
    record, meaning = {"max": (MaxParams, maximum), "min": (MinParams, minimum)}[kind]
    rng = np.random.default_rng(3)
    x, where = rng.choice(values, (3, 33, 37)), rng.random((3, 33, 37)) < 0.3
    params = record(geometry, where=Mask(where))
    assert winners.topping(params.plain, (x.shape, x.dtype), (where.shape, where.dtype), least=kind == "min") is not None
    wanted = meaning.forward(params, x.astype(object)).astype(np.float32)
    assert settled(winners.rules(kind).forward(params, x)) == settled(wanted)


def test_masks_are_counted_as_bytes_if_these_hold_the_counts_of_columns():
    windows, bins = Sliding((3, 3), 2, 1), Adaptive((1, 3))
    assert counts.is_counted(windows, (2, 2 * SIDE, 2 * SIDE))  # LARGEST bytes
    assert not counts.is_counted(windows, (2, 2 * SIDE, 2 * SIDE + 1))
    assert counts.is_counted(bins, (2, 255, 9))
    assert not counts.is_counted(bins, (2, 256, 9))
    assert not counts.is_counted(Sliding((40, 40), 1), (2, 64, 64))
    assert not counts.is_counted(windows, (0, 8, 8))


@pytest.mark.parametrize("geometry", [*(each for each in WINDOWS if not has_many_rows(each)), Global(2)], ids=str)
def test_counts_are_exact_wherever_memory_ends_and_whoever_counts(geometry):
    before = threads.get_num_threads()
    for width in WIDTHS:
        where = np.random.default_rng(width).random((90, 33, width)) < 0.7
        wanted = mean_entry.averaged(MeanParams(geometry, True, 1), where, np.dtype(np.float32))
        try:
            for count in (1, 2):
                threads.set_num_threads(count)
                with exact_memory():
                    for edge in ("start", "end"):
                        params = MeanParams(geometry, where=Mask(guarded(where, edge)))
                        assert counts.is_counted(geometry, where.shape)
                        assert settled(counts.left_in(params, where.shape)) == settled(wanted)
        finally:
            threads.set_num_threads(before)


POOLS = [
    *(wg.max_pool2d, wg.min_pool2d, wg.avg_pool2d),
    *(wg.global_max_pool2d, wg.global_min_pool2d, wg.global_avg_pool2d),
]


@pytest.mark.parametrize("shape", [(2, 3, 12, 40), (12, 40), (2, 1, 12, 40), (3, 1, 1), (1, 40), ()], ids=str)
def test_prepared_calls_take_a_new_mask_each_time(shape, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    rng = np.random.default_rng(2)
    x, dx = rng.standard_normal((2, 2, 3, 12, 40)).astype(np.float32)
    for pool in POOLS:
        options = {} if "global" in pool.__name__ else {"kernel_size": 3, "stride": 2, "padding": 1}
        for share in (0.9, 0.3, 0.0):
            where = np.asarray(rng.random(shape) < share)
            forward = pool(x, **options, where=where)
            pushed = wg.jvp(lambda x: pool(x, **options, where=where), (x,), (dx,))[1]  # noqa: B023
            monkeypatch.setattr(dispatch, "READY", False)
            assert settled(forward) == settled(pool(x, **options, where=where))
            assert settled(pushed) == settled(wg.jvp(lambda x: pool(x, **options, where=where), (x,), (dx,))[1])  # noqa: B023
            monkeypatch.setattr(dispatch, "READY", True)
            fixed = where.copy()
            fixed.flags.writeable = False
            assert settled(forward) == settled(pool(x, **options, where=fixed))


def test_masks_of_calls_that_were_made_are_not_kept(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x, where = np.ones((2, 8, 8), np.float32), np.ones((2, 8, 8), bool)
    wg.max_pool2d(x, 2, where=where)
    before = sys.getrefcount(where)
    for _ in range(3):
        wg.max_pool2d(x, 2, where=where)
        wg.avg_pool2d(x, 2, where=where)
    assert sys.getrefcount(where) == before


def test_other_arrays_are_not_taken_for_those_of_a_call_that_was_made(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    rng = np.random.default_rng(7)
    x, where = rng.standard_normal((8, 8, 8)).astype(np.float32), rng.random((8, 8, 8)) < 0.5
    for pool in (wg.max_pool2d, wg.min_pool2d, wg.avg_pool2d, partial(wg.smooth_max_pool2d, beta=2.0)):
        wanted = pool(x, 2, where=where)
        for turned in (x.transpose(2, 1, 0).copy().transpose(2, 1, 0), np.broadcast_to(x, x.shape)):
            assert settled(pool(turned, 2, where=where)) == settled(wanted)
        assert settled(pool(x, 2, where=where.transpose(2, 1, 0).copy().transpose(2, 1, 0))) == settled(wanted)
        assert pool(x, 2, where=where, out=np.empty_like(wanted)) is not wanted
        for wrong in (where.astype(np.uint8), where.astype(object)):
            with pytest.raises(wg.KindError, match="where: must be an array of bool"):
                pool(x, 2, where=wrong)
        with pytest.raises(wg.WindowError, match="must broadcast to"):
            pool(x, 2, where=where[:3])


def test_an_empty_window_is_refused_by_a_prepared_call_too(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x, where = np.ones((2, 8, 8), np.float32), np.ones((2, 8, 8), bool)
    wg.max_pool2d(x, 2, empty="raise", where=where)
    where[1, 2:4, 4:6] = False
    for pool in (wg.max_pool2d, wg.min_pool2d):
        with pytest.raises(wg.WindowError, match=r"the window of output \(1, 1, 2\) has no cell"):
            pool(x, 2, empty="raise", where=where)


def test_bytes_of_a_mask_that_are_neither_0_nor_1_count_once():
    """NumPy lets other bytes be seen as bool."""
    x, where = np.arange(64, dtype=np.float32).reshape(1, 8, 8), np.ones((1, 8, 8), bool)
    odd = np.full((1, 8, 8), 255, np.uint8).view(bool)
    for pool in (wg.max_pool2d, wg.min_pool2d, wg.avg_pool2d):
        assert settled(pool(x, 3, 1, 1, where=odd)) == settled(pool(x, 3, 1, 1, where=where))


def test_cells_that_many_windows_see_are_not():
    assert takes(max_planes, Sliding((8, 8), 1), cells(100, 100))
    assert not takes(max_planes, Sliding((9, 9), 1), cells(100, 100))


def test_whole_planes_are_taken_that_fit_in_the_cache():
    assert takes(whole_planes, Global(2), cells(2, SIDE, SIDE))
    assert not takes(whole_planes, Global(2), cells(2, SIDE, SIDE + 1))
    assert not takes(whole_planes, Global(2), cells(2, 8, 8, dtype=np.float16))
    assert not takes(whole_planes, Adaptive((1, 1)), cells(2, 8, 8))


@pytest.mark.parametrize("geometry", [Sliding((3, 3), 2, 1), Sliding((3, 3), 1, 1), Global(2)], ids=str)
def test_threads_change_no_bit(geometry):
    rng = np.random.default_rng(4)
    x, where = rng.standard_normal((5, 9, 61, 60)).astype(np.float32), Mask(rng.random((5, 9, 61, 60)) < 0.6)
    assert x.nbytes > threads.LEAST_WORK
    found, before = set(), threads.get_num_threads()
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            tops = winners.rules("max").forward(MaxParams(geometry, where=where), x)
            bottoms = winners.rules("min").forward(MinParams(geometry, where=where), x)
            means = sums.mean_forward(MeanParams(geometry, where=where), x)
            found.add((settled(tops), settled(bottoms), settled(means)))
    finally:
        threads.set_num_threads(before)
    assert len(found) == 1
