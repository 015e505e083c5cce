"""What is said of inputs and attributes that do not fit: the argument, its value, and what it should be."""

import dask.array as da
import numpy as np
import pytest

import windowgrad as wg
from windowgrad.autograd.program import record
from windowgrad.errors import WindowgradError
from windowgrad.onnx import Node
from windowgrad.onnx.operators import TABLE

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.zeros((1, 6, 4, 4), np.float32)


def ints(*entries):
    return np.array(entries, np.int64)


def call(op, *inputs, outputs=1, opset=18, **attributes):
    node = Node("one", op, (), tuple(f"y{place}" for place in range(outputs)), attributes, opset)
    return TABLE[op](node, *inputs)


WRONG = [
    ("Reshape", (X, ints(5, -1)), {}, "shape=(5, -1): x of shape (2, 3, 4) has 24 elements, not a multiple of 5"),
    ("Reshape", (X, ints(2, 3, 4, 0)), {}, "shape=(2, 3, 4, 0): x of shape (2, 3, 4) has no size on axis 3 that 0 could keep"),
    ("Reshape", (X, ints(0, -1)), {"allowzero": 1}, "shape=(0, -1): must not have both 0 and −1 with allowzero=1"),
    ("Reshape", (X, np.array([2.0])), {}, "shape: must be integers along one axis, not float64(1,)"),
    ("Reshape", (X,), {}, "shape: must be given"),
    ("Flatten", (X,), {"axis": 4}, "axis=4: must be from -3 to 3 for x of shape (2, 3, 4)"),
    ("Squeeze", (X, ints(1)), {}, "axes=(1,): axis 1 of x of shape (2, 3, 4) must have length 1"),
    ("Unsqueeze", (X, ints(5)), {}, "axes=(5,): must be from -4 to 3, the axes of the result"),
    ("Unsqueeze", (X, ints(0, -5)), {}, "axes=(0, -5): must not name an axis twice"),
    ("Concat", (X, X), {}, "axis: must be given"),
    ("Concat", (X, X[:1]), {"axis": 2}, "arrays[1] of shape (1, 3, 4): must have the sizes of arrays[0]"),
    ("Split", (X, ints(1, 1)), {"axis": 1}, "split=(1, 1): must be 2 sizes that add up to 3, the size of x on axis 1"),
    ("Split", (X,), {"num_outputs": 3}, "num_outputs=3: must be 2, the number of outputs"),
    (
        "Split",
        (X,),
        {"axis": 1, "opset": 13},
        "split: must be given, since size 3 is not divisible by the number of outputs, 2",
    ),
    ("Pad", (X, ints(1, 1)), {}, "pads=(1, 1): must have 6 entries, two for each of 3 axes"),
    ("Pad", (X, ints(0, -4, 0, 0, 0, 0)), {}, "(-4, 0) remove more cells than axis 1 of x of shape (2, 3, 4) has"),
    (
        "Pad",
        (X, ints(0, 0, 0, 0, 0, 0)),
        {"mode": "symmetric"},
        "mode='symmetric': must be 'constant', 'reflect', 'edge' or 'wrap'",
    ),
    ("Expand", (X, ints(5, 1)), {}, "x of shape (2, 3, 4) and shape=(5, 1): cannot be broadcast together"),
    ("Expand", (X, ints(-1, 1, 1)), {}, "shape=(-1, 1, 1): must be at most 64 sizes, none of them negative"),
    ("Expand", (X[:1, :1, :1], ints(2**30, 2**30, 1)), {}, "of memory"),
    ("Tile", (X, ints(2**30, 2**30, 1)), {}, "of memory"),
    ("Tile", (X, ints(1, 2)), {}, "repeats=(1, 2): must be a number of at least 0 for each axis of x of shape (2, 3, 4)"),
    (
        "DepthToSpace",
        (IMAGE,),
        {"blocksize": 2},
        "blocksize=2: the 6 channels of x of shape (1, 6, 4, 4) must be divisible by 4",
    ),
    ("SpaceToDepth", (IMAGE,), {"blocksize": 3}, "blocksize=3: the plane of x of shape (1, 6, 4, 4) must be divisible by it"),
    ("SpaceToDepth", (X,), {"blocksize": 0}, "blocksize=0: must be at least 1"),
    ("Slice", (X, ints(0), ints(1, 2)), {}, "ends=(1, 2): must have 1 entries, as starts=(0,) has"),
    ("Slice", (X, ints(0), ints(1), ints(3)), {}, "axes=3: must be from -3 to 2 for x of shape (2, 3, 4)"),
    ("Slice", (X, ints(0), ints(1), ints(0), ints(0)), {}, "steps=(0,): must not have 0"),
    ("Gather", (X, ints(3)), {"axis": 1}, "index 3 on axis 1 of x of shape (2, 3, 4): must be from -3 to 2"),
    ("Gather", (X, np.array([0.0])), {}, "indices: must be integers, not float64"),
    ("ScatterND", (X, ints(2)[None], X[:1]), {}, "indices: (2,) is not a place in data of shape (2, 3, 4)"),
    ("ScatterND", (X, ints(1)[None], X), {}, "updates of shape (2, 3, 4): must be (1, 3, 4)"),
    ("ScatterND", (X, ints(0, 0, 0, 0), X), {}, "indices of shape (4,): 4 places each, data of shape (2, 3, 4) has 3 axes"),
    ("ArgMax", (X,), {"axis": 3}, "axis=3: must be from -3 to 2 for x of shape (2, 3, 4)"),
    ("ArgMax", (X[:0],), {}, "x of shape (0, 3, 4): there is no cell along axis 0"),
    ("ReduceSum", (X, ints(0, -3)), {}, "axes=(0, -3): must not name an axis of x of shape (2, 3, 4) twice"),
    ("Resize", (X, None, ints(1, 1, 1), ints(2, 3, 4)), {}, "scales, sizes: exactly one of them must be given"),
    ("Resize", (X, None, ints(1, 0, 1)), {}, "scales=(1.0, 0.0, 1.0): must be 3 numbers greater than 0"),
    ("Resize", (X, None, np.array([1, np.inf, 1])), {}, "scales=inf: must be finite"),
    ("Resize", (X, None, None, ints(2, 3)), {}, "sizes=(2, 3): must be 3 sizes of at least 1"),
    ("Resize", (X, None, None, ints(2, 3, 4)), {"mode": "cubic"}, "mode='cubic': not supported"),
    ("Resize", (X, None, None, ints(2, 3, 4)), {"mode": "linear", "antialias": 1}, "antialias=1: not supported"),
    (
        "Resize",
        (X, None, None, ints(2, 3, 4)),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "roi: must be given with coordinate_transformation_mode='tf_crop_and_resize'",
    ),
    ("ConstantOfShape", (ints(2, -1),), {}, "input=(2, -1): must be at most 64 sizes, none of them negative"),
    ("ConstantOfShape", (ints(2**40, 2**20),), {}, "of memory"),
    ("ConstantOfShape", (ints(*[1] * 65),), {}, "must be at most 64 sizes"),
    ("Resize", (X, None, None, ints(2**30, 2**30, 4)), {}, "of memory"),
    ("Resize", (X[:0], None, None, ints(2, 3, 4)), {}, "sizes=(2, 3, 4): x of shape (0, 3, 4) has no cells on axis 0"),
    ("Range", (np.array(0), np.array(2**50), np.array(1)), {}, "of memory"),
    ("Range", (np.array(1), np.array(5), np.array(0)), {}, "delta=0: must not be 0"),
    ("Range", (np.array(1.0), np.array(np.inf), np.array(1.0)), {}, "limit=inf: must be finite"),
    ("Range", (ints(1, 2), np.array(5), np.array(1)), {}, "start of shape (2,): must have one element"),
    ("Cast", (X,), {"to": 17}, "to: unsupported dtype FLOAT8E4M3FN"),
    ("And", (X, X), {}, "A: must be bools, not float32"),
    ("Less", (X, X[:, :2]), {}, "A of shape (2, 3, 4) and B of shape (2, 2, 4): cannot be broadcast together"),
    ("QuantizeLinear", (X, X[0, 0]), {}, "y_scale of shape (4,): must be one number or 3, one for each place on axis 1"),
    ("QuantizeLinear", (X, X[0, 0, 0], X[0, 0, 0]), {}, "y_zero_point of float32: not supported; must be int8, uint8"),
    ("DequantizeLinear", (X, X[0, 0, 0]), {}, "x of float32: not supported; must be int8, uint8, int16, uint16 or int32"),
    (
        "QuantizeLinear",
        (X, X),
        {"block_size": 2},
        "y_scale of shape (2, 3, 4): must be (2, 2, 4), one number for each block of 2",
    ),
]


@pytest.mark.parametrize(("op", "inputs", "options", "said"), WRONG, ids=[f"{case[0]} {case[3]}" for case in WRONG])
def test_an_error_names_the_argument_and_what_it_should_be(op, inputs, options, said):
    with pytest.raises(WindowgradError) as error:
        call(op, *inputs, outputs=2 if op == "Split" else 1, **options)
    assert said in str(error.value)


def test_numbers_that_say_how_to_compute_must_be_known():
    """Of a traced value they are its plain numbers; while a function is recorded, and of a Dask array, there are none."""
    scales = np.array([1.0, 2.0, 1.0])
    found = wg.grad(lambda scales: wg.sum(call("Resize", X.astype(float), None, scales)))(scales)
    assert found.tolist() == [0, 0, 0]
    with pytest.raises(WindowgradError, match="scales: must not depend on the inputs while the function is recorded"):
        record(lambda scales: call("Resize", X, None, scales), scales)
    with pytest.raises(WindowgradError, match="indices: must be known before anything is computed, and not be a Dask array"):
        call("Gather", X, da.from_array(ints(0, 1)))
