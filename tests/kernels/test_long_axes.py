"""A large call is done block by block. Blocks follow from the shapes, and the results are those of the whole, bit for bit."""

import itertools
import random

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.dispatch import run
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.sections import sides_of
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams, SmoothParams

CASES = 40
PADS = (True, False)


def some_sliding(draw: random.Random, rank: int) -> Sliding:
    kernel = tuple(draw.choice((1, 2, 3, 5, 9)) for _ in range(rank))
    stride = tuple(draw.choice((1, 1, 2, 3, 7)) for _ in range(rank))
    padding = tuple((draw.choice((0, 0, 1, 4, 30)), draw.choice((0, 0, 2, 25))) for _ in range(rank))
    dilation = tuple(draw.choice((1, 1, 2, 3)) for _ in range(rank))
    return Sliding(kernel, stride, padding, dilation, tuple(draw.random() < 0.5 for _ in range(rank)))


def some_geometry(draw: random.Random, rank: int) -> Geometry:
    kind = draw.random()
    if kind < 0.7:
        return some_sliding(draw, rank)
    if kind < 0.95:
        return Adaptive(tuple(draw.choice((1, 2, 7, 16, 40, None)) for _ in range(rank)))
    return Global(rank, keepdims=draw.random() < 0.5)


def some_case(seed: int) -> tuple[Geometry, tuple[int, ...]]:
    """A geometry and the shape of an input it has outputs for."""
    draw = random.Random(seed)
    while True:
        rank = draw.choice((1, 1, 2, 2, 3))
        spatial = tuple(draw.choice((1, 2, 5, 16, 23) if rank > 1 else (5, 64, 101, 300)) for _ in range(rank))
        geometry = some_geometry(draw, rank)
        try:
            if 0 < np.prod(geometry.grid(spatial)) < 20000:
                return geometry, (*draw.choice(((), (1,), (2,), (2, 3))), *spatial)
        except wg.WindowError:
            continue


def arrays(shape: tuple[int, ...], seed: int, dtype: str, layout: str) -> np.ndarray:
    """Small whole numbers, so that every order of summation gives the same sum."""
    x = np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)
    if layout == "reversed":
        return np.flip(np.flip(x, -1).copy(), -1)
    return np.asfortranarray(x) if layout == "fortran" else x


def results(geometry: Geometry, shape: tuple[int, ...], seed: int, dtype: str, layout: str) -> dict[str, np.ndarray]:
    x, dx = arrays(shape, seed, dtype, layout), arrays(shape, seed + 1, dtype, layout)
    g = arrays(geometry.out_shape(shape), seed + 2, dtype, layout)
    found = {}
    operators = {f"max_pool {ties}": ("max_pool", MaxParams(geometry, ties=ties)) for ties in ("first", "all", "split")}
    operators |= {f"avg_pool {pad}": ("avg_pool", MeanParams(geometry, count_include_pad=pad)) for pad in PADS}
    operators |= {
        f"smooth {pad}": ("smooth_max_pool", SmoothParams(geometry, 0.5, count_include_pad=pad)) for pad in (True, False)
    }
    for title, (name, params) in operators.items():
        found[f"{title} forward"] = run(OPS[name], "forward", params, x)
        found[f"{title} jvp"] = run(OPS[name], "jvp", params, x, dx)
        (found[f"{title} vjp"],) = run(OPS[name], "vjp", params, x, g)
    found["values"], found["indices"] = run(OPS["max_pool"], "with_indices", MaxParams(geometry), x)
    return found


@pytest.fixture
def small_blocks(monkeypatch):
    """Every call is cut into blocks of a few outputs."""

    def use(tables: int, outputs: int, copied: int, cells: int) -> None:
        for name, value in {"SMALL": 1, "TABLES": tables, "OUTPUTS": outputs, "COPIED": copied, "CELLS": cells}.items():
            monkeypatch.setattr(blocks, name, value)
        blocks.cut_up.cache_clear()

    yield use
    blocks.cut_up.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CASES))
def test_blocks_give_the_bits_of_the_whole(seed, small_blocks):
    geometry, shape = some_case(seed)
    dtype, layout = random.Random(seed).choice(
        list(itertools.product(("float32", "float64", "float16", "int32"), ("contiguous", "fortran", "reversed")))
    )
    whole = results(geometry, shape, seed, dtype, layout)
    small_blocks(tables=6, outputs=4, copied=8, cells=12)
    cut = blocks.cut_up(geometry, shape, 1, True, False, False)
    assert cut is not None or np.prod(geometry.grid(shape[-geometry.rank :])) <= 4 or np.prod(shape) <= 12
    for name, part in results(geometry, shape, seed, dtype, layout).items():
        assert part.dtype == whole[name].dtype, (name, geometry, shape)
        np.testing.assert_array_equal(part, whole[name], err_msg=f"{name} {geometry} {shape} {dtype} {layout}")


@pytest.mark.parametrize("seed", range(CASES))
def test_the_fullest_window_is_found_without_a_table(seed):
    geometry, shape = some_case(seed)
    _, spatial = geometry.split(shape)
    sides = sides_of(geometry, spatial)
    assert [side.most for side in sides] == [int(table.count.max()) for table in geometry.tables(spatial)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CASES))
