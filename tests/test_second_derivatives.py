"""Second derivatives of every window operator, in all four nestings of forward and backward mode, over exact scalars."""

from decimal import localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import close, dot, each
from strategies import arrays, cases, decimals, distinct, fractions

import windowgrad as wg
from windowgrad.ops import OPS
from windowgrad.spec import Dual

EXACT = [op for op in OPS.values() if op.exact]


def tangent(cell):
    """What is no dual number is a constant."""
    return cell.tangent if isinstance(cell, Dual) else 0


def by_duals(f, xs, dxs, es):
    """D²f[dx, e] as the mixed tangent of f on duals of duals: (x + ε·e) + δ·dx."""
    moved = [each(lambda a, b, c: Dual(Dual(a, b), Dual(c, 0)), x, e, dx) for x, e, dx in zip(xs, es, dxs, strict=True)]
    return each(lambda cell: tangent(tangent(cell)), f(*moved))


def nestings(f, xs, dxs, es, g):
    """⟨g, D²f[dx, e]⟩ by forward over forward, forward over backward, backward over forward, backward over backward."""

    def pushed(*xs):
        return wg.jvp(f, xs, dxs)[1]

    def pulled(*xs):
        return wg.vjp(f, *xs)[1](g)

    def total(parts, others):
        return sum(dot(part, other) for part, other in zip(parts, others, strict=True))

    yield dot(g, wg.jvp(pushed, xs, es)[1])
    yield total(wg.jvp(pulled, xs, es)[1], dxs)
    yield total(wg.vjp(pushed, *xs)[1](g), es)
    yield total(wg.vjp(pulled, *xs)[1](tuple(dxs)), es)


@pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)
@given(data=st.data())
def test_all_nestings_give_the_mixed_tangent_of_duals_of_duals(op, data):
    params, xs, dxs, g = data.draw(cases(op, distinct(), tangents=fractions()))
    es = [data.draw(arrays(x.shape, fractions())) for x in xs]

    def f(*xs):
        return op.forward(params, *xs)

    assert set(nestings(f, xs, dxs, es, g)) == {dot(g, by_duals(f, xs, dxs, es))}


@given(data=st.data())
def test_all_nestings_of_smooth_max_give_the_mixed_tangent_of_duals_of_duals(data):
    with localcontext() as context:
        context.prec = 60
        params, xs, dxs, g = data.draw(cases(OPS["smooth_max_pool"], decimals()))
        es = [data.draw(arrays(x.shape, decimals())) for x in xs]

        def f(x):
            return OPS["smooth_max_pool"].forward(params, x)

        expected = dot(g, by_duals(f, xs, dxs, es))
        for found in nestings(f, xs, dxs, es, g):
            assert close(found, expected)


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
