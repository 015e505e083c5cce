"""Every kernel of convolution may be used wherever its predicate holds: forced there, it equals the exact kernel."""

import itertools
from functools import partial

import numpy as np
import pytest

import windowgrad as wg
from support.conv_ways import LANES, PANEL, ROLES, case, drawn, placed, poison, untouched
from windowgrad.geometry import Sliding
from windowgrad.kernels import arrays as cells
from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv import share as conv_share
from windowgrad.kernels.conv.choose import WAYS, grouped
from windowgrad.kernels.conv.depthwise import bands
from windowgrad.kernels.conv.depthwise import ways as depthwise
from windowgrad.kernels.conv.depthwise.lane_plan import LARGEST_CHUNK
from windowgrad.kernels.conv.exact import FORWARD, INPUT, WEIGHT
from windowgrad.kernels.conv.gemm import ways as gemm_ways
from windowgrad.kernels.conv.gemm.direct_ways import DIRECT_WEIGHT
from windowgrad.kernels.conv.gemm.layout import layouts
from windowgrad.kernels.conv.gemm.packing import pack_tiles
from windowgrad.kernels.conv.gemm.short_ways import AROUND, SHORT, strips
from windowgrad.kernels.conv.gemm.ways import FEW_WEIGHT, PRODUCTS, WEIGHT_PRODUCTS, shares_rows
from windowgrad.kernels.conv.pointwise.ways import THIN
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.vector.masked import HUGE
from windowgrad.kernels.vector.registers import ROWS, VECTORS
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams

KINDS = ("pointwise", "three", "planes", "dense", "bands", "square")
CASES = 40


def every_kind(test):
    return pytest.mark.parametrize("kind", KINDS)(pytest.mark.usefixtures("small_bands")(test))


every_float = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(autouse=True)
def every_call_is_shared(monkeypatch):
    """However small; and the number of threads is as before afterwards."""
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    monkeypatch.setattr(threads, "chosen", 1)


@pytest.fixture
def small_bands(kind, monkeypatch):
    """Bands so small that the planes of the tests have some; what was cut before or is cut here is not kept."""
    if kind == "bands":
        monkeypatch.setattr(bands, "BAND", 60)
        bands.bands.cache_clear()
    yield
    bands.bands.cache_clear()


def forced(made, role, way, out, adds=False):
    """The strange lanes that a kernel gives; everything it reads is as before, and so is what stands around its arrays."""
    operands, bias = made.operands(role), made.bias[role] * (0 if adds else 1)
    before = [a.tobytes() for a in (*operands, bias)]
    strange = way.compute(made.conv.told(role), *operands, bias, out, adds)
    assert [a.tobytes() for a in (*operands, bias)] == before
    assert all(map(untouched, (out, *operands)))
    return strange


def holding(made):
    """(role, way) for every kernel that may be used."""
    itemsize = made.arrays[WEIGHT].itemsize
    return [(role, way) for role in ROLES.values() for way in made.conv.ways(role, itemsize)]


def cases(kind, dtype, count, cells=None):
    for seed in range(count):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        params, x, w = drawn(rng, kind)
        yield (params, x, w), case(params, x, w, dtype, rng, cells and cells(rng))


# --- equal to the exact kernel -----------------------------------------------------------------------------------


@every_kind
@every_float
def test_a_kernel_equals_the_exact_one_wherever_its_predicate_holds(kind, dtype, monkeypatch):
    """On small integers with ==, for any number of threads; scratch and output hold NaN before, and nothing else is written."""
    seen = set()
    for shapes, made in cases(kind, dtype, CASES):
        for (role, way), adds in itertools.product(holding(made), (False, True)):
            if role == WEIGHT and adds:
                continue
            seen.add(way.name)
            sums, start = made.exact(role), np.arange(made.arrays[role].size, dtype=dtype) % 5
            expected = start + sums if adds else made.with_bias(role, sums)
            for count in (1, 2, 3, 7):
                monkeypatch.setattr(threads, "chosen", count)
                memory = poison(monkeypatch)
                out = placed(start if adds else np.full(start.size, np.nan, dtype))
                forced(made, role, way, out, adds)
                assert (out == expected).all(), (way.name, role, shapes, count, adds)
                assert memory.kept(), (way.name, role, shapes, count)
    wanted = {
        "pointwise": {"products", "short", "thin", "pointwise_weight"},
        "three": {"three_rows", "shifted", "three_weight", "shifted_weight"},
        "planes": {"lanes", "lanes_weight", "shifted", "shifted_weight", "depthwise", "depthwise_weight"},
        "dense": {"products", "short", "columns", "few_weight", "direct_weight", "weight_products"},
        "bands": {"bands", "bands_weight"},
        "square": {"rolling"},
    }
    assert seen >= wanted[kind]


