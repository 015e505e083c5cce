"""What is wrong with `out`, and what a user is told."""

from __future__ import annotations

import numpy as np

import windowgrad as wg
from support.bad_inputs import Bad, X

W = np.zeros((4, 3, 3, 3), np.float32)


def locked(shape):
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


RIGHT, PLACES = np.zeros((3, 4, 4), np.float32), np.zeros((3, 4, 4), np.int64)
REPEATED = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3, 4, 4), (0, 0, 4))
MASKED = np.ma.masked_array(RIGHT)
CALL = "[max_pool2d(x: float32(3, 8, 8), kernel_size=2, "

CASES = [
    Bad(
        "out is a list",
        lambda: wg.max_pool2d(X, 2, out=[1.0]),
        wg.KindError,
        f"out=[1.0]: must be a NumPy array of float32(3, 4, 4), not list {CALL}out=[1.0])]",
    ),
    Bad(
        "out is masked",
        lambda: wg.max_pool2d(X, 2, out=MASKED),
        wg.KindError,
        f"out: must be a plain NumPy array of float32(3, 4, 4), not a masked array {CALL}out: float32(3, 4, 4))]",
    ),
    Bad(
        "out of another dtype",
        lambda: wg.max_pool2d(X, 2, out=RIGHT.astype(np.float64)),
        wg.KindError,
        f"out of dtype float64: must be float32, the dtype of the result {CALL}out: float64(3, 4, 4))]",
    ),
    Bad(
        "out of the other byte order",
        lambda: wg.max_pool2d(X, 2, out=RIGHT.astype(">f4")),
        wg.KindError,
        f"out of dtype >f4: must be float32, the dtype of the result {CALL}out: >f4(3, 4, 4))]",
    ),
    Bad(
        "out of integers for a mean of integers",
        lambda: wg.avg_pool2d(X.astype(np.int8), 2, out=RIGHT.astype(np.int8)),
        wg.KindError,
        "out of dtype int8: must be float32, the dtype of the result"
        " [avg_pool2d(x: int8(3, 8, 8), kernel_size=2, out: int8(3, 4, 4))]",
    ),
    Bad(
        "out of floats for fractions",
        lambda: wg.avg_pool1d(np.array([1, 2], object), 2, out=np.zeros(1)),
        wg.KindError,
        "out of dtype float64: must be object, the dtype of the result"
        " [avg_pool1d(x: object(2,), kernel_size=2, out: float64(1,))]",
    ),
    Bad(
        "out of another shape",
        lambda: wg.max_pool2d(X, 2, out=RIGHT[:2]),
        wg.WindowError,
        f"out of shape (2, 4, 4): must be (3, 4, 4), the shape of the result {CALL}out: float32(2, 4, 4))]",
    ),
    Bad(
        "out of a shape that would broadcast",
        lambda: wg.conv2d(X, W, out=np.zeros((4, 6, 1), np.float32)),
        wg.WindowError,
        "out of shape (4, 6, 1): must be (4, 6, 6), the shape of the result"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), out: float32(4, 6, 1))]",
    ),
    Bad(
        "read-only out",
        lambda: wg.max_pool2d(X, 2, out=locked((3, 4, 4))),
        wg.OptionError,
        f"out: is read-only, must be writable {CALL}out: float32(3, 4, 4))]",
    ),
    Bad(
        "out with cells in the same memory",
        lambda: wg.max_pool2d(X, 2, out=REPEATED),
        wg.OptionError,
        f"out with strides (0, 0, 4): its elements must not overlap in memory {CALL}out: float32(3, 4, 4))]",
    ),
    Bad(
        "one out for values and indices",
        lambda: wg.max_pool2d(X, 2, return_indices=True, out=RIGHT),
        wg.KindError,
        "out: must be a pair (values, indices) with return_indices, not ndarray; either may be None"
        f" {CALL}return_indices=True, out: float32(3, 4, 4))]",
    ),
    Bad(
        "three outs for values and indices",
        lambda: wg.max_pool2d(X, 2, return_indices=True, out=(None, None, None)),
        wg.KindError,
        "out: must be a pair (values, indices) with return_indices, not tuple of length 3; either may be None"
        f" {CALL}return_indices=True, out=(None, None, None))]",
    ),
    Bad(
        "a pair for values alone",
        lambda: wg.max_pool2d(X, 2, out=(None, None)),
        wg.KindError,
        f"out=(None, None): must be a NumPy array of float32(3, 4, 4), not tuple {CALL}out=(None, None))]",
    ),
    Bad(
        "indices in a narrow dtype",
        lambda: wg.max_pool2d(X, 2, return_indices=True, out=(RIGHT, PLACES.astype(np.int32))),
        wg.KindError,
        "out[1] of dtype int32: must be int64, the dtype of the result"
        f" {CALL}return_indices=True, out: (float32(3, 4, 4), int32(3, 4, 4)))]",
    ),
    Bad(
        "values and indices in the same memory",
        lambda: wg.max_pool2d(X.astype(np.int64), 2, return_indices=True, out=(PLACES, PLACES)),
        wg.OptionError,
        "out: its two arrays must not share memory"
        " [max_pool2d(x: int64(3, 8, 8), kernel_size=2, return_indices=True, out: (int64(3, 4, 4), int64(3, 4, 4)))]",
    ),
    Bad(
        "out for a derivative",
        lambda: wg.ops.OPS["max_pool"].vjp(wg.params.MaxParams(wg.geometry.Sliding((2, 2))), X, RIGHT, out=X),
        wg.KindError,
        "out: only supported by the forward rules, not by vjp",
    ),
]
