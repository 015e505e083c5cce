"""The size of a transposed convolution by `output_size`: PyTorch's meaning, and the possible sizes in the error."""

import numpy as np
import pytest
import torch

import windowgrad as wg
from windowgrad import nn

W = np.ones((2, 3, 3, 3))
X = np.arange(2 * 16.0).reshape(1, 2, 4, 4)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_pytorch_gives_the_same(rank, size):
    layer = getattr(torch.nn, f"ConvTranspose{rank}d")(2, 3, 3, stride=3, padding=2, dtype=torch.float64)
    x = torch.randn(1, 2, *(3,) * rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    if not 5 <= size <= 7:
        with pytest.raises(wg.WindowError, match=rf"output_size={size} on axis 0: must be from 5 to 7 for an input of size 3"):
            getattr(wg, f"conv_transpose{rank}d")(x, layer.weight, layer.bias, 3, 2, output_size=size)
        return
    theirs = layer(x, output_size=(size,) * rank)
    for given in (size, (size,) * rank, theirs.shape):
        ours = getattr(wg, f"conv_transpose{rank}d")(x, layer.weight, layer.bias, 3, 2, output_size=given)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_every_possible_size_is_that_of_an_output_padding():
    for extra in range(3):
        found = wg.conv_transpose(X, W, stride=3, padding=1, output_size=(10 + extra, 10))
        assert (found == wg.conv_transpose(X, W, stride=3, padding=1, output_padding=(extra, 0))).all()


def test_it_is_differentiated_as_any_other():
    wg.check_grads(lambda x, w: wg.conv_transpose2d(x, w, stride=2, output_size=10), X, W)


def test_a_layer_has_it():
    layer = nn.ConvTranspose(3, (3, 3), 2, output_size=(10, 9))
    assert layer.out_shape((1, 2, 4, 4)) == (1, 3, 10, 9)
    params = layer.init(np.random.default_rng(0), X.shape, np.float64)
    assert layer(params, X).shape == (1, 3, 10, 9)
    with pytest.raises(wg.WindowError, match="output_size=10 on axis 0: must be from 11 to 12 for an input of size 5"):
        layer.out_shape((1, 2, 5, 4))
    with pytest.raises(wg.OptionError, match="give only one of them"):
        nn.ConvTranspose(3, (3, 3), 2, output_padding=1, output_size=10)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"output_size": 10, "output_padding": 1, "stride": 2},
            wg.OptionError,
            "output_size=10 and output_padding=1: give only one",
        ),
        ({"output_size": 7}, wg.WindowError, "output_size=7 on axis 0: must be 6 for an input of size 4"),
        ({"output_size": 2.5}, wg.KindError, "output_size=2.5 on axis 0: must be an integer, not float"),
        ({"output_size": (9, 9, 9)}, wg.WindowError, "has 3 entries for 2 axes"),
    ],
)
def test_what_is_wrong_is_said(options, error, text):
    with pytest.raises(error, match=text):
        wg.conv_transpose2d(X, W, **options)
