"""The laws of the array operators: with == over fractions, to 50 digits where exp and log are needed."""

from decimal import localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowgrad as wg
from support.array_cases import OPS, cases, shapes
from support.laws import (
    close,
    derivatives_are_linear,
    each,
    flat,
    jvp_is_forward_on_duals,
    linear_in,
    linear_is_its_own_derivative,
    vjp_is_adjoint_of_jvp,
)
from support.strategies import arrays, decimals, fractions, small_ints
from windowgrad.spec import Dual

few = settings(max_examples=settings().max_examples // 5)  # there are many operators

EXACT = [op for op in OPS.values() if op.exact]
SMOOTH = [op for op in OPS.values() if not op.exact]
LINEAR = [op for op in EXACT if op.linear]

every_op = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
every_exact_op = pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)
every_linear_op = pytest.mark.parametrize("op", LINEAR, ids=lambda op: op.name)


@pytest.fixture(autouse=True, scope="module")
def sixty_digits():
    with localcontext(prec=60):
        yield


def scalars(op):
    return fractions() if op.exact else decimals()


def agree(op, left, right):
    return left == right if op.exact else close(left, right)


@every_op
@few
@given(data=st.data())
def test_vjp_is_the_adjoint_of_jvp(op, data):
    case = data.draw(cases(op, scalars(op)))
    left, right = vjp_is_adjoint_of_jvp(*case)
    assert agree(op, left, right)


@every_op
@few
@given(data=st.data())
def test_jvp_is_forward_on_dual_numbers(op, data):
    case = data.draw(cases(op, scalars(op)))
    assert agree(op, *jvp_is_forward_on_duals(*case))


@every_op
@few
@given(data=st.data())
def test_derivatives_are_linear(op, data):
    left, right = derivatives_are_linear(*data.draw(cases(op, scalars(op))))
    assert agree(op, flat(left) if not op.exact else left, flat(right) if not op.exact else right)


@every_exact_op
@few
@given(data=st.data())
def test_fractions_stay_fractions(op, data):
    op, params, xs, dxs, g = data.draw(cases(op, fractions()))
    results = [op.forward(params, *xs), op.jvp(params, *xs, *dxs), *op.vjp(params, *xs, g)]
    assert {type(cell) for result in results for cell in result.flat} == {Fraction}
    assert {result.dtype for result in results} == {np.dtype(object)}


@every_op
@few
@given(data=st.data())
def test_the_derivative_of_jvp_is_forward_on_duals_of_duals(op, data):
    """d/dε of J(x + ε·e)·dx is the mixed tangent of forward on (x + ε·e) + δ·dx."""
    held, params, xs, dxs, _ = data.draw(cases(op, scalars(op)))
    es = [data.draw(arrays(x.shape, scalars(op))) for x in xs]
    moved = [each(Dual, x, e) for x, e in zip(xs, es, strict=True)]
    still = [each(lambda d: Dual(d, 0), dx) for dx in dxs]
    nested = held.forward(params, *(each(Dual, x, dx) for x, dx in zip(moved, still, strict=True)))
    found = each(tangent, held.jvp(params, *moved, *still))
    expected = each(lambda cell: tangent(tangent(cell)), nested)
    assert agree(op, found.tolist() if found.ndim else [found.item()], expected.tolist() if found.ndim else [expected.item()])


@every_op
@few
@given(data=st.data())
def test_the_derivative_of_vjp_agrees_with_the_derivative_of_jvp(op, data):
    """⟨g, d/dε J(x + εe)·dx⟩ = ⟨d/dε J(x + εe)ᵀ·g, dx⟩."""
    held, params, xs, dxs, g = data.draw(cases(op, scalars(op)))
    es = [data.draw(arrays(x.shape, scalars(op))) for x in xs]
    moved = [each(Dual, x, e) for x, e in zip(xs, es, strict=True)]
    pushed = held.jvp(params, *moved, *(each(lambda d: Dual(d, 0), dx) for dx in dxs))
    pulled = held.vjp(params, *moved, each(lambda c: Dual(c, 0), g))
    left = sum(c * tangent(p) for c, p in zip(g.flat, pushed.flat, strict=True))
    right = sum(tangent(p) * d for gx, dx in zip(pulled, dxs, strict=True) for p, d in zip(gx.flat, dx.flat, strict=True))
    assert agree(op, left, right)


