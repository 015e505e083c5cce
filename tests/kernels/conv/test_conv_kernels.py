"""What convolution is built from: tiles of products, packed panels, squares turned around; and when it looks twice."""

import itertools

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.geometry import Sliding, place_of
from windowgrad.kernels.conv import entry
from windowgrad.kernels.conv.bias_gradient import channel_sums
from windowgrad.kernels.conv.pieces import copy_pieces, in_pieces
from windowgrad.kernels.conv.plan import forwards
from windowgrad.kernels.conv.records import InAxes, Range
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.runtime.jit import compiled
from windowgrad.kernels.vector.masked import HUGE, strange_cell, strange_lanes
from windowgrad.kernels.vector.ops import address, alive, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES, registers
from windowgrad.kernels.vector.tiles import Factor, Matrix, multiply_tile
from windowgrad.kernels.vector.transpose import turn, turn_add
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams

rng = np.random.default_rng(0)
every_float = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def whole(*shape, dtype=np.float32):
    """Small integers, whose sums are exact."""
    return rng.integers(-4, 5, shape).astype(dtype)


# --- tiles -------------------------------------------------------------------------------------------------------


@compiled
def tiles(a, b, k, vectors, packed, rows, pitch):
    numbers, cells = later(address(a), 3), Matrix(later(address(b), 5), pitch)
    multiply_tile(Factor(numbers, 1, ROWS), cells, k, vectors, address(packed))
    multiply_tile(Factor(numbers, k + 1, 1), cells, k, vectors, address(rows))


@every_float
@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_a_tile_is_the_product_of_its_panels_in_every_lane(dtype, vectors, k):
    lanes, rows = WIDE_BYTES // np.dtype(dtype).itemsize, ROWS
    length, pitch = VECTORS * lanes, VECTORS * lanes + 3
    a, b = whole(3 + rows * (k + 1), dtype=dtype), whole(5 + k * pitch, dtype=dtype)
    by_k, by_row = np.full((2, rows * length), 99, dtype)
    tiles(a, b, k, vectors, by_k, by_row, pitch)
    used = b[5:].reshape(k, pitch)[:, : vectors * lanes]
    packed, row = a[3 : 3 + k * rows].reshape(k, rows).T, a[3:].reshape(rows, k + 1)[:, :k]
    for found, panel in ((by_k, packed), (by_row, row)):
        found = found.reshape(rows, length)
        assert (found[:, : vectors * lanes] == panel @ used).all()
        assert (found[:, vectors * lanes :] == 99).all()


@pytest.mark.parametrize(
    ("features", "size"), [("+sse2,+avx,+avx512f", (64, 8, 3)), ("+avx,-avx512f", (32, 4, 3)), ("+neon", (16, 4, 3))]
)
def test_the_sums_of_a_tile_fit_in_the_registers(features, size):
    assert registers(features) == size
    assert size[1] * size[2] + size[2] + 1 <= (32 if "+avx512f" in features else 16)


@compiled
def turned(to, x, pitch, stride):
    into, square = Matrix(later(address(to), 2), pitch), Matrix(later(address(x), 1), stride)
    turn(into, square)
    turn_add(into, square)


@every_float
def test_a_square_is_turned_around(dtype):
    rows = ROWS
    x, to = whole(1 + rows * 11, dtype=dtype), np.zeros(2 + rows * 13, dtype)
    turned(to, x, 13, 11)
    square = to[2:].reshape(rows, 13)
    assert (square[:, :rows] == 2 * x[1:].reshape(rows, 11)[:, :rows].T).all()
    assert not square[:, rows:].any()


# --- panels ------------------------------------------------------------------------------------------------------


@compiled
def packed(x, axes, first, count, taps, plane, image, channels, pitch, lanes, to):
    lists = np.zeros(3 * taps * count, np.int64)
    grid, size, step, table = axes
    met = InAxes(len(grid), address(grid), address(size), address(step), address(table), image)
    pieces = in_pieces(Range(first, first + count), met, Range(0, taps), lanes, pitch, address(lists))
    copy_pieces(Matrix(address(to), taps * pitch), Matrix(address(x), plane), channels, step[-1], pieces)
    alive(lists)


GEOMETRIES = [
    Sliding((3, 3), 1, 1),
    Sliding((3, 2), 2, ((0, 3), (2, 1))),
    Sliding((2, 3), 3, 2, (1, 2)),
    Sliding((5,), 1, 7, 3),
    Sliding((2, 1, 2), (1, 2, 2), 1),
    Sliding((3, 1, 5), 1, ((1, 1), (0, 0), (2, 2))),
    Sliding((2, 3), 1, ((0, 0), (1, 1))),
    Sliding((3, 3), (2, 1), 1),
    Sliding((9,), 4, 5),
    Sliding((3, 5), (1, 4), ((1, 0), (0, 6)), (1, 3)),
]


