"""Scalars that bound and scalars that round: sound intervals, and formats that are NumPy's and ml_dtypes' to the bit."""

import math
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from windowgrad.spec import Interval, Rounded

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
every_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
DTYPES = {
    "binary32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
}
every_format = pytest.mark.parametrize("name", DTYPES)


def same(found, expected):
    """Equal to the bit, but for which NaN it is."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(found, np.float64), np.asarray(expected).astype(np.float64)
    return bool(((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)).all())


# --- formats -----------------------------------------------------------------------------------------------------------


@every_format
def test_every_number_of_a_format_is_itself_and_all_between_are_rounded_to_even(name):
    dtype = np.dtype(DTYPES[name])
    if dtype.itemsize == 1:
        all_of_them = np.arange(256, dtype=np.uint8).view(dtype)
    else:
        bits = np.random.default_rng(0).integers(0, 2 ** (8 * dtype.itemsize), 2000, dtype=np.uint64)
        all_of_them = bits.astype(f"u{dtype.itemsize}").view(dtype)
    with np.errstate(all="ignore"):  # of NaN that signal
        numbers = all_of_them.astype(np.float64)
    assert same([Rounded(float(each), name).value for each in numbers], all_of_them)
    finite = np.sort(numbers[np.isfinite(numbers)])
    between = np.concatenate([(finite[1:] + finite[:-1]) / 2, finite * 1.01, finite * 3])
    with np.errstate(all="ignore"):
        assert same([Rounded(float(each), name).value for each in between], between.astype(dtype))


@every_format
@every_operation
def test_an_operation_is_that_of_numpy(name, operation):
    """On numbers of all sizes, zeros of both signs, infinities and NaN."""
    dtype, rng = DTYPES[name], np.random.default_rng(1)
    spread = rng.standard_normal(600) * 2.0 ** rng.integers(-12, 12, 600)
    with np.errstate(all="ignore"):
        a = np.concatenate([spread[:300], [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0] * 7]).astype(dtype)
        b = np.concatenate([spread[300:], np.repeat([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], 7)]).astype(dtype)
        expected = operation(a, b)
    found = [operation(Rounded(float(p), name), Rounded(float(q), name)).value for p, q in zip(a, b, strict=True)]
    assert same(found, expected)


def test_subnormals_and_overflow():
    assert Rounded(2.0**-149).value == 2.0**-149
    assert Rounded(Fraction(1, 2**150)).value == 0
    assert Rounded(Fraction(3, 2**151)).value == 2.0**-149
    assert Rounded(70000, "float16").value == math.inf
    assert Rounded(10**400).value == math.inf
    assert math.isnan(Rounded(500, "e4m3").value)
    assert Rounded(464, "e4m3").value == 448


OPERATORS = {
    "max_pool": lambda x, w: wg.max_pool2d(x, 2, 1, 1),
    "min_pool": lambda x, w: wg.min_pool2d(x, 2, 1, 1),
    "avg_pool": lambda x, w: wg.avg_pool2d(x, 3, 2, 1),
    "smooth_max_pool": lambda x, w: wg.smooth_max_pool2d(x, 2, beta=2),
    "conv": lambda x, w: wg.conv2d(x[None], w, padding=1),
    "conv_transpose": lambda x, w: wg.conv_transpose2d(x[None], w),
    "pad": lambda x, w: wg.pad(x, (1, 1), "reflect"),
    "mean's gradient": lambda x, w: wg.vjp(lambda x: wg.avg_pool2d(x, 3, 1, 1), x)[1](x)[0],
    "conv's gradient": lambda x, w: wg.vjp(lambda w: wg.conv2d(x[None], w, padding=1), w)[1](wg.conv2d(x[None], w, padding=1))[
        0
    ],
}


@pytest.mark.parametrize("call", OPERATORS.values(), ids=OPERATORS)
def test_binary32_is_an_object_array_of_numpys_float32_through_every_operator(call):
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((4, 5)).astype(np.float32), rng.standard_normal((1, 1, 3, 3)).astype(np.float32)
    theirs = call(*(np.array([np.float32(c) for c in a.flat] + [None], dtype=object)[:-1].reshape(a.shape) for a in (x, w)))
    ours = call(Rounded.cells(x, "binary32"), Rounded.cells(w, "binary32"))
    found, expected = (np.array([float(cell) for cell in y.flat]) for y in (ours, theirs))
    if "exp" in call.__code__.co_names or call is OPERATORS["smooth_max_pool"]:
        np.testing.assert_allclose(found, expected, rtol=3e-7)
    else:
        assert found.tobytes() == expected.tobytes()


@every_format
def test_a_format_runs_through_pooling_and_convolution(name):
    x = Rounded.cells(np.arange(16.0).reshape(4, 4) / 8, name)
    for y in (wg.max_pool2d(x, 2), wg.avg_pool2d(x, 2), wg.conv2d(x[None], Rounded.cells(np.ones((1, 1, 2, 2)), name))):
        assert all(type(cell) is Rounded and cell.format == name for cell in y.flat)
    assert float(wg.avg_pool1d(Rounded.cells([1, 16, 16], "e5m2"), 3)[0]) == 10  # (1 + 16) is 16, 32 ÷ 3 is 10


def test_formats_do_not_mix_and_what_is_no_number_is_refused():
    with pytest.raises(wg.KindError, match="a number of binary32 beside one of float16"):
        wg.avg_pool1d(np.array([Rounded(1), Rounded(1, "float16")], dtype=object), 2)
    with pytest.raises(wg.OptionError, match="format='fp8': must be one of 'binary32', 'bfloat16', 'float16', 'e5m2', 'e4m3'"):
        Rounded(1, "fp8")
    with pytest.raises(wg.KindError, match="value='1': must be a real number, not str"):
        Rounded("1")


# --- intervals --------------------------------------------------------------------------------------------------------

floats = st.floats(-1e6, 1e6)
exact = st.fractions(-9, 9, max_denominator=7)


@st.composite
def with_a_number(draw, ends):
    """An interval and a number inside it."""
    low, high = sorted((draw(ends), draw(ends)))
    share = Fraction(draw(st.integers(0, 8)), 8)
    return Interval(low, high), Fraction(low) + share * (Fraction(high) - Fraction(low))


@every_operation
@given(data=st.data(), ends=st.sampled_from([floats, exact]))
def test_the_result_of_numbers_inside_is_inside(operation, data, ends):
    (a, p), (b, q) = data.draw(with_a_number(ends)), data.draw(with_a_number(ends))
    if operation is operator.truediv and 0 in b:
        with pytest.raises(ZeroDivisionError, match="which holds 0"):
            operation(a, b)
        return
    found = operation(a, b)
    assert operation(p, q) in found
    if ends is exact:
        corners = [operation(r, s) for r in (a.low, a.high) for s in (b.low, b.high)]
        assert (found.low, found.high) == (min(corners), max(corners))


def test_floats_are_rounded_outwards_and_only_where_they_must():
    third = Interval(1.0) / Interval(3.0)
    assert third.high == math.nextafter(third.low, 1)
    assert Fraction(1, 3) in third
    assert Interval(1.0) + Interval(2.0) == Interval(3.0)
    assert Interval(1e308) * 10 == Interval(math.nextafter(math.inf, 0), math.inf)
    assert Interval(-math.inf, 1.0) * 0 == Interval(0.0)
    for number in (-745.5, -1.0, 0.0, 1.0, 700.0, 709.5, 800.0):
        found = Interval(number).exp()
        assert found.low <= (math.exp(number) if number < 709 else math.inf) <= found.high
    assert Fraction(math.log(3)) in Interval(3).log()
    assert Interval(0.0, 1.0).log().low == -math.inf


@given(data=st.data())
def test_pooling_and_convolution_bound_what_they_give_of_numbers_inside(data):
    pairs = [data.draw(with_a_number(exact)) for _ in range(12)]
    bounds, numbers = (np.array([pair[i] for pair in pairs] + [None], dtype=object)[:-1].reshape(3, 4) for i in (0, 1))
    weight = np.array([[[[Fraction(1), Fraction(-2)], [Fraction(1, 3), Fraction(0)]]]], dtype=object)
    for call in (
        lambda x: wg.max_pool2d(x, 2, 1, 1),
        lambda x: wg.min_pool2d(x, 2, 1),
        lambda x: wg.avg_pool2d(x, 2, 1, 1),
        lambda x: wg.conv2d(x[None], weight),
        lambda x: wg.global_avg_pool2d(x),
    ):
        for bound, number in zip(call(bounds).flat, call(numbers).flat, strict=True):
            assert number in bound


@pytest.mark.parametrize("beta", [2, -3])
def test_a_smooth_maximum_is_bounded(beta):
    rng = np.random.default_rng(3)
    low = rng.standard_normal((4, 4))
    high = low + rng.random((4, 4))
    x = np.array([Interval(a, b) for a, b in zip(low.flat, high.flat, strict=True)] + [None], dtype=object)[:-1].reshape(4, 4)
    y = wg.smooth_max_pool2d(x, 2, padding=1, beta=beta)
    for share in (0.0, 0.5, 1.0):
        number = wg.smooth_max_pool2d(low + share * (high - low), 2, padding=1, beta=beta)
        assert all(n in bound for n, bound in zip(number.flat.__iter__(), y.flat, strict=True))


def test_a_winner_among_overlapping_intervals_is_refused():
    x = np.array([Interval(0, 2), Interval(1, 3)], dtype=object)
    assert wg.max_pool1d(x, 2).tolist() == [Interval(1, 3)]
    with pytest.raises(wg.KindError, match="neither is greater than, less than or equal"):
        wg.max_pool1d(x, 2, return_indices=True)
    assert wg.max_pool1d(x + np.array([0, 5], dtype=object), 2, return_indices=True)[1].tolist() == [1]


def test_what_is_no_interval_is_refused():
    with pytest.raises(wg.OptionError, match="an interval from 2 to 1: must not end before it begins"):
        Interval(2, 1)
    with pytest.raises(wg.OptionError, match="must not end before it begins"):
        Interval(math.nan)
    with pytest.raises(wg.KindError, match="both must be real numbers"):
        Interval("1")
    with pytest.raises(wg.OptionError, match="must not reach below 0"):
        Interval(-1, 1).log()
