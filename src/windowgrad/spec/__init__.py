"""The executable specification: each operator as a short function over any scalar type. Results are arrays of objects."""

from windowgrad.spec import (
    convolution,
    extension,
    logsumexp,
    maximum,
    mean,
    minimum,
    padding,
    pnorm,
    scalar,
    sharpness,
    unpooling,
)
from windowgrad.spec.dual import Dual
from windowgrad.spec.interval import Interval
from windowgrad.spec.op import Op
from windowgrad.spec.rounded import Rounded

__all__ = [
    "Dual",
    "Interval",
    "Op",
    "Rounded",
    "convolution",
    "extension",
    "logsumexp",
    "maximum",
    "mean",
    "minimum",
    "padding",
    "pnorm",
    "scalar",
    "sharpness",
    "unpooling",
]
