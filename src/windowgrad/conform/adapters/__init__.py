"""The implementations that `conform` knows, in the order they are shown."""

from __future__ import annotations

from windowgrad.conform.adapter import Implementation
from windowgrad.conform.adapters.equinox import Equinox
from windowgrad.conform.adapters.flax import Flax
from windowgrad.conform.adapters.jax import Lax
from windowgrad.conform.adapters.keras import Keras
from windowgrad.conform.adapters.onnx import Reference, Runtime
from windowgrad.conform.adapters.scientific import BlockReduce, SciPy
from windowgrad.conform.adapters.tinygrad import Tinygrad
from windowgrad.conform.adapters.torch import Torch
from windowgrad.conform.adapters.torch_compile import Compiled
from windowgrad.conform.adapters.windowgrad import DaskArrays, JaxArrays, OnNumPy, TorchTensors

ADAPTERS: tuple[Implementation, ...] = (
    OnNumPy(),
    TorchTensors(),
    JaxArrays(),
    DaskArrays(),
    Torch(),
    Compiled(),
    Lax(),
    Flax(),
    Equinox(),
    Keras(),
    Reference(),
    Runtime(),
    Tinygrad(),
    BlockReduce(),
    SciPy(),
)
