"""Kernels against the specification where numbers are not ordinary: NaN, infinities, signed zeros; and smooth max."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.exact import DTYPES, FLOATS, PRECISION, fractions_of, mean_dtype
from support.laws import each
from support.strategies import cases, pool, small_ints
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import TIES, MaxParams, SmoothParams

MEANING = {op.name: op for op in MEANINGS}
MAX, SMOOTH = OPS["max_pool"], OPS["smooth_max_pool"]
INF, NAN = math.inf, math.nan
SPECIAL = [0.0, 1.0, -1.0, 2.0, -0.0, NAN, INF, -INF]

every_float = pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)


def special():
    return pool(SPECIAL)


def numbers(array, dtype):
    return np.array(array.tolist(), dtype=dtype).reshape(array.shape)


def texts(*arrays):
    """Values by their text, which tells −0.0 from 0.0 and takes NaN for NaN."""
    return [(array.shape, [str(float(cell)) for cell in array.flat]) for array in arrays]


def values(*arrays):
    """Values by their text, with one zero only."""
    return [(array.shape, [str(float(cell) + 0.0) for cell in array.flat]) for array in arrays]


# --- NaN, infinities, signed zeros -------------------------------------------------------------------------------


@every_float
@given(data=st.data())
def test_max_takes_the_very_cell_that_wins(dtype, data):
    """Its sign of zero included: −0.0 and 0.0 tie, and the first of them is the value."""
    params, (x,), _, _ = data.draw(cases(MAX, special()))
    y, index = MAX.with_indices(params, numbers(x, dtype))
    value, place = MEANING["max_pool"].with_indices(params, x)
    assert y.dtype == dtype
    assert texts(y, MAX.forward(params, numbers(x, dtype)), index) == texts(value, value, place)


@every_float
@pytest.mark.parametrize("ties", TIES)
@given(data=st.data())
def test_the_derivative_of_max_follows_the_winners(dtype, ties, data):
    """With tangents that are not ordinary either: one that did not win must not leak."""
    drawn, (x,), (dx,), g = data.draw(cases(MAX, special(), tangents=pool([0.0, 840.0, -1680.0, NAN, INF])))
    params = MaxParams(drawn.geometry, ties)
    winners = MEANING["max_pool"].jvp(MaxParams(drawn.geometry, "all"), x, each(lambda _: 1, x))
    assume(ties != "split" or all(840 % max(n, 1) == 0 for n in winners.flat))  # shares that are exact, in any order
    found = MAX.jvp(params, numbers(x, dtype), numbers(dx, dtype)), *MAX.vjp(params, numbers(x, dtype), numbers(g, dtype))
    exact = MEANING["max_pool"].jvp(params, x, dx), *MEANING["max_pool"].vjp(params, x, g)
    assert values(*found) == values(*(each(lambda cell: float(dtype.type(cell)), array) for array in exact))


@pytest.mark.parametrize("name", ["avg_pool", "conv", "conv_transpose", "pad", "unpad"])
@given(data=st.data())
def test_linear_operators_on_nan_and_infinities(name, data):
    """A padded cell has no product, so an infinite weight beside padding makes no NaN."""
    op = OPS[name]
    params, xs, _, _ = data.draw(cases(op, special()))
    found = op.forward(params, *(numbers(x, np.float64) for x in xs))
    assert values(found) == values(MEANING[name].forward(params, *xs))


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@given(data=st.data())
def test_gradients_of_convolution_on_nan_and_infinities(name, data):
    op = OPS[name]
    params, xs, dxs, g = data.draw(cases(op, special()))
    arrays = [numbers(a, np.float64) for a in (*xs, *dxs, g)]
    inputs, tangents, gradient = arrays[: len(xs)], arrays[len(xs) : -1], arrays[-1]
    found = op.jvp(params, *inputs, *tangents), *op.vjp(params, *inputs, gradient)
    assert values(*found) == values(MEANING[name].jvp(params, *xs, *dxs), *MEANING[name].vjp(params, *xs, g))


@every_float
def test_minus_infinity_beside_padding_wins_over_nothing(dtype):
    """Cells of −∞ are cells: they win against padding, have an index and get the gradient."""
    x = np.array([-INF, -INF, -INF], dtype=dtype)
    params = MaxParams(Sliding((3,), 1, 2))
    y, index = MAX.with_indices(params, x)
    assert y.tolist() == [-INF] * 5
    assert index.tolist() == [0, 0, 0, 1, 2]
    assert MAX.vjp(params, x, np.ones(5, dtype))[0].tolist() == [3, 1, 1]


@every_float
@pytest.mark.parametrize("where", [[0], [3], [8], [2, 3], [0, 8], range(9)], ids=str)
def test_nan_wins_wherever_it_stands(dtype, where):
    x = np.arange(9, dtype=np.float64).astype(dtype)
    x[list(where)] = NAN
    shape = x.reshape(3, 3)
    y, index = MAX.with_indices(MaxParams(Global(2)), shape)
    assert np.isnan(y.astype(float)).all()
    assert index.tolist() == [[min(where)]]
    among = np.isin(np.arange(9), list(where))
    for ties, each_gets in (("first", np.arange(9) == min(where)), ("all", among), ("split", among / among.sum())):
        (gx,) = MAX.vjp(MaxParams(Global(2), ties), shape, np.ones((1, 1), dtype))
        assert gx.ravel().tolist() == each_gets.astype(dtype).tolist()


# --- smooth max --------------------------------------------------------------------------------------------------


def tolerance(dtype, y, beta, cells):
    """§5.8: 4·2⁻²⁴·max(|y|, 1/|β|) for float32. Shorter floats are that, rounded. In float64 a sum of n has n roundings."""
    scale = max(abs(y), 1 / abs(Decimal(beta)))
    bits, _ = PRECISION[dtype.name]
    if dtype == np.float64:
        return (cells + 4) * Decimal(2) ** -53 * scale
    return 4 * Decimal(2) ** -24 * scale + (Decimal(2) ** -bits * abs(y) if bits < 24 else 0)


def decimals_of(array):
    return each(lambda q: Decimal(q.numerator) / Decimal(q.denominator), fractions_of(array))


@given(data=st.data())
def test_smooth_max_is_the_specification_within_its_bound(data):
    params, (drawn,), _, _ = data.draw(cases(SMOOTH, small_ints()))
    change = {"b": lambda array: array % 2, "u": abs}
    with localcontext(prec=40):
        for dtype in DTYPES:
            x = change.get(dtype.kind, np.asarray)(drawn).astype(dtype)
            found = SMOOTH.forward(params, x)
            assert found.dtype == mean_dtype(dtype)
            exact = MEANING["smooth_max_pool"].forward(params, decimals_of(x))
            for got, y in zip(decimals_of(found).flat, exact.flat, strict=True):
                assert abs(got - y) <= tolerance(found.dtype, y, params.beta, x.size), (dtype, got, y)


@given(case=cases(SMOOTH, small_ints()))
def test_derivatives_of_smooth_max_are_the_specification(case):
    """In float64, to 2⁻⁴⁰ of the largest sum there can be: far looser than the arithmetic, far tighter than any mistake."""
    params, (x,), (dx,), g = case
    arrays = [numbers(a, np.float64) for a in (x, dx, g)]
    found = SMOOTH.jvp(params, arrays[0], arrays[1]), *SMOOTH.vjp(params, arrays[0], arrays[2])
    with localcontext(prec=40):
        x, dx, g = map(decimals_of, arrays)
        exact = MEANING["smooth_max_pool"].jvp(params, x, dx), *MEANING["smooth_max_pool"].vjp(params, x, g)
        bound = Decimal(2) ** -40 * (1 + sum(abs(c) for c in g.flat) + sum(abs(c) for c in dx.flat))
        for one, other in zip(found, exact, strict=True):
            assert one.shape == other.shape
            assert all(abs(a - b) <= bound for a, b in zip(decimals_of(one).flat, other.flat, strict=True))


@given(data=st.data())
def test_smooth_max_on_nan_and_infinities(data):
    """What is not finite is the same; what is finite is near."""
    params, (x,), (dx,), g = data.draw(cases(SMOOTH, special(), tangents=small_ints()))
    params = SmoothParams(params.geometry, float(params.beta), params.count_include_pad)
    arrays = [numbers(a, np.float64) for a in (x, dx, g)]
    found = SMOOTH.forward(params, arrays[0]), SMOOTH.jvp(params, *arrays[:2]), *SMOOTH.vjp(params, arrays[0], arrays[2])
    spec = MEANING["smooth_max_pool"]
    exact = spec.forward(params, x), spec.jvp(params, x, each(float, dx)), *spec.vjp(params, x, each(float, g))
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other.astype(float), rtol=1e-12, atol=1e-12)
