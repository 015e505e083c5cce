"""Pooling of JAX arrays with a mask that is known: the bits of NumPy arrays, under transforms; a traced one is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import windowgrad as wg
from windowgrad.errors import KindError, WindowError

FUNCTIONS = {
    "max": lambda x, **k: wg.max_pool2d(x, 3, 2, 1, **k),
    "mean": lambda x, **k: wg.avg_pool2d(x, 3, 2, 1, **k),
    "smooth": lambda x, **k: wg.smooth_max_pool2d(x, 2, beta=2, **k),
    "norm": lambda x, **k: wg.lp_pool2d(x, 2.5, 2, **k),
    "bins": lambda x, **k: wg.adaptive_min_pool2d(x, 2, **k),
    "all": lambda x, **k: wg.global_avg_pool2d(x, keepdims=False, **k),
}
RNG = np.random.default_rng(0)
X, MASK = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32), RNG.random((3, 5, 6)) < 0.6
X[:, ~MASK] = np.nan
V = RNG.standard_normal(X.shape).astype(np.float32)


@pytest.mark.parametrize("made", [jnp.asarray, np.array], ids=["jax", "numpy"])
@pytest.mark.parametrize("pool", FUNCTIONS.values(), ids=FUNCTIONS)
def test_values_and_derivatives_are_those_of_arrays(pool, made):
    where, x = made(MASK), jnp.asarray(X)

    def f(x):
        return pool(x, where=where)

    y, pull = wg.vjp(lambda x: pool(x, where=MASK), X)
    (gx,), dy = pull(np.ones_like(y)), wg.jvp(lambda x: pool(x, where=MASK), (X,), (V,))[1]
    for call in (f, jax.jit(f), jax.vmap(f), jax.jit(jax.vmap(f))):
        assert np.array_equal(call(x), y)
    pulled = jax.grad(lambda x: f(x).sum())
    for gradient in (pulled, jax.jit(pulled)):
        assert np.array_equal(gradient(x), gx)
    assert np.array_equal(jax.jvp(f, (x,), (V,))[1], dy)


@pytest.mark.parametrize("pool", FUNCTIONS.values(), ids=FUNCTIONS)
def test_second_derivatives_are_those_of_arrays(pool):
    def loss(x):
        return (pool(x, where=MASK) ** 2).sum()

    found = jax.jit(lambda x: jax.jvp(jax.grad(loss), (x,), (V,))[1])(X)
    (expected,) = wg.hvp(lambda x: wg.sum(pool(x, where=MASK) ** 2), (X,), (V,))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_mask_may_be_computed_from_what_is_differentiated():
    found = jax.grad(lambda x: wg.avg_pool2d(x, 2, where=~jnp.isnan(x)).sum())(jnp.asarray(X))
    assert np.array_equal(found, wg.grad(lambda x: wg.sum(wg.avg_pool2d(x, 2, where=MASK)))(X))


def test_a_program_has_the_mask_that_it_was_traced_with():
    where, x = np.array([True, False, True, True]), jnp.ones(4)
    pool = jax.jit(lambda x: wg.lp_pool1d(x, 1, 2, where=where))
    assert pool(x).tolist() == [1, 2]
    where[:] = False
    assert pool(x).tolist() == [1, 2]


def test_indices_under_jit():
    y, index = jax.jit(lambda x: wg.max_pool2d(x, 2, return_indices=True, where=MASK))(X)
    expected = wg.max_pool2d(X, 2, return_indices=True, where=MASK)
    assert (y.tolist(), index.tolist()) == (expected[0].tolist(), expected[1].tolist())


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_a_traced_mask_is_refused(transform):
    with pytest.raises(
        KindError, match="where: must be known when JAX traces a function, not be traced itself; make it outside"
    ):
        transform(lambda x: wg.max_pool1d(x, 2, where=x > 0))(jnp.ones((3, 4)))


def test_a_mask_must_be_bool_and_broadcast_to_one_entry():
    x = jnp.ones((3, 4))
    with pytest.raises(KindError, match="where: must be an array of bool, not an array of float32"):
        wg.max_pool1d(x, 2, where=x)
    with pytest.raises(KindError, match="where: unsupported dtype key"):
        wg.max_pool1d(x, 2, where=jax.random.key(0))
    with pytest.raises(WindowError, match=r"where of shape \(3, 4\): must broadcast to \(4,\), the shape of x"):
        jax.vmap(lambda x: wg.max_pool1d(x, 2, where=np.ones((3, 4), bool)))(x)
