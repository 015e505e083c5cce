"""Calls that were prepared for arrays of a kind have the bits of those that were not, and keep nothing of the cells."""

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.gemm import at_once
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams
from windowgrad.routes import by_kernel

SHAPES = {
    "1×1": (ConvParams(Sliding((1, 1))), (1, 8, 9, 9), (20, 8, 1, 1)),
    "1×1, few rows": (ConvParams(Sliding((1, 1))), (3, 19, 5, 6), (2, 19, 1, 1)),
    "1×1, stride 2": (ConvParams(Sliding((1, 1), 2)), (2, 3, 9, 8), (40, 3, 1, 1)),
    "3×3": (ConvParams(Sliding((3, 3), 1, 1)), (2, 5, 7, 6), (9, 5, 3, 3)),
    "3×3, stride 2": (ConvParams(Sliding((3, 3), 2, 1)), (1, 40, 7, 7), (24, 40, 3, 3)),
    "groups": (ConvParams(Sliding((3,), 1, 1), 2), (3, 4, 30), (18, 2, 3)),
    "wide weight": (ConvParams(Sliding((3, 3, 3), 1, 1)), (1, 2, 2, 2, 2), (9, 2, 3, 3, 3)),
    "transposed": (TransposeParams(Sliding((2, 2), 2)), (2, 6, 5, 4), (6, 7, 2, 2)),
    "large": (ConvParams(Sliding((3, 3), 1, 1)), (2, 24, 20, 20), (32, 24, 3, 3)),
}
CELLS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "whole": lambda rng, shape: rng.integers(-2, 3, shape),
    "none": lambda rng, shape: np.zeros(shape),
    "tiny": lambda rng, shape: rng.integers(-2, 3, shape) * 1e-25,
    "apart": lambda rng, shape: np.where(rng.integers(0, 2, shape), 1e-30, 1.0) * rng.integers(-1, 2, shape),
    "huge": lambda rng, shape: rng.integers(-2, 3, shape) * 1e25,
    "infinite": lambda rng, shape: np.where(rng.integers(0, 9, shape), rng.integers(-2, 3, shape), np.inf),
    "nan": lambda rng, shape: np.where(rng.integers(0, 9, shape), rng.integers(-2, 3, shape), np.nan),
}


@pytest.fixture(autouse=True)
def prepared(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)


def bits(arrays):
    """What can be told apart: NaN is one value, whatever its sign."""
    return [np.where(np.isnan(a), np.nan, a).tobytes() for a in arrays]


def called(params):
    return OPS["conv_transpose" if isinstance(params, TransposeParams) else "conv"]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("cells", CELLS)
def test_a_prepared_rule_has_the_bits_of_the_kernel(cells, name, dtype, count, monkeypatch):
    monkeypatch.setattr(threads, "chosen", count)
    rng, (params, x_shape, w_shape) = np.random.default_rng(5), SHAPES[name]
    op = called(params)
    with np.errstate(over="ignore"):
        x, w = (CELLS[cells](rng, shape).astype(dtype) for shape in (x_shape, w_shape))
    outs = w_shape[1] * params.groups if isinstance(params, TransposeParams) else w_shape[0]
    for bias in ((), (np.zeros(outs, dtype),), (rng.standard_normal(outs).astype(dtype),)):
        wanted = by_kernel(op, "forward", params, (x, w, *bias))
        g = rng.integers(-2, 3, wanted.shape).astype(dtype)
        gradients = by_kernel(op, "vjp", params, (x, w, *bias, g))
        for _ in range(2):  # the second one is known
            assert bits([op.forward(params, x, w, *bias)]) == bits([wanted])
            assert bits(op.vjp(params, x, w, *bias, g)) == bits(gradients)


