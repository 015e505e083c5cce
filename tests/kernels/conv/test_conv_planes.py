"""Convolution of each channel by itself, in boxes: every geometry gives the sums of its definition, whichever kernel runs."""

import itertools

import numpy as np
import pytest

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.depthwise import boxes
from windowgrad.kernels.conv.depthwise.ways import LANES, ROLL, SHIFTED, THREE
from windowgrad.kernels.conv.exact import FORWARD
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.vector.registers import WIDE_BYTES
from windowgrad.ops import OPS
from windowgrad.params import ConvParams

CHANNELS = 5
GEOMETRIES = [  # spatial, kernel, stride, padding, dilation
    ((7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((14, 15), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((9, 33), (3, 5), (1, 1), (1, 2), (1, 1)),
    ((9, 33), (3, 2), (1, 2), (0, 1), (1, 1)),
    ((9, 20), (3, 3), (1, 1), (2, 2), (2, 2)),
    ((9, 20), (3, 3), (1, 1), (0, 3), (1, 3)),
    ((17, 18), (5, 5), (3, 3), (2, 2), (1, 1)),
    ((4, 3), (1, 1), (2, 5), (0, 0), (1, 1)),
    ((6, 50), (2, 7), (3, 1), (1, 3), (2, 1)),
    ((6, 50), (3, 1), (1, 1), (5, 0), (1, 1)),
    ((3, 20), (3, 3), (1, 1), (0, 0), (1, 1)),
    ((1, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 17), (3, 3), (1, 1), (1, 0), (1, 1)),
    ((70,), (9,), (2,), (4,), (1,)),
    ((4, 5, 21), (3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1)),
]
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)


def case(geometry, dtype=np.float32, cells=lambda rng, shape: rng.integers(-3, 4, shape), images=3):
    """(parameters, x, weight, bias, gradient)."""
    spatial, kernel, stride, padding, dilation = geometry
    params = ConvParams(Sliding(kernel, stride, tuple((p, p) for p in padding), dilation), CHANNELS)
    rng = np.random.default_rng(0)
    shapes = [(images, CHANNELS, *spatial), (CHANNELS, 1, *kernel), (CHANNELS,)]
    shapes.append(params.out_shape(*shapes[:2]))
    return params, *(cells(rng, shape).astype(dtype) for shape in shapes)


def results(params, x, w, b, g):
    return [OPS["conv"].forward(params, x, w, b), *OPS["conv"].vjp(params, x, w, b, g)]


def product_by_product(params, x, w, b, g):
    """The same by the definition, in float64."""
    window = params.window
    pads = [(0, 0), (0, 0), *window.padding]
    wide, y = np.pad(x.astype(np.float64), pads), np.zeros(g.shape) + b.reshape(-1, *[1] * (x.ndim - 2))
    gwide, gw = np.zeros(wide.shape), np.zeros(w.shape)
    for tap in itertools.product(*map(range, window.kernel)):
        axes = zip(tap, window.dilation, window.stride, g.shape[2:], strict=True)
        met = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in axes]
        here, weight = (..., *met), w[(slice(None), 0, *tap)].reshape(-1, *[1] * (x.ndim - 2))
        y += weight * wide[here]
        gwide[here] += weight * g
        gw[(slice(None), 0, *tap)] = (wide[here] * g).sum(axis=(0, *range(2, x.ndim)))
    real = tuple(slice(lo, lo + n) for (lo, _), n in zip(pads, x.shape, strict=True))
    return [y, gwide[real], gw, g.sum(axis=(0, *range(2, x.ndim)), dtype=np.float64)]


@every_geometry
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_plane_is_convolved_as_defined(geometry, dtype):
    made = case(geometry, dtype)
    window, spatial, grid = made[0].window, made[1].shape[2:], made[4].shape[2:]
    assert all(boxes.plan(window, spatial, grid, back) for back in (False, True))
    for found, expected in zip(results(*made), product_by_product(*made), strict=True):
        assert found.dtype == dtype
        assert (found == expected).all()


@every_geometry
def test_any_number_of_threads_gives_the_same_bits(geometry, monkeypatch):
    made = case(geometry, cells=lambda rng, shape: rng.standard_normal(shape), images=7)
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    monkeypatch.setattr(threads, "chosen", None)
    found = []
    for count in (1, 2, 3):
        threads.set_num_threads(count)
        found.append(results(*made))
    for others in found[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], others, strict=True))


