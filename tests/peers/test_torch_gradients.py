"""Within PyTorch's domain our derivatives, backward and forward, are PyTorch's: equal, not close, for sums are exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.torch_cases import (
    MAX_NAMES,
    NAMES,
    NORMAL,
    cases,
    exact_factor,
    filled,
    logsumexp_of_windows,
    pools,
    same,
    sliding,
    small_integers,
    windows,
)
from windowgrad.ops import OPS
from windowgrad.params import SmoothParams

pytestmark = [
    # PyTorch says so of every even window under padding="same"; the derivatives are what is asked for here.
    pytest.mark.filterwarnings("ignore:Using padding='same'"),
    # PyTorch's own forward mode does this on its first use.
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]


def torch_gradients(case, g):
    """PyTorch's gradient of ⟨g, y⟩ in every array of the call."""
    tensors = [tensor.requires_grad_() for tensor in case.tensors()]
    return torch.autograd.grad(case.theirs(*tensors), tensors, torch.from_numpy(g))


def factor_of(case):
    """What a gradient must be a multiple of, so that its part of a mean is a whole number."""
    _, params = case.record()
    return exact_factor(params, case.arrays[0].shape[-case.rank :]) if "avg" in case.name else 1


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_every_gradient_equals_pytorchs(name, data):
    """Ties are common: both send the gradient of a maximum to the first of equals. Conv: input, weight and bias."""
    case = data.draw(cases(name, divided=True))
    op, params = case.record()
    g = data.draw(small_integers(case.ours().shape, case.arrays[0].dtype.type, factor_of(case)))
    ours, theirs = op.vjp(params, *case.arrays, g), torch_gradients(case, g)
    assert len(ours) == len(theirs) == len(case.arrays)
    for mine, yours in zip(ours, theirs, strict=True):
        assert same(mine, yours)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_forward_mode_equals_pytorchs(name, data):
    case = data.draw(cases(name, divided=True))
    op, params = case.record()
    kind, factor = case.arrays[0].dtype.type, factor_of(case)
    tangents = [data.draw(small_integers(array.shape, kind, factor)) for array in case.arrays]
    _, theirs = torch.func.jvp(case.theirs, tuple(case.tensors()), tuple(map(torch.from_numpy, tangents)))
    assert same(op.jvp(params, *case.arrays, *tangents), theirs)


@pytest.mark.parametrize("name", MAX_NAMES)
@given(data=st.data())
def test_gradient_at_infinities_and_one_nan_equals_pytorchs(name, data):
    case = data.draw(pools(name, False, values=np.array([-np.inf, np.inf, 0, -1], np.float32)))
    if case.arrays[0].size:
        case.arrays[0].flat[data.draw(st.integers(0, case.arrays[0].size - 1))] = np.nan
    op, params = case.record()
    g = data.draw(small_integers(case.ours().shape, np.float32))
    assert same(op.vjp(params, *case.arrays, g)[0], torch_gradients(case, g)[0])


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data())
def test_smooth_maximum_has_the_derivatives_of_pytorchs_logsumexp(rank, data):
    """A weight exp(β·x − top) inherits the rounding of its exponent: |β·x| ≤ 64 here, so 64·2⁻⁵³, and some for the sums."""
    arguments, spatial = data.draw(windows(rank, "max_pool"))
    beta, counted = data.draw(st.sampled_from([1.0, 0.1, -1.0, 7.5, -20.0])), data.draw(st.booleans())
    params = SmoothParams(sliding(rank, **arguments), beta, counted)
    x, dx = (data.draw(filled((2, *spatial), NORMAL)) for _ in range(2))
    g = data.draw(filled(params.out_shape(x.shape), NORMAL))

    def theirs(x):
        y = logsumexp_of_windows(x, params.geometry, beta, counted)
        return torch.where(torch.isinf(y), 0, y)

    tensor = torch.from_numpy(x).requires_grad_()
    (gradient,) = torch.autograd.grad(theirs(tensor), tensor, torch.from_numpy(g))
    _, tangent = torch.func.jvp(theirs, (torch.from_numpy(x),), (torch.from_numpy(dx),))
    op, bound = OPS["smooth_max_pool"], 256 * 2.0**-53
    assert (np.abs(op.vjp(params, x, g)[0] - gradient.numpy()) <= bound * np.abs(g).sum()).all()
    assert (np.abs(op.jvp(params, x, dx) - tangent.numpy()) <= bound * np.abs(dx).max()).all()
