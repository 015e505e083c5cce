"""What the array operators compute with: tensors of supported dtypes, made of NumPy arrays and numbers where they are not.

Dtypes are those of NumPy arrays; bfloat16 alone stays, and among others counts as float32.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch

from windowgrad.bridges.torch.memory import COMPUTED, TENSORS, numpy_dtype, promoted
from windowgrad.checks import check_array
from windowgrad.dtypes import conv_dtype, float_of, native
from windowgrad.errors import KindError, OptionError, show
from windowgrad.foreign import kind_of

Tensor = torch.Tensor


def as_tensor(name: str, array: Any, device: torch.device) -> Tensor:
    """A tensor of a dtype that is supported; a NumPy array as one that shares its memory, if it can."""
    if isinstance(array, Tensor):
        if array.dtype not in COMPUTED:
            raise KindError(f"{name}: unsupported dtype {array.dtype}; must be bool, an integer, or a float of 16 to 64 bits")
        return array
    if not isinstance(array, np.ndarray):
        wanted = f"must be a tensor or a NumPy array beside a tensor, not {kind_of(array)}"
        raise KindError(f"{name}: {wanted}; torch.autograd differentiates tensors")
    check_array(name, array)
    if array.dtype.kind == "O":
        raise KindError(f"{name}: unsupported dtype object together with a tensor")
    array = native(array)
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):  # of which PyTorch has none
        array = array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def number(name: str, x: Any, beside: Tensor) -> Tensor:
    """A Python number in the dtype it has beside a tensor: a float of its size, or an integer where both are integers."""
    dtype = beside.dtype
    if isinstance(x, bool):
        dtype = torch.bool
    elif not dtype.is_floating_point:
        dtype = TENSORS[np.result_type(numpy_dtype(dtype), 0 if isinstance(x, Integral) else 0.0)]
    try:
        value = int(x) if isinstance(x, Integral) and not dtype.is_floating_point else float(x)
        return torch.tensor(value, dtype=dtype, device=beside.device)
    except (RuntimeError, OverflowError):
        raise OptionError(f"{name}={show(x)}: does not fit into {dtype}, the dtype it takes from the other operand") from None


# --- dtypes ------------------------------------------------------------------------------------------------------


def alike(*xs: Tensor) -> list[Tensor]:
    """In one dtype, the one they promote to."""
    dtype = promoted([x.dtype for x in xs])
    return [x.to(dtype) for x in xs]


def float_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point else TENSORS[float_of(numpy_dtype(dtype))]


def floats(x: Tensor) -> Tensor:
    """Integers as the floats that a function of them has."""
    return x.to(float_dtype(x.dtype))


def wide_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which floats are summed: float32 for 16 bits."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize == 2 else dtype


def product_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """That of a sum of products: bfloat16 among others counts as float32, and alone stays."""
    if set(dtypes) == {torch.bfloat16}:
        return torch.bfloat16
    return TENSORS[conv_dtype(*map(numpy_dtype, dtypes))]


def refuse_bools(name: str, *xs: Tensor) -> None:
    if all(x.dtype == torch.bool for x in xs):
        kinds = "dtypes bool and bool" if len(xs) > 1 else "dtype bool"
        raise KindError(f"{name}: unsupported {kinds}; convert it first, for example with x.int()")


def is_seen(*xs: Tensor) -> bool:
    """Whether the cells of the tensors can be looked at now: nobody compiles, traces or batches."""
    hidden = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or torch._C._is_tracing()
    return not hidden and not torch._C._len_torch_dispatch_stack() and not any(x.is_meta for x in xs)
