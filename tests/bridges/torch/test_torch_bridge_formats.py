"""Results have the memory format that PyTorch's own operators give them: where PyTorch keeps channels last, so do we."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

import windowgrad as wg
from windowgrad.bridges.torch.formats import FORMATS, is_channels_last, strides_of

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
SHAPES = [(2, 4, 6, 8), (1, 4, 6, 8), (2, 1, 6, 8), (1, 1, 6, 8), (2, 4, 1, 1), (2, 4, 6, 1), (2, 4, 2, 3, 5), (1, 1, 2, 3, 5)]


def last(x):
    return x.to(memory_format=FORMATS[x.ndim])


def layouts(shape):
    """Tensors of one shape with every kind of strides, ambiguous ones among them."""
    x, n = torch.randn(shape), len(shape)
    yield "contiguous", x
    yield "channels last", last(x)
    yield "a permuted view", x.movedim(1, -1).contiguous().movedim(-1, 1)
    yield "rows and columns swapped", x.transpose(-1, -2).contiguous().transpose(-1, -2)
    yield "channels last with gaps", last(torch.randn(shape[0], shape[1] + 1, *shape[2:]))[:, : shape[1]]
    yield "with gaps", torch.randn(*shape[:-1], shape[-1] + 1)[..., : shape[-1]]
    yield "repeated channels", torch.randn(shape[0], 1, *shape[2:]).expand(shape)
    yield "repeated batch", torch.randn(1, *shape[1:]).expand(shape)
    assert n in FORMATS


def results(function, x, *weights):
    """Every result and every gradient."""
    inputs = [each.detach().requires_grad_() for each in (x, *weights)]
    found = function(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    return [*found, *torch.autograd.grad(found[0], inputs, torch.randn(found[0].shape))]


def assert_kept(ours, theirs, x, *weights, exactly):
    """Wherever PyTorch keeps the format the strides are PyTorch's; `exactly`: also where it does not."""
    asked = any(is_channels_last(each.shape, each.stride()) for each in (x, *weights) if each.ndim in FORMATS)
    for mine, right in zip(results(ours, x, *weights), results(theirs, x, *weights), strict=True):
        assert mine.shape == right.shape
        if exactly or not asked or (right.ndim in FORMATS and is_channels_last(right.shape, right.stride())):
            real = [axis for axis, size in enumerate(right.shape) if size > 1]  # other strides mean nothing
            assert [mine.stride(axis) for axis in real] == [right.stride(axis) for axis in real]
        elif mine.ndim in FORMATS:  # PyTorch drops it here, we do not
            assert mine.stride() == strides_of(mine.shape, True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pooling_keeps_the_format_of_its_input(shape):
    rank, size = len(shape) - 2, min(2, *shape[2:])
    pools = {
        "max_pool": ({"kernel_size": size}, True),
        "max_pool with indices": ({"kernel_size": size, "return_indices": True}, True),
        "avg_pool": ({"kernel_size": size}, rank == 2),
        "adaptive_max_pool": ({"output_size": size, "return_indices": True}, rank == 2),
        "adaptive_avg_pool": ({"output_size": size}, False),  # where it is a mean of everything, gradients are contiguous
    }
    for (_, x), (name, (options, exactly)) in itertools.product(layouts(shape), pools.items()):
        function = f"{name.split()[0]}{rank}d"
        ours, theirs = getattr(wg, function), getattr(F, function)
        assert_kept(lambda x, f=ours, o=options: f(x, **o), lambda x, f=theirs, o=options: f(x, **o), x, exactly=exactly)


@pytest.mark.parametrize("groups", ["one group", "depthwise"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_convolution_has_the_format_of_its_input_or_of_its_weight(shape, groups):
    rank, channels, size = len(shape) - 2, shape[1], min(2, *shape[2:])
    count = channels if groups == "depthwise" else 1
    outs = channels if groups == "depthwise" else 5
    for (_, x), kernel, name in itertools.product(layouts(shape), (1, size), ("conv", "conv_transpose")):
        sizes = (outs, channels // count) if name == "conv" else (channels, outs // count)
        weight, bias = torch.randn(*sizes, *(kernel,) * rank), torch.randn(outs)
        ours, theirs = getattr(wg, f"{name}{rank}d"), getattr(F, f"{name}{rank}d")
        for some in (weight, last(weight)):
            assert_kept(
                lambda x, w, b, f=ours: f(x, w, b, groups=count),
                lambda x, w, b, f=theirs: f(x, w, b, groups=count),
                *(x, some, bias),
                exactly=rank == 2,
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_values_and_indices_are_those_of_the_contiguous_tensor(dtype):
    x = torch.randn(2, 4, 6, 8).mul(9).to(dtype)
    whole = wg.max_pool2d(x, 2, return_indices=True)
    for _, other in layouts(x.shape):
        moved = torch.empty_strided(x.shape, other.stride(), dtype=dtype) if 0 not in other.stride() else last(x)
        moved.copy_(x)
        for found, right in zip(wg.max_pool2d(moved, 2, return_indices=True), whole, strict=True):
            assert torch.equal(found, right)
    assert all(is_channels_last(t.shape, t.stride()) for t in wg.max_pool2d(last(x), 2, return_indices=True))


def test_padding_and_smooth_maxima_keep_the_format():
    x = last(torch.randn(2, 4, 6, 8)).requires_grad_()
    for y in (wg.pad(x, (1, 1)), wg.smooth_max_pool2d(x, 2, beta=2.0), wg.global_avg_pool2d(x)):
        assert y.stride() == strides_of(y.shape, True)
        (g,) = torch.autograd.grad(y.sum(), x)
        assert g.stride() == x.stride()
    assert wg.pad(x, (1, 1)).stride() == F.pad(x, (1, 1, 1, 1)).stride()


def test_tangents_keep_the_format():
    x, w = last(torch.randn(2, 4, 6, 8)), torch.randn(5, 4, 3, 3)
    for f in (lambda x: wg.max_pool2d(x, 2), lambda x: wg.conv2d(x, w)):
        y, dy = torch.func.jvp(f, (x,), (last(torch.randn(x.shape)),))
        assert y.stride() == dy.stride() == strides_of(y.shape, True)


@pytest.mark.parametrize("name", ["max_pool2d", "conv2d", "avg_pool3d"])
def test_compiled_programs_have_the_strides_of_the_call(name):
    x = last(torch.randn(2, 4, 6, 6) if name[-2] == "2" else torch.randn(2, 4, 6, 6, 6))
    given = (torch.randn(3, 4, 2, 2),) if name == "conv2d" else (2,)

    def call(x):
        return getattr(wg, name)(x, *given)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    assert compiled.stride() == call(x).stride() == strides_of(compiled.shape, True)
    assert torch.equal(compiled, call(x))


def test_more_or_fewer_axes_than_a_batch_of_images_have_no_format():
    x = last(torch.randn(2, 4, 6, 8))
    assert wg.max_pool1d(x, 2).shape == (2, 4, 6, 4)
    assert wg.max_pool2d(x[0], 2).shape == (4, 3, 4)
    assert wg.max_pool3d(x, 2).shape == (2, 2, 3, 4)


PERMUTED = {
    "an image without a batch": ((5, 6, 4), (2, 0, 1), 2),
    "axes of length 1": ((1, 2, 1, 4), (0, 3, 2, 1), 1),
    "axes turned around": ((3, 4, 5, 2), (3, 2, 1, 0), 2),
}


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("name", PERMUTED)
def test_other_results_are_contiguous_as_pytorchs_are(name, kind):
    """So that `view` works on it; it had the strides of its input."""
    shape, order, kernel = PERMUTED[name]
    x = torch.randint(-4, 5, shape).float().permute(order)
    ours, theirs = (getattr(room, f"{kind}_pool2d")(x, kernel) for room in (wg, F))
    assert ours.stride() == theirs.stride()
    assert torch.equal(ours.view(-1), theirs.view(-1))
