"""ResNet-18 and MobileNet-V2 as `nn` describes them, and the same network as modules of PyTorch and as an ONNX model.

The other two are made from the description and the parameters, layer by layer, so all compute the same function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

from windowgrad import nn

Array = np.ndarray[Any, Any]


def unit(channels: int, kernel: int, stride: int = 1, groups: int = 1, act: type[nn.Layer] | None = nn.ReLU) -> list[nn.Layer]:
    """Convolution, batch normalisation, and an activation."""
    conv = nn.Conv(channels, (kernel, kernel), stride, kernel // 2, 1, groups, bias=False)
    return [conv, nn.BatchNorm(momentum=1.0), *([act()] if act else [])]


def resnet18() -> nn.Sequential:
    layers: list[nn.Layer] = [*unit(64, 7, 2), nn.MaxPool((3, 3), 2, 1)]
    before = 64
    for width in (64, 128, 256, 512):
        for stride in (1 if width == 64 else 2, 1):
            body = nn.Sequential(*unit(width, 3, stride), *unit(width, 3, act=None))
            shortcut = nn.Sequential(*unit(width, 1, stride, act=None)) if width != before else None
            layers += [nn.Residual(body, shortcut), nn.ReLU()]
            before = width
    return nn.Sequential(*layers, nn.GlobalAvgPool(2), nn.Linear(1000))


def mobilenet_v2() -> nn.Sequential:
    layers, before = unit(32, 3, 2, act=nn.ReLU6), 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for wider, channels, blocks, first in stages:
        for stride in (first, *(1,) * (blocks - 1)):
            wide = wider * before
            body = nn.Sequential(
                *(unit(wide, 1, act=nn.ReLU6) if wider > 1 else []),
                *unit(wide, 3, stride, wide, act=nn.ReLU6),
                *unit(channels, 1, act=None),
            )
            layers += [nn.Residual(body)] if stride == 1 and channels == before else list(body)
            before = channels
    return nn.Sequential(*layers, *unit(1280, 1, act=nn.ReLU6), nn.GlobalAvgPool(2), nn.Linear(1000))


MODELS = {"ResNet-18": resnet18, "MobileNet-V2": mobilenet_v2}


def drawn(model: nn.Sequential, side: int) -> Any:
    """Random weights, and running statistics measured on a random batch, so that no activation grows or dies."""
    rng = np.random.default_rng(0)
    shape = (2, 3, side, side)
    return model.train(model.init(rng, shape), rng.standard_normal(shape, dtype=np.float32))[1]


# --- PyTorch -----------------------------------------------------------------------------------------------------


class Sum(torch.nn.Module):
    def __init__(self, body: torch.nn.Module, shortcut: torch.nn.Module | None) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x) + (x if self.shortcut is None else self.shortcut(x))
        return y


def as_torch(layer: nn.Layer, params: Any, ins: int = 3) -> torch.nn.Module:
    """The module that means the same, with the same numbers."""
    t = torch.nn
    made: torch.nn.Module
    match layer:
        case nn.Sequential():
            return t.Sequential(*(as_torch(each, own) for each, own in zip(layer, params, strict=True)))
        case nn.Residual():
            shortcut = layer.shortcut and as_torch(layer.shortcut, params["shortcut"])
            return Sum(as_torch(layer.body, params["body"]), shortcut)
        case nn.Conv():
            outs, ins = params["weight"].shape[:2]
            given: Any = (ins * layer.groups, outs, layer.kernel_size, layer.stride, layer.padding)
            made = t.Conv2d(*given, groups=layer.groups, bias=layer.bias)
        case nn.BatchNorm():
            made = t.BatchNorm2d(len(params["weight"]), layer.eps, layer.momentum)
        case nn.Linear():
            made = t.Linear(*reversed(params["weight"].shape))
        case nn.MaxPool():
            return t.MaxPool2d(layer.kernel_size, layer.stride, layer.padding)  # type: ignore[arg-type]
        case nn.GlobalAvgPool():
            return t.Sequential(t.AdaptiveAvgPool2d(1), t.Flatten())
        case nn.ReLU():
            return t.ReLU(inplace=True)
        case nn.ReLU6():
            return t.ReLU6(inplace=True)
    made.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in params.items()}, strict=False)
    return made


# --- ONNX --------------------------------------------------------------------------------------------------------


class Graph:
    """Nodes and constants of an ONNX model, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **options: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **options))
        return name

    def add(self, layer: nn.Layer, params: Any, x: str) -> str:
        match layer:
            case nn.Sequential():
                for each, own in zip(layer, params, strict=True):
                    x = self.add(each, own, x)
                return x
            case nn.Residual():
                beside = x if layer.shortcut is None else self.add(layer.shortcut, params["shortcut"], x)
                return self.node("Add", self.add(layer.body, params["body"], x), beside)
            case nn.Conv():
                pads, strides = [layer.padding] * 4, [layer.stride] * 2
                inputs = [self.constant(value) for value in params.values()]
                return self.node("Conv", x, *inputs, pads=pads, strides=strides, group=layer.groups)
            case nn.BatchNorm():
                names = ("weight", "bias", "running_mean", "running_var")
                return self.node("BatchNormalization", x, *(self.constant(params[name]) for name in names), epsilon=layer.eps)
            case nn.Linear():
                return self.node("Gemm", x, self.constant(params["weight"]), self.constant(params["bias"]), transB=1)
            case nn.MaxPool():
                sizes = {"kernel_shape": layer.kernel_size, "strides": [layer.stride] * 2, "pads": [layer.padding] * 4}
                return self.node("MaxPool", x, **sizes)
            case nn.GlobalAvgPool():
                return self.node("Flatten", self.node("GlobalAveragePool", x))
            case nn.ReLU6():
                return self.node("Clip", x, *(self.constant(np.float32(n)) for n in (0, 6)))
        return self.node("Relu", x)


def as_onnx(model: nn.Layer, params: Any, shape: tuple[int, ...]) -> ModelProto:
    graph = Graph()
    last = graph.add(model, params, "x")
    graph.node("Identity", last)
    graph.nodes[-1].output[0] = "y"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", model.out_shape(shape)))]
    made = helper.make_graph(graph.nodes, "network", ends[:1], ends[1:], graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
