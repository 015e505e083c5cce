"""A convolution computes those gradients that are needed, and they are the same bits as among all of them."""

import itertools

import numpy as np
import pytest

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import entry as convolution
from windowgrad.kernels.conv.exact import INPUT, WEIGHT
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams

KINDS = {"conv": ConvParams, "conv_transpose": TransposeParams}
rng = np.random.default_rng(11)


def arrays(params, dtype, bias):
    """x, weight, maybe bias, and the gradient of the output."""
    x, w = (2, 4, 9, 8), (4, 3, 3, 2)
    if not isinstance(params, TransposeParams):
        w = (3, 4, 3, 2)
    shapes = (x, w, *(((3,),) if bias else ()), params.out_shape(x, w))
    return [(rng.standard_normal(shape) * 9).astype(dtype) for shape in shapes]


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_every_mask_gives_the_gradients_that_are_given_without_one(name, bias, dtype):
    op, params = OPS[name], KINDS[name](Sliding((3, 2), 2, 1))
    given = arrays(params, dtype, bias)
    every = op.vjp(params, *given)
    for needs in itertools.product((False, True), repeat=len(given) - 1):
        found = op.vjp(params, *given, needs=needs)
        assert [gradient is not None for gradient in found] == list(needs)
        assert all(same(a, b) for a, b in zip(found, every, strict=True) if a is not None)


@pytest.mark.parametrize("name", KINDS)
def test_a_gradient_that_is_not_needed_is_not_computed(name, monkeypatch):
    op, params, seen = OPS[name], KINDS[name](Sliding((3, 2), 2, 1)), []
    total, channel_sums = convolution.total, convolution.channel_sums
    monkeypatch.setattr(convolution, "total", lambda conv, role, *rest: seen.append(role) or total(conv, role, *rest))
    monkeypatch.setattr(convolution, "channel_sums", lambda *args: seen.append("bias") or channel_sums(*args))
    given = arrays(params, "f4", True)
    for needs in itertools.product((False, True), repeat=3):
        seen.clear()
        op.vjp(params, *given, needs=needs)
        roles = (INPUT, WEIGHT, "bias")
        assert seen == [role for role, need in zip(roles, needs, strict=True) if need]


@pytest.mark.parametrize("name", KINDS)
def test_a_gradient_of_the_bias_that_float32_cannot_hold_is_infinite_without_a_warning(name):
    params = KINDS[name](Sliding((3, 2), 2, 1))
    x, w, bias, g = arrays(params, "f4", True)
    g[:] = 3e38
    assert np.isinf(OPS[name].vjp(params, x, w, bias, g)[2]).all()
