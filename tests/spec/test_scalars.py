"""Any scalar will do: floats, decimals, fractions, integers, mpmath's numbers, NumPy's, dual numbers, one of your own."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import windowgrad as wg
from windowgrad import spec
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams, SmoothParams
from windowgrad.spec import scalar
from windowgrad.spec.sums import added


class Clock:
    """The least a scalar must be: + − × ÷ with > on its left side, and made from an integer. No ==, no exp, no NaN."""

    def __init__(self, minutes=0):
        self.minutes = Fraction(minutes)

    @staticmethod
    def of(other):
        return other.minutes if isinstance(other, Clock) else Fraction(other)

    def __add__(self, other):
        return Clock(self.minutes + Clock.of(other))

    def __sub__(self, other):
        return Clock(self.minutes - Clock.of(other))

    def __mul__(self, other):
        return Clock(self.minutes * Clock.of(other))

    def __truediv__(self, other):
        return Clock(self.minutes / Clock.of(other))

    def __gt__(self, other):
        return self.minutes > Clock.of(other)


KINDS = {
    "float": float,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "int": int,
    "mpmath.mpf": mpmath.mpf,
    "numpy.float32": np.float32,
    "numpy.float64": np.float64,
    "Dual": lambda n: wg.Dual(Fraction(n), Fraction(1)),
    "Clock": Clock,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def grid(kind, *values):
    out = np.empty(len(values), dtype=object)
    out[:] = [KINDS[kind](value) for value in values]
    return out


def plain(cells):
    """The cells as numbers that compare with Python's."""
    reads = {wg.Dual: lambda c: c.value, Clock: lambda c: c.minutes}
    return [reads.get(type(cell), lambda c: c)(cell) for cell in cells]


def type_of(kind):
    return type(KINDS[kind](1))


# --- exact operators ---------------------------------------------------------------------------------------------


@every_kind
def test_max_pools_any_scalar_and_keeps_its_type(kind):
    """An empty window has the zero of the same type."""
    y = wg.max_pool(grid(kind, -3, 1, 4, 2), (2,), 2, ((4, 0),))
    assert plain(y) == [0, 0, 1, 4]
    assert {type(cell) for cell in y} == {type_of(kind)}


@every_kind
def test_mean_of_any_scalar(kind):
    """Powers of two, so that every kind is exact. Integers divide exactly: they become fractions."""
    y = wg.avg_pool(grid(kind, 1, 2, 4, 8), (2,))
    assert plain(y) == [1.5, 6]
    assert {type(cell) for cell in y} == {Fraction if kind == "int" else type_of(kind)}


@every_kind
def test_convolution_of_any_scalar(kind):
    x, w, bias = grid(kind, 1, 2, 3).reshape(1, 3), grid(kind, 1, -1).reshape(1, 1, 2), grid(kind, 10)
    y = wg.conv(x, w, bias, padding=1)
    assert plain(y[0]) == [9, 9, 9, 13]
    assert {type(cell) for cell in y.flat} == {type_of(kind)}
    assert plain(wg.conv_transpose(x, w)[0]) == [1, 1, 1, -3]


@every_kind
@pytest.mark.parametrize("ties", TIES)
def test_derivatives_over_any_scalar(kind, ties):
    x, dx, g = grid(kind, 3, 3, 1, 2), grid(kind, 2, 4, 6, 8), grid(kind, 2, 4)
    max_pool = MaxParams(Sliding((2,)), ties)
    pushed = {"first": [2, 8], "all": [6, 8], "split": [3, 8]}[ties]
    pulled = {"first": [2, 0, 0, 4], "all": [2, 2, 0, 4], "split": [1, 1, 0, 4]}[ties]
    assert plain(OPS["max_pool"].jvp(max_pool, x, dx)) == pushed
    assert plain(OPS["max_pool"].vjp(max_pool, x, g)[0]) == pulled
    mean = MeanParams(Sliding((2,)))
    assert plain(OPS["avg_pool"].jvp(mean, x, dx)) == [3, 7]
    assert plain(OPS["avg_pool"].vjp(mean, x, g)[0]) == [1, 1, 2, 2]


