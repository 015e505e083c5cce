"""ONNX operators, by ONNX's reference evaluator and by ONNX Runtime. They have no derivatives."""

from __future__ import annotations

from typing import Any

from windowgrad.conform.adapter import NO_SUCH, Adapter, arguments, first_reason
from windowgrad.conform.case import Case

NAMES = {
    "max_pool": "MaxPool",
    "avg_pool": "AveragePool",
    "global_max_pool": "GlobalMaxPool",
    "global_avg_pool": "GlobalAveragePool",
    "lp_pool": "LpPool",
    "global_lp_pool": "GlobalLpPool",
    "conv": "Conv",
    "conv_transpose": "ConvTranspose",
}
DTYPES = {"max_pool": ("float16", "float32", "float64", "uint8", "int8")}
"""What an operator takes besides, or instead of, all floats."""
DOUBLES = frozenset({"max_pool"})
"""What ONNX Runtime computes in double."""
MODEL = """
node = {node}
inputs = dict({inputs})
kinds = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in inputs.values()]
feeds = [helper.make_tensor_value_info(*feed) for feed in zip(inputs, kinds, [array.shape for array in inputs.values()])]
outputs = [helper.make_tensor_value_info(*out, None) for out in zip(node.output, [kinds[0], TensorProto.INT64])]
graph = helper.make_graph([node], "case", feeds, outputs)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
"""


class Onnx(Adapter):
    evaluate: str = ""

    def supports(self, case: Case, check: str) -> str | None:
        name, dtypes = NAMES.get(case.op), DTYPES.get(case.op, ())
        return first_reason(
            (check in ("gradient", "tangent"), "ONNX has no derivatives"),
            (case.windows == "adaptive", "ONNX has no adaptive pooling"),
            (case.op not in NAMES, NO_SUCH),
            (case.is_norm and case.norm_type % 1 != 0, f"p of {name} is an integer"),
            (case.divisor is not None, "AveragePool has no divisor"),
            (bool(dtypes) and case.dtype not in dtypes, f"{name} has no {case.dtype}"),
            (not dtypes and case.x.dtype.kind != "f", f"{name} takes floats"),
        )

    def node(self, case: Case, outputs: list[str]) -> str:
        given: dict[str, Any] = {}
        if case.kernel:
            given = {"kernel_shape": case.kernel, "strides": case.stride}
            given |= {"pads": tuple(pad[side] for side in (0, 1) for pad in case.padding)}
            given |= {"dilations": case.dilation}
        given |= {"p": case.norm_type} if case.is_norm else {}
        given |= {"ceil_mode": 1} if case.ceil_mode else {}
        given |= {"count_include_pad": int(case.count_include_pad)} if "count_include_pad" in case.arguments else {}
        given |= {"group": case.groups} if case.is_convolution else {}
        given |= {"output_padding": case.output_padding} if case.is_transposed else {}
        return f"helper.make_node({NAMES[case.op]!r}, {list(case.arrays)}, {outputs}{arguments(**given)})"

    def call(self, case: Case) -> str:
        return self.node(case, ["y"])

    def program(self, case: Case, check: str) -> str:
        outputs = ["y", "indices"] if check == "indices" else ["y"]
        inputs = ", ".join(f"{name}={name}" for name in case.arrays)
        start = super().program(case, "forward").rpartition("got = ")[0].rstrip("\n")
        plane = f" % {case.x[0, 0].size if case.x.size else 1}" if check == "indices" else ""
        model = MODEL.format(node=self.node(case, outputs), inputs=inputs)
        return f"{start}{model}got = {self.evaluate}[-1]{plane}\n"


class Reference(Onnx):
    name, title, package = "onnx", "ONNX reference", "onnx"
    imports = "from onnx import TensorProto, helper\nfrom onnx.reference import ReferenceEvaluator"
    evaluate = "ReferenceEvaluator(model).run(None, inputs)"


class Runtime(Onnx):
    name, title, package, requires = "onnxruntime", "ONNX Runtime", "onnxruntime", ("onnx",)
    imports = "import onnxruntime\nfrom onnx import TensorProto, helper"
    evaluate = 'onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)'

    def supports(self, case: Case, check: str) -> str | None:
        single = case.dtype == "float64" and case.op not in DOUBLES
        return super().supports(case, check) or ("its CPU kernels do not support double here" if single else None)
