"""Arrays of other packages where they are not computed with: the error says what to write, and that works."""

import re

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import zarr

import windowgrad as wg

PAIRS = ("add", "subtract", "multiply", "divide", "matmul", "power", "maximum", "minimum")
SINGLES = ("negative", "sum", "mean", "flatten", "transpose", "relu", "exp", "log", "tanh", "sigmoid", "log_softmax")
SINGLES += ("max", "min", "abs", "sqrt", "softmax", "stop_gradient")
LOSSES = {"mse": np.ones((2, 2)), "cross_entropy": np.array([0, 1])}
KINDS = {"JAX arrays": jnp.asarray}
X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def calls(make):
    yield from ((name, lambda name=name: getattr(wg, name)(make(X), make(X))) for name in PAIRS)
    yield from ((name, lambda name=name: getattr(wg, name)(X, make(X))) for name in PAIRS)
    yield from ((name, lambda name=name: getattr(wg, name)(make(X))) for name in SINGLES)
    yield from ((name, lambda name=name, y=y: getattr(wg, name)(make(X), make(y))) for name, y in LOSSES.items())
    yield "reshape", lambda: wg.reshape(make(X), (4,))
    yield "where", lambda: wg.where(X > 1, make(X), 0)
    yield from ((name, lambda name=name: getattr(wg, name)([X, make(X)])) for name in ("concatenate", "stack"))
    yield "maximum", lambda: wg.clip(make(X), 0, 1)
    yield "relu", lambda: wg.nn.ReLU()({}, make(X))
    yield "transpose", lambda: wg.nn.Linear(2)({"weight": make(X), "bias": make(X[0])}, make(X))


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_function_names_the_function_to_use_instead(kind):
    for name, call in calls(KINDS[kind]):
        with pytest.raises(wg.KindError, match=f"{name}: not supported on {kind}, only window operators are; use ") as caught:
            call()
        (named,) = re.findall(r"; use ((?:torch|jax)[\w.]+)", str(caught.value))
        package, *path = named.split(".")
        found = {"torch": torch, "jax": jax}[package]
        for step in path:
            found = getattr(found, step)
        assert callable(found)


def test_a_gradient_of_foreign_arrays_names_theirs():
    for x, hint in (
        (torch.ones(2), "torch.autograd differentiates tensors"),
        (jnp.ones(2), "jax.grad differentiates JAX arrays"),
    ):
        with pytest.raises(wg.KindError, match=hint):
            wg.grad(wg.sum)(x)


def test_a_zarr_array_is_read_lazily_or_at_once_as_the_error_says():
    x = zarr.array(np.arange(16.0).reshape(4, 4), chunks=(2, 2))
    with pytest.raises(
        wg.KindError, match=r"use dask\.array\.from_zarr\(x\) to compute lazily, or x\[\.\.\.\] to read it into memory"
    ):
        wg.max_pool2d(x, 2)
    assert wg.max_pool2d(da.from_zarr(x), 2).compute().tolist() == wg.max_pool2d(x[...], 2).tolist() == [[5, 7], [13, 15]]


def test_a_masked_array_is_for_pooling_only():
    x = np.ma.masked_greater(np.array([-3.0, 9.0, -1.0, -2.0]), 5)
    assert wg.max_pool1d(x, 2).tolist() == [-3, -1]
    with pytest.raises(wg.KindError, match=r"x: must not be a masked array, which only pooling takes"):
        wg.pad(x, (1,))
    assert wg.pad(x.filled(0), (1,)).tolist() == [0, -3, 0, -1, -2, 0]
