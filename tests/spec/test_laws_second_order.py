"""Dual numbers of dual numbers: the derivative of a JVP, exactly, over fractions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.laws import dual, each, listed
from support.strategies import arrays, cases, distinct, fractions
from windowgrad.ops import OPS
from windowgrad.spec import Dual

EXACT = [op for op in OPS.values() if op.exact]


def tangent(cell):
    """What is no dual number is a constant."""
    return cell.tangent if isinstance(cell, Dual) else 0


@pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)
@given(data=st.data())
def test_the_derivative_of_jvp_is_forward_on_duals_of_duals(op, data):
    """d/dε of J(x + ε·e)·dx is the mixed tangent of forward on (x + ε·e) + δ·dx."""
    params, xs, dxs, _ = data.draw(cases(op, distinct(), tangents=fractions()))
    es = [data.draw(arrays(x.shape, fractions())) for x in xs]
    moved = dual(xs, es)
    still = [each(lambda d: Dual(d, 0), dx) for dx in dxs]
    nested = op.forward(params, *dual(moved, still))
    expected = each(lambda cell: tangent(tangent(cell)), nested)
    assert listed(each(tangent, op.jvp(params, *moved, *still))) == listed(expected)


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@given(data=st.data())
def test_the_second_derivative_of_convolution_is_its_bilinear_form(name, data):
    """f(x + εe, w + δu) has the mixed derivative f(e, u), since it is bilinear."""
    op = OPS[name]
    params, (x, w, *_), (e, u, *_), _ = data.draw(cases(op, fractions()))
    moved = each(lambda a, b: Dual(Dual(a, b), 0), x, e)
    turned = each(lambda a, b: Dual(Dual(a, 0), Dual(b, 0)), w, u)
    mixed = each(lambda cell: tangent(tangent(cell)), op.forward(params, moved, turned))
    assert listed(mixed) == listed(op.forward(params, e, u))


@given(data=st.data())
def test_the_derivative_of_vjp_agrees_with_the_derivative_of_jvp(data):
    """⟨g, d/dε J(x + εe)·dx⟩ = ⟨d/dε J(x + εe)ᵀ·g, dx⟩ for convolution, in x and weight together."""
    op = OPS["conv"]
    params, xs, dxs, g = data.draw(cases(op, fractions()))
    es = [data.draw(arrays(x.shape, fractions())) for x in xs]
    moved = [each(Dual, x, e) for x, e in zip(xs, es, strict=True)]
    pushed = op.jvp(params, *moved, *(each(lambda d: Dual(d, 0), dx) for dx in dxs))
    pulled = op.vjp(params, *moved, each(lambda c: Dual(c, 0), g))
    left = sum(c * tangent(p) for c, p in zip(g.flat, pushed.flat, strict=True))
    right = sum(tangent(p) * d for gx, dx in zip(pulled, dxs, strict=True) for p, d in zip(gx.flat, dx.flat, strict=True))
    assert left == right
