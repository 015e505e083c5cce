"""What JAX's backward pass is spared by what the forward rule saved; no transform sees anything of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.max import entry

X = np.random.default_rng(2).integers(-9, 9, (2, 3, 8, 9)).astype(np.float32)
CALLS = {
    "2×2": lambda x: wg.max_pool2d(x, 2),
    "3×3 s2 p1": lambda x: wg.max_pool2d(x, 3, 2, 1),
    "minimum": lambda x: wg.min_pool2d(x, 3, 1, 1),
    "adaptive": lambda x: wg.adaptive_max_pool2d(x, 3),
    "global": wg.global_max_pool2d,
    "smooth": lambda x: wg.smooth_max_pool2d(x, 2, beta=1),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def rules(monkeypatch):
    """The rules that kernels were asked for, and whether they had something saved."""
    asked, run = [], dispatch.run

    def noted(op, rule, params, *arrays, saved=None, **told):
        asked.append((rule, saved is not None))
        return run(op, rule, params, *arrays, saved=saved, **told)

    monkeypatch.setattr("windowgrad.bridges.jax.host.run", noted)
    return asked


def close(ours, wanted):
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)


@each_call
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_is_that_of_numpy(call, compiled):
    def loss(x):
        y = call(x)
        return jnp.sum(y * y)

    gradient = jax.jit(jax.grad(loss)) if compiled else jax.grad(loss)
    y, pull = wg.vjp(call, X)
    close(gradient(jnp.asarray(X)), pull(2 * y)[0])


def test_the_backward_pass_is_given_what_was_saved(rules):
    jax.grad(lambda x: jnp.sum(wg.max_pool2d(x, 2)))(jnp.asarray(X))
    assert rules == [("saving", False), ("vjp", True)]


def test_without_a_derivative_nothing_is_saved(rules):
    wg.max_pool2d(jnp.asarray(X), 2)
    assert rules == [("forward", False)]


@each_call
def test_it_can_be_batched_before_and_after_it_is_differentiated(call):
    def loss(x):
        y = call(x)
        return jnp.sum(y * y)

    wanted = jax.grad(loss)(jnp.asarray(X))
    close(jax.vmap(jax.grad(loss))(jnp.asarray(X)), wanted)
    close(jax.jit(jax.vmap(jax.grad(loss), in_axes=1, out_axes=1))(jnp.asarray(X)), wanted)
    close(jax.grad(lambda x: jnp.sum(jax.vmap(loss)(x)))(jnp.asarray(X)), wanted)
    y, pull = jax.vjp(call, jnp.asarray(X))
    several = jnp.stack([y, 2 * y])
    close(jax.vmap(lambda g: pull(g)[0])(several), jnp.stack([pull(g)[0] for g in several]))


@each_call
def test_second_derivatives_go_past_it(call):
    def loss(x):
        y = call(x)
        return jnp.sum(y * y)

    moved = jax.jvp(jax.grad(loss), (jnp.asarray(X),), (jnp.ones_like(X),))[1]
    back = jax.grad(lambda x: jnp.sum(jax.grad(loss)(x)))(jnp.asarray(X))
    close(moved, back)


def test_a_batch_that_saves_nothing_is_differentiated_all_the_same(monkeypatch, rules):
    """Where the copy of a whole batch is large it is cut within its planes, and then nothing is saved."""
    monkeypatch.setattr(blocks, "COPIED", 100)
    monkeypatch.setattr(blocks, "CELLS", 8)
    for kept in (blocks.cut_up, dispatch.saved_kind, dispatch.route, entry.saved_kind):
        kept.cache_clear()
    x = jnp.asarray(X.astype(np.float16))
    wanted = wg.vjp(lambda x: wg.max_pool2d(x, 2), X.astype(np.float16))[1](np.ones((2, 3, 4, 4), np.float16))[0]
    found = jax.vmap(jax.vmap(jax.grad(lambda x: jnp.sum(wg.max_pool2d(x, 2)))))(x)
    for kept in (blocks.cut_up, dispatch.saved_kind, dispatch.route, entry.saved_kind):
        kept.cache_clear()
    close(found, wanted)
    assert rules == [("forward", False), ("vjp", False)]
