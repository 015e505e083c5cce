"""Input gradients of windows that are nearly as large as a plane: by columns, which are added to the cells they meet."""

import numpy as np
import pytest

from support.conv_ways import case, placed, untouched
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.exact import INPUT
from windowgrad.kernels.conv.gemm import columns
from windowgrad.kernels.conv.gemm.columns import COLUMNS
from windowgrad.kernels.runtime import threads
from windowgrad.params import ConvParams

WINDOWS = {  # window, groups, plane, channels of the output and of the input
    "nearly the plane": (Sliding((5, 5), 1), 1, (7, 7), (64, 3)),
    "the plane": (Sliding((4, 3), 1), 1, (4, 3), (40, 5)),
    "two cells apart": (Sliding((7, 7, 7), 2), 1, (10, 9, 10), (9, 2)),
    "padded": (Sliding((5, 6), (1, 3), ((4, 1), (0, 5)), (1, 2)), 1, (6, 11), (7, 3)),
    "a row": (Sliding((9,), 1, 8), 2, (10,), (6, 4)),
    "cells that no window sees": (Sliding((2, 2), 3), 1, (7, 8), (5, 4)),
    "some outputs see padding only": (Sliding((2,), 1, 5), 1, (3,), (5, 4)),
}


def made(name, dtype=np.float32, images=3, cells=None):
    window, groups, plane, (outs, ins) = WINDOWS[name]
    return case(
        ConvParams(window, groups), (images, ins, *plane), (outs, ins // groups, *window.kernel), dtype,
        np.random.default_rng(0), cells,
    )  # fmt: skip


def summed(given, dtype):
    out = placed(np.full(given.arrays[INPUT].size, np.nan, dtype))
    strange = COLUMNS.compute(given.conv.told(INPUT), *given.operands(INPUT), given.bias[INPUT], out, False)
    assert all(map(untouched, (out, *given.operands(INPUT))))
    return out, strange


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_added_to_the_cells_they_meet(name, dtype):
    given = made(name, dtype)
    assert (summed(given, dtype)[0] == given.with_bias(INPUT, given.exact(INPUT))).all()


@pytest.mark.parametrize("name", WINDOWS)
def test_neither_threads_nor_what_is_computed_together_change_a_bit(name, monkeypatch):
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    given = made(name, cells=np.random.default_rng(1).standard_normal)
    monkeypatch.setattr(threads, "chosen", 1)
    expected, strange = summed(given, np.float32)
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "chosen", count)
        for at_once in (1, 2 * columns.columns_of(given.conv.told(INPUT)), columns.AT_ONCE):
            monkeypatch.setattr(columns, "AT_ONCE", at_once)
            out, found = summed(given, np.float32)
            assert out.tobytes() == expected.tobytes()
            assert bool(found) == bool(strange)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_prepared_call_has_the_same_bits(name, dtype, monkeypatch):
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    given = made(name, dtype, cells=np.random.default_rng(2).standard_normal)
    one, (expected, strange) = given.conv.told(INPUT), summed(given, dtype)
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "chosen", count)
        ready = COLUMNS.ready(one, np.dtype(dtype))
        for _ in range(2):
            out = placed(np.full(expected.size, np.nan, dtype))
            found = ready(*given.operands(INPUT), given.bias[INPUT], out)
            assert all(map(untouched, (out, *given.operands(INPUT))))
            assert out.tobytes() == expected.tobytes()
            assert bool(found) == bool(strange)
    monkeypatch.setattr(columns, "AT_ONCE", one.images * columns.columns_of(one) - 1)
    assert COLUMNS.ready(one, np.dtype(dtype)) is None


def test_sums_are_added_to_what_is_there():
    given = made("two cells apart")
    expected = given.exact(INPUT)
    out = np.ones(expected.size, np.float32)
    COLUMNS.compute(given.conv.told(INPUT), *given.operands(INPUT), np.zeros(2, np.float32), out, True)
    assert (out == expected + 1).all()


@pytest.mark.parametrize(
    ("window", "plane", "outs", "chosen"),
    [
        (Sliding((5, 5), 1), (7, 7), 96, "columns"),
        (Sliding((5, 5), 1, 2), (7, 7), 96, "products"),  # as many outputs as cells
        (Sliding((5, 5), 1), (7, 7), 8, "products"),  # too few products for each column
        (Sliding((5, 5), 1), (56, 56), 96, "products"),
        (Sliding((7, 7, 7), 2), (10, 10, 10), 96, "columns"),
    ],
)
def test_columns_are_chosen_where_most_products_would_be_with_nothing(window, plane, outs, chosen):
    for images in (1, 5):
        given = case(ConvParams(window), (images, 16, *plane), (outs, 16, *window.kernel), np.float32, np.random.default_rng(0))
        assert given.conv.chosen(INPUT, 4)[0].name == chosen


def test_columns_have_a_limit():
    def may(window, plane, outs, ins):
        given = ConvParams(window), (1, ins, *plane), (outs, ins, *window.kernel)
        return COLUMNS.holds(case(*given, np.float32, np.random.default_rng(0)).conv.told(INPUT), 4)

    assert may(Sliding((columns.MOST_ROWS, 1), 1), (columns.MOST_ROWS, 1), 1, 1)
    assert not may(Sliding((columns.MOST_ROWS + 1, 1), 1), (columns.MOST_ROWS + 1, 1), 1, 1)
    assert may(Sliding((1024,), 1), (2047,), 1, 16)
    assert not may(Sliding((1024,), 1), (2048,), 1, 16)
