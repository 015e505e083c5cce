"""A function as a list of calls: what is recorded, that it computes the same, and what is refused."""

import re
from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import nn
from windowgrad.autograd.program import Value, record
from windowgrad.errors import KindError, WindowError

X = np.arange(16.0).reshape(1, 1, 4, 4)


def names(program):
    return [call.name for call in program.calls]


def test_a_program_has_one_call_per_operator_and_computes_the_same():
    w = np.ones((2, 1, 3, 3))
    program = record(lambda x: wg.max_pool2d(wg.relu(wg.conv2d(x, w, padding=1) - 40), 2), X)
    assert names(program) == ["conv2d", "subtract", "relu", "max_pool2d"]
    assert program.inputs == (Value(0, (1, 1, 4, 4), np.dtype(float)),)
    assert program.calls[0].arguments[0] == program.inputs[0]
    assert program.calls[0].arguments[1] is w  # a constant is the array itself
    assert program.outputs == program.calls[-1].results
    for x in (X, -X):
        np.testing.assert_array_equal(program(x), wg.max_pool2d(wg.relu(wg.conv2d(x, w, padding=1) - 40), 2))


def test_a_program_takes_arrays_of_other_kinds():
    program = record(lambda x: wg.avg_pool1d(x, 3), np.zeros((1, 3)))
    exact = np.array([[Fraction(1), Fraction(1), Fraction(0)]])
    assert program(exact).tolist() == [[Fraction(2, 3)]]
    assert wg.grad(lambda x: wg.sum(program(x)))(np.zeros((1, 3))).tolist() == [[1 / 3] * 3]


def test_what_does_not_depend_on_the_inputs_is_a_constant():
    program = record(lambda x: (x + (wg.exp(np.zeros(2)) + 1), np.ones(3)), np.zeros(2))
    assert names(program) == ["add"]
    assert program.calls[0].arguments[1].tolist() == [2.0, 2.0]
    y, ones = program(np.ones(2))
    assert (y.tolist(), ones.tolist()) == ([3.0, 3.0], [1.0] * 3)


def test_several_inputs_nested_results_and_indices():
    def f(x, y):
        top, index = wg.max_pool1d(x, 2, return_indices=True)
        return {"up": wg.max_unpool1d(top + y, index, 2), "top": top}

    x, y = np.array([[1.0, 5.0, 3.0, 2.0]]), np.ones((1, 2))
    program = record(f, x, y)
    assert names(program) == ["max_pool1d", "add", "max_unpool1d"]
    assert [value.dtype for value in program.calls[0].results] == [np.float64, np.int64]
    found = program(x[:, ::-1], y)
    assert found["up"].tolist() == [[0.0, 4.0, 6.0, 0.0]]
    assert found["top"].tolist() == [[3.0, 5.0]]


def test_every_layer_of_a_network_is_recorded():
    model = nn.Sequential(
        nn.Conv(2, (3, 3)), nn.BatchNorm(), nn.ReLU(), nn.Residual(nn.Conv(2, (1, 1))), nn.Flatten(), nn.Linear(3)
    )
    params = model.init(np.random.default_rng(0), X.shape, np.float64)
    program = record(lambda x: model(params, x), X)
    assert names(program) == ["conv", "multiply", "add", "relu", "conv", "add", "flatten", "matmul", "add"]
    np.testing.assert_array_equal(program(X), model(params, X))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: wg.where(x > 0, x, 0),
        lambda x: x if x[0, 0, 0, 0] == 1 else -x,
        lambda x: float(x[0, 0, 0, 0]) * x,
        lambda x: x.value,
        lambda x: np.asarray(x),
        lambda x: x.tolist(),
        lambda x: round(x[0, 0, 0, 0]) * x,
    ],
    ids=["compared", "branch", "float", "value", "numpy", "list", "round"],
)
def test_a_look_at_the_numbers_is_refused(f):
    """The list of calls would hold for these numbers only."""
    with pytest.raises(KindError, match="frozen"):
        record(f, X)


def test_a_function_that_differentiates_is_refused():
    with pytest.raises(KindError, match=re.escape("must not differentiate, but it asks for the jvp of max_pool2d")):
        record(lambda x: wg.jvp(lambda y: wg.max_pool2d(y, 2), (x,), (X,))[1], X)


def test_a_variable_of_a_tape_is_not_made_a_constant():
    v = wg.Tape().leaf(X)
    with pytest.raises(KindError, match="another differentiation"):
        record(lambda x: x + v, X)


def test_wrong_inputs_are_named():
    program = record(lambda x: x + 1, X)
    with pytest.raises(WindowError, match=re.escape("2 arrays given: the program has 1 inputs")):
        program(X, X)
    with pytest.raises(
        WindowError, match=re.escape("input 0 of shape (1, 4): must be (1, 1, 4, 4), for which it was recorded")
    ):
        program(X[0, 0, :1])
    with pytest.raises(KindError, match="example 0: must be a NumPy array, not float"):
        record(lambda x: x + 1, 3.0)