def test_where_a_call_is_cut_changes_no_bit_by_layout_or_batch(seed, small_blocks):
    """Of any floats: the order of sums, and what a smooth maximum is weighed against, follow from the shape of a plane."""
    geometry, shape = some_case(seed) if seed % 4 else (Sliding((13, 3), 1, ((40, 9), (3, 7))), (2, 3, 30, 25))
    small_blocks(tables=40, outputs=16, copied=100, cells=60)
    rng, lead = np.random.default_rng(seed), len(shape) - geometry.rank
    x, dx = (rng.standard_normal(shape).astype(np.float32) for _ in "ab")
    x.flat[rng.integers(x.size)] = 3e38
    g = rng.standard_normal(geometry.out_shape(shape)).astype(np.float32)
    for name, params in (("avg_pool", MeanParams(geometry)), ("smooth_max_pool", SmoothParams(geometry, 0.5))):
        op, first = OPS[name], (0,) * lead
        expected = op.forward(params, x), op.jvp(params, x, dx), *op.vjp(params, x, g)
        moved = [np.asfortranarray(a) for a in (x, dx, g)]
        for found in ((op.forward(params, moved[0]), op.jvp(params, *moved[:2]), *op.vjp(params, moved[0], moved[2])),):
            for a, b in zip(found, expected, strict=True):
                assert a.tobytes() == b.tobytes(), (name, geometry, shape)
        alone = op.forward(params, x[first]), op.jvp(params, x[first], dx[first]), *op.vjp(params, x[first], g[first])
        for a, b in zip(alone, expected, strict=True):
            assert a.tobytes() == b[first].tobytes(), (name, geometry, shape)


@pytest.mark.parametrize("padding", [((40, 40), (40, 40)), ((0, 0), (3, 7)), ((9, 0), (0, 60))])
def test_blocks_of_windows_of_many_rows_give_what_the_whole_gives(padding, small_blocks):
    """Blocks of nothing but padding too."""
    geometry, shape = Sliding((13, 3), 1, padding), (2, 30, 25)
    x = arrays(shape, 0, "float32", "contiguous")
    whole = wg.max_pool2d(x, (13, 3), 1, padding), wg.avg_pool2d(x, (13, 3), 1, padding)
    small_blocks(tables=6, outputs=4, copied=8, cells=12)
    assert blocks.cut_up(geometry, shape, 1, False, True, True) is not None
    np.testing.assert_array_equal(wg.max_pool2d(x, (13, 3), 1, padding), whole[0])
    np.testing.assert_array_equal(wg.avg_pool2d(x, (13, 3), 1, padding), whole[1])


@pytest.mark.parametrize("ties", ["first", "all", "split"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(17, 1, 8), (33, 2, 0), (40, 3, 11), (90, 1, 45)])
def test_long_windows_slid_over_a_row_are_the_specification(kernel, stride, padding, ties):
    """Few values, so that there are many ties; the specification runs on the same numbers as objects."""
    params = MaxParams(Sliding((kernel,), stride, padding), ties=ties)
    rng, shape = np.random.default_rng(kernel), (2, 131)
    x, dx = (rng.integers(-3, 3, shape).astype(np.float32) for _ in range(2))
    g = rng.integers(-3, 3, params.geometry.out_shape(shape)).astype(np.float32) * 64
    exact = [array.astype(object) for array in (x, dx, g)]
    op = OPS["max_pool"]
    for rule, given in {"forward": [0], "with_indices": [0], "jvp": [0, 1], "vjp": [0, 2]}.items():
        found = run(op, rule, params, *([x, dx, g][i] for i in given))
        meant = run(op, rule, params, *(exact[i] for i in given))
        for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, meant)), strict=True):
            rounded = 1e-3 if ties == "split" else 0  # parts of a gradient are rounded to float32, and added
            np.testing.assert_allclose(one, other.astype(one.dtype), rtol=0, atol=rounded)


@pytest.mark.parametrize(("tables", "outputs"), [(40, 16), (40, 40), (200, 16)])
def test_a_copied_array_is_cut_within_its_planes_as_one_that_is_not(tables, outputs, monkeypatch):
    """Where rounding errors depend on the cut, the layout of an array only cuts between planes."""
    limits = {"SMALL": 1, "TABLES": tables, "OUTPUTS": outputs, "ROW": 64, "COPIED": 100, "CELLS": 60}
    for name, value in limits.items():
        monkeypatch.setattr(blocks, name, value)

    def within(geometry, shape, copies, by_axes):
        """The outputs of a block along the axes of its plane; None if planes are whole."""
        found = blocks.cut_up.__wrapped__(geometry, shape, 1, copies, by_axes, False, True)
        return None if found is None or found.has_whole_planes else found.steps[len(found.lead) :]

    cases = [(Adaptive((2, 34)), (2, 5, 2, 32)), *map(some_case, range(300))]
    for (geometry, shape), by_axes in itertools.product(cases, (True, False)):
        assert within(geometry, shape, True, by_axes) == within(geometry, shape, False, by_axes)
