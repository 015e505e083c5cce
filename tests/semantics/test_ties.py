"""Rules 4 and 5: who wins among equals, and NaN."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from common import FLOATS, MAX, TIES, fractions, inf, nan, same
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.params import MaxParams

# --- 4. Ties -----------------------------------------------------------------------------------------------------

TIED = [[2, 2], [1, 2]]


@pytest.mark.parametrize(
    ("ties", "tangent", "gradient"),
    [("first", 1, [[6, 0], [0, 0]]), ("all", 1011, [[6, 6], [0, 6]]), ("split", 337, [[2, 2], [0, 2]])],
)
@pytest.mark.parametrize("region", [Sliding((2, 2)), Adaptive((1, 1)), Global(2)], ids=str)
def test_first_takes_the_first_winner_all_takes_each_split_shares_evenly(array, region, ties, tangent, gradient):
    params, x = MaxParams(region, ties=ties), array(TIED)
    assert MAX.jvp(params, x, array([[1, 10], [100, 1000]])).tolist() == [[tangent]]
    assert MAX.vjp(params, x, array([[6]]))[0].tolist() == gradient


def test_the_first_winner_is_the_first_in_row_major_order(array):
    x = array([[0, 1, 7], [7, 1, 7]])
    assert wg.max_pool2d(x, (2, 3), return_indices=True)[1].tolist() == [[2]]


@pytest.mark.parametrize("ties", TIES)
@given(data=st.data())
def test_jvp_and_vjp_use_the_same_rule_and_are_adjoint(ties, data):
    def cells(size):
        return fractions(data.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size)))

    params, x, dx = MaxParams(Sliding((3,), 2, 1), ties=ties), cells(7), cells(7)
    dy = MAX.jvp(params, x, dx)
    g = cells(len(dy))
    assert (g * dy).sum() == (MAX.vjp(params, x, g)[0] * dx).sum()


def test_neither_the_value_nor_the_indices_depend_on_ties(array):
    for ties in TIES:
        same(wg.max_pool2d(array(TIED), 2, return_indices=True, ties=ties), [[2]], [[0]])


def test_windows_and_bins_default_to_first_and_global_to_all():
    """Told by an array that shows what the public functions ask for."""

    class Asked:
        def __windowgrad__(self, op, rule, params, arrays):
            return params.ties

    windowed = [wg.max_pool(Asked(), (2,)), wg.max_pool2d(Asked(), 2), wg.adaptive_max_pool(Asked(), (2,))]
    assert [*windowed, wg.adaptive_max_pool2d(Asked(), 2)] == ["first"] * 4
    assert [wg.global_max_pool(Asked(), 2), wg.global_max_pool2d(Asked())] == ["all"] * 2


def test_first_is_a_selection_and_not_the_directional_derivative():
    x, dx, t = fractions([0, 0]), fractions([-1, 1]), Fraction(1, 10**6)
    rate = (wg.max_pool1d(x + t * dx, 2) - wg.max_pool1d(x, 2)) / t
    assert rate.tolist() == [1]
    assert MAX.jvp(MaxParams(Sliding((2,)), ties="first"), x, dx).tolist() == [-1]


@pytest.mark.parametrize("ties", TIES)
def test_every_rule_is_the_derivative_where_the_winner_is_unique(ties):
    x, dx, t = fractions([0, 1, 3, 2]), fractions([-5, 7, 11, -13]), Fraction(1, 10**6)
    rate = (wg.max_pool1d(x + t * dx, 2) - wg.max_pool1d(x, 2)) / t
    assert rate.tolist() == MAX.jvp(MaxParams(Sliding((2,)), ties=ties), x, dx).tolist() == [7, 11]


def test_another_rule_for_ties_is_refused():
    with pytest.raises(wg.OptionError, match="ties='last': must be one of 'first', 'all', 'split'"):
        wg.max_pool1d(np.zeros(2), 2, ties="last")


# --- 5. NaN ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, ml_dtypes.bfloat16, object])
def test_nan_is_the_greatest_value_wherever_it_stands(dtype):
    for cells in itertools.permutations([nan, inf, -inf, 1.0]):
        y, index = wg.max_pool1d(np.array(cells, dtype=dtype), 4, return_indices=True)
        assert math.isnan(y[0])
        assert cells[index[0]] is nan


@pytest.mark.parametrize(("ties", "gradient"), [("first", [0, 6, 0, 0]), ("all", [0, 6, 0, 6]), ("split", [0, 3, 0, 3])])
@pytest.mark.parametrize("dtype", [np.float32, object])
def test_ties_among_nan_go_by_the_tie_rule(dtype, ties, gradient):
    params, x = MaxParams(Global(1), ties=ties), np.array([inf, nan, 1.0, nan], dtype=dtype)
    dx = np.array([1.0, 2.0, 4.0, 8.0], dtype=dtype)
    assert MAX.vjp(params, x, np.array([6.0], dtype=dtype))[0].tolist() == gradient
    assert MAX.jvp(params, x, dx).tolist() == [sum(dx * gradient) / 6]


@pytest.mark.parametrize("dtype", [*FLOATS, ml_dtypes.bfloat16, object])
@pytest.mark.parametrize("cells", [(-0.0, 0.0), (0.0, -0.0)])
def test_minus_zero_and_zero_tie_and_the_value_is_the_winners_own(dtype, cells):
    x = np.array(cells, dtype=dtype)
    y, index = wg.max_pool1d(x, 2, return_indices=True)
    assert index.tolist() == [0]
    assert math.copysign(1, y[0]) == math.copysign(1, cells[0])
    assert MAX.vjp(MaxParams(Global(1), ties="all"), x, np.ones(1).astype(dtype))[0].tolist() == [1, 1]


@pytest.mark.parametrize("pool", [wg.avg_pool1d, lambda x, k: wg.smooth_max_pool1d(x, k, beta=3)], ids=["mean", "smooth"])
@pytest.mark.parametrize("dtype", [np.float32, object])
def test_a_nan_makes_its_windows_nan_in_a_mean_and_a_smooth_maximum_and_no_others(pool, dtype):
    y = pool(np.array([1.0, nan, 3.0, 5.0, nan, nan], dtype=dtype), 2)
    assert [math.isnan(v) for v in y] == [True, False, True]
