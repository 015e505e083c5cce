"""Windows of two or three columns two cells apart, in registers: the bits of rows in a buffer, in memory of just its size."""

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool import blocks, second_rows
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.max import second as max_second
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.mean import entry as mean_entry
from windowgrad.kernels.pool.mean import second as mean_second
from windowgrad.kernels.pool.mean.rows import mean_rows_for
from windowgrad.kernels.pool.row_pieces import CELLS
from windowgrad.kernels.pool.second_rows import MANY, is_second
from windowgrad.kernels.runtime import threads
from windowgrad.params import MaxParams, MeanParams

WIDTHS = (*range(2, 36), 63, 64, 65, 66, 97)
GEOMETRIES = [
    Sliding((3,), 2, 1),
    Sliding((2,), 2),
    Sliding((3,), 2, ((0, 2),), ceil_mode=True),
    Sliding((2,), 2, 3),  # windows without a cell
    Sliding((2, 3), 2, 1),
    Sliding((3, 2), (1, 2), (1, 1)),
    Sliding((4, 3), (1, 2), (3, 1)),
    Sliding((3, 3), 2, (5, 1)),  # rows of windows without a cell
]


def numbers(shape, dtype):
    """Four planes: zeros of both signs, with NaN and infinities, sums that overflow, and NaN at both ends."""
    rng = np.random.default_rng(shape[-1])
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.4], x[rng.random(shape) < 0.2] = -0.0, 0.0
    flat = x.reshape(4, -1)
    flat[1, ::7], flat[1, ::5], flat[2], flat[3, 0], flat[3, -1] = np.nan, np.inf, np.finfo(dtype).max, np.nan, np.nan
    return x


def calls(geometry):
    means = [MeanParams(geometry), MeanParams(geometry, count_include_pad=False), MeanParams(geometry, divisor_override=3)]
    return [(max_entry.max_forward, MaxParams(geometry))] + [(mean_entry.mean_forward, params) for params in means]


def in_a_buffer(monkeypatch):
    monkeypatch.setattr(max_second, "is_second", lambda p: False)
    monkeypatch.setattr(mean_second, "is_second", lambda p: False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_rows_in_registers_have_the_bits_of_rows_in_a_buffer(geometry, dtype, monkeypatch):
    """Also where a row has fewer cells than a vector."""
    monkeypatch.setattr(second_rows, "MANY", 1)
    for entry, short in ((mean_entry, "has_short_means"), (max_entry, "has_short_rows")):
        monkeypatch.setattr(entry, "takes_lanes", lambda *_: False)
        monkeypatch.setattr(entry, short, lambda *_: False)
    arrays = [numbers((2, 2, *(5, width)[-geometry.rank :]), dtype) for width in WIDTHS]
    found = []
    with exact_memory():
        for x in arrays:
            assert is_second(planned_for(geometry, x.shape)[0])
            found += [[forward(params, guarded(x, edge)) for forward, params in calls(geometry)] for edge in ("start", "end")]
    in_a_buffer(monkeypatch)
    wanted = [[forward(params, x) for forward, params in calls(geometry)] for x in arrays for _ in range(2)]
    for one, other in zip(found, wanted, strict=True):
        assert all(same_bits(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("width", [2 * CELLS - 1, 2 * CELLS, 2 * CELLS + 77])
def test_pieces_of_a_row_threads_and_neighbours_do_not_change_a_bit(width, monkeypatch):
    x = numbers((1, 4, width), "float32")
    for geometry in (Sliding((3,), 2, 1), Sliding((2,), 2)):
        before, found = threads.get_num_threads(), []
        try:
            for count in (1, 3):
                threads.set_num_threads(count)
                found.append([forward(params, x) for forward, params in calls(geometry)])
        finally:
            threads.set_num_threads(before)
        found.append([np.concatenate([forward(params, x[:, [c]]) for c in range(4)], 1) for forward, params in calls(geometry)])
        with monkeypatch.context() as patch:
            in_a_buffer(patch)
            wanted = [forward(params, x) for forward, params in calls(geometry)]
        assert all(same_bits(a, b) for results in found for a, b in zip(results, wanted, strict=True))


def test_sections_of_a_long_row_have_the_bits_of_rows_in_a_buffer(monkeypatch):
    monkeypatch.setattr(blocks, "TABLES", 5000)
    x, geometry = numbers((4, 20011), "float32"), Sliding((3,), 2, 1)
    assert is_long(geometry, x.shape)
    found = [forward(params, x) for forward, params in calls(geometry)]
    in_a_buffer(monkeypatch)
    assert all(same_bits(a, forward(params, x)) for a, (forward, params) in zip(found, calls(geometry), strict=True))


def test_windows_are_second_if_two_or_three_columns_are_two_cells_apart_in_a_long_row():
    def holds(geometry, *plane):
        return is_second(planned_for(geometry, plane)[0])

    width = 2 * MANY
    assert holds(Sliding((3,), 2, 1), width)
    assert holds(Sliding((4, 2), (1, 2)), 8, width)
    assert not holds(Sliding((3,), 2, 1), width - 2)
    assert not holds(Sliding((1,), 2), width)
    assert not holds(Sliding((4,), 2, 1), width)
    assert not holds(Sliding((3,), 1, 1), width)
    assert not holds(Sliding((3,), 3, 1), 3 * MANY)
    assert not holds(Sliding((3,), 2, 2, 2), width)


def test_floats_alone_are_compared_and_sums_of_float32_alone_are_added_in_registers():
    p = planned_for(Sliding((3,), 2, 1), (2 * MANY,))[0]
    for dtype in map(np.dtype, ("float32", "float64", "uint8", "int64")):
        assert max_second.max_rows_for(p, dtype) is (max_second.max_second if dtype.kind == "f" else max_rows)
    assert mean_second.mean_sums_for(p, mean_entry.NARROW) is mean_second.mean_second
    assert mean_second.mean_sums_for(p, mean_entry.WIDE) is mean_rows_for(p)
