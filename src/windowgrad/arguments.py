"""Parsing the arguments of a call: integers, one entry per axis, (before, after) pairs; an error that says what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from operator import index
from typing import cast

import numpy as np

from windowgrad.errors import KindError, WindowError, show

Size = int | Sequence[int]
Pairs = tuple[tuple[int, int], ...]
Padding = int | Sequence[int | Sequence[int]]


def is_masked(array: object) -> bool:
    """Whether this is a NumPy masked array. `numpy.ma` is not imported to find out: whoever has one has imported it."""
    return isinstance(array, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


def as_int(name: str, value: object, least: int, where: str = "") -> int:
    """`value` as a Python int that is at least `least`; floats and bools are not integers."""
    if isinstance(value, (bool, np.bool_)):
        raise KindError(f"{name}={show(value)}{where}: must be an integer, not a bool")
    try:
        number = index(value)  # type: ignore[arg-type]  # anything may come in; TypeError says it is not an integer
    except TypeError:
        raise KindError(f"{name}={show(value)}{where}: must be an integer, not {type(value).__name__}") from None
    if number < least:
        wanted = "must not be negative" if least == 0 else f"must be at least {least}"
        raise WindowError(f"{name}={show(number)}{where}: {wanted}")
    return number


def is_int(value: object) -> bool:
    """Whether this is an integer of any type, but not a bool."""
    try:
        index(value)  # type: ignore[arg-type]  # anything may come in
    except TypeError:
        return False
    return not isinstance(value, (bool, np.bool_))


MOST_AXES = 64
"""The most axes a NumPy array can have."""


def _is_sequence(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))


def axes(name: str, value: object, rank: int | None = None, forms: bool = False) -> tuple[object, ...]:
    """One entry per axis. With a known rank a single value applies to every axis; without a rank it is an error.

    `forms` says that the function has 1d, 2d and 3d forms, which take a single value.
    """
    if not _is_sequence(value):
        if isinstance(value, (set, frozenset, dict)):
            wanted = "an integer or a tuple with one entry per axis"
            raise KindError(f"{name}={show(value)}: must be {wanted}, not {type(value).__name__}")
        if rank is not None:
            return (value,) * rank
        hint = (
            f"; write ({value}, {value}) for two axes"
            if isinstance(value, int) and value.bit_length() < 64
            else f", not {type(value).__name__}"
        )
        other = ", or call the 1d, 2d or 3d function" if hint[0] == ";" and forms else ""
        raise KindError(f"{name}={show(value)}: must be a tuple with one entry per axis{hint}{other}")
    count = len(cast(Sequence[object], value))
    if count > MOST_AXES or (rank is not None and count != rank):
        shown = show(tuple(cast(Iterable[object], value)) if count <= MOST_AXES else value)
        wanted = f"for {counted('axis', rank)}" if rank is not None else f"an array has at most {MOST_AXES} axes"
        hint = "; for a (before, after) pair write ((before, after),)" if (name, rank) == ("padding", 1) else ""
        raise WindowError(f"{name}={shown}: has {counted('entry', count)}{', ' if rank is None else ' '}{wanted}{hint}")
    if not count:
        raise WindowError(f"{name}=(): must have at least one entry")
    return tuple(cast(Iterable[object], value))


def counted(word: str, count: int) -> str:
    """`1 axis`, `2 axes`."""
    return f"{show(count)} {word if count == 1 else {'axis': 'axes', 'entry': 'entries'}.get(word, word + 's')}"


def shape_of(name: str, array: object) -> tuple[int, ...]:
    """The shape of what should be an array; a class is not an array, even if its instances are."""
    shape = None if isinstance(array, type) else getattr(array, "shape", None)
    if not isinstance(shape, (tuple, list)):
        kind = f"the class {array.__name__}" if isinstance(array, type) else type(array).__name__
        raise KindError(f"{name}: must be an array, not {kind}; write numpy.asarray(...)")
    return tuple(shape)


def sizes(name: str, value: object) -> tuple[int, ...]:
    """A shape: any number of non-negative integers."""
    if type(value) is tuple and all(type(n) is int and n >= 0 for n in value):
        return value
    if not _is_sequence(value):
        raise KindError(f"{name}={show(value)}: must be a tuple of integers, not {type(value).__name__}")
    return ints(name, value, least=0) if len(cast(Sequence[object], value)) else ()


def ints(name: str, value: object, rank: int | None = None, least: int = 1) -> tuple[int, ...]:
    """One integer per axis, each at least `least`."""
    return tuple(as_int(name, v, least, f" on axis {a}") for a, v in enumerate(axes(name, value, rank)))


def pairs(name: str, value: object, rank: int | None = None) -> Pairs:
    """One (before, after) pair per axis; a single integer is used for both."""

    def pair(axis: int, entry: object) -> tuple[int, int]:
        if _is_sequence(entry) and len(cast(Sequence[object], entry)) != 2:
            raise WindowError(f"{name}={show(entry)} on axis {axis}: must be an integer or a (before, after) pair")
        both = tuple(cast(Iterable[object], entry)) if _is_sequence(entry) else (entry, entry)
        try:
            return as_int(name, both[0], 0), as_int(name, both[1], 0)
        except (KindError, WindowError) as error:  # name the whole entry, not the half of it
            said = str(error).partition(": ")[2]
            raise type(error)(f"{name}={show(entry)} on axis {axis}: {said}") from None

    return tuple(pair(a, entry) for a, entry in enumerate(axes(name, value, rank)))


def flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise KindError(f"{name}={show(value)}: must be True or False")
    return bool(value)


def flags(name: str, value: object, rank: int) -> tuple[bool, ...]:
    """One bool per axis."""
    return tuple(flag(name, entry) for entry in axes(name, value, rank))