@every_float
@pytest.mark.parametrize("window", GEOMETRIES, ids=str)
def test_a_panel_holds_the_cell_that_each_pixel_meets_at_each_tap(dtype, window):
    spatial = (9, 13, 7)[: window.rank] if window.rank > 1 else (211,)
    grid, images, channels = window.grid(spatial), 2, 3
    x = whole(images, channels, *spatial, dtype=dtype)
    one = forwards(window, spatial, grid)
    taps, pixels, lanes = len(one.places), images * one.pixels, WIDE_BYTES // x.itemsize
    ranges = (0, min(48, pixels)), (pixels // 3, min(29, pixels - pixels // 3)), (one.pixels - 5, 21), (pixels - 1, 1)
    for first, count in ranges:
        pitch = count
        to = np.full(channels * taps * pitch + 2 * lanes, np.nan, dtype)
        plane = int(np.prod(spatial))
        packed(x.reshape(-1), one.axes, first, count, taps, plane, channels * plane, channels, pitch, lanes, to)
        panel = to[: channels * taps * pitch].reshape(channels, taps, pitch)
        for (c, t), j in itertools.product(np.ndindex(channels, taps), range(count)):
            image, pixel = divmod(first + j, one.pixels)
            places = dict(window.reach(place_of(pixel, grid), spatial))
            cell = places.get(place_of(t, window.kernel))
            assert panel[c, t, j] == (0 if cell is None else x[(image, c, *cell)])


@every_float
@pytest.mark.parametrize("pixels", [4, 5, 8, 9, 16, 25, 47, 48, 49, 56, 57, 64, 80, 112])
@pytest.mark.parametrize("groups", [1, 3])
def test_pixels_that_lie_in_order_are_read_where_they_stand(dtype, pixels, groups):
    """Panels within an image, across two of them, and beyond the last pixel."""
    x, w = whole(4, 6, pixels, dtype=dtype), whole(9, 6 // groups, 1, dtype=dtype)
    expected = np.einsum("goc,ngcs->ngos", w.reshape(groups, 9 // groups, -1), x.reshape(4, groups, -1, pixels))
    assert (wg.conv1d(x, w, groups=groups) == expected.reshape(4, 9, pixels)).all()


# --- looking twice -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("groups", [1, 8])
def test_a_padded_cell_has_no_product_with_a_weight_that_is_not_finite(dtype, bad, groups):
    x = np.ones((1, 8, 20, 20), dtype)
    w = np.zeros((8, 8 // groups, 3, 3), dtype)
    w[:, 0, 0, 0] = bad  # meets padding in the first row and column only
    y = wg.conv2d(x, w, padding=1, groups=groups)
    assert not y[:, :, 0].any()
    assert not y[:, :, :, 0].any()
    assert not np.isfinite(y[:, :, 1:, 1:]).any()


def test_products_that_float32_would_lose_are_summed_in_float64():
    """Each product is a third of the smallest float32: one by one they would vanish."""
    x = np.full((1, 16, 5, 5), 2.0**-75, np.float32)
    w = np.full((1, 16, 3, 3), 2.0**-74 / 3, np.float32)
    exact = float(x[0, 0, 0, 0]) * float(w[0, 0, 0, 0]) * 144
    assert wg.conv2d(x, w).tolist() == np.full((1, 1, 3, 3), np.float32(exact)).tolist()
    assert exact > 40 * 2.0**-149


def test_sums_that_leave_float32_on_their_way_come_back():
    x = np.array([3e38, 3e38, -3e38, -3e38], np.float32).reshape(1, 4, 1)
    assert wg.conv1d(x, np.ones((1, 4, 1), np.float32)).tolist() == [[[0.0]]]


@compiled
def strange(a, bits):
    return strange_lanes(a, 0, bits)


@compiled
def strange_last(a):
    return strange_cell(a[-1])


@every_float
def test_strange_lanes_tell_small_numbers_from_those_that_are_not_finite(dtype):
    lanes, least = WIDE_BYTES // np.dtype(dtype).itemsize, np.finfo(dtype).tiny
    small, huge, normal = (0.0, -0.0, least / 2, -least / 4), (np.inf, -np.inf, np.nan), (least, -least, np.finfo(dtype).max)
    for value in (*small, *huge, *normal):
        a = np.ones(lanes, dtype)
        a[-1] = value
        shift = HUGE if value in huge or np.isnan(value) else 0
        expected = 0 if value in normal else 1 << lanes - 1 + shift
        assert strange_last(a) == (0 if value in normal else 1 << shift)
        assert strange(a, (1 << lanes) - 1) == expected
        assert strange(a, (1 << lanes - 1) - 1) == 0


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_zero_sums_are_looked_at_without_reading_the_output(groups, stride, monkeypatch):
    """Only what was multiplied is asked how small it is."""
    seen = []
    monkeypatch.setattr(entry, "stay_normal", lambda a, b: seen.append((a.size, b.size)) or True)
    x, w = np.zeros((2, 6, 20, 20), np.float32), np.ones((6, 6 // groups, 3, 3), np.float32)
    assert not wg.conv2d(x, w, groups=groups, stride=stride).any()
    assert seen == [(x.size, w.size)]


# --- the gradient of the bias ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 3, 16), (4, 6, 5, 11), (2, 2, 3, 70), (0, 3, 4)])
def test_the_sums_of_channels_are_taken_in_float64(dtype, shape):
    """The numbers are so far apart that float32 would lose the small ones."""
    g = np.where(rng.integers(0, 2, shape), 2.0**12, 2.0**-14).astype(dtype)
    sums = channel_sums(g, 1)
    assert sums.dtype == np.float64
    assert (sums == g.astype(np.float64).sum(axis=(0, *range(2, g.ndim)))).all()


def test_the_sums_of_channels_reach_over_all_axes_before_them():
    g = whole(2, 3, 4, 5)
    assert (channel_sums(g, 2) == g.sum(axis=(0, 1, 3))).all()
    assert (channel_sums(g[:, :, :, ::2], 2) == g[:, :, :, ::2].sum(axis=(0, 1, 3))).all()
    assert (channel_sums(g, 0) == g.sum(axis=(1, 2, 3))).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("rule", ["conv", "conv_transpose"])
def test_the_gradient_of_the_bias_has_the_same_bits_in_every_layout(rule, dtype):
    x, w = rng.standard_normal((5, 3, 17, 13)), rng.standard_normal((3, 3, 2, 2))
    params = (TransposeParams if rule == "conv_transpose" else ConvParams)(Sliding((2, 2), 1))
    g = (1000 * rng.standard_normal(params.out_shape(x.shape, w.shape))).astype(dtype)
    layouts = {
        "C": g,
        "F": np.asfortranarray(g),
        "channels last": np.moveaxis(np.ascontiguousarray(np.moveaxis(g, 1, -1)), -1, 1),
        "strided": np.repeat(g, 2, axis=3)[..., ::2],
        "reversed": np.ascontiguousarray(g[:, :, ::-1])[:, :, ::-1],
        "swapped": g.astype(g.dtype.newbyteorder()),
        "read-only": np.frombuffer(g.tobytes(), g.dtype).reshape(g.shape),
    }
    found = {name: OPS[rule].vjp(params, x, w, x[0, :, 0, 0], one)[2] for name, one in layouts.items()}
    assert {name: gradient.tobytes() for name, gradient in found.items()} == dict.fromkeys(found, found["C"].tobytes())
    assert channel_sums(layouts["F"], 1).tobytes() == channel_sums(g, 1).tobytes()


# --- dtypes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["conv", "conv_transpose"])
def test_float16_and_bfloat16_meet_in_float32(rule):
    """Inputs and tangents of each; a tangent has the dtype of the result whatever its own is."""
    from ml_dtypes import bfloat16

    params = (TransposeParams if rule == "conv_transpose" else ConvParams)(Sliding((2, 2), 1))
    op, x, w, bias = OPS[rule], *(np.sign(whole(*shape)) for shape in ((1, 3, 5, 5), (3, 3, 2, 2), (3,)))
    exact = op.jvp(params, x, w, bias, x, w, bias)
    for kinds in itertools.product((np.float16, bfloat16, np.float32), repeat=3):
        inputs = [a.astype(kind) for a, kind in zip((x, w, bias), kinds, strict=True)]
        y, dy = op.forward(params, *inputs), op.jvp(params, *inputs, *inputs)
        other = op.jvp(params, *inputs, *(a.astype(k) for a, k in zip((x, w, bias), kinds[::-1], strict=True)))
        assert y.dtype == dy.dtype == other.dtype == (np.dtype(kinds[0]) if len(set(kinds)) == 1 else np.float32)
        assert (dy.astype(np.float32) == exact).all()
        assert (other.astype(np.float32) == exact).all()


# --- threads -----------------------------------------------------------------------------------------------------


CASES = {
    "plain": (ConvParams(Sliding((3, 3), 1, 1)), (2, 24, 30, 31), (40, 24, 3, 3)),
    "stride": (ConvParams(Sliding((3, 3), 2, 1)), (2, 24, 30, 31), (40, 24, 3, 3)),
    "small": (ConvParams(Sliding((3, 3), 1, 1)), (1, 64, 7, 7), (72, 64, 3, 3)),
    "long sums": (ConvParams(Sliding((1, 1), 1)), (1, 500, 40, 41), (20, 500, 1, 1)),
    "groups": (ConvParams(Sliding((3, 3), 1, 1), 3), (2, 27, 30, 31), (33, 9, 3, 3)),
    "depthwise": (ConvParams(Sliding((3, 3), 2, 1), 27), (2, 27, 60, 61), (27, 1, 3, 3)),
    "transposed": (TransposeParams(Sliding((3, 3), 2, 1)), (2, 24, 20, 21), (24, 30, 3, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_threads_gives_the_same_bits(case, monkeypatch):
    params, x_shape, w_shape = CASES[case]
    op = OPS["conv_transpose" if isinstance(params, TransposeParams) else "conv"]
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (x_shape, w_shape))
    g = rng.standard_normal(params.out_shape(x_shape, w_shape)).astype(np.float32)
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    found = []
    for count in (1, 2, 3, 5):
        monkeypatch.setattr(threads, "chosen", count)
        found.append([a.tobytes() for a in (op.forward(params, x, w), op.jvp(params, x, w, x, w), *op.vjp(params, x, w, g))])
    assert all(one == found[0] for one in found)
