"""Products of large matrices by the kernels of convolution: NumPy's, with bits that depend on nothing but the sum."""

import numpy as np
import pytest

import windowgrad as wg
from support.interpreter import fresh
from support.paths import TESTS
from windowgrad import nn
from windowgrad.autograd.arrays import arithmetic
from windowgrad.autograd.arrays.arithmetic import LEAST_PRODUCTS, is_large_product
from windowgrad.kernels.conv import matrices, plan
from windowgrad.kernels.conv.matrices import in_rows, multiplied, product
from windowgrad.kernels.conv.one_row import row_times

RNG = np.random.default_rng

SHAPES = [
    ((1, 1), (1, 1)),
    ((3, 5), (5, 7)),
    ((1, 40), (40, 130)),
    ((70, 9), (9, 1)),
    ((17, 800), (800, 33)),
    ((2, 300), (300, 200)),
    ((64, 100), (100, 50)),
    ((100, 1), (1, 100)),
    ((4, 3, 20), (20, 30)),
    ((20,), (20, 30)),
    ((30, 20), (20,)),
    ((1, 1300), (1300, 37)),
    ((70, 1281), (1281,)),
    ((19, 16), (16, 1)),
]

LAYOUTS = {
    "in rows": np.ascontiguousarray,
    "turned around": np.asfortranarray,
    "every second": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "read-only": lambda a: np.broadcast_to(a, a.shape),
}


