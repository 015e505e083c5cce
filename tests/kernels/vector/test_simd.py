"""Vectors compute in every lane what NumPy computes, for every dtype, and what the order of maximum says about NaN and −0.0."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numba.core.errors import TypingError

from support.simd_cases import DTYPES, FLOATS, assert_same, bits_of, edge_values, lanes_of, nans, written


def comes_first(a, b):
    """The order of maximum: NaN before every number, and nothing before its equal."""
    return np.where(np.isnan(a), ~np.isnan(b), a > b)


def quotient(a, b):
    if a.dtype.kind == "f":
        return a / b
    whole = [
        abs(n) // abs(d) * (-1 if (n < 0) != (d < 0) else 1)
        for n, d in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    ]
    return np.array(whole, a.dtype).reshape(a.shape)


def sides(a, b):
    return np.concatenate([a, b], axis=1)


def mixed(a, b):
    return np.stack([a, b], axis=2).reshape(len(a), -1)


def mask(expression):
    """A mask cannot be stored, so 1 where it is set."""
    return f"select({expression}, splat(x, 1), splat(x, 0))"


# An expression over the vectors a, b, c, and the same over arrays of shape (vectors, lanes). No divisor c is 0 or −1.
ARITHMETIC = {
    "a + b": lambda a, b, c: a + b,
    "a - b": lambda a, b, c: a - b,
    "a * b": lambda a, b, c: a * b,
    "a / c": lambda a, b, c: quotient(a, c),
    "add(a, b)": lambda a, b, c: a + b,
    "subtract(a, b)": lambda a, b, c: a - b,
    "multiply(a, b)": lambda a, b, c: a * b,
    "divide(a, c)": lambda a, b, c: quotient(a, c),
}
CHOICES = {
    "a": lambda a, b, c: a,
    "maximum(a, b)": lambda a, b, c: np.where(comes_first(b, a), b, a),
    "select(a > b, a, c)": lambda a, b, c: np.where(a > b, a, c),
    "select(equal(a, b), c, b)": lambda a, b, c: np.where(a == b, c, b),
    "splat(x, 3)": lambda a, b, c: np.full(a.shape, 3),
    "splat(x, x[i])": lambda a, b, c: np.repeat(a[:, :1], a.shape[1], axis=1),
    "splat(a, x[i + 1])": lambda a, b, c: np.repeat(a[:, 1:2], a.shape[1], axis=1),
    "even(a, b)": lambda a, b, c: sides(a, b)[:, ::2],
    "odd(a, b)": lambda a, b, c: sides(a, b)[:, 1::2],
    "mixed_low(a, b)": lambda a, b, c: mixed(a, b)[:, : a.shape[1]],
    "mixed_high(a, b)": lambda a, b, c: mixed(a, b)[:, a.shape[1] :],
    "splat(x, anywhere(a != b))": lambda a, b, c: np.tile((a != b).any(axis=1)[:, None], a.shape[1]),
    "splat(x, anywhere(a == b))": lambda a, b, c: np.tile((a == b).any(axis=1)[:, None], a.shape[1]),
    mask("a > b"): lambda a, b, c: a > b,
    mask("a < b"): lambda a, b, c: a < b,
    mask("a == b"): lambda a, b, c: a == b,
    mask("a != b"): lambda a, b, c: a != b,
    mask("greater(a, b)"): lambda a, b, c: a > b,
    mask("less(a, b)"): lambda a, b, c: a < b,
    mask("equal(a, b)"): lambda a, b, c: a == b,
    mask("not_equal(a, b)"): lambda a, b, c: a != b,
    mask("beats(a, b)"): lambda a, b, c: comes_first(a, b),
    mask("either(a > b, a > c)"): lambda a, b, c: (a > b) | (a > c),
    mask("not_finite(a)"): lambda a, b, c: ~np.isfinite(a),
    mask("is_zero(a)"): lambda a, b, c: (a == 0) & (a.dtype.kind == "f"),
    mask("is_negative_zero(a)"): lambda a, b, c: np.signbit(a) & (a == 0),
}
WITHOUT_NAN = {"larger(a, b)": lambda a, b, c: np.where(b > a, b, a)}
OF_FLOATS = {
    "bits(a) + bits(b)": lambda a, b, c: (bits_of(a) + bits_of(b)).view(a.dtype),
    "floats(bits(b))": lambda a, b, c: b,
}
OF_WIDE_INTEGERS = {  # those with as many bits as a float
    "bits(floats(a))": lambda a, b, c: a,
    mask("floats(a) > floats(b)"): lambda a, b, c: a.view(f"f{a.itemsize}") > b.view(f"f{a.itemsize}"),
}


def table(dtype):
    more = OF_FLOATS if dtype in FLOATS else OF_WIDE_INTEGERS if dtype.itemsize >= 4 else {}
    return ARITHMETIC | CHOICES | WITHOUT_NAN | more


@cache
def evaluator(dtype):
    """Every expression of the table, each into its row of `out`."""
    rows = [f"    store(out, {row} * x.size + i, {expression})" for row, expression in enumerate(table(dtype))]
    loop = f"for i in range(0, x.size, {lanes_of(dtype)}):"
    return written("x, y, z, out", [loop, "    a, b, c = load(x, i), load(y, i), load(z, i)", *rows])


def evaluated(x, y, z):
    """What each expression gives, by its text."""
    out = np.zeros((len(table(x.dtype)), *x.shape), x.dtype)
    evaluator(x.dtype)(x.ravel(), y.ravel(), z.ravel(), out.ravel())
    return dict(zip(table(x.dtype), out, strict=True))


def pairs(dtype):
    """Each edge value with each, in each order."""
    values = edge_values(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def nearly_equal(dtype):
    """Vectors that are equal in all lanes, and that differ in one, each lane once."""
    lanes = lanes_of(dtype)
    x = np.ones((lanes + 1, lanes), dtype)
    return x.ravel(), (x + np.eye(lanes + 1, lanes, dtype=dtype)).ravel()


@pytest.mark.slow
@pytest.mark.parametrize("data", [pairs, nearly_equal])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_lane_is_what_numpy_says(dtype, data):
    x, y = (half.reshape(-1, lanes_of(dtype)) for half in data(dtype))
    z = np.where((y == 0) | (y + 1 == 0), dtype.type(3), y) if dtype.kind != "f" else np.roll(y, 1)
    for expression, found in evaluated(x, y, z).items():
        with np.errstate(all="ignore"):
            expected = table(dtype)[expression](x, y, z)
        if expression in WITHOUT_NAN:
            numbers = ~(np.isnan(x) | np.isnan(y))
            found, expected = found[numbers], expected[numbers]
        assert_same(found, expected.astype(dtype), expression, any_nan=expression in ARITHMETIC)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_of_equals_the_first_stays_also_of_two_nan(dtype):
    quiet, payload, negative, signalling = nans(dtype)
    pairs_of_equals = [
        (0.0, -0.0),
        (-0.0, 0.0),
        (quiet, negative),
        (negative, quiet),
        (signalling, payload),
        (payload, signalling),
    ]
    x, y = (np.resize(np.array(half, dtype), (3, 8)) for half in zip(*pairs_of_equals, strict=True))
    found = evaluated(x, y, y)
    assert_same(found["maximum(a, b)"], x, "maximum(a, b)")
    zeros = x == 0
    assert_same(found["larger(a, b)"][zeros], x[zeros], "larger(a, b)")
    assert not found[mask("beats(a, b)")].any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_beats_every_number_from_both_sides(dtype):
    numbers = edge_values(dtype)[:12]
    for nan in nans(dtype):
        x, y = np.resize(numbers, (3, 8)), np.full((3, 8), nan)
        for first, second, nan_is_first in [(x, y, 0), (y, x, 1)]:
            found = evaluated(first, second, second)
            assert_same(found["maximum(a, b)"], y, "maximum(a, b)")
            assert (found[mask("beats(a, b)")] == nan_is_first).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once(dtype):
    """The error of a rounded product is itself a number of the dtype, and a · b − rounded(a · b) is that number."""
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(1, 2, 64).astype(dtype) for _ in range(2))
    x[0], y[0] = 1 + np.finfo(dtype).eps, 1 - np.finfo(dtype).eps
    z, out = -(x * y), np.zeros_like(x)
    lines = [f"for i in range(0, x.size, {lanes_of(dtype)}):", "    store(out, i, fma(load(x, i), load(y, i), load(z, i)))"]
    written("x, y, z, out", lines)(x, y, z, out)
    errors = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
    assert [Fraction(float(value)) for value in out] == errors
    assert out[0] == -(np.finfo(dtype).eps ** 2)
    assert (x * y + z == 0).all()
    assert np.count_nonzero(out) > 50


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.itemsize >= 4], ids=str)
def test_the_greatest_lane_and_the_lowest_that_is_set(dtype):
    values = edge_values(dtype)
    x = np.random.default_rng(1).choice(values[values == values], (64, lanes_of(dtype)))
    tops, first = np.zeros(64, dtype), np.zeros(64, np.int64)
    lines = [
        "for i in range(64):",
        "    a = load(x, i * lanes(x))",
        "    tops[i] = top_of_lanes(a)",
        "    first[i] = lowest_bit(set_lanes(equal(a, splat(x, tops[i]))))",
    ]
    written("x, tops, first", lines)(x.ravel(), tops, first)
    assert (tops == x.max(axis=1)).all()
    assert (first == x.argmax(axis=1)).all()


def test_vectors_of_two_types_do_not_mix():
    for expression in ("load(x, 0) + load(y, 0)", "maximum(load(x, 0), load(y, 0))", "load(x, 0) > load(y, 0)"):
        with pytest.raises(TypingError):
            written("x, y", [f"store(x, 0, {expression})"])(np.zeros(32, np.int32), np.zeros(32, np.uint32))
