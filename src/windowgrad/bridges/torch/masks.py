"""Masks that are tensors. One that holds data is read at the call; one of a program, or of the meta device, stays a tensor.

A program is what a compiler, an exporter or a tracer sees: it has no data yet, so a mask is an input of the one operator behind
all of ours (`graph`), like the other tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from windowgrad.errors import KindError, WindowError
from windowgrad.params import Mask, Params


class TensorMask(Mask):
    """A mask whose cells are not known."""

    def __init__(self, where: torch.Tensor) -> None:
        self.array: torch.Tensor = where

    def over(self, shape: Sequence[Any]) -> Any:
        """An error if it does not reach over an array of `shape`."""
        sizes = tuple(self.array.shape)
        rest = tuple(shape)[len(shape) - len(sizes) :]
        if len(sizes) > len(shape) or any(n not in (1, m) for n, m in zip(sizes, rest, strict=True)):
            raise WindowError(f"where of shape {sizes}: must broadcast to {tuple(shape)}, the shape of x")
        return self.array


def constant(name: str, tensor: torch.Tensor) -> Any:
    """The cells of a tensor as an array of their own, or a mask itself if they are not known."""
    functorch = torch._C._functorch
    while functorch.is_gradtrackingtensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    if functorch.is_batchedtensor(tensor) or functorch.is_legacy_batchedtensor(tensor):
        raise KindError(f"{name}: must not be batched by vmap; call the function on the whole batch, with a mask for it")
    if tensor.device.type not in ("cpu", "meta"):
        raise KindError(f"{name} on {tensor.device}: only CPU tensors are supported; call {name}.cpu()")
    found = read(tensor)
    if isinstance(found, TensorMask) and tensor.dtype != torch.bool:
        raise KindError(f"{name}: must be an array of bool, not an array of {str(tensor.dtype).removeprefix('torch.')}")
    return found


def read(tensor: torch.Tensor) -> Any:
    if torch._C._is_tracing() or torch._C._len_torch_dispatch_stack():  # a mask that was read would be one of the program
        return TensorMask(tensor)
    try:
        with torch._C._DisableFuncTorch():  # which would wrap it again
            return tensor.numpy().copy()
    except (TypeError, RuntimeError):  # of a compiler, or of the meta device
        return TensorMask(tensor)


# --- in programs ---------------------------------------------------------------------------------------------------


def apart(params: Params, tensors: Sequence[torch.Tensor]) -> tuple[Params, list[torch.Tensor]]:
    """(the parameters without a mask, the mask as a tensor, if there is one)."""
    if params.where is None:
        return params, []
    mask = params.where.array if isinstance(params.where, TensorMask) else torch.tensor(params.where.array)
    return replace(params, where=None), [mask.to(tensors[0].device)]  # type: ignore[type-var]  # every record is a dataclass


def together(params: Params, mask: Sequence[torch.Tensor], has_data: bool = False) -> Params:
    """The parameters with the mask again."""
    if not mask:
        return params
    found = mask[0].numpy() if has_data else read(mask[0])
    return replace(params, where=found if isinstance(found, Mask) else Mask(found))  # type: ignore[type-var]
