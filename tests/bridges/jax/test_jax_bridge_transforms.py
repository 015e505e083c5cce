"""vmap, jit, scan, threads: what JAX makes of functions, made of ours."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import windowgrad as wg
from support.jax_cases import CONVOLUTION, NAMED, POOLING, Case

SIZE = 3  # entries of a mapped axis


def one_by_one(f: Callable[..., Any], axes: tuple[int | None, ...], arrays: list[Any]) -> Any:
    """What vmap means."""
    picked = [[a if axis is None else jnp.take(a, i, axis) for a, axis in zip(arrays, axes, strict=True)] for i in range(SIZE)]
    return jax.tree.map(lambda *each: jnp.stack(each), *(f(*arrays) for arrays in picked))


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def stacked(case: Case, axes: tuple[int | None, ...]) -> list[jax.Array]:
    """Arrays of the case, along a new axis where there is one."""
    each = [case.arrays(seed=seed) for seed in range(SIZE)]
    return [
        jnp.asarray(a[0]) if axis is None else jnp.stack(a, axis) for a, axis in zip(zip(*each, strict=True), axes, strict=True)
    ]


@pytest.mark.parametrize("case", POOLING, ids=lambda case: case.name)
def test_vmap_of_pooling_is_pooling_one_by_one(case: Case) -> None:
    axes = (case.call(jnp.asarray(case.arrays()[0])).ndim - 1,)
    (x,) = stacked(case, axes)
    assert same(jax.jit(jax.vmap(case.call, axes))(x), one_by_one(case.call, axes, [x]))


@pytest.mark.parametrize("name", ["max_pool1d", "avg_pool1d", "smooth_max_pool1d"])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
def test_vmap_of_derivatives_of_pooling_is_one_by_one(name: str, axes: tuple[int | None, ...]) -> None:
    case = NAMED[name]

    def both(x, d):
        y, pull = jax.vjp(case.call, x)
        return jax.jvp(case.call, (x,), (d,)), pull(case.call(d) + y)

    arrays = stacked(Case(name, both, case.shapes * 2), axes)
    assert same(jax.jit(jax.vmap(both, axes))(*arrays), one_by_one(both, axes, arrays))


@pytest.mark.parametrize("case", CONVOLUTION, ids=lambda case: case.name)
def test_vmap_of_convolution_and_its_derivatives_is_one_by_one(case: Case) -> None:
    """Along any of its inputs: images of their own, weights of their own, a bias of their own. The sums are exact."""

    def everything(*arrays):
        y, pull = jax.vjp(case.call, *arrays)
        return y, pull(y), jax.jvp(case.call, arrays, arrays)

    for axes in itertools.product((1, None), *((0, None) for _ in case.shapes[1:])):
        if axes != (None,) * len(axes):
            arrays = stacked(case, axes)
            assert same(jax.jit(jax.vmap(everything, axes))(*arrays), one_by_one(everything, axes, arrays)), axes


def test_vmap_of_indices_is_one_by_one() -> None:
    (x,) = stacked(NAMED["max_pool2d"], (0,))
    f = lambda x: wg.max_pool2d(x, 2, return_indices=True)  # noqa: E731
    assert same(jax.vmap(f)(x), one_by_one(f, (0,), [x]))


def test_vmap_over_nothing_gives_nothing() -> None:
    x, w = jnp.zeros((0, 1, 2, 5)), jnp.zeros((0, 3, 2, 2))
    assert jax.vmap(wg.conv1d)(x, w).shape == (0, 1, 3, 4)
    assert jax.vmap(wg.global_max_pool1d)(x).shape == (0, 1, 2, 1)


def test_each_example_has_a_gradient_of_its_own_by_vmap_of_grad() -> None:
    x, w, b = (jnp.asarray(a) for a in NAMED["conv2d"].arrays())
    per_example = jax.vmap(jax.grad(lambda w, x: (wg.conv2d(x, w, b) ** 2).sum()), (None, 0))(w, x)
    assert per_example.shape == (2, *w.shape)
    assert same(per_example.sum(0), jax.grad(lambda w: (wg.conv2d(x, w, b) ** 2).sum())(w))


# --- a network ---------------------------------------------------------------------------------------------------


def network(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(wg.conv2d(x, weights["w"], weights["b"], padding=1))
    return wg.global_avg_pool2d(wg.max_pool2d(hidden, 2), keepdims=False) @ weights["v"]


def loss(weights: dict[str, jax.Array], x: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.mean((network(weights, x) - target) ** 2)


@pytest.fixture
def problem() -> tuple[dict[str, jax.Array], jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 1, 3, 3)) / 3, "b": np.zeros(4), "v": rng.standard_normal((4, 2))}
    x, target = rng.standard_normal((6, 1, 8, 8)), rng.standard_normal((6, 2))
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (weights, x, target))


def test_a_compiled_network_learns(problem) -> None:
    weights, x, target = problem
    step = jax.jit(jax.value_and_grad(loss))
    first, _ = step(weights, x, target)
    for _ in range(30):
        value, gradient = step(weights, x, target)
        weights = jax.tree.map(lambda a, g: a - 0.1 * g, weights, gradient)
    assert value < first / 2


def test_scan_over_training_steps_is_the_loop(problem) -> None:
    weights, x, target = problem

    def step(weights, _):
        value, gradient = jax.value_and_grad(loss)(weights, x, target)
        return jax.tree.map(lambda a, g: a - 0.1 * g, weights, gradient), value

    _, scanned = jax.lax.scan(step, weights, length=4)
    looped = []
    for _ in range(4):
        weights, value = step(weights, None)
        looped.append(value)
    np.testing.assert_allclose(scanned, looped, rtol=1e-5)


def test_the_gradient_of_a_scan_over_pooling_is_that_of_the_unrolled_one() -> None:
    x = jnp.asarray([3.0, 1.0, 4.0, 1.5, 5.0])
    pool = lambda a: wg.smooth_max_pool1d(a, 3, 1, 1, beta=1.0)  # noqa: E731
    scanned = jax.grad(lambda x: jax.lax.scan(lambda a, _: (pool(a), None), x, length=3)[0].sum())(x)
    np.testing.assert_allclose(scanned, jax.grad(lambda x: pool(pool(pool(x))).sum())(x), rtol=1e-6)


def test_rematerialised_gradients_are_the_same(problem) -> None:
    plain = jax.jit(jax.grad(loss))(*problem)
    again = jax.jit(jax.grad(jax.checkpoint(loss)))(*problem)
    assert same(plain, again)


def test_a_branch_of_cond_may_pool() -> None:
    f = jax.jit(lambda p, x: jax.lax.cond(p, lambda x: wg.max_pool1d(x, 2), lambda x: wg.avg_pool1d(x, 2), x))
    x = jnp.asarray([1.0, 3.0, 2.0, 6.0])
    assert np.array_equal(f(True, x), [3, 6])
    assert np.array_equal(f(False, x), [2, 4])


def test_a_program_names_the_public_function() -> None:
    text = str(jax.make_jaxpr(lambda x: wg.adaptive_max_pool1d(x, 2))(jnp.zeros(4)))
    assert "adaptive_max_pool1d[" in text


# --- at once -----------------------------------------------------------------------------------------------------


def test_compiled_calls_from_many_threads_end_and_agree(problem) -> None:
    """Large enough that each call uses threads of its own."""
    step = jax.jit(lambda x: wg.max_pool2d(wg.avg_pool2d(x, 3, 1, 1), 2).sum())
    images = [jnp.full((2, 4, 256, 256), value, jnp.float32) for value in range(4)]
    alone = [float(step(x)) for x in images]
    results: list[list[float]] = [[] for _ in images]

    def work(i: int) -> None:
        for _ in range(5):
            results[i].append(float(step(images[i])))

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert results == [[value] * 5 for value in alone]


def test_independent_operators_of_one_program_do_not_wait_for_each_other() -> None:
    x = jnp.ones((2, 4, 128, 128))
    f = jax.jit(lambda x: [wg.max_pool2d(x + i, 2) for i in range(8)])
    for i, y in enumerate(f(x)):
        assert np.all(np.asarray(y) == 1 + i)
