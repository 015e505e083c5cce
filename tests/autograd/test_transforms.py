"""The transforms: derivatives of functions of nested arguments, nested in each other, that leave nothing behind."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import windowgrad as wg
from support.exact import fractions_of
from windowgrad.errors import GradientError
from windowgrad.geometry import Sliding
from windowgrad.ops import routed
from windowgrad.params import MeanParams
from windowgrad.spec import mean


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any

    def __post_init__(self):
        assert self.weight is not None, "a record under differentiation is not made anew"


def cube(x):
    return x * x * x


def test_jvp_gives_value_and_tangent():
    y, dy = wg.jvp(lambda x: wg.max_pool2d(x, 2), (np.arange(4.0).reshape(1, 2, 2),), (np.array([[[5.0, 6], [7, 8]]]),))
    assert (y.tolist(), dy.tolist()) == ([[[3]]], [[[8]]])


def test_vjp_gives_value_and_pull_which_may_be_called_again():
    y, pull = wg.vjp(lambda x, w: wg.conv1d(x, w), np.arange(4.0).reshape(1, 4), np.array([[[1.0, 2]]]))
    assert y.tolist() == [[2, 5, 8]]
    for _ in range(2):
        gx, gw = pull(np.ones((1, 3)))
        assert gx.tolist() == [[1, 3, 3, 2]]
        assert gw.tolist() == [[[3, 6]]]


def test_grad_of_grad_of_grad():
    assert float(wg.grad(cube)(2.0)) == 12
    assert float(wg.grad(wg.grad(cube))(2.0)) == 12
    assert float(wg.grad(wg.grad(wg.grad(cube)))(2.0)) == 6
    assert wg.grad(wg.grad(cube))(Fraction(1, 3))[()] == Fraction(2)


@pytest.mark.parametrize("mode", ["backward", "forward"])
def test_an_inner_derivative_does_not_see_the_outer_one(mode):
    """d/dx (x · d/dy (x + y)) is 1: the perturbations of x and y are told apart."""

    def slope(f, at):
        return wg.grad(f)(at) if mode == "backward" else wg.jvp(f, (at,), (1.0,))[1]

    assert float(slope(lambda x: x * slope(lambda y: x + y, 1.0), 1.0)) == 1
    assert float(slope(lambda x: x * slope(lambda y: x * y, 2.0), 3.0)) == 6


def test_arguments_may_be_nested_tuples_lists_dicts_and_dataclasses():
    rng = np.random.default_rng(0)
    params = {"conv": Layer(rng.normal(size=(2, 1, 3)), rng.normal(size=2)), "scale": [(1.5, np.ones((2, 1)))]}

    def loss(params, x):
        y = wg.conv1d(x, params["conv"].weight, params["conv"].bias)
        (factor, more) = params["scale"][0]
        return wg.sum(y * y * more) * factor

    x = rng.normal(size=(1, 7))
    value, g = wg.value_and_grad(loss)(params, x)
    assert isinstance(g["conv"], Layer)
    assert g["conv"].weight.shape == (2, 1, 3)
    assert float(g["scale"][0][0]) == pytest.approx(float(value) / 1.5)
    wg.check_grads(loss, params, x, order=2)
    y, dy = wg.jvp(lambda p: {"same": p}, (params,), (params,))
    assert (dy["same"]["conv"].bias == params["conv"].bias).all()
    assert isinstance(y["same"]["scale"][0], tuple)


def test_argnums_choose_the_arguments():
    def f(x, y, z):
        return x * y + z

    assert float(wg.grad(f, 1)(2.0, 3.0, 4.0)) == 2
    assert [float(g) for g in wg.grad(f, (0, -1))(2.0, 3.0, 4.0)] == [3, 1]
    with pytest.raises(wg.OptionError, match="argnums=3: out of range, 3 arguments given"):
        wg.grad(f, 3)(2.0, 3.0, 4.0)
    with pytest.raises(wg.KindError, match="argnums='x': must be an integer"):
        wg.grad(f, "x")(2.0, 3.0, 4.0)


def test_an_argument_is_chosen_once():
    for argnums in ((0, 0), (1, -1)):
        with pytest.raises(wg.OptionError, match="must not name an argument twice"):
            wg.grad(lambda x, y: x * y, argnums)(1.0, 2.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.int64])
def test_derivatives_beside_integers_are_floats(dtype):
    """An unsigned integer has no negative: 255 is not the slope of −x."""
    x = np.array([1, 100], dtype)
    slopes = {
        "grad": wg.grad(lambda x: wg.sum(-x))(x),
        "vjp": wg.vjp(lambda x: -x, x)[1](np.ones(2, dtype))[0],
        "jvp": wg.jvp(lambda x: -x, (x,), (np.ones(2, dtype),))[1],
        "jacobian": wg.jacobian(lambda x: -x)(x).sum(axis=0),
    }
    tape = wg.Tape()
    leaf, unused = tape.leaf(x), tape.leaf(x)
    grads = tape.backward(-leaf, np.ones(2, dtype))
    for found in (*slopes.values(), grads[leaf]):
        assert found.dtype.kind == "f"
        assert found.tolist() == [-1, -1]
    assert grads[unused].dtype.kind == "f"
    assert grads[unused].tolist() == [0, 0]


def test_a_gradient_is_of_one_number():
    with pytest.raises(wg.WindowError, match=r"grad needs a function that returns a scalar, not an array of shape \(3,\)"):
        wg.grad(lambda x: x * 2)(np.ones(3))
    with pytest.raises(wg.WindowError, match="returns a scalar, not a dict"):
        wg.grad(lambda x: {"y": x})(1.0)


def test_what_does_not_depend_has_zero_derivatives():
    x = np.ones((2, 3))
    assert wg.grad(lambda x: np.array(3.0))(x).tolist() == np.zeros((2, 3)).tolist()
    assert wg.jvp(lambda x: np.ones(2), (x,), (x,))[1].tolist() == [0, 0]


def test_a_gradient_of_decimals_starts_from_a_decimal():
    """A fraction does not multiply a decimal, so nothing on the way may become one."""
    x, target = (np.array([Decimal(n), Decimal(2)], dtype=object) for n in (3, 5))
    assert wg.grad(wg.mse)(x, target).tolist() == [Decimal(-2), Decimal(0)]
    assert wg.grad(lambda x: wg.sum(wg.grad(wg.mse)(x, target)))(x).tolist() == [Decimal(1), Decimal(1)]
    tape = wg.Tape()
    assert tape.backward(wg.mse(tape.leaf(x, name="x"), target))["x"].tolist() == [Decimal(-2), Decimal(0)]


def test_hvp_is_the_hessian_times_the_tangent():
    a = np.random.default_rng(1).normal(size=(4, 4))

    def f(x, y):
        return wg.sum(x * wg.matmul(a, x)) + wg.sum(cube(y)) + wg.sum(x * y)

    x, y, dx, dy = np.random.default_rng(2).normal(size=(4, 4))
    hx, hy = wg.hvp(f, (x, y), (dx, dy))
    assert np.allclose(hx, (a + a.T) @ dx + dy, rtol=1e-12)
    assert np.allclose(hy, 6 * y * dy + dx, rtol=1e-12)


def test_jacobian_is_the_same_in_both_modes():
    """A convolution from 6 cells to 4, and its transpose from 4 to 6: one goes backward, the other forward."""
    w = fractions_of(np.array([[[1, 2, 3]]]))
    narrow = wg.jacobian(lambda x: wg.conv1d(x, w))(fractions_of(np.ones((1, 6), int)))
    wide = wg.jacobian(lambda x: wg.conv_transpose1d(x, w))(fractions_of(np.ones((1, 4), int)))
    assert (narrow.shape, wide.shape) == ((1, 4, 1, 6), (1, 6, 1, 4))
    assert narrow.reshape(4, 6).tolist() == wide.reshape(6, 4).T.tolist()
    assert narrow.reshape(4, 6).tolist() == [[0] * i + [1, 2, 3] + [0] * (3 - i) for i in range(4)]


def test_jacobian_of_nested_arguments_and_results_and_inside_a_gradient():
    found = wg.jacobian(lambda x, y: {"sum": x["a"] + y, "product": x["a"] * y}, (0, 1))(
        {"a": np.array([2.0])}, np.array([3.0])
    )
    assert found["product"][0]["a"].tolist() == [[3]]
    assert found["product"][1].tolist() == [[2]]
    assert found["sum"][1].tolist() == [[1]]
    slope = wg.grad(lambda x: wg.sum(wg.jacobian(cube)(x)))(np.array([2.0, 5.0]))
    assert slope.tolist() == [12, 30]
    wide = wg.grad(lambda x: wg.sum(wg.jacobian(lambda x: wg.conv_transpose1d(x * x, np.ones((1, 1, 3))))(x)))(np.ones((1, 2)))
    assert wide.tolist() == [[6, 6]]


def test_a_function_that_raises_leaves_nothing_behind():
    def f(x):
        raise RuntimeError("stop")

    for call in (lambda: wg.grad(f)(1.0), lambda: wg.jvp(f, (1.0,), (1.0,)), lambda: wg.grad(wg.grad(f))(1.0)):
        with pytest.raises(RuntimeError, match="stop"):
            call()
    assert float(wg.grad(cube)(2.0)) == 12


def test_threads_do_not_see_each_other():
    found = {}

    def work(n):
        for _ in range(30):
            found[n] = float(wg.grad(wg.grad(lambda x: cube(x) * n))(1.0))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == {n: 6 * n for n in range(8)}


def test_transforms_work_on_a_tape_of_the_users():
    tape = wg.Tape()
    x = tape.leaf(np.array(2.0), name="x")
    y = wg.grad(cube)(x)
    assert isinstance(y, wg.Var)
    assert float(tape.backward(y)["x"]) == 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wg.jvp(cube, 1.0, 1.0), "primals: must be a tuple with one entry per argument of f, not float"),
        (lambda: wg.jvp(cube, (1.0,), ()), "tangents: must have the same structure as primals"),
        (
            lambda: wg.jvp(cube, (np.ones(2),), (np.ones(3),)),
            r"tangents\[0\] of shape \(3,\): must be \(2,\), the shape of primals",
        ),
        (lambda: wg.vjp(cube, np.ones(2))[1](np.ones(3)), r"g of shape \(3,\): must be \(2,\), the shape of the result"),
        (lambda: wg.grad(3), "f: must be a function, not int"),
        (lambda: wg.grad(cube)({"a": "text"}), r"primals\[0\]\['a'\]: must be a NumPy array, not str"),
        (lambda: wg.check_grads(cube, 1.0, order=0), "order=0: must be an integer from 1 to 16"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((wg.WindowError, wg.KindError, wg.OptionError), match=message):
        call()


CHECKED = {
    "max": lambda x: wg.max_pool2d(x, 3, 2, 1),
    "mean": lambda x: wg.avg_pool2d(x, 3, 2, 1),
    "smooth": lambda x: wg.smooth_max_pool2d(x, 3, 2, 1, beta=1.5),
    "adaptive": lambda x: wg.adaptive_smooth_max_pool2d(x, (2, 3), beta=-0.5),
    "global": lambda x: wg.global_smooth_max_pool2d(x, beta=2),
    "conv": lambda x: wg.conv2d(x, wg.reshape(x, (2, 3, 6, 5))),
    "transpose": lambda x: wg.conv_transpose2d(x, wg.reshape(x, (3, 2, 6, 5))),
    "pad": lambda x: cube(wg.pad(x, (1, 2))),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(CHECKED))
def test_check_grads_passes_for_every_window_operator_twice(name, dtype):
    """The cells are far enough apart that a small step changes no winner."""
    x = np.random.default_rng(3).permutation(180).reshape(2, 3, 6, 5) / (9 if name == "max" else 90)
    wg.check_grads(CHECKED[name], x.astype(dtype), order=2)


def test_check_grads_over_fractions_is_exact():
    wg.check_grads(
        lambda x, w: wg.conv1d(x * x, w),
        fractions_of(np.arange(6).reshape(1, 6)),
        fractions_of(np.ones((1, 1, 2), int)),
        order=2,
    )


def doubled(rule):
    """A rule of the mean that gives twice what it should."""

    def wrong(*args):
        right = getattr(mean.OP, rule)(*args)
        return tuple(2 * part for part in right) if rule == "vjp" else 2 * right

    return wrong


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (("vjp",), "of jvp and .* of vjp differ"),
        (("jvp",), "of jvp and .* of vjp differ"),
        (("jvp", "vjp"), "of jvp and of finite differences differ"),
    ],
)
def test_check_grads_finds_a_wrong_derivative(rules, message):
    """A rule that is wrong in one mode is found by the other, one that is wrong in both by a small step."""
    op = routed(replace(mean.OP, name="wrong", **{rule: doubled(rule) for rule in rules}))
    params = MeanParams(Sliding((2, 2)))
    with pytest.raises(GradientError, match=message):
        wg.check_grads(lambda x: op.forward(params, x), fractions_of(np.arange(16).reshape(4, 4)))