@every_kind
@every_float
def test_a_prepared_call_has_the_bits_of_one_that_is_not_for_any_number_of_threads(kind, dtype, monkeypatch):
    """The number of threads may change between calls; scratch and output hold NaN before, and nothing else is written."""
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    seen = set()
    for shapes, made in cases(kind, dtype, CASES, lambda rng: rng.standard_normal):
        for role, way in holding(made):
            ready = way.ready(made.conv.told(role), np.dtype(dtype))
            if ready is None:
                continue
            seen.add(way.name)
            wanted = placed(np.full(made.arrays[role].size, np.nan, dtype))
            strange = forced(made, role, way, wanted)
            for count in (1, 2, 3, 2):
                monkeypatch.setattr(threads, "chosen", count)
                memory, out = poison(monkeypatch), placed(np.full(wanted.size, np.nan, dtype))
                assert bool(ready(*made.operands(role), made.bias[role], out)) == bool(strange), (way.name, role, shapes)
                assert out.tobytes() == wanted.tobytes(), (way.name, role, shapes, count)
                assert untouched(out)
                assert memory.kept(), (way.name, role, shapes, count)
    assert seen >= {
        "pointwise": {"products", "short", "thin"},
        "dense": {"products", "few_weight", "direct_weight", "weight_products"},
        "square": {"rolling"},
    }.get(kind, set())


@every_kind
@every_float
def test_a_kernel_is_refused_at_the_edge_of_its_predicate(kind, dtype):
    """Of the drawn geometries some must be on either side, or the test above would not stand at the edge."""
    sides = {way.name: set() for ways in WAYS.values() for way in ways}
    for _, made in cases(kind, dtype, CASES):
        for role, ways in WAYS.items():
            for way in ways:
                sides[way.name].add(way.holds(made.conv.told(role), np.dtype(dtype).itemsize))
    edges = {
        "pointwise": ("pointwise_weight", "thin"),
        "three": ("three_rows", "three_weight", "depthwise"),
        "planes": ("lanes", "shifted", "shifted_weight", "depthwise", "depthwise_weight", "three_rows"),
        "dense": ("short", "direct_weight"),
        "bands": ("bands", "bands_weight"),
        "square": ("rolling",),
    }
    assert all(sides[name] == {False, True} for name in edges[kind])


@pytest.mark.parametrize(("taps", "rows", "may"), [(256, 128, True), (256, 129, False), (257, 1, False)])
def test_few_weights_are_few_sums_and_few_taps(taps, rows, may):
    made = case(ConvParams(Sliding((taps,), 1, 1)), (2, 1, 290), (rows, 1, taps), np.float32, np.random.default_rng(0))
    assert FEW_WEIGHT.holds(made.conv.told(WEIGHT), 4) == may
    if may:
        out = placed(np.full(taps * rows, np.nan, np.float32))
        forced(made, WEIGHT, FEW_WEIGHT, out)
        assert (out == made.exact(WEIGHT)).all()


