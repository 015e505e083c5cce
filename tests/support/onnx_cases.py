"""Models of one node that moves, chooses, reduces, resizes or quantises cells, in the forms of all opsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class Case:
    """One node: its first input is the input of the model, the others are stored in it; None is one that is left out."""

    op: str
    opset: int
    shape: tuple[int, ...]
    others: tuple[Any, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    dtype: str = "float32"
    smooth: bool = True
    """Whether it has a derivative."""

    @property
    def name(self) -> str:
        said = [f"{key}={value}" for key, value in self.attributes.items()]
        said += ["none" if other is None else str(other.tolist()) for other in self.others]
        return "-".join([f"{self.op}{self.opset}", *said]).replace(" ", "")

    def x(self) -> Any:
        """Small integers, among which some are equal."""
        low = 0 if np.dtype(self.dtype).kind in "bu" else -5
        return np.random.default_rng(0).integers(low, 2 if self.dtype == "bool" else 6, self.shape).astype(self.dtype)

    def model(self) -> Any:
        names = ["x", *("" if other is None else f"i{place}" for place, other in enumerate(self.others))]
        node = helper.make_node(self.op, names, [f"y{place}" for place in range(self.outputs)], **self.attributes)
        stored = [numpy_helper.from_array(other, name) for name, other in zip(names[1:], self.others, strict=True) if name]
        given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)), self.shape)
        graph = helper.make_graph([node], "one", [given], [], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        model.graph.output.extend(onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.value_info)
        assert len(model.graph.output) == self.outputs
        return model


def ints(*entries: int) -> Any:
    return np.array(entries, np.int64)


def floats(*entries: float) -> Any:
    return np.array(entries, np.float32)


def number(value: Any, dtype: str = "float32") -> Any:
    return np.array(value, dtype)


IMAGE = (1, 2, 4, 6)
NONE = floats()

SHAPING = [
    Case("Reshape", 7, (2, 3, 4), (ints(0, -1),)),
    Case("Reshape", 13, (2, 3, 4), (ints(4, 0, -1),)),
    Case("Reshape", 14, (0, 3), (ints(3, 0),), {"allowzero": 1}),
    Case("Flatten", 7, (2, 3, 4), (), {"axis": 0}),
    Case("Flatten", 11, (2, 3, 4), (), {"axis": -1}),
    Case("Flatten", 13, (2, 3, 4), (), {"axis": 3}),
    Case("Transpose", 7, (2, 3, 4)),
    Case("Transpose", 13, (2, 3, 4), (), {"perm": [1, 2, 0]}),
    Case("Squeeze", 7, (1, 3, 1, 4)),
    Case("Squeeze", 7, (1, 3, 1, 4), (), {"axes": [2]}),
    Case("Squeeze", 11, (1, 3, 1, 4), (), {"axes": [-2, 0]}),
    Case("Squeeze", 13, (1, 3, 1, 4), (ints(-4),)),
    Case("Squeeze", 13, (1, 3, 1, 4)),
    Case("Unsqueeze", 7, (3, 4), (), {"axes": [0, 2]}),
    Case("Unsqueeze", 11, (3, 4), (), {"axes": [-1, 0]}),
    Case("Unsqueeze", 13, (3, 4), (ints(3, -4),)),
    Case("Concat", 7, (2, 3), (np.ones((2, 1), np.float32), np.zeros((2, 2), np.float32)), {"axis": 1}),
    Case("Concat", 13, (2, 3), (), {"axis": -1}),
    Case("Split", 7, (2, 6), (), {"axis": 1}, outputs=3),
    Case("Split", 7, (2, 6), (), {"axis": 1, "split": [1, 5]}, outputs=2),
    Case("Split", 11, (4, 2), (), {"axis": -2, "split": [3, 1]}, outputs=2),
    Case("Split", 13, (2, 6), (ints(0, 4, 2),), {"axis": 1}, outputs=3),
    Case("Split", 18, (7, 2), (), {"num_outputs": 3}, outputs=3),
    Case("Pad", 7, (2, 3, 4), (), {"pads": [0, 1, 2, 1, 0, 3], "value": 1.5}),
    Case("Pad", 7, (3, 4), (), {"pads": [0, -1, 1, -2]}),
    Case("Pad", 7, (3, 4), (), {"pads": [2, 1, 1, 3], "mode": "reflect"}),
    Case("Pad", 7, (3, 4), (), {"pads": [2, 1, 1, 3], "mode": "edge"}),
    Case("Pad", 11, (3, 4), (ints(2, -1, 1, 3), number(-2.0))),
    Case("Pad", 13, (3, 4), (ints(1, 1, 1, 1),), {"mode": "reflect"}),
    Case("Pad", 18, (2, 3, 4), (ints(1, 2, 0, 1), None, ints(-1, 0))),
    Case("Pad", 19, (3, 4), (ints(2, 3, 1, 4),), {"mode": "wrap"}),
    Case("Expand", 8, (3, 1), (ints(2, 1, 4),)),
    Case("Expand", 13, (3, 4), (ints(1, 1),)),
    Case("Tile", 7, (2, 3), (ints(2, 3),)),
    Case("Tile", 13, (2, 1, 3), (ints(1, 4, 2),)),
    Case("DepthToSpace", 7, (1, 8, 2, 3), (), {"blocksize": 2}),
    Case("DepthToSpace", 11, (1, 8, 2, 3), (), {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", 7, IMAGE, (), {"blocksize": 2}),
]

INDEXING = [
    Case("Slice", 7, (5, 6), (), {"starts": [1, -3], "ends": [1000, -1]}),
    Case("Slice", 9, (5, 6), (), {"axes": [1], "starts": [0], "ends": [-2]}),
    Case("Slice", 10, (5, 6), (ints(4, 1), ints(-1000, 5), ints(0, 1), ints(-2, 3))),
    Case("Slice", 11, (5, 6), (ints(-1), ints(-7), ints(-1), ints(-1))),
    Case("Slice", 13, (5, 6), (ints(7), ints(9))),
    Case("Slice", 13, (5, 6), (ints(10, 0), ints(2, -100), ints(0, 1), ints(-1, -1))),
    Case("Gather", 7, (5, 3), (ints(4, 0, 0),)),
    Case("Gather", 11, (5, 3), (np.array([[-1, 0], [1, -3]]),), {"axis": 1}),
    Case("Gather", 13, (5, 3), (number(-2, "int64"),)),
    Case("ScatterND", 11, (4, 3), (np.array([[2], [0]]), np.full((2, 3), 9, np.float32))),
    Case("ScatterND", 13, (4, 3), (np.array([[[2, -1]], [[0, 1]]]), np.full((2, 1), 9, np.float32))),
    Case("ScatterND", 16, (4, 3), (np.array([[2], [2], [1]]), np.full((3, 3), 9, np.float32)), {"reduction": "add"}),
    Case("ScatterND", 16, (4, 3), (np.array([[2], [2], [1]]), np.full((3, 3), 9, np.float32)), {"reduction": "mul"}),
    Case("ScatterND", 18, (4, 3), (np.array([[2], [2], [1]]), np.full((3, 3), 0.3, np.float32)), {"reduction": "max"}),
    Case("ScatterND", 18, (4, 3), (np.array([[2], [2], [1]]), np.full((3, 3), 0.3, np.float32)), {"reduction": "min"}),
    Case("ArgMax", 7, (3, 8), smooth=False),
    Case("ArgMax", 11, (3, 8), (), {"axis": -1, "keepdims": 0}, smooth=False),
    Case("ArgMax", 12, (3, 8), (), {"axis": 1, "select_last_index": 1}, smooth=False),
    Case("ArgMin", 13, (3, 8), (), {"axis": 1, "select_last_index": 1, "keepdims": 0}, smooth=False),
]

REDUCING = [
    Case(f"Reduce{how}", opset, (2, 3, 4), others, attributes)
    for how in ("Sum", "Mean", "Max", "Min")
    for opset, others, attributes in [
        (7, (), {"axes": [0, 2]}),
        (11, (), {"axes": [-1], "keepdims": 0}),
        (12, (), {"keepdims": 0}),
        (18, (ints(-2),), {"keepdims": 1}),
        (18, (ints(),), {}),
        (18, (ints(),), {"noop_with_empty_axes": 1}),
    ]
] + [
    Case("ReduceSum", 13, (2, 3, 4), (ints(1, 2),), {"keepdims": 0}),
    Case("ReduceSum", 13, (2, 3), (ints(1),), dtype="int32", smooth=False),
    Case("ReduceMean", 13, (2, 3), (), {"axes": [1]}, dtype="int32", smooth=False),
    Case("ReduceMax", 12, (2, 3), (), {"axes": [1]}, dtype="uint8", smooth=False),
]

RESIZING = [
    *(Case("Upsample", 7, IMAGE, (), {"scales": [1.0, 1.0, 2.0, 1.5], "mode": mode}) for mode in ("nearest", "linear")),
    *(Case("Upsample", 9, IMAGE, (floats(1, 1, 2.5, 3),), {"mode": mode}) for mode in ("nearest", "linear")),
    *(Case("Resize", 10, IMAGE, (floats(1, 1, 2, 3),), {"mode": mode}) for mode in ("nearest", "linear")),
    *(Case("Resize", 10, IMAGE, (floats(1, 1, 0.5, 0.75),), {"mode": mode}) for mode in ("nearest", "linear")),
    *(
        Case("Resize", opset, IMAGE, (NONE, *by), {"mode": mode, "coordinate_transformation_mode": coordinates})
        for opset, coordinates in [
            (11, "half_pixel"),
            (11, "align_corners"),
            (13, "asymmetric"),
            (18, "pytorch_half_pixel"),
            (19, "half_pixel_symmetric"),
        ]
        for mode in ("nearest", "linear")
        for by in [(floats(1, 1, 2, 0.5),), (NONE, ints(1, 2, 7, 4))]
    ),
    *(
        Case("Resize", 13, IMAGE, (NONE, NONE, ints(1, 2, 7, 4)), {"nearest_mode": rounding})
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    Case("Resize", 11, IMAGE, (NONE, floats(1, 1, 3, 0.5)), {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}),
    *(
        Case(
            "Resize",
            13,
            IMAGE,
            (floats(0, 0, 0.25, -0.5, 1, 1, 0.75, 1.25), NONE, ints(1, 2, 3, 5)),
            {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5},
        )
        for mode in ("nearest", "linear")
    ),
    Case("Resize", 18, IMAGE, (None, None, ints(7, 7)), {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}),
    Case(
        "Resize",
        18,
        IMAGE,
        (None, None, ints(7, 7)),
        {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller", "mode": "linear"},
    ),
]

CHOOSING = [
    *(
        Case(op, 13, (2, 3), (np.arange(-3, 3, dtype=np.float32).reshape(2, 3),), smooth=False)
        for op in ("Equal", "Less", "Greater")
    ),
    *(Case(op, 16, (2, 3), (floats(0, 1, 2),), smooth=False) for op in ("LessOrEqual", "GreaterOrEqual")),
    *(Case(op, 7, (2, 3), (np.array([True, False, True]),), dtype="bool", smooth=False) for op in ("And", "Or", "Xor")),
    Case("Not", 7, (2, 3), dtype="bool", smooth=False),
    Case("Where", 9, (2, 3), (floats(1, 2, 3), number(-1.0)), dtype="bool", smooth=False),
    Case("Shape", 7, (2, 3), smooth=False),
    Case("Shape", 15, (2, 3, 4), (), {"start": -2, "end": 100}, smooth=False),
    *(Case("Cast", 13, (2, 3), (), {"to": to}, smooth=to in (1, 10, 11)) for to in (1, 2, 3, 5, 6, 7, 9, 10, 11)),
]

QUANTISING = [
    Case("QuantizeLinear", 10, (3, 4), (number(0.5), number(128, "uint8")), smooth=False),
    Case("QuantizeLinear", 10, (3, 4), (number(0.03), number(-3, "int8")), smooth=False),
    Case("QuantizeLinear", 13, (3, 4), (floats(0.5, 2, 4, 8), np.array([1, 2, 3, 4], np.uint8)), smooth=False),
    Case("QuantizeLinear", 13, (3, 4), (floats(2, 4, 8),), {"axis": -2}, smooth=False),
    Case("QuantizeLinear", 21, (3, 4), (number(0.0001), number(5, "int16")), smooth=False),
    Case("DequantizeLinear", 10, (3, 4), (number(0.5), number(3, "uint8")), dtype="uint8", smooth=False),
    Case(
        "DequantizeLinear",
        13,
        (3, 4),
        (floats(2, 4, 8), np.array([1, -2, 3], np.int8)),
        {"axis": 0},
        dtype="int8",
        smooth=False,
    ),
    Case("DequantizeLinear", 13, (3, 4), (number(0.25),), dtype="int32", smooth=False),
    Case("DequantizeLinear", 21, (3, 4), (number(0.25), number(9, "uint16")), dtype="uint16", smooth=False),
    Case(
        "DequantizeLinear",
        21,
        (3, 4),
        (floats(1, 2, 3, 4, 5, 6).reshape(3, 2), np.ones((3, 2), np.int8)),
        {"axis": 1, "block_size": 2},
        dtype="int8",
        smooth=False,
    ),
]

CASES = [*SHAPING, *INDEXING, *REDUCING, *RESIZING, *CHOOSING, *QUANTISING]
SMOOTH = [case for case in CASES if case.smooth]
