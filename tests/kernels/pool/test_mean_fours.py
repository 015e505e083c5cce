"""Means of large windows, four output rows at once: the bits of one after the other where sums are exact, else the bound."""

from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.mean import many_rows
from windowgrad.kernels.pool.mean.entry import averaged_by_axes
from windowgrad.kernels.pool.mean.many_fours import goes_by_fours
from windowgrad.params import MeanParams

WINDOWS = [  # geometry, plane
    *((Sliding((k, 3), 1, (k // 2, 1)), (k + 30, 40)) for k in (*range(13, 24), 34, 35, 66, 67, 127, 128)),
    *((Sliding((15, k), 1, (7, k // 2)), (20, 150)) for k in (*range(1, 18), 31, 33, 47, 63, 64, 65, 79, 95, 112, 127, 128)),
    (Sliding((64, 64), 1, 32), (70, 40)),
    (Sliding((13, 20), 1, ((12, 0), (0, 19))), (14, 1200)),  # more than one stretch of a row
    (Sliding((13, 5), 1, (40, 30)), (10, 33)),  # windows without a cell at all sides
    (Sliding((13, 3), 1, (0, 1)), (13, 17)),  # one output row
    (Sliding((13, 3), 1, 1), (20, 9)),  # rows that are shorter than a vector
    (Sliding((13, 3), 1, (0, 300)), (20, 5)),  # and pieces of nothing but padding
]


def by_axes(geometry, x, **options):
    return averaged_by_axes(MeanParams(geometry, **options), x, np.dtype(np.float32), None)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("geometry", "plane"), WINDOWS, ids=str)
def test_four_rows_at_once_have_the_bits_of_one_after_the_other_where_sums_are_exact(geometry, plane, counted, monkeypatch):
    assert goes_by_fours(geometry)
    monkeypatch.setattr("windowgrad.kernels.pool.axis_passes.KEPT", 1)  # pieces of rows
    x = np.random.default_rng(0).integers(-9, 10, (2, *plane)).astype(np.float32)
    with exact_memory():
        found = [by_axes(geometry, guarded(x, edge), count_include_pad=counted) for edge in ("start", "end")]
    monkeypatch.setattr(many_rows, "goes_by_fours", lambda geometry: False)
    expected = by_axes(geometry, x, count_include_pad=counted)
    assert all(same_bits(y, expected) for y in found)


def test_windows_go_by_fours_where_that_keeps_the_error():
    def goes(*window):
        return goes_by_fours(Sliding(*window))

    assert goes((11, 1), 1)
    assert not goes((10, 1), 1)
    assert goes((128, 64), 1)  # 15 roundings
    assert not goes((128, 65), 1)
    assert goes((70, 128), 1)
    assert not goes((71, 128), 1)
    assert not goes((129, 2), 1)
    assert not goes((13, 129), 1)
    assert not goes((64, 64), (1, 2))
    assert not goes((64, 64), (2, 1))
    assert not goes((64, 64), 1, 0, (1, 2))
    assert not goes((14, 14, 14), 1)


HARD = {
    "of one size": lambda rng, shape: 1 + rng.integers(-128, 128, shape) / 9e5,
    "of mixed size": lambda rng, shape: rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape),
    "falling": lambda rng, shape: 1e30 * 0.7 ** np.add.outer(np.arange(shape[0]), np.arange(shape[1])),
    "rising": lambda rng, shape: 1e-30 / 0.7 ** np.add.outer(np.arange(shape[0]), np.arange(shape[1])),
    "denormal": lambda rng, shape: rng.integers(-1000, 1000, shape) * 1.4e-45,
}


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("kernel", [(64, 64), (128, 64), (70, 128), (13, 15)], ids=str)
def test_they_are_within_the_bound(kernel, kind):
    shape = tuple(k + 6 for k in kernel)
    x = HARD[kind](np.random.default_rng(3), shape).astype(np.float32)
    y, (up, left) = wg.avg_pool2d(x, kernel, 1, tuple(k // 2 for k in kernel)), (k // 2 for k in kernel)
    for i, j in ((0, 0), (1, 2), (up, left), (up + 1, left + 3), (up + 2, left), (up + 3, left + 1), y.shape):
        i, j = min(i, y.shape[0] - 1), min(j, y.shape[1] - 1)
        window = x[max(i - up, 0) : i - up + kernel[0], max(j - left, 0) : j - left + kernel[1]]
        cells, size = [Fraction(float(cell)) for cell in window.flat], kernel[0] * kernel[1]
        bound = min(len(cells), 16) * Fraction(1, 2**24) * sum(map(abs, cells)) / size + Fraction(1, 2**150)
        assert abs(Fraction(float(y[i, j])) - sum(cells) / size) <= bound


def test_what_is_not_finite_stays_in_its_windows():
    x = np.ones((2, 60, 80), np.float32)
    x[0, 20, 30], x[0, 50, 70], x[1, 40, 40] = np.nan, np.inf, -np.inf
    y, whole = wg.avg_pool2d(x, 16, 1), np.ones((2, 45, 65), np.float32)
    whole[0, 5:21, 15:31], whole[0, 35:, 55:], whole[1, 25:41, 25:41] = np.nan, np.inf, -np.inf
    assert same_bits(y, whole)


def test_a_sum_of_negative_zeros_is_a_zero():
    y = wg.avg_pool2d(np.full((40, 70), -0.0, np.float32), (16, 17), 1)
    assert same_bits(y, np.zeros_like(y))


@pytest.mark.parametrize("kernel", [13, 14, 15, 16])
def test_threads_pieces_and_neighbours_change_no_bit(kernel, monkeypatch):
    """Shares begin at multiples of the window, which are no multiples of four."""
    monkeypatch.setattr("windowgrad.kernels.runtime.threads.LEAST_WORK", 1)
    x = np.random.default_rng(2).standard_normal((3, 90, 300)).astype(np.float32)
    expected = wg.avg_pool2d(x[1], kernel, 1, 6)
    for threads, kept in ((1, 1 << 20), (2, 1), (3, 1 << 20)):
        monkeypatch.setattr("windowgrad.kernels.pool.axis_passes.KEPT", kept)
        wg.set_num_threads(threads)
        assert same_bits(wg.avg_pool2d(x, kernel, 1, 6)[1], expected)