@few
@given(data=st.data())
def test_powers_with_whole_exponents_are_exact(data):
    """J·dx is the tangent of powers of dual numbers, and ⟨g, J·dx⟩ = ⟨Jᵀ·g, dx⟩, of negative fractions too."""
    shape = data.draw(shapes(least=1))
    x, dx, g = (data.draw(arrays(shape, fractions())) for _ in range(3))
    exponents = np.asarray(data.draw(arrays(shape, small_ints())), dtype=object) % 5

    def f(x):
        return wg.power(x, exponents)

    y, dy = wg.jvp(f, (x,), (dx,))
    duals = f(each(Dual, x, dx))
    assert [(cell.value, cell.tangent) for cell in duals.flat] == list(zip(y.flat, dy.flat, strict=True))
    (gx,) = wg.vjp(f, x)[1](g)
    assert sum((g * dy).flat) == sum((gx * dx).flat)
    (second,) = wg.hvp(lambda x: wg.sum(f(x)), (x,), (dx,))
    falling = exponents * (exponents - 1)
    assert second.tolist() == (falling * wg.power(x, np.where(falling == 0, 0, exponents - 2)) * dx).tolist()


def tangent(cell):
    """What is no dual number is a constant."""
    return cell.tangent if isinstance(cell, Dual) else 0


# --- linear operators --------------------------------------------------------------------------------------------


@every_linear_op
@few
@given(data=st.data())
def test_a_linear_operator_is_linear_in_each_of_its_inputs(op, data):
    for place in range(len(op.inputs)):
        left, right = linear_in(place, *data.draw(cases(op, fractions())))
        assert left == right


@pytest.mark.parametrize("op", [op for op in LINEAR if len(op.inputs) == 1], ids=lambda op: op.name)
@few
@given(data=st.data())
def test_a_linear_operator_is_its_own_derivative(op, data):
    left, right = linear_is_its_own_derivative(*data.draw(cases(op, fractions())))
    assert left == right


# --- numbers and objects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in EXACT if op.name != "cast"], ids=lambda op: op.name)
@few
@given(data=st.data())
def test_machine_numbers_give_what_fractions_give(op, data):
    """All three rules, over integers small enough for floats to hold every result but a quotient."""
    op, params, xs, dxs, g = data.draw(cases(op, small_ints()))

    def results(kind):
        a, da, h = ([array.astype(kind) for array in group] for group in (xs, dxs, [g]))
        return [op.forward(params, *a), op.jvp(params, *a, *da), *op.vjp(params, *a, *h)]

    for numbers, objects in zip(results(np.float64), results(object), strict=True):
        assert (numbers.shape, numbers.dtype) == (objects.shape, np.float64)
        assert np.allclose(numbers, objects.astype(np.float64), rtol=1e-14, atol=1e-13)
        if op.name not in ("divide", "mean", "mse"):
            assert numbers.tolist() == objects.astype(np.float64).tolist()


@pytest.mark.parametrize("op", SMOOTH, ids=lambda op: op.name)
@few
@given(data=st.data())
def test_machine_numbers_give_what_decimals_give(op, data):
    op, params, xs, dxs, g = data.draw(cases(op, decimals()))

    def results(kind):
        a, da, h = ([array.astype(kind) for array in group] for group in (xs, dxs, [g]))
        return [op.forward(params, *a), op.jvp(params, *a, *da), *op.vjp(params, *a, *h)]

    for numbers, objects in zip(results(np.float64), results(object), strict=True):
        assert (numbers.shape, numbers.dtype) == (objects.shape, np.float64)
        assert np.allclose(numbers, objects.astype(np.float64), rtol=1e-12, atol=1e-12)
