"""ONNX's pooling and convolution as calls of this project: attributes made explicit arguments, and the data of ONNX's tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test import loader

import windowgrad as wg
from windowgrad.geometry import index_of, place_of

KINDS = ("node", "pytorch-converted", "pytorch-operator")


def computed(node: Any, *inputs: Any) -> list[Any]:
    """The outputs of the node."""
    if node.op_type.startswith("Global"):
        pool = wg.global_max_pool if node.op_type == "GlobalMaxPool" else wg.global_avg_pool
        return [pool(inputs[0], inputs[0].ndim - 2)]
    if node.op_type == "MaxUnpool":
        return [unpooled(node, *inputs)]
    return [convolved(node, *inputs)] if node.op_type.startswith("Conv") else pooled(node, *inputs)


def pooled(node: Any, x: Any) -> list[Any]:
    """What a node with windows computes: MaxPool, with its indices if it is asked for them, or AveragePool."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    kernel = tuple(given["kernel_shape"])
    strides, dilations = (tuple(given.get(name, (1,) * len(kernel))) for name in ("strides", "dilations"))
    sides = list(zip(x.shape[2:], kernel, strides, dilations, strict=True))
    window = {"stride": strides, "padding": resolved_pads(given, sides), "dilation": dilations}
    window["ceil_mode"] = bool(given.get("ceil_mode", 0))
    if node.op_type == "AveragePool":
        return [wg.avg_pool(x, kernel, **window, count_include_pad=bool(given.get("count_include_pad", 0)))]
    if len(node.output) == 1:
        return [wg.max_pool(x, kernel, **window)]
    y, index = wg.max_pool(x, kernel, **window, return_indices=True)
    return [y, flat(index, x.shape, given.get("storage_order", 0))]


def flat(index: Any, shape: tuple[int, ...], storage_order: int) -> Any:
    """ "The values of indices of are the indices of the selected values during max pooling. The indices are computed as flatten
    1-D tensor": by rows (storage_order 0), or each plane by columns (1)."""
    place, plane = place_of(index, shape[2:]), shape[2:]
    within = index_of(place[::-1], plane[::-1]) if storage_order else index
    planes = np.arange(shape[0] * shape[1]).reshape(shape[:2] + (1,) * (index.ndim - 2))
    return within + planes * np.prod(shape[2:])


def unpooled(node: Any, x: Any, indices: Any, output_shape: Any = None) -> Any:
    """ "The indices ... are the indices of the selected values ... computed as flatten 1-D tensor" of the output whose size
    follows from the attributes; "output_shape" only puts zeros after it."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    kernel = tuple(given["kernel_shape"])
    strides, padding = tuple(given.get("strides", (1,) * len(kernel))), explicit(given, len(kernel))
    plane = wg.conv_transpose_out_shape(x.shape[2:], kernel, strides, padding)
    y = wg.max_unpool(x, indices % np.prod(plane), kernel, strides, padding)
    if output_shape is None:
        return y
    return wg.pad(y, [(0, int(n) - m) for n, m in zip(output_shape[2:], plane, strict=True)])


def convolved(node: Any, x: Any, w: Any, bias: Any = None) -> Any:
    """What the node computes."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    rank = w.ndim - 2
    assert tuple(given.get("kernel_shape", w.shape[2:])) == w.shape[2:]  # "If not present, should be inferred from input W."
    strides, dilations = (tuple(given.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    sides = list(zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True))
    common = {"stride": strides, "dilation": dilations, "groups": given.get("group", 1)}
    if node.op_type == "Conv":
        return wg.conv(x, w, bias, padding=resolved_pads(given, sides), **common)
    padding, extra = transpose_pads(given, sides)
    return wg.conv_transpose(x, w, bias, padding=padding, output_padding=extra, **common)


def auto_pad(given: dict[str, Any]) -> str:
    return given.get("auto_pad", b"NOTSET").decode()


def explicit(given: dict[str, Any], rank: int) -> list[tuple[int, int]]:
    """ "pads format should be as follow [x1_begin, x2_begin...x1_end, x2_end,...]", and VALID means none."""
    pads = given.get("pads", [0] * 2 * rank)
    return list(zip(pads[:rank], pads[rank:], strict=True))


def resolved_pads(given: dict[str, Any], sides: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """ "SAME_UPPER or SAME_LOWER mean pad the input so that output_shape[i] = ceil(input_shape[i] / strides[i])"; an odd cell
    "is added at the end for SAME_UPPER and at the beginning for SAME_LOWER"."""
    if auto_pad(given) in ("NOTSET", "VALID"):
        return explicit(given, len(sides))
    total = [max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n) for n, k, s, d in sides]
    return [(t // 2, t - t // 2) if auto_pad(given) == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]


def transpose_pads(given: dict[str, Any], sides: list[tuple[int, ...]]) -> tuple[list[tuple[int, int]], list[int]]:
    """(padding, output_padding). With an output_shape, or with SAME, for which it is input_shape[i] · strides[i]:

    "total_padding[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ((kernel_shape[i] - 1) * dilations[i] + 1) -
    output_shape[i]. If (auto_pads == SAME_UPPER): pads[start_i] = total_padding[i]/2; pads[end_i] = total_padding[i] -
    (total_padding[i]/2). Else: pads[start_i] = total_padding[i] - (total_padding[i]/2); pads[end_i] = (total_padding[i]/2)."
    A total below zero is that much more output_padding.
    """
    extra = list(given.get("output_padding", [0] * len(sides)))
    same = auto_pad(given).startswith("SAME")
    if not same and "output_shape" not in given:
        return explicit(given, len(sides)), extra
    shape = given.get("output_shape", [n * s for n, _, s, _ in sides])[-len(sides) :]
    total = [s * (n - 1) + e + d * (k - 1) + 1 - m for (n, k, s, d), e, m in zip(sides, extra, shape, strict=True)]
    extra = [e + max(0, -t) for e, t in zip(extra, total, strict=True)]
    total = [max(0, t) for t in total]
    return [(t // 2, t - t // 2) if auto_pad(given) == "SAME_UPPER" else (t - t // 2, t // 2) for t in total], extra


# --- the data that the package carries -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """One of ONNX's tests: a model that is one node, and where its arrays are."""

    name: str
    model: Any
    folder: Path
    rtol: float
    atol: float

    @property
    def node(self) -> Any:
        return self.model.graph.node[0]

    def sets(self) -> list[tuple[list[Any], list[Any]]]:
        """(the inputs of the node, its outputs) of every set of data."""
        found = []
        for folder in sorted(self.folder.glob("test_data_set_*")):
            known = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer}
            fed = [value.name for value in self.model.graph.input if value.name not in known]
            known |= {name: array(folder / f"input_{number}.pb") for number, name in enumerate(fed)}
            outputs = [array(folder / f"output_{number}.pb") for number in range(len(self.node.output))]
            found.append(([known[name] for name in self.node.input], outputs))
        return found


def array(path: Path) -> Any:
    return numpy_helper.to_array(onnx.load_tensor(path))


@cache
def stored(*op_types: str) -> list[Stored]:
    """Every test of the package whose model is one node of these kinds."""
    found = []
    for kind in KINDS:
        for test in loader.load_model_tests(kind=kind):
            model = onnx.load(Path(test.model_dir) / "model.onnx")
            if [node.op_type for node in model.graph.node][:2] in [[op_type] for op_type in op_types]:
                found.append(Stored(f"{kind}/{test.name}", model, Path(test.model_dir), test.rtol, test.atol))
    return sorted(found, key=lambda test: test.name)
