"""Means of planes of short rows, a plane at a time: the same bits as row by row, in memory of exactly their size."""

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.mean import entry
from windowgrad.kernels.pool.mean.short_rows import has_short_means, mean_short
from windowgrad.kernels.runtime import threads
from windowgrad.params import MeanParams

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
SHORT = [  # geometry, plane
    (Sliding((2, 2), 2), (7, 16)),
    (Sliding((2, 2), 1, 1), (12, 19)),
    (Sliding((3, 3), 1), (6, 16)),
    (Sliding((3, 3), 2, 1, ceil_mode=True), (8, 24)),
    (Sliding((3, 3), 2, 1), (7, 27)),
    (Sliding((2, 3), 1, (1, 0), (3, 2)), (11, 20)),
    (Sliding((3, 4), (3, 2), ((1, 0), (0, 2)), (1, 3), ceil_mode=True), (11, 21)),
    (Sliding((7, 7), (3, 1), 2), (20, 17)),
    (Sliding((3, 2, 3), 2, 1), (4, 3, 18)),
    (Sliding((3, 2), 1, 4), (3, 16)),  # windows without a cell
    (Sliding((2, 2), 2, 3), (2, 18)),
    (Sliding((1, 2), 1, (0, 3)), (3, 17)),  # of no column
    (Sliding((2, 1), 1, (3, 0)), (3, 17)),  # of no row
    (Sliding((3,), 2), (17,)),
    (Sliding((1, 1), 2), (5, 19)),
    (Sliding((2, 3), 1, (1, 0)), (77, 43)),  # several blocks of rows
    (Sliding((2, 3), 2, (9, 0)), (70, 27)),  # of which some see no row
    (Adaptive((3, 8)), (7, 16)),
]


def plan_of(geometry, *shape):
    return planned_for(geometry, shape)[0]


def numbers(shape, dtype):
    """Planes of numbers of several sizes and zeros of both signs, of −0.0 alone, of sums that overflow, with NaN."""
    rng = np.random.default_rng(len(shape))
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
    x[rng.random(shape) < 0.1] = -0.0
    flat = x.reshape(shape[0], -1)
    flat[1], flat[2, ::3], flat[3, ::11], flat[3, 5::13] = -0.0, np.finfo(dtype).max, np.nan, -np.inf
    return x


def all_params(geometry):
    if isinstance(geometry, Adaptive):
        return [MeanParams(geometry)]
    means = MeanParams(geometry), MeanParams(geometry, count_include_pad=False), MeanParams(geometry, divisor_override=3)
    return list(means)


def row_by_row(monkeypatch):
    for name in ("has_short_means", "takes_lanes", "is_near"):
        monkeypatch.setattr(entry, name, lambda *_: False)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("case", SHORT, ids=lambda case: f"{case[0]} on {case[1]}")
def test_planes_have_the_bits_of_planes_taken_row_by_row(case, dtype, monkeypatch):
    geometry, plane = case
    x = numbers((5, *plane), dtype)
    assert has_short_means(plan_of(geometry, *x.shape), dtype)
    for params in all_params(geometry):
        with monkeypatch.context() as patch:
            row_by_row(patch)
            wanted = entry.mean_forward(params, x)
        assert same_bits(entry.mean_forward(params, np.concatenate([x, x]))[2:7], np.concatenate([wanted, wanted])[2:7])
        monkeypatch.setattr(entry, "takes_lanes", lambda *_: False)
        for at in ("start", "end"):
            with exact_memory():
                y = entry.mean_forward(params, guarded(x, at)).copy()
            assert same_bits(y, wanted)
        assert same_bits(entry.mean_forward(params, x[3:]), wanted[3:])  # no plane knows of another
        monkeypatch.undo()


