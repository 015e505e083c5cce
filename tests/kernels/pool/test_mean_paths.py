"""Small planes, several at once, and whole planes: the same bits as row by row, whatever the layout and the batch."""

import math
from fractions import Fraction

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.mean import entry
from windowgrad.kernels.pool.mean import rows as mean_rows
from windowgrad.kernels.pool.mean.lanes import takes_lanes, takes_lanes_back
from windowgrad.kernels.pool.mean.run_windows import adds_in_registers, mean_run_windows, shares_little
from windowgrad.kernels.pool.mean.whole import is_whole
from windowgrad.kernels.pool.window_spans import DIRECT, depth_of
from windowgrad.kernels.vector.types import lanes_of
from windowgrad.params import MeanParams

SMALL = [  # geometry, plane
    (Sliding((2, 2), 2), (7, 7)),
    (Sliding((3, 3), 1, 1), (5, 32)),
    (Sliding((3, 3), 2, 1, ceil_mode=True), (8, 9)),
    (Sliding((2, 3), 1, (1, 0), (3, 2)), (11, 10)),
    (Sliding((8, 7), 3, 2), (20, 17)),
    (Sliding((5, 5, 5), 1, 2), (6, 5, 6)),
    (Sliding((3, 3), 1, 4), (3, 4)),  # windows without a cell
    (Sliding((3,), 3), (31,)),
    (Sliding((1, 1), 2), (5, 5)),
    (Adaptive((3, 5)), (7, 13)),
    (Adaptive((9, 9)), (4, 4)),
    (Adaptive((5, 7)), (20, 53)),
    (Global(2), (7, 7)),
    (Global(3), (2, 1, 1)),
]


def shown(case):
    return f"{case[0]} on {case[1]}"


def plan_of(geometry, *shape):
    return planned_for(geometry, shape)[0]


