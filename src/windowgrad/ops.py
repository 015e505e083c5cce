"""The table of operators. Each record is the specification's, its rules routed by the arrays they are given.

OPS["max_pool"].forward(params, x)     jvp(params, x, dx)     vjp(params, x, g)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from windowgrad.dispatch import run
from windowgrad.spec import convolution, logsumexp, maximum, mean, padding
from windowgrad.spec.op import Op

MEANINGS: tuple[Op, ...] = (
    maximum.OP,
    mean.OP,
    logsumexp.OP,
    convolution.CONV,
    convolution.CONV_TRANSPOSE,
    padding.PAD,
    padding.UNPAD,
)


def routed(op: Op) -> Op:
    """The same operator, computed by whoever computes with the arrays at hand."""
    return replace(
        op,
        forward=partial(run, op, "forward"),
        jvp=partial(run, op, "jvp"),
        vjp=partial(run, op, "vjp"),
        with_indices=partial(run, op, "with_indices") if op.with_indices else None,
    )


def called(name: str, label: str) -> Op:
    """An operator of the table under the name it is called by: max_pool2d is max_pool."""
    return routed(replace(next(op for op in MEANINGS if op.name == name), label=label))


OPS: Mapping[str, Op] = MappingProxyType({op.name: routed(op) for op in MEANINGS})