def test_near_windows_have_the_bits_of_planes_taken_row_by_row(monkeypatch):
    geometry = Sliding((3, 3), 1, 1)
    for width in (16, 17, 56):
        x = numbers((5, 19, width), FLOAT32)
        for params in all_params(geometry):
            found = entry.mean_forward(params, x)
            with monkeypatch.context() as patch:
                row_by_row(patch)
                assert same_bits(found, entry.mean_forward(params, x))


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "uint8", "int64", "bool"])
def test_every_dtype_layout_and_number_of_threads_gives_the_same_bits(name, monkeypatch):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((3, 17, 40, 44)) * 9).astype(name)  # so much that threads share it
    for geometry in (Sliding((2, 2), 1), Sliding((3, 3), 2, 1)):
        params, before, found = MeanParams(geometry, count_include_pad=False), threads.get_num_threads(), []
        try:
            for count in (1, 3):
                threads.set_num_threads(count)
                found.append(entry.mean_forward(params, x))
        finally:
            threads.set_num_threads(before)
        found.append(entry.mean_forward(params, np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)))
        found.append(entry.mean_forward(params, x[:, :, ::-1][:, :, ::-1]))
        with monkeypatch.context() as patch:
            row_by_row(patch)
            wanted = entry.mean_forward(params, x)
        assert all(same_bits(y, wanted) for y in found)


def test_windows_that_overflow_are_summed_again_alone():
    x = np.ones((2, 9, 20), np.float32)
    x[0, 3, :4], x[0, 7, 9] = 3e38, np.inf
    y = entry.mean_forward(MeanParams(Sliding((1, 2), 1)), x)
    wanted = np.ones((2, 9, 19), np.float32)
    wanted[0, 3, :3], wanted[0, 3, 3], wanted[0, 7, 8:10] = 3e38, np.float32((float(np.float32(3e38)) + 1) / 2), np.inf
    assert same_bits(y, wanted)


def test_rows_are_short_between_one_vector_and_some():
    def holds(geometry, *plane, dtype=FLOAT32):
        return has_short_means(plan_of(geometry, *plane), dtype)

    for window, least, most in ((Sliding((2, 2), 1), 16, 96), (Sliding((2, 2), 2), 16, 96)):
        assert not holds(window, 9, least - 1)
        assert holds(window, 9, least)
        assert holds(window, 9, most)
        assert not holds(window, 9, most + 1)
        assert holds(window, 9, most // 2, dtype=FLOAT64)
        assert not holds(window, 9, most // 2 + 1, dtype=FLOAT64)
    near = Sliding((3, 3), 1, 1)
    assert [holds(near, 9, width) for width in (15, 16, 56, 57)] == [False, True, True, False]
    assert not holds(near, 9, 16, dtype=FLOAT64)
    assert not holds(Sliding((2, 3), 3), 9, 20)
    assert not holds(Adaptive((3, 3)), 9, 20)
    assert not holds(Sliding((1, 9), 1), 9, 20)  # nine columns are added as powers of two


def test_planes_are_taken_so_where_vectors_are_filled_and_all_numbers_have_one_dtype():
    def taken(geometry, width, planes=8, zero=entry.NARROW, same=True):
        p = plan_of(geometry, planes, 9, width)
        return entry.over_planes(MeanParams(geometry), p, zero, planes, same)[0]

    for window, widths in (
        (Sliding((2, 2), 1), {16: True, 17: False, 21: False, 22: True, 32: True, 33: True}),
        (Sliding((2, 2), 2), {16: True, 17: False, 21: False, 22: True, 33: True}),
        (Sliding((5, 4), 1), {16: False, 32: False, 33: True}),
    ):
        for width, short in widths.items():
            assert (taken(window, width) is mean_short) == short, (window, width)
            assert taken(window, width, planes=7) is mean_short
            assert taken(window, width, same=False) is not mean_short
    assert taken(Sliding((2, 2), 1), 13, 8, entry.WIDE).__name__ == "mean_lanes"
    assert taken(Sliding((2, 2), 1), 14, 8, entry.WIDE) is mean_short
