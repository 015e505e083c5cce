"""A gradient that nobody asked for is not computed, whatever kind of array the operator is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch, routes
from windowgrad.autograd.arrays import arithmetic
from windowgrad.autograd.arrays.arithmetic import PAIR
from windowgrad.autograd.pushing import Pushed
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import entry
from windowgrad.ops import OPS
from windowgrad.params import ConvParams

PARAMS = ConvParams(Sliding((2,), stride=(1,)))
RNG = np.random.default_rng(0)
X, W, B, G = (RNG.standard_normal(shape) for shape in ((1, 2, 5), (3, 2, 2), (3,), (1, 3, 4)))
PLAIN = OPS["conv"].vjp(PARAMS, X, W, B, G)
CHOICES = [(True, False, False), (False, True, False), (False, False, True), (True, True, False)]


@pytest.fixture
def computed(monkeypatch):
    """The `needs` of every gradient of a convolution that a kernel computes from now on."""
    seen: list[Any] = []
    find = routes.kernel_of

    def spied(op: Any, rule: str) -> Any:
        kernel = find(op, rule)

        def run(*args: Any, **told: Any) -> Any:
            if rule == "vjp":
                seen.append(told.get("needs", "all"))
            return kernel(*args, **told)

        return run

    monkeypatch.setattr(routes, "kernel_of", spied)
    monkeypatch.setattr(dispatch, "READY", False)  # a prepared call asks for no kernel
    return seen


def agree(found, needs, value=lambda part: part):
    assert [part is not None for part in found] == list(needs)
    for mine, yours, need in zip(found, PLAIN, needs, strict=True):
        assert not need or np.allclose(value(mine), yours)


@pytest.mark.parametrize("needs", CHOICES, ids=str)
class TestOnlyWhatIsNeeded:
    def test_of_numpy_arrays(self, needs, computed):
        agree(OPS["conv"].vjp(PARAMS, X, W, B, G, needs=needs), needs)
        assert computed == [needs]

    def test_of_calls_that_were_prepared(self, needs, monkeypatch):
        calls = []

        def noting(make):
            def made(*args):
                call = make(*args)
                return lambda *arrays: calls.append(args) or call(*arrays)

            return made

        for name in ("prepared", "summing"):  # of x and of the weight, of the bias
            monkeypatch.setattr(entry, name, noting(getattr(entry, name)))
        ready = entry.prepare("vjp", PARAMS, *((a.shape, a.dtype) for a in (X, W, B, G)))
        agree(ready(X, W, B, G, needs=needs), needs)
        assert len(calls) == sum(needs)
        agree(OPS["conv"].vjp(PARAMS, X, W, B, G, needs=needs), needs)

    def test_of_variables_of_a_tape_which_has_a_node_for_each(self, needs, computed):
        tape = wg.Tape()
        xs = [tape.leaf(a) for a in (X, W, B, G)]
        agree(OPS["conv"].vjp(PARAMS, *xs, needs=needs), needs, lambda var: var.value)
        assert [sum(each) for each in computed] == [1] * sum(needs)
        assert len(tape.nodes) == 4 + sum(needs)

    def test_of_values_with_tangents(self, needs, computed):
        xs = [Pushed(99, a, None) for a in (X, W, B, G)]
        agree(OPS["conv"].vjp(PARAMS, *xs, needs=needs), needs, lambda pushed: pushed.value)
        assert computed == [needs]

    def test_of_tensors(self, needs, computed):
        import torch

        xs = [torch.from_numpy(a) for a in (X, W, B, G)]
        agree(OPS["conv"].vjp(PARAMS, *xs, needs=needs), needs, lambda tensor: tensor.numpy())
        assert computed == [needs]

    def test_of_tensors_that_require_a_gradient(self, needs, computed):
        import torch

        xs = [torch.from_numpy(a.copy()).requires_grad_() for a in (X, W, B, G)]
        agree(OPS["conv"].vjp(PARAMS, *xs, needs=needs), needs, lambda tensor: tensor.detach().numpy())
        assert computed == [needs]

    def test_of_jax_arrays(self, needs, computed):
        import jax

        xs = [jax.numpy.asarray(a) for a in (X, W, B, G)]
        found = OPS["conv"].vjp(PARAMS, *xs, needs=needs)
        assert [part is not None for part in found] == list(needs)
        assert computed == [needs]

    def test_of_dask_arrays(self, needs, computed, monkeypatch):
        import dask.array as da

        from windowgrad.bridges.dask.convolution import Convolution

        built = []
        for name in ("input_gradient", "weight_gradient", "bias_gradient"):
            right = getattr(Convolution, name)
            monkeypatch.setattr(Convolution, name, lambda *args, name=name, right=right: built.append(name) or right(*args))
        xs = [da.from_array(a, chunks=-1) for a in (X, W, B, G)]
        agree(OPS["conv"].vjp(PARAMS, *xs, needs=needs), needs, lambda lazy: lazy.compute(scheduler="sync"))
        assert len(built) == sum(needs)


class Old:
    """An array of the user's own, by the method of four arguments."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype, self.ndim, self.size = array, array.shape, array.dtype, array.ndim, array.size

    def __windowgrad__(self, op, rule, params, arrays):
        result = dispatch.run(op, rule, params, *(a.array if isinstance(a, Old) else a for a in arrays))
        return tuple(map(type(self), result)) if isinstance(result, tuple) else type(self)(result)


