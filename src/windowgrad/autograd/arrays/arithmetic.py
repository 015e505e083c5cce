"""+ − × ÷ and the matrix product. Arrays are broadcast together; a Python number takes the dtype of the array."""

from __future__ import annotations

import math
import operator
from functools import cache, partial
from typing import Any

import numpy as np

from windowgrad.autograd.arrays.operands import operand, operands
from windowgrad.autograd.arrays.records import EachParams, MatmulParams, PairParams
from windowgrad.autograd.arrays.rules import Array, by_cell, by_ufunc, native_op, sum_to
from windowgrad.autograd.arrays.shapes import reshape, transpose
from windowgrad.dispatch import run
from windowgrad.dtypes import conv_dtype
from windowgrad.errors import WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.interrupts import put_off
from windowgrad.loading import loading
from windowgrad.params import Params, Shape
from windowgrad.spec import scalar

EACH, PAIR, MATMUL_PARAMS = EachParams(), PairParams(), MatmulParams()

LEAST = 1 << 14
"""Cells; with fewer NumPy is fast enough."""
LEAST_PRODUCTS = 1 << 18
"""Of numbers, in a product of matrices; OpenBLAS 0.3.31 uses threads from about twice as many on."""
KERNEL_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})

Needs = tuple[bool, ...]
ALL: Needs = (True, True)


def add(a: Any, b: Any) -> Any:
    """a + b, elementwise."""
    try:
        return run(ADD, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, add, locals())
        raise


def subtract(a: Any, b: Any) -> Any:
    """a − b, elementwise."""
    try:
        return run(SUBTRACT, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, subtract, locals())
        raise


def multiply(a: Any, b: Any) -> Any:
    """a × b, elementwise."""
    try:
        return run(MULTIPLY, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, multiply, locals())
        raise


def divide(a: Any, b: Any) -> Any:
    """a ÷ b, elementwise. NumPy integers give float64; Python integers in an object array give fractions."""
    try:
        return run(DIVIDE, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, divide, locals())
        raise


def negative(x: Any) -> Any:
    """−x, elementwise."""
    try:
        return run(NEGATIVE, "forward", EACH, operand(x))
    except WindowgradError as error:
        show_call(error, negative, locals())
        raise


def matmul(a: Any, b: Any) -> Any:
    """The matrix product over the last two axes; the axes before them are broadcast. An array of one axis is a vector.

    Floats of 16 bits are summed in float32. Integers of 8 bits are summed in int32, longer ones in int64.
    """
    try:
        return run(MATMUL, "forward", MATMUL_PARAMS, *operands(a, b))
    except WindowgradError as error:
        show_call(error, matmul, locals())
        raise


# --- rules -------------------------------------------------------------------------------------------------------


@cache
def elementwise() -> Any:
    """Its kernels. It loads Numba, so not before it is needed."""
    with put_off(), loading:
        from windowgrad.kernels.elementwise import relu
    return relu


def large(a: Any, b: Any) -> bool:
    """Whether kernels are for two arrays like these."""
    return type(a) is np.ndarray and type(b) is np.ndarray and a.size >= LEAST and elementwise().fits(a, b)


def _add(params: Params, a: Array, b: Array) -> Any:
    return elementwise().added(a, b) if a.size >= LEAST and large(a, b) else by_ufunc(np.add, params, a, b)


