"""Norms whose powers are products: all kernels, layouts and batches give the same bits, and strange planes are done again."""

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.lp import kernels, products
from windowgrad.kernels.pool.lp.folds import Told
from windowgrad.ops import OPS, meaning
from windowgrad.params import LpParams

LP, MEANING = OPS["lp_pool"], meaning("lp_pool")


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def cropped(x):
    large = np.full((*x.shape[:-2], x.shape[-2] + 3, x.shape[-1] + 2), 77, x.dtype)
    part = large[..., 1:-2, 1:-1]
    part[...] = x
    return part


LAYOUTS = {"channels last": channels_last, "cropped": cropped, "axes reversed": np.asfortranarray}
GEOMETRIES = [
    Sliding((2, 2), 2),
    Sliding((3, 3), 2, 1),
    Sliding((5, 5), 1, 2),
    Sliding((4, 4), 4),
    Sliding((1, 9)),
    Sliding((2, 3), (3, 1), 1, 2, True),
    Adaptive((3, 2)),
    Global(2),
]


def strange_cells(rng, dtype):
    """13 planes, of which some are not finite, and in float64 some lie far from 1 or far apart."""
    x = np.maximum(rng.standard_normal((1, 13, 9, 11)), -0.3)
    x[0, 1, 2, 3], x[0, 2, 4, 5], x[0, 3, :5, :5], x[0, 4] = np.nan, np.inf, 0, 0
    if dtype == np.float64:
        x[0, 5] *= 1e-200
        x[0, 6] *= 1e200
        x[0, 7] *= 10.0 ** rng.integers(-300, 300, (9, 11))
        x[0, 8, :6, :6] *= 1e-170
        x[0, 9, 3:, 3:] = 0
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_layout_and_batch_change_no_bit_and_the_result_is_near_the_specification(p, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    for geometry in GEOMETRIES:
        params, x = LpParams(geometry, p), strange_cells(np.random.default_rng(p), dtype)
        right = LP.forward(params, x)
        exact = MEANING.forward(params, x.astype(object)).astype(np.float64)
        np.testing.assert_allclose(right, exact.astype(dtype), rtol=4 * np.finfo(dtype).eps, atol=0)
        for layout in LAYOUTS.values():
            for _ in range(2):
                assert np.array_equal(LP.forward(params, layout(x)), right, equal_nan=True)
            ready = dispatch.prepared_last(LP, "forward", params, layout(x))
            if ready is not None:
                assert np.array_equal(ready(layout(x)), right, equal_nan=True)
        for plane in range(13):
            alone = LP.forward(params, x[:, plane : plane + 1])
            assert np.array_equal(alone, right[:, plane : plane + 1], equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_small_planes_in_lanes_have_the_bits_of_rows(p, dtype):
    x = np.random.default_rng(9).standard_normal((11, 9, 11)).astype(dtype)
    for geometry in GEOMETRIES:
        plan, planes = planned_for(geometry, x.shape)
        kernel, given, count = kernels.over_planes(p, plan, planes, x.itemsize)
        assert (kernel is kernels.KERNELS[p].lanes) == (kernels.is_direct(plan))
        found, right = (np.empty(planes * plan.plane_out, dtype) for _ in range(2))
        for scale in (1.0, 0.25):
            told, strange = Told(scale, 1 / scale, products.LEAST), np.zeros(planes, np.bool_)
            assert not kernel(x.ravel(), found, strange, told, *given, 0, count)
            assert not kernels.by_rows(p, plan)(x.ravel(), right, strange, told, plan.packed, 0, planes * plan.pieces)
            assert np.array_equal(found, right)
            assert not strange.any()


def test_windows_are_taken_one_by_one_where_they_share_little_and_in_the_order_of_rows():
    for geometry, direct in [
        (Sliding((3, 3), 1), True),
        (Sliding((5, 5), 1), True),
        (Sliding((5, 6), 1), False),
        (Sliding((8, 7), (8, 7)), True),
        (Sliding((8, 8), 8), False),  # columns are added as a tree
        (Sliding((2, 4), (2, 4)), False),
        (Sliding((2, 9), (2, 9)), False),
        (Global(2), True),
    ]:
        assert kernels.is_direct(planned_for(geometry, (40, 40))[0]) == direct, geometry


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16])
@pytest.mark.parametrize("p", [2, 2.5, 3])
def test_calls_are_prepared_where_powers_are_products_of_floats(p, dtype):
    x = np.ones((2, 8, 9, 11), dtype)
    params, own = LpParams(Sliding((2, 2), 2), p), dtype != np.int16 and p != 2.5
    assert (dispatch.route(LP, "forward", params, (x.shape, x.dtype))[1] is not None) == own
    assert (dispatch.prepared_last(LP, "forward", params, channels_last(x)) is not None) == own
    assert (dispatch.prepared_last(LP, "forward", params, cropped(x)) is not None) == (own and dtype != np.float16)
    assert dispatch.prepared_last(LP, "forward", params, x[:, ::2]) is None or own
    assert dispatch.prepared_last(LP, "forward", params, x[..., ::2]) is None
    assert dispatch.prepared_last(LP, "forward", params, np.broadcast_to(x[:, :1], x.shape)) is None


def test_planes_that_do_not_stand_alike_in_memory_are_copied():
    x = np.arange(2 * 3 * 4 * 12.0).reshape(2, 3, 4, 12)
    plan, _ = planned_for(Sliding((2, 2)), (2, 2, 4, 11))
    assert products.packed_apart(plan, 2, x[:, :2, :, 1:]) is None  # from the second plane to the third it is further
    assert products.packed_apart(plan, 2, x[:, ::2, :, 1:]) is None
    assert products.packed_apart(plan, 2, x[:, :, :, 1:]) is not None
    for part in (x[:, :2, :, 1:], x[:, ::2, :, 1:], x[:1, ::2, :, 1:], x[:, :, ::-1, 1:], x[:, :, :, 1:]):
        y = wg.lp_pool2d(part.copy(), 3, 2)
        assert all(np.array_equal(wg.lp_pool2d(part, 3, 2), y) for _ in range(3))


def test_rows_of_volumes_stand_apart_in_two_ways():
    x = np.random.default_rng(3).standard_normal((3, 6, 7, 9))
    part = x[:, 1:5, 2:6, 1:8]
    assert all(np.array_equal(wg.lp_pool3d(part, 2, 2), wg.lp_pool3d(part.copy(), 2, 2)) for _ in range(3))
