"""Max unpooling: the inverse of pooling with indices, what indices that come twice do, PyTorch, and every kind of array."""

from fractions import Fraction

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.exact import DTYPES, same_bits
from support.strategies import cases, fractions, small_ints
from windowgrad.bridges.torch import nn as layers
from windowgrad.dtypes import derivative_of
from windowgrad.ops import OPS, meaning
from windowgrad.params import UnpoolParams

UNPOOL = OPS["max_unpool"]


@given(data=st.data())
def test_the_kernels_are_the_specification_for_every_dtype(data):
    params, (x, indices), _, g = data.draw(cases(UNPOOL, small_ints()))
    exact = meaning("max_unpool")
    y, (gx, _) = exact.forward(params, x, indices), exact.vjp(params, x, indices, g)
    dy = exact.jvp(params, x, indices, x, x)
    for dtype in DTYPES:
        if dtype.kind not in "bu":
            kind = derivative_of(dtype, dtype)
            turned, pulled = x.astype(dtype), g.astype(kind)
            assert same_bits(UNPOOL.forward(params, turned, indices), y.astype(dtype))
            tangents = turned.astype(kind), np.zeros(x.shape)
            assert same_bits(UNPOOL.jvp(params, turned, indices, *tangents), dy.astype(kind))
            assert same_bits(UNPOOL.vjp(params, turned, indices, pulled)[0], gx.astype(kind))


@given(data=st.data())
def test_add_is_the_adjoint_of_taking(data):
    """⟨unpool(x), g⟩ = ⟨x, g at the indices⟩ over fractions, where nothing is dropped."""
    params, (x, indices), _, g = data.draw(cases(UNPOOL, fractions()))
    params, indices = UnpoolParams(params.window, params.output_size, "add"), np.maximum(indices, 0)
    lead = x.ndim - params.window.rank
    flat = indices.reshape(*x.shape[:lead], -1)
    taken = np.take_along_axis(g.reshape(*g.shape[:lead], -1), flat, -1).reshape(x.shape)
    assert (UNPOOL.forward(params, x, indices) * g).sum() == (x * taken).sum()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling_undone_has_the_maxima_at_their_places(rank):
    rng = np.random.default_rng(rank)
    x = rng.permutation(2 * 7**rank).reshape(2, *(7,) * rank).astype(np.float32)
    y, indices = getattr(wg, f"max_pool{rank}d")(x, 3, 2, 1, return_indices=True)
    undone = getattr(wg, f"max_unpool{rank}d")(y, indices, 3, 2, 1)
    assert undone.shape == x.shape
    assert ((undone == x) | (undone == 0)).all()
    assert set(undone.flat) == {0, *y.flat}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size"), [(2, None, 0, 8), (2, None, 0, 9), (3, 3, 1, 10), (1, 1, 0, 4)]
)
def test_pytorch_agrees_where_no_index_comes_twice(rank, kernel, stride, padding, size):
    x = torch.randn(2, 3, *(size,) * rank, generator=torch.Generator().manual_seed(0))
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    y, indices = pool(x, kernel, stride, padding, return_indices=True)
    y.requires_grad_()
    shape = x.shape[2:]
    theirs = getattr(torch.nn, f"MaxUnpool{rank}d")(kernel, stride, padding)(y, indices, shape)
    (their_gradient,) = torch.autograd.grad(theirs, y, x)
    ours = getattr(layers, f"MaxUnpool{rank}d")(kernel, stride, padding)(y, indices, shape)
    (our_gradient,) = torch.autograd.grad(ours, y, x)
    assert torch.equal(ours, theirs)
    assert torch.equal(our_gradient, their_gradient)
    assert getattr(wg, f"max_unpool{rank}d")(y, indices, kernel, stride, padding, x.shape).shape == x.shape


def test_the_last_of_equal_indices_wins_and_alone_has_a_gradient():
    x, indices = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 2, -1])
    y, pull = wg.vjp(lambda x: wg.max_unpool1d(x, indices, 1), x)
    assert y.tolist() == [2, 0, 3, 0]
    assert pull(np.array([10.0, 20.0, 30.0, 40.0]))[0].tolist() == [0, 10, 30, 0]


def test_the_last_wins_among_many():
    """More cells than NumPy assigns at a time, all to few places."""
    x = np.arange(1 << 16, dtype=np.float32)
    indices = (np.arange(1 << 16) * 7) % 5
    expected = [max(i for i in range(len(x) - 20, len(x)) if indices[i] == place) for place in range(5)]
    assert wg.max_unpool1d(x, indices, 1)[:5].tolist() == expected


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "int32", ">i8"])
def test_indices_of_every_integer_dtype(dtype):
    indices = np.array([3, 0]).astype(dtype)
    assert wg.max_unpool1d(np.array([1, 2]), indices, 2).tolist() == [2, 0, 0, 1]


