"""Large windows, four output rows at once, have the bits of one row after the other; what is strange is left to that."""

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.max import many_rows
from windowgrad.kernels.pool.max.entry import max_by_axes
from windowgrad.params import MaxParams

WINDOWS = [  # geometry, plane
    *((Sliding((k, 3), 1, (k // 2, 1)), (23, 40)) for k in range(7, 15)),
    *((Sliding((9, k), 1, (4, k // 2)), (20, 150)) for k in (1, 2, 4, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 128, 129)),
    (Sliding((64, 64), 1, 32), (70, 40)),
    (Sliding((20, 9), (2, 2), (7, 4)), (31, 70)),  # further apart along a row too
    (Sliding((14, 10), (2, 1), 5, (1, 3)), (31, 70)),
    (Sliding((9, 5), 1, (40, 30)), (10, 33)),  # windows without a cell at all sides
    (Sliding((12, 3), 1, (0, 1)), (12, 17)),  # one output row
    (Sliding((9, 3), 1, 1), (12, 9)),  # rows that are shorter than a vector
]


def plain(shape, dtype):
    """No NaN, and no zeros."""
    x = np.random.default_rng(0).integers(1, 100, shape).astype(dtype)
    return np.where(x % 2, x, 255 - x) if x.dtype.kind == "u" else np.where(x % 2, x, -x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize(("geometry", "plane"), WINDOWS, ids=str)
def test_four_rows_at_once_have_the_bits_of_one_after_the_other(geometry, plane, dtype, monkeypatch):
    x = plain((2, *plane), dtype)
    with exact_memory():
        found = [max_by_axes(MaxParams(geometry), guarded(x, edge), None) for edge in ("start", "end")]
    monkeypatch.setattr(many_rows, "goes_by_fours", lambda axis: False)
    expected = max_by_axes(MaxParams(geometry), x, None)
    assert all(same_bits(y, expected) for y in found)


def parts_left(x, geometry, monkeypatch):
    """The strange parts of a call, and how many there are."""
    seen, run = [], many_rows.run

    def watched(task, count, work):
        run(task, count, work)
        if task.func is many_rows.max_fours:
            seen.append(task.args[-1].copy())

    monkeypatch.setattr(many_rows, "run", watched)
    return max_by_axes(MaxParams(geometry), x, None), seen[0]


@pytest.mark.parametrize("row", [0, 1, 8, 9, 17, 38, 39])
@pytest.mark.parametrize("column", [0, 20, 49])
def test_a_nan_or_a_zero_beside_a_negative_one_is_seen_wherever_it_is(row, column, monkeypatch):
    geometry = Sliding((9, 9), 1, 4)
    x = -np.ones((40, 50), np.float32)
    assert not parts_left(x, geometry, monkeypatch)[1].any()
    x[row, column] = np.nan
    y, strange = parts_left(x, geometry, monkeypatch)
    assert strange.all()
    assert np.isnan(y[max(0, row - 4) : row + 5, max(0, column - 4) : column + 5]).all()
    x[row, column] = -0.0
    x[row - (row > 0), column - 1] = 0.0
    assert parts_left(x, geometry, monkeypatch)[1].all()


def test_negative_zeros_below_greater_cells_are_not_strange(monkeypatch):
    x = np.full((40, 50), -0.0, np.float32)
    x[::3, ::3] = 1
    y, strange = parts_left(x, Sliding((9, 9), 1, 4), monkeypatch)
    assert not strange.any()
    assert (y == 1).all()


def test_windows_of_several_rows_go_by_axes_on_wide_and_large_planes():
    def goes(shape, *window):
        return many_rows.goes_by_axes(Sliding(*window), shape)

    assert goes((1 << 11, 128), (7, 7), 1)
    assert not goes(((1 << 11) - 1, 128), (7, 7), 1)
    assert not goes((1 << 12, 127), (7, 7), 1)
    assert not goes((1 << 11, 128), (6, 7), 1)
    assert not goes((1 << 11, 128), (7, 7), (2, 1))
    assert not goes((1 << 11, 128), (7, 7), 1, 0, (2, 1))
    assert not goes((8, 1 << 11, 128), (3, 3, 3), 1)


def test_windows_of_many_rows_go_by_axes_on_planes_that_are_not_small():
    def goes(shape, *window, last=False):
        return many_rows.goes_by_axes(Sliding(*window), shape, last)

    assert goes((32, 32), (13, 13), 1)
    assert not goes((32, 31), (13, 13), 1)
    assert not goes((31, 32), (13, 13), 1)
    assert not goes((32, 32), (12, 13), 1)
    assert not goes((32, 32), (18, 13), 1, last=True)
    assert goes((32, 32), (19, 13), 1, last=True)
    assert goes((65, 3), (65, 1), 1)
    assert not goes((64, 3), (65, 1), 1)
    assert goes((8, 8, 32), (5, 5, 5), 1)
    assert not goes((8, 8, 32), (4, 6, 5), 1)
    assert not goes((8, 8, 32), (6, 6, 5), 1, last=True)


def test_wide_planes_of_any_layout_give_the_same():
    x = np.random.default_rng(1).integers(-9, 9, (4, 300, 300)).astype(np.float32)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
    y = wg.max_pool2d(x, 7, 1, 3)
    assert same_bits(y, wg.max_pool2d(last, 7, 1, 3))
    assert same_bits(y[:, 5:-5, 5:-5], np.lib.stride_tricks.sliding_window_view(x, (7, 7), (1, 2)).max((-1, -2))[:, 2:-2, 2:-2])
