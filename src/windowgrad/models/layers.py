"""The layers of a network on zeros: what a page shows of each, its windows included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from windowgrad.geometry import Geometry, Global, Sliding
from windowgrad.nn.summary import Row
from windowgrad.onnx import Network, Node
from windowgrad.onnx.costs import row_of
from windowgrad.onnx.operators.windows import kernel_of, padding, rank_of, sides, transposed_padding

Shape = tuple[int, ...]


class Windows(NamedTuple):
    """The geometry of a layer, and the sizes of the cells and of the grid it relates; of a transposed convolution, swapped."""

    geometry: Geometry
    cells: Shape
    grid: Shape


class Layer(NamedTuple):
    """A node that was computed: `inputs` are the shapes of the values that go in, by name."""

    node: Node
    row: Row
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    dtype: np.dtype[Any]
    windows: Windows | None


def layers(net: Network, in_shapes: Sequence[Shape] = ()) -> Iterator[Layer]:
    """Every node in the order in which it is computed."""
    shapes = net.in_shapes(*in_shapes)
    zeros = [np.zeros(shape, value.dtype) for shape, value in zip(shapes, net.inputs, strict=True)]
    for step in net.steps(*zeros):
        inputs = {name: tuple(array.shape) for name, array in zip(step.node.inputs, step.inputs, strict=True) if name}
        outputs = {name: tuple(array.shape) for name, array in step.results.items()}
        dtype = np.asarray(next(iter(step.results.values()))).dtype
        yield Layer(step.node, row_of(*step, net.params), inputs, outputs, dtype, windows_of(step.node, step.inputs, outputs))


def windows_of(node: Node, inputs: Sequence[Any], outputs: dict[str, Shape]) -> Windows | None:
    """The windows of pooling and convolution; None of everything else."""
    x: Any = inputs[0] if inputs else None
    out = next(iter(outputs.values()), ())[2:]
    if node.op_type in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        return Windows(Global(rank_of(x)), tuple(x.shape[2:]), out)
    if node.op_type not in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        return None
    kernel = kernel_of(node, inputs[1]) if node.op_type.startswith("Conv") else node.get("kernel_shape")
    given = sides(node, x, kernel)
    pads = transposed_padding(node, given)[0] if node.op_type == "ConvTranspose" else padding(node, given)
    stride, dilation = (tuple(getattr(side, name) for side in given) for name in ("stride", "dilation"))
    sliding = Sliding(tuple(kernel), stride, tuple(pads), dilation, bool(node.get("ceil_mode", 0)))
    spatial = tuple(x.shape[2:])
    return Windows(sliding, out, spatial) if node.op_type == "ConvTranspose" else Windows(sliding, spatial, out)


def in_short(geometry: Geometry) -> str:
    """`3×3 /2 p1 d2`: the window, its stride, padding and dilation, without what is usual."""
    if not isinstance(geometry, Sliding):
        return "all cells"
    lows, highs = (tuple(pair[side] for pair in geometry.padding) for side in (0, 1))
    pads = f"p{short(lows)}" if lows == highs else f"p{short(lows)}:{short(highs)}"
    parts = ["×".join(map(str, geometry.kernel))]
    parts += [f"/{short(geometry.stride)}"] if set(geometry.stride) != {1} else []
    parts += [pads] if any(lows + highs) else []
    parts += [f"d{short(geometry.dilation)}"] if set(geometry.dilation) != {1} else []
    return " ".join([*parts, *["ceil"] * any(geometry.ceil_mode)])


def short(sizes: Shape) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else "×".join(map(str, sizes))
