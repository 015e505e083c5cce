"""A convolution that keeps its weight, and ends with a sum and limits: the same bits as one after the other."""

import math

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.errors import WindowError
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import gemm
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.entry import conv_forward
from windowgrad.kernels.conv.exact import FORWARD
from windowgrad.kernels.conv.kept import MOST_SHAPES, Kept
from windowgrad.kernels.conv.plan import panel
from windowgrad.kernels.elementwise.relu import finish
from windowgrad.kernels.vector.registers import ROWS, VECTORS
from windowgrad.params import ConvParams, TransposeParams

SIDE = math.isqrt(panel(4) + 1)
"""Of a plane that has one pixel more than a panel of float32, or than two of float64: that panel is nearly empty."""
CASES = {
    # name: x, weight, window, groups, transposed
    "3×3": ((2, 5, 9, 11), (13, 5, 3, 3), Sliding((3, 3), 1, 1), 1, False),
    "long sums": ((1, 130, 7, 7), (9, 130, 3, 3), Sliding((3, 3), 2, 1), 1, False),
    "1×1": ((3, 16, 9, 9), (17, 16, 1, 1), Sliding((1, 1), 1), 1, False),
    "many panels": ((2, 6, 40, 40), (19, 6, 1, 1), Sliding((1, 1), 1), 1, False),
    "turned": ((1, 33, 7, 7), (100, 33, 3, 3), Sliding((3, 3), 1, 1), 1, False),
    "turned, long sums": ((1, 130, SIDE, SIDE), (70, 130, 3, 3), Sliding((3, 3), 1, 1), 1, False),
    "turned, 1×1": ((1, 40, SIDE, SIDE), (129, 40, 1, 1), Sliding((1, 1), 1), 1, False),
    "turned, two images": ((2, 20, 5, 5), (96, 20, 1, 1), Sliding((1, 1), 1), 1, False),
    "turned, one pixel": ((1, 33, 1, 1), (100, 33, 1, 1), Sliding((1, 1), 1), 1, False),
    "turned, groups": ((1, 8, 5, 5), (192, 4, 3, 3), Sliding((3, 3), 1, 1), 2, False),
    "turned, transposed": ((1, 6, 4, 4), (6, 96, 2, 2), Sliding((2, 2), 2), 1, True),
    "groups": ((2, 6, 9, 9), (6, 3, 3, 3), Sliding((3, 3), 1, 1), 2, False),
    "three rows": ((2, 6, 20, 20), (6, 1, 3, 3), Sliding((3, 3), 1, 1), 6, False),
    "shifted": ((1, 5, 20, 20), (5, 1, 5, 5), Sliding((5, 5), 2, 1), 5, False),
    "lanes": ((2, 16, 12, 12), (16, 1, 3, 3), Sliding((3, 3), 2, 1), 16, False),
    "bands": ((1, 1, 300, 300), (1, 1, 3, 3), Sliding((3, 3), 1, 1), 1, False),
    "lists": ((1, 3, 4, 300), (3, 1, 2, 2), Sliding((2, 2), 1, 9), 3, False),
    "transposed": ((2, 6, 8, 8), (6, 5, 2, 2), Sliding((2, 2), 2), 1, True),
    "transposed, every third": ((1, 6, 5, 5), (6, 5, 3, 3), Sliding((3, 3), 3), 1, True),
    "transposed with gaps": ((1, 6, 5), (6, 5, 2), Sliding((2,), 3), 1, True),
    "irregular": ((1, 1, 2), (1, 1, 2), Sliding((2,), 1 << 30), 1, False),
}
TOPS = (None, np.inf, 6.0, 0.25)


def made(name, rng, dtype):
    x, w, window, groups, transposed = CASES[name]
    params = TransposeParams(window, groups, (0,) * window.rank) if transposed else ConvParams(window, groups)
    outs = w[1] * groups if transposed else w[0]
    return params, *(rng.standard_normal(shape).astype(dtype) for shape in (x, w, (outs,)))


def in_parts(params, x, w, bias, beside, top):
    """What must come out: the convolution, then the sum, then the limits."""
    with np.errstate(all="ignore"):  # as dispatch has it
        y = conv_forward(params, x, w, *(() if bias is None else (bias,)))
    end(y, beside, top)
    return y


def end(y, beside, top):
    finish(y, beside, top is not None, np.inf if top is None else top)


def by_kept(params, x, w, bias, beside, top):
    y, ended = Kept(params, w, bias, top)(x, beside)
    if not ended:
        end(y, beside, top)
    return y


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_kept_convolution_gives_the_bits_of_its_parts(name, dtype):
    rng = np.random.default_rng(0)
    params, x, w, bias = made(name, rng, dtype)
    beside = rng.standard_normal(params.out_shape(x.shape, w.shape)).astype(dtype)
    for extra in (None, bias):
        for other in (None, beside):
            for top in TOPS:
                same_bits(by_kept(params, x, w, extra, other, top), in_parts(params, x, w, extra, other, top))


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42, -0.0])
@pytest.mark.parametrize("name", CASES)
def test_strange_sums_end_as_they_are_reviewed(name, cell):
    """Whatever is not finite, too large for float32, or denormal: in one sample, where the others stay as they were."""
    params, x, w, bias = made(name, np.random.default_rng(1), np.float32)
    x[-1, 0] = cell
    beside = np.ones(params.out_shape(x.shape, w.shape), np.float32)
    for other in (None, beside):
        same_bits(by_kept(params, x, w, bias, other, np.inf), in_parts(params, x, w, bias, other, np.inf))
    x[:], bias[:] = -0.0, -0.0
    assert not np.signbit(by_kept(params, x, w, bias, None, np.inf)).any()


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("name", ["3×3", "1×1", "three rows", "lanes", "bands"])
def test_what_stands_beside_is_not_reviewed(name, cell):
    params, x, w, bias = made(name, np.random.default_rng(2), np.float32)
    beside = np.full(params.out_shape(x.shape, w.shape), cell, np.float32)
    for top in TOPS:
        same_bits(by_kept(params, x, w, bias, beside, top), in_parts(params, x, w, bias, beside, top))


