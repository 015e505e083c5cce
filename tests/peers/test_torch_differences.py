"""The differences of docs/pytorch-differences.md. Each test shows both sides, so that it also fails when PyTorch changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import windowgrad as wg
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams

RANKS = (1, 2, 3)
NAN, INF = float("nan"), float("inf")


def row(cells, rank, dtype=np.float64):
    """One channel of a `rank`-dimensional input that is a single row of cells, for both libraries."""
    array = np.array(cells, dtype).reshape((1,) * rank + (len(cells),))
    return array, torch.from_numpy(array)


def wide(n, rank, rest=1):
    """`n` on the last axis, `rest` on the others."""
    return (rest,) * (rank - 1) + (n,)


def torch_gradient(function, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


# --- maximum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("family", ["max_pool", "adaptive_max_pool"])
def test_among_several_nan_the_first_wins_where_pytorch_takes_the_last(family, rank):
    x, t = row([1, NAN, 3, NAN, 2], rank)
    size = wide(5, rank) if family == "max_pool" else wide(1, rank)
    value, index = getattr(F, f"{family}{rank}d")(t, size, return_indices=True)
    assert (value.isnan().item(), index.item()) == (True, 3)
    value, index = getattr(wg, f"{family}{rank}d")(x, size, return_indices=True)
    assert (np.isnan(value).item(), index.item()) == (True, 1)


@pytest.mark.parametrize("rank", RANKS)
def test_the_gradient_goes_to_the_first_nan_where_pytorch_sends_it_to_the_last(rank):
    x, t = row([1, NAN, 3, NAN, 2], rank)
    kernel = wide(5, rank)
    assert torch_gradient(lambda t: getattr(F, f"max_pool{rank}d")(t, kernel), t).flatten().tolist() == [0, 0, 0, 1, 0]
    (gx,) = OPS["max_pool"].vjp(MaxParams(Sliding(kernel)), x, np.ones((1,) * (rank + 1)))
    assert gx.ravel().tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("rank", RANKS)
def test_an_empty_window_is_zero_where_pytorch_gives_minus_infinity_and_an_index_outside(rank):
    x, t = row([7], rank)
    arguments = {"kernel_size": wide(2, rank), "stride": 1, "padding": wide(1, rank, 0), "dilation": wide(2, rank)}
    value, index = getattr(F, f"max_pool{rank}d")(t, **arguments, return_indices=True)
    assert (value.item(), index.item()) == (-INF, 1)  # the plane has one cell, whose index is 0
    value, index = getattr(wg, f"max_pool{rank}d")(x, **arguments, return_indices=True)
    assert (value.item(), index.item()) == (0, -1)


def test_integers_have_every_maximum_where_pytorch_wants_indices_in_one_dimension_and_has_no_adaptive_one():
    x, t = row([1, 2, 3, 4], 1, np.int32)
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        F.max_pool1d(t, 2)
    assert F.max_pool1d(t, 2, return_indices=True)[0].tolist() == wg.max_pool1d(x, 2).tolist() == [[2, 4]]
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        F.adaptive_max_pool1d(t, 2)
    assert wg.adaptive_max_pool1d(x, 2).tolist() == [[2, 4]]


@pytest.mark.parametrize("dtype", [np.bool_, np.uint16, np.uint32, np.uint64], ids=lambda dtype: dtype.__name__)
def test_bool_and_wide_unsigned_integers_have_a_maximum_where_pytorch_has_none(dtype):
    x, t = row([0, 1], 2, dtype)
    with pytest.raises(NotImplementedError, match='"max_pool2d" not implemented'):
        F.max_pool2d(t, (1, 2))
    y = wg.max_pool2d(x, (1, 2))
    assert (y.dtype, y.item()) == (dtype, 1)


def test_the_global_maximum_gives_every_winner_the_gradient_where_pytorch_splits_it_or_takes_the_first():
    x, t = row([2, 2, 1, 2], 1)
    assert torch_gradient(lambda t: t.amax(-1), t).tolist() == [[1 / 3, 1 / 3, 0, 1 / 3]]
    assert torch_gradient(lambda t: F.adaptive_max_pool1d(t, 1), t).tolist() == [[1, 0, 0, 0]]
    gradient = {
        ties: OPS["max_pool"].vjp(MaxParams(Global(1), ties), x, np.ones((1, 1)))[0] for ties in ("all", "split", "first")
    }
    assert gradient["all"].tolist() == [[1, 1, 0, 1]]
    assert gradient["split"].tolist() == [[1 / 3, 1 / 3, 0, 1 / 3]]
    assert gradient["first"].tolist() == [[1, 0, 0, 0]]


# --- windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("family", ["max_pool", "avg_pool"])
def test_padding_may_exceed_half_the_kernel_where_pytorch_refuses(family, rank):
    x, t = row([4, 2], rank)
    arguments = {"kernel_size": wide(2, rank), "stride": 1, "padding": wide(2, rank, 0)}
    with pytest.raises(RuntimeError, match="at most half of"):
        getattr(F, f"{family}{rank}d")(t, **arguments)
    wanted = {"max_pool": [0, 4, 4, 2, 0], "avg_pool": [0, 2, 3, 1, 0]}
    assert getattr(wg, f"{family}{rank}d")(x, **arguments).ravel().tolist() == wanted[family]


@pytest.mark.parametrize("rank", RANKS)
def test_ceil_mode_refuses_a_window_larger_than_the_padded_input_where_pytorch_takes_it(rank):
    x, t = row([4, 2], rank)
    arguments = {"kernel_size": wide(3, rank), "ceil_mode": True}
    assert getattr(F, f"max_pool{rank}d")(t, **arguments).flatten().tolist() == [4]
    with pytest.raises(wg.WindowError, match="the window covers 3 cells, the padded input has 2"):
        getattr(wg, f"max_pool{rank}d")(x, **arguments)
    if rank < 3:
        assert getattr(F, f"avg_pool{rank}d")(t, **arguments).flatten().tolist() == [3]


def test_padding_may_make_the_kernel_fit_in_three_dimensions_where_pytorch_refuses():
    x, t = row([4], 3)
    arguments = {"kernel_size": (1, 1, 2), "stride": 1, "padding": (0, 0, 1)}
    assert F.avg_pool2d(t[0], (1, 2), 1, (0, 1)).flatten().tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="smaller than kernel size"):
        F.avg_pool3d(t, **arguments)
    assert wg.avg_pool3d(x, **arguments).ravel().tolist() == [2, 2]


@pytest.mark.parametrize("name", ["max_pool1d", "avg_pool1d", "conv1d", "conv_transpose1d"])
def test_padding_may_differ_before_and_after_where_pytorch_has_one_number(name):
    x, t = row([4, 2, 6], 1)
    sizes = ([np.ones((1, 1, 2))], [torch.ones(1, 1, 2, dtype=t.dtype)]) if "conv" in name else ([2, 1], [2, 1])
    with pytest.raises(TypeError):
        getattr(F, name)(t, *sizes[1], padding=((0, 1),))
    wanted = {"max_pool1d": [4, 6, 6], "avg_pool1d": [3, 4, 3], "conv1d": [6, 8, 6], "conv_transpose1d": [4, 6, 8]}
    assert getattr(wg, name)(x, *sizes[0], padding=((0, 1),)).tolist() == [wanted[name]]


def test_sizes_are_integers_of_any_size_where_pytorchs_overflow():
    x, t = row([4, 2], 1)
    with pytest.raises(RuntimeError, match="without overflow"):
        F.avg_pool1d(t, 2**32, 1, 2**31)
    with pytest.raises(ValueError, match="Overflow"):
        F.max_pool1d(t, 2, 10**30)
    assert wg.avg_pool1d(x, 2**32, 2**40, 2**31).tolist() == [[6 / 2**32]]
    assert wg.max_pool1d(x, 2, 10**30).tolist() == [[4]]


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("family", ["adaptive_max_pool", "adaptive_avg_pool"])
def test_pooling_to_no_output_is_refused_where_pytorch_gives_an_empty_array(family, rank):
    x, t = row([4, 2], rank)
    assert getattr(F, f"{family}{rank}d")(t, wide(0, rank)).shape == (*(1,) * rank, 0)
    with pytest.raises(wg.WindowError, match=f"output_size=0 on axis {rank - 1}: must be at least 1"):
        getattr(wg, f"{family}{rank}d")(x, wide(0, rank))


def test_one_entry_per_axis_is_meant_literally_where_pytorch_takes_one_for_all_and_none_for_the_default():
    x, t = np.ones((1, 4, 4)), torch.ones(1, 4, 4)
    assert F.max_pool2d(t, (2,), (1,)).shape == (1, 3, 3)
    assert F.max_pool2d(t, 2, []).shape == (1, 2, 2)
    for sizes in [((2,), (1,)), (2, [])]:
        with pytest.raises(wg.WindowError, match="for 2 axes"):
            wg.max_pool2d(x, *sizes)


def test_none_keeps_an_axis_alone_and_in_one_dimension_where_pytorch_refuses():
    with pytest.raises(TypeError):
        F.adaptive_avg_pool2d(torch.ones(1, 4, 6), None)
    with pytest.raises(TypeError):
        F.adaptive_avg_pool1d(torch.ones(1, 4), (None,))
    assert wg.adaptive_avg_pool2d(np.ones((1, 4, 6)), None).shape == (1, 4, 6)
    assert wg.adaptive_avg_pool1d(np.ones((1, 4)), (None,)).shape == (1, 4)


# --- mean --------------------------------------------------------------------------------------------------------


def test_a_mean_of_integers_is_a_float_where_pytorch_truncates_or_refuses():
    x, t = row([1, 2, -1, -2], 1, np.int64)
    assert F.avg_pool1d(t, 2).tolist() == [[1, -1]]
    assert wg.avg_pool1d(x, 2).tolist() == [[1.5, -1.5]]
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        F.avg_pool1d(t.int(), 2)
    with pytest.raises(RuntimeError, match="Input dtype must be either a floating point or complex dtype"):
        F.adaptive_avg_pool1d(t, 1)
    assert wg.avg_pool1d(x.astype(np.int8), 2).dtype == np.float32


def test_a_mean_may_be_dilated_and_overridden_in_every_rank_where_pytorchs_may_not():
    x, t = row([1, 2, 3, 4], 1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'dilation'"):
        F.avg_pool1d(t, 2, dilation=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'divisor_override'"):
        F.avg_pool1d(t, 2, divisor_override=1)
    assert wg.avg_pool1d(x, 2, 1, dilation=2).tolist() == [[2, 3]]
    assert wg.avg_pool1d(x, 2, divisor_override=1).tolist() == [[3, 7]]


def test_a_divisor_is_at_least_one_where_pytorch_takes_a_negative_one():
    x, t = row([1, 2], 2)
    assert F.avg_pool2d(t, (1, 2), divisor_override=-2).item() == -1.5
    with pytest.raises(wg.WindowError, match="divisor_override=-2: must be at least 1"):
        wg.avg_pool2d(x, (1, 2), divisor_override=-2)


@pytest.mark.parametrize("rank", RANKS)
def test_a_float32_mean_is_right_where_pytorchs_sum_loses_what_is_small_or_overflows(rank):
    x, t = row([2**24] + [1] * 1000, rank, np.float32)
    exact = (2**24 + 1000) / 1001
    bound = 16 * 2.0**-24 * exact
    assert abs(getattr(F, f"avg_pool{rank}d")(t, wide(1001, rank)).item() - exact) > 0.9 > bound
    assert abs(getattr(wg, f"avg_pool{rank}d")(x, wide(1001, rank)).item() - exact) <= bound
    x, t = row([3e38, 3e38], rank, np.float32)
    assert getattr(F, f"avg_pool{rank}d")(t, wide(2, rank)).item() == INF
    assert getattr(wg, f"avg_pool{rank}d")(x, wide(2, rank)).item() == np.float32(3e38)


def test_float16_has_a_mean_in_three_dimensions_where_pytorch_has_none():
    x, t = row([1, 2], 3, np.float16)
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        F.avg_pool3d(t, (1, 1, 2))
    assert wg.avg_pool3d(x, (1, 1, 2)).item() == 1.5


# --- convolution -------------------------------------------------------------------------------------------------


def test_integer_convolution_is_exact_or_refused_where_pytorch_wraps_around():
    x, t = row([100, 100], 1, np.int8)
    w = np.ones((1, 1, 2), np.int8)
    assert F.conv1d(t, torch.from_numpy(w)).tolist() == [[-56]]
    assert wg.conv1d(x, w).tolist() == [[200]]
    x, t = row([2**62, 2**62], 1, np.int64)
    assert F.conv1d(t, torch.from_numpy(w).long()).tolist() == [[-(2**63)]]
    with pytest.raises(wg.WindowError, match="more than int64 holds"):
        wg.conv1d(x, w)


def test_bool_convolves_and_small_integers_convolve_transposed_where_pytorch_refuses():
    w = np.ones((1, 1, 2), bool)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        F.conv1d(torch.ones(1, 3, dtype=torch.bool), torch.from_numpy(w))
    assert wg.conv1d(np.ones((1, 3), bool), w).tolist() == [[2, 2]]
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        F.conv_transpose1d(torch.ones(1, 2, dtype=torch.int32), torch.ones(1, 1, 2, dtype=torch.int32))
    assert wg.conv_transpose1d(np.ones((1, 2), np.int32), np.ones((1, 1, 2), np.int32)).tolist() == [[1, 2, 1]]


@pytest.mark.parametrize("other", [np.float64, np.int32, np.bool_], ids=lambda dtype: dtype.__name__)
def test_dtypes_mix_as_in_numpy_where_pytorch_refuses(other):
    (x, t), w = row([1, 2, 3], 1, np.float32), np.ones((1, 1, 2), other)
    with pytest.raises(RuntimeError, match="expected scalar type Float"):
        F.conv1d(t, torch.from_numpy(w))
    y = wg.conv1d(x, w)
    assert (y.dtype, y.tolist()) == (np.result_type(np.float32, other), [[3, 5]])


def test_complex_is_refused_where_pytorch_convolves_it():
    x, t = row([1j, 1j], 1, np.complex128)
    assert F.conv1d(t, torch.ones(1, 1, 2, dtype=t.dtype)).item() == 2j
    with pytest.raises(wg.KindError, match="unsupported dtype complex128"):
        wg.conv1d(x, np.ones((1, 1, 2)))


def test_no_input_channels_give_the_bias_where_pytorch_gives_no_channels():
    x, w, b = np.ones((1, 0, 4)), np.ones((2, 0, 3)), np.array([5.0, 7.0])
    assert F.conv1d(*map(torch.from_numpy, (x, w, b))).shape == (1, 0, 2)
    assert wg.conv1d(x, w, b).tolist() == [[[5, 5], [7, 7]]]
    with pytest.raises(RuntimeError, match="at least 1 at dimension 0"):
        F.conv1d(torch.ones(1, 1, 4), torch.ones(0, 1, 3))
    assert wg.conv1d(np.ones((1, 1, 4)), np.ones((0, 1, 3))).shape == (1, 0, 2)


def test_a_padded_cell_has_no_product_where_pytorch_multiplies_the_weight_by_zero():
    """An infinite weight over the padding: the specification says nothing is added, PyTorch adds 0·∞, which is NaN."""
    (x, t), w = row([1, 1, 1], 1), np.array([[[INF, 1, 1]]])
    assert np.array_equal(F.conv1d(t, torch.from_numpy(w), padding=1), [[NAN, INF, INF]], equal_nan=True)
    assert wg.conv1d(x.astype(object), w.astype(object), padding=1).tolist() == [[2, INF, INF]]
    assert wg.conv1d(x, w, padding=1).tolist() == [[2, INF, INF]]
    _, gw = OPS["conv"].vjp(ConvParams(Sliding((3,), 1, 1)), x, np.ones((1, 1, 3)), np.array([[INF, 1.0, 1.0]]))
    assert gw.tolist() == [[[2, INF, INF]]]


# --- arrays ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (2, 3, 1), (2, 2, 2, 2)], ids=str)
@pytest.mark.parametrize("family", ["max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool"])
def test_any_number_of_axes_may_lead_where_pytorch_wants_one_or_two(family, lead):
    x = np.arange(np.prod(lead, dtype=int) * 16.0).reshape(*lead, 4, 4)
    with pytest.raises((RuntimeError, IndexError), match=r"D|Dimension"):
        getattr(F, f"{family}2d")(torch.from_numpy(x), 2)
    y = getattr(wg, f"{family}2d")(x, 2)
    assert y.reshape(-1, 2, 2).tolist() == getattr(F, f"{family}2d")(torch.from_numpy(x).reshape(-1, 4, 4), 2).tolist()


def test_any_number_of_axes_may_be_pooled_where_pytorch_stops_at_three():
    assert not hasattr(F, "max_pool4d")
    assert wg.max_pool(np.arange(32.0).reshape(2, 2, 2, 2, 2), (2, 2, 2, 2)).ravel().tolist() == [15, 31]


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("family", ["max_pool", "avg_pool", "adaptive_max_pool"])
def test_no_channels_are_fine_where_pytorch_refuses_them(family, rank):
    x = np.ones((2, 0, *(4,) * rank))
    with pytest.raises(RuntimeError, match=r"[Ee]xpected"):
        getattr(F, f"{family}{rank}d")(torch.from_numpy(x), 2)
    assert getattr(wg, f"{family}{rank}d")(x, 2).shape == (2, 0, *(2,) * rank)


@pytest.mark.parametrize("view", [lambda x: x[:, ::-1], lambda x: x.astype(">f8")], ids=["negative strides", "byte-swapped"])
def test_any_layout_will_do_where_pytorch_takes_no_such_array(view):
    x = view(np.arange(4.0)[None])
    with pytest.raises(ValueError, match=r"not (currently )?supported"):
        torch.from_numpy(x)
    assert wg.max_pool1d(x, 2).tolist() == wg.max_pool1d(np.array(x.tolist()), 2).tolist()


def test_integers_have_derivatives_where_pytorchs_have_none():
    x, t = row([1, 2], 1, np.int64)
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        t.requires_grad_()
    (gx,) = OPS["max_pool"].vjp(MaxParams(Sliding((2,))), x, np.array([[0.5]]))
    assert (gx.dtype, gx.tolist()) == (np.float64, [[0, 0.5]])


def test_errors_are_value_errors_that_show_the_call_where_pytorchs_are_runtime_errors():
    x, t = row([1, 2], 1)
    with pytest.raises(RuntimeError, match="pad must be non-negative"):
        F.max_pool2d(t[None], 2, padding=-1)
    with pytest.raises(ValueError, match=r"padding=-1 on axis 0: must not be negative \[max_pool1d\(x: float64\(1, 2\), "):
        wg.max_pool1d(x, 2, padding=-1)


# --- p-norm ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", RANKS)
def test_a_norm_takes_magnitudes_where_pytorch_takes_powers(rank):
    ours, theirs = getattr(wg, f"lp_pool{rank}d"), getattr(F, f"lp_pool{rank}d")
    kernel = 2 if rank == 1 else wide(2, rank)  # PyTorch takes no tuple here in rank 1
    x, t = row([3.0, -4.0], rank)
    assert ours(x, 1, kernel).ravel().tolist() == [7]
    assert theirs(t, 1.0, kernel).ravel().tolist() == [-1]
    assert torch.isnan(theirs(t, 2.5, kernel)).all()
    assert np.isfinite(ours(x, 2.5, kernel)).all()
    assert ours(x, 2, kernel).ravel().tolist() == theirs(t, 2.0, kernel).ravel().tolist() == [5]
    large, t = row([1e200, 1e200], rank)
    assert np.isfinite(ours(large, 2, kernel)).all()
    assert torch.isinf(theirs(t, 2.0, kernel)).all()
