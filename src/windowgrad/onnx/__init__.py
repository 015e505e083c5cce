"""ONNX models as functions of this project: `load(path)` gives a `Network`, which runs on arrays of any kind.

The `onnx` package reads and checks files; it is imported when a model is loaded, not before.
"""

from __future__ import annotations

from typing import Any

from windowgrad.onnx.exporting import export, torch_translations
from windowgrad.onnx.graph import Graph, Input, Node, decoded
from windowgrad.onnx.network import Network
from windowgrad.onnx.reading import Source, blaming, read
from windowgrad.onnx.supported import UnsupportedError

__all__ = ["Graph", "Input", "Network", "Node", "UnsupportedError", "export", "load", "torch_translations"]


def load(source: Source | Any) -> Network:
    """The network of an ONNX file, or of an `onnx.ModelProto`.

    Arguments:
        source: the path of a file, or a model in memory. Tensors stored in other files must be in the folder of the file.

    Returns a `Network`: `net(x)` computes it.

    >>> from onnx import parser
    >>> model = parser.parse_model('''
    ... <ir_version: 8, opset_import: ["" : 17]>
    ... small (float[N, 1, 4] x) => (float[N, 1, 2] y) { y = MaxPool<kernel_shape = [2], strides = [2]>(x) }''')
    >>> net = load(model)
    >>> net(np.array([[[1.0, 3.0, 2.0, 0.0]]]))
    array([[[3., 2.]]])
    """
    with blaming(source):
        return Network(decoded(read(source)))
