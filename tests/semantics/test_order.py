"""Cells that are neither greater, less nor equal: their own maximum if they offer one, and no winner among them."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import windowgrad as wg
from support.interval import Interval, Joined
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, MaxParams, MeanParams, SmoothParams
from windowgrad.spec import logsumexp, maximum, mean, order, selection
from windowgrad.spec.scalar import Window

LOW, MIDDLE, HIGH, OVER = (0, 1), (2, 4), (6, 7), (3, 5)  # in order, but for the last, which meets the second


def row(kind, *ends):
    x = np.empty(len(ends), dtype=object)
    x[:] = [kind(*end) for end in ends]
    return x


@pytest.mark.parametrize("kind", [Interval, Joined])
@pytest.mark.parametrize(
    "cells", [(LOW, MIDDLE), (MIDDLE, LOW), (OVER, MIDDLE, HIGH), (HIGH, MIDDLE, OVER), (MIDDLE, HIGH, OVER)]
)
def test_a_cell_that_is_greater_than_all_others_wins_though_those_have_no_order(kind, cells):
    x = row(kind, *cells)
    place = cells.index(max(cells))
    y, index = wg.max_pool1d(x, len(x), return_indices=True)
    assert (y.tolist(), index.tolist()) == ([kind(*max(cells))], [place])
    (gx,) = OPS["max_pool"].vjp(MaxParams(Global(1)), x, row(kind, (1, 2)))
    assert [g != 0 for g in gx] == [i == place for i in range(len(x))]


@pytest.mark.parametrize("cells", [(MIDDLE, OVER), (OVER, MIDDLE), (LOW, MIDDLE, OVER), (OVER, LOW, MIDDLE)])
def test_a_maximum_of_their_own_gives_the_value(cells):
    assert wg.max_pool1d(row(Joined, *cells), len(cells)).tolist() == [Joined(3, 5)]


ASKED = {
    "value": lambda x: wg.max_pool1d(x, len(x)),
    "indices": lambda x: wg.max_pool1d(x, len(x), return_indices=True),
    **{
        f"{rule}, {ties}": lambda x, rule=rule, ties=ties: getattr(OPS["max_pool"], rule)(
            MaxParams(Global(1), ties), x, x if rule == "jvp" else x[:1]
        )
        for rule, ties in itertools.product(("jvp", "vjp"), TIES)
    },
    "smooth maximum": lambda x: wg.smooth_max_pool1d(x, len(x), beta=1),
    "smooth minimum": lambda x: wg.smooth_max_pool1d(x, len(x), beta=-1),
    "log_softmax": wg.log_softmax,
    "softmax": wg.softmax,
    "maximum": lambda x: wg.maximum(x[:-1], x[1:]),
    "relu": lambda x: wg.relu(x - Fraction(7, 2)),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("cells", [(MIDDLE, OVER), (OVER, MIDDLE), (MIDDLE, OVER, (3, 4))])
def test_cells_without_order_are_refused_and_never_decided_by_their_place(asked, cells):
    with pytest.raises(wg.KindError, match="neither is greater than, less than or equal to the other"):
        ASKED[asked](row(Interval, *cells))


@pytest.mark.parametrize("asked", [name for name in ASKED if name[0] in "ijv" and name != "value"])
def test_a_maximum_of_their_own_has_no_winner(asked):
    with pytest.raises(wg.KindError, match="indices and derivatives need a winner"):
        ASKED[asked](row(Joined, MIDDLE, OVER))


def test_relu_of_an_interval_around_zero_is_its_own_maximum_and_has_no_derivative():
    x = row(Joined, (-1, 2), (1, 2), (-2, -1))
    assert wg.relu(x).tolist() == [Joined(0, 2), Joined(1, 2), Joined(0)]
    with pytest.raises(wg.KindError, match="neither is greater"):
        wg.jvp(wg.relu, (x,), (x,))


def test_equal_cells_tie_and_the_first_wins():
    x = row(Interval, MIDDLE, LOW, MIDDLE)
    assert wg.max_pool1d(x, 3, return_indices=True)[1].tolist() == [0]
    (gx,) = OPS["max_pool"].vjp(MaxParams(Global(1), "all"), x, row(Interval, (1, 1)))
    assert gx.tolist() == [Interval(1), Interval(0), Interval(1)]


def test_mpmaths_intervals_are_a_partial_order():
    """Their comparisons are None where intervals overlap."""
    x = np.empty(2, dtype=object)
    x[:] = [mpmath.iv.mpf([0, 1]), mpmath.iv.mpf([0.5, 2])]
    with pytest.raises(wg.KindError, match="neither is greater"):
        wg.max_pool1d(x, 2)
    x[1] = mpmath.iv.mpf([2, 3])
    assert wg.max_pool1d(x, 2).tolist() == [x[1]]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2.0),
        (math.nan, 1.0),
        (Decimal("NaN"), Decimal(1)),
        (-0.0, 0.0),
        (np.float32(1), Fraction(1)),
        (mpmath.mpf(1), mpmath.mpf("nan")),
        (wg.Dual(1, 2), wg.Dual(1, 3)),
        (wg.Dual(wg.Dual(1, 2), 0), wg.Dual(wg.Dual(1, 5), 4)),
    ],
)
def test_numbers_are_totally_ordered(a, b):
    """Also dual numbers whose values are equal and whose tangents are not: they tie."""
    assert order.ordered(a, b)
    assert order.ordered(b, a)


def test_a_smooth_maximum_of_intervals_holds_that_of_every_choice():
    class Wide(Joined):
        def exp(self):
            return Wide(below(math.exp(self.low)), above(math.exp(self.high)))

        def log(self):
            return Wide(below(math.log(self.low)), above(math.log(self.high)))

        def max(self, other):
            return Wide(max(self.low, other.low), max(self.high, other.high))

    def below(value):
        return Fraction(math.nextafter(value, -math.inf))

    def above(value):
        return Fraction(math.nextafter(value, math.inf))

    ends = [(0, 1), (Fraction(1, 2), 2), (1, Fraction(3, 2))]
    (y,) = wg.smooth_max_pool1d(row(Wide, *ends), 3, beta=1)
    for chosen in itertools.product(*ends):
        exact = math.log(sum(map(math.exp, chosen)))
        assert y.low <= exact <= y.high


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_cells_in_different_chunks_are_not_decided_by_their_place_either(chunks):
    import dask.array as da

    x = row(Interval, LOW, OVER, MIDDLE)
    with pytest.raises(wg.KindError, match="neither is greater"):
        wg.global_max_pool1d(da.from_array(x, chunks=chunks)).compute(scheduler="synchronous")
    x[1] = Interval(*HIGH)
    assert wg.global_max_pool1d(da.from_array(x, chunks=chunks)).compute(scheduler="synchronous").tolist() == [x[1]]


# --- a window without a cell -------------------------------------------------------------------------------------

NOTHING = Window((0,), [], 0)
X = np.array([Fraction(3), Fraction(4)])


def test_a_window_without_a_cell_has_no_winner_and_the_value_0():
    assert maximum.winner(X, []) is None
    assert selection.winners(X, [], "all", maximum.winner) == []
    assert maximum.value(X, []) == 0
    assert type(maximum.value(X, [])) is Fraction


@pytest.mark.parametrize("counted", [True, False])
def test_a_mean_and_a_smooth_maximum_of_nothing_are_0(counted):
    params = MeanParams(Sliding((2,)), counted)
    assert mean.value(params, X, NOTHING) == 0
    assert mean.divisor(params, NOTHING) == 1
    smooth = SmoothParams(Sliding((2,)), 1, counted)
    assert logsumexp.weigh(smooth, X, NOTHING) == (0, [], 0)
    assert logsumexp.value(smooth, X, NOTHING) == 0
    assert type(logsumexp.value(smooth, X, NOTHING)) is Fraction


def test_padded_zeros_alone_are_a_window_of_a_mean_and_of_a_smooth_maximum():
    padding = Window((0,), [], 2)
    assert mean.value(MeanParams(Sliding((2,))), X, padding) == 0
    assert logsumexp.value(SmoothParams(Sliding((2,)), 2.0), X.astype(float), padding) == math.log(2) / 2


# --- beta --------------------------------------------------------------------------------------------------------


def test_a_dual_beta_is_for_arrays_of_objects():
    """There it has the derivative in beta; beside machine numbers the error says so."""
    x, beta = np.array([1.0, 2.0]), wg.Dual(1.5, 1.0)
    with pytest.raises(wg.KindError) as caught:
        wg.smooth_max_pool1d(x, 2, beta=beta)
    assert str(caught.value) == (
        "beta=Dual(1.5, 1.0): must be a plain real number for numeric arrays, not Dual; use x.astype(object) to compute with it"
        " [smooth_max_pool1d(x: float64(2,), kernel_size=2, beta=Dual(1.5, 1.0))]"
    )
    (y,) = wg.smooth_max_pool1d(x.astype(object), 2, beta=beta)

    def at(b):
        return math.log(sum(math.exp(b * v) for v in x)) / b

    assert y.value == pytest.approx(at(1.5), rel=1e-12)
    assert y.tangent == pytest.approx((at(1.5 + 1e-6) - at(1.5 - 1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("beta", [wg.Dual(0.0, 1.0), wg.Dual(wg.Dual(0, 1), 1), Interval(-1, 1)], ids=repr)
def test_a_beta_that_may_be_zero_is_refused(beta):
    with pytest.raises(wg.OptionError, match="must not be zero"):
        SmoothParams(Sliding((2,)), beta)
