"""Operators that move, choose, reduce and resize cells, on PyTorch tensors and JAX arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from support.onnx_cases import CASES, SMOOTH
from windowgrad.onnx import load

NARROW = [case for case in CASES if case.dtype != "uint16"]


def every(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("case", NARROW, ids=lambda case: case.name)
def test_tensors_give_what_numpy_arrays_give(case):
    net, x = load(case.model()), case.x()
    for ours, theirs in zip(every(net(torch.from_numpy(x))), every(net(x)), strict=True):
        assert isinstance(ours, torch.Tensor) or not case.smooth
        found = np.asarray(ours)
        assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(found, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", [case for case in NARROW if case.attributes.get("to") != 11], ids=lambda case: case.name)
def test_jax_arrays_give_what_numpy_arrays_give(case):
    net, x = load(case.model()), case.x()
    for ours, theirs in zip(every(net(jnp.asarray(x))), every(net(x)), strict=True):
        assert isinstance(ours, jax.Array) or not case.smooth
        found = np.asarray(ours)
        assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(found, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", [case for case in SMOOTH if 0 not in case.shape], ids=lambda case: case.name)
def test_gradients_are_those_of_the_tape(case):
    net, x = load(case.model()), np.random.default_rng(1).permutation(np.prod(case.shape)).reshape(case.shape) / np.float32(4)
    x = x.astype(np.float32)
    import windowgrad as wg

    wanted = wg.grad(lambda x: sum(wg.sum(y * y) for y in every(net(x))))(x)
    t = torch.from_numpy(x).requires_grad_()
    sum((y * y).sum() for y in every(net(t))).backward()
    np.testing.assert_allclose(t.grad, wanted, rtol=1e-5, atol=1e-5)
    found = jax.jit(jax.grad(lambda x: sum((y * y).sum() for y in every(net(x))).astype(jnp.float32)))(jnp.asarray(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
