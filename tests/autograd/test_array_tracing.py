"""Derivatives of any order: the rules are made of operators, so what records them can be differentiated again."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import windowgrad as wg
from support.array_cases import OPS, cases
from support.laws import each
from support.strategies import arrays, fractions
from support.traced import Traced, gradients
from windowgrad.spec import Dual

few = settings(max_examples=settings().max_examples // 10)

RNG = np.random.default_rng(0)
X, Y, W = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=(3, 5))
B, LABELS = RNG.normal(size=5), np.array([0, 4, 2, 2])

FUNCTIONS = {
    # name: (ours, PyTorch's, arrays)
    "a product and a quotient": (
        lambda x, y: wg.sum(wg.divide(wg.multiply(x, x), wg.add(wg.multiply(y, y), 1))),
        lambda x, y: (x * x / (y * y + 1)).sum(),
        (X, Y),
    ),
    "broadcasting": (
        lambda w, b: wg.sum(wg.exp(wg.subtract(wg.multiply(w, b), wg.mean(w, 1, True)))),
        lambda w, b: torch.exp(w * b - w.mean(1, True)).sum(),
        (W, B),
    ),
    "functions of one cell": (
        lambda x, y: wg.sum(wg.multiply(wg.tanh(x), wg.multiply(wg.sigmoid(y), wg.log(wg.add(wg.multiply(x, x), 2.0))))),
        lambda x, y: (torch.tanh(x) * torch.sigmoid(y) * torch.log(x * x + 2.0)).sum(),
        (X, Y),
    ),
    "relu of a cube": (
        lambda x: wg.sum(wg.multiply(wg.relu(wg.multiply(x, wg.multiply(x, x))), wg.negative(x))),
        lambda x: (torch.relu(x * (x * x)) * -x).sum(),
        (X,),
    ),
    "a network and its loss": (
        lambda x, w, b: wg.cross_entropy(wg.add(wg.matmul(wg.tanh(x), w), b), LABELS),
        lambda x, w, b: torch.nn.functional.cross_entropy(torch.tanh(x) @ w + b, torch.from_numpy(LABELS)),
        (X, W, B),
    ),
    "log_softmax over columns": (
        lambda x, y: wg.sum(wg.multiply(wg.log_softmax(x, 0), wg.multiply(y, y))),
        lambda x, y: (torch.log_softmax(x, 0) * (y * y)).sum(),
        (X, Y),
    ),
    "powers, roots and softmax": (
        lambda x, y: wg.sum(wg.multiply(wg.softmax(x, 0), wg.power(wg.add(wg.sqrt(wg.exp(y)), 1), x))),
        lambda x, y: (torch.softmax(x, 0) * (torch.sqrt(torch.exp(y)) + 1) ** x).sum(),
        (X, Y),
    ),
    "what is chosen and joined": (
        lambda x, y: wg.sum(wg.power(wg.concatenate([wg.maximum(x, y), wg.where(X > 0, wg.multiply(x, y), y)], 1), 3)),
        lambda x, y: (torch.concatenate([torch.maximum(x, y), torch.where(torch.from_numpy(X) > 0, x * y, y)], 1) ** 3).sum(),
        (X, Y),
    ),
    "mse of shapes turned around": (
        lambda x, y: wg.mse(wg.reshape(wg.transpose(wg.multiply(x, y)), (2, -1)), wg.flatten(wg.reshape(x, (2, 2, 3)))),
        lambda x, y: torch.nn.functional.mse_loss((x * y).T.reshape(2, -1), x.reshape(2, 6)),
        (X, Y),
    ),
    "vectors and batches of matrices": (
        lambda x, w: wg.sum(wg.exp(wg.matmul(wg.matmul(wg.reshape(x, (2, 2, 3)), w), wg.sum(w, 0)))),
        lambda x, w: torch.exp(x.reshape(2, 2, 3) @ w @ w.sum(0)).sum(),
        (X, W),
    ),
}


def theirs(function, inputs, order):
    """PyTorch's gradients, of the sum of squares of the gradients for order 2."""
    xs = [torch.from_numpy(x).requires_grad_() for x in inputs]
    y = function(*xs)
    for _ in range(order - 1):
        first = torch.autograd.grad(y, xs, create_graph=True)
        y = sum((g * g).sum() for g in first)
    return [g.numpy() for g in torch.autograd.grad(y, xs)]


def ours(function, inputs, order):
    xs = [Traced(x) for x in inputs]
    y = function(*xs)
    for _ in range(order - 1):
        first = gradients(y, *xs)
        squares = [wg.sum(wg.multiply(g, g)) for g in first]
        y = squares[0]
        for square in squares[1:]:
            y = wg.add(y, square)
    return [g.value for g in gradients(y, *xs)]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_gradients_are_pytorchs(name, order):
    mine, yours, inputs = FUNCTIONS[name]
    for found, expected in zip(ours(mine, inputs, order), theirs(yours, inputs, order), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.exact], ids=lambda op: op.name)
@few
@given(data=st.data())
def test_the_gradient_of_the_gradient_is_that_of_dual_numbers_exactly(op, data):
    """∇ₓ⟨e, ∇ₓ⟨g, f(x)⟩⟩, recorded, is the tangent along e of the vjp over dual numbers: the Hessian is symmetric."""
    held, params, xs, es, g = data.draw(cases(op, fractions()))
    traced = [Traced(x) for x in xs]
    first = gradients(wg.sum(wg.multiply(held.forward(params, *traced), g)), *traced)
    along = Traced(np.zeros((), dtype=object))
    for part, e in zip(first, es, strict=True):
        along = along if part is None else wg.add(along, wg.sum(wg.multiply(part, e)))
    second = gradients(along, *traced)
    moved = held.vjp(params, *(each(Dual, x, e) for x, e in zip(xs, es, strict=True)), each(lambda c: Dual(c, 0), g))
    for found, expected in zip(second, moved, strict=True):
        tangents = each(lambda cell: cell.tangent if isinstance(cell, Dual) else 0, expected)
        assert (np.zeros_like(tangents) if found is None else found.value).tolist() == tangents.tolist()


@pytest.mark.parametrize("number", [2, 0.5, Fraction(1, 2), True, np.float32(3)])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_a_number_beside_a_traced_array_has_its_dtype(name, number):
    function, x = getattr(wg, name), np.array([1.5, -2.0], np.float32)
    for arguments, plain in (((Traced(x), number), (x, number)), ((number, Traced(x)), (number, x))):
        y = function(*arguments)
        assert isinstance(y, Traced)
        assert y.dtype == np.float32
        assert y.value.tolist() == function(*plain).tolist()


def test_a_traced_array_is_asked_wherever_it_stands():
    x = Traced(X)
    for y in (wg.add(X, x), wg.matmul(X.T, x), wg.mse(X, x), wg.cross_entropy(x, np.array([0, 1, 2, 0]))):
        assert isinstance(y, Traced)


@given(data=st.data())
@few
def test_a_gradient_flows_through_every_broadcast(data):
    shape = (2, 3)
    for part in ((2, 3), (3,), (1, 3), (2, 1), (1,), ()):
        x = data.draw(arrays(part, fractions()))
        a = Traced(x)
        (g,) = gradients(wg.sum(wg.add(a, np.zeros(shape, dtype=object))), a)
        assert g.value.tolist() == np.full(part, 6 // max(x.size, 1), dtype=object).tolist()
