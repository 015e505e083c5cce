"""Models as ONNX files: `export` records what a model computes and writes it with ONNX's operators."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from windowgrad.errors import KindError, show
from windowgrad.loading import loading
from windowgrad.nn.layer import Layer
from windowgrad.saving import Path, check_place, replacing

if TYPE_CHECKING:
    import onnx

Shapes = tuple[int, ...] | Mapping[str, tuple[int, ...]]


def export(
    model: Layer | Callable[..., Any],
    params: Any,
    in_shape: Shapes,
    path: Path | None = None,
    *,
    dtype: Any = np.float32,
    opset: int = 21,
    batch: str | None = "N",
) -> onnx.ModelProto:
    """Write a model as an ONNX file, and return it.

    Arguments:
        model: a layer of `windowgrad.nn`, or any function written with this package's functions: `f(params, *inputs)`, or
            `f(*inputs)` if `params` is None.
        params: the parameters, nested tuples, lists and dicts of arrays. They become initialisers named by their places.
        in_shape: the shape of the input, which is called x; for several inputs a dict of their names and shapes, in order.
        path: the file, which is replaced atomically; None writes none.
        dtype: that of the input, or a dict with one for each.
        opset: the version of ONNX's operators, from 19 on.
        batch: the name of the first axis, which then has any size if the model allows it; None fixes it.

    >>> from windowgrad import nn
    >>> model = nn.Sequential(nn.Conv(2, (3, 3)), nn.ReLU(), nn.SmoothMaxPool((2, 2), beta=4))
    >>> params = model.init(np.random.default_rng(0), (1, 1, 6, 6))
    >>> [node.op_type for node in export(model, params, (1, 1, 6, 6)).graph.node]
    ['Conv', 'Relu', 'smooth_max_pool']
    """
    if path is not None:
        if not isinstance(path, (str, os.PathLike)):
            raise KindError(f"path={show(path)}: must be the name of a file, not {type(path).__name__}")
        check_place("path", path)
    with loading:
        from windowgrad.onnx.exporting.model import made
    proto = made(model, params, in_shape, dtype, opset, batch)
    if path is not None:
        with replacing(path) as file:
            file.write(proto.SerializeToString())
    return proto


def torch_translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What `torch.onnx.export` is to be given as `custom_translation_table` for a module with layers of this package.

    It needs the package `onnxscript`, as PyTorch's exporter does.
    """
    with loading:
        from windowgrad.onnx.exporting.translations import table
    return table()
