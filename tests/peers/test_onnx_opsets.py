"""The forms that operators had in older opsets give what ONNX Runtime gives; ONNX's own tests have only the newest."""

import numpy as np
import onnxruntime
import pytest

from support.onnx_cases import CASES
from windowgrad.onnx import load


def by_onnx_runtime(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_node_computes_what_onnx_runtime_does(case):
    model, x = case.model(), case.x()
    found, wanted = load(model)(x), by_onnx_runtime(model, x)
    for ours, theirs in zip(found if isinstance(found, tuple) else [found], wanted, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