def test_the_weight_is_packed_once_for_all_shapes(monkeypatch):
    calls, pack = [], gemm.ways.pack
    monkeypatch.setattr(gemm.ways, "pack", lambda *args: (calls.append(args), pack(*args)))
    params, _, w, bias = made("3×3", np.random.default_rng(3), np.float32)
    conv, found = Kept(params, w, bias, None), []
    for shape in ((1, 5, 9, 9), (2, 5, 9, 9), (3, 5, 40, 31), (1, 5, 9, 9)):
        x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
        found.append((x, conv(x)[0]))
    assert len(calls) == 1
    for x, y in found:
        same_bits(y, in_parts(params, x, w, bias, None, None))


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("name", CASES)
def test_tiles_are_turned_where_that_fills_them(name, itemsize):
    x, w, window, groups, transposed = CASES[name]
    params = TransposeParams(window, groups, (0,) * window.rank) if transposed else ConvParams(window, groups)
    conv, _ = grouped(params, x, w)
    if conv.regular:
        one = conv.told(conv.played(FORWARD))
        plain, kept = (gemm.layout.layouts(one, itemsize, kept=kept) for kept in (False, True))
        assert all(layout.height == ROWS for layout in plain)
        assert all(layout.packs for layout in kept)
        if name.startswith("turned"):
            assert all(layout.height == (panel(itemsize) if panel(itemsize) % ROWS == 0 else ROWS) for layout in kept)


def test_tiles_are_turned_if_loops_of_few_vectors_wait_longer():
    """The boundary: a panel of pixels fills tiles as they are, one pixel more does not."""
    rows, pixels = panel(4), panel(4)
    assert not gemm.layout.is_turned(rows, pixels, 4)
    assert gemm.layout.is_turned(rows, pixels + 1, 4)
    assert not gemm.layout.is_turned(1, pixels + 1, 4)
    assert gemm.times.tile_time(ROWS, pixels, 4) == ROWS * VECTORS
    assert gemm.times.tile_time(1, 1, 4) == gemm.times.LATENCY


def test_bits_do_not_depend_on_threads_or_on_the_rest_of_the_batch():
    rng, before = np.random.default_rng(5), wg.get_num_threads()
    params = ConvParams(Sliding((3, 3), 1, 1), 1)
    for x_shape, w_shape in (((4, 70, 13, 13), (50, 70, 3, 3)), ((4, 70, 7, 7), (100, 70, 3, 3))):  # the second is turned alone
        x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (x_shape, w_shape))
        conv, found = Kept(params, w, None, np.inf), set()
        try:
            for threads in (1, 2, 3):
                wg.set_num_threads(threads)
                found |= {conv(x)[0].tobytes(), np.concatenate([conv(x[i : i + 1])[0] for i in range(4)]).tobytes()}
        finally:
            wg.set_num_threads(before)
        assert len(found) == 1


def test_only_so_many_shapes_are_remembered():
    params, _, w, bias = made("1×1", np.random.default_rng(6), np.float32)
    conv = Kept(params, w, bias, None)
    for n in range(1, MOST_SHAPES + 2):
        conv(np.ones((1, 16, 1, n), np.float32))
    assert len(conv.calls) == 1


def test_layouts_and_dtypes_of_all_kinds():
    params, x, w, bias = made("3×3", np.random.default_rng(7), np.float32)
    conv, wanted = Kept(params, w, bias, None), in_parts(params, x, w, bias, None, None)
    x.setflags(write=False)
    for same in (x, np.asfortranarray(x), x[:, :, ::-1][:, :, ::-1]):
        same_bits(conv(same)[0], wanted)
    y, ended = conv(x.astype(np.float64))
    assert (y.dtype, ended) == (np.float64, False)
    wide = Kept(params, w, bias.astype(np.float64), None)(x)[0]
    same_bits(wide, in_parts(params, x, w, bias.astype(np.float64), None, None))
    assert conv(x[:0])[0].shape == (0, *wanted.shape[1:])


def test_what_does_not_fit_is_refused():
    params, x, w, bias = made("3×3", np.random.default_rng(8), np.float32)
    y = Kept(params, w, bias, None)(x)[0]
    for conv in (Kept(params, w, bias, None), Kept(params, w, bias.astype(np.float64), None)):
        for beside in (y[:1], y.astype(np.float16)):
            with pytest.raises(WindowError, match=r"beside: float.*: must be float.*as the result of the convolution"):
                conv(x, beside)
    for wrong in (bias[:-1], np.append(bias, bias)):
        with pytest.raises(WindowError, match="bias"):
            Kept(params, w, wrong, None)(x)
    with pytest.raises(WindowError):
        Kept(params, w, bias, None)(x[:, :-1])
