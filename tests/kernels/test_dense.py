"""The reference that the fuzzer compares with is the specification, and PyTorch's convolution."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support import dense, oracle
from support.exact import fractions_of, rounded, same_bits
from support.fuzz_cases import draw
from support.fuzz_checks import arrays_of
from support.strategies import cases, geometries, pool, ranks, small_ints, spatial_sizes
from windowgrad.ops import MEANINGS
from windowgrad.params import TransposeParams

EXACT = [op for op in MEANINGS if op.exact and not op.facts.indices]  # what takes indices has no compiled kernel
every_exact_op = pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)


@given(data=st.data())
def test_it_sees_the_cells_that_the_definition_names(data):
    spatial = data.draw(spatial_sizes(data.draw(ranks)))
    geometry = data.draw(geometries(spatial))
    cells = dense.window_cells(geometry, spatial)
    for found, (_, real, padded) in zip(cells, oracle.regions(geometry, spatial), strict=True):
        assert [int(cell) for cell in found if cell >= 0] == [int(np.ravel_multi_index(cell, spatial)) for cell in real]
        assert (found == dense.PAD).sum() == padded


@every_exact_op
@settings(max_examples=25)
@given(data=st.data())
def test_it_is_the_specification(op, data):
    """In float64, every rule; gradients of means and of split ties are rounded once for each share."""
    params, xs, dxs, g = data.draw(cases(op, small_ints()))
    arrays = {"forward": xs, "jvp": [*xs, *dxs], "vjp": [*xs, g]}
    for rule, given_arrays in arrays.items():
        machine = [array.astype(np.float64) for array in given_arrays]
        found = dense.expected(op.name, rule, params, machine)
        exactly = getattr(op, rule)(params, *map(fractions_of, machine))
        for one, other in zip(found, exactly if rule == "vjp" else [exactly], strict=True):
            assert one.shape == other.shape
            assert np.allclose(one, other.astype(np.float64), rtol=1e-14, atol=1e-14)
            if rule != "vjp":
                assert same_bits(one, rounded(other, np.dtype(np.float64)))


@given(data=st.data())
def test_its_winners_are_those_of_the_specification(data):
    op = next(op for op in MEANINGS if op.name == "max_pool")
    params, (x,), _, _ = data.draw(cases(op, pool([0.0, 1.0, float("nan")])))
    value, index = dense.expected("max_pool", "with_indices", params, [x.astype(np.float64)])
    expected, place = op.with_indices(params, x)
    assert np.array_equal(value, expected.astype(np.float64), equal_nan=True)
    assert np.array_equal(index, place)


def of_torch(params, x, w, bias):
    """The same convolution by PyTorch, whose padding is the same on both sides."""
    window, transposed = params.window, isinstance(params, TransposeParams)
    name = f"conv{'_transpose' if transposed else ''}{window.rank}d"
    options = {"stride": window.stride, "padding": [lo for lo, _ in window.padding], "dilation": window.dilation}
    extra = {"output_padding": params.output_padding} if transposed else {}
    return getattr(torch.nn.functional, name)(x, w, bias, groups=params.groups, **options, **extra)


def is_for_torch(case):
    window = case.params.window
    return window.rank <= 3 and all(lo == hi for lo, hi in window.padding) and not any(window.ceil_mode)


@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
def test_its_convolution_is_that_of_pytorch_on_small_integers(op):
    """Forward and all gradients of what the fuzzer draws, exactly."""
    tried = 0
    for number in range(300):
        case = draw(3, number, op)
        if not is_for_torch(case) or case.values == "wild" or case.rule != "vjp" or 0 in case.shapes[0]:
            continue
        arrays = [array.astype(np.float64) for array in arrays_of(case)]
        *inputs, g = arrays
        batched = inputs[0].reshape(-1, *inputs[0].shape[inputs[0].ndim - case.rank - 1 :])
        tensors = [torch.tensor(array, requires_grad=True) for array in (batched, *inputs[1:])]
        y = of_torch(case.params, tensors[0], tensors[1], tensors[2] if len(tensors) > 2 else None)
        y.backward(torch.tensor(g.reshape(y.shape)))
        (forward,) = dense.expected(op, "forward", case.params, inputs)
        assert np.array_equal(forward, y.detach().numpy().reshape(forward.shape)), case
        for found, tensor in zip(dense.expected(op, "vjp", case.params, arrays), tensors, strict=True):
            assert np.array_equal(found, tensor.grad.numpy().reshape(found.shape)), case
        tried += 1
    assert tried > 25
