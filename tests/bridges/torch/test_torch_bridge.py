"""Tensors in, tensors out: the values, dtypes and memory of the PyTorch bridge."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import windowgrad as wg
from support.torch_bridge_cases import CASES, PLANES, as_tuple, name, values
from windowgrad import KindError
from windowgrad.bridges.torch import memory
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import MaxParams


def same_bits(tensor, array):
    assert type(tensor) is torch.Tensor
    got = tensor.detach().numpy()
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_tensors_give_the_bits_of_arrays(case):
    arrays = case.arrays()
    wanted = as_tuple(case.call(*arrays))
    for grads in (False, True):
        tensors = [torch.from_numpy(a).requires_grad_(grads) for a in arrays]
        for tensor, array in zip(as_tuple(case.call(*tensors)), wanted, strict=True):
            same_bits(tensor, array)


@pytest.mark.parametrize("case", PLANES, ids=name)
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int16])
def test_every_dtype_gives_the_dtype_and_bits_of_arrays(case, dtype):
    arrays = [np.arange(a.size, dtype=dtype).reshape(a.shape)[..., ::-1].copy() for a in case.arrays()]
    for tensor, array in zip(as_tuple(case.call(*map(torch.from_numpy, arrays))), as_tuple(case.call(*arrays)), strict=True):
        same_bits(tensor, array)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.uint16])
def test_a_maximum_keeps_bools_and_unsigned_integers(dtype):
    x = (np.arange(12) % 5).astype(dtype).reshape(3, 4)
    same_bits(wg.max_pool2d(torch.from_numpy(x), 2), wg.max_pool2d(x, 2))


@pytest.mark.parametrize("case", PLANES, ids=name)
def test_bfloat16_gives_the_bits_of_bfloat16_arrays(case):
    arrays = [a.astype(ml_dtypes.bfloat16) for a in case.arrays()]
    tensors = [torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) for a in arrays]
    for tensor, array in zip(as_tuple(case.call(*tensors)), as_tuple(case.call(*arrays)), strict=True):
        if array.dtype == ml_dtypes.bfloat16:
            assert tensor.dtype == torch.bfloat16
            tensor, array = tensor.view(torch.int16), array.view(np.int16)
        same_bits(tensor, array)


def test_bfloat16_beside_float32_convolves_in_float32():
    x, w = torch.ones(1, 2, 4, dtype=torch.bfloat16, requires_grad=True), torch.ones(3, 2, 2, requires_grad=True)
    y = wg.conv1d(x, w)
    assert y.dtype == torch.float32
    gx, gw = torch.autograd.grad(y.sum(), (x, w))
    assert (gx.dtype, gw.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(gw, torch.full((3, 2, 2), 3.0))


# --- memory ------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "contiguous": torch.arange(48.0).reshape(2, 4, 6),
    "transposed": torch.arange(48.0).reshape(2, 6, 4).mT,
    "strided": torch.arange(192.0).reshape(2, 8, 12)[:, ::2, 1::2],
    "expanded": torch.arange(6.0).expand(2, 4, 6),
    "channels last": torch.arange(48.0).reshape(1, 2, 4, 6).to(memory_format=torch.channels_last),
    "a parameter": torch.nn.Parameter(torch.arange(48.0).reshape(2, 4, 6)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grads", [False, True])
def test_kernels_read_the_memory_of_the_tensor_itself(layout, grads, monkeypatch):
    seen = []

    def spy(function, given):
        def call(*args, **told):
            seen.extend(args[given:])
            return function(*args, **told)

        return call

    monkeypatch.setattr(memory, "run", spy(wg.dispatch.run, 3))
    monkeypatch.setattr(memory, "run_saving", spy(wg.dispatch.run_saving, 2))
    x = LAYOUTS[layout].detach()
    given = x.requires_grad_() if grads else x
    y = wg.max_pool2d(given, 2)
    (array,) = seen
    assert array.__array_interface__["data"][0] == x.data_ptr()
    assert [s // x.element_size() for s in array.strides] == list(x.stride())
    assert y.requires_grad == grads
    same_bits(y, wg.max_pool2d(np.ascontiguousarray(x.detach().numpy()), 2))


def test_the_gradient_that_arrives_is_read_in_place(monkeypatch):
    seen = []
    monkeypatch.setattr(memory, "run", lambda *args, **told: (seen.extend(args[3:]), wg.dispatch.run(*args, **told))[1])
    x = torch.arange(16.0).reshape(4, 4).requires_grad_()
    g = torch.ones(2, 2)
    wg.max_pool2d(x, 2).backward(g)
    assert seen[-1].__array_interface__["data"][0] == g.data_ptr()


def test_inputs_are_not_written():
    x = torch.randn(2, 5, 5)
    before = x.clone()
    wg.max_pool2d(x.requires_grad_(), 3, 1, 1).sum().backward()
    assert torch.equal(x.detach(), before)


def test_a_change_in_place_after_the_call_is_noticed_by_backward():
    x = torch.randn(4, 4, requires_grad=True)
    held = x * 1
    y = wg.max_pool2d(held, 2)
    held += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- what PyTorch does with it -----------------------------------------------------------------------------------


def test_requires_grad_follows_pytorch():
    x, w = torch.randn(1, 2, 4), torch.randn(3, 2, 2, requires_grad=True)
    assert not wg.max_pool1d(x, 2).requires_grad
    assert wg.conv1d(x, w).requires_grad
    assert wg.conv1d(x, w).grad_fn is not None
    with torch.no_grad():
        assert not wg.conv1d(x, w).requires_grad
    with torch.inference_mode():
        assert wg.conv1d(x, w).is_inference()
    y, found = wg.max_pool1d(x.requires_grad_(), 2, return_indices=True)
    assert y.requires_grad
    assert not found.requires_grad


def test_an_empty_batch_has_an_empty_gradient():
    x = torch.ones(0, 3, 4, 4, requires_grad=True)
    wg.max_pool2d(x, 2).sum().backward()
    assert x.grad.shape == (0, 3, 4, 4)


def test_a_tensor_used_twice_gathers_both_gradients():
    x = torch.arange(16.0).reshape(4, 4).requires_grad_()
    (wg.max_pool2d(x, 2) + wg.avg_pool2d(x, 2)).sum().backward()
    assert torch.equal(x.grad, 0.25 + torch.tensor([[0.0, 0, 0, 0], [0, 1, 0, 1]]).repeat(2, 1))


def test_integers_beside_floats_have_no_gradient_and_do_no_harm():
    x, w = torch.arange(8).reshape(1, 2, 4), torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    (gw,) = torch.autograd.grad(wg.conv1d(x, w).sum(), w)
    (wanted,) = torch.autograd.grad(wg.conv1d(x.double(), w).sum(), w)
    assert torch.equal(gw, wanted)


def test_the_rules_of_the_table_take_tensors():
    params, x, v = MaxParams(Sliding((2, 2))), torch.randn(4, 4), torch.randn(4, 4)
    op = OPS["max_pool"]
    same_bits(op.jvp(params, x, v), op.jvp(params, x.numpy(), v.numpy()))
    (gx,) = op.vjp(params, x, v[:2, :2])
    same_bits(gx, op.vjp(params, x.numpy(), v[:2, :2].numpy())[0])


def test_exact_options_become_floats():
    x = torch.randn(4, 4)
    assert torch.equal(wg.smooth_max_pool2d(x, 2, beta=Fraction(3, 2)), wg.smooth_max_pool2d(x, 2, beta=1.5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_convolution_under_autocast_has_the_dtype_of_autocast(dtype):
    x, w, b = torch.randn(1, 2, 6), torch.randn(3, 2, 2, requires_grad=True), torch.randn(3)
    with torch.autocast("cpu", dtype=dtype):
        ours, theirs = wg.conv1d(x, w, b), torch.nn.functional.conv1d(x, w, b)
        pooled = wg.max_pool1d(ours, 2)
    assert ours.dtype == theirs.dtype == pooled.dtype == dtype
    assert torch.equal(ours, wg.conv1d(x.to(dtype), w.to(dtype), b.to(dtype)))
    (gw,) = torch.autograd.grad(pooled.sum(), w)
    assert gw.dtype == torch.float32


def test_a_subclass_of_tensor_stays_what_it_is():
    class Image(torch.Tensor):
        pass

    x = torch.randn(2, 4, 4).as_subclass(Image)
    assert type(wg.max_pool2d(x, 2)) is Image
    assert torch.equal(wg.max_pool2d(x, 2), wg.max_pool2d(x.as_subclass(torch.Tensor), 2).as_subclass(Image))


def test_modes_see_the_call():
    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.calls += 1
            return function(*args, **(kwargs or {}))

    with Count() as mode:
        y = wg.max_pool2d(torch.ones(4, 4), 2)
    assert mode.calls >= 2
    assert torch.equal(y, torch.ones(2, 2))


def test_threads_compute_the_same_as_one():
    def gradient(seed):
        x = torch.randn(3, 2, 9, 9, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        return torch.autograd.grad(wg.smooth_max_pool2d(wg.max_pool2d(x, 3, 1), 2, beta=1.0).sum(), x)[0]

    alone = [gradient(seed) for seed in range(16)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(gradient, range(16)))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


# --- refusals ----------------------------------------------------------------------------------------------------

REFUSED = {
    "a NumPy array beside a tensor": (
        lambda: wg.conv1d(torch.ones(1, 2, 4), np.ones((3, 2, 2))),
        r"weight: must be a tensor like the others, not ndarray; call torch\.as_tensor\(weight\) \[conv1d\(",
    ),
    "a tensor behind a NumPy array": (
        lambda: wg.conv1d(np.ones((1, 2, 4)), torch.ones(3, 2, 2)),
        r"x: must be a tensor like the others, not ndarray",
    ),
    "the meta device": (
        lambda: wg.conv1d(torch.ones(1, 2, 4, device="meta"), torch.ones(3, 2, 2)),
        r"x on the meta device: has no data to compute with \[conv1d\(x: torch\.float32\(1, 2, 4\)",
    ),
    "a sparse tensor": (
        lambda: wg.max_pool2d(torch.eye(4).to_sparse(), 2),
        r"x of layout .*: only dense tensors are supported; call x\.to_dense\(\)",
    ),
    "complex numbers": (lambda: wg.max_pool2d(torch.ones(4, 4, dtype=torch.complex64), 2), "unsupported dtype complex64"),
    "eight bits of float": (
        lambda: wg.max_pool2d(torch.ones(4, 4).to(torch.float8_e5m2), 2),
        "float8_e5m2 cannot share memory with NumPy",
    ),
    "an array to write to": (
        lambda: wg.max_pool2d(torch.ones(4, 4), 2, out=torch.ones(2, 2)),
        "out: only supported with NumPy arrays, but x is a Tensor",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_computed_is_refused_by_name(what):
    call, message = REFUSED[what]
    with pytest.raises(KindError, match=message):
        call()


def test_a_window_that_does_not_fit_is_the_same_error_as_with_arrays():
    with pytest.raises(
        wg.WindowError, match=r"kernel_size=9 on axis 0.*\[max_pool2d\(x: torch.float32\(4, 4\), kernel_size=9\)\]"
    ):
        wg.max_pool2d(torch.ones(4, 4), 9)


def test_views_with_a_sign_are_read_rightly():
    z = torch.complex(torch.zeros(4, 4), torch.arange(16.0).reshape(4, 4))
    x = z.conj().imag  # its memory holds the numbers without their sign
    assert x.is_neg()
    assert torch.equal(wg.max_pool2d(x, 2), torch.tensor([[0.0, -2.0], [-8.0, -10.0]]))


def test_values_of_indices_are_the_values_alone():
    x = torch.randn(3, 6, 6)
    assert torch.equal(values(wg.max_pool2d(x, 2, return_indices=True)), wg.max_pool2d(x, 2))
