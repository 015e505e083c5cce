"""A value under differentiation is not turned into a number behind its derivative's back; what it is compared with decides."""

from __future__ import annotations

import cmath
import math
import operator
from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.autograd.pushing import Pushed

CONVERSIONS = {
    "float": float,
    "int": int,
    "complex": complex,
    "index": operator.index,
    "round": round,
    "round to digits": lambda x: round(x, 2),
    "math.trunc": math.trunc,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
    "math.exp": math.exp,
    "math.log": math.log,
    "math.sqrt": math.sqrt,
    "math.fsum": lambda x: math.fsum([x]),
    "math.gcd": lambda x: math.gcd(x, 2),
    "cmath.exp": cmath.exp,
    "range": range,
    "an index of a list": lambda x: [1.0, 2.0][x],
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "numpy.asarray": np.asarray,
    "numpy.asarray of a list": lambda x: np.asarray([x, 1.0]),
    "numpy.float64": np.float64,
    "numpy.exp": np.exp,
    "numpy.maximum": lambda x: np.maximum(1.0, x),
    "numpy.isnan": np.isnan,
    "numpy.prod": np.prod,
    "numpy.add to an array": lambda x: np.add(np.ones(()), x, out=np.zeros(())),
    "%f": lambda x: "%f" % x,  # noqa: UP031  # the conversion is the point
}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
MODES = {
    "grad": lambda f, x: wg.grad(f)(x),
    "jvp": lambda f, x: wg.jvp(f, (x,), (1.0,))[1],
    "grad of grad": lambda f, x: wg.grad(wg.grad(lambda x: f(x) * x))(x),
    "grad of jvp": lambda f, x: wg.grad(lambda x: wg.jvp(f, (x,), (1.0,))[1] * x)(x),
    "jvp of grad": lambda f, x: wg.jvp(wg.grad(lambda x: f(x) * x), (x,), (1.0,))[1],
}
every_mode = pytest.mark.parametrize("mode", MODES)


@every_mode
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_is_refused(name, mode):
    with pytest.raises(wg.KindError, match=r"cannot convert a traced value to .*: the gradient would be lost"):
        MODES[mode](lambda x: x * CONVERSIONS[name](x), np.array(2.0))


@every_mode
def test_a_traced_value_is_refused_as_an_entry_of_an_array(mode):
    """By NumPy, which says that it is a sequence; the reason is ours."""
    with pytest.raises((ValueError, TypeError)) as caught:
        MODES[mode](lambda x: x * operator.setitem(np.zeros(2), 0, x), np.array(2.0))
    reason = caught.value if isinstance(caught.value, wg.KindError) else caught.value.__cause__
    assert "cannot convert a traced value to a number: the gradient would be lost" in str(reason)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions_of_numpy_are_those_of_the_package(name):
    """They call the method, with arguments of their own."""
    x = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 0.0]])
    for axis in (None, 1):
        expected = wg.grad(lambda x, axis=axis: wg.sum(getattr(wg, name)(x, axis)))(x)
        found = wg.grad(lambda x, axis=axis: wg.sum(getattr(np, name)(x, axis=axis, keepdims=True)))(x)
        assert np.array_equal(found, expected)
    with pytest.raises(wg.KindError) as caught:
        wg.grad(lambda x: getattr(np, name)(x, out=np.zeros(())))(x)
    assert str(caught.value) == f"out: not supported by {name} of a traced value; use wg.{name}"


@pytest.mark.parametrize("total", [np.zeros(3), np.zeros(3, object)], ids=["floats", "objects"])
def test_what_is_added_in_place_to_an_array_becomes_a_traced_value(total):
    def f(x):
        found = total
        found += wg.sum(x, 0)
        return wg.sum(found * found)

    assert wg.grad(f)(np.ones((2, 3))).tolist() == [[4.0] * 3] * 2
    assert not np.any(total)


def test_the_error_says_what_to_use():
    with pytest.raises(wg.KindError) as caught:
        wg.grad(lambda x: math.exp(x))(1.0)
    assert str(caught.value) == (
        "float(x): cannot convert a traced value to a number: the gradient would be lost; use functions of wg, such as "
        "wg.exp(x), or float(x.value) for the plain number"
    )
    with pytest.raises(wg.KindError, match=r"or numpy\.asarray\(x\.value\.value\) for the plain number"):
        wg.grad(wg.grad(lambda x: wg.sum(np.asarray(x))))(1.0)


@every_mode
def test_what_the_error_says_looks_at_the_number(mode):
    seen = []

    def f(x):
        value = x
        while not isinstance(value, np.ndarray):
            value = value.value
        seen.append(float(value))
        return x * x

    MODES[mode](f, np.array(3.0))
    assert set(seen) == {3.0}


