"""Who computes a rule of an operator on NumPy's arrays: its kernel, the specification, or the rule of its record (`ROUTES`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import cache
from typing import Any

import numpy as np

from windowgrad.checks import Kind
from windowgrad.dtypes import native
from windowgrad.errors import DivisionError, KindError, OptionError, WindowError, WindowgradError
from windowgrad.facts import Facts, Kernels
from windowgrad.foreign import computes_itself
from windowgrad.interrupts import put_off
from windowgrad.loading import loading
from windowgrad.params import Params
from windowgrad.spec.op import Op

NOT_SCALARS = (str, bytes, type(None), complex, np.complexfloating, list, tuple, dict, set, type, np.ndarray)


@np.errstate(all="ignore")
def by_spec(op: Op, rule: str, params: Params, arrays: Sequence[Any], **told: Any) -> Any:
    """The meaning itself, over whatever scalars the arrays hold. It does not write into an array, and gives all gradients."""
    kinds = {kind for array in arrays for kind in cell_kinds(array)}
    for kind in kinds:
        if issubclass(kind, NOT_SCALARS):
            raise KindError(f"{op.name}: unsupported elements of type {kind.__name__}; must be real numbers")
    try:
        return getattr(op, rule)(params, *arrays)
    except (TypeError, ArithmeticError, ValueError) as error:
        if isinstance(error, WindowgradError):
            raise
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        ours = (
            KindError
            if isinstance(error, TypeError)
            else DivisionError
            if isinstance(error, ZeroDivisionError)
            else OptionError
        )
        raise ours(f"{op.name}: cannot compute with elements of type {names}: {error}") from error


def cell_kinds(array: np.ndarray[Any, Any]) -> set[type]:
    """The types of the cells of an array of objects. What computes for itself stands for an array, and in none."""
    kinds = set(map(type, array.reshape(-1)))  # not `flat`, which has at most 32 axes
    for kind in kinds:
        if computes_itself(kind) is not None:
            raise KindError(
                f"an object array with elements of type {kind.__name__}: the gradient would be lost; "
                f"apply functions of wg to each {kind.__name__} itself"
            )
    return kinds


@np.errstate(all="ignore")
def by_kernel(op: Op, rule: str, params: Params, arrays: Sequence[Any], **told: Any) -> Any:
    """A kernel over machine numbers. NaN and infinity are results, not warnings.

    It may write into `out`, leave away the gradients that are not in `needs`, and use what the forward rule `saved`, if it is
    told of them and can.
    """
    kernel = kernel_of(op, rule) if params.where is None else masked_kernel(op, rule)
    if told:
        facts = facts_of(op)
        can = {"out": facts.writes_out, "needs": facts.chooses_gradients, "saved": True}
        told = {name: value for name, value in told.items() if can[name]}
    try:
        return kernel(params, *map(native, arrays), **told)
    except OverflowError as error:
        raise too_many(op) from error


def too_many(op: Op) -> WindowError:
    """The error for counts beyond float64: a kernel of 10**400 cells."""
    return WindowError(f"{op.name}: a window has too many cells for float64; use x.astype(object) to compute exactly")


def kernel_of(op: Op, rule: str) -> Callable[..., Any]:
    """The compiled function of one rule."""
    return getattr(loaded(facts_of(op).kernels), rule)  # type: ignore[no-any-return]


def masked_kernel(op: Op, rule: str) -> Callable[..., Any]:
    """The same for arrays of which a mask leaves cells out."""
    kernels = facts_of(op).masked
    assert kernels is not None, op.name
    return getattr(loaded(kernels), rule)  # type: ignore[no-any-return]


@cache
def loaded(kernels: Callable[[], Kernels]) -> Kernels:
    """Their module loads Numba, so not before it is needed."""
    with put_off(), loading:  # Numba does not stand an import that was stopped in the middle
        return kernels()


def facts_of(op: Op) -> Facts:
    """The facts of an operator that has kernels."""
    assert op.facts is not None, op.name
    return op.facts


def by_record(op: Op, rule: str, params: Params, arrays: Sequence[Any], **told: Any) -> Any:
    """The rule of the record, which is written for machine numbers as well; forward with NumPy, the others with operators."""
    return by_numpy(op, params, arrays) if rule == "forward" else getattr(op, rule)(params, *arrays)


def by_numpy(op: Op, params: Params, arrays: Sequence[Any]) -> Any:
    return in_silence(op.forward, params, *map(native, arrays))


SILENT: list[Context] = []
"""Contexts in which NumPy ignores floating-point errors, for one call each at a time: entering one takes 0.05 µs, making and
setting an error state 0.45. Only NumPy's functions on machine numbers run there, which ask for no other variable."""


def silent() -> Context:
    """A context that nobody is in."""
    try:
        return SILENT.pop()
    except IndexError:
        made = Context()
        made.run(np.seterr, all="ignore")
        return made


def in_silence(forward: Callable[..., Any], params: Params, *arrays: Any) -> Any:
    """NaN and infinity are results, not warnings."""
    context = silent()
    try:
        return context.run(forward, params, *arrays)
    finally:
        SILENT.append(context)


def array_in_silence(numbers: Callable[..., Any], params: Params, *arrays: Any) -> Any:
    """The same of a function that may give one of NumPy's scalars, which becomes an array."""
    context = silent()
    try:
        y = context.run(numbers, params, *arrays)
    finally:
        SILENT.append(context)
    return y if type(y) is np.ndarray else np.asarray(y)


Route = Callable[..., Any]
ROUTES: tuple[tuple[str, Callable[[Op, Sequence[Kind]], bool], Route], ...] = (
    # the arrays                     recognised by                                              computed by
    ("NumPy arrays of objects", lambda op, kinds: any(dtype.kind == "O" for _, dtype in kinds), by_spec),
    ("NumPy arrays of numbers", lambda op, kinds: op.facts is not None, by_kernel),
    ("the same, without a kernel", lambda op, kinds: op.native, by_record),
)
