"""The model and the input of docs/onnx.md, as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import parser

SMALL = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[N, 1, 4] x) => (float[N, 1, 2] y)
<float[1, 1, 3] w = {1, 2, 1}>
{
  a = Conv<pads = [1, 1]>(x, w)
  r = Relu(a)
  y = MaxPool<kernel_shape = [2], strides = [2]>(r)
}"""
X = np.array([[[1.0, -3.0, 2.0, 0.5]]], dtype=np.float32)


def save_small(folder: Path) -> None:
    onnx.save(parser.parse_model(SMALL), folder / "small.onnx")
    np.save(folder / "x.npy", X)
