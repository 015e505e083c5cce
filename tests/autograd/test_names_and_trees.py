"""Names on a tape, trees of leaves, copies; Hessians, and what a function returns beside its result."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch

import windowgrad as wg


def test_nodes_of_a_block_are_named_and_its_last_has_a_gradient():
    tape = wg.Tape()
    x = tape.leaf(np.array([[1.0, -2.0, 3.0, 4.0]]), name="x")
    with tape.named("body"):
        with tape.named("stem"):
            y = wg.relu(x * 2)
        w = tape.leaf(np.array(3.0), name="w")
        z = wg.max_pool1d(y, 2) * w
    loss = wg.sum(z)
    assert [node.name for node in tape.nodes] == [
        "x",
        "body/stem/multiply",
        "body/stem",
        "body/w",
        "body/max_pool1d",
        "body",
        "sum",
    ]
    grads = tape.backward(loss)
    assert grads["body"].tolist() == [[1, 1]]
    assert grads["body/stem"].tolist() == [[3, 0, 0, 3]]
    assert grads["body/w"] == 10
    assert len(grads) == 4
    assert [var.id for var in tape.backward(loss, of=["body/stem"])] == [y.id]
    table = str(tape)
    assert "body/stem = relu" in table
    assert "body/max_pool1d(kernel=(2,), stride=(2,))" in table
    assert "body = multiply" in tape.to_svg()
    assert "body = multiply" in tape.to_dot()


def test_one_node_is_named():
    tape = wg.Tape()
    x = tape.leaf(np.array([1.0, 2.0]))
    y = x * x
    tape.name(y, "square")
    tape.name(0, "input")
    grads = tape.backward(wg.sum(y * 3))
    assert grads["square"].tolist() == [3, 3]
    assert grads["input"].tolist() == [6, 12]
    assert [node.name for node in tape.nodes[:2]] == ["input", "square"]
    assert repr(y) == "Var(1 square: float64(2,))"


def test_a_block_that_fails_names_nothing():
    tape = wg.Tape()
    x = tape.leaf(np.ones(2), name="x")
    with pytest.raises(wg.WindowError), tape.named("stem"):
        wg.max_pool1d(x * 2, 3)
    assert [node.name for node in tape.nodes] == ["x", "multiply"]
    with tape.named("stem"):
        wg.exp(x)
    assert tape.nodes[2].name == "stem"


@pytest.mark.parametrize("wrong", ["x", 3, None])
def test_a_name_must_be_new(wrong):
    tape = wg.Tape()
    x = tape.leaf(np.ones(2), name="x")
    said = "must be a string, different from the other names on the tape"
    for call in (lambda: tape.name(x, wrong), lambda: tape.named(wrong).__enter__()):
        with pytest.raises(wg.OptionError, match=said):
            call()
    with pytest.raises(wg.OptionError, match="name='empty': no operator was recorded in this block"), tape.named("empty"):
        tape.leaf(np.ones(2))


def test_a_copy_is_independent():
    tape = wg.Tape()
    x = tape.leaf(np.array([1.0, 2.0]), name="x")
    y = wg.sum(x * x)
    other = copy.copy(tape)
    wg.exp(x)
    z = other.var("x") * 5
    assert (len(tape.nodes), len(other.nodes)) == (4, 4)
    assert tape.nodes[3].name == "exp"
    assert other.backward(wg.sum(z))["x"].tolist() == [5, 5]
    assert other.backward(other.var(y.id))["x"].tolist() == tape.backward(y)["x"].tolist() == [2, 4]
    other.name(z, "z")
    tape.leaf(1.0, name="z")
    with pytest.raises(wg.KindError, match="belongs to another tape"):
        other.var(x)


@dataclass(frozen=True)
class Line:
    slope: object
    height: object


def test_a_tree_of_leaves_has_a_tree_of_gradients():
    tape = wg.Tape()
    params = tape.leaves({"line": Line(np.array(2.0), np.array(1.0)), "rest": [np.ones(2)]}, name="params")
    loss = wg.mse(params["line"].slope * np.array([0.0, 1.0]) + params["line"].height, params["rest"][0])
    grads = tape.backward(loss)
    assert grads.tree(params) == {"line": Line(2.0, 2.0), "rest": [pytest.approx(np.array([0, -2.0]))]}
    assert grads["params['rest'][0]"].tolist() == [0, -2]
    assert grads.tree([params["line"].slope])[0] == 2
    (constant,) = tape.leaves((np.ones(3),), requires_grad=False)
    assert not constant.requires_grad


def test_wrong_trees_leave_the_tape_as_it_was():
    tape = wg.Tape()
    tape.leaf(1.0, name="p[1]")
    with pytest.raises(wg.OptionError, match=r"name='p\[1\]': must be a string, different"):
        tape.leaves([1.0, 2.0], name="p")
    with pytest.raises(wg.KindError, match=r"tree\[1\]: must be a NumPy array, not str"):
        tape.leaves([1.0, "a"])
    assert len(tape.nodes) == 1
    grads = tape.backward(wg.exp(tape.var(0)))
    with pytest.raises(wg.KindError, match="tree: every leaf must be a variable of the tape, not float"):
        grads.tree([1.0])


# --- transforms ----------------------------------------------------------------------------------------------------


def test_the_hessian_is_pytorchs():
    x, w = np.array([0.5, -1.0, 2.0]), np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]])
    found = wg.hessian(lambda x, w: wg.sum(wg.tanh(w @ x) ** 2) * x[0], argnums=(0, 1))(x, w)
    expected = torch.autograd.functional.hessian(
        lambda x, w: (torch.tanh(w @ x) ** 2).sum() * x[0], (torch.from_numpy(x), torch.from_numpy(w))
    )
    for ours, theirs in zip(found, expected, strict=True):
        for part, right in zip(ours, theirs, strict=True):
            assert part.shape == right.shape
            assert np.allclose(part, right, rtol=1e-12)


def test_the_hessian_of_fractions_and_of_nested_arguments_is_exact():
    x = np.array([Fraction(1, 2), Fraction(1, 3)])
    assert wg.hessian(lambda x: x[0] ** 3 * x[1])(x).tolist() == [[1, Fraction(3, 4)], [Fraction(3, 4), 0]]
    found = wg.hessian(lambda p: wg.sum(p["a"] * p["b"] ** 2))({"a": np.array([1.0, 2.0]), "b": np.array(3.0)})
    assert found["a"]["b"].tolist() == found["b"]["a"].tolist() == [6, 6]
    assert found["b"]["b"] == 6
    with pytest.raises(wg.WindowError, match="grad needs a function that returns a scalar"):
        wg.hessian(lambda x: x * 2)(x)


def with_aux(x):
    return wg.sum(x * x), {"twice": 2 * x, "text": "beside", "none": None, "plain": 3}


def test_what_a_function_returns_beside_its_result_comes_back_as_plain_values():
    x = np.array([1.0, 2.0])
    (value, aux), g = wg.value_and_grad(with_aux, has_aux=True)(x)
    (g2, aux2), (y, dy, aux3) = wg.grad(with_aux, has_aux=True)(x), wg.jvp(with_aux, (x,), (x,), has_aux=True)
    y4, pull, aux4 = wg.vjp(with_aux, x, has_aux=True)
    assert value == y == y4 == 5
    assert g.tolist() == g2.tolist() == pull(1.0)[0].tolist() == [2, 4]
    assert dy == 10
    for beside in (aux, aux2, aux3, aux4):
        assert type(beside["twice"]) is np.ndarray
        assert beside["twice"].tolist() == [2, 4]
        assert (beside["text"], beside["none"], beside["plain"]) == ("beside", None, 3)


def test_what_is_beside_the_result_keeps_the_derivatives_of_outer_transforms():
    assert wg.grad(lambda x: wg.grad(lambda y: (y * y, x * y), has_aux=True)(3.0)[1])(2.0) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: wg.grad(lambda x: x, has_aux=True)(1.0),
        lambda: wg.jvp(lambda x: (x, x, x), (1.0,), (1.0,), has_aux=True),
        lambda: wg.vjp(lambda x: [x, x], 1.0, has_aux=True),
    ],
)
def test_a_function_with_something_beside_its_result_returns_a_pair(call):
    with pytest.raises(wg.KindError, match=r"has_aux=True: f must return a pair \(result, aux\), not "):
        call()
    with pytest.raises(wg.KindError, match="has_aux=1: must be True or False"):
        wg.grad(wg.sum, has_aux=1)
