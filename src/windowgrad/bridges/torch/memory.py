"""From tensors to NumPy arrays and back over the same memory, and which dtypes come out.

NumPy has no bfloat16 of its own. Where ml_dtypes brings it one, such tensors are shared too; elsewhere they are computed in
float32, which holds all of their values, and the results rounded once, to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from windowgrad.bridges.torch.formats import formatted, has_channels_last, rank_of
from windowgrad.bridges.torch.masks import TensorMask
from windowgrad.checks import argument_names
from windowgrad.dispatch import result_dtype, run, run_saving
from windowgrad.dtypes import derivative_of
from windowgrad.errors import KindError
from windowgrad.params import Params
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op

try:
    from ml_dtypes import bfloat16
except ImportError:
    BFLOAT16, BITS = None, None
else:
    BFLOAT16, BITS = np.dtype(bfloat16), np.dtype(np.int16)

Tensors = Sequence[torch.Tensor]

NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
TENSORS: dict[np.dtype[Any], torch.dtype] = {np.dtype(name): getattr(torch, name) for name in NAMES}
COMPUTED = {dtype: array for array, dtype in TENSORS.items()} | {torch.bfloat16: np.dtype(np.float32)}


class WithoutDataError(KindError):
    """A tensor of the meta device among others: it has a shape, and no data."""


def are_without_data(tensors: Tensors) -> bool:
    """Whether all are of the meta device: results have a shape and a dtype only."""
    return all(tensor.is_meta for tensor in tensors)


def on_numpy(
    op: Op, rule: str, params: Params, tensors: Tensors, needs: Sequence[bool] = (), saved: torch.Tensor | None = None
) -> Any:
    """The rule on the memory of the tensors: a tensor, or a tuple of them. A vjp gives the gradients that are needed only."""
    arrays = all_shared(op, rule, tensors)
    if isinstance(params.where, TensorMask):
        raise WithoutDataError(f"where on the {params.where.array.device} device: has no data to compute with")
    result = run(op, rule, params, *arrays, needs=needs or None, saved=None if saved is None else saved.numpy())
    if type(result) is not tuple:
        return result_of(op, rule, params, tensors, needs, 0, result)
    given = [array for array in result if array is not None]
    return tuple([result_of(op, rule, params, tensors, needs, i, array) for i, array in enumerate(given)])


def on_numpy_saving(op: Op, params: Params, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The forward rule, and what it saves for its vjp; None if that is nothing. The order of its cells is the kernel's."""
    y, saved = run_saving(op, params, *all_shared(op, "forward", tensors))
    return result_of(op, "forward", params, tensors, (), 0, y), None if saved is None else torch.from_numpy(saved)


def all_shared(op: Op, rule: str, tensors: Tensors) -> list[np.ndarray[Any, Any]]:
    try:
        return [*map(shared, tensors)]
    except (TypeError, RuntimeError) as error:
        raise refusal(op, rule, tensors) from error


def result_of(
    op: Op, rule: str, params: Params, tensors: Tensors, needs: Sequence[bool], place: int, array: np.ndarray[Any, Any]
) -> torch.Tensor:
    """A result as a tensor, in the dtype and the memory format that PyTorch gives it."""
    array = array if type(array) is np.ndarray else np.asarray(array)
    if array.dtype is BFLOAT16:
        made = torch.from_numpy(array.view(BITS)).view(torch.bfloat16)
    else:
        made = torch.from_numpy(array)
        for tensor in tensors:
            if tensor.dtype is torch.bfloat16:
                made = made.to(result_dtypes(op, rule, [each.dtype for each in tensors], needs)[place])
                break
    if has_channels_last(params, tensors):
        return formatted(made)
    if made.is_contiguous() or rank_of(params, tensors[0].ndim) == 1:  # a signal has the order of its input, as PyTorch's have
        return made
    return made.contiguous()


def shared(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The tensor's own memory as an array, whatever its strides and whether it is differentiated."""
    array: np.ndarray[Any, Any]
    if tensor.dtype is not torch.bfloat16:
        array = tensor.numpy(force=tensor.is_cpu)  # what is elsewhere is not brought here
    elif BFLOAT16 is None:
        array = tensor.detach().float().numpy()
    else:
        array = tensor.detach().view(torch.int16).numpy().view(BFLOAT16)
    return array


def refusal(op: Op, rule: str, tensors: Tensors) -> KindError:
    """The error for tensors whose memory NumPy cannot read."""
    for name, tensor in zip(argument_names(op, rule, len(tensors)), tensors, strict=True):
        if tensor.device.type == "meta":
            return WithoutDataError(f"{name} on the meta device: has no data to compute with")
        if tensor.device.type != "cpu":
            return KindError(f"{name} on {tensor.device}: only CPU tensors are supported; call {name}.cpu()")
        if tensor.layout != torch.strided:
            return KindError(f"{name} of layout {tensor.layout}: only dense tensors are supported; call {name}.to_dense()")
    kinds = ", ".join(str(tensor.dtype) for tensor in tensors)
    return KindError(f"{op.label or op.name}: tensors of {kinds} cannot share memory with NumPy and are not supported")


# --- dtypes ------------------------------------------------------------------------------------------------------


def result_dtypes(op: Op, rule: str, dtypes: Sequence[torch.dtype], needs: Sequence[bool] = ()) -> list[torch.dtype]:
    """The dtype of each result of a rule on tensors of `dtypes`."""
    if rule == "forward":
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
    dtypes = [dtype for dtype, name in zip(dtypes, op.inputs, strict=False) if name not in facts_of(op).indices]
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
