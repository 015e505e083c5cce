"""One order of summation per geometry: neither the layout of an array, nor its neighbours in a batch, nor threads change a bit.

Numbers are random, so that sums round and another order would show.
"""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import CHANNELS, LAYOUTS, Call, channels_last, drawn_call, settled
from support.exact import same_bits
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.max import find, winner_plan
from windowgrad.kernels.pool.mean import runs as mean_runs
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import TIES, MaxParams, MeanParams

MEAN, MAX = OPS["avg_pool"], OPS["max_pool"]


@pytest.fixture(autouse=True)
def small_calls_use_threads(monkeypatch):
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    monkeypatch.setattr(threads, "chosen", 1)


def check(found, expected, told):
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), told
        assert settled(one) == settled(other), told


# --- drawn calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_call_has_the_bits_of_one_contiguous_plane_at_a_time(seed):
    """Every operator and rule, any layout of x, dx and g, any number of threads."""
    rng = np.random.default_rng([12, seed])
    for _ in range(8):
        call = drawn_call(rng)
        threads.set_num_threads(1)
        expected = call.by_planes()
        for number in (1, int(rng.choice([2, 3, 7]))):
            threads.set_num_threads(number)
            names = tuple(str(name) for name in rng.choice(list(LAYOUTS), 3))
            check(call.results(*call.laid_out(rng, names)), expected, (call.op, call.params, call.x.shape, names, number))


@pytest.mark.parametrize("seed", range(3))
def test_broadcast_axes_and_the_layout_of_out_change_no_bit(seed):
    """A stride of 0 on some axes; `out` in every layout."""
    rng = np.random.default_rng([13, seed])
    for _ in range(6):
        call = drawn_call(rng)
        once = call.x[tuple(slice(0, 1) if rng.random() < 0.5 else slice(None) for _ in call.x.shape)]
        wide = np.broadcast_to(once, call.x.shape)
        call = Call(call.op, call.params, wide.copy(), wide.copy(), call.g)
        expected = call.by_planes()
        check(call.results(wide, wide, call.g), expected, (call.op, call.params))
        for name, lay in LAYOUTS.items():
            if expected[0].ndim and name != "byte-swapped":  # `out` has the dtype of the result
                out = lay(np.zeros_like(expected[0]), call.rank, rng)
                wg.dispatch.run(OPS[call.op], "forward", call.params, call.x, out=out)
                check([out], expected[:1], (call.op, call.params, name))


def test_the_global_mean_of_a_fortran_array_has_the_bits_of_a_contiguous_one():
    x = np.random.default_rng(0).standard_normal((17, 13)).astype(np.float32)
    assert same_bits(wg.global_avg_pool1d(np.asfortranarray(x)), wg.global_avg_pool1d(x))


# --- channels last -----------------------------------------------------------------------------------------------

GEOMETRIES = [
    *(Sliding((2, k), (1, s), 0) for k in (1, 2, 3, 4, 8, 9, 16) for s in (1, 2, 3)),
    *(Sliding((k, k), k) for k in (2, 4, 8)),
    Sliding((3, 3), 2, 1),
    Sliding((4, 4), 4, 2, 2),
    Sliding((3, 5), 2, (2, 4), (1, 2), True),
    Sliding((3, 11), (2, 4), ((4, 0), (1, 9)), 1, True),
    Sliding((3,), 2, 1),
    Sliding((8,), 8),
    Sliding((2, 2, 2), (1, 2, 2)),
    Adaptive((3, 4)),
    Adaptive((20, 3)),
    Adaptive((4, 8)),
    Global(1),
    Global(2, keepdims=False),
]
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)