class New(Old):
    """One that wants to know which gradients are needed."""

    def __windowgrad__(self, op, rule, params, arrays, needs=None):
        result = dispatch.run(op, rule, params, *(a.array if isinstance(a, Old) else a for a in arrays), needs=needs)
        return tuple(None if part is None else New(part) for part in result) if isinstance(result, tuple) else New(result)


class Forwarding(New):
    """One that hands on whatever it is told."""

    def __windowgrad__(self, *args, **told):
        return New.__windowgrad__(self, *args, **told)


@pytest.mark.parametrize("needs", CHOICES, ids=str)
@pytest.mark.parametrize(("kind", "told"), [(Old, False), (New, True), (Forwarding, True)])
def test_an_array_type_of_the_users_own_is_told_if_its_method_takes_needs(kind, told, needs, computed):
    agree(OPS["conv"].vjp(PARAMS, kind(X), W, B, G, needs=needs), needs, lambda own: own.array)
    assert computed == [needs if told else "all"]


@pytest.mark.parametrize("kind", [Old, New])
def test_of_a_backward_pass_only_what_leads_to_a_leaf_is_computed(kind, computed):
    tape = wg.Tape()
    w = tape.leaf(kind(W))
    found = tape.backward(wg.sum(wg.conv1d(X, w)))[w]
    assert np.array_equal(found.array, wg.grad(lambda w: wg.sum(wg.conv1d(X, w)))(W))
    assert computed[0] == ("all" if kind is Old else (False, True))


def test_the_second_derivative_of_a_convolution_leaves_away_what_nobody_asked_for(computed):
    """In w alone the convolution is linear, so there is nothing but the gradient of w itself."""

    def loss(w):
        y = wg.conv1d(X, w)
        return wg.sum(y * y)

    found = wg.hvp(loss, (W,), (np.ones_like(W),))
    assert computed
    assert all(needs == (False, True) for needs in computed)
    slope = (wg.grad(loss)(W + 0.5) - wg.grad(loss)(W - 0.5)) / 1.0
    assert np.allclose(found[0] if isinstance(found, tuple) else found, slope)


def test_of_a_tensor_too(computed):
    import torch

    w = torch.from_numpy(W.copy()).requires_grad_()
    y = wg.conv1d(torch.from_numpy(X), w)
    (first,) = torch.autograd.grad((y * y).sum(), w, create_graph=True)
    torch.autograd.grad(first.sum(), w)
    assert computed
    assert all(needs == (False, True) for needs in computed)


@pytest.mark.parametrize(
    "op", [arithmetic.ADD, arithmetic.SUBTRACT, arithmetic.MULTIPLY, arithmetic.DIVIDE], ids=lambda op: op.name
)
@pytest.mark.parametrize("needs", [(True, False), (False, True)], ids=str)
def test_array_operators_give_one_gradient_as_they_give_both(op, needs):
    a, b, g = (RNG.standard_normal((2, 3)) for _ in range(3))
    both, one = op.vjp(PAIR, a, b, g), op.vjp(PAIR, a, b, g, needs=needs)
    assert [part is not None for part in one] == list(needs)
    assert all(not need or np.array_equal(x, y) for x, y, need in zip(one, both, needs, strict=True))


def test_a_layer_of_weights_does_not_compute_the_gradient_of_its_data(monkeypatch):
    """matmul(data, w): one product for the value and one for the gradient of w."""
    made = []
    right = arithmetic.matmul
    monkeypatch.setattr(arithmetic, "matmul", lambda a, b: made.append((a.shape, b.shape)) or right(a, b))
    data, w = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 2))
    found = wg.grad(lambda w: wg.sum(right(data, w)))(w)
    assert np.allclose(found, data.sum(0)[:, None])
    assert made == [((3, 4), (4, 2))]