MOST = plan.PIXELS
DIRECT = {
    # images, channels, pixels, rows, taps, and whether the sums of few pixels may go straight into the gradient
    "a tile of rows, a panel of numbers": (1, PANEL // 3, 7, ROWS, 3, True),
    "fewer rows": (1, PANEL // 3, 7, ROWS - 1, 3, False),
    "a vector of numbers": (1, LANES, 7, ROWS, 1, True),
    "fewer numbers": (1, LANES - 1, 7, ROWS, 1, False),
    "between a vector and a panel": (1, LANES + 1, 7, ROWS, 1, False),
    "as many pixels as are a block": (1, PANEL, MOST, ROWS, 1, True),
    "more pixels": (1, PANEL, MOST + 1, ROWS, 1, False),
    "as many taps as are listed": (1, 1, 5, ROWS, MOST, True),
    "more taps": (1, 1, 5, ROWS, MOST + 1, False),
    "two images": (2, PANEL, 7, ROWS, 1, False),
}


@pytest.mark.parametrize("name", DIRECT)
def test_sums_of_few_pixels_go_straight_into_the_gradient_with_the_bits_of_tiles(name):
    images, channels, pixels, rows, taps, may = DIRECT[name]
    rng, params = np.random.default_rng(0), ConvParams(Sliding((taps,), 1, ((taps - 1, 0),)))
    made = case(params, (images, channels, pixels), (rows, channels, taps), np.float32, rng, rng.standard_normal)
    assert DIRECT_WEIGHT.holds(made.conv.told(WEIGHT), 4) == may
    if may:
        outs = [placed(np.full(made.arrays[WEIGHT].size, np.nan, np.float32)) for _ in range(2)]
        told = [forced(made, WEIGHT, way, out) for way, out in zip((DIRECT_WEIGHT, WEIGHT_PRODUCTS), outs, strict=True)]
        assert outs[0].tobytes() == outs[1].tobytes()
        assert bool(told[0]) == bool(told[1])


@pytest.mark.parametrize(("rows", "chosen"), [(49, "direct_weight"), (48, "weight_products")])
def test_sums_of_few_pixels_are_worth_it_for_as_many_rows(rows, chosen):
    made = case(ConvParams(Sliding((3, 3), 1, 1)), (1, 90, 7, 7), (rows, 90, 3, 3), np.float32, np.random.default_rng(0))
    assert made.conv.chosen(WEIGHT, 4)[0].name == chosen


@pytest.mark.parametrize(("channels", "may"), [(plan.STEPS // 5, True), (plan.STEPS // 5 + 1, False)])
def test_short_sums_are_one_block_of_those_of_tiles(channels, may):
    params = ConvParams(Sliding((5,), 1, 2))
    made = case(params, (2, channels, 33), (11, channels, 5), np.float32, np.random.default_rng(0))
    assert SHORT.holds(made.conv.told(FORWARD), 4) == may


HALF = VECTORS * ROWS // 2
"""Products of half the rows of a tile."""
FLAT = {
    # channels, rows, pixels, and what is chosen for windows of one cell
    "one row": (2, 1, 5000, "thin"),
    "three rows of few pixels": (1, 3, 256, "thin"),
    "more pixels": (1, 3, 272, "short"),
    "more rows": (1, 4, 256, "short"),
    "as many products as a tile takes around its own": (AROUND // HALF, ROWS // 2, 480, "short"),
    "more products": (AROUND // HALF + 1, ROWS // 2, 480, "products"),
}


@pytest.mark.parametrize("name", FLAT)
def test_very_few_rows_are_summed_without_tiles(name):
    channels, rows, pixels, chosen = FLAT[name]
    made = case(ConvParams(Sliding((1,))), (2, channels, pixels), (rows, channels, 1), np.float32, np.random.default_rng(0))
    assert made.conv.chosen(FORWARD, 4)[0].name == chosen


SLICED = {
    # kernel, images, tiles of rows, size, whether threads share slices of the rows
    "pixels that are copied, one strip": (3, 1, 60, (5, 9), True),
    "few rows for them": (3, 1, 6, (5, 9), False),
    "two images": (3, 2, 60, (5, 9), False),
    "two strips": (3, 1, 60, (30, 60), False),
    "pixels that are not copied": (1, 1, 6, (30, 60), True),
    "one tile for each slice": (1, 1, 2, (30, 60), False),
}


@pytest.mark.parametrize("name", SLICED)
def test_rows_are_shared_in_slices_where_few_pixels_are_copied_again(name):
    kernel, images, tiles, size, sliced = SLICED[name]
    window = Sliding((kernel, kernel), 1, kernel // 2)
    conv, _ = grouped(ConvParams(window), (images, 2, *size), (tiles * ROWS, 2, kernel, kernel))
    assert (strips(conv.told(FORWARD), 4).slices > 1) == sliced


@pytest.mark.parametrize("kind", ["pointwise", "dense"])
@every_float
def test_flat_matrices_have_the_bits_of_tiles(kind, dtype, monkeypatch):
    """Kernels for few channels and for few rows sum in the order of `products`, block by block, whatever the numbers are."""
    monkeypatch.setattr(plan, "STEPS", 24)
    seen = set()
    for shapes, made in cases(kind, dtype, CASES, lambda rng: rng.standard_normal):
        for role, way in holding(made):
            if way in (SHORT, THIN):
                seen.add(way.name)
                outs = [placed(np.full(made.arrays[role].size, np.nan, dtype)) for _ in range(2)]
                told = [forced(made, role, each, out) for each, out in zip((way, PRODUCTS), outs, strict=True)]
                assert outs[0].tobytes() == outs[1].tobytes(), (way.name, role, shapes)
                assert bool(told[0]) == bool(told[1]), (way.name, role, shapes)
    assert seen == ({"short", "thin"} if kind == "pointwise" else {"short"})


@pytest.mark.parametrize(("width", "may"), [(LARGEST_CHUNK // 4 - 2, True), (LARGEST_CHUNK // 4 - 1, False)])
def test_planes_side_by_side_have_rows_that_fit(width, may):
    made = case(ConvParams(Sliding((3,), 1, 1), 3), (2, 3, width), (3, 1, 3), np.float32, np.random.default_rng(0))
    for role, way in ((FORWARD, depthwise.LANES), (INPUT, depthwise.LANES), (WEIGHT, depthwise.LANES_WEIGHT)):
        assert way.holds(made.conv.told(role), 4) == may
        if may:
            expected = made.with_bias(role, made.exact(role))
            out = placed(np.full(expected.size, np.nan, np.float32))
            forced(made, role, way, out)
            assert (out == expected).all(), role


# --- shares ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("panels", "tiles", "threads", "expected"),
    [
        (11, 64, 2, -2),  # few panels
        (12, 64, 2, 2),
        (13, 64, 2, -2),  # one thread would have a panel more, which takes longer than copying all of them
        (17, 16, 2, -2),
        (17, 10, 2, -2),
        (17, 9, 2, 2),
        (48, 16, 2, 8),
        (11, 1, 2, 2),
        (17, 64, 1, 17),
    ],
)
def test_threads_share_panels_or_tiles(panels, tiles, threads, expected):
    made = case(ConvParams(Sliding((3,), 1, 1)), (1, 4, 9), (8, 4, 3), np.float32, np.random.default_rng(0))
    (layout,) = layouts(made.conv.told(FORWARD), 4)
    assert gemm_ways.shares(layout._replace(panels=panels, evenly=False), tiles, threads) == expected


def only(share, shares):
    """`threads.run`, `over` and `repeated`, but one share only. What has to be packed before is packed as a whole."""

    def run(task, count, work):
        bounds = [count * i // shares for i in range(shares + 1)]
        return task(bounds[share], bounds[share + 1]) if bounds[share] < bounds[share + 1] else 0

    def over(kernel, given, count, work):
        return kernel(*given, 0, count) or 0 if kernel is pack_tiles else run(partial(kernel, *given), count, work)

    def repeated(kernel, count, threads):
        return lambda *given: over(kernel, given, count, 0)

    return run, over, repeated


@every_kind
@every_float
def test_each_share_owns_the_cells_it_reads_and_writes(kind, dtype, monkeypatch):
    """Run without the others, it leaves their cells as they were, and NaN there changes neither its own nor what it tells."""
    for shapes, made in cases(kind, dtype, CASES, lambda rng: lambda size: rng.integers(1, 4, size)):
        for role, way in holding(made):
            if way.name in ("bands_weight", "columns"):  # shares write sums of their own, which are added when all are done
                continue
            expected = made.with_bias(role, made.exact(role))
            for shares in (2, 3, 7):
                monkeypatch.setattr(threads, "chosen", shares)
                written, parts = np.zeros(expected.size, int), []
                for share in range(shares):
                    for name, function in zip(("run", "over", "repeated"), only(share, shares), strict=True):
                        monkeypatch.setattr(conv_share, name, function)
                    out = placed(np.full(expected.size, np.nan, dtype))
                    strange = forced(made, role, way, out)
                    own = ~np.isnan(out) & (out != made.with_bias(role, np.zeros_like(expected)))
                    assert (out[own] == expected[own]).all(), (way.name, role, shapes, shares, share)
                    if way.name != "weight_products":  # which looks at its result when all shares are done
                        parts.append(strange)
                    written += own
                assert written.max(initial=0) <= 1, (way.name, role, shapes, shares)
                told = [part if (expected != 0).all() else part >> HUGE for part in parts]
                assert not any(told), (way.name, role, shapes, shares)


@every_kind
@every_float
def test_a_kernel_tells_zeros_from_what_is_not_finite(kind, dtype):
    for shapes, made in cases(kind, dtype, CASES):
        for role, way in holding(made):
            if role != WEIGHT:
                made.bias[role][:] = 0
            expected, hides = made.exact(role), made.conv.told(role).back  # pixels that meet no tap may be left out
            strange = forced(made, role, way, placed(np.full(expected.size, np.nan, dtype)))
            assert strange >> HUGE == 0, (way.name, shapes)
            assert bool(strange) == (expected == 0).any() or hides, (way.name, shapes)
            w, x = made.operands(role)[::-1]
            kept = x.copy()
            x[:] = np.inf
            strange = forced(made, role, way, placed(np.full(expected.size, np.nan, dtype)))
            met = made.exact(role) if (w != 0).all() else np.zeros(1)
            assert strange >> HUGE or np.isfinite(met).all(), (way.name, shapes)
            x[:] = kept


REPEATED = {"2 threads": (2, 12), "3 threads": (3, 17), "7 threads": (7, 2 * ROWS + 1)}


@pytest.mark.parametrize("name", REPEATED)
def test_the_weight_gradient_of_one_cell_is_the_same_in_every_call(name, monkeypatch):
    """Whatever stands in the memory of the result, and whichever thread comes first."""
    count, outs = REPEATED[name]
    rng = np.random.default_rng(1)
    x, g = (rng.standard_normal((4, channels, 23, 23)).astype(np.float32) for channels in (3 * PANEL + 3, outs))
    w, op, params = np.zeros((outs, x.shape[1], 1, 1), np.float32), OPS["conv"], ConvParams(Sliding((1, 1), 1))
    monkeypatch.setattr(cells, "empty", lambda shape, dtype: np.full(shape, np.nan, dtype))
    (once,) = op.vjp(params, x, w, g, needs=(False, True))[1:]
    monkeypatch.setattr(threads, "chosen", count)
    for _ in range(100):
        (again,) = op.vjp(params, x, w, g, needs=(False, True))[1:]
        assert again.tobytes() == once.tobytes()


# --- calls that went wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_stride_on_an_axis_of_one_cell_meets_fewer_taps_than_the_weight_has(dtype):
    x, w = np.arange(1, 5, dtype=dtype).reshape(1, 4, 1, 1), np.arange(1, 101, dtype=dtype).reshape(4, 1, 5, 5)
    assert wg.conv_transpose2d(x, w, None, 2, 2, 0, 4).ravel().tolist() == [13, 76, 189, 352]
    x, w = np.arange(1, 7, dtype=dtype).reshape(1, 2, 3, 1), np.arange(1, 19, dtype=dtype).reshape(2, 1, 3, 3)
    middle = w[:, 0, :, 1]
    expected = [np.convolve(row, taps)[1:-1].tolist() for row, taps in zip(x[0, :, :, 0], middle, strict=True)]
    assert wg.conv_transpose2d(x, w, None, (1, 2), 1, 0, 2)[0, :, :, 0].tolist() == expected
    (gx,) = OPS["conv"].vjp(ConvParams(Sliding((3, 3), (1, 2), 1), 2), x, w, x, needs=(True, False))[:1]
    assert gx[0, :, :, 0].tolist() == expected


def test_the_same_through_pytorch():
    import torch

    x, w = torch.arange(1.0, 5).reshape(1, 4, 1, 1), torch.arange(1.0, 101).reshape(4, 1, 5, 5)
    assert wg.conv_transpose2d(x, w, None, 2, 2, 0, 4).ravel().tolist() == [13, 76, 189, 352]
    own, theirs = (torch.ones(1, 4, 1, 1, requires_grad=True) for _ in range(2))
    wg.conv2d(own, w, None, 2, 2, 1, 4).backward(x)
    torch.nn.functional.conv2d(theirs, w, None, 2, 2, 1, 4).backward(x)
    assert own.grad.tolist() == theirs.grad.tolist()


@pytest.mark.parametrize("extra", [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("channels", [1, ROWS, PANEL])
def test_cells_that_only_output_padding_adds_are_zero(extra, channels, monkeypatch):
    """A window of one cell with a dilation: nothing is left as it was in memory, and no gradient comes from there."""
    monkeypatch.setattr(cells, "empty", lambda shape, dtype: np.full(shape, np.nan, dtype))
    x, w = np.ones((1, channels, 8, 8), np.float32), np.ones((channels, channels, 1, 1), np.float32)
    params = TransposeParams(Sliding((1, 1), 1, 0, 2), 1, extra)
    y = wg.conv_transpose2d(x, w, None, 1, 0, extra, 1, 2)
    assert (y[..., :8, :8] == channels).all()
    assert not y[..., 8:, :].any()
    assert not y[..., 8:].any()
    g = np.full(y.shape, 100.0, np.float32)
    g[..., :8, :8] = 1
    gx, gw = OPS["conv_transpose"].vjp(params, x, w, g)
    assert (gx == channels).all()
    assert (gw == 64).all()


def test_the_kernels_that_are_chosen():
    """The fastest of those that may be used; this table is what the benchmarks measured."""
    table = {
        "1×1": (ConvParams(Sliding((1, 1), 1)), (2, 48, 12, 12), (16, 48, 1, 1)),
        "1×1, small": (ConvParams(Sliding((1, 1), 1)), (2, 48, 4, LANES), (16, 48, 1, 1)),
        "1×1, many rows": (ConvParams(Sliding((1, 1), 1)), (2, 48, 12, 12), (33, 48, 1, 1)),
        "1×1, one row": (ConvParams(Sliding((1, 1), 1)), (2, 2 * ROWS, 12, 12), (1, 2 * ROWS, 1, 1)),
        "3×3": (ConvParams(Sliding((3, 3), 1, 1)), (2, 2 * PANEL, 12, 12), (2 * PANEL, 2 * PANEL, 3, 3)),
        "3×3, few rows": (ConvParams(Sliding((3, 3), 1, 1)), (2, 8, 12, 12), (2, 8, 3, 3)),
        "3×3, few channels": (ConvParams(Sliding((3, 3), 1, 1)), (8, 1, 12, 12), (2 * PANEL, 1, 3, 3)),
        "3×3, few channels and rows": (ConvParams(Sliding((3, 3), 1, 1)), (8, 1, 12, 12), (ROWS + 8, 1, 3, 3)),
        "1×1, few channels": (ConvParams(Sliding((1, 1), 1)), (8, 1, 12, 12), (PANEL, 1, 1, 1)),
        "depthwise 3×3": (ConvParams(Sliding((3, 3), 1, 1), 8), (2, 8, 12, 12), (8, 1, 3, 3)),
        "depthwise 3×3 s2": (ConvParams(Sliding((3, 3), 2, 1), 8), (2, 8, 12, 12), (8, 1, 3, 3)),
        "depthwise 3×3 s2, many": (ConvParams(Sliding((3, 3), 2, 1), 32), (2, 32, 12, 12), (32, 1, 3, 3)),
        "depthwise 3×3 s2, many and small": (ConvParams(Sliding((3, 3), 2, 1), 32), (2, 32, 2, 2), (32, 1, 3, 3)),
        "depthwise 3×3 s2, few and small": (ConvParams(Sliding((3, 3), 2, 1), 3), (2, 3, 7, 7), (3, 1, 3, 3)),
        "depthwise 5×5, few": (ConvParams(Sliding((5, 5), 1, 2), 3), (3, 3, 12, 12), (3, 1, 5, 5)),
        "depthwise 3×3, large": (ConvParams(Sliding((3, 3), 1, 1), 8), (2, 8, 300, 300), (8, 1, 3, 3)),
        "depthwise 3×3 s3, large": (ConvParams(Sliding((3, 3), 3, 1), 8), (2, 8, 300, 300), (8, 1, 3, 3)),
        "depthwise 3×5": (ConvParams(Sliding((3, 5), 1, (1, 2)), 8), (2, 8, 12, 12), (8, 1, 3, 5)),
        "depthwise 5×5 of gaps, few": (ConvParams(Sliding((5, 5), 1, 4, 2), 3), (3, 3, 12, 12), (3, 1, 5, 5)),
        "a small filter": (ConvParams(Sliding((3, 3), 1, 1)), (1, 1, 100, 100), (1, 1, 3, 3)),
        "a filter": (ConvParams(Sliding((5, 5), 1, 2)), (1, 1, 200, 200), (1, 1, 5, 5)),
        "a filter of 4×4": (ConvParams(Sliding((4, 4), 1, 2)), (1, 1, 200, 200), (1, 1, 4, 4)),
        "a filter of many images": (ConvParams(Sliding((5, 5), 1, 2)), (9, 1, 200, 200), (1, 1, 5, 5)),
        "a signal": (ConvParams(Sliding((9,), 1, 4)), (1, 1, 100000), (1, 1, 9)),
        "a volume": (ConvParams(Sliding((3, 3, 3), 1, 1)), (1, 1, 40, 300, 300), (1, 1, 3, 3, 3)),
    }
    chosen = {
        "1×1": ["products", "short", "pointwise_weight"],
        "1×1, small": ["products", "short", "weight_products"],
        "1×1, many rows": ["products", "products", "pointwise_weight"],
        "1×1, one row": ["thin", "short", "few_weight"],
        "3×3": ["products", "products", "weight_products"],
        "3×3, few rows": ["products", "products", "few_weight"],
        "3×3, few channels": ["short", "products", "few_weight"],
        "3×3, few channels and rows": ["products", "products", "few_weight"],
        "1×1, few channels": ["short", "thin", "few_weight"],
        "depthwise 3×3": ["rolling", "rolling", "three_weight"],
        "depthwise 3×3 s2": ["rolling", "lanes", "shifted_weight"],
        "depthwise 3×3 s2, many": ["rolling", "lanes", "lanes_weight"],
        "depthwise 3×3 s2, many and small": ["lanes", "lanes", "lanes_weight"],
        "depthwise 3×3 s2, few and small": ["rolling", "shifted", "shifted_weight"],
        "depthwise 5×5, few": ["rolling", "rolling", "shifted_weight"],
        "depthwise 3×3, large": ["rolling", "rolling", "bands_weight"],
        "depthwise 3×3 s3, large": ["bands", "shifted", "bands_weight"],
        "depthwise 3×5": ["three_rows", "three_rows", "shifted_weight"],
        "depthwise 5×5 of gaps, few": ["shifted", "shifted", "shifted_weight"],
        "a small filter": ["rolling", "rolling", "three_weight"],
        "a filter": ["rolling", "rolling", "bands_weight"],
        "a filter of 4×4": ["bands", "bands", "bands_weight"],
        "a filter of many images": ["rolling", "rolling", "shifted_weight"],
        "a signal": ["bands", "bands", "bands_weight"],
        "a volume": ["bands", "bands", "bands_weight"],
    }
    rng = np.random.default_rng(0)
    for name, shapes in table.items():
        conv = case(*shapes, np.float32, rng).conv
        assert [conv.chosen(role, 4)[0].name for role in (FORWARD, INPUT, WEIGHT)] == chosen[name], name


@pytest.mark.parametrize(
    ("rows", "channels", "kernel", "groups", "by_rows"),
    [
        (64, 14, 9, 1, True),  # 126 pairs of a channel and a tap are fewer than twice the rows
        (63, 14, 9, 1, False),
        (64, 1, 15, 1, True),  # one channel cannot be shared
        (64, 64, 9, 2, True),  # each group by itself
        (3 * LANES, 4, 1, 1, False),  # three vectors for two threads
        (4 * LANES, 4, 1, 1, True),
    ],
)
def test_weight_gradients_are_shared_where_less_is_packed_again(rows, channels, kernel, groups, by_rows):
    params = ConvParams(Sliding((kernel,)), groups)
    conv, _ = grouped(params, (1, groups * channels, 40), (groups * rows, channels, kernel))
    assert shares_rows(conv.told(WEIGHT), -(-rows // LANES)) == by_rows
