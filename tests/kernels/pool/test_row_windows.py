"""Windows of many taps along a row, each by itself: exact sums, one order of additions, memory of just its size."""

from fractions import Fraction

import numpy as np
import pytest

from support import oracle
from support.exact import fractions_of, same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool import blocks, row_windows
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.mean import entry
from windowgrad.kernels.pool.mean.row_windows import NEAR
from windowgrad.kernels.pool.row_windows import LEAST_BINS, OVERLAP, nominal, shared_out
from windowgrad.kernels.pool.sections import SomeBins
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.params import MaxParams, MeanParams

CASES = [  # geometry, the cells of a row
    (Sliding((9,), 9), 200),
    (Sliding((10,), 10, 5), 199),
    (Sliding((16,), 2, 8, ceil_mode=True), 75),
    (Sliding((17,), 5, ((3, 40),)), 160),  # windows without a cell
    (Sliding((NEAR,), NEAR // 2), 1000),
    (Sliding((NEAR + 1,), NEAR, 7), 1001),
    (Sliding((131,), 17, 60), 500),
    (Adaptive((3,)), 3 * LEAST_BINS),
    (Adaptive((7,)), 3 * NEAR + 1),
    (Adaptive((4,)), 4 * NEAR + 1),  # of NEAR cells and of more
]
BOUND = 16 * Fraction(1, 2**24)


def shown(case):
    return f"{case[0]} over {case[1]}"


def last_in_memory(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def numbers(shape, dtype):
    """Planes of numbers of several sizes, one with NaN and infinities, one of zeros of both signs, one whose sums overflow."""
    rng = np.random.default_rng(shape[-1])
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
    x[0, 0, ::41], x[0, 0, 5::83], x[0, 1] = np.inf, np.nan, -0.0
    x[0, 1, ::29], x[1, 0] = 0.0, np.finfo(dtype).max / 2
    return x


def divided(geometry):
    return [MeanParams(geometry), MeanParams(geometry, False)] if isinstance(geometry, Sliding) else [MeanParams(geometry)]


@pytest.mark.parametrize("case", CASES, ids=shown)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_taken_alone_have_the_values_of_the_specification(case, dtype):
    geometry, n = case
    assert nominal(geometry, n)
    x = np.random.default_rng(n).integers(-9, 10, (2, 2, n)).astype(dtype)
    for params in divided(geometry):
        y = entry.mean_forward(params, x)
        assert same_bits(y, oracle.mean_forward(params, x.astype(np.float64)).astype(dtype))
    tops = MaxParams(geometry)
    assert same_bits(max_entry.max_forward(tops, x), oracle.max_forward(tops, x).astype(dtype))


@pytest.mark.parametrize("case", CASES, ids=shown)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_maxima_of_several_windows_are_those_of_rows_in_a_buffer(case, dtype, monkeypatch):
    """NaN and zeros of both signs too."""
    geometry, n = case
    x = numbers((2, 2, n), dtype)
    y = max_entry.max_forward(MaxParams(geometry), x)
    monkeypatch.setattr(max_entry, "row_windows_for", lambda *_: 0)
    assert same_bits(y, max_entry.max_forward(MaxParams(geometry), x))


@pytest.mark.parametrize("case", CASES, ids=shown)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_window_has_the_same_bits_in_every_layout_and_batch_and_part_of_a_row(case, dtype, monkeypatch):
    geometry, n = case
    x = numbers((2, 9, n), dtype)
    with np.errstate(all="ignore"):
        for params in divided(geometry):
            y = entry.mean_forward(params, x)
            assert same_bits(entry.mean_forward(params, last_in_memory(x)), y)
            assert same_bits(entry.mean_forward(params, x[1:, 3:4].copy()), y[1:, 3:4])
            with monkeypatch.context() as patch:
                patch.setattr(blocks, "TABLES", 2)
                patch.setattr(blocks, "OUTPUTS", 2)
                patch.setattr(blocks, "SMALL", 0)
                blocks.cut_up.cache_clear()
                assert same_bits(entry.mean_forward(params, x), y)
            blocks.cut_up.cache_clear()


@pytest.mark.parametrize("case", CASES, ids=shown)
def test_means_of_windows_taken_alone_are_within_their_bound(case):
    geometry, n = case
    x = numbers((3, 2, n), "float32")[1:]
    for params in divided(geometry):
        y = entry.mean_forward(params, x)
        exact, size = (oracle.mean_forward(params, values) for values in (fractions_of(x), abs(fractions_of(x))))
        for found, mean, scale in zip(y.flat, exact.flat, size.flat, strict=True):
            assert abs(Fraction(float(found)) - mean) <= BOUND * scale + Fraction(1, 2**150)


@pytest.mark.parametrize("edge", ["start", "end"])
@pytest.mark.parametrize("case", CASES, ids=shown)
def test_no_cell_outside_of_the_arrays_is_read(case, edge):
    geometry, n = case
    x = numbers((2, 3, n), "float32")
    with exact_memory(at=edge), np.errstate(all="ignore"):
        entry.mean_forward(MeanParams(geometry), guarded(x, edge))
        max_entry.max_forward(MaxParams(geometry), guarded(x, edge))


def test_windows_are_taken_alone_where_they_share_few_cells():
    assert nominal(Sliding((DIRECT + 1,), DIRECT), 99) == DIRECT + 1
    assert not nominal(Sliding((DIRECT,), DIRECT), 99)
    assert nominal(Sliding((4 * OVERLAP,), 4), 99)
    assert not nominal(Sliding((4 * OVERLAP + 1,), 4), 99)
    assert not nominal(Sliding((16,), 16, 0, 2), 99)
    assert not nominal(Sliding((16, 16), 16), 99)
    assert nominal(Adaptive((2,)), 2 * LEAST_BINS) == LEAST_BINS
    assert not nominal(Adaptive((2,)), 2 * LEAST_BINS - 1)
    assert not nominal(Adaptive((1,)), 999)
    assert not nominal(Global(1), 999)


def test_a_part_of_a_row_has_the_bins_of_the_whole():
    part = SomeBins((2 * LEAST_BINS,), (2,), (0,), (1,), 1)
    assert nominal(part, LEAST_BINS) == nominal(Adaptive((2,)), 2 * LEAST_BINS)


def test_a_share_has_some_groups_of_windows_or_a_few_long_ones():
    assert [shared_out(taps) for taps in (9, 512, 513, row_windows.CELLS, 10**6)] == [448, 8, 7, 1, 1]
