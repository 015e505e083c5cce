"""Neural network layers. A layer is an immutable description; its parameters are plain values that you keep.

model = nn.Sequential(nn.Conv(8, (3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Linear(10))
params = model.init(numpy.random.default_rng(0), (64, 1, 28, 28))
y = model(params, x)
"""

from windowgrad.nn import pooling
from windowgrad.nn.compiled import Compiled, compile  # noqa: A004  # PyTorch's name
from windowgrad.nn.files import load, load_extra, save
from windowgrad.nn.fold import fold
from windowgrad.nn.from_torch import load_torch
from windowgrad.nn.layer import Layer
from windowgrad.nn.layers import Conv, ConvTranspose, Flatten, Linear, ReLU, ReLU6, Tanh
from windowgrad.nn.normalise import BatchNorm
from windowgrad.nn.optimise import Optimiser, adam, sgd
from windowgrad.nn.pooling import *  # noqa: F403  # its __all__ is the list of pooling layers, in one place
from windowgrad.nn.residual import Residual
from windowgrad.nn.sequential import Sequential

__all__ = [
    "BatchNorm",
    "Compiled",
    "Conv",
    "ConvTranspose",
    "Flatten",
    "Layer",
    "Linear",
    "Optimiser",
    "ReLU",
    "ReLU6",
    "Residual",
    "Sequential",
    "Tanh",
    "adam",
    "compile",
    "fold",
    "load",
    "load_extra",
    "load_torch",
    "save",
    "sgd",
]
__all__ += pooling.__all__