@every_kind
def test_gradients_of_convolution_over_any_scalar(kind):
    x, w, g = grid(kind, 1, 2, 3).reshape(1, 3), grid(kind, 1, -1).reshape(1, 1, 2), grid(kind, 1, 5).reshape(1, 2)
    gx, gw, gb = OPS["conv"].vjp(ConvParams(Sliding((2,), 1)), x, w, grid(kind, 7), g)
    assert (plain(gx[0]), plain(gw[0, 0]), plain(gb)) == ([1, 4, -5], [11, 17], [6])


def test_integers_of_any_size_are_exact():
    big = 10**40
    x = np.array([big, big + 1, -big], dtype=object)
    assert wg.max_pool(x, (3,)).tolist() == [big + 1]
    assert wg.avg_pool(x, (3,)).tolist() == [Fraction(big + 1, 3)]
    assert wg.conv(x.reshape(1, 3), x.reshape(1, 1, 3)).tolist() == [[big**2 * 2 + (big + 1) ** 2]]


def test_numpy_integers_in_an_object_array_divide_exactly_too():
    x = np.empty(2, dtype=object)
    x[:] = [np.int64(3), np.int64(4)]
    assert wg.avg_pool(x, (2,)).tolist() == [Fraction(7, 2)]


# --- order -------------------------------------------------------------------------------------------------------


def test_a_decimal_nan_is_the_greatest():
    x = np.array([Decimal(1), Decimal("NaN"), Decimal("Infinity"), Decimal(5)])
    y, index = wg.max_pool(x, (2,), 1, return_indices=True)
    assert [str(cell) for cell in y] == ["NaN", "NaN", "Infinity"]
    assert index.tolist() == [1, 1, 2]


@pytest.mark.parametrize("ties", TIES)
def test_decimals_that_are_equal_tie_however_they_are_written(ties):
    """1, 1.0 and 1.00 are one number, −0 and 0 too."""
    x = np.array([Decimal("1.0"), Decimal("1"), Decimal("1.00"), Decimal("-0"), Decimal("0"), Decimal("-1")])
    y, index = wg.max_pool(x, (3,), return_indices=True)
    assert [str(cell) for cell in y] == ["1.0", "-0"]
    assert index.tolist() == [0, 3]
    (gx,) = OPS["max_pool"].vjp(MaxParams(Sliding((3,)), ties), x, np.array([Decimal(3), Decimal(2)]))
    expected = {"first": [3, 0, 0, 2, 0, 0], "all": [3, 3, 3, 2, 2, 0], "split": [1, 1, 1, 1, 1, 0]}
    assert gx.tolist() == expected[ties]


@pytest.mark.parametrize(
    "nan", [math.nan, np.float32("nan"), Decimal("NaN"), mpmath.mpf("nan"), wg.Dual(math.nan, 1.0)], ids=repr
)
def test_nan_of_every_kind_is_greater_than_numbers_and_ties_with_nan(nan):
    one = type(nan)(1)
    assert scalar.is_nan(nan)
    assert not scalar.is_nan(one)
    assert scalar.greater(nan, one)
    assert not scalar.greater(one, nan)
    assert not scalar.greater(nan, nan)


# --- exp and log -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one", [1.0, np.float32(1), np.float64(1), Decimal(1), mpmath.mpf(1), mpmath.mpf(2), wg.Dual(1.0, 0.0)], ids=repr
)
def test_exp_and_log_are_found_by_type(one):
    """Each in its own arithmetic: the result has the type of the argument."""
    up, down = scalar.exp(one), scalar.log(one)
    assert type(up) is type(down) is type(one)
    value = getattr(one, "value", one)
    assert abs(float(getattr(up, "value", up)) - math.exp(float(value))) < 1e-6
    assert abs(float(getattr(down, "value", down)) - math.log(float(value))) < 1e-6


