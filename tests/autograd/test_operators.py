"""Operators and methods of traced values: the values of NumPy, the gradients of PyTorch, and exact over fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.array_cases import keys, shapes
from support.strategies import arrays, fractions
from windowgrad.autograd.arrays.indexing import expanded, indexing

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4))
ROWS, COLUMNS = np.array([1, 0, 1]), np.array([[2], [0]])

SAME = {
    # written once, and run on NumPy arrays, traced values and tensors
    "a power": lambda x: x**3,
    "a power of a power": lambda x: (x**2) ** 0.5,
    "a number to a power": lambda x: 2**x,
    "a sign": lambda x: -x + +x * 2,
    "abs": abs,
    "an integer": lambda x: x[1],
    "integers": lambda x: x[-1, 0, 2],
    "a slice": lambda x: x[:, 1:],
    "a slice with a step": lambda x: x[..., ::2],
    "a new axis": lambda x: x[None, :, 0],
    "rows, one twice": lambda x: x[[1, 0, 1]],
    "a list among slices": lambda x: x[:, [2, 2], 1:3],
    "the first rows": lambda x: sum(part * i for i, part in enumerate(x)),
    "its length": lambda x: x * len(x),
    "unpacking": lambda x: (lambda a, b: a * b)(*x),
    "a matrix product": lambda x: x[0] @ x[1].T,
    "products of stacked matrices": lambda x: x @ x.reshape(2, 4, 3),
    "a vector product": lambda x: x @ x[0, 0],
    "a product from the left": lambda x: x[0, 0] @ x.reshape(2, 4, 3),
    "sums": lambda x: x.sum() + x.sum(0) + x.sum(-1, keepdims=True),
    "means": lambda x: x.mean() - x.mean(1, keepdims=True),
    "ravel": lambda x: x.ravel()[3:],
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(4, -1) + x.reshape((4, 6)),
    "a mask": lambda x: x[np.array([False, True])] * 2,
}


def weighted(y):
    """A function of all cells, in which no two count the same."""
    weights = np.linspace(1, 2, int(np.prod(y.shape, dtype=int))).reshape(tuple(y.shape))
    return (y * (torch.from_numpy(weights) if isinstance(y, torch.Tensor) else weights)).sum()


@pytest.mark.parametrize("name", SAME)
def test_what_is_written_for_numpy_runs_on_traced_values(name):
    f = SAME[name]
    seen = {}

    def value_of(x):
        seen["value"] = y = f(x)
        return weighted(y)

    positive = np.abs(X) + 0.1 if name == "a power of a power" else X
    expected = np.asarray(f(positive))
    _, moved = wg.jvp(f, (positive,), (X,))
    gradient = wg.grad(value_of)(positive)
    found = seen["value"].value
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.allclose(found, expected, rtol=1e-14)
    t = torch.from_numpy(positive).requires_grad_()
    (theirs,) = torch.autograd.grad(weighted(f(t)), t)
    assert np.allclose(gradient, theirs, rtol=1e-12)
    assert np.isclose(weighted(moved), np.sum(gradient * X), rtol=1e-12)
    square = wg.hvp(lambda x: weighted(f(x) ** 2), (positive,), (X,))[0]
    (first,) = torch.autograd.grad(weighted(f(t) ** 2), t, create_graph=True)
    (second,) = torch.autograd.grad((first * torch.from_numpy(X)).sum(), t)
    assert np.allclose(square, second, rtol=1e-10)


def test_methods_with_other_names_in_pytorch():
    for ours, theirs in (
        (lambda x: x.transpose((1, 0, 2)), lambda x: x.permute(1, 0, 2)),
        (lambda x: x.transpose(1, 0, 2), lambda x: x.permute(1, 0, 2)),
        (lambda x: x.transpose(), lambda x: x.permute(2, 1, 0)),
        (lambda x: x.T, lambda x: x.permute(2, 1, 0)),
        (lambda x: x.max(), lambda x: x.amax()),
        (lambda x: x.max(1, True), lambda x: x.amax(1, True)),
        (lambda x: x.min((0, 2)), lambda x: x.amin((0, 2))),
        (lambda x: x[ROWS, COLUMNS], lambda x: x[torch.from_numpy(ROWS), torch.from_numpy(COLUMNS)]),
        (lambda x: x[ROWS, :, COLUMNS], lambda x: x[torch.from_numpy(ROWS), :, torch.from_numpy(COLUMNS)]),
        (lambda x: x[:, ROWS, ..., 1], lambda x: x[:, torch.from_numpy(ROWS), 1].permute(1, 0)),
        (lambda x: x[x > 0], lambda x: x[x > 0]),
        (lambda x: x[:, 1::-1], lambda x: x.flip(1)[:, 1:]),
        (lambda x: x.astype(np.float32).astype("float64"), lambda x: x.to(torch.float32).to(torch.float64)),
    ):
        t = torch.from_numpy(X).requires_grad_()
        value, gradient = wg.value_and_grad(lambda x, f=ours: (f(x) ** 2).sum())(X)
        expected = (theirs(t) ** 2).sum()
        assert np.isclose(value, expected.item(), rtol=1e-12)
        assert np.allclose(gradient, torch.autograd.grad(expected, t)[0], rtol=1e-12)


@given(data=st.data())
def test_an_index_is_numpys_and_exact(data):
    """The value and shape of x[key]; ⟨g, J·dx⟩ = ⟨Jᵀ·g, dx⟩ over fractions."""
    shape = data.draw(shapes())
    x, dx = (data.draw(arrays(shape, fractions())) for _ in range(2))
    key = data.draw(keys(shape))
    expected = np.asarray(x[key], dtype=object)
    assert indexing(expanded(key, shape)).out_shape(shape) == expected.shape
    y, pull = wg.vjp(lambda x: x[key], x)
    assert (y.shape, y.tolist()) == (expected.shape, expected.tolist())
    g = data.draw(arrays(expected.shape, fractions()))
    _, dy = wg.jvp(lambda x: x[key], (x,), (dx,))
    (gx,) = pull(g)
    assert np.sum(g * dy) == np.sum(gx * dx)
    assert gx.shape == shape


@given(data=st.data())
def test_several_arrays_in_a_key_are_placed_as_numpy_places_them(data):
    shape = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=4).map(tuple))
    rows = [np.array(data.draw(st.sampled_from([[0], [-1, 0], [[0], [-1]], [[0, 0]]]))) for _ in shape]
    kinds = [data.draw(st.sampled_from(["rows", "one", "cut", "new"])) for _ in shape]
    key = []
    for kind, part in zip(kinds, rows, strict=True):
        key += {"rows": [part], "one": [0], "cut": [slice(None, None, -1)], "new": [None, slice(None)]}[kind]
    x = np.arange(np.prod(shape)).reshape(shape).astype(float)
    expected = np.asarray(x[tuple(key)])
    found = wg.vjp(lambda x: x[tuple(key)], x)[0]
    assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())


def test_winners_that_tie_share_over_all_axes():
    x = np.array([[Fraction(3), Fraction(1), Fraction(3)], [Fraction(2), Fraction(3), Fraction(0)]])
    third, half = Fraction(1, 3), Fraction(1, 2)
    assert wg.grad(lambda x: x.max())(x).tolist() == [[third, 0, third], [0, third, 0]]
    assert wg.grad(lambda x: x.max(1).sum())(x).tolist() == [[half, 0, half], [0, 1, 0]]
    assert wg.grad(lambda x: x.min(0).sum())(x.astype(float)).tolist() == [[0, 1, 0], [1, 0, 1]]
    assert wg.grad(lambda x: abs(x).sum())(np.array([-2.0, 0.0, -0.0, 3.0])).tolist() == [-1, 0, 0, 1]


@pytest.mark.parametrize("kind", [float, np.float16, object])
def test_nan_wins_and_shares_with_nan(kind):
    x = np.array([[1.0, np.nan, np.nan], [2.0, 3.0, -1.0]], kind)
    for name in ("max", "min"):
        assert np.isnan(getattr(wg, name)(x, 1).astype(float)).tolist() == [True, False]
        gradient = wg.grad(lambda x, name=name: getattr(x, name)(1)[0])(x)
        assert gradient.tolist() == [[0, 0.5, 0.5], [0, 0, 0]]


def test_more_winners_than_float16_has_numbers():
    x = np.zeros(1 << 17, np.float16)
    g = wg.vjp(wg.max, x)[1](np.asarray(np.float16(64)))[0]
    assert g.dtype == np.float16
    assert set(g.tolist()) == {64 / 2**17}


def test_the_first_of_two_zeros_wins():
    for x in (np.array([[-0.0, 0.0]]), np.array([[0.0, -0.0]])):
        for layout in (x, np.asfortranarray(x), x[:, ::-1][:, ::-1]):
            assert np.signbit(wg.max(layout)) == np.signbit(wg.min(layout, 1)).all() == np.signbit(x[0, 0])


def test_a_traced_value_is_iterated_and_counted_as_an_array():
    tape = wg.Tape()
    x = tape.leaf(X, name="x")
    assert len(x) == 2
    assert [part.shape for part in x] == [(3, 4), (3, 4)]
    assert x[0].value.base is X  # a view, as NumPy's
    assert str(tape).count("index(key=[0, :, :])") == 2  # one by the loop, one here
    assert x.astype(float) is x
    assert (+x) is x


def test_indices_that_are_used_again_cost_no_new_records():
    tape = wg.Tape()
    x = tape.leaf(X)
    assert x[0].node.params is x[0].node.params
    assert x[0, 1:].node.params is x[0, 1:].node.params
    assert x[ROWS].node.params is not x[ROWS].node.params  # an array is a new constant each time
