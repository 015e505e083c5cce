"""The bits of a sample do not depend on the other samples of its batch, whatever strange values these hold."""

from functools import reduce

import numpy as np
import pytest

from support.bits import settled
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import ConvParams, TransposeParams

CONV_TRANSPOSE = next(op for op in MEANINGS if op.name == "conv_transpose")
PANEL = VECTORS * WIDE_BYTES // 4
BATCH = 6
PATHS = {  # name: (window, groups, spatial, channels of the input and of the output)
    "pointwise": (Sliding((1, 1), 1), 1, (9, PANEL // 3 + 1), (ROWS + 33, ROWS + 35)),
    "short": (Sliding((1, 1), 1), 1, (9, PANEL // 3 + 1), (ROWS + 3, ROWS + 1)),
    "thin": (Sliding((1, 1), 1), 1, (9, PANEL // 3 + 1), (ROWS + 3, 1)),
    "rolling": (Sliding((5, 5), 1, 2), 5, (12, 11), (5, 5)),
    "rolling if alone": (Sliding((5, 5), 1, 2), 5, (3, 3), (5, 5)),
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
HIDDEN = {  # the same; some taps lie in the padding of every output
    "shifted if alone": (Sliding((3, 4), (2, 1), 1), 5, (1, 11), (5, 5)),
    "shifted if alone, a volume": (Sliding((3, 3, 3), 3, ((1, 1), (1, 1), (0, 0))), 5, (12, 1, 5), (5, 5)),
    "shifted if alone, taps between": (Sliding((3, 5), 2, (0, 4)), 5, (7, 1), (5, 5)),
    "rolling if alone": (Sliding((5, 5), 1, 2), 5, (2, 4), (5, 5)),
    "rolling if alone, columns": (Sliding((5, 5), 1, 2), 5, (4, 1), (5, 5)),
    "three_rows": (Sliding((3, 5), 1, (1, 2)), 5, (6, 2), (5, 5)),
    "depthwise": (Sliding((3, 3), 1, 40, 40), 2, (4, 5), (2, 2)),
    "products": (Sliding((3, 3), 1, 1), 1, (1, 11), (5, 7)),
    "products, columns": (Sliding((3, 3), 1, 1), 1, (11, 1), (5, 7)),
    "products, a cell": (Sliding((3, 3), 1, 1), 1, (1, 1), (40, 40)),
    "products, groups": (Sliding((3, 3), 2, 1), 2, (1, 9), (6, 4)),
    "signal": (Sliding((7,), 1, 3), 1, (2,), (3, 5)),
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


def batch(path, transposed, dtype, rng, paths=PATHS):
    """(operator, parameters, x, w, g, bias), with samples of each strange kind but the first."""
    window, groups, spatial, (ins, outs) = paths[path]
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


def results(op, params, x, w, bias, dx, dw, g, dbias=None):
    dbias = np.zeros_like(bias) if dbias is None else dbias
    return (
        op.forward(params, x, w, bias),
        op.jvp(params, x, w, bias, dx, dw, dbias),
        op.vjp(params, x, w, g, needs=(True, False))[0],
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("path", HIDDEN)
def test_a_weight_that_meets_no_cell_changes_no_bit_alone_or_in_a_batch(path, transposed, dtype):
    """Some kernels multiply it with zeros and others leave it out, which must not tell how the sums are reviewed."""
    rng = np.random.default_rng(0)
    op, params, x, w, g, bias = batch(path, transposed, dtype, rng, HIDDEN)
    hidden = taps_without_cells(params.window, (g if transposed else x).shape[2:])
    dx, dw, bias = x[::-1].copy(), np.roll(w, 1), bias.astype(dtype)
    assert hidden.any()
    w[..., hidden], dw[..., hidden] = 0, 0
    expected = results(op, params, x, w, bias, dx, dw, g)
    w[..., hidden], dw[..., hidden] = rng.choice([np.inf, -np.inf, np.nan, 1], (2, *w.shape))[..., hidden]
    for array in (x, dx, g):
        STRANGE["infinite"](array[2])
    found = results(op, params, x, w, bias, dx, dw, g)
    for i in (0, 1, 3, 4, 5):
        alone = results(op, params, x[i : i + 1], w, bias, dx[i : i + 1], dw, g[i : i + 1])
        for rule, one, many, known in zip(("forward", "jvp", "input gradient"), alone, found, expected, strict=True):
            assert one[0].tobytes() == many[i].tobytes() == known[i].tobytes(), (rule, i)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("path", HIDDEN)
def test_a_small_weight_that_meets_no_cell_changes_no_bit_beside_infinite_ones(path, transposed):
    """A sum of zeros asks whether a product may underflow: not one of a weight that only an infinite neighbour leaves out."""
    op, params, x, w, g, bias = batch(path, transposed, np.float32, np.random.default_rng(0), HIDDEN)
    hidden = taps_without_cells(params.window, (g if transposed else x).shape[2:])
    w[..., hidden] = np.resize([1e-40, np.inf], hidden.sum())
    w[0, 0, hidden] = np.inf
    for array in (x, g):
        array[1], array[2:4, ..., : array.shape[-1] // 2 + 1] = np.inf, 0
    bias[0] = 0
    given = w, bias.astype(np.float32)
    found = results(op, params, x, *given, x[::-1], w, g)
    for i in range(2, BATCH):
        alone = results(op, params, x[i : i + 1], *given, x[::-1][i : i + 1], w, g[i : i + 1])
        for rule, one, many in zip(("forward", "jvp", "input gradient"), alone, found, strict=True):
            assert settled(one[0]) == settled(many[i]), (rule, i)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_zero_of_products_that_underflow_has_the_same_sign_alone(path, transposed):
    """Such a sum may be −0.0, and a bias of −0.0 would leave it so, where a product of a padded cell would not."""
    op, params, x, w, g, bias = batch(path, transposed, np.float64, np.random.default_rng(0))
    x, w, g, bias = x * 1e-200, w * 1e-200, g * 1e-200, np.full_like(bias, -0.0)
    together = results(op, params, x, w, bias, x[::-1], w, g, bias)
    for i in (0, BATCH - 1):
        given = x[i : i + 1], w, bias, x[::-1][i : i + 1], w, g[i : i + 1], bias
        for rule, one, many in zip(("forward", "jvp", "input gradient"), results(op, params, *given), together, strict=True):
            assert one[0].tobytes() == many[i].tobytes() == np.zeros_like(many[i]).tobytes(), (rule, i)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("groups", [1, 4])
def test_a_cell_that_no_output_sees_is_an_empty_sum_and_a_bias(groups, dtype):
    """So it is 0.0 where the bias is −0.0, as the specification adds them."""
    params, x = TransposeParams(Sliding((1, 2), 3), groups), np.ones((2, 4, 3, 3), dtype)
    given = x, np.ones((4, 4 // groups, 1, 2), dtype), np.array([-0.0, 0.0, -1.0, 2.0], dtype)
    expected = CONV_TRANSPOSE.forward(params, *(a.astype(object) for a in given)).astype(dtype)
    assert OPS["conv_transpose"].forward(params, *given).tobytes() == expected.tobytes()


def taps_without_cells(window, spatial):
    """Which taps of the kernel meet no cell of any output."""
    axes = []
    for table, taps in zip(window.tables(spatial), window.kernel, strict=True):
        axes.append(np.array([not ((table.skip <= t) & (t < table.skip + table.count)).any() for t in range(taps)]))
    return reduce(np.logical_or.outer, axes)


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
