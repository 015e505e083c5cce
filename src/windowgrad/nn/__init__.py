"""Neural network layers. A layer is an immutable description; its parameters are plain values that you keep.

model = nn.Sequential(nn.Conv(8, (3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Linear(10))
params = model.init(numpy.random.default_rng(0), (64, 1, 28, 28))
y = model(params, x)
"""

from windowgrad.nn.files import load, load_extra, save
from windowgrad.nn.layer import Layer
from windowgrad.nn.layers import Conv, ConvTranspose, Flatten, Linear, ReLU, Tanh
from windowgrad.nn.optimise import Optimiser, adam, sgd
from windowgrad.nn.pooling import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AdaptiveSmoothMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalSmoothMaxPool,
    MaxPool,
    SmoothMaxPool,
)
from windowgrad.nn.sequential import Sequential

__all__ = [
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AdaptiveSmoothMaxPool",
    "AvgPool",
    "Conv",
    "ConvTranspose",
    "Flatten",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GlobalSmoothMaxPool",
    "Layer",
    "Linear",
    "MaxPool",
    "Optimiser",
    "ReLU",
    "Sequential",
    "SmoothMaxPool",
    "Tanh",
    "adam",
    "load",
    "load_extra",
    "save",
    "sgd",
]