@pytest.mark.parametrize("kind", ["float", "Decimal", "mpmath.mpf", "numpy.float32", "numpy.float64"])
@pytest.mark.parametrize("counted", [True, False])
def test_smooth_max_over_any_scalar_with_exp_and_log(kind, counted):
    y = wg.smooth_max_pool(grid(kind, 1, 2, 4), (2,), 1, 1, count_include_pad=counted, beta=2)
    pad = 1 if counted else 0
    sums = [math.exp(2) + pad, math.exp(2) + math.exp(4), math.exp(4) + math.exp(8), math.exp(8) + pad]
    assert {type(cell) for cell in y} == {type_of(kind)}
    assert np.allclose([float(cell) for cell in y], [math.log(s) / 2 for s in sums], rtol=1e-6, atol=0)


def test_smooth_max_over_mpmath_has_the_digits_it_is_asked_for():
    with mpmath.workdps(80):
        third = mpmath.mpf(1) / 3
        (y,) = wg.smooth_max_pool(np.array([third, third, third], dtype=object), (3,), beta=3)
        assert mpmath.almosteq(y, third + mpmath.log(3) / 3, rel_eps=mpmath.mpf("1e-78"))


@pytest.mark.parametrize("cell", [Fraction(1, 3), 1], ids=["Fraction", "int"])
def test_a_scalar_without_exp_is_told_what_to_use_instead(cell):
    name = type(cell).__name__
    expected = f"{name} has no exp: smooth max needs float, Decimal, mpmath.mpf or Dual; convert each {name}"
    with pytest.raises(wg.KindError) as caught:
        wg.smooth_max_pool(np.array([cell, cell], dtype=object), (2,), beta=1)
    assert str(caught.value) == f"{expected} [smooth_max_pool(x: object(2,), kernel_size=(2,), beta=1)]"


def test_cells_that_do_not_compute_are_named():
    with pytest.raises(wg.KindError, match="avg_pool: unsupported elements of type str"):
        wg.avg_pool(np.array(["a", "b"], dtype=object), (2,))


@pytest.mark.parametrize("beta", [10**400, Decimal("1e400"), Fraction(10**400)], ids=["int", "Decimal", "Fraction"])
def test_a_finite_beta_beyond_floats_is_finite(beta):
    assert SmoothParams(Sliding((2,)), beta).beta == beta


@pytest.mark.parametrize("beta", [10**400, Decimal("1e400")], ids=["int", "Decimal"])
def test_smooth_max_of_decimals_takes_a_beta_beyond_floats(beta):
    """It is then the maximum, but for log(n)/β."""
    assert wg.smooth_max_pool(np.array([Decimal(1), Decimal(2)]), (2,), beta=beta).tolist() == [2]


def test_numpy_integers_as_objects_do_not_wrap_around():
    x = np.array([np.int8(100), np.int8(101)], dtype=object)
    assert wg.avg_pool1d(x, 2).tolist() == [Fraction(201, 2)]
    assert wg.conv1d(x[None], x[None, None]).tolist() == [[100 * 100 + 101 * 101]]


def test_floats_are_added_one_after_the_other_on_every_python():
    """Python's own `sum` compensates their roundings from 3.12 on, so that the specification must not call it on cells."""
    cells = np.array([1.0, 1e100, 1.0, -1e100], dtype=object)
    assert added(cells, 0.0) == 0.0
    assert wg.avg_pool1d(cells, 4).tolist() == [0.0]
    sums = {path.name for path in Path(spec.__file__).parent.glob("*.py") if re.search(r"\bsum\(", path.read_text("utf-8"))}
    assert sums == {"sharpness_curve.py"}  # of whole arrays