@pytest.mark.parametrize("other", [1.0, 2, 3.5, np.float32(2), Fraction(2), np.array(2.0), math.nan])
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
@every_mode
def test_a_comparison_is_that_of_the_values(compare, other, mode):
    """On either side, in every nesting; a plain bool, so a branch follows the value it compared."""
    expected = tuple(map(bool, (compare(2.0, other), compare(other, 2.0), compare(2.0, 2.0))))

    def f(x):
        found = compare(x, other), compare(other, x), compare(x, x)
        assert all(isinstance(each, (bool, np.bool_)) for each in found)
        assert tuple(map(bool, found)) == expected
        return x * x

    MODES[mode](f, np.array(2.0))


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
def test_arrays_compare_cell_by_cell_and_broadcast(compare):
    x, y = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([2.0, 2.0])

    def f(a, b):
        for found, expected in ((compare(a, b), compare(x, y)), (compare(y, a), compare(y, x)), (compare(a, 2), compare(x, 2))):
            assert type(found) is np.ndarray
            assert found.dtype == bool
            assert found.tolist() == expected.tolist()
        return wg.sum(a) + wg.sum(b)

    wg.grad(f, (0, 1))(x, y)
    wg.jvp(f, (x, y), (x, y))


def test_comparisons_of_fractions_are_exact():
    third = Fraction(1, 3)
    x = np.array([third, third + Fraction(1, 10**30)])
    assert wg.grad(lambda a: wg.sum(a * (a > third)))(x).tolist() == [0, 1]


@every_mode
def test_a_branch_follows_the_value_it_compared(mode):
    """±x² by a branch. Its derivative is 2|x|; times x, that of ±x³ is 3x², then 6|x|."""

    def f(x):
        return x * x if x > 0 else -x * x

    expected = {"grad": 4, "jvp": 4, "grad of grad": 12, "grad of jvp": 8, "jvp of grad": 12}[mode]
    assert [float(MODES[mode](f, np.array(at))) for at in (2.0, -2.0)] == [expected, expected]


def test_an_equal_value_takes_its_branch():
    assert float(wg.grad(lambda x: x * 10 if x == 4.0 else x)(4.0)) == 10
    assert float(wg.grad(lambda x: x * 10 if x != 4.0 else x)(4.0)) == 1


def test_a_lone_value_is_true_unless_it_is_zero_as_in_numpy():
    """Truth is a comparison with 0, so nothing is lost by it; several values have no truth."""
    assert float(wg.grad(lambda x: x * 3 if x else x)(2.0)) == 3
    assert float(wg.grad(lambda x: x * 3 if x else x)(0.0)) == 1
    with pytest.raises(
        wg.KindError, match=r"the truth value of 2 elements is ambiguous; write \(x > 0\)\.all\(\) or \.any\(\)"
    ):
        wg.grad(lambda x: wg.sum(x) if x else 0.0)(np.ones(2))


def test_shapes_that_do_not_broadcast_do_not_compare():
    tape = wg.Tape()
    with pytest.raises(
        wg.WindowError,
        match=r"compare an array of float64\(2,\) with an array of float64\(3,\): operands could not be broadcast",
    ):
        tape.leaf(np.ones(2)) == np.ones(3)  # noqa: B015  # it raises


def test_an_array_type_that_does_not_compare_is_refused():
    class Plain:
        shape, dtype, ndim, size = (), np.dtype(float), 0, 1

        def __windowgrad__(self, *_):
            return NotImplemented

    x = wg.Tape().leaf(Plain())
    for compare in COMPARISONS:
        with pytest.raises(wg.KindError, match=r"cannot compare an object of type Plain"):
            compare(x, 1.0)


@pytest.mark.parametrize("other", [None, "a", object()], ids=["None", "str", "object"])
def test_what_is_no_number_is_not_equal_and_has_no_order(other):
    x = wg.Tape().leaf(1.0)
    assert (x == other) is np.False_
    assert x != other
    with pytest.raises(wg.KindError, match="float64"):
        x < other  # noqa: B015  # it raises


def test_variables_are_kept_in_sets_and_dicts_by_identity():
    """As PyTorch's tensors are: equal values are not one variable."""
    tape = wg.Tape()
    a, b = tape.leaf(1.0), tape.leaf(1.0)
    assert len({a, b, a}) == 2
    names = {a: "a", b: "b"}
    assert (names[a], names[b]) == ("a", "b")
    grads = tape.backward(a * 2 + b * 5)
    assert {name: float(grads[var]) for var, name in names.items()} == {"a": 2, "b": 5}
    assert [float(grads[var]) for var in grads] == [2, 5]
    assert hash(Pushed(1, np.array(1.0), None)) != hash(Pushed(1, np.array(1.0), None))
