"""From what a user holds to the nodes that bounds read: a model with its parameters, a loaded network, or any function of x."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from windowgrad.autograd import trees
from windowgrad.autograd.program import Program, record
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.nn.layer import Layer
from windowgrad.nn.normalise import BatchNorm
from windowgrad.nn.residual import Residual
from windowgrad.nn.sequential import Sequential
from windowgrad.onnx.network import Network

Array = np.ndarray[Any, Any]


def recorded(net: Any, shape: tuple[int, ...]) -> Program:
    """The calls of `net` on one input of this shape, its batch axis of one included, in float64."""
    example = np.zeros(shape)
    if isinstance(net, tuple) and len(net) == 2 and isinstance(net[0], Layer):
        model, params = net
        if any(isinstance(layer, BatchNorm) for layer in layers(model)):
            raise KindError("net: batch normalisation has no bounds of its own; fold it first: nn.fold(model, params)")
        leaves, structure = trees.values("params", params)
        wide = trees.unflatten(structure, [widened(leaf) for leaf in leaves])
        return record(lambda x: model(wide, x), example)
    if isinstance(net, Network):
        check_operators(net)
    if isinstance(net, Layer) or not callable(net):
        raise KindError(f"net={show(net)}: must be a function of x, a loaded network, or a pair (model, params)")
    return record(net, example)


MOVES = frozenset(
    [
        "Cast",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Neg",
        "Pad",
        "Reshape",
        "Shape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators of ONNX that round nothing."""
BOUNDED = MOVES | frozenset(
    [
        "Abs",
        "Add",
        "AveragePool",
        "Clip",
        "Conv",
        "ConvTranspose",
        "Div",
        "Gemm",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "HardSigmoid",
        "LeakyRelu",
        "MatMul",
        "Max",
        "MaxPool",
        "Min",
        "Mul",
        "PRelu",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
        "Relu",
        "Sigmoid",
        "Sub",
        "Sum",
        "Tanh",
        "avg_pool",
        "max_pool",
        "min_pool",
        "smooth_max_pool",
    ]
)
"""Those whose calls have the constants of the model, and none that are computed from them with a rounding."""


def check_operators(net: Network) -> None:
    """Refuse what would be bounded as another network: operators that round constants, and arithmetic of constants alone."""
    known = set(net.graph.constants)
    wrong = sorted({node.op_type for node in net.graph.nodes if node.op_type not in BOUNDED})
    if wrong:
        hint = "; fold batch normalisation into the model first" if "BatchNormalization" in wrong else ""
        raise KindError(f"net: no bounds for the operators {', '.join(wrong)}{hint}")
    for node in net.graph.nodes:
        if all(not name or name in known for name in node.inputs):
            if node.op_type not in MOVES:
                raise KindError(
                    f"net: node {node} computes with constants alone, which rounds them; fold them in the model first"
                )
            known.update(node.outputs)
        if node.op_type == "Gemm" and node.get("beta", 1.0) != 1 and len(node.inputs) > 2:
            raise KindError(
                f"net: node {node} has beta={node.get('beta')}, which rounds its constant; fold it in the model first"
            )


def widened(leaf: Any) -> Array:
    """A parameter in float64, which holds float32 exactly."""
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fiub" or leaf.dtype.itemsize > 8:
        raise KindError(f"params: bounds need NumPy arrays of floats up to 64 bits, not {show(getattr(leaf, 'dtype', leaf))}")
    return leaf.astype(np.float64)


def layers(model: Layer) -> Iterator[Layer]:
    """All layers inside a model."""
    yield model
    inner = model if isinstance(model, Sequential) else model.parts.values() if isinstance(model, Residual) else ()
    for layer in inner:
        yield from layers(layer)


def box_ends(lo: Any, hi: Any) -> tuple[Array, Array]:
    """The ends of a batch of boxes in float64, checked."""
    ends = []
    for name, end in (("lo", lo), ("hi", hi)):
        if not isinstance(end, np.ndarray) or end.dtype.kind not in "fiub" or end.dtype.itemsize > 8:
            raise KindError(f"{name}={show(end)}: must be a NumPy array of real numbers of at most 64 bits")
        if not np.isfinite(end).all():
            raise OptionError(f"{name}: must be finite")
        wide = end.astype(np.float64)
        if not (wide == end).all():
            raise OptionError(f"{name}: must hold numbers that float64 holds exactly")
        ends.append(wide)
    low, high = ends
    if low.shape != high.shape:
        raise WindowError(f"hi of shape {high.shape}: must be {low.shape}, the shape of lo")
    if not low.ndim:
        raise WindowError("lo of shape (): must have a batch axis first")
    if (low > high).any():
        at = tuple(int(i) for i in np.argwhere(low > high)[0])
        raise OptionError(f"lo[{show(at)}]={low[at]}: must not be above hi, {high[at]}")
    return low, high