def test_a_small_pass_is_one_kernel_call(monkeypatch):
    """Python calls neither what packs the weight nor what reviews the sums."""
    seen = []
    monkeypatch.setattr(at_once, "multiply_at_once", lambda *arrays: seen.append(len(arrays)) or 0)
    rng, (params, x, w) = np.random.default_rng(5), SHAPES["1×1"]
    kinds = [(shape, np.dtype(np.float32)) for shape in (x, w, w[:1])]
    call = dispatch.route.__wrapped__(OPS["conv"], "forward", params, *kinds)[1]
    call(*[rng.integers(-2, 3, shape).astype(np.float32) for shape, _ in kinds])
    assert seen == [8]


def test_a_weight_that_was_written_to_is_read_again():
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((4, 3, 1, 1), np.float32)
    for value in (1, 2, 3):
        w[...] = value
        assert (wg.conv2d(x, w) == 3 * value).all()


def test_results_are_new_each_time():
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((4, 3, 1, 1), np.float32)
    first, second = wg.conv2d(x, w), wg.conv2d(x, w)
    second[...] = 7
    assert (first == 3).all()
    assert not np.shares_memory(first, second)


OPTIONS = [
    ({"stride": True}, "stride=True"),
    ({"groups": 1.0}, "groups=1.0"),
    ({"padding": -1}, "padding=-1"),
    ({"dilation": 0}, "dilation=0"),
]


@pytest.mark.parametrize(("options", "said"), OPTIONS)
def test_what_is_wrong_is_said_after_calls_that_were_right(options, said):
    """1 and True are equal, but only one of them is a stride."""
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((4, 3, 1, 1), np.float32)
    for _ in range(2):
        assert wg.conv2d(x, w, None, 1, 0, 1, 1).shape == (1, 4, 5, 5)
        with pytest.raises(wg.WindowgradError, match=said):
            wg.conv2d(x, w, **options)
        with pytest.raises(wg.WindowError, match=r"conv2d\(x: float32\(1, 2, 5, 5\), weight: float32\(4, 3, 1, 1\)\)"):
            wg.conv2d(x[:, :2], w)
        with pytest.raises(wg.WindowError, match=r"bias"):
            wg.conv2d(x, w, np.ones(3, np.float32))


@pytest.mark.parametrize(
    "options", [{"stride": [1, 1]}, {"padding": [[0, 0], [0, 0]]}, {"stride": np.int64(1)}, {"padding": "same"}]
)
def test_options_of_any_kind_are_taken_each_time(options):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 5, 5)), rng.standard_normal((4, 3, 1, 1))
    wanted = wg.conv2d(x, w)
    for _ in range(3):
        assert wg.conv2d(x, w, **options).tobytes() == wanted.tobytes()


def test_arrays_that_are_not_in_a_row_are_computed_too():
    rng = np.random.default_rng(0)
    x, w, bias = rng.standard_normal((2, 3, 5, 6)), rng.standard_normal((4, 3, 3, 3)), rng.standard_normal(4)
    wanted = wg.conv2d(x, w, bias)
    fixed = w.copy()
    fixed.flags.writeable = False
    for _ in range(2):
        assert wg.conv2d(np.asfortranarray(x), w, bias).tobytes() == wanted.tobytes()
        assert wg.conv2d(x, fixed, bias).tobytes() == wanted.tobytes()
        assert wg.conv2d(x, w, np.repeat(bias, 2)[::2]).tobytes() == wanted.tobytes()
        assert wg.conv2d(x, w, bias, out=np.empty_like(wanted)).tobytes() == wanted.tobytes()


def test_an_output_size_is_of_the_input_it_is_asked_for():
    w = np.ones((1, 1, 2, 2), np.float32)
    for side in (3, 4, 3):
        y = wg.conv_transpose2d(np.ones((1, side, side), np.float32), w, stride=2, output_size=2 * side + 1)
        assert y.shape == (1, 2 * side + 1, 2 * side + 1)
    with pytest.raises(wg.WindowError, match="output_size"):
        wg.conv_transpose2d(np.ones((1, 5, 5), np.float32), w, stride=2, output_size=7)
