"""The laws of the p-norm: over decimals of 60 digits, compared to 50; where p = 1, over fractions and with `==`."""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.laws import close, dot, each, forward_is_the_definition, jvp_is_forward_on_duals, vjp_is_adjoint_of_jvp
from support.second_order import all_nestings_are_duals_of_duals, by_duals
from support.strategies import arrays, cases, decimals, fractions, mapped, small_ints, spatial_sizes
from windowgrad.errors import KindError, OptionError
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS, meaning
from windowgrad.params import LpParams
from windowgrad.spec import Dual, powers

LP = OPS["lp_pool"]


@pytest.fixture(autouse=True, scope="module")
def sixty_digits():
    with localcontext(prec=60):
        yield


def not_zero():
    """Decimals other than 0, where the norm is smooth."""
    return mapped(decimals(), lambda d: d or Decimal(7))


@given(data=st.data())
def test_vjp_is_the_adjoint_of_jvp(data):
    assert close(*vjp_is_adjoint_of_jvp(LP, *data.draw(cases(LP, decimals()))))


@given(data=st.data())
def test_vjp_is_the_adjoint_of_jvp_over_fractions_for_p_1(data):
    params, xs, dxs, g = data.draw(cases(LP, fractions()))
    left, right = vjp_is_adjoint_of_jvp(LP, replace(params, norm_type=1), xs, dxs, g)
    assert left == right


@given(data=st.data())
def test_jvp_is_forward_on_dual_numbers(data):
    assert close(*jvp_is_forward_on_duals(LP, *data.draw(cases(LP, not_zero()))))


@given(data=st.data())
def test_forward_is_the_definition_said_naively(data):
    assert close(*forward_is_the_definition(LP, *data.draw(cases(LP, decimals()))))


@given(data=st.data())
def test_for_p_1_it_is_the_sum_of_magnitudes_over_fractions(data):
    params, (x,), _, _ = data.draw(cases(LP, fractions()))
    total = OPS["avg_pool"].forward(OPS["avg_pool"].params(params.geometry, True, 1), abs(x))
    assert LP.forward(replace(params, norm_type=1), x).tolist() == total.tolist()


@given(data=st.data())
def test_all_nestings_give_the_mixed_tangent_of_duals_of_duals(data):
    params, xs, dxs, g = data.draw(cases(LP, not_zero(), tangents=decimals()))
    es = [data.draw(arrays(x.shape, decimals())) for x in xs]
    assert close(*all_nestings_are_duals_of_duals(LP, params, xs, dxs, es, g))


@given(data=st.data())
def test_the_third_derivative_is_that_of_duals_of_duals_of_duals(data):
    params, (x,), (dx,), g = data.draw(cases(LP, not_zero(), tangents=decimals()))

    def f(x):
        return LP.forward(params, x)

    def second(x):
        return wg.jvp(lambda x: wg.jvp(f, (x,), (dx,))[1], (x,), (dx,))[1]

    constant = each(lambda d: Dual(Dual(d, 0), Dual(0, 0)), dx)
    expected = dot(g, by_duals(lambda moved: wg.jvp(f, (moved,), (constant,))[1], [x], [dx], [dx]))
    assert close(dot(g, wg.jvp(second, (x,), (dx,))[1]), expected)
    assert close(dot(wg.vjp(second, x)[1](g)[0], dx), expected)
    backward = wg.vjp(lambda x: wg.vjp(f, x)[1](g)[0], x)[1]
    assert close(dot(wg.vjp(lambda x: wg.vjp(lambda x: wg.vjp(f, x)[1](g)[0], x)[1](dx)[0], x)[1](dx)[0], dx), expected)
    assert backward(dx)[0].shape == x.shape


@given(data=st.data())
def test_adaptive_to_a_divisor_is_sliding_and_global_is_adaptive_to_one(data):
    bins = data.draw(spatial_sizes(data.draw(st.integers(1, 3))))
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in bins)
    x = data.draw(arrays([k * m for k, m in zip(kernel, bins, strict=True)], decimals()))
    for one, other in [(Adaptive(bins), Sliding(kernel)), (Global(len(bins)), Adaptive((1,) * len(bins)))]:
        assert close(*(LP.forward(LpParams(g, 3), x).reshape(-1).tolist() for g in (one, other)))


@given(data=st.data())
def test_the_derivative_along_x_is_the_norm(data):
    """y is homogeneous: J(x)·x = y."""
    params, (x,), _, _ = data.draw(cases(LP, decimals()))
    assert close(LP.jvp(params, x, x).tolist(), LP.forward(params, x).tolist())


@given(data=st.data())
def test_the_norm_of_norms_is_the_norm_of_all(data):
    params, (x,), _, _ = data.draw(cases(LP, mapped(small_ints(), Decimal)))
    whole, rows = LpParams(Global(x.ndim), params.norm_type), LpParams(Global(1), params.norm_type)
    by_rows = LP.forward(LpParams(Global(x.ndim), params.norm_type), LP.forward(rows, x))
    assert close(LP.forward(whole, x).reshape(-1).tolist(), by_rows.reshape(-1).tolist())


