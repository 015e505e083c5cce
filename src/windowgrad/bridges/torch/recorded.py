"""The derivative of the operator `torch.ops.windowgrad.compute` of `graph`, for stored programs that are trained.

It is that of `rules`, for the rule that the call names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from windowgrad.bridges.torch.graph import computed, read, wanted
from windowgrad.bridges.torch.rules import RULES
from windowgrad.ops import meaning


def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.op, ctx.rule, ctx.params, ctx.needs, tensors = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def backward(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Any:
    told = meaning(ctx.op), read(ctx.params), wanted(ctx.needs)
    found = RULES[ctx.rule].pull(*told, ctx.saved_tensors, ctx.needs_input_grad[4], *gradients)
    return None, None, None, None, list(found)


def register() -> None:
    computed.register_autograd(backward, setup_context=setup_context)
