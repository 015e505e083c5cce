"""Whole networks against PyTorch's, with the same weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from windowgrad import nn

NETWORKS = {
    "image": (
        nn.Sequential(
            nn.Conv(6, (3, 3), padding=1),
            nn.ReLU(),
            nn.MaxPool((3, 3), 2, 1, ceil_mode=True),
            nn.Sequential(nn.Conv(4, (3, 2), (2, 1), (0, 1), (1, 2), groups=2, bias=False), nn.Tanh()),
            nn.ConvTranspose(4, (3, 3), 2, 1, 1, 2),
            nn.AvgPool((2, 2), 1, 1, count_include_pad=False),
            nn.AdaptiveMaxPool((3, None)),
            nn.Flatten(),
            nn.Linear(5),
        ),
        lambda t: t.Sequential(
            t.Conv2d(2, 6, 3, padding=1),
            t.ReLU(),
            t.MaxPool2d(3, 2, 1, ceil_mode=True),
            t.Sequential(t.Conv2d(6, 4, (3, 2), (2, 1), (0, 1), (1, 2), 2, bias=False), t.Tanh()),
            t.ConvTranspose2d(4, 4, 3, 2, 1, 1, 2),
            t.AvgPool2d(2, 1, 1, count_include_pad=False),
            t.AdaptiveMaxPool2d((3, None)),
            t.Flatten(),
            t.LazyLinear(5),
        ),
        (2, 2, 11, 10),
    ),
    "signal": (
        nn.Sequential(nn.Conv(4, (5,), 2, 2), nn.ReLU(), nn.AvgPool((2,)), nn.AdaptiveAvgPool((3,)), nn.Linear(2, bias=False)),
        lambda t: t.Sequential(
            t.Conv1d(3, 4, 5, 2, 2), t.ReLU(), t.AvgPool1d(2), t.AdaptiveAvgPool1d(3), t.Linear(3, 2, bias=False)
        ),
        (2, 3, 21),
    ),
    "volume": (
        nn.Sequential(nn.Conv(3, (3, 3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2, 2)), nn.GlobalAvgPool(3), nn.Linear(2)),
        lambda t: t.Sequential(
            t.Conv3d(2, 3, 3, padding=1),
            t.ReLU(),
            t.MaxPool3d(2),
            t.Sequential(t.AdaptiveAvgPool3d(1), t.Flatten()),
            t.Linear(3, 2),
        ),
        (2, 2, 4, 6, 5),
    ),
}


def copied(model, params):
    """The parameters given to the modules of PyTorch that stand at the same place."""
    for module, own in zip(model, params, strict=True):
        if isinstance(own, tuple):
            copied(module, own)
        for name, array in own.items() if isinstance(own, dict) else ():
            assert getattr(module, name).shape == array.shape
            getattr(module, name).data = torch.from_numpy(array.copy())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_what_pytorchs_gives_with_the_same_weights(name):
    ours, make, shape = NETWORKS[name]
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    theirs = make(torch.nn)
    theirs(torch.from_numpy(x))  # a lazy module learns its size
    params = ours.init(np.random.default_rng(0), shape)
    copied(theirs, params)
    wanted = theirs(torch.from_numpy(x)).detach().numpy()
    y = ours(params, x)
    assert y.dtype == np.float32
    assert y.shape == wanted.shape == ours.out_shape(shape)
    assert np.allclose(y, wanted, rtol=1e-5, atol=1e-6)
    count = sum(p.numel() for p in theirs.parameters())
    assert ours.summary(shape).splitlines()[-1].split()[1] == f"{count:,}"


@pytest.mark.parametrize(
    ("layer", "module", "shape"),
    [
        (nn.Conv(64, (3, 3), groups=2), torch.nn.Conv2d(8, 64, 3, groups=2), (1, 8, 5, 5)),
        (nn.ConvTranspose(8, (3, 3), groups=2), torch.nn.ConvTranspose2d(64, 8, 3, groups=2), (1, 64, 5, 5)),
        (nn.Linear(64), torch.nn.Linear(100, 64), (1, 100)),
    ],
    ids=["Conv", "ConvTranspose", "Linear"],
)
def test_first_parameters_are_as_large_as_pytorchs(layer, module, shape):
    params = layer.init(np.random.default_rng(0), shape)
    torch.manual_seed(0)
    module.reset_parameters()
    for name, array in params.items():
        theirs = getattr(module, name).detach().numpy()
        assert array.shape == theirs.shape
        assert 0.5 < abs(array).max() / abs(theirs).max() < 2