def _add_push(params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    return add(da, db)


def _add_pull(params: Params, a: Any, b: Any, g: Any) -> tuple[Any, Any]:
    return g, g


def _subtract_push(params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    return subtract(da, db)


def _subtract_pull(params: Params, a: Any, b: Any, g: Any, needs: Needs = ALL) -> tuple[Any, Any]:
    return g, negative(g) if needs[1] else None


def _multiply_push(params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    return add(multiply(da, b), multiply(a, db))


def _multiply_pull(params: Params, a: Any, b: Any, g: Any, needs: Needs = ALL) -> tuple[Any, Any]:
    return multiply(g, b) if needs[0] else None, multiply(g, a) if needs[1] else None


def _divide(params: Params, a: Array, b: Array) -> Any:
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        return np.divide(a, b, dtype=np.float64)
    return by_ufunc(np.divide, params, a, b)


def _divide_push(params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    return divide(subtract(da, multiply(divide(a, b), db)), b)


def _divide_pull(params: Params, a: Any, b: Any, g: Any, needs: Needs = ALL) -> tuple[Any, Any]:
    part = divide(g, b)
    return part, negative(multiply(part, divide(a, b))) if needs[1] else None


def _negative_push(params: Params, x: Any, dx: Any) -> Any:
    return negative(dx)


def _negative_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (negative(g),)


def _matmul(params: Params, a: Array, b: Array) -> Any:
    if a.dtype == b.dtype and a.dtype.itemsize > 2 and a.dtype.kind == "f":
        return _product(a, b)
    dtype = conv_dtype(a.dtype, b.dtype)
    wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    return _product(a.astype(wide, copy=False), b.astype(wide, copy=False)).astype(dtype, copy=False)


def _product(a: Array, b: Array) -> Any:
    """By kernels, where NumPy's would leave threads behind that take the CPUs from ours (`kernels/conv/matrices.py`)."""
    return matrices().multiplied(a, b) if a.dtype in KERNEL_FLOATS and is_large_product(a.shape, b.shape) else np.matmul(a, b)


def is_large_product(a: Shape, b: Shape) -> bool:
    """Whether kernels multiply arrays of these shapes: rows with a matrix, rows with a column, or a row with a matrix; if that
    is very many products."""
    fits = len(a) > 0 and 0 < len(b) <= 2 < len(a) + len(b) and a[-1] == b[0]
    return fits and math.prod(a) * math.prod(b[1:]) >= LEAST_PRODUCTS


@cache
def matrices() -> Any:
    """It loads Numba, so not before it is needed."""
    with put_off(), loading:
        from windowgrad.kernels.conv import matrices
    return matrices


def _matmul_objects(params: Params, a: Array, b: Array) -> Any:
    return np.matmul(a, b)


def _matmul_push(params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    return add(matmul(da, b), matmul(a, db))


def _matmul_pull(params: Params, a: Any, b: Any, g: Any, needs: Needs = ALL) -> tuple[Any, Any]:
    """g·bᵀ and aᵀ·g, of the matrices that vectors stand for; rows that all meet one matrix are taken together."""
    rows = reshape(a, (1, *a.shape)) if a.ndim == 1 else a
    columns = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    lead = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    g = shaped(g, (*lead, rows.shape[-2], columns.shape[-1]))
    if columns.ndim == 2:
        rows, g = (shaped(x, (math.prod(x.shape[:-1]), x.shape[-1])) for x in (rows, g))
    ga = shaped(sum_to(matmul(g, turned(columns)), rows.shape), a.shape) if needs[0] else None
    gb = shaped(sum_to(matmul(turned(rows), g), columns.shape), b.shape) if needs[1] else None
    return ga, gb


def turned(x: Any) -> Any:
    """The last two axes change places."""
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def shaped(x: Any, shape: Shape) -> Any:
    return x if x.shape == shape else reshape(x, shape)


BOTH = ("a", "b")
ADD = native_op("add", PairParams, _add, partial(by_cell, operator.add), _add_push, _add_pull, inputs=BOTH)
SUBTRACT = native_op(
    "subtract",
    PairParams,
    partial(by_ufunc, np.subtract),
    partial(by_cell, operator.sub),
    _subtract_push,
    _subtract_pull,
    inputs=BOTH,
)
MULTIPLY = native_op(
    "multiply",
    PairParams,
    partial(by_ufunc, np.multiply),
    partial(by_cell, operator.mul),
    _multiply_push,
    _multiply_pull,
    linear=True,
    inputs=BOTH,
)
DIVIDE = native_op("divide", PairParams, _divide, partial(by_cell, scalar.divide), _divide_push, _divide_pull, inputs=BOTH)
NEGATIVE = native_op(
    "negative",
    EachParams,
    partial(by_ufunc, np.negative),
    partial(by_cell, operator.neg),
    _negative_push,
    _negative_pull,
    linear=True,
)
MATMUL = native_op("matmul", MatmulParams, _matmul, _matmul_objects, _matmul_push, _matmul_pull, linear=True, inputs=BOTH)
