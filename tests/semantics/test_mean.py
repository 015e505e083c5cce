"""Rule 6: what divides the sum."""

import pytest
from common import MEAN, same

import windowgrad as wg
from windowgrad.geometry import Sliding
from windowgrad.params import MeanParams

# --- 6. Mean -----------------------------------------------------------------------------------------------------

OVERHANG = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}  # on 4 cells: (p) x x, x x x, x (p) overhang


@pytest.mark.parametrize(
    ("options", "divisors"),
    [
        ({}, [3, 3, 2]),
        ({"count_include_pad": False}, [2, 3, 1]),
        ({"divisor_override": 6}, [6, 6, 6]),
        ({"count_include_pad": False, "divisor_override": 6}, [6, 6, 6]),
    ],
    ids=str,
)
def test_the_divisor_counts_the_padded_input_or_real_cells_never_the_overhang_and_the_override_wins(array, options, divisors):
    y = wg.avg_pool1d(array([12, 12, 12, 12]), **OVERHANG, **options)
    assert y.tolist() == [24 / divisors[0], 36 / divisors[1], 12 / divisors[2]]


def test_cells_are_counted_and_not_sides(array):
    x = array([[4, 8], [12, 16]])
    same([wg.avg_pool2d(x, 2, padding=1)], [[1, 2], [3, 4]])
    same([wg.avg_pool2d(x, 2, padding=1, count_include_pad=False)], x.tolist())
    assert wg.avg_pool2d(x, 2, padding=((1, 0), (0, 0)), ceil_mode=True).tolist() == [[3], [14]]


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("override", [None, 5])
def test_a_window_with_no_real_cell_has_mean_zero(array, include, override):
    y = wg.avg_pool1d(array([6, 8]), 2, padding=2, count_include_pad=include, divisor_override=override)
    assert y[[0, 2]].tolist() == [0, 0]
    assert y[1] == array(14) / (override or 2)


def test_a_dilated_window_counts_the_cells_it_sees(array):
    assert wg.avg_pool1d(array([1, 100, 3]), 2, dilation=2).tolist() == [2]
    assert wg.avg_pool1d(array([9]), 3, padding=2, dilation=2).tolist() == [3]


def test_the_divisor_of_a_bin_and_of_a_global_region_is_its_number_of_cells(array):
    x = array([3, 6, 9, 12])
    same([wg.adaptive_avg_pool1d(x, 3), wg.global_avg_pool1d(x)], [4.5, 7.5, 10.5], [7.5])


def test_the_mean_is_its_own_jvp_and_its_vjp_gives_real_cells_the_gradient_over_the_divisor(array):
    window, x, dx = Sliding((3,), 2, 1, ceil_mode=True), array([7, 7, 7, 7]), array([6, 12, 18, 24])
    for params in (MeanParams(window), MeanParams(window, False), MeanParams(window, True, 4)):
        assert MEAN.jvp(params, x, dx).tolist() == MEAN.forward(params, dx).tolist()
    assert MEAN.vjp(MeanParams(window), x, array([6, 12, 24]))[0].tolist() == [2, 6, 4, 16]
    assert MEAN.vjp(MeanParams(window, False), x, array([6, 12, 24]))[0].tolist() == [3, 7, 4, 28]
    assert MEAN.vjp(MeanParams(window, True, 4), x, array([4, 8, 16]))[0].tolist() == [1, 3, 2, 6]
