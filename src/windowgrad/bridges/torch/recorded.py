"""The derivative of the operator `torch.ops.windowgrad.compute` of `graph`, for stored programs that are trained.

It is that of `rules`, for the rule that the call names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from windowgrad.bridges.torch.graph import computed, read, split, wanted
from windowgrad.bridges.torch.masks import together
from windowgrad.bridges.torch.rules import RULES
from windowgrad.ops import meaning


def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.op, ctx.rule, ctx.params, ctx.needs, tensors = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def backward(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Any:
    tensors, mask = split(ctx.params, ctx.saved_tensors)
    told = meaning(ctx.op), together(read(ctx.params), mask), wanted(ctx.needs)
    found = RULES[ctx.rule].pull(*told, tensors, ctx.needs_input_grad[4][: len(tensors)], *gradients)
    return None, None, None, None, [*found, *(None for _ in mask)]


def register() -> None:
    computed.register_autograd(backward, setup_context=setup_context)
