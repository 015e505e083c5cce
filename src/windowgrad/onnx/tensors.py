"""Stored tensors as NumPy arrays. The sizes that a file claims are compared with the bytes it has before anything is made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, show
from windowgrad.loading import loading

NAMES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
"""The dtypes of ONNX that are computed with, by their numbers in `TensorProto.DataType`."""
FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data"}
"""Where the numbers of a dtype are if they are not raw; all others are in int32_data."""


def dtype_of(where: str, number: int) -> np.dtype[Any]:
    if number not in NAMES:
        raise KindError(f"{where}: unsupported dtype {named(number)}; must be one of {', '.join(NAMES.values())}")
    if NAMES[number] == "bfloat16":
        with loading:
            import ml_dtypes  # noqa: F401  # it tells NumPy of bfloat16
    return np.dtype(NAMES[number])


def named(number: int) -> str:
    """A dtype as ONNX calls it."""
    from onnx import TensorProto

    known: dict[int, str] = {value: name for name, value in TensorProto.DataType.items()}
    return known.get(number, str(number))


def shape_of_tensor(where: str, tensor: Any) -> tuple[int, ...]:
    shape = tuple(tensor.dims)
    if len(shape) > 64 or any(n < 0 for n in shape):
        raise OptionError(f"{where}: dims={show(shape)}: must be at most 64 sizes, none negative")
    return shape


def nbytes(where: str, tensor: Any) -> int:
    """How many bytes its shape and dtype need."""
    return math.prod(shape_of_tensor(where, tensor)) * dtype_of(where, tensor.data_type).itemsize


def array_of(where: str, tensor: Any) -> np.ndarray[Any, Any]:
    """The tensor as a read-only array; its data is inside."""
    dtype, shape = dtype_of(where, tensor.data_type), shape_of_tensor(where, tensor)
    need, count = nbytes(where, tensor), math.prod(shape)
    if tensor.HasField("raw_data"):
        data = tensor.raw_data
        if len(data) != need:
            raise OptionError(f"{where}: has {len(data)} bytes, but shape {show(shape)} of {dtype} needs {need}")
        array: np.ndarray[Any, Any] = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    else:
        from onnx import numpy_helper

        held = getattr(tensor, FIELDS.get(tensor.data_type, "int32_data"))
        if len(held) != count:
            raise OptionError(f"{where}: has {len(held)} numbers, but shape {show(shape)} needs {count}")
        try:
            array = numpy_helper.to_array(tensor)
        except (ValueError, OverflowError) as error:
            raise OptionError(f"{where}: has numbers that are not {dtype}: {error}") from None
    array.flags.writeable = False
    return array
