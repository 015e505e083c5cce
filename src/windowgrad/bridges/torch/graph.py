"""The one PyTorch operator behind all of ours, for whoever sees a program without its data: compilers, exporters, modes.

`torch.ops.windowgrad.compute(op, rule, params, needs, tensors)` names its operator and spells its parameters, so that a
program that holds it can be stored and read by another process. Its rule for shapes is the operator's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import torch

from windowgrad import geometry, params
from windowgrad.bridges.torch.formats import has_channels_last, strides_of
from windowgrad.bridges.torch.masks import apart, together
from windowgrad.bridges.torch.memory import Tensors, on_numpy, result_dtypes
from windowgrad.ops import meaning
from windowgrad.params import ConvParams, PadParams, Params, PoolParams, UnpadParams
from windowgrad.spec.op import Op

RECORDS = {name: record for room in (geometry, params) for name, record in vars(room).items() if isinstance(record, type)}


def stepped(op: Op, rule: str, params: Params, tensors: Tensors, needs: Sequence[bool] = ()) -> Any:
    """The rule as one step of a graph: a tensor, or a tuple of them. A mask is the last of its tensors."""
    plain, mask = apart(params, tensors)
    text = spelled(plain, bool(mask))
    made = computed(op.name, rule, text, "".join("01"[need] for need in needs), [*tensors, *mask])
    return made[0] if rule in ("forward", "jvp") else tuple(made)


@torch.library.custom_op("windowgrad::compute", mutates_args=(), device_types="cpu")
def computed(op: str, rule: str, params: str, needs: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    tensors, mask = split(params, tensors)
    record = together(read(params), mask, has_data=True)
    result = on_numpy(meaning(op), rule, record, tensors, wanted(needs))
    made = result if isinstance(result, tuple) else (result,)
    return list(made) if has_channels_last(record, tensors) else [tensor.contiguous() for tensor in made]


@computed.register_fake
def _(op: str, rule: str, params: str, needs: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    operator, record, (tensors, _) = meaning(op), read(params), split(params, tensors)
    shapes = [tuple(tensor.shape) for tensor in tensors]
    inputs = shapes[: {"jvp": len(shapes) // 2, "vjp": len(shapes) - 1}.get(rule, len(shapes))]
    out = out_shape(record, inputs)
    made = [shape for shape, need in zip(inputs, wanted(needs), strict=True) if need] if rule == "vjp" else [out, out]
    dtypes = result_dtypes(operator, rule, [tensor.dtype for tensor in tensors], wanted(needs))
    last = has_channels_last(record, tensors)
    return [
        tensors[0].new_empty_strided(shape, strides_of(shape, last), dtype=dtype)
        for shape, dtype in zip(made, dtypes, strict=False)
    ]


def out_shape(record: Params, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The operator's own rule. Sizes of leading axes may be unknown: they come out as they are, and are not asked for.

    Other sizes become numbers here, so that a compiled graph is one of these sizes only.
    """
    x, *others = inputs
    free = len(x) - bound_axes(record, len(x)) if not others or isinstance(record, ConvParams) else 0
    known = [(*(1,) * free, *map(int, x[free:])), *(tuple(map(int, shape)) for shape in others)]
    out = record.out_shape(*known)
    record.check(*known)
    return (*x[:free], *out[free:])


def bound_axes(record: Params, rank: int) -> int:
    """How many of the last axes of x a shape rule looks at: the spatial ones, and the channels of a convolution."""
    if isinstance(record, PoolParams):
        return min(record.geometry.rank, rank)
    if isinstance(record, ConvParams):
        return min(record.window.rank + 1, rank)
    return min(len(record.padding), rank) if isinstance(record, (PadParams, UnpadParams)) else rank


def wanted(needs: str) -> tuple[bool, ...]:
    """Which gradients a vjp is asked for, one character each: 101 is the first and the third."""
    return tuple(need == "1" for need in needs)


# --- a record as a line of text ----------------------------------------------------------------------------------


MASKED = "masked "
"""In front of the parameters of a call whose last tensor is a mask."""


@lru_cache(maxsize=256)
def spelled(record: Params, masked: bool = False) -> str:
    return MASKED * masked + json.dumps(record, default=parts)


def parts(record: Any) -> dict[str, Any]:
    """The name and the arguments of a record; a mask, which goes by its name, is a tensor of its own."""
    given = [getattr(record, field.name) for field in fields(record) if field.compare and not field.kw_only]
    return {type(record).__name__: given}


@lru_cache(maxsize=256)
def read(text: str) -> Params:
    """The record, without its mask."""
    record: Params = json.loads(text.removeprefix(MASKED), object_hook=made)
    return record


def split(text: str, tensors: Tensors) -> tuple[Tensors, Tensors]:
    """(the tensors of a call, its mask if it has one)"""
    count = len(tensors) - text.startswith(MASKED)
    return tensors[:count], tensors[count:]


def made(parts: dict[str, Any]) -> Any:
    ((name, arguments),) = parts.items()
    return RECORDS[name](*arguments)