def integers(shape, seed, dtype):
    return RNG(seed).integers(-8, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_products_are_numpys_in_every_layout(a, b, dtype):
    one, other = integers(a, 1, dtype), integers(b, 2, dtype)
    wanted = np.matmul(one, other)
    for first in LAYOUTS.values():
        for second in LAYOUTS.values():
            found = multiplied(first(one), second(other))
            assert found.dtype == dtype
            assert found.shape == wanted.shape
            assert np.array_equal(found, wanted)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_bits_depend_neither_on_layout_nor_on_threads_nor_on_other_rows_and_columns(a, b):
    one, other = (RNG(s).standard_normal(shape, dtype=np.float32) for s, shape in ((1, a), (2, b)))
    before, found = wg.get_num_threads(), set()
    try:
        for count in (1, 2, 3):
            wg.set_num_threads(count)
            for first in LAYOUTS.values():
                found |= {multiplied(first(one), second(other)).tobytes() for second in LAYOUTS.values()}
    finally:
        wg.set_num_threads(before)
    assert len(found) == 1
    if len(a) == len(b) == 2:
        whole = multiplied(one, other)
        assert multiplied(one[:1], other).tobytes() == whole[:1].tobytes()
        assert multiplied(one, other[:, -1:]).tobytes() == whole[:, -1:].tobytes()


def test_what_is_not_finite_stays_in_its_rows_and_columns():
    one, other = (RNG(s).standard_normal(shape, dtype=np.float32) for s, shape in ((1, (50, 700)), (2, (700, 60))))
    plain = multiplied(one, other)
    one[3, 5], one[4, 6], other[7, 8] = np.nan, np.inf, -np.inf
    found = multiplied(one, other)
    touched = np.zeros(found.shape, bool)
    touched[3], touched[4], touched[:, 8] = True, True, True
    assert np.isnan(found[3]).all()
    assert not np.isfinite(found[touched]).any()
    assert found[~touched].tobytes() == plain[~touched].tobytes()
    assert np.isinf(found[0, 8])


@pytest.mark.parametrize("width", [1, 15, 16, 17, 63, 64, 65, 200])
@pytest.mark.parametrize("k", [1, 15, 16, 33, plan.STEPS, plan.STEPS + 1])
def test_a_row_alone_has_the_bits_that_it_has_among_others(k, width):
    matrix = RNG(1).standard_normal((k, width), dtype=np.float32)
    rows = RNG(2).standard_normal((3, k), dtype=np.float32)
    whole = product(rows, matrix)
    for shift in (0, 1):  # a matrix that begins on a line of the cache, or may not
        turned = np.empty(matrix.size + shift, np.float32)[shift:].reshape(width, k)
        turned[...] = matrix.T
        for layout in (matrix, turned.T):
            assert np.stack([row_times(row, layout) for row in rows]).tobytes() == whole.tobytes()


def test_sums_of_negative_zeros_are_zero_in_every_kernel():
    row, matrix = np.full((1, 20), -0.0, np.float32), np.ones((20, 30), np.float32)
    for found in (product(row, matrix), multiplied(row, matrix), multiplied(row, np.asfortranarray(matrix))):
        assert found.tobytes() == bytes(4 * 30)


@pytest.mark.parametrize(
    ("a", "b", "alone"), [((1, 5), (5, 3), True), ((2, 5), (5, 3), False), ((4, 5), (5, 1), True), ((4, 5), (5, 2), False)]
)
def test_a_single_row_or_column_has_kernels_of_its_own(a, b, alone, monkeypatch):
    taken = []
    monkeypatch.setattr(matrices, "row_times", lambda v, matrix: taken.append(matrix.shape) or row_times(v, matrix))
    multiplied(integers(a, 1, np.float32), integers(b, 2, np.float32))
    assert bool(taken) == alone


@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (8, 8), (16, 17), (33, 5), (40, 48)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_turned_matrices_are_copied_to_rows(shape, dtype):
    for a in (RNG(0).standard_normal(shape).astype(dtype), RNG(0).standard_normal(shape[::-1]).astype(dtype).T):
        found = in_rows(a)
        assert found.flags.c_contiguous
        assert np.array_equal(found, a)


GUARDED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.guarded import exact_memory, guarded
from windowgrad.kernels.conv.matrices import multiplied

for dtype in (np.float32, np.float64):
    for a, b in {SHAPES!r}:
        one, other = (np.random.default_rng(s).integers(-8, 9, shape).astype(dtype) for s, shape in ((1, a), (2, b)))
        wanted = np.matmul(one, other)
        for at in ("start", "end"):
            for layout in ("C", "Fortran"):
                with exact_memory(at=at, poison=0xFF):
                    found = multiplied(guarded(one, at=at, layout=layout), guarded(other, at=at, layout=layout))
                assert np.array_equal(found, wanted)
print("well")
"""


def test_nothing_beside_the_factors_is_read():
    assert fresh(GUARDED).split() == ["well"]


@pytest.mark.parametrize(
    ("a", "b", "large"),
    [
        ((512, 512), (512,), True),
        ((511, 512), (512,), False),
        ((1, 512), (512, 512), True),
        ((512,), (512, 512), True),
        ((4, 128, 8), (8, 64), True),
        ((64, 64), (64, 64), True),
        ((64, 64), (64, 63), False),
        ((LEAST_PRODUCTS,), (LEAST_PRODUCTS,), False),
        ((8, 64, 64), (8, 64, 64), False),
        ((512, 512), (511, 512), False),
        ((0, 1 << 20), (1 << 20, 0), False),
        ((), (), False),
    ],
)
def test_large_products_are_those_of_many_numbers_with_one_matrix(a, b, large):
    assert is_large_product(a, b) == large


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_matmul_leaves_large_products_of_floats_to_kernels(dtype, monkeypatch):
    taken = []

    class Watched:
        @staticmethod
        def multiplied(a, b):
            taken.append(a.dtype)
            return multiplied(a, b)

    monkeypatch.setattr(arithmetic, "matrices", lambda: Watched)
    for columns, large in ((63, False), (64, True)):
        one, other = integers((64, 64), 1, dtype), integers((64, columns), 2, dtype)
        assert np.array_equal(wg.matmul(one, other), np.matmul(one.astype(np.float64), other.astype(np.float64)))
        assert len(taken) == (large and dtype != np.int32)


@pytest.mark.parametrize("bias", [False, True])
def test_a_compiled_linear_has_the_bits_of_each_row_alone(bias):
    for features in (511, 512):  # by NumPy, by kernels
        model = nn.Sequential(nn.Linear(features, bias))
        params, x = model.init(RNG(0), (1, 512)), RNG(1).standard_normal((7, 512), dtype=np.float32)
        compiled = nn.compile(model, params)
        wanted = np.concatenate([model(params, x[i : i + 1]) for i in range(len(x))])
        assert compiled(x).tobytes() == wanted.tobytes()
        assert compiled(x.reshape(1, 7, 512)).tobytes() == wanted.tobytes()
        assert compiled(x[0]).tobytes() == wanted[0].tobytes()
        assert compiled(x[:0]).shape == (0, features)
