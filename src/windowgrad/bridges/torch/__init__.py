"""PyTorch tensors: every operator takes them and is differentiable in PyTorch's own system. Windows share their memory; the
array operators (`arrays`) are PyTorch's own functions with our meaning.

wg.max_pool2d(tensor, 3), wg.exp(tensor)                 the public functions, as with NumPy arrays
windowgrad.bridges.torch.nn.MaxPool2d(3)                 layers, with the constructors of torch.nn
windowgrad.bridges.torch.nn.replace_pooling(model)       a model with its layers swapped for those
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from windowgrad.bridges.torch import arrays as array_ops
from windowgrad.bridges.torch import graph, recorded
from windowgrad.bridges.torch.masks import constant
from windowgrad.bridges.torch.memory import WithoutDataError, are_without_data
from windowgrad.bridges.torch.operands import number
from windowgrad.bridges.torch.rules import RULES, applied, are_unwatched, ordinary, spread
from windowgrad.checks import argument_names
from windowgrad.errors import KindError
from windowgrad.params import Params
from windowgrad.spec.op import Op

__all__ = ["compute", "constant", "number"]

recorded.register()


def compute(array: Any, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: tuple[bool, ...] | None = None) -> Any:
    """One rule of one operator on tensors, as a step that PyTorch can differentiate, batch and compile."""
    facts = op.facts
    if facts is None:
        return array_ops.compute(op, rule, params, arrays)
    if rule == "forward" and params.lasting and are_unwatched(arrays):
        casts = facts.autocasts and torch.is_autocast_enabled("cpu")
        try:
            return ordinary(op, params, autocast(arrays) if casts else arrays)
        except WithoutDataError:
            if not are_without_data(arrays):
                raise  # and else by its shape, below
    if has_torch_function(arrays):  # a subclass of Tensor with a word to say, or a mode
        return handle_torch_function(compute, arrays, array, op, rule, params, arrays, needs=needs)
    for place, given in enumerate(arrays):
        if not isinstance(given, torch.Tensor):
            name = argument_names(op, rule, len(arrays))[place]
            raise KindError(
                f"{name}: must be a tensor like the others, not {type(given).__name__}; call torch.as_tensor({name})"
            )
    params = params.machine()  # tensors hold no fractions
    if facts.autocasts and rule == "forward" and torch.is_autocast_enabled("cpu"):
        arrays = autocast(arrays)
    wanted = (needs or (True,) * (len(arrays) - 1)) if rule == "vjp" else ()
    if rule == "vjp" and not any(wanted):
        return (None,) * len(wanted)
    if torch._C._is_tracing():  # which records PyTorch's own operators only
        found = graph.stepped(op, rule, params, arrays, wanted)
    else:
        if params.where is not None:
            params.where.over(arrays[0].shape)  # before vmap adds axes, over which it must not reach
        found = applied(RULES[rule], op, params, *arrays, needs=wanted)
    return tuple(spread(found, wanted)) if rule == "vjp" else found


def autocast(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Floats in the dtype that autocast asks for, as PyTorch's own convolution takes them; float64 stays."""
    dtype = torch.get_autocast_dtype("cpu")
    return [t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors]
