"""Layers that ONNX has as one operator, though they are several calls here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.nn import BatchNorm, Layer, Linear
from windowgrad.onnx.exporting.recording import Note
from windowgrad.onnx.exporting.writer import Graph


def linear(graph: Graph, note: Note, x: str) -> str | None:
    """Gemm, for rows of one batch axis, all of one dtype."""
    if len(note.x.shape) != 2 or not one_dtype(note):
        return None
    weights = [graph.constant(note.params[name]) for name in ("weight", "bias") if name in note.params]
    return graph.node("Gemm", x, *weights, transB=1)


def batch_norm(graph: Graph, note: Note, x: str) -> str | None:
    """BatchNormalization, for the channels on axis 1. Its epsilon has 32 bits, so the dtype is float32."""
    layer: Any = note.layer
    fits = layer.affine and len(note.x.shape) > 1 and layer.axis % len(note.x.shape) == 1 and note.x.dtype == np.float32
    if not fits or not one_dtype(note):
        return None
    weights = [graph.constant(note.params[name]) for name in ("weight", "bias", *layer.statistics)]
    return graph.node("BatchNormalization", x, *weights, epsilon=float(layer.eps))


def one_dtype(note: Note) -> bool:
    return {array.dtype for array in note.params.values()} == {note.x.dtype}


TABLE: dict[type[Layer], Callable[[Graph, Note, str], str | None]] = {BatchNorm: batch_norm, Linear: linear}
"""Each returns the name of the result, or None where the calls are written one by one."""
