"""A Dask array gives what one call on the whole array gives, however it is cut. Where not one bit may differ, none may here."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pytest
from dask.core import get_dependencies
from hypothesis import given, settings
from hypothesis import strategies as st

import windowgrad as wg
from support.chunked import calls, lazy, normal, same_numbers
from support.exact import fractions_of
from support.strategies import ORDINARY, SITUATIONS, whole_numbers
from windowgrad.bridges.dask import graph, pooling
from windowgrad.bridges.dask.states import REDUCTIONS
from windowgrad.errors import KindError, WindowError
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams, SmoothParams, TransposeParams

pytestmark = pytest.mark.usefixtures("one_thread")
some = settings(max_examples=settings.default.max_examples // 5)
RULES = ("forward", "jvp", "vjp")
TREES = ("max_pool", "min_pool", "avg_pool", "smooth_max_pool", "lp_pool")


@pytest.fixture
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture
def always_a_tree(monkeypatch):
    monkeypatch.setattr(pooling, "needs_much", lambda axes, x: True)


def draw_case(data, name):
    """(params, inputs, tangents, gradient) of whole numbers as float32, whose sums are exact."""
    params, shapes = data.draw(SITUATIONS[name])
    wanted = [*shapes, *shapes, params.out_shape(*shapes)]
    arrays = [np.asarray(data.draw(whole_numbers(shape)), np.float32) for shape in wanted]
    for place, each in enumerate(OPS[name].inputs):
        if each in OPS[name].facts.indices:
            arrays[place] = np.abs(arrays[place]).astype(int) % math.prod(wanted[-1][-params.window.rank :])
    return params, arrays[: len(shapes)], arrays[len(shapes) : -1], arrays[-1]


def assert_same(op, params, xs, dxs, g, rng, close=()):
    """Every rule on chunks against every rule on the whole; of the rules in `close` only nearly the same is asked."""
    cut = calls(op, params, *([lazy(a, rng) for a in group] for group in (xs, dxs)), lazy(g, rng))
    for rule, expected in calls(op, params, xs, dxs, g).items():
        for found, whole in zip(cut[rule], expected, strict=True):
            assert (found.shape, found.dtype) == (whole.shape, whole.dtype), rule
            value = found.compute()
            if rule in close:
                np.testing.assert_allclose(value, whole, rtol=2e-6, atol=2e-6, err_msg=rule)
            else:
                assert same_numbers(value, whole), (rule, value, whole)


# --- not one bit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in ("smooth_max_pool", "sharp_smooth_max_pool")])
@some
@given(data=st.data())
def test_exact_sums_are_the_same_bits_however_the_arrays_are_cut(name, data):
    params, xs, dxs, g = draw_case(data, name)
    assert_same(OPS[name], params, xs, dxs, g, random.Random(data.draw(st.integers(0, 2**30))))


GEOMETRIES = [
    Sliding((3, 3), 1, 1),
    Sliding((3, 2), 2, ((0, 3), (1, 0)), (2, 1), True),
    Sliding((13, 13), 4, 6),
    Sliding((4, 5), (4, 5), ((3, 0), (0, 2))),
    Adaptive((16, 10)),
    Adaptive((7, 9)),
    Adaptive((40, 51)),
    Global(2),
]
CUTS = ((1, 1), (5, 20, 1, 22), (33, 7, 1, 9))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_any_floats_are_the_same_bits_for_max_and_mean(geometry, dtype):
    rng = np.random.default_rng(1)
    x, dx = (normal(rng, (2, 48, 50), dtype) for _ in range(2))
    for params in (*(MaxParams(geometry, ties) for ties in TIES), MeanParams(geometry), MeanParams(geometry, False)):
        op, g = OPS["max_pool" if isinstance(params, MaxParams) else "avg_pool"], normal(rng, params.out_shape(x.shape), dtype)
        cut = calls(op, params, [da.from_array(x, CUTS)], [da.from_array(dx, CUTS)], da.from_array(g, 11))
        for rule, expected in calls(op, params, [x], [dx], g).items():
            for found, whole in zip(cut[rule], expected, strict=True):
                assert same_numbers(found.compute(), whole), (rule, params)


@pytest.mark.parametrize("geometry", [Sliding((4, 4, 4), 2, 2), Sliding((4, 4, 4), 4, 2), Adaptive((5, 5, 5))], ids=str)
def test_a_part_whose_windows_are_small_is_summed_like_the_whole(geometry):
    """In float64: the windows at the border have few cells, those of the whole many."""
    x = normal(np.random.default_rng(2), (18, 18, 18), np.float32)
    cut = da.from_array(x, ((1, 2, 15), (9, 9), (17, 1)))
    op, params = OPS["avg_pool"], MeanParams(geometry)
    assert same_numbers(op.forward(params, cut).compute(), op.forward(params, x))


@pytest.mark.parametrize("groups", [1, 4, 8])
@pytest.mark.parametrize("kind", [ConvParams, TransposeParams])
def test_any_floats_are_the_same_bits_for_convolution_and_its_input_gradient(kind, groups):
    rng = np.random.default_rng(3)
    params = kind(Sliding((3, 4), (2, 1), ((1, 1), (0, 2)), (1, 2)), groups)
    x, w = normal(rng, (2, 8, 30, 40), np.float32), normal(rng, (8, 8 // groups, 3, 4), np.float32)
    op, g = OPS["conv" if kind is ConvParams else "conv_transpose"], normal(rng, params.out_shape(x.shape, w.shape), np.float32)
    cut = da.from_array(x, ((1, 1), (3, 5), (5, 20, 5), (33, 7)))
    assert same_numbers(op.forward(params, cut, w).compute(), op.forward(params, x, w))
    assert same_numbers(op.vjp(params, cut, w, g)[0].compute(), op.vjp(params, x, w, g)[0])


@pytest.mark.parametrize(("shape", "kernel"), [((9000, 4, 6), (2, 6)), ((20000, 7), (1, 7)), ((3, 5000, 2, 3), (1, 3))])
def test_indices_are_those_of_the_whole_in_blocks_of_many_cells_whose_last_output_axis_is_1(shape, kernel):
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    whole = wg.max_pool2d(x, kernel, return_indices=True)[1]
    for chunks in (-1, (*shape[:-1], 2), (2500, *shape[1:])):
        assert np.array_equal(wg.max_pool2d(da.from_array(x, chunks), kernel, return_indices=True)[1].compute(), whole)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", ">f4", object])
def test_every_dtype_gives_what_it_gives_in_one_piece(dtype):
    x = np.random.default_rng(4).integers(0, 2 if dtype == "bool" else 9, (3, 9, 7)).astype(dtype)
    w = x[:2, :2, :3][:, None].astype(dtype)
    cut = da.from_array(x, 4)
    for found, whole in [
        (wg.max_pool2d(cut, 3, 2, 1), wg.max_pool2d(x, 3, 2, 1)),
        (wg.avg_pool2d(cut, 3, 2, 1), wg.avg_pool2d(x, 3, 2, 1)),
        (wg.conv2d(cut[:1], w), wg.conv2d(x[:1], w)),
    ]:
        assert found.dtype == whole.dtype
        assert same_numbers(found.compute(), whole)


# --- regions over many chunks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "close"),
    [("max_pool", ()), ("min_pool", ()), ("avg_pool", ("vjp",)), ("smooth_max_pool", RULES), ("lp_pool", RULES)],
)
@some
@given(data=st.data())
def test_exact_sums_are_the_same_bits_in_a_tree(name, close, data):
    """The gradient of a mean is divided before it is added up, so its sums are not exact; a smooth maximum never is."""
    params, xs, dxs, g = draw_case(data, name)
    rng = random.Random(data.draw(st.integers(0, 2**30)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "needs_much", lambda axes, x: True)
        assert_same(OPS[name], params, xs, dxs, g, rng, close)


@pytest.mark.parametrize("name", ["smooth_max_pool", "lp_pool"])
@some
@given(data=st.data())
def test_a_rounded_result_is_nearly_the_same_however_it_is_cut(name, data):
    params, xs, dxs, g = draw_case(data, name)
    assert_same(OPS[name], params, xs, dxs, g, random.Random(data.draw(st.integers(0, 2**30))), RULES)


@pytest.mark.usefixtures("always_a_tree")
def test_the_first_winner_wins_whichever_chunk_it_is_in():
    x = np.array([[0.0, -1, -0.0, 2], [2, 0, 2, np.nan], [np.nan, 1, 1, 1]], np.float32)
    for part in (x[:1, :3], x[:2, :3], x):
        for chunks in ((1, 1), (3, 1), (1, 4), (2, 3)):
            y, index = OPS["max_pool"].with_indices(MaxParams(Global(2)), da.from_array(part, chunks))
            whole = OPS["max_pool"].with_indices(MaxParams(Global(2)), part)
            assert same_numbers(y.compute(), whole[0])
            assert same_numbers(index.compute(), whole[1])


@pytest.mark.usefixtures("always_a_tree")
@pytest.mark.parametrize("ties", TIES)
def test_partial_minima_are_combined_as_the_maxima_of_the_negated(ties):
    """NaN wins both, and what saw no cell (index −1) loses to everything."""
    cells = np.array([-1.0, 0.0, 2.0, np.nan])
    found = np.stack(np.meshgrid(cells, cells, [-1, 3], [-1, 5], indexing="ij")).reshape(4, -1)
    a, b = (found[0], found[2].astype(int), found[0] * 0 + 1), (found[1], found[3].astype(int), found[1] * 0 + 2)
    params, negated = MaxParams(Global(1), ties), [(-value, *rest) for value, *rest in (a, b)]
    least, greatest = REDUCTIONS["minimum"].combine(params, a, b), REDUCTIONS["maximum"].combine(params, *negated)
    for one, other in zip(least, (-greatest[0], *greatest[1:]), strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    seen = (a[1] >= 0) & (b[1] >= 0)
    assert np.array_equal(least[0][seen], np.minimum(a[0], b[0])[seen], equal_nan=True)


def test_a_mean_over_chunks_is_within_the_bound_of_the_design():
    x = (np.random.default_rng(5).standard_normal((60, 70)) * 10.0 ** np.linspace(-15, 15, 70)).astype(np.float32)
    cells = fractions_of(x)
    exact, size = sum(cells.flat) / x.size, sum(map(abs, cells.flat)) / x.size
    found = Fraction(float(wg.global_avg_pool2d(da.from_array(x, (7, 11))).compute().item()))
    assert abs(found - exact) <= 16 * Fraction(1, 2**24) * size


@pytest.mark.usefixtures("always_a_tree")
@pytest.mark.parametrize("beta", [0.5, 30.0, -4.0])
def test_a_smooth_max_over_chunks_is_within_the_bound_of_the_design(beta):
    x = (np.random.default_rng(6).standard_normal((60, 70)) * 1e3).astype(np.float32)
    wide = x.astype(np.float64) * beta
    exact = (wide.max() + np.log(np.exp(wide - wide.max()).sum())) / beta
    found = wg.global_smooth_max_pool2d(da.from_array(x, (7, 11)), beta=beta).compute().item()
    assert abs(found - exact) <= 4 * 2.0**-24 * max(abs(exact), 1 / abs(beta))


@pytest.mark.parametrize("name", TREES)
def test_a_region_over_everything_is_never_in_one_task(name):
    """Each task needs one chunk of the input, or a few small results."""
    x = da.zeros((256, 4096, 4096), chunks=(16, 512, 512), dtype=np.float32)
    options = {"smooth_max_pool": {"beta": 1.0}, "lp_pool": {"norm_type": 2}}.get(name, {})
    y = getattr(wg, f"global_{name}3d")(x, **options)
    tasks = dict(y.__dask_graph__())
    for key in tasks:
        needed = get_dependencies(tasks, key)
        assert len(needed) <= graph.FAN, key
        assert sum(each[0] == x.name for each in needed) <= 1, key


# --- laziness, chunks, errors ------------------------------------------------------------------------------------


def test_output_chunks_follow_input_chunks():
    x = da.zeros((2, 40, 30), chunks=((1, 1), (10, 25, 5), (30,)))
    assert wg.max_pool2d(x, 3, 1, 1).chunks == x.chunks
    assert wg.conv2d(x[:, None], np.ones((4, 1, 3, 3)), padding=1).chunks == ((1, 1), (4,), (10, 25, 5), (30,))
    assert wg.avg_pool2d(x, 2).chunks == ((1, 1), (5, 13, 2), (15,))
    assert wg.conv_transpose2d(x[:, None], np.ones((1, 4, 2, 2)), stride=2).chunks == ((1, 1), (4,), (20, 50, 10), (60,))
    assert wg.global_max_pool2d(x, keepdims=False).chunks == ((1, 1),)


def test_a_result_may_be_larger_than_memory():
    x = da.zeros((1 << 16, 1 << 16, 1 << 12), chunks=(1 << 14, 1 << 14, 1 << 10), dtype=np.float32)
    assert wg.max_pool3d(x, 3, 1, 1).chunks == x.chunks


@pytest.mark.parametrize("name", ORDINARY)
def test_the_same_call_has_the_same_name_and_another_call_another(name):
    params, shapes = ORDINARY[name]
    kinds = [int if each in OPS[name].facts.indices else float for each in OPS[name].inputs]
    xs = [da.from_array(np.zeros(shape, kind), 2) for shape, kind in zip(shapes, kinds, strict=False)]
    assert OPS[name].forward(params, *xs).name == OPS[name].forward(params, *xs).name
    assert OPS[name].forward(params, *xs).name != OPS[name].forward(params, *xs[:-1], xs[-1] + 1).name


def test_chunks_of_unknown_size_are_refused():
    x = da.from_array(np.arange(12.0).reshape(3, 4), 2)
    with pytest.raises(
        KindError, match=r"x: a Dask array with chunks of unknown sizes.*compute_chunk_sizes.*\[max_pool1d\(x: "
    ):
        wg.max_pool1d(x[x[:, 0] > 3], 2)


def test_a_wrong_shape_is_refused_before_anything_is_computed():
    x = da.from_array(np.zeros((4, 4)), 2).map_blocks(lambda block: 1 / 0, dtype=float)
    with pytest.raises(WindowError, match="kernel_size=9 on axis 0"):
        wg.max_pool2d(x, 9)
    with pytest.raises(WindowError, match='empty="raise": window 0 on axis 1'):
        wg.max_pool2d(x, 1, padding=((0, 0), (1, 0)), empty="raise")
    with pytest.raises(WindowError, match=r"g of shape \(4, 4\): must be \(2, 2\)"):
        OPS["max_pool"].vjp(MaxParams(Sliding((2, 2))), x, x)
    with pytest.raises(KindError, match="unsupported dtype complex128"):
        wg.max_pool2d(x.astype(complex), 2)


def test_dask_arrays_mix_with_numpy_arrays_and_with_nothing_else():
    x, w = np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 2, 2), np.float32)
    for found in (wg.conv2d(da.from_array(x, 2), w), wg.conv2d(x, da.from_array(w, 2))):
        assert same_numbers(found.compute(), wg.conv2d(x, w))
    with pytest.raises(KindError, match="weight: must not be a masked array"):
        wg.conv2d(da.from_array(x, 2), np.ma.masked_array(w))


def test_smooth_parameters_of_any_number_travel():
    x = np.linspace(-1, 1, 20).astype(np.float32)
    found = OPS["smooth_max_pool"].forward(SmoothParams(Sliding((3,)), Fraction(7, 3)), da.from_array(x, 6))
    np.testing.assert_allclose(found.compute(), wg.smooth_max_pool1d(x, 3, beta=7 / 3), rtol=1e-6)


def test_output_padding_may_pass_the_stride_where_it_is_below_the_dilation():
    """Then the output has room for more windows than the input has cells, and these have no part in it."""
    x, w = np.arange(1.0, 6.0)[None], np.array([[[1.0, 10.0]]])
    whole = wg.conv_transpose1d(x, w, output_padding=1, dilation=2)
    cut = wg.conv_transpose1d(da.from_array(x, chunks=(1, 2)), w, output_padding=1, dilation=2)
    assert cut.compute().tolist() == whole.tolist()
