"""The bits of a sample do not depend on the other samples of its batch, whatever strange values these hold."""

import numpy as np
import pytest

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams

PANEL = VECTORS * WIDE_BYTES // 4
BATCH = 6
PATHS = {  # name: (window, groups, spatial, channels of the input and of the output)
    "pointwise": (Sliding((1, 1), 1), 1, (9, PANEL // 3 + 1), (ROWS + 33, ROWS + 35)),
    "short": (Sliding((1, 1), 1), 1, (9, PANEL // 3 + 1), (ROWS + 3, ROWS + 1)),
    "thin": (Sliding((1, 1), 1), 1, (9, PANEL // 3 + 1), (ROWS + 3, 1)),
    "rolling": (Sliding((5, 5), 1, 2), 5, (12, 11), (5, 5)),
    "rolling if alone": (Sliding((5, 5), 1, 2), 5, (4, 4), (5, 5)),
    "rolling if alone, with a stride": (Sliding((7, 7), 2, 3), 5, (7, 11), (5, 5)),
    "three_rows": (Sliding((3, 5), 1, (1, 2)), 5, (6, 11), (5, 5)),
    "lanes": (Sliding((3, 4), 2, 1), 16, (7, 11), (16, 16)),
    "shifted": (Sliding((3, 4), 2, 1), 3, (7, 11), (3, 3)),
    "shifted if alone": (Sliding((5, 4), (2, 1), 2), 5, (7, 11), (5, 5)),
    "depthwise": (Sliding((3, 3), 1, 40, 40), 2, (4, 5), (2, 2)),
    "bands": (Sliding((3, 4), 1, 1), 2, (300, 301), (2, 2)),
    "in bands if alone": (Sliding((3, 4), 1, 1), 2, (190, 190), (2, 2)),
    "in bands if alone, wide": (Sliding((3, 4), 1, 1), 2, (10, 4000), (2, 2)),
    "in bands if alone, 5×4": (Sliding((5, 4), 2, 1), 2, (220, 190), (2, 2)),
    "products": (Sliding((3, 2), 2, 1), 1, (7, 11), (5, 7)),
    "unseen": (Sliding((1, 1), 3), 1, (7, 11), (3, 4)),
}
STRANGE = {
    "infinite": lambda a: a.__setitem__(tuple(n // 2 for n in a.shape), np.inf),
    "NaN": lambda a: a.__setitem__(tuple(n // 2 for n in a.shape), np.nan),
    "overflow": lambda a: a.__imul__(np.asarray(3e38, a.dtype)),
    "underflow": lambda a: a.__imul__(np.asarray(2.0**-120, a.dtype)),
    "zero": lambda a: a.fill(0),
    "denormal": lambda a: a.__imul__(np.asarray(2.0**-140, a.dtype)),
}
BAD_WEIGHTS = {"ordinary": lambda w: w, "small": lambda w: w * np.float32(2.0**-100), "infinite": lambda w: with_infinity(w)}


def with_infinity(w):
    w = w.copy()
    w.reshape(-1)[1] = np.inf
    return w


def batch(path, transposed, dtype, rng):
    """(operator, parameters, x, w, g, bias), with samples of each strange kind but the first."""
    window, groups, spatial, (ins, outs) = PATHS[path]
    w = (outs, ins // groups, *window.kernel)
    if transposed:
        params, x = TransposeParams(window, groups), (BATCH, outs, *window.grid(spatial))
    else:
        params, x = ConvParams(window, groups), (BATCH, ins, *spatial)
    made = [rng.standard_normal(shape).astype(dtype) for shape in (x, w, params.out_shape(x, w))]
    return OPS["conv_transpose" if transposed else "conv"], params, *made, rng.standard_normal(params.out_shape(x, w)[1])


@pytest.mark.parametrize("weights", BAD_WEIGHTS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_sample_has_the_bits_that_it_has_alone(path, transposed, weights):
    """Forward, JVP and input gradient, of every kernel; in float16 as well, whose results are rounded from wider ones."""
    rng = np.random.default_rng(0)
    dtype = np.float16 if path == "products" and weights == "ordinary" else np.float32
    op, params, x, w, g, bias = batch(path, transposed, dtype, rng)
    w, dx, dw = BAD_WEIGHTS[weights](w).astype(dtype), x[::-1].copy(), np.roll(w, 1)
    with np.errstate(all="ignore"):
        for i, strange in enumerate(STRANGE.values()):
            for array in (x, g, dx):
                strange(array[(i + 1) % BATCH])
    bias = bias.astype(dtype)
    together = results(op, params, x, w, bias, dx, dw, g)
    for i in range(BATCH):
        alone = results(op, params, x[i : i + 1], w, bias, dx[i : i + 1], dw, g[i : i + 1])
        for rule, one, many in zip(("forward", "jvp", "input gradient"), alone, together, strict=True):
            assert one[0].tobytes() == many[i].tobytes(), (rule, i)


def results(op, params, x, w, bias, dx, dw, g):
    none = np.zeros_like(bias)
    return (
        op.forward(params, x, w, bias),
        op.jvp(params, x, w, bias, dx, dw, none),
        op.vjp(params, x, w, g, needs=(True, False))[0],
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_the_paths_are_those_they_are_called(path, transposed):
    _, params, x, w, _, _ = batch(path, transposed, np.float32, np.random.default_rng(0))
    conv = grouped(params, x.shape, w.shape)[0]
    names = {conv.chosen(role, 4)[0].name for role in (FORWARD, INPUT)}
    called = {
        "unseen": "products",
        "pointwise": "products",
        "in bands if alone": "three_rows",
        "in bands if alone, wide": "three_rows",
        "in bands if alone, 5×4": "lanes",
        "shifted if alone": "lanes",
        "rolling if alone": "lanes",
        "rolling if alone, with a stride": "lanes",
    }
    other = {"short"} if path == "thin" else set()  # of one row to many channels, the adjoint
    assert names == {called.get(path, path)} | other
    if "alone" in path:
        conv = conv.alone
        assert path.removeprefix("in ").split()[0] in {conv.chosen(role, 4)[0].name for role in (FORWARD, INPUT)}


@pytest.mark.parametrize("path", ["pointwise", "products"])
def test_any_number_of_threads_gives_the_same_bits_beside_strange_samples(path, monkeypatch):
    op, params, x, w, g, bias = batch(path, False, np.float32, np.random.default_rng(0))
    for i, strange in enumerate(STRANGE.values()):
        with np.errstate(all="ignore"):
            strange(x[(i + 1) % BATCH])
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    found = set()
    for count in (1, 2, 3, 7):
        monkeypatch.setattr(threads, "chosen", count)
        given = x, w, bias.astype(np.float32), x[::-1].copy(), w, g
        found.add(tuple(a.tobytes() for a in results(op, params, *given)))
    assert len(found) == 1


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_a_sample_of_one_product_is_summed_as_it_is_among_others(name):
    params = (TransposeParams if name == "conv_transpose" else ConvParams)(Sliding((1,), 1))
    rng = np.random.default_rng(2)
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((200, 1, 1), (1, 1, 1), (1,)))
    together = OPS[name].forward(params, x, w, bias)
    alone = [OPS[name].forward(params, x[i : i + 1], w, bias) for i in range(200)]
    assert together.tobytes() == np.concatenate(alone).tobytes()


def test_an_out_array_holds_what_was_reviewed():
    op, params, x, w, _, _ = batch("products", False, np.float32, np.random.default_rng(0))
    x[2] = np.inf
    out = np.full(params.out_shape(x.shape, w.shape), 7, np.float32)
    given = op.forward(params, x, w, out=out)
    assert given is out
    assert out.tobytes() == op.forward(params, x, w).tobytes()