def pair(shape, channels_at, dtype=np.float32, seed=0):
    """The same random numbers channels first and channels last, with some that are not finite."""
    first = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    first.reshape(-1)[np.arange(4) * (first.size // 4)] = np.inf, 3e38, -np.inf, np.nan
    return first, channels_last(first, len(shape) - channels_at - 1)


def drawn_shape(geometry, channels):
    return (2, channels, *(19, 24, 5)[: geometry.rank])


@every_geometry
@pytest.mark.parametrize("padded", [True, False])
def test_the_mean_of_channels_last_has_the_bits_of_channels_first(geometry, padded):
    for channels in sorted(set(CHANNELS) - {1}):
        for dtype in (np.float32, np.float64):
            params, shape = MeanParams(geometry, padded), drawn_shape(geometry, channels)
            first, last = pair(shape, 1, dtype)
            g_first, g_last = pair(geometry.out_shape(shape), 1, dtype, 1)
            expected = [MEAN.forward(params, first), MEAN.jvp(params, first, first), *MEAN.vjp(params, first, g_first)]
            check(
                [MEAN.forward(params, last), MEAN.jvp(params, first, last), *MEAN.vjp(params, last, g_last)], expected, channels
            )


@every_geometry
@pytest.mark.parametrize("ties", TIES)
def test_the_gradient_of_a_maximum_of_channels_last_has_the_bits_of_channels_first(geometry, ties):
    for channels in (2, 3, 8, 9):
        params, shape = MaxParams(geometry, ties), drawn_shape(geometry, channels)
        first, last = (np.round(x) for x in pair(shape, 1))
        assert not last.flags.c_contiguous
        g_first, g_last = pair(geometry.out_shape(shape), 1, np.float32, 1)
        check(MAX.vjp(params, last, g_last), MAX.vjp(params, first, g_first), channels)


@pytest.mark.parametrize("geometry", [Sliding((3, 7), 2, 1), Sliding((2, 3), 1), Adaptive((3, 5)), Global(2)], ids=str)
def test_channels_last_are_copied_where_a_row_has_too_many_numbers(geometry, monkeypatch):
    """At the boundary of `fits` the kernel for runs is used, past it the one for channels first: the bits are the same."""
    params, (first, last) = MeanParams(geometry), pair((2, 6, 23, 25), 1)
    g_first, g_last = pair(geometry.out_shape(first.shape), 1, np.float32, 1)
    expected, p = [MEAN.forward(params, first), *MEAN.vjp(params, first, g_first)], plan(geometry, (23, 25))
    row = p.out if p.kernel == 0 else p.before + p.width + p.kernel * p.step + p.out * p.stride
    for largest in (row * 6, row * 6 - 1):
        monkeypatch.setattr(mean_runs, "LONGEST_ROW", largest)
        assert mean_runs.fits(p, 6) == (largest == row * 6)
        y = MEAN.forward(params, last)
        assert y.flags.c_contiguous == (not mean_runs.fits(p, 6) or y.size == 12)
        check([y, *MEAN.vjp(params, last, g_last)], expected, largest)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_gradient_of_a_maximum_is_copied_where_a_block_of_rows_is_too_large(stride, monkeypatch):
    """The limit is on what the runs of a block take."""
    geometry = Sliding((3, 5), stride, 1)
    params, shape = MaxParams(geometry), (1, 7, 21, 26 + stride)  # no other test has this shape: what is found is kept
    p = plan(geometry, shape[2:])
    monkeypatch.setattr(find, "LARGEST_SPAN", 3 * p.out * 7 - 1)
    monkeypatch.setattr(find, "looks_at_taps", lambda p: False)  # else nothing is copied
    assert find.form_of(geometry, shape) == "first"
    first, last = pair(shape, 1)
    g_first, g_last = pair(geometry.out_shape(shape), 1, np.float32, 1)
    check(MAX.vjp(params, last, g_last), MAX.vjp(params, first, g_first), stride)


LONG = [
    *(Sliding((2, k), (1, s), 1) for k in (3, 4, 9) for s in (1, 2, 3)),
    Sliding((1, 4), 4),
    Sliding((2, 16), 16),
    Adaptive((1, 700)),
    Adaptive((1, 7)),
    Global(2),
]


@pytest.mark.parametrize("geometry", LONG, ids=str)
def test_rows_of_several_pieces_have_the_bits_of_channels_first(geometry):
    """More numbers than stand in a buffer at once, shared by threads."""
    params, (first, last) = MeanParams(geometry), pair((1, 17, 2, 1500), 1)
    g_first, g_last = pair(geometry.out_shape(first.shape), 1, np.float32, 1)
    expected = [MEAN.forward(params, first), *MEAN.vjp(params, first, g_first)]
    for number in (1, 3):
        threads.set_num_threads(number)
        check([MEAN.forward(params, last), *MEAN.vjp(params, last, g_last)], expected, number)


@pytest.mark.parametrize("stride", [1, 2])
def test_what_is_looked_at_of_a_row_stands_in_its_memory(stride):
    """Winners are found by whole runs and whole vectors."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        taps, step, run, n, low, high = (int(rng.integers(*ends)) for ends in ((1, 6), (1, 4), (1, 40), (1, 9), (0, 7), (0, 7)))
        if (taps - 1) * step < n + low + high:
            p = plan(Sliding((taps,), stride, ((low, high),), step), (n,), run, True)
            row = winner_plan.memory(p, 8)
            assert row.offset.max() + row.pitch <= stride * row.phase
            assert ((p.before + p.width) // run // stride + 1) * run <= row.phase


# --- neighbours --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strange", [np.inf, np.nan, 3e38, -3e38])
@pytest.mark.parametrize("geometry", [Sliding((13, 3), 1, 1), Sliding((5, 3, 2), 1, 1), Sliding((13, 9), 1, 6)], ids=str)
def test_a_plane_that_is_summed_again_changes_no_other_one(geometry, strange):
    """Windows of many rows: a float32 sum that is not finite sends its own plane to float64, and no other."""
    params, shape = MeanParams(geometry), (7, *(30, 21, 9)[: geometry.rank])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    alone = [MEAN.forward(params, plane) for plane in x]
    x[2], x[5].reshape(-1)[7] = strange, strange
    for number in (1, 2, 3, 7):
        threads.set_num_threads(number)
        y = MEAN.forward(params, x)
        check([y[i] for i in (0, 1, 3, 4, 6)], [alone[i] for i in (0, 1, 3, 4, 6)], number)
        check([y], [np.stack([MEAN.forward(params, plane) for plane in x])], number)


@pytest.mark.parametrize("strange", [np.inf, np.nan, 3e38])
def test_a_window_that_is_summed_again_changes_no_other_one(strange):
    """Windows of few rows: only the means that see the strange cell change."""
    x = np.random.default_rng(0).standard_normal((1, 9, 400)).astype(np.float32)
    before = wg.avg_pool2d(x, 3)
    x[0, 4, 100:102] = strange
    after = wg.avg_pool2d(x, 3)
    assert np.argwhere(before != after).tolist() == [[0, 1, 33]]


# --- array functions ---------------------------------------------------------------------------------------------

SUMS = {
    "sum": wg.sum,
    "sum over the first axis": lambda x: wg.sum(x, 0),
    "sum over two axes": lambda x: wg.sum(x, (0, 2), keepdims=True),
    "mean": wg.mean,
    "mean over the last axis": lambda x: wg.mean(x, -1),
    "mse": lambda x: wg.mse(x, np.zeros_like(x)),
    "softmax": lambda x: wg.softmax(x, 1),
    "log_softmax": lambda x: wg.log_softmax(x, 1),
    "cross_entropy": lambda x: wg.cross_entropy(x[:, :, 0], np.arange(len(x)) % x.shape[1]),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_sums_of_array_functions_have_the_same_bits_in_any_layout(name, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((17, 13, 40)).astype(dtype)
    for layout in LAYOUTS.values():
        check([np.asarray(SUMS[name](layout(x, 1, rng)))], [np.asarray(SUMS[name](x))], name)
