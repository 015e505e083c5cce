"""Others that compute one node of a model on given arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from windowgrad.onnx.graph import Array, Node


class Runtime(NamedTuple):
    """One of them: `run` takes a model of one node and the arrays of its inputs by name, and gives its outputs in order."""

    name: str
    title: str
    package: str
    run: Callable[[Any, Mapping[str, Array]], list[Array]]
    most: float = math.inf
    """The most cells, each counted once for every window, that it is asked for: one that loops in Python takes minutes."""

    def version(self) -> str | None:
        """None if it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


def reference(model: Any, given: Mapping[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, dict(given)))


def onnxruntime(model: Any, given: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong comes as an error too
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(given)))


def openvino(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """In the precision of the model: by default it may choose a smaller one."""
    import openvino

    core = openvino.Core()
    hints = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
    compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", hints)
    found = compiled({port.get_any_name(): given[port.get_any_name()] for port in compiled.inputs})
    return [np.array(found[port]) for port in compiled.outputs]


RUNTIMES = (
    Runtime("onnxruntime", "ONNX Runtime", "onnxruntime", onnxruntime),
    Runtime("onnx", "ONNX reference", "onnx", reference, most=2.0**20),
    Runtime("openvino", "OpenVINO", "openvino", openvino),
)


def single(
    node: Any, whole: Any, given: Mapping[str, Array], constants: Mapping[str, Array], results: Mapping[str, Array]
) -> Any:
    """A model of one node of the model `whole`: its constants are stored in it, its other inputs are inputs."""
    from onnx import helper, numpy_helper

    def said(arrays: Mapping[str, Array], sized: bool) -> list[Any]:
        kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
        return [
            helper.make_tensor_value_info(name, kinds[name], array.shape if sized else None) for name, array in arrays.items()
        ]

    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "layer", said(given, sized=True), said(results, sized=False), stored)
    model = helper.make_model(graph, opset_imports=whole.opset_import, ir_version=whole.ir_version)
    model.functions.extend(whole.functions)
    return model


def cells(node: Node, results: Mapping[str, Array]) -> int:
    """How many cells a loop over all windows of a pooling looks at."""
    kernel = node.get("kernel_shape")
    return math.prod(kernel) * sum(array.size for array in results.values()) if kernel and "Pool" in node.op_type else 0
