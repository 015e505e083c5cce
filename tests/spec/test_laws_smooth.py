"""The laws of smooth max. It needs exp and log, so it is tried over decimals of 60 digits and compared to 50."""

from dataclasses import replace
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.laws import close, dual, each, forward_is_the_definition, jvp_is_forward_on_duals, vjp_is_adjoint_of_jvp
from support.strategies import arrays, cases, decimals, leads, mapped, slidings, small_ints, spatial_sizes
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, SmoothParams
from windowgrad.spec import Dual

SMOOTH, MAX = OPS["smooth_max_pool"], OPS["max_pool"]
TINY = Decimal("1e-50")


@pytest.fixture(autouse=True, scope="module")
def sixty_digits():
    with localcontext(prec=60):
        yield


@given(data=st.data())
def test_vjp_is_the_adjoint_of_jvp(data):
    assert close(*vjp_is_adjoint_of_jvp(SMOOTH, *data.draw(cases(SMOOTH, decimals()))))


@given(data=st.data())
def test_jvp_is_forward_on_dual_numbers(data):
    assert close(*jvp_is_forward_on_duals(SMOOTH, *data.draw(cases(SMOOTH, decimals()))))


@given(data=st.data())
def test_forward_is_the_definition_said_naively(data):
    assert close(*forward_is_the_definition(SMOOTH, *data.draw(cases(SMOOTH, decimals()))))


@given(case=cases(SMOOTH, decimals()))
def test_a_negative_beta_is_the_smooth_minimum(case):
    """smooth(x, −β) = −smooth(−x, β)."""
    params, (x,), _, _ = case
    turned = SMOOTH.forward(replace(params, beta=-params.beta), each(lambda c: -c, x))
    assert close(SMOOTH.forward(params, x).tolist(), each(lambda c: -c, turned).tolist())


@given(data=st.data())
def test_without_padding_it_tends_to_max_as_beta_grows(data):
    """max ≤ smooth ≤ max + log(n)/β, so a large β leaves nothing between them."""
    spatial = data.draw(spatial_sizes(data.draw(st.integers(1, 3))))
    x = data.draw(arrays((*data.draw(leads()), *spatial), decimals()))
    geometry = data.draw(slidings(spatial))
    hard = MAX.forward(MaxParams(geometry), x)
    for beta in (10**3, 10**9, 10**30):
        smooth = SMOOTH.forward(SmoothParams(geometry, beta, count_include_pad=False), x)
        slack = Decimal(x.size).ln() / beta
        assert all(-TINY <= s - h <= slack + TINY for s, h in zip(smooth.flat, hard.flat, strict=True))


@given(data=st.data())
def test_counted_padding_is_a_zero_that_joins_the_maximum(data):
    """As β grows it tends to max(x, 0) in a window that covers padding, which is not what hard max pooling gives."""
    x = data.draw(arrays((5,), mapped(small_ints(), lambda n: Decimal(-abs(n) - 1))))
    params = SmoothParams(Sliding((2,), 1, 1), 10**6)
    first, *inner, last = SMOOTH.forward(params, x).tolist()
    assert abs(first) <= TINY
    assert abs(last) <= TINY
    assert all(value < 0 for value in inner)


@given(data=st.data())
def test_the_weights_of_a_window_sum_to_one(data):
    """A tangent of ones gives one wherever a window has a cell and no padding counts."""
    params, (x,), _, _ = data.draw(cases(SMOOTH, decimals()))
    params = replace(params, count_include_pad=False)
    pushed = SMOOTH.jvp(params, x, each(lambda _: Decimal(1), x))
    covered = MAX.jvp(MaxParams(params.geometry), x, each(lambda _: Decimal(1), x))
    assert close(pushed.tolist(), covered.tolist())


@given(data=st.data())
def test_adaptive_to_a_divisor_is_sliding_and_global_is_adaptive_to_one(data):
    bins = data.draw(spatial_sizes(data.draw(st.integers(1, 3))))
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in bins)
    x = data.draw(arrays([k * m for k, m in zip(kernel, bins, strict=True)], decimals()))
    same = [(Adaptive(bins), Sliding(kernel)), (Global(len(bins)), Adaptive((1,) * len(bins)))]
    for one, other in same:
        assert close(*(SMOOTH.forward(SmoothParams(g, 2), x).tolist() for g in (one, other)))


@given(case=cases(SMOOTH, decimals()))
def test_second_order_the_derivative_of_jvp_is_forward_on_duals_of_duals(case):
    """Along dx and then along g's own direction: both orders of nesting name the same mixed derivative."""
    params, (x,), (dx,), _ = case
    ones = each(lambda _: Decimal(1), x)
    inner = dual([x], [ones])[0]
    by_jvp = SMOOTH.jvp(params, inner, each(lambda d: Dual(d, Decimal(0)), dx))
    nested = SMOOTH.forward(params, each(lambda a, d: Dual(a, Dual(d, Decimal(0))), inner, dx))
    mixed = each(lambda c: part(part(c, "tangent"), "tangent"), nested)
    assert close(each(lambda c: part(c, "tangent"), by_jvp).tolist(), mixed.tolist())


def part(cell, name):
    """The value or tangent of a cell; what is no dual number is a constant."""
    return getattr(cell, name, 0 if name == "tangent" else cell)
