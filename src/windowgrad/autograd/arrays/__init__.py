"""The array operators a network needs, and no more. Each is a record like those of the specification.

Their functions take NumPy arrays of numbers or objects, Python numbers, and arrays that implement `__windowgrad__`.
"""

from windowgrad.autograd.arrays.arithmetic import (
    ADD,
    DIVIDE,
    MATMUL,
    MULTIPLY,
    NEGATIVE,
    SUBTRACT,
    add,
    divide,
    matmul,
    multiply,
    negative,
    subtract,
)
from windowgrad.autograd.arrays.functions import EXP, GATE, LOG, RELU, RELU6, SIGMOID, TANH, exp, log, relu, sigmoid, tanh
from windowgrad.autograd.arrays.losses import (
    CROSS_ENTROPY,
    LOG_SOFTMAX,
    MSE,
    PICK,
    PLACE,
    cross_entropy,
    log_softmax,
    mse,
)
from windowgrad.autograd.arrays.normalise import BATCH_NORM, INVERSE_ROOT
from windowgrad.autograd.arrays.reductions import MEAN, SUM, mean, sum  # noqa: A004  # NumPy's name for it
from windowgrad.autograd.arrays.rules import BROADCAST_TO, CAST, SUM_TO
from windowgrad.autograd.arrays.shapes import FLATTEN, RESHAPE, TRANSPOSE, flatten, reshape, transpose
from windowgrad.spec.op import Op

__all__ = [
    "add",
    "cross_entropy",
    "divide",
    "exp",
    "flatten",
    "log",
    "log_softmax",
    "matmul",
    "mean",
    "mse",
    "multiply",
    "negative",
    "relu",
    "reshape",
    "sigmoid",
    "subtract",
    "sum",
    "tanh",
    "transpose",
]

ARRAY_OPS: tuple[Op, ...] = (
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    NEGATIVE,
    MATMUL,
    SUM,
    MEAN,
    RESHAPE,
    FLATTEN,
    TRANSPOSE,
    RELU,
    EXP,
    LOG,
    TANH,
    SIGMOID,
    LOG_SOFTMAX,
    CROSS_ENTROPY,
    MSE,
    # what layers are made of
    RELU6,
    BATCH_NORM,
    # what their derivatives need
    CAST,
    BROADCAST_TO,
    SUM_TO,
    GATE,
    PICK,
    PLACE,
    INVERSE_ROOT,
)
