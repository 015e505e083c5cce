"""Within PyTorch's domain our values are PyTorch's: equal, not close, for every sum here is exact."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.torch_cases import (
    CONV_NAMES,
    MAX_NAMES,
    NAMES,
    NORMAL,
    cases,
    convolutions,
    filled,
    logsumexp_of_windows,
    per_axis,
    pools,
    same,
    sliding,
    windows,
)

# PyTorch says so of every even window under padding="same"; the values are what is asked for here.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_values_equal_pytorch(name, data):
    case = data.draw(cases(name))
    assert same(case.ours(), case.theirs())


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_indices_equal_pytorch(name, data):
    """Ties are common: both give the first of equals in row-major order."""
    case = data.draw(cases(name))
    for ours, theirs in zip(case.ours(return_indices=True), case.theirs(return_indices=True), strict=True):
        assert same(ours, theirs)


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_maximum_of_infinities_and_one_nan_equals_pytorch(name, data):
    """With several NaN in a window the indices differ: see test_torch_differences.py."""
    case = data.draw(pools(name, False, values=np.array([-np.inf, np.inf, 0, -1], np.float32)))
    if case.arrays[0].size:
        case.arrays[0].flat[data.draw(st.integers(0, case.arrays[0].size - 1))] = np.nan
    for ours, theirs in zip(case.ours(return_indices=True), case.theirs(return_indices=True), strict=True):
        assert same(ours, theirs)


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_nan_anywhere_makes_the_maximum_nan_as_in_pytorch(name, data):
    case = data.draw(pools(name, False, values=np.array([np.nan, 1, 2, -np.inf, 3], np.float64)))
    assert same(case.ours(), case.theirs())


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_signed_zeros_tie_as_in_pytorch(name, data):
    case = data.draw(pools(name, False, values=np.array([0.0, -0.0, -1.0], np.float32)))
    assert np.array_equal(np.signbit(case.ours()), np.signbit(case.theirs().numpy()))


@pytest.mark.parametrize("name", [name for name in NAMES if "avg" in name])
@given(data=st.data())
def test_mean_of_nan_and_infinities_equals_pytorch(name, data):
    case = data.draw(pools(name, False, values=np.array([np.nan, np.inf, -np.inf, 0, 0, 0, 0], np.float32)))
    assert same(case.ours(), case.theirs())


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_maximum_of_float16_equals_pytorch(name, data):
    case = data.draw(pools(name, False, values=np.array([65504, -65504, 1, 1.001, 6e-8, -np.inf], np.float16)))
    for ours, theirs in zip(case.ours(return_indices=True), case.theirs(return_indices=True), strict=True):
        assert same(ours, theirs)


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_maximum_of_bfloat16_equals_pytorch(name, data):
    """NumPy has bfloat16 only through ml_dtypes, and PyTorch does not take it from there: floats carry it over."""
    case = data.draw(pools(name, False, values=np.array([3e38, -3e38, 1, 1.0078125, 1e-40, -np.inf], np.float32)))
    tensor = torch.from_numpy(case.arrays[0]).bfloat16()
    case.arrays[0] = tensor.float().numpy().astype(ml_dtypes.bfloat16)
    (value, index), (their_value, their_index) = case.ours(return_indices=True), case.theirs(tensor, return_indices=True)
    assert value.dtype == ml_dtypes.bfloat16
    assert same(value.astype(np.float32), their_value.float())
    assert same(index, their_index)


@pytest.mark.parametrize("name", ["avg_pool1d", "avg_pool2d"])
@given(data=st.data())
def test_mean_of_float16_equals_pytorch(name, data):
    case = data.draw(pools(name, False, dtype=np.float16))
    assert same(case.ours(), case.theirs())


@pytest.mark.parametrize("name", ["max_pool1d", "max_pool2d", "max_pool3d"])
@given(data=st.data())
def test_maximum_of_integers_equals_pytorch(name, data):
    """Also of the least integer, which no padding may stand for."""
    dtype = data.draw(st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64]))
    info = np.iinfo(dtype)
    case = data.draw(pools(name, False, values=np.array([info.min, info.max, 0, 1], dtype)))
    for ours, theirs in zip(case.ours(return_indices=True), case.theirs(return_indices=True), strict=True):
        assert same(ours, theirs)


@pytest.mark.parametrize("name", CONV_NAMES)
@given(data=st.data())
def test_convolution_of_int64_equals_pytorch(name, data):
    case = data.draw(convolutions(name, dtype=np.int64))
    assert same(case.ours(), case.theirs())


# --- smooth maximum: PyTorch's logsumexp over its own windows ----------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data())
def test_smooth_maximum_is_close_to_pytorchs_logsumexp(rank, data):
    """Within 32·2⁻⁵³·max(|y|, 1/|β|): the stated 4 for us, and as much as 28 for PyTorch's rounding of β·x and its sum."""
    arguments, spatial = data.draw(windows(rank, "max_pool"))
    beta, counted = data.draw(st.sampled_from([1.0, 0.1, -1.0, 7.5, -20.0])), data.draw(st.booleans())
    geometry = sliding(rank, **arguments)
    x = data.draw(filled((2, *spatial), NORMAL))
    ours = getattr(wg, f"smooth_max_pool{rank}d")(x, **arguments, count_include_pad=counted, beta=beta)
    theirs = logsumexp_of_windows(torch.from_numpy(x), geometry, beta, counted).numpy()
    theirs = np.where(np.isinf(theirs), 0, theirs)  # a region with no cell: log 0 there, 0 here
    bound = 32 * 2.0**-53 * np.maximum(np.abs(theirs), 1 / abs(beta))
    assert ours.shape == theirs.shape
    assert (np.abs(ours - theirs) <= bound).all()


