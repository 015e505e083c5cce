"""Second derivatives of every window operator, in all four nestings of forward and backward mode, over exact scalars."""

from decimal import localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.laws import close, dot, each
from support.second_order import all_nestings_are_duals_of_duals, by_duals, nestings
from support.strategies import arrays, cases, decimals, distinct, fractions
from windowgrad.ops import OPS
from windowgrad.spec import Dual

EXACT = [op for op in OPS.values() if op.exact]


@pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)
@given(data=st.data())
def test_all_nestings_give_the_mixed_tangent_of_duals_of_duals(op, data):
    params, xs, dxs, g = data.draw(cases(op, distinct(), tangents=fractions()))
    es = [data.draw(arrays(x.shape, fractions())) for x in xs]
    found, expected = all_nestings_are_duals_of_duals(op, params, xs, dxs, es, g)
    assert found == expected


@given(data=st.data())
def test_all_nestings_of_smooth_max_give_the_mixed_tangent_of_duals_of_duals(data):
    with localcontext() as context:
        context.prec = 60
        params, xs, dxs, g = data.draw(cases(OPS["smooth_max_pool"], decimals()))
        es = [data.draw(arrays(x.shape, decimals())) for x in xs]
        assert close(*all_nestings_are_duals_of_duals(OPS["smooth_max_pool"], params, xs, dxs, es, g))


@pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)
@given(data=st.data())
def test_the_second_derivative_is_symmetric(op, data):
    params, xs, dxs, g = data.draw(cases(op, distinct(), tangents=fractions()))
    es = [data.draw(arrays(x.shape, fractions())) for x in xs]

    def f(*xs):
        return op.forward(params, *xs)

    assert list(nestings(f, xs, dxs, es, g)) == list(nestings(f, xs, es, dxs, g))


@given(data=st.data())
def test_the_third_derivative_of_smooth_max_is_that_of_duals_of_duals_of_duals(data):
    with localcontext() as context:
        context.prec = 60
        params, (x,), (dx,), g = data.draw(cases(OPS["smooth_max_pool"], decimals()))

        def f(x):
            return OPS["smooth_max_pool"].forward(params, x)

        def second(x):
            return wg.jvp(lambda x: wg.jvp(f, (x,), (dx,))[1], (x,), (dx,))[1]

        expected = by_duals(
            lambda moved: wg.jvp(f, (moved,), (each(lambda d: Dual(Dual(d, 0), Dual(0, 0)), dx),))[1], [x], [dx], [dx]
        )
        assert close(dot(g, wg.jvp(second, (x,), (dx,))[1]), dot(g, expected))
        assert close(dot(wg.vjp(second, x)[1](g)[0], dx), dot(g, expected))
