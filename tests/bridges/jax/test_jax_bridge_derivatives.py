"""Derivatives of JAX's own making: of every operator, of any order, forward and backward."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import windowgrad as wg
from support.jax_cases import CASES, NAMED, Case
from windowgrad.ops import OPS
from windowgrad.params import MaxParams

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def arrays_of(case: Case, seed: int = 0) -> list[jax.Array]:
    """Of moderate size, so that differences of second order keep their digits."""
    return [jnp.asarray(a) / 8 for a in case.arrays(np.float64, seed)]


@each_case
def test_derivatives_of_first_and_second_order_are_those_of_differences(case: Case) -> None:
    check_grads(case.call, arrays_of(case), order=2, modes=["fwd", "rev"], eps=1e-4)


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose1d"])
def test_each_input_of_a_convolution_may_be_held_fixed(name: str) -> None:
    arrays = arrays_of(NAMED[name])
    for count in range(1, len(arrays)):
        for moving in itertools.combinations(range(len(arrays)), count):

            def call(*some, moving=moving):
                full = list(arrays)
                for i, a in zip(moving, some, strict=True):
                    full[i] = a
                return NAMED[name].call(*full)

            check_grads(call, [arrays[i] for i in moving], order=2, modes=["fwd", "rev"], eps=1e-4)


@pytest.mark.parametrize("name", ["smooth_max_pool1d", "conv1d"])
def test_derivatives_of_third_order_are_those_of_differences(name: str) -> None:
    case = NAMED[name]
    check_grads(lambda *a: case.call(*a) ** 2, arrays_of(case), order=3, modes=["fwd", "rev"], eps=1e-4, rtol=1e-3)


@each_case
def test_jvp_and_vjp_are_adjoint_and_the_same_bits_when_compiled(case: Case) -> None:
    arrays, tangents = arrays_of(case), arrays_of(case, seed=1)
    y, dy = jax.jvp(case.call, arrays, tangents)
    _, pull = jax.vjp(case.call, *arrays)
    pushed = sum(np.vdot(g, dx) for g, dx in zip(pull(dy), tangents, strict=True))
    np.testing.assert_allclose(np.vdot(dy, dy), pushed, rtol=1e-13)
    compiled = jax.jit(lambda a, d: jax.jvp(case.call, a, d))(arrays, tangents)
    assert np.array_equal(compiled[0], y)
    assert np.array_equal(compiled[1], dy)
    again = jax.jit(lambda a, g: jax.vjp(case.call, *a)[1](g))(arrays, dy)
    assert all(np.array_equal(one, other) for one, other in zip(again, pull(dy), strict=True))


def test_jvp_and_vjp_of_maximum_go_by_the_tie_rule() -> None:
    x, dx = jnp.asarray([2.0, 2.0, 1.0, 2.0]), jnp.asarray([1.0, 10.0, 100.0, 1000.0])
    for ties, pushed, pulled in (
        ("first", 1, [1, 0, 0, 0]),
        ("all", 1011, [1, 1, 0, 1]),
        ("split", 337, [1 / 3, 1 / 3, 0, 1 / 3]),
    ):
        f = lambda x, ties=ties: wg.max_pool1d(x, 4, ties=ties)[0]  # noqa: E731
        assert jax.jvp(f, (x,), (dx,))[1] == pushed
        assert np.array_equal(jax.grad(f)(x), pulled)


def test_hessian_is_the_same_four_ways() -> None:
    w = jnp.asarray(np.random.default_rng(0).standard_normal((2, 1, 3)))

    def loss(x):
        return jnp.sum(wg.smooth_max_pool1d(wg.conv1d(x, w), 2, beta=2.0) ** 2)

    x = jnp.linspace(-1, 1, 6)[None]
    first = jax.hessian(loss)(x)
    for outer, inner in itertools.product((jax.jacfwd, jax.jacrev), repeat=2):
        np.testing.assert_allclose(outer(inner(loss))(x), first, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(first.reshape(6, 6), first.reshape(6, 6).T, rtol=1e-12, atol=1e-12)


def test_jacobians_of_what_jax_cannot_derive_backward_itself() -> None:
    """A dilated maximum: JAX's reduce_window has no reverse rule for it."""
    x = jnp.asarray(NAMED["max_pool, dilated"].arrays(np.float64)[0])
    call = NAMED["max_pool, dilated"].call
    back, forth = jax.jacrev(call)(x), jax.jacfwd(call)(x)
    assert np.array_equal(back, forth)
    assert np.array_equal(back.sum(axis=(-3, -2, -1)), np.ones_like(call(x)))


