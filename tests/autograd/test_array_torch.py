"""The array operators against PyTorch's: values and gradients of one kind, shapes broadcast, empty or without axes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import windowgrad as wg
from support.traced import Traced, gradients

F = torch.nn.functional
KINDS = {np.float32: 2e-6, np.float64: 1e-14}

BINARY = {
    "add": torch.add,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "divide": torch.divide,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}
UNARY = {
    "negative": torch.negative,
    "relu": torch.relu,
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "sqrt": torch.sqrt,
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "erf": torch.erf,
}
SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)), ((0, 3), (3,)), ((0, 3), (1, 1))]
MATRICES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]
REDUCED = [((2, 3, 4), None), ((2, 3, 4), 1), ((2, 3, 4), (0, -1)), ((3,), 0), ((), None), ((0, 3), 0), ((0, 3), None)]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def filled(kind, *shapes):
    rng = np.random.default_rng(len(shapes[0]))
    return [np.asarray(rng.normal(size=shape), kind) for shape in shapes]


def check(kind, ours, theirs, *arrays):
    """The value, and the gradient of its sum of squares in every array."""
    xs, tensors = [Traced(x) for x in arrays], [torch.from_numpy(np.array(x)).requires_grad_() for x in arrays]
    y, value = ours(*xs), theirs(*tensors)
    same(kind, y.value, value)
    mine, yours = gradients(wg.sum(wg.multiply(y, y)), *xs), torch.autograd.grad((value * value).sum(), tensors)
    for g, expected in zip(mine, yours, strict=True):
        same(kind, g.value, expected)
    assert type(ours(*arrays)) is np.ndarray
    assert np.array_equal(ours(*arrays), y.value, equal_nan=True)


def same(kind, found, tensor):
    expected = tensor.detach().numpy()
    assert (found.shape, found.dtype) == (expected.shape, np.dtype(kind))
    scale = np.max(np.abs(np.nan_to_num(expected)), initial=1)
    assert np.allclose(found, expected, rtol=KINDS[kind], atol=KINDS[kind] * scale, equal_nan=True)


@every_kind
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic(name, shapes, kind):
    for turned in (shapes, shapes[::-1]):
        a, b = filled(kind, *turned)
        check(kind, getattr(wg, name), BINARY[name], a, b + np.sign(b) / 2)


@every_kind
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0, 3)], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_cell(name, shape, kind):
    (x,) = filled(kind, shape)
    check(kind, getattr(wg, name), UNARY[name], np.abs(x) + kind(0.1) if name in ("log", "sqrt") else x)


@every_kind
@pytest.mark.parametrize("shapes", MATRICES, ids=str)
def test_matrix_products(shapes, kind):
    check(kind, wg.matmul, torch.matmul, *filled(kind, *shapes))


@every_kind
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), REDUCED, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_reductions(name, shape, axis, keepdims, kind):
    (x,) = filled(kind, shape)
    theirs = getattr(torch, name)
    axes = tuple(range(len(shape))) if axis is None else axis
    if shape:
        check(kind, lambda x: getattr(wg, name)(x, axis, keepdims), lambda x: theirs(x, axes, keepdims), x)
    else:
        check(kind, lambda x: getattr(wg, name)(x, axis, keepdims), theirs, x)


@every_kind
def test_shapes(kind):
    (x,) = filled(kind, (2, 3, 4))
    check(kind, lambda x: wg.reshape(x, (4, -1)), lambda x: x.reshape(4, -1), x)
    check(kind, lambda x: wg.reshape(x, 24), lambda x: x.reshape(24), x)
    check(kind, lambda x: wg.transpose(x, (1, -1, 0)), lambda x: x.permute(1, 2, 0), x)
    check(kind, wg.transpose, lambda x: x.permute(2, 1, 0), x)
    for start in (0, 1, 2, -2):
        check(kind, lambda x, start=start: wg.flatten(x, start), lambda x, start=start: x.flatten(start), x)
    check(kind, wg.flatten, lambda x: x.flatten(1), x[:0])


@every_kind
@pytest.mark.parametrize(
    ("shape", "axis"), [((4,), 0), ((2, 3), -1), ((2, 3), 0), ((2, 3, 4), 1), ((0, 3), 1), ((3, 0), 1)], ids=str
)
def test_softmax(shape, axis, kind):
    (x,) = filled(kind, shape)
    check(kind, lambda x: wg.softmax(x, axis), lambda x: F.softmax(x, axis), 30 * x)
    check(kind, lambda x: wg.log_softmax(x, axis), lambda x: F.log_softmax(x, axis), 30 * x)


@every_kind
def test_powers(kind):
    a, b = filled(kind, (3, 4), (4,))
    check(kind, wg.power, torch.pow, np.abs(a) + kind(0.1), b)
    for exponent in (-2, 0, 1, 2, 3, 2.0, 0.5):
        base = np.abs(a) + kind(0.1) if exponent in (-2, 0.5) else a
        check(kind, lambda x, p=exponent: wg.power(x, p), lambda x, p=exponent: x**p, base)
    zeros, exponents = np.array([0, 0, 0], kind), np.array([0, 1, 2], kind)
    check(kind, lambda a: wg.power(a, exponents), lambda a: torch.pow(a, torch.from_numpy(exponents)), zeros)
    check(kind, lambda b: wg.power(zeros, b), lambda b: torch.pow(torch.from_numpy(zeros), b), exponents)
    check(kind, lambda b: wg.power(2, b), lambda b: 2**b, b)


@every_kind
def test_joining_and_choosing(kind):
    a, b, c = filled(kind, (2, 3), (2, 3), (2, 1))
    for axis in (0, 1, -1):
        check(kind, lambda a, b, n=axis: wg.concatenate([a, b], n), lambda a, b, n=axis: torch.concatenate([a, b], n), a, b)
        check(kind, lambda a, b, n=axis: wg.stack((a, b, a), n), lambda a, b, n=axis: torch.stack((a, b, a), n), a, b)
    check(kind, lambda a, c: wg.concatenate([a, c, a], 1), lambda a, c: torch.concatenate([a, c, a], 1), a, c)
    check(kind, lambda a, c: wg.concatenate([a, c], None), lambda a, c: torch.cat([a.flatten(), c.flatten()]), a, c)
    choice = a > 0
    check(kind, lambda a, c: wg.where(choice, a, c), lambda a, c: torch.where(torch.from_numpy(choice), a, c), a, c)
    check(kind, lambda a: wg.clip(a, -0.5, 0.5), lambda a: torch.clip(a, -0.5, 0.5), a)
    check(kind, lambda a: wg.clip(a, high=0.5), lambda a: torch.clip(a, max=0.5), a)
    tied = np.array([1, 2, -3], kind)
    check(kind, wg.maximum, torch.maximum, tied, np.array([1, 3, -3], kind))


@every_kind
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (0, 3)], ids=str)
@pytest.mark.parametrize("labelled", [np.int64, np.uint8])
def test_cross_entropy(shape, labelled, kind):
    (x,) = filled(kind, shape)
    labels = np.asarray(np.random.default_rng(1).integers(0, 3, shape[:-1]), labelled)
    chosen = torch.from_numpy(labels.astype(np.int64)).reshape(-1)
    check(kind, lambda x: wg.cross_entropy(x, labels), lambda x: F.cross_entropy(x.reshape(-1, 3), chosen), 10 * x)


@every_kind
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3)], ids=str)
def test_mse(shape, kind):
    check(kind, wg.mse, F.mse_loss, *filled(kind, shape, shape))


@every_kind
def test_logits_far_apart_have_the_loss_and_gradient_of_pytorch(kind):
    logits, labels = np.array([[1e4, 0, -1e4], [-1e4, 1e4, 1e4]], kind), np.array([2, 0])
    check(kind, lambda x: wg.cross_entropy(x, labels), lambda x: F.cross_entropy(x, torch.from_numpy(labels)), logits)