def test_the_greatest_unsigned_index_is_not_dropped_but_refused():
    with pytest.raises(wg.WindowError, match=r"indices\[0\]=255: must be -1 or from 0 to 1"):
        wg.max_unpool1d(np.ones(1), np.array([255], np.uint8), 2)


def test_half_floats_are_added_in_float32():
    x = np.ones(101, np.float16)
    x[0] = 2048
    assert float(wg.max_unpool1d(x, np.zeros(101, int), 1, duplicates="add")[0]) == float(np.float16(2148))


def test_exact_numbers_stay_exact_and_an_empty_batch_is_empty():
    x = np.array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    assert wg.max_unpool1d(x, np.array([1, 1]), 1, duplicates="add").tolist() == [0, 1]
    assert wg.max_unpool1d(np.ones((0, 2)), np.zeros((0, 2), int), 2).shape == (0, 4)


def test_every_layout_gives_the_same():
    rng = np.random.default_rng(0)
    x, indices = rng.standard_normal((3, 4, 5)), rng.integers(-1, 80, (3, 4, 5))
    for duplicates in ("last", "add"):
        turned = wg.max_unpool2d(np.asfortranarray(x), np.asfortranarray(indices), 2, duplicates=duplicates)
        assert turned.tobytes() == wg.max_unpool2d(x, indices, 2, duplicates=duplicates).tobytes()


@pytest.mark.parametrize("duplicates", ["last", "add"])
def test_derivatives_of_pooling_and_unpooling_together(duplicates):
    def network(x):
        y, indices = wg.max_pool1d(x, 3, 1, return_indices=True)
        return wg.max_unpool1d(y * y, indices, 3, 1, duplicates=duplicates)

    wg.check_grads(network, np.array([[0.5, 3.0, 1.0, 2.0, -1.0]]), order=2)


def test_a_tape_gives_no_gradient_of_indices_but_zeros():
    tape = wg.Tape()
    x, indices = tape.leaf(np.ones(2), "x"), tape.leaf(np.array([1, 0]), "indices")
    grads = tape.backward(wg.sum(wg.max_unpool1d(x, indices, 2)))
    assert grads["x"].tolist() == [1, 1]
    assert grads["indices"].tolist() == [0, 0]


def test_jax_differentiates_batches_and_compiles_it():
    x, indices = jnp.arange(12.0).reshape(3, 4), jnp.arange(12).reshape(3, 4) % 5

    def loss(x, indices):
        return (wg.max_unpool1d(x, indices, 2) ** 2).sum()

    expected = wg.grad(
        lambda x: wg.sum(wg.max_unpool1d(x, np.asarray(indices), 2) * wg.max_unpool1d(x, np.asarray(indices), 2))
    )
    assert jax.jit(jax.grad(loss))(x, indices).tolist() == expected(np.asarray(x)).tolist()
    assert jax.vmap(jax.grad(loss))(x, indices).tolist() == expected(np.asarray(x)).tolist()
    assert jax.hessian(loss)(x, indices).shape == (3, 4, 3, 4)


def test_torch_batches_it():
    x, indices = torch.arange(12.0).reshape(3, 4), torch.arange(12).reshape(3, 4) % 5
    batched = torch.vmap(lambda x, i: wg.max_unpool1d(x, i, 2))(x, indices)
    assert torch.equal(batched, wg.max_unpool1d(x, indices, 2))
    assert wg.max_unpool1d(x.bfloat16(), indices, 2).dtype == torch.bfloat16


@pytest.mark.parametrize("chunks", [1, 2, (2, 3, 1)])
def test_dask_keeps_whole_planes(chunks):
    rng = np.random.default_rng(0)
    x, indices = rng.standard_normal((3, 4, 5)).astype(np.float32), rng.integers(-1, 80, (3, 4, 5))
    lazy, places = da.from_array(x, chunks=chunks), da.from_array(indices, chunks=2)
    whole, pull = wg.vjp(lambda x: wg.max_unpool2d(x, indices, 2), x)
    found, lazily = wg.vjp(lambda x: wg.max_unpool2d(x, places, 2), lazy)
    assert found.compute().tobytes() == whole.tobytes()
    g = rng.standard_normal(whole.shape).astype(np.float32)
    assert lazily(da.from_array(g, chunks=3))[0].compute().tobytes() == pull(g)[0].tobytes()
    pushed = wg.jvp(lambda x: wg.max_unpool2d(x, places, 2), (lazy,), (lazy,))[1]
    assert pushed.compute().tobytes() == whole.tobytes()
