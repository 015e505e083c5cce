"""Rules 9 to 11: empty batches, any layout, the same bits every time."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from common import CONV, MAX, MEAN, SMOOTH, TIES, bits

import windowgrad as wg
from windowgrad import peak
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, SmoothParams, TransposeParams

# --- 9. Empty batch, 10. Any array layout, 11. Determinism -------------------------------------------------------

WEIGHT = np.random.default_rng(1).standard_normal((2, 2, 3, 3)).astype(np.float32)
W33 = Sliding((3, 3), 1, 1)


def derivatives(op, params):
    return lambda x: (op.jvp(params, x, x), *op.vjp(params, x, x))


CALLS = {
    "max_pool": lambda x: wg.max_pool2d(x, 3, 2, 1, return_indices=True),
    "avg_pool": lambda x: wg.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "smooth_max_pool": lambda x: wg.smooth_max_pool2d(x, 3, 2, 1, beta=0.7),
    "adaptive_max_pool": lambda x: wg.adaptive_max_pool2d(x, 4, return_indices=True),
    "adaptive_avg_pool": lambda x: wg.adaptive_avg_pool2d(x, 4),
    "adaptive_smooth_max_pool": lambda x: wg.adaptive_smooth_max_pool2d(x, 4, beta=-2),
    "global_max_pool": lambda x: wg.global_max_pool2d(x),
    "global_avg_pool": lambda x: wg.global_avg_pool2d(x),
    "global_smooth_max_pool": lambda x: wg.global_smooth_max_pool2d(x, beta=3),
    "conv": lambda x: wg.conv2d(x, WEIGHT, padding="same"),
    "conv_transpose": lambda x: wg.conv_transpose2d(x, WEIGHT, stride=2, output_padding=1),
    "pad": lambda x: wg.pad(x, ((1, 2), 0)),
    "unpad": lambda x: wg.unpad(x, ((1, 2), 0)),
    **{f"max derivatives, {ties}": derivatives(MAX, MaxParams(W33, ties=ties)) for ties in TIES},
    "mean derivatives": derivatives(MEAN, MeanParams(W33)),
    "smooth derivatives": derivatives(SMOOTH, SmoothParams(W33, 2)),
    "conv derivatives": lambda x: CONV.vjp(ConvParams(W33), x, WEIGHT, x),
    "transpose derivatives": lambda x: OPS["conv_transpose"].vjp(TransposeParams(W33), x, WEIGHT, x),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


def image(dtype=np.float32):
    return np.random.default_rng(0).standard_normal((3, 2, 7, 6)).astype(dtype)


@every_call
@pytest.mark.parametrize("dtype", [np.float32, object])
def test_an_empty_batch_gives_an_empty_batch(call, dtype):
    full, empty = (bits(call(x)) for x in (image(), image()[:0].astype(dtype)))
    for (one, _), (none, _) in zip(full, empty, strict=True):
        assert none == ((0, *one[1:]) if one[0] == 3 else one)  # the gradient of a weight has no batch


@pytest.mark.parametrize("call", [MAX, MEAN, SMOOTH], ids=lambda op: op.name)
def test_the_memory_for_a_gradient_is_estimated_by_the_shape_of_its_input(call, monkeypatch):
    """A window fits into the input, but not always into its gradient; estimates are made of large calls only."""
    monkeypatch.setattr(peak, "LEAST", 1)
    params = {MAX: MaxParams, MEAN: MeanParams, SMOOTH: SmoothParams}[call](
        Sliding((5, 5), 1), **{"beta": 2} if call is SMOOTH else {}
    )
    x, g = image(), np.ones((3, 2, 3, 2), np.float32)
    (plain,) = call.vjp(params, x, g)
    for given in (np.asfortranarray(g), np.moveaxis(np.ones((3, 3, 2, 2), np.float32), -1, 1), g.astype(np.float16)):
        assert call.vjp(params, x, given)[0].tobytes() == plain.tobytes()


@every_call
@pytest.mark.parametrize(("shape", "axis"), [((1, 2, 0, 6), 0), ((1, 2, 7, 0), 1)])
def test_a_spatial_axis_of_length_zero_is_an_error(call, shape, axis):
    with pytest.raises(wg.WindowError, match=f"size 0 |size=0 on axis {axis}: |leaves size .* on axis {axis}|of 0, "):
        call(np.zeros(shape, dtype=np.float32))


def layouts(x):
    """The same values in other memory: every other cell of a larger array, backwards, and so on."""
    wide = np.repeat(x, 2, axis=-1)
    locked = x.copy()
    locked.flags.writeable = False
    return {
        "Fortran order": np.asfortranarray(x),
        "negative strides": np.ascontiguousarray(x[:, ::-1, ::-1, ::-1])[:, ::-1, ::-1, ::-1],
        "every other cell": wide[..., ::2],
        "read-only": locked,
        "byte-swapped": x.astype(x.dtype.newbyteorder()),
        "unaligned": np.frombuffer(b"?" + x.tobytes(), dtype=np.uint8)[1:].view(x.dtype).reshape(x.shape),
    }


@every_call
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_layout_gives_the_same_bits(call, dtype):
    x = image(dtype)
    for name, array in layouts(x).items():
        assert bits(call(array)) == bits(call(x)), name


@every_call
def test_broadcast_axes_give_the_same_bits(call):
    x = np.broadcast_to(image()[:1, :1, :, :1], (3, 2, 7, 6))
    assert bits(call(x)) == bits(call(x.copy()))


def test_the_layout_of_a_weight_does_not_matter_either():
    for name, weight in layouts(WEIGHT).items():
        assert bits(wg.conv2d(image(), weight)) == bits(wg.conv2d(image(), WEIGHT)), name
        assert bits(wg.conv_transpose2d(image(), weight)) == bits(wg.conv_transpose2d(image(), WEIGHT)), name


@every_call
@pytest.mark.parametrize("dtype", [np.float32, object])
def test_inputs_are_never_written_and_results_share_no_memory_with_them(call, dtype):
    x = image(np.float32)[:1].astype(dtype)
    before = x.tolist(), WEIGHT.tolist()
    results = call(x)
    assert (x.tolist(), WEIGHT.tolist()) == before
    for result in results if isinstance(results, tuple) else (results,):
        assert not np.shares_memory(result, x)
        result[...] = 0  # and they are the caller's to write to
    assert x.tolist() == before[0]


@every_call
def test_the_same_input_gives_the_same_bits_from_many_threads_at_once(call):
    x = image()
    with ThreadPoolExecutor(4) as threads:
        assert len({str(bits(y)) for y in threads.map(call, [x] * 16)}) == 1


SCRIPT = """
import hashlib, numpy as np, windowgrad as wg
random = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    x, w = (random.standard_normal(shape).astype(dtype) for shape in ((2, 32, 40, 40), (32, 32, 3, 3)))
    params = wg.params.ConvParams(wg.geometry.Sliding((3, 3), 1, 1))
    results = [wg.conv2d(x, w, padding=1), wg.conv_transpose2d(x, w), *wg.ops.OPS["conv"].vjp(params, x, w, x)]
    results += [wg.avg_pool2d(x, 3, 2, 1), wg.smooth_max_pool2d(x, 3, 2, 1, beta=2), wg.global_avg_pool2d(x)]
    print(*(hashlib.sha256(y.tobytes()).hexdigest() for y in results))
"""


def test_the_number_of_threads_does_not_change_a_bit():
    def printed(threads):
        counts = {f"{kind}_NUM_THREADS": str(threads) for kind in ("OMP", "OPENBLAS", "MKL", "NUMBA", "WINDOWGRAD")}
        run = [sys.executable, "-c", SCRIPT]
        return subprocess.run(run, env=os.environ | counts, check=True, capture_output=True, text=True).stdout

    assert printed(1) == printed(2)
