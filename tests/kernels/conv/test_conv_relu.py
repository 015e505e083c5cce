"""relu in the forward pass of convolution: the same bits as relu after it."""

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.entry import conv_forward
from windowgrad.params import ConvParams, TransposeParams

CASES = {
    # name: x, weight, window, groups, transposed
    "3×3": ((2, 5, 9, 11), (13, 5, 3, 3), Sliding((3, 3), 1, 1), 1, False),
    "long sums": ((1, 130, 7, 7), (9, 130, 3, 3), Sliding((3, 3), 2, 1), 1, False),
    "1×1": ((3, 16, 9, 9), (17, 16, 1, 1), Sliding((1, 1), 1), 1, False),
    "groups": ((2, 6, 9, 9), (6, 3, 3, 3), Sliding((3, 3), 1, 1), 2, False),
    "depthwise": ((2, 6, 20, 20), (6, 1, 3, 3), Sliding((3, 3), 1, 1), 6, False),
    "transposed": ((2, 6, 8, 8), (6, 5, 2, 2), Sliding((2, 2), 2), 1, True),
}


def made(name, rng, dtype):
    x, w, window, groups, transposed = CASES[name]
    params = TransposeParams(window, groups, (0, 0)) if transposed else ConvParams(window, groups)
    outs = w[1] * groups if transposed else w[0]
    return params, *(rng.standard_normal(shape).astype(dtype) for shape in (x, w, (outs,)))


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", CASES)
def test_relu_in_the_forward_pass_gives_the_bits_of_relu_after_it(name, dtype):
    params, x, w, bias = made(name, np.random.default_rng(0), dtype)
    for extra in ((), (bias,)):
        same_bits(conv_forward(params, x, w, *extra, relu=True), wg.relu(conv_forward(params, x, w, *extra)))


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42, -0.0])
@pytest.mark.parametrize("name", CASES)
def test_relu_of_strange_sums_is_that_of_the_sums_as_they_are_reviewed(name, cell):
    """Whatever is not finite, too large for float32, or denormal: in one sample, where the others stay as they were."""
    params, x, w, bias = made(name, np.random.default_rng(1), np.float32)
    x[-1, 0] = cell
    with np.errstate(all="ignore"):  # as dispatch has it
        same_bits(conv_forward(params, x, w, bias, relu=True), wg.relu(conv_forward(params, x, w, bias)))
    x[:], bias[:] = -0.0, -0.0
    assert not np.signbit(conv_forward(params, x, w, bias, relu=True)).any()


def test_relu_of_integers_is_exact():
    x, w = np.arange(-8, 8).reshape(1, 1, 16), np.ones((1, 1, 1), int)
    found = conv_forward(ConvParams(Sliding((1,), 1)), x, w, relu=True)
    assert found.ravel().tolist() == [0] * 8 + list(range(8))