# --- shapes ------------------------------------------------------------------------------------------------------


def meta(*shape):
    """A tensor with a shape and no cells."""
    return torch.empty(shape, device="meta")


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data())
def test_pool_out_shape_equals_pytorch(rank, data):
    arguments, spatial = data.draw(windows(rank, "max_pool"))
    spatial = tuple(n + data.draw(st.sampled_from([0, 1, 1000, 10**4])) for n in spatial)
    theirs = tuple(getattr(F, f"max_pool{rank}d")(meta(1, *spatial), **arguments, return_indices=True)[0].shape)
    kernel = per_axis(arguments.pop("kernel_size"), rank)
    assert wg.pool_out_shape((1, *spatial), kernel, **arguments) == theirs


@pytest.mark.parametrize("name", CONV_NAMES)
@given(data=st.data())
def test_conv_out_shapes_equal_pytorch(name, data):
    case = data.draw(convolutions(name))
    x, weight = (array.shape for array in case.arrays[:2])
    spatial = tuple(n + data.draw(st.sampled_from([0, 1, 1000, 10**4])) for n in x[-case.rank :])
    theirs = case.theirs(meta(*x[: -case.rank], *spatial), meta(*weight)).shape[-case.rank :]
    case.arguments.pop("groups")
    helper = wg.conv_out_shape if case.name[:-2] == "conv" else wg.conv_transpose_out_shape
    assert helper(spatial, weight[2:], **case.arguments) == tuple(theirs)


@given(n=st.integers(1, 300), m=st.integers(1, 300))
def test_adaptive_bins_are_pytorchs(n, m):
    """On rising cells the maximum of a bin is its last cell, and of their negatives its first."""
    cells = torch.arange(n, dtype=torch.float64)[None]
    starts, ends = -F.adaptive_max_pool1d(-cells, m)[0], F.adaptive_max_pool1d(cells, m)[0] + 1
    assert wg.adaptive_bins(n, m) == list(zip(starts.int().tolist(), ends.int().tolist(), strict=True))
