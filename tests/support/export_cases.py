"""Layers to export: every layer of `nn` with geometries of all kinds, and how far a runtime may be from the exact result."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime

from windowgrad import nn
from windowgrad.geometry import Adaptive, Global

UNIT = 2.0**-24
SIZES = (9, 8, 7)

WINDOWS = {
    "plain": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "ceil": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    "ceil, the last window dropped": {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    "asymmetric": {"kernel_size": 3, "stride": 2, "padding": "asymmetric", "ceil_mode": True},
    "dilated": {"kernel_size": 3, "stride": 2, "padding": 2, "dilation": 2, "ceil_mode": True},
    "beyond the kernel": {"kernel_size": 2, "stride": 1, "padding": 3},
    "beyond the kernel, ceil": {"kernel_size": 2, "stride": 4, "padding": 3, "ceil_mode": True},
}
BINS = {"even": (3, 2, 7), "uneven": (4, 3, 2), "one": (1, 1, 1), "more than cells": (12, 8, 3), "kept": (None, 3, 2)}


def windows(rank):
    for name, given in WINDOWS.items():
        options = {**given, "kernel_size": (given["kernel_size"],) * rank}
        if options.get("padding") == "asymmetric":
            options["padding"] = ((1, 0), (0, 1), (2, 1))[:rank]
        yield name, options


def pooling(rank):
    for name, given in windows(rank):
        yield name, nn.MaxPool(**given)
        yield name, nn.MinPool(**given)
        for include in (True, False):
            yield name, nn.AvgPool(**given, count_include_pad=include)
        yield name, nn.AvgPool(**given, divisor_override=5)
        yield name, nn.SmoothMaxPool(**given, beta=1.3)
        yield name, nn.SmoothMaxPool(**given, beta=-0.7, count_include_pad=False)
        yield name, nn.SmoothMaxPool(**given, beta=-2.5, learn_beta=True)
        yield name, nn.SmoothMaxPool(**given, beta=1.5, learn_beta="channel")
        for p in (1, 2, 3, 2.5):
            yield name, nn.LpPool(p, **given)
    for name, sizes in BINS.items():
        bins = sizes[:rank]
        yield name, nn.AdaptiveMaxPool(bins)
        yield name, nn.AdaptiveMinPool(bins)
        yield name, nn.AdaptiveAvgPool(bins)
        yield name, nn.AdaptiveSmoothMaxPool(bins, beta=2)
        yield name, nn.AdaptiveLpPool(2, bins)
    for keepdims in (True, False):
        yield "global", nn.GlobalMaxPool(rank, keepdims)
        yield "global", nn.GlobalMinPool(rank, keepdims)
        yield "global", nn.GlobalAvgPool(rank, keepdims)
        yield "global", nn.GlobalSmoothMaxPool(rank, keepdims, beta=2)
        yield "global", nn.GlobalLpPool(3, rank, keepdims)


def others(rank):
    kernel = (3,) * rank
    for name, given in windows(rank):
        if "ceil_mode" not in given:
            yield name, nn.Conv(4, **given)
            yield name, nn.Conv(6, **given, groups=3, bias=False)
    for mode in ("reflect", "replicate", "circular"):
        yield mode, nn.Conv(4, kernel, padding=2, padding_mode=mode)
        yield f"{mode} beyond the input", nn.Conv(4, kernel, padding=9, padding_mode=mode)
    yield "transposed", nn.ConvTranspose(4, kernel, 2, 1, 1)
    yield "transposed, asymmetric", nn.ConvTranspose(4, kernel, 2, ((0, 1), (1, 0), (2, 1))[:rank], dilation=2)
    yield "transposed, cells no window reaches", nn.ConvTranspose(3, kernel, 1, 0, 1, 3, dilation=2)
    yield "transposed, padding beyond the kernel", nn.ConvTranspose(4, kernel, 3, 4, bias=False)
    for layer in (nn.BatchNorm(), nn.BatchNorm(axis=-1), nn.BatchNorm(affine=False), nn.ReLU(), nn.ReLU6(), nn.Tanh()):
        yield "", layer
    yield "", nn.Flatten()
    yield "", nn.Linear(4)


def cases():
    """(what it shows, layer, shape of the input)."""
    for rank in (1, 2, 3):
        shape = (2, 3, *SIZES[:rank])
        for name, layer in (*pooling(rank), *others(rank)):
            yield f"{name} {layer} {rank}d", layer, shape
        kernel = (3,) * rank
        for lead in ((5,), (2, 2, 3), (2, 1, 2, 2)):
            for layer in (
                nn.MaxPool(kernel, 1, 1),
                nn.AvgPool(kernel, 1, 4),
                nn.GlobalMaxPool(rank),
                nn.GlobalAvgPool(rank, True),
                nn.MinPool(kernel),
            ):
                yield f"axes {lead} {layer}", layer, (*lead, *SIZES[:rank])
        yield f"axes (2, 2, 3) convolution {rank}d", nn.Conv(2, kernel), (2, 2, 3, *SIZES[:rank])
    yield "rows", nn.Linear(4), (3, 5)
    yield "rows", nn.Linear(4, bias=False), (3, 5)


CASES = list(cases())
NAMES = [name for name, _, _ in CASES]


def drawn(layer, shape, seed=0):
    """Parameters that are all different, so that none can be mistaken for another."""
    rng = np.random.default_rng(seed)
    params = layer.init(rng, shape)
    if isinstance(layer, nn.BatchNorm):
        params = {name: rng.uniform(0.5, 2, array.shape).astype(np.float32) for name, array in params.items()}
    return params


def bound(layer, params, x):
    """How far a float32 result may be from the exact one: the rule of the operator for sums in any order, of so many cells."""
    big = {name: np.abs(array.astype(np.float64)) for name, array in params.items()}
    size, y = np.abs(x.astype(np.float64)), np.abs(layer(wide(params), x.astype(np.float64)))
    n = cells(layer, x.shape)
    match type(layer).__name__.removeprefix("Adaptive").removeprefix("Global"):
        case "AvgPool":
            return n * UNIT * layer({}, size)
        case "SmoothMaxPool":
            least = np.min(np.abs(params["beta"])) if "beta" in params else abs(layer.beta)
            return (n + 4) * UNIT * np.maximum(y, 1 / least)
        case "LpPool":
            return (n + 8) * UNIT * y
        case "Conv" | "ConvTranspose" | "Linear":
            return (math.prod(params["weight"].shape[1:]) * 2 + 2) * UNIT * layer(big, size)
        case "BatchNorm":
            return 8 * UNIT * (y + 8 * (1 + size))
        case "Tanh":
            return 4 * UNIT
    return 0


def cells(layer, shape):
    """The most cells that one output sees."""
    window = getattr(layer, "window", None)
    if isinstance(window, (Adaptive, Global)):
        spatial = shape[len(shape) - window.rank :]
        return math.prod(int(window.table(axis, n).count.max()) for axis, n in enumerate(spatial))
    return math.prod(getattr(layer, "kernel_size", (1,)))


def wide(params):
    return {name: array.astype(np.float64) for name, array in params.items()}


def by_runtime(model, *arrays):
    """What ONNX Runtime computes."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([given.name for given in session.get_inputs()], arrays, strict=True)))
