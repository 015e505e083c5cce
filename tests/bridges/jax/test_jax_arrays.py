"""The array functions on JAX arrays: the values, dtypes and derivatives of NumPy arrays, in JAX's own system."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import windowgrad as wg
from support.tensor_cases import (
    NAMES,
    beside_constants,
    cells,
    gradient_cases,
    gradients,
    near,
    network,
    of,
    plain,
    some,
    trained,
)
from windowgrad.autograd.arrays.functions import relu6

each_function = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def all_dtypes():
    """64 bits, as in NumPy; what is without them has tests of its own."""
    with jax.enable_x64(True):
        yield


def as_jax(arrays):
    return [jnp.asarray(array) for array in arrays]


def divided(case):
    """XLA may multiply by a reciprocal where it should divide: one ulp and a half."""
    return replace(case, ulps=max(case.ulps, 2)) if case.name in ("divide", "mean") else case


@each_function
def test_jax_arrays_give_what_arrays_give(name):
    cases = map(divided, some(of(name), 6))
    wrong = [case.differs(np.asarray(case.call(*as_jax(case.arrays))), case.call(*case.arrays)) for case in cases]
    assert not any(wrong), "\n".join(filter(None, wrong))


@each_function
def test_gradients_are_those_of_our_own_vjp(name):
    wrong = []
    for case in some(gradient_cases(name), 3):
        g, right = gradients(case)
        call, arrays = beside_constants(case, jnp.asarray)
        found = jax.jit(lambda g, *xs, call=call: jax.vjp(call, *xs)[1](g))(jnp.asarray(g), *as_jax(arrays))
        wrong += [near(case).differs(np.asarray(a), b) for a, b in zip(found, right, strict=True)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@each_function
def test_compiled_mapped_and_pushed_it_gives_the_same(name):
    case = plain(name)
    call, arrays = beside_constants(case, jnp.asarray)
    xs, (g, right) = as_jax(arrays), gradients(case)
    y, found = jax.jit(lambda *xs: (call(*xs), jax.vjp(call, *xs)[1](jnp.asarray(g))))(*xs)
    wrong = [case.differs(np.asarray(y), case.call(*case.arrays))]
    wrong += [near(case).differs(np.asarray(a), b) for a, b in zip(found, right, strict=True)]
    dxs = tuple(jnp.asarray(cells(a.shape, "float64", False, seed=3)) for a in arrays)
    ours, variables = beside_constants(case)
    _, moved = wg.jvp(ours, tuple(variables), tuple(map(np.asarray, dxs)))
    wrong += [near(case).differs(np.asarray(jax.jvp(call, tuple(xs), dxs)[1]), moved)]
    batches = [jnp.stack([x, x[::-1] if x.ndim else -x]) for x in xs]
    mapped = jax.jit(jax.vmap(call))(*batches)
    wrong += [case.differs(np.asarray(mapped[i]), np.asarray(call(*(batch[i] for batch in batches)))) for i in range(2)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("name", ["sigmoid", "sqrt", "softmax", "power", "batch_norm"])
def test_second_derivatives_are_ours(name):
    case = plain(name)
    call, arrays = beside_constants(case, jnp.asarray)
    ours, _ = beside_constants(case)
    first, *rest = as_jax(arrays)
    found = jax.hessian(lambda x: (call(x, *rest) ** 2).sum())(first)
    right = wg.hessian(lambda x: wg.sum(wg.power(ours(x, *arrays[1:]), 2)))(arrays[0])
    np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-9)


def test_ties_and_kinks_are_shared_as_by_our_own_vjp():
    tie = jnp.asarray([0.0, -0.0, 2.0, jnp.nan, jnp.inf, -jnp.inf])
    other = jnp.asarray([-0.0, 0.0, 2.0, jnp.nan, jnp.inf, -jnp.inf])
    for function, best in ((wg.maximum, wg.max), (wg.minimum, wg.min)):
        for run in (function, jax.jit(function)):
            assert jnp.signbit(run(tie, other)).tolist() == [False, True, False, False, False, True]
        assert jax.grad(lambda x, f=function: f(x, other).sum())(tie).tolist() == [0.5] * 6
        assert jax.grad(best)(jnp.stack([tie, tie])).tolist() == [[0, 0, 0, 0.5, 0, 0]] * 2
    at = jnp.asarray([0.0, -0.0, 6.0])
    for function in (wg.relu, relu6, wg.abs):
        assert jax.grad(lambda x, f=function: f(x).sum())(at).tolist() == [0, 0, function is not relu6]
    assert jax.grad(lambda x: wg.clip(x, 0, 6).sum())(at).tolist() == [0.5, 0.5, 0.5]
    assert float(jax.grad(jax.grad(wg.sigmoid))(0.0 * at[0])) == 0
    assert jax.grad(wg.sigmoid)(jnp.asarray(60.0)) > 0


def test_without_64_bits_results_have_32():
    with jax.enable_x64(False):
        x = jnp.asarray([[1, 2], [3, 4]])
        kinds = {y.dtype.name for y in (wg.exp(x), wg.divide(x, 2), wg.mean(x), wg.softmax(x), wg.mse(x, 1), wg.add(x, 0.5))}
        assert kinds == {"float32"}
        assert {y.dtype.name for y in (wg.sum(x), wg.matmul(x, x), wg.add(x, 1), wg.max(x))} == {"int32"}
        assert wg.add(x.astype(jnp.bfloat16), 1.5).dtype == wg.sum(x.astype(jnp.bfloat16)).dtype == jnp.bfloat16
        assert wg.add(x.astype(jnp.float32), np.ones(2)).dtype == jnp.float32


def test_a_traced_label_that_is_out_of_range_gives_nan():
    x = jnp.arange(6.0).reshape(2, 3)
    for labels in ([0, 3], [-1, 0]):
        assert jnp.isnan(jax.jit(wg.cross_entropy)(x, jnp.asarray(labels)))
        with pytest.raises(wg.OptionError, match=r"labels: .* must be from 0 to 2"):
            wg.cross_entropy(x, jnp.asarray(labels))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: wg.add(x, jnp.ones(4)), wg.WindowError, r"sizes 3 and 4 on axis -1 .*\[add\(a: float64\(2, 3\)"),
        (lambda x: wg.sum(x, axis=5), wg.WindowError, r"axis=5: must be from -2 to 1 for x of shape \(2, 3\) \[sum\("),
        (lambda x: wg.max(x[:0]), wg.WindowError, r"an empty array has no greatest or least element \[max\("),
        (lambda x: wg.exp(x.astype(complex)), wg.KindError, r"x: unsupported dtype complex128; .*\[exp\("),
        (lambda x: wg.subtract(x > 0, x > 0), wg.KindError, r"subtract: unsupported dtypes bool and bool"),
        (lambda x: wg.negative(x > 0), wg.KindError, r"negative: unsupported dtype bool"),
        (lambda x: wg.add(x.astype(jnp.int8), 1000), wg.OptionError, r"b=1000: does not fit into int8"),
        (lambda x: wg.power(x.astype(int), -1), wg.OptionError, r"b: an integer must not have a negative exponent"),
        (lambda x: wg.where(x, x, x), wg.KindError, r"condition: must be an array of bools, not of float64"),
        (lambda x: wg.cross_entropy(x, jnp.ones(2)), wg.KindError, r"labels: must be integers, not float64"),
        (lambda x: wg.add(x, np.array(None)), wg.KindError, r"b: unsupported dtype object together with a JAX array"),
    ],
)
def test_errors_name_the_argument_the_value_and_the_call(call, error, said):
    for run in (call, jax.jit(call)):
        if run is call or "exponent" not in said:
            with pytest.raises(error, match=said):
                run(jnp.arange(6.0).reshape(2, 3))


def test_a_traced_value_beside_a_jax_array_is_refused():
    x = jnp.ones(3)
    for traced in (lambda v: wg.sum(wg.add(v, x)), lambda v: wg.sum(wg.add(x, v))):
        with pytest.raises(wg.KindError, match=r"jax\.grad differentiates JAX arrays"):
            wg.grad(traced)(np.ones(3))


def test_a_network_runs_and_trains_on_jax_arrays_as_on_arrays():
    model, params, x = network()
    own = jax.tree.map(jnp.asarray, params)
    for run in (model, jax.jit(model)):
        np.testing.assert_allclose(run(own, jnp.asarray(x)), model(params, x), rtol=0, atol=1e-6)

    def loss(params, x):
        y, new = model.train(params, x)
        return wg.mse(y, 1), new

    right_new, right = trained(model, params, x)
    gradient, new = jax.jit(jax.grad(loss, has_aux=True))(own, jnp.asarray(x))
    for found, wanted in ((gradient, right), (new, right_new)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6), found, wanted)