def test_values_of_an_indexed_maximum_have_a_gradient_and_indices_none() -> None:
    x = jnp.asarray([1.0, 3.0, 2.0, 5.0])
    gradient = jax.grad(lambda x: wg.max_pool1d(x, 2, return_indices=True)[0].sum())(x)
    assert np.array_equal(gradient, [0, 1, 0, 1])
    (_, index), (_, tangent) = jax.jvp(lambda x: wg.max_pool1d(x, 2, return_indices=True), (x,), (x,))
    assert np.array_equal(index, [1, 3])
    assert tangent.dtype == jax.dtypes.float0


def test_linear_operators_are_declared_linear() -> None:
    """jax.linear_transpose takes them as they are: the input is not even known."""
    for name in ("avg_pool2d", "pad", "unpad"):
        (x,) = arrays_of(NAMED[name])
        transposed = jax.linear_transpose(NAMED[name].call, jax.ShapeDtypeStruct(x.shape, x.dtype))
        y, pull = jax.vjp(NAMED[name].call, x)
        assert np.array_equal(transposed(y)[0], pull(y)[0])
    x, w = arrays_of(NAMED["conv1d"])
    assert np.array_equal(
        jax.linear_transpose(lambda x: wg.conv1d(x, w), x)(wg.conv1d(x, w))[0], wg.conv_transpose1d(wg.conv1d(x, w), w)
    )


def test_a_mean_keeps_no_input_for_its_gradient() -> None:
    """Of what the pull-back holds on to, nothing is as large as the input."""
    _, pull = jax.vjp(lambda x: wg.avg_pool1d(x, 2), jnp.zeros(1000))
    assert all(leaf.size < 1000 for leaf in jax.tree.leaves(pull))


def test_zero_tangents_are_left_out_not_multiplied() -> None:
    """Zero times an infinite weight would be NaN."""
    x, w = jnp.ones((1, 4)), jnp.asarray([[[1.0, jnp.inf]]])
    (gradient,) = jax.vjp(lambda w: wg.conv1d(x, w), w)[1](jnp.ones((1, 3)))
    assert np.array_equal(gradient, [[[3, 3]]])
    _, dy = jax.jvp(lambda w: wg.conv1d(x, w), (w,), (jnp.ones_like(w),))
    assert np.array_equal(dy, [[2, 2, 2]])


@pytest.mark.parametrize("dtypes", [("float32", "bfloat16", "float32"), ("bfloat16", "bfloat16", "float32")], ids=str)
def test_gradients_have_the_dtypes_of_their_inputs(dtypes: tuple[str, ...]) -> None:
    arrays = [jnp.asarray(a).astype(d) for a, d in zip(NAMED["conv2d"].arrays(), dtypes, strict=True)]
    y, pull = jax.vjp(NAMED["conv2d"].call, *arrays)
    assert [str(g.dtype) for g in pull(y)] == list(dtypes)
    _, dy = jax.jvp(lambda x: NAMED["conv2d"].call(x, *arrays[1:]), arrays[:1], arrays[:1])
    assert dy.dtype == y.dtype == jnp.float32


def test_integers_have_no_derivative_beside_which_floats_keep_theirs() -> None:
    x, w = jnp.arange(8).reshape(1, 8), jnp.asarray([[[1.0, 2.0]]])
    assert np.array_equal(jax.grad(lambda w: wg.conv1d(x, w).sum())(w), [[[21, 28]]])
    assert wg.max_pool1d(x, 2).dtype == x.dtype


def test_the_rules_of_the_table_are_differentiable_in_turn() -> None:
    params, x = MaxParams(wg.geometry.Sliding((2,))), jnp.asarray([1.0, 3.0, 2.0, 5.0])
    check_grads(lambda dx: OPS["max_pool"].jvp(params, x, dx), [x], order=2, modes=["fwd", "rev"])
    check_grads(lambda g: OPS["max_pool"].vjp(params, x, g)[0], [x[:2]], order=2, modes=["fwd", "rev"])
