"""From tensors to NumPy arrays and back over the same memory, and which dtypes come out.

NumPy has no bfloat16: such tensors are computed in float32, which holds all of their values, and the results rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from windowgrad.bridges.torch.formats import formatted, has_channels_last, rank_of
from windowgrad.dispatch import argument_names, result_dtype, run
from windowgrad.dtypes import derivative_of
from windowgrad.errors import KindError
from windowgrad.params import Params
from windowgrad.spec.op import Op

Tensors = Sequence[torch.Tensor]

NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
TENSORS: dict[np.dtype[Any], torch.dtype] = {np.dtype(name): getattr(torch, name) for name in NAMES}
COMPUTED = {dtype: array for array, dtype in TENSORS.items()} | {torch.bfloat16: np.dtype(np.float32)}


def on_numpy(
    op: Op, rule: str, params: Params, tensors: Tensors, needs: Sequence[bool] = (), saved: torch.Tensor | None = None
) -> Any:
    """The rule on the memory of the tensors: a tensor, or a tuple of them. A vjp gives the gradients that are needed only."""
    try:
        arrays = [shared(tensor) for tensor in tensors]
    except (TypeError, RuntimeError) as error:
        raise refusal(op, rule, tensors) from error
    result = run(op, rule, params, *arrays, needs=needs or None, saved=None if saved is None else saved.numpy())
    several = isinstance(result, tuple)
    made = [tensor_of(array) for array in (result if several else (result,)) if array is not None]
    kept = [made.pop()] if rule == "saving" else []  # it is nobody's result: what order its cells have is the kernel's
    if any(tensor.dtype == torch.bfloat16 for tensor in tensors):
        wanted = result_dtypes(op, rule, [tensor.dtype for tensor in tensors], needs)
        made = [tensor.to(dtype) for tensor, dtype in zip(made, wanted, strict=True)]
    if has_channels_last(params, tensors):
        made = [formatted(tensor) for tensor in made]
    elif rank_of(params, tensors[0].ndim) > 1:  # a signal has the order of its input, as PyTorch's have
        made = [tensor.contiguous() for tensor in made]
    return (*made, *kept) if several else made[0]


def shared(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The tensor's own memory as an array, whatever its strides."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    array: np.ndarray[Any, Any] = (tensor.resolve_neg() if tensor.is_neg() else tensor).numpy()
    return array


def tensor_of(array: Any) -> torch.Tensor:
    return torch.from_numpy(array if type(array) is np.ndarray else np.asarray(array))


def refusal(op: Op, rule: str, tensors: Tensors) -> KindError:
    """The error for tensors whose memory NumPy cannot read."""
    for name, tensor in zip(argument_names(op, rule, len(tensors)), tensors, strict=True):
        if tensor.device.type == "meta":
            return KindError(f"{name} on the meta device: has no data to compute with")
        if tensor.device.type != "cpu":
            return KindError(f"{name} on {tensor.device}: only CPU tensors are supported; call {name}.cpu()")
        if tensor.layout != torch.strided:
            return KindError(f"{name} of layout {tensor.layout}: only dense tensors are supported; call {name}.to_dense()")
    kinds = ", ".join(str(tensor.dtype) for tensor in tensors)
    return KindError(f"{op.label or op.name}: tensors of {kinds} cannot share memory with NumPy and are not supported")


# --- dtypes ------------------------------------------------------------------------------------------------------


def result_dtypes(op: Op, rule: str, dtypes: Sequence[torch.dtype], needs: Sequence[bool] = ()) -> list[torch.dtype]:
    """The dtype of each result of a rule on tensors of `dtypes`."""
    if rule in ("forward", "saving"):
        return [value_dtype(op, dtypes)]
    if rule == "with_indices":
        return [value_dtype(op, dtypes), torch.int64]
    if rule == "jvp":
        half = len(dtypes) // 2
        primal = value_dtype(op, dtypes[:half]) if half > 1 else dtypes[0]
        return [derivative_dtype(primal, promoted(dtypes[half:]))]
    *primals, g = dtypes
    return [derivative_dtype(p, g) for p, need in zip(primals, needs, strict=True) if need]


def value_dtype(op: Op, dtypes: Sequence[torch.dtype]) -> torch.dtype:
    if set(dtypes) == {torch.bfloat16}:
        return torch.bfloat16
    return TENSORS[result_dtype(op, [numpy_dtype(dtype) for dtype in dtypes])]


def derivative_dtype(primal: torch.dtype, given: torch.dtype) -> torch.dtype:
    if torch.bfloat16 in (primal, given):
        return primal if primal.is_floating_point else given
    return TENSORS[derivative_of(numpy_dtype(primal), numpy_dtype(given))]


def promoted(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    if set(dtypes) == {torch.bfloat16}:
        return torch.bfloat16
    return TENSORS[np.result_type(*(numpy_dtype(dtype) for dtype in dtypes))]


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy dtype in which tensors of `dtype` are computed."""
    if dtype not in COMPUTED:
        raise KindError(f"unsupported dtype {dtype}; must be bool, an integer, or a float of 16 to 64 bits")
    return COMPUTED[dtype]
