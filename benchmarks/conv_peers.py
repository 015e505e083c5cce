"""Who convolves beside us. Each takes a case and its arrays and gives a call, with all prepared that can be; None: it has none.

ONNX Runtime and OpenVINO are given the weight as a constant, which they rearrange once, before any call; and only forward.
SciPy has filters of one channel without a bias, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import openvino
import scipy.ndimage
import torch
from conv_cases import Array, Case
from onnx import ModelProto, helper, numpy_helper
from timing import Call


def by_torch(case: Case, *arrays: Array) -> Call:
    """The operators under `torch.nn.functional` and its backward; neither records anything for later."""
    x, w, b, g = map(torch.from_numpy, arrays)
    rank = len(case.kernel)
    geometry = (*((step,) * rank for step in (case.stride, case.padding, 1)), case.transposed, (0,) * rank, case.groups)
    if case.rule == "forward":
        return torch.inference_mode()(lambda: torch.ops.aten.convolution(x, w, b, *geometry))
    needed = (True, True, True)
    return torch.inference_mode()(lambda: torch.ops.aten.convolution_backward(g, x, w, b.shape, *geometry, needed))


def model_of(case: Case, x: Array, w: Array, b: Array, g: Array) -> ModelProto:
    """One node, with constant weights."""
    rank = len(case.kernel)
    options = {"strides": [case.stride] * rank, "pads": [case.padding] * 2 * rank, "group": case.groups}
    node = helper.make_node("ConvTranspose" if case.transposed else "Conv", ["x", "w", "b"], ["y"], **options)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind, a.shape) for name, a in (("x", x), ("y", g))]
    constants = [numpy_helper.from_array(a, name) for name, a in (("w", w), ("b", b))]
    graph = helper.make_graph([node], "conv", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def by_onnx(case: Case, x: Array, w: Array, b: Array, g: Array) -> Call | None:
    """Input and output are bound, so that no call copies or allocates them."""
    if case.rule != "forward" or case.dtype != "float32":
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    model = model_of(case, x, w, b, g).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    y = np.zeros(g.shape, x.dtype)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, x.dtype, y.shape, y.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return y

    return call


def by_openvino(case: Case, x: Array, w: Array, b: Array, g: Array) -> Call | None:
    """In float32, whatever else the CPU has; input and output are the arrays themselves."""
    if case.rule != "forward" or case.dtype != "float32":
        return None
    core = openvino.Core()
    model = core.read_model(model_of(case, x, w, b, g).SerializeToString())
    threads = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", threads).create_infer_request()
    y = np.zeros(g.shape, x.dtype)
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    request.set_output_tensor(openvino.Tensor(y, shared_memory=True))

    def call() -> Array:
        request.infer()
        return y

    return call


def by_scipy(case: Case, x: Array, w: Array, b: Array, g: Array) -> Call | None:
    if case.rule != "forward" or not case.filters or b.any():
        return None
    kernel, y = w[0, 0], np.zeros(g.shape, x.dtype)

    def call() -> Array:
        for image, filtered in zip(x[:, 0], y[:, 0], strict=True):
            scipy.ndimage.correlate(image, kernel, output=filtered, mode="constant")
        return y

    return call


PEERS: dict[str, Callable[..., Any]] = {
    "PyTorch": by_torch,
    "ONNX Runtime": by_onnx,
    "OpenVINO": by_openvino,
    "SciPy": by_scipy,
}