# --- zeros -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3, 1.5])
def test_the_derivatives_of_a_norm_of_zeros_are_zero_in_every_order(p):
    x, dx = np.zeros(3), np.array([1.0, -2.0, 3.0])

    def f(x):
        return wg.lp_pool1d(x, p, 3)

    def first(x):
        return wg.jvp(f, (x,), (dx,))[1]

    assert first(x).tolist() == wg.jvp(first, (x,), (dx,))[1].tolist() == [0]
    assert wg.vjp(f, x)[1](np.ones(1))[0].tolist() == wg.vjp(first, x)[1](np.ones(1))[0].tolist() == [0, 0, 0]


def test_a_cell_that_is_zero_beside_others_has_its_second_derivative_for_p_2():
    """The Hessian of √(x² + y²) at (0, 3) is ((1/3, 0), (0, 0))."""
    hessian = wg.jacobian(lambda x: wg.grad(lambda x: wg.lp_pool1d(x, 2, 2).sum())(x))(np.array([0.0, 3.0]))
    assert np.asarray(hessian).round(15).tolist() == [[round(1 / 3, 15), 0], [0, 0]]


# --- scalars -----------------------------------------------------------------------------------------------------


def test_roots_of_fractions_are_fractions_where_there_are_some():
    x = np.array([Fraction(3, 7), Fraction(-4, 7)], dtype=object)
    assert wg.lp_pool1d(x, 2, 2).tolist() == [Fraction(5, 7)]
    cubes = np.array([Fraction(3), Fraction(4), Fraction(5)], dtype=object)
    assert wg.lp_pool1d(cubes, 3, 3).tolist() == [6]
    assert isinstance(wg.lp_pool1d(x, 3, 2)[0], float)


@pytest.mark.parametrize(("n", "p"), [(0, 3), (1, 3), (7, 3), (8, 3), (9, 3), (10**40 - 1, 4), (10**40, 4), (99, 2)])
def test_a_whole_root_is_the_greatest_that_is_not_above(n, p):
    root = powers.whole_root(n, p)
    assert root**p <= n < (root + 1) ** p


@pytest.mark.parametrize("kind", [float, np.float32, Decimal, mpmath.mpf], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("p", [1, 2, 3, 2.5])
def test_every_scalar_with_powers_has_norms(kind, p):
    x = np.array([kind(3), kind(-4)], dtype=object)
    (y,) = wg.lp_pool1d(x, p, 2)
    assert abs(float(y) - (3**p + 4**p) ** (1 / p)) < 1e-6


def test_a_scalar_without_powers_is_refused_where_they_are_needed():
    class Plain:
        def __init__(self, value):
            self.value = float(getattr(value, "value", value))

        def __gt__(self, other):
            return self.value > float(getattr(other, "value", other))

        def __lt__(self, other):
            return self.value < float(getattr(other, "value", other))

        def __neg__(self):
            return Plain(-self.value)

        def __add__(self, other):
            return Plain(self.value + float(getattr(other, "value", other)))

        def __sub__(self, other):
            return Plain(self.value - float(getattr(other, "value", other)))

        def __mul__(self, other):
            return Plain(self.value * float(getattr(other, "value", other)))

        def __truediv__(self, other):
            return Plain(self.value / float(getattr(other, "value", other)))

        __radd__, __rmul__ = __add__, __mul__

    x = np.array([Plain(3), Plain(-4)], dtype=object)
    assert wg.lp_pool1d(x, 1, 2)[0].value == 7
    with pytest.raises(KindError, match=r"Plain has no power 1/2: lp_pool needs float, Decimal, mpmath.mpf or Dual"):
        wg.lp_pool1d(x, 2, 2)


@pytest.mark.parametrize(
    ("p", "kind", "message"),
    [
        (0.5, OptionError, r"norm_type=0.5: must be at least 1"),
        (float("inf"), OptionError, r"norm_type=inf: must be finite; max_pool of \|x\| is the limit"),
        (float("nan"), OptionError, r"norm_type=nan: must be finite"),
        (True, KindError, r"norm_type=True: must be a real number, not bool"),
        ("2", KindError, r"norm_type='2': must be a real number, not str"),
        (10**400, OptionError, r"too large for float64"),
    ],
)
def test_a_norm_type_that_is_none_is_refused(p, kind, message):
    with pytest.raises(kind, match=message):
        wg.lp_pool1d(np.ones(4), p, 2)


def test_an_order_above_one_is_for_windows_of_one_cell():
    with pytest.raises(OptionError, match=r"order=2: must be 1, except in windows of one cell"):
        LpParams(Sliding((2,)), 2, 2)
    assert meaning("lp_pool").params is LpParams