@every_geometry
@pytest.mark.parametrize("which", ["x", "weight", "gradient"])
def test_what_is_not_finite_reaches_only_the_sums_that_meet_it(geometry, which):
    params, *arrays = case(geometry)
    place = {"x": 0, "weight": 1, "gradient": 3}[which]
    arrays[place].reshape(-1)[-1] = np.inf
    marks = [np.ones_like(a) for a in arrays]
    marks[place], marks[2] = np.isinf(arrays[place]).astype(np.float32), np.zeros(CHANNELS, np.float32)
    depends = {"x": (0, 2), "weight": (0, 1), "gradient": (1, 2, 3)}[which]
    found, met = results(params, *arrays), product_by_product(params, *marks)
    for i in depends:
        assert (np.isfinite(found[i]) == (met[i] == 0)).all()


def test_a_plane_too_large_for_a_box_is_convolved_without_one():
    made = case(((300, 301), (3, 3), (1, 1), (1, 1), (1, 1)), images=1)
    assert boxes.plan(made[0].window, (300, 301), (300, 301), False) is None
    for found, expected in zip(results(*made), product_by_product(*made), strict=True):
        assert (found == expected).all()


def test_padding_far_larger_than_the_plane_is_not_copied():
    window = Sliding((3, 3), (1, 1), ((40, 40), (40, 40)), (40, 40))
    assert boxes.plan(window, (5, 5), window.grid((5, 5)), False) is None


def chosen(window, images, groups, side):
    """The kernel of a forward pass, and what it is told."""
    conv, _ = grouped(ConvParams(window, groups), (images, groups, *[side] * window.rank), (groups, 1, *window.kernel))
    return conv.chosen(FORWARD, 4)[0].name, conv.told(FORWARD)


def same_bits(one, *ways):
    rng, planes = np.random.default_rng(0), one.images * one.groups
    sizes = planes * one.cells, one.groups * one.taps, one.groups
    x, w, bias = (rng.standard_normal(size).astype(np.float32) for size in sizes)
    results = []
    for way in ways:
        results.append(np.empty(planes * one.pixels, np.float32))
        way.compute(one, x, w, bias, results[-1], False)
    return len({result.tobytes() for result in results}) == 1


def test_narrow_planes_stand_in_lanes_and_give_the_bits_of_three_rows():
    """They fill few of the vectors of `three_rows`; with too few planes for the lanes, it takes them all the same."""
    window, sides = Sliding((3, 5), 1, (1, 2)), {64: (7, 10, 17, 20), 32: (5, 6, 9, 10), 16: (2, 3, 5, 6)}[WIDE_BYTES]
    assert [chosen(window, 1, 960, side)[0] for side in sides] == ["lanes", "three_rows", "lanes", "three_rows"]
    narrow = sides[0]
    assert [chosen(window, images, 5, narrow)[0] for images in (1, 2, 3, 30)] == ["three_rows", "three_rows", "lanes", "lanes"]
    assert same_bits(chosen(window, 3, 5, narrow)[1], THREE, LANES)


NARROW = {  # size and stride of a window: the side of a plane that stands in lanes, while one cell more rolls
    64: {(3, 2): 8, (5, 1): 4, (5, 2): 12, (7, 1): 6, (7, 2): 14},
    32: {(3, 2): 4, (5, 1): 3, (5, 2): 12, (7, 1): 6, (7, 2): 14},
    16: {(3, 2): 2, (5, 1): 3, (5, 2): 14, (7, 1): 5, (7, 2): 10},
}[WIDE_BYTES]


@pytest.mark.parametrize(("size", "stride"), NARROW)
def test_narrow_planes_stand_in_lanes_and_give_the_bits_of_windows_that_roll(size, stride):
    window, narrow = Sliding((size, size), stride, size // 2), NARROW[size, stride]
    assert [chosen(window, 1, 960, side)[0] for side in (narrow, narrow + 1)] == ["lanes", "rolling"]
    assert [chosen(window, images, 5, narrow)[0] for images in (1, 2, 3, 30)] == ["rolling", "rolling", "lanes", "lanes"]
    assert same_bits(chosen(window, 3, 5, narrow)[1], ROLL, LANES)


def test_windows_as_large_as_a_volume_stand_in_a_box_of_padding():
    """Of small boxes any part may be padding."""
    window = Sliding((5, 5, 5), 2, 2)
    assert [chosen(window, images, 5, 5)[0] for images in (1, 3)] == ["shifted", "lanes"]
    assert same_bits(chosen(window, 3, 5, 5)[1], SHIFTED, LANES)
    small = round(boxes.SMALL_BOX ** (1 / 2))
    for padding, may in ((small // 2 - 1, True), (small // 2, False)):
        around = Sliding((2 * padding, 2 * padding), 1, padding)
        assert (boxes.plan(around, (1, 1), around.grid((1, 1)), False) is not None) == may
