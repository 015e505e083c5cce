"""The U-Net of the examples against PyTorch's: transposed convolution, joining and batch normalisation, trained."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn as t

import windowgrad as wg
from support.paths import EXAMPLES
from windowgrad import nn


def unit(ins, width):
    pairs = [(ins, width), (width, width)]
    return t.Sequential(
        *(layer for a, b in pairs for layer in (t.Conv2d(a, b, 3, padding=1, bias=False), t.BatchNorm2d(b), t.ReLU()))
    )


class TorchUNet(t.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = unit(1, 8), unit(8, 16), unit(16, 32)
        self.up2, self.join2 = t.ConvTranspose2d(32, 16, 2, 2), unit(32, 16)
        self.up1, self.join1 = t.ConvTranspose2d(16, 8, 2, 2), unit(16, 8)
        self.head = t.Conv2d(8, 2, 1)

    def forward(self, x):
        top = self.down1(x)
        middle = self.down2(t.functional.max_pool2d(top, 2))
        bottom = self.bottom(t.functional.max_pool2d(middle, 2))
        middle = self.join2(torch.cat([self.up2(bottom), middle], 1))
        return self.head(self.join1(torch.cat([self.up1(middle), top], 1)))


def test_a_unet_trains_as_pytorchs_does():
    """Float64, so that 1e-5 is far above rounding: three steps of Adam, and inference with the statistics they left."""
    unet = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "unet.py")))
    params = unet.init(np.random.default_rng(0), np.float64)
    theirs = TorchUNet().double()
    theirs.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in named(params).items()}, strict=False)
    optimizer, rng = torch.optim.Adam(theirs.parameters(), 0.01), np.random.default_rng(5)
    batches = [unet.discs(rng, 4, 16) for _ in range(3)]
    optimiser = nn.adam(0.01)
    state, gradients = optimiser.init(params), wg.value_and_grad(unet.loss, has_aux=True)
    for x, labels in batches:
        (value, params), grads = gradients(params, x.astype(np.float64), labels)
        params, state = optimiser.update(params, grads, state)
        optimizer.zero_grad()
        wanted = t.functional.cross_entropy(theirs(torch.from_numpy(x).double()), torch.from_numpy(labels))
        wanted.backward()
        assert abs(float(value) - wanted.item()) < 1e-5
        for name, parameter in theirs.named_parameters():
            np.testing.assert_allclose(named(grads)[name], parameter.grad.numpy(), rtol=1e-5, atol=1e-8, err_msg=name)
        optimizer.step()
    x = batches[0][0].astype(np.float64)
    wanted = theirs.eval()(torch.from_numpy(x)).permute(0, 2, 3, 1).detach().numpy()
    np.testing.assert_allclose(unet.scores(params, x), wanted, rtol=1e-5, atol=1e-5)


def named(params, prefix=""):
    if isinstance(params, np.ndarray):
        return {prefix[:-1]: params}
    entries = params.items() if isinstance(params, dict) else enumerate(params)
    return {key: value for name, own in entries for key, value in named(own, f"{prefix}{name}.").items()}
