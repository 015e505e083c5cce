"""Windows of one cell, which are products of matrices: every shape of the last tile, every rule, every number of threads."""

import numpy as np
import pytest

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import choose
from windowgrad.kernels.conv.exact import WEIGHT
from windowgrad.kernels.conv.gemm.ways import FEW_WEIGHT
from windowgrad.kernels.conv.pointwise import ways
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams

rng = np.random.default_rng(5)
LANES = WIDE_BYTES // 4
PANEL = VECTORS * LANES
POINT = Sliding((1,), 1)
KINDS = {"conv": ConvParams(POINT), "conv_transpose": TransposeParams(POINT)}


def whole(*shape, dtype=np.float32):
    """Small integers, whose sums are exact."""
    return rng.integers(-4, 5, shape).astype(dtype)


@pytest.fixture
def used(monkeypatch):
    """How often the kernel of the weight gradient was called; that of few channels is left out, and no choice is kept."""
    calls, by_pixels = [], ways.by_pixels
    monkeypatch.setattr(ways, "by_pixels", lambda *args: calls.append(1) or by_pixels(*args))
    monkeypatch.setitem(choose.WAYS, WEIGHT, tuple(way for way in choose.WAYS[WEIGHT] if way is not FEW_WEIGHT))
    choose.grouped.cache_clear()
    yield calls
    choose.grouped.cache_clear()


PIXELS = [1, LANES - 1, LANES, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL + LANES + 3, 700]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pixels", PIXELS)
@pytest.mark.parametrize(("ins", "outs"), [(PANEL, ROWS), (PANEL + 5, 3 * ROWS + 1), (2 * PANEL + LANES, 2 * ROWS + 7), (3, 5)])
def test_each_rule_is_the_product_of_its_matrices(dtype, pixels, ins, outs, used):
    x, w, g = whole(2, ins, pixels, dtype=dtype), whole(outs, ins, 1, dtype=dtype), whole(2, outs, pixels, dtype=dtype)
    bias, dx, dw, db = (
        whole(outs, dtype=dtype),
        whole(*x.shape, dtype=dtype),
        whole(*w.shape, dtype=dtype),
        whole(outs, dtype=dtype),
    )
    params, op, m = KINDS["conv"], OPS["conv"], w[:, :, 0]
    assert (op.forward(params, x, w, bias) == m @ x + bias[:, None]).all()
    assert (op.jvp(params, x, w, bias, dx, dw, db) == m @ dx + dw[:, :, 0] @ x + db[:, None]).all()
    gx, gw, _ = op.vjp(params, x, w, bias, g)
    assert (gx == m.T @ g).all()
    assert (gw[:, :, 0] == np.einsum("nop,ncp->oc", g, x)).all()
    assert bool(used) == (pixels > ways.SMALL and ways.fits(outs, ins, x.itemsize))


@pytest.mark.parametrize("pixels", [PANEL + 1, 4 * PANEL + 4])
def test_one_image_sums_its_weight_gradient_as_a_product(pixels, used):
    x, w, g = whole(1, PANEL, pixels), whole(ROWS + 1, PANEL, 1), whole(1, ROWS + 1, pixels)
    _, gw = OPS["conv"].vjp(KINDS["conv"], x, w, g)
    assert (gw[:, :, 0] == g[0] @ x[0].T).all()
    assert used


def test_the_transposed_one_is_its_adjoint():
    x, w = whole(2, 3 * ROWS + 1, PANEL + 1), whole(3 * ROWS + 1, 2 * ROWS + 3, 1)
    g = whole(2, 2 * ROWS + 3, PANEL + 1)
    params, op = KINDS["conv_transpose"], OPS["conv_transpose"]
    assert (op.forward(params, x, w) == w[:, :, 0].T @ x).all()
    assert (op.vjp(params, x, w, g)[0] == w[:, :, 0] @ g).all()


@pytest.mark.parametrize(
    "window", [Sliding((1,), 1, 1), Sliding((1,), 2, 0), Sliding((1,), 2, PANEL // 2), Sliding((2,), 1, ((1, 0),))], ids=str
)
def test_other_windows_are_none(window, used):
    x, w = whole(1, PANEL, 2 * PANEL), whole(ROWS, PANEL, *window.kernel)
    OPS["conv"].vjp(ConvParams(window), x, w, OPS["conv"].forward(ConvParams(window), x, w))
    assert not used


@pytest.mark.parametrize(("rows", "ins"), [(ROWS - 1, PANEL), (ROWS, LANES + 1), (ROWS, PANEL - 1)])
def test_what_tiles_cannot_cover_is_left_to_others(rows, ins, used):
    x, w, g = whole(1, ins, 200), whole(rows, ins, 1), whole(1, rows, 200)
    assert (OPS["conv"].vjp(KINDS["conv"], x, w, g)[1][:, :, 0] == g[0] @ x[0].T).all()
    assert not used


@pytest.mark.parametrize(("pixels", "ins"), [(PANEL + 1, 70), (2 * PANEL + 7, 70), (9 * PANEL + 5, 10 * PANEL + 3)])
def test_any_number_of_threads_gives_the_same_bits(pixels, ins, monkeypatch, used):
    outs, op, params = 5 * ROWS + 3, OPS["conv"], KINDS["conv"]
    x, w, g = (rng.standard_normal(s).astype(np.float32) for s in ((1, ins, pixels), (outs, ins, 1), (1, outs, pixels)))
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    found = []
    for count in (1, 2, 3, 5):
        monkeypatch.setattr(threads, "chosen", count)
        found.append([a.tobytes() for a in (op.forward(params, x, w), op.jvp(params, x, w, x, w), *op.vjp(params, x, w, g))])
    assert all(one == found[0] for one in found)
    assert used


@pytest.mark.parametrize("place", [0, PANEL - 1, PANEL, PANEL + LANES, PANEL + LANES + 1])
def test_a_sum_that_leaves_float32_is_seen_wherever_it_stands(place):
    """In a panel that is read where it stands, and in one that is packed."""
    x = np.ones((1, 4, PANEL + LANES + 2), np.float32)
    x[0, :, place] = [3e38, 3e38, -3e38, -3e38]
    y = OPS["conv"].forward(KINDS["conv"], x, np.ones((ROWS + 1, 4, 1), np.float32))
    assert (y[0, :, place] == 0).all()
    assert (np.delete(y, place, axis=2) == 4).all()
    ones = np.ones((1, ROWS + 1, x.shape[2]), np.float32)
    gx = OPS["conv"].vjp(KINDS["conv"], ones, np.ones((4, ROWS + 1, 1), np.float32), x, needs=(True, False))[0]
    assert (gx[0, :, place] == 0).all()
