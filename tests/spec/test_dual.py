"""Dual numbers are the ring of values with ε² = 0, over any scalar, and they nest."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowgrad import Dual

fractions = st.fractions(min_value=-9, max_value=9, max_denominator=7)
duals = st.builds(Dual, fractions, fractions)
nested = st.builds(Dual, duals, duals)
numbers = fractions | duals | nested
"""Of any depth: a plain scalar, a dual number, a dual number of dual numbers."""


# --- a ring ------------------------------------------------------------------------------------------------------


@given(a=numbers, b=numbers, c=numbers)
def test_addition_and_multiplication_are_those_of_a_commutative_ring(a, b, c):
    """Between numbers of different depth too: the shallower one is a constant."""
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a + 0 == a == a * 1
    assert a - b == a + b * -1
    assert a - a == 0


@given(a=duals | nested)
def test_negation_is_subtraction_from_zero(a):
    assert -a == 0 - a
    negative = -a
    assert -negative == a
    assert a + -a == 0


def test_epsilon_squared_is_zero():
    epsilon = Dual(Fraction(0), Fraction(1))
    assert epsilon * epsilon == 0
    assert epsilon != 0


@given(a=numbers, b=duals | nested)
def test_division_undoes_multiplication(a, b):
    innermost = b
    while isinstance(innermost, Dual):
        innermost = innermost.value
    if innermost == 0:
        with pytest.raises(ZeroDivisionError):
            a / b
    else:
        assert a / b * b == a
        assert b / b == 1


@given(a=fractions, da=fractions, b=fractions.filter(bool), db=fractions)
def test_the_tangent_of_a_quotient_is_the_quotient_rule(a, da, b, db):
    quotient = Dual(a, da) / Dual(b, db)
    assert (quotient.value, quotient.tangent) == (a / b, (da * b - a * db) / b**2)


def test_integers_divide_exactly():
    half = Dual(1, 3) / 2
    assert (half.value, half.tangent) == (Fraction(1, 2), Fraction(3, 2))
    inverse = 1 / Dual(3, 1)
    assert (inverse.value, inverse.tangent) == (Fraction(1, 3), Fraction(-1, 9))


# --- derivatives -------------------------------------------------------------------------------------------------


def polynomial(coefficients, x):
    """Horner's rule, which needs only + and ×."""
    total = coefficients[0] * 0
    for c in coefficients:
        total = total * x + c
    return total


def derivative(coefficients):
    degree = len(coefficients) - 1
    return [c * (degree - i) for i, c in enumerate(coefficients[:-1])] or [Fraction(0)]


@given(coefficients=st.lists(fractions, min_size=1, max_size=6), x=fractions)
def test_nested_duals_have_the_first_and_second_derivative_of_a_polynomial(coefficients, x):
    y = polynomial(coefficients, Dual(Dual(x, Fraction(1)), Dual(Fraction(1), Fraction(0))))
    first = derivative(coefficients)
    assert y.value.value == polynomial(coefficients, x)
    assert y.value.tangent == y.tangent.value == polynomial(first, x)
    assert y.tangent.tangent == polynomial(derivative(first), x)


@given(coefficients=st.lists(fractions, min_size=1, max_size=6), x=fractions)
def test_three_deep_has_the_third_derivative(coefficients, x):
    one, two = Dual(Fraction(1), Fraction(0)), Dual(Dual(Fraction(1), Fraction(0)), Dual(Fraction(0), Fraction(0)))
    y = polynomial(coefficients, Dual(Dual(Dual(x, Fraction(1)), one), two))
    third = derivative(derivative(derivative(coefficients)))
    assert y.tangent.tangent.tangent == polynomial(third, x)


def d(function, x):
    """The derivative of a function at x, itself a function that can be derived."""
    zero = x * 0
    y = function(Dual(x, zero + 1))
    return y.tangent if isinstance(y, Dual) and y.depth == Dual(x, zero).depth else zero


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1), Fraction(-3, 2)])
def test_perturbations_are_not_confused(x):
    """d/dx of x · d/dy (x + y) at y = 1 is 1: the inner derivative must not see the outer perturbation."""
    assert d(lambda a: a * d(lambda b: a + b, a * 0 + 1), x) == 1
    assert d(lambda a: a * d(lambda b: a * b, a * 0 + 1), x) == 2 * x


def test_a_dual_of_lower_depth_is_a_constant_on_either_side():
    outer, inner = Dual(Dual(2, 3), Dual(5, 7)), Dual(11, 13)
    for total in (outer + inner, inner + outer):
        assert (total.value, total.tangent) == (Dual(13, 16), Dual(5, 7))
    for product in (outer * inner, inner * outer):
        assert (product.value, product.tangent) == (Dual(22, 59), Dual(55, 142))
    assert inner - outer == -(outer - inner)
    assert inner / outer == 1 / (outer / inner)


# --- order, equality, hash ---------------------------------------------------------------------------------------


@given(a=numbers, b=duals | nested)
def test_order_is_that_of_the_values(a, b):
    """Tangents have no part in it, and a number of lower depth compares as a constant."""

    def innermost(number):
        return innermost(number.value) if isinstance(number, Dual) else number

    x, y = innermost(a), innermost(b)
    assert (a < b, a <= b, a > b, a >= b) == (x < y, x <= y, x > y, x >= y)
    assert (b < a, b <= a, b > a, b >= a) == (y < x, y <= x, y > x, y >= x)


def test_equality_looks_at_both_parts():
    assert Dual(1, 2) == Dual(1, 2)
    assert Dual(1, 2) != Dual(1, 3)
    assert Dual(1, 2) != Dual(2, 2)
    assert Dual(1, 2) != 1
    assert Dual(1, 0) == 1
    assert Dual(Dual(1, 0), 0) == Dual(1, 0) == 1
    assert Dual(1, 0) != "1"


@given(a=numbers, b=numbers)
def test_what_is_equal_has_one_hash(a, b):
    if a == b:
        assert hash(a) == hash(b)
    for lifted in (Dual(a, 0), Dual(a, a * 0)):
        assert lifted == a
        assert hash(lifted) == hash(a)


def test_the_repr_shows_both_parts():
    assert repr(Dual(Fraction(1, 2), 3)) == "Dual(Fraction(1, 2), 3)"


@pytest.mark.parametrize("other", ["1", b"1", [1], (1,), None], ids=repr)
def test_what_is_no_number_does_not_add(other):
    with pytest.raises(TypeError):
        Dual(1, 2) + other
