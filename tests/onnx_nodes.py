"""ONNX's Conv and ConvTranspose as calls of this project: attributes made explicit arguments, and the data of ONNX's tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, numpy_helper
from onnx.backend.test import loader

import windowgrad as wg

KINDS = ("node", "pytorch-converted", "pytorch-operator")


def convolved(node: Any, x: Any, w: Any, bias: Any = None) -> Any:
    """What the node computes."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    rank = w.ndim - 2
    assert tuple(given.get("kernel_shape", w.shape[2:])) == w.shape[2:]  # "If not present, should be inferred from input W."
    strides, dilations = (tuple(given.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    sides = list(zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True))
    common = {"stride": strides, "dilation": dilations, "groups": given.get("group", 1)}
    if node.op_type == "Conv":
        return wg.conv(x, w, bias, padding=conv_pads(given, sides), **common)
    padding, extra = transpose_pads(given, sides)
    return wg.conv_transpose(x, w, bias, padding=padding, output_padding=extra, **common)


def auto_pad(given: dict[str, Any]) -> str:
    return given.get("auto_pad", b"NOTSET").decode()


def explicit(given: dict[str, Any], rank: int) -> list[tuple[int, int]]:
    """ "pads format should be as follow [x1_begin, x2_begin...x1_end, x2_end,...]", and VALID means none."""
    pads = given.get("pads", [0] * 2 * rank)
    return list(zip(pads[:rank], pads[rank:], strict=True))


def conv_pads(given: dict[str, Any], sides: list[tuple[int, ...]]) -> list[tuple[int, int]]:
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

    def sets(self) -> list[tuple[list[Any], Any]]:
        """(the inputs of the node, its output) of every set of data."""
        found = []
        for folder in sorted(self.folder.glob("test_data_set_*")):
            known = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer}
            fed = [value.name for value in self.model.graph.input if value.name not in known]
            known |= {name: array(folder / f"input_{number}.pb") for number, name in enumerate(fed)}
            found.append(([known[name] for name in self.node.input], array(folder / "output_0.pb")))
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
