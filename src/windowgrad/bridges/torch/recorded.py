"""The derivatives of the operator of `graph`, for programs that hold it and are trained: they are those of `rules`."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from windowgrad.bridges.torch.graph import computed, meant, read, wanted
from windowgrad.bridges.torch.rules import RULES


def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.op, ctx.rule, ctx.params, ctx.needs, tensors = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def backward(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Any:
    call = SimpleNamespace(
        op=meant(ctx.op),
        params=read(ctx.params),
        needs=wanted(ctx.needs),
        saved_tensors=ctx.saved_tensors,
        needs_input_grad=(False, False, False, *ctx.needs_input_grad[4]),
    )
    _, _, _, *found = RULES[ctx.rule].backward(call, *gradients)
    return None, None, None, None, found


def register() -> None:
    computed.register_autograd(backward, setup_context=setup_context)
