"""Small ONNX networks for certificates: every geometry of windows, sums of two branches, several maxima."""

from __future__ import annotations

import numpy as np
import onnx
import safetensors
from onnx import TensorProto, helper, numpy_helper

from windowgrad import certify
from windowgrad.certify import certificate
from windowgrad.onnx import load


class Maker:
    """Nodes one after the other, with float32 weights drawn from a seed."""

    def __init__(self, shape, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape, self.nodes, self.constants = shape, [], []

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape, scale=1.0):
        return self.constant((scale * self.rng.normal(size=shape)).astype(np.float32))

    def conv(self, x, ins, outs, kernel=(3, 3), group=1, bias=True, **attributes):
        b = [self.weights(outs)] if bias else []
        return self.add("Conv", x, self.weights(outs, ins // group, *kernel, scale=0.5), *b, group=group, **attributes)

    def dense(self, x, ins, outs, **attributes):
        """Flattened first."""
        flat = self.add("Flatten", x)
        return self.add("Gemm", flat, self.weights(ins, outs, scale=0.5), self.weights(outs), **attributes)

    def model(self, output, opset=17):
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(
            self.nodes, "small", [given], [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], self.constants
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def pooled(seed=0, relu=True, **pool):
    """conv, ReLU, a maximum over windows, and a linear layer."""
    make = Maker((1, 2, 5, 5), seed)
    x = make.conv("x", 2, 3, (2, 2))
    x = make.add("Relu", x) if relu else x
    x = make.add("MaxPool", x, **pool)
    return make.model(sized(make, x))


def sized(make, x, outs=2):
    """A linear layer after all cells of x."""
    y = load(make.model(x))(np.zeros([1 if isinstance(n, str) else n for n in make.shape], np.float32))
    return make.dense(x, y.size, outs)


def conv_strided(seed=0):
    make = Maker(("N", 2, 6, 5), seed)
    x = make.conv("x", 2, 4, (3, 2), strides=[2, 1], pads=[2, 0, 1, 1], dilations=[1, 2], group=2)
    return make.model(sized(make, make.add("Relu", x)))


def conv_same(seed=0):
    make = Maker((1, 1, 5, 4), seed)
    x = make.conv("x", 1, 2, (2, 3), auto_pad="SAME_LOWER", strides=[2, 1], bias=False)
    x = make.add("MaxPool", x, kernel_shape=[2, 2], auto_pad="SAME_UPPER", strides=[2, 2])
    return make.model(sized(make, x))


def conv_transposed(seed=0):
    make = Maker((1, 2, 3, 3), seed)
    w, b = make.weights(2, 2, 2, 3), make.weights(4)
    x = make.add(
        "ConvTranspose", "x", w, b, strides=[2, 1], pads=[1, 0, 0, 1], output_padding=[1, 0], dilations=[2, 1], group=2
    )
    return make.model(sized(make, make.add("Relu", x)))


def averaged(seed=0, count=0):
    make = Maker((1, 2, 5, 5), seed)
    x = make.add(
        "AveragePool", "x", kernel_shape=[3, 2], strides=[2, 1], pads=[2, 0, 1, 1], count_include_pad=count, ceil_mode=1
    )
    x = make.add("Relu", make.conv(x, 2, 3, (2, 2)))
    x = make.add("GlobalAveragePool", x)
    return make.model(sized(make, x))


def residual(seed=0):
    """The cells of a branch come back, scaled, shifted and divided."""
    make = Maker((1, 2, 4, 4), seed)
    y = make.add("Relu", make.conv("x", 2, 2, pads=[1, 1, 1, 1]))
    x = make.add("Add", make.conv(y, 2, 2, pads=[1, 1, 1, 1]), "x")
    x = make.add("Sub", make.add("Mul", x, make.weights(1, 2, 1, 1)), make.weights(2, 1, 1))
    x = make.add("Div", make.add("Neg", x), make.constant(np.float32([3.0])))
    x = make.add("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    return make.model(sized(make, x))


def two_maxima(seed=0):
    make = Maker((1, 1, 7, 7), seed)
    x = make.add("MaxPool", make.add("Relu", make.conv("x", 1, 2, (2, 2))), kernel_shape=[2, 2], strides=[1, 1])
    x = make.add("MaxPool", make.conv(x, 2, 3, (2, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[2, 2, 2, 2])
    return make.model(sized(make, make.add("Relu", x)))


def dense(seed=0):
    """Three linear layers with factors, transposed weights and a large bias."""
    make = Maker((1, 4), seed)
    x = make.add("Gemm", "x", make.weights(4, 5), make.constant((100 * make.rng.normal(size=5)).astype(np.float32)))
    x = make.add("Gemm", make.add("Relu", x), make.weights(6, 5), make.weights(6), transB=1)
    x = make.add("MatMul", make.add("LeakyRelu", x, alpha=0.125), make.weights(6, 3))
    x = make.add("Add", make.add("Relu", x), make.weights(3))
    return make.model(make.add("Gemm", x, make.weights(3, 2), make.weights(2)))


def moved(seed=0):
    """Cells in other orders: padded, cut, joined, turned; a maximum that is not directly after its ReLU."""
    make = Maker((1, 2, 3, 4), seed)
    x = make.add("Pad", "x", make.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2])), make.constant(np.float32(0.5)))
    x = make.add("Transpose", x, perm=[0, 1, 3, 2])
    cut = [make.constant(np.array(n)) for n in ([0, -1], [5, -9], [2, 3], [2, -1])]
    y = make.add("Slice", make.add("Relu", make.add("Identity", x)), *cut)
    x = make.add("Concat", y, make.constant(np.float32(make.rng.normal(size=(1, 1, 3, 4)))), axis=1)
    x = make.add("Squeeze", make.add("Unsqueeze", x, make.constant(np.array([0]))), make.constant(np.array([0])))
    x = make.add("Reshape", make.add("Dropout", x), make.constant(np.array([0, 3, -1])))
    x = make.add("Max", make.add("GlobalMaxPool", x), make.weights(1, 3, 1))
    return make.model(make.dense(x, 3, 2))


def clipped(seed=0):
    make = Maker((1, 2, 4), seed)
    low, high = make.constant(np.float32(-0.5)), make.constant(np.float32(1.5))
    x = make.add("Clip", make.conv("x", 2, 4, (2,)), low, high)
    y = make.add("ReduceMean", x, axes=[2], keepdims=0)
    z = make.add("ReduceSum", x, make.constant(np.array([2])), keepdims=0)
    x = make.add("Min", make.add("Max", y, z), make.weights(4), make.add("Sub", make.weights(4), y))
    return make.model(make.dense(x, 4, 2))


NETWORKS = {
    "padding beyond half the kernel": lambda seed: pooled(seed, kernel_shape=[2, 3], pads=[1, 2, 1, 2]),
    "asymmetric padding": lambda seed: pooled(seed, kernel_shape=[3, 3], pads=[0, 2, 1, 0], strides=[2, 2]),
    "ceil mode": lambda seed: pooled(seed, kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1),
    "overlap": lambda seed: pooled(seed, False, kernel_shape=[3, 3]),
    "dilation": lambda seed: pooled(seed, kernel_shape=[2, 2], dilations=[2, 3], strides=[1, 2], pads=[1, 1, 1, 1]),
    "not fused": lambda seed: pooled(seed, False, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1]),
    "strided convolution": conv_strided,
    "same padding": conv_same,
    "transposed convolution": conv_transposed,
    "mean of real cells": averaged,
    "mean of padded cells": lambda seed: averaged(seed, 1),
    "residual": residual,
    "two maxima": two_maxima,
    "dense": dense,
    "moved": moved,
    "clipped": clipped,
}


def box_of(model, seed=0, radius=0.1):
    sizes = [dim.dim_value or 1 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    middle = np.random.default_rng(seed).normal(size=sizes).astype(np.float32)
    return middle - np.float32(radius), middle + np.float32(radius)


def below(model, lo, hi, arithmetic="real", slack=0.25, method="linear"):
    """A property that the bounds just prove: both outputs above a number that is `slack` of their width below the bound."""
    lower, upper = certify.bounds(load(model), lo, hi, method=method, arithmetic=arithmetic)
    least = (lower - slack * (upper - lower)).reshape(-1)
    rows = [certify.Inequality.of({place: 1}, float(b)) for place, b in enumerate(least)]
    return certify.Property((*((row,) for row in rows), (certify.Inequality.of({0: 1}, 1000), rows[1])))


def written(folder, model, lo, hi, goal, **options):
    """(certificate, network): the files of a proof."""
    network, path = folder / "net.onnx", folder / "proof.safetensors"
    onnx.save(model, network)
    result = certify.prove(load(model), lo, hi, goal, attack=False, **options)
    assert result.verdict == "holds"
    certificate.write(result, network, path)
    return path, network


def bump():
    """max(x0, x1) + max(−x1, −x0) = |x0 − x1|: planes see it as two maxima, so it takes cuts to prove much of it."""
    make = Maker((1, 1, 2))
    back = [make.constant(np.array(n)) for n in ([1], [-9], [2], [-1])]
    turned = make.add("Neg", make.add("Slice", "x", *back))
    return make.model(make.add("Add", make.add("GlobalMaxPool", "x"), make.add("GlobalMaxPool", turned)))


def split(folder):
    """The files of a proof for which the box had to be split."""
    goal = certify.Property(((certify.Inequality.of({0: 1}, -0.25),),))
    ends = np.full((1, 1, 2), -1.0), np.full((1, 1, 2), 1.0)
    return written(folder, bump(), *ends, goal, method="linear", seconds=60)


def arrays_of(path):
    """(arrays, metadata) of a certificate."""
    with safetensors.safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118  # it is not a dict


def stored(path, arrays, about):
    header, blocks = certificate.serialised(arrays, about)
    path.write_bytes(header + b"".join(blocks))
