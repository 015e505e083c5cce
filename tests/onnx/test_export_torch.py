"""`torch.onnx.export` of modules with our layers: ONNX Runtime computes what the module does, for a batch of any size."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from support.interpreter import fresh
from windowgrad.bridges.torch import nn
from windowgrad.onnx import torch_translations

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PyTorch's exporter uses what PyTorch gives up
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LAYERS = {
    "max": nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "max with indices": nn.MaxPool2d(2, return_indices=True),
    "mean": nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    "mean of real cells": nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    "mean with a divisor": nn.AvgPool2d(2, divisor_override=3),
    "uneven bins": nn.AdaptiveAvgPool2d((3, 2)),
    "even bins": nn.AdaptiveMaxPool2d((2, 4)),
    "smooth": nn.SmoothMaxPool2d(2, padding=1, beta=-1.5),
    "smooth, learnt": nn.SmoothMaxPool2d(2, beta=1.5, learn_beta=3),
    "convolution": nn.Conv2d(3, 4, 3, padding=1, stride=2),
    "transposed": nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_module_with_our_layers_is_exported_by_pytorch(layer):
    batch = None if isinstance(getattr(layer, "beta", None), torch.nn.Parameter) else ({0: torch.export.Dim("batch")},)
    program = torch.onnx.export(
        torch.nn.Sequential(layer).eval(),
        (torch.ones(2, 3, 10, 8),),
        dynamo=True,
        custom_translation_table=torch_translations(),
        dynamic_shapes=batch,  # programs with a learnt β have a fixed one
        verbose=False,
    )
    x = torch.randn(5 if batch else 2, 3, 10, 8, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found, wanted = session.run(None, {session.get_inputs()[0].name: x.numpy()}), layer(x)
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        exact = want.detach().numpy()
        assert got.shape == exact.shape
        assert np.all(np.abs(got - exact) <= 32 * 2.0**-24 * np.maximum(np.abs(exact), 4))


def test_a_derivative_is_refused():
    """In an interpreter of its own: PyTorch's exporter leaves its transforms on when one fails inside."""
    printed = fresh("""
import warnings
warnings.simplefilter("ignore")  # of PyTorch's exporter
import torch
from windowgrad.bridges.torch import nn
from windowgrad.onnx import torch_translations

class Slope(torch.nn.Module):
    def forward(self, x):
        return torch.func.vjp(nn.MaxPool2d(2), x)[1](torch.ones(1, 1, 2, 2))[0]

try:
    torch.onnx.export(Slope().eval(), (torch.ones(1, 1, 4, 4),), dynamo=True, custom_translation_table=torch_translations())
except torch.onnx.OnnxExporterError:
    print("refused")
""")
    assert printed.splitlines()[-1] == "refused"