def numbers(shape, dtype, seed=0):
    """Numbers of several sizes, with zeros of both signs, and sums that overflow, infinities and NaN in some planes."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
    x[rng.random(shape) < 0.1] = -0.0
    flat = x.reshape(shape[0], -1)
    flat[0, 0], flat[-1, -1], flat[1, 1:] = np.nan, np.inf, np.finfo(dtype).max
    return x


def row_by_row(monkeypatch):
    monkeypatch.setattr(entry, "takes_lanes", lambda *_: False)
    monkeypatch.setattr(entry, "takes_lanes_back", lambda *_: False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SMALL, ids=shown)
def test_planes_taken_together_have_the_bits_of_planes_taken_row_by_row(case, dtype, monkeypatch):
    geometry, plane = case
    for counted in (True, False):
        params = MeanParams(geometry, counted) if isinstance(geometry, Sliding) else MeanParams(geometry)
        for planes in (8, 9, 15, 16):
            x = numbers((planes, *plane), dtype)
            with np.errstate(all="ignore"):
                y = entry.mean_forward(params, x)
                g = numbers(y.shape, dtype, 1)
                (gx,) = entry.mean_vjp(params, x, g)
                with monkeypatch.context() as patch:
                    row_by_row(patch)
                    assert same_bits(y, entry.mean_forward(params, x))
                    assert same_bits(gx, entry.mean_vjp(params, x, g)[0])


BESIDE = [  # geometry, plane: windows side by side, over rows that fill lines
    (Sliding((2, 2), 2), (7, 32)),
    (Sliding((3, 2), (3, 2), (1, 1)), (8, 16)),
    (Sliding((20, 16), (20, 16)), (41, 48)),
    (Sliding((2, 2), 2, ceil_mode=True), (5, 16)),
    (Adaptive((3, 4)), (12, 64)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("channels", [1, 32, 48])
@pytest.mark.parametrize("case", BESIDE, ids=shown)
def test_gradients_that_are_written_past_the_caches_are_the_same(case, channels, behind, dtype):
    """Where they begin in a line, and where they do not."""
    geometry, plane = case
    params, p, zero = MeanParams(geometry), plan_of(geometry, 2, *plane), entry.WIDE if dtype == "float64" else entry.NARROW
    shape = (2, *geometry.grid(plane), channels)
    g = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    if channels == 1:
        kernel, given, count = entry.over_planes_back(params, p, zero, 2, False)
    else:
        kernel, given, count = entry.over_runs_back(params, p, zero, 2, channels)
    found = []
    for least in (1 << 62, 0):
        plan = p.packed_back.copy()
        plan[-1] = least
        told = [plan if each is p.packed_back else each for each in given]
        gx = guarded(np.full(2 * math.prod(plane) * channels + behind, np.nan, dtype), "end")[behind:]
        held = [a.view(np.uint16) if dtype == "float16" else a for a in (guarded(g.reshape(-1), "end"), gx)]
        kernel(*held, *told, 0, count)
        found.append(gx)
    assert same_bits(*found)
    assert not np.isnan(found[0]).any()


@pytest.mark.parametrize("planes", [8, 9, 15, 17])
def test_every_group_writes_its_own_planes_only(planes):
    """The last planes are done with some of another group, which another thread may be writing."""
    params, zero = MeanParams(Sliding((2, 2), 2)), entry.NARROW
    p, x = plan_of(params.geometry, planes, 7, 7), np.ones((planes, 7, 7), np.float32)
    for kernel, given, count, size in (
        (*entry.over_planes(params, p, zero, planes, True), 9),
        (*entry.over_planes_back(params, p, zero, planes, True), 49),
    ):
        assert "lanes" in kernel.__name__
        for group in range(count):
            y = np.full((planes, size), np.nan, np.float32)
            kernel(x.reshape(-1), y.reshape(-1), *given, group, group + 1)
            lanes = lanes_of(zero.itemsize)
            own = range(group * lanes, min(planes, (group + 1) * lanes))
            assert np.flatnonzero(~np.isnan(y).any(axis=1)).tolist() == list(own)


def test_planes_are_taken_together_where_rows_are_short():
    windows = Sliding((3, 3), 1, 1)
    assert takes_lanes(plan_of(windows, 8, 128, 32), 8, 4)
    assert not takes_lanes(plan_of(windows, 8, 129, 32), 8, 4)
    assert not takes_lanes(plan_of(windows, 8, 10, 33), 8, 4)
    assert not takes_lanes(plan_of(windows, 7, 10, 10), 7, 4)
    assert takes_lanes(plan_of(windows, 4, 10, 10), 4, 8)
    assert not takes_lanes(plan_of(Sliding((9, 9), 9), 8, 30, 30), 8, 4)  # nine columns are added as powers of two
    assert not takes_lanes(plan_of(Sliding((2, 4), 4), 8, 30, 30), 8, 4)  # and four side by side in pairs
    assert takes_lanes(plan_of(Sliding((2, 4), 3), 8, 30, 30), 8, 4)


def test_backwards_bins_may_be_in_longer_rows():
    bins = Adaptive((7, 7))
    assert takes_lanes_back(plan_of(bins, 8, 64, 64), 8, 4)
    assert not takes_lanes_back(plan_of(bins, 8, 60, 65), 8, 4)
    assert not takes_lanes(plan_of(bins, 8, 64, 64), 8, 4)
    assert not takes_lanes_back(plan_of(Sliding((3, 3), 1), 8, 60, 33), 8, 4)


def test_small_planes_are_not_summed_axis_by_axis():
    many = Sliding((5, 5, 5), 1, 2)
    assert not entry.goes_by_axes(many, (16, 8, 32))
    assert entry.goes_by_axes(many, (16, 8, 33))
    assert entry.goes_by_axes(many, (129, 1, 32))
    assert not entry.goes_by_axes(Sliding((3, 3), 1), (100, 100))


def test_a_window_is_whole_if_it_is_its_plane():
    assert is_whole(plan_of(Global(2), 1, 16, 8))
    assert is_whole(plan_of(Global(2), 1, 3, 3))
    assert not is_whole(plan_of(Global(1), 1, 8))
    assert is_whole(plan_of(Adaptive((1, 1)), 1, 16, 9))
    assert not is_whole(plan_of(Adaptive((1, 2)), 1, 16, 16))
    assert is_whole(plan_of(Sliding((12, 12), 1), 1, 12, 12))
    assert not is_whole(plan_of(Sliding((12, 12), 12, 1, ceil_mode=False), 1, 12, 12))
    assert not is_whole(plan_of(Sliding((12, 11), 1), 1, 13, 11))


@pytest.mark.parametrize("size", [8, 9, 16, 49, 95, 96, 97, 128, 129, 191, 192, 511, 1000, 3136])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int64"])
def test_the_mean_of_a_whole_plane_is_that_of_its_cells(size, dtype):
    x = np.random.default_rng(size).integers(0, 50, (19, size)).astype(dtype)  # more than a vector has lanes
    y = entry.mean_forward(MeanParams(Global(1)), x)
    totals = x.astype(np.float64).sum(axis=1, keepdims=True)
    assert same_bits(y, (totals / size).astype(y.dtype))


@pytest.mark.parametrize("plane", [(3, 3), (7, 7), (8, 12), (13, 21)], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 8, 13, 16, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_whole_plane_has_the_same_bits_in_every_layout_and_batch(plane, channels, dtype):
    params = MeanParams(Global(2))
    x = np.random.default_rng(3).standard_normal((3, channels, *plane)).astype(dtype)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    y, g = entry.mean_forward(params, x), np.random.default_rng(4).standard_normal((3, channels, 1, 1)).astype(dtype)
    (gx,) = entry.mean_vjp(params, x, g)
    assert same_bits(entry.mean_forward(params, last), y)
    assert same_bits(entry.mean_vjp(params, last, np.moveaxis(np.ascontiguousarray(np.moveaxis(g, 1, -1)), -1, 1))[0], gx)
    assert same_bits(entry.mean_forward(params, x[1:2]), y[1:2])
    assert same_bits(gx, np.broadcast_to(g / np.dtype(dtype).type(math.prod(plane)), x.shape))


@pytest.mark.parametrize("channels", [5, 16, 33])
def test_a_gradient_of_one_cell_per_plane_has_the_layout_of_its_input(channels):
    x = np.moveaxis(np.ones((2, 4, 4, channels), np.float32), -1, 1)
    g = np.random.default_rng(1).standard_normal((2, channels, 1, 1), dtype=np.float32)
    params = MeanParams(Global(2))
    (gx,) = entry.mean_vjp(params, x, g)
    assert gx.strides == x.strides
    assert same_bits(gx, np.broadcast_to(g / np.float32(16), x.shape))


@pytest.mark.parametrize("edge", ["start", "end"])
@pytest.mark.parametrize("last", [False, True])
def test_whole_planes_are_read_in_memory_of_just_their_size(last, edge):
    params = MeanParams(Global(2))
    for plane in ((3, 3), (7, 7), (9, 11), (12, 12)):
        x, g = np.ones((2, 5, *plane), np.float32), np.ones((2, 5, 1, 1), np.float32)
        layout = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
        with exact_memory(at=edge):
            given = np.moveaxis(guarded(np.moveaxis(layout, 1, -1), edge), -1, 1) if last else guarded(x, edge)
            assert (entry.mean_forward(params, given) == 1).all()
            assert (entry.mean_vjp(params, given, guarded(g, edge))[0] == np.float32(1) / math.prod(plane)).all()


def test_backwards_a_plane_may_be_larger_where_the_other_is_smaller():
    bins = Adaptive((7, 7, 7))
    assert takes_lanes_back(plan_of(bins, 8, 42, 10, 12), 8, 4)
    assert not takes_lanes_back(plan_of(bins, 8, 66, 10, 12), 8, 4)
    assert not takes_lanes_back(plan_of(bins, 7, 42, 10, 12), 7, 4)


def test_rows_that_fill_vectors_are_not_taken_several_at_once():
    params = MeanParams(Sliding((3, 3), 1, 1))
    for width, kernel in ((entry.FULL - 1, "mean_lanes"), (entry.FULL, "mean_near")):
        assert entry.over_planes(params, plan_of(params.geometry, 8, 9, width), entry.WIDE, 8, True)[0].__name__ == kernel


@pytest.mark.parametrize("geometry", [Adaptive((2, 1)), Sliding((1024, 2100), 1024)], ids=["bins", "windows"])
def test_a_section_with_one_window_is_summed_like_its_plane(geometry):
    """An array with gaps is copied, so a large one is cut: here each section has one window."""
    x = np.random.default_rng(6).standard_normal((1, 2100, 4200), dtype=np.float32)[:, :, ::2]
    params = MeanParams(geometry)
    assert same_bits(entry.mean_forward(params, x), entry.mean_forward(params, np.ascontiguousarray(x)))


@pytest.mark.parametrize("last", [False, True])
def test_a_whole_plane_that_overflows_is_summed_again_alone(last):
    x = np.full((2, 3, 16, 16), 3e38, np.float32)
    x[1], x[0, 1, 3, 3], x[0, 2, 0, 0] = 1, np.inf, np.nan
    expected = np.array([[3e38, np.inf, np.nan], [1, 1, 1]], np.float32)[:, :, None, None]
    given = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
    assert same_bits(entry.mean_forward(MeanParams(Global(2)), given), expected)


def test_a_whole_plane_is_within_its_bound():
    x = (np.random.default_rng(5).standard_normal((4, 777)) * 10.0 ** np.linspace(-6, 6, 777)).astype(np.float32)
    y = entry.mean_forward(MeanParams(Global(1)), x)
    for cells, found in zip(x, y[:, 0], strict=True):
        exact = [Fraction(float(v)) for v in cells]
        assert abs(Fraction(float(found)) - sum(exact) / 777) <= 16 * Fraction(1, 2**24) * sum(map(abs, exact)) / 777


@pytest.mark.parametrize("taps", [9, 16, 31, 64, 1001, 1023, 1024, 4097])
def test_the_depth_of_a_long_window_is_that_of_its_deepest_part(taps):
    """The parts of a window, one for each binary digit, are added the smallest first."""
    assert taps > DIRECT
    depth = None
    for digit in range(taps.bit_length()):
        if taps >> digit & 1:
            depth = digit if depth is None else max(depth, digit) + 1
    assert depth_of(taps) == depth


def test_windows_of_few_taps_have_kernels_without_the_code_for_many():
    for taps, forward, backward in (
        (DIRECT, mean_rows.mean_rows_of_few, mean_rows.back_rows_of_few),
        (DIRECT + 1, mean_rows.mean_rows_of_many, mean_rows.back_rows_of_many),
    ):
        p = plan_of(Sliding((taps,), 1), 100)
        assert (mean_rows.mean_rows_for(p), mean_rows.mean_rows_back_for(p)) == (forward, backward)
    assert mean_rows.mean_rows_for(plan_of(Adaptive((3,)), 100)) is mean_rows.mean_rows_of_few


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3, 8, 37, 64])
@pytest.mark.parametrize(
    "geometry",
    [
        Sliding((2, 2), 2),
        Sliding((2, 2), 2, 1, ceil_mode=True),
        Sliding((3, 3), 2, 1),
        Sliding((3, 3), 1, 1),
        Sliding((2, 3), 3, 1, (1, 2)),
        Sliding((1, 3), 2, (0, 1), (1, 3)),
        Sliding((3, 3), 1, 4),
        Sliding((3, 7), (1, 8), (1, 3)),
        Sliding((4, 4), 4),
    ],
    ids=str,
)
def test_windows_of_channels_last_have_the_bits_of_channels_first(geometry, channels, dtype):
    params, x = MeanParams(geometry), numbers((2, channels, 9, 11), dtype)
    assert same_bits(entry.mean_forward(params, channels_last(x)), entry.mean_forward(params, x))
    g = numbers(params.out_shape(x.shape), dtype, 1)
    assert same_bits(entry.mean_vjp(params, channels_last(x), channels_last(g))[0], entry.mean_vjp(params, x, g)[0])


def test_windows_that_share_few_cells_are_added_without_a_buffer_of_columns():
    little = shares_little
    assert little(2, 2, 2)  # 4 loads, where columns take 4 and their sums 2
    assert little(3, 2, 3)  # 9; 6 and 3
    assert not little(3, 1, 3)  # 9; 3 and 3
    assert little(3, 1, 2)  # 6; 2 and 3
    assert little(DIRECT, DIRECT + 1, 2)
    assert not little(DIRECT + 1, DIRECT + 1, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("geometry", [Sliding((2, 2), 2), Sliding((3, 3), 2, 1), Sliding((2, 3), (2, 4), (1, 0))], ids=str)
def test_windows_in_registers_and_their_gradients_touch_no_memory_beside_them(geometry, dtype):
    """Runs of all residues of a vector, and of more vectors than are taken at a time."""
    params, least = MeanParams(geometry), lanes_of(np.dtype(dtype).itemsize)
    for channels in range(least, 5 * least + 2):
        x = numbers((2, channels, 5, 6), dtype)
        assert adds_in_registers(plan_of(geometry, 5, 6), channels, x.itemsize)
        g = numbers(params.out_shape(x.shape), dtype, 1)
        with exact_memory():
            for edge in ("start", "end"):
                cells, gradients = (np.moveaxis(guarded(np.moveaxis(a, 1, -1), edge), -1, 1) for a in (x, g))
                assert same_bits(entry.mean_forward(params, cells), entry.mean_forward(params, x))
                assert same_bits(entry.mean_vjp(params, cells, gradients)[0], entry.mean_vjp(params, x, g)[0])


def test_windows_are_added_in_registers_if_runs_fill_a_vector_and_columns_are_added_in_turn():
    def holds(geometry, channels=8, itemsize=4):
        return adds_in_registers(plan_of(geometry, 16, 16), channels, itemsize)

    assert holds(Sliding((2, 2), 2))
    assert not holds(Sliding((2, 2), 2), channels=7)
    assert holds(Sliding((2, 2), 2), channels=4, itemsize=8)
    assert holds(Sliding((3, 3), 2, 1))
    assert not holds(Sliding((3, 3), 1, 1))
    assert holds(Sliding((5, 5), 5))
    assert not holds(Sliding((4, 4), 4))  # neighbours first
    assert holds(Sliding((4, 4), 4, 0, (1, 2)))
    assert not holds(Adaptive((5, 5)))


def test_only_sums_of_the_dtype_of_both_arrays_are_added_in_registers():
    params, p = MeanParams(Sliding((2, 2), 2)), plan_of(Sliding((2, 2), 2), 8, 8)
    chosen = [entry.over_runs(params, p, entry.NARROW, 1, 8, same)[0] for same in (True, False)]
    assert [kernel is mean_run_windows for kernel in chosen] == [True, False]


def test_windows_side_by_side_that_all_lie_in_the_padding_have_no_gradient_and_write_no_other_memory():
    params = MeanParams(Sliding((1, 4), (1, 4), ((0, 0), (5, 0))))
    x = channels_last(np.zeros((1, 3, 4, 2), np.float32))
    with exact_memory():
        (gx,) = entry.mean_vjp(params, x, channels_last(np.ones((1, 3, 4, 1), np.float32)))
        assert not gx.any()
