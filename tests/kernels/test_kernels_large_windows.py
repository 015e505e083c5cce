"""Windows of many rows are computed one axis after the other, and mean what small ones mean."""

from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from windowgrad import dispatch
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.axis_passes import has_many_rows

CASES = [  # kernel, stride, padding, dilation, ceil mode, spatial sizes
    ((14, 3), 1, (2, 1), 1, False, (40, 33)),
    ((64, 64), 1, (32, 32), 1, False, (70, 150)),
    ((20, 1), (2, 1), (5, 0), 1, True, (75, 9)),
    ((13, 5), (1, 3), (3, 0), (4, 2), False, (60, 40)),
    ((33, 40), 1, (40, 50), 1, False, (50, 20)),
    ((5, 5, 4), 1, 2, 1, False, (9, 11, 13)),
    ((17, 2, 2), (2, 1, 2), (3, 0, 1), 1, True, (30, 6, 7)),
    ((300, 2), 1, 0, 1, False, (700, 3)),
]


def windows(x, kernel, stride, padding, dilation, ceil_mode):
    """Of each output the cells of its window that are real, as the geometry says."""
    geometry = Sliding(kernel, stride, padding, dilation, ceil_mode)
    assert has_many_rows(geometry)
    spatial = x.shape[x.ndim - geometry.rank :]
    for o in np.ndindex(*geometry.grid(spatial)):
        sides = []
        for axis, i in enumerate(o):
            t = geometry.table(axis, spatial[axis])
            sides.append(range(int(t.start[i]), int(t.start[i]) + int(t.count[i]) * t.step, t.step))
        yield (..., *o), x[(..., *np.ix_(*sides))], geometry.padded(o, spatial)


def first_winner(cells):
    """The greatest of the last axes in row-major order, NaN before all; 0 of none."""
    flat = cells.reshape(len(cells), -1)
    if flat.shape[1] == 0:
        return np.zeros(len(cells), cells.dtype)
    missing = np.isnan(flat)
    best = np.where(missing.any(axis=1), missing.argmax(axis=1), flat.argmax(axis=1))
    return flat[np.arange(len(flat)), best]


@pytest.fixture(params=[(1 << 21, 1), (40, 1), (1 << 21, 1 << 21)], ids=["whole", "in blocks", "by rows"], autouse=True)
def block(request, monkeypatch):
    """Small planes are compared by rows: here axis by axis too."""
    for name, value in zip(("axis_passes.BLOCK", "max.many_rows.NARROW"), request.param, strict=True):
        monkeypatch.setattr(f"windowgrad.kernels.pool.{name}", value)
    dispatch.route.cache_clear()
    yield
    dispatch.route.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_greatest_cell_of_a_large_window_is_its_first_winner(case, dtype):
    *window, sizes = case
    x = np.random.default_rng(0).integers(-3, 3, (2, *sizes)).astype(dtype)
    if x.dtype.kind == "f":
        x = np.where(x > 0, -x, x)  # many zeros of both signs are the greatest
        x[0, 3, 1], x[1, 5, 2], x[1, 6, 0] = np.nan, np.inf, -np.inf
    y = wg.max_pool(x, *window)
    for o, cells, _ in windows(x, *window):
        assert same_bits(y[o], first_winner(cells))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_mean_of_a_large_window_is_exact_where_its_sum_is(case):
    kernel, stride, padding, dilation, ceil_mode, sizes = case
    x = np.random.default_rng(0).integers(-8, 9, (2, *sizes)).astype(np.float32)
    for counted in (True, False):
        y = wg.avg_pool(x, kernel, stride, padding, ceil_mode, counted, dilation=dilation)
        for o, cells, padded in windows(x, kernel, stride, padding, dilation, ceil_mode):
            divisor = cells[0].size + padded if counted else max(cells[0].size, 1)
            total = cells.reshape(2, -1).astype(np.float64).sum(axis=1)
            assert same_bits(y[o], np.array([np.float32(t / divisor) for t in total]))


def test_the_mean_of_a_large_window_is_within_its_bound():
    x = np.random.default_rng(1).standard_normal((1, 40, 90)).astype(np.float32) * 10.0 ** np.linspace(-6, 6, 90).astype("f4")
    y = wg.avg_pool2d(x, (20, 70), 1)
    for i, j in ((0, 0), (7, 11), (20, 20)):
        cells = [Fraction(float(v)) for v in x[0, i : i + 20, j : j + 70].ravel()]
        bound = 16 * Fraction(1, 2**24) * sum(map(abs, cells)) / len(cells)
        assert abs(Fraction(float(y[0, i, j])) - sum(cells) / len(cells)) <= bound


def test_a_large_sum_beyond_float32_is_added_in_float64():
    x = np.full((30, 40), 3e38, np.float32)
    assert np.array_equal(wg.avg_pool2d(x, (20, 20), 1), np.full((11, 21), np.float32(3e38)))


def test_a_window_of_thousands_of_rows_is_computed():
    """Its buffers are so large that memory used after it was freed would be gone."""
    x = np.random.default_rng(3).integers(0, 2, (3, 2100, 9)).astype(np.float32)
    assert np.array_equal(wg.max_pool3d(x, (2, 2048, 4), 1), np.ones((2, 53, 6)))
    assert np.array_equal(wg.avg_pool3d(np.ones_like(x), (2, 2048, 4), 1), np.ones((2, 53, 6)))


WINDOWS = [((20, 20), 1, 9), ((14, 3), (2, 1), 1), ((5, 4, 6), (2, 1, 1), 2)]


def test_threads_and_blocks_change_no_bit_of_a_large_window(monkeypatch):
    x = np.random.default_rng(2).standard_normal((3, 90, 300)).astype(np.float32)
    monkeypatch.setattr("windowgrad.kernels.runtime.threads.LEAST_WORK", 1)
    expected = None
    for threads, cells in ((1, 1 << 20), (2, 1 << 12), (3, 1)):
        monkeypatch.setattr("windowgrad.kernels.pool.axis_passes.KEPT", cells)
        monkeypatch.setattr("windowgrad.kernels.pool.axis_passes.BLOCK", cells)
        wg.set_num_threads(threads)
        found = [pool(x, *window) for pool in (wg.max_pool, wg.avg_pool) for window in WINDOWS]
        expected = expected or found
        assert all(map(same_bits, found, expected))


@pytest.mark.parametrize("pool", [wg.max_pool2d, wg.avg_pool2d])
def test_an_empty_batch_of_large_windows_is_empty(pool):
    assert pool(np.zeros((0, 3, 40, 40), np.float32), 20, 1).shape == (0, 3, 21, 21)


def test_a_sum_that_overflows_is_added_again_in_its_own_window_only():
    x = np.ones((2, 60, 60), np.float32)
    x[1, :2, :2] = 3e38
    y = wg.avg_pool2d(x, 20, 1)
    assert same_bits(y[0], np.ones((41, 41), np.float32))
    assert y[1, 0, 0] == np.float32((4 * float(np.float32(3e38)) + 396) / 400)
    assert same_bits(y[1, 2:], np.ones((39, 41), np.float32))


def test_a_divisor_that_float32_does_not_hold_divides_in_float64():
    x = np.ones((30, 40), np.float32)
    divisor = (1 << 24) + 1
    assert (wg.avg_pool2d(x, 20, 1, divisor_override=divisor) == np.float32(400 / divisor)).all()


def test_a_gradient_of_few_rows_is_no_matter_of_axes():
    assert not has_many_rows(Sliding((3, 3), 1, 1))
    assert not has_many_rows(Sliding((16, 16), 16))
