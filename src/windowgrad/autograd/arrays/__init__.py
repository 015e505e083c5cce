"""The array operators a network needs, and no more. Each is a record like those of the specification.

Their functions take NumPy arrays of numbers or objects, Python numbers, arrays that implement `__windowgrad__`, and those of
the frameworks for which there is a bridge.
"""

from collections.abc import Callable
from typing import Any

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
from windowgrad.autograd.arrays.choosing import (
    MASK,
    MAXIMUM,
    MINIMUM,
    SHARE,
    STOP_GRADIENT,
    WHERE,
    clip,
    maximum,
    minimum,
    stop_gradient,
    where,
)
from windowgrad.autograd.arrays.extremes import ABS, MAX, MIN, SPLIT, abs, max, min  # noqa: A004  # NumPy's names for them
from windowgrad.autograd.arrays.functions import (
    EXP,
    GATE,
    LOG,
    RELU,
    RELU6,
    SIGMOID,
    TANH,
    exp,
    log,
    relu,
    relu6,
    sigmoid,
    tanh,
)
from windowgrad.autograd.arrays.indexing import INDEX, SCATTER, index
from windowgrad.autograd.arrays.joining import CONCATENATE, STACK, concatenate, stack
from windowgrad.autograd.arrays.losses import (
    CROSS_ENTROPY,
    LOG_SOFTMAX,
    MSE,
    PICK,
    PLACE,
    SOFTMAX,
    cross_entropy,
    log_softmax,
    mse,
    softmax,
)
from windowgrad.autograd.arrays.normalise import BATCH_NORM, INVERSE_ROOT, batch_norm, inverse_root
from windowgrad.autograd.arrays.powers import LOG_OR_ZERO, POWER, SQRT, power, sqrt
from windowgrad.autograd.arrays.reductions import MEAN, SUM, mean, sum  # noqa: A004  # NumPy's name for it
from windowgrad.autograd.arrays.rules import BROADCAST_TO, CAST, SUM_TO, broadcast_to, cast
from windowgrad.autograd.arrays.shapes import FLATTEN, RESHAPE, TRANSPOSE, flatten, reshape, transpose
from windowgrad.autograd.arrays.special import BELL, ERF, SIGN, erf, sign
from windowgrad.spec.op import Op

__all__ = [
    "abs",
    "add",
    "clip",
    "concatenate",
    "cross_entropy",
    "divide",
    "erf",
    "exp",
    "flatten",
    "log",
    "log_softmax",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mse",
    "multiply",
    "negative",
    "power",
    "relu",
    "reshape",
    "sigmoid",
    "sign",
    "softmax",
    "sqrt",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "tanh",
    "transpose",
    "where",
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
    MAX,
    MIN,
    ABS,
    RESHAPE,
    FLATTEN,
    TRANSPOSE,
    RELU,
    EXP,
    LOG,
    TANH,
    SIGMOID,
    ERF,
    SIGN,
    SQRT,
    POWER,
    MAXIMUM,
    MINIMUM,
    WHERE,
    STOP_GRADIENT,
    CONCATENATE,
    STACK,
    SOFTMAX,
    LOG_SOFTMAX,
    CROSS_ENTROPY,
    MSE,
    INDEX,
    # what layers are made of
    RELU6,
    BATCH_NORM,
    # what their derivatives need
    CAST,
    BROADCAST_TO,
    SUM_TO,
    GATE,
    MASK,
    SHARE,
    SPLIT,
    SCATTER,
    LOG_OR_ZERO,
    PICK,
    PLACE,
    INVERSE_ROOT,
    BELL,
)

SINGLE_STEPS: tuple[Callable[..., Any], ...] = (
    *(globals()[name] for name in __all__),
    *(index, relu6, batch_norm, inverse_root, cast, broadcast_to),
)
"""The functions that a compiler sees as one step each: the public ones, and those that layers are made of."""
