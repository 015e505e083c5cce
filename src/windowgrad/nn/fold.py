"""Batch normalisation with its running statistics as part of the layer before it: fewer layers, the same function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.autograd.arrays.normalise import inverse_root
from windowgrad.errors import KindError, show
from windowgrad.nn.layer import Layer
from windowgrad.nn.layers import Conv, ConvTranspose, Linear
from windowgrad.nn.normalise import BatchNorm
from windowgrad.nn.residual import Residual
from windowgrad.nn.sequential import Sequential

Array = np.ndarray[Any, Any]


def fold(model: Layer, params: Any) -> tuple[Layer, Any]:
    """(a model, its parameters) where every `BatchNorm` directly behind a convolution or a `Linear` is part of that layer.

    The new model computes what `model(params, x)` does, up to rounding: the folded weights are computed in float64 and rounded
    once. Over fractions it is the same function exactly. It is for inference: its `train` has no statistics to measure. A
    `BatchNorm` elsewhere stays, and so does one whose axis is not the one on which the layer before it has its channels.
    """
    if not isinstance(model, Layer):
        raise KindError(f"model={show(model)}: must be a layer")
    if isinstance(model, (Sequential, Residual)):
        model.check_params(params)
    if isinstance(model, Sequential):
        return _folded_sequence(model, params)
    if isinstance(model, Residual):
        parts = {name: fold(layer, params[name]) for name, layer in model.parts.items()}
        shortcut = parts["shortcut"][0] if "shortcut" in parts else None
        return Residual(parts["body"][0], shortcut), {name: own for name, (_, own) in parts.items()}
    return model, params


def _folded_sequence(model: Sequential, params: Any) -> tuple[Sequential, tuple[Any, ...]]:
    layers: list[Layer] = []
    kept: list[Any] = []
    for layer, own in zip(model.layers, params, strict=True):
        if layers and isinstance(layer, BatchNorm) and is_foldable(layers[-1], layer):
            layers[-1], kept[-1] = _joined(layers[-1], kept[-1], layer, own)
            continue
        new, changed = fold(layer, own)
        layers.append(new)
        kept.append(changed)
    return Sequential(*layers), tuple(kept)


def is_foldable(before: Layer, norm: BatchNorm) -> bool:
    """Whether the channels that are normalised are those that the layer before it makes; of one batch axis, axis 1."""
    if isinstance(before, (Conv, ConvTranspose)):
        return norm.axis in (1, -len(before.kernel_size) - 1)
    return isinstance(before, Linear) and norm.axis in (1, -1)


def _joined(layer: Any, params: Any, norm: BatchNorm, stats: Any) -> tuple[Layer, dict[str, Any]]:
    weight = params["weight"]
    mean, variance = (_wide(stats[name]) for name in norm.statistics)
    scale = inverse_root(variance + (norm.eps if variance.dtype.kind == "O" else float(norm.eps)))
    shift = -mean * scale
    if norm.affine:
        scale, shift = scale * _wide(stats["weight"]), shift * _wide(stats["weight"]) + _wide(stats["bias"])
    if layer.bias:
        shift = shift + _wide(params["bias"]) * scale
    new = {"weight": _scaled(layer, _wide(weight), scale), "bias": shift}
    return replace(layer, bias=True), {name: _in_dtype(value, weight.dtype) for name, value in new.items()}


def _scaled(layer: Layer, weight: Array, scale: Array) -> Array:
    """The weight with one number per output channel; those of a transposed convolution are on its second axis, by groups."""
    if not isinstance(layer, ConvTranspose):
        return weight * scale.reshape(-1, *(1,) * (weight.ndim - 1))
    groups, ones = layer.groups, (1,) * (weight.ndim - 2)
    parts = weight.reshape(groups, -1, *weight.shape[1:]) * scale.reshape(groups, 1, -1, *ones)
    return np.asarray(parts).reshape(weight.shape)


def _wide(x: Array) -> Array:
    return x if x.dtype.kind == "O" else x.astype(np.float64)


def _in_dtype(x: Array, dtype: np.dtype[Any]) -> Array:
    return x if x.dtype.kind == "O" else x.astype(dtype)
