"""`out=`: the result is written to the caller's array, whatever its layout, and that array is returned."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import output

X = np.random.default_rng(7).integers(-9, 9, (2, 4, 6, 8))
W = np.arange(-8, 8).reshape(2, 2, 2, 2)
B = np.array([3, -5])


def like(x, array):
    return (abs(array) if x.dtype.kind == "u" else array).astype(x.dtype)


CALLS = {
    "max_pool": lambda x, **k: wg.max_pool(x, (3, 2), 2, 1, **k),
    "max_pool2d": lambda x, **k: wg.max_pool2d(x, 2, ceil_mode=True, **k),
    "avg_pool1d": lambda x, **k: wg.avg_pool1d(x, 3, 1, 1, **k),
    "smooth_max_pool2d": lambda x, **k: wg.smooth_max_pool2d(x, 2, beta=0.5, **k),
    "smooth_max_pool3d": lambda x, **k: wg.smooth_max_pool3d(x, 2, 3, beta=0.5, **k),
    "adaptive_max_pool2d": lambda x, **k: wg.adaptive_max_pool2d(x, (4, 3), **k),
    "adaptive_avg_pool3d": lambda x, **k: wg.adaptive_avg_pool3d(x, (2, None, 3), **k),
    "lp_pool2d": lambda x, **k: wg.lp_pool2d(x, 3, 2, **k),
    "global_lp_pool2d": lambda x, **k: wg.global_lp_pool2d(x, 2, **k),
    "adaptive_smooth_max_pool1d": lambda x, **k: wg.adaptive_smooth_max_pool1d(x, 3, beta=1.0, **k),
    "global_max_pool": lambda x, **k: wg.global_max_pool(x, 2, **k),
    "global_avg_pool2d": lambda x, **k: wg.global_avg_pool2d(x, keepdims=False, **k),
    "global_smooth_max_pool3d": lambda x, **k: wg.global_smooth_max_pool3d(x, beta=1.0, **k),
    "conv2d": lambda x, **k: wg.conv2d(x, like(x, W), like(x, B), 2, 1, groups=2, **k),
    "conv_transpose2d": lambda x, **k: wg.conv_transpose2d(x[:, :2], like(x, W), stride=2, **k),
}


LAYOUTS = {
    "in a row": lambda shape, dtype: np.ones(shape, dtype),
    "Fortran order": lambda shape, dtype: np.ones(shape, dtype, order="F"),
    "every second cell": lambda shape, dtype: np.ones((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2],
    "backwards": lambda shape, dtype: np.ones(shape, dtype)[..., ::-1],
    "a part of rows": lambda shape, dtype: np.ones((*shape[:-1], shape[-1] + 3), dtype)[..., 1:-2],
    "misaligned": lambda shape, dtype: np.ones(1 + np.prod(shape) * dtype.itemsize, np.uint8)[1:].view(dtype).reshape(shape),
    "a subclass": lambda shape, dtype: np.ones(shape, dtype).view(type("Mine", (np.ndarray,), {})),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_any_layout_is_written_and_returned(name, layout):
    x = X.astype(np.float32)
    wanted = CALLS[name](x)
    out = LAYOUTS[layout](wanted.shape, wanted.dtype)
    whole = out.base if layout == "every second cell" else None
    assert CALLS[name](x, out=out) is out
    assert np.array_equal(out, wanted)
    assert whole is None or (whole[..., 1::2] == 1).all()  # and nothing beside it


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i2"])
@pytest.mark.parametrize("name", CALLS)
def test_the_result_in_out_is_that_without_it_for_every_dtype(name, dtype):
    x = (abs(X) if "u" in dtype else X).astype(dtype)
    wanted = CALLS[name](x)
    out = np.ones_like(wanted)
    assert CALLS[name](x, out=out) is out
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("name", [name for name in CALLS if "smooth" not in name])
def test_exact_scalars_are_written_too(name):
    x = X[:, :, :4, :4].astype(object) + Fraction(1, 3)
    wanted = CALLS[name](x)
    out = np.empty(wanted.shape, object)
    assert CALLS[name](x, out=out) is out
    assert (out == wanted).all()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_write_straight_into_an_array_whose_cells_stand_in_a_row(name, dtype, monkeypatch):
    x = X.astype(dtype)
    wanted = CALLS[name](x)
    monkeypatch.setattr(output, "placed", lambda result, out: np.shares_memory(result, out) and out)
    out = np.ones_like(wanted)
    assert CALLS[name](x, out=out) is out
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["?", "f2", "f4", "i8"])
def test_values_and_indices_go_to_a_pair_of_which_one_may_be_none(dtype):
    x = X.astype(dtype)
    wanted = wg.max_pool2d(x, 3, 2, 1, return_indices=True)
    for given in ((True, True), (True, False), (False, True), (False, False)):
        out = tuple(np.ones_like(part) if on else None for part, on in zip(wanted, given, strict=True))
        found = wg.max_pool2d(x, 3, 2, 1, return_indices=True, out=out)
        for part, right, place in zip(found, wanted, out, strict=True):
            assert np.array_equal(part, right)
            assert place is None or part is place
    assert np.array_equal(wg.adaptive_max_pool2d(x, 2, return_indices=True, out=[wanted[0][..., :2, :2].copy(), None])[0],
                          wg.adaptive_max_pool2d(x, 2))  # fmt: skip


@pytest.mark.parametrize("shift", [-9, -8, -1, 0, 1, 5, 8])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, **k: wg.max_pool2d(x, 3, 1, 1, **k),
        lambda x, **k: wg.avg_pool2d(x, 3, 1, 1, **k),
        lambda x, **k: wg.smooth_max_pool2d(x, 3, 1, 1, beta=0.5, **k),
        lambda x, **k: wg.conv2d(x, np.ones((1, 1, 3, 3)), padding=1, **k),
        lambda x, **k: wg.conv2d(np.ones((1, 8, 8)), x.reshape(1, 1, 8, 8), padding=((4, 3), (3, 4)), **k),
    ],
)
def test_memory_shared_with_an_input_gives_the_right_result(call, shift):
    memory = np.arange(90.0) % 7
    x, out = memory[10:74].reshape(1, 8, 8), memory[10 + shift : 74 + shift].reshape(1, 8, 8)
    wanted = call(x.copy())
    assert call(x, out=out) is out
    assert np.array_equal(out, wanted)


def test_indices_may_overwrite_the_input_that_they_are_found_in():
    x = X.astype(np.int64)
    wanted = wg.max_pool2d(x, 3, 1, 1, return_indices=True)
    values = np.empty_like(x)
    assert wg.max_pool2d(x, 3, 1, 1, return_indices=True, out=(values, x))[1] is x
    assert np.array_equal(values, wanted[0])
    assert np.array_equal(x, wanted[1])


def test_an_empty_batch_and_an_output_without_axes_have_a_place_too():
    none = np.empty((0, 2, 2), np.float32)
    assert wg.max_pool2d(np.empty((0, 4, 4), np.float32), 2, out=none) is none
    one = np.array(7.0)
    assert wg.global_max_pool2d(np.arange(6.0).reshape(2, 3), keepdims=False, out=one) is one
    assert one == 5


def test_what_a_failing_call_was_given_is_untouched():
    out = np.full((1, 2), 7, object)
    with pytest.raises(wg.KindError):
        wg.max_pool1d(np.array([[1, 2, 3, None]], object), 2, out=out)
    sums = np.full((1, 1), 7, np.int64)
    with pytest.raises(wg.WindowError, match="may reach"):
        wg.conv1d(np.full((1, 2), 2**62), np.full((1, 1, 2), 2**62), out=sums)
    means = np.full((1, 4), 7.0)
    with pytest.raises(wg.WindowError):
        wg.avg_pool1d(np.ones((1, 4)), 3, out=means)
    assert (*out.flat, *sums.flat, *means.flat) == (7,) * 7


def test_an_array_of_another_kind_takes_no_out():
    class Boxed:
        def __windowgrad__(self, op, rule, params, arrays):
            raise AssertionError("not asked")

    out = np.ones((1, 2))
    with pytest.raises(wg.KindError, match=r"out: only supported with NumPy arrays, but x is a .*Boxed \[max_pool1d\("):
        wg.max_pool1d(Boxed(), 2, out=out)
    assert (out == 1).all()
